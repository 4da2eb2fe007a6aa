//! Tensors of single records in memory, made by the fields and transforms of a loader.

use std::fmt;
use std::sync::Arc;

use serde::Serialize;

use crate::dataset::Buckets;
use crate::dtype::Element;
use crate::error::{Error, ErrorKind, Result};
use crate::layout::Layout;
use crate::memory::MemoryBudget;
use crate::random::RandomKey;
use crate::read::fields::Field;
use crate::read::{
    CsvMemory, GivenFields, JsonMemory, NO_GAPS, OneJson, Rolling, Sample, Scratch, StructMemory, Value, Visit,
    Windows, named_geometries,
};
use crate::row::RowMut;
use crate::schema::{Extents, Role, Rows, TensorSpec};
use crate::transform::{Chain, ChainMemory, Operation};
use crate::tree::no_faults;
use crate::view::TensorView;

use super::Loader;
use super::config::LoaderConfig;
use super::faults::ONE_LENGTH;

/// The fields and transforms of a [`Loader`], applied to single records in memory: [`Loader::serve`] makes it.
///
/// Clones share the same data. It may be used from many threads at once; each needs a [row](Self::row) of its own.
#[derive(Clone)]
pub struct Served(pub(super) Arc<Inner>);

pub(super) struct Inner {
    pub(super) fields: GivenFields,
    pub(super) json: OneJson,
    bucket: Option<Buckets>,
    /// The windows, if samples are windows instead of single records.
    pub(super) windows: Option<Windows>,
    /// Applied to a sample; if samples are windows, to a window as a whole.
    chain: Chain,
}

impl fmt::Debug for Served {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Served").field("tensors", &self.tensors()).finish_non_exhaustive()
    }
}

/// The tensors of one record, or of one [window](super::ServedWindow), in memory that is reused for the next one.
pub struct ServedRow {
    pub(super) served: Served,
    layout: Layout,
    /// The memory of the layout, aligned to 8 bytes.
    memory: Vec<u64>,
    pub(super) scratch: Scratch,
    pub(super) json: JsonMemory,
    pub(super) csv: CsvMemory,
    pub(super) structs: StructMemory,
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
    /// The result has the tensors that are features: those of fields (or the default ones of a folder of images) and of
    /// a [fitted recipe](Self::prepare). Transforms of labels are left out. Random operations and transforms of whole
    /// batches are errors, because they are for training.
    ///
    /// If samples are [windows](Self::windows), records are pushed to a [`window`](Served::window) one after another.
    ///
    /// A list is as long as in a batch of its own: it is not padded, unless there are [buckets](Self::bucket) or a
    /// transform that pads. A [ragged](crate::field::Numbers::ragged) list has its offsets, 0 and its length. There is
    /// no data to tell which fields hold lists. So a field holds lists only if it says so
    /// ([`list`](crate::field::Numbers::list), a `shape`, a `max_len`, ragged), or if buckets or the transform
    /// [`pad`](crate::transform::Operation::Pad) are for its tensor.
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
        let config = self.config.clone().with_only().with_prepared()?;
        let windows = config.windows.clone();
        let fields = named_geometries(&fields_of_records(config))?;
        let is_label = |(_, field): &&(String, Field)| field.role_or_default() != Role::Feature;
        let labels: Vec<&str> = fields.iter().filter(is_label).map(|(name, _)| name.as_str()).collect();
        let features: Vec<_> = fields.iter().filter(|field| !is_label(field)).cloned().collect();
        if features.is_empty() {
            let message = match labels.as_slice() {
                [] => {
                    "fields: say which tensors are made of which fields, because the usual ones of a source are known \
                       only after reading it"
                        .to_owned()
                }
                labels => {
                    format!("fields: all of them are labels ({labels:?}), which are left out where records are served")
                }
            };
            return Err(Error::new(ErrorKind::Config, message));
        }
        let others: Vec<&str> = features.iter().map(|(name, _)| name.as_str()).collect();
        let transforms = self.list().without_those_of(&labels, &others);
        if let Some(operation) = transforms.members().flatten().find(|operation| operation.is_augmentation()) {
            let tensor = operation.tensor().unwrap_or("a whole batch");
            let message =
                format!("transforms: one of {tensor} is for training alone; leave it out where records are served");
            return Err(Error::new(ErrorKind::Config, message));
        }
        if transforms.has_augmentation() {
            let message = "transforms: a function draws random numbers, which is for training alone; leave it out where records \
                           are served";
            return Err(Error::new(ErrorKind::Config, message));
        }
        if self.config.sequences.is_some() {
            let message = "sequences: single records are served; leave the sequences out, and stack the steps";
            return Err(Error::new(ErrorKind::Config, message));
        }
        if windows.is_some() && self.config.bucket.is_some() {
            return Err(Error::new(ErrorKind::Config, ONE_LENGTH));
        }
        if windows.is_some() && fields.iter().any(|(_, field)| field.choice().is_some()) {
            return Err(Error::new(ErrorKind::Config, NO_GAPS));
        }
        let padded = transforms.members().flatten().filter_map(|operation| match operation {
            Operation::Pad { tensor, .. } => Some(tensor.strip_suffix("_mask").unwrap_or(tensor)),
            _ => None,
        });
        // Training refuses both for a tensor that has the same length in every sample.
        let lists: Vec<&str> = padded.chain(self.config.bucket.as_ref().map(|bucket| bucket.by.as_str())).collect();
        let budget = self.config.memory.budget_bytes.map_or_else(MemoryBudget::unlimited, MemoryBudget::new);
        let fields = GivenFields::new(&features, &lists, &budget)?;
        let chain = match &windows {
            Some(windows) => Chain::new(&Rolling::windowed(fields.tensors(), windows)?, &transforms)?,
            None => Chain::new(fields.tensors(), &transforms)?,
        };
        if chain.changes_batches() {
            let message = "transforms: a transform of whole batches has nothing to do on a single record";
            return Err(Error::new(ErrorKind::Config, message));
        }
        if let Some(bucket) = &self.config.bucket
            && let Some(spec) = fields.tensors().iter().find(|spec| spec.name == bucket.by && spec.rows == Rows::Even)
            && let Some(extent) = spec.extent()
        {
            bucket.check_padding(extent, &|extents| chain.lengths().apply(extents))?;
        }
        let json = OneJson::new(fields.names().iter().map(String::as_str));
        Ok(Served(Arc::new(Inner { fields, json, bucket: self.config.bucket.clone(), windows, chain })))
    }
}

