//! Windows over series, for forecasting: neighbouring records as features, those behind them as labels.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use ringfeed::arrays::{RawOptions, RawReader, StoredType};
use ringfeed::error::Location;
use ringfeed::field::{Image, Numbers, Tokens};
use ringfeed::memory::MemoryBudget;
use ringfeed::order::{Shard, Split};
use ringfeed::prepare::{Mean, Recipe, number};
use ringfeed::read::{Container, FieldInfo, FieldKind, MemoryReader, RecordReader, Scratch, Value, Visit, Windows};
use ringfeed::settings::{BadLimits, BadRecords};
use ringfeed::tensor::Role;
use ringfeed::tokens::{TokenCut, TokenOptions, TokenReader};
use ringfeed::transform::clip;
use ringfeed::{DType, DataSetIterator, ErrorKind, Loader, LoaderConfig, Normaliser, Result, Workspace};

/// Three sensors, one after another; sensor `s` has 10 times `s` records, the `n`th of all with the values n and n / 2.
fn sensors(folder: &Path) -> std::path::PathBuf {
    let mut text = "sensor,n,half\n".to_owned();
    let names = (1..4).flat_map(|sensor| vec![format!("s{sensor}"); 10 * sensor]);
    names.enumerate().for_each(|(n, sensor)| text += &format!("{sensor},{n},{}\n", n as f64 / 2.0));
    let path = folder.join("sensors.csv");
    std::fs::write(&path, text).unwrap();
    path
}

fn loader(path: &Path, windows: Windows) -> Loader {
    Loader::open(path)
        .unwrap()
        .field("before", Numbers::f32().from(["n", "half"]))
        .field("after", Numbers::i64().from("n").role(Role::Label))
        .windows(windows)
        .batch_size(4)
}

/// The records of each sample's features, and of its labels.
fn windows(batches: &mut dyn DataSetIterator) -> Vec<(Vec<i64>, Vec<i64>)> {
    let mut all = Vec::new();
    for batch in batches.epoch().unwrap() {
        let batch = batch.unwrap();
        let (before, after) = (batch.tensor("before").unwrap(), batch.tensor("after").unwrap());
        let (length, horizon) = (before.shape()[1], after.shape()[1]);
        assert_eq!((before.shape(), after.shape()), (&[batch.len(), length, 2][..], &[batch.len(), horizon][..]));
        let before = before.as_slice::<f32>().unwrap().chunks(2 * length);
        for (before, after) in before.zip(after.as_slice::<i64>().unwrap().chunks(horizon)) {
            assert!(before.chunks(2).all(|values| values[1] == values[0] / 2.0));
            all.push((before.iter().step_by(2).map(|n| *n as i64).collect(), after.to_vec()));
        }
    }
    all
}

/// What a naive loop gives.
fn naive(starts: impl Iterator<Item = i64>, length: i64, horizon: i64) -> Vec<(Vec<i64>, Vec<i64>)> {
    let end = |start: i64| start + length;
    starts.map(|start| ((start..end(start)).collect(), (end(start)..end(start) + horizon).collect())).collect()
}

