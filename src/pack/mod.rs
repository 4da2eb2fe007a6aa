//! Packs many small files, or rows of text, into few large files: from any source into tar archives (in the layout of
//! WebDataset) or Parquet files.
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
mod infer;
mod journal;
mod manifest;
mod output;
#[cfg(feature = "parquet")]
mod parquet;
mod tar;
#[cfg(feature = "parquet")]
mod values;

use std::fs;
use std::io::Write;
use std::ops::{ControlFlow, Range};
use std::path::Path;

use crate::error::{Error, ErrorKind, Result};
use crate::files;
use crate::memory::MemoryBudget;
use crate::read::parallel::{in_order, thread_count};
use crate::read::{Scratch, SourceConfig};
use crate::storage::{Access, Files};
use crate::tree::any;

use cells::{Cell, Column, Records, columns};
use forms::{Form, forms};
use infer::{find_texts, infer};
use journal::{Identity, Journal, START_OVER};
use manifest::MANIFEST;
use output::Output;

pub use journal::PackedShard;
pub use manifest::{Manifest, PackInto, PackedField, PackedSource};

/// How a source is packed.
///
/// Shards hold the records in the source's order, as many as fit into [`shard_bytes`](Self::shard_bytes). Every byte of
/// them depends only on the source and these settings: not on the number of threads, and not on whether a run was
/// stopped and resumed.
#[derive(Clone, Debug)]
pub struct Pack {
    source: SourceConfig,
    into: PackInto,
    shard_bytes: u64,
    fields: Vec<String>,
    skip_fields: Vec<String>,
    text: Vec<String>,
    skip_bad: bool,
    restart: bool,
    threads: Option<usize>,
}

/// Progress of packing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PackProgress {
    /// Records of the source that are packed or left out, including those of an earlier run.
    pub records: u64,
    /// Records of the source.
    pub total: u64,
    /// Shards that are finished.
    pub shards: u64,
    /// Their bytes.
    pub bytes: u64,
}

/// Version of manifests, journals and shards. The first version had neither the source's options nor the pack's own,
/// and the second one lost texts such as `NA`.
const VERSION: u32 = 3;

/// A thread reads as many records at once as have about so many bytes, at most `MOST_AT_ONCE`, and stops behind a record
/// with which it holds `MOST_BYTES_AT_ONCE`.
const BYTES_AT_ONCE: u64 = 1 << 19;
const MOST_AT_ONCE: u64 = 256;
const MOST_BYTES_AT_ONCE: usize = 1 << 20;
/// Jobs between two estimates of how many records are read at once.
const JOBS_AT_ONCE: u64 = 1 << 10;

impl Pack {
    /// All fields of a source, in shards of at most 256 MiB. Files that settings ask to map are read instead, because
    /// there is no promise that they stay unchanged, and each record is read only once.
    pub fn new(mut source: SourceConfig, into: PackInto) -> Self {
        if let Some(access) = source.access_mut().filter(|access| access.lacks_promise()) {
            *access = Access::Read;
        }
        Self {
            source,
            into,
            shard_bytes: 256 << 20,
            fields: Vec::new(),
            skip_fields: Vec::new(),
            text: Vec::new(),
            skip_bad: false,
            restart: false,
            threads: None,
        }
    }

    /// Maximum number of bytes per shard, unless a single record has more. For Parquet files, bytes before encoding.
    #[must_use]
    pub fn shard_bytes(mut self, bytes: u64) -> Self {
        self.shard_bytes = bytes;
        self
    }

    /// Packs only these fields.
    #[must_use]
    pub fn fields<S: Into<String>>(mut self, names: impl IntoIterator<Item = S>) -> Self {
        self.fields = names.into_iter().map(Into::into).collect();
        self
    }

    /// Packs all fields except these. A field that can't be packed, or that only a later record has, is an error unless
    /// it is named here.
    #[must_use]
    pub fn skip_fields<S: Into<String>>(mut self, names: impl IntoIterator<Item = S>) -> Self {
        self.skip_fields = names.into_iter().map(Into::into).collect();
        self
    }

    /// Columns of a CSV file that stay text even if they hold numbers. By default a column becomes numbers if all of
    /// its values are numbers in their usual form: `007` and `+49` are text. Texts are packed as they are written: what
    /// means a missing value (`NA`, `None` and so on) does so only in columns of numbers, and an empty text everywhere.
    #[must_use]
    pub fn text<S: Into<String>>(mut self, names: impl IntoIterator<Item = S>) -> Self {
        self.text = names.into_iter().map(Into::into).collect();
        self
    }

    /// Leaves out records that can't be read, and counts them. By default the first one ends packing with its error. A
    /// record that can be read, but that the shards can't hold, ends packing in any case. Files are copied into shards
    /// unchanged: to check whether images can be decoded, use `verify`.
    #[must_use]
    pub fn skip_bad(mut self) -> Self {
        self.skip_bad = true;
        self
    }

