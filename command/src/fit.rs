use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use ringfeed::formats::Formats;
use ringfeed::prepare::Prepared;
use ringfeed::read::Windows;
use ringfeed::settings::PreparedConfig;
use ringfeed::{Error, ErrorKind, LoaderConfig, Result};
use serde::Serialize;

use crate::args::FitArgs;
use crate::loader::loader;
use crate::output::{Report, lossy, while_working};
use crate::table::{Column, Table, count, one_line, things};
use crate::written;

/// What was fitted.
#[derive(Serialize)]
pub(crate) struct Fitted {
    /// The settings that it was fitted by just now.
    #[serde(skip_serializing_if = "Option::is_none")]
    config: Option<String>,
    /// Where it is saved.
    prepared: String,
    records: u64,
    quantile_error: f64,
    /// The windows that samples are, if they are not single records.
    #[serde(skip_serializing_if = "Option::is_none")]
    windows: Option<Windows>,
    /// What a record has to have.
    fields: Vec<String>,
    features: Vec<String>,
    categories: Vec<Codes>,
}

/// A column of names, and how many codes it has.
#[derive(Serialize)]
struct Codes {
    column: String,
    codes: u64,
}

pub(crate) fn fit(args: &FitArgs, formats: &Formats) -> Result<Fitted> {
    let mut config = LoaderConfig::load_with(&args.config, formats)?;
    let refused = |message: &str| Error::new(ErrorKind::Config, message.to_owned()).at_path(&args.config);
    let Some(recipe) = config.prepare.clone() else {
        return Err(refused("prepare: there is no recipe; describe in [prepare.columns] how each column is prepared"));
    };
    let path: PathBuf = match config.prepared.take() {
        Some(PreparedConfig::File(path)) => path,
        _ => return Err(refused("prepared: name the file to save it in")),
    };
    let read = LoaderConfig { prepare: config.prepare.take(), ..config.clone().resolved_with(formats)? };
    written::check(&path, &[], &read, Some(&args.config))?;
    let prepared = while_working("fitting", || recipe.fit(&loader(config, formats)))?;
    prepared.save(&path)?;
    Ok(Fitted::new(Some(&args.config), &path, &prepared))
}

/// What the file at `path` holds, if it begins as one of a fitted recipe.
pub(crate) fn inspect(path: &Path) -> Result<Option<Fitted>> {
    const HEAD: u64 = 64;
    let mut head = Vec::new();
    if path.is_file() {
        let read = File::open(path).and_then(|file| file.take(HEAD).read_to_end(&mut head));
        read.map_err(|error| Error::from(error).at_path(path))?;
    }
    let head = String::from_utf8_lossy(&head);
    let words: Vec<&str> = head.split_whitespace().collect();
    match words.as_slice() {
        ["{", "\"version\":", _, "\"prepared\":", ..] => {
            Prepared::load(path).map(|prepared| Some(Fitted::new(None, path, &prepared)))
        }
        _ => Ok(None),
    }
}

impl Fitted {
    fn new(config: Option<&Path>, path: &Path, prepared: &Prepared) -> Self {
        let codes = |(column, codes): &(String, u64)| Codes { column: column.clone(), codes: *codes };
        Self {
            config: config.map(lossy),
            prepared: lossy(path),
            records: prepared.records(),
            quantile_error: prepared.quantile_error(),
            windows: prepared.windows().cloned(),
            fields: prepared.field_names().map(str::to_owned).collect(),
            features: prepared.feature_names().to_vec(),
            categories: prepared.code_counts().iter().map(codes).collect(),
        }
    }
}

impl Report for Fitted {
    fn text(&self, width: usize) -> String {
        let title = self.config.as_ref().map_or("a fitted recipe".to_owned(), |config| one_line(config));
        let mut text = format!("{title}\n\n");
        let mut line = |name: &str, value: String| text += &format!("{name:<16}{value}\n");
        line("fitted to", things(self.records, "record"));
        line("saved in", one_line(&self.prepared));
        if self.quantile_error > 0.0 {
            line("quantiles", format!("within {:.0e} of themselves", self.quantile_error));
        }
        if let Some(windows) = &self.windows {
            let Windows { length, horizon, stride, series, each_file, part: (from, to) } = windows;
            let after = if *horizon > 0 { format!(", and the {horizon} after them") } else { String::new() };
            let of = series.as_ref().map_or(String::new(), |series| format!(" of each {}", one_line(series)));
            let of = if *each_file { of + " within each file" } else { of };
            line("windows", format!("{}{of}{after}", things(*length as u64, "record")));
            line("", format!("one every {}, from {from} to {to} of a series", things(*stride as u64, "record")));
        }
        for (what, names) in [("fields", &self.fields), ("features", &self.features)] {
            line(what, count(names.len() as u64));
            let shown = names.iter().take(20).map(|name| one_line(name)).collect::<Vec<_>>().join(", ");
            let more = if names.len() > 20 { ", ..." } else { "" };
            line("", format!("{shown}{more}"));
        }
        if !self.categories.is_empty() {
            let mut table = Table::new(&[Column::Text("category"), Column::Number("codes")]);
            for Codes { column, codes } in &self.categories {
                table.row([column.clone(), count(*codes)]);
            }
            text += &format!("\n{}", table.render(width));
        }
        text
    }
}
