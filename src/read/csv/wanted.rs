//! Which columns feed which tensors, by the options.

use std::collections::HashSet;

use crate::dtype::DType;
use crate::error::{Error, ErrorKind, Result};
use crate::schema::Role;

use super::format::Format;
use super::kind::Seen;
use super::options::{ColumnTensor, ColumnValues, CsvOptions};

/// Names that make a column the label, if the options name no columns at all.
const LABEL_NAMES: [&str; 4] = ["label", "target", "class", "y"];

/// The label columns: those named, or without any choice of columns the first with a usual name.
pub(crate) fn label_columns(format: &Format, options: &CsvOptions) -> Result<Vec<usize>> {
    let chosen = !options.features.is_empty() || !options.tensors.is_empty();
    if !options.labels.is_empty() || chosen {
        return format.columns(&options.labels);
    }
    let ignored = ignored_columns(format, options)?;
    let named = |name: &&str| {
        format
            .names
            .iter()
            .enumerate()
            .position(|(column, other)| other.trim().eq_ignore_ascii_case(name) && !ignored.contains(&column))
    };
    Ok(LABEL_NAMES.iter().find_map(named).into_iter().collect())
}

/// The columns that feed nothing.
pub(super) fn ignored_columns(format: &Format, options: &CsvOptions) -> Result<HashSet<usize>> {
    Ok(format.columns(&options.ignore)?.into_iter().collect())
}

impl ColumnValues {
    /// Whether only the data can tell the names.
    pub(super) fn are_open(&self) -> bool {
        matches!(self, Self::Classes { names: None, .. } | Self::Categories { names: None, .. })
    }
}

/// The tensors that the options name, or else what `features` and `labels` mean where columns were seen to hold this.
pub(super) fn wanted_tensors(
    format: &Format,
    options: &CsvOptions,
    seen: Option<&[Seen]>,
) -> Result<Vec<ColumnTensor>> {
    if options.tensors.is_empty() { short_form(format, options, seen) } else { Ok(options.tensors.clone()) }
}

/// `features` and `labels` as tensors.
fn short_form(format: &Format, options: &CsvOptions, seen: Option<&[Seen]>) -> Result<Vec<ColumnTensor>> {
    let labels = label_columns(format, options)?;
    let features = if options.features.is_empty() {
        let number = |column: &usize| seen.is_some_and(|seen| seen[*column].is_number());
        let mut taken = ignored_columns(format, options)?;
        taken.extend(&labels);
        let free = |column: &usize| !taken.contains(column);
        (0..format.names.len()).filter(free).filter(number).collect()
    } else {
        format.columns(&options.features)?
    };
    let mut tensors = Vec::new();
    if !features.is_empty() {
        tensors.push(ColumnTensor::numbers("features", Role::Feature, DType::F32, features));
    }
    if labels.is_empty() {
        return match (&options.classes, options.label_dtype, options.one_hot) {
            (None, None, false) => Ok(tensors),
            _ => {
                let message = "there are classes or a type for a label, but no label; name its column in `labels`";
                Err(Error::new(ErrorKind::Config, message))
            }
        };
    }
    let text = seen.is_some_and(|seen| labels.iter().any(|column| !seen[*column].is_number()));
    let integers = seen.is_some_and(|seen| labels.iter().all(|column| seen[*column].is_integer()));
    let single = labels.len() == 1;
    let mut tensor = ColumnTensor::numbers("labels", Role::Label, DType::F32, labels);
    tensor.dtype = options.label_dtype;
    let whole = options.label_dtype.map_or(single && integers, |dtype| !dtype.is_float());
    if options.classes.is_some() || options.one_hot || text && options.label_dtype.is_none_or(|dtype| !dtype.is_float())
    {
        tensor.values = ColumnValues::Classes { names: options.classes.clone(), one_hot: options.one_hot };
    } else if whole {
        tensor.dtype = Some(options.label_dtype.unwrap_or(DType::I64));
        tensor.shape = single.then(Vec::new);
    }
    tensors.push(tensor);
    Ok(tensors)
}
