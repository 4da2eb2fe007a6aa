//! What a file's first records say: delimiter, line end, header and the names of the columns.

use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasher, RandomState};
use std::io::Read;
use std::path::Path;

use memchr::memchr;

use crate::error::{Error, ErrorKind, Result, nearest};
use crate::read::names::plain_name;
use crate::storage::inflate_error;
use crate::tree::no_faults;

use super::dialect::{Blanks, Dialect};
use super::fields::Fields;
use super::options::{ColumnRef, CsvOptions, Header};
use super::scan::{Scan, Span};
use super::value::{FieldNumber, Missings, Value, has_decimal_comma, shown};

/// How a file is laid out.
#[derive(Clone, Debug)]
pub(crate) struct Format {
    pub(crate) dialect: Dialect,
    /// Whether the first record is the header.
    pub(crate) header: bool,
    /// Why the first record is the header or not.
    pub(crate) header_reason: String,
    /// Unique names of the columns, as many as a record has fields.
    pub(crate) names: Vec<String>,
    /// The fields of a first record that was not taken for a header, for messages.
    pub(super) no_names: Vec<String>,
    /// The first field below the header that is text, for messages: its column, and how it begins.
    pub(super) text: Option<(usize, Vec<u8>)>,
}

/// How many bytes of a file are read to find delimiter and line end.
const HEAD_BYTES: u64 = 64 << 10;

/// Number of records after the first that decide about the header.
const SAMPLED_RECORDS: usize = 1000;

/// Up to this many names are searched one by one; for more, a table of all names is made.
const FEW_NAMES: usize = 16;

/// So many bytes are kept of a field that may be the name of a column.
const MOST_NAME: usize = 256;

/// Number of records that decide about the delimiter.
const DELIMITER_RECORDS: usize = 100;

impl Format {
    /// Finds out how the file at `path` is laid out; `open` gives its text from the beginning.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Format`] if there are no records, [`ErrorKind::Data`] if the header is not UTF-8, those of reading.
    pub(crate) fn detect<R: Read>(
        path: &Path,
        open: impl Fn() -> Result<R>,
        options: &CsvOptions,
        missings: &Missings,
    ) -> Result<Self> {
        no_faults(options.faults())?;
        let mut head = Vec::new();
        let mut text = open()?;
        let mut more = |most, head: &mut _| {
            text.by_ref().take(most).read_to_end(head).map_err(|error| inflate_error(path, 0, error))
        };
        more(HEAD_BYTES, &mut head)?;
        let whole = (head.len() as u64) < HEAD_BYTES;
        if head.ends_with(b"\r") {
            // It may be the first half of a line end.
            more(1, &mut head)?;
        }
        let head = head.strip_prefix(b"\xef\xbb\xbf").unwrap_or(&head);
        if head.is_empty() {
            return Err(Error::new(ErrorKind::Format, EMPTY).at_path(path));
        }
        let lone_cr = memchr(b'\r', head).is_some() && memchr(b'\n', head).is_none();
        let mut dialect = Dialect {
            delimiter: b',',
            quote: options.quote as u8,
            has_quotes: true,
            comment: options.comment.map(|mark| mark as u8),
            blanks: Blanks::Content,
            terminator: if lone_cr { b'\r' } else { b'\n' },
        };
        dialect.delimiter = match options.delimiter {
            Some(mark) => mark as u8,
            None => detect_delimiter(path, head, whole, dialect),
        };
        let mut scan = Scan::new(open()?, path, dialect, options.max_record_bytes);
        let Some(first) = scan.next()? else {
            return Err(Error::new(ErrorKind::Format, NO_RECORDS).at_path(path));
        };
        let raw = scan.bytes(&first).to_vec();
        let columns = Fields::new(&raw, first.quoted, &dialect).count();
        let most = options.max_columns;
        if columns > most {
            let message = format!(
                "the first record has {columns} fields, more than the {most} columns that are allowed: the file may not be \
                 CSV; otherwise raise max_columns"
            );
            return Err(Error::new(ErrorKind::Limit, message).at_path(path).at_line(first.line));
        }
        // A broken record further down is reported when it is read.
        let second = scan.next().ok().flatten().map(|record| (scan.bytes(&record).to_vec(), record.quoted));
        let (header, header_reason) = match options.header {
            Header::Yes | Header::No => (options.header == Header::Yes, "as given".to_owned()),
            Header::Auto => {
                let mut rule = HeaderRule::new(&raw, &first, &dialect, missings);
                if let Some((second, quoted)) = &second {
                    rule.observe(Fields::new(second, *quoted, &dialect));
                    for _ in 1..SAMPLED_RECORDS {
                        let Ok(Some(record)) = scan.next() else { break };
                        rule.observe(Fields::new(scan.bytes(&record), record.quoted, &dialect));
                    }
                }
                rule.decide()
            }
        };
        let mut fields = Fields::new(&raw, first.quoted, &dialect);
        let mut no_names = Vec::new();
        let names = if header {
            header_names(fields, &first).map_err(|error| error.at_path(path))?
        } else {
            let mut buffer = Vec::new();
            while let Some(field) = fields.next(&mut buffer) {
                // Longer ones are no names.
                let name = field.trim_ascii().get(..MOST_NAME).unwrap_or_else(|| field.trim_ascii());
                no_names.push(String::from_utf8_lossy(name).into_owned());
            }
            (1..=columns).map(|number| format!("column_{number}")).collect()
        };
        let record = if header { second } else { Some((raw, first.quoted)) };
        let text = record.and_then(|(raw, quoted)| first_text(Fields::new(&raw, quoted, &dialect), columns, missings));
        Ok(Self { dialect, header, header_reason, names, no_names, text })
    }

