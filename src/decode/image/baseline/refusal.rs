/// A file that another decoder must read, and the reason: it is of another kind, damaged, or in doubt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NotOurs(pub(crate) &'static str);

pub(crate) type Ours<T> = Result<T, NotOurs>;
