//! `ringfeed verify` and `ringfeed plan`: what is found in good and bad data of each format, the shape of their JSON,
//! and their exit statuses.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use std::io::Write;
use std::path::PathBuf;
use std::process::Stdio;

use common::{command, fixture, object, run};
use serde_json::{Value, json};

/// The report on what has nothing bad.
fn good(args: &[&str]) -> Value {
    let report = object(&[&["verify", "--json"], args].concat(), 0);
    assert_eq!((&report["ok"], &report["bad"], &report["ended_by"]), (&json!(true), &json!([]), &Value::Null));
    report
}

/// The report on what has something bad.
fn bad(args: &[&str]) -> Value {
    let report = object(&[&["verify", "--json"], args].concat(), 1);
    assert_eq!(report["ok"], json!(false), "{report}");
    let keys: Vec<&String> = report.as_object().unwrap().keys().collect();
    assert_eq!(
        keys,
        [
            "bad",
            "bad_samples",
            "checked",
            "damage",
            "damaged",
            "ended_by",
            "format",
            "ok",
            "path",
            "samples",
            "seconds"
        ]
    );
    for bad in report["bad"].as_array().unwrap() {
        let keys: Vec<&String> = bad.as_object().unwrap().keys().collect();
        assert_eq!(keys, ["byte", "column", "kind", "line", "member", "message", "path", "record"]);
    }
    report
}

/// The records of what is listed as bad.
fn records(report: &Value) -> Vec<u64> {
    report["bad"].as_array().unwrap().iter().map(|bad| bad["record"].as_u64().unwrap()).collect()
}

fn plan(args: &[&str]) -> Value {
    object(&[&["plan", "--json"], args].concat(), 0)
}

fn error(args: &[&str]) -> Value {
    object(&[args, &["--json"]].concat(), 1)["error"].clone()
}

/// A folder that is gone afterwards.
struct Scratch(tempfile::TempDir);

impl Scratch {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn path(&self, name: &str) -> String {
        self.0.path().join(name).to_str().unwrap().to_owned()
    }

    fn write(&self, name: &str, bytes: impl AsRef<[u8]>) -> String {
        let path = PathBuf::from(self.path(name));
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, bytes).unwrap();
        self.path(name)
    }
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

fn idx(records: u8, bytes: &[u8]) -> Vec<u8> {
    [&[0, 0, 8, 2, 0, 0, 0, records, 0, 0, 0, 2], bytes].concat()
}

/// 1000 records, of which 3 and 700 are too long and 500 is not UTF-8.
fn table() -> Vec<u8> {
    let mut text = b"a,b\n".to_vec();
    for record in 0..1000 {
        match record {
            3 | 700 => text.extend_from_slice(b"1,2,3\n"),
            500 => text.extend_from_slice(b"1,M\xfcller\n"),
            _ => text.extend_from_slice(format!("{record},\"x\n{record}\"\n").as_bytes()),
        }
    }
    text
}

#[test]
fn bad_records_of_binary_and_sparse_files_are_named() {
    let scratch = Scratch::new();
    let whole = std::fs::read(fixture("tfrecord/kinds.tfrecord")).unwrap();
    let cut = scratch.write("cut.tfrecord", &whole[..whole.len() - 1]);
    let rows = scratch.write("rows.svm", "1 1:1\n1 2:x\n0 3:1\n");
    for (path, records, record, part) in [(cut, 7, 6, "truncated"), (rows, 3, 1, "expected a number")] {
        let report = object(&["verify", &path, "--json"], 1);
        assert_eq!((&report["samples"], &report["bad_samples"]), (&json!(records), &json!(1)), "{report}");
        assert_eq!(report["bad"][0]["record"], json!(record), "{report}");
        assert!(report["bad"][0]["message"].as_str().unwrap().contains(part), "{report}");
    }
}

