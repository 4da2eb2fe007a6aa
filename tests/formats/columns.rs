//! Parquet and Arrow files: what pyarrow, pandas and polars wrote is read as pyarrow reads it.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::{Path, PathBuf};
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::atomic::{AtomicBool, AtomicUsize};

use crate::latency::latency;
use arrow_array::ffi_stream::FFI_ArrowArrayStream;
use arrow_array::{
    ArrayRef, Float32Array, Float64Array, Int8Array, Int32Array, Int64Array, RecordBatch, RecordBatchIterator,
    RecordBatchReader, StructArray, UInt8Array, UInt16Array, UInt64Array,
};
use arrow_ipc::reader::{FileReader, StreamReader};
use arrow_ipc::writer::FileWriter;
use ringfeed::columns::{ArrowTable, Columns, ColumnsOptions};
use ringfeed::field::{Field, Image};
use ringfeed::formats::Formats;
use ringfeed::inspect::Figure;
use ringfeed::memory::MemoryBudget;
use ringfeed::order::State;
use ringfeed::prepare::{DatePart, DateUnit, Mean, MostFrequent, Recipe, category, date, hash, number};
use ringfeed::read::{Container, FieldReader, Scratch, Value};
use ringfeed::settings::{BadLimits, BadRecords};
use ringfeed::source::ReaderSource;
use ringfeed::storage::{Access, Files, Mapping, Storage};
use ringfeed::workspace::{shield, wrap};
use ringfeed::{DType, DataSetIterator, ErrorKind, Loader, Result, Workspace};
use serde_json::{Map, Value as Json, json};

fn fixtures(folder: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures").join(folder)
}

fn open(files: &Files, path: &Path, options: &ColumnsOptions) -> Result<Columns> {
    let is_parquet = path.extension().is_some_and(|extension| extension == "parquet");
    let open = if is_parquet { Columns::open_parquet } else { Columns::open_arrow };
    open(files, &[path.to_owned()], options, &MemoryBudget::unlimited())
}

fn shown(value: Value<'_>) -> Json {
    let float = |number: f64| match number.is_finite() {
        true => json!(number),
        false => json!(number.to_string().to_lowercase()),
    };
    match value {
        Value::Missing => Json::Null,
        Value::Bool(flag) => json!(flag),
        Value::I64(number) | Value::Time(number, _) => json!(number),
        Value::U64(number) => json!(number),
        Value::F64(number) => float(number),
        Value::Decimal(text) => json!(format!("decimal {text}")),
        Value::Text(text) => json!(text),
        Value::Bytes(bytes) => {
            json!(format!("bytes {}", bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>()))
        }
        Value::Numbers(numbers) => (0..numbers.len())
            .map(|at| if numbers.dtype().is_float() { float(numbers.at(at)) } else { json!(numbers.at(at) as i64) })
            .collect(),
        Value::List(list) => {
            let mut items = Vec::new();
            list.each(&mut |value| {
                items.push(shown(value));
                Ok(())
            })
            .unwrap();
            items.into()
        }
        other => panic!("{other:?}"),
    }
}

/// The values of these fields, by name, read in the order of `records`, and put back into that of the file.
fn values(container: &mut Columns, names: &[String], records: &[u64]) -> Map<String, Json> {
    container.forget();
    let numbers: Vec<usize> = names.iter().map(|name| container.find(&name.as_str().into()).unwrap()).collect();
    let mut found = vec![vec![Json::from("nothing"); records.len()]; names.len()];
    let mut scratch = Scratch::default();
    for job in records.chunks(4) {
        (0..job.len()).for_each(|nth| container.fetch(job, nth, &mut scratch).unwrap());
        for (nth, record) in job.iter().enumerate() {
            let read = container.read(*record, nth, &mut scratch, &mut |number, value| {
                let at = numbers.iter().position(|wanted| *wanted == number).unwrap();
                found[at][*record as usize] = shown(value);
                Ok(())
            });
            read.unwrap();
        }
    }
    names.iter().cloned().zip(found.into_iter().map(Json::from)).collect()
}

/// Lists of lists of numbers come as one list where all are as long.
fn flat(value: &Json) -> Json {
    match value {
        Json::Array(items) if items.iter().all(Json::is_array) && !items.is_empty() => {
            items.iter().flat_map(|item| flat(item).as_array().cloned().unwrap_or_default()).collect()
        }
        value => value.clone(),
    }
}

fn expected(folder: &str) -> Map<String, Json> {
    let text = std::fs::read_to_string(fixtures(folder).join("expected.json")).unwrap();
    serde_json::from_str(&text).unwrap()
}

/// A storage of local files.
struct Shelf;

impl Storage for Shelf {
    fn file_len(&self, path: &Path) -> Result<u64> {
        Ok(std::fs::metadata(path).map_err(|error| ringfeed::Error::io(path, error))?.len())
    }

    fn read(&self, path: &Path, range: std::ops::Range<u64>, into: &mut Vec<u8>) -> Result<u64> {
        let bytes = std::fs::read(path).map_err(|error| ringfeed::Error::io(path, error))?;
        into.clear();
        into.extend_from_slice(&bytes[range.start as usize..(range.end as usize).min(bytes.len())]);
        Ok(bytes.len() as u64)
    }
}

