//! Row groups that are read in parts, beside other sources, and with lists and dictionaries of which little is stored.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::SeqCst;

use crate::records::json;
use arrow_array::builder::{
    FixedSizeListBuilder, Float32Builder, Int32Builder, ListBuilder, MapBuilder, StringBuilder,
};
use arrow_array::types::Int32Type;
use arrow_array::{ArrayRef, DictionaryArray, Float32Array, Int64Array, RecordBatch};
use arrow_ipc::writer::{DictionaryHandling, FileWriter, IpcWriteOptions, StreamWriter};
use arrow_schema::{DataType, Field as ArrowField, Schema};
use parquet::arrow::ArrowWriter;
use parquet::basic::Compression;
use parquet::file::metadata::KeyValue;
use parquet::file::properties::{WriterProperties, WriterVersion};
use parquet::file::writer::SerializedFileWriter;
use ringfeed::columns::{Columns, ColumnsOptions};
use ringfeed::csv::Missing;
use ringfeed::field::Numbers;
use ringfeed::memory::MemoryBudget;
use ringfeed::read::{Container, FieldReader, JsonLines, LineOptions, Scratch};
use ringfeed::settings::{BadLimits, BadRecords};
use ringfeed::source::ReaderSource;
use ringfeed::storage::{Files, Storage};
use ringfeed::workspace::{shield, wrap};
use ringfeed::{Error, ErrorKind, Result, Workspace};
use serde_json::{Value as Json, json};

fn open(files: &Files, path: &Path, options: &ColumnsOptions) -> Result<Columns> {
    let is_parquet = path.extension().is_some_and(|extension| extension == "parquet");
    let open = if is_parquet { Columns::open_parquet } else { Columns::open_arrow };
    open(files, &[path.to_owned()], options, &MemoryBudget::unlimited())
}

fn opened(path: &Path) -> Columns {
    open(&Files::local(), path, &ColumnsOptions::default()).unwrap()
}

/// A Parquet file with a row group for each batch.
fn parquet_file(path: &Path, batches: &[RecordBatch], properties: WriterProperties) {
    let file = std::fs::File::create(path).unwrap();
    let mut writer = ArrowWriter::try_new(file, batches[0].schema(), Some(properties)).unwrap();
    for batch in batches {
        writer.write(batch).unwrap();
        writer.flush().unwrap();
    }
    writer.close().unwrap();
}

/// The values of a field, read in jobs of some records each.
fn values(container: &mut Columns, name: &str, jobs: &[Range<u64>]) -> Result<Vec<Json>> {
    container.forget();
    container.find(&name.into())?;
    let mut found = vec![Json::from("nothing"); container.len() as usize];
    let mut scratch = Scratch::default();
    for job in jobs {
        let records: Vec<u64> = job.clone().collect();
        for (nth, record) in records.iter().enumerate() {
            container.fetch(&records, nth, &mut scratch)?;
            container.read(*record, nth, &mut scratch, &mut |_, value| {
                found[*record as usize] = json(value);
                Ok(())
            })?;
        }
    }
    Ok(found)
}

#[test]
fn a_bad_record_of_another_source_leaves_no_value_of_an_earlier_batch() {
    crate::common::watchdog::watch();
    let folder = tempfile::tempdir().unwrap();
    let table = folder.path().join("table.parquet");
    let column = |values: Vec<Option<i64>>| {
        RecordBatch::try_from_iter_with_nullable([("y", Arc::new(Int64Array::from(values)) as ArrayRef, true)]).unwrap()
    };
    parquet_file(&table, &[column((0..15).map(Some).collect()), column(vec![None])], WriterProperties::default());
    let texts = folder.path().join("texts.jsonl");
    let text: String = (0..16).map(|x| if x == 10 { "{\n".to_owned() } else { format!("{{\"x\": {x}}}\n") }).collect();
    std::fs::write(&texts, text).unwrap();
    let budget = MemoryBudget::unlimited();
    let lines = JsonLines::open(&Files::local(), &texts, &LineOptions::default(), &budget).unwrap();
    let lines = FieldReader::new(lines, &[("x".to_owned(), Numbers::i64().into())], &budget).unwrap();
    let y = Numbers::i64().missing(Missing::Value(-1.0));
    let y = FieldReader::new(opened(&table), &[("y".to_owned(), y.into())], &budget).unwrap();
    let source = ReaderSource::new(lines).and(y).batch_size(8).bad_records(BadRecords::skip(BadLimits::default()));
    let mut found = Vec::new();
    for batch in wrap(shield(source), &Workspace::default()).unwrap() {
        found.extend_from_slice(batch.unwrap().tensor("y").unwrap().as_slice::<i64>().unwrap());
    }
    assert_eq!(found, (0..15).filter(|y| *y != 10).chain([-1]).collect::<Vec<_>>());
}

