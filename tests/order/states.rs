//! What is saved of a run: states of every version that was ever written, and the fingerprints in them.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs;
use std::io::Write;
use std::path::Path;

use crate::common::{Flaky, Trouble, fixture, workspace};
use ringfeed::arrays::{NpyOptions, NpyReader, StoredType};
use ringfeed::csv::{CsvOptions, CsvReader, CsvStream};
use ringfeed::images::{ImageFolder, ImageOptions};
use ringfeed::order::{Buckets, Shard, State, Subset};
use ringfeed::read::{Concat, Fingerprint, MemoryReader, RecordReader, RecordStream};
use ringfeed::sequences::{CsvSequenceReader, SequenceOptions};
use ringfeed::settings::{BadLimits, BadRecords};
use ringfeed::source::{ReaderSource, Source};
use ringfeed::tar::{TarOptions, TarReader};
use ringfeed::tensor::Role;
use ringfeed::tokens::{TokenCut, TokenOptions, TokenPacking, TokenReader};
use ringfeed::{AsyncDataSetIterator, AsyncShieldDataSetIterator, DataSetIterator, ErrorKind, Loader};

fn numbers(len: i64) -> MemoryReader<i64> {
    MemoryReader::new("x", Role::Feature, &[], (0..len).collect::<Vec<_>>()).unwrap()
}

/// Rows whose first column is their number.
fn rows(count: u64) -> String {
    (0..count).fold("number,ä\n".to_owned(), |text, row| format!("{text}{row},{}.5\n", row * row))
}

fn gzip(path: &Path, text: &[u8]) {
    let mut encoder = flate2::write::GzEncoder::new(fs::File::create(path).unwrap(), flate2::Compression::fast());
    encoder.write_all(text).unwrap();
    encoder.finish().unwrap();
}

/// The sample ids of the next `count` samples, across epochs.
fn next_ids(iterator: &mut dyn DataSetIterator, count: usize) -> Vec<u64> {
    let mut ids = Vec::new();
    while ids.len() < count {
        match iterator.next() {
            Some(batch) => ids.extend(batch.unwrap().sample_ids()),
            None => iterator.reset().unwrap(),
        }
    }
    ids.truncate(count);
    ids
}

/// The sources of the states in `fixtures/states`, by name.
fn source_of(name: &str, folder: &Path) -> Box<dyn Source> {
    let shuffled = |len| ReaderSource::new(numbers(len)).shuffle(7).batch_size(4);
    Box::new(match name {
        "table" => shuffled(40),
        "network" => shuffled(1000),
        "subset" => shuffled(40).subset(Subset::all(40).filter(|id| id % 3 != 0)),
        "weighted" => shuffled(40).weighted((0..40).map(f64::from).collect()),
        "mixed" => {
            shuffled(400).mix([(Subset::range(0..20), 1.0), (Subset::range(20..400), 3.0)]).samples_per_epoch(50)
        }
        "csv" => {
            let path = folder.join("rows.csv");
            fs::write(&path, rows(30)).unwrap();
            ReaderSource::new(CsvReader::open(path, &CsvOptions::default()).unwrap()).shuffle(7).batch_size(4)
        }
        "two readers" => shuffled(40).and(MemoryReader::new("y", Role::Label, &[], vec![0u8; 40]).unwrap()),
        name => panic!("no source is called {name}"),
    })
}

#[test]
fn states_of_version_2_are_read_for_ever() {
    let folder = tempfile::tempdir().unwrap();
    let saved: Vec<serde_json::Value> =
        serde_json::from_slice(&fs::read(fixture("states/version-2.json")).unwrap()).unwrap();
    assert_eq!(saved.len(), 7);
    for saved in saved {
        let name = saved["source"].as_str().unwrap();
        let state: State = serde_json::from_value(saved["state"].clone()).unwrap();
        assert_eq!(serde_json::to_value(state).unwrap(), saved["state"], "{name}: what is written has the same form");
        let ids: Vec<u64> = serde_json::from_value(saved["next"].clone()).unwrap();
        let mut iterator = AsyncShieldDataSetIterator::new(source_of(name, folder.path()), &workspace(1, 0)).unwrap();
        iterator.seek(&state).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(next_ids(&mut iterator, ids.len()), ids, "{name}");
    }
}

