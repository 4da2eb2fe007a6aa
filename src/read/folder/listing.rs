use std::collections::{BTreeSet, HashMap, HashSet};
use std::ffi::OsStr;
use std::fs::Metadata;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use crate::error::{Error, ErrorKind, Result};
use crate::random::mix;
use crate::read::parallel;
use crate::read::saved::last_change;
use crate::storage::{EntryKind, Listed, entries as listed, metadata};

use super::Wanted;

/// Paths below one root, stored one after another: some 8 bytes each in addition to their text.
#[derive(Default)]
pub(in crate::read) struct PathList {
    root: PathBuf,
    bytes: Vec<u8>,
    /// Where each path ends in `bytes`.
    ends: Vec<u64>,
}

/// Begins a path that is not below the root. No path has it.
const ELSEWHERE: u8 = 0;

/// Number of files that a thread looks at before it takes the next ones.
const FILES_AT_A_TIME: usize = 1024;

impl PathList {
    /// The paths that end at these places in `bytes`; `None` if the last one ends elsewhere.
    pub(super) fn of(root: &Path, bytes: Vec<u8>, ends: Vec<u64>) -> Option<Self> {
        let end = ends.last().copied().unwrap_or_default();
        (end == bytes.len() as u64).then(|| Self { root: root.to_owned(), bytes, ends })
    }

    /// Sets the folder that the paths are below.
    pub(in crate::read) fn set_root(&mut self, root: &Path) {
        root.clone_into(&mut self.root);
    }

    /// The text of all paths, and the length of each.
    pub(super) fn parts(&self) -> (&[u8], impl ExactSizeIterator<Item = u32>) {
        let mut start = 0;
        let len = move |end: &u64| {
            let len = end - start;
            start = *end;
            // No system has paths of 4 GiB.
            len as u32
        };
        (&self.bytes, self.ends.iter().map(len))
    }

    /// Whether every file is directly in the root, not in a folder below it.
    pub(super) fn lie_in_root(&self) -> bool {
        !self.bytes.iter().any(|byte| std::path::is_separator(char::from(*byte)))
    }

    /// Bytes of memory.
    pub(in crate::read) fn held_bytes(&self) -> u64 {
        (self.bytes.capacity() + 8 * self.ends.capacity()) as u64
    }

    fn shrink_to_fit(&mut self) {
        self.bytes.shrink_to_fit();
        self.ends.shrink_to_fit();
    }

    /// A hash of the files' lengths. Reads each file's metadata, on a thread for each core.
    pub(in crate::read) fn hash_of_sizes(&self) -> Result<u64> {
        let mut hash = 0;
        parallel::in_order(
            parallel::thread_count(None),
            self.len().div_ceil(FILES_AT_A_TIME) as u64,
            |path: &mut PathBuf, job| {
                let first = job as usize * FILES_AT_A_TIME;
                let sizes = (first..self.len().min(first + FILES_AT_A_TIME)).map(|file| {
                    self.write(file as u64, path);
                    metadata(path).map_or(0, |metadata| metadata.len())
                });
                Ok(sizes.collect::<Vec<u64>>())
            },
            |sizes| {
                hash = sizes.into_iter().fold(hash, |hash, size| mix(hash ^ size));
                Ok(())
            },
        )?;
        Ok(hash)
    }

    pub(in crate::read) fn len(&self) -> usize {
        self.ends.len()
    }

    /// Adds a path relative to the root.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Data`] for a path that no file can have.
    pub(in crate::read) fn push(&mut self, path: &Path) -> Result<()> {
        let bytes = path_bytes(path)?;
        if bytes.contains(&0) {
            return Err(Error::new(ErrorKind::Data, "a zero byte in the name of a file").at_path(path));
        }
        self.bytes.extend_from_slice(bytes);
        self.ends.push(self.bytes.len() as u64);
        Ok(())
    }

    /// Adds a path that is not below the root. An absolute one may be added as if it were.
    pub(in crate::read) fn push_elsewhere(&mut self, path: &Path) -> Result<()> {
        let at = self.bytes.len();
        if path.is_relative() {
            self.bytes.push(ELSEWHERE);
        }
        self.push(path).inspect_err(|_| self.bytes.truncate(at))
    }

    fn stored(&self, index: usize) -> &[u8] {
        let start = index.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.bytes[start as usize..self.ends[index] as usize]
    }

