//! Sparse rows of text: against what scikit-learn reads, and damaged in every way.
#![expect(clippy::unwrap_used, reason = "a test ends with the first surprise")]

use std::path::{Path, PathBuf};

use proptest::prelude::*;
use ringfeed::field::{Category, Class, Numbers, Tokens};
use ringfeed::formats::Libsvm;
use ringfeed::memory::MemoryBudget;
use ringfeed::order::Shard;
use ringfeed::read::{Container, LibsvmOptions, Scratch, SparseLines, Value};
use ringfeed::settings::SourceConfig;
use ringfeed::storage::Files;
use ringfeed::{DataSet, DataSetIterator, ErrorKind, Loader, LoaderConfig, Result};
use serde_json::Value as Json;

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/libsvm").join(name)
}

fn expected(name: &str) -> Json {
    let all: Json = serde_json::from_slice(&std::fs::read(fixture("expected.json")).unwrap()).unwrap();
    all[name].clone()
}

/// A number as Python's `float.hex` writes it.
fn of_hex(text: &str) -> f64 {
    let (sign, digits) = text.strip_prefix('-').map_or((1.0, text), |rest| (-1.0, rest));
    let (mantissa, exponent) = digits.strip_prefix("0x").unwrap().split_once('p').unwrap();
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let bits = u64::from_str_radix(&format!("{whole}{fraction}"), 16).unwrap();
    // Two steps, since the smallest power of two that is normal may not be enough.
    let exponent = exponent.parse::<i32>().unwrap() - 4 * fraction.len() as i32;
    let half = exponent / 2;
    sign * bits as f64 * 2f64.powi(half) * 2f64.powi(exponent - half)
}

fn loader(path: &Path, options: LibsvmOptions) -> Loader {
    Loader::new(SourceConfig::new(Libsvm, path, options))
}

/// The first batch.
fn batch(loader: Loader) -> DataSet {
    loader.batch_size(100).build().unwrap().next().unwrap().unwrap()
}

fn dense(zero_based: bool) -> LibsvmOptions {
    LibsvmOptions { features: Some(9), zero_based, ..LibsvmOptions::default() }
}

#[test]
fn dense_rows_are_those_of_scikit_learn_to_the_last_bit() {
    for (name, zero_based) in [("base-0.svm", true), ("base-1.svm", false), ("by-hand", false)] {
        let loader = loader(&fixture(name), dense(zero_based));
        let loader = loader.field("features", Numbers::f64()).field("label", Numbers::f64());
        let loader = if name == "by-hand" { loader } else { loader.field("qid", Numbers::i64()) };
        let (batch, expected) = (batch(loader), expected(name));
        let rows: Vec<f64> = expected["rows"]
            .as_array()
            .unwrap()
            .iter()
            .flat_map(|row| row.as_array().unwrap().iter().map(|value| of_hex(value.as_str().unwrap())))
            .collect();
        let found = batch.tensor("features").unwrap().as_slice::<f64>().unwrap().to_vec();
        assert_eq!(batch.tensor("features").unwrap().shape(), [rows.len() / 9, 9]);
        let same = |(one, other): (&f64, &f64)| one == other;
        assert!(found.iter().zip(&rows).all(same), "{name}: {found:?} {rows:?}");
        let labels: Vec<f64> = serde_json::from_value(expected["labels"].clone()).unwrap();
        assert_eq!(batch.tensor("label").unwrap().as_slice::<f64>().unwrap(), labels);
        if name != "by-hand" {
            let queries: Vec<i64> = serde_json::from_value(expected["qid"].clone()).unwrap();
            assert_eq!(batch.tensor("qid").unwrap().as_slice::<i64>().unwrap(), queries);
        }
    }
}

/// Offsets, indices and values of a batch.
type Csr = (Vec<i64>, Vec<i64>, Vec<f64>);

fn csr(batch: &DataSet) -> Csr {
    let integers = |name: &str| batch.tensor(name).unwrap().as_slice::<i64>().unwrap().to_vec();
    assert_eq!(integers("indices_offsets"), integers("values_offsets"));
    (integers("values_offsets"), integers("indices"), batch.tensor("values").unwrap().as_slice().unwrap().to_vec())
}

