use crate::decode::fused::{convert, scale_all, scale_each};
use crate::dtype::{DType, Element, Numbers};
use crate::error::{Error, ErrorKind, Result};
use crate::row::TensorMut;
use crate::schema::Affine;

/// Whether values of type `from` may be written to a tensor of type `to`: the same type, an integer type that holds all
/// of them, or floating point.
pub(crate) fn converts(from: DType, to: DType) -> bool {
    match (from.int_range(), to.int_range()) {
        (_, None) => true,
        (Some((low, high)), Some((to_low, to_high))) => to_low <= low && high <= to_high,
        (None, Some(_)) => false,
    }
}

/// Writes `values` to the elements of `tensor` from `at` on, converting to its type and applying its transformation.
///
/// The transformation is computed in f32 as `fma(x, scale, bias)`.
///
/// # Errors
///
/// [`ErrorKind::Schema`] if the tensor's type can't hold every value of the source's type.
///
/// # Panics
///
/// If there are more values than elements left.
pub fn write_numbers(tensor: &mut TensorMut<'_>, at: usize, values: Numbers<'_>) -> Result<()> {
    match values {
        Numbers::U8(values) => write(tensor, at, values, f32::from, f64::from, |x| x.into()),
        Numbers::I8(values) => write(tensor, at, values, f32::from, f64::from, |x| x.into()),
        Numbers::U16(values) => write(tensor, at, values, f32::from, f64::from, |x| x.into()),
        Numbers::I16(values) => write(tensor, at, values, f32::from, f64::from, |x| x.into()),
        Numbers::U32(values) => write(tensor, at, values, |x| x as f32, f64::from, |x| x.into()),
        Numbers::I32(values) => write(tensor, at, values, |x| x as f32, f64::from, |x| x.into()),
        Numbers::I64(values) => write(tensor, at, values, |x| x as f32, |x| x as f64, |x| x),
        Numbers::F32(values) => write(tensor, at, values, |x| x, f64::from, |x| x as i64),
        Numbers::F64(values) => write(tensor, at, values, |x| x as f32, |x| x, |x| x as i64),
    }
}

fn write<T: Element>(
    tensor: &mut TensorMut<'_>,
    at: usize,
    values: &[T],
    to_f32: impl Fn(T) -> f32,
    to_f64: impl Fn(T) -> f64,
    to_i64: impl Fn(T) -> i64,
) -> Result<()> {
    let dtype = tensor.dtype();
    let affine = tensor.affine();
    let shape = tensor.shape();
    if !converts(T::DTYPE, dtype) {
        let message = format!("{} values do not fit a tensor of {dtype}", T::DTYPE);
        return Err(Error::new(ErrorKind::Schema, message).at_column(&tensor.spec().name));
    }
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
        DType::F32 => match affine {
            None => cast!(f32, to_f32),
            Some(affine) => {
                let target = &mut tensor.as_mut_slice::<f32>()?[at..at + values.len()];
                scaled(target, at, values, shape, affine, to_f32);
            }
        },
        DType::F64 => match affine {
            None => cast!(f64, to_f64),
            Some(affine) => {
                let target = &mut tensor.as_mut_slice::<f64>()?[at..at + values.len()];
                for (index, (target, value)) in target.iter_mut().zip(values).enumerate() {
                    let entry = affine.entry(at + index, shape);
                    *target = to_f64(*value).mul_add(affine.scale[entry].into(), affine.bias[entry].into());
                }
            }
        },
        DType::U8 => cast!(u8, to_i64),
        DType::I8 => cast!(i8, to_i64),
        DType::U16 => cast!(u16, to_i64),
        DType::I16 => cast!(i16, to_i64),
        DType::U32 => cast!(u32, to_i64),
        DType::I32 => cast!(i32, to_i64),
        DType::I64 => cast!(i64, to_i64),
    }
    Ok(())
}

fn scaled<T: Copy>(
    target: &mut [f32],
    at: usize,
    values: &[T],
    shape: &[usize],
    affine: &Affine,
    to_f32: impl Fn(T) -> f32,
) {
    let run = affine.run(shape);
    let mut done = 0;
    while done < values.len() {
        let entry = affine.entry(at + done, shape);
        // On the last axis each element has a factor of its own, and neighbours are scaled together.
        let end = if run == 1 {
            let end = values.len().min(done + affine.scale.len() - entry);
            let factors = entry..entry + (end - done);
            let (scale, bias) = (&affine.scale[factors.clone()], &affine.bias[factors]);
            scale_each(&mut target[done..end], &values[done..end], scale, bias, &to_f32);
            end
        } else {
            let end = values.len().min(done + run - (at + done) % run);
            let (scale, bias) = (affine.scale[entry], affine.bias[entry]);
            scale_all(&mut target[done..end], &values[done..end], scale, bias, &to_f32);
            end
        };
        done = end;
    }
}

impl Affine {
    /// Elements of a tensor of `shape` in a row that share one factor.
    pub(crate) fn run(&self, shape: &[usize]) -> usize {
        match self.axis {
            Some(axis) => shape[axis + 1..].iter().product::<usize>().max(1),
            None => usize::MAX / 4,
        }
    }

    /// Which factor and summand element `index` of a tensor of `shape` takes.
    pub(crate) fn entry(&self, index: usize, shape: &[usize]) -> usize {
        match self.axis {
            Some(_) => index / self.run(shape) % self.scale.len(),
            None => 0,
        }
    }
}
