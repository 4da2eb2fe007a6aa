//! One line: `LABEL[,LABEL...] [qid:ID] INDEX:VALUE ... [# COMMENT]`.

use std::ops::Range;

/// Where the parts of a line are. Reused from line to line.
#[derive(Debug, Default)]
pub(super) struct Parsed {
    /// Each label.
    pub(super) labels: Vec<Range<usize>>,
    pub(super) query: Option<i64>,
    /// The indices of the features, as the line has them.
    pub(super) indices: Vec<i64>,
    /// Their values.
    pub(super) values: Vec<Range<usize>>,
}

/// A fault in a line, and its byte.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Fault {
    pub(super) message: String,
    pub(super) at: usize,
}

fn fault<T>(at: usize, message: impl Into<String>) -> Result<T, Fault> {
    Err(Fault { message: message.into(), at })
}

/// The part of a line before its comment.
pub(super) fn uncommented(line: &[u8]) -> &[u8] {
    &line[..memchr::memchr(b'#', line).unwrap_or(line.len())]
}

/// Finds the parts of a line whose comment was removed. With `multilabel` there may be several labels, or none.
pub(super) fn parse(line: &str, multilabel: bool, parsed: &mut Parsed) -> Result<(), Fault> {
    let Parsed { labels, query, indices, values } = parsed;
    labels.clear();
    indices.clear();
    values.clear();
    *query = None;
    let mut words = Words { bytes: line.as_bytes(), at: 0 };
    let mut next = words.next();
    if let Some(word) = next.clone()
        && !line[word.clone()].contains(':')
    {
        let mut at = word.start;
        for label in line[word].split(',') {
            labels.push(number(line, at..at + label.len())?);
            at += label.len() + 1;
        }
        next = words.next();
    }
    match labels.len() {
        0 if !multilabel => {
            return fault(0, "the line has no label: write one before its features, such as 0, or set multilabel");
        }
        2.. if !multilabel => {
            return fault(labels[1].start, "several labels; set multilabel, so that there may be any number");
        }
        _ => {}
    }
    if let Some(word) = next.clone()
        && let Some(id) = line[word.clone()].strip_prefix("qid:")
    {
        let Ok(id) = id.parse() else { return fault(word.start, format!("the qid {id:?} is not a whole number")) };
        *query = Some(id);
        next = words.next();
    }
    let mut last = -1;
    while let Some(word) = next {
        let Some(colon) = memchr::memchr(b':', &line.as_bytes()[word.clone()]) else {
            return fault(word.start, format!("expected INDEX:VALUE, found {:?}", shown(&line[word])));
        };
        let text = &line[word.start..word.start + colon];
        let digits = text.bytes().all(|byte| byte.is_ascii_digit());
        let Some(index) = text.parse::<i64>().ok().filter(|_| digits) else {
            return fault(word.start, format!("{:?} is not the index of a feature", shown(text)));
        };
        if index <= last {
            let message = format!("index {index} after {last}: the indices of a line must increase, each once");
            return fault(word.start, message);
        }
        last = index;
        indices.push(index);
        values.push(number(line, word.start + colon + 1..word.end)?);
        next = words.next();
    }
    Ok(())
}

/// A number's digits, without a leading plus sign.
fn number(line: &str, range: Range<usize>) -> Result<Range<usize>, Fault> {
    let text = &line.as_bytes()[range.clone()];
    let is_number = |byte: &u8| byte.is_ascii_digit() || matches!(byte, b'+' | b'-' | b'.' | b'e' | b'E');
    if !text.iter().all(is_number) || !text.iter().any(u8::is_ascii_digit) {
        return fault(range.start, format!("expected a number, found {:?}", shown(&line[range])));
    }
    let plus = usize::from(matches!(text, [b'+', b'0'..=b'9' | b'.', ..]));
    Ok(range.start + plus..range.end)
}

fn shown(text: &str) -> &str {
    const SHOWN: usize = 40;
    text.char_indices().nth(SHOWN).map_or(text, |(end, _)| &text[..end])
}

/// The words of a line, which are separated by blanks.
struct Words<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl Iterator for Words<'_> {
    type Item = Range<usize>;

    fn next(&mut self) -> Option<Range<usize>> {
        let rest = &self.bytes[self.at..];
        let start = self.at + rest.iter().position(|byte| !byte.is_ascii_whitespace())?;
        let len = self.bytes[start..].iter().position(u8::is_ascii_whitespace);
        self.at = len.map_or(self.bytes.len(), |len| start + len);
        Some(start..self.at)
    }
}

/// Whether a line has a label and features, or several features.
pub(super) fn is_sparse(line: &[u8]) -> bool {
    let mut parsed = Parsed::default();
    let line = std::str::from_utf8(uncommented(line)).unwrap_or_default();
    // Without a label it is one that lost it: reading it says so.
    parse(line, true, &mut parsed).is_ok() && parsed.indices.len() + parsed.labels.len().min(1) > 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_taken_apart() {
        let mut parsed = Parsed::default();
        let line = " +1.5,-2\tqid:7  3:1 11:+.5\t14:-1e-3 ";
        parse(line, true, &mut parsed).unwrap();
        let texts = |ranges: &[Range<usize>]| ranges.iter().map(|range| &line[range.clone()]).collect::<Vec<_>>();
        assert_eq!((texts(&parsed.labels), parsed.query), (vec!["1.5", "-2"], Some(7)));
        assert_eq!((&*parsed.indices, texts(&parsed.values)), (&[3, 11, 14][..], vec!["1", ".5", "-1e-3"]));
        parse("1:2 3:4", true, &mut parsed).unwrap();
        assert_eq!((parsed.labels.len(), &*parsed.indices), (0, &[1, 3][..]));
        parse("0", false, &mut parsed).unwrap();
        assert_eq!((parsed.labels.len(), parsed.indices.len(), parsed.query), (1, 0, None));
    }

    #[test]
    fn what_is_wrong_is_said_where_it_is() {
        for (line, multilabel, at, message) in [
            ("", false, 0, "no label"),
            ("1:1", false, 0, "no label"),
            ("1,2 1:1", false, 2, "set multilabel"),
            ("one 1:1", false, 0, "expected a number, found \"one\""),
            ("1,,2 1:1", true, 2, "expected a number"),
            ("1 2 3:1", false, 2, "expected INDEX:VALUE, found \"2\""),
            ("1 3:1 3:2", false, 6, "index 3 after 3"),
            ("1 3:1 2:2", false, 6, "index 2 after 3"),
            ("1 -3:1", false, 2, "not the index"),
            ("1 :1", false, 2, "not the index"),
            ("1 99999999999999999999:1", false, 2, "not the index"),
            ("1 3:", false, 4, "expected a number"),
            ("1 3:nan", false, 4, "expected a number"),
            ("1 3:1:2", false, 4, "expected a number"),
            ("1 qid:x 3:1", false, 2, "not a whole number"),
            ("1 3:1 qid:4", false, 6, "not the index"),
        ] {
            let found = parse(line, multilabel, &mut Parsed::default()).unwrap_err();
            assert!(found.at == at && found.message.contains(message), "{line:?}: {found:?}");
        }
    }
}
