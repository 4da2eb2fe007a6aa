//! MDS shards and LitData chunks: what MosaicML's `streaming` and `litdata` wrote is read as they read it.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs;
use std::path::{Path, PathBuf};

use ringfeed::field::{Array, Image, Numbers, Text, Tokens};
use ringfeed::formats::{Format, Formats, LitData, Mds, Open, Opened, ShardedOptions};
use ringfeed::inspect::verify;
use ringfeed::memory::MemoryBudget;
use ringfeed::pack::{Pack, PackInto};
use ringfeed::read::{Container, FieldKind, Scratch, Value};
use ringfeed::settings::{BadLimits, BadRecords};
use ringfeed::storage::Files;
use ringfeed::{Error, ErrorKind, Loader, Result};
use serde_json::Value as Json;

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures").join(name)
}

fn expected(format: &str) -> Json {
    serde_json::from_str(&fs::read_to_string(fixture(format).join("expected.json")).unwrap()).unwrap()
}

fn container_within(path: &Path, options: &ShardedOptions, budget: &MemoryBudget) -> Result<Box<dyn Container>> {
    let files = Files::local();
    let at = Open::new(path, &files, budget);
    let index = fs::read_to_string(path.join("index.json")).unwrap_or_default();
    let opened: Opened = match index.contains("\"shards\"") {
        true => Mds.open(options, &at)?.into(),
        false => LitData.open(options, &at)?.into(),
    };
    match opened {
        Opened::Container(container) => Ok(container),
        _ => panic!("shards are records of values"),
    }
}

fn container(path: &Path) -> Result<Box<dyn Container>> {
    container_within(path, &ShardedOptions::default(), &MemoryBudget::unlimited())
}

/// Whether a value is the one that Python read.
fn is_same(value: &Value<'_>, wanted: &Json) -> bool {
    match value {
        Value::Text(text) => match wanted {
            Json::String(wanted) => text == wanted,
            object => serde_json::from_str::<Json>(text).unwrap() == *object,
        },
        Value::Decimal(text) => match (wanted.get("decimal"), wanted.as_i64(), wanted.as_f64()) {
            (Some(decimal), ..) => decimal == text,
            (_, Some(integer), _) => text.parse() == Ok(integer),
            (_, _, number) => text.parse().ok() == number,
        },
        Value::Bytes(bytes) if wanted.get("pixels").is_some() => bytes.starts_with(b"\x89PNG"),
        Value::Bytes(bytes) => wanted["bytes"] == bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>(),
        Value::Numbers(numbers) => {
            // A single number is one in any shape.
            let rank = wanted["shape"].as_array().unwrap().len();
            (rank < 2 || numbers.len() == 1) && is_array(*numbers, wanted)
        }
        Value::List(list) => {
            let shape = list.shape().map(|shape| Json::from(shape.to_vec()));
            shape.as_ref() == Some(&wanted["shape"]) && is_array(list.numbers().unwrap(), wanted)
        }
        Value::I64(number) => wanted.as_i64() == Some(*number),
        Value::U64(number) => wanted.as_u64() == Some(*number),
        Value::F64(number) => wanted.as_f64() == Some(*number),
        Value::Bool(flag) => wanted.as_bool() == Some(*flag),
        _ => false,
    }
}

fn is_array(numbers: ringfeed::tensor::NumberSlice<'_>, wanted: &Json) -> bool {
    let dtype = wanted["dtype"].as_str().unwrap().replace("uint", "u").replace("int", "i").replace("float", "f");
    let values = wanted["values"].as_array().unwrap();
    numbers.dtype().as_str() == dtype
        && numbers.len() == values.len()
        && values.iter().enumerate().all(|(nth, value)| value.as_f64() == Some(numbers.at(nth)))
}

