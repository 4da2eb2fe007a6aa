//! The common part of readers of images, for bytes from any place: tensors, sizes, masks and labels.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::decode::image::header;
use crate::decode::{ImageColour, ImageOptions, LabelFormat, PixelOrder, one_hot};
use crate::dtype::DType;
use crate::error::{Error, ErrorKind, Result};
use crate::read::csv::{FieldElement, with_element};
use crate::row::{RowMut, TensorMut};
use crate::schema::{Dim, Extents, Role, TensorSpec};

/// The image, and its mask if images keep their own sizes.
pub(in crate::read) fn image_tensors(options: &ImageOptions) -> Vec<TensorSpec> {
    let (height, width) = match options.size {
        Some((height, width)) => (Dim::Fixed(height as usize), Dim::Fixed(width as usize)),
        None => (Dim::Extent(0), Dim::Extent(1)),
    };
    let shape = image_shape(options, height, width, Dim::Fixed(options.colour.channels()));
    // A map is what the model should answer.
    let role = if options.colour == ImageColour::Index { Role::Label } else { Role::Feature };
    let mut tensors = vec![TensorSpec::with_dims(&options.image_name, role, options.dtype, shape)];
    if options.size.is_none() {
        let name = format!("{}_mask", options.image_name);
        tensors.push(TensorSpec::with_dims(name, Role::Mask, DType::U8, vec![height, width]));
    }
    tensors
}

/// The dimensions of an image in their order; a map of indices has no channels.
pub(super) fn image_shape<T>(options: &ImageOptions, height: T, width: T, channels: T) -> Vec<T> {
    match (options.colour, options.order) {
        (ImageColour::Index, _) => vec![height, width],
        (_, PixelOrder::Nchw) => vec![channels, height, width],
        (_, PixelOrder::Nhwc) => vec![height, width, channels],
    }
}

/// The tensor of the class, with these classes if they are known.
pub(in crate::read) fn label_tensor(options: &ImageOptions, classes: Option<&Arc<[String]>>) -> TensorSpec {
    let (dtype, shape) = match options.labels {
        LabelFormat::I64 | LabelFormat::Off => (DType::I64, vec![]),
        LabelFormat::U32 => (DType::U32, vec![]),
        LabelFormat::OneHot => (DType::F32, vec![classes.map_or(0, |classes| classes.len())]),
    };
    let mut label = TensorSpec::new(&options.label_name, Role::Label, dtype, &shape);
    label.classes = classes.map(Arc::clone);
    label
}

/// Writes 1 where the image is and 0 where the batch is larger.
pub(in crate::read) fn write_mask(row: &mut RowMut<'_>, index: usize, width: usize, height: usize) {
    let mut mask = row.tensor(index);
    let out_width = mask.shape().get(1).copied().unwrap_or(0);
    for (y, line) in mask.bytes_mut().chunks_exact_mut(out_width.max(1)).enumerate() {
        let present = if y < height { width } else { 0 };
        line[..present].fill(1);
        line[present..].fill(0);
    }
}

/// Writes a class, which must be one of the existing classes.
pub(in crate::read) fn write_label(row: &mut RowMut<'_>, index: usize, label: u32) -> Result<()> {
    fn write<T: FieldElement>(tensor: &mut TensorMut<'_>, label: u32) -> Result<()> {
        let shape = tensor.shape();
        let is_one_hot = !shape.is_empty();
        let elements = tensor.as_mut_slice::<T>()?;
        let (at, number) = if is_one_hot { (label as usize, 1) } else { (0, i64::from(label)) };
        match T::from_i64(number).is_some_and(|number| one_hot(elements, Some(at), [T::default(), number])) {
            true => Ok(()),
            false => {
                let message = format!("class {label} does not fit {} {shape:?}", T::DTYPE);
                Err(Error::new(ErrorKind::Data, message))
            }
        }
    }
    let mut tensor = row.tensor(index);
    with_element!(tensor.dtype(), T => write::<T>(&mut tensor, label))
}

/// Upright height and width of each image once it is known; empty if all images are resized.
pub(in crate::read) struct ImageSizes(Box<[AtomicU64]>);

impl ImageSizes {
    /// The sizes of no images.
    pub(in crate::read) fn none() -> Self {
        Self(Box::default())
    }

    pub(in crate::read) fn new(count: usize, options: &ImageOptions) -> Self {
        Self(match options.size {
            Some(_) => Box::default(),
            // Both in one number; 0 is unknown.
            None => (0..count).map(|_| AtomicU64::new(0)).collect(),
        })
    }

    /// Whether images keep their own sizes.
    pub(in crate::read) fn vary(&self) -> bool {
        !self.0.is_empty()
    }

    pub(in crate::read) fn bytes(&self) -> u64 {
        size_of_val(&*self.0) as u64
    }

    /// The size of image `sample`, which `find` gives as width and height.
    pub(in crate::read) fn of(&self, sample: u64, find: impl FnOnce() -> Result<(u32, u32)>) -> Result<Extents> {
        let Some(size) = self.0.get(sample as usize) else {
            return Ok(Extents::default());
        };
        // A value is all there is to share, so the order among them does not matter.
        let mut known = size.load(Ordering::Relaxed);
        if known == 0 {
            let (width, height) = find()?;
            known = u64::from(height) << 32 | u64::from(width);
            size.store(known, Ordering::Relaxed);
        }
        Ok(Extents([(known >> 32) as u32, known as u32, 0, 0]))
    }
}

/// Width and height of an upright image. `read` puts the first so many bytes of the image into a buffer, and returns
/// the image's total length.
pub(in crate::read) fn upright_size(
    options: &ImageOptions,
    start: &mut Vec<u8>,
    mut read: impl FnMut(&mut Vec<u8>, u64) -> Result<u64>,
) -> Result<(u32, u32)> {
    // Headers of most files lie within this; a long colour profile or a directory at the end needs all of the file.
    const START: u64 = 64 << 10;
    let len = read(start, START)?;
    let found = match header(start) {
        // WebP and TIFF hold their orientation anywhere, and a part of a file may hide it.
        Ok(found) if len <= START || found.orientation_is_known() => found,
        Err(error) if len <= START => return Err(error),
        _ => {
            read(start, u64::MAX)?;
            header(start)?
        }
    };
    found.check(options.max_pixels)?;
    Ok(found.upright_size())
}