    /// The path of file `index` below the root, or all of a path that is not.
    ///
    /// # Panics
    ///
    /// If there is no such file.
    pub(in crate::read) fn relative(&self, index: usize) -> &Path {
        let stored = self.stored(index);
        bytes_path(stored.strip_prefix(&[ELSEWHERE]).unwrap_or(stored))
    }

    /// Writes the path of file `index`, root included, into `into`, reusing its memory.
    ///
    /// # Panics
    ///
    /// If there is no such file.
    pub(in crate::read) fn write(&self, index: u64, into: &mut PathBuf) {
        into.as_mut_os_string().clear();
        if self.stored(index as usize).first() != Some(&ELSEWHERE) {
            into.push(&self.root);
        }
        into.push(self.relative(index as usize));
    }

    /// A hash of all paths below the root, and their order.
    pub(in crate::read) fn hash(&self) -> u64 {
        let text = self.bytes.chunks(8).fold(0, |hash, chunk| {
            let mut word = [0u8; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            mix(hash ^ u64::from_le_bytes(word))
        });
        self.ends.iter().fold(text, |hash, end| mix(hash ^ end))
    }
}

#[cfg(unix)]
pub(super) fn path_bytes(path: &Path) -> Result<&[u8]> {
    Ok(std::os::unix::ffi::OsStrExt::as_bytes(path.as_os_str()))
}

#[cfg(unix)]
pub(super) fn bytes_path(bytes: &[u8]) -> &Path {
    Path::new(<OsStr as std::os::unix::ffi::OsStrExt>::from_bytes(bytes))
}

#[cfg(not(unix))]
pub(super) fn path_bytes(path: &Path) -> Result<&[u8]> {
    let text = path.to_str().map(str::as_bytes);
    text.ok_or_else(|| Error::new(ErrorKind::Unsupported, "a path that is not Unicode; rename it").at_path(path))
}

#[cfg(not(unix))]
pub(super) fn bytes_path(bytes: &[u8]) -> &Path {
    Path::new(std::str::from_utf8(bytes).unwrap_or_default())
}

/// What a listing found.
#[derive(Default)]
pub(in crate::read) struct Found {
    pub(in crate::read) files: PathList,
    /// For each file, the index of its class in `names`; empty without classes.
    pub(in crate::read) labels: Vec<u32>,
    /// The class names, in the order in which they were met.
    pub(in crate::read) names: Vec<String>,
    pub(in crate::read) ignored: u64,
    /// The first of them.
    pub(in crate::read) ignored_names: Names,
    /// The folders that were listed, below the root.
    pub(in crate::read) folders: Vec<Stamp>,
    /// Why folders below the root could not be listed.
    pub(in crate::read) refused: Vec<Error>,
}

/// The first of many paths below the root, in their order.
#[derive(Default)]
pub(in crate::read) struct Names(pub(in crate::read) BTreeSet<PathBuf>);

impl Names {
    const MOST: usize = 10;

    pub(super) fn add(&mut self, path: PathBuf) {
        self.0.insert(path);
        if self.0.len() > Self::MOST {
            self.0.pop_last();
        }
    }
}

/// A folder, and its last change before it was listed. Archives and copies choose the time of modification, but not that
/// of the last change.
#[derive(Debug, PartialEq)]
pub(in crate::read) struct Stamp {
    pub(super) folder: PathBuf,
    pub(super) modified: SystemTime,
    pub(super) changed: SystemTime,
}

impl Stamp {
    /// Whether the folder has not changed since then. `path` is a buffer.
    pub(super) fn is_current(&self, root: &Path, path: &mut PathBuf) -> bool {
        root.clone_into(path);
        path.push(&self.folder);
        metadata(path).is_ok_and(|now| {
            now.modified().is_ok_and(|modified| modified == self.modified) && last_change(&now) == Some(self.changed)
        })
    }

    pub(super) fn of(root: &Path, folder: &Path) -> Result<Self> {
        Self::identified(root, folder).map(|(stamp, _)| stamp)
    }

