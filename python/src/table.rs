//! Tables in memory, imported through Arrow's C interfaces from the Python objects that offer them.

use std::ffi::CStr;
use std::ptr::NonNull;

use pyo3::prelude::*;
use pyo3::types::PyCapsule;
use ringfeed::columns::{ArrowTable, Columns, ColumnsOptions};
use ringfeed::memory::MemoryBudget;
use ringfeed::read::Container;

use crate::errors::{caught, exception};

/// A table whose records stay in the memory of pyarrow, polars or other libraries.
#[pyclass(frozen, module = "ringfeed._ringfeed")]
pub(crate) struct Table(pub(crate) ArrowTable);

/// An Arrow stream in another library's memory.
struct Stream(NonNull<std::ffi::c_void>);

// SAFETY: the interface lets any thread use a stream, one at a time, and only the one that takes it over uses this one.
unsafe impl Send for Stream {}

impl Stream {
    /// # Safety
    ///
    /// It must be such a stream.
    unsafe fn read(self, name: &str) -> ringfeed::Result<ArrowTable> {
        // SAFETY: the caller promises what is asked for.
        unsafe { ArrowTable::from_stream(self.0, name) }
    }
}

fn pointer(capsule: &Bound<'_, PyCapsule>, name: &CStr) -> PyResult<NonNull<std::ffi::c_void>> {
    capsule.pointer_checked(Some(name))
}

#[pymethods]
impl Table {
    /// The table in the capsule of `__arrow_c_stream__`; messages call it `name`. The interpreter lock is released
    /// meanwhile, because a stream may wait for threads that run Python.
    #[staticmethod]
    fn from_stream(py: Python<'_>, stream: &Bound<'_, PyCapsule>, name: &str) -> PyResult<Self> {
        let stream = Stream(pointer(stream, c"arrow_array_stream")?);
        // SAFETY: a capsule of this name holds such a stream, by the interface for capsules; the caller holds the
        // capsule.
        let table = py.detach(move || unsafe { stream.read(name) });
        table.map(Self).map_err(|error| exception(py, &error))
    }

    /// The table in the capsules of `__arrow_c_array__`.
    #[staticmethod]
    fn from_array(
        py: Python<'_>,
        schema: &Bound<'_, PyCapsule>,
        array: &Bound<'_, PyCapsule>,
        name: &str,
    ) -> PyResult<Self> {
        let (schema, array) = (pointer(schema, c"arrow_schema")?, pointer(array, c"arrow_array")?);
        // SAFETY: capsules of these names hold such a description and such an array, by the interface for capsules.
        let table = unsafe { ArrowTable::from_array(schema, array, name) };
        table.map(Self).map_err(|error| exception(py, &error))
    }

    /// The records that the first column of another table names, in that order.
    fn pick(&self, py: Python<'_>, places: &Self) -> PyResult<Self> {
        let picked = py.detach(|| caught(|| self.0.clone().pick(&places.0)));
        picked.map(Self).map_err(|error| exception(py, &error))
    }

    fn __len__(&self) -> usize {
        self.0.len() as usize
    }

    /// Its fields: name, and element type or else what it holds.
    fn fields(&self, py: Python<'_>) -> PyResult<Vec<(String, &'static str)>> {
        let options = ColumnsOptions::default();
        let columns = caught(|| Columns::of_table(&self.0, &options, &MemoryBudget::unlimited()));
        let columns = columns.map_err(|error| exception(py, &error))?;
        Ok(columns.fields().iter().map(|field| (field.name.clone(), field.type_name())).collect())
    }
}
