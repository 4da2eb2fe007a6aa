//! Choices of samples that would mislead without a word, and what is said of them.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::{Path, PathBuf};

use crate::common::see_all;
use ringfeed::field::{Class, Field, Image, Numbers, Text};
use ringfeed::order::{Buckets, Split};
use ringfeed::settings::{BadLimits, BadRecords};
use ringfeed::tensor::Dim;
use ringfeed::transform::{Operation, pad_to, pad_to_multiple};
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

#[test]
fn a_table_that_names_files_is_split_the_same_way_whatever_is_read_of_it() {
    let folder = tempfile::tempdir().unwrap();
    let mut table = "path,label\n".to_owned();
    for nth in 0..40 {
        put(folder.path(), &format!("{nth}.txt"), format!("{nth}"));
        table += &format!("{nth}.txt,{nth}\n");
    }
    let path = put(folder.path(), "x.csv", table);
    let text = || Text::new(8).from("path").file();
    let label = || Into::<Field>::into(Numbers::i64().from("label"));
    let part = |fields: Vec<(&str, Field)>| {
        let loader =
            fields.into_iter().fold(Loader::open(&path).unwrap(), |loader, (name, field)| loader.field(name, field));
        let mut batches = loader.batch_size(40).split(Split::train(0.5)).build().unwrap();
        see_all(&mut *batches).remove(0).samples
    };
    let both = part(vec![("text", text()), ("label", label())]);
    assert!((1..40).contains(&both.len()));
    for fields in [vec![("label", label()), ("text", text())], vec![("text", text())], vec![("label", label())]] {
        assert_eq!(part(fields), both);
    }
}

#[test]
fn buckets_and_padding_that_contradict_each_other_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = put(folder.path(), "x.jsonl", "{\"ids\": [1, 2, 3]}\n{\"ids\": [1, 2, 3, 4, 5, 6]}\n");
    let of = |buckets: Buckets, pad: Operation| {
        let loader = Loader::open(&path).unwrap().field("ids", Numbers::i64().list().from("/ids"));
        let config = LoaderConfig { bucket: Some(buckets), ..loader.config().clone() };
        Loader::from(config).transform(pad)
    };
    let refused = |loader: Loader, words: &str| {
        for error in [loader.build().map(drop).unwrap_err(), loader.serve().map(drop).unwrap_err()] {
            assert!(error.kind() == ErrorKind::Config && error.message().contains(words), "{error}");
        }
    };
    let buckets = || Buckets::new("ids", [4, 10]);
    let other = Loader::open(&path).unwrap().field("ids", Numbers::i64().list().from("/ids"));
    let other = other.field("tags", Numbers::i64().list().from("/ids")).bucket("ids", [4, 10]);
    assert!(other.transform(pad_to("tags", 6)).build().is_ok(), "it is about another length");
    refused(of(buckets(), pad_to("ids", 8)), "padded to 10, which is more than the transform `pad` allows");
    refused(of(buckets().tokens_per_batch(20), pad_to_multiple("ids", 4)), "makes 12 of the bound 10");
    for (loader, lengths) in [
        (of(buckets(), pad_to_multiple("ids", 4)), [4, 12]),
        (of(Buckets::new("ids", [4, 8]).tokens_per_batch(8), pad_to_multiple("ids", 4)), [4, 8]),
    ] {
        let batches = loader.build().unwrap().map(|batch| batch.unwrap().tensor("ids").unwrap().shape()[1]);
        assert_eq!(batches.collect::<Vec<_>>(), lengths);
    }
}

#[test]
#[cfg_attr(not(feature = "images"), ignore = "decodes images")]
fn a_plan_has_the_tensors_of_several_readers_as_a_run_has_them() {
    let folder = tempfile::tempdir().unwrap();
    let photo = |name: &str| Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/photos").join(name);
    let row = format!("{},{},3\n", photo("flower.jpg").display(), photo("coffee.png").display());
    let path = put(folder.path(), "x.csv", "path,other,label\n".to_owned() + &row);
    let picture = |from: &str| Image::of_any_size().from(from).file();
    let loader = Loader::open(&path).unwrap().field("a", picture("path")).field("label", Numbers::i64());
    let loader = loader.field("b", picture("other")).batch_size(1);
    let plan = loader.plan().unwrap();
    assert_eq!(plan.slot_bytes, None, "it is not known before the pictures are read");
    let batch = loader.build().unwrap().next().unwrap().unwrap();
    let planned: Vec<_> = plan.tensors.unwrap().into_iter().map(|tensor| (tensor.name, tensor.shape)).collect();
    let built = batch.schema().tensors().iter().map(|spec| {
        let shape = batch.tensor(&spec.name).unwrap().shape().to_vec();
        let dims = shape.iter().zip(std::iter::once(None).chain(spec.shape.iter().map(Some)));
        let dims = dims.map(|(len, dim)| (!matches!(dim, Some(Dim::Extent(_)))).then_some(*len));
        (spec.name.clone(), dims.collect::<Vec<_>>())
    });
    assert_eq!(planned, built.collect::<Vec<_>>());
    assert_ne!(batch.tensor("a").unwrap().shape(), batch.tensor("b").unwrap().shape());
    // The sizes of pictures of two sources vary independently, too.
    let settings = ["a", "b", "c"].map(|tensor| {
        let source = format!("[[sources]]\npath = {path:?}\nformat = \"csv\"\n[sources.fields.{tensor}]\n");
        source + "from = \"path\"\nfile = { image = [] }\n"
    });
    let of = |count: usize| Loader::from(toml::from_str::<LoaderConfig>(&settings[..count].concat()).unwrap());
    assert!(of(2).build().is_ok() && of(2).plan().is_ok());
    let (built, planned) = (of(3).build().map(drop).unwrap_err(), of(3).plan().map(drop).unwrap_err());
    assert_eq!((built.kind(), built.to_string()), (ErrorKind::Schema, planned.to_string()));
}

#[cfg(feature = "prepare")]
#[test]
fn a_recipe_and_several_sources_are_refused_with_advice_that_can_be_followed() {
    use ringfeed::prepare::{Recipe, number};
    let folder = tempfile::tempdir().unwrap();
    let path = put(folder.path(), "x.csv", "x,y\n1,2\n3,4\n");
    let source = |name: &str| {
        format!("[[sources]]\npath = {path:?}\nformat = \"csv\"\nfields.{name} = {{ numbers = \"f32\" }}\n")
    };
    let several = Loader::from(toml::from_str::<LoaderConfig>(&(source("x") + &source("y"))).unwrap());
    let recipe = Recipe::new().column("x", number().standardise());
    let error = recipe.fit(&several).map(drop).unwrap_err();
    assert!(error.message().contains("fit it to a loader of that source alone"), "{error}");
    let fitted = recipe.fit(&Loader::open(&path).unwrap()).unwrap();
    let error = several.prepare(&fitted).build().map(drop).unwrap_err();
    assert!(error.message().contains("use the table as the only source"), "{error}");
}