    /// Starts over in a folder that holds an earlier pack, finished or not: the shards that its manifest or journal
    /// lists are removed first, and nothing else. By default only the same pack can resume there.
    #[must_use]
    pub fn restart(mut self) -> Self {
        self.restart = true;
        self
    }

    /// Number of threads that read and encode; by default one for each core.
    #[must_use]
    pub fn threads(mut self, threads: usize) -> Self {
        self.threads = Some(threads);
        self
    }

    /// Packs into the folder `out`, which is created if it does not exist.
    ///
    /// If a run was stopped in any way, the next run resumes after the last finished shard. Finished shards are not
    /// written again, unless one is damaged or missing: then that shard and all later ones are. A shard appears only
    /// when it is complete. Only one run at a time may work in a folder.
    ///
    /// # Errors
    ///
    /// Errors of reading and of writing, and values that the output format can't hold; [`ErrorKind::Config`] for a
    /// folder with another pack (of another source, of files that have changed since, or with other options), with
    /// other files that have names of shards, or with the files of the source.
    pub fn run(&self, out: impl AsRef<Path>) -> Result<Manifest> {
        self.run_with(out, |_| ControlFlow::Continue(()))
    }

    /// As [`run`](Self::run); `show` is called with the progress, and may stop the run.
    ///
    /// # Errors
    ///
    /// As [`run`](Self::run), and [`ErrorKind::Interrupted`] if `show` stopped it.
    pub fn run_with(
        &self,
        out: impl AsRef<Path>,
        show: impl FnMut(PackProgress) -> ControlFlow<()>,
    ) -> Result<Manifest> {
        self.run_naming(out, show, |_| {})
    }

