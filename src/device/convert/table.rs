use std::fmt;

use serde::de::value::MapAccessDeserializer;
use serde::de::{Error as _, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};

use crate::decode::PixelOrder;
use crate::dtype::DType;
use crate::normalise::{Normaliser, NormaliserConfig};
use crate::transform::Operation;

use super::FloatType;

/// The transforms of one tensor on a device, in one table: a short form for settings in which tensors already have
/// names.
///
/// In settings it is an element type (for images of bytes) or a table: `{ image = "f16", order, from_order, normalise,
/// flip_by }`, `{ scale = 0.001, bias, to }`, `{ one_hot = 10, to }`, or `{ dense = 2000, indices = "columns",
/// masked_by, to }`. Images become `[channels, height, width]` unless `order` says otherwise.
#[derive(Clone, Debug, PartialEq)]
pub struct Conversion(Vec<Operation>);

impl Conversion {
    /// The members of the list for the tensor of this name.
    pub(crate) fn of(self, name: &str) -> Vec<Operation> {
        let named = |mut operation: Operation| {
            if let Operation::Cast { tensor, .. }
            | Operation::Normalise { tensor, .. }
            | Operation::OneHot { tensor, .. }
            | Operation::Layout { tensor, .. }
            | Operation::Flip { tensor, .. }
            | Operation::Dense { tensor, .. } = &mut operation
            {
                name.clone_into(tensor);
            }
            operation
        };
        self.0.into_iter().map(named).collect()
    }
}

/// All keys of all kinds of tables.
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

/// The name of the tensor does not matter.
fn cast(to: FloatType) -> Operation {
    Operation::Cast { tensor: String::new(), dtype: to.into() }
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
        let (float, tensor) = (self.to.unwrap_or_default(), String::new());
        let none = |kind: &str, keys: &[&[(&str, bool)]]| match keys.concat().iter().find(|(_, is_given)| *is_given) {
            Some((key, _)) => Err(format!("`{key}` does not go with `{kind}`")),
            None => Ok(()),
        };
        match (self.image, self.scale, self.one_hot, self.dense) {
            (Some(to_image), None, None, None) => {
                none("image", &[&to, &bias, &of_sparse])?;
                let (order, from) = (self.order.unwrap_or_default(), self.from_order);
                let flip = self.flip_by.map(|by| Operation::Flip { tensor: tensor.clone(), by, order: from });
                let laid_out = [cast(to_image), Operation::Layout { tensor: tensor.clone(), order, from }];
                let normalise = self.normalise.map(|normaliser| Operation::Normalise { tensor, normaliser });
                Ok(Conversion(flip.into_iter().chain(laid_out).chain(normalise).collect()))
            }
            (None, Some(scale), None, None) => {
                none("scale", &[&of_images, &of_sparse])?;
                let linear = Normaliser::Linear { scale: scale.into(), bias: self.bias.unwrap_or(0.0).into() };
                let normaliser = NormaliserConfig::Inline(linear);
                Ok(Conversion(vec![cast(FloatType::F32), Operation::Normalise { tensor, normaliser }, cast(float)]))
            }
            (None, None, Some(classes), None) => {
                none("one_hot", &[&of_images, &bias, &of_sparse])?;
                Ok(Conversion(vec![Operation::OneHot { tensor, classes: Some(classes), dtype: float.into() }]))
            }
            (None, None, None, Some(columns)) => {
                none("dense", &[&of_images, &bias])?;
                let indices = self.indices.ok_or("`dense` needs `indices`, the tensor of the columns' numbers")?;
                let (mask, dtype) = (self.masked_by, DType::from(float));
                Ok(Conversion(vec![Operation::Dense { tensor, indices, columns, mask, dtype }]))
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
                let to = FloatType::deserialize(serde::de::value::StrDeserializer::new(name))?;
                let (tensor, order) = (String::new(), PixelOrder::default());
                Ok(Conversion(vec![cast(to), Operation::Layout { tensor, order, from: None }]))
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

    fn read(text: &str) -> Result<Conversion, String> {
        serde_json::from_str(text).map_err(|error| error.to_string())
    }

    fn operations(text: &str) -> Vec<Operation> {
        read(text).expect("a conversion").of("x")
    }

    #[test]
    fn tables_say_what_the_list_says() {
        use crate::transform::{cast, layout, normalise};

        assert_eq!(operations(r#""f16""#), [cast("x", DType::F16), layout("x", PixelOrder::Nchw)]);
        let text =
            r#"{"image": "f16", "order": "nhwc", "from_order": "nchw", "normalise": "imagenet", "flip_by": "f"}"#;
        let (tensor, from) = ("x".to_owned(), Some(PixelOrder::Nchw));
        let all = [
            Operation::Flip { tensor: tensor.clone(), by: "f".to_owned(), order: from },
            cast("x", DType::F16),
            Operation::Layout { tensor: tensor.clone(), order: PixelOrder::Nhwc, from },
            normalise("x", Normaliser::imagenet()),
        ];
        assert_eq!(operations(text), all);
        let linear = normalise("x", Normaliser::Linear { scale: 0.5, bias: -1.0 });
        assert_eq!(operations(r#"{"scale": 0.5, "bias": -1}"#), [cast("x", DType::F32), linear, cast("x", DType::F32)]);
        let one_hot = Operation::OneHot { tensor: tensor.clone(), classes: Some(10), dtype: DType::Bf16 };
        assert_eq!(operations(r#"{"one_hot": 10, "to": "bf16"}"#), [one_hot]);
        let (indices, mask) = ("at".to_owned(), Some("mask".to_owned()));
        let dense = Operation::Dense { tensor, indices, columns: 2000, mask, dtype: DType::F32 };
        assert_eq!(operations(r#"{"dense": 2000, "indices": "at", "masked_by": "mask"}"#), [dense]);
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
