use std::fs::File;
use std::io::{Read, Write};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use memmap2::Mmap;
use serde::{Deserialize, Serialize};

use crate::counters::BytesRead;
use crate::error::{Error, ErrorKind, Result};
use crate::files;
use crate::memory::{MemoryBudget, Reservation};
use crate::system::check_file_limit;

use super::ahead::{Ahead, Needs};
use super::gzip::inflate_error;
use super::handles::{Handles, Lent};
use super::window::Window;
use super::{open_file, shorter_than_before};

/// How a file is read: `"read"` or `"map"` in settings.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "Named", into = "Named")]
#[non_exhaustive]
pub enum Access {
    /// Reads into reused buffers: neighbouring records together, and many small records that are far apart with one
    /// call (on Linux). The default.
    #[default]
    Read,
    /// Maps the file, which needs a promise: see [`Mapping::promise`].
    Map(Mapping),
}

/// The promise that mapping needs. Settings can ask for mapping, but only a program can make the promise; without it,
/// opening a file that should be mapped is an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mapping {
    is_promised: bool,
}

/// The names in settings.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Named {
    Read,
    Map,
}

impl From<Named> for Access {
    fn from(named: Named) -> Self {
        match named {
            Named::Read => Self::Read,
            Named::Map => Self::Map(Mapping { is_promised: false }),
        }
    }
}

impl From<Access> for Named {
    fn from(access: Access) -> Self {
        match access {
            Access::Read => Self::Read,
            Access::Map(_) => Self::Map,
        }
    }
}

impl Mapping {
    /// Promises that nobody changes the files that are mapped. Mapping saves one of two copies from the page cache, and
    /// the system call.
    ///
    /// Records of fixed size in random order, cached, cost 0.55 us of CPU time instead of 0.90 at 3 KB, and 1.6 instead
    /// of 3.9 at 12 KB (`benches/record/2026-11-28-fixed.md`; 0.56 and 0.75, 1.5 and 2.1 in another run, in
    /// `benches/record/2026-11-28-instructions-fixed-build.md`). For rows of a CSV file there is almost no difference.
    /// Pages that are not in memory yet are read while decoding, so a `fetch_limit` does not limit that
    /// time.
    ///
    /// ```
    /// use ringfeed::arrays::NpyOptions;
    /// use ringfeed::storage::{Access, Mapping};
    ///
    /// // SAFETY: the data set was written once, and lies on a file system that is mounted read-only.
    /// let promise = unsafe { Mapping::promise() };
    /// let options = NpyOptions { access: Access::Map(promise), ..NpyOptions::default() };
    /// # let _ = options;
    /// ```
    ///
    /// ```compile_fail,E0133
    /// let promise = ringfeed::storage::Mapping::promise();
    /// ```
    ///
    /// # Safety
    ///
    /// Nobody may change or truncate a file that is mapped with this promise, as long as a reader of it lives. Its
    /// bytes are borrowed as memory that does not change. Reading a page that no longer exists raises SIGBUS, which
    /// ends the process.
    pub const unsafe fn promise() -> Self {
        Self { is_promised: true }
    }
}

impl Access {
    /// Whether mapping is refused because nobody has made the promise.
    pub(crate) fn lacks_promise(self) -> bool {
        self == Self::Map(Mapping { is_promised: false })
    }
}

/// The error if settings ask for mapping and no program has made the promise.
pub(crate) const NO_PROMISE: &str = "access = \"map\" promises that nobody changes or truncates the file while it is \
     open; settings can't make this promise: make it in the program (`Loader::mapping`), or leave `access` out";

/// Where the content of a compressed or transcoded file may be kept for random access.
#[derive(Clone, Debug)]
pub(crate) struct Spool {
    /// The budget that counts the memory.
    pub(crate) budget: MemoryBudget,
    /// Maximum number of bytes in memory; more go to a temporary file.
    pub(crate) memory_bytes: u64,
    /// Maximum number of bytes in total.
    pub(crate) limit_bytes: u64,
}

