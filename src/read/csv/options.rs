use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::error::{Error, ErrorKind, Result};
use crate::read::SavedIndex;
use crate::storage::Access;

use super::encoding::Encoding;

/// How a CSV file is read. Plain data: every part has a default. [Fields](crate::field) say how its columns are
/// decoded.
///
/// Without fields, every column of numbers becomes an element of one tensor `features` (`f32 [columns]`). A column
/// named `label`, `target`, `class` or `y` becomes the tensor `labels`: classes if it holds text, `i64` if it holds
/// integers, otherwise `f32 [1]`. Other columns of text are left out. As fields, this is
///
/// ```toml
/// features = { from = "*", numbers = "f32" }
/// labels = { from = "species", class = [], role = "label" } # or numbers = "i64", or numbers = "f32"
/// ```
///
/// Everything that is not given is inferred when the file is opened. Types come from at most 8192 records, spread over
/// the file; a later value that does not fit is an error that says so. Names of classes and categories that are not
/// listed are collected from all records, in their columns alone. With fields that name their columns and list their
/// classes, nothing is inferred.
///
/// A number is rounded once, to the nearest number of its type. A number beyond the largest is an error; `inf` and
/// `Infinity`, written as words, are infinite. A NUL is an ordinary character, but a file with one in its first 64 KiB
/// is not detected as a table.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct CsvOptions {
    /// The character that separates fields. `None` detects it among comma, semicolon, tab and bar from the first 64
    /// KiB. It is a tab if every record has the same number of them. Otherwise it is the character that gives the most
    /// fields, equally many in every record. But it is a semicolon or a bar if a comma would cut decimal commas
    /// (`1,5;2,5`) in two. A file called `.tsv` has tabs if there are any.
    pub delimiter: Option<char>,
    /// Whether the first record holds the names of the columns.
    pub header: Header,
    /// Records that begin with this character are skipped. Empty lines always are; a line of blanks is a record.
    pub comment: Option<char>,
    /// The character that quotes a field; doubled, it stands for itself (RFC 4180).
    pub quote: char,
    /// The text's encoding, by any of its [names on the web](https://encoding.spec.whatwg.org/#names-and-labels), such
    /// as `"latin1"` or `"utf-16le"`. `None` is UTF-8.
    pub encoding: Option<String>,
    /// How the file is read. A compressed file, or one in another encoding, is always unpacked first.
    pub access: Access,
    /// Number of threads that find the records and infer types and names when a file is opened for random access, at
    /// most 1024; `None`: one for each core.
    pub threads: Option<usize>,
    /// Where the positions of the records, and the types and names of the columns, are saved for the next run. A file
    /// whose size and times (of modification and, on Unix, of the last change of its status) are the same is then
    /// opened without reading it. For a file that was written
    /// less than a second ago, nothing is saved.
    pub saved_index: SavedIndex,
    /// Maximum length of a record in bytes, which limits memory if a quote is never closed.
    pub max_record_bytes: usize,
    /// Maximum number of columns, 131,072 by default, which limits time and memory if other text is read as a table.
    /// Each column costs some hundred bytes while a file is opened.
    pub max_columns: usize,
    /// Maximum number of bytes that a file may unpack to, if it is compressed or in another encoding. A file that is
    /// read in its own order is not kept, and may be of any length.
    pub max_unpacked_bytes: u64,
    /// Texts that stand for a missing value, compared without surrounding blanks. A number, an infinity or NaN stands
    /// for that value in any form: `-999` also for `-999.0`, `inf` for `Infinity`, `nan` for `NAN`. Default: those of
    /// pandas.
    pub missing_tokens: Vec<String>,
    /// What to do with a missing value in a column of numbers, unless its field says it.
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
    /// Everything that is wrong with these options, as far as it is known without the file; empty if nothing is.
    pub fn faults(&self) -> Vec<String> {
        let mut faults = Vec::new();
        if let Some(Err(error)) = self.encoding.as_deref().map(Encoding::named) {
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
#[non_exhaustive]
pub enum Header {
    /// Decided from the first 1001 records; missing values decide nothing.
    ///
    /// It is a header if some column has text with a letter or a digit there and only numbers below: a "?" stands for an
    /// unknown number. If no column decides, it is a header if its fields are all present, distinct, not numbers, and
    /// none occurs again below in its own column. A file with a single record has a header if none of its fields is a
    /// number.
    #[default]
    Auto,
    /// Yes.
    Yes,
    /// No: columns are called `column_1`, `column_2` and so on.
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

/// What to do with a missing value in a column of numbers. A missing class is always an error, unless its text is one
/// of the listed names.
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

/// A column, by its name in the header or by its position from 0.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(untagged, expecting = "expected the name of a column, or its position from 0")]
#[non_exhaustive]
pub enum ColumnRef {
    /// Its position, from 0.
    Position(usize),
    /// Its name in the header; without a header `column_1` and so on.
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

/// What to do with a text or a list that is longer than its tensor.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Longer {
    /// The record is bad.
    #[default]
    Error,
    /// Its end is cut off, at a whole character.
    Cut,
}
