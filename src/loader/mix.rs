//! Several sources as one, with samples drawn in proportion to weights.

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::error::{Error, ErrorKind, Result};
use crate::memory::MemoryBudget;
use crate::positions::Subset;
use crate::read::{Concat, RecordReader, SourceConfig};

use super::Loader;
use super::config::LoaderConfig;
use super::own::Own;
use super::weights::Mix;

/// Readers whose tensors are combined into samples, and, if sources are mixed, which samples belong to which source.
pub(super) struct Readers {
    pub(super) all: Vec<Arc<dyn RecordReader>>,
    /// The number of the source of each.
    pub(super) sources: Vec<usize>,
    pub(super) parts: Vec<Range<u64>>,
}

/// Brings the readers of each source into the order in which those of the first one give the same tensors.
///
/// # Errors
///
/// [`ErrorKind::Schema`] for a source whose tensors come from more readers, or from fewer.
fn pair(opened: &mut [Vec<Arc<dyn RecordReader>>], sources: &[SourceConfig]) -> Result<()> {
    let Some((first, others)) = opened.split_first_mut() else { return Ok(()) };
    let names = |reader: &Arc<dyn RecordReader>| -> Vec<String> {
        reader.tensors().iter().map(|spec| spec.name.clone()).collect()
    };
    for (readers, source) in others.iter_mut().zip(&sources[1..]) {
        if readers.len() != first.len() {
            let message = format!(
                "{} reads these fields in {} parts, but {} in {}, as columns apart from sounds, tokens and files; mix sources \
                 of one format",
                source.format(),
                readers.len(),
                sources[0].format(),
                first.len()
            );
            return Err(Error::new(ErrorKind::Schema, message).at_path(source.path()));
        }
        for (nth, wanted) in first.iter().map(names).enumerate() {
            if let Some(place) = (nth..readers.len()).find(|place| names(&readers[*place]) == wanted) {
                readers.swap(nth, place);
            }
        }
    }
    Ok(())
}

/// Number of samples of all sources that are drawn from.
pub(super) fn samples_of_mix(mixed: &[(Subset, f64)]) -> u64 {
    mixed.iter().filter(|(_, weight)| *weight > 0.0).map(|(part, _)| part.len()).sum()
}

impl Loader {
    /// Loads several paths, detects the format of each, and draws their samples in proportion to weights; see
    /// [`ReaderSource::mix`](crate::source::ReaderSource::mix). All sources must give the same tensors, from one list
    /// of fields. If class names would be found in the data, list them in the field. Filters, splits and folds apply to
    /// each source. An epoch has as many samples as all sources together, unless
    /// [`samples_per_epoch`](Self::samples_per_epoch) is set; each source is read to its end across epochs.
    ///
    /// ```
    /// use ringfeed::Loader;
    ///
    /// let mix = Loader::mix([("fixtures/iris.csv", 0.7), ("fixtures/iris-species.csv", 0.3)])?;
    /// # let mix = mix.field("width", ringfeed::field::Numbers::f32().from(0));
    /// let mut train = mix.samples_per_epoch(1000).shuffle(42).build()?;
    /// let ids: Vec<u64> = train.by_ref().flatten().flat_map(|batch| batch.sample_ids().to_vec()).collect();
    /// assert_eq!(ids.len(), 1000);
    /// assert!((699..=701).contains(&ids.iter().filter(|id| **id < 150).count())); // of the first file
    /// # Ok::<(), ringfeed::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As [`open`](Self::open), and [`ErrorKind::Config`] for a path that stands for several sources.
    pub fn mix<P: Into<PathBuf>>(sources: impl IntoIterator<Item = (P, f64)>) -> Result<Self> {
        let paths = sources.into_iter().map(|(path, weight)| (path.into(), weight)).collect();
        Ok(Self::from(LoaderConfig { mix: Mix::Paths(paths), ..LoaderConfig::default() }.resolved()?))
    }

    /// Mixes the sources of this loader as [`mix`](Self::mix) does, with one weight for each.
    #[must_use]
    pub fn weights(mut self, weights: impl IntoIterator<Item = f64>) -> Self {
        self.config.mix = Mix::Weights(weights.into_iter().collect());
        self
    }

