use std::collections::VecDeque;
use std::fmt;
use std::fs::File;
use std::io::Read;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use crate::error::{Error, Result};
use crate::memory::MemoryBudget;

use super::ahead::{Ahead, AheadStats, Needs, Requested};
use super::gzip::{Bytes, inflate_error};
use super::handles::Handles;
use super::input::read_at;
use super::packing::{MARK_BYTES, Packing};
use super::{Access, Input, Listed, LocalFile, Spool, Storage, check_bytes, entries, open_file, read_file};

/// The files that readers use: those of this machine, or of a [`Storage`]. Clones are the same files.
#[derive(Clone, Default)]
pub struct Files {
    ahead: Option<Arc<Ahead>>,
    handles: Option<Arc<Handles>>,
}

/// How many bytes may be requested ahead, unless another limit is given.
const AHEAD_BYTES: u64 = 256 << 20;

impl Files {
    /// The files of this machine, read in the worker's own thread.
    pub fn local() -> Self {
        Self::default()
    }

    /// The files of `storage`. At most 256 MiB are requested before they are needed, and at most a quarter of `budget`,
    /// on which they count. A batch that needs more gets all of its own bytes.
    ///
    /// A request that takes more than 30 seconds, and ten times as long as the slowest ones lately, is given up: whoever
    /// needs its bytes requests them again. Set time limits in the storage if you can.
    ///
    /// The threads that wait for the storage, one for each request that may be in progress, start with the first
    /// request, and end when the last reader of these files drops.
    pub fn of(storage: Arc<dyn Storage>, budget: &MemoryBudget) -> Self {
        Self::with_ahead_bytes(storage, AHEAD_BYTES.min(budget.limit() / 4), budget)
    }

    /// As [`of`](Self::of), with another limit.
    pub fn with_ahead_bytes(storage: Arc<dyn Storage>, bytes: u64, budget: &MemoryBudget) -> Self {
        Self { ahead: Some(Arc::new(Ahead::new(storage, bytes, budget))), handles: None }
    }

    /// The same files; at most `most` local ones are kept open, in addition to those that are being read.
    pub(crate) fn with_few_open(&self, most: usize) -> Self {
        Self { handles: self.are_local().then(|| Arc::new(Handles::new(most))), ..self.clone() }
    }

    /// Whether these are the files of this machine.
    pub fn are_local(&self) -> bool {
        self.ahead.is_none()
    }

    /// What was requested, and how often a worker had to wait; `None` for local files.
    pub fn stats(&self) -> Option<AheadStats> {
        self.ahead.as_ref().map(|ahead| ahead.stats())
    }

    /// Opens a file for reading at any position, as a container does; see [`Input`]. Only local files can be mapped.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::NotFound`](crate::ErrorKind::NotFound) with the nearest name,
    /// [`ErrorKind::Unsupported`](crate::ErrorKind::Unsupported) for what is no ordinary file, and those of the storage;
    /// [`ErrorKind::Config`](crate::ErrorKind::Config) for mapping without a promise.
    pub fn open(&self, path: &Path, access: Access) -> Result<Input> {
        match &self.ahead {
            None => Input::open(path, access, self.handles.as_ref()),
            Some(ahead) => Input::stored(ahead, path),
        }
    }

    /// Opens a file of which a few parts are read before it is closed again; `None` in a storage, where finding the parts
    /// would take one request after another, and whole files are requested ahead.
    pub(crate) fn open_parts(&self, path: &Path) -> Result<Option<LocalFile>> {
        self.are_local().then(|| LocalFile::open(path)).transpose()
    }

    /// Opens a file for reading from front to back, for example to find its records. For a file in a storage, only a
    /// little is requested until it is known that much is read.
    ///
    /// # Errors
    ///
    /// As [`open`](Self::open).
    pub fn stream(&self, path: &Path) -> Result<Bytes> {
        self.streamed(path, STREAM_BEGIN)
    }

    /// Opens a file of which everything will be read, from front to back.
    pub(crate) fn stream_whole(&self, path: &Path) -> Result<Bytes> {
        self.streamed(path, STREAM_AHEAD)
    }

    fn streamed(&self, path: &Path, least_ahead: u64) -> Result<Bytes> {
        match &self.ahead {
            None => Ok(Box::new(Local { file: open_file(path)?, at: 0 })),
            Some(ahead) => Ok(Box::new(Stream::new(Input::stored(ahead, path)?, least_ahead))),
        }
    }

