//! Parquet and Arrow files that are cut off, damaged or lie: an error with a place, bounded memory, no panic.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_array::{ArrayRef, ListArray, RecordBatch};
use arrow_ipc::writer::StreamWriter;
use ringfeed::columns::{Columns, ColumnsOptions};
use ringfeed::field::Numbers;
use ringfeed::memory::MemoryBudget;
use ringfeed::read::{Container, FieldKind, FieldReader, RecordReader, Scratch, Value};
use ringfeed::storage::Files;
use ringfeed::{Error, ErrorKind, Result};

/// What a hostile file of some kilobytes may make us take, at most.
const BUDGET: u64 = 64 << 20;

fn fixture(name: &str) -> Vec<u8> {
    std::fs::read(Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures").join(name)).unwrap()
}

struct Bench {
    folder: tempfile::TempDir,
}

impl Bench {
    fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap() }
    }

    fn write(&self, name: &str, bytes: &[u8]) -> PathBuf {
        let path = self.folder.path().join(name);
        std::fs::write(&path, bytes).unwrap();
        path
    }

    /// Opens a file and reads all fields of all records; gives the number of good values, and the first error.
    fn read(&self, name: &str, bytes: &[u8]) -> (usize, Option<Error>) {
        let path = self.write(name, bytes);
        let budget = MemoryBudget::new(BUDGET);
        let options = ColumnsOptions { max_chunk_bytes: 16 << 20, ..ColumnsOptions::default() };
        let open = if name.ends_with("parquet") { Columns::open_parquet } else { Columns::open_arrow };
        let mut container = match open(&Files::local(), std::slice::from_ref(&path), &options, &budget) {
            Ok(container) => container,
            Err(error) => {
                assert_eq!(error.path(), Some(&*path), "{error}");
                return (0, Some(error));
            }
        };
        let mut first = None;
        let mut good = 0;
        let names: Vec<String> = container
            .fields()
            .iter()
            .filter(|field| field.kind != FieldKind::Other)
            .map(|field| field.name.clone())
            .collect();
        for name in names {
            container.forget();
            container.find(&name.as_str().into()).unwrap();
            let mut scratch = Scratch::default();
            // A lie may say that there are millions.
            for record in (0..container.len()).take(50) {
                let mut read = || -> Result<()> {
                    container.fetch(&[record], 0, &mut scratch)?;
                    container.read(record, 0, &mut scratch, &mut |_, value| count(value))
                };
                match read() {
                    Ok(()) => good += 1,
                    Err(error) => {
                        first.get_or_insert(error);
                    }
                }
            }
        }
        drop(container);
        assert_eq!(budget.used(), 0);
        (good, first)
    }
}

/// Reads a value to its end.
fn count(value: Value<'_>) -> Result<()> {
    match value {
        Value::List(list) => list.each(&mut count),
        Value::Numbers(numbers) => {
            assert!(numbers.len() < 1 << 24);
            Ok(())
        }
        _ => Ok(()),
    }
}

const FILES: [&str; 6] = [
    "parquet/snappy.parquet",
    "parquet/v2-plain.parquet",
    "parquet/delta.parquet",
    "arrow/lz4.arrow",
    "arrow/delta-stream.arrow",
    "arrow/zstd-stream.arrow",
];

#[test]
fn a_file_that_is_cut_off_anywhere_does_not_open() {
    crate::common::watchdog::watch();
    let bench = Bench::new();
    for name in FILES {
        let whole = fixture(name);
        let end = name.rsplit('.').next().unwrap();
        let (good, error) = bench.read(&format!("whole.{end}"), &whole);
        assert!(good > 0 && error.is_none(), "{name}: {error:?}");
        for len in 0..whole.len() {
            let (good, error) = bench.read(&format!("cut.{end}"), &whole[..len]);
            let error = error.unwrap_or_else(|| panic!("{name} cut to {len} bytes is read"));
            assert_eq!((good, error.kind()), (0, ErrorKind::Format), "{name} cut to {len}: {error}");
        }
    }
}

