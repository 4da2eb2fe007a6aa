use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::error::{Error, ErrorKind, Result};
use crate::read::SavedIndex;
use crate::storage::Access;

use super::encoding::encoding_named;

/// How a CSV file is read. Plain data: every part has a default. What becomes of its columns is said by [fields](crate::field).
///
/// Without fields, every number column becomes an element of one f32 tensor `features`, a column named `label`, `target`,
/// `class` or `y` becomes the tensor `labels` (classes if it holds text, `i64` if it holds integers, otherwise f32 `[1]`), and
/// other text columns are not fed. In fields, that is
///
/// ```toml
/// features = { from = "*", numbers = "f32" }
/// labels = { from = "species", class = [], role = "label" } # or numbers = "i64", or numbers = "f32"
/// ```
///
/// What is not said is inferred when the file is opened. Types come from 8192 records at most, spread over the file: a
/// later value that does not fit is an error that says so. The names of classes and categories that are not listed are looked
/// for in all records, in their columns alone. Fields that name their columns and list their classes leave nothing to be
/// inferred.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct CsvOptions {
    /// What separates fields. `None` detects it among comma, semicolon, tab and bar from the first 64 KiB: a tab if every
    /// record has as many, otherwise the one that gives most fields, equally many in every record; a file called `.tsv`
    /// has tabs if there are any.
    pub delimiter: Option<char>,
    /// Whether the first record holds the names of the columns.
    pub header: Header,
    /// Records that begin with this character are skipped. Blank lines always are.
    pub comment: Option<char>,
    /// What quotes a field; doubled, it stands for itself (RFC 4180).
    pub quote: char,
    /// The text's encoding, by any of its [names on the web](https://encoding.spec.whatwg.org/#names-and-labels), such
    /// as `"latin1"` or `"utf-16le"`. `None` is UTF-8.
    pub encoding: Option<String>,
    /// How the file's bytes are reached. A compressed or transcoded file is always unpacked first.
    pub access: Access,
    /// Threads that find the records and infer types and names when a file is opened for reading at random, 1024 at most;
    /// `None`: one for each core.
    pub threads: Option<usize>,
    /// Where the places of the records, and what the columns hold, are kept for the next run. With it, a file whose size
    /// and modification time are the same is opened without reading it. Of a file that was written less than a second ago
    /// nothing is kept.
    pub saved_index: SavedIndex,
    /// Longest record, in bytes: what bounds memory when a quote is never closed.
    pub max_record_bytes: usize,
    /// Most columns, 131,072 by default: what bounds time and memory where text that is no table is taken for one. Each column
    /// costs some hundred bytes while a file is opened.
    pub max_columns: usize,
    /// Most bytes that a compressed or transcoded file may unpack to.
    pub max_unpacked_bytes: u64,
    /// Fields that stand for a missing value, compared without surrounding blanks. One that is a number stands for that
    /// number however it is written: `-999` for `-999.0`, too. By default those of pandas.
    pub missing_tokens: Vec<String>,
    /// What becomes of a missing value in a number column whose field does not say it.
    pub missing: Missing,
}

/// The fields that pandas reads as missing values.
const PANDAS_MISSING: [&str; 19] = [
    "", "#N/A", "#N/A N/A", "#NA", "-1.#IND", "-1.#QNAN", "-NaN", "-nan", "1.#IND", "1.#QNAN", "<NA>", "N/A", "NA",
    "NULL", "NaN", "None", "n/a", "nan", "null",
];

impl Default for CsvOptions {
    fn default() -> Self {
        Self {
            delimiter: None,
            header: Header::Auto,
            comment: None,
            quote: '"',
            encoding: None,
            access: Access::Read,
            threads: None,
            saved_index: SavedIndex::Off,
            max_record_bytes: 16 << 20,
            max_columns: 1 << 17,
            max_unpacked_bytes: 64 << 30,
            missing_tokens: PANDAS_MISSING.map(str::to_owned).to_vec(),
            missing: Missing::Error,
        }
    }
}

impl CsvOptions {
    /// Everything that is wrong with these options, as far as it can be told without the file; empty if nothing is.
    pub fn faults(&self) -> Vec<String> {
        let mut faults = Vec::new();
        if let Some(Err(error)) = self.encoding.as_deref().map(encoding_named) {
            faults.push(format!("encoding: {}", error.message()));
        }
        let mut marks = vec![("quote", self.quote)];
        marks.extend(self.delimiter.map(|mark| ("delimiter", mark)));
        marks.extend(self.comment.map(|mark| ("comment", mark)));
        for (index, (what, mark)) in marks.iter().enumerate() {
            if !mark.is_ascii() || matches!(mark, '\r' | '\n' | '\0') {
                faults.push(format!("{what}: {mark:?} must be one ASCII character other than a line end"));
            } else if *what == "delimiter" && (mark.is_ascii_alphanumeric() || matches!(mark, '.' | '+' | '-')) {
                faults.push(format!("delimiter: {mark:?} may be part of a number; choose another"));
            } else if let Some((other, _)) = marks[..index].iter().find(|(_, other)| other == mark) {
                faults.push(format!("{what}: {what} and {other} are both {mark:?}; they must differ"));
            }
        }
        faults
    }
}

/// Whether the first record holds the names of the columns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Header {
    /// Decided from the first 1001 records; missing values decide nothing.
    ///
    /// It is a header if some column has text there and numbers alone below. If no column tells, it is one if its fields
    /// are all there, distinct, not numbers, and none occurs again below in its own column. A file of a single record
    /// has a header if none of its fields is a number.
    #[default]
    Auto,
    /// It does.
    Yes,
    /// It does not: columns are called `column_1`, `column_2` and so on.
    No,
}

impl FromStr for Header {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self> {
        match name {
            "auto" => Ok(Self::Auto),
            "yes" => Ok(Self::Yes),
            "no" => Ok(Self::No),
            _ => Err(Error::new(ErrorKind::Config, format!("header is \"auto\", \"yes\" or \"no\", not {name:?}"))),
        }
    }
}

/// What becomes of a missing value in a number column. A missing class is always an error.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Missing {
    /// The record is bad.
    #[default]
    Error,
    /// It becomes NaN; in a column of integers the record is bad.
    Nan,
    /// It becomes this value, which must fit the type of every number tensor.
    Value(f64),
}

/// A column by its name in the header, or by its position from 0.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(untagged, expecting = "expected the name of a column, or its position from 0")]
pub enum ColumnRef {
    /// From 0.
    Position(usize),
    /// As in the header; `column_1` and so on without one.
    Name(String),
}

impl From<usize> for ColumnRef {
    fn from(position: usize) -> Self {
        Self::Position(position)
    }
}

impl From<&str> for ColumnRef {
    fn from(name: &str) -> Self {
        Self::Name(name.to_owned())
    }
}

impl From<String> for ColumnRef {
    fn from(name: String) -> Self {
        Self::Name(name)
    }
}

impl fmt::Display for ColumnRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Position(position) => write!(f, "{position}"),
            Self::Name(name) => write!(f, "{name:?}"),
        }
    }
}

/// What becomes of a text that is longer than its tensor.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Longer {
    /// The record is bad.
    #[default]
    Error,
    /// Its end is left out, in whole characters.
    Cut,
}
