use super::order::PixelOrder;
use crate::decode::FromF32;
use crate::decode::fused::{scale_all, scale_pixels, scale_planes};

/// How interleaved rows of pixels are stored in a tensor; `mirrored` is only possible for three planes.
#[derive(Clone, Copy)]
pub(crate) struct Rows {
    pub(crate) width: usize,
    pub(crate) out_width: usize,
    pub(crate) plane: usize,
    pub(crate) channels: usize,
    pub(crate) mirrored: bool,
}

/// Writes pixels of one or three channels as `fma(x, scale, bias)`, a part of a row at a time, rounded.
pub(crate) fn write_rounded<H: FromF32>(
    target: &mut [H],
    pixels: &[u8],
    factors: Option<([f32; 3], [f32; 3])>,
    order: PixelOrder,
    Rows { width, out_width, plane, channels, mirrored }: Rows,
) {
    const COLUMNS: usize = 128;
    let (scale, bias) = factors.unwrap_or(([1.0; 3], [0.0; 3]));
    let mut numbers = [[0f32; COLUMNS]; 3];
    for (y, row) in pixels.chunks_exact(width * channels).enumerate() {
        for start in (0..width).step_by(COLUMNS) {
            let end = width.min(start + COLUMNS);
            let (pixels, count) = (&row[start * channels..end * channels], end - start);
            if let (PixelOrder::Nchw, 3) = (order, channels) {
                let planes = numbers.each_mut().map(|plane| &mut plane[..count]);
                scale_planes(planes, pixels, mirrored, scale, bias);
                let x = if mirrored { width - end } else { start };
                for (c, numbers) in numbers.iter().enumerate() {
                    H::from_f32s(&numbers[..count], &mut target[c * plane + y * out_width + x..][..count]);
                }
            } else {
                let numbers = &mut numbers.as_flattened_mut()[..pixels.len()];
                match channels {
                    3 => scale_pixels(numbers, pixels, scale, bias),
                    _ => scale_all(numbers, pixels, scale[0], bias[0], f32::from),
                }
                let at = (y * out_width + start) * channels;
                H::from_f32s(numbers, &mut target[at..][..numbers.len()]);
            }
        }
    }
}
