//! Files that a user names: only regular files are opened, and files are written completely or not at all.

use std::fs::{File, Metadata};
use std::io::{self, Read, Write};
use std::path::Path;

use serde::Serializer;

use crate::error::{Error, ErrorKind, Result, missing_path};
use crate::system::check_file_limit;

mod temporary;

pub(crate) use temporary::{TemporaryFile, TemporaryPath, Users, unnamed};

/// Opens an ordinary file for reading. If it does not exist, the error names the most similar entry. A folder, pipe,
/// device or socket is an error at once, without waiting.
pub(crate) fn open(path: &Path) -> Result<File> {
    let file = open_unseen(path)?;
    check_ordinary(path, &file.metadata().map_err(|error| Error::io(path, error))?)?;
    Ok(file)
}

/// Like [`open`], without a check of what was opened: reading may give anything, but does not wait.
pub(crate) fn open_unseen(path: &Path) -> Result<File> {
    let mut options = File::options();
    options.read(true);
    #[cfg(unix)]
    {
        use std::os::unix::fs::OpenOptionsExt;
        // Without this, opening a pipe waits for somebody who writes to it.
        options.custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY);
    }
    options.open(path).or_else(|error| {
        if let Ok(metadata) = path.metadata() {
            check_ordinary(path, &metadata)?;
            if error.kind() == io::ErrorKind::WouldBlock {
                // Another program has a lease on the file, and the system asks it to give the lease back.
                return File::open(path).map_err(|error| Error::io(path, error));
            }
        }
        Err(match error.kind() {
            io::ErrorKind::NotFound => missing_path(path),
            _ => Error::io(path, error),
        })
    })
}

/// An error unless this is an ordinary file.
pub(crate) fn check_ordinary(path: &Path, metadata: &Metadata) -> Result<()> {
    let (kind, message) = match (metadata.is_file(), metadata.is_dir()) {
        (true, _) => return Ok(()),
        (_, true) => (ErrorKind::Format, "is a folder, not an ordinary file"),
        _ => (ErrorKind::Unsupported, "is not an ordinary file; save what it gives to a file first"),
    };
    Err(Error::new(kind, message).at_path(path))
}

/// The text of an ordinary file of at most `max_bytes`; `what` names it in messages.
pub(crate) fn read_text(path: &Path, what: &str, max_bytes: u64) -> Result<String> {
    let mut bytes = Vec::new();
    open(path)?.take(max_bytes.saturating_add(1)).read_to_end(&mut bytes).map_err(|error| Error::io(path, error))?;
    if bytes.len() as u64 > max_bytes {
        let message = format!("is longer than {max_bytes} bytes, so it is probably not {what}");
        return Err(Error::new(ErrorKind::Limit, message).at_path(path));
    }
    String::from_utf8(bytes).map_err(|error| {
        let byte = error.utf8_error().valid_up_to() as u64;
        let message = format!("is not UTF-8, so it is not {what}");
        Error::new(ErrorKind::Format, message).with_source(error).at_path(path).at_byte(byte)
    })
}

/// Writes `parts`, one after another, to `path`, with the permissions of a new file. No reader ever sees an incomplete
/// file.
pub(crate) fn write_whole(path: &Path, parts: &[&[u8]]) -> io::Result<()> {
    check_file_limit(parts.iter().map(|part| part.len() as u64).sum())?;
    let new = unfinished(path)?;
    parts.iter().try_for_each(|part| new.file().write_all(part))?;
    new.rename(path)
}

/// As [`write_whole`]. When this returns, the file also survives a power cut, if the system supports this.
pub(crate) fn write_lasting(path: &Path, parts: &[&[u8]]) -> io::Result<()> {
    check_file_limit(parts.iter().map(|part| part.len() as u64).sum())?;
    let new = unfinished(path)?;
    parts.iter().try_for_each(|part| new.file().write_all(part))?;
    new.file().sync_all()?;
    new.rename(path)?;
    sync_folder_of(path);
    Ok(())
}

/// Makes the names in a file's folder survive a power cut, if the system supports this.
pub(crate) fn sync_folder_of(path: &Path) {
    let _ = File::open(folder_of(path)).and_then(|folder| folder.sync_all());
}

fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// A temporary file in the folder of `path`, which gets this name once it is complete. It has the permissions of a new
/// file.
pub(crate) fn unfinished(path: &Path) -> io::Result<TemporaryFile> {
    TemporaryFile::new_in(folder_of(path), Users::Usual)
}

/// A path in JSON, which can only hold Unicode text.
pub(crate) fn lossy<S: Serializer>(path: &Path, serializer: S) -> std::result::Result<S::Ok, S::Error> {
    serializer.serialize_str(&path.to_string_lossy())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_beyond_its_limit_or_of_no_characters_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("text");
        std::fs::write(&path, "0123456789").unwrap();
        assert_eq!(read_text(&path, "a text", 10).unwrap(), "0123456789");
        assert_eq!(read_text(&path, "a text", 9).unwrap_err().kind(), ErrorKind::Limit);
        std::fs::write(&path, b"012\xff").unwrap();
        let error = read_text(&path, "a text", 10).unwrap_err();
        assert_eq!((error.kind(), error.location().byte), (ErrorKind::Format, Some(3)));
        assert_eq!(read_text(folder.path(), "a text", 10).unwrap_err().kind(), ErrorKind::Format);
    }

    #[cfg(unix)]
    #[test]
    fn what_is_written_has_the_permissions_of_any_new_file() {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().unwrap();
        let (usual, whole) = (folder.path().join("usual"), folder.path().join("whole"));
        std::fs::write(&usual, "").unwrap();
        write_whole(&whole, &[b"a", b"bc"]).unwrap();
        assert_eq!(std::fs::read(&whole).unwrap(), b"abc");
        let mode = |path: &Path| path.metadata().unwrap().permissions().mode();
        assert_eq!(format!("{:o}", mode(&whole)), format!("{:o}", mode(&usual)));
    }

    #[cfg(unix)]
    #[test]
    fn sockets_and_devices_are_refused_at_once() {
        let folder = tempfile::tempdir().unwrap();
        let socket = folder.path().join("socket");
        let _listener = std::os::unix::net::UnixListener::bind(&socket).unwrap();
        for path in [&*socket, Path::new("/dev/zero"), Path::new("/dev/null")] {
            let error = open(path).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
        }
    }
}
