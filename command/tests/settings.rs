//! What the command reads and writes beside data: settings, reports, traces, fitted recipes.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use std::path::PathBuf;
use std::process::Output;

use common::{command, fixture, object, run};
use ringfeed::{Loader, LoaderConfig};
use serde_json::{Value, json};

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

    fn copy(&self, fixed: &str, name: &str) -> String {
        self.write(name, std::fs::read(fixture(fixed)).unwrap())
    }
}

fn bench(args: &[&str]) -> Value {
    object(&[&["bench", "--json", "--warmup-epochs", "0"], args].concat(), 0)
}

fn refused(args: &[&str], why: &str) -> Value {
    let error = object(&[args, &["--json"]].concat(), 1)["error"].clone();
    assert!(error["message"].as_str().unwrap().contains(why), "{args:?}: {error}");
    error
}

const READ: &str = "read by the same command";

/// The number of batches that settings give, which another program has written.
fn loaded(settings: &str) -> usize {
    Loader::from(LoaderConfig::load(settings).unwrap()).build().unwrap().inspect(|batch| assert!(batch.is_ok())).count()
}

#[test]
fn no_file_of_a_pattern_or_a_folder_is_written_over() {
    let scratch = Scratch::new();
    let (a, _) = (scratch.write("data/a.csv", "x\n1\n"), scratch.write("data/b.csv", "x\n2\n"));
    refused(&["bench", &scratch.path("data/*.csv"), "--trace", &a], READ);
    refused(&["bench", &scratch.path("data"), "--write-settings", &a], READ);
    let day = scratch.write("logs/day1.json", "{\"x\": 1}\n{\"x\": 2}\n");
    scratch.write("logs/day2.jsonl", "{\"x\": 3}\n");
    refused(&["bench", &scratch.path("logs/*"), "--report", &day], READ);
    let photo = scratch.copy("photos/china.jpg", "photos/place/1.jpg");
    refused(&["bench", &scratch.path("photos"), "--size", "8", "--trace", &photo], READ);
    // What lies beside the data may be written again and again.
    for _ in 0..2 {
        let report = scratch.path("photos/report.html");
        bench(&[&scratch.path("photos"), "--size", "8", "--report", &report]);
        assert!(PathBuf::from(report).exists());
    }
    assert_eq!(std::fs::read_to_string(&a).unwrap(), "x\n1\n");
    // What an index does not name counts as well.
    scratch.write("mds/index.json", "{\"shards\": [{\"column_encodings\": []}]}");
    let page = scratch.path("mds/page.html");
    refused(&["bench", &scratch.path("mds"), "--report", &page], "in a folder that is read as a whole");
}

#[test]
fn no_file_that_would_be_data_is_made() {
    let scratch = Scratch::new();
    scratch.write("logs/day1.json", "{\"x\": 1}\n");
    let (logs, new) = (scratch.path("logs/*"), scratch.path("logs/run.json"));
    let traced = scratch.write("traced.toml", "trace = \"logs/run.json\"\nsource = \"logs/*\"\n");
    refused(&["bench", &logs, "--trace", &new], "would be read by the same command");
    refused(&["bench", &logs, "--report", &new], "would be read by the same command");
    refused(&["bench", "--config", &traced], "trace: ");
    assert_eq!(std::fs::read_dir(scratch.path("logs")).unwrap().count(), 1);
}

#[cfg(unix)]
#[test]
fn no_link_to_data_is_written_over() {
    use std::os::unix::fs::symlink;
    let scratch = Scratch::new();
    scratch.copy("photos/china.jpg", "blobs/3f9c");
    scratch.copy("photos/china.jpg", "other/2.jpg");
    std::fs::create_dir_all(scratch.path("photos/place")).unwrap();
    symlink(scratch.path("blobs/3f9c"), scratch.path("photos/place/1.jpg")).unwrap();
    symlink(scratch.path("other"), scratch.path("photos/other")).unwrap();
    for photo in ["photos/place/1.jpg", "photos/other/2.jpg", "photos/place/../other/2.jpg"] {
        refused(&["bench", &scratch.path("photos"), "--size", "8", "--trace", &scratch.path(photo)], READ);
    }
    assert!(std::fs::symlink_metadata(scratch.path("photos/place/1.jpg")).unwrap().is_symlink());
    bench(&[&scratch.path("photos"), "--size", "8", "--trace", &scratch.path("photos/../new.jpg")]);
}

