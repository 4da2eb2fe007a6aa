use serde::{Deserialize, Serialize};

use crate::error::{Error, ErrorKind, Result};
use crate::positions::Subset;
use crate::random::{RandomKey, hash_bytes};
use crate::read::RecordReader;

use super::shares::{FOLDS, SLACK, SPLIT, fold_fault, shares_fault};
use super::strata::Strata;

/// A number in [0, 1) for each name; it decides the sample's part.
fn unit_of(reader: &(impl RecordReader + ?Sized), sample: u64, key: RandomKey, name: &mut Vec<u8>) -> f64 {
    name.clear();
    reader.name(sample, name);
    key.with(hash_bytes(name)).unit(0)
}

impl Subset {
    /// Parts of approximately these shares, in the subset's order. A sample's part depends only on its
    /// [name](RecordReader::name) in `reader`, the shares and the seed: samples that are added later do not move
    /// others. If the shares add up to less than 1, the rest is in no part.
    ///
    /// To split a part again, use another seed.
    ///
    /// ```
    /// use ringfeed::csv::{CsvOptions, CsvReader};
    /// use ringfeed::order::Subset;
    /// use ringfeed::read::RecordReader;
    /// use ringfeed::source::ReaderSource;
    /// use std::sync::Arc;
    ///
    /// let iris = Arc::new(CsvReader::open("fixtures/iris.csv", &CsvOptions::default())?);
    /// let [train, test] = Subset::all(iris.len()).split(&iris, [0.8, 0.2], 7)?;
    /// assert_eq!(train.len() + test.len(), 150);
    /// let train = ReaderSource::new(iris.clone()).subset(train).shuffle(42);
    /// let test = ReaderSource::new(iris).subset(test);
    /// # Ok::<(), ringfeed::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Config`] unless the shares are between 0 and 1, and at most 1 together.
    pub fn split<const N: usize>(
        &self,
        reader: &(impl RecordReader + ?Sized),
        shares: [f64; N],
        seed: u64,
    ) -> Result<[Self; N]> {
        if let Some(fault) = shares_fault(&shares) {
            return Err(Error::new(ErrorKind::Config, fault));
        }
        let mut ends = [0.0; N];
        let mut end = 0.0;
        for (index, share) in shares.iter().enumerate() {
            end += share;
            // The sum of shares such as three times a third is a little less than 1.
            ends[index] = if (end - 1.0).abs() < SLACK { 1.0 } else { end };
        }
        let key = RandomKey::new(seed).with(SPLIT);
        Ok(self.deal(reader, |unit| ends.iter().position(|end| unit < *end), key))
    }

    /// The samples for training when fold `fold` of `count` is held out, and the fold itself, for cross-validation. As
    /// in [`split`](Self::split), a sample's fold depends only on its name and the seed.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Config`] unless there are at least two folds and `fold` is below their number.
    pub fn fold(
        &self,
        reader: &(impl RecordReader + ?Sized),
        fold: u32,
        count: u32,
        seed: u64,
    ) -> Result<(Self, Self)> {
        if let Some(fault) = fold_fault(fold, count) {
            return Err(Error::new(ErrorKind::Config, fault));
        }
        let of = |unit: f64| Some(usize::from((unit * f64::from(count)) as u32 == fold));
        let [train, held_out] = self.deal(reader, of, RandomKey::new(seed).with(FOLDS));
        Ok((train, held_out))
    }

    /// Assigns each sample to a part, by a number between 0 and 1 that belongs to its name.
    fn deal<const N: usize>(
        &self,
        reader: &(impl RecordReader + ?Sized),
        part: impl Fn(f64) -> Option<usize>,
        key: RandomKey,
    ) -> [Self; N] {
        let mut name = Vec::new();
        // 8 bytes per sample until the parts are listed.
        let mut parts: [Vec<u64>; N] = std::array::from_fn(|_| Vec::new());
        for sample in self.iter() {
            if let Some(part) = part(unit_of(reader, sample, key, &mut name)) {
                parts[part].push(sample);
            }
        }
        parts.map(Self::listed)
    }
}

/// One part of a split by name into train, validation and test data, as plain data; see [`Subset::split`].
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Split {
    /// Share of the training data.
    pub train: f64,
    /// Share of the validation data.
    #[serde(default)]
    pub validation: f64,
    /// Share of the test data.
    #[serde(default)]
    pub test: f64,
    /// Seed: the same for all parts.
    #[serde(default)]
    pub seed: u64,
    /// The part to use.
    pub part: Part,
}

/// A part of a [`Split`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[expect(clippy::exhaustive_enums, reason = "every sample belongs to one of them")]
pub enum Part {
    /// The training data.
    Train,
    /// The validation data.
    Validation,
    /// The test data.
    Test,
}

impl Split {
    /// This share of the data for training, and the [rest](Self::rest) for tests.
    ///
    /// ```
    /// use ringfeed::Loader;
    /// use ringfeed::order::Split;
    ///
    /// let iris = Loader::csv("fixtures/iris.csv");
    /// let (train, test) = (iris.clone().split(Split::train(0.8)), iris.split(Split::train(0.8).rest()));
    /// assert_eq!(train.plan()?.samples.unwrap_or(0) + test.plan()?.samples.unwrap_or(0), 150);
    /// # Ok::<(), ringfeed::Error>(())
    /// ```
    pub fn train(share: f64) -> Self {
        Self { train: share, validation: 0.0, test: 1.0 - share, seed: 0, part: Part::Train }
    }

    /// The test part of the same split.
    #[must_use]
    pub fn rest(self) -> Self {
        Self { part: Part::Test, ..self }
    }

    pub(crate) fn faults(&self) -> Vec<String> {
        let (part, share) = match self.part {
            Part::Train => ("train", self.train),
            Part::Validation => ("validation", self.validation),
            Part::Test => ("test", self.test),
        };
        let nothing = (share == 0.0).then(|| format!("the part {part:?} has no share of the samples; set `{part}`"));
        shares_fault(&[self.train, self.validation, self.test]).into_iter().chain(nothing).collect()
    }

    pub(crate) fn of(
        &self,
        subset: &Subset,
        reader: &(impl RecordReader + ?Sized),
        by: Option<&Strata>,
    ) -> Result<Subset> {
        let shares = [self.train, self.validation, self.test];
        let [train, validation, test] = match by {
            Some(by) => subset.split_by(reader, shares, self.seed, by)?,
            None => subset.split(reader, shares, self.seed)?,
        };
        Ok(match self.part {
            Part::Train => train,
            Part::Validation => validation,
            Part::Test => test,
        })
    }
}

/// One of several folds by name, or all samples outside of it, as plain data; see [`Subset::fold`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Folds {
    /// Which fold, from 0.
    pub fold: u32,
    /// Number of folds.
    pub count: u32,
    /// Seed: the same for all folds.
    #[serde(default)]
    pub seed: u64,
    /// Whether to use the fold itself, instead of all others.
    #[serde(default)]
    pub held_out: bool,
}

impl Folds {
    pub(crate) fn faults(&self) -> Vec<String> {
        fold_fault(self.fold, self.count).into_iter().collect()
    }

    pub(crate) fn of(
        &self,
        subset: &Subset,
        reader: &(impl RecordReader + ?Sized),
        by: Option<&Strata>,
    ) -> Result<Subset> {
        let (train, held_out) = match by {
            Some(by) => subset.fold_by(reader, self.fold, self.count, self.seed, by)?,
            None => subset.fold(reader, self.fold, self.count, self.seed)?,
        };
        Ok(if self.held_out { held_out } else { train })
    }
}
