//! Image files as records: a folder with one subfolder per class, or any list of files.

mod entry;
pub(in crate::read) mod old;
mod options;
mod summary;
mod tensors;

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::counters::Damages;
use crate::decode::image::{ImageFormat, Shared, write_image};
use crate::decode::{ImageColour, ImageOptions, LabelFormat};
use crate::error::{Error, ErrorKind, Location, Result};
use crate::memory::{MemoryBudget, Reservation};
use crate::read::folder::{Found, Lists, Members, Wanted, Way, has_class_folders, list_stored, parent_name};
use crate::read::{Fingerprint, RecordReader, Sample, SavedIndex, Scratch, check_record};
use crate::row::RowMut;
use crate::schema::{Extents, TensorSpec};

use crate::storage::{Files, Needs, metadata};
use crate::tree::no_faults;
pub use entry::Images;
pub(crate) use entry::usual_fields;
pub use options::FolderOptions;
pub use summary::{ClassCount, FolderSummary, FormatCount, ImageRecord, ImageSummary, summarise_image};
pub(super) use tensors::{ImageSizes, image_tensors, label_tensor, upright_size, write_label, write_mask};

/// Files with names of images.
pub(super) const IMAGES: Wanted =
    Wanted { is: is_image_name, saved_as: ["listing of a folder by class 3", "listing of a folder 3"] };

pub(super) fn is_image_name(path: &Path) -> bool {
    path.extension().and_then(|extension| extension.to_str()).and_then(ImageFormat::of_extension).is_some()
}

/// Where the class of an image file comes from.
#[derive(Clone, Copy, Default)]
#[non_exhaustive]
pub enum ImageLabels<'a> {
    /// The name of its folder: the first one below the root, or, in a list of paths, the folder that holds the file.
    /// The default.
    #[default]
    Folder,
    /// No class: there is no label tensor.
    None,
    /// This function of the path, which returns the class name; `None` leaves out the file.
    By(&'a dyn Fn(&Path) -> Result<Option<String>>),
}

impl fmt::Debug for ImageLabels<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Folder => "Folder",
            Self::None => "None",
            Self::By(_) => "By(..)",
        })
    }
}

/// Random access to image files and their classes.
///
/// Formats are detected by content: JPEG, PNG, WebP, BMP, GIF (first frame), TIFF (first page) and PNM. Pixels become
/// 8-bit RGB: palettes, grey and CMYK are converted, 16-bit values are rounded to 8 bits, alpha is dropped and not
/// blended, colour profiles are not applied. JPEG data in a TIFF gives values within 1 of Pillow's (CMYK: 3). EXIF
/// orientation is applied (in a PNG, if the `eXIf` chunk is before the pixels). A damaged or truncated file is an error
/// that names it.
///
/// The tensors are the image (`[channels, height, width]` or `[height, width, channels]`, see [`ImageOptions`]), the
/// mask `[height, width]` if images keep their own sizes, and the label if there are classes.
///
/// It holds about 12 bytes for each file, in addition to the path below the root (20 if images keep their own sizes),
/// which count against the budget, and opens one file at a time. One thread per core lists the folders and the files'
/// sizes. Symbolic links are followed; within a class, no folder is listed twice, so loops end. A broken link with the
/// name of an image is a record that can't be read.
///
/// ```no_run
/// use ringfeed::images::{ImageFolder, ImageOptions};
/// use ringfeed::read::RecordReader;
///
/// let options = ImageOptions { size: Some((224, 224)), ..ImageOptions::default() };
/// let train = ImageFolder::open("photos/train", &options)?;
/// println!("{} images of {:?}", train.len(), train.classes());
/// // Test data of the same classes, in the same order:
/// let options = ImageOptions { classes: Some(train.classes().to_vec()), ..options };
/// let test = ImageFolder::open("photos/test", &options)?;
/// # Ok::<(), ringfeed::Error>(())
/// ```
pub struct ImageFolder {
    files: Members,
    /// The options of each view of an image; of one view, unless [more](Self::with_views) are wanted.
    views: Vec<ImageOptions>,
    /// The tensor of each view; if images keep their sizes, its mask is the next.
    places: Vec<usize>,
    /// The tensor of the class.
    label_place: Option<usize>,
    tensors: Vec<TensorSpec>,
    sizes: ImageSizes,
    /// Held until the reader is dropped.
    reservation: Reservation,
    /// The budget that decoders use.
    budget: MemoryBudget,
}

