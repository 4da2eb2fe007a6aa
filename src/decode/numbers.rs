use super::halves::{Half, odd_f32, odd_f32_of_i64, odd_f32_of_u64};
use crate::decode::fused::{convert, scale_all, scale_each};
use crate::dtype::{DType, Element, NumberSlice};
use crate::error::{Error, ErrorKind, Result};
use crate::float16::{bf16, f16};
use crate::row::TensorMut;
use crate::schema::Affine;

/// Writes `one` at this place and `zero` elsewhere; returns whether the place exists.
pub(crate) fn one_hot<T: Copy>(numbers: &mut [T], place: Option<usize>, [zero, one]: [T; 2]) -> bool {
    numbers.fill(zero);
    let found = place.and_then(|place| numbers.get_mut(place));
    found.map(|number| *number = one).is_some()
}

/// Whether values of type `from` may be written to a tensor of type `to`: the same type, an integer type that holds all
/// of them, or floating point.
pub(crate) fn converts(from: DType, to: DType) -> bool {
    match (from.int_range(), to.int_range()) {
        (_, None) => true,
        (Some((low, high)), Some((to_low, to_high))) => to_low <= low && high <= to_high,
        (None, Some(_)) => false,
    }
}

/// Writes `values` to the elements of `tensor` from index `at` on, converts them to its type and applies its
/// transformation.
///
/// The transformation is computed in f32 as `fma(x, scale, bias)`. Numbers are rounded to the nearest number of the
/// type, ties to even; numbers beyond its largest become infinite. f16 and bf16 are rounded once more after a
/// transformation.
///
/// # Errors
///
/// [`ErrorKind::Schema`] if the tensor's type can't hold every value of the source's type.
///
/// # Panics
///
/// If there are more values than elements left.
pub fn write_numbers(tensor: &mut TensorMut<'_>, at: usize, values: NumberSlice<'_>) -> Result<()> {
    write_scaled(tensor, at, values, None)
}

/// Like [`write_numbers`]; with factor number `entry` for all values, if it is given.
fn write_scaled(tensor: &mut TensorMut<'_>, at: usize, values: NumberSlice<'_>, entry: Option<usize>) -> Result<()> {
    match values {
        NumberSlice::U8(values) => write(tensor, at, values, entry),
        NumberSlice::I8(values) => write(tensor, at, values, entry),
        NumberSlice::U16(values) => write(tensor, at, values, entry),
        NumberSlice::I16(values) => write(tensor, at, values, entry),
        NumberSlice::U32(values) => write(tensor, at, values, entry),
        NumberSlice::I32(values) => write(tensor, at, values, entry),
        NumberSlice::U64(values) => write(tensor, at, values, entry),
        NumberSlice::I64(values) => write(tensor, at, values, entry),
        NumberSlice::F16(values) => write_halves(tensor, at, values, entry),
        NumberSlice::Bf16(values) => write_halves(tensor, at, values, entry),
        NumberSlice::F32(values) => write(tensor, at, values, entry),
        NumberSlice::F64(values) => write(tensor, at, values, entry),
    }
}

/// Like [`write_numbers`], but refuses a finite number that is too large for the tensor's type.
///
/// # Errors
///
/// As [`write_numbers`], and [`ErrorKind::Data`] for such a number.
pub(crate) fn write_finite(tensor: &mut TensorMut<'_>, at: usize, values: NumberSlice<'_>) -> Result<()> {
    write_finite_scaled(tensor, at, values, None)
}

/// The same for numbers that all become element number `nth` of their rows: `column` has them one after another, with
/// the type and the transformation of the rows, whose shape is `row_shape`.
///
/// # Errors
///
/// As [`write_finite`].
pub(crate) fn write_finite_column(
    column: &mut TensorMut<'_>,
    nth: usize,
    row_shape: &[usize],
    values: NumberSlice<'_>,
) -> Result<()> {
    let entry = column.affine().map(|affine| affine.entry(nth, row_shape));
    write_finite_scaled(column, 0, values, entry)
}

fn write_finite_scaled(
    tensor: &mut TensorMut<'_>,
    at: usize,
    values: NumberSlice<'_>,
    entry: Option<usize>,
) -> Result<()> {
    write_scaled(tensor, at, values, entry)?;
    if !may_be_too_large(values.dtype(), tensor.dtype()) {
        return Ok(());
    }
    let written = tensor.numbers().range(at..at + values.len());
    if is_finite(written) {
        return Ok(());
    }
    let is_lost = |nth: &usize| values.at(*nth).is_finite() && !written.at(*nth).is_finite();
    match (0..values.len()).find(is_lost) {
        Some(nth) => Err(too_large(values, nth, at, tensor)),
        None => Ok(()),
    }
}

