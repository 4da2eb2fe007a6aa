//! Sparse rows become dense ones.

use crate::decode::FromF32;
use crate::dtype::{DType, Element, NumberSlice};
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

/// The masks of a sparse row whose columns have a mask of their own, and so may be fewer or more than the values.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entries<T> {
    /// Chooses entries; without it, all are used.
    chosen: Option<T>,
    /// The mask of the values, if it is another one than that of the columns.
    values: Option<T>,
    /// The mask of the columns.
    columns: T,
}

impl Entries<String> {
    /// `None` if all masks are the same one, or the columns have none.
    pub(crate) fn of<'a>(
        values: &TensorSpec,
        indices: &TensorSpec,
        chosen: Option<&str>,
        tensors: impl Iterator<Item = &'a TensorSpec> + Clone,
    ) -> Option<Self> {
        let mask = |spec: &TensorSpec| {
            let mask = spec.mask(tensors.clone()).filter(|mask| mask.rank == 1)?;
            Some(mask.name.to_owned())
        };
        let columns = mask(indices)?;
        let values = mask(values).filter(|values| *values != columns);
        let is_one = chosen == Some(&columns) && values.is_none();
        (!is_one).then(|| Self { chosen: chosen.map(str::to_owned), values, columns })
    }

    fn names(&self) -> impl Iterator<Item = &String> {
        self.chosen.iter().chain(&self.values).chain([&self.columns])
    }
}

impl<T> Entries<T> {
    /// The same masks in another form.
    pub(crate) fn try_map<'a, U>(&'a self, form: impl Fn(&'a T) -> Result<U>) -> Result<Entries<U>> {
        Ok(Entries {
            chosen: self.chosen.as_ref().map(&form).transpose()?,
            values: self.values.as_ref().map(&form).transpose()?,
            columns: form(&self.columns)?,
        })
    }
}

impl Entries<&[u8]> {
    /// Why a row of `len` values is not valid: it has other columns than values, or an entry that is used has none.
    pub(crate) fn fault(&self, len: usize) -> Option<String> {
        let count = |mask: &[u8]| mask.iter().filter(|is_entry| **is_entry != 0).count();
        if let Some(values) = self.values.map(count)
            && values != count(self.columns)
        {
            return Some(format!("{} columns for {values} values", count(self.columns)));
        }
        let is_set = |mask: &[u8], entry: usize| mask.get(entry).is_some_and(|is_set| *is_set != 0);
        let is_used = |entry: &usize| self.chosen.is_none_or(|chosen| is_set(chosen, *entry));
        let without = (0..len).filter(is_used).find(|entry| !is_set(self.columns, *entry))?;
        Some(format!("entry {without} is used, but has no column"))
    }
}

/// Writes a sparse row's values as the whole row.
pub(super) struct Dense {
    spec: TensorSpec,
    indices: String,
    mask: Option<String>,
    check: Option<HasColumns>,
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
        let check = HasColumns::new(tensor, indices, mask, tensors)?;
        match check {
            // They have as many entries in each row, which is seen there.
            Some(_) if columns_of.shape.len() == 1 => expect_type(columns_of, &INDEX_TYPES)?,
            _ => expect(columns_of, &INDEX_TYPES, &spec.shape)?,
        }
        if let Some(mask) = mask {
            expect(tensors.get(mask)?, &[DType::U8], &spec.shape)?;
        }
        let spec =
            TensorSpec { dtype, shape: vec![Dim::Fixed(columns)], affine: None, masked: Masked::Never, ..spec.clone() };
        Ok(Self { spec, indices: indices.to_owned(), mask: mask.map(str::to_owned), check })
    }

    fn write<T: Element + FromF32>(&self, row: &Row<'_>, into: &mut [T]) -> Result<()> {
        into.fill(T::from_f32(0.0));
        self.check.as_ref().map_or(Ok(()), |check| check.check(row))?;
        let (values, indices) = (row.f32(&self.spec.name)?, row.tensor(&self.indices)?.numbers());
        let mask = self.mask.as_ref().map(|mask| row.u8(mask)).transpose()?;
        for (entry, value) in values.iter().enumerate().take(indices.len()) {
            let column = match indices {
                NumberSlice::U64(indices) => usize::try_from(indices[entry]).ok(),
                NumberSlice::I64(indices) => usize::try_from(indices[entry]).ok(),
                NumberSlice::U32(indices) => usize::try_from(indices[entry]).ok(),
                NumberSlice::I32(indices) => usize::try_from(indices[entry]).ok(),
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
        self.check.iter().try_for_each(|check| check.declare(tensors))?;
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

/// Finds samples in which values have no columns. Changes nothing.
pub(super) struct HasColumns {
    values: String,
    indices: String,
    entries: Entries<String>,
}

impl HasColumns {
    /// `None` if there are no such samples.
    pub(super) fn new(values: &str, indices: &str, mask: Option<&str>, tensors: &Tensors) -> Result<Option<Self>> {
        let entries = Entries::of(tensors.get(values)?, tensors.get(indices)?, mask, tensors.specs());
        Ok(entries.map(|entries| Self { values: values.to_owned(), indices: indices.to_owned(), entries }))
    }

    fn check(&self, row: &Row<'_>) -> Result<()> {
        let masks = self.entries.try_map(|mask| row.u8(mask))?;
        let fault = masks.fault(row.f32(&self.values)?.len());
        fault.map_or(Ok(()), |message| Err(Error::new(ErrorKind::Data, message).at_column(&self.indices)))
    }
}

impl Transform for HasColumns {
    fn declare(&self, tensors: &mut Tensors) -> Result<()> {
        tensors.read(&self.values)?;
        self.entries.names().try_for_each(|mask| tensors.read(mask))
    }

    fn apply(&self, row: &Row<'_>, _: &mut Outputs<'_>, _: &Scope<'_>) -> Result<()> {
        self.check(row)
    }
}
