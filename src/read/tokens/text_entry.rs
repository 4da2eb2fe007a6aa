//! Tokens that are made of text among the formats.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::error::Result;
use crate::read::fields::{Field, faults_of_fields};
use crate::read::format::{Format, Open, Opened, format_has};

use super::options::TokenCut;
use super::tensors::Tensors;
use super::text::TextTokens as Reader;
use super::text_options::TextTokenOptions;

/// The format of windows of tokens that are made of text when the source is opened. It is never detected: name it in
/// settings.
#[derive(Clone, Copy, Debug)]
pub struct TextTokens;

impl Format for TextTokens {
    const NAME: &'static str = "text_tokens";
    type Options = TextTokenOptions;

    fn sniff(&self, _: &[u8], _: &Path) -> bool {
        false
    }

    fn title(&self) -> Option<&'static str> {
        None
    }

    format_has!(small_samples, saved_index);

    fn needs_options(&self) -> bool {
        true
    }

    fn paths<'o>(&self, options: &'o mut TextTokenOptions) -> Vec<&'o mut PathBuf> {
        vec![&mut options.tokenizer]
    }

    fn faults(&self, options: &TextTokenOptions) -> Vec<String> {
        let mut faults = options.of_tokens(0).faults();
        if options.tokenizer.as_os_str().is_empty() {
            faults.push("tokenizer: name the file, such as tokenizer.json".to_owned());
        }
        faults
    }

    fn field_faults(&self, options: &TextTokenOptions, fields: &[(String, Field)]) -> Vec<String> {
        faults_of_fields(fields, |fields| Tensors::of(&options.of_tokens(0), fields, None))
    }

    fn needs_shuffle(&self, options: &TextTokenOptions) -> bool {
        options.of_tokens(0).cut == TokenCut::Random
    }

    fn overlaps(&self, options: &TextTokenOptions) -> bool {
        options.of_tokens(0).overlaps()
    }

    fn samples_per_epoch(&self, options: &TextTokenOptions, choice: u64) -> Option<u64> {
        options.of_tokens(0).samples_per_epoch(choice)
    }

    /// Windows side by side contain all tokens that windows at any position contain.
    fn make_plain(&self, options: &mut TextTokenOptions) {
        if options.cut == super::TextCut::Random {
            options.cut = super::TextCut::Contiguous;
        }
    }

    fn open(&self, options: &TextTokenOptions, at: &Open<'_>) -> Result<impl Into<Opened>> {
        Ok(Opened::Readers(vec![Arc::new(Reader::open(options, &[at.path.to_owned()], at)?)]))
    }

    fn open_many(&self, options: &TextTokenOptions, paths: &[PathBuf], at: &Open<'_>) -> Result<impl Into<Opened>> {
        Ok(Opened::Readers(vec![Arc::new(Reader::open(options, paths, at)?)]))
    }
}
