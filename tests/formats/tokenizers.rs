//! Text as tokens: by Hugging Face's tokenizers, a text at a time or packed into windows.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::{Path, PathBuf};

use ringfeed::field::{Field, Tokenizer};
use ringfeed::formats::{Formats, TextFiles, TextLines, TextTokens, TokenFiles};
use ringfeed::order::Shard;
use ringfeed::settings::{SavedIndex, SourceConfig};
use ringfeed::storage::{Files, Storage};
use ringfeed::tokens::{TextCut, TextTokenOptions, TokenCut, TokenOptions, TokenPacking, TokenTargets};
use ringfeed::{DataSet, DataSetIterator, Error, ErrorKind, Loader, LoaderConfig, Result};
use serde_json::{Value as Json, json};

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/tokenizers").join(name)
}

fn expected() -> Json {
    serde_json::from_str(&std::fs::read_to_string(fixture("expected.json")).unwrap()).unwrap()
}

fn texts() -> Vec<String> {
    serde_json::from_value(expected()["texts"].clone()).unwrap()
}

fn ids(tokenizer: &str, what: &str) -> Vec<Vec<i64>> {
    serde_json::from_value(expected()[tokenizer][what].clone()).unwrap()
}

/// The texts as lines of JSON, with their numbers beside.
fn lines(folder: &Path) -> PathBuf {
    let path = folder.join("texts.jsonl");
    let lines = texts().into_iter().zip(0..).map(|(text, nth)| json!({"text": text, "nth": nth}).to_string() + "\n");
    std::fs::write(&path, lines.collect::<String>()).unwrap();
    path
}

/// The numbers of tensor `name`, row by row.
fn rows(batches: &mut dyn DataSetIterator, name: &str) -> Vec<Vec<i64>> {
    let mut rows = Vec::new();
    for batch in batches {
        let batch = batch.unwrap();
        let tensor = batch.tensor(name).unwrap();
        let numbers: Vec<i64> = match tensor.dtype() {
            ringfeed::DType::U8 => tensor.bytes().iter().map(|byte| i64::from(*byte)).collect(),
            ringfeed::DType::I32 => tensor.as_slice::<i32>().unwrap().iter().map(|number| i64::from(*number)).collect(),
            _ => tensor.as_slice::<i64>().unwrap().to_vec(),
        };
        let len = numbers.len() / batch.len();
        rows.extend((0..batch.len()).map(|nth| numbers[nth * len..(nth + 1) * len].to_vec()));
    }
    rows
}

fn i64s(batch: &DataSet, name: &str) -> Vec<i64> {
    batch.tensor(name).unwrap().as_slice::<i64>().unwrap().to_vec()
}

fn loaded(path: &Path, field: impl Into<Field>) -> Box<dyn DataSetIterator> {
    crate::common::watchdog::watch();
    Loader::open(path).unwrap().field("ids", field).batch_size(5).workers(2).build().unwrap()
}

#[test]
fn samples_are_chosen_by_the_number_of_their_tokens() {
    let folder = tempfile::tempdir().unwrap();
    let path = lines(folder.path());
    let lengths: Vec<usize> = ids("bpe", "whole").iter().map(Vec::len).collect();
    let median = {
        let mut sorted = lengths.clone();
        sorted.sort_unstable();
        sorted[sorted.len() / 2]
    };
    let open = |field: Field, by: &str| {
        let loader = Loader::open(&path).unwrap().field("ids", field).filter(format!("len({by}) > {median}"));
        Ok::<_, Error>(loader.build()?.flat_map(|batch| batch.unwrap().sample_ids().to_vec()).collect::<Vec<_>>())
    };
    let bpe = || Tokenizer::new(fixture("bpe.json"));
    let longer = |lengths: &[usize]| (0..).zip(lengths).filter(|(_, len)| **len > median).map(|(id, _)| id).collect();
    let expected: Vec<u64> = longer(&lengths);
    assert!(!expected.is_empty() && expected.len() < lengths.len());
    assert_eq!(open(bpe().from("text"), "ids").unwrap(), expected);
    // The text that they are made of is longer.
    let characters: Vec<usize> = texts().iter().map(|text| text.chars().count()).collect();
    assert_eq!(open(bpe().from("text"), "text").unwrap(), longer(&characters));
    let error = open(bpe().max_len(9).cut().from("text"), "ids").unwrap_err();
    assert!(error.to_string().contains("leave out its max_len, or name the field"), "{error}");
}