#[test]
fn a_damaged_byte_makes_no_panic_and_takes_no_memory() {
    crate::common::watchdog::watch();
    let bench = Bench::new();
    let mut random = 7u64;
    for name in FILES {
        let whole = fixture(name);
        let end = name.rsplit('.').next().unwrap();
        // Where one byte is as good as another, every fifth one.
        for at in (0..whole.len()).filter(|at| whole.len() < 3000 || at % 5 == 0) {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let mut damaged = whole.clone();
            damaged[at] ^= [0x01, 0x80, 0xff, (random >> 33) as u8 | 1][at % 4];
            let (_, error) = bench.read(&format!("damaged.{end}"), &damaged);
            if let Some(error) = error {
                let known =
                    [ErrorKind::Format, ErrorKind::Data, ErrorKind::Limit, ErrorKind::Unsupported, ErrorKind::Budget];
                assert!(known.contains(&error.kind()) && error.path().is_some(), "{name}, byte {at}: {error:?}");
            }
        }
    }
}

#[test]
fn a_page_whose_checksum_is_wrong_is_an_error_with_its_column_and_byte() {
    let bench = Bench::new();
    let mut bytes = fixture("parquet/v2-plain.parquet");
    // A letter of a text, which nothing else would tell from another.
    let at = bytes.windows(24).position(|window| window == b"longer than twelve bytes").unwrap();
    bytes[at] = b'L';
    let (good, error) = bench.read("torn.parquet", &bytes);
    let error = error.unwrap();
    assert!(good > 0);
    assert!(error.message().contains("its checksum is wrong"), "{error}");
    assert_eq!((error.location().column.as_deref(), error.kind()), (Some("text"), ErrorKind::Data));
    assert!(error.location().byte.is_some_and(|byte| byte <= at as u64));
}

#[test]
fn a_text_that_is_not_utf_8_spoils_its_own_record_alone() {
    let bench = Bench::new();
    let (all, _) = bench.read("good.parquet", &fixture("parquet/delta.parquet"));
    let mut bytes = fixture("parquet/types.parquet");
    let at = bytes.windows(24).position(|window| window == b"longer than twelve bytes").unwrap();
    bytes[at] = 0xff;
    let path = bench.write("torn.parquet", &bytes);
    let budget = MemoryBudget::unlimited();
    let mut container = Columns::open_parquet(&Files::local(), &[path], &ColumnsOptions::default(), &budget).unwrap();
    container.find(&"text".into()).unwrap();
    let mut scratch = Scratch::default();
    let mut bad = Vec::new();
    for record in 0..container.len() {
        container.fetch(&[record], 0, &mut scratch).unwrap();
        if let Err(error) = container.read(record, 0, &mut scratch, &mut |_, _| Ok(())) {
            assert!(error.to_string().contains("column \"text\": byte 0 of the text is 0xff: not UTF-8"), "{error}");
            bad.push(record);
        }
    }
    assert_eq!(bad, [8]);
    assert!(all > 0);
}

