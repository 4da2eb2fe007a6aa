//! What fitted preprocessing costs: one record in a server, a row of a batch, and fitting.

mod common;

use std::fmt::Write;

use common::{Case, Options, Table};
use cpu_time::ThreadTime;
use ringfeed::field::{Category, Numbers};
use ringfeed::prepare::{DatePart, Median, Prepared, Recipe, category, date, hash, number};
use ringfeed::read::Value;
use ringfeed::{Loader, Result};

const ABOUT: &str = "\
Processor time of the calling thread, in nanoseconds for each of 20,000 records: 8 numbers of which some are missing (median, \
mask, standardised), 3 columns of names (two codes, one one-hot of 7), one of names by their hash, and one of dates (month and weekday, \
cyclic). Served: one record after another, from values, a line of CSV, and a JSON object. Batches: from files in the page cache, \
behind a shield; beside them the numbers and \
codes of the same CSV file as they are. Fitted: one pass, with exact sums and medians.";

const RECORDS: usize = 20_000;
const NUMBERS: usize = 8;

fn main() -> Result<()> {
    let Some(options) = Options::from_args(9) else { return Ok(()) };
    let mut table = Table::new(ABOUT, &["what", "how"], &[("ns", 1)]);
    let folder = tempfile::tempdir()?;
    let (csv, jsonl) = files();
    let (csv_path, jsonl_path) = (folder.path().join("table.csv"), folder.path().join("table.jsonl"));
    std::fs::write(&csv_path, &csv)?;
    std::fs::write(&jsonl_path, &jsonl)?;
    let (csv_table, jsonl_table) = (Loader::open(&csv_path)?.shield(), Loader::open(&jsonl_path)?.shield());
    let prepared = recipe().fit(&csv_table)?;

    let names: Vec<String> = prepared.column_names().map(str::to_owned).collect();
    let mut row = prepared.row();
    let own = prepared.clone();
    let values = Case::new(&[&"served", &"values"], move || {
        vec![nanoseconds(|| {
            for i in 0..RECORDS {
                let numbers = names[..NUMBERS].iter().map(|name| (&**name, Value::F64(i as f64)));
                let texts = names[NUMBERS..NUMBERS + 4].iter().map(|name| (&**name, Value::Text("a1")));
                let date = (&*names[NUMBERS + 4], Value::Text("2024-05-01"));
                own.apply(numbers.chain(texts).chain([date]), &mut row)?;
            }
            Ok(())
        })]
    });
    let mut row = prepared.row();
    let (own, text) = (prepared.clone(), csv.clone());
    let lines = Case::new(&[&"served", &"CSV"], move || {
        vec![nanoseconds(|| {
            let (header, rest) = text.split_once('\n').unwrap_or_default();
            rest.lines().try_for_each(|line| own.apply_csv(header, line, &mut row))
        })]
    });
    let mut row = prepared.row();
    let (own, text) = (prepared.clone(), jsonl);
    let objects = Case::new(&[&"served", &"JSON"], move || {
        vec![nanoseconds(|| text.lines().try_for_each(|line| own.apply_json(line, &mut row)))]
    });
    table.measure(options.rounds, vec![values, lines, objects]);

    let numbers = (0..NUMBERS).map(|nth| format!("n{nth}")).collect::<Vec<_>>();
    let of_numbers = |missing| Numbers::f32().missing(missing).from(numbers.clone());
    let codes = || Category::new().missing(-1).from(["c0", "c1", "c2"]);
    let plain = |missing| csv_table.clone().field("numbers", of_numbers(missing)).field("codes", codes());
    table.measure(
        options.rounds,
        vec![
            epochs("CSV, as it is", plain(ringfeed::csv::Missing::Nan))?,
            epochs("CSV, prepared", csv_table.clone().prepare(&prepared))?,
            epochs("JSON Lines, prepared", jsonl_table.prepare(&prepared))?,
            Case::new(&[&"fitted", &"CSV"], move || {
                vec![nanoseconds(|| recipe().fit(&csv_table).map(|_: Prepared| ()))]
            }),
        ],
    );
    table.print(&options);
    Ok(())
}

fn recipe() -> Recipe {
    let mut recipe = Recipe::new();
    for nth in 0..NUMBERS {
        recipe = recipe.column(format!("n{nth}"), number().impute(Median).mask().standardise());
    }
    recipe
        .column("c0", category().unknown())
        .column("c1", category().unknown())
        .column("c2", category().one_hot().unknown())
        .column("h", hash(1000))
        .column("d", date().cyclic(DatePart::Month).cyclic(DatePart::Weekday).impute("2000-01-01"))
}

/// The same records as CSV and as JSON Lines.
fn files() -> (String, String) {
    let names: Vec<String> = (0..NUMBERS).map(|nth| format!("n{nth}")).collect();
    let (mut csv, mut jsonl) = (names.join(",") + ",c0,c1,c2,h,d\n", String::new());
    for i in 0..RECORDS {
        jsonl.push('{');
        for (nth, name) in names.iter().enumerate() {
            let number = (i * (nth + 3) % 9973) as f64 / 100.0;
            let is_missing = (i + nth).is_multiple_of(13);
            let (field, value) =
                if is_missing { (String::new(), "null".to_owned()) } else { (number.to_string(), number.to_string()) };
            let _ = write!(csv, "{field},");
            let _ = write!(jsonl, "\"{name}\": {value}, ");
        }
        let (month, day) = (i % 12 + 1, i % 28 + 1);
        let _ = writeln!(csv, "a{},b{},c{},id-{i},2024-{month:02}-{day:02}", i % 50, i % 9, i % 7);
        let _ = writeln!(
            jsonl,
            "\"c0\": \"a{}\", \"c1\": \"b{}\", \"c2\": \"c{}\", \"h\": \"id-{i}\", \"d\": \"2024-{month:02}-{day:02}\"}}",
            i % 50,
            i % 9,
            i % 7
        );
    }
    (csv, jsonl)
}

/// Nanoseconds for each record of work on all of them.
fn nanoseconds(mut work: impl FnMut() -> Result<()>) -> f64 {
    let start = ThreadTime::now();
    work().expect("the records are good");
    start.elapsed().as_nanos() as f64 / RECORDS as f64
}

fn epochs(how: &'static str, loader: Loader) -> Result<Case<'static>> {
    let mut batches = loader.batch_size(256).build()?;
    Ok(Case::new(&[&"batches", &how], move || {
        vec![nanoseconds(|| {
            batches.epoch()?.try_for_each(|batch| batch.map(|_| ()))?;
            Ok(())
        })]
    }))
}
