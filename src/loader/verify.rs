use std::collections::BTreeMap;
use std::path::Path;

use crate::dataset::{Proceed, ReaderSource, StreamSource, VerifiedPart, VerifyProgress, VerifyReport, verify_known};
use crate::error::{Error, ErrorKind, Result};
use crate::memory::MemoryBudget;
use crate::read::format::{Checked, batch_size};
use crate::read::{Check, Checks, Formats, SourceConfig, Streamed};
use crate::storage::Files;

use super::Loader;

/// Reads and decodes every sample of the file or folder at `path`, on `workers` threads, as
/// [`verify_source`](crate::inspect::verify_source) does for a source.
///
/// Bad samples, by format:
/// - CSV: a record with another number of fields than the first, or that is not UTF-8. Without a schema no single field
///   is bad: text in a column of numbers makes it a column of text. To check values, name the columns in the settings
///   of a loader and call [`Loader::verify`]. The file is read once, one record after another.
/// - CSV sequences: a file that can't be read, has another header than the first, or a record with another number of
///   fields. At least one column must hold only numbers or missing values.
/// - NPY: records that can't be read, and `u64` numbers from 2^63 on.
/// - IDX: records that can't be read. In a folder, each damaged file, without a record number.
/// - Images: files that can't be decoded to the last pixel, at full size; a folder that can't be listed, without a
///   record number.
/// - Tar archives: a sample whose image is missing or does not decode, or whose `cls` is no class.
///
/// Images that libjpeg loads with a warning are not bad: they are counted in [`VerifyReport::damaged`].
///
/// Damage that makes the rest of a CSV file unreadable (a quote that is never closed, a record beyond the limit,
/// damaged gzip data) is in [`VerifyReport::ended_by`], next to the bad samples before it. Within the first 64 KiB,
/// from which delimiter and header are detected, such damage is an error.
///
/// If several files are read as one, such as those of a pattern, a file that can't be opened or read to its end is
/// listed in [`VerifyReport::bad`]. The other files are still read.
///
/// # Errors
///
/// If the path can't be opened, or none of several files can: the errors of [`Formats::detect`], and those of the
/// format's reader. For several files, [`ErrorKind::Schema`] if their records do not have the same fields.
pub fn verify<G: Proceed>(
    path: impl AsRef<Path>,
    workers: usize,
    on_progress: impl Fn(VerifyProgress) -> G + Sync,
) -> Result<VerifyReport> {
    verify_with(path, &Formats::new(), workers, on_progress)
}

/// As [`verify`], with these formats.
///
/// # Errors
///
/// As [`verify`].
pub fn verify_with<G: Proceed>(
    path: impl AsRef<Path>,
    formats: &Formats,
    workers: usize,
    on_progress: impl Fn(VerifyProgress) -> G + Sync,
) -> Result<VerifyReport> {
    let whole = formats.whole(path)?;
    let sources = whole.each(&Files::local())?;
    if sources.len() > 1 {
        // Files may be right one by one without being a data set.
        match whole.open_values(&Files::local(), &MemoryBudget::unlimited()) {
            Err(error) if error.kind() == ErrorKind::Schema => return Err(error),
            _ => {}
        }
    }
    let is_table = sources.iter().any(|source| source.infers_types());
    let checked = if is_table { VerifiedPart::Form } else { VerifiedPart::Values };
    let mut all = VerifyReport { checked, ..VerifyReport::default() };
    for source in &sources {
        let checked = verify_file(source, workers, sources.len() == 1, &mut all, &on_progress);
        match (checked, all.ended_by.take()) {
            (Err(error), _) if sources.len() == 1 => return Err(error),
            (Err(error), _) => all.add(one_bad(error, source)),
            (Ok(()), Some(error)) if sources.len() == 1 || error.kind() == ErrorKind::Interrupted => {
                all.ended_by = Some(error);
                break;
            }
            (Ok(()), Some(error)) => all.add(one_bad(error, source)),
            (Ok(()), None) => {}
        }
    }
    Ok(all)
}

/// The report on one of several files that can't be opened or read to its end.
fn one_bad(error: Error, file: &SourceConfig) -> VerifyReport {
    let error = if error.path().is_some() { error } else { error.at_path(file.path()) };
    VerifyReport { bad_samples: 1, bad: vec![error], ..VerifyReport::default() }
}

