//! Files compressed by bzip2, Brotli and Snappy.

use std::io::{self, BufRead, BufReader, Cursor, ErrorKind, Read};

use brotli_decompressor::{BrotliDecoderParameter, Decompressor};
use bzip2::bufread::BzDecoder;

use crate::error::{Error, Result};
use crate::memory::{MemoryBudget, Reservation};

use super::gzip::Bytes;

const BUFFER: usize = 256 << 10;

/// What a decoder of bzip2 holds: a block of at most 900,000 symbols, 4 bytes for each, and tables.
const BZIP2_BYTES: u64 = 4 << 20;

/// The largest window of Brotli's format, tables of up to 3.3 MB, and what is read ahead.
const BROTLI_BYTES: u64 = 20 << 20;

const BZIP2: &str = "decompressing bzip2";
const BROTLI: &str = "the window of a Brotli file";
const SNAPPY: &str = "a Snappy-compressed file and what it holds";

pub(super) fn unpack_bzip2(bytes: Bytes, budget: &MemoryBudget) -> Result<Bytes> {
    let stream = Some(BzDecoder::new(BufReader::with_capacity(BUFFER, bytes)));
    Ok(Box::new(Bzip2 { stream, _reservation: budget.reserve(BZIP2_BYTES, BZIP2)? }))
}

/// The decompressed bytes of all streams in a file: parallel programs write one for each part.
struct Bzip2 {
    /// The current one; `None` at the end.
    stream: Option<BzDecoder<BufReader<Bytes>>>,
    _reservation: Reservation,
}

impl Read for Bzip2 {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        while let Some(stream) = &mut self.stream {
            let count = stream.read(into)?;
            if count > 0 || into.is_empty() {
                return Ok(count);
            }
            let begin = stream.get_mut().fill_buf()?;
            if begin.first().is_some_and(|byte| *byte != b'B') {
                return Err(invalid("what follows the last compressed stream is not another one"));
            }
            let is_last = begin.is_empty();
            self.stream = self.stream.take().filter(|_| !is_last).map(|ended| BzDecoder::new(ended.into_inner()));
        }
        Ok(0)
    }
}

pub(super) fn unpack_brotli(bytes: Bytes, budget: &MemoryBudget) -> Result<Bytes> {
    let reservation = budget.reserve(BROTLI_BYTES, BROTLI)?;
    let mut decompressor = Decompressor::new(bytes, BUFFER);
    // Windows of up to a gigabyte are an extension.
    decompressor.set_parameter(BrotliDecoderParameter::BROTLI_DECODER_PARAM_LARGE_WINDOW, 0);
    // A window that grows is there twice for a moment.
    decompressor.set_parameter(BrotliDecoderParameter::BROTLI_DECODER_PARAM_DISABLE_RING_BUFFER_REALLOCATION, 1);
    Ok(Box::new(Brotli { decompressor, is_damaged: false, _reservation: reservation }))
}

/// The decompressed bytes of a Brotli file, which is a single stream.
struct Brotli {
    decompressor: Decompressor<Bytes>,
    /// The decoder says so only once.
    is_damaged: bool,
    _reservation: Reservation,
}

impl Read for Brotli {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let count = match self.decompressor.read(into) {
            _ if self.is_damaged => Err(ErrorKind::InvalidData.into()),
            read => read,
        };
        let count = count.map_err(|error| match error.kind() {
            ErrorKind::InvalidData => {
                self.is_damaged = true;
                invalid("it is damaged, or ends too early")
            }
            _ => error,
        })?;
        if count == 0 && !into.is_empty() {
            // Asked again behind the end, the decoder looks into its buffer.
            let is_buffered = self.decompressor.read(into).is_err();
            if is_buffered || self.decompressor.get_mut().read(&mut [0])? > 0 {
                self.is_damaged = true;
                return Err(invalid("there are bytes after the end of the compressed data"));
            }
        }
        Ok(count)
    }
}

/// Snappy's format without frames is a single block, whose bytes refer to all before them: it is decompressed as a
/// whole, to at most `most` bytes, by the first read.
pub(super) fn unpack_snappy(bytes: Bytes, most: u64, budget: &MemoryBudget) -> Result<Bytes> {
    Ok(Box::new(Snappy { packed: bytes, most, whole: None, reservation: budget.reserve(0, SNAPPY)? }))
}

struct Snappy {
    packed: Bytes,
    most: u64,
    whole: Option<Cursor<Vec<u8>>>,
    reservation: Reservation,
}

/// The length of what a block holds comes first.
const LONGEST_LENGTH: u64 = 5;

/// No byte of a block stands for more bytes than this: three bytes copy up to 64.
const SNAPPY_RATIO: usize = 22;

impl Snappy {
    fn reserve(&mut self, bytes: usize) -> io::Result<()> {
        self.reservation.grow_to(bytes as u64, SNAPPY).map_err(io::Error::other)
    }

