use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::read::{ColumnRef, SavedIndex};

use super::options::{TokenCut, TokenOptions, TokenPacking, TokenTargets};

/// How text becomes windows of tokens.
///
/// The documents are the records of the source, in its order. Each becomes its tokens and, behind them, the token
/// [`end`](Self::end); all of them, one behind the other, are one long row of tokens, in which windows lie as [`cut`](Self::cut) says.
/// The row is made when the source is opened, by all cores, and kept in a temporary file, or for the next run
/// ([`saved_index`](Self::saved_index)): two or four bytes a token. From then on it is a file of tokens like any other, so that any window
/// is read by its number: shuffles, shards and states are exact, and cost nothing.
///
/// A window's place depends on the documents before it and on nothing else. A shuffle is one of windows: the documents
/// inside a window stay neighbours, whatever the epoch. Who wants other neighbours shuffles the documents first, or lets windows
/// begin anywhere ([`TextCut::Random`]).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct TextTokenOptions {
    /// The tokenizer: a `tokenizer.json`.
    pub tokenizer: PathBuf,
    /// The field of a record that holds its text. By default `text`, or `line` of lines of text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from: Option<ColumnRef>,
    /// The format of the documents' files: `text` for a document on each line, `text_files` for a document in each file, or any other
    /// with records of values. By default it is told by what they hold, which plain text does not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub format: Option<String>,
    /// The token behind each document, as the tokenizer calls it.
    pub end: String,
    /// Whether the tokenizer puts its special tokens around each document.
    pub special_tokens: bool,
    /// Tokens that the model sees at a time.
    pub window: usize,
    /// Where windows begin and end.
    pub cut: TextCut,
    /// What the model is to answer.
    pub targets: TokenTargets,
    /// Where the tokens are kept for the next run. They are made anew where the documents' files (by size and time), the tokenizer or
    /// these options have changed. Nothing is kept of the files of a [storage](crate::storage::Storage), nor of documents that a
    /// folder or an index names: nobody knows whether these have changed.
    pub saved_index: SavedIndex,
    /// Most bytes of tokens.
    pub max_token_bytes: u64,
    /// Threads that tokenise; `None`: one for each core.
    pub threads: Option<usize>,
}

/// Where windows of tokens begin and end that are made of text.
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
    /// How the row of tokens is read, of which `end` ends each document.
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