/// What Python read of a field: a member, by its path, or the whole.
fn wanted_of<'j>(row: &'j Json, name: &str) -> Option<&'j Json> {
    if !row.is_object() && !row.is_array() {
        return Some(row);
    }
    name.split('.').try_fold(row, |value, step| match value {
        Json::Array(items) => items.get(step.parse::<usize>().ok()?),
        value => value.get(step),
    })
}

/// Compares all fields of all records, which are read in jobs of three, from the last one on.
fn compare(container: &mut dyn Container, wanted: &Json) {
    let rows = wanted.as_array().unwrap();
    assert_eq!(container.len(), rows.len() as u64);
    // What is refused by name is left out.
    let fields = container.fields().iter().filter(|field| field.kind != FieldKind::Other);
    let names: Vec<String> = fields.map(|field| field.name.clone()).collect();
    let numbers: Vec<usize> = names.iter().map(|name| container.find(&name.as_str().into()).unwrap()).collect();
    let mut scratch = Scratch::default();
    let records: Vec<u64> = (0..container.len()).rev().collect();
    for job in records.chunks(3) {
        for nth in 0..job.len() {
            container.fetch(job, nth, &mut scratch).unwrap();
        }
        for (nth, record) in job.iter().enumerate() {
            let mut seen = 0;
            let mut visit = |number: usize, value: Value<'_>| {
                let name = &names[numbers.iter().position(|own| *own == number).unwrap()];
                seen += 1;
                if let Some(wanted) = wanted_of(&rows[*record as usize], name) {
                    assert!(is_same(&value, wanted), "record {record}, {name}: {value:?} is not {wanted}");
                }
                Ok(())
            };
            container.read(*record, nth, &mut scratch, &mut visit).unwrap();
            assert_eq!(seen, names.len());
        }
    }
}

#[test]
fn mds_is_read_as_its_own_package_reads_it() {
    let expected = expected("mds");
    for (name, expected) in expected.as_object().unwrap() {
        let is_built = match name.as_str() {
            "plain" | "zip-gz" => true,
            "zip-zstd" => cfg!(feature = "zstd"),
            _ => cfg!(feature = "compression"),
        };
        let path = fixture("mds").join(name);
        if is_built {
            compare(&mut *container(&path).unwrap(), expected);
        } else {
            let error = read_all(&path).unwrap_err();
            let says = error.message().contains("build with the feature");
            assert!(error.kind() == ErrorKind::Unsupported && says, "{name}: {error}");
        }
    }
}

#[test]
fn litdata_is_read_as_its_own_package_reads_it() {
    let expected = expected("litdata");
    for (name, wanted) in expected.as_object().unwrap() {
        if cfg!(feature = "zstd") || !name.starts_with("zstd") {
            compare(&mut *container(&fixture("litdata").join(name)).unwrap(), wanted);
        }
    }
    let fields = container(&fixture("litdata/plain")).unwrap().fields().to_vec();
    let names: Vec<&str> = fields.iter().map(|field| field.name.as_str()).collect();
    assert_eq!(names[..2], ["image", "label"]);
    assert_eq!(names[names.len() - 2..], ["nested.a", "nested.b"]);
}

