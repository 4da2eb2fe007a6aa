//! Dates and times: from seconds to the parts of a date.

use std::f64::consts::TAU;

use serde::{Deserialize, Serialize};

/// A part of a date or time, as a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum DatePart {
    /// The year.
    Year,
    /// The month, 1 to 12.
    Month,
    /// The day of the month, 1 to 31.
    Day,
    /// The day of the week, 0 (Monday) to 6.
    Weekday,
    /// The day of the year, 1 to 366.
    DayOfYear,
    /// The hour, 0 to 23.
    Hour,
    /// The minute, 0 to 59.
    Minute,
    /// The second, 0 to 59.
    Second,
    /// Seconds since 1970 began, with their fraction.
    Epoch,
}

impl DatePart {
    pub(super) const ALL: [Self; 9] = [
        Self::Year,
        Self::Month,
        Self::Day,
        Self::Weekday,
        Self::DayOfYear,
        Self::Hour,
        Self::Minute,
        Self::Second,
        Self::Epoch,
    ];

    /// Its name in settings.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Year => "year",
            Self::Month => "month",
            Self::Day => "day",
            Self::Weekday => "weekday",
            Self::DayOfYear => "day_of_year",
            Self::Hour => "hour",
            Self::Minute => "minute",
            Self::Second => "second",
            Self::Epoch => "epoch",
        }
    }

    /// The first value, and the number of values in a cycle; `None` if values never repeat.
    fn cycle(self) -> Option<(f64, f64)> {
        Some(match self {
            Self::Year | Self::Epoch => return None,
            Self::Month => (1.0, 12.0),
            Self::Day => (1.0, 31.0),
            Self::Weekday => (0.0, 7.0),
            Self::DayOfYear => (1.0, 366.0),
            Self::Hour => (0.0, 24.0),
            Self::Minute | Self::Second => (0.0, 60.0),
        })
    }

    pub(super) fn is_cyclic(self) -> bool {
        self.cycle().is_some()
    }

    /// Sine and cosine of the position in the cycle, so that December is next to January.
    pub(super) fn on_circle(self, moment: &Moment) -> (f64, f64) {
        let (first, count) = self.cycle().unwrap_or((0.0, 1.0));
        (TAU * (self.of(moment) - first) / count).sin_cos()
    }

    pub(super) fn of(self, moment: &Moment) -> f64 {
        let Moment { seconds, year, month, day, day_of_year, weekday, second } = *moment;
        match self {
            Self::Year => year as f64,
            Self::Month => f64::from(month),
            Self::Day => f64::from(day),
            Self::Weekday => f64::from(weekday),
            Self::DayOfYear => f64::from(day_of_year),
            Self::Hour => f64::from(second / 3600),
            Self::Minute => f64::from(second / 60 % 60),
            Self::Second => f64::from(second % 60),
            Self::Epoch => seconds,
        }
    }
}

/// A moment in the Gregorian calendar.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Moment {
    seconds: f64,
    year: i64,
    month: u8,
    day: u8,
    day_of_year: u16,
    weekday: u8,
    /// Of the day.
    second: u32,
}

/// Seconds from year 0 to 1970, and from there to 10000: the years with four digits.
pub(super) const FIRST: f64 = -62_167_219_200.0;
pub(super) const END: f64 = 253_402_300_800.0;

impl Moment {
    /// `None` beyond the years 0 to 9999.
    pub(super) fn new(seconds: f64) -> Option<Self> {
        if !(FIRST..END).contains(&seconds) {
            return None;
        }
        let whole = seconds.floor() as i64;
        let (days, second) = (whole.div_euclid(86_400), whole.rem_euclid(86_400) as u32);
        let (year, month, day) = civil(days);
        let day_of_year = (days - days_to(year, 1, 1) + 1) as u16;
        // 1970 began on a Thursday.
        let weekday = (days + 3).rem_euclid(7) as u8;
        Some(Self { seconds, year, month, day, day_of_year, weekday, second })
    }

    /// Writes it as ISO 8601 has it, without a fraction of a second.
    pub(super) fn write(&self, into: &mut impl std::fmt::Write, has_time: bool) -> std::fmt::Result {
        let Self { year, month, day, second, .. } = self;
        write!(into, "{year:04}-{month:02}-{day:02}")?;
        match has_time {
            true => write!(into, "T{:02}:{:02}:{:02}", second / 3600, second / 60 % 60, second % 60),
            false => Ok(()),
        }
    }
}

/// Days from 1970 to a date (Hinnant: "chrono-compatible low-level date algorithms").
pub(super) fn days_to(year: i64, month: u8, day: u8) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let (era, of_era) = (year.div_euclid(400), year.rem_euclid(400));
    let month = (i64::from(month) + 9) % 12;
    let of_year = (153 * month + 2) / 5 + i64::from(day) - 1;
    era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468
}

/// Year, month and day of this many days after 1970 began.
fn civil(days: i64) -> (i64, u8, u8) {
    let days = days + 719_468;
    let (era, of_era) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let year = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    (year + era * 400 + i64::from(month <= 2), month as u8, day as u8)
}

pub(super) fn days_in(year: i64, month: u8) -> u8 {
    match month {
        2 if year % 4 == 0 && (year % 100 != 0 || year % 400 == 0) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

#[cfg(test)]
mod tests {
    use super::super::date_text::iso;
    use super::*;

    #[test]
    fn every_day_of_ten_thousand_years_has_its_date() {
        let (mut year, mut month, mut day, mut of_year, mut weekday) = (0, 1, 1, 1, 5);
        for days in (FIRST as i64 / 86_400)..(END as i64 / 86_400) {
            let moment = Moment::new(days as f64 * 86_400.0 + 3723.25).unwrap();
            assert_eq!((moment.year, moment.month, moment.day), (year, month, day));
            assert_eq!((moment.day_of_year, moment.weekday), (of_year, weekday));
            assert_eq!(days_to(year, month, day), days);
            assert_eq!(
                [DatePart::Hour, DatePart::Minute, DatePart::Second].map(|part| part.of(&moment)),
                [1.0, 2.0, 3.0]
            );
            (day, of_year, weekday) = (day + 1, of_year + 1, (weekday + 1) % 7);
            if day > days_in(year, month) {
                (day, month) = (1, month + 1);
            }
            if month > 12 {
                (year, month, of_year) = (year + 1, 1, 1);
            }
        }
        assert_eq!(year, 10_000);
        assert_eq!((Moment::new(FIRST - 1.0), Moment::new(END), Moment::new(f64::NAN)), (None, None, None));
    }

    #[test]
    fn what_comes_again_lies_on_a_circle() {
        let moment = Moment::new(iso("2024-04-01T06:00").unwrap()).unwrap();
        let (sine, cosine) = DatePart::Month.on_circle(&moment);
        assert!((sine - 1.0).abs() < 1e-15 && cosine.abs() < 1e-15);
        let (sine, _) = DatePart::Hour.on_circle(&moment);
        assert!((sine - 1.0).abs() < 1e-15);
        assert!(!DatePart::Epoch.is_cyclic() && !DatePart::Year.is_cyclic());
    }
}
