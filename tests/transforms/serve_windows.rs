//! Windows of records in memory, by the fields and transforms of a loader: the bytes that the loader gives.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::Path;

use ringfeed::csv::Missing;
use ringfeed::field::{Category, Numbers, Tokens};
use ringfeed::prepare::{Mean, Recipe, category, number};
use ringfeed::read::{Value, Windows};
use ringfeed::serve::{ServedRow, ServedWindow};
use ringfeed::tensor::{Role, TensorSpec};
use ringfeed::transform::clip;
use ringfeed::{Error, ErrorKind, Loader, Normaliser};

const HEADER: &str = "sensor,x,y,kind";

#[derive(serde::Serialize)]
struct Record {
    sensor: &'static str,
    x: Option<f64>,
    y: i64,
    kind: &'static str,
}

impl Record {
    fn csv(&self) -> String {
        let x = self.x.map_or(String::new(), |x| x.to_string());
        format!("{},{x},{},{}", self.sensor, self.y, self.kind)
    }
}

/// Two sensors with 23 and 9 records.
fn records(folder: &Path) -> Vec<Vec<Record>> {
    let of = |(sensor, count): (&'static str, usize)| {
        let record = |i: usize| Record {
            sensor,
            x: (i % 7 != 4).then_some((i * i % 31) as f64 / 4.0),
            y: (i * 5 % 11) as i64,
            kind: ["a", "b"][i * i % 3 % 2],
        };
        (0..count).map(record).collect::<Vec<_>>()
    };
    let series: Vec<Vec<Record>> = [("one", 23), ("two", 9)].map(of).into();
    let lines: String = series.iter().flatten().map(|record| record.csv() + "\n").collect();
    std::fs::write(folder.join("rows.csv"), format!("{HEADER}\n{lines}")).unwrap();
    series
}

/// The name and bytes of each tensor that is served.
fn tensors(row: &ServedRow) -> Vec<(String, Vec<u8>)> {
    row.tensors().map(|tensor| (tensor.name().to_owned(), tensor.bytes().to_vec())).collect()
}

#[test]
fn windows_of_a_loader_are_served_with_its_recipe_normalisers_and_transforms() {
    let folder = tempfile::tempdir().unwrap();
    let series = records(folder.path());
    let rows = || Loader::open(folder.path().join("rows.csv")).unwrap();
    let recipe = Recipe::new().column("x", number().impute(Mean).standardise()).column("kind", category());
    let (length, horizon, stride) = (4, 2, 3);
    let windows = Windows::new(length, horizon).stride(stride).series("sensor");
    let scale = Normaliser::Standardise { axis: Some(1), mean: vec![1.0, 5.0], deviation: vec![2.0, 3.0] };
    let with = |loader: Loader| {
        loader
            .field("both", Numbers::f32().missing(Missing::Nan).from(["x", "y"]))
            .field("kind", Category::new().names([vec!["a".to_owned(), "b".to_owned()]]))
            .field("after", Numbers::f32().from("y").role(Role::Label))
            .normalise("both", scale.clone())
            .transform(clip("both", -1.0, 1.0))
            .transform(clip("after", 0.0, 1.0))
            .map(TensorSpec::f32("sum", [1]), |window, out, _| {
                out.f32()?[0] = window.f32("both")?.iter().filter(|x| !x.is_nan()).sum();
                Ok(())
            })
    };
    let in_recipe = recipe.clone().windows(windows.clone()).fit(&rows()).unwrap();
    let in_loader = recipe.fit(&rows()).unwrap();
    for loader in [with(rows().prepare(&in_recipe)), with(rows().prepare(&in_loader).windows(windows.clone()))] {
        let served = loader.serve().unwrap();
        let names: Vec<&str> = served.tensors().iter().map(|spec| spec.name.as_str()).collect();
        assert_eq!(names, ["features", "categories", "both", "kind", "sum"]);
        let mut trained = Vec::new();
        for batch in loader.batch_size(1).build().unwrap() {
            let batch = batch.unwrap();
            let bytes = |name: &&str| ((*name).to_owned(), batch.tensor(name).unwrap().bytes().to_vec());
            trained.push(names.iter().map(bytes).collect::<Vec<_>>());
        }
        let mut expected = trained.iter();
        let mut ways: Vec<ServedWindow> = (0..4).map(|_| served.window().unwrap()).collect();
        for series in &series {
            for (last, record) in series.iter().enumerate() {
                let text = serde_json::to_string(record).unwrap();
                let x = record.x.map_or(Value::Missing, Value::F64);
                let are_full = [
                    ways[0].push_csv(HEADER, &record.csv()).unwrap(),
                    ways[1].push_json(&text).unwrap(),
                    ways[2].push([("x", x), ("y", Value::I64(record.y)), ("kind", Value::Text(record.kind))]).unwrap(),
                    ways[3].push_struct(record).unwrap(),
                ];
                assert_eq!(are_full, [last + 1 >= length; 4]);
                let Some(start) = (last + 1).checked_sub(length) else { continue };
                let found = tensors(ways[0].latest().unwrap());
                for window in &mut ways {
                    assert!(tensors(window.latest().unwrap()) == found, "however records are given");
                }
                assert_eq!(ways[0].latest().unwrap().tensor("both").unwrap().shape(), [length, 2]);
                if start % stride == 0 && start + length + horizon <= series.len() {
                    assert!(found == *expected.next().unwrap(), "what training saw");
                }
            }
            ways.iter_mut().for_each(ServedWindow::clear);
            assert!(ways.iter().all(ServedWindow::is_empty));
        }
        assert!(expected.next().is_none() && trained.len() == 8, "{}", trained.len());
    }
}

