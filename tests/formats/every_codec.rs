//! The same records in every container, and every codec for each of their fields: a field becomes the same tensor, from
//! wherever it comes.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_array::builder::{Float32Builder, Int64Builder, ListBuilder};
use arrow_array::{ArrayRef, BinaryArray, Float64Array, Int64Array, RecordBatch, StringArray};
use ringfeed::csv::ColumnRef;
use ringfeed::error::Location;
use ringfeed::field::{Array, Boxes, Category, Class, Field, Image, Numbers, Text, Tokens};
use ringfeed::formats::{TextFiles, TextLines};
use ringfeed::read::{Container, FieldInfo, FieldKind, List, Scratch, Value, Visit};
use ringfeed::settings::SourceConfig;
use ringfeed::tensor::{NumberSlice, Schema};
use ringfeed::{DType, Loader, LoaderConfig, Result};
use serde_json::json;

const COUNT: usize = 5;

/// What a container must be able to hold.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Holds {
    Number,
    Text,
    List,
    Bytes,
}

use Holds::{Bytes as OfBytes, List as OfList, Number as OfNumber, Text as OfText};

#[derive(Clone)]
struct Row {
    number: f64,
    whole: i64,
    list: Vec<i64>,
    /// Boxes, one after another.
    boxes: Vec<f32>,
    kind: &'static str,
    text: String,
    /// Name and contents of a file.
    photo: (String, Vec<u8>),
    map: (String, Vec<u8>),
    sound: (String, Vec<u8>),
    array: (String, Vec<u8>),
    note: (String, Vec<u8>),
}

