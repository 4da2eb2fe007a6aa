//! Fields made of what single formats hold: pictures, sounds, arrays, tokens.

use crate::read::ColumnRef;

use super::array::Array;
use super::audio::Audio;
use super::codec::Codec;
use super::field::Field;
use super::image::Image;
use super::targets::{Boxes, Keypoints};
use super::tokenizer::Tokenizer;

impl Array {
    /// The field that it comes from.
    pub fn from(self, field: impl Into<ColumnRef>) -> Field {
        Field::from(self.into(), field)
    }
}

impl Tokenizer {
    /// The field that holds the text.
    #[must_use]
    pub fn from(self, field: impl Into<ColumnRef>) -> Field {
        Field::from(self.into(), field)
    }
}

impl From<Array> for Field {
    fn from(array: Array) -> Self {
        Self::new(Codec::Array(array))
    }
}

impl From<Tokenizer> for Field {
    fn from(tokenizer: Tokenizer) -> Self {
        Self::new(Codec::Tokenizer(tokenizer))
    }
}

macro_rules! of_options {
    ($what:ident) => {
        impl $what {
            /// The field that it comes from.
            #[must_use]
            pub fn from(self, field: impl Into<ColumnRef>) -> Field {
                Field::from(self.into(), field)
            }
        }

        impl From<$what> for Field {
            fn from(field: $what) -> Self {
                Self::new(Codec::$what(field))
            }
        }
    };
}

of_options!(Image);
of_options!(Audio);

macro_rules! of_targets {
    ($what:ident) => {
        impl $what {
            /// The field that they come from.
            #[must_use]
            pub fn from(self, field: impl Into<ColumnRef>) -> Field {
                Field::from(self.into(), field)
            }
        }

        impl From<$what> for Field {
            fn from(targets: $what) -> Self {
                Self::new(Codec::Targets(targets.0))
            }
        }
    };
}

of_targets!(Boxes);
of_targets!(Keypoints);
