//! Finds the end of each value of a JSON text, and the faults of a text that is not JSON.

use std::ops::Range;

use crate::error::{Error, ErrorKind};
use crate::read::csv::{Decimal, few_digits, few_digits_value};

/// Deepest nesting of arrays and objects.
pub(super) const MAX_DEPTH: usize = 128;

/// Most integers that are read from a text: every worker keeps buffers for them.
pub(super) const MOST_INTEGERS: usize = 1 << 19;

/// A fault in a text, and its byte.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(in crate::read) struct Fault {
    pub(in crate::read) at: usize,
    problem: Problem,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Problem {
    Expected(&'static str),
    Is(&'static str),
}

impl Fault {
    #[cold]
    fn expected(at: usize, what: &'static str) -> Self {
        Self { at, problem: Problem::Expected(what) }
    }

    #[cold]
    fn is(at: usize, what: &'static str) -> Self {
        Self { at, problem: Problem::Is(what) }
    }

    /// The error for this fault in `text`, without a location.
    #[cold]
    pub(in crate::read) fn error(self, text: &str) -> Error {
        let message = match self.problem {
            Problem::Is(what) => format!("not JSON: {what}"),
            Problem::Expected(what) => match text.get(self.at..).and_then(|rest| rest.chars().next()) {
                Some(found) => format!("not JSON: expected {what}, found {found:?}"),
                None => format!("not JSON: expected {what}, found the end"),
            },
        };
        Error::new(ErrorKind::Data, message)
    }
}

/// A position in a text.
pub(super) struct Cursor<'a> {
    bytes: &'a [u8],
    pub(super) at: usize,
}

impl<'a> Cursor<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        Self { bytes: text.as_bytes(), at: 0 }
    }

    /// The next byte that is not a blank.
    #[inline]
    pub(super) fn next(&mut self) -> Option<u8> {
        while let Some(b' ' | b'\t' | b'\n' | b'\r') = self.bytes.get(self.at) {
            self.at += 1;
        }
        self.bytes.get(self.at).copied()
    }

    /// # Errors
    ///
    /// The position of anything other than blanks, if there is any.
    pub(super) fn end(&mut self) -> Result<(), Fault> {
        match self.next() {
            None => Ok(()),
            Some(_) => Err(Fault::expected(self.at, "nothing more (each record is on a line of its own)")),
        }
    }

    /// Enters the array or object that begins here, inside `depth` others. `false` if it is empty; then it has been
    /// left again.
    #[inline]
    pub(super) fn enter(&mut self, depth: usize, close: u8) -> Result<bool, Fault> {
        if depth >= MAX_DEPTH {
            return Err(Fault::is(self.at, "more than 128 arrays and objects inside each other"));
        }
        self.at += 1;
        let is_empty = self.next() == Some(close);
        self.at += usize::from(is_empty);
        Ok(!is_empty)
    }

    /// Passes the comma after a value, or the end of the array or object around it, and says whether another value
    /// follows.
    #[inline]
    pub(super) fn more(&mut self, close: u8) -> Result<bool, Fault> {
        match self.next() {
            Some(b',') => {
                self.at += 1;
                Ok(true)
            }
            Some(byte) if byte == close => {
                self.at += 1;
                Ok(false)
            }
            _ if close == b'}' => Err(Fault::expected(self.at, "a comma or }")),
            _ => Err(Fault::expected(self.at, "a comma or ]")),
        }
    }

    /// Passes a key and its colon; returns where the key is, without its quotes, and whether it is plain: without
    /// escapes.
    #[inline]
    pub(super) fn key(&mut self) -> Result<(Range<usize>, bool), Fault> {
        if self.next() != Some(b'"') {
            return Err(Fault::expected(self.at, "a key in double quotes"));
        }
        let start = self.at + 1;
        let is_plain = self.text()?;
        let key = start..self.at - 1;
        if self.next() != Some(b':') {
            return Err(Fault::expected(self.at, "a colon after the key"));
        }
        self.at += 1;
        Ok((key, is_plain))
    }

    /// Passes a value inside `depth` arrays and objects, and checks that it is JSON. There is no recursion: one bit per
    /// open array or object says which of the two it is.
    pub(super) fn skip(&mut self, depth: usize) -> Result<(), Fault> {
        let (mut objects, mut open) = (0u128, 0);
        loop {
            match self.next() {
                Some(b'{') => {
                    if self.enter(depth + open, b'}')? {
                        (objects, open) = (objects << 1 | 1, open + 1);
                        self.key()?;
                        continue;
                    }
                }
                Some(b'[') => {
                    if self.enter(depth + open, b']')? {
                        (objects, open) = (objects << 1, open + 1);
                        continue;
                    }
                }
                _ => self.scalar()?,
            }
            loop {
                if open == 0 {
                    return Ok(());
                }
                let is_object = objects & 1 == 1;
                if self.more(if is_object { b'}' } else { b']' })? {
                    if is_object {
                        self.key()?;
                    }
                    break;
                }
                (objects, open) = (objects >> 1, open - 1);
            }
        }
    }

    /// Passes the array that begins here, inside `depth` others, and appends its elements to `into`, if all of them are
    /// integers of at most 18 digits, and there are some and not too many. Otherwise nothing is passed.
    pub(super) fn integers(&mut self, depth: usize, into: &mut Vec<i64>) -> bool {
        let (start, before) = (self.at, into.len());
        self.at += 1;
        let is_passed = depth < MAX_DEPTH
            && loop {
                self.next();
                let Some(integer) = self.integer() else { break false };
                if into.len() >= MOST_INTEGERS {
                    break false;
                }
                into.push(integer);
                match self.next() {
                    Some(b',') => self.at += 1,
                    Some(b']') => break true,
                    _ => break false,
                }
            };
        if is_passed {
            self.at += 1;
        } else {
            self.at = start;
            into.truncate(before);
        }
        is_passed
    }

    /// Passes an integer; `None` if none is here. It may be the beginning of another number.
    #[inline(always)]
    fn integer(&mut self) -> Option<i64> {
        let (count, value) = few_digits_value(self.bytes, self.at);
        let (len, digits, integer) = if matches!(count, 1..8) {
            (count, count, value as i64)
        } else {
            let decimal = Decimal::leading(self.bytes.get(self.at..)?)?;
            let is_negative = self.bytes.get(self.at) == Some(&b'-');
            (decimal.len, decimal.len - usize::from(is_negative), decimal.to_i64()?)
        };
        let begins_with_zero = self.bytes.get(self.at + len - digits) == Some(&b'0');
        if begins_with_zero && digits > 1 {
            return None;
        }
        self.at += len;
        Some(integer)
    }

    #[inline]
    fn scalar(&mut self) -> Result<(), Fault> {
        match self.bytes.get(self.at) {
            Some(b'"') => self.text().map(drop),
            Some(b'-' | b'0'..=b'9') => self.number(),
            Some(b't') => self.word(b"true"),
            Some(b'f') => self.word(b"false"),
            Some(b'n') => self.word(b"null"),
            _ => Err(self.no_value()),
        }
    }

    #[cold]
    fn no_value(&self) -> Fault {
        let rest = &self.bytes[self.at..];
        if [b"NaN".as_slice(), b"Infinity", b"-Infinity"].iter().any(|word| rest.starts_with(word)) {
            let advice = "NaN and Infinity are not JSON; write null, and set `missing` to what replaces it";
            return Fault::is(self.at, advice);
        }
        Fault::expected(self.at, "a value")
    }

    fn word(&mut self, word: &[u8]) -> Result<(), Fault> {
        if !self.bytes[self.at..].starts_with(word) {
            return Err(Fault::expected(self.at, "a value"));
        }
        self.at += word.len();
        Ok(())
    }

    #[inline]
    fn digits(&mut self) -> Result<(), Fault> {
        let start = self.at;
        loop {
            let count = few_digits(self.bytes, self.at);
            self.at += count;
            if count < 8 {
                break;
            }
        }
        if self.at == start { Err(Fault::expected(start, "a digit")) } else { Ok(()) }
    }

    #[inline]
    fn number(&mut self) -> Result<(), Fault> {
        let start = self.at;
        self.at += usize::from(self.bytes[start] == b'-');
        match (self.bytes.get(self.at), self.bytes.get(self.at + 1)) {
            (Some(b'0'), Some(b'0'..=b'9')) => return Err(Fault::is(start, "a number that begins with 0")),
            (Some(b'I'), _) => {
                self.at = start;
                return Err(self.no_value());
            }
            _ => self.digits()?,
        }
        if let Some(b'.') = self.bytes.get(self.at) {
            self.at += 1;
            self.digits()?;
        }
        if let Some(b'e' | b'E') = self.bytes.get(self.at) {
            self.at += 1;
            self.at += usize::from(matches!(self.bytes.get(self.at), Some(b'+' | b'-')));
            self.digits()?;
        }
        Ok(())
    }

    /// Passes a text, whose opening quote is here; returns whether it has no escapes.
    #[inline]
    fn text(&mut self) -> Result<bool, Fault> {
        self.at += 1;
        let mut is_plain = true;
        loop {
            self.at += plain_len(&self.bytes[self.at..]);
            match self.bytes.get(self.at) {
                Some(b'"') => {
                    self.at += 1;
                    return Ok(is_plain);
                }
                Some(b'\\') => {
                    is_plain = false;
                    self.escape()?;
                }
                Some(_) => {
                    let what =
                        "a line end, tab or other control character in a text; it must be escaped, as \\n or \\t";
                    return Err(Fault::is(self.at, what));
                }
                None => return Err(Fault::expected(self.at, "the \" that ends a text")),
            }
        }
    }

    fn escape(&mut self) -> Result<(), Fault> {
        match self.bytes.get(self.at + 1) {
            Some(b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't') => self.at += 2,
            Some(b'u') => match self.bytes.get(self.at + 2..self.at + 6) {
                Some(digits) if digits.iter().all(u8::is_ascii_hexdigit) => self.at += 6,
                _ => return Err(Fault::is(self.at, "\\u without four hexadecimal digits")),
            },
            _ => return Err(Fault::is(self.at, "a backslash that escapes nothing JSON knows")),
        }
        Ok(())
    }
}

