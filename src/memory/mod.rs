//! Memory for batches: blocks from a [`PageSource`], and the one byte budget that everything large draws on.

mod account;
mod block;
mod budget;
#[cfg_attr(
    not(any(feature = "images", all(test, not(ringfeed_loom)))),
    expect(dead_code, reason = "decoders of images are what is lent")
)]
mod lent;
mod scope;

pub use block::{AnonymousPages, Block, PageSource, TempFilePages};
pub(crate) use block::{check_file_limit, whole_pages};
pub use budget::{MemoryBudget, Reservation};
pub use scope::{Scope, ScopeStats, Scopes};
