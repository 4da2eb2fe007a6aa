//! Tar archives of samples, as WebDataset packs them: members called `KEY.EXTENSION`, those of a sample side by side.
//!
//! [`options`] says what samples become; [`paths`] finds the archives; [`walk`] reads their headers; [`index`] makes
//! samples of members; [`fields`] and [`value`] decode them.

mod container;
mod entry;
mod fields;
mod index;
mod options;
mod paths;
mod saved;
mod summary;
mod value;
mod walk;

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::counters::Damages;
use crate::decode::image::write_image;
use crate::error::{Error, ErrorKind, Location, Result};
use crate::memory::{MemoryBudget, Reservation};
use crate::random::mix;
use crate::row::RowMut;
use crate::schema::{Extents, TensorSpec};

use super::images::{ImageSizes, upright_size, write_label, write_mask};
use super::{Fingerprint, RecordReader, Sample, Scratch};
use crate::storage::{Access, Files, Input, Needs, check_bytes};
use crate::tree::no_faults;

pub use entry::Tar;
use fields::Fields;
use index::{ArchiveIndex, NO_CLASS, Place};
pub use options::{ClassBy, TarField, TarOptions};
pub(super) use paths::is_tar_name;
pub use summary::{MemberCount, TarRecord, TarSummary};

/// How many archives are kept open. Others are opened for each read, as the files of a folder are: systems limit how
/// many files a process may have open, often to 1024.
const KEPT_OPEN: usize = 256;

/// Samples in tar archives, read at random: what WebDataset calls shards.
///
/// A sample is made of neighbouring members that share a key: their name up to the first dot of its last part, folders
/// included. What follows the dot, in lower case, tells them apart: `n01/0042.jpg` and `n01/0042.cls` are the image and the
/// class of sample `n01/0042`. Keys are unique in an archive; different archives may use the same ones. Members that are no
/// ordinary files, have no extension, or describe the set (`__meta__`) are left out and counted.
///
/// Opening reads all headers, with a thread for each core, and the classes. Archives end with their two blocks of zeros,
/// and are not compressed. Formats: ustar, GNU's long names and large sizes, pax. It holds for each sample its key, 4 bytes,
/// 4 for the class, and 8 for each member that is used, all counted against the budget. Reading a sample is one read for
/// each of its members.
///
/// Images are decoded as [`ImageFolder`](crate::images::ImageFolder) does it.
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
    files: Files,
    options: TarOptions,
    classes: Option<Arc<[String]>>,
    tensors: Vec<TensorSpec>,
    sizes: ImageSizes,
    #[expect(dead_code, reason = "held until the reader drops")]
    reservation: Reservation,
    /// What decoders draw on.
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
    input: Option<Input>,
    /// The number of its first sample.
    first: u64,
    index: ArchiveIndex,
}

impl TarReader {
    /// Opens what a path stands for: an archive, a folder of archives, sorted by name, or a pattern such as
    /// `train-{000..146}.tar`.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::NotFound`] with the nearest name, [`ErrorKind::Config`] for options that make no sense or do not fit the
    /// first sample, [`ErrorKind::Format`] for what is no whole tar archive or does not keep the members of a sample
    /// together, [`ErrorKind::Unsupported`] for compressed archives and sparse files. All name archive, member and byte.
    pub fn open(path: impl AsRef<Path>, options: &TarOptions) -> Result<Self> {
        Self::open_in(&Files::local(), path, options, &MemoryBudget::unlimited())
    }

    /// As [`TarReader::open`]; the index counts against `budget`.
    ///
    /// # Errors
    ///
    /// As [`TarReader::open`], and [`ErrorKind::Budget`].
    pub fn open_within(path: impl AsRef<Path>, options: &TarOptions, budget: &MemoryBudget) -> Result<Self> {
        Self::open_in(&Files::local(), path, options, budget)
    }

    /// As [`TarReader::open_within`], archives among these files. An index is saved of local files alone.
    ///
    /// # Errors
    ///
    /// As [`TarReader::open_within`].
    pub fn open_in(files: &Files, path: impl AsRef<Path>, options: &TarOptions, budget: &MemoryBudget) -> Result<Self> {
        let path = path.as_ref();
        Self::open_all(files, path, paths::archives(files, path)?, options, budget)
    }

    /// Opens these archives, in this order.
    ///
    /// # Errors
    ///
    /// As [`TarReader::open`].
    pub fn from_paths<P: Into<PathBuf>>(paths: impl IntoIterator<Item = P>, options: &TarOptions) -> Result<Self> {
        let paths: Vec<PathBuf> = paths.into_iter().map(Into::into).collect();
        let Some(first) = paths.first().cloned() else {
            return Err(Error::new(ErrorKind::NotFound, "an empty list of archives"));
        };
        Self::open_all(&Files::local(), &first, paths, options, &MemoryBudget::unlimited())
    }

