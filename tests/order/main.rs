//! What comes when: orders, choices, epochs and states, and the same bytes every time.

#[path = "../common/mod.rs"]
mod common;

mod batches;
mod blocks;
mod buckets;
mod choice;
mod epochs;
mod master;
mod orders;
mod same_bytes;
mod sampling;
mod states;
mod traps;