#[test]
fn good_data_of_each_format_is_all_read() {
    let scratch = Scratch::new();
    for (name, format, samples) in [
        ("tfrecord/train-00000-of-00002", "tfrecord", 6),
        ("npz/packed.npz", "npz", 7),
        ("safetensors/arrays.safetensors", "safetensors", 7),
        ("libsvm/base-1.svm", "libsvm", 20),
    ] {
        let found = good(&[&fixture(name)]);
        assert_eq!(
            (&found["format"], &found["samples"], &found["bad_samples"]),
            (&json!(format), &json!(samples), &json!(0))
        );
    }
    let iris = good(&[&fixture("iris.csv")]);
    assert_eq!((&iris["format"], &iris["samples"], &iris["bad_samples"]), (&json!("csv"), &json!(150), &json!(0)));
    let words = scratch.write("words.csv.gz", gzip(b"name,town\nAnn,Ulm\nBob,Bonn\n"));
    assert_eq!(good(&[&words])["samples"], json!(2));
    let digits = scratch.write("digits.idx", idx(3, &[0; 6]));
    assert_eq!((&good(&[&digits])["format"], &good(&[&digits])["samples"]), (&json!("idx"), &json!(3)));
    scratch.write("arrays/a.idx", idx(3, &[0; 6]));
    scratch.write("arrays/b.idx.gz", gzip(&idx(2, &[0; 4])));
    assert_eq!(good(&[&scratch.path("arrays")])["samples"], json!(5));
    scratch.write("sequences/1.csv", "a,b\n1,2\n3,\n");
    scratch.write("sequences/2.csv.gz", gzip(b"a,b\n5,6\n"));
    assert_eq!(good(&[&scratch.path("sequences")])["samples"], json!(2));
    assert_eq!(good(&[&fixture("photos/chelsea.png")])["format"], json!("image"));
    let images = good(&[&fixture("images"), "--workers", "3"]);
    assert_eq!(images["format"], json!("image_folder"));
    assert!(images["samples"].as_u64().unwrap() > 20, "{images}");
}

#[test]
fn every_bad_record_of_a_table_is_listed_with_its_place() {
    let scratch = Scratch::new();
    let plain = scratch.write("t.csv", table());
    let packed = scratch.write("t.csv.gz", gzip(&table()));
    for path in [&plain, &packed] {
        for workers in ["1", "4"] {
            let report = bad(&[path, "--workers", workers]);
            assert_eq!((&report["samples"], &report["bad_samples"]), (&json!(1000), &json!(3)));
            assert_eq!(records(&report), [3, 500, 700]);
            let first = &report["bad"][0];
            assert_eq!((&first["path"], &first["line"], &first["kind"]), (&json!(path), &json!(8), &json!("data")));
            assert!(first["message"].as_str().unwrap().contains("expected 2 fields, found 3"), "{first}");
            assert!(report["bad"][1]["message"].as_str().unwrap().contains("UTF-8"), "{report}");
        }
    }
}

#[test]
fn what_makes_the_rest_unreadable_ends_the_list() {
    let scratch = Scratch::new();
    let report = bad(&[&scratch.write("open.csv", "a,b\n1,2\n1\n3,\"4\n5,6\n")]);
    assert_eq!((records(&report), &report["samples"]), (vec![1], &json!(2)));
    assert_eq!(report["ended_by"]["line"], json!(4), "{report}");
    let long = [table(), b"1,2\n".repeat(50_000)].concat();
    let packed = gzip(&long);
    let report = bad(&[&scratch.write("cut.csv.gz", &packed[..packed.len() - 20])]);
    assert_eq!(report["ended_by"]["kind"], json!("format"), "{report}");
    assert_eq!(records(&report), [3, 500, 700]);
    // Where not even the layout can be seen, there is nothing to report on.
    assert_eq!(error(&["verify", &scratch.write("none.csv.gz", &packed[..40])])["kind"], json!("format"));
}

