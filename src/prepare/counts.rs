//! How often each number occurs: exact up to a number of different numbers, and with a bounded error beyond that.

use std::collections::HashMap;

use serde::{Deserialize, Serialize};

use crate::error::{Error, ErrorKind, Result};

/// Most different numbers that are counted separately.
const MOST: usize = 1 << 18;

/// Number of bits that are dropped at once if there are more. It is chosen so that the error is at first less than that
/// of f32.
const FIRST_DROPPED: u32 = 24;
const MORE_DROPPED: u32 = 4;

/// Numbers and how often each occurs.
///
/// If there are more than 2^18 different numbers, they are counted in classes. A class contains neighbours with the
/// same sign, exponent and first digits, with as many digits as leave at most 2^18 classes; 0 is a class of its own.
/// The middle of a class stands for its numbers, so that each number has a relative error of at most
/// [`error`](Self::error). The number of digits depends only on the numbers, never on their order.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(into = "Listed", try_from = "Listed")]
pub(super) struct Counts {
    by_bits: HashMap<u64, u64>,
    dropped: u32,
}

/// The same in its saved form: numbers as bits, in ascending order.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Listed {
    dropped: u32,
    counts: Vec<(u64, u64)>,
}

impl From<Counts> for Listed {
    fn from(counts: Counts) -> Self {
        let mut listed: Vec<(u64, u64)> = counts.by_bits.into_iter().collect();
        listed.sort_unstable();
        Self { dropped: counts.dropped, counts: listed }
    }
}

impl TryFrom<Listed> for Counts {
    type Error = &'static str;

    fn try_from(Listed { dropped, counts }: Listed) -> Result<Self, Self::Error> {
        let is_level = dropped == 0 || (FIRST_DROPPED..52).contains(&dropped) && dropped.is_multiple_of(MORE_DROPPED);
        let is_count = |(bits, times): &(u64, u64)| {
            f64::from_bits(*bits).is_finite() && class(*bits, dropped) == *bits && *times > 0
        };
        if !is_level || counts.len() > MOST || !counts.iter().all(is_count) {
            return Err("counts of values that are not numbers");
        }
        Ok(Self { by_bits: counts.into_iter().collect(), dropped })
    }
}

impl Counts {
    /// Adds a finite number `times` times.
    pub(super) fn add(&mut self, number: f64, times: u64) {
        if times > 0 {
            // -0 and 0 are the same number.
            self.add_bits((number + 0.0).to_bits(), times);
        }
    }

    fn add_bits(&mut self, bits: u64, times: u64) {
        let count = self.by_bits.entry(class(bits, self.dropped)).or_default();
        *count = count.saturating_add(times);
        while self.by_bits.len() > MOST {
            self.drop_to(if self.dropped == 0 { FIRST_DROPPED } else { self.dropped + MORE_DROPPED });
        }
    }

    fn drop_to(&mut self, dropped: u32) {
        self.dropped = dropped;
        for (bits, times) in std::mem::take(&mut self.by_bits) {
            let count = self.by_bits.entry(class(bits, dropped)).or_default();
            *count = count.saturating_add(times);
        }
    }

    pub(super) fn merge(&mut self, other: &Self) {
        if other.dropped > self.dropped {
            self.drop_to(other.dropped);
        }
        other.by_bits.iter().for_each(|(bits, times)| self.add_bits(*bits, *times));
    }

    /// The largest relative error of a number; 0 if all numbers were counted separately.
    pub(super) fn error(&self) -> f64 {
        if self.dropped == 0 { 0.0 } else { 2f64.powi(self.dropped as i32 - 53) }
    }

    /// The numbers in ascending order, for quantiles.
    pub(super) fn sorted(&self) -> Sorted {
        let mut numbers: Vec<(f64, u64)> = self.by_bits.iter().map(|(bits, n)| (f64::from_bits(*bits), *n)).collect();
        numbers.sort_unstable_by(|(one, _), (other, _)| one.total_cmp(other));
        let mut before = 0;
        for (_, times) in &mut numbers {
            before = times.saturating_add(before);
            *times = before;
        }
        Sorted(numbers)
    }

    /// The most frequent number; the smallest one if several are equally frequent.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Limit`] if numbers were not counted separately.
    pub(super) fn most_frequent(&self) -> Result<Option<f64>> {
        if self.dropped > 0 {
            let message = format!(
                "there are more than {MOST} different values, so that the most frequent one is not known; impute a value, the \
                 mean or the median"
            );
            return Err(Error::new(ErrorKind::Limit, message));
        }
        let numbers = self.by_bits.iter().map(|(bits, times)| (f64::from_bits(*bits), *times));
        let most = numbers.max_by(|(one, times), (other, more)| times.cmp(more).then(other.total_cmp(one)));
        Ok(most.map(|(number, _)| number))
    }
}

