use std::sync::Arc;

use crate::error::Result;
use crate::memory::MemoryBudget;
use crate::read::{Container, FieldReader, SampleStream};

use super::Loader;
use super::mix::Readers;
use super::own::Own;

impl Loader {
    /// Reads the records of a container of your own, instead of sources. `open` is called each time that the loader is
    /// opened; [`field`](Self::field) says which tensors to make. All other settings are as for any source.
    ///
    /// ```
    /// use ringfeed::field::Text;
    /// use ringfeed::read::Lines;
    /// use ringfeed::storage::Files;
    /// use ringfeed::{Loader, LoaderConfig};
    ///
    /// let lines = Loader::from(LoaderConfig::default())
    ///     .container(|budget| Lines::open(&Files::local(), "fixtures/iris.csv".as_ref(), &Default::default(), budget))
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
        self.own = Some(Own::Container(Arc::new(move |budget| Ok(Box::new(open(budget)?)))));
        self
    }

    /// Takes samples of an iterator of your own, instead of sources. `open` is called each time that the loader is
    /// opened. The samples keep their order: settings that need another order, or only some of the samples, are
    /// refused.
    ///
    /// ```
    /// use ringfeed::read::{SampleTensor, SampleStream};
    /// use ringfeed::tensor::{Role, TensorSpec};
    /// use ringfeed::{DType, Loader, LoaderConfig};
    ///
    /// let squares = || (0..100i64).map(|i| Ok(vec![SampleTensor::from(i * i)]));
    /// let tensors = [TensorSpec::new("square", Role::Feature, DType::I64, &[])];
    /// let loader = Loader::from(LoaderConfig::default()).samples(move || SampleStream::repeatable(&tensors, squares));
    /// let batches = loader.batch_size(50).build()?;
    /// assert_eq!(batches.flatten().map(|batch| batch.len()).sum::<usize>(), 100);
    /// # Ok::<(), ringfeed::Error>(())
    /// ```
    #[must_use]
    pub fn samples(mut self, open: impl Fn() -> Result<SampleStream> + Send + Sync + 'static) -> Self {
        self.own = Some(Own::Samples(Arc::new(open)));
        self
    }

    /// The readers of all sources, or of the container that replaces them.
    pub(super) fn readers(&self, budget: &MemoryBudget) -> Result<Readers> {
        match &self.own {
            Some(Own::Container(open)) => {
                let all = FieldReader::with_files(open(budget)?, &self.config.fields, &self.files, budget)?;
                Ok(Readers { sources: vec![0; all.len()], all, parts: Vec::new() })
            }
            _ => self.open_all(&self.config.sources, budget),
        }
    }
}
