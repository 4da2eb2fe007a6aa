use std::borrow::Cow;
use std::error::Error as StdError;
use std::fmt;
use std::path::{Path, PathBuf};

use serde::Serialize;

/// The result of every function of Ringfeed that can fail.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// The kind of an error, which programs can match on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ErrorKind {
    /// The operating system refused to read, write, map or list something.
    Io,
    /// A path, column, class or tensor with this name does not exist.
    NotFound,
    /// A record holds something that its schema does not allow.
    Data,
    /// A file violates its format: header, size, checksum or structure.
    Format,
    /// The parts of a schema do not fit together, or a view asks for another type.
    Schema,
    /// The configuration contradicts itself or the data.
    Config,
    /// Input is larger than a limit (bytes per record, pixels, unpacked bytes).
    Limit,
    /// The memory budget would be exceeded.
    Budget,
    /// The caller holds every slot of the ring. If a reader gives this kind, it becomes [`Data`](Self::Data).
    Exhausted,
    /// The epoch has ended, and no other epoch was begun.
    Ended,
    /// More bad records than the policy allows.
    TooManyBad,
    /// The source does not support what was asked: a second epoch, a seek, a shuffle.
    Unsupported,
    /// A panic was caught in user code or in a decoder.
    Panicked,
    /// A wait reached its time limit.
    TimedOut,
    /// The caller asked to stop. If a reader or a transform returns this kind for a record, the record does not count
    /// as bad: under every policy, the error ends the epoch, in the batch's place. Behind a shield it does not end the
    /// epoch, and the caller can ask for the batch again.
    Interrupted,
    /// A device refuses, is broken or does not exist.
    Device,
}

impl ErrorKind {
    /// Whether the same bytes give this error each time, so that it says something of a record, and nothing of the
    /// system or of a moment.
    pub(crate) fn is_of_bytes(self) -> bool {
        matches!(self, Self::Data | Self::Format | Self::Limit | Self::Panicked | Self::Unsupported)
    }

    /// The kind as in JSON: `"not_found"`, `"data"` and so on.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Io => "io",
            Self::NotFound => "not_found",
            Self::Data => "data",
            Self::Format => "format",
            Self::Schema => "schema",
            Self::Config => "config",
            Self::Limit => "limit",
            Self::Budget => "budget",
            Self::Exhausted => "exhausted",
            Self::Ended => "ended",
            Self::TooManyBad => "too_many_bad",
            Self::Unsupported => "unsupported",
            Self::Panicked => "panicked",
            Self::TimedOut => "timed_out",
            Self::Interrupted => "interrupted",
            Self::Device => "device",
        }
    }
}

/// Where in the data an error occurred. Parts that are `None` are unknown, or do not exist in the format.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Location {
    /// File or folder.
    pub path: Option<PathBuf>,
    /// Index of the record, from 0: in its file, if that holds several records; otherwise in its source.
    pub record: Option<u64>,
    /// Line in the file, from 1.
    pub line: Option<u64>,
    /// Name of the archive's member.
    pub member: Option<String>,
    /// Name of the column or tensor.
    pub column: Option<String>,
    /// Byte offset in the file (after decompression and transcoding), from 0.
    pub byte: Option<u64>,
}

impl Location {
    fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut separator = "";
        if let Some(path) = &self.path {
            write!(f, "{}", path.display())?;
            if let Some(line) = self.line {
                write!(f, ":{line}")?;
            }
            separator = ": ";
        } else if let Some(line) = self.line {
            write!(f, "line {line}")?;
            separator = ": ";
        }
        if let Some(record) = self.record {
            write!(f, "{separator}record {record}")?;
            separator = ": ";
        }
        if let Some(member) = &self.member {
            write!(f, "{separator}member {member:?}")?;
            separator = ": ";
        }
        if let Some(column) = &self.column {
            write!(f, "{separator}column {column:?}")?;
            separator = ": ";
        }
        // A line and a column are found without it; a line alone may be long.
        if let Some(byte) = self.byte.filter(|_| self.line.is_none() || self.column.is_none()) {
            write!(f, "{separator}byte {byte}")?;
        }
        Ok(())
    }
}

/// Any error of Ringfeed: a kind, a location, a message and perhaps a cause. It has the size of one pointer.
///
/// Its text reads `path:line: record N: column "c": expected f32, found "abc"`, with `byte N` where no column or no
/// line is known. The layer that knows a part of the location adds it ([`Error::at_path`] and the other `at_` methods);
/// a part that is already known is never overwritten.
pub struct Error(Box<Inner>);

