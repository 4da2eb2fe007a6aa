use std::io::{BufRead, BufReader, Read};
use std::path::Path;

use flate2::bufread::{GzDecoder, ZlibDecoder};

use crate::error::{Error, ErrorKind};

/// Bytes from any source, read from front to back.
pub(crate) type Bytes = Box<dyn Read + Send>;

/// The decompressed bytes of all members of a gzip file. Zeros after the last one are padding, as in gzip itself.
pub(crate) struct Inflater {
    /// The current member; `None` at the end.
    member: Option<GzDecoder<BufReader<Bytes>>>,
}

/// The first bytes of every member.
const MAGIC: [u8; 2] = [0x1f, 0x8b];

impl Inflater {
    /// The content of the compressed `bytes`.
    pub(crate) fn new(bytes: Bytes) -> Self {
        Self { member: Some(GzDecoder::new(BufReader::with_capacity(256 << 10, bytes))) }
    }

    /// The next member, or `None` at the end of the file.
    fn next_member(mut rest: BufReader<Bytes>) -> std::io::Result<Option<GzDecoder<BufReader<Bytes>>>> {
        loop {
            let buffered = rest.fill_buf()?;
            if buffered.is_empty() {
                return Ok(None);
            }
            if buffered[0] != 0 && !MAGIC.starts_with(&buffered[..buffered.len().min(MAGIC.len())]) {
                let message = "what follows the last compressed member is neither another one nor padding";
                return Err(std::io::Error::new(std::io::ErrorKind::InvalidData, message));
            }
            let padding = buffered.iter().take_while(|byte| **byte == 0).count();
            if padding == 0 {
                return Ok(Some(GzDecoder::new(rest)));
            }
            rest.consume(padding);
        }
    }
}

impl Read for Inflater {
    fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
        while let Some(member) = &mut self.member {
            let count = member.read(into)?;
            if count > 0 || into.is_empty() {
                return Ok(count);
            }
            self.member = match self.member.take() {
                Some(ended) => Self::next_member(ended.into_inner())?,
                None => None,
            };
        }
        Ok(0)
    }
}

/// The decompressed bytes of a zlib file, which is a single stream.
pub(crate) struct ZlibInflater(ZlibDecoder<BufReader<Bytes>>);

impl ZlibInflater {
    /// The content of the compressed `bytes`.
    pub(crate) fn new(bytes: Bytes) -> Self {
        Self(ZlibDecoder::new(BufReader::with_capacity(256 << 10, bytes)))
    }
}

impl Read for ZlibInflater {
    fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
        let count = self.0.read(into)?;
        if count == 0 && !into.is_empty() && !self.0.get_mut().fill_buf()?.is_empty() {
            let message = "there are bytes after the end of the compressed data";
            return Err(std::io::Error::new(std::io::ErrorKind::InvalidData, message));
        }
        Ok(count)
    }
}

/// Interprets an error while decompressing or transcoding; `byte` counts decompressed bytes.
#[cold]
pub(crate) fn inflate_error(path: &Path, byte: u64, error: std::io::Error) -> Error {
    // A reader of ours has already said what is wrong and where.
    let error = match error.downcast::<Error>() {
        Ok(ours) => return ours.at_path(path),
        Err(error) => error,
    };
    let (kind, message) = match error.kind() {
        std::io::ErrorKind::UnexpectedEof => {
            (ErrorKind::Format, "the compressed data ends in the middle; the file is truncated".to_owned())
        }
        std::io::ErrorKind::InvalidInput | std::io::ErrorKind::InvalidData => {
            (ErrorKind::Format, format!("corrupt compressed data: {error}"))
        }
        _ => (ErrorKind::Io, error.to_string()),
    };
    Error::new(kind, message).with_source(error).at_path(path).at_byte(byte)
}

#[cfg(test)]
pub(super) mod tests {
    use std::io::Write;

    use flate2::{Compression, write::GzEncoder};

    use super::super::{Files, Input, Spool};
    use super::*;
    use crate::memory::MemoryBudget;

    pub(in crate::storage) fn gzip(bytes: &[u8]) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
        encoder.write_all(bytes).unwrap();
        encoder.finish().unwrap()
    }

    #[test]
    fn members_follow_each_other_and_zeros_may_follow_the_last() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("members.gz");
        let read = |bytes: Vec<u8>| {
            std::fs::write(&path, bytes).unwrap();
            let mut text = Vec::new();
            Files::local().inflated(&path, &MemoryBudget::unlimited()).unwrap().read_to_end(&mut text).map(|_| text)
        };
        let members = [gzip(b"one "), gzip(b""), gzip(b"two")].concat();
        assert_eq!(read(members.clone()).unwrap(), b"one two");
        assert_eq!(read([&members[..], &[0; 1000]].concat()).unwrap(), b"one two");
        for rest in [&b"rubbish behind it"[..], b"\x1fx", &[&[0; 10], &b"rubbish"[..]].concat()] {
            let error = read([&members[..], rest].concat()).unwrap_err();
            assert!(error.to_string().contains("neither another one nor padding"), "{error}");
        }
        assert!(read([&members[..], b"\x1f"].concat()).is_err());
    }

    #[test]
    fn a_truncated_gzip_file_is_an_error_that_says_so() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("cut.gz");
        let packed = gzip(&vec![1; 100_000]);
        std::fs::write(&path, &packed[..packed.len() / 2]).unwrap();
        let error =
            Input::spool(&path, Files::local().inflated(&path, &MemoryBudget::unlimited()).unwrap(), &Spool::default())
                .unwrap_err();
        assert!(error.to_string().contains("truncated"), "{error}");
    }
}
