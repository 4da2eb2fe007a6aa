use std::fmt;
use std::sync::Arc;

use crate::error::{Error, ErrorKind, Result, nearest};
use crate::schema::{Affine, Dim, MAX_EXTENTS, Masked, Rows, Schema, TensorSpec};

use super::lengths::{Length, Lengths, common_multiple};

/// The tensors of a sample at one point of the list of transforms, with which a transform declares what it does.
pub struct Tensors {
    /// All tensors that exist at any time; those of the source come first.
    pub(super) all: Vec<TensorSpec>,
    /// The tensors that exist now.
    pub(super) current: Vec<usize>,
    /// Tensors whose values no transform has read: their decoding may still change.
    untouched: Vec<bool>,
    /// The lengths that samples have, and how these change.
    extents: [bool; MAX_EXTENTS],
    pub(super) lengths: Lengths,
    pub(super) declared: Declared,
    in_place_only: bool,
}

impl fmt::Debug for Tensors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tensors")
            .field("current", &self.current.iter().map(|index| &self.all[*index].name).collect::<Vec<_>>())
            .finish_non_exhaustive()
    }
}

/// The declarations of one transform.
#[derive(Debug, Default)]
pub(super) struct Declared {
    pub(super) readable: Vec<usize>,
    pub(super) written: Vec<usize>,
}

impl Tensors {
    pub(super) fn of_source(source: &[TensorSpec]) -> Self {
        let mut extents = [false; MAX_EXTENTS];
        for dim in source.iter().flat_map(|spec| &spec.shape) {
            if let Dim::Extent(extent) = dim {
                extents[*extent] = true;
            }
        }
        Self {
            all: source.to_vec(),
            current: (0..source.len()).collect(),
            untouched: vec![true; source.len()],
            extents,
            lengths: Lengths::default(),
            declared: Declared::default(),
            in_place_only: false,
        }
    }

    /// The following transforms work on whole batches, in place.
    pub(super) fn in_place_only(&mut self) {
        self.in_place_only = true;
    }

    /// All tensors at this point, in the order in which a batch would hold them.
    pub fn specs(&self) -> impl ExactSizeIterator<Item = &TensorSpec> + Clone {
        self.current.iter().map(|index| &self.all[*index])
    }

    /// The tensor of this name.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::NotFound`] with the nearest name.
    pub fn get(&self, name: &str) -> Result<&TensorSpec> {
        self.find(name).map(|at| &self.all[self.current[at]])
    }

    fn find(&self, name: &str) -> Result<usize> {
        self.specs().position(|spec| spec.name == name).ok_or_else(|| {
            let names: Vec<&str> = self.specs().map(|spec| spec.name.as_str()).collect();
            let hint = nearest(name, names.iter().copied()).map(|near| format!("; did you mean {near:?}?"));
            let message = format!("transforms: no tensor {name:?} among {names:?}{}", hint.unwrap_or_default());
            Error::new(ErrorKind::NotFound, message)
        })
    }

    /// Declares that the transform reads this tensor.
    ///
    /// # Errors
    ///
    /// As [`get`](Self::get).
    pub fn read(&mut self, name: &str) -> Result<()> {
        let index = self.current[self.find(name)?];
        self.untouched[index] = false;
        if !self.declared.readable.contains(&index) {
            self.declared.readable.push(index);
        }
        Ok(())
    }

    /// Declares that the transform reads all tensors.
    pub fn read_all(&mut self) {
        self.current.iter().for_each(|index| self.untouched[*index] = false);
        self.declared.readable.clone_from(&self.current);
    }

    /// Declares that the transform changes this tensor in place: it is the next one of the [outputs](super::Outputs),
    /// and can't also be read.
    ///
    /// # Errors
    ///
    /// As [`get`](Self::get); [`ErrorKind::Config`] for a tensor that was declared already.
    pub fn change(&mut self, name: &str) -> Result<()> {
        let index = self.current[self.find(name)?];
        if self.declared.written.contains(&index) {
            let message = "transforms: a tensor is declared as changed or written only once";
            return Err(Error::new(ErrorKind::Config, message).at_column(name));
        }
        if self.all[index].rows == Rows::Offsets {
            let message = "transforms: where samples begin can't be changed";
            return Err(Error::new(ErrorKind::Unsupported, message).at_column(name));
        }
        self.untouched[index] = false;
        self.declared.written.push(index);
        Ok(())
    }

    /// Declares a tensor that the transform writes: the next one of the [outputs](super::Outputs). It replaces a tensor
    /// with the same name, which this transform can still read; otherwise it is added after all others.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Schema`] if no sample can have it: too many dimensions, or a varying length that no other tensor
    /// has.
    pub fn write(&mut self, spec: TensorSpec) -> Result<()> {
        self.check_lengths(&spec)?;
        check_even(&spec)?;
        if self.in_place_only {
            let message = "transforms: a transform of whole batches changes tensors in place, and can't add any; write \
                           the tensor in a transform of samples before it";
            return Err(Error::new(ErrorKind::Unsupported, message).at_column(spec.name));
        }
        let index = self.all.len();
        match self.find(&spec.name) {
            Ok(at) => {
                let replaced = self.current[at];
                check_even(&self.all[replaced])?;
                self.untouched[replaced] = false;
                if let Some(written) = self.declared.written.iter().find(|written| **written == replaced) {
                    let message = "transforms: a tensor is declared as changed or written only once";
                    return Err(Error::new(ErrorKind::Config, message).at_column(&self.all[*written].name));
                }
                if !self.declared.readable.contains(&replaced) {
                    self.declared.readable.push(replaced);
                }
                self.current[at] = index;
            }
            Err(_) => self.current.push(index),
        }
        self.all.push(spec);
        self.untouched.push(false);
        self.declared.written.push(index);
        Schema::new(self.specs().cloned().collect()).map(drop)
    }

