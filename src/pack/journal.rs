//! The progress of a pack, so that a run that was killed can resume: one line per shard, written before the shard
//! appears.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::error::{Error, ErrorKind, Result};
use crate::files;
use crate::system::check_file_limit;

/// A file that was packed, and which records are in it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct PackedShard {
    /// Its name in the folder.
    pub name: String,
    /// The first record of the source that is in it, or was left out.
    pub first: u64,
    /// The record after the last one.
    pub end: u64,
    /// Number of records that it holds.
    pub records: u64,
    /// Size of the file in bytes.
    pub bytes: u64,
    /// CRC-32 of the file (zlib's), as 8 hexadecimal digits.
    pub crc32: String,
}

/// Identifies a pack by everything that it is made of. Only the same pack can be resumed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Identity(pub(super) String);

pub(super) struct Journal {
    folder: PathBuf,
    file: File,
}

/// The advice if a folder holds another pack.
pub(super) const START_OVER: &str =
    "pack into another folder, or start over (--restart), which removes the shards that are here";

/// The advice for a file with the name of a shard that no pack has made here.
pub(super) const NOT_OURS: &str =
    "is not one of the shards that were packed here; move or remove it, or pack into another folder";

const NAME: &str = ".ringfeed-pack";

/// The path of the journal in a folder.
pub(super) fn path_in(folder: &Path) -> PathBuf {
    folder.join(NAME)
}

/// Maximum length of a journal.
const MAX_BYTES: u64 = 1 << 30;

impl Journal {
    /// Opens the journal in `folder`, or begins one. Returns the shards that are finished.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Config`] if another pack is being written there.
    pub(super) fn open(folder: &Path, identity: &Identity) -> Result<(Self, Vec<PackedShard>)> {
        let path = path_in(folder);
        let fault = |error: io::Error| Error::io(&path, error);
        let mut file = File::options().read(true).append(true).create(true).open(&path).map_err(fault)?;
        let mut text = Vec::new();
        (&file).take(MAX_BYTES).read_to_end(&mut text).map_err(fault)?;
        let mut lines = whole_lines(&text);
        let mut shards: Vec<PackedShard> = Vec::new();
        let mut kept = 0u64;
        match lines.next() {
            None => {}
            Some(first) if serde_json::from_slice::<Identity>(first).ok().as_ref() == Some(identity) => {
                kept = first.len() as u64 + 1;
                for line in lines {
                    let Ok(shard) = serde_json::from_slice::<PackedShard>(line) else { break };
                    let goes_on = shard.first == shards.last().map_or(0, |last: &PackedShard| last.end);
                    if !goes_on || !appear(folder, &shard)? {
                        break;
                    }
                    kept += line.len() as u64 + 1;
                    shards.push(shard);
                }
            }
            Some(_) => {
                let message = format!(
                    "something else was packed here and not finished, or the same with other options or from files that have \
                     changed since; {START_OVER}"
                );
                return Err(Error::new(ErrorKind::Config, message).at_path(folder));
            }
        }
        if kept < text.len() as u64 {
            // Those behind the last good one are written again.
            let dropped: Vec<String> = listed(&text).skip(shards.len()).collect();
            remove_shards(folder, dropped.iter())?;
            file.set_len(kept).map_err(fault)?;
        }
        if kept == 0 {
            write_line(&mut file, identity).map_err(fault)?;
        }
        Ok((Self { folder: folder.to_owned(), file }, shards))
    }

    /// Begins a new journal in a folder, with these finished shards.
    pub(super) fn begin(folder: &Path, identity: &Identity, shards: &[PackedShard]) -> Result<()> {
        let path = path_in(folder);
        let fault = |error: io::Error| Error::io(&path, error);
        let mut text = serde_json::to_string(identity).map_err(|error| fault(error.into()))? + "\n";
        for shard in shards {
            text += &serde_json::to_string(shard).map_err(|error| fault(error.into()))?;
            text.push('\n');
        }
        files::write_lasting(&path, &[text.as_bytes()]).map_err(fault)
    }

