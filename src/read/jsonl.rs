//! JSON Lines: a JSON value on each line.

use std::collections::HashMap;
use std::path::Path;

use crate::error::{Error, ErrorKind, Location, Result};
use crate::memory::MemoryBudget;
use crate::storage::{Files, Needs};

use super::container::{Container, FieldInfo, FieldKind, Meaning, Visit, find_field};
use super::csv::Blanks;
use super::field_reader::MAX_SOURCES;
use super::format::{Format, Open, Opened, format_has};
use super::json::{Buffers, Found, Seen, Wanted, each_leaf, missing_objects, steps_to};
use super::lines::{BlankLines, LineBytes, LineOptions, Lines};
use super::names::plain_name;
use super::paths::is_hidden;
use super::{ColumnRef, Fingerprint, Scratch, parallel};

/// How much is read to find the fields: this many records, but not more than this many bytes.
const SAMPLE_RECORDS: u64 = 1000;
const SAMPLE_BYTES: u64 = 8 << 20;

/// Most fields that are listed: more than may be read, so that none is left out without an error. Others can still be
/// found by name.
const MAX_FIELDS: usize = MAX_SOURCES + 1;

/// The format of JSON Lines. Files are recognised if each line is an object.
#[derive(Clone, Copy, Debug)]
pub struct Jsonl;

impl Format for Jsonl {
    const NAME: &'static str = "jsonl";
    type Options = LineOptions;

    fn sniff(&self, head: &[u8], _: &Path) -> bool {
        let head = head.strip_prefix(b"\xef\xbb\xbf").unwrap_or(head).trim_ascii_start();
        let line = head.split(|byte| *byte == b'\n').next().unwrap_or_default();
        // The bytes that are read may end inside the line, even inside a character.
        let text = line.utf8_chunks().next().map_or("", |chunk| chunk.valid());
        let is_cut = |at: usize| line.len() == head.len() && at >= text.len();
        text.starts_with('{')
            && Wanted::default().find_one(text).err().is_none_or(|fault| fault.at > 1 && is_cut(fault.at))
    }

    fn has_name(&self, name: &str) -> bool {
        [".jsonl", ".ndjson", ".jsonlines"].iter().any(|ending| name.ends_with(ending))
    }

    fn title(&self) -> Option<&'static str> {
        Some("JSON Lines")
    }

    fn is_in_folder(&self, path: &Path, head: Option<&[u8]>) -> bool {
        let name = plain_name(path);
        head.is_none() && !is_hidden(&name) && Format::has_name(self, &name)
    }

    fn packed_advice(&self) -> Option<&'static str> {
        None
    }

    format_has!(small_samples, access, saved_index);

    fn open(&self, options: &LineOptions, at: &Open<'_>) -> Result<impl Into<Opened>> {
        JsonLines::open(at.files, at.path, options, at.budget)
    }
}

/// The records of a JSON Lines file, plain or compressed: a JSON value on each line, mostly an object.
///
/// A field is the member with that key (`"label"`), or the value at a JSON pointer (RFC 6901, such as
/// `"/boxes/0/size"`; `""` is the whole record). Numbers are rounded once, from their text to the tensor's type;
/// escapes in texts are resolved; `null` and members that a record does not have are missing values; arrays are lists.
/// An object is not a value: name a member of it.
///
/// Each line is checked completely against RFC 8259; a line that is not JSON is a bad record, with line and byte. If a
/// key occurs twice, the last value counts. `NaN` and `Infinity`, which Python writes by default, are not JSON. Arrays
/// and objects may be nested up to 128 deep. Lines that are empty or hold only blanks are not records, as in pandas and
/// PyArrow. A byte-order mark at the beginning is ignored, and a CR before the line end is a blank.
///
/// [`fields`](Container::fields) lists the members of the first 1000 records (at most 8 MiB of them). A member that
/// none of them has is searched in all records before it is an error.
///
/// ```
/// use ringfeed::field::{Class, Numbers};
/// use ringfeed::memory::MemoryBudget;
/// use ringfeed::read::{FieldReader, JsonLines, LineOptions, RecordReader};
/// use ringfeed::storage::Files;
///
/// let folder = tempfile::tempdir()?;
/// let path = folder.path().join("points.jsonl");
/// std::fs::write(&path, "{\"at\": [1.5, 2], \"is\": {\"kind\": \"a\"}}\n{\"at\": [-3, 4e1], \"is\": {\"kind\": \"b\"}}\n")?;
/// let budget = MemoryBudget::unlimited();
/// let lines = JsonLines::open(&Files::local(), &path, &LineOptions::default(), &budget)?;
/// let fields = [("at".to_owned(), Numbers::f32().into()), ("kind".to_owned(), Class.from("/is/kind"))];
/// let reader = FieldReader::new(lines, &fields, &budget)?;
/// assert_eq!(reader.len(), 2);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct JsonLines {
    lines: Lines,
    /// The fields of the sample, followed by those that were found later.
    fields: Vec<FieldInfo>,
    /// For each field, what its values mean.
    meanings: Vec<Option<Meaning>>,
    listed: usize,
    wanted: Wanted,
}

