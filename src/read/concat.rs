use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use crate::counters::DamageTally;
use crate::error::{Error, ErrorKind, Location, Result};
use crate::positions::Subset;
use crate::random::RandomKey;
use crate::row::{RowMut, RowsMut};
use crate::schema::{Dim, Extents, Masked, TensorSpec};
use crate::storage::Needs;

use super::dealt::{Dealt, Slot};
use super::job::{caught_each, decode_each};
use super::many::{chunks_of_parts, file_name, hash_names, hash_sources};
use super::{Fingerprint, Job, RecordReader, Sample, Scratch};

/// Several readers, one after another: the records of the first, then those of the second, and so on.
///
/// All must give the same tensors, and the same numbers must mean the same: if names of classes or categories would be
/// found in the data, open all readers with one list of names. Locations and names are those of the single readers.
///
/// ```
/// use ringfeed::read::{Concat, MemoryReader};
/// use ringfeed::source::ReaderSource;
/// use ringfeed::tensor::Role;
///
/// let old = MemoryReader::new("x", Role::Feature, &[], vec![0.0f32, 1.0])?;
/// let new = MemoryReader::new("x", Role::Feature, &[], vec![2.0f32, 3.0, 4.0])?;
/// let both = Concat::new(old).and(new)?;
/// // Three new samples to each old one, each source used evenly:
/// let mix = [(both.part(0), 0.25), (both.part(1), 0.75)];
/// let source = ReaderSource::new(both).mix(mix).shuffle(42);
/// # Ok::<(), ringfeed::Error>(())
/// ```
pub struct Concat {
    parts: Vec<Arc<dyn RecordReader>>,
    /// Where each part begins, and at the end the number of all records.
    starts: Vec<u64>,
    /// The file of each part, if the parts are files of one data set.
    paths: Option<Arc<[PathBuf]>>,
    /// A hash of the parts' paths, if they are sources that are mixed.
    sources: Option<u64>,
}

impl fmt::Debug for Concat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Concat").field("parts", &self.parts.len()).field("starts", &self.starts).finish()
    }
}

impl Concat {
    /// The records of `reader`.
    pub fn new(reader: impl RecordReader + 'static) -> Self {
        let starts = vec![0, reader.len()];
        Self { parts: vec![Arc::new(reader)], starts, paths: None, sources: None }
    }

    /// The records of files, each read by one of `readers`. A record's name begins with that of its file, so that it
    /// keeps its name when files are added.
    ///
    /// # Errors
    ///
    /// As [`and`](Self::and), and [`ErrorKind::NotFound`] for none.
    pub(super) fn of_files(readers: Vec<Arc<dyn RecordReader>>, paths: &[PathBuf]) -> Result<Self> {
        let mut readers = readers.into_iter().zip(paths);
        let Some((first, _)) = readers.next() else {
            return Err(Error::new(ErrorKind::NotFound, "no file is named"));
        };
        let all = readers
            .try_fold(Self::new(first), |all, (reader, path)| all.and(reader).map_err(|error| error.at_path(path)))?;
        Ok(Self { paths: Some(paths.into()), ..all })
    }

    /// The same records, from sources with these paths, which tell sources in another order from these.
    pub(crate) fn of_sources(self, paths: &[PathBuf]) -> Self {
        Self { sources: Some(hash_sources(paths)), ..self }
    }

    /// Adds the records of a further reader.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Schema`] unless it gives the same tensors: name, role, type, shape, mask, classes and categories;
    /// [`ErrorKind::Limit`] with more than 2^64 - 1 records.
    pub fn and(mut self, reader: impl RecordReader + 'static) -> Result<Self> {
        let (ours, theirs) = (resolved(self.tensors()), resolved(reader.tensors()));
        if ours != theirs {
            let [mine, its] = [named(&*self.parts[0], 0), named(&reader, self.parts.len())];
            let error = match ours.iter().zip(&theirs).find(|(ours, theirs)| ours != theirs) {
                Some((ours, theirs)) => {
                    let same = outline(ours) == outline(theirs) && ours.affine == theirs.affine;
                    let advice = if same { "; open both with the same list of names" } else { "" };
                    let message =
                        format!("{its} has {}, but {mine} has {}{advice}", unlike(theirs, ours), unlike(ours, theirs));
                    Error::new(ErrorKind::Schema, message).at_column(&ours.name)
                }
                None => {
                    let message = format!("{its} has {} tensors, but {mine} has {}", theirs.len(), ours.len());
                    Error::new(ErrorKind::Schema, message)
                }
            };
            return Err(error);
        }
        let Some(len) = self.len().checked_add(reader.len()) else {
            let message = format!("{} records and {} more are more than 2^64", self.len(), reader.len());
            return Err(Error::new(ErrorKind::Limit, message));
        };
        self.starts.push(len);
        self.parts.push(Arc::new(reader));
        Ok(self)
    }

