//! What `inspect` reports about a file or folder.

use std::borrow::Cow;
use std::collections::HashMap;
use std::path::{Path, PathBuf};

use serde::{Serialize, Serializer};

use crate::decode::number_of_text;
use crate::dtype::DType;
use crate::error::Result;
use crate::read::container::{Container, FieldInfo, FieldKind, Meaning, doubled_names, find_all, read_one};
use crate::read::summary::{FieldSummary, Figure, Tally};
use crate::read::value::Value;
#[cfg(feature = "formats")]
use crate::read::{ArraySummary, ClassCount, FormatCount, IgnoredFiles, MemberCount};
use crate::read::{ColumnRef, Scratch, parallel};
use crate::schema::TensorSpec;

use super::opened::{Open, Opened};

/// The contents of a file or folder. In JSON, the details are beside the other keys; those of a format of your own are
/// under `details`.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct Inspection {
    /// Its path.
    #[serde(serialize_with = "crate::files::lossy")]
    pub path: PathBuf,
    /// Its format.
    pub format: &'static str,
    /// Number of records.
    pub records: u64,
    /// The fields of a record, with statistics over all records.
    pub fields: Vec<FieldSummary>,
    /// The first record.
    pub first: Option<InspectedRecord>,
    /// The last record.
    pub last: Option<InspectedRecord>,
    /// Details of one format.
    #[serde(flatten)]
    pub details: Details,
}

/// A record, as an inspection shows it.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(untagged)]
#[non_exhaustive]
pub enum InspectedRecord {
    /// Fields as text.
    #[serde(serialize_with = "as_map")]
    Columns(Vec<(String, String)>),
    /// Arrays of numbers; `None` if they are too long.
    #[serde(serialize_with = "as_map")]
    Numbers(Vec<(String, Option<Vec<Figure>>)>),
    /// An image or sound file, and its class.
    Image {
        /// The file.
        path: String,
        /// Its class.
        label: Option<String>,
    },
    /// A sequence.
    Sequence {
        /// The file.
        path: String,
        /// Number of its steps.
        steps: u64,
    },
    /// A sample in an archive.
    Member {
        /// The archive.
        path: String,
        /// The sample's key.
        key: String,
        /// Its class.
        label: Option<String>,
    },
}

/// Details of one format.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(untagged)]
#[non_exhaustive]
pub enum Details {
    /// A table of text.
    Table {
        /// Whether the first record is the header.
        header: bool,
        /// The reason for this decision.
        header_reason: String,
        /// The character that separates fields.
        delimiter: char,
        /// Name of the text's encoding.
        encoding: String,
        /// For sequences: number of all steps.
        #[serde(skip_serializing_if = "Option::is_none")]
        steps: Option<u64>,
        /// For a folder: files that are not read.
        #[serde(flatten)]
        ignored: Option<NamedCount>,
    },
    /// No details.
    Plain {},
    /// Details of a format of your own: names and texts.
    Named {
        /// Names and values, in the order in which they are shown.
        #[serde(serialize_with = "as_map")]
        details: Vec<(String, String)>,
    },
    /// Several files of arrays.
    Arrays {
        /// The files and their records.
        files: Vec<ArrayFile>,
        /// Files that are not read.
        #[serde(flatten)]
        ignored: NamedCount,
    },
    /// One image.
    Image {
        /// Width in pixels.
        width: u32,
        /// Height in pixels.
        height: u32,
        /// Channels as stored.
        channels: u8,
        /// Means of red, green and blue.
        channel_means: [f64; 3],
        /// EXIF orientation.
        orientation: u8,
    },
    /// One sound.
    Audio {
        /// Frames per second.
        rate: u32,
        /// Channels as stored.
        channels: usize,
        /// Number of samples per channel.
        frames: u64,
    },
    /// A folder of images or sounds.
    #[cfg(feature = "formats")]
    Files {
        /// The classes.
        classes: Vec<ClassCount>,
        /// The formats of files.
        formats: Vec<FormatCount>,
        /// Files that are not read.
        #[serde(flatten)]
        ignored: NamedCount,
    },
    /// Archives of samples.
    #[cfg(feature = "formats")]
    Archives {
        /// Their number.
        archives: u64,
        /// The members of samples, by extension.
        members: Vec<MemberCount>,
        /// The classes.
        classes: Vec<ClassCount>,
        /// Number of members that do not belong to a sample.
        ignored: u64,
        /// Files that are not read.
        #[serde(rename = "ignored_files", serialize_with = "names_alone")]
        files: NamedCount,
    },
}

/// Files or members that are not read: how many, and the first ones.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct NamedCount {
    /// Their number.
    #[serde(rename = "ignored")]
    pub count: u64,
    /// The names of the first ones.
    #[serde(rename = "ignored_files")]
    pub first: Vec<String>,
}

/// A file of arrays, and its number of records.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct ArrayFile {
    /// Its name.
    pub name: String,
    /// Its number of records.
    pub records: u64,
}

