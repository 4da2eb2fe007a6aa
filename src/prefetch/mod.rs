//! Batches made ahead of the trainer, or on the trainer's thread.
//!
//! Read `workspace.rs` first (ring and workers, lent to one source at a time), then `session/` (one source's batches in
//! flight, in ticket order), `planning.rs` (the thread that plans and binds slots), `workers.rs` (the threads that
//! fill; `manners.rs` and `rest.rs` keep them from disturbing the trainer), and the two iterators on top.

mod amount;
mod async_iterator;
mod delivery;
mod depth;
mod fetchers;
mod figures;
mod gate;
mod levels;
mod lookahead;
mod manners;
mod measuring;
#[cfg(all(test, ringfeed_loom))]
mod models;
#[cfg(test)]
mod numbers;
mod planning;
mod queue;
mod rest;
mod scheduling;
mod session;
mod shield;
mod steps;
#[cfg(feature = "tokio")]
mod stream;
mod tune;
mod tuning;
mod workers;
mod workspace;

pub use amount::Amount;
pub use async_iterator::AsyncDataSetIterator;
pub(crate) use depth::default_prefetch;
pub(crate) use manners::Manners;
pub use shield::{AsyncShieldDataSetIterator, Shielded, shield, wrap};
#[cfg(feature = "tokio")]
pub use stream::{DataSetStream, into_stream};
pub(crate) use tune::LEAST_PREFETCH;
pub(crate) use workspace::is_tuned;
pub use workspace::{Workspace, WorkspaceBuilder};
