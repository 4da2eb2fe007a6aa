//! Batches on a GPU as candle tensors: `cargo run --release` in this folder, where there are nvcc and a GPU.
//!
//! candle frees what its tensors hold, so that it can't borrow a batch: each tensor costs one copy on the device, on
//! candle's own stream, which nobody waits for. Its device must have a stream of its own (`new_cuda_with_stream`): that
//! of `Device::new_cuda` is another one in each thread.

use std::error::Error;

use candle_core::backend::BackendDevice;
use candle_core::cuda_backend::cudarc::driver::{DevicePtrMut, DeviceRepr, result};
use candle_core::cuda_backend::{CudaDType, CudaDevice as CandleDevice};
use candle_core::op::BackpropOp;
use candle_core::{CudaStorage, Device, Storage, Tensor};
use ringfeed::device::{CudaDevice, DeviceTensor};
use ringfeed::tensor::{bf16, f16};
use ringfeed::transform::{cast, normalise};
use ringfeed::{DType, Loader, Normaliser};

/// The tensor as one of candle's; the copy is in order on candle's stream, which the batch must be ordered before.
fn to_candle(tensor: &DeviceTensor<'_, CudaDevice>, device: &CandleDevice) -> Result<Tensor, Box<dyn Error>> {
    match tensor.dtype() {
        DType::U8 => copied::<u8>(tensor, device),
        DType::I16 => copied::<i16>(tensor, device),
        DType::U32 => copied::<u32>(tensor, device),
        DType::I32 => copied::<i32>(tensor, device),
        DType::I64 => copied::<i64>(tensor, device),
        DType::F16 => copied::<f16>(tensor, device),
        DType::Bf16 => copied::<bf16>(tensor, device),
        DType::F32 => copied::<f32>(tensor, device),
        DType::F64 => copied::<f64>(tensor, device),
        other => Err(format!("candle has no tensors of {other}").into()),
    }
}

fn copied<T: CudaDType + DeviceRepr>(
    tensor: &DeviceTensor<'_, CudaDevice>,
    device: &CandleDevice,
) -> Result<Tensor, Box<dyn Error>> {
    let stream = device.cuda_stream();
    // SAFETY: every byte is written below, before anything that reads it on the same stream.
    let mut memory = unsafe { device.alloc::<T>(tensor.bytes() / size_of::<T>()) }?;
    let (target, written) = memory.device_ptr_mut(&stream);
    // SAFETY: both places have as many bytes, on one device, and the batch was ordered before this stream.
    unsafe { result::memcpy_dtod_async(target, tensor.address(), tensor.bytes(), stream.cu_stream()) }?;
    drop(written);
    let storage = Storage::Cuda(CudaStorage::wrap_cuda_slice(memory, device.clone()));
    Ok(Tensor::from_storage(storage, tensor.shape(), BackpropOp::none(), false))
}

fn main() -> Result<(), Box<dyn Error>> {
    let device = match CudaDevice::open(0) {
        Ok(device) => device,
        Err(error) => {
            println!("no device: {error}");
            return Ok(());
        }
    };
    let candle = CandleDevice::new_with_stream(0)?;
    // SAFETY: the stream is one of the device's primary context, and `candle` outlives `step` and the batches.
    let step = unsafe { device.borrow_stream(candle.cuda_stream().cu_stream().cast()) };

    let photos = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures/photos");
    let loader = Loader::images(photos)
        .size(224, 224)
        .transform(cast("image", DType::F32))
        .transform(normalise("image", Normaliser::imagenet()))
        .batch_size(4);
    let batches = loader.upload(device.clone())?;
    for batch in batches {
        let batch = batch?;
        let on = batch.on(&step)?;
        let images = to_candle(&on.tensor("image")?, &candle)?;
        drop(on);
        // The slot is free for the next upload once the copy is done; the tensor is candle's own.
        drop(batch);
        println!("{:?} on {:?}, mean {}", images.shape(), candle.location(), images.mean_all()?.to_scalar::<f32>()?);
    }
    Device::Cuda(candle).synchronize()?;
    Ok(())
}
