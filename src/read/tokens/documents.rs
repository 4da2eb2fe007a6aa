use std::ops::Range;

use crate::error::Result;
use crate::memory::{MemoryBudget, Reservation};
use crate::read::parallel::{in_order, thread_count};

use super::file::TokenFile;

/// The position of each window of whole documents: twelve bytes per window.
#[derive(Debug)]
pub(super) struct Windows {
    starts: Vec<u64>,
    /// Number of tokens in each.
    lens: Vec<u32>,
    reservation: Reservation,
}

/// Its name in the budget's errors.
pub(super) const WHAT: &str = "the index of the documents";

/// Number of tokens that are searched at a time.
const PART: u64 = 1 << 20;

/// Gives the end of each document to `visit`, in order: the positions of the token `end`, and last the end of the file.
/// Several threads search.
pub(super) fn each_end(file: &TokenFile, end: u32, mut visit: impl FnMut(u64) -> Result<()>) -> Result<()> {
    let mut last = 0;
    in_order(
        thread_count(None),
        file.tokens.div_ceil(PART),
        |buffer: &mut Vec<u8>, part| {
            let tokens = part * PART..file.tokens.min((part + 1) * PART);
            let bytes = file.bytes(&tokens, buffer)?;
            let mut ends: Vec<u32> = Vec::new();
            file.find(bytes, end, |index| ends.push(index as u32 + 1));
            Ok((tokens.start, ends))
        },
        |(first, ends)| {
            for end in ends {
                last = first + u64::from(end);
                visit(last)?;
            }
            Ok(())
        },
    )?;
    // What follows the last of these tokens has no end.
    if last < file.tokens { visit(file.tokens) } else { Ok(()) }
}

impl Windows {
    /// Finds the documents of `file`, which end with `end`, and puts them into windows of `span` tokens. If a document
    /// is longer, each of its windows begins with the last `overlap` tokens of the window before.
    pub(super) fn find(file: &TokenFile, end: u32, span: u64, overlap: u64, budget: &MemoryBudget) -> Result<Self> {
        let mut packer = Packer::new(span, overlap);
        let mut windows = Self::new(budget)?;
        each_end(file, end, |end| packer.end(end, |window| windows.push(window)))?;
        packer.finish(|window| windows.push(window))?;
        Ok(windows)
    }

    pub(super) fn new(budget: &MemoryBudget) -> Result<Self> {
        Ok(Self { starts: Vec::new(), lens: Vec::new(), reservation: budget.reserve(0, WHAT)? })
    }

    pub(super) fn push(&mut self, window: Range<u64>) -> Result<()> {
        if self.starts.len() == self.starts.capacity() {
            let more = self.starts.len().max(1024);
            // While it grows, there are two lists: the old one and the new one.
            let bytes = (2 * self.starts.len() + more) * (size_of::<u64>() + size_of::<u32>());
            self.reservation.grow_to(bytes as u64, WHAT)?;
            self.starts.reserve_exact(more);
            self.lens.reserve_exact(more);
        }
        self.starts.push(window.start);
        self.lens.push((window.end - window.start) as u32);
        Ok(())
    }

    pub(super) fn len(&self) -> u64 {
        self.starts.len() as u64
    }

    /// The tokens of a window; none after the last one.
    pub(super) fn window(&self, index: u64) -> Range<u64> {
        let index = usize::try_from(index).unwrap_or(usize::MAX);
        let window = self.starts.get(index).zip(self.lens.get(index));
        window.map_or(0..0, |(start, len)| *start..start + u64::from(*len))
    }
}

/// Puts documents into windows, in their order, as they are found.
struct Packer {
    span: u64,
    overlap: u64,
    /// Where the current window begins.
    start: u64,
    /// Where the last document in it ends.
    filled: u64,
}

impl Packer {
    fn new(span: u64, overlap: u64) -> Self {
        Self { span, overlap, start: 0, filled: 0 }
    }

    /// Adds the document that ends at `end`.
    fn end(&mut self, end: u64, mut window: impl FnMut(Range<u64>) -> Result<()>) -> Result<()> {
        if end - self.start > self.span && self.filled > self.start {
            window(self.start..self.filled)?;
            self.start = self.filled;
        }
        // A document longer than a window has its own windows; only in the last of them may others follow.
        while end - self.start > self.span {
            window(self.start..self.start + self.span)?;
            self.start += self.span - self.overlap;
        }
        self.filled = end;
        Ok(())
    }

    /// Gives the last window.
    fn finish(self, mut window: impl FnMut(Range<u64>) -> Result<()>) -> Result<()> {
        if self.filled > self.start { window(self.start..self.filled) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_that_does_not_exist_is_empty() -> Result<()> {
        let mut windows = Windows::new(&MemoryBudget::unlimited())?;
        windows.push(3..8)?;
        assert_eq!([0, 1, u64::MAX].map(|index| windows.window(index)), [3..8, 0..0, 0..0]);
        Ok(())
    }
}
