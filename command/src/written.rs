//! Files that a command writes when its work is done: what stands in the way is said before.

use std::path::Path;

use ringfeed::{Error, ErrorKind, LoaderConfig, Result};

/// Refuses a file that can't be written, that is read by the same run, or whose name does not end in one of `endings`.
///
/// # Errors
///
/// [`ErrorKind::Config`], and [`ErrorKind::Io`] as writing would give it.
pub(crate) fn check<'p>(file: &Path, endings: &[&str], read: impl IntoIterator<Item = &'p Path>) -> Result<()> {
    let refused = |message: String| Err(Error::new(ErrorKind::Config, message).at_path(file));
    let ending = file.extension().and_then(|ending| ending.to_str()).unwrap_or_default();
    if !endings.is_empty() && !endings.contains(&ending) {
        return refused(format!("let its name end in .{}", endings.join(" or .")));
    }
    if file.is_dir() {
        return refused("this is a folder; name a file in it".to_owned());
    }
    if let (Ok(own), true) = (file.canonicalize(), file.exists())
        && read.into_iter().any(|other| other.canonicalize().is_ok_and(|other| other == own))
    {
        return refused("this file is read by the same command; write to another".to_owned());
    }
    let folder = match file.parent() {
        Some(folder) if folder != Path::new("") => folder,
        _ => Path::new("."),
    };
    tempfile::Builder::new().prefix(".ringfeed-").tempfile_in(folder).map(drop).map_err(|error| Error::io(file, error))
}

/// The files that a run of these settings reads.
pub(crate) fn inputs(config: &LoaderConfig) -> impl Iterator<Item = &Path> {
    config.sources.iter().flat_map(|source| source.paths().iter())
}
