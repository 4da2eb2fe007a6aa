//! Fitted preprocessing: what is fitted, saved and loaded, and that a server sees what training saw.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use proptest::prelude::*;
use ringfeed::field::Numbers;
use ringfeed::order::{Shard, Split};
use ringfeed::prepare::{
    Column, DatePart, Mean, Median, MostFrequent, Prepared, Recipe, RecipeFit, category, date, hash, number,
};
use ringfeed::read::{JsonLines, LineOptions, Value};
use ringfeed::settings::{BadLimits, BadRecords};
use ringfeed::{DataSetIterator, ErrorKind, Loader, LoaderConfig, Normaliser};

/// Ages, cities and dates with gaps, odd names and numbers.
const PEOPLE: [(Option<f64>, Option<&str>, Option<&str>); 6] = [
    (Some(30.0), Some("Oslo"), Some("2024-01-31")),
    (None, Some("Bergen"), Some("2023-07-01T06:30:00")),
    (Some(50.0), None, Some("2024-02-29")),
    (Some(-0.0), Some("Oslo"), None),
    (Some(1e6), Some("Tromsø"), Some("1999-12-31T23:59:59Z")),
    (Some(30.5), Some("3.0"), Some("2024-01-31")),
];

fn people() -> Recipe {
    crate::common::watchdog::watch();
    Recipe::new()
        .column("age", number().impute(Median).mask().standardise())
        .column("city", category().unknown())
        .column("joined", date().cyclic(DatePart::Month).part(DatePart::Year).impute(MostFrequent).min_max(0.0, 1.0))
        .column("town", category().one_hot().impute("none").mask())
        .column("agent", hash(8).mask())
}

fn values<'a>((age, city, joined): (Option<f64>, Option<&'a str>, Option<&'a str>)) -> [Value<'a>; 5] {
    let text = |text: Option<&'a str>| text.map_or(Value::Missing, Value::Text);
    [age.map_or(Value::Missing, Value::F64), text(city), text(joined), text(city), text(city)]
}

fn fitted() -> Prepared {
    let mut fit = RecipeFit::new(&people()).unwrap();
    PEOPLE.into_iter().for_each(|person| fit.observe(&values(person)).unwrap());
    fit.finish().unwrap()
}

