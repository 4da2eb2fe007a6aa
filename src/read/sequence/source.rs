use std::collections::HashMap;
use std::io::Read;
use std::path::{Path, PathBuf};

use memchr::memchr_iter;

use crate::error::{Error, ErrorKind, Location, Result};
use crate::memory::MemoryBudget;
use crate::random::{hash_numbers, hash_texts};
use crate::read::csv::{
    Beginning, Choice, ColumnRef, CsvOptions, Dialect, Fault, Fields, Format, Inference, Missings, Plan, Rows, Text,
};
use crate::read::names::{PACKED, is_csv_name};
use crate::read::records::RecordBytes;
use crate::read::{Fingerprint, check_record, splits};
use crate::storage::{Files, Needs, inflate_error};
use crate::tree::no_faults;

use super::options::SequenceOptions;

/// The rows that each sequence consists of.
#[derive(Debug)]
pub(super) enum Source {
    Files {
        files: Vec<SequenceFile>,
        /// The number of the first of these files among all files that are read as a whole.
        first: u64,
        dialect: Dialect,
        header: bool,
        limit: u64,
    },
    Groups {
        rows: Box<Rows>,
        groups: Groups,
    },
}

#[derive(Debug)]
pub(super) struct SequenceFile {
    text: Text,
    steps: u32,
}

/// The rows of each group, one group after another.
#[derive(Debug)]
pub(super) struct Groups {
    rows: Vec<u64>,
    /// Where each group begins in `rows`, and at the end the number of rows.
    starts: Vec<usize>,
    names: Vec<Box<[u8]>>,
}

impl Groups {
    fn rows(&self, group: u64) -> &[u64] {
        let at = usize::try_from(group).unwrap_or(usize::MAX);
        match (self.starts.get(at), self.starts.get(at.saturating_add(1))) {
            (Some(start), Some(end)) => &self.rows[*start..*end],
            _ => &[],
        }
    }
}

/// Sequences that were fetched.
#[derive(Debug, Default)]
pub(super) struct SequenceScratch {
    pub(super) rows: RecordBytes,
    sequences: Vec<Fetched>,
    /// A buffer for unquoting.
    pub(super) field: Vec<u8>,
    /// The label of the previous step.
    pub(super) label: Vec<u8>,
}

/// A fetched sequence: its rows among all fetched rows, and for a file where its bytes begin.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Fetched {
    pub(super) first: usize,
    pub(super) count: usize,
    base: usize,
}

impl SequenceScratch {
    pub(super) fn sequence(&self, nth: usize) -> Fetched {
        self.sequences.get(nth).copied().unwrap_or_default()
    }
}

/// The CSV files in a folder, in the byte order of their names.
pub(super) fn csv_files(files: &Files, folder: &Path) -> Result<Vec<PathBuf>> {
    // Opening a link that leads nowhere reports the missing sequence.
    let listed = files.list(folder)?.into_iter().filter(|entry| !entry.is_folder());
    let named = listed.filter(|entry| is_csv_name(&entry.name.to_string_lossy()));
    let mut paths: Vec<PathBuf> = named.map(|entry| folder.join(entry.name)).collect();
    if paths.is_empty() {
        let message = "the folder holds no .csv, .tsv or .tab file (nor one with .gz, .zst or .bz2)";
        return Err(Error::new(ErrorKind::NotFound, message).at_path(folder));
    }
    paths.sort();
    let names: Vec<_> = paths.iter().map(|path| path.file_name().unwrap_or_default().to_string_lossy()).collect();
    let stems = names.iter().map(|name| name.split('.').next().unwrap_or_default());
    if splits::are_parts(stems) {
        let names = names.iter().map(|name| &**name);
        return Err(splits::refuse(folder, names, "sequences", ""));
    }
    Ok(paths)
}

