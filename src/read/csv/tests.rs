//! The `csv` crate is the reference for the ends of records and fields.

use std::path::Path;

use proptest::prelude::*;

use super::dialect::Blanks;
use super::scan::Scan;
use super::*;
use crate::error::ErrorKind;
use crate::read::records::RecordBytes;

pub(super) const DIALECT: Dialect = Dialect {
    delimiter: b',',
    quote: b'"',
    has_quotes: true,
    comment: None,
    blanks: Blanks::Content,
    terminator: b'\n',
};

/// A reader that gives a few bytes at a time.
struct Drip<'a>(&'a [u8], usize);

impl std::io::Read for Drip<'_> {
    fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
        let count = self.1.min(into.len()).min(self.0.len());
        into[..count].copy_from_slice(&self.0[..count]);
        self.0 = &self.0[count..];
        Ok(count)
    }
}

fn scanned(bytes: &[u8], dialect: Dialect, keep: bool) -> Result<Vec<Vec<Vec<u8>>>> {
    watchdog::watch();
    let mut scan = Scan::new(Drip(bytes, 3), Path::new("memory"), dialect, 1 << 20);
    let (mut records, mut buffer) = (Vec::new(), Vec::new());
    while let Some(span) = scan.next()? {
        let line = 1 + memchr::memchr_iter(dialect.terminator, &bytes[..span.byte as usize]).count() as u64;
        assert_eq!(span.line, line);
        let raw = scan.bytes(&span).to_vec();
        if keep {
            assert_eq!(scan.take(span), raw);
        }
        let mut fields = Fields::new(&raw, span.quoted, &dialect);
        assert!(bytes[span.byte as usize..].starts_with(&raw));
        let mut record = Vec::new();
        while let Some(field) = fields.next(&mut buffer) {
            record.push(field.to_vec());
        }
        assert_eq!(record.len(), Fields::new(&raw, span.quoted, &dialect).count());
        records.push(record);
    }
    Ok(records)
}

fn judged(bytes: &[u8]) -> Vec<Vec<Vec<u8>>> {
    let mut reader = ::csv::ReaderBuilder::new().has_headers(false).flexible(true).from_reader(bytes);
    reader.byte_records().map(|record| record.unwrap().iter().map(<[u8]>::to_vec).collect()).collect()
}

/// Text of everything that makes CSV hard. A lone CR ends a record for the `csv` crate but not here, so it only occurs
/// in CRLF.
fn hostile_text() -> impl Strategy<Value = String> {
    let piece = prop::sample::select(vec![
        "\"", "\"\"", ",", "\n", "\r\n", "a", "1.5", " ", "ä", "\0", ",\"", "\",", "\"\n", "\n\"", "#", "😀",
    ]);
    prop::collection::vec(piece, 0..40).prop_map(|pieces| pieces.concat())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn hostile_text_has_the_records_that_the_csv_crate_finds(text in hostile_text()) {
        match scanned(text.as_bytes(), DIALECT, false) {
            Ok(records) => prop_assert_eq!(records, judged(text.as_bytes())),
            Err(error) => prop_assert_eq!(error.kind(), ErrorKind::Format, "{}", error),
        }
    }

    #[test]
    fn what_the_csv_crate_writes_is_read_back(
        records in prop::collection::vec(prop::collection::vec("[a,\"\r\n é#;]{0,6}", 3), 1..8),
        crlf in any::<bool>(),
    ) {
        let terminator = if crlf { ::csv::Terminator::CRLF } else { ::csv::Terminator::Any(b'\n') };
        let mut writer = ::csv::WriterBuilder::new().terminator(terminator).from_writer(Vec::new());
        records.iter().for_each(|record| writer.write_record(record).unwrap());
        let bytes = writer.into_inner().unwrap();
        let expected: Vec<Vec<Vec<u8>>> =
            records.into_iter().map(|record| record.into_iter().map(String::into_bytes).collect()).collect();
        prop_assert_eq!(&scanned(&bytes, DIALECT, false).unwrap(), &expected);
        prop_assert_eq!(&scanned(&bytes, DIALECT, true).unwrap(), &expected);
        let mut rows = RecordBytes::default();
        rows.room(bytes.len()).copy_from_slice(&bytes);
        rows.take(bytes.len());
        DIALECT.push_records(&mut rows, 0, 0);
        prop_assert_eq!(rows.len(), expected.len());
    }
}

#[test]
fn a_window_is_used_again_once_its_records_are_dropped() {
    let bytes = b"0123456789,abcdefghij\n".repeat(100_000);
    let mut scan = Scan::new(&bytes[..], Path::new("memory"), DIALECT, 1 << 20);
    let mut windows = std::collections::HashSet::new();
    let mut held = std::collections::VecDeque::new();
    while let Some(span) = scan.next().unwrap() {
        let record = scan.take(span);
        assert_eq!(&record[..], b"0123456789,abcdefghij");
        windows.insert(record.as_ptr().addr() >> 16);
        held.push_back(record);
        if held.len() > 100 {
            held.pop_front();
        }
    }
    // Two windows of 64 KiB and a little more, each perhaps across the edges of two such blocks.
    assert!(windows.len() <= 8, "{} windows", windows.len());
}

