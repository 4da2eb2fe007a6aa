//! Sequences in CSV files: one file per sequence, or the rows of one file that have the same value in a column.
//!
//! Reading order: `options`, `reader`, `source` (which rows make a sequence), `aligned` (features and labels from two
//! readers).

mod aligned;
mod entry;
mod options;
mod reader;
mod source;
mod summary;

pub use aligned::AlignedSequences;
pub use entry::CsvSequences;
pub use options::{Align, SequenceOptions, Unpaired};
pub use reader::CsvSequenceReader;
pub use summary::{SequenceRecord, SequenceSummary};
