//! Which columns feed which tensors.

use std::collections::HashSet;

use crate::dtype::DType;
use crate::error::{Error, ErrorKind, Result};
use crate::schema::Role;

use super::choice::{Choice, ColumnTensor, ColumnValues, Columns};
use super::format::Format;
use super::kind::Seen;
use super::options::{ColumnRef, Missing};

/// Names of columns that are the label if no fields are given.
const LABEL_NAMES: [&str; 4] = ["label", "target", "class", "y"];

/// A tensor and its columns.
#[derive(Debug)]
pub(super) struct Wanted {
    pub(super) tensor: ColumnTensor,
    pub(super) columns: Vec<usize>,
    /// Whether its type or its columns were found in the data.
    pub(super) is_found: bool,
}

/// The first column with the usual name of a label.
pub(super) fn usual_label(format: &Format, hidden: &HashSet<usize>) -> Option<usize> {
    let named = |name: &&str| {
        let mut columns = format.names.iter().enumerate();
        columns.position(|(column, other)| other.trim().eq_ignore_ascii_case(name) && !hidden.contains(&column))
    };
    LABEL_NAMES.iter().find_map(named)
}

/// What the columns become if no fields are given.
fn usual_tensors(format: &Format, hidden: &HashSet<usize>) -> Vec<ColumnTensor> {
    let features = ColumnTensor {
        name: "features".to_owned(),
        role: Role::Feature,
        columns: Columns::Others(Vec::new()),
        dtype: Some(DType::F32),
        shape: None,
        values: ColumnValues::Numbers(Missing::Error),
    };
    let label = usual_label(format, hidden).map(|column| ColumnTensor {
        name: "labels".to_owned(),
        role: Role::Label,
        columns: Columns::Named(vec![ColumnRef::Position(column)]),
        dtype: None,
        shape: None,
        values: ColumnValues::AsFound,
    });
    [Some(features), label].into_iter().flatten().collect()
}

impl Choice {
    /// Whether the types of columns decide what they become.
    pub(super) fn asks_for_types(&self) -> bool {
        let is_open = |tensor: &ColumnTensor| {
            matches!(tensor.columns, Columns::Others(_)) || tensor.values == ColumnValues::AsFound
        };
        self.tensors.is_empty() || self.tensors.iter().any(is_open)
    }

    /// The tensors, given what was seen in the columns. Before anything was seen, a column that may hold names counts
    /// as classes.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::NotFound`] for a column, [`ErrorKind::Config`] if none is left.
    pub(super) fn wanted(&self, format: &Format, seen: Option<&[Seen]>) -> Result<Vec<Wanted>> {
        let hidden: HashSet<usize> = format.columns(&self.hidden)?.into_iter().collect();
        let usual;
        let tensors = match self.tensors.is_empty() {
            true => {
                usual = usual_tensors(format, &hidden);
                &usual
            }
            false => &self.tensors,
        };
        let mut taken = hidden;
        for tensor in tensors {
            if let Columns::Named(columns) = &tensor.columns {
                taken.extend(format.columns(columns)?);
            }
        }
        let mut all = Vec::with_capacity(tensors.len());
        for tensor in tensors {
            let columns = match &tensor.columns {
                Columns::Named(columns) => format.columns(columns)?,
                Columns::Others(except) => {
                    let except: HashSet<usize> = format.columns(except)?.into_iter().collect();
                    let is_free = |column: &usize| !taken.contains(column) && !except.contains(column);
                    let is_number = |column: &usize| seen.is_some_and(|seen| seen[*column].is_number());
                    (0..format.names.len()).filter(is_free).filter(is_number).collect()
                }
            };
            if columns.is_empty() && seen.is_some() && matches!(tensor.columns, Columns::Others(_)) {
                if self.tensors.is_empty() {
                    continue;
                }
                let message = "no column is left for \"*\": there is no column of numbers alone that no other tensor \
                     uses";
                return Err(Error::new(ErrorKind::Config, message).at_column(&tensor.name));
            }
            let mut tensor = tensor.clone();
            let is_found = matches!(tensor.columns, Columns::Others(_)) || tensor.values == ColumnValues::AsFound;
            if tensor.values == ColumnValues::AsFound {
                tensor.find(&columns, seen);
            }
            all.push(Wanted { tensor, columns, is_found });
        }
        Ok(all)
    }
}

impl ColumnTensor {
    /// Sets the kind of values by what was seen in the columns.
    fn find(&mut self, columns: &[usize], seen: Option<&[Seen]>) {
        let is_text = seen.is_none_or(|seen| columns.iter().any(|column| !seen[*column].is_number()));
        let is_whole = seen.is_some_and(|seen| columns.iter().all(|column| seen[*column].is_integer()));
        (self.values, self.dtype, self.shape) = match (is_text, is_whole) {
            (true, _) => (ColumnValues::Classes { names: None, one_hot: false }, None, None),
            (false, true) => (ColumnValues::Numbers(Missing::Error), Some(DType::I64), Some(Vec::new())),
            (false, false) => (ColumnValues::Numbers(Missing::Error), Some(DType::F32), None),
        };
    }
}

impl ColumnValues {
    /// Whether only the data can tell the names.
    pub(super) fn are_open(&self) -> bool {
        matches!(self, Self::Classes { names: None, .. } | Self::Categories { names: None, .. })
    }
}