#[test]
fn what_is_no_window_is_an_error_and_loses_nothing() {
    let loader = || Loader::csv("nowhere.csv").field("x", Numbers::f32()).windows(Windows::new(3, 1));
    let served = loader().serve().unwrap();
    let error = served.apply_json(r#"{"x": 1}"#, &mut served.row()).unwrap_err();
    assert!(error.kind() == ErrorKind::Config && error.message().contains("push them to a `window`"), "{error}");
    let single = Loader::csv("nowhere.csv").field("x", Numbers::f32()).serve().unwrap();
    let error = single.window().unwrap_err();
    assert!(error.kind() == ErrorKind::Config && error.message().contains("single records"), "{error}");

    let mut window = served.window().unwrap();
    let error = window.latest().unwrap_err();
    assert!(error.kind() == ErrorKind::Data && error.message().contains("0 of its 3 records"), "{error}");
    for x in 0..5 {
        assert_eq!(window.push_json(r#"{"x": "many"}"#).unwrap_err().kind(), ErrorKind::Data);
        assert_eq!(window.push([("y", Value::I64(1))]).unwrap_err().kind(), ErrorKind::NotFound);
        window.push([("x", Value::I64(x))]).unwrap();
        if x > 1 {
            let expected = [x - 2, x - 1, x].map(|x| x as f32);
            assert_eq!(window.latest().unwrap().f32("x").unwrap(), expected);
            assert!(window.push_csv("x", "many").is_err());
            assert_eq!(window.latest().unwrap().f32("x").unwrap(), expected);
        }
    }
    // A transform is of a window: where it fails, the records stay, and the next window has them.
    let picky = loader().map(TensorSpec::f32("first", [1]), |window, out, _| {
        out.f32()?[0] = window.f32("x")?[0];
        if out.f32()?[0] == 1.0 { Err(Error::new(ErrorKind::Data, "it begins with 1")) } else { Ok(()) }
    });
    let mut window = picky.serve().unwrap().window().unwrap();
    for x in 0..6 {
        window.push([("x", Value::I64(x))]).unwrap();
        match x {
            0 | 1 => assert!(!window.is_full() && window.len() == x as usize + 1),
            3 => {
                for _ in 0..2 {
                    assert_eq!(window.latest().unwrap_err().message(), "it begins with 1");
                }
            }
            _ => assert_eq!(window.latest().unwrap().f32("first").unwrap(), [(x - 2) as f32]),
        }
    }

    let refused = |loader: Loader, part: &str| {
        let error = loader.serve().unwrap_err();
        assert!(error.kind() == ErrorKind::Config && error.to_string().contains(part), "{part} in {error}");
    };
    refused(loader().windows(Windows::new(0, 1)), "windows.length: 0");
    refused(loader().field("ids", Tokens::from("ids")), "differs from record to record");
    refused(loader().bucket("x", [4]), "leave out bucket");
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("t.csv"), "x\n1\n2\n").unwrap();
    let rows = Loader::open(folder.path().join("t.csv")).unwrap();
    let filtered = Recipe::new().filter("x > 0").column("x", number()).fit(&rows).unwrap();
    refused(rows.prepare(&filtered).windows(Windows::new(1, 0)), "there would be gaps");
}
