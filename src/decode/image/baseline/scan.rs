//! Entropy-coded data without what markers put into it.

use memchr::memchr_iter;

use super::{NotOurs, Ours};

/// Zeros behind the data, so that eight bytes can be read anywhere before its end.
const PADDING: usize = 16;

/// The scan's bytes in one piece. In the file, a zero follows each byte 0xff (so that no marker appears inside of the
/// data), and markers stand between restart intervals.
#[derive(Default)]
pub(super) struct Scan {
    bytes: Vec<u8>,
    /// Where each restart interval ends.
    ends: Vec<usize>,
}

impl Scan {
    /// Copies the data of a scan up to the end-of-image marker, which must follow it.
    pub(super) fn unstuff(&mut self, data: &[u8], has_restarts: bool) -> Ours<()> {
        if self.bytes.len() < data.len() + PADDING {
            self.bytes.resize(data.len() + PADDING, 0);
        }
        self.ends.clear();
        // Bytes copied up to here, and where they went.
        let (mut from, mut to) = (0, 0);
        for at in memchr_iter(0xff, data) {
            // The zero or the marker behind the last one found is never 0xff.
            let (piece, skip) = match data.get(at + 1) {
                Some(0) => (&data[from..=at], 2),
                Some(0xd9) => {
                    let piece = &data[from..at];
                    self.bytes[to..to + piece.len()].copy_from_slice(piece);
                    to += piece.len();
                    self.ends.push(to);
                    self.bytes[to..to + PADDING].fill(0);
                    return Ok(());
                }
                Some(marker @ 0xd0..=0xd7) if has_restarts && usize::from(marker & 7) == self.ends.len() % 8 => {
                    self.ends.push(to + at - from);
                    (&data[from..at], 2)
                }
                _ => return Err(NotOurs("a marker inside of the scan, or none at its end")),
            };
            self.bytes[to..to + piece.len()].copy_from_slice(piece);
            to += piece.len();
            from = at + skip;
        }
        Err(NotOurs("no end-of-image marker"))
    }

    pub(super) fn ends(&self) -> &[usize] {
        &self.ends
    }

    /// The data, and at least eight bytes behind it.
    pub(super) fn bytes(&self) -> &[u8] {
        match self.ends.last() {
            Some(end) => &self.bytes[..end + PADDING],
            None => &[],
        }
    }
}

/// Takes bits from the front of the data, up to 56 between two refills.
#[derive(Clone, Copy)]
pub(super) struct Bits<'a> {
    bytes: &'a [u8],
    /// What is not taken in yet.
    rest: &'a [u8],
    /// The next bits, highest first. Behind the valid ones stand bits that will be taken in again.
    window: u64,
    /// How many of them are valid, at most 63, in the low six bits. What stands above means nothing: so that nothing has to
    /// be masked on the way from one symbol to the next.
    valid: u32,
}

impl<'a> Bits<'a> {
    /// The data of a scan from the byte `at` on, with its padding.
    pub(super) fn new(bytes: &'a [u8], at: usize) -> Self {
        Self { bytes, rest: bytes.get(at..).unwrap_or_default(), window: 0, valid: 0 }
    }

    /// The same data from the byte `at` on.
    pub(super) fn at(&self, at: usize) -> Self {
        Self::new(self.bytes, at)
    }

    /// Makes at least 56 bits valid. Behind the data, they are zeros.
    #[inline(always)]
    pub(super) fn refill(&mut self) {
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
    pub(super) fn window(&self) -> u64 {
        self.window
    }

    /// The next `N` bits, not taken yet.
    #[inline(always)]
    pub(super) fn peek<const N: u32>(&self) -> usize {
        (self.window >> (64 - N)) as usize
    }

    /// Takes as many bits as the low six bits of `count` say.
    #[inline(always)]
    pub(super) fn consume(&mut self, count: u32) {
        self.window <<= count & 63;
        self.valid = self.valid.wrapping_sub(count);
    }

    /// Whether the data up to `end` was consumed but for the padding of its last byte.
    pub(super) fn is_at(&self, end: usize) -> bool {
        (8 * end).checked_sub(self.consumed()).is_some_and(|left| left < 8)
    }

    /// Whether more than the data up to `end` was consumed.
    pub(super) fn is_beyond(&self, end: usize) -> bool {
        self.consumed() > 8 * end
    }

    /// Bits taken since the scan began.
    pub(super) fn consumed(&self) -> usize {
        8 * (self.bytes.len() - self.rest.len()) - (self.valid & 63) as usize
    }
}
