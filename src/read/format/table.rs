//! The table of formats.

use std::sync::Arc;

use crate::tree::not_allowed;

use super::Format;
use super::any::AnyFormat;

/// A line of the table, in every build.
struct BuiltIn {
    name: &'static str,
    /// The feature that includes the format, and whether this build has it.
    feature: Option<(&'static str, bool)>,
    /// Endings of the names of its files, separated by blanks.
    endings: &'static str,
}

macro_rules! table {
    ($($name:literal $(of $feature:literal)?: $endings:literal, $($type:ident)::+;)+) => {
        const TABLE: &[BuiltIn] = &[$(BuiltIn {
            name: $name,
            feature: [$(Some(($feature, cfg!(feature = $feature))),)? None][0],
            endings: $endings,
        }),+];

        fn built_in() -> Vec<AnyFormat> {
            vec![$(#[cfg(all($(feature = $feature)?))] AnyFormat::new(crate::read::$($type)::+)),+]
        }

        /// Their types.
        pub(crate) mod types {
            $(#[cfg(all($(feature = $feature)?))] pub use crate::read::$($type)::+;)+
        }
    };
}

// In the order in which they are asked whether a file is theirs; CSV last.
table! {
    "images" of "formats": "jpg jpeg png webp bmp gif tif tiff pbm pgm ppm pnm", images::Images;
    "audio" of "formats": "wav wave flac mp3 ogg oga rf64 bw64", audio::AudioFolder;
    "tar" of "formats": "tar", tar::Tar;
    "csv_sequences" of "formats": "", sequence::CsvSequences;
    "idx" of "formats": "idx", idx::Idx;
    "npy" of "formats": "npy", npy::Npy;
    "npz" of "formats": "npz", npz::Npz;
    "safetensors" of "formats": "safetensors", safetensors::Safetensors;
    "parquet" of "parquet": "parquet pq", parquet::Parquet;
    "arrow" of "parquet": "arrow arrows feather ipc", arrow::Arrow;
    "tfrecord" of "formats": "tfrecord tfrecords tfrec", tfrecord::TfRecord;
    "mds" of "formats": "mds", mds::Mds;
    "litdata" of "formats": "", litdata::LitData;
    "jsonl" of "formats": "jsonl ndjson jsonlines", jsonl::Jsonl;
    "libsvm" of "formats": "svm svmlight libsvm", libsvm::Libsvm;
    "csv": "csv tsv tab", csv::Csv;
    "raw" of "formats": "raw", raw::Raw;
    "tokens" of "formats": "bin", tokens::TokenFiles;
    "text": "txt", lines::TextLines;
    "text_files" of "formats": "", text_files::TextFiles;
    "text_tokens" of "formats": "", tokens::TextTokens;
}

/// The feature that includes the format of files with this ending, if this build lacks it.
pub(in crate::read) fn missing_feature(ending: &str) -> Option<&'static str> {
    let mut formats =
        TABLE.iter().filter(|format| format.endings.split_ascii_whitespace().any(|other| other == ending));
    formats.find_map(|format| format.feature.filter(|(_, is_there)| !is_there)).map(|(feature, _)| feature)
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
        Self(built_in().into())
    }

    /// Adds a format. It is asked before all others whether a file is its own, and replaces a format with the same
    /// name.
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

    /// The error for a name that no format has.
    pub(super) fn unknown(&self, name: &str) -> String {
        let built_in = TABLE.iter().find(|format| format.name == name);
        match built_in.and_then(|format| format.feature) {
            Some((feature, false)) => format!("the format `{name}` needs Ringfeed's feature `{feature}`"),
            _ => not_allowed(name, &self.names()),
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
    fn the_table_has_the_names_of_the_formats() {
        let is_there = |format: &&BuiltIn| format.feature.is_none_or(|(_, is_there)| is_there);
        let expected: Vec<&str> = TABLE.iter().filter(is_there).map(|format| format.name).collect();
        assert_eq!(Formats::new().names(), expected);
    }
    /// Those that are told by their content alone have an ending, too, which names what a smaller build lacks.
    #[test]
    fn the_endings_of_the_table_are_those_that_formats_know() {
        let endings = |format: &BuiltIn| format.endings.split_ascii_whitespace().collect::<Vec<_>>();
        let all: Vec<&str> = TABLE.iter().flat_map(endings).collect();
        for format in
            Formats::new().all().iter().filter(|format| !["mds", "raw", "tokens", "text"].contains(&format.name()))
        {
            let known: Vec<&str> =
                all.iter().copied().filter(|ending| format.has_name(&format!("a.{ending}"))).collect();
            let listed = TABLE.iter().find(|built_in| built_in.name == format.name()).map(endings);
            assert_eq!(listed, Some(known), "{}", format.name());
        }
    }
}
