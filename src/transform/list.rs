use std::fmt;
use std::sync::Arc;

use crate::error::Result;
use crate::memory::Scope;
use crate::row::TensorMut;
use crate::schema::{Schema, TensorSpec};

use super::members::{Check, Operation, Part};
use super::{BatchMut, BatchTransform, Outputs, Row, Tensors, Transform};

/// A list of transforms, applied in order: first those of samples, then those of batches.
///
/// ```
/// use ringfeed::read::MemoryReader;
/// use ringfeed::source::{ReaderSource, Transformed};
/// use ringfeed::tensor::{Role, TensorSpec};
/// use ringfeed::transform::Transforms;
/// use ringfeed::{AsyncDataSetIterator, DType, Workspace};
///
/// let points = MemoryReader::new("point", Role::Feature, &[2], vec![3.0f32, 4.0, 6.0, 8.0])?;
/// let list = Transforms::new().map(TensorSpec::new("length", Role::Feature, DType::F32, &[]), |row, out, _| {
///     out.f32()?[0] = row.f32("point")?.iter().map(|x| x * x).sum::<f32>().sqrt();
///     Ok(())
/// });
/// let source = Transformed::new(ReaderSource::new(points), list.remove("point"));
/// let mut batches = AsyncDataSetIterator::new(source, &Workspace::default())?;
/// let batch = batches.next().expect("there are samples")?;
/// assert_eq!(batch.features()?.as_slice::<f32>()?, [5.0, 10.0]);
/// # Ok::<(), ringfeed::Error>(())
/// ```
#[derive(Clone, Default)]
pub struct Transforms {
    items: Vec<Item>,
}

#[derive(Clone)]
pub(super) enum Item {
    Own(Part),
    Member(Operation),
    /// Replaces an operation that a device runs.
    Check(Check),
}

impl Item {
    fn is_of_batches(&self) -> bool {
        matches!(self, Self::Own(Part::Batch(_)) | Self::Member(Operation::Mixup { .. } | Operation::Cutmix { .. }))
    }
}

