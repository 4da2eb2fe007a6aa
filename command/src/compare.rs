//! Two runs side by side: what differs, and by more than each differs from itself.

use std::path::Path;

use ringfeed::{Error, ErrorKind, Result};
use serde::Serialize;
use serde_json::Value;

use crate::args::CompareArgs;
use crate::output::Report;
use crate::table::{Column, Table, figure, one_line};

/// One figure of both runs.
#[derive(Serialize)]
pub(crate) struct Line {
    figure: &'static str,
    first: f64,
    second: f64,
    /// The second by the first; absent where the first is nothing.
    ratio: Option<f64>,
    /// Whether every epoch of one run lies beyond all of the other's; absent where that is not known.
    beyond_spread: Option<bool>,
}

#[derive(Serialize)]
pub(crate) struct Comparison {
    first: String,
    second: String,
    lines: Vec<Line>,
    verdicts: [String; 2],
    /// What they read, where that is not the same.
    data: Option<[String; 2]>,
}

/// A report that `bench --json` or `--report FILE.json` wrote, or an epoch of one.
struct Run {
    json: Value,
    /// Its epochs, where their figures were written down.
    epochs: Vec<Run>,
    /// Samples per second of each epoch, where they were written down, or of each quarter of a trainer's run.
    rates: Vec<f64>,
}

/// What `bench` says of its epochs in a report: samples per second, with spaces between.
pub(crate) const BY_EPOCH: &str = "samples per second by epoch";

/// Samples per second in each quarter of what a report tells over time, where it tells enough.
fn quarters(timeline: &Value) -> Vec<f64> {
    let moment = |moment: &Value| Some((moment["seconds"].as_f64()?, moment["samples_per_second"].as_f64()?));
    let moments: Vec<(f64, f64)> = timeline.as_array().into_iter().flatten().filter_map(moment).collect();
    if moments.len() < 8 {
        return Vec::new();
    }
    let (begin, end) = (moments[0].0, moments[moments.len() - 1].0);
    let mut sums = [(0.0, 0.0); 4];
    for pair in moments.windows(2) {
        let [(from, _), (to, rate)] = [pair[0], pair[1]];
        let middle = (from + to) / 2.0;
        let (samples, seconds) = &mut sums[((4.0 * (middle - begin) / (end - begin)) as usize).min(3)];
        (*samples, *seconds) = (*samples + rate * (to - from), *seconds + (to - from));
    }
    sums.iter().filter(|(_, seconds)| *seconds > 0.0).map(|(samples, seconds)| samples / seconds).collect()
}

impl Run {
    fn read(path: &Path) -> Result<Self> {
        let text = std::fs::read(path).map_err(|error| Error::io(path, error))?;
        let json: Value =
            serde_json::from_slice(&text).map_err(|error| is_no_report(path, &format!("it is not JSON ({error})")))?;
        let rates = json["epoch_samples_per_second"].as_array();
        let rates = rates.map(|rates| rates.iter().filter_map(Value::as_f64).collect());
        let told =
            || json["about"][BY_EPOCH].as_str().map(|told| told.split(' ').filter_map(|n| n.parse().ok()).collect());
        let rates = rates.or_else(told).unwrap_or_else(|| quarters(&json["timeline"]));
        let epochs = json["by_epoch"].as_array().into_iter().flatten();
        let epochs = epochs.map(|epoch| Self { json: epoch.clone(), epochs: Vec::new(), rates: Vec::new() }).collect();
        let run = Self { json, epochs, rates };
        match run.json.get("error") {
            Some(_) => Err(is_no_report(path, "it reports an error, and has no figures")),
            None => run.missing().map_or(Ok(run), |missing| Err(is_no_report(path, &missing))),
        }
    }

    /// What every report has, and this one does not.
    fn missing(&self) -> Option<String> {
        let parts = ["limit", "evidence", "advice"].map(|part| format!("/verdict/{part}"));
        let text = parts.iter().find(|part| self.json.pointer(part).and_then(Value::as_str).is_none());
        let figures = ["/samples", "/trainer/batches", "/trainer/wait_seconds", "/trainer/busy_seconds"];
        let figure = figures.iter().find(|figure| self.at(figure).is_none());
        let missing = text.map(String::as_str).or(figure.copied())?;
        Some(format!("it has no {}", missing[1..].replace('/', ".")))
    }

    /// A value of `bench --json`, or of the figures of a report.
    fn at(&self, pointer: &str) -> Option<f64> {
        let value = self.json.pointer(pointer).or_else(|| self.json.pointer(&format!("/stats{pointer}")));
        value.and_then(Value::as_f64)
    }

    fn trainer_seconds(&self) -> Option<f64> {
        let parts = ["wait", "busy", "deliver"].map(|part| self.at(&format!("/trainer/{part}_seconds")));
        parts.into_iter().sum()
    }

    fn samples_per_second(&self) -> Option<f64> {
        self.at("/samples_per_second").or_else(|| Some(self.at("/samples")? / self.trainer_seconds()?))
    }

    fn stage(&self, name: &str) -> Option<f64> {
        let stages = self.json.pointer("/stages").or_else(|| self.json.pointer("/stats/stages"))?;
        let stage = stages.as_array()?.iter().find(|stage| stage["name"] == name)?;
        let samples = stage["samples"].as_f64().filter(|samples| *samples > 0.0)?;
        Some(1e6 * stage["busy_seconds"].as_f64()? / samples)
    }

