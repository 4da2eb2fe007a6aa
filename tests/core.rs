//! What every build has, whatever its features: run with and without them.

use ringfeed::csv::CsvOptions;
use ringfeed::{DataSetIterator, ErrorKind, Loader};

#[test]
fn tables_and_arrays_are_read_by_every_build() {
    let mut batches = Loader::csv("fixtures/iris-species.csv").labels(["species"]).batch_size(50).build().unwrap();
    assert_eq!(batches.epoch().unwrap().map(|batch| batch.unwrap().len()).sum::<usize>(), 150);
    assert!(Loader::open("fixtures/npy/version-3.npy").unwrap().build().is_ok());
}

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
