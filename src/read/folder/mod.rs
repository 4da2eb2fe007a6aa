//! Files below a folder, each a record: with one subfolder a class, or without classes.

mod classes;
mod listing;
mod members;
mod saved;
mod stored;

use std::path::Path;

pub(super) use listing::{Found, PathList, has_class_folders, parent_name};
pub(super) use members::Members;
pub(super) use saved::Way;
pub(super) use stored::{is_by_class, list as list_stored};

/// Which files are listed.
#[derive(Clone, Copy)]
pub(super) struct Wanted {
    /// Whether a file is called like one.
    pub(super) is: fn(&Path) -> bool,
    /// What saved listings of them are known by, of classes and without. They change when what is saved does.
    pub(super) saved_as: [&'static str; 2],
}
