//! Sparse rows become dense ones.

use crate::decode::FromF32;
use crate::dtype::{DType, Element, Numbers};
use crate::error::{Error, ErrorKind, Result};
use crate::float16::{bf16, f16};
use crate::memory::Scope;
use crate::schema::{Dim, TensorSpec};
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
    // Two lengths that vary may be the same in every batch, which is seen there.
    let fits = |(own, other): (&Dim, &Dim)| own == other || matches!((own, other), (Dim::Extent(_), Dim::Extent(_)));
    if spec.shape.len() == shape.len() && spec.shape.iter().zip(shape).all(fits) {
        return Ok(());
    }
    let message = format!("its shape is {:?}, and must be {shape:?}", spec.shape);
    Err(Error::new(ErrorKind::Schema, message).at_column(&spec.name))
}

/// Element types of the columns of entries.
pub(crate) const INDEX_TYPES: [DType; 4] = [DType::U32, DType::I32, DType::U64, DType::I64];

/// The error for entries that would overwrite others.
pub(crate) const UNMASKED: &str = "has padding; name the tensor that tells entries from padding (`mask`)";

/// The error for a batch in which the tensor `beside` has another number of entries than the values.
pub(crate) fn check_entries(values: usize, beside: usize, name: &str) -> Result<()> {
    if values == beside {
        return Ok(());
    }
    let message = format!("has {beside} entries in this batch, but the values have {values}");
    Err(Error::new(ErrorKind::Schema, message).at_column(name))
}

/// Writes a sparse row's values as the whole row.
pub(super) struct Dense {
    spec: TensorSpec,
    indices: String,
    mask: Option<String>,
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
        expect(tensors.get(indices)?, &INDEX_TYPES, &spec.shape)?;
        if let Some(mask) = mask {
            expect(tensors.get(mask)?, &[DType::U8], &spec.shape)?;
        }
        let spec = TensorSpec { dtype, shape: vec![Dim::Fixed(columns)], affine: None, masked: None, ..spec.clone() };
        Ok(Self { spec, indices: indices.to_owned(), mask: mask.map(str::to_owned) })
    }

    fn write<T: Element + FromF32>(&self, row: &Row<'_>, into: &mut [T]) -> Result<()> {
        into.fill(T::from_f32(0.0));
        let (values, indices) = (row.f32(&self.spec.name)?, row.tensor(&self.indices)?.numbers());
        let mask = self.mask.as_ref().map(|mask| row.u8(mask)).transpose()?;
        check_entries(values.len(), indices.len(), &self.indices)?;
        if let (Some(name), Some(mask)) = (&self.mask, mask) {
            check_entries(values.len(), mask.len(), name)?;
        }
        for (entry, value) in values.iter().enumerate() {
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
        self.mask.iter().try_for_each(|mask| tensors.read(mask))?;
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
