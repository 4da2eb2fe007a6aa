//! Ringfeed.

mod decode;
mod dtype;
mod error;
mod layout;
mod memory;
mod normalise;
mod random;
mod read;
mod row;
mod schema;
mod sync;
mod view;

pub use decode::{CropFit, ImageColour, ImageOptions, JpegDecoder, LabelFormat, Numbers, PixelOrder, write_numbers};
pub use dtype::{DType, Element};
pub use error::{Error, ErrorKind, Location, Result};
pub use layout::{Layout, TENSOR_ALIGNMENT, TensorLayout};
pub use memory::{AnonymousPages, Block, MemoryBudget, PageSource, Reservation, TempFilePages};
pub use normalise::{Normaliser, NormaliserFit};
pub use random::RandomKey;
pub use read::{Access, FieldSummary, Fingerprint, Record, RecordDecoder, RecordReader, RecordStream, Sample, Scratch};
pub use read::{
    ClassCount, FolderSummary, FormatCount, ImageFolder, ImageLabels, ImageRecord, ImageSummary, summarise_image,
};
pub use row::{RowMut, TensorMut};
pub use schema::{Affine, Dim, Extents, MAX_EXTENTS, MAX_RANK, Role, Schema, Shape, TensorSpec};
pub use view::TensorView;