#[test]
fn what_is_no_such_file_is_told_by_name() {
    let bench = Bench::new();
    for (name, bytes, expected) in [
        ("x.parquet", b"".as_slice(), "a file of 0 bytes is not a Parquet file"),
        ("x.parquet", b"a,b\n1,2\n3,4\n5,6\n", "this is not a Parquet file"),
        ("x.parquet", b"PAR1 and then nothing", "the file does not end as a Parquet file does"),
        ("x.parquet", b"PAREPAREPAREPARE", "the file is encrypted"),
        ("x.parquet", b"PAR1\xff\xff\xff\x7fPAR1", "a footer of 2147483647 bytes in a file of 12"),
        ("x.parquet", b"PAR1\0\0\0\0\0\0\0\0PAR1", "its schema is not a tree"),
        ("x.arrow", b"", "this is neither an Arrow file nor a stream"),
        ("x.arrow", b"a,b\n1,2\n3,4\n", "this is neither an Arrow file nor a stream"),
        ("x.arrow", b"FEA1....FEA1", "Feather version 1"),
        ("x.arrow", b"ARROW1\0\0ARROW1", "an Arrow file that ends before it begins"),
        ("x.arrow", b"ARROW1\0\0\0\0\0\0\0\0\0\0\0\0ARROW2", "the file does not end as an Arrow file does"),
        ("x.arrow", b"\xff\xff\xff\xff\0\0\0\0", "a stream without a schema"),
    ] {
        let (_, error) = bench.read(name, bytes);
        let error = error.unwrap().to_string();
        assert!(error.contains(expected), "{error}: expected {expected}");
    }
}

/// Numbers that are written in more bytes than any needs make the crate that decodes them panic.
#[test]
fn damage_that_the_decoder_does_not_foresee_is_an_error_of_the_data() {
    let bench = Bench::new();
    let whole = fixture("parquet/delta.parquet");
    let mut unforeseen = 0;
    for at in (4..whole.len() / 2).step_by(5) {
        let mut damaged = whole.clone();
        damaged[at..at + 12].fill(0xff);
        let Some(error) = bench.read("endless.parquet", &damaged).1 else { continue };
        assert!(matches!(error.kind(), ErrorKind::Data | ErrorKind::Format | ErrorKind::Limit), "{at}: {error:?}");
        assert!(!error.message().contains("panicked"), "{error}");
        if error.message().starts_with("the file is damaged: the data here can't be decoded") {
            unforeseen += 1;
            assert!(error.location().column.is_some() && error.path().is_some(), "{error}");
        }
    }
    assert!(unforeseen > 0);
}

#[test]
fn footers_that_lie_about_records_are_found_out() {
    let bench = Bench::new();
    for (name, expected) in [
        ("fewer", "the pages hold more than the 49 values that the footer says"),
        ("more", "the pages hold 50 values, but the footer says 51"),
        ("far-more", "the pages hold 50 values, but the footer says 63"),
    ] {
        let (good, error) = bench.read("lies.parquet", &fixture(&format!("parquet/hostile-{name}.parquet")));
        let error = error.unwrap();
        assert!(good == 0 && error.to_string().contains(expected), "{good} {error}");
        assert_eq!(error.location().column.as_deref(), Some("x"));
    }
}

#[test]
fn what_unpacks_to_more_than_is_allowed_is_refused_before_it_is_unpacked() {
    let bench = Bench::new();
    for name in ["gzip", "brotli", "zstd", "prefixes", "lists"] {
        let (good, error) = bench.read("bomb.parquet", &fixture(&format!("parquet/hostile-{name}.parquet")));
        let error = error.unwrap();
        assert_eq!((good, error.kind()), (0, ErrorKind::Limit), "{name}: {error}");
        assert!(
            error.to_string().contains("more than max_chunk_bytes = 16777216 for the values of one column"),
            "{error}"
        );
    }
    // Where it may, it is read.
    let path = bench.write("large.parquet", &fixture("parquet/hostile-gzip.parquet"));
    let options = ColumnsOptions::default();
    let mut container = Columns::open_parquet(&Files::local(), &[path], &options, &MemoryBudget::unlimited()).unwrap();
    container.find(&"x".into()).unwrap();
    let mut scratch = Scratch::default();
    container.fetch(&[0], 0, &mut scratch).unwrap();
    let read = container.read(0, 0, &mut scratch, &mut |_, value| {
        assert!(matches!(value, Value::Text(text) if text.len() == 60_000_000));
        Ok(())
    });
    read.unwrap();
}

