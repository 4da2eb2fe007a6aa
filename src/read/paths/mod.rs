//! From the paths that a user writes (a file, a folder, a pattern, or a list of those) to files.

mod braces;

use std::collections::BTreeSet;
use std::fmt;
use std::path::{Component, Path, PathBuf};

use glob::Pattern;
use serde::de::{Error as _, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::error::{Error, ErrorKind, Result};
use crate::storage::{Files, metadata};

use super::splits;

/// Limits for what a path may stand for: number of files, and bytes of their paths.
const MAX_FILES: u64 = 1 << 20;
const MAX_BYTES: u64 = 256 << 20;

/// The paths of a source: a file, a folder, a pattern such as `train-*.parquet`, `**/*.csv` or `{000..146}.tar`, or a
/// list of those. In settings a text, or a list of texts.
///
/// The files of a folder or a pattern are read in the byte order of their names, folder by folder; those of a list, or
/// of braces, in the order in which they are written. Files whose names begin with a dot or an underscore, or end with
/// `.crc`, are ignored (`_SUCCESS`, `.part-0.crc`), unless a pattern names them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Paths(Vec<PathBuf>);

impl Paths {
    /// The only path, or the first of a list; an empty path if the list is empty.
    pub fn first(&self) -> &Path {
        self.0.first().map_or(Path::new(""), PathBuf::as_path)
    }

    /// All paths.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &Path> {
        self.0.iter().map(PathBuf::as_path)
    }

    pub(crate) fn first_mut(&mut self) -> &mut PathBuf {
        if self.0.is_empty() {
            self.0.push(PathBuf::new());
        }
        &mut self.0[0]
    }

    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = &mut PathBuf> {
        self.0.iter_mut()
    }
}

impl<P: Into<PathBuf>> From<P> for Paths {
    fn from(path: P) -> Self {
        Self(vec![path.into()])
    }
}

impl<P: Into<PathBuf>> FromIterator<P> for Paths {
    fn from_iter<I: IntoIterator<Item = P>>(paths: I) -> Self {
        Self(paths.into_iter().map(Into::into).collect())
    }
}

impl Serialize for Paths {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0.as_slice() {
            [one] => one.serialize(serializer),
            all => all.serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for Paths {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct OneOrMore;

        impl<'de> Visitor<'de> for OneOrMore {
            type Value = Paths;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a file, a folder, a pattern, or a list of those")
            }

            fn visit_str<E: serde::de::Error>(self, path: &str) -> Result<Paths, E> {
                Ok(path.into())
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Paths, A::Error> {
                let mut paths: Vec<PathBuf> = Vec::new();
                while let Some(path) = seq.next_element()? {
                    paths.push(path);
                }
                match paths.is_empty() {
                    true => Err(A::Error::custom("a list without a path; name at least one file")),
                    false => Ok(Paths(paths)),
                }
            }
        }

        deserializer.deserialize_any(OneOrMore)
    }
}

/// The files that a path stands for, and other files beside them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Found {
    pub(crate) files: Vec<PathBuf>,
    pub(crate) passed_over: Vec<PathBuf>,
}

impl Found {
    pub(crate) fn add(&mut self, other: Self) {
        self.files.extend(other.files);
        self.passed_over.extend(other.passed_over);
    }
}

