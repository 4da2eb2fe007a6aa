use super::Normaliser;
use super::observed::{Observed, ObservedMask, check_raw};
use crate::dtype::NumberSlice;
use crate::error::{Error, ErrorKind, Result};
use crate::tree::no_faults;
use crate::view::TensorView;

/// Finds a normaliser's parameters from batches, one after another.
///
/// Means and squared deviations are merged batch by batch (Chan, Golub and LeVeque, "Updating formulae and a pairwise
/// algorithm for computing sample variances", 1979). They are kept with twice the digits of f64, so that they stay
/// exact over any number of rows. If all values are equal, the mean is that value and the deviation 0. Rounding does
/// not show even if the mean is 10^12 times the deviation. NaN is a missing value and does not count; infinity is an
/// error. Several threads or processes can each observe a part; [`merge`](Self::merge) combines them.
///
/// ```
/// use ringfeed::normalise::NormaliserFit;
/// use ringfeed::tensor::NumberSlice;
///
/// let mut fit = NormaliserFit::standardise(Some(0));
/// fit.observe_numbers(NumberSlice::F32(&[1.0, 10.0, 3.0, 30.0]), &[2, 2], None)?;
/// let normaliser = fit.finish()?; // means 2 and 20
/// # Ok::<(), ringfeed::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct NormaliserFit {
    goal: Goal,
    axis: Option<usize>,
    moments: Vec<Moments>,
    batch: Vec<Moments>,
    missing: u64,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Goal {
    Standardise,
    MinMax((f64, f64)),
}

/// A number with twice the digits of f64: `low` holds the part of a sum that `high` can't hold (Dekker: "A
/// floating-point technique for extending the available precision", 1971).
#[derive(Clone, Copy, Debug, Default)]
struct Double {
    high: f64,
    low: f64,
}

impl Double {
    /// `a + b`, exactly.
    fn sum(a: f64, b: f64) -> Self {
        let high = a + b;
        let of_b = high - a;
        Self { high, low: (a - (high - of_b)) + (b - of_b) }
    }

    fn add(&mut self, x: f64) {
        let sum = Self::sum(self.high, x);
        *self = Self::sum(sum.high, sum.low + self.low);
    }

    fn divided_by(self, n: f64) -> Self {
        let quotient = self.high / n;
        Self::sum(quotient, ((-quotient).mul_add(n, self.high) + self.low) / n)
    }

    /// How much larger `x` is.
    fn below(self, x: f64) -> f64 {
        (x - self.high) - self.low
    }
}

/// What is known about the values of one index.
#[derive(Clone, Copy, Debug)]
struct Moments {
    count: u64,
    /// The mean; while a batch is added up, its sum.
    mean: Double,
    /// Sum of squared differences from the mean.
    squares: Double,
    low: f64,
    high: f64,
}

impl Moments {
    const NONE: Self = Self {
        count: 0,
        mean: Double { high: 0.0, low: 0.0 },
        squares: Double { high: 0.0, low: 0.0 },
        low: f64::INFINITY,
        high: f64::NEG_INFINITY,
    };

    fn merge(&mut self, other: &Self) {
        if self.count == 0 || other.count == 0 {
            if self.count == 0 {
                *self = *other;
            }
            return;
        }
        let (n, m) = (self.count as f64, other.count as f64);
        let difference = self.mean.below(other.mean.high) + other.mean.low;
        self.mean.add(difference * (m / (n + m)));
        self.squares.add(other.squares.high);
        self.squares.add(other.squares.low);
        self.squares.add(difference * difference * (n * m / (n + m)));
        self.count += other.count;
        self.low = self.low.min(other.low);
        self.high = self.high.max(other.high);
    }
}

impl NormaliserFit {
    /// Fits a normaliser to mean 0 and deviation 1; `axis` as in [`Normaliser`].
    pub fn standardise(axis: Option<usize>) -> Self {
        Self::new(Goal::Standardise, axis)
    }

