//! CSV files through the public interface: what a trainer gets, and what a stranger's file says when it is wrong.

#![expect(clippy::unwrap_used, reason = "a test panics where it fails, and so do its helpers")]

use std::io::Write;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use proptest::prelude::*;
use ringfeed::csv::{CsvOptions, CsvReader, CsvStream, Header, Missing};
use ringfeed::field::{Category, Class, Field, Numbers, Text};
use ringfeed::formats::Csv;
use ringfeed::inspect::{CsvSummary, Figure};
use ringfeed::memory::MemoryBudget;
use ringfeed::order::RandomKey;
use ringfeed::read::{Concat, Record, RecordDecoder, RecordReader, RecordStream, RowMut, Sample, Scratch};
use ringfeed::sequences::{CsvSequenceReader, SequenceOptions};
use ringfeed::settings::{BadLimits, BadRecords, SavedIndex, SourceConfig};
use ringfeed::storage::{Access, Mapping};
use ringfeed::tensor::{Affine, AffineSteps, Dim, Element, Extents, Layout, Role, Schema, TensorSpec, bf16, f16};
use ringfeed::{DType, ErrorKind, Loader, LoaderConfig, Result};
use serde_json::json;
use tempfile::TempDir;

// SAFETY: the tests change no file that is open for mapping.
const MAPPED: Access = Access::Map(unsafe { Mapping::promise() });

/// The rows that a source fills, tensor by tensor.
struct Batch {
    layout: Layout,
    specs: Vec<TensorSpec>,
    slot: Vec<u64>,
}

impl Batch {
    fn new(specs: &[TensorSpec], rows: usize) -> Self {
        let mut layout = Layout::default();
        layout.compute(&Schema::new(specs.to_vec()).unwrap(), rows, Extents::default()).unwrap();
        Self { slot: vec![0xAAAA_AAAA_AAAA_AAAA; layout.bytes().div_ceil(8)], layout, specs: specs.to_vec() }
    }

    fn row(&mut self, row: usize) -> RowMut<'_> {
        RowMut::new(bytemuck::cast_slice_mut(&mut self.slot), &self.specs, &self.layout, row)
    }

    fn values<T: Element>(&self, name: &str) -> Vec<T> {
        let index = self.specs.iter().position(|spec| spec.name == name).unwrap();
        assert_eq!(self.specs[index].dtype, T::DTYPE);
        let tensor = &self.layout.tensors()[index];
        let bytes: &[u8] = bytemuck::cast_slice(&self.slot);
        bytemuck::pod_collect_to_vec(&bytes[tensor.offset()..][..tensor.row_bytes() * self.layout.rows()])
    }
}

fn sample(id: u64) -> Sample {
    Sample { id, key: RandomKey::new(id) }
}

/// Decodes these samples as one job.
fn decode(reader: &impl RecordReader, samples: &[u64]) -> Result<Batch> {
    let mut batch = Batch::new(reader.tensors(), samples.len());
    let mut scratch = Scratch::default();
    for nth in 0..samples.len() {
        reader.fetch(samples, nth, &mut scratch)?;
    }
    for (nth, id) in samples.iter().enumerate() {
        reader.decode(sample(*id), nth, &mut scratch, &mut batch.row(nth))?;
    }
    Ok(batch)
}

fn decode_all(reader: &impl RecordReader) -> Result<Batch> {
    decode(reader, &(0..reader.len()).collect::<Vec<_>>())
}

fn stream_all(stream: &mut CsvStream, decoder: &impl RecordDecoder) -> Result<Batch> {
    let mut records = Vec::new();
    loop {
        let mut record = Record::default();
        if !stream.read(&mut record)? {
            break;
        }
        assert_eq!(record.index, records.len() as u64);
        records.push(record);
    }
    let mut batch = Batch::new(decoder.tensors(), records.len());
    let mut scratch = Scratch::default();
    for (nth, record) in records.iter().enumerate() {
        decoder.decode(sample(nth as u64), record, &mut scratch, &mut batch.row(nth))?;
    }
    Ok(batch)
}

fn file(text: impl AsRef<[u8]>) -> (TempDir, PathBuf) {
    named("data.csv", text)
}

fn named(name: &str, text: impl AsRef<[u8]>) -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(name);
    std::fs::write(&path, text).unwrap();
    (folder, path)
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

type Fields = Vec<(String, Field)>;

fn open(text: impl AsRef<[u8]>, options: &CsvOptions) -> Result<CsvReader> {
    open_as(text, &vec![], options)
}

fn open_as(text: impl AsRef<[u8]>, fields: &Fields, options: &CsvOptions) -> Result<CsvReader> {
    let (folder, path) = file(text);
    let reader = CsvReader::with_fields(path, fields, options);
    // An open file outlives its name on the systems that these tests run on.
    drop(folder);
    reader
}

fn open_fields(text: impl AsRef<[u8]>, fields: &Fields) -> Result<CsvReader> {
    open_as(text, fields, &CsvOptions::default())
}

fn one(name: &str, field: impl Into<Field>) -> Fields {
    vec![(name.to_owned(), field.into())]
}

fn features(field: Field) -> Fields {
    one("features", field)
}

fn with_labels(label: Field) -> Fields {
    [features(Numbers::f32().from("*")), one("labels", label)].concat()
}

fn labelled(column: &str) -> Fields {
    with_labels(Class.from(column))
}

fn iris() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/iris.csv")
}

#[test]
fn iris_has_a_header_of_counts_and_class_names() {
    let classes: Vec<String> = ["setosa", "versicolor", "virginica"].map(str::to_owned).to_vec();
    let reader = CsvReader::with_fields(iris(), &labelled("virginica"), &CsvOptions::default()).unwrap();
    assert!(reader.has_header());
    assert_eq!(reader.columns(), ["150", "4", "setosa", "versicolor", "virginica"]);
    assert_eq!(reader.len(), 150);
    let batch = decode_all(&reader).unwrap();
    assert_eq!(batch.values::<f32>("features")[..8], [5.1, 3.5, 1.4, 0.2, 4.9, 3.0, 1.4, 0.2]);
    let labels = batch.values::<i64>("labels");
    assert_eq!([labels[0], labels[50], labels[149]], [0, 1, 2]);
    // The names of the classes may be given although the file holds their indices.
    let fields = with_labels(Class::of(classes.clone()).one_hot().from("virginica"));
    let reader = CsvReader::with_fields(iris(), &fields, &CsvOptions::default()).unwrap();
    assert_eq!(reader.classes().map(|names| names.to_vec()), Some(classes));
    let hot = decode(&reader, &[149, 0, 50]).unwrap().values::<f32>("labels");
    assert_eq!(hot, [0., 0., 1., 1., 0., 0., 0., 1., 0.]);
}

#[test]
fn the_summary_of_iris_is_that_of_any_other_tool() {
    let summary = CsvSummary::of(iris(), &CsvOptions::default()).unwrap();
    assert_eq!((summary.header, summary.delimiter, summary.records), (true, ',', 150));
    let [first, .., last] = &summary.fields[..] else { panic!("no fields") };
    assert_eq!((first.name.as_str(), first.dtype.as_str(), first.count, first.missing), ("150", "f32", 150, 0));
    assert!(matches!(first.sum, Some(Figure::Real(sum)) if (sum - 876.5).abs() < 1e-9));
    assert!((first.mean.unwrap() - 876.5 / 150.0).abs() < 1e-12);
    assert_eq!((first.min, first.max), (Some(4.3.into()), Some(7.9.into())));
    assert_eq!((last.dtype.as_str(), last.sum), ("i64", Some(150.into())));
    let fields: Vec<String> = summary.last.unwrap().into_iter().map(|(_, field)| field).collect();
    assert_eq!(fields, ["5.9", "3.0", "5.1", "1.8", "2"]);
    assert_eq!(summary.first.unwrap()[0], ("150".to_owned(), "5.1".to_owned()));
}

#[test]
fn a_summary_excludes_missing_values_and_text() {
    let text = "id,x,name,label\n1,,\"a \"\"b\"\", c\",0\n2,0.5,NA,1\n3,1e1,é,1\n";
    let (_folder, path) = named("data.csv.gz", gzip(text.as_bytes()));
    let summary = CsvSummary::of(path, &CsvOptions::default()).unwrap();
    let fields: Vec<_> = summary
        .fields
        .iter()
        .map(|field| (&*field.role, &*field.dtype, field.count, field.missing, field.sum))
        .collect();
    assert_eq!(
        fields,
        [
            ("feature", "i64", 3, 0, Some(6.into())),
            ("feature", "f32", 2, 1, Some(10.5.into())),
            ("ignored", "text", 2, 1, None),
            ("label", "i64", 3, 0, Some(2.into())),
        ]
    );
    assert_eq!(summary.first.unwrap()[2].1, "a \"b\", c");
}

#[test]
fn the_header_rule_is_the_documented_one() {
    for (text, header) in [
        ("a,b\n1,2\n", true),
        ("1,2\n3,4\n", false),
        ("name,city\nann,rome\nbob,oslo\n", true),
        ("ann,rome\nbob,oslo\nann,bonn\n", false),
        ("a,a\nb,c\n", false),
        ("a,\nb,c\n", false),
        ("x,y\n", true),
        ("x,1\n", false),
        ("x,1\ny,2\n", false),
        ("x,v\ny,2\nz,NA\n", true),
        (",1,2\n3,4,5\n", false),
        ("id,x\n1,\n2,\n", true),
    ] {
        let (_folder, path) = file(text);
        assert_eq!(CsvSummary::of(&path, &CsvOptions::default()).unwrap().header, header, "{text:?}");
        let given = CsvOptions { header: if header { Header::No } else { Header::Yes }, ..CsvOptions::default() };
        assert_eq!(CsvSummary::of(&path, &given).unwrap().header, !header, "{text:?}");
    }
}

#[test]
fn names_are_unique_and_never_empty() {
    let options = CsvOptions { header: Header::Yes, ..CsvOptions::default() };
    let reader = open("a,a,,a\n1,2,3,4\n", &options).unwrap();
    assert_eq!(reader.columns(), ["a", "a.1", "column_3", "a.2"]);
    let reader = open("a.1,a,a,a.1\n1,2,3,4\n", &options).unwrap();
    assert_eq!(reader.columns(), ["a.1", "a", "a.2", "a.1.1"]);
    let reader = open("1,2\n3,4\n", &CsvOptions::default()).unwrap();
    assert_eq!(reader.columns(), ["column_1", "column_2"]);
}