    /// The content of a folder, in any order.
    pub(crate) fn list(&self, folder: &Path) -> Result<Vec<Listed>> {
        let Some(ahead) = &self.ahead else { return entries(folder)?.collect() };
        let listed = ahead.storage().list(folder).map_err(|error| error.at_path(folder))?;
        Ok(listed.into_iter().map(Listed::from).collect())
    }

    /// Whether the path is a folder; in a storage, anything that can be listed and is not empty.
    pub(crate) fn is_folder(&self, path: &Path) -> bool {
        match self.are_local() {
            true => path.is_dir(),
            false => self.list(path).is_ok_and(|entries| !entries.is_empty()),
        }
    }

    /// How a file is compressed; `None` if it is not.
    pub(crate) fn packing(&self, path: &Path) -> Result<Option<Packing>> {
        let mut begin = Vec::new();
        if let Some(ahead) = &self.ahead {
            let input = Input::stored(ahead, path)?;
            begin.resize(input.len().min(MARK_BYTES) as usize, 0);
            input.read_at(0, &mut begin)?;
        } else {
            let read = self.stream(path)?.take(MARK_BYTES).read_to_end(&mut begin);
            read.map_err(|error| inflate_error(path, 0, error))?;
        }
        Ok(Packing::of(&begin))
    }

    /// The bytes of a file, decompressed if it is compressed.
    pub(crate) fn inflated(&self, path: &Path, budget: &MemoryBudget) -> Result<Bytes> {
        let packing = self.packing(path)?;
        self.unpacked(path, packing, budget)
    }

    /// The decompressed bytes of a file with this packing; the memory for decompressing belongs to `budget`.
    pub(crate) fn unpacked(&self, path: &Path, packing: Option<Packing>, budget: &MemoryBudget) -> Result<Bytes> {
        let bytes = self.stream(path)?;
        match packing {
            Some(packing) => packing.unpack(bytes, budget).map_err(|error| error.at_path(path)),
            None => Ok(bytes),
        }
    }

    /// Opens a file for reading at any position. A compressed file is decompressed first, to at most
    /// `spool.limit_bytes`.
    pub(crate) fn open_packed(
        &self,
        path: &Path,
        packing: Option<Packing>,
        access: Access,
        spool: &Spool,
    ) -> Result<Input> {
        match packing {
            None => self.open(path, access),
            packing => Input::spool(path, self.unpacked(path, packing, &spool.budget)?, spool),
        }
    }

    /// Length of a file in bytes.
    pub(crate) fn len(&self, path: &Path) -> Result<u64> {
        match &self.ahead {
            None => Ok(open_file(path)?.metadata().map_err(|error| Error::io(path, error))?.len()),
            Some(ahead) => ahead.storage().file_len(path).map_err(|error| error.at_path(path)),
        }
    }

    /// Reserves numbers for `count` files that are read as a whole.
    pub(crate) fn number_files(&self, count: u64) -> u64 {
        self.ahead.as_ref().map_or(0, |ahead| ahead.number_files(count))
    }

    /// Announces that all of a file will be needed, unless it is longer than `max_bytes`.
    pub(crate) fn need_file(&self, file: u64, path: &Path, max_bytes: u64, needs: &mut Needs) {
        if let Some(ahead) = &self.ahead {
            ahead.need_whole(file, &path.into(), max_bytes, needs);
        }
    }

    /// Reads at least the first `wanted` bytes of a file into `buffer`, reusing its memory; returns the file's length.
    pub(crate) fn read_file(
        &self,
        file: u64,
        path: &Path,
        buffer: &mut Vec<u8>,
        max_bytes: u64,
        wanted: u64,
    ) -> Result<u64> {
        let Some(ahead) = &self.ahead else { return read_file(path, buffer, max_bytes, wanted) };
        let len = ahead.read_file(file, path, buffer, wanted.min(max_bytes.saturating_add(1)))?;
        check_bytes(len, max_bytes).map(|()| len)
    }
}

impl fmt::Debug for Files {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.are_local() { "Files(local)" } else { "Files(of a storage)" })
    }
}

/// A local file that is read from front to back. It keeps its position itself, because forked children would move the
/// system's position, too.
struct Local {
    file: File,
    at: u64,
}

impl Read for Local {
    fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
        let count = read_at(&self.file, self.at, into)?;
        self.at += count as u64;
        Ok(count)
    }
}

