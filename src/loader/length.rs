//! Lengths by which samples are chosen: those of lists and texts, and those of tensors, which are measured.

use crate::dtype::DType;
use crate::error::{Error, ErrorKind, Result};
use crate::read::{FieldInfo, FieldKind, Outside, OutsideCodec, RecordReader, Scratch, Value, parallel};
use crate::row::RowMut;
use crate::schema::{Role, TensorSpec};

use super::number::Number;
use super::text;

/// Number of records that a thread measures at a time.
const MEASURED_AT_ONCE: u64 = 1024;

/// Writes the length of a field's value as f64: the number of values in a list, or of characters in a text. NaN means
/// missing.
pub(super) fn codec(name: &str) -> OutsideCodec {
    let tensors = [TensorSpec::new(name, Role::Feature, DType::F64, &[])];
    OutsideCodec::new(Length { tensors, is_list: false, width: 1 })
}

#[derive(Clone)]
struct Length {
    tensors: [TensorSpec; 1],
    /// Whether the field is known to have lists, so that a single value counts as a list of one.
    is_list: bool,
    /// Number of numbers in each value of a list, if they come as one row.
    width: usize,
}

impl Outside for Length {
    fn tensors(&self) -> &[TensorSpec] {
        &self.tensors
    }

    fn write(&self, _: usize, value: Value<'_>, row: &mut RowMut<'_>) -> Result<()> {
        row.tensor(0).as_mut_slice::<f64>()?[0] = self.of(&value)?.map_or(f64::NAN, |length| length as f64);
        Ok(())
    }

    fn for_fields(&self, infos: &[Option<&FieldInfo>]) -> Result<Option<OutsideCodec>> {
        let [Some(info)] = infos else { return Ok(None) };
        match (info.kind, info.shape.as_slice()) {
            (FieldKind::Numbers(_), []) => Err(Error::new(ErrorKind::Config, "it is a single number")),
            (_, []) => Ok(None),
            (_, [_, inner @ ..]) => {
                let width = inner.iter().product::<usize>().max(1);
                Ok(Some(OutsideCodec::new(Self { is_list: true, width, ..self.clone() })))
            }
        }
    }
}

impl Length {
    /// # Errors
    ///
    /// [`ErrorKind::Data`] for a value that is neither a list nor a text.
    fn of(&self, value: &Value<'_>) -> Result<Option<u64>> {
        match value {
            Value::Missing => Ok(None),
            Value::Numbers(numbers) => Ok(Some((numbers.len() / self.width) as u64)),
            Value::List(list) => match list.shape() {
                Some(shape) => Ok(shape.first().copied()),
                None => {
                    let mut count = 0;
                    list.each(&mut |_| {
                        count += 1;
                        Ok(())
                    })?;
                    Ok(Some(count))
                }
            },
            _ if self.is_list => Ok(Some(1)),
            Value::Text(_) | Value::Bytes(_) => {
                let text = text::text_of(value)?;
                Ok((!text.is_empty()).then(|| text.chars().count() as u64))
            }
            value => {
                let message = format!("expected a list or a text, which have a length, found {}", value.describe());
                Err(Error::new(ErrorKind::Data, message))
            }
        }
    }
}

/// The length of the tensor of this name in each record, if it varies.
pub(super) fn measured(reader: &impl RecordReader, name: &str) -> Option<Result<Vec<Number>>> {
    let extent = reader.tensors().iter().find(|spec| spec.name == name)?.extent()?;
    let measure = |scratch: &mut Scratch, job: u64| {
        let records = job * MEASURED_AT_ONCE..reader.len().min((job + 1) * MEASURED_AT_ONCE);
        let length = |record: u64| {
            let extents = reader.measure(record, scratch).map_err(|error| error.at(reader.place(record)))?;
            Ok(Number::of(&[f64::from(extents.0[extent])]))
        };
        records.map(length).collect::<Result<Vec<_>>>()
    };
    let mut numbers = Vec::new();
    let threads = parallel::thread_count(None);
    let read = parallel::in_order(threads, reader.len().div_ceil(MEASURED_AT_ONCE), measure, |lengths| {
        numbers.extend(lengths);
        Ok(())
    });
    Some(read.map(|()| numbers))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dtype::NumberSlice;

    #[test]
    fn a_length_is_that_of_the_outermost_list() {
        let tensors = [TensorSpec::new("x", Role::Feature, DType::F64, &[])];
        let plain = Length { tensors, is_list: false, width: 1 };
        let boxes = Length { is_list: true, width: 4, ..plain.clone() };
        for (length, value, expected) in [
            (&plain, Value::Missing, None),
            (&plain, Value::Text("größe"), Some(5)),
            (&plain, Value::Bytes(b"  "), None),
            (&plain, Value::Numbers(NumberSlice::F32(&[])), Some(0)),
            (&plain, Value::Numbers(NumberSlice::F32(&[1.0, 2.0])), Some(2)),
            (&boxes, Value::Numbers(NumberSlice::F32(&[0.0; 12])), Some(3)),
            // A feature of TFRecord with one value is given as this value.
            (&boxes, Value::F64(1.0), Some(1)),
            (&boxes, Value::Bytes(b"\xff\xd8"), Some(1)),
            (&boxes, Value::Missing, None),
        ] {
            assert_eq!(length.of(&value).unwrap(), expected, "{value:?}");
        }
        for value in [Value::I64(3), Value::Decimal("3"), Value::Bool(true), Value::Bytes(b"\xff\xd8")] {
            assert_eq!(plain.of(&value).unwrap_err().kind(), ErrorKind::Data, "{value:?}");
        }
        let info = |shape: &[usize]| FieldInfo::new("x", FieldKind::Numbers(DType::F32)).shape(shape);
        assert!(plain.for_fields(&[Some(&info(&[]))]).is_err());
        assert!(plain.for_fields(&[Some(&info(&[0, 4]))]).unwrap().is_some());
        assert!(plain.for_fields(&[None]).unwrap().is_none());
    }
}
