//! One source, as plain data: its format, path, fields and options.

use std::cell::RefCell;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::de::{MapAccess, Visitor};
use serde::ser::SerializeMap;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Map, Value as Json};

use crate::error::{Error, ErrorKind, Result, nearest};
use crate::memory::MemoryBudget;
use crate::read::fields::{self, Field, field_faults};
use crate::read::names::without_packing;
use crate::read::paths::{Found, Paths, files_at, is_at};
use crate::read::saved::SavedIndex;
use crate::read::{Container, RecordReader};
use crate::storage::{Access, Files};
use crate::tree::{Node, Told};

use super::any::{AnyFormat, AnyOptions};
use super::{Checks, Foretold, Format, Formats, Inspection, Open, OpenOthers, Opened, Streamed, detect, many};

/// One source: its format, its path, its fields and its options. In settings
/// `{ format = "csv", path = "train.csv", options = { delimiter = ";" }, fields = { ... } }`.
///
/// ```
/// use ringfeed::{csv::CsvOptions, formats::Csv, settings::SourceConfig};
///
/// let mut source = SourceConfig::new(Csv, "train.csv", CsvOptions::default());
/// source.options_mut::<Csv>().expect("it is CSV").delimiter = Some(';');
/// assert_eq!((source.format(), source.options::<Csv>().and_then(|options| options.delimiter)), ("csv", Some(';')));
/// ```
pub struct SourceConfig {
    format: AnyFormat,
    paths: Paths,
    options: Box<dyn AnyOptions>,
    formats: Formats,
    /// Its tensors by name, and how each is made. Without any, the default tensors of the format.
    pub fields: Vec<(String, Field)>,
}

impl SourceConfig {
    /// A source of this format: a file, a folder, a pattern, or several of those; see [`Paths`].
    pub fn new<F: Format>(format: F, paths: impl Into<Paths>, options: F::Options) -> Self {
        Self::of(&Formats::new(), AnyFormat::new(format), paths.into(), Box::new(options))
    }

    pub(super) fn of(formats: &Formats, format: AnyFormat, paths: Paths, options: Box<dyn AnyOptions>) -> Self {
        Self { format, paths, options, formats: formats.clone(), fields: Vec::new() }
    }

    /// Sets the formats that its files may have if its own format [is made of others' records](Open::open_other), such
    /// as tokens of text. Default: the built-in formats, or those with which the settings were loaded.
    #[must_use]
    pub fn with_formats(self, formats: &Formats) -> Self {
        Self { formats: formats.clone(), ..self }
    }

    /// Adds a tensor with this name, made of a field of the source.
    ///
    /// ```
    /// use ringfeed::arrays::NpyOptions;
    /// use ringfeed::field::Class;
    /// use ringfeed::{Loader, formats::Npy, settings::SourceConfig};
    ///
    /// let labels = SourceConfig::new(Npy, "y.npy", NpyOptions::default()).field("label", Class::of(["cat", "dog"]));
    /// let train = Loader::npy("x.npy").and(labels);
    /// ```
    #[must_use]
    pub fn field(mut self, name: impl Into<String>, field: impl Into<Field>) -> Self {
        self.fields.push((name.into(), field.into()));
        self
    }

