//! `ringfeed pack`: what is packed is read as its source is, and a run that was killed goes on.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Stdio;

use common::{command, fixture, object, run};
use serde_json::json;

/// The files of a folder, by their names.
fn files(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap());
    entries.map(|entry| (entry.file_name().into_string().unwrap(), std::fs::read(entry.path()).unwrap())).collect()
}

/// Lines that make several shards of a MiB.
fn many_lines(path: &Path, count: usize) {
    let line = |n: usize| json!({ "n": n, "text": format!("{n} ").repeat(300) }).to_string() + "\n";
    std::fs::write(path, (0..count).map(line).collect::<String>()).unwrap();
}

#[test]
fn a_table_is_packed_with_a_manifest() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("out");
    let (path, out_text) = (fixture("iris-species.csv"), out.to_str().unwrap().to_owned());
    let report = object(&["pack", &path, &out_text, "--json"], 0);
    assert_eq!((&report["ok"], &report["manifest"]["records"]), (&json!(true), &json!(150)));
    assert_eq!(report["manifest"]["fields"][4], json!({ "name": "species", "kind": "text", "shape": [] }));
    let written: serde_json::Value = serde_json::from_slice(&files(&out)["_manifest.json"]).unwrap();
    assert_eq!(written, report["manifest"]);
    let bytes = &files(&out)["shard-000000.tar"];
    assert_eq!(written["shards"][0]["bytes"], json!(bytes.len()));
    // Once more: nothing is done, and the same is said.
    assert_eq!(object(&["pack", &path, &out_text, "--json"], 0)["manifest"], written);
    let error = object(&["pack", &path, &out_text, "--fields", "species", "--json"], 1);
    assert!(error["error"]["message"].as_str().unwrap().contains("something else was packed here"), "{error}");
    let file = folder.path().join("file");
    std::fs::write(&file, "").unwrap();
    let error = object(&["pack", &path, file.to_str().unwrap(), "--json"], 1);
    assert!(error["error"]["message"].as_str().unwrap().contains("is a file; name a folder"), "{error}");
    let shown = String::from_utf8(run(&["pack", &path, &out_text]).stdout).unwrap();
    assert!(shown.contains("150 records in 1 shard"), "{shown}");
    let tables = folder.path().join("tables").to_str().unwrap().to_owned();
    object(&["pack", &path, &tables, "--parquet", "--json"], 0);
    assert_eq!(object(&["verify", &tables, "--json"], 0)["samples"], json!(150));
    assert_eq!(object(&["inspect", &tables, "--json"], 0)["records"], json!(150));
}

#[test]
fn records_that_are_left_out_are_listed() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let path = at("lines.jsonl");
    std::fs::write(&path, "{\"a\": 1}\n{\"a\": }\n{\"a\": 3}\n").unwrap();
    let report = object(&["pack", &path, &at("1"), "--skip-bad", "--json"], 0);
    let [bad] = report["bad"].as_array().unwrap().as_slice() else { panic!("{report}") };
    assert_eq!((&bad["kind"], &bad["record"], &bad["line"]), (&json!("data"), &json!(1), &json!(2)));
    assert!(bad["path"] == json!(path) && bad["message"].is_string(), "{bad}");
    let shown = String::from_utf8(run(&["pack", &path, &at("2"), "--skip-bad"]).stdout).unwrap();
    assert!(shown.contains("1 bad record left out") && shown.contains("lines.jsonl:2: record 1"), "{shown}");
}

#[test]
fn settings_say_the_format_of_what_is_packed() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    std::fs::write(at("a.txt"), "one\ntwo\n").unwrap();
    std::fs::write(at("source.toml"), "[source]\nformat = \"text\"\npath = \"other.txt\"\n").unwrap();
    let report = object(&["pack", &at("a.txt"), &at("out"), "--config", &at("source.toml"), "--json"], 0);
    assert_eq!(report["manifest"]["records"], json!(2));
    // Without a format it is that of PATH, and not of what the settings name.
    std::fs::write(at("plain.toml"), "source = \"missing.csv\"\n").unwrap();
    std::fs::write(at("b.jsonl"), "{\"n\": 1}\n").unwrap();
    let plain = object(&["pack", &at("b.jsonl"), &at("plain"), "--config", &at("plain.toml"), "--json"], 0);
    assert_eq!(plain["manifest"]["fields"], json!([{ "name": "n", "kind": "i64", "shape": [] }]));
    assert_eq!(report["manifest"]["fields"], json!([{ "name": "line", "kind": "text", "shape": [] }]));
}

