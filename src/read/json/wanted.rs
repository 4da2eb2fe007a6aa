//! The wanted values of a text: any number of them, found in one pass.

use std::cmp::Ordering;
use std::collections::{HashMap, HashSet};
use std::ops::Range;

use crate::error::{Error, Result};
use crate::read::container::{FieldInfo, Visit};

use super::scan::{Cursor, Fault};
use super::value::{Buffers, Raw, give, unescape};

/// The steps of a JSON pointer (RFC 6901), such as `"/a/b/0"`. The empty pointer stands for the whole text.
pub(in crate::read) fn steps(pointer: &str) -> Vec<String> {
    pointer.split('/').skip(1).map(|step| step.replace("~1", "/").replace("~0", "~")).collect()
}

/// The steps to the field of this name, which may be a pointer.
pub(in crate::read) fn steps_to(name: &str) -> Vec<String> {
    if name.is_empty() || name.starts_with('/') { steps(name) } else { vec![name.to_owned()] }
}

/// The names of the fields that only say that an object is missing: `null` where other records have an object with
/// fields.
pub(in crate::read) fn missing_objects(fields: &[FieldInfo]) -> HashSet<String> {
    let nulls = fields.iter().filter(|field| field.is_unseen && field.shape.is_empty());
    let mut nulls: HashMap<Vec<String>, &str> = nulls.map(|field| (steps_to(&field.name), &*field.name)).collect();
    let mut objects = HashSet::new();
    if !nulls.is_empty() {
        for steps in fields.iter().map(|field| steps_to(&field.name)) {
            objects.extend((0..steps.len()).filter_map(|len| nulls.remove(&steps[..len])).map(str::to_owned));
        }
    }
    objects
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
    /// The next steps, sorted by their marks.
    ways: Vec<Way>,
    /// Those that can be positions in an array, sorted, each with its node.
    positions: Vec<(usize, usize)>,
}

#[derive(Clone, Debug, PartialEq)]
struct Way {
    mark: u64,
    step: String,
    node: usize,
}

impl Way {
    /// Compares marks, which are numbers, and texts only if these are equal.
    #[inline]
    fn order(&self, mark: u64, step: &str) -> Ordering {
        self.mark.cmp(&mark).then_with(|| self.step.as_str().cmp(step))
    }
}

/// A number for a key, by which it is found. Different keys seldom have the same one.
#[inline]
fn mark_of(key: &str) -> u64 {
    let key = key.as_bytes();
    let (first, last) = match (key.first_chunk(), key.last_chunk()) {
        (Some(first), Some(last)) => (u64::from_le_bytes(*first), u64::from_le_bytes(*last)),
        _ => match (key.first_chunk(), key.last_chunk()) {
            (Some(first), Some(last)) => (u32::from_le_bytes(*first).into(), u32::from_le_bytes(*last).into()),
            _ => (key.iter().fold(0, |mark, byte| mark << 8 | u64::from(*byte)), 0),
        },
    };
    (first.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ last.rotate_left(32)).wrapping_add(key.len() as u64)
}

/// The position of a value in its text, and of its elements among the integers that were read.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Span {
    start: usize,
    end: usize,
    first: usize,
    count: usize,
}

impl Span {
    const NONE: Self = Self { start: usize::MAX, end: 0, first: 0, count: 0 };
}

/// The values of a text, by number.
#[derive(Debug, Default)]
pub(in crate::read) struct Found {
    spans: Vec<Span>,
    /// A buffer for a key that is written with escapes.
    key: String,
    /// The elements of those lists of integers that are wanted as such.
    integers: Vec<i64>,
    /// Whether the value is such a list, by number.
    as_integers: Vec<bool>,
}

impl Found {
    fn get<'a>(&'a self, number: usize, text: &'a str) -> Option<Raw<'a>> {
        let Span { start, end, first, count } = *self.spans.get(number)?;
        Some(Raw { text: text.get(start..end)?, integers: &self.integers[first..first + count] })
    }