struct Inner {
    kind: ErrorKind,
    location: Location,
    message: Cow<'static, str>,
    source: Option<Box<dyn StdError + Send + Sync>>,
    /// Whether the error only means that all slots are in use: nothing was lost or ended, and the caller can ask again.
    is_wait: bool,
}

impl Error {
    /// An error without a location.
    #[cold]
    pub fn new(kind: ErrorKind, message: impl Into<Cow<'static, str>>) -> Self {
        let (location, message) = (Location::default(), message.into());
        Self(Box::new(Inner { kind, location, message, source: None, is_wait: false }))
    }

    /// The error of a ring or a device without free slots.
    #[cold]
    pub(crate) fn exhausted(message: impl Into<Cow<'static, str>>) -> Self {
        let mut error = Self::new(ErrorKind::Exhausted, message);
        error.0.is_wait = true;
        error
    }

    /// Whether it was made by [`exhausted`](Self::exhausted). Unlike the kind, a user's own error can't claim this.
    pub(crate) fn is_wait(&self) -> bool {
        self.0.is_wait
    }

    /// An error of the user's own code, which can't speak for the ring or for the epoch, even if it contains one of
    /// their errors.
    #[must_use]
    pub(crate) fn of_a_user(mut self) -> Self {
        if matches!(self.0.kind, ErrorKind::Exhausted | ErrorKind::Ended) {
            (self.0.kind, self.0.is_wait) = (ErrorKind::Data, false);
        }
        self
    }

    /// The error for callers that ask an iterator for more after the end of an epoch.
    #[cold]
    pub(crate) fn epoch_ended() -> Self {
        let message = "nothing is left of this epoch: begin the next one with `epoch()`, `epochs(n)` or `reset()`";
        Self::new(ErrorKind::Ended, message)
    }

    /// An input or output error on `path`, with the operating system's reason.
    #[cold]
    pub fn io(path: impl Into<PathBuf>, error: std::io::Error) -> Self {
        Self::of_the_system(error).at_path(path)
    }

    #[cold]
    fn of_the_system(error: std::io::Error) -> Self {
        let kind = match error.kind() {
            std::io::ErrorKind::NotFound => ErrorKind::NotFound,
            _ => ErrorKind::Io,
        };
        Self::new(kind, error.to_string()).with_source(error)
    }

    /// Keeps `source` as the cause.
    #[must_use]
    pub fn with_source(mut self, source: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        self.0.source = Some(source.into());
        self
    }

    /// Adds the path, unless one is known.
    #[must_use]
    pub fn at_path(mut self, path: impl Into<PathBuf>) -> Self {
        self.0.location.path.get_or_insert_with(|| path.into());
        self
    }

    /// Adds the record's index, unless one is known.
    #[must_use]
    pub fn at_record(mut self, record: u64) -> Self {
        self.0.location.record.get_or_insert(record);
        self
    }

    /// Adds the line, unless one is known.
    #[must_use]
    pub fn at_line(mut self, line: u64) -> Self {
        self.0.location.line.get_or_insert(line);
        self
    }

    /// Adds the name of the archive's member, unless one is known.
    #[must_use]
    pub fn at_member(mut self, member: impl Into<String>) -> Self {
        self.0.location.member.get_or_insert_with(|| member.into());
        self
    }

    /// Adds the column's name, unless one is known.
    #[must_use]
    pub fn at_column(mut self, column: impl Into<String>) -> Self {
        self.0.location.column.get_or_insert_with(|| column.into());
        self
    }

    /// Adds the byte offset, unless one is known.
    #[must_use]
    pub fn at_byte(mut self, byte: u64) -> Self {
        self.0.location.byte.get_or_insert(byte);
        self
    }

    /// Adds those parts of a place that are not known yet.
    #[must_use]
    pub(crate) fn at(mut self, place: Location) -> Self {
        let is_elsewhere = self.is_in_another_file(&place);
        let Location { path, record, mut line, member, column, mut byte } = place;
        if is_elsewhere {
            (line, byte) = (None, None);
        }
        let own = &mut self.0.location;
        own.path = own.path.take().or(path);
        own.record = own.record.or(record);
        own.line = own.line.or(line);
        own.member = own.member.take().or(member);
        own.column = own.column.take().or(column);
        own.byte = own.byte.or(byte);
        self
    }

    /// Whether it names another file than `place`, such as a file that the record there names. Its lines and bytes then
    /// belong to that other file.
    pub(crate) fn is_in_another_file(&self, place: &Location) -> bool {
        self.path().zip(place.path.as_deref()).is_some_and(|(own, path)| own != path)
    }

    /// Adds text to the message.
    #[must_use]
    pub(crate) fn and(mut self, more: &str) -> Self {
        self.0.message = format!("{}; {more}", self.0.message).into();
        self
    }

