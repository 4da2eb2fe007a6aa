//! Tensors of single records in memory, made by the fields and transforms of a loader.

use std::fmt;
use std::sync::Arc;

use crate::dtype::Element;
use crate::error::{Error, ErrorKind, Result};
use crate::layout::Layout;
use crate::memory::MemoryBudget;
use crate::random::RandomKey;
use crate::read::fields::Field;
use crate::read::{GivenFields, Images, Sample, Scratch, SourceConfig, Value, named_geometries, usual_fields};
use crate::row::RowMut;
use crate::schema::{Extents, Role, TensorSpec};
use crate::transform::{Chain, ChainMemory};
use crate::tree::no_faults;
use crate::view::TensorView;

use super::Loader;

/// The fields and transforms of a [`Loader`], applied to single records in memory: [`Loader::serve`] makes it.
///
/// Clones share the same data. It may be used from many threads at once; each needs a [row](Self::row) of its own.
#[derive(Clone)]
pub struct Served(Arc<Inner>);

struct Inner {
    fields: GivenFields,
    chain: Chain,
}

impl fmt::Debug for Served {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Served").field("tensors", &self.tensors()).finish_non_exhaustive()
    }
}

/// The tensors of one record, in memory that is reused for the next record.
pub struct ServedRow {
    served: Served,
    layout: Layout,
    /// The memory of the layout, aligned to 8 bytes.
    memory: Vec<u64>,
    scratch: Scratch,
    transforms: ChainMemory,
}

impl fmt::Debug for ServedRow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServedRow").field("tensors", &self.served.tensors()).finish_non_exhaustive()
    }
}

impl Loader {
    /// Applies the fields, normalisers and transforms of this loader to single records in memory, such as the requests
    /// of a server. The results are the same bytes that a validation loader with these settings gives. Nothing is read
    /// from the sources, and they need not exist.
    ///
    /// The result has the tensors that are features: of fields (or the usual ones of a folder of images) and of a
    /// [fitted recipe](Self::prepare). Transforms of labels are left out. Random operations and transforms of whole
    /// batches are errors, because they are for training. Lists of numbers need a `shape` or a `max_len`, because only the
    /// data distinguish other lists from single numbers.
    ///
    #[cfg_attr(feature = "images", doc = "```")]
    #[cfg_attr(not(feature = "images"), doc = "```ignore")]
    /// use ringfeed::field::{Class, Image};
    /// use ringfeed::read::Value;
    /// use ringfeed::{Loader, Normaliser};
    ///
    /// let loader = Loader::images("photos/valid")
    ///     .field("image", Image::rgb(224, 224))
    ///     .field("label", Class)
    ///     .normalise("image", Normaliser::imagenet());
    /// let served = loader.serve()?;
    ///
    /// let mut row = served.row(); // one for each thread
    /// let file = std::fs::read("fixtures/photos/china.jpg")?; // or the body of a request
    /// served.apply([("image", Value::Bytes(&file))], &mut row)?;
    /// assert_eq!(row.f32("image")?.len(), 3 * 224 * 224);
    /// # Ok::<(), ringfeed::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Config`] with what is wrong with the settings, or for a field whose decoding depends on the data.
    pub fn serve(&self) -> Result<Served> {
        no_faults([self.faults.clone(), self.config.value_faults()].concat())?;
        let fields = named_geometries(&self.fields_of_records()?);
        let is_label = |(_, field): &&(String, Field)| field.role_or_default() != Role::Feature;
        let labels: Vec<&str> = fields.iter().filter(is_label).map(|(name, _)| name.as_str()).collect();
        let features: Vec<_> = fields.iter().filter(|field| !is_label(field)).cloned().collect();
        if features.is_empty() {
            let message = "fields: say which tensors are made of which fields, because the usual ones of a source are known only \
                 after reading it";
            return Err(Error::new(ErrorKind::Config, message));
        }
        let transforms = self.list().without_those_of(&labels);
        if let Some(operation) = transforms.members().flatten().find(|operation| operation.is_augmentation()) {
            let tensor = operation.tensor().unwrap_or("a whole batch");
            let message =
                format!("transforms: one of {tensor} is for training alone; leave it out where records are served");
            return Err(Error::new(ErrorKind::Config, message));
        }
        let budget = self.config.memory.budget_bytes.map_or_else(MemoryBudget::unlimited, MemoryBudget::new);
        let fields = GivenFields::new(&features, &budget)?;
        let chain = Chain::new(fields.tensors(), &transforms)?;
        if chain.changes_batches() {
            let message = "transforms: a transform of whole batches has nothing to do on a single record";
            return Err(Error::new(ErrorKind::Config, message));
        }
        Ok(Served(Arc::new(Inner { fields, chain })))
    }