#[test]
fn windows_are_those_of_a_naive_loop_whoever_makes_them() {
    let folder = tempfile::tempdir().unwrap();
    let path = sensors(folder.path());
    let whole = || loader(&path, Windows::new(4, 2).stride(3));
    let expected = naive((0..=54).step_by(3), 4, 2);
    assert_eq!(windows(&mut *whole().build().unwrap()), expected);
    assert_eq!(windows(&mut *whole().shield().build().unwrap()), expected);
    assert_eq!(whole().plan().unwrap().samples, Some(19));

    let each = || loader(&path, Windows::new(3, 1).series("sensor"));
    let starts = || (0..=6).chain(10..=26).chain(30..=56);
    let expected = naive(starts(), 3, 1);
    assert_eq!(windows(&mut *each().build().unwrap()), expected);
    let mut shuffled = windows(&mut *each().shuffle(5).workers(3).build().unwrap());
    assert_ne!(shuffled, expected);
    shuffled.sort();
    assert_eq!(shuffled, expected);
    let mut shards: Vec<_> = (0..3)
        .flat_map(|index| windows(&mut *each().shuffle(5).shard(Shard { index, count: 3 }).build().unwrap()))
        .collect();
    shards.sort();
    shards.dedup();
    assert_eq!(shards, expected);

    // A part of each series: 0 to 6, 10 to 22, 30 to 48, and what is left of each.
    let train = windows(&mut *loader(&path, Windows::new(3, 1).series("sensor").part(0.0, 0.6)).build().unwrap());
    let test = windows(&mut *loader(&path, Windows::new(3, 1).series("sensor").part(0.6, 1.0)).build().unwrap());
    assert_eq!(train, naive((0..=2).chain(10..=18).chain(30..=44), 3, 1));
    assert_eq!(test, naive((6..=6).chain(22..=26).chain(48..=56), 3, 1));

    // Labels of the same records.
    let tagged = windows(&mut *loader(&path, Windows::new(20, 0).stride(20)).build().unwrap());
    assert!(tagged.len() == 3 && tagged.iter().all(|(before, after)| before == after));
}

#[test]
fn parts_of_a_series_meet_wherever_it_is_cut() {
    let folder = tempfile::tempdir().unwrap();
    let path = sensors(folder.path());
    for share in [0.04, 0.25, 0.35, 0.5, 0.77] {
        let part = |from: f64, to: f64| {
            let single = Windows::new(1, 0).series("sensor").part(from, to);
            windows(&mut *loader(&path, single).build().unwrap()).into_iter().map(|(_, after)| after[0])
        };
        let mut both: Vec<i64> = part(0.0, share).chain(part(share, 1.0)).collect();
        both.sort_unstable();
        assert_eq!(both, (0..60).collect::<Vec<_>>(), "cut at {share}");
    }
}

/// Records that count how often they are read.
struct Counted {
    read: Arc<AtomicU64>,
    fields: [FieldInfo; 2],
}

impl Container for Counted {
    fn len(&self) -> u64 {
        200
    }

    fn fields(&self) -> &[FieldInfo] {
        &self.fields
    }

    fn fetch(&self, _: &[u64], _: usize, _: &mut Scratch) -> Result<()> {
        Ok(())
    }

    fn read(&self, record: u64, _: usize, _: &mut Scratch, visit: &mut Visit<'_>) -> Result<()> {
        self.read.fetch_add(1, Ordering::Relaxed);
        visit(0, Value::U64(record))?;
        visit(1, Value::F64(record as f64 / 2.0))
    }

    fn place(&self, record: u64) -> Location {
        Location { record: Some(record), ..Location::default() }
    }
}

