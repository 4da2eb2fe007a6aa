//! The statistics of a run.

use pyo3::prelude::*;
use ringfeed::stats::Stats;

use crate::json::json;

/// The statistics of a loader at one time, or of the time between two.
#[pyclass(frozen, module = "ringfeed")]
pub(crate) struct Snapshot {
    pub(crate) stats: Stats,
    /// Batches that are held, and how many were copied because others were held.
    pub(crate) held: usize,
    pub(crate) copied: u64,
}

#[pymethods]
impl Snapshot {
    /// All of it as a table.
    fn data(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        let stats = json(py, &self.stats)?;
        stats.bind(py).set_item("verdict", json(py, &self.stats.verdict())?)?;
        stats.bind(py).set_item("held", self.held)?;
        stats.bind(py).set_item("copied", self.copied)?;
        Ok(stats)
    }

    /// What limits the run, in one sentence.
    fn verdict(&self) -> String {
        self.stats.verdict().to_string()
    }

    /// What happened since an earlier one.
    fn since(&self, earlier: &Self) -> Self {
        let copied = self.copied.saturating_sub(earlier.copied);
        Self { stats: &self.stats - &earlier.stats, held: self.held, copied }
    }

    fn __str__(&self) -> String {
        self.stats.to_string()
    }
}
