//! A program of a user's own has the whole command, for data in the user's own formats: this one is such a program
//! itself.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "../../tests/common/pairs.rs"]
mod pairs;
#[path = "../../tests/common/watchdog.rs"]
mod watchdog;

use std::path::Path;
use std::process::{Command, ExitCode, Stdio};

use pairs::PairFormat;
use ringfeed::formats::Formats;
use serde_json::{Value, json};

/// Says that this is to be the program of the user's own, and not the test.
const AS_COMMAND: &str = "RINGFEED_TEST_AS_COMMAND";

fn main() -> ExitCode {
    if std::env::var_os(AS_COMMAND).is_some() {
        return ringfeed_cli::run_with(std::env::args_os(), &Formats::new().with(PairFormat)).into();
    }
    every_subcommand_knows_the_format();
    println!("every_subcommand_knows_the_format: ok");
    ExitCode::SUCCESS
}

/// What the program prints as JSON.
fn object(args: &[&str], status: i32) -> Value {
    watchdog::watch();
    let mut command = Command::new(std::env::current_exe().unwrap());
    let output = command.args(args).arg("--json").env(AS_COMMAND, "1").stdin(Stdio::null()).output().unwrap();
    assert_eq!(output.status.code(), Some(status), "{args:?}: {output:?}");
    serde_json::from_slice(&output.stdout).unwrap()
}

fn every_subcommand_knows_the_format() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let (path, settings) = (at("train.pairs"), at("loader.toml"));
    let pairs: String = (0..60).map(|i| format!("{}={}\n", ["ant", "bee", "cat"][i % 3], 7 * i)).collect();
    std::fs::write(&path, pairs).unwrap();
    let fields = "[fields]\nvalue = { numbers = \"i64\" }\nname = \"class\"\n";
    let config = "batch_size = 8\n[source]\nformat = \"pairs\"\npath = \"train.pairs\"\noptions = { base = 10 }\n";
    std::fs::write(&settings, format!("{config}{fields}")).unwrap();

    let found = object(&["inspect", &path], 0);
    assert_eq!(
        [&found["format"], &found["records"], &found["fields"][1]["max"], &found["details"]["base"]],
        [&json!("pairs"), &json!(60), &json!(413), &json!("10")]
    );
    let shown = Command::new(std::env::current_exe().unwrap()).args(["inspect", &path]).env(AS_COMMAND, "1").output();
    assert!(String::from_utf8(shown.unwrap().stdout).unwrap().contains("\nbase: 10\n"));
    let in_16 = at("in_16.toml");
    std::fs::write(&in_16, config.replace("base = 10", "base = 16")).unwrap();
    for typed in [&["inspect", "--config", &in_16][..], &["inspect", "--config", &in_16, &path]] {
        let found = object(typed, 0);
        assert_eq!([&found["records"], &found["details"]["base"]], [&json!(60), &json!("16")]);
    }
    let mapped =
        "source = { format = \"raw\", path = \"train.pairs\", options = { stored = \"u8\", access = \"map\" } }\n";
    std::fs::write(at("mapped.toml"), mapped).unwrap();
    assert_eq!(object(&["inspect", "--config", &at("mapped.toml")], 0)["format"], json!("raw"));
    let both = [config, "[[sources]]\nformat = \"pairs\"\npath = \"train.pairs\"\n"].concat();
    std::fs::write(at("both.toml"), both.replace("[source]", "[[sources]]")).unwrap();
    let refused = object(&["inspect", "--config", &at("both.toml")], 1)["error"]["message"].to_string();
    assert!(refused.contains("names 2 sources; one is inspected at a time"), "{refused}");
    let help = Command::new(std::env::current_exe().unwrap()).arg("--help").env(AS_COMMAND, "1").output().unwrap();
    assert!(String::from_utf8(help.stdout).unwrap().contains("Formats: pairs, "));
    for typed in [&["verify", &path][..], &["verify", "--config", &settings]] {
        let found = object(typed, 0);
        assert_eq!([&found["format"], &found["samples"], &found["ok"]], [&json!("pairs"), &json!(60), &json!(true)]);
    }
    for given in [&path, &settings] {
        let found = object(&["plan", given], 0);
        assert_eq!([&found["samples"], &found["sources"][0]["format"]], [&json!(60), &json!("pairs")]);
    }
    for typed in [&["bench", &path][..], &["bench", "--config", &settings]] {
        assert_eq!(object(&[typed, &["--epochs", "1", "--warmup-epochs", "0"]].concat(), 0)["samples"], json!(60));
    }
    let source = at("source.toml");
    std::fs::write(&source, config.replace("batch_size = 8\n", "")).unwrap();
    for (out, more) in [("shards", &[][..]), ("more", &["--config", &source][..])] {
        let found = object(&[&["pack", &path, &at(out)], more].concat(), 0);
        assert_eq!(found["manifest"]["records"], json!(60));
    }
    let recipe = "[prepare.columns]\nvalue = { number = { scale = \"standardise\" } }\n";
    for source in [config, "source = \"train.pairs\"\n"] {
        std::fs::write(at("fit.toml"), format!("prepared = \"prepared.json\"\n{source}{recipe}")).unwrap();
        assert_eq!(object(&["fit", &at("fit.toml")], 0)["records"], json!(60));
        assert!(Path::new(&at("prepared.json")).exists());
    }
    // The program that Ringfeed brings along does not know it.
    let output = Command::new(env!("CARGO_BIN_EXE_ringfeed")).args(["plan", &settings]).output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    assert!(String::from_utf8_lossy(&output.stderr).contains("\"pairs\" is not allowed"), "{output:?}");
}
