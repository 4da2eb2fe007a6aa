use crate::schema::Schema;

use super::tune::LEAST_PREFETCH;

/// Maximum number of batches ahead if no number is given, and maximum number of bytes for them.
const MOST: usize = 8;
const BYTES: u64 = 10 << 20;

/// Number of batches ahead if none is given: at least this many, and more for small batches. Small batches are made
/// faster than threads are woken, so each wait for room costs more than the batch.
pub(crate) fn default_prefetch(least: usize, schema: &Schema, slot_bytes: u64, budget: u64) -> usize {
    let least = least.max(LEAST_PREFETCH);
    // The next batch may be many times as large.
    if schema.is_variable() || slot_bytes == 0 {
        return least;
    }
    let fitting = BYTES.min(budget / 4) / slot_bytes;
    least.max(fitting.min(MOST as u64) as usize)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use crate::dtype::DType;
    use crate::schema::{Dim, Role, TensorSpec};

    use super::*;

    #[test]
    fn small_batches_are_made_further_ahead() {
        let of = |dims: Vec<Dim>| {
            Schema::new(vec![TensorSpec::with_dims("x", Role::Feature, DType::U8, dims)]).map(Arc::new).unwrap()
        };
        let fixed = of(vec![Dim::Fixed(3)]);
        let prefetch = |least, bytes, budget| default_prefetch(least, &fixed, bytes, budget);
        let found = [4096, 786_432, 1 << 20, 2 << 20, 3 << 20, 1 << 30].map(|bytes| prefetch(2, bytes, u64::MAX));
        assert_eq!(found, [8, 8, 8, 5, 3, 2]);
        assert_eq!([prefetch(16, 4096, u64::MAX), prefetch(0, 4096, 64 << 10), prefetch(2, 4096, 0)], [16, 4, 2]);
        assert_eq!(prefetch(2, 0, u64::MAX), 2, "nothing was planned");
        assert_eq!(default_prefetch(2, &of(vec![Dim::Extent(0)]), 4096, u64::MAX), 2);
    }
}
