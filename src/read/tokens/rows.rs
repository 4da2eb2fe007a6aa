//! Writes samples into rows: tokens, and the tensors that tell documents apart.

use std::ops::Range;

use crate::error::{Error, ErrorKind, Result};
use crate::row::{RowMut, TensorMut};

use super::options::{TokenCut, TokenTargets};
use super::tensors::Part;
use super::{Cut, TokenReader, Worker};

impl TokenReader {
    /// Writes `sample`, the job's `nth`, which was fetched.
    pub(super) fn write(&self, worker: &mut Worker, sample: u64, nth: usize, row: &mut RowMut<'_>) -> Result<()> {
        let Worker { fetched, gathered, ends } = worker;
        let token_bytes = self.file.stored.kind.bytes();
        ends.clear();
        let bytes = match &self.windows {
            Cut::BestFit(bins) => {
                let mut tokens = 0;
                for piece in bins.pieces(sample) {
                    tokens += (piece.end - piece.start) as usize;
                    ends.push(tokens);
                }
                &gathered[nth * self.largest..][..tokens * token_bytes]
            }
            _ => fetched.bytes(&self.file.input, self.largest, sample, nth, |sample| self.bytes_of(sample)),
        };
        self.check(sample, bytes)?;
        let inputs = match self.options.targets {
            TokenTargets::Shifted => &bytes[..bytes.len().min(self.options.window * token_bytes)],
            TokenTargets::Inside | TokenTargets::None => bytes,
        };
        if let Some(place) = self.tensors.place(Part::Inputs) {
            self.put(inputs, row.tensor(place))?;
        }
        if let Some(place) = self.tensors.place(Part::Targets) {
            self.put(&bytes[token_bytes..], row.tensor(place))?;
        }
        if let TokenCut::Documents { end, .. } = self.options.cut {
            if ends.is_empty() {
                let tokens = bytes.len() / token_bytes;
                self.file.find(bytes, end, |index| ends.push(index + 1));
                if ends.last() != Some(&tokens) {
                    ends.push(tokens);
                }
            }
            self.put_documents(ends, row)?;
        }
        Ok(())
    }

    /// Checks that all tokens are in the vocabulary.
    fn check(&self, sample: u64, bytes: &[u8]) -> Result<()> {
        let Some(vocabulary) = self.options.vocabulary else { return Ok(()) };
        let Some((index, token)) = self.file.beyond(bytes, vocabulary) else { return Ok(()) };
        let message = format!("token {token} is beyond the vocabulary of {vocabulary}");
        let byte = self.file.byte(self.token_at(sample, index as u64));
        Err(Error::new(ErrorKind::Data, message).at_byte(byte))
    }

    /// The position in the file of token `index` of a sample.
    fn token_at(&self, sample: u64, mut index: u64) -> u64 {
        if let Cut::BestFit(bins) = &self.windows {
            for piece in bins.pieces(sample) {
                let tokens = piece.end - piece.start;
                if index < tokens {
                    return piece.start + index;
                }
                index -= tokens;
            }
        }
        self.window(sample).start + index
    }

    /// Writes `tokens`, followed by zeros.
    fn put(&self, tokens: &[u8], mut tensor: TensorMut<'_>) -> Result<()> {
        let written = tokens.len() / self.file.stored.kind.bytes() * tensor.dtype().bytes();
        let padding = &mut tensor.bytes_mut()[written..];
        if !padding.is_empty() {
            padding.fill(0);
        }
        self.file.stored.write(tokens, 0, &mut tensor)
    }

    /// Writes segments, positions and mask of the documents that end at `ends`, followed by zeros.
    fn put_documents(&self, ends: &[usize], row: &mut RowMut<'_>) -> Result<()> {
        let documents = || ends.iter().scan(0, |begin, end| Some(std::mem::replace(begin, *end)..*end));
        let padding = ends.last().copied().unwrap_or(0)..usize::MAX;
        if let Some(place) = self.tensors.place(Part::Segments) {
            let mut tensor = row.tensor(place);
            let segments = tensor.as_mut_slice::<i32>()?;
            for (document, nth) in documents().zip(1..) {
                clamped(segments, document).fill(nth);
            }
            clamped(segments, padding.clone()).fill(0);
        }
        if let Some(place) = self.tensors.place(Part::Positions) {
            let mut tensor = row.tensor(place);
            let positions = tensor.as_mut_slice::<i32>()?;
            for document in documents() {
                clamped(positions, document).iter_mut().zip(0..).for_each(|(position, nth)| *position = nth);
            }
            clamped(positions, padding.clone()).fill(0);
        }
        let Some(place) = self.tensors.place(Part::Mask) else { return Ok(()) };
        let mut tensor = row.tensor(place);
        let mask = tensor.as_mut_slice::<u8>()?;
        for document in documents() {
            let unpredicted = match self.options.targets {
                TokenTargets::Shifted => document.end - 1..document.end,
                TokenTargets::Inside => document.start..document.start + 1,
                TokenTargets::None => 0..0,
            };
            clamped(mask, document).fill(1);
            clamped(mask, unpredicted).fill(0);
        }
        clamped(mask, padding).fill(0);
        Ok(())
    }
}

/// The part of `range` that is in `slice`.
fn clamped<T>(slice: &mut [T], range: Range<usize>) -> &mut [T] {
    let end = range.end.min(slice.len());
    &mut slice[range.start.min(end)..end]
}