#[test]
fn windows_in_order_read_what_they_share_once() {
    let read = Arc::new(AtomicU64::new(0));
    let loader = |windows| {
        let read = read.clone();
        let fields = ["n", "half"].map(|name| FieldInfo::new(name, FieldKind::Numbers(DType::F64)));
        let open = move |_: &_| Ok(Counted { read: read.clone(), fields: fields.clone() });
        Loader::from(LoaderConfig::default())
            .container(open)
            .field("before", Numbers::f32().from(["n", "half"]))
            .field("after", Numbers::i64().from("n").role(Role::Label))
            .windows(windows)
    };
    let counted = |loader: Loader| {
        read.store(0, Ordering::Relaxed);
        let found = windows(&mut *loader.build().unwrap());
        (found, read.load(Ordering::Relaxed))
    };
    for (length, horizon, stride) in [(10, 2, 1), (7, 0, 3), (5, 5, 9), (4, 1, 5), (3, 2, 20)] {
        let each = || loader(Windows::new(length, horizon).stride(stride)).batch_size(1000);
        let (expected, once) = counted(each().shield());
        let span = length + horizon;
        let starts = (0..=200 - span as i64).step_by(stride);
        let labels = if horizon == 0 { (0, length) } else { (length, horizon) };
        let naive: Vec<(Vec<i64>, Vec<i64>)> = starts
            .map(|start| {
                let behind = start + labels.0 as i64;
                ((start..start + length as i64).collect(), (behind..behind + labels.1 as i64).collect())
            })
            .collect();
        assert_eq!(expected, naive);
        let distinct = if stride < span { (naive.len() - 1) * stride + span } else { naive.len() * span };
        assert_eq!(once, distinct as u64, "{length} {horizon} {stride}");
        for batch_size in [1, 3, 16] {
            let (mut found, _) = counted(each().batch_size(batch_size).workers(2).shuffle(3));
            found.sort();
            assert_eq!(found, expected);
            assert_eq!(counted(each().batch_size(batch_size).workers(2)).0, expected);
        }
    }

    // The records that they share count on the budget. Those of a job may take a small part of it; otherwise, those of one
    // window are kept. Without room for these, each window reads its own.
    let within = |budget: &MemoryBudget| {
        read.store(0, Ordering::Relaxed);
        let workspace = Workspace::builder().prefetch(2).budget(budget.clone()).build().unwrap();
        let mut batches = loader(Windows::new(10, 2)).batch_size(10).shield().build_in(&workspace).unwrap();
        let first = batches.next().unwrap().map(drop);
        let found = first.map(|()| windows(&mut *batches));
        (found, read.load(Ordering::Relaxed), budget.used())
    };
    let (expected, once, with_job) = within(&MemoryBudget::unlimited());
    let expected = expected.unwrap();
    // The first of the two tensors takes 256 bytes with what aligns the second.
    let bytes_of = |records: u64| 256 + 8 * records;
    let [with_window, with_one] = [12, 1].map(|records| with_job - bytes_of(21) + bytes_of(records));
    for (budget, reads, expected_use) in [
        (64 * with_job, once, with_job),
        (with_window, once, with_window),
        (with_window - 1, (10 + 189) * 12, with_one),
    ] {
        let budget = MemoryBudget::new(budget);
        let (found, read, used) = within(&budget);
        assert!(found.unwrap() == expected);
        assert_eq!((read, used), (reads, expected_use));
        assert_eq!(budget.used(), 0);
    }
    let (found, _, _) = within(&MemoryBudget::new(with_one - 1));
    let error = found.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Budget);
    assert!(error.to_string().contains("a record of a window needs"), "{error}");
}

/// Otherwise overlapping windows would read and decode records again for each window.
#[test]
fn arrays_and_tokens_have_the_same_values_in_each_window() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("numbers.bin");
    std::fs::write(&path, [0; 400]).unwrap();
    let raw = RawReader::open(&path, &RawOptions::features(StoredType::U8, &[4])).unwrap();
    let memory = MemoryReader::new("x", Role::Feature, &[4], vec![0u8; 400]).unwrap();
    let cut = TokenCut::Contiguous { stride: None };
    let tokens = TokenReader::open(&path, &TokenOptions { window: 10, cut, ..TokenOptions::default() }).unwrap();
    let readers: [&dyn RecordReader; 3] = [&raw, &memory, &tokens];
    assert!(readers.iter().all(|reader| !reader.is_random()));
}

