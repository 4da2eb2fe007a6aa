//! Text as tokens: padded to a length that is given, or to the longest of the batch, with a mask; or one text behind
//! another.

use crate::decode::Tokenizer;
use crate::dtype::DType;
use crate::error::{Error, ErrorKind, Result};
use crate::read::Longer;
use crate::read::fields;
use crate::read::value::Value;
use crate::row::RowMut;
use crate::schema::{Dim, Extents, Role, TensorSpec};

use super::contract::{Context, Decode, Made, Varying};
use super::text::text_of;

struct TokenizerCodec {
    tokenizer: Tokenizer,
    special_tokens: bool,
    longer: Longer,
    pad: i64,
    /// The extent of its length, unless the length is fixed.
    extent: Option<usize>,
    /// Most tokens of a text, if texts follow each other without padding.
    most: usize,
    ragged: bool,
}

/// `i64 [max_len]`, or as long as the longest in the batch, with a mask of `u8` that is 1 where there are tokens.
pub(super) fn make(name: &str, role: Role, options: &fields::Tokenizer, varying: &mut Varying) -> Result<Made> {
    let mut tokenizer = Tokenizer::load(&options.file)?;
    let dim = match options.max_len.filter(|_| !options.ragged) {
        Some(most) => Dim::Fixed(most),
        None => varying.dim(name)?,
    };
    if let (Longer::Cut, true, Some(most)) = (options.longer, options.special_tokens, options.max_len) {
        tokenizer.cut(most)?;
    }
    let extent = match dim {
        Dim::Extent(extent) => Some(extent),
        Dim::Fixed(_) => None,
    };
    let fields::Tokenizer { longer, special_tokens, pad, ragged, .. } = *options;
    let tensors = match extent.filter(|_| ragged) {
        Some(extent) => {
            let offsets = TensorSpec::offsets(format!("{name}_offsets"), extent);
            vec![TensorSpec::ragged(name, role, DType::I64, extent), offsets]
        }
        None => vec![
            TensorSpec::with_dims(name, role, DType::I64, vec![dim]),
            TensorSpec::with_dims(format!("{name}_mask"), Role::Mask, DType::U8, vec![dim]),
        ],
    };
    if ragged && pad != 0 {
        return Err(Error::new(ErrorKind::Config, "pad: ragged lists have no padding"));
    }
    let most = options.max_len.unwrap_or(usize::MAX);
    let codec = TokenizerCodec { tokenizer, special_tokens, longer, pad: pad.into(), extent, most, ragged };
    Ok(Made { codec: Box::new(codec), tensors })
}

impl TokenizerCodec {
    /// A missing text becomes an empty one.
    fn tokens(&self, value: &Value<'_>) -> Result<Vec<u32>> {
        let text = if let Value::Missing = value { "" } else { text_of(value)? };
        self.tokenizer.encode(text, self.special_tokens)
    }
}

impl Decode for TokenizerCodec {
    fn write(&self, _: usize, value: Value<'_>, _: &mut Context<'_>, row: &mut RowMut<'_>) -> Result<()> {
        let mut tokens = self.tokens(&value)?;
        let mut tensor = row.tensor(0);
        let room = tensor.as_mut_slice::<i64>()?;
        if self.longer == Longer::Cut {
            tokens.truncate(room.len());
        }
        if tokens.len() > room.len() {
            let message = format!(
                "a text of {} tokens; at most {} fit; raise max_len, or set `longer` to \"cut\"",
                tokens.len(),
                room.len()
            );
            return Err(Error::new(ErrorKind::Data, message));
        }
        let (present, absent) = room.split_at_mut(tokens.len());
        present.iter_mut().zip(&tokens).for_each(|(place, token)| *place = (*token).into());
        absent.fill(self.pad);
        if self.ragged {
            return Ok(());
        }
        let mut mask = row.tensor(1);
        let (present, absent) = mask.bytes_mut().split_at_mut(tokens.len());
        present.fill(1);
        absent.fill(0);
        Ok(())
    }

    fn measure(&self, value: Value<'_>, extents: &mut Extents) -> Result<()> {
        if let Some(extent) = self.extent {
            extents.0[extent] = u32::try_from(self.tokens(&value)?.len().min(self.most))
                .map_err(|_| Error::new(ErrorKind::Data, "a text of more than 4,294,967,295 tokens"))?;
        }
        Ok(())
    }
}