    /// Adds a shard whose file is complete under its temporary name, and renames the file.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Config`] if there is a file with its name, which has come while the shard was written.
    pub(super) fn finish(&mut self, shard: &PackedShard) -> Result<()> {
        let taken = self.folder.join(&shard.name);
        if fs::symlink_metadata(&taken).is_ok() {
            return Err(Error::new(ErrorKind::Config, NOT_OURS).at_path(taken));
        }
        let path = self.folder.join(NAME);
        write_line(&mut self.file, shard).map_err(|error| Error::io(&path, error))?;
        rename(&self.folder, shard)
    }

    /// Removes it.
    pub(super) fn remove(self) -> Result<()> {
        let path = self.folder.join(NAME);
        fs::remove_file(&path).map_err(|error| Error::io(&path, error))
    }
}

/// The names of the shards that the journal in this folder lists.
pub(super) fn names(folder: &Path) -> Result<Vec<String>> {
    let path = path_in(folder);
    if !path.exists() {
        return Ok(Vec::new());
    }
    let mut text = Vec::new();
    let read = files::open(&path)?.take(MAX_BYTES).read_to_end(&mut text);
    read.map_err(|error| Error::io(&path, error))?;
    Ok(listed(&text).collect())
}

/// The names of the shards in a journal, as far as it is valid.
fn listed(text: &[u8]) -> impl Iterator<Item = String> {
    let shards = whole_lines(text).skip(1).map_while(|line| serde_json::from_slice::<PackedShard>(line).ok());
    shards.map(|shard| shard.name).take_while(|name| is_file_name(name))
}

fn is_file_name(name: &str) -> bool {
    Path::new(name).file_name().is_some_and(|own| *own == *name)
}

/// The lines of a journal; an incomplete last one does not count.
fn whole_lines(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    let end = text.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
    text[..end].split(|byte| *byte == b'\n').filter(|line| !line.is_empty())
}

/// Removes shards, and what was written of them.
pub(super) fn remove_shards<'a>(out: &Path, names: impl IntoIterator<Item = &'a String>) -> Result<()> {
    names.into_iter().try_for_each(|name| remove_files([part_of(out, name), out.join(name)]))
}

pub(super) fn remove_files(paths: [PathBuf; 2]) -> Result<()> {
    paths.iter().try_for_each(|path| match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(Error::io(path, error)),
        _ => Ok(()),
    })
}

fn write_line(file: &mut File, line: &impl Serialize) -> io::Result<()> {
    let mut text = serde_json::to_vec(line).map_err(io::Error::other)?;
    text.push(b'\n');
    check_file_limit(file.metadata()?.len().saturating_add(text.len() as u64))?;
    file.write_all(&text)?;
    file.sync_data()
}

/// The temporary name of a shard until it is finished.
pub(super) fn part_of(folder: &Path, name: &str) -> PathBuf {
    folder.join(format!(".{name}.part"))
}

fn rename(folder: &Path, shard: &PackedShard) -> Result<()> {
    let path = folder.join(&shard.name);
    fs::rename(part_of(folder, &shard.name), &path).map_err(|error| Error::io(&path, error))?;
    files::sync_folder_of(&path);
    Ok(())
}

/// Whether a shard in the journal exists. Renames its file if only that was missing.
fn appear(folder: &Path, shard: &PackedShard) -> Result<bool> {
    if !is_file_name(&shard.name) {
        return Ok(false);
    }
    if is_whole(&folder.join(&shard.name), shard)? {
        return Ok(true);
    }
    if !is_whole(&part_of(folder, &shard.name), shard)? {
        return Ok(false);
    }
    rename(folder, shard).map(|()| true)
}

/// Whether a file exists and has the content that was written to it.
pub(super) fn is_whole(path: &Path, shard: &PackedShard) -> Result<bool> {
    let metadata = fs::symlink_metadata(path).ok().filter(fs::Metadata::is_file);
    Ok(metadata.is_some_and(|metadata| metadata.len() == shard.bytes) && crc32_of(path)? == shard.crc32)
}

/// The checksum of a file.
fn crc32_of(path: &Path) -> Result<String> {
    let mut file = files::open(path)?;
    let mut hasher = crc32fast::Hasher::new();
    let mut buffer = vec![0; 1 << 20];
    loop {
        match file.read(&mut buffer).map_err(|error| Error::io(path, error))? {
            0 => return Ok(format!("{:08x}", hasher.finalize())),
            count => hasher.update(&buffer[..count]),
        }
    }
}
