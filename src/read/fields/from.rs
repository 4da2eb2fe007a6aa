//! Fields made of what they hold.

use super::codec::Codec;
use super::field::Field;
use super::names::{Category, Class, Classes};
use super::numbers::{Numbers, Tokens};
use super::origin::Origin;
use super::text::Text;

impl Numbers {
    /// The field that the numbers come from, which adds no dimension; or a list of fields, in the order of the
    /// elements, which gives the dimension `[fields]`, even for a list of one. `"*"` means all fields of single numbers
    /// that no other tensor uses, without [those that are named](Field::except), and without the unnamed index of a
    /// frame of pandas (`__index_level_0__`).
    pub fn from(self, fields: impl Into<Origin>) -> Field {
        let Origin { from, several } = fields.into();
        Field { from, several, ..self.into() }
    }
}

impl Tokens {
    /// Lists of any length, from this field: padded to the longest of their batch, or to the bound of its bucket.
    pub fn from(field: impl Into<Origin>) -> Field {
        Numbers::i64().list().from(field)
    }
}

impl Text {
    /// The field that it comes from, or a list of fields.
    pub fn from(self, fields: impl Into<Origin>) -> Field {
        let Origin { from, several } = fields.into();
        Field { from, several, ..self.into() }
    }
}

impl Class {
    /// The field that it comes from, or a list of fields.
    pub fn from(self, fields: impl Into<Origin>) -> Field {
        Classes::default().from(fields)
    }
}

impl Classes {
    /// The field that it comes from, or a list of fields.
    pub fn from(self, fields: impl Into<Origin>) -> Field {
        let Origin { from, several } = fields.into();
        Field { from, several, ..self.into() }
    }
}

impl Category {
    /// The field that they come from, or a list of fields.
    pub fn from(self, fields: impl Into<Origin>) -> Field {
        let Origin { from, several } = fields.into();
        Field { from, several, ..self.into() }
    }
}

impl From<Numbers> for Field {
    fn from(numbers: Numbers) -> Self {
        Self::new(Codec::Numbers(numbers))
    }
}

impl From<Text> for Field {
    fn from(Text { max_len, longer }: Text) -> Self {
        Self::new(Codec::Text { max_len, longer })
    }
}

impl From<Class> for Field {
    fn from(_: Class) -> Self {
        Classes::default().into()
    }
}

impl From<Classes> for Field {
    fn from(Classes { names, one_hot, dtype }: Classes) -> Self {
        Self::new(Codec::Class { names, one_hot, dtype })
    }
}

impl From<Category> for Field {
    fn from(category: Category) -> Self {
        let Category { names, missing, dtype } = category;
        Self::new(Codec::Category { names, missing, dtype })
    }
}