#[test]
fn a_word_for_a_missing_value_is_a_text_of_a_table_as_of_lines() {
    let folder = tempfile::tempdir().unwrap();
    let words = ["None", "null", "a text", "NA", ""];
    let quoted = words.map(|word| format!("{{\"text\": \"{word}\"}}\n")).concat();
    let tokens =
        [("x.csv", format!("n,text\n{}", words.map(|word| format!("1,{word}\n")).concat())), ("x.jsonl", quoted)].map(
            |(name, text)| {
                let path = folder.path().join(name);
                std::fs::write(&path, text).unwrap();
                let field = Tokenizer::new(fixture("bpe.json")).special_tokens(false).from("text");
                rows(&mut *loaded(&path, field), "ids_mask")
            },
        );
    assert_eq!(tokens[0], tokens[1]);
    assert!(tokens[0][0].contains(&1) && !tokens[0][4].contains(&1));
}

#[test]
fn tokens_are_those_of_the_python_package() {
    let folder = tempfile::tempdir().unwrap();
    let path = lines(folder.path());
    for name in ["bpe", "wordpiece", "unigram"] {
        let tokenizer = || Tokenizer::new(fixture(&format!("{name}.json")));
        for (what, field) in [("whole", tokenizer()), ("plain", tokenizer().special_tokens(false))] {
            let wanted = ids(name, what);
            // As long as the longest of each batch of five.
            let (found, masks) = (
                rows(&mut *loaded(&path, field.clone().pad(9999).from("text")), "ids"),
                rows(&mut *loaded(&path, field.pad(9999).from("text")), "ids_mask"),
            );
            assert_eq!((found.len(), masks.len()), (wanted.len(), wanted.len()));
            for (nth, wanted_row) in wanted.iter().enumerate() {
                let batch = &wanted[nth / 5 * 5..wanted.len().min(nth / 5 * 5 + 5)];
                let longest = batch.iter().map(Vec::len).max().unwrap();
                let padding = longest - wanted_row.len();
                assert_eq!(
                    found[nth],
                    [wanted_row.clone(), vec![9999; padding]].concat(),
                    "{name}, {what}, text {nth}"
                );
                assert_eq!(masks[nth], [vec![1; wanted_row.len()], vec![0; padding]].concat(), "{name}, {what}");
            }
        }
        let cut = rows(&mut *loaded(&path, tokenizer().max_len(8).cut().from("text")), "ids");
        let wanted = ids(name, "cut_to_8").into_iter().map(|row| [row.clone(), vec![0; 8 - row.len()]].concat());
        assert_eq!(cut, wanted.collect::<Vec<_>>(), "{name}");
        // Without special tokens, the beginning of what there is.
        let cut = rows(&mut *loaded(&path, tokenizer().special_tokens(false).max_len(1).cut().from("text")), "ids");
        let wanted = ids(name, "plain").into_iter().map(|row| vec![row.first().copied().unwrap_or(0)]);
        assert_eq!(cut, wanted.collect::<Vec<_>>(), "{name}");
    }
}

#[test]
fn texts_may_lie_one_behind_another_without_padding() {
    let folder = tempfile::tempdir().unwrap();
    let path = lines(folder.path());
    for (what, field) in [
        ("whole", Tokenizer::new(fixture("wordpiece.json")).ragged()),
        ("cut_to_8", Tokenizer::new(fixture("wordpiece.json")).ragged().max_len(8).cut()),
    ] {
        let mut wanted = ids("wordpiece", what).into_iter();
        for batch in loaded(&path, field.from("text")) {
            let batch = batch.unwrap();
            let rows: Vec<Vec<i64>> = wanted.by_ref().take(batch.len()).collect();
            let ends = rows.iter().scan(0, |end, row| {
                *end += row.len() as i64;
                Some(*end)
            });
            assert_eq!(i64s(&batch, "ids_offsets"), std::iter::once(0).chain(ends).collect::<Vec<_>>(), "{what}");
            assert_eq!(i64s(&batch, "ids"), rows.concat(), "{what}");
        }
        assert!(wanted.next().is_none());
    }
}

