//! The table of formats.

use std::sync::Arc;

#[cfg(feature = "formats")]
use crate::read::{
    AudioFolder, CsvSequences, Idx, Images, Jsonl, Libsvm, LitData, Mds, Npy, Npz, Raw, Safetensors, Tar, TextFiles,
    TextTokens, TfRecord, Tokens,
};
use crate::read::{Csv, TextLines};

use crate::tree::not_allowed;

use super::Format;
use super::any::AnyFormat;

/// The formats that each feature brings, by their names, and whether this build has it.
const OF_FEATURES: [(&str, bool, &[&str]); 2] = [
    (
        "formats",
        cfg!(feature = "formats"),
        &[
            "images",
            "audio",
            "tar",
            "csv_sequences",
            "idx",
            "npy",
            "npz",
            "safetensors",
            "tfrecord",
            "mds",
            "litdata",
            "jsonl",
            "libsvm",
            "raw",
            "tokens",
            "text_files",
            "text_tokens",
        ],
    ),
    ("parquet", cfg!(feature = "parquet"), &["parquet", "arrow"]),
];

/// The formats that are asked before CSV whether a file is theirs.
#[cfg(feature = "formats")]
fn before_csv() -> Vec<AnyFormat> {
    vec![
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
    ]
}

/// The formats after CSV.
#[cfg(feature = "formats")]
fn after_csv() -> Vec<AnyFormat> {
    vec![
        AnyFormat::new(Raw),
        AnyFormat::new(Tokens),
        AnyFormat::new(TextLines),
        AnyFormat::new(TextFiles),
        AnyFormat::new(TextTokens),
    ]
}

#[cfg(not(feature = "formats"))]
fn before_csv() -> Vec<AnyFormat> {
    Vec::new()
}

#[cfg(not(feature = "formats"))]
fn after_csv() -> Vec<AnyFormat> {
    vec![AnyFormat::new(TextLines)]
}

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
        Self([before_csv(), vec![AnyFormat::new(Csv)], after_csv()].concat().into())
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

    /// What is wrong with a name that no format has.
    pub(super) fn unknown(&self, name: &str) -> String {
        let mut features = OF_FEATURES.iter().filter(|(_, is_there, names)| !is_there && names.contains(&name));
        match features.next() {
            Some((feature, ..)) => format!("the format `{name}` needs Ringfeed's feature `{feature}`"),
            None => not_allowed(name, &self.names()),
        }
    }

    pub(super) fn named(&self, name: &str) -> Option<AnyFormat> {
        self.0.iter().find(|format| format.name() == name).cloned()
    }

    pub(super) fn all(&self) -> &[AnyFormat] {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_format_is_in_every_build_or_brought_by_a_feature() {
        let brought = OF_FEATURES.iter().filter(|(_, is_there, _)| *is_there).flat_map(|(.., names)| names.iter());
        let mut expected: Vec<&str> = brought.copied().chain(["csv", "text"]).collect();
        let mut names = Formats::new().names();
        expected.sort_unstable();
        names.sort_unstable();
        assert_eq!(names, expected);
    }
}
