//! What comes before the columns of a recipe: joined tables, derived columns, and filters; in fitting, training and
//! serving.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use proptest::prelude::*;
use ringfeed::error::Location;
use ringfeed::field::Numbers;
use ringfeed::order::{Shard, Split};
use ringfeed::prepare::{
    DateUnit, Derive, Mean, Median, Prepared, PreparedRow, Recipe, RecipeFit, category, days, difference, equal, hash,
    join, largest, less, less_or_equal, log_ratio, number, pair, product, ratio, same, smallest, sum,
};
use ringfeed::read::{Container, FieldInfo, FieldKind, Scratch, Value, Visit};
use ringfeed::settings::{BadLimits, BadRecords};
use ringfeed::{DType, ErrorKind, Loader, LoaderConfig, Result};

/// Houses in a folder, as CSV and as JSON Lines, and a table of cities.
fn houses(folder: &Path, records: usize) -> (Vec<String>, Vec<String>) {
    std::fs::write(folder.join("cities.csv"), "name,people,land\nOslo,709037,east\nBergen,291940,\n\"a, b\",7,west\n")
        .unwrap();
    let (mut csv, mut jsonl) = (vec!["price,rooms,city,begun,done,id".to_owned()], Vec::new());
    for i in 0..records {
        let price = (i % 7 != 0).then(|| (i * i % 83) as f64 - 4.0);
        let rooms = (i % 5 != 3).then_some(i % 4);
        let city = (i % 11 != 0).then(|| ["Oslo", "Bergen", "a, b", "Rome"][i * i % 4]);
        let (begun, done) = (format!("2024-{:02}-01", i % 12 + 1), format!("2025-01-{:02}T12:00:00", i % 28 + 1));
        let written = price.map_or(String::new(), |price| price.to_string());
        let count = rooms.map_or(String::new(), |rooms| rooms.to_string());
        csv.push(format!("{written},{count},\"{}\",{begun},{done},{i}", city.unwrap_or_default()));
        let record = serde_json::json!(
            { "price": price, "rooms": rooms, "city": city, "begun": begun, "done": done, "id": i });
        jsonl.push(record.to_string());
    }
    std::fs::write(folder.join("houses.csv"), csv.join("\n")).unwrap();
    std::fs::write(folder.join("houses.jsonl"), jsonl.join("\n")).unwrap();
    (csv, jsonl)
}

fn recipe(folder: &Path) -> Recipe {
    Recipe::new()
        .join("cities", join(folder.join("cities.csv"), "city").key("name").unknown())
        .derive("per_room", ratio("price", "rooms"))
        .derive("crowd", log_ratio("cities.people", "per_room"))
        .derive("took", days("done", "begun"))
        .derive("where", pair(["city", "cities.land"]))
        .filter("price >= -2 and `cities.people` != 7")
        .column("per_room", number().impute(Median).mask().standardise())
        .column("crowd", number().impute(Mean).mask())
        .column("took", number().min_max(0.0, 1.0))
        .column("where", category().unknown())
        .column("cities.land", category().unknown())
        .column("price", number().standardise())
}

/// The bytes of every sample, by its id.
fn samples(loader: &Loader) -> Vec<(u64, Vec<u8>)> {
    let mut samples = Vec::new();
    for batch in loader.build().unwrap().epoch().unwrap() {
        let batch = batch.unwrap();
        let (features, codes) = (batch.tensor("features").unwrap(), batch.tensor("categories").unwrap());
        let row = |bytes: &[u8], nth: usize| {
            let len = bytes.len() / batch.len();
            bytes[nth * len..(nth + 1) * len].to_vec()
        };
        for (nth, id) in batch.sample_ids().iter().enumerate() {
            samples.push((*id, [row(features.bytes(), nth), row(codes.bytes(), nth)].concat()));
        }
    }
    samples.sort();
    samples
}

fn bytes(row: &PreparedRow) -> Vec<u8> {
    [row.tensor("features").unwrap().bytes(), row.tensor("categories").unwrap().bytes()].concat()
}

