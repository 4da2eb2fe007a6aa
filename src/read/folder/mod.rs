//! Files below a folder, each a record: with one subfolder per class, or without classes.

mod classes;
mod listing;
mod members;
mod saved;
mod stored;
mod values;

use std::path::Path;

use crate::error::{Error, ErrorKind};

pub(super) use listing::{Found, PathList, has_class_folders, parent_name};
pub(super) use members::Members;
pub(super) use saved::Way;
pub(super) use stored::{is_by_class, list as list_stored};
pub(super) use values::{
    ClassLists, FileValues, Lists, NamedFields, class_of, of_class, other_classes, split, with_classes,
};

/// Which files are listed.
#[derive(Clone, Copy)]
pub(super) struct Wanted {
    /// Whether a file's name is that of a wanted file.
    pub(super) is: fn(&Path) -> bool,
    /// The kinds of saved listings, with classes and without. They change when the form of the listing does.
    pub(super) saved_as: [&'static str; 2],
}

/// The error if a class is requested of files that have none, with advice.
#[cold]
pub(super) fn no_classes(name: &str, path: &Path, is_folder: bool) -> Error {
    let message = match is_folder {
        true => {
            "there are no classes: the files lie in the folder itself, not in one folder for each class below it; sort them into \
             such folders, or leave this field out"
        }
        false => {
            "a file that is named by itself has no class; name the folder that contains one folder per class, or leave this field out"
        }
    };
    Error::new(ErrorKind::Config, message).at_column(name).at_path(path)
}