    /// The name of its format in text, TOML and JSON.
    pub fn format(&self) -> &'static str {
        self.format.name()
    }

    /// Its kind, as `inspect` and `verify` call it: `image_folder` for a folder of images, otherwise mostly the name of
    /// its format.
    pub fn kind(&self) -> &'static str {
        self.format.kind(self.path())
    }

    /// Whether it is of format `F`.
    pub fn is<F: Format>(&self) -> bool {
        self.format.is::<F>()
    }

    /// Whether its values are text whose types [are inferred](Format::infers_types), as in CSV files.
    pub fn infers_types(&self) -> bool {
        self.format.infers_types()
    }

    /// Whether a record is a single array [without a name](Format::has_one_array).
    pub(crate) fn has_one_array(&self) -> bool {
        self.format.has_one_array()
    }

    /// Whether a record [is a group of files](Format::has_members).
    pub(crate) fn has_members(&self) -> bool {
        self.format.has_members()
    }

    /// Its path; the first path if there are several.
    pub fn path(&self) -> &Path {
        self.paths.first()
    }

    /// Its path, to change it; the first path if there are several.
    pub fn path_mut(&mut self) -> &mut PathBuf {
        self.paths.first_mut()
    }

    /// All its paths.
    pub fn paths(&self) -> &Paths {
        &self.paths
    }

    /// Makes it read from here alone, instead of from [its paths](Self::paths).
    pub fn set_paths(&mut self, paths: impl Into<Paths>) {
        self.paths = paths.into();
    }

    /// Its options, if it is of format `F`.
    pub fn options<F: Format>(&self) -> Option<&F::Options> {
        (&*self.options as &dyn std::any::Any).downcast_ref().filter(|_| self.is::<F>())
    }

    /// Its options, to change them, if it is of format `F`.
    pub fn options_mut<F: Format>(&mut self) -> Option<&mut F::Options> {
        if !self.is::<F>() {
            return None;
        }
        (&mut *self.options as &mut dyn std::any::Any).downcast_mut()
    }

    /// Its options, without defaults and without options that only say how its bytes are accessed. Together with the
    /// bytes, they determine its records.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Config`] for options that can't be written as JSON.
    pub(crate) fn told_options(&self) -> Result<Map<String, Json>> {
        let json = |options: &dyn AnyOptions| {
            serde_json::to_value(options).map_err(|error| {
                Error::new(ErrorKind::Config, format!("options: {error}")).with_source(error).at_path(self.path())
            })
        };
        Ok(match different(json(&*self.format.default_options())?, json(&*self.options)?) {
            Some(Json::Object(options)) => options,
            Some(other) => Map::from_iter([("options".to_owned(), other)]),
            None => Map::new(),
        })
    }

    /// Its path, and the paths among its options and fields.
    pub(crate) fn paths_mut(&mut self) -> Vec<&mut PathBuf> {
        let mut paths: Vec<&mut PathBuf> = self.paths.iter_mut().collect();
        paths.extend(self.format.paths(&mut *self.options));
        paths.extend(self.fields.iter_mut().filter_map(|(_, field)| field.path_mut()));
        paths
    }

    /// Whether the file with this [place](crate::read::places) is read: as one of its own files, as far as that is
    /// known without opening them, or as one that its options and fields name.
    pub(crate) fn reads(&self, files: &Files, file: &Path) -> bool {
        let own = |path: &PathBuf| self.paths.iter().any(|own| own == path);
        let beside = self.clone().paths_mut().into_iter().any(|path| !own(path) && is_at(path, file));
        beside || files.are_local() && self.paths.iter().any(|path| self.reads_at(files, path, file))
    }

    fn reads_at(&self, files: &Files, path: &Path, file: &Path) -> bool {
        if path.is_dir() && self.format.takes_whole(files, path) {
            let is_other = self.format.reads_by_name() && !self.format.is_in_folder(file, None);
            return !is_other && is_at(path, file);
        }
        let found = files_at(files, path, &|name| self.is_named(name)).unwrap_or_default();
        found.files.iter().any(|own| is_at(own, file))
    }

    /// How its files are read.
    pub fn access(&self) -> Access {
        let mut options = self.options.cloned();
        self.format.access(&mut *options).copied().unwrap_or_default()
    }

    pub(crate) fn access_mut(&mut self) -> Option<&mut Access> {
        self.format.access(&mut *self.options)
    }

    pub(crate) fn saved_index_mut(&mut self) -> Option<&mut SavedIndex> {
        self.format.saved_index(&mut *self.options)
    }

    /// Faults of its options on their own.
    pub(crate) fn option_faults(&self) -> Vec<String> {
        self.format.faults(&*self.options)
    }

    /// Why the format refuses its fields, which are valid on their own, as far as this is known without the data.
    pub(crate) fn field_faults(&self) -> Vec<String> {
        match self.fields.is_empty() || !field_faults(&self.fields).is_empty() {
            true => Vec::new(),
            false => self.format.field_faults(&*self.options, &self.fields),
        }
    }

    pub(crate) fn needs_shuffle(&self) -> bool {
        self.format.needs_shuffle(&*self.options)
    }

    pub(crate) fn overlaps(&self) -> bool {
        self.format.overlaps(&*self.options)
    }

    pub(crate) fn samples_per_epoch(&self, choice: u64) -> Option<u64> {
        self.format.samples_per_epoch(&*self.options, choice)
    }

    pub(crate) fn has_small_samples(&self) -> bool {
        self.format.has_small_samples()
    }

    /// Removes everything that changes samples at random or leaves some of them out.
    pub(crate) fn make_plain(&mut self) {
        self.format.make_plain(&mut *self.options);
        for (_, field) in &mut self.fields {
            field.make_plain();
        }
    }

    fn at<'a>(&'a self, files: &'a Files, budget: &'a MemoryBudget) -> Open<'a> {
        Open { fields: &self.fields, others: Some(&self.formats), ..Open::new(self.path(), files, budget) }
    }

    /// The fields that are equivalent to its usual tensors, if there are such fields, as for pictures and their
    /// classes.
    ///
    /// # Errors
    ///
    /// Errors of reading the data, as far as that is necessary.
    pub fn usual_fields(&self, files: &Files) -> Result<Vec<(String, Field)>> {
        let budget = MemoryBudget::unlimited();
        self.format.usual_fields(&*self.options, &self.at(files, &budget))
    }

    /// The files that its paths stand for; nothing for a single path that the format opens unchanged.
    pub(crate) fn found(&self, files: &Files) -> Result<Option<Found>> {
        let mut found = Found::default();
        for path in self.paths.iter() {
            match self.format.takes_whole(files, path) {
                true => found.files.push(path.to_owned()),
                false => found.add(files_at(files, path, &|name| self.is_named(name))?),
            }
        }
        let is_itself = found.files.iter().map(PathBuf::as_path).eq(std::iter::once(self.path()));
        Ok(Some(found).filter(|_| !is_itself))
    }

    /// Whether a file with this name, in lower case, is of the format by its name.
    fn is_named(&self, name: &str) -> bool {
        let plain = without_packing(name);
        (plain == name || self.format.packed_advice().is_none()) && self.format.has_name(plain)
    }

    fn opened(&self, at: &Open<'_>) -> Result<Opened> {
        match self.found(at.files)? {
            None => self.format.open(&*self.options, at),
            Some(found) => self.open_found(&found, at),
        }
    }

    fn open_found(&self, found: &Found, at: &Open<'_>) -> Result<Opened> {
        let count = found.files.len();
        let passed_over = found.passed_over.len();
        tracing::debug!(path = %self.path().display(), files = count, passed_over, "files that are read as one");
        let files = many::few_open(at, count);
        self.format.open_many(&*self.options, &found.files, &Open { files: &files, ..*at })
    }

    /// A separate source for each file.
    pub(crate) fn each(&self, files: &Files) -> Result<Vec<Self>> {
        let paths =
            self.found(files)?.map_or_else(|| self.paths.iter().map(Path::to_owned).collect(), |found| found.files);
        Ok(paths.into_iter().map(|path| Self { paths: path.into(), ..self.clone() }).collect())
    }

    /// Opens the readers of its tensors.
    ///
    /// # Errors
    ///
    /// Those of the format, and of fields that do not exist.
    pub fn open(&self, files: &Files, budget: &MemoryBudget) -> Result<Vec<Arc<dyn RecordReader>>> {
        let at = self.at(files, budget);
        self.opened(&at)?.readers(&at)
    }

    /// Its records as values, to be packed.
    pub(crate) fn open_values(&self, files: &Files, budget: &MemoryBudget) -> Result<Box<dyn Container>> {
        let at = self.at(files, budget);
        let paths = match self.found(files)? {
            Some(found) => found.files,
            None => vec![self.path().to_owned()],
        };
        let files = many::few_open(&at, paths.len());
        self.format.open_values(&*self.options, &paths, &Open { files: &files, ..at })
    }

    pub(crate) fn stream(&self, files: &Files, budget: &MemoryBudget, always: bool) -> Result<Option<Streamed>> {
        if self.found(files)?.is_some() {
            return Ok(None);
        }
        let streamed = self.format.stream(&*self.options, &self.at(files, budget), always)?;
        Ok(streamed.filter(|streamed| {
            let tensors = streamed.decoder.tensors();
            self.fields.iter().all(|(name, _)| tensors.iter().any(|tensor| tensor.name == *name))
        }))
    }

    pub(crate) fn foretell(&self, files: &Files) -> Result<Foretold> {
        let budget = MemoryBudget::unlimited();
        let at = self.at(files, &budget);
        match self.found(files)? {
            None if files.are_local() => self.format.foretell(&*self.options, &at),
            None => Foretold::of_opened(self.format.open(&*self.options, &at)?, &at),
            Some(found) => {
                let foretold = Foretold::of_opened(self.open_found(&found, &at)?, &at)?;
                let (files, passed_over) = (found.files.len() as u64, found.passed_over);
                Ok(Foretold { files, passed_over, ..foretold })
            }
        }
    }

    /// The part of a single file that is read to find all bad records; see [`each`](Self::each).
    pub(crate) fn checks(&self, files: &Files, budget: &MemoryBudget) -> Result<Checks> {
        self.format.checks(&*self.options, &self.at(files, budget))
    }

    /// Describes its contents. Reads all of its records. Files that settings ask to map are read instead.
    ///
    /// # Errors
    ///
    /// Those of reading.
    pub fn inspect(&self, files: &Files, budget: &MemoryBudget) -> Result<Inspection> {
        let at = self.at(files, budget);
        let mut options = self.options.cloned();
        if let Some(access) = self.format.access(&mut *options).filter(|access| access.lacks_promise()) {
            *access = Access::Read;
        }
        match self.found(files)? {
            None => self.format.inspect(&*options, &at),
            Some(found) => {
                let files = many::few_open(&at, found.files.len());
                self.format.inspect_many(&*options, &found.files, &Open { files: &files, ..at })
            }
        }
    }
}

