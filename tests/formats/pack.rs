//! Packing: what is packed is read back with the same values, and does not depend on threads or interruptions.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeMap;
use std::fs;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

#[cfg(feature = "parquet")]
use ringfeed::DType;
#[cfg(feature = "parquet")]
use ringfeed::csv::Missing;
use ringfeed::field::{Class, Field, Image, Numbers, Text, Tokens};
use ringfeed::formats::{Csv, FolderOptions, Formats, Images, Libsvm, Raw};
use ringfeed::pack::{Manifest, Pack, PackInto};
use ringfeed::settings::{SavedIndex, SourceConfig};
use ringfeed::{DataSetIterator, ErrorKind, Loader, Result};
use serde_json::json;

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures").join(name)
}

fn source(path: impl AsRef<Path>) -> SourceConfig {
    Formats::new().whole(path).unwrap()
}

/// All tensors' bytes by their names, of all samples in order.
fn tensors(batches: &mut dyn DataSetIterator) -> BTreeMap<String, Vec<u8>> {
    let mut all: BTreeMap<String, Vec<u8>> = BTreeMap::new();
    for batch in batches {
        for tensor in batch.unwrap().tensors() {
            all.entry(tensor.name().to_owned()).or_default().extend(tensor.bytes());
        }
    }
    all
}

fn files(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap());
    entries.map(|entry| (entry.file_name().into_string().unwrap(), fs::read(entry.path()).unwrap())).collect()
}

/// Photographs in two classes.
fn photos(folder: &Path) -> PathBuf {
    let root = folder.join("photos");
    for (class, names) in [("cat", &["chelsea.png"][..]), ("other", &["rocket.jpg", "coffee.png", "flower.jpg"])] {
        fs::create_dir_all(root.join(class)).unwrap();
        names.iter().for_each(|name| {
            fs::copy(fixture("photos").join(name), root.join(class).join(name)).unwrap();
        });
    }
    root
}

fn loaded(path: &Path, fields: &[(&str, Field)]) -> BTreeMap<String, Vec<u8>> {
    let loader =
        fields.iter().fold(Loader::open(path).unwrap(), |loader, (name, field)| loader.field(*name, field.clone()));
    tensors(&mut *loader.batch_size(2).workers(2).build().unwrap())
}

#[test]
fn a_folder_of_images_becomes_tensors_as_its_archives_do() {
    crate::common::watchdog::watch();
    let folder = tempfile::tempdir().unwrap();
    let photos = photos(folder.path());
    let out = folder.path().join("tar");
    let manifest = Pack::new(source(&photos), PackInto::Tar).shard_bytes(700_000).run(&out).unwrap();
    assert!(manifest.shards.len() > 1 && manifest.records == 4, "{manifest:?}");
    assert_eq!(manifest.classes, ["cat", "other"]);
    let image: Field = Image::rgb(32, 40).into();
    let wanted = loaded(&photos, &[("image", image.clone()), ("label", Class.into())]);
    let found = loaded(&out, &[("image", image), ("label", Class.from("cls"))]);
    assert_eq!(wanted.keys().collect::<Vec<_>>(), found.keys().collect::<Vec<_>>());
    assert!(wanted == found);
}

#[cfg(feature = "parquet")]
#[test]
fn a_folder_of_images_becomes_tensors_as_its_parquet_files_do() {
    crate::common::watchdog::watch();
    let folder = tempfile::tempdir().unwrap();
    let photos = photos(folder.path());
    let out = folder.path().join("parquet");
    let manifest = Pack::new(source(&photos), PackInto::Parquet).shard_bytes(700_000).run(&out).unwrap();
    assert!(manifest.shards.len() > 1, "{manifest:?}");
    let image: Field = Image::rgb(32, 40).into();
    let wanted = loaded(&photos, &[("image", image), ("label", Class.into())]);
    let fields = [("image", Image::rgb(32, 40).from("image.bytes")), ("label", Numbers::i64().from("label"))];
    assert!(wanted == loaded(&out, &fields));
}

#[test]
fn folders_with_one_list_of_classes_are_packed_together() {
    crate::common::watchdog::watch();
    let folder = tempfile::tempdir().unwrap();
    let [a, b] = ["a", "b"].map(|name| photos(&folder.path().join(name)));
    let both = |paths: [&PathBuf; 2]| {
        let paths: ringfeed::settings::Paths = paths.into_iter().collect();
        SourceConfig::new(Images, paths, FolderOptions::default())
    };
    let manifest = Pack::new(both([&a, &b]), PackInto::Tar).run(folder.path().join("out")).unwrap();
    assert_eq!((manifest.records, manifest.classes), (8, vec!["cat".to_owned(), "other".to_owned()]));
    fs::rename(b.join("other"), b.join("another")).unwrap();
    let error = Pack::new(both([&a, &b]), PackInto::Tar).run(folder.path().join("again")).unwrap_err();
    assert!(error.kind() == ErrorKind::Schema && error.message().contains("its classes are"), "{error}");
}

