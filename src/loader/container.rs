use std::sync::Arc;

use crate::error::Result;
use crate::memory::MemoryBudget;
use crate::read::{Container, FieldReader, RecordReader};

use super::own::OpenContainer;
use super::{Loader, open};

impl Loader {
    /// Reads the records of a container of your own, instead of sources. `open` gives it each time that the loader is opened;
    /// [`field`](Self::field) says what tensors are made of it. All other settings are as for any source.
    ///
    /// ```
    /// use ringfeed::field::Text;
    /// use ringfeed::read::Lines;
    /// use ringfeed::storage::Files;
    /// use ringfeed::{Loader, LoaderConfig};
    ///
    /// let lines = Loader::from(LoaderConfig::default())
    ///     .container(|budget| Lines::index(&Files::local(), "fixtures/iris.csv".as_ref(), budget))
    ///     .field("line", Text::new(80))
    ///     .batch_size(10)
    ///     .shuffle(3)
    ///     .build()?;
    /// assert_eq!(lines.batches_per_epoch(), Some(16));
    /// # Ok::<(), ringfeed::Error>(())
    /// ```
    #[must_use]
    pub fn container<C: Container + 'static>(
        mut self,
        open: impl Fn(&MemoryBudget) -> Result<C> + Send + Sync + 'static,
    ) -> Self {
        self.container = Some(OpenContainer::new(open));
        self
    }

    /// The readers of all sources, or of the container that stands for them.
    pub(super) fn readers(&self, budget: &MemoryBudget) -> Result<Vec<Arc<dyn RecordReader>>> {
        match &self.container {
            Some(own) => FieldReader::with_files(own.open(budget)?, &self.config.fields, &self.files, budget),
            None => self.config.sources.iter().map(|source| open(&self.files, source, budget)).collect(),
        }
    }
}