#[test]
fn a_text_that_a_record_lacks_is_an_empty_text_whatever_is_in_its_batch() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("texts.jsonl");
    std::fs::write(&path, "{\"text\": \"cat\"}\n{}\n{\"text\": null}\n{\"text\": \"\"}\n").unwrap();
    let open = |field: Tokenizer, rows| {
        Loader::open(&path).unwrap().field("ids", field.from("text")).batch_size(rows).build().unwrap()
    };
    let tokenizer = || Tokenizer::new(fixture("wordpiece.json"));
    let whole = open(tokenizer().ragged(), 4).next().unwrap().unwrap();
    let (ids, offsets) = (i64s(&whole, "ids"), i64s(&whole, "ids_offsets"));
    let row = |nth: usize| &ids[offsets[nth] as usize..offsets[nth + 1] as usize];
    assert!(row(0).len() > row(1).len() && !row(1).is_empty());
    assert!(row(1) == row(2) && row(1) == row(3));
    for field in [tokenizer().ragged(), tokenizer(), tokenizer().ragged().max_len(9).cut()] {
        for (nth, batch) in open(field, 1).enumerate() {
            assert_eq!(i64s(&batch.unwrap(), "ids"), row(nth));
        }
    }
}

#[test]
fn a_text_that_is_too_long_or_none_is_a_bad_record_with_its_place() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("texts.jsonl");
    std::fs::write(&path, "{\"text\": \"cat\"}\n{\"text\": \"the cat and the dog\"}\n{\"text\": 3}\n{}\n").unwrap();
    let field = Tokenizer::new(fixture("wordpiece.json")).max_len(4).from("text");
    let mut errors: Vec<Error> = Vec::new();
    for batch in Loader::open(&path).unwrap().field("ids", field.clone()).batch_size(1).build().unwrap() {
        errors.extend(batch.err());
    }
    let error = &errors[0];
    assert!(error.message().contains("tokens; at most 4 fit; raise max_len"), "{error}");
    assert_eq!((error.kind(), error.location().record), (ErrorKind::Data, Some(1)));
    let limits = ringfeed::settings::BadLimits::default();
    let skipping =
        Loader::open(&path).unwrap().field("ids", field).bad_records(ringfeed::settings::BadRecords::Skip(limits));
    let read = rows(&mut *skipping.build().unwrap(), "ids");
    let (cls, sep) = (ids("wordpiece", "whole")[2][0], ids("wordpiece", "whole")[2][1]);
    // A number has digits that are text; what is missing is an empty text.
    assert_eq!((read.len(), &read[2]), (3, &vec![cls, sep, 0, 0]));
}

#[test]
fn settings_and_what_is_wrong_with_them() {
    let folder = tempfile::tempdir().unwrap();
    lines(folder.path());
    std::fs::copy(fixture("wordpiece.json"), folder.path().join("tokenizer.json")).unwrap();
    let settings = folder.path().join("train.toml");
    let write = |field: &str| {
        let text = format!("[source]\npath = \"texts.jsonl\"\n[fields]\nids = {{ from = \"text\", {field} }}\n");
        std::fs::write(&settings, text).unwrap();
        LoaderConfig::load(&settings)
    };
    let config = write("tokenizer = \"tokenizer.json\", max_len = 8, longer = \"cut\", pad = 7").unwrap();
    let again: LoaderConfig = serde_json::from_str(&serde_json::to_string(&config).unwrap()).unwrap();
    assert_eq!(again, config);
    let found = rows(&mut *Loader::from(config).build().unwrap(), "ids");
    let wanted = ids("wordpiece", "cut_to_8").into_iter().map(|row| [row.clone(), vec![7; 8 - row.len()]].concat());
    assert_eq!(found, wanted.collect::<Vec<_>>());
    let error = |field: &str| match write(field) {
        Err(error) => error.to_string(),
        Ok(config) => Loader::from(config).build().map(|_| ()).unwrap_err().to_string(),
    };
    for (field, part) in [
        ("tokenizer = \"tokeniser.json\"", "tokenizer.json"),
        ("tokenizer = \"texts.jsonl\"", "is not a file of Hugging Face"),
        ("tokenizer = \"tokenizer.json\", max_len = 1, longer = \"cut\"", "special tokens alone are 2"),
        ("tokenizer = \"tokenizer.json\", pad = -1", "a token is a whole number"),
        ("tokenizer = \"tokenizer.json\", dtype = \"f32\"", "does not belong to tokenizer"),
        ("text = 3, special_tokens = true", "special_tokens does not belong to text"),
    ] {
        assert!(error(field).contains(part), "{field}: {}", error(field));
    }
}

