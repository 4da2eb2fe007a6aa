//! Well-known lists of operations.

use serde::de::value::MapDeserializer;
use serde::{Deserialize, Serialize};

use super::{Edge, ImageAugment, horizontal_flip, random_resized_crop};

/// Well-known lists of operations from papers, by name: in settings `augment = "simclr"` instead of a list.
///
/// Each field of a sample draws its own random numbers (unless fields share a
/// [geometry](crate::field::Image::geometry)), so that several fields of one image are several views of it. The image
/// is decoded once for all of them.
///
/// ```no_run
/// use ringfeed::Loader;
/// use ringfeed::field::Image;
/// use ringfeed::images::{AugmentRecipe, ResizeFilter};
///
/// let view = |recipe, size| Image::rgb(size, size).resize(ResizeFilter::Bicubic).augment(recipe).from("image");
/// let loader = Loader::open("photos")?
///     .field("global_1", view(AugmentRecipe::DinoGlobal, 224))
///     .field("global_2", view(AugmentRecipe::DinoGlobal2, 224))
///     .field("local_1", view(AugmentRecipe::DinoLocal, 96))
///     .field("local_2", view(AugmentRecipe::DinoLocal, 96));
/// # Ok::<(), ringfeed::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum AugmentRecipe {
    /// A random resized crop and a horizontal flip.
    Imagenet,
    /// A crop after black padding of 4 pixels, and a horizontal flip.
    Cifar,
    /// The views of SimCLR (Chen and others, 2020) at strength 1: crop, flip, colour jitter, grey and blur.
    Simclr,
    /// The first global crop of DINO (Caron and others, 2021): 40 to 100 % of the area, always blurred. The paper
    /// resizes by a [bicubic](crate::images::ResizeFilter::Bicubic) filter; the blur's filter has the 9 taps of DINOv2.
    DinoGlobal,
    /// The second global crop of DINO: rarely blurred, sometimes solarised.
    #[serde(rename = "dino_global_2")]
    DinoGlobal2,
    /// A local crop of DINO: 5 to 40 % of the area, usually of 96 x 96 pixels.
    DinoLocal,
}

impl AugmentRecipe {
    /// Its operations.
    pub fn operations(self) -> Vec<ImageAugment> {
        let crop = |scale| ImageAugment::RandomResizedCrop { scale, ratio: super::crop_ratio() };
        let dino = |scale, blur| {
            let (brightness, contrast, saturation, hue) = (0.4, 0.4, 0.2, 0.1);
            vec![
                crop(scale),
                horizontal_flip(),
                ImageAugment::ColourJitter { brightness, contrast, saturation, hue, probability: 0.8 },
                ImageAugment::RandomGrey { probability: 0.2 },
                ImageAugment::GaussianBlur { kernel: Some(9), sigma: super::blur_sigma(), probability: blur },
            ]
        };
        match self {
            Self::Imagenet => vec![random_resized_crop(), horizontal_flip()],
            Self::Cifar => {
                let crop = ImageAugment::RandomCrop { padding: 4, edge: Edge::Constant, fill: [0; 3] };
                vec![crop, horizontal_flip()]
            }
            Self::Simclr => {
                let (brightness, contrast, saturation, hue) = (0.8, 0.8, 0.8, 0.2);
                vec![
                    random_resized_crop(),
                    horizontal_flip(),
                    ImageAugment::ColourJitter { brightness, contrast, saturation, hue, probability: 0.8 },
                    ImageAugment::RandomGrey { probability: 0.2 },
                    ImageAugment::GaussianBlur { kernel: None, sigma: super::blur_sigma(), probability: 0.5 },
                ]
            }
            Self::DinoGlobal => dino((0.4, 1.0), 1.0),
            Self::DinoGlobal2 => {
                let mut operations = dino((0.4, 1.0), 0.1);
                operations.push(ImageAugment::Solarise { threshold: 128, probability: 0.2 });
                operations
            }
            Self::DinoLocal => dino((0.05, 0.4), 0.5),
        }
    }
}

impl IntoIterator for AugmentRecipe {
    type Item = ImageAugment;
    type IntoIter = std::vec::IntoIter<ImageAugment>;

    fn into_iter(self) -> Self::IntoIter {
        self.operations().into_iter()
    }
}

/// Whether settings know an operation on images by this name.
pub(crate) fn is_operation(name: &str) -> bool {
    let kind = MapDeserializer::<_, serde::de::value::Error>::new(std::iter::once(("kind", name)));
    let operation = ImageAugment::deserialize(kind);
    operation.map_or_else(|error| !error.to_string().starts_with("unknown variant"), |_| true)
}

/// Reads operations by a recipe's name, or as a list.
pub(crate) fn named<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Vec<ImageAugment>, D::Error> {
    struct Named;

    impl<'de> serde::de::Visitor<'de> for Named {
        type Value = Vec<ImageAugment>;

        fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            f.write_str("a list of operations, or the name of a recipe such as \"simclr\"")
        }

        fn visit_str<E: serde::de::Error>(self, name: &str) -> Result<Self::Value, E> {
            if is_operation(name) {
                return Err(E::custom(format!("{name:?} is an operation; write a list of them: [{name:?}]")));
            }
            AugmentRecipe::deserialize(serde::de::value::StrDeserializer::new(name)).map(AugmentRecipe::operations)
        }

        fn visit_seq<A: serde::de::SeqAccess<'de>>(self, list: A) -> Result<Self::Value, A::Error> {
            Vec::deserialize(serde::de::value::SeqAccessDeserializer::new(list))
        }
    }

    deserializer.deserialize_any(Named)
}
