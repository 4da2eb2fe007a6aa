//! Batches as burn tensors: `cargo run --release` in this folder for the host, `--features cuda` for a GPU.
//!
//! burn owns the memory of its tensors, so that it can't borrow a batch: on the host a tensor costs one copy, on a GPU
//! one on the device (see `cuda.rs`).

#[cfg(feature = "cuda")]
mod cuda;

use std::error::Error;

use burn::tensor::{DType as BurnType, Device, Int, Tensor, TensorData};
use ringfeed::field::Image;
use ringfeed::tensor::TensorView;
use ringfeed::{DType, Loader, Normaliser};

/// burn's name of an element type.
fn element_type(dtype: DType) -> Result<BurnType, Box<dyn Error>> {
    Ok(match dtype {
        DType::U8 => BurnType::U8,
        DType::I8 => BurnType::I8,
        DType::U16 => BurnType::U16,
        DType::I16 => BurnType::I16,
        DType::U32 => BurnType::U32,
        DType::I32 => BurnType::I32,
        DType::I64 => BurnType::I64,
        DType::F16 => BurnType::F16,
        DType::Bf16 => BurnType::BF16,
        DType::F32 => BurnType::F32,
        DType::F64 => BurnType::F64,
        other => return Err(format!("burn has no tensors of {other}").into()),
    })
}

/// What burn makes a tensor of; the batch is free afterwards.
fn to_burn(view: &TensorView<'_>) -> Result<TensorData, Box<dyn Error>> {
    Ok(TensorData::from_bytes_vec(view.bytes().to_vec(), view.shape().to_vec(), element_type(view.dtype())?))
}

fn on_host() -> Result<(), Box<dyn Error>> {
    let device = Device::flex();
    let photos = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures/photos");
    let images = Loader::images(photos).field("image", Image::rgb(224, 224)).normalise("image", Normaliser::imagenet());
    for batch in images.batch_size(4).build()? {
        let batch = batch?;
        let images = Tensor::<4>::from_data(to_burn(&batch.tensor("image")?)?, &device);
        println!("{:?} on the host, mean {}", images.dims(), images.mean().into_scalar::<f32>());
    }
    let iris = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures/iris.csv");
    for batch in Loader::csv(iris).labels(["virginica"]).batch_size(50).build()? {
        let batch = batch?;
        let options = (&device, BurnType::I64);
        let labels = Tensor::<1, Int>::from_data(to_burn(&batch.labels()?)?, options);
        println!("{:?} labels, sum {}", labels.dims(), labels.sum().into_scalar::<i64>());
    }
    Ok(())
}

fn main() -> Result<(), Box<dyn Error>> {
    on_host()?;
    #[cfg(feature = "cuda")]
    cuda::on_gpu()?;
    Ok(())
}
