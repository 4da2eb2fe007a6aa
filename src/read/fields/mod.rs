//! Fields: what each tensor of a sample is made of, in one language for all formats. `written` is their form in
//! settings.

#[cfg(feature = "formats")]
mod array;
#[cfg(feature = "formats")]
mod audio;
pub(crate) mod by_name;
mod codec;
mod faults;
mod field;
mod from;
#[cfg(feature = "formats")]
mod from_of_formats;
#[cfg(feature = "formats")]
mod geometries;
#[cfg(feature = "formats")]
mod image;
mod names;
mod numbers;
#[cfg_attr(not(feature = "formats"), path = "no_formats.rs")]
mod of_formats;
#[cfg(feature = "formats")]
mod of_options;
mod old;
mod origin;
mod others;
#[cfg(feature = "formats")]
mod targets;
mod text;
#[cfg(feature = "formats")]
mod tokenizer;
mod written;
#[cfg(feature = "formats")]
mod written_of_formats;

#[cfg(feature = "formats")]
pub use array::Array;
#[cfg(feature = "formats")]
pub use audio::Audio;
pub(crate) use by_name::ByName;
pub(crate) use codec::Codec;
pub(crate) use faults::{faults_of_fields, field_faults};
pub use field::Field;
#[cfg(feature = "formats")]
pub use image::Image;
pub use names::{Category, Class, Classes};
pub use numbers::{Numbers, Tokens};
pub(crate) use of_formats::{connect_sources, named_geometries};
pub(in crate::read) use of_formats::{example, no_column};
pub(crate) use old::{instead_of, old_among};
pub use origin::Origin;
pub(crate) use others::{ALL_OTHERS, taken, with_others, with_others_in};
#[cfg(feature = "formats")]
pub use targets::{BoxFormat, Boxes, Keypoints, PointFormat};
#[cfg(feature = "formats")]
pub(crate) use targets::{TargetFormat, Targets};
pub use text::Text;
#[cfg(feature = "formats")]
pub use tokenizer::Tokenizer;
