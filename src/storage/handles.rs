//! Files of which only some are open at a time, so that a data set of thousands of files does not use up the process's
//! file descriptors.

use std::collections::HashMap;
use std::fmt;
use std::fs::{File, Metadata};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use crate::error::{Error, Result};
use crate::sync::{AtomicU64, Mutex, Ordering};

use super::{open_file, replaced};

/// Keeps some files open: the most recently used ones.
#[derive(Debug)]
pub(crate) struct Handles {
    most: usize,
    next: AtomicU64,
    open: Mutex<Open>,
}

#[derive(Debug, Default)]
struct Open {
    files: HashMap<u64, (Arc<File>, u64)>,
    uses: u64,
}

impl Handles {
    /// Keeps `most` files open, in addition to those that are being read.
    pub(crate) fn new(most: usize) -> Self {
        Self { most, next: AtomicU64::new(0), open: Mutex::default() }
    }

    fn kept(&self, number: u64) -> Option<Arc<File>> {
        let mut open = self.open.lock();
        open.uses += 1;
        let uses = open.uses;
        let (file, used) = open.files.get_mut(&number)?;
        *used = uses;
        Some(file.clone())
    }

    fn keep(&self, number: u64, file: &Arc<File>) {
        let mut open = self.open.lock();
        open.uses += 1;
        let uses = open.uses;
        open.files.insert(number, (file.clone(), uses));
        let oldest = open.files.iter().min_by_key(|(_, (_, used))| *used).map(|(number, _)| *number);
        // It is closed after the lock is released.
        let closed = oldest.filter(|_| open.files.len() > self.most).and_then(|oldest| open.files.remove(&oldest));
        drop(open);
        drop(closed);
    }
}

/// A file that is opened again if it was closed.
pub(super) struct Lent {
    handles: Arc<Handles>,
    number: u64,
    path: PathBuf,
    len: u64,
    identity: Identity,
}

impl fmt::Debug for Lent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lent").field("path", &self.path).finish_non_exhaustive()
    }
}

impl Lent {
    /// Opens a file, and also returns its length.
    pub(super) fn open(handles: &Arc<Handles>, path: &Path) -> Result<(Self, u64)> {
        let file = open_file(path)?;
        let metadata = file.metadata().map_err(|error| Error::io(path, error))?;
        let number = handles.next.fetch_add(1, Ordering::Relaxed);
        handles.keep(number, &Arc::new(file));
        let (handles, path) = (handles.clone(), path.to_owned());
        let len = metadata.len();
        Ok((Self { handles, number, path, len, identity: identity_of(&metadata) }, len))
    }

    /// The open file.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Io`](crate::error::ErrorKind::Io) if it can't be opened again, or was replaced.
    pub(super) fn file(&self) -> Result<Arc<File>> {
        if let Some(file) = self.handles.kept(self.number) {
            return Ok(file);
        }
        let file = open_file(&self.path)?;
        let metadata = file.metadata().map_err(|error| Error::io(&self.path, error))?;
        if identity_of(&metadata) != self.identity || metadata.len() != self.len {
            return Err(replaced(&self.path));
        }
        let file = Arc::new(file);
        self.handles.keep(self.number, &file);
        Ok(file)
    }
}

/// What differs between files of the same name, and between the states of one that is written to: the number of a file
/// that was removed is soon given to another one.
type Identity = (Option<SystemTime>, (u64, u64));

fn identity_of(metadata: &Metadata) -> Identity {
    #[cfg(unix)]
    let number = {
        use std::os::unix::fs::MetadataExt;
        (metadata.dev(), metadata.ino())
    };
    #[cfg(not(unix))]
    let number = (0, 0);
    (metadata.modified().ok(), number)
}

#[cfg(all(test, not(ringfeed_loom)))]
mod tests {
    use super::super::input::read_at;
    use super::*;
    use crate::error::ErrorKind;

    #[test]
    fn no_more_files_are_open_than_may_be_and_all_can_be_read() {
        let folder = tempfile::tempdir().unwrap();
        let handles = Arc::new(Handles::new(3));
        let path = |at: usize| folder.path().join(format!("{at}"));
        let lent: Vec<Lent> = (0..10)
            .map(|at| {
                std::fs::write(path(at), [at as u8]).unwrap();
                Lent::open(&handles, &path(at)).unwrap().0
            })
            .collect();
        for at in (0..10).chain((0..10).rev()).chain([4, 4, 4, 7]) {
            let mut byte = [0];
            read_at(&lent[at].file().unwrap(), 0, &mut byte).unwrap();
            assert_eq!(byte[0], at as u8);
            assert!(handles.open.lock().files.len() <= 3);
        }
        assert!(handles.kept(4).is_some() && handles.kept(9).is_none());
    }

    #[cfg(unix)]
    #[test]
    fn a_file_that_another_one_has_replaced_is_an_error_that_names_it() {
        let folder = tempfile::tempdir().unwrap();
        let handles = Arc::new(Handles::new(1));
        let path = |name: &str| folder.path().join(name);
        for name in ["a", "b", "c", "new"] {
            std::fs::write(path(name), name).unwrap();
        }
        let a = Lent::open(&handles, &path("a")).unwrap().0;
        let b = Lent::open(&handles, &path("b")).unwrap().0;
        std::fs::rename(path("new"), path("a")).unwrap();
        let error = a.file().unwrap_err();
        assert_eq!((error.kind(), error.path()), (ErrorKind::Io, Some(&*path("a"))));
        assert!(b.file().is_ok());
        std::fs::remove_file(path("a")).unwrap();
        assert!(a.file().is_err());
        // Another file may get the number of the one that was removed.
        let a = Lent::open(&handles, &path("b")).unwrap().0;
        let _other = Lent::open(&handles, &path("c")).unwrap();
        std::fs::remove_file(path("b")).unwrap();
        std::fs::write(path("b"), "a longer one").unwrap();
        assert_eq!(a.file().unwrap_err().kind(), ErrorKind::Io);
        // The same file may be written anew, with as many bytes.
        let a = Lent::open(&handles, &path("b")).unwrap().0;
        let _other = Lent::open(&handles, &path("c")).unwrap();
        let file = File::options().write(true).open(path("b")).unwrap();
        file.set_modified(SystemTime::UNIX_EPOCH).unwrap();
        assert_eq!(a.file().unwrap_err().kind(), ErrorKind::Io);
    }
}
