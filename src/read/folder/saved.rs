//! The listing of a folder, saved for the next run.

use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::error::{Error, Result};
use crate::read::packed::{Packer, Unpacker};
use crate::read::saved::{Guard, SavedIndex, load, save};

use super::Wanted;
use super::listing::{self, Found, PathList, Stamp, bytes_path, path_bytes};

/// How a folder is listed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::read) enum Way {
    ByClass,
    Flat,
}

/// A folder that was changed less long ago than this may change again without a later modification time, because some
/// systems count in steps of a second.
const UNSETTLED: Duration = Duration::from_secs(1);

impl Way {
    /// The saved listing if it is still valid, otherwise a new one, which is then saved; and a hash of the files' sizes
    /// when it was made.
    pub(in crate::read) fn list(self, root: &Path, saved: &SavedIndex, wanted: Wanted) -> Result<(Found, u64)> {
        let file = file(root, saved)?;
        if let Some(listing) = file.as_deref().and_then(|file| self.load(root, file, wanted)) {
            return Ok(listing);
        }
        let begin = SystemTime::now();
        let found = match self {
            Self::ByClass => listing::by_class(root, wanted)?,
            Self::Flat => listing::flat(root, wanted)?,
        };
        let sizes = found.files.hash_of_sizes()?;
        if let Some(file) = file
            && found.files.len() > 0
            && found.refused.is_empty()
        {
            let settled = |stamp: &Stamp| begin.duration_since(stamp.modified).is_ok_and(|age| age >= UNSETTLED);
            if found.folders.iter().all(settled) {
                save(&file, self.guard(wanted), &pack(&found, sizes)?)?;
            } else {
                tracing::debug!(path = %root.display(), "a folder has just been changed; its listing is saved next time");
            }
        }
        Ok((found, sizes))
    }

    /// The saved listing of a folder, if the folder would be listed in the same way now.
    pub(in crate::read) fn detect(
        root: &Path,
        saved: &SavedIndex,
        wanted: Wanted,
    ) -> Result<Option<(Self, Found, u64)>> {
        let Some(file) = file(root, saved)? else { return Ok(None) };
        if let Some((found, sizes)) = Self::ByClass.load(root, &file, wanted) {
            return Ok(Some((Self::ByClass, found, sizes)));
        }
        // If there were files in a subfolder, it would be a class.
        let flat = Self::Flat.load(root, &file, wanted).filter(|(found, _)| found.files.lie_in_root());
        Ok(flat.map(|(found, sizes)| (Self::Flat, found, sizes)))
    }

    fn load(self, root: &Path, file: &Path, wanted: Wanted) -> Option<(Found, u64)> {
        let bytes = load(file, self.guard(wanted))?;
        let (found, sizes) = unpack(root, bytes)?;
        let mut path = PathBuf::new();
        if !found.folders.iter().all(|stamp| stamp.is_current(root, &mut path)) {
            tracing::debug!(path = %root.display(), "a folder has changed; it is listed again");
            return None;
        }
        Some((found, sizes))
    }

    fn guard(self, wanted: Wanted) -> Guard {
        Guard::new(wanted.saved_as[usize::from(self == Self::Flat)])
    }
}

/// The file that holds the listing of `root`.
fn file(root: &Path, saved: &SavedIndex) -> Result<Option<PathBuf>> {
    if *saved == SavedIndex::Off {
        return Ok(None);
    }
    // A path such as `..` has no name that a file beside it could be named after.
    let named = match root.file_name() {
        Some(_) => root.to_owned(),
        None => root.canonicalize().map_err(|error| Error::io(root, error))?,
    };
    Ok(saved.path(&named))
}

fn pack(found: &Found, sizes: u64) -> Result<Vec<u8>> {
    let mut packer = Packer::default();
    packer.number(sizes);
    packer.number(found.ignored);
    packer.number(found.ignored_names.0.len() as u64);
    for name in &found.ignored_names.0 {
        packer.bytes(path_bytes(name)?);
    }
    packer.number(found.folders.len() as u64);
    for stamp in &found.folders {
        packer.bytes(path_bytes(&stamp.folder)?);
        packer.number(nanoseconds(stamp.modified));
        packer.number(nanoseconds(stamp.changed));
    }
    packer.number(found.names.len() as u64);
    found.names.iter().for_each(|name| packer.bytes(name.as_bytes()));
    let (paths, lens) = found.files.parts();
    packer.bytes(paths);
    packer.numbers(lens);
    packer.numbers(found.labels.iter().copied());
    Ok(packer.finish())
}

/// `None` for anything that can't be used without looking again.
fn unpack(root: &Path, mut bytes: Vec<u8>) -> Option<(Found, u64)> {
    let mut unpacker = Unpacker::new(&bytes);
    let mut found = Found::default();
    let sizes = unpacker.number()?;
    found.ignored = unpacker.number()?;
    for _ in 0..unpacker.number()? {
        found.ignored_names.add(bytes_path(unpacker.bytes()?).to_owned());
    }
    for _ in 0..unpacker.number()? {
        let folder = bytes_path(unpacker.bytes()?).to_owned();
        let mut time = || UNIX_EPOCH.checked_add(Duration::from_nanos(unpacker.number()?));
        let (modified, changed) = (time()?, time()?);
        found.folders.push(Stamp { folder, modified, changed });
    }
    for _ in 0..unpacker.number()? {
        found.names.push(std::str::from_utf8(unpacker.bytes()?).ok()?.to_owned());
    }
    let paths = unpacker.bytes()?.len();
    let end = bytes.len() - unpacker.left();
    let mut path_end = 0;
    let path_ends = unpacker.each_number()?.map(|len| {
        path_end += u64::from(len);
        path_end
    });
    let path_ends = path_ends.collect();
    found.labels = unpacker.numbers()?;
    let is_whole = unpacker.is_empty();
    // The paths are most of it: moving them takes less time than new memory.
    bytes.truncate(end);
    bytes.drain(..end - paths);
    bytes.shrink_to_fit();
    found.files = PathList::of(root, bytes, path_ends)?;
    let fits = [0, found.files.len()].contains(&found.labels.len())
        && found.labels.iter().all(|label| (*label as usize) < found.names.len())
        && found.labels.is_empty() == found.names.is_empty();
    (is_whole && fits && found.files.len() > 0).then_some((found, sizes))
}

/// Times before 1970, which no folder has, are all the same.
fn nanoseconds(time: SystemTime) -> u64 {
    time.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos() as u64)
}
