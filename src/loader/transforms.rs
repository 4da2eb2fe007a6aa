use crate::dataset::{Source, Transformed};
use crate::error::Result;
use crate::memory::Scope;
use crate::normalise::{Normaliser, NormaliserConfig};
use crate::row::TensorMut;
use crate::schema::TensorSpec;
use crate::transform::{BatchMut, BatchTransform, NumberAugment, Operation, Row, Transform, Transforms};

use super::Loader;

impl Loader {
    /// Normalises the tensor of this name. This happens while decoding, at no extra cost, unless transforms that were
    /// added before work on the tensor. A normaliser that it has already, as of settings, is replaced.
    #[must_use]
    pub fn normalise(mut self, tensor: impl Into<String>, normaliser: Normaliser) -> Self {
        let (tensor, normaliser) = (tensor.into(), NormaliserConfig::Inline(normaliser));
        if self.has_transforms() {
            return self.transform(Operation::Normalise { tensor, normaliser });
        }
        self.config.normalise.insert(tensor, normaliser);
        self
    }

    /// Applies random operations to the numbers of this tensor, in this order, after normalisation and transforms that
    /// were added before. Leave them out for evaluation. Default: none.
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
        self.config.augment.entry(tensor).or_default().extend(operations);
        self
    }

    fn has_transforms(&self) -> bool {
        !self.config.transforms.is_empty() || !self.transforms.is_empty()
    }

    /// Adds a tensor that `write` computes for each sample, in the workers. `write` gets all tensors of the sample so
    /// far, the new tensor filled with zeros, and a scope for temporary arrays that end with the call. A tensor of the
    /// same name is replaced.
    ///
    /// For random numbers use the row's [key](Row::key), a function of seed, epoch and sample (and of the draw, where
    /// an epoch draws a sample several times). Then batches are the same for any number of workers. An error or a panic
    /// makes the sample a bad record.
    ///
    /// ```
    /// use ringfeed::tensor::{Role, TensorSpec};
    /// use ringfeed::{DType, Loader};
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

    /// Changes the tensor of this name in place with `change`, for each sample, in the workers. All other tensors can
    /// be read.
    #[must_use]
    pub fn change(
        self,
        tensor: impl Into<String>,
        change: impl Fn(&Row<'_>, &mut TensorMut<'_>, &Scope<'_>) -> Result<()> + Send + Sync + 'static,
    ) -> Self {
        self.with_transforms(|list| list.change(tensor, change))
    }

    /// Changes each whole batch with `change`, in the worker that finished it, after all transforms of samples.
    ///
    /// For random numbers use the batch's [key](BatchMut::key). An error or a panic ends the epoch in the batch's
    /// place.
    #[must_use]
    pub fn map_batch(
        self,
        change: impl Fn(&mut BatchMut<'_>, &Scope<'_>) -> Result<()> + Send + Sync + 'static,
    ) -> Self {
        self.with_transforms(|list| list.map_batch(change))
    }

    /// Adds a built-in transform to the end of the list.
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

    /// Removes a tensor that only transforms needed.
    #[must_use]
    pub fn remove(self, tensor: impl Into<String>) -> Self {
        self.transform(Operation::Remove { tensor: tensor.into() })
    }

    /// Adds your own transform of samples.
    #[must_use]
    pub fn transform_by(self, transform: impl Transform + 'static) -> Self {
        self.with_transforms(|list| list.and(transform))
    }

    /// Adds your own transform of batches.
    #[must_use]
    pub fn transform_batches_by(self, transform: impl BatchTransform + 'static) -> Self {
        self.with_transforms(|list| list.and_batch(transform))
    }

    fn with_transforms(mut self, add: impl FnOnce(Transforms) -> Transforms) -> Self {
        self.transforms = add(std::mem::take(&mut self.transforms));
        self
    }

    /// The whole list: transforms by tensor name, those in settings, and those that were added later.
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
}