/// Lists, lists in lists, maps, texts and numbers, of which some are missing.
fn of_all_kinds(records: i32) -> RecordBatch {
    let mut lists = ListBuilder::new(Float32Builder::new());
    let mut deep = ListBuilder::new(ListBuilder::new(Int32Builder::new()));
    let mut maps = MapBuilder::new(None, StringBuilder::new(), Int32Builder::new());
    for record in 0..records {
        (0..record * 7 % 120)
            .for_each(|at| lists.values().append_option((at % 11 > 0).then_some((record + at) as f32)));
        lists.append(record % 13 > 0);
        for inner in 0..record % 4 {
            (0..inner * 9).for_each(|at| deep.values().values().append_value(record + at));
            deep.values().append(inner != 2);
        }
        deep.append(true);
        for key in 0..record % 3 {
            maps.keys().append_value(format!("key {key} of {record}"));
            maps.values().append_value(record * key);
        }
        maps.append(true).unwrap();
    }
    let numbers = Int64Array::from_iter((0..records).map(|record| (record % 5 > 0).then_some(i64::from(record) << 20)));
    let all = Float32Array::from_iter_values((0..records).map(|record| record as f32));
    let texts = arrow_array::StringArray::from_iter_values((0..records).map(|record| format!("text {}", record % 300)));
    let columns: [(&str, ArrayRef); 6] = [
        ("lists", Arc::new(lists.finish())),
        ("deep", Arc::new(deep.finish())),
        ("maps", Arc::new(maps.finish())),
        ("numbers", Arc::new(numbers)),
        ("all", Arc::new(all)),
        ("texts", Arc::new(texts)),
    ];
    RecordBatch::try_from_iter_with_nullable(columns.map(|(name, array)| (name, array, true))).unwrap()
}

/// Files that are far away: how many bytes are asked for.
struct Counted(AtomicU64);

impl Storage for Counted {
    fn file_len(&self, path: &Path) -> Result<u64> {
        Ok(std::fs::metadata(path).map_err(|error| Error::io(path, error))?.len())
    }

    fn read(&self, path: &Path, range: Range<u64>, into: &mut Vec<u8>) -> Result<u64> {
        let bytes = std::fs::read(path).map_err(|error| Error::io(path, error))?;
        into.clear();
        into.extend_from_slice(&bytes[range.start as usize..(range.end as usize).min(bytes.len())]);
        self.0.fetch_add(into.len() as u64, SeqCst);
        Ok(bytes.len() as u64)
    }
}

#[test]
fn parts_of_a_large_row_group_hold_what_the_whole_holds_in_any_order() {
    crate::common::watchdog::watch();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("many.parquet");
    let batch = of_all_kinds(6000);
    let small = || {
        let properties = WriterProperties::builder().set_data_page_size_limit(4 << 10).set_write_batch_size(64);
        properties.set_data_page_row_count_limit(500)
    };
    for (version, compression, has_dictionaries) in [
        (WriterVersion::PARQUET_1_0, Compression::SNAPPY, true),
        (WriterVersion::PARQUET_1_0, Compression::UNCOMPRESSED, false),
        (WriterVersion::PARQUET_2_0, Compression::SNAPPY, false),
    ] {
        let properties = small().set_writer_version(version).set_compression(compression);
        let properties = properties.set_dictionary_enabled(has_dictionaries).build();
        parquet_file(&path, std::slice::from_ref(&batch), properties);
        let all = 0..6000;
        let mixed: Vec<Range<u64>> = (0..60).map(|nth| nth * 37 % 60 * 100).map(|first| first..first + 100).collect();
        let parts = ColumnsOptions { cache_bytes: 64 << 10, ..ColumnsOptions::default() };
        for name in ["lists", "deep", "maps.key", "maps.value", "numbers", "all", "texts"] {
            let expected = values(&mut opened(&path), name, std::slice::from_ref(&all)).unwrap();
            for jobs in [std::slice::from_ref(&all), &mixed] {
                let mut container = open(&Files::local(), &path, &parts).unwrap();
                for pass in 0..2 {
                    let found = values(&mut container, name, jobs).unwrap();
                    assert!(found == expected, "{name}, {version:?}, pass {pass}, {} jobs", jobs.len());
                }
            }
        }
    }
}