    /// The records of reader `part`, with their numbers in this reader.
    ///
    /// # Panics
    ///
    /// If there is no such reader.
    pub fn part(&self, part: usize) -> Subset {
        Subset::range(self.starts[part]..self.starts[part + 1])
    }

    /// The reader that has a record, and the record's number there.
    fn locate(&self, sample: u64) -> (usize, u64) {
        let last = self.parts.len() - 1;
        let part = self.starts[..=last].partition_point(|start| *start <= sample) - 1;
        (part, sample - self.starts[part])
    }
}

/// The name of a part in messages.
fn named(reader: &dyn RecordReader, part: usize) -> String {
    let path = if reader.is_empty() { None } else { reader.place(0).path };
    path.map_or_else(|| format!("part {part}"), |path| format!("part {part} ({})", path.display()))
}

/// These tensors, each with its mask.
fn resolved(specs: &[TensorSpec]) -> Vec<TensorSpec> {
    let masked = |spec: &TensorSpec| spec.mask(specs.iter()).map_or(Masked::Never, Masked::from);
    specs.iter().map(|spec| TensorSpec { masked: masked(spec), ..spec.clone() }).collect()
}

/// A tensor without what its numbers mean.
fn outline(spec: &TensorSpec) -> String {
    let dims = spec.shape.iter().map(|dim| match dim {
        Dim::Fixed(len) => len.to_string(),
        Dim::Extent(_) => "any".to_owned(),
    });
    format!("{:?} as a {:?} of {} [{}]", spec.name, spec.role, spec.dtype, dims.collect::<Vec<_>>().join(", "))
}

/// How `one` differs from `other`, in the words of a message.
fn unlike(one: &TensorSpec, other: &TensorSpec) -> String {
    if outline(one) != outline(other) {
        return outline(one);
    }
    if one.classes != other.classes {
        return listed("classes", one.classes.as_deref(), other.classes.as_deref());
    }
    if one.masked != other.masked {
        return match &one.masked {
            Masked::By { mask, .. } => format!("the mask {mask:?}"),
            _ => "no mask".to_owned(),
        };
    }
    let (ours, theirs) = (one.categories.as_deref(), other.categories.as_deref());
    if ours == theirs {
        return format!("the transformation {:?}", one.affine);
    }
    let column = ours.unwrap_or_default().iter().zip(theirs.unwrap_or_default()).position(|(own, other)| own != other);
    let names = |lists: Option<&[Vec<String>]>| lists.and_then(|lists| lists.get(column.unwrap_or(0)).cloned());
    let listed = listed("categories", names(ours).as_deref(), names(theirs).as_deref());
    column.map_or_else(|| listed.clone(), |column| format!("in column {column} {listed}"))
}

/// As many names as a message may hold, beginning with the first one that differs from the other list.
fn listed(what: &str, names: Option<&[String]>, others: Option<&[String]>) -> String {
    let Some(names) = names else { return format!("no {what}") };
    let same = names.iter().zip(others.unwrap_or_default()).take_while(|(one, other)| one == other).count();
    let shown = names.iter().skip(same).take(5).map(|name| format!("{:?}", name.chars().take(40).collect::<String>()));
    let shown: Vec<String> = shown.collect();
    let before = if same > 0 { "..., " } else { "" };
    let behind = if same + shown.len() < names.len() { ", ..." } else { "" };
    format!("the {} {what} [{before}{}{behind}]", names.len(), shown.join(", "))
}

impl RecordReader for Concat {
    fn len(&self) -> u64 {
        self.starts.last().copied().unwrap_or(0)
    }

    fn tensors(&self) -> &[TensorSpec] {
        self.parts[0].tensors()
    }

    fn need(&self, samples: &[u64], needs: &mut Needs) {
        for sample in samples {
            let (part, record) = self.locate(*sample);
            self.parts[part].need(&[record], needs);
        }
    }

    fn measure(&self, sample: u64, scratch: &mut Scratch) -> Result<Extents> {
        let (part, record) = self.locate(sample);
        self.parts[part].measure(record, scratch.of::<Dealt>().aside())
    }

