//! Local files: opening them, and reading small ones as a whole into a reused buffer.

use std::fs::File;
use std::io::{ErrorKind as IoErrorKind, Read};
use std::path::Path;

use crate::counters::BytesRead;
use crate::error::{Error, ErrorKind, Result};
use crate::files::{check_ordinary, open_unseen};

use super::input::read_exact_at;
use super::shorter_than_before;

/// Files up to this size are read without asking for their length first, because a system call is a fifth of the cost.
const SMALL: usize = 8 << 10;

/// Reads the first `wanted` bytes of a file, but at least 8 KiB, into `buffer`, reusing its memory; returns the file's
/// length.
pub(crate) fn read_file(path: &Path, buffer: &mut Vec<u8>, max_bytes: u64, wanted: u64) -> Result<u64> {
    let mut file = open_unseen(path)?;
    let metadata = |file: &File| {
        let metadata = file.metadata().map_err(|error| Error::io(path, error))?;
        check_ordinary(path, &metadata).map(|()| metadata)
    };
    // The bytes of the previous file are overwritten, so only the part by which the buffer grows is cleared.
    if buffer.len() < SMALL {
        buffer.resize(SMALL, 0);
    }
    let begin = match fill(&mut file, &mut buffer[..SMALL]) {
        Ok(begin) => begin,
        // A folder, or a pipe that has no data now.
        Err(error) => return Err(metadata(&file).map_or_else(|other| other, |_| Error::io(path, error))),
    };
    if begin == 0 {
        metadata(&file)?;
    }
    if begin < SMALL {
        buffer.truncate(begin);
        return check_bytes(begin as u64, max_bytes).map(|()| begin as u64);
    }
    let len = metadata(&file)?.len();
    check_bytes(len.max(begin as u64), max_bytes)?;
    if len < begin as u64 {
        // Some file systems do not know the length of a file.
        buffer.truncate(begin);
        let limit = wanted.min(max_bytes.saturating_add(1)).saturating_sub(begin as u64);
        let count = file.take(limit).read_to_end(buffer).map_err(|error| Error::io(path, error))?;
        BytesRead::note(count);
        return check_bytes(buffer.len() as u64, max_bytes).map(|()| buffer.len() as u64);
    }
    // One call instead of several up to the file's end. If the file grows meanwhile, this is its old content.
    buffer.resize(len.min(wanted.max(begin as u64)) as usize, 0);
    let rest = fill(&mut file, &mut buffer[begin..]).map_err(|error| Error::io(path, error))?;
    if begin + rest < buffer.len() {
        return Err(shorter_than_before(path, (begin + rest) as u64));
    }
    Ok(len)
}

/// A local file of which a few parts are read before it is closed again.
pub(crate) struct LocalFile {
    file: File,
    bytes: u64,
}

impl LocalFile {
    pub(super) fn open(path: &Path) -> Result<Self> {
        let file = open_unseen(path)?;
        let metadata = file.metadata().map_err(|error| Error::io(path, error))?;
        check_ordinary(path, &metadata)?;
        Ok(Self { file, bytes: metadata.len() })
    }

    /// Its length when it was opened.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Fills `into` with the bytes from `at` on. Errors have no path yet.
    pub(crate) fn read(&self, at: u64, into: &mut [u8]) -> Result<()> {
        BytesRead::note(into.len());
        read_exact_at(&self.file, at, into).map_err(|error| match error.kind() {
            IoErrorKind::UnexpectedEof => {
                Error::new(ErrorKind::Io, "the file got shorter while it was read").at_byte(at)
            }
            _ => Error::new(ErrorKind::Io, error.to_string()).with_source(error).at_byte(at),
        })
    }
}

/// Reads until the file ends or `into` is full; returns the number of bytes.
fn fill(file: &mut File, into: &mut [u8]) -> std::io::Result<usize> {
    let mut filled = 0;
    while filled < into.len() {
        match file.read(&mut into[filled..]) {
            Ok(0) => break,
            Ok(count) => {
                BytesRead::note(count);
                filled += count;
            }
            Err(error) if error.kind() == IoErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(filled)
}

/// # Errors
///
/// [`ErrorKind::Limit`] for a file or member of more bytes than allowed.
pub(crate) fn check_bytes(len: u64, max_bytes: u64) -> Result<()> {
    if len <= max_bytes {
        return Ok(());
    }
    let message = format!(
        "{len} bytes, more than the limit of {max_bytes}; if the format has the option `max_file_bytes`, raise it for files \
         that you trust"
    );
    Err(Error::new(ErrorKind::Limit, message))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::ErrorKind;

    #[test]
    fn files_of_every_size_are_read_one_after_another_into_one_buffer() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        let mut buffer = Vec::new();
        for (turn, len) in [0, 100_000, 1, SMALL - 1, SMALL, 70_000, SMALL + 1, 0, 200_000].into_iter().enumerate() {
            let contents: Vec<u8> = (0..len).map(|at| (at * 7 + turn) as u8).collect();
            std::fs::write(&path, &contents).unwrap();
            assert_eq!(read_file(&path, &mut buffer, 200_000, u64::MAX).unwrap(), len as u64);
            assert!(buffer == contents, "{len} bytes");
            assert_eq!(read_file(&path, &mut buffer, 200_000, 64 << 10).unwrap(), len as u64);
            assert!(buffer == contents[..len.min(64 << 10)], "the beginning of {len} bytes");
            if let Some(less) = len.checked_sub(1) {
                let error = read_file(&path, &mut buffer, less as u64, u64::MAX).unwrap_err();
                assert_eq!(error.kind(), ErrorKind::Limit, "{len} bytes");
            }
        }
        let error = read_file(folder.path(), &mut buffer, u64::MAX, u64::MAX).unwrap_err();
        assert!(error.message().contains("not an ordinary file"), "{error}");
    }
}