#[test]
fn a_folder_of_shards_is_recognised_and_becomes_tensors() {
    crate::common::watchdog::watch();
    let path = fixture("litdata/plain");
    let sources = Formats::new().detect(&path).unwrap();
    assert_eq!((sources.len(), sources[0].format()), (1, "litdata"));
    let loader = Loader::open(&path)
        .unwrap()
        .field("image", Image::rgb(8, 12))
        .field("label", Numbers::i64())
        .field("tokens", Tokens::new(9))
        .field("text", Text::new(200));
    let batch = loader.batch_size(9).build().unwrap().next().unwrap().unwrap();
    assert_eq!(batch.tensor("image").unwrap().shape(), [9, 3, 8, 12]);
    assert_eq!(batch.tensor("label").unwrap().as_slice::<i64>().unwrap(), [0, 1, 2, 0, 1, 2, 0, 1, 2]);
    assert_eq!(batch.tensor("tokens").unwrap().as_slice::<i64>().unwrap()[18..27], [0, 1, 2, 0, 0, 0, 0, 0, 0]);
    let folder = fixture("mds/plain");
    assert_eq!(Formats::new().detect(folder.join("index.json")).unwrap()[0].format(), "mds");
    let loader = Loader::open(&folder).unwrap();
    let loader = loader.field("n", Numbers::i64().from("object:/n")).field("list", Tokens::new(9).from("object:/list"));
    let batch = loader.batch_size(9).shuffle(1).build().unwrap().next().unwrap().unwrap();
    let ids: Vec<i64> = batch.sample_ids().iter().map(|id| *id as i64).collect();
    assert_eq!(batch.tensor("n").unwrap().as_slice::<i64>().unwrap(), ids);
    for path in [&folder, &path] {
        assert_eq!(Formats::new().inspect(path).unwrap().records, 9);
        let report = verify(path, 2, |_| std::ops::ControlFlow::Continue(())).unwrap();
        assert!(report.is_ok() && report.samples == 9);
    }
}

/// What `verify` says of a folder.
fn verified(path: &Path) -> String {
    let report = verify(path, 1, |_| std::ops::ControlFlow::Continue(())).unwrap();
    if report.is_ok() { String::new() } else { format!("{report:?}") }
}

#[test]
fn verify_checks_the_hashes_that_an_index_of_mds_records() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("plain");
    copy(&fixture("mds/plain"), &root);
    assert_eq!(verified(&root), "");
    let path = root.join("shard.00001.mds");
    let whole = fs::read(&path).unwrap();
    for at in (0..whole.len()).step_by(97) {
        let mut changed = whole.clone();
        changed[at] ^= 1;
        fs::write(&path, &changed).unwrap();
        // Where the table of records is changed, the folder may not open at all.
        match verify(&root, 1, |_| std::ops::ControlFlow::Continue(())) {
            Err(error) => assert!(is_named(&error, &root), "{error}"),
            Ok(_) => {
                let found = verified(&root);
                assert!(found.contains("its sha1 is") && found.contains("shard.00001.mds"), "{at}: {found}");
            }
        }
    }
    // Hashes of a compressed file, and of what it unpacks to.
    let root = folder.path().join("packed");
    copy(&fixture("mds/zip-gz"), &root);
    let (path, index) = (root.join("shard.00000.mds.gz"), root.join("index.json"));
    let whole = fs::read(&path).unwrap();
    let sha1 = |bytes: &[u8]| sha1_smol::Sha1::from(bytes).digest().to_string();
    let mut unpacked = Vec::new();
    std::io::Read::read_to_end(&mut flate2::read::GzDecoder::new(&whole[..]), &mut unpacked).unwrap();
    let original: Json = serde_json::from_slice(&fs::read(&index).unwrap()).unwrap();
    for (part, right) in [("zip_data", sha1(&whole)), ("raw_data", sha1(&unpacked))] {
        for (digits, is_right) in [(right.clone(), true), (sha1(b"other"), false)] {
            let mut changed = original.clone();
            changed["shards"][0][part]["hashes"] = serde_json::json!({"sha1": digits, "blake2b": "not checked"});
            fs::write(&index, changed.to_string()).unwrap();
            let found = verified(&root);
            assert!(if is_right { found.is_empty() } else { found.contains(&right) }, "{part}: {found}");
        }
    }
}

