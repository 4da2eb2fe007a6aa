//! Parts and folds of a data set with the same share of each class. Groups are never divided.

use std::collections::{BTreeMap, HashMap};

use crate::error::{Error, ErrorKind, Result};
use crate::positions::Subset;
use crate::random::{RandomKey, hash_bytes, mix};
use crate::read::RecordReader;

use super::shares::{FOLDS, SLACK, SPLIT, fold_fault, shares_fault};

/// Maximum number of folds if there are fewer samples, so that some folds are empty.
const MOST_EMPTY: u64 = 1 << 16;

/// Classes and groups for splits and folds: a class and a group for each sample of the whole source, which decide in
/// addition to the names of the samples.
///
/// With classes, each part has its share of every class, to less than one sample if there are no groups. With groups,
/// all samples of a group are in one part. Parts then come as close to their shares (of every class, if there are
/// classes) as whole groups allow: large groups are assigned first, each to the part that lacks most. The result
/// depends only on classes, groups, names, shares and seed. Unlike in a split by names, a sample that is added later
/// may move others.
///
/// ```
/// use ringfeed::csv::{CsvOptions, CsvReader};
/// use ringfeed::field::Class;
/// use ringfeed::order::{Strata, Subset};
/// use ringfeed::read::RecordReader;
/// use ringfeed::source::read_labels;
///
/// let fields = [("species".to_owned(), Class.from("virginica"))];
/// let iris = CsvReader::with_fields("fixtures/iris.csv", &fields, &CsvOptions::default())?;
/// let classes = read_labels(&iris)?;
/// let by = Strata::default().classes(classes.clone());
/// let [train, test] = Subset::all(iris.len()).split_by(&iris, [0.8, 0.2], 7, &by)?;
/// let ones = |part: &Subset| part.iter().filter(|sample| classes[*sample as usize] == 1).count();
/// assert_eq!((train.len(), ones(&train), test.len(), ones(&test)), (120, 40, 30, 10));
/// # Ok::<(), ringfeed::Error>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Strata {
    classes: Option<Vec<u32>>,
    groups: Option<Vec<u64>>,
}

impl Strata {
    /// The class of each sample.
    #[must_use]
    pub fn classes(self, classes: Vec<u32>) -> Self {
        Self { classes: Some(classes), ..self }
    }

    /// The group of each sample, as any number. Samples with the same number stay together.
    #[must_use]
    pub fn groups(self, groups: Vec<u64>) -> Self {
        Self { groups: Some(groups), ..self }
    }

    fn check(&self, subset: &Subset) -> Result<()> {
        let lens = [self.classes.as_ref().map(Vec::len), self.groups.as_ref().map(Vec::len)];
        match lens.into_iter().flatten().find(|len| subset.beyond(*len as u64).is_some()) {
            None => Ok(()),
            Some(len) => {
                let message =
                    format!("classes or groups of {len} samples; there must be one for each of the whole source");
                Err(Error::new(ErrorKind::Config, message))
            }
        }
    }

    fn class(&self, sample: u64) -> u32 {
        self.classes.as_ref().map_or(0, |classes| classes[sample as usize])
    }

    /// For each sample of a subset, its part. The sum of the shares is 1.
    fn parts(
        &self,
        subset: &Subset,
        reader: &(impl RecordReader + ?Sized),
        shares: &[f64],
        key: RandomKey,
    ) -> Vec<usize> {
        match &self.groups {
            Some(groups) => self.deal_groups(subset, groups, shares, key),
            None => self.cut_classes(subset, reader, shares, key),
        }
    }

    /// Sorts each class by the hashes of its samples' names, and cuts it by the shares.
    fn cut_classes(
        &self,
        subset: &Subset,
        reader: &(impl RecordReader + ?Sized),
        shares: &[f64],
        key: RandomKey,
    ) -> Vec<usize> {
        let mut classes: BTreeMap<u32, Vec<(u64, usize)>> = BTreeMap::new();
        let mut name = Vec::new();
        for (index, sample) in subset.iter().enumerate() {
            name.clear();
            reader.name(sample, &mut name);
            let hash = key.with(hash_bytes(&name)).bits(0);
            classes.entry(self.class(sample)).or_default().push((hash, index));
        }
        let mut parts = vec![0; subset.len() as usize];
        let mut lacking = vec![0.0; shares.len()];
        for mut samples in classes.into_values() {
            samples.sort_unstable();
            let mut left = samples.as_slice();
            for (part, count) in cut(samples.len(), shares, &mut lacking).into_iter().enumerate() {
                let (own, rest) = left.split_at(count);
                own.iter().for_each(|(_, index)| parts[*index] = part);
                left = rest;
            }
        }
        parts
    }

