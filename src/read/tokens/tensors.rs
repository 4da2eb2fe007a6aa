//! The tensors of windows of tokens, and the tensors that fields request.

use crate::decode::converts;
use crate::dtype::DType;
use crate::error::{Error, ErrorKind, Result};
use crate::read::ColumnRef;
use crate::read::fields::{Codec, Field, Numbers};
use crate::read::fixed::StoredType;
use crate::schema::{Role, TensorSpec};

use super::options::{TokenCut, TokenOptions, TokenTargets};

/// A part of a window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part {
    /// All tokens of a window if there are no targets, otherwise all but the last.
    Inputs,
    Targets,
    Segments,
    Positions,
    Mask,
}

/// The tensors of a sample, and which part of a window each of them is.
#[derive(Debug)]
pub(super) struct Tensors {
    pub(super) specs: Vec<TensorSpec>,
    parts: Vec<Part>,
}

impl Tensors {
    /// The tensors for these fields, or all tensors if there are no fields, of windows of `stored` tokens if that is
    /// known.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Config`] for fields that windows do not have, or that can't become the requested tensor;
    /// [`ErrorKind::Schema`] for a type that can't hold the file's.
    pub(super) fn of(options: &TokenOptions, fields: &[(String, Field)], stored: Option<StoredType>) -> Result<Self> {
        let own = natural(options);
        let mut tensors = Self { specs: Vec::new(), parts: Vec::new() };
        if fields.is_empty() {
            (tensors.parts, tensors.specs) = own.iter().cloned().unzip();
        }
        for (name, field) in fields {
            tensors.add(&own, name, field).map_err(|error| error.at_column(name))?;
        }
        for (spec, part) in tensors.specs.iter().zip(&tensors.parts) {
            if let (Part::Inputs | Part::Targets, Some(stored)) = (part, stored)
                && !converts(stored.dtype(), spec.dtype)
            {
                let message = format!("the file holds {stored} tokens, which do not fit {}", spec.dtype);
                return Err(Error::new(ErrorKind::Schema, message).at_column(&spec.name));
            }
        }
        Ok(tensors)
    }

    fn add(&mut self, own: &[(Part, TensorSpec)], name: &str, field: &Field) -> Result<()> {
        let config = |message: String| Err(Error::new(ErrorKind::Config, message));
        let columns = field.columns(name);
        let found = own.iter().find(|(part, spec)| {
            *part != Part::Mask && matches!(columns.as_slice(), [ColumnRef::Name(name)] if *name == spec.name)
        });
        let Some((part, spec)) = found else {
            let names: Vec<&str> = own.iter().filter(|own| own.0 != Part::Mask).map(|own| &*own.1.name).collect();
            return config(format!("windows of tokens have {}; name one of them in `from`", names.join(", ")));
        };
        let Codec::Numbers(Numbers { dtype, shape: None, max_len: None, list: false, ragged: false, .. }) =
            &field.codec
        else {
            return config("windows of tokens hold numbers, such as \"i32\"".to_owned());
        };
        if field.is_file || field.is_several() {
            return config("windows of tokens hold numbers, such as \"i32\"".to_owned());
        }
        match part {
            Part::Inputs | Part::Targets if dtype.is_float() => {
                return config(format!("{dtype}; tokens are whole numbers"));
            }
            Part::Segments | Part::Positions if *dtype != DType::I32 => {
                return config(format!("{dtype}; segments and positions are i32; the transform cast converts them"));
            }
            part if self.parts.contains(part) => {
                return config(format!("{} is asked for twice", spec.name));
            }
            _ => {}
        }
        let role = field.role.unwrap_or(spec.role);
        self.parts.push(*part);
        self.specs.push(TensorSpec { name: name.to_owned(), role, dtype: *dtype, ..spec.clone() });
        // The mask is that of the targets.
        if let Some((mask, of)) = own.iter().find(|own| own.0 == Part::Mask)
            && of.name.strip_suffix("_mask") == Some(&spec.name)
        {
            self.parts.push(*mask);
            self.specs.push(TensorSpec { name: format!("{name}_mask"), ..of.clone() });
        }
        Ok(())
    }

    /// The position of a part among the tensors.
    pub(super) fn place(&self, part: Part) -> Option<usize> {
        self.parts.iter().position(|own| *own == part)
    }
}

/// All parts of windows, by their own names.
pub(super) fn natural(options: &TokenOptions) -> Vec<(Part, TensorSpec)> {
    let window = options.window;
    let tokens = |name, role, len| TensorSpec::new(name, role, DType::I64, &[len]);
    let (mut tensors, masked, len) = match options.targets {
        TokenTargets::Shifted => (
            vec![
                (Part::Inputs, tokens("inputs", Role::Feature, window)),
                (Part::Targets, tokens("targets", Role::Label, window)),
            ],
            "targets_mask",
            window,
        ),
        TokenTargets::Inside => {
            (vec![(Part::Inputs, tokens("tokens", Role::Feature, window + 1))], "tokens_mask", window + 1)
        }
        TokenTargets::None => (vec![(Part::Inputs, tokens("tokens", Role::Feature, window))], "tokens_mask", window),
    };
    if let TokenCut::Documents { .. } = options.cut {
        let beside = |name, role, dtype| TensorSpec::new(name, role, dtype, &[len]);
        tensors.push((Part::Segments, beside("segments", Role::Feature, DType::I32)));
        tensors.push((Part::Positions, beside("positions", Role::Feature, DType::I32)));
        tensors.push((Part::Mask, beside(masked, Role::Mask, DType::U8)));
    }
    tensors
}
