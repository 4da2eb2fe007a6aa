//! Arrays of several dimensions as values.

use crate::dtype::NumberSlice;
use crate::error::{Error, ErrorKind, Result};

use super::value::{List, Value};

/// Numbers with a shape, row-major: an array as a [`List`] of its rows.
///
/// ```
/// use ringfeed::read::{List, Shaped};
/// use ringfeed::tensor::NumberSlice;
///
/// let array = Shaped::new(NumberSlice::U8(&[1, 2, 3, 4, 5, 6]), &[2, 3])?;
/// assert_eq!(array.shape(), Some(&[2, 3][..]));
/// assert!(Shaped::new(NumberSlice::U8(&[1, 2, 3]), &[2, 3]).is_err());
/// # Ok::<(), ringfeed::Error>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Shaped<'a> {
    numbers: NumberSlice<'a>,
    shape: &'a [u64],
}

impl<'a> Shaped<'a> {
    /// # Errors
    ///
    /// [`ErrorKind::Data`] if the number of values is not that of the shape's elements.
    pub fn new(numbers: NumberSlice<'a>, shape: &'a [u64]) -> Result<Self> {
        let count = shape.iter().try_fold(1u64, |product, dim| product.checked_mul(*dim));
        if count != Some(numbers.len() as u64) {
            let message = format!("an array of shape {shape:?} of {} numbers", numbers.len());
            return Err(Error::new(ErrorKind::Data, message));
        }
        Ok(Self { numbers, shape })
    }
}

impl List for Shaped<'_> {
    fn each(&self, visit: &mut dyn FnMut(Value<'_>) -> Result<()>) -> Result<()> {
        let (count, rows) = (self.numbers.len(), self.shape.first().copied().unwrap_or(1) as usize);
        // A file may claim any number of rows for an empty array.
        if count == 0 || rows == 0 {
            return Ok(());
        }
        let (inner, each) = (self.shape.get(1..).unwrap_or_default(), count / rows);
        (0..rows).map(|row| self.numbers.range(row * each..(row + 1) * each)).try_for_each(|numbers| {
            match inner.len() {
                ..2 => visit(Value::Numbers(numbers)),
                _ => visit(Value::List(&Shaped { numbers, shape: inner })),
            }
        })
    }

    fn shape(&self) -> Option<&[u64]> {
        Some(self.shape)
    }

    fn numbers(&self) -> Option<NumberSlice<'_>> {
        Some(self.numbers)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(value: Value<'_>) -> String {
        match value {
            Value::List(list) => {
                let mut all = Vec::new();
                list.each(&mut |value| {
                    all.push(shown(value));
                    Ok(())
                })
                .unwrap();
                format!("[{}]", all.join(" "))
            }
            Value::Numbers(numbers) => format!("{:?}", (0..numbers.len()).map(|at| numbers.at(at)).collect::<Vec<_>>()),
            value => value.describe(),
        }
    }

    #[test]
    fn an_array_is_a_list_of_its_rows() {
        let numbers: Vec<i32> = (0..6).collect();
        let of = |shape: &[u64]| shown(Value::List(&Shaped::new(NumberSlice::I32(&numbers), shape).unwrap()));
        assert_eq!(of(&[2, 3]), "[[0.0, 1.0, 2.0] [3.0, 4.0, 5.0]]");
        assert_eq!(of(&[1, 3, 2]), "[[[0.0, 1.0] [2.0, 3.0] [4.0, 5.0]]]");
        // No work is done for rows that have no elements, however many the file claims.
        assert_eq!(shown(Value::List(&Shaped::new(NumberSlice::U8(&[]), &[u64::MAX, 0]).unwrap())), "[]");
        assert!(Shaped::new(NumberSlice::U8(&[]), &[u64::MAX, u64::MAX]).is_err());
    }
}
