//! The table of formats.

use std::sync::Arc;

use crate::read::{
    AudioFolder, Csv, CsvSequences, Idx, Images, Jsonl, Libsvm, LitData, Mds, Npy, Npz, Raw, Safetensors, Tar,
    TextFiles, TextLines, TextTokens, TfRecord, Tokens,
};

use super::Format;
use super::any::AnyFormat;

/// The known formats: the built-in ones and your own. A clone is cheap.
#[derive(Clone, Debug)]
pub struct Formats(Arc<[AnyFormat]>);

impl Default for Formats {
    fn default() -> Self {
        Self::new()
    }
}

impl Formats {
    /// The built-in formats. Files are recognised in this order.
    pub fn new() -> Self {
        Self(Arc::new([
            AnyFormat::new(Images),
            AnyFormat::new(AudioFolder),
            AnyFormat::new(Tar),
            AnyFormat::new(CsvSequences),
            AnyFormat::new(Idx),
            AnyFormat::new(Npy),
            AnyFormat::new(Npz),
            AnyFormat::new(Safetensors),
            #[cfg(feature = "parquet")]
            AnyFormat::new(crate::read::Parquet),
            #[cfg(feature = "parquet")]
            AnyFormat::new(crate::read::Arrow),
            AnyFormat::new(TfRecord),
            AnyFormat::new(Mds),
            AnyFormat::new(LitData),
            AnyFormat::new(Jsonl),
            AnyFormat::new(Libsvm),
            AnyFormat::new(Csv),
            AnyFormat::new(Raw),
            AnyFormat::new(Tokens),
            AnyFormat::new(TextLines),
            AnyFormat::new(TextFiles),
            AnyFormat::new(TextTokens),
        ]))
    }

    /// Adds a format, which is asked first whether a file is its own. It replaces a format with the same name.
    #[must_use]
    pub fn with<F: Format>(self, format: F) -> Self {
        let others = self.0.iter().filter(|other| other.name() != F::NAME).cloned();
        Self(std::iter::once(AnyFormat::new(format)).chain(others).collect())
    }

    /// Their names.
    pub fn names(&self) -> Vec<&'static str> {
        self.0.iter().map(|format| format.name()).collect()
    }

    /// The names of their files in messages, in the plural, for the formats that can be recognised.
    pub fn titles(&self) -> impl Iterator<Item = &'static str> {
        self.all().iter().filter_map(|format| format.title())
    }

    pub(super) fn named(&self, name: &str) -> Option<AnyFormat> {
        self.0.iter().find(|format| format.name() == name).cloned()
    }

    pub(super) fn all(&self) -> &[AnyFormat] {
        &self.0
    }
}