    /// The records of a text, behind the header.
    pub(crate) fn records<R: Read>(&self, text: R, path: &Path, options: &CsvOptions) -> Result<Scan<R>> {
        let mut scan = Scan::new(text, path, self.dialect, options.max_record_bytes);
        if self.header {
            scan.next()?;
        }
        Ok(scan)
    }

    /// Like [`records`](Self::records), for another file that must have the same header.
    ///
    /// # Errors
    ///
    /// Also [`ErrorKind::Data`] if the names differ.
    pub(crate) fn records_alike<R: Read>(&self, text: R, path: &Path, options: &CsvOptions) -> Result<Scan<R>> {
        let mut scan = Scan::new(text, path, self.dialect, options.max_record_bytes);
        if self.header
            && let Some(first) = scan.next()?
        {
            let fields = Fields::new(scan.bytes(&first), first.quoted, &self.dialect);
            let found = Fields::new(scan.bytes(&first), first.quoted, &self.dialect).count();
            let difference = if found == self.names.len() {
                self.difference(&header_names(fields, &first).map_err(|error| error.at_path(path))?)
            } else {
                // If the header has many more columns, their names are not made.
                Some(format!("expected the {} columns of the first file, found {found}", self.names.len()))
            };
            if let Some(message) = difference {
                return Err(Error::new(ErrorKind::Data, message).at_path(path).at_line(first.line));
            }
        }
        Ok(scan)
    }

    /// Whether this is the error of [`detect`](Self::detect) for a text without records, which has no layout.
    pub(crate) fn is_of_no_records(error: &Error) -> bool {
        [EMPTY, NO_RECORDS].contains(&error.message())
    }

    /// How the columns of another file, which are as many, differ.
    fn difference(&self, names: &[String]) -> Option<String> {
        let (index, (expected, found)) = self.names.iter().zip(names).enumerate().find(|(_, (a, b))| a != b)?;
        Some(format!("expected the columns of the first file, whose {index} (from 0) is {expected:?}, found {found:?}"))
    }

