//! Data on standard input: data is looked into before it is read, so that it is kept in a file meanwhile.

use std::fs::File;
use std::io::{self, BufReader, IsTerminal, Read};
use std::path::{Path, PathBuf};

use ringfeed::{Error, Result};
use tempfile::TempDir;

use super::ending::Ending;
use super::names::{Names, STANDARD_INPUT};
use super::output::complain;

/// The file in which standard input is kept, until this drops.
pub(crate) struct Kept {
    _folder: TempDir,
    path: PathBuf,
}

impl Kept {
    /// What it is called in messages.
    pub(crate) fn names(&self) -> Names {
        Names::of(&self.path)
    }
}

/// Keeps standard input in a file, if `path` is `-`, and has `path` name that file, which is there until what this
/// gives drops, or the process is told to end.
///
/// # Errors
///
/// Those of reading and of writing.
pub(crate) fn keep<'p>(path: impl Into<Option<&'p mut PathBuf>>, ending: &Ending) -> Result<Option<Kept>> {
    let Some(path) = path.into().filter(|path| path.as_path() == Path::new("-")) else { return Ok(None) };
    let mut input = io::stdin().lock();
    if input.is_terminal() {
        complain("reading data from standard input, until its end");
    }
    let folder = tempfile::tempdir().map_err(|error| Error::io(std::env::temp_dir(), error))?;
    ending.remove(folder.path());
    *path = folder.path().join(STANDARD_INPUT);
    // As any reader: from a pipe, the system would copy on its own, and not count what was read.
    let mut input = BufReader::with_capacity(1 << 20, &mut input as &mut dyn Read);
    let copied = File::create(&*path).and_then(|mut file| io::copy(&mut input, &mut file));
    copied.map_err(|error| Error::io(STANDARD_INPUT, error))?;
    Ok(Some(Kept { _folder: folder, path: path.clone() }))
}