    /// The fields of all sources, and of the fitted recipe.
    fn fields_of_records(&self) -> Result<Vec<(String, Field)>> {
        let config = self.config.clone().with_only().with_prepared()?;
        let mut fields = config.fields;
        let are_usual = |source: &&SourceConfig| source.is::<Images>() && source.fields.is_empty();
        if fields.is_empty() && config.sources.iter().any(|source| are_usual(&source)) {
            fields = usual_fields();
        }
        fields.extend(config.sources.into_iter().flat_map(|source| source.fields));
        Ok(fields)
    }
}

impl Served {
    /// The tensors that are made of a record.
    pub fn tensors(&self) -> &[TensorSpec] {
        self.0.chain.schema().tensors()
    }

    /// The fields of a record that the tensors are made of.
    pub fn field_names(&self) -> impl ExactSizeIterator<Item = &str> {
        self.0.fields.names().iter().map(String::as_str)
    }

    /// A row for the results, filled with zeros. Each thread that serves needs its own.
    pub fn row(&self) -> ServedRow {
        let mut layout = Layout::default();
        // Values that are too large are reported when the fields are applied.
        let is_laid_out = layout.compute(self.0.chain.schema(), 1, Extents::default()).is_ok();
        let words = if is_laid_out { layout.bytes().div_ceil(8) } else { 0 };
        ServedRow {
            served: self.clone(),
            layout,
            memory: vec![0; words],
            scratch: Scratch::default(),
            transforms: ChainMemory::default(),
        }
    }

    /// Makes the tensors of a record, given by its values under the names of its [fields](Self::field_names). For a
    /// field that names a file, give the bytes of that file. A field without a value is missing.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Data`] and those of decoding, with the tensor, for what a loader would call a bad record;
    /// [`ErrorKind::NotFound`] for a name that no field has. After an error the contents of the row are undefined.
    ///
    /// # Panics
    ///
    /// If a closure among the transforms panics.
    pub fn apply<'v, V>(&self, values: V, row: &mut ServedRow) -> Result<()>
    where
        V: IntoIterator<Item = (&'v str, Value<'v>)> + Clone,
    {
        if !Arc::ptr_eq(&row.served.0, &self.0) {
            return Err(Error::new(ErrorKind::Schema, "the row is one of another loader; take it from `row`"));
        }
        let Inner { fields, chain } = &*self.0;
        let ServedRow { layout, memory, scratch, transforms: ChainMemory { wide, scopes }, .. } = row;
        let extents = match fields.is_variable() {
            true => fields.measure(values.clone())?,
            false => Extents::default(),
        };
        layout.compute(chain.schema(), 1, chain.lengths().apply(extents)?)?;
        let words = layout.bytes().div_ceil(8);
        if memory.len() < words {
            memory.try_reserve_exact(words - memory.len()).map_err(|error| {
                let message = format!("no memory for the {} bytes of a record", layout.bytes());
                Error::new(ErrorKind::Limit, message).with_source(error)
            })?;
            memory.resize(words, 0);
        }
        let mut out = RowMut::new(bytemuck::cast_slice_mut(memory), chain.schema().tensors(), layout, 0);
        let mut out = out.as_rows();
        let mut rows = out.widen(chain.wide(), wide)?;
        let mut only = rows.row(0);
        fields.decode(values, scratch, &mut only.part(0, chain.inputs()))?;
        let mut applied = Ok(());
        let sample = Sample { id: 0, key: RandomKey::new(0) };
        chain.around(&mut || applied = chain.apply(sample, &mut only, &mut scopes.enter()));
        applied
    }
}

impl ServedRow {
    /// The tensor of this name, without the batch dimension.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::NotFound`] with the nearest name.
    pub fn tensor(&self, name: &str) -> Result<TensorView<'_>> {
        let at = self.served.0.chain.schema().index_of(name)?;
        let (spec, layout) = (&self.served.tensors()[at], &self.layout.tensors()[at]);
        let bytes: &[u8] = bytemuck::cast_slice(&self.memory);
        let bytes = &bytes[layout.offset()..layout.offset() + layout.row_bytes()];
        Ok(TensorView::of_row(spec, *layout.row_shape(), bytes))
    }

    /// All tensors.
    pub fn tensors(&self) -> impl Iterator<Item = TensorView<'_>> {
        self.served.tensors().iter().filter_map(|spec| self.tensor(&spec.name).ok())
    }

    /// The elements of the tensor of this name.
    ///
    /// # Errors
    ///
    /// As [`tensor`](Self::tensor), and [`ErrorKind::Schema`] for one of another type.
    pub fn get<T: Element>(&self, name: &str) -> Result<&[T]> {
        self.tensor(name)?.as_slice()
    }

    /// The elements of a tensor of type `f32`.
    ///
    /// # Errors
    ///
    /// As [`get`](Self::get).
    pub fn f32(&self, name: &str) -> Result<&[f32]> {
        self.get(name)
    }
}