/// Reads every file once. Passes to `refuse` the reason why a file can't be read: if it returns an error, that ends
/// opening; otherwise the file counts as a sequence without steps.
pub(super) fn open_files(
    among: &Files,
    paths: &[PathBuf],
    choice: &Choice,
    options: &SequenceOptions,
    mut refuse: impl FnMut(u64, Error) -> Result<()>,
) -> Result<(Source, Plan)> {
    let csv = &options.csv;
    no_faults(csv.faults())?;
    let missings = Missings::new(&csv.missing_tokens);
    let mut texts = Vec::with_capacity(paths.len());
    for (sample, path) in (0..).zip(paths) {
        texts.push(match Text::open_in(among, path, csv.encoding.as_deref()) {
            Ok(text) => Ok(text),
            Err(error) => refuse(sample, error).map(|()| Err(Text::unopened(among, path)))?,
        });
    }
    let (first, format) = first_layout(texts.iter().flatten(), csv, &missings)?;
    let first = first.clone();
    let at_first = |error: Error| error.at_path(first.path());
    let mut inference = Inference::begin(&format, choice, &missings).map_err(at_first)?;
    let mut count_steps = |text: &Text| -> Result<u32> {
        let mut scan = format.records_alike(text.read()?, text.path(), csv)?;
        let mut steps = 0u32;
        while let Some(span) = scan.next()? {
            if let Some(inference) = &mut inference {
                inference.observe(scan.bytes(&span), span.quoted, &format.dialect);
            }
            steps = steps.checked_add(1).ok_or_else(|| too_many_steps().at_path(text.path()))?;
        }
        Ok(steps)
    };
    let mut files = Vec::with_capacity(texts.len());
    for (sample, text) in (0..).zip(texts) {
        let steps = match &text {
            Ok(text) => count_steps(text).or_else(|error| refuse(sample, error).map(|()| 0))?,
            Err(_) => 0,
        };
        let (Ok(text) | Err(text)) = text;
        files.push(SequenceFile { text, steps });
    }
    let plan =
        Plan::new(&format, choice, csv, &missings, inference.as_ref()).map_err(|error| error.at_path(&paths[0]))?;
    let (dialect, header, limit) = (format.dialect, format.header, options.max_sequence_bytes);
    let first = among.number_files(files.len() as u64);
    Ok((Source::Files { files, first, dialect, header, limit }, plan))
}

/// The first file that has a record, and the layout of all files, which it shows. A file without records is a sequence
/// without steps and has no layout.
pub(super) fn first_layout<'a>(
    texts: impl IntoIterator<Item = &'a Text>,
    csv: &CsvOptions,
    missings: &Missings,
) -> Result<(&'a Text, Format)> {
    let mut none = true;
    for text in texts {
        none = false;
        match Format::detect(text.path(), || text.read(), csv, missings) {
            Ok(format) => return Ok((text, format)),
            Err(error) if Format::is_of_no_records(&error) => {}
            Err(error) => return Err(error),
        }
    }
    let message = if none { "no files are given" } else { "all files are empty" };
    Err(Error::new(ErrorKind::NotFound, message))
}

fn too_many_steps() -> Error {
    Error::new(ErrorKind::Limit, format!("a sequence of more than {} steps", u32::MAX))
}

/// Reads the file once, and notes the group of each row.
pub(super) fn open_grouped(
    files: &Files,
    path: &Path,
    column: &ColumnRef,
    choice: &Choice,
    options: &SequenceOptions,
    budget: &MemoryBudget,
) -> Result<(Source, Plan)> {
    let csv = &options.csv;
    let Beginning { text, format, missings } = Beginning::of(files, path, csv, budget)?;
    let at_path = |error: Error| error.at_path(path);
    let group_column = format.column(column).map_err(at_path)?;
    let mut choice = choice.clone();
    choice.hidden.push(ColumnRef::Position(group_column));
    let mut inference = Inference::begin(&format, &choice, &missings).map_err(at_path)?;
    let mut groups = Grouping::default();
    let mut held = budget.reserve(0, "the sequence index")?;
    let mut buffer = Vec::new();
    let rows = Rows::open(&text, &format, csv, budget, |raw, span| {
        if let Some(inference) = &mut inference {
            inference.observe(raw, span.quoted, &format.dialect);
        }
        let mut fields = Fields::new(raw, span.quoted, &format.dialect);
        for _ in 0..group_column {
            fields.skip();
        }
        let at = fields.at();
        // A record that is too short to have this field is bad. It goes into a group in which it can be reported.
        let field = fields.next(&mut buffer);
        if let Some(field) = field.filter(|field| missings.contains(field.trim_ascii())) {
            let message = format!(
                "no sequence is named: {:?} stands for a missing value; take such records out, or change missing_tokens",
                String::from_utf8_lossy(field)
            );
            let error = Error::new(ErrorKind::Data, message).at_column(&format.names[group_column]);
            return Err(at_path(error.at_line(span.line).at_byte(span.byte + at as u64)));
        }
        let new = groups.add(field.unwrap_or_default()).map_err(at_path)?;
        if new || groups.members.len().is_multiple_of(1 << 12) {
            held.grow_to(groups.bytes(), "the sequence index").map_err(|error| error.at_path(path))?;
        }
        Ok(())
    })?;
    let plan = Plan::new(&format, &choice, csv, &missings, inference.as_ref()).map_err(at_path)?;
    let groups = groups.finish();
    if groups.starts.windows(2).any(|pair| pair[1] - pair[0] > u32::MAX as usize) {
        return Err(too_many_steps().at_path(path));
    }
    Ok((Source::Groups { rows: Box::new(rows), groups }, plan))
}