#[test]
fn a_mask_is_made_of_the_records_of_its_tensor() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("lists.jsonl");
    // As many numbers as the record's number says, in one list; one more in the other.
    let list = |len: usize| format!("{:?}", vec![7; len]);
    let lines = (0..12).map(|n| format!("{{\"x\": {}, \"y\": {}}}\n", list(n % 4), list((n + 1) % 4)));
    std::fs::write(&path, lines.collect::<String>()).unwrap();
    for horizon in [0, 2] {
        let loader = Loader::open(&path)
            .unwrap()
            .field("x", Tokens::new(4))
            .field("y", Tokens::new(4).from("y").role(Role::Label))
            .windows(Windows::new(8, horizon).stride(2))
            .batch_size(1);
        let windows: Vec<_> = loader.build().unwrap().map(|batch| batch.unwrap()).collect();
        assert_eq!(windows.len(), (12 - 8 - horizon) / 2 + 1);
        for (nth, batch) in windows.iter().enumerate() {
            for (name, more, records) in [("x", 0, 0..8), ("y", 1, if horizon == 0 { 0..8 } else { 8..8 + horizon })] {
                let (tensor, mask) = (batch.tensor(name).unwrap(), batch.tensor(&format!("{name}_mask")).unwrap());
                assert_eq!((tensor.shape(), mask.shape()), (&[1, records.len(), 4][..], &[1, records.len(), 4][..]));
                let present = tensor.as_slice::<i64>().unwrap().iter().map(|token| u8::from(*token == 7));
                assert_eq!(mask.bytes(), present.collect::<Vec<_>>());
                let counts: Vec<usize> =
                    mask.bytes().chunks(4).map(|one| one.iter().filter(|x| **x == 1).count()).collect();
                let expected = records.map(|record| (2 * nth + record + more) % 4);
                assert_eq!(counts, expected.collect::<Vec<_>>(), "{name}");
            }
        }
    }
}

#[test]
fn an_epoch_of_windows_is_resumed_and_normalised_as_any_other() {
    let folder = tempfile::tempdir().unwrap();
    let path = sensors(folder.path());
    let each = || loader(&path, Windows::new(3, 1).series("sensor")).shuffle(5);
    let mut whole = each().build().unwrap();
    let mut batches = whole.epoch().unwrap();
    (0..4).for_each(|_| drop(batches.next().unwrap().unwrap()));
    drop(batches);
    let state = whole.state();
    let rest = |mut batches: Box<dyn DataSetIterator>| -> Vec<u64> {
        std::iter::from_fn(|| batches.next()).flat_map(|batch| batch.unwrap().sample_ids().to_vec()).collect()
    };
    let expected = rest(whole);
    assert_eq!(expected.len(), 7 + 17 + 27 - 16);
    let mut resumed = each().build().unwrap();
    resumed.seek(&state).unwrap();
    assert_eq!(rest(resumed), expected);
    let mut other = loader(&path, Windows::new(4, 1).series("sensor")).shuffle(5).build().unwrap();
    assert!(other.seek(&state).is_err(), "other windows are another source");
    // Also where there are as many of them.
    for (one, other) in [
        (Windows::new(3, 2), Windows::new(2, 3)),
        (Windows::new(5, 0).stride(15), Windows::new(5, 0).stride(18)),
        (Windows::new(5, 0).part(0.0, 0.5), Windows::new(5, 0).part(0.5, 1.0)),
    ] {
        let [mut one, mut other] = [one, other].map(|windows| loader(&path, windows).build().unwrap());
        assert_eq!(one.batches_per_epoch(), other.batches_per_epoch());
        let state = one.state();
        one.seek(&state).unwrap();
        assert!(other.seek(&state).is_err(), "{state:?}");
    }

    let plus_one = Normaliser::Standardise { axis: None, mean: vec![-1.0], deviation: vec![0.5] };
    let scaled = loader(&path, Windows::new(2, 1)).normalise("before", plus_one);
    let batch = scaled.build().unwrap().next().unwrap().unwrap();
    assert_eq!(batch.tensor("before").unwrap().as_slice::<f32>().unwrap()[..4], [2.0, 2.0, 4.0, 3.0]);
}

