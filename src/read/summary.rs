use serde::Serialize;

/// What `inspect` says of one field: figures in f64 over every value, array elements included.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct FieldSummary {
    /// Column or tensor name.
    pub name: String,
    /// `feature`, `label`, `mask` or `ignored`.
    pub role: String,
    /// An element type, or `text`.
    pub dtype: String,
    /// Shape of one record's value; `[]` for a single one, 0 for a length that differs from record to record.
    pub shape: Vec<usize>,
    /// Values present; of an image folder, whose pixels are not read, files.
    pub count: u64,
    /// Values missing.
    pub missing: u64,
    /// Sum of the values present; `None` where there is no number.
    pub sum: Option<f64>,
    /// Smallest value.
    pub min: Option<f64>,
    /// Largest value.
    pub max: Option<f64>,
    /// Sum divided by count.
    pub mean: Option<f64>,
}

/// Running figures over numbers; the sum is compensated (Neumaier), so that its error does not grow with the count.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Tally {
    pub(crate) count: u64,
    sum: f64,
    compensation: f64,
    min: Option<f64>,
    max: Option<f64>,
}

impl Tally {
    pub(crate) fn add(&mut self, value: f64) {
        self.add_many(value, 1);
    }

    /// Adds `value` as often as `count` says; exact as long as their product is.
    pub(crate) fn add_many(&mut self, value: f64, count: u64) {
        if count == 0 {
            return;
        }
        let added = value * count as f64;
        let total = self.sum + added;
        self.compensation +=
            if self.sum.abs() >= added.abs() { (self.sum - total) + added } else { (added - total) + self.sum };
        self.sum = total;
        self.count += count;
        self.min = Some(self.min.map_or(value, |min| min.min(value)));
        self.max = Some(self.max.map_or(value, |max| max.max(value)));
    }

    pub(crate) fn sum(&self) -> Option<f64> {
        let sum = self.sum + self.compensation;
        (self.count > 0).then_some(if sum.is_nan() { self.sum } else { sum })
    }

    pub(crate) fn min(&self) -> Option<f64> {
        self.min
    }

    pub(crate) fn max(&self) -> Option<f64> {
        self.max
    }

    pub(crate) fn mean(&self) -> Option<f64> {
        self.sum().map(|sum| sum / self.count as f64)
    }
}
