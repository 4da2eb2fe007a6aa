//! A reader of any container by any codecs: what `fields` ask for.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, OnceLock};

use crate::counters::Damages;
use crate::decode::ImageOptions;
use crate::decode::image::Shared;
use crate::error::{Error, ErrorKind, Location, Result};
use crate::memory::{MemoryBudget, Reservation};
use crate::row::{RowMut, RowsMut};
use crate::schema::{Dim, Extents, MAX_EXTENTS, TensorSpec};
use crate::storage::{Files, Needs};

use super::codec::{Context, Decode, Made, Names, Varying, make, needs_first, needs_names};
use super::container::{Container, FieldInfo, Value};
use super::fields::{Codec, Field, named_geometries, with_others};
use super::listed::ListedFiles;
use super::staged::Staged;
use super::{ColumnRef, Fingerprint, Job, RecordReader, Sample, Scratch, parallel};

/// Most fields that the tensors of a sample come from.
const MAX_SOURCES: usize = 4096;

/// Records that a thread looks at before it takes the next ones, while names are looked for.
const RECORDS_AT_ONCE: u64 = 128;

/// Tensors made of the fields of a [`Container`], each by its codec.
///
/// ```
/// use ringfeed::field::Text;
/// use ringfeed::memory::MemoryBudget;
/// use ringfeed::read::{FieldReader, Lines, RecordReader};
/// use ringfeed::storage::Files;
///
/// let lines = Lines::index(&Files::local(), "fixtures/iris.csv".as_ref(), &MemoryBudget::unlimited())?;
/// let fields = [("line".to_owned(), Text::new(80).cut().into())];
/// let reader = FieldReader::new(lines, &fields, &MemoryBudget::unlimited())?;
/// assert_eq!((reader.len(), reader.tensors().len()), (151, 2));
/// # Ok::<(), ringfeed::Error>(())
/// ```
pub struct FieldReader {
    container: Box<dyn Container>,
    parts: Vec<Part>,
    /// Those that are to be finished when all of a record is written.
    unfinished: Vec<usize>,
    /// Of each of the container's fields, by number: which part it goes to, as which of its fields, and a number for both.
    targets: Vec<Vec<Target>>,
    target_count: usize,
    /// Of each of the container's fields, by number: the views of it, where it is a picture of which there are several. Their
    /// targets come first. Empty where no field is.
    views: Vec<Vec<ImageOptions>>,
    /// How many codecs want all values of a record at once.
    stages: usize,
    tensors: Vec<TensorSpec>,
    lengths: Lengths,
    budget: MemoryBudget,
}

impl fmt::Debug for FieldReader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FieldReader").field("tensors", &self.tensors).finish_non_exhaustive()
    }
}

struct Part {
    name: String,
    codec: Box<dyn Decode>,
    /// Its tensors among all.
    first: usize,
    count: usize,
}

#[derive(Clone, Copy)]
struct Target {
    part: usize,
    nth: usize,
    number: usize,
}

/// The lengths of records that vary, as they become known. How many records there are may be a lie of a file's, so that memory is
/// taken for those parts alone of which a record was measured. Where there is none left, they are measured again.
struct Lengths {
    /// How many of a record vary.
    each: usize,
    /// A power of two.
    records_of_part: u64,
    parts: Box<[OnceLock<Option<KnownLengths>>]>,
}

/// The lengths of neighbouring records.
struct KnownLengths {
    /// `u32::MAX` is unknown.
    lengths: Box<[AtomicU32]>,
    #[expect(dead_code, reason = "held until the reader drops")]
    reservation: Reservation,
}

impl Lengths {
    /// So many parts at most, where those of the least size are more.
    const PARTS: u64 = 1 << 12;
    const LEAST: u64 = 1 << 12;

    fn new(tensors: &[TensorSpec], records: u64) -> Self {
        let extents = tensors.iter().flat_map(|tensor| &tensor.shape).filter_map(|dim| match dim {
            Dim::Extent(index) => Some(index + 1),
            Dim::Fixed(_) => None,
        });
        let each = extents.max().unwrap_or(0);
        let records_of_part = (records / Self::PARTS).max(Self::LEAST).min(records.max(1)).next_power_of_two();
        let parts = if each == 0 { 0 } else { records.div_ceil(records_of_part) };
        Self { each, records_of_part, parts: (0..parts).map(|_| OnceLock::new()).collect() }
    }