    /// The same with another message.
    #[must_use]
    pub(crate) fn with_message(mut self, message: String) -> Self {
        self.0.message = message.into();
        self
    }

    /// Removes this column, which is none of the user's.
    #[must_use]
    pub(crate) fn not_at_column(mut self, column: &str) -> Self {
        self.0.location.column.take_if(|known| known.as_str() == column);
        self
    }

    /// Converts an offset in a part of a file, if known, to one in the file.
    #[must_use]
    pub(crate) fn in_part_at(mut self, start: u64) -> Self {
        if let Some(byte) = &mut self.0.location.byte {
            *byte += start;
        }
        self
    }

    /// Says in words which byte of a value it is: the value's own place in its file is not known.
    #[must_use]
    pub(crate) fn in_value(mut self) -> Self {
        let Location { path, byte, .. } = &mut self.0.location;
        // In a file that the value names, the place is known.
        match byte.take_if(|_| path.is_none()) {
            Some(byte) => {
                let message = format!("{} (byte {byte} of the value)", self.0.message);
                self.with_message(message)
            }
            None => self,
        }
    }

    /// Converts an offset in something that was made of a file, if known, to one in the file, where there may be none.
    #[must_use]
    pub(crate) fn with_byte(mut self, in_file: impl FnOnce(u64) -> Option<u64>) -> Self {
        let byte = &mut self.0.location.byte;
        *byte = byte.and_then(in_file);
        self
    }

    /// The kind, for matching.
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// The location.
    pub fn location(&self) -> &Location {
        &self.0.location
    }

    /// The path of the location.
    pub fn path(&self) -> Option<&Path> {
        self.0.location.path.as_deref()
    }

    /// What happened, without the location.
    pub fn message(&self) -> &str {
        &self.0.message
    }

    /// The error for a caught panic.
    #[cold]
    pub(crate) fn from_panic(payload: &(dyn std::any::Any + Send)) -> Self {
        let text = payload
            .downcast_ref::<&str>()
            .copied()
            .or_else(|| payload.downcast_ref::<String>().map(String::as_str))
            .unwrap_or("no message");
        Self::new(ErrorKind::Panicked, format!("panicked: {text}"))
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.0.location.is_empty() {
            write!(f, "{}: ", self.0.location)?;
        }
        f.write_str(&self.0.message)
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} error: {self}", self.0.kind)
    }
}

/// An I/O error whose place is not known; [`Error::io`] adds the path. If it contains an [`Error`] (of one of our
/// readers inside of another one), the result is that error.
impl From<std::io::Error> for Error {
    fn from(error: std::io::Error) -> Self {
        error.downcast::<Self>().unwrap_or_else(Self::of_the_system)
    }
}

impl StdError for Error {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.0.source.as_deref().map(|source| source as &(dyn StdError + 'static))
    }
}

/// Limits for comparing names: their length, and their number. Comparing two names costs the product of their lengths,
/// and a file may have any number of names.
const LONGEST_NAME: usize = 1 << 10;
const MOST_STEPS: usize = 1 << 26;

/// Adds the most similar existing name to a "not found" message: `did you mean "x"?`.
pub(crate) fn nearest<'a>(wanted: &str, names: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    if wanted.len() > LONGEST_NAME {
        return None;
    }
    let lower = wanted.to_lowercase();
    let mut left = MOST_STEPS;
    names
        .into_iter()
        .filter(|name| name.len() <= LONGEST_NAME)
        .take_while(|name| {
            let steps = left.checked_sub(name.len() * wanted.len());
            left = steps.unwrap_or(0);
            steps.is_some()
        })
        .filter_map(|name| Some((distance_of_near(&lower, &name.to_lowercase())?, name)))
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, name)| name)
}

/// The number of letters by which two names differ; `None` if it is more than a third of the longer one. Names of one
/// letter are never similar.
fn distance_of_near(one: &str, other: &str) -> Option<usize> {
    let longer = one.chars().count().max(other.chars().count());
    let most = if longer < 2 { 0 } else { (longer / 3).max(1) };
    Some(strsim::damerau_levenshtein(one, other)).filter(|distance| *distance <= most)
}

/// Whether two file names are similar even without their extensions: a user who writes `b.csv` does not mean `a.csv`.
fn is_near_file(wanted: &str, name: &str) -> bool {
    let stem = |name: &str| Path::new(name).file_stem().unwrap_or_default().to_string_lossy().to_lowercase();
    distance_of_near(&stem(wanted), &stem(name)).is_some()
}

