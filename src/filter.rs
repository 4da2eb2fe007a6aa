//! Selects records by comparisons of their fields.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use crate::error::{Error, ErrorKind, Result};

/// Deepest nesting of conditions.
const MAX_DEPTH: usize = 64;

/// A condition, such as `label != 3 and (kind == 'cat' or len(tokens) >= 32)`.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Filter {
    condition: Condition,
    /// The fields and lengths that it reads, by number.
    pub(crate) subjects: Vec<Subject>,
}

/// A subject of a filter: the value of a field of a record, or its length.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Subject {
    pub(crate) field: String,
    pub(crate) is_length: bool,
    /// Whether it is compared with texts; `None` if it is only checked for being missing.
    pub(crate) is_text: Option<bool>,
}

#[derive(Clone, Debug, PartialEq)]
enum Condition {
    Any(Vec<Condition>),
    All(Vec<Condition>),
    Not(Box<Condition>),
    /// Whether the comparison of a subject holds for one of these values (for `IsNot`, for all of them).
    Compare(usize, Comparison, Vec<Literal>),
    Missing(usize),
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Comparison {
    Is,
    IsNot,
    Less,
    LessOrIs,
    More,
    MoreOrIs,
}

#[derive(Clone, Debug, PartialEq)]
enum Literal {
    Integer(i128),
    Number(f64),
    Text(String),
}

/// A field's value in one record.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Known<'a> {
    Missing,
    /// An integer that f64 may not hold exactly.
    Integer(i128),
    Number(f64),
    Text(&'a str),
}

/// The largest integer that is compared exactly: it is the sum of two f64. Larger ones are the nearest f64.
pub(crate) const MOST_EXACT: i128 = 1 << 106;

/// The integer in a text, which may end as in `7.0`; `None` for other texts, and beyond [`MOST_EXACT`].
pub(crate) fn written_integer(text: &str) -> Option<i128> {
    let whole = if text.contains('.') { text.trim_end_matches('0').strip_suffix('.')? } else { text };
    whole.parse().ok().filter(|integer| (-MOST_EXACT..=MOST_EXACT).contains(integer))
}

/// Compares an integer with a number, exactly.
pub(crate) fn order(integer: i128, number: f64) -> Option<Ordering> {
    let whole = number.trunc();
    // Numbers beyond the integers become the largest or smallest integer.
    let by_fraction = if whole.is_finite() { 0.0.partial_cmp(&(number - whole)) } else { Some(Ordering::Equal) };
    (!number.is_nan()).then(|| integer.cmp(&(whole as i128)).then(by_fraction.unwrap_or(Ordering::Equal)))
}

#[derive(Clone, Debug, PartialEq)]
enum Token {
    Name(String),
    /// A name in backticks, which is never a keyword.
    Quoted(String),
    Literal(Literal),
    Mark(&'static str),
}

/// The signs between names and values. If two begin in the same way, the longer one comes first.
const MARKS: [&str; 11] = ["==", "!=", "<=", ">=", "<", ">", "(", ")", "[", "]", ","];

fn fault(at: usize, message: impl std::fmt::Display) -> Error {
    let example =
        "write conditions such as label != 3 and (kind in ['cat', 'dog'] or `my width` >= 32.5 or len(tokens) > 5)";
    Error::new(ErrorKind::Config, format!("character {}: {message}; {example}", at + 1))
}

/// The words of a condition, and the position of each.
fn tokens(text: &str) -> Result<Vec<(usize, Token)>> {
    let mut all = Vec::new();
    let (mut rest, mut before, mut at) = (text.trim_start(), text, 0);
    while let Some(first) = rest.chars().next() {
        at += before[..before.len() - rest.len()].chars().count();
        before = rest;
        let (token, len) = if let Some(mark) = MARKS.iter().find(|mark| rest.starts_with(**mark)) {
            (Token::Mark(mark), mark.len())
        } else if matches!(first, '\'' | '"' | '`') {
            let Some(end) = rest[1..].find(first) else { return Err(fault(at, format!("{first} is never closed"))) };
            let inner = rest[1..1 + end].to_owned();
            (if first == '`' { Token::Quoted(inner) } else { Token::Literal(Literal::Text(inner)) }, end + 2)
        } else {
            let is_end = |next: char| next.is_whitespace() || "=!<>()[],'\"`".contains(next);
            let word = &rest[..rest.find(is_end).unwrap_or(rest.len())];
            if word.is_empty() {
                return Err(fault(at, format!("{first:?} means nothing here")));
            }
            let number = word.parse::<f64>().ok().filter(|number| number.is_finite());
            let begins_a_number = first.is_ascii_digit() || matches!(first, '-' | '+' | '.');
            let token = match (number.filter(|_| begins_a_number), written_integer(word)) {
                (Some(_), Some(integer)) => Token::Literal(Literal::Integer(integer)),
                (Some(number), None) => Token::Literal(Literal::Number(number)),
                (None, _) => Token::Name(word.to_owned()),
            };
            (token, word.len())
        };
        all.push((at, token));
        rest = rest[len..].trim_start();
    }
    Ok(all)
}

struct Parser {
    tokens: Vec<(usize, Token)>,
    next: usize,
    end: usize,
    subjects: Vec<Subject>,
    numbers: BTreeMap<(String, bool), usize>,
}

impl Parser {
    fn at(&self) -> usize {
        self.tokens.get(self.next).map_or(self.end, |(at, _)| *at)
    }

