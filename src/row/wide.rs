use crate::error::{Error, ErrorKind, Result};
use crate::layout::TensorLayout;
use crate::schema::{Extents, MAX_EXTENTS, Rows, TensorSpec};

/// The tensors of a sample while it is filled. Some are in the batch. The others are beside it, in memory of the thread
/// that fills it: tensors that the batch's tensors are made from, and tensors that are not delivered.
pub(crate) struct Wide {
    pub(super) specs: Vec<TensorSpec>,
    /// For each tensor, its position in the batch, if it is there; no two are the same.
    places: Vec<Option<usize>>,
}

/// Where the tensors of [`Wide`] rows are, and the memory beside the slot. Kept from job to job.
#[derive(Default)]
pub(crate) struct WideMemory {
    pub(super) tensors: Vec<TensorLayout>,
    pub(super) aside: Vec<u64>,
}

/// Maximum number of bytes beside the slot for one sample, because files may give wrong sizes.
const MAX_ASIDE_BYTES: usize = 1 << 30;

/// Alignment of tensors beside the slot.
const ASIDE_ALIGNMENT: usize = 64;

impl Wide {
    /// # Panics
    ///
    /// If there is not one place for each tensor, or two are the same.
    pub(crate) fn new(specs: Vec<TensorSpec>, places: Vec<Option<usize>>) -> Self {
        assert_eq!(specs.len(), places.len());
        let mut taken: Vec<usize> = places.iter().flatten().copied().collect();
        taken.sort_unstable();
        assert!(taken.windows(2).all(|pair| pair[0] != pair[1]), "two tensors in one place");
        Self { specs, places }
    }

    pub(crate) fn specs(&self) -> &[TensorSpec] {
        &self.specs
    }

    /// Bytes of one sample beside the slot; a length that varies counts as one element.
    pub(crate) fn aside_bytes(&self) -> usize {
        let aside = self.specs.iter().zip(&self.places).filter(|(_, place)| place.is_none());
        let bytes = |spec: &TensorSpec| {
            let elements = spec.row_shape(&Extents([1; MAX_EXTENTS])).elements();
            elements.unwrap_or(usize::MAX).saturating_mul(spec.dtype.bytes())
        };
        aside.fold(0, |sum: usize, (spec, _)| sum.saturating_add(bytes(spec)))
    }
}

impl WideMemory {
    /// Computes the places of all tensors for `rows` samples, and makes room for those beside the slot.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Limit`] if there is no memory for them.
    pub(super) fn lay_out(&mut self, wide: &Wide, slot: &[TensorLayout], extents: Extents, rows: usize) -> Result<()> {
        self.tensors.clear();
        let mut end = 0usize;
        for (spec, place) in wide.specs.iter().zip(&wide.places) {
            if let Some(place) = place {
                assert!(spec.dtype == slot[*place].dtype, "rows are widened for the schema that they have");
                self.tensors.push(slot[*place]);
                continue;
            }
            if spec.rows != Rows::Even {
                let message = "a ragged tensor can't be transformed, or left out after transforms";
                return Err(Error::new(ErrorKind::Unsupported, message).at_column(&spec.name));
            }
            let row_shape = spec.row_shape(&extents);
            let sizes = row_shape.elements().and_then(|elements| {
                let row_bytes = elements.checked_mul(spec.dtype.bytes()).filter(|bytes| *bytes <= MAX_ASIDE_BYTES)?;
                let offset = end.checked_next_multiple_of(ASIDE_ALIGNMENT)?;
                Some((row_bytes, offset, offset.checked_add(row_bytes.checked_mul(rows)?)?))
            });
            let Some((row_bytes, offset, after)) = sizes else {
                let message = format!("a sample of shape {row_shape:?} is too large to be transformed");
                return Err(Error::new(ErrorKind::Limit, message).at_column(&spec.name));
            };
            end = after;
            self.tensors.push(TensorLayout {
                offset,
                row_bytes,
                row_shape,
                dtype: spec.dtype,
                rows: Rows::Even,
                extent: 0,
                is_aside: true,
            });
        }
        let words = end.div_ceil(size_of::<u64>());
        if self.aside.len() < words {
            self.aside.try_reserve_exact(words - self.aside.len()).map_err(|error| {
                let message = format!("no memory for the {end} bytes of {rows} samples that are transformed");
                Error::new(ErrorKind::Limit, message).with_source(error)
            })?;
            self.aside.resize(words, 0);
        }
        Ok(())
    }
}
