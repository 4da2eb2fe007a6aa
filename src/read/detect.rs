//! Which format lies at a path: by content first, then by name.

use std::collections::BTreeSet;
use std::fmt;
use std::fs;
use std::io::Read;
use std::path::Path;

use serde::Serialize;

use crate::decode::image::{ImageFormat, header};
use crate::error::{Error, ErrorKind, Result, missing_path};

use super::IdxReader;
use super::csv::looks_like_table;
use super::foreign::{self, Foreign};
use super::images::has_class_folders;
use super::names::{is_idx_name, is_npy_name, plain_name};
use super::npy::begins_as_npy;
use super::sequence::is_csv_name;
use super::tar::{is_pattern, is_tar_name};
use crate::storage::{Files, inflate_error, open_file};

/// The formats that [`detect`] tells apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Format {
    /// A CSV or TSV file, plain or gzip-compressed.
    Csv,
    /// A folder of CSV files, each one a sequence.
    CsvSequences,
    /// An IDX file, plain or gzip-compressed.
    Idx,
    /// An NPY file.
    Npy,
    /// A folder of IDX files, such as MNIST's four.
    IdxFolder,
    /// One image file.
    Image,
    /// A folder of images: with one subfolder a class, or without classes.
    ImageFolder,
    /// A tar archive of samples, a folder of them, or a pattern such as `train-{000..146}.tar`.
    Tar,
}

impl Format {
    /// The name in text and JSON: `"csv"`, `"image_folder"` and so on.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Csv => "csv",
            Self::CsvSequences => "csv_sequences",
            Self::Idx => "idx",
            Self::Npy => "npy",
            Self::IdxFolder => "idx_folder",
            Self::Image => "image",
            Self::ImageFolder => "image_folder",
            Self::Tar => "tar",
        }
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// What there is to choose from, for messages.
const FORMATS: &str = "there are CSV and TSV files and IDX files (plain or .gz), NPY files, images (JPEG, PNG, WebP, \
                       BMP, GIF, TIFF), tar archives of samples, and folders of images, of CSV sequences, of IDX files \
                       or of tar archives; of raw numbers and tokens somebody must say what they are (--stored, or a \
                       configuration)";

/// How much of a file decides whether it is text.
const HEAD_BYTES: u64 = 64 << 10;

/// How many files of a folder whose names tell nothing are opened to see whether they are IDX files.
const OPENED_FILES: usize = 16;

/// Finds out what lies at `path`.
///
/// A file is NPY, IDX, an image or a tar archive if it begins as one (once decompressed), or else if its name says so. Other
/// text is CSV if its name says so, or if it looks like a table: its first records are divided evenly, and a column holds
/// numbers. JSON, svmlight, HTML and other known formats are none, whatever their names. What holds a NUL among its first
/// 64 KiB is no text (nor what holds other control characters and is not UTF-8), unless it begins with the byte-order mark of
/// UTF-16. A folder is one of images if a subfolder holds any, otherwise of what most of its files are by their names.
///
/// # Errors
///
/// [`ErrorKind::NotFound`] with the nearest name, or for a folder that holds nothing of any format;
/// [`ErrorKind::Format`] for a file of no such format, with what it is if that can be told, and what to do with it.
pub fn detect(path: impl AsRef<Path>) -> Result<Format> {
    let path = path.as_ref();
    if is_pattern(path) {
        return Ok(Format::Tar);
    }
    let metadata = fs::metadata(path).map_err(|error| match error.kind() {
        std::io::ErrorKind::NotFound => missing_path(path),
        _ => Error::io(path, error),
    })?;
    let format = if metadata.is_dir() {
        folder(path)?
    } else if metadata.is_file() {
        file(path)?
    } else {
        // Formats are found by looking into a file before it is read: a pipe would lose what was looked at.
        let message = "is not an ordinary file; save what it gives to a file first";
        return Err(Error::new(ErrorKind::Unsupported, message).at_path(path));
    };
    tracing::debug!(path = %path.display(), %format, "the format was found out");
    Ok(format)
}