#[test]
fn a_config_gives_a_table_its_schema() {
    let scratch = Scratch::new();
    let path = scratch.write("t.csv", "a,b\n1,2\nx,3\n4,5\n,6\n");
    assert_eq!(good(&[&path])["samples"], json!(4));
    let settings = "shuffle = 1\n[[sources]]\nformat = \"csv\"\npath = \"t.csv\"\nfields = { x = { from = [\"a\"], numbers = \"f32\" } }\n";
    let config = scratch.write("loader.toml", settings);
    let report = bad(&["--config", &config]);
    assert_eq!((records(&report), &report["samples"]), (vec![1, 3], &json!(4)));
    assert_eq!((&report["bad"][0]["column"], &report["bad"][0]["line"]), (&json!("a"), &json!(3)));
    let other = scratch.write("other.csv", "a,b\n1,x\n");
    assert_eq!(good(&[&other, "--config", &config])["path"], json!(other));
    let empty = scratch.write("empty.toml", "batch_size = 2\n");
    assert_eq!(good(&[&path, "--config", &empty])["format"], json!("csv"));
    assert_eq!(error(&["verify", "--config", &empty])["kind"], json!("config"));
    // Settings that tell of values, and name no source.
    let numbers = scratch.write("numbers.csv", "a,b\n1,2\n3,4\n");
    let filter = scratch.write("filter.toml", "filter = \"a > 1\"\n");
    assert_eq!(good(&[&numbers])["checked"], json!("form"));
    assert_eq!(good(&[&numbers, "--config", &filter])["checked"], json!("values"));
    for (settings, name) in [
        ("filter = \"no_such > 1\"\n", "no_such"),
        ("weight_by = \"no_such\"\nshuffle = 1\n", "no_such"),
        ("windows = { length = 1, series = \"no_such\" }\n", "no_such"),
    ] {
        let refused = error(&["verify", &numbers, "--config", &scratch.write("chosen.toml", settings)]);
        assert!(refused["message"].as_str().unwrap().contains(name), "{refused}");
    }
    assert_eq!(good(&[&numbers, "--config", &empty])["checked"], json!("values"));
    let wrong =
        scratch.write("normalise.toml", "normalise = { none = { kind = \"min_max\", min = [0], max = [1] } }\n");
    let refused = error(&["verify", &numbers, "--config", &wrong]);
    assert!(refused["message"].as_str().unwrap().contains("none"), "{refused}");
}

#[test]
fn a_path_takes_the_place_of_the_only_source_or_is_the_source_of_settings_without() {
    let scratch = Scratch::new();
    let path = scratch.write("semi.csv", "a,b\n1,2\n3,4\n");
    let fields = scratch.write("fields.toml", "[fields]\nx = { from = [\"a\", \"b\"], numbers = \"f32\" }\n");
    let one = scratch.write("one.toml", "source = { path = \"elsewhere.csv\" }\n");
    let alone = scratch.write("alone.toml", "source = \"elsewhere.csv\"\n");
    let several = ["path = [\"x.csv\", \"y.csv\"]", "format = \"csv\", path = [\"x.csv\", \"y.csv\"]"];
    let [several, named] =
        several.map(|source| scratch.write(&format!("{}.toml", source.len()), format!("source = {{ {source} }}\n")));
    for config in [&fields, &one, &alone, &several, &named] {
        let report = good(&[&path, "--config", config]);
        assert_eq!((&report["path"], &report["samples"]), (&json!(path), &json!(2)), "{config}");
        let report = object(&["bench", &path, "--config", config, "--json"], 0);
        assert_eq!(report["samples"], json!(2), "{config}");
    }
    let lacking = error(&["verify", "--config", &fields]);
    assert!(lacking["message"].as_str().unwrap().contains("sources: the list is empty"), "{lacking}");
}

#[test]
fn the_files_of_several_sources_are_looked_for_in_the_folder_that_is_given() {
    let (scratch, data) = (Scratch::new(), Scratch::new());
    for (name, text) in [("x1.csv", "x\n1\n"), ("x2.csv", "x\n2\n3\n"), ("y1.csv", "y\n4\n5\n"), ("y2.csv", "y\n6\n")] {
        data.write(name, text);
    }
    let source = |name: &str| {
        format!(
            "[[sources]]\nformat = \"csv\"\npath = [\"{name}1.csv\", \"{name}2.csv\"]\nfields = {{ {name} = \"f32\" }}\n"
        )
    };
    let config = scratch.write("two.toml", source("x") + &source("y"));
    assert_eq!(good(&[&data.path(""), "--config", &config])["samples"], json!(3));
}

#[test]
fn a_command_that_takes_settings_alone_says_so_where_a_flag_is_given() {
    for command in ["plan", "fit"] {
        let output = run(&[command, "x.csv", "--config", "loader.toml"]);
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains(&format!("`ringfeed {command} loader.toml`")) && !said.contains("-- --config"), "{said}");
        assert!(!String::from_utf8(run(&["help", command]).stdout).unwrap().contains("--config"), "{command}");
    }
}

