//! Choices of samples that would mislead without a word, and what is said of them.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::{Path, PathBuf};

use crate::common::see_all;
use ringfeed::field::{Class, Field, Numbers, Text};
use ringfeed::settings::{BadLimits, BadRecords};
use ringfeed::{DataSetIterator, ErrorKind, Loader, LoaderConfig, Result};

fn put(folder: &Path, name: &str, bytes: impl AsRef<[u8]>) -> PathBuf {
    std::fs::write(folder.join(name), bytes).unwrap();
    folder.join(name)
}

fn refused(settings: &str) -> String {
    let config: LoaderConfig = toml::from_str(settings).unwrap();
    Loader::from(config).plan().map(drop).unwrap_err().to_string()
}

#[test]
fn windows_of_tokens_that_overlap_are_not_split() {
    let folder = tempfile::tempdir().unwrap();
    let tokens: Vec<u8> = (0..1000u16).flat_map(u16::to_le_bytes).collect();
    let path = put(folder.path(), "x.bin", tokens);
    let settings = |cut: &str, more: &str| {
        format!(
            "batch_size = 4\nshuffle = 1\n{more}\n[source]\npath = {path:?}\nformat = \"tokens\"\noptions = {{ window = 50, cut = {cut} }}\n"
        )
    };
    let split = "split = { train = 0.5, test = 0.5, part = \"test\" }";
    for cut in ["\"random\"", "{ contiguous = { stride = 10 } }"] {
        for part in [split, "folds = { fold = 0, count = 5 }"] {
            let error = refused(&settings(cut, part));
            assert!(error.contains("share most of their tokens") && error.contains("cut = \"contiguous\""), "{error}");
        }
    }
    let config: LoaderConfig = toml::from_str(&settings("\"contiguous\"", split)).unwrap();
    let samples = Loader::from(config).plan().unwrap().samples.unwrap();
    assert!((1..19).contains(&samples), "{samples}");
    let error = refused(&settings("\"random\"", "shuffle_blocks = 4"));
    assert!(error.contains("shuffle_blocks: windows that begin anywhere are in no block"), "{error}");
}

#[test]
fn an_epoch_of_no_samples_is_refused() {
    let error = refused("source = \"fixtures/iris.csv\"\nshuffle = 1\nsamples_per_epoch = 0\n");
    assert!(error.contains("samples_per_epoch: 0"), "{error}");
}

#[test]
fn a_source_without_weight_makes_no_epoch_longer() {
    let folder = tempfile::tempdir().unwrap();
    let put =
        |name: &str, count: u16| put(folder.path(), name, (0..count).flat_map(u16::to_le_bytes).collect::<Vec<u8>>());
    let (small, large) = (put("a.bin", 500), put("b.bin", 50_000));
    let source =
        |path: &Path| format!("[[sources]]\npath = {path:?}\nformat = \"tokens\"\noptions = {{ window = 50 }}\n");
    let settings = format!("batch_size = 2\nshuffle = 1\nmix = [1.0, 0.0]\n{}{}", source(&small), source(&large));
    let loader = Loader::from(toml::from_str::<LoaderConfig>(&settings).unwrap());
    let planned = loader.plan().unwrap().samples.unwrap();
    let mut built = loader.build().unwrap();
    let samples: usize = see_all(&mut *built).iter().map(|batch| batch.samples.len() - batch.padding).sum();
    assert_eq!(samples as u64, planned);
    assert!(planned <= 10, "{planned}");
}

#[test]
fn sources_of_two_formats_mix_whatever_the_order_of_their_fields() {
    let folder = tempfile::tempdir().unwrap();
    put(folder.path(), "a.txt", "one");
    let csv = put(folder.path(), "x.csv", "path,label\na.txt,0\na.txt,1\n");
    let lines =
        put(folder.path(), "x.jsonl", "{\"path\": \"a.txt\", \"label\": 1}\n{\"path\": \"a.txt\", \"label\": 0}\n");
    let text = || Text::new(8).from("path").file();
    let label = || Into::<Field>::into(Class::of(["0", "1"]));
    for fields in [[("text", text()), ("label", label())], [("label", label()), ("text", text())]] {
        let mix = Loader::mix([(&csv, 1.0), (&lines, 1.0)]).unwrap();
        let mix = fields.into_iter().fold(mix, |mix, (name, field)| mix.field(name, field));
        let batches = see_all(&mut *mix.batch_size(4).build().unwrap());
        assert_eq!(batches[0].samples.len(), 4);
    }
}

#[test]
fn what_could_not_be_replaced_says_why() {
    let folder = tempfile::tempdir().unwrap();
    let path = put(folder.path(), "x.csv", "x\na\nb\nc\n");
    let loader = Loader::open(&path).unwrap().field("x", Numbers::f32());
    let mut batches = loader.bad_records(BadRecords::Replace(BadLimits::default())).build().unwrap();
    let error = batches.next().unwrap().map(drop).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::TooManyBad);
    let text = error.to_string();
    assert!(text.contains("no sample could replace") && text.contains("the sample itself: "), "{text}");
    assert!(error.path() == Some(path.as_path()) && error.location().record.is_some(), "{text}");
}

#[test]
#[cfg_attr(not(feature = "images"), ignore = "decodes images")]
fn buckets_leave_it_to_the_policy_what_becomes_of_a_file_that_cannot_be_measured() {
    let folder = tempfile::tempdir().unwrap();
    for class in ["a", "b"] {
        std::fs::create_dir(folder.path().join(class)).unwrap();
        std::fs::copy("fixtures/photos/flower.jpg", folder.path().join(class).join("1.jpg")).unwrap();
    }
    put(folder.path(), "a/2.jpg", "");
    let loader = || -> Result<_> {
        let loader = Loader::open(folder.path())?.batch_size(1).bucket("image", [10_000]);
        loader.bad_records(BadRecords::Skip(BadLimits::default())).build()
    };
    let mut batches = loader().unwrap();
    assert_eq!(batches.by_ref().map(|batch| batch.unwrap().sample_ids().len()).sum::<usize>(), 2);
    assert_eq!(batches.bad_records().len(), 1);
}
