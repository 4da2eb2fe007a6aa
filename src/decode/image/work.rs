use std::panic::{AssertUnwindSafe, catch_unwind};

use super::augment::keyed;
use super::boxes::{crop_box, erase_box, uniform};
use super::colour::Jitter;
use super::container::{check_whole, header};
use super::pixels::{fill, to_grey, turn_upright, write_pixels};
use super::resize::{Bilinear, Plan};
use super::rotate::rotate;
use super::{
    Decoders, Header, ImageAugment, ImageColour, ImageOptions, Orientation, PixelOrder, Region, resize_buffer,
};
use crate::dtype::DType;
use crate::error::{Error, ErrorKind, Result};
use crate::random::RandomKey;
use crate::row::TensorMut;

/// One worker's way from a file's bytes to a tensor: its decoders and buffers, reused from image to image.
#[derive(Default)]
pub(crate) struct ImageWork {
    decoders: Decoders,
    resizer: Bilinear,
    decoded: Vec<u8>,
    resized: Vec<u8>,
    /// What pixels move to when they change places.
    moved: Vec<u8>,
    grey: Vec<u8>,
}

impl ImageWork {
    /// Decodes a file as 8-bit RGB: as stored, neither resized nor turned.
    ///
    /// # Errors
    ///
    /// Those of the format; [`ErrorKind::Limit`](crate::ErrorKind::Limit) with too many pixels.
    pub(crate) fn decode(&mut self, bytes: &[u8], options: &ImageOptions) -> Result<(Header, &[u8])> {
        let header = checked_header(bytes, options)?;
        let whole = Region::whole(&header);
        let pixels = decode(&mut self.decoders, &mut self.decoded, bytes, &header, whole, options)?;
        Ok((header, pixels))
    }

    /// Decodes a file into `tensor` as `options` want it, and returns width and height of what it wrote there. Random
    /// operations draw under `key`.
    ///
    /// # Errors
    ///
    /// As [`ImageWork::decode`], and if the image does not fit the tensor.
    pub(crate) fn write(
        &mut self,
        bytes: &[u8],
        options: &ImageOptions,
        key: RandomKey,
        tensor: &mut TensorMut<'_>,
    ) -> Result<(usize, usize)> {
        let header = checked_header(bytes, options)?;
        let taken = taken(&header, options, key);
        let decoded = decode(&mut self.decoders, &mut self.decoded, bytes, &header, taken, options)?;
        // From here on, what was taken is the picture.
        let header = Header { width: taken.width, height: taken.height, ..header };
        let plan = Plan::new(&header, options.size, options.fit);
        plan.check(&header, options.max_pixels)?;
        let (width, height) = header.orientation.turn((plan.width, plan.height));
        let (width, height) = (width as usize, height as usize);

        let is_final = header.orientation.is_upright()
            && options.augment.iter().all(|operation| matches!(operation, ImageAugment::RandomResizedCrop { .. }))
            && options.colour == ImageColour::Rgb
            && options.order == PixelOrder::Nhwc
            && tensor.dtype() == DType::U8
            && tensor.affine().is_none()
            && tensor.shape() == [height, width, 3];
        let pixels = match plan.is_identity(&header) {
            true => &mut self.decoded,
            // What the resizer gives is already what the tensor holds.
            false if is_final => {
                self.resizer.resize(&header, decoded, &plan, tensor.bytes_mut())?;
                return Ok((width, height));
            }
            false => {
                self.resizer.resize(&header, decoded, &plan, resize_buffer(&mut self.resized, plan.bytes()))?;
                &mut self.resized
            }
        };
        let size = (plan.width, plan.height);
        let mut picture = Picture { pixels, spare: &mut self.moved, size, orientation: header.orientation };
        for (operation, key) in keyed(&options.augment, key) {
            picture.augment(operation, key);
        }
        let upright = picture.upright();
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

/// An image between its operations.
struct Picture<'a> {
    pixels: &'a mut Vec<u8>,
    spare: &'a mut Vec<u8>,
    /// Width and height of the pixels as they lie.
    size: (u32, u32),
    /// How they are still to be turned: flips wait here and go with the turning upright.
    orientation: Orientation,
}

impl Picture<'_> {
    /// Carries out one operation. (The crop was chosen before decoding.)
    fn augment(&mut self, operation: &ImageAugment, key: RandomKey) {
        let happens = |probability: f64| key.unit(u64::MAX) < probability;
        match *operation {
            ImageAugment::HorizontalFlip { probability } if happens(probability) => {
                self.orientation = self.orientation.mirrored();
            }
            ImageAugment::VerticalFlip { probability } if happens(probability) => {
                self.orientation = self.orientation.upside_down();
            }
            ImageAugment::ColourJitter { brightness, contrast, saturation, hue } => {
                let bytes = self.bytes();
                Jitter { brightness, contrast, saturation, hue }.apply(&mut self.pixels[..bytes], key);
            }
            ImageAugment::RandomErasing { probability, scale, ratio, value } if happens(probability) => {
                self.upright();
                if let Some(region) = erase_box(self.size, scale, ratio, key) {
                    let bytes = self.bytes();
                    fill(&mut self.pixels[..bytes], self.size.0 as usize, region, value);
                }
            }
            ImageAugment::Rotation { degrees, interpolation } => {
                let angle = uniform((-degrees, degrees), key.unit(0));
                self.upright();
                let size = (self.size.0 as usize, self.size.1 as usize);
                self.redraw(|from, into| rotate(from, size, angle, interpolation, into));
            }
            _ => {}
        }
    }

