use crate::dtype::NumberSlice;
use crate::error::{Error, ErrorKind, Result};
use crate::view::TensorView;

/// The values of a batch that a fit counts, each with its index along an axis, without those that a mask marks as
/// padding.
pub(super) struct Observed<'a> {
    values: NumberSlice<'a>,
    shape: &'a [usize],
    entries: usize,
    run: usize,
    mask: Option<(NumberSlice<'a>, MaskFit)>,
}

/// A mask as it is observed with the values of a tensor.
#[derive(Clone, Copy)]
pub(super) struct ObservedMask<'a, 's> {
    pub(super) values: NumberSlice<'a>,
    /// With the dimension of samples first.
    pub(super) shape: &'s [usize],
    /// The dimension of a sample that corresponds to the mask's first one, if it is known.
    pub(super) axis: Option<usize>,
}

impl<'a, 's> ObservedMask<'a, 's> {
    pub(super) fn of(mask: &'s TensorView<'a>, view: &TensorView<'_>) -> Self {
        let found = view.spec().mask([mask.spec()].into_iter());
        Self { values: mask.numbers(), shape: mask.shape(), axis: found.map(|found| found.axis) }
    }
}

impl<'a> Observed<'a> {
    /// `None` without values.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Schema`] if shape, axis, values and mask do not fit.
    pub(super) fn new(
        values: NumberSlice<'a>,
        shape: &'a [usize],
        axis: Option<usize>,
        mask: Option<ObservedMask<'a, '_>>,
    ) -> Result<Option<Self>> {
        let schema_error = |message: String| Err(Error::new(ErrorKind::Schema, message));
        if elements(shape) != Some(values.len()) {
            return schema_error(format!("{} values do not have the shape {shape:?}", values.len()));
        }
        if values.is_empty() {
            return Ok(None);
        }
        let (entries, run) = match (axis, shape.split_first()) {
            (None, _) => (1, values.len()),
            (Some(axis), Some((_, row))) if axis < row.len() => (row[axis], row[axis + 1..].iter().product()),
            (Some(axis), _) => {
                return schema_error(format!(
                    "no axis {axis} in a sample of shape {:?}",
                    shape.get(1..).unwrap_or(&[])
                ));
            }
        };
        let mask = match mask {
            None => None,
            Some(ObservedMask { values, shape: mask_shape, axis }) => match MaskFit::new(shape, mask_shape, axis) {
                Some(fit) if elements(mask_shape) == Some(values.len()) => Some((values, fit)),
                _ => return schema_error(format!("a mask of shape {mask_shape:?} does not fit {shape:?}")),
            },
        };
        Ok(Some(Self { values, shape, entries, run, mask }))
    }

    /// Length of the axis; 1 without an axis.
    pub(super) fn entries(&self) -> usize {
        self.entries
    }

    /// # Errors
    ///
    /// [`ErrorKind::Schema`] if the axis had another length before; 0 is none.
    pub(super) fn check_entries(&self, before: usize) -> Result<()> {
        if before == 0 || before == self.entries {
            return Ok(());
        }
        let message = format!("the axis has {} indices here, {before} before", self.entries);
        Err(Error::new(ErrorKind::Schema, message))
    }

    /// Calls `count` with each value (also NaN) and its index.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Data`] for an infinite value.
    pub(super) fn for_each(&self, mut count: impl FnMut(usize, f64)) -> Result<()> {
        for element in 0..self.values.len() {
            if self.mask.is_some_and(|(mask, fit)| mask.at(fit.index(element)) == 0.0) {
                continue;
            }
            let value = self.values.at(element);
            if value.is_infinite() {
                let message = format!("infinite value at element {element} of a batch of shape {:?}", self.shape);
                return Err(Error::new(ErrorKind::Data, message));
            }
            count(element / self.run % self.entries, value);
        }
        Ok(())
    }
}

/// How a mask's elements correspond to a tensor's, in numbers of elements.
#[derive(Clone, Copy)]
struct MaskFit {
    sample: usize,
    mask_of_sample: usize,
    /// Those of the tensor for each one of the mask.
    run: usize,
}

impl MaskFit {
    /// The mask has the dimensions of a sample from `axis` on, or from the first place where it fits. A mask of planes
    /// is that of images, whose channels come first more often than they are as many as there are lines.
    fn new(shape: &[usize], mask: &[usize], axis: Option<usize>) -> Option<Self> {
        let ([samples, row @ ..], [masked, mask @ ..]) = (shape, mask) else { return None };
        let fits = |axis: &usize| samples == masked && row.get(*axis..).is_some_and(|row| row.starts_with(mask));
        let channels_first = usize::from(mask.len() > 1);
        let axis = axis.into_iter().chain([channels_first]).chain(0..=row.len()).find(fits)?;
        let mask_of_sample = mask.iter().product();
        Some(Self { sample: row.iter().product(), mask_of_sample, run: row[axis + mask.len()..].iter().product() })
    }

    fn index(self, element: usize) -> usize {
        let Self { sample, mask_of_sample, run } = self;
        element / sample * mask_of_sample + element % sample / run % mask_of_sample
    }
}

/// # Errors
///
/// [`ErrorKind::Schema`] for a tensor that is normalised already.
pub(super) fn check_raw(view: &TensorView<'_>) -> Result<()> {
    if view.spec().affine.is_some() {
        let message = "the tensor is normalised already; fit on data without a normaliser";
        return Err(Error::new(ErrorKind::Schema, message).at_column(view.name()));
    }
    Ok(())
}

/// Number of elements of a tensor of `shape`; `None` beyond any memory.
pub(super) fn elements(shape: &[usize]) -> Option<usize> {
    shape.iter().try_fold(1usize, |product, len| product.checked_mul(*len))
}