fn as_pyarrow_reads_them(folder: &str) {
    // SAFETY: nobody changes the fixtures.
    let mapped = Access::Map(unsafe { Mapping::promise() });
    let shelf = Files::of(Arc::new(Shelf), &MemoryBudget::unlimited());
    let tiny = ColumnsOptions { cache_bytes: 1, ..ColumnsOptions::default() };
    let ways = [
        (Files::local(), ColumnsOptions::default()),
        (Files::local(), ColumnsOptions { access: mapped, ..ColumnsOptions::default() }),
        (shelf, ColumnsOptions::default()),
        (Files::local(), tiny),
    ];
    for (file, expected) in expected(folder) {
        let path = fixtures(folder).join(&file);
        if let Some(reason) = expected["refused"].as_str() {
            let error = refused(&path).unwrap_err();
            assert!(error.to_string().contains(reason) && error.path() == Some(&path), "{file}: {error}");
            continue;
        }
        let fields = expected["fields"].as_object().unwrap();
        let names: Vec<String> = fields.keys().cloned().collect();
        for (way, (files, options)) in ways.iter().enumerate() {
            let mut container = open(files, &path, options).unwrap();
            let count = expected["records"].as_u64().unwrap();
            assert_eq!(container.len(), count, "{file}");
            let forward: Vec<u64> = (0..count).collect();
            let mut mixed = forward.clone();
            mixed.sort_by_key(|at| (at * 7 + 3) % 11);
            for records in [forward, mixed] {
                let found = values(&mut container, &names, &records);
                for (name, column) in fields {
                    for (record, (found, expected)) in
                        found[name].as_array().unwrap().iter().zip(column.as_array().unwrap()).enumerate()
                    {
                        let is_same = found == expected || *found == flat(expected);
                        assert!(is_same, "{file}, way {way}: record {record} of {name:?}: {found} is not {expected}");
                    }
                }
            }
        }
    }
}

/// The first error of a file, or of one of its values.
fn refused(path: &Path) -> Result<()> {
    let mut container = open(&Files::local(), path, &ColumnsOptions::default())?;
    let names: Vec<String> = container.fields().iter().map(|field| field.name.clone()).collect();
    let mut scratch = Scratch::default();
    for name in names {
        container.forget();
        container.find(&name.as_str().into())?;
        for record in 0..container.len() {
            container.fetch(&[record], 0, &mut scratch)?;
            container.read(record, 0, &mut scratch, &mut |_, _| Ok(()))?;
        }
    }
    Ok(())
}

#[test]
fn parquet_files_are_read_as_pyarrow_reads_them() {
    as_pyarrow_reads_them("parquet");
}

/// Those that the projects Parquet and Arrow test their own readers with.
#[test]
fn files_that_other_readers_are_tested_with_are_read_as_pyarrow_reads_them_or_refused_by_name() {
    as_pyarrow_reads_them("parquet-testing");
    as_pyarrow_reads_them("arrow-testing");
    // Their contents tell what they are.
    let folder = tempfile::tempdir().unwrap();
    let unnamed = folder.path().join("unnamed");
    for format in ["parquet", "arrow"] {
        let files = fixtures(&format!("{format}-testing"));
        for (file, _) in expected(&format!("{format}-testing")) {
            std::fs::copy(files.join(&file), &unnamed).unwrap();
            assert_eq!(Formats::new().detect(&unnamed).unwrap()[0].format(), format, "{file}");
        }
    }
}

/// The records of an Arrow file as another library holds them.
fn in_memory(path: &Path) -> Box<dyn RecordBatchReader + Send> {
    let file = || std::io::BufReader::new(std::fs::File::open(path).unwrap());
    match FileReader::try_new(file(), None) {
        Ok(reader) => Box::new(reader),
        Err(_) => Box::new(StreamReader::try_new(file(), None).unwrap()),
    }
}

fn table(reader: Box<dyn RecordBatchReader + Send>) -> Result<ArrowTable> {
    let mut stream = FFI_ArrowArrayStream::new(reader);
    // SAFETY: that is such a stream.
    unsafe { ArrowTable::from_stream(NonNull::from(&mut stream).cast(), "here") }
}

fn of_table(table: &ArrowTable) -> Columns {
    Columns::of_table(table, &ColumnsOptions::default(), &MemoryBudget::unlimited()).unwrap()
}

#[test]
fn a_table_in_memory_gives_what_its_file_gives() {
    let mut count = 0;
    for (file, expected) in expected("arrow") {
        let mut from_file = open(&Files::local(), &fixtures("arrow").join(&file), &ColumnsOptions::default()).unwrap();
        let mut here = of_table(&table(in_memory(&fixtures("arrow").join(&file))).unwrap());
        assert_eq!((here.len(), here.fields()), (from_file.len(), from_file.fields()), "{file}");
        let names: Vec<String> = expected["fields"].as_object().unwrap().keys().cloned().collect();
        let records: Vec<u64> = (0..here.len()).map(|at| (at * 7 + 3) % here.len()).collect();
        assert_eq!(values(&mut here, &names, &records), values(&mut from_file, &names, &records), "{file}");
        count += 1;
    }
    assert!(count > 5);
}

fn places(places: &[u64]) -> ArrowTable {
    let column: ArrayRef = Arc::new(UInt64Array::from(places.to_vec()));
    let batch = RecordBatch::try_from_iter([("indices", column)]).unwrap();
    let schema = batch.schema();
    table(Box::new(RecordBatchIterator::new([Ok(batch)], schema))).unwrap()
}

