//! TFRecord files of examples.

mod example;
mod framing;
mod packing;
mod seen;
mod wire;

use std::cell::Cell;
use std::collections::HashMap;
use std::ops::Range;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::dtype::NumberSlice;
use crate::error::{Error, ErrorKind, Location, Result};
use crate::memory::MemoryBudget;
use crate::storage::{Access, Files, Needs, Spool};

use super::container::{Container, FieldInfo, Visit, find_field};
use super::csv::CsvOptions;
use super::field_reader::MAX_SOURCES;
use super::format::{Format, Open, Opened, format_has};
use super::names::plain_name;
use super::paths::is_hidden;
use super::records::{RecordBytes, RecordIndex, Records};
use super::saved::{Kept, SavedIndex};
use super::value::{List, Value};
use super::{ColumnRef, Fingerprint, Scratch, check_record, parallel};

use example::{ByteStrings, Room, Values, each_feature, each_step};
use framing::{FRAME, HEADER, unframe};
use packing::{is_zlib, packing_of};
use seen::Seen;
use wire::{Fault, Part};

/// How much is read to find the fields: this many records, but not more than this many bytes.
const SAMPLE_RECORDS: u64 = 1000;
const SAMPLE_BYTES: u64 = 8 << 20;

/// Most fields that are listed: more than may be read, so that none is left out without an error. Others can still be
/// found by name.
const MAX_FIELDS: usize = MAX_SOURCES + 1;

/// The prefixes of field names, if a key stands for both a feature and a list of features.
const CONTEXT: &str = "context/";
const LISTS: &str = "feature_lists/";

/// How a TFRecord file is read.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct TfRecordOptions {
    /// How the file is read. A compressed file is always unpacked first.
    pub access: Access,
    /// Where the positions of the records are saved for the next run.
    pub saved_index: SavedIndex,
    /// Maximum length of a record in bytes.
    pub max_record_bytes: usize,
    /// Maximum number of bytes that a compressed file may unpack to.
    pub max_unpacked_bytes: u64,
}

impl Default for TfRecordOptions {
    fn default() -> Self {
        Self {
            access: Access::Read,
            saved_index: SavedIndex::Off,
            max_record_bytes: 256 << 20,
            max_unpacked_bytes: CsvOptions::default().max_unpacked_bytes,
        }
    }
}

/// The format of TFRecord files, recognised by the checksum of the first record's length, whatever their names.
#[derive(Clone, Copy, Debug)]
pub struct TfRecord;

impl Format for TfRecord {
    const NAME: &'static str = "tfrecord";
    type Options = TfRecordOptions;

    fn sniff(&self, head: &[u8], _: &Path) -> bool {
        framing::length(head).is_some() || is_zlib(head)
    }

    fn has_name(&self, name: &str) -> bool {
        [".tfrecord", ".tfrecords", ".tfrec"].iter().any(|ending| name.ends_with(ending)) || is_shard(name)
    }

    fn is_in_folder(&self, path: &Path, head: Option<&[u8]>) -> bool {
        let name = plain_name(path);
        head.is_none() && !is_hidden(&name) && Format::has_name(self, &name)
    }

    fn title(&self) -> Option<&'static str> {
        Some("TFRecord")
    }

    fn packed_advice(&self) -> Option<&'static str> {
        None
    }

    format_has!(small_samples, access, saved_index);

    fn open(&self, options: &TfRecordOptions, at: &Open<'_>) -> Result<impl Into<Opened>> {
        TfRecords::open(at.files, at.path, options, at.budget)
    }
}

/// Whether a name is like `train-00000-of-00010`, as TensorFlow's own tools name their files.
fn is_shard(name: &str) -> bool {
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let parts = name.rsplit_once("-of-").and_then(|(begin, count)| Some((begin.rsplit_once('-')?.1, count)));
    parts.is_some_and(|(nth, count)| is_number(nth) && is_number(count))
}