#[test]
fn a_server_sees_what_training_saw_and_says_what_training_left_out() {
    let folder = tempfile::tempdir().unwrap();
    let (csv, jsonl) = houses(folder.path(), 300);
    let table = || Loader::open(folder.path().join("houses.csv")).unwrap();
    let prepared = recipe(folder.path()).fit(&table()).unwrap();
    prepared.save(folder.path().join("prepared.json")).unwrap();
    // What is joined is in the file.
    std::fs::remove_file(folder.path().join("cities.csv")).unwrap();
    let loaded = Prepared::load(folder.path().join("prepared.json")).unwrap();
    assert!(loaded == prepared);
    assert_eq!(loaded.to_json().unwrap(), prepared.to_json().unwrap());
    assert!(loaded.to_json().unwrap().contains("\"version\": 2"));
    assert_eq!(prepared.field_names().collect::<Vec<_>>(), ["price", "city", "rooms", "done", "begun"]);

    let trained = |rows: Loader| rows.prepare(&loaded).field("id", Numbers::f32()).batch_size(16);
    let seen = samples(&trained(table()));
    for rows in [
        table().shuffle(7).workers(3),
        table().shield(),
        Loader::open(folder.path().join("houses.jsonl")).unwrap(),
        table().bad_records(BadRecords::Skip(BadLimits::default())),
    ] {
        assert_eq!(samples(&trained(rows)), seen);
    }
    assert_eq!(trained(table()).plan().unwrap().samples, Some(seen.len() as u64));
    let mut shards: Vec<_> =
        (0..3).flat_map(|index| samples(&trained(table()).shuffle(1).shard(Shard { index, count: 3 }))).collect();
    shards.sort();
    shards.dedup();
    assert_eq!(shards, seen);

    let mut row = loaded.row();
    let mut left_out = 0;
    for id in 0..300u64 {
        let expected = seen.iter().find(|(other, _)| *other == id);
        let from_csv = loaded.apply_csv(&csv[0], &csv[id as usize + 1], &mut row).map(|()| bytes(&row));
        let from_json = loaded.apply_json(&jsonl[id as usize], &mut row).map(|()| bytes(&row));
        match expected {
            Some((_, expected)) => assert_eq!((&from_csv.unwrap(), &from_json.unwrap()), (expected, expected)),
            None => {
                for error in [from_csv.unwrap_err(), from_json.unwrap_err()] {
                    assert_eq!(error.kind(), ErrorKind::Data);
                    assert!(error.message().contains("leaves this record out: price >= -2 and"), "{error}");
                }
                left_out += 1;
            }
        }
    }
    assert!(left_out > 60 && left_out + seen.len() == 300, "{left_out}");
    assert_eq!(prepared.records(), seen.len() as u64);
}

/// Records that count how often each is read.
struct Counted {
    reads: Arc<Vec<AtomicU64>>,
    fields: [FieldInfo; 2],
}

impl Container for Counted {
    fn len(&self) -> u64 {
        self.reads.len() as u64
    }

    fn fields(&self) -> &[FieldInfo] {
        &self.fields
    }

    fn fetch(&self, _: &[u64], _: usize, _: &mut Scratch) -> Result<()> {
        Ok(())
    }

    fn read(&self, record: u64, _: usize, _: &mut Scratch, visit: &mut Visit<'_>) -> Result<()> {
        self.reads[record as usize].fetch_add(1, Ordering::Relaxed);
        visit(0, if record.is_multiple_of(3) { Value::Missing } else { Value::F64(record as f64) })?;
        visit(1, Value::Text(["Oslo", "Bonn", "Rome"][record as usize % 3]))
    }

    fn place(&self, record: u64) -> Location {
        Location { record: Some(record), ..Location::default() }
    }
}

/// Whatever is fitted: medians that stand in for missing values, quantiles of what they then are, names by how often
/// they occur.
#[test]
fn fitting_reads_each_record_of_its_part_once_and_no_other() {
    let reads = Arc::new((0..500).map(|_| AtomicU64::new(0)).collect::<Vec<_>>());
    let own = reads.clone();
    let rows = Loader::from(LoaderConfig::default()).workers(2).container(move |_| {
        let fields = [("x", FieldKind::Numbers(DType::F64)), ("city", FieldKind::Text)];
        Ok(Counted { reads: own.clone(), fields: fields.map(|(name, kind)| FieldInfo::new(name, kind)) })
    });
    let recipe = Recipe::new()
        .derive("half", ratio("x", 2.0))
        .column("x", number().impute(Median).mask().quantile(10))
        .column("half", number().impute(Mean).standardise())
        .column("city", category().unknown().by_frequency().most(2));
    let prepared = recipe.fit(&rows.split(Split::train(0.8))).unwrap();
    let count = |times: u64| reads.iter().filter(|reads| reads.load(Ordering::Relaxed) == times).count() as u64;
    assert!((350..450).contains(&prepared.records()), "{}", prepared.records());
    assert_eq!((count(0), count(1)), (500 - prepared.records(), prepared.records()));
}

