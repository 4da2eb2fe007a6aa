//! Records of a Python object: read one job at a time under the interpreter lock, and decoded without it.

use pyo3::buffer::PyBuffer;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyBool, PyBytes, PyFloat, PyInt, PyString, PyTuple};
use ringfeed::error::Location;
use ringfeed::read::{Container, FieldInfo, FieldKind, List, Scratch, Shaped, Value, Visit};
use ringfeed::tensor::NumberSlice;
use ringfeed::{DType, ErrorKind, Result};

use crate::calling::Owner;
use crate::ending::ends;
use crate::transform::raised_by_user;
use crate::wait::{attach, interrupted};

/// An object with a length, whose records are read by their index.
pub(crate) struct Reader {
    object: Py<PyAny>,
    len: u64,
    /// Its name in errors.
    name: String,
    fields: Vec<FieldInfo>,
    owner: Owner,
}

/// The records of a job, or why one could not be read.
#[derive(Default)]
struct Fetched(Vec<Result<Vec<Owned>>>);

/// A value without Python objects.
pub(crate) enum Owned {
    Missing,
    Bool(bool),
    I64(i64),
    U64(u64),
    F64(f64),
    Text(String),
    Bytes(Vec<u8>),
    Array(Array),
}

/// An array of numbers.
pub(crate) struct Array {
    dtype: DType,
    words: Vec<u64>,
    /// Its bytes.
    len: usize,
    shape: Vec<u64>,
}

impl Array {
    fn values(&self) -> Option<NumberSlice<'_>> {
        let bytes: &[u8] = &bytemuck::cast_slice(&self.words)[..self.len];
        numbers(self.dtype, bytes)
    }
}

impl List for Array {
    fn each(&self, visit: &mut dyn FnMut(Value<'_>) -> Result<()>) -> Result<()> {
        self.values().map_or(Ok(()), |numbers| Shaped::new(numbers, &self.shape)?.each(visit))
    }

    fn shape(&self) -> Option<&[u64]> {
        Some(&self.shape)
    }

    fn numbers(&self) -> Option<NumberSlice<'_>> {
        self.values()
    }
}

impl Owned {
    pub(crate) fn new(value: &Bound<'_, PyAny>) -> PyResult<Self> {
        if value.is_none() {
            Ok(Self::Missing)
        } else if let Ok(bytes) = value.cast::<PyBytes>() {
            Ok(Self::Bytes(bytes.as_bytes().to_vec()))
        } else if let Ok(text) = value.cast::<PyString>() {
            Ok(Self::Text(text.to_str()?.to_owned()))
        } else if let Ok(value) = value.cast::<PyBool>() {
            Ok(Self::Bool(value.is_true()))
        } else if value.is_instance_of::<PyInt>() {
            value.extract().map(Self::I64).or_else(|_| value.extract().map(Self::U64))
        } else if value.is_instance_of::<PyFloat>() {
            value.extract().map(Self::F64)
        } else {
            let array = value.cast::<PyTuple>().map_err(|_| PyTypeError::new_err("no value"))?;
            let (dtype, bytes, shape): (String, PyBuffer<u8>, Vec<u64>) = array.extract()?;
            let dtype = dtype.parse::<DType>().map_err(|error| PyTypeError::new_err(error.to_string()))?;
            let len = bytes.len_bytes();
            let mut words = vec![0u64; len.div_ceil(8)];
            bytes.copy_to_slice(value.py(), &mut bytemuck::cast_slice_mut(&mut words)[..len])?;
            Ok(Self::Array(Array { dtype, words, len, shape }))
        }
    }

    pub(crate) fn value(&self) -> Value<'_> {
        match self {
            Self::Missing => Value::Missing,
            Self::Bool(value) => Value::Bool(*value),
            Self::I64(value) => Value::I64(*value),
            Self::U64(value) => Value::U64(*value),
            Self::F64(value) => Value::F64(*value),
            Self::Text(text) => Value::Text(text),
            Self::Bytes(bytes) => Value::Bytes(bytes),
            // A single number is one in any shape, and a row has none of its own.
            Self::Array(array) => match array.values() {
                Some(numbers) if array.shape.len() > 1 && numbers.len() != 1 => Value::List(array),
                numbers => numbers.map_or(Value::Missing, Value::Numbers),
            },
        }
    }
}

