//! Dates and times: from text to seconds.

use crate::read::in_second;

use super::date::{days_in, days_to};

/// The parts of a date that were read so far.
struct Parsed {
    year: i64,
    month: u8,
    day: u8,
    hour: u8,
    minute: u8,
    second: u8,
    /// Of a second.
    fraction: f64,
    /// Seconds that the local clock is ahead of UTC.
    offset: i64,
}

impl Parsed {
    const NONE: Self = Self { year: 1970, month: 1, day: 1, hour: 0, minute: 0, second: 0, fraction: 0.0, offset: 0 };

    fn seconds(&self) -> Option<f64> {
        let is_date = (1..=12).contains(&self.month) && (1..=days_in(self.year, self.month)).contains(&self.day);
        if !is_date || self.hour > 23 || self.minute > 59 || self.second > 59 {
            return None;
        }
        let of_day = 3600 * i64::from(self.hour) + 60 * i64::from(self.minute) + i64::from(self.second);
        let whole = days_to(self.year, self.month, self.day) * 86_400 + of_day - self.offset;
        Some(in_second(whole, self.fraction))
    }
}

/// Reads text from front to back.
struct Text<'a>(&'a [u8]);

impl Text<'_> {
    fn take(&mut self, byte: u8) -> Option<()> {
        let (first, rest) = self.0.split_first()?;
        (*first == byte).then(|| self.0 = rest)
    }

    /// A number with exactly this many digits.
    fn digits(&mut self, count: usize) -> Option<i64> {
        let (digits, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        digits.iter().try_fold(0, |number, byte| byte.is_ascii_digit().then(|| 10 * number + i64::from(byte - b'0')))
    }

    fn two(&mut self) -> Option<u8> {
        self.digits(2).map(|number| number as u8)
    }

    /// A fraction of a second, after its point.
    fn fraction(&mut self) -> Option<f64> {
        let count = self.0.iter().take_while(|byte| byte.is_ascii_digit()).count();
        let (digits, rest) = self.0.split_at(count);
        self.0 = rest;
        // As many digits as f64 can distinguish.
        let digits = &digits[..count.min(15)];
        let number = digits.iter().fold(0, |number, byte| 10 * number + u64::from(byte - b'0'));
        (count > 0).then(|| number as f64 / 10f64.powi(digits.len() as i32))
    }

    /// `Z`, `+01:00`, `+0100` or `+01`, in seconds.
    fn offset(&mut self) -> Option<i64> {
        if self.take(b'Z').is_some() {
            return Some(0);
        }
        let sign = match self.take(b'+') {
            Some(()) => 1,
            None => self.take(b'-').map(|()| -1)?,
        };
        let hours = self.digits(2)?;
        let _ = self.take(b':');
        let minutes = if self.0.is_empty() { 0 } else { self.digits(2)? };
        (hours < 24 && minutes < 60).then_some(sign * (3600 * hours + 60 * minutes))
    }
}

/// Seconds since 1970 of a date in ISO 8601: `2024-05-01`, optionally followed by `T` or a blank and `13:45`,
/// `13:45:30` or `13:45:30.5`, and an offset from UTC. Without an offset, the date is in UTC.
pub(super) fn iso(text: &str) -> Option<f64> {
    let (mut text, mut parsed) = (Text(text.as_bytes()), Parsed::NONE);
    parsed.year = text.digits(4)?;
    text.take(b'-')?;
    parsed.month = text.two()?;
    text.take(b'-')?;
    parsed.day = text.two()?;
    if text.0.is_empty() {
        return parsed.seconds();
    }
    text.take(b'T').or_else(|| text.take(b' '))?;
    parsed.hour = text.two()?;
    text.take(b':')?;
    parsed.minute = text.two()?;
    if text.take(b':').is_some() {
        parsed.second = text.two()?;
        if text.take(b'.').is_some() {
            parsed.fraction = text.fraction()?;
        }
    }
    if !text.0.is_empty() {
        let _ = text.take(b' ');
        parsed.offset = text.offset()?;
    }
    parsed.seconds().filter(|_| text.0.is_empty())
}

