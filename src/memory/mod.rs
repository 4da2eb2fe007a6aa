//! Memory for batches: blocks from a [`PageSource`], and the one byte budget that everything large draws on.

mod block;
mod budget;

pub(crate) use block::whole_pages;
pub use block::{AnonymousPages, Block, PageSource, TempFilePages};
pub use budget::{MemoryBudget, Reservation};
