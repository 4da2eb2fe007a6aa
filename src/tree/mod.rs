//! The contents of a settings file, in any language, and what is wrong with it, in words for a person.

mod faults;
mod node;
mod words;

/// Any value that can be written. What `serde` derives for its types is then compiled once, not once for each language
/// in which they are written: TOML, JSON, and JSON in lines.
pub(crate) fn any(value: &impl serde::Serialize) -> &dyn erased_serde::Serialize {
    value
}

pub(crate) use faults::{no_faults, under};
pub(crate) use node::{Node, Step, TAGS};
pub(crate) use words::{Fault, Told, What, not_allowed, similar};