    /// Moves a value to the number `to`, unless there is a value already.
    pub(in crate::read) fn take_unless_there(&mut self, from: usize, to: usize) {
        let span = std::mem::replace(&mut self.spans[from], Span::NONE);
        if self.spans[to] == Span::NONE {
            self.spans[to] = span;
        }
    }

    /// Gives the values of `text`, which was searched, by number; one that was not found is left out.
    ///
    /// # Errors
    ///
    /// Those of [`give`] and `visit`. `located` converts each, with the value's number and its beginning.
    pub(in crate::read) fn give(
        &mut self,
        text: &str,
        buffers: &Buffers,
        visit: &mut Visit<'_>,
        located: impl Fn(Error, usize, usize) -> Error,
    ) -> Result<()> {
        for number in 0..self.spans.len() {
            let Some(raw) = self.get(number, text) else { continue };
            buffers.gave_integers();
            give(raw, buffers, &mut |value| visit(number, value))
                .map_err(|error| located(error, number, self.spans[number].start))?;
            // Of the next texts, the elements of such a list are read where it is found: in one pass instead of two.
            self.as_integers[number] = buffers.gave_integers();
        }
        Ok(())
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
            let mark = mark_of(step);
            at = match self.nodes[at].ways.binary_search_by(|way| way.order(mark, step)) {
                Ok(way) => self.nodes[at].ways[way].node,
                Err(place) => {
                    let node = self.nodes.len();
                    let Node { ways, positions, .. } = &mut self.nodes[at];
                    ways.insert(place, Way { mark, step: step.clone(), node });
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
    /// The fault if the text is not JSON.
    pub(in crate::read) fn find(&self, text: &str, found: &mut Found) -> Result<(), Fault> {
        let Found { spans, key, integers, as_integers } = found;
        spans.clear();
        spans.resize(self.count, Span::NONE);
        as_integers.resize(self.count, false);
        integers.clear();
        self.search(text, spans, key, (as_integers, integers))
    }

    /// Like [`find`](Self::find), if a single value is wanted, as number 0.
    pub(in crate::read) fn find_one<'t>(&self, text: &'t str) -> Result<Option<&'t str>, Fault> {
        let mut span = [Span::NONE];
        self.search(text, &mut span, &mut String::new(), (&[], &mut Vec::new()))?;
        Ok(text.get(span[0].start..span[0].end))
    }

    fn search(
        &self,
        text: &str,
        found: &mut [Span],
        unescaped: &mut String,
        (as_integers, integers): (&[bool], &mut Vec<i64>),
    ) -> Result<(), Fault> {
        let cursor = Cursor::new(text);
        let mut search = Search { wanted: self, text, cursor, found, unescaped, as_integers, integers };
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
    as_integers: &'a [bool],
    integers: &'a mut Vec<i64>,
}

impl Search<'_> {
    fn value(&mut self, node: usize, depth: usize) -> Result<(), Fault> {
        let first = self.cursor.next();
        let start = self.cursor.at;
        let (first_integer, mut count) = (self.integers.len(), 0);
        let Node { numbers, ways, positions } = &self.wanted.nodes[node];
        match first {
            Some(b'{') if !ways.is_empty() => self.object(ways, depth)?,
            Some(b'[') if !positions.is_empty() => self.array(positions, depth)?,
            Some(b'[') if self.are_integers(numbers) && self.cursor.integers(depth, self.integers) => {
                count = self.integers.len() - first_integer;
            }
            _ => self.cursor.skip(depth)?,
        }
        let span = Span { start, end: self.cursor.at, first: first_integer, count };
        numbers.iter().for_each(|number| self.found[*number] = span);
        Ok(())
    }

    fn are_integers(&self, numbers: &[usize]) -> bool {
        numbers.iter().any(|number| self.as_integers.get(*number) == Some(&true))
    }

    fn object(&mut self, ways: &[Way], depth: usize) -> Result<(), Fault> {
        let mut more = self.cursor.enter(depth, b'}')?;
        while more {
            let (key, is_plain) = self.cursor.key()?;
            match self.way_of(ways, key, is_plain) {
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
    fn way_of(&mut self, ways: &[Way], key: Range<usize>, is_plain: bool) -> Option<usize> {
        let mut key = &self.text[key];
        if !is_plain {
            // No pointer contains half of a surrogate pair.
            unescape(key, self.unescaped).ok()?;
            key = self.unescaped;
        }
        let mark = mark_of(key);
        let found = ways.binary_search_by(|way| way.order(mark, key));
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
    use proptest::prelude::*;

    use crate::read::value::Value;

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
            found.spans.iter().map(|span| text.get(span.start..span.end)).collect::<Vec<_>>()
        };
        let elements = [Some("110"), Some("7"), Some("100"), None, Some("109"), None, Some("8"), None];
        assert_eq!(of(r#"[100, 101, {"b": 8, "a": 7}, 103, 104, 105, 106, 107, 108, 109, 110, 111]"#), elements);
        let members = [None, None, Some("0"), Some("2"), None, Some("5"), None, None];
        assert_eq!(of(r#"{"a": 5, "02": 2, "0": 0}"#), members);
        assert_eq!(of("[1]"), [None, None, Some("1"), None, None, None, None, None]);
    }

    #[test]
    fn keys_are_told_apart_whatever_they_have_in_common() {
        let mut keys: Vec<String> =
            ["", "a", "b", "ab", "ba", "abc", "acb", "aaaa", "aaaaa", "é", "\u{1f600}"].map(str::to_owned).into();
        keys.extend((0..40).map(|nth| format!("beginning {nth:02} end of key")));
        keys.extend((1..40).map(|len| "x".repeat(len)));
        // Of the same beginning, end and length, and so of the same mark.
        assert_eq!(mark_of(&keys[11]), mark_of(&keys[12]));
        let mut wanted = Wanted::default();
        keys.iter().step_by(2).enumerate().for_each(|(number, key)| wanted.add(std::slice::from_ref(key), number));
        let members: serde_json::Map<String, serde_json::Value> =
            keys.iter().enumerate().map(|(nth, key)| (key.clone(), nth.into())).collect();
        let plain = serde_json::to_string(&members).unwrap();
        let escaped = plain.replace("end", "\\u0065nd").replace("x\"", "\\u0078\"");
        for text in [plain, escaped] {
            let mut found = Found::default();
            wanted.find(&text, &mut found).unwrap();
            let values: Vec<usize> =
                found.spans.iter().map(|span| text[span.start..span.end].parse().unwrap()).collect();
            assert_eq!(values, (0..keys.len()).step_by(2).collect::<Vec<_>>(), "{text}");
        }
    }

    #[test]
    fn lists_that_are_taken_as_integers_are_read_where_they_are_found() {
        let mut wanted = Wanted::default();
        ["a", "b", "b"].iter().enumerate().for_each(|(number, name)| wanted.add(&steps_to(name), number));
        let (mut found, buffers) = (Found::default(), Buffers::default());
        let mut given = |text: &str| {
            wanted.find(text, &mut found).unwrap();
            let read = found.integers.clone();
            let mut lists = Vec::new();
            let mut visit = |number, value: Value<'_>| {
                let Value::List(list) = value else { return Ok(()) };
                if number > 0 {
                    list.integers(&mut |integers| {
                        lists.push(integers.to_vec());
                        Ok(())
                    });
                }
                Ok(())
            };
            found.give(text, &buffers, &mut visit, |error, _, _| error).unwrap();
            (read, lists)
        };
        let twice = |integers: &[i64]| vec![integers.to_vec(); 2];
        assert_eq!(given(r#"{"a": [1], "b": [2, 3]}"#), (vec![], twice(&[2, 3])));
        assert_eq!(given(r#"{"b": [4], "a": [5]}"#), (vec![4], twice(&[4])));
        // Of a key that occurs twice, the last value.
        assert_eq!(given(r#"{"b": [4], "b": [5, 6]}"#), (vec![4, 5, 6], twice(&[5, 6])));
        assert_eq!(given(r#"{"b": [4], "b": 1}"#), (vec![4], vec![]));
        // Nobody took the last one.
        assert_eq!(given(r#"{"b": [7]}"#), (vec![], twice(&[7])));
        // Not integers, and integers again.
        assert_eq!(given(r#"{"b": [7, 8.5]}"#), (vec![], vec![]));
        assert_eq!(given(r#"{"b": []}"#), (vec![], vec![]));
        assert_eq!(given(r#"{"b": [8]}"#), (vec![], twice(&[8])));
        assert_eq!(given(r#"{"b": [9]}"#), (vec![9], twice(&[9])));
        assert!(wanted.find(r#"{"b": [01]}"#, &mut found).is_err());
    }

    #[test]
    fn a_list_has_no_integers_of_the_lists_inside_of_it() {
        let text = "[[1, 2], [3, 4]]";
        let mut wanted = Wanted::default();
        ["", "/0", "/1"].iter().enumerate().for_each(|(number, pointer)| wanted.add(&steps(pointer), number));
        let (mut found, buffers) = (Found::default(), Buffers::default());
        for _ in 0..3 {
            wanted.find(text, &mut found).unwrap();
            let mut lists = Vec::new();
            let mut visit = |number, value: Value<'_>| {
                let Value::List(list) = value else { return Ok(()) };
                list.integers(&mut |integers| {
                    lists.push((number, integers.to_vec()));
                    Ok(())
                });
                Ok(())
            };
            found.give(text, &buffers, &mut visit, |error, _, _| error).unwrap();
            assert_eq!(lists, [(1, vec![1, 2]), (2, vec![3, 4])]);
        }
    }
    /// What is given of a text: values of all kinds, lists as integers where they are such.
    fn given(wanted: &Wanted, text: &str, found: &mut Found) -> Vec<String> {
        let mut given = Vec::new();
        if let Err(fault) = wanted.find(text, found) {
            return vec![format!("{fault:?}")];
        }
        fn shown(value: Value<'_>, into: &mut Vec<String>) -> Result<()> {
            let Value::List(list) = value else {
                into.push(format!("{value:?}"));
                return Ok(());
            };
            let integers = list.integers(&mut |integers| {
                into.push(format!("{integers:?}"));
                Ok(())
            });
            integers.unwrap_or_else(|| {
                into.push("[".to_owned());
                list.each(&mut |value| shown(value, into))
            })
        }
        let ended = found.give(
            text,
            &Buffers::default(),
            &mut |number, value| {
                given.push(number.to_string());
                shown(value, &mut given)
            },
            |error, _, _| error,
        );
        given.extend(ended.err().map(|error| error.message().to_owned()));
        given
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2000))]

        #[test]
        fn what_is_given_does_not_depend_on_the_texts_before(
            texts in prop::collection::vec("\\[(([0-9]|-12|2\\.5|123456789|\\[[0-9](, ?[0-9]){0,2}\\]|\\[\\[7\\], 8\\]), ?){1,3}([0-9]|\\[4,5\\])\\]", 2..6),
        ) {
            let mut wanted = Wanted::default();
            ["", "/0", "/1", "/0/0", "/2"].iter().enumerate().for_each(|(nth, pointer)| wanted.add(&steps(pointer), nth));
            let mut found = Found::default();
            for text in &texts {
                let alone = given(&wanted, text, &mut Found::default());
                prop_assert_eq!(given(&wanted, text, &mut found), alone, "{}", text);
            }
        }
    }
}