    fn unpack(&mut self) -> io::Result<Vec<u8>> {
        let mut packed = Vec::new();
        self.packed.by_ref().take(LONGEST_LENGTH).read_to_end(&mut packed)?;
        let len = snap::raw::decompress_len(&packed).map_err(invalid)?;
        if len as u64 > self.most {
            let message =
                format!("it holds {len} bytes once decompressed, more than the {} that are allowed", self.most);
            return Err(io::Error::other(Error::new(crate::error::ErrorKind::Limit, message)));
        }
        // Each byte by itself takes two.
        let most_packed = 2 * len + 2 * LONGEST_LENGTH as usize;
        loop {
            self.reserve(packed.capacity().max(packed.len() + BUFFER))?;
            packed.try_reserve_exact(BUFFER)?;
            if self.packed.by_ref().take(BUFFER as u64).read_to_end(&mut packed)? == 0 {
                break;
            }
            if packed.len() > most_packed {
                return Err(invalid(format!("more bytes than {len} can take")));
            }
        }
        if len / SNAPPY_RATIO > packed.len() {
            return Err(invalid(format!("{} bytes, which can't hold the {len} that they promise", packed.len())));
        }
        self.reserve(packed.capacity() + len)?;
        let mut whole = Vec::new();
        whole.try_reserve_exact(len)?;
        whole.resize(len, 0);
        snap::raw::Decoder::new().decompress(&packed, &mut whole).map_err(invalid)?;
        drop(packed);
        self.reservation.shrink_to(len as u64);
        Ok(whole)
    }
}

impl Read for Snappy {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        if self.whole.is_none() {
            self.whole = Some(Cursor::new(self.unpack()?));
        }
        self.whole.as_mut().map_or(Ok(0), |whole| whole.read(into))
    }
}

fn invalid(message: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> io::Error {
    io::Error::new(ErrorKind::InvalidData, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shard(name: &str) -> Vec<u8> {
        let packing = name.rsplit('-').next().unwrap_or_default();
        let path = format!("{}/fixtures/mds/{name}/shard.00000.mds.{packing}", env!("CARGO_MANIFEST_DIR"));
        std::fs::read(path).unwrap()
    }

    type Unpack = fn(Bytes, &MemoryBudget) -> Result<Bytes>;

    /// With the bytes that are enough, and too few.
    const ALL: [(&str, Unpack, [u64; 2]); 3] = [
        ("zip-bz2", unpack_bzip2, [BZIP2_BYTES, BZIP2_BYTES - 1]),
        ("zip-br", unpack_brotli, [BROTLI_BYTES, BROTLI_BYTES - 1]),
        // The file is read into a buffer, and what it holds lies beside it.
        ("zip-snappy", |bytes, budget| unpack_snappy(bytes, 1 << 20, budget), [BUFFER as u64 + 3000, BUFFER as u64]),
    ];

    fn read(unpack: Unpack, packed: &[u8], budget: &MemoryBudget) -> Result<Vec<u8>> {
        let mut bytes = unpack(Box::new(Cursor::new(packed.to_vec())), budget)?;
        let mut whole = Vec::new();
        bytes.read_to_end(&mut whole)?;
        Ok(whole)
    }

    #[test]
    fn all_stay_within_the_budget_and_give_their_memory_back() {
        for (name, unpack, [enough, too_few]) in ALL {
            let budget = MemoryBudget::new(enough);
            let whole = read(unpack, &shard(name), &budget).unwrap();
            assert_eq!(budget.used(), 0, "{name}");
            // A shard of four records says where each begins, and where the last one ends.
            let end = u32::from_le_bytes(whole[20..24].try_into().unwrap());
            assert!(whole[..4] == [4, 0, 0, 0] && end as usize == whole.len(), "{name}");
            let error = read(unpack, &shard(name), &MemoryBudget::new(too_few)).unwrap_err();
            assert_eq!(error.kind(), crate::ErrorKind::Budget, "{name}: {error}");
        }
    }

    #[test]
    fn what_is_cut_off_or_followed_by_something_is_an_error_and_stays_one() {
        for (name, unpack, _) in ALL {
            let whole = shard(name);
            let behind = [&whole[..], b"rubbish"].concat();
            let cuts = (0..whole.len()).map(|len| &whole[..len]).filter(|cut| name != "zip-bz2" || !cut.is_empty());
            for packed in cuts.chain([&behind[..]]) {
                let mut bytes = unpack(Box::new(Cursor::new(packed.to_vec())), &MemoryBudget::unlimited()).unwrap();
                let mut sink = Vec::new();
                let error = bytes.read_to_end(&mut sink).unwrap_err();
                let is_known = matches!(error.kind(), ErrorKind::InvalidData | ErrorKind::UnexpectedEof);
                assert!(is_known, "{name}, {} bytes: {error}", packed.len());
                assert!(bytes.read_to_end(&mut sink).is_err(), "{name}, {} bytes", packed.len());
            }
        }
    }

    #[test]
    fn a_block_of_snappy_is_refused_by_its_length() {
        let unlimited = &MemoryBudget::unlimited();
        let packed = snap::raw::Encoder::new().compress_vec(&vec![7; 1 << 20]).unwrap();
        let most = |most, packed: &[u8]| {
            let mut bytes = unpack_snappy(Box::new(Cursor::new(packed.to_vec())), most, unlimited).unwrap();
            bytes.read_to_end(&mut Vec::new())
        };
        assert_eq!(most(1 << 20, &packed).unwrap(), 1 << 20);
        let error = Error::from(most((1 << 20) - 1, &packed).unwrap_err());
        assert_eq!(error.kind(), crate::ErrorKind::Limit, "{error}");
        // Four gigabytes in a few bytes, and a few bytes in many.
        let error = most(u64::MAX, b"\xff\xff\xff\xff\x0f\xfe\0\0").unwrap_err();
        assert!(error.to_string().contains("can't hold"), "{error}");
        let error = most(u64::MAX, &[&[1, 0, 0][..], &[0; 1000]].concat()).unwrap_err();
        assert!(error.to_string().contains("more bytes than 1 can take"), "{error}");
    }
}
