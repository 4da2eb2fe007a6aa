//! The fields that are decoded here: which columns become which tensors.

use crate::dtype::DType;
use crate::error::{Error, ErrorKind, Result};
use crate::read::codec::check_missing;
use crate::read::fields::{Codec, Field, Numbers, no_column, taken};
use crate::schema::Role;

use super::options::{ColumnRef, Longer, Missing};

/// Which columns become which tensors.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Choice {
    /// If it is empty, the default tensors.
    pub(crate) tensors: Vec<ColumnTensor>,
    /// Columns that become nothing unless a tensor names them.
    pub(crate) hidden: Vec<ColumnRef>,
}

/// One tensor made of columns.
///
/// Its shape is `[columns]`; a single column of classes has no dimension, one-hot classes add `[classes]`, and text
/// adds `[max_len]`.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ColumnTensor {
    pub(crate) name: String,
    pub(crate) role: Role,
    pub(crate) columns: Columns,
    /// Element type; f32 if not given, i64 for class indices and codes, u8 for text. Integers are read exactly, never
    /// by way of a float.
    pub(crate) dtype: Option<DType>,
    /// Another shape with as many elements: `[]` for a single number, `[28, 28]` for 784 columns.
    pub(crate) shape: Option<Vec<usize>>,
    pub(crate) values: ColumnValues,
}

/// The columns of a tensor, in the order of its elements.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Columns {
    Named(Vec<ColumnRef>),
    /// All columns of numbers that no other tensor uses, except for these.
    Others(Vec<ColumnRef>),
}

/// What the columns of a tensor hold.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum ColumnValues {
    /// With [`Missing::Error`], the options decide.
    Numbers(Missing),
    /// Names, or indices from 0.
    Classes {
        /// In the order of the indices. `None` stands for the sorted distinct texts of the columns, or for the indices
        /// in them.
        names: Option<Vec<String>>,
        one_hot: bool,
    },
    /// Each column has its own names; the values become codes.
    Categories { names: Option<Vec<Vec<String>>>, missing: Option<i64> },
    /// The words for missing values are ordinary texts here.
    Text { max_len: usize, longer: Longer },
    /// Classes if there is text, otherwise integers or other numbers.
    AsFound,
}

impl Choice {
    /// Splits the fields into those that are decoded here, and the others, which go through values.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Config`] for what no column can become.
    pub(crate) fn split(fields: &[(String, Field)]) -> Result<(Self, Vec<(String, Field)>)> {
        let mut choice = Self::default();
        let mut others = Vec::new();
        for (name, field) in fields {
            let made = tensor_of(name, field).map_err(|error| error.at_column(name))?;
            match made {
                Some(tensor) => choice.tensors.push(tensor),
                None => others.push((name.clone(), field.clone())),
            }
        }
        choice.hidden = taken(&others);
        Ok((choice, others))
    }

    /// The same, if nothing else decodes fields.
    ///
    /// # Errors
    ///
    /// As [`split`](Self::split), and for a field that would come by way of values.
    pub(crate) fn of_all(fields: &[(String, Field)]) -> Result<Self> {
        let (choice, others) = Self::split(fields)?;
        match others.first() {
            None => Ok(choice),
            Some((name, _)) => {
                let message = "this reader decodes numbers, classes, categories and text; a Loader decodes all fields";
                Err(Error::new(ErrorKind::Config, message).at_column(name))
            }
        }
    }
}

/// `None` if it is not decoded here.
fn tensor_of(name: &str, field: &Field) -> Result<Option<ColumnTensor>> {
    let fault = |message: &'static str| Err(Error::new(ErrorKind::Config, message));
    if let Some(message) = no_column(&field.codec).filter(|_| !field.is_file) {
        return fault(message);
    }
    let columns = field.columns(name);
    let (values, dtype, shape) = match &field.codec {
        _ if field.is_of_others() => match &field.codec {
            Codec::Numbers(Numbers { dtype, missing, shape, .. }) => {
                field.check_others()?;
                (ColumnValues::Numbers(*missing), Some(*dtype), shape.clone())
            }
            _ => return field.check_others().map(|()| None),
        },
        _ if field.is_file => return Ok(None),
        Codec::Numbers(Numbers { max_len: None, list: false, ragged: false, dtype, shape, missing, .. }) => {
            let shape = shape.clone().or_else(|| (!field.is_several()).then(Vec::new));
            (ColumnValues::Numbers(*missing), Some(*dtype), shape)
        }
        Codec::Class { names, one_hot, dtype } => {
            (ColumnValues::Classes { names: names.clone(), one_hot: *one_hot }, *dtype, None)
        }
        Codec::Category { names, missing, dtype } => {
            (ColumnValues::Categories { names: names.clone(), missing: *missing }, *dtype, None)
        }
        Codec::Text { max_len, longer } => (ColumnValues::Text { max_len: *max_len, longer: *longer }, None, None),
        _ => return Ok(None),
    };
    if let Codec::Numbers(numbers) = &field.codec {
        check_missing(numbers)?;
    }
    let columns = match field.is_of_others() {
        true => Columns::Others(field.except.clone()),
        false => Columns::Named(columns),
    };
    let role = field.role_or_default();
    Ok(Some(ColumnTensor { name: name.to_owned(), role, columns, dtype, shape, values }))
}