impl Default for Spool {
    fn default() -> Self {
        Self { budget: MemoryBudget::unlimited(), memory_bytes: 1 << 30, limit_bytes: 64 << 30 }
    }
}

/// Bytes that can be read at any offset, also from several threads at once: those of a file, or the content of a
/// compressed one. [`Files::open`](super::Files::open) opens one for a container of your own, whose bytes are then read in
/// the same way on this machine and in a storage:
///
/// ```
/// use std::sync::Arc;
/// use ringfeed::error::Location;
/// use ringfeed::field::Numbers;
/// use ringfeed::memory::MemoryBudget;
/// use ringfeed::read::{Container, FieldInfo, FieldKind, Scratch, Value, Visit};
/// use ringfeed::storage::{Access, Files, InMemory, Input, Needs};
/// use ringfeed::{DType, Loader, LoaderConfig, Result};
///
/// /// Records of four bytes: a number each, with its most significant byte first.
/// struct Readings {
///     input: Input,
///     fields: [FieldInfo; 1],
/// }
///
/// impl Readings {
///     fn open(files: &Files, path: &str) -> Result<Self> {
///         let fields = [FieldInfo::new("reading", FieldKind::Numbers(DType::U32))];
///         Ok(Self { input: files.open(path.as_ref(), Access::Read)?, fields })
///     }
/// }
///
/// impl Container for Readings {
///     fn len(&self) -> u64 {
///         self.input.len() / 4
///     }
///
///     fn fields(&self) -> &[FieldInfo] {
///         &self.fields
///     }
///
///     fn need(&self, records: &[u64], needs: &mut Needs) {
///         records.iter().for_each(|record| self.input.need(4 * record..4 * record + 4, needs));
///     }
///
///     fn fetch(&self, records: &[u64], nth: usize, scratch: &mut Scratch) -> Result<()> {
///         let pieces: &mut Vec<[u8; 4]> = scratch.of();
///         pieces.resize(pieces.len().max(nth + 1), [0; 4]);
///         self.input.read_at(4 * records[nth], &mut pieces[nth])
///     }
///
///     fn read(&self, _: u64, nth: usize, scratch: &mut Scratch, visit: &mut Visit<'_>) -> Result<()> {
///         visit(0, Value::I64(u32::from_be_bytes(scratch.of::<Vec<[u8; 4]>>()[nth]).into()))
///     }
///
///     fn place(&self, record: u64) -> Location {
///         Location { path: Some(self.input.path().to_owned()), record: Some(record), ..Location::default() }
///     }
/// }
///
/// let bytes = (0..100u32).flat_map(u32::to_be_bytes).collect::<Vec<u8>>();
/// let storage = Arc::new(InMemory::default().with("readings", bytes));
/// let loader = Loader::from(LoaderConfig::default())
///     .container(move |budget| Readings::open(&Files::of(storage.clone(), budget), "readings"))
///     .field("reading", Numbers::i64())
///     .batch_size(100);
/// let batch = loader.build()?.next().expect("a batch")?;
/// assert_eq!(batch.tensor("reading")?.as_slice::<i64>()?, Vec::from_iter(0..100));
/// # Ok::<(), ringfeed::Error>(())
/// ```
#[derive(Debug)]
pub struct Input {
    path: PathBuf,
    len: u64,
    held: Held,
}