fn expected_csr(name: &str) -> Csr {
    let expected = expected(name);
    let integers = |key: &str| serde_json::from_value::<Vec<i64>>(expected[key].clone()).unwrap();
    let values = expected["values"].as_array().unwrap().iter().map(|value| of_hex(value.as_str().unwrap()));
    (integers("indptr"), integers("indices"), values.collect())
}

#[test]
fn sparse_batches_are_the_compressed_rows_of_scikit_learn() {
    for (name, zero_based) in [("base-0.svm", true), ("base-1.svm", false), ("by-hand", false), ("odd", false)] {
        let options = LibsvmOptions { zero_based, ..LibsvmOptions::default() };
        let rows = batch(loader(&fixture(name), options.clone()));
        assert_eq!(csr(&rows), expected_csr(name), "{name}");
        let bits = |values: &[f64]| values.iter().map(|value| value.to_bits()).collect::<Vec<_>>();
        assert_eq!(bits(&csr(&rows).2), bits(&expected_csr(name).2), "{name}: signs of zeros, too");
        let labels: Vec<f64> = serde_json::from_value(expected(name)["labels"].clone()).unwrap();
        assert_eq!(rows.tensor("label").unwrap().as_slice::<f64>().unwrap(), labels);
        // Any batches, shards and threads put together are the same rows.
        let whole = rows.sample_ids().iter().zip(csr_rows(&csr(&rows))).map(|(id, row)| (*id, row)).collect::<Vec<_>>();
        for shielded in [false, true] {
            let mut parts = Vec::new();
            for shard in 0..3 {
                let loader = loader(&fixture(name), options.clone()).shuffle(7).shard(Shard::new(shard, 3).unwrap());
                let loader = if shielded { loader.shield() } else { loader };
                let mut batches = loader.batch_size(2).build().unwrap();
                let first = batches.next().unwrap().unwrap();
                let state = first.state_after();
                parts.extend(first.sample_ids().iter().copied().zip(csr_rows(&csr(&first))));
                let rest = |batches: &mut dyn DataSetIterator| {
                    let rows = |batch: Result<DataSet>| {
                        let batch = batch.unwrap();
                        let real = batch.len() - batch.padding();
                        batch.sample_ids()[..real].iter().copied().zip(csr_rows(&csr(&batch))).collect::<Vec<_>>()
                    };
                    batches.flat_map(rows).collect::<Vec<_>>()
                };
                let left = rest(&mut *batches);
                batches.seek(&state).unwrap();
                assert_eq!(rest(&mut *batches), left);
                parts.extend(left);
            }
            parts.sort_by_key(|(id, _)| *id);
            parts.dedup_by_key(|(id, _)| *id);
            assert_eq!(parts, whole, "{name}");
        }
    }
}

/// Indices and values of each row.
fn csr_rows((offsets, indices, values): &Csr) -> Vec<(Vec<i64>, Vec<f64>)> {
    let range = |pair: &[i64]| pair[0] as usize..pair[1] as usize;
    offsets.windows(2).map(|pair| (indices[range(pair)].to_vec(), values[range(pair)].to_vec())).collect()
}

#[test]
fn sparse_rows_are_padded_lists_where_they_are_named_as_numbers() {
    let loader = Loader::open(fixture("by-hand")).unwrap().field("label", Numbers::f64());
    let batch = batch(loader.field("indices", Numbers::i64()).field("values", Numbers::f64()));
    let names: Vec<&str> = batch.tensors().map(|tensor| tensor.name()).collect();
    assert_eq!(names, ["label", "indices", "indices_mask", "values", "values_mask"]);
    assert_eq!(batch.tensor("indices").unwrap().shape(), [4, 3]);
    let indices = batch.tensor("indices").unwrap().as_slice::<i64>().unwrap().to_vec();
    assert_eq!(indices, [0, 2, 8, 1, 3, 0, 0, 0, 0, 0, 4, 5]);
    let mask = [1, 1, 1, 1, 1, 0, 0, 0, 0, 1, 1, 1];
    assert_eq!(batch.tensor("indices_mask").unwrap().bytes(), mask);
    assert_eq!(batch.tensor("values_mask").unwrap().bytes(), mask);
    let values = batch.tensor("values").unwrap().as_slice::<f64>().unwrap().to_vec();
    assert_eq!(values[..5], [0.1, 2.5e-3, 1e300, 123_456_789_012_345_680.0, 5e-324]);
    assert_eq!(values[9..], [0.300_000_000_000_000_04, -0.0, 9_007_199_254_740_992.0]);
}

