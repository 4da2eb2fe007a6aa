//! Arrays from the bytes of NPY files.

use crate::dtype::DType;
use crate::error::{Error, ErrorKind, Result};
use crate::read::fixed::in_row;
use crate::read::npy::{ArrayIn, array_in};
use crate::row::RowMut;
use crate::schema::{Role, TensorSpec};

use super::contract::{Context, Decode, Made, unexpected};
use crate::read::container::Value;

struct ArrayCodec {
    shape: Vec<usize>,
}

/// An array of the shape and type that are asked for, or else of those of the `first` record.
pub(super) fn make(
    name: &str,
    role: Role,
    dtype: Option<DType>,
    shape: Option<&[usize]>,
    first: Option<&[u8]>,
) -> Result<Made> {
    let found = first.map(array_in).transpose()?;
    let unknown = || {
        let message = "the first record has no array to look at; say its shape and dtype";
        Error::new(ErrorKind::Config, message)
    };
    let shape = match (shape, &found) {
        (Some(shape), _) => shape.to_vec(),
        (None, Some(array)) => array.shape.clone(),
        (None, None) => return Err(unknown()),
    };
    let dtype = match (dtype, &found) {
        (Some(dtype), _) => dtype,
        (None, Some(array)) => array.stored.kind.dtype(),
        (None, None) => return Err(unknown()),
    };
    let tensors = vec![TensorSpec::new(name, role, dtype, &shape)];
    Ok(Made { codec: Box::new(ArrayCodec { shape }), tensors })
}

impl Decode for ArrayCodec {
    fn write(&self, _: usize, value: Value<'_>, context: &mut Context<'_>, row: &mut RowMut<'_>) -> Result<()> {
        let Value::Bytes(bytes) = value else { return Err(unexpected("the bytes of an NPY file", &value)) };
        let ArrayIn { stored, shape, is_fortran, elements } = array_in(bytes)?;
        if shape != self.shape {
            let message = format!("an array of shape {shape:?} where {:?} was expected", self.shape);
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