/// A safetensors file of tensors with these names, each of which has two rows of its number.
fn tensors_called(path: &Path, names: &[&str]) -> SourceConfig {
    let tensor = |nth: usize| json!({ "dtype": "U8", "shape": [2, 3], "data_offsets": [6 * nth, 6 * nth + 6] });
    let header: serde_json::Map<_, _> =
        names.iter().enumerate().map(|(nth, name)| ((*name).to_owned(), tensor(nth))).collect();
    let header = serde_json::Value::from(header).to_string();
    let values = (0..names.len()).flat_map(|nth| [nth as u8; 6]);
    let bytes = (header.len() as u64).to_le_bytes().into_iter().chain(header.bytes()).chain(values);
    fs::write(path, bytes.collect::<Vec<u8>>()).unwrap();
    source(path)
}

#[test]
fn an_empty_file_of_text_is_packed_as_an_empty_text() {
    let folder = tempfile::tempdir().unwrap();
    let (texts, out) = (folder.path().join("texts"), folder.path().join("out"));
    fs::create_dir(&texts).unwrap();
    fs::write(texts.join("a.txt"), "one").unwrap();
    fs::write(texts.join("b.txt"), "").unwrap();
    let source = SourceConfig::new(ringfeed::formats::TextFiles, &*texts, ());
    assert_eq!(Pack::new(source, PackInto::Tar).run(&out).unwrap().records, 2);
    let packed = loaded(&out, &[("text", Text::new(4).from("json:/text"))]);
    assert_eq!(packed["text"], *b"one\0\0\0\0\0");
}

#[test]
fn fields_that_an_archive_would_call_the_same_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    for (nth, (one, other)) in [("x", "X"), ("a.b", "a_b"), ("a/b", "A:b")].into_iter().enumerate() {
        let arrays = tensors_called(&at(&format!("{nth}.safetensors")), &[one, other]);
        let out = at(&format!("out-{nth}"));
        let error = Pack::new(arrays.clone(), PackInto::Tar).run(&out).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
        assert!(error.message().contains("name one field of both"), "{error}");
        assert!(!out.exists() || files(&out).is_empty());
        // By itself each is packed.
        let manifest = Pack::new(arrays, PackInto::Tar).fields([other]).run(&out).unwrap();
        let name = format!("{}.npy", other.to_lowercase().replace(['.', '/', ':'], "_"));
        assert_eq!(manifest.records, 2);
        let found = loaded(&out, &[("x", ringfeed::field::Array::new().from(name))]);
        assert_eq!(found["x"], [1; 6]);
    }
    // In a sample's JSON they are apart.
    fs::write(at("t.csv"), "a,A\n1,2\n").unwrap();
    let out = at("table");
    Pack::new(source(at("t.csv")), PackInto::Tar).run(&out).unwrap();
    let fields = [("a", Numbers::i64().from("json:/a")), ("b", Numbers::i64().from("json:/A"))];
    assert_eq!(loaded(&out, &fields)["b"], 2i64.to_ne_bytes());
}

#[cfg(feature = "parquet")]
#[test]
fn a_table_becomes_the_same_numbers_and_texts() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("table.csv");
    let mut text = "id,x,y,name,empty\n".to_owned();
    for n in 0..500 {
        let x = if n % 7 == 0 { "NA".to_owned() } else { format!("{}", f64::from(n) / 7.0 - 30.0) };
        text += &format!("{},{x},{}.25e-3,\"n, {n}\",\n", i64::MAX - n as i64, n);
    }
    fs::write(&path, text).unwrap();
    let out = folder.path().join("out");
    let manifest = Pack::new(source(&path), PackInto::Parquet).shard_bytes(10_000).run(&out).unwrap();
    assert!(manifest.shards.len() > 2 && manifest.records == 500);
    let kinds: Vec<&str> = manifest.fields.iter().map(|field| field.kind.as_str()).collect();
    assert_eq!(kinds, ["i64", "f64", "f64", "text", "text"]);
    let fields: Vec<(&str, Field)> = vec![
        ("id", Numbers::i64().from("id")),
        ("x", Numbers::f64().missing(ringfeed::csv::Missing::Nan).from("x")),
        ("both", Numbers::f32().missing(ringfeed::csv::Missing::Value(-1.0)).from(["y", "x"])),
        ("name", Text::new(9).from("name")),
        ("empty", Text::new(1).from("empty")),
    ];
    assert!(loaded(&path, &fields) == loaded(&out, &fields));
}

