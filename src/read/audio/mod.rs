//! Sound files as records: a folder with one subfolder per class, any folder, or the files that a list names.

mod entry;
pub(super) mod old;
mod options;

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::decode::AudioOptions;
use crate::decode::audio::{
    Cut, Encoding, Frames, Packets, ReadAt, Sound, Writer, audio_tensors, describe, flac_sound, is_audio_name, is_wav,
    parse_wav, write_audio,
};
use crate::dtype::DType;
use crate::error::{Error, ErrorKind, Location, Result};
use crate::memory::{MemoryBudget, Reservation};
use crate::read::folder::{Found, Lists, Members, PathList, Wanted, Way, has_class_folders, list_stored};
use crate::read::listed_by::ListedBy;
use crate::read::{Fingerprint, Job, RecordReader, Sample, SavedIndex, Scratch};
use crate::row::RowMut;
use crate::schema::{Dim, Extents, Role, TensorSpec};
use crate::storage::{Files, LocalFile, Needs, check_bytes};

pub use entry::AudioFolder;
pub use options::AudioFolderOptions;

/// A longer file is refused where all of it must be read.
const MAX_FILE_BYTES: u64 = 1 << 30;

/// A FLAC file of up to this many bytes is read at once: finding the wanted part takes several calls of the system.
const SMALL_FLAC: u64 = 1 << 20;

/// Files with names of sounds.
const SOUNDS: Wanted = Wanted { is: is_audio_name, saved_as: ["listing of sounds by class 2", "listing of sounds 2"] };

/// Random access to sound files. Of a WAV file in a local folder, only the header and the wanted part are read; of a FLAC
/// file over 1 MiB, these and what finding the part takes. Other files are read as a whole.
///
/// The tensors are the sound and its mask, and the class if there are classes.
///
/// It holds about 12 bytes for each file in addition to the path below the root, and 4 more if sounds keep their
/// lengths. All of this counts against the budget. It opens one file at a time.
///
/// ```no_run
/// use ringfeed::audio::{AudioCrop, AudioFiles, AudioOptions};
/// use ringfeed::memory::MemoryBudget;
/// use ringfeed::read::RecordReader;
/// use ringfeed::storage::Files;
///
/// let sound = AudioOptions {
///     rate: Some(16_000),
///     length: Some(16_000),
///     crop: Some(AudioCrop::Random),
///     ..AudioOptions::default()
/// };
/// let words = AudioFiles::open(&Files::local(), "speech_commands", &sound, &MemoryBudget::unlimited())?;
/// println!("{} sounds of {:?}", words.len(), words.classes());
/// # Ok::<(), ringfeed::Error>(())
/// ```
pub struct AudioFiles {
    files: Members,
    writer: Writer,
    tensors: Vec<TensorSpec>,
    /// The number of frames of each file once it is known, `u32::MAX` before; empty if all sounds have one length.
    lengths: Box<[AtomicU32]>,
    #[expect(dead_code, reason = "held until the reader drops")]
    reservation: Reservation,
    /// The budget that decoders use.
    budget: MemoryBudget,
    listed_by: ListedBy,
}

impl fmt::Debug for AudioFiles {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AudioFiles").field("tensors", &self.tensors).finish_non_exhaustive()
    }
}

/// The parts of a reader.
struct Parts<'a> {
    found: Found,
    storage: Files,
    file_bytes: u64,
    options: AudioOptions,
    tensors: Tensors<'a>,
}

/// The names and roles of the tensors.
struct Tensors<'a> {
    sound: &'a str,
    role: Role,
    /// The tensor of the classes, if it is wanted.
    label: Option<Label<'a>>,
}

#[derive(Clone, Copy)]
struct Label<'a> {
    name: &'a str,
    /// The classes in the order of their indices, if they are listed; otherwise they are found.
    listed: Option<&'a [String]>,
}