#[test]
fn parts_are_found_where_a_writer_took_values_for_records() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/parquet/lists-v2.parquet");
    let expected: Vec<Json> = (0..4000).map(|record| vec![record as f32; record * 7 % 40].into()).collect();
    let parts = ColumnsOptions { cache_bytes: 64 << 10, ..ColumnsOptions::default() };
    let mixed: Vec<Range<u64>> = (0..40).map(|nth| nth * 37 % 40 * 100).map(|first| first..first + 100).collect();
    for options in [ColumnsOptions::default(), parts] {
        for jobs in [std::slice::from_ref(&(0..4000)), &mixed] {
            let mut container = open(&Files::local(), &path, &options).unwrap();
            assert!(values(&mut container, "x", jobs).unwrap() == expected, "{} jobs, {options:?}", jobs.len());
        }
    }
}

#[test]
fn lists_of_a_row_group_count_for_their_own_part_alone_and_are_read_where_they_lie() {
    crate::common::watchdog::watch();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("lists.parquet");
    let mut lists = ListBuilder::new(Float32Builder::new());
    for record in 0..20_000 {
        lists.values().append_slice(&[record as f32; 64]);
        lists.append(true);
    }
    let batch = RecordBatch::try_from_iter([("x", Arc::new(lists.finish()) as ArrayRef)]).unwrap();
    for version in [WriterVersion::PARQUET_1_0, WriterVersion::PARQUET_2_0] {
        let properties = WriterProperties::builder().set_data_page_size_limit(32 << 10).set_writer_version(version);
        parquet_file(&path, std::slice::from_ref(&batch), properties.set_dictionary_enabled(false).build());
        let len = std::fs::metadata(&path).unwrap().len();
        assert!(len > 5_000_000);
        let far = Arc::new(Counted(AtomicU64::new(0)));
        let files = Files::of(far.clone(), &MemoryBudget::unlimited());
        // Parts of 256 KiB of numbers, which take twice as much while they are decoded, of 10 MB.
        let options = ColumnsOptions { cache_bytes: 1 << 20, max_chunk_bytes: 1 << 20, ..ColumnsOptions::default() };
        let mut container = open(&files, &path, &options).unwrap();
        container.find(&"x".into()).unwrap();
        let mut scratch = Scratch::default();
        let mut read = |record: u64| {
            container.fetch(&[record], 0, &mut scratch).unwrap();
            let read = container.read(record, 0, &mut scratch, &mut |_, value| {
                assert_eq!(json(value), Json::from(vec![record as f32; 64]));
                Ok(())
            });
            read.unwrap();
        };
        (0..20_000).step_by(100).for_each(&mut read);
        far.0.store(0, SeqCst);
        (0..20_000).step_by(100).for_each(&mut read);
        let bytes = far.0.load(SeqCst);
        assert!(bytes < 3 * len, "{version:?}: {bytes} bytes of a file of {len}");
    }
}

/// The only field of the first records, whose column may take 16 MiB.
fn first(path: &Path, records: u64) -> Result<Vec<Json>> {
    let options = ColumnsOptions { max_chunk_bytes: 16 << 20, ..ColumnsOptions::default() };
    let mut container = open(&Files::local(), path, &options)?;
    let name = container.fields()[0].name.clone();
    values(&mut container, &name, std::slice::from_ref(&(0..records)))
}

/// A file of one column, written by its levels of definition and repetition alone: nothing but missing values.
fn of_nothing(path: &Path, message: &str, levels: (&[i16], Option<&[i16]>), note: Option<&Schema>) {
    let schema = Arc::new(parquet::schema::parser::parse_message_type(message).unwrap());
    let notes =
        note.map(|schema| vec![KeyValue::new("ARROW:schema".to_owned(), parquet::arrow::encode_arrow_schema(schema))]);
    let properties = WriterProperties::builder().set_key_value_metadata(notes).build();
    let mut writer =
        SerializedFileWriter::new(std::fs::File::create(path).unwrap(), schema, Arc::new(properties)).unwrap();
    let mut group = writer.next_row_group().unwrap();
    let mut column = group.next_column().unwrap().unwrap();
    let (definition, repetition) = (Some(levels.0), levels.1);
    match column.untyped() {
        parquet::column::writer::ColumnWriter::FloatColumnWriter(writer) => {
            writer.write_batch(&[], definition, repetition).unwrap();
        }
        parquet::column::writer::ColumnWriter::FixedLenByteArrayColumnWriter(writer) => {
            writer.write_batch(&[], definition, repetition).unwrap();
        }
        _ => panic!("another type"),
    }
    column.close().unwrap();
    group.close().unwrap();
    writer.close().unwrap();
}

