use crate::dtype::DType;

/// A class, by its name, or by its index if no name is a number: one `i64` per sample, shape `[]`. The names are those
/// that are found in the data, sorted, unless they are [listed](Class::of). Several fields share their names, and give
/// `[fields]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Class;

/// A [class](Class) with listed names, a type, or one-hot rows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Classes {
    pub(super) names: Option<Vec<String>>,
    pub(super) one_hot: bool,
    pub(super) dtype: Option<DType>,
}

/// Codes for the names of one or several columns. Each column has its own names: `i64 [columns]`. A number is a name
/// like others, never a code.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Category {
    pub(super) names: Option<Vec<Vec<String>>>,
    pub(super) missing: Option<i64>,
    pub(super) dtype: Option<DType>,
}

impl Class {
    /// Lists the names of the classes, in the order of their indices.
    pub fn of<S: Into<String>>(names: impl IntoIterator<Item = S>) -> Classes {
        Classes { names: Some(names.into_iter().map(Into::into).collect()), ..Classes::default() }
    }

    /// One-hot: a number for each class, 1 for the sample's class and 0 for all others, in place of the index.
    pub fn one_hot(self) -> Classes {
        Classes::default().one_hot()
    }

    /// Another element type, which must hold all indices.
    pub fn dtype(self, dtype: DType) -> Classes {
        Classes::default().dtype(dtype)
    }
}

impl Classes {
    /// One-hot: a number for each class, 1 for the sample's class and 0 for all others, in place of the index:
    /// `[classes]`.
    #[must_use]
    pub fn one_hot(mut self) -> Self {
        self.one_hot = true;
        self
    }

    /// Element type, which must hold all indices. Default: `i64`, and `f32` for one-hot rows.
    #[must_use]
    pub fn dtype(mut self, dtype: DType) -> Self {
        self.dtype = Some(dtype);
        self
    }
}

impl Category {
    /// The names are those that are found in the data, sorted.
    pub fn new() -> Self {
        Self::default()
    }

    /// Lists the names of each column, in the order of their codes.
    #[must_use]
    pub fn names(mut self, names: impl IntoIterator<Item = Vec<String>>) -> Self {
        self.names = Some(names.into_iter().collect());
        self
    }

    /// Element type, which must hold all codes. Default: `i64`.
    #[must_use]
    pub fn dtype(mut self, dtype: DType) -> Self {
        self.dtype = Some(dtype);
        self
    }

    /// The code of a missing value, such as -1. Without it, a missing value makes its record bad.
    #[must_use]
    pub fn missing(mut self, code: i64) -> Self {
        self.missing = Some(code);
        self
    }
}