#[test]
fn of_a_table_records_are_picked_and_picked_again() {
    let (file, _) = expected("arrow").into_iter().find(|(_, expected)| expected["records"] == 11).unwrap();
    let whole = table(in_memory(&fixtures("arrow").join(file))).unwrap();
    let all = of_table(&whole);
    let some = whole.clone().pick(&places(&[10, 3, 3, 0])).unwrap();
    let again = of_table(&some.clone().pick(&places(&[2, 0])).unwrap());
    assert_eq!((some.len(), again.len()), (4, 2));
    let name = |columns: &Columns, record| {
        let mut name = Vec::new();
        columns.name(record, &mut name);
        name
    };
    // A record keeps its name, so that it stays in its part of a split.
    assert_eq!([name(&again, 0), name(&again, 1)], [name(&all, 3), name(&all, 10)]);
    assert_eq!(again.chunks().count(), 0);
    assert_ne!(
        of_table(&some).fingerprint(),
        of_table(&whole.clone().pick(&places(&[3, 10, 3, 0])).unwrap()).fingerprint()
    );
    assert_eq!(again.place(1).record, Some(1));
    let beyond = whole.clone().pick(&places(&[1, 11])).unwrap_err();
    assert_eq!((beyond.kind(), beyond.message().contains("index 1 is 11")), (ErrorKind::Data, true), "{beyond}");
    let schema = whole.clone().pick(&whole).unwrap_err();
    assert!(schema.message().contains("not whole numbers"), "{schema}");
}

#[test]
fn arrow_files_and_streams_are_read_as_pyarrow_reads_them() {
    as_pyarrow_reads_them("arrow");
}

