use crate::order::Subset;

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
    /// in the [`subset`](Self::subset) or not. It takes 12 bytes a sample beside the subset's own.
    #[must_use]
    pub fn weighted(mut self, weights: Vec<f64>) -> Self {
        self.sampling.draw = Draw::Weighted(weights);
        self
    }

    /// Draws samples with replacement, so that each class is drawn equally often.
    ///
    /// The labels are those of the first reader that has classes. Of an image folder they are known; otherwise every
    /// record is read once when the iterator is made, see [`read_labels`](crate::source::read_labels), and a bad one is an error
    /// whatever the policy.
    #[must_use]
    pub fn class_balanced(mut self) -> Self {
        self.sampling.draw = Draw::ClassBalanced;
        self
    }

    /// Mixes several subsets in proportion to weights; for several sources, see [`Concat`](crate::read::Concat).
    ///
    /// Each subset is gone through again and again, across epochs, every pass in a new order, so that all its samples
    /// are used equally often. Every aligned 1024 positions of the endless stream have each subset's exact share, rounded
    /// up or down; within those, positions are shuffled. Without a shuffle, subsets are interleaved evenly, each in its
    /// own order.
    #[must_use]
    pub fn mix(mut self, parts: impl IntoIterator<Item = (Subset, f64)>) -> Self {
        self.sampling.draw = Draw::Mixed(parts.into_iter().collect());
        self
    }

    /// How many samples an epoch has. By default as many as there are to choose from, all subsets of a mix together.
    /// Samples that are neither weighted nor mixed are then gone through across epochs, as a mix of one.
    #[must_use]
    pub fn samples_per_epoch(mut self, samples: u64) -> Self {
        self.sampling.samples_per_epoch = Some(samples);
        self
    }
}