/// How far ahead of its reader a stream requests bytes: at first, and at most. In between, it is twice the bytes read
/// so far. Many readers only read the first bytes.
const STREAM_BEGIN: u64 = 64 << 10;
const STREAM_AHEAD: u64 = 16 << 20;
/// Longest request of a stream.
const STREAM_STEP: u64 = 1 << 20;

/// A file of a storage that is read from front to back.
struct Stream {
    input: Input,
    at: u64,
    least_ahead: u64,
    /// The end of what was requested.
    asked: u64,
    /// The requests, each with its end.
    requested: VecDeque<(u64, Requested)>,
}

impl Stream {
    fn new(input: Input, least_ahead: u64) -> Self {
        Self { input, at: 0, least_ahead, asked: 0, requested: VecDeque::new() }
    }

    fn ask(&mut self) {
        // What was read without being requested is not requested afterwards.
        self.asked = self.asked.max(self.at);
        let ahead = self.at.saturating_mul(2).clamp(self.least_ahead, STREAM_AHEAD);
        let step = (ahead / 4).clamp(STREAM_BEGIN, STREAM_STEP);
        while self.asked < self.input.len().min(self.at.saturating_add(ahead)) {
            let range: Range<u64> = self.asked..self.input.len().min(self.asked + step);
            self.asked = range.end;
            let mut needs = Needs::default();
            self.input.need(range, &mut needs);
            self.requested.push_back((self.asked, needs.request()));
        }
    }
}

impl Read for Stream {
    fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
        self.ask();
        let left = usize::try_from(self.input.len() - self.at).unwrap_or(usize::MAX);
        let count = into.len().min(left);
        self.input.read_at(self.at, &mut into[..count]).map_err(std::io::Error::other)?;
        self.at += count as u64;
        while self.requested.front().is_some_and(|(end, _)| *end <= self.at) {
            self.requested.pop_front();
        }
        Ok(count)
    }
}

#[cfg(all(test, not(ringfeed_loom)))]
mod tests {
    use super::*;
    use crate::sync::Mutex;

    const LEN: u64 = 40 << 20;

    /// Zeros, and a record of what was read.
    #[derive(Default)]
    struct Zeros(Mutex<Vec<(u64, u64)>>);

    impl Storage for Zeros {
        fn file_len(&self, _: &Path) -> Result<u64> {
            Ok(LEN)
        }

        fn read(&self, _: &Path, range: Range<u64>, into: &mut Vec<u8>) -> Result<u64> {
            self.0.lock().push((range.start, range.end));
            into.clear();
            into.resize((range.end.min(LEN) - range.start) as usize, 0);
            Ok(LEN)
        }
    }

    #[test]
    fn only_what_is_looked_at_is_requested() {
        let zeros = Arc::new(Zeros::default());
        let files = Files::of(zeros.clone(), &MemoryBudget::unlimited());
        assert_eq!(files.packing(Path::new("x")).unwrap(), None);
        assert_eq!(*zeros.0.lock(), [(0, MARK_BYTES)]);
    }

    #[test]
    fn a_stream_requests_more_the_more_is_read_and_all_at_once_where_all_is_wanted() {
        let files = Files::of(Arc::new(Zeros::default()), &MemoryBudget::unlimited());
        let input = || Input::stored(files.ahead.as_ref().unwrap(), Path::new("x")).unwrap();
        let mut stream = Stream::new(input(), STREAM_BEGIN);
        let mut buffer = vec![0; 16 << 10];
        let mut before = 0;
        while stream.at < LEN {
            stream.read_exact(&mut buffer).unwrap();
            let begin = stream.at - buffer.len() as u64;
            assert!(stream.asked - begin >= STREAM_AHEAD.min(2 * begin).min(LEN - begin), "{begin}");
            let ahead = STREAM_BEGIN.max(2 * begin);
            assert!(stream.asked <= begin + ahead + STREAM_BEGIN.max(ahead / 4), "{begin}: {}", stream.asked);
            assert!(stream.asked >= before);
            before = stream.asked;
        }
        assert_eq!((stream.asked, stream.requested.len()), (LEN, 0));
        let mut whole = Stream::new(input(), STREAM_AHEAD);
        whole.read_exact(&mut buffer).unwrap();
        assert_eq!((whole.asked, whole.requested.len()), (STREAM_AHEAD, 16));
    }
}
