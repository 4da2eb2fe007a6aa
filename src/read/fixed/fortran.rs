//! Arrays in Fortran order, brought into C order when they are opened.
//!
//! In this order, the elements of a row are as far apart as a column is long. Blocks of rows are assembled from parts
//! of columns, with one read for each part. If these parts would be short, because there are few rows or many columns,
//! the array is first copied in bands of columns. Within a band, rows are contiguous, so a part is as wide as a band.

use std::io::Read;

use crate::error::Result;
use crate::memory::MemoryBudget;
use crate::storage::{Input, Spool};

use super::{ArrayHeader, Origin};

/// Bytes of what is reordered at a time.
const BLOCK_BYTES: usize = 16 << 20;

/// Columns are not read in parts that are shorter than this: for a local file, and for one in a storage.
const SHORT_BYTES: usize = 4 << 10;
const SHORT_BYTES_FAR: usize = 1 << 20;

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
    header.sizes()?;
    let held = reordered(&input, &header, spool, BLOCK_BYTES)?;
    let origin = match header.origin {
        Origin::File => Origin::Fortran { start: header.start, shape: header.shape.clone() },
        other => other,
    };
    Ok((held, ArrayHeader { start: 0, is_fortran: false, origin, ..header }))
}

/// The array in C order, made in blocks of so many bytes.
fn reordered(input: &Input, header: &ArrayHeader, spool: &Spool, block_bytes: usize) -> Result<Input> {
    let short = if input.is_slow() { SHORT_BYTES_FAR } else { SHORT_BYTES };
    let part = rows_in(block_bytes, header) * header.stored.kind.bytes();
    let band = columns_in(block_bytes, header);
    if input.slice().is_some() || part >= short.min(block_bytes) || band == 1 {
        return Input::spool(input.path(), Blocks::of(rows(input, header, 1, block_bytes)), spool);
    }
    // What is kept of it in memory is no more than a block.
    let small = Spool { budget: MemoryBudget::unlimited(), memory_bytes: block_bytes as u64, ..spool.clone() };
    let banded = Input::spool(input.path(), Blocks::of(bands(input, header, band)), &small)?;
    let header = ArrayHeader { start: 0, ..header.clone() };
    Input::spool(input.path(), Blocks::of(rows(&banded, &header, band, block_bytes)), spool)
}

/// How many rows a block holds.
fn rows_in(block_bytes: usize, header: &ArrayHeader) -> usize {
    let rows = (block_bytes / row_bytes(header)).max(1);
    usize::try_from(header.records).map_or(rows, |records| rows.min(records))
}

/// How many columns a block holds.
fn columns_in(block_bytes: usize, header: &ArrayHeader) -> usize {
    let size = header.stored.kind.bytes();
    let columns = block_bytes as u64 / header.records.saturating_mul(size as u64).max(1);
    usize::try_from(columns).unwrap_or(usize::MAX).clamp(1, row_bytes(header) / size)
}

fn row_bytes(header: &ArrayHeader) -> usize {
    header.shape.iter().product::<usize>() * header.stored.kind.bytes()
}

/// The rows in C order, block by block, of an array that is stored in bands of so many columns; a single band is
/// Fortran order.
fn rows<'a>(
    input: &'a Input,
    header: &'a ArrayHeader,
    band: usize,
    block_bytes: usize,
) -> impl FnMut(&mut Vec<u8>) -> Result<()> + 'a {
    let ArrayHeader { stored, records, shape, start, .. } = header;
    let (size, row_bytes, most) = (stored.kind.bytes(), row_bytes(header), rows_in(block_bytes, header));
    let columns = row_bytes / size;
    let (mut next, mut part, mut places) = (0u64, Vec::new(), Vec::new());
    move |block| {
        let rows = (records - next).min(most as u64);
        block.resize(rows as usize * row_bytes, 0);
        if rows == 0 {
            return Ok(());
        }
        for first in (0..columns).step_by(band) {
            let width = band.min(columns - first);
            let before = first as u64 * records + next * width as u64;
            part.resize(rows as usize * width * size, 0);
            input.read_at(start + before * size as u64, &mut part)?;
            places.clear();
            places.extend((first..first + width).map(|column| in_row(column, shape) * size));
            for (row, elements) in block.chunks_exact_mut(row_bytes).zip(part.chunks_exact(width * size)) {
                if shape.len() < 2 {
                    row[places[0]..places[0] + elements.len()].copy_from_slice(elements);
                    continue;
                }
                let elements = places.iter().zip(elements.chunks_exact(size));
                elements.for_each(|(place, element)| row[*place..place + size].copy_from_slice(element));
            }
        }
        next += rows;
        Ok(())
    }
}