/// Options that only say how bytes are accessed and what is saved of them. They do not affect the records.
const REACHED_BY: &[&str] = &["access", "cache_bytes", "saved_index", "threads"];

/// The difference of `options` from `usual`, without [`REACHED_BY`].
fn different(usual: Json, options: Json) -> Option<Json> {
    match (usual, options) {
        (Json::Object(mut usual), Json::Object(options)) => {
            let own = options.into_iter().filter(|(name, _)| !REACHED_BY.contains(&name.as_str()));
            let own = own.filter_map(|(name, value)| {
                let usual = usual.remove(&name).unwrap_or_default();
                different(usual, value).map(|value| (name, value))
            });
            let own: Map<String, Json> = own.collect();
            (!own.is_empty()).then_some(Json::Object(own))
        }
        (usual, options) => (usual != options).then_some(options),
    }
}

impl OpenOthers for Formats {
    fn open_values(&self, format: Option<&str>, paths: &[PathBuf], at: &Open<'_>) -> Result<Box<dyn Container>> {
        let format = match format {
            Some(name) => self
                .named(name)
                .ok_or_else(|| Error::new(ErrorKind::Config, format!("format: {}", self.unknown(name))))?,
            None => detect::detect(self.all(), at.files, at.path)?,
        };
        let options = format.default_options();
        let source = SourceConfig::of(self, format, paths.iter().collect(), options);
        match source.found(at.files)? {
            Some(found) => source.format.open_values(&*source.options, &found.files, at),
            None => source.format.open_values(&*source.options, paths, at),
        }
    }
}