    fn of(&self, record: u64) -> Option<&[AtomicU32]> {
        let part = self.parts.get((record / self.records_of_part) as usize)?;
        self.in_part(record, part.get()?.as_ref()?)
    }

    /// The place for a record's lengths, which are known now.
    fn to_be_known(&self, record: u64, budget: &MemoryBudget) -> Option<&[AtomicU32]> {
        let part = self.parts.get((record / self.records_of_part) as usize)?;
        let count = usize::try_from(self.records_of_part).ok().and_then(|count| count.checked_mul(self.each));
        self.in_part(record, part.get_or_init(|| KnownLengths::new(count?, budget)).as_ref()?)
    }

    fn in_part<'p>(&self, record: u64, part: &'p KnownLengths) -> Option<&'p [AtomicU32]> {
        let start = (record % self.records_of_part) as usize * self.each;
        part.lengths.get(start..start + self.each)
    }
}

impl KnownLengths {
    fn new(count: usize, budget: &MemoryBudget) -> Option<Self> {
        let mut reservation = budget.empty_reservation();
        let mut lengths = Vec::new();
        if !reservation.grow_if_free(count as u64 * 4) || lengths.try_reserve_exact(count).is_err() {
            return None;
        }
        lengths.resize_with(count, || AtomicU32::new(u32::MAX));
        Some(Self { lengths: lengths.into_boxed_slice(), reservation })
    }
}

impl FieldReader {
    /// The tensors of these fields, in this order. Where the names of classes or categories are not listed, all records are read
    /// once for them, by a thread for each core.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::NotFound`] for a field that the container does not have, [`ErrorKind::Config`] for one that can't become what
    /// is asked for, and what reading says where names are looked for.
    pub fn new(container: impl Container + 'static, fields: &[(String, Field)], budget: &MemoryBudget) -> Result<Self> {
        let fields = with_others(fields, container.fields())?;
        Self::boxed(Box::new(container), &fields, budget)
    }

    fn boxed(mut container: Box<dyn Container>, fields: &[(String, Field)], budget: &MemoryBudget) -> Result<Self> {
        let mut names = names_in(&mut *container, fields)?;
        let firsts = first_values(&mut *container, fields)?;
        container.forget();
        let (mut parts, mut tensors) = (Vec::new(), Vec::new());
        let (mut targets, mut target_count): (Vec<Vec<Target>>, usize) = (Vec::new(), 0);
        let mut varying = Varying::default();
        for ((name, field), first) in fields.iter().zip(firsts) {
            let columns = field.columns(name);
            let mut numbers = Vec::with_capacity(columns.len());
            for column in &columns {
                numbers.push(find(&mut *container, column, name)?);
            }
            let infos: Vec<Option<&FieldInfo>> =
                columns.iter().map(|column| info_of(container.fields(), column)).collect();
            let own = if needs_names(field) { names.drain(..columns.len()).collect() } else { Vec::new() };
            let located = |error: Error| match container.is_empty() {
                true => error,
                false => match container.place(0).path {
                    Some(path) => error.at_path(path),
                    None => error,
                },
            };
            let Made { codec, tensors: made } =
                make(name, field, &infos, own, first.as_deref(), &mut varying).map_err(located)?;
            for (nth, number) in numbers.into_iter().enumerate() {
                if targets.len() <= number {
                    targets.resize_with(number + 1, Vec::new);
                }
                targets[number].push(Target { part: parts.len(), nth, number: target_count });
                target_count += 1;
            }
            parts.push(Part { name: name.clone(), codec, first: tensors.len(), count: made.len() });
            tensors.extend(made);
        }
        if target_count > MAX_SOURCES {
            let message = format!("{target_count} fields; tensors may come from {MAX_SOURCES}");
            return Err(Error::new(ErrorKind::Config, message));
        }
        let lengths = Lengths::new(&tensors, container.len());
        let unfinished = (0..parts.len()).filter(|part| parts[*part].codec.is_unfinished()).collect();
        let (stages, budget) = (varying.stages(), budget.clone());
        let is_no_picture = |target: &Target| parts[target.part].codec.picture().is_none();
        targets.iter_mut().for_each(|of_field| of_field.sort_by_key(is_no_picture));
        let mut views: Vec<_> = targets.iter().map(|of_field| views_of(&parts, of_field)).collect();
        if views.iter().all(Vec::is_empty) {
            views.clear();
        }
        Ok(Self { container, parts, unfinished, targets, target_count, views, stages, tensors, lengths, budget })
    }