impl Served {
    /// The tensors that are made of a record, or of a window if samples are windows.
    pub fn tensors(&self) -> &[TensorSpec] {
        self.0.chain.schema().tensors()
    }

    /// The fields of a record that the tensors are made of.
    pub fn field_names(&self) -> impl ExactSizeIterator<Item = &str> {
        self.0.fields.names().iter().map(String::as_str)
    }

    /// A row for the results, filled with zeros. Each thread that serves needs its own. If samples are windows, make a
    /// [`window`](Self::window) instead.
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
            json: JsonMemory::default(),
            csv: CsvMemory::default(),
            structs: StructMemory::default(),
            transforms: ChainMemory::default(),
        }
    }

    /// Makes the tensors of a record, given by its values under the names of its [fields](Self::field_names). For a
    /// field that names a file, give the bytes of that file. A field without a value is missing.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Data`] and errors of decoding, with the tensor, for a record that a loader would report as bad;
    /// [`ErrorKind::NotFound`] for a name that no field has; [`ErrorKind::Config`] if samples are windows. After an
    /// error the contents of the row are undefined.
    ///
    /// # Panics
    ///
    /// If a closure among the transforms panics.
    pub fn apply<'v, V>(&self, values: V, row: &mut ServedRow) -> Result<()>
    where
        V: IntoIterator<Item = (&'v str, Value<'v>)> + Clone,
    {
        self.apply_read(row, &mut |visit| self.0.fields.each(values.clone(), visit))
    }

    /// Makes the tensors of a record that is a JSON object. Fields are found as in JSON Lines, by their keys or
    /// pointers. Absent keys are missing values, and other keys are ignored. JSON can't carry the bytes of a file.
    ///
    /// ```
    /// use ringfeed::{Loader, LoaderConfig};
    ///
    /// let texts = LoaderConfig::from_json(r#"{
    ///     "source": { "path": "texts.jsonl" },
    ///     "fields": { "ids": { "from": "/ids", "numbers": "i64" } },
    ///     "bucket": { "by": "ids", "bounds": [4, 8] }
    /// }"#)?;
    /// let served = Loader::from(texts).serve()?;
    /// let mut row = served.row();
    /// served.apply_json(r#"{"ids": [7, 8, 9]}"#, &mut row)?;
    /// assert_eq!(row.get::<i64>("ids")?, [7, 8, 9, 0]); // to the bound of its bucket
    /// assert_eq!(row.get::<u8>("ids_mask")?, [1, 1, 1, 0]);
    /// # Ok::<(), ringfeed::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As [`apply`](Self::apply), and [`ErrorKind::Data`] with the byte for text that is not JSON.
    ///
    /// # Panics
    ///
    /// As [`apply`](Self::apply).
    pub fn apply_json(&self, text: &str, row: &mut ServedRow) -> Result<()> {
        let mut json = std::mem::take(&mut row.json);
        let applied = self.apply_read(row, &mut |visit| self.0.json.read(text, &mut json, visit));
        row.json = json;
        applied
    }

    /// Makes the tensors of a record that is a line of CSV, whose columns `header` lists. Both are separated by commas,
    /// semicolons, tabs or bars. Missing values are recognised as in files by default, regardless of the options of the
    /// source, and each field defines what they become. A field of text keeps them as they are. The header is parsed
    /// once per row, as long as it stays the same.
    ///
    /// # Errors
    ///
    /// As [`apply`](Self::apply), and [`ErrorKind::NotFound`] for a field that the header does not have.
    ///
    /// # Panics
    ///
    /// As [`apply`](Self::apply).
    pub fn apply_csv(&self, header: &str, line: &str, row: &mut ServedRow) -> Result<()> {
        let mut csv = std::mem::take(&mut row.csv);
        let applied = self.apply_read(row, &mut |visit| csv.read_given(header, &self.0.fields, line, visit));
        row.csv = csv;
        applied
    }

    /// Makes the tensors of a record that is a struct or a map: anything that is an object in JSON. It is converted to
    /// JSON first.
    ///
    /// # Errors
    ///
    /// As [`apply_json`](Self::apply_json), and [`ErrorKind::Data`] for values that JSON can't hold.
    ///
    /// # Panics
    ///
    /// As [`apply`](Self::apply).
    pub fn apply_struct(&self, record: &impl Serialize, row: &mut ServedRow) -> Result<()> {
        let mut written = std::mem::take(&mut row.structs);
        let applied = written.write(record).and_then(|text| self.apply_json(text, row));
        row.structs = written;
        applied
    }

    /// Makes the tensors of a record. `read` gives the record's values each time that it is called.
    fn apply_read(&self, row: &mut ServedRow, read: &mut dyn FnMut(&mut Visit<'_>) -> Result<()>) -> Result<()> {
        if !Arc::ptr_eq(&row.served.0, &self.0) {
            return Err(Error::new(ErrorKind::Schema, "the row is one of another loader; take it from `row`"));
        }
        let Inner { fields, bucket, windows, .. } = &*self.0;
        if windows.is_some() {
            let message = "windows: a sample consists of several records; push them to a `window` one after another";
            return Err(Error::new(ErrorKind::Config, message));
        }
        let mut extents = match fields.is_variable() {
            true => fields.measure(&mut *read)?,
            false => Extents::default(),
        };
        if let Some(bucket) = bucket {
            bucket.pad(fields.tensors(), &mut extents)?;
        }
        row.fill(extents, |inputs, scratch| fields.decode(read, scratch, inputs))
    }
}

