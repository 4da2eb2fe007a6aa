use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::read::{ColumnRef, SavedIndex};

use super::options::{TokenCut, TokenOptions, TokenPacking, TokenTargets};

/// How text becomes windows of tokens.
///
/// The documents are the records of the source, in its order. Each becomes its tokens, followed by the token
/// [`end`](Self::end). Together they are one long row of tokens, which is cut into windows according to
/// [`cut`](Self::cut). All cores make the row when the source is opened. It is stored in a temporary file, or saved for
/// the next run ([`saved_index`](Self::saved_index)), with two or four bytes per token. From then on it is a file of
/// tokens like any other, and any window can be read by its number: shuffles, shards and states are exact, and cost
/// nothing.
///
/// The position of a window depends only on the documents before it. A shuffle changes the order of windows: the
/// documents inside a window are the same in every epoch. For other neighbours, shuffle the documents first, or let
/// windows begin anywhere ([`TextCut::Random`]).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct TextTokenOptions {
    /// The tokenizer: a `tokenizer.json`.
    pub tokenizer: PathBuf,
    /// The field of a record that holds its text. By default `text`, or `line` for lines of text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from: Option<ColumnRef>,
    /// The format of the documents' files: `text` for one document per line, `text_files` for one document per file, or
    /// any other with records of values. By default it is detected from their contents, which is not possible for plain
    /// text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub format: Option<String>,
    /// The token after each document, by its name in the tokenizer.
    pub end: String,
    /// Whether the tokenizer puts its special tokens around each document.
    pub special_tokens: bool,
    /// Number of tokens that the model sees at a time.
    pub window: usize,
    /// Where windows begin and end.
    pub cut: TextCut,
    /// What the model should predict.
    pub targets: TokenTargets,
    /// Where the tokens are saved for the next run. They are made again if the documents' files (by size and time), the
    /// tokenizer or these options have changed, or if the saved file was damaged. To check that, all of it is read once
    /// when the source is opened. Nothing is saved for files of a [storage](crate::storage::Storage), nor for documents
    /// that a folder or an index names, because it is unknown whether these have changed.
    pub saved_index: SavedIndex,
    /// Maximum number of bytes of tokens.
    pub max_token_bytes: u64,
    /// Number of threads that tokenise; `None`: one for each core.
    pub threads: Option<usize>,
}

/// Where windows of tokens begin and end, if they are made of text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum TextCut {
    /// One window after another, through documents and their ends: as [`TokenCut::Contiguous`].
    #[default]
    Contiguous,
    /// Windows that begin anywhere: as [`TokenCut::Random`].
    Random,
    /// Whole documents in their order, told apart: as [`TokenPacking::Whole`].
    Whole,
    /// Whole documents wherever they fit best, told apart: as [`TokenPacking::BestFit`].
    BestFit,
    /// Full windows, through documents that are told apart: as [`TokenPacking::Filled`].
    Filled,
}

impl Default for TextTokenOptions {
    fn default() -> Self {
        let TokenOptions { window, targets, .. } = TokenOptions::default();
        Self {
            tokenizer: PathBuf::new(),
            from: None,
            format: None,
            end: "<|endoftext|>".to_owned(),
            special_tokens: false,
            window,
            cut: TextCut::default(),
            targets,
            saved_index: SavedIndex::Off,
            max_token_bytes: 64 << 30,
            threads: None,
        }
    }
}

impl TextTokenOptions {
    /// The options for reading the tokens, in which `end` ends each document.
    pub(super) fn of_tokens(&self, end: u32) -> TokenOptions {
        let documents = |packing| TokenCut::Documents { end, packing };
        let cut = match self.cut {
            TextCut::Contiguous => TokenCut::Contiguous { stride: None },
            TextCut::Random => TokenCut::Random,
            TextCut::Whole => documents(TokenPacking::Whole),
            TextCut::BestFit => documents(TokenPacking::BestFit),
            TextCut::Filled => documents(TokenPacking::Filled),
        };
        TokenOptions { window: self.window, cut, targets: self.targets, ..TokenOptions::default() }
    }
}
