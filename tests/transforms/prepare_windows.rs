//! Windows as a part of a fitted recipe: in fitting, in training, and in a server, record by record.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::Path;

use ringfeed::field::Numbers;
use ringfeed::order::{Shard, Split};
use ringfeed::prepare::{
    DatePart, Mean, Median, Prepared, PreparedWindow, Recipe, RecipeFit, category, date, difference, join, number,
};
use ringfeed::read::{Value, Windows};
use ringfeed::tensor::Role;
use ringfeed::{DataSetIterator, ErrorKind, Loader, LoaderConfig};

const HEADER: &str = "sensor,at,warmth,wind,weather";

/// One record of a sensor.
#[derive(Clone, serde::Serialize)]
struct Record {
    sensor: &'static str,
    at: String,
    warmth: Option<f64>,
    wind: f64,
    weather: Option<&'static str>,
}

impl Record {
    fn csv(&self) -> String {
        let warmth = self.warmth.map_or(String::new(), |warmth| warmth.to_string());
        format!("{},{},{warmth},{},{}", self.sensor, self.at, self.wind, self.weather.unwrap_or_default())
    }

    fn json(&self) -> String {
        serde_json::to_string(self).unwrap()
    }

    fn values(&self) -> [(&str, Value<'_>); 5] {
        [
            ("sensor", Value::Text(self.sensor)),
            ("at", Value::Text(&self.at)),
            ("warmth", self.warmth.map_or(Value::Missing, Value::F64)),
            ("wind", Value::F64(self.wind)),
            ("weather", self.weather.map_or(Value::Missing, Value::Text)),
        ]
    }
}

/// Three sensors with 40, 25 and 11 records, some of whose values are missing, and a table of places.
fn sensors(folder: &Path) -> Vec<Vec<Record>> {
    let of = |(sensor, count): (&'static str, usize)| {
        let record = |i: usize| Record {
            sensor,
            at: format!("2024-{:02}-{:02}T{:02}:00:00", i % 12 + 1, i % 28 + 1, i % 24),
            warmth: (i % 6 != 2).then_some((i * i % 47) as f64 - 9.5),
            wind: (i * 7 % 13) as f64,
            weather: (i % 5 != 3).then_some(["sun", "rain", "snow"][i * i % 3]),
        };
        (0..count).map(record).collect::<Vec<_>>()
    };
    let series: Vec<Vec<Record>> = [("s1", 40), ("s2", 25), ("s3", 11)].map(of).into();
    let write = |name: &str, text: String| std::fs::write(folder.join(name), text).unwrap();
    let lines =
        |line: fn(&Record) -> String| series.iter().flatten().map(|record| line(record) + "\n").collect::<String>();
    write("sensors.csv", format!("{HEADER}\n{}", lines(Record::csv)));
    write("sensors.jsonl", lines(Record::json));
    write("places.csv", "sensor,height\ns1,12\ns2,\n".to_owned());
    series
}

fn table(folder: &Path) -> Loader {
    Loader::open(folder.join("sensors.csv")).unwrap()
}

fn columns(folder: &Path) -> Recipe {
    Recipe::new()
        .join("places", join(folder.join("places.csv"), "sensor").unknown())
        .derive("chill", difference("warmth", "wind"))
        .column("warmth", number().impute(Median).mask().standardise())
        .column("chill", number().impute(Mean).min_max(0.0, 1.0))
        .column("places.height", number().impute(Mean).mask())
        .column("at", date().cyclic(DatePart::Hour).part(DatePart::Month))
        .column("weather", category().unknown())
}

/// Where the part from 0 to this share of a series ends.
fn end(share: f64, series: &[Record]) -> usize {
    (series.len() as f64 * share).round() as usize
}

/// The bytes of the features and the codes of each sample, in the order of their ids.
fn samples(loader: &Loader) -> Vec<[Vec<u8>; 2]> {
    let mut samples = Vec::new();
    for batch in loader.build().unwrap().epoch().unwrap() {
        let batch = batch.unwrap();
        for (nth, id) in batch.sample_ids().iter().enumerate() {
            let bytes = ["features", "categories"].map(|name| {
                let bytes = batch.tensor(name).unwrap().bytes();
                bytes.chunks(bytes.len() / batch.len()).nth(nth).unwrap().to_vec()
            });
            samples.push((*id, bytes));
        }
    }
    samples.sort();
    samples.into_iter().map(|(_, bytes)| bytes).collect()
}

fn bytes(window: &PreparedWindow) -> [Vec<u8>; 2] {
    ["features", "categories"].map(|name| window.tensor(name).unwrap().bytes().to_vec())
}

/// Each record prepared by itself, one behind another.
fn stacked(prepared: &Prepared, records: &[Record]) -> [Vec<u8>; 2] {
    let (mut row, mut stacked) = (prepared.row(), [Vec::new(), Vec::new()]);
    for record in records {
        prepared.apply_csv(HEADER, &record.csv(), &mut row).unwrap();
        for (bytes, name) in stacked.iter_mut().zip(["features", "categories"]) {
            bytes.extend(row.tensor(name).unwrap().bytes());
        }
    }
    stacked
}

#[test]
fn a_server_makes_the_windows_that_training_saw_of_one_record_after_another() {
    let folder = tempfile::tempdir().unwrap();
    let series = sensors(folder.path());
    for (length, horizon, stride) in [(6, 2, 1), (6, 2, 4), (5, 0, 2), (1, 1, 1), (8, 1, 9)] {
        let windows = Windows::new(length, horizon).stride(stride).series("sensor").part(0.0, 0.8);
        let fitted = columns(folder.path()).windows(windows.clone()).fit(&table(folder.path())).unwrap();
        let in_part: usize = series.iter().map(|series| end(0.8, series)).sum();
        assert_eq!(fitted.records(), in_part as u64, "each record of the part once");
        let saved = folder.path().join("prepared.json");
        fitted.save(&saved).unwrap();
        let prepared = Prepared::load(&saved).unwrap();
        assert!(prepared == fitted && prepared.windows() == Some(&windows));

        let of = |rows: Loader| rows.prepare(&prepared).field("after", Numbers::f32().from("wind").role(Role::Label));
        let loader = of(table(folder.path())).batch_size(7);
        let batch = loader.build().unwrap().next().unwrap().unwrap();
        let shape = |name: &str| batch.tensor(name).unwrap().shape()[1..].to_vec();
        let after = if horizon > 0 { horizon } else { length };
        assert_eq!(
            (shape("features"), shape("categories"), shape("after")),
            (vec![length, 8], vec![length, 1], vec![after])
        );
        let trained = samples(&loader);
        assert_eq!(loader.plan().unwrap().samples, Some(trained.len() as u64));
        assert_eq!(loader.plan().unwrap().windows, Some(windows));
        let lines = Loader::open(folder.path().join("sensors.jsonl")).unwrap();
        for rows in [table(folder.path()).shuffle(3).workers(3), table(folder.path()).shield(), lines] {
            assert!(samples(&of(rows).batch_size(16)) == trained);
        }

        let mut expected = trained.iter();
        let mut ways: Vec<PreparedWindow> = (0..4).map(|_| prepared.window().unwrap()).collect();
        for series in &series {
            let part = &series[..end(0.8, series)];
            for (last, record) in part.iter().enumerate() {
                let are_full = [
                    ways[0].push_csv(HEADER, &record.csv()).unwrap(),
                    ways[1].push_json(&record.json()).unwrap(),
                    ways[2]
                        .push(record.values().into_iter().skip(1).chain([("sensor", Value::Text(record.sensor))]))
                        .unwrap(),
                    ways[3].push_struct(record).unwrap(),
                ];
                assert_eq!(are_full, [last + 1 >= length; 4]);
                assert_eq!((ways[0].len(), ways[0].is_full()), ((last + 1).min(length), are_full[0]));
                let Some(start) = (last + 1).checked_sub(length) else { continue };
                let found = bytes(&ways[0]);
                assert!(ways.iter().all(|window| bytes(window) == found), "however records are given");
                assert!(found == stacked(&prepared, &part[start..=last]), "what a naive slice gives");
                if start % stride == 0 && start + length + horizon <= part.len() {
                    assert!(found == *expected.next().unwrap(), "what training saw");
                }
            }
            ways.iter_mut().for_each(PreparedWindow::clear);
            assert!(ways.iter().all(|window| window.is_empty() && !window.is_full()));
        }
        assert!(expected.next().is_none() && !trained.is_empty());
        let shapes: Vec<_> = ways[0].tensors().iter().map(|spec| spec.shape.len()).collect();
        assert_eq!(shapes, [2, 2]);
    }
}

#[test]
fn threads_fill_windows_of_their_own() {
    let folder = tempfile::tempdir().unwrap();
    let series = sensors(folder.path());
    let prepared =
        columns(folder.path()).windows(Windows::new(5, 1).series("sensor")).fit(&table(folder.path())).unwrap();
    std::thread::scope(|scope| {
        for nth in 0..6 {
            let (prepared, records) = (&prepared, &series[nth % 3]);
            scope.spawn(move || {
                let mut window = prepared.window().unwrap();
                for last in 0..records.len() {
                    if window.push_json(&records[last].json()).unwrap() {
                        assert!(bytes(&window) == stacked(prepared, &records[last - 4..=last]));
                    }
                }
            });
        }
    });
}

#[test]
fn a_bad_record_leaves_the_window_as_it_was() {
    let folder = tempfile::tempdir().unwrap();
    let series = sensors(folder.path());
    let prepared =
        columns(folder.path()).windows(Windows::new(4, 1).series("sensor")).fit(&table(folder.path())).unwrap();
    let records = &series[0];
    let mut window = prepared.window().unwrap();
    let bad = |window: &mut PreparedWindow| {
        let before = (window.len(), window.is_full().then(|| bytes(window)));
        let is_bad = |pushed: ringfeed::Result<bool>, kind, part: &str| {
            let error = pushed.unwrap_err();
            assert!(error.kind() == kind && error.to_string().contains(part), "{error}");
        };
        is_bad(
            window.push_json(r#"{"sensor": "s1", "at": "2024-01-01", "warmth": 3, "wind": "much"}"#),
            ErrorKind::Data,
            "much",
        );
        is_bad(window.push_json(r#"{"sensor": "s1", "warmth": 3, "wind": 1}"#), ErrorKind::Data, "column \"at\"");
        is_bad(window.push_json(r#"{"sensor": "s1","#), ErrorKind::Data, "");
        is_bad(window.push_csv(HEADER, "s1,2024-01-01,3"), ErrorKind::Data, "3 fields; the header has 5");
        let two = "s1,2024-01-01,3,1,2\ns1,2024-01-02,3,1,2\n";
        is_bad(window.push_csv(HEADER, two), ErrorKind::Data, "more than one record");
        is_bad(window.push_csv(HEADER, "s1,2024-01-01,3,1,\"2"), ErrorKind::Data, "a quote is opened, and not closed");
        is_bad(window.push_csv("sensor,at", "s1,2024-01-01"), ErrorKind::NotFound, "in the header");
        is_bad(window.push([("winds", Value::F64(1.0))]), ErrorKind::NotFound, "did you mean \"wind\"?");
        is_bad(window.push_struct(&(1, 2)), ErrorKind::Data, "");
        assert!(before == (window.len(), window.is_full().then(|| bytes(window))));
    };
    for (last, record) in records.iter().enumerate() {
        bad(&mut window);
        let is_full = window.push_json(&record.json()).unwrap();
        if is_full {
            assert!(bytes(&window) == stacked(&prepared, &records[last - 3..=last]));
        } else {
            let error = window.f32("features").unwrap_err();
            assert!(error.kind() == ErrorKind::Data && error.message().contains("of its 4 records"), "{error}");
        }
    }
    bad(&mut window);
    assert_eq!(window.f32("features").unwrap().len(), 4 * 8);
    assert_eq!(window.i64("features").unwrap_err().kind(), ErrorKind::Schema);
    assert!(window.i64("category").unwrap_err().message().contains("did you mean \"categories\"?"));

    let single = columns(folder.path()).fit(&table(folder.path())).unwrap();
    let error = single.window().unwrap_err();
    assert!(error.kind() == ErrorKind::Config && error.message().contains("single records"), "{error}");
    // Of every record alone, there is a row as well.
    prepared.apply_json(&records[0].json(), &mut prepared.row()).unwrap();
}

#[test]
fn faults_of_windows_are_named_with_all_others() {
    let recipe = Recipe::new()
        .filter("x > 0")
        .windows(Windows::new(0, 1).stride(0).part(0.9, 0.1))
        .column("x", number().clip(2.0, 1.0));
    let faults = recipe.faults();
    for part in
        ["windows.length: 0", "windows.stride: 0", "windows.part: nothing lies", "there would be gaps", "columns.x"]
    {
        assert!(faults.iter().any(|fault| fault.contains(part)), "{part} in {faults:?}");
    }
    assert_eq!(faults.len(), 5, "{faults:?}");
    let error = RecipeFit::new(&recipe).unwrap_err();
    assert!(error.kind() == ErrorKind::Config && error.message().contains("5 faults"), "{error}");
    let wrong =
        |settings: &str| LoaderConfig::from_json(settings).map(Loader::from).unwrap().build().map(|_| ()).unwrap_err();
    let error = wrong(
        r#"{"source": {"path": "fixtures/iris.csv"}, "prepared": "fixtures/iris.csv", "windows": {"length": 3, "series": "a"},
            "prepare": {"windows": {"length": 4}, "filter": "x > 0", "columns": {"x": "number"}}}"#,
    );
    for part in
        ["prepare.windows: they consist", "{ length = 3, horizon = 1, stride = 1, series = \"a\"", "{ length = 4,"]
    {
        assert!(error.message().contains(part), "{part} in {error}");
    }
    let error = LoaderConfig::from_json(r#"{"prepare": {"windows": {"lenght": 4}, "columns": {}}}"#).unwrap_err();
    assert!(error.message().contains("prepare.windows.lenght"), "{error}");
    let error = LoaderConfig::from_json(r#"{"prepare": {"windows": 4, "columns": {}}}"#).unwrap_err();
    assert!(error.message().contains("prepare.windows: expected a table, found 4"), "{error}");
}

#[test]
fn windows_of_a_loader_only_choose_another_part_and_stride() {
    let folder = tempfile::tempdir().unwrap();
    let series = sensors(folder.path());
    let windows = || Windows::new(4, 1).series("sensor").part(0.0, 0.6);
    let recipe = columns(folder.path()).windows(windows());
    let prepared = recipe.fit(&table(folder.path())).unwrap();
    // By the loader's own windows, too, if they are the same.
    assert!(recipe.fit(&table(folder.path()).windows(windows())).unwrap() == prepared);
    let error = recipe.fit(&table(folder.path()).windows(windows().part(0.0, 0.5))).unwrap_err();
    assert!(error.kind() == ErrorKind::Config, "{error}");
    for part in ["part = [0, 0.5] }", "part = [0, 0.6] }"] {
        assert!(error.message().contains(part), "{part} in {error}");
    }
    assert_eq!(recipe.fit(&table(folder.path()).split(Split::train(0.8))).unwrap_err().kind(), ErrorKind::Config);

    let loader = || table(folder.path()).prepare(&prepared);
    let count = |loader: &Loader| {
        let counted = samples(loader).len();
        assert_eq!(loader.plan().unwrap().samples, Some(counted as u64));
        counted
    };
    let train: usize = series.iter().map(|series| (end(0.6, series) + 1).saturating_sub(5)).sum();
    assert_eq!(count(&loader()), train);
    assert_eq!(count(&loader().windows(windows())), train);
    let test = loader().windows(prepared.windows().unwrap().clone().part(0.6, 1.0));
    let later: usize = series.iter().map(|series| (series.len() - end(0.6, series) + 1).saturating_sub(5)).sum();
    assert_eq!(count(&test), later);
    let apart: usize = series.iter().map(|series| end(0.6, series).saturating_sub(5) / 5 + 1).sum();
    assert_eq!(count(&loader().windows(windows().stride(5))), apart);
    assert_eq!(loader().verify(|_| ()).unwrap().samples, 76, "records, which are not in windows there");

    for other in [Windows::new(5, 1).series("sensor"), Windows::new(4, 2).series("sensor"), Windows::new(4, 1)] {
        let said = other.to_string();
        let errors = [
            loader().windows(other.clone()).build().map(|_| ()).unwrap_err(),
            loader().windows(other.clone()).plan().map(|_| ()).unwrap_err(),
            loader().windows(other.clone()).serve().map(|_| ()).unwrap_err(),
        ];
        for error in errors {
            assert_eq!(error.kind(), ErrorKind::Config, "{error}");
            for part in [&said, &windows().to_string()] {
                assert!(error.message().contains(part), "{part} in {error}");
            }
        }
    }
    // What windows exclude, they exclude by way of a recipe, too.
    let refused = |loader: Loader, part: &str| {
        let error = loader.build().map(|_| ()).unwrap_err();
        assert!(error.kind() == ErrorKind::Config && error.to_string().contains(part), "{part} in {error}");
    };
    refused(loader().split(Split::train(0.8)), "windows.part");
    refused(loader().filter("wind > 3"), "there would be gaps");
    refused(loader().filter_by(["wind"], |_| true), "there would be gaps");
}

#[test]
fn settings_say_windows_of_a_recipe() {
    let folder = tempfile::tempdir().unwrap();
    sensors(folder.path());
    let settings = r#"
        prepared = "prepared.json"
        source = { path = "sensors.csv" }
        [fields]
        after = { from = "wind", numbers = "f32", role = "label" }
        [prepare.windows]
        length = 4
        series = "sensor"
        part = [0.0, 0.6]
        [prepare.join]
        places = { table = "places.csv", on = "sensor", unknown = true }
        [prepare.derive]
        chill = { difference = ["warmth", "wind"] }
        [prepare.columns]
        warmth = { number = { impute = "median", mask = true, scale = "standardise" } }
        chill = { number = { impute = "mean", scale = { min_max = {} } } }
        "places.height" = { number = { impute = "mean", mask = true } }
        at = { date = { cyclic = ["hour"], parts = ["month"] } }
        weather = { category = { unknown = true } }
    "#;
    std::fs::write(folder.path().join("loader.toml"), settings).unwrap();
    let config = LoaderConfig::load(folder.path().join("loader.toml")).unwrap();
    let written: LoaderConfig = toml::from_str(&toml::to_string(&config).unwrap()).unwrap();
    assert_eq!(written, config);
    let recipe = config.prepare.clone().unwrap();
    assert_eq!(recipe, columns(folder.path()).windows(Windows::new(4, 1).series("sensor").part(0.0, 0.6)));
    let fitted = recipe.fit(&Loader::from(config.clone())).unwrap();
    fitted.save(folder.path().join("prepared.json")).unwrap();
    let said = Loader::from(config.clone());
    assert!(samples(&said) == samples(&table(folder.path()).prepare(&fitted)));
    assert_eq!(said.plan().unwrap().windows.as_ref(), fitted.windows());
    let other = Loader::from(LoaderConfig { prepare: None, ..config }).windows(Windows::new(3, 1).series("sensor"));
    let error = other.build().map(|_| ()).unwrap_err();
    assert!(error.message().contains("{ length = 3,") && error.message().contains("{ length = 4,"), "{error}");
}

#[test]
fn shards_with_windows_are_fitted_as_the_whole() {
    let folder = tempfile::tempdir().unwrap();
    sensors(folder.path());
    let recipe = |part| columns(folder.path()).windows(Windows::new(4, 1).series("sensor").part(0.0, part));
    let whole = recipe(0.7).fit(&table(folder.path())).unwrap();
    let mut merged = RecipeFit::new(&recipe(0.7)).unwrap();
    for index in 0..3 {
        let mut fit = RecipeFit::new(&recipe(0.7)).unwrap();
        fit.observe_all(&table(folder.path()).shard(Shard { index, count: 3 })).unwrap();
        let text = fit.to_json().unwrap();
        assert!(text.starts_with("{\"version\":3,"), "{}", &text[..20]);
        merged.merge(&RecipeFit::from_json(&text).unwrap()).unwrap();
    }
    assert!(merged.finish().unwrap() == whole);
    let other = RecipeFit::new(&recipe(0.8)).unwrap();
    assert_eq!(merged.merge(&other).unwrap_err().kind(), ErrorKind::Config);
    assert!(recipe(0.8).fit(&table(folder.path())).unwrap() != whole);
}

/// Files as they were written by versions that knew nothing of windows, and as they are with them.
#[test]
fn the_saved_form_is_fixed_and_earlier_ones_are_read() {
    let golden = |version: u32, steps: &str| {
        let steps = if steps.is_empty() { String::new() } else { format!("\n    {steps},") };
        format!(
            r#"{{
  "version": {version},
  "prepared": {{{steps}
    "dtype": "f32",
    "records": 2,
    "quantile_error": 0.0,
    "columns": [
      {{
        "name": "x",
        "fitted": {{
          "number": {{
            "impute": 2.0,
            "mask": false,
            "shape": {{
              "clip": null,
              "log1p": false
            }},
            "scale": null
          }}
        }}
      }}
    ]
  }}
}}"#
        )
    };
    let windows = r#""windows": {
      "length": 3,
      "horizon": 1,
      "stride": 2,
      "series": "sensor",
      "part": [
        0.0,
        0.75
      ]
    }"#;
    let column = || Recipe::new().column("x", number().impute(Mean));
    let recipes = [
        (column(), golden(1, "")),
        (column().filter("x < 9"), golden(2, r#""filter": "x < 9""#)),
        (column().windows(Windows::new(3, 1).stride(2).series("sensor").part(0.0, 0.75)), golden(3, windows)),
    ];
    for (recipe, golden) in &recipes {
        let mut fit = RecipeFit::new(recipe).unwrap();
        fit.observe(&[Value::F64(1.0)]).unwrap();
        fit.observe(&[Value::F64(3.0)]).unwrap();
        let fitted = fit.finish().unwrap();
        assert_eq!(fitted.to_json().unwrap(), *golden);
        assert!(Prepared::from_json(golden).unwrap() == fitted);
    }
    let refused = |from: &str, to: &str, part: &str| {
        let error = Prepared::from_json(&recipes[2].1.replacen(from, to, 1)).unwrap_err();
        assert!(error.kind() == ErrorKind::Format && error.message().contains(part), "{error}");
    };
    refused("\"length\": 3", "\"length\": 0", "windows.length: 0");
    refused("0.75", "-0.75", "windows.part");
    refused("\"windows\": {", "\"filter\": \"x < 9\", \"windows\": {", "there would be gaps");
    refused("\"version\": 3", "\"version\": 4", "reads 1 to 3");
    refused("\"stride\": 2", "\"strides\": 2", "strides");
}