    /// Readers that together give the tensors of all `fields`: one of the container's own values, and one for each field that
    /// names a file, whose bytes are read from `files`. The names of all files are held in memory.
    ///
    /// # Errors
    ///
    /// As [`new`](Self::new).
    pub fn with_files(
        mut container: Box<dyn Container>,
        fields: &[(String, Field)],
        files: &Files,
        budget: &MemoryBudget,
    ) -> Result<Vec<Arc<dyn RecordReader>>> {
        let fields = named_geometries(&with_others(fields, container.fields())?);
        // One reader of the container's own values, and one of each file; views of one picture are read together.
        let mut groups: Vec<Vec<(String, Field)>> = Vec::new();
        for (name, field) in fields {
            let goes_with = |(first, of): &(String, Field)| match field.is_file {
                false => !of.is_file,
                true => of.is_file && are_views((first, of), (&name, &field)),
            };
            let group = groups.iter_mut().find(|group| goes_with(&group[0]));
            match group {
                Some(group) => group.push((name, field)),
                None => groups.push(vec![(name, field)]),
            }
        }
        let (mut readers, mut own) = (Vec::with_capacity(groups.len()), None);
        for (at, group) in groups.into_iter().enumerate() {
            match group[0].1.is_file {
                true => readers.push(of_files(&mut *container, &group, files, budget)?),
                false => own = Some((at, group)),
            }
        }
        if let Some((at, group)) = own {
            readers.insert(at, Arc::new(Self::boxed(container, &group, budget)?));
        }
        Ok(readers)
    }

    fn located(&self, error: Error, record: u64) -> Error {
        error.at(self.container.place(record))
    }
}

fn find(container: &mut dyn Container, column: &ColumnRef, name: &str) -> Result<usize> {
    container.find(column).map_err(|error| {
        let error = error.at_column(name);
        match (container.is_empty(), error.path()) {
            (false, None) => match container.place(0).path {
                Some(path) => error.at_path(path),
                None => error,
            },
            _ => error,
        }
    })
}

fn info_of<'a>(infos: &'a [FieldInfo], column: &ColumnRef) -> Option<&'a FieldInfo> {
    match column {
        ColumnRef::Position(position) => infos.get(*position),
        ColumnRef::Name(name) => infos.iter().find(|info| info.name == *name),
    }
}

