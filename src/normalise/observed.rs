use crate::dtype::Numbers;
use crate::error::{Error, ErrorKind, Result};
use crate::view::TensorView;

/// The values of a batch that a fit counts, each with its index along an axis, without those that a mask marks as
/// padding.
pub(super) struct Observed<'a> {
    values: Numbers<'a>,
    shape: &'a [usize],
    entries: usize,
    run: usize,
    mask: Option<(Numbers<'a>, MaskFit)>,
}

impl<'a> Observed<'a> {
    /// `None` without values.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Schema`] if shape, axis, values and mask do not fit.
    pub(super) fn new(
        values: Numbers<'a>,
        shape: &'a [usize],
        axis: Option<usize>,
        mask: Option<(Numbers<'a>, &[usize])>,
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
            Some((mask, mask_shape)) => match MaskFit::new(shape, mask_shape) {
                Some(fit) if elements(mask_shape) == Some(mask.len()) => Some((mask, fit)),
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

/// How a mask's elements correspond to a tensor's.
#[derive(Clone, Copy)]
enum MaskFit {
    /// The mask has the tensor's first dimensions; each of its elements stands for this many.
    Leading(usize),
    /// The mask has all dimensions except the channels, which come first: elements per sample, and per channel of a
    /// sample.
    WithoutChannels(usize, usize),
}

impl MaskFit {
    fn new(shape: &[usize], mask: &[usize]) -> Option<Self> {
        let leading = shape.starts_with(mask).then(|| Self::Leading(shape[mask.len()..].iter().product()));
        let without_channels = match (shape, mask) {
            ([n, _, plane @ ..], [m, mask_plane @ ..]) if n == m && plane == mask_plane && plane.len() > 1 => {
                let plane: usize = plane.iter().product();
                Some(Self::WithoutChannels(shape[1] * plane, plane))
            }
            _ => None,
        };
        without_channels.or(leading)
    }

    fn index(self, element: usize) -> usize {
        match self {
            Self::Leading(under) => element / under,
            Self::WithoutChannels(sample, plane) => element / sample * plane + element % plane,
        }
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
