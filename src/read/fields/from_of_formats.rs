//! Fields made of what single formats hold: pictures, sounds, arrays, tokens.

use crate::read::ColumnRef;

use super::array::Array;
use super::audio::Audio;
use super::codec::Codec;
use super::field::Field;
use super::image::Image;
use super::targets::{Boxes, Keypoints};
use super::tokenizer::Tokenizer;

macro_rules! of_codec {
    ($what:ident, $codec:expr) => {
        impl $what {
            /// With the field to decode.
            #[must_use]
            pub fn from(self, field: impl Into<ColumnRef>) -> Field {
                Field::from(self.into(), field)
            }
        }

        impl From<$what> for Field {
            fn from(what: $what) -> Self {
                Self::new($codec(what))
            }
        }
    };
}

of_codec!(Array, Codec::Array);
of_codec!(Audio, Codec::Audio);
of_codec!(Image, Codec::Image);
of_codec!(Tokenizer, Codec::Tokenizer);
of_codec!(Boxes, |boxes: Boxes| Codec::Targets(boxes.0));
of_codec!(Keypoints, |keypoints: Keypoints| Codec::Targets(keypoints.0));