/// The numbers in these bytes.
fn numbers(dtype: DType, bytes: &[u8]) -> Option<NumberSlice<'_>> {
    use bytemuck::try_cast_slice as cast;
    Some(match dtype {
        DType::U8 => NumberSlice::U8(bytes),
        DType::I8 => NumberSlice::I8(cast(bytes).ok()?),
        DType::U16 => NumberSlice::U16(cast(bytes).ok()?),
        DType::I16 => NumberSlice::I16(cast(bytes).ok()?),
        DType::U32 => NumberSlice::U32(cast(bytes).ok()?),
        DType::I32 => NumberSlice::I32(cast(bytes).ok()?),
        DType::U64 => NumberSlice::U64(cast(bytes).ok()?),
        DType::I64 => NumberSlice::I64(cast(bytes).ok()?),
        DType::F16 => NumberSlice::F16(cast(bytes).ok()?),
        DType::F32 => NumberSlice::F32(cast(bytes).ok()?),
        DType::F64 => NumberSlice::F64(cast(bytes).ok()?),
        _ => return None,
    })
}

impl Reader {
    /// A reader of `object`, an object of `ringfeed._reader.Source`.
    pub(crate) fn new(object: &Bound<'_, PyAny>, owner: Owner) -> PyResult<Self> {
        let len = object.call_method0("__len__")?.extract()?;
        let mut fields = Vec::new();
        for field in object.getattr("fields")?.try_iter()? {
            let (name, kind, shape): (String, String, Vec<usize>) = field?.extract()?;
            let kind = match kind.as_str() {
                "text" => FieldKind::Text,
                "bytes" => FieldKind::Bytes,
                "other" => FieldKind::Other,
                dtype => FieldKind::Numbers(dtype.parse().map_err(|_| PyTypeError::new_err("no element type"))?),
            };
            fields.push(FieldInfo::new(name, kind).shape(&shape));
        }
        let name = object.getattr("name")?.extract()?;
        Ok(Self { object: object.clone().unbind(), len, name, fields, owner })
    }

    fn read_one(&self, py: Python<'_>, record: u64) -> PyResult<Vec<Owned>> {
        static READ: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
        let values = READ.import(py, "ringfeed._reader", "read")?.call1((&self.object, record))?;
        values.try_iter()?.map(|value| Owned::new(&value?)).collect()
    }
}

/// Opens an object of `ringfeed._reader.Source` for the loader of this owner.
pub(crate) fn open(source: &Py<PyAny>, owner: Owner) -> Result<Reader> {
    let opened = attach(owner, |py| Reader::new(source.bind(py), owner).map_err(|raised| raised_by_user(py, raised)));
    opened.unwrap_or_else(|| Err(interrupted()))
}

impl Container for Reader {
    fn len(&self) -> u64 {
        self.len
    }

    fn fields(&self) -> &[FieldInfo] {
        &self.fields
    }

    fn fetch(&self, records: &[u64], nth: usize, scratch: &mut Scratch) -> Result<()> {
        let Fetched(fetched) = scratch.of();
        if nth == 0 {
            fetched.clear();
            let read = |py: Python<'_>, record: &u64| match ends() {
                true => Err(interrupted()),
                false => self.read_one(py, *record).map_err(|raised| raised_by_user(py, raised)),
            };
            let all = attach(self.owner, |py| {
                for record in records {
                    fetched.push(read(py, record));
                    if matches!(fetched.last(), Some(Err(error)) if error.kind() == ErrorKind::Interrupted) {
                        break;
                    }
                }
            });
            all.ok_or_else(interrupted)?;
        }
        // Behind an interruption, nothing was read.
        let nth = nth.min(fetched.len().saturating_sub(1));
        match fetched.get_mut(nth) {
            Some(record @ Err(_)) => std::mem::replace(record, Ok(Vec::new())).map(drop),
            _ => Ok(()),
        }
    }

    fn read(&self, _: u64, nth: usize, scratch: &mut Scratch, visit: &mut Visit<'_>) -> Result<()> {
        let Fetched(fetched) = scratch.of();
        let values = fetched.get(nth).and_then(|record| record.as_ref().ok()).map(Vec::as_slice).unwrap_or_default();
        values.iter().enumerate().try_for_each(|(number, value)| visit(number, value.value()))
    }

    fn place(&self, record: u64) -> Location {
        Location { path: Some(self.name.clone().into()), record: Some(record), ..Location::default() }
    }
}