#[test]
fn settings_say_windows_too_and_a_recipe_is_fitted_to_their_part() {
    let folder = tempfile::tempdir().unwrap();
    let path = sensors(folder.path());
    let settings = r#"
        batch_size = 4
        windows = { length = 3, horizon = 2, series = "sensor", part = [0.0, 0.5] }
        [source]
        path = "sensors.csv"
        [fields]
        before = { from = ["n", "half"], numbers = "f32" }
        after = { from = "n", numbers = "i64", role = "label" }
    "#;
    std::fs::write(folder.path().join("loader.toml"), settings).unwrap();
    let config = LoaderConfig::load(folder.path().join("loader.toml")).unwrap();
    let said = Loader::from(config);
    let expected = naive((0..=0).chain(10..=15).chain(30..=40), 3, 2);
    assert_eq!(windows(&mut *said.build().unwrap()), expected);

    let recipe = Recipe::new().column("n", number().impute(Mean).standardise()).column("half", number());
    let prepared = recipe.fit(&said).unwrap();
    assert_eq!(prepared.records(), 30, "each record of the part once");
    let mut row = prepared.row();
    prepared.apply_json(r#"{"half": 0}"#, &mut row).unwrap();
    let features = row.f32("features").unwrap().to_vec();
    assert_eq!(features, [0.0, 0.0], "the mean stands for a missing value");
    let series = Loader::open(&path).unwrap().prepare(&prepared).windows(Windows::new(5, 1)).batch_size(2);
    let batch = series.build().unwrap().next().unwrap().unwrap();
    assert_eq!(batch.tensor("features").unwrap().shape(), [2, 5, 2]);
    let halves = batch.tensor("features").unwrap().as_slice::<f32>().unwrap();
    assert_eq!(halves[1..10].iter().step_by(2).copied().collect::<Vec<_>>(), [0.0, 0.5, 1.0, 1.5, 2.0]);
}

#[test]
fn what_cannot_be_windows_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = sensors(folder.path());
    let refused = |loader: Loader, part: &str| {
        let error = loader.build().map(|_| ()).unwrap_err();
        assert!(error.to_string().contains(part), "{part} in {error}");
    };
    let windows = || loader(&path, Windows::new(3, 1));
    refused(windows().split(Split::train(0.8)), "windows.part");
    refused(windows().filter("n > 3"), "there would be gaps");
    refused(windows().filter_by(["n"], |_| true), "there would be gaps");
    refused(windows().bucket("before", [4]), "leave out bucket");
    refused(loader(&path, Windows::new(0, 1)), "windows.length: 0; give 1 or more");
    refused(loader(&path, Windows::new(60, 1)), "no series has the 61 records of a window");
    let filtered = Recipe::new().filter("n > 3").column("n", number());
    let prepared = filtered.fit(&Loader::open(&path).unwrap()).unwrap();
    refused(Loader::open(&path).unwrap().prepare(&prepared).windows(Windows::new(3, 1)), "there would be gaps");
    let lists = folder.path().join("lists.jsonl");
    std::fs::write(&lists, "{\"x\": [1]}\n{\"x\": [1, 2]}\n").unwrap();
    let lists = Loader::open(&lists).unwrap().field("x", Tokens::from("x")).windows(Windows::new(1, 1));
    refused(lists, "differs from record to record");
    let mixed = folder.path().join("mixed.csv");
    std::fs::write(&mixed, "sensor,n,half\na,0,0\nb,1,1\na,2,2\n").unwrap();
    refused(loader(&mixed, Windows::new(1, 0).series("sensor")), "sort the records by series");
}

