//! Requests to a session, and its answers.

use std::time::Duration;

use crate::dataset::{Batch, BatchPlan, State};
use crate::error::{Error, ErrorKind, Result};
use crate::ring::Draft;

/// The longest time that can be added to a clock, in effect for ever.
pub(super) const LONGEST_WAIT: Duration = Duration::from_secs(1 << 32);

/// Where the planner resumes.
#[derive(Clone, Copy)]
pub(super) enum Begin {
    Epoch(u64),
    At(State),
}

/// The next step of the planning thread.
pub(super) enum Step {
    Begin(Begin),
    /// Plan a batch. It gets a slot at once, or when there is room.
    Plan {
        has_room: bool,
    },
    Refill(BatchPlan),
    Exit,
}

/// The next item in order.
pub(super) enum Taken {
    Batch(Draft<Batch>),
    /// The end of the epoch.
    End,
    /// The epoch ends here.
    Failed(Error),
    /// No slot is available for the next batch now, or the workspace is not available, or user code was interrupted on
    /// the caller's thread. This takes no ticket and ends nothing.
    Exhausted(Error),
}

/// Returns an error in any process but the one that started the threads.
pub(super) fn check_process(process: u32) -> Result<()> {
    if process == std::process::id() {
        return Ok(());
    }
    let message = format!(
        "threads stay behind when a process forks, and those of this workspace are in process {process}: make a new \
         workspace and new iterators in the child, or shield them before the fork"
    );
    Err(Error::new(ErrorKind::Unsupported, message))
}
