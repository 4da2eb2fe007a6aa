use crate::decode::PixelOrder;
use crate::dtype::DType;
use crate::error::{Error, ErrorKind, Result};
use crate::schema::{Affine, Dim, Masked, Rows, Schema, Shape, TensorSpec};
use crate::transform::{
    Entries, INDEX_TYPES, Operation, UNMASKED, expect, expect_type, has_padding, pixel_order, relaid, relaid_mask,
};

use super::super::place::Place;
use super::{CONVERTS, DenseWork, FloatType, ImageWork, MAX_CHANNELS, ON_HOST, OneHotWork, ScaleWork, Work};

/// All work on one tensor on the device, with tensors by index and factors as numbers.
#[derive(Clone, Debug)]
pub(in super::super) struct Prepared {
    tensor: usize,
    /// The resulting tensor.
    spec: TensorSpec,
    to: FloatType,
    kind: Kind,
    /// Whether a number may be too large for its type. The host's cast refuses such a number; here it becomes infinite.
    pub(super) may_overflow: bool,
}

#[derive(Clone, Debug)]
enum Kind {
    Image {
        from: PixelOrder,
        order: PixelOrder,
        scale: [f32; MAX_CHANNELS],
        bias: [f32; MAX_CHANNELS],
        flip: Option<usize>,
    },
    Scale {
        from: DType,
        scale: f32,
        bias: f32,
    },
    OneHot {
        from: DType,
        classes: usize,
    },
    Dense {
        columns: usize,
        indices: usize,
        index_type: DType,
        mask: Option<usize>,
        /// The masks by which each row is checked.
        entries: Option<Entries<usize>>,
    },
}

impl Prepared {
    /// All of `operations`, in this order, on a tensor that is copied as `input`.
    ///
    /// # Errors
    ///
    /// An operation that a device can't do, or for which it does not give the same bits as the host.
    pub(in super::super) fn new<'a>(
        schema: &Schema,
        input: &TensorSpec,
        operations: impl IntoIterator<Item = &'a Operation>,
    ) -> Result<Self> {
        check_even(input)?;
        let spec = TensorSpec { affine: None, ..input.clone() };
        let mut joined =
            Joined { schema, input, spec, to: None, may_overflow: false, what: What::Numbers(Numbers::default()) };
        operations.into_iter().try_for_each(|operation| joined.add(operation))?;
        let tensor = schema.index_of(&input.name)?;
        let Some(to) = joined.to else {
            return Err(fault(input, "a device gives f32, f16 or bf16; cast it to one of them"));
        };
        Ok(Self { tensor, spec: joined.spec.clone(), to, may_overflow: joined.may_overflow, kind: joined.kind()? })
    }

    /// Index of the tensor that is converted.
    pub(in super::super) fn tensor(&self) -> usize {
        self.tensor
    }

    /// The resulting tensor.
    pub(in super::super) fn spec(&self) -> &TensorSpec {
        &self.spec
    }

    /// The work whose result begins at `output`, and the place of the result; `host` has the places of the copied
    /// tensors.
    pub(in super::super) fn work(&self, host: &[Place], output: usize) -> Result<(Place, Work)> {
        let from = &host[self.tensor];
        let input = from.offset;
        let to = self.to;
        let (shape, work) = match &self.kind {
            Kind::Image { from: order_of_input, order, scale, bias, flip } => {
                let [images, a, b, c] = from.shape[..] else { unreachable!("prepared for three dimensions a sample") };
                let (height, width, channels) = match order_of_input {
                    PixelOrder::Nchw => (b, c, a),
                    PixelOrder::Nhwc => (a, b, c),
                };
                let shape = match order {
                    PixelOrder::Nchw => [images, channels, height, width],
                    PixelOrder::Nhwc => [images, height, width, channels],
                };
                let work = Work::Image(ImageWork {
                    input,
                    flags: flip.map(|tensor| host[tensor].offset),
                    output,
                    images,
                    height,
                    width,
                    channels,
                    from: *order_of_input,
                    order: *order,
                    to,
                    scale: *scale,
                    bias: *bias,
                });
                (Shape::new(&shape), work)
            }
            Kind::Scale { from: dtype, scale, bias } => {
                let count = from.bytes / dtype.bytes();
                let (from_type, scale, bias) = (*dtype, *scale, *bias);
                let work = ScaleWork { input, output, count, from: from_type, to, scale, bias };
                (from.shape, Work::Scale(work))
            }
            Kind::OneHot { from: dtype, classes } => {
                let mut shape = from.shape;
                shape.push(*classes);
                let count = from.bytes / dtype.bytes();
                (shape, Work::OneHot(OneHotWork { input, output, count, classes: *classes, from: *dtype, to }))
            }
            Kind::Dense { columns, indices, index_type, mask, .. } => {
                let [rows, entries] = from.shape[..] else { unreachable!("prepared for one dimension a sample") };
                let work = Work::Dense(DenseWork {
                    values: input,
                    indices: host[*indices].offset,
                    index_type: *index_type,
                    mask: mask.map(|tensor| host[tensor].offset),
                    output,
                    rows,
                    entries,
                    columns: *columns,
                    to,
                });
                (Shape::new(&[rows, *columns]), work)
            }
        };
        let bytes = shape.elements().and_then(|elements| elements.checked_mul(self.spec.dtype.bytes()));
        let bytes = bytes.filter(|bytes| *bytes <= isize::MAX as usize - output);
        let Some(bytes) = bytes else {
            return Err(Error::new(
                ErrorKind::Limit,
                format!("a tensor of shape {shape:?} has more bytes than memory"),
            ));
        };
        Ok((Place { offset: output, bytes, shape }, work))
    }

    /// Checks what a device can't check, in the bytes of a batch; `host` has the places of its tensors.
    ///
    /// # Errors
    ///
    /// A sparse row in which values have no columns.
    pub(in super::super) fn check(&self, schema: &Schema, bytes: &[u8], host: &[Place]) -> Result<()> {
        let Kind::Dense { indices, entries: Some(entries), .. } = &self.kind else { return Ok(()) };
        let [rows, len] = host[self.tensor].shape[..] else { unreachable!("prepared for one dimension a sample") };
        for row in 0..rows {
            let masks = entries.try_map(|tensor| Ok(&bytes[host[*tensor].offset + row * len..][..len]))?;
            if let Some(message) = masks.fault(len) {
                let message = format!("row {row} of the batch: {message}");
                return Err(Error::new(ErrorKind::Data, message).at_column(&schema.tensors()[*indices].name));
            }
        }
        Ok(())
    }
}

