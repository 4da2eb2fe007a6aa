use ringfeed::formats::Formats;
use ringfeed::settings::OnlySource;
use ringfeed::storage::{Access, Mapping};
use ringfeed::{Loader, LoaderConfig};

use crate::output::{complain, lossy};
use crate::table::one_line;

/// The loader of these settings, which says what it maps: files must not change meanwhile.
pub(crate) fn loader(config: LoaderConfig, formats: &Formats) -> Loader {
    let only = match &config.source {
        Some(OnlySource::Named(source)) => Some(source),
        _ => None,
    };
    for source in config.sources.iter().chain(only).filter(|source| source.access() != Access::Read) {
        let path = one_line(&lossy(source.path()));
        complain(&format!("{path} is mapped, as the settings ask: do not change or truncate it during the run"));
    }
    // SAFETY: a promise that the command makes for its users, as `numpy.memmap` does for its own, where their settings
    // ask for it and no other way; the documentation of `--config` says what it means.
    let promise = unsafe { Mapping::promise() };
    Loader::from(config).formats(formats.clone()).mapping(promise)
}
