use std::collections::hash_map::RandomState;
use std::env;
use std::fs::{self, File, OpenOptions};
use std::hash::{BuildHasher, Hasher};
use std::io;
use std::path::{Path, PathBuf};

/// Number of random names that are tried. A file that exists is never opened.
const MAX_TRIES: usize = 1000;

/// A new file under a name of its own, which is removed unless it gets another name.
#[derive(Debug)]
pub(crate) struct TemporaryFile {
    file: File,
    path: TemporaryPath,
}

/// A file that is removed when this is dropped; none if the path is empty.
#[derive(Debug)]
pub(crate) struct TemporaryPath(PathBuf);

/// Who may use a new file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Users {
    /// Only its owner.
    Owner,
    /// Those who may use any new file of this process (its `umask`).
    Usual,
}

impl TemporaryFile {
    pub(crate) fn new_in(folder: &Path, users: Users) -> io::Result<Self> {
        create(folder, &mut new_file(users))
    }

    pub(crate) fn file(&self) -> &File {
        &self.file
    }

    /// Renames it, in the same file system. What was there before is replaced.
    pub(crate) fn rename(mut self, path: &Path) -> io::Result<()> {
        fs::rename(&self.path.0, path)?;
        self.path.0.clear();
        Ok(())
    }

    /// Closes it, but does not remove it.
    pub(crate) fn close(self) -> TemporaryPath {
        self.path
    }
}

impl TemporaryPath {
    pub(crate) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for TemporaryPath {
    fn drop(&mut self) {
        if !self.0.as_os_str().is_empty() {
            let _ = fs::remove_file(&self.0);
        }
    }
}

/// A new file of this process alone, which ends with it, in `folder` or where the system keeps temporary files.
pub(crate) fn unnamed(folder: Option<&Path>) -> io::Result<File> {
    let folder = folder.map_or_else(env::temp_dir, Path::to_owned);
    #[cfg(target_os = "linux")]
    {
        use std::os::unix::fs::OpenOptionsExt;
        // Never has a name. Some file systems can't do this.
        if let Ok(file) = new_file(Users::Owner).custom_flags(libc::O_TMPFILE).open(&folder) {
            return Ok(file);
        }
    }
    let mut options = new_file(Users::Owner);
    #[cfg(windows)]
    {
        use std::os::windows::fs::OpenOptionsExt;
        // Nobody else opens it, and it is removed when it is closed.
        const FILE_FLAG_DELETE_ON_CLOSE: u32 = 0x0400_0000;
        options.share_mode(0).custom_flags(FILE_FLAG_DELETE_ON_CLOSE);
    }
    let TemporaryFile { file, mut path } = create(&folder, &mut options)?;
    match cfg!(windows) {
        true => path.0.clear(),
        false => drop(path),
    }
    Ok(file)
}

/// A new file with a random name.
fn create(folder: &Path, options: &mut OpenOptions) -> io::Result<TemporaryFile> {
    options.create_new(true);
    for _ in 0..MAX_TRIES {
        let path = folder.join(format!(".ringfeed-{:016x}", RandomState::new().build_hasher().finish()));
        match options.open(&path) {
            Ok(file) => return Ok(TemporaryFile { file, path: TemporaryPath(path) }),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
        }
    }
    Err(io::ErrorKind::AlreadyExists.into())
}

fn new_file(users: Users) -> OpenOptions {
    let mut options = File::options();
    options.read(true).write(true);
    #[cfg(unix)]
    {
        use std::os::unix::fs::OpenOptionsExt;
        options.mode(match users {
            Users::Owner => 0o600,
            Users::Usual => 0o666,
        });
    }
    #[cfg(not(unix))]
    let _ = users;
    options
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Seek, Write};

    use super::*;

    fn names(folder: &Path) -> usize {
        fs::read_dir(folder).unwrap().count()
    }

    #[test]
    fn files_are_removed_unless_they_get_another_name() {
        let folder = tempfile::tempdir().unwrap();
        let new = || TemporaryFile::new_in(folder.path(), Users::Owner).unwrap();
        let (kept, lost, closed) = (new(), new(), new().close());
        assert_eq!(names(folder.path()), 3);
        assert!(closed.path().exists());
        drop((lost, closed));
        assert_eq!(names(folder.path()), 1);

        kept.file().write_all(b"abc").unwrap();
        let path = folder.path().join("name");
        fs::write(&path, "what was there before").unwrap();
        kept.rename(&path).unwrap();
        assert_eq!((fs::read(&path).unwrap(), names(folder.path())), (b"abc".to_vec(), 1));

        let nowhere = new().rename(&folder.path().join("no folder").join("name"));
        assert_eq!((nowhere.unwrap_err().kind(), names(folder.path())), (io::ErrorKind::NotFound, 1));
    }

    #[cfg(unix)]
    #[test]
    fn a_file_without_a_name_is_one_all_the_same() {
        let folder = tempfile::tempdir().unwrap();
        for given in [Some(folder.path()), None] {
            let mut file = unnamed(given).unwrap();
            assert_eq!(names(folder.path()), 0);
            file.write_all(b"abc").unwrap();
            file.rewind().unwrap();
            let mut read = String::new();
            file.read_to_string(&mut read).unwrap();
            assert_eq!(read, "abc");
        }
        assert_eq!(unnamed(Some(&folder.path().join("none"))).unwrap_err().kind(), io::ErrorKind::NotFound);
    }

    #[cfg(unix)]
    #[test]
    fn private_files_are_their_owners() {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().unwrap();
        let file = TemporaryFile::new_in(folder.path(), Users::Owner).unwrap();
        assert_eq!(file.file().metadata().unwrap().permissions().mode() & 0o777, 0o600);
    }
}
