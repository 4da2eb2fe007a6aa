//! Data on standard input: data is looked into before it is read, so that it is kept in a file meanwhile.

use std::fs::File;
use std::io::{self, IsTerminal};
use std::path::{Path, PathBuf};

use ringfeed::{Error, Result};
use tempfile::TempDir;

use super::output::complain;

/// What standard input is called in messages, behind its folder.
const NAME: &str = "standard input";

/// Keeps standard input in a file, if `path` is `-`, and has `path` name that file, which is there until what this gives drops.
///
/// # Errors
///
/// Those of reading and of writing.
pub(crate) fn keep<'p>(path: impl Into<Option<&'p mut PathBuf>>) -> Result<Option<TempDir>> {
    let Some(path) = path.into().filter(|path| path.as_path() == Path::new("-")) else { return Ok(None) };
    let mut input = io::stdin().lock();
    if input.is_terminal() {
        complain("reading data from standard input, until its end");
    }
    let folder = tempfile::tempdir().map_err(|error| Error::io(std::env::temp_dir(), error))?;
    *path = folder.path().join(NAME);
    let copied = File::create(&*path).and_then(|mut file| io::copy(&mut input, &mut file));
    copied.map_err(|error| Error::io(&*path, error))?;
    Ok(Some(folder))
}
