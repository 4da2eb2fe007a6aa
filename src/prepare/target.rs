//! The place for the features and the code of one column: in the row of a batch, or in a row of a server.

use crate::decode::{one_hot, write_finite};
use crate::dtype::{DType, NumberSlice};
use crate::error::{Error, ErrorKind, Result};
use crate::row::RowMut;

pub(super) struct Target<'a, 'r> {
    row: &'a mut RowMut<'r>,
    /// The next feature in the row's first tensor.
    feature: usize,
    /// The tensor of the codes, and the position of the next code.
    code: (usize, usize),
}

impl<'a, 'r> Target<'a, 'r> {
    pub(super) fn new(row: &'a mut RowMut<'r>, feature: usize, code: (usize, usize)) -> Self {
        Self { row, feature, code }
    }

    /// Writes the next feature.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Data`] for a number outside the range of its type.
    #[inline]
    pub(super) fn feature(&mut self, number: f64) -> Result<()> {
        let mut tensor = self.row.tensor(0);
        let dtype = tensor.dtype();
        match (dtype, tensor.affine()) {
            _ if !number.is_finite() => return Err(too_large(number, dtype)),
            (DType::F32, None) => {
                let rounded = number as f32;
                if !rounded.is_finite() {
                    return Err(too_large(number, dtype));
                }
                tensor.as_mut_slice::<f32>()?[self.feature] = rounded;
            }
            _ => write_finite(&mut tensor, self.feature, NumberSlice::F64(&[number]))?,
        }
        self.feature += 1;
        Ok(())
    }

    /// Writes one-hot features: the one at `place` is 1, the others are 0.
    pub(super) fn one_hot(&mut self, count: usize, place: Option<usize>) -> Result<()> {
        let mut tensor = self.row.tensor(0);
        if tensor.dtype() == DType::F32 && tensor.affine().is_none() {
            let features = &mut tensor.as_mut_slice::<f32>()?[self.feature..self.feature + count];
            one_hot(features, place, [0.0, 1.0]);
            self.feature += count;
            return Ok(());
        }
        (0..count).try_for_each(|at| self.feature(f64::from(u8::from(place == Some(at)))))
    }

    /// Writes whether the value is missing, if there is a mask.
    pub(super) fn mask(&mut self, has_mask: bool, is_missing: bool) -> Result<()> {
        if has_mask { self.feature(f64::from(u8::from(is_missing))) } else { Ok(()) }
    }

    pub(super) fn code(&mut self, code: i64) -> Result<()> {
        let (tensor, at) = self.code;
        self.row.tensor(tensor).as_mut_slice::<i64>()?[at] = code;
        Ok(())
    }
}

#[cold]
fn too_large(number: f64, dtype: DType) -> Error {
    Error::new(
        ErrorKind::Data,
        format!("becomes {number}, which is beyond the range of {dtype}; clip it, or scale it in another way"),
    )
}