/// Gives the values of these fields in every record to `visit`, by their positions in `numbers`; from several threads, each
/// with a `T` of its own, and then `merge` in the order of the records. Of a record that is bad, as is found when it is read for
/// its tensors, all fields are missing.
///
/// # Errors
///
/// Those of `visit` and `merge`, and of reading where no record is at fault.
fn scan<T: Send>(
    container: &dyn Container,
    numbers: &[usize],
    new: impl Fn() -> T + Sync,
    visit: impl Fn(&mut T, usize, u64, Value<'_>) -> Result<()> + Sync,
    merge: impl FnMut(T) -> Result<()>,
) -> Result<()> {
    let records = container.len();
    parallel::in_order(
        parallel::thread_count(None),
        records.div_ceil(RECORDS_AT_ONCE),
        |scratch: &mut Scratch, job| {
            let mut found = new();
            let ids: Vec<u64> = (job * RECORDS_AT_ONCE..records.min((job + 1) * RECORDS_AT_ONCE)).collect();
            let mut given = vec![false; numbers.len()];
            for (place, record) in ids.iter().enumerate() {
                given.fill(false);
                let mut stopped = None;
                let read = container.fetch(&ids, place, scratch).and_then(|()| {
                    container.read(*record, place, scratch, &mut |number, value| {
                        for nth in (0..numbers.len()).filter(|nth| numbers[*nth] == number) {
                            given[nth] = true;
                            if let Err(error) = visit(&mut found, nth, *record, value) {
                                stopped.get_or_insert(error);
                            }
                        }
                        Ok(())
                    })
                });
                match (stopped, read) {
                    (Some(error), _) => return Err(error),
                    (None, Err(error)) if error.kind() != ErrorKind::Data => return Err(error),
                    _ => {}
                }
                let absent = (0..numbers.len()).filter(|nth| !given[*nth]);
                absent.into_iter().try_for_each(|nth| visit(&mut found, nth, *record, Value::Missing))?;
            }
            Ok(found)
        },
        merge,
    )
}

/// The names of all fields that need them, one after another.
fn names_in(container: &mut dyn Container, fields: &[(String, Field)]) -> Result<Vec<Names>> {
    let mut numbers = Vec::new();
    let mut kinds = Vec::new();
    for (name, field) in fields.iter().filter(|(_, field)| needs_names(field)) {
        for column in field.columns(name) {
            numbers.push(find(container, &column, name)?);
            kinds.push((name, matches!(field.codec, Codec::Category { .. })));
        }
    }
    let new = || kinds.iter().map(|(_, of_category)| Names::new(*of_category)).collect::<Vec<_>>();
    let mut all = new();
    if !numbers.is_empty() {
        let container = &*container;
        scan(
            container,
            &numbers,
            new,
            |found, nth, _, value| found[nth].add(value),
            |found| {
                let mut both = all.iter_mut().zip(found).zip(&kinds);
                both.try_for_each(|((all, found), (name, _))| all.merge(found).map_err(|error| error.at_column(*name)))
            },
        )?;
    }
    Ok(all)
}

/// The bytes of the first record's fields, for the codecs that look at them.
fn first_values(container: &mut dyn Container, fields: &[(String, Field)]) -> Result<Vec<Option<Vec<u8>>>> {
    let mut firsts = vec![None; fields.len()];
    for ((name, field), first) in fields.iter().zip(&mut firsts).filter(|((_, field), _)| needs_first(field)) {
        if container.is_empty() {
            continue;
        }
        let number = find(container, &field.columns(name)[0], name)?;
        let mut scratch = Scratch::default();
        container.fetch(&[0], 0, &mut scratch)?;
        container.read(0, 0, &mut scratch, &mut |found, value| {
            if let (true, Value::Bytes(bytes)) = (found == number, value) {
                *first = Some(bytes.to_vec());
            }
            Ok(())
        })?;
    }
    Ok(firsts)
}

/// The views among the targets of a field, if there are several: one file becomes all of them.
fn views_of(parts: &[Part], targets: &[Target]) -> Vec<ImageOptions> {
    let views: Vec<_> = targets.iter().filter_map(|target| parts[target.part].codec.picture()).cloned().collect();
    if views.len() > 1 { views } else { Vec::new() }
}

/// Whether both are pictures in the same files.
fn are_views((name, field): (&str, &Field), (other_name, other): (&str, &Field)) -> bool {
    let are_pictures = matches!((&field.codec, &other.codec), (Codec::Image(_), Codec::Image(_)));
    are_pictures && field.columns(name) == other.columns(other_name)
}

/// A reader of the files that these fields name, of which there is one, or which are [views](are_views) of one.
fn of_files(
    container: &mut dyn Container,
    group: &[(String, Field)],
    files: &Files,
    budget: &MemoryBudget,
) -> Result<Arc<dyn RecordReader>> {
    let (name, field) = &group[0];
    let listed = listed(container, name, field, files, budget)?;
    // It reads no more of a file than is wanted.
    if let Codec::Audio(audio) = &field.codec {
        return Ok(Arc::new(listed.into_sounds(audio.options(), (name, field.role_or_default()), budget)?));
    }
    let of_bytes = |field: &Field| Field { is_file: false, from: vec![ColumnRef::Position(0)], ..field.clone() };
    let own: Vec<_> = group.iter().map(|(name, field)| (name.clone(), of_bytes(field))).collect();
    Ok(Arc::new(FieldReader::new(listed, &own, budget)?))
}

/// The files that a field names, a record each.
fn listed(
    container: &mut dyn Container,
    name: &str,
    field: &Field,
    files: &Files,
    budget: &MemoryBudget,
) -> Result<ListedFiles> {
    let columns = field.columns(name);
    let [column] = columns.as_slice() else {
        return Err(Error::new(ErrorKind::Config, "a single field names the files").at_column(name));
    };
    container.forget();
    let number = find(container, column, name)?;
    let container = &*container;
    let root = if container.is_empty() { None } else { container.place(0).path };
    let root = root.as_deref().and_then(Path::parent).unwrap_or(Path::new(""));
    let mut listed = ListedFiles::new(files, root, budget)?;
    scan(
        container,
        &[number],
        Vec::new,
        |found: &mut Vec<(u64, PathBuf)>, _, record, value| {
            let text = match value {
                Value::Text(text) => text,
                Value::Bytes(bytes) => std::str::from_utf8(bytes).unwrap_or_default(),
                _ => "",
            };
            // Most lie in the folder that the first record's lies in.
            let place = container.place(record).path;
            let folder = place.as_deref().and_then(Path::parent).unwrap_or(Path::new(""));
            let is_here = folder == root || text.is_empty();
            found.push((record, if is_here { text.into() } else { folder.join(text) }));
            Ok(())
        },
        |found| found.into_iter().try_for_each(|(record, path)| listed.push(record, &path)),
    )?;
    listed.check(container.len()).map_err(|error| error.at_column(name))?;
    Ok(listed)
}

/// Some of the targets, by their numbers.
#[derive(Clone)]
struct Targets {
    bits: [u64; MAX_SOURCES / 64],
    count: usize,
}

impl Default for Targets {
    fn default() -> Self {
        Self { bits: [0; MAX_SOURCES / 64], count: 0 }
    }
}

impl Targets {
    fn has(&self, number: usize) -> bool {
        self.bits[number / 64] & (1 << (number % 64)) != 0
    }

    fn add(&mut self, number: usize) {
        self.count += usize::from(!self.has(number));
        self.bits[number / 64] |= 1 << (number % 64);
    }
}

impl FieldReader {
    /// Writes numbers that the container has in columns into all rows of a job at once; gives the targets of which every row
    /// that can be read is written.
    fn write_columns(&self, job: &Job<'_>, scratch: &mut Scratch, rows: &mut RowsMut<'_>) -> Targets {
        let mut written = Targets::default();
        let count = job.samples().len();
        if count < 2 {
            return written;
        }
        let good = (0..count).filter(|nth| !job.is_bad(*nth)).count();
        // A field may come in several pieces, one after another.
        let (mut current, mut rows_of_current) = (usize::MAX, 0);
        self.container.columns(scratch, &mut |number, numbers, places| {
            if number != current {
                (current, rows_of_current) = (number, 0);
            }
            let targets = self.targets.get(number).map(Vec::as_slice).unwrap_or_default();
            let mut parts = targets.iter().map(|target| (target, &self.parts[target.part]));
            let is_written = parts.all(|(target, part)| {
                part.codec.write_column(target.nth, numbers, places, &mut rows.part(part.first, part.count))
            });
            rows_of_current += if is_written { places.len() } else { 0 };
            if rows_of_current == good {
                targets.iter().for_each(|target| written.add(target.number));
            }
        });
        written
    }

    /// Decodes what is not written yet of a record.
    fn decode_rest(
        &self,
        sample: Sample,
        nth: usize,
        scratch: &mut Scratch,
        row: &mut RowMut<'_>,
        written: &Targets,
    ) -> Result<()> {
        let mut context = Context {
            key: sample.key,
            budget: &self.budget,
            damages: Damages::default(),
            sizes: Default::default(),
            staged: Vec::new(),
            picture: None,
        };
        if self.stages > 0 {
            context.staged = scratch.take_staged();
            context.staged.resize_with(self.stages, Default::default);
            context.staged.iter_mut().for_each(Staged::clear);
        }
        let mut given = written.clone();
        let mut write = |target: &Target, value: Value<'_>, context: &mut Context<'_>| {
            let part = &self.parts[target.part];
            let written = part.codec.write(target.nth, value, context, &mut row.part(part.first, part.count));
            written.map_err(|error| error.at_column(&part.name))
        };
        let read = self.container.read(sample.id, nth, scratch, &mut |number, value| {
            let mut targets = self.targets.get(number).map(Vec::as_slice).unwrap_or_default();
            let mut give = |targets: &[Target], context: &mut Context<'_>| {
                targets.iter().filter(|target| !written.has(target.number)).try_for_each(|target| {
                    given.add(target.number);
                    write(target, value, context)
                })
            };
            if let (Value::Bytes(bytes), Some(views)) = (value, self.views.get(number)) {
                let of_views;
                (of_views, targets) = targets.split_at(views.len());
                context.picture = Shared::new(bytes, views, sample.key, &self.budget);
                give(of_views, &mut context)?;
                // What the budget lent goes back before another codec asks for some.
                context.picture = None;
            }
            give(targets, &mut context)
        });
        let read = read.and_then(|()| match self.target_count - given.count {
            0 => Ok(()),
            _ => {
                let absent = |target: &&Target| !given.has(target.number);
                let mut absent = self.targets.iter().flatten().filter(absent);
                absent.try_for_each(|target| write(target, Value::Missing, &mut context))
            }
        });
        let read = read.and_then(|()| {
            self.unfinished.iter().map(|part| &self.parts[*part]).try_for_each(|part| {
                let finished = part.codec.finish(&mut context, &mut row.part(part.first, part.count));
                finished.map_err(|error| error.at_column(&part.name))
            })
        });
        if self.stages > 0 {
            scratch.keep_staged(context.staged);
        }
        if !context.damages.is_empty() {
            scratch.note(context.damages);
        }
        read.map_err(|error| self.located(error, sample.id))
    }
}

