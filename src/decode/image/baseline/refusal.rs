/// A file that another decoder has to look at, and why: it is of another kind, damaged, or in doubt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NotOurs(pub(crate) &'static str);

pub(crate) type Ours<T> = Result<T, NotOurs>;
