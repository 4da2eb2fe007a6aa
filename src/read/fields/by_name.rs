//! Fields by the names of their tensors, in their order.

use std::fmt;

use serde::de::{MapAccess, Visitor};
use serde::ser::SerializeMap;
use serde::{Deserializer, Serialize, Serializer};

use super::Field;

pub(crate) fn serialize<S: Serializer>(fields: &[(String, Field)], serializer: S) -> Result<S::Ok, S::Error> {
    let mut map = serializer.serialize_map(Some(fields.len()))?;
    for (name, field) in fields {
        map.serialize_entry(name, field)?;
    }
    map.end()
}

pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<(String, Field)>, D::Error> {
    struct Named;

    impl<'de> Visitor<'de> for Named {
        type Value = Vec<(String, Field)>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a table of fields by the names of their tensors")
        }

        fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
            let mut fields: Self::Value = Vec::new();
            while let Some((name, field)) = map.next_entry::<String, Field>()? {
                if fields.iter().any(|(other, _)| *other == name) {
                    return Err(serde::de::Error::custom(format!("tensor {name:?} is given twice")));
                }
                fields.push((name, field));
            }
            Ok(fields)
        }
    }

    deserializer.deserialize_map(Named)
}

/// Fields by the names of their tensors, for writing.
pub(crate) struct ByName<'a>(pub(crate) &'a [(String, Field)]);

impl Serialize for ByName<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serialize(self.0, serializer)
    }
}
