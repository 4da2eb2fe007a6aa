use serde::{Deserialize, Serialize};

/// What a date that is a number counts since 1970 began.
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

    /// As seconds.
    pub(crate) fn seconds(self, number: f64) -> f64 {
        match self {
            Self::Days => number * 86_400.0,
            Self::Seconds => number,
            Self::Milliseconds => number / 1e3,
            Self::Microseconds => number / 1e6,
            Self::Nanoseconds => number / 1e9,
        }
    }
}