impl RecordReader for FieldReader {
    fn len(&self) -> u64 {
        self.container.len()
    }

    fn tensors(&self) -> &[TensorSpec] {
        &self.tensors
    }

    fn need(&self, samples: &[u64], needs: &mut Needs) {
        self.container.need(samples, needs);
    }

    fn measure(&self, sample: u64, scratch: &mut Scratch) -> Result<Extents> {
        if self.lengths.each == 0 {
            return Ok(Extents::default());
        }
        let mut extents = Extents::default();
        let known = self.lengths.of(sample).unwrap_or_default();
        if !known.is_empty() && known.iter().all(|length| length.load(Ordering::Relaxed) != u32::MAX) {
            known.iter().zip(&mut extents.0).for_each(|(known, extent)| *extent = known.load(Ordering::Relaxed));
            return Ok(extents);
        }
        let measured = self.container.fetch(&[sample], 0, scratch).and_then(|()| {
            self.container.read(sample, 0, scratch, &mut |number, value| {
                let targets = self.targets.get(number).map(Vec::as_slice).unwrap_or_default();
                targets.iter().try_for_each(|target| {
                    let part = &self.parts[target.part];
                    part.codec.measure(value, &mut extents).map_err(|error| error.at_column(&part.name))
                })
            })
        });
        measured.map_err(|error| self.located(error, sample))?;
        let known = self.lengths.to_be_known(sample, &self.budget).unwrap_or_default();
        known.iter().zip(extents.0).for_each(|(known, extent)| known.store(extent, Ordering::Relaxed));
        Ok(extents)
    }

