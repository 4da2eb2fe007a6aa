use std::collections::HashSet;
use std::fmt;

use serde::de::value::{BorrowedStrDeserializer, MapAccessDeserializer};
use serde::de::{
    DeserializeSeed, EnumAccess, Error as _, IntoDeserializer, MapAccess, SeqAccess, VariantAccess, Visitor,
};
use serde::{Deserialize, Deserializer, forward_to_deserialize_any};

use super::words::Fault;

/// One step from a table or list to something in it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Step {
    Key(String),
    Index(usize),
}

/// The content of a settings file in any format.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Node {
    Null,
    Flag(bool),
    Unsigned(u64),
    Signed(i64),
    Fraction(f64),
    Text(String),
    List(Vec<Self>),
    Table(Vec<(String, Self)>),
}

/// The key under which the parser of TOML hands over a date or time, as text.
const TOML_DATE: &str = "$__toml_private_datetime";

/// The keys that give the kind of a table.
pub(crate) const TAGS: [&str; 2] = ["format", "kind"];

impl Node {
    pub(crate) fn at(&mut self, path: &[Step]) -> Option<&mut Self> {
        path.iter().try_fold(self, |node, step| match (node, step) {
            (Self::Table(entries), Step::Key(key)) => {
                entries.iter_mut().find(|(own, _)| own == key).map(|(_, node)| node)
            }
            (Self::List(items), Step::Index(index)) => items.get_mut(*index),
            _ => None,
        })
    }

    /// The entry that gives the kind.
    pub(crate) fn tag(&self) -> Option<usize> {
        let Self::Table(entries) = self else { return None };
        entries.iter().position(|(key, _)| TAGS.contains(&key.as_str()))
    }

    /// Whether this is a list without lists or tables in it.
    pub(crate) fn is_list_of_values(&self) -> bool {
        let is_value = |node: &Self| !matches!(node, Self::List(_) | Self::Table(_));
        matches!(self, Self::List(items) if items.iter().all(is_value))
    }

    /// Whether this is not a name with its content, which would be a table with one key.
    pub(crate) fn is_long_table(&self) -> bool {
        matches!(self, Self::Table(entries) if entries.len() > 1)
    }
}

impl<'de> Deserialize<'de> for Node {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Nodes;

        impl<'de> Visitor<'de> for Nodes {
            type Value = Node;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("settings")
            }

            fn visit_unit<E>(self) -> Result<Node, E> {
                Ok(Node::Null)
            }

            fn visit_bool<E>(self, value: bool) -> Result<Node, E> {
                Ok(Node::Flag(value))
            }

            fn visit_u64<E>(self, value: u64) -> Result<Node, E> {
                Ok(Node::Unsigned(value))
            }

            fn visit_i64<E>(self, value: i64) -> Result<Node, E> {
                Ok(u64::try_from(value).map_or(Node::Signed(value), Node::Unsigned))
            }

            /// Beyond 64 bits: no setting is as large, and each says what it may be.
            fn visit_i128<E>(self, value: i128) -> Result<Node, E> {
                Ok(Node::Fraction(value as f64))
            }

            fn visit_u128<E>(self, value: u128) -> Result<Node, E> {
                Ok(Node::Fraction(value as f64))
            }

            fn visit_f64<E>(self, value: f64) -> Result<Node, E> {
                Ok(Node::Fraction(value))
            }

            fn visit_str<E>(self, value: &str) -> Result<Node, E> {
                Ok(Node::Text(value.to_owned()))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Node, A::Error> {
                let mut list = Vec::new();
                while let Some(item) = items.next_element()? {
                    list.push(item);
                }
                Ok(Node::List(list))
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Node, A::Error> {
                let (mut entries, mut seen) = (Vec::new(), HashSet::new());
                while let Some((key, value)) = map.next_entry::<String, Node>()? {
                    if !seen.insert(key.clone()) {
                        return Err(A::Error::custom(format!("{key:?} is given twice")));
                    }
                    entries.push((key, value));
                }
                match entries.as_mut_slice() {
                    [(key, date @ Node::Text(_))] if key == TOML_DATE => Ok(std::mem::replace(date, Node::Null)),
                    _ => Ok(Node::Table(entries)),
                }
            }
        }

        deserializer.deserialize_any(Nodes)
    }
}

/// The items of a list that were not read yet. It generates less code per type than `serde`'s own, which works for any
/// iterator.
struct Items<'de>(&'de [Node]);

impl<'de> SeqAccess<'de> for Items<'de> {
    type Error = Fault;

    fn next_element_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<Option<T::Value>, Fault> {
        let Some((first, rest)) = self.0.split_first() else { return Ok(None) };
        self.0 = rest;
        seed.deserialize(first).map(Some)
    }

    fn size_hint(&self) -> Option<usize> {
        Some(self.0.len())
    }
}

/// The entries of a table that were not read yet.
struct Entries<'de> {
    rest: &'de [(String, Node)],
    value: &'de Node,
}

