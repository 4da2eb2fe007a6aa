//! Many small files, or rows of text, as few large files: from any source to tar archives (as WebDataset has them) or
//! Parquet files.
//!
//! ```
//! use ringfeed::formats::Formats;
//! use ringfeed::pack::{Pack, PackInto};
//!
//! # let folder = tempfile::tempdir()?;
//! # let out = folder.path().join("packed");
//! let source = Formats::new().whole("fixtures/iris-species.csv")?;
//! let manifest = Pack::new(source, PackInto::Tar).shard_bytes(64 << 10).run(&out)?;
//! assert_eq!((manifest.records, manifest.shards[0].name.as_str()), (150, "shard-000000.tar"));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod cells;
mod folder;
mod forms;
mod journal;
mod output;
#[cfg(feature = "parquet")]
mod parquet;
mod tar;

use std::fs;
use std::io::Write;
use std::ops::ControlFlow;
use std::path::Path;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value as Json};

use crate::dtype::DType;
use crate::error::{Error, ErrorKind, Result};
use crate::files;
use crate::memory::MemoryBudget;
use crate::read::parallel::{in_order, thread_count};
use crate::read::{Container, Csv, FieldKind, Fingerprint, Scratch, SourceConfig, Value};
use crate::storage::Files;

use cells::{Cell, Column, columns, float_of, integer_of, is_held};
use forms::{Form, forms};
use journal::{Identity, Journal};
use output::Output;

pub use journal::Shard;

/// What a source is packed into.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum PackInto {
    /// Tar archives: each record is a sample, whose members are called by the record's number. Bytes are members of their
    /// own, with the extension of what they hold; a class by its index is `cls`; arrays are `.npy`; all other values are in one
    /// `json`. A field has the same form in all samples: lists of numbers are arrays, unless the first 1000 records show that
    /// they hold missing values, or lists of different lengths.
    Tar,
    /// Parquet files, compressed by Snappy: each field is a column. Needs the feature `parquet`.
    Parquet,
}

/// How a source is packed.
///
/// Shards hold the records in the source's order, each as many as fit [`shard_bytes`](Self::shard_bytes). Which they are, and every byte
/// of them, depends on the source and these settings alone: not on threads, and not on whether a run was stopped and went on.
#[derive(Clone, Debug)]
pub struct Pack {
    source: SourceConfig,
    into: PackInto,
    shard_bytes: u64,
    fields: Vec<String>,
    skip_bad: bool,
    restart: bool,
    threads: Option<usize>,
}

/// How far packing has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PackProgress {
    /// Records of the source that are packed or left out, those of an earlier run too.
    pub records: u64,
    /// Records of the source.
    pub total: u64,
    /// Shards that are finished.
    pub shards: u64,
    /// Their bytes.
    pub bytes: u64,
}

/// What was packed: `manifest.json` beside the shards.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Manifest {
    /// Of this form.
    pub version: u32,
    /// What the shards are.
    pub format: PackInto,
    /// Where the records come from.
    pub source: PackedSource,
    /// Records in all shards.
    pub records: u64,
    /// Bad records that were left out.
    pub skipped: u64,
    /// Bytes of all shards.
    pub bytes: u64,
    /// Most bytes of a shard, as it was asked for.
    #[serde(default)]
    pub shard_bytes: u64,
    /// Whether bad records were to be left out.
    #[serde(default)]
    pub skip_bad: bool,
    /// The fields of a record, as they are called in the shards.
    pub fields: Vec<PackedField>,
    /// The names of the classes, in the order of their indices, where the source knows them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub classes: Vec<String>,
    /// The shards, in the order of their records.
    pub shards: Vec<Shard>,
}

/// Where packed records come from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct PackedSource {
    /// Its format.
    pub format: String,
    /// Its path; the first of several.
    pub path: String,
    /// What tells it from another one, or a changed one.
    pub fingerprint: Fingerprint,
    /// Hash of the names, lengths and modification times of its files.
    #[serde(default)]
    pub stamp: String,
    /// Its options, those that are not the defaults.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    options: Map<String, Json>,
}

