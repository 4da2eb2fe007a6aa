//! Settings in files: read, checked as far as a file can be, and written.

use std::path::{Path, PathBuf};

use crate::error::{Error, ErrorKind, Result};
use crate::files;
use crate::normalise::NormaliserConfig;
use crate::prepare::{PreparedConfig, Recipe};
use crate::read::format::with_formats;
use crate::read::{Formats, Paths, SourceConfig};
use crate::transform::Operation;

use super::config::{LoaderConfig, OnlySource};
use super::settings::{self, Language};

/// Most bytes of a file of settings: enough for lists of some hundred thousand names.
const MAX_SETTINGS_BYTES: u64 = 16 << 20;

impl LoaderConfig {
    /// Writes these settings as TOML, or as JSON where the name ends so, with every path as it is from the root.
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
            true => serde_json::to_string_pretty(&config).map_err(|error| error.to_string()),
            false => toml::to_string(&config).map_err(|error| error.to_string()),
        };
        let text = text.map_err(|error| {
            Error::new(ErrorKind::Config, format!("these settings can't be written: {error}")).at_path(path)
        })?;
        files::write_whole(path, &[text.as_bytes()]).map_err(|error| Error::io(path, error))
    }

    /// Reads settings from a `.json` or `.toml` file. Relative paths in it are taken from the file's own folder.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::NotFound`](crate::ErrorKind::NotFound) with the nearest name; [`ErrorKind::Config`](crate::ErrorKind::Config), with the line,
    /// for what is no such setting, and for values that are wrong whatever the other settings are.
    pub fn load(path: impl AsRef<Path>) -> Result<Self> {
        Self::load_with(path, &Formats::new())
    }

    /// As [`load`](Self::load); sources may be of these formats.
    ///
    /// # Errors
    ///
    /// As [`load`](Self::load).
    pub fn load_with(path: impl AsRef<Path>, formats: &Formats) -> Result<Self> {
        let path = path.as_ref();
        let text = files::read_text(path, "a file of settings", MAX_SETTINGS_BYTES)?;
        let is_json = path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("json"));
        let language = if is_json { Language::Json } else { Language::Toml };
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

    /// The settings that a text of JSON says, in the same language as a file: what stands short there may stand short here.
    /// Relative paths are taken from the current folder.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Config`](crate::ErrorKind::Config) for what is no such setting, with the key, what is allowed there, and the line.
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
        let (path, named) = match &mut self.source {
            Some(OnlySource::Path(source)) => (Some(&mut source.path), None),
            Some(OnlySource::Named(source)) => (None, Some(source)),
            None => (None, None),
        };
        let sources = self.sources.iter_mut().chain(named);
        sources.flat_map(SourceConfig::paths_mut).chain(path.into_iter().flat_map(Paths::iter_mut)).chain(files)
    }
}
