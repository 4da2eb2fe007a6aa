//! Segmentation maps: one class number per pixel. Numbers are moved, never mixed.

use super::augment::ImageAugment;
use super::augment::keyed;
use super::boxes::crop_box;
use super::change::Change;
use super::decoder::{held, resize_buffer};
use super::jitter::Jitter;
use super::options::{CropFit, ImageOptions};
use super::resize::{Cut, centre};
use super::rotate::rotate_nearest;
use super::stored::{Header, ImageFormat};
use crate::decode::write_finite;
use crate::dtype::{DType, NumberSlice};
use crate::error::{Error, ErrorKind, Result};
use crate::random::RandomKey;
use crate::row::TensorMut;

/// The error for a file that is not a map.
#[cold]
pub(super) fn not_a_map(header: &Header) -> Error {
    let message = match header.format {
        ImageFormat::Jpeg => "a JPEG changes values, and so can't hold a map of indices; save maps as PNG, or read \
                                     it with colour = \"grey\""
            .to_owned(),
        format => format!(
            "a {} of {} channels; a map of indices has one, a palette or grey of up to 16 bits: turn its colours into \
             indices and save them as PNG",
            format.as_str(),
            header.channels
        ),
    };
    Error::new(ErrorKind::Format, message)
}

/// A map on its way to the tensor. The values of a file have 16 bits; those of a tensor are moved as the
/// bytes of their type.
#[derive(Default)]
pub(super) struct Map<V = u16> {
    stored: Vec<V>,
    values: Vec<V>,
    spare: Vec<V>,
    columns: Vec<usize>,
    rows: Vec<usize>,
}

impl<V> Map<V> {
    /// The most bytes that a map of this size holds: as stored, in their places, and once more to move them.
    pub(super) fn memory(header: &Header) -> u64 {
        let places = (u64::from(header.width) + u64::from(header.height)) * size_of::<usize>() as u64;
        3 * u64::from(header.width) * u64::from(header.height) * size_of::<V>() as u64 + places
    }

    /// Bytes of memory, beside those of a row and a column.
    pub(super) fn held(&self) -> u64 {
        held(&self.stored) + held(&self.values) + held(&self.spare)
    }
}

/// The positions along a side that are taken: the `length` pixels after `start` are resized to `full`, and the `count`
/// pixels after `skipped` of them are used.
struct Line {
    start: u32,
    length: u32,
    full: u64,
    skipped: u64,
    count: u32,
}

impl Line {
    /// For each pixel, the pixel that contains its centre: `nearest-exact` of PyTorch.
    fn places(&self, into: &mut Vec<usize>) {
        into.clear();
        into.extend((0..u64::from(self.count)).map(|at| {
            let middle = u128::from(2 * (self.skipped + at) + 1) * u128::from(self.length);
            self.start as usize + (middle / (2 * u128::from(self.full))) as usize
        }));
    }
}

impl Map {
    /// Resizes the stored values, applies the operations that move pixels, and writes the result. Returns width and
    /// height.
    pub(super) fn write(
        &mut self,
        header: &Header,
        options: &ImageOptions,
        key: RandomKey,
        jitter: Option<Jitter>,
        tensor: &mut TensorMut<'_>,
    ) -> Result<(usize, usize)> {
        let size = self.draw(header, options, key, jitter, u16::from);
        self.write_values(size, tensor)?;
        Ok(size)
    }

