//! Files of tokens among the formats.

use std::path::Path;
use std::sync::Arc;

use crate::error::Result;
use crate::read::fields::{Field, faults_of_fields};
use crate::read::format::{Foretold, Format, Open, Opened, format_has};

use super::tensors::Tensors;
use super::{TokenCut, TokenOptions, TokenReader};

/// The format of files of tokens, raw or NPY, cut into windows. It is never detected: name it in settings.
#[derive(Clone, Copy, Debug)]
pub struct TokenFiles;

impl Format for TokenFiles {
    const NAME: &'static str = "tokens";
    type Options = TokenOptions;

    fn sniff(&self, _: &[u8], _: &Path) -> bool {
        false
    }

    fn title(&self) -> Option<&'static str> {
        None
    }

    format_has!(small_samples, access);

    fn faults(&self, options: &TokenOptions) -> Vec<String> {
        options.faults()
    }

    fn field_faults(&self, options: &TokenOptions, fields: &[(String, Field)]) -> Vec<String> {
        faults_of_fields(fields, |fields| Tensors::of(options, fields, None))
    }

    fn needs_shuffle(&self, options: &TokenOptions) -> bool {
        options.cut == TokenCut::Random
    }

    fn overlaps(&self, options: &TokenOptions) -> bool {
        options.overlaps()
    }

    fn samples_per_epoch(&self, options: &TokenOptions, choice: u64) -> Option<u64> {
        options.samples_per_epoch(choice)
    }

    /// Windows side by side contain all tokens that windows at any position contain.
    fn make_plain(&self, options: &mut TokenOptions) {
        if options.cut == TokenCut::Random {
            options.cut = TokenCut::Contiguous { stride: None };
        }
    }

    fn open(&self, options: &TokenOptions, at: &Open<'_>) -> Result<impl Into<Opened>> {
        let reader = TokenReader::open_fields_in(at.files, at.path, at.fields, options, at.budget)?;
        Ok(Opened::Readers(vec![Arc::new(reader)]))
    }

    fn foretell(&self, options: &TokenOptions, at: &Open<'_>) -> Result<Foretold> {
        Ok(match TokenReader::foretold(at.files, at.path, at.fields, options)? {
            (Some(records), tensors) => Foretold::numbered(records, tensors, 0),
            (None, tensors) => {
                Foretold::unknown(Some(tensors), format!("samples: found only by reading all of {}", at.path.display()))
            }
        })
    }
}
