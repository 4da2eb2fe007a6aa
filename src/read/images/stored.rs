//! The listing of a storage's folders.

use std::path::{Path, PathBuf};

use crate::error::{Error, ErrorKind, Result};
use crate::storage::{Entry, Files};

use super::listing::{Found, is_image, unicode_name};

/// Folders within folders that are followed: more are a storage that leads in circles.
const MOST_LEVELS: usize = 64;

/// The images below `root`, and whether they have classes: a subfolder with images in it makes each subfolder one. In the
/// order in which a folder of this machine is listed.
pub(super) fn list(files: &Files, root: &Path) -> Result<(Found, bool)> {
    let mut found = Found::default();
    let mut loose = Vec::new();
    let mut classes = Vec::new();
    for entry in entries(files, root)? {
        match entry {
            Entry::File(name) if is_visible(Path::new(&name)) && is_image(Path::new(&name)) => {
                loose.push(PathBuf::from(name))
            }
            Entry::File(_) => found.ignored += 1,
            Entry::Folder(name) if is_visible(Path::new(&name)) => classes.push(PathBuf::from(name)),
            Entry::Folder(_) => {}
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

fn images_below(files: &Files, root: &Path, class: &Path, ignored: &mut u64) -> Result<Vec<PathBuf>> {
    let mut images = Vec::new();
    let mut open = vec![(class.to_owned(), 1)];
    while let Some((folder, level)) = open.pop() {
        if level > MOST_LEVELS {
            let message = format!("lies more than {MOST_LEVELS} folders deep; does the storage lead in circles?");
            return Err(Error::new(ErrorKind::Limit, message).at_path(root.join(folder)));
        }
        for entry in entries(files, &root.join(&folder))? {
            match entry {
                Entry::File(name) if is_visible(Path::new(&name)) && is_image(Path::new(&name)) => {
                    images.push(folder.join(name))
                }
                Entry::File(_) => *ignored += 1,
                Entry::Folder(name) if is_visible(Path::new(&name)) => open.push((folder.join(name), level + 1)),
                Entry::Folder(_) => {}
            }
        }
    }
    images.sort_by(|a, b| a.as_os_str().as_encoded_bytes().cmp(b.as_os_str().as_encoded_bytes()));
    Ok(images)
}

fn entries(files: &Files, folder: &Path) -> Result<Vec<Entry>> {
    files.list(folder).unwrap_or_else(|| Ok(Vec::new()))
}

fn is_visible(name: &Path) -> bool {
    !name.as_os_str().as_encoded_bytes().starts_with(b".")
}