#[test]
fn an_array_of_a_shard_keeps_its_shape() {
    let open = |shape: &[usize]| {
        let loader = Loader::open(fixture("mds/plain")).unwrap().field("fixed", Numbers::i64().shape(shape));
        loader.batch_size(9).build().map(|mut batches| batches.next().unwrap().unwrap())
    };
    let wanted: Vec<i64> = (0..9).flat_map(|n| (0..6).map(move |at| at * n)).collect();
    for shape in [&[2, 3][..], &[6], &[1, 2, 3]] {
        let batch = open(shape).unwrap();
        assert_eq!(batch.tensor("fixed").unwrap().as_slice::<i64>().unwrap(), wanted);
    }
    let error = open(&[3, 2]).err().unwrap();
    assert!(error.kind() == ErrorKind::Config && error.message().contains("arrays of shape [2, 3]"), "{error}");
    // Also where it is asked for as an array, unless as one of certain bytes or of another shape.
    let array = |array: Array| {
        let loader = Loader::open(fixture("mds/plain")).unwrap().field("fixed", array).batch_size(9);
        loader.build().map(|mut batches| batches.next().unwrap().unwrap())
    };
    let found = array(Array::new()).unwrap();
    assert_eq!(found.tensor("fixed").unwrap().shape(), [9, 2, 3]);
    let numbers = found.tensor("fixed").unwrap().as_slice::<i32>().unwrap().iter().map(|number| i64::from(*number));
    assert_eq!(numbers.collect::<Vec<_>>(), wanted);
    let error = array(Array::new().shape(&[3, 2])).err().unwrap();
    assert!(
        error.kind() == ErrorKind::Config && error.message().contains("has the shape [2, 3], not [3, 2]"),
        "{error}"
    );
    // Of what only the records say, by each record.
    let shape = &[2, 1];
    let loader = Loader::open(fixture("mds/plain")).unwrap().field("any", Numbers::f64().shape(shape));
    let batch = loader.batch_size(1).build().unwrap().next().unwrap().unwrap();
    assert_eq!(batch.tensor("any").unwrap().as_slice::<f64>().unwrap(), [0.0; 2]);
    let taken = |shape: &[usize]| -> Vec<u64> {
        let loader = Loader::open(fixture("mds/plain")).unwrap().field("any", Numbers::f64().shape(shape));
        let batches = loader.batch_size(1).bad_records(BadRecords::Skip(BadLimits::default())).build().unwrap();
        batches.flat_map(|batch| batch.unwrap().sample_ids().to_vec()).collect()
    };
    assert_eq!((taken(&[3, 2]), taken(&[2, 3])), (vec![2, 5, 8], vec![]));
}

/// A folder of MDS with a column `x` of such numbers, one in each record.
fn column(encoding: &str, numbers: &[&[u8]], root: &Path) {
    let (count, size) = (numbers.len() as u32, numbers[0].len() as u32);
    let offsets = (0..=count).flat_map(|nth| (4 * (count + 2) + nth * size).to_le_bytes());
    let shard: Vec<u8> = count.to_le_bytes().into_iter().chain(offsets).chain(numbers.concat()).collect();
    let index = serde_json::json!({"version": 2, "shards": [{
        "format": "mds", "column_names": ["x"], "column_encodings": [encoding], "column_sizes": [size],
        "raw_data": {"basename": "shard.00000.mds", "bytes": shard.len()}, "samples": count,
    }]});
    fs::write(root.join("shard.00000.mds"), shard).unwrap();
    fs::write(root.join("index.json"), index.to_string()).unwrap();
}

