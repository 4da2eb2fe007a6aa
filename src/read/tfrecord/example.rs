//! `tf.train.Example` and `tf.train.SequenceExample`, as TensorFlow's `example.proto` and `feature.proto` define them:
//!
//! ```text
//! Example          { Features features = 1; }
//! SequenceExample  { Features context = 1; FeatureLists feature_lists = 2; }
//! Features         { map<string, Feature> feature = 1; }
//! FeatureLists     { map<string, FeatureList> feature_list = 1; }
//! FeatureList      { repeated Feature feature = 1; }
//! Feature          { oneof kind { BytesList bytes_list = 1; FloatList float_list = 2; Int64List int64_list = 3; } }
//! BytesList        { repeated bytes value = 1; }     FloatList and Int64List likewise, packed or not
//! ```
//!
//! An example is a sequence example without lists. If a key occurs twice, the last value counts.

use super::wire::{Fault, Fields, Parsed, Part, Written};

/// Gives each feature to `visit`, with its key and whether it is a list of features.
pub(super) fn each_feature<'a>(
    record: &'a [u8],
    visit: &mut impl FnMut(&'a [u8], bool, Part<'a>) -> Parsed<()>,
) -> Parsed<()> {
    let mut fields = Fields::of(Part { bytes: record, at: 0 });
    while let Some((number, value)) = fields.next()? {
        let (is_list, map) = match (number, value) {
            (1, Written::Part(map)) => (false, map),
            (2, Written::Part(map)) => (true, map),
            _ => continue,
        };
        let mut entries = Fields::of(map);
        while let Some((number, value)) = entries.next()? {
            if let (1, Written::Part(entry)) = (number, value) {
                let (key, feature) = entry_of(entry)?;
                visit(key, is_list, feature)?;
            }
        }
    }
    Ok(())
}

fn entry_of<'a>(entry: Part<'a>) -> Parsed<(&'a [u8], Part<'a>)> {
    let mut key: &[u8] = &[];
    let mut feature = None;
    let mut fields = Fields::of(entry);
    while let Some((number, value)) = fields.next()? {
        match (number, value) {
            (1, Written::Part(part)) => key = part.bytes,
            (2, Written::Part(part)) => {
                if feature.replace(part).is_some() {
                    return Err(Fault { what: "two features under one key", at: part.at });
                }
            }
            // One reader leaves out the feature then, another refuses the record.
            _ => return Err(Fault { what: "a key with something beside its feature", at: entry.at }),
        }
    }
    Ok((key, feature.unwrap_or_default()))
}

/// The features of a list.
pub(super) fn each_step<'a, E: From<Fault>>(
    list: Part<'a>,
    mut visit: impl FnMut(Part<'a>) -> Result<(), E>,
) -> Result<(), E> {
    let mut fields = Fields::of(list);
    while let Some((number, value)) = fields.next()? {
        if let (1, Written::Part(feature)) = (number, value) {
            visit(feature)?;
        }
    }
    Ok(())
}

/// The content of a feature.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Values<'a> {
    /// Nothing, not even an empty list.
    None,
    Bytes(ByteStrings<'a>),
    Floats(&'a [f32]),
    Integers(&'a [i64]),
}

impl Values<'_> {
    /// Whether there is no value, in a list or without a list.
    pub(super) fn is_empty(&self) -> bool {
        match self {
            Self::None => true,
            Self::Bytes(strings) => strings.len() == 0,
            Self::Floats(numbers) => numbers.is_empty(),
            Self::Integers(numbers) => numbers.is_empty(),
        }
    }
}

/// A buffer for the numbers of a feature.
#[derive(Debug, Default)]
pub(super) struct Room {
    floats: Vec<f32>,
    integers: Vec<i64>,
}

impl Room {
    /// The values of a feature; numbers stay here until the next call.
    pub(super) fn values<'a>(&'a mut self, feature: Part<'a>) -> Parsed<Values<'a>> {
        let mut kind: Option<(u32, Part<'a>)> = None;
        let mut fields = Fields::of(feature);
        while let Some((number, value)) = fields.next()? {
            if let (1..=3, Written::Part(list)) = (number, value)
                && kind.replace((number, list)).is_some()
            {
                return Err(Fault { what: "a feature with two lists of values", at: list.at });
            }
        }
        Ok(match kind {
            None => Values::None,
            Some((1, list)) => Values::Bytes(ByteStrings::of(list)?),
            Some((2, list)) => Values::Floats(self.floats(list)?),
            Some((_, list)) => Values::Integers(self.integers(list)?),
        })
    }

    fn floats(&mut self, list: Part<'_>) -> Parsed<&[f32]> {
        self.floats.clear();
        let mut fields = Fields::of(list);
        while let Some((number, value)) = fields.next()? {
            match (number, value) {
                (1, Written::Part(packed)) => {
                    let (floats, rest) = packed.bytes.as_chunks();
                    if !rest.is_empty() {
                        return Err(Fault { what: "the end inside a number", at: packed.at + packed.bytes.len() });
                    }
                    self.floats.extend(floats.iter().map(|bytes| f32::from_le_bytes(*bytes)));
                }
                (1, Written::Fixed32(bytes)) => self.floats.push(f32::from_le_bytes(bytes)),
                _ => {}
            }
        }
        Ok(&self.floats)
    }

    fn integers(&mut self, list: Part<'_>) -> Parsed<&[i64]> {
        self.integers.clear();
        let mut fields = Fields::of(list);
        while let Some((number, value)) = fields.next()? {
            match (number, value) {
                (1, Written::Part(packed)) => {
                    let mut numbers = Fields::of(packed);
                    while let Some(number) = numbers.next_varint()? {
                        self.integers.push(number as i64);
                    }
                }
                (1, Written::Varint(number)) => self.integers.push(number as i64),
                _ => {}
            }
        }
        Ok(&self.integers)
    }
}

/// The byte strings of a feature.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct ByteStrings<'a> {
    list: Part<'a>,
    count: usize,
}

impl<'a> ByteStrings<'a> {
    fn of(list: Part<'a>) -> Parsed<Self> {
        let mut fields = Fields::of(list);
        let mut count = 0;
        while let Some((number, value)) = fields.next()? {
            count += usize::from(matches!((number, value), (1, Written::Part(_))));
        }
        Ok(Self { list, count })
    }

    pub(super) fn len(&self) -> usize {
        self.count
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &'a [u8]> {
        let mut fields = Fields::of(self.list);
        std::iter::from_fn(move || {
            // They have been walked through before, so that there is no fault.
            while let Ok(Some((number, value))) = fields.next() {
                if let (1, Written::Part(part)) = (number, value) {
                    return Some(part.bytes);
                }
            }
            None
        })
    }
}