    fn peek(&self) -> Option<&Token> {
        self.tokens.get(self.next).map(|(_, token)| token)
    }

    fn is_mark(&mut self, mark: &str) -> bool {
        let is = matches!(self.peek(), Some(Token::Mark(own)) if *own == mark);
        self.next += usize::from(is);
        is
    }

    fn is_word(&mut self, word: &str) -> bool {
        let is = matches!(self.peek(), Some(Token::Name(own)) if own == word);
        self.next += usize::from(is);
        is
    }

    fn any(&mut self, depth: usize) -> Result<Condition> {
        if depth > MAX_DEPTH {
            return Err(fault(self.at(), "too many conditions within conditions"));
        }
        let mut all = vec![self.all(depth)?];
        while self.is_word("or") {
            all.push(self.all(depth)?);
        }
        Ok(if all.len() == 1 { all.remove(0) } else { Condition::Any(all) })
    }

    fn all(&mut self, depth: usize) -> Result<Condition> {
        let mut all = vec![self.one(depth)?];
        while self.is_word("and") {
            all.push(self.one(depth)?);
        }
        Ok(if all.len() == 1 { all.remove(0) } else { Condition::All(all) })
    }

    fn one(&mut self, depth: usize) -> Result<Condition> {
        if depth > MAX_DEPTH {
            return Err(fault(self.at(), "too many conditions within conditions"));
        }
        if self.is_word("not") {
            return Ok(Condition::Not(Box::new(self.one(depth + 1)?)));
        }
        if self.is_mark("(") {
            let inner = self.any(depth + 1)?;
            return if self.is_mark(")") { Ok(inner) } else { Err(fault(self.at(), "a bracket is never closed")) };
        }
        let at = self.at();
        let subject = self.subject()?;
        if self.is_word("in") {
            let values = self.list()?;
            return self.compare(subject, Comparison::Is, values);
        }
        if self.is_word("not") {
            if !self.is_word("in") {
                return Err(fault(self.at(), "`in` is missing after `not`"));
            }
            let values = self.list()?;
            return self.compare(subject, Comparison::IsNot, values);
        }
        const COMPARISONS: [(&str, Comparison); 6] = [
            ("==", Comparison::Is),
            ("!=", Comparison::IsNot),
            ("<=", Comparison::LessOrIs),
            (">=", Comparison::MoreOrIs),
            ("<", Comparison::Less),
            (">", Comparison::More),
        ];
        let Some((_, comparison)) = COMPARISONS.into_iter().find(|(mark, _)| self.is_mark(mark)) else {
            return Err(fault(self.at(), "a comparison is missing: ==, !=, <, <=, >, >= or in"));
        };
        if self.is_word("missing") {
            return match comparison {
                Comparison::Is => Ok(Condition::Missing(subject)),
                Comparison::IsNot => Ok(Condition::Not(Box::new(Condition::Missing(subject)))),
                _ => Err(fault(at, "a value is missing or not: == or !=")),
            };
        }
        let value = self.literal()?;
        self.compare(subject, comparison, vec![value])
    }

    fn name(&mut self) -> Result<String> {
        let Some(Token::Name(name) | Token::Quoted(name)) = self.peek().cloned() else {
            return Err(fault(self.at(), "the name of a field is missing"));
        };
        self.next += 1;
        Ok(name)
    }

