use super::Normaliser;
use super::observed::{Observed, ObservedMask, check_raw};
use crate::dtype::NumberSlice;
use crate::error::{Error, ErrorKind, Result};
use crate::view::TensorView;

/// Most values that are kept, which take a gigabyte.
const MOST: usize = 1 << 27;

/// Finds quantiles from batches, one after another: for robust scaling, bins of equally many values, and uniform
/// values.
///
/// It keeps every value, and so is exact; more than 2^27 of them (a gigabyte) are an error. NaN is a missing value and
/// does not count; infinity is an error. Several threads or processes can each observe a part; [`merge`](Self::merge)
/// combines them, with the same result as in one.
///
/// ```
/// use ringfeed::Loader;
/// use ringfeed::normalise::QuantileFit;
/// use ringfeed::transform::bins;
///
/// let train = Loader::csv("fixtures/iris-species.csv").labels(["species"]);
/// let mut fit = QuantileFit::new(None);
/// fit.observe_all(&mut train.build()?, "features")?;
/// let quantiles = fit.finish()?;
/// let binned = train.clone().transform(bins("features", quantiles.edges(4)?)); // 0 to 3, equally often
/// let robust = train.normalise("features", quantiles.robust());
/// # Ok::<(), ringfeed::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct QuantileFit {
    axis: Option<usize>,
    values: Vec<Vec<f64>>,
    missing: u64,
}

/// The values of the training data in ascending order, along an axis or all together.
#[derive(Clone, Debug, PartialEq)]
pub struct Quantiles {
    axis: Option<usize>,
    sorted: Vec<Vec<f64>>,
}

impl QuantileFit {
    /// Finds quantiles for each index of `axis` (as in [`Normaliser`]), or of all values together.
    pub fn new(axis: Option<usize>) -> Self {
        Self { axis, values: Vec::new(), missing: 0 }
    }

    /// Counts all values of a batch.
    ///
    /// # Errors
    ///
    /// As [`NormaliserFit::observe`](super::NormaliserFit::observe), and [`ErrorKind::Limit`] for more values than are
    /// kept.
    pub fn observe(&mut self, view: &TensorView<'_>) -> Result<()> {
        check_raw(view)?;
        self.observe_numbers(view.numbers(), view.shape(), None).map_err(|error| error.at_column(view.name()))
    }

    /// Counts the values of a batch where `mask` is not 0, as
    /// [`NormaliserFit::observe_masked`](super::NormaliserFit::observe_masked) does.
    ///
    /// # Errors
    ///
    /// As [`observe`](Self::observe), and [`ErrorKind::Schema`] for a mask that does not fit.
    pub fn observe_masked(&mut self, view: &TensorView<'_>, mask: &TensorView<'_>) -> Result<()> {
        check_raw(view)?;
        let mask = Some(ObservedMask::of(mask, view));
        self.count(view.numbers(), view.shape(), mask).map_err(|error| error.at_column(view.name()))
    }

    /// Counts `values` of `shape` (the dimension of samples first), and optionally a mask with its shape.
    ///
    /// # Errors
    ///
    /// As [`observe_masked`](Self::observe_masked). Earlier counts are kept unchanged.
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
        observed.check_entries(self.values.len())?;
        let kept: usize = self.values.iter().map(Vec::len).sum();
        if kept.saturating_add(values.len()) > MOST {
            let message = format!(
                "more than {MOST} values, all of which would be kept; observe some of the batches, such as every tenth"
            );
            return Err(Error::new(ErrorKind::Limit, message));
        }
        let before: Vec<usize> = self.values.iter().map(Vec::len).collect();
        self.values.resize_with(observed.entries(), Vec::new);
        let mut missing = 0;
        let counted = observed.for_each(|index, value| match value.is_nan() {
            true => missing += 1,
            false => self.values[index].push(value),
        });
        if let Err(error) = counted {
            self.values.truncate(before.len());
            self.values.iter_mut().zip(before).for_each(|(values, len)| values.truncate(len));
            return Err(error);
        }
        self.missing += missing;
        Ok(())
    }

    /// Adds the counts of `other`, as if its values had been observed here.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Config`] for another axis, [`ErrorKind::Schema`] if the axes differ in length, [`ErrorKind::Limit`]
    /// for more values than are kept.
    pub fn merge(&mut self, other: &Self) -> Result<()> {
        if self.axis != other.axis {
            return Err(Error::new(ErrorKind::Config, "these fits can't be merged: they are along different axes"));
        }
        let (entries, others) = (self.values.len(), other.values.len());
        if entries != others && entries != 0 && others != 0 {
            let message = format!("the axis has {entries} indices in one fit, {others} in the other");
            return Err(Error::new(ErrorKind::Schema, message));
        }
        if self.values.iter().chain(&other.values).map(Vec::len).sum::<usize>() > MOST {
            return Err(Error::new(
                ErrorKind::Limit,
                format!("more than {MOST} values together, all of which are kept"),
            ));
        }
        self.values.resize_with(entries.max(others), Vec::new);
        self.values.iter_mut().zip(&other.values).for_each(|(values, others)| values.extend_from_slice(others));
        self.missing += other.missing;
        Ok(())
    }

    /// Number of values that were NaN and did not count.
    pub fn missing(&self) -> u64 {
        self.missing
    }

    /// The quantiles of everything that was counted.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Data`] if an index has no values at all.
    pub fn finish(mut self) -> Result<Quantiles> {
        if self.values.is_empty() || self.values.iter().any(Vec::is_empty) {
            return Err(Error::new(ErrorKind::Data, "no values to find quantiles of, or all of them are missing"));
        }
        self.values.iter_mut().for_each(|values| values.sort_unstable_by(f64::total_cmp));
        Ok(Quantiles { axis: self.axis, sorted: self.values })
    }
}

