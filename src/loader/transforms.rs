use crate::dataset::{Source, Transformed};
use crate::error::Result;
use crate::memory::Scope;
use crate::row::TensorMut;
use crate::schema::{Schema, TensorSpec};
use crate::transform::{BatchMut, BatchTransform, Row, Transform, Transforms};

use super::Loader;

impl Loader {
    /// Adds a tensor that `write` computes for each sample, in the workers, from all tensors that there are so far: their names,
    /// zeros to be written, and memory for arrays that end with the call. A tensor of the same name is replaced.
    ///
    /// Randomness comes from the row's [key](Row::key), a function of seed, epoch and sample: then the same batches come
    /// whatever the number of workers. An error or a panic makes the sample a bad record.
    ///
    /// ```
    /// use ringfeed::{DType, Loader, Role, TensorSpec};
    ///
    /// let train = Loader::csv("fixtures/iris-species.csv")
    ///     .labels(["species"])
    ///     .map(TensorSpec::new("ratio", Role::Feature, DType::F32, &[]), |row, out, _scope| {
    ///         let flower = row.f32("features")?;
    ///         out.f32()?[0] = flower[0] / flower[1];
    ///         Ok(())
    ///     })
    ///     .build()?;
    /// assert_eq!(train.schema().tensors().len(), 3);
    /// # Ok::<(), ringfeed::Error>(())
    /// ```
    #[must_use]
    pub fn map(
        self,
        tensor: TensorSpec,
        write: impl Fn(&Row<'_>, &mut TensorMut<'_>, &Scope<'_>) -> Result<()> + Send + Sync + 'static,
    ) -> Self {
        self.with_transforms(|list| list.map(tensor, write))
    }

    /// Has `change` work on each batch as a whole, in the worker that finished it. What works on samples comes before.
    ///
    /// Randomness comes from the batch's [key](BatchMut::key). An error or a panic ends the epoch in the batch's place.
    #[must_use]
    pub fn map_batch(
        self,
        change: impl Fn(&mut BatchMut<'_>, &Scope<'_>) -> Result<()> + Send + Sync + 'static,
    ) -> Self {
        self.with_transforms(|list| list.map_batch(change))
    }

    /// Removes a tensor that transforms needed, but the trainer does not.
    #[must_use]
    pub fn remove(self, tensor: impl Into<String>) -> Self {
        self.with_transforms(|list| list.remove(tensor))
    }

    /// Adds a transform of samples, of your own.
    #[must_use]
    pub fn transform_by(self, transform: impl Transform + 'static) -> Self {
        self.with_transforms(|list| list.and(transform))
    }

    /// Adds a transform of batches, of your own.
    #[must_use]
    pub fn transform_batches_by(self, transform: impl BatchTransform + 'static) -> Self {
        self.with_transforms(|list| list.and_batch(transform))
    }

    fn with_transforms(mut self, add: impl FnOnce(Transforms) -> Transforms) -> Self {
        self.transforms = add(std::mem::take(&mut self.transforms));
        self
    }

    /// The whole list.
    fn list(&self) -> Result<Transforms> {
        Ok(self.transforms.clone())
    }

    pub(super) fn transformed(&self, source: Box<dyn Source>) -> Result<Box<dyn Source>> {
        let list = self.list()?;
        Ok(if list.is_empty() { source } else { Box::new(Transformed::new(source, list)) })
    }

    /// What becomes of the tensors of `schema`.
    pub(super) fn transformed_schema(&self, schema: Schema) -> Result<Schema> {
        self.list()?.schema(&schema)
    }
}
