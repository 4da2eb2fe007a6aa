use std::ffi::OsString;
use std::fs::Metadata;
use std::io::{ErrorKind as IoErrorKind, Read};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

use crate::error::{Error, ErrorKind, Result};
use crate::files;
use crate::random::mix;
use crate::storage::metadata;

/// Where an index is saved for the next run: the rows of a text file, the listing of a folder, the members of an
/// archive. A saved index is used only while the data's size and modification time are the same. On Unix, the time of
/// its last status change must be the same, too; nobody can set it back, and a copy does not keep it. A stale or
/// damaged index is made again.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum SavedIndex {
    /// Nowhere. The default.
    #[default]
    Off,
    /// Beside the data: `NAME.ringfeed` next to the file or folder `NAME`, and `NAME.KIND.ringfeed` for other things
    /// that are saved about it, such as the tokens of its text (`NAME.tokens.ringfeed`).
    Beside,
    /// In this folder, which must exist, for data in read-only folders.
    In(PathBuf),
}

/// How to set another place for the index.
pub(crate) const ELSEWHERE: &str = "in another folder (saved_index = { in = \"FOLDER\" }, in Rust `SavedIndex::In`)";

impl SavedIndex {
    /// The file that holds the index of `data`; `None` if none is saved.
    #[must_use]
    pub fn path(&self, data: &Path) -> Option<PathBuf> {
        self.named(data, data.file_name().unwrap_or_default().to_owned())
    }

    /// The file for other data about `data`, which another reader must not mistake for its index.
    pub(crate) fn path_of(&self, data: &Path, kind: &str) -> Option<PathBuf> {
        let mut name = data.file_name().unwrap_or_default().to_owned();
        name.push(format!(".{kind}"));
        self.named(data, name)
    }

    fn named(&self, data: &Path, mut name: OsString) -> Option<PathBuf> {
        match self {
            Self::Off => None,
            Self::Beside => {
                name.push(".ringfeed");
                Some(data.with_file_name(name))
            }
            Self::In(folder) => {
                // Data of the same name in different folders must not share an index.
                let full = std::path::absolute(data).unwrap_or_else(|_| data.to_owned());
                name.push(format!("-{:016x}.ringfeed", hash(0, full.as_os_str().as_encoded_bytes())));
                Some(folder.join(name))
            }
        }
    }
}

/// Everything that must be unchanged for a saved index to be valid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Guard(u64);

impl Guard {
    /// For indexes of this kind and version of their form.
    pub(crate) fn new(kind: &str) -> Self {
        Self(hash(0, kind.as_bytes()))
    }

    /// Adds a file or folder in its current state: its size and modification time, and on Unix the time of its last
    /// change.
    pub(crate) fn and_metadata(self, metadata: &Metadata) -> Self {
        let modified = metadata.modified().ok().and_then(|time| time.duration_since(UNIX_EPOCH).ok());
        let modified = modified.map_or(0, |time| time.as_nanos() as u64);
        let guard = Self(mix(mix(self.0 ^ metadata.len()) ^ modified));
        // Unlike the modification time, this one can't be chosen by archives, copies and builds.
        #[cfg(unix)]
        let guard = {
            use std::os::unix::fs::MetadataExt;
            let changed = [metadata.ctime(), metadata.ctime_nsec()];
            changed.into_iter().fold(guard, |guard, part| Self(mix(guard.0 ^ part as u64)))
        };
        guard
    }

    /// Adds these options.
    pub(crate) fn and(self, options: &[u8]) -> Self {
        Self(hash(self.0, options))
    }
}

/// When a file or folder was written to, or another of its properties changed; `None` if the system does not say.
pub(crate) fn last_change(metadata: &Metadata) -> Option<SystemTime> {
    let modified = metadata.modified().ok();
    #[cfg(unix)]
    let modified = {
        use std::os::unix::fs::MetadataExt;
        let (seconds, rest) = (u64::try_from(metadata.ctime()).ok(), u32::try_from(metadata.ctime_nsec()).ok());
        let changed =
            seconds.zip(rest).and_then(|(seconds, rest)| UNIX_EPOCH.checked_add(Duration::new(seconds, rest)));
        modified.max(changed)
    };
    modified
}

pub(crate) fn hash(seed: u64, bytes: &[u8]) -> u64 {
    bytes.chunks(8).fold(mix(seed ^ bytes.len() as u64), |hash, chunk| {
        let mut word = [0u8; 8];
        word[..chunk.len()].copy_from_slice(chunk);
        mix(hash ^ u64::from_le_bytes(word))
    })
}

