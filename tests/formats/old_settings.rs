//! Settings of earlier versions defined in options of a format what fields define now. Their errors say what to write,
//! and what they are told can be loaded.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::{Path, PathBuf};

use ringfeed::audio::{AudioCrop, AudioOptions};
use ringfeed::field::{Audio, Class, Field, Numbers};
use ringfeed::{DType, Loader, LoaderConfig};

/// What settings of a source of this format and these options are told, with the line of what is wrong.
fn told(format: &str, options: &str) -> (String, u64) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("loader.toml");
    std::fs::write(&path, format!("[source]\nformat = {format:?}\npath = \"x\"\n[source.options]\n{options}\n"))
        .unwrap();
    let error = LoaderConfig::load(&path).unwrap_err();
    (error.message().to_owned(), error.location().line.unwrap())
}

/// Options of today, with what earlier ones are told to write, as fields.
fn loaded(format: &str, options: &str, message: &str) -> Vec<(String, Field)> {
    let (_, fields) = message.split_once("write beside the path: ").unwrap_or_else(|| panic!("{message}"));
    let text = format!("source = {{ format = {format:?}, path = \"x\", options = {{ {options} }} }}\n{fields}\n");
    toml::from_str::<LoaderConfig>(&text).unwrap_or_else(|error| panic!("{text}{error}")).fields
}

fn fields(fields: impl IntoIterator<Item = (&'static str, Field)>) -> Vec<(String, Field)> {
    fields.into_iter().map(|(name, field)| (name.to_owned(), field)).collect()
}

#[test]
fn of_sounds() {
    let (message, line) =
        told("audio", "saved_index = \"beside\"\nrate = 8000\nlength = 800\ncrop = \"random\"\ndtype = \"f16\"");
    assert!(
        message.contains("\"rate\" is no longer an option, because fields define") && line >= 4,
        "{line}: {message}"
    );
    let audio = AudioOptions {
        rate: Some(8000),
        length: Some(800),
        crop: Some(AudioCrop::Random),
        dtype: DType::F16,
        ..AudioOptions::default()
    };
    let expected = fields([("audio", Audio::with(audio).into()), ("label", Class.into())]);
    assert_eq!(loaded("audio", "saved_index = \"beside\"", &message), expected);
    let (message, _) = told("audio", "classes = [\"no\", \"yes\"]\nchannels = 2");
    let audio = Audio::with(AudioOptions { channels: Some(2), ..AudioOptions::default() });
    let expected = fields([("audio", audio.into()), ("label", Class::of(["no", "yes"]).into())]);
    assert_eq!(loaded("audio", "", &message), expected);
    // What was wrong with them before is what is said.
    assert!(told("audio", "rate = \"high\"").0.contains("expected a whole number"));
}

#[test]
fn of_tokens() {
    let window = "window = 16, cut = { documents = { end = 0 } }";
    let (message, _) = told("tokens", "window = 16\ncut = { documents = { end = 0 } }\ndtype = \"u16\"");
    let numbers = |dtype| -> Field { Numbers::of(dtype).into() };
    let expected = fields([
        ("inputs", numbers(DType::U16)),
        ("targets", numbers(DType::U16)),
        ("segments", numbers(DType::I32)),
        ("positions", numbers(DType::I32)),
    ]);
    assert_eq!(loaded("tokens", window, &message), expected);
    let (message, _) = told("text_tokens", "tokenizer = \"t.json\"\nwindow = 16\ntargets = \"none\"\ndtype = \"i32\"");
    let expected = fields([("tokens", numbers(DType::I32))]);
    assert_eq!(loaded("text_tokens", "tokenizer = \"t.json\", window = 16, targets = \"none\"", &message), expected);
}

#[test]
fn of_sequences() {
    let (message, _) = told("csv_sequences", "label = \"last\"\n[source.options.csv]\nlabels = [\"y\"]");
    let expected = fields([("features", Numbers::f32().from("*")), ("labels", Class.from("y"))]);
    assert_eq!(loaded("csv_sequences", "label = \"last\"", &message), expected);
}

/// Settings files of the first version, format by format. What they are told to write is in the file of the same name in
/// `now`, which loads.
#[test]
fn files_of_the_first_version_are_told_what_to_write() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/settings");
    let names = |folder: &Path| -> Vec<PathBuf> {
        let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
        let mut files: Vec<_> = entries.filter(|path| path.extension().is_some()).collect();
        files.sort();
        files
    };
    let told = names(&folder);
    assert_eq!(told.len(), names(&folder.join("now")).len());
    for path in told {
        crate::common::watchdog::watch();
        let name = path.file_name().unwrap();
        let now = folder.join("now").join(name);
        let error = LoaderConfig::load(&path).unwrap_err();
        assert!(error.location().line.is_some(), "{error}");
        let text = std::fs::read_to_string(&now).unwrap();
        let (advice, written) = match error.message().split_once("write beside the path: ") {
            Some((_, fields)) => (fields, fields.to_owned()),
            None => {
                let (_, option) = error.message().split_once("write options = { ").unwrap_or_else(|| panic!("{error}"));
                let key = option.trim_end_matches("... }");
                (option, format!("options = {{ {key}"))
            }
        };
        assert!(text.contains(&written), "{}: {advice}", now.display());
        let loader = Loader::from(LoaderConfig::load(&now).unwrap_or_else(|error| panic!("{error}")));
        if !cfg!(feature = "images") && text.contains("image") {
            continue;
        }
        assert_eq!(loader.faults(), Vec::<String>::new(), "{}", now.display());
        // The pictures there have no classes, and those files are no folder of sequences.
        let is_there = !["images.toml", "images_augmented.toml", "sequences.toml"].iter().any(|other| *name == **other);
        if is_there {
            let batch = loader.build().unwrap().next().unwrap();
            assert!(!batch.unwrap().is_empty(), "{}", now.display());
        }
    }
}
