use bytemuck::Pod;

use crate::decode::{self, FromF32, PixelOrder, Rows, scale_all, write_rounded};
use crate::dtype::DType;
use crate::float16::{bf16, f16};

use super::{DenseWork, FloatType, ImageWork, MAX_CHANNELS, OneHotWork, ScaleWork, Work};

/// How many numbers are computed at once, on the stack.
const BLOCK: usize = 256;

/// Does the work in `slot`, on the calling thread. Allocates nothing.
pub(in super::super) fn run(work: &Work, slot: &mut [u8]) {
    let to = match work {
        Work::Image(work) => work.to,
        Work::Scale(work) => work.to,
        Work::OneHot(work) => work.to,
        Work::Dense(work) => work.to,
    };
    match to {
        FloatType::F32 => run_to::<f32>(work, slot),
        FloatType::F16 => run_to::<f16>(work, slot),
        FloatType::Bf16 => run_to::<bf16>(work, slot),
    }
}

fn run_to<T: FromF32>(work: &Work, slot: &mut [u8]) {
    match work {
        Work::Image(work) => {
            let (before, output) =
                split::<T>(slot, work.output, work.images * work.channels * work.height * work.width);
            image(work, before, output);
        }
        Work::Scale(work) => {
            let (before, output) = split::<T>(slot, work.output, work.count);
            scale(work, before, output);
        }
        Work::OneHot(work) => {
            let (before, output) = split::<T>(slot, work.output, work.count * work.classes);
            one_hot(work, before, output);
        }
        Work::Dense(work) => {
            let (before, output) = split::<T>(slot, work.output, work.rows * work.columns);
            dense(work, before, output);
        }
    }
}

/// The part before `at`, for reading, and `count` elements from there on, for writing.
fn split<T: Pod>(slot: &mut [u8], at: usize, count: usize) -> (&[u8], &mut [T]) {
    let (before, rest) = slot.split_at_mut(at);
    (before, bytemuck::cast_slice_mut(&mut rest[..count * size_of::<T>()]))
}

fn input<T: Pod>(slot: &[u8], at: usize, count: usize) -> &[T] {
    bytemuck::cast_slice(&slot[at..at + count * size_of::<T>()])
}

/// Distance in elements from one index of an image to the next: channel, row, column.
fn strides(order: PixelOrder, work: &ImageWork) -> [usize; 3] {
    match order {
        PixelOrder::Nchw => [work.height * work.width, work.width, 1],
        PixelOrder::Nhwc => [1, work.width * work.channels, work.channels],
    }
}

fn image<T: FromF32>(work: &ImageWork, slot: &[u8], output: &mut [T]) {
    let size = work.channels * work.height * work.width;
    let pixels = &slot[work.input..work.input + work.images * size];
    let flags = work.flags.map(|at| &slot[at..at + work.images]);
    let (from, to) = (strides(work.from, work), strides(work.order, work));
    let (mut bytes, mut numbers, mut rounded) = ([0u8; BLOCK], [0f32; BLOCK], [T::zeroed(); BLOCK]);
    // There are loops from interleaved colours to planes that read each pixel once.
    let is_common = (work.from, work.order, work.channels) == (PixelOrder::Nhwc, PixelOrder::Nchw, 3) && work.width > 0;
    let three = |factors: [f32; MAX_CHANNELS]| std::array::from_fn(|channel| factors[channel]);
    let factors = Some((three(work.scale), three(work.bias)));
    for index in 0..work.images {
        let flips = flags.is_some_and(|flags| flags[index] != 0);
        let (source, target) = (&pixels[index * size..][..size], &mut output[index * size..][..size]);
        if is_common {
            let plane = work.height * work.width;
            let rows = Rows { width: work.width, out_width: work.width, plane, channels: 3, mirrored: flips };
            write_rounded(target, source, factors, work.order, rows);
            continue;
        }
        for channel in 0..work.channels {
            let (scale, bias) = (work.scale[channel], work.bias[channel]);
            for row in 0..work.height {
                let (source, target) =
                    (&source[channel * from[0] + row * from[1]..], &mut target[channel * to[0] + row * to[1]..]);
                for start in (0..work.width).step_by(BLOCK) {
                    let columns = start..work.width.min(start + BLOCK);
                    let (bytes, numbers) = (&mut bytes[..columns.len()], &mut numbers[..columns.len()]);
                    for (byte, column) in bytes.iter_mut().zip(columns) {
                        let column = if flips { work.width - 1 - column } else { column };
                        *byte = source[column * from[2]];
                    }
                    scale_all(numbers, bytes, scale, bias, f32::from);
                    let rounded = &mut rounded[..numbers.len()];
                    T::from_f32s(numbers, rounded);
                    for (offset, number) in rounded.iter().enumerate() {
                        target[(start + offset) * to[2]] = *number;
                    }
                }
            }
        }
    }
}

