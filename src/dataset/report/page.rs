use std::fmt::{self, Write};
use std::path::Path;

use crate::error::{Error, ErrorKind, Result};
use crate::files::write_whole;
use crate::stats::{Percent, Seconds, Stats, Verdict};
use crate::tree::any;

use super::run::{Moment, Report};

/// Maximum number of slow and bad samples on the page. The data has more of them.
const LISTED: usize = 20;

impl Report {
    /// The report as one page of HTML, which needs no network and no script.
    pub fn to_html(&self) -> String {
        let mut page = String::new();
        // Writing to a string does not fail.
        let _ = write(&mut page, self);
        page
    }

    /// Writes the report to a file: a page if the name ends in `.html`, data if it ends in `.json`.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Config`] for another name; [`ErrorKind::Io`] if the file can't be written.
    pub fn save(&self, path: impl AsRef<Path>) -> Result<()> {
        self.save_with(path, |text| text)
    }

    /// As [`save`](Self::save), but `change` edits the text before it is written, for example to replace temporary file
    /// names.
    ///
    /// # Errors
    ///
    /// As [`save`](Self::save).
    pub fn save_with(&self, path: impl AsRef<Path>, change: impl FnOnce(String) -> String) -> Result<()> {
        let path = path.as_ref();
        let text = match path.extension().and_then(|extension| extension.to_str()) {
            Some("html") => self.to_html(),
            Some("json") => serde_json::to_string(any(self))
                .map_err(|error| Error::new(ErrorKind::Data, format!("the report can't be written: {error}")))?,
            _ => {
                let message = "a report is a page (.html) or data (.json): give the file one of these extensions";
                return Err(Error::new(ErrorKind::Config, message).at_path(path));
            }
        };
        write_whole(path, &[change(text).as_bytes()]).map_err(|error| Error::io(path, error))
    }
}

/// Any text, escaped for a page.
struct Text<'a>(&'a str);

impl fmt::Display for Text<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.chars().try_for_each(|character| match character {
            '&' => f.write_str("&amp;"),
            '<' => f.write_str("&lt;"),
            '>' => f.write_str("&gt;"),
            '"' => f.write_str("&quot;"),
            '\'' => f.write_str("&#39;"),
            control if control.is_control() => write!(f, "{}", control.escape_default()),
            other => f.write_char(other),
        })
    }
}

fn write(page: &mut String, report: &Report) -> fmt::Result {
    let stats = &report.stats;
    write!(
        page,
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<meta name=\"viewport\" \
         content=\"width=device-width, initial-scale=1\">\n<title>Ringfeed: a run</title>\n<style>\n{}</style>\n</head>\n<body>\n\
         <h1>Ringfeed: a run</h1>\n",
        include_str!("page.css")
    )?;
    verdict(page, &report.verdict)?;
    figures(page, stats)?;
    if report.timeline.len() >= 2 {
        over_time(
            page,
            "Throughput",
            "samples per second",
            &report.timeline,
            |moment| moment.samples_per_second,
            None,
            number,
        )?;
        let ahead = Some(stats.queue.prefetch as f64).filter(|prefetch| *prefetch > 0.0);
        over_time(
            page,
            "Ready batches",
            "batches that waited for the trainer",
            &report.timeline,
            |moment| moment.ready,
            ahead,
            number,
        )?;
        over_time(
            page,
            "Waiting",
            "share of the time that the trainer waited",
            &report.timeline,
            |moment| moment.waited,
            Some(1.0),
            |share| Percent(share).to_string(),
        )?;
    }
    stages(page, stats)?;
    per_batch(page, stats)?;
    waits(page, stats)?;
    let slow = stats.slowest.iter().map(|slow| (slow.name.as_str(), Seconds(slow.seconds()).to_string()));
    list(page, "Slowest samples", ("sample", "time"), slow)?;
    let bad = report.bad_records.iter().map(|bad| (bad.error.as_str(), format!("{}x", grouped(bad.times))));
    list(page, "Bad samples", ("sample", "met"), bad)?;
    list(
        page,
        "Settings and machine",
        ("what", "value"),
        report.about.iter().map(|(name, value)| (name.as_str(), value.clone())),
    )?;
    page.write_str("</body>\n</html>\n")
}