#[test]
fn no_file_that_is_cut_or_changed_panics() {
    let folder = tempfile::tempdir().unwrap();
    let texts = lines(folder.path());
    let whole = std::fs::read(fixture("unigram.json")).unwrap();
    let path = folder.path().join("tokenizer.json");
    let open = |bytes: &[u8]| {
        std::fs::write(&path, bytes).unwrap();
        let field = Tokenizer::new(&path).max_len(400).cut().from("text");
        let mut batches = Loader::open(&texts).unwrap().field("ids", field).workers(1).build()?;
        batches.try_for_each(|batch| batch.map(|_| ()))
    };
    for len in (0..whole.len()).step_by(97) {
        let error = open(&whole[..len]).unwrap_err();
        assert_eq!((error.kind(), error.path()), (ErrorKind::Format, Some(&*path)), "{error}");
    }
    for at in (0..whole.len()).step_by(61) {
        let mut changed = whole.clone();
        changed[at] ^= 1;
        // A letter of a token may be another one; nothing else happens than an error that says so.
        if let Err(error) = open(&changed) {
            assert_ne!(error.kind(), ErrorKind::Exhausted, "{error}");
        }
    }
    open(&whole).unwrap();
}

/// The row of tokens that the documents make.
fn row_of(documents: &[Vec<i64>], end: i64) -> Vec<i64> {
    documents.iter().flat_map(|document| document.iter().copied().chain([end])).collect()
}

fn end() -> i64 {
    // The first token that was trained.
    0
}

fn options(window: usize) -> TextTokenOptions {
    TextTokenOptions { tokenizer: fixture("bpe.json"), window, ..TextTokenOptions::default() }
}

fn packed(paths: &[PathBuf], options: TextTokenOptions) -> Loader {
    crate::common::watchdog::watch();
    let paths: ringfeed::settings::Paths = paths.iter().collect();
    Loader::new(SourceConfig::new(TextTokens, paths, options)).batch_size(4).workers(2)
}

#[test]
fn windows_lie_side_by_side_in_the_documents_and_their_ends() {
    let folder = tempfile::tempdir().unwrap();
    let path = lines(folder.path());
    let row = row_of(&ids("bpe", "plain"), end());
    let loader = || packed(std::slice::from_ref(&path), options(16));
    let (inputs, targets) =
        (rows(&mut *loader().build().unwrap(), "inputs"), rows(&mut *loader().build().unwrap(), "targets"));
    let count = (row.len() - 17) / 16 + 1;
    assert!(count > 20, "{count}");
    assert_eq!(inputs, (0..count).map(|nth| row[nth * 16..][..16].to_vec()).collect::<Vec<_>>());
    assert_eq!(targets, (0..count).map(|nth| row[nth * 16 + 1..][..16].to_vec()).collect::<Vec<_>>());
    // A shuffle is one of windows, of which shards take their parts.
    let shuffled =
        |index, of| rows(&mut *loader().shuffle(3).shard(Shard::new(index, of).unwrap()).build().unwrap(), "inputs");
    let whole = shuffled(0, 1);
    assert_ne!(whole, inputs);
    let mut sorted = (whole.clone(), inputs);
    sorted.0.sort_unstable();
    sorted.1.sort_unstable();
    assert_eq!(sorted.0, sorted.1);
    for shard in 0..3 {
        let part = shuffled(shard as u32, 3);
        let own: Vec<_> = whole.iter().skip(shard).step_by(3).cloned().collect();
        assert_eq!(part[..own.len()], own);
    }
    // A state resumes at the next window.
    let mut first = loader().shuffle(3).build().unwrap();
    let read: Vec<_> = (0..2).map(|_| i64s(&first.next().unwrap().unwrap(), "inputs")).collect();
    let state = first.state();
    let mut second = loader().shuffle(3).build().unwrap();
    second.seek(&state).unwrap();
    let rest = rows(&mut *second, "inputs").concat();
    assert_eq!([read.concat(), rest].concat(), whole.concat());
}

