//! Files compressed by Zstandard. A frame says how much memory its decompression takes; this is reserved from the
//! budget first.

use std::io::{BufRead, BufReader, Error, ErrorKind, Read};

use zstd::stream::raw::{DParameter, Decoder, InBuffer, Operation, OutBuffer};

use crate::error::Result;
use crate::memory::{MemoryBudget, Reservation};

use super::gzip::Bytes;

/// The largest window, as a power of two: what `zstd` itself allows by default. A file may take this much memory while
/// it is decompressed.
const MAX_WINDOW_LOG: u32 = 27;

/// Memory that the decoder needs in addition to the window: its tables, and two blocks.
const BESIDE_WINDOW: u64 = 512 << 10;

const MAGIC: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];

/// The magic number and the next byte, which tells the length of the header.
const BEGIN: usize = 5;

pub(super) fn unpack_zstd(bytes: Bytes, budget: &MemoryBudget) -> Result<Bytes> {
    let mut decoder = Decoder::new()?;
    decoder.set_parameter(DParameter::WindowLogMax(MAX_WINDOW_LOG))?;
    Ok(Box::new(Zstd {
        bytes: BufReader::with_capacity(256 << 10, bytes),
        decoder,
        begin: Vec::with_capacity(32),
        given: 0,
        is_within: false,
        reservation: budget.reserve(0, WINDOW)?,
    }))
}

const WINDOW: &str = "the window of a Zstandard file";

/// The decompressed bytes of all frames.
struct Zstd {
    bytes: BufReader<Bytes>,
    decoder: Decoder<'static>,
    /// The beginning of the frame, and how much of it was given to the decoder.
    begin: Vec<u8>,
    given: usize,
    /// Whether a frame has begun and has not ended.
    is_within: bool,
    reservation: Reservation,
}

impl Zstd {
    /// Reads up to `len` bytes of the beginning of a frame; fewer at the end of the file.
    fn read_begin(&mut self, len: usize) -> std::io::Result<()> {
        while self.begin.len() < len {
            let found = self.bytes.fill_buf()?;
            let some = found.len().min(len - self.begin.len());
            if some == 0 {
                break;
            }
            self.begin.extend_from_slice(&found[..some]);
            self.bytes.consume(some);
        }
        Ok(())
    }

    /// Begins the next frame; `false` at the end of the file.
    fn begin(&mut self) -> std::io::Result<bool> {
        self.begin.clear();
        self.given = 0;
        self.read_begin(BEGIN)?;
        if self.begin.len() == BEGIN && self.begin[..4] == MAGIC {
            self.read_begin(header_len(self.begin[4]))?;
        }
        if let Some(window) = window_of(&self.begin) {
            let bytes = window.min(1 << MAX_WINDOW_LOG) + BESIDE_WINDOW;
            self.reservation.grow_to(bytes, WINDOW).map_err(Error::other)?;
        }
        self.is_within = !self.begin.is_empty();
        Ok(self.is_within)
    }

    /// Gives the decoder some bytes; returns how many decompressed bytes it wrote, and whether there was no more input.
    fn step(&mut self, into: &mut [u8]) -> std::io::Result<(usize, bool)> {
        let mut output = OutBuffer::around(into);
        let is_begin = self.given < self.begin.len();
        let bytes = if is_begin { &self.begin[self.given..] } else { self.bytes.fill_buf()? };
        let is_end = bytes.is_empty();
        let mut input = InBuffer::around(bytes);
        let left = self.decoder.run(&mut input, &mut output).map_err(corrupt)?;
        let taken = input.pos();
        if is_begin {
            self.given += taken;
        } else {
            self.bytes.consume(taken);
        }
        self.is_within = left > 0;
        Ok((output.pos(), is_end))
    }
}

impl Read for Zstd {
    fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
        while !into.is_empty() && (self.is_within || self.begin()?) {
            let (written, is_end) = self.step(into)?;
            if written > 0 {
                return Ok(written);
            }
            if is_end && self.is_within {
                return Err(Error::new(ErrorKind::UnexpectedEof, "incomplete frame"));
            }
        }
        Ok(0)
    }
}

/// The decoder's error about the data. Errors of reading have another kind, or are ours.
fn corrupt(error: Error) -> Error {
    match error.kind() {
        ErrorKind::Other => Error::new(ErrorKind::InvalidData, error),
        _ => error,
    }
}

/// Length of a frame's header, by the byte after its magic number (RFC 8878, 3.1.1.1).
fn header_len(descriptor: u8) -> usize {
    let window = usize::from(!is_single(descriptor));
    let dictionary = [0, 1, 2, 4][usize::from(descriptor & 3)];
    BEGIN + window + dictionary + size_len(descriptor)
}