/// A file that was written less than this long ago may be written again and keep the same modification time, because
/// file systems count these in steps of milliseconds.
const UNSETTLED: Duration = Duration::from_secs(1);

/// What an earlier run may have saved about a file, and where to save it for the next run.
#[derive(Debug)]
pub(crate) struct Kept {
    path: PathBuf,
    guard: Guard,
    /// Whether the modification time would show a later change of the file.
    settled: bool,
}

impl Kept {
    /// An index of this kind (see [`Guard::new`]) of the file `data`, made with these options; `None` if none is to be
    /// saved. Call this before the file is read: if the file is written to meanwhile, the index is then stale.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Io`].
    pub(crate) fn of(saved: &SavedIndex, data: &Path, kind: &str, options: &[u8]) -> Result<Option<Self>> {
        let Some(path) = saved.path(data) else { return Ok(None) };
        Ok(Some(Self::new(path, Guard::new(kind)).and_file(data)?.and(options)))
    }

    /// An index that is saved at `path`; [`and_file`](Self::and_file) adds the files that it is made of.
    pub(crate) fn new(path: PathBuf, guard: Guard) -> Self {
        Self { path, guard, settled: true }
    }

    /// Adds this file or folder in its current state. Call this before it is read, as for [`of`](Self::of).
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Io`].
    pub(crate) fn and_file(self, data: &Path) -> Result<Self> {
        let metadata = metadata(data)?;
        let age = metadata.modified().ok().and_then(|modified| modified.elapsed().ok());
        let settled = self.settled && age.is_some_and(|age| age >= UNSETTLED);
        Ok(Self { guard: self.guard.and_metadata(&metadata), settled, ..self })
    }

    /// Adds these options.
    pub(crate) fn and(self, options: &[u8]) -> Self {
        Self { guard: self.guard.and(options), ..self }
    }

    /// The path of the saved index and the number of the guard, for files that [`save`](Self::save) does not write;
    /// `None` if the data may still be changing.
    pub(crate) fn settled(&self) -> Option<(&Path, u64)> {
        self.settled.then_some((&*self.path, self.guard.0))
    }

    /// The saved content; `None` if there is none that can be trusted.
    pub(crate) fn load(&self) -> Option<Vec<u8>> {
        load(&self.path, self.guard)
    }

    /// Saves `contents` for the next run, unless the data may still be changing.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Io`] if it can't be written, with advice.
    pub(crate) fn save(&self, contents: &[u8]) -> Result<()> {
        if !self.settled {
            tracing::debug!(path = %self.path.display(), "the data has just been written; its index is saved next time");
            return Ok(());
        }
        save(&self.path, self.guard, contents)
    }
}

const MAGIC: [u8; 8] = *b"ringfeed";
const HEADER: usize = 28;

fn header(guard: Guard, contents: &[u8]) -> [u8; HEADER] {
    let mut header = [0; HEADER];
    header[..8].copy_from_slice(&MAGIC);
    header[8..16].copy_from_slice(&guard.0.to_le_bytes());
    header[16..24].copy_from_slice(&(contents.len() as u64).to_le_bytes());
    header[24..].copy_from_slice(&crc32fast::hash(contents).to_le_bytes());
    header
}

/// The contents of a saved index; `None` if there is none, or none that can be trusted.
pub(crate) fn load(path: &Path, guard: Guard) -> Option<Vec<u8>> {
    let refused = |why: &str| {
        tracing::debug!(path = %path.display(), why, "the saved index is made again");
        None
    };
    let Ok(mut file) = files::open(path) else { return refused("there is none that can be read") };
    let len = file.metadata().map_or(0, |metadata| metadata.len());
    let mut found = [0; HEADER];
    if file.read_exact(&mut found).is_err() || found[..8] != MAGIC {
        return refused("it is none");
    }
    if found[8..16] != guard.0.to_le_bytes() {
        return refused("the data or the options have changed");
    }
    // The length in the header is trusted only if the file is as long.
    let len = len.saturating_sub(HEADER as u64);
    let mut contents = Vec::new();
    if found[16..24] != len.to_le_bytes() || contents.try_reserve_exact(usize::try_from(len).ok()?).is_err() {
        return refused("it is cut off, or too large for memory");
    }
    if file.take(len).read_to_end(&mut contents).is_err() || contents.len() as u64 != len {
        return refused("it is cut off");
    }
    if found != header(guard, &contents) {
        return refused("it is damaged");
    }
    Some(contents)
}