#[test]
fn no_file_that_settings_name_is_written_over() {
    let scratch = Scratch::new();
    scratch.write("data.csv", "x,city\n1,a\n2,b\n");
    let joined = scratch.write("cities.csv", "city,size\na,1\nb,2\n");
    let recipe = "[source]\npath = \"data.csv\"\n[prepare.join]\n\
                  cities = { table = \"cities.csv\", on = \"city\", key = \"city\" }\n[prepare.columns]\nx = \"number\"\n";
    let fit = scratch.write("fit.toml", format!("prepared = \"cities.csv\"\n{recipe}"));
    refused(&["fit", &fit], READ);
    let fit = scratch.write(
        "fit.toml",
        "prepared = \"prepared.json\"\n[source]\npath = \"data.csv\"\n[prepare.columns]\nx = \"number\"\n",
    );
    object(&["fit", &fit, "--json"], 0);
    refused(&["bench", "--config", &fit, "--write-settings", &scratch.path("prepared.json")], READ);
    refused(&["bench", "--config", &fit, "--write-settings", &fit], READ);
    let same = scratch.path("same.json");
    refused(&["bench", "--config", &fit, "--report", &same, "--trace", &same], "two outputs");
    let traced = scratch.write("traced.toml", "trace = \"data.csv\"\nsource = \"data.csv\"\n");
    let error = refused(&["bench", "--config", &traced], "trace: ");
    assert_eq!((&error["path"], &error["line"]), (&json!(traced), &json!(1)));
    assert!(std::fs::read_to_string(&joined).unwrap().starts_with("city,size\n"));
    assert!(std::fs::read_to_string(scratch.path("data.csv")).unwrap().starts_with("x,city\n"));
    let own = scratch.write("own.toml", "trace = \"own.toml\"\nsource = \"data.csv\"\n[fields]\nx = \"f32\"\n");
    let error = refused(&["bench", "--config", &own], READ);
    assert_eq!((&error["path"], &error["line"]), (&json!(own), &json!(1)));
    // The trace of an earlier run is not data.
    let traced = scratch.write("traced.toml", "trace = \"trace.json\"\nsource = \"data.csv\"\n[fields]\nx = \"f32\"\n");
    for _ in 0..2 {
        assert_eq!(bench(&["--config", &traced])["samples"], json!(2));
    }
    refused(&["bench", "--config", &traced, "--report", &scratch.path("trace.json")], "two outputs");
}

