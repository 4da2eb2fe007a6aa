use std::io::Read;
use std::path::Path;

use serde::Serialize;

use crate::decode::image::ImageFormat;
use crate::error::{Error, ErrorKind, Result, missing_path};

use super::idx::IdxReader;
use super::input::{Inflater, inflate_error, open_file};

/// What a path holds; see [`detect`].
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
    /// A folder of IDX files.
    IdxFolder,
    /// One image.
    Image,
    /// A folder of images, with one subfolder a class.
    ImageFolder,
}

impl Format {
    /// The name in text and JSON: `"csv"`, `"image_folder"` and so on.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Csv => "csv",
            Self::CsvSequences => "csv_sequences",
            Self::Idx => "idx",
            Self::IdxFolder => "idx_folder",
            Self::Image => "image",
            Self::ImageFolder => "image_folder",
        }
    }
}

/// Bytes of a file that are looked at to tell text from something else.
const PEEK_BYTES: u64 = 64 << 10;

/// Tells what lies at `path`: a file by its content (IDX header, an image's magic bytes, otherwise text), a folder by
/// what it holds (subfolders or no file of another kind: images; CSV files: sequences; IDX files).
///
/// # Errors
///
/// [`ErrorKind::NotFound`] with the nearest name; [`ErrorKind::Format`] for a file that is none of these.
pub fn detect(path: impl AsRef<Path>) -> Result<Format> {
    let path = path.as_ref();
    if path.is_dir() { detect_folder(path) } else { detect_file(path) }
}

fn detect_folder(path: &Path) -> Result<Format> {
    let io_error = |error| Error::io(path, error);
    let (mut tables, mut idx) = (false, false);
    for entry in std::fs::read_dir(path).map_err(io_error)? {
        let entry = entry.map_err(io_error)?;
        let name = entry.file_name().to_string_lossy().to_lowercase();
        if name.starts_with('.') {
            continue;
        }
        let child = entry.path();
        if child.is_dir() || ImageFormat::of_extension(name.rsplit('.').next().unwrap_or_default()).is_some() {
            return Ok(Format::ImageFolder);
        }
        let stem = name.strip_suffix(".gz").unwrap_or(&name);
        if [".csv", ".tsv", ".tab"].iter().any(|end| stem.ends_with(end)) {
            tables = true;
        } else {
            idx = idx || (child.is_file() && IdxReader::recognises(&child)?);
        }
    }
    Ok(match (tables, idx) {
        (true, _) => Format::CsvSequences,
        (false, true) => Format::IdxFolder,
        (false, false) => Format::ImageFolder,
    })
}

fn detect_file(path: &Path) -> Result<Format> {
    if !path.exists() {
        return Err(missing_path(path));
    }
    if IdxReader::recognises(path)? {
        return Ok(Format::Idx);
    }
    let mut start = Vec::new();
    let read = if Inflater::recognises(path)? {
        Inflater::open(path)?.take(PEEK_BYTES).read_to_end(&mut start)
    } else {
        open_file(path)?.take(PEEK_BYTES).read_to_end(&mut start)
    };
    read.map_err(|error| inflate_error(path, start.len() as u64, error))?;
    if ImageFormat::of_content(&start).is_some() {
        return Ok(Format::Image);
    }
    let utf16 = start.starts_with(&[0xff, 0xfe]) || start.starts_with(&[0xfe, 0xff]);
    match start.iter().position(|byte| *byte == 0) {
        Some(byte) if !utf16 => {
            let message = "neither text nor a format that is known: ringfeed reads CSV and TSV (also .gz), IDX (also \
                           .gz), JPEG, PNG, WebP, BMP, GIF and TIFF images, and folders of them";
            Err(Error::new(ErrorKind::Format, message).at_path(path).at_byte(byte as u64))
        }
        _ => Ok(Format::Csv),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_told_by_content_and_folders_by_what_they_hold() {
        let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures");
        let format = |path: &str| detect(fixtures.join(path)).unwrap();
        assert_eq!(format("iris.csv"), Format::Csv);
        assert_eq!(format("photos/rocket.jpg"), Format::Image);
        assert_eq!(format("photos"), Format::ImageFolder);
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("a.tsv"), "1\t2\n").unwrap();
        assert_eq!(detect(folder.path()).unwrap(), Format::CsvSequences);
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("numbers");
        std::fs::write(&file, [0, 0, 8, 1, 0, 0, 0, 1, 7]).unwrap();
        assert_eq!(detect(folder.path()).unwrap(), Format::IdxFolder);
        assert_eq!(detect(&file).unwrap(), Format::Idx);
        std::fs::write(&file, b"MZ\x90\0\x03").unwrap();
        let error = detect(&file).unwrap_err();
        assert_eq!((error.kind(), error.location().byte), (ErrorKind::Format, Some(3)));
    }
}
