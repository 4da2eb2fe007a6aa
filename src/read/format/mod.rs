//! Formats: their names, and how they are recognised, opened and described. [`table`] lists the built-in ones; users
//! add their own.

mod any;
mod check;
mod contract;
mod default_fields;
mod detect;
mod foretold;
mod inspection;
mod lookup;
mod many;
mod old;
mod opened;
mod source;
mod streamed;
mod table;

pub use check::{Check, Checks};
pub(crate) use check::{Checked, batch_size};
pub(in crate::read) use contract::format_has;
pub use contract::{Fields, Format, FormatOptions};
pub use foretold::Foretold;
pub use inspection::{ArrayFile, Details, InspectedRecord, Inspection, NamedCount};
pub(in crate::read) use opened::OpenOthers;
pub use opened::{Open, Opened};
pub use source::SourceConfig;
pub use streamed::Streamed;
pub use table::Formats;
pub(crate) use table::types;

pub(in crate::read) use default_fields::default_fields;
pub(in crate::read) use many::open as open_parts;
pub(crate) use source::{no_such_key, with_formats};
