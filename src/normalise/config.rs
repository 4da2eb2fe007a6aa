use std::fmt;
use std::path::PathBuf;

use serde::de::value::MapAccessDeserializer;
use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};

use crate::error::{Result, missing_path};
use crate::tree::not_allowed;

use super::Normaliser;

/// Where a normaliser comes from. In settings, `"imagenet"` and `"image_scale"` stand for the parameters of
/// [`Normaliser::imagenet`] and [`Normaliser::image_scale`]; any other text is the path of a file (also
/// `"./imagenet"`).
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(untagged)]
#[non_exhaustive]
pub enum NormaliserConfig {
    /// A file that [`Normaliser::save`] wrote.
    File(PathBuf),
    /// Its parameters.
    Inline(Normaliser),
}

impl<'de> Deserialize<'de> for NormaliserConfig {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Normalisers;

        impl<'de> Visitor<'de> for Normalisers {
            type Value = NormaliserConfig;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("\"imagenet\", \"image_scale\", a file, or a table with its kind and parameters")
            }

            fn visit_str<E>(self, text: &str) -> Result<NormaliserConfig, E> {
                Ok(match text {
                    "imagenet" => NormaliserConfig::Inline(Normaliser::imagenet()),
                    "image_scale" => NormaliserConfig::Inline(Normaliser::image_scale()),
                    path => NormaliserConfig::File(path.into()),
                })
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<NormaliserConfig, A::Error> {
                Normaliser::deserialize(MapAccessDeserializer::new(map)).map(NormaliserConfig::Inline)
            }
        }

        deserializer.deserialize_any(Normalisers)
    }
}

impl NormaliserConfig {
    /// Faults that can be found without reading a file.
    pub(crate) fn faults(&self) -> Vec<String> {
        match self {
            Self::Inline(normaliser) => normaliser.faults(),
            Self::File(path) if path.exists() => Vec::new(),
            // A name without a folder or an ending is hardly a file.
            Self::File(path) if path.extension().is_none() && path.components().count() == 1 => {
                let no_name = not_allowed(&path.to_string_lossy(), &["imagenet", "image_scale"]);
                vec![format!("{no_name}, or the path of a file; no such file exists")]
            }
            Self::File(path) => vec![format!("{path:?}: {}", missing_path(path).message())],
        }
    }

    /// The normaliser itself.
    ///
    /// # Errors
    ///
    /// Those of [`Normaliser::load`].
    pub(crate) fn load(&self) -> Result<Normaliser> {
        match self {
            Self::Inline(normaliser) => Ok(normaliser.clone()),
            Self::File(path) => Normaliser::load(path),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_misspelt_name_is_not_taken_for_a_file() {
        let fault = |text: &str| NormaliserConfig::File(text.into()).faults().remove(0);
        assert!(fault("imagnet").contains("did you mean \"imagenet\"?"), "{}", fault("imagnet"));
        // A text that begins like a key would be taken for one.
        assert!(fault("no-folder/fitted.json").starts_with("\"no-folder/fitted.json\": no such"));
    }
}