#[cfg(feature = "parquet")]
#[test]
fn lists_of_arrow_keep_their_shape_and_all_their_numbers() {
    use std::sync::Arc;

    use arrow_array::types::{Float32Type, Int64Type};
    use arrow_array::{Array, ArrayRef, FixedSizeListArray, ListArray, RecordBatch};
    use arrow_buffer::OffsetBuffer;
    use arrow_schema::Field as Column;

    let folder = tempfile::tempdir().unwrap();
    let boxes = (0..4u8).map(|nth| Some(vec![Some(f32::from(nth)); 4]));
    let boxes = FixedSizeListArray::from_iter_primitive::<Float32Type, _, _>(boxes, 4);
    let list = |inner: ArrayRef, lens: [usize; 3]| -> ArrayRef {
        let item = Arc::new(Column::new_list_field(inner.data_type().clone(), true));
        Arc::new(ListArray::new(item, OffsetBuffer::from_lengths(lens), inner, None))
    };
    let uneven = [Some(vec![Some(1), Some(2)]), Some(vec![Some(3)]), Some(vec![]), Some(vec![Some(4)])];
    let uneven = ListArray::from_iter_primitive::<Int64Type, _, _>(uneven);
    let columns = [("boxes", list(Arc::new(boxes), [1, 3, 0])), ("uneven", list(Arc::new(uneven), [2, 1, 1]))];
    let batch = RecordBatch::try_from_iter(columns).unwrap();
    let path = folder.path().join("boxes.parquet");
    let file = fs::File::create(&path).unwrap();
    let mut writer = parquet::arrow::ArrowWriter::try_new(file, batch.schema(), None).unwrap();
    writer.write(&batch).unwrap();
    writer.close().unwrap();
    let out = folder.path().join("out");
    Pack::new(source(&path), PackInto::Tar).run(&out).unwrap();
    let tar = fs::read(out.join("shard-000000.tar")).unwrap();
    let place = |text: &str| memchr::memmem::find(&tar, text.as_bytes()).unwrap_or_else(|| panic!("{text}"));
    assert!(place("'shape': (1, 4,)") < place("'shape': (3, 4,)"));
    place("'shape': (0, 4,)");
    assert!(place("{\"uneven\":[[1,2],[3]]}") < place("{\"uneven\":[[]]}"));
    place("{\"uneven\":[[4]]}");
}

