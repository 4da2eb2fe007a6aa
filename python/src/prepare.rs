//! Fitted preprocessing, applied to records in memory.

use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};

use pyo3::prelude::*;
use pyo3::sync::MutexExt;
use pyo3::types::PyBytes;
use ringfeed::prepare::{PreparedRow, PreparedWindow, Recipe, RecipeFit};
use ringfeed::{ErrorKind, Loader, LoaderConfig, Result};

use crate::errors::{caught, exception, raise};
use crate::json::json;
use crate::wait::patiently;

/// A fitted recipe, and rows that are reused by the threads that apply it.
#[pyclass(frozen, module = "ringfeed._ringfeed")]
pub(crate) struct Fitted {
    prepared: ringfeed::prepare::Prepared,
    rows: Mutex<Vec<PreparedRow>>,
}

/// The recipe in a JSON text, in the language of settings.
fn recipe_of(py: Python<'_>, text: &str) -> PyResult<Recipe> {
    let config = LoaderConfig::from_json(&format!("{{\"prepare\": {text}}}")).map_err(|error| exception(py, &error))?;
    config.prepare.ok_or_else(|| raise(py, ErrorKind::Config, "a recipe is a table of columns"))
}

/// All faults of a recipe that can be found without data.
#[pyfunction]
pub(crate) fn recipe_faults(py: Python<'_>, recipe: &str) -> PyResult<Vec<String>> {
    Ok(recipe_of(py, recipe)?.faults())
}

/// Fits a recipe to the samples of a loader.
pub(crate) fn fit(py: Python<'_>, loader: Loader, recipe: &str) -> PyResult<Fitted> {
    let recipe = recipe_of(py, recipe)?;
    patiently(py, move || recipe.fit(&loader)).map(Fitted::new)
}

/// The counts of a recipe for a part of the data. Any number of threads may add to it at the same time.
#[pyclass(frozen, module = "ringfeed._ringfeed")]
pub(crate) struct Counted(Mutex<RecipeFit>);

impl Counted {
    fn of(py: Python<'_>, fit: Result<RecipeFit>) -> PyResult<Self> {
        fit.map(|fit| Self(Mutex::new(fit))).map_err(|error| exception(py, &error))
    }

    /// Held only briefly, and never while Python code may run.
    fn lock(&self) -> MutexGuard<'_, RecipeFit> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn add(&self, py: Python<'_>, part: &RecipeFit) -> PyResult<()> {
        let added = self.lock().merge(part);
        added.map_err(|error| exception(py, &error))
    }

    /// Counts the samples of a loader: all of them, or, if that fails, none.
    pub(crate) fn observe(&self, py: Python<'_>, loader: Loader) -> PyResult<()> {
        let empty = self.lock().emptied();
        let part = patiently(py, move || {
            let mut part = empty?;
            part.observe_all(&loader).map(|()| part)
        })?;
        self.add(py, &part)
    }
}

#[pymethods]
impl Counted {
    #[new]
    fn new(py: Python<'_>, recipe: &str) -> PyResult<Self> {
        Self::of(py, RecipeFit::new(&recipe_of(py, recipe)?))
    }

    /// Reads a file that was saved.
    #[staticmethod]
    fn load(py: Python<'_>, path: PathBuf) -> PyResult<Self> {
        Self::of(py, RecipeFit::load(path))
    }

    /// What a text of JSON says that was made of one.
    #[staticmethod]
    fn from_json(py: Python<'_>, text: &str) -> PyResult<Self> {
        Self::of(py, RecipeFit::from_json(text))
    }

    fn to_json(&self, py: Python<'_>) -> PyResult<String> {
        let text = self.lock().to_json();
        text.map_err(|error| exception(py, &error))
    }

    fn save(&self, py: Python<'_>, path: PathBuf) -> PyResult<()> {
        let fit = self.lock().clone();
        fit.save(path).map_err(|error| exception(py, &error))
    }

    /// Adds the counts of another one.
    fn merge(&self, py: Python<'_>, other: &Self) -> PyResult<()> {
        // It may be the same object.
        let other = other.lock().clone();
        self.add(py, &other)
    }

    fn records(&self) -> u64 {
        self.lock().records()
    }

    fn finish(&self, py: Python<'_>) -> PyResult<Fitted> {
        let finished = self.lock().finish();
        finished.map(Fitted::new).map_err(|error| exception(py, &error))
    }
}

impl Fitted {
    fn new(prepared: ringfeed::prepare::Prepared) -> Self {
        Self { prepared, rows: Mutex::default() }
    }

    /// The bytes of each tensor for all `records`, one after another. An error names the record by its position among
    /// them.
    fn apply<'py, T: Sync>(
        &self,
        py: Python<'py>,
        records: &[T],
        apply: impl Fn(&T, &mut PreparedRow) -> Result<()> + Sync,
    ) -> PyResult<Vec<Bound<'py, PyBytes>>> {
        let names: Vec<&str> = self.prepared.tensors().iter().map(|spec| spec.name.as_str()).collect();
        let all = || {
            let kept = self.rows.lock().unwrap_or_else(PoisonError::into_inner).pop();
            let mut row = kept.unwrap_or_else(|| self.prepared.row());
            let mut bytes = vec![Vec::new(); names.len()];
            for (nth, record) in records.iter().enumerate() {
                apply(record, &mut row).map_err(|error| error.at_record(nth as u64))?;
                for (bytes, name) in bytes.iter_mut().zip(&names) {
                    bytes.extend_from_slice(row.tensor(name)?.bytes());
                }
            }
            self.rows.lock().unwrap_or_else(PoisonError::into_inner).push(row);
            Ok(bytes)
        };
        // One record takes less time than letting go of the interpreter's lock.
        let bytes = if records.len() == 1 { caught(all) } else { py.detach(|| caught(all)) };
        let bytes = bytes.map_err(|error| exception(py, &error))?;
        Ok(bytes.iter().map(|bytes| PyBytes::new(py, bytes)).collect())
    }
}