#[cfg(feature = "formats")]
impl From<IgnoredFiles> for NamedCount {
    fn from(IgnoredFiles { count, first }: IgnoredFiles) -> Self {
        Self { count, first: first.iter().map(|path| text_of(path)).collect() }
    }
}

#[cfg(feature = "formats")]
pub(crate) fn text_of(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

#[cfg(feature = "formats")]
fn names_alone<S: Serializer>(ignored: &NamedCount, serializer: S) -> std::result::Result<S::Ok, S::Error> {
    ignored.first.serialize(serializer)
}

/// By name. A name that several have counts them: `x`, `x (2)`.
fn as_map<S: Serializer>(entries: &[(String, impl Serialize)], serializer: S) -> std::result::Result<S::Ok, S::Error> {
    let mut counts = HashMap::new();
    serializer.collect_map(entries.iter().map(|(name, value)| {
        let nth = counts.entry(name).and_modify(|count| *count += 1).or_insert(1);
        (if *nth == 1 { Cow::Borrowed(name) } else { Cow::Owned(format!("{name} ({nth})")) }, value)
    }))
}

/// Most records of a container whose first and last values are shown in full.
const SHOWN: usize = 60;

/// Number of records that a thread sums up at a time.
const RECORDS_AT_ONCE: u64 = 512;

/// Statistics over a field.
#[derive(Clone, Copy, Default)]
struct Sums {
    given: u64,
    tally: Tally,
}

impl Inspection {
    /// An inspection of a path, without details.
    pub fn new(path: &Path, format: &'static str, records: u64) -> Self {
        Self {
            path: path.to_owned(),
            format,
            records,
            fields: Vec::new(),
            first: None,
            last: None,
            details: Details::Plain {},
        }
    }

    #[cfg(feature = "formats")]
    pub(crate) fn of_array(format: &'static str, summary: ArraySummary) -> Self {
        let name = summary.field.name.clone();
        let inspected = |values: Option<Vec<Figure>>| {
            values.map(|values| InspectedRecord::Numbers(vec![(name.clone(), Some(values))]))
        };
        Self {
            first: inspected(summary.first),
            last: inspected(summary.last),
            fields: vec![summary.field],
            ..Self::new(&summary.path, format, summary.records)
        }
    }

    /// Describes all fields of all records that were opened: what [`Format::inspect`](super::Format::inspect) gives by
    /// default, without details.
    ///
    /// # Errors
    ///
    /// Those of reading the records.
    pub fn of_opened(format: &'static str, opened: Opened, at: &Open<'_>) -> Result<Self> {
        match opened {
            Opened::Container(container) => Self::of_container(format, container, at),
            Opened::Reader(reader) if !reader.tensors().iter().any(TensorSpec::is_variable) => {
                Self::of_container(format, Opened::Reader(reader).into_values()?, at)
            }
            other => {
                let readers = other.readers(at)?;
                let records = readers.iter().map(|reader| reader.len()).min().unwrap_or(0);
                let specs = readers.iter().flat_map(|reader| reader.tensors());
                let fields = specs.map(|spec| FieldSummary {
                    shape: spec.row_shape(&Default::default()).to_vec(),
                    ..FieldSummary::unread(&spec.name, spec.dtype.as_str(), records)
                });
                Ok(Self { fields: fields.collect(), ..Self::new(at.path, format, records) })
            }
        }
    }

    fn of_container(format: &'static str, mut container: Box<dyn Container>, at: &Open<'_>) -> Result<Self> {
        let numbers = find_all(&mut *container)?;
        let counted = find_others(&mut *container, &numbers);
        let places = Places::new(&numbers, &counted);
        let container = &*container;
        let is_single = |place: usize| container.fields()[place].shape.is_empty();
        let records = container.len();
        let mut sums = vec![Sums::default(); numbers.len()];
        parallel::in_order(
            parallel::thread_count(None),
            records.div_ceil(RECORDS_AT_ONCE),
            |scratch: &mut Scratch, job| {
                let mut found = vec![Sums::default(); numbers.len()];
                for record in job * RECORDS_AT_ONCE..records.min((job + 1) * RECORDS_AT_ONCE) {
                    read_one(container, record, scratch, &mut |number, value| {
                        match places.of(number) {
                            // As in CSV and NPY files, and as pandas has it.
                            Some((place, true)) if is_single(place) && is_nan(value) => {}
                            Some((place, true)) => found[place].add(value)?,
                            Some((place, false)) => found[place].count(value),
                            None => {}
                        }
                        Ok(())
                    })?;
                }
                Ok(found)
            },
            |found| {
                sums.iter_mut().zip(found).for_each(|(sums, found)| sums.merge(&found));
                Ok(())
            },
        )?;
        let all = container.fields().iter().zip(&sums).zip(numbers.iter().zip(&counted));
        let fields = all.map(|((info, sums), (number, counted))| {
            let is_unsigned = number.is_some_and(|number| container.meaning(number) == Some(Meaning::U64));
            if number.is_none() {
                let given = if counted.is_some() { sums.given } else { records };
                let unread = FieldSummary::unread(&info.name, info.type_name(), given);
                return FieldSummary { missing: records - given, ..unread };
            }
            let whole = matches!(info.kind, FieldKind::Numbers(dtype) if dtype != DType::U8 || sums.tally.count > 0);
            let is_float = !is_unsigned && matches!(info.kind, FieldKind::Numbers(dtype) if dtype.is_float());
            let typed = |end: Figure| end.typed(!is_float);
            let figures = Some(sums.tally).filter(|tally| whole && tally.count > 0);
            FieldSummary {
                name: info.name.clone(),
                role: "feature".to_owned(),
                dtype: if is_unsigned { DType::U64.as_str() } else { info.type_name() }.to_owned(),
                shape: info.shape.clone(),
                count: sums.given,
                missing: records.saturating_sub(sums.given),
                sum: figures.and_then(|tally| tally.sum()).map(typed),
                min: figures.and_then(|tally| tally.min()).map(typed),
                max: figures.and_then(|tally| tally.max()).map(typed),
                mean: figures.and_then(|tally| tally.mean()),
            }
        });
        let inspected = |record: u64| -> Result<InspectedRecord> {
            let mut columns = Vec::new();
            read_one(container, record, &mut Scratch::default(), &mut |number, value| {
                if let Some((at, true)) = places.of(number) {
                    let mut text = shown(value);
                    if let Some((end, _)) = text.char_indices().nth(SHOWN) {
                        text.truncate(end);
                        text.push('…');
                    }
                    columns.push((container.fields()[at].name.clone(), text));
                }
                Ok(())
            })?;
            Ok(InspectedRecord::Columns(columns))
        };
        Ok(Self {
            fields: fields.collect(),
            first: if records > 0 { Some(inspected(0)?) } else { None },
            last: if records > 0 { Some(inspected(records - 1)?) } else { None },
            ..Self::new(at.path, format, records)
        })
    }
}

/// The numbers of the fields that no codec reads as a whole but that can be counted, such as columns of nulls.
fn find_others(container: &mut dyn Container, known: &[Option<usize>]) -> Vec<Option<usize>> {
    let doubled = doubled_names(container.fields());
    let column = |info: &FieldInfo| (!doubled.contains(&info.name)).then(|| ColumnRef::Name(info.name.clone()));
    let columns: Vec<_> = container.fields().iter().map(column).collect();
    let find = |(column, known): (Option<ColumnRef>, &Option<usize>)| match (column, known) {
        (Some(column), None) => container.find(&column).ok(),
        _ => None,
    };
    columns.into_iter().zip(known).map(find).collect()
}

/// The field of each value, by the number that the container gives it, and whether the value is read or only counted.
struct Places(HashMap<usize, (usize, bool)>);

impl Places {
    fn new(read: &[Option<usize>], counted: &[Option<usize>]) -> Self {
        let numbered = |found: &[Option<usize>], is_read| {
            let numbers = found.iter().enumerate().filter_map(|(place, number)| Some((place, (*number)?)));
            numbers.map(|(place, number)| (number, (place, is_read))).collect::<Vec<_>>()
        };
        Self(numbered(counted, false).into_iter().chain(numbered(read, true)).collect())
    }

    fn of(&self, number: usize) -> Option<(usize, bool)> {
        self.0.get(&number).copied()
    }
}

fn is_nan(value: Value<'_>) -> bool {
    match value {
        Value::F64(number) => number.is_nan(),
        Value::Numbers(numbers) => numbers.len() == 1 && numbers.at(0).is_nan(),
        _ => false,
    }
}

fn integer_of_64_bits(text: &str) -> Option<i128> {
    text.parse().ok().filter(|number| (i128::from(i64::MIN)..=i128::from(u64::MAX)).contains(number))
}

fn shown(value: Value<'_>) -> String {
    match value {
        Value::Missing => String::new(),
        Value::Text(text) | Value::Decimal(text) => text.to_owned(),
        value => value.describe(),
    }
}

impl Sums {
    fn add(&mut self, value: Value<'_>) -> Result<()> {
        self.count(value);
        self.tally(value)
    }

    fn count(&mut self, value: Value<'_>) {
        self.given += u64::from(!matches!(value, Value::Missing));
    }

    fn tally(&mut self, value: Value<'_>) -> Result<()> {
        match value {
            Value::Bool(flag) => self.tally.add_integer(flag.into()),
            Value::I64(number) | Value::Time(number, _) => self.tally.add_integer(number.into()),
            Value::U64(number) => self.tally.add_integer(number.into()),
            Value::F64(number) if !number.is_nan() => self.tally.add(number),
            Value::Decimal(text) => match (integer_of_64_bits(text), number_of_text(text)) {
                (Some(number), _) => self.tally.add_integer(number),
                (None, Some(number)) => self.tally.add(number),
                _ => {}
            },
            Value::Numbers(numbers) => self.tally.add_numbers(numbers),
            Value::List(list) => list.each(&mut |value| self.tally(value))?,
            _ => {}
        }
        Ok(())
    }

    fn merge(&mut self, other: &Self) {
        self.given += other.given;
        self.tally.merge(&other.tally);
    }
}