#[test]
fn numbers_names_and_dates_become_features_and_codes() {
    let prepared = fitted();
    let names = ["age", "age_missing", "joined_year", "joined_month_sin", "joined_month_cos"];
    let towns = ["town=3", "town=Bergen", "town=Oslo", "town=Tromsø", "town=none", "town_missing", "agent_missing"];
    assert_eq!(prepared.feature_names(), [&names[..], &towns].concat());
    assert_eq!(prepared.code_counts(), [("city".to_owned(), 5), ("agent".to_owned(), 9)]);
    assert_eq!((prepared.records(), prepared.quantile_error()), (6, 0.0));

    // NumPy: x = [30, 30.5, 50, 0, 1e6, 30.5] with the median for the missing one; (x - x.mean()) / x.std().
    let mut row = prepared.row();
    prepared.apply_json(r#"{"age": null, "city": "Paris", "joined": "2024-04-01", "town": "Oslo"}"#, &mut row).unwrap();
    let features = row.f32("features").unwrap();
    assert_eq!(features.len(), 12);
    assert_eq!(features[0], -0.447_207_42);
    assert_eq!(features[1..4], [1.0, 1.0, 1.0]);
    assert!(features[4].abs() < 1e-7);
    assert_eq!(features[5..], [0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0]);
    assert_eq!(row.i64("categories").unwrap(), [0, 0], "an unknown name, and a missing one to hash");
    prepared.apply_json(r#"{"town": "Oslo", "agent": "Oslo", "city": 3.0}"#, &mut row).unwrap();
    assert_eq!(row.i64("categories").unwrap(), [1, 4], "hashes never change");
    let error = prepared.apply_json(r#"{"town": "oslo"}"#, &mut row).unwrap_err();
    assert_eq!((error.kind(), error.location().column.as_deref()), (ErrorKind::Data, Some("town")));
    assert!(error.message().contains("did you mean \"Oslo\"?"), "{error}");
}

#[test]
fn what_is_imputed_counts_as_often_as_it_stands_in() {
    let fit = |column: Column, values: &[Value<'_>]| {
        let mut fit = RecipeFit::new(&Recipe::new().column("x", column)).unwrap();
        values.iter().for_each(|value| fit.observe(&[*value]).unwrap());
        fit.finish().unwrap()
    };
    // As in a table whose gaps were filled before: b is there four times, and a three times.
    let [a, b] = ["a", "b"].map(Value::Text);
    let names = [a, b, Value::Missing, a, b, a, Value::Missing];
    let named = fit(category().impute("b").by_frequency().one_hot().into(), &names);
    assert_eq!(named.feature_names(), ["x=b", "x=a"]);
    // numpy: x = [2010, 2020, 2000, 2000]; (2000 - x.mean()) / x.std()
    let dates = [Value::Text("2010-05-01"), Value::Text("2020-01-01"), Value::Missing, Value::Missing];
    let years = fit(date().part(DatePart::Year).impute("2000-01-01").standardise().into(), &dates);
    let mut row = years.row();
    years.apply([("x", Value::Missing)], &mut row).unwrap();
    assert!((row.f32("features").unwrap()[0] + 0.904_534).abs() < 1e-5, "{:?}", row.f32("features"));
}

#[test]
fn another_header_is_read_anew() {
    let recipe = Recipe::new().column("x", number()).column("y", number());
    let mut fit = RecipeFit::new(&recipe).unwrap();
    fit.observe(&[Value::I64(0), Value::I64(0)]).unwrap();
    let prepared = fit.finish().unwrap();
    let mut row = prepared.row();
    for (header, line) in [("x,y", "1,2"), ("x,y", "1,2"), ("y,x", "2,1"), ("z,y,x", "0,2,1"), ("x,y", "1,2")] {
        prepared.apply_csv(header, line, &mut row).unwrap();
        assert_eq!(row.f32("features").unwrap(), [1.0, 2.0], "{header}");
    }
}

#[test]
fn what_is_saved_is_loaded_to_the_bit() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("prepared.json");
    let prepared = fitted();
    prepared.save(&path).unwrap();
    let loaded = Prepared::load(&path).unwrap();
    assert!(loaded == prepared);
    let text = std::fs::read_to_string(&path).unwrap();
    assert_eq!(text.trim_end(), loaded.to_json().unwrap());
    for name in ["\"age\"", "\"Tromsø\"", "\"version\": 1"] {
        assert!(text.contains(name), "{name}");
    }
    // A row of one serves the other.
    let mut row = prepared.row();
    loaded.apply_json("{}", &mut row).unwrap();

    let refused = |text: &str| {
        std::fs::write(&path, text).unwrap();
        let error = Prepared::load(&path).unwrap_err();
        assert_eq!((error.kind(), error.path()), (ErrorKind::Format, Some(path.as_path())), "{error}");
        error.to_string()
    };
    assert!(refused(&text.replace("\"version\": 1", "\"version\": 4, \"x\": 0")).contains("version 4"));
    assert!(refused("{}").contains("not a fitted recipe"));
    assert!(refused(&text.replace("\"records\"", "\"recordz\"")).contains("recordz"));
    assert!(refused(&text.replace("\"buckets\": 8", "\"buckets\": 0")).contains("buckets"));
    assert!(refused(&text.replace("\"Bergen\"", "\"Oslo\"")).contains("twice"));
    assert!(refused(&text.replace("\"name\": \"agent\"", "\"name\": \"age\"")).contains("twice"));
    assert!(refused(&text.replace("\"deviation\": ", "\"deviation\": -")).contains("out of order"));
}

#[test]
fn a_record_is_the_same_in_every_form() {
    #[derive(serde::Serialize)]
    struct Person {
        age: Option<f64>,
        city: Option<&'static str>,
        joined: Option<&'static str>,
        town: Option<&'static str>,
        agent: Option<&'static str>,
    }
    let prepared = fitted();
    let (mut row, mut other) = (prepared.row(), prepared.row());
    let bytes = |row: &ringfeed::prepare::PreparedRow| {
        [row.tensor("features").unwrap().bytes(), row.tensor("categories").unwrap().bytes()].concat()
    };
    for person in PEOPLE {
        let names = ["age", "city", "joined", "town", "agent"];
        prepared.apply(names.into_iter().zip(values(person)), &mut row).unwrap();
        let (age, city, joined) = person;
        let record = Person { age, city, joined, town: city, agent: city };
        let text = |text: Option<&str>| text.unwrap_or_default().to_owned();
        prepared.apply_struct(&record, &mut other).unwrap();
        assert_eq!(bytes(&row), bytes(&other), "a struct: {person:?}");
        prepared.apply_json(&serde_json::to_string_pretty(&record).unwrap(), &mut other).unwrap();
        assert_eq!(bytes(&row), bytes(&other), "JSON: {person:?}");
        let (age, city, joined) = (age.map_or("NA".to_owned(), |age| age.to_string()), text(city), text(joined));
        let line = format!("{city};\"{age}\";x;{joined};{city};\"{city}\"\r\n");
        prepared.apply_csv("town;age;other;joined;city;agent", &line, &mut other).unwrap();
        assert_eq!(bytes(&row), bytes(&other), "CSV: {person:?}");
    }
    let error = prepared.apply_csv("town,age,joined,citi,agent", "", &mut row).unwrap_err();
    assert!(error.message().contains("did you mean \"citi\"?"), "{error}");
    let error = prepared.apply_csv("town,age,joined,city,agent", "Oslo,1,2024-01-01,Oslo", &mut row).unwrap_err();
    assert!(error.message().contains("4 fields; the header has 5"), "{error}");
    let error = prepared.apply([("town", Value::Text("Oslo")), ("agee", Value::I64(3))], &mut row).unwrap_err();
    assert!(error.message().contains("did you mean \"age\"?"), "{error}");
    let error = prepared.apply_json("{\"age\": 3,}", &mut row).unwrap_err();
    assert_eq!((error.kind(), error.location().byte), (ErrorKind::Data, Some(10)), "{error}");
    let another = RecipeFit::new(&Recipe::new().column("x", hash(3))).and_then(|mut fit| {
        fit.observe(&[Value::Missing])?;
        fit.finish()
    });
    let error = another.unwrap().apply_json("{}", &mut row).unwrap_err();
    assert!(error.message().contains("of another recipe"), "{error}");
}

#[test]
fn many_threads_serve_at_once() {
    let prepared = fitted();
    let texts: Vec<String> =
        (0..1000).map(|i| format!("{{\"age\": {i}, \"town\": \"Oslo\", \"agent\": \"{i}\"}}")).collect();
    let serve = |text: &String, row: &mut ringfeed::prepare::PreparedRow| {
        prepared.apply_json(text, row).unwrap();
        (row.f32("features").unwrap().to_vec(), row.i64("categories").unwrap().to_vec())
    };
    let mut row = prepared.row();
    let alone: Vec<_> = texts.iter().map(|text| serve(text, &mut row)).collect();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let mut row = prepared.row();
                let together: Vec<_> = texts.iter().map(|text| serve(text, &mut row)).collect();
                assert_eq!(together, alone);
            });
        }
    });
}

#[test]
fn faults_of_a_recipe_are_all_named() {
    let faults = |recipe: &Recipe| recipe.faults().join("\n");
    assert!(faults(&Recipe::new()).contains("columns: 0"));
    let recipe = Recipe::new()
        .column("a", number().mask())
        .column("a", number().impute("x").clip(2.0, 1.0))
        .column("b", category().most(3))
        .column("c", category().impute(Mean))
        .column("d", hash(0))
        .column("e", date())
        .column("f", date().cyclic(DatePart::Year).format("%q"))
        .column("g", number().quantile(1))
        .dtype(ringfeed::DType::I64);
    let parts = [
        "columns.a.number.mask: also give impute",
        "columns.a: it is listed twice",
        "columns.a.number.clip",
        "columns.a.number.impute: \"x\" is not allowed; it is \"mean\", \"median\" or \"most_frequent\", or a number",
        "columns.b.category: most, at_least",
        "columns.c.category.impute: for names, give",
        "columns.d.hash.buckets",
        "columns.e.date.parts: list at least one",
        "columns.f.date.cyclic: year does not repeat",
        "columns.f.date.format: %q is not known",
        "columns.g.number.scale: 1 quantiles",
        "dtype: i64",
    ];
    for part in parts {
        assert!(faults(&recipe).contains(part), "{part} in {}", faults(&recipe));
    }
    assert_eq!(RecipeFit::new(&recipe).unwrap_err().kind(), ErrorKind::Config);
}

