use serde::{Deserialize, Serialize};

/// Order of an image's dimensions in the batch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PixelOrder {
    /// `[channels, height, width]`: one plane per channel, as in PyTorch and candle. The default.
    #[default]
    Nchw,
    /// `[height, width, channels]`: the channels of a pixel side by side, as in TensorFlow.
    Nhwc,
}