#[test]
fn delimiters_are_detected() {
    for (name, text, delimiter) in [
        ("a.csv", "a,b\n1,2\n", ','),
        ("a.csv", "a;b;c\n\"1;5\";2;3\n", ';'),
        ("a.csv", "a\tb\nx, y\tz\n", '\t'),
        ("a.csv", "a|b|c\n1|2|3\n", '|'),
        ("a.tsv", "a,b\tc,d\n1\t2\n", '\t'),
        ("a.csv", "a;b\nx, y;1\nz;2\n", ';'),
        ("a.TSV", "a,b\tc\td\n1,2\t3\n", '\t'),
        ("a.csv", "one\ntwo\n", ','),
        ("a.csv", "a;b;c\n1;2;3\n4;5\n", ';'),
        // A comma that cuts numbers in two parts no fields.
        ("a.csv", "1,5;2,5\n3,5;4,5\n", ';'),
        ("a.csv", "\"1,5\";\"2,5\"\n\"3,5\";\"4,5\"\n", ';'),
        ("a.csv", "1,5|2,5|3\n3,5|4,5|\n", '|'),
        ("a.csv", "1,5;2,5;3,5\n3,5;4,5;1,5\n7,5;1,5\n", ';'),
        ("a.csv", "x;y\n1,5;2\n3;4,5\n", ';'),
        ("a.csv", "x,1;y,2\n3,a;b,4\n", ','),
        ("a.csv", "id,tags\n1,2;3\n2,4;5\n", ','),
        ("a.tsv", "a\tb\tc,d\n1\t2\t3,4\n5\t6\n", '\t'),
        ("a.TSV.zst", "a\tb\tc,d\n1\t2\t3,4\n5\t6\n", '\t'),
    ] {
        let (_folder, path) = named(name, text);
        match CsvSummary::of(&path, &CsvOptions::default()) {
            Ok(summary) => assert_eq!(summary.delimiter, delimiter, "{text:?}"),
            // Two files have a record that is too short: for their delimiter.
            Err(error) => assert!(error.to_string().contains("expected 3 fields, found 2"), "{error}"),
        }
    }
}

#[test]
fn every_odd_but_lawful_file_is_read() {
    crate::common::watchdog::watch();
    let expected = [1.0, 2.0, 3.0, 4.0];
    let comment = CsvOptions { comment: Some('#'), ..CsvOptions::default() };
    let utf16: Vec<u8> =
        std::iter::once(0xfeff).chain("a,ü\n1,2\n3,4\n".encode_utf16()).flat_map(u16::to_le_bytes).collect();
    let utf16_options = CsvOptions { encoding: Some("utf-16".into()), ..CsvOptions::default() };
    let latin1 = CsvOptions { encoding: Some("latin1".into()), ..CsvOptions::default() };
    let mut cases: Vec<(Vec<u8>, &CsvOptions)> = vec![
        (b"a,b\r\n1,2\r\n3,4".to_vec(), &comment),
        (b"\xef\xbb\xbfa,b\n1,2\n3,4\n".to_vec(), &comment),
        (b"\n\na,b\n\n1,2\r\n\r\n3,4\n\n\n".to_vec(), &comment),
        (b"# say \"hi\na,b\n#\"\n1,2\n#x\n3,4\n# end".to_vec(), &comment),
        (b"a,b\r1,2\r3,4\r".to_vec(), &comment),
        (b"\"a\",\"b\nb\"\n\"1\",\"2\"\n \"\",+3 , 4.0\n".to_vec().replace_once(b" \"\",", b""), &comment),
        (gzip(b"a,b\n1,2\n3,4\n"), &comment),
        ([gzip(b"a,b\n1,2\n"), gzip(b"3,4\n")].concat(), &comment),
    ];
    if cfg!(feature = "encodings") {
        cases.extend([(utf16, &utf16_options), (b"a,\xfc\n1,2\n3,4\n".to_vec(), &latin1)]);
    }
    for (bytes, options) in cases {
        let shown = String::from_utf8_lossy(&bytes).into_owned();
        let (_folder, path) = file(&bytes);
        for access in [Access::Read, MAPPED] {
            let options = CsvOptions { access, ..options.clone() };
            let reader = CsvReader::open(&path, &options).unwrap();
            assert_eq!(decode_all(&reader).unwrap().values::<f32>("features"), expected, "{shown:?}");
        }
        let (mut stream, decoder) = CsvStream::open(&path, options).unwrap();
        for _ in 0..2 {
            assert_eq!(stream_all(&mut stream, &decoder).unwrap().values::<f32>("features"), expected, "{shown:?}");
            stream.rewind().unwrap();
        }
    }
}

/// Byte strings have no `replace`.
trait ReplaceOnce {
    fn replace_once(self, from: &[u8], to: &[u8]) -> Self;
}

impl ReplaceOnce for Vec<u8> {
    fn replace_once(self, from: &[u8], to: &[u8]) -> Self {
        let at = self.windows(from.len()).position(|window| window == from).unwrap();
        [&self[..at], to, &self[at + from.len()..]].concat()
    }
}

#[test]
fn integers_stay_exact_when_asked_for() {
    let big = (1i64 << 53) + 1;
    let text = format!("id,x,byte\n{big},0.5,7\n{},1.5,255\n", i64::MIN);
    let fields = [
        one("id", Numbers::i64().from(["id"])),
        one("x", Numbers::f64().from([1])),
        one("byte", Numbers::of(DType::U8).from("byte").role(Role::Label)),
    ];
    let fields = fields.concat();
    let reader = open_fields(&text, &fields).unwrap();
    let batch = decode_all(&reader).unwrap();
    assert_eq!(batch.values::<i64>("id"), [big, i64::MIN]);
    assert_eq!(batch.values::<f64>("x"), [0.5, 1.5]);
    assert_eq!(batch.values::<u8>("byte"), [7, 255]);
    assert!(reader.tensors()[2].shape.is_empty());
    let error = decode_all(&open_fields(text.replace("255", "256"), &fields).unwrap()).err().unwrap();
    assert!(error.to_string().contains("column \"byte\": expected u8 (0 to 255), found \"256\""), "{error}");
    let error = decode_all(&open_fields(text.replace("-92", "-93"), &fields).unwrap()).err().unwrap();
    assert!(error.to_string().contains("column \"id\": expected i64"), "{error}");
    // As from other formats, also if a tool wrote them as fractions, which pandas does where a value is missing.
    let whole = "n,m\n3.0,0\n3e2,0\n-0.0,0\n9007199254740993.0,0\n";
    let number = one("n", Numbers::i64());
    assert_eq!(
        decode_all(&open_fields(whole, &number).unwrap()).unwrap().values::<i64>("n"),
        [3, 300, 0, 9_007_199_254_740_993]
    );
    for stray in ["3.5", "1e30", "3.0.0", "."] {
        let error = decode_all(&open_fields(whole.replace("3e2", stray), &number).unwrap()).err().unwrap();
        assert!(error.to_string().contains("column \"n\": expected i64"), "{error}");
    }
}

#[test]
fn one_class_list_serves_training_and_test() {
    let train = open("x,class\n1,cat\n2,ant\n3,bee\n", &CsvOptions::default()).unwrap();
    let classes = train.classes().unwrap().to_vec();
    assert_eq!(classes, ["ant", "bee", "cat"]);
    assert_eq!(decode_all(&train).unwrap().values::<i64>("labels"), [2, 0, 1]);
    let fields = with_labels(Class::of(classes).dtype(DType::U32).from("class"));
    let test = open_fields("x,class\n4,bee\n5,bee\n", &fields).unwrap();
    assert_eq!(decode_all(&test).unwrap().values::<u32>("labels"), [1, 1]);
    let test = open_fields("x,class\n4,bee\n5,bea\n", &fields).unwrap();
    let error = decode_all(&test).err().unwrap();
    assert_eq!(error.kind(), ErrorKind::Data);
    let expected =
        "record 1: column \"class\": expected one of 3 classes (\"ant\", \"bee\", \"cat\"), found \"bea\"; did";
    assert!(error.to_string().contains(expected), "{error}");
}

#[test]
fn regression_targets_are_one_tensor() {
    let targets: Vec<ringfeed::csv::ColumnRef> = vec!["a".into(), 2.into()];
    let fields = with_labels(Numbers::f32().from(targets).role(Role::Label));
    let reader = open_fields("a,x,b\n1,2,3.5\n4,5,6\n", &fields).unwrap();
    let batch = decode_all(&reader).unwrap();
    assert_eq!(batch.values::<f32>("labels"), [1.0, 3.5, 4.0, 6.0]);
    assert_eq!(batch.values::<f32>("features"), [2.0, 5.0]);
}

#[test]
fn several_columns_may_share_their_classes() {
    let text = "a,x,b\nhen,1,fox\nowl,2,hen\n";
    let reader = open_fields(text, &one("pair", Class.from(["a", "b"]))).unwrap();
    assert_eq!(reader.classes().unwrap().to_vec(), ["fox", "hen", "owl"]);
    assert_eq!(decode_all(&reader).unwrap().values::<i64>("pair"), [1, 0, 2, 1]);
    let reader = open_fields(text, &one("pair", Class.one_hot().dtype(DType::U8).from(["a", "b"]))).unwrap();
    assert_eq!(reader.tensors()[0].shape, [Dim::Fixed(2), Dim::Fixed(3)]);
    assert_eq!(decode_all(&reader).unwrap().values::<u8>("pair"), [0, 1, 0, 1, 0, 0, 0, 0, 1, 0, 1, 0]);
}

#[test]
fn a_record_of_another_length_is_an_error() {
    let options = CsvOptions { delimiter: Some(','), ..CsvOptions::default() };
    let fields = features(Numbers::f32().from(["a"]));
    let reader = open_as("a,b\n1,2\n1,2,3\n1\n1,2,\n\"1\",\"2\",\"3\"\n", &fields, &options).unwrap();
    assert!(decode(&reader, &[0]).is_ok());
    for (record, found) in [(1, 3), (2, 1), (3, 3), (4, 3)] {
        let error = decode(&reader, &[record]).err().unwrap();
        assert!(error.to_string().ends_with(&format!("expected 2 fields, found {found}")), "{error}");
        assert_eq!((error.location().record, error.location().line), (Some(record), Some(record + 2)));
    }
}

#[test]
fn a_transformation_is_applied_while_decoding() {
    let reader = open("a,b\n1,2\n3,\" 4\"\n", &CsvOptions::default()).unwrap();
    let mut specs = reader.tensors().to_vec();
    let steps = [(2.0, -1.0), (0.1, 0.3)].map(|(factor, start)| AffineSteps { shift: 0.0, unit: 1.0, factor, start });
    let affine = Affine::new(steps.to_vec(), Some(0));
    specs[0].affine = Some(std::sync::Arc::new(affine));
    let mut batch = Batch::new(&specs, 2);
    let mut scratch = Scratch::default();
    for nth in 0..2 {
        reader.fetch(&[0, 1], nth, &mut scratch).unwrap();
    }
    for nth in 0..2 {
        reader.decode(sample(nth as u64), nth, &mut scratch, &mut batch.row(nth)).unwrap();
    }
    let expected = [1.0, 2f32.mul_add(0.1, 0.3), 5.0, 4f32.mul_add(0.1, 0.3)];
    assert_eq!(batch.values::<f32>("features"), expected);
}

