//! From marker to marker and from restart interval to restart interval, by libjpeg's rules for files with faults.

use memchr::{memchr, memchr_iter};

use super::super::damage::{be16, damaged, truncated};
use super::super::decoder::held;
use crate::counters::{Damage, Damages};
use crate::error::Result;

/// Zeros after an interval's data, so that eight bytes can be read anywhere before its end.
const PADDING: usize = 16;

/// Number of bytes that libjpeg reads ahead of the bits that it takes.
const AHEAD: usize = 8;

/// A file, read from front to back.
pub(super) struct Input<'a> {
    pub(super) bytes: &'a [u8],
    /// The next byte to read.
    pub(super) at: usize,
    /// A marker that was read but must be processed again: the next interval finds it instead of data.
    unread: Option<u8>,
}

impl<'a> Input<'a> {
    /// Begins after the start-of-image marker.
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 2, unread: None }
    }

    /// The next marker; none at the end of the file. Bytes before it are skipped.
    pub(super) fn marker(&mut self, damages: &mut Damages) -> Option<u8> {
        if let Some(marker) = self.unread.take() {
            return Some(marker);
        }
        let mut passed = false;
        loop {
            let gap = memchr(0xff, self.bytes.get(self.at..)?)?;
            self.at += gap;
            while self.bytes.get(self.at) == Some(&0xff) {
                self.at += 1;
            }
            let marker = *self.bytes.get(self.at)?;
            self.at += 1;
            passed |= gap > 0 || marker == 0;
            if marker != 0 {
                if passed {
                    damages.add(Damage::StrayBytes);
                }
                return Some(marker);
            }
        }
    }

    /// The segment of a marker that was just read.
    pub(super) fn segment(&mut self) -> Result<&'a [u8]> {
        let Some(len) = be16(self.bytes, self.at) else { return Err(truncated(self.bytes, "the length of a segment")) };
        if len < 2 {
            let message = format!("a segment of {len} bytes; its length counts itself, so 2 is the least");
            return Err(damaged(self.at, message));
        }
        let segment = self.bytes.get(self.at + 2..self.at + len);
        self.at += len;
        segment.ok_or_else(|| truncated(self.bytes, "the end of a segment"))
    }

    /// Number of bytes up to the next marker of an interval; 0 if a marker is waiting.
    fn until_marker(&self) -> usize {
        let rest = self.bytes.get(self.at..).filter(|_| self.unread.is_none()).unwrap_or_default();
        let is_marker = |at: &usize| !matches!(rest.get(at + 1), Some(0 | 0xff));
        memchr_iter(0xff, rest).find(is_marker).unwrap_or(rest.len())
    }

    /// Whether the file ends inside of the next segment.
    pub(super) fn is_cut_off(&self) -> bool {
        be16(self.bytes, self.at).is_none_or(|len| self.at + len > self.bytes.len())
    }

    /// The segment of a marker that does not affect pixels: its length may be too small for a segment.
    pub(super) fn note(&mut self, damages: &mut Damages) -> Result<&'a [u8]> {
        if matches!(be16(self.bytes, self.at), Some(0 | 1)) {
            damages.add(Damage::StrayBytes);
            self.at += 2;
            return Ok(&[]);
        }
        self.segment()
    }
}

/// The entropy-coded data of a restart interval in one piece, without the bytes of markers and stuffing.
#[derive(Default)]
pub(super) struct Interval {
    data: Vec<u8>,
    end: usize,
    /// Whether the file ends with it.
    is_last: bool,
}

impl Interval {
    /// Takes the data up to the next marker, which becomes the next one to read; takes none if a marker is waiting
    /// already.
    pub(super) fn read(&mut self, input: &mut Input<'_>) {
        self.data.clear();
        let most = input.until_marker() + PADDING;
        if self.data.capacity() < most {
            // The old memory is freed first, and the new one is no longer than necessary.
            self.data = Vec::new();
            self.data.reserve_exact(most);
        }
        self.is_last = false;
        while input.unread.is_none() {
            let rest = input.bytes.get(input.at..).unwrap_or_default();
            let Some(len) = memchr(0xff, rest) else {
                self.data.extend_from_slice(rest);
                (self.is_last, input.at) = (true, input.bytes.len());
                break;
            };
            self.data.extend_from_slice(&rest[..len]);
            let mut behind = len;
            while rest.get(behind) == Some(&0xff) {
                behind += 1;
            }
            match rest.get(behind) {
                Some(0) => self.data.push(0xff),
                Some(marker) => input.unread = Some(*marker),
                None => self.is_last = true,
            }
            input.at = (input.at + behind + 1).min(input.bytes.len());
            if self.is_last {
                break;
            }
        }
        self.end = self.data.len();
        self.data.resize(self.end + PADDING, 0);
    }

    /// The data, and zeros after it.
    pub(super) fn data(&self) -> &[u8] {
        &self.data
    }

    /// Bytes of memory.
    pub(super) fn held(&self) -> u64 {
        held(&self.data)
    }

    /// Number of bytes of data.
    pub(super) fn end(&self) -> usize {
        self.end
    }

    /// Records data that was not consumed. libjpeg reads ahead, so it does not report a few bytes at the end of a scan.
    ///
    /// # Errors
    ///
    /// If the file ends with this interval and more is missing than its end-of-image marker.
    pub(super) fn leave(
        &self,
        consumed_bits: usize,
        is_end_of_scan: bool,
        input: &Input<'_>,
        damages: &mut Damages,
    ) -> Result<()> {
        let left = self.end.saturating_sub(consumed_bits.div_ceil(8));
        if self.is_last && left == 0 {
            return Err(truncated(input.bytes, "the end-of-image marker; only a part of the picture would be there"));
        }
        if left > 0 && (!is_end_of_scan || left > AHEAD) {
            damages.add(Damage::SurplusData);
        }
        Ok(())
    }

    /// Whether the file ends with this interval.
    pub(super) fn is_last(&self) -> bool {
        self.is_last
    }
}

/// Continues after the restart marker `expected` (0 to 7), or, at another marker, does what libjpeg does. One of the
/// two next markers is left for its own interval, so that this interval is empty. One of the two previous markers is
/// skipped, and so is anything that is not a marker. A restart marker further away is taken for the expected one. Any
/// other marker waits for the end of the scan.
///
/// # Errors
///
/// If the file ends before a marker.
pub(super) fn restart(input: &mut Input<'_>, expected: u8, damages: &mut Damages) -> Result<bool> {
    let end = |input: &Input<'_>| truncated(input.bytes, "a restart marker");
    let mut marker = input.marker(damages).ok_or_else(|| end(input))?;
    if marker == 0xd0 + expected {
        return Ok(true);
    }
    damages.add(Damage::RestartMarker);
    loop {
        let ahead = if (0xd0..=0xd7).contains(&marker) { marker.wrapping_sub(0xd0 + expected) & 7 } else { 8 };
        match (marker, ahead) {
            (..0xc0, _) | (_, 6 | 7) => marker = input.marker(damages).ok_or_else(|| end(input))?,
            (_, 1 | 2 | 8) => {
                input.unread = Some(marker);
                return Ok(false);
            }
            _ => return Ok(true),
        }
    }
}