#[derive(Debug)]
enum Held {
    File(File, OnceLock<Option<Window>>),
    /// A file that may have been closed, and is then opened again.
    Lent(Lent),
    Map(Mmap),
    Memory(Vec<u8>, #[expect(dead_code, reason = "held until the input drops")] Reservation),
    /// A file of a storage whose bytes are requested ahead, with its number there.
    Stored(Arc<Ahead>, u64, Arc<Path>),
}

impl Input {
    /// Opens an ordinary file. A file that is read (not mapped) is kept open by `handles`, if given.
    pub(crate) fn open(path: &Path, access: Access, handles: Option<&Arc<Handles>>) -> Result<Self> {
        if access.lacks_promise() {
            return Err(Error::new(ErrorKind::Config, NO_PROMISE).at_path(path));
        }
        if let (Access::Read, Some(handles)) = (access, handles) {
            let (lent, len) = Lent::open(handles, path)?;
            return Ok(Self { path: path.to_owned(), len, held: Held::Lent(lent) });
        }
        let file = open_file(path)?;
        let len = file.metadata().map_err(|error| Error::io(path, error))?.len();
        let held = if access != Access::Read && len > 0 {
            // SAFETY: the user's `Mapping` is the promise that nobody changes or truncates the file while it is open.
            let map = unsafe { Mmap::map(&file) };
            Held::Map(map.map_err(|error| Error::io(path, error))?)
        } else {
            Held::File(file, OnceLock::new())
        };
        Ok(Self { path: path.to_owned(), len, held })
    }

    /// Reads `bytes` to the end and keeps them: in memory, or beyond `spool.memory_bytes` in a temporary file.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Limit`] beyond `spool.limit_bytes`, [`ErrorKind::Budget`], and those of reading.
    pub(crate) fn spool(path: &Path, mut bytes: impl Read, spool: &Spool) -> Result<Self> {
        let what = "the decompressed or transcoded file";
        let mut reservation = spool.budget.reserve(0, what)?;
        let mut memory = Vec::new();
        let mut file: Option<File> = None;
        let mut len = 0u64;
        let mut chunk = vec![0u8; 256 << 10];
        loop {
            let count = match bytes.read(&mut chunk) {
                Ok(0) => break,
                Ok(count) => count,
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(inflate_error(path, len, error)),
            };
            len += count as u64;
            if len > spool.limit_bytes {
                let message = format!(
                    "holds more than {} bytes once decompressed or transcoded; raise the limit or decompress it",
                    spool.limit_bytes
                );
                return Err(Error::new(ErrorKind::Limit, message).at_path(path));
            }
            if file.is_none() && len > spool.memory_bytes {
                let made = check_file_limit(len).and_then(|()| {
                    let mut new = files::unnamed(None)?;
                    new.write_all(&memory)?;
                    Ok(new)
                });
                file = Some(made.map_err(|error| Error::io(std::env::temp_dir(), error))?);
                memory = Vec::new();
                reservation.shrink_to(0);
            }
            match &mut file {
                Some(file) => {
                    let written = check_file_limit(len).and_then(|()| file.write_all(&chunk[..count]));
                    written.map_err(|error| Error::io(std::env::temp_dir(), error))?;
                }
                None => {
                    reservation.grow_to(len, what).map_err(|error| error.at_path(path))?;
                    memory.extend_from_slice(&chunk[..count]);
                }
            }
        }
        memory.shrink_to_fit();
        let held = file.map_or_else(|| Held::Memory(memory, reservation), |file| Held::File(file, OnceLock::new()));
        Ok(Self { path: path.to_owned(), len, held })
    }

    /// A file of a storage.
    pub(super) fn stored(ahead: &Arc<Ahead>, path: &Path) -> Result<Self> {
        let len = ahead.storage().file_len(path).map_err(|error| error.at_path(path))?;
        let held = Held::Stored(ahead.clone(), ahead.number_files(1), path.into());
        Ok(Self { path: path.to_owned(), len, held })
    }

    /// Announces that the bytes in `range` will be needed; call it in
    /// [`Container::need`](crate::read::Container::need). Costs nothing if they need not be requested ahead.
    pub fn need(&self, range: Range<u64>, needs: &mut Needs) {
        if let Held::Stored(ahead, file, path) = &self.held {
            ahead.need(*file, path, range.start..range.end.min(self.len), needs);
        }
    }

    /// Whether it is a local file that is read, not mapped or kept in memory.
    pub(crate) fn is_read(&self) -> bool {
        matches!(self.held, Held::File(..) | Held::Lent(_))
    }

