//! From settings as they were written to sources, which every tensor comes from.

use crate::error::{Error, ErrorKind, Result};
use crate::storage::Files;

use super::compile::compile;
use super::config::LoaderConfig;
use super::own::Own;

impl LoaderConfig {
    /// The same settings with the format of [`source`](Self::source) detected, and with the [`fields`](Self::fields) as options
    /// of the sources: of the one that there is, and of another one for each field that it can't give with the others.
    ///
    /// # Errors
    ///
    /// As [`for_path`](Self::for_path), and [`ErrorKind::Config`] for fields that the source does not have.
    pub fn resolved(mut self) -> Result<Self> {
        if let Some(source) = self.source.take() {
            self.sources = Self::for_path(source.path)?.sources;
        }
        let fields = std::mem::take(&mut self.fields);
        if !fields.is_empty() {
            let [source] = self.sources.as_slice() else {
                let message = "fields: they are those of one source; there are several";
                return Err(Error::new(ErrorKind::Config, message));
            };
            self.sources = compile(source, &fields)?;
        }
        Ok(self)
    }

    /// Everything that is wrong with the settings, found without opening a file's contents.
    pub fn faults(&self) -> Vec<String> {
        self.faults_among(&Files::local(), None)
    }

    /// As [`faults`](Self::faults); whether files of a storage exist is seen when they are opened.
    pub(super) fn faults_among(&self, files: &Files, own: Option<&Own>) -> Vec<String> {
        let mut faults = self.faults_but_fields(files, own);
        if let ([source], [_, ..]) = (self.sources.as_slice(), self.fields.as_slice())
            && let Err(error) = compile(source, &self.fields)
        {
            faults.push(format!("fields: {error}"));
        }
        faults
    }
}