#[test]
fn a_batch_that_unpacks_to_more_than_is_allowed_is_refused_before_it_is_unpacked() {
    use arrow_ipc::CompressionType;
    use arrow_ipc::writer::IpcWriteOptions;
    let bench = Bench::new();
    let zeros: ArrayRef = Arc::new(arrow_array::Int64Array::from(vec![0; 3 << 20]));
    let batch = RecordBatch::try_from_iter([("x", zeros)]).unwrap();
    for method in [CompressionType::LZ4_FRAME, CompressionType::ZSTD] {
        let options = IpcWriteOptions::default().try_with_compression(Some(method)).unwrap();
        let mut bytes = Vec::new();
        let mut writer = StreamWriter::try_new_with_options(&mut bytes, &batch.schema(), options).unwrap();
        writer.write(&batch).unwrap();
        writer.finish().unwrap();
        drop(writer);
        let (good, error) = bench.read("bomb.arrows", &bytes);
        let error = error.unwrap();
        assert_eq!((good, error.kind()), (0, ErrorKind::Limit), "{method:?}: {error}");
        assert!(bytes.len() < 1 << 20 && error.location().byte.is_some(), "{error}");
    }
}

#[test]
fn lengths_of_records_that_a_file_only_claims_take_no_memory() {
    use arrow_array::types::Int64Type;
    let lists = ListArray::from_iter_primitive::<Int64Type, _, _>((0..777).map(|_| Some([Some(1), Some(2)])));
    let lists: ArrayRef = Arc::new(lists);
    let batch = RecordBatch::try_from_iter([("x", lists)]).unwrap();
    let mut bytes = Vec::new();
    let mut writer = StreamWriter::try_new(&mut bytes, &batch.schema()).unwrap();
    writer.write(&batch).unwrap();
    writer.finish().unwrap();
    drop(writer);
    let read = |bytes: &[u8]| -> Result<u64> {
        let bench = Bench::new();
        let path = bench.write("claims.arrows", bytes);
        let budget = MemoryBudget::unlimited();
        let columns = Columns::open_arrow(&Files::local(), &[path], &ColumnsOptions::default(), &budget)?;
        let fields = [("x".to_owned(), Numbers::i64().into())];
        let reader = FieldReader::new(columns, &fields, &budget)?;
        let (before, len) = (budget.used(), reader.len());
        assert!(before < 1 << 20, "{before} bytes for {len} records");
        assert_eq!(reader.measure(len - 1, &mut Scratch::default())?.0[0], 2);
        assert!(budget.used() > before, "what was measured is kept");
        Ok(len)
    };
    assert_eq!(read(&bytes).unwrap(), 777);
    for claim in [1u64 << 40, 1 << 33, 778] {
        let mut lie = bytes.clone();
        let places = (0..bytes.len() - 8).filter(|at| bytes[*at..*at + 8] == 777u64.to_le_bytes());
        places.for_each(|at| lie[at..at + 8].copy_from_slice(&claim.to_le_bytes()));
        let error = read(&lie).unwrap_err();
        let message = format!("a batch says that it has {claim} records, but ");
        assert!(error.message().contains(&message) && error.path().is_some(), "{error}");
    }
}

#[test]
fn a_time_that_no_64_bits_of_nanoseconds_count_is_no_other_time() {
    let (good, error) = Bench::new().read("late.parquet", &fixture("parquet/hostile-int96.parquet"));
    let error = error.unwrap();
    assert_eq!((good, error.kind()), (0, ErrorKind::Data));
    assert!(error.to_string().contains("a point in time 2932896 days from 1970, stored as INT96"), "{error}");
}

/// A batch that says of `values` records that there are `claim`: in its own count, and where `in_columns` is set, in
/// those of its columns, too.
fn claiming(batch: &RecordBatch, claim: i64, in_columns: bool) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut writer = StreamWriter::try_new(&mut bytes, &batch.schema()).unwrap();
    writer.write(batch).unwrap();
    writer.finish().unwrap();
    drop(writer);
    let own = (batch.num_rows() as i64).to_le_bytes();
    let places: Vec<usize> = (0..bytes.len() - 8).filter(|at| bytes[*at..*at + 8] == own).collect();
    // The batch's own count stands in the table that the vectors of its columns' lengths follow.
    for at in places.into_iter().take(if in_columns { usize::MAX } else { 1 }) {
        bytes[at..at + 8].copy_from_slice(&claim.to_le_bytes());
    }
    bytes
}

