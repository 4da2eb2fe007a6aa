use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;

use ringfeed::formats::{Formats, Jsonl};
use ringfeed::inspect::RunPlan;
use ringfeed::order::{LastBatch, Remainder, Shard};
use ringfeed::settings::SourceConfig;
use ringfeed::{LoaderConfig, Result};
use serde::Serialize;
use serde::de::IgnoredAny;
use serde_json::{Map, Value};

use crate::args::PlanArgs;
use crate::loader::loader;
use crate::output::{Report, lossy, while_working};
use crate::table::{Column, Table, count, one_line, shorten, things};

/// A setting by its name, as a value.
type Step = (&'static str, fn(&LoaderConfig) -> Value);

/// Settings that choose samples, order them, or change them, beyond those that the plan names.
const STEPS: [Step; 15] = [
    ("mix", |config| value(&config.mix)),
    ("windows", |config| value(&config.windows)),
    ("sequences", |config| value(&config.sequences)),
    ("split", |config| value(config.split)),
    ("folds", |config| value(config.folds)),
    ("stratify", |config| value(&config.stratify)),
    ("group", |config| value(&config.group)),
    ("class_balanced", |config| value(config.class_balanced)),
    ("weight_by", |config| value(&config.weight_by)),
    ("samples_per_epoch", |config| value(config.samples_per_epoch)),
    ("bucket", |config| value(&config.bucket)),
    ("prepared", |config| value(&config.prepared)),
    ("normalise", |config| value(&config.normalise)),
    ("augment", |config| value(&config.augment)),
    ("transforms", |config| value(&config.transforms)),
];

/// Only the names of files may be no text.
fn value(setting: impl Serialize) -> Value {
    serde_json::to_value(setting).unwrap_or_else(|_| "with a file whose name is not UTF-8".into())
}

/// What a run will do.
#[derive(Serialize)]
pub(crate) struct Planned {
    config: String,
    #[serde(flatten)]
    plan: RunPlan,
    /// Those of [`STEPS`] that are set, and to what; the windows of a fitted recipe count as set.
    steps: Map<String, Value>,
}

/// What the settings say of [`STEPS`].
fn steps(config: &LoaderConfig) -> Map<String, Value> {
    let usual = LoaderConfig::default();
    let set = STEPS.into_iter().map(|(key, value)| (key, value(config), value(&usual)));
    set.filter(|(_, set, usual)| set != usual).map(|(key, set, _)| (key.to_owned(), set)).collect()
}

/// The file that is named, if it is there and has the name of settings: not a folder, and not a pattern.
pub(crate) fn settings_file(args: &PlanArgs) -> Option<&Path> {
    let extension = args.config.extension()?.to_ascii_lowercase();
    let is_settings = extension == "toml" || extension == "json";
    (is_settings && args.config.exists() && !args.config.is_dir()).then_some(&args.config)
}

/// What files begin with.
const GZIP: &[u8] = &[0x1f, 0x8b];
const ZSTANDARD: &[u8] = &[0x28, 0xb5, 0x2f, 0xfd];
const BYTE_ORDER_MARK: &[u8] = "\u{feff}".as_bytes();

/// Settings, or those of data, whose file may have the name of settings.
fn settings(args: &PlanArgs, formats: &Formats) -> Result<LoaderConfig> {
    let path = &args.config;
    let Some(file) = settings_file(args) else { return LoaderConfig::for_path_with(path, formats) };
    LoaderConfig::load_with(file, formats).or_else(|error| match formats.whole(path) {
        Ok(source) if is_data(&source) => LoaderConfig::for_path_with(path, formats),
        _ => Err(error),
    })
}

/// Whether a file that is not settings is data: a single record of JSON Lines, or one that is cut off, may be settings
/// with a fault.
fn is_data(source: &SourceConfig) -> bool {
    let Ok(mut file) = File::open(source.path()).map(BufReader::new) else { return false };
    let head = file.fill_buf().unwrap_or_default();
    // Settings are not compressed.
    let is_packed = head.starts_with(GZIP) || head.starts_with(ZSTANDARD);
    let mark = if head.starts_with(BYTE_ORDER_MARK) { BYTE_ORDER_MARK.len() } else { 0 };
    file.consume(mark);
    let mut records = serde_json::Deserializer::from_reader(file).into_iter::<IgnoredAny>();
    let mut are_several = || records.next().is_some_and(|record| record.is_ok()) && records.next().is_some();
    !source.is::<Jsonl>() || is_packed || are_several()
}

pub(crate) fn plan(args: &PlanArgs, formats: &Formats) -> Result<Planned> {
    let mut config = settings(args, formats)?;
    if let Some(count) = args.shards {
        // All shards have the same numbers.
        config.shard = Shard { index: 0, count };
    }
    let mut steps = steps(&config);
    let plan = while_working("opening", || loader(config, formats).plan())?;
    if let Some(windows) = &plan.windows {
        // They may be those of the fitted recipe.
        steps.insert("windows".to_owned(), value(windows));
    }
    Ok(Planned { config: lossy(&args.config), plan, steps })
}

/// A setting as a person would say it: `part train, seed 0`.
fn words(value: &Value) -> String {
    match value {
        Value::Object(entries) => {
            let said = entries.iter().filter(|(_, value)| !value.is_null());
            said.map(|(key, value)| match value {
                // Without limits of its own.
                Value::Object(none) if none.values().all(Value::is_null) => key.clone(),
                Value::Object(_) => format!("{key} ({})", words(value)),
                value => format!("{key} {}", words(value)),
            })
            .collect::<Vec<_>>()
            .join(", ")
        }
        Value::Array(items) => format!("[{}]", items.iter().map(words).collect::<Vec<_>>().join(", ")),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// Characters of a line before what it says.
const KEYS: usize = 18;

fn or_unknown<T>(value: Option<T>, show: impl Fn(T) -> String) -> String {
    value.map_or_else(|| "unknown".to_owned(), show)
}

fn number(value: Option<u64>) -> String {
    or_unknown(value, count)
}

impl Report for Planned {
    fn text(&self, width: usize) -> String {
        let plan = &self.plan;
        let mut text = format!("{}\n\n", one_line(&self.config));
        let mut line = |name: &str, value: String| text += &format!("{name:<KEYS$}{value}\n");
        for source in &plan.sources {
            let (records, path) = (number(source.records), one_line(&lossy(&source.path)));
            let files = match (source.files, source.passed_over.len() as u64) {
                (0, _) => match source.ignored {
                    0 => String::new(),
                    1 => "; 1 other file in the folder is not read (`inspect` names it)".to_owned(),
                    others => format!(
                        "; {} in the folder are not read (`inspect` names the first ones)",
                        things(others, "other file")
                    ),
                },
                (files, 0) => format!(" in {}", things(files, "file")),
                (files, 1) => format!(" in {} (1 other beside them is not read)", things(files, "file")),
                (files, others) => {
                    format!(" in {} ({} others beside them are not read)", things(files, "file"), count(others))
                }
            };
            let plural = if source.records == Some(1) { "" } else { "s" };
            line("source", format!("{} {path}: {records} record{plural}{files}", source.format));
        }
        let filter =
            plan.filter.as_ref().map_or(String::new(), |filter| format!(" of those with {}", one_line(filter)));
        line("samples", format!("{} per epoch{filter}", number(plan.samples)));
        if plan.shard.count > 1 {
            let rest = match plan.remainder {
                Remainder::Pad => "shards with fewer samples get the first samples again",
                Remainder::Drop => "the surplus is left out",
            };
            let each = number(plan.samples_per_shard);
            let plural = if plan.samples_per_shard == Some(1) { "" } else { "s" };
            line("shards", format!("{}, {each} sample{plural} each; {rest}", plan.shard.count));
        }
        let each = if plan.shard.count > 1 { " and shard" } else { "" };
        let last = match plan.last_batch {
            LastBatch::Keep => "the last may be shorter",
            LastBatch::Drop => "one that is not full is left out",
            LastBatch::Pad => "the last is filled up",
        };
        let batches = number(plan.batches_per_epoch);
        line("batches", format!("{batches} per epoch{each}, of {}; {last}", things(plan.batch_size as u64, "sample")));
        let blocks = plan.shuffle_blocks.map_or(String::new(), |chunks| format!(", {chunks} chunks together"));
        let shuffled = |seed| format!("shuffled with seed {seed}{blocks}");
        line("order", plan.seed.map_or("as in the source".to_owned(), shuffled));
        for (key, value) in STEPS.into_iter().filter_map(|(key, _)| Some((key, self.steps.get(key)?))) {
            line(key, shorten(&one_line(&words(value)), width.saturating_sub(KEYS)));
        }
        line("bad records", words(&value(plan.bad_records)));
        line(
            "workers",
            match plan.shield {
                true => "none: a shield makes batches on the trainer's thread".to_owned(),
                false => format!("{}, prefetch {}", plan.workers, plan.prefetch),
            },
        );
        let bytes = |value| or_unknown(value, |bytes| format!("{} bytes", count(bytes)));
        line(
            "ring",
            format!(
                "{} of {}: {}",
                things(plan.ring_slots as u64, "slot"),
                bytes(plan.slot_bytes),
                bytes(plan.ring_bytes)
            ),
        );
        line("sources hold", bytes(plan.held_bytes));
        line(
            "budget",
            match (plan.budget_bytes, plan.fits) {
                (None, _) => "unlimited".to_owned(),
                (budget, Some(true)) => format!("{}, which is enough", bytes(budget)),
                (budget, Some(false)) => format!("{}, which is TOO LITTLE", bytes(budget)),
                (budget, None) => format!("{}; whether it is enough is unknown", bytes(budget)),
            },
        );
        if let Some(tensors) = &plan.tensors {
            let mut table =
                Table::new(&[Column::Text("tensor"), Column::Text("type"), Column::Text("shape of a batch")]);
            for tensor in tensors {
                let shape: Vec<String> =
                    tensor.shape.iter().map(|dim| dim.map_or("varies".to_owned(), |dim| dim.to_string())).collect();
                table.row([tensor.name.clone(), tensor.dtype.to_string(), format!("[{}]", shape.join(", "))]);
            }
            text += &format!("\n{}", table.render(width));
        }
        if !plan.unknown.is_empty() {
            text += "\n";
        }
        for unknown in &plan.unknown {
            text += &format!("unknown {}\n", one_line(unknown));
        }
        if !plan.advice.is_empty() {
            text += "\n";
        }
        for advice in &plan.advice {
            text += &format!("advice  {}\n", one_line(advice));
        }
        text
    }
}