    /// The indices of several columns, found as [`column`](Self::column) does. The time grows with their number plus
    /// the number of all columns, not with the product.
    ///
    /// # Errors
    ///
    /// As [`column`](Self::column).
    pub(crate) fn columns<'a>(&self, wanted: impl IntoIterator<Item = &'a ColumnRef>) -> Result<Vec<usize>> {
        let mut positions = None;
        let find = |(nth, column): (usize, &ColumnRef)| match column {
            ColumnRef::Name(name) if nth >= FEW_NAMES => {
                let positions = positions.get_or_insert_with(|| self.positions());
                positions.get(name.as_str()).map_or_else(|| self.column(column), |position| Ok(*position))
            }
            _ => self.column(column),
        };
        wanted.into_iter().enumerate().map(find).collect()
    }

    /// The position of each column's name.
    fn positions(&self) -> HashMap<&str, usize> {
        // The last entry of a name counts: an exact name wins over a trimmed one, and the first of several columns
        // wins.
        let names = || self.names.iter().enumerate().rev();
        let trimmed = names().map(|(position, name)| (name.trim(), position));
        trimmed.chain(names().map(|(position, name)| (name.as_str(), position))).collect()
    }

    /// The index of a column; surrounding blanks in the header do not matter.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::NotFound`] with the nearest name.
    pub(crate) fn column(&self, column: &ColumnRef) -> Result<usize> {
        let found = match column {
            ColumnRef::Position(position) => (*position < self.names.len()).then_some(*position),
            ColumnRef::Name(name) => {
                let exact = self.names.iter().position(|other| other == name);
                exact.or_else(|| self.names.iter().position(|other| other.trim() == name))
            }
        };
        found.ok_or_else(|| {
            let names = &self.names;
            let hint = match column {
                ColumnRef::Position(_) => format!("; there are {}, from 0", names.len()),
                ColumnRef::Name(name) if self.no_names.iter().any(|other| other == name.trim()) => format!(
                    "; it is in the first record, which was not taken for the header ({}): set header = \"yes\" if it is",
                    self.header_reason
                ),
                ColumnRef::Name(name) => match nearest(name, names.iter().map(String::as_str)) {
                    Some(near) => format!("; did you mean {near:?}?"),
                    None => {
                        let shown: Vec<String> = names.iter().take(20).map(|name| shown(name.as_bytes())).collect();
                        format!("; there are [{}]", shown.join(", "))
                    }
                },
            };
            Error::new(ErrorKind::NotFound, format!("no column {column}{hint}"))
        })
    }
}

/// The column of the first field that is text, and how this field begins.
fn first_text(mut fields: Fields<'_>, columns: usize, missings: &Missings) -> Option<(usize, Vec<u8>)> {
    const SHOWN: usize = 256;
    let mut buffer = Vec::new();
    (0..columns).find_map(|column| {
        let field = fields.next(&mut buffer)?;
        (missings.value(field) == Value::Text).then(|| (column, field[..field.len().min(SHOWN)].to_vec()))
    })
}

/// The delimiter: the most telling of the usual ones, but not a comma that cuts numbers in two.
fn detect_delimiter(path: &Path, head: &[u8], whole: bool, dialect: Dialect) -> u8 {
    let best = most_telling(path, head, whole, dialect);
    if best != b',' {
        return best;
    }
    let is_even = |counts: &[usize]| counts.iter().all(|count| Some(count) == counts.first());
    let is_comma_even = is_even(&field_counts(head, whole, dialect));
    let divides = |delimiter: &u8| {
        let dialect = Dialect { delimiter: *delimiter, ..dialect };
        (!is_comma_even || is_even(&field_counts(head, whole, dialect))) && has_decimal_commas(head, whole, dialect)
    };
    let others = [b';', b'|'].into_iter().filter(|mark| *mark != dialect.quote && Some(*mark) != dialect.comment);
    others.into_iter().find(divides).unwrap_or(b',')
}

