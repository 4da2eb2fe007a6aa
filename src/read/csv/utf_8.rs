//! Replaces other encodings of text in a build without the feature `encodings`.

use std::path::Path;

use crate::error::{Error, ErrorKind, Result};
use crate::storage::Bytes;

const NOT_BUILT: &str =
    "only UTF-8 is read; other encodings need a build with the feature `encodings`, which is on by default";

/// What a text is written in: known by its byte-order mark, if it is not UTF-8.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Encoding(&'static str);

impl Encoding {
    pub(super) const UTF_8: Self = Self("UTF-8");

    /// The encoding of this name.
    pub(super) fn named(name: &str) -> Result<Self> {
        match name.trim().to_ascii_lowercase().as_str() {
            "utf-8" | "utf8" => Ok(Self::UTF_8),
            _ => Err(Error::new(ErrorKind::Unsupported, format!("{name:?}: {NOT_BUILT}"))),
        }
    }

    /// The encoding whose byte-order mark a text begins with.
    pub(super) fn of_mark(start: &[u8]) -> Option<Self> {
        let marks = [(&[0xef, 0xbb, 0xbf][..], "UTF-8"), (&[0xff, 0xfe], "UTF-16LE"), (&[0xfe, 0xff], "UTF-16BE")];
        marks.into_iter().find(|(mark, _)| start.starts_with(mark)).map(|(_, name)| Self(name))
    }

    pub(super) fn name(self) -> &'static str {
        self.0
    }

    /// The error for reading it.
    pub(super) fn decoded(self, path: &Path, _: Bytes) -> Bytes {
        Box::new(NotRead(Some(
            Error::new(ErrorKind::Unsupported, format!("{} text: {NOT_BUILT}", self.0)).at_path(path),
        )))
    }
}

struct NotRead(Option<Error>);

impl std::io::Read for NotRead {
    fn read(&mut self, _: &mut [u8]) -> std::io::Result<usize> {
        self.0.take().map_or(Ok(0), |error| Err(std::io::Error::other(error)))
    }
}