    /// As [`run_with`](Self::run_with); `skipped` is called with the error of each bad record that this run leaves out.
    ///
    /// # Errors
    ///
    /// As [`run_with`](Self::run_with).
    pub fn run_naming(
        &self,
        out: impl AsRef<Path>,
        mut show: impl FnMut(PackProgress) -> ControlFlow<()>,
        mut skipped: impl FnMut(Error),
    ) -> Result<Manifest> {
        let out = out.as_ref();
        let files = Files::local();
        let source_files = folder::source_files(&self.source, &files)?;
        folder::check_outside(out, &self.source, &source_files)?;
        let budget = MemoryBudget::unlimited();
        let mut container = self.source.open_values(&files, &budget)?;
        let at_source = |error: Error| if error.path().is_some() { error } else { error.at_path(self.source.path()) };
        let mut columns = columns(&mut *container, &self.fields, &self.skip_fields).map_err(at_source)?;
        if self.source.infers_types() {
            infer(&*container, &mut columns, &self.text, thread_count(self.threads))?;
            find_texts(&mut *container, &mut columns).map_err(at_source)?;
        } else if let Some(name) = self.text.first() {
            let message = "only columns of tables of text, such as CSV files, can be set to text; values in other files have their own types";
            return Err(at_source(Error::new(ErrorKind::Config, message).at_column(name)));
        }
        if let Some(name) = self.text.iter().find(|name| !columns.iter().any(|column| column.name == **name)) {
            return Err(at_source(Error::new(ErrorKind::NotFound, "no such column is packed as text").at_column(name)));
        }
        let container = &*container;
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
        if out.is_file() {
            let message = "is a file; name a folder to write to, which need not exist";
            return Err(Error::new(ErrorKind::Config, message).at_path(out));
        }
        fs::create_dir_all(out).map_err(|error| Error::io(out, error))?;
        let _lock = folder::Lock::of(out)?;
        if self.restart {
            folder::clear(out)?;
        }
        folder::check_own(out)?;
        let identity = Identity(
            serde_json::to_string(any(&manifest))
                .map_err(|error| Error::new(ErrorKind::Io, error.to_string()).with_source(error))?,
        );
        if let Some(done) = manifest::finished(out)? {
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
                tracing::warn!(shard = %damaged.name, "a shard is damaged or missing: it and all later ones are written again");
                Journal::begin(out, &identity, &done.shards[..whole])?;
                journal::remove_shards(out, done.shards[whole..].iter().map(|shard| &shard.name))?;
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
        let records = Records::new(container, &columns, self.fields.is_empty(), &self.skip_fields);
        let mut at_once = MOST_AT_ONCE;
        while next < total {
            let begin = next;
            let jobs = (total - begin).div_ceil(at_once).min(JOBS_AT_ONCE);
            let (mut bytes, mut own) = (0usize, Scratch::default());
            in_order(
                thread_count(self.threads),
                jobs,
                |scratch: &mut Scratch, job| {
                    let first = begin + job * at_once;
                    Ok(Rows::read(&records, &encoder, first..total.min(first + at_once), scratch))
                },
                |mut rows| {
                    loop {
                        bytes = bytes.saturating_add(rows.bytes);
                        for row in rows.rows.drain(..) {
                            let row = match row {
                                // One that was read, but can't be packed, is not left out.
                                Ok(row) => row?,
                                // A missing file, or a link to nothing, is a bad record, just as a damaged one.
                                Err(error)
                                    if self.skip_bad
                                        && matches!(error.kind(), ErrorKind::Data | ErrorKind::NotFound) =>
                                {
                                    tracing::warn!(%error, "a bad record is left out");
                                    skipped(error);
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
                        let written = manifest.shards.iter().map(|shard| shard.bytes).sum();
                        if show(PackProgress { records: next, total, shards, bytes: written }).is_break() {
                            let message = "stopped; the same call resumes after the last finished shard";
                            return Err(Error::new(ErrorKind::Interrupted, message));
                        }
                        if next >= rows.records.end {
                            return Ok(());
                        }
                        // The rest of a job that ended early, as its records are large.
                        rows = Rows::read(&records, &encoder, next..rows.records.end, &mut own);
                    }
                },
            )?;
            let each = bytes as u64 / (next - begin).max(1);
            at_once = (BYTES_AT_ONCE / each.max(1)).clamp(1, MOST_AT_ONCE);
        }
        if let Some(last) = shard.take() {
            last.finish(next, &mut journal, &mut manifest.shards)?;
        }
        manifest.records = manifest.shards.iter().map(|shard| shard.records).sum();
        manifest.skipped = total.saturating_sub(manifest.records);
        manifest.bytes = manifest.shards.iter().map(|shard| shard.bytes).sum();
        let path = out.join(MANIFEST);
        let mut text = serde_json::to_vec_pretty(any(&manifest))
            .map_err(|error| Error::new(ErrorKind::Io, error.to_string()).with_source(error))?;
        text.push(b'\n');
        files::write_lasting(&path, &[&text]).map_err(|error| Error::io(&path, error))?;
        journal.remove()?;
        Ok(manifest)
    }
}

/// The records that a thread has read at once, as many as are not too large together, but at least one.
#[derive(Default)]
struct Rows {
    /// The records of the job. Not all of them may be in `rows`.
    records: Range<u64>,
    /// The outer error is that of a record that can't be read, the inner one that of a record that can't be packed.
    rows: Vec<Result<Result<Row>>>,
    /// Bytes of memory.
    bytes: usize,
}

impl Rows {
    fn read(records: &Records<'_>, encoder: &Encoder, of: Range<u64>, scratch: &mut Scratch) -> Self {
        let mut rows = Self { records: of.clone(), ..Self::default() };
        let job: Vec<u64> = of.collect();
        for (nth, record) in job.iter().enumerate() {
            if rows.bytes >= MOST_BYTES_AT_ONCE {
                break;
            }
            let located = |error: Error| match error.location().record {
                Some(_) => error,
                None => error.at(records.place(*record)),
            };
            let row = records.read(&job, nth, scratch).map_err(located).map(|cells| {
                let row = records.check(&cells).and_then(|()| encoder.encode(*record, cells));
                row.map_err(located)
            });
            rows.bytes += match &row {
                Ok(Ok(row)) => row.held_bytes(),
                _ => size_of::<Error>(),
            };
            rows.rows.push(row);
        }
        rows
    }
}

/// Turns records into their packed form.
enum Encoder {
    Tar(tar::Samples),
    #[cfg(feature = "parquet")]
    Parquet(Vec<Column>),
}

/// A record, encoded as far as several threads can do this.
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

    /// Bytes of memory.
    fn held_bytes(&self) -> usize {
        match self {
            Self::Sample(bytes) => bytes.len(),
            #[cfg(feature = "parquet")]
            Self::Cells(cells, _) => cells.iter().map(Cell::held_bytes).sum(),
        }
    }
}

impl Encoder {
    fn new(pack: &Pack, columns: &[Column], forms: Vec<Form>, class: Option<&str>) -> Result<Self> {
        match pack.into {
            PackInto::Tar => Ok(Self::Tar(tar::Samples::new(columns, forms, pack.source.has_members(), class)?)),
            #[cfg(feature = "parquet")]
            PackInto::Parquet => {
                // What has no form in a table is reported before anything is read.
                parquet::Table::allows(columns)?;
                Ok(Self::Parquet(columns.to_vec()))
            }
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
                // A bad record must not leave a part of its row behind.
                parquet::Table::check(columns, &cells)?;
                let bytes = cells.iter().map(Cell::bytes).sum();
                Ok(Row::Cells(cells, bytes))
            }
        }
    }

    /// Begins a shard.
    fn open(&self, folder: &Path, number: usize, first: u64) -> Result<Open> {
        let of = |extension: &str| Output::create(folder, format!("shard-{number:06}.{extension}"));
        // The archive's end counts, too.
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

    fn finish(self, end: u64, journal: &mut Journal, shards: &mut Vec<PackedShard>) -> Result<()> {
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
