//! Pictures and segmentation maps, from the bytes of an image file.

use crate::decode::ImageOptions;
use crate::decode::image::{header, write_image};
use crate::error::{Error, ErrorKind, Result};
use crate::read::fields::Image;
use crate::read::images::{image_tensors, upright_size, write_mask};
use crate::row::RowMut;
use crate::schema::{Dim, Extents, Role};

use super::contract::{Context, Decode, Made, Varying, unexpected};
use crate::read::value::Value;

struct ImageCodec {
    options: ImageOptions,
    /// The extents of height and width, if images keep their sizes.
    extents: Option<(usize, usize)>,
}

pub(super) fn make(name: &str, role: Role, image: &Image, varying: &mut Varying) -> Result<Made> {
    let options = ImageOptions { image_name: name.to_owned(), ..image.options().clone() };
    if let faults @ [_, ..] = options.faults().as_slice() {
        return Err(Error::new(ErrorKind::Config, faults.join("; ")));
    }
    let mut tensors = image_tensors(&options);
    tensors[0].role = role;
    let mut extents = None;
    if options.size.is_none() {
        let own = (varying.take(name)?, varying.take(name)?);
        for dim in tensors.iter_mut().flat_map(|tensor| &mut tensor.shape) {
            match dim {
                Dim::Extent(0) => *dim = Dim::Extent(own.0),
                Dim::Extent(_) => *dim = Dim::Extent(own.1),
                Dim::Fixed(_) => {}
            }
        }
        extents = Some(own);
    }
    Ok(Made { codec: Box::new(ImageCodec { options, extents }), tensors })
}

fn file_of<'a>(value: &Value<'a>) -> Result<&'a [u8]> {
    match value {
        Value::Bytes(bytes) => Ok(bytes),
        value => Err(unexpected("the bytes of an image (if it names a file, set `file`)", value)),
    }
}

impl Decode for ImageCodec {
    fn write(&self, _: usize, value: Value<'_>, context: &mut Context<'_>, row: &mut RowMut<'_>) -> Result<()> {
        let bytes = file_of(&value)?;
        let tensor = &mut row.tensor(0);
        let ((width, height), damages) = match &mut context.picture {
            Some(picture) => picture.write(bytes, &self.options, context.key, tensor)?,
            None => write_image(bytes, &self.options, context.key, tensor, context.budget)?,
        };
        if self.extents.is_some() {
            write_mask(row, 1, width, height);
        }
        damages.iter().for_each(|damage| context.damages.add(damage));
        Ok(())
    }

    fn picture(&self) -> Option<&ImageOptions> {
        Some(&self.options)
    }

    fn check_size(&self, value: Value<'_>, size: &mut (u32, u32)) -> Result<()> {
        let own = header(file_of(&value)?)?.upright_size();
        if *size == (0, 0) {
            *size = own;
        }
        if *size == own {
            return Ok(());
        }
        let geometry = self.options.geometry.as_deref().unwrap_or_default();
        let message = format!(
            "an image of {} x {} pixels, where another one with geometry = {geometry:?} has {} x {}; a picture and its \
             map have the same size",
            own.0, own.1, size.0, size.1
        );
        Err(Error::new(ErrorKind::Data, message))
    }

    fn is_random(&self) -> bool {
        !self.options.augment.is_empty()
    }

    fn measure(&self, value: Value<'_>, extents: &mut Extents) -> Result<()> {
        if let Some((height, width)) = self.extents {
            let bytes = file_of(&value)?;
            let mut start = Vec::new();
            let read = |start: &mut Vec<u8>, wanted: u64| {
                start.clear();
                start.extend_from_slice(&bytes[..usize::try_from(wanted).map_or(bytes.len(), |n| n.min(bytes.len()))]);
                Ok(bytes.len() as u64)
            };
            (extents.0[width], extents.0[height]) = upright_size(&self.options, &mut start, read)?;
        }
        Ok(())
    }
}
