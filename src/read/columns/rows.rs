//! Numbers of several columns, stored record by record.
//!
//! Reading a record at random from columns costs a cache line for each of its numbers. If the numbers are stored
//! together, it costs a few.

use arrow_buffer::{ArrowNativeType, Buffer, ScalarBuffer};

use super::cells::{Cells, Plain, Whole};

/// Number of records that are copied at a time, so that what is written stays in the processor's nearest cache.
const RECORDS: usize = 64;

/// The same cells of neighbouring records, one for each field. Numbers of the same width are stored together, record by
/// record; all other cells are shared.
pub(super) fn by_record(fields: &[&Cells]) -> Vec<Cells> {
    let mut laid_out: Vec<Cells> = fields.iter().map(|cells| (*cells).clone()).collect();
    for width in [1, 2, 4, 8] {
        let numbers = fields.iter().enumerate().filter_map(|(nth, cells)| Some((nth, cells.whole_numbers()?)));
        let columns: Vec<(usize, &Plain)> = numbers.filter(|(_, numbers)| numbers.width() == width).collect();
        let len = fields.first().map_or(0, |cells| cells.len());
        if columns.len() < 2 {
            continue;
        }
        let buffers: Vec<&Buffer> = columns.iter().map(|(_, numbers)| numbers.buffer()).collect();
        let together = match width {
            1 => interleaved::<u8>(&buffers, len),
            2 => interleaved::<u16>(&buffers, len),
            4 => interleaved::<u32>(&buffers, len),
            _ => interleaved::<u64>(&buffers, len),
        };
        let step = columns.len();
        for (first, (nth, numbers)) in columns.into_iter().enumerate() {
            laid_out[nth] = Cells::stepped(numbers.over(&together), first, step, len);
        }
    }
    laid_out
}

fn interleaved<T: ArrowNativeType>(columns: &[&Buffer], len: usize) -> Buffer {
    let step = columns.len();
    let columns: Vec<&[T]> = columns.iter().map(|column| &column.typed_data::<T>()[..len]).collect();
    let mut together = vec![T::default(); len * step];
    for (nth, records) in together.chunks_mut(RECORDS * step).enumerate() {
        let begin = nth * RECORDS;
        for (at, column) in columns.iter().enumerate() {
            let places = records[at..].iter_mut().step_by(step);
            places.zip(&column[begin..]).for_each(|(place, number)| *place = *number);
        }
    }
    Buffer::from_vec(together)
}

impl Plain {
    /// Bytes of a number.
    fn width(&self) -> usize {
        match self {
            Self::Whole(Whole::U8(_) | Whole::I8(_)) => 1,
            Self::Whole(Whole::U16(_) | Whole::I16(_)) | Self::F16(_) => 2,
            Self::Whole(Whole::U32(_) | Whole::I32(_)) | Self::F32(_) | Self::Days(_) => 4,
            Self::Whole(Whole::I64(_)) | Self::F64(_) | Self::Times(..) => 8,
        }
    }

    fn buffer(&self) -> &Buffer {
        match self {
            Self::Whole(Whole::U8(numbers)) => numbers.inner(),
            Self::Whole(Whole::I8(numbers)) => numbers.inner(),
            Self::Whole(Whole::U16(numbers)) => numbers.inner(),
            Self::Whole(Whole::I16(numbers)) => numbers.inner(),
            Self::Whole(Whole::U32(numbers)) => numbers.inner(),
            Self::Whole(Whole::I32(numbers)) | Self::Days(numbers) => numbers.inner(),
            Self::Whole(Whole::I64(numbers)) | Self::Times(numbers, _) => numbers.inner(),
            Self::F16(numbers) => numbers.inner(),
            Self::F32(numbers) => numbers.inner(),
            Self::F64(numbers) => numbers.inner(),
        }
    }

    /// Numbers of the same kind.
    fn over(&self, buffer: &Buffer) -> Self {
        fn all<T: ArrowNativeType>(buffer: &Buffer) -> ScalarBuffer<T> {
            buffer.clone().into()
        }
        match self {
            Self::Whole(Whole::U8(_)) => Self::Whole(Whole::U8(all(buffer))),
            Self::Whole(Whole::I8(_)) => Self::Whole(Whole::I8(all(buffer))),
            Self::Whole(Whole::U16(_)) => Self::Whole(Whole::U16(all(buffer))),
            Self::Whole(Whole::I16(_)) => Self::Whole(Whole::I16(all(buffer))),
            Self::Whole(Whole::U32(_)) => Self::Whole(Whole::U32(all(buffer))),
            Self::Whole(Whole::I32(_)) => Self::Whole(Whole::I32(all(buffer))),
            Self::Whole(Whole::I64(_)) => Self::Whole(Whole::I64(all(buffer))),
            Self::Days(_) => Self::Days(all(buffer)),
            Self::Times(_, unit) => Self::Times(all(buffer), *unit),
            Self::F16(_) => Self::F16(all(buffer)),
            Self::F32(_) => Self::F32(all(buffer)),
            Self::F64(_) => Self::F64(all(buffer)),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow_array::{
        ArrayRef, Date32Array, Float32Array, Int8Array, Int32Array, Int64Array, StringArray, UInt8Array,
    };

    use super::*;
    use crate::read::Value;

    #[test]
    fn every_value_is_what_it_was() {
        let len = 3 * RECORDS + 5;
        let count = |at: usize| i32::try_from(at).unwrap();
        let arrays: Vec<ArrayRef> = vec![
            Arc::new(Int32Array::from_iter_values((0..len).map(|at| count(at) * 7 - 100))),
            Arc::new(StringArray::from_iter_values((0..len).map(|at| at.to_string()))),
            Arc::new(Float32Array::from_iter_values((0..len).map(|at| at as f32 / 3.0))),
            Arc::new(Int8Array::from_iter_values((0..len).map(|at| (at % 200) as u8 as i8))),
            Arc::new(Date32Array::from_iter_values((0..len).map(count))),
            Arc::new(UInt8Array::from_iter_values((0..len).map(|at| (at % 250) as u8))),
            Arc::new(Int32Array::from_iter((0..len).map(|at| (at % 9 > 0).then_some(count(at))))),
            Arc::new(Int64Array::from_iter_values((0..len).map(|at| at as i64 - (1 << 40)))),
        ];
        // This also takes parts of longer columns.
        for slice in [0..len, 17..len - 3] {
            let part = |array: &ArrayRef| Cells::new(&array.slice(slice.start, slice.len()), &[], true).unwrap();
            let columns: Vec<Cells> = arrays.iter().map(part).collect();
            let rows = by_record(&columns.iter().collect::<Vec<_>>());
            let steps: Vec<Option<usize>> = rows.iter().map(|cells| cells.plain().map(|(_, step)| step)).collect();
            assert_eq!(steps, [Some(3), None, Some(3), Some(2), Some(3), Some(2), None, Some(1)]);
            let value = |cells: &Cells, at| {
                let mut text = String::new();
                let mut see = |value: Value<'_>| {
                    text = value.describe();
                    Ok(())
                };
                cells.give(at, &mut see).unwrap();
                text
            };
            for (before, after) in columns.iter().zip(&rows) {
                assert_eq!(before.len(), after.len());
                for at in 0..before.len() {
                    assert_eq!(value(before, at), value(after, at));
                }
                if let (Some((before, _)), Some((after, step))) = (before.plain(), after.plain()) {
                    assert!((0..before.len()).all(|at| before.at(at) == after.at(at * step)));
                }
            }
        }
    }
}
