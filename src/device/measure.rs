use std::collections::VecDeque;
use std::rc::Rc;
use std::time::Instant;

use crate::decode::PixelOrder;
use crate::dtype::DType;
use crate::error::{Error, ErrorKind, Result};
use crate::layout::TENSOR_ALIGNMENT;
use crate::memory::PageSource;

use super::Device;
use super::convert::{FloatType, ImageWork, MAX_CHANNELS, Work};
use super::engine::{Engine, KEY};
use super::flight::{Flight, Piece};
use super::slot::Slot;

/// Copies or conversions that are under way at once.
const QUEUED: usize = 2;

/// Throughput of `device` in bytes per second when it copies from memory of `pages`: `copies` copies of `bytes` bytes,
/// one after the other, two queued. An upload can't be faster than this.
///
/// # Errors
///
/// [`ErrorKind::Device`] if the device refuses; errors of `pages`.
pub fn copy_rate<D: Device>(device: &D, pages: &dyn PageSource, bytes: usize, copies: usize) -> Result<f64> {
    let blocks = [Rc::new(pages.allocate(bytes)?), Rc::new(pages.allocate(bytes)?)];
    if let Some(short) = blocks.iter().find(|block| block.len() < bytes) {
        let message = format!("the page source gave {} bytes instead of {bytes}", short.len());
        return Err(Error::new(ErrorKind::Io, message));
    }
    let (engine, stream) = (device.engine(KEY), device.stream()?);
    let mut slot = Slot::new(engine, &stream, &stream)?;
    slot.begin(bytes)?;
    // Dropped before the slot, because each waits for its copy.
    let mut flights = VecDeque::with_capacity(QUEUED);
    let seconds = timed(engine, copies, |turn| {
        let oldest = if flights.len() == QUEUED { flights.pop_front() } else { None };
        let event = oldest.map_or_else(|| engine.event(), Flight::land)?;
        let piece = Piece { block: blocks[turn % blocks.len()].clone(), bytes };
        flights.push_back(Flight::start(piece, &slot, event)?);
        Ok(())
    })?;
    Ok(copies as f64 * bytes as f64 / seconds)
}

/// Bytes per second, read and written, of converting `images` images of three interleaved channels of `side` x `side`
/// bytes to planes of type `to` (`f32`, `f16` or `bf16`), `repeats` times one after the other.
///
/// # Errors
///
/// [`ErrorKind::Device`] if the device refuses, [`ErrorKind::Limit`] if the images have more bytes than memory,
/// [`ErrorKind::Unsupported`] for another type.
pub fn convert_rate<D: Device>(device: &D, to: DType, images: usize, side: usize, repeats: usize) -> Result<f64> {
    let width = to.bytes();
    let Some(to) = FloatType::of(to) else {
        return Err(Error::new(ErrorKind::Unsupported, format!("a device gives f32, f16 or bf16, not {to}")));
    };
    let sizes = || {
        let values = images.checked_mul(side)?.checked_mul(side)?.checked_mul(3)?;
        let output = values.checked_next_multiple_of(TENSOR_ALIGNMENT)?;
        let bytes = output.checked_add(values.checked_mul(width)?)?;
        (bytes <= isize::MAX as usize).then_some((values, output, bytes))
    };
    let Some((values, output, bytes)) = sizes() else {
        let message = format!("{images} images of {side} x {side} pixels have more bytes than memory");
        return Err(Error::new(ErrorKind::Limit, message));
    };
    let (engine, stream) = (device.engine(KEY), device.stream()?);
    let mut slot = Slot::new(engine, &stream, &stream)?;
    slot.begin(bytes)?;
    slot.about.works.push(Work::Image(ImageWork {
        input: 0,
        flags: None,
        output,
        images,
        height: side,
        width: side,
        channels: 3,
        from: PixelOrder::Nhwc,
        order: PixelOrder::Nchw,
        to,
        scale: [1.0 / 255.0; MAX_CHANNELS],
        bias: [-0.5; MAX_CHANNELS],
    }));
    let ends = [engine.event()?, engine.event()?];
    let seconds = timed(engine, repeats, |turn| {
        let end = &ends[turn % QUEUED];
        engine.block_on(end)?;
        slot.convert(None)?;
        engine.record(end, &stream)
    })?;
    Ok(repeats as f64 * (values as f64 + (values * width) as f64) / seconds)
}

/// Time of `turns` turns in seconds, including everything that they start on the device.
fn timed(engine: &impl Engine, turns: usize, mut turn: impl FnMut(usize) -> Result<()>) -> Result<f64> {
    // The first turns warm up caches and clocks.
    (0..QUEUED).try_for_each(&mut turn)?;
    engine.settle()?;
    let begin = Instant::now();
    (0..turns).try_for_each(turn)?;
    engine.settle()?;
    Ok(begin.elapsed().as_secs_f64())
}