    /// Fits a normaliser to `range`; `axis` as in [`Normaliser`].
    pub fn min_max(axis: Option<usize>, range: (f64, f64)) -> Self {
        Self::new(Goal::MinMax(range), axis)
    }

    fn new(goal: Goal, axis: Option<usize>) -> Self {
        Self { goal, axis, moments: Vec::new(), batch: Vec::new(), missing: 0 }
    }

    /// Counts all values of a batch.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Schema`] if the tensor is normalised already, has no such axis, or its axis has another length than
    /// before; [`ErrorKind::Data`] for an infinite value. Earlier counts are kept unchanged.
    pub fn observe(&mut self, view: &TensorView<'_>) -> Result<()> {
        check_raw(view)?;
        self.observe_numbers(view.numbers(), view.shape(), None).map_err(|error| error.at_column(view.name()))
    }

    /// Counts the values of a batch where `mask` is not 0: padding is left out.
    ///
    /// The mask has the tensor's first dimensions (`[samples, steps]` over `[samples, steps, features]`), or all but
    /// the channels (`[samples, height, width]` over `[samples, channels, height, width]`).
    ///
    /// # Errors
    ///
    /// As [`NormaliserFit::observe`], and [`ErrorKind::Schema`] for a mask that does not fit.
    pub fn observe_masked(&mut self, view: &TensorView<'_>, mask: &TensorView<'_>) -> Result<()> {
        check_raw(view)?;
        let mask = Some(ObservedMask::of(mask, view));
        self.count(view.numbers(), view.shape(), mask).map_err(|error| error.at_column(view.name()))
    }