#[test]
fn a_named_source_alone_is_mapped_by_every_command_that_reads_it() {
    let scratch = Scratch::new();
    scratch.copy("iris.csv", "iris.csv");
    let source = "[source]\nformat = \"csv\"\npath = \"iris.csv\"\noptions = { access = \"map\" }\n";
    let recipe = format!("prepared = \"prepared.json\"\n{source}[prepare.columns]\nvirginica = \"number\"\n");
    let (fit, settings) = (scratch.write("fit.toml", recipe), scratch.write("loader.toml", source));
    for args in [&["plan", &settings] as &[_], &["fit", &fit], &["bench", "--config", &settings]] {
        let Output { status, stderr, .. } = run(args);
        let said = String::from_utf8(stderr).unwrap();
        assert!(status.success() && said.contains("iris.csv is mapped, as the settings ask"), "{args:?}: {said}");
    }
    // Packing reads: each record comes once.
    let table = scratch.path("iris.csv");
    let output = run(&["pack", &table, &scratch.path("packed"), "--config", &settings]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn settings_with_fields_give_these_fields_and_no_others() {
    let scratch = Scratch::new();
    for photo in ["china.jpg", "rocket.jpg"] {
        scratch.copy(&format!("photos/{photo}"), &format!("photos/place/{photo}"));
    }
    let photos = scratch.path("photos");
    let fields =
        scratch.write("usual.toml", "[fields]\nimage = { image = [8, 8], dtype = \"u8\" }\nlabel = \"class\"\n");
    assert_eq!(bench(&[&photos, "--config", &fields])["bytes"], json!(2 * (3 * 8 * 8 + 8)));
    let photo = "[fields]\nphoto = { from = \"image\", image = [8, 8], dtype = \"u8\" }\n";
    let fields = scratch.write("photo.toml", photo);
    assert_eq!(bench(&[&photos, "--config", &fields])["bytes"], json!(2 * 3 * 8 * 8));
    assert_eq!(bench(&[&photos, "--config", &fields, "--size", "4"])["bytes"], json!(2 * 3 * 4 * 4));
}

#[test]
fn written_settings_can_be_loaded() {
    let scratch = Scratch::new();
    let photo = scratch.copy("photos/china.jpg", "flat/china.jpg");
    let classes = PathBuf::from(scratch.copy("photos/china.jpg", "classes/place/china.jpg"));
    let written = scratch.path("written.toml");
    for path in [&scratch.path("flat"), &photo, &scratch.path("classes")] {
        bench(&[path, "--size", "8", "--write-settings", &written]);
        assert_eq!(loaded(&written), 1, "{path}");
    }
    assert!(std::fs::read_to_string(&written).unwrap().contains("class") && classes.exists());

    for (more, is_said) in [(&[][..], true), (&["--size", "8"], false)] {
        let output = run(&[&["bench", &photo, "--write-settings", &written], more].concat());
        assert_eq!(String::from_utf8_lossy(&output.stderr).contains("images of 224 x 224"), is_said, "{output:?}");
    }
    let gaps = scratch.write("gaps.csv", "x,y\n1,0.5\n,1\n");
    bench(&[&gaps, "--write-settings", &written]);
    let text = std::fs::read_to_string(&written).unwrap();
    assert!(LoaderConfig::load(&written).is_ok() && !text.contains("nan"), "{text}");
    let error = object(&["bench", "--config", &written, "--json"], 1);
    assert!(error["error"]["message"].as_str().unwrap().contains("missing"), "{error}");

    scratch.write("data.csv", "x,y\n1,0\n2,1\n");
    let fit = "prepared = \"prepared.json\"\n[source]\npath = \"data.csv\"\n[fields]\ny = \"i64\"\n[prepare.columns]\nx = \"number\"\n";
    let fit = scratch.write("fit.toml", fit);
    object(&["fit", &fit, "--json"], 0);
    bench(&["--config", &fit, "--write-settings", &written]);
    assert_eq!(loaded(&written), 1);
}

#[test]
fn standard_input_has_no_name_in_what_is_written() {
    let (scratch, temporary) = (Scratch::new(), Scratch::new());
    let piped = |args: &[&str]| {
        let input = std::fs::File::open(fixture("iris.csv")).unwrap();
        command(&[&["bench", "-"], args].concat()).env("TMPDIR", temporary.path("")).stdin(input).output().unwrap()
    };
    let (report, page) = (scratch.path("report.json"), scratch.path("report.html"));
    for file in [&report, &page] {
        assert!(piped(&["--report", file]).status.success());
        let text = std::fs::read_to_string(file).unwrap();
        assert!(text.contains("standard input") && !text.contains(&temporary.path("")), "{text}");
    }
    let report: Value = serde_json::from_str(&std::fs::read_to_string(report).unwrap()).unwrap();
    assert_eq!(report["about"]["path"], json!("standard input"));
    let settings = scratch.path("settings.toml");
    let output = piped(&["--write-settings", &settings, "--json"]);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    assert!(String::from_utf8(output.stdout).unwrap().contains("save it to a file"));
    assert!(!PathBuf::from(settings).exists());
}

#[cfg(target_os = "linux")]
#[test]
fn a_plan_of_files_whose_names_are_no_text_is_the_same_as_of_others() {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;
    let scratch = Scratch::new();
    let folder = scratch.0.path().join(OsStr::from_bytes(b"f\xff"));
    std::fs::create_dir(&folder).unwrap();
    std::fs::write(folder.join("data.csv"), "x\n1\n").unwrap();
    std::fs::write(folder.join("loader.toml"), "mix = { \"data.csv\" = 1.0 }\nshuffle = 1\n[fields]\nx = \"f32\"\n")
        .unwrap();
    for name in ["data.csv", "loader.toml"] {
        let output = command(&["plan", "--json"]).arg(folder.join(name)).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        let plan: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(
            (&plan["samples"], plan["steps"].get("mix").is_some()),
            (&json!(1), name == "loader.toml"),
            "{plan}"
        );
        assert!(plan["sources"][0]["path"].as_str().unwrap().ends_with("f\u{fffd}/data.csv"), "{plan}");
        let text = command(&["plan"]).arg(folder.join(name)).output().unwrap().stdout;
        assert!(!String::from_utf8(text).unwrap().contains("null"));
    }
}

#[test]
fn a_name_that_the_data_does_not_have_comes_with_its_setting() {
    let scratch = Scratch::new();
    scratch.write("x.csv", "a,species\n1,x\n2,y\n");
    scratch.write("x.jsonl", "{\"a\": 1, \"species\": \"x\"}\n");
    let told = |settings: &str| {
        let file = scratch.write("loader.toml", settings);
        let commands = [vec!["plan", &*file], vec!["bench", "--config", &*file], vec!["verify", "--config", &*file]];
        commands.map(|args| {
            let error = object(&[&args[..], &["--json"]].concat(), 1)["error"].clone();
            assert_eq!(error["kind"], json!("not_found"), "{error}");
            error["message"].as_str().unwrap().replace(scratch.0.path().to_str().unwrap(), "")
        })
    };
    let label = "[fields]\nlabel = { from = \"specie\", class = [] }\n";
    for (kind, what) in [("csv", "column"), ("jsonl", "field")] {
        let meant = format!("no {what} \"specie\"; did you mean \"species\"? (line");
        for message in told(&format!("source = \"x.{kind}\"\n{label}")) {
            assert_eq!(message, format!("fields.label: {meant} 3 of /loader.toml)"));
        }
        for message in
            told(&format!("[[sources]]\nformat = \"{kind}\"\npath = \"x.{kind}\"\nfields.specie = \"class\"\n"))
        {
            assert_eq!(message, format!("sources[0].fields.specie: {meant} 4 of /loader.toml)"));
        }
    }
    let message = Loader::csv(scratch.path("x.csv"))
        .field("x", ringfeed::field::Numbers::of(ringfeed::DType::F32).from("b"))
        .build()
        .err()
        .unwrap();
    assert!(message.to_string().contains("fields.x: no column \"b\"; there are "), "{message}");
}

#[cfg(target_os = "linux")]
#[test]
fn settings_that_could_not_be_written_are_refused_before_the_run() {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;
    let scratch = Scratch::new();
    let data = scratch.0.path().join(OsStr::from_bytes(b"f\xff.csv"));
    std::fs::write(&data, "x\n1\n").unwrap();
    let (settings, trace) = (scratch.path("loader.toml"), scratch.path("trace.json"));
    let args = ["--json", "--write-settings", &settings, "--trace", &trace];
    let output = command(&["bench"]).arg(&data).args(args).output().unwrap();
    let error: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!(error["error"]["message"].as_str().unwrap().contains("is not UTF-8; rename"), "{error}");
    assert_eq!(error["error"]["path"], json!(settings));
    assert_eq!(std::fs::read_dir(scratch.path("")).unwrap().count(), 1, "nothing was begun");
}

#[test]
fn a_mix_of_paths_is_looked_for_in_the_folder_that_is_given() {
    let (scratch, data) = (Scratch::new(), Scratch::new());
    data.write("a.csv", "x\n1\n2\n");
    data.write("b.csv", "x\n3\n4\n");
    let mix = "shuffle = 1\nmix = { \"a.csv\" = 0.5, \"b.csv\" = 0.5 }\n[fields]\nx = \"f32\"\n";
    let config = scratch.write("mix.toml", mix);
    assert_eq!(bench(&[&data.path(""), "--config", &config])["samples"], json!(4));
    assert_eq!(object(&["verify", &data.path(""), "--config", &config, "--json"], 0)["samples"], json!(4));
    refused(&["bench", &data.path("a.csv"), "--config", &config], "only be the folder");
}

#[test]
fn what_is_looked_for_in_a_folder_is_no_pattern_with_files_and_no_file_twice() {
    let (scratch, data) = (Scratch::new(), Scratch::new());
    scratch.write("here/a1.csv", "x\n1\n2\n");
    data.write("b.csv", "x\n3\n4\n");
    let mix = |paths: [&str; 2]| {
        let [one, other] = paths;
        let text = format!("shuffle = 1\nmix = {{ \"{one}\" = 0.5, \"{other}\" = 0.5 }}\n[fields]\nx = \"f32\"\n");
        scratch.write("mix.toml", text)
    };
    assert_eq!(bench(&[&data.path(""), "--config", &mix(["here/a*.csv", "b.csv"])])["samples"], json!(4));
    let error = refused(&["bench", &data.path(""), "--config", &mix(["x/b.csv", "y/b.csv"])], "both be this one");
    let said = error["message"].as_str().unwrap();
    assert!(said.contains(&scratch.path("x/b.csv")) && said.contains(&scratch.path("y/b.csv")), "{error}");
    let source =
        "[[sources]]\nformat = \"csv\"\npath = \"b.csv\"\nfields = { NAME = { from = \"x\", numbers = \"f32\" } }\n";
    let twice = scratch.write("twice.toml", source.replace("NAME", "x") + &source.replace("NAME", "y"));
    assert_eq!(bench(&[&data.path(""), "--config", &twice])["samples"], json!(2));
}

#[test]
fn a_type_for_arrays_is_refused_where_settings_have_fields() {
    let scratch = Scratch::new();
    let path = scratch.write("digits.idx", [0, 0, 8, 1, 0, 0, 0, 2, 7, 9]);
    let fields = scratch.write("fields.toml", "[fields]\nx = { from = \"features\", numbers = \"u8\" }\n");
    let named = "[[sources]]\nformat = \"idx\"\npath = \"digits.idx\"\n";
    let plain = scratch.write("plain.toml", named);
    let named =
        scratch.write("named.toml", format!("{named}fields = {{ x = {{ from = \"features\", numbers = \"u8\" }} }}\n"));
    for args in [&[&*path, "--config", &fields] as &[_], &["--config", &named]] {
        assert_eq!(bench(args)["bytes"], json!(2));
        refused(&[&["bench"], args, &["--dtype", "f32"]].concat(), "chooses the types of tensors");
    }
    assert_eq!(bench(&["--config", &plain, "--dtype", "f32"])["bytes"], json!(8));
}

#[test]
fn a_plan_of_json_is_of_settings_or_of_data() {
    let scratch = Scratch::new();
    let events = scratch.write("events.json", "{\"x\": 1}\n{\"x\": 2}\n{\"x\": 3}\n");
    assert_eq!(object(&["plan", &events, "--json"], 0)["samples"], json!(3));
    scratch.write("logs/1.json", "\u{feff}{\"x\": 1}\n{\"x\": 2}\n");
    let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    std::io::Write::write_all(&mut packed, b"{\"x\": 3}\n{\"x\": 4}\n{\"x\": 5}\n").unwrap();
    scratch.write("packed/2.json", packed.finish().unwrap());
    for (path, samples) in [("logs/1.json", 2), ("packed/2.json", 3), ("*/*.json", 5)] {
        assert_eq!(bench(&[&scratch.path(path)])["samples"], json!(samples), "{path}");
        let plan = object(&["plan", &scratch.path(path), "--json"], 0);
        assert_eq!(plan["sources"][0]["format"], json!("jsonl"), "{path}");
        assert!(plan["samples"].is_null() || plan["samples"] == json!(samples), "{path}: {plan}");
    }
    let iris = fixture("iris.csv");
    let settings = scratch.write("loader.json", format!("\u{feff}{{\"source\": {iris:?}, \"batch_size\": 50}}"));
    assert_eq!(object(&["plan", &settings, "--json"], 0)["batches_per_epoch"], json!(3));
    let wrong = scratch.write("wrong.json", format!("{{\"source\": {iris:?}, \"batchsize\": 50}}\n"));
    refused(&["plan", &wrong], "did you mean \"batch_size\"?");
    let cut = scratch.write("cut.json", format!("{{\n\"source\": {iris:?},\n\"batch_size\": 50"));
    refused(&["plan", &cut], "is not JSON");
    let cut = scratch.write("cut.json", format!("{{\"source\": {iris:?}, \"batch_size\""));
    refused(&["plan", &cut], "is not JSON");
}

#[test]
fn a_plan_says_why_it_does_not_know_which_samples_are_taken() {
    let scratch = Scratch::new();
    let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    std::io::Write::write_all(&mut packed, b"a,b\n1,2\n").unwrap();
    scratch.write("t.csv.gz", packed.finish().unwrap());
    let source = "[[sources]]\nformat = \"csv\"\npath = \"t.csv.gz\"\n";
    for (setting, is_split) in [("filter = \"a > 0\"\n", false), ("split = { train = 0.5, part = \"train\" }\n", true)]
    {
        let config = scratch.write("loader.toml", format!("{setting}{source}"));
        let unknown = object(&["plan", &config, "--json"], 0)["unknown"].to_string();
        assert_eq!(unknown.contains("a split needs the names"), is_split, "{unknown}");
        assert_eq!(unknown.contains("which of them are taken"), !is_split, "{unknown}");
    }
}

#[test]
fn advice_on_files_of_our_own_is_not_that_on_tables() {
    let scratch = Scratch::new();
    scratch.write("data.csv", "x\n1\n2\n");
    let source = "[source]\npath = \"data.csv\"\n[fields]\nx = \"f32\"\n";
    scratch.write("scale.json", "{}");
    let settings = scratch.write("scaled.toml", format!("{source}[normalise]\nx = \"scale.json\"\n"));
    let fit =
        scratch.write("fit.toml", format!("prepared = \"prepared.json\"\n{source}[prepare.columns]\nx = \"number\"\n"));
    object(&["fit", &fit, "--json"], 0);
    let prepared = std::fs::read_to_string(scratch.path("prepared.json")).unwrap();
    scratch.write("prepared.json", &prepared[..prepared.len() / 2]);
    for config in [&settings, &fit] {
        let output = run(&["bench", "--config", config]);
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "{said}");
        assert!(!said.contains("--skip-bad"), "{said}");
    }
}
