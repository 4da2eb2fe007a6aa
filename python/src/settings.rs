//! Settings on their own: those of a file, those for a path, and the names of all settings.

use std::fmt;
use std::path::{Path, PathBuf};

use pyo3::prelude::*;
use ringfeed::LoaderConfig;
use ringfeed::settings::MemoryConfig;
use serde::de::{Deserializer, Error, Visitor};
use serde::{Deserialize, forward_to_deserialize_any};
use serde_json::Value;

use crate::errors::{caught, exception};
use crate::json::json;

/// The settings of a file, as a table. The shard stays `"auto"`: it is that of the process that opens the loader.
#[pyfunction]
pub(crate) fn load_settings(py: Python<'_>, path: PathBuf) -> PyResult<Py<PyAny>> {
    let config = LoaderConfig::load(&path).map_err(|error| exception(py, &error))?;
    let table = json(py, &config)?;
    if written_shard(&path).as_ref().and_then(Value::as_str) == Some("auto") {
        table.bind(py).set_item("shard", "auto")?;
    }
    Ok(table)
}

/// The shard as a file of valid settings has it.
fn written_shard(path: &Path) -> Option<Value> {
    #[derive(Deserialize)]
    struct Written {
        shard: Option<Value>,
    }

    let text = std::fs::read_to_string(path).ok()?;
    let text = text.trim_start_matches('\u{feff}');
    let is_json = path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("json"));
    let written: Option<Written> = if is_json { serde_json::from_str(text).ok() } else { toml::from_str(text).ok() };
    written?.shard
}

/// The sources at a path, with their formats detected.
#[pyfunction]
pub(crate) fn detect(py: Python<'_>, path: PathBuf) -> PyResult<Py<PyAny>> {
    let detected = py.detach(|| caught(|| LoaderConfig::for_path(path)));
    json(py, &detected.map_err(|error| exception(py, &error))?.sources)
}

/// The names of all settings; those of the table `memory` have the prefix `memory.`.
#[pyfunction]
pub(crate) fn setting_names() -> Vec<String> {
    let memory = names_of::<MemoryConfig>().iter().map(|name| format!("memory.{name}"));
    names_of::<LoaderConfig>().iter().map(|name| (*name).to_owned()).chain(memory).collect()
}

/// The keys that a table may have, as its deserializer requests them.
fn names_of<'de, T: Deserialize<'de>>() -> &'static [&'static str] {
    let mut names: &'static [&'static str] = &[];
    drop(T::deserialize(Asked(&mut names)));
    names
}

/// Records which keys are requested, and gives none.
struct Asked<'a>(&'a mut &'static [&'static str]);

#[derive(Debug)]
struct Noted;

impl fmt::Display for Noted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the names are noted")
    }
}

impl std::error::Error for Noted {}

impl Error for Noted {
    fn custom<T: fmt::Display>(_: T) -> Self {
        Self
    }
}

impl<'de> Deserializer<'de> for Asked<'_> {
    type Error = Noted;

    fn deserialize_any<V: Visitor<'de>>(self, _: V) -> Result<V::Value, Noted> {
        Err(Noted)
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        names: &'static [&'static str],
        _: V,
    ) -> Result<V::Value, Noted> {
        *self.0 = names;
        Err(Noted)
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option unit unit_struct
        newtype_struct seq tuple tuple_struct map enum identifier ignored_any
    }
}
