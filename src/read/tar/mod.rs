//! Tar archives of samples, in the layout of WebDataset: members called `KEY.EXTENSION`, with those of a sample next to
//! each other.
//!
//! [`options`] says how they are read; [`paths`] finds the archives; [`walk`] reads their headers; [`index`] groups
//! members into samples, and [`class`] and [`classes`] find their classes; [`fields`] and [`value`] decode them.

mod class;
mod classes;
mod container;
mod entry;
mod fields;
mod index;
mod member;
pub(in crate::read) mod old;
mod options;
mod paths;
mod saved;
mod summary;
mod value;
mod walk;

use std::fmt;
use std::path::{Path, PathBuf};

use crate::counters::Damages;
use crate::decode::image::write_image;
use crate::error::{Error, ErrorKind, Location, Result};
use crate::memory::{MemoryBudget, Reservation};
use crate::random::mix;
use crate::row::RowMut;
use crate::schema::{Extents, TensorSpec};

use super::fields::Field;
use super::images::{ImageSizes, upright_size, write_label, write_mask};
use super::json::{Buffers, Seen};
use super::parallel::in_order;
use super::{Fingerprint, RecordReader, Sample, Scratch};
use crate::storage::{Access, Files, Input, Needs, check_bytes};

use class::NO_CLASS;
use classes::Classes;
pub use entry::Tar;
use fields::{Fields, OwnField};
use index::{ArchiveIndex, Place};
pub use options::TarOptions;
pub(super) use paths::is_tar_name;
pub use summary::{MemberCount, TarRecord, TarSummary};
use value::Pointer;

/// How many archives are kept open at a time. Systems limit the number of open files per process, often to 1024.
const KEPT_OPEN: usize = 256;

/// In how many of the first samples values in JSON are looked at, to tell lists from single values.
const SEEN_SAMPLES: u64 = 32;

/// How many of them are read at a time.
const SEEN_AT_ONCE: usize = 8;

/// Random access to samples in tar archives, which WebDataset calls shards.
///
/// A sample consists of adjacent members with the same key: their path up to the first dot of the file name. The rest
/// of the name, in lower case, is the extension: `n01/0042.jpg` and `n01/0042.cls` are the image and the class of
/// sample `n01/0042`. Keys are unique in an archive; different archives may have the same keys. Members that are not
/// regular files, have no extension, or describe the set (`__meta__`) are left out and counted.
///
/// Opening reads all headers and the classes, with one thread per core. Archives must end with a block of zeros (of the
/// two that the format has), and must not be compressed. Formats: ustar, GNU's long names and large sizes, pax. For
/// each sample, the reader holds its key, 4 bytes, 4 for the class, and 8 for each member that is used; all of this
/// counts against the budget. Reading a sample takes one read for each of its members.
///
/// Its tensors are those of [fields](crate::field): one image, one class, texts and single numbers are decoded here.
/// Without fields, a sample has its `image` in its own size (`u8`), if it has exactly one, and its `label` if it has a
/// `cls`.
///
/// ```no_run
/// use ringfeed::read::RecordReader;
/// use ringfeed::tar::{TarOptions, TarReader};
///
/// let train = TarReader::open("imagenet/train-{000..146}.tar", &TarOptions::default())?;
/// println!("{} samples in {} archives", train.len(), train.archives().count());
/// # Ok::<(), ringfeed::Error>(())
/// ```
pub struct TarReader {
    archives: Vec<Archive>,
    count: u64,
    fields: Fields,
    options: TarOptions,
    classes: Classes,
    tensors: Vec<TensorSpec>,
    sizes: ImageSizes,
    #[expect(dead_code, reason = "held until the reader drops")]
    reservation: Reservation,
    /// The budget that decoders use.
    budget: MemoryBudget,
}

impl fmt::Debug for TarReader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TarReader")
            .field("archives", &self.archives.len())
            .field("samples", &self.count)
            .field("options", &self.options)
            .finish_non_exhaustive()
    }
}

struct Archive {
    path: PathBuf,
    input: Input,
    /// The number of its first sample.
    first: u64,
    index: ArchiveIndex,
}

