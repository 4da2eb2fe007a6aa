//! Detects the format of a path: by content first, then by name.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::io::Read;
use std::path::{Path, PathBuf};

use crate::error::{Error, ErrorKind, Result};
use crate::memory::MemoryBudget;
use crate::read::foreign::{self, Foreign, has_utf_16_mark};
use crate::read::names::{HEAD_BYTES, plain_name};
use crate::read::paths::{files_at, is_pattern};
use crate::storage::{EntryKind, Files, inflate_error, metadata};

use super::any::AnyFormat;
use super::table::missing_feature;

/// How many files are opened at most: those of a folder whose names do not tell the format, or those of a pattern until
/// one can be read.
const OPENED_FILES: usize = 16;

/// Detects the data at `path`; see [`Formats::detect`](super::Formats::detect).
pub(super) fn detect(formats: &[AnyFormat], files: &Files, path: &Path) -> Result<AnyFormat> {
    if is_pattern(files, path) {
        return pattern(formats, files, path);
    }
    known(formats, files, path, look(files, path)?)
}

/// The format of the first file of a pattern that can be read. Missing files are noticed when they are opened.
fn pattern(formats: &[AnyFormat], files: &Files, path: &Path) -> Result<AnyFormat> {
    let found = files_at(files, path, &|_| true)?.files;
    let first = found.first().map_or(path, PathBuf::as_path);
    let mut others = found.iter().take(OPENED_FILES).skip(1).map(PathBuf::as_path);
    let (path, seen) = match look(files, first) {
        Ok(seen) => (first, seen),
        Err(error) => others.find_map(|other| Some((other, look(files, other).ok()?))).ok_or(error)?,
    };
    known(formats, files, path, seen)
}

/// What is found at a path before its format is known.
enum Seen {
    Folder,
    /// The beginning of the file, decompressed if it is compressed, and whether it is.
    File(Vec<u8>, bool),
}

fn look(files: &Files, path: &Path) -> Result<Seen> {
    let is_folder = match files.are_local() {
        true => metadata(path)?.is_dir(),
        false => files.is_folder(path),
    };
    Ok(match is_folder {
        true => Seen::Folder,
        false => {
            let (head, is_packed) = head_of(files, path)?;
            Seen::File(head, is_packed)
        }
    })
}

fn known(formats: &[AnyFormat], files: &Files, path: &Path, seen: Seen) -> Result<AnyFormat> {
    let format = match seen {
        Seen::Folder => folder(formats, files, path)?,
        Seen::File(head, is_packed) => file(formats, path, &head, is_packed)?,
    };
    tracing::debug!(path = %path.display(), format = %format.kind(path), "the format was found out");
    Ok(format)
}

/// The beginning of a file, decompressed if it is compressed, and whether it is.
fn head_of(files: &Files, path: &Path) -> Result<(Vec<u8>, bool)> {
    let packing = files.packing(path)?;
    let mut head = Vec::new();
    let read = files.unpacked(path, packing, &MemoryBudget::unlimited())?.take(HEAD_BYTES).read_to_end(&mut head);
    read.map_err(|error| inflate_error(path, head.len() as u64, error))?;
    Ok((head, packing.is_some()))
}

fn file(formats: &[AnyFormat], path: &Path, head: &[u8], is_packed: bool) -> Result<AnyFormat> {
    let name = plain_name(path);
    // Any text might be a table: that is asked last.
    let asked_last = || formats.iter().filter(|format| format.infers_types());
    let others = || formats.iter().filter(|format| !format.infers_types());
    let by_content = others().find(|format| format.sniff(head, path));
    if let Some(format) = by_content.or_else(|| others().find(|format| format.has_name(&name))) {
        return match format.packed_advice().filter(|_| is_packed) {
            Some(advice) => Err(Error::new(ErrorKind::Format, advice).at_path(path)),
            None => Ok(format.clone()),
        };
    }
    let binary = binary_byte(head).filter(|_| !has_utf_16_mark(head));
    let is_text =
        binary.is_none() && std::str::from_utf8(head).map_or_else(|error| error.error_len().is_none(), |_| true);
    let ending = Path::new(&name).extension().and_then(OsStr::to_str).unwrap_or_default();
    if let Some(feature) = missing_feature(ending) {
        let message = format!(
            "a file named .{ending} needs Ringfeed's feature `{feature}`, which this program was built without"
        );
        return Err(Error::new(ErrorKind::Format, message).at_path(path));
    }
    if let Some(Foreign { what, advice }) = foreign::by_content(head, is_text).or_else(|| foreign::by_name(ending)) {
        let message = format!("{what}, which Ringfeed does not read: {advice}");
        return Err(Error::new(ErrorKind::Format, message).at_path(path));
    }
    if let Some(byte) = binary {
        let what = match foreign::utf_16(head) {
            Some(encoding) => format!(
                "this looks like text in UTF-16 without a byte-order mark: if it is a table, say so (format = \"csv\") and set its \
                 option `encoding` to {encoding:?}, or convert it (`iconv -f {encoding} -t utf-8`)"
            ),
            None => "this is neither text nor a known format".to_owned(),
        };
        let message = format!("{:#04x}: {what}; {}", head[byte], known_formats(formats));
        return Err(Error::new(ErrorKind::Format, message).at_path(path).at_byte(byte as u64));
    }
    if let Some(format) = asked_last().find(|format| format.has_name(&name) || format.sniff(head, path)) {
        return Ok(format.clone());
    }
    let message = match head.trim_ascii() {
        [] => "the file is empty".to_owned(),
        _ => {
            format!(
                "text, but not like a table: its first records are not divided evenly by a comma, tab, semicolon or bar, or no \
                 column holds numbers. If it is one, call it .csv, or say so (--delimiter, or format = \"csv\" in \
                 settings); {}",
                known_formats(formats)
            )
        }
    };
    Err(Error::new(ErrorKind::Format, message).at_path(path))
}

