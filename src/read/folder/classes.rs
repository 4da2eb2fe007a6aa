//! Folders that look like classes but are not.

use std::collections::{BTreeSet, HashMap};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::error::{Error, ErrorKind, Result, nearest};
use crate::read::splits;

use super::listing::Found;

impl Found {
    /// Refuses folders in `root` that are not classes: parts of a data set, or a folder that holds the folders of the
    /// classes.
    pub(in crate::read) fn check_classes(&self, root: &Path) -> Result<()> {
        let mut counts = vec![0u64; self.names.len()];
        self.labels.iter().for_each(|label| counts[*label as usize] += 1);
        let filled = self.names.iter().zip(&counts).filter(|(_, count)| **count > 0).map(|(name, _)| name.as_str());
        let or_else = "; if they are classes, list them in `classes`";
        if splits::are_parts(filled.clone()) {
            return Err(splits::refuse(root, filled, "classes", or_else));
        }
        let (Some(only), None) = (filled.clone().next(), filled.clone().nth(1)) else { return Ok(()) };
        // The folder that holds all files, and the folders in it.
        let mut common: Option<PathBuf> = None;
        for index in 0..self.files.len() {
            let parent = self.files.relative(index).parent().unwrap_or(Path::new(""));
            let mut shared = common.take().unwrap_or_else(|| parent.to_owned());
            while !parent.starts_with(&shared) && shared.pop() {}
            common = Some(shared);
        }
        let common = common.unwrap_or_default();
        let below = |index: usize| {
            let rest = self.files.relative(index).strip_prefix(&common).ok()?;
            let mut parts = rest.components();
            let folder = parts.next()?.as_os_str().to_str()?;
            parts.next().map(|_| folder)
        };
        let folders: Option<BTreeSet<&str>> = (0..self.files.len()).map(below).collect();
        let Some(folders) = folders.filter(|folders| folders.len() > 1) else { return Ok(()) };
        let folder = root.join(&common);
        let names = folders.iter().copied();
        if splits::are_parts(names.clone()) {
            return Err(splits::refuse(&folder, names, "classes", or_else));
        }
        let some: Vec<&str> = names.take(5).collect();
        let message = format!(
            "the only class would be {only:?}, whose files lie in {} folders, such as {some:?}; if these are the classes, name \
             {folder:?}, otherwise list {only:?} in `classes`",
            folders.len()
        );
        Err(Error::new(ErrorKind::Config, message).at_path(root))
    }

    /// Turns labels into the indices of the classes. Returns the classes in the order of the indices: those that are
    /// `listed`, or those that were found, sorted.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Data`] for a class that is not listed.
    pub(in crate::read) fn index_classes(&mut self, listed: Option<&[String]>, tensor: &str) -> Result<Arc<[String]>> {
        let names = std::mem::take(&mut self.names);
        let Some(classes) = listed else { return Ok(sort_classes(names, &mut self.labels).into()) };
        let mut index_of = Vec::with_capacity(names.len());
        // Of a class that is listed twice, the first place counts.
        let places: HashMap<&str, usize> =
            classes.iter().enumerate().rev().map(|(place, class)| (class.as_str(), place)).collect();
        for name in &names {
            let index = *places.get(name.as_str()).ok_or_else(|| {
                let near = nearest(name, classes.iter().map(String::as_str));
                let hint = near.map_or_else(String::new, |near| format!("; did you mean {near:?}?"));
                let message = format!("class {name:?} is not among the {} listed ones{hint}", classes.len());
                Error::new(ErrorKind::Data, message).at_column(tensor)
            })?;
            index_of.push(index as u32);
        }
        self.labels.iter_mut().for_each(|label| *label = index_of[*label as usize]);
        Ok(classes.into())
    }
}

/// Sorts class names, and changes the labels to match.
fn sort_classes(mut names: Vec<String>, labels: &mut [u32]) -> Vec<String> {
    let mut order: Vec<usize> = (0..names.len()).collect();
    order.sort_by(|a, b| names[*a].cmp(&names[*b]));
    let mut index_of = vec![0u32; names.len()];
    order.iter().enumerate().for_each(|(new, old)| index_of[*old] = new as u32);
    labels.iter_mut().for_each(|label| *label = index_of[*label as usize]);
    names.sort();
    names
}