/// The error for a path that does not exist, with the most similar entry of its nearest existing parent.
#[cold]
pub(crate) fn missing_path(path: &Path) -> Error {
    if path == Path::new("-") {
        let message = "standard input can be read only once, but data is inspected before it is read: save it to a \
             file first";
        return Error::new(ErrorKind::NotFound, message).at_path(path);
    }
    if let Ok(target) = path.read_link() {
        let message = format!("is a link to {}, which does not exist", target.display());
        return Error::new(ErrorKind::NotFound, message).at_path(path);
    }
    let mut parent = path.parent();
    let mut child = path.file_name();
    while let (Some(folder), Some(name)) = (parent, child) {
        let here = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
        if let Ok(entries) = std::fs::read_dir(here) {
            let names: Vec<String> =
                entries.filter_map(|entry| Some(entry.ok()?.file_name().to_string_lossy().into_owned())).collect();
            let wanted = name.to_string_lossy();
            let like = names.iter().map(String::as_str).filter(|name| is_near_file(&wanted, name));
            let hint = match nearest(&wanted, like) {
                Some(near) => format!("no such file or folder; did you mean {:?}?", folder.join(near)),
                None => {
                    let (count, entries) = (names.len(), if names.len() == 1 { "entry" } else { "entries" });
                    format!("no such file or folder ({count} {entries} in {here:?}, none similar)")
                }
            };
            return Error::new(ErrorKind::NotFound, hint).at_path(path);
        }
        child = folder.file_name();
        parent = folder.parent();
    }
    Error::new(ErrorKind::NotFound, "no such file or folder").at_path(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_is_one_pointer_wide_and_reads_place_first() {
        assert_eq!(size_of::<Error>(), size_of::<usize>());
        let error = Error::new(ErrorKind::Data, "expected f32, found \"abc\"")
            .at_column("width")
            .at_record(3)
            .at_line(5)
            .at_path("iris.csv")
            .at_path("ignored.csv");
        assert_eq!(error.to_string(), "iris.csv:5: record 3: column \"width\": expected f32, found \"abc\"");
    }

    #[test]
    fn an_error_of_the_system_becomes_one_of_ours_and_ours_inside_of_it_comes_out_again() {
        let read = || -> Result<Vec<u8>> { Ok(std::fs::read("/nowhere/at/all")?) };
        let error = read().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NotFound);
        assert!(error.source().is_some() && error.location().is_empty(), "{error}");
        let inside = std::io::Error::other(Error::new(ErrorKind::Limit, "too long").at_path("x.csv"));
        let error = Error::from(inside);
        assert_eq!((error.kind(), error.to_string().as_str()), (ErrorKind::Limit, "x.csv: too long"));
    }

    #[test]
    fn a_missing_path_names_the_nearest_entry() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("train.csv"), "").unwrap();
        let error = missing_path(&folder.path().join("trian.csv"));
        assert_eq!(error.kind(), ErrorKind::NotFound);
        assert!(error.to_string().contains("train.csv"), "{error}");
        std::fs::write(folder.path().join("home"), "").unwrap();
        // A relative path gets a relative answer.
        assert!(missing_path(Path::new("Cargo.tom")).message().ends_with("did you mean \"Cargo.toml\"?"));
        let error = missing_path(&folder.path().join("nope"));
        assert!(error.to_string().contains("none similar"), "{error}");
        for (wanted, is_near) in [
            ("zzzzzzzzzzzz/deeper/file", false),
            ("train.tsv", true),
            ("Train.CSV", true),
            ("t.csv", false),
            ("brain.csv", true),
            ("grams.csv", false),
        ] {
            let error = missing_path(&folder.path().join(wanted)).to_string();
            assert_eq!(error.contains("did you mean"), is_near, "{error}");
            assert_eq!(error.contains("none similar"), !is_near, "{error}");
        }
    }

    #[test]
    fn a_name_is_near_if_few_of_its_letters_differ() {
        for (wanted, name, is_near) in [
            ("delimeter", "delimiter", true),
            ("heigth", "height", true),
            ("lable", "label", true),
            ("xx", "x", true),
            ("x1", "x2", true),
            ("x", "y", false),
            ("X", "x", true),
            ("on", "id", false),
            ("size", "side", true),
            ("size", "name", false),
            // Two letters each, in six bytes each.
            ("高度", "宽窄", false),
            ("高度", "宽度", true),
            ("grösse", "größe", true),
            ("", "x", false),
        ] {
            assert_eq!(nearest(wanted, [name]), is_near.then_some(name), "{wanted} {name}");
        }
        assert_eq!(nearest("widht", ["weight", "width", "wide"]), Some("width"));
    }
}
