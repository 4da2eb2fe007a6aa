//! The listing of a storage's folders.

use std::path::{Path, PathBuf};

use crate::error::{Error, ErrorKind, Result};
use crate::storage::Files;

use super::Wanted;
use super::listing::{self, Found, Kind, unicode_name};

/// Deepest folders that are listed: if there are deeper ones, the storage has a cycle.
const MOST_LEVELS: usize = 64;

/// The files below `root`, and whether they have classes: if a subfolder contains files, each subfolder is a class. The
/// order is that of a local folder.
pub(in crate::read) fn list(files: &Files, root: &Path, wanted: Wanted) -> Result<(Found, bool)> {
    let mut found = Found::default();
    let mut loose = Vec::new();
    let mut classes = Vec::new();
    for entry in files.list(root)? {
        match Kind::of(&entry, wanted) {
            Kind::Wanted => loose.push(PathBuf::from(entry.name)),
            Kind::Folder => classes.push(PathBuf::from(entry.name)),
            Kind::Other | Kind::HiddenFolder => found.ignored += 1,
        }
    }
    classes.sort();
    let below = classes.iter().map(|class| files_below(files, root, class, wanted, &mut found.ignored));
    let below = below.collect::<Result<Vec<_>>>()?;
    found.files.set_root(root);
    let labelled = below.iter().any(|own| !own.is_empty());
    if labelled {
        found.ignored += loose.len() as u64;
        for (label, (class, own)) in classes.iter().zip(below).enumerate() {
            found.names.push(unicode_name(&root.join(class))?);
            found.labels.resize(found.labels.len() + own.len(), label as u32);
            own.iter().try_for_each(|file| found.files.push(file))?;
        }
    } else {
        loose.sort_by(|a, b| a.as_os_str().as_encoded_bytes().cmp(b.as_os_str().as_encoded_bytes()));
        loose.iter().try_for_each(|file| found.files.push(file))?;
    }
    Ok((found, labelled))
}

/// Whether a subfolder of `root` contains a wanted file, at any depth. Stops at the first.
fn has_class_folders(files: &Files, root: &Path, wanted: Wanted) -> Result<bool> {
    let mut open = vec![(PathBuf::new(), 0)];
    while let Some((folder, level)) = open.pop() {
        for entry in files.list(&below(root, &folder, level)?)? {
            match Kind::of(&entry, wanted) {
                Kind::Wanted if level > 0 => return Ok(true),
                Kind::Folder => open.push((folder.join(entry.name), level + 1)),
                _ => {}
            }
        }
    }
    Ok(false)
}

fn files_below(files: &Files, root: &Path, class: &Path, wanted: Wanted, ignored: &mut u64) -> Result<Vec<PathBuf>> {
    let mut own = Vec::new();
    let mut open = vec![(class.to_owned(), 1)];
    while let Some((folder, level)) = open.pop() {
        for entry in files.list(&below(root, &folder, level)?)? {
            match Kind::of(&entry, wanted) {
                Kind::Wanted => own.push(folder.join(entry.name)),
                Kind::Folder => open.push((folder.join(entry.name), level + 1)),
                Kind::Other | Kind::HiddenFolder => *ignored += 1,
            }
        }
    }
    own.sort_by(|a, b| a.as_os_str().as_encoded_bytes().cmp(b.as_os_str().as_encoded_bytes()));
    Ok(own)
}

/// A folder at this level below the root.
fn below(root: &Path, folder: &Path, level: usize) -> Result<PathBuf> {
    if level > MOST_LEVELS {
        let message = format!("lies more than {MOST_LEVELS} folders deep; does the storage have a cycle of folders?");
        return Err(Error::new(ErrorKind::Limit, message).at_path(root.join(folder)));
    }
    Ok(if folder.as_os_str().is_empty() { root.to_owned() } else { root.join(folder) })
}

/// Whether a path is a folder with a subfolder that contains a wanted file, at any depth.
///
/// # Errors
///
/// Those of looking.
pub(in crate::read) fn is_by_class(files: &Files, path: &Path, wanted: Wanted) -> Result<bool> {
    match files.are_local() {
        true => Ok(path.is_dir() && listing::has_class_folders(path, wanted)?),
        false => has_class_folders(files, path, wanted),
    }
}
