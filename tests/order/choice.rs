//! Samples chosen by their fields: filters, and splits and folds by class and group.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::{BTreeMap, BTreeSet};

use crate::common::{Seen, see_all, workspace};
use proptest::prelude::*;
use ringfeed::csv::CsvOptions;
use ringfeed::field::{Numbers, Text};
use ringfeed::order::{Part, RandomKey, Shard, Split, Strata, Subset};
use ringfeed::prepare::{Recipe, number};
use ringfeed::read::MemoryReader;
use ringfeed::source::ReaderSource;
use ringfeed::tensor::Role;
use ringfeed::{AsyncDataSetIterator, DataSetIterator, ErrorKind, Loader, LoaderConfig};

fn samples(batches: &[Seen]) -> Vec<u64> {
    batches.iter().flat_map(|batch| batch.samples.iter().copied()).collect()
}

fn of(config: &LoaderConfig) -> Vec<u64> {
    samples(&see_all(&mut *Loader::from(config.clone()).build().unwrap()))
}

#[test]
fn tensors_of_every_source_choose_samples() {
    let folder = tempfile::tempdir().unwrap();
    let of_numbers = |numbers: &[i64]| numbers.iter().map(|x| format!("{x}\n")).collect::<String>();
    std::fs::write(folder.path().join("x.csv"), format!("x\n{}", of_numbers(&[0, 1, 2, 3, 4, 5]))).unwrap();
    std::fs::write(folder.path().join("y.csv"), format!("y\n{}", of_numbers(&[0, 1, 0, 1, 0, 1]))).unwrap();
    std::fs::write(folder.path().join("t.csv"), "t\na\nbb\nccc\na\nbb\nccc\n").unwrap();
    let bytes = |numbers: &[i64]| numbers.iter().flat_map(|x| x.to_le_bytes()).collect::<Vec<u8>>();
    std::fs::write(folder.path().join("z.raw"), bytes(&[5, 4, 3, 2, 1, 0])).unwrap();
    let chosen = |settings: &str| -> ringfeed::Result<Vec<u64>> {
        let at = |name: &str| folder.path().join(name);
        let sources = format!(
            r#""sources": [{{"format": "csv", "path": {:?}, "fields": {{"x": "f32"}}}},
                {{"format": "csv", "path": {:?}, "fields": {{"y": "f32"}}}},
                {{"format": "csv", "path": {:?}, "fields": {{"t": {{"text": 4}}}}}},
                {{"format": "raw", "path": {:?}, "options": {{"stored": "i64"}}, "fields": {{"z": "i64"}}}}]"#,
            at("x.csv"),
            at("y.csv"),
            at("t.csv"),
            at("z.raw"),
        );
        let config = LoaderConfig::from_json(&format!("{{{sources}, {settings}}}"))?;
        let planned = Loader::from(config.clone()).plan()?.samples;
        let found = samples(&see_all(&mut *Loader::from(config).build()?));
        assert_eq!(planned, Some(found.len() as u64), "{settings}");
        Ok(found)
    };
    assert_eq!(chosen(r#""filter": "y == 1""#).unwrap(), [1, 3, 5]);
    assert_eq!(chosen(r#""filter": "z >= 4 or x == 5""#).unwrap(), [0, 1, 5]);
    assert_eq!(chosen(r#""filter": "t == 'bb'""#).unwrap(), [1, 4]);
    assert_eq!(chosen(r#""filter": "len(t) > 2""#).unwrap(), [2, 5]);
    let drawn = chosen(r#""weight_by": "y", "shuffle": 3, "samples_per_epoch": 50"#).unwrap();
    assert!(drawn.len() == 50 && drawn.iter().all(|sample| sample % 2 == 1), "{drawn:?}");
    let error = chosen(r#""filter": "typo > 3""#).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound, "{error}");

    // A source may have several readers: of values, and of lists.
    std::fs::write(folder.path().join("l.jsonl"), "{\"n\": 1, \"l\": [1, 2]}\n".repeat(6)).unwrap();
    let config = LoaderConfig::from_json(&format!(
        r#"{{"sources": [{{"format": "jsonl", "path": {:?}, "fields": {{"n": "f32", "l": {{"numbers": "f32", "list": true}}}}}},
            {{"format": "csv", "path": {:?}, "fields": {{"t": {{"text": 4}}}}}}]}}"#,
        folder.path().join("l.jsonl"),
        folder.path().join("t.csv"),
    ));
    let config = config.unwrap();
    let of_text = |filter: &str| Loader::from(config.clone()).filter(filter);
    for (filter, expected) in [("t == 'bb'", vec![1, 4]), ("len(t) > 2", vec![2, 5]), ("len(l) > 2", vec![])] {
        assert_eq!(samples(&see_all(&mut *of_text(filter).build().unwrap())), expected, "{filter}");
        assert_eq!(of_text(filter).plan().unwrap().samples, Some(expected.len() as u64), "{filter}");
    }
    // A plan does not unpack the file that has the tensor.
    let text = std::fs::read(folder.path().join("t.csv")).unwrap();
    let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    std::io::Write::write_all(&mut packed, &text).unwrap();
    std::fs::write(folder.path().join("t.csv.gz"), packed.finish().unwrap()).unwrap();
    let packed =
        LoaderConfig::from_json(&serde_json::to_string(&config).unwrap().replace("t.csv", "t.csv.gz")).unwrap();
    let packed = Loader::from(packed).filter("t == 'bb'");
    let plan = packed.plan().unwrap();
    assert!(plan.samples.is_none() && plan.unknown.iter().any(|why| why.contains("only by reading")), "{plan:?}");
    assert_eq!(samples(&see_all(&mut *packed.build().unwrap())), [1, 4]);
    for filter in ["typo > 3", "len(typo) > 3"] {
        let alone = LoaderConfig::from_json(&format!(
            r#"{{"source": {{"format": "raw", "path": {:?}, "options": {{"stored": "i64"}}}}, "filter": {filter:?}}}"#,
            folder.path().join("z.raw")
        ));
        let error = Loader::from(alone.unwrap()).build().err().unwrap();
        assert_eq!(error.kind(), ErrorKind::NotFound, "{error}");
        assert!(error.message().contains("there are [\"features\"]"), "{error}");
    }
}

#[test]
fn labels_in_a_file_of_their_own_choose_samples() {
    let digits = concat!(env!("CARGO_MANIFEST_DIR"), "/fixtures/mnist");
    let loader = |filter: &str| Loader::open(digits).unwrap().filter(filter).batch_size(500);
    let batch = loader("labels == 7").build().unwrap().next().unwrap().unwrap();
    assert!(batch.tensor("labels").unwrap().as_slice::<i64>().unwrap().iter().all(|label| *label == 7));
    assert!(loader("features == 7").build().is_err());
    assert_eq!(loader("labels == 7").plan().unwrap().samples, Some(6265));
}

const ROWS: [(&str, &str, &str); 8] = [
    ("1", "cat", "a"),
    ("2", "dog", "a"),
    ("3", "cat", "b"),
    ("", "dog", "b"),
    ("5", "bird", "c"),
    ("2.5", "cat", "c"),
    ("-1", "", "d"),
    ("1e3", "dog", "d"),
];

/// The same table as CSV, with quotes where that does not matter, and as JSON Lines.
fn tables() -> (tempfile::TempDir, [String; 2]) {
    let folder = tempfile::tempdir().unwrap();
    let csv: String = ROWS.iter().map(|(x, kind, patient)| format!("{x},{kind},{patient}\n")).collect();
    std::fs::write(folder.path().join("t.csv"), format!("x,kind,patient\n{csv}")).unwrap();
    let line = |(x, kind, patient): &(&str, &str, &str)| {
        let x = if x.is_empty() { "null" } else { x };
        let kind = if kind.is_empty() { String::new() } else { format!(", \"kind\": {kind:?}") };
        format!("{{\"x\": {x}, \"who\": {{\"patient\": {patient:?}}}{kind}}}\n")
    };
    std::fs::write(folder.path().join("t.jsonl"), ROWS.iter().map(line).collect::<String>()).unwrap();
    let settings = |file: &str, patient: &str| {
        let path = folder.path().join(file);
        format!(
            r#"{{"batch_size": 3, "source": {{"path": {path:?}}},
                "fields": {{"x": {{"numbers": "f32", "missing": -9}}, "patient": {{"from": "{patient}", "text": 4}}}}"#
        )
    };
    let all = [settings("t.csv", "patient"), settings("t.jsonl", "/who/patient")];
    (folder, all)
}

#[test]
fn a_filter_keeps_what_its_condition_says_of_any_container() {
    let (_folder, settings) = tables();
    for settings in &settings {
        for (filter, expected) in [
            ("x >= 2", &[1, 2, 4, 5, 7][..]),
            ("x == missing", &[3]),
            ("x != 2", &[0, 2, 4, 5, 6, 7]),
            ("kind == 'cat'", &[0, 2, 5]),
            ("kind != 'cat'", &[1, 3, 4, 7]),
            ("kind == missing or patient in ['c']", &[4, 5, 6]),
            ("not (kind in ['cat', 'dog']) and x > -5", &[4, 6]),
            ("x == 7", &[]),
        ] {
            let config = LoaderConfig::from_json(&format!("{settings}, \"filter\": {filter:?}}}")).unwrap();
            assert_eq!(of(&config), expected, "{filter}");
            let plan = Loader::from(config.clone()).plan().unwrap();
            assert_eq!((plan.samples, plan.filter.as_deref()), (Some(expected.len() as u64), Some(filter)));
            // The same for a user of the builder, shuffled, on shards and after a restart.
            let shuffled = Loader::from(LoaderConfig { filter: None, ..config }).filter(filter).shuffle(3);
            let order = of(shuffled.config());
            let mut sorted = order.clone();
            sorted.sort_unstable();
            assert_eq!(sorted, expected, "{filter}");
            let mut dealt: Vec<(u64, u64)> = (0..2)
                .flat_map(|index| see_all(&mut *shuffled.clone().shard(Shard::new(index, 2).unwrap()).build().unwrap()))
                .flat_map(|batch| batch.positions.into_iter().zip(batch.samples))
                .collect();
            dealt.sort_unstable();
            dealt.truncate(order.len());
            assert_eq!(dealt.iter().map(|(_, id)| *id).collect::<Vec<_>>(), order);
            if order.len() > 3 {
                let mut first = shuffled.build().unwrap();
                first.next().unwrap().unwrap();
                let mut again = shuffled.build().unwrap();
                again.seek(&first.state()).unwrap();
                assert_eq!(samples(&see_all(&mut *again)), order[3..]);
                // Another filter is another data set.
                let mut other = shuffled.clone().filter("x > 2").build().unwrap();
                assert!(filter == "x > 2" || other.seek(&first.state()).is_err());
            }
        }
    }
}

#[test]
fn what_a_filter_can_not_be_is_said_before_anything_is_read_or_with_its_record() {
    let (_folder, [csv, jsonl]) = tables();
    let open = |settings: &str, more: &str| {
        let config = LoaderConfig::from_json(&format!("{settings}, {more}}}")).unwrap();
        Loader::from(config).build().err().unwrap()
    };
    let error = open(&csv, r#""filter": "x = 3""#);
    assert!(error.kind() == ErrorKind::Config && error.message().starts_with("filter: character 3"), "{error}");
    let error = open(&csv, r#""filter": "kin == 'cat'""#);
    assert!(error.kind() == ErrorKind::NotFound && error.message().contains("kind"), "{error}");
    for settings in [&csv, &jsonl] {
        let error = open(settings, r#""filter": "kind > 3""#);
        assert!(error.kind() == ErrorKind::Data && error.location().record == Some(0), "{error}");
    }
    let error = open(&csv, r#""group": "kind""#);
    assert!(error.message().contains("add `split` or `folds`"), "{error}");
}

#[test]
fn what_is_missing_is_missing_to_every_condition_and_to_recipes() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t.csv");
    std::fs::write(&path, "i,v\n0,\n1,nan\n2,NA\n3,NaN\n4,1.5\n5,null\n6, \n7,-999\n8,NAN\n9,\"NA\"\n").unwrap();
    let tokens = ["", "NA", "nan", "null", "-999.0"].map(str::to_owned).to_vec();
    let plain = CsvOptions::default();
    for (options, there) in [(plain.clone(), &[4, 7][..]), (CsvOptions { missing_tokens: tokens, ..plain }, &[4])] {
        let loader = || Loader::csv_with(&path, options.clone()).field("i", Numbers::i64()).batch_size(3);
        let of_loader = |loader: &Loader| samples(&see_all(&mut *loader.build().unwrap()));
        let gone: Vec<u64> = (0..10).filter(|id| !there.contains(id)).collect();
        for (condition, expected) in [
            ("v != missing", there),
            ("v == missing", &gone),
            ("v != missing and i >= 0", there),
            ("v != missing and (v < 100 or v >= 100)", there),
            ("v == missing or v > 1e9", &gone),
            ("v == missing or v == 'x'", &gone),
            ("v != 'x'", there),
            ("v == 'NA' or v == 'null'", &[]),
        ] {
            assert_eq!(of_loader(&loader().filter(condition)), expected, "{condition}");
            let recipe = Recipe::new().filter(condition).column("i", number());
            if !expected.is_empty() {
                let fitted = recipe.fit(&loader()).unwrap();
                assert_eq!(fitted.records(), expected.len() as u64, "{condition}");
            }
        }
        assert_eq!(of_loader(&loader().filter_by(["v"], |chosen| chosen.text("v").is_some())), there);
        let v = Numbers::f32().missing(ringfeed::csv::Missing::Value(-5.0));
        let batches: Vec<_> = loader().field("v", v).batch_size(10).build().unwrap().collect();
        let values: Vec<f32> = batches[0].as_ref().unwrap().f32("v").unwrap().to_vec();
        let numbers: Vec<u64> = (0..).zip(values).filter(|(_, value)| *value != -5.0).map(|(id, _)| id).collect();
        assert_eq!(numbers, there);
    }
    // Elsewhere what is missing is null, or a text of blanks.
    let path = folder.path().join("t.jsonl");
    let lines =
        "{\"i\":0,\"v\":null}\n{\"i\":1,\"v\":\"NA\"}\n{\"i\":2,\"v\":\" \"}\n{\"i\":3}\n{\"i\":4,\"v\":\"\"}\n";
    std::fs::write(&path, lines).unwrap();
    let loader = || Loader::open(&path).unwrap().field("i", Numbers::i64());
    for condition in ["v != missing", "v != missing and v != 'x'"] {
        assert_eq!(samples(&see_all(&mut *loader().filter(condition).build().unwrap())), [1]);
        let recipe = Recipe::new().filter(condition).column("i", number());
        assert_eq!(recipe.fit(&loader()).unwrap().records(), 1, "{condition}");
    }
}

/// Three records of each of two people, whose numbers are one as f64.
fn people(folder: &std::path::Path) -> std::path::PathBuf {
    const FIRST: i64 = 1 << 53;
    let columns = [[FIRST, FIRST, FIRST, FIRST + 1, FIRST + 1, FIRST + 1], [0, 1, 2, 3, 4, 5]];
    let tensor =
        |nth: usize| serde_json::json!({ "dtype": "I64", "shape": [6], "data_offsets": [48 * nth, 48 * nth + 48] });
    let header = serde_json::json!({ "id": tensor(0), "n": tensor(1) }).to_string();
    let values = columns.concat().into_iter().flat_map(i64::to_le_bytes);
    let bytes = (header.len() as u64).to_le_bytes().into_iter().chain(header.bytes()).chain(values);
    let path = folder.join("people.safetensors");
    std::fs::write(&path, bytes.collect::<Vec<u8>>()).unwrap();
    path
}

#[test]
fn integers_of_64_bits_are_never_taken_for_each_other() {
    let folder = tempfile::tempdir().unwrap();
    let path = people(folder.path());
    let loader = || Loader::open(&path).unwrap().field("n", Numbers::i64()).batch_size(2);
    let of_loader = |loader: &Loader| samples(&see_all(&mut *loader.build().unwrap()));
    assert_eq!(of_loader(&loader().filter("id == 9007199254740993")), [3, 4, 5]);
    assert_eq!(of_loader(&loader().filter("id != 9007199254740993 and n > 0")), [1, 2]);
    assert_eq!(of_loader(&loader().filter("id < 9007199254740993")), [0, 1, 2]);
    let by_code = loader().filter_by(["id"], |chosen| chosen.integer("id") == Some((1 << 53) + 1));
    assert_eq!(of_loader(&by_code), [3, 4, 5]);
    assert_eq!(of_loader(&loader().filter("id != missing")), [0, 1, 2, 3, 4, 5]);
    assert_eq!(of_loader(&loader().filter("id == missing")), [0; 0]);
    // Two groups, one of which is trained on.
    let train = of_loader(&loader().split(Split::train(0.5)).group("id"));
    assert!(train == [0, 1, 2] || train == [3, 4, 5], "{train:?}");
    // Two classes, half of each.
    let train = of_loader(&loader().split(Split::train(0.34)).stratify("id"));
    assert_eq!(train.iter().map(|id| id / 3).collect::<Vec<_>>(), [0, 1], "{train:?}");
    // Two series, over whose border no window reaches.
    let windows = loader().windows(ringfeed::read::Windows::new(2, 0).series("id"));
    assert_eq!(windows.plan().unwrap().samples, Some(4));
    let recipe = Recipe::new().filter("id == 9007199254740993").column("n", number());
    assert_eq!(recipe.fit(&loader()).unwrap().records(), 3);
    let recipe = Recipe::new().filter("`/id` >= 18446744073709551614").column("/n", number());
    let lines: String = (0..4u64).map(|n| format!("{{\"id\": {}, \"n\": {n}}}\n", u64::MAX - n)).collect();
    std::fs::write(folder.path().join("t.jsonl"), lines).unwrap();
    let lines = Loader::open(folder.path().join("t.jsonl")).unwrap();
    assert_eq!(recipe.fit(&lines).unwrap().records(), 2);
    let some = lines.field("n", Numbers::i64().from("/n")).filter("`/id` in [18446744073709551614, 3]");
    assert_eq!(of_loader(&some), [1]);
}

#[test]
fn a_filter_goes_by_the_lengths_of_lists_and_texts() {
    let folder = tempfile::tempdir().unwrap();
    let of_loader =
        |loader: Loader, condition: &str| samples(&see_all(&mut *loader.filter(condition).build().unwrap()));
    let write = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        Loader::open(path).unwrap()
    };
    let lines = "{\"n\": 0, \"ids\": [1, 2, 3], \"text\": \"zwölf\"}\n{\"n\": 1, \"ids\": [], \"text\": \"\"}\n\
                 {\"n\": 2, \"text\": null}\n{\"n\": 3, \"ids\": [[1, 2], [\"3\", 4]], \"text\": \"naïve 😀\"}\n";
    let jsonl = || write("t.jsonl", lines).field("n", Numbers::i64());
    for (condition, expected) in [
        ("len(ids) >= 2", &[0, 3][..]),
        ("len(`/ids`) == 0", &[1]),
        ("len(ids) == missing", &[2]),
        ("len(ids) != missing and n > 0", &[1, 3]),
        ("not len(ids) > 0", &[1, 2]),
        // Characters, and not bytes; a text without any is missing.
        ("len(text) == 5", &[0]),
        ("len(text) in [7, 9]", &[3]),
        ("len(text) == missing", &[1, 2]),
        ("len(text) > 5 or text == 'zwölf'", &[0, 3]),
    ] {
        assert_eq!(of_loader(jsonl(), condition), expected, "{condition}");
    }
    let csv = || write("t.csv", "n,text\n0,zwölf\n1,\n2,NA\n3,\"a,b\"\n").field("n", Numbers::i64());
    assert_eq!(of_loader(csv(), "len(text) == 3"), [3]);
    assert_eq!(of_loader(csv(), "len(text) == missing"), [1, 2]);
    std::fs::write(folder.path().join("t.txt"), "one\nzwei ä\n").unwrap();
    let text = serde_json::json!({ "source": { "format": "text", "path": folder.path().join("t.txt") } });
    let text = Loader::from(LoaderConfig::from_json(&text.to_string()).unwrap());
    assert_eq!(of_loader(text.field("line", ringfeed::field::Text::new(20)), "len(line) == 6"), [1]);
    let sparse = || write("t.svm", "1 1:0.5 7:2\n-1 2:1e3\n1 3:1 4:1 5:1\n");
    assert_eq!(of_loader(sparse(), "len(indices) != 1"), [0, 2]);
    let fixture = |path: &str| Loader::open(crate::common::fixture(path)).unwrap();
    let boxes = || fixture("tfrecord/train-00000-of-00002").field("n", Numbers::i64().from("image/class/label"));
    assert_eq!(of_loader(boxes(), "len(image/object/bbox/xmin) == 2"), [2, 5]);
    assert_eq!(of_loader(boxes(), "len(image/object/bbox/xmin) == 1"), [1, 4]);
    if cfg!(feature = "parquet") {
        for path in ["parquet/types.parquet", "arrow/types.arrow"] {
            // A list of 0, one of 1, and so on; the one of 5 is missing.
            let lists = || fixture(path).field("list", Numbers::i64().ragged());
            assert_eq!(of_loader(lists(), "len(list) > 7"), [8, 9, 10], "{path}");
            assert_eq!(of_loader(lists(), "len(list) in [0, 4, 5]"), [0, 4], "{path}");
            assert_eq!(of_loader(lists(), "len(list) == missing"), [5], "{path}");
        }
    }

    let error = |loader: Loader, condition: &str| loader.filter(condition).build().map(|_| ()).unwrap_err();
    let single = error(jsonl(), "len(n) > 1");
    assert!(single.kind() == ErrorKind::Config && single.message().contains("it is a single number"), "{single}");
    let mixed = || write("m.jsonl", "{\"n\": 0, \"x\": \"ab\"}\n{\"n\": 1, \"x\": 5}\n").field("n", Numbers::i64());
    let mixed = error(mixed(), "len(x) > 1");
    assert!(mixed.message().contains("expected a list or a text, which have a length, found 5"), "{mixed}");
    assert!(mixed.kind() == ErrorKind::Data && mixed.location().record == Some(1), "{mixed}");
    let unknown = error(csv(), "len(texts) > 1");
    assert!(unknown.kind() == ErrorKind::NotFound && unknown.message().contains("text"), "{unknown}");
    let several = jsonl().field("both", Numbers::i64().from(["n", "n"]));
    assert!(error(several, "len(both) > 1").message().contains("several fields"));
    let fixed = error(fixture("small/array.npy"), "len(features) > 1");
    assert!(fixed.message().contains("\"features\" has no length that differs"), "{fixed}");
    let recipe = Recipe::new().filter("len(text) > 1").column("n", number());
    let error = recipe.fit(&csv()).unwrap_err();
    assert!(error.message().contains("filter: len(text) is for the filter of a loader"), "{error}");
}

#[test]
fn weights_of_chosen_samples_are_their_own() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t.csv");
    let rows: String = (0..20).map(|n| format!("{n},{}\n", if n == 19 { 0 } else { n + 1 })).collect();
    std::fs::write(&path, format!("n,w\n{rows}")).unwrap();
    let rows = Loader::open(&path).unwrap().field("n", Numbers::i64()).filter("n >= 15");
    let drawn = samples(&see_all(&mut *rows.weight_by("w").shuffle(1).samples_per_epoch(400).build().unwrap()));
    assert_eq!(drawn.iter().copied().collect::<BTreeSet<_>>(), (15..19).collect());
    // What is not chosen needs no weight.
    std::fs::write(&path, "n,w\n0,2\n1,\n2,-1\n3,1\n").unwrap();
    let rows = Loader::open(&path).unwrap().field("n", Numbers::i64()).weight_by("w").shuffle(1);
    let drawn = samples(&see_all(&mut *rows.clone().filter("w >= 0").samples_per_epoch(50).build().unwrap()));
    assert_eq!(drawn.into_iter().collect::<BTreeSet<_>>(), BTreeSet::from([0, 3]));
    let error = rows.build().err().unwrap();
    assert!(error.location().record == Some(1) && error.message().contains("no weight"), "{error}");
}

#[test]
fn numbers_are_one_group_and_one_class_however_they_are_written() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    // As pandas writes a column of integers, and one in which a value is missing.
    let row = |n: usize| if n < 50 { format!("{}\n", n / 2) } else { format!(" {}.0\n", (n - 50) / 2) };
    std::fs::write(path("t.csv"), format!("patient\n{}", (0..100).map(row).collect::<String>())).unwrap();
    let json = |n: usize| format!("{{\"patient\": {}}}\n", row(n).trim());
    std::fs::write(path("t.jsonl"), (0..100).map(json).collect::<String>()).unwrap();
    for name in ["t.csv", "t.jsonl"] {
        let loader = || Loader::open(path(name)).unwrap().field("patient", Numbers::f32()).batch_size(100);
        let patients = |part| -> BTreeSet<u64> {
            let split = if part == Part::Train { Split::train(0.7) } else { Split::train(0.7).rest() };
            let all = see_all(&mut *loader().group("patient").split(split).build().unwrap());
            samples(&all).into_iter().map(|sample| sample % 50 / 2).collect()
        };
        let [train, test] = [Part::Train, Part::Test].map(patients);
        assert!(train.is_disjoint(&test) && train.len() + test.len() == 25, "{name}: {train:?} {test:?}");
    }
    // Texts in quotes are what they are.
    let text = |n: usize| format!("{{\"code\": \"{}\"}}\n", if n.is_multiple_of(2) { "7" } else { "7.0" });
    std::fs::write(path("codes.jsonl"), (0..40).map(text).collect::<String>()).unwrap();
    let codes = Loader::open(path("codes.jsonl")).unwrap().field("code", Text::new(4)).group("code");
    let half = see_all(&mut *codes.split(Split::train(0.5)).build().unwrap());
    assert_eq!(samples(&half).iter().map(|sample| sample % 2).collect::<BTreeSet<u64>>().len(), 1);
    // Other texts are names, such as those of versions, and integers have any number of digits.
    for (nth, [one, other]) in
        [["1.1", "1.10"], ["007", "7"], ["1e2", "100"], [&"9".repeat(41), &"9".repeat(40)]].into_iter().enumerate()
    {
        let name = path(&format!("names{nth}.csv"));
        let names: String = (0..40).map(|n| format!("{}\n", if n % 4 < 2 { one } else { other })).collect();
        std::fs::write(&name, format!("name\n{names}")).unwrap();
        let named = Loader::open(&name).unwrap().field("name", Text::new(41)).group("name");
        let half = see_all(&mut *named.split(Split::train(0.5)).build().unwrap());
        let seen: BTreeSet<u64> = samples(&half).iter().map(|sample| sample % 4 / 2).collect();
        assert_eq!(seen.len(), 1, "{one} and {other}");
    }
}

#[test]
fn a_draw_from_nothing_says_what_keeps_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t.csv");
    std::fs::write(&path, "n,w\n0,2\n1,1\n2,1\n3,1\n").unwrap();
    let rows = || Loader::open(&path).unwrap().field("n", Numbers::i64()).shuffle(1);
    let weighted = || rows().weight_by("w");
    for (loader, expected) in [
        (weighted().filter("n > 3"), "weight_by: nothing to draw: the filter keeps none of the 4 samples"),
        (weighted().filter_by(["n"], |_| false), "weight_by: nothing to draw: the filter keeps none of the 4 samples"),
        (
            weighted().split(Split::train(1e-9)),
            "weight_by: nothing to draw: split and folds keep none of the 4 samples",
        ),
        (weighted().split(Split::train(0.0)), "split: the part \"train\" has no share of the samples; set `train`"),
        (rows().samples_per_epoch(5).filter("n > 3"), "samples_per_epoch: there are no samples to draw 5 from"),
        (
            rows().class_balanced().filter("n > 3"),
            "class_balanced: nothing to draw: the filter keeps none of the 4 samples",
        ),
    ] {
        for error in [loader.build().err().unwrap(), loader.plan().err().unwrap()] {
            assert_eq!((error.kind(), error.message()), (ErrorKind::Config, expected));
        }
    }
    std::fs::write(&path, "n,w\n").unwrap();
    let error = weighted().build().err().unwrap();
    assert!(error.message().contains("there are no samples to draw from"), "{error}");
}

#[test]
fn a_filter_goes_before_a_split() {
    let (_folder, [csv, _]) = tables();
    let parts = ["train", "test"].map(|part| {
        let text = format!(
            r#"{csv}, "filter": "x != missing", "split": {{"train": 0.5, "test": 0.5, "part": "{part}"}}, "group": "patient"}}"#
        );
        of(&LoaderConfig::from_json(&text).unwrap())
    });
    let mut all = parts.concat();
    all.sort_unstable();
    assert_eq!(all, [0, 1, 2, 4, 5, 6, 7]);
    let patients = parts.map(|part| part.iter().map(|id| ROWS[*id as usize].2).collect::<BTreeSet<_>>());
    assert!(patients[0].is_disjoint(&patients[1]) && patients.iter().all(|part| part.len() == 2), "{patients:?}");
}

#[test]
#[cfg_attr(not(feature = "images"), ignore = "decodes images")]
fn classes_that_are_known_without_reading_can_be_chosen_by() {
    let folder = tempfile::tempdir().unwrap();
    for (class, count) in [("cat", 12), ("dog", 6), ("newt", 3)] {
        std::fs::create_dir(folder.path().join(class)).unwrap();
        for at in 0..count {
            std::fs::copy("fixtures/images/rgb.png", folder.path().join(format!("{class}/{at}.png"))).unwrap();
        }
    }
    let images = || Loader::images(folder.path()).size(4, 4);
    assert_eq!(images().filter("label in ['dog', 'newt']").plan().unwrap().samples, Some(9));
    assert_eq!(images().filter("label != 0").plan().unwrap().samples, Some(9));
    let config = LoaderConfig {
        split: Some(ringfeed::order::Split {
            train: 2.0 / 3.0,
            validation: 0.0,
            test: 1.0 / 3.0,
            seed: 1,
            part: ringfeed::order::Part::Test,
        }),
        ..images().stratify("label").config().clone()
    };
    let test = of(&config);
    assert_eq!(
        test.iter().map(|id| [12, 18].iter().filter(|end| id >= end).count()).fold([0; 3], |mut all, class| {
            all[class] += 1;
            all
        }),
        [4, 2, 1]
    );
}

fn numbers(len: usize) -> MemoryReader<u8> {
    MemoryReader::new("x", Role::Feature, &[], vec![0u8; len]).unwrap()
}

fn count<T: Ord + Clone>(part: &Subset, of: &[T]) -> BTreeMap<T, usize> {
    let mut counts = BTreeMap::new();
    part.iter().for_each(|id| *counts.entry(of[id as usize].clone()).or_default() += 1);
    counts
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, failure_persistence: None, ..ProptestConfig::default() })]

    /// What scikit-learn promises of `StratifiedKFold` and `StratifiedShuffleSplit`: each class's share to less than
    /// one sample.
    #[test]
    fn stratified_parts_and_folds_have_every_class_to_less_than_a_sample(
        classes in prop::collection::vec(0u32..5, 2..300), folds in 2u32..7, seed in any::<u64>(), share in 0.05f64..0.95,
    ) {
        let len = classes.len();
        let (reader, all) = (numbers(len), Subset::all(len as u64));
        let by = Strata::default().classes(classes.clone());
        let totals = count(&all, &classes);
        let parts = all.split_by(&reader, [share, 1.0 - share], seed, &by).unwrap();
        for (part, share) in parts.iter().zip([share, 1.0 - share]) {
            prop_assert!((part.len() as f64 - share * len as f64).abs() <= 1.0);
            let counts = count(part, &classes);
            for (class, total) in &totals {
                let own = counts.get(class).copied().unwrap_or(0) as f64;
                prop_assert!((own - share * *total as f64).abs() < 1.0 + 1e-9, "{own} of {total}");
            }
        }
        let mut held_out = Vec::new();
        for fold in 0..folds {
            let (train, test) = all.fold_by(&reader, fold, folds, seed, &by).unwrap();
            prop_assert_eq!(train.len() + test.len(), len as u64);
            prop_assert!((test.len() as f64 - len as f64 / f64::from(folds)).abs() <= 1.0, "folds are of about one size");
            let counts = count(&test, &classes);
            for (class, total) in &totals {
                let own = counts.get(class).copied().unwrap_or(0) as f64;
                prop_assert!((own - *total as f64 / f64::from(folds)).abs() < 1.0 + 1e-9, "{own} of {total}");
            }
            held_out.extend(test.iter());
        }
        held_out.sort_unstable();
        prop_assert_eq!(held_out, (0..len as u64).collect::<Vec<_>>());
        // The same again, and another order by another seed.
        prop_assert_eq!(all.split_by(&reader, [share, 1.0 - share], seed, &by).unwrap().map(|part| part.iter().collect::<Vec<_>>()),
            parts.map(|part| part.iter().collect::<Vec<_>>()));
    }

    /// What scikit-learn promises of `GroupKFold` and `GroupShuffleSplit`.
    #[test]
    fn no_group_is_in_two_parts_and_parts_differ_by_no_more_than_a_group(
        groups in prop::collection::vec(0u64..12, 40..300), classes in any::<bool>(), folds in 2u32..4, seed in any::<u64>(),
    ) {
        let len = groups.len();
        let (reader, all) = (numbers(len), Subset::all(len as u64));
        let largest = count(&all, &groups).into_values().max().unwrap();
        let of_class: Vec<u32> = (0..len as u64).map(|id| (RandomKey::new(seed).bits(id) % 3) as u32).collect();
        let mut by = Strata::default().groups(groups.clone());
        if classes {
            by = by.classes(of_class);
        }
        let parts = all.split_by(&reader, [0.5, 0.2, 0.3], seed, &by).unwrap();
        let own = parts.each_ref().map(|part| count(part, &groups).into_keys().collect::<BTreeSet<_>>());
        for (one, other) in [(0, 1), (1, 2), (0, 2)] {
            prop_assert!(own[one].is_disjoint(&own[other]));
        }
        prop_assert_eq!(parts.iter().map(Subset::len).sum::<u64>(), len as u64);
        if count(&all, &groups).len() < folds as usize {
            return Ok(());
        }
        let mut sizes = Vec::new();
        let mut seen = BTreeSet::new();
        for fold in 0..folds {
            let (train, test) = all.fold_by(&reader, fold, folds, seed, &by).unwrap();
            let (train, test_groups) = (count(&train, &groups), count(&test, &groups));
            prop_assert!(test_groups.keys().all(|group| !train.contains_key(group) && seen.insert(*group)));
            sizes.push(test.len() as usize);
        }
        if !classes {
            let (least, most) = (*sizes.iter().min().unwrap(), *sizes.iter().max().unwrap());
            prop_assert!(most - least <= largest, "{sizes:?} with groups up to {largest}");
        }
    }
}

#[test]
fn the_largest_groups_are_dealt_first_so_that_small_ones_even_the_parts_out() {
    // Many groups of one sample, and behind them a large one.
    let groups = |large: u64| (0..20).chain(std::iter::repeat_n(20, large as usize)).collect::<Vec<u64>>();
    for seed in 0..8 {
        let (reader, all) = (numbers(40), Subset::all(40));
        let by = Strata::default().groups(groups(20));
        for fold in 0..2 {
            let (train, held_out) = all.fold_by(&reader, fold, 2, seed, &by).unwrap();
            assert_eq!((train.len(), held_out.len()), (20, 20), "seed {seed}");
        }
        let (reader, all) = (numbers(80), Subset::all(80));
        let parts = all.split_by(&reader, [0.75, 0.25], seed, &Strata::default().groups(groups(60))).unwrap();
        assert_eq!(parts.map(|part| part.len()), [60, 20], "seed {seed}");
    }
}

#[test]
fn grouped_and_stratified_folds_keep_the_classes_in_balance() {
    // Thirty patients; a third of them have mostly the rare class.
    let groups: Vec<u64> = (0..600).map(|id| RandomKey::new(1).bits(id) % 30).collect();
    let classes: Vec<u32> = (0..600)
        .map(|id| u32::from(RandomKey::new(2).unit(id) < if groups[id as usize].is_multiple_of(3) { 0.8 } else { 0.1 }))
        .collect();
    let (reader, all) = (numbers(600), Subset::all(600));
    let rare = |part: &Subset| count(part, &classes).get(&1).copied().unwrap_or(0) as f64 / part.len() as f64;
    let spread = |by: &Strata| {
        let shares: Vec<f64> = (0..5).map(|fold| rare(&all.fold_by(&reader, fold, 5, 9, by).unwrap().1)).collect();
        shares.iter().fold(0.0, |most: f64, share| most.max((share - rare(&all)).abs()))
    };
    let grouped = spread(&Strata::default().groups(groups.clone()));
    let both = spread(&Strata::default().groups(groups.clone()).classes(classes.clone()));
    println!("furthest share of the rare class: {grouped:.3} off by groups, {both:.3} by groups and classes");
    assert!(both < 0.06 && both < grouped, "{both} and {grouped}");
}

#[test]
fn what_does_not_fit_is_refused() {
    let (reader, all) = (numbers(10), Subset::all(10));
    let few = Strata::default().classes(vec![0; 9]);
    let error = all.split_by(&reader, [0.5, 0.5], 0, &few).unwrap_err();
    assert!(error.message().contains("of 9 samples"), "{error}");
    let two = Strata::default().groups((0..10).map(|id| id % 2).collect());
    assert!(all.fold_by(&reader, 0, 3, 0, &two).unwrap_err().message().contains("2 groups for 3 folds"));
    let of_classes = Strata::default().classes(vec![0; 10]);
    let error = all.fold_by(&reader, 0, u32::MAX, 0, &of_classes).unwrap_err();
    assert!(error.message().contains("10 samples for 4294967295 folds"), "{error}");
    assert!(all.split_by(&reader, [0.5, 0.6], 0, &two).is_err());
    // What is in no part is a share as well.
    let by = Strata::default().classes((0..10).map(|id| id % 2).collect());
    let [train, test] = all.split_by(&reader, [0.4, 0.2], 0, &by).unwrap();
    assert_eq!((train.len(), test.len()), (4, 2));
    let source = ReaderSource::new(numbers(10)).subset(train).batch_size(2);
    assert_eq!(see_all(&mut AsyncDataSetIterator::new(source, &workspace(1, 1)).unwrap()).len(), 2);
}

#[test]
fn a_function_of_ones_own_keeps_what_it_says() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("rows.jsonl");
    let rows: String = (0..40)
        .map(|i| match i % 5 {
            0 => format!("{{\"n\": {i}}}\n"),
            kind => format!("{{\"n\": {i}, \"kind\": \"k{kind}\"}}\n"),
        })
        .collect();
    std::fs::write(&path, rows).unwrap();
    let rows = || Loader::open(&path).unwrap().field("n", Numbers::i64());
    let kept = |loader: Loader| -> Vec<i64> {
        let mut batches = loader.build().unwrap();
        let mut all: Vec<i64> = batches
            .epoch()
            .unwrap()
            .flat_map(|batch| batch.unwrap().tensor("n").unwrap().as_slice::<i64>().unwrap().to_vec())
            .collect();
        all.sort_unstable();
        all
    };
    let odd = || {
        rows().filter_by(["n", "kind"], |row| {
            row.number("n").is_some_and(|n| n % 2.0 == 1.0) && row.text("kind") != Some("k1")
        })
    };
    let expected: Vec<i64> = (0..40).filter(|i| i % 2 == 1 && i % 5 != 1).collect();
    assert_eq!(kept(odd()), expected);
    assert_eq!(kept(odd().shuffle(3).workers(2)), expected);
    assert_eq!(kept(odd().shield()), expected);
    assert_eq!(odd().plan().unwrap().samples, Some(expected.len() as u64));
    // With the other filter, and before a split.
    let few: Vec<i64> = expected.iter().copied().filter(|n| *n > 20).collect();
    assert_eq!(kept(odd().filter("n > 20")), few);
    let split = |part| Split { train: 0.5, validation: 0.0, test: 0.5, seed: 0, part };
    let (train, test) = (kept(odd().split(split(Part::Train))), kept(odd().split(split(Part::Test))));
    let mut both = [train, test].concat();
    both.sort_unstable();
    assert_eq!(both, expected);
    assert_eq!(kept(odd().filter_by(["n"], |row| row.number("n") < Some(10.0))), [3, 5, 7, 9]);

    let panics = rows().filter_by(["n"], |row| row.number("m").is_some()).build().map(|_| ()).unwrap_err();
    assert_eq!((panics.kind(), panics.location().record), (ErrorKind::Panicked, Some(0)), "{panics}");
    let failing = rows().try_filter_by(["n"], |row| match row.number("n") {
        Some(7.0) => Err(ringfeed::Error::new(ErrorKind::Data, "seven")),
        _ => Ok(true),
    });
    let error = failing.build().map(|_| ()).unwrap_err();
    assert_eq!((error.kind(), error.message(), error.location().record), (ErrorKind::Data, "seven", Some(7)));
    let counted = ringfeed::prepare::Recipe::new().column("n", ringfeed::prepare::number());
    assert_eq!(counted.fit(&odd()).unwrap().records(), expected.len() as u64);
}

/// `x` is 0 to 9 in one file and 100 to 139 in another.
fn two_sources() -> (tempfile::TempDir, impl Fn(&str) -> LoaderConfig) {
    let folder = tempfile::tempdir().unwrap();
    for (name, xs) in [("few", 0..10), ("many", 100..140)] {
        let rows: String = xs.map(|x| format!("{x},{}\n", if x % 2 == 0 { "even" } else { "odd" })).collect();
        std::fs::write(folder.path().join(name).with_extension("csv"), format!("x,kind\n{rows}")).unwrap();
    }
    let [few, many] = ["few.csv", "many.csv"].map(|name| folder.path().join(name));
    let settings = move |more: &str| {
        let text = format!(
            r#"{{"sources": [{{"format": "csv", "path": {few:?}}}, {{"format": "csv", "path": {many:?}}}], "batch_size": 7,
                "fields": {{"x": {{"numbers": "f32"}}, "kind": {{"class": ["even", "odd"]}}}}, {more}}}"#
        );
        LoaderConfig::from_json(&text).unwrap()
    };
    (folder, settings)
}

