use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::read::SequenceLabel;
use crate::read::csv::{ColumnRef, CsvOptions};

/// How sequences are read. Plain data: every field has a default.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct SequenceOptions {
    /// How the files are read. The options are the same for all files: delimiter, header and columns are detected in
    /// the first file, types are inferred from some records of all files, and class names are collected from all
    /// records.
    pub csv: CsvOptions,
    /// Which steps have a label.
    pub label: SequenceLabel,
    /// Maximum size of an unpacked file in bytes, if each file is a sequence: it is read as a whole.
    pub max_sequence_bytes: u64,
    /// For a [source](crate::settings::SourceConfig): the column whose equal values make a sequence. Otherwise each
    /// file of a folder is a sequence.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub group_by: Option<ColumnRef>,
    /// For a source: where the labels come from, if not from the same files. The sequences of one name belong together,
    /// as for [`CsvSequenceReader::aligned`](super::CsvSequenceReader::aligned).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub labels: Option<PathBuf>,
    /// For a source with separate labels: how features and labels of different length are aligned.
    pub align: Align,
    /// For a source with separate labels: what to do with sequences without a partner.
    pub unpaired: Unpaired,
}

impl Default for SequenceOptions {
    fn default() -> Self {
        Self {
            csv: CsvOptions::default(),
            label: SequenceLabel::default(),
            max_sequence_bytes: 256 << 20,
            group_by: None,
            labels: None,
            align: Align::default(),
            unpaired: Unpaired::default(),
        }
    }
}

/// How the steps of features and labels are aligned.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Align {
    /// Both must have the same number of steps.
    #[default]
    Equal,
    /// The first steps belong together; the shorter one is padded at the end.
    Start,
    /// The last steps belong together; the shorter one is padded at the beginning.
    End,
}

/// What to do with sequences of one reader that have no partner in the other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Unpaired {
    /// Opening is an error.
    #[default]
    Error,
    /// They are left out, if names or numbers in them say which they are.
    Drop,
}