#[test]
fn integers_of_shards_keep_all_of_their_digits() {
    let folder = tempfile::tempdir().unwrap();
    let large = [(1 << 53) + 1, u64::MAX];
    column("uint64", &large.each_ref().map(bytemuck::bytes_of), folder.path());
    let loader = Loader::open(folder.path()).unwrap().field("x", Numbers::of(ringfeed::DType::U64)).batch_size(2);
    let batch = loader.build().unwrap().next().unwrap().unwrap();
    assert_eq!(batch.tensor("x").unwrap().as_slice::<u64>().unwrap(), large);
    let (out, source) = (tempfile::tempdir().unwrap(), || Formats::new().whole(folder.path()).unwrap());
    let packed = out.path().join("tar");
    Pack::new(source(), PackInto::Tar).run(&packed).unwrap();
    let tar = fs::read(packed.join("shard-000000.tar")).unwrap();
    for number in large {
        assert!(memchr::memmem::find(&tar, format!("{{\"x\":{number}}}").as_bytes()).is_some(), "{number}");
    }
    #[cfg(feature = "parquet")]
    {
        let packed = out.path().join("parquet");
        Pack::new(source(), PackInto::Parquet).run(&packed).unwrap();
        let loader = Loader::open(&packed).unwrap().field("x", Numbers::of(ringfeed::DType::U64)).batch_size(2);
        let batch = loader.build().unwrap().next().unwrap().unwrap();
        assert_eq!(batch.tensor("x").unwrap().as_slice::<u64>().unwrap(), large);
    }
    let folder = tempfile::tempdir().unwrap();
    column("int32", &[&(-7i32).to_le_bytes()], folder.path());
    let mut shards = container(folder.path()).unwrap();
    shards.find(&0.into()).unwrap();
    let mut scratch = Scratch::default();
    shards.fetch(&[0], 0, &mut scratch).unwrap();
    let mut visit = |_, value: Value<'_>| {
        assert!(matches!(value, Value::I64(-7)), "{value:?}");
        Ok(())
    };
    shards.read(0, 0, &mut scratch, &mut visit).unwrap();
}

#[test]
fn arrays_of_shards_are_packed_with_their_shapes() {
    let folder = tempfile::tempdir().unwrap();
    let source = || Formats::new().whole(fixture("mds/plain")).unwrap();
    let pack = |into, name: &str| {
        let pack = Pack::new(source(), into).fields(["fixed", "any", "flat"]);
        pack.run(folder.path().join(name)).map(|_| std::fs::read(folder.path().join(name).join("shard-000000.tar")))
    };
    let tar = pack(PackInto::Tar, "tar").unwrap().unwrap();
    let count = |shape: &str| memchr::memmem::find_iter(&tar, &format!("'shape': ({shape},)")).count();
    assert_eq!([count("2, 3"), count("1, 2"), count("2, 2"), count("3, 2"), count("4")], [9, 3, 3, 3, 1]);
    #[cfg(feature = "parquet")]
    {
        let error = pack(PackInto::Parquet, "parquet").err().unwrap();
        assert_eq!(
            (error.kind(), error.location().column.as_deref()),
            (ErrorKind::Unsupported, Some("any")),
            "{error}"
        );
    }
}

#[test]
fn pickles_are_refused_by_name_and_what_lies_beside_them_is_read() {
    for (path, number) in [(fixture("mds/pickled"), "n"), (fixture("litdata/pickled"), "n")] {
        let mut shards = container(&path).unwrap();
        let kinds: Vec<FieldKind> = shards.fields().iter().map(|field| field.kind).collect();
        assert!(kinds.contains(&FieldKind::Other), "{kinds:?}");
        let error = shards.find(&"object".into()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported);
        assert!(
            error.message().contains("never read") && error.location().column.as_deref() == Some("object"),
            "{error}"
        );
        let loader = Loader::open(&path).unwrap().field("n", Numbers::i64().from(number));
        assert!(loader.build().unwrap().all(|batch| batch.is_ok()));
        assert!(verify(&path, 1, |_| std::ops::ControlFlow::Continue(())).unwrap().is_ok());
    }
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        fs::copy(entry.path(), to.join(entry.file_name())).unwrap();
    }
}

/// Opens, and reads all fields of all records.
fn read_all(path: &Path) -> Result<()> {
    let budget = MemoryBudget::new(64 << 20);
    let mut shards = container_within(path, &ShardedOptions::default(), &budget)?;
    let fields: Vec<_> = shards.fields().iter().filter(|field| field.kind != FieldKind::Other).cloned().collect();
    for field in fields {
        shards.find(&field.name.as_str().into())?;
    }
    let mut scratch = Scratch::default();
    for record in 0..shards.len() {
        shards.fetch(&[record], 0, &mut scratch)?;
        shards.read(record, 0, &mut scratch, &mut |_, value| match value {
            Value::List(list) => list.each(&mut |_| Ok(())),
            _ => Ok(()),
        })?;
    }
    Ok(())
}

