use serde::{Deserialize, Serialize};

use crate::read::csv::CsvOptions;

/// How sequences are read. Plain data: every field has a default.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct SequenceOptions {
    /// How the files are read and which columns feed what. One choice holds for all files; delimiter, header and columns
    /// are detected in the first one, types are inferred from records of all, class names from all of them.
    pub csv: CsvOptions,
    /// Which steps have a label.
    pub label: SequenceLabel,
    /// Largest file, unpacked, if each file is a sequence: it is read as a whole.
    pub max_sequence_bytes: u64,
}

impl Default for SequenceOptions {
    fn default() -> Self {
        Self { csv: CsvOptions::default(), label: SequenceLabel::default(), max_sequence_bytes: 256 << 20 }
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
