//! How many rows a batch may have.

use std::sync::LazyLock;

use crate::control_group::memory as group_memory;
use crate::error::{Error, ErrorKind, Result};
use crate::layout::Layout;
use crate::memory::MemoryBudget;
use crate::schema::{Extents, Schema};
use crate::system::memory as machine_memory;

/// Maximum number of rows for which there is memory.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RowLimit {
    rows: u64,
    is_budget: bool,
}

impl RowLimit {
    /// As many rows of `schema`, with their plan, as fit into the budget if each is as short as possible, and whose plan
    /// fits into the machine's memory.
    pub(crate) fn of(schema: &Schema, budget: &MemoryBudget) -> Self {
        /// For a position, a sample id and the number of its draw.
        const PLAN_BYTES: u64 = 24;
        let mut layout = Layout::default();
        let row = layout.compute(schema, 1, Extents::default()).map_or(0, |()| layout.tensor_bytes() as u64);
        /// Of the machine, or of the process's control groups if these are fewer.
        static MEMORY: LazyLock<u64> = LazyLock::new(|| machine_memory().min(group_memory().unwrap_or(u64::MAX)));
        // Batches may lie in files; their plans do not.
        let (budget, machine) = (budget.limit() / row.saturating_add(PLAN_BYTES), *MEMORY / PLAN_BYTES);
        Self { rows: budget.min(machine), is_budget: budget <= machine }
    }

    /// # Errors
    ///
    /// [`ErrorKind::Budget`], or [`ErrorKind::Limit`] if the machine is the limit.
    pub(crate) fn check(self, rows: usize) -> Result<()> {
        if rows as u64 <= self.rows {
            return Ok(());
        }
        let (kind, limit, advice) = match self.is_budget {
            true => (ErrorKind::Budget, "the memory budget", ", or raise the budget"),
            false => (ErrorKind::Limit, "the memory of this machine", ""),
        };
        let most = self.rows;
        let message = format!(
            "a batch of {rows} samples does not fit {limit}, which has room for {most} at most; lower the batch size{advice}"
        );
        Err(Error::new(kind, message))
    }
}