    /// Turns the pixels upright, if they are not.
    fn upright(&mut self) -> &[u8] {
        let orientation = std::mem::take(&mut self.orientation);
        if !orientation.is_upright() {
            let width = self.size.0 as usize;
            self.redraw(|from, into| turn_upright(from, width, orientation, into));
            self.size = orientation.turn(self.size);
        }
        &self.pixels[..self.bytes()]
    }

    /// Makes new pixels from the present ones.
    fn redraw(&mut self, draw: impl FnOnce(&[u8], &mut [u8])) {
        let bytes = self.bytes();
        draw(&self.pixels[..bytes], resize_buffer(self.spare, bytes));
        std::mem::swap(&mut self.pixels, &mut self.spare);
    }

    fn bytes(&self) -> usize {
        self.size.0 as usize * self.size.1 as usize * 3
    }
}

fn checked_header(bytes: &[u8], options: &ImageOptions) -> Result<Header> {
    let header = header(bytes)?;
    header.check(options.max_pixels)?;
    check_whole(bytes, header.format)?;
    Ok(header)
}

/// The part of the stored image that is decoded: all of it, or the box of a random crop.
fn taken(header: &Header, options: &ImageOptions, key: RandomKey) -> Region {
    match keyed(&options.augment, key).next() {
        Some((ImageAugment::RandomResizedCrop { scale, ratio }, key)) => {
            let upright = crop_box(header.upright_size(), *scale, *ratio, key);
            header.orientation.stored(upright, (header.width, header.height))
        }
        _ => Region::whole(header),
    }
}

fn decode<'a>(
    decoders: &mut Decoders,
    decoded: &'a mut Vec<u8>,
    bytes: &[u8],
    header: &Header,
    region: Region,
    options: &ImageOptions,
) -> Result<&'a [u8]> {
    let into = resize_buffer(decoded, region.bytes());
    let decoder = decoders.of(header.format, options.jpeg);
    // Some damage makes a decoder panic where it should give an error: it is still the file that is bad.
    catch_unwind(AssertUnwindSafe(|| decoder.decode(bytes, header, region, into))).unwrap_or_else(|panic| {
        let panic = Error::from_panic(&*panic);
        let message = format!("damaged, or of a kind that its decoder can't take: it {}", panic.message());
        Err(Error::new(ErrorKind::Format, message))
    })?;
    Ok(into)
}