impl AudioFiles {
    /// The sounds in a folder, or a single file. If a subfolder holds any, each subfolder is a class, otherwise there
    /// are no classes. Classes are sorted by name. The files of a class, at any depth, are sorted by the bytes of their
    /// paths. Files without the extension of a sound (wav, flac, mp3, ogg and others) are left out and counted.
    ///
    /// Without a rate in the options, the rate of the first file is used.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::NotFound`] without such a folder or sounds in it, [`ErrorKind::Config`] for invalid options,
    /// [`ErrorKind::Data`] for a class that is not listed, [`ErrorKind::Budget`].
    pub fn open(files: &Files, path: impl AsRef<Path>, sound: &AudioOptions, budget: &MemoryBudget) -> Result<Self> {
        Self::usual(files, path.as_ref(), sound, &SavedIndex::Off, budget)
    }

    fn usual(
        files: &Files,
        path: &Path,
        sound: &AudioOptions,
        saved: &SavedIndex,
        budget: &MemoryBudget,
    ) -> Result<Self> {
        let label = Some(Label { name: "label", listed: None });
        let tensors = Tensors { sound: "audio", role: Role::Feature, label };
        Self::open_as(files, path, saved, sound.clone(), tensors, budget)
    }

    /// The same, with each sound as a whole and at its own rate.
    fn unchanged(
        files: &Files,
        path: &Path,
        saved: &SavedIndex,
        classes: Option<&[String]>,
        budget: &MemoryBudget,
    ) -> Result<Self> {
        let label = Some(Label { name: "label", listed: classes });
        let tensors = Tensors { sound: "audio", role: Role::Feature, label };
        Self::listed(files, path, saved, tensors, |_| Ok(AudioOptions::default()), budget)
    }

    fn open_as(
        files: &Files,
        path: &Path,
        saved: &SavedIndex,
        mut options: AudioOptions,
        tensors: Tensors<'_>,
        budget: &MemoryBudget,
    ) -> Result<Self> {
        let of_first = |found: &Found| {
            if options.rate.is_none() {
                options.rate = Some(rate_of_first(files, found)?);
            }
            Ok(options)
        };
        Self::listed(files, path, saved, tensors, of_first, budget)
    }

    /// The rate of the first file.
    fn first_rate(files: &Files, path: &Path, saved: &SavedIndex) -> Result<u32> {
        let (found, ..) = list(files, path, saved, false).map_err(|error| error.at_path(path))?;
        rate_of_first(files, &found)
    }

    fn listed(
        files: &Files,
        path: &Path,
        saved: &SavedIndex,
        tensors: Tensors<'_>,
        options: impl FnOnce(&Found) -> Result<AudioOptions>,
        budget: &MemoryBudget,
    ) -> Result<Self> {
        let has_classes = tensors.label.is_some_and(|label| label.listed.is_some());
        let (found, file_bytes, labelled) = list(files, path, saved, has_classes)?;
        let options = options(&found)?;
        let tensors = Tensors { label: tensors.label.filter(|_| labelled), ..tensors };
        let parts = Parts { found, storage: files.clone(), file_bytes, options, tensors };
        Self::new(parts, budget).map_err(|error| error.at_path(path))
    }

    /// The files of a list, without classes.
    pub(super) fn of_list(
        files: PathList,
        listed_by: ListedBy,
        storage: &Files,
        options: &AudioOptions,
        (sound, role): (&str, Role),
        budget: &MemoryBudget,
    ) -> Result<Self> {
        let found = Found { files, ..Found::default() };
        let (storage, options) = (storage.clone(), options.clone());
        let tensors = Tensors { sound, role, label: None };
        let reader = Self::new(Parts { found, storage, file_bytes: 0, options, tensors }, budget)?;
        Ok(Self { listed_by, ..reader })
    }

