//! Files that TensorFlow compressed with its option ZLIB: they have no magic bytes of their own and are recognised by
//! their content.

use std::io::Read;
use std::path::Path;

use crate::error::Result;
use crate::storage::{Files, Packing, inflate_error};

use super::framing::{HEADER, length};

/// More bytes than the first header takes in any compression.
const HEAD_BYTES: u64 = 1 << 10;

/// How a file is compressed; `None` if it is not.
///
/// # Errors
///
/// Those of reading.
pub(super) fn packing_of(files: &Files, path: &Path) -> Result<Option<Packing>> {
    let mut head = Vec::new();
    let read = files.stream(path)?.take(HEAD_BYTES).read_to_end(&mut head);
    read.map_err(|error| inflate_error(path, 0, error))?;
    // The length of a record may have the first bytes of a compressed file; its checksum tells.
    if head.first_chunk::<HEADER>().is_some_and(|header| length(header).is_some()) {
        return Ok(None);
    }
    Ok(Packing::of(&head).or_else(|| is_zlib(&head).then_some(Packing::Zlib)))
}

/// Whether data that begins like this is zlib's, and unpacks to the length of a record and its checksum.
pub(super) fn is_zlib(head: &[u8]) -> bool {
    let [method, flags, ..] = head else { return false };
    if method & 0x0f != 8 || !u16::from_be_bytes([*method, *flags]).is_multiple_of(31) {
        return false;
    }
    let mut unpacked = [0; HEADER];
    flate2::read::ZlibDecoder::new(head).read_exact(&mut unpacked).is_ok() && length(&unpacked).is_some()
}