    /// Declares that this tensor does not exist after this transform.
    ///
    /// # Errors
    ///
    /// As [`get`](Self::get); [`ErrorKind::Unsupported`] in a transform of batches.
    pub fn remove(&mut self, name: &str) -> Result<()> {
        let at = self.find(name)?;
        if self.in_place_only {
            let message = "transforms: a transform of whole batches changes tensors in place, and can't remove any";
            return Err(Error::new(ErrorKind::Unsupported, message).at_column(name));
        }
        check_even(&self.all[self.current[at]])?;
        self.current.remove(at);
        Ok(())
    }

    /// Whether the tensor still has the values of the source, and no transform has read it.
    pub(super) fn is_untouched(&self, name: &str) -> bool {
        self.find(name).is_ok_and(|at| self.untouched[self.current[at]])
    }

    /// Applies `affine` while the tensor is decoded; `false` if that is too late.
    pub(super) fn decode_by(&mut self, name: &str, affine: &Affine) -> Result<bool> {
        let index = self.current[self.find(name)?];
        let in_time = self.untouched[index] && self.all[index].affine.is_none();
        if in_time {
            self.all[index].affine = Some(Arc::new(affine.clone()));
        }
        Ok(in_time)
    }

    /// Sets how the lengths of a tensor change, in all tensors that have them.
    pub(super) fn set_length(&mut self, name: &str, length: Length) -> Result<()> {
        check_even(self.get(name)?)?;
        let varying = |dim: &Dim| if let Dim::Extent(extent) = dim { Some(*extent) } else { None };
        let mut extents: Vec<usize> = self.get(name)?.shape.iter().filter_map(varying).collect();
        extents.sort_unstable();
        extents.dedup();
        let fault = |message: String| Err(Error::new(ErrorKind::Schema, message).at_column(name));
        match (extents.len(), length) {
            (0, _) => return fault("has the same length in every sample; there is nothing to pad".to_owned()),
            (2.., Length::Exactly(exactly)) => {
                let message = format!(
                    "has {} lengths that vary, and can't be padded to one of {exactly}; pad all of them to a `multiple`, \
                     or name a tensor that has one of them",
                    extents.len(),
                );
                return fault(message);
            }
            _ => {}
        }
        for extent in extents {
            let length = match (self.lengths.0[extent], length) {
                (Length::MultipleOf(one), Length::MultipleOf(other)) => match common_multiple(one, other) {
                    Some(both) => Length::MultipleOf(both),
                    None => {
                        return fault(format!(
                            "is already padded to a multiple of {one}; one of {other} as well is too large"
                        ));
                    }
                },
                (Length::MultipleOf(of), Length::Exactly(exactly)) if exactly % of != 0 => {
                    return fault(format!(
                        "is already padded to a multiple of {of}, but {exactly} is not a multiple of {of}; leave out one of the two"
                    ));
                }
                (_, length) => length,
            };
            self.lengths.0[extent] = length;
            if let Length::Exactly(exactly) = length {
                self.fix(extent, exactly as usize);
            }
        }
        Ok(())
    }

    /// A length is the same in all samples from now on.
    fn fix(&mut self, extent: usize, length: usize) {
        self.extents[extent] = false;
        // Afterwards, no length that varies shows which tensors a mask belongs to.
        let masked: Vec<Option<Masked>> =
            self.all.iter().map(|spec| spec.mask(self.all.iter()).map(Masked::from)).collect();
        for (spec, masked) in self.all.iter_mut().zip(masked) {
            spec.masked = masked.unwrap_or_else(|| spec.masked.clone());
        }
        for dim in self.all.iter_mut().flat_map(|spec| &mut spec.shape) {
            if *dim == Dim::Extent(extent) {
                *dim = Dim::Fixed(length);
            }
        }
    }

    fn check_lengths(&self, spec: &TensorSpec) -> Result<()> {
        let is_known = |dim: &Dim| match dim {
            Dim::Fixed(_) => true,
            Dim::Extent(extent) => self.extents.get(*extent) == Some(&true),
        };
        if spec.shape.iter().all(is_known) {
            return Ok(());
        }
        let message = "transforms: no tensor of the source has its length";
        Err(Error::new(ErrorKind::Schema, message).at_column(&spec.name))
    }
}

/// Refuses ragged tensors: they are decoded directly into the slot, and can't be replaced.
fn check_even(spec: &TensorSpec) -> Result<()> {
    if spec.rows == Rows::Even {
        return Ok(());
    }
    let message =
        "transforms: a ragged tensor may only be read, or changed in place; leave `ragged` out, so that it is padded";
    Err(Error::new(ErrorKind::Unsupported, message).at_column(&spec.name))
}
