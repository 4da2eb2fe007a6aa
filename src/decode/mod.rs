//! From raw values to the numbers of a batch.

mod numbers;

pub(crate) use numbers::converts;
pub use numbers::write_numbers;