/// The fields of all sources, and those of the settings themselves.
fn fields_of_records(config: LoaderConfig) -> Vec<(String, Field)> {
    let mut fields = config.fields;
    #[cfg(feature = "formats")]
    if fields.is_empty() && config.sources.iter().any(super::of_formats::has_usual_pictures) {
        fields = crate::read::usual_fields();
    }
    fields.extend(config.sources.into_iter().flat_map(|source| source.fields));
    fields
}

impl ServedRow {
    /// Makes the tensors of a sample whose decoded tensors have these lengths, and are written by `write`.
    ///
    /// # Errors
    ///
    /// Those of `write` and of the transforms, and [`ErrorKind::Limit`] if there is no memory for the sample.
    pub(super) fn fill(
        &mut self,
        extents: Extents,
        write: impl FnOnce(&mut RowMut<'_>, &mut Scratch) -> Result<()>,
    ) -> Result<()> {
        let Self { served, layout, memory, scratch, transforms: ChainMemory { wide, scopes }, .. } = self;
        let chain = &served.0.chain;
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
        write(&mut only.part(0, chain.inputs()), scratch)?;
        let sample = Sample { id: 0, key: RandomKey::new(0) };
        chain.around_one(|| chain.apply(sample, &mut only, &mut scopes.enter()))?;
        layout.write_offsets(bytemuck::cast_slice_mut(memory));
        Ok(())
    }

    /// The tensor of this name, without the batch dimension: `[elements]` of a ragged tensor, and `[2]` of its offsets.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::NotFound`] with the nearest name.
    pub fn tensor(&self, name: &str) -> Result<TensorView<'_>> {
        let at = self.served.0.chain.schema().index_of(name)?;
        let spec = &self.served.tensors()[at];
        let bytes: &[u8] = bytemuck::cast_slice(&self.memory);
        let shape = match spec.rows {
            Rows::Even => *self.layout.tensors()[at].row_shape(),
            Rows::Ragged | Rows::Offsets => self.layout.shape(at),
        };
        Ok(TensorView::of_row(spec, shape, &bytes[self.layout.range(at)]))
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