/// A field of a packed record.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct PackedField {
    /// Its name.
    pub name: String,
    /// An element type, `text` or `bytes`.
    pub kind: String,
    /// The shape of its value: `[]` for a single one, 0 for a length that differs from record to record.
    pub shape: Vec<usize>,
}

const MANIFEST: &str = "manifest.json";

/// What to do about a folder that holds another pack.
const START_OVER: &str = "pack into another folder, or start over (--restart), which removes the shards that are here";

/// Of manifests, journals, and what shards hold. The first had neither the source's options nor those of the pack.
const VERSION: u32 = 2;

/// Bytes of records that a thread reads before it takes the next ones, as far as the first record tells.
const BYTES_AT_ONCE: u64 = 1 << 20;
const MOST_AT_ONCE: u64 = 256;

impl Pack {
    /// All fields of a source, in shards of at most 256 MiB.
    pub fn new(source: SourceConfig, into: PackInto) -> Self {
        Self {
            source,
            into,
            shard_bytes: 256 << 20,
            fields: Vec::new(),
            skip_bad: false,
            restart: false,
            threads: None,
        }
    }

    /// Most bytes of a shard, unless a single record has more. Of Parquet files, bytes before they are encoded.
    #[must_use]
    pub fn shard_bytes(mut self, bytes: u64) -> Self {
        self.shard_bytes = bytes;
        self
    }

    /// Only these fields.
    #[must_use]
    pub fn fields<S: Into<String>>(mut self, names: impl IntoIterator<Item = S>) -> Self {
        self.fields = names.into_iter().map(Into::into).collect();
        self
    }

    /// Leaves bad records out, and counts them. By default the first one ends packing with its error.
    #[must_use]
    pub fn skip_bad(mut self) -> Self {
        self.skip_bad = true;
        self
    }

    /// Starts over where something was packed into the folder before, finished or not: its shards are removed first, and nothing
    /// else. By default only the same pack goes on there.
    #[must_use]
    pub fn restart(mut self) -> Self {
        self.restart = true;
        self
    }

    /// Threads that read and encode; by default one for each core.
    #[must_use]
    pub fn threads(mut self, threads: usize) -> Self {
        self.threads = Some(threads);
        self
    }

    /// Packs into the folder `out`, which is made if it is not there.
    ///
    /// A run that was stopped, however hard, goes on where the last finished shard ends when it is run again; finished shards are
    /// never written again, unless one of them is damaged or missing: it and those behind it are made anew. Every shard appears
    /// whole. One run at a time may work in a folder.
    ///
    /// # Errors
    ///
    /// Those of reading, of a value that has no form in what is packed into, and of writing; [`ErrorKind::Config`] for a folder
    /// in which something else was packed (another source, one whose files have changed since, or the same with other options),
    /// that holds files called like shards, or in which the files of the source lie.
    pub fn run(&self, out: impl AsRef<Path>) -> Result<Manifest> {
        self.run_with(out, |_| ControlFlow::Continue(()))
    }