/// Seconds since 1970 of a date that is written in the form `format`, with the letters of `strptime`: see
/// [`Date::format`](super::Date::format).
pub(super) fn by_format(text: &str, format: &str) -> Option<f64> {
    let (mut text, mut parsed) = (Text(text.as_bytes()), Parsed::NONE);
    let mut letters = format.bytes();
    while let Some(letter) = letters.next() {
        if letter != b'%' {
            text.take(letter)?;
            continue;
        }
        match letters.next()? {
            b'Y' => parsed.year = text.digits(4)?,
            b'm' => parsed.month = text.two()?,
            b'd' => parsed.day = text.two()?,
            b'H' => parsed.hour = text.two()?,
            b'M' => parsed.minute = text.two()?,
            b'S' => parsed.second = text.two()?,
            b'f' => parsed.fraction = text.fraction()?,
            b'z' => parsed.offset = text.offset()?,
            b'%' => text.take(b'%')?,
            _ => return None,
        }
    }
    parsed.seconds().filter(|_| text.0.is_empty())
}

/// What is wrong with a format.
pub(super) fn format_fault(format: &str) -> Option<String> {
    let mut letters = format.chars();
    let mut has_year = false;
    while let Some(letter) = letters.next() {
        if letter == '%' {
            match letters.next() {
                Some('Y') => has_year = true,
                Some('m' | 'd' | 'H' | 'M' | 'S' | 'f' | 'z' | '%') => {}
                other => {
                    let letter = other.map(String::from).unwrap_or_default();
                    return Some(format!("%{letter} is not known; there are %Y %m %d %H %M %S %f %z %%"));
                }
            }
        }
    }
    (!has_year).then(|| "there is no %Y for the year".to_owned())
}

#[cfg(test)]
mod tests {
    use super::super::date::{END, FIRST};
    use super::*;

    #[test]
    fn dates_are_read_as_iso_8601_has_them() {
        // From Python's datetime.
        let cases = [
            ("1970-01-01", 0.0),
            ("2024-02-29", 1_709_164_800.0),
            ("1969-12-31T23:59:59.5", -0.5),
            ("2024-05-01 13:45", 1_714_571_100.0),
            ("2024-05-01T13:45:30Z", 1_714_571_130.0),
            ("2024-05-01T13:45:30.25+02:00", 1_714_563_930.25),
            ("2024-05-01T13:45-0330", 1_714_583_700.0),
            ("0000-01-01", FIRST),
            ("9999-12-31T23:59:59", END - 1.0),
            ("9999-12-31T23:59:59.99999999999999999999", END.next_down()),
            ("2024-12-31T23:59:59.999999999", 1_735_689_600f64.next_down()),
        ];
        for (text, seconds) in cases {
            assert_eq!(iso(text), Some(seconds), "{text}");
        }
        let wrong = [
            "",
            "2024",
            "2024-13-01",
            "2023-02-29",
            "2024-1-1",
            "2024-01-01T24:00",
            "2024-01-01x",
            "2024-01-01T10:00+",
            "2024-01-01T",
            "2024-01-01T10:00:00.",
            "+024-01-01",
            "2024-01-01T10:00Zx",
        ];
        for text in wrong {
            assert_eq!(iso(text), None, "{text}");
        }
    }

    #[test]
    fn dates_are_read_by_a_format() {
        assert_eq!(by_format("01.05.2024 13:45", "%d.%m.%Y %H:%M"), Some(1_714_571_100.0));
        assert_eq!(by_format("05/01/2024", "%m/%d/%Y"), iso("2024-05-01"));
        assert_eq!(by_format("2024-05-01", "%d.%m.%Y"), None);
        assert_eq!(by_format("01.05.2024 ", "%d.%m.%Y"), None);
        assert_eq!(format_fault("%d.%m.%Y"), None);
        assert!(format_fault("%d.%q.%Y").unwrap().contains("%q"));
        assert!(format_fault("%H:%M").unwrap().contains("%Y"));
    }
}