impl Clone for SourceConfig {
    fn clone(&self) -> Self {
        let Self { format, paths, options, formats, fields } = self;
        let (format, options, fields) = (format.clone(), options.cloned(), fields.clone());
        Self { format, paths: paths.clone(), options, formats: formats.clone(), fields }
    }
}

impl PartialEq for SourceConfig {
    fn eq(&self, other: &Self) -> bool {
        self.format == other.format
            && self.paths == other.paths
            && self.options.is_same(&*other.options)
            && self.fields == other.fields
    }
}

impl fmt::Debug for SourceConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("SourceConfig");
        shown.field("format", &self.format).field("path", &self.paths).field("options", &self.options);
        shown.field("fields", &self.fields).finish()
    }
}

impl Serialize for SourceConfig {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("format", self.format())?;
        map.serialize_entry("path", &self.paths)?;
        if !self.options.is_default() {
            map.serialize_entry("options", &*self.options)?;
        }
        if !self.fields.is_empty() {
            map.serialize_entry("fields", &fields::ByName(&self.fields))?;
        }
        map.end()
    }
}

thread_local! {
    /// The formats that settings may name while they are read: serde has no way to pass them down.
    static KNOWN: RefCell<Formats> = RefCell::new(Formats::new());
}

/// Reads settings that may name these formats.
pub(crate) fn with_formats<T>(formats: &Formats, read: impl FnOnce() -> T) -> T {
    struct Restore(Option<Formats>);
    impl Drop for Restore {
        fn drop(&mut self) {
            KNOWN.with(|known| known.replace(self.0.take().unwrap_or_default()));
        }
    }
    let _restore = Restore(Some(KNOWN.with(|known| known.replace(formats.clone()))));
    read()
}