#[test]
fn a_quote_that_is_never_closed_is_found_in_bounded_memory() {
    let mut bytes = b"a,b\n1,2\n3,\"".to_vec();
    bytes.extend(b"4\n".repeat(500_000));
    let mut scan = Scan::new(&bytes[..], Path::new("memory"), DIALECT, 100_000);
    scan.next().unwrap();
    scan.next().unwrap();
    let error = scan.next().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Limit);
    assert_eq!(error.location().line, Some(3));
    assert!(error.to_string().contains("opens on line 3 may never have been closed"), "{error}");
    assert!(scan.next().unwrap().is_none());
    let mut scan = Scan::new(&bytes[..], Path::new("memory"), DIALECT, 1 << 30);
    scan.next().unwrap();
    scan.next().unwrap();
    let error = scan.next().unwrap_err();
    assert_eq!((error.kind(), error.location().line), (ErrorKind::Format, Some(3)));
    assert_eq!(error.location().byte, Some(10));
}

#[test]
fn lone_carriage_returns_end_records_if_nothing_else_does() {
    let dialect = Dialect { terminator: b'\r', ..DIALECT };
    assert_eq!(scanned(b"a,b\rc,\"d\re\"\r", dialect, false).unwrap().len(), 2);
}

/// The index that reading from front to back gives.
fn indexed(bytes: &[u8], dialect: Dialect, limit: usize, header: bool) -> Result<Vec<u64>> {
    watchdog::watch();
    let mut scan = Scan::new(bytes, Path::new("memory"), dialect, limit);
    let mut begins = Vec::new();
    while let Some(span) = scan.next()? {
        begins.push(span.byte);
    }
    Ok(begins.split_off(begins.len().min(usize::from(header))))
}

/// Repeats a hostile text until it is several chunks long, so that chunks begin anywhere in it.
fn long(text: &str, salt: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    while bytes.len() < 3 << 20 {
        bytes.extend(text.as_bytes());
        // Runs of different length bring a chunk's edge to another place in each.
        bytes.resize(bytes.len() + 1 + (bytes.len() / 7 + salt) % 4099, b'x');
    }
    bytes
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn chunks_have_the_records_that_reading_from_front_to_back_finds(
        text in hostile_text(),
        ends in prop::sample::select(vec!["\n", "", "\"\n", "\n\n", ",\"a\nb\"\n"]),
        salt in 0usize..5000,
        limit in prop::sample::select(vec![1 << 24, 1 << 22, 10_000, 3000]),
        comment in prop::option::of(Just(b'#')),
        blanks in prop::sample::select(vec![Blanks::Content, Blanks::Nothing, Blanks::Record]),
        access in prop::sample::select(vec![crate::storage::Access::Read, crate::storage::MAPPED]),
        header in any::<bool>(),
        terminator in prop::sample::select(b"\n\r"),
    ) {
        let mut bytes = long(&format!("{text}{ends}"), salt);
        if terminator == b'\r' {
            bytes.iter_mut().filter(|byte| **byte == b'\n').for_each(|byte| *byte = b'\r');
        }
        let dialect = Dialect { comment, blanks, terminator, ..DIALECT };
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), &bytes).unwrap();
        let input = crate::storage::Input::open(file.path(), access, None).unwrap();
        let expected = indexed(&bytes, dialect, limit, header);
        for threads in [1, 3] {
            let found = chunks::find_records(&input, &dialect, limit, header, threads, &MemoryBudget::unlimited());
            match (&found, &expected) {
                (Some(index), Ok(begins)) => {
                    let found: Vec<u64> = (0..index.len()).map(|row| index.start(row)).collect();
                    prop_assert!(found == *begins, "{} records, not {}", found.len(), begins.len());
                }
                // A comment may be longer than a record; then the file is read from front to back, too.
                (None, Ok(_)) => prop_assert!(comment.is_some() && limit < 1 << 22, "gave up"),
                (None, Err(_)) => {}
                (Some(_), Err(error)) => prop_assert!(false, "{error} went unnoticed"),
            }
        }
    }
}

#[test]
fn a_line_may_be_longer_than_several_chunks() {
    let long = |len: usize| [b"1,2\n".to_vec(), b"9".repeat(len), b"\n3,4\r\n".to_vec(), b"5,6".to_vec()].concat();
    for (len, quoted) in [(5 << 20, false), (5 << 20, true), (1 << 20, false), ((1 << 20) - 4, true)] {
        let mut bytes = long(len);
        if quoted {
            bytes[4] = b'"';
            bytes[10] = b'\n';
            bytes[len + 3] = b'"';
        }
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), &bytes).unwrap();
        let input = crate::storage::Input::open(file.path(), crate::storage::Access::Read, None).unwrap();
        let budget = MemoryBudget::unlimited();
        let index = chunks::find_records(&input, &DIALECT, len, false, 2, &budget).unwrap();
        let found: Vec<u64> = (0..index.len()).map(|row| index.start(row)).collect();
        assert_eq!(found, indexed(&bytes, DIALECT, len, false).unwrap());
        assert_eq!(found.len(), 4);
        assert!(chunks::find_records(&input, &DIALECT, len - 1, false, 2, &budget).is_none());
        assert!(indexed(&bytes, DIALECT, len - 1, false).is_err());
    }
}
