//! Transforms and recipes, beside what independent tools make of the same data.

#[path = "../common/mod.rs"]
mod common;
#[path = "../common/numbered.rs"]
mod numbered;

mod composing;
#[cfg(feature = "images")]
mod images;
#[cfg(feature = "audio")]
mod log_mel;
mod normalise;
mod one_list;
mod prepare;
mod prepare_judged;
mod prepare_steps;
mod prepare_windows;
mod serve;
mod serve_windows;
mod transform;
mod transform_members;