/// The keys of a source.
const KEYS: &[&str] = &["format", "path", "options", "fields"];

impl<'de> Deserialize<'de> for SourceConfig {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Source;

        impl<'de> Visitor<'de> for Source {
            type Value = SourceConfig;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a table with its format, path, options and fields")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<SourceConfig, A::Error> {
                let mut entries: Vec<(String, Node)> = Vec::new();
                while let Some((key, value)) = map.next_entry::<String, Node>()? {
                    entries.push((key, value));
                }
                source_of(entries)
            }
        }

        deserializer.deserialize_map(Source)
    }
}

fn source_of<E: serde::de::Error>(entries: Vec<(String, Node)>) -> Result<SourceConfig, E> {
    let told = |fault: crate::tree::Fault| E::custom(Told(&fault));
    let Some((_, name)) = entries.iter().find(|(key, _)| key == "format") else {
        // It may be there, but misspelt.
        let mut keys = entries.iter().map(|(key, _)| key);
        let misspelt = keys.find(|key| nearest(key, ["format"]).is_some());
        return Err(misspelt.map_or_else(|| E::missing_field("format"), |key| E::unknown_field(key, KEYS)));
    };
    let name = String::deserialize(name).map_err(told)?;
    let known = KNOWN.with(|known| known.borrow().clone());
    let Some(format) = known.named(&name) else {
        return Err(E::custom(known.unknown(&name)));
    };
    let (mut path, mut options, mut fields) = (None, None, Vec::new());
    for (key, value) in &entries {
        match key.as_str() {
            "format" => {}
            "path" => path = Some(Paths::deserialize(value).map_err(told)?),
            "options" => options = Some(format.options(value).map_err(told)?),
            "fields" => fields = fields::by_name::deserialize(value).map_err(told)?,
            other if format.has_option(other) => {
                return Err(E::custom(format!("{other:?} is one of the options; write options = {{ {other} = ... }}")));
            }
            other => match format.option_like(other).filter(|_| nearest(other, KEYS.iter().copied()).is_none()) {
                Some(near) => {
                    return Err(E::custom(format!(
                        "there is no setting {other:?}; did you mean {near:?}? That is one of the options; write options = {{ \
                         {near} = ... }}"
                    )));
                }
                None => return Err(E::unknown_field(other, KEYS)),
            },
        }
    }
    let paths = path.ok_or_else(|| E::missing_field("path"))?;
    let options = match options {
        Some(options) => options,
        None if format.needs_options() => return Err(E::missing_field("options")),
        None => format.default_options(),
    };
    Ok(SourceConfig { format, paths, options, formats: known, fields })
}

/// The error for this key in a source whose format is detected.
pub(crate) fn no_such_key<E: serde::de::Error>(key: &str) -> E {
    if key == "fields" {
        return E::custom(
            "fields of a source without `format` are written beside the source, not in it: write [fields]",
        );
    }
    if nearest(key, KEYS.iter().copied()).is_some() {
        return E::unknown_field(key, KEYS);
    }
    let known = KNOWN.with(|known| known.borrow().clone());
    // Some take any option, and say later what is wrong with it.
    let has = |format: &&AnyFormat| format.has_option(key) && !format.has_option("\0");
    let with_it: Vec<&str> = known.all().iter().filter(has).map(|format| format.name()).collect();
    match with_it.first() {
        Some(first) => E::custom(format!(
            "{key:?} is one of the options of a format that is named; write format = {first:?}, options = {{ {key} = ... }}"
        )),
        None => E::unknown_field(key, KEYS),
    }
}
