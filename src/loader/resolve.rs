//! From settings as they were written to sources, which every tensor comes from.

use crate::error::{Error, ErrorKind, Result};
use crate::read::Formats;
use crate::storage::Files;

use super::config::{LoaderConfig, OnlySource};

impl LoaderConfig {
    /// The same settings with the format of [`source`](Self::source) detected, and with the [`fields`](Self::fields) as those of
    /// the only source.
    ///
    /// # Errors
    ///
    /// As [`for_path`](Self::for_path), and [`ErrorKind::Config`] if there are several sources.
    pub fn resolved(self) -> Result<Self> {
        self.resolved_with(&Formats::new())
    }

    /// As [`resolved`](Self::resolved), among these formats.
    ///
    /// # Errors
    ///
    /// As [`resolved`](Self::resolved).
    pub fn resolved_with(self, formats: &Formats) -> Result<Self> {
        self.resolved_among(formats, &Files::local())
    }

    /// As [`resolved_with`](Self::resolved_with), of what lies among these files.
    pub(super) fn resolved_among(mut self, formats: &Formats, files: &Files) -> Result<Self> {
        self = self.with_only();
        if let Some(OnlySource::Path(source)) = self.source.take() {
            self.sources = formats.detect_all_in(files, &source.path)?;
        }
        let mut named = self.with_prepared()?;
        let fields = std::mem::take(&mut named.fields);
        if !fields.is_empty() {
            if named.sources.len() != 1 && named.mix.is_empty() {
                let message = "fields: they are those of one source; there are several";
                return Err(Error::new(ErrorKind::Config, message));
            }
            named.sources.iter_mut().for_each(|source| source.fields.clone_from(&fields));
        }
        Ok(named)
    }

    /// The same with an only source among the [sources](Self::sources), if its format is named.
    pub(super) fn with_only(mut self) -> Self {
        match self.source.take() {
            Some(OnlySource::Named(source)) if self.sources.is_empty() => self.sources.push(source),
            other => self.source = other,
        }
        self
    }

    /// The same with what was [prepared](Self::prepared) as the first of the fields.
    pub(super) fn with_prepared(mut self) -> Result<Self> {
        if let Some(prepared) = self.prepared.take() {
            self.prepare = None;
            let prepared = prepared.load()?;
            self.fields.insert(0, (prepared.tensors()[0].name.clone(), prepared.field()));
        }
        Ok(self)
    }
}
