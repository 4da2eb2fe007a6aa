//! Makes a workspace, readers and batches from a loader's settings.

use std::borrow::Cow;
use std::path::Path;
use std::time::Duration;

use crate::dataset::{DataSetIterator, ReaderSource, Source, StreamSource};
use crate::error::{Error, ErrorKind, Result};
use crate::memory::{MemoryBudget, TempFilePages};
use crate::positions::Subset;
use crate::prefetch::{Amount, Workspace, WorkspaceBuilder, shield, wrap};
use crate::read::{RecordReader, Streamed};
use crate::stats::{Trace, serve_metrics};

use super::Loader;
use super::config::{LoaderConfig, MemoryKind};
use super::mix::samples_of_mix;
use super::own::Own;
use super::values::Sides;
use super::weights::Mix;

impl Loader {
    /// A workspace with these settings, which several loaders may share; see [`build_in`](Self::build_in).
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Config`] with every fault of the settings; [`ErrorKind::Device`] or [`ErrorKind::Unsupported`] if
    /// its memory needs a device that is not there.
    pub fn workspace(&self) -> Result<Workspace> {
        self.workspace_builder()?.build()
    }

    /// The builder of [`workspace`](Self::workspace), to change its settings: for example to take memory from a
    /// device's [`pages`](crate::device::Device::pages).
    ///
    /// # Errors
    ///
    /// As [`workspace`](Self::workspace).
    pub fn workspace_builder(&self) -> Result<WorkspaceBuilder> {
        self.check()?;
        let memory = &self.config.memory;
        let mut builder = Workspace::builder()
            .workers(self.config.workers.unwrap_or(Amount::Exactly(self.config.worker_threads())))
            .worker_cores(self.config.worker_cores.iter().copied())
            .worker_nice(self.config.worker_nice)
            .least_prefetch(self.config.prefetch_batches())
            .across_epochs(self.config.across_epochs)
            .overflow(memory.overflow)
            .lease_wait(Duration::from_millis(memory.lease_wait_ms))
            .close_wait(Duration::from_millis(memory.close_wait_ms));
        if let Some(prefetch) = self.config.prefetch {
            builder = builder.prefetch(prefetch);
        }
        if let Some(share) = self.config.worker_share {
            builder = builder.worker_share(share);
        }
        if let Some(limit) = self.config.fetch_limit {
            builder = builder.fetch_limit(limit);
        }
        if let Some(path) = &self.config.trace {
            self.check_unread(path)?;
            builder = builder.trace(Trace::to_file(path)?);
        }
        if let Some(bytes) = memory.budget_bytes {
            builder = builder.budget(MemoryBudget::new(bytes));
        }
        Ok(match &memory.kind {
            MemoryKind::Anonymous => builder,
            MemoryKind::TempFile { limit_bytes, folder } => {
                builder.pages(TempFilePages::new(folder.clone(), *limit_bytes))
            }
            MemoryKind::PageLocked { device } => builder.pages(device.pages()?),
        })
    }

    /// Returns an error if loading reads the trace's file, or would read it once it exists. Writing the trace begins at
    /// once.
    fn check_unread(&self, trace: &Path) -> Result<()> {
        let prepared = self.config.prepared.clone();
        let config = LoaderConfig { prepared, ..self.resolved()?.into_owned().config };
        if !config.would_read_among(&self.files, trace)? {
            return Ok(());
        }
        let message = format!(
            "trace: {} is read with the same settings, or lies in a folder that is read as a whole; write to another file",
            trace.display()
        );
        Err(Error::new(ErrorKind::Config, message))
    }

    /// Opens the sources and makes the iterator, in a workspace of its own. Workers begin to make batches at once,
    /// unless there is a [`shield`](Self::shield).
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Config`] with every fault of the settings; errors of the readers.
    pub fn build(&self) -> Result<Box<dyn DataSetIterator>> {
        self.build_in(&self.workspace()?)
    }

    /// As [`build`](Self::build), in a workspace that is shared with other iterators: training and evaluation in the
    /// same memory. The workspace's own settings apply, not those of this loader.
    ///
    /// # Errors
    ///
    /// As [`build`](Self::build).
    pub fn build_in(&self, workspace: &Workspace) -> Result<Box<dyn DataSetIterator>> {
        self.batches_of(self.source(workspace.budget())?, workspace)
    }

    pub(super) fn batches_of(
        &self,
        source: Box<dyn Source>,
        workspace: &Workspace,
    ) -> Result<Box<dyn DataSetIterator>> {
        let batches = if self.config.shield { wrap(shield(source), workspace) } else { wrap(source, workspace) }?;
        if let Some(address) = self.config.metrics {
            serve_metrics(batches.stats_handle(), address)?;
        }
        Ok(batches)
    }

    /// Opens the readers and combines them into one source. The memory that they hold counts against `budget`.
    ///
    /// # Errors
    ///
    /// As [`build`](Self::build).
    pub fn source(&self, budget: &MemoryBudget) -> Result<Box<dyn Source>> {
        self.transformed(self.read_by(budget, false)?)
    }

    /// Like [`source`](Self::source). A single source that is read in its own order is read as a stream if that is
    /// better. With `every_sample`, nothing is drawn from mixed sources, and a stream is used wherever possible.
    pub(super) fn read_by(&self, budget: &MemoryBudget, every_sample: bool) -> Result<Box<dyn Source>> {
        self.read(budget, every_sample).map_err(|error| self.config.with_key(error))
    }

    /// Like [`read_by`](Self::read_by), but an error about a field does not name its setting.
    pub(super) fn read(&self, budget: &MemoryBudget, every_sample: bool) -> Result<Box<dyn Source>> {
        self.check()?;
        if let Cow::Owned(resolved) = self.resolved()? {
            return resolved.read(budget, every_sample);
        }
        let config = &self.config;
        let stream = match (&self.own, config.sources.as_slice()) {
            (Some(Own::Samples(open)), _) => Some(StreamSource::from_samples(open()?)),
            (None, [source]) if config.is_in_order() && self.keeps.is_empty() => {
                let streamed = source.stream(&self.files, budget, every_sample)?;
                streamed.map(|Streamed { stream, decoder }| StreamSource::new(stream, decoder))
            }
            _ => None,
        };
        if let Some(stream) = stream {
            let source = stream.batch_size(config.batch_size).last_batch(config.last_batch);
            return Ok(Box::new(source.bad_records(config.bad_records)));
        }
        let opened = self.readers(budget)?;
        let (readers, parts) = (self.windowed(opened.all, &opened.sources, budget)?, opened.parts);
        let shortest = readers.iter().map(RecordReader::len).min().unwrap_or(0);
        let sides = Sides { readers: &readers, sources: &opened.sources, budget };
        let subset = self.subset(sides, shortest)?;
        let weights = if every_sample { None } else { self.weights_of(sides, shortest, subset.as_ref())? };
        let mixed = if parts.is_empty() || every_sample { None } else { Some(self.mixed(&parts, subset.as_ref())?) };
        let mut readers = readers.into_iter();
        let first = readers.next().ok_or_else(|| Error::new(ErrorKind::Config, "there is no source"))?;
        let choice = match &mixed {
            Some(mixed) => samples_of_mix(mixed),
            None => subset.as_ref().map_or(shortest, Subset::len),
        };
        let mut source = ReaderSource::new(first)
            .batch_size(config.batch_size)
            .last_batch(config.last_batch)
            .bad_records(config.bad_records)
            .shard(config.shard)
            .remainder(config.remainder);
        for reader in readers {
            source = source.and(reader);
        }
        source = source.in_order_of(config.names_in_order());
        if config.sequences.is_some() {
            source = source.of_one_length();
        }
        if let Some(seed) = config.shuffle {
            source = source.shuffle(seed);
        }
        if let Some(chunks) = config.shuffle_blocks {
            source = source.shuffle_blocks(chunks);
        }
        if let Some(mixed) = mixed {
            source = source.mix(mixed);
        } else if let Some(subset) = subset {
            source = source.subset(subset);
        }
        if config.class_balanced {
            source = source.class_balanced();
        }
        if let Some(weights) = weights {
            source = source.weighted(weights);
        }
        if let Some(samples) = self.samples_per_epoch_of(choice) {
            source = source.samples_per_epoch(samples);
        }
        if let Some(bucket) = &config.bucket {
            source = source.bucket(bucket.clone());
        }
        if config.shorter {
            source = source.shorter();
        }
        Ok(Box::new(source))
    }

    /// Number of samples per epoch, if it differs from `choice`, the number of samples to choose from.
    pub(super) fn samples_per_epoch_of(&self, choice: u64) -> Option<u64> {
        let of_windows = || self.config.sources.iter().find_map(|source| source.samples_per_epoch(choice));
        self.config.samples_per_epoch.or_else(of_windows)
    }

    /// The same with the format of its source detected, and with its fields moved to its sources.
    pub(super) fn resolved(&self) -> Result<Cow<'_, Self>> {
        let config = &self.config;
        let is_named = config.source.is_some() || !config.fields.is_empty() || matches!(config.mix, Mix::Paths(_));
        let config = match (&self.own, &config.prepared) {
            (None, prepared) if is_named || prepared.is_some() || config.connected()?.is_some() => {
                config.clone().resolved_among(&self.formats, &self.files)?
            }
            (Some(_), Some(_)) => config.clone().with_prepared()?,
            _ => return Ok(Cow::Borrowed(self)),
        };
        let resolved = Self { config, ..self.clone() };
        resolved.check()?;
        Ok(Cow::Owned(resolved))
    }
}