#[test]
#[cfg_attr(not(feature = "images"), ignore = "decodes images")]
fn a_bad_record_spoils_the_windows_that_it_is_in() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("bad.csv");
    let text: String =
        (0..30).map(|n| if n == 11 { "s,x,0\n".to_owned() } else { format!("s,{n},{}\n", n as f64 / 2.0) }).collect();
    std::fs::write(&path, "sensor,n,half\n".to_owned() + &text).unwrap();
    let windows_of = || loader(&path, Windows::new(3, 1)).bad_records(BadRecords::Skip(BadLimits::default()));
    let expected = naive((0..=7).chain(12..=26), 3, 1);
    assert_eq!(windows(&mut *windows_of().build().unwrap()), expected);
    // Also where all windows of a batch share what is read.
    for windowed in [windows_of().batch_size(27).shield(), windows_of().batch_size(27).workers(1)] {
        assert_eq!(windows(&mut *windowed.build().unwrap()), expected);
    }
    let error = windows_of().bad_records(BadRecords::Fail).build().unwrap().find_map(Result::err).unwrap();
    assert_eq!(error.kind(), ErrorKind::Data);
    assert!(error.to_string().contains("bad.csv"), "{error}");
    let pictures = Loader::open("fixtures/photos").unwrap();
    let pictures = pictures.field("image", ringfeed::field::Image::rgb(8, 8).dtype(DType::U8));
    let batch = pictures.windows(Windows::new(2, 0)).build().unwrap().next().unwrap().unwrap();
    assert_eq!(batch.tensor("image").unwrap().shape(), [5, 2, 3, 8, 8]);
}

#[test]
fn a_record_without_a_series_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("s.csv");
    std::fs::write(&path, "id,x\na,1\na,2\n,3\n,4\nb,5\nb,6\n").unwrap();
    let settings = format!(
        r#"{{"source": {{"path": {path:?}}}, "fields": {{"x": "f32"}}, "windows": {{"length": 2, "series": "id"}}}}"#
    );
    let error = Loader::from(LoaderConfig::from_json(&settings).unwrap()).build().map(drop).unwrap_err();
    assert_eq!((error.kind(), error.location().record), (ErrorKind::Data, Some(2)), "{error}");
}

#[test]
fn padding_in_windows_is_not_normalised() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("lists.jsonl");
    let lines: Vec<String> = (0..12usize).map(|n| format!("{{\"l\": {:?}}}\n", vec![10 + n; n % 5])).collect();
    std::fs::write(&path, lines.concat()).unwrap();
    let normaliser = Normaliser::Standardise { axis: None, mean: vec![10.0], deviation: vec![2.0] };
    let open = || {
        let lists = Numbers::f32().max_len(4);
        Loader::open(&path).unwrap().field("l", lists).normalise("l", normaliser.clone()).batch_size(12)
    };
    let rows = |loader: Loader| -> Vec<f32> {
        let batch = loader.build().unwrap().next().unwrap().unwrap();
        batch.f32("l").unwrap().to_vec()
    };
    let single = rows(open());
    let naive: Vec<f32> =
        (0..12usize).flat_map(|n| (0..4).map(move |at| if at < n % 5 { n as f32 / 2.0 } else { 0.0 })).collect();
    assert_eq!(single, naive);
    for length in [1, 3] {
        let windows: Vec<f32> = naive.windows(4 * length).step_by(4).flatten().copied().collect();
        assert_eq!(rows(open().windows(Windows::new(length, 0))), windows, "{length}");
        let served = open().windows(Windows::new(length, 0)).serve().unwrap();
        let mut window = served.window().unwrap();
        for (at, line) in lines.iter().enumerate() {
            if window.push_json(line).unwrap() {
                let start = 4 * (at + 1 - length);
                assert_eq!(window.latest().unwrap().f32("l").unwrap(), &naive[start..start + 4 * length]);
            }
        }
    }
}