/// Whether the largest numbers of one type round to infinity in the other.
fn may_be_too_large(from: DType, to: DType) -> bool {
    match to {
        DType::F32 => from == DType::F64,
        DType::Bf16 => matches!(from, DType::F32 | DType::F64),
        DType::F16 => !matches!(from, DType::U8 | DType::I8 | DType::I16 | DType::F16),
        _ => false,
    }
}

/// Checks all numbers without a branch, so that the compiler uses vectors.
fn is_finite(numbers: NumberSlice<'_>) -> bool {
    match numbers {
        NumberSlice::F16(numbers) => numbers.iter().fold(true, |all, number| all & number.is_finite()),
        NumberSlice::Bf16(numbers) => numbers.iter().fold(true, |all, number| all & number.is_finite()),
        NumberSlice::F32(numbers) => numbers.iter().fold(true, |all, number| all & number.is_finite()),
        NumberSlice::F64(numbers) => numbers.iter().fold(true, |all, number| all & number.is_finite()),
        _ => true,
    }
}

#[cold]
fn too_large(values: NumberSlice<'_>, nth: usize, at: usize, tensor: &TensorMut<'_>) -> Error {
    let number = match values {
        NumberSlice::U64(values) => values[nth].to_string(),
        NumberSlice::I64(values) => values[nth].to_string(),
        values if values.dtype().is_float() => format!("{:?}", values.at(nth)),
        values => values.at(nth).to_string(),
    };
    let place = if tensor.shape().is_empty() { String::new() } else { format!("element {}: ", at + nth) };
    Error::new(ErrorKind::Data, format!("{place}{number} is too large for {}", tensor.dtype()))
}

/// A number that converts to other types.
trait Number: Element {
    fn to_f32(self) -> f32;
    fn to_f64(self) -> f64;
    fn to_i64(self) -> i64;
    /// The f32 that rounds to the same number of 16 bits as this one.
    fn to_odd_f32(self) -> f32;
}

macro_rules! numbers {
    ($($type:ty: $to_odd_f32:expr;)*) => {$(
        impl Number for $type {
            #[inline(always)]
            fn to_f32(self) -> f32 {
                self as f32
            }

            #[inline(always)]
            fn to_f64(self) -> f64 {
                self as f64
            }

            #[inline(always)]
            fn to_i64(self) -> i64 {
                self as i64
            }

            #[inline(always)]
            fn to_odd_f32(self) -> f32 {
                $to_odd_f32(self)
            }
        }
    )*};
}

numbers! {
    u8: f32::from;
    i8: f32::from;
    u16: f32::from;
    i16: f32::from;
    u32: |x| odd_f32(f64::from(x));
    i32: |x| odd_f32(f64::from(x));
    u64: odd_f32_of_u64;
    i64: odd_f32_of_i64;
    f32: |x| x;
    f64: odd_f32;
}

/// Number of values that are converted at once, on the stack, if there is another type in between.
const BLOCK: usize = 256;

fn check(from: DType, tensor: &TensorMut<'_>) -> Result<()> {
    if converts(from, tensor.dtype()) {
        return Ok(());
    }
    let message = format!("{from} values do not fit a tensor of {}", tensor.dtype());
    Err(Error::new(ErrorKind::Schema, message).at_column(&tensor.spec().name))
}

fn write<T: Number>(tensor: &mut TensorMut<'_>, at: usize, values: &[T], entry: Option<usize>) -> Result<()> {
    check(T::DTYPE, tensor)?;
    let dtype = tensor.dtype();
    let affine = tensor.affine();
    let factors = affine.map(|affine| Factors { affine, entry, at, shape: tensor.shape() });
    macro_rules! cast {
        ($type:ty, $via:expr) => {{
            let target = &mut tensor.as_mut_slice::<$type>()?[at..at + values.len()];
            convert(target, values, |value| $via(value) as $type);
        }};
    }
    if T::DTYPE == dtype && affine.is_none() {
        tensor.as_mut_slice::<T>()?[at..at + values.len()].copy_from_slice(values);
        return Ok(());
    }
    match dtype {
        DType::F16 => round_into(&mut tensor.as_mut_slice::<f16>()?[at..at + values.len()], values, factors),
        DType::Bf16 => round_into(&mut tensor.as_mut_slice::<bf16>()?[at..at + values.len()], values, factors),
        DType::F32 => match factors {
            None => cast!(f32, T::to_f32),
            Some(factors) => factors.scale(&mut tensor.as_mut_slice::<f32>()?[at..at + values.len()], 0, values),
        },
        DType::F64 => match factors {
            None => cast!(f64, T::to_f64),
            Some(factors) => {
                let target = &mut tensor.as_mut_slice::<f64>()?[at..at + values.len()];
                for (index, (target, value)) in target.iter_mut().zip(values).enumerate() {
                    *target = factors.affine.steps[factors.entry(index)].apply(value.to_f64());
                }
            }
        },
        DType::U8 => cast!(u8, T::to_i64),
        DType::I8 => cast!(i8, T::to_i64),
        DType::U16 => cast!(u16, T::to_i64),
        DType::I16 => cast!(i16, T::to_i64),
        DType::U32 => cast!(u32, T::to_i64),
        DType::I32 => cast!(i32, T::to_i64),
        // The same bits: larger numbers come from u64 alone.
        DType::U64 => cast!(u64, T::to_i64),
        DType::I64 => cast!(i64, T::to_i64),
    }
    Ok(())
}

