//! The listing of a storage's folders.

use std::path::{Path, PathBuf};

use crate::error::{Error, ErrorKind, Result};
use crate::storage::Files;

use super::listing::{Found, Kind, unicode_name};

/// Folders within folders that are followed: more are a storage that leads in circles.
const MOST_LEVELS: usize = 64;

/// The images below `root`, and whether they have classes: a subfolder with images in it makes each subfolder one. In the
/// order in which a folder of this machine is listed.
pub(super) fn list(files: &Files, root: &Path) -> Result<(Found, bool)> {
    let mut found = Found::default();
    let mut loose = Vec::new();
    let mut classes = Vec::new();
    for entry in files.list(root)? {
        match Kind::of(&entry) {
            Kind::Image => loose.push(PathBuf::from(entry.name)),
            Kind::Folder => classes.push(PathBuf::from(entry.name)),
            Kind::Other => found.ignored += 1,
            Kind::HiddenFolder => {}
        }
    }
    classes.sort();
    let below = classes.iter().map(|class| images_below(files, root, class, &mut found.ignored));
    let below = below.collect::<Result<Vec<_>>>()?;
    found.files.set_root(root);
    let labelled = below.iter().any(|images| !images.is_empty());
    if labelled {
        found.ignored += loose.len() as u64;
        for (label, (class, images)) in classes.iter().zip(below).enumerate() {
            found.names.push(unicode_name(&root.join(class))?);
            found.labels.resize(found.labels.len() + images.len(), label as u32);
            images.iter().try_for_each(|image| found.files.push(image))?;
        }
    } else {
        loose.sort_by(|a, b| a.as_os_str().as_encoded_bytes().cmp(b.as_os_str().as_encoded_bytes()));
        loose.iter().try_for_each(|image| found.files.push(image))?;
    }
    Ok((found, labelled))
}

/// Whether a subfolder of `root` holds an image, however deep. Stops at the first.
pub(super) fn has_class_folders(files: &Files, root: &Path) -> Result<bool> {
    let mut open = vec![(PathBuf::new(), 0)];
    while let Some((folder, level)) = open.pop() {
        for entry in files.list(&below(root, &folder, level)?)? {
            match Kind::of(&entry) {
                Kind::Image if level > 0 => return Ok(true),
                Kind::Folder => open.push((folder.join(entry.name), level + 1)),
                _ => {}
            }
        }
    }
    Ok(false)
}

fn images_below(files: &Files, root: &Path, class: &Path, ignored: &mut u64) -> Result<Vec<PathBuf>> {
    let mut images = Vec::new();
    let mut open = vec![(class.to_owned(), 1)];
    while let Some((folder, level)) = open.pop() {
        for entry in files.list(&below(root, &folder, level)?)? {
            match Kind::of(&entry) {
                Kind::Image => images.push(folder.join(entry.name)),
                Kind::Folder => open.push((folder.join(entry.name), level + 1)),
                Kind::Other => *ignored += 1,
                Kind::HiddenFolder => {}
            }
        }
    }
    images.sort_by(|a, b| a.as_os_str().as_encoded_bytes().cmp(b.as_os_str().as_encoded_bytes()));
    Ok(images)
}

/// A folder so many levels below the root.
fn below(root: &Path, folder: &Path, level: usize) -> Result<PathBuf> {
    if level > MOST_LEVELS {
        let message = format!("lies more than {MOST_LEVELS} folders deep; does the storage lead in circles?");
        return Err(Error::new(ErrorKind::Limit, message).at_path(root.join(folder)));
    }
    Ok(if folder.as_os_str().is_empty() { root.to_owned() } else { root.join(folder) })
}
