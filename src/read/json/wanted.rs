//! The wanted values of a text: any number of them, found in one pass.

use std::ops::Range;

use super::scan::{Cursor, Fault};
use super::value::unescape;

/// The steps of a JSON pointer (RFC 6901), such as `"/a/b/0"`. The empty pointer stands for the whole text.
pub(in crate::read) fn steps(pointer: &str) -> Vec<String> {
    pointer.split('/').skip(1).map(|step| step.replace("~1", "/").replace("~0", "~")).collect()
}

/// The steps to the field of this name, which may be a pointer.
pub(in crate::read) fn steps_to(name: &str) -> Vec<String> {
    if name.is_empty() || name.starts_with('/') { steps(name) } else { vec![name.to_owned()] }
}

/// A step as a position in an array, if it can be one.
fn position_of(step: &str) -> Option<usize> {
    let is_position = step.bytes().all(|byte| byte.is_ascii_digit()) && (step == "0" || !step.starts_with('0'));
    if is_position { step.parse().ok() } else { None }
}

/// The values that are wanted from each text, by number.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::read) struct Wanted {
    /// The first node is the whole text.
    nodes: Vec<Node>,
    count: usize,
}

/// A wanted value, or one on the path to a wanted value.
#[derive(Clone, Debug, Default, PartialEq)]
struct Node {
    numbers: Vec<usize>,
    /// The next steps, sorted.
    ways: Vec<Way>,
    /// Those that can be positions in an array, sorted, each with its node.
    positions: Vec<(usize, usize)>,
}

#[derive(Clone, Debug, PartialEq)]
struct Way {
    step: String,
    node: usize,
}

/// Where a value is in its text.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(in crate::read) struct Span(usize, usize);

impl Span {
    const NONE: Self = Self(usize::MAX, 0);

    /// Where it begins.
    pub(in crate::read) fn start(self) -> usize {
        self.0
    }

    /// The value's text, if it was found.
    pub(in crate::read) fn of(self, text: &str) -> Option<&str> {
        text.get(self.0..self.1)
    }
}

/// Where the values of a text are, by number.
#[derive(Debug, Default)]
pub(in crate::read) struct Found {
    spans: Vec<Span>,
    /// A buffer for a key that is written with escapes.
    key: String,
}

impl Found {
    /// Where the values are; some may not have been found.
    pub(in crate::read) fn spans(&self) -> &[Span] {
        &self.spans
    }
}

impl Default for Wanted {
    fn default() -> Self {
        Self { nodes: vec![Node::default()], count: 0 }
    }
}

impl Wanted {
    /// Adds the value that `steps` lead to, as number `number`.
    pub(in crate::read) fn add(&mut self, steps: &[String], number: usize) {
        let mut at = 0;
        for step in steps {
            at = match self.nodes[at].ways.binary_search_by(|way| way.step.as_str().cmp(step)) {
                Ok(way) => self.nodes[at].ways[way].node,
                Err(place) => {
                    let node = self.nodes.len();
                    let Node { ways, positions, .. } = &mut self.nodes[at];
                    ways.insert(place, Way { step: step.clone(), node });
                    if let Some(position) = position_of(step) {
                        let place = positions.partition_point(|(other, _)| *other < position);
                        positions.insert(place, (position, node));
                    }
                    self.nodes.push(Node::default());
                    node
                }
            };
        }
        if !self.nodes[at].numbers.contains(&number) {
            self.nodes[at].numbers.push(number);
        }
        self.count = self.count.max(number + 1);
    }

    /// Reads all of `text` and writes to `found` where the values are, by number.
    ///
    /// # Errors
    ///
    /// Where it is no JSON.
    pub(in crate::read) fn find(&self, text: &str, Found { spans, key }: &mut Found) -> Result<(), Fault> {
        spans.clear();
        spans.resize(self.count, Span::NONE);
        self.search(text, spans, key)
    }