/// Every number of 16 bits is also one of 32.
fn write_halves<H: Half>(tensor: &mut TensorMut<'_>, at: usize, halves: &[H], entry: Option<usize>) -> Result<()> {
    check(H::DTYPE, tensor)?;
    if H::DTYPE == tensor.dtype() && tensor.affine().is_none() {
        tensor.as_mut_slice::<H>()?[at..at + halves.len()].copy_from_slice(halves);
        return Ok(());
    }
    let mut numbers = [0.0; BLOCK];
    for (nth, halves) in halves.chunks(BLOCK).enumerate() {
        let numbers = &mut numbers[..halves.len()];
        H::to_f32s(halves, numbers);
        write::<f32>(tensor, at + nth * BLOCK, numbers, entry)?;
    }
    Ok(())
}

fn round_into<H: Half, T: Number>(target: &mut [H], values: &[T], factors: Option<Factors<'_>>) {
    let mut numbers = [0.0; BLOCK];
    for (nth, (target, values)) in target.chunks_mut(BLOCK).zip(values.chunks(BLOCK)).enumerate() {
        let numbers = &mut numbers[..values.len()];
        match factors {
            None => convert(numbers, values, T::to_odd_f32),
            Some(factors) => factors.scale(numbers, nth * BLOCK, values),
        }
        H::from_f32s(numbers, target);
    }
}

/// The factors of a transformation for neighbouring elements of a tensor.
#[derive(Clone, Copy)]
struct Factors<'a> {
    affine: &'a Affine,
    /// The number of the factor for all of them, unless each has its own.
    entry: Option<usize>,
    /// The index of the first element, and the tensor's shape.
    at: usize,
    shape: &'a [usize],
}

impl Factors<'_> {
    /// The number of the factor for element `index` of these.
    fn entry(&self, index: usize) -> usize {
        self.entry.unwrap_or_else(|| self.affine.entry(self.at + index, self.shape))
    }

    /// Scales `values`, which are the elements from `first` on.
    fn scale<T: Number>(&self, target: &mut [f32], first: usize, values: &[T]) {
        let Self { affine, shape, .. } = *self;
        let run = if self.entry.is_some() { usize::MAX / 4 } else { affine.run(shape) };
        let at = self.at + first;
        let mut done = 0;
        while done < values.len() {
            let entry = self.entry(first + done);
            // On the last axis each element has its own factor; neighbours are scaled together.
            let end = if run == 1 {
                let end = values.len().min(done + affine.scale.len() - entry);
                let factors = entry..entry + (end - done);
                let (scale, bias) = (&affine.scale[factors.clone()], &affine.bias[factors]);
                scale_each(&mut target[done..end], &values[done..end], scale, bias, T::to_f32);
                end
            } else {
                let end = values.len().min(done + run - (at + done) % run);
                let (scale, bias) = (affine.scale[entry], affine.bias[entry]);
                scale_all(&mut target[done..end], &values[done..end], scale, bias, T::to_f32);
                end
            };
            done = end;
        }
    }
}

impl Affine {
    /// Number of consecutive elements of a tensor of `shape` that share one factor.
    pub(crate) fn run(&self, shape: &[usize]) -> usize {
        match self.axis {
            Some(axis) => shape[axis + 1..].iter().product::<usize>().max(1),
            None => usize::MAX / 4,
        }
    }

    /// The number of the factor and summand for element `index` of a tensor of `shape`.
    pub(crate) fn entry(&self, index: usize, shape: &[usize]) -> usize {
        match self.axis {
            Some(_) => index / self.run(shape) % self.scale.len(),
            None => 0,
        }
    }
}