#[test]
fn rows_may_have_any_number_of_labels_if_that_is_said() {
    let options = LibsvmOptions { multilabel: true, ..LibsvmOptions::default() };
    let batch = batch(loader(&fixture("labels"), options).field("label", Tokens::new(3)));
    assert_eq!(batch.tensor("label").unwrap().as_slice::<i64>().unwrap(), [1, 2, 0, 0, 0, 0, 0, 0, 0, 5, 0, 3]);
    assert_eq!(batch.tensor("label_mask").unwrap().bytes(), [1, 1, 0, 0, 0, 0, 1, 0, 0, 1, 1, 1]);
    let labels: Vec<Vec<f64>> = serde_json::from_value(expected("labels")["labels"].clone()).unwrap();
    assert_eq!(labels.iter().map(Vec::len).collect::<Vec<_>>(), [2, 0, 1, 3], "so scikit-learn reads them");
    let error = loader(&fixture("labels"), LibsvmOptions::default()).build();
    let error = error.and_then(|mut batches| batches.next().unwrap().map(|_| ())).unwrap_err();
    assert!(error.message().contains("set multilabel") && error.location().line == Some(1), "{error}");
}

#[test]
fn labels_are_classes_or_categories() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a1a");
    std::fs::write(&path, "-1 1:1\n+1 2:1\n-1 3:1\n").unwrap();
    let rows = || Loader::open(&path).unwrap();
    let batch = batch(rows().field("side", Category::new().from("label")));
    assert_eq!(batch.tensor("side").unwrap().as_slice::<i64>().unwrap(), [0, 1, 0]);
    let classes = self::batch(Loader::open(fixture("base-1.svm")).unwrap().field("label", Class));
    let labels: Vec<f64> = serde_json::from_value(expected("base-1.svm")["labels"].clone()).unwrap();
    let found = classes.tensor("label").unwrap().as_slice::<i64>().unwrap().to_vec();
    assert!(found.iter().zip(labels).all(|(found, label)| *found as f64 == label));
}

/// The error of the record with this number.
fn error_of(text: &str, options: LibsvmOptions, record: u64) -> ringfeed::Error {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("rows.svm");
    std::fs::write(&path, text).unwrap();
    let mut rows = SparseLines::open(&Files::local(), &path, &options, &MemoryBudget::unlimited()).unwrap();
    rows.find(&"label".into()).unwrap();
    let mut scratch = Scratch::default();
    rows.fetch(&[record], 0, &mut scratch).unwrap();
    let error = rows.read(record, 0, &mut scratch, &mut |_, _| Ok(())).unwrap_err();
    assert_eq!((error.kind(), error.path(), error.location().record), (ErrorKind::Data, Some(&*path), Some(record)));
    error
}

#[test]
fn what_is_wrong_names_record_line_and_byte() {
    let text = "# two comments\n1 1:1\n\n# here\n2 1:1 0x2:3\n";
    let error = error_of(text, LibsvmOptions::default(), 1);
    assert_eq!((error.location().line, error.location().byte), (Some(5), Some(35)));
    assert!(error.message().contains("\"0x2\" is not the index"), "{error}");
    let error = error_of("1 0:1\n", LibsvmOptions::default(), 0);
    assert!(error.message().contains("set zero_based"), "{error}");
    let error = error_of("1 3:1\n1 9:1 10:1\n", dense(false), 1);
    assert!(error.message().contains("index 10, where a row has 9 features"), "{error}");
    let error = Loader::open(fixture("by-hand")).unwrap().field("features", Numbers::f32()).build().map(|_| ());
    assert!(error.as_ref().unwrap_err().message().contains("features = "), "{error:?}");
}

