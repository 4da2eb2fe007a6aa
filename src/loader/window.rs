//! Windows of consecutive records in memory, made by the fields and transforms of a loader.

use std::fmt;

use serde::Serialize;

use crate::error::{Error, ErrorKind, Result};
use crate::read::{Rolling, Value};
use crate::schema::Extents;

use super::serve::{Served, ServedRow};

/// The latest window of one series: its last `length` records, decoded, in memory of its own. [`Served::window`] makes
/// it.
///
/// Push one record after another, in any of the forms that a [`Served`] accepts for a single record. Once there are
/// `length` records, each further record replaces the oldest one. [`latest`](Self::latest) gives the tensors that the
/// loader gives for the features of such a window, of shape `[length, ..]`. A record is decoded once, regardless of the
/// length. Transforms are for a window as a whole, so `latest` applies them, once for each window that you ask for. The
/// `stride` of the windows has no effect: there is a window after each record.
///
/// If a push returns an error, the window stays as it was. Push the corrected record, or [`clear`](Self::clear) the
/// window, because the next record would not follow the last one in it.
pub struct ServedWindow {
    rolling: Rolling,
    /// The tensors of the latest window that the caller asked for.
    row: ServedRow,
    is_made: bool,
}

impl fmt::Debug for ServedWindow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServedWindow").field("row", &self.row).field("len", &self.len()).finish_non_exhaustive()
    }
}

impl Served {
    /// An empty window for the records of one series. Each series needs its own; any number of threads may fill theirs
    /// at once.
    ///
    /// ```
    /// use ringfeed::Loader;
    /// use ringfeed::field::Numbers;
    /// use ringfeed::read::Windows;
    /// use ringfeed::tensor::Role;
    ///
    /// let served = Loader::csv("sensors.csv")
    ///     .field("before", Numbers::f32().from(["temperature", "pressure"]))
    ///     .field("after", Numbers::f32().from("temperature").role(Role::Label))
    ///     .windows(Windows::new(3, 1).series("sensor"))
    ///     .serve()?;
    /// let mut window = served.window()?; // one for each series
    /// for line in ["20.5,1013", "20.7,1012", "20.6,1012", "20.4,1011"] {
    ///     if window.push_csv("temperature,pressure", line)? {
    ///         let before = window.latest()?.f32("before")?; // of the last three records: [3, 2]
    ///         assert_eq!(before.len(), 6);
    ///     }
    /// }
    /// # Ok::<(), ringfeed::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Config`] if samples are single records, [`ErrorKind::Limit`] if there is no memory for a window.
    pub fn window(&self) -> Result<ServedWindow> {
        let Some(windows) = &self.0.windows else {
            let message = "windows: samples are single records; set `windows`, or apply records to a `row`";
            return Err(Error::new(ErrorKind::Config, message));
        };
        let rolling = Rolling::new(self.0.fields.tensors(), windows)?;
        Ok(ServedWindow { rolling, row: self.row(), is_made: false })
    }
}

impl ServedWindow {
    /// Adds a record that is a JSON object, as for [`Served::apply_json`]. Returns whether the window is full.
    ///
    /// # Errors
    ///
    /// As [`Served::apply_json`]. The window is then as it was.
    pub fn push_json(&mut self, text: &str) -> Result<bool> {
        let Self { rolling, row: ServedRow { served, scratch, json, .. }, is_made } = self;
        let (fields, found) = (&served.0.fields, &served.0.json);
        pushed(is_made, rolling.push(|row| fields.decode(|visit| found.read(text, json, visit), scratch, row)))
    }

    /// Adds a record that is a line of CSV, as for [`Served::apply_csv`]. Returns whether the window is full.
    ///
    /// # Errors
    ///
    /// As [`Served::apply_csv`]. The window is then as it was.
    pub fn push_csv(&mut self, header: &str, line: &str) -> Result<bool> {
        let Self { rolling, row: ServedRow { served, scratch, csv, .. }, is_made } = self;
        let fields = &served.0.fields;
        let pushed_row =
            rolling.push(|row| fields.decode(|visit| csv.read_given(header, fields, line, visit), scratch, row));
        pushed(is_made, pushed_row)
    }

    /// Adds a record given by its values, as for [`Served::apply`]. Returns whether the window is full.
    ///
    /// # Errors
    ///
    /// As [`Served::apply`]. The window is then as it was.
    pub fn push<'v>(&mut self, values: impl IntoIterator<Item = (&'v str, Value<'v>)>) -> Result<bool> {
        let Self { rolling, row: ServedRow { served, scratch, .. }, is_made } = self;
        let fields = &served.0.fields;
        pushed(is_made, rolling.push(|row| fields.decode(|visit| fields.each(values, visit), scratch, row)))
    }

    /// Adds a record that is a struct or a map, as for [`Served::apply_struct`]. Returns whether the window is full.
    ///
    /// # Errors
    ///
    /// As [`Served::apply_struct`]. The window is then as it was.
    pub fn push_struct(&mut self, record: &impl Serialize) -> Result<bool> {
        let mut written = std::mem::take(&mut self.row.structs);
        let is_full = written.write(record).and_then(|text| self.push_json(text));
        self.row.structs = written;
        is_full
    }

    /// The tensors of the latest window, with the oldest record first, after all transforms.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Data`] for a window that is not full; those of the transforms. The records stay in the window.
    ///
    /// # Panics
    ///
    /// If a closure among the transforms panics.
    pub fn latest(&mut self) -> Result<&ServedRow> {
        let Self { rolling, row, is_made } = self;
        if !*is_made {
            row.fill(Extents::default(), |inputs, _| {
                (0..rolling.tensors().len()).try_for_each(|at| rolling.write(at, &mut inputs.tensor(at)))
            })?;
            *is_made = true;
        }
        Ok(row)
    }

    /// Removes all records, so that another series can begin.
    pub fn clear(&mut self) {
        self.is_made = false;
        self.rolling.clear();
    }

    /// Number of records in the window, at most its length.
    pub fn len(&self) -> usize {
        self.rolling.len()
    }

    /// Whether there are no records.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether the window has all its records.
    pub fn is_full(&self) -> bool {
        self.rolling.is_full()
    }
}

/// Notes that the latest window has changed, if a record was pushed.
fn pushed(is_made: &mut bool, pushed: Result<bool>) -> Result<bool> {
    *is_made &= pushed.is_err();
    pushed
}
