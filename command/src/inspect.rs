use std::path::Path;

use ringfeed::arrays::RawOptions;
use ringfeed::csv::CsvOptions;
use ringfeed::formats::{Csv, CsvSequences, Formats, Raw};
use ringfeed::inspect::{Details, Figure, Inspection, NamedCount};
use ringfeed::memory::MemoryBudget;
use ringfeed::settings::SourceConfig;
use ringfeed::storage::Files;
use ringfeed::{Error, ErrorKind, LoaderConfig, Result};
use serde::Serialize;

use super::args::InspectArgs;
use super::config::at_path;
use super::fit::{self, Fitted};
use super::output::{Report, lossy};
use super::pack::only_source;
use super::record::{stored, text_of};
use super::table::{Column, Table, count, figure, one_line, shorten, things};

/// What lies somewhere.
#[derive(Serialize)]
#[serde(untagged)]
pub(crate) enum Inspected {
    Data(Box<Inspection>),
    Fitted(Fitted),
}

impl Report for Inspected {
    fn text(&self, width: usize) -> String {
        match self {
            Self::Data(data) => data.text(width),
            Self::Fitted(fitted) => fitted.text(width),
        }
    }
}

/// Reads what the arguments name; `csv` says how, if it is CSV, and `raw`, if it has no header.
pub(crate) fn run(
    args: &InspectArgs,
    csv: &CsvOptions,
    raw: Option<&RawOptions>,
    formats: &Formats,
) -> Result<Inspected> {
    // Without settings, clap has seen to it that there is a path.
    let path = args.path.as_deref();
    let Some(file) = &args.config else { return inspect(path.unwrap_or(Path::new("")), csv, raw, formats) };
    let config = LoaderConfig::load_with(file, formats)?;
    let config = at_path(config, path, formats, |path| Ok(vec![formats.whole(path)?]))?;
    of_source(&only_source(config, "inspected").map_err(|error| error.at_path(file))?)
}

fn of_source(source: &SourceConfig) -> Result<Inspected> {
    source.inspect(&Files::local(), &MemoryBudget::unlimited()).map(|data| Inspected::Data(Box::new(data)))
}

fn inspect(path: &Path, csv: &CsvOptions, raw: Option<&RawOptions>, formats: &Formats) -> Result<Inspected> {
    if raw.is_none()
        && let Some(fitted) = fit::inspect(path)?
    {
        return Ok(Inspected::Fitted(fitted));
    }
    // Text in an encoding such as UTF-16 may look like anything: the name of an encoding or of a delimiter says that it
    // is a table.
    let is_told = (csv.encoding.is_some() || csv.delimiter.is_some()) && path.is_file();
    let mut source = match raw {
        Some(options) => SourceConfig::new(Raw, path, options.clone()),
        None if is_told => SourceConfig::new(Csv, path, csv.clone()),
        None => formats.whole(path)?,
    };
    if let Some(options) = source.options_mut::<Csv>() {
        options.clone_from(csv);
    } else if let Some(options) = source.options_mut::<CsvSequences>() {
        options.csv.clone_from(csv);
    } else if *csv != CsvOptions::default() {
        let message =
            format!("--header, --delimiter and --encoding are for CSV files, but this is {}", source.format());
        return Err(Error::new(ErrorKind::Config, message).at_path(path));
    }
    of_source(&source)
}

/// The names of what is not read.
fn names_of(ignored: &NamedCount) -> Option<String> {
    let names: Vec<_> = ignored.first.iter().map(|name| one_line(name)).collect();
    let more = if ignored.count > names.len() as u64 { ", ..." } else { "" };
    (!names.is_empty()).then(|| format!("{}{more}", names.join(", ")))
}

/// Most classes that are listed for a person.
const CLASSES_SHOWN: usize = 20;

