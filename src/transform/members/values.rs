use crate::decode::{converts, one_hot, write_finite};
use crate::dtype::{DType, Element, NumberSlice};
use crate::error::{Error, ErrorKind, Result};
use crate::float16::{bf16, f16};
use crate::memory::Scope;
use crate::normalise::{Normaliser, share_below};
use crate::row::TensorMut;
use crate::schema::{Affine, Dim, TensorSpec};
use crate::transform::{Outputs, Row, Tensors, Transform};
use crate::view::TensorView;

use super::elements::{Elements, Elementwise, Float, InPlace, Mapping, Replace};

/// `ln(1 + x)`.
pub(super) struct Log1p;

impl Elementwise for Log1p {
    fn run<T: Float>(&self, _: &Row<'_>, elements: Elements<'_, T>) -> Result<()> {
        let mut wrong = None;
        elements.for_each(|_, value| {
            let x = value.to_f64();
            if x <= -1.0 {
                wrong.get_or_insert(x);
            }
            *value = T::from_f64(x.ln_1p());
        });
        match wrong {
            None => Ok(()),
            Some(x) => Err(Error::new(ErrorKind::Data, format!("log1p of {x}; it is for numbers above -1"))),
        }
    }
}

/// A value outside the bounds becomes the nearest bound; NaN stays.
pub(super) struct Clip {
    pub(super) low: f64,
    pub(super) high: f64,
}

impl Elementwise for Clip {
    fn run<T: Float>(&self, _: &Row<'_>, elements: Elements<'_, T>) -> Result<()> {
        let (low, high) = (T::from_f64(self.low), T::from_f64(self.high));
        elements.map(|x| {
            if x.to_f64() < self.low {
                low
            } else if x.to_f64() > self.high {
                high
            } else {
                x
            }
        });
        Ok(())
    }
}

/// The share of the training data's values that are smaller, interpolated linearly between the quantiles.
pub(super) struct Quantile {
    pub(super) quantiles: Vec<f64>,
}

impl Elementwise for Quantile {
    fn run<T: Float>(&self, _: &Row<'_>, elements: Elements<'_, T>) -> Result<()> {
        elements.for_each(|_, value| *value = T::from_f64(share_below(&self.quantiles, value.to_f64())));
        Ok(())
    }
}

/// A normaliser. It is applied while the tensor is decoded, if no transform has read the tensor before.
pub(super) struct Normalise {
    affine: Affine,
    tensor: String,
    late: InPlace<Scaled>,
}

struct Scaled(Affine);

impl Normalise {
    pub(super) fn new(tensor: &str, normaliser: &Normaliser, tensors: &Tensors) -> Result<Self> {
        let spec = tensors.get(tensor)?;
        // A tensor that was decoded with one normaliser may still get another one.
        let affine = match tensors.is_untouched(tensor) {
            true => normaliser.affine(spec)?,
            false => normaliser.affine(&TensorSpec { affine: None, ..spec.clone() })?,
        };
        let late = InPlace::unchecked(tensor, tensors, Scaled(affine.clone()))?;
        Ok(Self { affine, tensor: tensor.to_owned(), late })
    }
}

impl Transform for Normalise {
    fn declare(&self, tensors: &mut Tensors) -> Result<()> {
        if tensors.decode_by(&self.tensor, &self.affine)? {
            return Ok(());
        }
        self.late.check(tensors)?;
        self.late.declare(tensors)
    }

    fn apply(&self, row: &Row<'_>, out: &mut Outputs<'_>, scope: &Scope<'_>) -> Result<()> {
        self.late.apply(row, out, scope)
    }
}

impl Elementwise for Scaled {
    fn run<T: Float>(&self, _: &Row<'_>, elements: Elements<'_, T>) -> Result<()> {
        let Affine { scale, bias, steps, axis } = &self.0;
        let to = |index: usize, x: T| match T::DTYPE {
            DType::F64 => T::from_f64(steps[index].apply(x.to_f64())),
            _ => T::from_f32(x.to_f32().mul_add(scale[index], bias[index])),
        };
        match axis {
            None => elements.map(|x| to(0, x)),
            Some(axis) => elements.map_by(*axis, to),
        }
        Ok(())
    }
}

