//! The last records of a series in memory, which are the features of its latest window.

use crate::error::{Error, ErrorKind, Result};
use crate::row::{RowMut, TensorMut};
use crate::schema::{Dim, Extents, Schema, TensorSpec};
use crate::view::TensorView;

use super::record_rows::{RecordRows, RecordTensors};
use super::windows::{Windows, windowed_spec};

/// The tensors of the last records of one series.
///
/// Records are written one after another into room for two windows, so that the latest window is contiguous. When the
/// room is full, the latest records move to its beginning; on average this copies one record per record.
pub(crate) struct Rolling {
    record: RecordTensors,
    /// The tensors of a window.
    windowed: Schema,
    room: RecordRows,
    length: usize,
    /// Number of records that are held, at most `length`. They end with row `end` of the room, exclusive.
    held: usize,
    end: usize,
}

impl Rolling {
    /// An empty window for these tensors.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Config`] for a tensor whose length differs from record to record, [`ErrorKind::Limit`] if there is
    /// no memory for the windows.
    pub(crate) fn new(tensors: &[TensorSpec], windows: &Windows) -> Result<Self> {
        let length = windows.length;
        let windowed = Schema::new(Self::windowed(tensors, windows)?)?;
        let (record, mut room) = (RecordTensors::new(tensors)?, RecordRows::default());
        let bytes = room.lay_out(&record, length.saturating_mul(2))?;
        if !room.allocate() {
            return Err(Error::new(ErrorKind::Limit, format!("no memory for the {bytes} bytes of a window")));
        }
        Ok(Self { record, windowed, room, length, held: 0, end: 0 })
    }

    /// The tensors of these records in the features of such windows.
    ///
    /// # Errors
    ///
    /// As [`new`](Self::new).
    pub(crate) fn windowed(tensors: &[TensorSpec], windows: &Windows) -> Result<Vec<TensorSpec>> {
        tensors.iter().map(|spec| windowed_spec(spec, Some(Dim::Fixed(windows.length)))).collect()
    }

    /// The tensors of a window.
    pub(crate) fn tensors(&self) -> &[TensorSpec] {
        self.windowed.tensors()
    }

    /// Number of records that are held, up to the length of a window.
    pub(crate) fn len(&self) -> usize {
        self.held
    }

    pub(crate) fn is_full(&self) -> bool {
        self.held == self.length
    }

    /// Forgets all records.
    pub(crate) fn clear(&mut self) {
        (self.held, self.end) = (0, 0);
    }

    /// Adds the record that `write` writes, and returns whether the window is full. After an error it is unchanged.
    ///
    /// # Errors
    ///
    /// Those of `write`.
    pub(crate) fn push(&mut self, write: impl FnOnce(&mut RowMut<'_>) -> Result<()>) -> Result<bool> {
        if self.end == self.room.len() {
            self.room.move_to_front(self.end - self.held..self.end);
            self.end = self.held;
        }
        write(&mut self.room.rows_mut(&self.record, self.end..self.end + 1).row(0))?;
        self.end += 1;
        self.held = (self.held + 1).min(self.length);
        Ok(self.is_full())
    }

    /// Tensor `at` of the latest window.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Data`] for a window that is not full.
    pub(crate) fn tensor(&self, at: usize) -> Result<TensorView<'_>> {
        self.check_full()?;
        let spec = &self.tensors()[at];
        let bytes = self.room.bytes(at, self.end - self.held..self.end);
        Ok(TensorView::of_row(spec, spec.row_shape(&Extents::default()), bytes))
    }

    /// Writes tensor `at` of the latest window.
    ///
    /// # Errors
    ///
    /// As [`tensor`](Self::tensor), and those of writing.
    pub(crate) fn write(&self, at: usize, to: &mut TensorMut<'_>) -> Result<()> {
        self.check_full()?;
        self.record.write(at, &self.room, self.end - self.held..self.end, to, 0)
    }

    fn check_full(&self) -> Result<()> {
        if self.is_full() {
            return Ok(());
        }
        let message = format!("the window has {} of its {} records", self.held, self.length);
        Err(Error::new(ErrorKind::Data, message))
    }

    /// The tensor of this name, as [`tensor`](Self::tensor).
    ///
    /// # Errors
    ///
    /// As [`tensor`](Self::tensor), and [`ErrorKind::NotFound`] with the nearest name.
    pub(crate) fn named(&self, name: &str) -> Result<TensorView<'_>> {
        self.tensor(self.record.schema().index_of(name)?)
    }
}

#[cfg(all(test, not(ringfeed_loom)))]
mod tests {
    use super::*;
    use crate::dtype::DType;
    use crate::schema::Role;

    #[test]
    fn the_latest_window_is_what_a_naive_slice_gives_whatever_failed_in_between() {
        let tensors = [
            TensorSpec::new("x", Role::Feature, DType::F32, &[3]),
            TensorSpec::new("code", Role::Feature, DType::I64, &[]),
        ];
        for length in 1..7 {
            let mut rolling = Rolling::new(&tensors, &Windows::new(length, 1)).unwrap();
            let mut all: Vec<i64> = Vec::new();
            for n in 0..60 {
                let write = |row: &mut RowMut<'_>| {
                    row.tensor(0).f32()?.fill(n as f32);
                    if n % 5 == 3 {
                        return Err(Error::new(ErrorKind::Data, "bad"));
                    }
                    row.tensor(1).i64()?.fill(n);
                    Ok(())
                };
                match rolling.push(write) {
                    Ok(is_full) => {
                        all.push(n);
                        assert_eq!(is_full, all.len() >= length);
                    }
                    Err(error) => assert!(n % 5 == 3 && error.message() == "bad"),
                }
                if n == 33 {
                    rolling.clear();
                    all.clear();
                }
                assert_eq!(rolling.len(), all.len().min(length));
                if all.len() < length {
                    let error = rolling.tensor(0).unwrap_err();
                    assert!(error.message().contains(&format!("{} of its {length} records", all.len())), "{error}");
                    continue;
                }
                let latest = &all[all.len() - length..];
                let x: Vec<f32> = latest.iter().flat_map(|n| [*n as f32; 3]).collect();
                let (features, codes) = (rolling.named("x").unwrap(), rolling.named("code").unwrap());
                assert_eq!((features.shape(), codes.shape()), (&[length, 3][..], &[length][..]));
                assert_eq!(features.as_slice::<f32>().unwrap(), x);
                assert_eq!(codes.as_slice::<i64>().unwrap(), latest);
            }
            assert_eq!(rolling.named("y").unwrap_err().kind(), ErrorKind::NotFound);
        }
    }
}