impl Report for Inspection {
    fn text(&self, width: usize) -> String {
        let mut text =
            format!("{}: {}, {}\n", one_line(&lossy(&self.path)), self.format, things(self.records, "record"));
        let mut line = |name: &str, value: String| text += &format!("{name}: {value}\n");
        match &self.details {
            Details::Table { header, header_reason, delimiter, encoding, steps, .. } => {
                let decided = if header_reason == "as given" { "" } else { "detected: " };
                let header = if *header { "yes" } else { "no" };
                line("header", format!("{header} ({decided}{})", one_line(header_reason)));
                line("delimiter", format!("{delimiter:?}"));
                line("encoding", encoding.clone());
                if let Some(steps) = steps {
                    line("steps of all sequences", count(*steps));
                }
            }
            Details::Arrays { files, .. } => {
                for file in files {
                    line(&one_line(&file.name), things(file.records, "record"));
                }
            }
            Details::Image { width, height, channels, channel_means: [red, green, blue], orientation } => {
                let channels = things(u64::from(*channels), "channel");
                line("size", format!("{width} x {height} pixels, {channels} (EXIF orientation {orientation})"));
                line("channel means", format!("{}, {}, {}", figure(*red), figure(*green), figure(*blue)));
            }
            Details::Audio { rate, channels, frames } => {
                let seconds = *frames as f64 / f64::from(*rate);
                line(
                    "sound",
                    format!(
                        "{} frames per second, {}, {}",
                        count(u64::from(*rate)),
                        things(*channels as u64, "channel"),
                        things(*frames, "frame")
                    ),
                );
                line("seconds", figure(seconds));
            }
            Details::Files { formats, ignored, .. } => {
                let formats: Vec<_> = formats.iter().map(|f| format!("{} {}", count(f.count), f.format)).collect();
                line("files", format!("{}; {} ignored", formats.join(", "), count(ignored.count)));
            }
            Details::Archives { archives, members, ignored, .. } => {
                line("archives", count(*archives));
                let shown = members.iter().take(CLASSES_SHOWN);
                let mut members: Vec<_> =
                    shown.map(|member| format!("{} {}", count(member.count), one_line(&member.extension))).collect();
                members.push(format!("{} ignored", count(*ignored)));
                line("members", members.join(", "));
            }
            Details::Named { details } => {
                for (name, value) in details {
                    line(&one_line(name), one_line(value));
                }
            }
            _ => {}
        }
        let ignored = match &self.details {
            Details::Table { ignored, .. } => ignored.as_ref(),
            Details::Arrays { ignored, .. } | Details::Files { ignored, .. } => Some(ignored),
            Details::Archives { files, .. } => Some(files),
            _ => None,
        };
        if let Some(names) = ignored.and_then(names_of) {
            line("ignored", names);
        }
        text += "\n";
        let exact = field_table(self, stored);
        let table = if exact.has_room(width) { exact } else { field_table(self, rounded) };
        text += &table.render(width);
        if let Details::Files { classes, .. } | Details::Archives { classes, .. } = &self.details
            && !classes.is_empty()
        {
            text += "\n";
            let mut table = Table::new(&[Column::Text("class"), Column::Number("files")]);
            classes.iter().take(CLASSES_SHOWN).for_each(|class| table.row([class.name.clone(), count(class.count)]));
            text += &table.render(width);
            if classes.len() > CLASSES_SHOWN {
                text += &format!("and {} more\n", things((classes.len() - CLASSES_SHOWN) as u64, "class"));
            }
        }
        text += "\n";
        for (name, record) in [("first", &self.first), ("last", &self.last)] {
            if let Some(record) = record {
                text += &shorten(&format!("{name}: {}", text_of(record)), 2 * width);
                text += "\n";
            }
        }
        text
    }
}

/// A number with a few digits.
fn rounded(number: Figure) -> String {
    match number {
        Figure::Whole(number) => figure(number as f64),
        number => stored(number),
    }
}

/// `sum` writes the sums, which may have twice as many digits as any value.
fn field_table(inspection: &Inspection, sum: impl Fn(Figure) -> String) -> Table {
    let mut table = Table::new(&[
        Column::Text("field"),
        Column::Text("role"),
        Column::Text("type"),
        Column::Text("shape"),
        Column::Number("count"),
        Column::Number("missing"),
        Column::Number("sum"),
        Column::Number("min"),
        Column::Number("max"),
        Column::Number("mean"),
    ]);
    for field in &inspection.fields {
        let shape: Vec<String> =
            field.shape.iter().map(|dim| if *dim == 0 { "?".to_owned() } else { dim.to_string() }).collect();
        table.row([
            field.name.clone(),
            field.role.clone(),
            field.dtype.clone(),
            shape.join("x"),
            count(field.count),
            count(field.missing),
            field.sum.map_or_else(String::new, &sum),
            field.min.map_or_else(String::new, stored),
            field.max.map_or_else(String::new, stored),
            field.mean.map_or_else(String::new, figure),
        ]);
    }
    table
}
