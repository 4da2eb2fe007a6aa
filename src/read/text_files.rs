//! Whole text files, one record each.

use std::path::{Path, PathBuf};

use crate::error::Result;
use crate::memory::MemoryBudget;
use crate::storage::{Files, Needs};

use super::container::{Container, FieldInfo, FieldKind, Visit};
use super::format::{Format, Open, Opened, format_has};
use super::listed::ListedFiles;
use super::value::Value;
use super::{ColumnRef, Fingerprint, Scratch};
use crate::error::Location;

/// The format of whole text files: each file is a record with the field `text`, without a byte-order mark. Its name is
/// its path below the innermost folder that holds all files. It is never detected: name it in settings.
#[derive(Clone, Copy, Debug)]
pub struct TextFiles;

impl Format for TextFiles {
    const NAME: &'static str = "text_files";
    type Options = ();

    fn sniff(&self, _: &[u8], _: &Path) -> bool {
        false
    }

    fn title(&self) -> Option<&'static str> {
        None
    }

    format_has!(one_of_many);

    fn open_many(&self, (): &(), paths: &[PathBuf], at: &Open<'_>) -> Result<impl Into<Opened>> {
        WholeFiles::new(at.files, paths, at.budget)
    }
}

struct WholeFiles(ListedFiles);

const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

impl WholeFiles {
    fn new(files: &Files, paths: &[PathBuf], budget: &MemoryBudget) -> Result<Self> {
        let root = shared_folder(paths);
        let mut listed = ListedFiles::new(files, root, budget)?.called("text", FieldKind::Text);
        for (record, path) in (0..).zip(paths) {
            match path.strip_prefix(root) {
                Ok(below) => listed.push(record, below)?,
                Err(_) => listed.push_elsewhere(record, path)?,
            }
        }
        listed.check(paths.len() as u64)?;
        Ok(Self(listed))
    }
}

/// The innermost folder that contains all of these files; empty if there is none.
fn shared_folder(paths: &[PathBuf]) -> &Path {
    let mut folders = paths.first().into_iter().flat_map(|path| path.ancestors().skip(1));
    folders.find(|folder| paths.iter().all(|path| path.starts_with(folder))).unwrap_or(Path::new(""))
}

impl Container for WholeFiles {
    fn len(&self) -> u64 {
        self.0.len()
    }

    fn fields(&self) -> &[FieldInfo] {
        self.0.fields()
    }

    fn find(&mut self, field: &ColumnRef) -> Result<usize> {
        super::find_field(self.fields(), field)
    }

    fn need(&self, records: &[u64], needs: &mut Needs) {
        self.0.need(records, needs);
    }

    fn fetch(&self, records: &[u64], nth: usize, scratch: &mut Scratch) -> Result<()> {
        self.0.fetch(records, nth, scratch)
    }

    fn read(&self, record: u64, nth: usize, scratch: &mut Scratch, visit: &mut Visit<'_>) -> Result<()> {
        self.0.read(record, nth, scratch, &mut |number, value| match value {
            Value::Bytes(bytes) => match bytes.strip_prefix(BYTE_ORDER_MARK).unwrap_or(bytes) {
                // Without bytes, a value of other files may be missing.
                [] => visit(number, Value::Text("")),
                text => visit(number, Value::Bytes(text)),
            },
            value => visit(number, value),
        })
    }

    fn place(&self, record: u64) -> Location {
        self.0.place(record)
    }

    fn name(&self, record: u64, name: &mut Vec<u8>) {
        self.0.name(record, name);
    }

    fn fingerprint(&self) -> Fingerprint {
        self.0.fingerprint()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn paths<const N: usize>(paths: [&str; N]) -> Vec<PathBuf> {
        paths.map(PathBuf::from).to_vec()
    }

    #[test]
    fn relative_files_of_several_folders_are_read_under_different_names() {
        let listed = paths(["Cargo.toml", "src/lib.rs", "src/read/mod.rs"]);
        for files in [&listed[..], &listed[1..], &listed[2..]] {
            let container = WholeFiles::new(&Files::local(), files, &MemoryBudget::unlimited()).unwrap();
            let (mut scratch, mut names) = (Scratch::default(), Vec::new());
            for (record, path) in (0..).zip(files) {
                container.fetch(&[record], 0, &mut scratch).unwrap();
                assert_eq!(container.place(record).path.as_ref(), Some(path));
                names.push(Vec::new());
                container.name(record, names.last_mut().unwrap());
            }
            names.dedup();
            assert_eq!(names.len(), files.len());
        }
    }

    #[test]
    fn names_begin_below_the_folder_that_holds_all_files() {
        for (files, folder) in [
            (paths(["/a/b/1.txt", "/a/b/2.txt"]), "/a/b"),
            (paths(["/a/b/1.txt", "/a/b/c/2.txt"]), "/a/b"),
            (paths(["/a/b/1.txt", "/a/c/2.txt"]), "/a"),
            (paths(["/a/b/1.txt", "/a/bc/2.txt"]), "/a"),
            (paths(["b/1.txt", "c/2.txt"]), ""),
            (paths(["1.txt"]), ""),
            (paths(["/1.txt", "2.txt"]), ""),
            (paths([]), ""),
        ] {
            assert_eq!(shared_folder(&files), Path::new(folder), "{files:?}");
        }
    }
}
