//! From upright 8-bit pixels to a tensor: colour, order of dimensions, type and transformation in one pass.

use super::colour::grey;
use super::order::PixelOrder;
use super::rows::{Rows, write_rounded};
use super::stored::{Orientation, Region};
use crate::decode::fused::{scale_all, scale_pixels, scale_planes, split_planes};
use crate::decode::write_numbers;
use crate::dtype::{DType, NumberSlice};
use crate::error::{Error, ErrorKind, Result};
use crate::float16::{bf16, f16};
use crate::row::TensorMut;

/// Turns the stored pixels `from`, of `N` bytes each and `width` per row, upright.
pub(super) fn turn_upright<const N: usize>(from: &[u8], width: usize, orientation: Orientation, into: &mut [u8]) {
    let (from, _) = from.as_chunks::<N>();
    let (into, _) = into.as_chunks_mut::<N>();
    let height = from.len() / width;
    let upright_width = if orientation.swap { height } else { width };
    for (y, row) in into.chunks_exact_mut(upright_width).enumerate() {
        // A step along the upright row is a step along a stored row, or from one stored row to the next.
        let stored = |x: usize| {
            let (x, y) = if orientation.swap { (y, x) } else { (x, y) };
            let x = if orientation.flip_x { width - 1 - x } else { x };
            let y = if orientation.flip_y { height - 1 - y } else { y };
            y * width + x
        };
        for (x, pixel) in row.iter_mut().enumerate() {
            *pixel = from[stored(x)];
        }
    }
}

/// One channel of luma.
pub(super) fn to_grey(rgb: &[u8], into: &mut [u8]) {
    let (pixels, _) = rgb.as_chunks::<3>();
    for (into, pixel) in into.iter_mut().zip(pixels) {
        *into = grey(*pixel);
    }
}

/// Fills a box of an image of `width` with one colour.
pub(super) fn fill(pixels: &mut [u8], width: usize, region: Region, colour: [u8; 3]) {
    let (pixels, _) = pixels.as_chunks_mut::<3>();
    for row in pixels.chunks_exact_mut(width).skip(region.y as usize).take(region.height as usize) {
        row[region.x as usize..][..region.width as usize].fill(colour);
    }
}

/// Writes upright pixels of `channels` bytes to the upper left of `tensor`, and zeros to the rest.
pub(super) fn write_pixels(
    pixels: &[u8],
    size: (usize, usize),
    channels: usize,
    order: PixelOrder,
    tensor: &mut TensorMut<'_>,
) -> Result<()> {
    write(pixels, false, size, channels, order, tensor)
}

/// Writes upright RGB pixels to the planes of `tensor`, with left and right exchanged.
pub(super) fn write_mirrored(pixels: &[u8], size: (usize, usize), tensor: &mut TensorMut<'_>) -> Result<()> {
    write(pixels, true, size, 3, PixelOrder::Nchw, tensor)
}