#[test]
fn missing_values_of_a_great_length_take_no_memory() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("nothing.parquet");
    let fixed = |kind: DataType| DataType::FixedSizeList(Arc::new(ArrowField::new("element", kind, true)), 1 << 20);
    let schema = |kind: DataType| Schema::new(vec![ArrowField::new("x", kind, true)]);
    let list_of = |inner: &str| format!("optional group x (LIST) {{ repeated group list {{ {inner} }} }}");
    let fixed_of_floats = schema(fixed(DataType::Float32));
    let list = DataType::List(Arc::new(ArrowField::new("element", fixed(DataType::Float32), true)));
    let cases = [
        ("optional fixed_len_byte_array(1048576) x;".to_owned(), vec![0i16; 1 << 16], None, None),
        (list_of("optional float element;"), vec![0; 8192], Some(vec![0; 8192]), Some(fixed_of_floats)),
        (
            list_of("optional group element (LIST) { repeated group list { optional float element; } }"),
            vec![2; 8192],
            Some([&[0][..], &[1; 8191]].concat()),
            Some(schema(list.clone())),
        ),
    ];
    // Lists around them that are missing or empty hold none of those that take memory.
    let column = list_of("optional group element (LIST) { repeated group list { optional float element; } }");
    let definition: Vec<i16> = (0..8192).map(|row| row % 2).collect();
    let levels = (&definition[..], Some(&[0; 8192][..]));
    of_nothing(&path, &format!("message m {{ {column} }}"), levels, Some(&schema(list)));
    assert_eq!(first(&path, 8192).unwrap().len(), 8192);

    for (column, definition, repetition, note) in cases {
        of_nothing(&path, &format!("message m {{ {column} }}"), (&definition, repetition.as_deref()), note.as_ref());
        assert!(std::fs::metadata(&path).unwrap().len() < 2000);
        let error = first(&path, 1).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Limit, "{column}: {error}");
        assert!(error.message().contains("more than max_chunk_bytes = 16777216"), "{error}");
    }
}

#[test]
fn a_dictionary_that_grows_with_each_batch_is_held_once() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("growing.arrows");
    let expected: Vec<Json> = (0..200 * 50).map(|word| format!("a word, number {word}").into()).collect();
    for (handling, replaced) in [(DictionaryHandling::Delta, 0), (DictionaryHandling::Resend, 1)] {
        let options = IpcWriteOptions::default().with_dictionary_handling(handling);
        let column = |batch: usize| -> RecordBatch {
            // Of all words so far, the last 50 are used.
            let keys = arrow_array::Int32Array::from_iter_values((batch * 50) as i32..(batch * 50 + 50) as i32);
            let words = expected[..batch * 50 + 50].iter().map(|word| word.as_str());
            let words = Arc::new(arrow_array::StringArray::from_iter(words));
            let array = DictionaryArray::<Int32Type>::try_new(keys, words).unwrap();
            RecordBatch::try_from_iter([("word", Arc::new(array) as ArrayRef)]).unwrap()
        };
        let mut bytes = Vec::new();
        let mut writer = StreamWriter::try_new_with_options(&mut bytes, &column(0).schema(), options).unwrap();
        (0..200).for_each(|batch| writer.write(&column(batch)).unwrap());
        writer.finish().unwrap();
        drop(writer);
        std::fs::write(&path, bytes).unwrap();
        let budget = MemoryBudget::unlimited();
        let paths = [path.clone()];
        let options = ColumnsOptions::default();
        let mut container = Columns::open_arrow(&Files::local(), &paths, &options, &budget).unwrap();
        let held = budget.used();
        assert_eq!(held > 4 << 20, replaced == 1, "{held} bytes");
        assert!(values(&mut container, "word", std::slice::from_ref(&(0..10_000))).unwrap() == expected);
        drop(container);
        assert_eq!(budget.used(), 0);
    }
}