#[test]
fn what_does_not_go_together_names_the_file_and_line() {
    let scratch = Scratch::new();
    let data = format!("source = {{ path = {:?} }}\n", fixture("iris.csv"));
    for (settings, line) in [("batch_size = 4\nclass_balanced = true\n", 2), ("stratify = \"x\"\n", 1)] {
        let config = scratch.write("wrong.toml", format!("{settings}{data}"));
        let found = error(&["plan", &config]);
        assert_eq!((&found["path"], &found["line"]), (&json!(config), &json!(line)), "{found}");
    }
    let none = scratch.write("none.toml", "batch_size = 4\n");
    assert_eq!(error(&["plan", &none])["path"], json!(none));
}

#[test]
fn a_plan_says_settings_in_words_and_one_thing_as_one() {
    let scratch = Scratch::new();
    scratch.write("one.csv", "a\n1\n");
    let config = scratch.write(
        "one.toml",
        "batch_size = 1\nsplit = { train = 1.0, part = \"train\" }\nbad_records = { skip = { count = 3 } }\nsource = \"one.csv\"\n",
    );
    let shown = String::from_utf8(run(&["plan", &config]).stdout).unwrap();
    assert!(shown.contains("part train, seed 0"), "{shown}");
    assert!(shown.contains("skip (count 3)"), "{shown}");
    assert!(shown.contains("of 1 sample;") && !shown.contains('{'), "{shown}");
    let config = scratch.write("two.toml", "bad_records = \"skip\"\nsource = \"one.csv\"\n");
    let shown = String::from_utf8(run(&["plan", &config]).stdout).unwrap();
    assert!(shown.contains(" skip\n"), "{shown}");
}

#[test]
fn every_damaged_image_is_listed() {
    let scratch = Scratch::new();
    for (nth, name) in ["chelsea.png", "china.jpg", "rocket.jpg"].iter().enumerate() {
        let bytes = std::fs::read(fixture(&format!("photos/{name}"))).unwrap();
        scratch.write(&format!("photos/good/{name}"), &bytes);
        // The last few hundred bytes are missing: whoever reads the header alone sees nothing.
        scratch.write(&format!("photos/cut/{nth}-{name}"), &bytes[..bytes.len() - 400]);
    }
    let empty = scratch.write("photos/good/empty.png", "");
    let report = bad(&[&scratch.path("photos")]);
    assert_eq!((&report["format"], &report["samples"]), (&json!("image_folder"), &json!(7)));
    assert_eq!(records(&report), [0, 1, 2, 5]);
    assert_eq!(report["bad"][3]["path"], json!(empty));
    let single = bad(&[&empty]);
    assert_eq!((&single["samples"], &single["bad_samples"]), (&json!(1), &json!(1)));
}

#[test]
fn images_that_are_loaded_in_spite_of_damage_are_counted() {
    let scratch = Scratch::new();
    let photo = std::fs::read(fixture("photos/china.jpg")).unwrap();
    let first = 4 + usize::from(u16::from_be_bytes([photo[4], photo[5]]));
    scratch.write("photos/a.jpg", &photo);
    // A byte between the header's first two segments: libjpeg warns of it, and reads on.
    scratch.write("photos/b.jpg", [&photo[..first], b"\0", &photo[first..]].concat());
    let damage = json!([{ "kind": "stray bytes before a marker", "images": 1 }]);
    let photos = scratch.path("photos");
    let report = good(&[&photos]);
    assert_eq!((&report["samples"], &report["damaged"], &report["damage"]), (&json!(2), &json!(1), &damage));
    let measured = object(&["bench", "--json", &photos, "--size", "8"], 0);
    assert_eq!((&measured["damaged"], &measured["damage"]), (&json!(1), &damage));
    assert_eq!(good(&[&fixture("photos")])["damage"], json!([]));
    let text = |args: &[&str]| String::from_utf8(run(args).stdout).unwrap();
    let verified = text(&["verify", &photos]);
    assert!(verified.contains("loaded in spite of damage: 1 image (1 stray bytes before a marker)\n"), "{verified}");
    let measured = text(&["bench", &photos, "--size", "8"]);
    assert!(measured.contains("damaged         1 image (1 stray bytes before a marker)\n"), "{measured}");
}