fn verdict(page: &mut String, verdict: &Verdict) -> fmt::Result {
    let sentence = verdict.to_string();
    let (head, rest) = sentence.split_once(": ").unwrap_or((&sentence, ""));
    writeln!(page, "<section class=\"verdict\"><b>{}</b>{}</section>", Text(head), Text(rest))
}

fn figures(page: &mut String, stats: &Stats) -> fmt::Result {
    let (trainer, queue) = (&stats.trainer, &stats.queue);
    let rate = if trainer.seconds() > 0.0 { stats.samples as f64 / trainer.seconds() } else { 0.0 };
    page.write_str("<section class=\"figures\">\n")?;
    let mut figure = |value: String, name: &str| writeln!(page, "<div><b>{value}</b><span>{name}</span></div>");
    figure(number(rate), "samples per second")?;
    figure(Percent(trainer.waited()).to_string(), "of the time the trainer waited")?;
    figure(Percent(trainer.readiness()).to_string(), "of the batches were ready when asked for")?;
    figure(format!("{:.1}", queue.mean_ready()), "batches ready on average")?;
    figure(Seconds(trainer.steps.p50_seconds).to_string(), "for half of the trainer's steps")?;
    figure(grouped(stats.samples), "samples")?;
    page.write_str("</section>\n")
}

const WIDTH: f64 = 720.0;
const HEIGHT: f64 = 100.0;

/// A line over time, as wide as the page allows. Its ends show the highest value and the time, in text that does not
/// shrink with the line.
fn over_time(
    page: &mut String,
    title: &str,
    what: &str,
    moments: &[Moment],
    value: impl Fn(&Moment) -> f64,
    top: Option<f64>,
    shown: impl Fn(f64) -> String,
) -> fmt::Result {
    let most = moments.iter().map(&value).fold(top.unwrap_or(0.0), f64::max).max(f64::MIN_POSITIVE);
    let end = moments.last().map_or(1.0, |moment| moment.seconds).max(f64::MIN_POSITIVE);
    write!(
        page,
        "<h2>{title}</h2>\n<figure><div><svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" preserveAspectRatio=\"none\" role=\"img\" \
         aria-label=\"{title} over time\"><polyline points=\""
    )?;
    for moment in moments {
        let (x, y) = (WIDTH * moment.seconds / end, HEIGHT - (HEIGHT - 2.0) * value(moment) / most);
        write!(page, "{x:.1},{y:.1} ")?;
    }
    writeln!(
        page,
        "\"/></svg><span class=\"top\">{}</span><span class=\"end\">{end:.2} s</span></div><figcaption>{what}</figcaption></figure>",
        shown(most)
    )
}

fn stages(page: &mut String, stats: &Stats) -> fmt::Result {
    page.write_str(
        "<h2>Stages</h2>\n<div class=\"scroll stages\"><table><tr><th>stage</th><th>threads</th><th>busy</th><th class=\"bars\"></th><th>on a core</th>\
         <th>p50</th><th>p90</th><th>p99</th><th>samples</th></tr>\n",
    )?;
    for stage in &stats.stages {
        let busy = stage.utilisation();
        let core = stage.cpu_seconds.filter(|_| stage.busy_seconds > 0.0);
        let core = core.map_or_else(|| "-".to_owned(), |cpu| Percent(cpu / stage.busy_seconds).to_string());
        let [p50, p90, p99] = stage.times.quantiles().map(Seconds);
        writeln!(
            page,
            "<tr><td>{}</td><td>{}</td><td>{}</td><td class=\"bars\"><span style=\"width:{:.0}%\"></span></td><td>{core}</td><td>{p50}</td>\
             <td>{p90}</td><td>{p99}</td><td>{}</td></tr>",
            stage.name,
            stage.threads,
            Percent(busy),
            100.0 * busy,
            grouped(stage.samples)
        )?;
    }
    page.write_str("</table></div>\n")
}