    fn new(parts: Parts<'_>, budget: &MemoryBudget) -> Result<Self> {
        let Parts { mut found, storage, file_bytes, options, tensors: Tensors { sound, role, label } } = parts;
        let mut tensors = audio_tensors(&options, sound, role, Dim::Extent(0));
        let mut classes: Arc<[String]> = Arc::default();
        if let Some(Label { name, listed }) = label {
            classes = found.index_classes(listed, name)?;
            let mut spec = TensorSpec::new(name, Role::Label, DType::I64, &[]);
            spec.classes = Some(classes.clone());
            tensors.push(spec);
        } else {
            found.labels = Vec::new();
        }
        let varying = if options.length.is_none() { found.files.len() } else { 0 };
        let files = Members::new(found, classes, file_bytes, storage);
        let held = files.held_bytes() + 4 * varying as u64;
        let reservation = budget.reserve(held, "the listing of the sounds")?;
        Ok(Self {
            files,
            writer: Writer::new(options)?,
            tensors,
            lengths: (0..varying).map(|_| AtomicU32::new(u32::MAX)).collect(),
            reservation,
            budget: budget.clone(),
            listed_by: ListedBy::default(),
        })
    }

    /// The class names, in index order; none without labels.
    pub fn classes(&self) -> &[String] {
        &self.files.classes
    }

    /// Number of files that were left out.
    pub fn ignored(&self) -> u64 {
        self.files.ignored
    }

    /// The file of record `sample`.
    ///
    /// # Panics
    ///
    /// If there is no such record.
    pub fn path(&self, sample: u64) -> PathBuf {
        self.files.path(sample)
    }

    fn write_path(&self, sample: u64, path: &mut PathBuf) -> Result<()> {
        super::check_record(sample, self.len())?;
        if self.files.relative(sample).as_os_str().is_empty() {
            return Err(self.listed_by.error(sample));
        }
        self.files.write_path(sample, path);
        Ok(())
    }

    /// Reads the wanted part of a local file.
    fn read_part(&self, sample: Sample, file: &LocalFile, piece: &mut Piece) -> Result<()> {
        if !is_wav_file(file)? {
            piece.part = Part::Whole;
            if file.bytes() > SMALL_FLAC
                && let Some(packets) = Packets::read(file, &self.writer, sample.key, MAX_FILE_BYTES)?
            {
                piece.part = Part::Flac(packets);
                return Ok(());
            }
            return read_whole(file, &mut piece.bytes);
        }
        let wav = parse_wav(file)?;
        let cut = self.writer.cut(&wav.sound, sample.key)?;
        let range = wav.bytes_of(&cut.input);
        check_bytes(range.end - range.start, MAX_FILE_BYTES)?;
        piece.bytes.resize((range.end - range.start) as usize, 0);
        file.read_at(range.start, &mut piece.bytes)?;
        piece.part = Part::Wav(wav.sound, wav.encoding, cut);
        Ok(())
    }

    fn read_all(&self, sample: u64, piece: &mut Piece, path: &Path) -> Result<()> {
        piece.part = Part::Whole;
        self.files.read(sample, path, &mut piece.bytes, MAX_FILE_BYTES, u64::MAX).map(drop)
    }

    fn frames_of(&self, sample: u64, scratch: &mut Scratch) -> Result<u32> {
        let Worker { path, whole, .. } = scratch.of();
        self.write_path(sample, path)?;
        let sound = match self.files.open_parts(path)? {
            Some(file) => look_at_local(&file, whole)?,
            None => {
                self.files.read(sample, path, whole, MAX_FILE_BYTES, u64::MAX)?;
                describe(whole)?
            }
        };
        self.writer.frames(&sound)
    }
}

/// In a storage, the name decides.
fn is_folder(files: &Files, path: &Path) -> bool {
    if files.are_local() { path.is_dir() } else { !is_audio_name(path) }
}