    fn verdict(&self) -> String {
        let part = |name: &str| self.json["verdict"][name].as_str().unwrap_or_default().to_owned();
        format!("{}: {}; {}", part("limit").replace('_', " "), part("evidence"), part("advice"))
    }

    /// What it read.
    fn path(&self) -> Option<&str> {
        self.json["path"].as_str().or_else(|| self.json["about"]["path"].as_str())
    }

    /// The least and the largest value of any epoch.
    fn range(&self, value: &dyn Fn(&Run) -> Option<f64>) -> Option<[f64; 2]> {
        let values: Option<Vec<f64>> = self.epochs.iter().map(value).collect();
        range(&values.filter(|values| values.iter().all(|value| value.is_finite()))?)
    }
}

/// With three epochs of each, runs that are the same seem to be apart by chance in one of ten comparisons.
const FEWEST_EPOCHS: usize = 3;
/// How far apart neighbouring values of a histogram are.
const BUCKET: f64 = 0.25;

fn range(values: &[f64]) -> Option<[f64; 2]> {
    let fold = |with: fn(f64, f64) -> f64| values.iter().copied().reduce(with);
    Some([fold(f64::min)?, fold(f64::max)?]).filter(|_| values.len() >= FEWEST_EPOCHS)
}

/// Whether every value of one is beyond all of the other, by more than `step` of it.
fn are_apart([low, high]: [f64; 2], [other_low, other_high]: [f64; 2], step: f64) -> bool {
    other_low > high * (1.0 + step) || other_high * (1.0 + step) < low
}

fn is_no_report(path: &Path, why: &str) -> Error {
    let message = format!(
        "this is not a report of a run: {why}; give the output of `ringfeed bench --json`, the file of `ringfeed \
         bench --report FILE.json`, or that of a trainer's own `report().save(\"FILE.json\")`"
    );
    Error::new(ErrorKind::Format, message).at_path(path)
}

pub(crate) fn compare(args: &CompareArgs) -> Result<Comparison> {
    let (first, second) = (Run::read(&args.first)?, Run::read(&args.second)?);
    let mut lines = Vec::new();
    let mut line = |figure: &'static str, value: &dyn Fn(&Run) -> Option<f64>| {
        let number = |run| value(run).filter(|value| value.is_finite());
        if let (Some(of_first), Some(of_second)) = (number(&first), number(&second)) {
            let ratio = (of_first != 0.0).then(|| of_second / of_first);
            let ranges = first.range(value).zip(second.range(value));
            let step = if figure.starts_with("wait p") { BUCKET } else { 0.0 };
            let beyond_spread = ranges.map(|(first, second)| are_apart(first, second, step));
            lines.push(Line { figure, first: of_first, second: of_second, ratio, beyond_spread });
        }
    };
    line("samples/s", &Run::samples_per_second);
    line("trainer waited, %", &|run| Some(100.0 * run.json["verdict"]["waited"].as_f64()?));
    line("step, ms", &|run| Some(1e3 * run.at("/trainer/busy_seconds")? / run.at("/trainer/batches")?));
    line("wait p50, ms", &|run| Some(1e3 * run.at("/trainer/waits/p50_seconds")?));
    line("wait p99, ms", &|run| Some(1e3 * run.at("/trainer/waits/p99_seconds")?));
    line("plan, us/sample", &|run| run.stage("plan"));
    line("read, us/sample", &|run| run.stage("read"));
    line("decode, us/sample", &|run| run.stage("decode"));
    line("resize, us/sample", &|run| run.stage("resize"));
    line("transform, us/sample", &|run| run.stage("transform"));
    line("memory, bytes", &|run| run.at("/memory_bytes"));
    // These are written down where the other figures of epochs are not.
    if let Some((first, second)) = range(&first.rates).zip(range(&second.rates)) {
        let rates = lines.iter_mut().filter(|line| line.figure == "samples/s");
        rates.for_each(|rate| rate.beyond_spread = Some(are_apart(first, second, 0.0)));
    }
    let name = |path: &Path| crate::output::lossy(path);
    let verdicts = [first.verdict(), second.verdict()];
    let data = first.path().zip(second.path()).filter(|(first, second)| first != second);
    let data = data.map(|(first, second)| [first.to_owned(), second.to_owned()]);
    Ok(Comparison { first: name(&args.first), second: name(&args.second), lines, verdicts, data })
}

impl Report for Comparison {
    fn text(&self, width: usize) -> String {
        let columns = ["figure", "first", "second", "second by first", "beyond the spread"];
        let mut table = Table::new(&[
            Column::Text(columns[0]),
            Column::Number(columns[1]),
            Column::Number(columns[2]),
            Column::Number(columns[3]),
            Column::Text(columns[4]),
        ]);
        for line in &self.lines {
            table.row([
                line.figure.to_owned(),
                figure(line.first),
                figure(line.second),
                line.ratio.map_or_else(|| "-".to_owned(), |ratio| format!("{ratio:.2}x")),
                match line.beyond_spread {
                    Some(true) => "yes".to_owned(),
                    Some(false) => "no".to_owned(),
                    None => "not known".to_owned(),
                },
            ]);
        }
        let [first, second] = self.verdicts.each_ref().map(|verdict| one_line(verdict));
        let data = self.data.as_ref().map_or_else(String::new, |[first, second]| {
            format!("the runs read different data: {} and {}\n", one_line(first), one_line(second))
        });
        format!(
            "first   {}\nsecond  {}\n{data}\n{}\nfirst   {first}\nsecond  {second}\n",
            one_line(&self.first),
            one_line(&self.second),
            table.render(width)
        )
    }
}
