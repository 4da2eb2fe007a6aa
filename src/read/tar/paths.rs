use std::path::{Path, PathBuf};

use crate::error::{Error, ErrorKind, Result, missing_path};
use crate::storage::{Entry, Files};

/// Most archives that a pattern may stand for.
const MAX_ARCHIVES: usize = 1 << 20;

/// The archives that a path stands for, in order: itself, those in a folder, sorted by name, or those of a pattern with
/// braces, `train-{000..146}.tar` or `{train,extra}.tar`.
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
    Ok(paths)
}

/// Whether a file is called as an archive, and is not hidden.
pub(in crate::read) fn is_tar_name(path: &Path) -> bool {
    let is_tar = path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("tar"));
    is_tar && !path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"."))
}

/// Whether a path that does not exist is a pattern.
pub(crate) fn is_pattern(path: &Path) -> bool {
    !path.exists() && matches!(expand(path), Ok(Some(_)))
}

/// What a pattern stands for; `None` if the path is none.
fn expand(path: &Path) -> Result<Option<Vec<PathBuf>>> {
    let Some(text) = path.to_str().filter(|text| text.contains('{')) else { return Ok(None) };
    let mut found = vec![String::new()];
    let mut rest = text;
    while let Some((before, behind)) = rest.split_once('{') {
        let Some((braces, behind)) = behind.split_once('}') else { return Ok(None) };
        let Some(choices) = choices(braces) else { return Ok(None) };
        if choices.len().saturating_mul(found.len()) > MAX_ARCHIVES {
            let message = format!("the pattern stands for more than {MAX_ARCHIVES} archives");
            return Err(Error::new(ErrorKind::Config, message).at_path(path));
        }
        let with = |start: &String| choices.iter().map(|choice| format!("{start}{before}{choice}")).collect::<Vec<_>>();
        found = found.iter().flat_map(with).collect();
        rest = behind;
    }
    Ok(Some(found.into_iter().map(|start| PathBuf::from(start + rest)).collect()))
}

/// What stands in braces: a range of numbers, as wide as the wider of its ends if one begins with 0, or a list.
fn choices(braces: &str) -> Option<Vec<String>> {
    if let Some((first, last)) = braces.split_once("..") {
        let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        if !digits(first) || !digits(last) {
            return None;
        }
        let padded = [first, last].iter().any(|end| end.len() > 1 && end.starts_with('0'));
        let width = if padded { first.len().max(last.len()) } else { 0 };
        let (first, last) = (first.parse::<u64>().ok()?, last.parse::<u64>().ok()?);
        // One more than allowed is enough to be refused.
        let number = |number: u64| format!("{number:0width$}");
        return Some(match first <= last {
            true => (first..=last).take(MAX_ARCHIVES + 1).map(number).collect(),
            false => (last..=first).rev().take(MAX_ARCHIVES + 1).map(number).collect(),
        });
    }
    let list: Vec<String> = braces.split(',').map(str::to_owned).collect();
    (list.len() > 1).then_some(list)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn expanded(pattern: &str) -> Vec<String> {
        let paths = expand(Path::new(pattern)).unwrap().unwrap_or_default();
        paths.into_iter().map(|path| path.to_str().unwrap().to_owned()).collect()
    }

    #[test]
    fn braces_stand_for_ranges_and_lists_as_in_a_shell() {
        assert_eq!(expanded("a-{008..011}.tar"), ["a-008.tar", "a-009.tar", "a-010.tar", "a-011.tar"]);
        assert_eq!(expanded("a-{8..10}.tar"), ["a-8.tar", "a-9.tar", "a-10.tar"]);
        assert_eq!(expanded("{2..0}"), ["2", "1", "0"]);
        assert_eq!(expanded("{x,y}/{0..1}.tar"), ["x/0.tar", "x/1.tar", "y/0.tar", "y/1.tar"]);
        assert_eq!(expanded("{a,b"), [""; 0]);
        assert_eq!(expanded("{a}.tar"), [""; 0]);
        assert_eq!(expanded("plain.tar"), [""; 0]);
    }

    #[test]
    fn a_pattern_of_too_many_archives_is_refused_without_listing_them() {
        for pattern in ["{0..99999999999}", "{0..99999}{0..99999}"] {
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