impl Row {
    fn files(&self) -> [(&'static str, &(String, Vec<u8>)); 5] {
        [
            ("photo", &self.photo),
            ("map", &self.map),
            ("sound", &self.sound),
            ("array", &self.array),
            ("note", &self.note),
        ]
    }

    fn texts(&self) -> Vec<(String, &str)> {
        let own = [("kind".to_owned(), self.kind), ("text".to_owned(), &*self.text)];
        own.into_iter().chain(self.files().map(|(name, (path, _))| (format!("{name}_path"), &**path))).collect()
    }
}

fn npy(numbers: &[f32]) -> Vec<u8> {
    let header = format!("{{'descr': '<f4', 'fortran_order': False, 'shape': ({},), }}", numbers.len());
    let header = format!("{header:<117}\n");
    let mut bytes = b"\x93NUMPY\x01\0".to_vec();
    bytes.extend((header.len() as u16).to_le_bytes());
    bytes.extend(header.as_bytes());
    bytes.extend(numbers.iter().flat_map(|number| number.to_le_bytes()));
    bytes
}

/// A sound of 50 frames at 8 kHz.
fn wav(nth: usize) -> Vec<u8> {
    let data: Vec<u8> = (0..50).flat_map(|frame| (frame * 100 * (nth as i16 + 1)).to_le_bytes()).collect();
    let mut bytes = b"RIFF".to_vec();
    bytes.extend((36 + data.len() as u32).to_le_bytes());
    bytes.extend(b"WAVEfmt \x10\0\0\0\x01\0\x01\0");
    bytes.extend([8000u32, 16_000].iter().flat_map(|number| number.to_le_bytes()));
    bytes.extend(b"\x02\0\x10\0data");
    bytes.extend((data.len() as u32).to_le_bytes());
    [bytes, data].concat()
}

/// The records, whose files lie in `folder`.
fn rows(folder: &Path) -> Vec<Row> {
    let fixture = |name: &str| fs::read(Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures").join(name)).unwrap();
    let photos = ["rgb.png", "rgb.jpg", "rgb-lossless.webp", "rgb.bmp", "rgb-raw.tiff"];
    let maps = ["palette-8.png", "palette-4.png", "grey-8.png", "palette-2.png", "grey-2.png"];
    let row = |nth: usize| Row {
        number: nth as f64 / 4.0 - 0.5,
        whole: (nth % 3) as i64,
        list: (0..1 + nth % 3).map(|step| (10 * nth + step) as i64).collect(),
        boxes: (0..4 * (nth % 2 + 1)).map(|at| (at % 4 * 3 + nth) as f32 + 0.5).collect(),
        kind: ["ant", "bee", "cat"][nth % 3],
        text: ["the cat sat", "on the mat", "and, \"said\" the dog", "x", "the end"][nth].to_owned(),
        photo: (photos[nth].to_owned(), fixture(&format!("images/{}", photos[nth]))),
        map: (maps[nth].to_owned(), fixture(&format!("maps/{}", maps[nth]))),
        sound: (format!("{nth}.wav"), wav(nth)),
        array: (format!("{nth}.npy"), npy(&[nth as f32, 0.5, -1.0])),
        note: (format!("note-{nth}"), format!("note {nth}").into_bytes()),
    };
    let rows: Vec<Row> = (0..COUNT).map(row).collect();
    write_files(&rows, folder);
    rows
}

fn write_files(rows: &[Row], folder: &Path) {
    for (_, (name, bytes)) in rows.iter().flat_map(Row::files) {
        fs::write(folder.join(name), bytes).unwrap();
    }
}

type Named = Vec<(&'static str, Field)>;

/// For each codec: what a container must hold, the field that it is made of, and the tensors, with `at` for the name that
/// a field has in the container.
fn codecs(at: &dyn Fn(&str) -> ColumnRef) -> Vec<(Holds, &'static str, Named)> {
    let mut codecs: Vec<(Holds, &'static str, Named)> = Vec::new();
    let mut add = |holds, of, field: Field| codecs.push((holds, of, vec![("tensor", field)]));
    add(OfNumber, "number", Numbers::f32().from(at("number")));
    add(OfNumber, "number", Numbers::f64().from(at("number")));
    add(OfNumber, "number", Numbers::of(DType::F16).from(at("number")));
    add(OfNumber, "whole", Numbers::i64().from(at("whole")));
    add(OfNumber, "whole", Numbers::of(DType::U8).from(at("whole")));
    add(OfNumber, "whole", Class.from(at("whole")));
    add(OfNumber, "whole", Class::of(["a", "b", "c"]).one_hot().from(at("whole")));
    add(OfNumber, "whole", Category::new().from(at("whole")));
    add(OfText, "kind", Class.from(at("kind")));
    add(OfText, "kind", Class::of(["cat", "bee", "ant"]).one_hot().dtype(DType::U8).from(at("kind")));
    add(OfText, "kind", Category::new().from(at("kind")));
    add(OfText, "text", Text::new(24).from(at("text")));
    add(OfText, "text", Text::new(5).cut().from(at("text")));
    add(OfList, "list", Numbers::i64().max_len(4).from(at("list")));
    add(OfList, "list", Numbers::f32().list().from(at("list")));
    add(OfList, "list", Numbers::i64().ragged().from(at("list")));
    add(OfList, "list", Tokens::new(3).from(at("list")));
    add(OfBytes, "photo", Image::rgb(8, 8).from(at("photo")));
    add(OfBytes, "photo", Image::grey(5, 7).dtype(DType::F32).from(at("photo")));
    add(OfBytes, "map", Image::index_map(8, 8).from(at("map")));
    add(OfBytes, "array", Array::new().from(at("array")));
    add(OfText, "photo_path", Image::rgb(8, 8).from(at("photo_path")).file());
    add(OfText, "map_path", Image::index_map(8, 8).from(at("map_path")).file());
    add(OfText, "array_path", Array::new().from(at("array_path")).file());
    add(OfText, "note_path", Text::new(9).from(at("note_path")).file());
    #[cfg(feature = "audio")]
    {
        use ringfeed::field::Audio;
        add(OfBytes, "sound", Audio::new(8000).length(64).from(at("sound")));
        add(OfBytes, "sound", Audio::new(16_000).length(128).channels(2).from(at("sound")));
        add(OfText, "sound_path", Audio::new(8000).length(64).from(at("sound_path")).file());
    }
    #[cfg(feature = "tokenizers")]
    {
        use ringfeed::field::Tokenizer;
        let bpe = || {
            let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/tokenizers/bpe.json");
            Tokenizer::new(path).max_len(24)
        };
        add(OfText, "text", bpe().from(at("text")));
        add(OfText, "note_path", bpe().from(at("note_path")).file());
    }
    // Two pictures of a record, and boxes that go with one of them.
    let scene = |of: &str| Image::rgb(9, 6).geometry("scene").from(at(of));
    let boxes = || Boxes::new(3).geometry("scene").from(at("boxes"));
    codecs.push((OfBytes, "photo boxes", vec![("tensor", scene("photo")), ("boxes", boxes())]));
    codecs.push((
        OfText,
        "photo_path map_path number",
        vec![
            ("tensor", Image::rgb(4, 4).geometry("g").from(at("photo_path")).file()),
            ("map", Image::index_map(4, 4).geometry("g").from(at("map_path")).file()),
            ("number", Numbers::f32().from(at("number"))),
        ],
    ));
    codecs
}

/// Names, types and shapes of tensors, and the bytes of all samples.
type Made = Vec<(String, DType, Vec<usize>, Vec<u8>)>;

fn made(loader: Loader, fields: Named) -> Result<Made> {
    crate::common::watchdog::watch();
    let loader = fields.into_iter().fold(loader, |loader, (name, field)| loader.field(name, field));
    let batch = loader.batch_size(COUNT).workers(1).build()?.next().unwrap()?;
    assert_eq!(batch.len(), COUNT);
    let schema: &Schema = batch.schema();
    let tensors = schema.tensors().iter().map(|spec| {
        let tensor = batch.tensor(&spec.name).unwrap();
        (spec.name.clone(), tensor.dtype(), tensor.shape().to_vec(), tensor.bytes().to_vec())
    });
    Ok(tensors.collect())
}

/// Records in memory.
struct Own {
    /// Files lie beside it.
    path: PathBuf,
    rows: Vec<Row>,
    fields: Vec<FieldInfo>,
}

impl Own {
    fn new(folder: &Path, rows: &[Row]) -> Self {
        let mut fields = vec![
            FieldInfo::new("number", FieldKind::Numbers(DType::F64)),
            FieldInfo::new("whole", FieldKind::Numbers(DType::I64)),
            FieldInfo::new("list", FieldKind::Numbers(DType::I64)).shape(&[0]),
            FieldInfo::new("boxes", FieldKind::Numbers(DType::F32)).shape(&[0]),
        ];
        fields.extend(rows[0].texts().iter().map(|(name, _)| FieldInfo::new(name, FieldKind::Text)));
        fields.extend(rows[0].files().map(|(name, _)| FieldInfo::new(name, FieldKind::Bytes)));
        Self { path: folder.join("own"), rows: rows.to_vec(), fields }
    }
}

/// Boxes as a list of lists.
struct BoxList<'a>(&'a [f32]);

impl List for BoxList<'_> {
    fn each(&self, visit: &mut dyn FnMut(Value<'_>) -> Result<()>) -> Result<()> {
        self.0.chunks(4).try_for_each(|one| visit(Value::Numbers(NumberSlice::F32(one))))
    }
}

impl Container for Own {
    fn len(&self) -> u64 {
        self.rows.len() as u64
    }

    fn fields(&self) -> &[FieldInfo] {
        &self.fields
    }

    fn fetch(&self, _: &[u64], _: usize, _: &mut Scratch) -> Result<()> {
        Ok(())
    }

    fn read(&self, record: u64, _: usize, _: &mut Scratch, visit: &mut Visit<'_>) -> Result<()> {
        let row = &self.rows[record as usize];
        visit(0, Value::F64(row.number))?;
        visit(1, Value::I64(row.whole))?;
        visit(2, Value::Numbers(NumberSlice::I64(&row.list)))?;
        visit(3, Value::List(&BoxList(&row.boxes)))?;
        let texts = row.texts();
        for (at, (_, text)) in texts.iter().enumerate() {
            visit(4 + at, Value::Text(text))?;
        }
        for (at, (_, (_, bytes))) in row.files().iter().enumerate() {
            visit(4 + texts.len() + at, Value::Bytes(bytes))?;
        }
        Ok(())
    }

    fn place(&self, record: u64) -> Location {
        Location { path: Some(self.path.clone()), record: Some(record), ..Location::default() }
    }
}

fn json_of(row: &Row) -> serde_json::Map<String, serde_json::Value> {
    let boxes: Vec<&[f32]> = row.boxes.chunks(4).collect();
    let json = json!({"number": row.number, "whole": row.whole, "list": row.list, "boxes": boxes});
    let serde_json::Value::Object(mut json) = json else { unreachable!("it is an object") };
    json.extend(row.texts().into_iter().map(|(name, text)| (name, text.into())));
    json
}

fn csv(rows: &[Row], folder: &Path) -> PathBuf {
    let path = folder.join("rows.csv");
    let mut writer = csv::Writer::from_path(&path).unwrap();
    let texts = rows[0].texts();
    writer.write_record(["number", "whole"].into_iter().chain(texts.iter().map(|(name, _)| &**name))).unwrap();
    for row in rows {
        let texts = row.texts().into_iter().map(|(_, text)| text.to_owned());
        writer.write_record([row.number.to_string(), row.whole.to_string()].into_iter().chain(texts)).unwrap();
    }
    writer.flush().unwrap();
    path
}

fn jsonl(rows: &[Row], folder: &Path) -> PathBuf {
    let path = folder.join("rows.jsonl");
    let lines = rows.iter().map(|row| serde_json::to_string(&json_of(row)).unwrap() + "\n");
    fs::write(&path, lines.collect::<String>()).unwrap();
    path
}

fn table(rows: &[Row]) -> RecordBatch {
    let mut lists = ListBuilder::new(Int64Builder::new());
    let mut boxes = ListBuilder::new(ListBuilder::new(Float32Builder::new()));
    for row in rows {
        lists.append_value(row.list.iter().copied().map(Some));
        for one in row.boxes.chunks(4) {
            boxes.values().append_value(one.iter().copied().map(Some));
        }
        boxes.append(true);
    }
    let mut columns: Vec<(String, ArrayRef)> = vec![
        ("number".to_owned(), Arc::new(Float64Array::from_iter_values(rows.iter().map(|row| row.number)))),
        ("whole".to_owned(), Arc::new(Int64Array::from_iter_values(rows.iter().map(|row| row.whole)))),
        ("list".to_owned(), Arc::new(lists.finish())),
        ("boxes".to_owned(), Arc::new(boxes.finish())),
    ];
    for (at, (name, _)) in rows[0].texts().into_iter().enumerate() {
        columns.push((name, Arc::new(StringArray::from_iter_values(rows.iter().map(|row| row.texts()[at].1)))));
    }
    for (at, (name, _)) in rows[0].files().into_iter().enumerate() {
        let bytes = rows.iter().map(|row| &row.files()[at].1.1);
        columns.push((name.to_owned(), Arc::new(BinaryArray::from_iter_values(bytes))));
    }
    RecordBatch::try_from_iter(columns).unwrap()
}

fn parquet(rows: &[Row], folder: &Path) -> PathBuf {
    let (path, batch) = (folder.join("rows.parquet"), table(rows));
    let file = fs::File::create(&path).unwrap();
    let mut writer = parquet::arrow::ArrowWriter::try_new(file, batch.schema(), None).unwrap();
    writer.write(&batch).unwrap();
    writer.close().unwrap();
    path
}

fn arrow(rows: &[Row], folder: &Path) -> PathBuf {
    let (path, batch) = (folder.join("rows.arrow"), table(rows));
    let file = fs::File::create(&path).unwrap();
    let mut writer = arrow_ipc::writer::StreamWriter::try_new(file, &batch.schema()).unwrap();
    writer.write(&batch).unwrap();
    writer.finish().unwrap();
    path
}

/// The parts of a message in the format of protocol buffers: fields of bytes, by their numbers.
fn message(fields: &[(u8, &[u8])]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (number, field) in fields {
        bytes.push(number << 3 | 2);
        let mut len = field.len();
        while len > 127 {
            bytes.push(len as u8 | 128);
            len >>= 7;
        }
        bytes.push(len as u8);
        bytes.extend_from_slice(field);
    }
    bytes
}

fn tfrecord(rows: &[Row], folder: &Path) -> PathBuf {
    let path = folder.join("rows.tfrecord");
    let floats = |numbers: &mut dyn Iterator<Item = f32>| {
        let packed: Vec<u8> = numbers.flat_map(f32::to_le_bytes).collect();
        message(&[(2, &message(&[(1, &packed)]))])
    };
    // Small numbers are a byte each.
    let wholes = |numbers: &[i64]| {
        let packed: Vec<u8> = numbers.iter().map(|number| *number as u8).collect();
        message(&[(3, &message(&[(1, &packed)]))])
    };
    let record = |row: &Row| {
        let mut features = vec![
            ("number".to_owned(), floats(&mut [row.number as f32].into_iter())),
            ("whole".to_owned(), wholes(&[row.whole])),
            ("list".to_owned(), wholes(&row.list)),
            ("boxes".to_owned(), floats(&mut row.boxes.iter().copied())),
        ];
        let bytes = |bytes: &[u8]| message(&[(1, &message(&[(1, bytes)]))]);
        features.extend(row.texts().into_iter().map(|(name, text)| (name, bytes(text.as_bytes()))));
        features.extend(row.files().map(|(name, (_, file))| (name.to_owned(), bytes(file))));
        let entries: Vec<Vec<u8>> =
            features.iter().map(|(name, feature)| message(&[(1, name.as_bytes()), (2, feature)])).collect();
        let entries: Vec<(u8, &[u8])> = entries.iter().map(|entry| (1, &**entry)).collect();
        crate::samples::framed(&message(&[(1, &message(&entries))]))
    };
    fs::write(&path, rows.iter().flat_map(record).collect::<Vec<u8>>()).unwrap();
    path
}

fn tar(rows: &[Row], folder: &Path) -> PathBuf {
    let path = folder.join("rows.tar");
    let mut builder = tar::Builder::new(Vec::new());
    for (nth, row) in rows.iter().enumerate() {
        let json = serde_json::to_vec(&json_of(row)).unwrap();
        let mut append = |extension: &str, bytes: &[u8]| {
            let mut header = tar::Header::new_gnu();
            header.set_size(bytes.len() as u64);
            builder.append_data(&mut header, format!("{nth}.{extension}"), bytes).unwrap();
        };
        append("json", &json);
        row.files().iter().for_each(|(name, (_, bytes))| append(name, bytes));
        row.texts().iter().for_each(|(name, text)| append(name, text.as_bytes()));
    }
    fs::write(&path, builder.into_inner().unwrap()).unwrap();
    path
}

/// Records with an offset each behind their number.
fn with_offsets(records: &[Vec<u8>]) -> Vec<u8> {
    let count = records.len() as u32;
    let mut file = count.to_le_bytes().to_vec();
    let mut end = 4 * (count + 2);
    file.extend(end.to_le_bytes());
    for record in records {
        end += record.len() as u32;
        file.extend(end.to_le_bytes());
    }
    [file, records.concat()].concat()
}

/// Values one after another, behind the lengths of those that may have another.
fn sized(values: &[(bool, Vec<u8>)]) -> Vec<u8> {
    let lengths = values.iter().filter(|(varies, _)| *varies).flat_map(|(_, value)| (value.len() as u32).to_le_bytes());
    lengths.chain(values.iter().flat_map(|(_, value)| value.iter().copied())).collect()
}

fn mds(rows: &[Row], folder: &Path) -> PathBuf {
    let root = folder.join("mds");
    fs::create_dir(&root).unwrap();
    write_files(rows, &root);
    let values = |row: &Row| {
        let mut values: Vec<(String, &str, Option<u32>, Vec<u8>)> = vec![
            ("number".to_owned(), "float64", Some(8), row.number.to_le_bytes().to_vec()),
            ("whole".to_owned(), "int", Some(8), row.whole.to_le_bytes().to_vec()),
            ("json".to_owned(), "json", None, serde_json::to_vec(&json_of(row)).unwrap()),
        ];
        let texts = row.texts().into_iter().map(|(name, text)| (name, "str", None, text.as_bytes().to_vec()));
        values.extend(texts);
        values.extend(row.files().map(|(name, (_, bytes))| (name.to_owned(), "bytes", None, bytes.clone())));
        values
    };
    let record = |row: &Row| {
        sized(&values(row).into_iter().map(|(_, _, size, value)| (size.is_none(), value)).collect::<Vec<_>>())
    };
    let shard = with_offsets(&rows.iter().map(record).collect::<Vec<_>>());
    let columns = values(&rows[0]);
    let index = json!({"version": 2, "shards": [{
        "format": "mds", "samples": rows.len(),
        "column_names": columns.iter().map(|column| &column.0).collect::<Vec<_>>(),
        "column_encodings": columns.iter().map(|column| column.1).collect::<Vec<_>>(),
        "column_sizes": columns.iter().map(|column| column.2).collect::<Vec<_>>(),
        "raw_data": {"basename": "shard.00000.mds", "bytes": shard.len()},
    }]});
    fs::write(root.join("shard.00000.mds"), shard).unwrap();
    fs::write(root.join("index.json"), index.to_string()).unwrap();
    root
}

fn litdata(rows: &[Row], folder: &Path) -> PathBuf {
    let root = folder.join("litdata");
    fs::create_dir(&root).unwrap();
    write_files(rows, &root);
    let values = |row: &Row| {
        let list = row.list.iter().flat_map(|number| number.to_le_bytes()).collect();
        let mut values: Vec<(&str, Vec<u8>)> = vec![
            ("float", row.number.to_le_bytes().to_vec()),
            ("int", row.whole.to_le_bytes().to_vec()),
            ("no_header_numpy:3", list),
        ];
        values.extend(row.texts().into_iter().map(|(_, text)| ("str", text.as_bytes().to_vec())));
        values.extend(row.files().map(|(_, (_, bytes))| ("bytes", bytes.clone())));
        values
    };
    let record = |row: &Row| sized(&values(row).into_iter().map(|(_, value)| (true, value)).collect::<Vec<_>>());
    let chunk = with_offsets(&rows.iter().map(record).collect::<Vec<_>>());
    let formats: Vec<&str> = values(&rows[0]).iter().map(|(format, _)| *format).collect();
    let index = json!({
        "chunks": [{"chunk_bytes": chunk.len(), "chunk_size": rows.len(), "dim": null, "filename": "chunk-0-0.bin"}],
        "config": {"compression": null, "data_format": formats},
    });
    fs::write(root.join("chunk-0-0.bin"), chunk).unwrap();
    fs::write(root.join("index.json"), index.to_string()).unwrap();
    root
}

#[test]
fn a_field_becomes_the_same_tensor_from_every_container() -> Result<()> {
    let folder = tempfile::tempdir().unwrap();
    let rows = rows(folder.path());
    let plain = |name: &str| ColumnRef::from(name);
    let in_json = |name: &str| match rows[0].files().iter().any(|(file, _)| *file == name) {
        true => plain(name),
        false => format!("json:/{name}").into(),
    };
    let of_shards = |name: &str| match ["list", "boxes"].contains(&name) {
        true => format!("json:/{name}").into(),
        false => plain(name),
    };
    let position = |name: &str| {
        let texts = rows[0].texts();
        let (texts, files) = (texts.iter().map(|(name, _)| &**name), rows[0].files());
        let names: Vec<&str> =
            ["number", "whole", "list"].into_iter().chain(texts).chain(files.iter().map(|(name, _)| *name)).collect();
        ColumnRef::from(names.iter().position(|other| *other == name).unwrap_or(usize::MAX))
    };
    let expected: Vec<Made> = {
        let own = || {
            let (folder, rows) = (folder.path().to_owned(), rows.clone());
            Loader::from(LoaderConfig::default()).container(move |_| Ok(Own::new(&folder, &rows)))
        };
        let all = codecs(&plain).into_iter();
        all.map(|(_, of, fields)| made(own(), fields).unwrap_or_else(|error| panic!("{of}: {error}"))).collect()
    };
    type At<'a> = &'a dyn Fn(&str) -> ColumnRef;
    let all = [OfNumber, OfText, OfList, OfBytes];
    let containers: [(&str, PathBuf, At<'_>, &[Holds]); 8] = [
        ("csv", csv(&rows, folder.path()), &plain, &[OfNumber, OfText]),
        ("jsonl", jsonl(&rows, folder.path()), &plain, &[OfNumber, OfText, OfList]),
        ("parquet", parquet(&rows, folder.path()), &plain, &all),
        ("arrow", arrow(&rows, folder.path()), &plain, &all),
        ("tfrecord", tfrecord(&rows, folder.path()), &plain, &all),
        ("tar", tar(&rows, folder.path()), &in_json, &all),
        ("mds", mds(&rows, folder.path()), &of_shards, &all),
        ("litdata", litdata(&rows, folder.path()), &position, &all),
    ];
    for (container, path, at, holds) in containers {
        let mut count = 0;
        for ((needs, of, fields), expected) in codecs(at).into_iter().zip(&expected) {
            let has_boxes = container != "litdata" || !of.contains("boxes");
            if holds.contains(&needs) && has_boxes {
                let found = made(Loader::open(&path)?, fields);
                assert!(
                    found.as_ref().is_ok_and(|found| found == expected),
                    "{container}, {of}: {found:?}\n{expected:?}"
                );
                count += 1;
            }
        }
        assert!(count >= 15, "{container}: {count} codecs");
    }
    Ok(())
}

/// Containers whose records are a single text.
#[test]
fn a_record_of_one_value_is_a_field_of_every_codec_too() -> Result<()> {
    let folder = tempfile::tempdir().unwrap();
    let rows = rows(folder.path());
    let lines = folder.path().join("rows.txt");
    let values = folder.path().join("values");
    fs::create_dir(&values).unwrap();
    write_files(&rows, &values);
    let table = jsonl(&rows, folder.path());
    let expected = codecs(&|name| name.into());
    let of_lines = codecs(&|_| "line".into());
    let of_files = codecs(&|_| "text".into());
    let mut count = 0;
    for (((needs, of, expected), (_, _, of_line)), (_, _, of_file)) in expected.into_iter().zip(of_lines).zip(of_files)
    {
        if needs != OfText || of.contains(' ') {
            continue;
        }
        let expected = made(Loader::open(&table)?, expected)?;
        let json: Vec<String> = rows.iter().map(|row| json_of(row)[of].to_string()).collect();
        let texts: Vec<String> =
            json.iter().map(|text| serde_json::from_str(text).unwrap_or_else(|_| text.clone())).collect();
        fs::write(&lines, texts.join("\n")).unwrap();
        let found = made(Loader::new(SourceConfig::new(TextLines, &lines, Default::default())), of_line)?;
        assert_eq!(found, expected, "lines, {of}");
        let files = texts.iter().enumerate().map(|(nth, text)| {
            let path = values.join(format!("{nth}.value"));
            fs::write(&path, text).unwrap();
            path
        });
        let files: ringfeed::settings::Paths = files.collect();
        let found = made(Loader::new(SourceConfig::new(TextFiles, files, ())), of_file)?;
        assert_eq!(found, expected, "files, {of}");
        count += 1;
    }
    assert!(count >= 9, "{count} codecs");
    Ok(())
}
