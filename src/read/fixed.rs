use crate::decode::write_numbers;
use crate::dtype::{DType, Element};
use crate::error::Result;
use crate::row::TensorMut;

use super::{Input, Scratch};

/// Records of one size and element type, one after another in a file: what fixed-size formats share.
#[derive(Debug)]
pub(crate) struct FixedRecords {
    pub(crate) input: Input,
    /// First byte of the first record.
    pub(crate) start: u64,
    pub(crate) record_bytes: usize,
    pub(crate) dtype: DType,
    pub(crate) big_endian: bool,
}

/// The job's records, one after another in `samples`' order.
#[derive(Default)]
struct Fetched {
    bytes: Vec<u8>,
    records: usize,
}

impl FixedRecords {
    pub(crate) fn offset(&self, sample: u64) -> u64 {
        self.start + sample * self.record_bytes as u64
    }

    /// Reads a job's records; neighbours in the file with one read.
    pub(crate) fn fetch(&self, samples: &[u64], nth: usize, scratch: &mut Scratch) -> Result<()> {
        if self.input.slice().is_some() {
            return Ok(());
        }
        let fetched = scratch.of::<Fetched>();
        if nth == 0 {
            fetched.records = 0;
            if fetched.bytes.len() < samples.len() * self.record_bytes {
                fetched.bytes.resize(samples.len() * self.record_bytes, 0);
            }
        }
        if nth < fetched.records {
            return Ok(());
        }
        let run = 1 + samples[nth..].windows(2).take_while(|pair| pair[0].checked_add(1) == Some(pair[1])).count();
        let range = nth * self.record_bytes..(nth + run) * self.record_bytes;
        self.input.read_at(self.offset(samples[nth]), &mut fetched.bytes[range])?;
        fetched.records = nth + run;
        Ok(())
    }

    /// Writes the record's values to `tensor`.
    pub(crate) fn decode(
        &self,
        sample: u64,
        nth: usize,
        scratch: &mut Scratch,
        tensor: &mut TensorMut<'_>,
    ) -> Result<()> {
        let bytes = match self.input.slice() {
            Some(all) => &all[self.offset(sample) as usize..][..self.record_bytes],
            None => &scratch.of::<Fetched>().bytes[nth * self.record_bytes..][..self.record_bytes],
        };
        match self.dtype {
            DType::U8 => write_numbers(tensor, 0, u8::numbers(bytes)),
            DType::I8 => write_numbers(tensor, 0, i8::numbers(bytemuck::cast_slice(bytes))),
            DType::U16 => self.write(bytes, tensor, u16::from_be_bytes, u16::from_le_bytes),
            DType::I16 => self.write(bytes, tensor, i16::from_be_bytes, i16::from_le_bytes),
            DType::U32 => self.write(bytes, tensor, u32::from_be_bytes, u32::from_le_bytes),
            DType::I32 => self.write(bytes, tensor, i32::from_be_bytes, i32::from_le_bytes),
            DType::I64 => self.write(bytes, tensor, i64::from_be_bytes, i64::from_le_bytes),
            DType::F32 => self.write(bytes, tensor, f32::from_be_bytes, f32::from_le_bytes),
            DType::F64 => self.write(bytes, tensor, f64::from_be_bytes, f64::from_le_bytes),
        }
    }

    /// Gives every value of `bytes`, which are some of the file's, to `visit`.
    pub(crate) fn visit(&self, bytes: &[u8], visit: impl FnMut(f64)) {
        match self.dtype {
            DType::U8 => bytes.iter().map(|value| f64::from(*value)).for_each(visit),
            DType::I8 => bytes.iter().map(|value| f64::from(*value as i8)).for_each(visit),
            DType::U16 => self.each(bytes, u16::from_be_bytes, u16::from_le_bytes).map(f64::from).for_each(visit),
            DType::I16 => self.each(bytes, i16::from_be_bytes, i16::from_le_bytes).map(f64::from).for_each(visit),
            DType::U32 => self.each(bytes, u32::from_be_bytes, u32::from_le_bytes).map(f64::from).for_each(visit),
            DType::I32 => self.each(bytes, i32::from_be_bytes, i32::from_le_bytes).map(f64::from).for_each(visit),
            DType::I64 => self.each(bytes, i64::from_be_bytes, i64::from_le_bytes).map(|v| v as f64).for_each(visit),
            DType::F32 => self.each(bytes, f32::from_be_bytes, f32::from_le_bytes).map(f64::from).for_each(visit),
            DType::F64 => self.each(bytes, f64::from_be_bytes, f64::from_le_bytes).for_each(visit),
        }
    }

    fn each<T, const N: usize>(
        &self,
        bytes: &[u8],
        from_be: fn([u8; N]) -> T,
        from_le: fn([u8; N]) -> T,
    ) -> impl Iterator<Item = T> {
        let from = if self.big_endian { from_be } else { from_le };
        bytes.as_chunks::<N>().0.iter().map(move |element| from(*element))
    }

    /// Brings the values to native order a cache line's worth at a time: the file's bytes need not be aligned.
    fn write<T: Element, const N: usize>(
        &self,
        bytes: &[u8],
        tensor: &mut TensorMut<'_>,
        from_be: fn([u8; N]) -> T,
        from_le: fn([u8; N]) -> T,
    ) -> Result<()> {
        const CHUNK: usize = 256;
        let from = if self.big_endian { from_be } else { from_le };
        let mut values = [T::zeroed(); CHUNK];
        for (index, chunk) in bytes.chunks(CHUNK * N).enumerate() {
            let (elements, _) = chunk.as_chunks::<N>();
            for (value, element) in values.iter_mut().zip(elements) {
                *value = from(*element);
            }
            write_numbers(tensor, index * CHUNK, T::numbers(&values[..elements.len()]))?;
        }
        Ok(())
    }
}
