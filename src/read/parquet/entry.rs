//! Parquet files as a format of the table.

use std::path::{Path, PathBuf};

use crate::error::Result;
use crate::read::columns::{Columns, ColumnsOptions, is_visible};
use crate::read::format::{Format, Open, Opened, format_has};

/// The format of Parquet files: one file, or a folder of files with the same columns.
#[derive(Clone, Copy, Debug)]
pub struct Parquet;

impl Format for Parquet {
    const NAME: &'static str = "parquet";
    type Options = ColumnsOptions;

    fn sniff(&self, head: &[u8], _: &Path) -> bool {
        let is_binary = |byte: &u8| byte.is_ascii_control() && !byte.is_ascii_whitespace();
        // A table may have a column of this name. Pages have a zero near their beginning, encrypted ones in their
        // length.
        head.starts_with(b"PARE") || head.starts_with(b"PAR1") && head[4..].iter().take(4).any(is_binary)
    }

    fn has_name(&self, name: &str) -> bool {
        name.ends_with(".parquet") || name.ends_with(".pq")
    }

    fn title(&self) -> Option<&'static str> {
        Some("Parquet files")
    }

    fn packed_advice(&self) -> Option<&'static str> {
        Some("a compressed Parquet file; decompress it first, Parquet compresses by itself")
    }

    fn is_in_folder(&self, path: &Path, head: Option<&[u8]>) -> bool {
        is_visible(path, |name| self.has_name(name)) || head.is_some_and(|head| self.sniff(head, path))
    }

    format_has!(small_samples, access, one_of_many);

    fn faults(&self, options: &ColumnsOptions) -> Vec<String> {
        options.faults()
    }

    fn open_many(&self, options: &ColumnsOptions, paths: &[PathBuf], at: &Open<'_>) -> Result<impl Into<Opened>> {
        Columns::open_parquet(at.files, paths, options, at.budget)
    }
}
