use std::sync::Arc;

use crate::caught::caught;
use crate::dtype::NumberSlice;
use crate::error::{Error, ErrorKind, Result};
use crate::layout::Layout;
use crate::random::RandomKey;
use crate::read::{RecordReader, Sample, Scratch};
use crate::row::{RowMut, TensorMut};
use crate::schema::{Dim, Extents, Role, Schema, TensorSpec};

/// The tensor that holds a record's class, as an index or one-hot: the first one with names of classes, otherwise the
/// first one of integers.
fn class_tensor(tensors: &[TensorSpec]) -> Option<usize> {
    let holds_class = |spec: &TensorSpec| match spec.shape.as_slice() {
        [] => !spec.dtype.is_float(),
        [Dim::Fixed(classes)] => spec.classes.as_ref().is_some_and(|names| names.len() == *classes),
        _ => false,
    };
    let is_class = |spec: &TensorSpec| spec.role == Role::Label && holds_class(spec);
    let named = tensors.iter().position(|spec| is_class(spec) && spec.classes.is_some());
    named.or_else(|| tensors.iter().position(is_class))
}

/// Whether the classes are those that the reader knows without reading its records, rather than those of a tensor.
fn knows_them(reader: &(impl RecordReader + ?Sized), tensor: Option<usize>) -> bool {
    match (tensor, reader.label_tensor()) {
        (None, _) => true,
        (Some(tensor), Some(known)) => tensor == known,
        (Some(tensor), None) => reader.tensors()[tensor].classes.is_none(),
    }
}

pub(super) fn labels_of(readers: &[Arc<dyn RecordReader>]) -> Result<Vec<u32>> {
    let knows = |reader: &Arc<dyn RecordReader>| !reader.is_empty() && reader.label(0).is_some();
    let is_named = |reader: &Arc<dyn RecordReader>| {
        let tensor = class_tensor(reader.tensors());
        let is_known = tensor.is_some() && tensor == reader.label_tensor() && knows(reader);
        is_known || tensor.is_some_and(|tensor| reader.tensors()[tensor].classes.is_some())
    };
    let is_delivered = |reader: &Arc<dyn RecordReader>| class_tensor(reader.tensors()).is_some();
    let find = |has: &dyn Fn(&Arc<dyn RecordReader>) -> bool| readers.iter().find(|reader| has(reader));
    match find(&is_named).or_else(|| find(&is_delivered)).or_else(|| find(&knows)) {
        Some(reader) => caught(|| read_labels(&**reader)),
        None => Err(no_classes()),
    }
}

/// The class in a tensor of classes.
fn class_in(tensor: &mut TensorMut<'_>) -> Option<u32> {
    let dtype = tensor.dtype();
    let is_index = tensor.shape().is_empty();
    let numbers = NumberSlice::of(dtype, tensor.bytes_mut());
    if is_index {
        let class = numbers.at(0);
        (0.0..=f64::from(u32::MAX)).contains(&class).then_some(class as u32)
    } else {
        (0..numbers.len()).find(|index| numbers.at(*index) != 0.0).map(|index| index as u32)
    }
}

#[cold]
fn no_classes() -> Error {
    Error::new(ErrorKind::Schema, "there are no classes: no label tensor holds an index or one number for each class")
}

/// The class of every record: 4 bytes each.
///
/// If a reader does not know its [labels](RecordReader::label), every record is read and decoded once, on this thread.
/// This is cheap for tables and label files, and as much work as an epoch for sequences.
///
/// ```
/// use ringfeed::csv::{CsvOptions, CsvReader};
/// use ringfeed::field::Class;
/// use ringfeed::order::Subset;
/// use ringfeed::source::read_labels;
///
/// let fields = [("species".to_owned(), Class.from("virginica"))];
/// let labels = read_labels(&CsvReader::with_fields("fixtures/iris.csv", &fields, &CsvOptions::default())?)?;
/// let ones = Subset::all(labels.len() as u64).filter(|sample| labels[sample as usize] == 1);
/// assert_eq!(ones.len(), 50);
/// # Ok::<(), ringfeed::Error>(())
/// ```
///
/// # Errors
/// [`ErrorKind::Schema`] if there is no tensor of classes; [`ErrorKind::Data`] for a class below 0 or above 2^32 - 1;
/// and errors of reading the records.
pub fn read_labels(reader: &(impl RecordReader + ?Sized)) -> Result<Vec<u32>> {
    let schema = Schema::new(reader.tensors().to_vec())?;
    let tensor = class_tensor(reader.tensors());
    let (mut layout, mut memory, mut scratch) = (Layout::default(), Vec::<u64>::new(), Scratch::default());
    let mut read = |id| {
        let tensor = tensor.ok_or_else(no_classes)?;
        let extents = if schema.is_variable() { reader.measure(id, &mut scratch)? } else { Extents::default() };
        layout.compute(&schema, 1, extents)?;
        memory.resize(layout.bytes().div_ceil(8), 0);
        let mut row = RowMut::new(bytemuck::cast_slice_mut(&mut memory), schema.tensors(), &layout, 0);
        reader.fetch(&[id], 0, &mut scratch)?;
        reader.decode(Sample { id, key: RandomKey::new(0) }, 0, &mut scratch, &mut row)?;
        class_in(&mut row.tensor(tensor)).ok_or_else(|| {
            Error::new(ErrorKind::Data, "the label is not a class").at_column(&schema.tensors()[tensor].name)
        })
    };
    let is_known = knows_them(reader, tensor);
    let label = |id| match reader.label(id).filter(|_| is_known) {
        Some(label) => Ok(label),
        None => read(id).map_err(|error| error.at(reader.place(id)).at_record(id)),
    };
    (0..reader.len()).map(label).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dtype::DType;

    #[test]
    fn a_class_is_a_label_that_is_an_index_or_one_number_for_each_class() {
        let spec = |role, dtype, shape: &[usize]| TensorSpec::new("x", role, dtype, shape);
        let one_hot = TensorSpec {
            classes: Some(["a".to_owned(), "b".to_owned()].into()),
            ..spec(Role::Label, DType::F32, &[2])
        };
        let tensors = [
            spec(Role::Feature, DType::I64, &[]),
            spec(Role::Label, DType::F32, &[]),
            spec(Role::Label, DType::F32, &[2]),
            spec(Role::Label, DType::U8, &[]),
        ];
        assert_eq!(class_tensor(&tensors), Some(3));
        assert_eq!(class_tensor(&[tensors[3].clone(), one_hot.clone()]), Some(1), "names tell what is a class");
        assert_eq!(class_tensor(&tensors[..3]), None);
        assert_eq!(class_tensor(&[one_hot]), Some(0));
    }
}