    /// The same; `show` is told how far it has come, and may stop it.
    ///
    /// # Errors
    ///
    /// As [`run`](Self::run), and [`ErrorKind::Interrupted`] where `show` stopped it.
    pub fn run_with(
        &self,
        out: impl AsRef<Path>,
        mut show: impl FnMut(PackProgress) -> ControlFlow<()>,
    ) -> Result<Manifest> {
        let out = out.as_ref();
        let files = Files::local();
        let source_files = folder::source_files(&self.source, &files)?;
        folder::check_outside(out, &self.source, &source_files)?;
        let budget = MemoryBudget::unlimited();
        let mut container = self.source.open_values(&files, &budget)?;
        let at_source = |error: Error| if error.path().is_some() { error } else { error.at_path(self.source.path()) };
        let has_structs = matches!(self.source.format(), "images" | "parquet" | "arrow");
        let mut columns = columns(&mut *container, &self.fields, has_structs).map_err(at_source)?;
        let container = &*container;
        if self.source.is::<Csv>() {
            infer(container, &mut columns, thread_count(self.threads))?;
        }
        let classes = container.classes().map(|(name, classes)| (name.to_owned(), classes.to_vec()));
        let forms = forms(container, &columns);
        let encoder = Encoder::new(self, &columns, forms, classes.as_ref().map(|(name, _)| name.as_str()))?;
        let mut manifest = Manifest {
            version: VERSION,
            format: self.into,
            source: PackedSource {
                format: self.source.format().to_owned(),
                path: self.source.path().to_string_lossy().into_owned(),
                fingerprint: container.fingerprint(),
                stamp: folder::stamp(&source_files),
                options: self.source.told_options()?,
            },
            records: 0,
            skipped: 0,
            bytes: 0,
            shard_bytes: self.shard_bytes,
            skip_bad: self.skip_bad,
            fields: columns.iter().map(PackedField::of).collect(),
            classes: classes.map(|(_, classes)| classes).unwrap_or_default(),
            shards: Vec::new(),
        };
        fs::create_dir_all(out).map_err(|error| Error::io(out, error))?;
        let _lock = folder::lock(out)?;
        if self.restart {
            folder::clear(out)?;
        }
        folder::check_own(out)?;
        let identity = Identity(
            serde_json::to_string(&manifest)
                .map_err(|error| Error::new(ErrorKind::Io, error.to_string()).with_source(error))?,
        );
        if let Some(done) = folder::finished(out)? {
            let same = Manifest { records: done.records, skipped: done.skipped, bytes: done.bytes, ..manifest.clone() };
            if (Manifest { shards: done.shards.clone(), ..same }) != done {
                let what = match done.version {
                    VERSION => {
                        "something else was packed here, or the same with other options or from files that have changed since"
                    }
                    _ => "another version of ringfeed packed here",
                };
                let message = format!("{what}; {START_OVER}");
                return Err(Error::new(ErrorKind::Config, message).at_path(out));
            }
            let whole = folder::whole_shards(out, &done.shards, thread_count(self.threads))?;
            if let Some(damaged) = done.shards.get(whole) {
                tracing::warn!(shard = %damaged.name, "a shard is damaged or missing: it and those behind it are made anew");
                Journal::begin(out, &identity, &done.shards[..whole])?;
                let path = out.join(MANIFEST);
                fs::remove_file(&path).map_err(|error| Error::io(path, error))?;
            } else {
                return Ok(done);
            }
        }
        let (mut journal, done) = Journal::open(out, &identity)?;
        let total = container.len();
        let first = done.last().map_or(0, |shard| shard.end);
        manifest.shards = done;
        let mut shard: Option<Open> = None;
        let mut next = first;
        let at_once = at_once(container, first);
        in_order(
            thread_count(self.threads),
            total.saturating_sub(first).div_ceil(at_once),
            |scratch: &mut Scratch, job| {
                let begin = first + job * at_once;
                let records: Vec<u64> = (begin..total.min(begin + at_once)).collect();
                let rows = (0..records.len()).map(|nth| {
                    let row = read(container, &columns, &records, nth, scratch);
                    let row = row.and_then(|cells| encoder.encode(records[nth], cells));
                    row.map_err(|error| match error.location().record {
                        Some(_) => error,
                        None => error.at(container.place(records[nth])),
                    })
                });
                Ok(rows.collect::<Vec<_>>())
            },
            |rows| {
                for row in rows {
                    let row = match row {
                        Ok(row) => row,
                        Err(error) if self.skip_bad && error.kind() == ErrorKind::Data => {
                            tracing::warn!(%error, "a bad record is left out");
                            next += 1;
                            continue;
                        }
                        Err(error) => return Err(error),
                    };
                    let is_full = |shard: &Open| shard.bytes.saturating_add(row.bytes()) > self.shard_bytes;
                    if shard.as_ref().is_some_and(is_full)
                        && let Some(full) = shard.take()
                    {
                        full.finish(next, &mut journal, &mut manifest.shards)?;
                    }
                    let open = match &mut shard {
                        Some(open) => open,
                        empty => {
                            let begin = manifest.shards.last().map_or(0, |shard| shard.end);
                            empty.insert(encoder.open(out, manifest.shards.len(), begin)?)
                        }
                    };
                    open.push(row)?;
                    next += 1;
                }
                let shards = manifest.shards.len() as u64;
                let bytes = manifest.shards.iter().map(|shard| shard.bytes).sum();
                match show(PackProgress { records: next, total, shards, bytes }) {
                    ControlFlow::Continue(()) => Ok(()),
                    ControlFlow::Break(()) => {
                        let message = "stopped; the same again goes on behind the last finished shard";
                        Err(Error::new(ErrorKind::Interrupted, message))
                    }
                }
            },
        )?;
        if let Some(last) = shard.take() {
            last.finish(next, &mut journal, &mut manifest.shards)?;
        }
        manifest.records = manifest.shards.iter().map(|shard| shard.records).sum();
        manifest.skipped = total.saturating_sub(manifest.records);
        manifest.bytes = manifest.shards.iter().map(|shard| shard.bytes).sum();
        let path = out.join(MANIFEST);
        let mut text = serde_json::to_vec_pretty(&manifest)
            .map_err(|error| Error::new(ErrorKind::Io, error.to_string()).with_source(error))?;
        text.push(b'\n');
        files::write_whole(&path, &[&text]).map_err(|error| Error::io(&path, error))?;
        journal.remove()?;
        Ok(manifest)
    }
}

