//! Arrays in Fortran order, brought into C order when they are opened.

use std::io::Read;

use crate::error::Result;
use crate::storage::{Input, Spool};

use super::ArrayHeader;

/// Bytes of the rows that are reordered at a time.
const BLOCK_BYTES: usize = 16 << 20;

/// An array whose records lie together: `input` itself, or its content in C order, in memory or, beyond 1 GiB, in a
/// temporary file.
///
/// # Errors
///
/// Those of reading, and [`ErrorKind::Budget`](crate::ErrorKind::Budget).
pub(crate) fn in_c_order(input: Input, header: ArrayHeader, spool: &Spool) -> Result<(Input, ArrayHeader)> {
    if !header.is_fortran {
        return Ok((input, header));
    }
    let (record_bytes, _) = header.sizes()?;
    let ordered = Ordered { input: &input, header: &header, record_bytes, next: 0, block: Vec::new(), given: 0 };
    let path = input.path().to_owned();
    let held = Input::spool(&path, ordered, spool)?;
    Ok((held, ArrayHeader { start: 0, is_fortran: false, ..header }))
}

/// The bytes of the array in C order.
struct Ordered<'a> {
    input: &'a Input,
    header: &'a ArrayHeader,
    record_bytes: usize,
    /// The row after the block.
    next: u64,
    block: Vec<u8>,
    /// How many bytes of the block were read.
    given: usize,
}

impl Ordered<'_> {
    fn fill(&mut self) -> Result<()> {
        let ArrayHeader { stored, records, shape, start, .. } = self.header;
        let size = stored.kind.bytes();
        let rows = (records - self.next).min((BLOCK_BYTES / self.record_bytes).max(1) as u64) as usize;
        self.block.resize(rows * self.record_bytes, 0);
        let mut run = vec![0; rows * size];
        let columns = self.record_bytes / size;
        for column in 0..columns {
            let first = column as u64 * records + self.next;
            self.input.read_at(start + first * size as u64, &mut run)?;
            let at = in_row(column, shape) * size;
            let places = self.block.chunks_exact_mut(self.record_bytes).map(|row| &mut row[at..at + size]);
            places.zip(run.chunks_exact(size)).for_each(|(place, element)| place.copy_from_slice(element));
        }
        self.next += rows as u64;
        self.given = 0;
        Ok(())
    }
}

/// The position in a row, in C order, of the element at this position in Fortran order.
pub(crate) fn in_row(mut column: usize, shape: &[usize]) -> usize {
    // The first dimension changes fastest there, and slowest here.
    let mut place = 0;
    for dim in shape {
        place = place * dim + column % dim;
        column /= dim;
    }
    place
}

impl Read for Ordered<'_> {
    fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
        if self.given == self.block.len() && self.next < self.header.records {
            self.fill().map_err(std::io::Error::other)?;
        }
        let count = into.len().min(self.block.len() - self.given);
        into[..count].copy_from_slice(&self.block[self.given..self.given + count]);
        self.given += count;
        Ok(count)
    }
}
