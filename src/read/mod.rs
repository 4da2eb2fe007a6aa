//! Record readers: the traits that a reader of your own implements, and readers that combine others. Each format is one
//! file or folder here, with a module of its own at the library's root.
//!
//! A [`RecordReader`] gives any record by its index; a [`RecordStream`] only the next one. Both decode a record into
//! the tensors of a sample by writing into a [`RowMut`], and do not know whose memory that is.

#[cfg(feature = "formats")]
pub(crate) mod arrays;
#[cfg(feature = "parquet")]
pub(crate) mod arrow;
#[cfg(feature = "formats")]
pub(crate) mod audio;
mod codec;
#[cfg(feature = "parquet")]
pub(crate) mod columns;
mod composed;
mod concat;
mod container;
mod copied;
pub(crate) mod csv;
mod date_unit;
mod dealt;
mod decoded_bytes;
mod field_reader;
pub(crate) mod fields;
mod fingerprint;
#[cfg(feature = "formats")]
pub(crate) mod fixed;
#[cfg(feature = "formats")]
mod folder;
mod foreign;
pub(crate) mod format;
#[cfg(feature = "formats")]
mod hashes;
#[cfg(feature = "formats")]
pub(crate) mod idx;
#[cfg(feature = "formats")]
pub(crate) mod ignored;
#[cfg(feature = "formats")]
pub(crate) mod images;
mod job;
mod json;
#[cfg(feature = "formats")]
pub(crate) mod jsonl;
#[cfg(feature = "formats")]
pub(crate) mod libsvm;
mod lines;
#[cfg(feature = "formats")]
mod listed;
#[cfg(feature = "formats")]
mod listed_by;
#[cfg(feature = "formats")]
pub(crate) mod litdata;
mod many;
#[cfg(feature = "formats")]
pub(crate) mod mds;
mod memory;
mod names;
#[cfg(feature = "formats")]
mod ndarray;
#[cfg(feature = "formats")]
pub(crate) mod npy;
#[cfg(feature = "formats")]
pub(crate) mod npz;
mod one;
mod outside;
#[cfg(feature = "formats")]
mod packed;
pub(crate) mod parallel;
#[cfg(feature = "parquet")]
pub(crate) mod parquet;
pub(crate) mod paths;
#[cfg(feature = "formats")]
pub(crate) mod raw;
mod reader;
mod record_rows;
mod records;
mod rolling;
#[cfg(feature = "formats")]
pub(crate) mod safetensors;
mod sample;
mod samples;
pub(crate) mod saved;
mod scratch;
#[cfg(feature = "formats")]
pub(crate) mod sequence;
mod sequences;
mod shaped;
#[cfg(feature = "formats")]
pub(crate) mod sharded;
#[cfg(feature = "formats")]
mod shards;
mod splits;
mod staged;
mod stream;
pub(crate) mod summary;
#[cfg(feature = "formats")]
pub(crate) mod tar;
mod tensor_values;
#[cfg(feature = "formats")]
pub(crate) mod text_files;
#[cfg(feature = "formats")]
pub(crate) mod tfrecord;
#[cfg(feature = "formats")]
pub(crate) mod tokens;
mod value;
mod windowed;
mod windows;

pub use crate::row::{RowMut, RowsMut, TensorMut};

pub(crate) use composed::{Composed, PartOfSample};
pub use concat::Concat;
pub use container::{Container, FieldInfo, FieldKind, Meaning, Visit, VisitColumn, find_field};
pub(crate) use csv::{ColumnRef, Csv, CsvOptions, Longer, Missing, csv_cells};
pub use date_unit::DateUnit;
pub(crate) use date_unit::in_second;
pub use decoded_bytes::DecodedBytes;
pub use field_reader::FieldReader;
pub(crate) use field_reader::GivenFields;
pub(crate) use fields::{connect_sources, field_faults, named_geometries};
pub use fingerprint::Fingerprint;
#[cfg(feature = "formats")]
pub(crate) use fixed::ArraySummary;
pub(crate) use format::SourceConfig;
pub(crate) use format::{Check, Checks, Foretold, Formats, Streamed};
#[cfg(feature = "formats")]
pub(crate) use idx::{Idx, IdxOptions};
#[cfg(feature = "formats")]
pub(crate) use ignored::IgnoredFiles;
#[cfg(feature = "formats")]
pub(crate) use images::{ClassCount, FolderOptions, FormatCount, Images, usual_fields};
pub use job::Job;
pub(crate) use job::{caught_each, decode_each};
#[cfg(feature = "formats")]
pub use jsonl::JsonLines;
#[cfg(feature = "formats")]
pub use libsvm::{LibsvmOptions, SparseLines};
pub use lines::{BlankLines, LineOptions, Lines, TextLines};
pub use memory::MemoryReader;
#[cfg(feature = "formats")]
pub(crate) use npy::{Npy, NpyOptions};
pub(crate) use one::{CsvMemory, JsonMemory, OneJson, StructMemory};
pub(crate) use outside::{Outside, OutsideCodec};
pub(crate) use paths::{Paths, is_at, is_below, is_pattern, places};
#[cfg(feature = "formats")]
pub(crate) use raw::{Raw, RawOptions};
pub use reader::RecordReader;
pub(in crate::read) use reader::check_record;
pub(crate) use rolling::Rolling;
pub use sample::Sample;
pub use samples::{SampleStream, SampleTensor};
pub(crate) use saved::SavedIndex;
pub use scratch::Scratch;
#[cfg(feature = "formats")]
pub(crate) use sequence::{CsvSequences, SequenceOptions};
pub(crate) use sequences::groups_of;
pub use sequences::{SequenceLabel, Sequences};
pub use shaped::Shaped;
pub(crate) use staged::Staged;
pub use stream::{Record, RecordDecoder, RecordStream};
pub(crate) use summary::FieldSummary;
#[cfg(feature = "formats")]
pub(crate) use tar::{MemberCount, Tar, TarOptions};
#[cfg(feature = "formats")]
pub use tfrecord::{TfRecordOptions, TfRecords};
#[cfg(feature = "formats")]
pub(crate) use tokens::{TokenFiles, TokenOptions};
pub use value::{List, Value};
pub(crate) use windowed::Windowed;
#[cfg(feature = "audio")]
pub(crate) use windows::STEPS_MASK;
pub use windows::Windows;
pub(crate) use windows::{NO_GAPS, NO_GAPS_IN_SEQUENCES, Placed};