/// The files that a path stands for: itself, those of a folder, or those of a pattern.
///
/// A folder stands for the files whose names (in lower case) `is_data` accepts. If it accepts none, the folder stands
/// for all files that are not hidden, if they have the same extension. Missing files of a pattern with braces are
/// noticed when they are opened.
///
/// # Errors
///
/// [`ErrorKind::NotFound`] with the nearest name, also if a folder or pattern has no file; [`ErrorKind::Config`] for an
/// invalid pattern, and for a folder that holds several data sets.
pub(crate) fn files_at(files: &Files, path: &Path, is_data: &dyn Fn(&str) -> bool) -> Result<Found> {
    let at_path = |error: Error| if error.path().is_some() { error } else { error.at_path(path) };
    if !(files.are_local() && path.exists())
        && let Some(patterns) = expand(path)?
    {
        let mut found = Found::default();
        for pattern in patterns {
            match has_wildcard(&pattern) && !(files.are_local() && pattern.exists()) {
                true => found.add(matching(files, &pattern).map_err(at_path)?),
                false if files.are_local() && pattern.is_dir() => found.add(in_folder(files, &pattern, is_data)?),
                false => found.files.push(pattern),
            }
            if found.files.len() as u64 > MAX_FILES {
                return Err(at_path(too_many(found.files.len() as u64)));
            }
        }
        return Ok(found);
    }
    let is_folder = match files.are_local() {
        true => metadata(path)?.is_dir(),
        // A storage says that a file is not a folder.
        false => !is_data(&lower(path)) && files.is_folder(path),
    };
    match is_folder {
        true => in_folder(files, path, is_data),
        false => Ok(Found { files: vec![path.to_owned()], passed_over: Vec::new() }),
    }
}

/// The paths of a file: with all links resolved, and by its own name and its folders' names, with the links on the way
/// to them resolved.
pub(crate) fn places(file: &Path) -> BTreeSet<PathBuf> {
    let Ok(file) = std::path::absolute(file) else { return BTreeSet::new() };
    let folders = file.ancestors().filter_map(|folder| Some((folder, file.strip_prefix(folder).ok()?)));
    let named = folders.take_while(|(_, rest)| !rest.components().any(|part| part == Component::ParentDir));
    named.filter_map(|(folder, rest)| Some(folder.canonicalize().ok()?.join(rest).components().collect())).collect()
}

/// Whether `path` is the file with this [place](places), or a folder that contains it.
pub(crate) fn is_at(path: &Path, file: &Path) -> bool {
    path.canonicalize().is_ok_and(|own| file.starts_with(own))
}

/// Whether the file with this [place](places) is one that `path` may stand for, in any format.
pub(crate) fn is_below(files: &Files, path: &Path, file: &Path) -> bool {
    match is_pattern(files, path) {
        true => files_at(files, path, &|_| true).unwrap_or_default().files.iter().any(|own| is_at(own, file)),
        false => is_at(path, file),
    }
}

/// Whether a path is a pattern. A local path that exists is not.
pub(crate) fn is_pattern(files: &Files, path: &Path) -> bool {
    !(files.are_local() && path.exists()) && matches!(expand(path), Ok(Some(_)))
}

fn lower(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().to_lowercase()
}

fn has_wildcard(path: &Path) -> bool {
    path.to_str().is_some_and(|text| text.contains(['*', '?', '[']))
}

#[cold]
fn too_many(count: u64) -> Error {
    let message = format!("the pattern stands for {count} files, and takes too much memory; at most {MAX_FILES}");
    Error::new(ErrorKind::Config, message)
}

/// The patterns that a path stands for after its braces are expanded; `None` if the path is not a pattern.
fn expand(path: &Path) -> Result<Option<Vec<PathBuf>>> {
    let Some(text) = path.to_str() else { return Ok(None) };
    let braces = if text.contains('{') { braces::Pattern::of(text) } else { None };
    let Some(pattern) = braces else {
        return Ok(has_wildcard(path).then(|| vec![path.to_owned()]));
    };
    let count = pattern.count();
    if count > MAX_FILES || count.saturating_mul(text.len() as u64) > MAX_BYTES {
        return Err(too_many(count).at_path(path));
    }
    Ok(Some(pattern.expand().into_iter().map(PathBuf::from).collect()))
}

/// Whether the name of a folder's entry shows that it is not data.
pub(crate) fn is_hidden(name: &str) -> bool {
    name.starts_with(['.', '_']) || name.ends_with(".crc") || name.ends_with(".ringfeed")
}