    fn fetch(&self, samples: &[u64], nth: usize, scratch: &mut Scratch) -> Result<()> {
        let dealt = scratch.of::<Dealt>();
        if nth == 0 {
            dealt.deal(self.parts.len(), samples.iter().map(|sample| self.locate(*sample)));
        }
        let (slot, nth) = dealt.of(nth);
        let part = &self.parts[slot.part];
        let has_begun = std::mem::replace(&mut slot.has_begun, true);
        if nth > 0 && !has_begun {
            // The part's first record is known to be bad, but must be requested: see `RecordReader::fetch`.
            drop(part.fetch(&slot.records, 0, &mut slot.scratch));
        }
        part.fetch(&slot.records, nth, &mut slot.scratch)
    }

    fn decode(&self, sample: Sample, nth: usize, scratch: &mut Scratch, row: &mut RowMut<'_>) -> Result<()> {
        let (part, id) = self.locate(sample.id);
        let (buffers, nth) = scratch.of::<Dealt>().read(nth);
        buffers.forget_damage();
        let decoded = self.parts[part].decode(Sample { id, ..sample }, nth, buffers, row);
        let damage = buffers.take_damage();
        scratch.note_all(damage);
        decoded
    }

    fn fetch_all(&self, job: &mut Job<'_>, scratch: &mut Scratch) {
        if job.is_part() {
            while let Some(nth) = job.advance() {
                job.report(self.fetch(job.samples(), nth, scratch));
            }
            return;
        }
        let dealt = scratch.of::<Dealt>();
        dealt.deal_job(self.parts.len(), job.samples(), |sample| self.locate(sample));
        dealt.each(|Slot { part, records, places, scratch, has_begun }| {
            let mut own = job.part(records, places);
            caught_each(&mut own, |own| self.parts[*part].fetch_all(own, scratch));
            job.join(own);
            *has_begun = true;
        });
        job.pass_all();
    }

    fn decode_all(&self, job: &mut Job<'_>, scratch: &mut Scratch, rows: &mut RowsMut<'_>) {
        // Records in memory may not have been fetched.
        if job.is_part() || !scratch.of::<Dealt>().is_of(job.samples()) {
            while let Some(nth) = job.advance() {
                job.report(self.decode(job.sample(nth), nth, scratch, &mut rows.row(nth)));
            }
            return;
        }
        let (mut damage, mut is_straight) = (DamageTally::default(), true);
        scratch.of::<Dealt>().each(|Slot { part, records, places, scratch, .. }| {
            let mut own = job.part(records, places);
            let mut rows = rows.chosen(places);
            decode_each(&mut own, |own| self.parts[*part].decode_all(own, scratch, &mut rows));
            damage.add_all(scratch.take_damage());
            is_straight &= own.is_straight();
            job.join(own);
        });
        scratch.note_all(damage);
        if !job.is_stopped() {
            job.pass_all();
        }
        job.came_straight(is_straight);
    }

    fn is_random(&self) -> bool {
        self.parts.iter().any(|part| part.is_random())
    }

    fn chunks(&self) -> Vec<u64> {
        let parts = self.parts.iter().map(|part| part.chunks());
        chunks_of_parts(&self.starts, parts)
    }

    fn place(&self, sample: u64) -> Location {
        let (part, record) = self.locate(sample);
        self.parts[part].place(record)
    }

    fn source_file(&self, sample: u64) -> Option<PathBuf> {
        let (part, record) = self.locate(sample);
        self.parts[part].source_file(record)
    }

    fn name(&self, sample: u64, name: &mut Vec<u8>) {
        let (part, record) = self.locate(sample);
        if let Some(paths) = &self.paths {
            file_name(&paths[part], name);
        }
        self.parts[part].name(record, name);
    }

    fn label(&self, sample: u64) -> Option<u32> {
        let (part, record) = self.locate(sample);
        self.parts[part].label(record)
    }

    fn label_tensor(&self) -> Option<usize> {
        self.parts.first()?.label_tensor()
    }

    fn fingerprint(&self) -> Fingerprint {
        let parts = self.parts.iter().map(|part| part.fingerprint());
        let (names, sizes) = parts.fold((RandomKey::new(1), RandomKey::new(2)), |(names, sizes), part| {
            let count = part.count.unwrap_or(0);
            (names.with(part.names).with(count), sizes.with(part.sizes).with(count))
        });
        let files = self.paths.as_deref().map(hash_names).into_iter().chain(self.sources);
        let names = files.fold(names, RandomKey::with);
        Fingerprint { count: Some(self.len()), names: names.bits(0), sizes: sizes.bits(0) }
    }
}
