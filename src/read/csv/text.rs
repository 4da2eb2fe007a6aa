use std::io::{Cursor, Read};
use std::path::{Path, PathBuf};

use crate::error::{Error, ErrorKind, Result};
use crate::memory::MemoryBudget;
use crate::storage::{Bytes, Files, Input, Needs, Packing, Spool, inflate_error};

use crate::read::foreign::{UTF_32, utf_16};

use super::encoding::Encoding;
use super::options::CsvOptions;

/// How many bytes of a file are checked for unmarked UTF-16, and how many are enough for that.
const HEAD_BYTES: u64 = 64;
const ENOUGH_BYTES: usize = 16;

/// A file as UTF-8 text: plain, or through decompression and transcoding.
#[derive(Clone, Debug)]
pub(crate) struct Text {
    files: Files,
    path: PathBuf,
    packing: Option<Packing>,
    /// `None` is UTF-8.
    encoding: Option<Encoding>,
    /// What decompressing counts against.
    budget: MemoryBudget,
}

impl Text {
    /// Looks at the first bytes of one of these files.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Config`] with an unknown encoding, [`ErrorKind::Format`] if the file begins as UTF-16, marked or
    /// not, but no encoding is given, and those of reading.
    pub(crate) fn open_in(files: &Files, path: &Path, encoding: Option<&str>) -> Result<Self> {
        let given = encoding.map(Encoding::named).transpose()?;
        let packing = files.packing(path)?;
        let budget = MemoryBudget::unlimited();
        let mut text = Self { files: files.clone(), path: path.to_owned(), packing, encoding: None, budget };
        let mut start = Vec::new();
        text.unpacked()?.take(HEAD_BYTES).read_to_end(&mut start).map_err(|error| inflate_error(path, 0, error))?;
        if UTF_32.iter().any(|mark| start.starts_with(mark)) {
            let message = "text in UTF-32; convert it (`iconv -f utf-32 -t utf-8`)";
            return Err(Error::new(ErrorKind::Format, message).at_path(path));
        }
        let marked = Encoding::of_mark(&start);
        if let (None, Some(marked)) = (given, marked.filter(|marked| *marked != Encoding::UTF_8)) {
            let name = marked.name().to_lowercase();
            let message = format!("begins with the byte-order mark of UTF-16; set encoding to {name:?}");
            return Err(Error::new(ErrorKind::Format, message).at_path(path));
        }
        let seems = utf_16(&start).filter(|_| start.len() >= ENOUGH_BYTES);
        if let (None, None, Some(name)) = (given, marked, seems) {
            let message = format!("looks like UTF-16 without a byte-order mark; set encoding to {name:?}");
            return Err(Error::new(ErrorKind::Format, message).at_path(path));
        }
        // A byte-order mark overrides the given name, as in browsers.
        text.encoding = marked.or(given).filter(|encoding| *encoding != Encoding::UTF_8);
        Ok(text)
    }

    /// The name of a file that could not be opened.
    pub(crate) fn unopened(files: &Files, path: &Path) -> Self {
        let budget = MemoryBudget::unlimited();
        Self { files: files.clone(), path: path.to_owned(), packing: None, encoding: None, budget }
    }

    /// The same; the memory for decompressing it belongs to `budget`.
    pub(crate) fn within(self, budget: &MemoryBudget) -> Self {
        Self { budget: budget.clone(), ..self }
    }

    /// Whether it is a local file, whose modification time is known.
    pub(crate) fn is_local(&self) -> bool {
        self.files.are_local()
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Whether its text differs from the file's bytes: compressed, or in another encoding.
    pub(crate) fn is_packed(&self) -> bool {
        self.packing.is_some() || self.encoding.is_some()
    }

    /// The encoding's name.
    pub(crate) fn encoding(&self) -> &'static str {
        self.encoding.unwrap_or(Encoding::UTF_8).name()
    }

    fn unpacked(&self) -> Result<Bytes> {
        self.files.unpacked(&self.path, self.packing, &self.budget)
    }

    /// The text from its beginning.
    pub(crate) fn read(&self) -> Result<Bytes> {
        self.unpacked().map(|bytes| self.decoded(bytes))
    }

    fn decoded(&self, bytes: Bytes) -> Bytes {
        match self.encoding {
            None => bytes,
            Some(encoding) => encoding.decoded(&self.path, bytes),
        }
    }

    /// Announces that all of it will be [read whole](Self::read_whole), as the file with this number.
    pub(crate) fn need(&self, file: u64, max_bytes: u64, needs: &mut Needs) {
        self.files.need_file(file, &self.path, max_bytes, needs);
    }

    /// The text from its beginning. In a storage, the whole file with this number is read first.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Limit`] for a stored file of more than `max_bytes`, and those of reading.
    pub(crate) fn read_whole(&self, file: u64, max_bytes: u64) -> Result<Bytes> {
        if self.is_local() {
            return self.read();
        }
        let mut stored = Vec::new();
        self.files.read_file(file, &self.path, &mut stored, max_bytes, u64::MAX)?;
        let mut bytes: Bytes = Box::new(Cursor::new(stored));
        if let Some(packing) = self.packing {
            bytes = packing.unpack(bytes, &self.budget)?;
        }
        Ok(self.decoded(bytes))
    }

    /// The text at any offset; it is unpacked at once unless it is a plain file.
    pub(crate) fn input(&self, options: &CsvOptions, budget: &MemoryBudget) -> Result<Input> {
        if !self.is_packed() {
            return self.files.open(&self.path, options.access);
        }
        let spool = Spool { budget: budget.clone(), limit_bytes: options.max_unpacked_bytes, ..Spool::default() };
        Input::spool(&self.path, self.read()?, &spool)
    }

    /// Length of the file as it is stored.
    pub(crate) fn stored_bytes(&self) -> u64 {
        self.files.len(&self.path).unwrap_or(0)
    }
}

/// Reads an [`Input`] from front to back.
pub(crate) struct InputReader<'a> {
    input: &'a Input,
    at: u64,
}

impl<'a> InputReader<'a> {
    pub(crate) fn new(input: &'a Input) -> Self {
        Self { input, at: 0 }
    }
}

impl Read for InputReader<'_> {
    fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
        let left = usize::try_from(self.input.len() - self.at).unwrap_or(usize::MAX);
        let count = into.len().min(left);
        self.input.read_at(self.at, &mut into[..count]).map_err(std::io::Error::other)?;
        self.at += count as u64;
        Ok(count)
    }
}