    /// Counts `values` of `shape` (the dimension of samples first), and optionally a mask with its shape.
    ///
    /// # Errors
    ///
    /// As [`NormaliserFit::observe_masked`].
    pub fn observe_numbers(
        &mut self,
        values: NumberSlice<'_>,
        shape: &[usize],
        mask: Option<(NumberSlice<'_>, &[usize])>,
    ) -> Result<()> {
        self.count(values, shape, mask.map(|(values, shape)| ObservedMask { values, shape, axis: None }))
    }

    fn count(&mut self, values: NumberSlice<'_>, shape: &[usize], mask: Option<ObservedMask<'_, '_>>) -> Result<()> {
        let Some(observed) = Observed::new(values, shape, self.axis, mask)? else { return Ok(()) };
        let entries = observed.entries();
        observed.check_entries(self.moments.len())?;
        self.batch.clear();
        self.batch.resize(entries, Moments::NONE);
        let mut missing = 0;
        observed.for_each(|index, value| {
            if value.is_nan() {
                missing += 1;
                return;
            }
            let moments = &mut self.batch[index];
            moments.count += 1;
            moments.mean.add(value);
            moments.low = moments.low.min(value);
            moments.high = moments.high.max(value);
        })?;
        self.batch
            .iter_mut()
            .filter(|moments| moments.count > 0)
            .for_each(|moments| moments.mean = moments.mean.divided_by(moments.count as f64));
        observed.for_each(|index, value| {
            if !value.is_nan() {
                let moments = &mut self.batch[index];
                moments.squares.add(moments.mean.below(value).powi(2));
            }
        })?;
        self.moments.resize(entries, Moments::NONE);
        self.moments.iter_mut().zip(&self.batch).for_each(|(moments, batch)| moments.merge(batch));
        self.missing += missing;
        Ok(())
    }

    /// Adds the counts of `other`, as if its values had been observed here.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Config`] if the two fit different normalisers, [`ErrorKind::Schema`] if their axes differ in
    /// length.
    pub fn merge(&mut self, other: &Self) -> Result<()> {
        if (self.goal, self.axis) != (other.goal, other.axis) {
            return Err(Error::new(
                ErrorKind::Config,
                "these fits can't be merged: they are of different normalisers, or along different axes",
            ));
        }
        if self.moments.is_empty() {
            self.moments = other.moments.clone();
        } else if !other.moments.is_empty() {
            let (entries, others) = (self.moments.len(), other.moments.len());
            if entries != others {
                let message = format!("the axis has {entries} indices in one fit, {others} in the other");
                return Err(Error::new(ErrorKind::Schema, message));
            }
            self.moments.iter_mut().zip(&other.moments).for_each(|(moments, other)| moments.merge(other));
        }
        self.missing += other.missing;
        Ok(())
    }

    /// Number of values that were NaN and did not count.
    pub fn missing(&self) -> u64 {
        self.missing
    }

    /// The normaliser for everything that was counted.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Data`] if an index has no values at all; [`ErrorKind::Config`] for an empty range.
    pub fn finish(&self) -> Result<Normaliser> {
        if self.moments.is_empty() {
            return Err(Error::new(ErrorKind::Data, "there are no values to fit a normaliser to"));
        }
        if let Some(index) = self.moments.iter().position(|moments| moments.count == 0) {
            let message = format!("index {index} of the axis has no values to fit a normaliser to: all are missing");
            return Err(Error::new(ErrorKind::Data, message));
        }
        let of = |value: fn(&Moments) -> f64| self.moments.iter().map(value).collect::<Vec<f64>>();
        let normaliser = match self.goal {
            Goal::Standardise => Normaliser::Standardise {
                axis: self.axis,
                mean: of(|moments| moments.mean.high),
                deviation: of(|moments| (moments.squares.high / moments.count as f64).sqrt()),
            },
            Goal::MinMax(range) => Normaliser::MinMax {
                axis: self.axis,
                low: of(|moments| moments.low),
                high: of(|moments| moments.high),
                range,
            },
        };
        no_faults(normaliser.faults())?;
        Ok(normaliser)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dtype::DType;
    use crate::layout::Layout;
    use crate::schema::{Dim, Extents, Role, Schema, TensorSpec};

    #[test]
    fn a_batch_is_observed_through_its_views_and_their_mask() {
        let steps = TensorSpec::with_dims("x", Role::Feature, DType::F32, vec![Dim::Extent(0), Dim::Fixed(2)]);
        let mask = TensorSpec::with_dims("x_mask", Role::Mask, DType::U8, vec![Dim::Extent(0)]);
        let schema = Schema::new(vec![steps, mask]).unwrap();
        let mut layout = Layout::default();
        layout.compute(&schema, 2, Extents::of_length(2)).unwrap();
        let mut slot = vec![0u64; layout.bytes().div_ceil(8)];
        let bytes: &mut [u8] = bytemuck::cast_slice_mut(&mut slot);
        let values: [f32; 8] = [1.0, 10.0, 3.0, 30.0, 5.0, 50.0, 0.0, 0.0];
        bytes[..32].copy_from_slice(bytemuck::cast_slice(&values));
        bytes[256..260].copy_from_slice(&[1, 1, 1, 0]);
        let view = |index: usize| TensorView::new(&schema.tensors()[index], &layout, index, bytes);

        let mut fit = NormaliserFit::min_max(Some(1), (0.0, 1.0));
        fit.observe_masked(&view(0), &view(1)).unwrap();
        let Normaliser::MinMax { low, .. } = fit.finish().unwrap() else { panic!() };
        assert_eq!(low, [1.0, 10.0]);
        fit.observe(&view(0)).unwrap();
        let Normaliser::MinMax { low, high, .. } = fit.finish().unwrap() else { panic!() };
        assert_eq!((low, high), (vec![0.0, 0.0], vec![5.0, 50.0]));

        let mut done = schema.tensors()[0].clone();
        done.affine = Some(std::sync::Arc::new(Normaliser::image_scale().affine(&done).unwrap()));
        let normalised = TensorView::new(&done, &layout, 0, bytes);
        let error = fit.observe(&normalised).unwrap_err();
        assert!(error.to_string().contains("normalised already"), "{error}");
    }
}
