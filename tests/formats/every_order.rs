//! Every order over every format: many files of each format are one data set, and each order over it is the same by any
//! workers, behind a shield, on shards and after a restart, and gives every sample the bytes that it has in the
//! source's own order.
#![expect(clippy::unwrap_used, reason = "a test ends with the first surprise")]

use std::collections::{BTreeMap, BTreeSet};

use crate::common::{Seen, see_all, watchdog};
use crate::samples::{Sample, Told, samples};
use ringfeed::{DataSetIterator, ErrorKind, Loader, LoaderConfig};
use serde_json::{Value, json};

/// How often the files of a sample are there: a data set that is more than a few records.
const COPIES: usize = 6;

/// Formats whose files are one record each, in a folder for each class.
const OF_CLASSES: [&str; 2] = ["images", "audio"];

/// Formats of arrays, whose records have no fields to make classes of.
const ARRAYS: [&str; 2] = ["idx", "npy"];

/// Whether this build reads a format whose records have fields.
fn is_decoded(format: &str) -> bool {
    cfg!(feature = "images") || format != "images"
}

/// Several copies of a sample as one data set.
struct DataSet {
    what: String,
    _folder: tempfile::TempDir,
    settings: Value,
    /// The tensors of each record, in their own order.
    records: Vec<Vec<Vec<u8>>>,
}