/// `mirrored` is only possible for three planes.
fn write(
    pixels: &[u8],
    mirrored: bool,
    (width, height): (usize, usize),
    channels: usize,
    order: PixelOrder,
    tensor: &mut TensorMut<'_>,
) -> Result<()> {
    let (out_height, out_width, out_channels) = match (order, tensor.shape()) {
        (PixelOrder::Nchw, [channels, height, width]) => (*height, *width, *channels),
        (PixelOrder::Nhwc, [height, width, channels]) => (*height, *width, *channels),
        (_, [height, width]) => (*height, *width, 1),
        _ => (0, 0, 0),
    };
    if out_channels != channels || out_height < height || out_width < width {
        let message = format!(
            "{width} x {height} pixels of {channels} channels do not fit a tensor of shape {:?}; \
             did the file change since it was measured?",
            tensor.shape()
        );
        return Err(Error::new(ErrorKind::Data, message));
    }
    if (out_width, out_height) != (width, height) {
        tensor.bytes_mut().fill(0);
    }
    let plane = out_width * out_height;
    let place = Rows { width, out_width, plane, channels, mirrored };
    let factors = tensor.affine().map(|affine| (affine, channel_factors(affine, order, channels)));
    match (tensor.dtype(), factors) {
        (DType::U8, None) => {
            let target = tensor.bytes_mut();
            match (order, channels) {
                (PixelOrder::Nchw, 3) => {
                    let planes = split_three(target, plane);
                    rows(planes, pixels, (width, out_width), mirrored, |planes, row| {
                        split_planes(planes, row, mirrored);
                    });
                }
                _ => {
                    let (row, out_row) = (width * channels, out_width * channels);
                    for (target, pixels) in target.chunks_exact_mut(out_row).zip(pixels.chunks_exact(row)) {
                        target[..row].copy_from_slice(pixels);
                    }
                }
            }
            Ok(())
        }
        (DType::F32, None | Some((_, Some(_)))) => {
            let (scale, bias) = factors.and_then(|(_, factors)| factors).unwrap_or(([1.0; 3], [0.0; 3]));
            let target = tensor.as_mut_slice::<f32>()?;
            match (order, channels) {
                (PixelOrder::Nchw, 3) => {
                    let planes = split_three(target, plane);
                    rows(planes, pixels, (width, out_width), mirrored, |planes, row| {
                        scale_planes(planes, row, mirrored, scale, bias);
                    });
                }
                _ => {
                    let (row, out_row) = (width * channels, out_width * channels);
                    for (target, pixels) in target.chunks_exact_mut(out_row).zip(pixels.chunks_exact(row)) {
                        match channels {
                            3 => scale_pixels(&mut target[..row], pixels, scale, bias),
                            _ => scale_all(&mut target[..row], pixels, scale[0], bias[0], f32::from),
                        }
                    }
                }
            }
            Ok(())
        }
        (DType::F16, None | Some((_, Some(_)))) => {
            let target = tensor.as_mut_slice::<f16>()?;
            write_rounded(target, pixels, factors.and_then(|(_, factors)| factors), order, place);
            Ok(())
        }
        (DType::Bf16, None | Some((_, Some(_)))) => {
            let target = tensor.as_mut_slice::<bf16>()?;
            write_rounded(target, pixels, factors.and_then(|(_, factors)| factors), order, place);
            Ok(())
        }
        // Factors per row or column, or other types are rare, and have no loop of their own.
        _ => {
            for y in 0..height {
                for x in 0..width {
                    for c in 0..channels {
                        let at = match order {
                            PixelOrder::Nchw => c * plane + y * out_width + x,
                            PixelOrder::Nhwc => (y * out_width + x) * channels + c,
                        };
                        let x_from = if mirrored { width - 1 - x } else { x };
                        let value = &pixels[(y * width + x_from) * channels + c..][..1];
                        write_numbers(tensor, at, NumberSlice::U8(value))?;
                    }
                }
            }
            Ok(())
        }
    }
}

/// Scale and bias of each channel, if they do not depend on anything else.
fn channel_factors(affine: &crate::schema::Affine, order: PixelOrder, channels: usize) -> Option<([f32; 3], [f32; 3])> {
    let channel_axis = match order {
        PixelOrder::Nchw => 0,
        PixelOrder::Nhwc => 2,
    };
    let pick = |values: &[f32]| match affine.axis {
        None => values.first().map(|value| [*value; 3]),
        Some(axis) if axis == channel_axis && values.len() == channels => {
            Some(std::array::from_fn(|c| values[c.min(channels - 1)]))
        }
        Some(_) => None,
    };
    Some((pick(&affine.scale)?, pick(&affine.bias)?))
}

fn split_three<T>(target: &mut [T], plane: usize) -> [&mut [T]; 3] {
    let (red, rest) = target.split_at_mut(plane);
    let (green, blue) = rest.split_at_mut(plane);
    [red, green, blue]
}

/// Calls `write` for the whole image at once, or row by row if rows are padded or reversed.
fn rows<T>(
    [red, green, blue]: [&mut [T]; 3],
    pixels: &[u8],
    (width, out_width): (usize, usize),
    mirrored: bool,
    write: impl Fn([&mut [T]; 3], &[u8]),
) {
    if width == out_width && !mirrored {
        let count = pixels.len() / 3;
        return write([&mut red[..count], &mut green[..count], &mut blue[..count]], pixels);
    }
    let planes =
        red.chunks_exact_mut(out_width).zip(green.chunks_exact_mut(out_width)).zip(blue.chunks_exact_mut(out_width));
    for (((red, green), blue), pixels) in planes.zip(pixels.chunks_exact(width * 3)) {
        write([&mut red[..width], &mut green[..width], &mut blue[..width]], pixels);
    }
}
