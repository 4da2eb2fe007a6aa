use std::fmt;

use serde::de::value::MapAccessDeserializer;
use serde::de::{Error as _, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};

use crate::decode::PixelOrder;
use crate::normalise::NormaliserConfig;

use super::{Conversion, FloatType};

/// All keys that a table of any kind may have.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Table {
    image: Option<FloatType>,
    scale: Option<f32>,
    one_hot: Option<usize>,
    dense: Option<usize>,
    to: Option<FloatType>,
    order: Option<PixelOrder>,
    from_order: Option<PixelOrder>,
    normalise: Option<NormaliserConfig>,
    flip_by: Option<String>,
    bias: Option<f32>,
    indices: Option<String>,
    masked_by: Option<String>,
}

impl Table {
    fn conversion(self) -> Result<Conversion, String> {
        let of_images = [
            ("order", self.order.is_some()),
            ("from_order", self.from_order.is_some()),
            ("normalise", self.normalise.is_some()),
            ("flip_by", self.flip_by.is_some()),
        ];
        let of_sparse = [("indices", self.indices.is_some()), ("masked_by", self.masked_by.is_some())];
        let (to, bias) = ([("to", self.to.is_some())], [("bias", self.bias.is_some())]);
        let float = self.to.unwrap_or_default();
        let none = |kind: &str, keys: &[&[(&str, bool)]]| match keys.concat().iter().find(|(_, is_given)| *is_given) {
            Some((key, _)) => Err(format!("`{key}` does not go with `{kind}`")),
            None => Ok(()),
        };
        match (self.image, self.scale, self.one_hot, self.dense) {
            (Some(to_image), None, None, None) => {
                none("image", &[&to, &bias, &of_sparse])?;
                let mut image = Conversion::image(to_image).order(self.order.unwrap_or_default());
                if let Some(order) = self.from_order {
                    image = image.from_order(order);
                }
                if let Some(normaliser) = self.normalise {
                    image = image.normalise(normaliser.load().map_err(|error| error.to_string())?);
                }
                if let Some(tensor) = self.flip_by {
                    image = image.flip_by(tensor);
                }
                Ok(image.into())
            }
            (None, Some(scale), None, None) => {
                none("scale", &[&of_images, &of_sparse])?;
                Ok(Conversion::Scale { to: float, scale, bias: self.bias.unwrap_or(0.0) })
            }
            (None, None, Some(classes), None) => {
                none("one_hot", &[&of_images, &bias, &of_sparse])?;
                Ok(Conversion::OneHot { to: float, classes })
            }
            (None, None, None, Some(columns)) => {
                none("dense", &[&of_images, &bias])?;
                let indices = self.indices.ok_or("`dense` needs `indices`, the tensor of the columns' numbers")?;
                let dense = Conversion::dense(float, columns, indices);
                Ok(match self.masked_by {
                    Some(mask) => dense.masked_by(mask).into(),
                    None => dense.into(),
                })
            }
            _ => Err("a conversion has one of `image`, `scale`, `one_hot` and `dense`".to_owned()),
        }
    }
}

impl<'de> Deserialize<'de> for Conversion {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Conversions;

        impl<'de> Visitor<'de> for Conversions {
            type Value = Conversion;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(
                    "an element type for images of bytes, or a table with `image`, `scale`, `one_hot` or `dense`",
                )
            }

            fn visit_str<E: serde::de::Error>(self, name: &str) -> Result<Conversion, E> {
                FloatType::deserialize(serde::de::value::StrDeserializer::new(name))
                    .map(|to| Conversion::image(to).into())
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Conversion, A::Error> {
                let table = Table::deserialize(MapAccessDeserializer::new(map))?;
                table.conversion().map_err(A::Error::custom)
            }
        }

        deserializer.deserialize_any(Conversions)
    }
}

#[cfg(all(test, not(ringfeed_loom)))]
mod tests {
    use super::*;
    use crate::normalise::Normaliser;

    fn read(text: &str) -> Result<Conversion, String> {
        serde_json::from_str(text).map_err(|error| error.to_string())
    }

    #[test]
    fn tables_say_what_the_builders_say() {
        let image = Conversion::image(FloatType::F16);
        assert_eq!(read(r#""f16""#), Ok(image.clone().into()));
        let all =
            image.order(PixelOrder::Nhwc).from_order(PixelOrder::Nchw).normalise(Normaliser::imagenet()).flip_by("f");
        let text =
            r#"{"image": "f16", "order": "nhwc", "from_order": "nchw", "normalise": "imagenet", "flip_by": "f"}"#;
        assert_eq!(read(text), Ok(all.into()));
        let scale = Conversion::Scale { to: FloatType::F32, scale: 0.5, bias: -1.0 };
        assert_eq!(read(r#"{"scale": 0.5, "bias": -1}"#), Ok(scale));
        let one_hot = Conversion::OneHot { to: FloatType::Bf16, classes: 10 };
        assert_eq!(read(r#"{"one_hot": 10, "to": "bf16"}"#), Ok(one_hot));
        let dense = Conversion::dense(FloatType::F32, 2000, "at").masked_by("mask");
        assert_eq!(read(r#"{"dense": 2000, "indices": "at", "masked_by": "mask"}"#), Ok(dense.into()));
    }

    #[test]
    fn what_is_wrong_is_named() {
        for (text, words) in [
            (r#""f64""#, "expected one of `f32`, `f16`, `bf16`"),
            (r#"{"image": "f16", "normalize": "imagenet"}"#, "unknown field `normalize`"),
            (r#"{"one_hot": 3, "bias": 1}"#, "`bias` does not go with `one_hot`"),
            (r#"{"image": "f16", "scale": 2}"#, "one of `image`, `scale`, `one_hot` and `dense`"),
            (r#"{"dense": 5}"#, "needs `indices`"),
            ("16", "an element type for images of bytes"),
        ] {
            let error = read(text).unwrap_err();
            assert!(error.contains(words), "{error}");
        }
    }
}
