use std::collections::HashMap;
use std::sync::Arc;

use crate::error::{Error, ErrorKind, Result};
use crate::positions::{Blocks, Mixture, Order, Picks, Subset, Weighted};
use crate::random::RandomKey;
use crate::read::RecordReader;

use super::labels::labels_of;

/// The samples that a source uses, and how often.
#[derive(Default)]
pub(super) struct Sampling {
    pub(super) subset: Option<Subset>,
    pub(super) draw: Draw,
    pub(super) samples_per_epoch: Option<u64>,
    /// Number of chunks that are shuffled together, if not all samples are.
    pub(super) blocks: Option<u64>,
}

/// How samples are drawn.
#[derive(Default)]
pub(super) enum Draw {
    #[default]
    Once,
    Weighted(Vec<f64>),
    ClassBalanced,
    Mixed(Vec<(Subset, f64)>),
}

/// The error for `samples` samples per epoch out of none.
pub(crate) fn nothing_to_draw(samples: u64) -> Error {
    let message = format!("samples_per_epoch: there are no samples to draw {samples} from");
    Error::new(ErrorKind::Config, message)
}

impl Sampling {
    /// The order of a source of `len` samples.
    pub(super) fn order(
        &self,
        len: u64,
        seed: u64,
        shuffled: bool,
        readers: &[Arc<dyn RecordReader>],
    ) -> Result<Order> {
        let config = |message: String| Error::new(ErrorKind::Config, message);
        let subset = self.subset.clone().unwrap_or_else(|| Subset::all(len));
        let mixed = |parts: &[(Subset, f64)]| {
            Mixture::new(parts).map(|mixture| Picks::Mixed(Arc::new(mixture))).map_err(config)
        };
        let weighted = |subset, weight: &dyn Fn(u64) -> f64| {
            Weighted::new(subset, weight).map(|weighted| Picks::Weighted(Arc::new(weighted))).map_err(config)
        };
        let listed = match &self.draw {
            Draw::Mixed(parts) => parts.iter().find_map(|(subset, _)| subset.beyond(len)),
            _ => subset.beyond(len),
        };
        if let Some(id) = listed {
            return Err(config(format!("a subset has sample {id}, but there are {len} samples")));
        }
        let picks = match &self.draw {
            Draw::Once if self.samples_per_epoch.is_some() && !subset.is_empty() => mixed(&[(subset, 1.0)])?,
            Draw::Once => Picks::Once(subset),
            Draw::Weighted(weights) if weights.len() as u64 != len => {
                return Err(config(format!("{} weights for {len} samples", weights.len())));
            }
            Draw::Weighted(weights) => weighted(subset, &|id| weights[id as usize])?,
            Draw::ClassBalanced => {
                let labels = labels_of(readers)?;
                let mut counts: HashMap<u32, u64> = HashMap::new();
                subset.iter().for_each(|id| *counts.entry(labels[id as usize]).or_default() += 1);
                weighted(subset, &|id| 1.0 / counts[&labels[id as usize]] as f64)?
            }
            Draw::Mixed(_) if self.subset.is_some() => {
                return Err(config("a subset and a mix are given; give only the subsets of the mix".to_owned()));
            }
            Draw::Mixed(parts) => mixed(parts)?,
        };
        let choice = match &picks {
            Picks::Once(subset) => subset.len(),
            Picks::Weighted(weighted) => weighted.subset().len(),
            Picks::Mixed(mixture) => mixture.len(),
        };
        let len = match self.samples_per_epoch {
            Some(samples) if choice == 0 && samples > 0 => return Err(nothing_to_draw(samples)),
            samples => samples.unwrap_or(choice),
        };
        let blocks = match (self.blocks.filter(|_| shuffled), &picks) {
            (None, _) => None,
            (Some(0), _) => return Err(config("blocks of 0 chunks; one at least is shuffled".to_owned())),
            (Some(together), Picks::Once(subset)) => {
                // Chunks of one reader are worth keeping together, whatever the other readers do.
                let chunks = readers.iter().map(|reader| reader.chunks()).find(|chunks| !chunks.is_empty());
                Some(Blocks::new(subset, &checked(chunks.unwrap_or_default())?, together))
            }
            _ => {
                let message = "blocks: each sample comes once; leave out weights, balance, mixes and samples_per_epoch";
                return Err(config(message.to_owned()));
            }
        };
        Ok(Order { len, seed, shuffled, picks, blocks })
    }

    /// Distinguishes this choice from others; `None` if all samples are used once.
    pub(super) fn hash(&self, order: &Order) -> Option<u64> {
        let key = RandomKey::new(order.len);
        if let (Some(blocks), Picks::Once(subset)) = (&order.blocks, &order.picks) {
            return Some(key.with(subset.hash()).with(blocks.hash()).bits(3));
        }
        match &order.picks {
            Picks::Once(subset) => self.subset.as_ref().map(|_| key.with(subset.hash()).bits(0)),
            Picks::Weighted(weighted) => Some(key.with(weighted.hash()).bits(1)),
            Picks::Mixed(mixture) => Some(key.with(mixture.hash()).bits(2)),
        }
    }
}

/// Checks chunks that a reader gives: they must be ascending, and the first must be 0.
fn checked(chunks: Vec<u64>) -> Result<Vec<u64>> {
    match chunks.first().is_none_or(|first| *first == 0) && chunks.is_sorted_by(|one, next| one < next) {
        true => Ok(chunks),
        false => Err(Error::new(ErrorKind::Config, "the chunks that a reader gives are not ascending from 0")),
    }
}
