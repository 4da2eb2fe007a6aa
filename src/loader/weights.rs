//! Weights of mixed sources in settings.

use std::fmt;
use std::path::PathBuf;

use serde::de::{Error as _, MapAccess, SeqAccess, Visitor};
use serde::ser::SerializeMap;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Weights in proportion to which samples of several sources are drawn: one weight for each of the sources, or a table
/// of paths with their weights, instead of the sources.
///
/// ```
/// use ringfeed::LoaderConfig;
/// use ringfeed::settings::Mix;
///
/// let config: LoaderConfig = toml::from_str("shuffle = 42\nmix = { web = 0.7, books = 0.3 }").expect("the example is valid");
/// assert_eq!(config.mix, Mix::Paths(vec![("web".into(), 0.7), ("books".into(), 0.3)]));
/// ```
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Mix {
    /// One weight for each of the [sources](crate::LoaderConfig::sources). Without any, sources are read side by side.
    Weights(Vec<f64>),
    /// The sources by their paths, each with its weight. Their formats are detected.
    Paths(Vec<(PathBuf, f64)>),
}

impl Default for Mix {
    fn default() -> Self {
        Self::Weights(Vec::new())
    }
}

impl Mix {
    /// Whether no sources are mixed.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Number of sources that are mixed.
    pub fn len(&self) -> usize {
        self.weights().count()
    }

    /// The weights, in the order of the sources.
    pub fn weights(&self) -> impl Iterator<Item = f64> {
        let (weights, paths) = match self {
            Self::Weights(weights) => (weights.as_slice(), &[][..]),
            Self::Paths(paths) => (&[][..], paths.as_slice()),
        };
        weights.iter().copied().chain(paths.iter().map(|(_, weight)| *weight))
    }

    pub(super) fn paths_mut(&mut self) -> impl Iterator<Item = &mut PathBuf> {
        let paths = match self {
            Self::Weights(_) => &mut [][..],
            Self::Paths(paths) => paths.as_mut_slice(),
        };
        paths.iter_mut().map(|(path, _)| path)
    }
}

impl Serialize for Mix {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Weights(weights) => weights.serialize(serializer),
            Self::Paths(paths) => {
                let mut map = serializer.serialize_map(Some(paths.len()))?;
                for (path, weight) in paths {
                    map.serialize_entry(path, weight)?;
                }
                map.end()
            }
        }
    }
}

impl<'de> Deserialize<'de> for Mix {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Either;

        impl<'de> Visitor<'de> for Either {
            type Value = Mix;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a list of weights, one for each source, or a table of paths with their weights")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Mix, A::Error> {
                let mut weights = Vec::new();
                while let Some(weight) = list.next_element()? {
                    weights.push(weight);
                }
                Ok(Mix::Weights(weights))
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Mix, A::Error> {
                let mut paths: Vec<(PathBuf, f64)> = Vec::new();
                while let Some((path, weight)) = map.next_entry::<PathBuf, f64>()? {
                    if paths.iter().any(|(other, _)| *other == path) {
                        return Err(A::Error::custom(format!("{} is listed twice", path.display())));
                    }
                    paths.push((path, weight));
                }
                match paths.is_empty() {
                    true => Err(A::Error::custom("a table without a path; name at least one source with its weight")),
                    false => Ok(Mix::Paths(paths)),
                }
            }
        }

        deserializer.deserialize_any(Either)
    }
}