    /// The stamp, and what distinguishes the folder from every other.
    fn identified(root: &Path, folder: &Path) -> Result<(Self, Identity)> {
        let path = root.join(folder);
        let metadata = metadata(&path)?;
        let modified = metadata.modified().map_err(|error| Error::io(&path, error))?;
        let changed = last_change(&metadata).unwrap_or(modified);
        Ok((Self { folder: folder.to_owned(), modified, changed }, identity(&path, &metadata)?))
    }
}

/// What identifies a folder, whatever links lead to it. (The real path would also do, but finding it looks at every
/// folder above, which takes minutes for a chain of a thousand folders.)
#[cfg(unix)]
type Identity = (u64, u64);

#[cfg(not(unix))]
type Identity = PathBuf;

#[cfg(unix)]
fn identity(_: &Path, metadata: &Metadata) -> Result<Identity> {
    use std::os::unix::fs::MetadataExt;
    Ok((metadata.dev(), metadata.ino()))
}

#[cfg(not(unix))]
fn identity(path: &Path, _: &Metadata) -> Result<Identity> {
    std::fs::canonicalize(path).map_err(|error| Error::io(path, error))
}

impl Found {
    /// The same files with the classes that `label` gives, without the files that it leaves out.
    pub(in crate::read) fn relabel(self, label: &dyn Fn(&Path) -> Result<Option<String>>) -> Result<Self> {
        let Self { ignored, ignored_names, folders, refused, .. } = self;
        let mut found = Self { ignored, ignored_names, folders, refused, ..Self::default() };
        found.files.root.clone_from(&self.files.root);
        let mut index_of: HashMap<String, u32> = HashMap::new();
        let mut path = PathBuf::new();
        for index in 0..self.files.len() {
            self.files.write(index as u64, &mut path);
            let Some(name) = label(&path).map_err(|error| error.at_path(&path))? else {
                found.ignored += 1;
                found.ignored_names.add(self.files.relative(index).to_owned());
                continue;
            };
            let next = index_of.len() as u32;
            let class = *index_of.entry(name).or_insert_with_key(|name| {
                found.names.push(name.clone());
                next
            });
            found.files.push(self.files.relative(index))?;
            found.labels.push(class);
        }
        Ok(found)
    }
}

/// Everything below `root`, sorted by the bytes of the paths.
pub(super) fn flat(root: &Path, wanted: Wanted) -> Result<Found> {
    let mut found = Found::default();
    found.files.root = root.to_owned();
    Folder::list(root, Path::new(""), wanted).drain_into(&mut found)?;
    found.files.shrink_to_fit();
    Ok(found)
}

/// The subfolders of `root`, sorted by name, and the files below each. They are listed on a thread for each core.
pub(super) fn by_class(root: &Path, wanted: Wanted) -> Result<Found> {
    let mut found = Found::default();
    found.files.root = root.to_owned();
    found.folders.push(Stamp::of(root, Path::new(""))?);
    let mut classes = Vec::new();
    for entry in entries(root, wanted)? {
        let (name, kind) = entry?;
        match kind {
            Kind::Folder => classes.push(name),
            Kind::Wanted | Kind::Other => {
                found.ignored += 1;
                found.ignored_names.add(name);
            }
            Kind::HiddenFolder => {
                found.ignored += 1;
                found.ignored_names.add(as_folder(name));
            }
        }
    }
    classes.sort();
    parallel::in_order(
        parallel::thread_count(None),
        classes.len() as u64,
        |(): &mut (), class| {
            let class = &classes[class as usize];
            Ok((unicode_name(&root.join(class))?, Folder::list(root, class, wanted)))
        },
        |(name, folder)| {
            found.names.push(name);
            folder.drain_into(&mut found)?;
            found.labels.resize(found.files.len(), found.names.len() as u32 - 1);
            Ok(())
        },
    )?;
    found.files.shrink_to_fit();
    found.labels.shrink_to_fit();
    Ok(found)
}

/// Whether a subfolder of `root` contains a wanted file, at any depth. Stops at the first.
pub(in crate::read) fn has_class_folders(root: &Path, wanted: Wanted) -> Result<bool> {
    let mut seen = HashSet::new();
    let mut open = vec![root.to_owned()];
    let mut refused = None;
    while let Some(folder) = open.pop() {
        let listed = (|| {
            // Links may lead to the same folder again.
            if !seen.insert(Stamp::identified(&folder, Path::new(""))?.1) {
                return Ok(false);
            }
            for entry in entries(&folder, wanted)? {
                match entry? {
                    (_, Kind::Wanted) if folder != root => return Ok(true),
                    (name, Kind::Folder) => open.push(folder.join(name)),
                    _ => {}
                }
            }
            Ok(false)
        })();
        match listed {
            Ok(true) => return Ok(true),
            Ok(false) => {}
            Err(error) => {
                refused.get_or_insert(error);
            }
        }
    }
    refused.map_or(Ok(false), Err)
}

/// The name of the folder that holds a file.
pub(in crate::read) fn parent_name(path: &Path) -> Result<String> {
    let parent = path.parent().filter(|parent| parent.file_name().is_some());
    unicode_name(parent.ok_or_else(|| {
        let message = "has no folder to take the class from; say where labels come from";
        Error::new(ErrorKind::Data, message).at_path(path)
    })?)
}

pub(super) fn unicode_name(folder: &Path) -> Result<String> {
    let name = folder.file_name().and_then(OsStr::to_str).map(str::to_owned);
    name.ok_or_else(|| Error::new(ErrorKind::Data, "a class name that is not UTF-8; rename it").at_path(folder))
}

/// The name of a folder, with a slash behind it, so that it isn't taken for that of a file.
fn as_folder(name: PathBuf) -> PathBuf {
    name.join("")
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Wanted,
    Folder,
    HiddenFolder,
    Other,
}

/// The entries of a folder with their kinds; links are followed.
fn entries(folder: &Path, wanted: Wanted) -> Result<impl Iterator<Item = Result<(PathBuf, Kind)>>> {
    let with_kind = move |entry: Listed| {
        let kind = Kind::of(&entry, wanted);
        (PathBuf::from(entry.name), kind)
    };
    Ok(listed(folder)?.map(move |entry| entry.map(with_kind)))
}

impl Kind {
    pub(super) fn of(entry: &Listed, wanted: Wanted) -> Self {
        let is_wanted = (wanted.is)(Path::new(&entry.name));
        match (entry.kind, entry.is_hidden()) {
            (EntryKind::Folder, false) => Self::Folder,
            (EntryKind::Folder, true) => Self::HiddenFolder,
            (EntryKind::File, false) if is_wanted => Self::Wanted,
            // Reading it says what it is: a pipe, or a link that leads nowhere.
            (EntryKind::Special | EntryKind::Nothing, false) if is_wanted => Self::Wanted,
            _ => Self::Other,
        }
    }
}

/// What is found below one folder.
#[derive(Default)]
struct Folder {
    files: Vec<PathBuf>,
    ignored: u64,
    ignored_names: Names,
    folders: Vec<Stamp>,
    refused: Vec<Error>,
}

impl Folder {
    /// Lists `start` below the root and all folders in it.
    fn list(root: &Path, start: &Path, wanted: Wanted) -> Self {
        let mut found = Self::default();
        // The identities of the folders listed so far: links may lead to one of them again.
        let mut seen = HashSet::new();
        // A list instead of recursion, so that deep folders need no stack.
        let mut open = vec![start.to_owned()];
        while let Some(below) = open.pop() {
            match found.add(root, &below, &mut seen, wanted) {
                Ok(folders) => open.extend(folders.into_iter().rev()),
                Err(error) => found.refused.push(error),
            }
        }
        found.files.sort_by(|a, b| a.as_os_str().as_encoded_bytes().cmp(b.as_os_str().as_encoded_bytes()));
        found
    }

