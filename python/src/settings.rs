//! Settings on their own: those of a file, those for a path, and the names of all settings.

use std::fmt;
use std::path::PathBuf;

use pyo3::prelude::*;
use ringfeed::LoaderConfig;
use ringfeed::settings::MemoryConfig;
use serde::de::{Deserialize, Deserializer, Error, Visitor};
use serde::forward_to_deserialize_any;

use crate::engine::json;
use crate::errors::{caught, exception};

/// The settings of a file, as a table.
#[pyfunction]
pub(crate) fn load_settings(py: Python<'_>, path: PathBuf) -> PyResult<Py<PyAny>> {
    let config = LoaderConfig::load(path).map_err(|error| exception(py, &error))?;
    json(py, &config)
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
