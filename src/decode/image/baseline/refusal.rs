/// A file that another decoder has to look at, and why: it is of another kind, damaged, or in doubt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::decode::image) struct NotOurs(pub(in crate::decode::image) &'static str);

pub(super) type Ours<T> = Result<T, NotOurs>;