    /// Opens sources: side by side, or one after another if they are mixed.
    pub(super) fn open_all(&self, sources: &[SourceConfig], budget: &MemoryBudget) -> Result<Readers> {
        let mut opened = Vec::new();
        for source in sources {
            opened.push(source.open(&self.files, budget)?);
        }
        if self.config.mix.is_empty() {
            #[cfg(feature = "formats")]
            super::maps::check_names(sources, &opened, self.config.shorter)?;
            let of_source = |(source, readers): (usize, &Vec<_>)| vec![source; readers.len()];
            let of_each = opened.iter().enumerate().flat_map(of_source).collect();
            return Ok(Readers { all: opened.concat(), sources: of_each, parts: Vec::new() });
        }
        pair(&mut opened, sources)?;
        let count = opened.first().map_or(0, Vec::len);
        let mut all: Vec<Concat> = Vec::new();
        for nth in 0..count {
            let mut readers = opened.iter().map(|readers| readers[nth].clone());
            let first = readers.next().map(Concat::new);
            all.extend(first.map(|first| readers.try_fold(first, Concat::and)).transpose()?);
        }
        let parts = parts_of(opened.iter().map(|readers| readers.first().map_or(0, RecordReader::len)));
        for (source, (part, readers)) in parts.iter().zip(&opened).enumerate() {
            if readers.iter().any(|reader| reader.len() != part.end - part.start) {
                let message = "sources that are mixed give the same tensors, each for all of its records";
                return Err(Error::new(ErrorKind::Schema, message).at_path(sources[source].path()));
            }
        }
        let paths: Vec<PathBuf> = sources.iter().flat_map(|source| source.paths().iter().map(Path::to_owned)).collect();
        let all = all.into_iter().map(|reader| Arc::new(reader.of_sources(&paths)) as Arc<dyn RecordReader>).collect();
        Ok(Readers { all, sources: vec![0; count], parts })
    }

    /// The chosen samples of each source, with its weight.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Config`] with the path of a source that has a weight, but no samples.
    pub(super) fn mixed(&self, parts: &[Range<u64>], chosen: Option<&Subset>) -> Result<Vec<(Subset, f64)>> {
        let of = |part: &Range<u64>| match chosen {
            Some(chosen) => chosen.filter(|sample| part.contains(&sample)),
            None => Subset::range(part.clone()),
        };
        let mixed: Vec<_> = parts.iter().map(of).zip(self.config.mix.weights()).collect();
        let Some(source) = mixed.iter().position(|(subset, weight)| subset.is_empty() && *weight > 0.0) else {
            return Ok(mixed);
        };
        let (records, weight) = (parts[source].end - parts[source].start, mixed[source].1);
        let found = match records {
            0 => "no records".to_owned(),
            _ => format!("{records} records, but filter, split and folds keep none of them"),
        };
        let message = format!("has {found}; its weight is {weight}, so there is nothing to draw");
        Err(Error::new(ErrorKind::Config, message).at_path(self.config.sources[source].path()).at_column("mix"))
    }
}

/// The ranges of records of sources that follow one another.
pub(super) fn parts_of(records: impl Iterator<Item = u64>) -> Vec<Range<u64>> {
    let ends = records.scan(0u64, |end, records| {
        let start = *end;
        *end = end.saturating_add(records);
        Some(start..*end)
    });
    ends.collect()
}

impl LoaderConfig {
    /// The fault of the weights by themselves.
    pub(super) fn mix_value_fault(&self) -> Option<String> {
        let is_weight = |weight: f64| weight.is_finite() && weight >= 0.0;
        if let Some((at, weight)) = self.mix.weights().enumerate().find(|(_, weight)| !is_weight(*weight)) {
            let key = match &self.mix {
                Mix::Weights(_) => format!("mix[{at}]"),
                Mix::Paths(paths) => format!("mix.{}", paths[at].0.display()),
            };
            return Some(format!("{key}: a weight of {weight}; weights are finite and not negative"));
        }
        let is_nothing = !self.mix.is_empty() && self.mix.weights().all(|weight| weight == 0.0);
        is_nothing.then(|| "mix: all weights are 0; there is nothing to mix".to_owned())
    }

    pub(super) fn mix_fault(&self, own: Option<&Own>) -> Option<String> {
        if self.mix.is_empty() {
            return None;
        }
        if own.is_some() {
            let message = "mix: this loader reads a container or samples of your own; leave mix out, or write a format, whose \
                           paths can be mixed";
            return Some(message.to_owned());
        }
        let sources = self.sources.len() + usize::from(self.source.is_some());
        if let Mix::Paths(_) = self.mix {
            if sources > 0 {
                return Some(
                    "mix: its paths are the sources; leave out source and sources, or list weights alone".to_owned(),
                );
            }
        } else if self.mix.len() != sources {
            return Some(format!("mix: {} weights for {sources} sources; each has one", self.mix.len()));
        }
        let is_drawn = self.class_balanced || self.weight_by.is_some() || self.bucket.is_some();
        let is_drawn = is_drawn || self.shuffle_blocks.is_some() || self.consists_of_several();
        let message =
            "mix: does not go together with class_balanced, weight_by, bucket, windows, sequences or shuffle_blocks";
        is_drawn.then(|| message.to_owned())
    }
}
