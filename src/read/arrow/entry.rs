//! Arrow files and streams as a format of the table.

use std::path::{Path, PathBuf};

use crate::error::Result;
use crate::read::columns::{Columns, ColumnsOptions, is_visible};
use crate::read::format::{Format, Open, Opened, format_has};

use super::messages::is_arrow;

/// The format of Arrow files, Arrow streams and Feather: one file, or a folder of files with the same columns.
#[derive(Clone, Copy, Debug)]
pub struct Arrow;

impl Format for Arrow {
    const NAME: &'static str = "arrow";
    type Options = ColumnsOptions;

    fn sniff(&self, head: &[u8], _: &Path) -> bool {
        is_arrow(head)
    }

    fn has_name(&self, name: &str) -> bool {
        [".arrow", ".arrows", ".feather", ".ipc"].iter().any(|extension| name.ends_with(extension))
    }

    fn title(&self) -> Option<&'static str> {
        Some("Arrow files and streams, Feather")
    }

    fn packed_advice(&self) -> Option<&'static str> {
        Some("a compressed Arrow file; decompress it first")
    }

    fn is_in_folder(&self, path: &Path, head: Option<&[u8]>) -> bool {
        is_visible(path, |name| self.has_name(name)) || head.is_some_and(|head| self.sniff(head, path))
    }

    format_has!(small_samples, access, one_of_many);

    fn faults(&self, options: &ColumnsOptions) -> Vec<String> {
        options.faults()
    }

    fn open_many(&self, options: &ColumnsOptions, paths: &[PathBuf], at: &Open<'_>) -> Result<impl Into<Opened>> {
        Columns::open_arrow(at.files, paths, options, at.budget)
    }
}