    /// Writes the values to the upper left of `tensor`, and zeros to the rest.
    fn write_values(&self, (width, height): (usize, usize), tensor: &mut TensorMut<'_>) -> Result<()> {
        let &[out_height, out_width] = tensor.shape() else {
            return Err(Error::new(ErrorKind::Schema, "a map of indices has a tensor of [height, width]"));
        };
        if out_height < height || out_width < width {
            let message = format!(
                "a map of {width} x {height} pixels does not fit a tensor of shape {:?}; did the file change since it was \
                 measured?",
                tensor.shape()
            );
            return Err(Error::new(ErrorKind::Data, message));
        }
        let most = tensor.dtype().int_range().map_or(i128::MAX, |(_, most)| most);
        if let Some(at) = self.values.iter().position(|value| i128::from(*value) > most) {
            let message = format!(
                "the value {} at column {}, row {} of the upright map does not fit {}; set dtype to \"i32\" or \"i64\"",
                self.values[at],
                at % width,
                at / width,
                tensor.dtype()
            );
            return Err(Error::new(ErrorKind::Data, message).at_column(&tensor.spec().name));
        }
        if (out_width, out_height) != (width, height) {
            tensor.bytes_mut().fill(0);
        }
        let is_plain = tensor.affine().is_none() && tensor.dtype() == DType::U8;
        for (y, row) in self.values.chunks_exact(width).enumerate() {
            if is_plain {
                let target = &mut tensor.bytes_mut()[y * out_width..][..width];
                target.iter_mut().zip(row).for_each(|(into, value)| *into = *value as u8);
            } else {
                write_finite(tensor, y * out_width, NumberSlice::U16(row))?;
            }
        }
        Ok(())
    }
}

impl Map<u64> {
    /// Does the same with the values of `tensor`, which has integers and the size of the result.
    pub(super) fn change(
        &mut self,
        header: &Header,
        options: &ImageOptions,
        key: RandomKey,
        jitter: Option<Jitter>,
        tensor: &mut TensorMut<'_>,
    ) {
        let width = tensor.dtype().bytes();
        let bits = |bytes: &[u8]| {
            let mut value = [0; 8];
            value[..width].copy_from_slice(bytes);
            u64::from_ne_bytes(value)
        };
        let values = tensor.bytes_mut().chunks_exact(width);
        self.stored_mut(header).iter_mut().zip(values).for_each(|(value, bytes)| *value = bits(bytes));
        let fill = |class| {
            let mut value = [0; 8];
            value[if cfg!(target_endian = "big") { width - 1 } else { 0 }] = class;
            bits(&value[..width])
        };
        self.draw(header, options, key, jitter, fill);
        for (bytes, value) in tensor.bytes_mut().chunks_exact_mut(width).zip(&self.values) {
            bytes.copy_from_slice(&value.to_ne_bytes()[..width]);
        }
    }
}

impl<V: Copy + Default> Map<V> {
    /// Room for the values of all pixels as they are stored.
    pub(super) fn stored_mut(&mut self, header: &Header) -> &mut [V] {
        resize_buffer(&mut self.stored, header.width as usize * header.height as usize)
    }

    /// Resizes the stored values, and applies the operations that move pixels. Returns width and height.
    fn draw(
        &mut self,
        header: &Header,
        options: &ImageOptions,
        key: RandomKey,
        jitter: Option<Jitter>,
        fill: impl Fn(u8) -> V,
    ) -> (usize, usize) {
        let (width, height) = match jitter {
            None => self.resize(header, options, key),
            Some(jitter) => self.resize_jittered(header, &jitter, fill(jitter.fill[0])),
        };
        for (operation, key) in keyed(&options.augment, key) {
            operation.draw(key, (width as u32, height as u32), &mut |change| self.apply(change, (width, height)));
        }
        (width, height)
    }

    /// Applies a change if it moves pixels; pixels from outside are zeros.
    fn apply(&mut self, change: Change, size: (usize, usize)) {
        let (width, height) = size;
        match change {
            Change::Mirror => self.values.chunks_exact_mut(width).for_each(<[V]>::reverse),
            Change::UpsideDown => {
                for y in 0..height / 2 {
                    let (above, below) = self.values.split_at_mut((height - 1 - y) * width);
                    above[y * width..][..width].swap_with_slice(&mut below[..width]);
                }
            }
            Change::Rotate(degrees, _) => self.redraw(|from, into| rotate_nearest(from, size, degrees, into)),
            Change::Warp(warp) => self.redraw(|from, into| warp.nearest(from, size, V::default(), into)),
            Change::Shift(shift) => self.redraw(|from, into| shift.apply(from, size, V::default(), into)),
            _ => {}
        }
    }

