//! Files in memory.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::{Bound, Range};
use std::path::{Component, Path, PathBuf};

use bytes::Bytes;

use crate::error::{Error, ErrorKind, Result};

use super::{Entry, Storage};

/// Files in memory, by their paths: data that a program received, made, or was compiled with.
///
/// ```
/// use std::sync::Arc;
/// use ringfeed::Loader;
/// use ringfeed::memory::MemoryBudget;
/// use ringfeed::storage::{Files, InMemory};
///
/// let table = "height,label\n1.5,0\n1.7,1\n";
/// let files = Files::of(Arc::new(InMemory::new().with("people.csv", table)), &MemoryBudget::unlimited());
/// let batch = Loader::open_in(&files, "people.csv")?.build()?.next().expect("a batch")?;
/// assert_eq!(batch.len(), 2);
/// # Ok::<(), ringfeed::Error>(())
/// ```
#[derive(Clone, Default)]
pub struct InMemory {
    files: BTreeMap<PathBuf, Bytes>,
}

impl InMemory {
    /// No files.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a file, or replaces it. Bytes of a `Vec`, and static ones, are not copied.
    #[must_use]
    pub fn with(mut self, path: impl Into<PathBuf>, bytes: impl Into<Bytes>) -> Self {
        let path = path.into();
        self.files.insert(plain(&path).to_owned(), bytes.into());
        self
    }

    fn file(&self, path: &Path) -> Result<&Bytes> {
        self.files.get(plain(path)).ok_or_else(|| missing(path))
    }
}

/// A path without `./` in front.
fn plain(path: &Path) -> &Path {
    path.strip_prefix(".").unwrap_or(path)
}

#[cold]
fn missing(path: &Path) -> Error {
    Error::new(ErrorKind::NotFound, "there is no such file in memory").at_path(path)
}

impl Storage for InMemory {
    fn file_len(&self, path: &Path) -> Result<u64> {
        Ok(self.file(path)?.len() as u64)
    }

    fn read(&self, path: &Path, range: Range<u64>, into: &mut Vec<u8>) -> Result<u64> {
        let bytes = self.file(path)?;
        let within = |at: u64| usize::try_from(at).unwrap_or(usize::MAX).min(bytes.len());
        into.clear();
        into.extend_from_slice(bytes.get(within(range.start)..within(range.end)).unwrap_or_default());
        Ok(bytes.len() as u64)
    }

    fn list(&self, folder: &Path) -> Result<Vec<Entry>> {
        let folder = plain(folder);
        let mut entries = Vec::new();
        // What lies in a folder follows it in order.
        let from = (Bound::Excluded(folder), Bound::Unbounded);
        for path in self.files.range::<Path, _>(from).map_while(|(path, _)| path.strip_prefix(folder).ok()) {
            let mut parts = path.components();
            let Some(Component::Normal(name)) = parts.next() else { continue };
            let entry = match parts.next() {
                None => Entry::File(name.to_owned()),
                Some(_) => Entry::Folder(name.to_owned()),
            };
            if entries.last() != Some(&entry) {
                entries.push(entry);
            }
        }
        if entries.is_empty() { Err(missing(folder)) } else { Ok(entries) }
    }

    /// More would not be faster.
    fn requests_in_flight(&self) -> usize {
        2
    }
}

impl fmt::Debug for InMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.files.iter().map(|(path, bytes)| (path, bytes.len()))).finish()
    }
}

#[cfg(all(test, not(ringfeed_loom)))]
mod tests {
    use super::*;

    #[test]
    fn folders_are_those_of_the_paths() {
        let files = InMemory::new().with("a/b/c.csv", "1").with("./a/b.csv", "22").with("a.csv", "").with("/x/y", "3");
        let list = |folder: &str| files.list(Path::new(folder)).unwrap();
        let (file, folder) = (|name: &str| Entry::File(name.into()), |name: &str| Entry::Folder(name.into()));
        assert_eq!(list(""), [folder("a"), file("a.csv")]);
        assert_eq!(list("."), list(""));
        assert_eq!(list("a"), [folder("b"), file("b.csv")]);
        assert_eq!(list("./a/b/"), [file("c.csv")]);
        assert_eq!(list("/"), [folder("x")]);
        for none in ["b", "a.csv", "a/b/c.csv", "a/bc"] {
            assert_eq!(files.list(Path::new(none)).unwrap_err().kind(), ErrorKind::NotFound, "{none}");
        }
    }

    #[test]
    fn reading_ends_where_the_file_does() {
        let files = InMemory::new().with("x", "12345");
        let mut into = b"before".to_vec();
        #[expect(clippy::reversed_empty_ranges, reason = "a range of a careless caller")]
        for (range, expected) in
            [(0..u64::MAX, "12345"), (1..3, "23"), (4..9, "5"), (5..9, ""), (9..12, ""), (3..1, "")]
        {
            assert_eq!(files.read(Path::new("./x"), range, &mut into).unwrap(), 5);
            assert_eq!(into, expected.as_bytes());
        }
        let error = files.read(Path::new("y"), 0..1, &mut into).unwrap_err();
        assert_eq!((error.kind(), error.path()), (ErrorKind::NotFound, Some(Path::new("y"))));
    }
}
