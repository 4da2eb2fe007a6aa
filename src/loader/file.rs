//! Settings in files: reading and writing them, and the checks that need nothing but the file.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use crate::error::{Error, ErrorKind, Result};
use crate::files;
use crate::normalise::NormaliserConfig;
use crate::prepare::{PreparedConfig, Recipe};
use crate::read::format::with_formats;
use crate::read::{Formats, Paths, SavedIndex, SourceConfig, is_at, is_below, places};
use crate::storage::Files;
use crate::transform::Operation;
use crate::tree::any;

use super::config::{LoaderConfig, MemoryKind, OnlySource};
use super::settings::{self, Language};

/// Most bytes of a settings file: enough for lists of some hundred thousand names.
const MAX_SETTINGS_BYTES: u64 = 16 << 20;

fn language_of(path: &Path) -> Language {
    let is_json = path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("json"));
    if is_json { Language::Json } else { Language::Toml }
}

/// The error for a file of settings that looks like data.
fn for_data(error: Error) -> Error {
    let hint = "settings belong here, and data is given to `open`, or to the command as its PATH";
    let message = format!("{}; {hint}", error.message());
    error.with_message(message)
}

impl LoaderConfig {
    /// Writes these settings as TOML, or as JSON if the name ends in `.json`, with absolute paths.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Io`](crate::ErrorKind::Io) if the file can't be written,
    /// [`ErrorKind::Config`](crate::ErrorKind::Config) if the name of a file in the settings is not UTF-8.
    pub fn save(&self, path: impl AsRef<Path>) -> Result<()> {
        let path = path.as_ref();
        let mut config = self.clone();
        config.change_paths(|own| {
            *own = std::path::absolute(&*own).map_err(|error| Error::io(&*own, error))?;
            if own.to_str().is_none() {
                let message = format!(
                    "these settings can't be written, because the path {own:?} is not UTF-8; rename the file or its folder"
                );
                return Err(Error::new(ErrorKind::Config, message).at_path(path));
            }
            Ok(())
        })?;
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
    /// [`ErrorKind::Config`](crate::ErrorKind::Config), with the line, for a setting that does not exist, and for a
    /// value that is wrong regardless of the other settings.
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
        let text =
            files::read_text(path, "a file of settings", MAX_SETTINGS_BYTES).map_err(|error| match error.kind() {
                ErrorKind::Format | ErrorKind::Limit => for_data(error),
                _ => error,
            })?;
        let language = language_of(path);
        let parsed = with_formats(formats, || settings::parse(&text, language));
        let checked = parsed.and_then(|config: Self| {
            settings::no_faults_in(&text, language, config.value_faults())?;
            Ok(config)
        });
        let mut config = checked.map_err(|error| {
            let is_named_toml = path.extension().is_some_and(|ending| ending.eq_ignore_ascii_case("toml"));
            let may_be_data = error.message().starts_with(settings::NOT_TOML) && !is_named_toml;
            (if may_be_data { for_data(error) } else { error }).at_path(path)
        })?;
        if let Some(folder) = path.parent() {
            config.change_paths(|path| {
                *path = folder.join(&*path);
                Ok(())
            })?;
        }
        Ok(config)
    }