    /// These archives, in this order; their index is saved as that of `root`.
    pub(super) fn open_all(
        files: &Files,
        root: &Path,
        paths: Vec<PathBuf>,
        options: &TarOptions,
        budget: &MemoryBudget,
    ) -> Result<Self> {
        no_faults(options.faults()).map_err(|error| error.at_path(root))?;
        let mut fields =
            Fields::new(options, || first_extensions(files, &paths)).map_err(|error| error.at_path(root))?;
        let mut reservation = budget.reserve(0, "the index of the archives")?;
        let indexes = saved::indexes(files, root, &paths, &fields, options, &mut reservation)?;
        let mut archives = Vec::with_capacity(paths.len());
        let mut count = 0;
        for (path, index) in paths.into_iter().zip(indexes) {
            let first = count;
            count += index.len() as u64;
            // Those of a storage hold no descriptor, and are known by the number that they were given.
            let keep = options.access != Access::Read || archives.len() < KEPT_OPEN || !files.are_local();
            let input = keep.then(|| files.open(&path, options.access)).transpose()?;
            archives.push(Archive { path, input, first, index });
        }
        if count == 0 {
            let message = "the archives hold no samples: looked for members called KEY.EXTENSION";
            return Err(Error::new(ErrorKind::NotFound, message).at_path(root));
        }
        let classes = classes(&mut archives, &fields, options);
        let tensors = fields.tensors(options, classes.as_ref());
        let images = if fields.image.is_some() { count as usize } else { 0 };
        let sizes = ImageSizes::new(images, &options.images);
        reservation.grow_to(reservation.bytes() + sizes.bytes(), "the sizes of the images")?;
        Ok(Self {
            archives,
            count,
            fields,
            files: files.clone(),
            options: options.clone(),
            classes,
            tensors,
            sizes,
            reservation,
            budget: budget.clone(),
        })
    }

    /// The archives, in their order.
    pub fn archives(&self) -> impl ExactSizeIterator<Item = &Path> {
        self.archives.iter().map(|archive| archive.path.as_path())
    }

    /// The class names, in index order; none if classes have only indices, or there are no classes.
    pub fn classes(&self) -> &[String] {
        self.classes.as_deref().unwrap_or_default()
    }

    /// Members that belong to no sample: no ordinary files, without extension, or descriptions of the set.
    pub fn ignored(&self) -> u64 {
        self.archives.iter().map(|archive| archive.index.ignored).sum()
    }

    /// The key of record `sample`: the name of its members up to their extensions.
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

    /// The class of a sample; `None` if it has none that can be used.
    fn class(&self, archive: &Archive, nth: usize) -> Option<u32> {
        let class = archive.index.labels.get(nth).copied()?;
        let limit = self.classes.as_ref().map_or(NO_CLASS, |classes| classes.len() as u32);
        (class < limit).then_some(class)
    }

    fn place_of(&self, archive: &Archive, nth: usize, member: usize) -> Place {
        archive.index.places[nth * self.fields.wanted.len() + member]
    }

    /// Adds to an error what member of which sample it is about.
    #[cold]
    fn located(&self, error: Error, sample: u64, member: usize) -> Error {
        let (archive, nth) = self.find(sample);
        let key = String::from_utf8_lossy(archive.index.key(nth));
        let name = match self.fields.extension(member) {
            Some(extension) => format!("{key}.{extension}"),
            None => key.into_owned(),
        };
        let place = self.place_of(archive, nth, member);
        // Who read the archive says where in it; who decoded the member, where in that.
        let error = if error.path().is_none() { error.in_part_at(place.start()) } else { error };
        let error = error.at_path(&archive.path).at_record(sample).at_member(name);
        if place.block == 0 { error } else { error.at_byte(place.start()) }
    }

    /// Reads the first `wanted` bytes of a member into `buffer`; gives the length of all of it.
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
        let len = u64::from(place.size);
        check_bytes(len, self.options.images.max_file_bytes.min(u64::from(u32::MAX) - 1))?;
        buffer.resize(len.min(wanted) as usize, 0);
        let opened;
        let input = match &archive.input {
            Some(input) => input,
            None => {
                opened = self.files.open(&archive.path, Access::Read)?;
                &opened
            }
        };
        input.read_at(place.start(), buffer)?;
        Ok(len)
    }

    /// Why a sample has no class.
    #[cold]
    fn class_fault(&self, sample: u64, buffer: &mut Vec<u8>) -> Option<Error> {
        let class = self.fields.class.as_ref()?;
        let names = self.classes();
        let index_of = |name: &str| names.iter().position(|class| class == name).map(|index| index as u32);
        let read = self.read(sample, class.member, buffer, u64::MAX).and_then(|_| class.read(buffer, index_of));
        let error = match read {
            Err(error) => error,
            Ok(index) => {
                let message = format!("the class is {index}, but there are {}, counted from 0", names.len());
                Error::new(ErrorKind::Data, message)
            }
        };
        Some(error.at_column(&self.options.images.label_name))
    }
}

