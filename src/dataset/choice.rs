use crate::positions::Subset;

use super::reader_source::ReaderSource;
use super::sampling::Draw;

impl ReaderSource {
    /// Takes only these samples. A batch's [`sample_ids`](crate::DataSet::sample_ids) stay those of the whole source.
    #[must_use]
    pub fn subset(mut self, subset: Subset) -> Self {
        self.sampling.subset = Some(subset);
        self
    }

    /// Draws samples with replacement, in proportion to these weights: one for each sample of the whole source, whether
    /// it is in the [`subset`](Self::subset) or not. This takes 12 bytes per sample in addition to the subset's own
    /// memory. Each draw of a sample is augmented anew.
    #[must_use]
    pub fn weighted(mut self, weights: Vec<f64>) -> Self {
        self.sampling.draw = Draw::Weighted(weights);
        self
    }

    /// Draws samples with replacement, so that each class is drawn equally often. Each draw of a sample is augmented
    /// anew.
    ///
    /// The class is the first label with names of classes, otherwise the first one of integers; without such a label, it
    /// is what a reader knows of its records, such as the folders of images. An image folder knows its classes. For
    /// other readers, every record is read once when the iterator is made, see
    /// [`read_labels`](crate::source::read_labels), and a bad record is an error under any policy.
    #[must_use]
    pub fn class_balanced(mut self) -> Self {
        self.sampling.draw = Draw::ClassBalanced;
        self
    }

    /// Mixes several subsets in proportion to weights; for several sources, see [`Concat`](crate::read::Concat).
    ///
    /// Each subset is read from beginning to end again and again, across epochs, every pass in a new order, so that all
    /// its samples are used equally often. Each aligned block of 1024 positions has each subset's exact share, rounded
    /// up or down; within a block, positions are shuffled. Without a shuffle, subsets are interleaved evenly, each in
    /// its own order. A sample that occurs again in an epoch is augmented anew.
    #[must_use]
    pub fn mix(mut self, parts: impl IntoIterator<Item = (Subset, f64)>) -> Self {
        self.sampling.draw = Draw::Mixed(parts.into_iter().collect());
        self
    }

    /// Number of samples per epoch. Default: the number of samples to choose from, in all subsets of a mix together. If
    /// samples are neither weighted nor mixed, this makes passes over them continue across epochs, like a mix of one
    /// subset.
    #[must_use]
    pub fn samples_per_epoch(mut self, samples: u64) -> Self {
        self.sampling.samples_per_epoch = Some(samples);
        self
    }
}
