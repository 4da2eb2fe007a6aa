//! From the chosen columns to the positions that their values are written to.

use std::collections::HashSet;
use std::sync::Arc;

use crate::dtype::DType;
use crate::error::{Error, ErrorKind, Result};
use crate::schema::{Role, Schema, TensorSpec};

use super::choice::{Choice, ColumnTensor, ColumnValues};
use super::classes::Classes;
use super::dialect::Dialect;
use super::format::Format;
use super::inference::Inference;
use super::kind::Kind;
use super::options::{CsvOptions, Longer, Missing};
use super::value::{Missings, advice, holds, holds_integer, shown, unfit_index};
use super::wanted::Wanted;

/// Most elements of a one-hot label whose classes are counted in the data.
const MAX_ONE_HOT: i64 = 1 << 16;

/// Where a record's fields go.
#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) tensors: Vec<TensorSpec>,
    /// Sorted by their first column; a column may be in several runs.
    pub(crate) runs: Vec<Run>,
    pub(crate) names: Vec<String>,
    pub(crate) dialect: Dialect,
    pub(crate) missings: Missings,
    /// The tensors whose type was inferred from some of the records.
    pub(crate) inferred: Vec<Inferred>,
}

/// What to say of a value that does not fit the type that was inferred from some of the records.
#[derive(Debug)]
pub(crate) struct Inferred {
    pub(crate) tensor: String,
    pub(crate) is_number: bool,
    /// The type, and the number of records.
    pub(crate) basis: String,
    /// The settings that say another type.
    pub(crate) settings: &'static str,
}

/// Neighbouring columns that feed neighbouring elements of one tensor.
#[derive(Debug)]
pub(crate) struct Run {
    pub(crate) column: usize,
    pub(crate) count: usize,
    pub(crate) tensor: usize,
    /// First element.
    pub(crate) at: usize,
    pub(crate) values: RunValues,
}

/// What the fields of a run become.
#[derive(Clone, Debug)]
pub(crate) enum RunValues {
    Numbers(Missing),
    Classes(RunClasses),
    Text(RunText),
}

#[derive(Clone, Debug)]
pub(crate) struct RunClasses {
    pub(crate) classes: Arc<Classes>,
    pub(crate) one_hot: bool,
    /// The code of a missing value.
    pub(crate) missing: Option<i64>,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct RunText {
    pub(crate) max_len: usize,
    pub(crate) longer: Longer,
    /// The tensor that holds the lengths.
    pub(crate) lengths: usize,
}

impl Run {
    /// What missing numbers become.
    pub(crate) fn missing(&self) -> Missing {
        match self.values {
            RunValues::Numbers(missing) => missing,
            RunValues::Classes(_) | RunValues::Text(_) => Missing::Error,
        }
    }
}

impl Plan {
    /// What must be learnt from the data before the plan can be made; `None` if nothing.
    ///
    /// # Errors
    ///
    /// If nothing has to be learnt, those of [`new`](Self::new), reported before a large file is read.
    pub(crate) fn begin(
        format: &Format,
        choice: &Choice,
        options: &CsvOptions,
        missings: &Missings,
    ) -> Result<Option<Inference>> {
        let inference = Inference::begin(format, choice, missings)?;
        if inference.is_none() {
            Self::new(format, choice, options, missings, None)?;
        }
        Ok(inference)
    }

    /// Decides which tensor each column goes to.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::NotFound`] for a column, [`ErrorKind::Config`] and [`ErrorKind::Schema`] for a contradiction.
    pub(crate) fn new(
        format: &Format,
        choice: &Choice,
        options: &CsvOptions,
        missings: &Missings,
        inference: Option<&Inference>,
    ) -> Result<Self> {
        let seen = inference.and_then(Inference::seen);
        let wanted = choice.wanted(format, seen.as_deref())?;
        let mut plan = Self {
            tensors: Vec::new(),
            runs: Vec::new(),
            names: format.names.clone(),
            dialect: format.dialect,
            missings: missings.clone(),
            inferred: inferred(&wanted, inference),
        };
        for Wanted { tensor, columns, .. } in &wanted {
            let added = plan.add(tensor, columns, options.missing, inference);
            added.map_err(|error| error.at_column(&tensor.name))?;
        }
        plan.runs.sort_by_key(|run| run.column);
        if plan.tensors.is_empty() {
            return Err(no_numbers(format));
        }
        Schema::new(plan.tensors.clone())?;
        Ok(plan)
    }

    /// The class names of the first label that has any.
    pub(crate) fn classes(&self) -> Option<&Arc<[String]>> {
        let labels = self.tensors.iter().filter(|tensor| tensor.role == Role::Label);
        labels.filter_map(|tensor| tensor.classes.as_ref()).next()
    }