/// Whether, below the first record (which may be a header), one of several columns holds numbers with decimal commas
/// and no text.
fn has_decimal_commas(head: &[u8], whole: bool, dialect: Dialect) -> bool {
    let counts = field_counts(head, whole, dialect);
    let Some(columns) = counts.first().copied().filter(|columns| *columns > 1) else { return false };
    let (mut has_commas, mut has_text) = (vec![false; columns], vec![false; columns]);
    let mut buffer = Vec::new();
    let records = dialect.records(head).zip(&counts).skip(usize::from(counts.len() > 1));
    for ((start, found), _) in records.filter(|(_, count)| **count == columns) {
        let mut fields = Fields::new(&head[start..start + found.len], found.quoted, &dialect);
        for (has_commas, has_text) in has_commas.iter_mut().zip(&mut has_text) {
            let field = fields.next(&mut buffer).unwrap_or_default().trim_ascii();
            *has_commas |= has_decimal_comma(field);
            *has_text |= !has_decimal_comma(field) && !field.is_empty() && f64::exact(field).is_none();
        }
    }
    has_commas.iter().zip(has_text).any(|(has_commas, has_text)| *has_commas && !has_text)
}

/// The delimiter that gives the most fields, with the same number in every record.
fn most_telling(path: &Path, head: &[u8], whole: bool, dialect: Dialect) -> u8 {
    let name = plain_name(path);
    let tabs_first = [".tsv", ".tab"].iter().any(|ending| name.ends_with(ending));
    let mut best = (if tabs_first { b'\t' } else { b',' }, 1);
    let usual = b"\t,;|".iter().copied();
    for delimiter in usual.filter(|mark| *mark != dialect.quote && Some(*mark) != dialect.comment) {
        let dialect = Dialect { delimiter, ..dialect };
        let counts = field_counts(head, whole, dialect);
        let fields = counts.first().copied().unwrap_or(1);
        let even = fields > 1 && counts.iter().all(|count| *count == fields);
        if delimiter == b'\t' && (even || tabs_first && fields > 1) {
            return delimiter;
        }
        if even && fields > best.1 {
            best = (delimiter, fields);
        }
    }
    if best.1 > 1 || tabs_first {
        return best.0;
    }
    // With no delimiter, all records have the same number of fields (one may be bad): take the one that divides the
    // first record most.
    let first = |delimiter| field_counts(head, whole, Dialect { delimiter, ..dialect }).first().copied().unwrap_or(1);
    [b'|', b';', b'\t', b','].into_iter().max_by_key(|delimiter| first(*delimiter)).unwrap_or(b',')
}

const EMPTY: &str = "the file is empty";
const NO_RECORDS: &str = "the file holds no records, only blank or comment lines";

/// Whether a text that begins with `head` looks like a table, whatever its name. Its first records must have as many
/// fields as the first one, with few exceptions, and below the first record some column must hold only numbers.
pub(crate) fn looks_like_table(path: &Path, head: &[u8], whole: bool) -> bool {
    let head = head.strip_prefix(b"\xef\xbb\xbf").unwrap_or(head);
    let terminator = if memchr(b'\n', head).is_none() { b'\r' } else { b'\n' };
    let mut dialect =
        Dialect { delimiter: b',', quote: b'"', has_quotes: true, comment: None, blanks: Blanks::Content, terminator };
    dialect.delimiter = detect_delimiter(path, head, whole, dialect);
    let missings = Missings::new(&CsvOptions::default().missing_tokens);
    let mut records = dialect.records(head).take(DELIMITER_RECORDS).peekable();
    let Some((start, first)) = records.next() else { return false };
    let first = Fields::new(&head[start..start + first.len], first.quoted, &dialect).count();
    let (mut below, mut even, mut buffer) = (0, 0, Vec::new());
    let mut columns = vec![ColumnRule::default(); first];
    while let Some((start, found)) = records.next() {
        let cut = start + found.next == head.len() && !whole;
        if cut && (below > 0 || records.peek().is_some()) {
            break;
        }
        let fields = || Fields::new(&head[start..start + found.len], found.quoted, &dialect);
        below += 1;
        if fields().count() != first {
            continue;
        }
        even += 1;
        let mut fields = fields();
        for column in &mut columns {
            let Some(field) = fields.next(&mut buffer) else { break };
            column.observe(field, &missings);
        }
    }
    let has_numbers = columns.iter().any(|column| column.numbers && !column.texts);
    first > 1 && below > 0 && 4 * even >= 3 * below && has_numbers
}

