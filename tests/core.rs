//! What every build has, whatever its features: run with and without them.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use ringfeed::csv::CsvOptions;
use ringfeed::field::Text;
use ringfeed::read::MemoryReader;
use ringfeed::source::ReaderSource;
use ringfeed::tensor::Role;
use ringfeed::{AsyncDataSetIterator, DataSet, DataSetIterator, ErrorKind, Loader, LoaderConfig, Workspace};

/// A loader of the flowers with their species, in random order.
fn flowers() -> Loader {
    Loader::csv("fixtures/iris-species.csv").labels(["species"]).batch_size(16).shuffle(7)
}

/// Samples as they stand in the file: their ids, measures and classes.
fn samples(batch: &DataSet) -> Vec<(u64, Vec<f32>, i64)> {
    let (measures, classes) = (batch.f32("features").unwrap(), batch.i64("labels").unwrap());
    let rows = batch.sample_ids().iter().zip(measures.chunks(4)).zip(classes);
    rows.map(|((id, measures), class)| (*id, measures.to_vec(), *class)).collect()
}

#[test]
fn every_build_reads_tables_in_random_order_and_resumes() {
    let text = std::fs::read_to_string("fixtures/iris-species.csv").unwrap();
    let species = ["setosa", "versicolor", "virginica"];
    let expected = text.lines().skip(1).zip(0u64..).map(|(line, id)| {
        let (measures, name) = line.rsplit_once(',').unwrap();
        let class = species.iter().position(|other| *other == name).unwrap() as i64;
        (id, measures.split(',').map(|number| number.parse().unwrap()).collect::<Vec<f32>>(), class)
    });
    let expected: Vec<_> = expected.collect();
    let mut batches = flowers().build().unwrap();
    let labels = batches.schema().tensors().iter().find(|tensor| tensor.name == "labels").unwrap().clone();
    let classes: Vec<String> = labels.classes.unwrap().to_vec();
    assert_eq!(classes, species);
    let mut found: Vec<_> = (0..4).flat_map(|_| samples(&batches.next().unwrap().unwrap())).collect();
    let state = batches.state();
    drop(batches);
    let mut resumed = flowers().build().unwrap();
    resumed.seek(&state).unwrap();
    found.extend(resumed.by_ref().flat_map(|batch| samples(&batch.unwrap())));
    assert_ne!(found, expected, "the order is random");
    found.sort_by_key(|(id, ..)| *id);
    assert_eq!(found, expected);
}

#[test]
fn every_build_reads_lines_of_text_and_arrays_in_memory() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("lines.txt"), "one\ntwo\n").unwrap();
    let settings = format!(
        "sources = [{{ format = \"text\", path = {:?} }}]\nfields.line = {{ text = 8 }}",
        folder.path().join("lines.txt")
    );
    let mut lines = Loader::from(toml::from_str::<LoaderConfig>(&settings).unwrap()).build().unwrap();
    assert_eq!(
        &lines.next().unwrap().unwrap().tensor("line").unwrap().as_slice::<u8>().unwrap()[..8],
        b"one\0\0\0\0\0"
    );
    let numbers = MemoryReader::new("x", Role::Feature, &[], (0..10i64).collect::<Vec<_>>()).unwrap();
    let batches =
        AsyncDataSetIterator::new(ReaderSource::new(numbers).batch_size(10), &Workspace::builder().build().unwrap())
            .unwrap();
    assert_eq!(
        batches.flatten().flat_map(|batch| batch.i64("x").unwrap().to_vec()).collect::<Vec<_>>(),
        (0..10).collect::<Vec<_>>()
    );
}

#[test]
fn what_is_left_out_is_named_with_the_feature_that_it_needs() {
    let settings = |text: &str| toml::from_str::<LoaderConfig>(text).map_err(|error| error.to_string());
    for (feature, is_there, names) in [
        ("formats", cfg!(feature = "formats"), &["npy", "images", "tar", "jsonl", "csv_sequences", "text_files"][..]),
        ("parquet", cfg!(feature = "parquet"), &["parquet", "arrow"]),
    ] {
        for name in names {
            let found = settings(&format!("sources = [{{ format = {name:?}, path = \"data\" }}]"));
            match is_there {
                true => assert!(found.is_ok(), "{found:?}"),
                false => assert!(
                    found.unwrap_err().contains(&format!("the format `{name}` needs Ringfeed's feature `{feature}`"))
                ),
            }
        }
    }
    let fitted = settings("prepared = \"fitted.json\"\nsources = [{ format = \"csv\", path = \"data.csv\" }]");
    match cfg!(feature = "prepare") {
        true => assert!(fitted.is_ok(), "{fitted:?}"),
        false => assert!(fitted.unwrap_err().contains("needs Ringfeed's feature `prepare`")),
    }
    let unknown = settings("sources = [{ format = \"nyp\", path = \"data\" }]").unwrap_err();
    assert!(unknown.contains("\"nyp\" is not allowed"), "{unknown}");
    for field in [
        "\"image\"",
        "\"array\"",
        "{ image = [8, 8] }",
        "{ audio = 16000, crop = \"random\" }",
        "{ array = [3], stored = \"u8\" }",
    ] {
        let found = settings(&format!("sources = [{{ format = \"csv\", path = \"data.csv\" }}]\nfields.x = {field}"));
        match cfg!(feature = "formats") {
            true => assert!(found.is_ok(), "{found:?}"),
            false => {
                assert!(found.clone().unwrap_err().contains("needs Ringfeed's feature `formats`"), "{field}: {found:?}")
            }
        }
    }
}

