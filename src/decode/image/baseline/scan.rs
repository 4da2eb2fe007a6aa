//! Entropy-coded data without the bytes that belong to markers.

use memchr::memchr;

use super::refusal::{NotOurs, Ours};

/// Zeros after the data, so that eight bytes can be read anywhere before its end.
const PADDING: usize = 16;

/// Number of bytes that are checked together.
const PIECE: usize = 32;

/// The scan's bytes in one piece. In the file, each byte 0xff is followed by a zero (so that no marker appears inside
/// the data), and there are markers between restart intervals.
#[derive(Default)]
pub(super) struct Scan {
    bytes: Vec<u8>,
    /// The end of each restart interval.
    ends: Vec<usize>,
}

impl Scan {
    /// Copies the data of a scan up to the end-of-image marker, which must follow it, with restart markers between its
    /// `intervals`.
    pub(super) fn unstuff(&mut self, data: &[u8], intervals: usize) -> Ours<()> {
        if self.bytes.len() < data.len() + PADDING {
            // The old memory is freed first, and the new one is no longer than necessary.
            self.bytes = Vec::new();
            self.bytes = vec![0; data.len() + PADDING];
        }
        self.ends.clear();
        let (mut from, mut to) = (0, 0);
        loop {
            let len = self.copy(&data[from..], to)?;
            (from, to) = (from + len, to + len);
            match data.get(from + 1) {
                Some(0) => {
                    self.bytes[to] = 0xff;
                    to += 1;
                }
                Some(marker @ 0xd0..=0xd7)
                    if self.ends.len() + 1 < intervals && usize::from(marker & 7) == self.ends.len() % 8 =>
                {
                    self.ends.push(to);
                }
                Some(0xd9) if self.ends.len() + 1 == intervals => {
                    self.ends.push(to);
                    self.bytes[to..to + PADDING].fill(0);
                    return Ok(());
                }
                _ => return Err(NotOurs("a marker out of turn, or no end of the image")),
            }
            from += 2;
        }
    }

    /// Copies the bytes before the next byte 0xff to the position `to`, and returns their number.
    fn copy(&mut self, data: &[u8], to: usize) -> Ours<usize> {
        // Whole pieces, also where such a byte is inside: most have none, and the length of a copy is known.
        let into = &mut self.bytes[to..];
        let (pieces, rest) = data.as_chunks::<PIECE>();
        let mut len = 0;
        for (from, into) in pieces.iter().zip(into.as_chunks_mut::<PIECE>().0) {
            *into = *from;
            if from.iter().fold(false, |any, byte| any | (*byte == 0xff)) {
                return memchr(0xff, from).map(|at| len + at).ok_or(NotOurs("no marker"));
            }
            len += PIECE;
        }
        let at = memchr(0xff, rest).ok_or(NotOurs("no end-of-image marker"))?;
        into[len..len + at].copy_from_slice(&rest[..at]);
        Ok(len + at)
    }

    /// Bytes of memory.
    pub(super) fn held(&self) -> u64 {
        (self.bytes.capacity() + self.ends.capacity() * size_of::<usize>()) as u64
    }

    pub(super) fn ends(&self) -> &[usize] {
        &self.ends
    }

    /// The data, and at least eight bytes after it.
    pub(super) fn bytes(&self) -> &[u8] {
        match self.ends.last() {
            Some(end) => &self.bytes[..end + PADDING],
            None => &[],
        }
    }
}

/// Takes bits from the front of the data, up to 56 between two refills.
#[derive(Clone, Copy)]
pub(crate) struct Bits<'a> {
    bytes: &'a [u8],
    /// The bytes that are not in the window yet.
    rest: &'a [u8],
    /// The next bits, highest first. The valid bits are followed by bits that will be read again.
    window: u64,
    /// Number of valid bits, at most 63, in the low six bits. The higher bits have no meaning, so that nothing has to
    /// be masked on the way from one symbol to the next.
    valid: u32,
}

impl<'a> Bits<'a> {
    /// The data of a scan from the byte `at` on, with its padding.
    pub(crate) fn new(bytes: &'a [u8], at: usize) -> Self {
        Self { bytes, rest: bytes.get(at..).unwrap_or_default(), window: 0, valid: 0 }
    }

    /// The same data from the byte `at` on.
    pub(crate) fn at(&self, at: usize) -> Self {
        Self::new(self.bytes, at)
    }

    /// Makes at least 56 bits valid. After the end of the data, they are zeros.
    #[inline(always)]
    pub(crate) fn refill(&mut self) {
        // Without a branch on how many bits are needed: those that are there already are the same again. (Where eight
        // bytes are not left, more was consumed than there is, and that will be seen.)
        if let Some(bytes) = self.rest.first_chunk::<8>() {
            self.window |= u64::from_be_bytes(*bytes) >> (self.valid & 63);
            self.rest = &self.rest[(!self.valid >> 3 & 7) as usize..];
        }
        self.valid |= 56;
    }

    /// The next bits, highest first.
    #[inline(always)]
    pub(crate) fn window(&self) -> u64 {
        self.window
    }

    /// The next `N` bits, without consuming them.
    #[inline(always)]
    pub(crate) fn peek<const N: u32>(&self) -> usize {
        (self.window >> (64 - N)) as usize
    }

    /// Consumes as many bits as the low six bits of `count` say.
    #[inline(always)]
    pub(crate) fn consume(&mut self, count: u32) {
        self.window <<= count & 63;
        self.valid = self.valid.wrapping_sub(count);
    }

    /// Whether the data up to `end` was consumed except for the padding of its last byte.
    pub(crate) fn is_at(&self, end: usize) -> bool {
        (8 * end).checked_sub(self.consumed()).is_some_and(|left| left < 8)
    }

    /// Whether more than the data up to `end` was consumed.
    pub(crate) fn is_beyond(&self, end: usize) -> bool {
        self.consumed() > 8 * end
    }

    /// Bits taken since the scan began.
    pub(crate) fn consumed(&self) -> usize {
        8 * (self.bytes.len() - self.rest.len()) - (self.valid & 63) as usize
    }
}
