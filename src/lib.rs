// Tests run the examples of the pages below only where there are decoders for their images.
#![cfg_attr(any(feature = "images", not(doctest)), doc = include_str!("../README.md"))]
#![cfg_attr(
    not(all(feature = "formats", feature = "prepare")),
    expect(
        dead_code,
        unused_imports,
        reason = "what formats share, which are left out here; a build with all of them tells what is dead"
    )
)]

mod caught;
mod control_group;
mod counters;
mod dataset;
mod decode;
pub mod device;
mod dtype;
/// Errors: their kinds, and the place in the data where they arose.
pub mod error;
mod files;
mod filter;
mod float16;
mod layout;
mod loader;
pub mod memory;
pub mod normalise;
#[cfg(feature = "formats")]
pub mod pack;
mod positions;
mod prefetch;
#[cfg_attr(not(feature = "prepare"), path = "prepare/left_out.rs")]
pub mod prepare;
mod processor;
mod random;
pub mod read;
mod ring;
mod row;
mod schema;
pub mod stats;
pub mod storage;
mod sync;
mod system;
pub mod transform;
mod tree;
mod view;
#[cfg(test)]
#[path = "../tests/common/watchdog.rs"]
mod watchdog;

pub use dataset::{DataSet, DataSetIterator};
pub use dtype::DType;
pub use error::{Error, ErrorKind, Result};
pub use loader::{Loader, LoaderConfig};
pub use normalise::Normaliser;
pub use prefetch::{AsyncDataSetIterator, AsyncShieldDataSetIterator, Workspace};

/// Orders: which samples an epoch has, and in which order. They are pure functions of (seed, epoch, position), so a
/// [`State`](order::State) of a few numbers is enough to resume.
pub mod order {
    pub use crate::dataset::{Beyond, Buckets, Epoch, Epochs, Folds, LastBatch, Part, Split, State, Strata};
    pub use crate::positions::{Permutation, Remainder, Shard, Subset};
    pub use crate::random::RandomKey;
}

/// CSV and TSV files, read by record or as a stream.
pub mod csv {
    pub use crate::read::csv::{ColumnRef, CsvDecoder, CsvOptions, CsvReader, CsvStream, Header, Longer, Missing};
}

/// Image files in folders and lists: how to decode, resize and augment them.
pub mod images {
    pub use crate::decode::PixelOrder;
    #[cfg(feature = "formats")]
    pub use crate::decode::{
        AugmentRecipe, CropFit, Edge, ImageAugment, ImageColour, ImageOptions, Interpolation, JpegDecoder, LabelFormat,
        LearnedPolicy, ResizeFilter, aug_mix, auto_augment, colour_jitter, gaussian_blur, horizontal_flip,
        rand_augment, random_crop, random_erasing, random_resized_crop, scale_jitter, trivial_augment, vertical_flip,
    };
    #[cfg(feature = "formats")]
    pub use crate::read::images::{ImageFolder, ImageLabels};
}

/// Sound files: which part to take, and how to convert it to numbers.
#[cfg(feature = "formats")]
pub mod audio {
    pub use crate::decode::{AudioCrop, AudioOptions};
    pub use crate::read::audio::{AudioFiles, AudioFolderOptions};
}

/// Samples in tar archives, in the layout of WebDataset.
#[cfg(feature = "formats")]
pub mod tar {
    pub use crate::read::tar::{TarOptions, TarReader};
}

/// Tokens for language models: windows of a long sequence, or packed documents.
#[cfg(feature = "formats")]
pub mod tokens {
    pub use crate::read::tokens::{
        TextCut, TextTokenOptions, TokenCut, TokenOptions, TokenPacking, TokenReader, TokenTargets,
    };
}

/// Columnar tables: Parquet files, Arrow files and streams, Feather, and tables of other libraries in memory.
#[cfg(feature = "parquet")]
pub mod columns {
    pub use crate::read::arrow::ArrowTable;
    pub use crate::read::columns::{Columns, ColumnsOptions};
    pub use crate::storage::ChunkStats;
}

/// Arrays in files: NPY, NPZ, safetensors, IDX, and raw numbers without a header.
#[cfg(feature = "formats")]
pub mod arrays {
    pub use crate::read::arrays::ArraySetOptions;
    pub use crate::read::fixed::{Endian, StoredType};
    pub use crate::read::idx::{IdxFile, IdxOptions, IdxReader};
    pub use crate::read::npy::{NpyOptions, NpyReader};
    pub use crate::read::raw::{RawOptions, RawReader};
}

/// Sequences in CSV files: one per file, or rows grouped by a column; features and labels from two sources.
#[cfg(feature = "formats")]
pub mod sequences {
    pub use crate::read::SequenceLabel;
    pub use crate::read::sequence::{Align, AlignedSequences, CsvSequenceReader, SequenceOptions, Unpaired};
}

/// Fields: which part of a source a tensor is made of, and how it is decoded. See [`Loader::field`].
pub mod field {
    #[cfg(feature = "formats")]
    pub use crate::read::fields::{Array, Audio, BoxFormat, Boxes, Image, Keypoints, PointFormat, Tokenizer};
    pub use crate::read::fields::{Category, Class, Classes, Field, Numbers, Origin, Text, Tokens};
}

