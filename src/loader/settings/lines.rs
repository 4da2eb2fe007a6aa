//! Finds the line of a setting in a file.

use toml::de::{DeTable, DeValue};

use crate::tree::Step;

/// The line of a byte, counted from 1.
pub(super) fn of_byte(text: &str, byte: usize) -> u64 {
    1 + text.as_bytes().iter().take(byte).filter(|byte| **byte == b'\n').count() as u64
}

/// The line of the key, or of the list item, that a path leads to.
pub(super) fn in_toml(text: &str, path: &[Step]) -> Option<u64> {
    let root = DeTable::parse(text).ok()?;
    let (mut byte, mut value): (usize, Option<&DeValue<'_>>) = (0, None);
    for step in path {
        let table = match value {
            None => Some(root.get_ref()),
            Some(DeValue::Table(table)) => Some(table),
            Some(_) => None,
        };
        let next = match (step, table, value) {
            (Step::Key(key), Some(table), _) => {
                let (name, next) = table.iter().find(|(name, _)| name.get_ref() == key.as_str())?;
                byte = name.span().start;
                next
            }
            (Step::Index(index), _, Some(DeValue::Array(items))) => {
                let next = items.get(*index)?;
                byte = next.span().start;
                next
            }
            // A short form was replaced by the long one, so the path ends here.
            _ => break,
        };
        value = Some(next.get_ref());
    }
    Some(of_byte(text, byte))
}

/// The same for JSON, which is known to be correct.
pub(super) fn in_json(text: &str, path: &[Step]) -> Option<u64> {
    let mut json = Json { bytes: text.as_bytes(), at: 0 };
    let mut byte = 0;
    for step in path {
        json.skip_space();
        match (step, json.peek()) {
            (Step::Key(key), Some(b'{')) => {
                json.at += 1;
                loop {
                    json.skip_space();
                    let start = json.at;
                    json.skip_value()?;
                    let name: String = serde_json::from_str(text.get(start..json.at)?).ok()?;
                    json.skip_space();
                    json.at += 1;
                    if name == *key {
                        byte = start;
                        break;
                    }
                    json.skip_item()?;
                }
            }
            (Step::Index(index), Some(b'[')) => {
                json.at += 1;
                (0..*index).try_for_each(|_| json.skip_item())?;
                json.skip_space();
                byte = json.at;
            }
            _ => break,
        }
    }
    Some(of_byte(text, byte))
}

struct Json<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl Json<'_> {
    fn peek(&self) -> Option<u8> {
        self.bytes.get(self.at).copied()
    }

    fn skip_space(&mut self) {
        while self.peek().is_some_and(|byte| byte.is_ascii_whitespace()) {
            self.at += 1;
        }
    }

    /// A value and the comma after it.
    fn skip_item(&mut self) -> Option<()> {
        self.skip_value()?;
        self.skip_space();
        self.at += 1;
        Some(())
    }

    /// Counts brackets and skips strings; any other value ends where its kind of characters does.
    fn skip_value(&mut self) -> Option<()> {
        let mut depth = 0usize;
        loop {
            self.skip_space();
            match self.peek()? {
                b'"' => self.skip_string()?,
                b'{' | b'[' => (self.at, depth) = (self.at + 1, depth + 1),
                b'}' | b']' => (self.at, depth) = (self.at + 1, depth.checked_sub(1)?),
                b',' | b':' if depth > 0 => self.at += 1,
                _ => {
                    let is_end = |byte: u8| byte.is_ascii_whitespace() || b",:]}".contains(&byte);
                    while !self.peek().is_none_or(is_end) {
                        self.at += 1;
                    }
                }
            }
            if depth == 0 {
                return Some(());
            }
        }
    }

    fn skip_string(&mut self) -> Option<()> {
        self.at += 1;
        loop {
            match self.peek()? {
                b'"' => break self.at += 1,
                b'\\' => self.at += 2,
                _ => self.at += 1,
            }
        }
        Some(())
    }
}