#[test]
fn blocks_of_a_file_that_lie_over_each_other_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("blocks.arrow");
    let batch = |len: i64| {
        RecordBatch::try_from_iter([("x", Arc::new(Int64Array::from_iter_values(0..len)) as ArrayRef)]).unwrap()
    };
    let mut bytes = Vec::new();
    let mut writer = FileWriter::try_new(&mut bytes, &batch(1).schema()).unwrap();
    [1000, 10, 10, 10].iter().for_each(|len| writer.write(&batch(*len)).unwrap());
    writer.finish().unwrap();
    drop(writer);
    std::fs::write(&path, &bytes).unwrap();
    assert_eq!(opened(&path).len(), 1030);
    let end = bytes.len() - 10;
    let len = u32::from_le_bytes(*bytes[end..].first_chunk().unwrap()) as usize;
    let footer = arrow_ipc::root_as_footer(&bytes[end - len..end]).unwrap();
    let offsets: Vec<i64> = footer.recordBatches().unwrap().iter().map(|block| block.offset()).collect();
    let place = |offset: i64| (end - len..end - 8).find(|at| bytes[*at..*at + 8] == offset.to_le_bytes()).unwrap();
    let (first, second) = (place(offsets[0]), place(offsets[1]));
    let block = bytes[first..first + 24].to_vec();
    bytes[second..second + 24].copy_from_slice(&block);
    std::fs::write(&path, &bytes).unwrap();
    let error = open(&Files::local(), &path, &ColumnsOptions::default()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Format);
    assert!(error.message().contains("message 1 is longer than what others leave of the file"), "{error}");
}

fn boxes(path: &Path) -> PathBuf {
    let mut lists = ListBuilder::new(FixedSizeListBuilder::new(Float32Builder::new(), 2));
    for at in 0..6 {
        lists.values().values().append_slice(&[at as f32, 0.5]);
        lists.values().append(true);
    }
    lists.append(true);
    let batch = RecordBatch::try_from_iter([("x", Arc::new(lists.finish()) as ArrayRef)]).unwrap();
    let path = path.join("boxes.arrow");
    let mut writer = FileWriter::try_new(std::fs::File::create(&path).unwrap(), &batch.schema()).unwrap();
    writer.write(&batch).unwrap();
    writer.finish().unwrap();
    path
}

#[test]
fn a_list_of_lists_of_a_fixed_size_keeps_its_shape() {
    crate::common::watchdog::watch();
    let folder = tempfile::tempdir().unwrap();
    let path = boxes(folder.path());
    let rows = json!([[0.0, 0.5], [1.0, 0.5], [2.0, 0.5], [3.0, 0.5], [4.0, 0.5], [5.0, 0.5]]);
    assert_eq!(values(&mut opened(&path), "x", std::slice::from_ref(&(0..1))).unwrap(), std::slice::from_ref(&rows));
    let lines = folder.path().join("boxes.jsonl");
    std::fs::write(&lines, json!({ "x": rows }).to_string()).unwrap();
    let budget = MemoryBudget::unlimited();
    let first = |shape: &[usize], is_table: bool| {
        let x = Numbers::f32().shape(shape);
        let fields = [("x".to_owned(), x.into())];
        let reader = match is_table {
            true => FieldReader::new(opened(&path), &fields, &budget),
            false => {
                let options = LineOptions::default();
                FieldReader::new(JsonLines::open(&Files::local(), &lines, &options, &budget).unwrap(), &fields, &budget)
            }
        };
        let mut batches = wrap(ReaderSource::new(reader?).batch_size(1), &Workspace::default()).unwrap();
        let batch = batches.next().unwrap()?;
        Ok::<_, Error>(batch.tensor("x").unwrap().as_slice::<f32>().unwrap().to_vec())
    };
    for shape in [&[6, 2][..], &[12], &[6, 1, 2]] {
        assert_eq!(first(shape, true).unwrap(), first(shape, false).unwrap(), "{shape:?}");
    }
    let message = "an array of shape [6, 2], where [2, 2, 3] was expected";
    assert_eq!(first(&[2, 2, 3], true).unwrap_err().message(), message);
}

#[test]
fn inspecting_names_the_record_that_is_bad() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("torn.parquet");
    let mut bytes =
        std::fs::read(Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/parquet/types.parquet")).unwrap();
    let at = bytes.windows(24).position(|window| window == b"longer than twelve bytes").unwrap();
    bytes[at] = 0xff;
    std::fs::write(&path, bytes).unwrap();
    let error = ringfeed::formats::Formats::new().inspect(&path).unwrap_err();
    assert_eq!((error.location().record, error.path()), (Some(8), Some(&*path)), "{error}");
}