/// The files of a folder or a single one, a hash of their lengths, and whether they have classes, whose names may be
/// known.
fn list(files: &Files, path: &Path, saved: &SavedIndex, has_classes: bool) -> Result<(Found, u64, bool)> {
    let (found, sizes, labelled) = if !is_folder(files, path) {
        let mut found = Found::default();
        found.files.push(path)?;
        let sizes = if files.are_local() { found.files.hash_of_sizes()? } else { 0 };
        (found, sizes, false)
    } else if !files.are_local() {
        let (found, labelled) = list_stored(files, path, SOUNDS)?;
        (found, 0, labelled)
    } else if let Some((way, found, sizes)) = Way::detect(path, saved, SOUNDS)? {
        (found, sizes, way == Way::ByClass)
    } else {
        let way = if has_class_folders(path, SOUNDS)? { Way::ByClass } else { Way::Flat };
        let (mut found, sizes) = way.list(path, saved, SOUNDS)?;
        if !found.refused.is_empty() {
            return Err(found.refused.swap_remove(0));
        }
        (found, sizes, way == Way::ByClass)
    };
    if found.files.len() == 0 {
        let message = format!(
            "no sounds: looked for files named .wav, .flac, .mp3, .ogg, .oga, .rf64 or .bw64, at any depth ({} other files)",
            found.ignored
        );
        return Err(Error::new(ErrorKind::NotFound, message).at_path(path));
    }
    if labelled && !has_classes {
        found.check_classes(path)?;
    }
    Ok((found, sizes, labelled))
}

/// The properties of the sound in a file.
fn look_at(files: &Files, path: &Path) -> Result<Sound> {
    let mut bytes = Vec::new();
    match files.open_parts(path)? {
        Some(file) => look_at_local(&file, &mut bytes),
        None => {
            files.read_file(files.number_files(1), path, &mut bytes, MAX_FILE_BYTES, u64::MAX)?;
            describe(&bytes)
        }
    }
}

/// The same for a local file, which is read completely into `bytes` unless it is a WAV or a long FLAC file.
fn look_at_local(file: &LocalFile, bytes: &mut Vec<u8>) -> Result<Sound> {
    if is_wav_file(file)? {
        return parse_wav(file).map(|wav| wav.sound);
    }
    if file.bytes() > SMALL_FLAC
        && let Some(sound) = flac_sound(file)?
    {
        return Ok(sound);
    }
    read_whole(file, bytes)?;
    describe(bytes)
}

fn is_wav_file(file: &LocalFile) -> Result<bool> {
    let mut head = [0; 12];
    let len = file.bytes().min(12) as usize;
    file.read(0, &mut head[..len])?;
    Ok(is_wav(&head[..len]))
}

fn read_whole(file: &LocalFile, bytes: &mut Vec<u8>) -> Result<()> {
    check_bytes(file.bytes(), MAX_FILE_BYTES)?;
    bytes.resize(file.bytes() as usize, 0);
    file.read(0, bytes)
}

impl Lists for AudioFiles {
    fn members(&self) -> &Members {
        &self.files
    }
}

impl ReadAt for LocalFile {
    fn len(&self) -> u64 {
        self.bytes()
    }

    fn read_at(&self, at: u64, into: &mut [u8]) -> Result<()> {
        self.read(at, into)
    }
}

/// A worker's buffers.
#[derive(Default)]
struct Worker {
    path: PathBuf,
    /// One for each position in the job.
    pieces: Vec<Piece>,
    /// A file that is measured, separate from those that are fetched.
    whole: Vec<u8>,
}

/// What is read of a file.
#[derive(Default)]
struct Piece {
    bytes: Vec<u8>,
    part: Part,
}

#[derive(Default)]
enum Part {
    /// All of it is in the bytes.
    #[default]
    Whole,
    /// The bytes are the wanted part of the sound.
    Wav(Sound, Encoding, Cut),
    Flac(Packets),
}

impl Worker {
    fn piece(&mut self, nth: usize) -> (&mut Piece, &mut PathBuf) {
        if self.pieces.len() <= nth {
            self.pieces.resize_with(nth + 1, Piece::default);
        }
        (&mut self.pieces[nth], &mut self.path)
    }
}