/// The records of a TFRecord file, plain or compressed (GZIP, ZLIB, Zstandard): each a `tf.train.Example` or a
/// `tf.train.SequenceExample`.
///
/// A field is the feature with that key. A feature with one value is that value; with several values it is a list;
/// without values it is a missing value. A feature list is a list of the values of its steps, or a list of lists if a
/// step does not have exactly one value. In a tensor, the values of all steps follow one another. If a key names both a
/// feature and a feature list, they are called `context/KEY` and `feature_lists/KEY`. Byte strings can be decoded by
/// any codec: images, text, arrays, classes.
///
/// Opening finds the records only by their lengths, and skips their contents. Checksums of lengths and of records are
/// checked. A record that the end of the file cuts off is a bad record. A damaged length is an error, because it is
/// then unknown where later records begin. Parts of an example that are not features are ignored. A feature without
/// values is missing, like one that does not exist, so a filter finds it by `len(x) == missing`. For a feature list,
/// `len` is the number of its steps.
///
/// [`fields`](Container::fields) lists the features of the first 1000 records (at most 8 MiB of them). A feature that
/// none of them has is searched in all records before it is an error.
///
/// ```
/// use ringfeed::memory::MemoryBudget;
/// use ringfeed::read::{Container, TfRecordOptions, TfRecords};
/// use ringfeed::storage::Files;
///
/// let path = "fixtures/tfrecord/train-00000-of-00002".as_ref();
/// let records = TfRecords::open(&Files::local(), path, &TfRecordOptions::default(), &MemoryBudget::unlimited())?;
/// assert_eq!(records.len(), 6);
/// assert!(records.fields().iter().any(|field| field.name == "image/encoded"));
/// # Ok::<(), ringfeed::Error>(())
/// ```
#[derive(Debug)]
pub struct TfRecords {
    records: Records,
    stored_bytes: u64,
    /// The fields of the sample, followed by those that were found later.
    fields: Vec<FieldInfo>,
    /// The key of each field in the records.
    keys: Vec<Key>,
    listed: usize,
    wanted: Wanted,
}

/// The key of a feature in a record, and whether it is a list of features.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Key {
    name: String,
    is_list: bool,
}

/// The features that are read, and the lists of features.
#[derive(Debug, Default)]
struct Wanted {
    /// The numbers of features, and of lists of features.
    numbers: [HashMap<Box<[u8]>, usize>; 2],
    /// The number of a feature, and another number of the same feature under another name.
    twins: Vec<(usize, usize)>,
    /// Whether each number is wanted.
    has: Vec<bool>,
}

impl Wanted {
    fn has(&self, number: usize) -> bool {
        self.has.get(number) == Some(&true)
    }

    fn of(&self, name: &[u8], is_list: bool) -> Option<usize> {
        self.numbers[usize::from(is_list)].get(name).copied()
    }

    fn add(&mut self, key: &Key, number: usize) {
        self.has.resize(self.has.len().max(number + 1), false);
        self.has[number] = true;
        let first = *self.numbers[usize::from(key.is_list)].entry(key.name.as_bytes().into()).or_insert(number);
        if first != number && !self.twins.contains(&(first, number)) {
            self.twins.push((first, number));
        }
    }
}

/// What a worker keeps between records.
#[derive(Default)]
struct Worker {
    bytes: RecordBytes,
    /// The position of each field's feature in the record.
    found: Vec<Option<Range<usize>>>,
    /// The field found at each position among the features of earlier records, perhaps by another reader: usually it is
    /// at the same position again, which the name confirms.
    order: Vec<usize>,
    room: Room,
}

impl TfRecords {
    /// Finds the records of the file at `path`, and reads the first ones.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::NotFound`] with the nearest path, [`ErrorKind::Format`] for a damaged length, [`ErrorKind::Limit`]
    /// for a record that is too long, and those of reading.
    pub fn open(files: &Files, path: &Path, options: &TfRecordOptions, budget: &MemoryBudget) -> Result<Self> {
        let most = options.max_record_bytes;
        let kept = match files.are_local() {
            true => Kept::of(&options.saved_index, path, "tfrecord 1", &(most as u64).to_le_bytes())?,
            false => None,
        };
        let spool = Spool { budget: budget.clone(), limit_bytes: options.max_unpacked_bytes, ..Spool::default() };
        let input = files.open_packed(path, packing_of(files, path)?, options.access, &spool)?;
        let known = match kept.as_ref().and_then(Kept::load) {
            Some(contents) => RecordIndex::from_bytes(&contents, input.len(), budget)?.map(|(index, _)| index),
            None => None,
        };
        let index = match known {
            Some(index) => index,
            None => {
                let index = framing::index(files, &input, most as u64, budget).map_err(|error| error.at_path(path))?;
                kept.map_or(Ok(()), |kept| kept.save(&index.to_bytes()))?;
                index
            }
        };
        let mut records = Self {
            records: Records::new(input, index, most.saturating_add(FRAME as usize)),
            stored_bytes: files.len(path)?,
            fields: Vec::new(),
            keys: Vec::new(),
            listed: 0,
            wanted: Wanted::default(),
        };
        records.learn()?;
        Ok(records)
    }

