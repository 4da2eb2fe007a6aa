//! The report of a run: as a page, as data, and in a notebook.

use std::path::PathBuf;

use pyo3::prelude::*;
use ringfeed::report::Report;

use crate::errors::exception;
use crate::json::json;

/// Everything known about a run, up to the time of the request.
#[pyclass(frozen, module = "ringfeed")]
pub(crate) struct RunReport(pub(crate) Report);

#[pymethods]
impl RunReport {
    /// What limits the run and what to do about it, in one sentence.
    #[getter]
    fn verdict(&self) -> String {
        self.0.verdict.to_string()
    }

    /// All of it as a table: `verdict`, `stats`, `timeline`, `bad_records`, `about`.
    fn data(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        json(py, &self.0)
    }

    /// One self-contained page of HTML, without network access or scripts.
    fn html(&self) -> String {
        self.0.to_html()
    }

    /// Writes it to a file: a page if its name ends in `.html`, data if it ends in `.json`.
    fn save(&self, py: Python<'_>, path: PathBuf) -> PyResult<()> {
        self.0.save(path).map_err(|error| exception(py, &error))
    }

    fn __repr__(&self) -> String {
        format!("RunReport({:?})", self.verdict())
    }

    fn _repr_html_(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        Ok(py.import("ringfeed._html")?.call_method1("page", (self.html(),))?.unbind())
    }
}