    /// Adds the location to an error in settings that were read from the file at `path`: that path, and the line of the
    /// setting that the error names. An error in another file keeps that location; if its message begins with the key
    /// of a field, the line of that setting is added to the message.
    #[must_use]
    pub fn locate(error: Error, path: impl AsRef<Path>) -> Error {
        let path = path.as_ref();
        let key = error.message().split_once(": ").map_or("", |(key, _)| key);
        if error.kind() == ErrorKind::NotFound && key.contains("fields.") {
            let text = files::read_text(path, "a file of settings", MAX_SETTINGS_BYTES).unwrap_or_default();
            // Fields of the whole move to the sources when these are opened.
            let field = &key[key.find("fields.").unwrap_or_default()..];
            let keys = ["", "source.", "sources[0]."].map(|source| format!("{source}{field}"));
            let line = |key: &str| settings::line_of(&text, language_of(path), key);
            let mut found = std::iter::once(key).chain(keys.iter().map(String::as_str));
            let Some((own, line)) = found.find_map(|key| Some((key, line(key)?))) else { return error };
            let message = format!("{own}{} (line {line} of {})", &error.message()[key.len()..], path.display());
            return error.with_message(message);
        }
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

    /// Whether loading with these settings reads this file: as one of the sources, which may be a folder or a pattern,
    /// or for a field, a normaliser or the recipe. If a folder is read as a whole, such as one of MDS or LitData, every
    /// file in it counts as read. Files that [`trace`](Self::trace) and saved indexes write do not count, and neither
    /// do files that do not exist. Files that are only named in records are not checked, nor are the targets of links
    /// in a folder.
    ///
    /// ```
    /// use ringfeed::LoaderConfig;
    ///
    /// let config = LoaderConfig::for_path("fixtures/iris.csv")?;
    /// assert!(config.reads("fixtures/../fixtures/iris.csv") && !config.reads("fixtures/iris-species.csv"));
    /// # Ok::<(), ringfeed::Error>(())
    /// ```
    pub fn reads(&self, file: impl AsRef<Path>) -> bool {
        self.reads_among(&Files::local(), file.as_ref())
    }

    /// As [`reads`](Self::reads), but for a file that may not exist yet. In that case, this creates an empty file,
    /// checks, and removes the file again.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Io`](crate::ErrorKind::Io) if the file can't be made.
    pub fn would_read(&self, file: impl AsRef<Path>) -> Result<bool> {
        self.would_read_among(&Files::local(), file.as_ref())
    }

    /// As [`would_read`](Self::would_read), where the sources are among these files.
    pub(super) fn would_read_among(&self, files: &Files, file: &Path) -> Result<bool> {
        match File::create_new(file) {
            Ok(_) => {
                let is_read = self.reads_among(files, file);
                fs::remove_file(file).map_err(|error| Error::io(file, error))?;
                Ok(is_read)
            }
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(self.reads_among(files, file)),
            Err(error) => Err(Error::io(file, error)),
        }
    }

    fn reads_among(&self, files: &Files, file: &Path) -> bool {
        let mut config = self.clone();
        let mut is_read = |file: &Path| {
            config.beside_mut().any(|own| is_at(own, file))
                || config.sources_mut().any(|source| source.reads(files, file))
                // Of a path whose format is not known yet, everything may be read.
                || files.are_local() && config.only_paths_mut().any(|path| is_below(files, path, file))
        };
        file.exists() && places(file).iter().any(|place| is_read(place))
    }

    /// Changes each path among the settings.
    fn change_paths(&mut self, mut change: impl FnMut(&mut PathBuf) -> Result<()>) -> Result<()> {
        self.sources_mut().flat_map(SourceConfig::paths_mut).try_for_each(&mut change)?;
        self.only_paths_mut().try_for_each(&mut change)?;
        self.beside_mut().try_for_each(&mut change)?;
        self.written_mut().try_for_each(change)
    }

    /// The sources whose format is named.
    pub(super) fn sources_mut(&mut self) -> impl Iterator<Item = &mut SourceConfig> {
        named_mut(&mut self.sources, &mut self.source)
    }

    /// The paths of sources whose format is not known yet.
    fn only_paths_mut(&mut self) -> impl Iterator<Item = &mut PathBuf> {
        let only = match &mut self.source {
            Some(OnlySource::Path(source)) => Some(&mut source.path),
            _ => None,
        };
        only.into_iter().flat_map(Paths::iter_mut).chain(self.mix.paths_mut())
    }

    /// The files that are read beside the sources.
    fn beside_mut(&mut self) -> impl Iterator<Item = &mut PathBuf> {
        let files = self.normalise.values_mut().filter_map(|normaliser| match normaliser {
            NormaliserConfig::File(path) => Some(path),
            NormaliserConfig::Inline(_) => None,
        });
        let files = files.chain(self.transforms.iter_mut().filter_map(Operation::path_mut));
        let files = files.chain(self.fields.iter_mut().filter_map(|(_, field)| field.path_mut()));
        let files = files.chain(self.prepared.as_mut().and_then(PreparedConfig::path_mut));
        files.chain(self.prepare.iter_mut().flat_map(Recipe::paths_mut))
    }

    /// The files, and the folders for files, that are written.
    fn written_mut(&mut self) -> impl Iterator<Item = &mut PathBuf> {
        let folder = match &mut self.memory.kind {
            MemoryKind::TempFile { folder, .. } => folder.as_mut(),
            _ => None,
        };
        let saved = named_mut(&mut self.sources, &mut self.source).filter_map(SourceConfig::saved_index_mut);
        let folders = saved.filter_map(|saved| match saved {
            SavedIndex::In(folder) => Some(folder),
            _ => None,
        });
        self.trace.as_mut().into_iter().chain(folder).chain(folders)
    }
}

fn named_mut<'s>(
    sources: &'s mut [SourceConfig],
    only: &'s mut Option<OnlySource>,
) -> impl Iterator<Item = &'s mut SourceConfig> {
    let named = match only {
        Some(OnlySource::Named(source)) => Some(source),
        _ => None,
    };
    sources.iter_mut().chain(named)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn every_relative_path_begins_at_the_folder_of_the_settings() {
        let folder = tempfile::tempdir().unwrap();
        let settings = folder.path().join("loader.toml");
        let text = "trace = \"run.json\"\nmemory.kind = { temp_file = { limit_bytes = 1, folder = \"scratch\" } }\n\
                    normalise.x = \"scale.json\"\n[source]\nformat = \"csv\"\npath = \"x.csv\"\n\
                    options = { saved_index = { in = \"idx\" } }\n";
        fs::write(&settings, text).unwrap();
        let config = LoaderConfig::load(&settings).unwrap();
        let mut own = config.clone();
        let mut found = Vec::new();
        own.change_paths(|path| {
            found.push(path.clone());
            Ok(())
        })
        .unwrap();
        assert_eq!(found, ["x.csv", "scale.json", "run.json", "scratch", "idx"].map(|name| folder.path().join(name)));
        let copy = folder.path().join("copy.json");
        config.save(&copy).unwrap();
        assert_eq!(LoaderConfig::load(&copy).unwrap(), config);
    }

    #[test]
    fn data_in_place_of_settings_is_told_where_it_belongs() {
        let folder = tempfile::tempdir().unwrap();
        let told = |name: &str, bytes: &[u8]| {
            let path = folder.path().join(name);
            if !bytes.is_empty() {
                fs::write(&path, bytes).unwrap();
            }
            LoaderConfig::load(path).unwrap_err().message().contains("data is given to `open`")
        };
        assert!(told("", b"") && told("table.csv", b"a,b\n1,2\n") && told("photo.toml", b"\xff\xd8\xff"));
        assert!(!told("missing", b"") && !told("train.cfg", b"batch_sise = 8\n") && !told("train.TOML", b"a,b\n"));
    }

    #[test]
    fn what_is_read_is_found_behind_patterns_folders_and_links() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        fs::create_dir(path("data")).unwrap();
        for name in ["data/a.csv", "data/b.csv", "data/run.json", "c.csv", "scale.json"] {
            fs::write(path(name), "x\n1\n").unwrap();
        }
        let config = |text: &str| {
            fs::write(path("loader.toml"), text).unwrap();
            LoaderConfig::load(path("loader.toml")).unwrap()
        };
        let named = config("[[sources]]\nformat = \"csv\"\npath = \"data\"\n[normalise]\nx = \"scale.json\"\n");
        let read = ["data/a.csv", "data/../data/b.csv", "scale.json"];
        assert!(read.iter().all(|name| named.reads(path(name))));
        assert!(["data/run.json", "c.csv", "data/new.csv", "data"].iter().all(|name| !named.reads(path(name))));
        for source in ["source = \"data/*.csv\"", "source = [\"c.csv\", \"data/{a,b}.csv\"]", "mix = { data = 1.0 }"] {
            assert!(config(source).reads(path("data/a.csv")), "{source}");
        }
        assert!(!config("source = \"data/a*.csv\"\ntrace = \"c.csv\"\n").reads(path("c.csv")));
        #[cfg(unix)]
        {
            std::os::unix::fs::symlink(path("data/a.csv"), path("link.csv")).unwrap();
            assert!(named.reads(path("link.csv")));
            // By its own name, wherever it leads.
            fs::write(path("blob"), "").unwrap();
            std::os::unix::fs::symlink(path("blob"), path("data/linked.csv")).unwrap();
            let folder = config("[[sources]]\nformat = \"csv_sequences\"\npath = \"data\"\n");
            assert!(folder.reads(path("data/linked.csv")) && !folder.reads(path("blob")));
        }
    }

    #[test]
    fn what_would_be_read_is_told_without_leaving_it_behind() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        fs::write(path("a.csv"), "x\n1\n").unwrap();
        let config: LoaderConfig = LoaderConfig::for_path(path("*.csv")).unwrap();
        let would = ["a.csv", "b.csv", "b.json"].map(|name| config.would_read(path(name)).unwrap());
        assert_eq!(would, [true, true, false]);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
        assert_eq!(config.would_read(path("missing/b.csv")).unwrap_err().kind(), ErrorKind::NotFound);
    }
}
