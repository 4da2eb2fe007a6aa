use std::path::PathBuf;

use crate::read::Longer;

/// Text as token numbers, by a tokenizer of Hugging Face's `tokenizers` (`tokenizer.json`): `i64 [max_len]`, padded at
/// the end, with a mask (`u8`, suffix `_mask`) that is 1 where there is a token. Without [`max_len`](Self::max_len),
/// texts are padded to the longest of their batch. Needs the feature `tokenizers`.
///
/// The tokens are those of `encode(text)` in Python, with the special tokens that the file puts around a text.
/// Truncation and padding in the file are ignored: set them here. A missing text is an empty text.
///
/// ```no_run
/// use ringfeed::Loader;
/// use ringfeed::field::Tokenizer;
///
/// let captions = Tokenizer::new("tokenizer.json").max_len(77).cut();
/// let loader = Loader::open("train-*.parquet")?.field("caption", captions.from("text")).build()?;
/// # Ok::<(), ringfeed::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tokenizer {
    pub(crate) file: PathBuf,
    pub(crate) max_len: Option<usize>,
    pub(crate) longer: Longer,
    pub(crate) special_tokens: bool,
    pub(crate) pad: u32,
    pub(crate) ragged: bool,
}

impl Tokenizer {
    /// The tokenizer in this file, with the special tokens that it puts around a text.
    pub fn new(file: impl Into<PathBuf>) -> Self {
        Self { file: file.into(), max_len: None, longer: Longer::Error, special_tokens: true, pad: 0, ragged: false }
    }

    /// At most this many tokens; fewer are padded. A longer text makes its record bad, unless it is [cut](Self::cut).
    #[must_use]
    pub fn max_len(mut self, max_len: usize) -> Self {
        self.max_len = Some(max_len);
        self
    }

    /// Cuts off the end of a longer text, and keeps the special tokens around it.
    #[must_use]
    pub fn cut(mut self) -> Self {
        self.longer = Longer::Cut;
        self
    }

    /// Whether the tokenizer puts its special tokens around the text. Default: yes.
    #[must_use]
    pub fn special_tokens(mut self, special_tokens: bool) -> Self {
        self.special_tokens = special_tokens;
        self
    }

    /// The token number for padding. Default: 0.
    #[must_use]
    pub fn pad(mut self, token: u32) -> Self {
        self.pad = token;
        self
    }

    /// Stores the tokens of all texts one after another, without padding, with the position where each text begins: as
    /// [`Numbers::ragged`](crate::field::Numbers::ragged).
    #[must_use]
    pub fn ragged(mut self) -> Self {
        self.ragged = true;
        self
    }
}