impl<'de> Entries<'de> {
    fn new(rest: &'de [(String, Node)]) -> Self {
        Self { rest, value: &Node::Null }
    }
}

impl<'de> MapAccess<'de> for Entries<'de> {
    type Error = Fault;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, Fault> {
        let Some(((key, value), rest)) = self.rest.split_first() else { return Ok(None) };
        (self.rest, self.value) = (rest, value);
        seed.deserialize(BorrowedStrDeserializer::new(key)).map(Some)
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, Fault> {
        seed.deserialize(self.value)
    }

    fn size_hint(&self) -> Option<usize> {
        Some(self.rest.len())
    }
}

/// The error if a visitor for a known number of elements finds more.
#[cold]
fn left_over(all: usize, left: usize, place: &str) -> Fault {
    let read = all - left;
    Fault::invalid_length(all, &format!("{read} element{} in {place}", if read == 1 { "" } else { "s" }).as_str())
}

impl<'de> Deserializer<'de> for &'de Node {
    type Error = Fault;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        match self {
            Node::Null => visitor.visit_unit(),
            Node::Flag(value) => visitor.visit_bool(*value),
            Node::Unsigned(value) => visitor.visit_u64(*value),
            Node::Signed(value) => visitor.visit_i64(*value),
            Node::Fraction(value) => visitor.visit_f64(*value),
            Node::Text(value) => visitor.visit_borrowed_str(value),
            Node::List(items) => {
                let mut rest = Items(items);
                let value = visitor.visit_seq(&mut rest)?;
                if rest.0.is_empty() { Ok(value) } else { Err(left_over(items.len(), rest.0.len(), "sequence")) }
            }
            Node::Table(entries) => {
                let mut rest = Entries::new(entries);
                let value = visitor.visit_map(&mut rest)?;
                if rest.rest.is_empty() { Ok(value) } else { Err(left_over(entries.len(), rest.rest.len(), "map")) }
            }
        }
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        match self {
            Node::Null => visitor.visit_none(),
            _ => visitor.visit_some(self),
        }
    }

    /// Settings with names are never written as a list, whatever their order in the program is.
    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Fault> {
        match self {
            Node::List(items) => Err(Fault::no_table(items.len())),
            _ => self.deserialize_any(visitor),
        }
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(self, _: &'static str, visitor: V) -> Result<V::Value, Fault> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        name: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Fault> {
        match self {
            Node::Text(name) => visitor.visit_enum(Named(name)),
            Node::Table(entries) if entries.len() == 1 => {
                MapAccessDeserializer::new(Entries::new(entries)).deserialize_enum(name, variants, visitor)
            }
            other => Err(Fault::no_choice(other.unexpected(), variants)),
        }
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit unit_struct seq tuple
        tuple_struct map identifier ignored_any
    }
}

impl Node {
    fn unexpected(&self) -> serde::de::Unexpected<'_> {
        use serde::de::Unexpected;
        match self {
            Self::Null => Unexpected::Unit,
            Self::Flag(value) => Unexpected::Bool(*value),
            Self::Unsigned(value) => Unexpected::Unsigned(*value),
            Self::Signed(value) => Unexpected::Signed(*value),
            Self::Fraction(value) => Unexpected::Float(*value),
            Self::Text(value) => Unexpected::Str(value),
            Self::List(_) => Unexpected::Seq,
            Self::Table(_) => Unexpected::Map,
        }
    }
}

/// One of several choices, given only by its name: all of its settings have their defaults.
struct Named<'de>(&'de str);

/// Nothing belongs to it.
const EMPTY: &Node = &Node::Table(Vec::new());

impl<'de> EnumAccess<'de> for Named<'de> {
    type Error = Fault;
    type Variant = Self;

    fn variant_seed<V: DeserializeSeed<'de>>(self, seed: V) -> Result<(V::Value, Self), Fault> {
        Ok((seed.deserialize(self.0.into_deserializer())?, self))
    }
}

impl<'de> VariantAccess<'de> for Named<'de> {
    type Error = Fault;

    fn unit_variant(self) -> Result<(), Fault> {
        Ok(())
    }

    fn newtype_variant_seed<T: DeserializeSeed<'de>>(self, seed: T) -> Result<T::Value, Fault> {
        seed.deserialize(EMPTY).map_err(|fault| fault.of_bare_name(self.0))
    }

    fn tuple_variant<V: Visitor<'de>>(self, _: usize, visitor: V) -> Result<V::Value, Fault> {
        EMPTY.deserialize_any(visitor).map_err(|fault| fault.of_bare_name(self.0))
    }

    fn struct_variant<V: Visitor<'de>>(self, _: &'static [&'static str], visitor: V) -> Result<V::Value, Fault> {
        EMPTY.deserialize_any(visitor).map_err(|fault| fault.of_bare_name(self.0))
    }
}