#[test]
fn every_damaged_sequence_is_listed_whatever_its_damage() {
    let scratch = Scratch::new();
    let folder = scratch.path("s");
    scratch.write("s/0.csv", "a,b\n1,2\n");
    scratch.write("s/1.csv", "a,c\n1,2\n");
    scratch.write("s/2.csv", "a,b\n1,2\n3\n");
    scratch.write("s/3.csv", "a,b\n1,\"2\n");
    scratch.write("s/4.csv.gz", &gzip(&table())[..40]);
    scratch.write("s/5.csv.gz", b"\x1f\x8brubbish");
    scratch.write("s/6.csv", "a,b\n5,6\n");
    let report = bad(&[&folder]);
    assert_eq!((&report["samples"], &report["bad_samples"]), (&json!(7), &json!(5)), "{report}");
    assert_eq!(records(&report), [1, 2, 3, 4, 5]);
    assert_eq!(report["bad"][1]["path"], json!(scratch.path("s/2.csv")));
}

#[test]
fn every_damaged_array_of_a_folder_is_listed_and_one_alone_is_an_error() {
    let scratch = Scratch::new();
    scratch.write("a/1.idx", idx(3, &[0; 6]));
    let cut = scratch.write("a/2.idx", idx(3, &[0; 5]));
    scratch.write("a/3.idx.gz", &gzip(&idx(3, &[7; 6]))[..20]);
    scratch.write("a/4.idx", "x");
    let report = bad(&[&scratch.path("a")]);
    assert_eq!((&report["samples"], &report["bad_samples"]), (&json!(3), &json!(3)));
    assert_eq!(report["bad"][0]["path"], json!(cut));
    assert_eq!(error(&["verify", &cut])["kind"], json!("format"));
}

#[test]
fn files_that_can_not_be_read_are_listed_and_the_others_are_read() {
    let scratch = Scratch::new();
    scratch.write("t/1.csv", "a,b\n1,2\n");
    let cut = scratch.write("t/2.csv.gz", &gzip(&table())[..40]);
    let open = scratch.write("t/3.csv", format!("a,b\n{}1,\"2\n", "1,2\n".repeat(50_000)));
    scratch.write("t/4.csv", "a,b\n1,2\n3\n");
    let report = bad(&[&scratch.path("t/*")]);
    assert_eq!((&report["bad_samples"], &report["ended_by"]), (&json!(3), &Value::Null), "{report}");
    let paths: Vec<_> = report["bad"].as_array().unwrap().iter().map(|bad| bad["path"].clone()).collect();
    assert_eq!(paths, [json!(cut), json!(open), json!(scratch.path("t/4.csv"))]);
    assert_eq!(report["samples"], json!(1 + 50_000 + 2), "{report}");
    let text = String::from_utf8(run(&["verify", &scratch.path("t/*")]).stdout).unwrap();
    assert_eq!(text.lines().count(), 4, "{text}");
    // The first one tells no format.
    let first = scratch.write("t/0.csv.gz", &gzip(&table())[..40]);
    let report = bad(&[&scratch.path("t/*")]);
    assert_eq!((&report["bad_samples"], &report["bad"][0]["path"]), (&json!(4), &json!(first)), "{report}");
    let alone = error(&["verify", &scratch.path("t/0*")]);
    assert_eq!(alone["path"], json!(first), "{alone}");
}

#[test]
fn what_is_not_there_is_an_error_and_no_path_is_wrong_usage() {
    let error = error(&["verify", &fixture("iris.cvs")]);
    assert_eq!(error["kind"], json!("not_found"));
    assert!(error["message"].as_str().unwrap().contains("iris.csv"));
    assert_eq!(run(&["verify"]).status.code(), Some(2));
    assert_eq!(run(&["plan"]).status.code(), Some(2));
    assert_eq!(run(&["verify", &fixture("iris.csv"), "--workers", "0"]).status.code(), Some(2));
}