#[test]
fn settings_say_the_same() {
    let folder = tempfile::tempdir().unwrap();
    houses(folder.path(), 120);
    std::fs::write(
        folder.path().join("loader.toml"),
        r#"
            prepared = "prepared.json"
            split = { train = 0.8, validation = 0.2, part = "train" }
            [source]
            path = "houses.csv"
            [prepare]
            filter = "price >= -2 and `cities.people` != 7"
            [prepare.join]
            cities = { table = "cities.csv", on = "city", key = "name", unknown = true }
            [prepare.derive]
            per_room = { ratio = ["price", "rooms"] }
            crowd = { log_ratio = ["cities.people", "per_room"] }
            took = { days = ["done", "begun"] }
            where = { pair = ["city", "cities.land"] }
            [prepare.columns]
            per_room = { number = { impute = "median", mask = true, scale = "standardise" } }
            crowd = { number = { impute = "mean", mask = true } }
            took = { number = { scale = { min_max = {} } } }
            where = { category = { unknown = true } }
            "cities.land" = { category = { unknown = true } }
            price = { number = { scale = "standardise" } }
        "#,
    )
    .unwrap();
    let mut config = LoaderConfig::load(folder.path().join("loader.toml")).unwrap();
    let said = config.prepare.take().unwrap();
    assert_eq!(said, recipe(folder.path()), "paths are taken from the folder of the file");
    config.prepared = None;
    let rows = Loader::from(config);
    let split = Split { train: 0.8, validation: 0.2, test: 0.0, ..Split::train(0.8) };
    let same = Loader::open(folder.path().join("houses.csv")).unwrap().split(split);
    assert!(said.fit(&rows).unwrap() == recipe(folder.path()).fit(&same).unwrap());

    let wrong = |settings: &str| LoaderConfig::from_json(settings).unwrap_err().message().to_owned();
    let message = wrong(r#"{"prepare": {"columns": {}, "derive": {"x": {"ration": ["a", "b"]}}}}"#);
    assert!(message.contains("prepare.derive.x") && message.contains("did you mean \"ratio\"?"), "{message}");
    let message = wrong(r#"{"prepare": {"columns": {}, "derive": {"x": {"ratio": ["a", true]}}}}"#);
    assert!(message.contains("prepare.derive.x.ratio[1]: expected the name of a column, or a number"), "{message}");
}

#[test]
fn shards_of_a_table_are_fitted_as_the_whole() {
    let folder = tempfile::tempdir().unwrap();
    houses(folder.path(), 200);
    let table = || Loader::open(folder.path().join("houses.csv")).unwrap();
    let whole = recipe(folder.path()).fit(&table().shuffle(2).workers(3)).unwrap();
    let mut merged = RecipeFit::new(&recipe(folder.path())).unwrap();
    for index in 0..3 {
        let mut fit = RecipeFit::new(&recipe(folder.path())).unwrap();
        fit.observe_all(&table().shard(Shard { index, count: 3 })).unwrap();
        let counted = folder.path().join("counted.json");
        fit.save(&counted).unwrap();
        merged.merge(&RecipeFit::load(&counted).unwrap()).unwrap();
    }
    assert!(merged.finish().unwrap() == whole);
    // Nothing but the records that it leaves is fitted to.
    let some = Recipe::new().column("price", number().standardise());
    let filtered = some.fit(&table().filter("price > 3")).unwrap();
    assert!(filtered.records() < 200);
    let by_recipe = some.clone().filter("price > 3").fit(&table()).unwrap();
    assert_eq!(by_recipe.records(), filtered.records());
    let scale = |prepared: &Prepared| {
        let mut row = prepared.row();
        prepared.apply([("price", Value::F64(5.0))], &mut row).unwrap();
        row.f32("features").unwrap()[0]
    };
    assert_eq!(scale(&by_recipe), scale(&filtered));
    // By the name of a tensor, and where the source has the fields, too.
    let named =
        table().field("cost", Numbers::f32().missing(ringfeed::csv::Missing::Nan).from("price")).filter("cost > 3");
    assert_eq!(some.fit(&named).unwrap().records(), filtered.records());
    let path = folder.path().join("houses.csv");
    let settings = format!(
        r#"{{"source": {{"format": "csv", "path": {path:?}, "fields": {{"cost": {{"from": "price", "numbers": "f32", "missing": "nan"}}}}}},
            "filter": "cost > 3"}}"#
    );
    let of_source = Loader::from(LoaderConfig::from_json(&settings).unwrap());
    assert_eq!(some.fit(&of_source).unwrap().records(), filtered.records());
    let both = of_source.prepare(&by_recipe).build().unwrap();
    let names: Vec<&str> = both.schema().tensors().iter().map(|spec| spec.name.as_str()).collect();
    assert_eq!(names, ["features", "cost"]);
}

