//! Reads every sample, checks for signals meanwhile, and reports progress.

use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};
use ringfeed::inspect::{VerifyProgress, VerifyReport};
use ringfeed::{Loader, Result};

use crate::errors::exception;
use crate::json::json;
use crate::wait::patiently_with;

/// Messages between the threads that read and the one that waits.
#[derive(Default)]
struct Said {
    stop: AtomicBool,
    progress: Mutex<Option<VerifyProgress>>,
}

impl Said {
    fn hear(&self, progress: VerifyProgress) -> ControlFlow<()> {
        *self.progress.lock().unwrap_or_else(PoisonError::into_inner) = Some(progress);
        if self.stop.load(Ordering::Relaxed) { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }
}

fn run(
    py: Python<'_>,
    on_progress: Option<Bound<'_, PyAny>>,
    work: impl FnOnce(&Said) -> Result<VerifyReport> + Send + 'static,
) -> PyResult<Py<PyDict>> {
    let said = Arc::new(Said::default());
    let heard = said.clone();
    let tell = |_: Python<'_>| {
        let progress = said.progress.lock().unwrap_or_else(PoisonError::into_inner).take();
        match (progress, &on_progress) {
            (Some(VerifyProgress { samples, bad, total, .. }), Some(tell)) => {
                tell.call1((samples, bad, total)).map(drop)
            }
            _ => Ok(()),
        }
    };
    let found = patiently_with(py, tell, move || work(&heard));
    // Whatever raised, nobody waits for the rest.
    said.stop.store(true, Ordering::Relaxed);
    let found = found?;
    let bad: Vec<_> = found.bad.iter().map(|error| exception(py, error).into_value(py)).collect();
    let report = PyDict::new(py);
    report.set_item("checked", json(py, &found.checked)?)?;
    report.set_item("samples", found.samples)?;
    report.set_item("bad_samples", found.bad_samples)?;
    report.set_item("bad", PyList::new(py, bad)?)?;
    report.set_item("damaged", found.damaged)?;
    report.set_item("damage", json(py, &found.damage)?)?;
    report.set_item("ended_by", found.ended_by.map(|error| exception(py, &error).into_value(py)))?;
    Ok(report.unbind())
}

/// Verifies what a loader reads.
pub(crate) fn loader(py: Python<'_>, loader: Loader, on_progress: Option<Bound<'_, PyAny>>) -> PyResult<Py<PyDict>> {
    run(py, on_progress, move |said| loader.verify(|progress| said.hear(progress)))
}

/// Verifies the data at a path.
#[pyfunction]
#[pyo3(signature = (path, workers, on_progress=None))]
pub(crate) fn verify(
    py: Python<'_>,
    path: PathBuf,
    workers: usize,
    on_progress: Option<Bound<'_, PyAny>>,
) -> PyResult<Py<PyDict>> {
    run(py, on_progress, move |said| ringfeed::inspect::verify(path, workers, |progress| said.hear(progress)))
}
