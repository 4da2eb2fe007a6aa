use serde::{Deserialize, Serialize};

use crate::decode::{ImageOptions, LabelFormat};
use crate::dtype::DType;
use crate::read::{Longer, SavedIndex};
use crate::schema::Role;
use crate::storage::Access;

/// How tar archives are read: plain data, with defaults for all of it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct TarOptions {
    /// What becomes of the members of each sample. Empty: as the first sample has them, its image, if there is one, and
    /// its class, if there is a `cls`.
    pub fields: Vec<TarField>,
    /// How images become tensors, and what classes are called and how they are written. `max_file_bytes` holds for all
    /// members.
    pub images: ImageOptions,
    /// Where the index of all archives together is kept for the next run: that of a folder beside the folder, that of a
    /// list beside its first archive.
    pub saved_index: SavedIndex,
    /// How the archives are reached.
    pub access: Access,
}

/// What becomes of one member of each sample. Extensions are all that follows the first dot of a member's name, in lower
/// case: `jpg`, `cls`, `left.png`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
#[non_exhaustive]
pub enum TarField {
    /// An image. At most one field is one.
    Image {
        /// Its extension; without one, the only member that has an image's.
        #[serde(default)]
        extension: Option<String>,
    },
    /// The class, read when the archives are indexed. At most one field is one.
    Class {
        /// The extension of the text or JSON that says it.
        #[serde(default = "cls")]
        extension: String,
        /// Where it stands in JSON, as in RFC 6901: `"/label"`, `"/objects/0/class"`. Without one, the member is text
        /// that holds nothing else.
        #[serde(default)]
        pointer: Option<String>,
        /// Whether it is the class's index or its name.
        #[serde(default)]
        by: ClassBy,
    },
    /// UTF-8 text as `u8 [max_len]`, with zeros behind it. Another tensor, called as this one with `_len` behind it, has its
    /// length in bytes: `i64 []`.
    Text {
        /// The member's extension.
        extension: String,
        /// Name of the tensor; by default the extension.
        #[serde(default)]
        name: Option<String>,
        /// Most bytes of a text.
        max_len: usize,
        /// What becomes of a longer one.
        #[serde(default)]
        longer: Longer,
    },
    /// A number, `[]`.
    Number {
        /// The extension of the text or JSON that holds it.
        extension: String,
        /// Where it stands in JSON, as in RFC 6901. Without one, the member is text that holds nothing else.
        #[serde(default)]
        pointer: Option<String>,
        /// Name of the tensor; by default the last part of the pointer, or the extension.
        #[serde(default)]
        name: Option<String>,
        /// What it is to the trainer.
        #[serde(default = "feature")]
        role: Role,
        /// Element type: f32, f64 or i64, which takes no fractions.
        #[serde(default = "f32")]
        dtype: DType,
    },
}

/// What a class is told by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ClassBy {
    /// Its index, from 0: a number, as WebDataset's `cls`. The default. With a list of classes, an index beyond it is an
    /// error.
    #[default]
    Index,
    /// Its name. Without a list of classes, the names that are found, sorted, give the indices.
    Name,
}

fn cls() -> String {
    "cls".to_owned()
}

fn feature() -> Role {
    Role::Feature
}

fn f32() -> DType {
    DType::F32
}

impl TarField {
    /// The only image of each sample.
    pub fn image() -> Self {
        Self::Image { extension: None }
    }

    /// The class by its index in the text `cls`.
    pub fn class() -> Self {
        Self::Class { extension: cls(), pointer: None, by: ClassBy::Index }
    }

    pub(super) fn pointer(&self) -> Option<&str> {
        match self {
            Self::Class { pointer, .. } | Self::Number { pointer, .. } => pointer.as_deref(),
            Self::Image { .. } | Self::Text { .. } => None,
        }
    }

    pub(super) fn extension(&self) -> Option<&str> {
        match self {
            Self::Image { extension } => extension.as_deref(),
            Self::Class { extension, .. } | Self::Text { extension, .. } | Self::Number { extension, .. } => {
                Some(extension)
            }
        }
    }
}

impl TarOptions {
    /// Everything that is wrong with these options, in words; empty if nothing is.
    pub fn faults(&self) -> Vec<String> {
        let mut faults = self.images.faults();
        let images = self.fields.iter().filter(|field| matches!(field, TarField::Image { .. })).count();
        if images > 1 {
            faults.push("fields: at most one is an image; read the archives twice for a second one".to_owned());
        }
        let classes = || self.fields.iter().filter(|field| matches!(field, TarField::Class { .. }));
        if classes().count() > 1 {
            faults.push("fields: at most one is the class; read the others as numbers".to_owned());
        }
        let by_index = self.fields.is_empty()
            || classes().any(|field| matches!(field, TarField::Class { by: ClassBy::Index, .. }));
        if by_index && self.images.labels == LabelFormat::OneHot && self.images.classes.is_none() {
            faults.push(
                "images.labels: one_hot needs a list of classes, as indices do not tell how many there are".to_owned(),
            );
        }
        for field in &self.fields {
            if let Some(extension) = field.extension() {
                if extension.is_empty() || extension.contains('/') || extension.starts_with('.') {
                    faults.push(format!("fields: {extension:?} is no extension, which is \"jpg\" or \"left.png\""));
                } else if extension.to_ascii_lowercase() != extension {
                    faults
                        .push(format!("fields: extensions are compared in lower case, so {extension:?} never occurs"));
                }
            }
            if let Some(pointer) = field.pointer().filter(|pointer| !pointer.is_empty() && !pointer.starts_with('/')) {
                faults.push(format!("fields: the pointer {pointer:?} begins with no slash: \"/{pointer}\""));
            }
            match field {
                TarField::Text { max_len: 0, .. } => faults.push("fields: a text of at most 0 bytes".to_owned()),
                TarField::Number { dtype, .. } if !matches!(dtype, DType::F32 | DType::F64 | DType::I64) => {
                    faults.push(format!("fields: numbers are f32, f64 or i64, not {dtype}"));
                }
                _ => {}
            }
        }
        faults
    }
}