    /// Gives each group, the largest first, to the part that is then closest to its shares of the group's classes.
    fn deal_groups(&self, subset: &Subset, groups: &[u64], shares: &[f64], key: RandomKey) -> Vec<usize> {
        let mut counts: HashMap<u64, BTreeMap<u32, u64>> = HashMap::new();
        let mut totals: HashMap<u32, u64> = HashMap::new();
        for sample in subset.iter() {
            let class = self.class(sample);
            *counts.entry(groups[sample as usize]).or_default().entry(class).or_default() += 1;
            *totals.entry(class).or_default() += 1;
        }
        let mut order: Vec<(u64, u64, u64)> = counts
            .iter()
            .map(|(group, classes)| (u64::MAX - classes.values().sum::<u64>(), key.with(mix(*group)).bits(0), *group))
            .collect();
        order.sort_unstable();
        let mut filled: Vec<HashMap<u32, u64>> = vec![HashMap::new(); shares.len()];
        let mut samples = vec![0; shares.len()];
        let mut part_of: HashMap<u64, usize> = HashMap::with_capacity(order.len());
        for (_, _, group) in order {
            let of_group: u64 = counts[&group].values().sum();
            // How much the squared distance from the shares grows, of each class and, half as important, of all samples.
            // Each counts in proportion to its size.
            let cost = |part: usize| {
                let growth = |has: u64, count: u64, total: u64| {
                    let (has, count, total) = (has as f64, count as f64, total as f64);
                    count * (2.0 * (has - shares[part] * total) + count) / total
                };
                let has = |class: &u32| filled[part].get(class).copied().unwrap_or(0);
                let of_class = |(class, count): (&u32, &u64)| growth(has(class), *count, totals[class]);
                let all = growth(samples[part], of_group, subset.len());
                counts[&group].iter().map(of_class).sum::<f64>() + all / 2.0
            };
            let open = (0..shares.len()).filter(|part| shares[*part] > 0.0);
            let best = open.map(|part| (cost(part), part)).reduce(|a, b| if b.0 < a.0 { b } else { a });
            let part = best.map_or(0, |(_, part)| part);
            counts[&group].iter().for_each(|(class, count)| *filled[part].entry(*class).or_default() += count);
            samples[part] += of_group;
            part_of.insert(group, part);
        }
        subset.iter().map(|sample| part_of[&groups[sample as usize]]).collect()
    }
}

/// How many of a class's samples each part gets: its share, rounded down, and one more for the parts that lack most,
/// counted over all classes so far.
fn cut(samples: usize, shares: &[f64], lacking: &mut [f64]) -> Vec<usize> {
    let mut counts: Vec<usize> = shares.iter().map(|share| (share * samples as f64 + SLACK) as usize).collect();
    lacking.iter_mut().zip(shares).zip(&counts).for_each(|((lacks, share), count)| {
        *lacks += share * samples as f64 - *count as f64;
    });
    let mut order: Vec<usize> = (0..shares.len()).filter(|part| shares[*part] > 0.0).collect();
    // The first one, if several are equal.
    order.sort_by(|one, other| lacking[*other].total_cmp(&lacking[*one]));
    let left = samples.saturating_sub(counts.iter().sum());
    for part in order.into_iter().cycle().take(left) {
        counts[part] += 1;
        lacking[part] -= 1.0;
    }
    counts
}

impl Subset {
    /// As [`split`](Self::split), with the same share of each class in every part, and no group in two of them.
    ///
    /// # Errors
    ///
    /// As [`split`](Self::split), and [`ErrorKind::Config`] without a class or group for each sample.
    pub fn split_by<const N: usize>(
        &self,
        reader: &(impl RecordReader + ?Sized),
        shares: [f64; N],
        seed: u64,
        by: &Strata,
    ) -> Result<[Self; N]> {
        if let Some(fault) = shares_fault(&shares) {
            return Err(Error::new(ErrorKind::Config, fault));
        }
        by.check(self)?;
        let rest = 1.0 - shares.iter().sum::<f64>();
        let mut all = shares.to_vec();
        if rest.abs() > SLACK {
            all.push(rest);
        }
        let parts = by.parts(self, reader, &all, RandomKey::new(seed).with(SPLIT));
        Ok(std::array::from_fn(|part| self.part(&parts, |own| own == part)))
    }

    /// As [`fold`](Self::fold), with the same share of each class in every fold, and no group in two of them.
    ///
    /// # Errors
    ///
    /// As [`fold`](Self::fold), and [`ErrorKind::Config`] without a class or group for each sample, or with fewer
    /// groups than folds.
    pub fn fold_by(
        &self,
        reader: &(impl RecordReader + ?Sized),
        fold: u32,
        count: u32,
        seed: u64,
        by: &Strata,
    ) -> Result<(Self, Self)> {
        if let Some(fault) = fold_fault(fold, count) {
            return Err(Error::new(ErrorKind::Config, fault));
        }
        by.check(self)?;
        if let Some(groups) = &by.groups {
            let mut own: Vec<u64> = self.iter().map(|sample| groups[sample as usize]).collect();
            own.sort_unstable();
            own.dedup();
            if own.len() < count as usize {
                let message = format!("{} groups for {count} folds; each fold has at least one", own.len());
                return Err(Error::new(ErrorKind::Config, message));
            }
        }
        if u64::from(count) > self.len().max(MOST_EMPTY) {
            let message = format!("{} samples for {count} folds; give no more folds than samples", self.len());
            return Err(Error::new(ErrorKind::Config, message));
        }
        let shares = vec![1.0 / f64::from(count); count as usize];
        let parts = by.parts(self, reader, &shares, RandomKey::new(seed).with(FOLDS));
        let is_held_out = |part: usize| part == fold as usize;
        Ok((self.part(&parts, |part| !is_held_out(part)), self.part(&parts, is_held_out)))
    }

    fn part(&self, parts: &[usize], is_own: impl Fn(usize) -> bool) -> Self {
        Self::listed(self.iter().zip(parts).filter(|(_, part)| is_own(**part)).map(|(sample, _)| sample))
    }
}