#[test]
fn settings_that_pack_does_not_heed_are_refused_by_name() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    std::fs::write(at("zips.csv"), "zip,n\n501,1\nNA,2\n").unwrap();
    for (settings, name) in [
        ("filter = \"n > 1\"\n[source]\npath = \"x\"\nformat = \"csv\"\n", "filter"),
        ("bucket = { by = \"n\", bounds = [1] }\n[source]\npath = \"x\"\nformat = \"csv\"\n", "bucket"),
        ("group = \"zip\"\n[source]\npath = \"x\"\nformat = \"csv\"\n", "group"),
        ("[source]\npath = \"x\"\nformat = \"csv\"\n[normalise]\nn = \"image_scale\"\n", "normalise"),
        ("[source]\npath = \"x\"\nformat = \"csv\"\n[[transforms]]\nkind = \"log1p\"\ntensor = \"n\"\n", "transforms"),
        ("shuffle = 3\n[source]\npath = \"x\"\nformat = \"csv\"\n", "shuffle"),
        ("[source]\npath = \"x\"\nformat = \"csv\"\n[fields]\nzip = { text = 5 }\n", "fields"),
    ] {
        std::fs::write(at("source.toml"), settings).unwrap();
        let error = object(&["pack", &at("zips.csv"), &at("out"), "--config", &at("source.toml"), "--json"], 1);
        let message = error["error"]["message"].as_str().unwrap();
        assert!(message.starts_with(&format!("{name}: pack uses only")), "{message}");
    }
    // What is asked of the columns has words of its own.
    let source = "[source]\npath = \"x\"\nformat = \"csv\"\noptions = { missing_tokens = [] }\n";
    std::fs::write(at("source.toml"), source).unwrap();
    let args = ["pack", &at("zips.csv"), &at("out"), "--config", &at("source.toml"), "--text", "n", "--json"];
    let report = object(&args, 0);
    let kinds: Vec<&str> =
        report["manifest"]["fields"].as_array().unwrap().iter().map(|field| field["kind"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["text", "text"]);
    let error = object(&["pack", &at("zips.csv"), &at("out"), "--skip-fields", "n", "--json"], 1);
    assert!(error["error"]["message"].as_str().unwrap().contains("--restart"), "{error}");
    let report = object(&["pack", &at("zips.csv"), &at("out"), "--skip-fields", "n", "--restart", "--json"], 0);
    assert_eq!(report["manifest"]["fields"], json!([{ "name": "zip", "kind": "i64", "shape": [] }]));
}

#[test]
fn a_run_that_is_killed_goes_on_and_never_touches_finished_shards() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    many_lines(&at("lines.jsonl"), 5000);
    let path = at("lines.jsonl").to_str().unwrap().to_owned();
    let whole = at("whole");
    let args = |out: &Path| ["pack", &path, out.to_str().unwrap(), "--shard-mib", "1"].map(str::to_owned);
    let run_in = |out: &Path| run(&args(out).each_ref().map(String::as_str)).status.success();
    assert!(run_in(&whole));
    let wanted = files(&whole);
    assert!(wanted.len() > 8, "{}", wanted.len());
    for shards in [0, 2, 5] {
        let out = at(&format!("killed-{shards}"));
        let mut child = command(&args(&out).each_ref().map(String::as_str)).stdout(Stdio::null()).spawn().unwrap();
        // Killed as soon as so many shards are there, or at once; or it was faster than that.
        let finished = || {
            let names = std::fs::read_dir(&out).map(|entries| entries.filter_map(Result::ok).collect::<Vec<_>>());
            names
                .unwrap_or_default()
                .iter()
                .filter(|entry| entry.file_name().to_string_lossy().starts_with("shard-"))
                .count()
        };
        while finished() < shards && child.try_wait().unwrap().is_none() {
            std::thread::yield_now();
        }
        child.kill().unwrap();
        child.wait().unwrap();
        let times = || -> BTreeMap<_, _> {
            let entries = std::fs::read_dir(&out).into_iter().flatten().map(Result::unwrap);
            let shards = entries.filter(|entry| entry.file_name().to_string_lossy().starts_with("shard-"));
            shards.map(|entry| (entry.file_name(), entry.metadata().unwrap().modified().unwrap())).collect()
        };
        let before = times();
        assert!(run_in(&out));
        assert_eq!(files(&out), wanted);
        let after = times();
        assert!(before.iter().all(|(name, time)| after[name] == *time), "finished shards stay as they are");
    }
}