fn is_named(error: &Error, folder: &Path) -> bool {
    error.path().is_some_and(|path| path.starts_with(folder))
}

#[test]
fn no_shard_that_is_cut_or_changed_panics_or_takes_more_memory() {
    let folder = tempfile::tempdir().unwrap();
    let cases = [
        ("mds/plain", "shard.00000.mds"),
        ("litdata/pair", "chunk-0-0.bin"),
        #[cfg(feature = "zstd")]
        ("mds/zip-zstd", "shard.00000.mds.zstd"),
        #[cfg(feature = "compression")]
        ("mds/zip-bz2", "shard.00000.mds.bz2"),
        #[cfg(feature = "compression")]
        ("mds/zip-br", "shard.00000.mds.br"),
        #[cfg(feature = "compression")]
        ("mds/zip-snappy", "shard.00000.mds.snappy"),
        #[cfg(feature = "zstd")]
        ("litdata/zstd-batch", "chunk-0-0.bin"),
        #[cfg(feature = "zstd")]
        ("litdata/zstd-sample", "chunk-0-0.bin"),
        #[cfg(feature = "zstd")]
        ("litdata/zstd-chunk", "chunk-0-0.zstd.bin"),
    ];
    for (name, shard) in cases {
        let root = folder.path().join(name);
        copy(&fixture(name), &root);
        read_all(&root).unwrap();
        let path = root.join(shard);
        let whole = fs::read(&path).unwrap();
        for len in (0..whole.len()).step_by(if whole.len() < 300 { 1 } else { 11 }) {
            fs::write(&path, &whole[..len]).unwrap();
            let error = read_all(&root).unwrap_err();
            assert!(is_named(&error, &root), "{name} cut at {len}: {error}");
        }
        for at in (0..whole.len()).step_by(if whole.len() < 300 { 1 } else { 3 }) {
            for bit in [0x01, 0x80] {
                let mut changed = whole.clone();
                changed[at] ^= bit;
                fs::write(&path, &changed).unwrap();
                // A number may be another one; anything else is an error that names the file.
                if let Err(error) = read_all(&root) {
                    assert!(is_named(&error, &root), "{name} changed at {at}: {error}");
                }
            }
        }
    }
}