    fn redraw(&mut self, draw: impl FnOnce(&[V], &mut [V])) {
        self.spare.clear();
        self.spare.reserve_exact(self.values.len());
        self.spare.resize(self.values.len(), V::default());
        draw(&self.values, &mut self.spare);
        std::mem::swap(&mut self.values, &mut self.spare);
    }

    /// Takes the upright values of a map that is scaled at random, and puts them at their position in the result. The
    /// first number of the fill colour surrounds them.
    fn resize_jittered(&mut self, header: &Header, jitter: &Jitter, fill: V) -> (usize, usize) {
        let (width, height) = header.upright_size();
        let (Cut { full, skipped }, part) = (jitter.cut, jitter.part);
        let across = Line { start: 0, length: width, full: full.0, skipped: skipped.0, count: part.0 };
        let down = Line { start: 0, length: height, full: full.1, skipped: skipped.1, count: part.1 };
        self.take(header, &across, &down);
        let (result_width, result_height) = (jitter.result.0 as usize, jitter.result.1 as usize);
        if jitter.is_padded() {
            self.spare.clear();
            self.spare.reserve_exact(result_width * result_height);
            self.spare.resize(result_width * result_height, fill);
            let rows = self.values.chunks_exact(part.0 as usize);
            let places = self.spare.chunks_exact_mut(result_width).skip(jitter.at.1 as usize);
            for (into, row) in places.zip(rows) {
                into[jitter.at.0 as usize..][..row.len()].copy_from_slice(row);
            }
            std::mem::swap(&mut self.values, &mut self.spare);
        }
        (result_width, result_height)
    }

    /// Takes the wanted upright values from the stored ones.
    fn resize(&mut self, header: &Header, options: &ImageOptions, key: RandomKey) -> (usize, usize) {
        let (upright_width, upright_height) = header.upright_size();
        let (height, width) = options.size.unwrap_or((upright_height, upright_width));
        let line = |length: u32, count: u32| Line { start: 0, length, full: count.into(), skipped: 0, count };
        let (mut across, mut down) = (line(upright_width, width), line(upright_height, height));
        if let CropFit::CenterCrop { shorter } = options.fit {
            let Cut { full, skipped } = centre((upright_width, upright_height), shorter, (width, height));
            (across.full, down.full) = full;
            (across.skipped, down.skipped) = skipped;
        }
        if let Some((ImageAugment::RandomResizedCrop { scale, ratio }, key)) = keyed(&options.augment, key).next() {
            let region = crop_box((upright_width, upright_height), *scale, *ratio, key);
            (across.start, across.length) = (region.x, region.width);
            (down.start, down.length) = (region.y, region.height);
        }
        self.take(header, &across, &down);
        (width as usize, height as usize)
    }

    /// Takes the upright values at these positions from the stored ones.
    fn take(&mut self, header: &Header, across: &Line, down: &Line) {
        across.places(&mut self.columns);
        down.places(&mut self.rows);
        // A step to the right in the upright map is a step along a stored row, or from one stored row to the next.
        let (stored_width, stored_height) = (header.width as usize, header.height as usize);
        let orientation = header.orientation;
        let (along_x, along_y) =
            if orientation.swap { (&mut self.rows, &mut self.columns) } else { (&mut self.columns, &mut self.rows) };
        along_x.iter_mut().filter(|_| orientation.flip_x).for_each(|x| *x = stored_width - 1 - *x);
        along_y.iter_mut().filter(|_| orientation.flip_y).for_each(|y| *y = stored_height - 1 - *y);
        along_y.iter_mut().for_each(|y| *y *= stored_width);
        self.values.clear();
        self.values.reserve_exact(self.rows.len() * self.columns.len());
        for row in &self.rows {
            self.values.extend(self.columns.iter().map(|column| self.stored[row + column]));
        }
    }
}