/// Several operations on one tensor, combined into one.
struct Joined<'a> {
    schema: &'a Schema,
    /// The tensor when it is copied.
    input: &'a TensorSpec,
    /// The tensor after the operations so far.
    spec: TensorSpec,
    to: Option<FloatType>,
    may_overflow: bool,
    what: What,
}

enum What {
    Numbers(Numbers),
    Made(Kind),
}

/// The same numbers in another form.
#[derive(Default)]
struct Numbers {
    affine: Option<Affine>,
    /// Whether factors differ from channel to channel.
    by_channel: bool,
    /// The order of an image's dimensions when it is copied, and now, if it matters.
    orders: Option<(PixelOrder, PixelOrder)>,
    flip: Option<usize>,
}

/// From here on, f16 rounds to infinity: the midpoint of its largest number and the number that would follow.
const BEYOND_F16: f64 = 65520.0;
/// From here on, bf16 may round to infinity.
const BEYOND_BF16: f64 = 3.39e38;

impl Numbers {
    /// The largest value that a number of this type may have now.
    fn largest(&self, dtype: DType) -> f64 {
        let (low, high) = dtype.int_range().map_or((f64::MIN, f64::MAX), |(low, high)| (low as f64, high as f64));
        let size = |scale: f64, bias: f64| (low * scale + bias).abs().max((high * scale + bias).abs());
        let Some(affine) = &self.affine else { return size(1.0, 0.0) };
        let factors = affine.scale.iter().zip(&affine.bias);
        factors.map(|(scale, bias)| size((*scale).into(), (*bias).into())).fold(0.0, f64::max)
    }
}

