use std::time::Instant;

use crate::decode::PixelOrder;
use crate::error::Result;
use crate::memory::PageSource;

use super::Device;
use super::convert::{FloatType, ImageWork, MAX_CHANNELS, Work};

/// Bytes a second that `device` copies plainly from memory of `pages`: `copies` copies of `bytes` bytes, one after the
/// other, two queued. What an upload can reach at best.
///
/// # Errors
///
/// [`ErrorKind::Device`](crate::ErrorKind::Device) if the device refuses, and what `pages` says.
pub fn copy_rate<D: Device>(device: &D, pages: &dyn PageSource, bytes: usize, copies: usize) -> Result<f64> {
    let from = [pages.allocate(bytes)?, pages.allocate(bytes)?];
    let seconds = timed(device, bytes, copies, |turn, to, stream| {
        // SAFETY: `timed` keeps the target until the device has settled, and has nothing else use it; so are the sources.
        unsafe { device.copy_in(&from[turn % 2].as_slice()[..bytes], to, stream) }
    });
    Ok((copies * bytes) as f64 / seconds?)
}

/// Bytes a second, read and written, of the conversion of `images` images of three channels of `side` x `side` bytes,
/// interleaved, to planes of `to`: one after the other, `repeats` times.
///
/// # Errors
///
/// [`ErrorKind::Device`](crate::ErrorKind::Device) if the device refuses.
pub fn convert_rate<D: Device>(device: &D, to: FloatType, images: usize, side: usize, repeats: usize) -> Result<f64> {
    let values = images * side * side * 3;
    let output = values.next_multiple_of(crate::layout::TENSOR_ALIGNMENT);
    let bytes = output + values * crate::dtype::DType::from(to).bytes();
    let work = Work::Image(ImageWork {
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
    });
    let seconds = timed(device, bytes, repeats, |_, memory, stream| {
        // SAFETY: the memory has room for input and output, stays until the device has settled, and nothing else uses it.
        unsafe { device.convert(&work, memory, stream) }
    });
    Ok((repeats * (bytes - (output - values))) as f64 / seconds?)
}

/// Seconds that `turns` turns of `work` take in device memory of `bytes` bytes, two queued.
fn timed<D: Device>(
    device: &D,
    bytes: usize,
    turns: usize,
    work: impl Fn(usize, &D::Memory, &D::Stream) -> Result<()>,
) -> Result<f64> {
    let stream = device.stream()?;
    let events = [device.event()?, device.event()?];
    let memory = device.allocate(bytes, &stream)?;
    let turn = |turn: usize| {
        work(turn, &memory, &stream)?;
        device.record(&events[turn % 2], &stream)
    };
    let run = || {
        // The first turns warm caches and clocks up.
        (0..2).try_for_each(turn)?;
        device.settle()?;
        let begin = Instant::now();
        for number in 0..turns {
            if number >= 2 {
                device.block_on(&events[number % 2])?;
            }
            turn(number)?;
        }
        device.settle()?;
        Ok(begin.elapsed().as_secs_f64())
    };
    let seconds = run();
    // If it went wrong, something may be under way.
    match device.settle() {
        Ok(()) => device.free(memory, &stream),
        Err(error) => {
            device.abandon(memory);
            return Err(error);
        }
    }
    seconds
}