    /// The number of a field, or of its length.
    fn subject(&mut self) -> Result<usize> {
        let at = self.at();
        let mut field = self.name()?;
        let is_length = self.is_mark("(");
        if is_length {
            if field != "len" {
                return Err(fault(
                    at,
                    format!(
                        "{field} is not a function; the only function is len, the length of a \
                     field"
                    ),
                ));
            }
            field = self.name()?;
            if !self.is_mark(")") {
                return Err(fault(self.at(), "a bracket is never closed"));
            }
        }
        let next = self.subjects.len();
        let number = *self.numbers.entry((field.clone(), is_length)).or_insert(next);
        if number == next {
            self.subjects.push(Subject { field, is_length, is_text: None });
        }
        Ok(number)
    }

    fn list(&mut self) -> Result<Vec<Literal>> {
        if !self.is_mark("[") {
            return Err(fault(self.at(), "a list in [ ] is missing after `in`"));
        }
        let mut values = vec![self.literal()?];
        while self.is_mark(",") {
            values.push(self.literal()?);
        }
        if self.is_mark("]") { Ok(values) } else { Err(fault(self.at(), "a list is never closed")) }
    }

    fn literal(&mut self) -> Result<Literal> {
        let at = self.at();
        match self.peek().cloned() {
            Some(Token::Literal(literal)) => {
                self.next += 1;
                Ok(literal)
            }
            Some(Token::Name(name)) if matches!(name.as_str(), "inf" | "-inf") => {
                self.next += 1;
                Ok(Literal::Number(if name == "inf" { f64::INFINITY } else { f64::NEG_INFINITY }))
            }
            Some(Token::Name(name) | Token::Quoted(name)) => {
                Err(fault(at, format!("{name} is not a value; a value is a number, or a text in quotes")))
            }
            _ => Err(fault(at, "a value is missing: a number, or a text in quotes")),
        }
    }

    fn compare(&mut self, subject: usize, comparison: Comparison, values: Vec<Literal>) -> Result<Condition> {
        for value in &values {
            let is_text = matches!(value, Literal::Text(_));
            let is_blank = matches!(value, Literal::Text(text) if text.trim().is_empty());
            let Subject { field, is_length, is_text: known } = &mut self.subjects[subject];
            let message = match known {
                _ if *is_length && is_text => format!("len({field}) is compared with a text; a length is a number"),
                _ if is_blank && comparison == Comparison::Is => {
                    format!("{field} is compared with blanks, which are a missing value: write {field} == missing")
                }
                Some(known) if *known != is_text => {
                    format!("{field} is compared with numbers and with texts; it is one of them")
                }
                _ => {
                    *known = Some(is_text);
                    continue;
                }
            };
            return Err(Error::new(ErrorKind::Config, message));
        }
        Ok(Condition::Compare(subject, comparison, values))
    }
}

impl Filter {
    /// # Errors
    ///
    /// [`ErrorKind::Config`] with the character at which the condition is wrong.
    pub(crate) fn parse(text: &str) -> Result<Self> {
        let mut parser = Parser {
            tokens: tokens(text)?,
            next: 0,
            end: text.chars().count(),
            subjects: Vec::new(),
            numbers: BTreeMap::new(),
        };
        let condition = parser.any(0)?;
        if parser.peek().is_some() {
            return Err(fault(parser.at(), "`and` or `or` is missing"));
        }
        Ok(Self { condition, subjects: parser.subjects })
    }

    /// The same filter, with `named` applied to each text that it compares with.
    pub(crate) fn with_texts(mut self, named: impl Fn(&str) -> &str) -> Self {
        self.condition.each_literal(&mut |literal| {
            if let Literal::Text(text) = literal {
                *text = named(text).to_owned();
            }
        });
        self
    }

    /// Whether a record is kept whose [`subjects`](Self::subjects) have these values, in their order. A missing value
    /// is neither equal to any other value nor different from it.
    pub(crate) fn keeps<'a>(&self, value: &impl Fn(usize) -> Known<'a>) -> bool {
        self.condition.holds(value)
    }
}

impl Condition {
    fn each_literal(&mut self, visit: &mut dyn FnMut(&mut Literal)) {
        match self {
            Self::Any(all) | Self::All(all) => all.iter_mut().for_each(|one| one.each_literal(visit)),
            Self::Not(one) => one.each_literal(visit),
            Self::Compare(_, _, literals) => literals.iter_mut().for_each(visit),
            Self::Missing(_) => {}
        }
    }

