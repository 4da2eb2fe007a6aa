//! Sparse rows become dense ones.

use crate::decode::FromF32;
use crate::dtype::{DType, Element, Numbers};
use crate::error::{Error, ErrorKind, Result};
use crate::float16::{bf16, f16};
use crate::memory::Scope;
use crate::schema::{Dim, Masked, TensorSpec};
use crate::transform::{Outputs, Row, Tensors, Transform};

use super::elements::Mask;

/// Checks that a tensor has one of these element types.
pub(crate) fn expect_type(spec: &TensorSpec, dtypes: &[DType]) -> Result<()> {
    if dtypes.contains(&spec.dtype) {
        return Ok(());
    }
    let names: Vec<_> = dtypes.iter().map(|dtype| dtype.as_str()).collect();
    let message = format!("holds {}, and may hold {} here", spec.dtype, names.join(", "));
    Err(Error::new(ErrorKind::Schema, message).at_column(&spec.name))
}

/// The same for a tensor that is read together with another one, and must have this shape.
pub(crate) fn expect(spec: &TensorSpec, dtypes: &[DType], shape: &[Dim]) -> Result<()> {
    expect_type(spec, dtypes)?;
    if spec.shape == shape {
        return Ok(());
    }
    let message = format!("its shape is {:?}, and must be {shape:?}", spec.shape);
    Err(Error::new(ErrorKind::Schema, message).at_column(&spec.name))
}

/// Element types of the columns of entries.
pub(crate) const INDEX_TYPES: [DType; 4] = [DType::U32, DType::I32, DType::U64, DType::I64];

/// The error for entries that would overwrite others.
pub(crate) const UNMASKED: &str =
    "may have padding after its entries; name the tensor that tells entries from padding (`mask`)";

/// The mask of the columns of a sparse row, if it is another one than that of the values, and so may have another
/// number of entries in some rows.
pub(crate) fn other_mask(indices: &TensorSpec, mask: Option<&str>, tensors: &[TensorSpec]) -> Option<String> {
    indices.mask(tensors.iter()).map(|own| own.name.to_owned()).filter(|own| mask.is_some_and(|mask| mask != own))
}

/// Writes a sparse row's values as the whole row.
pub(super) struct Dense {
    spec: TensorSpec,
    indices: String,
    mask: Option<String>,
    /// The mask of the indices, if they have one of their own.
    own_mask: Option<String>,
}

impl Dense {
    pub(super) fn new(
        tensor: &str,
        indices: &str,
        mask: Option<&str>,
        columns: usize,
        dtype: DType,
        tensors: &Tensors,
    ) -> Result<Self> {
        let spec = tensors.get(tensor)?;
        let fault = |message: String| Err(Error::new(ErrorKind::Schema, message).at_column(tensor));
        expect_type(spec, &[DType::F32])?;
        if spec.shape.len() != 1 {
            return fault(format!("a sparse row's values have one dimension, not {}", spec.shape.len()));
        }
        if mask.is_none() && (spec.is_variable() || Mask::of(spec, tensors).is_some()) {
            return fault(UNMASKED.to_owned());
        }
        let columns_of = tensors.get(indices)?;
        let own_mask = other_mask(columns_of, mask, &tensors.specs().cloned().collect::<Vec<_>>());
        match own_mask {
            // They have as many entries in each row, which is seen there.
            Some(_) if columns_of.shape.len() == 1 => expect_type(columns_of, &INDEX_TYPES)?,
            _ => expect(columns_of, &INDEX_TYPES, &spec.shape)?,
        }
        if let Some(mask) = mask {
            expect(tensors.get(mask)?, &[DType::U8], &spec.shape)?;
        }
        let spec =
            TensorSpec { dtype, shape: vec![Dim::Fixed(columns)], affine: None, masked: Masked::Never, ..spec.clone() };
        Ok(Self { spec, indices: indices.to_owned(), mask: mask.map(str::to_owned), own_mask })
    }

    fn write<T: Element + FromF32>(&self, row: &Row<'_>, into: &mut [T]) -> Result<()> {
        into.fill(T::from_f32(0.0));
        let (values, indices) = (row.f32(&self.spec.name)?, row.tensor(&self.indices)?.numbers());
        let mask = self.mask.as_ref().map(|mask| row.u8(mask)).transpose()?;
        if let (Some(own), Some(mask)) = (&self.own_mask, mask) {
            let count = |mask: &[u8]| mask.iter().filter(|is_entry| **is_entry != 0).count();
            let (columns, count) = (count(row.u8(own)?), count(mask));
            if columns != count {
                let message = format!("{columns} columns for {count} values");
                return Err(Error::new(ErrorKind::Data, message).at_column(&self.indices));
            }
        }
        for (entry, value) in values.iter().enumerate().take(indices.len()) {
            let column = match indices {
                Numbers::U64(indices) => usize::try_from(indices[entry]).ok(),
                Numbers::I64(indices) => usize::try_from(indices[entry]).ok(),
                Numbers::U32(indices) => usize::try_from(indices[entry]).ok(),
                Numbers::I32(indices) => usize::try_from(indices[entry]).ok(),
                _ => None,
            };
            if mask.is_none_or(|mask| mask[entry] != 0)
                && let Some(number) = column.and_then(|column| into.get_mut(column))
            {
                *number = T::from_f32(*value);
            }
        }
        Ok(())
    }
}

impl Transform for Dense {
    fn declare(&self, tensors: &mut Tensors) -> Result<()> {
        tensors.read(&self.indices)?;
        self.mask.iter().chain(&self.own_mask).try_for_each(|mask| tensors.read(mask))?;
        tensors.write(self.spec.clone())
    }

    fn apply(&self, row: &Row<'_>, out: &mut Outputs<'_>, _: &Scope<'_>) -> Result<()> {
        let mut tensor = out.tensor(0);
        match self.spec.dtype {
            DType::F16 => self.write::<f16>(row, tensor.as_mut_slice()?),
            DType::Bf16 => self.write::<bf16>(row, tensor.as_mut_slice()?),
            _ => self.write::<f32>(row, tensor.as_mut_slice()?),
        }
    }
}