/// Saves `contents` for the next [`load`] with the same guard. Another process never sees only a part of it. An
/// existing index that can't be replaced stays.
///
/// # Errors
///
/// [`ErrorKind::Io`] if it can't be written, with advice.
pub(crate) fn save(path: &Path, guard: Guard, contents: &[u8]) -> Result<()> {
    files::write_whole(path, &[&header(guard, contents), contents]).or_else(|error| {
        if belongs_to_another(path, &error) {
            return Ok(());
        }
        let message = format!("the index can't be saved: {error}; keep it {ELSEWHERE} or don't save it");
        Err(Error::new(ErrorKind::Io, message).with_source(error).at_path(path))
    })
}

/// Whether this error means that the file at `path` can't be replaced because it belongs to another user, in a folder
/// where only that user may write. Then the only cost is that the data are read again.
pub(crate) fn belongs_to_another(path: &Path, error: &std::io::Error) -> bool {
    let is_forbidden = matches!(error.kind(), IoErrorKind::PermissionDenied | IoErrorKind::ReadOnlyFilesystem);
    let is_anothers = is_forbidden && path.symlink_metadata().is_ok();
    if is_anothers {
        tracing::warn!(path = %path.display(), %error, "the saved index is out of date, and can't be replaced");
    }
    is_anothers
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn what_is_saved_is_loaded_until_data_options_or_index_change() {
        let folder = tempfile::tempdir().unwrap();
        let data = folder.path().join("data.csv");
        fs::write(&data, "1,2\n").unwrap();
        let path = SavedIndex::Beside.path(&data).unwrap();
        assert_eq!(path, folder.path().join("data.csv.ringfeed"));
        let guard = || Guard::new("rows 1").and_metadata(&fs::metadata(&data).unwrap()).and(b"delimiter ,");
        assert_eq!(load(&path, guard()), None);
        save(&path, guard(), b"contents").unwrap();
        assert_eq!(load(&path, guard()).unwrap(), b"contents");
        assert_eq!(load(&path, guard().and(b"another option")), None);
        assert_eq!(load(&path, Guard::new("rows 2")), None);
        let saved = fs::read(&path).unwrap();
        for at in 0..saved.len() {
            let mut damaged = saved.clone();
            damaged[at] ^= 1;
            fs::write(&path, damaged).unwrap();
            assert_eq!(load(&path, guard()), None, "byte {at}");
            fs::write(&path, &saved[..at]).unwrap();
            assert_eq!(load(&path, guard()), None, "cut at {at}");
        }
        fs::write(&path, [&saved[..], b"x"].concat()).unwrap();
        assert_eq!(load(&path, guard()), None);
        save(&path, guard(), b"").unwrap();
        assert_eq!(load(&path, guard()).unwrap(), b"");
        fs::write(&data, "1,2\n3,4\n").unwrap();
        assert_eq!(load(&path, guard()), None);
    }

    #[test]
    fn indexes_in_a_folder_of_their_own_do_not_meet() {
        let folder = tempfile::tempdir().unwrap();
        let kept = SavedIndex::In(folder.path().to_owned());
        let (one, other) = (kept.path(Path::new("a/data.csv")).unwrap(), kept.path(Path::new("b/data.csv")).unwrap());
        assert!(one != other && one.parent() == other.parent());
        assert_eq!(SavedIndex::Off.path(Path::new("a")), None);
        let missing = SavedIndex::In(folder.path().join("missing")).path(Path::new("a")).unwrap();
        let error = save(&missing, Guard::new("x"), b"").unwrap_err();
        assert!(error.to_string().contains("(saved_index = { in = "), "{error}");
    }

    #[cfg(unix)]
    #[test]
    fn an_index_that_may_be_neither_read_nor_replaced_is_done_without() {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("data.csv.ringfeed");
        save(&path, Guard::new("x"), b"somebody else's").unwrap();
        let allow = |path: &Path, mode| fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
        allow(&path, 0);
        allow(folder.path(), 0o555);
        // Nothing is forbidden to root.
        let is_root = fs::File::open(&path).is_ok();
        assert_eq!(load(&path, Guard::new("x")).is_some(), is_root);
        save(&path, Guard::new("x"), b"ours").unwrap();
        let first = save(&folder.path().join("other.ringfeed"), Guard::new("x"), b"ours");
        assert_eq!(first.is_ok(), is_root, "who asks for an index first learns that it can't be kept");
        allow(folder.path(), 0o755);
        allow(&path, 0o644);
        assert_eq!(fs::read(&path).unwrap().ends_with(b"ours"), is_root);
    }
}