/// The available formats, for messages.
fn known_formats(formats: &[AnyFormat]) -> String {
    let titles: Vec<&str> = formats.iter().filter_map(|format| format.title()).collect();
    format!(
        "there are {}; for raw numbers and tokens give their type (--stored, or `format` in settings), for plain text a \
         format in settings (\"text\", \"text_files\" or \"text_tokens\")",
        titles.join(", ")
    )
}

/// The first byte that can't be in a text: a NUL, or, if the whole is not UTF-8, any other control character.
fn binary_byte(head: &[u8]) -> Option<usize> {
    // What is cut off at the end is no fault.
    let is_utf8 = std::str::from_utf8(head).map_or_else(|error| error.error_len().is_none(), |_| true);
    head.iter().position(|byte| *byte == 0 || !is_utf8 && matches!(byte, 1..=8 | 0x0e..=0x19))
}

fn folder(formats: &[AnyFormat], files: &Files, path: &Path) -> Result<AnyFormat> {
    for format in formats {
        if format.is_folder(files, path)? {
            return Ok(format.clone());
        }
    }
    let mut counts = vec![0u64; formats.len()];
    let mut opened = 0;
    let mut others = BTreeSet::new();
    for entry in files.list(path)?.into_iter().filter(|entry| !entry.is_hidden()) {
        let name = entry.name.to_string_lossy().into_owned();
        if entry.is_folder() {
            others.insert(format!("{name}/"));
            continue;
        }
        let below = path.join(&entry.name);
        let claimed = |head: Option<&[u8]>| formats.iter().position(|format| format.is_in_folder(&below, head));
        let mut found = claimed(None);
        if found.is_none() && opened < OPENED_FILES && entry.kind == EntryKind::File {
            opened += 1;
            found = head_of(files, &below).ok().and_then(|(head, _)| claimed(Some(&head)));
        }
        match found {
            Some(format) => counts[format] += 1,
            None => {
                others.insert(name);
            }
        }
    }
    // The first of equals: images go before tables that may describe them.
    match counts.iter().zip(formats).rev().max_by_key(|(count, _)| **count) {
        Some((count, format)) if *count > 0 => Ok(format.clone()),
        _ => {
            let of_name = |name: &str| formats.iter().find(|format| format.has_name(&name.to_lowercase()));
            if let Some((name, format)) = others.iter().find_map(|name| Some((name, of_name(name)?))) {
                let ending = Path::new(name).extension().map(|ending| path.join("*").with_extension(ending));
                let pattern =
                    ending.map_or(String::new(), |pattern| format!(", or give a pattern such as {pattern:?}"));
                let message = format!(
                    "the folder holds files such as {name:?}, of which each may be a data set of its own; name one of them, or, \
                     to read all as one, set format = {:?}{pattern}",
                    format.name()
                );
                return Err(Error::new(ErrorKind::Config, message).at_path(path));
            }
            let found = match others.len() {
                0 => "the folder is empty".to_owned(),
                count => {
                    let some: Vec<&str> = others.iter().take(5).map(String::as_str).collect();
                    let folder = others.iter().any(|name| name.ends_with('/'));
                    let advice = if folder { "; name the folder that holds the data" } else { "" };
                    format!("the folder holds nothing that Ringfeed reads ({count} entries, such as {some:?}){advice}")
                }
            };
            let message = format!("{found}: {}", known_formats(formats));
            Err(Error::new(ErrorKind::NotFound, message).at_path(path))
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn found(path: &Path) -> Result<&'static str> {
        detect(super::super::Formats::new().all(), &Files::local(), path).map(|format| format.name())
    }

    fn detected(name: &str, bytes: &[u8]) -> Result<&'static str> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(name);
        fs::write(&path, bytes).unwrap();
        found(&path)
    }

    #[test]
    fn content_goes_before_the_name() {
        assert_eq!(detected("digits.csv", &[0, 0, 8, 1, 0, 0, 0, 1, 7]).unwrap(), "idx");
        assert_eq!(detected("array.csv", b"\x93NUMPY\x01\0").unwrap(), "npy");
        assert_eq!(detected("photo.csv", b"\x89PNG\r\n\x1a\n").unwrap(), "images");
        assert_eq!(detected("table.dat", b"a,b\n1,2\n").unwrap(), "csv");
        assert_eq!(detected("table", b"BMI,age\n1,2\n").unwrap(), "csv");
        assert_eq!(detected("a1a.csv", b"-1 3:1 11:1 14:0.5 # x\n+1 5:1 7:1\n0 1:1\n").unwrap(), "libsvm");
        assert_eq!(detected("a1a", b"1,3 qid:7 3:1 11:1\n2 qid:7 5:1e-3\nrubbish\n").unwrap(), "libsvm");
        assert_eq!(detected("unlabelled.csv", b"1:0.5 3:2\n2:1 4:7\n").unwrap(), "libsvm");
        assert_eq!(detected("hours.csv", b"opens\n8:30\n12:00\n").unwrap(), "csv");
    }

    /// The first two bytes of an archive are those of the first member's name, which may be those of another format.
    #[test]
    #[cfg(feature = "formats")]
    fn an_archive_of_any_names_is_one() {
        let mut archive = tar::Builder::new(Vec::new());
        let mut header = tar::Header::new_gnu();
        header.set_size(3);
        archive.append_data(&mut header, "BMW_0001.jpg", &b"abc"[..]).unwrap();
        assert_eq!(detected("cars.tar", &archive.into_inner().unwrap()).unwrap(), "tar");
    }

    #[test]
    fn the_name_decides_where_the_content_does_not() {
        assert_eq!(detected("train-images-idx3-ubyte", b"rubbish").unwrap(), "idx");
        assert_eq!(detected("array.npy", b"rubbish").unwrap(), "npy");
        assert_eq!(detected("cat.JPG", b"rubbish").unwrap(), "images");
        assert_eq!(detected("empty.csv", b"").unwrap(), "csv");
        assert_eq!(detected("train.svm.gz", b"").unwrap(), "libsvm");
    }

    #[test]
    fn what_is_no_text_is_refused_with_a_list_of_the_formats() {
        let error = detected("model.bin", b"PK\x03\x04\0\0").unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Format);
        assert!(error.message().contains("a zip archive"), "{error}");
        let error = detected("model.bin", b"weights\0\0").unwrap_err();
        assert!(error.location().byte == Some(7) && error.message().contains("IDX"), "{error}");
        assert_eq!(detected("noise", b"\x92\xe1\x04,\xff\n").unwrap_err().location().byte, Some(2));
        assert_eq!(detected("latin.csv", b"M\xfcller,\x1a\n").unwrap(), "csv");
        assert_eq!(detected("wide.csv", b"\xff\xfea\0,\0b\0\n\0").unwrap(), "csv");
    }

    #[test]
    fn text_in_utf_16_without_a_mark_and_a_list_of_objects_are_told_what_to_do() {
        let text = "name,x\r\nJosé,1\r\nŁucja,2\r\n";
        for (encoding, bytes) in [
            ("utf-16le", text.encode_utf16().flat_map(u16::to_le_bytes).collect::<Vec<u8>>()),
            ("utf-16be", text.encode_utf16().flat_map(u16::to_be_bytes).collect()),
        ] {
            let message = refused("wide.csv", &bytes);
            assert!(message.contains(&format!("set its option `encoding` to {encoding:?}")), "{message}");
        }
        let message = refused("noise", b"a\0b c d e f\0");
        assert!(message.contains("neither text nor a known format"), "{message}");
        let message = refused("list.json", b"[{\"a\": 1},\n {\"a\": 2}]\n");
        assert!(message.contains("as JSON Lines") && !message.contains("CSV (pandas"), "{message}");
    }

    /// The word in the error that says what a file is.
    fn refused(name: &str, bytes: &[u8]) -> String {
        let error = detected(name, bytes).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Format);
        error.message().to_owned()
    }

    #[test]
    fn other_formats_are_named_and_never_taken_for_tables() {
        for (name, bytes, what) in [
            (
                "notes.txt",
                "Dear reader,\nthis is no table, but prose.\nIt has commas, here and there.\n",
                "not like a table",
            ),
            ("words.txt", "one\ntwo\n", "not like a table"),
            ("names", "ann,rome\nbob,oslo\n", "no column holds numbers"),
            ("one.txt", "1,2\n", "not like a table"),
            ("nothing", "", "the file is empty"),
            ("data.json", "[1, 2, 3]", "JSON"),
            ("data.json", "{\n  \"a\": [1,\n  2]\n}\n", "JSON"),
            ("data.csv", "{\n  \"a\": 1,\n  \"b\": 2\n}\n", "JSON"),
            ("lines", "\": 1, \"b\": 2}\n{ \"a\": 3, \"b\": 4}\n{\"a\": 5}\n{\"a\"", "JSON"),
            ("lines", "[1, 2]\n[3, 4]\n", "JSON"),
            ("page.csv", "\n<!DOCTYPE html>\n<html>404</html>", "HTML"),
            ("big.csv", "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n", "Git LFS"),
            #[cfg(not(feature = "parquet"))]
            ("table.parquet", "PAR1", "feature `parquet`"),
            #[cfg(not(feature = "parquet"))]
            ("table", "PAR1\x15\x04\x15PAR1\0", "feature `parquet`"),
            #[cfg(not(feature = "parquet"))]
            ("table", "ARROW1\0\0", "feature `parquet`"),
            ("deep.h5", "", "HDF5"),
            ("model.pt", "PK\x03\x04\0", "zip archive"),
        ] {
            let message = refused(name, bytes.as_bytes());
            assert!(message.contains(what), "{name}: {message}");
        }
    }

    #[test]
    fn a_table_is_known_by_its_name_or_its_looks() {
        for (name, bytes) in [
            ("people.csv", "ann,rome\nbob,oslo\n"),
            ("column.csv", "1\n2\n"),
            ("header.csv", "a,b\n"),
            ("PAR1.csv", "PAR1,PAR2\n1,2\n"),
            ("log.csv", "time,what\n12:30,[on]\n12:31,[off]\n"),
            ("measures.txt", "a;b\n1;x\n2;y\n"),
            ("decimals", "1,5;2,5\n3,5;4,5\n"),
            ("measures.dat", "1|2.5\n3|NA\nragged\n5|6\n7|8\n"),
            ("crs", "1,2\r3,4\r"),
            ("bom", "\u{feff}a\tb\n1\t2\n"),
        ] {
            assert_eq!(detected(name, bytes.as_bytes()).unwrap(), "csv", "{name}");
        }
    }

    #[test]
    fn a_pattern_is_what_its_first_file_that_can_be_read_is() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        fs::write(path("a.csv"), b"\x1f\x8b\x08cut").unwrap();
        assert!(found(&path("*")).unwrap_err().to_string().contains("a.csv"));
        fs::write(path("b.jsonl"), "{\"x\": 1}\n").unwrap();
        fs::write(path("c.csv"), "x\n1\n").unwrap();
        assert_eq!(found(&path("*")).unwrap(), "jsonl");
    }

    #[test]
    fn a_folder_is_what_most_of_its_files_are() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        assert!(found(folder.path()).unwrap_err().message().contains("is empty"));
        fs::write(path("notes.md"), "x").unwrap();
        let error = found(folder.path()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NotFound);
        assert!(error.message().contains("notes.md"), "{error}");
        fs::write(path("digits"), [0, 0, 8, 1, 0, 0, 0, 1, 7]).unwrap();
        assert_eq!(found(folder.path()).unwrap(), "idx");
        fs::write(path("a.csv"), "1\n").unwrap();
        assert_eq!(found(folder.path()).unwrap(), "csv_sequences");
        fs::write(path("a.png"), "").unwrap();
        assert_eq!(found(folder.path()).unwrap(), "images");
        fs::write(path("b.csv"), "1\n").unwrap();
        assert_eq!(found(folder.path()).unwrap(), "csv_sequences");
        fs::create_dir_all(path("cats/young")).unwrap();
        assert_eq!(found(folder.path()).unwrap(), "csv_sequences");
        fs::write(path("cats/young/1.jpeg"), "").unwrap();
        assert_eq!(found(folder.path()).unwrap(), "images");
    }
}