/// Number of bytes before the first quote, backslash or control character; eight bytes are checked at a time.
#[inline]
fn plain_len(bytes: &[u8]) -> usize {
    const ONES: u64 = u64::from_ne_bytes([1; 8]);
    const HIGH: u64 = ONES << 7;
    let (words, rest) = bytes.as_chunks::<8>();
    for (nth, word) in words.iter().enumerate() {
        let word = u64::from_le_bytes(*word);
        // The high bit of each byte below `limit`. Bits of later bytes may be set wrongly, but never one of an earlier
        // byte.
        let below = |word: u64, limit: u64| word.wrapping_sub(ONES * limit) & !word;
        let quote = below(word ^ (ONES * u64::from(b'"')), 1);
        let backslash = below(word ^ (ONES * u64::from(b'\\')), 1);
        let special = (quote | backslash | below(word, 0x20)) & HIGH;
        if special != 0 {
            return nth * 8 + special.trailing_zeros() as usize / 8;
        }
    }
    let is_special = |byte: &u8| matches!(byte, b'"' | b'\\' | 0..0x20);
    words.len() * 8 + rest.iter().position(is_special).unwrap_or(rest.len())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn scanned(text: &str) -> Result<(), Fault> {
        let mut cursor = Cursor::new(text);
        cursor.skip(0)?;
        cursor.end()
    }

    #[test]
    fn what_is_wrong_is_said_with_its_byte() {
        for (text, at, message) in [
            ("", 0, "expected a value, found the end"),
            ("  ", 2, "expected a value, found the end"),
            ("{", 1, "expected a key in double quotes, found the end"),
            ("{'a': 1}", 1, "expected a key in double quotes, found '\\''"),
            ("{\"a\" 1}", 5, "expected a colon after the key, found '1'"),
            ("{\"a\": 1,}", 8, "expected a key in double quotes, found '}'"),
            ("{\"a\": 1]", 7, "expected a comma or }, found ']'"),
            ("[1 2]", 3, "expected a comma or ], found '2'"),
            ("[1,]", 3, "expected a value, found ']'"),
            ("[1", 2, "expected a comma or ], found the end"),
            ("[\"a", 3, "expected the \" that ends a text, found the end"),
            ("[\"a\nb\"]", 3, "must be escaped"),
            ("[\"\\x\"]", 2, "escapes nothing JSON knows"),
            ("[\"\\u12g4\"]", 2, "four hexadecimal digits"),
            ("[\"\\u12", 2, "four hexadecimal digits"),
            ("01", 0, "a number that begins with 0"),
            ("-", 1, "expected a digit, found the end"),
            ("1.", 2, "expected a digit"),
            (".5", 0, "expected a value, found '.'"),
            ("+1", 0, "expected a value, found '+'"),
            ("1e", 2, "expected a digit"),
            ("tru", 0, "expected a value, found 't'"),
            ("{} {}", 3, "each record is on a line of its own"),
            ("[NaN]", 1, "write null"),
            ("Infinity", 0, "write null"),
            ("[1, -Infinity]", 4, "write null"),
            ("[é]", 1, "expected a value, found 'é'"),
        ] {
            let fault = scanned(text).unwrap_err();
            assert_eq!(fault.at, at, "{text}");
            assert!(fault.error(text).message().contains(message), "{text}: {}", fault.error(text).message());
        }
    }

    #[test]
    fn nesting_is_bounded() {
        for (open, close) in [("[", "]"), ("{\"a\":", "}")] {
            let nested = |depth: usize| format!("{}1{}", open.repeat(depth), close.repeat(depth));
            assert_eq!(scanned(&nested(MAX_DEPTH)), Ok(()));
            let fault = scanned(&nested(MAX_DEPTH + 1)).unwrap_err();
            assert_eq!(
                (fault.at, fault.problem),
                (MAX_DEPTH * open.len(), Problem::Is("more than 128 arrays and objects inside each other"))
            );
            scanned(&open.repeat(1_000_000)).unwrap_err();
        }
    }

    #[test]
    fn the_end_of_plain_text_is_found_wherever_it_lies() {
        for special in ['"', '\\', '\0', '\x1f', '\n'] {
            for before in 0..40 {
                let text =
                    format!("{}{special}\"\\\n", "\u{ff} !#[]~\u{7f}".chars().cycle().take(before).collect::<String>());
                assert_eq!(Some(plain_len(text.as_bytes())), text.find(special));
            }
        }
        assert_eq!(plain_len("é, \u{80}".as_bytes()), "é, \u{80}".len());
    }

    #[test]
    fn only_arrays_of_plain_integers_are_read_as_such() {
        let mut integers = vec![5];
        let mut read = |text: &str| {
            integers.truncate(1);
            let mut cursor = Cursor::new(text);
            let is_passed = cursor.integers(1, &mut integers);
            assert_eq!(cursor.at, if is_passed { text.len() } else { 0 }, "{text}");
            is_passed.then(|| integers[1..].to_vec())
        };
        assert_eq!(read(&format!("[{}0]", "0,".repeat(MOST_INTEGERS))), None);
        for (text, expected) in [
            ("[7]", Some(&[7][..])),
            ("[1,-2 ,\t0, -0\r]", Some(&[1, -2, 0, 0])),
            ("[ 1234567, 12345678,123456789,-12345678\n]", Some(&[1_234_567, 12_345_678, 123_456_789, -12_345_678])),
            ("[999999999999999999, -999999999999999999]", Some(&[999_999_999_999_999_999, -999_999_999_999_999_999])),
            ("[1000000000000000000]", None),
            ("[]", None),
            ("[ ]", None),
            ("[1,]", None),
            ("[1 2]", None),
            ("[1", None),
            ("[1,", None),
            ("[", None),
            ("[01]", None),
            ("[1,00]", None),
            ("[-01]", None),
            ("[0123456789]", None),
            ("[-]", None),
            ("[+1]", None),
            ("[1, 2.0]", None),
            ("[12345678.5]", None),
            ("[1e2]", None),
            ("[1,\u{c}2]", None),
            ("[1, null]", None),
            ("[true]", None),
            ("[1, [2]]", None),
            ("[\"1\"]", None),
        ] {
            assert_eq!(read(text).as_deref(), expected, "{text}");
        }
        let deep = |depth| Cursor::new("[1]").integers(depth, &mut Vec::new());
        assert_eq!([MAX_DEPTH - 1, MAX_DEPTH].map(deep), [true, false]);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2000))]

        #[test]
        fn integers_are_those_of_serde_json(numbers in prop::collection::vec(any::<i64>(), 1..9), blanks in any::<bool>()) {
            let numbers: Vec<i64> = numbers.iter().enumerate().map(|(at, number)| number >> (at * 9 % 60)).collect();
            let text = if blanks { serde_json::to_string_pretty(&numbers) } else { serde_json::to_string(&numbers) };
            let mut read = Vec::new();
            let is_passed = Cursor::new(&text.unwrap()).integers(0, &mut read);
            prop_assert_eq!(is_passed, numbers.iter().all(|number| number.unsigned_abs() < 10_u64.pow(18)));
            if is_passed {
                prop_assert_eq!(read, numbers);
            }
        }

        /// What is passed as integers is JSON, whatever is wrong with it.
        #[test]
        fn no_array_of_integers_is_passed_that_is_not_json(text in "\\[([0-9,. eE+-]|[0-9]{1,3},|-?[0-9]{6,20},){0,8}\\]?") {
            let mut read = Vec::new();
            let mut cursor = Cursor::new(&text);
            let is_passed = cursor.integers(0, &mut read);
            let judge: Result<Vec<serde_json::Value>, _> = serde_json::from_str(&text[..cursor.at]);
            // The judge takes -0 for a float.
            let integer = |value: &serde_json::Value| value.as_i64().or((value.as_f64() == Some(0.0)).then_some(0));
            match judge.map(|judge| judge.iter().map(integer).collect::<Option<Vec<_>>>()) {
                Ok(judge) if is_passed => prop_assert_eq!(Some(read), judge),
                _ => prop_assert!(!is_passed, "{}", text),
            }
        }

        /// serde_json is the judge of what is JSON.
        #[test]
        fn what_is_json_is_what_serde_json_takes(text in "([\\[\\]{},:\"\\\\ntu0-9.eE+ -]|true|null|\"a\":|[0-9]{1,3}|\\\\u00e9){0,12}") {
            let judge: Result<serde::de::IgnoredAny, _> = serde_json::from_str(&text);
            prop_assert_eq!(scanned(&text).is_ok(), judge.is_ok(), "{}", text);
        }
    }
}
