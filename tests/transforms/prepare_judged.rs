//! Fitted preprocessing beside scikit-learn and pandas, on columns of odd values: `fixtures/prepare/make.py`.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::HashMap;
use std::path::Path;

use ringfeed::Loader;
use ringfeed::prepare::Recipe;

/// Names and numbers of a CSV file, column by column.
fn columns(path: &Path) -> Vec<(String, Vec<f64>)> {
    let mut reader = csv::Reader::from_path(path).unwrap();
    let names = reader.headers().unwrap().clone();
    let mut columns: Vec<_> = names.iter().map(|name| (name.to_owned(), Vec::new())).collect();
    for record in reader.records() {
        let record = record.unwrap();
        for ((_, values), field) in columns.iter_mut().zip(&record) {
            values.push(field.parse().unwrap());
        }
    }
    columns
}

/// Fits to `train.csv`, prepares `all.csv`, and compares with `expected.csv`; gives how far apart the numbers are
/// at most, where scikit-learn has all digits.
fn compare(folder: &Path) -> f64 {
    let recipe: Recipe = serde_json::from_str(&std::fs::read_to_string(folder.join("recipe.json")).unwrap()).unwrap();
    let prepared = recipe.fit(&Loader::open(folder.join("train.csv")).unwrap()).unwrap();
    let all = Loader::open(folder.join("all.csv")).unwrap().prepare(&prepared).batch_size(1 << 20);
    let batch = all.build().unwrap().next().unwrap().unwrap();
    let mut found: HashMap<String, Vec<f64>> = HashMap::new();
    let features = batch.tensor("features").unwrap().as_slice::<f64>().unwrap();
    let names = prepared.feature_names();
    for (nth, name) in names.iter().enumerate() {
        found.insert(name.clone(), features.iter().skip(nth).step_by(names.len()).copied().collect());
    }
    let codes = batch.tensor("categories").unwrap().as_slice::<i64>().unwrap();
    let counts = prepared.code_counts();
    for (nth, (name, _)) in counts.iter().enumerate() {
        let own = codes.iter().skip(nth).step_by(counts.len()).map(|code| *code as f64);
        found.insert(format!("code of {name}"), own.collect());
    }
    let expected = columns(&folder.join("expected.csv"));
    assert_eq!(found.len(), expected.len(), "every feature and code is compared");
    let (mut most, mut wrong) = (0f64, Vec::new());
    for (name, expected) in expected {
        let own = found.get(&name).unwrap_or_else(|| panic!("no {name}"));
        let (tolerance, expected) = expected.split_first().unwrap();
        assert_eq!(own.len(), expected.len());
        let apart = own.iter().zip(expected).map(|(own, expected)| (own - expected).abs() / expected.abs().max(1.0));
        let apart = apart.fold(0f64, |most, apart| if apart.is_nan() { f64::NAN } else { most.max(apart) });
        if *tolerance < 1e-11 {
            most = most.max(apart);
        }
        if apart.is_nan() || apart > *tolerance {
            wrong.push(format!("{name}: {apart:e}"));
        }
    }
    assert!(
        wrong.is_empty(),
        "{} of {} columns: {}",
        wrong.len(),
        found.len(),
        wrong[..wrong.len().min(20)].join(", ")
    );
    most
}

#[test]
fn odd_columns_become_what_scikit_learn_and_pandas_make_of_them() {
    compare(Path::new("fixtures/prepare"));
}

#[test]
fn joined_and_derived_columns_become_what_pandas_makes_of_them() {
    compare(Path::new("fixtures/prepare/steps"));
}

/// As many columns as one likes: `python fixtures/prepare/make.py FOLDER 4000 200 7`, and then
/// `JUDGED=FOLDER cargo test --test transforms prepare_judged -- --ignored --nocapture`.
#[test]
#[ignore = "needs a folder that make.py wrote"]
fn many_columns_become_what_scikit_learn_and_pandas_make_of_them() {
    let folder = std::env::var("JUDGED").expect("a folder");
    println!("at most {:e} apart", compare(Path::new(&folder)));
}
