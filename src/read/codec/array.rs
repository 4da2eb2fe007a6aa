//! Arrays from the bytes of NPY files, and from bytes that are their elements alone.

use crate::dtype::DType;
use crate::error::{Error, ErrorKind, Result};
use crate::read::container::{FieldInfo, FieldKind};
use crate::read::fields;
use crate::read::fixed::{Stored, StoredType, in_row};
use crate::read::npy::{ArrayIn, array_in};
use crate::row::RowMut;
use crate::schema::{Role, TensorSpec};

use super::contract::{Context, Decode, Made, unexpected};
use crate::read::value::Value;

struct ArrayCodec {
    shape: Vec<usize>,
    /// The type of the first array, which all others have unless a type is asked for.
    kind: Option<StoredType>,
}

/// Elements without a header.
struct RawCodec {
    shape: Vec<usize>,
    stored: Stored,
    bytes: usize,
}

/// The numbers that the container holds in place of an array's bytes, if it does: with their shape, and the requested type
/// or theirs. A label that is a single whole number is an index.
///
/// # Errors
///
/// [`ErrorKind::Config`] for another shape, and for lengths that differ from record to record.
pub(super) fn as_numbers(
    role: Role,
    array: &fields::Array,
    infos: &[Option<&FieldInfo>],
) -> Result<Option<fields::Numbers>> {
    let [Some(FieldInfo { kind: FieldKind::Numbers(stored), shape, .. })] = infos else { return Ok(None) };
    let fault = |message: String| Err(Error::new(ErrorKind::Config, message));
    if array.stored.is_some() || shape.contains(&0) {
        return fault("the field holds numbers, not the bytes of an array; ask for them as numbers".to_owned());
    }
    if let Some(wanted) = array.shape.as_ref().filter(|wanted| *wanted != shape) {
        return fault(format!("the field has the shape {shape:?}, not {wanted:?}"));
    }
    let is_index = role == Role::Label && shape.is_empty() && !stored.is_float();
    let usual = if is_index { DType::I64 } else { *stored };
    let numbers = fields::Numbers::of(array.dtype.unwrap_or(usual));
    Ok(Some(if shape.is_empty() { numbers } else { fields::Numbers { shape: Some(shape.clone()), ..numbers } }))
}

/// An array with the requested shape and type; where none is requested, with those of the `first` record.
pub(super) fn make(name: &str, role: Role, array: &fields::Array, first: Option<&[u8]>) -> Result<Made> {
    let (dtype, shape) = (array.dtype, array.shape.as_deref());
    if let Some(stored) = array.stored {
        return raw(name, role, dtype, shape.unwrap_or_default(), stored);
    }
    let found = first.map(array_in).transpose()?;
    let unknown = || {
        let message = match shape {
            Some(_) => "there is no array to look at: give its `dtype`",
            None => "there is no array to look at: give its `shape` and `dtype`",
        };
        Error::new(ErrorKind::Config, message)
    };
    let shape = match (shape, &found) {
        (Some(shape), _) => shape.to_vec(),
        (None, Some(array)) => array.shape.clone(),
        (None, None) => return Err(unknown()),
    };
    let kind = found.as_ref().filter(|_| dtype.is_none()).map(|array| array.stored.kind);
    let dtype = match (dtype, &found) {
        (Some(dtype), _) => dtype,
        (None, Some(array)) => array.stored.kind.dtype(),
        (None, None) => return Err(unknown()),
    };
    let tensors = vec![TensorSpec::new(name, role, dtype, &shape)];
    Ok(Made { codec: Box::new(ArrayCodec { shape, kind }), tensors })
}

fn raw(name: &str, role: Role, dtype: Option<DType>, shape: &[usize], stored: Stored) -> Result<Made> {
    let kind = stored.kind;
    let dtype = dtype.unwrap_or(kind.dtype());
    let fault = |message: String| Err(Error::new(ErrorKind::Config, message));
    if !kind.fits(dtype) {
        return fault(format!("dtype: {dtype} can't hold every number of {kind}"));
    }
    let Some(bytes) = shape.iter().try_fold(kind.bytes(), |bytes, dim| bytes.checked_mul(*dim)) else {
        return fault(format!("array: shape {shape:?} has too many elements"));
    };
    let tensors = vec![TensorSpec::new(name, role, dtype, shape)];
    Ok(Made { codec: Box::new(RawCodec { shape: shape.to_vec(), stored, bytes }), tensors })
}

impl Decode for RawCodec {
    fn write(&self, _: usize, value: Value<'_>, _: &mut Context<'_>, row: &mut RowMut<'_>) -> Result<()> {
        let wanted = || format!("{} bytes, an array of shape {:?} of {}", self.bytes, self.shape, self.stored.kind);
        match value {
            Value::Bytes(bytes) if bytes.len() == self.bytes => self.stored.write(bytes, 0, &mut row.tensor(0)),
            Value::Bytes(bytes) => {
                Err(Error::new(ErrorKind::Data, format!("expected {}, found {} bytes", wanted(), bytes.len())))
            }
            other => Err(unexpected(wanted(), &other)),
        }
    }
}

impl Decode for ArrayCodec {
    fn write(&self, _: usize, value: Value<'_>, context: &mut Context<'_>, row: &mut RowMut<'_>) -> Result<()> {
        let Value::Bytes(bytes) = value else { return Err(unexpected("the bytes of an NPY file", &value)) };
        let ArrayIn { stored, shape, is_fortran, elements } = array_in(bytes)?;
        if shape != self.shape {
            let message = format!("an array of shape {shape:?} where {:?} was expected", self.shape);
            return Err(Error::new(ErrorKind::Data, message));
        }
        if let Some(kind) = self.kind.filter(|kind| *kind != stored.kind) {
            let message =
                format!("an array of {} where the first one is of {kind}; set `dtype` to convert all", stored.kind);
            return Err(Error::new(ErrorKind::Data, message));
        }
        let start = (bytes.len() - elements.len()) as u64;
        if !is_fortran || shape.len() < 2 {
            return stored.write(elements, start, &mut row.tensor(0));
        }
        let mut ordered = context.budget.lend::<Vec<u8>>(elements.len() as u64, "an array in Fortran order")?;
        let size = stored.kind.bytes();
        ordered.resize(elements.len(), 0);
        for (nth, element) in elements.chunks_exact(size).enumerate() {
            let place = in_row(nth, &shape) * size;
            ordered[place..place + size].copy_from_slice(element);
        }
        stored.write(&ordered, start, &mut row.tensor(0))
    }
}