fn in_folder(files: &Files, folder: &Path, is_data: &dyn Fn(&str) -> bool) -> Result<Found> {
    let (mut visible, mut found) = (Vec::new(), Found::default());
    let mut has_folders = false;
    for entry in files.list(folder)? {
        has_folders |= entry.is_folder();
        let is_visible = !entry.is_folder() && !is_hidden(&entry.name.to_string_lossy());
        let kept = if is_visible { &mut visible } else { &mut found.passed_over };
        kept.push(folder.join(entry.name));
    }
    let (known, others): (Vec<_>, Vec<_>) = visible.into_iter().partition(|path| is_data(&lower(path)));
    let extension = |path: &PathBuf| path.extension().map(|extension| extension.to_string_lossy().to_lowercase());
    if known.is_empty() {
        if let Some(other) = others.iter().find(|other| extension(other) != extension(&others[0])) {
            let [one, other] = [&others[0], other].map(|path| path.file_name().unwrap_or_default());
            let message = format!(
                "the folder holds files of several kinds ({one:?} and {other:?}), and their names don't tell which are meant; \
                 give a pattern such as {:?}",
                folder.join("*.bin")
            );
            return Err(Error::new(ErrorKind::Config, message).at_path(folder));
        }
        found.files = others;
    } else {
        found.files = known;
        found.passed_over.extend(others);
    }
    if found.files.is_empty() {
        let advice = if has_folders { "; to read what lies in its folders, give a pattern such as **/*" } else { "" };
        return Err(Error::new(ErrorKind::NotFound, format!("the folder has no such file{advice}")).at_path(folder));
    }
    found.files.sort_unstable();
    found.passed_over.sort_unstable();
    let names: Vec<String> = found.files.iter().map(|path| lower(path)).collect();
    let beginning = |name: &'_ str| name.find(|next: char| next == '.' || next.is_ascii_digit()).unwrap_or(name.len());
    if splits::are_mixed(names.iter().map(|name| &name[..beginning(name)])) {
        let extension = extension(&found.files[0]).unwrap_or_default();
        let or_else = format!(", or a pattern such as train-*.{extension}");
        return Err(splits::refuse(folder, names.iter().map(String::as_str), "one set of samples", &or_else));
    }
    Ok(found)
}

/// The files that match a pattern with `*`, `?`, `[..]` and `**`.
fn matching(files: &Files, pattern: &Path) -> Result<Found> {
    let (mut root, mut steps) = (PathBuf::new(), Vec::new());
    for component in pattern.components() {
        match component {
            Component::Normal(name) => steps.push(Step::of(&name.to_string_lossy())?),
            other if steps.is_empty() => root.push(other),
            _ => {
                let message = "`..` after a wildcard; write the pattern without it";
                return Err(Error::new(ErrorKind::Config, message));
            }
        }
    }
    if matches!(steps.last(), Some(Step::Folders)) {
        steps.push(Step::of("*")?);
    }
    while matches!(steps.first(), Some(Step::Name(_))) && steps.len() > 1 {
        if let Step::Name(name) = steps.remove(0) {
            root.push(name);
        }
    }
    let mut found = Found::default();
    walk(files, &root, &steps, &mut found)?;
    found.files.sort_unstable();
    found.files.dedup();
    found.passed_over.sort_unstable();
    found.passed_over.dedup();
    if found.files.is_empty() {
        let advice = match found.passed_over.as_slice() {
            [] => String::new(),
            [first, ..] => format!(" (not meant: folders and hidden files, such as {first:?})"),
        };
        return Err(Error::new(ErrorKind::NotFound, format!("no file matches the pattern{advice}")));
    }
    Ok(found)
}

enum Step {
    Name(String),
    Wildcard(Pattern),
    /// `**`: any number of folders.
    Folders,
}

impl Step {
    fn of(text: &str) -> Result<Self> {
        if text == "**" {
            return Ok(Self::Folders);
        }
        if !text.contains(['*', '?', '[']) {
            return Ok(Self::Name(text.to_owned()));
        }
        Pattern::new(text).map(Self::Wildcard).map_err(|error| {
            Error::new(ErrorKind::Config, format!("{text:?} does not exist, and is not a valid pattern: {}", error.msg))
                .with_source(error)
        })
    }
}

/// Whether a pattern also matches hidden files.
fn means_hidden(pattern: &Pattern, name: &str) -> bool {
    let text = pattern.as_str();
    [".", "_"].iter().all(|mark| name.starts_with(mark) <= text.starts_with(mark))
        && [".crc", ".ringfeed"].iter().all(|mark| name.ends_with(mark) <= text.ends_with(mark))
}

