//! Turns settings as they were written into the sources of all tensors.

use crate::error::{Error, ErrorKind, Result};
use crate::read::{Formats, SourceConfig, connect_sources};
use crate::storage::Files;

use super::config::{LoaderConfig, OnlySource};
use super::weights::Mix;

/// Why a fitted recipe and several sources exclude each other.
pub(super) const PREPARED_WITH_SEVERAL: &str = "prepared: there are several sources, and a recipe's columns are those of one; use the table as the only source (its \
     fields may name files of pictures or sounds), or leave the recipe out";

impl LoaderConfig {
    /// These settings with the format of [`source`](Self::source) detected, and with [`fields`](Self::fields) as the
    /// fields of the only source.
    ///
    /// # Errors
    ///
    /// As [`for_path`](Self::for_path), and [`ErrorKind::Config`] if there are several sources.
    pub fn resolved(self) -> Result<Self> {
        self.resolved_with(&Formats::new())
    }

    /// As [`resolved`](Self::resolved), with these formats.
    ///
    /// # Errors
    ///
    /// As [`resolved`](Self::resolved).
    pub fn resolved_with(self, formats: &Formats) -> Result<Self> {
        self.resolved_among(formats, &Files::local())
    }

    /// Like [`resolved_with`](Self::resolved_with), for data among these files.
    pub(super) fn resolved_among(mut self, formats: &Formats, files: &Files) -> Result<Self> {
        self = self.with_only();
        if let Some(OnlySource::Path(source)) = self.source.take() {
            self.sources = formats.detect_all_in(files, &source.path)?;
        }
        self = self.with_mixed(formats, files)?;
        if self.prepared.is_some() && self.sources.len() > 1 && self.mix.is_empty() {
            return Err(Error::new(ErrorKind::Config, PREPARED_WITH_SEVERAL));
        }
        let mut named = self.with_prepared()?;
        let fields = std::mem::take(&mut named.fields);
        if !fields.is_empty() {
            if named.sources.is_empty() {
                let message = "sources: the list is empty; name at least one";
                return Err(Error::new(ErrorKind::Config, message));
            }
            if named.sources.len() != 1 && named.mix.is_empty() {
                let message = "fields: there are several sources; give each source its own fields";
                return Err(Error::new(ErrorKind::Config, message));
            }
            for source in &mut named.sources {
                source.fields.splice(0..0, fields.iter().cloned());
            }
        }
        if let Some(sources) = named.connected()? {
            named.sources = sources;
        }
        Ok(named)
    }

    /// The sources, if maps of one go with pictures of another.
    pub(super) fn connected(&self) -> Result<Option<Vec<SourceConfig>>> {
        if self.sources.len() < 2 || !self.mix.is_empty() {
            return Ok(None);
        }
        let mut sources = self.sources.clone();
        let mut fields: Vec<_> = sources.iter_mut().map(|source| &mut source.fields).collect();
        let has_changed = connect_sources(&mut fields)?;
        Ok(has_changed.then_some(sources))
    }

    /// The same with its only source moved to the [sources](Self::sources), if the format is named.
    pub(super) fn with_only(mut self) -> Self {
        match self.source.take() {
            Some(OnlySource::Named(source)) if self.sources.is_empty() => self.sources.push(source),
            other => self.source = other,
        }
        self
    }

    /// The same with the paths of a [mix](Self::mix) as its sources.
    fn with_mixed(mut self, formats: &Formats, files: &Files) -> Result<Self> {
        let Mix::Paths(paths) = &self.mix else { return Ok(self) };
        for (path, _) in paths {
            match formats.detect_in(files, path)?.as_slice() {
                [source] => self.sources.push(source.clone()),
                _ => {
                    let message = "is several sources, whose tensors stand side by side; name the path of one of them";
                    return Err(Error::new(ErrorKind::Config, message).at_path(path).at_column("mix"));
                }
            }
        }
        self.mix = Mix::Weights(self.mix.weights().collect());
        Ok(self)
    }
}
