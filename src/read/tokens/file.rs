use std::convert::Infallible;
use std::ops::Range;
use std::path::Path;

use crate::error::{Error, ErrorKind, Result};
use crate::read::fixed::{ArrayHeader, Endian, FileNumber, Stored, StoredType};
use crate::read::npy::{self, begins_as_npy};
use crate::storage::{Files, Input};

use super::TokenOptions;

/// A file of tokens: raw, or NPY.
#[derive(Debug)]
pub(super) struct TokenFile {
    pub(super) input: Input,
    pub(super) stored: Stored,
    start: u64,
    pub(super) tokens: u64,
}

impl TokenFile {
    pub(super) fn open(files: &Files, path: &Path, options: &TokenOptions) -> Result<Self> {
        let input = files.open(path, options.access)?;
        let header = Self::header(&input, options).map_err(|error| error.at_path(path))?;
        Ok(Self { input, stored: header.stored, start: header.start, tokens: header.records })
    }

    fn header(input: &Input, options: &TokenOptions) -> Result<ArrayHeader> {
        let mut magic = [0; 6];
        let magic = &mut magic[..input.len().min(6) as usize];
        input.read_at(0, magic)?;
        if begins_as_npy(magic) {
            let header = npy::header_of(input)?;
            if !header.shape.is_empty() {
                let message =
                    format!("records of shape {:?}; save tokens as one row, `array.reshape(-1)`", header.shape);
                return Err(Error::new(ErrorKind::Unsupported, message));
            }
            if !matches!(header.stored.kind, StoredType::U8 | StoredType::U16 | StoredType::U32) {
                let message = format!("holds {}; save tokens as u8, u16 or u32", header.stored.kind);
                return Err(Error::new(ErrorKind::Unsupported, message));
            }
            return Ok(header);
        }
        if options.header_bytes == 0
            && let Some(stored) = llm_c_tokens(input)?
        {
            return ArrayHeader::of_raw(stored, Vec::new(), LLM_C_HEADER, input.len());
        }
        let stored = Stored { kind: options.stored, endian: options.endian };
        ArrayHeader::of_raw(stored, Vec::new(), options.header_bytes, input.len())
    }

    pub(super) fn byte(&self, token: u64) -> u64 {
        self.start + token * self.stored.kind.bytes() as u64
    }

    /// The bytes of these tokens, if the file is in memory.
    pub(super) fn held(&self, tokens: &Range<u64>) -> Option<&[u8]> {
        let range = usize::try_from(self.byte(tokens.start)).ok()?..usize::try_from(self.byte(tokens.end)).ok()?;
        self.input.slice()?.get(range)
    }

    /// The tokens' bytes: from memory, or read into `buffer`.
    pub(super) fn bytes<'a>(&'a self, tokens: &Range<u64>, buffer: &'a mut Vec<u8>) -> Result<&'a [u8]> {
        if let Some(bytes) = self.held(tokens) {
            return Ok(bytes);
        }
        buffer.resize((self.byte(tokens.end) - self.byte(tokens.start)) as usize, 0);
        self.input.read_at(self.byte(tokens.start), buffer)?;
        Ok(buffer)
    }

    /// Gives the index of each token in `bytes` that equals `wanted` to `visit`.
    pub(super) fn find(&self, bytes: &[u8], wanted: u32, visit: impl FnMut(usize)) {
        match self.stored.kind {
            StoredType::U8 => find::<u8, 1>(self.stored, bytes, u8::try_from(wanted).ok(), visit),
            StoredType::U16 => find::<u16, 2>(self.stored, bytes, u16::try_from(wanted).ok(), visit),
            _ => find::<u32, 4>(self.stored, bytes, Some(wanted), visit),
        }
    }

    /// The first token in `bytes` that is not below `limit`, and its index.
    pub(super) fn beyond(&self, bytes: &[u8], limit: u32) -> Option<(usize, u32)> {
        match self.stored.kind {
            StoredType::U8 => beyond::<u8, 1>(self.stored, bytes, limit),
            StoredType::U16 => beyond::<u16, 2>(self.stored, bytes, limit),
            _ => beyond::<u32, 4>(self.stored, bytes, limit),
        }
    }
}

/// Bytes of the header of llm.c: 256 integers, of which the first are what it is, its version and the number of tokens.
const LLM_C_HEADER: u64 = 1024;

/// How tokens are stored in a file of llm.c; `None` for another file.
///
/// # Errors
///
/// [`ErrorKind::Data`] for another number of tokens than the header says.
fn llm_c_tokens(input: &Input) -> Result<Option<Stored>> {
    let mut header = [0; 12];
    if input.len() < LLM_C_HEADER {
        return Ok(None);
    }
    input.read_at(0, &mut header)?;
    let [magic, version, tokens] = *header.as_chunks::<4>().0 else { return Ok(None) };
    let kind = match (u32::from_le_bytes(magic), u32::from_le_bytes(version)) {
        (20_240_520, 1) => StoredType::U16,
        (20_240_801, 7) => StoredType::U32,
        _ => return Ok(None),
    };
    let tokens = u64::from(u32::from_le_bytes(tokens));
    let end = LLM_C_HEADER + tokens * kind.bytes() as u64;
    if input.len() != end {
        let message = format!(
            "the header of llm.c says {tokens} tokens, and the file then has {end} bytes, not {}; to read all as it is, \
             set `header_bytes` to {LLM_C_HEADER}, and `stored`",
            input.len()
        );
        return Err(Error::new(ErrorKind::Data, message));
    }
    Ok(Some(Stored { kind, endian: Endian::Little }))
}

/// Tokens that are compared together, so that the compiler uses vector instructions.
const BLOCK: usize = 64;

fn find<T: FileNumber<N> + PartialEq, const N: usize>(
    stored: Stored,
    bytes: &[u8],
    wanted: Option<T>,
    mut visit: impl FnMut(usize),
) {
    let Some(wanted) = wanted else { return };
    let Ok(()) = stored.chunks::<T, N, Infallible>(bytes, |at, tokens| {
        for (nth, block) in tokens.chunks(BLOCK).enumerate() {
            if block.iter().fold(false, |found, token| found | (*token == wanted)) {
                let found = block.iter().enumerate().filter(|(_, token)| **token == wanted);
                found.for_each(|(index, _)| visit(at + nth * BLOCK + index));
            }
        }
        Ok(())
    });
}

fn beyond<T: FileNumber<N> + Into<u32>, const N: usize>(
    stored: Stored,
    bytes: &[u8],
    limit: u32,
) -> Option<(usize, u32)> {
    let mut first = None;
    let Ok(()) = stored.chunks::<T, N, Infallible>(bytes, |at, tokens| {
        let largest = tokens.iter().fold(0, |largest: u32, token| largest.max((*token).into()));
        if first.is_none() && largest >= limit {
            let index = tokens.iter().position(|token| (*token).into() >= limit);
            first = index.map(|index| (at + index, tokens[index].into()));
        }
        Ok(())
    });
    first
}
