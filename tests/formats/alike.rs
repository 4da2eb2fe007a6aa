//! A field means the same in CSV and in JSON Lines, whose values take different ways.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use ringfeed::field::{Category, Class, Field, Numbers};
use ringfeed::{DType, DataSet, ErrorKind, Loader, Normaliser, Result};

/// The first batch of a table with a column `x` of these values, from CSV and from JSON Lines.
fn of_both<T: std::fmt::Display>(values: &[T], fields: impl Fn(Loader) -> Loader) -> [Result<DataSet>; 2] {
    let folder = tempfile::tempdir().unwrap();
    let csv: String = values.iter().map(|value| format!("{value},7\n")).collect();
    let json: String = values.iter().map(|value| format!("{{\"x\": {value}}}\n")).collect();
    [("x.csv", format!("x,y\n{}", csv.replace('"', ""))), ("x.jsonl", json)].map(|(name, text)| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        fields(Loader::open(path)?).batch_size(values.len()).build()?.next().unwrap()
    })
}

/// The integer that a value becomes; `None` if it makes its record bad.
fn code_of(value: &str, field: impl Into<Field>) -> Option<i64> {
    let field = field.into();
    let [csv, json] = of_both(&[value], |loader| loader.field("x", field.clone())).map(|batch| match batch {
        Ok(batch) => Some(batch.tensor("x").unwrap().as_slice::<i64>().unwrap()[0]),
        Err(error) => {
            assert_eq!(error.kind(), ErrorKind::Data, "{error}");
            None
        }
    });
    assert_eq!(csv, json, "{value}");
    csv
}

#[test]
fn an_integer_is_the_index_of_a_class_only_where_no_name_is_a_number() {
    let category = || Category::new().names([vec!["blue".into(), "red".into()]]);
    assert_eq!(["\"red\"", "1", "0", "7"].map(|value| code_of(value, category())), [Some(1), None, None, None]);
    let numbers = || Category::new().names([vec!["7".into(), "1".into()]]);
    assert_eq!(["7", "1", "0"].map(|value| code_of(value, numbers())), [Some(0), Some(1), None]);
    let class = || Class::of(["blue", "red"]);
    assert_eq!(["\"red\"", "1", "2"].map(|value| code_of(value, class())), [Some(1), Some(1), None]);
    let fractions = || Class::of(["0.5", "1.5", "2.5"]);
    assert_eq!(["\"1.5\"", "2"].map(|value| code_of(value, fractions())), [Some(1), None]);
}

#[test]
fn numbers_of_16_bits_are_scaled_alike() {
    let mut state = 7u64;
    let mut random = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        state >> 33
    };
    let mut values = vec!["999.9851".to_owned(), "16777.217".to_owned(), "-0.1".to_owned()];
    values.extend((0..6000).map(|nth| {
        let (whole, fraction) = (random() % 2000, random());
        if nth % 7 == 0 { format!("-{whole}") } else { format!("{whole}.{fraction:010}") }
    }));
    for dtype in [DType::F16, DType::Bf16, DType::F32] {
        for (mean, deviation) in [(1000.0, 1.0), (0.0, 0.37), (-3.25, 1234.5)] {
            let normaliser = Normaliser::Standardise { axis: None, mean: vec![mean], deviation: vec![deviation] };
            let fields = |loader: Loader| loader.field("x", Numbers::of(dtype)).normalise("x", normaliser.clone());
            let [csv, json] = of_both(&values, fields).map(Result::unwrap);
            let elements = |batch: &DataSet| {
                let bytes = batch.tensor("x").unwrap().bytes().to_vec();
                bytes.chunks_exact(dtype.bytes()).map(<[u8]>::to_vec).collect::<Vec<_>>()
            };
            for ((value, csv), json) in values.iter().zip(elements(&csv)).zip(elements(&json)) {
                assert_eq!(csv, json, "{value} as {dtype}, mean {mean}, deviation {deviation}");
            }
        }
    }
}

#[test]
fn one_hot_rows_are_normalised_alike() {
    let values = ["\"b\"", "\"a\"", "\"c\""];
    let normaliser = Normaliser::Standardise { axis: None, mean: vec![0.25], deviation: vec![0.5] };
    for dtype in [DType::F16, DType::F32, DType::F64] {
        let field = Class::of(["a", "b", "c"]).one_hot().dtype(dtype);
        let fields = |loader: Loader| loader.field("x", field.clone()).normalise("x", normaliser.clone());
        let [csv, json] = of_both(&values, fields).map(Result::unwrap);
        let (csv, json) = (csv.tensor("x").unwrap(), json.tensor("x").unwrap());
        assert_eq!(csv.bytes(), json.bytes(), "{dtype}");
        if dtype == DType::F32 {
            let [no, yes] = [-0.5, 1.5];
            assert_eq!(json.as_slice::<f32>().unwrap(), [no, yes, no, yes, no, no, no, no, yes]);
        }
    }
}
