//! Consecutive records in memory, prepared like the features of a window in training.

use std::fmt;

use serde::Serialize;

use crate::dtype::Element;
use crate::error::{Error, ErrorKind, Result};
use crate::read::{Rolling, Value};
use crate::schema::TensorSpec;
use crate::view::TensorView;

use super::given_record::Given;
use super::prepared::Prepared;

/// The latest window of one series: its last `length` records, prepared, in separate memory. [`Prepared::window`] makes
/// it.
///
/// Push one record after another, in any of the ways in which a [`Prepared`] is applied to a single record. Once there
/// are `length` records, each further record replaces the oldest one. The tensors are those of the features of such a
/// window in training: `features` of shape `[length, features]` and `categories` of shape `[length, columns]`. A record
/// is prepared once, whatever the length; pushing allocates nothing after the first records. The `stride` of the recipe
/// makes no difference: there is a window after each record.
///
/// After an error the window is unchanged: push the record again, corrected, or [`clear`](Self::clear) the window,
/// because the next record would not follow the last one.
pub struct PreparedWindow {
    prepared: Prepared,
    rolling: Rolling,
    given: Given,
}

impl fmt::Debug for PreparedWindow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PreparedWindow")
            .field("tensors", &self.tensors())
            .field("len", &self.len())
            .finish_non_exhaustive()
    }
}

impl Prepared {
    /// An empty window for the records of one series. Each series needs its own window; any number of threads may fill
    /// their windows at the same time.
    ///
    /// ```
    /// use ringfeed::Loader;
    /// use ringfeed::prepare::{Median, Recipe, number};
    /// use ringfeed::read::Windows;
    ///
    /// let recipe = Recipe::new()
    ///     .column("sepal_length", number().impute(Median).standardise())
    ///     .windows(Windows::new(3, 1).series("species").part(0.0, 0.8));
    /// let prepared = recipe.fit(&Loader::open("fixtures/iris-species.csv")?)?;
    ///
    /// let mut window = prepared.window()?; // one for each series
    /// for length in [5.1, 4.9, 4.7, 4.6] {
    ///     if window.push_json(&format!(r#"{{"sepal_length": {length}}}"#))? {
    ///         assert_eq!(window.f32("features")?.len(), 3); // of the last three records: [3, 1]
    ///     }
    /// }
    /// # Ok::<(), ringfeed::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Config`] for a recipe without [windows](super::Recipe::windows), [`ErrorKind::Limit`] if there is
    /// no memory for one.
    pub fn window(&self) -> Result<PreparedWindow> {
        let Some(windows) = self.windows() else {
            let message = "windows: the recipe was fitted without them; it prepares single records";
            return Err(Error::new(ErrorKind::Config, message));
        };
        let rolling = Rolling::new(self.tensors(), windows)?;
        Ok(PreparedWindow { prepared: self.clone(), rolling, given: Given::default() })
    }
}

impl PreparedWindow {
    /// Adds a record that is a JSON object, as for [`Prepared::apply_json`]. Returns whether the window is full.
    ///
    /// # Errors
    ///
    /// As [`Prepared::apply_json`]. The window is then unchanged.
    pub fn push_json(&mut self, text: &str) -> Result<bool> {
        let Self { prepared, rolling, given } = self;
        rolling.push(|row| given.json(prepared, text, row))
    }

    /// Adds a record that is a line of CSV, as for [`Prepared::apply_csv`]. Returns whether the window is full.
    ///
    /// # Errors
    ///
    /// As [`Prepared::apply_csv`]. The window is then unchanged.
    pub fn push_csv(&mut self, header: &str, line: &str) -> Result<bool> {
        let Self { prepared, rolling, given } = self;
        rolling.push(|row| given.csv(prepared, header, line, row))
    }

    /// Adds a record given by values with the names of their columns, as for [`Prepared::apply`]. Returns whether the
    /// window is full.
    ///
    /// # Errors
    ///
    /// As [`Prepared::apply`]. The window is then unchanged.
    pub fn push<'v>(&mut self, values: impl IntoIterator<Item = (&'v str, Value<'v>)>) -> Result<bool> {
        let Self { prepared, rolling, given } = self;
        rolling.push(|row| given.values(prepared, values, row))
    }

    /// Adds a record that is a struct or a map, as for [`Prepared::apply_struct`]. Returns whether the window is full.
    ///
    /// # Errors
    ///
    /// As [`Prepared::apply_struct`]. The window is then unchanged.
    pub fn push_struct(&mut self, record: &impl Serialize) -> Result<bool> {
        let Self { prepared, rolling, given } = self;
        rolling.push(|row| given.structs(prepared, record, row))
    }

    /// Removes all records, before another series begins.
    pub fn clear(&mut self) {
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

    /// Whether there are as many records as a window has.
    pub fn is_full(&self) -> bool {
        self.rolling.is_full()
    }

    /// The tensors of a window, with its length as their first dimension.
    pub fn tensors(&self) -> &[TensorSpec] {
        self.rolling.tensors()
    }

    /// The tensor of this name in the latest window, with the oldest record first: `[length, ..]`, without the batch
    /// dimension.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::NotFound`] with the nearest name, [`ErrorKind::Data`] for a window that is not full.
    pub fn tensor(&self, name: &str) -> Result<TensorView<'_>> {
        self.rolling.named(name)
    }

    /// The elements of a tensor of type `f32`: `features`, unless the recipe sets another type.
    ///
    /// # Errors
    ///
    /// As [`tensor`](Self::tensor), and [`ErrorKind::Schema`] for one of another type.
    pub fn f32(&self, name: &str) -> Result<&[f32]> {
        self.slice(name)
    }

    /// The elements of a tensor of type `i64`: `categories`.
    ///
    /// # Errors
    ///
    /// As [`f32`](Self::f32).
    pub fn i64(&self, name: &str) -> Result<&[i64]> {
        self.slice(name)
    }

    fn slice<T: Element>(&self, name: &str) -> Result<&[T]> {
        self.tensor(name)?.as_slice()
    }
}
