//! Samples from a Python iterator: taken one after another by the planning thread.

use pyo3::buffer::PyBuffer;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use ringfeed::read::{SampleStream, SampleTensor};
use ringfeed::tensor::{Element, Role, TensorSpec, f16};
use ringfeed::{DType, Error, ErrorKind, Result};

use crate::calling::Owner;
use crate::transform::raised_by_user;
use crate::wait::{attach, interrupted};

/// Opens an object of `ringfeed._reader.Samples` for the loader of this owner.
pub(crate) fn open(source: &Py<PyAny>, owner: Owner) -> Result<SampleStream> {
    let opened = attach(owner, |py| described(source.bind(py)).map_err(|raised| raised_by_user(py, raised)));
    let (source, tensors, is_repeatable) = opened.ok_or_else(interrupted)??;
    if is_repeatable {
        let again = move || attach(owner, |py| Iterator::new(py, source.bind(py), owner)).into_iter().flatten();
        return SampleStream::repeatable(&tensors, again);
    }
    let once = attach(owner, |py| Iterator::new(py, source.bind(py), owner)).ok_or_else(interrupted)?;
    SampleStream::once(&tensors, once)
}

fn described(source: &Bound<'_, PyAny>) -> PyResult<(Py<PyAny>, Vec<TensorSpec>, bool)> {
    let mut tensors = Vec::new();
    for field in source.getattr("fields")?.try_iter()? {
        let (name, dtype, shape): (String, String, Vec<usize>) = field?.extract()?;
        let dtype = dtype.parse::<DType>().map_err(|error| crate::errors::exception(source.py(), &error))?;
        tensors.push(TensorSpec::new(name, Role::Feature, dtype, &shape));
    }
    Ok((source.clone().unbind(), tensors, source.getattr("repeatable")?.extract()?))
}

/// Iterates over the samples once.
struct Iterator {
    state: State,
    owner: Owner,
}

enum State {
    Goes(Py<PyAny>),
    Fails(Option<Error>),
}

impl Iterator {
    fn new(py: Python<'_>, source: &Bound<'_, PyAny>, owner: Owner) -> Self {
        let state = match source.call_method0("samples") {
            Ok(iterator) => State::Goes(iterator.unbind()),
            Err(raised) => State::Fails(Some(fatal(py, raised))),
        };
        Self { state, owner }
    }
}

impl std::iter::Iterator for Iterator {
    type Item = Result<Vec<SampleTensor>>;

    fn next(&mut self) -> Option<Self::Item> {
        let iterator = match &mut self.state {
            State::Goes(iterator) => iterator,
            State::Fails(error) => return error.take().map(Err),
        };
        let next = attach(self.owner, |py| {
            let next = iterator.bind(py).call_method0("__next__");
            match next {
                Ok(sample) => Some(arrays(&sample).map_err(|raised| raised_by_user(py, raised))),
                Err(raised) if raised.is_instance_of::<pyo3::exceptions::PyStopIteration>(py) => None,
                Err(raised) => Some(Err(fatal(py, raised))),
            }
        });
        // A generator that raised has ended.
        match next? {
            Some(Err(error)) if error.kind() != ErrorKind::Data => {
                self.state = State::Fails(None);
                Some(Err(error))
            }
            other => other,
        }
    }
}

/// An error that ends an epoch: no samples follow it.
fn fatal(py: Python<'_>, raised: PyErr) -> Error {
    let error = raised_by_user(py, raised.clone_ref(py));
    match error.kind() {
        ErrorKind::Interrupted => error,
        _ => Error::new(ErrorKind::Io, error.message().to_owned()).with_source(raised),
    }
}

fn arrays(sample: &Bound<'_, PyAny>) -> PyResult<Vec<SampleTensor>> {
    static PLAIN: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let parts = PLAIN.import(sample.py(), "ringfeed._reader", "arrays")?.call1((sample,))?;
    parts.try_iter()?.map(|part| array(&part?)).collect()
}

fn array(part: &Bound<'_, PyAny>) -> PyResult<SampleTensor> {
    let (dtype, bytes, shape): (String, PyBuffer<u8>, Vec<usize>) = part.extract()?;
    let dtype = dtype.parse::<DType>().map_err(|error| crate::errors::exception(part.py(), &error))?;
    let py = part.py();
    match dtype {
        DType::U8 => typed::<u8>(py, &bytes, &shape),
        DType::I8 => typed::<i8>(py, &bytes, &shape),
        DType::U16 => typed::<u16>(py, &bytes, &shape),
        DType::I16 => typed::<i16>(py, &bytes, &shape),
        DType::U32 => typed::<u32>(py, &bytes, &shape),
        DType::I32 => typed::<i32>(py, &bytes, &shape),
        DType::U64 => typed::<u64>(py, &bytes, &shape),
        DType::I64 => typed::<i64>(py, &bytes, &shape),
        DType::F16 => typed::<f16>(py, &bytes, &shape),
        DType::F32 => typed::<f32>(py, &bytes, &shape),
        _ => typed::<f64>(py, &bytes, &shape),
    }
}

fn typed<T: Element>(py: Python<'_>, bytes: &PyBuffer<u8>, shape: &[usize]) -> PyResult<SampleTensor> {
    let mut values = vec![T::zeroed(); bytes.len_bytes() / size_of::<T>()];
    bytes.copy_to_slice(py, bytemuck::cast_slice_mut(&mut values))?;
    Ok(SampleTensor::new(values, shape))
}
