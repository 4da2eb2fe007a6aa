//! Reports of a run, as one page or as data.

mod page;
mod run;

pub(crate) use run::moments;
pub use run::{Moment, Report};
