//! Describes the data at a path.

use std::path::PathBuf;

use pyo3::prelude::*;
use pyo3::types::PyDict;
use ringfeed::LoaderConfig;
use ringfeed::formats::Formats;
use ringfeed::inspect::Figure;
use ringfeed::memory::MemoryBudget;
use ringfeed::storage::Files;

use crate::errors::exception;
use crate::json::json;
use crate::wait::patiently;

/// Describes the data at `path`. If the format is not to be detected, `settings`, a JSON text, names it.
#[pyfunction]
pub(crate) fn inspect(py: Python<'_>, path: PathBuf, settings: Option<&str>) -> PyResult<Py<PyAny>> {
    let config = settings.map(LoaderConfig::from_json).transpose().map_err(|error| exception(py, &error))?;
    let found = patiently(py, move || {
        let source = match config {
            None => Formats::new().whole(&path)?,
            Some(config) => config.resolved()?.sources.swap_remove(0),
        };
        source.inspect(&Files::local(), &MemoryBudget::unlimited())
    })?;
    let report = json(py, &found)?;
    // Python's integers have any size, and JSON's do not.
    let fields = report.bind(py).get_item("fields")?;
    for (nth, field) in found.fields.iter().enumerate() {
        let field_in_python = fields.get_item(nth)?.cast_into::<PyDict>()?;
        for (name, figure) in [("sum", field.sum), ("min", field.min), ("max", field.max)] {
            if let Some(Figure::Whole(number)) = figure {
                field_in_python.set_item(name, number)?;
            }
        }
    }
    Ok(report)
}