    fn holds<'a>(&self, value: &impl Fn(usize) -> Known<'a>) -> bool {
        match self {
            Self::Any(all) => all.iter().any(|one| one.holds(value)),
            Self::All(all) => all.iter().all(|one| one.holds(value)),
            Self::Not(one) => !one.holds(value),
            Self::Missing(field) => matches!(value(*field), Known::Missing),
            Self::Compare(field, comparison, literals) => {
                let value = value(*field);
                let compared = |literal: &Literal| match (value, literal) {
                    (Known::Integer(number), Literal::Integer(other)) => Some(number.cmp(other)),
                    (Known::Integer(number), Literal::Number(other)) => order(number, *other),
                    (Known::Number(number), Literal::Integer(other)) => order(*other, number).map(Ordering::reverse),
                    (Known::Number(number), Literal::Number(other)) => number.partial_cmp(other),
                    (Known::Text(text), Literal::Text(other)) => Some(text.cmp(other)),
                    _ => None,
                };
                let holds = |literal: &Literal| {
                    compared(literal).is_some_and(|order| match comparison {
                        Comparison::Is => order.is_eq(),
                        Comparison::IsNot => order.is_ne(),
                        Comparison::Less => order.is_lt(),
                        Comparison::LessOrIs => order.is_le(),
                        Comparison::More => order.is_gt(),
                        Comparison::MoreOrIs => order.is_ge(),
                    })
                };
                match comparison {
                    Comparison::IsNot => literals.iter().all(holds),
                    _ => literals.iter().any(holds),
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keeps(text: &str, fields: &[(&str, Known<'_>)]) -> bool {
        let filter = Filter::parse(text).unwrap();
        filter.keeps(&|field| {
            let Subject { field, is_length, .. } = &filter.subjects[field];
            let name = if *is_length { format!("len({field})") } else { field.clone() };
            fields.iter().find(|(own, _)| *own == name).map_or(Known::Missing, |(_, value)| *value)
        })
    }

    #[test]
    fn conditions_mean_what_they_say() {
        let known = [("a", Known::Number(3.0)), ("kind", Known::Text("cat")), ("my width", Known::Number(-2.5))];
        let keywords = [("not", 5.0), ("and", 6.0), ("or", 7.0), ("in", 9.0)];
        let keywords = keywords.map(|(name, number)| (name, Known::Number(number)));
        let fields = [&known[..], &keywords].concat();
        for (text, expected) in [
            ("a == 3", true),
            ("a != 3", false),
            ("a<3", false),
            ("a<=3 and a>=3.0 and a>2", true),
            ("a == 4 or kind == 'cat'", true),
            ("a == 4 or a == 3 and kind == 'dog'", false),
            ("(a == 4 or a == 3) and kind != \"dog\"", true),
            ("not (a == 3)", false),
            ("not a == 4 and not not kind == 'cat'", true),
            ("kind in ['dog', 'cat']", true),
            ("kind not in ['dog', 'cat']", false),
            ("a not in [1, 2]", true),
            ("`my width` == -2.5", true),
            ("kind < 'dog'", true),
            ("kind != '' and kind not in ['', 'dog'] and kind > ''", true),
            ("b != ''", false),
            ("b == missing and a != missing", true),
            ("b == 1", false),
            ("b != 1", false),
            ("not b == 1", true),
            ("`not` == 5 and not `not` == 4", true),
            ("not `not` == missing", true),
            ("`and` in [6] and `or` not in [6, 8] and `in` == 9", true),
        ] {
            assert_eq!(keeps(text, &fields), expected, "{text}");
        }
    }

    #[test]
    fn a_field_and_its_length_are_two_things() {
        let fields = [
            ("kind", Known::Text("cat")),
            ("len(kind)", Known::Number(3.0)),
            ("len(my ids)", Known::Number(0.0)),
            ("len", Known::Number(7.0)),
            ("len(len)", Known::Number(1.0)),
        ];
        for (text, expected) in [
            ("len(kind) == 3", true),
            ("len ( kind )<3", false),
            ("kind == 'cat' and len(kind) in [2, 3]", true),
            ("len(kind) not in [2, 3]", false),
            ("len(`my ids`) == 0 and not len(`my ids`) > 0", true),
            ("len(/ids) == missing and len(/ids) != 3", false),
            ("len(/ids) == missing", true),
            ("len == 7 and len(len) == 1", true),
        ] {
            assert_eq!(keeps(text, &fields), expected, "{text}");
        }
    }

    #[test]
    fn numbers_are_compared_exactly() {
        let large = (1i128 << 53) + 1;
        for (text, expected) in [
            ("a == 9007199254740993", true),
            ("a == 9007199254740992", false),
            ("a == 9007199254740993.0", true),
            ("a == +9007199254740993.00", true),
            ("a > 9007199254740992.0", true),
            ("a < 9007199254740993.5 and a > 9007199254740992.", true),
            ("a < inf and a > -inf", true),
            ("a in [9007199254740992, 9007199254740993]", true),
            ("a < 1e300 and a > -1e300", true),
        ] {
            assert_eq!(keeps(text, &[("a", Known::Integer(large))]), expected, "{text}");
        }
        for (text, expected) in
            [("a == 9007199254740993", false), ("a < 9007199254740993", true), ("a >= 9007199254740992", true)]
        {
            assert_eq!(keeps(text, &[("a", Known::Number(9_007_199_254_740_992.0))]), expected, "{text}");
        }
        let largest = f64::MAX;
        for (text, field, expected) in [
            ("a == 40564819207303340847894502572032", Known::Number(MOST_EXACT as f64 / 2.0), true),
            ("a == 162259276829213363391578010288129", Known::Number(MOST_EXACT as f64 * 2.0), true),
            ("a == inf", Known::Number(f64::INFINITY), true),
            ("a in [-inf, inf]", Known::Number(largest), false),
            ("a < inf", Known::Number(largest), true),
        ] {
            assert_eq!(keeps(text, &[("a", field)]), expected, "{text}");
        }
        for (integer, number, expected) in [
            (2, 2.5, Some(Ordering::Less)),
            (3, 2.5, Some(Ordering::Greater)),
            (-2, -2.5, Some(Ordering::Greater)),
            (-3, -2.5, Some(Ordering::Less)),
            (2, 2.0, Some(Ordering::Equal)),
            (0, -0.0, Some(Ordering::Equal)),
            (5, f64::INFINITY, Some(Ordering::Less)),
            (5, f64::NEG_INFINITY, Some(Ordering::Greater)),
            (5, f64::NAN, None),
        ] {
            assert_eq!(order(integer, number), expected, "{integer} {number}");
        }
    }

    #[test]
    fn what_is_no_condition_is_said_with_its_place() {
        for (text, part) in [
            ("", "character 1: the name of a field is missing"),
            ("a", "a comparison is missing"),
            ("a = 3", "means nothing here"),
            ("a == b", "b is not a value"),
            ("a == `missing`", "missing is not a value"),
            ("a == `inf`", "inf is not a value"),
            ("a == 1 `and` b == 2", "`and` or `or` is missing"),
            ("a == 'x", "' is never closed"),
            ("(a == 3", "a bracket is never closed"),
            ("a == 3 b == 4", "character 8: `and` or `or` is missing"),
            ("größe == 1 b == 4", "character 12: `and` or `or` is missing"),
            ("größe == ", "character 10: a value is missing"),
            ("a == 3 and a == 'x'", "with numbers and with texts"),
            ("a in 3", "a list in [ ] is missing"),
            ("a in [3", "a list is never closed"),
            ("a < missing", "== or !="),
            ("3 == a", "the name of a field is missing"),
            ("len() > 3", "character 5: the name of a field is missing"),
            ("len(a > 3", "character 7: a bracket is never closed"),
            ("len(a)", "a comparison is missing"),
            ("size(a) > 3", "character 1: size is not a function; the only function is len"),
            ("len(a) == 'x'", "len(a) is compared with a text; a length is a number"),
            ("a == ''", "a is compared with blanks, which are a missing value: write a == missing"),
            ("a in ['x', \"  \"]", "write a == missing"),
        ] {
            let error = Filter::parse(text).unwrap_err();
            assert!(error.message().contains(part), "{part} in {error}");
        }
        assert!(Filter::parse(&"(".repeat(100_000)).unwrap_err().message().contains("within conditions"));
        assert!(Filter::parse(&"not ".repeat(100_000)).unwrap_err().message().contains("within conditions"));
    }
}
