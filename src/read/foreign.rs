//! Recognises files of other formats by their first bytes, by their lines, and by their names. Otherwise other text
//! could be read as CSV without a message.

/// What a file is, and what to do with it.
pub(super) struct Foreign {
    pub(super) what: &'static str,
    pub(super) advice: &'static str,
}

const TABLE: &str = "write it as CSV, or as NPY if it holds numbers alone (pandas and pyarrow do), or feed its records from \
                     an iterator of your own";
const COLUMNS: &str = "this program was built without Ringfeed's feature `parquet`, which reads it";
const UNPACK: &str = "unpack it, and name what was in it";
const OBJECTS: &str = "write it as CSV (pandas.read_json and to_csv), or feed its records from an iterator of your own";
const JSON: &str = "write each record on a line of its own, as JSON Lines (`jq -c '.[]' old.json > new.jsonl`, or pandas.read_json and \
                    to_json(orient=\"records\", lines=True)), and call the file .jsonl";
const TENSORS: &str = "save its arrays as NPY";
const MEDIA: &str = "Ringfeed reads images and sound (WAV, FLAC, MP3, Ogg Vorbis), but no video: save the training \
     data as one of these, or as NPY";
const TEXT: &str = "set format = \"text\" (a record for each line), \"text_files\" (one for each file) or \"text_tokens\" (windows of tokens)";
const PDF: &str = "extract its text (pdftotext)";

const UTF_8: &str = "convert it (`iconv -f utf-32 -t utf-8`)";

/// The byte-order marks of texts that we can't decode. The first one begins with that of UTF-16.
pub(super) const UTF_32: [&[u8]; 2] = [b"\xff\xfe\0\0", b"\0\0\xfe\xff"];

/// Whether a text begins with the byte-order mark of UTF-16.
pub(super) fn has_utf_16_mark(head: &[u8]) -> bool {
    matches!(head, [0xff, 0xfe, ..] | [0xfe, 0xff, ..])
}

/// The kind of UTF-16 that a text without a byte-order mark seems to have: nearly every second byte is zero, and the
/// others are not.
pub(super) fn utf_16(head: &[u8]) -> Option<&'static str> {
    let pairs = head.as_chunks::<2>().0;
    let mostly = |is: fn(&[u8; 2]) -> bool| {
        !pairs.is_empty() && 4 * pairs.iter().filter(|pair| is(pair)).count() > 3 * pairs.len()
    };
    if mostly(|[low, high]| *low != 0 && *high == 0) {
        Some("utf-16le")
    } else {
        mostly(|[high, low]| *low != 0 && *high == 0).then_some("utf-16be")
    }
}

/// How a file begins, whether text may begin so too, what the file is, and what to do with it.
const BEGINNINGS: [(&[u8], bool, &str, &str); 20] = [
    (b"PAR1", true, "a Parquet file", COLUMNS),
    (b"ARROW1", true, "an Arrow file", COLUMNS),
    (b"FEA1", true, "a Feather file", TABLE),
    (b"ORC", true, "an ORC file", TABLE),
    (b"Obj\x01", false, "an Avro file", TABLE),
    (b"\x89HDF\r\n\x1a\n", false, "an HDF5 file", TENSORS),
    (b"SQLite format 3\0", false, "an SQLite database", TABLE),
    (b"MATLAB 5.0 MAT-file", true, "a MATLAB file", TENSORS),
    (b"PK\x03\x04", false, "a zip archive (such as a spreadsheet or saved tensors)", UNPACK),
    (b"7z\xbc\xaf\x27\x1c", false, "a 7-Zip archive", UNPACK),
    (b"BZh", true, "a bzip2-compressed file", UNPACK),
    (b"\xfd7zXZ\0", false, "an xz-compressed file", UNPACK),
    (b"\x04\x22\x4d\x18", false, "an LZ4-compressed file", UNPACK),
    (b"\x80\x02", false, "a Python pickle", TENSORS),
    (b"\x80\x03", false, "a Python pickle", TENSORS),
    (b"\x80\x04", false, "a Python pickle", TENSORS),
    (b"\x80\x05", false, "a Python pickle", TENSORS),
    (b"%PDF-", false, "a PDF document", PDF),
    (UTF_32[0], false, "text in UTF-32", UTF_8),
    (UTF_32[1], false, "text in UTF-32", UTF_8),
];

/// Endings of names, separated by blanks, what a file of such a name is, and what to do with it.
const NAMES: [(&str, &str, &str); 13] = [
    ("orc", "an ORC file", TABLE),
    ("avro", "an Avro file", TABLE),
    ("h5 hdf5 hdf nc", "an HDF5 file", TENSORS),
    ("pkl pickle pt pth ckpt mat", "a file of saved tensors or objects", TENSORS),
    ("db sqlite sqlite3", "a database", TABLE),
    ("xls xlsx ods", "a spreadsheet", TABLE),
    ("zip 7z rar bz2 xz lz4 tgz", "an archive or a compressed file", UNPACK),
    ("json ipynb", "JSON, but not JSON Lines", JSON),
    ("xml html htm svg", "XML or HTML", OBJECTS),
    (
        "yaml yml toml ini cfg",
        "a file of settings",
        "name the data; settings are for `plan`, `verify --config` or `bench --config`",
    ),
    ("pdf", "a PDF document", PDF),
    ("md rst tex log py rs c h cpp js sh", "text that is no table", TEXT),
    ("m4a aac opus aiff wma mp4 avi mov mkv webm", "a sound or video file", MEDIA),
];