fn file(path: &Path) -> Result<Format> {
    let packed = Files::local().is_gzip(path)?;
    let mut head = Vec::new();
    if packed {
        let bytes = Files::local().inflated(path)?.take(HEAD_BYTES).read_to_end(&mut head);
        bytes.map_err(|error| inflate_error(path, head.len() as u64, error))?;
    } else {
        open_file(path)?.take(HEAD_BYTES).read_to_end(&mut head).map_err(|error| Error::io(path, error))?;
    }
    // Two letters make a BMP: a column called "BMI" begins with them too.
    // Text may begin with BM, or with P1.
    let image = ImageFormat::of_content(&head).filter(|format| match format {
        ImageFormat::Bmp => head.contains(&0),
        ImageFormat::Pnm => header(&head).is_ok(),
        _ => true,
    });
    if image.is_some() && packed {
        let message = "a gzip-compressed image; decompress it first";
        return Err(Error::new(ErrorKind::Format, message).at_path(path));
    }
    if image.is_some() {
        return Ok(Format::Image);
    }
    if begins_as_tar(&head) || !packed && is_tar_name(path) {
        if packed {
            let message = "a gzip-compressed tar archive: its samples can't be read at random; decompress it first";
            return Err(Error::new(ErrorKind::Unsupported, message).at_path(path));
        }
        return Ok(Format::Tar);
    }
    if begins_as_npy(&head) || is_npy_name(path) {
        if packed {
            let message = "a gzip-compressed NPY file; decompress it first";
            return Err(Error::new(ErrorKind::Format, message).at_path(path));
        }
        return Ok(Format::Npy);
    }
    if begins_as_idx(&head) || is_idx_name(path) {
        return Ok(Format::Idx);
    }
    if is_image_name(path) {
        return Ok(Format::Image);
    }
    let is_utf16 = matches!(head[..], [0xff, 0xfe, ..] | [0xfe, 0xff, ..]);
    let binary = binary_byte(&head).filter(|_| !is_utf16);
    let name = plain_name(path);
    let is_text =
        binary.is_none() && std::str::from_utf8(&head).map_or_else(|error| error.error_len().is_none(), |_| true);
    if let Some(Foreign { what, advice }) = foreign::by_content(&head, is_text).or_else(|| foreign::by_name(&name)) {
        let message = format!("{what}, which Ringfeed does not read: {advice}");
        return Err(Error::new(ErrorKind::Format, message).at_path(path));
    }
    if let Some(byte) = binary {
        let message = format!("{:#04x}: this is neither text nor a known format; {FORMATS}", head[byte]);
        return Err(Error::new(ErrorKind::Format, message).at_path(path).at_byte(byte as u64));
    }
    let whole = (head.len() as u64) < HEAD_BYTES;
    if is_csv_name(&name) || is_utf16 || looks_like_table(path, &head, whole) {
        return Ok(Format::Csv);
    }
    let message = match head.trim_ascii() {
        [] => "the file is empty".to_owned(),
        _ => {
            format!(
                "text, but not like a table: its first records are not divided evenly by a comma, tab, semicolon or bar, or no \
                 column holds numbers. If it is one, call it .csv, or say so (--delimiter, or format = \"csv\" in a \
                 configuration); {FORMATS}"
            )
        }
    };
    Err(Error::new(ErrorKind::Format, message).at_path(path))
}

/// The first byte that no text holds: a NUL, and where the whole is not UTF-8 any other control character too.
fn binary_byte(head: &[u8]) -> Option<usize> {
    // What is cut off at the end is no fault.
    let is_utf8 = std::str::from_utf8(head).map_or_else(|error| error.error_len().is_none(), |_| true);
    head.iter().position(|byte| *byte == 0 || !is_utf8 && matches!(byte, 1..=8 | 0x0e..=0x19))
}