#[cfg(feature = "parquet")]
#[test]
fn arrays_of_a_fixed_shape_keep_it_whatever_their_values_are() {
    use std::sync::Arc;

    use arrow_array::{Array, ArrayRef, BooleanArray, Decimal128Array, FixedSizeListArray, Float32Array, UInt64Array};
    use arrow_array::{RecordBatch, StructArray};
    use arrow_buffer::NullBuffer;
    use arrow_schema::{Field as Column, Schema};

    let folder = tempfile::tempdir().unwrap();
    let gaps: Vec<Option<f32>> = (0..24u8).map(|nth| (nth % 7 != 6).then(|| f32::from(nth))).collect();
    // The last array of `whole` is missing as a whole, the numbers of `single` have a shape without dimensions.
    let columns: [(&str, ArrayRef, i32, &str, Option<NullBuffer>); 7] = [
        ("flag", Arc::new((0..24).map(|nth| Some(nth % 5 == 0)).collect::<BooleanArray>()), 6, "[2,3]", None),
        ("big", Arc::new((0..24).map(|nth| Some(u64::MAX - nth)).collect::<UInt64Array>()), 6, "[2,3]", None),
        ("price", Arc::new((0..24).map(|nth| Some(nth * 25)).collect::<Decimal128Array>()), 6, "[3,1,2]", None),
        ("gap", Arc::new(Float32Array::from(gaps.clone())), 6, "[2,3]", None),
        ("deep", Arc::new(Float32Array::from([&gaps[..], &gaps].concat())), 12, "[2,2,3]", None),
        ("whole", Arc::new(Float32Array::from(gaps.clone())), 6, "[3,2]", Some(vec![true, true, true, false].into())),
        ("single", Arc::new(Float32Array::from(gaps[4..8].to_vec())), 1, "[]", None),
    ];
    let made: Vec<(Column, ArrayRef)> = columns
        .into_iter()
        .map(|(name, values, len, shape, nulls)| {
            let item = Arc::new(Column::new_list_field(values.data_type().clone(), true));
            let array = FixedSizeListArray::new(item, len, values, nulls);
            let notes =
                [("name", "arrow.fixed_shape_tensor".to_owned()), ("metadata", format!(r#"{{"shape":{shape}}}"#))];
            let notes = notes.map(|(key, value)| (format!("ARROW:extension:{key}"), value));
            let column = Column::new(name, array.data_type().clone(), true).with_metadata(BTreeMap::from(notes));
            (column, Arc::new(array) as ArrayRef)
        })
        .collect();
    // All of them again inside of a struct, without their first two rows.
    let inner: Vec<_> = made.iter().map(|(column, array)| (Arc::new(column.clone()), array.clone())).collect();
    let of_struct: ArrayRef = Arc::new(StructArray::from(inner).slice(2, 2));
    let (columns, arrays): (Vec<_>, Vec<_>) = made
        .iter()
        .map(|(column, array)| (column.clone(), array.slice(2, 2)))
        .chain([(Column::new("s", of_struct.data_type().clone(), true), of_struct)])
        .unzip();
    let batch = RecordBatch::try_new(Arc::new(Schema::new(columns)), arrays).unwrap();
    let [table, stream] = ["arrays.parquet", "arrays.arrow"].map(|name| folder.path().join(name));
    let mut writer =
        parquet::arrow::ArrowWriter::try_new(fs::File::create(&table).unwrap(), batch.schema(), None).unwrap();
    writer.write(&batch).unwrap();
    writer.close().unwrap();
    let mut writer =
        arrow_ipc::writer::StreamWriter::try_new(fs::File::create(&stream).unwrap(), &batch.schema()).unwrap();
    writer.write(&batch).unwrap();
    writer.finish().unwrap();

    let shapes: [(&str, DType, &[usize]); 7] = [
        ("flag", DType::U8, &[2, 3]),
        ("big", DType::U64, &[2, 3]),
        ("price", DType::F64, &[3, 1, 2]),
        ("gap", DType::F32, &[2, 3]),
        ("deep", DType::F32, &[2, 2, 3]),
        ("whole", DType::F32, &[3, 2]),
        ("single", DType::F32, &[]),
    ];
    let fields: Vec<(String, Field)> = shapes
        .iter()
        .flat_map(|(name, dtype, _)| [(*name).to_owned(), format!("s.{name}")].map(|name| (name, *dtype)))
        .map(|(name, dtype)| (name.clone(), Numbers::of(dtype).missing(Missing::Value(99.0)).from(name)))
        .collect();
    let fields: Vec<(&str, Field)> = fields.iter().map(|(name, field)| (name.as_str(), field.clone())).collect();
    let out = folder.path().join("out");
    Pack::new(source(&table), PackInto::Parquet).run(&out).unwrap();
    let read = loaded(&table, &fields);
    let floats = |values: &[Option<f32>]| -> Vec<u8> {
        values.iter().flat_map(|value| value.unwrap_or(99.0).to_ne_bytes()).collect()
    };
    let mut whole = gaps[12..].to_vec();
    whole[6..].fill(None);
    let deep = [&gaps[..], &gaps].concat();
    for (name, expected) in [
        ("gap", floats(&gaps[12..])),
        ("deep", floats(&deep[24..])),
        ("whole", floats(&whole)),
        ("single", floats(&gaps[6..8])),
        ("flag", (12..24).map(|nth| u8::from(nth % 5 == 0)).collect()),
        ("big", (12..24).flat_map(|nth| (u64::MAX - nth).to_ne_bytes()).collect()),
        ("price", (12..24u8).flat_map(|nth| (f64::from(nth) * 25.0 / 1e10).to_ne_bytes()).collect()),
    ] {
        assert!(read[name] == expected, "{name}");
        assert!(read[&format!("s.{name}")] == expected, "s.{name}");
    }
    for path in [&stream, &out] {
        assert!(loaded(path, &fields) == read, "{}", path.display());
    }
    for path in [&table, &stream, &out] {
        let loader =
            fields.iter().fold(Loader::open(path).unwrap(), |loader, (name, field)| loader.field(*name, field.clone()));
        let batch = loader.batch_size(2).build().unwrap().next().unwrap().unwrap();
        for (name, _, shape) in shapes {
            for name in [name.to_owned(), format!("s.{name}")] {
                assert_eq!(
                    batch.tensor(&name).unwrap().shape(),
                    [&[2], shape].concat(),
                    "{name} in {}",
                    path.display()
                );
            }
        }
        Formats::new().inspect(path).unwrap();
    }
}

#[test]
fn rows_of_libsvm_keep_their_zeros() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.libsvm");
    fs::write(&path, "1 2:0.5\n0 1:3 4:4\n").unwrap();
    let mut source = SourceConfig::new(Libsvm, &path, Default::default());
    source.options_mut::<Libsvm>().unwrap().features = Some(4);
    let out = folder.path().join("out");
    Pack::new(source.clone(), PackInto::Tar).fields(["features"]).run(&out).unwrap();
    let wanted = tensors(&mut *Loader::new(source).field("features", Numbers::f32().shape(&[2, 2])).build().unwrap());
    assert_eq!(wanted["features"], [0.0f32, 0.5, 0.0, 0.0, 3.0, 0.0, 0.0, 4.0].map(f32::to_ne_bytes).concat());
    let fields = [("features", Numbers::f32().shape(&[2, 2]).from("json:/features"))];
    assert!(wanted == loaded(&out, &fields));
}

#[test]
fn no_number_of_a_table_becomes_another_one() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("ids.csv");
    fs::write(
        &path,
        "user,row,late,tiny,price\n18446744073709551615,1,1.5,1e-400,0.1\n18446744073709551614,9007199254740993,2,1,1e300\n\
         1,-9223372036854775808,9007199254740993,0.0,-2.50\n",
    )
    .unwrap();
    let kinds = [PackInto::Tar, PackInto::Parquet];
    for into in kinds.into_iter().filter(|into| cfg!(feature = "parquet") || *into == PackInto::Tar) {
        let out = folder.path().join(format!("{into:?}"));
        let manifest = Pack::new(source(&path), into).run(&out).unwrap();
        let kinds: Vec<&str> = manifest.fields.iter().map(|field| field.kind.as_str()).collect();
        assert_eq!(kinds, ["text", "i64", "text", "text", "f64"]);
        let fields = |before: &str| -> Vec<(&'static str, Field)> {
            let at = |name: &str| format!("{before}{name}");
            vec![
                ("user", Text::new(20).from(at("user"))),
                ("row", Numbers::i64().from(at("row"))),
                ("late", Text::new(16).from(at("late"))),
                ("price", Numbers::f64().from(at("price"))),
            ]
        };
        let before = if into == PackInto::Tar { "json:/" } else { "" };
        assert!(loaded(&path, &fields("")) == loaded(&out, &fields(before)), "{into:?}");
    }
    // Of what says its types by itself, such a number is bad.
    let lines = folder.path().join("lines.jsonl");
    fs::write(&lines, "{\"n\": 0.5}\n{\"n\": 123456789012345678901234567890}\n").unwrap();
    for (nth, into) in
        kinds.into_iter().enumerate().filter(|(_, into)| cfg!(feature = "parquet") || *into == PackInto::Tar)
    {
        let error = Pack::new(source(&lines), into).run(folder.path().join(nth.to_string())).unwrap_err();
        assert_eq!((error.kind(), error.location().record), (ErrorKind::Data, Some(1)), "{error}");
        assert!(error.message().contains("123456789012345678901234567890"), "{error}");
    }
}

#[test]
fn values_of_lines_of_json_are_members_of_samples() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("lines.jsonl");
    let line = |n: i64| {
        json!({ "n": n, "u": u64::MAX, "f": 0.1 * n as f64, "text": "a\"\u{e9}", "is": { "deep": n * 2, "flag": n % 2 == 0 },
                "ids": (0..n % 4).collect::<Vec<_>>() })
        .to_string()
    };
    fs::write(&path, (0..40).map(line).collect::<Vec<_>>().join("\n")).unwrap();
    let out = folder.path().join("out");
    let manifest = Pack::new(source(&path), PackInto::Tar).shard_bytes(20_000).threads(3).run(&out).unwrap();
    assert!(manifest.shards.len() > 1, "{manifest:?}");
    let fields = |json: &str| -> Vec<(&'static str, Field)> {
        let at = |name: &str| format!("{json}/{name}");
        vec![
            ("n", Numbers::i64().from(at("n"))),
            ("f", Numbers::f64().from(at("f"))),
            ("deep", Numbers::i64().from(at("is/deep"))),
            ("ids", Tokens::new(4).from(at("ids"))),
        ]
    };
    assert!(loaded(&path, &fields("")) == loaded(&out, &fields("json:")));
}

