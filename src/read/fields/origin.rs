use crate::read::ColumnRef;

/// A field, or a list of fields, that numbers come from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Origin {
    pub(super) from: Vec<ColumnRef>,
    pub(super) several: bool,
}

impl From<&str> for Origin {
    fn from(name: &str) -> Self {
        Self { from: vec![name.into()], several: false }
    }
}

impl From<String> for Origin {
    fn from(name: String) -> Self {
        Self { from: vec![name.into()], several: false }
    }
}

impl From<ColumnRef> for Origin {
    fn from(field: ColumnRef) -> Self {
        Self { from: vec![field], several: false }
    }
}

impl From<usize> for Origin {
    fn from(position: usize) -> Self {
        Self { from: vec![position.into()], several: false }
    }
}

impl<C: Into<ColumnRef>, const N: usize> From<[C; N]> for Origin {
    fn from(fields: [C; N]) -> Self {
        Self { from: fields.into_iter().map(Into::into).collect(), several: true }
    }
}

impl<C: Into<ColumnRef>> From<Vec<C>> for Origin {
    fn from(fields: Vec<C>) -> Self {
        Self { from: fields.into_iter().map(Into::into).collect(), several: true }
    }
}
