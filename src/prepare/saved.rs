//! Saving fitted recipes, and counts of an unfinished fit.

use std::path::Path;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::dtype::DType;
use crate::error::{Error, ErrorKind, Result};
use crate::files;
use crate::read::Windows;
use crate::tree::any;

use super::by_name;
use super::derive::Derive;
use super::fit::{Counted, RecipeFit};
use super::fitted::Fitted;
use super::inputs::Steps;
use super::join::Join;
use super::prepared::Prepared;
use super::recipe::{Recipe, windows_faults};

/// Versions of the format. A file is written in the earliest version that has all of its parts: the second one has the
/// steps before the columns, the third one windows.
const VERSION: u32 = 1;
const VERSION_WITH_STEPS: u32 = 2;
const VERSION_WITH_WINDOWS: u32 = 3;

fn version(steps: &Steps, windows: Option<&Windows>) -> u32 {
    match windows {
        Some(_) => VERSION_WITH_WINDOWS,
        None if steps.is_empty() => VERSION,
        None => VERSION_WITH_STEPS,
    }
}

fn version_fault(version: u32) -> Option<String> {
    let is_known = (VERSION..=VERSION_WITH_WINDOWS).contains(&version);
    let message =
        || format!("version {version} of a fitted recipe; this ringfeed reads {VERSION} to {VERSION_WITH_WINDOWS}");
    (!is_known).then(message)
}

/// Most bytes of a file: about ten million names.
const MAX_BYTES: u64 = 256 << 20;

/// The parts that every version has.
#[derive(Deserialize)]
struct Head {
    version: u32,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Saved<C> {
    version: u32,
    prepared: Whole<C>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Whole<C> {
    #[serde(default, skip_serializing_if = "Vec::is_empty", with = "by_name")]
    join: Vec<(String, Join)>,
    #[serde(default, skip_serializing_if = "Vec::is_empty", with = "by_name")]
    derive: Vec<(String, Derive)>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    filter: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    windows: Option<Windows>,
    dtype: DType,
    records: u64,
    quantile_error: f64,
    columns: C,
}

/// A column with its name, in a list, because the order matters.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Named<N, F> {
    name: N,
    fitted: F,
}

impl Prepared {
    /// Writes it to `path` as JSON, which [`load`](Self::load) reads back to the bit. The file is written completely or
    /// not at all.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Io`]; [`ErrorKind::Limit`] if it is too long to be read again.
    pub fn save(&self, path: impl AsRef<Path>) -> Result<()> {
        write(path.as_ref(), self.to_json()?)
    }

    /// Reads what [`save`](Self::save) wrote.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::NotFound`] with the nearest name; [`ErrorKind::Format`], with the line, for other contents, or a
    /// file of a later version.
    pub fn load(path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        let text = files::read_text(path, "a fitted recipe", MAX_BYTES)?;
        Self::from_json(&text).map_err(|error| error.at_path(path))
    }

    /// The text that [`save`](Self::save) writes.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Config`] for values that JSON can't hold, which fitting never gives.
    pub fn to_json(&self) -> Result<String> {
        serde_json::to_string_pretty(any(self))
            .map_err(|error| Error::new(ErrorKind::Config, error.to_string()).with_source(error))
    }

    /// Reads a text that [`to_json`](Self::to_json) gave.
    ///
    /// # Errors
    ///
    /// As [`load`](Self::load).
    pub fn from_json(text: &str) -> Result<Self> {
        let format_error = |error: serde_json::Error| {
            let line = error.line() as u64;
            let message = format!("not a fitted recipe that ringfeed saved: {error}");
            Error::new(ErrorKind::Format, message).with_source(error).at_line(line)
        };
        let Head { version } = serde_json::from_str(text).map_err(format_error)?;
        if let Some(message) = version_fault(version) {
            return Err(Error::new(ErrorKind::Format, message));
        }
        serde_json::from_str::<Saved<Vec<Named<String, Fitted>>>>(text).map_err(format_error)?.checked()
    }
}

fn write(path: &Path, mut text: String) -> Result<()> {
    text.push('\n');
    if text.len() as u64 > MAX_BYTES {
        let message = format!("{} bytes as JSON; at most {MAX_BYTES} are read again", text.len());
        return Err(Error::new(ErrorKind::Limit, message).at_path(path));
    }
    files::write_whole(path, &[text.as_bytes()]).map_err(|error| Error::io(path, error))
}

/// The content of a file with a fit that continues elsewhere.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct SavedFit<R, C> {
    version: u32,
    recipe: R,
    records: u64,
    counted: C,
}