impl fmt::Debug for ImageFolder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ImageFolder")
            .field("classes", &self.files.classes)
            .field("options", self.options())
            .finish_non_exhaustive()
    }
}

impl ImageFolder {
    /// Lists a folder with one subfolder per class.
    ///
    /// Classes are sorted by name. The files below each, at any depth, are sorted by the bytes of their paths. Hidden
    /// folders, such as `.ipynb_checkpoints` or `.git`, are neither classes nor searched: torchvision's `ImageFolder`
    /// takes such a folder for a class (and fails if it holds no image), which shifts the indices of all others. Files
    /// without one of the extensions jpg, jpeg, png, webp, bmp, gif, tif, tiff, pbm, pgm, ppm and pnm, those outside of
    /// a class, and hidden ones are left out and counted. No file is opened.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::NotFound`] without such a folder (with the nearest name) or without images in it,
    /// [`ErrorKind::Config`] for invalid options, [`ErrorKind::Data`] for a class that `options.classes` does
    /// not list.
    pub fn open(path: impl AsRef<Path>, options: &ImageOptions) -> Result<Self> {
        Self::open_with(path, ImageLabels::Folder, options)
    }

    /// As [`open`](Self::open) if a subfolder holds images; otherwise the images in the folder itself, without labels.
    ///
    /// # Errors
    ///
    /// As [`ImageFolder::open`].
    pub fn detect(path: impl AsRef<Path>, options: &ImageOptions) -> Result<Self> {
        Self::detect_within(path, options, &SavedIndex::Off, &MemoryBudget::unlimited())
    }

    /// As [`detect`](Self::detect), with the listing saved as for [`open_within`](Self::open_within).
    ///
    /// # Errors
    ///
    /// As [`ImageFolder::open_within`].
    pub fn detect_within(
        path: impl AsRef<Path>,
        options: &ImageOptions,
        saved: &SavedIndex,
        budget: &MemoryBudget,
    ) -> Result<Self> {
        let path = path.as_ref();
        no_faults(options.faults())?;
        if path.is_dir() {
            if let Some((way, found, sizes)) = Way::detect(path, saved, IMAGES)? {
                if way == Way::ByClass && options.classes.is_none() {
                    found.check_classes(path)?;
                }
                return Self::new(path, found, sizes, way == Way::ByClass, options, budget);
            }
            if !has_class_folders(path, IMAGES)? {
                return Self::open_within(path, ImageLabels::None, options, saved, budget);
            }
        }
        Self::open_within(path, ImageLabels::Folder, options, saved, budget)
    }

    /// As [`detect_within`](Self::detect_within), for a folder of these files. Only listings of local files are saved.
    /// Files of a storage are identified by their names, not by their lengths.
    ///
    /// # Errors
    ///
    /// As [`ImageFolder::detect_within`].
    pub fn detect_in(
        files: &Files,
        path: impl AsRef<Path>,
        options: &ImageOptions,
        saved: &SavedIndex,
        budget: &MemoryBudget,
    ) -> Result<Self> {
        let path = path.as_ref();
        if files.are_local() {
            return Self::detect_within(path, options, saved, budget);
        }
        no_faults(options.faults())?;
        let (found, labelled) = list_stored(files, path, IMAGES)?;
        if found.files.len() == 0 {
            return Err(nothing_found(path, ImageLabels::Folder, found.ignored));
        }
        if labelled && options.classes.is_none() {
            found.check_classes(path)?;
        }
        Ok(Self::new(path, found, 0, labelled, options, budget)?.among(files))
    }

    /// The same images among these files.
    fn among(mut self, files: &Files) -> Self {
        self.files = self.files.among(files);
        self
    }

    /// Lists all images in a folder, at any depth, sorted by the bytes of their paths; classes come from `labels`.
    ///
    /// # Errors
    ///
    /// As [`ImageFolder::open`], and those of the label function.
    pub fn open_with(path: impl AsRef<Path>, labels: ImageLabels<'_>, options: &ImageOptions) -> Result<Self> {
        Self::open_within(path, labels, options, &SavedIndex::Off, &MemoryBudget::unlimited())
    }