impl TarReader {
    /// Opens an archive, a folder of archives (sorted by name), or a pattern such as `train-{000..146}.tar`.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::NotFound`] with the nearest name, [`ErrorKind::Config`] if the first sample does not have exactly
    /// one image, [`ErrorKind::Format`] for a file that is not a complete tar archive, or in which the members of a
    /// sample are not adjacent, [`ErrorKind::Unsupported`] for compressed archives and sparse files. All errors name
    /// archive, member and byte.
    pub fn open(path: impl AsRef<Path>, options: &TarOptions) -> Result<Self> {
        Self::open_in(&Files::local(), path, &[], options, &MemoryBudget::unlimited())
    }

    /// As [`TarReader::open`], with the tensors of these fields.
    ///
    /// # Errors
    ///
    /// As [`TarReader::open`], and [`ErrorKind::Config`] for a field that needs a [`Loader`](crate::Loader), such as a
    /// second image.
    pub fn with_fields(path: impl AsRef<Path>, fields: &[(String, Field)], options: &TarOptions) -> Result<Self> {
        Self::open_in(&Files::local(), path, fields, options, &MemoryBudget::unlimited())
    }

    /// As [`TarReader::with_fields`], for archives among these files. The index counts against `budget`, and is saved
    /// only for local files. Without fields, the tensors are those of [`TarReader::open`].
    ///
    /// # Errors
    ///
    /// As [`TarReader::with_fields`], and [`ErrorKind::Budget`].
    pub fn open_in(
        files: &Files,
        path: impl AsRef<Path>,
        fields: &[(String, Field)],
        options: &TarOptions,
        budget: &MemoryBudget,
    ) -> Result<Self> {
        let path = path.as_ref();
        Self::open_all(files, path, paths::archives(files, path)?, own_fields(path, fields)?, options, budget)
    }

    /// Opens these archives, in this order, with the tensors of these fields, if there are any.
    ///
    /// # Errors
    ///
    /// As [`TarReader::with_fields`].
    pub fn from_paths<P: Into<PathBuf>>(
        paths: impl IntoIterator<Item = P>,
        fields: &[(String, Field)],
        options: &TarOptions,
    ) -> Result<Self> {
        let paths: Vec<PathBuf> = paths.into_iter().map(Into::into).collect();
        let Some(first) = paths.first().cloned() else {
            return Err(Error::new(ErrorKind::NotFound, "an empty list of archives"));
        };
        let own = own_fields(&first, fields)?;
        Self::open_all(&Files::local(), &first, paths, own, options, &MemoryBudget::unlimited())
    }

    /// Opens these archives, in this order, with the default fields if none are given. Their index is saved as that of
    /// `root`.
    fn open_all(
        files: &Files,
        root: &Path,
        paths: Vec<PathBuf>,
        own: Vec<OwnField>,
        options: &TarOptions,
        budget: &MemoryBudget,
    ) -> Result<Self> {
        let at_root = |error: Error| error.at_path(root);
        let own = match own.is_empty() {
            true => {
                let usual = fields::usual_fields(&first_extensions(files, &paths)?);
                usual.and_then(|usual| fields::split(&usual, &[])).map_err(at_root)?.0
            }
            false => own,
        };
        let mut fields = Fields::new(own);
        let mut reservation = budget.reserve(0, "the index of the archives")?;
        let few = (paths.len() > KEPT_OPEN).then(|| files.with_few_open(KEPT_OPEN));
        let opened = saved::opened(few.as_ref().unwrap_or(files), root, &paths, &fields, options, &mut reservation)?;
        let mut archives = Vec::with_capacity(paths.len());
        let mut count = 0;
        for (path, (input, index)) in paths.into_iter().zip(opened) {
            let first = count;
            count += index.len() as u64;
            archives.push(Archive { path, input, first, index });
        }
        if count == 0 {
            let message = "the archives hold no samples: looked for members called KEY.EXTENSION";
            return Err(Error::new(ErrorKind::NotFound, message).at_path(root));
        }
        let indexes = archives.iter_mut().map(|archive| &mut archive.index);
        let classes = Classes::settle(indexes, fields.listed_classes());
        let tensors = fields.tensors(&classes).map_err(at_root)?;
        let sizes = fields
            .image
            .as_ref()
            .map_or_else(ImageSizes::none, |image| ImageSizes::new(count as usize, &image.options));
        reservation.grow_to(reservation.bytes() + sizes.bytes(), "the sizes of the images")?;
        Ok(Self {
            archives,
            count,
            fields,
            options: options.clone(),
            classes,
            tensors,
            sizes,
            reservation,
            budget: budget.clone(),
        })
    }

