//! The output folder of a pack: its content, and whether it may be written to.

use std::collections::HashSet;
use std::ffi::OsStr;
use std::fs;
#[cfg(unix)]
use std::fs::{File, TryLockError};
use std::path::{Path, PathBuf};

use crate::error::{Error, ErrorKind, Result};
use crate::read::SourceConfig;
use crate::read::parallel::in_order;
use crate::storage::Files;

use super::journal::{self, PackedShard, is_whole};
use super::manifest::{MANIFEST, finished};

/// Number of shards that match the manifest, up to the first one that is damaged or missing.
pub(super) fn whole_shards(out: &Path, shards: &[PackedShard], threads: usize) -> Result<usize> {
    let mut all = Vec::new();
    in_order(
        threads,
        shards.len() as u64,
        |(): &mut (), nth| is_whole(&out.join(&shards[nth as usize].name), &shards[nth as usize]),
        |is_whole| {
            all.push(is_whole);
            Ok(())
        },
    )?;
    Ok(all.iter().position(|is_whole| !is_whole).unwrap_or(all.len()))
}

/// Keeps other runs out of a folder until it is dropped.
pub(super) struct Lock(#[cfg(unix)] File);

impl Lock {
    /// Locks a folder, if the system supports this.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Config`] if another run uses the folder.
    pub(super) fn of(out: &Path) -> Result<Self> {
        #[cfg(unix)]
        {
            let folder = File::open(out).map_err(|error| Error::io(out, error))?;
            if let Err(TryLockError::WouldBlock) = folder.try_lock() {
                let message = "another run is packing into this folder; wait until it ends, or pack into another one";
                return Err(Error::new(ErrorKind::Config, message).at_path(out));
            }
            // Not every file system has locks.
            Ok(Self(folder))
        }
        #[cfg(not(unix))]
        {
            let _ = out;
            Ok(Self())
        }
    }
}

#[cfg(unix)]
impl Drop for Lock {
    /// To close the file is not enough: a process that was forked meanwhile has it open, too.
    fn drop(&mut self) {
        let _ = self.0.unlock();
    }
}

/// Whether this could be the name of a shard.
fn is_shard(name: &OsStr) -> bool {
    let stem = name.to_str().and_then(|name| name.strip_suffix(".tar").or_else(|| name.strip_suffix(".parquet")));
    stem.and_then(|stem| stem.strip_prefix("shard-"))
        .is_some_and(|number| number.len() >= 6 && number.bytes().all(|byte| byte.is_ascii_digit()))
}

/// The paths of the files in `out` that have names of shards.
fn shards_in(out: &Path) -> Result<Vec<PathBuf>> {
    let fault = |error| Error::io(out, error);
    let mut found = Vec::new();
    for entry in fs::read_dir(out).map_err(fault)? {
        let entry = entry.map_err(fault)?;
        if is_shard(&entry.file_name()) {
            found.push(entry.path());
        }
    }
    found.sort();
    Ok(found)
}

/// The names of the shards that the manifest and the journal in this folder list.
fn own_names(out: &Path) -> Result<Vec<String>> {
    let mut names = journal::names(out)?;
    names.extend(finished(out)?.into_iter().flat_map(|manifest| manifest.shards).map(|shard| shard.name));
    names.retain(|name| is_shard(OsStr::new(name)));
    // A run that was killed may have left both files, which then name the same shards.
    names.sort_unstable();
    names.dedup();
    Ok(names)
}

/// A file with the name of a shard that is none of these.
fn other_shard(out: &Path, names: &[String]) -> Result<Option<PathBuf>> {
    let names: HashSet<&OsStr> = names.iter().map(OsStr::new).collect();
    let is_own = |path: &PathBuf| path.file_name().is_some_and(|own| names.contains(own));
    Ok(shards_in(out)?.into_iter().find(|path| !is_own(path)))
}

/// Whether something was packed here, finished or not.
fn has_pack(out: &Path) -> bool {
    journal::path_in(out).exists() || out.join(MANIFEST).exists()
}

/// Checks that shards may be written to `out`, which must not contain other files of such names: they would be written
/// over, or be read as shards.
pub(super) fn check_own(out: &Path) -> Result<()> {
    let Some(path) = other_shard(out, &own_names(out)?)? else { return Ok(()) };
    let message = match (has_pack(out), out.join("manifest.json").exists()) {
        (true, _) => journal::NOT_OURS,
        (false, true) => "was packed by an earlier version; pack into another folder, or remove this one",
        (false, false) => "exists already, and no manifest or journal lists it; pack into another folder, or remove it",
    };
    Err(Error::new(ErrorKind::Config, message).at_path(path))
}

/// Removes everything that a pack has written here, finished or not, so that another one can begin.
///
/// # Errors
///
/// [`ErrorKind::Config`] if there are other files with names of shards; then nothing is removed.
pub(super) fn clear(out: &Path) -> Result<()> {
    if !has_pack(out) {
        return Ok(());
    }
    let names = own_names(out)?;
    if let Some(other) = other_shard(out, &names)? {
        return Err(Error::new(ErrorKind::Config, journal::NOT_OURS).at_path(other));
    }
    // The shard that was being written is not listed yet.
    let next = names.len();
    let parts = [format!("shard-{next:06}.tar"), format!("shard-{next:06}.parquet")];
    journal::remove_shards(out, names.iter().chain(&parts))?;
    // The files that name them go last, so that a run that is killed here can begin again.
    journal::remove_files([out.join(MANIFEST), journal::path_in(out)])
}

/// The absolute path, whose end need not exist yet.
fn absolute(path: &Path) -> PathBuf {
    let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let known = path.ancestors().find_map(|above| Some((above, above.canonicalize().ok()?)));
    match known {
        Some((above, real)) => path.strip_prefix(above).map_or(real.clone(), |rest| real.join(rest)),
        None => path,
    }
}

/// The files of a source, including those in folders.
pub(super) fn source_files(source: &SourceConfig, files: &Files) -> Result<Vec<PathBuf>> {
    let paths = match source.found(files)? {
        Some(found) => found.files,
        None => source.paths().iter().map(Path::to_owned).collect(),
    };
    let (mut seen, mut all) = (HashSet::new(), Vec::new());
    for path in paths {
        walk(path, &mut seen, &mut all);
    }
    all.sort();
    Ok(all)
}

/// Files that can't be read here are reported when they are read as data.
fn walk(path: PathBuf, seen: &mut HashSet<PathBuf>, all: &mut Vec<PathBuf>) {
    match fs::read_dir(&path) {
        Ok(entries) => {
            // A link may lead to a folder above.
            if path.canonicalize().is_ok_and(|path| seen.insert(path)) {
                entries.filter_map(|entry| Some(entry.ok()?.path())).for_each(|path| walk(path, seen, all));
            }
        }
        Err(_) => all.push(path),
    }
}

/// Checks that `out` is a separate folder: shards must not become a part of their own source.
pub(super) fn check_outside(out: &Path, source: &SourceConfig, files: &[PathBuf]) -> Result<()> {
    let real = absolute(out);
    let folders = source.paths().iter().filter(|path| path.is_dir()).map(absolute);
    let is_single = source.paths().iter().count() == 1 && source.path().is_file();
    // A single file may lie beside the shards, unless it has a shard's name.
    let is_in_the_way = |file: &&PathBuf| !is_single || file.file_name().is_some_and(is_shard);
    let mut beside = files.iter().filter(is_in_the_way).filter_map(|file| file.parent());
    if folders.into_iter().any(|folder| real.starts_with(folder)) || beside.any(|folder| absolute(folder) == real) {
        let message = "the shards would lie among the files that are packed; pack into another folder";
        return Err(Error::new(ErrorKind::Config, message).at_path(out));
    }
    Ok(())
}

/// A hash of the names, lengths and times of all files, which changes with their content.
pub(super) fn stamp(files: &[PathBuf]) -> String {
    let mut bytes = Vec::new();
    for path in files {
        let Ok(metadata) = fs::metadata(path) else { continue };
        let changed = metadata.modified().ok().and_then(|time| time.duration_since(std::time::UNIX_EPOCH).ok());
        let name = path.as_os_str().as_encoded_bytes();
        bytes.extend_from_slice(&(name.len() as u64).to_le_bytes());
        bytes.extend_from_slice(name);
        bytes.extend_from_slice(&metadata.len().to_le_bytes());
        bytes.extend_from_slice(&changed.unwrap_or_default().as_nanos().to_le_bytes());
    }
    format!("{:016x}", crate::random::hash_bytes(&bytes))
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    #[test]
    fn a_folder_is_free_after_a_run_although_a_forked_process_has_its_file_open() {
        let folder = tempfile::tempdir().unwrap();
        let lock = Lock::of(folder.path()).unwrap();
        let forked = lock.0.try_clone().unwrap();
        assert_eq!(Lock::of(folder.path()).err().map(|error| error.kind()), Some(ErrorKind::Config));
        drop(lock);
        assert!(Lock::of(folder.path()).is_ok());
        drop(forked);
    }
}
