use std::fmt;

use crate::dtype::Element;
use crate::error::{Error, ErrorKind, Result, nearest};
use crate::random::RandomKey;
use crate::row::{RowView, TensorMut, Written};
use crate::schema::TensorSpec;
use crate::view::TensorView;

/// The tensors of one sample that a transform reads, by name.
pub struct Row<'a> {
    pub(super) view: RowView<'a>,
    pub(super) all: &'a [TensorSpec],
    pub(super) readable: &'a [usize],
    pub(super) id: u64,
    /// The sample's key. Every operation draws under its own key below it.
    pub(super) sample_key: RandomKey,
    pub(super) key: RandomKey,
}

impl fmt::Debug for Row<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Row").field("id", &self.id).finish_non_exhaustive()
    }
}

impl Row<'_> {
    /// Index of the record in its source.
    pub fn id(&self) -> u64 {
        self.id
    }

    /// The key for this transform's random numbers: a function of seed, epoch, sample and position in the list. If an
    /// epoch draws a sample several times, each draw has another key.
    pub fn key(&self) -> RandomKey {
        self.key
    }

    pub(super) fn sample_key(&self) -> RandomKey {
        self.sample_key
    }

    /// The tensor of this name, with the shape of one sample.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::NotFound`] with the nearest name, for a tensor that does not exist or was not declared as read.
    pub fn tensor(&self, name: &str) -> Result<TensorView<'_>> {
        // If several have the same name, the last one is the newest.
        let index = self.readable.iter().rev().find(|index| self.all[**index].name == name);
        index.and_then(|index| self.view.tensor(*index)).ok_or_else(|| self.missing(name))
    }

    /// The tensors that were declared as read, each with the shape of one sample.
    pub fn tensors(&self) -> impl Iterator<Item = TensorView<'_>> {
        self.readable.iter().filter_map(|index| self.view.tensor(*index))
    }

    #[cold]
    fn missing(&self, name: &str) -> Error {
        let names: Vec<&str> = self.readable.iter().map(|index| self.all[*index].name.as_str()).collect();
        let hint = nearest(name, names.iter().copied()).map(|near| format!("; did you mean {near:?}?"));
        let message = format!("no tensor {name:?} to be read among {names:?}{}", hint.unwrap_or_default());
        Error::new(ErrorKind::NotFound, message)
    }

    /// The elements of the tensor of this name, row-major, padding included.
    ///
    /// # Errors
    ///
    /// As [`tensor`](Self::tensor), and [`ErrorKind::Schema`] if it holds another element type.
    pub fn get<T: Element>(&self, name: &str) -> Result<&[T]> {
        self.tensor(name)?.as_slice()
    }

    /// The elements of a tensor of type `u8`.
    ///
    /// # Errors
    ///
    /// As [`get`](Self::get).
    pub fn u8(&self, name: &str) -> Result<&[u8]> {
        self.get(name)
    }

    /// The elements of a tensor of type `i64`.
    ///
    /// # Errors
    ///
    /// As [`get`](Self::get).
    pub fn i64(&self, name: &str) -> Result<&[i64]> {
        self.get(name)
    }

    /// The elements of a tensor of type `f32`.
    ///
    /// # Errors
    ///
    /// As [`get`](Self::get).
    pub fn f32(&self, name: &str) -> Result<&[f32]> {
        self.get(name)
    }

    /// The elements of a tensor of type `f64`.
    ///
    /// # Errors
    ///
    /// As [`get`](Self::get).
    pub fn f64(&self, name: &str) -> Result<&[f64]> {
        self.get(name)
    }
}

/// The tensors of one sample that a transform changes or writes, in the order in which it declared them.
pub struct Outputs<'a>(pub(super) Written<'a>);

impl fmt::Debug for Outputs<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Outputs").field("count", &self.len()).finish_non_exhaustive()
    }
}

impl Outputs<'_> {
    /// Number of tensors.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are no tensors.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Tensor `nth`.
    ///
    /// # Panics
    ///
    /// If there are not more than `nth` tensors.
    pub fn tensor(&mut self, nth: usize) -> TensorMut<'_> {
        self.0.tensor(nth)
    }
}
