//! From raw values to the numbers of a batch.

mod numbers;

pub use numbers::{Numbers, write_numbers};
