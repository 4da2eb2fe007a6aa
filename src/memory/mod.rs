//! Memory for batches: blocks from a [`PageSource`], and the one budget in bytes that everything large counts against.

mod account;
mod block;
mod budget;
mod lent;
mod scope;
#[cfg(feature = "images")]
mod spare;

pub(crate) use block::whole_pages;
pub use block::{AnonymousPages, Block, PageSource, TempFilePages};
pub use budget::{MemoryBudget, Reservation};
#[cfg(feature = "images")]
pub(crate) use lent::Lent;
#[cfg(any(feature = "images", feature = "audio"))]
pub(crate) use lent::Tool;
pub use scope::{Scope, ScopeStats, Scopes};
#[cfg(feature = "images")]
pub(crate) use {account::Spare, spare::Room};
