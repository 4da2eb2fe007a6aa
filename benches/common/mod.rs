//! What the benchmarks share: interleaved rounds of several cases, and a table of their medians.

use std::path::PathBuf;
use std::process::exit;

use serde_json::{Map, Value, json};

/// What was asked for on the command line.
pub(crate) struct Options {
    pub(crate) rounds: usize,
    /// What to measure with instead of data made for it, where the benchmark needs any.
    pub(crate) data: Option<PathBuf>,
    /// Whether to print JSON.
    pub(crate) json: bool,
    /// Which of its parts and cases to run, where the benchmark has names for them; all of them if none is given.
    pub(crate) names: Vec<String>,
}

/// What a benchmark takes from the command line: the number of rounds if none is given, and names.
pub(crate) struct Takes {
    rounds: usize,
    names: &'static [&'static str],
}

impl From<usize> for Takes {
    fn from(rounds: usize) -> Self {
        Self { rounds, names: &[] }
    }
}

impl From<(usize, &'static [&'static str])> for Takes {
    fn from((rounds, names): (usize, &'static [&'static str])) -> Self {
        Self { rounds, names }
    }
}

impl Options {
    /// `None` unless `cargo bench` calls: a test run builds the benchmarks and need not wait for them.
    pub(crate) fn from_args(takes: impl Into<Takes>) -> Option<Self> {
        let Takes { rounds, names } = takes.into();
        let usage = |problem: &str| usage(problem, names);
        let mut options = Self { rounds, data: None, json: false, names: Vec::new() };
        let mut asked = false;
        let mut args = std::env::args().skip(1);
        while let Some(arg) = args.next() {
            match arg.as_str() {
                "--bench" => asked = true,
                "--test" => return None,
                "--json" => options.json = true,
                "--rounds" => match args.next().and_then(|rounds| rounds.parse().ok()).filter(|rounds| *rounds > 0) {
                    Some(rounds) => options.rounds = rounds,
                    None => usage("--rounds takes a number from 1 on"),
                },
                "--data" => match args.next() {
                    Some(path) => options.data = Some(path.into()),
                    None => usage("--data takes a path"),
                },
                name if names.contains(&name) => options.names.push(arg),
                other => usage(&format!("unknown argument {other:?}")),
            }
        }
        asked.then_some(options)
    }
}

fn usage(problem: &str, names: &[&str]) -> ! {
    let names = if names.is_empty() { String::new() } else { format!(" [{}]...", names.join("|")) };
    eprintln!("{problem}; usage: cargo bench --bench NAME -- [--rounds N] [--data PATH] [--json]{names}");
    exit(2)
}

/// One line of the table: what distinguishes it, and how to run it once. A run gives the table's figures.
pub(crate) struct Case<'a> {
    names: Vec<String>,
    run: Box<dyn FnMut() -> Vec<f64> + 'a>,
    figures: Vec<Vec<f64>>,
}

impl<'a> Case<'a> {
    pub(crate) fn new(names: &[&dyn ToString], run: impl FnMut() -> Vec<f64> + 'a) -> Self {
        let names = names.iter().map(|name| name.to_string()).collect();
        Self { names, run: Box::new(run), figures: Vec::new() }
    }
}

/// The table of one benchmark.
pub(crate) struct Table {
    /// What it measures, and what it does not show.
    pub(crate) about: &'static str,
    /// Headings of what distinguishes the cases.
    pub(crate) names: &'static [&'static str],
    /// Headings of the figures, with their unit, and decimals to show.
    pub(crate) figures: &'static [(&'static str, usize)],
    rows: Vec<(Vec<String>, Vec<Vec<f64>>)>,
}

impl Table {
    pub(crate) fn new(
        about: &'static str,
        names: &'static [&'static str],
        figures: &'static [(&'static str, usize)],
    ) -> Self {
        Self { about, names, figures, rows: Vec::new() }
    }

    /// Runs the cases in turn, `rounds` times, after one round that is not counted: whatever else the machine does
    /// meets all of them alike.
    pub(crate) fn measure(&mut self, rounds: usize, mut cases: Vec<Case<'_>>) {
        for round in 0..=rounds {
            for case in &mut cases {
                let figures = (case.run)();
                assert_eq!(figures.len(), self.figures.len(), "a run gives every figure of the table");
                if round > 0 {
                    case.figures.push(figures);
                }
            }
        }
        for case in cases {
            let by_figure =
                (0..self.figures.len()).map(|index| case.figures.iter().map(|run| run[index]).collect()).collect();
            self.rows.push((case.names, by_figure));
        }
    }

    pub(crate) fn print(&self, options: &Options) {
        if options.json {
            println!("{}", self.to_json(options));
        } else {
            self.print_text(options);
        }
    }

    fn print_text(&self, options: &Options) {
        println!("{}\n", self.about);
        if let Some(data) = &options.data {
            println!("Data: {}", data.display());
        }
        if !options.names.is_empty() {
            println!("Of it: {}", options.names.join(" "));
        }
        println!("Median of {} interleaved rounds [least .. most]\n", options.rounds);
        let mut lines = vec![self.names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>()];
        lines[0].extend(self.figures.iter().map(|(name, _)| (*name).to_owned()));
        for (names, figures) in &self.rows {
            let shown = figures.iter().zip(self.figures).map(|(values, (_, decimals))| {
                let (median, least, most) = spread(values);
                format!("{median:.decimals$} [{least:.decimals$} .. {most:.decimals$}]")
            });
            lines.push(names.iter().cloned().chain(shown).collect());
        }
        let widths: Vec<usize> =
            (0..lines[0].len()).map(|column| lines.iter().map(|line| line[column].len()).max().unwrap_or(0)).collect();
        for line in lines {
            let cells: Vec<String> =
                line.iter().zip(&widths).map(|(cell, width)| format!("{cell:>width$}", width = *width)).collect();
            println!("{}", cells.join("  "));
        }
    }

    fn to_json(&self, options: &Options) -> Value {
        let rows = self.rows.iter().map(|(names, figures)| {
            let mut row: Map<String, Value> =
                self.names.iter().zip(names).map(|(heading, name)| ((*heading).to_owned(), json!(name))).collect();
            row.extend(self.figures.iter().zip(figures).map(|((heading, _), values)| {
                let (median, least, most) = spread(values);
                ((*heading).to_owned(), json!({ "median": median, "min": least, "max": most }))
            }));
            Value::Object(row)
        });
        json!({ "about": self.about, "data": options.data, "names": options.names, "rounds": options.rounds, "rows": rows.collect::<Vec<_>>() })
    }
}

/// Median, least and most.
pub(crate) fn spread(values: &[f64]) -> (f64, f64, f64) {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    let median = if sorted.len() % 2 == 1 { sorted[middle] } else { (sorted[middle - 1] + sorted[middle]) / 2.0 };
    (median, sorted[0], sorted[sorted.len() - 1])
}