fn rate_of_first(files: &Files, found: &Found) -> Result<u32> {
    let mut first = PathBuf::new();
    found.files.write(0, &mut first);
    Ok(look_at(files, &first).map_err(|error| error.at_path(first))?.rate)
}

impl RecordReader for AudioFiles {
    fn len(&self) -> u64 {
        self.files.len()
    }

    fn tensors(&self) -> &[TensorSpec] {
        &self.tensors
    }

    fn need(&self, samples: &[u64], needs: &mut Needs) {
        self.files.need(samples, MAX_FILE_BYTES, needs);
    }

    fn measure(&self, sample: u64, scratch: &mut Scratch) -> Result<Extents> {
        let Some(known) = self.lengths.get(sample as usize) else { return Ok(Extents::default()) };
        let mut length = known.load(Ordering::Relaxed);
        if length == u32::MAX {
            length = self.frames_of(sample, scratch).map_err(|error| self.files.located(error, sample))?;
            known.store(length, Ordering::Relaxed);
        }
        Ok(Extents::of_length(length))
    }

    /// Which part is wanted depends on the sample's key, which only a job has, so the whole file is read here.
    fn fetch(&self, samples: &[u64], nth: usize, scratch: &mut Scratch) -> Result<()> {
        let sample = samples[nth];
        let (piece, path) = scratch.of::<Worker>().piece(nth);
        let read = self.write_path(sample, path).and_then(|()| self.read_all(sample, piece, path));
        read.map_err(|error| self.files.located(error, sample))
    }

    fn fetch_all(&self, job: &mut Job<'_>, scratch: &mut Scratch) {
        while let Some(nth) = job.advance() {
            let sample = job.sample(nth);
            let (piece, path) = scratch.of::<Worker>().piece(nth);
            let read = self.write_path(sample.id, path).and_then(|()| match self.files.open_parts(path)? {
                Some(file) => self.read_part(sample, &file, piece),
                None => self.read_all(sample.id, piece, path),
            });
            job.report(read.map_err(|error| self.files.located(error, sample.id)));
        }
    }

    fn decode(&self, sample: Sample, nth: usize, scratch: &mut Scratch, row: &mut RowMut<'_>) -> Result<()> {
        let (Piece { bytes, part }, _) = scratch.of::<Worker>().piece(nth);
        let mut own = row.part(0, 2);
        let written = match part {
            Part::Whole => write_audio(bytes, &self.writer, sample.key, &mut own, &self.budget),
            Part::Wav(sound, encoding, cut) => {
                self.writer.write(sound, &Frames { bytes, encoding: *encoding }, cut, &mut own)
            }
            Part::Flac(packets) => packets.write(&self.writer, &mut own, &self.budget),
        };
        written.map_err(|error| self.files.located(error, sample.id))?;
        if let Some(label) = self.files.label(sample.id) {
            row.tensor(2).as_mut_slice::<i64>()?[0] = i64::from(label);
        }
        Ok(())
    }

    fn is_random(&self) -> bool {
        self.writer.is_random()
    }

    fn place(&self, sample: u64) -> Location {
        self.listed_by.place(sample).unwrap_or_else(|| self.files.place(sample))
    }

    fn source_file(&self, sample: u64) -> Option<PathBuf> {
        self.listed_by.table().map_or_else(|| self.place(sample).path, |table| table.source_file(sample))
    }

    fn name(&self, sample: u64, name: &mut Vec<u8>) {
        match self.listed_by.table() {
            Some(table) => table.name(sample, name),
            None => self.files.name(sample, name),
        }
    }

    fn label(&self, sample: u64) -> Option<u32> {
        self.files.label(sample)
    }

    fn label_tensor(&self) -> Option<usize> {
        Some(2).filter(|tensor| *tensor < self.tensors().len())
    }

    fn fingerprint(&self) -> Fingerprint {
        self.files.fingerprint()
    }
}