#[test]
fn lines_of_blanks_and_comments_are_no_records_wherever_they_stand() {
    let text = "   # note\n\t# 1 1:1\n1 1:1 # here\n  \t \n  \r\n \x0c#\n# 3\n  2 2:1\n \n3 3:1 0x2:3\n    # the end";
    let records = |text: &str, multilabel: bool| -> Vec<Option<usize>> {
        let options = LibsvmOptions { multilabel, ..LibsvmOptions::default() };
        read_all(text.as_bytes(), &options).into_iter().map(Result::ok).collect()
    };
    for multilabel in [false, true] {
        let found = records(text, multilabel);
        assert_eq!((found.len(), found[0].is_some(), found[1].is_some(), found[2]), (3, true, true, None));
        assert_eq!(records("  # one\n   ", multilabel), []);
        assert_eq!(records("   # one\r\n1 1:1\r\n  \r\n", multilabel).len(), 1);
        // Many chunks, and lines longer than others.
        let long = format!("{}# {}\n1 1:1\n{}\n", " ".repeat(3000), "x".repeat(3000), " ".repeat(5000));
        assert_eq!(records(&long.repeat(400), multilabel), vec![records("1 1:1", multilabel)[0]; 400]);
    }
    let error = error_of(text, LibsvmOptions::default(), 2);
    assert_eq!((error.location().line, error.location().byte), (Some(10), Some(text.find("0x2").unwrap() as u64)));
    let packed = tempfile::tempdir().unwrap();
    let path = packed.path().join("rows.svm.gz");
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    std::io::Write::write_all(&mut gzip, text.as_bytes()).unwrap();
    std::fs::write(&path, gzip.finish().unwrap()).unwrap();
    let rows = SparseLines::open(&Files::local(), &path, &LibsvmOptions::default(), &MemoryBudget::unlimited());
    assert_eq!(rows.unwrap().len(), 3);
}

fn read_all(bytes: &[u8], options: &LibsvmOptions) -> Vec<Result<usize>> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("rows.svm");
    std::fs::write(&path, bytes).unwrap();
    let Ok(mut rows) = SparseLines::open(&Files::local(), &path, options, &MemoryBudget::unlimited()) else {
        return Vec::new();
    };
    for field in ["label", "qid", "indices", "values"] {
        rows.find(&field.into()).unwrap();
    }
    let mut scratch = Scratch::default();
    let mut read = |record| {
        let mut values = 0;
        rows.fetch(&[record], 0, &mut scratch)?;
        rows.read(record, 0, &mut scratch, &mut |_, value| {
            values += 1;
            match value {
                Value::List(list) => list.each(&mut |_| Ok(())),
                _ => Ok(()),
            }
        })?;
        Ok(values)
    };
    (0..rows.len()).map(&mut read).collect()
}

#[test]
fn a_file_that_is_cut_off_has_good_rows_up_to_there() {
    let whole = std::fs::read(fixture("base-1.svm")).unwrap();
    let all = read_all(&whole, &LibsvmOptions::default());
    assert!(all.len() == 20 && all.iter().all(Result::is_ok));
    for cut in (0..whole.len()).step_by(7) {
        let read = read_all(&whole[..cut], &LibsvmOptions::default());
        let rows = whole[..cut].split_inclusive(|byte| *byte == b'\n').filter(|line| line[0] != b'#');
        let ended = rows.filter(|line| line.ends_with(b"\n")).count();
        assert!(read.len() <= ended + 1 && read.iter().take(ended).all(Result::is_ok), "{cut}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    /// Values or an error, never a panic.
    #[test]
    fn any_text_is_rows_or_errors(text in "([-+,:. #\\n0-9aq]|qid:|1:|\\PC){0,60}", features in 1usize..50, multilabel: bool) {
        let options = LibsvmOptions { multilabel, ..LibsvmOptions::default() };
        read_all(text.as_bytes(), &options);
        read_all(text.as_bytes(), &LibsvmOptions { features: Some(features), zero_based: true, ..options });
    }
}

#[test]
fn text_in_another_encoding_is_read_as_the_error_advises() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.svm");
    let text = "1 1:0.5 3:2\n0 2:4\n";
    let bytes: Vec<u8> = [0xfeff].into_iter().chain(text.encode_utf16()).flat_map(u16::to_le_bytes).collect();
    std::fs::write(&path, bytes).unwrap();
    let open = |options: &str| {
        let settings = format!("[source]\npath = {path:?}\nformat = \"libsvm\"\noptions = {{ {options} }}\n");
        Loader::from(toml::from_str::<LoaderConfig>(&settings).unwrap()).build()
    };
    let error = open("features = 3").map(drop).unwrap_err();
    assert!(error.message().contains("set encoding to \"utf-16le\""), "{error}");
    let batch = open("features = 3, encoding = \"utf-16le\"").unwrap().next().unwrap().unwrap();
    assert_eq!(batch.tensor("features").unwrap().as_slice::<f64>().unwrap(), [0.5, 0.0, 2.0, 0.0, 4.0, 0.0]);
}
