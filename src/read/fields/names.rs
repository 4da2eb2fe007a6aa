use crate::dtype::DType;

use super::{Codec, Field, Origin};

/// A class by its name or index, as an `i64` without a dimension. The names are those that are found, sorted, unless they
/// are [listed](Class::of). Of several fields, which share their names, `[fields]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Class;

/// A [class](Class) of which more is said.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Classes {
    names: Option<Vec<String>>,
    one_hot: bool,
    dtype: Option<DType>,
}

/// Codes of one or several columns of names, each with names of its own: `i64 [columns]`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Category {
    names: Option<Vec<Vec<String>>>,
    missing: Option<i64>,
    dtype: Option<DType>,
}

impl Class {
    /// The classes in the order of their indices.
    pub fn of<S: Into<String>>(names: impl IntoIterator<Item = S>) -> Classes {
        Classes { names: Some(names.into_iter().map(Into::into).collect()), ..Classes::default() }
    }

    /// A number for each class, a single one of them 1, in place of its index.
    pub fn one_hot(self) -> Classes {
        Classes::default().one_hot()
    }

    /// Another element type, which must hold all indices.
    pub fn dtype(self, dtype: DType) -> Classes {
        Classes::default().dtype(dtype)
    }

    /// The field that it comes from, or a list of fields.
    pub fn from(self, fields: impl Into<Origin>) -> Field {
        Classes::default().from(fields)
    }
}

impl Classes {
    /// A number for each class, a single one of them 1, in place of its index: `[classes]`.
    #[must_use]
    pub fn one_hot(mut self) -> Self {
        self.one_hot = true;
        self
    }

    /// Element type, which must hold all indices. By default `i64`; of one-hot numbers `f32`.
    #[must_use]
    pub fn dtype(mut self, dtype: DType) -> Self {
        self.dtype = Some(dtype);
        self
    }

    /// The field that it comes from, or a list of fields.
    pub fn from(self, fields: impl Into<Origin>) -> Field {
        let Origin { from, several } = fields.into();
        Field { from, several, ..self.into() }
    }
}

impl Category {
    /// Names are those that are found, sorted.
    pub fn new() -> Self {
        Self::default()
    }

    /// The names of each column in the order of their codes.
    #[must_use]
    pub fn names(mut self, names: impl IntoIterator<Item = Vec<String>>) -> Self {
        self.names = Some(names.into_iter().collect());
        self
    }

    /// Element type, which must hold all codes. By default `i64`.
    #[must_use]
    pub fn dtype(mut self, dtype: DType) -> Self {
        self.dtype = Some(dtype);
        self
    }

    /// The code of a missing value, such as -1; without it, a missing value is an error.
    #[must_use]
    pub fn missing(mut self, code: i64) -> Self {
        self.missing = Some(code);
        self
    }

    /// The field that they come from, or a list of fields.
    pub fn from(self, fields: impl Into<Origin>) -> Field {
        let Origin { from, several } = fields.into();
        Field { from, several, ..self.into() }
    }
}

impl From<Class> for Field {
    fn from(_: Class) -> Self {
        Classes::default().into()
    }
}

impl From<Classes> for Field {
    fn from(Classes { names, one_hot, dtype }: Classes) -> Self {
        Self::new(Codec::Class { names, one_hot, dtype })
    }
}

impl From<Category> for Field {
    fn from(category: Category) -> Self {
        let Category { names, missing, dtype } = category;
        Self::new(Codec::Category { names, missing, dtype })
    }
}