impl DataSet {
    fn new(sample: &Sample) -> Self {
        watchdog::watch();
        let folder = tempfile::tempdir().unwrap();
        let data = folder.path().join("data");
        let in_folders = OF_CLASSES.contains(&sample.format) || sample.files.len() > 1;
        for copy in 0..COPIES {
            for (name, bytes) in &sample.files {
                let path = match in_folders {
                    true => data.join(copy.to_string()).join(name),
                    false => data.join(format!("{copy}-{name}")),
                };
                std::fs::create_dir_all(path.parent().unwrap()).unwrap();
                std::fs::write(path, bytes).unwrap();
            }
        }
        let each = |copy: usize| data.join(copy.to_string()).join(&sample.path);
        let source = match (OF_CLASSES.contains(&sample.format), in_folders) {
            (true, _) => sample.source(&data),
            (false, true) => sample.source(&(0..COPIES).map(each).collect::<Vec<_>>()),
            (false, false) => sample.source(&data.join("*")),
        };
        let settings = format!(r#"{{"source": {source}, "batch_size": 1{}}}"#, sample.fields);
        let settings = serde_json::from_str(&settings).unwrap();
        let mut data = Self { what: sample.format.to_owned(), _folder: folder, settings, records: Vec::new() };
        data.records = data.run(json!({"shield": true}), None).into_iter().map(|batch| batch.tensors).collect();
        assert!(data.records.len() >= COPIES, "{}: each copy has a record", data.what);
        data
    }

    fn loader(&self, more: &Value) -> Loader {
        let mut settings = self.settings.clone();
        let keys = more.as_object().unwrap().clone();
        settings.as_object_mut().unwrap().extend(keys);
        let config = LoaderConfig::from_json(&settings.to_string());
        config.unwrap_or_else(|error| panic!("{}, {more}: {error}", self.what)).into()
    }

    fn open(&self, more: &Value) -> Box<dyn DataSetIterator> {
        self.loader(more).build().unwrap_or_else(|error| panic!("{}, {more}: {error}", self.what))
    }

    /// The batches of an epoch, or those behind its first ones.
    fn run(&self, more: Value, behind: Option<usize>) -> Vec<Seen> {
        let mut batches = self.open(&more);
        if let Some(batch) = behind {
            let mut stopped = self.open(&more);
            stopped.by_ref().take(batch).for_each(|batch| drop(batch.unwrap()));
            batches.seek(&stopped.state()).unwrap();
        }
        see_all(&mut *batches)
    }

    /// The samples of an epoch of this order, which is compared with itself in every way that it can be run.
    fn order(&self, order: Value) -> Vec<usize> {
        let with = |more: Value| {
            let mut order = order.clone();
            order.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            order
        };
        let what = || format!("{}, {order}", self.what);
        let expected = self.run(with(json!({"shield": true})), None);
        for batch in &expected {
            let record = &self.records[batch.samples[0] as usize % self.records.len()];
            for (tensor, record) in batch.tensors.iter().zip(record) {
                // Buckets have padding.
                assert!(
                    tensor.starts_with(record) && tensor[record.len()..].iter().all(|byte| *byte == 0),
                    "{}",
                    what()
                );
            }
        }
        for (workers, prefetch) in [(1, 0), (2, 3)] {
            let threads = json!({"workers": workers, "prefetch": prefetch});
            assert!(self.run(with(threads), None) == expected, "{}: {workers} workers", what());
        }
        for behind in [1.min(expected.len()), expected.len() / 2] {
            assert!(self.run(order.clone(), Some(behind)) == expected[behind..], "{}: behind {behind}", what());
        }
        let shard = |index: u32| self.run(with(json!({"shard": {"index": index, "count": 2}})), None);
        let mut dealt: Vec<Seen> = (0..2).flat_map(shard).collect();
        dealt.sort_by_key(|batch| batch.positions[0]);
        dealt.truncate(expected.len());
        let of = |batches: &[Seen]| {
            let of = |batch: &Seen| (batch.positions[0], batch.samples[0], batch.tensors.clone());
            batches.iter().map(of).collect::<Vec<_>>()
        };
        assert!(of(&dealt) == of(&expected), "{}: on two shards", what());
        expected.iter().map(|batch| batch.samples[0] as usize).collect()
    }

    /// The same of both parts of a split, or fold: each sample is in one of them.
    fn parts(&self, more: &Value) -> [Vec<usize>; 2] {
        let is_split = more.get("folds").is_none();
        let parts = [true, false].map(|is_first| {
            let mut order = json!({"shuffle": 7});
            let keys = order.as_object_mut().unwrap();
            keys.extend(more.as_object().unwrap().clone());
            if is_split {
                let part = if is_first { "train" } else { "test" };
                keys.insert("split".into(), json!({"train": 0.5, "test": 0.5, "part": part}));
            } else {
                keys["folds"]["held_out"] = json!(is_first);
            }
            self.order(order)
        });
        let mut all = parts.concat();
        all.sort_unstable();
        assert_eq!(all, (0..self.records.len()).collect::<Vec<_>>(), "{}, {more}", self.what);
        parts
    }

    /// How many samples of a part there are of each kind of record.
    fn kinds(&self, part: &[usize]) -> BTreeMap<&Vec<Vec<u8>>, f64> {
        let mut kinds: BTreeMap<_, f64> = self.records.iter().map(|record| (record, 0.0)).collect();
        part.iter().for_each(|sample| *kinds.get_mut(&self.records[*sample]).unwrap() += 1.0);
        kinds
    }
}

fn data_sets() -> impl Iterator<Item = (Sample, DataSet)> {
    let lists = "{\"x\": 1, \"z\": [7]}\n{\"x\": 22, \"z\": [1, 2, 3, 4, 5]}\n";
    let lists = Sample::new("jsonl", "lists.jsonl", lists, Told::Nothing)
        .fields(r#"{"z": {"from": "/z", "numbers": "i64"}}"#)
        .length("z");
    let read = samples().into_iter().chain([lists]).filter(|sample| sample.is_read && sample.damaged != "index.json");
    read.map(|sample| {
        let data = DataSet::new(&sample);
        (sample, data)
    })
}

#[test]
fn samples_of_every_format_are_shuffled_split_and_mixed() {
    for (_, data) in data_sets() {
        let count = data.records.len();
        let whole: Vec<usize> = (0..count).collect();
        assert_eq!(data.order(json!({})), whole);
        for shuffle in [json!(7), json!({"seed": 7, "blocks": 2})] {
            let shuffled = data.order(json!({"shuffle": shuffle}));
            assert_ne!(shuffled, whole);
            assert_eq!(shuffled.iter().copied().collect::<BTreeSet<_>>().len(), count);
        }
        assert_eq!(data.order(json!({"shuffle": 7, "samples_per_epoch": 4})).len(), 4);
        data.parts(&json!({}));
        data.parts(&json!({"folds": {"fold": 1, "count": 3}}));

        let mut mixed = json!({"mix": [2, 1], "shuffle": 3, "samples_per_epoch": 3 * count});
        let fields = data.settings.get("fields").cloned().unwrap_or(json!({}));
        let mut source = data.settings["source"].clone();
        source["fields"] = fields;
        mixed["sources"] = json!([source, source]);
        let twice = DataSet { settings: json!({"batch_size": 1}), records: data.records.clone(), ..data };
        let samples = twice.order(mixed);
        let of_first = samples.iter().filter(|sample| **sample < count).count();
        assert!(of_first > samples.len() / 2 && of_first < samples.len(), "{}: {of_first} of the first", twice.what);
    }
}

#[test]
fn samples_of_every_format_with_fields_are_chosen_by_them() {
    let mut chosen_by = BTreeSet::new();
    for (sample, data) in data_sets() {
        if ["tokens", "text_tokens"].contains(&sample.format) {
            for (filter, message) in [
                ("length > 1", "no single value \"length\""),
                ("len(tokens) > 1", "\"tokens\" has no length that differs"),
            ] {
                let error = data.loader(&json!({"filter": filter})).build().err().unwrap();
                assert!(error.message().contains(message), "{}: {error}", data.what);
            }
        }
        let Some((field, first)) = sample.by else { continue };
        chosen_by.insert(sample.format);
        let like_first: Vec<usize> =
            (0..data.records.len()).filter(|nth| data.records[*nth] == data.records[0]).collect();
        assert_eq!(data.order(json!({"filter": format!("`{field}` == {first}")})), like_first, "{}", data.what);
        let all = data.kinds(&(0..data.records.len()).collect::<Vec<_>>());
        for more in [json!({"stratify": field}), json!({"stratify": field, "folds": {"fold": 0, "count": 2}})] {
            for part in data.parts(&more) {
                let kinds = data.kinds(&part);
                let even = all.iter().all(|(kind, count)| (kinds[kind] - count / 2.0).abs() < 1.0);
                assert!(even, "{}, {more}: {kinds:?}", data.what);
            }
        }
        for more in [json!({"group": field}), json!({"group": field, "folds": {"fold": 0, "count": 2}})] {
            if all.len() < 2 {
                break;
            }
            for part in data.parts(&more) {
                let kinds = data.kinds(&part);
                let whole = all.iter().all(|(kind, count)| kinds[kind] == 0.0 || kinds[kind] == *count);
                assert!(whole, "{}, {more}: {kinds:?}", data.what);
            }
        }
    }
    let others: BTreeSet<&str> = samples().iter().map(|sample| sample.format).collect();
    let others: Vec<&str> = others.difference(&chosen_by).copied().filter(|format| is_decoded(format)).collect();
    assert_eq!(others, ["text_tokens", "tokens"], "windows of one long text have no field");
}

#[test]
fn samples_of_every_format_with_fields_are_drawn_by_weights_and_with_their_classes_balanced() {
    let (mut weighted, mut balanced) = (BTreeSet::new(), BTreeSet::new());
    let mut refused = BTreeSet::new();
    for (sample, mut data) in data_sets() {
        let Some((field, first)) = sample.by else { continue };
        let count = data.records.len();
        // Classes are whole numbers from 0, or names.
        let mut are_classes = !first.contains('.') && !ARRAYS.contains(&sample.format);
        let order = json!({"weight_by": field, "shuffle": 3, "samples_per_epoch": 20 * count});
        match data.loader(&order).build() {
            Ok(_) => {
                weighted.insert(sample.format);
                let drawn = data.order(order);
                assert_eq!(drawn.len(), 20 * count, "{}", data.what);
                let of_first = drawn.iter().filter(|nth| data.records[**nth] == data.records[0]).count();
                assert_eq!(of_first == 0, first.trim_matches('\'') == "0", "{}: {of_first} of {drawn:?}", data.what);
            }
            // Texts, and numbers below 0.
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::Data, "{}: {error}", data.what);
                assert!(error.path().is_some() && error.location().record.is_some(), "{}: {error}", data.what);
                are_classes &= !error.message().starts_with("a weight of -");
                refused.insert(sample.format);
            }
        }
        // Of a single kind of record there is nothing to balance.
        if data.kinds(&(0..count).collect::<Vec<_>>()).len() < 2 || !are_classes {
            continue;
        }
        let is_label = OF_CLASSES.contains(&sample.format);
        if !is_label {
            data.settings["fields"] = json!({"label": {"from": field, "class": []}});
            data.records = data.run(json!({"shield": true}), None).into_iter().map(|batch| batch.tensors).collect();
        }
        balanced.insert(sample.format);
        let drawn = data.order(json!({"class_balanced": true, "shuffle": 3, "samples_per_epoch": 60 * count}));
        let kinds = data.kinds(&drawn);
        let each = drawn.len() as f64 / kinds.len() as f64;
        let is_even = kinds.values().all(|count| (count / each - 1.0).abs() < 0.25);
        assert!(is_even, "{}: {:?} of {each}", data.what, kinds.values());
    }
    assert_eq!(refused.into_iter().collect::<Vec<_>>(), ["libsvm", "text", "text_files", "tfrecord"]);
    // Of the others all records are alike, or they have no classes.
    let with_classes = ["csv", "csv_sequences", "jsonl", "litdata", "mds", "npz", "raw", "safetensors", "text"];
    assert!(with_classes.iter().all(|format| balanced.contains(format)), "{balanced:?}");
    assert!(weighted.is_superset(&BTreeSet::from(["csv", "csv_sequences", "idx", "jsonl", "npy", "raw", "tar"])));
}