/// The extensions of the first sample of all.
fn first_extensions(files: &Files, paths: &[PathBuf]) -> Result<Vec<String>> {
    for path in paths {
        let extensions = index::first_sample(&files.open(path, Access::Read)?)?;
        if !extensions.is_empty() {
            return Ok(extensions);
        }
    }
    Ok(Vec::new())
}

/// The names of all classes, if they have names; labels become indices into them.
fn classes(archives: &mut [Archive], fields: &Fields, options: &TarOptions) -> Option<Arc<[String]>> {
    let class = fields.class.as_ref()?;
    let listed = options.images.classes.as_ref();
    if class.by == ClassBy::Index {
        return listed.map(|classes| classes.as_slice().into());
    }
    let all = match listed {
        Some(classes) => classes.clone(),
        None => {
            let mut names: Vec<String> =
                archives.iter().flat_map(|archive| archive.index.names.iter().cloned()).collect();
            names.sort();
            names.dedup();
            names
        }
    };
    let index_of: std::collections::HashMap<&str, u32> = all.iter().map(String::as_str).zip(0..).collect();
    for archive in archives {
        let ArchiveIndex { names, labels, .. } = &mut archive.index;
        let by_name: Vec<u32> =
            names.iter().map(|name| index_of.get(name.as_str()).copied().unwrap_or(NO_CLASS)).collect();
        labels.iter_mut().for_each(|label| *label = by_name.get(*label as usize).copied().unwrap_or(NO_CLASS));
        names.clear();
        names.shrink_to_fit();
    }
    Some(all.into())
}

/// A worker's buffers.
#[derive(Default)]
struct Worker {
    /// One a position in the job and wanted member.
    members: Vec<Vec<u8>>,
    /// The beginning of an image that is measured, apart from what is fetched.
    start: Vec<u8>,
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
            let Some(input) = &archive.input else { continue };
            for member in (0..self.fields.wanted.len()).filter(|member| self.fields.is_read[*member]) {
                let place = self.place_of(archive, nth, member);
                if place != Place::LINK && place.block != 0 {
                    input.need(place.start()..place.start() + u64::from(place.size), needs);
                }
            }
        }
    }

    fn measure(&self, sample: u64, scratch: &mut Scratch) -> Result<Extents> {
        let Some(member) = self.fields.image else { return Ok(Extents::default()) };
        self.sizes.of(sample, || {
            let start = &mut scratch.of::<Worker>().start;
            let read = |start: &mut Vec<u8>, wanted| self.read(sample, member, start, wanted);
            upright_size(&self.options.images, start, read).map_err(|error| self.located(error, sample, member))
        })
    }

    fn fetch(&self, samples: &[u64], nth: usize, scratch: &mut Scratch) -> Result<()> {
        let wanted = self.fields.wanted.len();
        let members = &mut scratch.of::<Worker>().members;
        if members.len() < (nth + 1) * wanted {
            members.resize_with((nth + 1) * wanted, Vec::new);
        }
        let sample = samples[nth];
        if let Some(class) = &self.fields.class {
            let (archive, index) = self.find(sample);
            if self.class(archive, index).is_none()
                && let Some(fault) = self.class_fault(sample, &mut members[nth * wanted])
            {
                return Err(self.located(fault, sample, class.member));
            }
        }
        for member in (0..wanted).filter(|member| self.fields.is_read[*member]) {
            let buffer = &mut members[nth * wanted + member];
            self.read(sample, member, buffer, u64::MAX).map_err(|error| self.located(error, sample, member))?;
        }
        Ok(())
    }

    fn decode(&self, sample: Sample, nth: usize, scratch: &mut Scratch, row: &mut RowMut<'_>) -> Result<()> {
        let Worker { members, .. } = scratch.of();
        let wanted = self.fields.wanted.len();
        let members = &members[nth * wanted..(nth + 1) * wanted];
        let mut damages = Damages::default();
        if let Some(member) = self.fields.image {
            let tensor = self.fields.image_tensor();
            let (options, mut into) = (&self.options.images, row.tensor(tensor));
            let written = write_image(&members[member], options, sample.key, &mut into, &self.budget);
            let (width, height);
            ((width, height), damages) = written.map_err(|error| self.located(error, sample.id, member))?;
            if self.sizes.vary() {
                write_mask(row, tensor + 1, width, height);
            }
        }
        if let Some(class) = &self.fields.class {
            let (archive, index) = self.find(sample.id);
            let label = self.class(archive, index).unwrap_or_default();
            write_label(row, self.fields.class_tensor(), label)
                .map_err(|error| self.located(error, sample.id, class.member))?;
        }
        for value in &self.fields.values {
            let written = value.write(&members[value.member], row);
            written.map_err(|error| self.located(error, sample.id, value.member))?;
        }
        scratch.note(damages);
        Ok(())
    }

    fn is_random(&self) -> bool {
        self.fields.image.is_some() && !self.options.images.augment.is_empty()
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
        Location { path: Some(archive.path.clone()), record: Some(sample), member: Some(member), ..Location::default() }
    }

    /// The archive's own name and the key: archives may use the same keys.
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