impl PackedField {
    fn of(column: &Column) -> Self {
        let kind = match column.kind {
            FieldKind::Numbers(dtype) => dtype.as_str(),
            FieldKind::Text => "text",
            _ => "bytes",
        };
        Self { name: column.packed_name(), kind: kind.to_owned(), shape: column.shape.clone() }
    }
}

/// How many records a thread takes at a time.
fn at_once(container: &dyn Container, first: u64) -> u64 {
    let mut scratch = Scratch::default();
    let mut bytes = 0u64;
    if first < container.len() && container.fetch(&[first], 0, &mut scratch).is_ok() {
        // One that is bad says nothing of the others.
        let _ = container.read(first, 0, &mut scratch, &mut |_, value| {
            bytes += Cell::of(value)?.bytes();
            Ok(())
        });
    }
    (BYTES_AT_ONCE / bytes.max(1)).clamp(1, MOST_AT_ONCE)
}

/// The cells of a record, in the order of the columns.
fn read(
    container: &dyn Container,
    columns: &[Column],
    records: &[u64],
    nth: usize,
    scratch: &mut Scratch,
) -> Result<Vec<Cell>> {
    let mut cells = vec![Cell::Missing; columns.len()];
    container.fetch(records, nth, scratch)?;
    container.read(records[nth], nth, scratch, &mut |number, value| {
        for (cell, column) in cells.iter_mut().zip(columns) {
            if column.number == number {
                *cell = Cell::of(value).map_err(|error| error.at_column(&column.name))?;
            }
        }
        Ok(())
    })?;
    Ok(cells)
}

/// Which columns of text hold integers or numbers alone, none of which becomes another one. All others stay text.
fn infer(container: &dyn Container, columns: &mut [Column], threads: usize) -> Result<()> {
    const AT_ONCE: u64 = 1024;
    let total = container.len();
    // For each column: whether all values are integers, whether all are numbers, whether there is any.
    let mut kinds = vec![(true, true, false); columns.len()];
    let seen = &*columns;
    in_order(
        threads,
        total.div_ceil(AT_ONCE),
        |scratch: &mut Scratch, job| {
            let mut kinds = vec![(true, true, false); seen.len()];
            let records: Vec<u64> = (job * AT_ONCE..total.min((job + 1) * AT_ONCE)).collect();
            for nth in 0..records.len() {
                // A bad record is found again when it is packed.
                let _ = container.fetch(&records, nth, scratch).and_then(|()| {
                    container.read(records[nth], nth, scratch, &mut |number, value| {
                        let Value::Bytes(bytes) = value else { return Ok(()) };
                        let text = std::str::from_utf8(bytes).unwrap_or_default();
                        for (kind, _) in kinds.iter_mut().zip(seen).filter(|(_, column)| column.number == number) {
                            let is_integer = integer_of(text).map(|integer| i64::try_from(integer).is_ok());
                            kind.0 &= is_integer == Some(true);
                            kind.1 &= is_integer != Some(false) && float_of(text).is_some_and(|x| is_held(text, x));
                            kind.2 = true;
                        }
                        Ok(())
                    })
                });
            }
            Ok(kinds)
        },
        |found| {
            for (kind, found) in kinds.iter_mut().zip(found) {
                *kind = (kind.0 & found.0, kind.1 & found.1, kind.2 | found.2);
            }
            Ok(())
        },
    )?;
    for (column, kind) in columns.iter_mut().zip(kinds) {
        column.kind = match kind {
            (true, _, true) => FieldKind::Numbers(DType::I64),
            (_, true, true) => FieldKind::Numbers(DType::F64),
            _ => FieldKind::Text,
        };
    }
    Ok(())
}

