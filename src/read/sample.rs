use crate::random::RandomKey;

/// The sample that is decoded, and the key of its random numbers: the same for any worker and order, and after a
/// restart.
#[derive(Clone, Copy, Debug)]
pub struct Sample {
    /// Index of the record in its source.
    pub id: u64,
    /// Key of (seed, epoch, sample), and of the draw if an epoch draws a sample several times.
    pub key: RandomKey,
}