    /// Lists the fields of the sample.
    fn learn(&mut self) -> Result<()> {
        let (mut seen, mut numbers): (Vec<(Key, Seen)>, HashMap<Key, usize>) = Default::default();
        let mut room = Room::default();
        self.each_of_sample(&mut |record| {
            // What is wrong with a record is said when it is read.
            let _ = each_feature(record, &mut |name, is_list, feature| {
                let Ok(name) = std::str::from_utf8(name) else { return Ok(()) };
                let key = Key { name: name.to_owned(), is_list };
                let found = Seen::of(feature, is_list, &mut room)?;
                match numbers.get(&key) {
                    Some(number) => seen[*number].1 = seen[*number].1.and(found),
                    None if seen.len() < MAX_FIELDS => {
                        numbers.insert(key.clone(), seen.len());
                        seen.push((key, found));
                    }
                    None => {}
                }
                Ok(())
            });
            Ok(())
        })?;
        // Writers put the keys of an example into no order.
        seen.sort_by(|(one, _), (other, _)| (&one.name, one.is_list).cmp(&(&other.name, other.is_list)));
        for (key, seen) in seen {
            let twin = Key { name: key.name.clone(), is_list: !key.is_list };
            let name = match (numbers.contains_key(&twin), key.is_list) {
                (false, _) => key.name.clone(),
                (true, false) => format!("{CONTEXT}{}", key.name),
                (true, true) => format!("{LISTS}{}", key.name),
            };
            self.fields.push(seen.info(&name));
            self.keys.push(key);
        }
        self.listed = self.fields.len();
        Ok(())
    }

    /// Gives the complete records of the sample.
    fn each_of_sample(&self, visit: &mut dyn FnMut(&[u8]) -> Result<()>) -> Result<()> {
        let first = self.records.start(0);
        let is_near = |record: &u64| *record == 0 || self.records.start(record + 1) - first <= SAMPLE_BYTES;
        let records: Vec<u64> = (0..self.len().min(SAMPLE_RECORDS)).take_while(is_near).collect();
        let mut bytes = RecordBytes::default();
        for nth in 0..records.len() {
            self.records.fetch(&records, nth, &mut bytes)?;
            if let Ok(record) = unframe(bytes.get(nth, self.records.input.slice())) {
                visit(record)?;
            }
        }
        Ok(())
    }

    /// The meaning of a name in the first record that has it.
    fn look_for(&self, name: &str) -> Result<Option<(Key, Seen)>> {
        let wanted = meanings(name);
        parallel::first_found(self.len(), |(bytes, room): &mut (RecordBytes, Room), record| {
            self.records.fetch(&[record], 0, bytes)?;
            let mut found = None;
            if let Ok(record) = unframe(bytes.get(0, self.records.input.slice())) {
                let _ = each_feature(record, &mut |name, is_list, feature| {
                    let key = wanted.iter().find(|key| key.name.as_bytes() == name && key.is_list == is_list);
                    if let Some(key) = key {
                        found = Some((key.clone(), Seen::of(feature, is_list, room)?));
                    }
                    Ok(())
                });
            }
            Ok(found)
        })
    }

    /// Adds path, record and byte to an error in a record, whose bytes begin at 0.
    #[cold]
    fn located(&self, error: Error, record: u64) -> Error {
        error.in_part_at(self.records.start(record)).at(self.place(record))
    }
}

/// The features that a name may mean.
fn meanings(name: &str) -> Vec<Key> {
    let key = |name: &str, is_list| Key { name: name.to_owned(), is_list };
    let mut keys = vec![key(name, false), key(name, true)];
    keys.extend(name.strip_prefix(CONTEXT).map(|name| key(name, false)));
    keys.extend(name.strip_prefix(LISTS).map(|name| key(name, true)));
    keys
}