#[pymethods]
impl Fitted {
    /// Reads a file that was saved.
    #[staticmethod]
    fn load(py: Python<'_>, path: PathBuf) -> PyResult<Self> {
        ringfeed::prepare::Prepared::load(path).map(Self::new).map_err(|error| exception(py, &error))
    }

    /// What a text of JSON says that was made of one.
    #[staticmethod]
    fn from_json(py: Python<'_>, text: &str) -> PyResult<Self> {
        ringfeed::prepare::Prepared::from_json(text).map(Self::new).map_err(|error| exception(py, &error))
    }

    fn to_json(&self, py: Python<'_>) -> PyResult<String> {
        self.prepared.to_json().map_err(|error| exception(py, &error))
    }

    fn save(&self, py: Python<'_>, path: PathBuf) -> PyResult<()> {
        self.prepared.save(path).map_err(|error| exception(py, &error))
    }

    /// The bytes of each tensor for records that are JSON objects.
    fn apply_json<'py>(&self, py: Python<'py>, records: Vec<String>) -> PyResult<Vec<Bound<'py, PyBytes>>> {
        self.apply(py, &records, |record, row| self.prepared.apply_json(record, row))
    }

    /// The same for lines of CSV.
    fn apply_csv<'py>(&self, py: Python<'py>, header: &str, lines: Vec<String>) -> PyResult<Vec<Bound<'py, PyBytes>>> {
        self.apply(py, &lines, |line, row| self.prepared.apply_csv(header, line, row))
    }

    /// An empty window for the records of one series.
    fn window(&self, py: Python<'_>) -> PyResult<FittedWindow> {
        let window = self.prepared.window().map_err(|error| exception(py, &error))?;
        Ok(FittedWindow(Mutex::new(window)))
    }

    /// A table for each tensor: its name, element type and shape.
    fn tensors(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        let row = self.prepared.row();
        let mut tensors = Vec::new();
        for spec in self.prepared.tensors() {
            let tensor = row.tensor(&spec.name).map_err(|error| exception(py, &error))?;
            tensors.push(serde_json::json!({"name": spec.name, "dtype": spec.dtype, "shape": tensor.shape()}));
        }
        json(py, &tensors)
    }

    fn feature_names(&self) -> Vec<String> {
        self.prepared.feature_names().to_vec()
    }

    fn field_names(&self) -> Vec<String> {
        self.prepared.field_names().map(str::to_owned).collect()
    }

    fn column_names(&self) -> Vec<String> {
        self.prepared.column_names().map(str::to_owned).collect()
    }

    fn code_counts(&self) -> Vec<(String, u64)> {
        self.prepared.code_counts().to_vec()
    }

    fn records(&self) -> u64 {
        self.prepared.records()
    }

    fn __eq__(&self, other: &Self) -> bool {
        self.prepared == other.prepared
    }
}

/// The last records of one series, as one sample.
#[pyclass(frozen, module = "ringfeed._ringfeed")]
pub(crate) struct FittedWindow(Mutex<PreparedWindow>);

impl FittedWindow {
    /// Another thread may need the interpreter to make tensors of the window before it releases this lock.
    fn lock(&self, py: Python<'_>) -> MutexGuard<'_, PreparedWindow> {
        self.0.lock_py_attached(py).unwrap_or_else(PoisonError::into_inner)
    }
}

#[pymethods]
impl FittedWindow {
    /// Adds a record that is a JSON object; returns whether the window is full.
    fn push_json(&self, py: Python<'_>, record: &str) -> PyResult<bool> {
        caught(|| self.lock(py).push_json(record)).map_err(|error| exception(py, &error))
    }

    /// Adds a record that is a line of CSV; returns whether the window is full.
    fn push_csv(&self, py: Python<'_>, header: &str, line: &str) -> PyResult<bool> {
        caught(|| self.lock(py).push_csv(header, line)).map_err(|error| exception(py, &error))
    }

    /// The bytes of each tensor of the latest window.
    fn latest<'py>(&self, py: Python<'py>) -> PyResult<Vec<Bound<'py, PyBytes>>> {
        let window = self.lock(py);
        let tensor = |spec: &ringfeed::tensor::TensorSpec| match window.tensor(&spec.name) {
            Ok(tensor) => Ok(PyBytes::new(py, tensor.bytes())),
            Err(error) => Err(exception(py, &error)),
        };
        window.tensors().iter().map(tensor).collect()
    }

    /// The number of records of a full window.
    fn length(&self, py: Python<'_>) -> usize {
        match self.lock(py).tensors().first().and_then(|spec| spec.shape.first()) {
            Some(ringfeed::tensor::Dim::Fixed(records)) => *records,
            _ => 0,
        }
    }

    fn clear(&self, py: Python<'_>) {
        self.lock(py).clear();
    }

    fn __len__(&self, py: Python<'_>) -> usize {
        self.lock(py).len()
    }
}
