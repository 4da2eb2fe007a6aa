use serde::{Deserialize, Serialize};

use crate::decode::ImageOptions;
use crate::read::{ColumnRef, Longer};

/// Boxes or points of a picture.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Targets {
    pub(crate) most: usize,
    pub(crate) format: TargetFormat,
    /// The tensor's format; `None` for that of the values.
    pub(crate) result_format: Option<TargetFormat>,
    pub(crate) geometry: Option<String>,
    pub(crate) size_from: Option<[ColumnRef; 2]>,
    pub(crate) longer: Longer,
    pub(crate) min_size: f64,
    /// The picture's options, once it is found.
    pub(crate) picture: Option<ImageOptions>,
}

/// What the four numbers of a box are: in pixels of the upright picture, or relative to its width and height, where 1
/// is the full width or height.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum BoxFormat {
    /// Left, top, right, bottom, as in Pascal VOC. The default.
    #[default]
    Xyxy,
    /// Left, top, width, height, as in COCO.
    Xywh,
    /// Centre (x, y), width, height.
    Cxcywh,
    /// Left, top, right, bottom, 0 to 1.
    RelativeXyxy,
    /// Left, top, width, height, 0 to 1.
    RelativeXywh,
    /// Centre (x, y), width, height, 0 to 1, as in YOLO and DETR.
    RelativeCxcywh,
}

/// What the two numbers of a point are: in pixels of the upright picture, or relative to its width and height.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum PointFormat {
    /// From the left, from the top. The default.
    #[default]
    Xy,
    /// The same, 0 to 1.
    RelativeXy,
}

/// What the numbers of boxes or points mean.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(
    untagged,
    expecting = "expected xyxy, xywh or cxcywh for boxes, xy for key points, or one of these with relative_ before it"
)]
pub(crate) enum TargetFormat {
    Boxes(BoxFormat),
    Points(PointFormat),
}

impl TargetFormat {
    /// Number of numbers that each has.
    pub(crate) fn width(self) -> usize {
        match self {
            Self::Boxes(_) => 4,
            Self::Points(_) => 2,
        }
    }

    /// Whether the numbers are relative to the picture's width and height.
    pub(crate) fn is_relative(self) -> bool {
        matches!(
            self,
            Self::Boxes(BoxFormat::RelativeXyxy | BoxFormat::RelativeXywh | BoxFormat::RelativeCxcywh)
                | Self::Points(PointFormat::RelativeXy)
        )
    }
}

/// Boxes that are transformed like their picture: cropped, resized, flipped and rotated, with the same results as
/// torchvision's `tv_tensors.BoundingBoxes`.
///
/// The tensor is `f32 [most, 4]` in pixels of the resulting picture (or [relative](BoxFormat) to it), padded with
/// zeros, with a mask (`u8`, suffix `_mask`). A box is clipped at the picture's edge. If less than
/// [`min_size`](Self::min_size) of it is left, its mask is 0 and it keeps its position, so that each label still
/// belongs to its box. The values are a list of numbers, or of lists of four.
///
/// They belong to the picture with the same [`geometry`](Self::geometry), or to the only picture. If the picture is in
/// the same record, its size is read from its header. For a picture in a file of its own, use
/// [`size_from`](Self::size_from).
///
/// ```no_run
/// use ringfeed::field::{BoxFormat, Boxes, Image};
/// use ringfeed::Loader;
/// use ringfeed::images::AugmentRecipe;
///
/// let loader = Loader::open("shards")?
///     .field("image", Image::rgb(512, 512).augment(AugmentRecipe::Imagenet).geometry("scene").from("jpg"))
///     .field("boxes", Boxes::new(32).format(BoxFormat::Xywh).geometry("scene").from("json:/boxes"))
///     .field("of_detr", Boxes::new(32).format(BoxFormat::Xywh).result_format(BoxFormat::RelativeCxcywh)
///         .geometry("scene").from("json:/boxes"));
/// # Ok::<(), ringfeed::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Boxes(pub(super) Targets);

/// Points that are transformed like their picture, as [`Boxes`] are: `f32 [most, 2]`, x and y in pixels or
/// [relative](PointFormat) to the picture. A point outside of the resulting picture is 0 in the mask.
#[derive(Clone, Debug, PartialEq)]
pub struct Keypoints(pub(super) Targets);

impl Boxes {
    /// At most this many boxes per picture. More make the record bad, unless they are [cut](Self::cut).
    pub fn new(most: usize) -> Self {
        Self(Targets::new(most, TargetFormat::Boxes(BoxFormat::default())))
    }

    /// A box with less than this width or height left, in pixels of the result, gets mask 0. Default: 1.
    #[must_use]
    pub fn min_size(mut self, pixels: f64) -> Self {
        self.0.min_size = pixels;
        self
    }
}

macro_rules! goes_with_a_picture {
    ($what:ident, $format:ident, $formats:path) => {
        impl $what {
            /// The format of the numbers in the data, and of the result unless [`result_format`](Self::result_format)
            /// is given.
            #[must_use]
            pub fn format(mut self, format: $format) -> Self {
                self.0.format = $formats(format);
                self
            }

            /// The format of the numbers in the tensor. Relative numbers are relative to the resulting picture.
            #[must_use]
            pub fn result_format(mut self, format: $format) -> Self {
                self.0.result_format = Some($formats(format));
                self
            }

            /// The geometry name of the picture that they belong to.
            #[must_use]
            pub fn geometry(mut self, name: impl Into<String>) -> Self {
                self.0.geometry = Some(name.into());
                self
            }

            /// The fields with width and height of the upright picture.
            #[must_use]
            pub fn size_from(mut self, width: impl Into<ColumnRef>, height: impl Into<ColumnRef>) -> Self {
                self.0.size_from = Some([width.into(), height.into()]);
                self
            }

            /// Leaves out the last ones if there are too many.
            #[must_use]
            pub fn cut(mut self) -> Self {
                self.0.longer = Longer::Cut;
                self
            }
        }
    };
}

goes_with_a_picture!(Boxes, BoxFormat, TargetFormat::Boxes);
goes_with_a_picture!(Keypoints, PointFormat, TargetFormat::Points);

impl Keypoints {
    /// At most this many points per picture. More make the record bad, unless they are [cut](Self::cut).
    pub fn new(most: usize) -> Self {
        Self(Targets::new(most, TargetFormat::Points(PointFormat::default())))
    }
}

impl Targets {
    pub(crate) fn new(most: usize, format: TargetFormat) -> Self {
        let longer = Longer::Error;
        let result_format = None;
        Self { most, format, result_format, geometry: None, size_from: None, longer, min_size: 1.0, picture: None }
    }
}
