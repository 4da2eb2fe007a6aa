use crate::decode::PixelOrder;
use crate::dtype::DType;
use crate::error::{Error, ErrorKind, Result};
use crate::normalise::Normaliser;
use crate::schema::{Dim, Rows, Schema, Shape, TensorSpec};

use super::super::place::Place;
use super::{
    Conversion, DenseConversion, DenseWork, FloatType, ImageConversion, ImageWork, MAX_CHANNELS, OneHotWork, ScaleWork,
    Work,
};

/// A conversion that fits its schema: tensors by index, factors as numbers.
#[derive(Clone, Debug)]
pub(in super::super) struct Prepared {
    tensor: usize,
    to: FloatType,
    kind: Kind,
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
    },
}

impl Prepared {
    pub(in super::super) fn new(schema: &Schema, tensor: &str, conversion: &Conversion) -> Result<Self> {
        let index = schema.index_of(tensor)?;
        let spec = &schema.tensors()[index];
        check_even(spec)?;
        let (to, kind) = match conversion {
            Conversion::Image(image) => (image.to, prepare_image(schema, spec, image)?),
            Conversion::Scale { to, scale, bias } => {
                check(spec, &[DType::U8, DType::I8, DType::U16, DType::I16])?;
                (*to, Kind::Scale { from: spec.dtype, scale: *scale, bias: *bias })
            }
            Conversion::OneHot { to, classes } => {
                let integers = [DType::U8, DType::I8, DType::U16, DType::I16, DType::U32, DType::I32, DType::I64];
                check(spec, &integers)?;
                if spec.shape.len() == crate::schema::MAX_RANK {
                    return Err(fault(spec, "there is no dimension left for the classes"));
                }
                (*to, Kind::OneHot { from: spec.dtype, classes: *classes })
            }
            Conversion::Dense(dense) => (dense.to, prepare_dense(schema, spec, dense)?),
        };
        Ok(Self { tensor: index, to, kind })
    }

    /// Index of the tensor that is converted.
    pub(in super::super) fn tensor(&self) -> usize {
        self.tensor
    }

    /// Element type of the result.
    pub(in super::super) fn dtype(&self) -> DType {
        self.to.into()
    }

    /// Where the result lies, if it begins at `output`, and how it comes there; `host` holds the tensors as they are copied.
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
            Kind::Dense { columns, indices, index_type, mask } => {
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
        let bytes = shape.elements().and_then(|elements| elements.checked_mul(self.dtype().bytes()));
        let bytes = bytes.filter(|bytes| *bytes <= isize::MAX as usize - output);
        let Some(bytes) = bytes else {
            return Err(Error::new(
                ErrorKind::Limit,
                format!("a tensor of shape {shape:?} has more bytes than memory"),
            ));
        };
        Ok((Place { offset: output, bytes, shape }, work))
    }
}

fn fault(spec: &TensorSpec, message: impl Into<String>) -> Error {
    Error::new(ErrorKind::Schema, format!("can't be converted on the device: {}", message.into())).at_column(&spec.name)
}

fn check(spec: &TensorSpec, dtypes: &[DType]) -> Result<()> {
    if dtypes.contains(&spec.dtype) {
        return Ok(());
    }
    let names: Vec<_> = dtypes.iter().map(|dtype| dtype.as_str()).collect();
    Err(fault(spec, format!("it holds {}, and may hold {}", spec.dtype, names.join(", "))))
}

fn check_even(spec: &TensorSpec) -> Result<()> {
    match spec.rows {
        Rows::Even => Ok(()),
        _ => Err(fault(spec, "its samples lie one behind another; leave `ragged` out, so that they are padded")),
    }
}

/// The index of another tensor, which must have this element type and as many elements a sample.
fn beside(schema: &Schema, name: &str, dtypes: &[DType], shape: &[Dim]) -> Result<usize> {
    let index = schema.index_of(name)?;
    let spec = &schema.tensors()[index];
    check(spec, dtypes)?;
    check_even(spec)?;
    if spec.shape != shape {
        return Err(fault(spec, format!("its shape is {:?}, and must be {shape:?}", spec.shape)));
    }
    Ok(index)
}

fn prepare_image(schema: &Schema, spec: &TensorSpec, image: &ImageConversion) -> Result<Kind> {
    check(spec, &[DType::U8])?;
    let [first, _, last] = spec.shape[..] else {
        return Err(fault(spec, format!("an image has three dimensions, not {}", spec.shape.len())));
    };
    let channels = |dim| match dim {
        Dim::Fixed(len @ 1..=MAX_CHANNELS) => Some(len),
        _ => None,
    };
    let (from, channels) = match (image.from, channels(first), channels(last)) {
        (None | Some(PixelOrder::Nchw), Some(channels), None) | (Some(PixelOrder::Nchw), Some(channels), _) => {
            (PixelOrder::Nchw, channels)
        }
        (None | Some(PixelOrder::Nhwc), None, Some(channels)) | (Some(PixelOrder::Nhwc), _, Some(channels)) => {
            (PixelOrder::Nhwc, channels)
        }
        (None, Some(_), Some(_)) => {
            return Err(fault(spec, "its channels may be first or last; give `from_order`"));
        }
        _ => {
            let message = format!("of shape {:?}, no dimension is 1 to {MAX_CHANNELS} channels", spec.shape);
            return Err(fault(spec, message));
        }
    };
    let (mut scale, mut bias) = ([1.0; MAX_CHANNELS], [0.0; MAX_CHANNELS]);
    if let Some(normaliser) = &image.normaliser {
        factors(normaliser, spec, from, channels, &mut scale, &mut bias)?;
    }
    let flip = image.flip.as_ref().map(|name| beside(schema, name, &[DType::U8], &[])).transpose()?;
    Ok(Kind::Image { from, order: image.order, scale, bias, flip })
}

fn factors(
    normaliser: &Normaliser,
    spec: &TensorSpec,
    from: PixelOrder,
    channels: usize,
    scale: &mut [f32],
    bias: &mut [f32],
) -> Result<()> {
    // Lengths that are not the channels' are of no interest, and must not be taken for them.
    let any = Dim::Extent(0);
    let (shape, axis) = match from {
        PixelOrder::Nchw => (vec![Dim::Fixed(channels), any, any], 0),
        PixelOrder::Nhwc => (vec![any, any, Dim::Fixed(channels)], 2),
    };
    let numbers = TensorSpec { dtype: DType::F32, shape, ..spec.clone() };
    let affine = normaliser.affine(&numbers)?;
    let one_for_all = affine.axis.is_none();
    if affine.axis.is_some_and(|found| found != axis) {
        return Err(fault(spec, "its normaliser is not one of channels"));
    }
    for channel in 0..channels {
        let index = if one_for_all { 0 } else { channel };
        (scale[channel], bias[channel]) = (affine.scale[index], affine.bias[index]);
    }
    Ok(())
}

fn prepare_dense(schema: &Schema, spec: &TensorSpec, dense: &DenseConversion) -> Result<Kind> {
    check(spec, &[DType::F32])?;
    if spec.shape.len() != 1 {
        return Err(fault(spec, format!("a sparse row's values have one dimension, not {}", spec.shape.len())));
    }
    let indices = beside(schema, &dense.indices, &[DType::U32, DType::I32, DType::I64], &spec.shape)?;
    let mask = dense.mask.as_ref().map(|name| beside(schema, name, &[DType::U8], &spec.shape)).transpose()?;
    Ok(Kind::Dense { columns: dense.columns, indices, index_type: schema.tensors()[indices].dtype, mask })
}
