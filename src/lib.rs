#![doc = include_str!("../README.md")]

mod counters;
mod dataset;
mod decode;
mod device;
mod dtype;
mod error;
mod files;
mod layout;
mod loader;
mod memory;
mod normalise;
mod order;
mod prefetch;
mod random;
mod read;
mod ring;
mod row;
mod schema;
mod stats;
mod storage;
mod sync;
pub mod transform;
mod view;

pub use dataset::{
    AsDyn, BadLimits, BadRecord, BadRecords, BatchPlan, ByEpoch, DataSet, DataSetIterator, Epoch, Epochs, Filler,
    Folds, LastBatch, Opened, Part, Planner, Proceed, ReaderSource, Source, Split, State, StreamSource, Transformed,
    VerifyProgress, VerifyReport, read_labels, verify_source,
};
pub use decode::{
    CropFit, ImageAugment, ImageColour, ImageOptions, Interpolation, JpegDecoder, LabelFormat, PixelOrder,
    write_numbers,
};
pub use device::{
    Conversion, DenseConversion, Device, DeviceDataSet, DeviceDataSetIterator, DeviceName, DeviceTensor, DlpackTensor,
    FloatType, HostDevice, HostStream, ImageConversion, OnStream, Upload, UploadStats, Uploader, convert_rate,
    copy_rate,
};
#[cfg(feature = "cuda")]
pub use device::{CudaDevice, CudaStream, HostPages, LockedPages};
pub use dtype::{DType, Element, Numbers};
pub use error::{Error, ErrorKind, Location, Result};
pub use half::{bf16, f16};
pub use layout::{Layout, TENSOR_ALIGNMENT, TensorLayout};
pub use loader::{
    Loader, LoaderConfig, MemoryConfig, MemoryKind, NormaliserConfig, PlannedSource, PlannedTensor, RunPlan,
    SourceConfig, SourcePath, verify,
};

/// What tensors are made of: fields of a source, and what becomes of each. See [`Loader::field`].
pub mod field {
    pub use crate::read::fields::{Array, Category, Class, Field, Image, Numbers, Text, Tokens};
}
pub use memory::{AnonymousPages, Block, MemoryBudget, PageSource, Reservation, TempFilePages};
pub use normalise::{Normaliser, NormaliserFit};
pub use order::{Permutation, Remainder, Shard, Subset};
pub use prefetch::{
    AsyncDataSetIterator, AsyncShieldDataSetIterator, FetchLimit, Shielded, Workspace, WorkspaceBuilder, shield, wrap,
};
#[cfg(feature = "tokio")]
pub use prefetch::{DataSetStream, into_stream};
pub use random::RandomKey;
pub use read::{
    Align, AlignedSequences, Array, ArraySummary, Augmented, ClassBy, ClassCount, ColumnRef, ColumnTensor,
    ColumnValues, Concat, Container, CsvDecoder, CsvOptions, CsvReader, CsvSequenceReader, CsvStream, CsvSummary,
    Endian, FieldInfo, FieldKind, FieldReader, FieldSummary, Fingerprint, FolderSummary, Format, FormatCount, Header,
    IdxFile, IdxOptions, IdxReader, IgnoredFiles, ImageFolder, ImageLabels, ImageRecord, ImageSummary, Job,
    LineOptions, Lines, List, Longer, MemberCount, MemoryReader, Missing, NpyOptions, NpyReader, NumberAugment,
    RawOptions, RawReader, Record, RecordDecoder, RecordReader, RecordStream, Sample, SampleStream, SavedIndex,
    Scratch, SequenceLabel, SequenceOptions, SequenceRecord, SequenceSummary, StoredType, TarField, TarOptions,
    TarReader, TarRecord, TarSummary, TokenCut, TokenOptions, TokenPacking, TokenReader, TokenTargets, Unpaired, Value,
    Visit, detect, find_field, summarise_image,
};
pub use ring::{Overflow, RingStats};
pub use row::{RowMut, RowsMut, TensorMut};
pub use schema::{Affine, AffineSteps, Dim, Extents, MAX_EXTENTS, MAX_RANK, Role, Schema, Shape, TensorSpec};
pub use stats::{DamageStats, StageStats, Stats};
pub use storage::{Access, AheadStats, Entry, Files, Mapping, Needs, Storage};
pub use view::TensorView;