#[test]
fn every_cut_is_that_of_a_file_of_the_same_tokens() {
    let folder = tempfile::tempdir().unwrap();
    let path = lines(folder.path());
    let tokens = folder.path().join("tokens.bin");
    let row = row_of(&ids("bpe", "plain"), end());
    std::fs::write(&tokens, row.iter().flat_map(|token| (*token as u16).to_le_bytes()).collect::<Vec<u8>>()).unwrap();
    let documents = |packing| TokenCut::Documents { end: end() as u32, packing };
    for (cut, same) in [
        (TextCut::Contiguous, TokenCut::Contiguous { stride: None }),
        (TextCut::Random, TokenCut::Random),
        (TextCut::Whole, documents(TokenPacking::Whole)),
        (TextCut::BestFit, documents(TokenPacking::BestFit)),
        (TextCut::Filled, documents(TokenPacking::Filled)),
    ] {
        let targets = TokenTargets::Inside;
        let text = packed(std::slice::from_ref(&path), TextTokenOptions { cut, targets, ..options(24) }).shuffle(5);
        let file = TokenOptions { window: 24, cut: same, targets, ..TokenOptions::default() };
        let file = Loader::new(SourceConfig::new(TokenFiles, &tokens, file)).batch_size(4).shuffle(5);
        let names = match cut {
            TextCut::Contiguous | TextCut::Random => &["tokens"][..],
            _ => &["tokens", "segments", "positions", "tokens_mask"],
        };
        for name in names {
            let (text, file) = (rows(&mut *text.build().unwrap(), name), rows(&mut *file.build().unwrap(), name));
            assert!(!file.is_empty() && text == file, "{cut:?}, {name}");
        }
    }
}

#[test]
fn documents_are_lines_whole_files_and_records_of_any_format() {
    let folder = tempfile::tempdir().unwrap();
    let texts = ["the cat sat", "on the mat", "and the dog"];
    let windows = |paths: &[PathBuf], format: Option<&str>, from: Option<&str>| {
        let format = format.map(str::to_owned);
        let options =
            TextTokenOptions { format, from: from.map(Into::into), targets: TokenTargets::None, ..options(4) };
        rows(&mut *packed(paths, options).build().unwrap(), "tokens").concat()
    };
    let at = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        path
    };
    let wanted = windows(&[at("a.txt", &(texts.join("\n") + "\n"))], Some("text"), None);
    assert!(wanted.len() >= 12);
    let files: Vec<PathBuf> = texts.iter().zip(0..).map(|(text, nth)| at(&format!("{nth}.doc"), text)).collect();
    std::fs::write(&files[1], format!("\u{feff}{}", texts[1])).unwrap();
    assert_eq!(windows(&files, Some("text_files"), None), wanted);
    let table = at("b.csv", &format!("n,text\n{}", texts.map(|text| format!("1,\"{text}\"\n")).concat()));
    assert_eq!(windows(&[table], None, None), wanted);
    let other = at("c.jsonl", &texts.map(|text| json!({"is": {"body": text}}).to_string() + "\n").concat());
    assert_eq!(windows(std::slice::from_ref(&other), None, Some("/is/body")), wanted);
    // Two files are one row of tokens.
    let halves = [at("d.jsonl", &json!({"text": texts[0]}).to_string()), {
        let rest = texts[1..].iter().map(|text| json!({"text": text}).to_string() + "\n");
        at("e.jsonl", &rest.collect::<String>())
    }];
    assert_eq!(windows(&halves, None, None), wanted);
    let error = packed(&[other], options(4)).build().map(|_| ()).unwrap_err();
    assert!(error.message().contains("say in `from` which field holds the text"), "{error}");
}