    /// As [`open_with`](Self::open_with); the listing is saved where `saved` says, and counts against `budget`.
    ///
    /// With a saved listing, opening reads that one file and checks each folder's modification time, but not the files:
    /// this takes milliseconds for 100,000 files. If a file is added, renamed or removed, the folder's time changes,
    /// and everything is listed again. Overwriting a file in place does not change the folder's time, nor does a change
    /// to the target of a link. Such files are read with their new content, and the
    /// [fingerprint](RecordReader::fingerprint) keeps the listed sizes. A folder that changed less than a second before
    /// it was listed is not saved yet.
    ///
    /// # Errors
    ///
    /// As [`ImageFolder::open_with`], [`ErrorKind::Budget`], and [`ErrorKind::Io`] if the listing can't be saved.
    pub fn open_within(
        path: impl AsRef<Path>,
        labels: ImageLabels<'_>,
        options: &ImageOptions,
        saved: &SavedIndex,
        budget: &MemoryBudget,
    ) -> Result<Self> {
        let whole = |refused: Vec<Error>| refused.into_iter().next().map_or(Ok(()), Err);
        Self::open_by(path.as_ref(), labels, options, saved, budget, whole)
    }

    /// Like [`detect`](Self::detect); folders that can't be listed are left out, and returned with the reader.
    pub(crate) fn detect_readable(
        path: &Path,
        options: &ImageOptions,
        budget: &MemoryBudget,
    ) -> Result<(Self, Vec<Error>)> {
        let labels = if has_class_folders(path, IMAGES)? { ImageLabels::Folder } else { ImageLabels::None };
        let mut refused = Vec::new();
        let reader = Self::open_by(path, labels, options, &SavedIndex::Off, budget, |found| {
            refused = found;
            Ok(())
        })?;
        Ok((reader, refused))
    }

    /// Passes to `refuse` why folders could not be listed; an error from it ends opening.
    fn open_by(
        root: &Path,
        labels: ImageLabels<'_>,
        options: &ImageOptions,
        saved: &SavedIndex,
        budget: &MemoryBudget,
        refuse: impl FnOnce(Vec<Error>) -> Result<()>,
    ) -> Result<Self> {
        no_faults(options.faults())?;
        if !metadata(root)?.is_dir() {
            return Err(Error::new(ErrorKind::Format, "is a file; an image folder is expected").at_path(root));
        }
        let way = if matches!(labels, ImageLabels::Folder) { Way::ByClass } else { Way::Flat };
        let (mut found, mut sizes) = way.list(root, saved, IMAGES)?;
        let mut refused = std::mem::take(&mut found.refused);
        if found.files.len() == 0 && !refused.is_empty() {
            return Err(refused.swap_remove(0));
        }
        refuse(refused)?;
        if way == Way::ByClass && options.classes.is_none() {
            found.check_classes(root)?;
        }
        if let ImageLabels::By(label) = labels {
            let listed = found.files.len();
            found = found.relabel(label)?;
            if found.files.len() < listed {
                sizes = found.files.hash_of_sizes()?;
            }
        }
        if found.files.len() == 0 {
            return Err(nothing_found(root, labels, found.ignored));
        }
        Self::new(root, found, sizes, !matches!(labels, ImageLabels::None), options, budget)
    }

    /// Takes these files, in this order.
    ///
    /// # Errors
    ///
    /// As [`ImageFolder::open`]. Whether the files exist is checked when they are read.
    pub fn from_paths<P: AsRef<Path>>(
        paths: impl IntoIterator<Item = P>,
        labels: ImageLabels<'_>,
        options: &ImageOptions,
    ) -> Result<Self> {
        Self::from_paths_within(paths, labels, options, &MemoryBudget::unlimited())
    }

