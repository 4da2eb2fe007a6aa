//! JSON (RFC 8259), read once from beginning to end without a copy: checks it, and finds the requested values. Nothing
//! is allocated per text.
//!
//! Reading order: `scan` (the end of each value), `wanted` (which values), `value` (from a value's text to a
//! [`Value`](super::Value)), `seen` (what values have in common).

mod scan;
#[cfg(feature = "formats")]
mod seen;
mod value;
mod wanted;

pub(super) use scan::Fault;
#[cfg(feature = "formats")]
pub(super) use seen::{Seen, each_leaf};
pub(super) use value::{Buffers, give, inner_of, unescape};
pub(super) use wanted::{Found, Wanted, missing_objects, steps, steps_to};