    /// The archives, in order.
    pub fn archives(&self) -> impl ExactSizeIterator<Item = &Path> {
        self.archives.iter().map(|archive| archive.path.as_path())
    }

    /// The class names, in index order; none if classes have only indices, or there are no classes.
    pub fn classes(&self) -> &[String] {
        self.classes.names()
    }

    /// Number of members that do not belong to a sample: not regular files, without an extension, or descriptions of
    /// the set.
    pub fn ignored(&self) -> u64 {
        self.archives.iter().map(|archive| archive.index.ignored).sum()
    }

    /// The key of record `sample`: the path of its members without their extensions.
    ///
    /// # Panics
    ///
    /// If there is no such record.
    pub fn key(&self, sample: u64) -> std::borrow::Cow<'_, str> {
        let (archive, nth) = self.find(sample);
        String::from_utf8_lossy(archive.index.key(nth))
    }

    /// The archive of a sample, and its number there.
    fn find(&self, sample: u64) -> (&Archive, usize) {
        let behind = self.archives.partition_point(|archive| archive.first <= sample);
        let archive = &self.archives[behind - 1];
        (archive, (sample - archive.first) as usize)
    }

    /// The class of a sample; `None` if it has none or an invalid one.
    fn class(&self, archive: &Archive, nth: usize) -> Option<u32> {
        archive.index.labels.get(nth).copied().filter(|class| *class != NO_CLASS)
    }

    fn place_of(&self, archive: &Archive, nth: usize, member: usize) -> Place {
        archive.index.places[nth * self.fields.wanted.len() + member]
    }

    /// Adds the sample and its member to an error.
    #[cold]
    fn located(&self, error: Error, sample: u64, member: usize) -> Error {
        let (archive, nth) = self.find(sample);
        let key = String::from_utf8_lossy(archive.index.key(nth));
        let name = match self.fields.extension(member) {
            Some(extension) => format!("{key}.{extension}"),
            None => key.into_owned(),
        };
        let place = self.place_of(archive, nth, member);
        // Errors of reading already have a position in the archive; errors of decoding get one in the member.
        let error = if error.path().is_none() { error.in_part_at(place.start()) } else { error };
        let error = error.at_path(&archive.path).at_record(nth as u64).at_member(name);
        if place.block == 0 { error } else { error.at_byte(place.start()) }
    }

    /// Reads the first `wanted` bytes of a member into `buffer`; returns the length of the whole member.
    fn read(&self, sample: u64, member: usize, buffer: &mut Vec<u8>, wanted: u64) -> Result<u64> {
        let (archive, nth) = self.find(sample);
        let place = self.place_of(archive, nth, member);
        if place == Place::LINK {
            let message =
                "a hard link to another member, without bytes of its own; pack it with `tar --hard-dereference`";
            return Err(Error::new(ErrorKind::Unsupported, message));
        }
        if place.block == 0 {
            return Err(Error::new(ErrorKind::Data, "the sample has no such member"));
        }
        if place.size == u32::MAX {
            return Err(Error::new(ErrorKind::Limit, "a member of 4 GiB or more; no setting allows it"));
        }
        let len = u64::from(place.size);
        check_bytes(len, self.options.most_bytes())?;
        buffer.resize(len.min(wanted) as usize, 0);
        archive.input.read_at(place.start(), buffer)?;
        Ok(len)
    }

    /// Reads a whole member.
    fn read_member(&self, sample: u64, member: usize, buffer: &mut Vec<u8>) -> Result<()> {
        let read = self.read(sample, member, buffer, u64::MAX);
        read.map(|_| ()).map_err(|error| self.located(error, sample, member))
    }

    /// Whether the sample has no such member, not even a hard link.
    fn lacks(&self, sample: u64, member: usize) -> bool {
        let (archive, nth) = self.find(sample);
        self.place_of(archive, nth, member) == Place::default()
    }

    /// What the lists have in common that `pointer` finds in this member of the first samples; `None` if there are none, or
    /// any single value.
    ///
    /// # Errors
    ///
    /// Those of reading. A sample that is bad has no value here.
    fn lists(&self, member: usize, pointer: &Pointer) -> Result<Option<Seen>> {
        let (mut seen, mut are_lists) = (Seen::default(), true);
        let look = |bytes: &mut Vec<u8>, sample| {
            if self.lacks(sample, member) {
                return Ok(Seen::default());
            }
            match self.read_member(sample, member, bytes) {
                Ok(()) => Ok(pointer.find(bytes).ok().flatten().map(Seen::of).unwrap_or_default()),
                Err(error) if matches!(error.kind(), ErrorKind::Data | ErrorKind::Limit | ErrorKind::Unsupported) => {
                    Ok(Seen::default())
                }
                Err(error) => Err(error),
            }
        };
        in_order(SEEN_AT_ONCE, self.count.min(SEEN_SAMPLES), look, |more| {
            are_lists &= more.is_list() || more == Seen::default();
            seen = seen.and(&more);
            Ok(())
        })?;
        Ok((are_lists && seen.is_list()).then_some(seen))
    }

    /// The fields of single numbers that are lists in JSON, by their names.
    fn lists_in_json(&self) -> Result<Vec<String>> {
        let mut lists = Vec::new();
        for (name, member, pointer) in self.fields.numbers_in_json() {
            if self.lists(member, pointer)?.is_some() {
                lists.push(name.to_owned());
            }
        }
        Ok(lists)
    }

    /// Why a sample has no class.
    #[cold]
    fn class_fault(&self, sample: u64, buffer: &mut Vec<u8>) -> Option<Error> {
        let class = self.fields.class.as_ref()?;
        let read = self.read(sample, class.member, buffer, u64::MAX).and_then(|_| class.read(buffer));
        let error = read.map_or_else(|error| error, |said| self.classes.fault(&said));
        Some(error.at_column(&class.name))
    }
}