#[test]
fn files_of_formats_that_are_left_out_are_told_by_their_names() {
    let found = Loader::open("fixtures/npy/version-3.npy").and_then(|loader| loader.build());
    if cfg!(feature = "formats") {
        assert!(found.is_ok(), "{:?}", found.err());
    } else {
        let error = found.err().unwrap();
        assert_eq!(error.kind(), ErrorKind::Format);
        assert!(error.message().contains("needs Ringfeed's feature `formats`"), "{error}");
    }
}

#[test]
fn a_table_whose_name_has_no_ending_is_known_by_its_looks() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("table");
    std::fs::write(&path, "a,b\n1,2\n3,4\n").unwrap();
    let batch = Loader::open(path).and_then(|loader| loader.build()).unwrap().next().unwrap().unwrap();
    assert_eq!(batch.len(), 2);
}

#[test]
fn fields_that_name_files_are_read_or_the_error_names_the_feature() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("a.txt"), "hello").unwrap();
    std::fs::write(folder.path().join("list.csv"), "path,x\na.txt,1\n").unwrap();
    let text = Text::new(8).from("path").file();
    let loaded = Loader::csv(folder.path().join("list.csv")).field("text", text).build();
    if cfg!(feature = "formats") {
        let batch = loaded.unwrap().next().unwrap().unwrap();
        assert_eq!(&batch.tensor("text").unwrap().as_slice::<u8>().unwrap()[..5], b"hello");
    } else {
        let error = loaded.err().unwrap();
        assert!(error.to_string().contains("needs Ringfeed's feature `formats`"), "{error}");
    }
}

#[cfg(feature = "formats")]
#[test]
fn images_are_read_or_the_error_names_the_feature() {
    let loaded = Loader::open("fixtures/photos").and_then(|loader| loader.size(8, 8).build());
    if cfg!(feature = "images") {
        assert!(loaded.is_ok(), "{:?}", loaded.err());
    } else {
        let error = loaded.err().unwrap();
        assert_eq!(error.kind(), ErrorKind::Config);
        assert!(error.message().contains("the feature `images`"), "{error}");
    }
}

#[test]
fn text_in_another_encoding_is_read_or_the_error_names_the_feature() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("latin.csv");
    std::fs::write(&path, b"m\xfcde,x\n1,2\n").unwrap();
    let options = CsvOptions { encoding: Some("latin1".into()), ..CsvOptions::default() };
    let loaded = Loader::csv_with(&path, options).build().and_then(|mut batches| batches.next().unwrap());
    if cfg!(feature = "encodings") {
        assert_eq!(loaded.unwrap().f32("features").unwrap(), [1.0, 2.0]);
    } else {
        let error = loaded.err().unwrap();
        assert_eq!(error.kind(), ErrorKind::Config);
        assert!(error.message().contains("the feature `encodings`"), "{error}");
    }
    // A mark says so, too, whatever name is given.
    std::fs::write(&path, "\u{feff}x\n1\n".encode_utf16().flat_map(u16::to_le_bytes).collect::<Vec<u8>>()).unwrap();
    let options = CsvOptions { encoding: Some("utf-8".into()), ..CsvOptions::default() };
    let loaded = Loader::csv_with(&path, options).build().and_then(|mut batches| batches.next().unwrap());
    match loaded {
        Ok(batch) => assert!(cfg!(feature = "encodings") && batch.f32("features").unwrap() == [1.0]),
        Err(error) => assert!(error.message().contains("the feature `encodings`"), "{error}"),
    }
}

#[test]
fn numbers_of_16_bits_are_those_of_every_build() {
    use ringfeed::field::Numbers;
    use ringfeed::tensor::{bf16, f16};
    let csv = |dtype| Loader::csv("fixtures/iris.csv").field("x", Numbers::of(dtype).from(0)).batch_size(2);
    let first = |loader: Loader| loader.build().unwrap().next().unwrap().unwrap();
    let (half, upper) = (first(csv(ringfeed::DType::F16)), first(csv(ringfeed::DType::Bf16)));
    // 5.1 and 4.9
    let half = half.tensor("x").unwrap().as_slice::<f16>().unwrap().to_vec();
    let upper = upper.tensor("x").unwrap().as_slice::<bf16>().unwrap().to_vec();
    assert_eq!(half.iter().map(|x| x.to_bits()).collect::<Vec<_>>(), [0x451a, 0x44e6]);
    assert_eq!(upper.iter().map(|x| x.to_bits()).collect::<Vec<_>>(), [0x40a3, 0x409d]);
}
