//! Sequences of records: any field of any format through any codec, with a variable number of steps per sample.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use ringfeed::field::{Class, Field, Image, Numbers, Text};
use ringfeed::normalise::NormaliserFit;
use ringfeed::order::Split;
use ringfeed::read::{SequenceLabel, Sequences, Windows};
use ringfeed::settings::{BadLimits, BadRecords};
use ringfeed::transform::{LogMel, Operation, pad_to_multiple};
use ringfeed::{DType, DataSet, DataSetIterator, ErrorKind, Loader, LoaderConfig, Normaliser};

fn put(folder: &Path, name: &str, text: &str) -> PathBuf {
    std::fs::write(folder.join(name), text).unwrap();
    folder.join(name)
}

fn first(loader: &Loader) -> DataSet {
    loader.build().unwrap().next().unwrap().unwrap()
}

/// Sequences of 1, 3, 2 and so on steps, as a table: `id,step,half,kind`.
fn table(folder: &Path) -> PathBuf {
    let mut text = "id,step,half,kind\n".to_owned();
    for (id, steps) in [1, 3, 2, 5, 4, 1, 7, 2].into_iter().enumerate() {
        for step in 0..steps {
            text += &format!("u{id},{step},{},{}\n", f64::from(step) / 2.0, ["a", "b"][id % 2]);
        }
    }
    put(folder, "x.csv", &text)
}

fn both() -> Field {
    Numbers::f32().from(["step", "half"])
}

#[test]
fn they_are_those_of_csv_sequences() {
    let folder = tempfile::tempdir().unwrap();
    let path = table(folder.path());
    for (label, word) in
        [(SequenceLabel::EachStep, "each_step"), (SequenceLabel::Last, "last"), (SequenceLabel::Constant, "constant")]
    {
        let settings = format!(
            "batch_size = 3\nshuffle = 5\n[source]\npath = {path:?}\nformat = \"csv_sequences\"\noptions = {{ group_by = \"id\", \
             label = {word:?} }}\n[source.fields]\nx = {{ from = [\"step\", \"half\"], numbers = \"f32\" }}\nkind = {{ class = [] }}\n"
        );
        let of_csv = Loader::from(toml::from_str::<LoaderConfig>(&settings).unwrap());
        let loader = Loader::open(&path).unwrap().field("x", both()).field("kind", Class).batch_size(3).shuffle(5);
        let loader = loader.sequences(Sequences::by("id").label(label));
        let mut own = loader.build().unwrap();
        for expected in of_csv.build().unwrap() {
            let (found, expected) = (own.next().unwrap().unwrap(), expected.unwrap());
            assert_eq!(found.sample_ids(), expected.sample_ids());
            for name in ["x", "kind"] {
                let (found, expected) = (found.tensor(name).unwrap(), expected.tensor(name).unwrap());
                assert_eq!((found.shape(), found.bytes()), (expected.shape(), expected.bytes()), "{name}");
            }
            let (mask, expected) = (found.tensor("steps_mask").unwrap(), expected.tensor("features_mask").unwrap());
            let expected = expected.as_slice::<f32>().unwrap().iter().map(|is_data| *is_data as u8);
            assert_eq!(mask.as_slice::<u8>().unwrap(), expected.collect::<Vec<_>>());
        }
        assert!(own.next().is_none());
    }
}

