use std::collections::BTreeMap;
use std::path::Path;

use crate::dataset::{Proceed, ReaderSource, StreamSource, VerifyProgress, VerifyReport, verify_known, verify_source};
use crate::decode::ImageOptions;
use crate::error::Result;
use crate::memory::MemoryBudget;
use crate::read::{
    CsvOptions, CsvSequenceReader, CsvStream, Format, IdxFile, IdxOptions, IdxReader, ImageFolder, ImageLabels,
    Missing, NpyOptions, NpyReader, SequenceOptions, TarOptions, TarReader, TokenCut, detect,
};

use super::{Loader, SourceConfig};

/// Samples that a worker takes at a time, if they are small: enough that taking them costs little.
const SMALL: usize = 256;

/// The same of images and sequences: few enough that all workers are busy to the end.
const LARGE: usize = 8;

/// Reads and decodes every sample of whatever lies at `path`, on `workers` threads: what
/// [`verify_source`](crate::inspect::verify_source) does for a source.
///
/// What is bad, by format:
/// - CSV: a record with another number of fields than the first, or that is not UTF-8. Without a schema no field is bad
///   by itself: text in a column of numbers makes it a column of text. To check values, name the columns in the settings
///   of a loader: [`Loader::verify`]. The file is read once, one record after another.
/// - CSV sequences: a file that can't be read, has another header than the first, or a record with another number of
///   fields. At least one column must hold numbers alone; missing ones are allowed.
/// - NPY: what can't be read, and numbers of `u64` from 2^63 on.
/// - IDX: what can't be read. Of a folder, each file that is damaged; it has no record number.
/// - Images: what does not decode to its last pixel, at full size; a folder that can't be listed, which has no record
///   number.
/// - Tar archives: a sample whose image is missing or does not decode, or whose `cls` is no class.
///
/// Images that libjpeg loads with a warning are not bad: they are counted beside, in [`VerifyReport::damaged`].
///
/// What makes the rest of a CSV file unreadable (a quote that is never closed, a record beyond the limit, damaged gzip
/// data) is [`VerifyReport::ended_by`], beside the bad samples before it; within the first 64 KiB, which tell how the file
/// is laid out, the damage is an error.
///
/// # Errors
///
/// What can't be opened at all: [`detect`]'s errors, and those of the format's reader.
pub fn verify<G: Proceed>(
    path: impl AsRef<Path>,
    workers: usize,
    on_progress: impl Fn(VerifyProgress) -> G + Sync,
) -> Result<VerifyReport> {
    let path = path.as_ref();
    let csv = CsvOptions { missing: Missing::Nan, ..CsvOptions::default() };
    match detect(path)? {
        Format::Csv => {
            let (stream, checker) = CsvStream::open_unchecked(path, &csv)?;
            verify_source(StreamSource::new(stream, checker).batch_size(SMALL), workers, on_progress)
        }
        Format::CsvSequences => {
            let options = SequenceOptions { csv, ..SequenceOptions::default() };
            let (reader, refused) = CsvSequenceReader::open_readable(path, &options)?;
            verify_known(ReaderSource::new(reader).batch_size(LARGE), workers, refused, on_progress)
        }
        Format::Idx => verify_idx(path, workers, on_progress),
        Format::Npy => {
            let reader = NpyReader::open(path, &NpyOptions::default())?;
            verify_source(ReaderSource::new(reader).batch_size(SMALL), workers, on_progress)
        }
        Format::IdxFolder => verify_idx_folder(path, workers, &on_progress),
        Format::Image => {
            let image = ImageFolder::from_paths([path], ImageLabels::None, &ImageOptions::default())?;
            verify_source(ReaderSource::new(image), workers, on_progress)
        }
        Format::ImageFolder => {
            let (images, mut bad) = ImageFolder::detect_readable(path, &ImageOptions::default())?;
            let refused = bad.len() as u64;
            let progress =
                |progress: VerifyProgress| on_progress(VerifyProgress { bad: progress.bad + refused, ..progress });
            let mut report = verify_source(ReaderSource::new(images).batch_size(LARGE), workers, progress)?;
            bad.append(&mut report.bad);
            Ok(VerifyReport { bad_samples: report.bad_samples + refused, bad, ..report })
        }
        Format::Tar => {
            let samples = TarReader::open(path, &TarOptions::default())?;
            verify_source(ReaderSource::new(samples).batch_size(LARGE), workers, on_progress)
        }
    }
}