#[test]
fn a_batch_of_more_records_than_its_columns_hold_does_not_open() {
    use arrow_array::types::Int32Type;
    use arrow_array::{BooleanArray, Float32Array, Int32Array, NullArray, RunArray, StringArray};
    let bench = Bench::new();
    let numbers = || Arc::new(Float32Array::from(vec![0.5; 777])) as ArrayRef;
    let nothing = || Arc::new(NullArray::new(777)) as ArrayRef;
    let texts = Arc::new(StringArray::from(vec!["word"; 777])) as ArrayRef;
    let truths = Arc::new(BooleanArray::from(vec![true; 777])) as ArrayRef;
    let runs = RunArray::<Int32Type>::try_new(&Int32Array::from(vec![777]), &BooleanArray::from(vec![true]));
    let columns: [(&str, Vec<ArrayRef>); 6] = [
        ("numbers", vec![numbers()]),
        ("texts", vec![texts]),
        ("truths", vec![truths]),
        ("null", vec![nothing()]),
        ("runs", vec![Arc::new(runs.unwrap()) as ArrayRef]),
        ("both", vec![nothing(), numbers()]),
    ];
    for (name, columns) in columns {
        let batch =
            RecordBatch::try_from_iter(columns.into_iter().enumerate().map(|(nth, array)| (nth.to_string(), array)));
        let batch = batch.unwrap();
        let error = bench.read("true.arrows", &claiming(&batch, 777, true)).1;
        assert!(error.is_none(), "{name}: {error:?}");
        for (claim, in_columns) in [(1 << 39, true), (1 << 39, false), (1_095_216_660_491, true)] {
            let path = bench.write("claims.arrows", &claiming(&batch, claim, in_columns));
            let options = ColumnsOptions::default();
            let opened = Columns::open_arrow(&Files::local(), &[path], &options, &MemoryBudget::unlimited());
            let error = opened.err().unwrap_or_else(|| panic!("{name} of {claim} records opens")).to_string();
            assert!(error.contains(&format!("a batch says that it has {claim} records, but ")), "{name}: {error}");
            assert!(error.contains("claims.arrows") && error.contains("byte "), "{error}");
        }
    }
    // A single byte, which makes one record a trillion.
    let mut bytes = fixture("arrow/feather.feather");
    assert_eq!((bytes[3656], bytes[3660]), (1, 0));
    bytes[3660] = 255;
    let error = bench.read("damaged.feather", &bytes).1.unwrap();
    assert_eq!(error.kind(), ErrorKind::Format, "{error}");
    assert!(error.message().contains("a batch says that it has "), "{error}");
}

