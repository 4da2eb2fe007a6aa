use std::path::{Path, PathBuf};

use crate::error::{Error, ErrorKind, Result, missing_path};
use crate::read::splits;
use crate::storage::{Entry, Files};

use super::braces::Pattern;

/// Most archives that a pattern may stand for.
const MAX_ARCHIVES: u64 = 1 << 20;

/// Most bytes of their paths.
const MAX_BYTES: u64 = 256 << 20;

/// The archives that a path stands for, in order: itself, those in a folder, sorted by name, or those of a pattern with
/// braces, `train-{000..146}.tar`, `{a..c}-{0..10..2}.tar` or `{train,extra-{0..9}}.tar`.
///
/// # Errors
///
/// [`ErrorKind::NotFound`] with the nearest name; also for a folder without archives. Whether the archives of a pattern
/// exist is seen when they are opened.
pub(super) fn archives(files: &Files, path: &Path) -> Result<Vec<PathBuf>> {
    // A file may be called so.
    if !(files.are_local() && path.exists())
        && let Some(paths) = expand(path)?
    {
        return Ok(paths);
    }
    if !files.are_local() && is_tar_name(path) {
        return Ok(vec![path.to_owned()]);
    }
    let paths = match files.list(path) {
        None => archives_here(path)?,
        Some(entries) => {
            let file = |entry| if let Entry::File(name) = entry { Some(path.join(name)) } else { None };
            entries?.into_iter().filter_map(file).filter(|path| is_tar_name(path)).collect()
        }
    };
    sorted(path, paths)
}

fn archives_here(path: &Path) -> Result<Vec<PathBuf>> {
    let metadata = std::fs::metadata(path).map_err(|error| match error.kind() {
        std::io::ErrorKind::NotFound => missing_path(path),
        _ => Error::io(path, error),
    })?;
    if !metadata.is_dir() {
        return Ok(vec![path.to_owned()]);
    }
    let mut paths = Vec::new();
    for entry in std::fs::read_dir(path).map_err(|error| Error::io(path, error))? {
        let entry = entry.map_err(|error| Error::io(path, error))?.path();
        if is_tar_name(&entry) {
            paths.push(entry);
        }
    }
    Ok(paths)
}

fn sorted(folder: &Path, mut paths: Vec<PathBuf>) -> Result<Vec<PathBuf>> {
    if paths.is_empty() {
        return Err(Error::new(ErrorKind::NotFound, "no archives: looked for files named .tar").at_path(folder));
    }
    paths.sort();
    let names: Vec<_> = paths.iter().map(|path| path.file_name().unwrap_or_default().to_string_lossy()).collect();
    if splits::are_mixed(names.iter().map(|name| name.split('.').next().unwrap_or_default())) {
        let or_else = ", or a pattern such as train-{000..146}.tar";
        return Err(splits::refuse(folder, names.iter().map(|name| &**name), "one set of samples", or_else));
    }
    Ok(paths)
}

/// Whether a file is called as an archive, and is not hidden.
pub(in crate::read) fn is_tar_name(path: &Path) -> bool {
    let is_tar = path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("tar"));
    is_tar && !path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"."))
}

/// The first of the paths that a pattern stands for.
pub(in crate::read) fn first_of_pattern(path: &Path) -> Result<PathBuf> {
    Ok(expand(path)?.and_then(|paths| paths.into_iter().next()).unwrap_or_else(|| path.to_owned()))
}

/// Whether a path that does not exist is a pattern.
pub(crate) fn is_pattern(path: &Path) -> bool {
    !path.exists() && matches!(expand(path), Ok(Some(_)))
}

/// What a pattern stands for; `None` if the path is none.
fn expand(path: &Path) -> Result<Option<Vec<PathBuf>>> {
    let Some(text) = path.to_str().filter(|text| text.contains('{')) else { return Ok(None) };
    let Some(pattern) = Pattern::of(text) else { return Ok(None) };
    let count = pattern.count();
    if count > MAX_ARCHIVES || count.saturating_mul(text.len() as u64) > MAX_BYTES {
        let message =
            format!("the pattern stands for {count} archives, and takes too much memory; at most {MAX_ARCHIVES}");
        return Err(Error::new(ErrorKind::Config, message).at_path(path));
    }
    Ok(Some(pattern.expand().into_iter().map(PathBuf::from).collect()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_of_too_many_archives_is_refused_without_listing_them() {
        let long = format!("{}-{{0..999999}}", "x".repeat(1000));
        for pattern in ["{0..99999999999}", "{0..99999}{0..99999}", &long] {
            assert_eq!(expand(Path::new(pattern)).unwrap_err().kind(), ErrorKind::Config);
        }
    }

    #[test]
    fn a_folder_stands_for_its_archives_and_a_file_for_itself() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(archives(&Files::local(), folder.path()).unwrap_err().kind(), ErrorKind::NotFound);
        for name in ["b.tar", "a.TAR", ".hidden.tar", "a.txt", "x-{0..1}.tar"] {
            std::fs::write(folder.path().join(name), "").unwrap();
        }
        let path = |name: &str| folder.path().join(name);
        assert_eq!(
            archives(&Files::local(), folder.path()).unwrap(),
            [path("a.TAR"), path("b.tar"), path("x-{0..1}.tar")]
        );
        assert_eq!(archives(&Files::local(), &path("x-{0..1}.tar")).unwrap(), [path("x-{0..1}.tar")]);
        let error = archives(&Files::local(), &path("bb.tar")).unwrap_err();
        assert!(error.to_string().contains("b.tar"), "{error}");
    }
}