/// Inspection: the contents of a file or folder, the plan of a run, and the bad samples of a data set.
pub mod inspect {
    pub use crate::dataset::{BadRecord, Proceed, VerifiedPart, VerifyProgress, VerifyReport, verify_source};
    pub use crate::loader::{PlannedSource, PlannedTensor, RunPlan, verify, verify_with};
    pub use crate::read::csv::CsvSummary;
    pub use crate::read::format::{ArrayFile, Details, InspectedRecord, Inspection, NamedCount};
    pub use crate::read::summary::{FieldSummary, Figure};
    #[cfg(feature = "formats")]
    pub use crate::read::{
        fixed::ArraySummary,
        images::{ClassCount, FolderSummary, FormatCount, ImageRecord, ImageSummary, summarise_image},
        sequence::{SequenceRecord, SequenceSummary},
        tar::{MemberCount, TarRecord, TarSummary},
    };
}

/// File formats: those of Ringfeed, and the trait for a format of your own.
pub mod formats {
    pub use crate::read::format::{
        Check, Checks, Fields, Foretold, Format, FormatOptions, Formats, Open, Opened, Streamed, types::*,
    };
    #[cfg(feature = "formats")]
    pub use crate::read::{images::FolderOptions, sharded::ShardedOptions};
}

/// Guides: each page answers one question. Their examples are tests.
pub mod guide {
    // If the files are not beside the page, the pictures are included: the first definition of a name counts.
    #[doc = include_str!("guide/pictures.md")]
    #[doc = ""]
    #[doc = include_str!("guide/bottleneck.md")]
    pub mod bottleneck {}

    #[doc = include_str!("guide/features.md")]
    pub mod features {}

    #[cfg_attr(any(feature = "images", not(doctest)), doc = include_str!("guide/fields.md"))]
    pub mod fields {}

    #[cfg_attr(any(feature = "images", not(doctest)), doc = include_str!("guide/formats.md"))]
    pub mod formats {}

    #[cfg_attr(any(feature = "images", not(doctest)), doc = include_str!("guide/gpu.md"))]
    pub mod gpu {}

    #[doc = include_str!("guide/long_runs.md")]
    pub mod long_runs {}

    #[cfg_attr(any(feature = "images", not(doctest)), doc = include_str!("guide/prepare.md"))]
    pub mod prepare {}

    #[doc = include_str!("guide/settings.md")]
    pub mod settings {}

    #[doc = include_str!("guide/transforms.md")]
    pub mod transforms {}

    #[doc = include_str!("guide/words.md")]
    pub mod words {}
}

/// Parts of [`LoaderConfig`], as plain data: the contents of settings files.
pub mod settings {
    pub use crate::dataset::{BadLimits, BadRecords};
    pub use crate::loader::{MemoryConfig, MemoryKind, Mix, OnlySource, SourcePath};
    pub use crate::normalise::NormaliserConfig;
    pub use crate::prepare::PreparedConfig;
    pub use crate::read::format::SourceConfig;
    pub use crate::read::paths::Paths;
    pub use crate::read::saved::SavedIndex;
}

/// Sources of batches of your own: plan which samples come next, and fill batches with them. For readers, use
/// [`ReaderSource`](source::ReaderSource).
pub mod source {
    pub use crate::dataset::{
        AsDyn, BatchPlan, ByEpoch, Filler, Headspace, OpenedSource, Planner, Positions, ReaderSource, Replay, Source,
        StreamSource, Transformed, read_labels,
    };
    pub use crate::loader::Chosen;
    pub use crate::storage::ReadLimit;
}

/// Serving: single records in memory, or windows of them, by the fields and transforms of a loader. See
/// [`Loader::serve`].
pub mod serve {
    pub use crate::loader::{Served, ServedRow, ServedWindow};
}

/// Reports of a run, as one page of HTML or as data.
pub mod report {
    pub use crate::dataset::{Moment, Report};
}

/// Batches as a [`futures_core::Stream`] on a tokio runtime.
#[cfg(feature = "tokio")]
pub mod stream {
    pub use crate::prefetch::{DataSetStream, into_stream};
}

/// Tensors: their element types, shapes and positions in a batch.
pub mod tensor {
    pub use crate::float16::{bf16, f16};

    pub use crate::decode::write_numbers;
    pub use crate::dtype::{Element, NumberSlice};
    pub use crate::layout::{Layout, TENSOR_ALIGNMENT, TensorLayout};
    pub use crate::schema::{
        Affine, AffineSteps, Dim, Extents, MAX_EXTENTS, MAX_RANK, Masked, Role, Rows, Schema, Shape, TensorSpec,
    };
    pub use crate::view::TensorView;
}

/// Settings of a [`Workspace`], and the shield, which forbids prefetch.
pub mod workspace {
    pub use crate::prefetch::{Amount, Shielded, WorkspaceBuilder, shield, wrap};
    pub use crate::ring::Overflow;
    pub use crate::storage::FetchLimit;
}