/// Number of fields of each of the first records. If the head is cut off, its last record is left out, unless it is the
/// only one.
fn field_counts(head: &[u8], whole: bool, dialect: Dialect) -> Vec<usize> {
    let mut counts = Vec::new();
    for (start, found) in dialect.records(head).take(DELIMITER_RECORDS) {
        let cut = start + found.next == head.len() && !whole;
        if !cut || counts.is_empty() {
            counts.push(Fields::new(&head[start..start + found.len], found.quoted, &dialect).count());
        }
    }
    counts
}

/// Decides whether the first record is a header; see [`Header::Auto`].
struct HeaderRule<'a> {
    first: Vec<Vec<u8>>,
    columns: Vec<ColumnRule>,
    missings: &'a Missings,
    records: usize,
    buffer: Vec<u8>,
}

#[derive(Clone, Copy, Default)]
struct ColumnRule {
    numbers: bool,
    texts: bool,
    occurs_again: bool,
}

impl ColumnRule {
    fn observe(&mut self, field: &[u8], missings: &Missings) {
        match missings.value(field) {
            Value::Missing => {}
            Value::Text if !has_decimal_comma(field) => self.texts = true,
            // A number with a decimal comma is not read, but it is not a name either.
            _ => self.numbers = true,
        }
    }
}

impl<'a> HeaderRule<'a> {
    fn new(raw: &[u8], span: &Span, dialect: &Dialect, missings: &'a Missings) -> Self {
        let mut fields = Fields::new(raw, span.quoted, dialect);
        let mut buffer = Vec::new();
        let mut first = Vec::new();
        while let Some(field) = fields.next(&mut buffer) {
            first.push(field.to_vec());
        }
        Self { columns: vec![ColumnRule::default(); first.len()], first, missings, records: 0, buffer }
    }

    fn observe(&mut self, mut fields: Fields<'_>) {
        self.records += 1;
        for (first, column) in self.first.iter().zip(&mut self.columns) {
            let Some(field) = fields.next(&mut self.buffer) else { break };
            column.observe(field, self.missings);
            column.occurs_again |= field == first;
        }
    }

    /// Whether the first record is a header, and why.
    fn decide(&self) -> (bool, String) {
        let is_number = |field: &[u8]| {
            matches!(self.missings.value(field), Value::Integer(_) | Value::Float(_)) || has_decimal_comma(field)
        };
        let named = |index: usize| format!("field {} of the first record, {},", index + 1, shown(&self.first[index]));
        if self.records == 0 {
            return match self.first.iter().position(|field| is_number(field)) {
                Some(index) => (false, format!("{} is a number, and there is no other record", named(index))),
                None => (true, "a single record without a number".to_owned()),
            };
        }
        // What has no letter and no digit, such as "?", rather stands for a missing number.
        let is_word = |field: &[u8]| String::from_utf8_lossy(field).chars().any(char::is_alphanumeric);
        let tells = self.first.iter().zip(&self.columns).position(|(field, column)| {
            let is_text = matches!(self.missings.value(field), Value::Text) && !is_number(field) && is_word(field);
            column.numbers && !column.texts && is_text
        });
        if let Some(index) = tells {
            return (true, format!("{} is text above numbers", named(index)));
        }
        let mut distinct = HashSet::new();
        for (index, (field, column)) in self.first.iter().zip(&self.columns).enumerate() {
            let what = if field.trim_ascii().is_empty() {
                "is empty"
            } else if is_number(field) {
                "is a number"
            } else if column.occurs_again {
                "occurs again below"
            } else if !distinct.insert(field) {
                "is given twice"
            } else {
                continue;
            };
            return (false, format!("{} {what}", named(index)));
        }
        (true, "the fields of the first record are distinct texts, none of which occurs again below".to_owned())
    }
}

