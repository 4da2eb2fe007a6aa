use crate::random::{RandomKey, mix};

use super::Subset;

/// Draws with replacement, in proportion to weights. The cost does not depend on the number of samples: this is an
/// alias table (Vose: "A linear algorithm for generating random numbers with a given distribution", 1991). It takes 12
/// bytes per sample.
#[derive(Debug)]
pub(crate) struct Weighted {
    subset: Subset,
    /// The probability that a column gives its own sample instead of the alias.
    own: Box<[f64]>,
    alias: Box<[u32]>,
    hash: u64,
}

impl Weighted {
    /// The table for the samples of `subset` with their weights; or the fault of the weights.
    pub(crate) fn new(subset: Subset, weight: impl Fn(u64) -> f64) -> Result<Self, String> {
        let mut own: Box<[f64]> = subset.iter().map(weight).collect();
        let Ok(len) = u32::try_from(own.len()) else {
            return Err(format!("{} samples with weights; there can be 2^32 - 1", own.len()));
        };
        if let Some(index) = own.iter().position(|weight| !(weight.is_finite() && *weight >= 0.0)) {
            let (weight, sample) = (own[index], subset.at(index as u64));
            return Err(format!("a weight of {weight} for sample {sample}; weights are finite and not negative"));
        }
        if len == 0 {
            return Err("there are no samples to draw from".to_owned());
        }
        let hash = own.iter().fold(0, |hash, weight| mix(hash ^ weight.to_bits()));
        let heaviest = (0..len).fold(0, |best, at| if own[at as usize] > own[best as usize] { at } else { best });
        let Some(greatest) = own.get(heaviest as usize).copied().filter(|greatest| *greatest > 0.0) else {
            return Err("all weights are 0; there is nothing to draw".to_owned());
        };
        // Divided by the largest one, so that the sum of large weights does not overflow.
        own.iter_mut().for_each(|weight| *weight /= greatest);
        let mean = own.iter().sum::<f64>() / f64::from(len);
        own.iter_mut().for_each(|weight| *weight /= mean);
        let mut alias = vec![heaviest; own.len()].into_boxed_slice();
        let (mut light, mut heavy): (Vec<u32>, Vec<u32>) = (0..len).partition(|at| own[*at as usize] < 1.0);
        while let (Some(small), Some(large)) = (light.pop(), heavy.last().copied()) {
            alias[small as usize] = large;
            let rest = own[large as usize] - (1.0 - own[small as usize]);
            own[large as usize] = rest;
            if rest < 1.0 {
                heavy.pop();
                light.push(large);
            }
        }
        Ok(Self { subset, own, alias, hash })
    }

    pub(crate) fn subset(&self) -> &Subset {
        &self.subset
    }

    pub(crate) fn hash(&self) -> u64 {
        mix(self.hash ^ self.subset.hash())
    }

    /// The sample of draw `nth` under `key`.
    pub(crate) fn draw(&self, key: RandomKey, nth: u64) -> u64 {
        let column = key.below(nth.wrapping_mul(2), self.own.len() as u64) as usize;
        let is_own = key.unit(nth.wrapping_mul(2).wrapping_add(1)) < self.own[column];
        self.subset.at(if is_own { column as u64 } else { self.alias[column].into() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How often each column is drawn, according to the table.
    fn shares(weights: &[f64]) -> Vec<f64> {
        let table = Weighted::new(Subset::all(weights.len() as u64), |id| weights[id as usize]).unwrap();
        let mut shares = vec![0.0; weights.len()];
        for (column, own) in table.own.iter().enumerate() {
            let own = own.clamp(0.0, 1.0);
            shares[column] += own / weights.len() as f64;
            shares[table.alias[column] as usize] += (1.0 - own) / weights.len() as f64;
        }
        shares
    }

    #[test]
    fn the_table_has_the_shares_of_the_weights() {
        let random: Vec<f64> = (0..1000).map(|i| RandomKey::new(5).unit(i).powi(8)).collect();
        for weights in [vec![1.0], vec![0.0, 3.0, 0.0, 1.0], vec![f64::MAX; 7], vec![5e-324, 1e-320, 0.0], random] {
            let greatest = weights.iter().copied().fold(0.0, f64::max);
            let sum: f64 = weights.iter().map(|weight| weight / greatest).sum();
            for (share, weight) in shares(&weights).iter().zip(&weights) {
                let expected = weight / greatest / sum;
                assert!((share - expected).abs() < 1e-12, "{share} instead of {expected}");
                assert!(*weight > 0.0 || *share == 0.0, "a weight of 0 is never drawn");
            }
        }
    }
}
