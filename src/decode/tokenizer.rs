//! From text to token numbers, with a tokenizer of Hugging Face's `tokenizers` (`tokenizer.json`).

#[cfg(not(feature = "tokenizers"))]
pub(crate) use absent::Tokenizer;
#[cfg(feature = "tokenizers")]
pub(crate) use present::Tokenizer;

/// The error in builds without the feature.
#[cfg(not(feature = "tokenizers"))]
const NO_TOKENIZERS: &str = "text becomes tokens only in a build with the feature `tokenizers`";

#[cfg(feature = "tokenizers")]
mod present {
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::path::Path;

    use tokenizers::{PostProcessor, TruncationParams, TruncationStrategy};

    use crate::error::{Error, ErrorKind, Result, nearest};
    use crate::files;
    use crate::random::hash_bytes;

    /// Larger files are hardly tokenizers: those of 250,000 tokens have about 20 MB.
    const MAX_FILE_BYTES: u64 = 256 << 20;

    /// A tokenizer from a file.
    #[derive(Debug)]
    pub(crate) struct Tokenizer {
        inner: tokenizers::Tokenizer,
        hash: u64,
    }

    impl Tokenizer {
        /// Reads a `tokenizer.json`. Its settings for truncation and padding are ignored.
        ///
        /// # Errors
        ///
        /// [`ErrorKind::NotFound`], [`ErrorKind::Format`] for a file that is not a tokenizer.
        pub(crate) fn load(path: &Path) -> Result<Self> {
            let text = files::read_text(path, "a tokenizer", MAX_FILE_BYTES)?;
            let fault = |what: String| {
                let message = format!("is not a file of Hugging Face's `tokenizers`: {what}");
                Error::new(ErrorKind::Format, message).at_path(path)
            };
            // The crate relies on some parts of the file without checking them.
            let read = catch_unwind(AssertUnwindSafe(|| tokenizers::Tokenizer::from_bytes(text.as_bytes())));
            let mut inner = match read {
                Ok(read) => read.map_err(|error| fault(error.to_string()))?,
                Err(panic) => {
                    tracing::debug!(panic = Error::from_panic(&*panic).message(), "reading a tokenizer panicked");
                    return Err(fault("it is damaged; save it again".to_owned()));
                }
            };
            inner.with_padding(None);
            inner.with_truncation(None).map_err(|error| fault(error.to_string()))?;
            Ok(Self { inner, hash: hash_bytes(text.as_bytes()) })
        }

        /// The hash of its file.
        pub(crate) fn hash(&self) -> u64 {
            self.hash
        }

        /// From now on, gives at most `most` tokens, including special ones. A longer text is cut at the end, and keeps
        /// the special tokens around it.
        ///
        /// # Errors
        ///
        /// [`ErrorKind::Config`] if not even the special tokens fit.
        pub(crate) fn cut(&mut self, most: usize) -> Result<()> {
            let added = self.inner.get_post_processor().map_or(0, |processor| processor.added_tokens(false));
            if most < added {
                let message = format!("max_len: {most}; the tokenizer's special tokens alone are {added}");
                return Err(Error::new(ErrorKind::Config, message));
            }
            let truncation = TruncationParams {
                max_length: most,
                strategy: TruncationStrategy::LongestFirst,
                ..TruncationParams::default()
            };
            let set = self.inner.with_truncation(Some(truncation));
            set.map(|_| ()).map_err(|error| Error::new(ErrorKind::Config, error.to_string()))
        }

        /// The tokens of a text; with `special`, also those that the tokenizer puts around it.
        ///
        /// # Errors
        ///
        /// [`ErrorKind::Data`] for a text for which the tokenizer has no tokens.
        pub(crate) fn encode(&self, text: &str, special: bool) -> Result<Vec<u32>> {
            let encoded = self.inner.encode_fast(text, special);
            let encoded = encoded
                .map_err(|error| Error::new(ErrorKind::Data, format!("the text can't be tokenised: {error}")))?;
            Ok(encoded.get_ids().to_vec())
        }

        /// The number of a token by its text.
        ///
        /// # Errors
        ///
        /// [`ErrorKind::Config`] with the nearest token.
        pub(crate) fn token(&self, text: &str) -> Result<u32> {
            self.inner.token_to_id(text).ok_or_else(|| {
                let added = self.inner.get_added_tokens_decoder();
                let special: Vec<&str> = added.values().map(|token| token.content.as_str()).collect();
                let advice = match nearest(text, special.iter().copied()) {
                    Some(near) => format!("did you mean {near:?}?"),
                    None => format!("of special tokens it has {special:?}"),
                };
                Error::new(ErrorKind::Config, format!("the tokenizer has no token {text:?}; {advice}"))
            })
        }

        /// One more than the largest number of a token.
        pub(crate) fn limit(&self) -> u64 {
            self.inner.get_vocab(true).values().max().map_or(0, |most| u64::from(*most) + 1)
        }
    }
}

#[cfg(not(feature = "tokenizers"))]
mod absent {
    use std::path::Path;

    use super::NO_TOKENIZERS;
    use crate::error::{Error, ErrorKind, Result};

    /// Never made.
    #[derive(Debug)]
    pub(crate) enum Tokenizer {}

    impl Tokenizer {
        /// # Errors
        ///
        /// Always.
        pub(crate) fn load(path: &Path) -> Result<Self> {
            Err(Error::new(ErrorKind::Unsupported, NO_TOKENIZERS).at_path(path))
        }

        pub(crate) fn hash(&self) -> u64 {
            match *self {}
        }

        /// # Errors
        ///
        /// Never called.
        pub(crate) fn cut(&mut self, _: usize) -> Result<()> {
            match *self {}
        }

        /// # Errors
        ///
        /// Never called.
        pub(crate) fn encode(&self, _: &str, _: bool) -> Result<Vec<u32>> {
            match *self {}
        }

        /// # Errors
        ///
        /// Never called.
        pub(crate) fn token(&self, _: &str) -> Result<u32> {
            match *self {}
        }

        pub(crate) fn limit(&self) -> u64 {
            match *self {}
        }
    }
}
