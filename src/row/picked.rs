use std::marker::PhantomData;
use std::sync::Arc;

use crate::layout::TensorLayout;
use crate::schema::TensorSpec;

use super::RowsMut;

/// Some of a sample's tensors, in any order.
pub(crate) struct Picked {
    /// The position of each among the sample's tensors; no two are the same.
    places: Vec<usize>,
}

/// What is kept from one call of [`RowsMut::picked`] to the next.
#[derive(Default)]
pub(crate) struct PickedRoom {
    specs: Vec<TensorSpec>,
    layouts: Vec<TensorLayout>,
}

impl Picked {
    /// The tensors at `places`.
    ///
    /// # Panics
    ///
    /// If two places are the same.
    pub(crate) fn new(places: &[usize]) -> Self {
        assert!((1..places.len()).all(|nth| !places[..nth].contains(&places[nth])), "two tensors in one place");
        Self { places: places.to_vec() }
    }
}

/// Whether a tensor is the same one, and changed in the same way while it is decoded; without comparing lists of names.
fn is_same(one: &TensorSpec, other: &TensorSpec) -> bool {
    fn is_shared<T: ?Sized>(one: &Option<Arc<T>>, other: &Option<Arc<T>>) -> bool {
        match (one, other) {
            (Some(one), Some(other)) => Arc::ptr_eq(one, other),
            (one, other) => one.is_none() && other.is_none(),
        }
    }
    is_shared(&one.affine, &other.affine)
        && is_shared(&one.classes, &other.classes)
        && is_shared(&one.categories, &other.categories)
        && (one.name == other.name && one.role == other.role && one.dtype == other.dtype)
        && (one.shape == other.shape && one.rows == other.rows && one.masked == other.masked)
}

impl RowsMut<'_> {
    /// The part of these rows with the tensors `picked`, as transforms have declared them. `room` is reused from call to
    /// call.
    ///
    /// # Panics
    ///
    /// If a place does not exist, or if these rows were picked from others.
    pub(crate) fn picked<'b>(&'b mut self, picked: &'b Picked, room: &'b mut PickedRoom) -> RowsMut<'b> {
        let PickedRoom { specs, layouts } = room;
        let wanted = || picked.places.iter().map(|place| &self.specs[*place]);
        if specs.len() != picked.places.len() || !specs.iter().zip(wanted()).all(|(own, spec)| is_same(own, spec)) {
            specs.clear();
            specs.extend(wanted().cloned());
        }
        layouts.clear();
        layouts.extend(picked.places.iter().map(|place| self.tensors[*place]));
        let is_own = |(spec, layout): (&TensorSpec, &TensorLayout)| spec.dtype == layout.dtype;
        assert!(specs.iter().zip(&*layouts).all(is_own), "tensors are picked from the schema that rows have");
        RowsMut {
            base: self.base,
            specs,
            tensors: layouts,
            runs: self.runs,
            rows: self.rows.clone(),
            chosen: self.chosen,
            extents: self.extents,
            memory: PhantomData,
        }
    }
}