    /// Adds the content of one folder. Returns the folders in it, sorted, so that of several links to a folder always
    /// the same one is followed first.
    fn add(&mut self, root: &Path, below: &Path, seen: &mut HashSet<Identity>, wanted: Wanted) -> Result<Vec<PathBuf>> {
        let mut folders = Vec::new();
        // Read before the listing: what changes meanwhile is listed again by the next run.
        let (stamp, identity) = Stamp::identified(root, below)?;
        if !seen.insert(identity) {
            return Ok(folders);
        }
        self.folders.push(stamp);
        for entry in entries(&root.join(below), wanted)? {
            let (name, kind) = entry?;
            match kind {
                Kind::Wanted => self.files.push(below.join(name)),
                Kind::Folder => folders.push(below.join(name)),
                Kind::Other => {
                    self.ignored += 1;
                    self.ignored_names.add(below.join(name));
                }
                Kind::HiddenFolder => {
                    self.ignored += 1;
                    self.ignored_names.add(as_folder(below.join(name)));
                }
            }
        }
        folders.sort();
        Ok(folders)
    }

    fn drain_into(self, found: &mut Found) -> Result<()> {
        for path in &self.files {
            found.files.push(path)?;
        }
        found.ignored += self.ignored;
        self.ignored_names.0.into_iter().for_each(|name| found.ignored_names.add(name));
        found.folders.extend(self.folders);
        found.refused.extend(self.refused);
        Ok(())
    }
}