fn verify_idx<G: Proceed>(
    path: &Path,
    workers: usize,
    on_progress: impl Fn(VerifyProgress) -> G + Sync,
) -> Result<VerifyReport> {
    let reader = IdxReader::open(path, &IdxOptions::default())?;
    verify_source(ReaderSource::new(reader).batch_size(SMALL), workers, on_progress)
}

fn verify_idx_folder<G: Proceed>(
    folder: &Path,
    workers: usize,
    on_progress: &(impl Fn(VerifyProgress) -> G + Sync),
) -> Result<VerifyReport> {
    let mut all = VerifyReport::default();
    for path in IdxFile::paths_in(folder)? {
        let (samples, bad) = (all.samples, all.bad_samples);
        let verified = verify_idx(&path, workers, |progress| {
            on_progress(VerifyProgress { samples: samples + progress.samples, bad: bad + progress.bad, total: None })
        });
        match verified {
            Ok(report) => {
                all.samples += report.samples;
                all.bad_samples += report.bad_samples;
                all.bad.extend(report.bad);
                if report.ended_by.is_some() {
                    all.ended_by = report.ended_by;
                    break;
                }
            }
            Err(error) => {
                all.bad_samples += 1;
                all.bad.push(error);
            }
        }
    }
    Ok(all)
}

impl Loader {
    /// Reads and decodes every sample as these settings say, and lists the bad ones; see
    /// [`verify_source`](crate::inspect::verify_source). Order, subsets, shard, policies and augmentation play no part. A single CSV file is
    /// read one record after another, without an index.
    ///
    /// # Errors
    ///
    /// As [`build`](Self::build): what the readers object to when they are opened, such as a file of sequences that can't
    /// be read at all, or a quote that is never closed where the kinds of columns are inferred, is not listed.
    pub fn verify<G: Proceed>(&self, on_progress: impl Fn(VerifyProgress) -> G + Sync) -> Result<VerifyReport> {
        let budget = self.config.memory.budget_bytes.map_or_else(MemoryBudget::unlimited, MemoryBudget::new);
        let workers = self.config.worker_threads();
        let all = self.resolved()?.every_sample();
        let source = all.transformed(all.read_by(&budget, |_, _| Ok(true))?)?;
        verify_known(source, workers, BTreeMap::new(), on_progress)
    }

    /// The same samples without what would reorder, repeat, leave out or change them.
    fn every_sample(&self) -> Self {
        let mut all = self.clone();
        all.transforms = all.transforms.without_augmentation();
        let config = &mut all.config;
        let is_small = |source: &SourceConfig| {
            use SourceConfig::{Csv, Idx, Npy, Raw, Tokens};
            matches!(source, Csv { .. } | Idx { .. } | Npy { .. } | Raw { .. } | Tokens { .. })
        };
        config.batch_size = if config.sources.iter().all(is_small) { SMALL } else { LARGE };
        config.shuffle = None;
        config.split = None;
        config.folds = None;
        config.class_balanced = false;
        config.samples_per_epoch = None;
        config.shard = Default::default();
        config.last_batch = Default::default();
        config.bad_records = Default::default();
        config.augment.clear();
        config.transforms.retain(|operation| !operation.is_augmentation());
        for source in &mut config.sources {
            match source {
                SourceConfig::Images { options, .. } | SourceConfig::ImageList { options, .. } => {
                    options.augment.clear()
                }
                SourceConfig::Tar { options, .. } => options.images.augment.clear(),
                // Windows side by side hold every token that windows at every place hold.
                SourceConfig::Tokens { options, .. } if options.cut == TokenCut::Random => {
                    options.cut = TokenCut::Contiguous { stride: None };
                }
                _ => {}
            }
        }
        all
    }
}