/// What a worker keeps between records.
#[derive(Default)]
struct Worker {
    lines: LineBytes,
    found: Found,
    buffers: Buffers,
}

impl JsonLines {
    /// Finds the lines of the file at `path`, and reads the first ones.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::NotFound`] with the nearest path, [`ErrorKind::Limit`] for a line that is too long, and those of
    /// reading.
    pub fn open(files: &Files, path: &Path, options: &LineOptions, budget: &MemoryBudget) -> Result<Self> {
        if options.blank_lines == BlankLines::Keep {
            let message = "blank_lines: an empty line is not JSON; leave it out, or read the file as text";
            return Err(Error::new(ErrorKind::Config, message).at_path(path));
        }
        let lines = Lines::open_those(files, path, options, (Blanks::Nothing, None), budget)?;
        let mut jsonl = Self { lines, fields: Vec::new(), meanings: Vec::new(), listed: 0, wanted: Wanted::default() };
        let (mut seen, mut numbers): (Vec<(String, Seen)>, HashMap<String, usize>) = Default::default();
        let mut found = Found::default();
        jsonl.each_of_sample(&mut |text| {
            if jsonl.wanted.find(text, &mut found).is_err() {
                return Ok(());
            }
            each_leaf(text.trim_ascii(), &mut |name, value| {
                if let Some(number) = numbers.get(name) {
                    let seen = &mut seen[*number].1;
                    *seen = seen.and(&Seen::of(value));
                } else if seen.len() < MAX_FIELDS {
                    numbers.insert(name.to_owned(), seen.len());
                    seen.push((name.to_owned(), Seen::of(value)));
                }
                Ok(())
            })
        })?;
        jsonl.fields = seen.iter().map(|(name, seen)| seen.info(name)).collect();
        let objects = missing_objects(&jsonl.fields);
        jsonl.fields.retain(|field| !objects.contains(&field.name));
        seen.retain(|(name, _)| !objects.contains(name));
        jsonl.meanings = seen.iter().map(|(_, seen)| seen.meaning()).collect();
        jsonl.listed = jsonl.fields.len();
        Ok(jsonl)
    }

    /// Gives those lines of the sample that are UTF-8. Returns whether these are all records.
    fn each_of_sample(&self, visit: &mut dyn FnMut(&str) -> Result<()>) -> Result<bool> {
        let first = self.lines.start(0);
        let is_near = |record: &u64| *record == 0 || self.lines.start(record + 1) - first <= SAMPLE_BYTES;
        let records: Vec<u64> = (0..self.len().min(SAMPLE_RECORDS)).take_while(is_near).collect();
        let mut bytes = LineBytes::default();
        for nth in 0..records.len() {
            self.lines.fetch_lines(&records, nth, &mut bytes)?;
            if let Ok(text) = std::str::from_utf8(self.lines.line(nth, &bytes)) {
                visit(text)?;
            }
        }
        Ok(records.len() as u64 == self.len())
    }

    /// What a pointer leads to: in the sample, or in the first record that has such a value. `None` if no record has.
    fn look_for(&self, steps: &[String]) -> Result<Option<Seen>> {
        let mut wanted = Wanted::default();
        wanted.add(steps, 0);
        let look = |text: &str| wanted.find_one(text).ok().flatten().map(Seen::of);
        let mut seen: Option<Seen> = None;
        let is_all = self.each_of_sample(&mut |text| {
            if let Some(more) = look(text) {
                seen = Some(seen.take().unwrap_or_default().and(&more));
            }
            Ok(())
        })?;
        if seen.is_some() || is_all {
            return Ok(seen);
        }
        parallel::first_found(self.len(), |lines: &mut LineBytes, record| {
            self.lines.fetch_lines(&[record], 0, lines)?;
            Ok(std::str::from_utf8(self.lines.line(0, lines)).ok().and_then(look))
        })
    }
}

impl Container for JsonLines {
    fn len(&self) -> u64 {
        self.lines.len()
    }

