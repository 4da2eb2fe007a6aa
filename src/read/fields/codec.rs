use crate::dtype::DType;
use crate::read::Longer;
use crate::read::outside::OutsideCodec;

#[cfg(feature = "formats")]
use super::array::Array;
#[cfg(feature = "formats")]
use super::audio::Audio;
#[cfg(feature = "formats")]
use super::image::Image;
use super::numbers::Numbers;
#[cfg(feature = "formats")]
use super::targets::Targets;
#[cfg(feature = "formats")]
use super::tokenizer::Tokenizer;

/// What the values of a field become.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Codec {
    #[cfg(feature = "formats")]
    Image(Image),
    #[cfg(feature = "formats")]
    Audio(Audio),
    Class {
        names: Option<Vec<String>>,
        one_hot: bool,
        dtype: Option<DType>,
    },
    Category {
        names: Option<Vec<Vec<String>>>,
        missing: Option<i64>,
        dtype: Option<DType>,
    },
    Numbers(Numbers),
    Text {
        max_len: usize,
        longer: Longer,
    },
    #[cfg(feature = "formats")]
    Tokenizer(Tokenizer),
    #[cfg(feature = "formats")]
    Targets(Targets),
    #[cfg(feature = "formats")]
    Array(Array),
    /// Settings can't name it.
    Outside(OutsideCodec),
}