/// The header's names. A repeated name gets `.1`, `.2` and so on; an empty name becomes `column_N`.
fn header_names(mut fields: Fields<'_>, span: &Span) -> Result<Vec<String>> {
    let mut buffer = Vec::new();
    let mut names: Vec<String> = Vec::new();
    loop {
        let at = fields.at() as u64;
        let Some(field) = fields.next(&mut buffer) else { break };
        let number = names.len() + 1;
        let Ok(text) = std::str::from_utf8(field) else {
            let message = format!("the name of column {number} is not valid UTF-8: {}; set encoding", shown(field));
            return Err(Error::new(ErrorKind::Data, message).at_line(span.line).at_byte(span.byte + at));
        };
        names.push(if text.trim().is_empty() { format!("column_{number}") } else { text.to_owned() });
    }
    Ok(if may_repeat(&names) { numbered(names) } else { names })
}

/// Whether a name may occur twice; rarely true even if none does. Sorting numbers costs a fraction of looking up every
/// name.
fn may_repeat(names: &[String]) -> bool {
    let hash = RandomState::new();
    let mut hashes: Vec<u64> = names.iter().map(|name| hash.hash_one(name)).collect();
    hashes.sort_unstable();
    hashes.windows(2).any(|pair| pair[0] == pair[1])
}

/// The names; repeated ones get suffixes.
fn numbered(names: Vec<String>) -> Vec<String> {
    // How many suffixes of each name are in use. Trying each again would be quadratic if all names are equal.
    let mut taken: HashMap<String, usize> = HashMap::new();
    let number = |base: String| {
        let mut name = base.clone();
        let mut suffix = taken.get(&base).copied().unwrap_or(0);
        while taken.contains_key(&name) {
            suffix += 1;
            name = format!("{base}.{suffix}");
        }
        taken.insert(base, suffix);
        taken.entry(name.clone()).or_insert(0);
        name
    };
    names.into_iter().map(number).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_that_is_cut_off_counts_only_if_it_is_the_only_one() {
        let looks = |head: &str| looks_like_table(Path::new("x"), head.as_bytes(), false);
        assert!(looks("a,b\n1,2\n3,4\n5"), "what is cut off has not yet all its fields");
        assert!(looks(&format!("a,b\n1,{}", "x".repeat(1000))), "nothing else tells");
        assert!(!looks("a,b\nc"));
    }

    #[test]
    fn many_columns_are_found_as_one_is() {
        let header = (0..40).map(|nth| format!("{}n{}{}", " ".repeat(nth % 3), nth / 3, " ".repeat(nth % 2)));
        let text = header.collect::<Vec<_>>().join(",") + "\n";
        let options = CsvOptions { header: Header::Yes, ..CsvOptions::default() };
        let open = || Ok(text.as_bytes());
        let format = Format::detect(Path::new("memory"), open, &options, &Missings::new(&[])).unwrap();
        let names = format.names.iter().flat_map(|name| [name.clone(), name.trim().to_owned()]);
        let mut wanted: Vec<ColumnRef> = names.map(ColumnRef::Name).chain([39.into()]).collect();
        for _ in 0..2 {
            let one_by_one: Vec<usize> = wanted.iter().map(|column| format.column(column).unwrap()).collect();
            assert_eq!(format.columns(&wanted).unwrap(), one_by_one);
            wanted.reverse();
        }
        wanted.push(" n1 ?".into());
        let error = |found: Result<Vec<usize>>| found.unwrap_err().to_string();
        assert_eq!(error(format.columns(&wanted)), error(format.column(&" n1 ?".into()).map(|column| vec![column])));
    }
}