    fn fields_vary(&self) -> bool {
        true
    }

    fn tells_lists_from_values(&self) -> bool {
        true
    }

    fn means_same(&self, one: &str, other: &str) -> bool {
        let has_pointer = one.starts_with('/') || other.starts_with('/');
        one == other || has_pointer && steps_to(one) == steps_to(other)
    }

    fn fields(&self) -> &[FieldInfo] {
        &self.fields
    }

    /// The field with this key or pointer, or the listed field at this position.
    fn find(&mut self, field: &ColumnRef) -> Result<usize> {
        let number = match field {
            ColumnRef::Position(_) => find_field(&self.fields[..self.listed], field)?,
            ColumnRef::Name(name) => match self.fields.iter().position(|field| field.name == *name) {
                Some(number) => number,
                None => {
                    let seen = self.look_for(&steps_to(name))?;
                    let meaning = seen.as_ref().and_then(Seen::meaning);
                    let info = match seen {
                        Some(seen) if seen.is_object() => {
                            let message = format!("field {name:?} is an object; name a value in it by a pointer");
                            let near = self.fields[..self.listed]
                                .iter()
                                .find(|field| field.name.starts_with(&format!("/{}/", name.trim_start_matches('/'))));
                            let such = near.map(|near| format!(", such as {:?}", near.name)).unwrap_or_default();
                            return Err(Error::new(ErrorKind::Config, message + &such));
                        }
                        Some(seen) => seen.info(name),
                        None if self.is_empty() => FieldInfo::new(name, FieldKind::Other),
                        None => {
                            // A line that is not JSON has no fields.
                            if self.listed == 0 {
                                let mut scratch = Scratch::default();
                                self.fetch(&[0], 0, &mut scratch)?;
                                self.read(0, 0, &mut scratch, &mut |_, _| Ok(()))?;
                            }
                            find_field(&self.fields[..self.listed], field)?;
                            return Err(Error::new(ErrorKind::NotFound, format!("no record has a field {name:?}")));
                        }
                    };
                    self.fields.push(info);
                    self.meanings.push(meaning);
                    self.fields.len() - 1
                }
            },
        };
        self.wanted.add(&steps_to(&self.fields[number].name), number);
        Ok(number)
    }

    fn forget(&mut self) {
        self.fields.truncate(self.listed);
        self.meanings.truncate(self.listed);
        self.wanted = Wanted::default();
    }

    fn meaning(&self, number: usize) -> Option<Meaning> {
        self.meanings.get(number).cloned().flatten()
    }

    /// A pointer leads through objects.
    fn steps(&self, number: usize) -> Option<Vec<String>> {
        let name = &self.fields.get(number)?.name;
        Some(steps_to(name)).filter(|steps| !steps.is_empty())
    }

    fn each_name(&self, _: u64, nth: usize, scratch: &mut Scratch, visit: &mut dyn FnMut(&str)) {
        let line = self.lines.line(nth, &scratch.of::<Worker>().lines);
        // What is wrong with a line is reported when it is read.
        if let Ok(text) = std::str::from_utf8(line) {
            let _ = each_leaf(text.trim_ascii(), &mut |name, value| {
                if value != "null" {
                    visit(name);
                }
                Ok(())
            });
        }
    }

    fn need(&self, records: &[u64], needs: &mut Needs) {
        self.lines.need(records, needs);
    }

    fn fetch(&self, records: &[u64], nth: usize, scratch: &mut Scratch) -> Result<()> {
        self.lines.fetch_lines(records, nth, &mut scratch.of::<Worker>().lines)
    }

    fn read(&self, record: u64, nth: usize, scratch: &mut Scratch, visit: &mut Visit<'_>) -> Result<()> {
        let Worker { lines, found, buffers } = scratch.of();
        let line = self.lines.line(nth, lines);
        let text = std::str::from_utf8(line).map_err(|error| {
            let at = error.valid_up_to();
            let message = format!("{:#04x}: the line is not UTF-8; set encoding", line[at]);
            self.lines.locate(Error::new(ErrorKind::Data, message), record, at as u64)
        })?;
        self.wanted.find(text, found).map_err(|fault| self.lines.locate(fault.error(text), record, fault.at as u64))?;
        found.give(text, buffers, visit, |error, number, at| {
            self.lines.locate(error.at_column(&self.fields[number].name), record, at as u64)
        })
    }

    fn place(&self, record: u64) -> Location {
        self.lines.place(record)
    }

    fn fingerprint(&self) -> Fingerprint {
        self.lines.fingerprint()
    }
}