#[test]
fn sources_are_mixed_in_proportion_and_each_is_used_evenly() {
    let (_folder, settings) = two_sources();
    let counted = |ids: &[u64]| {
        let mut counts = BTreeMap::new();
        ids.iter().for_each(|id| *counts.entry(*id).or_insert(0) += 1);
        counts
    };
    for shuffle in ["", r#", "shuffle": 5"#] {
        let ids = of(&settings(&format!(r#""mix": [0.75, 0.25], "samples_per_epoch": 160{shuffle}"#)));
        let counts = counted(&ids);
        assert_eq!(counts, (0..10).map(|id| (id, 12)).chain((10..50).map(|id| (id, 1))).collect(), "{shuffle}");
    }
    // Without a word on the epoch it has as many samples as the sources that are drawn from.
    assert_eq!(of(&settings(r#""mix": [1, 1]"#)).len(), 50);
    assert_eq!(counted(&of(&settings(r#""mix": [0, 2], "shuffle": 1"#))), (10..50).map(|id| (id, 1)).collect());
    // A filter and a split choose from each source, and the proportions stay.
    let chosen =
        settings(r#""mix": [0.5, 0.5], "filter": "kind == 'odd' and x < 120", "samples_per_epoch": 60, "shuffle": 2"#);
    let odd = counted(&of(&chosen));
    assert_eq!(
        odd,
        (0..10)
            .filter(|id| id % 2 == 1)
            .map(|id| (id, 6))
            .chain((10..30).filter(|id| id % 2 == 1).map(|id| (id, 3)))
            .collect()
    );
    let part = |part: &str| {
        of(&settings(&format!(r#""mix": [1, 1], "split": {{"train": 0.5, "test": 0.5, "part": "{part}"}}"#)))
    };
    let (train, test): (BTreeSet<_>, BTreeSet<_>) =
        (part("train").into_iter().collect(), part("test").into_iter().collect());
    assert!(train.is_disjoint(&test) && train.iter().any(|id| *id < 10) && train.iter().any(|id| *id >= 10));
}

#[test]
fn a_mix_is_dealt_resumed_planned_and_verified_as_any_source() {
    let (_folder, settings) = two_sources();
    let mixed = |more: &str| settings(&format!(r#""mix": [0.6, 0.4], "shuffle": 3, "samples_per_epoch": 100{more}"#));
    let whole = of(&mixed(""));
    let mut dealt: Vec<u64> =
        (0..4).flat_map(|index| of(&mixed(&format!(r#", "shard": {{"index": {index}, "count": 4}}"#)))).collect();
    let mut sorted = whole.clone();
    dealt.sort_unstable();
    sorted.sort_unstable();
    assert_eq!(dealt, sorted);
    let mut first = Loader::from(mixed("")).build().unwrap();
    let state = first.by_ref().take(5).map(|batch| batch.unwrap().state_after()).last().unwrap();
    let mut resumed = Loader::from(mixed("")).build().unwrap();
    resumed.seek(&state).unwrap();
    assert_eq!(samples(&see_all(&mut *resumed)), whole[35..]);
    assert_eq!(of(&mixed(r#", "shield": true"#)), whole);
    let plan = Loader::from(mixed("")).plan().unwrap();
    assert_eq!((plan.samples, plan.sources.len(), plan.tensors.map(|tensors| tensors.len())), (Some(100), 2, Some(2)));
    let filtered = settings(r#""mix": [0.5, 0.5], "filter": "kind == 'odd'""#);
    assert_eq!(Loader::from(filtered.clone()).plan().unwrap().samples, Some(of(&filtered).len() as u64));
    let by_code =
        Loader::from(settings(r#""mix": [0.5, 0.5]"#)).filter_by(["kind"], |row| row.text("kind") == Some("odd"));
    assert_eq!(by_code.plan().unwrap().samples, Some(of(&filtered).len() as u64));
    assert_eq!(Loader::from(mixed("")).verify(|_| ()).unwrap().samples, 50);
}

#[test]
fn weights_that_do_not_fit_the_sources_are_faults() {
    let (folder, settings) = two_sources();
    for (more, expected) in [
        (r#""mix": [1]"#, "1 weights for 2 sources"),
        (r#""mix": [1, -1]"#, "a weight of -1"),
        (r#""mix": [0, 0]"#, "nothing to mix"),
        (r#""mix": [1, 1], "class_balanced": true, "shuffle": 1"#, "does not go together"),
    ] {
        let faults = settings(more).faults();
        assert!(faults.iter().any(|fault| fault.contains(expected)), "{more}: {faults:?}");
    }
    // What is not mixed stands side by side, and then fields are those of one source.
    assert!(settings(r#""shuffle": 1"#).faults()[0].contains("there are several"));
    std::fs::write(folder.path().join("many.csv"), "x,kind\n1,even\n2,red\n").unwrap();
    let error = Loader::from(settings(r#""mix": [1, 1]"#)).build().unwrap().find_map(Result::err).unwrap();
    assert!(error.to_string().contains("many.csv"), "{error}");
}

#[test]
fn a_mix_names_the_source_that_has_nothing_to_draw() {
    let (folder, settings) = two_sources();
    let error = |more: &str| {
        let loader = Loader::from(settings(more));
        let [built, planned] = [loader.build().err().unwrap(), loader.plan().err().unwrap()];
        assert_eq!(built.to_string(), planned.to_string());
        assert_eq!(built.kind(), ErrorKind::Config);
        assert_eq!(built.location().path.as_deref(), Some(folder.path().join("few.csv").as_path()), "{built}");
        built.message().to_owned()
    };
    let filtered = error(r#""mix": [0.7, 0.3], "filter": "x >= 100""#);
    assert!(filtered.contains("has 10 records, but filter, split and folds keep none"), "{filtered}");
    std::fs::write(folder.path().join("few.csv"), "x,kind\n").unwrap();
    let empty = error(r#""mix": [0.7, 0.3]"#);
    assert!(empty.contains("has no records; its weight is 0.7"), "{empty}");
    // A source without a weight may be empty.
    assert_eq!(of(&settings(r#""mix": [0, 2]"#)).len(), 40);
}

#[test]
fn data_of_ones_own_is_not_mixed() {
    use ringfeed::read::{Lines, SampleStream};
    use ringfeed::storage::Files;
    let settings = |fields: &str| {
        let text = format!(r#"{{"mix": {{"fixtures/iris.csv": 0.7, "fixtures/iris-species.csv": 0.3}}{fields}}}"#);
        Loader::from(LoaderConfig::from_json(&text).unwrap())
    };
    let container = settings(r#", "fields": {"line": {"text": 80}}"#)
        .container(|budget| Lines::open(&Files::local(), "fixtures/iris.csv".as_ref(), &Default::default(), budget));
    let samples = settings("").samples(|| SampleStream::repeatable(&[], std::iter::empty));
    for loader in [container, samples] {
        let error = loader.build().err().unwrap();
        assert!(error.kind() == ErrorKind::Config && error.message().contains("mix: this loader reads"), "{error}");
    }
}

#[test]
fn a_filter_reads_every_number_that_a_loader_reads() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t.csv");
    let rows = [
        "1.5",
        "inf",
        "-Infinity",
        "9007199254740993",
        "1000000000000000000000000000000",
        "1000000000000000000000000000001",
        "nan",
    ];
    let lines: String = (0..).zip(rows).map(|(i, x)| format!("{i},{x}\n")).collect();
    std::fs::write(&path, format!("i,x\n{lines}")).unwrap();
    let loader = || Loader::csv(&path).field("x", Numbers::f64().from("x")).batch_size(3);
    let of_loader = |loader: Loader| samples(&see_all(&mut *loader.build().unwrap()));
    for (condition, expected) in [
        ("x != missing", &[0, 1, 2, 3, 4, 5][..]),
        ("x == inf", &[1]),
        ("x in [-inf, 1.50]", &[0, 2]),
        ("x > 1000000000000000000000000000000", &[1, 5]),
        ("x > 1e29 and x < inf", &[4, 5]),
        ("x == 1000000000000000000000000000001.0", &[5]),
        ("x == 1000000000000000000000000000000", &[4]),
        ("x == 9007199254740993.0", &[3]),
        ("x < 9007199254740993 and x > -inf", &[0]),
    ] {
        assert_eq!(of_loader(loader().filter(condition)), expected, "{condition}");
    }
    std::fs::write(&path, "i,x\n0,1\n1,1e999\n").unwrap();
    let error = loader().filter("x > 0").build().err().unwrap();
    assert!(error.to_string().contains("1e999"), "{error}");
}

#[test]
fn groups_of_one_class_each_fill_all_folds() {
    let rows: String = (0..200).map(|row| format!("{row},{},{}\n", row / 20, row / 10)).collect();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t.csv");
    std::fs::write(&path, format!("x,kind,patient\n{rows}")).unwrap();
    let count = |more: &str| {
        let settings = format!(
            r#"{{"source": {{"path": {path:?}}}, "fields": {{"x": "f32", "kind": "i64", "patient": "i64"}},
                "group": "patient", "stratify": "kind", {more}}}"#
        );
        Loader::from(LoaderConfig::from_json(&settings).unwrap()).plan().unwrap().samples.unwrap()
    };
    let folds = (0..5).map(|fold| count(&format!(r#""folds": {{"count": 5, "fold": {fold}, "held_out": true}}"#)));
    assert_eq!(folds.collect::<Vec<_>>(), [40; 5]);
    let test = count(r#""split": {"train": 0.8, "test": 0.2, "part": "test"}"#);
    assert!((20..=60).contains(&test), "{test}");
}

#[test]
fn a_record_without_a_value_is_in_no_group() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.csv");
    std::fs::write(&path, "patient,x\n1,1\n,2\n2,3\n1,4\n").unwrap();
    let loader = || Loader::open(&path).unwrap().field("x", Numbers::f32()).group("patient");
    let error = loader().split(Split::train(0.5)).build().map(drop).unwrap_err();
    assert!(error.message().contains("a record without a value belongs to no group"), "{error}");
    assert_eq!((error.kind(), error.location().record), (ErrorKind::Data, Some(1)));
    // One that is left out anyway does not matter.
    assert!(loader().filter("x != 2").split(Split::train(0.5)).build().is_ok());
}