#[test]
#[cfg_attr(not(feature = "images"), ignore = "decodes images")]
fn pictures_texts_and_lists_are_steps_as_numbers_are() {
    let folder = tempfile::tempdir().unwrap();
    let photo = |name: &str| Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/photos").join(name);
    let photos = ["flower.jpg", "rocket.jpg", "coffee.png"].map(photo);
    let line = |clip: u32, nth: usize| {
        let list: Vec<usize> = (0..nth).collect();
        serde_json::json!({ "clip": clip, "photo": photos[nth], "words": "x".repeat(nth), "list": list }).to_string()
            + "\n"
    };
    let path = put(folder.path(), "x.jsonl", &(line(1, 0) + &line(1, 1) + &line(1, 2) + &line(2, 2)));
    let fields = |loader: Loader| {
        let loader = loader.field("image", Image::rgb(8, 6).from("photo").file()).field("words", Text::new(4));
        loader.field("list", Numbers::i64().max_len(3))
    };
    let loader = fields(Loader::open(&path).unwrap()).batch_size(2).sequences(Sequences::by("clip"));
    let (batch, single) = (first(&loader), first(&fields(Loader::open(&path).unwrap()).batch_size(4)));
    for (name, shape) in [("image", &[2, 3, 3, 8, 6][..]), ("words", &[2, 3, 4]), ("list", &[2, 3, 3])] {
        let (found, expected) = (batch.tensor(name).unwrap(), single.tensor(name).unwrap());
        assert_eq!(found.shape(), shape, "{name}");
        let bytes = expected.bytes().len() / 4;
        assert_eq!(found.bytes()[..3 * bytes], expected.bytes()[..3 * bytes], "{name}");
        assert_eq!(found.bytes()[3 * bytes..4 * bytes], expected.bytes()[3 * bytes..], "{name}");
        assert!(found.bytes()[4 * bytes..].iter().all(|byte| *byte == 0), "{name}");
    }
    assert_eq!(batch.tensor("steps_mask").unwrap().as_slice::<u8>().unwrap(), [1, 1, 1, 1, 0, 0]);
    assert_eq!(batch.tensors().filter(|tensor| tensor.name().ends_with("_mask")).count(), 2, "of steps and lists");
    // A mask of its own, of lists, has the steps, too.
    let mask = batch.tensor("list_mask").unwrap();
    assert_eq!(mask.shape(), [2, 3, 3]);
    assert_eq!(mask.as_slice::<u8>().unwrap(), [[0, 0, 0], [1, 0, 0], [1, 1, 0], [1, 1, 0], [0; 3], [0; 3]].concat());
}

#[test]
fn files_are_sequences_and_those_of_one_id_end_with_them() {
    let folder = tempfile::tempdir().unwrap();
    for (name, rows) in [("1.csv", "7,1\n7,2\n"), ("2.csv", "7,3\n"), ("3.csv", "8,4\n8,5\n9,6\n")] {
        put(folder.path(), name, &format!("id,x\n{rows}"));
    }
    let files = folder.path().join("*.csv");
    let open = || Loader::open(&files).unwrap().field("x", Numbers::i64());
    let read = |sequences: Sequences| {
        let batch = first(&open().sequences(sequences));
        let steps = batch.tensor("x").unwrap().shape()[1];
        batch.tensor("x").unwrap().as_slice::<i64>().unwrap().chunks(steps).map(<[i64]>::to_vec).collect::<Vec<_>>()
    };
    assert_eq!(read(Sequences::of_files()), [vec![1, 2, 0], vec![3, 0, 0], vec![4, 5, 6]]);
    assert_eq!(read(Sequences::by("id")), [vec![1, 2, 3], vec![4, 5, 0], vec![6, 0, 0]]);
    assert_eq!(read(Sequences::by("id").each_file()), [vec![1, 2], vec![3, 0], vec![4, 5], vec![6, 0]]);
    let pairs =
        |windows: Windows| first(&open().windows(windows)).tensor("x").unwrap().as_slice::<i64>().unwrap().to_vec();
    assert_eq!(pairs(Windows::new(2, 0)), [1, 2, 2, 3, 3, 4, 4, 5, 5, 6]);
    assert_eq!(pairs(Windows::new(2, 0).each_file()), [1, 2, 4, 5, 5, 6]);
    assert_eq!(pairs(Windows::new(2, 0).series("id")), [1, 2, 2, 3, 4, 5]);
    assert_eq!(pairs(Windows::new(2, 0).series("id").each_file()), [1, 2, 4, 5]);
}

/// Two tables, each of which names the same two files.
fn tables(folder: &Path) -> PathBuf {
    put(folder, "0.txt", "zero");
    put(folder, "1.txt", "one");
    put(folder, "a.csv", "path,x\n0.txt,0\n1.txt,1\n1.txt,2\n");
    put(folder, "b.csv", "path,x\n1.txt,3\n0.txt,4\n");
    folder.join("*.csv")
}

