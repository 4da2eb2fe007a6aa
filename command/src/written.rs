//! Files that a command writes when its work is done: what stands in the way is said before.

use std::path::{Path, PathBuf};

use ringfeed::{Error, ErrorKind, LoaderConfig, Result};
use tempfile::NamedTempFile;

/// Refuses a file that can't be written, that a run of these settings reads, or would read if it were there, that is
/// the `settings_file` itself, or whose name does not end in one of `endings`.
///
/// # Errors
///
/// [`ErrorKind::Config`], and [`ErrorKind::Io`] as writing would give it.
pub(crate) fn check(file: &Path, endings: &[&str], read: &LoaderConfig, settings_file: Option<&Path>) -> Result<()> {
    let refused = |message: String| Err(Error::new(ErrorKind::Config, message).at_path(file));
    let ending = file.extension().and_then(|ending| ending.to_str()).unwrap_or_default();
    if !endings.is_empty() && !endings.contains(&ending) {
        return refused(format!("give it a name that ends in .{}", endings.join(" or .")));
    }
    if file.is_dir() {
        return refused("this is a folder; name a file in it".to_owned());
    }
    let is = if file.exists() { "is" } else { "would be" };
    if settings_file.is_some_and(|settings| place(settings) == place(file)) || read.would_read(file)? {
        return refused(format!(
            "this file {is} read by the same command, or is in a folder that is read as a whole; write to another"
        ));
    }
    beside(file).map(drop)
}

/// Refuses settings that can't be written to `file`.
///
/// # Errors
///
/// As those of [`LoaderConfig::save`].
pub(crate) fn check_settings(config: &LoaderConfig, file: &Path) -> Result<()> {
    let tried = beside(file)?;
    config.save(tried.path()).map_err(|error| Error::new(error.kind(), error.message().to_owned()).at_path(file))
}

/// A file beside `file` that is gone when it drops.
fn beside(file: &Path) -> Result<NamedTempFile> {
    let made = tempfile::Builder::new().prefix(".ringfeed-").tempfile_in(folder_of(file));
    made.map_err(|error| Error::io(file, error))
}

/// Refuses two files that are one.
///
/// # Errors
///
/// [`ErrorKind::Config`].
pub(crate) fn check_apart<'p>(files: impl IntoIterator<Item = &'p Path>) -> Result<()> {
    let mut places = Vec::new();
    for file in files {
        let place = place(file);
        if places.contains(&place) {
            let message = "two outputs have this file; give each of them its own file";
            return Err(Error::new(ErrorKind::Config, message).at_path(file));
        }
        places.push(place);
    }
    Ok(())
}

/// Where a file is, or would be.
pub(crate) fn place(file: &Path) -> PathBuf {
    let beside = || Some(folder_of(file).canonicalize().ok()?.join(file.file_name()?));
    file.canonicalize().ok().or_else(beside).unwrap_or_else(|| file.to_owned())
}

fn folder_of(file: &Path) -> &Path {
    match file.parent() {
        Some(folder) if folder != Path::new("") => folder,
        _ => Path::new("."),
    }
}