    /// Whether its bytes should be requested ahead.
    pub(crate) fn is_slow(&self) -> bool {
        matches!(self.held, Held::Stored(..))
    }

    /// The path it was opened from.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Length in bytes.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Whether there are no bytes.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Everything, if it is in memory or mapped.
    pub fn slice(&self) -> Option<&[u8]> {
        match &self.held {
            Held::File(..) | Held::Lent(_) | Held::Stored(..) => None,
            Held::Map(map) => Some(map),
            Held::Memory(bytes, _) => Some(bytes),
        }
    }

    /// The file, and its window for gathering small pieces, if it is read and the system supports that.
    pub(crate) fn window(&self) -> Option<(&File, &Window)> {
        match &self.held {
            Held::File(file, window) => Some((file, window.get_or_init(|| Window::open(file)).as_ref()?)),
            Held::Lent(_) | Held::Map(_) | Held::Memory(..) | Held::Stored(..) => None,
        }
    }

    /// Fills `into` with the bytes from `offset` on, in the calling thread.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Io`], with path and byte; also when the file ends before, or has become shorter since it was opened.
    pub fn read_at(&self, offset: u64, into: &mut [u8]) -> Result<()> {
        match &self.held {
            Held::File(file, _) => self.read_file_at(file, offset, into),
            Held::Lent(lent) => self.read_file_at(&*lent.file()?, offset, into),
            Held::Stored(ahead, file, path) => ahead
                .read(*file, (path, self.len), offset, into)
                .map_err(|error| error.at_path(&self.path).at_byte(offset)),
            Held::Map(_) | Held::Memory(..) => {
                let bytes = self.slice().unwrap_or_default();
                let range = usize::try_from(offset).ok().and_then(|start| bytes.get(start..)?.get(..into.len()));
                let Some(range) = range else {
                    let message = format!("{} bytes at {offset} of {}", into.len(), self.len);
                    return Err(Error::new(ErrorKind::Io, message).at_path(&self.path).at_byte(offset));
                };
                into.copy_from_slice(range);
                Ok(())
            }
        }
    }
}

impl Input {
    fn read_file_at(&self, file: &File, offset: u64, into: &mut [u8]) -> Result<()> {
        BytesRead::note(into.len());
        read_exact_at(file, offset, into)
            .map_err(|error| match error.kind() {
                std::io::ErrorKind::UnexpectedEof => shorter_than_before(&self.path, offset),
                _ => Error::io(&self.path, error),
            })
            .map_err(|error| error.at_byte(offset))
    }
}

/// Asks the processor to prefetch `len` bytes into its second-level cache, because they will be read soon. This does
/// not wait, and the memory need not exist.
#[inline]
pub(crate) fn prefetch(start: *const u8, len: usize) {
    #[cfg(target_arch = "x86_64")]
    for line in (0..len).step_by(64) {
        use std::arch::x86_64::{_MM_HINT_T1, _mm_prefetch};
        // SAFETY: a prefetch is a hint, which neither faults nor changes anything, whatever the address.
        unsafe { _mm_prefetch::<_MM_HINT_T1>(start.wrapping_add(line).cast()) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (start, len);
}

/// Reads from `offset` on with one system call; returns 0 at the end of the file.
pub(super) fn read_at(file: &File, offset: u64, into: &mut [u8]) -> std::io::Result<usize> {
    #[cfg(unix)]
    let count = std::os::unix::fs::FileExt::read_at(file, into, offset)?;
    #[cfg(windows)]
    let count = std::os::windows::fs::FileExt::seek_read(file, into, offset)?;
    BytesRead::note(count);
    Ok(count)
}

#[cfg(unix)]
pub(super) fn read_exact_at(file: &File, offset: u64, into: &mut [u8]) -> std::io::Result<()> {
    std::os::unix::fs::FileExt::read_exact_at(file, into, offset)
}

#[cfg(windows)]
pub(super) fn read_exact_at(file: &File, mut offset: u64, mut into: &mut [u8]) -> std::io::Result<()> {
    while !into.is_empty() {
        let count = std::os::windows::fs::FileExt::seek_read(file, into, offset)?;
        if count == 0 {
            return Err(std::io::ErrorKind::UnexpectedEof.into());
        }
        offset += count as u64;
        into = &mut into[count..];
    }
    Ok(())
}

/// For tests of the crate, which do not change mapped files.
#[cfg(test)]
pub(crate) const MAPPED: Access = Access::Map(Mapping { is_promised: true });

#[cfg(test)]
mod tests {
    use super::super::Files;
    use super::super::gzip::tests::gzip;
    use super::*;

    #[test]
    fn every_way_of_holding_bytes_reads_the_same() {
        let folder = tempfile::tempdir().unwrap();
        let bytes: Vec<u8> = (0..100_000u32).flat_map(u32::to_le_bytes).collect();
        let plain = folder.path().join("plain");
        std::fs::write(&plain, &bytes).unwrap();
        let packed = folder.path().join("packed.gz");
        std::fs::write(&packed, gzip(&bytes)).unwrap();
        let packings = [&packed, &plain].map(|path| Files::local().packing(path).unwrap());
        assert_eq!(packings, [Some(super::super::Packing::Gzip), None]);
        let small = Spool { memory_bytes: 1000, ..Spool::default() };
        for input in [
            Input::open(&plain, Access::Read, None).unwrap(),
            Input::open(&plain, Access::Read, Some(&Arc::new(Handles::new(1)))).unwrap(),
            // SAFETY: nobody changes it.
            Input::open(&plain, Access::Map(unsafe { Mapping::promise() }), None).unwrap(),
            Input::spool(
                &packed,
                Files::local().inflated(&packed, &MemoryBudget::unlimited()).unwrap(),
                &Spool::default(),
            )
            .unwrap(),
            Input::spool(&packed, Files::local().inflated(&packed, &MemoryBudget::unlimited()).unwrap(), &small)
                .unwrap(),
        ] {
            assert_eq!(input.len(), bytes.len() as u64);
            let mut part = [0u8; 1000];
            input.read_at(12_345, &mut part).unwrap();
            assert_eq!(part, bytes[12_345..13_345]);
            assert!(input.read_at(input.len() - 10, &mut part).is_err());
        }
    }

    #[test]
    fn settings_can_ask_for_mapping_but_not_promise_it() {
        let plain = tempfile::NamedTempFile::new().unwrap();
        let asked: Access = serde_json::from_str("\"map\"").unwrap();
        let error = Input::open(plain.path(), asked, None).unwrap_err();
        assert_eq!((error.kind(), error.path()), (ErrorKind::Config, Some(plain.path())));
        assert!(error.to_string().contains("Loader::mapping"), "{error}");
        // SAFETY: nothing is opened.
        let promised = Access::Map(unsafe { Mapping::promise() });
        assert!(asked.lacks_promise() && !promised.lacks_promise() && !Access::Read.lacks_promise());
        assert_eq!(serde_json::to_string(&[promised, asked, Access::Read]).unwrap(), r#"["map","map","read"]"#);
        assert!(serde_json::from_str::<Access>("\"mapped\"").unwrap_err().to_string().contains("`read` or `map`"));
    }

    #[test]
    fn what_inflates_beyond_a_limit_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let bomb = folder.path().join("bomb.gz");
        std::fs::write(&bomb, gzip(&vec![0; 10 << 20])).unwrap();
        let spool = Spool { limit_bytes: 1 << 20, ..Spool::default() };
        let error = Input::spool(&bomb, Files::local().inflated(&bomb, &MemoryBudget::unlimited()).unwrap(), &spool)
            .unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Limit);
        let spool = Spool { budget: MemoryBudget::new(1 << 20), ..Spool::default() };
        let error = Input::spool(&bomb, Files::local().inflated(&bomb, &MemoryBudget::unlimited()).unwrap(), &spool)
            .unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Budget);
    }
}
