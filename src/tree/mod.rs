//! The contents of a settings file, in any language, and what is wrong with it, in words for a person.

mod faults;
mod node;
mod words;

pub(crate) use faults::{no_faults, under};
pub(crate) use node::{Node, Step, TAGS};
pub(crate) use words::{Fault, Told, What, not_allowed};