/// The extensions of the first sample in the data set.
fn first_extensions(files: &Files, paths: &[PathBuf]) -> Result<Vec<String>> {
    for path in paths {
        let extensions = index::first_sample(&files.open(path, Access::Read)?)?;
        if !extensions.is_empty() {
            return Ok(extensions);
        }
    }
    Ok(Vec::new())
}

/// The fields of a reader that decodes all of them itself.
fn own_fields(root: &Path, fields: &[(String, Field)]) -> Result<Vec<OwnField>> {
    let (own, others) = fields::split(fields, &[]).map_err(|error| error.at_path(root))?;
    match others.first() {
        None => Ok(own),
        Some((name, _)) => {
            let message = "this reader decodes one image, one class, texts and single numbers; a Loader decodes all \
                 fields";
            Err(Error::new(ErrorKind::Config, message).at_column(name).at_path(root))
        }
    }
}

/// A worker's buffers.
#[derive(Default)]
struct Worker {
    /// For each record of the job and each wanted member, its bytes.
    members: Vec<Vec<u8>>,
    /// The first bytes of an image that is measured; kept apart from the bytes that are fetched.
    start: Vec<u8>,
    buffers: Buffers,
}

impl Worker {
    /// The buffers for the members of a job's `nth` record.
    fn members_of(&mut self, nth: usize, wanted: usize) -> &mut [Vec<u8>] {
        if self.members.len() < (nth + 1) * wanted {
            self.members.resize_with((nth + 1) * wanted, Vec::new);
        }
        &mut self.members[nth * wanted..(nth + 1) * wanted]
    }
}

impl RecordReader for TarReader {
    fn len(&self) -> u64 {
        self.count
    }

    fn tensors(&self) -> &[TensorSpec] {
        &self.tensors
    }

    fn need(&self, samples: &[u64], needs: &mut Needs) {
        for sample in samples {
            let (archive, nth) = self.find(*sample);
            for member in (0..self.fields.wanted.len()).filter(|member| self.fields.is_read[*member]) {
                let place = self.place_of(archive, nth, member);
                if place.block != 0 && u64::from(place.size) <= self.options.most_bytes() {
                    archive.input.need(place.start()..place.start() + u64::from(place.size), needs);
                }
            }
        }
    }

