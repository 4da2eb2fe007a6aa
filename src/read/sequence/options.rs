use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::read::csv::{ColumnRef, CsvOptions};

/// How sequences are read. Plain data: every field has a default.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct SequenceOptions {
    /// How the files are read. One choice holds for all files; delimiter, header and columns are detected in the first one,
    /// types are inferred from records of all, class names from all of them.
    pub csv: CsvOptions,
    /// Which steps have a label.
    pub label: SequenceLabel,
    /// Largest file, unpacked, if each file is a sequence: it is read as a whole.
    pub max_sequence_bytes: u64,
    /// For a [source](crate::settings::SourceConfig): the column whose equal values make a sequence. Otherwise each file of a
    /// folder is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub group_by: Option<ColumnRef>,
    /// For a source: where the labels come from, if not from the same files.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub labels: Option<PathBuf>,
    /// For a source with labels of its own: how features and labels of different length lie to each other.
    pub align: Align,
    /// For a source with labels of its own: what becomes of sequences without a partner.
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

/// Which steps of a sequence have a label.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SequenceLabel {
    /// Each: labels are `[steps, ...]` and have a mask.
    #[default]
    EachStep,
    /// The sequence as a whole: that of its last step.
    Last,
    /// The sequence as a whole: all steps must say the same.
    Constant,
}

/// How the steps of features and labels lie to each other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Align {
    /// Both have as many.
    #[default]
    Equal,
    /// The first step of one is that of the other; the shorter one is padded behind.
    Start,
    /// The last step of one is that of the other; the shorter one is padded before.
    End,
}

/// What becomes of the sequences of one reader that have no partner in the other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Unpaired {
    /// Opening is an error.
    #[default]
    Error,
    /// The surplus of the longer reader is left out.
    Drop,
}