    /// As [`from_paths`](Self::from_paths); the paths and the memory for decoding count against `budget`.
    ///
    /// # Errors
    ///
    /// As [`ImageFolder::from_paths`], and [`ErrorKind::Budget`].
    pub fn from_paths_within<P: AsRef<Path>>(
        paths: impl IntoIterator<Item = P>,
        labels: ImageLabels<'_>,
        options: &ImageOptions,
        budget: &MemoryBudget,
    ) -> Result<Self> {
        no_faults(options.faults())?;
        let mut found = Found::default();
        for path in paths {
            found.files.push(path.as_ref())?;
        }
        match labels {
            ImageLabels::None => {}
            ImageLabels::By(label) => found = found.relabel(label)?,
            ImageLabels::Folder => found = found.relabel(&|path: &Path| parent_name(path).map(Some))?,
        }
        if found.files.len() == 0 {
            return Err(Error::new(ErrorKind::NotFound, "an empty list of image files"));
        }
        let sizes = found.files.hash_of_sizes()?;
        let labelled = !matches!(labels, ImageLabels::None);
        Self::listed(found, sizes, labelled, options, budget)
    }

    fn new(
        root: &Path,
        found: Found,
        file_bytes: u64,
        labelled: bool,
        options: &ImageOptions,
        budget: &MemoryBudget,
    ) -> Result<Self> {
        Self::listed(found, file_bytes, labelled, options, budget).map_err(|error| error.at_path(root))
    }

    fn listed(
        mut found: Found,
        file_bytes: u64,
        labelled: bool,
        options: &ImageOptions,
        budget: &MemoryBudget,
    ) -> Result<Self> {
        let classes: Arc<[String]> = match labelled {
            false => Arc::default(),
            true => found.index_classes(options.classes.as_deref(), &options.label_name)?,
        };
        let sizes = ImageSizes::new(found.files.len(), options);
        let mut tensors = image_tensors(options);
        // Classes of maps are those of the pictures that they belong to, which have them already.
        let has_label = labelled && options.colour != ImageColour::Index && options.labels != LabelFormat::Off;
        let label_place = has_label.then_some(tensors.len());
        tensors.extend(has_label.then(|| label_tensor(options, Some(&classes))));
        let files = Members::new(found, classes, file_bytes, Files::local());
        let reservation = budget.reserve(files.held_bytes() + sizes.bytes(), "the listing of the images")?;
        Ok(Self {
            files,
            views: vec![options.clone()],
            places: vec![0],
            label_place,
            tensors,
            sizes,
            reservation,
            budget: budget.clone(),
        })
    }

    /// The same with further views of each image, whose tensors come after the others: the file is read once, and
    /// decoded once if the views can share the result.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Config`] for invalid options, and [`ErrorKind::Budget`].
    pub(super) fn with_views(mut self, views: impl IntoIterator<Item = ImageOptions>) -> Result<Self> {
        for options in views {
            no_faults(options.faults())?;
            if options.size.is_none() && !self.sizes.vary() {
                self.sizes = ImageSizes::new(self.files.len() as usize, &options);
                self.reservation.grow_to(self.reservation.bytes() + self.sizes.bytes(), "the sizes of the images")?;
            }
            self.places.push(self.tensors.len());
            self.tensors.extend(image_tensors(&options));
            self.views.push(options);
        }
        Ok(self)
    }

    /// The class names, in index order; none without labels.
    pub fn classes(&self) -> &[String] {
        &self.files.classes
    }

    /// Number of files that were left out: without an image's extension, hidden, outside of a class, or by the label
    /// function. A hidden folder counts as one, whatever is in it.
    pub fn ignored(&self) -> u64 {
        self.files.ignored
    }

    /// The first ten of these files, in the order of their paths below the folder.
    pub fn ignored_files(&self) -> &[PathBuf] {
        &self.files.ignored_files
    }

    /// The options.
    pub fn options(&self) -> &ImageOptions {
        &self.views[0]
    }

    /// The file of record `sample`.
    ///
    /// # Panics
    ///
    /// If there is no such record.
    pub fn path(&self, sample: u64) -> PathBuf {
        self.files.path(sample)
    }

    /// The class index of record `sample`; `None` without labels.
    pub fn label(&self, sample: u64) -> Option<u32> {
        self.files.label(sample)
    }

    fn read(&self, sample: u64, path: &Path, into: &mut Vec<u8>, wanted: u64) -> Result<u64> {
        self.files.read(sample, path, into, self.options().max_file_bytes, wanted)
    }