    /// The names of each column of the tensor `name`, if they are categories.
    pub(crate) fn categories(&self, name: &str) -> Option<Vec<Vec<String>>> {
        let tensor = self.tensors.iter().find(|tensor| tensor.name == name)?;
        tensor.categories.as_ref().map(|categories| categories.to_vec())
    }

    fn add(
        &mut self,
        tensor: &ColumnTensor,
        columns: &[usize],
        missing: Missing,
        inference: Option<&Inference>,
    ) -> Result<()> {
        let config = |message: String| Err(Error::new(ErrorKind::Config, message));
        if columns.is_empty() {
            return config("names no columns".to_owned());
        }
        let index = self.tensors.len();
        // One for all columns, or one per column.
        let mut values = Vec::new();
        let (mut names, mut categories) = (None, None);
        let (dtype, mut shape, width) = match &tensor.values {
            // It was found before.
            ColumnValues::AsFound => return Ok(()),
            ColumnValues::Numbers(own) => {
                let dtype = tensor.dtype.unwrap_or(DType::F32);
                let missing = if *own == Missing::Error { missing } else { *own };
                values.push(RunValues::Numbers(missing));
                match missing {
                    Missing::Value(value) if !holds(dtype, value) => {
                        return config(format!("missing values become {value}, which {dtype} does not hold"));
                    }
                    _ => (dtype, vec![columns.len()], 1),
                }
            }
            ColumnValues::Classes { names: list, one_hot } => {
                let table = Arc::new(match list {
                    Some(list) => Classes::named(given_names(list)?),
                    None => inferred_classes(columns, inference, &self.names, *one_hot)?,
                });
                let width = if *one_hot { table.count as usize } else { 1 };
                let dtype = tensor.dtype.unwrap_or(if *one_hot { DType::F32 } else { DType::I64 });
                let largest = table.count.saturating_sub(1);
                if !*one_hot && let Some(index) = unfit_index(dtype, largest.into()) {
                    return config(format!("class index {index} does not fit {dtype}"));
                }
                let mut shape = if columns.len() == 1 { Vec::new() } else { vec![columns.len()] };
                shape.extend(one_hot.then_some(width));
                names = Some(&table.names).filter(|names| !names.is_empty()).map(|names| names.as_slice().into());
                values = vec![RunValues::Classes(RunClasses { classes: table, one_hot: *one_hot, missing: None })];
                (dtype, shape, width)
            }
            ColumnValues::Categories { names: lists, missing } => {
                if lists.as_ref().is_some_and(|lists| lists.len() != columns.len()) {
                    return config(format!("has {} columns; `names` must hold a list for each", columns.len()));
                }
                let dtype = tensor.dtype.unwrap_or(DType::I64);
                let table = |(nth, column): (usize, &usize)| match lists {
                    Some(lists) => given_names(&lists[nth]),
                    None => inferred_names(std::slice::from_ref(column), inference, &self.names),
                };
                let tables = columns.iter().enumerate().map(|column| table(column).map(Classes::of_category));
                let tables = tables.collect::<Result<Vec<_>>>()?;
                let codes = tables.iter().filter_map(|table| unfit_index(dtype, i64::from(table.count) - 1));
                let missing_code = missing.filter(|code| !holds_integer(dtype, *code));
                if let Some(code) = codes.chain(missing_code).next() {
                    return config(format!("code {code} does not fit {dtype}"));
                }
                categories = Some(tables.iter().map(|table| table.names.clone()).collect());
                let run = |table| RunClasses { classes: Arc::new(table), one_hot: false, missing: *missing };
                values = tables.into_iter().map(|table| RunValues::Classes(run(table))).collect();
                (dtype, vec![columns.len()], 1)
            }
            ColumnValues::Text { max_len, longer } => {
                if *max_len == 0 || tensor.dtype.is_some_and(|dtype| dtype != DType::U8) {
                    return config("is text: u8, and of at least one byte".to_owned());
                }
                let shape = if columns.len() == 1 { Vec::new() } else { vec![columns.len()] };
                values = vec![RunValues::Text(RunText { max_len: *max_len, longer: *longer, lengths: index + 1 })];
                (DType::U8, [shape, vec![*max_len]].concat(), *max_len)
            }
        };
        let Some(elements) = columns.len().checked_mul(width).filter(|elements| *elements <= isize::MAX as usize)
        else {
            return config(format!("has {} columns of {width} elements, more than memory holds", columns.len()));
        };
        if let Some(other) = &tensor.shape {
            if other.iter().try_fold(1usize, |product, dim| product.checked_mul(*dim)) != Some(elements) {
                return config(format!("shape {other:?} does not have the {elements} elements of its columns"));
            }
            shape.clone_from(other);
        }
        let mut spec = TensorSpec::new(&tensor.name, tensor.role, dtype, &shape);
        (spec.classes, spec.categories) = (names, categories);
        self.tensors.push(spec);
        if let ColumnValues::Text { .. } = tensor.values {
            let shape = if columns.len() == 1 { vec![] } else { vec![columns.len()] };
            let name = format!("{}_len", tensor.name);
            self.tensors.push(TensorSpec::new(name, tensor.role, DType::I64, &shape));
        }
        let first = self.runs.len();
        for (nth, column) in columns.iter().enumerate() {
            match self.runs[first..].last_mut() {
                Some(run) if run.column + run.count == *column && values.len() == 1 => run.count += 1,
                _ => {
                    let values = values[nth.min(values.len() - 1)].clone();
                    self.runs.push(Run { column: *column, count: 1, tensor: index, at: nth * width, values });
                }
            }
        }
        Ok(())
    }
}

/// The tensors whose type was inferred from some of the records.
fn inferred(wanted: &[Wanted], inference: Option<&Inference>) -> Vec<Inferred> {
    let Some(basis) = inference.and_then(Inference::basis) else { return Vec::new() };
    let found = wanted.iter().filter(|wanted| wanted.is_found);
    let note = |Wanted { tensor, .. }: &Wanted| {
        let (taken_for, is_number) = match tensor.values {
            ColumnValues::Numbers(_) => (tensor.dtype.unwrap_or(DType::F32).to_string(), true),
            ColumnValues::Classes { .. } => ("a class".to_owned(), false),
            _ => return None,
        };
        let settings = match tensor.role {
            Role::Label => "say in `fields` whether it is a `class` or `numbers`",
            _ => "name the text in `missing_tokens`, or say in `fields` which columns are numbers",
        };
        let basis = format!("the column was taken for {taken_for} {basis}");
        Some(Inferred { tensor: tensor.name.clone(), is_number, basis, settings })
    };
    found.filter_map(note).collect()
}

/// The error for a table whose columns do not become tensors by default.
#[cold]
fn no_numbers(format: &Format) -> Error {
    let found = format.text.as_ref().map_or_else(String::new, |(column, field)| {
        format!(": column {:?} has {}{}", format.names[*column], shown(field), advice(field))
    });
    let message = format!("no column holds numbers alone{found}; say in `fields` how to decode the columns");
    Error::new(ErrorKind::Schema, message)
}

fn given_names(names: &[String]) -> Result<Vec<String>> {
    if names.is_empty() {
        return Err(Error::new(ErrorKind::Config, "the list of classes is empty"));
    }
    let mut seen = HashSet::new();
    if let Some(name) = names.iter().find(|name| !seen.insert(*name)) {
        return Err(Error::new(ErrorKind::Config, format!("class {name:?} is listed twice")));
    }
    Ok(names.to_vec())
}

/// The sorted texts of the columns, or the indices in them.
fn inferred_classes(
    columns: &[usize],
    inference: Option<&Inference>,
    names: &[String],
    one_hot: bool,
) -> Result<Classes> {
    let kinds = columns.iter().filter_map(|column| inference?.kind(*column));
    if kinds.clone().all(Kind::is_whole) {
        let range = kinds.filter_map(|kind| kind.range).reduce(|a, b| (a.0.min(b.0), a.1.max(b.1)));
        let (low, high) = range.unwrap_or((0, 0));
        if low < 0 || high >= if one_hot { MAX_ONE_HOT } else { u32::MAX.into() } {
            let message = format!("integers from {low} to {high} are no class indices; list the classes");
            return Err(Error::new(ErrorKind::Config, message));
        }
        return Ok(Classes::counted(u32::try_from(high).unwrap_or(u32::MAX) + 1));
    }
    inferred_names(columns, inference, names).map(Classes::named)
}

/// The sorted texts of the columns.
fn inferred_names(columns: &[usize], inference: Option<&Inference>, names: &[String]) -> Result<Vec<String>> {
    let mut texts = Vec::new();
    for column in columns {
        let Some(distinct) = inference.and_then(|inference| inference.kind(*column)?.classes()) else {
            let message =
                "too many different values to collect (65536, or 16 MiB); list the classes if they are classes";
            return Err(Error::new(ErrorKind::Config, message).at_column(&names[*column]));
        };
        for text in distinct {
            let text = std::str::from_utf8(text).map_err(|_| {
                let message = format!("class {} is not valid UTF-8; set encoding", shown(text));
                Error::new(ErrorKind::Data, message).at_column(&names[*column])
            })?;
            texts.push(text.to_owned());
        }
    }
    texts.sort_unstable();
    texts.dedup();
    if texts.is_empty() {
        return Err(Error::new(ErrorKind::Config, "there are no values to infer the classes from; list the classes"));
    }
    Ok(texts)
}
