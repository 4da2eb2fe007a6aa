use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::error::{Error, ErrorKind, Result};

/// Order of an image's dimensions in the batch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[expect(clippy::exhaustive_enums, reason = "there are two")]
pub enum PixelOrder {
    /// `[channels, height, width]`: one plane per channel, as in PyTorch and candle. The default.
    #[default]
    Nchw,
    /// `[height, width, channels]`: the channels of a pixel side by side, as in TensorFlow.
    Nhwc,
}

impl FromStr for PixelOrder {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self> {
        match name {
            "nchw" => Ok(Self::Nchw),
            "nhwc" => Ok(Self::Nhwc),
            _ => Err(Error::new(ErrorKind::Config, format!("the order is \"nchw\" or \"nhwc\", not {name:?}"))),
        }
    }
}