#[test]
fn a_type_that_is_not_read_is_refused_by_name_where_it_is_asked_for() {
    let mut runs = open(&Files::local(), &fixtures("arrow").join("runs.arrow"), &ColumnsOptions::default()).unwrap();
    assert_eq!(values(&mut runs, &["x".to_owned()], &[4, 3, 2, 1, 0])["x"], json!([0, 1, 2, 3, 4]));
    let error = runs.find(&"r".into()).unwrap_err();
    assert!(error.to_string().contains("column \"r\": values of type RunEndEncoded"), "{error}");
    let old = open(&Files::local(), &fixtures("arrow").join("v0.17.0-lz4.feather"), &ColumnsOptions::default());
    let error = old.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    assert!(error.to_string().contains("compressed in a way of 2020 that is not read"), "{error}");
    for name in ["big-endian.arrow", "big-endian-stream.arrow"] {
        let other = open(&Files::local(), &fixtures("arrow").join(name), &ColumnsOptions::default()).unwrap_err();
        assert_eq!(other.kind(), ErrorKind::Unsupported);
        assert!(other.to_string().contains("in another byte order than this machine's"), "{other}");
    }
    let mut types =
        open(&Files::local(), &fixtures("parquet").join("types.parquet"), &ColumnsOptions::default()).unwrap();
    let error = types.find(&"image".into()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Config);
    assert!(
        error.to_string().contains(r#"a struct; name one of its fields after a dot: ["bytes", "path"]"#),
        "{error}"
    );
    let error = types.find(&"image.byte".into()).unwrap_err();
    assert!(error.to_string().contains(r#"did you mean "image.bytes"?"#), "{error}");
}

fn fields(text: &str) -> Vec<(String, Field)> {
    let named: std::collections::BTreeMap<String, Field> = toml::from_str(text).unwrap();
    named.into_iter().collect()
}

fn reader(files: &Files, path: &Path, options: &ColumnsOptions, wanted: &str) -> FieldReader {
    FieldReader::new(open(files, path, options).unwrap(), &fields(wanted), &MemoryBudget::unlimited()).unwrap()
}

/// A storage that takes its time, and knows which threads asked it.
struct Far {
    path: PathBuf,
    is_watched: AtomicBool,
    unasked: AtomicUsize,
}

impl Storage for Far {
    fn file_len(&self, _: &Path) -> Result<u64> {
        Shelf.file_len(&self.path)
    }

    fn read(&self, _: &Path, range: std::ops::Range<u64>, into: &mut Vec<u8>) -> Result<u64> {
        let is_ahead = std::thread::current().name().is_some_and(|name| name.starts_with("ringfeed-ahead"));
        self.unasked.fetch_add(usize::from(!is_ahead && self.is_watched.load(SeqCst)), SeqCst);
        latency(std::time::Duration::from_millis(2));
        Shelf.read(&self.path, range, into)
    }
}

const MANY: &str = r#"
    id = { numbers = "i64" }
    price = { numbers = "f32" }
    word = "category"
    x = { numbers = "f32" }
"#;

/// Two epochs: each batch's ids and bytes.
fn epochs(batches: &mut dyn DataSetIterator) -> Vec<(Vec<u64>, Vec<Vec<u8>>)> {
    let mut all = Vec::new();
    for _ in 0..2 {
        for batch in &mut *batches {
            let batch = batch.unwrap();
            all.push((batch.sample_ids().to_vec(), batch.tensors().map(|tensor| tensor.bytes().to_vec()).collect()));
        }
        batches.reset().unwrap();
    }
    all
}

#[test]
fn any_number_of_workers_in_any_order_give_the_same_batches_from_files_maps_and_storages() {
    crate::common::watchdog::watch();
    let path = fixtures("parquet").join("many.parquet");
    // SAFETY: nobody changes the fixtures.
    let mapped = Access::Map(unsafe { Mapping::promise() });
    let source = |files: &Files, options: &ColumnsOptions, seed: Option<u64>| {
        let source = ReaderSource::new(reader(files, &path, options, MANY)).batch_size(64);
        if let Some(seed) = seed { source.shuffle(seed) } else { source }
    };
    for seed in [None, Some(5)] {
        let plain = ColumnsOptions::default();
        let mut alone = wrap(shield(source(&Files::local(), &plain, seed)), &Workspace::default()).unwrap();
        let expected = epochs(&mut *alone);
        for (ids, tensors) in &expected {
            for (row, id) in ids.iter().enumerate() {
                let at = |tensor: usize, width: usize| &tensors[tensor][row * width..(row + 1) * width];
                assert_eq!(at(0, 8), &(*id as i64).to_ne_bytes());
                let price: f32 = format!("{}.{:02}", id * 37 % 1009 / 100, id * 37 % 1009 % 100).parse().unwrap();
                assert_eq!(at(1, 4), &price.to_ne_bytes());
                assert_eq!(at(2, 8), &(*id as i64 % 7).to_ne_bytes());
                let x = f32::from_ne_bytes(at(3, 4).try_into().unwrap());
                assert!((x - (*id as f32).sin()).abs() < 1e-4, "{x} of {id}");
            }
        }
        let tiny = ColumnsOptions { cache_bytes: 2000, ..plain.clone() };
        let map = ColumnsOptions { access: mapped, ..plain.clone() };
        for (workers, options) in [(1, &plain), (3, &plain), (3, &tiny), (2, &map)] {
            let workspace = Workspace::builder().workers(workers).build().unwrap();
            let mut batches = wrap(source(&Files::local(), options, seed), &workspace).unwrap();
            assert_eq!(epochs(&mut *batches), expected, "{workers} workers, {options:?}");
        }
        let far =
            Arc::new(Far { path: path.clone(), is_watched: AtomicBool::new(false), unasked: AtomicUsize::new(0) });
        let files = Files::of(far.clone(), &MemoryBudget::unlimited());
        let workspace = Workspace::builder().workers(2).build().unwrap();
        let mut batches = wrap(source(&files, &plain, seed), &workspace).unwrap();
        // Opening and the first batch, which sizes the ring, read what nobody could know of.
        batches.next().unwrap().unwrap();
        batches.seek(&State::new(batches.state().seed)).unwrap();
        far.is_watched.store(true, SeqCst);
        assert_eq!(epochs(&mut *batches), expected);
        assert_eq!(far.unasked.load(SeqCst), 0, "workers waited for bytes that could have been asked for");
    }
}

#[test]
fn a_data_set_of_images_as_the_hub_keeps_them_becomes_tensors() {
    let folder = tempfile::tempdir().unwrap();
    for (at, name) in ["rgb.png", "rgb.jpg", "orientation-6.jpg", "palette.png", "rgb-lossless.webp"].iter().enumerate()
    {
        std::fs::copy(fixtures("images").join(name), folder.path().join(format!("{at}-{name}"))).unwrap();
    }
    let alone = Loader::images(folder.path()).field("image", Image::rgb(20, 30));
    let mut alone = alone.batch_size(5).build().unwrap();
    let expected = alone.next().unwrap().unwrap();
    let wanted = r#"
        caption = { from = "text", text = 8 }
        ids = { numbers = "i64", max_len = 3, pad = -1 }
        image = { from = "image.bytes", image = [20, 30] }
        label = { numbers = "i64" }
    "#;
    let path = fixtures("parquet").join("images.parquet");
    let source = ReaderSource::new(reader(&Files::local(), &path, &ColumnsOptions::default(), wanted)).batch_size(5);
    let mut batches = wrap(source, &Workspace::default()).unwrap();
    let batch = batches.next().unwrap().unwrap();
    assert_eq!(batch.tensor("image").unwrap().bytes(), expected.tensors().next().unwrap().bytes());
    let numbers = |name: &str| bytemuck::pod_collect_to_vec::<u8, i64>(batch.tensor(name).unwrap().bytes());
    assert_eq!(numbers("label"), [3, 1, 4, 1, 5]);
    assert_eq!(numbers("ids"), [1, 2, 3, 4, -1, -1, -1, -1, -1, 5, 6, -1, 7, -1, -1]);
    assert_eq!(batch.tensor("ids_mask").unwrap().bytes(), [1, 1, 1, 1, 0, 0, 0, 0, 0, 1, 1, 0, 1, 0, 0]);
    assert_eq!(numbers("caption_len"), [3, 3, 0, 0, 4]);
    assert_eq!(&batch.tensor("caption").unwrap().bytes()[..11], b"one\0\0\0\0\0two");
}

#[test]
fn files_that_are_read_as_one_have_the_same_columns() {
    let at = |name: &str| fixtures("parquet").join(name);
    let paths = [at("snappy.parquet"), at("no-records.parquet"), at("zstd.parquet"), at("empty-group.parquet")];
    let budget = MemoryBudget::unlimited();
    let options = ColumnsOptions::default();
    let mut all = Columns::open_parquet(&Files::local(), &paths, &options, &budget).unwrap();
    assert_eq!(all.len(), 33);
    let found = values(&mut all, &["i32".to_owned()], &(0..33).rev().collect::<Vec<_>>());
    let mut one = Columns::open_parquet(&Files::local(), &paths[..1], &options, &budget).unwrap();
    let alone = values(&mut one, &["i32".to_owned()], &(0..11).collect::<Vec<_>>());
    let alone = alone["i32"].as_array().unwrap();
    assert_eq!(found["i32"].as_array().unwrap(), &[alone.clone(), alone.clone(), alone.clone()].concat());
    assert_eq!(all.place(30).path, Some(paths[3].clone()));
    assert_eq!(all.chunks().collect::<Vec<_>>(), [0..8, 8..11, 11..19, 19..22, 22..27, 27..33]);
    let error = Columns::open_parquet(&Files::local(), &[paths[0].clone(), at("dotted.parquet")], &options, &budget);
    let error = error.unwrap_err();
    assert_eq!((error.kind(), error.path()), (ErrorKind::Schema, Some(&*at("dotted.parquet"))));
    assert!(error.to_string().contains("a column is called \"a\", but \"i32\" in"), "{error}");
}

#[test]
fn names_that_come_twice_in_a_file_are_refused_by_its_name() {
    // A column `a.b` beside a struct `a` with a field `b`.
    let path = fixtures("parquet").join("dotted.parquet");
    let error = Loader::open(&path).unwrap().build().err().unwrap();
    assert_eq!((error.kind(), error.path()), (ErrorKind::Schema, Some(&*path)), "{error}");
    assert_eq!(error.location().column.as_deref(), Some("a.b"));
    assert!(error.to_string().ends_with("name those that you want under `fields`"), "{error}");
    let fields = json!({"y": {"from": "a.b", "numbers": "f64"}});
    let config = json!({"source": {"format": "parquet", "path": path}, "fields": fields, "batch_size": 2});
    let config: ringfeed::LoaderConfig = serde_json::from_value(config).unwrap();
    let batch = Loader::from(config).build().unwrap().next().unwrap().unwrap();
    assert_eq!(batch.tensors().next().unwrap().bytes(), [10.5_f64, 20.5].map(f64::to_le_bytes).concat());
    assert!(Formats::new().inspect(&path).is_ok());
}

#[test]
fn columns_of_u64_are_reported_as_what_they_are() {
    let column: ArrayRef = Arc::new(UInt64Array::from(vec![Some(u64::MAX), None, Some(1)]));
    let lists: ArrayRef = Arc::new(Int64Array::from(vec![(1 << 53) + 1, 2, 0]));
    let batch = RecordBatch::try_from_iter([("u", column), ("i", lists)]).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("u.arrow");
    let mut writer = FileWriter::try_new(std::fs::File::create(&path).unwrap(), &batch.schema()).unwrap();
    writer.write(&batch).unwrap();
    writer.finish().unwrap();
    let found = Formats::new().inspect(&path).unwrap();
    let [u, i] = &found.fields[..] else { panic!("{found:?}") };
    assert_eq!((&*u.dtype, u.count, u.missing, &*i.dtype), ("u64", 2, 1, "i64"));
    assert_eq!(
        (u.sum, u.min, u.max),
        (Some(Figure::Whole(1 << 64)), Some(1.into()), Some(i128::from(u64::MAX).into()))
    );
    assert_eq!(i.sum, Some(Figure::Whole((1 << 53) + 3)));
}

#[test]
fn whole_columns_become_what_their_values_become_one_by_one() {
    crate::common::watchdog::watch();
    let path = fixtures("parquet").join("types.parquet");
    let wanted = r#"
        a = { from = "full", numbers = "f64" }
        b = { from = "full", numbers = "u8" }
        c = { from = "full", numbers = "i32" }
        d = { from = ["f32", "f16", "full"], numbers = "f32" }
        e = { from = "f16", numbers = "f64" }
        f = { from = "i8", numbers = "f32", missing = "nan" }
        g = { from = "deep.a.b.c", numbers = "i64", missing = -1 }
    "#;
    let rows = |batch_size: usize| -> Vec<Vec<Vec<u8>>> {
        let reader = reader(&Files::local(), &path, &ColumnsOptions::default(), wanted);
        let batches = wrap(ReaderSource::new(reader).batch_size(batch_size), &Workspace::default()).unwrap();
        let mut rows = Vec::new();
        for batch in batches {
            let batch = batch.unwrap();
            rows.extend((0..batch.len()).map(|row| {
                let each = batch.tensors().map(|tensor| {
                    let bytes = tensor.bytes();
                    bytes.chunks(bytes.len() / batch.len()).nth(row).unwrap().to_vec()
                });
                each.collect()
            }));
        }
        rows
    };
    let one_by_one = rows(1);
    assert_eq!((one_by_one.len(), rows(11), rows(3)), (11, one_by_one.clone(), one_by_one.clone()));
    // What can't be written is said of its own record.
    let path = fixtures("parquet").join("many.parquet");
    let reader = reader(&Files::local(), &path, &ColumnsOptions::default(), "id = { numbers = \"u8\" }");
    let mut batches = wrap(ReaderSource::new(reader).batch_size(100), &Workspace::default()).unwrap();
    let error = batches.find_map(Result::err).unwrap();
    assert!(error.to_string().contains("record 256: column \"id\": expected u8, found 256"), "{error}");
}

/// An Arrow file of columns of integers with these names; column `n` of record `r` is `10 * n + r`.
fn integers(names: &[&str]) -> Vec<u8> {
    use arrow_schema::{DataType, Field, Schema};

    let columns =
        (0..names.len() as i64).map(|nth| Arc::new(Int64Array::from(vec![10 * nth, 10 * nth + 1])) as ArrayRef);
    let schema =
        Arc::new(Schema::new(names.iter().map(|name| Field::new(*name, DataType::Int64, true)).collect::<Vec<_>>()));
    let batch = RecordBatch::try_new(schema.clone(), columns.collect()).unwrap();
    let mut writer = FileWriter::try_new(Vec::new(), &schema).unwrap();
    writer.write(&batch).unwrap();
    writer.finish().unwrap();
    writer.into_inner().unwrap()
}

#[test]
fn of_columns_with_one_name_one_is_named_by_its_position() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("twice.arrow");
    std::fs::write(&path, integers(&["x", "y", "x"])).unwrap();
    let mut twice = open(&Files::local(), &path, &ColumnsOptions::default()).unwrap();
    let error = twice.find(&"x".into()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Config);
    assert!(
        error.message().contains("several fields are called \"x\"") && error.message().contains("`from = 2`"),
        "{error}"
    );
    assert!(twice.find(&"y".into()).is_ok());
    let config = json!({
        "source": {"format": "arrow", "path": path},
        "fields": {"first": {"from": 0, "numbers": "i64"}, "last": {"from": 2, "numbers": "i64"}},
        "batch_size": 2
    });
    let config: ringfeed::LoaderConfig = serde_json::from_value(config).unwrap();
    let batch = Loader::from(config).build().unwrap().next().unwrap().unwrap();
    let of = |name: &str| batch.tensor(name).unwrap().as_slice::<i64>().unwrap().to_vec();
    assert_eq!((of("first"), of("last")), (vec![0, 1], vec![20, 21]));
    let error = Loader::open(&path).unwrap().build().err().unwrap();
    assert!(error.to_string().contains("twice.arrow") && error.to_string().contains("\"x\""), "{error}");
}

#[test]
fn integers_of_128_bits_are_refused_by_the_name_of_their_column() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("wide.arrow");
    let bytes = integers(&["a", "b"]);
    // The width of one column's integers, as polars writes it, in the list of columns at the end.
    let widths = (0..bytes.len() - 4).filter(|at| bytes[*at..at + 4] == 64i32.to_le_bytes());
    let refused = widths.filter_map(|at| {
        let mut wide = bytes.clone();
        wide[at..at + 4].copy_from_slice(&128i32.to_le_bytes());
        std::fs::write(&path, wide).unwrap();
        let error = open(&Files::local(), &path, &ColumnsOptions::default()).err()?;
        let column = error.location().column.clone();
        (error.kind() == ErrorKind::Unsupported && error.message().contains("integers of 128 bits")).then_some(column)
    });
    let mut columns: Vec<_> = refused.flatten().collect();
    columns.sort();
    assert_eq!(columns, ["a", "b"]);
}

#[test]
fn columns_of_every_type_become_every_type_of_tensor_as_their_values_do_one_by_one() {
    crate::common::watchdog::watch();
    let edges =
        [0.0, 1.0, -1.0, 2.5, 127.0, 128.0, 255.0, 256.0, 32_768.0, 65_504.0, 65_520.0, 2e9, 5e9, 1e19, 1e39, 1e300];
    let numbers = |nth: usize| edges[nth * 7 % 16] * if nth % 3 == 1 { -1.0 } else { 1.0 } + f64::from(nth as u8 % 5);
    let all: Vec<f64> = (0..150).map(numbers).chain([f64::NAN, f64::INFINITY, -0.0]).collect();
    let (floats, wide): (Vec<f32>, Vec<i64>) = all.iter().map(|value| (*value as f32, *value as i64)).unzip();
    let columns: [(&str, ArrayRef); 8] = [
        ("f64", Arc::new(Float64Array::from(all.clone()))),
        ("f32", Arc::new(Float32Array::from(floats))),
        ("i64", Arc::new(Int64Array::from(wide.clone()))),
        ("u64", Arc::new(all.iter().map(|value| *value as u64).collect::<UInt64Array>())),
        ("i32", Arc::new(wide.iter().map(|value| *value as i32).collect::<Int32Array>())),
        ("u16", Arc::new(wide.iter().map(|value| *value as u16).collect::<UInt16Array>())),
        ("i8", Arc::new(wide.iter().map(|value| *value as i8).collect::<Int8Array>())),
        ("u8", Arc::new(wide.iter().map(|value| *value as u8).collect::<UInt8Array>())),
    ];
    let batch = RecordBatch::try_from_iter(columns.clone()).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("numbers.arrow");
    let mut writer = FileWriter::try_new(std::fs::File::create(&path).unwrap(), &batch.schema()).unwrap();
    writer.write(&batch).unwrap();
    writer.finish().unwrap();
    let rows = |settings: &Json| -> Vec<(u64, Vec<u8>)> {
        let config = serde_json::from_value::<ringfeed::LoaderConfig>(settings.clone()).unwrap();
        let mut rows = Vec::new();
        for batch in Loader::from(config).build().unwrap() {
            let batch = batch.unwrap();
            let width = batch.tensor("x").unwrap().bytes().len() / batch.len().max(1);
            let each = batch.tensor("x").unwrap().bytes().chunks(width.max(1)).map(<[u8]>::to_vec);
            rows.extend(batch.sample_ids().iter().copied().zip(each));
        }
        rows
    };
    let standardise = |mean: &[f64], deviation: &[f64], axis: Option<usize>| json!({ "x": { "kind": "standardise", "axis": axis, "mean": mean, "deviation": deviation } });
    let per_column = standardise(&[1.0, -3.0, 0.5], &[2.0, 0.25, 3.0], Some(0));
    let normalisers = [json!({}), standardise(&[2.0], &[3.0], None), per_column];
    let mut compared = 0;
    for (column, _) in &columns {
        for dtype in ["u8", "i8", "u16", "i16", "u32", "i32", "u64", "i64", "f16", "bf16", "f32", "f64"] {
            for normalise in &normalisers[..if dtype.contains('f') { 3 } else { 1 }] {
                let mut settings = json!({
                    "source": { "format": "arrow", "path": path, "fields": { "x": { "from": ["u8", column, "i8"], "numbers": dtype } } },
                    "normalise": normalise,
                    "bad_records": { "skip": { "count": 1000 } },
                });
                let mut with = |batch_size: usize, shuffle: Json| {
                    settings["batch_size"] = batch_size.into();
                    settings["shuffle"] = shuffle;
                    rows(&settings)
                };
                let one_by_one = with(1, Json::Null);
                assert!(with(100, Json::Null) == one_by_one, "{column} {dtype} {normalise}");
                let mut shuffled = with(100, 3.into());
                assert!(shuffled != one_by_one || one_by_one.len() < 2, "{column} {dtype} {normalise}");
                shuffled.sort();
                assert!(shuffled == one_by_one, "{column} {dtype} {normalise}");
                compared += one_by_one.len();
            }
        }
    }
    assert!(compared > 15_000, "{compared}");
}

#[test]
fn a_number_that_is_too_large_for_its_tensor_is_a_bad_record_in_a_column_too() {
    crate::common::watchdog::watch();
    let wide: ArrayRef = Arc::new(Float64Array::from(vec![1.5, 1e300, f64::NEG_INFINITY, f64::NAN, -4e38, 65_520.0]));
    let whole: ArrayRef = Arc::new(Int64Array::from(vec![70_000, 1, -65_519, 2, 3, i64::MAX]));
    let batch = RecordBatch::try_from_iter([("wide", wide), ("whole", whole)]).unwrap();
    let schema = batch.schema();
    let table = table(Box::new(RecordBatchIterator::new([Ok(batch)], schema))).unwrap();
    let good = |wanted: &str, batch_size: usize| -> Vec<u64> {
        let reader = FieldReader::new(of_table(&table), &fields(wanted), &MemoryBudget::unlimited()).unwrap();
        let source = ReaderSource::new(reader).batch_size(batch_size);
        let source = source.bad_records(BadRecords::skip(BadLimits::default()));
        let batches = wrap(source, &Workspace::default()).unwrap();
        batches.flat_map(|batch| batch.unwrap().sample_ids().to_vec()).collect()
    };
    for batch_size in [1, 2, 6] {
        assert_eq!(good("wide = { numbers = \"f64\" }", batch_size), [0, 1, 2, 3, 4, 5]);
        assert_eq!(good("wide = { numbers = \"f32\" }", batch_size), [0, 2, 3, 5]);
        assert_eq!(good("wide = { numbers = \"bf16\" }", batch_size), [0, 2, 3, 5]);
        assert_eq!(good("wide = { numbers = \"f16\" }", batch_size), [0, 2, 3]);
        assert_eq!(good("whole = { numbers = \"f32\" }", batch_size), [0, 1, 2, 3, 4, 5]);
        assert_eq!(good("whole = { numbers = \"f16\" }", batch_size), [1, 2, 3, 4]);
    }
    let reader =
        FieldReader::new(of_table(&table), &fields("wide = { numbers = \"f32\" }"), &MemoryBudget::unlimited());
    let mut batches = wrap(ReaderSource::new(reader.unwrap()).batch_size(6), &Workspace::default()).unwrap();
    let error = batches.find_map(Result::err).unwrap();
    assert!(error.to_string().contains("record 1: column \"wide\": 1e300 is too large for f32"), "{error}");
}

#[test]
fn settings_read_a_data_set_of_the_hub_in_one_source() {
    crate::common::watchdog::watch();
    let path = fixtures("parquet").join("images.parquet");
    let settings = format!(
        "batch_size = 5\n[source]\npath = {path:?}\n[fields]\nimage = {{ from = \"image.bytes\", image = [20, 30] }}\n\
         label = {{ numbers = \"i64\" }}\ncaption = {{ from = \"text\", text = 8 }}\n"
    );
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("loader.toml");
    std::fs::write(&file, settings).unwrap();
    let mut batches = Loader::from(ringfeed::LoaderConfig::load(&file).unwrap()).build().unwrap();
    let batch = batches.next().unwrap().unwrap();
    assert_eq!(bytemuck::pod_collect_to_vec::<u8, i64>(batch.tensor("label").unwrap().bytes()), [3, 1, 4, 1, 5]);
    assert_eq!(batch.tensor("image").unwrap().bytes().len(), 5 * 3 * 20 * 30 * 4);
    for name in ["parquet/many.parquet", "arrow/types.arrow", "arrow/types-stream.arrow", "arrow/feather.feather"] {
        let report = ringfeed::inspect::verify(fixtures(name), 2, |_| ()).unwrap();
        assert!(report.bad.is_empty() && report.samples > 10, "{name}: {report:?}");
    }
}

#[test]
fn a_table_of_pandas_is_prepared_as_the_same_records_in_a_server() {
    crate::common::watchdog::watch();
    let recipe = Recipe::new()
        .column("x", number().impute(Mean).mask().min_max(0.0, 1.0))
        .column("when", date().unit(DateUnit::Microseconds).part(DatePart::Year).impute("2000-01-01"))
        .column("flag", number().impute(MostFrequent))
        .column("kind", category().unknown())
        .column("row", hash(10));
    let table = Loader::open(fixtures("parquet").join("pandas.parquet")).unwrap();
    let prepared = recipe.fit(&table).unwrap();
    let batch = table.prepare(&prepared).shield().build().unwrap().next().unwrap().unwrap();
    let (features, codes) = (batch.tensor("features").unwrap(), batch.tensor("categories").unwrap());
    let expected = [[0.0, 0.0, 2024.0, 1.0], [0.5, 1.0, 2000.0, 0.0], [1.0, 0.0, 1950.0, 0.0]].concat();
    assert_eq!(features.as_slice::<f32>().unwrap(), expected);
    let served = [
        r#"{"x": 1.5, "when": "2024-01-01", "flag": true, "kind": "b", "row": "r"}"#,
        r#"{"x": null, "flag": null, "row": "s"}"#,
        r#"{"x": 3, "when": -618105600000000, "flag": 0, "kind": "a", "row": "t"}"#,
    ];
    let mut row = prepared.row();
    for (nth, (text, code)) in served.into_iter().zip([2, 0, 1]).enumerate() {
        prepared.apply_json(text, &mut row).unwrap();
        assert_eq!(row.f32("features").unwrap(), &expected[4 * nth..][..4]);
        assert_eq!(row.i64("categories").unwrap(), &codes.as_slice::<i64>().unwrap()[2 * nth..][..2]);
        assert_eq!(row.i64("categories").unwrap()[0], code);
    }
}

#[test]
fn dates_that_a_file_stores_as_days_are_days_whatever_its_writer_had() {
    use arrow_array::{Date64Array, ListArray};
    use arrow_buffer::OffsetBuffer;
    use arrow_schema::{DataType, Field};
    use parquet::file::properties::WriterProperties;
    let dates = Arc::new(Date64Array::from(vec![3 * 86_400_000, -86_400_000]));
    let item = Arc::new(Field::new_list_field(DataType::Date64, true));
    let lists = ListArray::new(item, OffsetBuffer::from_lengths([1, 1]), dates.clone(), None);
    let batch =
        RecordBatch::try_from_iter([("date", dates as ArrayRef), ("list", Arc::new(lists) as ArrayRef)]).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("dates.parquet");
    // What pyarrow does: days, with a note that they were milliseconds.
    let properties = WriterProperties::builder().set_coerce_types(true).build();
    let file = std::fs::File::create(&path).unwrap();
    let mut writer = parquet::arrow::ArrowWriter::try_new(file, batch.schema(), Some(properties)).unwrap();
    writer.write(&batch).unwrap();
    writer.close().unwrap();
    let mut table = open(&Files::local(), &path, &ColumnsOptions::default()).unwrap();
    let found = values(&mut table, &["date".to_owned(), "list".to_owned()], &[0, 1]);
    assert_eq!((&found["date"], &found["list"]), (&json!([3, -1]), &json!([[3], [-1]])));
}

#[test]
fn dates_of_a_file_need_no_unit() {
    crate::common::watchdog::watch();
    let columns = [
        ("date", DateUnit::Days, 86_400.0),
        ("stamp_ms", DateUnit::Milliseconds, 1e-3),
        ("stamp_us", DateUnit::Microseconds, 1e-6),
        ("stamp_ns", DateUnit::Nanoseconds, 1e-9),
    ];
    let expected: Json =
        serde_json::from_slice(&std::fs::read(fixtures("parquet").join("expected.json")).unwrap()).unwrap();
    let table = Loader::open(fixtures("parquet").join("types.parquet")).unwrap().batch_size(100);
    for (name, unit, seconds) in columns {
        let epoch = || date().part(DatePart::Epoch).part(DatePart::Year).impute("1970-01-01");
        let [known, said] = [epoch(), epoch().unit(unit)].map(|date| {
            let recipe = Recipe::new().dtype(DType::F64).column(name, date);
            let prepared = recipe.fit(&table).unwrap();
            let batch = table.clone().prepare(&prepared).build().unwrap().next().unwrap().unwrap();
            batch.tensor("features").unwrap().as_slice::<f64>().unwrap().to_vec()
        });
        assert_eq!(known, said, "{name}");
        let numbers = expected["types.parquet"]["fields"][name].as_array().unwrap();
        assert_eq!(numbers.len() * 2, known.len());
        for (number, found) in numbers.iter().zip(known.chunks(2)) {
            let number = number.as_f64().unwrap_or(0.0) * seconds;
            assert!((number - found[0]).abs() <= 1e-6, "{name}: {number} and {}", found[0]);
        }
    }
    // Days between two of them, whatever each counts.
    let recipe =
        Recipe::new().derive("days", ringfeed::prepare::days("stamp_us", "date")).column("days", number().impute(0.0));
    let prepared = recipe.fit(&table).unwrap();
    let batch = table.clone().prepare(&prepared).build().unwrap().next().unwrap().unwrap();
    let found = batch.tensor("features").unwrap();
    assert_eq!(found.as_slice::<f32>().unwrap()[0], (-1_728_000_000.0 / 86_400.0 + 9000.0) as f32);
}

#[test]
fn a_position_that_means_two_fields_is_refused() {
    let integers = |from: i64| Arc::new(Int64Array::from(vec![from, from + 1])) as ArrayRef;
    let (of_struct, k) = (integers(100), Arc::new(arrow_schema::Field::new("k", arrow_schema::DataType::Int64, true)));
    let meta = Arc::new(StructArray::from(vec![(k, of_struct)])) as ArrayRef;
    let batch = RecordBatch::try_from_iter([("meta", meta), ("a", integers(0)), ("b", integers(10))]).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.arrow");
    let mut writer = FileWriter::try_new(std::fs::File::create(&path).unwrap(), &batch.schema()).unwrap();
    writer.write(&batch).unwrap();
    writer.finish().unwrap();
    for (position, words) in [(0, "0 is the position of \"meta\""), (1, "of \"a\" in the file, but of \"b\"")] {
        let loader = Loader::open(&path).unwrap().field("x", ringfeed::field::Numbers::i64().from(position));
        let error = loader.build().map(drop).unwrap_err();
        assert!(error.message().contains(words), "{error}");
    }
    let named = Loader::open(&path).unwrap().field("x", ringfeed::field::Numbers::i64().from("meta.k"));
    assert_eq!(
        named.build().unwrap().next().unwrap().unwrap().tensor("x").unwrap().as_slice::<i64>().unwrap(),
        [100, 101]
    );
}