/// The middle of the class of a number.
fn class(bits: u64, dropped: u32) -> u64 {
    match dropped {
        0 => bits,
        // No other number is as near to 0 as its error says.
        _ if bits == 0 => 0,
        _ => bits >> dropped << dropped | 1 << (dropped - 1),
    }
}

/// Numbers in ascending order, each with the number of values up to it.
pub(super) struct Sorted(Vec<(f64, u64)>);

impl Sorted {
    /// Number of values.
    pub(super) fn count(&self) -> u64 {
        self.0.last().map_or(0, |(_, count)| *count)
    }

    fn nth(&self, nth: u64) -> f64 {
        let at = self.0.partition_point(|(_, up_to)| *up_to <= nth);
        self.0.get(at).map_or(f64::NAN, |(number, _)| *number)
    }

    /// The number below which `share` (0 to 1) of the values lie, interpolated linearly between neighbours, as in
    /// `numpy.quantile`. `None` without numbers.
    pub(super) fn quantile(&self, share: f64) -> Option<f64> {
        let (_, count) = self.0.last()?;
        let place = share.clamp(0.0, 1.0) * (count - 1) as f64;
        let (before, part) = (place.floor(), place.fract());
        let (low, high) = (self.nth(before as u64), self.nth((before as u64 + 1).min(count - 1)));
        let step = high - low;
        Some(match part {
            0.0 => low,
            // The numbers are further apart than f64 can express.
            _ if step.is_infinite() => low * (1.0 - part) + high * part,
            _ if part < 0.5 => low + step * part,
            _ => high - step * (1.0 - part),
        })
    }

    /// The middle one, or the mean of the two in the middle.
    pub(super) fn median(&self) -> Option<f64> {
        let (_, count) = self.0.last()?;
        Some(self.nth((count - 1) / 2).midpoint(self.nth(count / 2)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(numbers: impl IntoIterator<Item = f64>) -> Counts {
        let mut counts = Counts::default();
        numbers.into_iter().for_each(|number| counts.add(number, 1));
        counts
    }

    #[test]
    fn quantiles_are_those_of_numpy() {
        let sorted = counts([3.0, -0.0, 1.0, 0.0, 10.0, 1.0]).sorted();
        let quantiles: Vec<f64> = [0.0, 0.25, 0.3, 0.5, 0.9, 1.0].map(|share| sorted.quantile(share).unwrap()).into();
        assert_eq!(quantiles, [0.0, 0.25, 0.5, 1.0, 6.5, 10.0]);
        assert_eq!(sorted.median(), Some(1.0));
        assert_eq!(counts([f64::MAX, -f64::MAX]).sorted().quantile(0.5), Some(0.0));
        assert_eq!(counts([]).sorted().quantile(0.5), None);
        assert_eq!(counts([2.0, 1.0, 2.0, 1.0, 5.0]).most_frequent().unwrap(), Some(1.0));
        let separate = counts((0..MOST).map(|nth| nth as f64));
        assert_eq!(separate.most_frequent().unwrap(), Some(0.0));
        let too_many = counts((0..=MOST).map(|nth| nth as f64));
        assert_eq!(too_many.most_frequent().unwrap_err().kind(), ErrorKind::Limit);
    }

    #[test]
    fn many_numbers_are_counted_in_classes_whatever_their_order_and_shares() {
        // Of i = 0 it is 0.
        let number = |i: u64| (1.0 + i as f64).ln() * if i.is_multiple_of(3) { -1e9 } else { 1e-3 };
        let whole = counts((0..600_000).map(number));
        let mut parts = counts((0..600_000).rev().filter(|i| i % 2 == 0).map(number));
        parts.merge(&counts((0..600_000).filter(|i| i % 2 == 1).map(number)));
        assert!(whole == parts, "classes depend on order or shares");
        assert!(whole.error() > 0.0 && whole.error() < 1e-4, "{}", whole.error());
        // This is also true if one of them counted all of its numbers separately.
        let mut few = counts((0..100).map(number));
        few.merge(&counts((100..600_000).map(number)));
        assert!(few == whole, "classes depend on who merges");
        let mut exact: Vec<f64> = (0..600_000).map(number).collect();
        exact.sort_unstable_by(f64::total_cmp);
        let sorted = whole.sorted();
        for nth in (0..600_000).step_by(997).chain([199_999, 200_000, 200_001]) {
            let (found, wanted) = (sorted.nth(nth as u64), exact[nth]);
            assert!((found - wanted).abs() <= whole.error() * wanted.abs(), "{nth}: {found} for {wanted}");
        }
        let saved = serde_json::to_string(&whole).unwrap();
        assert!(serde_json::from_str::<Counts>(&saved).unwrap() == whole, "0 among classes is read again");
    }
}
