//! Parquet and Arrow files: what pyarrow, pandas and polars wrote is read as pyarrow reads it.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use ringfeed::columns::{Columns, ColumnsOptions};
use ringfeed::memory::MemoryBudget;
use ringfeed::read::{Container, Scratch, Value};
use ringfeed::storage::{Access, Files, Mapping, Storage};
use ringfeed::{ErrorKind, Result};
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
        Value::I64(number) => json!(number),
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
        let fields = expected["fields"].as_object().unwrap();
        let names: Vec<String> = fields.keys().cloned().collect();
        for (way, (files, options)) in ways.iter().enumerate() {
            let mut container = open(files, &path, options).unwrap();
            let count = expected["records"].as_u64().unwrap();
            assert_eq!(container.len(), count, "{file}");
            let forward: Vec<u64> = (0..count).collect();
            let mixed: Vec<u64> = (0..count).map(|at| (at * 7 + 3) % count).collect();
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

#[test]
fn parquet_files_are_read_as_pyarrow_reads_them() {
    as_pyarrow_reads_them("parquet");
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
    let mut types =
        open(&Files::local(), &fixtures("parquet").join("types.parquet"), &ColumnsOptions::default()).unwrap();
    let error = types.find(&"image".into()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Config);
    assert!(
        error.to_string().contains(r#"a struct; name one of its fields behind a point: ["bytes", "path"]"#),
        "{error}"
    );
    let error = types.find(&"image.byte".into()).unwrap_err();
    assert!(error.to_string().contains(r#"did you mean "image.bytes"?"#), "{error}");
}