impl Container for TfRecords {
    fn len(&self) -> u64 {
        self.records.len()
    }

    fn fields_vary(&self) -> bool {
        true
    }

    fn fields(&self) -> &[FieldInfo] {
        &self.fields
    }

    fn means_same(&self, one: &str, other: &str) -> bool {
        let key_of = |name: &str| Some(&self.keys[self.fields.iter().position(|field| field.name == name)?]);
        one == other
            || match (key_of(one), key_of(other)) {
                (Some(key), None) => meanings(other).contains(key),
                (None, Some(key)) => meanings(one).contains(key),
                _ => false,
            }
    }

    fn find(&mut self, field: &ColumnRef) -> Result<usize> {
        let known = match field {
            ColumnRef::Name(name) => self.fields.iter().position(|field| field.name == *name),
            ColumnRef::Position(_) => Some(find_field(&self.fields[..self.listed], field)?),
        };
        let number = match (known, field) {
            (Some(number), _) => number,
            (None, ColumnRef::Name(name)) => {
                let (key, seen) = match self.look_for(name)? {
                    Some(found) => found,
                    None if self.is_empty() => (Key { name: name.clone(), is_list: false }, Seen::default()),
                    None => {
                        find_field(&self.fields[..self.listed], field)?;
                        return Err(Error::new(ErrorKind::NotFound, format!("no record has a feature {name:?}")));
                    }
                };
                self.fields.push(seen.info(name));
                self.keys.push(key);
                self.fields.len() - 1
            }
            (None, ColumnRef::Position(_)) => find_field(&self.fields[..self.listed], field)?,
        };
        self.wanted.add(&self.keys[number], number);
        Ok(number)
    }

    fn forget(&mut self) {
        self.fields.truncate(self.listed);
        self.keys.truncate(self.listed);
        self.wanted = Wanted::default();
    }

    fn each_name(&self, _: u64, nth: usize, scratch: &mut Scratch, visit: &mut dyn FnMut(&str)) {
        let Worker { bytes, room, .. } = scratch.of();
        if let Ok(example) = unframe(bytes.get(nth, self.records.input.slice())) {
            // What is wrong with a record is said when it is read.
            let _ = each_feature(example, &mut |name, is_list, feature| {
                let is_found = self.wanted.of(name, is_list).is_some();
                if !is_found && Seen::of(feature, is_list, room)?.kind.is_some() {
                    visit(&String::from_utf8_lossy(name));
                }
                Ok(())
            });
        }
    }

    fn need(&self, records: &[u64], needs: &mut Needs) {
        self.records.need(records, needs);
    }

    fn fetch(&self, records: &[u64], nth: usize, scratch: &mut Scratch) -> Result<()> {
        check_record(records[nth], self.len()).map_err(|error| error.at_path(self.records.input.path()))?;
        self.records.fetch(records, nth, &mut scratch.of::<Worker>().bytes)
    }

    fn read(&self, record: u64, nth: usize, scratch: &mut Scratch, visit: &mut Visit<'_>) -> Result<()> {
        let Worker { bytes, found, order, room } = scratch.of();
        let example =
            unframe(bytes.get(nth, self.records.input.slice())).map_err(|error| self.located(error, record))?;
        self.find_features(example, found, order).map_err(|fault| self.located(fault.into(), record))?;
        for (number, range) in found.iter().enumerate() {
            let Some(range) = range else { continue };
            let feature = Part { bytes: &example[range.clone()], at: range.start };
            let given = if self.keys[number].is_list {
                let are_lists = self.fields[number].shape.len() > 1;
                let steps = Steps { list: feature, are_lists, room: Cell::new(std::mem::take(room)) };
                let given = visit(number, Value::List(&steps));
                *room = steps.room.into_inner();
                given
            } else {
                room.values(feature)
                    .map_err(Error::from)
                    .and_then(|values| give(values, &mut |value| visit(number, value).map_err(Error::in_value)))
            };
            given.map_err(|error| self.located(error.at_column(&self.fields[number].name), record))?;
        }
        Ok(())
    }

    fn place(&self, record: u64) -> Location {
        Location {
            path: Some(self.records.input.path().to_owned()),
            record: Some(record),
            byte: Some(self.records.start(record)),
            ..Location::default()
        }
    }

