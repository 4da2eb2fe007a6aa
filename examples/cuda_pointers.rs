//! Batches on a GPU in the hands of `cudarc`, without a copy: what ringfeed uploaded is read on a stream of yours.
//!
//! `cargo run --release -p examples --bin cuda_pointers --features cuda` says so if there is no GPU.
//!
//! cudarc's context for a device is the primary one, which ringfeed uses, too: pointers of one are good in the other.

use std::error::Error;
use std::marker::PhantomData;
use std::sync::Arc;

use cudarc::driver::sys::CUdeviceptr;
use cudarc::driver::{CudaContext, CudaStream, DevicePtr, DeviceSlice, SyncOnDrop};
use ringfeed::Loader;
use ringfeed::device::{CudaDevice, DeviceTensor, Upload};
use ringfeed::tensor::Element;

/// A tensor of a batch as cudarc takes memory, for one stream. It owns nothing, so that nothing is freed twice.
struct Borrowed<'a, T> {
    tensor: DeviceTensor<'a, CudaDevice>,
    stream: &'a Arc<CudaStream>,
    element: PhantomData<T>,
}

impl<'a, T: Element> Borrowed<'a, T> {
    /// `stream` is the one that the tensor's batch was ordered before.
    fn new(tensor: DeviceTensor<'a, CudaDevice>, stream: &'a Arc<CudaStream>) -> Result<Self, Box<dyn Error>> {
        if tensor.dtype() == T::DTYPE {
            return Ok(Self { tensor, stream, element: PhantomData });
        }
        Err(format!("{} holds {}, not {}", tensor.name(), tensor.dtype(), T::DTYPE).into())
    }
}

impl<T> DeviceSlice<T> for Borrowed<'_, T> {
    fn len(&self) -> usize {
        self.tensor.bytes() / size_of::<T>()
    }

    fn stream(&self) -> &Arc<CudaStream> {
        self.stream
    }
}

impl<T> DevicePtr<T> for Borrowed<'_, T> {
    fn device_ptr<'a>(&'a self, stream: &'a CudaStream) -> (CUdeviceptr, SyncOnDrop<'a>) {
        assert_eq!(stream, &**self.stream, "the batch is ordered before one stream");
        // The batch's end on this stream is recorded when the batch drops.
        (self.tensor.address(), SyncOnDrop::Record(None))
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let device = match CudaDevice::open(0) {
        Ok(device) => device,
        Err(error) => {
            println!("no device: {error}");
            return Ok(());
        }
    };
    // Yours: with a framework on cudarc, its stream.
    let stream = CudaContext::new(0)?.new_stream()?;
    // SAFETY: the stream is one of the device's primary context, and outlives `step` and the batches.
    let step = unsafe { device.borrow_stream(stream.cu_stream().cast()) };

    let loader = Loader::csv(concat!(env!("CARGO_MANIFEST_DIR"), "/../fixtures/iris.csv")).labels([4]).batch_size(50);
    let workspace = loader.workspace_builder()?.pages(ringfeed::device::Device::pages(&device)).build()?;
    for batch in Upload::to(device.clone()).start(loader.build_in(&workspace)?)? {
        let batch = batch?;
        let on = batch.on(&step)?; // `stream` goes on after the upload
        let features = Borrowed::<f32>::new(on.features()?, &stream)?;
        // Where a kernel of yours would be launched, with `features` as an argument.
        let numbers = stream.clone_dtoh(&features)?;
        stream.synchronize()?;
        let mean = numbers.iter().map(|number| f64::from(*number)).sum::<f64>() / numbers.len() as f64;
        println!("{:?} at {:#x}, mean {mean:.4}", on.features()?.shape(), on.features()?.address());
    } // the slot is written again after what `stream` was given
    Ok(())
}