#[test]
fn missing_values_obey_the_policy() {
    let text = "a,b\n1,NA\n,2\n";
    let error = decode_all(&open(text, &CsvOptions::default()).unwrap()).err().unwrap();
    assert!(error.to_string().contains("record 0: column \"b\": expected f32, found \"NA\", which stands"), "{error}");
    let nan = CsvOptions { missing: Missing::Nan, ..CsvOptions::default() };
    let values = decode_all(&open(text, &nan).unwrap()).unwrap().values::<f32>("features");
    assert!(values[1].is_nan() && values[2].is_nan() && values[0] == 1.0 && values[3] == 2.0);
    let value = CsvOptions { missing: Missing::Value(-1.0), ..CsvOptions::default() };
    assert_eq!(decode_all(&open(text, &value).unwrap()).unwrap().values::<f32>("features"), [1.0, -1.0, -1.0, 2.0]);
    // NaN is a number to a parser, but missing to a person; and missing only as long as it is among the tokens.
    for text in ["a,b\n1,nan\n2,3\n", "a,b\n1,-NaN\n2,3\n"] {
        assert_eq!(decode_all(&open(text, &value).unwrap()).unwrap().values::<f32>("features"), [1.0, -1.0, 2.0, 3.0]);
        assert!(decode_all(&open(text, &CsvOptions::default()).unwrap()).is_err());
        let no_tokens = CsvOptions { missing_tokens: vec![], ..CsvOptions::default() };
        assert!(decode_all(&open(text, &no_tokens).unwrap()).unwrap().values::<f32>("features")[1].is_nan());
    }
    // A number may stand for a missing value too.
    let tokens = CsvOptions { missing_tokens: vec!["-999".into()], ..value };
    let values = decode_all(&open("a,b\n1,-999\n-999.5,2\n", &tokens).unwrap()).unwrap().values::<f32>("features");
    assert_eq!(values, [1.0, -1.0, -999.5, 2.0]);
    let error = open_as(text, &one("b", Numbers::of(DType::U8)), &tokens).err().unwrap();
    assert_eq!(error.kind(), ErrorKind::Config);
    // A field that says it itself needs no option, and goes before it.
    let fields = [
        one("a", Numbers::f32().missing(Missing::Value(7.0))),
        one("b", Numbers::of(DType::I16).missing(Missing::Value(-5.0))),
    ];
    let values = decode_all(&open_fields(text, &fields.concat()).unwrap()).unwrap();
    assert_eq!((values.values::<f32>("a"), values.values::<i16>("b")), (vec![1.0, 7.0], vec![-5, 2]));
    let nan = CsvOptions { missing: Missing::Nan, ..CsvOptions::default() };
    let values = decode_all(&open_as(text, &fields[0], &nan).unwrap()).unwrap();
    assert_eq!(values.values::<f32>("a"), [1.0, 7.0]);
}

#[test]
fn an_error_says_exactly_where() {
    let text = "id,note,x\n1,\"two\nlines\",3\n\n2,b,4\n3,\"c\nd\",abc\n4,e,5\n5,f\n";
    let (options, fields) = (CsvOptions::default(), features(Numbers::f32().from(["id", "x"])));
    let (_folder, path) = file(text);
    let reader = CsvReader::with_fields(&path, &fields, &options).unwrap();
    assert_eq!(reader.len(), 5);
    assert_eq!(decode(&reader, &[3, 1]).unwrap().values::<f32>("features"), [4.0, 5.0, 2.0, 4.0]);
    let error = decode(&reader, &[2]).err().unwrap();
    let expected = format!("{}:7: record 2: column \"x\": expected f32, found \"abc\"", path.display());
    assert_eq!(error.to_string(), expected);
    assert_eq!(error.location().byte, Some(text.find("abc").unwrap() as u64));
    let short = decode(&reader, &[4]).err().unwrap();
    let byte = text.find("5,f").unwrap();
    assert_eq!(short.to_string(), format!("{}:9: record 4: byte {byte}: expected 3 fields, found 2", path.display()));
    let (mut stream, decoder) = CsvStream::with_fields(&path, &fields, &options).unwrap();
    assert_eq!(stream_all(&mut stream, &decoder).err().unwrap().location(), error.location());
}

#[test]
fn text_that_is_not_utf8_is_refused_where_it_is_needed() {
    let error = open(b"x,\xff\n1,2\n", &CsvOptions::default()).err().unwrap();
    assert_eq!((error.kind(), error.location().line), (ErrorKind::Data, Some(1)));
    assert_eq!(error.location().byte, Some(2));
    assert!(error.to_string().contains("set encoding"), "{error}");
    let error = open(b"x,class\n1,a\n2,\xff\n", &CsvOptions::default()).err().unwrap();
    assert!(error.to_string().contains("class \"\u{fffd}\" is not valid UTF-8"), "{error}");
    let x = features(Numbers::f32().from(["x"]));
    let error = decode_all(&open_fields(b"x,y\n1,2\n\xff,2\n", &x).unwrap()).err().unwrap();
    assert!(error.to_string().contains("found \"\u{fffd}\" (not valid UTF-8)"), "{error}");
    let (_folder, path) = file(b"x,name\n1,a\n2,\xff\n");
    let error = CsvSummary::of(path, &CsvOptions::default()).err().unwrap();
    assert_eq!((error.location().line, error.location().record, error.location().byte), (Some(3), Some(1), Some(13)));
    let error = open([0xff, 0xfe, b'a', 0], &CsvOptions::default()).err().unwrap();
    assert!(error.to_string().contains("set encoding to \"utf-16le\""), "{error}");
    let units = || "ä,b\n1,2\n3,4\n".encode_utf16();
    let (little, big) = (units().flat_map(u16::to_le_bytes), units().flat_map(u16::to_be_bytes));
    for (bytes, name) in [(little.collect::<Vec<u8>>(), "utf-16le"), (big.collect(), "utf-16be")] {
        let error = open(&bytes, &CsvOptions::default()).err().unwrap();
        assert_eq!((error.kind(), error.path().is_some()), (ErrorKind::Format, true), "{error}");
        assert!(error.message().contains(&format!("without a byte-order mark; set encoding to {name:?}")), "{error}");
    }
}

#[test]
#[cfg_attr(not(feature = "encodings"), ignore = "reads UTF-8 alone")]
fn bytes_that_an_encoding_does_not_have_are_placed() {
    let options = CsvOptions { encoding: Some("shift_jis".into()), ..CsvOptions::default() };
    let error = open(b"a,b\n1,2\n3,\x81\n", &options).err().unwrap();
    assert!(error.to_string().contains("not valid Shift_JIS"), "{error}");
    assert_eq!((error.location().line, error.location().byte), (Some(3), Some(10)));
    let options = CsvOptions { encoding: Some("utf8-x".into()), ..CsvOptions::default() };
    assert_eq!(open("a\n1\n", &options).err().unwrap().kind(), ErrorKind::Config);
}

#[test]
#[cfg_attr(not(feature = "encodings"), ignore = "reads UTF-8 alone")]
fn a_byte_order_mark_decides_over_the_given_encoding() {
    let utf16be: Vec<u8> =
        std::iter::once(0xfeff).chain("ü,b\n1,2\n".encode_utf16()).flat_map(u16::to_be_bytes).collect();
    for (bytes, given, encoding) in [
        (utf16be.as_slice(), "utf-16", "UTF-16BE"),
        (&utf16be, "latin1", "UTF-16BE"),
        ("\u{feff}ü,b\n1,2\n".as_bytes(), "latin1", "UTF-8"),
    ] {
        let (_folder, path) = file(bytes);
        let options = CsvOptions { encoding: Some(given.into()), ..CsvOptions::default() };
        let summary = CsvSummary::of(path, &options).unwrap();
        assert_eq!((summary.encoding.as_str(), summary.fields[0].name.as_str()), (encoding, "ü"));
    }
}

#[test]
fn a_record_of_missing_values_is_no_blank_line() {
    let (_folder, path) = file("a\tb\n1\t2\n\t\n \t \n\"\"\t\n3\t4\n");
    let summary = CsvSummary::of(path, &CsvOptions::default()).unwrap();
    assert_eq!((summary.records, summary.fields[0].missing, summary.fields[1].missing), (5, 3, 3));
}

#[test]
fn hostile_files_meet_limits() {
    let mut text = b"a,b\n1,2\n3,\"".to_vec();
    text.extend(b"4,5\n".repeat(100_000));
    let options = CsvOptions { max_record_bytes: 10_000, ..CsvOptions::default() };
    for error in [open(&text, &options).err().unwrap(), open(gzip(&text), &options).err().unwrap()] {
        assert_eq!((error.kind(), error.location().line), (ErrorKind::Limit, Some(3)), "{error}");
        assert!(error.to_string().contains("may never have been closed"), "{error}");
    }
    let error = open(&text, &CsvOptions::default()).err().unwrap();
    assert_eq!((error.kind(), error.location().line), (ErrorKind::Format, Some(3)), "{error}");
    let line = [b"a,b\n1,2\n".to_vec(), b"9".repeat(1 << 20), b",3\n".to_vec()].concat();
    let error = open(&line, &options).err().unwrap();
    assert_eq!((error.kind(), error.location().line), (ErrorKind::Limit, Some(3)), "{error}");
    let options = CsvOptions::default();
    let same =
        open([b"a,".repeat(100_000), b"a\n".to_vec(), b"1,".repeat(100_000), b"2\n".to_vec()].concat(), &options);
    assert_eq!(same.unwrap().columns()[100_000], "a.100000");
    let bomb = gzip(&b"1,2\n".repeat(1 << 20));
    let options = CsvOptions { max_unpacked_bytes: 1 << 20, ..CsvOptions::default() };
    assert_eq!(open(&bomb, &options).err().unwrap().kind(), ErrorKind::Limit);
    let (_folder, path) = file(&bomb);
    let budget = MemoryBudget::new(1 << 20);
    let local = ringfeed::storage::Files::local();
    let error = CsvReader::open_in(&local, &path, &[], &CsvOptions::default(), &budget).err().unwrap();
    assert_eq!((error.kind(), budget.used()), (ErrorKind::Budget, 0));
}

#[test]
fn more_columns_than_are_allowed_are_refused_by_a_limit_that_can_be_raised() {
    let table = |columns: usize| ["a", "1"].map(|field| vec![field; columns].join(",") + "\n").concat();
    let most = CsvOptions::default().max_columns;
    assert_eq!(open(table(most), &CsvOptions::default()).unwrap().columns().len(), most);
    let raised = CsvOptions { max_columns: most + 1, ..CsvOptions::default() };
    assert_eq!(open(table(most + 1), &raised).unwrap().columns().len(), most + 1);
    let (folder, path) = file(table(most + 1));
    let sequences = SequenceOptions::default();
    for error in [
        CsvReader::open(&path, &CsvOptions::default()).err().unwrap(),
        CsvStream::open(&path, &CsvOptions::default()).err().unwrap(),
        CsvSummary::of(&path, &CsvOptions::default()).err().unwrap(),
        CsvSequenceReader::open_folder(folder.path(), &sequences).err().unwrap(),
        ringfeed::inspect::verify(&path, 1, |_| ControlFlow::Continue(())).err().unwrap(),
    ] {
        assert_eq!((error.kind(), error.location().line), (ErrorKind::Limit, Some(1)), "{error}");
        assert!(error.message().contains("raise max_columns"), "{error}");
        assert_eq!(error.location().path.as_deref(), Some(path.as_path()));
    }
}

#[test]
fn only_so_many_classes_are_collected() {
    let ids: String = (0..70_000).map(|id| format!("{id},user_{id}\n")).collect();
    let error = open_fields(format!("x,user\n{ids}"), &labelled("user")).err().unwrap();
    assert_eq!((error.kind(), error.location().column.as_deref()), (ErrorKind::Config, Some("user")));
    let long: String = (0..100).map(|id| format!("{id},{id}{}\n", "x".repeat(200_000))).collect();
    assert!(open_fields(format!("x,user\n{long}"), &labelled("user")).is_err());
    // Numbers are no texts to collect, however many there are.
    let numbers: String = (0..70_000).map(|id| format!("{id},{id}.5\n")).collect();
    assert_eq!(open(format!("x,label\n{numbers}"), &CsvOptions::default()).unwrap().len(), 70_000);
}

