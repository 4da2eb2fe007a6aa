use crate::dataset::{Source, Transformed};
use crate::error::Result;
use crate::memory::Scope;
use crate::normalise::{Normaliser, NormaliserConfig};
use crate::row::TensorMut;
use crate::schema::{Schema, TensorSpec};
use crate::transform::{BatchMut, BatchTransform, NumberAugment, Operation, Row, Transform, Transforms};

use super::Loader;

impl Loader {
    /// Normalises the tensor of this name: while it is decoded, unless transforms that were added before work on it.
    #[must_use]
    pub fn normalise(mut self, tensor: impl Into<String>, normaliser: Normaliser) -> Self {
        let (tensor, normaliser) = (tensor.into(), NormaliserConfig::Inline(normaliser));
        if self.has_transforms() {
            return self.transform(Operation::Normalise { tensor, normaliser });
        }
        self.config.normalise.insert(tensor, normaliser);
        self
    }

    /// Random operations on the numbers of this tensor, in this order, after normalisation and transforms that were added
    /// before. Leave it out for evaluation. Default: none.
    #[must_use]
    pub fn augment_numbers(
        mut self,
        tensor: impl Into<String>,
        operations: impl IntoIterator<Item = NumberAugment>,
    ) -> Self {
        let tensor = tensor.into();
        if self.has_transforms() {
            return operations.into_iter().fold(self, |loader, one| loader.transform(one.on(&tensor)));
        }
        self.config.augment.insert(tensor, operations.into_iter().collect());
        self
    }

    fn has_transforms(&self) -> bool {
        !self.config.transforms.is_empty() || !self.transforms.is_empty()
    }

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

    /// Has `change` work on the tensor of this name where it is, for each sample, in the workers. All others can be read.
    #[must_use]
    pub fn change(
        self,
        tensor: impl Into<String>,
        change: impl Fn(&Row<'_>, &mut TensorMut<'_>, &Scope<'_>) -> Result<()> + Send + Sync + 'static,
    ) -> Self {
        self.with_transforms(|list| list.change(tensor, change))
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

    /// Adds a transform that Ringfeed brings along, behind those so far.
    ///
    /// ```
    /// use ringfeed::Loader;
    /// use ringfeed::transform::{clip, log1p, mixup};
    ///
    /// let train = Loader::csv("fixtures/iris-species.csv")
    ///     .labels(["species"])
    ///     .transform(log1p("features"))
    ///     .transform(clip("features", 0.0, 2.0))
    ///     .transform(mixup(0.2)); // the species become one number each
    /// let batch = train.build()?.next().expect("there are flowers")?;
    /// assert_eq!(batch.labels()?.shape(), [32, 3]);
    /// # Ok::<(), ringfeed::Error>(())
    /// ```
    #[must_use]
    pub fn transform(mut self, operation: Operation) -> Self {
        if self.transforms.is_empty() {
            self.config.transforms.push(operation);
            return self;
        }
        self.with_transforms(|list| list.with(operation))
    }

    /// Removes a tensor that transforms needed, but the trainer does not.
    #[must_use]
    pub fn remove(self, tensor: impl Into<String>) -> Self {
        self.transform(Operation::Remove { tensor: tensor.into() })
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

    /// The whole list: what is said by tensor name, what settings list, what was added since.
    pub(super) fn list(&self) -> Transforms {
        let config = &self.config;
        let normalise = config.normalise.iter().map(|(tensor, normaliser)| Operation::Normalise {
            tensor: tensor.clone(),
            normaliser: normaliser.clone(),
        });
        let augment = config.augment.iter().flat_map(|(tensor, list)| list.iter().map(move |one| one.on(tensor)));
        let listed: Transforms = normalise.chain(augment).chain(config.transforms.iter().cloned()).collect();
        listed.then(self.transforms.clone())
    }

    pub(super) fn transformed(&self, source: Box<dyn Source>) -> Result<Box<dyn Source>> {
        let list = self.list();
        Ok(if list.is_empty() { source } else { Box::new(Transformed::new(source, list)) })
    }

    /// What becomes of the tensors of `schema`.
    pub(super) fn transformed_schema(&self, schema: &Schema) -> Result<Schema> {
        self.list().schema(schema)
    }
}