#[test]
fn samples_of_archives_and_arrays_are_packed_again() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let archives = fixture("tar").join("wds-{000..001}.tar");
    Pack::new(source(&archives), PackInto::Tar).run(at("tar")).unwrap();
    let image = || Image::rgb(9, 7).from("png");
    let fields = [("image", image()), ("label", Class.from("cls"))];
    assert!(loaded(&archives, &fields) == loaded(&at("tar"), &fields));

    let numbers: Vec<u8> = (0..600u16).flat_map(u16::to_le_bytes).collect();
    fs::write(at("numbers.bin"), &numbers).unwrap();
    let options = ringfeed::arrays::RawOptions {
        stored: ringfeed::arrays::StoredType::U16,
        shape: vec![3, 4],
        ..ringfeed::arrays::RawOptions::default()
    };
    let raw = SourceConfig::new(Raw, at("numbers.bin"), options);
    let manifest = Pack::new(raw.clone(), PackInto::Tar).run(at("arrays")).unwrap();
    let [field] = manifest.fields.as_slice() else { panic!("{manifest:?}") };
    assert_eq!((manifest.records, field.shape.as_slice()), (50, &[3, 4][..]));
    let wanted = tensors(&mut *Loader::new(raw).batch_size(8).build().unwrap());
    let array = ringfeed::field::Array::new().from(format!("{}.npy", field.name));
    let found = loaded(&at("arrays"), &[(field.name.as_str(), array)]);
    assert!(wanted == found, "{wanted:?} {found:?}");
}