impl Transforms {
    /// An empty list.
    pub fn new() -> Self {
        Self::default()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    pub(super) fn items(&self) -> &[Item] {
        &self.items
    }

    /// Adds a transform of samples.
    #[must_use]
    pub fn and(mut self, transform: impl Transform + 'static) -> Self {
        self.items.push(Item::Own(Part::Row(Arc::new(transform))));
        self
    }

    /// Adds a built-in transform.
    #[must_use]
    pub fn with(mut self, operation: Operation) -> Self {
        self.items.push(Item::Member(operation));
        self
    }

    /// Adds a transform of batches.
    #[must_use]
    pub fn and_batch(mut self, transform: impl BatchTransform + 'static) -> Self {
        self.items.push(Item::Own(Part::Batch(Arc::new(transform))));
        self
    }

    /// Adds a tensor that `write` computes for each sample, from all tensors so far. Before each call it holds zeros. A
    /// tensor with the same name is replaced.
    #[must_use]
    pub fn map(
        self,
        tensor: TensorSpec,
        write: impl Fn(&Row<'_>, &mut TensorMut<'_>, &Scope<'_>) -> Result<()> + Send + Sync + 'static,
    ) -> Self {
        self.and(Map { tensor, write })
    }

    /// Changes the tensor of this name in place with `change`, for each sample. All other tensors can be read.
    ///
    /// ```
    /// use ringfeed::transform::Transforms;
    ///
    /// let list = Transforms::new().change("features", |_, features, _| {
    ///     features.f32()?.iter_mut().for_each(|x| *x = x.sqrt());
    ///     Ok(())
    /// });
    /// ```
    #[must_use]
    pub fn change(
        self,
        tensor: impl Into<String>,
        change: impl Fn(&Row<'_>, &mut TensorMut<'_>, &Scope<'_>) -> Result<()> + Send + Sync + 'static,
    ) -> Self {
        self.and(Change { tensor: tensor.into(), change })
    }

    /// Changes each whole batch with `change`.
    #[must_use]
    pub fn map_batch(
        self,
        change: impl Fn(&mut BatchMut<'_>, &Scope<'_>) -> Result<()> + Send + Sync + 'static,
    ) -> Self {
        self.and_batch(MapBatch(change))
    }

    /// Removes the tensor of this name, which only other transforms needed.
    #[must_use]
    pub fn remove(self, tensor: impl Into<String>) -> Self {
        self.with(Operation::Remove { tensor: tensor.into() })
    }

    /// The same list without transforms that are only for training.
    pub(crate) fn without_augmentation(mut self) -> Self {
        self.items.retain(|item| !matches!(item, Item::Member(operation) if operation.is_augmentation()));
        self
    }

    /// The same list without transforms of only one of these tensors, or of its mask, lengths or offsets, unless that is
    /// one of `others`.
    pub(crate) fn without_those_of(mut self, tensors: &[&str], others: &[&str]) -> Self {
        let is_one = |name: &str| {
            let of = ["_mask", "_len", "_offsets"].iter().find_map(|end| name.strip_suffix(end));
            tensors.contains(&name) || !others.contains(&name) && of.is_some_and(|name| tensors.contains(&name))
        };
        self.items.retain(|item| {
            let tensor = match item {
                Item::Member(Operation::Pad { tensor, .. }) => Some(tensor.as_str()),
                Item::Member(operation) => operation.tensor(),
                Item::Own(Part::Row(own)) => own.tensor(),
                _ => None,
            };
            !tensor.is_some_and(is_one)
        });
        self
    }

    /// The items in their order: the operation for a built-in transform, and `None` for others.
    pub(crate) fn members(&self) -> impl Iterator<Item = Option<&Operation>> {
        self.items.iter().map(|item| if let Item::Member(operation) = item { Some(operation) } else { None })
    }

    /// Whether a transform of the user's own draws random numbers, as far as it says so.
    pub(crate) fn has_augmentation(&self) -> bool {
        self.items.iter().any(|item| matches!(item, Item::Own(Part::Row(own)) if own.is_augmentation()))
    }

    /// The tensors before each item of the list, and after the last one.
    ///
    /// # Errors
    ///
    /// Errors of the transforms' declarations.
    pub(crate) fn schemas(&self, source: &Schema) -> Result<Vec<Schema>> {
        let first = |count: usize| Self { items: self.items[..count].to_vec() };
        (0..=self.items.len()).map(|count| first(count).schema(source)).collect()
    }

    /// The list without the operations that a device runs. If such an operation can find bad samples, the check stays,
    /// because only the host can report them.
    pub(crate) fn without(self, on_device: &[bool]) -> Self {
        let on_host = |(item, on_device): (Item, &bool)| match item {
            Item::Member(operation) if *on_device => operation.check().map(Item::Check),
            item => Some(item),
        };
        Self { items: self.items.into_iter().zip(on_device).filter_map(on_host).collect() }
    }

    /// The list with additional checks for samples that are not valid, for the `operations` that a device runs after it.
    /// `source` has the inputs of the list.
    ///
    /// # Errors
    ///
    /// Errors of the transforms' declarations.
    pub(crate) fn checking(mut self, operations: &[Operation], source: &Schema) -> Result<Self> {
        let schema = self.schema(source)?;
        let at = self.items.iter().position(Item::is_of_batches).unwrap_or(self.items.len());
        let mut seen = Vec::new();
        for operation in operations {
            let spec = schema.tensors().iter().find(|spec| operation.tensor() == Some(&spec.name));
            let Some(spec) = spec.filter(|spec| !seen.contains(&spec.name.as_str())) else { continue };
            seen.push(&spec.name);
            if let Some(check) = operation.check() {
                self.items.insert(at, Item::Check(check));
            }
        }
        Ok(self)
    }

    /// Adds all transforms of another list.
    #[must_use]
    pub fn then(mut self, others: Self) -> Self {
        self.items.extend(others.items);
        self
    }
}

impl fmt::Debug for Transforms {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Transforms({})", self.items.len())
    }
}

/// A tensor made by a closure.
struct Map<F> {
    tensor: TensorSpec,
    write: F,
}

impl<F: Fn(&Row<'_>, &mut TensorMut<'_>, &Scope<'_>) -> Result<()> + Send + Sync> Transform for Map<F> {
    fn declare(&self, tensors: &mut Tensors) -> Result<()> {
        tensors.read_all();
        tensors.write(self.tensor.clone())
    }

    fn tensor(&self) -> Option<&str> {
        Some(&self.tensor.name)
    }

    fn apply(&self, row: &Row<'_>, out: &mut Outputs<'_>, scope: &Scope<'_>) -> Result<()> {
        let mut tensor = out.tensor(0);
        tensor.bytes_mut().fill(0);
        (self.write)(row, &mut tensor, scope)
    }
}

/// A tensor changed in place by a closure.
struct Change<F> {
    tensor: String,
    change: F,
}

impl<F: Fn(&Row<'_>, &mut TensorMut<'_>, &Scope<'_>) -> Result<()> + Send + Sync> Transform for Change<F> {
    fn declare(&self, tensors: &mut Tensors) -> Result<()> {
        tensors.read_all();
        tensors.change(&self.tensor)
    }

    fn tensor(&self) -> Option<&str> {
        Some(&self.tensor)
    }

    fn apply(&self, row: &Row<'_>, out: &mut Outputs<'_>, scope: &Scope<'_>) -> Result<()> {
        (self.change)(row, &mut out.tensor(0), scope)
    }
}

/// A batch changed by a closure.
struct MapBatch<F>(F);

impl<F: Fn(&mut BatchMut<'_>, &Scope<'_>) -> Result<()> + Send + Sync> BatchTransform for MapBatch<F> {
    fn declare(&self, tensors: &mut Tensors) -> Result<()> {
        tensors.read_all();
        Ok(())
    }

    fn apply(&self, batch: &mut BatchMut<'_>, scope: &Scope<'_>) -> Result<()> {
        (self.0)(batch, scope)
    }
}

impl FromIterator<Operation> for Transforms {
    fn from_iter<I: IntoIterator<Item = Operation>>(operations: I) -> Self {
        Self { items: operations.into_iter().map(Item::Member).collect() }
    }
}