/// Bands of so many columns of an array in Fortran order, one after another. Within a band, rows are contiguous.
fn bands<'a>(input: &'a Input, header: &'a ArrayHeader, band: usize) -> impl FnMut(&mut Vec<u8>) -> Result<()> + 'a {
    let size = header.stored.kind.bytes();
    // A band is no longer than a block, so its rows can be counted.
    let (columns, rows) = (row_bytes(header) / size, header.records as usize);
    let (mut first, mut read) = (0, Vec::new());
    move |block| {
        let width = band.min(columns - first);
        block.resize(width * rows * size, 0);
        read.resize(block.len(), 0);
        if read.is_empty() {
            return Ok(());
        }
        input.read_at(header.start + (first * rows * size) as u64, &mut read)?;
        for (nth, column) in read.chunks_exact(rows * size).enumerate() {
            let places = block.chunks_exact_mut(width * size).map(|row| &mut row[nth * size..(nth + 1) * size]);
            places.zip(column.chunks_exact(size)).for_each(|(place, element)| place.copy_from_slice(element));
        }
        first += width;
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

/// Bytes that are made block by block; the block after the last one is empty.
struct Blocks<F> {
    next: F,
    block: Vec<u8>,
    /// How many bytes of the block were read.
    given: usize,
}

impl<F: FnMut(&mut Vec<u8>) -> Result<()>> Blocks<F> {
    fn of(next: F) -> Self {
        Self { next, block: Vec::new(), given: 0 }
    }
}

impl<F: FnMut(&mut Vec<u8>) -> Result<()>> Read for Blocks<F> {
    fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
        if self.given == self.block.len() {
            (self.next)(&mut self.block).map_err(std::io::Error::other)?;
            self.given = 0;
        }
        let count = into.len().min(self.block.len() - self.given);
        into[..count].copy_from_slice(&self.block[self.given..self.given + count]);
        self.given += count;
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use super::super::origin::out_of_row;
    use super::super::{Endian, Stored, StoredType};
    use super::*;
    use crate::storage::Access;

    #[test]
    fn arrays_of_any_form_are_in_the_same_order_whatever_fits_a_block() {
        let file = tempfile::NamedTempFile::new().unwrap();
        for (records, shape, kind) in [
            (1, vec![1000], StoredType::F32),
            (1000, vec![], StoredType::U16),
            (0, vec![3], StoredType::U8),
            (3, vec![500], StoredType::F32),
            (500, vec![3], StoredType::F64),
            (7, vec![5, 11], StoredType::I16),
            (40, vec![2, 3, 4], StoredType::U8),
            (2, vec![3, 50, 7], StoredType::I64),
        ] {
            let stored = Stored { kind, endian: Endian::Little };
            let origin = Origin::default();
            let header = ArrayHeader { stored, records, shape: shape.clone(), start: 10, is_fortran: true, origin };
            let (size, columns) = (kind.bytes(), shape.iter().product::<usize>());
            let bytes: Vec<u8> = (0..records as usize * columns * size).map(|at| (at * 7 + at / 251) as u8).collect();
            std::fs::write(file.path(), [&[0; 10], &bytes[..]].concat()).unwrap();
            let mut wanted = vec![0; bytes.len()];
            for (nth, element) in bytes.chunks_exact(size).enumerate() {
                let (row, column) = (nth % records as usize, nth / records as usize);
                let place = (row * columns + in_row(column, &shape)) * size;
                assert_eq!(out_of_row(in_row(column, &shape), &shape), column);
                wanted[place..place + size].copy_from_slice(element);
            }
            for block_bytes in [1, 16, 100, 256, 1000, 5000, BLOCK_BYTES] {
                let input = Input::open(file.path(), Access::Read, None).unwrap();
                let ordered = reordered(&input, &header, &Spool::default(), block_bytes).unwrap();
                let mut found = vec![0; ordered.len() as usize];
                ordered.read_at(0, &mut found).unwrap();
                assert!(found == wanted, "{records} of {shape:?} in blocks of {block_bytes}");
            }
        }
    }

    #[test]
    fn few_long_rows_take_few_reads() {
        let stored = Stored { kind: StoredType::F32, endian: Endian::Little };
        let header = ArrayHeader {
            stored,
            records: 100,
            shape: vec![2_000_000],
            start: 0,
            is_fortran: true,
            origin: Origin::File,
        };
        let band = columns_in(BLOCK_BYTES, &header);
        let (bands, blocks) = (2_000_000_usize.div_ceil(band), 100_usize.div_ceil(rows_in(BLOCK_BYTES, &header)));
        assert!(bands + blocks * bands < 3000, "{bands} bands, {blocks} blocks");
    }
}