#[test]
fn what_comes_before_a_truncation_is_read_before_the_error() {
    let text: String = (0..100_000).map(|i| format!("{i},{}\n", i * 7919 % 10_007)).collect();
    let packed = gzip(text.as_bytes());
    let (_folder, path) = file(&packed[..packed.len() - 1000]);
    let options = CsvOptions { header: Header::No, ..CsvOptions::default() };
    let (mut stream, _) = CsvStream::with_fields(&path, &features(Numbers::f32().from([0])), &options).unwrap();
    let mut record = Record::default();
    let error = loop {
        match stream.read(&mut record) {
            Ok(more) => assert!(more, "the truncation went unnoticed"),
            Err(error) => break error,
        }
    };
    assert_eq!((error.kind(), error.location().record), (ErrorKind::Format, Some(record.index + 1)));
    let mut inflated = Vec::new();
    let cut = std::fs::read(&path).unwrap();
    std::io::Read::read_to_end(&mut flate2::read::GzDecoder::new(&cut[..]), &mut inflated).unwrap_err();
    assert_eq!(record.index + 1, inflated.iter().filter(|byte| **byte == b'\n').count() as u64);
    assert!(!stream.read(&mut record).unwrap());
}

#[test]
fn a_summary_in_json_has_records_by_column() {
    let json = serde_json::to_value(CsvSummary::of(iris(), &CsvOptions::default()).unwrap()).unwrap();
    assert_eq!(json["first"]["setosa"], "1.4");
    assert_eq!(json["fields"][4]["dtype"], "i64");
    assert_eq!(json["header"], true);
}

#[test]
fn a_file_without_records_says_so() {
    for text in ["", "\u{feff}", "\n\n"] {
        let error = open(text, &CsvOptions::default()).err().unwrap();
        assert_eq!(error.kind(), ErrorKind::Format, "{text:?}");
        assert!(error.path().is_some());
    }
    let (_folder, path) = file("a,b\n");
    let summary = CsvSummary::of(&path, &CsvOptions::default()).unwrap();
    assert_eq!((summary.header, summary.records, summary.first, summary.last), (true, 0, None, None));
    assert_eq!(CsvReader::open(&path, &CsvOptions::default()).unwrap().len(), 0);
    let error = CsvReader::open(path.with_file_name("dat.csv"), &CsvOptions::default()).err().unwrap();
    assert!(error.to_string().contains("did you mean"), "{error}");
}

#[test]
fn options_that_contradict_are_refused() {
    let two = || [one("p", Numbers::f32().from(["a", "b"])), one("q", Numbers::f32().from(["a"]))].concat();
    let plain = CsvOptions::default;
    let others = || Numbers::f32().from("*");
    let cases: Vec<(&str, Fields, CsvOptions, ErrorKind)> = vec![
        ("nearest", labelled("aa"), plain(), ErrorKind::NotFound),
        ("position", features(others().except([7])), plain(), ErrorKind::NotFound),
        ("delimiter", vec![], CsvOptions { delimiter: Some('"'), ..plain() }, ErrorKind::Config),
        ("delimiter", vec![], CsvOptions { delimiter: Some('e'), ..plain() }, ErrorKind::Config),
        ("nothing left", [two(), features(others())].concat(), plain(), ErrorKind::Config),
        ("no numbers", one("x", Class.from("*")), plain(), ErrorKind::Config),
        ("twice", with_labels(Class::of(["x", "x"]).from("a")), plain(), ErrorKind::Config),
    ];
    for (what, fields, options, kind) in cases {
        let error = open_as("a,b\n1,2\n", &fields, &options).err().unwrap();
        assert_eq!(error.kind(), kind, "{what}: {error}");
    }
}

#[test]
fn options_survive_json_and_toml() {
    let options = CsvOptions { missing: Missing::Value(0.5), delimiter: Some(';'), ..CsvOptions::default() };
    let json = serde_json::to_string(&options).unwrap();
    assert_eq!(serde_json::from_str::<CsvOptions>(&json).unwrap(), options);
    let text = toml::to_string(&options).unwrap();
    assert_eq!(toml::from_str::<CsvOptions>(&text).unwrap(), options);
    assert!(serde_json::from_str::<CsvOptions>("{\"delimeter\": \";\"}").is_err());
    assert_eq!(toml::from_str::<CsvOptions>("missing = \"nan\"").unwrap().missing, Missing::Nan);
}

#[test]
fn options_of_earlier_versions_are_told_what_to_write() {
    let told = |options: &str| {
        let text = format!("[source]\nformat = \"csv\"\npath = \"x.csv\"\n[source.options]\n{options}\n");
        let error = toml::from_str::<LoaderConfig>(&text).unwrap_err().to_string();
        error.split_once("write beside the path: ").unwrap_or_else(|| panic!("{error}")).1.trim().to_owned()
    };
    for (options, fields) in [
        (
            "labels = [\"species\"]",
            "features = { from = \"*\", numbers = \"f32\" }, labels = { from = \"species\", class = [] }",
        ),
        (
            "features = [\"a\", 1]\nlabels = [\"p\", \"q\"]",
            "features = { from = [\"a\", 1], numbers = \"f32\" }, \
             labels = { from = [\"p\", \"q\"], role = \"label\", numbers = \"f32\" }",
        ),
        (
            "ignore = [\"id\"]\nclasses = [\"x\", \"y\"]\none_hot = true\nlabels = [4]",
            "features = { from = \"*\", except = [\"id\"], numbers = \"f32\" }, \
             labels = { from = 4, class = [\"x\", \"y\"], one_hot = true }",
        ),
        (
            "labels = [\"y\"]\nlabel_dtype = \"u32\"",
            "features = { from = \"*\", numbers = \"f32\" }, labels = { from = \"y\", class = [], dtype = \"u32\" }",
        ),
        (
            "labels = [\"y\"]\nlabel_dtype = \"f64\"",
            "features = { from = \"*\", numbers = \"f32\" }, labels = { from = [\"y\"], role = \"label\", numbers = \"f64\" }",
        ),
        (
            "tensors = [{ name = \"x\", columns = [\"a\", \"b\"] }, { name = \"n\", columns = [\"n\"], dtype = \"i64\", \
             shape = [], role = \"label\" }, { name = \"t\", columns = [\"t\"], values = { text = { max_len = 3, longer = \
             \"cut\" } } }, { name = \"c\", columns = [0, 1], values = { categories = { missing = -1 } } }]",
            "x = { from = [\"a\", \"b\"], numbers = \"f32\" }, n = { from = \"n\", role = \"label\", numbers = \"i64\" }, \
             t = { from = \"t\", text = 3, longer = \"cut\" }, c = { from = [0, 1], category = [], missing = -1 }",
        ),
    ] {
        assert_eq!(told(options), format!("fields = {{ {fields} }}"), "{options}");
        let text = format!("[source]\nformat = \"csv\"\npath = \"x.csv\"\nfields = {{ {fields} }}\n");
        assert!(Loader::from(toml::from_str::<LoaderConfig>(&text).unwrap()).faults().len() <= 1, "{fields}");
    }
}

/// The judge: the `csv` crate and the standard library's parser.
fn naive(text: &str) -> Vec<f32> {
    let mut reader = csv::ReaderBuilder::new().from_reader(text.as_bytes());
    reader
        .records()
        .flat_map(|record| record.unwrap().iter().map(|field| field.trim().parse().unwrap()).collect::<Vec<f32>>())
        .collect()
}