/// Adds the bad samples of a file to `all`.
fn verify_file<G: Proceed>(
    file: &SourceConfig,
    workers: usize,
    is_alone: bool,
    all: &mut VerifyReport,
    on_progress: &(impl Fn(VerifyProgress) -> G + Sync),
) -> Result<()> {
    let Checks { parts, refused } = file.checks(&Files::local(), &MemoryBudget::unlimited())?;
    all.add(VerifyReport { bad_samples: refused.len() as u64, bad: refused, ..VerifyReport::default() });
    let is_single = is_alone && parts.len() == 1;
    verify_parts(parts, workers, is_single, all, on_progress)
}

/// Adds the bad samples in the parts of a file to `all`.
fn verify_parts<G: Proceed>(
    parts: Vec<Check>,
    workers: usize,
    is_single: bool,
    all: &mut VerifyReport,
    on_progress: &(impl Fn(VerifyProgress) -> G + Sync),
) -> Result<()> {
    for Check { records, known, batch_size } in parts {
        let (samples, bad) = (all.samples, all.bad_samples);
        let on_progress = |progress: VerifyProgress| {
            let total = progress.total.filter(|_| is_single);
            on_progress(VerifyProgress { samples: samples + progress.samples, bad: bad + progress.bad, total })
        };
        let report = match records {
            Checked::Reader(reader) => {
                verify_known(ReaderSource::new(reader).batch_size(batch_size), workers, known, on_progress)?
            }
            Checked::Stream(Streamed { stream, decoder }) => {
                verify_known(StreamSource::new(stream, decoder).batch_size(batch_size), workers, known, on_progress)?
            }
        };
        all.add(report);
        if all.ended_by.is_some() {
            break;
        }
    }
    Ok(())
}

impl Loader {
    /// Reads and decodes every sample according to these settings, and lists the bad ones; see
    /// [`verify_source`](crate::inspect::verify_source). Order, subsets, shard, policies and augmentation are ignored, but
    /// settings by which a loader would not open are errors, such as a filter by a field that is not there.
    /// With windows, single records are checked, without the transforms, which work on windows. A single CSV file is read
    /// one record after another, without an index.
    ///
    /// # Errors
    ///
    /// As [`build`](Self::build). Faults that the readers find when they are opened are errors, and are not listed.
    /// Examples are a file of sequences that can't be read at all, or a quote that is never closed where column types
    /// are inferred.
    pub fn verify<G: Proceed>(&self, on_progress: impl Fn(VerifyProgress) -> G + Sync) -> Result<VerifyReport> {
        let budget = self.config.memory.budget_bytes.map_or_else(MemoryBudget::unlimited, MemoryBudget::new);
        let workers = self.config.worker_threads();
        if self.config.chooses_by_fields() {
            match self.plan() {
                Err(error) if matches!(error.kind(), ErrorKind::Config | ErrorKind::NotFound | ErrorKind::Schema) => {
                    return Err(error);
                }
                // Records that are bad are found below.
                _ => {}
            }
        }
        let all = self.resolved()?.every_sample();
        let read = all.read(&budget, true).map_err(|error| self.config.with_key(error))?;
        let source = all.transformed(read)?;
        verify_known(source, workers, BTreeMap::new(), on_progress)
    }

    /// The same samples, without anything that reorders, repeats, drops or changes them.
    fn every_sample(&self) -> Self {
        let mut all = self.clone();
        all.keeps.clear();
        all.transforms = all.transforms.without_augmentation();
        let config = &mut all.config;
        config.batch_size = batch_size(config.sources.iter().all(SourceConfig::has_small_samples));
        (config.shuffle, config.shuffle_blocks) = (None, None);
        config.split = None;
        config.folds = None;
        (config.filter, config.stratify, config.group) = (None, None, None);
        (config.class_balanced, config.weight_by) = (false, None);
        config.bucket = None;
        if config.consists_of_several() {
            (config.windows, config.sequences) = (None, None);
            // They work on whole samples.
            all.transforms = Default::default();
            config.transforms.clear();
            config.normalise.clear();
        }
        config.samples_per_epoch = None;
        config.shard = Default::default();
        config.last_batch = Default::default();
        config.bad_records = Default::default();
        config.augment.clear();
        config.transforms.retain(|operation| !operation.is_augmentation());
        config.sources.iter_mut().for_each(SourceConfig::make_plain);
        all
    }
}
