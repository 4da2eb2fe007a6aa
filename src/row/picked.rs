use std::marker::PhantomData;

use crate::layout::TensorLayout;
use crate::schema::TensorSpec;

use super::RowsMut;

/// Some of a sample's tensors, in any order.
pub(crate) struct Picked {
    specs: Vec<TensorSpec>,
    /// The position of each among the sample's tensors; no two are the same.
    places: Vec<usize>,
}

impl Picked {
    /// The tensors of `all` at `places`.
    ///
    /// # Panics
    ///
    /// If two places are the same, or a place does not exist.
    pub(crate) fn new(all: &[TensorSpec], places: &[usize]) -> Self {
        assert!((1..places.len()).all(|nth| !places[..nth].contains(&places[nth])), "two tensors in one place");
        Self { specs: places.iter().map(|place| all[*place].clone()).collect(), places: places.to_vec() }
    }
}

impl RowsMut<'_> {
    /// The part of these rows with the tensors `picked`. `room` is reused from call to call.
    ///
    /// # Panics
    ///
    /// If these rows were picked from others.
    pub(crate) fn picked<'b>(&'b mut self, picked: &'b Picked, room: &'b mut Vec<TensorLayout>) -> RowsMut<'b> {
        room.clear();
        room.extend(picked.places.iter().map(|place| self.tensors[*place]));
        let is_own = |(spec, layout): (&TensorSpec, &TensorLayout)| spec.dtype == layout.dtype;
        assert!(picked.specs.iter().zip(&*room).all(is_own), "tensors are picked from the schema that rows have");
        RowsMut {
            base: self.base,
            specs: &picked.specs,
            tensors: room,
            runs: self.runs,
            rows: self.rows.clone(),
            chosen: self.chosen,
            extents: self.extents,
            memory: PhantomData,
        }
    }
}
