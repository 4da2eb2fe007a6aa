use std::collections::HashMap;
use std::path::{Path, PathBuf};

use ringfeed::formats::Formats;
use ringfeed::settings::{Mix, OnlySource, Paths, SourceConfig};
use ringfeed::{Error, ErrorKind, LoaderConfig, Result};

use crate::written;

/// Whether the settings say what tensors there are.
pub(crate) fn has_fields(config: &LoaderConfig) -> bool {
    !config.fields.is_empty() || config.prepared.is_some()
}

/// The settings of a file with PATH in place of its only source's, or with what lies there if it names none: without
/// fields, with the sources that `plain` gives.
pub(crate) fn at_path(
    mut config: LoaderConfig,
    path: Option<&Path>,
    formats: &Formats,
    plain: impl FnOnce(&Path) -> Result<Vec<SourceConfig>>,
) -> Result<LoaderConfig> {
    let Some(path) = path else { return resolved(config, formats) };
    let has_fields = has_fields(&config);
    match (&mut config.source, config.sources.as_mut_slice()) {
        (Some(OnlySource::Path(source)), []) => source.path = path.into(),
        (Some(OnlySource::Named(source)), []) => source.set_paths(path),
        (None, [source]) => source.set_paths(path),
        (None, []) if config.mix.is_empty() => {
            config.sources =
                if has_fields { LoaderConfig::for_path_with(path, formats)?.sources } else { plain(path)? };
        }
        _ => find_in(path, &mut config, formats)?,
    }
    // Without a source, there is nothing that fields could be of.
    let is_empty = config.source.is_none() && config.sources.is_empty() && config.mix.is_empty();
    if is_empty { Ok(config) } else { resolved(config, formats) }
}

/// The settings with their formats detected, and with the names of files that they are read with: what was fitted is
/// still in its own.
fn resolved(mut config: LoaderConfig, formats: &Formats) -> Result<LoaderConfig> {
    let (prepared, prepare) = (config.prepared.take(), config.prepare.take());
    Ok(LoaderConfig { prepared, prepare, ..config.resolved_with(formats)? })
}

/// Several sources have paths of their own; those that are not there are looked for in `folder` by their names.
fn find_in(folder: &Path, config: &mut LoaderConfig, formats: &Formats) -> Result<()> {
    if !folder.is_dir() {
        let message = "the --config file has several sources, so PATH may only be the folder that holds them";
        return Err(Error::new(ErrorKind::Config, message).at_path(folder));
    }
    // By where each is: its path in the settings, and whether it was moved to the folder.
    let mut places: HashMap<PathBuf, (PathBuf, bool)> = HashMap::new();
    let mut found = |path: &Path| -> Result<PathBuf> {
        let (own, is_moved) = match path.file_name() {
            Some(name) if !is_there(path, formats) => (folder.join(name), true),
            _ => (path.to_owned(), false),
        };
        match places.insert(written::place(&own), (path.to_owned(), is_moved)) {
            Some((other, other_is_moved)) if other != path && (is_moved || other_is_moved) => {
                let message = format!(
                    "{} and {} of the --config file would both be this one; correct these paths, or give the files different names",
                    other.display(),
                    path.display()
                );
                Err(Error::new(ErrorKind::Config, message).at_path(own))
            }
            _ => Ok(own),
        }
    };
    if let Mix::Paths(paths) = &mut config.mix {
        paths.iter_mut().try_for_each(|(path, _)| found(path).map(|own| *path = own))?;
    }
    for source in &mut config.sources {
        source.set_paths(source.paths().iter().map(&mut found).collect::<Result<Paths>>()?);
    }
    Ok(())
}

/// Whether there is a file or folder at a path, or any for a pattern.
fn is_there(path: &Path, formats: &Formats) -> bool {
    let is_pattern = || path.to_str().is_some_and(|text| text.contains(['*', '?', '[', '{']));
    path.exists() || is_pattern() && !matches!(formats.whole(path), Err(error) if error.kind() == ErrorKind::NotFound)
}
