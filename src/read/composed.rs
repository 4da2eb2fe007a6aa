//! The tensors of several readers as those of one sample.

use crate::error::{Error, ErrorKind, Result};
use crate::schema::{Dim, MAX_EXTENTS, TensorSpec};

/// The tensors of a sample that several readers make together.
pub(crate) struct Composed {
    /// In the order of the sample, with lengths counted from 0 for the whole sample.
    pub(crate) tensors: Vec<TensorSpec>,
    /// What each reader has of them.
    pub(crate) parts: Vec<PartOfSample>,
}

/// What one reader has of a sample.
pub(crate) struct PartOfSample {
    /// The position of each of its tensors.
    pub(crate) places: Vec<usize>,
    pub(crate) first_extent: usize,
    pub(crate) extents: usize,
}

impl Composed {
    /// With `one_length`, all lengths that vary are the same one. Tensors in the order of these names, whichever reader gives them. A tensor without a name here follows the one
    /// before it in its reader (as a mask does), or all tensors of the earlier readers.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Schema`] for more varying lengths than a sample can have.
    pub(crate) fn new<'a>(
        readers: impl Iterator<Item = &'a [TensorSpec]>,
        names: &[String],
        one_length: bool,
    ) -> Result<Self> {
        let (mut keyed, mut parts): (Vec<(usize, TensorSpec)>, Vec<PartOfSample>) = (Vec::new(), Vec::new());
        let (mut first_extent, mut behind_all) = (0, 0);
        for tensors in readers {
            let (mut behind, mut extents) = (behind_all, 0);
            for spec in tensors {
                behind = names.iter().position(|name| *name == spec.name).unwrap_or(behind);
                behind_all = behind_all.max(behind);
                let mut spec = spec.clone();
                for dim in &mut spec.shape {
                    if let Dim::Extent(index) = dim {
                        extents = extents.max(*index + 1);
                        *index += if one_length { 0 } else { first_extent };
                    }
                }
                keyed.push((behind, spec));
            }
            if one_length && first_extent > 0 {
                // An earlier reader measures it.
                extents = 0;
            }
            if first_extent + extents > MAX_EXTENTS {
                let message = format!("the readers have more than {MAX_EXTENTS} varying lengths together");
                return Err(Error::new(ErrorKind::Schema, message));
            }
            parts.push(PartOfSample { places: vec![0; tensors.len()], first_extent, extents });
            first_extent += extents;
        }
        let mut order: Vec<usize> = (0..keyed.len()).collect();
        order.sort_by_key(|index| keyed[*index].0);
        let mut places = vec![0; keyed.len()];
        order.iter().enumerate().for_each(|(place, index)| places[*index] = place);
        parts.iter_mut().flat_map(|part| &mut part.places).zip(&places).for_each(|(own, place)| *own = *place);
        let mut arranged: Vec<_> = places.into_iter().zip(keyed).collect();
        arranged.sort_unstable_by_key(|(place, _)| *place);
        Ok(Self { tensors: arranged.into_iter().map(|(_, (_, spec))| spec).collect(), parts })
    }
}