fn one(column: impl Into<Column>) -> RecipeFit {
    RecipeFit::new(&Recipe::new().column("x", column)).unwrap()
}

#[test]
fn what_cannot_be_fitted_or_prepared_names_its_column() {
    let mut fit = one(number().impute(Mean));
    assert!(fit.finish().unwrap_err().message().contains("no record"));
    fit.observe(&[Value::F64(f64::NAN)]).unwrap();
    let error = fit.finish().unwrap_err();
    assert_eq!(error.location().column.as_deref(), Some("x"));
    assert!(error.message().contains("all values are missing"), "{error}");
    for (value, part) in [
        (Value::F64(f64::INFINITY), "expected a finite number"),
        (Value::Text("many"), "expected a number, found \"many\""),
    ] {
        let error = fit.observe(&[value]).unwrap_err();
        assert!(error.message().contains(part) && error.location().column.as_deref() == Some("x"), "{error}");
    }
    assert!(one(number()).observe(&[Value::Missing]).unwrap_err().message().contains("`impute`"));
    assert!(one(category()).observe(&[Value::Text(" ")]).unwrap_err().message().contains("`impute`"));

    // A record that is bad in one column does not count in the others.
    let recipe = Recipe::new().column("x", number().standardise()).column("y", number());
    let mut fit = RecipeFit::new(&recipe).unwrap();
    fit.observe(&[Value::I64(1), Value::I64(1)]).unwrap();
    fit.observe(&[Value::I64(1000), Value::Text("?")]).unwrap_err();
    fit.observe(&[Value::I64(1000), Value::Missing]).unwrap_err();
    fit.observe(&[Value::I64(3), Value::I64(1)]).unwrap();
    let prepared = fit.finish().unwrap();
    let mut row = prepared.row();
    prepared.apply_json(r#"{"x": 3, "y": 3e38}"#, &mut row).unwrap();
    assert_eq!(row.f32("features").unwrap(), [1.0, 3e38]);
    let error = prepared.apply_json(r#"{"x": 3, "y": 4e38}"#, &mut row).unwrap_err();
    assert!(error.message().contains("which is beyond the range of f32"), "{error}");
}

#[test]
fn names_are_kept_by_how_often_they_occur() {
    let codes = |column: ringfeed::prepare::Category, names: &[&str]| {
        let mut fit = one(column);
        for name in ["b", "a", "c", "b", "a", "b", "", "d"] {
            fit.observe(&[Value::Text(name)]).unwrap();
        }
        let prepared = fit.finish().unwrap();
        let mut row = prepared.row();
        let code = |name: &&str| {
            prepared.apply([("x", Value::Text(name))], &mut row).unwrap();
            row.i64("categories").unwrap()[0]
        };
        names.iter().map(code).collect::<Vec<i64>>()
    };
    let names = ["a", "b", "c", "d", "", "e"];
    assert_eq!(codes(category().unknown(), &names), [1, 2, 3, 4, 0, 0]);
    assert_eq!(codes(category().unknown().by_frequency(), &names), [2, 1, 3, 4, 0, 0]);
    assert_eq!(codes(category().unknown().most(2), &names), [1, 2, 0, 0, 0, 0]);
    assert_eq!(codes(category().unknown().at_least(2), &names), [1, 2, 0, 0, 0, 0]);
    assert_eq!(codes(category().impute(MostFrequent), &names[..5]), [0, 1, 2, 3, 1]);
    assert_eq!(codes(category().impute("d").unknown().most(2).by_frequency(), &names), [2, 1, 0, 0, 0, 0]);
    assert_eq!(codes(category().impute("e"), &names), [0, 1, 2, 3, 4, 4]);
    // A name is there as often as it stands for a missing one.
    assert_eq!(codes(category().impute("d").unknown().at_least(2), &names), [1, 2, 0, 3, 3, 0]);
    // Of names that are there as often, the smallest stands for a missing one.
    let mut fit = one(category().impute(MostFrequent).by_frequency().one_hot());
    ["b", "c", "a", "c", "", "b", "a"].iter().for_each(|name| fit.observe(&[Value::Text(name)]).unwrap());
    assert_eq!(fit.finish().unwrap().feature_names(), ["x=a", "x=b", "x=c"]);
}

#[test]
fn a_mask_says_what_was_missing_and_not_what_was_unknown() {
    let recipe = Recipe::new()
        .column("code", category().unknown().mask())
        .column("hot", category().unknown().one_hot().mask())
        .column("day", date().cyclic(DatePart::Weekday).impute("2024-01-01").mask());
    let mut fit = RecipeFit::new(&recipe).unwrap();
    let monday = Value::Text("2024-01-01");
    fit.observe(&[Value::Text("a"), Value::Text("a"), monday]).unwrap();
    let prepared = fit.finish().unwrap();
    let masks = ["code_missing", "hot=a", "hot_missing", "day_weekday_sin", "day_weekday_cos", "day_missing"];
    assert_eq!(prepared.feature_names(), masks);
    let mut row = prepared.row();
    for (name, day, expected) in [
        (Value::Text("a"), monday, [0.0, 1.0, 0.0, 0.0, 1.0, 0.0]),
        (Value::Text("b"), monday, [0.0, 0.0, 0.0, 0.0, 1.0, 0.0]),
        (Value::Missing, Value::Missing, [1.0, 0.0, 1.0, 0.0, 1.0, 1.0]),
    ] {
        prepared.apply([("code", name), ("hot", name), ("day", day)], &mut row).unwrap();
        assert_eq!(row.f32("features").unwrap(), expected);
    }
}

#[test]
fn the_last_value_of_a_cycle_is_one_step_before_the_first() {
    for (part, last, count) in [
        (DatePart::Month, "2024-12-31", 12.0),
        (DatePart::Day, "2024-01-31", 31.0),
        (DatePart::Weekday, "2024-01-07", 7.0),
        (DatePart::DayOfYear, "2024-12-31", 366.0),
        (DatePart::Hour, "2024-01-01T23:00:00", 24.0),
        (DatePart::Minute, "2024-01-01T00:59:00", 60.0),
        (DatePart::Second, "2024-01-01T00:00:59", 60.0),
    ] {
        let mut fit = one(date().cyclic(part));
        // A Monday.
        let first = Value::Text("2024-01-01");
        fit.observe(&[first]).unwrap();
        let prepared = fit.finish().unwrap();
        let mut row = prepared.row();
        prepared.apply([("x", first)], &mut row).unwrap();
        assert_eq!(row.f32("features").unwrap(), [0.0, 1.0], "{part:?}");
        prepared.apply([("x", Value::Text(last))], &mut row).unwrap();
        let (sine, cosine) = (std::f32::consts::TAU / count).sin_cos();
        let [found_sine, found_cosine] = *row.f32("features").unwrap() else { panic!("two features") };
        assert!((found_sine + sine).abs() < 1e-6 && (found_cosine - cosine).abs() < 1e-6, "{part:?}");
    }
}

#[test]
fn there_are_no_more_quantiles_than_numbers() {
    let mut fit = one(number().quantile(1000));
    [10.0, 0.0, 1.0].iter().for_each(|x| fit.observe(&[Value::F64(*x)]).unwrap());
    let prepared = fit.finish().unwrap();
    let mut row = prepared.row();
    // QuantileTransformer(n_quantiles=3)
    for (x, share) in [(-1.0, 0.0), (0.0, 0.0), (0.5, 0.25), (1.0, 0.5), (5.5, 0.75), (10.0, 1.0), (11.0, 1.0)] {
        prepared.apply([("x", Value::F64(x))], &mut row).unwrap();
        assert_eq!(row.f32("features").unwrap(), [share], "{x}");
    }
}

#[test]
fn bins_have_equally_many_numbers_of_the_training_data() {
    let bins_of = |train: &[f64], count: usize, numbers: &[f64]| {
        let mut fit = one(number().bins(count));
        train.iter().for_each(|x| fit.observe(&[Value::F64(*x)]).unwrap());
        let prepared = Prepared::from_json(&fit.finish().unwrap().to_json().unwrap()).unwrap();
        let mut row = prepared.row();
        let bin = |x: &f64| {
            prepared.apply([("x", Value::F64(*x))], &mut row).unwrap();
            row.f32("features").unwrap()[0]
        };
        numbers.iter().map(bin).collect::<Vec<f32>>()
    };
    let hundred: Vec<f64> = (0..100).map(|i| f64::from(i * 37 % 100)).collect();
    let bins = bins_of(&hundred, 4, &hundred);
    for bin in 0..4 {
        assert_eq!(bins.iter().filter(|own| **own == bin as f32).count(), 25, "bin {bin}");
    }
    // numpy.digitize(x, numpy.quantile(train, [0.25, 0.5, 0.75])), where the quantiles are 24.75, 49.5 and 74.25.
    assert_eq!(bins_of(&hundred, 4, &[-1e9, 24.5, 24.75, 49.5, 74.0, 1e9]), [0.0, 0.0, 1.0, 2.0, 2.0, 3.0]);
    // Bins without a number are left out, as KBinsDiscretizer does.
    assert_eq!(bins_of(&[1.0, 1.0, 1.0, 1.0, 2.0, 3.0], 4, &[1.0, 1.75, 3.0]), [0.0, 1.0, 1.0]);
    assert_eq!(bins_of(&[5.0; 3], 4, &[4.0, 5.0, 6.0]), [0.0; 3]);
    for (count, fault) in [(1, "1 bins"), (1 << 17, "131072 bins")] {
        let faults = Recipe::new().column("x", number().bins(count)).faults();
        assert!(faults.len() == 1 && faults[0].contains(fault), "{faults:?}");
    }
    let said: Recipe =
        serde_json::from_str(r#"{"columns": {"x": {"number": {"scale": {"bins": {"count": 7}}}}}}"#).unwrap();
    assert_eq!(said, Recipe::new().column("x", number().bins(7)));
}

/// A value of any kind that a column of numbers, names or dates may meet.
fn any_value() -> impl Strategy<Value = (Option<f64>, Option<String>, Option<i64>)> {
    let numbers = prop_oneof![
        any::<i16>().prop_map(f64::from),
        prop::num::f64::NORMAL.prop_filter("not too far apart", |x| x.abs() < 1e300),
        Just(0.1)
    ];
    (prop::option::of(numbers), prop::option::of("[a-e]{1,2}"), prop::option::of(0i64..4_000_000_000))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    /// Files and records of any kind are refused or taken, and never a panic.
    #[test]
    fn damaged_files_and_records_are_refused_or_taken(
        cuts in prop::collection::vec((any::<prop::sample::Index>(), "[-0-9a-z\"{}\\[\\],:.]{0,3}", 0usize..4), 1..4),
        record in "\\PC{0,30}|\\{(\"(age|city|joined|town|agent)\": ?(null|[-0-9.eE]{1,6}|\"\\PC{0,12}\"|\\[1\\]|true),?){0,4}\\}",
    ) {
        let prepared = fitted();
        let damage = |text: &str| {
            let mut text = text.to_owned();
            for (at, with, len) in &cuts {
                let starts: Vec<usize> = text.char_indices().map(|(at, _)| at).chain([text.len()]).collect();
                let first = at.index(starts.len());
                let end = (first + len).min(starts.len() - 1);
                text.replace_range(starts[first]..starts[end], with);
            }
            text
        };
        let apply = |prepared: &Prepared| {
            let mut row = prepared.row();
            let _ = prepared.apply_json(&record, &mut row);
            let _ = prepared.apply_csv("age,city,joined,town,agent", &record, &mut row);
            let _ = prepared.apply_csv(&record, "1,2,3", &mut row);
        };
        apply(&prepared);
        if let Ok(damaged) = Prepared::from_json(&damage(&prepared.to_json().unwrap())) {
            apply(&damaged);
            let _ = damaged.to_json().unwrap();
        }
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("counted.json");
        let mut fit = RecipeFit::new(&people()).unwrap();
        PEOPLE.into_iter().for_each(|person| fit.observe(&values(person)).unwrap());
        fit.save(&path).unwrap();
        std::fs::write(&path, damage(&std::fs::read_to_string(&path).unwrap())).unwrap();
        if let Ok(mut damaged) = RecipeFit::load(&path) {
            let _ = damaged.merge(&fit);
            let _ = damaged.finish().map(|prepared| apply(&prepared));
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// However records are shared out, and in whatever order, the fit is the same to the bit.
    #[test]
    fn fits_of_shards_merge_to_the_fit_of_the_whole(
        records in prop::collection::vec((any_value(), 0usize..4), 1..60),
        order in any::<u64>(),
    ) {
        let mut recipe = Recipe::new().dtype(ringfeed::DType::F64);
        let scales = [number().standardise(), number().robust(), number().min_max(0.0, 1.0), number().quantile(7), number().bins(3)];
        for (nth, number) in scales.into_iter().enumerate() {
            for (name, impute) in [("mean", Mean), ("median", Median), ("often", MostFrequent), ("zero", 0.0.into())] {
                recipe = recipe.column(format!("{name}{nth}"), number.clone().impute(impute).mask());
            }
        }
        let dates = date().part(DatePart::Epoch).part(DatePart::Year).cyclic(DatePart::Weekday).impute("2000-01-01");
        let recipe = recipe
            .column("names", category().unknown().by_frequency())
            .column("few", category().unknown().most(3).one_hot())
            .column("hash", hash(5))
            .column("date", dates.standardise());
        let values = |record: &(Option<f64>, Option<String>, Option<i64>)| {
            let (number, name, seconds) = record;
            let mut values = vec![number.map_or("".to_owned(), |number| number.to_string()); 20];
            values.extend(vec![name.clone().unwrap_or_default(); 3]);
            let day = |seconds: i64| format!("20{:02}-{:02}-{:02}", seconds % 100, seconds / 100 % 12 + 1, seconds / 1200 % 28 + 1);
            values.push(seconds.map_or("".to_owned(), day));
            values
        };
        let observe = |fit: &mut RecipeFit, record| {
            let texts: Vec<String> = values(record);
            fit.observe(&texts.iter().map(|text| Value::Bytes(text.as_bytes())).collect::<Vec<_>>()).unwrap();
        };
        let mut whole = RecipeFit::new(&recipe).unwrap();
        let mut shards: Vec<RecipeFit> = vec![whole.clone(); 4];
        records.iter().for_each(|(record, _)| observe(&mut whole, record));
        records.iter().rev().for_each(|(record, shard)| observe(&mut shards[*shard], record));
        let mut merged = shards.swap_remove(order as usize % 4);
        shards.iter().for_each(|shard| merged.merge(shard).unwrap());
        match (whole.finish(), merged.finish()) {
            (Ok(whole), Ok(merged)) => {
                prop_assert_eq!(whole.to_json().unwrap(), merged.to_json().unwrap());
                let json = whole.to_json().unwrap();
                prop_assert!(Prepared::from_json(&json).unwrap() == whole);
            }
            (Err(one), Err(other)) => prop_assert_eq!(one.to_string(), other.to_string()),
            (one, other) => prop_assert!(false, "{:?} {:?}", one.is_ok(), other.is_ok()),
        }
    }
}

/// More numbers than are told apart: quantiles are off by no more than is said, however the records were shared out.
#[test]
fn quantiles_of_very_many_numbers_are_as_near_as_is_said() {
    let numbers = 300_000u64;
    // From 1e-3 to 1e4, and below 0; no two are equal.
    let number_of = |nth: u64| {
        ((nth * 7919 % numbers) as f64 / numbers as f64 * 16.0 - 7.0).exp()
            * if nth.is_multiple_of(4) { -2.0 } else { 1.0 }
    };
    let recipe = Recipe::new()
        .dtype(ringfeed::DType::F64)
        .column("median", number().impute(Median))
        .column("quantile", number().quantile(101));
    let mut shards: Vec<RecipeFit> = (0..3).map(|_| RecipeFit::new(&recipe).unwrap()).collect();
    for nth in 0..numbers {
        let value = Value::F64(number_of(nth));
        shards[nth as usize % 3].observe(&[value, value]).unwrap();
    }
    let mut merged = shards.pop().unwrap();
    assert!(
        shards.iter().all(|shard| shard.clone().finish().unwrap().quantile_error() == 0.0),
        "few enough by themselves"
    );
    shards.iter().for_each(|shard| merged.merge(shard).unwrap());
    let prepared = merged.finish().unwrap();
    let error = prepared.quantile_error();
    assert!(error > 0.0 && error < 2e-4, "{error:e}");

    let mut exact: Vec<f64> = (0..numbers).map(number_of).collect();
    exact.sort_unstable_by(f64::total_cmp);
    assert!(exact.windows(2).all(|pair| pair[0] < pair[1]));
    let mut row = prepared.row();
    prepared.apply([("median", Value::Missing), ("quantile", Value::F64(exact[0]))], &mut row).unwrap();
    let (median, wanted) = (
        row.tensor("features").unwrap().as_slice::<f64>().unwrap()[0],
        exact[numbers as usize / 2 - 1].midpoint(exact[numbers as usize / 2]),
    );
    assert!((median - wanted).abs() <= error * wanted.abs(), "{median} for {wanted}");
    assert_ne!(median, wanted, "the error is a bound of something");
    let json: serde_json::Value = serde_json::from_str(&prepared.to_json().unwrap()).unwrap();
    let quantiles = find_list(&json, "quantiles").unwrap();
    assert_eq!(quantiles.len(), 101);
    for (nth, found) in quantiles.iter().enumerate() {
        let place = nth as f64 / 100.0 * (numbers - 1) as f64;
        let (low, high) = (exact[place.floor() as usize], exact[place.ceil() as usize]);
        let (wanted, near) = (low + (high - low) * place.fract(), error * low.abs().max(high.abs()));
        let found = found.as_f64().unwrap();
        assert!((found - wanted).abs() <= near * (1.0 + 1e-6), "{nth}: {found} for {wanted}");
    }
}

/// The list of this name, wherever it stands.
fn find_list<'a>(json: &'a serde_json::Value, name: &str) -> Option<&'a Vec<serde_json::Value>> {
    match json {
        serde_json::Value::Object(table) => match table.get(name) {
            Some(list) => list.as_array(),
            None => table.values().find_map(|value| find_list(value, name)),
        },
        serde_json::Value::Array(list) => list.iter().find_map(|value| find_list(value, name)),
        _ => None,
    }
}

#[test]
fn fits_of_other_columns_types_or_options_are_not_merged() {
    let fit = |(recipe, fields): (&Recipe, usize)| {
        let mut fit = RecipeFit::new(recipe).unwrap();
        fit.observe(&vec![Value::I64(3); fields]).unwrap();
        fit
    };
    let of = |name: &str, column: Column| Recipe::new().column(name, column);
    let own = of("age", number().standardise().into());
    let others = [
        of("agee", number().standardise().into()),
        of("age", number().robust().into()),
        of("age", number().impute(Mean).standardise().into()),
        of("age", category().into()),
        own.clone().dtype(ringfeed::DType::F64),
        own.clone().column("more", number()),
        own.clone().filter("age > 1"),
    ];
    let mut merged = fit((&own, 1));
    for (nth, other) in others.iter().enumerate() {
        let error = merged.merge(&fit((other, if nth == 5 { 2 } else { 1 }))).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Config, "{error}");
    }
    assert_eq!(merged.records(), 1, "what was refused does not count");
    merged.merge(&fit((&own, 1))).unwrap();
    assert_eq!(merged.records(), 2);
}

#[test]
fn missing_names_of_all_shards_count_for_the_name_that_replaces_them() {
    let of = |names: &[&str]| {
        let mut fit = one(category().impute("a").by_frequency().one_hot());
        names.iter().for_each(|name| fit.observe(&[Value::Text(name)]).unwrap());
        fit
    };
    // What is missing in one shard, or in the other, makes the difference.
    for (first, second, expected) in [
        (["a", "b", "b", ""], ["", "b", "", ""], ["x=a", "x=b"]),
        (["b", "b", "b", ""], ["", "", "", ""], ["x=a", "x=b"]),
        (["", "", "", ""], ["b", "b", "b", ""], ["x=a", "x=b"]),
        (["b", "b", "b", ""], ["b", "b", "", ""], ["x=b", "x=a"]),
    ] {
        let mut merged = of(&first);
        merged.merge(&of(&second)).unwrap();
        let whole = of(&[first, second].concat()).finish().unwrap();
        assert_eq!(whole.feature_names(), expected);
        assert!(merged.finish().unwrap() == whole, "{first:?} and {second:?}");
    }
}

/// The same table as CSV and as JSON Lines, with a price behind each record.
fn tables(folder: &std::path::Path, records: usize) -> (Vec<String>, Vec<String>) {
    let (mut csv, mut jsonl) = (vec!["age,city,joined,town,agent,price".to_owned()], Vec::new());
    for i in 0..records {
        let age = (i % 7 != 0).then(|| (i * i % 83) as f64 + [0.0, 0.1, 1e-9][i % 3]);
        let city = (i % 5 != 0).then(|| ["Oslo", "Bergen", "Tromsø", "a \"b\", c", "3.0"][i * i % 5]);
        let joined =
            (i % 11 != 0).then(|| format!("20{:02}-{:02}-{:02}T{:02}:30:00", i % 40, i % 12 + 1, i % 28 + 1, i % 24));
        let quoted = city.map_or("NA".to_owned(), |city| format!("\"{}\"", city.replace('"', "\"\"")));
        let number = age.map_or(String::new(), |age| age.to_string());
        csv.push(
            format!("{number}, {quoted},{},{quoted},agent {i},{i}.5", joined.as_deref().unwrap_or(""))
                .replace(", \"", ",\""),
        );
        let record = serde_json::json!({
            "age": age, "city": city, "joined": joined, "town": city, "agent": format!("agent {i}"), "price": i as f64 + 0.5
        });
        jsonl.push(record.to_string());
    }
    std::fs::write(folder.join("people.csv"), csv.join("\n")).unwrap();
    std::fs::write(folder.join("people.jsonl"), jsonl.join("\n")).unwrap();
    (csv, jsonl)
}

/// The bytes of every sample, by its id.
fn samples(mut batches: Box<dyn DataSetIterator>) -> Vec<(u64, Vec<u8>, f32)> {
    let mut samples = Vec::new();
    for batch in batches.epoch().unwrap() {
        let batch = batch.unwrap();
        let (features, codes) = (batch.tensor("features").unwrap(), batch.tensor("categories").unwrap());
        let prices = batch.tensor("price").unwrap().as_slice::<f32>().unwrap();
        let row = |bytes: &[u8], nth: usize| {
            bytes[nth * bytes.len() / batch.len()..(nth + 1) * bytes.len() / batch.len()].to_vec()
        };
        for (nth, id) in batch.sample_ids().iter().enumerate() {
            samples.push((*id, [row(features.bytes(), nth), row(codes.bytes(), nth)].concat(), prices[nth]));
        }
    }
    samples.sort_by_key(|(id, _, _)| *id);
    samples
}

#[test]
fn a_server_sees_what_training_saw() {
    let folder = tempfile::tempdir().unwrap();
    let (csv, jsonl) = tables(folder.path(), 500);
    let table = || Loader::open(folder.path().join("people.csv")).unwrap();
    let prepared = people().fit(&table()).unwrap();
    let path = folder.path().join("prepared.json");
    prepared.save(&path).unwrap();
    let prepared = Prepared::load(&path).unwrap();

    let trained = |rows: Loader| rows.prepare(&prepared).field("price", Numbers::f32()).batch_size(64);
    let seen = samples(trained(table()).shuffle(7).workers(3).build().unwrap());
    assert_eq!(seen.len(), 500);
    assert_eq!(samples(trained(table()).shield().build().unwrap()), seen);
    let lines = Loader::open(folder.path().join("people.jsonl")).unwrap();
    assert_eq!(samples(trained(lines.clone()).build().unwrap()), seen, "JSON Lines");
    let file = folder.path().join("people.jsonl");
    let own = Loader::from(LoaderConfig::default()).container(move |budget| {
        JsonLines::open(&ringfeed::storage::Files::local(), &file, &LineOptions::default(), budget)
    });
    assert_eq!(samples(trained(own.clone()).build().unwrap()), seen, "a container of one's own");

    let mut row = prepared.row();
    for ((id, bytes, price), (line, json)) in seen.iter().zip(csv[1..].iter().zip(&jsonl)) {
        assert_eq!(*price, *id as f32 + 0.5);
        let of = |row: &ringfeed::prepare::PreparedRow| {
            [row.tensor("features").unwrap().bytes(), row.tensor("categories").unwrap().bytes()].concat()
        };
        prepared.apply_csv(&csv[0], line, &mut row).unwrap();
        assert_eq!(of(&row), *bytes, "{line}");
        prepared.apply_json(json, &mut row).unwrap();
        assert_eq!(of(&row), *bytes, "{json}");
    }

    // Whatever it is fitted to, it is the same.
    for rows in [table().shuffle(3).workers(4), lines, own, table().batch_size(3).shield()] {
        assert!(people().fit(&rows).unwrap() == prepared);
    }
    let mut merged = RecipeFit::new(&people()).unwrap();
    for index in 0..3 {
        let mut fit = RecipeFit::new(&people()).unwrap();
        fit.observe_all(&table().shard(Shard { index, count: 3 })).unwrap();
        merged.merge(&fit).unwrap();
    }
    assert_eq!(merged.records(), 500);
    let counted = folder.path().join("counted.json");
    merged.save(&counted).unwrap();
    assert!(RecipeFit::load(&counted).unwrap().finish().unwrap() == prepared);
    let text = std::fs::read_to_string(&counted).unwrap();
    for (from, to) in [
        ("\"version\":1", "\"version\":4"),
        ("\"standardise\"", "\"robust\""),
        ("\"records\"", "\"recordz\""),
        ("\"positive\":[[", "\"positive\":[[99,1],["),
        ("\"counts\":[[", "\"counts\":[[9218868437227405312,1],["),
    ] {
        std::fs::write(&counted, text.replacen(from, to, 1)).unwrap();
        let error = RecipeFit::load(&counted).unwrap_err();
        assert_eq!((error.kind(), error.path()), (ErrorKind::Format, Some(counted.as_path())), "{to}: {error}");
    }
    // Sums that are a lie are numbers all the same.
    let lie = text.replace("\"negative\":[]", "\"negative\":[[33,18446744073709551615],[32,18446744073709551615]]");
    assert_ne!(lie, text);
    std::fs::write(&counted, lie.replacen("\"count\":", "\"count\":9", 1)).unwrap();
    let mut lied = RecipeFit::load(&counted).unwrap();
    lied.merge(&lied.clone()).unwrap();
    let _ = lied.finish();
    assert!(merged.finish().unwrap() == prepared);
}

/// Program 4: fitted to the training part alone, in Rust and by settings.
#[test]
fn a_table_is_fitted_trained_and_served() -> Result<(), ringfeed::Error> {
    let folder = tempfile::tempdir().unwrap();
    tables(folder.path(), 300);
    let (path, saved) = (folder.path().join("people.csv"), folder.path().join("prepared.json"));

    let recipe = Recipe::new()
        .column("age", number().impute(Median).mask().standardise())
        .column("city", category().unknown())
        .column("joined", date().cyclic(DatePart::Month).impute(Median));
    let rows = Loader::open(&path)?.split(Split::train(0.8));
    let prepared = recipe.fit(&rows)?;
    prepared.save(&saved)?;
    let train = rows.prepare(&prepared).field("price", Numbers::f32()).batch_size(64).build()?;
    let seen = samples(train);

    let prepared = Prepared::load(&saved)?;
    let mut row = prepared.row();
    prepared.apply_json(r#"{"age": null, "city": "Oslo", "joined": "2024-05-01"}"#, &mut row)?;
    assert_eq!((row.f32("features")?.len(), row.i64("categories")?.len()), (4, 1));

    assert!((200..280).contains(&seen.len()), "{}", seen.len());
    assert_eq!(prepared.records(), seen.len() as u64);
    let test = Loader::open(&path)?.split(Split::train(0.8).rest());
    assert_eq!(people().fit(&test)?.records(), 300 - prepared.records());

    let settings = r#"
        batch_size = 64
        split = { train = 0.8, test = 0.2, part = "train" }
        prepared = "prepared.json"
        [source]
        path = "people.csv"
        [prepare.columns]
        age = { number = { impute = "median", mask = true, scale = "standardise" } }
        city = { category = { unknown = true } }
        joined = { date = { cyclic = ["month"], impute = "median" } }
        [fields]
        price = { numbers = "f32" }
    "#;
    let file = folder.path().join("settings.toml");
    std::fs::write(&file, settings).unwrap();
    let config = LoaderConfig::load(&file)?;
    let fitted = config.prepare.clone().unwrap().fit(&config.clone().into())?;
    assert!(fitted == prepared);
    assert_eq!(samples(Loader::from(config.clone()).build()?), seen);
    let plan = Loader::from(config.clone()).plan()?;
    let tensors = plan.tensors.unwrap();
    let mut names: Vec<&str> = tensors.iter().map(|tensor| tensor.name.as_str()).collect();
    names.sort_unstable();
    assert_eq!(names, ["categories", "features", "price"]);
    let written: LoaderConfig = toml::from_str(&toml::to_string(&config).unwrap()).unwrap();
    assert_eq!(written, config);
    let inline = Loader::from(config).prepare(&prepared);
    let text = serde_json::to_string(inline.config()).unwrap();
    assert_eq!(LoaderConfig::from_json(&text)?, *inline.config());

    std::fs::remove_file(&saved).unwrap();
    let error = Loader::from(LoaderConfig::load(&file)?).plan().unwrap_err();
    assert!(error.message().contains("`ringfeed fit` writes it"), "{error}");
    std::fs::write(&file, settings.replace("mask", "masks")).unwrap();
    let error = LoaderConfig::load(&file).unwrap_err();
    assert!(
        error.message().contains("prepare.columns.age.number.masks") && error.location().line == Some(8),
        "{error}"
    );
    Ok(())
}

#[test]
fn bad_values_have_a_place_and_a_policy() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("people.csv");
    std::fs::write(&path, "age,city\n1,Oslo\n2,Bergen\nmany,Oslo\n3,Oslo\n4,\n").unwrap();
    let recipe = Recipe::new().column("age", number().standardise()).column("city", category());
    let table = Loader::open(&path).unwrap();
    let place = |error: &ringfeed::Error| {
        let location = error.location();
        (location.path.clone(), location.record, location.line, location.column.clone())
    };
    let expected = (Some(path.clone()), Some(2), Some(4), Some("age".to_owned()));
    let error = recipe.fit(&table).unwrap_err();
    assert_eq!(place(&error), expected, "{error}");
    assert!(error.message().contains("expected a number, found \"many\""), "{error}");

    let lenient = table.bad_records(BadRecords::skip(BadLimits::count(2)));
    let prepared = recipe.fit(&lenient).unwrap();
    assert_eq!(prepared.records(), 3);
    let strict = Loader::open(&path).unwrap().prepare(&prepared);
    let error = strict.build().unwrap().next().unwrap().unwrap_err();
    assert_eq!(place(&error), expected, "{error}");
    let batch = lenient.prepare(&prepared).build().unwrap().next().unwrap().unwrap();
    assert_eq!((batch.len(), batch.bad_records()), (3, 2));
    let root = 1.5f64.sqrt();
    assert_eq!(batch.tensor("features").unwrap().as_slice::<f32>().unwrap(), [-root as f32, 0.0, root as f32]);
    assert_eq!(batch.tensor("categories").unwrap().as_slice::<i64>().unwrap(), [1, 0, 1]);

    let missing = Recipe::new().column("agee", number());
    let error = missing.fit(&Loader::open(&path).unwrap()).unwrap_err();
    assert!(error.message().contains("did you mean \"age\"?"), "{error}");
}

#[test]
fn several_files_are_one_table_and_bad_rows_are_found_beforehand() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
    write("part-0.csv", "age,city\n1,Oslo\n2,Bergen\n");
    write("part-1.csv", "age,city\n3,Oslo\n,Tromsø\n");
    let recipe = Recipe::new().column("age", number().impute(Mean).standardise()).column("city", category());
    let parts = Loader::open(folder.path().join("part-*.csv")).unwrap();
    let prepared = recipe.fit(&parts).unwrap();
    assert_eq!((prepared.records(), prepared.code_counts()), (4, &[("city".to_owned(), 3)][..]));
    let batches = parts.clone().prepare(&prepared).batch_size(3).shuffle(5).build().unwrap();
    let mut codes: Vec<i64> = Vec::new();
    for batch in batches {
        codes.extend(batch.unwrap().tensor("categories").unwrap().as_slice::<i64>().unwrap());
    }
    codes.sort_unstable();
    assert_eq!(codes, [0, 1, 1, 2]);

    write("part-1.csv", "age,city\n3,Oslo\nx,Tromsø\n3,Molde\n");
    let report = parts.prepare(&prepared).verify(|_| ()).unwrap();
    let bad: Vec<_> = report.bad.iter().map(|bad| (bad.location().line, bad.location().column.clone())).collect();
    assert_eq!(bad, [(Some(3), Some("age".to_owned())), (Some(4), Some("city".to_owned()))]);
}

#[test]
fn an_epoch_that_is_resumed_goes_on_with_the_same_bytes() {
    let folder = tempfile::tempdir().unwrap();
    tables(folder.path(), 200);
    let table = Loader::open(folder.path().join("people.jsonl")).unwrap();
    let prepared = people().fit(&table).unwrap();
    let build = || table.clone().prepare(&prepared).batch_size(16).shuffle(9).workers(2).build().unwrap();
    let bytes = |batch: ringfeed::DataSet| {
        [batch.tensor("features").unwrap().bytes(), batch.tensor("categories").unwrap().bytes()].concat()
    };
    let mut batches = build();
    let state = (0..5).map(|_| batches.next().unwrap().unwrap().state_after()).last().unwrap();
    let rest: Vec<Vec<u8>> = batches.map(|batch| bytes(batch.unwrap())).collect();
    let mut resumed = build();
    resumed.seek(&state).unwrap();
    assert_eq!(resumed.map(|batch| bytes(batch.unwrap())).collect::<Vec<_>>(), rest);
    assert!(rest.len() > 5);
}

#[test]
fn a_normaliser_of_the_features_comes_on_top() {
    let folder = tempfile::tempdir().unwrap();
    tables(folder.path(), 50);
    let rows = Loader::open(folder.path().join("people.csv")).unwrap();
    let prepared = people().fit(&rows).unwrap();
    let halves = Normaliser::MinMax { axis: None, low: vec![0.0], high: vec![2.0], range: (0.0, 1.0) };
    let features = |loader: Loader| {
        let batch = loader.batch_size(50).build().unwrap().next().unwrap().unwrap();
        batch.tensor("features").unwrap().as_slice::<f32>().unwrap().to_vec()
    };
    let plain = features(rows.clone().prepare(&prepared));
    let halved = features(rows.prepare(&prepared).normalise("features", halves));
    assert_eq!(halved, plain.iter().map(|x| x * 0.5).collect::<Vec<_>>());
    assert!(plain.contains(&1.0));
}

#[test]
fn a_member_of_an_object_is_served_as_the_column_of_a_table() {
    let recipe = Recipe::new()
        .column("address.city", category().unknown())
        .column("address.age", number().impute(Median))
        .column("flat.x", number());
    let mut fit = RecipeFit::new(&recipe).unwrap();
    fit.observe(&[Value::Text("Oslo"), Value::I64(3), Value::I64(1)]).unwrap();
    fit.observe(&[Value::Text("Bonn"), Value::I64(5), Value::I64(2)]).unwrap();
    let prepared = fit.finish().unwrap();
    let mut row = prepared.row();
    for (record, code, features) in [
        (r#"{"address": {"city": "Oslo", "age": 9}, "flat.x": 7}"#, 2, [9.0, 7.0]),
        (r#"{"address.city": "Oslo", "address.age": 9, "flat": {"x": 7}}"#, 2, [9.0, 7.0]),
        (r#"{"flat": {"x": 1}, "address.age": 8, "address": {"city": "Bonn", "age": 9}, "flat.x": 7}"#, 1, [8.0, 7.0]),
        (r#"{"address": {"city": null}, "flat": {"x": 7}}"#, 0, [4.0, 7.0]),
    ] {
        prepared.apply_json(record, &mut row).unwrap();
        assert_eq!(
            (row.i64("categories").unwrap()[0], row.f32("features").unwrap()),
            (code, &features[..]),
            "{record}"
        );
    }
}

#[test]
fn a_flag_is_the_name_that_the_data_had_for_it() {
    for (names, known) in
        [(["True", "False"], true), (["TRUE", "FALSE"], true), (["true", "false"], true), (["yes", "no"], false)]
    {
        let mut fit = one(category().unknown());
        names.iter().for_each(|name| fit.observe(&[Value::Text(name)]).unwrap());
        let prepared = fit.finish().unwrap();
        let mut row = prepared.row();
        let mut code = |flag: Value<'_>| {
            prepared.apply([("x", flag)], &mut row).unwrap();
            row.i64("categories").unwrap()[0]
        };
        // In the order of their names, whichever program wrote them.
        let expected = if known { [1, 2] } else { [0, 0] };
        assert_eq!([code(Value::Bool(false)), code(Value::Bool(true))], expected, "{names:?}");
        for [no, yes] in [["False", "True"], ["FALSE", "TRUE"], ["false", "true"]] {
            assert_eq!([code(Value::Text(no)), code(Value::Text(yes))], expected, "{names:?} {yes}");
        }
    }
}
