//! JSON (RFC 8259), read from front to back without a copy of it: whether it is JSON, and where the values are that are
//! wanted. Nothing is allocated for a text.
//!
//! Reading order: `scan` (where each value ends), `wanted` (which values), `value` (from a value's text to a
//! [`Value`](super::Value)), `seen` (what values have in common).

mod scan;
mod seen;
mod value;
mod wanted;

pub(super) use scan::Fault;
pub(super) use seen::{Seen, each_leaf};
pub(super) use value::{give, inner_of, unescape};
pub(super) use wanted::{Found, Wanted, steps};
