//! Formats, their files, and fields of any of them.

#[path = "../common/mod.rs"]
mod common;
#[path = "../common/damaged.rs"]
mod damaged;
#[path = "../common/latency.rs"]
mod latency;
#[path = "../common/pairs.rs"]
mod pairs;
#[path = "../common/records.rs"]
#[expect(unreachable_pub, reason = "several test files share it")]
#[expect(clippy::unwrap_used, reason = "a test fails by panicking")]
mod records;
#[path = "../common/formats.rs"]
mod samples;

mod alike;
mod array_sets;
mod arrays;
mod audio;
#[cfg(feature = "audio")]
mod audio_packed;
#[cfg(feature = "compression")]
mod bzip2;
#[cfg(all(feature = "images", feature = "parquet"))]
mod columns;
#[cfg(feature = "parquet")]
mod columns_hostile;
#[cfg(feature = "parquet")]
mod columns_parts;
#[cfg(any(feature = "compression", feature = "zstd"))]
mod compressed;
mod csv;
mod csv_numbers;
#[cfg(all(feature = "images", feature = "parquet"))]
mod every_codec;
mod every_format;
mod every_order;
mod every_storage;
#[cfg(feature = "images")]
mod fields;
mod halves;
mod hostile;
mod jsonl;
mod libsvm;
mod many_files;
mod old_settings;
#[cfg(feature = "images")]
mod others;
mod own_format;
#[cfg(feature = "images")]
mod pack;
mod pack_exact;
mod packed;
#[cfg(unix)]
mod page;
mod parts;
mod ragged;
mod record_sequences;
#[cfg(feature = "images")]
mod saved_listing;
mod sequences;
#[cfg(feature = "images")]
mod shards;
#[cfg(unix)]
mod special_files;
mod tar;
mod tar_members;
#[cfg(feature = "images")]
mod tfrecord;
#[cfg(feature = "tokenizers")]
mod tokenizers;
mod tokens;
mod unsigned;
mod windows;
#[cfg(feature = "zstd")]
mod zstd;
