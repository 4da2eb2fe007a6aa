//! Visits every record of a reader once, with one thread per core.

use crate::error::{Error, Result};
use crate::layout::Layout;
use crate::random::RandomKey;
use crate::read::{RecordReader, Sample, Scratch, Value, parallel};
use crate::row::RowMut;
use crate::schema::{Dim, Extents, Rows, Schema};

use super::number::Number;

/// Number of records that a thread takes at a time.
const AT_ONCE: u64 = 512;

/// Decodes every record of a reader. `look` gets the record, or the error of a bad record; `take` gets the results of
/// `look`, in the order of records.
pub(super) fn each<T: Send>(
    reader: &(impl RecordReader + ?Sized),
    look: impl Fn(Result<&mut RowMut<'_>>) -> Result<T> + Sync,
    mut take: impl FnMut(T),
) -> Result<()> {
    let schema = Schema::new(reader.tensors().to_vec())?;
    let mut of_all = Layout::default();
    of_all.compute(&schema, 1, Extents::default())?;
    let placed = |error: Error, id: u64| if error.path().is_none() { error.at(reader.place(id)) } else { error };
    let read = |(scratch, memory, own): &mut (Scratch, Vec<u64>, Layout), job: u64| {
        let ids: Vec<u64> = (job * AT_ONCE..reader.len().min((job + 1) * AT_ONCE)).collect();
        let mut look_at = |(nth, id): (usize, &u64)| {
            let sample = Sample { id: *id, key: RandomKey::new(0) };
            let (mut layout, mut of_job, mut place) = (&of_all, &ids[..], nth);
            if schema.is_variable() {
                // Measuring may have overwritten what was fetched before.
                own.compute(&schema, 1, reader.measure(*id, scratch)?)?;
                (layout, of_job, place) = (&*own, std::slice::from_ref(id), 0);
            }
            memory.resize(layout.bytes().div_ceil(8), 0);
            let mut row = RowMut::new(bytemuck::cast_slice_mut(memory), schema.tensors(), layout, 0);
            let fetched = reader.fetch(of_job, place, scratch);
            let decoded = fetched.and_then(|()| reader.decode(sample, place, scratch, &mut row));
            look(decoded.map(|()| &mut row))
        };
        let looked = ids.iter().enumerate().map(|(nth, id)| look_at((nth, id)).map_err(|error| placed(error, *id)));
        looked.collect::<Result<Vec<T>>>()
    };
    let jobs = reader.len().div_ceil(AT_ONCE);
    parallel::in_order(parallel::thread_count(None), jobs, read, |all| {
        all.into_iter().for_each(&mut take);
        Ok(())
    })
}

/// The numbers of the tensor of this name, if it has one number per record. This is for arrays, which have no fields,
/// and for labels of whole sequences.
pub(super) fn single_numbers(reader: &impl RecordReader, name: &str) -> Option<Result<Vec<Number>>> {
    let at = reader.tensors().iter().position(|spec| spec.name == name)?;
    let spec = &reader.tensors()[at];
    if spec.rows != Rows::Even || spec.shape.iter().any(|dim| *dim != Dim::Fixed(1)) {
        return None;
    }
    let mut numbers = Vec::new();
    let number = |row: Result<&mut RowMut<'_>>| Number::read(&Value::Numbers(row?.tensor(at).numbers()));
    let read = each(reader, number, |number| numbers.push(number));
    Some(read.map(|()| numbers))
}

/// Replaces a bad record's value by this number, if there is one.
pub(super) fn or_number(row: Result<&mut RowMut<'_>>, bad: Option<f64>) -> Result<Number> {
    match (row, bad) {
        (Ok(row), _) => Ok(Number::of(row.tensor(0).as_mut_slice()?)),
        (Err(error), Some(bad)) if error.kind().is_of_bytes() => Ok(Number::of(&[bad])),
        (Err(error), _) => Err(error),
    }
}