impl Joined<'_> {
    fn add(&mut self, operation: &Operation) -> Result<()> {
        let is_first = self.to.is_none();
        match (operation, &self.what) {
            (Operation::Cast { dtype, .. }, _) => self.cast(*dtype)?,
            (Operation::Normalise { normaliser, .. }, What::Numbers(numbers)) if numbers.affine.is_none() => {
                let affine = normaliser.load()?.affine(&self.spec)?;
                if !self.is_exact() {
                    return Err(fault(self.input, "would be rounded twice; cast it to f32 before it is normalised"));
                }
                self.normalise(affine)?;
            }
            (Operation::Layout { order, from, .. }, What::Numbers(_)) => {
                self.set_order(*from)?;
                if let What::Numbers(Numbers { orders: Some((_, now)), .. }) = &mut self.what {
                    self.spec.masked = relaid_mask(&self.spec.masked, *now, *order);
                    self.spec.shape = relaid(&self.spec.shape, *now, *order);
                    *now = *order;
                }
            }
            (Operation::Flip { by, order, .. }, What::Numbers(Numbers { flip: None, .. })) => {
                let by = self.beside(by, &[DType::U8], &[])?;
                self.set_order(*order)?;
                if let What::Numbers(numbers) = &mut self.what {
                    numbers.flip = Some(by);
                }
            }
            (Operation::OneHot { classes, dtype, .. }, What::Numbers(_)) if is_first && self.is_plain() => {
                let integers =
                    [DType::U8, DType::I8, DType::U16, DType::I16, DType::U32, DType::I32, DType::U64, DType::I64];
                expect_type(self.input, &integers)?;
                if self.input.shape.len() == crate::schema::MAX_RANK {
                    return Err(fault(self.input, "there is no dimension left for the classes"));
                }
                let Some(classes) = classes.or(self.input.classes.as_ref().map(|names| names.len())) else {
                    return Err(fault(self.input, "has no names of classes; say how many there are (`classes`)"));
                };
                self.spec.shape.push(Dim::Fixed(classes));
                self.what = What::Made(Kind::OneHot { from: self.input.dtype, classes });
                self.cast(*dtype)?;
            }
            (Operation::Dense { indices, columns, mask, dtype, .. }, What::Numbers(_))
                if is_first && self.is_plain() =>
            {
                let shape = &self.input.shape;
                expect_type(self.input, &[DType::F32])?;
                if shape.len() != 1 {
                    let message = format!("a sparse row's values have one dimension, not {}", shape.len());
                    return Err(fault(self.input, message));
                }
                if mask.is_none() && has_padding(self.input, self.schema) {
                    return Err(fault(self.input, UNMASKED));
                }
                let columns_of = &self.schema.tensors()[self.schema.index_of(indices)?];
                let indices = self.beside(indices, &INDEX_TYPES, shape)?;
                let entries = Entries::of(self.input, columns_of, mask.as_deref(), self.schema.tensors().iter());
                let place = |mask: &String| self.beside(mask, &[DType::U8], shape);
                let entries = entries.map(|entries| entries.try_map(place)).transpose()?;
                let mask = mask.as_ref().map(place).transpose()?;
                let index_type = self.schema.tensors()[indices].dtype;
                self.spec.masked = Masked::Never;
                self.spec.shape = vec![Dim::Fixed(*columns)];
                self.what = What::Made(Kind::Dense { columns: *columns, indices, index_type, mask, entries });
                self.cast(*dtype)?;
            }
            (
                Operation::Normalise { .. }
                | Operation::Layout { .. }
                | Operation::Flip { .. }
                | Operation::OneHot { .. }
                | Operation::Dense { .. },
                _,
            ) => {
                let message = "a device does one_hot or dense, or else normalises, lays out and flips once, and casts";
                return Err(fault(self.input, message));
            }
            _ => return Err(fault(self.input, format!("{ON_HOST}; {CONVERTS}"))),
        }
        Ok(())
    }

    /// Whether the numbers are still unchanged.
    fn is_plain(&self) -> bool {
        matches!(&self.what, What::Numbers(Numbers { affine: None, orders: None, flip: None, .. }))
    }

    /// Whether the numbers are not rounded yet, or only to 32 bits, as on the device.
    fn is_exact(&self) -> bool {
        match (self.to, &self.what) {
            (None | Some(FloatType::F32), _) | (_, What::Made(Kind::OneHot { .. })) => true,
            (_, What::Numbers(numbers)) => numbers.affine.is_none() && self.input.dtype.bytes() == 1,
            _ => false,
        }
    }

    fn cast(&mut self, dtype: DType) -> Result<()> {
        let Some(to) = FloatType::of(dtype) else {
            return Err(fault(self.input, format!("a device gives f32, f16 or bf16, and not {dtype}")));
        };
        if self.to.is_some_and(|now| now != to) && !self.is_exact() {
            return Err(fault(self.input, format!("would be rounded twice; cast it to {dtype} alone")));
        }
        let beyond = match to {
            FloatType::F32 => f64::INFINITY,
            FloatType::F16 => BEYOND_F16,
            FloatType::Bf16 => BEYOND_BF16,
        };
        self.may_overflow |= match &self.what {
            What::Numbers(numbers) => numbers.largest(self.input.dtype) >= beyond,
            What::Made(Kind::Dense { .. }) => self.to.is_some() && to != FloatType::F32,
            What::Made(_) => false,
        };
        (self.to, self.spec.dtype) = (Some(to), dtype);
        Ok(())
    }

    /// Sets the order of an image, from here on.
    fn set_order(&mut self, given: Option<PixelOrder>) -> Result<()> {
        let (found, _) = pixel_order(&self.spec, given)?;
        let What::Numbers(numbers) = &mut self.what else { return Ok(()) };
        let (_, now) = *numbers.orders.get_or_insert((found, found));
        if now == found { Ok(()) } else { Err(fault(self.input, "has two orders of dimensions")) }
    }

    fn normalise(&mut self, affine: Affine) -> Result<()> {
        if let Some(axis) = affine.axis {
            // There is a number for each channel, so the image is in this order.
            let order = match (axis, self.spec.shape.len()) {
                (0, 3) => PixelOrder::Nchw,
                (2, 3) => PixelOrder::Nhwc,
                _ => return Err(fault(self.input, "is normalised by an axis that is not the channels of an image")),
            };
            self.set_order(Some(order))?;
        }
        if let What::Numbers(numbers) = &mut self.what {
            numbers.by_channel = affine.axis.is_some();
            numbers.affine = Some(affine);
        }
        Ok(())
    }

    /// The index of another tensor, which must have one of these element types and as many elements per sample.
    fn beside(&self, name: &str, dtypes: &[DType], shape: &[Dim]) -> Result<usize> {
        let index = self.schema.index_of(name)?;
        let spec = &self.schema.tensors()[index];
        expect(spec, dtypes, shape)?;
        check_even(spec)?;
        Ok(index)
    }

    fn kind(self) -> Result<Kind> {
        let numbers = match self.what {
            What::Made(kind) => return Ok(kind),
            What::Numbers(numbers) => numbers,
        };
        let affine = numbers.affine.as_ref();
        let of = |channel: usize| {
            let index = if numbers.by_channel { channel } else { 0 };
            affine.map_or((1.0, 0.0), |affine| (affine.scale[index], affine.bias[index]))
        };
        let Some((from, order)) = numbers.orders else {
            expect_type(self.input, &[DType::U8, DType::I8, DType::U16, DType::I16])?;
            let (scale, bias) = of(0);
            return Ok(Kind::Scale { from: self.input.dtype, scale, bias });
        };
        expect_type(self.input, &[DType::U8])?;
        let (_, channels) = pixel_order(self.input, Some(from))?;
        let (mut scale, mut bias) = ([1.0; MAX_CHANNELS], [0.0; MAX_CHANNELS]);
        for channel in 0..channels {
            (scale[channel], bias[channel]) = of(channel);
        }
        Ok(Kind::Image { from, order, scale, bias, flip: numbers.flip })
    }
}

fn check_even(spec: &TensorSpec) -> Result<()> {
    match spec.rows {
        Rows::Even => Ok(()),
        _ => Err(fault(spec, "it is ragged; leave `ragged` out, so that its samples are padded")),
    }
}

fn fault(spec: &TensorSpec, message: impl Into<String>) -> Error {
    Error::new(ErrorKind::Schema, format!("on a device: {}", message.into())).at_column(&spec.name)
}
