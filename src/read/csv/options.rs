use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::dtype::DType;
use crate::error::{Error, ErrorKind, Result};
use crate::read::SavedIndex;
use crate::schema::Role;
use crate::storage::Access;

use super::encoding::encoding_named;

/// How a CSV file is read and which of its columns feed which tensor. Plain data: every field has a default.
///
/// Without any choice of columns, every number column becomes an element of one f32 tensor `features`, a column named
/// `label`, `target`, `class` or `y` becomes the tensor `labels`, and other text columns are not fed.
///
/// What is not chosen is inferred when the file is opened. Types come from 8192 records at most, spread over the file: a
/// later value that does not fit is an error that says so. The names of classes and categories are looked for in all
/// records, in their columns alone. Of `features` together with `labels` and a `label_dtype` of integers, the first 1024
/// records tell whether the label holds numbers or names. `tensors` whose classes are listed, or `features` together with
/// `labels` and their `classes` or a `label_dtype` of floats, leave nothing to be inferred.
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
    /// What becomes of a missing value in a number column.
    pub missing: Missing,
    /// The columns of the f32 tensor `features`; empty: every number column that is not a label and not ignored.
    pub features: Vec<ColumnRef>,
    /// The columns of the tensor `labels`.
    ///
    /// One text column gives class indices (i64, no dimension), one column of integers its numbers (i64, no dimension),
    /// any other number columns the regression targets f32 `[columns]`.
    pub labels: Vec<ColumnRef>,
    /// Element type of `labels` instead of the inferred one: f32 makes a single column of integers a regression target
    /// `[1]`, u32 makes it indices for a library that wants these.
    pub label_dtype: Option<DType>,
    /// The class names of the label, in index order: pass what a training set's reader says to that of the test set.
    /// Fields may also be indices, if no name is itself an integer. `None`: the sorted distinct texts of the column.
    pub classes: Option<Vec<String>>,
    /// Whether `labels` is f32 `[classes]` with a single 1 instead of an index.
    pub one_hot: bool,
    /// Columns that feed nothing.
    pub ignore: Vec<ColumnRef>,
    /// The tensors, each by itself, instead of `features` and `labels`.
    pub tensors: Vec<ColumnTensor>,
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
            features: Vec::new(),
            labels: Vec::new(),
            label_dtype: None,
            classes: None,
            one_hot: false,
            ignore: Vec::new(),
            tensors: Vec::new(),
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
        if !self.tensors.is_empty() {
            let short = [
                ("features", !self.features.is_empty()),
                ("labels", !self.labels.is_empty()),
                ("classes", self.classes.is_some()),
                ("label_dtype", self.label_dtype.is_some()),
                ("one_hot", self.one_hot),
            ];
            let given = short.iter().filter(|(_, given)| *given);
            let refused = |(name, _): &(&str, bool)| {
                format!("{name}: does not go together with `tensors`; say it in `tensors` alone")
            };
            faults.extend(given.map(refused));
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

/// One tensor made of columns.
///
/// Its shape is `[columns]`; a single column of classes has no dimension, one-hot classes add `[classes]`, and text adds
/// `[max_len]`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ColumnTensor {
    /// What the trainer calls it.
    pub name: String,
    /// What it is to the trainer.
    #[serde(default = "ColumnTensor::default_role")]
    pub role: Role,
    /// Its columns, in the order of its elements.
    pub columns: Vec<ColumnRef>,
    /// Element type; f32 if not given, i64 for class indices and codes, u8 for text. Integers are read exactly, never by way of a float.
    #[serde(default)]
    pub dtype: Option<DType>,
    /// Another shape of as many elements: `[]` for a single number, `[28, 28]` for 784 columns.
    #[serde(default)]
    pub shape: Option<Vec<usize>>,
    /// What its fields are.
    #[serde(default)]
    pub values: ColumnValues,
}

impl ColumnTensor {
    fn default_role() -> Role {
        Role::Feature
    }

    /// A tensor of numbers.
    pub fn numbers<C: Into<ColumnRef>>(
        name: impl Into<String>,
        role: Role,
        dtype: DType,
        columns: impl IntoIterator<Item = C>,
    ) -> Self {
        let columns = columns.into_iter().map(Into::into).collect();
        Self { name: name.into(), role, columns, dtype: Some(dtype), shape: None, values: ColumnValues::Numbers }
    }

    /// A tensor of class indices from one column; `names` of `None` are inferred.
    pub fn classes(
        name: impl Into<String>,
        role: Role,
        column: impl Into<ColumnRef>,
        names: Option<Vec<String>>,
    ) -> Self {
        let values = ColumnValues::Classes { names, one_hot: false };
        Self { name: name.into(), role, columns: vec![column.into()], dtype: None, shape: None, values }
    }

    /// A tensor of codes, each column with names of its own; `names` of `None` are inferred.
    pub fn categories<C: Into<ColumnRef>>(
        name: impl Into<String>,
        role: Role,
        columns: impl IntoIterator<Item = C>,
        names: Option<Vec<Vec<String>>>,
    ) -> Self {
        let columns = columns.into_iter().map(Into::into).collect();
        let values = ColumnValues::Categories { names, missing: None };
        Self { name: name.into(), role, columns, dtype: None, shape: None, values }
    }

    /// The text of a column, of at most `max_len` bytes, and its length; a longer one is an error.
    pub fn text(name: impl Into<String>, role: Role, column: impl Into<ColumnRef>, max_len: usize) -> Self {
        let values = ColumnValues::Text { max_len, longer: Longer::Error };
        Self { name: name.into(), role, columns: vec![column.into()], dtype: None, shape: None, values }
    }
}

/// What the fields of a tensor's columns are.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
#[non_exhaustive]
pub enum ColumnValues {
    /// Numbers.
    #[default]
    Numbers,
    /// Classes: names, or indices from 0.
    Classes {
        /// In index order; `None`: the sorted distinct texts of the columns, or the indices that stand there.
        #[serde(default)]
        names: Option<Vec<String>>,
        /// Whether each is `[classes]` numbers with a single 1 instead of an index.
        #[serde(default)]
        one_hot: bool,
    },
    /// Classes by their names, each column with names of its own: `[columns]` codes.
    Categories {
        /// For each column its names in the order of their codes; `None`: the sorted distinct texts of each column.
        #[serde(default)]
        names: Option<Vec<Vec<String>>>,
        /// The code of a missing value, such as -1; without one, a missing value is an error.
        #[serde(default)]
        missing: Option<i64>,
    },
    /// UTF-8 text as u8 `[max_len]`, with zeros behind it; several columns are `[columns, max_len]`. Another tensor,
    /// called as this one with `_len` behind it, has its length in bytes: i64 without a dimension, or `[columns]`.
    /// A text that stands for a missing value is a text like others.
    Text {
        /// Most bytes of a text.
        max_len: usize,
        /// What becomes of a longer one.
        #[serde(default)]
        longer: Longer,
    },
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
