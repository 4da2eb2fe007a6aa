use std::path::{Path, PathBuf};

use crate::error::Result;
use crate::read::paths::{files_at, is_hidden};
use crate::storage::Files;

/// The archives that a path stands for: the file itself, those in a folder, or those that match a pattern; see
/// [`files_at`].
pub(super) fn archives(files: &Files, path: &Path) -> Result<Vec<PathBuf>> {
    Ok(files_at(files, path, &is_tar)?.files)
}

pub(super) fn is_tar(name: &str) -> bool {
    name.ends_with(".tar")
}

/// Whether a file's name is that of an archive, and not hidden.
pub(in crate::read) fn is_tar_name(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy().to_lowercase();
    is_tar(&name) && !is_hidden(&name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::ErrorKind;

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