#[cfg(feature = "images")]
#[test]
fn images_in_windows_are_normalised_by_channel() {
    use ringfeed::field::Image;
    let folder = tempfile::tempdir().unwrap();
    for name in ["a", "b", "c", "d", "e", "f"] {
        std::fs::write(folder.path().join(format!("{name}.ppm")), b"P6 1 1 255\n\0\0\0").unwrap();
    }
    for length in 1..5 {
        let loader = Loader::open(folder.path()).unwrap().field("image", Image::rgb(4, 4));
        let axis = if length == 3 { Some(1) } else { None };
        let Normaliser::Channels { mean, deviation, .. } = Normaliser::imagenet() else { unreachable!() };
        let of_axis = |axis| Normaliser::Channels { axis, mean: mean.clone(), deviation: deviation.clone() };
        let loader = |axis| loader.clone().normalise("image", of_axis(axis)).windows(Windows::new(length, 0));
        if axis.is_some() {
            let error = loader(None).build().err().unwrap();
            assert!(error.message().contains("give the axis"), "{error}");
        }
        let loader = loader(axis);
        let batch = loader.batch_size(2).build().unwrap().next().unwrap().unwrap();
        let black = [-0.485 / 0.229, -0.456 / 0.224, -0.406 / 0.225].map(|value| value as f32);
        let expected = (0..2 * length).flat_map(|_| black.iter().flat_map(|value| [*value; 16]));
        for (found, expected) in batch.f32("image").unwrap().iter().zip(expected) {
            assert!((found - expected).abs() < 1e-6, "{length}: {found}, {expected}");
        }
    }
}

#[test]
fn verifying_checks_records_and_not_what_is_made_of_windows() {
    let folder = tempfile::tempdir().unwrap();
    let path = sensors(folder.path());
    let of_window = Normaliser::Standardise { axis: Some(1), mean: vec![1.0, 2.0], deviation: vec![1.0, 1.0] };
    let loader = loader(&path, Windows::new(4, 2)).normalise("before", of_window).change("before", |_, before, _| {
        assert_eq!(before.shape(), [4, 2]);
        Ok(())
    });
    let expected = loader.clone().build().unwrap().filter(|batch| batch.is_ok()).count();
    assert!(expected > 0);
    let report = loader.verify(|_| {}).unwrap();
    assert_eq!((report.samples, report.bad_samples), (60, 0), "{:?}", report.bad);
}

fn standardised() -> Normaliser {
    Normaliser::Standardise { axis: None, mean: vec![1000.0], deviation: vec![1.0] }
}

#[test]
fn numbers_of_16_bits_are_not_normalised_after_they_are_rounded() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.csv");
    std::fs::write(&path, "x\n1000.5\n999.5\n1001\n").unwrap();
    for dtype in [DType::Bf16, DType::F16] {
        let loader = Loader::open(&path).unwrap().field("x", Numbers::of(dtype));
        let loader = loader.field("y", Numbers::f32().from("x")).windows(Windows::new(2, 0));
        let after_another = |loader: Loader| loader.transform(clip("y", 0.0, 1.0)).normalise("x", standardised());
        let (before, loader) = (loader.clone(), loader.normalise("x", standardised()));
        for loader in [loader, after_another(before)] {
            let error = loader.build().map(drop).unwrap_err();
            assert!(error.message().contains("rounded before they are normalised"), "{error}");
        }
        // Such as settings can't say.
        let loader = Loader::open(&path).unwrap().field("x", Numbers::of(dtype)).windows(Windows::new(2, 0));
        let own = loader.change("x", |_, _, _| Ok(())).normalise("x", standardised());
        assert!(own.build().is_ok(), "it is normalised after the change, and rounded in between without windows, too");
    }
}

#[test]
#[cfg_attr(not(feature = "images"), ignore = "decodes images")]
fn pictures_of_16_bits_in_windows_are_normalised_as_others_are() {
    let photos = || Loader::images("fixtures/photos").field("image", Image::rgb(6, 5).dtype(DType::F16)).shield();
    let read = |loader: Loader| {
        let batch = loader.normalise("image", Normaliser::imagenet()).batch_size(1).build().unwrap().next().unwrap();
        batch.unwrap().tensor("image").unwrap().bytes().to_vec()
    };
    assert_eq!(read(photos().windows(Windows::new(1, 0))), read(photos()));
}
