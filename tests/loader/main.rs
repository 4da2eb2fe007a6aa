//! Loaders as programs use them: settings, limits and traces.

#[path = "../common/mod.rs"]
mod common;
#[path = "../common/numbered.rs"]
mod numbered;

mod building;
mod fetch_limit;
mod limits;
#[cfg(feature = "images")]
mod programs;
mod trace;