/// Groups while the file is being read.
#[derive(Default)]
struct Grouping {
    indices: HashMap<Box<[u8]>, u32>,
    /// The group of each row.
    members: Vec<u32>,
    name_bytes: u64,
}

impl Grouping {
    /// Adds the next row; returns whether it begins a group.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Limit`] with more than 2^32 groups.
    fn add(&mut self, name: &[u8]) -> Result<bool> {
        let known = self.indices.get(name).copied();
        let index = match known {
            Some(index) => index,
            None => {
                let Ok(next) = u32::try_from(self.indices.len()) else {
                    return Err(Error::new(ErrorKind::Limit, "more than 2^32 groups"));
                };
                self.indices.insert(name.into(), next);
                self.name_bytes += name.len() as u64;
                next
            }
        };
        self.members.push(index);
        Ok(known.is_none())
    }

    /// Approximate size of this value, and of its result.
    fn bytes(&self) -> u64 {
        self.members.len() as u64 * 12 + self.indices.len() as u64 * 64 + self.name_bytes
    }

    fn finish(self) -> Groups {
        let mut names = vec![Box::default(); self.indices.len()];
        self.indices.into_iter().for_each(|(name, index)| names[index as usize] = name);
        let mut starts = vec![0; names.len() + 1];
        self.members.iter().for_each(|group| starts[*group as usize + 1] += 1);
        (1..starts.len()).for_each(|index| starts[index] += starts[index - 1]);
        let mut next = starts.clone();
        let mut rows = vec![0; self.members.len()];
        for (row, group) in (0u64..).zip(&self.members) {
            let at = &mut next[*group as usize];
            rows[*at] = row;
            *at += 1;
        }
        Groups { rows, starts, names }
    }
}

impl Source {
    pub(super) fn len(&self) -> u64 {
        match self {
            Self::Files { files, .. } => files.len() as u64,
            Self::Groups { groups, .. } => groups.names.len() as u64,
        }
    }

    pub(super) fn steps(&self, sample: u64) -> u32 {
        match self {
            Self::Files { files, .. } => {
                usize::try_from(sample).ok().and_then(|at| files.get(at)).map_or(0, |file| file.steps)
            }
            Self::Groups { groups, .. } => groups.rows(sample).len() as u32,
        }
    }

    /// The name of sequence `sample` in messages.
    pub(super) fn name(&self, sample: u64) -> String {
        match self {
            Self::Files { files, .. } => files[sample as usize].text.path().display().to_string(),
            Self::Groups { rows, groups } => {
                let name = String::from_utf8_lossy(&groups.names[sample as usize]).into_owned();
                format!("group {name:?} of {}", rows.input.path().display())
            }
        }
    }

    /// The name of sequence `sample` among the others: that of its file or group.
    pub(super) fn own_name(&self, sample: u64) -> &[u8] {
        match self {
            Self::Files { files, .. } => {
                files[sample as usize].text.path().file_name().unwrap_or_default().as_encoded_bytes()
            }
            Self::Groups { groups, .. } => &groups.names[sample as usize],
        }
    }

    /// The name that sequence `sample` has in another source as well: that of its group, or of its file without the
    /// endings.
    pub(super) fn stem(&self, sample: u64) -> Vec<u8> {
        let name = self.own_name(sample);
        let Self::Files { .. } = self else { return name.to_vec() };
        let Ok(text) = std::str::from_utf8(name) else { return name.to_vec() };
        let whole = Path::new(text);
        let is_packed = PACKED.iter().any(|ending| text.ends_with(ending));
        let text = if is_packed { Path::new(whole.file_stem().unwrap_or_default()) } else { whole };
        text.file_stem().unwrap_or_default().as_encoded_bytes().to_vec()
    }

    /// The sequences in the order in which those of another source may correspond to them: groups as they are, files by
    /// their names, with the values of numbers.
    pub(super) fn in_order(&self) -> Vec<u64> {
        let mut order: Vec<u64> = (0..self.len()).collect();
        if let Self::Files { .. } = self {
            order.sort_by_cached_key(|nth| natural(self.own_name(*nth)));
        }
        order
    }

    /// The beginning of sequence `sample`.
    pub(super) fn place(&self, sample: u64) -> Location {
        let (path, byte) = match self {
            Self::Files { files, .. } => {
                let file = usize::try_from(sample).ok().and_then(|at| files.get(at));
                (file.map(|file| file.text.path()), None)
            }
            Self::Groups { rows, groups } => {
                (Some(rows.input.path()), groups.rows(sample).first().map(|row| rows.start(*row)))
            }
        };
        Location { path: path.map(Path::to_owned), record: Some(sample), byte, ..Location::default() }
    }

    /// Adds path and record.
    #[cold]
    pub(super) fn at(&self, error: Error, sample: u64) -> Error {
        let error = error.at_record(sample);
        match self.place(sample).path {
            Some(path) => error.at_path(path),
            None => error,
        }
    }