fn number() -> impl Strategy<Value = String> {
    prop_oneof![
        any::<u32>().prop_map(f32::from_bits).prop_filter("a number", |x| !x.is_nan()).prop_map(|x| x.to_string()),
        any::<u64>().prop_map(f64::from_bits).prop_filter("a number", |x| !x.is_nan()).prop_map(|x| format!("{x:e}")),
        any::<u32>()
            .prop_map(|bits| f32::from_bits(bits & 0x7f7f_ffff))
            .prop_map(|x| format!("{:.60}", f64::from(x) + f64::from(x.next_up() - x) / 2.0)),
        any::<i64>().prop_map(|x| x.to_string()),
        "[+-]?[0-9]{1,40}(\\.[0-9]{0,40})?([eE][+-]?[0-9]{1,3})?",
        "[+-]?\\.[0-9]{1,5}",
        " {0,2}[0-9]{1,3} {0,2}",
        "[+-]?(inf|Infinity)",
    ]
    .prop_filter("f32 has it, or it is written as a word", |text| {
        text.trim().parse::<f32>().is_ok_and(f32::is_finite) || text.ends_with(char::is_alphabetic)
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn numbers_are_bit_identical_to_a_correctly_rounded_parse(
        rows in prop::collection::vec(prop::collection::vec((number(), any::<bool>()), 3), 1..20),
        crlf in any::<bool>(),
    ) {
        let end = if crlf { "\r\n" } else { "\n" };
        let mut text = format!("a,b,c{end}");
        for row in &rows {
            let fields: Vec<String> =
                row.iter().map(|(number, quote)| if *quote { format!("\"{number}\"") } else { number.clone() }).collect();
            text += &fields.join(",");
            text += end;
        }
        let (_folder, path) = file(&text);
        let options = CsvOptions { header: Header::Yes, delimiter: Some(','), ..CsvOptions::default() };
        let bits = |values: Vec<f32>| values.into_iter().map(f32::to_bits).collect::<Vec<_>>();
        let expected = bits(naive(&text));
        let reader = CsvReader::open(&path, &options).unwrap();
        prop_assert_eq!(bits(decode_all(&reader).unwrap().values("features")), expected.clone());
        let (mut stream, decoder) = CsvStream::open(&path, &options).unwrap();
        prop_assert_eq!(bits(stream_all(&mut stream, &decoder).unwrap().values("features")), expected.clone());
        // Backwards, so that no two records are neighbours.
        let samples: Vec<u64> = (0..reader.len()).rev().collect();
        let backwards = bits(decode(&reader, &samples).unwrap().values("features"));
        let turned: Vec<u32> = expected.chunks(3).rev().flatten().copied().collect();
        prop_assert_eq!(backwards, turned);
    }

    #[test]
    fn nothing_panics_on_any_bytes(bytes in prop::collection::vec(any::<u8>(), 0..300), gz in any::<bool>()) {
        let (_folder, path) = file(if gz { gzip(&bytes) } else { bytes });
        let options = CsvOptions { missing: Missing::Nan, comment: Some('#'), ..CsvOptions::default() };
        let _ = CsvSummary::of(&path, &options);
        if let Ok(reader) = CsvReader::open(&path, &options) {
            for id in 0..reader.len() {
                let _ = decode(&reader, &[id]);
            }
        }
        if let Ok((mut stream, decoder)) = CsvStream::open(&path, &options) {
            let _ = stream_all(&mut stream, &decoder);
        }
    }
}

#[test]
fn many_records_are_read_across_windows() {
    let mut text = String::from("i,\"quoted, name\",x\n");
    for i in 0..50_000u32 {
        let note = if i.is_multiple_of(7) { "\"a\"\"b\r\n\"" } else { "plain" };
        text += &format!("{i},{note},{}\n", f64::from(i) / 3.0);
    }
    let (_folder, path) = file(&text);
    let reader = CsvReader::open(&path, &CsvOptions::default()).unwrap();
    assert_eq!(reader.len(), 50_000);
    let expected: Vec<f32> = (0..50_000u32).flat_map(|i| [i as f32, (f64::from(i) / 3.0) as f32]).collect();
    let values = decode_all(&reader).unwrap().values::<f32>("features");
    assert!(
        values.iter().zip(&expected).all(|(a, b)| (a - b).abs() <= b.abs() * 1e-6) && values.len() == expected.len()
    );
    let (mut stream, decoder) = CsvStream::open(&path, &CsvOptions::default()).unwrap();
    assert_eq!(stream_all(&mut stream, &decoder).unwrap().values::<f32>("features"), values);
}

#[test]
fn any_number_of_threads_opens_a_file_alike() {
    let mut text = String::from("i,name,x,label\n");
    for i in 0..100_000u32 {
        let name = if i.is_multiple_of(1000) { "\"many,\n\n\"\"lines\"\"\n\"" } else { "one" };
        let x = if i == 99_000 { "NA".to_owned() } else { format!("{}", f64::from(i) / 8.0) };
        text += &format!("{i},{name},{x},class_{}\n", i % 7);
    }
    let (_folder, path) = file(&text);
    let options = |threads, access| CsvOptions {
        threads: Some(threads),
        access,
        missing: Missing::Value(-1.0),
        ..CsvOptions::default()
    };
    let expected = CsvReader::open(&path, &options(1, Access::Read)).unwrap();
    assert_eq!((expected.len(), expected.classes().unwrap().len()), (100_000, 7));
    let samples: Vec<u64> = (0..expected.len()).step_by(97).chain([1000, 2000, 99_000]).collect();
    let values = decode(&expected, &samples).unwrap().values::<f32>("features");
    for (threads, access) in [(0, MAPPED), (1, MAPPED), (3, Access::Read), (16, MAPPED)] {
        let reader = CsvReader::open(&path, &options(threads, access)).unwrap();
        assert_eq!(
            (reader.len(), reader.classes(), reader.tensors()),
            (100_000, expected.classes(), expected.tensors())
        );
        assert_eq!(decode(&reader, &samples).unwrap().values::<f32>("features"), values);
    }
    // What is wrong with the file is said alike, too.
    let broken = text.replacen("one,9999,", "\"one,9999,", 1);
    let (_folder, path) = file(&broken);
    let errors = [1, 4].map(|threads| CsvReader::open(&path, &options(threads, Access::Read)).err().unwrap());
    assert_eq!(errors[0].to_string(), errors[1].to_string());
    assert_eq!(errors[0].kind(), ErrorKind::Format);
    assert!(errors[0].location().record > Some(10_000) && errors[0].location().line.is_some());
}

/// A table of 20,000 records, of which every fourth block of 16 tells the types.
fn long_table(class_of: impl Fn(usize) -> String, x_of: impl Fn(usize) -> String) -> String {
    let records = (0..20_000).map(|i| format!("{i},{},{}\n", x_of(i), class_of(i)));
    std::iter::once("i,x,label\n".to_owned()).chain(records).collect()
}

/// The same file read at random and as a compressed stream: its tensors, and what is wrong with it.
fn both_ways(text: &str, fields: &Fields) -> Vec<(Vec<TensorSpec>, Option<ringfeed::Error>)> {
    let (_folder, path) = file(text);
    let options = CsvOptions::default();
    let reader = CsvReader::with_fields(&path, fields, &options).unwrap();
    let error = decode_all(&reader).err();
    let (_packed, path) = named("data.csv.gz", gzip(text.as_bytes()));
    let (mut stream, decoder) = CsvStream::with_fields(&path, fields, &options).unwrap();
    let streamed = stream_all(&mut stream, &decoder).err();
    vec![(reader.tensors().to_vec(), error), (decoder.tensors().to_vec(), streamed)]
}

#[test]
fn a_value_that_does_not_fit_an_inferred_type_is_told_with_what_it_was_inferred_from() {
    let class = |i: usize| (i % 3).to_string();
    // Record 17 is in a block that is passed over, record 64 in one that is looked at.
    let text = |at: usize| long_table(class, |i| if i == at { "abc".to_owned() } else { format!("{i}.5") });
    for (tensors, error) in both_ways(&text(17), &vec![]) {
        assert_eq!((tensors[0].shape.clone(), tensors[1].dtype), (vec![Dim::Fixed(2)], DType::I64));
        let error = error.unwrap();
        assert_eq!(
            (error.kind(), error.location().record, error.location().line),
            (ErrorKind::Data, Some(17), Some(19))
        );
        let expected = "column \"x\": expected f32, found \"abc\"; the column was taken for f32 from 5008 of 20000 records: \
                        name the text in `missing_tokens`, or say in `fields` which columns are numbers";
        assert!(error.to_string().contains(expected), "{error}");
    }
    for (tensors, error) in both_ways(&text(64), &vec![]) {
        assert_eq!((tensors[0].shape.clone(), error.is_none()), (vec![Dim::Fixed(1)], true), "x is text");
    }
    // What is chosen was not inferred, and needs no such words.
    let chosen = [features(Numbers::f32().from(["i", "x"])), one("labels", Class.from("label"))].concat();
    for (_, error) in both_ways(&text(64), &chosen) {
        assert!(error.unwrap().to_string().ends_with("found \"abc\""));
    }
}

#[test]
fn a_label_that_does_not_fit_its_inferred_type_names_the_settings() {
    let text =
        |stray: &str| long_table(|i| if i == 19_999 { stray.to_owned() } else { "7".to_owned() }, |i| i.to_string());
    for stray in ["1.5", "seven"] {
        for (_, error) in both_ways(&text(stray), &vec![]) {
            let error = error.unwrap().to_string();
            assert!(error.contains(":20001: record 19999: column \"label\": expected i64"), "{error}");
            let expected =
                "taken for i64 from 5008 of 20000 records: say in `fields` whether it is a `class` or `numbers`";
            assert!(error.contains(expected), "{error}");
        }
    }
}

#[test]
fn a_missing_value_that_was_not_looked_at_is_told_with_what_was_inferred_from_how_many_records() {
    let label = |kind: fn(usize) -> String| move |i: usize| if i == 17 { String::new() } else { kind(i) };
    let x = |i: usize| if i == 17 { String::new() } else { format!("{i}.5") };
    let whole: fn(usize) -> String = |i| (i % 3).to_string();
    let text = "say in `fields` whether it is a `class` or `numbers`";
    for (table, column, part) in [
        (
            long_table(label(whole), |i| i.to_string()),
            "label",
            "missing value; set `missing` to a value; the column was taken for i64 from 5008 of 20000 records"
                .to_owned(),
        ),
        (
            long_table(label(|i| format!("c{}", i % 3)), |i| i.to_string()),
            "label",
            format!("missing value; the column was taken for a class from 5008 of 20000 records: {text}"),
        ),
        (
            long_table(whole, x),
            "x",
            "set `missing` to \"nan\" or to a value; the column was taken for f32 from 5008 of 20000 records"
                .to_owned(),
        ),
    ] {
        for (_, error) in both_ways(&table, &vec![]) {
            let error = error.unwrap();
            assert_eq!(
                (error.location().line, error.location().column.as_deref()),
                (Some(19), Some(column)),
                "{error}"
            );
            assert!(error.to_string().ends_with(&part), "{error}");
        }
    }
}

#[test]
fn the_names_of_classes_are_those_of_all_records() {
    let text = long_table(|i| if i == 17 { "rare".to_owned() } else { format!("c{}", i % 3) }, |i| i.to_string());
    let (_folder, path) = file(&text);
    let (_packed, packed) = named("data.csv.gz", gzip(text.as_bytes()));
    let options = CsvOptions::default();
    for fields in [
        vec![],
        with_labels(Class.one_hot().from("label")),
        one("labels", Class.dtype(DType::U32).from("label")),
        one("codes", Category::new().from(["label", "i"])),
    ] {
        let reader = CsvReader::with_fields(&path, &fields, &options).unwrap();
        let (_, decoder) = CsvStream::with_fields(&packed, &fields, &options).unwrap();
        assert_eq!(reader.tensors(), decoder.tensors());
        let names = match reader.categories("codes") {
            Some(names) => names[0].clone(),
            None => reader.classes().unwrap().to_vec(),
        };
        assert_eq!(names, ["c0", "c1", "c2", "rare"]);
    }
}

#[test]
fn what_fields_say_is_not_looked_for_in_the_whole_file() {
    let text = long_table(|i| (i % 3).to_string(), |i| i.to_string());
    let packed = gzip(text.as_bytes());
    let (_folder, path) = named("half.csv.gz", &packed[..packed.len() / 2]);
    let open = |label: Field| {
        let fields = [features(Numbers::f32().from(["i", "x"])), one("labels", label.from("label"))].concat();
        CsvStream::with_fields(&path, &fields, &CsvOptions::default())
    };
    for label in [Numbers::i64().into(), Numbers::f32().into(), Class::of(["0", "1", "2"]).into()] {
        open(label).unwrap();
    }
    assert!(open(Class.into()).is_err(), "only reading it through tells which classes there are");
}

/// Gives a file another time of modification, in seconds since 1970.
fn set_modified(path: &Path, seconds: u64) {
    let file = std::fs::File::options().write(true).open(path).unwrap();
    let modified = std::time::UNIX_EPOCH + std::time::Duration::from_secs(seconds);
    file.set_times(std::fs::FileTimes::new().set_modified(modified)).unwrap();
}

#[test]
fn a_saved_index_is_used_until_the_file_changes() {
    let (folder, path) = file("a,b,c\n1,x,2\n3,\"y\nz\",4\n5,x,6\n");
    let options = CsvOptions { saved_index: SavedIndex::Beside, ..CsvOptions::default() };
    let open = |path: &Path| CsvReader::with_fields(path, &labelled("b"), &options);
    let kept = folder.path().join("data.csv.ringfeed");
    // What is written now, or by another clock even later, may be written again at the same time.
    set_modified(&path, 4_000_000_000);
    open(&path).unwrap();
    assert!(!kept.exists());
    set_modified(&path, 1_700_000_000);
    let mut reader = open(&path).unwrap();
    let written = std::fs::read(&kept).unwrap();
    let bits = |reader: &CsvReader| {
        let batch = decode_all(reader).unwrap();
        (batch.values::<f32>("features"), batch.values::<i64>("labels"), reader.classes().unwrap().to_vec())
    };
    let expected = bits(&reader);
    assert_eq!(expected.1, [0, 1, 0]);
    // It is not written again, and changes nothing.
    let modified = std::fs::metadata(&kept).unwrap().modified().unwrap();
    let mapped = CsvOptions { access: MAPPED, ..options.clone() };
    reader = CsvReader::with_fields(&path, &labelled("b"), &mapped).unwrap();
    assert_eq!((bits(&reader), std::fs::metadata(&kept).unwrap().modified().unwrap()), (expected.clone(), modified));
    // That it is used shows in an index that leaves a record out: the checksum is right, and the file is not read.
    let two = file("a,b,c\n1,x,2\n3,\"y\nz\",4;5,x,6\n");
    set_modified(&two.1, 1_700_000_000);
    let short = open(&two.1).unwrap();
    assert_eq!(short.len(), 2);
    let mut forged = std::fs::read(two.0.path().join("data.csv.ringfeed")).unwrap();
    forged[8..16].copy_from_slice(&written[8..16]);
    std::fs::write(&kept, forged).unwrap();
    assert_eq!(open(&path).unwrap().len(), 2);
    // Other columns need other figures, but the same rows; a damaged index, another size or time all of them.
    for damage in [&written[..written.len() - 1], &written[..40], b"", &[&written[..], b"x"].concat()] {
        std::fs::write(&kept, damage).unwrap();
        assert_eq!(bits(&open(&path).unwrap()), expected);
    }
    let other = |path: &Path| CsvReader::with_fields(path, &labelled("a"), &options).unwrap();
    assert_eq!(decode_all(&other(&path)).unwrap().values::<i64>("labels"), [1, 3, 5]);
    assert_eq!(bits(&open(&path).unwrap()), expected);
    // Of the same size, and its time of modification set back.
    std::fs::write(&path, "a,b,c\n1,x,22\n3,\"yz\",4\n5,x,6\n").unwrap();
    set_modified(&path, 1_700_000_000);
    if cfg!(unix) {
        assert_eq!(decode_all(&other(&path)).unwrap().values::<f32>("features")[0], 22.0);
    }
    std::fs::write(&path, "a,b,c\n1,x,2\n").unwrap();
    assert_eq!(open(&path).unwrap().len(), 1);
    // A compressed file has one of its unpacked text.
    let (folder, path) = named("data.csv.gz", gzip(b"a,b,c\n1,x,2\n3,y,4\n"));
    set_modified(&path, 1_700_000_000);
    for _ in 0..2 {
        assert_eq!(bits(&open(&path).unwrap()).0, [1.0, 2.0, 3.0, 4.0]);
        assert!(folder.path().join("data.csv.gz.ringfeed").exists());
    }
    // A plan knows what opening tells, and uses what was kept.
    let (_folder, path) = file("a,b\n1,x\n2,y\n3,x\n");
    let mut config = LoaderConfig::new(SourceConfig::new(Csv, path.clone(), options.clone()));
    config.fields = labelled("b");
    let plan = || Loader::from(config.clone()).plan().unwrap();
    set_modified(&path, 1_700_000_000);
    assert_eq!(
        (plan().samples, plan().tensors.map(|tensors| tensors.len()), plan().unknown.len()),
        (Some(3), Some(2), 0)
    );
    assert!(plan().held_bytes.is_some_and(|bytes| bytes < 100));
    std::fs::write(&path, "a,b\n1,x\n").unwrap();
    assert_eq!(plan().samples, Some(1));
    set_modified(&path, 1_700_000_001);
    let nowhere = CsvOptions { saved_index: SavedIndex::In(folder.path().join("missing")), ..CsvOptions::default() };
    assert_eq!(CsvReader::open(&path, &nowhere).err().unwrap().kind(), ErrorKind::Io);
}

#[test]
fn texts_are_padded_and_their_lengths_told() {
    let text = "a,b,c\nabc,1,\"x, y\"\n\"say \"\"\",2,\"two\nl\"\n,3,NA\nnaïv,4,é\n";
    let reader = open_fields(text, &one("t", Text::new(6).from("a"))).unwrap();
    let specs: Vec<_> =
        reader.tensors().iter().map(|spec| (spec.name.as_str(), spec.dtype, spec.shape.len())).collect();
    assert_eq!(specs, [("t", DType::U8, 1), ("t_len", DType::I64, 0)]);
    let batch = decode_all(&reader).unwrap();
    assert_eq!(batch.values::<u8>("t"), b"abc\0\0\0say \"\0\0\0\0\0\0\0na\xc3\xafv\0");
    assert_eq!(batch.values::<i64>("t_len"), [3, 5, 0, 5]);
    let (_folder, path) = file(text);
    let both = one("t", Text::new(6).from(["c", "a"]));
    let (mut stream, decoder) = CsvStream::with_fields(&path, &both, &CsvOptions::default()).unwrap();
    let batch = stream_all(&mut stream, &decoder).unwrap();
    assert_eq!(decoder.tensors()[0].shape, [Dim::Fixed(2), Dim::Fixed(6)]);
    assert_eq!(batch.values::<u8>("t")[..24], *b"x, y\0\0abc\0\0\0two\nl\0say \"\0");
    assert_eq!(batch.values::<i64>("t_len"), [4, 3, 5, 5, 2, 0, 2, 5]);
    let neighbours = open_fields(text, &one("t", Text::new(6).from(["b", "c"]))).unwrap();
    let batch = decode_all(&neighbours).unwrap();
    assert_eq!(batch.values::<u8>("t")[..24], *b"1\0\0\0\0\0x, y\0\x002\0\0\0\0\0two\nl\0");
    // A longer one is an error, or cut between two characters.
    let short = one("t", Text::new(3).from("a"));
    let error = decode_all(&open_fields(text, &short).unwrap()).err().unwrap();
    assert_eq!((error.location().record, error.location().line), (Some(1), Some(3)));
    assert!(
        error.to_string().contains("column \"a\": expected a text of at most 3 bytes, found 5 bytes, \"say"),
        "{error}"
    );
    let cut = one("t", Text::new(3).cut().from("a"));
    let batch = decode_all(&open_fields(text, &cut).unwrap()).unwrap();
    assert_eq!(batch.values::<u8>("t"), b"abcsay\0\0\0na\0");
    assert_eq!(batch.values::<i64>("t_len"), [3, 3, 0, 2]);
    let error = decode_all(&open_fields(b"a,b\n\xff,1\n", &cut).unwrap()).err().unwrap();
    assert!(error.to_string().contains("not valid UTF-8; set encoding"), "{error}");
    let empty = one("t", Text::new(0).from("a"));
    assert_eq!(open_fields(text, &empty).err().unwrap().kind(), ErrorKind::Config);
}

#[test]
fn categories_have_codes_of_their_own_in_each_column() {
    let text = "a,b,c,x\nred,9,NA,1\nblue,7,up,2\nred,7,down,3\n";
    let open = |text: &str, category: Category| open_fields(text, &one("codes", category.from(["c", "a", "b"])));
    let error = decode_all(&open(text, Category::new()).unwrap()).err().unwrap();
    assert!(
        error.to_string().contains("column \"c\": expected one of 2 classes (\"down\", \"up\"), found \"NA\""),
        "{error}"
    );
    let reader = open(text, Category::new().missing(-1).dtype(DType::I32)).unwrap();
    let names = reader.categories("codes").unwrap();
    assert_eq!(names, [vec!["down", "up"], vec!["blue", "red"], vec!["7", "9"]]);
    assert_eq!(reader.categories("x"), None);
    assert_eq!(decode_all(&reader).unwrap().values::<i32>("codes"), [-1, 1, 1, 1, 0, 0, 0, 1, 0]);
    // Given names need no reading of the whole file, and mean the same in another one.
    let other = open("x,b,a,c\n1,9,red,up\n", Category::new().names(names.clone()).dtype(DType::I32)).unwrap();
    assert_eq!(
        (other.categories("codes"), decode_all(&other).unwrap().values::<i32>("codes")),
        (Some(names), vec![1, 1, 1])
    );
    let error = open(text, Category::new().names([vec!["up".into()]])).err().unwrap();
    assert!(error.to_string().contains("has 3 columns; `names` must hold a list for each"), "{error}");
    let error = open(text, Category::new().missing(-1).dtype(DType::U8)).err().unwrap();
    assert!(error.to_string().contains("code -1 does not fit u8"), "{error}");
}

#[test]
fn a_number_that_stands_for_a_missing_value_is_no_index() {
    let options = CsvOptions { missing_tokens: vec![String::new(), "0".into()], ..CsvOptions::default() };
    let text = "kind,y\nred,1\n0,2\nblue,1\n";
    let category = Category::new().missing(-1).from("kind");
    let reader = open_as(text, &one("x", category), &options).unwrap();
    assert_eq!(decode_all(&reader).unwrap().values::<i64>("x"), [1, -1, 0]);
    let reader = open_as("y,x\n1,1\n2,2\n0.0,3\n0,4\n", &one("y", Class), &options).unwrap();
    assert_eq!(decode(&reader, &[0, 1]).unwrap().values::<i64>("y"), [1, 2]);
    for record in [2, 3] {
        let error = decode(&reader, &[record]).err().unwrap();
        assert!(error.message().ends_with(", which stands for a missing value"), "{error}");
    }
    let reader = open_as(text, &one("x", Class::of(["0", "red", "blue"]).from("kind")), &options).unwrap();
    assert_eq!(decode_all(&reader).unwrap().values::<i64>("x"), [1, 0, 2], "a name of a class");
}

#[test]
fn tensors_of_the_same_columns_are_read_alike_in_any_order() {
    let text: String = (0..5).map(|row| format!("{row},{},\"{}\",x{row}\n", row + 10, row + 20)).collect();
    let names = |from: u64| (0..5).map(move |row| (row + from).to_string()).collect::<Vec<_>>();
    let category = || Category::new().names([names(0), names(10), names(20)]).from([0, 1, 2]);
    let fields: Fields = [
        one("a", category()),
        one("numbers", Numbers::i64().from([1, 0, 2])),
        one("b", category()),
        one("last", Text::new(2).from(3usize)),
        one("c", Numbers::f32().from([0, 1, 2])),
    ]
    .concat();
    let options = CsvOptions { header: Header::No, ..CsvOptions::default() };
    let batch = decode_all(&open_as(text, &fields, &options).unwrap()).unwrap();
    let codes: Vec<i64> = (0..5).flat_map(|row| [row; 3]).collect();
    assert_eq!((batch.values::<i64>("a"), batch.values::<i64>("b")), (codes.clone(), codes));
    let numbers: Vec<i64> = (0..5).flat_map(|row| [row + 10, row, row + 20]).collect();
    assert_eq!(batch.values::<i64>("numbers"), numbers);
    let floats: Vec<f32> = (0..5u8).flat_map(|row| [row, row + 10, row + 20].map(f32::from)).collect();
    assert_eq!(batch.values::<f32>("c"), floats);
    assert_eq!(batch.values::<u8>("last"), b"x0x1x2x3x4");
}

#[test]
fn a_line_end_in_two_halves_is_one() {
    for (before, end) in [(65_534, "\r\n"), (65_535, "\r\n"), (65_536, "\r\n"), (65_534, "\r"), (65_535, "\r")] {
        let name = "a".repeat(before - 2);
        let (_folder, path) = file(format!("{name},b{end}1,2{end}3,4{end}"));
        let reader = CsvReader::open(&path, &CsvOptions::default()).unwrap();
        assert_eq!(decode_all(&reader).unwrap().values::<f32>("features"), [1.0, 2.0, 3.0, 4.0], "{before}");
    }
}

#[test]
fn files_whose_codes_mean_different_things_are_not_put_together() {
    let (_one, first) = named("first.csv", "city,x\nBerlin,1\nParis,2\n");
    let (_other, second) = named("second.csv", "city,x\nOslo,3\nParis,4\n");
    let open = |path: &Path, field: &Field| {
        CsvReader::with_fields(path, &one("city", field.clone()), &CsvOptions::default()).unwrap()
    };
    let category = Category::new().from(["city"]);
    let error = Concat::new(open(&first, &category)).and(open(&second, &category)).err().unwrap();
    assert_eq!((error.kind(), error.location().column.as_deref()), (ErrorKind::Schema, Some("city")));
    for part in ["first.csv", "second.csv", "[\"Oslo\", \"Paris\"]", "[\"Berlin\", \"Paris\"]", "the same list"] {
        assert!(error.message().contains(part), "{error}");
    }
    let names: Vec<String> = ["Berlin", "Oslo", "Paris"].map(str::to_owned).to_vec();
    let category = Category::new().names([names.clone()]).from(["city"]);
    let both = Concat::new(open(&first, &category)).and(open(&second, &category)).unwrap();
    assert_eq!(both.tensors()[0].categories.as_deref(), Some(&[names][..]));
    assert_eq!(decode_all(&both).unwrap().values::<i64>("city"), [0, 2, 1, 2]);
    // Classes likewise; and of long lists only what differs is shown.
    let list = |last: &str| (0..100).map(|nth| format!("class {nth:02}")).chain([last.to_owned()]).collect::<Vec<_>>();
    let [x, y] = ["x", "y"].map(|last| open(&first, &Class::of(list(last)).into()));
    let error = Concat::new(x).and(y).err().unwrap();
    assert!(error.message().contains("the 101 classes [..., \"y\"]"), "{error}");
    let error = Concat::new(open(&first, &category)).and(open(&second, &Text::new(6).into())).err().unwrap();
    assert!(error.message().ends_with("has \"city\" as a Feature of i64 [1]"), "{error}");
}

#[test]
fn a_misspelt_column_is_found_out_beside_names_of_any_length() {
    let long = "x".repeat(15 << 20);
    let text = format!("{long},label\n1,2\n");
    let error = open_fields(&text, &labelled("lable")).err().unwrap();
    assert!(error.to_string().ends_with("no column \"lable\"; did you mean \"label\"?"), "{error}");
    let folder = tempfile::tempdir().unwrap();
    let words = folder.path().join("words.csv");
    std::fs::write(&words, "word,tag\nThe,DET\nword,NOUN\n").unwrap();
    let error = Loader::open(&words).unwrap().field("tag", Class).build().err().unwrap();
    assert!(
        error.message().contains("in the first record") && error.message().contains("set header = \"yes\""),
        "{error}"
    );
    let error = open_fields(&text, &labelled("zzzzzz")).err().unwrap();
    assert!(error.to_string().len() < 1000 && error.message().contains("\"label\""), "{}", error.message().len());
}

#[test]
fn nan_is_advised_where_there_is_one() {
    let advice = |numbers: Numbers| {
        let error = decode_all(&open_fields("x\n1\nNA\n", &one("x", numbers)).unwrap()).err().unwrap();
        error.message().split_once("; ").unwrap().1.to_owned()
    };
    assert_eq!(advice(Numbers::f32()), "set `missing` to \"nan\" or to a value");
    assert_eq!(advice(Numbers::i64()), "set `missing` to a value");
}

#[test]
fn a_record_of_another_length_is_told_before_what_is_in_it() {
    let reader = open_fields("a,b\n1,2\nx\n", &one("a", Numbers::f32().from("a")));
    let error = reader.and_then(|reader| decode_all(&reader).map(drop)).unwrap_err();
    assert!(error.message().contains("expected 2 fields, found 1"), "{error}");
}

#[test]
fn a_column_may_be_named_by_its_position_up_to_the_last() {
    let at = |position: usize| open_fields("a,b\n1,2\n", &one("x", Numbers::f32().from(position)));
    assert_eq!(at(1).unwrap().len(), 1);
    assert_eq!(at(2).err().unwrap().kind(), ErrorKind::NotFound);
}

#[test]
fn each_bad_record_has_its_line() {
    let mut text = String::from("a,b\n");
    for row in 0..20_000 {
        text += if row % 10 == 3 { "x,\"two\nlines\"\n" } else { "1,\"one, two\"\n" };
    }
    let (_folder, path) = file(&text);
    let fields = features(Numbers::f32().from(["a"]));
    let reader = CsvReader::with_fields(path, &fields, &CsvOptions::default()).unwrap();
    for row in (0..2000u64).rev().map(|nth| 10 * nth + 3) {
        let error = decode(&reader, &[row]).err().unwrap();
        assert_eq!(error.location().line, Some(2 + row + row / 10), "record {row}");
    }
}

#[test]
fn a_summary_sums_integers_exactly_and_has_infinities() {
    let (_folder, path) = file(format!("i,x\n{},inf\n{},1\n-5,2.5\n", i64::MIN, i64::MAX));
    let summary = CsvSummary::of(&path, &CsvOptions::default()).unwrap();
    let integers = &summary.fields[0];
    assert_eq!((integers.sum, integers.mean), (Some(Figure::Whole(-6)), Some(-2.0)));
    let ends = [i64::MIN, i64::MAX].map(|end| Some(Figure::Whole(end.into())));
    assert_eq!([integers.min, integers.max], ends);
    let json = serde_json::to_value(&summary).unwrap();
    assert_eq!(
        (&json["fields"][1]["max"], &json["fields"][1]["sum"], &json["fields"][1]["min"]),
        (&"inf".into(), &"inf".into(), &1.0.into())
    );
    let (_folder, path) = file("x\n-inf\n1\ninf\n");
    let json = serde_json::to_value(CsvSummary::of(&path, &CsvOptions::default()).unwrap()).unwrap();
    assert_eq!((&json["fields"][0]["min"], &json["fields"][0]["mean"]), (&"-inf".into(), &"nan".into()));
}

#[test]
fn a_nul_is_no_table_unless_the_format_is_given_and_then_a_character() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("nul.csv");
    std::fs::write(&path, b"x,t\n1,a\0b\n2\0,c\n3,\0\n").unwrap();
    let error = Loader::open(&path).map(drop).unwrap_err();
    assert_eq!((error.kind(), error.location().byte), (ErrorKind::Format, Some(7)), "{error}");
    let fields = [("x".to_owned(), Numbers::f32().into()), ("t".to_owned(), Text::new(4).into())];
    let options = CsvOptions { header: Header::Yes, delimiter: Some(','), ..CsvOptions::default() };
    let reader = CsvReader::with_fields(&path, &fields, &options).unwrap();
    let batch = decode(&reader, &[0, 2]).unwrap();
    assert_eq!(batch.values::<u8>("t"), b"a\0b\0\0\0\0\0");
    assert_eq!(batch.values::<i64>("t_len"), [3, 1]);
    let error = decode(&reader, &[1]).map(drop).unwrap_err().to_string();
    assert!(error.contains("nul.csv:3") && error.contains(r#"expected f32, found "2\0""#), "{error}");
    // What a file holds beyond its first 64 KiB is not looked at to tell its format.
    let mut long = b"x,t\n".to_vec();
    (0..10_000).for_each(|_| long.extend_from_slice(b"1,abcd\n"));
    long.extend_from_slice(b"2,\0\n");
    std::fs::write(&path, &long).unwrap();
    assert_eq!(Loader::open(&path).unwrap().build().unwrap().count(), 10_001_usize.div_ceil(32));
}

#[test]
fn a_number_beyond_the_largest_is_an_error_that_names_it() {
    let (_folder, path) = file("a,b,c\n1,3.4e38,1\n1,1e39,1\n1,2,-1e400\ninf,-Infinity,1\n1,70000,2\n");
    let fields = |dtype| [("x".to_owned(), Numbers::of(dtype).from(["a", "b", "c"]))];
    let options = CsvOptions { header: Header::Yes, delimiter: Some(','), ..CsvOptions::default() };
    for (dtype, faults) in [
        (DType::F64, vec![(2, "c", "-1e400")]),
        (DType::F32, vec![(1, "b", "1e39"), (2, "c", "-1e400")]),
        (DType::Bf16, vec![(0, "b", "3.4e38"), (1, "b", "1e39"), (2, "c", "-1e400")]),
        (DType::F16, vec![(0, "b", "3.4e38"), (1, "b", "1e39"), (2, "c", "-1e400"), (4, "b", "70000")]),
    ] {
        let reader = CsvReader::with_fields(&path, &fields(dtype), &options).unwrap();
        for record in 0..5 {
            let decoded = decode(&reader, &[record]).map(drop);
            match faults.iter().find(|fault| fault.0 == record) {
                None => decoded.unwrap(),
                Some((_, column, text)) => {
                    let error = decoded.unwrap_err();
                    let message = format!("expected {dtype}, found {text:?}, which is too large for it");
                    assert_eq!((error.message(), error.location().column.as_deref()), (&*message, Some(*column)));
                    assert_eq!(error.location().line, Some(record + 2), "{error}");
                }
            }
        }
    }
    // Read from a mapping, by whole columns of halves, and by those who verify, too.
    let (_halves, halves) = file(format!("a,b\n{}65519,1\n1,65520\n-65520,2\n", "1,2\n".repeat(70)));
    for access in [Access::Read, MAPPED] {
        let options = CsvOptions { access, ..CsvOptions::default() };
        let field = || Numbers::of(DType::F16).from(["a", "b"]);
        let reader = CsvReader::with_fields(&halves, &one("x", field()), &options).unwrap();
        let bad: Vec<u64> = (0..73).filter(|id| decode(&reader, &[*id]).is_err()).collect();
        assert_eq!(bad, [71, 72]);
        let report =
            Loader::csv_with(&halves, options).field("x", field()).verify(|_| ControlFlow::Continue(())).unwrap();
        let bad: Vec<Option<u64>> = report.bad.iter().map(|bad| bad.location().record).collect();
        assert_eq!(bad, [Some(71), Some(72)]);
    }
    // Without fields, and where two are made of one column, too.
    let open = || Loader::csv(&path).batch_size(1);
    let twice = open().field("x", Numbers::f32().from("b")).field("y", Numbers::f32().from("b"));
    for loader in [open(), twice] {
        let batches: Vec<_> = loader.bad_records(BadRecords::Skip(BadLimits::default())).build().unwrap().collect();
        let sizes: Vec<usize> = batches.iter().map(|batch| batch.as_ref().unwrap().len()).collect();
        assert_eq!(sizes[1], 0, "{sizes:?}");
    }
}

#[test]
fn files_that_are_read_as_one_are_inspected_as_one() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("a.csv"), "x,t\n1,u\n,v\n").unwrap();
    std::fs::write(folder.path().join("b.csv"), "x;t\n2.5;\"w;w\"\n-4;u\n").unwrap();
    let inspect = || ringfeed::formats::Formats::new().inspect(folder.path().join("*.csv"));
    let inspection = inspect().unwrap();
    let x = &inspection.fields[0];
    assert_eq!((inspection.records, x.dtype.as_str(), x.count, x.missing), (4, "f32", 3, 1));
    assert_eq!(
        (x.sum, x.min, x.max, x.mean),
        (Some((-0.5).into()), Some((-4.0).into()), Some(2.5.into()), Some(-0.5 / 3.0))
    );
    let json = serde_json::to_value(&inspection).unwrap();
    assert_eq!(
        (&json["first"], &json["last"]),
        (&json!({"x": "1", "t": "u"}), &json!({"x": "-4", "t": "u"})),
        "{json}"
    );
    std::fs::write(folder.path().join("c.csv"), "x,y\n1,2\n").unwrap();
    let error = inspect().unwrap_err();
    assert!(error.kind() == ErrorKind::Schema && error.to_string().contains("c.csv"), "{error}");
}

/// What becomes of a field: its tensor's names and what each record gives, or why it is refused.
fn outcome(text: &str, fields: &Fields, name: &str) -> std::result::Result<(String, Vec<Option<String>>), String> {
    let options = CsvOptions { header: Header::Yes, ..CsvOptions::default() };
    let reader = open_as(text, fields, &options).map_err(|error| error.message().to_owned())?;
    let spec = reader.tensors().iter().find(|spec| spec.name == name).unwrap();
    let value = |batch: Batch| match spec.dtype {
        DType::I64 => format!("{:?}", batch.values::<i64>(name)),
        DType::U8 => format!("{:?}", batch.values::<u8>(name)),
        DType::F64 => format!("{:?}", batch.values::<f64>(name)),
        _ => format!("{:?}", batch.values::<f32>(name)),
    };
    let all = (0..reader.len()).map(|id| decode(&reader, &[id]).map(value).ok()).collect();
    Ok((format!("{:?} {:?} {:?}", spec.shape, spec.classes, spec.categories), all))
}

#[test]
fn a_field_means_the_same_whatever_else_is_made_of_its_column() {
    let text = "k,n,m,w\n007,4.0,1,9999999999\n7,1e2,a,5\n 7,inf,NA,6\n8 ,3,-2,7\n\"8 \",nan,01,\n";
    let of = |column: &str| -> Vec<Field> {
        vec![
            Class.from(column),
            Class::of(["7", "8 ", "a"]).from(column),
            Class.one_hot().from(column),
            Category::new().from([column]),
            Category::new().missing(-1).from([column, "k", column]),
            Numbers::i64().from(column),
            Numbers::f32().from(column),
            Numbers::f32().missing(Missing::Value(-5.0)).from(["n", column, column]),
            Text::new(12).from(column),
        ]
    };
    let mut compared = 0;
    for column in ["k", "n", "m", "w"] {
        for field in of(column) {
            let alone = outcome(text, &one("x", field.clone()), "x");
            for other in of(column).into_iter().chain([Text::new(12).from(["w", "k"]), Numbers::f64().from(0)]) {
                let beside = [one("x", field.clone()), one("other", other.clone())].concat();
                let other = outcome(text, &one("other", other), "other");
                for fields in [beside.iter().rev().cloned().collect(), beside] {
                    // What the other one refuses is refused of both.
                    match (&alone, &other, outcome(text, &fields, "x")) {
                        (Ok((alone, records)), Ok((_, others)), Ok((names, found))) => {
                            assert_eq!(*alone, names, "{fields:?}");
                            let expected =
                                records.iter().zip(others).map(|(own, other)| own.clone().filter(|_| other.is_some()));
                            assert_eq!(found, expected.collect::<Vec<_>>(), "{fields:?}");
                            compared += found.iter().flatten().count();
                        }
                        (Err(alone), Ok(_), found) => assert_eq!(Err(alone.clone()), found, "{fields:?}"),
                        (_, other, found) => assert!(other.is_err() && found.is_err(), "{fields:?}: {found:?}"),
                    }
                }
            }
        }
    }
    assert!(compared > 500, "{compared}");
    let beside = [one("t", Text::new(9).from("k")), one("y", Category::new().from(["k"]))].concat();
    for (specs, error) in both_ways("k,n\n007,1\n7,2\n8,3\n", &beside) {
        assert_eq!(specs[2].categories.as_ref().unwrap()[0], ["007", "7", "8"]);
        assert!(error.is_none());
    }
    let reader = open_fields("k,n\n007,1\n7,2\n8,3\n", &beside).unwrap();
    assert_eq!(decode_all(&reader).unwrap().values::<i64>("y"), [0, 1, 2]);
    // A column by its name and its position is one, too.
    let twice = [one("p", Numbers::f32().from(["b", "a"])), one("q", Numbers::i64().from(1))].concat();
    let batch = decode_all(&open_fields("a,b\n1,2\n3,4\n", &twice).unwrap()).unwrap();
    assert_eq!((batch.values::<f32>("p"), batch.values::<i64>("q")), (vec![2.0, 1.0, 4.0, 3.0], vec![2, 4]));
}

#[test]
fn a_word_for_a_number_may_stand_for_a_missing_value_however_it_is_spelt() {
    let text = "a,b\n1,2\n2,inf\n3,-Infinity\n4,NAN\n5,+INF\n6,-3\n7,-nan\n";
    let (five, inf, nan) = (5.0, f32::INFINITY, f32::NAN);
    let cases: [(&[&str], [f32; 7]); 4] = [
        (&["inf", "-inf", "nan"], [2.0, five, five, five, five, -3.0, five]),
        (&["Infinity", "-3.0"], [2.0, five, -inf, nan, five, five, nan]),
        (&["-INF", "-999"], [2.0, inf, five, nan, inf, -3.0, nan]),
        (&["NaN"], [2.0, inf, -inf, five, inf, -3.0, five]),
    ];
    for (tokens, expected) in cases {
        let missing_tokens = tokens.iter().map(|token| (*token).to_owned()).collect();
        let options = CsvOptions { missing_tokens, ..CsvOptions::default() };
        for dtype in [DType::F32, DType::F64, DType::F16, DType::Bf16, DType::I64] {
            let field = Numbers::of(dtype).missing(Missing::Value(5.0)).from("b");
            let reader = open_as(text, &one("b", field), &options).unwrap();
            for (id, expected) in (0..).zip(expected) {
                let found = decode(&reader, &[id]).map(|batch| match dtype {
                    DType::F32 => batch.values::<f32>("b")[0],
                    DType::F64 => batch.values::<f64>("b")[0] as f32,
                    DType::F16 => batch.values::<f16>("b")[0].to_f32(),
                    DType::Bf16 => batch.values::<bf16>("b")[0].to_f32(),
                    _ => batch.values::<i64>("b")[0] as f32,
                });
                match found {
                    Err(_) => assert!(dtype == DType::I64 && !expected.is_finite(), "{tokens:?} {dtype} {id}"),
                    Ok(found) => assert_eq!(found.to_string(), expected.to_string(), "{tokens:?} {dtype} {id}"),
                }
            }
        }
        // What is inferred of the columns, and what is counted, says the same.
        let fives = expected.iter().filter(|number| **number == five).count() as u64;
        let (_folder, path) = file(text);
        assert_eq!(CsvSummary::of(&path, &options).unwrap().fields[1].missing, fives, "{tokens:?}");
    }
}

#[test]
fn a_number_that_only_people_read_is_told_what_to_do() {
    let point = "; numbers have a decimal point: convert the file";
    for (text, parts) in [
        ("1,5;2,5\n3,5;4,5\n", ["column \"column_1\" has \"1,5\"", point]),
        ("price;mass\n1,5;2,5\n3,5;4,5\n", ["column \"price\" has \"1,5\"", point]),
        ("price\n$3\n$4\n", ["column \"price\" has \"$3\"", "take \"$\" out of the column"]),
        (
            "name,city\nann,rome\nbob,oslo\n",
            ["column \"name\" has \"ann\"; say in `fields`", "no column holds numbers alone"],
        ),
    ] {
        let error = open(text, &CsvOptions::default()).err().unwrap();
        assert_eq!(error.kind(), ErrorKind::Schema);
        assert!(parts.iter().all(|part| error.message().contains(part)), "{error}");
    }
    for (field, part) in [("1,5", point), ("1 000", "; a number is digits with a sign")] {
        let reader = open_fields(format!("x;y\n1;2\n{field};3\n"), &one("x", Numbers::f32())).unwrap();
        let error = decode_all(&reader).err().unwrap();
        let message = format!("expected f32, found {field:?}{part}");
        assert!(error.message().starts_with(&message), "{error}");
    }
}

#[test]
fn of_two_tensors_of_a_column_the_one_that_a_value_does_not_fit_is_named() {
    let text = long_table(|_| "7".to_owned(), |i| if i == 17 { "1.5".to_owned() } else { i.to_string() });
    let fields = [one("a", Numbers::f32().from("*")), one("b", Numbers::of(DType::I32).from("*"))].concat();
    for (_, error) in both_ways(&text, &fields) {
        let error = error.unwrap().to_string();
        assert!(error.contains("column \"x\": expected i32") && error.contains("was taken for i32 from "), "{error}");
    }
}

#[test]
fn class_indices_keep_their_numbers_in_every_type_or_are_refused() {
    let text: String = (0..=2050).map(|class| format!("1,{class}\n")).collect();
    let open = |classes: usize, dtype| {
        let text = format!("x,label\n{}", &text[..text.match_indices('\n').nth(classes).unwrap().0 + 1]);
        open_as(text, &one("label", Class.dtype(dtype)), &CsvOptions::default())
    };
    let halves = decode_all(&open(2048, DType::F16).unwrap()).unwrap();
    assert_eq!(f32::from(*halves.values::<f16>("label").last().unwrap()), 2048.0);
    for (classes, dtype, index) in [(2050, DType::F16, 2049), (258, DType::Bf16, 257), (300, DType::U8, 300)] {
        let error = open(classes, dtype).err().unwrap();
        assert!(error.to_string().contains(&format!("class index {index} does not fit {dtype}")), "{error}");
    }
}

#[test]
fn class_indices_may_be_written_as_fractions() {
    let read = |text: &str| {
        let reader = open_as(text, &one("label", Class), &CsvOptions::default()).unwrap();
        (reader.classes().map(|names| names.to_vec()), decode_all(&reader).unwrap().values::<i64>("label"))
    };
    let text: String = (0..12).map(|class| format!("1,{class}.0\n")).collect();
    assert_eq!(read(&format!("x,label\n{text}")), (None, (0..12).collect()));
    assert_eq!(read("x,label\n1,1e0\n1,2\n1,0.00\n"), (None, vec![1, 2, 0]));
    assert_eq!(read("x,label\n1, 0.0\n1, 10.0\n1, 2.0\n"), (None, vec![0, 10, 2]));
    let (names, labels) = read("x,label\n1,1.5\n1,0.5\n");
    assert_eq!((names.unwrap(), labels), (vec!["0.5".to_owned(), "1.5".to_owned()], vec![1, 0]));
}

#[test]
fn a_mark_for_an_unknown_number_is_no_header() {
    let reader = open("5.1,?,1\n4.9,3.0,0\n4.7,3.2,1\n", &CsvOptions::default()).unwrap();
    assert_eq!(reader.len(), 3);
    let reader = open("a,b?,c\n4.9,3.0,0\n4.7,3.2,1\n", &CsvOptions::default()).unwrap();
    assert_eq!(reader.len(), 2);
    let reader = open(",2020-01-31,2020-02-29\nstore1,1.5,2.5\nstore2,3,4\n", &CsvOptions::default()).unwrap();
    assert_eq!(reader.len(), 2);
}

#[test]
fn what_can_not_stand_for_a_missing_number_is_refused_at_once() {
    let file = tempfile::Builder::new().suffix(".csv").tempfile().unwrap();
    std::fs::write(file.path(), "n\n1\n2\n").unwrap();
    for missing in [Missing::Nan, Missing::Value(0.5), Missing::Value(300.0)] {
        let field = Numbers::of(DType::U8).missing(missing).from("n");
        let error = Loader::csv(file.path()).field("x", field).build().err().unwrap();
        assert_eq!(error.kind(), ErrorKind::Config, "{error}");
        assert!(error.message().contains("which is not an element of type u8"), "{error}");
    }
}

#[test]
fn a_table_whose_first_cells_are_those_of_a_picture_is_a_table() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("trials.tsv");
    std::fs::write(&path, "P1\t12\t34\nP1\t13\t40\nP2\t9\t41\n").unwrap();
    let found = ringfeed::formats::Formats::new().inspect(&path).unwrap();
    assert_eq!((found.format, found.records), ("csv", 3));
}

#[test]
fn the_largest_class_index_fits_its_type_or_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.csv");
    std::fs::write(&path, "y\n4294967294\n300\n").unwrap();
    for dtype in ["i32", "u8", "f32"] {
        let field: Field = serde_json::from_value(serde_json::json!({ "class": [], "dtype": dtype })).unwrap();
        let error = Loader::open(&path).unwrap().field("y", field).build().map(drop).unwrap_err();
        assert!(error.message().contains("does not fit"), "{dtype}: {error}");
    }
}
