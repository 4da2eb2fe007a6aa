use super::container::{check_whole, header};
use super::pixels::{to_grey, turn_upright, write_pixels};
use super::resize::{Bilinear, Plan};
use super::{Decoders, Header, ImageColour, ImageOptions, PixelOrder, Region, resize_buffer};
use crate::dtype::DType;
use crate::error::Result;
use crate::row::TensorMut;

/// One worker's way from a file's bytes to a tensor: its decoders and buffers, reused from image to image.
#[derive(Default)]
pub(crate) struct ImageWork {
    decoders: Decoders,
    resizer: Bilinear,
    decoded: Vec<u8>,
    resized: Vec<u8>,
    upright: Vec<u8>,
    grey: Vec<u8>,
}

impl ImageWork {
    /// Decodes a file as 8-bit RGB: as stored, neither resized nor turned.
    ///
    /// # Errors
    ///
    /// Those of the format; [`ErrorKind::Limit`](crate::ErrorKind::Limit) with too many pixels.
    pub(crate) fn decode(&mut self, bytes: &[u8], options: &ImageOptions) -> Result<(Header, &[u8])> {
        let header = decode(&mut self.decoders, &mut self.decoded, bytes, options)?;
        Ok((header, &self.decoded[..Region::whole(&header).bytes()]))
    }

    /// Decodes a file into `tensor` as `options` want it, and returns width and height of what it wrote there.
    ///
    /// # Errors
    ///
    /// As [`ImageWork::decode`], and if the image does not fit the tensor.
    pub(crate) fn write(
        &mut self,
        bytes: &[u8],
        options: &ImageOptions,
        tensor: &mut TensorMut<'_>,
    ) -> Result<(usize, usize)> {
        let header = decode(&mut self.decoders, &mut self.decoded, bytes, options)?;
        let decoded = &self.decoded[..Region::whole(&header).bytes()];
        let plan = Plan::new(&header, options.size, options.fit);
        plan.check(&header, options.max_pixels)?;
        let (width, height) = header.orientation.turn((plan.width, plan.height));
        let (width, height) = (width as usize, height as usize);

        let is_final = header.orientation.is_upright()
            && options.colour == ImageColour::Rgb
            && options.order == PixelOrder::Nhwc
            && tensor.dtype() == DType::U8
            && tensor.affine().is_none()
            && tensor.shape() == [height, width, 3];
        let resized = match plan.is_identity(&header) {
            true => decoded,
            // What the resizer gives is already what the tensor holds.
            false if is_final => {
                self.resizer.resize(&header, decoded, &plan, tensor.bytes_mut())?;
                return Ok((width, height));
            }
            false => {
                let resized = resize_buffer(&mut self.resized, plan.bytes());
                self.resizer.resize(&header, decoded, &plan, resized)?;
                resized
            }
        };
        let upright = if header.orientation.is_upright() {
            resized
        } else {
            let upright = resize_buffer(&mut self.upright, plan.bytes());
            turn_upright(resized, plan.width as usize, header.orientation, upright);
            upright
        };
        let pixels = match options.colour {
            ImageColour::Rgb => upright,
            ImageColour::Grey => {
                let grey = resize_buffer(&mut self.grey, width * height);
                to_grey(upright, grey);
                grey
            }
        };
        write_pixels(pixels, (width, height), options.colour.channels(), options.order, tensor)?;
        Ok((width, height))
    }
}

fn decode(decoders: &mut Decoders, decoded: &mut Vec<u8>, bytes: &[u8], options: &ImageOptions) -> Result<Header> {
    let header = header(bytes)?;
    header.check(options.max_pixels)?;
    check_whole(bytes, header.format)?;
    let region = Region::whole(&header);
    let into = resize_buffer(decoded, region.bytes());
    decoders.of(header.format, options.jpeg).decode(bytes, &header, region, into)?;
    Ok(header)
}