    fn fingerprint(&self) -> Fingerprint {
        Fingerprint { count: Some(self.len()), names: 0, sizes: self.stored_bytes }
    }
}

impl TfRecords {
    /// Finds the features that are read.
    fn find_features(
        &self,
        example: &[u8],
        found: &mut Vec<Option<Range<usize>>>,
        order: &mut Vec<usize>,
    ) -> Result<(), Fault> {
        found.clear();
        found.resize(self.fields.len(), None);
        let mut nth = 0;
        each_feature(example, &mut |name, is_list, feature| {
            let is_it = |key: &Key| key.is_list == is_list && key.name.as_bytes() == name;
            let is_this = |number: usize| self.wanted.has(number) && self.keys.get(number).is_some_and(is_it);
            let guess = order.get(nth).copied().filter(|number| is_this(*number));
            let number = guess.or_else(|| self.wanted.of(name, is_list));
            if let Some(number) = number {
                if nth < MAX_FIELDS && guess.is_none() {
                    order.resize(order.len().max(nth + 1), usize::MAX);
                    order[nth] = number;
                }
                found[number] = Some(feature.at..feature.at + feature.bytes.len());
            }
            nth += 1;
            Ok(())
        })?;
        for (one, other) in &self.wanted.twins {
            // The order of features may have been learnt by another reader with this scratch: either name may have been found.
            let feature = found[*one].clone().or_else(|| found[*other].clone());
            (found[*one], found[*other]) = (feature.clone(), feature);
        }
        Ok(())
    }
}

impl From<Fault> for Error {
    #[cold]
    fn from(Fault { what, at }: Fault) -> Self {
        let message = format!("{what}: the record is not a complete tf.train.Example");
        Self::new(ErrorKind::Data, message).at_byte((HEADER + at) as u64)
    }
}

/// Gives the value of a feature, or its values as one list; nothing for a feature without values.
fn give(values: Values<'_>, visit: &mut dyn FnMut(Value<'_>) -> Result<()>) -> Result<()> {
    match values {
        Values::None | Values::Floats([]) | Values::Integers([]) => Ok(()),
        Values::Floats([number]) => visit(Value::F64((*number).into())),
        Values::Floats(numbers) => visit(Value::Numbers(NumberSlice::F32(numbers))),
        Values::Integers([number]) => visit(Value::I64(*number)),
        Values::Integers(numbers) => visit(Value::Numbers(NumberSlice::I64(numbers))),
        Values::Bytes(strings) => match strings.len() {
            0 => Ok(()),
            1 => strings.each(visit),
            _ => visit(Value::List(&strings)),
        },
    }
}

impl List for ByteStrings<'_> {
    fn each(&self, visit: &mut dyn FnMut(Value<'_>) -> Result<()>) -> Result<()> {
        self.iter().try_for_each(|bytes| visit(Value::Bytes(bytes)))
    }
}

/// Gives the values of a step as a list, whatever their number.
fn give_list(values: Values<'_>, visit: &mut dyn FnMut(Value<'_>) -> Result<()>) -> Result<()> {
    match values {
        Values::None => visit(Value::Numbers(NumberSlice::I64(&[]))),
        Values::Floats(numbers) => visit(Value::Numbers(NumberSlice::F32(numbers))),
        Values::Integers(numbers) => visit(Value::Numbers(NumberSlice::I64(numbers))),
        Values::Bytes(strings) => visit(Value::List(&strings)),
    }
}

/// The steps of a list of features.
struct Steps<'a> {
    list: Part<'a>,
    /// Whether steps are lists; otherwise each is one value.
    are_lists: bool,
    room: Cell<Room>,
}

impl List for Steps<'_> {
    fn each(&self, visit: &mut dyn FnMut(Value<'_>) -> Result<()>) -> Result<()> {
        let mut room = self.room.take();
        // A fault of the step itself is at a byte of the record.
        let visit: &mut dyn FnMut(Value<'_>) -> Result<()> = &mut |value| visit(value).map_err(Error::in_value);
        let result = each_step(self.list, |feature| {
            let values = room.values(feature)?;
            // A step without a value must not vanish among those that have one.
            if self.are_lists || values.is_empty() { give_list(values, visit) } else { give(values, visit) }
        });
        self.room.set(room);
        result
    }
}
