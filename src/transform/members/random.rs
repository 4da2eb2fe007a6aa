use crate::error::{Error, ErrorKind, Result};
use crate::random::{RandomKey, mix};
use crate::schema::Role;
use crate::transform::{Row, Tensors};

use super::elements::{Elements, Elementwise, Float, InPlace};

/// The numbers of kinds, which differ from those of images. These never change.
pub(super) const NOISE: u64 = 1001;
pub(super) const MASKING: u64 = 1002;
pub(super) const SCALING: u64 = 1003;
#[cfg(feature = "images")]
pub(super) const AUGMENT: u64 = 1004;

/// What an operation's random choices depend on: its kind, how many of this kind came before on the same tensor, and
/// its name.
pub(super) struct Draws {
    kind: u64,
    nth: u64,
    name: u64,
}

impl Draws {
    pub(super) fn new(kind: u64, nth: u64, tensor: &str) -> Self {
        Self { kind, nth, name: tensor.bytes().fold(0, |hash, byte| mix(hash ^ u64::from(byte))) }
    }

    pub(super) fn key(&self, row: &Row<'_>) -> RandomKey {
        row.sample_key().operation(self.kind, self.nth).with(self.name)
    }
}

/// The random operations.
pub(super) enum Random {
    Noise { deviation: f64, probability: f64 },
    Masking { probability: f64, value: f64 },
    Scaling { low: f64, high: f64, probability: f64 },
}

pub(super) struct Randomly {
    draws: Draws,
    what: Random,
}

impl Randomly {
    pub(super) fn new(tensor: &str, nth: u64, what: Random, tensors: &Tensors) -> Result<InPlace<Self>> {
        let spec = tensors.get(tensor)?;
        if spec.role != Role::Feature || !spec.dtype.is_float() {
            let message =
                format!("is a {:?} of {}; numbers are augmented in features of f32 or f64", spec.role, spec.dtype);
            return Err(Error::new(ErrorKind::Schema, message).at_column(tensor));
        }
        let kind = match what {
            Random::Noise { .. } => NOISE,
            Random::Masking { .. } => MASKING,
            Random::Scaling { .. } => SCALING,
        };
        InPlace::new(tensor, tensors, Self { draws: Draws::new(kind, nth, tensor), what })
    }
}

impl Elementwise for Randomly {
    fn run<T: Float>(&self, row: &Row<'_>, elements: Elements<'_, T>) -> Result<()> {
        let key = self.draws.key(row);
        match self.what {
            Random::Noise { deviation, probability } => {
                if key.unit(u64::MAX) < probability {
                    elements.for_each(|i, x| *x = T::from_f64(x.to_f64() + deviation * key.normal(i)));
                }
            }
            Random::Masking { probability, value } => elements.for_each(|i, x| {
                if key.unit(i) < probability {
                    *x = T::from_f64(value);
                }
            }),
            Random::Scaling { low, high, probability } => {
                if key.unit(u64::MAX) < probability {
                    let factor = low + key.unit(0) * (high - low);
                    elements.map(|x| T::from_f64(x.to_f64() * factor));
                }
            }
        }
        Ok(())
    }
}