impl Quantiles {
    /// The quantile `share` (0 to 1) of the values of index `index`, interpolated linearly, as in `numpy.quantile`.
    /// `None` if there is no such index.
    pub fn at(&self, index: usize, share: f64) -> Option<f64> {
        let sorted = self.sorted.get(index)?;
        let place = share.clamp(0.0, 1.0) * (sorted.len() - 1) as f64;
        let (low, part) = (place.floor() as usize, place.fract());
        let (low, high) = (*sorted.get(low)?, sorted[(low + 1).min(sorted.len() - 1)]);
        Some(low + (high - low) * part)
    }

    /// `(x - median) / (third quartile - first quartile)`: outliers do not count.
    pub fn robust(&self) -> Normaliser {
        let of = |share: f64| (0..self.sorted.len()).filter_map(move |index| self.at(index, share));
        let deviation = of(0.75).zip(of(0.25)).map(|(high, low)| high - low).collect();
        Normaliser::Standardise { axis: self.axis, mean: of(0.5).collect(), deviation }
    }

    /// This many quantiles, evenly spaced from the smallest value to the largest: for
    /// [`quantile`](crate::transform::quantile).
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Config`] for fewer than two, or with an axis.
    pub fn evenly(&self, count: usize) -> Result<Vec<f64>> {
        if count < 2 || self.axis.is_some() {
            return Err(Error::new(
                ErrorKind::Config,
                "two or more quantiles, of all values together (without an axis)",
            ));
        }
        Ok((0..count).filter_map(|nth| self.at(0, nth as f64 / (count - 1) as f64)).collect())
    }

    /// The lower edges of `count` bins with equally many values, without that of the first bin: for
    /// [`bins`](crate::transform::bins). If many values are equal, there are fewer bins.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Config`] for no bins, or with an axis.
    pub fn edges(&self, count: usize) -> Result<Vec<f64>> {
        let mut edges = self.evenly(count.saturating_add(1))?;
        edges.dedup();
        edges.pop();
        Ok(edges.into_iter().skip(1).collect())
    }
}

/// Position of `number` among quantiles in ascending order, from 0 to 1; the middle position if several quantiles are
/// equal to it. NaN stays.
pub(crate) fn share_below(quantiles: &[f64], number: f64) -> f64 {
    let last = quantiles.len() - 1;
    if number.is_nan() {
        return number;
    }
    if number <= quantiles[0] {
        return 0.0;
    }
    if number >= quantiles[last] {
        return 1.0;
    }
    let share = |at: usize| at as f64 / last as f64;
    let (first, end) = (quantiles.partition_point(|x| *x < number), quantiles.partition_point(|x| *x <= number));
    if first < end {
        return 0.5 * (share(first) + share(end - 1));
    }
    let (low, high) = (quantiles[end - 1], quantiles[end]);
    let part = match high - low {
        // The quantiles are further apart than f64 can express.
        step if step.is_infinite() => (number / 2.0 - low / 2.0) / (high / 2.0 - low / 2.0),
        step => (number - low) / step,
    };
    share(end - 1) + part * (share(end) - share(end - 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_among_quantiles_are_where_scikit_learn_puts_them() {
        // QuantileTransformer(n_quantiles=5) of [0, 1, 1, 1, 10].
        let quantiles = [0.0, 1.0, 1.0, 1.0, 10.0];
        let shares: Vec<f64> = [-1.0, 0.0, 0.5, 1.0, 5.5, 10.0, 11.0].map(|x| share_below(&quantiles, x)).into();
        assert_eq!(shares, [0.0, 0.0, 0.125, 0.5, 0.875, 1.0, 1.0]);
        assert_eq!(share_below(&[2.0], 2.0), 0.0);
        assert!(share_below(&quantiles, f64::NAN).is_nan());
        let smallest = f64::from_bits(1);
        for quantiles in [[-f64::MAX, f64::MAX], [-smallest, smallest]] {
            assert_eq!(share_below(&quantiles, 0.0), 0.5);
        }
    }
}