/// How long each batch took outside of the workers.
fn per_batch(page: &mut String, stats: &Stats) -> fmt::Result {
    let per_batch = stats.per_batch();
    if per_batch.is_empty() {
        return Ok(());
    }
    page.write_str(
        "<h2>Each batch</h2>\n<div class=\"scroll\"><table><tr><th>what</th><th>p50</th><th>p90</th><th>p99</th><th>batches</th></tr>\n",
    )?;
    for (what, times) in per_batch {
        let [p50, p90, p99] = times.quantiles().map(Seconds);
        let count = grouped(times.count);
        writeln!(page, "<tr><td>{what}</td><td>{p50}</td><td>{p90}</td><td>{p99}</td><td>{count}</td></tr>")?;
    }
    page.write_str("</table></div>\n")
}

/// A histogram of the trainer's waits.
fn waits(page: &mut String, stats: &Stats) -> fmt::Result {
    let buckets: Vec<(f64, u64)> = stats.trainer.waits.buckets().collect();
    let most = buckets.iter().map(|(_, count)| *count).max().unwrap_or(0);
    if most == 0 {
        return Ok(());
    }
    page.write_str(
        "<h2>Waits for a batch</h2>\n<div class=\"scroll waits\"><table><tr><th>up to</th><th>batches</th><th></th></tr>\n",
    )?;
    for (to, count) in buckets {
        let width = 100.0 * count as f64 / most as f64;
        let up_to = if to < 2e-9 { "not at all".to_owned() } else { Seconds(to).to_string() };
        writeln!(
            page,
            "<tr><td>{up_to}</td><td>{}</td><td class=\"bars\"><span style=\"width:{width:.1}%\"></span></td></tr>",
            grouped(count)
        )?;
    }
    page.write_str("</table></div>\n")
}

fn list<'a>(
    page: &mut String,
    title: &str,
    heads: (&str, &str),
    rows: impl ExactSizeIterator<Item = (&'a str, String)>,
) -> fmt::Result {
    let count = rows.len();
    if count == 0 {
        return Ok(());
    }
    let (first, second) = heads;
    writeln!(page, "<h2>{title}</h2>\n<div class=\"scroll names\"><table><tr><th>{first}</th><th>{second}</th></tr>")?;
    for (name, value) in rows.take(LISTED) {
        writeln!(page, "<tr><td>{}</td><td>{}</td></tr>", Text(name), Text(&value))?;
    }
    page.write_str("</table></div>\n")?;
    if count > LISTED { writeln!(page, "<p class=\"note\">and {} more</p>", count - LISTED) } else { Ok(()) }
}

fn number(number: f64) -> String {
    match number {
        n if n >= 10.0 => grouped(n.round() as u64),
        n if n >= 1.0 => format!("{n:.1}"),
        n => format!("{n:.2}"),
    }
}

/// With a comma before each three digits.
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (nth, digit) in digits.chars().enumerate() {
        if nth > 0 && (digits.len() - nth).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report() -> Report {
        let moment = |seconds, samples_per_second, waited| Moment { seconds, samples_per_second, waited, ready: 0.0 };
        let timeline = vec![moment(1.0, 50.0, 0.25), moment(2.0, 100.0, 0.0), moment(4.0, 0.0, 0.5)];
        let mut report = Report::new(Stats::default(), timeline, Vec::new());
        report.stats.trainer.wait_seconds = 1.0;
        report.stats.trainer.busy_seconds = 3.0;
        report
    }

    #[test]
    fn a_line_is_as_wide_as_the_time_and_as_high_as_the_highest_value() {
        let page = report().to_html();
        assert!(page.contains("points=\"180.0,51.0 360.0,2.0 720.0,100.0 \""), "{page}");
        assert!(page.contains("<span class=\"top\">100</span><span class=\"end\">4.00 s</span>"), "{page}");
        // Shares are drawn below one.
        assert!(page.contains("points=\"180.0,75.5 360.0,100.0 720.0,51.0 \""), "{page}");
    }

    #[test]
    fn shares_are_percentages() {
        let page = report().to_html();
        assert!(page.contains("<b>25 %</b><span>of the time the trainer waited</span>"), "{page}");
    }
}