/// Whether the whole frame is one window.
fn is_single(descriptor: u8) -> bool {
    descriptor & 0x20 != 0
}

/// Bytes of the field with the length of the frame's content.
fn size_len(descriptor: u8) -> usize {
    match descriptor >> 6 {
        0 => usize::from(is_single(descriptor)),
        power => 1 << power,
    }
}

/// Bytes of a frame's window; `None` for a frame that readers skip, or whose header is not complete.
fn window_of(begin: &[u8]) -> Option<u64> {
    let descriptor = *begin.get(4).filter(|_| begin.starts_with(&MAGIC))?;
    if !is_single(descriptor) {
        let window = begin.get(BEGIN)?;
        let base = 1u64 << (10 + (window >> 3));
        return Some(base + base / 8 * u64::from(window & 7));
    }
    let len = size_len(descriptor);
    let mut size = [0; 8];
    size[..len].copy_from_slice(begin.get(header_len(descriptor) - len..header_len(descriptor))?);
    // Two bytes count from where one byte ends.
    Some(u64::from_le_bytes(size).saturating_add(if len == 2 { 256 } else { 0 }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Error as OurError;

    fn unpacked(packed: &[u8], budget: &MemoryBudget) -> std::io::Result<Vec<u8>> {
        // Bytes come in small pieces, so that headers are split.
        struct Pieces(std::io::Cursor<Vec<u8>>);
        impl Read for Pieces {
            fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
                let len = into.len().min(3);
                self.0.read(&mut into[..len])
            }
        }
        let mut all = Vec::new();
        let pieces = Box::new(Pieces(std::io::Cursor::new(packed.to_vec())));
        unpack_zstd(pieces, budget).unwrap().read_to_end(&mut all).map(|_| all)
    }

    fn packed(bytes: &[u8], window_log: u32, is_sized: bool) -> Vec<u8> {
        let mut encoder = zstd::stream::write::Encoder::new(Vec::new(), 1).unwrap();
        encoder.window_log(window_log).unwrap();
        encoder.include_contentsize(is_sized).unwrap();
        if is_sized {
            encoder.set_pledged_src_size(Some(bytes.len() as u64)).unwrap();
        }
        std::io::Write::write_all(&mut encoder, bytes).unwrap();
        encoder.finish().unwrap()
    }

    #[test]
    fn all_frames_are_unpacked_whatever_their_headers_look_like() {
        let text: Vec<u8> = (0..200_000u32).flat_map(|at| (at / 7).to_le_bytes()).collect();
        let skipped = [&[0x50, 0x2a, 0x4d, 0x18, 5, 0, 0, 0][..], b"index"].concat();
        let (mut all, mut expected) = (Vec::new(), Vec::<u8>::new());
        for len in [0, 1, 100, 255, 256, 300, 65_791, 65_792, 70_000, text.len()] {
            for is_sized in [false, true] {
                all.extend(packed(&text[..len], 17, is_sized));
                all.extend(&skipped);
                expected.extend(&text[..len]);
            }
        }
        assert!(unpacked(&all, &MemoryBudget::unlimited()).unwrap() == expected);
        assert_eq!(
            unpacked(&all[..all.len() - 1], &MemoryBudget::unlimited()).unwrap_err().kind(),
            ErrorKind::UnexpectedEof
        );
    }

    #[test]
    fn the_window_is_taken_from_the_budget_and_given_back() {
        for (window_log, is_sized) in [(17, false), (22, false), (22, true)] {
            let bytes = vec![7; 5 << 20];
            let frame = packed(&bytes, window_log, is_sized);
            let need = (1 << window_log) + BESIDE_WINDOW;
            let budget = MemoryBudget::new(need);
            assert!(unpacked(&frame, &budget).unwrap() == bytes);
            assert_eq!(budget.used(), 0);
            let error = unpacked(&frame, &MemoryBudget::new(need - 1)).unwrap_err();
            let error = error.downcast::<OurError>().unwrap();
            assert!(error.kind() == crate::ErrorKind::Budget && error.message().contains(WINDOW), "{error}");
        }
    }

    #[test]
    fn a_window_that_no_reader_gives_is_refused() {
        // 2^41 bytes, with nothing after the header.
        let header = [&MAGIC[..], &[0, 31 << 3]].concat();
        let error = unpacked(&[&header[..], &[0; 20]].concat(), &MemoryBudget::unlimited()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidData, "{error}");
    }
}
