//! Settings of earlier versions, in which an option set the type of tokens: translated to fields.

use serde::Deserialize;

use crate::dtype::DType;
use crate::read::fields::{Field, Numbers, instead_of};
use crate::tree::{Fault, Node};

use super::options::TokenOptions;
use super::tensors::{Part, natural};
use super::text_options::TextTokenOptions;

/// What to write instead of a type among the options.
///
/// # Errors
///
/// The original error.
pub(in crate::read) fn advice(options: &Node) -> Result<Option<String>, Fault> {
    let Node::Table(entries) = options else { return Ok(None) };
    let Some((key, dtype)) = entries.iter().find(|(key, _)| key == "dtype") else { return Ok(None) };
    let dtype = DType::deserialize(dtype)?;
    let others = Node::Table(entries.iter().filter(|(key, _)| key != "dtype").cloned().collect());
    let options = match TokenOptions::deserialize(&others) {
        Ok(options) => options,
        Err(_) => TextTokenOptions::deserialize(&others)?.of_tokens(0),
    };
    let field = |(part, spec): (Part, crate::schema::TensorSpec)| -> Option<(String, Field)> {
        let dtype = match part {
            Part::Inputs | Part::Targets => dtype,
            Part::Segments | Part::Positions => DType::I32,
            Part::Mask => return None,
        };
        Some((spec.name, Numbers::of(dtype).into()))
    };
    let fields: Vec<_> = natural(&options).into_iter().filter_map(field).collect();
    Ok(Some(instead_of(key, &fields)))
}
