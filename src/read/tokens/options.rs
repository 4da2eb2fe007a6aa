use std::fmt;

use serde::de::value::MapAccessDeserializer;
use serde::de::{Error, IntoDeserializer, MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};

use crate::read::fixed::{Endian, StoredType};
use crate::storage::Access;

/// How a file of tokens is read and cut into samples. Tensors are `i64`, unless fields of numbers name another integer
/// type, or select and rename tensors: `inputs = "i32"`, `y = { from = "targets", numbers = "i32" }`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct TokenOptions {
    /// Number of tokens that the model sees at a time.
    pub window: usize,
    /// Where windows begin and end.
    #[serde(deserialize_with = "cut")]
    pub cut: TokenCut,
    /// What the model should predict.
    pub targets: TokenTargets,
    /// Size of the vocabulary: a token number of this size or above makes its sample bad. By default nothing is
    /// checked.
    pub vocabulary: Option<u32>,
    /// Element type in the file: `u8`, `u16` or `u32`. An NPY file has it in its header.
    pub stored: StoredType,
    /// Bytes before the first token. Not for NPY files. The header of llm.c is skipped by itself.
    pub header_bytes: u64,
    /// Which byte of a token comes first. An NPY file has it in its header.
    pub endian: Endian,
    /// How the file is read. It may be mapped, which is faster but needs a promise: see
    /// [`Mapping::promise`](crate::storage::Mapping::promise).
    pub access: Access,
}

/// Where windows of tokens begin and end.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
#[non_exhaustive]
pub enum TokenCut {
    /// One window after another. The rest at the end of the file that does not fill a window is left out.
    Contiguous {
        /// Number of tokens from the start of a window to the start of the next. Default: `window`, so that each token
        /// is seen once.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        stride: Option<usize>,
    },
    /// Windows that begin anywhere, with equal probability; needs a shuffle for its seed. No position is drawn twice
    /// before all were drawn once. An epoch has as many windows as fit side by side, unless the number is set. A
    /// sample's id is the index of its first token.
    #[default]
    Random,
    /// Documents, each ending with the token `end`, several per window. The tensors `segments` (1 for the first
    /// document in a window, then 2 and so on; 0 for padding) and `positions` (of a token in its document's part of the
    /// window, from 0), both `i32`, distinguish them. A mask (`u8`) is 1 where a token is predicted from earlier tokens
    /// of its own document. See [`TokenPacking`].
    Documents {
        /// The token that ends a document: one that the file's type can hold, and below `vocabulary`.
        end: u32,
        /// How documents are packed into windows.
        #[serde(default)]
        packing: TokenPacking,
    },
}

/// A cut, of which `"contiguous"` stands for the one without settings of its own.
fn cut<'de, D: Deserializer<'de>>(deserializer: D) -> Result<TokenCut, D::Error> {
    struct Cut;
    impl<'de> Visitor<'de> for Cut {
        type Value = TokenCut;

        fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
            formatter.write_str("contiguous, random, or a table")
        }

        fn visit_str<E: Error>(self, name: &str) -> Result<TokenCut, E> {
            match name {
                "contiguous" => Ok(TokenCut::Contiguous { stride: None }),
                name => TokenCut::deserialize(name.into_deserializer()),
            }
        }

        fn visit_map<M: MapAccess<'de>>(self, table: M) -> Result<TokenCut, M::Error> {
            TokenCut::deserialize(MapAccessDeserializer::new(table))
        }
    }
    deserializer.deserialize_any(Cut)
}

/// How documents are packed into windows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum TokenPacking {
    /// Whole documents in the file's order, as many as fit; the rest of the window is padding (0). Only a document
    /// longer than a window continues in the next one. The file is read once when it is opened.
    #[default]
    Whole,
    /// Whole documents, the longest first, each where it leaves the least room (best-fit decreasing; Ding and others:
    /// "Fewer truncations improve language modeling", ICML 2024): hardly any padding. Only a document longer than a
    /// window is cut. Windows hold documents from all over the file, and are ordered by length: shuffle them. The file
    /// is read once when it is opened, and twelve bytes per document are kept (32 while it is opened).
    BestFit,
    /// Windows are filled to their last token, and documents continue in the next one: no padding. Nothing is read when
    /// the file is opened.
    Filled,
}

/// What the model should predict, and the tensors for it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum TokenTargets {
    /// `inputs` and `targets`, both `[window]`: target `i` is the token after input `i`. With documents, the mask is
    /// `targets_mask` `[window]`.
    #[default]
    Shifted,
    /// `tokens` `[window + 1]`, from which the trainer takes inputs and targets. With documents, the mask is
    /// `tokens_mask` `[window + 1]`.
    Inside,
    /// Only `tokens` `[window]`. With documents, the mask `tokens_mask` `[window]` is 1 where there is a token.
    None,
}

impl Default for TokenOptions {
    fn default() -> Self {
        Self {
            window: 1024,
            cut: TokenCut::default(),
            targets: TokenTargets::default(),
            vocabulary: None,
            stored: StoredType::U16,
            header_bytes: 0,
            endian: Endian::default(),
            access: Access::Read,
        }
    }
}

impl TokenOptions {
    /// Whether windows share tokens, but for the last target of one that is the first input of the next.
    pub(super) fn overlaps(&self) -> bool {
        match self.cut {
            TokenCut::Random => true,
            TokenCut::Contiguous { stride } => stride.is_some_and(|stride| stride < self.window),
            TokenCut::Documents { .. } => false,
        }
    }

    /// Number of samples per epoch, if it is not the number of samples in the data: for random windows, as many as fit
    /// side by side in `starts` possible starts.
    pub fn samples_per_epoch(&self, starts: u64) -> Option<u64> {
        (self.cut == TokenCut::Random).then(|| starts.div_ceil(self.window.max(1) as u64))
    }

    /// Tokens of a sample: those of a window, and the last target.
    pub(super) fn span(&self) -> usize {
        self.window + self.overlap()
    }

    /// Tokens that a window shares with the next one of the same document: a target here is an input there.
    pub(super) fn overlap(&self) -> usize {
        usize::from(self.targets != TokenTargets::None)
    }

    /// Tokens from the beginning of one window to that of the next, if this never varies.
    pub(super) fn stride(&self) -> Option<usize> {
        match self.cut {
            TokenCut::Contiguous { stride } => Some(stride.unwrap_or(self.window)),
            TokenCut::Random => Some(1),
            TokenCut::Documents { packing: TokenPacking::Filled, .. } => Some(self.window),
            TokenCut::Documents { packing: TokenPacking::Whole | TokenPacking::BestFit, .. } => None,
        }
    }

    /// What is wrong with the options, without looking at the file.
    pub(crate) fn faults(&self) -> Vec<String> {
        let mut faults = Vec::new();
        if !(1..=1 << 30).contains(&self.window) {
            faults.push(format!("window: {}; a window has 1 to 2^30 tokens", self.window));
        }
        if let TokenCut::Contiguous { stride: Some(0) } = self.cut {
            faults.push("cut.contiguous.stride: 0; each window must begin after the previous one".to_owned());
        }
        if let (TokenCut::Documents { end, .. }, Some(vocabulary)) = (&self.cut, self.vocabulary)
            && *end >= vocabulary
        {
            faults.push(format!(
                "cut.documents.end: {end}; no token of the vocabulary of {vocabulary} has this number, so no document would end"
            ));
        }
        if !matches!(self.stored, StoredType::U8 | StoredType::U16 | StoredType::U32) {
            faults.push(format!("stored: {}; tokens are stored as u8, u16 or u32", self.stored));
        }
        faults
    }
}