#[test]
fn an_index_that_lies_is_an_error_and_takes_no_memory() {
    let folder = tempfile::tempdir().unwrap();
    let error = |name: &str, from: &str, to: &str| {
        let root = folder.path().join("data");
        let _ = fs::remove_dir_all(&root);
        copy(&fixture(name), &root);
        let path = root.join("index.json");
        let text = fs::read_to_string(&path).unwrap();
        assert!(text.contains(from), "{text}");
        fs::write(&path, text.replacen(from, to, 1)).unwrap();
        let error = read_all(&root).unwrap_err();
        assert!(is_named(&error, &root), "{error}");
        error
    };
    let is = |error: Error, kind: ErrorKind, part: &str| {
        assert!(error.kind() == kind && error.to_string().contains(part), "{error}")
    };
    let format = ErrorKind::Format;
    is(error("mds/plain", "\"samples\": 5", "\"samples\": 6"), format, "holds 5 records; the index says 6");
    is(error("mds/plain", "\"samples\": 5", "\"samples\": 4611686018427387904"), format, "too few for the table");
    is(error("mds/plain", "\"bytes\": 2128", "\"bytes\": 2129"), format, "the index says 2129");
    is(
        error("mds/plain", "\"basename\": \"shard.00000.mds\"", "\"basename\": \"../shard.mds\""),
        format,
        "not a file in its folder",
    );
    is(
        error("mds/plain", "\"basename\": \"shard.00000.mds\"", "\"basename\": \"/etc/hosts\""),
        format,
        "not a file in its folder",
    );
    is(error("mds/plain", "\"version\": 2}", "\"version\": 3}"), ErrorKind::Unsupported, "version 3");
    is(error("mds/plain", "\"format\": \"mds\"", "\"format\": \"xsv\""), ErrorKind::Unsupported, "xsv");
    is(error("mds/plain", "[\"any\", ", "["), format, "different numbers of column names");
    is(error("mds/plain", "{\"shards\"", "{\"shard\""), format, "no index of shards");
    is(error("litdata/plain", "\"chunk_size\": 4,", "\"chunk_size\": 5,"), format, "the index says 5");
    is(error("litdata/plain", "\"encryption\": null", "\"encryption\": {}"), ErrorKind::Unsupported, "encrypted");
    is(error("litdata/plain", "PyTreeLoader", "TokensLoader"), ErrorKind::Unsupported, "TokensLoader");
    is(error("litdata/plain", "\"compression\": null", "\"compression\": \"lz4\""), ErrorKind::Unsupported, "lz4");
    is(
        error("mds/zip-gz", "\"compression\": \"gz:6\"", "\"compression\": \"xz:6\""),
        ErrorKind::Unsupported,
        "\"xz:6\"",
    );
    // A shard that unpacks to more than the index says.
    let bomb = folder.path().join("bomb");
    copy(&fixture("mds/zip-gz"), &bomb);
    let text = fs::read_to_string(bomb.join("index.json")).unwrap();
    let at = text.find("\"bytes\": ").unwrap() + 9;
    let end = at + text[at..].find(|c: char| !c.is_ascii_digit()).unwrap();
    let small = |bytes: &str| fs::write(bomb.join("index.json"), [&text[..at], bytes, &text[end..]].concat()).unwrap();
    small("30");
    is(read_all(&bomb).unwrap_err(), ErrorKind::Limit, "unpacks to more than 30 bytes");
    small("99999999999999");
    is(read_all(&bomb).unwrap_err(), ErrorKind::Limit, "at most");
}

/// The size in an index of LitData does not count everything, so a chunk may unpack to some more.
#[cfg(feature = "zstd")]
#[test]
fn a_chunk_is_refused_by_the_size_that_its_index_says() {
    let folder = tempfile::tempdir().unwrap();
    copy(&fixture("litdata/zstd-chunk"), folder.path());
    let path = folder.path().join("index.json");
    let mut index: Json = serde_json::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
    let mut says = |bytes: u64| {
        index["chunks"][0]["chunk_bytes"] = bytes.into();
        fs::write(&path, index.to_string()).unwrap();
        container(folder.path()).map(drop)
    };
    says(3 << 30).unwrap();
    says(1).and_then(|()| read_all(folder.path())).unwrap();
    let error = says(5 << 30).unwrap_err();
    assert!(error.kind() == ErrorKind::Limit && error.message().contains("5368709120 bytes"), "{error}");
}

#[test]
fn records_that_an_index_only_claims_take_no_memory() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("claims");
    copy(&fixture("mds/zip-gz"), &root);
    let path = root.join("index.json");
    let text = fs::read_to_string(&path).unwrap();
    let set = |text: &str, key: &str, number: u64| {
        let at = text.find(&format!("\"{key}\": ")).unwrap() + key.len() + 4;
        let end = at + text[at..].find(|c: char| !c.is_ascii_digit()).unwrap();
        format!("{}{number}{}", &text[..at], &text[end..])
    };
    fs::write(&path, set(&text, "samples", 1_000_000_000_000)).unwrap();
    let error = read_all(&root).unwrap_err();
    assert!(error.kind() == ErrorKind::Format && error.message().contains("too few for the table"), "{error}");
    // As many as the longest shard has room for: lengths are kept of those alone that were measured.
    fs::write(&path, set(&set(&text, "samples", 1 << 29), "bytes", 4 << 30)).unwrap();
    assert!(container(&root).unwrap().len() >= 1 << 29);
    let loader = Loader::open(&root).unwrap().field("any", Numbers::f64()).budget(64 << 20).batch_size(1);
    let error = loader.build().unwrap().find_map(Result::err).unwrap();
    assert!(is_named(&error, &root), "{error}");
}