#[test]
fn a_person_reads_one_line_for_each_bad_sample() {
    let scratch = Scratch::new();
    let output = run(&["verify", &scratch.write("t.csv", table())]);
    assert_eq!(output.status.code(), Some(1));
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("1,000 samples read, 3 bad") && text.lines().count() == 4, "{text}");
    assert!(output.stderr.is_empty());
    let output = run(&["verify", &fixture("iris.csv")]);
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(
        text.contains("150 samples read, none malformed")
            && text.contains("not checked: whether a loader accepts the values"),
        "{text}"
    );
    let empty = scratch.write("e.csv", "label,height\n3,1.5\n,1.6\n1,1.7\n");
    assert_eq!(good(&[&empty])["checked"], json!("form"));
    let settings = scratch.write("e.toml", "[[sources]]\nformat = \"csv\"\npath = \"e.csv\"\n");
    let report = bad(&["--config", &settings]);
    assert_eq!((&report["checked"], &report["bad"][0]["record"]), (&json!("values"), &json!(1)));
}

#[test]
fn a_reader_that_closes_the_pipe_changes_no_status() {
    let scratch = Scratch::new();
    let bad = scratch.write("t.csv", "a,b\n1\n".to_owned() + &"1\n".repeat(20_000));
    for (path, status) in [(bad, 1), (fixture("iris.csv"), 0)] {
        let mut child = command(&["verify", &path]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        drop(child.stdout.take());
        let output = child.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(status), "{output:?}");
        assert!(output.stderr.is_empty(), "{output:?}");
    }
}

#[test]
fn more_bad_samples_than_are_listed_are_counted() {
    let scratch = Scratch::new();
    let path = scratch.write("t.csv", "a,b\n1,2\n".to_owned() + &"1\n".repeat(100_010));
    let report = bad(&[&path]);
    assert_eq!((&report["samples"], &report["bad_samples"]), (&json!(100_011), &json!(100_010)));
    // The first ones, whichever thread found them.
    assert_eq!(records(&report), (1..=100_000).collect::<Vec<u64>>());
}

const DIGITS: &str = "batch_size = 10\nshuffle = 7\n\
    [[sources]]\nformat = \"idx\"\npath = \"x.idx\"\n\
    [[sources]]\nformat = \"idx\"\npath = \"y.idx\"\nfields.labels = { array = [], role = \"label\" }\n";

/// A configuration of 25 samples of two bytes and their labels.
fn digits(scratch: &Scratch, settings: &str) -> String {
    scratch.write("x.idx", idx(25, &[0; 50]));
    scratch.write("y.idx", [&[0, 0, 8, 1, 0, 0, 0, 25][..], &[0; 25]].concat());
    scratch.write("loader.toml", settings.to_owned() + DIGITS)
}

#[test]
fn a_plan_of_arrays_knows_everything() {
    let scratch = Scratch::new();
    let config = digits(&scratch, "workers = 3\nprefetch = 4\nmemory = { budget_bytes = 24576 }\n");
    let found = plan(&[&config]);
    assert_eq!(
        (&found["samples"], &found["batches_per_epoch"], &found["slot_bytes"]),
        (&json!(25), &json!(3), &json!(4096))
    );
    assert_eq!((&found["ring_slots"], &found["ring_bytes"]), (&json!(6), &json!(24_576)));
    assert_eq!((&found["fits"], &found["held_bytes"], &found["unknown"]), (&json!(true), &json!(0), &json!([])));
    assert_eq!((&found["shuffled"], &found["seed"]), (&json!(true), &json!(7)));
    assert_eq!((&found["workers"], &found["prefetch"]), (&json!(3), &json!(4)));
    assert_eq!(
        found["tensors"],
        json!([{"name": "features", "role": "feature", "dtype": "u8", "shape": [10, 2]},
               {"name": "labels", "role": "label", "dtype": "i64", "shape": [10]}])
    );
    let config = digits(&scratch, "prefetch = 5\nmemory = { budget_bytes = 24576 }\n");
    assert_eq!(plan(&[&config])["fits"], json!(false));
}

#[test]
fn a_plan_is_what_the_loader_then_does() {
    let scratch = Scratch::new();
    for last_batch in ["keep", "drop", "pad"] {
        for remainder in ["pad", "drop"] {
            for shards in [1u32, 2, 3, 4, 26] {
                let settings = format!("last_batch = \"{last_batch}\"\nremainder = \"{remainder}\"\n");
                let config = digits(&scratch, &settings);
                let found = plan(&[&config, "--shards", &shards.to_string()]);
                let mut settings = ringfeed::LoaderConfig::load(&config).unwrap();
                settings.shard.count = shards;
                let mut batches = ringfeed::Loader::from(settings).build().unwrap();
                let count = batches.by_ref().map(|batch| batch.map(drop)).filter(Result::is_ok).count();
                assert_eq!(found["batches_per_epoch"], json!(count), "{last_batch} {remainder} {shards}: {found}");
                if count > 0 {
                    assert_eq!(found["slot_bytes"], json!(batches.stats().ring.slot_bytes), "{found}");
                }
            }
        }
    }
}