    fn located<T>(&self, sample: u64, result: Result<T>) -> Result<T> {
        result.map_err(|error| self.files.located(error, sample))
    }
}

impl Lists for ImageFolder {
    fn members(&self) -> &Members {
        &self.files
    }
}

/// A worker's buffers.
#[derive(Default)]
struct Worker {
    path: PathBuf,
    /// One for each position in the job.
    files: Vec<Vec<u8>>,
    /// The beginning of a file that is measured, separate from those that are fetched.
    start: Vec<u8>,
}

impl RecordReader for ImageFolder {
    fn len(&self) -> u64 {
        self.files.len()
    }

    fn tensors(&self) -> &[TensorSpec] {
        &self.tensors
    }

    fn need(&self, samples: &[u64], needs: &mut Needs) {
        self.files.need(samples, self.options().max_file_bytes, needs);
    }

    fn measure(&self, sample: u64, scratch: &mut Scratch) -> Result<Extents> {
        check_record(sample, self.len())?;
        self.sizes.of(sample, || {
            let Worker { path, start, .. } = scratch.of();
            self.files.write_path(sample, path);
            let read = |start: &mut Vec<u8>, wanted| self.read(sample, path, start, wanted);
            self.located(sample, upright_size(self.options(), start, read))
        })
    }

    fn fetch(&self, samples: &[u64], nth: usize, scratch: &mut Scratch) -> Result<()> {
        let sample = samples[nth];
        check_record(sample, self.len())?;
        let Worker { path, files, .. } = scratch.of();
        if files.len() <= nth {
            files.resize_with(nth + 1, Vec::new);
        }
        self.files.write_path(sample, path);
        self.located(sample, self.read(sample, path, &mut files[nth], u64::MAX))?;
        Ok(())
    }

    fn decode(&self, sample: Sample, nth: usize, scratch: &mut Scratch, row: &mut RowMut<'_>) -> Result<()> {
        let Worker { files, .. } = scratch.of();
        let bytes = files.get(nth).map(Vec::as_slice).unwrap_or_default();
        let mut shared = Shared::new(bytes, &self.views, sample.key, &self.budget);
        let mut damages = Damages::default();
        for (options, place) in self.views.iter().zip(&self.places) {
            let tensor = &mut row.tensor(*place);
            let written = match &mut shared {
                Some(shared) => shared.write(bytes, options, sample.key, tensor),
                None => write_image(bytes, options, sample.key, tensor, &self.budget),
            };
            let ((width, height), found) = self.located(sample.id, written)?;
            found.iter().for_each(|damage| damages.add(damage));
            if options.size.is_none() {
                write_mask(row, place + 1, width, height);
            }
        }
        scratch.note(damages);
        if let Some((label, place)) = self.label(sample.id).zip(self.label_place) {
            self.located(sample.id, write_label(row, place, label))?;
        }
        Ok(())
    }

    fn is_random(&self) -> bool {
        self.views.iter().any(|options| !options.augment.is_empty())
    }

    fn place(&self, sample: u64) -> Location {
        self.files.place(sample)
    }

    fn name(&self, sample: u64, name: &mut Vec<u8>) {
        self.files.name(sample, name);
    }

    fn label(&self, sample: u64) -> Option<u32> {
        self.label(sample)
    }

    fn label_tensor(&self) -> Option<usize> {
        self.label_place
    }

    fn fingerprint(&self) -> Fingerprint {
        self.files.fingerprint()
    }
}

#[cold]
fn nothing_found(root: &Path, labels: ImageLabels<'_>, ignored: u64) -> Error {
    let looked = "files named .jpg, .jpeg, .png, .webp, .bmp, .gif, .tif, .tiff, .pbm, .pgm, .ppm or .pnm";
    let message = match labels {
        ImageLabels::Folder => format!(
            "no images: looked for {looked} in subfolders, one per class ({ignored} other files); for images without \
             class folders, say where labels come from"
        ),
        _ => format!("no images: looked for {looked}, at any depth ({ignored} other files)"),
    };
    Error::new(ErrorKind::NotFound, message).at_path(root)
}