#[test]
fn the_filters_of_a_loader_and_of_a_recipe_both_apply() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("rows.csv");
    std::fs::write(&path, "x\n".to_owned() + &(0..40).map(|x| format!("{x}\n")).collect::<String>()).unwrap();
    let rows = || Loader::open(&path).unwrap();
    let recipe = Recipe::new().filter("x < 30").column("x", number().min_max(0.0, 1.0));
    let even = |rows: Loader| rows.filter_by(["x"], |row| row.number("x").is_some_and(|x| x % 2.0 == 0.0));
    let settings = format!(r#"{{"source": {{"path": {path:?}}}, "filter": "x >= 10"}}"#);
    let said = Loader::from(LoaderConfig::from_json(&settings).unwrap());
    for (rows, expected) in [
        (rows(), (0..30).collect::<Vec<u64>>()),
        (rows().filter("x >= 10"), (10..30).collect()),
        (said, (10..30).collect()),
        (even(rows()), (0..30).step_by(2).collect()),
        (even(rows().filter("x >= 10")), (10..30).step_by(2).collect()),
    ] {
        let prepared = recipe.fit(&rows).unwrap();
        assert_eq!(prepared.records(), expected.len() as u64);
        let ids = |rows: &Loader| {
            let batches = rows.clone().prepare(&prepared).batch_size(7).build().unwrap();
            batches.flat_map(|batch| batch.unwrap().sample_ids().to_vec()).collect::<Vec<u64>>()
        };
        assert_eq!(ids(&rows), expected);
        assert_eq!(rows.clone().prepare(&prepared).plan().unwrap().samples, Some(expected.len() as u64));
        // Parts are those of what is left.
        let part = |split| rows.clone().split(split);
        let (train, rest) = (part(Split::train(0.5)), part(Split::train(0.5).rest()));
        let mut both = [ids(&train), ids(&rest)].concat();
        both.sort_unstable();
        assert_eq!(both, expected);
        assert_eq!(recipe.fit(&train).unwrap().records(), ids(&train).len() as u64);
    }
}

#[test]
fn faults_of_the_steps_are_all_named() {
    let faults = Recipe::new()
        .join("t", join("fixtures/iris.scv", "x"))
        .join("t", join("fixtures/iris.csv", "two"))
        .derive("one", sum(["a"]))
        .derive("two", difference(1.0, 2.0))
        .derive("three", ratio("four", "three"))
        .derive("four", Derive::Less(vec!["a".into(), "b".into(), "c".into()]))
        .derive("two", same("a", 3.0))
        .filter("a = 3")
        .column("a", number())
        .faults();
    for part in [
        "join.t.table: fixtures/iris.scv",
        "join.t: it is listed twice",
        "join.t.on: two is derived",
        "derive.one: it needs at least two columns or numbers",
        "derive.two: it has only numbers",
        "derive.three: four is derived after it",
        "derive.four: it needs two columns or numbers, not 3",
        "derive.two: it is listed twice",
        "derive.two: 3 is neither a name nor a date",
        "filter: character 3",
    ] {
        assert!(faults.iter().any(|fault| fault.contains(part)), "{part} in {faults:?}");
    }
    assert_eq!(faults.len(), 10, "{faults:?}");
    // A column of its own name is derived from the field.
    assert_eq!(Recipe::new().derive("a", ratio("a", 10.0)).column("a", number()).faults(), [""; 0]);
}