/// Another element type. Zeros stay zero, so that padding needs no mask.
pub(super) struct Cast(TensorSpec);

impl Cast {
    pub(super) fn new(tensor: &str, to: DType, tensors: &Tensors) -> Result<Self> {
        Ok(Self(TensorSpec { dtype: to, affine: None, ..tensors.get(tensor)?.clone() }))
    }
}

impl Transform for Cast {
    fn declare(&self, tensors: &mut Tensors) -> Result<()> {
        tensors.write(self.0.clone())
    }

    fn apply(&self, row: &Row<'_>, out: &mut Outputs<'_>, _: &Scope<'_>) -> Result<()> {
        let (from, mut tensor) = (row.tensor(&self.0.name)?, out.tensor(0));
        if converts(from.dtype(), tensor.dtype()) {
            let written = write_finite(&mut tensor, 0, from.numbers());
            return written.map_err(|error| error.at_column(&tensor.spec().name));
        }
        match tensor.dtype() {
            DType::U8 => to_whole::<u8>(from.numbers(), &mut tensor),
            DType::I8 => to_whole::<i8>(from.numbers(), &mut tensor),
            DType::U16 => to_whole::<u16>(from.numbers(), &mut tensor),
            DType::I16 => to_whole::<i16>(from.numbers(), &mut tensor),
            DType::U32 => to_whole::<u32>(from.numbers(), &mut tensor),
            DType::I32 => to_whole::<i32>(from.numbers(), &mut tensor),
            DType::U64 => to_whole::<u64>(from.numbers(), &mut tensor),
            _ => to_whole::<i64>(from.numbers(), &mut tensor),
        }
    }
}

/// Whole numbers up to this one are exact in f64. Larger ones may be those that others were rounded to.
const MOST_EXACT: f64 = 9_007_199_254_740_992.0;

fn to_whole<T: Element + TryFrom<i128>>(numbers: NumberSlice<'_>, tensor: &mut TensorMut<'_>) -> Result<()> {
    let name = tensor.spec().name.as_str();
    for (index, into) in tensor.as_mut_slice::<T>()?.iter_mut().enumerate() {
        let whole = match numbers {
            NumberSlice::U64(values) => Some(values[index].into()),
            NumberSlice::I64(values) => Some(values[index].into()),
            other => Some(other.at(index)).filter(|x| x.fract() == 0.0 && x.abs() <= MOST_EXACT).map(|x| x as i128),
        };
        *into = whole.and_then(|whole| T::try_from(whole).ok()).ok_or_else(|| {
            let number = match numbers {
                NumberSlice::U64(values) => values[index].to_string(),
                NumberSlice::I64(values) => values[index].to_string(),
                other => other.at(index).to_string(),
            };
            let is_rounded = numbers.dtype().is_float() && numbers.at(index).abs() > MOST_EXACT;
            let why = if is_rounded { ": beyond 2^53, a float may have been rounded" } else { "" };
            Error::new(ErrorKind::Data, format!("element {index}: {number} does not fit {}{why}", T::DTYPE))
                .at_column(name)
        })?;
    }
    Ok(())
}

/// Number of classes: the given one, or the number of names.
fn classes_of(tensor: &str, classes: Option<usize>, tensors: &Tensors) -> Result<usize> {
    let spec = tensors.get(tensor)?;
    let fault = |message: String| Err(Error::new(ErrorKind::Schema, message).at_column(tensor));
    if spec.dtype.is_float() {
        return fault(format!("holds {}; one-hot numbers are made of indices of classes", spec.dtype));
    }
    match classes.or(spec.classes.as_ref().map(|names| names.len())) {
        None => fault("has no names of classes; say how many there are (`classes`)".to_owned()),
        Some(0) => fault("has an empty list of classes".to_owned()),
        Some(classes) => Ok(classes),
    }
}

/// The position of the 1 for element `index`, if it is a class.
fn class(numbers: NumberSlice<'_>, index: usize, classes: usize) -> Result<usize, String> {
    let class = numbers.at(index);
    if (0.0..classes as f64).contains(&class) { Ok(class as usize) } else { Err(format!("class {class} of {classes}")) }
}

/// Checks that all numbers of a tensor are classes, as `OneHot` would. Changes nothing.
pub(super) struct IsClass {
    tensor: String,
    classes: usize,
}