    /// Names the bytes that these sequences will be read from.
    pub(super) fn need(&self, samples: impl Iterator<Item = u64>, needs: &mut Needs) {
        for sample in samples.filter(|sample| *sample < self.len()) {
            match self {
                Self::Files { files, first, limit, .. } => {
                    files[sample as usize].text.need(first + sample, *limit, needs);
                }
                Self::Groups { rows, groups } => rows.need(groups.rows(sample), needs),
            }
        }
    }

    pub(super) fn fetch(&self, sample: u64, nth: usize, scratch: &mut SequenceScratch) -> Result<()> {
        check_record(sample, self.len())?;
        if nth == 0 {
            scratch.rows.clear();
            scratch.sequences.clear();
        }
        scratch.sequences.resize(nth, Fetched::default());
        let first = scratch.rows.len();
        let mut base = 0;
        match self {
            Self::Files { files, first, dialect, header, limit } => {
                let file = &files[sample as usize];
                base = read_file(file, first + sample, dialect, *header, *limit, &mut scratch.rows)?;
            }
            Self::Groups { rows, groups } => {
                let mut rest = groups.rows(sample);
                while !rest.is_empty() {
                    let before = scratch.rows.len();
                    rows.read(rest, &mut scratch.rows)?;
                    rest = &rest[scratch.rows.len() - before..];
                }
            }
        }
        scratch.sequences.push(Fetched { first, count: scratch.rows.len() - first, base });
        Ok(())
    }

    /// Adds path, record, line and byte to an error in step `step`.
    #[cold]
    pub(super) fn locate(
        &self,
        Fault { error, at }: Fault,
        sample: u64,
        step: usize,
        fetched: &RecordBytes,
        sequence: &Fetched,
        dialect: &Dialect,
    ) -> Error {
        match self {
            Self::Groups { rows, groups } => {
                let row = groups.rows(sample).get(step).copied().unwrap_or_default();
                rows.locate(error, sample, rows.start(row) + at as u64)
            }
            Self::Files { .. } => {
                let byte = fetched.start(sequence.first + step) - sequence.base + at;
                let before = fetched.slice(sequence.base, sequence.base + byte);
                let line = 1 + memchr_iter(dialect.terminator, before).count() as u64;
                self.at(error.at_line(line).at_byte(byte as u64), sample)
            }
        }
    }

    pub(super) fn fingerprint(&self) -> Fingerprint {
        let (names, sizes) = match self {
            Self::Files { files, .. } => {
                let names =
                    files.iter().map(|file| file.text.path().file_name().unwrap_or_default().as_encoded_bytes());
                let sizes = files.iter().flat_map(|file| [file.steps.into(), file.text.stored_bytes()]);
                (hash_texts(names), hash_numbers(sizes))
            }
            Self::Groups { rows, groups } => (hash_texts(&groups.names), rows.input.len()),
        };
        Fingerprint { count: Some(self.len()), names, sizes }
    }
}

/// A name in which numbers are compared by their values: `01` is `1`, and comes before `10`.
pub(super) fn natural(name: &[u8]) -> Vec<u8> {
    let mut key = Vec::with_capacity(name.len());
    for part in name.chunk_by(|a, b| a.is_ascii_digit() == b.is_ascii_digit()) {
        if part[0].is_ascii_digit() {
            let zeros = part.iter().take_while(|digit| **digit == b'0').count();
            // A number stands where its first digit would, and a longer one is larger.
            key.push(b'0');
            key.extend((part.len() - zeros).to_be_bytes());
            key.extend(&part[zeros..]);
        } else {
            key.extend(part);
        }
    }
    key
}

/// Reads a whole file and finds its rows; returns where its bytes begin.
fn read_file(
    file: &SequenceFile,
    number: u64,
    dialect: &Dialect,
    header: bool,
    limit: u64,
    into: &mut RecordBytes,
) -> Result<usize> {
    let path = file.text.path();
    let too_long = || {
        let message = format!("a sequence of more than {limit} bytes; raise max_sequence_bytes or split the file");
        Error::new(ErrorKind::Limit, message).at_path(path)
    };
    let mut text = file.text.read_whole(number, limit).map_err(|error| match error.kind() {
        ErrorKind::Limit => too_long(),
        _ => error,
    })?;
    let base = into.take(0);
    let mut len = 0usize;
    loop {
        let room = into.room(64 << 10);
        let count = match text.read(room) {
            Ok(0) => break,
            Ok(count) => count,
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(inflate_error(path, len as u64, error)),
        };
        into.take(count);
        len += count;
        if len as u64 > limit {
            return Err(too_long());
        }
    }
    dialect.push_records(into, base, usize::from(header));
    Ok(base)
}