#[test]
fn row_groups_of_more_records_than_their_columns_hold_do_not_open() {
    let bench = Bench::new();
    let whole = fixture("parquet/hostile-fewer.parquet");
    let len = u32::from_le_bytes(*whole[..whole.len() - 4].last_chunk().unwrap()) as usize;
    let (pages, footer) = whole[..whole.len() - 8].split_at(whole.len() - 8 - len);
    // Of the file, the values of its column, and its only row group, in this order: 64-bit fields of the footer's.
    let places: Vec<usize> = (0..footer.len() - 1).filter(|at| footer[*at..*at + 2] == [0x16, 98]).collect();
    assert_eq!(places.len(), 3);
    let claiming = |claims: [u64; 3]| {
        let (mut bytes, mut at) = (pages.to_vec(), 0);
        for (place, claim) in places.iter().zip(claims) {
            bytes.extend_from_slice(&footer[at..=*place]);
            let mut rest = claim * 2;
            while rest >= 128 {
                bytes.push(rest as u8 | 128);
                rest >>= 7;
            }
            bytes.push(rest as u8);
            at = place + 2;
        }
        bytes.extend_from_slice(&footer[at..]);
        let footer_len = (bytes.len() - pages.len()) as u32;
        bytes.extend(footer_len.to_le_bytes().iter().chain(b"PAR1"));
        bytes
    };
    assert!(claiming([49; 3]) == whole);
    const MANY: u64 = 1 << 35;
    for (claims, expected) in [
        ([MANY, 49, MANY], "row group 0 has 34359738368 records, but column \"x\" 49 values"),
        ([MANY; 3], "row group 0 has 34359738368 records, but column \"x\" "),
        ([48, 49, 48], "row group 0 has 48 records, but column \"x\" 49 values"),
    ] {
        let (good, error) = bench.read("lies.parquet", &claiming(claims));
        let error = error.unwrap();
        assert_eq!((good, error.kind()), (0, ErrorKind::Format), "{error}");
        assert!(error.to_string().contains(expected), "{error}");
    }
}

#[test]
fn a_noted_shape_that_does_not_fit_is_refused() {
    use std::collections::BTreeMap;

    use arrow_array::{Array, FixedSizeListArray, Float32Array};
    use arrow_schema::{Field as Column, Schema};

    let list = |items: ArrayRef, len: i32| -> ArrayRef {
        let item = Arc::new(Column::new_list_field(items.data_type().clone(), true));
        Arc::new(FixedSizeListArray::new(item, len, items, None))
    };
    let numbers =
        |count: u8| -> ArrayRef { Arc::new((0..count).map(|nth| Some(f32::from(nth))).collect::<Float32Array>()) };
    let ones = format!("[{}]", vec!["1"; 100_000].join(","));
    let cases: [(ArrayRef, &str, &str); 7] = [
        (list(list(numbers(48), 4), 6), "[2,3]", "but stored as "),
        (list(list(numbers(144), 12), 6), "[2,3]", "but stored as "),
        (list(numbers(2), 1), &ones, "arrays of 100000 dimensions; at most 8"),
        (list(numbers(12), 6), "[2,4]", "arrays of shape [2, 4], but in lists of 6 numbers"),
        (list(numbers(12), 6), "[4294967296,4294967296]", "but in lists of 6 numbers"),
        (list(numbers(12), 6), "[-2,-3]", "not understood"),
        (numbers(12), "[]", "but stored as Float32"),
    ];
    for (array, shape, expected) in cases {
        let notes = [("name", "arrow.fixed_shape_tensor".to_owned()), ("metadata", format!(r#"{{"shape":{shape}}}"#))];
        let notes = notes.map(|(key, value)| (format!("ARROW:extension:{key}"), value));
        let column = Column::new("x", array.data_type().clone(), true).with_metadata(BTreeMap::from(notes));
        let batch = RecordBatch::try_new(Arc::new(Schema::new(vec![column])), vec![array]).unwrap();
        let mut bytes = Vec::new();
        let mut writer = StreamWriter::try_new(&mut bytes, &batch.schema()).unwrap();
        writer.write(&batch).unwrap();
        writer.finish().unwrap();
        drop(writer);
        let bench = Bench::new();
        let path = bench.write("noted.arrows", &bytes);
        let budget = MemoryBudget::unlimited();
        let columns = Columns::open_arrow(&Files::local(), &[path], &ColumnsOptions::default(), &budget);
        let error = columns.and_then(|columns| {
            FieldReader::new(columns, &[("x".to_owned(), Numbers::of(ringfeed::DType::F32).into())], &budget)
        });
        let error = error.err().unwrap();
        assert!(
            error.to_string().contains(expected),
            "{expected}: {}",
            &error.to_string()[..200.min(error.to_string().len())]
        );
    }
}
