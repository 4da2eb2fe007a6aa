//! Errors for missing or wrong bytes, with the position of the byte.

use crate::error::{Error, ErrorKind};

#[cold]
pub(super) fn truncated(bytes: &[u8], missing: &str) -> Error {
    let message = format!("truncated: the file ends after {} bytes, before {missing}", bytes.len());
    Error::new(ErrorKind::Format, message).at_byte(bytes.len() as u64)
}

#[cold]
pub(super) fn damaged(byte: usize, what: impl Into<String>) -> Error {
    Error::new(ErrorKind::Format, what.into()).at_byte(byte as u64)
}

pub(super) fn be16(bytes: &[u8], at: usize) -> Option<usize> {
    Some(usize::from(u16::from_be_bytes(*bytes.get(at..)?.first_chunk()?)))
}

pub(super) fn be32(bytes: &[u8], at: usize) -> Option<usize> {
    Some(u32::from_be_bytes(*bytes.get(at..)?.first_chunk()?) as usize)
}