#[test]
fn documents_may_be_records_of_a_format_of_the_users_own() -> Result<()> {
    let folder = tempfile::tempdir().unwrap();
    let (own, plain) = (folder.path().join("own"), folder.path().join("plain.txt"));
    std::fs::write(&own, "SHOUT\nthe cat sat\non the mat\n").unwrap();
    std::fs::write(&plain, "SHOUT\nTHE CAT SAT\nON THE MAT\n").unwrap();
    let formats = Formats::new().with(crate::own_format::Shouting);
    let options = |format: Option<&str>| TextTokenOptions {
        format: format.map(str::to_owned),
        from: Some("line".into()),
        targets: TokenTargets::None,
        ..options(4)
    };
    let expected = rows(&mut *packed(&[plain], options(Some("text"))).build()?, "tokens");
    for format in [None, Some("shouting")] {
        let source = SourceConfig::new(TextTokens, &*own, options(format));
        let loader = Loader::new(source.clone().with_formats(&formats));
        assert_eq!(rows(&mut *loader.build()?, "tokens"), expected);
        assert!(Loader::new(source).build().is_err(), "nobody knows it");
        let settings = folder.path().join("loader.toml");
        std::fs::write(&settings, toml::to_string(loader.config()).unwrap()).unwrap();
        let loaded = Loader::from(LoaderConfig::load_with(&settings, &formats)?);
        assert_eq!(rows(&mut *loaded.build()?, "tokens"), expected);
    }
    Ok(())
}

#[test]
fn a_word_for_a_missing_value_is_a_document() {
    let folder = tempfile::tempdir().unwrap();
    let (csv, json) = (folder.path().join("d.csv"), folder.path().join("d.jsonl"));
    let documents = ["hello world", "None", "null", "NA", "a"];
    std::fs::write(&csv, format!("id,text\n{}", documents.map(|text| format!("1,{text}\n")).concat())).unwrap();
    std::fs::write(&json, documents.map(|text| format!("{{\"text\": {text:?}}}\n")).concat()).unwrap();
    let tokens = |path: &PathBuf| {
        let options = TextTokenOptions { targets: TokenTargets::None, ..options(3) };
        rows(&mut *packed(std::slice::from_ref(path), options).build().unwrap(), "tokens")
    };
    assert_eq!(tokens(&csv), tokens(&json));
}

#[test]
fn whole_files_are_records_of_any_codec() {
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in [("b.txt", "two"), ("a.txt", "\u{feff}one"), ("c.txt", "")] {
        std::fs::write(folder.path().join(name), text).unwrap();
    }
    let loader = Loader::new(SourceConfig::new(TextFiles, folder.path(), ()));
    let batch = loader.field("text", ringfeed::field::Text::new(5)).build().unwrap().next().unwrap().unwrap();
    assert_eq!(batch.tensor("text").unwrap().bytes(), b"one\0\0two\0\0\0\0\0\0\0");
    assert_eq!(i64s(&batch, "text_len"), [3, 3, 0]);
}

#[test]
fn tokens_are_kept_for_the_next_run_until_something_changes() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("texts.txt");
    std::fs::write(&path, "the cat\nsat on the mat\n").unwrap();
    let [kept, index] = ["texts.txt.tokens.ringfeed", "texts.txt.ringfeed"].map(|name| folder.path().join(name));
    let read = |special_tokens: bool| {
        let format = Some("text".to_owned());
        let options = TextTokenOptions { format, special_tokens, saved_index: SavedIndex::Beside, ..options(2) };
        rows(&mut *packed(std::slice::from_ref(&path), options).build().unwrap(), "inputs")
    };
    let wanted = read(false);
    assert!(!kept.exists(), "the text may still be changing");
    let long_ago = std::time::SystemTime::now() - std::time::Duration::from_secs(100);
    std::fs::File::options().write(true).open(&path).unwrap().set_modified(long_ago).unwrap();
    assert_eq!(read(false), wanted);
    let bytes = std::fs::read(&kept).unwrap();
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode();
        assert_eq!(mode(&kept), mode(&path), "other users may read it like any new file");
    }
    assert_eq!(read(false), wanted);
    // What is kept is what is read: with another token in it, and the checksum of that, this token comes.
    let mut changed = bytes.clone();
    changed[32] ^= 1;
    let checksum = crc32fast::hash(&changed[32..]);
    changed[20..24].copy_from_slice(&checksum.to_le_bytes());
    std::fs::write(&kept, &changed).unwrap();
    assert_ne!(read(false), wanted);
    // Cut off, damaged in its header or in a token, or of other documents, it is made anew.
    for at in [0, 7, 8, 16, 20, 24, 32, bytes.len() - 1] {
        let mut damaged = bytes.clone();
        damaged[at] ^= 1;
        std::fs::write(&kept, &damaged).unwrap();
        assert_eq!(read(false), wanted);
    }
    std::fs::write(&kept, &bytes[..bytes.len() - 2]).unwrap();
    assert_eq!(read(false), wanted);
    assert_eq!(std::fs::read(&kept).unwrap(), bytes);
    // In another user's folder, where nothing can be written, they are made for this run alone.
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        let allow = |mode| std::fs::set_permissions(&folder, std::fs::Permissions::from_mode(mode)).unwrap();
        std::fs::write(&kept, b"somebody else's").unwrap();
        allow(0o555);
        assert_eq!(read(false), wanted);
        allow(0o755);
        // Nothing is forbidden to root, who has replaced them.
        std::fs::write(&kept, &bytes).unwrap();
    }
    // The index of the lines has another name.
    let lines = || Loader::new(SourceConfig::new(TextLines, &path, Default::default())).saved_index(SavedIndex::Beside);
    for _ in 0..2 {
        assert_eq!(lines().field("line", ringfeed::field::Text::new(20)).build().unwrap().count(), 1);
        assert_eq!(read(false), wanted);
    }
    assert!(std::fs::read(&index).unwrap().starts_with(b"ringfeed"));
    assert_eq!(std::fs::read(&kept).unwrap(), bytes);
    std::fs::write(&path, "the cat\nsat on the mat and sat\n").unwrap();
    assert!(read(false).len() > wanted.len());
    assert!(std::fs::read_dir(folder.path()).unwrap().count() == 3, "nothing else lies there");
}

