use serde::{Deserialize, Serialize};

use super::Operation;

/// One random operation on the numbers of a feature tensor, as plain data: what settings say under `augment`, by the
/// tensor's name. It is the same as the [`Operation`] of that name behind all normalisers.
///
/// It works on what the trainer would see: normalised units, padding left alone. Its random numbers are a function of
/// seed, epoch, sample, tensor, kind of operation and position among those of the same kind, whatever the batch.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum NumberAugment {
    /// [`Operation::Noise`].
    Noise {
        /// Standard deviation.
        deviation: f64,
        /// How many of the samples.
        #[serde(default = "super::always")]
        probability: f64,
    },
    /// [`Operation::Masking`].
    Masking {
        /// How many of the elements.
        probability: f64,
        /// What stands there instead; 0 is the mean of standardised numbers.
        #[serde(default)]
        value: f64,
    },
}

impl NumberAugment {
    /// The same on this tensor.
    pub fn on(&self, tensor: impl Into<String>) -> Operation {
        let tensor = tensor.into();
        match *self {
            Self::Noise { deviation, probability } => Operation::Noise { tensor, deviation, probability },
            Self::Masking { probability, value } => Operation::Masking { tensor, probability, value },
        }
    }

    /// Everything that is wrong with it, each with its key; empty if nothing is.
    pub fn faults(&self) -> Vec<String> {
        self.on("").faults()
    }
}
