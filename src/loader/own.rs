use std::fmt;
use std::sync::Arc;

use crate::error::Result;
use crate::memory::MemoryBudget;
use crate::read::{Container, SampleStream};

/// Opens a container, whose memory counts against the budget.
pub(super) type OpenContainer = dyn Fn(&MemoryBudget) -> Result<Box<dyn Container>> + Send + Sync;

/// Opens the user's own data, instead of sources.
#[derive(Clone)]
pub(super) enum Own {
    /// Records with random access, from which codecs make tensors.
    Container(Arc<OpenContainer>),
    /// Samples that come one after another.
    Samples(Arc<dyn Fn() -> Result<SampleStream> + Send + Sync>),
}

impl fmt::Debug for Own {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Container(_) => "a container of the user's own",
            Self::Samples(_) => "samples of the user's own",
        })
    }
}