/// Another machine's files.
struct Elsewhere(std::sync::Mutex<Vec<u8>>);

impl Storage for Elsewhere {
    fn file_len(&self, _: &Path) -> Result<u64> {
        Ok(self.0.lock().unwrap().len() as u64)
    }

    fn read(&self, _: &Path, range: std::ops::Range<u64>, into: &mut Vec<u8>) -> Result<u64> {
        let bytes = self.0.lock().unwrap();
        let end = (range.end as usize).min(bytes.len());
        into.clear();
        into.extend_from_slice(&bytes[(range.start as usize).min(end)..end]);
        Ok(bytes.len() as u64)
    }
}

#[test]
fn no_tokens_are_kept_of_documents_that_may_change_unseen() {
    let keep = tempfile::tempdir().unwrap();
    let of = |path: &Path, format: &str, files: Files| {
        let saved_index = SavedIndex::In(keep.path().to_owned());
        let options = TextTokenOptions { format: Some(format.to_owned()), saved_index, ..options(2) };
        rows(&mut *packed(&[path.to_owned()], options).files(files).build().unwrap(), "inputs")
    };
    // In a storage, which tells no times.
    let elsewhere = std::sync::Arc::new(Elsewhere(b"the cat\nsat on the mat\n".to_vec().into()));
    let files = || Files::of(elsewhere.clone(), &ringfeed::memory::MemoryBudget::unlimited());
    let before = of(Path::new("texts.txt"), "text", files());
    *elsewhere.0.lock().unwrap() = b"the mat\nsat on the cat\n".to_vec();
    let after = of(Path::new("texts.txt"), "text", files());
    assert_eq!(before.len(), after.len());
    assert_ne!(before, after);
    // In shards, of which the index is named.
    let folder = tempfile::tempdir().unwrap();
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/mds/plain");
    for entry in std::fs::read_dir(fixtures).unwrap() {
        let entry = entry.unwrap();
        std::fs::copy(entry.path(), folder.path().join(entry.file_name())).unwrap();
    }
    let shard = folder.path().join("shard.00000.mds");
    let whole = std::fs::read(&shard).unwrap();
    let text = whole.windows(6).position(|word| word == b"oneone").unwrap();
    let index = folder.path().join("index.json");
    let before = of(&index, "mds", Files::local());
    let mut changed = whole.clone();
    changed[text] ^= 1;
    std::fs::write(&shard, &changed).unwrap();
    assert_ne!(of(&index, "mds", Files::local()), before);
    assert_eq!(std::fs::read_dir(keep.path()).unwrap().count(), 0, "nothing is kept");
}