/// A folder of LitData with a file of bytes for each record, compressed one by one.
#[cfg(feature = "zstd")]
fn compressed(records: &[usize], root: &Path) {
    let packed = records.iter().map(|len| {
        let record = [&(*len as u32).to_le_bytes()[..], &vec![7; *len]].concat();
        zstd::stream::encode_all(&record[..], 1).unwrap()
    });
    let packed: Vec<Vec<u8>> = packed.collect();
    let mut file = (records.len() as u32).to_le_bytes().to_vec();
    let mut end = 4 * (records.len() as u32 + 2);
    file.extend(end.to_le_bytes());
    for record in &packed {
        end += record.len() as u32;
        file.extend(end.to_le_bytes());
    }
    file.extend(packed.concat());
    fs::write(root.join("chunk-0-0.bin"), &file).unwrap();
    let (bytes, count) = (file.len(), records.len());
    let index = format!(
        r#"{{"chunks": [{{"chunk_bytes": {bytes}, "chunk_size": {count}, "dim": null, "filename": "chunk-0-0.bin"}}],
            "config": {{"compression": "zstd", "compression_level": "sample", "data_format": ["bytes"]}}}}"#
    );
    fs::write(root.join("index.json"), index).unwrap();
}

#[cfg(feature = "zstd")]
#[test]
fn records_that_are_compressed_one_by_one_are_counted_and_large_ones_given_back() {
    let folder = tempfile::tempdir().unwrap();
    let large = 6 << 20;
    compressed(&[large, 100, large, 3], folder.path());
    let budget = MemoryBudget::new(40 << 20);
    let mut shards = container_within(folder.path(), &ShardedOptions::default(), &budget).unwrap();
    shards.find(&0.into()).unwrap();
    let mut scratch = Scratch::default();
    let mut read = |records: &[u64], lens: &[usize]| {
        (0..records.len()).for_each(|nth| shards.fetch(records, nth, &mut scratch).unwrap());
        for (nth, len) in lens.iter().enumerate() {
            let mut found = None;
            let visit = &mut |_, value: Value<'_>| {
                found = if let Value::Bytes(bytes) = value { Some(bytes.len()) } else { None };
                Ok(())
            };
            shards.read(records[nth], nth, &mut scratch, visit).unwrap();
            assert_eq!(found, Some(*len));
        }
        budget.used()
    };
    assert!(read(&[0, 1, 2], &[large, 100, large]) > 2 * large as u64);
    assert!(read(&[1, 0], &[100, large]) > large as u64);
    let small = read(&[1, 3], &[100, 3]);
    assert!(small < 64 << 10, "{small} bytes are held for two small records");
    assert_eq!(read(&[3, 1], &[3, 100]), small);
    drop((scratch, shards));
    assert_eq!(budget.used(), 0);
    // What no budget has room for is refused before it is there.
    let tight = MemoryBudget::new(4 << 20);
    let shards = container_within(folder.path(), &ShardedOptions::default(), &tight).unwrap();
    let mut scratch = Scratch::default();
    let error = shards.fetch(&[0], 0, &mut scratch).unwrap_err();
    assert!(error.kind() == ErrorKind::Budget && error.message().contains("a decompressed record"), "{error}");
    shards.fetch(&[1], 0, &mut scratch).unwrap();
    assert!(tight.used() < 64 << 10);
}