/// Whether a header of ustar or GNU tar is there; the one before it has no mark, and goes by its name.
fn begins_as_tar(head: &[u8]) -> bool {
    head.get(257..262) == Some(b"ustar")
}

fn begins_as_idx(head: &[u8]) -> bool {
    matches!(head, [0, 0, 0x08 | 0x09 | 0x0b..=0x0e, 1..=4, ..])
}

fn is_image_name(path: &Path) -> bool {
    path.extension().and_then(|extension| extension.to_str()).and_then(ImageFormat::of_extension).is_some()
}

fn folder(path: &Path) -> Result<Format> {
    if has_class_folders(path)? {
        return Ok(Format::ImageFolder);
    }
    let (mut images, mut archives, mut tables, mut arrays, mut opened) = (0u64, 0u64, 0u64, 0u64, 0);
    let mut others = BTreeSet::new();
    for entry in fs::read_dir(path).map_err(|error| Error::io(path, error))? {
        let entry = entry.map_err(|error| Error::io(path, error))?.path();
        let name = entry.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if name.starts_with('.') {
            continue;
        }
        if entry.is_dir() {
            others.insert(format!("{name}/"));
        } else if is_image_name(&entry) {
            images += 1;
        } else if is_tar_name(&entry) {
            archives += 1;
        } else if is_csv_name(&name) {
            tables += 1;
        } else if is_idx_name(&entry) {
            arrays += 1;
        } else if opened < OPENED_FILES && entry.is_file() {
            opened += 1;
            match IdxReader::recognises(&entry) {
                Ok(true) => arrays += 1,
                _ => {
                    others.insert(name);
                }
            }
        } else {
            others.insert(name);
        }
    }
    let counts = [
        (images, Format::ImageFolder),
        (archives, Format::Tar),
        (tables, Format::CsvSequences),
        (arrays, Format::IdxFolder),
    ];
    // The first of equals: images go before tables that may describe them.
    match counts.into_iter().rev().max_by_key(|(count, _)| *count) {
        Some((count, format)) if count > 0 => Ok(format),
        _ => {
            let found = match others.len() {
                0 => "the folder is empty".to_owned(),
                count => {
                    let some: Vec<&str> = others.iter().take(5).map(String::as_str).collect();
                    let folder = others.iter().any(|name| name.ends_with('/'));
                    let advice = if folder { "; name the folder that holds the data" } else { "" };
                    format!("the folder holds nothing that Ringfeed reads ({count} entries, such as {some:?}){advice}")
                }
            };
            Err(Error::new(ErrorKind::NotFound, format!("{found}: {FORMATS}")).at_path(path))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn detected(name: &str, bytes: &[u8]) -> Result<Format> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(name);
        fs::write(&path, bytes).unwrap();
        detect(&path)
    }

    #[test]
    fn content_goes_before_the_name() {
        assert_eq!(detected("digits.csv", &[0, 0, 8, 1, 0, 0, 0, 1, 7]).unwrap(), Format::Idx);
        assert_eq!(detected("array.csv", b"\x93NUMPY\x01\0").unwrap(), Format::Npy);
        assert_eq!(detected("photo.csv", b"\x89PNG\r\n\x1a\n").unwrap(), Format::Image);
        assert_eq!(detected("table.dat", b"a,b\n1,2\n").unwrap(), Format::Csv);
        assert_eq!(detected("table", b"BMI,age\n1,2\n").unwrap(), Format::Csv);
    }

    #[test]
    fn the_name_decides_where_the_content_does_not() {
        assert_eq!(detected("train-images-idx3-ubyte", b"rubbish").unwrap(), Format::Idx);
        assert_eq!(detected("array.npy", b"rubbish").unwrap(), Format::Npy);
        assert_eq!(detected("cat.JPG", b"rubbish").unwrap(), Format::Image);
        assert_eq!(detected("empty.csv", b"").unwrap(), Format::Csv);
    }

    #[test]
    fn what_is_no_text_is_refused_with_a_list_of_the_formats() {
        let error = detected("model.bin", b"PK\x03\x04\0\0").unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Format);
        assert!(error.message().contains("a zip archive"), "{error}");
        let error = detected("model.bin", b"weights\0\0").unwrap_err();
        assert!(error.location().byte == Some(7) && error.message().contains("IDX"), "{error}");
        assert_eq!(detected("noise", b"\x92\xe1\x04,\xff\n").unwrap_err().location().byte, Some(2));
        assert_eq!(detected("latin.csv", b"M\xfcller,\x1a\n").unwrap(), Format::Csv);
        assert_eq!(detected("wide.csv", b"\xff\xfea\0,\0b\0\n\0").unwrap(), Format::Csv);
    }

    /// A word of what the error says that a file is.
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
            ("lines.jsonl", "", "JSON"),
            ("lines.csv", "{\"a\": 1, \"b\": 2}\n{\"a\": 3, \"b\": 4}\n", "JSON"),
            ("lines", "\": 1, \"b\": 2}\n{ \"a\": 3, \"b\": 4}\n{\"a\": 5}\n{\"a\"", "JSON"),
            ("lines", "[1, 2]\n[3, 4]\n", "JSON"),
            ("a1a.csv", "-1 3:1 11:1 14:0.5 # x\n+1 5:1 7:1\n0 1:1\n", "svmlight"),
            ("a1a", "1,3 qid:7 3:1 11:1\n2 qid:7 5:1e-3\nrubbish\n", "svmlight"),
            ("train.svm.gz", "", "svmlight"),
            ("page.csv", "\n<!DOCTYPE html>\n<html>404</html>", "HTML"),
            ("big.csv", "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n", "Git LFS"),
            ("table.parquet", "PAR1", "Parquet"),
            ("table", "PAR1\x15\x04\x15PAR1\0", "Parquet"),
            ("table", "ARROW1\0\0", "Arrow"),
            ("deep.h5", "", "HDF5"),
            ("model.pt", "PK\x03\x04\0", "zip archive"),
            ("weights", "\x40\0\0\0\0\0\0\0{\"a\":1}", "safetensors"),
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
            ("measures.dat", "1|2.5\n3|NA\nragged\n5|6\n7|8\n"),
            ("crs", "1,2\r3,4\r"),
            ("bom", "\u{feff}a\tb\n1\t2\n"),
        ] {
            assert_eq!(detected(name, bytes.as_bytes()).unwrap(), Format::Csv, "{name}");
        }
    }

    #[test]
    fn a_folder_is_what_most_of_its_files_are() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        assert!(detect(folder.path()).unwrap_err().message().contains("is empty"));
        fs::write(path("notes.md"), "x").unwrap();
        let error = detect(folder.path()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NotFound);
        assert!(error.message().contains("notes.md"), "{error}");
        fs::write(path("digits"), [0, 0, 8, 1, 0, 0, 0, 1, 7]).unwrap();
        assert_eq!(detect(folder.path()).unwrap(), Format::IdxFolder);
        fs::write(path("a.csv"), "1\n").unwrap();
        assert_eq!(detect(folder.path()).unwrap(), Format::CsvSequences);
        fs::write(path("a.png"), "").unwrap();
        assert_eq!(detect(folder.path()).unwrap(), Format::ImageFolder);
        fs::write(path("b.csv"), "1\n").unwrap();
        assert_eq!(detect(folder.path()).unwrap(), Format::CsvSequences);
        fs::create_dir_all(path("cats/young")).unwrap();
        assert_eq!(detect(folder.path()).unwrap(), Format::CsvSequences);
        fs::write(path("cats/young/1.jpeg"), "").unwrap();
        assert_eq!(detect(folder.path()).unwrap(), Format::ImageFolder);
    }
}