#[test]
fn the_file_of_a_record_is_that_of_the_table_that_names_others() {
    let folder = tempfile::tempdir().unwrap();
    let path = tables(folder.path());
    let text = || Text::new(4).from("path").file();
    for fields in [[("text", text()), ("x", Numbers::i64().into())], [("x", Numbers::i64().into()), ("text", text())]] {
        let loader =
            fields.into_iter().fold(Loader::open(&path).unwrap(), |loader, (name, field)| loader.field(name, field));
        let batch = first(&loader.clone().sequences(Sequences::of_files()));
        assert_eq!(batch.tensor("x").unwrap().as_slice::<i64>().unwrap(), [0, 1, 2, 3, 4, 0]);
        assert_eq!(batch.tensor("text").unwrap().bytes(), b"zeroone\0one\0one\0zero\0\0\0\0");
        let windows = first(&loader.windows(Windows::new(2, 0).each_file()));
        assert_eq!(windows.tensor("x").unwrap().as_slice::<i64>().unwrap(), [0, 1, 1, 2, 3, 4]);
    }
    let only_files = Loader::open(&path).unwrap().field("text", text()).sequences(Sequences::of_files());
    assert_eq!(first(&only_files).tensor("text").unwrap().shape(), [2, 3, 4]);
}

#[test]
fn all_steps_have_one_length_and_one_mask_however_many_readers_there_are() {
    let folder = tempfile::tempdir().unwrap();
    let path = tables(folder.path());
    let open = || {
        let fields = ["a", "b", "c", "d", "e"];
        let loader = Loader::open(&path).unwrap().field("x", Numbers::i64());
        fields.iter().fold(loader, |loader, name| loader.field(*name, Text::new(4).from("path").file()))
    };
    for by in ["x", "c"] {
        let loader = open().sequences(Sequences::of_files()).bucket(by, [4, 8]);
        let batch = first(&loader);
        for name in ["x", "a", "e", "steps_mask"] {
            assert_eq!(batch.tensor(name).unwrap().shape()[..2], [2, 4], "{name} by {by}");
        }
        let planned = loader.plan().unwrap().tensors.unwrap().into_iter().map(|tensor| tensor.name);
        let built: Vec<&str> = batch.tensors().map(|tensor| tensor.name()).collect();
        assert_eq!(planned.collect::<Vec<_>>(), built);
    }
    let padded = open().sequences(Sequences::of_files()).transform(pad_to_multiple("x", 5));
    assert_eq!(first(&padded).tensor("d").unwrap().shape(), [2, 5, 4]);
}

#[test]
#[cfg_attr(not(feature = "audio"), ignore = "makes spectrograms")]
fn spectrograms_of_steps_that_are_padding_are_zeros() {
    let folder = tempfile::tempdir().unwrap();
    let line = |id: u32| {
        let sound: Vec<f32> = (0..600).map(|at| (at as f32 / 9.0).sin()).collect();
        serde_json::json!({ "id": id, "sound": sound }).to_string() + "\n"
    };
    let path = put(folder.path(), "x.jsonl", &(line(1) + &line(1) + &line(2)));
    let loader = Loader::open(&path).unwrap().field("sound", Numbers::f32().shape(&[600]).from("/sound"));
    let loader =
        loader.transform(Operation::LogMel(LogMel { n_fft: 256, hop: 128, mels: 8, ..LogMel::new("sound", 8000) }));
    let single = first(&loader.clone());
    let batch = first(&loader.clone().sequences(Sequences::by("id")));
    let (steps, expected) = (batch.tensor("sound").unwrap(), single.tensor("sound").unwrap());
    let one = expected.bytes().len() / 3;
    assert_eq!(steps.bytes()[..3 * one], expected.bytes()[..]);
    assert!(steps.bytes()[3 * one..].iter().all(|byte| *byte == 0));
    let fit = |loader: Loader| {
        let mut fit = NormaliserFit::standardise(None);
        fit.observe_all(loader.build().unwrap(), "sound").unwrap();
        fit.finish().unwrap()
    };
    assert_eq!(fit(loader.clone().sequences(Sequences::by("id"))), fit(loader));
    // With several channels, too.
    let loader = Loader::open(&path).unwrap().field("sound", Numbers::f32().shape(&[2, 300]).from("/sound"));
    let loader =
        loader.transform(Operation::LogMel(LogMel { n_fft: 256, hop: 128, mels: 8, ..LogMel::new("sound", 8000) }));
    let batch = first(&loader.sequences(Sequences::by("id")));
    let steps = batch.tensor("sound").unwrap();
    assert_eq!(steps.shape()[..3], [2, 2, 2]);
    let one = steps.bytes().len() / 4;
    assert!(steps.bytes()[3 * one..].iter().all(|byte| *byte == 0));
    assert!(steps.bytes()[2 * one..3 * one].iter().any(|byte| *byte != 0));
}

