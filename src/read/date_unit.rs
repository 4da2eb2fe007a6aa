use serde::{Deserialize, Serialize};

/// The unit of dates that are numbers, counted since the beginning of 1970.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum DateUnit {
    /// Days, as Arrow's and Parquet's dates.
    Days,
    /// Seconds.
    Seconds,
    /// Thousandths of a second, as in JavaScript.
    Milliseconds,
    /// Millionths of a second.
    Microseconds,
    /// Billionths of a second, as in pandas.
    Nanoseconds,
}

impl DateUnit {
    /// Its name in settings and messages.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Days => "days",
            Self::Seconds => "seconds",
            Self::Milliseconds => "milliseconds",
            Self::Microseconds => "microseconds",
            Self::Nanoseconds => "nanoseconds",
        }
    }

    /// How many of these units a second has.
    fn per_second(self) -> i64 {
        match self {
            Self::Days | Self::Seconds => 1,
            Self::Milliseconds => 1_000,
            Self::Microseconds => 1_000_000,
            Self::Nanoseconds => 1_000_000_000,
        }
    }

    /// As seconds. The whole second is exact, whatever its fraction is.
    pub(crate) fn seconds(self, number: f64) -> f64 {
        let per_second = self.per_second() as f64;
        match self {
            Self::Days => number * 86_400.0,
            Self::Seconds => number,
            // The remainder is exact, and has the number's sign.
            _ if number % per_second < 0.0 => in_second(
                (((number - number % per_second) / per_second) as i64).saturating_sub(1),
                number % per_second / per_second + 1.0,
            ),
            _ => in_second(((number - number % per_second) / per_second) as i64, number % per_second / per_second),
        }
    }

    /// As seconds, from an integer that f64 may be too small for.
    pub(crate) fn seconds_of(self, number: i64) -> f64 {
        let per_second = self.per_second();
        match self {
            Self::Days => number as f64 * 86_400.0,
            _ => in_second(number.div_euclid(per_second), number.rem_euclid(per_second) as f64 / per_second as f64),
        }
    }
}

/// A moment within a second. An f64 would round the last moments up to the next second, which may be another day or
/// year.
pub(crate) fn in_second(second: i64, fraction: f64) -> f64 {
    let (moment, last) = (second as f64 + fraction, (second as f64 + 1.0).next_down());
    if moment > last { last } else { moment }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_moment_stays_in_its_second() {
        // From Python's datetime: 2025-01-01T00:00:00Z is 1735689600.
        const YEAR: i64 = 1_735_689_600;
        let units = [DateUnit::Milliseconds, DateUnit::Microseconds, DateUnit::Nanoseconds];
        for unit in units {
            let each = unit.per_second();
            for second in [YEAR, 0, -YEAR, i64::from(i32::MIN), 1 << 31, 1 << 32] {
                for (number, whole) in
                    [(second * each, second), (second * each - 1, second - 1), (second * each + 1, second)]
                {
                    assert_eq!(unit.seconds_of(number).floor() as i64, whole, "{number} {unit:?}");
                    let near = number as f64;
                    let whole = (near as i128).div_euclid(each.into()) as i64;
                    assert_eq!(unit.seconds(near).floor() as i64, whole, "{near} {unit:?}");
                }
            }
            assert_eq!((unit.seconds_of(3 * each / 2), unit.seconds(1.5 * each as f64)), (1.5, 1.5));
            assert_eq!((unit.seconds_of(-each / 2), unit.seconds(-0.5 * each as f64)), (-0.5, -0.5));
            assert!(unit.seconds(f64::NAN).is_nan());
            assert!(unit.seconds(-1e35).is_finite() && unit.seconds(1e35).is_finite());
        }
        assert_eq!((DateUnit::Days.seconds_of(2), DateUnit::Days.seconds(0.5)), (172_800.0, 43_200.0));
        assert_eq!((DateUnit::Seconds.seconds_of(-7), DateUnit::Seconds.seconds(2.25)), (-7.0, 2.25));
    }
}