fn scale<T: FromF32>(work: &ScaleWork, slot: &[u8], output: &mut [T]) {
    fn of<S: Pod, T: FromF32>(work: &ScaleWork, slot: &[u8], output: &mut [T], to_f32: impl Fn(S) -> f32 + Copy) {
        let values = input::<S>(slot, work.input, work.count);
        let mut numbers = [0f32; BLOCK];
        for (values, output) in values.chunks(BLOCK).zip(output.chunks_mut(BLOCK)) {
            let numbers = &mut numbers[..values.len()];
            scale_all(numbers, values, work.scale, work.bias, to_f32);
            T::from_f32s(numbers, output);
        }
    }
    match work.from {
        DType::I8 => of::<i8, T>(work, slot, output, f32::from),
        DType::U16 => of::<u16, T>(work, slot, output, f32::from),
        DType::I16 => of::<i16, T>(work, slot, output, f32::from),
        _ => of::<u8, T>(work, slot, output, f32::from),
    }
}

fn one_hot<T: FromF32>(work: &OneHotWork, slot: &[u8], output: &mut [T]) {
    for (index, row) in output.chunks_exact_mut(work.classes.max(1)).enumerate() {
        let place = usize::try_from(integer(slot, work.input, work.from, index)).ok();
        decode::one_hot(row, place, [0.0, 1.0].map(T::from_f32));
    }
}

fn dense<T: FromF32>(work: &DenseWork, slot: &[u8], output: &mut [T]) {
    output.fill(T::from_f32(0.0));
    let entries = work.rows * work.entries;
    let values = input::<f32>(slot, work.values, entries);
    let mask = work.mask.map(|at| &slot[at..at + entries]);
    for entry in 0..entries {
        let column = integer(slot, work.indices, work.index_type, entry);
        let Some(column) = usize::try_from(column).ok().filter(|column| *column < work.columns) else { continue };
        if mask.is_none_or(|mask| mask[entry] != 0) {
            output[entry / work.entries * work.columns + column] = T::from_f32(values[entry]);
        }
    }
}

fn integer(slot: &[u8], at: usize, dtype: DType, index: usize) -> i64 {
    let bytes = &slot[at + index * dtype.bytes()..][..dtype.bytes()];
    match dtype {
        DType::I8 => bytemuck::pod_read_unaligned::<i8>(bytes).into(),
        DType::U16 => bytemuck::pod_read_unaligned::<u16>(bytes).into(),
        DType::I16 => bytemuck::pod_read_unaligned::<i16>(bytes).into(),
        DType::U32 => bytemuck::pod_read_unaligned::<u32>(bytes).into(),
        DType::I32 => bytemuck::pod_read_unaligned::<i32>(bytes).into(),
        // What is too large for i64 is no class and no column in either.
        DType::U64 | DType::I64 => bytemuck::pod_read_unaligned::<i64>(bytes),
        _ => bytes[0].into(),
    }
}
