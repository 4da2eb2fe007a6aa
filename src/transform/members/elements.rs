use crate::decode::{map_in_place, odd_f32};
use crate::dtype::{DType, Element};
use crate::error::{Error, ErrorKind, Result};
use crate::float16::{bf16, f16};
use crate::memory::Scope;
use crate::schema::{MaskOf, Masked, Rows, TensorSpec};
use crate::transform::{Outputs, Row, Tensors, Transform};
use crate::view::TensorView;

/// Floating point numbers.
pub(super) trait Float: Element {
    fn to_f64(self) -> f64;
    fn from_f64(value: f64) -> Self;
    fn to_f32(self) -> f32;
    fn from_f32(value: f32) -> Self;
}

macro_rules! floats {
    ($($type:ty: $from_f64:expr, $from_f32:expr;)*) => {$(
        impl Float for $type {
            #[inline(always)]
            fn to_f64(self) -> f64 {
                self.into()
            }

            #[inline(always)]
            fn from_f64(value: f64) -> Self {
                $from_f64(value)
            }

            #[inline(always)]
            fn to_f32(self) -> f32 {
                f64::from(self) as f32
            }

            #[inline(always)]
            fn from_f32(value: f32) -> Self {
                $from_f32(value)
            }
        }
    )*};
}

floats! {
    f16: |x| Self::from_f32(odd_f32(x)), Self::from_f32;
    bf16: |x| Self::from_f32(odd_f32(x)), Self::from_f32;
    f32: |x| x as Self, |x| x;
    f64: |x| x, Self::from;
}

/// Calls a function with the Rust type of an element type, if that is floating point.
macro_rules! with_float {
    ($dtype:expr, $type:ident => $call:expr, else $other:expr) => {
        match $dtype {
            DType::F16 => {
                type $type = crate::float16::f16;
                $call
            }
            DType::Bf16 => {
                type $type = crate::float16::bf16;
                $call
            }
            DType::F32 => {
                type $type = f32;
                $call
            }
            DType::F64 => {
                type $type = f64;
                $call
            }
            _ => $other,
        }
    };
}
pub(super) use with_float;

/// The tensor that says where another one holds data, and how its elements correspond to that tensor's.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Mask {
    name: String,
    /// The dimension of the tensor that corresponds to the mask's first one.
    axis: usize,
    rank: usize,
}

impl Mask {
    /// The mask of a tensor.
    pub(super) fn of(spec: &TensorSpec, tensors: &Tensors) -> Option<Self> {
        let MaskOf { name, axis, rank } = spec.mask(tensors.specs())?;
        Some(Self { name: name.to_owned(), axis, rank })
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    pub(super) fn declare(mask: Option<&Self>, tensors: &mut Tensors) -> Result<()> {
        mask.map_or(Ok(()), |mask| tensors.read(&mask.name))
    }

    /// The elements of a tensor of `shape` that hold data.
    pub(super) fn present<'a>(mask: Option<&Self>, row: &'a Row<'_>, shape: &[usize]) -> Result<Present<'a>> {
        let Some(mask) = mask else { return Ok(Present { mask: None, run: 1 }) };
        let run = shape[mask.axis + mask.rank..].iter().product();
        Ok(Present { mask: Some(row.tensor(&mask.name)?), run })
    }
}

/// The elements of a tensor that hold data; without a mask, all of them.
#[derive(Clone, Copy)]
pub(super) struct Present<'a> {
    mask: Option<TensorView<'a>>,
    /// Number of neighbouring elements for each element of the mask.
    run: usize,
}

impl Present<'_> {
    /// Calls `work` with each run of data among `values`, which have `width` numbers per element, and with the index of
    /// its first number.
    pub(super) fn each_run<T>(self, values: &mut [T], width: usize, mut work: impl FnMut(usize, &mut [T])) {
        let Some(mask) = self.mask else { return work(0, values) };
        let run = (self.run * width).max(1);
        let bytes = mask.bytes().chunks_exact(mask.dtype().bytes());
        let present = bytes.map(|value| value.iter().any(|byte| *byte != 0)).cycle();
        for ((start, values), present) in (0..).step_by(run).zip(values.chunks_mut(run)).zip(present) {
            if present {
                work(start, values);
            }
        }
    }
}

/// The fault of a tensor whose padding can't be told from data, if it has no mask.
pub(super) fn without_mask(spec: &TensorSpec) -> Option<&'static str> {
    match spec.masked {
        Masked::Unknown => Some("contains padding, and there is no mask that marks it"),
        _ if spec.is_variable() && spec.rows == Rows::Even => {
            Some("varies in length and has no mask to tell data from padding")
        }
        _ => None,
    }
}

/// The elements of one sample, to be changed in place.
pub(super) struct Elements<'a, T> {
    pub(super) values: &'a mut [T],
    pub(super) shape: &'a [usize],
    pub(super) present: Present<'a>,
}

impl<T: Float> Elements<'_, T> {
    /// Replaces each element that is data.
    pub(super) fn map(self, to: impl Fn(T) -> T) {
        self.present.each_run(self.values, 1, |_, values| map_in_place(values, &to));
    }

    /// Calls `work` with each element that is data, and with the number of such elements before it.
    pub(super) fn for_each(self, mut work: impl FnMut(u64, &mut T)) {
        let mut nth = 0;
        self.present.each_run(self.values, 1, |_, values| {
            for value in values {
                work(nth, value);
                nth += 1;
            }
        });
    }

    /// Replaces each element that is data by a function of its index along `axis`.
    pub(super) fn map_by(self, axis: usize, to: impl Fn(usize, T) -> T) {
        let (len, inner): (usize, usize) = (self.shape[axis], self.shape[axis + 1..].iter().product());
        let inner = inner.max(1);
        self.present.each_run(self.values, 1, |start, values| {
            let (mut at, mut rest) = (start, values);
            while !rest.is_empty() {
                let (same, behind) = rest.split_at_mut((inner - at % inner).min(rest.len()));
                let index = at / inner % len;
                map_in_place(same, |value| to(index, value));
                (at, rest) = (at + same.len(), behind);
            }
        });
    }
}