#[test]
fn order_shards_workers_and_buckets_take_whole_sequences() {
    let folder = tempfile::tempdir().unwrap();
    let path = table(folder.path());
    let loader = || Loader::open(&path).unwrap().field("x", both()).sequences(Sequences::by("id"));
    let seen = |loader: Loader| -> Vec<(Vec<u64>, Vec<u8>)> {
        let batches = loader.build().unwrap().map(|batch| batch.unwrap());
        batches.map(|batch| (batch.sample_ids().to_vec(), batch.tensor("x").unwrap().bytes().to_vec())).collect()
    };
    let plan = loader().plan().unwrap();
    assert_eq!((plan.samples, plan.slot_bytes), (Some(8), None));
    let shuffled = || loader().shuffle(3).batch_size(3);
    assert_eq!(seen(shuffled().workers(1)), seen(shuffled().workers(4)));
    assert_eq!(seen(shuffled().workers(1)), seen(shuffled().shield()));
    let part = |split: Split| seen(loader().batch_size(8).split(split)).remove(0).0;
    let split = || Split { seed: 1, ..Split::train(0.5) };
    let (train, rest) = (part(split()), part(split().rest()));
    assert!(!train.is_empty() && !rest.is_empty());
    assert_eq!(train.iter().chain(&rest).collect::<BTreeSet<_>>().len(), 8);
    let lengths = loader().batch_size(2).bucket("x", [2, 4, 8]).build().unwrap();
    let lengths = lengths.map(|batch| batch.unwrap().tensor("x").unwrap().shape()[1]).collect::<Vec<_>>();
    assert_eq!(lengths.iter().copied().collect::<BTreeSet<_>>(), [2, 4, 8].into());
    // It resumes in the middle.
    let mut batches = shuffled().build().unwrap();
    batches.next().unwrap().unwrap();
    let state = batches.state();
    let rest: Vec<Vec<u64>> = batches.by_ref().map(|batch| batch.unwrap().sample_ids().to_vec()).collect();
    let mut resumed = shuffled().build().unwrap();
    resumed.seek(&state).unwrap();
    assert_eq!(resumed.map(|batch| batch.unwrap().sample_ids().to_vec()).collect::<Vec<_>>(), rest);
    // With sequences made in another way, that state is refused.
    let other = Sequences::by("id").label(SequenceLabel::Last);
    assert!(loader().sequences(other).shuffle(3).batch_size(3).build().unwrap().seek(&state).is_err());
}

#[test]
fn files_of_any_source_end_what_stays_within_files() {
    let folder = tempfile::tempdir().unwrap();
    let one = put(folder.path(), "y.csv", "y\n5\n6\n7\n");
    put(folder.path(), "a.csv", "x\n1\n2\n");
    put(folder.path(), "b.csv", "x\n3\n");
    let many = [folder.path().join("a.csv"), folder.path().join("b.csv")];
    let source = |paths: &str, field: &str| {
        format!("[[sources]]\npath = {paths}\nformat = \"csv\"\nfields.{field} = {{ numbers = \"i64\" }}\n")
    };
    let (one, many) = (source(&format!("{one:?}"), "y"), source(&format!("{many:?}"), "x"));
    for sources in [one.clone() + &many, many + &one] {
        let settings = "sequences = { each_file = true }\n".to_owned() + &sources;
        let batch = first(&Loader::from(toml::from_str::<LoaderConfig>(&settings).unwrap()));
        assert_eq!(batch.tensor("x").unwrap().as_slice::<i64>().unwrap(), [1, 2, 3, 0]);
        assert_eq!(batch.tensor("y").unwrap().as_slice::<i64>().unwrap(), [5, 6, 7, 0]);
    }
}

#[test]
fn padding_stays_zero_when_steps_are_normalised() {
    let folder = tempfile::tempdir().unwrap();
    let path = table(folder.path());
    let standard = Normaliser::Standardise { axis: None, mean: vec![10.0], deviation: vec![2.0] };
    let loader = Loader::open(&path).unwrap().field("x", Numbers::f32().from("step")).sequences(Sequences::by("id"));
    let batch = first(&loader.normalise("x", standard).batch_size(2));
    let expected = [-5.0, 0.0, 0.0, -5.0, -4.5, -4.0];
    assert_eq!(batch.tensor("x").unwrap().as_slice::<f32>().unwrap(), expected);
    let fitted = Loader::open(&path).unwrap().field("x", Numbers::f32().from("step")).sequences(Sequences::by("id"));
    let alone = Loader::open(&path).unwrap().field("x", Numbers::f32().from("step"));
    let fit = |loader: Loader| {
        let mut fit = NormaliserFit::standardise(None);
        fit.observe_all(loader.build().unwrap(), "x").unwrap();
        fit.finish().unwrap()
    };
    assert_eq!(fit(fitted), fit(alone), "padding does not count");
}

