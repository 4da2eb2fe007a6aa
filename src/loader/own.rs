use std::fmt;
use std::sync::Arc;

use crate::error::Result;
use crate::memory::MemoryBudget;
use crate::read::Container;

/// What opens a container of the user's own.
#[derive(Clone)]
pub(super) struct OpenContainer(Arc<dyn Fn(&MemoryBudget) -> Result<Box<dyn Container>> + Send + Sync>);

impl OpenContainer {
    pub(super) fn new<C: Container + 'static>(
        open: impl Fn(&MemoryBudget) -> Result<C> + Send + Sync + 'static,
    ) -> Self {
        Self(Arc::new(move |budget| Ok(Box::new(open(budget)?))))
    }

    pub(super) fn open(&self, budget: &MemoryBudget) -> Result<Box<dyn Container>> {
        (self.0)(budget)
    }
}

impl fmt::Debug for OpenContainer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a container of the user's own")
    }
}