/// What is done to each element of a floating point tensor.
pub(super) trait Elementwise: Send + Sync {
    fn run<T: Float>(&self, row: &Row<'_>, elements: Elements<'_, T>) -> Result<()>;
}

/// Changes a floating point tensor in place, without its padding.
pub(super) struct InPlace<E> {
    tensor: String,
    mask: Option<Mask>,
    work: E,
}

impl<E: Elementwise> InPlace<E> {
    pub(super) fn new(tensor: &str, tensors: &Tensors, work: E) -> Result<Self> {
        let made = Self::unchecked(tensor, tensors, work)?;
        made.check(tensors)?;
        Ok(made)
    }

    /// The same for a transform that may turn out not to be needed.
    pub(super) fn unchecked(tensor: &str, tensors: &Tensors, work: E) -> Result<Self> {
        let mask = Mask::of(tensors.get(tensor)?, tensors);
        Ok(Self { tensor: tensor.to_owned(), mask, work })
    }

    /// # Errors
    ///
    /// [`ErrorKind::Schema`] for a tensor that does not hold fractions, or whose padding can't be distinguished from
    /// data.
    pub(super) fn check(&self, tensors: &Tensors) -> Result<()> {
        let spec = tensors.get(&self.tensor)?;
        let fault = if !spec.dtype.is_float() {
            format!("holds {}; this needs a floating point type such as f32: cast it", spec.dtype)
        } else if let (Some(fault), None) = (without_mask(spec), &self.mask) {
            fault.to_owned()
        } else {
            return Ok(());
        };
        Err(Error::new(ErrorKind::Schema, fault).at_column(&self.tensor))
    }
}

impl<E: Elementwise> Transform for InPlace<E> {
    fn declare(&self, tensors: &mut Tensors) -> Result<()> {
        tensors.change(&self.tensor)?;
        Mask::declare(self.mask.as_ref(), tensors)
    }

    fn apply(&self, row: &Row<'_>, out: &mut Outputs<'_>, _: &Scope<'_>) -> Result<()> {
        let mut tensor = out.tensor(0);
        let (dtype, shape) = (tensor.dtype(), tensor.shape());
        let present = Mask::present(self.mask.as_ref(), row, shape)?;
        with_float!(dtype, T => {
            let elements = Elements { values: tensor.as_mut_slice::<T>()?, shape, present };
            self.work.run(row, elements).map_err(|error| error.at_column(&self.tensor))
        }, else Err(Error::new(ErrorKind::Schema, "this needs a tensor of a floating point type; cast it first").at_column(&self.tensor)))
    }
}

/// Converts a tensor to another type or shape, number by number.
pub(super) trait Mapping: Send + Sync {
    /// How many numbers each number becomes.
    fn width(&self) -> usize {
        1
    }

    /// Writes the result for `from` to the bytes of its numbers, which are zeros.
    ///
    /// # Errors
    ///
    /// Why it can't be written.
    fn write(&self, from: TensorView<'_>, index: usize, into: &mut [u8]) -> Result<(), String>;
}

/// Replaces a tensor by one of another type or shape; padding stays zero.
pub(super) struct Replace<M> {
    spec: TensorSpec,
    mask: Option<Mask>,
    mapping: M,
}

impl<M: Mapping> Replace<M> {
    pub(super) fn new(spec: TensorSpec, tensors: &Tensors, mapping: M) -> Result<Self> {
        let from = tensors.get(&spec.name)?;
        let mask = Mask::of(from, tensors);
        if let (Some(fault), None) = (without_mask(from), &mask) {
            return Err(Error::new(ErrorKind::Schema, fault).at_column(&spec.name));
        }
        Ok(Self { spec: TensorSpec { affine: None, ..spec }, mask, mapping })
    }
}

impl<M: Mapping> Transform for Replace<M> {
    fn declare(&self, tensors: &mut Tensors) -> Result<()> {
        Mask::declare(self.mask.as_ref(), tensors)?;
        tensors.write(self.spec.clone())
    }

    fn apply(&self, row: &Row<'_>, out: &mut Outputs<'_>, _: &Scope<'_>) -> Result<()> {
        let from = row.tensor(&self.spec.name)?;
        let mut tensor = out.tensor(0);
        let present = Mask::present(self.mask.as_ref(), row, from.shape())?;
        let bytes = tensor.bytes_mut();
        bytes.fill(0);
        let width = self.mapping.width() * self.spec.dtype.bytes();
        let mut fault = None;
        present.each_run(bytes, width, |start, bytes| {
            for (index, into) in (start / width.max(1)..).zip(bytes.chunks_exact_mut(width)) {
                if let Err(message) = self.mapping.write(from, index, into) {
                    fault.get_or_insert((index, message));
                }
            }
        });
        match fault {
            None => Ok(()),
            Some((index, message)) => {
                let message = format!("element {index}: {message}");
                Err(Error::new(ErrorKind::Data, message).at_column(&self.spec.name))
            }
        }
    }
}
