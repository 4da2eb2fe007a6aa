//! The contents of a folder of this machine, and the properties of a path before it is opened.

use std::ffi::OsString;
use std::fs::{self, FileType, Metadata};
use std::io::ErrorKind as IoErrorKind;
use std::path::Path;

use crate::error::{Error, Result, missing_path};

use super::Entry;

/// One entry of a folder. Links are followed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Listed {
    pub(crate) name: OsString,
    pub(crate) kind: EntryKind,
    /// A folder that is reached by a link may contain the link itself.
    pub(crate) is_link: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EntryKind {
    File,
    Folder,
    /// A pipe or a device.
    Special,
    /// A link whose target does not exist, or that leads in a circle.
    Nothing,
}

impl Listed {
    pub(crate) fn is_folder(&self) -> bool {
        self.kind == EntryKind::Folder
    }

    pub(crate) fn is_hidden(&self) -> bool {
        self.name.as_encoded_bytes().starts_with(b".")
    }
}

impl From<FileType> for EntryKind {
    fn from(kind: FileType) -> Self {
        match (kind.is_dir(), kind.is_file()) {
            (true, _) => Self::Folder,
            (_, true) => Self::File,
            _ => Self::Special,
        }
    }
}

impl From<Entry> for Listed {
    fn from(entry: Entry) -> Self {
        let (name, kind) = match entry {
            Entry::File(name) => (name, EntryKind::File),
            Entry::Folder(name) => (name, EntryKind::Folder),
        };
        Self { name, kind, is_link: false }
    }
}

/// The content of a local folder, in any order.
pub(crate) fn entries(folder: &Path) -> Result<impl Iterator<Item = Result<Listed>> + use<>> {
    let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder }.to_owned();
    let entries = fs::read_dir(&folder).map_err(|error| unseen(&folder, error))?;
    Ok(entries.map(move |entry| {
        let entry = entry.map_err(|error| Error::io(&folder, error))?;
        let kind = entry.file_type();
        let is_link = kind.as_ref().is_ok_and(FileType::is_symlink);
        let kind = if is_link { fs::metadata(entry.path()).map(|metadata| metadata.file_type()) } else { kind };
        Ok(Listed { name: entry.file_name(), kind: kind.map_or(EntryKind::Nothing, EntryKind::from), is_link })
    }))
}

/// The metadata of a local path; links are followed.
pub(crate) fn metadata(path: &Path) -> Result<Metadata> {
    fs::metadata(path).map_err(|error| unseen(path, error))
}

/// Adds the nearest name to an error if the path does not exist.
fn unseen(path: &Path, error: std::io::Error) -> Error {
    match error.kind() {
        IoErrorKind::NotFound => missing_path(path),
        _ => Error::io(path, error),
    }
}
