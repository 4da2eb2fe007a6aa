//! Where bytes are, and the one way to them.

mod file;
mod gather;
mod gzip;
mod input;

pub(crate) use crate::files::open as open_file;
pub(crate) use file::{check_bytes, read_file};
pub(crate) use gather::Gathered;
pub(crate) use gzip::{Inflater, inflate_error};
pub use input::Access;
pub(crate) use input::{Input, Spool, prefetch};
