use std::ffi::CStr;

use crate::decode::PixelOrder;
use crate::device::convert::{DenseWork, FloatType, ImageWork, MAX_CHANNELS, OneHotWork, ScaleWork, Work};
use crate::dtype::DType;
use crate::error::{Error, ErrorKind, Result};

/// The kernels, compiled from `kernels.cu` to what a driver needs.
pub(super) const PTX: &CStr = match CStr::from_bytes_with_nul(concat!(include_str!("kernels.ptx"), "\0").as_bytes()) {
    Ok(text) => text,
    Err(_) => panic!("the kernels' text has a zero byte"),
};

/// Their names, in the order of [`kernel`].
pub(super) const NAMES: [&CStr; 12] = [
    c"ringfeed_image_f32",
    c"ringfeed_image_f16",
    c"ringfeed_image_bf16",
    c"ringfeed_scale_f32",
    c"ringfeed_scale_f16",
    c"ringfeed_scale_bf16",
    c"ringfeed_one_hot_f32",
    c"ringfeed_one_hot_f16",
    c"ringfeed_one_hot_bf16",
    c"ringfeed_dense_f32",
    c"ringfeed_dense_f16",
    c"ringfeed_dense_bf16",
];

/// Threads per block.
pub(super) const THREADS: u32 = 256;

fn kernel(kind: usize, to: FloatType) -> usize {
    let to = match to {
        FloatType::F32 => 0,
        FloatType::F16 => 1,
        FloatType::Bf16 => 2,
    };
    3 * kind + to
}

/// A kernel's parameter, laid out as the structure of the same name in `kernels.cu`. Addresses are the device's; 0 is
/// none.
#[derive(Clone, Copy, Debug)]
pub(super) enum Params {
    Image(Image),
    Scale(Scale),
    OneHot(OneHot),
    Dense(Dense),
}

#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(super) struct Image {
    input: u64,
    flags: u64,
    output: u64,
    images: u32,
    height: u32,
    width: u32,
    channels: u32,
    from_interleaved: u32,
    to_interleaved: u32,
    scale: [f32; MAX_CHANNELS],
    bias: [f32; MAX_CHANNELS],
}

#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(super) struct Scale {
    input: u64,
    output: u64,
    count: u64,
    from: u32,
    scale: f32,
    bias: f32,
}

#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(super) struct OneHot {
    input: u64,
    output: u64,
    count: u64,
    classes: u64,
    from: u32,
}

#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(super) struct Dense {
    values: u64,
    indices: u64,
    mask: u64,
    output: u64,
    rows: u64,
    entries: u64,
    columns: u64,
    index_type: u32,
}

/// The kernel for a work, its number of blocks and its parameter. `None` if there is nothing to do.
pub(super) fn launch(work: &Work, slot: u64) -> Result<Option<(usize, u32, Params)>> {
    let (kernel, threads, params) = match work {
        Work::Image(work) => {
            let threads = work.images as u64 * work.height as u64 * work.width.div_ceil(4) as u64;
            // The kernel counts groups of four pixels in 32 bits.
            if threads > u64::from(u32::MAX) {
                let message = format!("{} images of {} x {} are too many", work.images, work.height, work.width);
                return Err(Error::new(ErrorKind::Limit, message));
            }
            (kernel(0, work.to), threads, Params::Image(Image::of(work, slot)))
        }
        Work::Scale(work) => (kernel(1, work.to), work.count.div_ceil(4) as u64, Params::Scale(Scale::of(work, slot))),
        Work::OneHot(work) => {
            let threads = work.count as u64 * work.classes as u64;
            (kernel(2, work.to), threads, Params::OneHot(OneHot::of(work, slot)))
        }
        Work::Dense(work) => {
            // A block takes a row.
            let threads = (work.rows as u64).saturating_mul(u64::from(THREADS));
            (kernel(3, work.to), threads, Params::Dense(Dense::of(work, slot)))
        }
    };
    // The grid can't be larger; the kernels continue where it ends.
    let blocks = threads.div_ceil(u64::from(THREADS)).min(i32::MAX as u64) as u32;
    Ok((blocks > 0).then_some((kernel, blocks, params)))
}

impl Image {
    fn of(work: &ImageWork, slot: u64) -> Self {
        let interleaved = |order| u32::from(order == PixelOrder::Nhwc);
        Self {
            input: slot + work.input as u64,
            flags: work.flags.map_or(0, |flags| slot + flags as u64),
            output: slot + work.output as u64,
            images: work.images as u32,
            height: work.height as u32,
            width: work.width as u32,
            channels: work.channels as u32,
            from_interleaved: interleaved(work.from),
            to_interleaved: interleaved(work.order),
            scale: work.scale,
            bias: work.bias,
        }
    }
}

impl Scale {
    fn of(work: &ScaleWork, slot: u64) -> Self {
        Self {
            input: slot + work.input as u64,
            output: slot + work.output as u64,
            count: work.count as u64,
            from: number_of(work.from),
            scale: work.scale,
            bias: work.bias,
        }
    }
}

impl OneHot {
    fn of(work: &OneHotWork, slot: u64) -> Self {
        Self {
            input: slot + work.input as u64,
            output: slot + work.output as u64,
            count: work.count as u64,
            classes: work.classes as u64,
            from: number_of(work.from),
        }
    }
}

impl Dense {
    fn of(work: &DenseWork, slot: u64) -> Self {
        Self {
            values: slot + work.values as u64,
            indices: slot + work.indices as u64,
            mask: work.mask.map_or(0, |mask| slot + mask as u64),
            output: slot + work.output as u64,
            rows: work.rows as u64,
            entries: work.entries as u64,
            columns: work.columns as u64,
            index_type: number_of(work.index_type),
        }
    }
}

/// The number of an integer type in the kernels.
fn number_of(dtype: DType) -> u32 {
    match dtype {
        DType::I8 => 1,
        DType::U16 => 2,
        DType::I16 => 3,
        DType::U32 => 4,
        DType::I32 => 5,
        // What is too large for i64 is no class and no column in either.
        DType::U64 | DType::I64 => 6,
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kernel_is_in_the_text_that_ships() {
        let text = PTX.to_str().unwrap();
        for name in NAMES {
            assert!(text.contains(&format!(".entry {}(", name.to_str().unwrap())), "{name:?}");
        }
    }

    /// The size of each parameter, as the compiled kernels state it.
    #[test]
    fn parameters_are_as_large_as_the_kernels_expect() {
        let text = PTX.to_str().unwrap();
        let sizes = [size_of::<Image>(), size_of::<Scale>(), size_of::<OneHot>(), size_of::<Dense>()];
        for (index, name) in NAMES.iter().enumerate() {
            let name = name.to_str().unwrap();
            let declared = format!(".param .align 8 .b8 {name}_param_0[{}]", sizes[index / 3]);
            assert!(text.contains(&declared), "{declared}");
        }
    }
}