/// Packs, and stops after `steps` calls of the progress.
fn stopped(pack: &Pack, out: &Path, steps: usize) -> Result<Manifest> {
    let mut left = steps;
    pack.run_with(out, |_| match left {
        0 => ControlFlow::Break(()),
        _ => {
            left -= 1;
            ControlFlow::Continue(())
        }
    })
}

fn lines_of(folder: &Path) -> PathBuf {
    let path = folder.join("lines.jsonl");
    let line = |n: i64| json!({ "n": n, "text": "x".repeat(20_000) }).to_string() + "\n";
    fs::write(&path, (0..150).map(line).collect::<String>()).unwrap();
    path
}

#[test]
fn a_pack_that_was_stopped_anywhere_goes_on_to_the_same_bytes() {
    crate::common::watchdog::watch();
    let folder = tempfile::tempdir().unwrap();
    let path = lines_of(folder.path());
    let kinds = [PackInto::Tar, PackInto::Parquet];
    for into in kinds.into_iter().filter(|into| cfg!(feature = "parquet") || *into == PackInto::Tar) {
        let pack = |threads| Pack::new(source(&path), into).shard_bytes(300_000).threads(threads);
        let whole = folder.path().join(format!("whole-{into:?}"));
        let manifest = pack(1).run(&whole).unwrap();
        assert!(manifest.shards.len() > 4);
        let wanted = files(&whole);
        for steps in [0, 1, 2] {
            let out = folder.path().join(format!("{into:?}-{steps}"));
            let error = stopped(&pack(2), &out, steps).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Interrupted);
            // Whatever a shard in the making holds, it is made anew.
            let parts = files(&out).into_keys().filter(|name| name.ends_with(".part"));
            parts.for_each(|name| fs::write(out.join(name), b"half").unwrap());
            assert_eq!(pack(3).run(&out).unwrap(), manifest);
            assert_eq!(files(&out), wanted, "{steps}");
        }
    }
}

#[test]
fn a_journal_cut_anywhere_leads_to_the_same_shards() {
    crate::common::watchdog::watch();
    let folder = tempfile::tempdir().unwrap();
    let path = lines_of(folder.path());
    let pack = Pack::new(source(&path), PackInto::Tar).shard_bytes(300_000);
    let whole = folder.path().join("whole");
    pack.run(&whole).unwrap();
    let wanted = files(&whole);
    let begun = folder.path().join("begun");
    stopped(&pack, &begun, 1).unwrap_err();
    let state = files(&begun);
    let journal = &state[".ringfeed-pack"];
    let shards = state.keys().filter(|name| name.starts_with("shard-")).count();
    assert!(shards > 1, "{:?}", state.keys());
    for len in (0..journal.len()).step_by(89).chain([journal.len() - 1]) {
        let out = folder.path().join("cut");
        fs::create_dir(&out).unwrap();
        state.iter().for_each(|(name, bytes)| fs::write(out.join(name), bytes).unwrap());
        fs::write(out.join(".ringfeed-pack"), &journal[..len]).unwrap();
        // Shards are listed before they appear: one that no whole line lists is another's.
        let listed = String::from_utf8(journal[..len].to_vec()).unwrap();
        let listed = &listed[..listed.rfind('\n').map_or(0, |end| end + 1)];
        for name in state.keys().filter(|name| name.starts_with("shard-") && !listed.contains(*name)) {
            let error = pack.run(&out).unwrap_err();
            assert_eq!((error.kind(), error.path()), (ErrorKind::Config, Some(&*out.join(name))), "{error}");
            fs::remove_file(out.join(name)).unwrap();
        }
        pack.run(&out).unwrap();
        assert!(files(&out) == wanted, "{len}");
        fs::remove_dir_all(&out).unwrap();
    }
    // A shard that the journal names, and that has not got its name yet, gets it; a damaged one is made anew.
    let out = folder.path().join("unnamed");
    for is_damaged in [false, true] {
        fs::create_dir(&out).unwrap();
        state.iter().for_each(|(name, bytes)| fs::write(out.join(name), bytes).unwrap());
        let last = format!("shard-{:06}.tar", shards - 1);
        let part = out.join(format!(".{last}.part"));
        fs::rename(out.join(&last), &part).unwrap();
        if is_damaged {
            let mut bytes = state[&last].clone();
            bytes[1000] ^= 1;
            fs::write(&part, bytes).unwrap();
        }
        pack.run(&out).unwrap();
        assert!(files(&out) == wanted);
        fs::remove_dir_all(&out).unwrap();
    }
    let error = Pack::new(source(&path), PackInto::Tar).run(&begun).unwrap_err();
    assert!(error.message().contains("something else was packed here and not finished"), "{error}");
}