/// TOML has no value for nothing.
#[test]
fn a_state_without_a_source_or_a_count_may_leave_them_out() {
    let plain = State::new(7);
    let counted = Fingerprint { count: None, names: 3, sizes: 4 };
    let streamed = State { source: Some(counted), position: 12, ..plain };
    for state in [plain, streamed] {
        let text = toml::to_string(&state).unwrap();
        assert!(!text.contains("count") && !text.contains("null"), "{text}");
        assert_eq!(toml::from_str::<State>(&text).unwrap(), state);
    }
    let gone = r#"{"version":2,"seed":7,"epoch":0,"position":0,"bad":0,"run":0}"#;
    assert_eq!(serde_json::from_str::<State>(gone).unwrap(), plain);
}

#[test]
fn a_state_of_another_version_is_refused_as_such() {
    let refusal = |text: &str| serde_json::from_str::<State>(text).unwrap_err().to_string();
    let fields = r#""seed":7,"epoch":1,"position":12,"bad":0,"run":0,"source":null"#;
    // Fields that are new, gone, or of another type, wherever the version stands.
    for later in [
        format!(r#"{{"version":3,{fields},"shards":[1,2]}}"#),
        format!(r#"{{{fields},"blocks":{{"a":[]}},"version":3}}"#),
        r#"{"version":4000000000}"#.to_owned(),
        r#"{"seed":"7","version":3}"#.to_owned(),
    ] {
        let message = refusal(&later);
        assert!(message.contains("a later version of Ringfeed") && message.contains("update"), "{message}");
    }
    let of_source = |source: &str| format!("{{{}}}", format!(r#""version":2,{fields}"#).replace("null", source));
    for (text, told) in [
        (
            format!(r#"{{"version":2,{fields},"shard":1}}"#),
            r#""shard" does not belong here, only version, seed, epoch"#,
        ),
        (format!("{{{fields}}}"), r#""version" is missing"#),
        (r#"{"version":2,"seed":7}"#.to_owned(), r#""epoch" is missing"#),
        (format!(r#"{{"version":2,"seed":1,{fields}}}"#), r#""seed" is given twice"#),
        (
            format!(r#"{{"version":"2",{fields}}}"#),
            r#"version: expected a whole number from 0 to 4294967295, found "2""#,
        ),
        (
            format!(r#"{{"version":2,{}}}"#, fields.replace("12", "-1")),
            "position: expected a whole number, 0 or more, found -1",
        ),
        (of_source("3"), "source: expected a table, found 3"),
        (of_source(r#"{"count":3,"names":"0"}"#), r#"source: "sizes" is missing"#),
        (
            of_source(r#"{"count":3,"names":"x","sizes":"0"}"#),
            r#"source.names: expected up to 16 hexadecimal digits, found "x""#,
        ),
        (
            of_source(r#"{"count":"3","names":"0","sizes":"0"}"#),
            "source.count: expected a whole number, 0 or more, found",
        ),
        (of_source(r#"{"count":3,"names":"0","sizes":"0","more":1}"#), r#"source: "more" does not belong here"#),
        ("7".to_owned(), "expected the state of an iterator, found 7"),
        (r#"[2,"x"]"#.to_owned(), r#"expected a whole number, 0 or more, found "x""#),
    ] {
        let message = refusal(&text);
        assert!(message.contains(told), "{told} in {message}");
        for word in ["invalid", "struct", "field", "u64", "u32"] {
            assert!(!message.contains(word), "{word} in {message}");
        }
    }
    // Formats without names read the version first, too.
    assert!(refusal("[3,7]").contains("a later version of Ringfeed"));
    let state: State = serde_json::from_str("[2,7,1,12,0,0,null]").unwrap();
    assert_eq!(state, serde_json::from_str(&format!(r#"{{"version":2,{fields}}}"#)).unwrap());

    let source = || ReaderSource::new(numbers(1000)).shuffle(7).batch_size(4);
    let mut iterator = AsyncShieldDataSetIterator::new(source(), &workspace(1, 0)).unwrap();
    let later = State { version: 3, ..state };
    for later in [later, later.for_changed_source()] {
        assert!(iterator.seek(&later).unwrap_err().to_string().contains("version 3"));
    }
    let earlier: State = serde_json::from_str(&format!(r#"{{"version":1,{fields}}}"#)).unwrap();
    let error = iterator.seek(&earlier).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Config);
    assert!(error.to_string().contains("version 1") && error.to_string().contains("for_changed_source"), "{error}");
    iterator.seek(&earlier.for_changed_source()).unwrap();
    assert_eq!(iterator.next().unwrap().unwrap().positions()[0], 12);
    for damaged in [State { epoch: u64::MAX, ..state }, State { position: u64::MAX, ..state }] {
        assert!(iterator.seek(&damaged).unwrap_err().to_string().contains("damaged"));
    }
}

#[test]
fn a_packed_table_resumes_with_any_number_of_shards() {
    let folder = tempfile::tempdir().unwrap();
    let (packed, latin) = (folder.path().join("rows.csv.gz"), folder.path().join("latin.csv"));
    gzip(&packed, rows(30).as_bytes());
    fs::write(&latin, rows(30).chars().map(|character| character as u8).collect::<Vec<_>>()).unwrap();
    let options = CsvOptions { encoding: Some("latin1".into()), ..CsvOptions::default() };
    let readable = if cfg!(feature = "encodings") { 2 } else { 1 };
    for loader in [Loader::csv(&packed), Loader::csv_with(&latin, options)].into_iter().take(readable) {
        let of_shards = |count| {
            let part = |index| loader.clone().batch_size(2).shard(Shard::new(index, count).unwrap()).build().unwrap();
            (0..count).map(part).collect::<Vec<_>>()
        };
        let mut seen: Vec<u64> = Vec::new();
        let mut state = State::new(0);
        // Alone it is read as a stream, in shards at random.
        for shards in [1, 2, 1, 3, 2] {
            let mut parts = of_shards(shards);
            for part in &mut parts {
                part.seek(&state).unwrap();
                seen.extend(part.next().unwrap().unwrap().sample_ids());
            }
            state = parts[0].state();
        }
        seen.sort_unstable();
        assert_eq!(seen, (0..18).collect::<Vec<u64>>());
    }
    let options = CsvOptions::default();
    let state_of = |path: &Path| {
        let mut iterator = Loader::csv_with(path, options.clone()).batch_size(2).build().unwrap();
        drop(iterator.next());
        iterator.state()
    };
    let before = state_of(&packed);
    gzip(&packed, rows(31).as_bytes());
    let mut changed = Loader::csv(&packed).shard(Shard::new(0, 2).unwrap()).build().unwrap();
    assert!(changed.seek(&before).unwrap_err().to_string().contains(": sizes;"));
}

#[test]
#[cfg_attr(not(feature = "images"), ignore = "decodes images")]
fn fingerprints_never_change() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    fs::write(path("rows.csv"), rows(30)).unwrap();
    fs::create_dir(path("sequences")).unwrap();
    fs::write(path("sequences/a.csv"), rows(3)).unwrap();
    fs::write(path("sequences/b.csv"), rows(5)).unwrap();
    fs::write(path("tokens.bin"), (0..200u16).flat_map(u16::to_le_bytes).collect::<Vec<_>>()).unwrap();
    fs::create_dir_all(path("photos/cat")).unwrap();
    fs::copy(fixture("images/rgb.png"), path("photos/cat/1.png")).unwrap();
    fs::copy(fixture("images/rgb.jpg"), path("photos/cat/2.jpg")).unwrap();
    let csv = CsvOptions::default();
    let rows = CsvReader::open(path("rows.csv"), &csv).unwrap();
    let stream = CsvStream::open(path("rows.csv"), &csv).unwrap().0.fingerprint();
    assert_eq!(stream, Fingerprint { count: None, ..rows.fingerprint() });
    let sequences = SequenceOptions::default();
    let tokens = |cut| {
        let options = TokenOptions { window: 10, cut, stored: StoredType::U16, ..TokenOptions::default() };
        TokenReader::open(path("tokens.bin"), &options).unwrap().fingerprint()
    };
    let documents = |packing| tokens(TokenCut::Documents { end: 9, packing });
    let of_order = |source: ReaderSource| Box::new(source).open().unwrap().fingerprint;
    let whole = || ReaderSource::new(numbers(40));
    let images = ImageOptions { size: Some((8, 8)), ..ImageOptions::default() };
    let found = [
        ("memory", numbers(40).fingerprint()),
        ("csv", rows.fingerprint()),
        ("sequences", CsvSequenceReader::open_folder(path("sequences"), &sequences).unwrap().fingerprint()),
        ("groups", CsvSequenceReader::open_grouped(path("rows.csv"), "number", &sequences).unwrap().fingerprint()),
        ("npy", NpyReader::open(fixture("npy/u1-little.npy"), &NpyOptions::default()).unwrap().fingerprint()),
        ("tokens", tokens(TokenCut::Random)),
        ("documents", documents(TokenPacking::Whole)),
        ("best fit", documents(TokenPacking::BestFit)),
        ("images", ImageFolder::detect(path("photos"), &images).unwrap().fingerprint()),
        ("tar", TarReader::open(fixture("tar/wds-000.tar"), &TarOptions::default()).unwrap().fingerprint()),
        ("concat", Concat::new(numbers(40)).and(numbers(2)).unwrap().fingerprint()),
        ("all", of_order(whole())),
        ("both", of_order(whole().and(MemoryReader::new("y", Role::Label, &[], vec![0u8; 40]).unwrap()))),
        ("range", of_order(whole().subset(Subset::range(3..9)))),
        ("list", of_order(whole().subset(Subset::listed([3, 9, 2])))),
        ("weights", of_order(whole().weighted((0..40).map(f64::from).collect()))),
        ("mix", of_order(whole().mix([(Subset::range(0..5), 1.0), (Subset::range(5..40), 2.0)]))),
        ("short epochs", of_order(whole().samples_per_epoch(10))),
    ];
    for (nth, (name, found)) in found.into_iter().enumerate() {
        assert_eq!((name, found.count, found.names, found.sizes), FINGERPRINTS[nth]);
    }
}

/// Count, names and sizes.
const FINGERPRINTS: [(&str, Option<u64>, u64, u64); 18] = [
    ("memory", Some(40), 0, 0),
    ("csv", Some(30), 0x8348_bae4_7574_5dc8, 256),
    ("sequences", Some(2), 0xee20_1363_2c76_1de2, 0x726c_fff8_aa0d_4711),
    ("groups", Some(30), 0x0bbf_03bc_ff95_d3cc, 256),
    ("npy", Some(2), 0, 134),
    ("tokens", Some(190), 0x36bb_2655_fc63_023f, 400),
    ("documents", Some(20), 0x7500_3dcd_0b47_b516, 400),
    ("best fit", Some(20), 0x0b59_f009_08af_791c, 400),
    ("images", Some(2), 0x0602_b5cc_df1f_ef35, 0x692d_418e_3d97_8be7),
    ("tar", Some(3), 0xa1f0_9925_c22a_17e9, 0x021b_165c_9b41_1078),
    ("concat", Some(42), 0x68ed_d433_a751_3713, 0xb265_ad17_ac64_7e43),
    ("all", Some(40), 0, 0),
    ("both", Some(40), 0xf619_516b_148d_8429, 0xf619_516b_148d_8429),
    ("range", Some(40), 0x4f90_d4bd_6b87_74d4, 0),
    ("list", Some(40), 0xacc4_631e_59fc_95ab, 0),
    ("weights", Some(40), 0xe60c_840b_19b8_47c0, 0),
    ("mix", Some(40), 0x648b_0f52_1af2_3b22, 0),
    ("short epochs", Some(40), 0xcc61_214b_9677_f446, 0),
];

#[test]
fn a_state_at_no_position_of_the_source_is_refused_at_once_and_changes_nothing() {
    let sources: [fn() -> ReaderSource; 2] = [
        || ReaderSource::new(numbers(100)).batch_size(10),
        || ReaderSource::new(crate::common::Waves::new(100, 8)).batch_size(10).bucket(Buckets::new("wave", [4, 8])),
    ];
    for (source, position) in sources.into_iter().zip([[1000, 101], [1000, 15]]) {
        let mut ahead = AsyncDataSetIterator::new(source(), &workspace(2, 2)).unwrap();
        let mut shielded = AsyncShieldDataSetIterator::new(source(), &workspace(1, 0)).unwrap();
        for iterator in [&mut ahead as &mut dyn DataSetIterator, &mut shielded] {
            iterator.next().unwrap().unwrap();
            let state = iterator.state();
            for position in position {
                let error = iterator.seek(&State { epoch: 7, position, ..state }).unwrap_err();
                assert_eq!(error.kind(), ErrorKind::Config, "{error}");
                assert_eq!(iterator.state(), state);
            }
            assert_eq!(iterator.next().unwrap().unwrap().epoch(), 0);
        }
    }
}

#[test]
fn a_resumed_run_that_finds_too_many_bad_records_says_how_many_were_found_before() {
    let bad = [1, 2, 3, 60];
    let open = || {
        let policy = BadRecords::Skip(BadLimits { count: Some(3), ..BadLimits::default() });
        let source = ReaderSource::new(Flaky::new(100, &bad, Trouble::FailInDecode)).batch_size(5).bad_records(policy);
        AsyncDataSetIterator::new(source, &workspace(1, 1)).unwrap()
    };
    let mut first = open();
    while first.state().position < 20 {
        first.next().unwrap().unwrap();
    }
    let mut second = open();
    second.seek(&first.state()).unwrap();
    let message = second.find_map(|batch| batch.err()).unwrap().to_string();
    assert!(message.contains("4 bad records in this epoch, but the policy allows 3"), "{message}");
    assert!(message.contains("record 60") && !message.contains("record 2"), "{message}");
    assert!(message.contains("and 3 before the state from which this run resumed"), "{message}");
}

#[test]
fn limits_of_bad_records_count_only_what_the_own_shard_has_found() {
    let bad: Vec<u64> = (1..10).map(|k| 100 * k + (9 * k) % 8).collect();
    let open = |index: u32, count: u32| {
        let policy = BadRecords::Skip(BadLimits { consecutive: Some(1), ..BadLimits::share(0.02) });
        let source = ReaderSource::new(Flaky::new(1000, &bad, Trouble::FailInDecode)).batch_size(5).bad_records(policy);
        AsyncDataSetIterator::new(source.shard(Shard::new(index, count).unwrap()), &workspace(1, 1)).unwrap()
    };
    let mut whole = open(0, 1);
    while whole.state().position < 900 {
        whole.next().unwrap().unwrap();
    }
    let state = State { run: 1, ..whole.state() };
    assert!(state.bad >= 7);
    for count in [2, 8] {
        for index in 0..count {
            let mut rest = open(index, count);
            rest.seek(&state).unwrap();
            assert_eq!((rest.state().bad, rest.state().run), (state.bad, 1));
            rest.by_ref().for_each(|batch| assert!(batch.is_ok(), "{index} of {count}: {batch:?}"));
        }
    }
    // Those that it finds itself count.
    let all: Vec<u64> = (0..1000).collect();
    let policy = BadRecords::Skip(BadLimits { count: Some(3), ..BadLimits::default() });
    let source = ReaderSource::new(Flaky::new(1000, &all, Trouble::FailInDecode)).batch_size(5).bad_records(policy);
    let mut rest = AsyncDataSetIterator::new(source.shard(Shard::new(1, 8).unwrap()), &workspace(1, 1)).unwrap();
    rest.seek(&State { source: None, ..state }).unwrap();
    assert_eq!(rest.find_map(|batch| batch.err()).unwrap().kind(), ErrorKind::TooManyBad);
}
