use serde::{Deserialize, Serialize};

use super::Operation;

/// One random operation on the numbers of a feature tensor, as plain data, as in settings under `augment`, by the
/// tensor's name. It is the same as the [`Operation`] of that name after all normalisers.
///
/// It works on normalised values and leaves padding unchanged. Its random numbers are a function of seed, epoch, sample
/// (and draw, if the epoch draws it several times), tensor, kind of operation and position among those of the same
/// kind. They are independent of the batch.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
#[non_exhaustive]
pub enum NumberAugment {
    /// [`Operation::Noise`].
    Noise {
        /// Standard deviation.
        deviation: f64,
        /// The probability that a sample is changed, from 0 to 1.
        #[serde(default = "super::always")]
        probability: f64,
    },
    /// [`Operation::Masking`].
    Masking {
        /// The probability that an element is replaced, from 0 to 1.
        probability: f64,
        /// The number that replaces them; 0 is the mean of standardised numbers.
        #[serde(default)]
        value: f64,
    },
}

impl NumberAugment {
    /// This operation on a tensor.
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
