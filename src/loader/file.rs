//! Settings in files: read, checked as far as a file can be, and written.

use std::path::{Path, PathBuf};

use crate::error::{Error, ErrorKind, Result};
use crate::files;
use crate::normalise::NormaliserConfig;
use crate::prepare::{PreparedConfig, Recipe};
use crate::read::format::with_formats;
use crate::read::{Formats, Paths, SourceConfig};
use crate::transform::Operation;
use crate::tree::any;

use super::config::{LoaderConfig, OnlySource};
use super::settings::{self, Language};

/// Most bytes of a settings file: enough for lists of some hundred thousand names.
const MAX_SETTINGS_BYTES: u64 = 16 << 20;

fn language_of(path: &Path) -> Language {
    let is_json = path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("json"));
    if is_json { Language::Json } else { Language::Toml }
}

impl LoaderConfig {
    /// Writes these settings as TOML, or as JSON if the name ends in `.json`, with absolute paths.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Io`](crate::ErrorKind::Io) if the file can't be written.
    pub fn save(&self, path: impl AsRef<Path>) -> Result<()> {
        let path = path.as_ref();
        let mut config = self.clone();
        for own in config.paths_mut() {
            *own = std::path::absolute(&*own).map_err(|error| Error::io(&*own, error))?;
        }
        let is_json = path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("json"));
        let text = match is_json {
            true => serde_json::to_string_pretty(any(&config)).map_err(|error| error.to_string()),
            false => toml::to_string(any(&config)).map_err(|error| error.to_string()),
        };
        let text = text.map_err(|error| {
            Error::new(ErrorKind::Config, format!("these settings can't be written: {error}")).at_path(path)
        })?;
        files::write_whole(path, &[text.as_bytes()]).map_err(|error| Error::io(path, error))
    }

    /// Reads settings from a `.json` or `.toml` file. Relative paths in it start at the file's own folder.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::NotFound`](crate::ErrorKind::NotFound) with the nearest name;
    /// [`ErrorKind::Config`](crate::ErrorKind::Config), with the line, for a setting that does not exist, and for
    /// values that are wrong whatever the other settings are.
    pub fn load(path: impl AsRef<Path>) -> Result<Self> {
        Self::load_with(path, &Formats::new())
    }

    /// As [`load`](Self::load), with these formats.
    ///
    /// # Errors
    ///
    /// As [`load`](Self::load).
    pub fn load_with(path: impl AsRef<Path>, formats: &Formats) -> Result<Self> {
        let path = path.as_ref();
        let text = files::read_text(path, "a file of settings", MAX_SETTINGS_BYTES)?;
        let language = language_of(path);
        let parsed = with_formats(formats, || settings::parse(&text, language));
        let checked = parsed.and_then(|config: Self| {
            settings::no_faults_in(&text, language, config.value_faults())?;
            Ok(config)
        });
        let mut config = checked.map_err(|error| error.at_path(path))?;
        if let Some(folder) = path.parent() {
            config.paths_mut().for_each(|path| *path = folder.join(&*path));
        }
        Ok(config)
    }

    /// Adds to an error of settings that were read from the file at `path` that path, and the line of the setting that
    /// the error names, unless the error names another file.
    #[must_use]
    pub fn locate(error: Error, path: impl AsRef<Path>) -> Error {
        let path = path.as_ref();
        if error.kind() != ErrorKind::Config || error.path().is_some() {
            return error;
        }
        let error = match files::read_text(path, "a file of settings", MAX_SETTINGS_BYTES) {
            Ok(text) if error.location().line.is_none() => settings::in_line(error, &text, language_of(path)),
            _ => error,
        };
        error.at_path(path)
    }

    /// Reads settings from JSON text, in the same language as a file, including its short forms. Relative paths start
    /// at the current folder.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Config`](crate::ErrorKind::Config) for a setting that does not exist, with the key, what is allowed
    /// there, and the line.
    pub fn from_json(text: &str) -> Result<Self> {
        settings::parse(text, Language::Json)
    }

    fn paths_mut(&mut self) -> impl Iterator<Item = &mut PathBuf> {
        let files = self.normalise.values_mut().filter_map(|normaliser| match normaliser {
            NormaliserConfig::File(path) => Some(path),
            NormaliserConfig::Inline(_) => None,
        });
        let files = files.chain(self.trace.as_mut());
        let files = files.chain(self.transforms.iter_mut().filter_map(Operation::path_mut));
        let files = files.chain(self.fields.iter_mut().filter_map(|(_, field)| field.path_mut()));
        let files = files.chain(self.prepared.as_mut().and_then(PreparedConfig::path_mut));
        let files = files.chain(self.prepare.iter_mut().flat_map(Recipe::paths_mut));
        let files = files.chain(self.mix.paths_mut());
        let (path, named) = match &mut self.source {
            Some(OnlySource::Path(source)) => (Some(&mut source.path), None),
            Some(OnlySource::Named(source)) => (None, Some(source)),
            None => (None, None),
        };
        let sources = self.sources.iter_mut().chain(named);
        sources.flat_map(SourceConfig::paths_mut).chain(path.into_iter().flat_map(Paths::iter_mut)).chain(files)
    }
}