/// Packs `before`, to its end or not, and then `after` into the same folder.
fn packed_after(before: &Pack, after: &Pack, is_finished: bool) -> Result<Manifest> {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("out");
    match is_finished {
        true => before.run(&out).map(drop).unwrap(),
        false => assert_eq!(stopped(before, &out, 0).unwrap_err().kind(), ErrorKind::Interrupted),
    }
    after.run(&out)
}

#[test]
fn what_was_packed_with_other_options_is_something_else() {
    crate::common::watchdog::watch();
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    fs::write(at("a.csv"), "x,y\n1,-\n2,b\n").unwrap();
    fs::write(at("a.libsvm"), "1 1:2 3:4\n0 2:1\n").unwrap();
    let csv = |change: &dyn Fn(&mut ringfeed::csv::CsvOptions)| {
        let mut source = source(at("a.csv"));
        change(source.options_mut::<Csv>().unwrap());
        Pack::new(source, PackInto::Tar)
    };
    let libsvm = |zero_based: bool| {
        let mut source = SourceConfig::new(Libsvm, at("a.libsvm"), Default::default());
        let options = source.options_mut::<Libsvm>().unwrap();
        (options.zero_based, options.features) = (zero_based, Some(4));
        Pack::new(source, PackInto::Tar)
    };
    let plain = || csv(&|_| {});
    let others = [
        (plain(), csv(&|options| options.missing_tokens.push("-".to_owned()))),
        (plain(), csv(&|options| options.quote = '\'')),
        (plain(), plain().shard_bytes(1 << 20)),
        (plain(), plain().skip_bad()),
        (libsvm(false), libsvm(true)),
    ];
    for (before, after) in &others {
        for is_finished in [true, false] {
            let error = packed_after(before, after, is_finished).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Config, "{error}");
            assert!(error.message().contains("other options"), "{error}");
        }
    }
    // How its bytes are reached makes no difference.
    let reached = csv(&|options| {
        (options.threads, options.saved_index) = (Some(1), SavedIndex::Beside);
    });
    for is_finished in [true, false] {
        let manifest = packed_after(&plain(), &reached.clone().threads(1), is_finished).unwrap();
        assert_eq!((manifest.records, manifest.shard_bytes, manifest.skip_bad), (2, 256 << 20, false));
    }
    // What another version wrote does not say by which options.
    let out = at("old");
    plain().run(&out).unwrap();
    let text = fs::read_to_string(out.join("_manifest.json")).unwrap();
    let mut manifest: serde_json::Value = serde_json::from_str(&text).unwrap();
    manifest["version"] = 1.into();
    for name in ["shard_bytes", "skip_bad"] {
        manifest.as_object_mut().unwrap().remove(name).unwrap();
    }
    fs::write(out.join("_manifest.json"), manifest.to_string()).unwrap();
    let error = plain().run(&out).unwrap_err();
    assert!(error.kind() == ErrorKind::Config && error.message().contains("another version"), "{error}");
}