/// Number of lines that are looked at to recognise a text.
const LINES: usize = 100;

/// What a file is that begins with `head`, if it has none of our formats. `is_text` says whether these bytes may be
/// text.
pub(super) fn by_content(head: &[u8], is_text: bool) -> Option<Foreign> {
    let begins =
        |(beginning, may_be_text, ..): &&(&[u8], bool, _, _)| head.starts_with(beginning) && !(*may_be_text && is_text);
    if let Some((.., what, advice)) = BEGINNINGS.iter().find(begins) {
        return Some(Foreign { what, advice });
    }
    if head.get(4..8) == Some(b"ftyp") {
        return Some(Foreign { what: "a sound or video file", advice: MEDIA });
    }
    if head.starts_with(b"version https://git-lfs.github.com/") {
        let advice = "`git lfs pull` fetches the data";
        return Some(Foreign { what: "a pointer of Git LFS in place of the data", advice });
    }
    let start = head.trim_ascii_start();
    let is = |tag: &str| start.get(..tag.len()).is_some_and(|start| start.eq_ignore_ascii_case(tag.as_bytes()));
    if ["<?xml", "<!doctype", "<html"].into_iter().any(is) {
        let advice = "a web page instead of data means that a download failed; convert data in XML to CSV";
        return Some(Foreign { what: "XML or HTML", advice });
    }
    let mut lines: Vec<&[u8]> = head.split(|byte| *byte == b'\n').take(LINES + 1).collect();
    // The last line may be cut off.
    lines.truncate(lines.len().saturating_sub(1).max(1));
    let lines: Vec<&[u8]> = lines.into_iter().map(<[u8]>::trim_ascii).filter(|line| !line.is_empty()).collect();
    let most = |is: fn(&[u8]) -> bool| {
        let count = lines.iter().filter(|line| is(line)).count();
        count > 0 && 2 * count >= lines.len()
    };
    if most(is_json) || matches!(lines.first(), Some(&(b"{" | b"[" | b"[{"))) {
        return Some(Foreign { what: "JSON, but not JSON Lines", advice: JSON });
    }
    None
}

/// What a file is by the ending of its name.
pub(super) fn by_name(ending: &str) -> Option<Foreign> {
    let (_, what, advice) = NAMES.iter().find(|(endings, ..)| endings.split(' ').any(|other| other == ending))?;
    Some(Foreign { what, advice })
}

/// Whether a line is an object or a list of JSON.
fn is_json(line: &[u8]) -> bool {
    match line {
        [b'{', rest @ ..] => matches!(rest.trim_ascii_start(), [b'"' | b'}', ..]),
        // Headers of sections in files of settings are in brackets, too.
        [b'[', rest @ .., b']' | b','] => {
            let is_outer = |byte: &u8| *byte == b'[' || byte.is_ascii_whitespace();
            let value = &rest[rest.iter().take_while(|byte| is_outer(byte)).count()..];
            // Also as Python writes lists.
            let word = &value[..value.iter().take_while(|byte| byte.is_ascii_alphabetic()).count()];
            let words = ["true", "false", "null", "nan", "inf", "infinity", "none"];
            match value {
                [b'"' | b'{' | b'-' | b'+' | b'.' | b']' | b'0'..=b'9', ..] | [] => true,
                [b'\'', ..] => line.contains(&b','),
                _ => words.iter().any(|other| word.eq_ignore_ascii_case(other.as_bytes())),
            }
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_json_are_told_from_sections_of_settings() {
        let what = |text: &str| by_content(text.as_bytes(), true).map(|found| found.what);
        for json in [
            "[1, 2]\n[3, 4]\n",
            "[]\n",
            "[ true ]\n",
            "[[1],\n[2]]\n",
            "[\n  {\n",
            "[\"a\"]\n",
            "[-1,\n2]\n",
            "[nan, 1.0]\n",
            "['a', 'b']\n",
        ] {
            assert_eq!(what(json), Some("JSON, but not JSON Lines"), "{json:?}");
        }
        for settings in [
            "[train]\nworkers = 2\n[test]\n",
            "[[sources]]\npath = \"x\"\n",
            "[inference]\nbatch = 8\n",
            "['quoted key']\nx = 1\n",
            "[a, b]\n",
        ] {
            assert_eq!(what(settings), None, "{settings:?}");
        }
        assert_eq!(by_name("ini").unwrap().what, "a file of settings");
    }
}