/// How records become what they are packed as.
enum Encoder {
    Tar(tar::Samples),
    #[cfg(feature = "parquet")]
    Parquet(Vec<Column>),
}

/// A record, encoded as far as that is done by many threads.
enum Row {
    Sample(Vec<u8>),
    #[cfg(feature = "parquet")]
    Cells(Vec<Cell>, u64),
}

impl Row {
    fn bytes(&self) -> u64 {
        match self {
            Self::Sample(bytes) => bytes.len() as u64,
            #[cfg(feature = "parquet")]
            Self::Cells(_, bytes) => *bytes,
        }
    }
}

impl Encoder {
    fn new(pack: &Pack, columns: &[Column], forms: Vec<Form>, class: Option<&str>) -> Result<Self> {
        match pack.into {
            PackInto::Tar => Ok(Self::Tar(tar::Samples::new(columns, forms, pack.source.format() == "tar", class)?)),
            #[cfg(feature = "parquet")]
            PackInto::Parquet => Ok(Self::Parquet(columns.to_vec())),
            #[cfg(not(feature = "parquet"))]
            PackInto::Parquet => {
                let message = "Parquet files are written only in a build with the feature `parquet`";
                Err(Error::new(ErrorKind::Unsupported, message))
            }
        }
    }

    fn encode(&self, record: u64, cells: Vec<Cell>) -> Result<Row> {
        match self {
            Self::Tar(samples) => samples.encode(record, cells).map(Row::Sample),
            #[cfg(feature = "parquet")]
            Self::Parquet(columns) => {
                // A bad record must not leave half of its row behind.
                parquet::Table::check(columns, &cells)?;
                let bytes = cells.iter().map(Cell::bytes).sum();
                Ok(Row::Cells(cells, bytes))
            }
        }
    }

    /// Begins a shard.
    fn open(&self, folder: &Path, number: usize, first: u64) -> Result<Open> {
        let of = |extension: &str| Output::create(folder, format!("shard-{number:06}.{extension}"));
        // An archive's end counts, too.
        let (into, bytes) = match self {
            Self::Tar(_) => (Target::Tar(of("tar")?), tar::END.len() as u64),
            #[cfg(feature = "parquet")]
            Self::Parquet(columns) => (Target::Parquet(Box::new(parquet::Table::new(columns, of("parquet")?)?)), 0),
        };
        Ok(Open { into, first, records: 0, bytes })
    }
}

/// A shard that is being written.
struct Open {
    into: Target,
    first: u64,
    records: u64,
    bytes: u64,
}

enum Target {
    Tar(Output),
    #[cfg(feature = "parquet")]
    Parquet(Box<parquet::Table>),
}

impl Open {
    fn push(&mut self, row: Row) -> Result<()> {
        self.bytes = self.bytes.saturating_add(row.bytes());
        self.records += 1;
        match (&mut self.into, row) {
            (Target::Tar(out), Row::Sample(bytes)) => out.write_all(&bytes).map_err(|error| out.fault(error)),
            #[cfg(feature = "parquet")]
            (Target::Parquet(table), Row::Cells(cells, _)) => table.push(&cells),
            #[cfg(feature = "parquet")]
            _ => Ok(()),
        }
    }

    fn finish(self, end: u64, journal: &mut Journal, shards: &mut Vec<Shard>) -> Result<()> {
        let out = match self.into {
            Target::Tar(mut out) => {
                tar::end(&mut out).map_err(|error| out.fault(error))?;
                out
            }
            #[cfg(feature = "parquet")]
            Target::Parquet(table) => table.finish()?,
        };
        let shard = out.finish(self.first, end, self.records)?;
        journal.finish(&shard)?;
        shards.push(shard);
        Ok(())
    }
}