    /// Like [`find`](Self::find), if a single value is wanted, as number 0.
    pub(in crate::read) fn find_one<'t>(&self, text: &'t str) -> Result<Option<&'t str>, Fault> {
        let mut span = [Span::NONE];
        self.search(text, &mut span, &mut String::new())?;
        Ok(span[0].of(text))
    }

    fn search(&self, text: &str, found: &mut [Span], unescaped: &mut String) -> Result<(), Fault> {
        let mut search = Search { wanted: self, text, cursor: Cursor::new(text), found, unescaped };
        search.value(0, 0)?;
        search.cursor.end()
    }
}

struct Search<'a> {
    wanted: &'a Wanted,
    text: &'a str,
    cursor: Cursor<'a>,
    found: &'a mut [Span],
    unescaped: &'a mut String,
}

impl Search<'_> {
    fn value(&mut self, node: usize, depth: usize) -> Result<(), Fault> {
        let first = self.cursor.next();
        let start = self.cursor.at;
        let Node { numbers, ways, positions } = &self.wanted.nodes[node];
        match first {
            Some(b'{') if !ways.is_empty() => self.object(ways, depth)?,
            Some(b'[') if !positions.is_empty() => self.array(positions, depth)?,
            _ => self.cursor.skip(depth)?,
        }
        numbers.iter().for_each(|number| self.found[*number] = Span(start, self.cursor.at));
        Ok(())
    }

    fn object(&mut self, ways: &[Way], depth: usize) -> Result<(), Fault> {
        let mut more = self.cursor.enter(depth, b'}')?;
        while more {
            let key = self.cursor.key()?;
            match self.way_of(ways, key) {
                Some(node) => {
                    // If a key occurs twice, its last value counts, as in Python and most readers.
                    self.forget(node);
                    self.value(node, depth + 1)?;
                }
                None => self.cursor.skip(depth + 1)?,
            }
            more = self.cursor.more(b'}')?;
        }
        Ok(())
    }

    fn array(&mut self, mut positions: &[(usize, usize)], depth: usize) -> Result<(), Fault> {
        let mut more = self.cursor.enter(depth, b']')?;
        let mut at = 0;
        while more {
            match positions.split_first() {
                Some(((position, node), rest)) if *position == at => {
                    positions = rest;
                    self.value(*node, depth + 1)?;
                }
                _ => self.cursor.skip(depth + 1)?,
            }
            at += 1;
            more = self.cursor.more(b']')?;
        }
        Ok(())
    }

    /// The node that a key leads to.
    #[inline]
    fn way_of(&mut self, ways: &[Way], key: Range<usize>) -> Option<usize> {
        let mut key = &self.text[key];
        if memchr::memchr(b'\\', key.as_bytes()).is_some() {
            // No pointer contains half of a surrogate pair.
            unescape(key, self.unescaped).ok()?;
            key = self.unescaped;
        }
        let found = ways.binary_search_by(|way| way.step.as_str().cmp(key));
        found.ok().map(|way| ways[way].node)
    }

    fn forget(&mut self, node: usize) {
        let Node { numbers, ways, .. } = &self.wanted.nodes[node];
        numbers.iter().for_each(|number| self.found[*number] = Span::NONE);
        ways.iter().for_each(|way| self.forget(way.node));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_are_found_by_their_positions_whatever_the_order_of_the_steps() {
        let mut wanted = Wanted::default();
        for (number, pointer) in
            ["/10", "/2/a", "/0", "/02", "/9", "/a", "/2/b", "/18446744073709551616"].iter().enumerate()
        {
            wanted.add(&steps(pointer), number);
        }
        let mut found = Found::default();
        let mut of = |text: &'static str| {
            wanted.find(text, &mut found).unwrap();
            found.spans().iter().map(|span| span.of(text)).collect::<Vec<_>>()
        };
        let elements = [Some("110"), Some("7"), Some("100"), None, Some("109"), None, Some("8"), None];
        assert_eq!(of(r#"[100, 101, {"b": 8, "a": 7}, 103, 104, 105, 106, 107, 108, 109, 110, 111]"#), elements);
        let members = [None, None, Some("0"), Some("2"), None, Some("5"), None, None];
        assert_eq!(of(r#"{"a": 5, "02": 2, "0": 0}"#), members);
        assert_eq!(of("[1]"), [None, None, Some("1"), None, None, None, None, None]);
    }
}