#[test]
fn what_is_wrong_with_packed_text_is_said_by_name() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("texts.jsonl");
    std::fs::write(&path, "{\"text\": \"the cat\"}\n{\"text\": [1]}\n").unwrap();
    let error =
        |options: TextTokenOptions| packed(std::slice::from_ref(&path), options).build().map(|_| ()).unwrap_err();
    let bad = error(options(2));
    assert_eq!((bad.kind(), bad.location().record), (ErrorKind::Data, Some(1)), "{bad}");
    std::fs::write(&path, "{\"text\": \"the cat\"}\n").unwrap();
    let of_end = error(TextTokenOptions { end: "<|end_of_text|>".to_owned(), ..options(2) });
    assert!(of_end.message().contains("did you mean \"<|endoftext|>\"?"), "{of_end}");
    let of_bytes = error(TextTokenOptions { max_token_bytes: 4, ..options(2) });
    assert_eq!(of_bytes.kind(), ErrorKind::Limit);
    let of_format = error(TextTokenOptions { format: Some("txt".to_owned()), ..options(2) });
    assert!(of_format.message().contains("\"txt\" is not allowed"), "{of_format}");
    let too_short = error(options(1000));
    assert!(too_short.message().contains("a window and its targets need 1001"), "{too_short}");
    let settings = format!(
        "[source]\nformat = \"text_tokens\"\npath = {path:?}\noptions = {{ tokenizer = {:?}, window = 2, cut = \"best_fit\" }}\n",
        fixture("bpe.json")
    );
    let file = folder.path().join("train.toml");
    std::fs::write(&file, &settings).unwrap();
    Loader::from(LoaderConfig::load(&file).unwrap()).build().unwrap();
    for cut in ["contiguous", "random", "whole", "filled"] {
        std::fs::write(&file, settings.replace("best_fit", cut)).unwrap();
        let config = LoaderConfig::load(&file).unwrap();
        let written = serde_json::to_string(&config).unwrap();
        assert_eq!(LoaderConfig::from_json(&written).unwrap(), config, "{cut}: {written}");
    }
    std::fs::write(&file, settings.replace("best_fit", "best")).unwrap();
    assert!(LoaderConfig::load(&file).unwrap_err().to_string().contains("best_fit"));
}

/// The second of the programs that the library is to make as short as they are: pictures, labels and captions of a
/// Parquet file.
#[cfg(feature = "parquet")]
#[test]
fn pictures_and_captions_of_parquet_files_become_tensors() {
    use ringfeed::field::{Image, Numbers};
    let folder = tempfile::tempdir().unwrap();
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures");
    for name in ["train-00000-of-00002.parquet", "train-00001-of-00002.parquet"] {
        std::fs::copy(fixtures.join("parquet/images.parquet"), folder.path().join(name)).unwrap();
    }
    std::fs::copy(fixture("bpe.json"), folder.path().join("tokenizer.json")).unwrap();
    let settings = folder.path().join("train.toml");
    let text = r#"
        [source]
        path = "train-*.parquet"
        [fields]
        image = { from = "image.bytes", image = [24, 24] }
        label = { from = "label", numbers = "i64" }
        caption = { from = "text", tokenizer = "tokenizer.json", max_len = 77 }
    "#;
    std::fs::write(&settings, text).unwrap();
    let of_settings = Loader::from(LoaderConfig::load(&settings).unwrap());
    let of_rust = Loader::open(folder.path().join("train-*.parquet"))
        .unwrap()
        .field("image", Image::rgb(24, 24).from("image.bytes"))
        .field("label", Numbers::i64().from("label"))
        .field("caption", Tokenizer::new(folder.path().join("tokenizer.json")).max_len(77).from("text"));
    let [one, other] = [of_settings, of_rust].map(|loader| {
        let batch = loader.batch_size(10).build().unwrap().next().unwrap().unwrap();
        assert_eq!(batch.tensor("image").unwrap().shape(), [10, 3, 24, 24]);
        assert_eq!(i64s(&batch, "label"), [3, 1, 4, 1, 5, 3, 1, 4, 1, 5]);
        let lens: Vec<usize> = batch
            .tensor("caption_mask")
            .unwrap()
            .bytes()
            .chunks(77)
            .map(|row| row.iter().map(|bit| usize::from(*bit)).sum())
            .collect();
        assert!(lens[0] > 0 && lens[2] == 0 && lens[..5] == lens[5..], "{lens:?}");
        batch.tensors().map(|tensor| tensor.bytes().to_vec()).collect::<Vec<_>>()
    });
    assert!(one == other);
}
