use std::fmt;
use std::path::{Path, PathBuf};

use serde::de::value::MapAccessDeserializer;
use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};

use crate::error::Result;
use crate::read::Windows;

use super::prepared::Prepared;

/// Where a fitted recipe comes from.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(untagged)]
#[non_exhaustive]
pub enum PreparedConfig {
    /// A file that [`Prepared::save`] wrote.
    File(PathBuf),
    /// The content of such a file.
    Inline(Prepared),
}

impl PreparedConfig {
    /// # Errors
    ///
    /// Those of [`Prepared::load`].
    pub(crate) fn load(&self) -> Result<Prepared> {
        match self {
            Self::File(path) => Prepared::load(path),
            Self::Inline(prepared) => Ok(prepared.clone()),
        }
    }

    /// The windows of a recipe that is in the settings themselves; the outer `None` means a file.
    pub(crate) fn inline_windows(&self) -> Option<Option<&Windows>> {
        match self {
            Self::File(_) => None,
            Self::Inline(prepared) => Some(prepared.windows()),
        }
    }

    pub(crate) fn path(&self) -> Option<&Path> {
        match self {
            Self::File(path) => Some(path),
            Self::Inline(_) => None,
        }
    }

    pub(crate) fn path_mut(&mut self) -> Option<&mut PathBuf> {
        match self {
            Self::File(path) => Some(path),
            Self::Inline(_) => None,
        }
    }
}

impl<'de> Deserialize<'de> for PreparedConfig {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Fitted;

        impl<'de> Visitor<'de> for Fitted {
            type Value = PreparedConfig;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("the file of a fitted recipe, or its contents")
            }

            fn visit_str<E>(self, path: &str) -> Result<PreparedConfig, E> {
                Ok(PreparedConfig::File(path.into()))
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<PreparedConfig, A::Error> {
                Prepared::deserialize(MapAccessDeserializer::new(map)).map(PreparedConfig::Inline)
            }
        }

        deserializer.deserialize_any(Fitted)
    }
}