#[test]
fn samples_of_every_format_with_lengths_come_in_buckets_and_are_chosen_by_them() {
    let mut bucketed = BTreeSet::new();
    for (sample, data) in data_sets() {
        let Some(tensor) = sample.length else { continue };
        bucketed.insert(sample.format);
        let length = |batch: ringfeed::Result<ringfeed::DataSet>| -> usize {
            batch.unwrap().tensor(tensor).unwrap().shape().iter().product()
        };
        let lengths: Vec<usize> = data.open(&json!({})).map(length).collect();
        assert!(lengths.iter().all(|length| *length > 0), "{}", data.what);
        for length in BTreeSet::from_iter(&lengths) {
            let like: Vec<usize> = (0..lengths.len()).filter(|nth| lengths[*nth] == *length).collect();
            let chosen = data.order(json!({"filter": format!("len({tensor}) == {length}")}));
            assert_eq!(chosen, like, "{}: {length}", data.what);
        }
        for shuffle in [json!(null), json!(5)] {
            let mut order = json!({"bucket": {"by": tensor, "bounds": [1, 4, 20]}});
            if !shuffle.is_null() {
                order["shuffle"] = shuffle;
            }
            let mut samples = data.order(order);
            samples.sort_unstable();
            assert_eq!(samples, (0..data.records.len()).collect::<Vec<_>>(), "{}", data.what);
        }
    }
    assert_eq!(bucketed.into_iter().collect::<Vec<_>>(), ["audio", "csv_sequences", "jsonl"]);
}