#[test]
fn what_can_not_be_packed_is_said_by_name() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let lines = |name: &str, text: &str| {
        fs::write(at(name), text).unwrap();
        source(at(name))
    };
    let out = |name: &str| at(name);
    let error = |source: SourceConfig, into: PackInto, name: &str| Pack::new(source, into).run(out(name)).unwrap_err();
    let mixed = lines("mixed.jsonl", "{\"a\": 1}\n{\"a\": \"x\"}\n");
    let of_mixed = error(mixed.clone(), PackInto::Tar, "1");
    assert!(of_mixed.to_string().contains("mixed.jsonl") && of_mixed.message().contains("several kinds"), "{of_mixed}");
    // A list of one would take the place of the value, or the other way round.
    for (nth, (name, text)) in [
        ("some.jsonl", "{\"a\": 1}\n{\"a\": [2]}\n"),
        ("text.jsonl", "{\"a\": [\"x\"]}\n{\"a\": \"y\"}\n"),
        ("deep.jsonl", "{\"a\": [[2]]}\n{\"a\": [1, [2]]}\n"),
    ]
    .into_iter()
    .enumerate()
    {
        let uneven = error(lines(name, text), PackInto::Tar, &format!("uneven {nth}"));
        let place = (uneven.kind(), uneven.location().column.clone());
        assert_eq!(place, (ErrorKind::Data, Some("a".to_owned())), "{uneven}");
        assert!(uneven.location().record.is_some() && uneven.message().contains("in lists of depth"), "{uneven}");
    }
    let bad = lines("bad.jsonl", "{\"a\": 1}\n{\"a\": }\n{\"a\": 3}\n");
    let of_bad = error(bad.clone(), PackInto::Tar, "2");
    assert_eq!((of_bad.kind(), of_bad.location().record), (ErrorKind::Data, Some(1)), "{of_bad}");
    let left = Pack::new(bad, PackInto::Tar).skip_bad().run(out("3")).unwrap();
    assert_eq!((left.records, left.skipped), (2, 1));
    let missing =
        Pack::new(lines("a.jsonl", "{\"abc\": 1}\n"), PackInto::Tar).fields(["abd"]).run(out("4")).unwrap_err();
    assert!(missing.message().contains("abc"), "{missing}");
    fs::create_dir(out("5")).unwrap();
    fs::write(out("5").join("_manifest.json"), "{}").unwrap();
    let foreign = error(lines("b.jsonl", "{\"abc\": 1}\n"), PackInto::Tar, "5");
    assert!(foreign.message().contains("is not the manifest of a pack"), "{foreign}");
    fs::create_dir(out("older")).unwrap();
    fs::write(out("older").join("shard-000000.tar"), "").unwrap();
    let unlisted = error(lines("b.jsonl", "{\"abc\": 1}\n"), PackInto::Tar, "older");
    assert!(unlisted.message().contains("no manifest or journal lists it"), "{unlisted}");
    fs::write(out("older").join("manifest.json"), "{}").unwrap();
    let older = error(lines("b.jsonl", "{\"abc\": 1}\n"), PackInto::Tar, "older");
    assert!(older.message().contains("by an earlier version"), "{older}");
    #[cfg(feature = "parquet")]
    {
        let later =
            (0..1200).map(|n| format!("{{\"a\": {}}}\n", if n == 1100 { "1.5".to_owned() } else { n.to_string() }));
        let of_later = error(lines("later.jsonl", &later.collect::<String>()), PackInto::Parquet, "6");
        assert_eq!((of_later.kind(), of_later.location().record), (ErrorKind::Data, Some(1100)), "{of_later}");
        for text in ["{\"a\": 2}\n{\"a\": true}\n", "{\"a\": [2, true]}\n"] {
            let flags = error(lines("flags.jsonl", text), PackInto::Parquet, &format!("flags {}", text.len()));
            assert!(flags.kind() == ErrorKind::Data && flags.message().contains("true"), "{flags}");
        }
        // A name is a pointer in JSON alone.
        fs::write(at("slashes.csv"), "/x/y,a\n1,2\n").unwrap();
        Pack::new(source(at("slashes.csv")), PackInto::Parquet).run(out("7")).unwrap();
        let packed = Formats::new().inspect(out("7")).unwrap();
        assert!(format!("{packed:?}").contains("\"/x/y\""), "{packed:?}");
    }
}

#[test]
#[cfg_attr(not(feature = "images"), ignore = "decodes images")]
fn indices_of_folders_with_other_classes_are_never_numbers_of_one_tensor() {
    let folder = tempfile::tempdir().unwrap();
    let [a, b] = ["a", "b"].map(|name| photos(&folder.path().join(name)));
    let both = || {
        let paths: ringfeed::settings::Paths = [&a, &b].into_iter().collect();
        Loader::new(SourceConfig::new(Images, paths, FolderOptions::default()))
    };
    let fields: [(&str, Field); 3] = [
        ("f32", Numbers::f32().from("label")),
        ("shape", Numbers::i64().shape(&[1]).from("label")),
        ("path", Text::new(80).from("image.path")),
    ];
    let of = |(name, field): &(&str, Field)| both().field(*name, field.clone());
    for field in &fields {
        assert!(of(field).plan().is_ok() && of(field).filter("label == 1").plan().is_ok(), "{}", field.0);
    }
    fs::rename(b.join("other"), b.join("another")).unwrap();
    let refused = |loader: Loader| {
        let error = loader.plan().map(drop).unwrap_err();
        assert!(error.kind() == ErrorKind::Schema && error.message().contains("its classes are"), "{error}");
    };
    fields[..2].iter().for_each(|field| refused(of(field)));
    assert!(of(&fields[2]).plan().is_ok());
    refused(of(&fields[2]).filter("label == 1"));
}