impl IsClass {
    pub(super) fn new(tensor: &str, classes: Option<usize>, tensors: &Tensors) -> Result<Self> {
        Ok(Self { tensor: tensor.to_owned(), classes: classes_of(tensor, classes, tensors)? })
    }
}

impl Transform for IsClass {
    fn declare(&self, tensors: &mut Tensors) -> Result<()> {
        tensors.change(&self.tensor)
    }

    fn apply(&self, _: &Row<'_>, out: &mut Outputs<'_>, _: &Scope<'_>) -> Result<()> {
        let mut tensor = out.tensor(0);
        let numbers = NumberSlice::of(tensor.dtype(), tensor.bytes_mut());
        let fault = (0..numbers.len()).find_map(|index| Some((index, class(numbers, index, self.classes).err()?)));
        fault.map_or(Ok(()), |(index, message)| {
            let message = format!("element {index}: {message}");
            Err(Error::new(ErrorKind::Data, message).at_column(&self.tensor))
        })
    }
}

/// The number 1, whose bytes come first.
pub(super) fn one(dtype: DType) -> [u8; 8] {
    let mut one = [0; 8];
    let bytes = dtype.bytes();
    match dtype {
        DType::F64 => one = 1f64.to_ne_bytes(),
        DType::F32 => one[..bytes].copy_from_slice(&1f32.to_ne_bytes()),
        DType::F16 => one[..bytes].copy_from_slice(&f16::ONE.to_ne_bytes()),
        DType::Bf16 => one[..bytes].copy_from_slice(&bf16::ONE.to_ne_bytes()),
        _ if cfg!(target_endian = "big") => one[bytes - 1] = 1,
        _ => one[0] = 1,
    }
    one
}

/// Writes 1 at the class's position, and 0 elsewhere.
pub(super) struct OneHot {
    classes: usize,
    one: [u8; 8],
}

impl OneHot {
    pub(super) fn replacing(
        tensor: &str,
        classes: Option<usize>,
        to: DType,
        tensors: &Tensors,
    ) -> Result<Replace<Self>> {
        let classes = classes_of(tensor, classes, tensors)?;
        let spec = tensors.get(tensor)?;
        let mut shape = spec.shape.clone();
        shape.push(Dim::Fixed(classes));
        let spec = TensorSpec { dtype: to, shape, affine: None, ..spec.clone() };
        Replace::new(spec, tensors, Self { classes, one: one(to) })
    }
}

impl Mapping for OneHot {
    fn width(&self) -> usize {
        self.classes
    }

    fn write(&self, from: TensorView<'_>, index: usize, into: &mut [u8]) -> Result<(), String> {
        fn write<const N: usize>(into: &mut [u8], class: usize, one: [u8; 8]) {
            let (numbers, _) = into.as_chunks_mut::<N>();
            one_hot(numbers, Some(class), [[0; N], std::array::from_fn(|at| one[at])]);
        }
        let class = class(from.numbers(), index, self.classes)?;
        match into.len() / self.classes {
            1 => write::<1>(into, class, self.one),
            2 => write::<2>(into, class, self.one),
            4 => write::<4>(into, class, self.one),
            _ => write::<8>(into, class, self.one),
        }
        Ok(())
    }
}

/// The number of edges that are less than or equal to the value: `numpy.digitize`.
pub(super) struct Bins {
    edges: Vec<f64>,
}

impl Bins {
    pub(super) fn replacing(tensor: &str, edges: &[f64], tensors: &Tensors) -> Result<Replace<Self>> {
        let spec = tensors.get(tensor)?.clone();
        let spec = TensorSpec { dtype: DType::I64, affine: None, classes: None, categories: None, ..spec };
        Replace::new(spec, tensors, Self { edges: edges.to_vec() })
    }
}

impl Mapping for Bins {
    fn write(&self, from: TensorView<'_>, index: usize, into: &mut [u8]) -> Result<(), String> {
        let x = from.numbers().at(index);
        if x.is_nan() {
            return Err("is not a number, and belongs to no bin".to_owned());
        }
        let bin = self.edges.partition_point(|edge| *edge <= x) as i64;
        into.copy_from_slice(&bin.to_ne_bytes());
        Ok(())
    }
}