impl RecipeFit {
    /// Writes the counts to `path` as JSON, so that another process can [load](Self::load) and [merge](Self::merge) it.
    ///
    /// # Errors
    ///
    /// As [`Prepared::save`].
    pub fn save(&self, path: impl AsRef<Path>) -> Result<()> {
        write(path.as_ref(), self.to_json()?)
    }

    /// Reads what [`save`](Self::save) wrote.
    ///
    /// # Errors
    ///
    /// As [`Prepared::load`].
    pub fn load(path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        let text = files::read_text(path, "what a fit counted", MAX_BYTES)?;
        Self::from_json(&text).map_err(|error| error.at_path(path))
    }

    /// What [`save`](Self::save) writes.
    ///
    /// # Errors
    ///
    /// As [`Prepared::to_json`].
    pub fn to_json(&self) -> Result<String> {
        let version = version(&self.recipe().steps(), self.windows());
        let saved = SavedFit { version, recipe: self.recipe(), records: self.records(), counted: self.counted() };
        serde_json::to_string(any(&saved))
            .map_err(|error| Error::new(ErrorKind::Config, error.to_string()).with_source(error))
    }

    /// Reads a text that [`to_json`](Self::to_json) gave.
    ///
    /// # Errors
    ///
    /// As [`load`](Self::load).
    pub fn from_json(text: &str) -> Result<Self> {
        let wrong = |message: String| Error::new(ErrorKind::Format, format!("not what a fit counted: {message}"));
        let Head { version } = serde_json::from_str(text).map_err(|error| wrong(error.to_string()))?;
        if let Some(message) = version_fault(version) {
            return Err(wrong(message));
        }
        let SavedFit { recipe, records, counted, .. }: SavedFit<Recipe, Vec<Counted>> =
            serde_json::from_str(text).map_err(|error| wrong(error.to_string()))?;
        if recipe.join.iter().any(|(_, join)| join.is_file()) {
            return Err(wrong("a joined table is not in it".to_owned()));
        }
        let fit = Self::of_counted(&recipe, records, counted)?;
        fit.ok_or_else(|| wrong("the counts are not those of the recipe".to_owned()))
    }
}

impl Saved<Vec<Named<String, Fitted>>> {
    /// # Errors
    ///
    /// [`ErrorKind::Format`] for a content that fitting never gives.
    fn checked(self) -> Result<Prepared> {
        let Whole { join, derive, filter, windows, dtype, records, quantile_error, columns } = self.prepared;
        let wrong = |message: String| Error::new(ErrorKind::Format, format!("no fitted recipe: {message}"));
        if !matches!(dtype, DType::F32 | DType::F64) {
            return Err(wrong(format!("features of {dtype}")));
        }
        let steps = Steps { join, derive, filter };
        if steps.join.iter().any(|(_, join)| join.is_file()) {
            return Err(wrong("a joined table that is not in it".to_owned()));
        }
        let faults = [steps.faults(), windows_faults(windows.as_ref(), steps.filter.as_deref())].concat();
        if let Some(fault) = faults.into_iter().next() {
            return Err(wrong(fault));
        }
        let mut names = std::collections::HashSet::new();
        for Named { name, fitted } in &columns {
            if !names.insert(name) {
                return Err(wrong("the column is given twice".to_owned()).at_column(name));
            }
            if let Some(fault) = fitted.fault() {
                return Err(wrong(fault).at_column(name));
            }
        }
        let columns = columns.into_iter().map(|Named { name, fitted }| (name, fitted)).collect();
        Prepared::new(steps, columns, dtype, records, quantile_error, windows)
    }
}

impl Serialize for Prepared {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let columns: Vec<_> = self.columns().iter().map(|(name, fitted)| Named { name, fitted }).collect();
        let (dtype, records, quantile_error) = (self.dtype(), self.records(), self.quantile_error());
        let Steps { join, derive, filter } = self.steps().clone();
        let windows = self.windows().cloned();
        let prepared = Whole { join, derive, filter, windows, dtype, records, quantile_error, columns };
        Saved { version: version(self.steps(), self.windows()), prepared }.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Prepared {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let saved = Saved::<Vec<Named<String, Fitted>>>::deserialize(deserializer)?;
        if let Some(message) = version_fault(saved.version) {
            return Err(serde::de::Error::custom(message));
        }
        saved.checked().map_err(serde::de::Error::custom)
    }
}