#[test]
fn a_plan_says_what_only_reading_would_tell() {
    let scratch = Scratch::new();
    let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    packed.write_all(b"a,b\n1,2\n").unwrap();
    scratch.write("t.csv.gz", packed.finish().unwrap());
    let source = |more: &str| format!("[[sources]]\nformat = \"csv\"\npath = \"t.csv.gz\"\n{more}");
    let found = plan(&[&scratch.write("open.toml", source(""))]);
    for unknown in ["samples", "batches_per_epoch", "tensors", "slot_bytes", "ring_bytes"] {
        assert_eq!(found[unknown], Value::Null, "{unknown}: {found}");
    }
    assert!(found["unknown"][0].as_str().unwrap().contains("t.csv"), "{found}");
    let named = scratch.write("named.toml", source("fields = { x = { from = [\"a\", \"b\"], numbers = \"f32\" } }\n"));
    let found = plan(&[&named]);
    assert_eq!((&found["samples"], &found["slot_bytes"]), (&Value::Null, &json!(4096)));
    assert_eq!(found["tensors"][0]["shape"], json!([32, 2]));
    let text = String::from_utf8(run(&["plan", &named]).stdout).unwrap();
    assert!(text.contains("unknown samples: found only by unpacking all of"), "{text}");
    let photos = |options: &str| {
        let path = fixture("photos");
        json!({"sources": [{"format": "images", "path": path, "fields": serde_json::from_str::<Value>(options).unwrap()}]})
            .to_string()
    };
    let found = plan(&[&scratch.write("own.json", photos("{}"))]);
    assert_eq!((&found["slot_bytes"], &found["fits"]), (&Value::Null, &Value::Null));
    assert_eq!(found["tensors"][0]["shape"], json!([32, 3, null, null]));
    let resized = scratch.write("resized.json", photos(r#"{"image": {"image": [8, 8]}}"#));
    let found = plan(&[&resized]);
    assert_eq!(found["slot_bytes"].as_u64().map(|bytes| bytes % 4096), Some(0), "{found}");
}

#[test]
fn a_plan_of_a_table_counts_its_records_and_the_samples_of_a_split() {
    let scratch = Scratch::new();
    let source = format!("[[sources]]\nformat = \"csv\"\npath = {:?}\n", fixture("iris.csv"));
    let found = plan(&[&scratch.write("all.toml", format!("batch_size = 16\n{source}"))]);
    assert_eq!(
        (&found["samples"], &found["batches_per_epoch"], &found["unknown"]),
        (&json!(150), &json!(10), &json!([]))
    );
    assert_eq!(found["tensors"][0]["shape"], json!([16, 5]));
    let found = plan(&[&fixture("iris.csv")]);
    assert_eq!((&found["samples"], &found["batch_size"]), (&json!(150), &json!(32)), "the data alone, as it comes");
    for more in ["split = { train = 0.8, test = 0.2, part = \"train\" }\n", "folds = { fold = 1, count = 5 }\n"] {
        let config = scratch.write("split.toml", format!("batch_size = 16\nshuffle = 1\n{more}{source}"));
        let found = plan(&[&config]);
        let loader = ringfeed::Loader::from(ringfeed::LoaderConfig::load(&config).unwrap());
        let batches: Vec<usize> = loader.build().unwrap().map(|batch| batch.unwrap().len()).collect();
        assert_eq!(
            (&found["samples"], &found["batches_per_epoch"]),
            (&json!(batches.iter().sum::<usize>()), &json!(batches.len()))
        );
    }
    let config = digits(&scratch, "split = { train = 0.5, part = \"train\" }\n");
    let samples = plan(&[&config])["samples"].as_u64().unwrap();
    assert!((1..25).contains(&samples), "records without names of their own are known by their numbers: {samples}");
}

#[test]
fn settings_ask_the_launcher_for_this_processs_part() {
    let scratch = Scratch::new();
    let config =
        scratch.write("auto.toml", format!("shard = \"auto\"\nsource = {{ path = {:?} }}\n", fixture("iris.csv")));
    let planned = |variables: &[(&str, &str)]| {
        let mut command = command(&["plan", "--json", &config]);
        // Whatever launched the tests is not meant.
        for own in ["RANK", "WORLD_SIZE", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "PMI_RANK", "PMI_SIZE"] {
            command.env_remove(own);
        }
        let command = command.env_remove("SLURM_PROCID").env_remove("SLURM_NTASKS").envs(variables.iter().copied());
        serde_json::from_slice::<Value>(&command.output().unwrap().stdout).unwrap()
    };
    assert_eq!(planned(&[])["shard"], json!({"index": 0, "count": 1}));
    let found = planned(&[("RANK", "1"), ("WORLD_SIZE", "3")]);
    assert_eq!((&found["shard"], &found["samples_per_shard"]), (&json!({"index": 1, "count": 3}), &json!(50)));
    let error = planned(&[("RANK", "1")])["error"].clone();
    assert!(error["message"].as_str().unwrap().contains("RANK is set, but WORLD_SIZE is not"), "{error}");
    assert_eq!(error["line"], json!(1));
}

#[test]
fn a_plan_reads_no_data_and_reports_wrong_settings() {
    let scratch = Scratch::new();
    // Rubbish with the names of images is listed all the same.
    scratch.write("p/cat/1.png", "rubbish");
    scratch.write("p/dog/2.jpg", "");
    let settings =
        "[[sources]]\nformat = \"images\"\npath = \"p\"\nfields = { image = { image = [8, 8] }, label = \"class\" }\n";
    assert_eq!(plan(&[&scratch.write("p.toml", settings)])["samples"], json!(2));
    scratch.write("s/1.csv", "a\n\"1\n");
    let settings = "[[sources]]\nformat = \"csv_sequences\"\npath = \"s\"\n";
    let found = plan(&[&scratch.write("s.toml", settings)]);
    assert_eq!((&found["samples"], &found["tensors"]), (&json!(1), &Value::Null));
    let config = scratch.write("wrong.toml", "batch_size = 0\n");
    assert_eq!(error(&["plan", &config])["kind"], json!("config"));
    scratch.write("x.idx", idx(2, &[0; 4]));
    scratch.write("y.idx", idx(3, &[0; 6]));
    let message = error(&["plan", &scratch.write("loader.toml", DIGITS)])["message"].to_string();
    assert!(message.contains("[2, 3]"), "{message}");
    assert_eq!(error(&["plan", &scratch.path("none.toml")])["kind"], json!("not_found"));
}

/// Whether the process has a handler of its own for SIGINT.
#[cfg(target_os = "linux")]
fn handles_interrupts(process: u32) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap();
    let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:")).unwrap();
    u64::from_str_radix(caught.trim(), 16).unwrap() & 0b10 != 0
}

#[cfg(target_os = "linux")]
#[test]
fn an_interrupted_run_reports_what_it_found() {
    let scratch = Scratch::new();
    // Sparse: it takes no room, and more time than anybody has.
    let huge = scratch.write("huge.bin", "");
    std::fs::File::options().write(true).open(&huge).unwrap().set_len(1 << 42).unwrap();
    for as_json in [true, false] {
        let args = ["verify", &huge, "--stored", "u8", "--json"];
        let mut verify = command(&args[..args.len() - usize::from(!as_json)]);
        let mut verify = verify.stdout(Stdio::piped()).spawn().unwrap();
        while !handles_interrupts(verify.id()) && verify.try_wait().unwrap().is_none() {
            std::thread::yield_now();
        }
        let sent = std::process::Command::new("kill").args(["-INT", &verify.id().to_string()]).status().unwrap();
        assert!(sent.success());
        let output = verify.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(130), "{output:?}");
        if as_json {
            let report: Value = serde_json::from_slice(&output.stdout).unwrap();
            assert_eq!((&report["ended_by"]["kind"], &report["ok"]), (&json!("interrupted"), &json!(false)));
            assert!(report["samples"].as_u64().unwrap() > 0, "{report}");
        } else {
            let text = String::from_utf8(output.stdout).unwrap();
            assert!(text.contains("samples read, none bad") && text.contains("stopped before the end"), "{text}");
        }
    }
}