#[test]
fn bad_steps_make_bad_sequences() {
    let folder = tempfile::tempdir().unwrap();
    let path = put(folder.path(), "x.csv", "id,x,y\na,1,0\na,2,1\nb,x,0\nb,4,0\nc,5,0\n");
    let loader = |label: SequenceLabel| {
        let loader = Loader::open(&path).unwrap().field("x", Numbers::f32()).field("y", Class::of(["0", "1"]));
        let policy = BadRecords::Skip(BadLimits::default());
        loader.sequences(Sequences::by("id").label(label)).bad_records(policy)
    };
    for (label, good) in
        [(SequenceLabel::EachStep, &[0, 2][..]), (SequenceLabel::Last, &[0, 2]), (SequenceLabel::Constant, &[2])]
    {
        let mut batches = loader(label).build().unwrap();
        assert_eq!(batches.next().unwrap().unwrap().sample_ids(), good, "{label:?}");
        let bad = batches.bad_records();
        let all = format!("{bad:?}");
        assert!(bad.len() == 3 - good.len() && all.contains("line: Some(4)"), "{all}");
        assert_eq!(all.contains("step 1 of its sequence has another label"), label == SequenceLabel::Constant, "{all}");
    }
}

#[test]
fn what_they_do_not_go_with_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = put(folder.path(), "x.csv", "id,x\na,1\nb,2\na,3\n");
    let loader = || Loader::open(&path).unwrap().field("x", Numbers::f32()).sequences(Sequences::by("id"));
    let refused = |loader: Loader, words: &str| {
        let error = loader.build().map(drop).unwrap_err();
        assert!(error.to_string().contains(words), "{error}");
        error
    };
    let error = refused(loader(), "its sequence ended some records before; sort the records by sequence");
    assert_eq!((error.kind(), error.location().record), (ErrorKind::Data, Some(2)));
    refused(loader().filter("x > 1"), "there would be gaps");
    refused(loader().filter_by(["x"], |_| true), "there would be gaps");
    refused(loader().class_balanced(), "a whole sequence has no class");
    refused(loader().windows(ringfeed::read::Windows::new(1, 0)), "windows or sequences");
    refused(loader().sequences(Sequences { by: None, ..Sequences::by("id") }), "sequences.by: name the field");
    let error = loader().serve().map(drop).unwrap_err();
    assert!(error.message().contains("leave the sequences out"), "{error}");
    let many = tempfile::tempdir().unwrap();
    put(many.path(), "1.csv", "id,x\na,1\nb,2\n");
    put(many.path(), "2.csv", "id,x\nb,3\na,4\n");
    let many =
        Loader::open(many.path().join("*.csv")).unwrap().field("x", Numbers::f32()).sequences(Sequences::by("id"));
    let error = refused(many, "its sequence ended some records before");
    let place = error.location();
    assert_eq!((place.record, place.column.as_deref()), (Some(1), Some("id")), "the second of its file: {error}");
    put(folder.path(), "x.csv", "id,x\na,1\n,2\nb,3\n");
    refused(loader(), "sequences.by: a record has no value");
    let error = Loader::open(&path).unwrap().field("x", Numbers::f32()).sequences(Sequences::by("id").each_file());
    refused(error, "sequences.by: a record has no value");
    let short = put(folder.path(), "y.csv", "y\n1\n2\n");
    put(folder.path(), "x.csv", "id,x\na,1\nb,2\nb,3\n");
    let side_by_side = format!(
        "shorter = true\nsequences = {{ by = \"id\" }}\n[[sources]]\npath = {path:?}\nformat = \"csv\"\nfields.x = {{ numbers = \"f32\" \
         }}\n[[sources]]\npath = {short:?}\nformat = \"csv\"\nfields.y = {{ numbers = \"f32\" }}\n"
    );
    refused(Loader::from(toml::from_str::<LoaderConfig>(&side_by_side).unwrap()), "would end the last sequence");
    let lists = put(folder.path(), "x.jsonl", "{\"id\": 1, \"x\": [1, 2]}\n");
    let lists = Loader::open(lists).unwrap().field("x", Numbers::of(DType::I64).list());
    refused(lists.sequences(Sequences::by("id")), "its length differs from record to record");
}
