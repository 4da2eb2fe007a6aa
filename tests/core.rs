//! What every build has, whatever its features: run with and without them.

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