fn fitted(recipe: &Recipe, values: &[Value<'_>]) -> Result<Prepared> {
    let mut fit = RecipeFit::new(recipe)?;
    fit.observe(values)?;
    fit.finish()
}

#[test]
fn what_cannot_be_joined_or_derived_names_its_column() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t.csv");
    let table = |text: &str| std::fs::write(&path, text).unwrap();
    let joined = || Recipe::new().join("t", join(&path, "k")).column("t.x", number().impute(0.0));
    table("k,x\na,1\nb,\n");
    let prepared = fitted(&joined(), &[Value::Text("a")]).unwrap();
    let mut row = prepared.row();
    for (key, x) in [("a", 1.0), ("b", 0.0)] {
        prepared.apply([("k", Value::Text(key))], &mut row).unwrap();
        assert_eq!(row.f32("features").unwrap(), [x]);
    }
    let mut refused = |record: &str, part: &str, column: &str| {
        let error = prepared.apply_json(record, &mut row).unwrap_err();
        assert_eq!((error.kind(), error.location().column.as_deref()), (ErrorKind::Data, Some(column)), "{error}");
        assert!(error.message().contains(part), "{error}");
    };
    refused(r#"{"k": "c"}"#, "\"c\" is none of the 2 keys of the table t", "k");
    refused("{}", "there is no key for the table t", "k");
    refused(r#"{"k": [1]}"#, "expected a name, found a list", "k");

    let wrong = |recipe: &Recipe| RecipeFit::new(recipe).unwrap_err();
    table("k,x\na,1\nb,2\na,3\n");
    let error = wrong(&joined());
    assert!(error.to_string().contains("t.csv") && error.message().contains("the key \"a\" is in two rows"), "{error}");
    table("k,x\na,1\n,2\n");
    assert!(wrong(&joined()).message().contains("has no key"));
    table("k,y\na,1\n");
    let error = wrong(&joined());
    assert_eq!(error.kind(), ErrorKind::NotFound, "{error}");
    // Two towns that differ in a letter of Latin-1 would be one.
    for (text, column) in [(&b"k,x\na,1\nM\xfcnchen,2\n"[..], "k"), (b"k,x\na,1\nb,\xe9\n", "x")] {
        std::fs::write(&path, text).unwrap();
        let error = wrong(&joined());
        let place = error.location();
        assert_eq!(
            (error.kind(), place.line, place.column.as_deref()),
            (ErrorKind::Data, Some(3), Some(column)),
            "{error}"
        );
        assert!(error.path().is_some_and(|path| path.ends_with("t.csv")), "{error}");
        assert!(error.message().contains("not UTF-8"), "{error}");
    }
    // What the recipe does not use may be anything.
    std::fs::write(&path, b"k,x,z\na,1,\xff\n").unwrap();
    RecipeFit::new(&joined()).unwrap();

    let derived = Recipe::new().derive("x", product(["a", "b"])).column("x", number().impute(0.5));
    let prepared = fitted(&derived, &[Value::F64(2.0), Value::F64(3.0)]).unwrap();
    let mut row = prepared.row();
    prepared.apply_json(r#"{"a": 3}"#, &mut row).unwrap();
    assert_eq!(row.f32("features").unwrap(), [0.5], "what is made of a missing value is missing");
    prepared.apply_json(r#"{"a": 3, "b": 2}"#, &mut row).unwrap();
    assert_eq!(row.f32("features").unwrap(), [6.0]);
    prepared.apply_json(r#"{"a": 3}"#, &mut row).unwrap();
    assert_eq!(row.f32("features").unwrap(), [0.5], "nothing is left of the record before it");
    for (record, part) in [
        (r#"{"a": "x", "b": 1}"#, "expected a number, found \"x\""),
        (r#"{"a": 1e200, "b": 1e200}"#, "becomes inf, which is beyond the range of numbers"),
        (r#"{"a": [1], "b": 2}"#, "expected a number, found a list"),
    ] {
        let error = prepared.apply_json(record, &mut row).unwrap_err();
        assert_eq!(error.location().column.as_deref(), Some("x"), "{error}");
        assert!(error.message().contains(part), "{error}");
    }
    let error = prepared.apply([("c", Value::I64(3))], &mut row).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound);
    // Keys are names: 1.0 is 1.
    table("k,x\n1.0,5\n");
    let numbered = fitted(&joined(), &[Value::Text("1")]).unwrap();
    let mut row = numbered.row();
    numbered.apply_json(r#"{"k": 1}"#, &mut row).unwrap();
    // A record that is left out by its own fields need not be in any table.
    table("k,x\na,1\n");
    let filtered = fitted(&joined().filter("k in ['a', 'b']"), &[Value::Text("a")]).unwrap();
    let mut row = filtered.row();
    let error = filtered.apply_json(r#"{"k": "c"}"#, &mut row).unwrap_err();
    assert!(error.message().contains("leaves this record out"), "{error}");
    assert!(filtered.apply_json(r#"{"k": "b"}"#, &mut row).unwrap_err().message().contains("is none of"));
}

#[test]
fn integers_are_compared_and_subtracted_exactly() {
    let recipe = Recipe::new()
        .dtype(DType::F64)
        .derive("equal", equal("a", "b"))
        .derive("less", less("b", "a"))
        .derive("at_most", less_or_equal("a", "b"))
        .derive("after", difference("a", "b"))
        .derive("since", difference("a", 9_007_199_254_740_992.0))
        .derive("all", sum(["a", "b"]))
        .derive("most", largest(["a", "b"]))
        .derive("rest", difference("all", "most"))
        .derive("least", smallest(["a", "b"]))
        .derive("is_least", equal("rest", "least"))
        .filter("most == 9007199254740993 or a > 1735689600000000000");
    let recipe = ["equal", "less", "at_most", "after", "since", "is_least"]
        .into_iter()
        .fold(recipe, |recipe, name| recipe.column(name, number()));
    let features = |row: &PreparedRow| row.tensor("features").unwrap().as_slice::<f64>().unwrap().to_vec();
    let pandas = [0.0, 1.0, 0.0, 1.0, 1.0, 1.0];
    let (a, b) = ((1i64 << 53) + 1, 1i64 << 53);
    let prepared = fitted(&recipe, &[Value::I64(a), Value::I64(b)]).unwrap();
    let mut row = prepared.row();
    let texts = [a, b].map(|number| number.to_string());
    prepared.apply([("a", Value::I64(a)), ("b", Value::I64(b))], &mut row).unwrap();
    assert_eq!(features(&row), pandas);
    prepared.apply([("a", Value::I64(a)), ("b", Value::F64(b as f64))], &mut row).unwrap();
    assert_eq!(features(&row), pandas);
    prepared.apply_csv("a,b", &texts.join(","), &mut row).unwrap();
    assert_eq!(features(&row), pandas);
    prepared.apply_json(&format!(r#"{{"a": {}, "b": {}}}"#, texts[0], texts[1]), &mut row).unwrap();
    assert_eq!(features(&row), pandas);
    // Nanoseconds, and integers without a sign.
    for (a, b) in [
        (Value::I64(1_735_689_600_000_000_100), Value::I64(1_735_689_600_000_000_000)),
        (Value::U64(u64::MAX), Value::U64(u64::MAX - 100)),
    ] {
        prepared.apply([("a", a), ("b", b)], &mut row).unwrap();
        assert_eq!(features(&row)[..4], [0.0, 1.0, 0.0, 100.0]);
    }
}

/// Not only where it comes before.
#[test]
fn a_wrong_value_is_wrong_behind_a_missing_one() {
    for derive in [sum(["a", "b"]), ratio("a", "b"), days("a", "b"), same("a", "b"), equal("a", "b")] {
        let recipe = Recipe::new().derive("x", derive.clone()).column("x", number().impute(0.5));
        let days = matches!(derive, Derive::Days(_));
        let good = if days { Value::Text("2024-05-01") } else { Value::F64(1.0) };
        let prepared = fitted(&recipe, &[good, good]).unwrap();
        let mut row = prepared.row();
        let wrong = if matches!(derive, Derive::Same(_)) { "[1]" } else { "\"abc\"" };
        for record in [format!(r#"{{"b": {wrong}}}"#), format!(r#"{{"a": {wrong}}}"#)] {
            let error = prepared.apply_json(&record, &mut row).unwrap_err();
            assert_eq!((error.kind(), error.location().column.as_deref()), (ErrorKind::Data, Some("x")), "{error}");
        }
        prepared.apply_json("{}", &mut row).unwrap();
        assert_eq!(row.f32("features").unwrap(), [0.5]);
    }
}

#[test]
fn names_in_a_recipe_are_those_that_values_have() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t.csv");
    std::fs::write(&path, "version,x\n1.0,1\n2.0,2\n 1 ,3\n,4\n2.5,5\n").unwrap();
    let table = ringfeed::Loader::open(&path).unwrap();
    for (filter, expected) in [
        ("version == '1.0'", 2),
        ("version == ' 1'", 2),
        ("version != '1.0'", 2),
        ("version in ['2.0', '2.50', 'x'] and not (version == '3')", 1),
        ("not version == '2.0' and x > 1.0", 3),
    ] {
        let recipe = Recipe::new().filter(filter).column("x", number());
        assert_eq!(recipe.fit(&table).unwrap().records(), expected, "{filter}");
    }
    let recipe = Recipe::new().column("version", category().impute(" 2.0 "));
    let prepared = recipe.fit(&table).unwrap();
    let mut row = prepared.row();
    let mut code = |record: &str| {
        prepared.apply_json(record, &mut row).unwrap();
        row.i64("categories").unwrap()[0]
    };
    assert_eq!(
        ["{}", r#"{"version": 2}"#, r#"{"version": 1.0}"#, r#"{"version": "2.5"}"#].map(&mut code),
        [1, 1, 0, 2]
    );
}

#[test]
fn files_that_lie_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    houses(folder.path(), 50);
    let table = Loader::open(folder.path().join("houses.csv")).unwrap();
    let prepared = recipe(folder.path()).fit(&table).unwrap();
    let text = prepared.to_json().unwrap();
    for (from, to, part) in [
        ("\"version\": 2", "\"version\": 4", "version 4"),
        ("\"people\"", "\"peoples\"", "no column \"people\""),
        ("\"Bergen\"", "\"Oslo\"", "in two rows"),
        ("\"ratio\"", "\"rati\"", "rati"),
        ("price >= -2", "price ! -2", "filter"),
    ] {
        let error = Prepared::from_json(&text.replacen(from, to, 1)).unwrap_err();
        assert!(error.to_string().contains(part), "{to}: {error}");
    }
    let mut json: serde_json::Value = serde_json::from_str(&text).unwrap();
    json["prepared"]["join"]["cities"]["table"] = "/etc/passwd".into();
    let error = Prepared::from_json(&json.to_string()).unwrap_err();
    assert!(error.message().contains("a joined table that is not in it"), "{error}");
}

#[test]
fn bad_values_of_steps_have_a_place_and_a_policy() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("rows.csv");
    std::fs::write(&path, "a,b\n1,2\nx,2\n3,4\n5,-1\n7,y\n").unwrap();
    let recipe = Recipe::new().derive("c", sum(["a", "b"])).filter("b > 0").column("c", number());
    let rows = Loader::csv(&path);
    let error = recipe.fit(&Loader::open(&path).unwrap()).unwrap_err();
    assert_eq!((error.kind(), error.location().record), (ErrorKind::Data, Some(1)), "{error}");
    drop(rows);
    let skipping = || Loader::open(&path).unwrap().bad_records(BadRecords::Skip(BadLimits::default()));
    let prepared = recipe.fit(&skipping()).unwrap();
    assert_eq!(prepared.records(), 2, "one is left out, and two are bad");
    let mut batches = skipping().prepare(&prepared).build().unwrap();
    let sums: Vec<f32> = batches
        .epoch()
        .unwrap()
        .flat_map(|batch| batch.unwrap().tensor("features").unwrap().as_slice::<f32>().unwrap().to_vec())
        .collect();
    assert_eq!(sums, [3.0, 7.0]);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// However records are shared out, and in whatever order, the fit is the same to the bit.
    #[test]
    fn fits_of_shards_with_steps_merge_to_the_fit_of_the_whole(
        records in prop::collection::vec(
            ((prop::option::of(-9i8..9), prop::option::of(-3i8..3), "[ab|]{0,2}"), 0usize..3), 1..40),
    ) {
        let recipe = Recipe::new()
            .dtype(ringfeed::DType::F64)
            .derive("ratio", ratio("a", "b"))
            .derive("log", log_ratio("ratio", 3.0))
            .derive("pair", pair(["c", "b"]))
            .filter("a != 0 or c == 'a'")
            .column("ratio", number().impute(Median).mask().standardise())
            .column("log", number().impute(0.1).robust())
            .column("pair", category().unknown().by_frequency());
        let observe = |fit: &mut RecipeFit, (a, b, c): &(Option<i8>, Option<i8>, String)| {
            let number = |x: &Option<i8>| x.map_or(Value::Missing, |x| Value::I64(x.into()));
            fit.observe(&[number(a), number(b), Value::Text(c)]).unwrap();
        };
        let mut whole = RecipeFit::new(&recipe).unwrap();
        prop_assert_eq!(whole.field_names().collect::<Vec<_>>(), ["a", "b", "c"]);
        let mut shards: Vec<RecipeFit> = vec![whole.clone(); 3];
        records.iter().for_each(|(record, _)| observe(&mut whole, record));
        records.iter().rev().for_each(|(record, shard)| observe(&mut shards[*shard], record));
        let mut merged = shards.pop().unwrap();
        shards.iter().for_each(|shard| merged.merge(shard).unwrap());
        match (whole.finish(), merged.finish()) {
            (Ok(whole), Ok(merged)) => prop_assert_eq!(whole.to_json().unwrap(), merged.to_json().unwrap()),
            (Err(one), Err(other)) => prop_assert_eq!(one.to_string(), other.to_string()),
            (one, other) => prop_assert!(false, "{:?} {:?}", one.is_ok(), other.is_ok()),
        }
    }
}

#[test]
fn a_day_is_the_same_name_as_time_of_a_table_and_as_text() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("days.csv");
    std::fs::write(&path, "day,rate\n2024-05-01,2\n2024-05-02T06:30:00.25,3\n1969-12-31,5\n").unwrap();
    let days =
        [(19_844, DateUnit::Days, 2.0), (1_714_631_400_250, DateUnit::Milliseconds, 3.0), (-1, DateUnit::Days, 5.0)];
    let recipe =
        Recipe::new().join("rates", join(&path, "day")).column("rates.rate", number()).column("day", hash(1000));
    let mut fit = RecipeFit::new(&recipe).unwrap();
    assert!(fit.field_names().eq(["day"]));
    for (ticks, unit, _) in days {
        fit.observe(&[Value::Time(ticks, unit)]).unwrap();
    }
    let prepared = fit.finish().unwrap();
    let (mut row, mut other) = (prepared.row(), prepared.row());
    for ((ticks, unit, rate), text) in days.into_iter().zip(["2024-05-01", "2024-05-02T06:30:00.25", "1969-12-31"]) {
        prepared.apply([("day", Value::Time(ticks, unit))], &mut row).unwrap();
        assert_eq!(row.tensor("features").unwrap().as_slice::<f32>().unwrap(), [rate]);
        prepared.apply([("day", Value::Text(text))], &mut other).unwrap();
        assert_eq!(row.tensor("categories").unwrap().bytes(), other.tensor("categories").unwrap().bytes(), "{text}");
    }
}

#[test]
fn flags_have_one_name_however_they_are_written() {
    let recipe =
        Recipe::new().derive("both", pair(["flag", "city"])).column("both", category()).column("flag", hash(1000));
    let mut fit = RecipeFit::new(&recipe).unwrap();
    assert!(fit.field_names().eq(["flag", "city"]));
    for flag in ["True", "False"] {
        fit.observe(&[Value::Text(flag), Value::Text("Oslo")]).unwrap();
    }
    let prepared = fit.finish().unwrap();
    let codes = |flag: Value<'_>| {
        let mut row = prepared.row();
        prepared.apply([("flag", flag), ("city", Value::Text("Oslo"))], &mut row).unwrap();
        row.tensor("categories").unwrap().bytes().to_vec()
    };
    assert_eq!(codes(Value::Bool(true)), codes(Value::Text("True")));
    assert_eq!(codes(Value::Bool(false)), codes(Value::Text("FALSE")));
    assert_ne!(codes(Value::Bool(true)), codes(Value::Bool(false)));
}