    fn fetch(&self, samples: &[u64], nth: usize, scratch: &mut Scratch) -> Result<()> {
        super::check_record(samples[nth], self.len())?;
        self.container.fetch(samples, nth, scratch).map_err(|error| self.located(error, samples[nth]))
    }

    fn decode(&self, sample: Sample, nth: usize, scratch: &mut Scratch, row: &mut RowMut<'_>) -> Result<()> {
        self.decode_rest(sample, nth, scratch, row, &Targets::default())
    }

    fn decode_all(&self, job: &mut Job<'_>, scratch: &mut Scratch, rows: &mut RowsMut<'_>) {
        let written = self.write_columns(job, scratch, rows);
        while let Some(nth) = job.advance() {
            let result = match written.count == self.target_count {
                true => Ok(()),
                false => self.decode_rest(job.sample(nth), nth, scratch, &mut rows.row(nth), &written),
            };
            job.report(result);
        }
    }

    fn is_random(&self) -> bool {
        self.parts.iter().any(|part| part.codec.is_random())
    }

    fn chunks(&self) -> Vec<u64> {
        self.container.chunks()
    }

    fn place(&self, sample: u64) -> Location {
        if sample < self.len() {
            self.container.place(sample)
        } else {
            Location { record: Some(sample), ..Location::default() }
        }
    }

    fn name(&self, sample: u64, name: &mut Vec<u8>) {
        self.container.name(sample, name);
    }

    fn fingerprint(&self) -> Fingerprint {
        self.container.fingerprint()
    }
}

const _: () = assert!(MAX_EXTENTS <= 4 && MAX_SOURCES.is_multiple_of(64));