fn walk(files: &Files, folder: &Path, steps: &[Step], found: &mut Found) -> Result<()> {
    let Some((step, rest)) = steps.split_first() else { return Ok(()) };
    if found.files.len() as u64 > MAX_FILES {
        return Err(too_many(found.files.len() as u64));
    }
    match step {
        Step::Name(name) if rest.is_empty() => {
            let entries = files.list(folder)?;
            if entries.iter().any(|entry| !entry.is_folder() && entry.name.as_os_str() == name.as_str()) {
                found.files.push(folder.join(name));
            }
        }
        Step::Name(name) => {
            let below = folder.join(name);
            if !files.are_local() || below.is_dir() {
                walk(files, &below, rest, found)?;
            }
        }
        Step::Folders => {
            walk(files, folder, rest, found)?;
            for entry in files.list(folder)?.into_iter().filter(|entry| entry.is_folder() && !entry.is_link) {
                let below = folder.join(&entry.name);
                match is_hidden(&entry.name.to_string_lossy()) {
                    true => found.passed_over.push(below),
                    false => walk(files, &below, steps, found)?,
                }
            }
        }
        Step::Wildcard(pattern) => {
            for entry in files.list(folder)? {
                let name = entry.name.to_string_lossy();
                if !pattern.matches(&name) {
                    continue;
                }
                let is_meant = !is_hidden(&name) || means_hidden(pattern, &name);
                let path = folder.join(&entry.name);
                match (is_meant, entry.is_folder(), rest.is_empty()) {
                    (true, false, true) => found.files.push(path),
                    (true, true, false) => walk(files, &path, rest, found)?,
                    (_, _, true) => found.passed_over.push(path),
                    _ => {}
                }
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder(names: &[&str]) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        for name in names {
            let path = folder.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, "").unwrap();
        }
        folder
    }

    fn found(root: &Path, pattern: &str) -> Result<(Vec<String>, Vec<String>)> {
        let is_data = |name: &str| name.ends_with(".csv");
        let Found { files, passed_over } = files_at(&Files::local(), &root.join(pattern), &is_data)?;
        let names = |paths: Vec<PathBuf>| {
            let below = |path: &PathBuf| path.strip_prefix(root).unwrap().to_str().unwrap().replace('\\', "/");
            paths.iter().map(below).collect::<Vec<_>>()
        };
        Ok((names(files), names(passed_over)))
    }

    #[test]
    fn files_come_in_the_byte_order_of_their_names_and_what_is_no_data_is_passed_over() {
        let folder = folder(&[
            "b.csv",
            "a.csv",
            "B.CSV",
            "a10.csv",
            "a9.csv",
            "_SUCCESS",
            ".b.csv.crc",
            "a.csv.crc",
            "notes.md",
            "sub/c.csv",
            "sub/_temporary/d.csv",
            "sub-1/e.csv",
        ]);
        let cases: &[(&str, &[&str], &[&str])] = &[
            (
                "",
                &["B.CSV", "a.csv", "a10.csv", "a9.csv", "b.csv"],
                &[".b.csv.crc", "_SUCCESS", "a.csv.crc", "sub", "sub-1", "notes.md"],
            ),
            ("a*.csv", &["a.csv", "a10.csv", "a9.csv"], &[]),
            (
                "*",
                &["B.CSV", "a.csv", "a10.csv", "a9.csv", "b.csv", "notes.md"],
                &[".b.csv.crc", "_SUCCESS", "a.csv.crc", "sub", "sub-1"],
            ),
            ("a?.csv", &["a9.csv"], &[]),
            ("[!a].csv", &["b.csv"], &[]),
            ("_S*", &["_SUCCESS"], &[]),
            ("*.crc", &["a.csv.crc"], &[".b.csv.crc"]),
            ("{b,a}.csv", &["b.csv", "a.csv"], &[]),
            ("{b,a?}*.csv", &["b.csv", "a10.csv", "a9.csv"], &[]),
            ("**/*.csv", &["a.csv", "a10.csv", "a9.csv", "b.csv", "sub/c.csv", "sub-1/e.csv"], &["sub/_temporary"]),
            ("sub*/*.csv", &["sub/c.csv", "sub-1/e.csv"], &[]),
            ("s*/e.csv", &["sub-1/e.csv"], &[]),
            ("{sub,sub-1}", &["sub/c.csv", "sub-1/e.csv"], &["sub/_temporary"]),
        ];
        for (pattern, files, passed_over) in cases {
            let (is, over) = found(folder.path(), pattern).unwrap();
            assert_eq!(is, *files, "{pattern}");
            assert_eq!(
                over.iter().collect::<std::collections::BTreeSet<_>>(),
                passed_over.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>().iter().collect(),
                "{pattern}"
            );
        }
    }

    #[test]
    fn what_stands_for_no_file_is_an_error_that_says_so() {
        let folder =
            folder(&["a.csv", "x/readme.txt", "y/0.bin", "y/1.bin", "y/_log", "z/0.bin", "z/notes.txt", "e/f/g"]);
        let error = |pattern: &str| found(folder.path(), pattern).unwrap_err();
        assert_eq!(error("*.tsv").kind(), ErrorKind::NotFound);
        assert_eq!(error("b.csv").kind(), ErrorKind::NotFound);
        assert!(error("a.tsv").to_string().contains("a.csv"));
        assert!(error("nowhere/*.csv").to_string().contains("nowhere"));
        assert!(error("a[.csv").message().contains("does not exist, and is not a valid pattern"));
        assert!(error("*/../a.csv").message().contains("`..`"));
        assert!(error("z").message().contains("several kinds") && error("z").path().is_some());
        assert!(error("e").message().contains("**/*"));
        assert_eq!(found(folder.path(), "y").unwrap().0, ["y/0.bin", "y/1.bin"]);
    }

    #[test]
    fn training_data_beside_other_data_are_no_one_data_set() {
        let folder = folder(&["train-00000-of-00002.csv", "train-00001-of-00002.csv", "test-00000-of-00001.csv"]);
        let error = found(folder.path(), "").unwrap_err();
        assert!(error.message().contains("parts of a data set"), "{error}");
        assert_eq!(found(folder.path(), "train-*.csv").unwrap().0.len(), 2);
    }

    #[test]
    fn a_file_may_be_called_like_a_pattern() {
        let folder = folder(&["a[1].csv", "x-{0..1}.csv"]);
        assert_eq!(found(folder.path(), "a[1].csv").unwrap().0, ["a[1].csv"]);
        assert_eq!(found(folder.path(), "x-{0..1}.csv").unwrap().0, ["x-{0..1}.csv"]);
    }

    #[test]
    fn a_pattern_of_too_many_files_is_refused_without_listing_them() {
        let long = format!("{}-{{0..999999}}", "x".repeat(1000));
        for pattern in ["{0..99999999999}", "{0..99999}{0..99999}", &long] {
            assert_eq!(expand(Path::new(pattern)).unwrap_err().kind(), ErrorKind::Config);
        }
    }

    #[cfg(unix)]
    #[test]
    fn a_link_to_a_folder_around_it_ends_no_walk() {
        let folder = folder(&["a/x.csv"]);
        std::os::unix::fs::symlink(folder.path(), folder.path().join("a/up")).unwrap();
        assert_eq!(found(folder.path(), "**/*.csv").unwrap().0, ["a/x.csv"]);
    }

    #[test]
    fn one_path_is_a_text_in_settings_and_several_are_a_list() {
        let read = |text: &str| serde_json::from_str::<Paths>(text);
        for text in [r#""a/*.csv""#, r#"["a.csv","b.csv"]"#] {
            assert_eq!(serde_json::to_string(&read(text).unwrap()).unwrap(), text);
        }
        assert_eq!(read(r#"["a"]"#).unwrap(), Paths::from("a"));
        assert!(read("[]").unwrap_err().to_string().contains("at least one file"));
        assert!(read("3").unwrap_err().to_string().contains("a file, a folder, a pattern"));
    }
}
