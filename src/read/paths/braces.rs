//! Patterns with braces, as bash and Python's `braceexpand` (which WebDataset uses) expand them.

use std::iter::Peekable;
use std::str::Chars;

/// Deepest nesting of braces.
const MAX_DEPTH: usize = 32;

/// A parsed pattern.
#[derive(Debug, Default)]
pub(super) struct Pattern(Vec<Part>);

#[derive(Debug)]
enum Part {
    Text(String),
    /// One of several patterns.
    List(Vec<Pattern>),
    /// Numbers from a first to a last one, by steps, written with at least this width.
    Numbers {
        first: i64,
        step: i64,
        count: u64,
        width: usize,
    },
    /// Letters of the alphabet, by their places in it.
    Letters(Vec<char>),
}

impl Pattern {
    /// `None` if the text stands only for itself: without braces, with unpaired braces, or with braces that are neither
    /// a range nor a list.
    pub(super) fn of(text: &str) -> Option<Self> {
        let mut characters = text.chars().peekable();
        let pattern = Self::parse(&mut characters, 0)?;
        (characters.next().is_none() && pattern.0.iter().any(|part| !matches!(part, Part::Text(_)))).then_some(pattern)
    }

    /// Parses up to the end, or inside of braces up to the comma or brace that ends this part.
    fn parse(characters: &mut Peekable<Chars<'_>>, depth: usize) -> Option<Self> {
        let mut pattern = Self::default();
        while let Some(next) = characters.next_if(|next| depth == 0 || !matches!(next, ',' | '}')) {
            match next {
                '\\' if !cfg!(windows) => pattern.push(characters.next().unwrap_or('\\')),
                '{' => pattern.braces(characters, depth + 1)?,
                '}' => return None,
                other => pattern.push(other),
            }
        }
        Some(pattern)
    }

    /// Parses what follows an opening brace, including the closing one.
    fn braces(&mut self, characters: &mut Peekable<Chars<'_>>, depth: usize) -> Option<()> {
        if depth > MAX_DEPTH {
            return None;
        }
        let mut list = vec![Self::parse(characters, depth)?];
        while characters.next()? == ',' {
            list.push(Self::parse(characters, depth)?);
        }
        let [Self(parts)] = list.as_mut_slice() else {
            self.0.push(Part::List(list));
            return Some(());
        };
        let range = match parts.as_slice() {
            [Part::Text(text)] => range(text),
            _ => None,
        };
        match range {
            Some(range) => self.0.push(range),
            // Neither a range nor a list: the braces stand for themselves.
            None => {
                self.push('{');
                self.0.append(parts);
                self.push('}');
            }
        }
        Some(())
    }

    fn push(&mut self, character: char) {
        match self.0.last_mut() {
            Some(Part::Text(text)) => text.push(character),
            _ => self.0.push(Part::Text(character.into())),
        }
    }

    /// Number of texts that it stands for.
    pub(super) fn count(&self) -> u64 {
        let count = |part: &Part| match part {
            Part::Text(_) => 1,
            Part::List(list) => list.iter().fold(0, |sum: u64, pattern| sum.saturating_add(pattern.count())),
            Part::Numbers { count, .. } => *count,
            Part::Letters(letters) => letters.len() as u64,
        };
        self.0.iter().map(count).fold(1, u64::saturating_mul)
    }

    /// Those texts, in order: the last braces change fastest.
    pub(super) fn expand(&self) -> Vec<String> {
        let mut found = vec![String::new()];
        for part in &self.0 {
            let choices: Vec<String> = match part {
                Part::Text(text) => vec![text.clone()],
                Part::List(list) => list.iter().flat_map(Self::expand).collect(),
                Part::Numbers { first, step, count, width } => {
                    let number = |nth: u64| first.wrapping_add(step.wrapping_mul(nth as i64));
                    (0..*count).map(|nth| format!("{:0width$}", number(nth))).collect()
                }
                Part::Letters(letters) => letters.iter().map(char::to_string).collect(),
            };
            let with = |start: &String| choices.iter().map(|choice| format!("{start}{choice}")).collect::<Vec<_>>();
            found = found.iter().flat_map(with).collect();
        }
        found
    }
}

