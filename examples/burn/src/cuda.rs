//! The same from a GPU, with one copy on the device.
//!
//! cubecl, which burn computes with there, keeps its streams to itself: the host waits for what they have to do before
//! the copy, and for the copy before they are given more.

use std::error::Error;
use std::sync::Arc;

use burn::backend::Cuda;
use burn::cubecl::cuda::CudaRuntime;
use burn::tensor::{Device, Tensor};
use cubecl_runtime::runtime::Runtime;
use cudarc::driver::{CudaContext, CudaStream, result};
use ringfeed::device::{CudaDevice, DeviceTensor};
use ringfeed::transform::{cast, normalise};
use ringfeed::{DType, Loader, Normaliser};

use crate::element_type;

/// The tensor as one of burn's, copied on `stream`, which its batch must be ordered before.
fn to_burn<const D: usize>(
    tensor: &DeviceTensor<'_, CudaDevice>,
    stream: &Arc<CudaStream>,
    device: &Device,
) -> Result<Tensor<D>, Box<dyn Error>> {
    let options = (device, element_type(tensor.dtype())?);
    let empty = Tensor::<D>::empty(tensor.shape().to_vec(), options);
    let memory = empty.try_into_primitive::<Cuda>().map_err(|error| format!("{error:?}"))?;
    let place = memory.client.get_resource::<<CudaRuntime as Runtime>::Server>(memory.handle.clone());
    let place = place.map_err(|error| format!("{error:?}"))?;
    let (to, room) = (place.resource().ptr, place.resource().size);
    if room < tensor.bytes() as u64 {
        return Err(format!("{} bytes do not fit into burn's {room}", tensor.bytes()).into());
    }
    // The memory may be that of an earlier tensor, which cubecl's streams are still at work on.
    device.sync()?;
    stream.context().bind_to_thread()?;
    // SAFETY: there are as many bytes on both sides, in the context that is bound; the batch is ordered before the
    // stream, and nothing of cubecl's is under way.
    unsafe { result::memcpy_dtod_async(to, tensor.address(), tensor.bytes(), stream.cu_stream()) }?;
    stream.synchronize()?;
    drop(place);
    Ok(Tensor::from_primitive::<Cuda>(memory))
}

pub(crate) fn on_gpu() -> Result<(), Box<dyn Error>> {
    let device = match CudaDevice::open(0) {
        Ok(device) => device,
        Err(error) => {
            println!("no device: {error}");
            return Ok(());
        }
    };
    let stream = CudaContext::new(0)?.new_stream()?;
    // SAFETY: the stream is one of the device's primary context, and outlives `step` and the batches.
    let step = unsafe { device.borrow_stream(stream.cu_stream().cast()) };
    let burn = Device::cuda(0);

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
        let images = to_burn::<4>(&on.tensor("image")?, &stream, &burn)?;
        println!("{:?} on {burn:?}, mean {}", images.dims(), images.mean().into_scalar::<f32>());
    }
    Ok(())
}
