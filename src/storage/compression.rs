//! Files compressed by bzip2, Brotli and Snappy.

use std::io::{self, BufReader, Cursor, ErrorKind, Read};

use brotli_decompressor::{BrotliDecoderParameter, Decompressor};
use bzip2::bufread::MultiBzDecoder;

use crate::error::Result;
use crate::memory::{MemoryBudget, Reservation};

use super::gzip::Bytes;

const BUFFER: usize = 256 << 10;

/// What a decoder of bzip2 holds: a block of at most 900,000 symbols, 4 bytes for each, and tables.
const BZIP2_BYTES: u64 = 4 << 20;

/// The largest window of Brotli's format, and what is read ahead of it.
const BROTLI_BYTES: u64 = 18 << 20;

/// A file of bzip2 may hold several streams: parallel programs write one for each part.
pub(super) fn unpack_bzip2(bytes: Bytes, budget: &MemoryBudget) -> Result<Bytes> {
    let reservation = budget.reserve(BZIP2_BYTES, "decompressing bzip2")?;
    let bytes = MultiBzDecoder::new(BufReader::with_capacity(BUFFER, bytes));
    Ok(Box::new(Reserved { bytes, _reservation: reservation }))
}

pub(super) fn unpack_brotli(bytes: Bytes, budget: &MemoryBudget) -> Result<Bytes> {
    let reservation = budget.reserve(BROTLI_BYTES, "the window of a Brotli file")?;
    let mut decompressor = Decompressor::new(bytes, BUFFER);
    // Windows of up to a gigabyte are an extension.
    decompressor.set_parameter(BrotliDecoderParameter::BROTLI_DECODER_PARAM_LARGE_WINDOW, 0);
    Ok(Box::new(Reserved { bytes: Brotli(decompressor), _reservation: reservation }))
}

/// What gives bytes, with the memory that it takes.
struct Reserved<R> {
    bytes: R,
    _reservation: Reservation,
}

impl<R: Read> Read for Reserved<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        self.bytes.read(into)
    }
}

/// A single stream of Brotli.
struct Brotli(Decompressor<Bytes>);

impl Read for Brotli {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        // The decoder says no more of it.
        let damaged = |error: io::Error| match error.kind() {
            ErrorKind::InvalidData => invalid("it is damaged, or ends too early"),
            _ => error,
        };
        let count = self.0.read(into).map_err(damaged)?;
        if count == 0 && !into.is_empty() {
            // Asked again behind the end, it looks into its buffer.
            let is_buffered = self.0.read(into).is_err();
            if is_buffered || self.0.get_mut().read(&mut [0])? > 0 {
                return Err(invalid("there are bytes after the end of the compressed data"));
            }
        }
        Ok(count)
    }
}

/// No byte of a block of Snappy stands for more bytes than this: three bytes copy up to 64.
const SNAPPY_RATIO: usize = 22;

/// Snappy's format without frames is a single block, whose bytes refer to all before them: it is decompressed as a
/// whole, by the first read.
pub(super) fn unpack_snappy(bytes: Bytes, budget: &MemoryBudget) -> Result<Bytes> {
    Ok(Box::new(Snappy { packed: Some(bytes), whole: Cursor::default(), reserved: budget.reserve(0, SNAPPY)? }))
}

const SNAPPY: &str = "a Snappy-compressed file and what it holds";

struct Snappy {
    packed: Option<Bytes>,
    whole: Cursor<Vec<u8>>,
    reserved: Reservation,
}

impl Snappy {
    fn reserve(&mut self, bytes: usize) -> io::Result<()> {
        self.reserved.grow_to(bytes as u64, SNAPPY).map_err(io::Error::other)
    }

    fn unpack(&mut self, mut bytes: Bytes) -> io::Result<()> {
        let mut packed = Vec::new();
        while bytes.by_ref().take(BUFFER as u64).read_to_end(&mut packed)? > 0 {
            self.reserve(packed.capacity())?;
        }
        let len = snap::raw::decompress_len(&packed).map_err(invalid)?;
        if len / SNAPPY_RATIO > packed.len() {
            return Err(invalid(format!("{} bytes, which can't hold the {len} that they promise", packed.len())));
        }
        self.reserve(packed.capacity() + len)?;
        let mut whole = vec![0; len];
        snap::raw::Decoder::new().decompress(&packed, &mut whole).map_err(invalid)?;
        drop(packed);
        self.reserved.shrink_to(len as u64);
        self.whole = Cursor::new(whole);
        Ok(())
    }
}

impl Read for Snappy {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        if let Some(bytes) = self.packed.take() {
            self.unpack(bytes)?;
        }
        self.whole.read(into)
    }
}

fn invalid(message: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> io::Error {
    io::Error::new(ErrorKind::InvalidData, message)
}