/// `0..10`, `010..000`, `a..e`, each with an optional step. The sign of the step does not matter.
fn range(text: &str) -> Option<Part> {
    let (first, rest) = text.split_once("..")?;
    let (last, step) = rest.split_once("..").map_or((rest, None), |(last, step)| (last, Some(step)));
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let unsigned = |text: &'_ str| digits(text.strip_prefix('-').unwrap_or(text));
    let step = match step {
        None => 1,
        Some(step) if unsigned(step) => i64::try_from(step.parse::<i64>().ok()?.unsigned_abs()).ok()?.max(1),
        Some(_) => return None,
    };
    if unsigned(first) && unsigned(last) {
        let is_padded =
            |text: &str| text.trim_start_matches('-').len() > 1 && text.trim_start_matches('-').starts_with('0');
        let width = if is_padded(first) || is_padded(last) { first.len().max(last.len()) } else { 0 };
        let (first, last) = (first.parse::<i64>().ok()?, last.parse::<i64>().ok()?);
        let count = (first.abs_diff(last) / step.unsigned_abs()).saturating_add(1);
        return Some(Part::Numbers { first, step: if first <= last { step } else { -step }, count, width });
    }
    const ALPHABET: &str = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
    let place = |text: &str| if text.len() == 1 { ALPHABET.find(text) } else { None };
    let (first, last) = (place(first)?, place(last)?);
    let letters = ALPHABET[first.min(last)..=first.max(last)].chars();
    let step = usize::try_from(step).unwrap_or(usize::MAX);
    Some(Part::Letters(match first <= last {
        true => letters.step_by(step).collect(),
        false => letters.rev().step_by(step).collect(),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn expanded(text: &str) -> Vec<String> {
        Pattern::of(text).map_or_else(Vec::new, |pattern| pattern.expand())
    }

    /// What bash 5 and braceexpand 0.1.7 give, if they agree.
    #[test]
    fn braces_expand_as_in_bash_and_python() {
        let cases: &[(&str, &[&str])] = &[
            (r"a-{008..011}.tar", &["a-008.tar", "a-009.tar", "a-010.tar", "a-011.tar"]),
            (r"a-{8..10}.tar", &["a-8.tar", "a-9.tar", "a-10.tar"]),
            (r"{2..0}", &["2", "1", "0"]),
            (r"{x,y}/{0..1}.tar", &["x/0.tar", "x/1.tar", "y/0.tar", "y/1.tar"]),
            (r"{a..e}", &["a", "b", "c", "d", "e"]),
            (r"{c..a}", &["c", "b", "a"]),
            (r"{0..10..2}", &["0", "2", "4", "6", "8", "10"]),
            (r"{10..0..-3}", &["10", "7", "4", "1"]),
            (r"{a..g..2}", &["a", "c", "e", "g"]),
            (r"{g..a..3}", &["g", "d", "a"]),
            (r"{00..10..5}", &["00", "05", "10"]),
            (r"{-2..1}", &["-2", "-1", "0", "1"]),
            (r"{-01..1}", &["-01", "000", "001"]),
            (r"{2..-1}", &["2", "1", "0", "-1"]),
            (r"x{1,{5..7},b{c,d}}y", &["x1y", "x5y", "x6y", "x7y", "xbcy", "xbdy"]),
            (r"{a,b{1..2}{x,y}}", &["a", "b1x", "b1y", "b2x", "b2y"]),
            (r"{,-old}.tar", &[".tar", "-old.tar"]),
            (r"{A..C}{01..02}", &["A01", "A02", "B01", "B02", "C01", "C02"]),
            (r"{1..3..0}", &["1", "2", "3"]),
            (r"python{2.{5..7},3.{2,3}}", &["python2.5", "python2.6", "python2.7", "python3.2", "python3.3"]),
            (r"{a}{b,c}", &["{a}b", "{a}c"]),
            (r"{a}-{1..2}", &["{a}-1", "{a}-2"]),
            (r"{{1..2}}", &["{1}", "{2}"]),
            (r"{1..2}{3..4}", &["13", "14", "23", "24"]),
            (r"{x{1,2}}", &["{x1}", "{x2}"]),
            (r"{5..5}", &["5"]),
            (r"\{a,b\}{1,2}", &["{a,b}1", "{a,b}2"]),
            (r"a{b\,c,d}", &["ab,c", "ad"]),
            (r"{1..a}{1,2}", &["{1..a}1", "{1..a}2"]),
            (r"{1.5..3}{1,2}", &["{1.5..3}1", "{1.5..3}2"]),
            (r"{a..cc}{1,2}", &["{a..cc}1", "{a..cc}2"]),
            (r"{1..2..x}{1,2}", &["{1..2..x}1", "{1..2..x}2"]),
            (r"{0..-0}", &["0"]),
            (r"{007..5}", &["007", "006", "005"]),
        ];
        for (text, expected) in cases {
            if !(cfg!(windows) && text.contains('\\')) {
                assert_eq!(expanded(text), *expected, "{text}");
            }
        }
        assert_eq!(expanded("{a,,b}"), ["a", "", "b"]);
        // Bash also takes the signs between Z and a.
        assert_eq!(expanded("{Y..b}"), ["Y", "Z", "a", "b"]);
    }

    #[test]
    fn what_is_no_pattern_stands_for_itself() {
        for text in ["plain.tar", "{a,b", "a}", "{a}{b", "{a}.tar", "{}", "{1..a}", "{0..99999999999999999999}", ""] {
            assert!(Pattern::of(text).is_none(), "{text}");
        }
        assert!(Pattern::of(&"{a,".repeat(100_000)).is_none());
        assert!(Pattern::of(&format!("{}{}", "{a,".repeat(1000), "}".repeat(1000))).is_none());
    }

    #[test]
    fn what_it_stands_for_is_counted_without_writing_it_down() {
        for text in ["{0..9}{a..c}", "{a,b{1..2}{x,y}}", "{10..0..-3}", "{-9223372036854775807..-9223372036854775806}"]
        {
            let pattern = Pattern::of(text).unwrap();
            assert_eq!(pattern.count(), pattern.expand().len() as u64, "{text}");
        }
        let all = "{-9223372036854775807..9223372036854775807}";
        assert_eq!(Pattern::of(all).unwrap().count(), u64::MAX);
        assert_eq!(Pattern::of(&all.repeat(3)).unwrap().count(), u64::MAX);
    }
}