    fn measure(&self, sample: u64, scratch: &mut Scratch) -> Result<Extents> {
        let Some(image) = &self.fields.image else { return Ok(Extents::default()) };
        let member = image.member;
        self.sizes.of(sample, || {
            let start = &mut scratch.of::<Worker>().start;
            let read = |start: &mut Vec<u8>, wanted| self.read(sample, member, start, wanted);
            upright_size(&image.options, start, read).map_err(|error| self.located(error, sample, member))
        })
    }

    fn fetch(&self, samples: &[u64], nth: usize, scratch: &mut Scratch) -> Result<()> {
        let members = scratch.of::<Worker>().members_of(nth, self.fields.wanted.len());
        let sample = samples[nth];
        if let Some(class) = &self.fields.class {
            let (archive, index) = self.find(sample);
            if self.class(archive, index).is_none()
                && let Some(fault) = self.class_fault(sample, &mut members[0])
            {
                return Err(self.located(fault, sample, class.member));
            }
        }
        let read = members.iter_mut().enumerate().filter(|(member, _)| self.fields.is_read[*member]);
        for (member, buffer) in read {
            self.read_member(sample, member, buffer)?;
        }
        Ok(())
    }

    fn decode(&self, sample: Sample, nth: usize, scratch: &mut Scratch, row: &mut RowMut<'_>) -> Result<()> {
        let Worker { members, .. } = scratch.of();
        let wanted = self.fields.wanted.len();
        let members = &members[nth * wanted..(nth + 1) * wanted];
        let mut damages = Damages::default();
        if let Some(image) = &self.fields.image {
            let (member, tensor) = (image.member, image.tensor);
            let written =
                write_image(&members[member], &image.options, sample.key, &mut row.tensor(tensor), &self.budget);
            let (width, height);
            ((width, height), damages) = written.map_err(|error| self.located(error, sample.id, member))?;
            if self.sizes.vary() {
                write_mask(row, tensor + 1, width, height);
            }
        }
        if let Some(class) = &self.fields.class {
            let (archive, index) = self.find(sample.id);
            let label = self.class(archive, index).unwrap_or_default();
            write_label(row, class.tensor, label).map_err(|error| self.located(error, sample.id, class.member))?;
        }
        for value in &self.fields.values {
            let written = value.write(&members[value.member], row);
            written.map_err(|error| self.located(error, sample.id, value.member))?;
        }
        scratch.note(damages);
        Ok(())
    }

    fn is_random(&self) -> bool {
        self.fields.image.as_ref().is_some_and(|image| !image.options.augment.is_empty())
    }

    fn chunks(&self) -> Vec<u64> {
        self.archives.iter().filter(|archive| archive.index.len() > 0).map(|archive| archive.first).collect()
    }

    fn place(&self, sample: u64) -> Location {
        if sample >= self.count {
            return Location { record: Some(sample), ..Location::default() };
        }
        let (archive, nth) = self.find(sample);
        let member = String::from_utf8_lossy(archive.index.key(nth)).into_owned();
        let (path, record) = (Some(archive.path.clone()), Some(nth as u64));
        Location { path, record, member: Some(member), ..Location::default() }
    }

    /// The archive's own name and the key, because several archives may use the same key.
    fn name(&self, sample: u64, name: &mut Vec<u8>) {
        let (archive, nth) = self.find(sample);
        name.extend_from_slice(archive.path.file_name().unwrap_or_default().as_encoded_bytes());
        name.push(b'/');
        name.extend_from_slice(archive.index.key(nth));
    }

    fn label(&self, sample: u64) -> Option<u32> {
        let (archive, nth) = self.find(sample);
        self.class(archive, nth)
    }

    fn label_tensor(&self) -> Option<usize> {
        Some(self.fields.class.as_ref()?.tensor)
    }

    fn fingerprint(&self) -> Fingerprint {
        let (mut names, mut sizes) = (0, 0);
        for Archive { path, index: ArchiveIndex { keys, key_ends, places, labels, .. }, .. } in &self.archives {
            names = super::saved::hash(names, path.file_name().unwrap_or_default().as_encoded_bytes());
            names = super::saved::hash(names, keys);
            names = key_ends.iter().chain(labels).fold(names, |hash, number| mix(hash ^ u64::from(*number)));
            sizes = places.iter().fold(sizes, |hash, place| mix(hash ^ u64::from(place.size)));
        }
        Fingerprint { count: Some(self.count), names, sizes }
    }
}
