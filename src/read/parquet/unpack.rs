//! Decompression of pages, never to more bytes than a page says that it has.

use std::io::Read;

use brotli_decompressor::{BrotliDecoderParameter, Decompressor};
use parquet::basic::Compression;

use crate::error::{Error, ErrorKind, Result};

/// Decompresses the pages of a column.
pub(super) struct Unpacker {
    codec: Compression,
    zstd: Option<zstd::bulk::Decompressor<'static>>,
}

#[cold]
fn fault(what: impl std::fmt::Display) -> Error {
    Error::new(ErrorKind::Data, format!("a page can't be decompressed: {what}"))
}

impl Unpacker {
    /// # Errors
    ///
    /// [`ErrorKind::Unsupported`] for LZO.
    pub(super) fn new(codec: Compression) -> Result<Self> {
        let zstd = match codec {
            Compression::LZO => {
                let message = "compressed with LZO, which is not read; write the file with another compression";
                return Err(Error::new(ErrorKind::Unsupported, message));
            }
            Compression::ZSTD(_) => Some(zstd::bulk::Decompressor::new().map_err(fault)?),
            _ => None,
        };
        Ok(Self { codec, zstd })
    }

    /// Whether pages are stored without compression.
    pub(super) fn is_plain(&self) -> bool {
        self.codec == Compression::UNCOMPRESSED
    }

    /// Decompresses `stored` to `len` bytes, and appends them to `into`.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Data`] if these are not as many, or broken.
    pub(super) fn unpack(&mut self, stored: &[u8], len: usize, into: &mut Vec<u8>) -> Result<()> {
        let start = into.len();
        match self.codec {
            Compression::UNCOMPRESSED | Compression::LZO => into.extend_from_slice(stored),
            Compression::SNAPPY => {
                let found = snap::raw::decompress_len(stored).map_err(fault)?;
                if found != len {
                    return Err(fault(format!("it holds {found} bytes instead of {len}")));
                }
                into.resize(start + len, 0);
                snap::raw::Decoder::new().decompress(stored, &mut into[start..]).map_err(fault)?;
            }
            Compression::GZIP(_) => read(flate2::read::MultiGzDecoder::new(stored), len, into)?,
            Compression::BROTLI(_) => {
                let mut page = Decompressor::new(stored, 4096);
                // Windows of up to a gigabyte are an extension.
                page.set_parameter(BrotliDecoderParameter::BROTLI_DECODER_PARAM_LARGE_WINDOW, 0);
                read(page, len, into)?;
            }
            Compression::ZSTD(_) => {
                let zstd = self.zstd.as_mut().ok_or_else(|| fault("no decompressor"))?;
                into.resize(start + len, 0);
                let found = zstd.decompress_to_buffer(stored, &mut into[start..]).map_err(fault)?;
                into.truncate(start + found);
            }
            Compression::LZ4_RAW => lz4(stored, len, into)?,
            Compression::LZ4 => hadoop(stored, len, into)?,
        }
        match into.len() - start {
            found if found == len => Ok(()),
            found if found > len => Err(fault(format!("it holds more than the {len} bytes that it should"))),
            found => Err(fault(format!("it holds {found} bytes instead of {len}"))),
        }
    }
}

fn read(bytes: impl Read, len: usize, into: &mut Vec<u8>) -> Result<()> {
    into.reserve_exact(len.min(1 << 20));
    bytes.take(len as u64 + 1).read_to_end(into).map(|_| ()).map_err(fault)
}

fn lz4(stored: &[u8], len: usize, into: &mut Vec<u8>) -> Result<()> {
    let start = into.len();
    into.resize(start + len, 0);
    let found = lz4_flex::block::decompress_into(stored, &mut into[start..]).map_err(fault)?;
    into.truncate(start + found);
    Ok(())
}

/// What Hadoop calls LZ4: blocks, each after its two lengths. Older writers used the same name for a frame or a bare
/// block.
fn hadoop(stored: &[u8], len: usize, into: &mut Vec<u8>) -> Result<()> {
    let start = into.len();
    if blocks(stored, len, into).is_some() {
        return Ok(());
    }
    into.truncate(start);
    const FRAME: [u8; 4] = [0x04, 0x22, 0x4d, 0x18];
    if stored.starts_with(&FRAME) {
        return read(lz4_flex::frame::FrameDecoder::new(stored), len, into);
    }
    lz4(stored, len, into)
}

fn blocks(mut stored: &[u8], len: usize, into: &mut Vec<u8>) -> Option<()> {
    let end = into.len() + len;
    while !stored.is_empty() {
        let (unpacked, rest) = stored.split_first_chunk::<4>()?;
        let (packed, rest) = rest.split_first_chunk::<4>()?;
        let (unpacked, packed) = (u32::from_be_bytes(*unpacked) as usize, u32::from_be_bytes(*packed) as usize);
        let block = rest.get(..packed)?;
        if unpacked > end - into.len() {
            return None;
        }
        let start = into.len();
        lz4(block, unpacked, into).ok()?;
        if into.len() - start != unpacked {
            return None;
        }
        stored = &rest[packed..];
    }
    (into.len() == end).then_some(())
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    fn unpacked(codec: Compression, stored: &[u8], len: usize) -> Result<Vec<u8>> {
        let mut into = vec![7, 7];
        Unpacker::new(codec)?.unpack(stored, len, &mut into)?;
        Ok(into.split_off(2))
    }

    fn framed(blocks: &[&[u8]]) -> Vec<u8> {
        let mut stored = Vec::new();
        for block in blocks {
            let packed = lz4_flex::block::compress(block);
            stored.extend((block.len() as u32).to_be_bytes());
            stored.extend((packed.len() as u32).to_be_bytes());
            stored.extend(packed);
        }
        stored
    }

    #[test]
    fn no_compression_yields_more_than_was_said() {
        let text = b"ring ".repeat(10_000);
        let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::new(6));
        gzip.write_all(&text).unwrap();
        let mut frame = lz4_flex::frame::FrameEncoder::new(Vec::new());
        frame.write_all(&text).unwrap();
        for (codec, stored) in [
            (Compression::UNCOMPRESSED, text.clone()),
            (Compression::SNAPPY, snap::raw::Encoder::new().compress_vec(&text).unwrap()),
            (Compression::GZIP(Default::default()), gzip.finish().unwrap()),
            (Compression::ZSTD(Default::default()), zstd::bulk::compress(&text, 3).unwrap()),
            (Compression::LZ4_RAW, lz4_flex::block::compress(&text)),
            (Compression::LZ4, framed(&[&text[..100], &text[100..]])),
            (Compression::LZ4, lz4_flex::block::compress(&text)),
            (Compression::LZ4, frame.finish().unwrap()),
        ] {
            assert_eq!(unpacked(codec, &stored, text.len()).unwrap(), text, "{codec}");
            for len in [0, 1, text.len() - 1, text.len() + 1, 10 * text.len()] {
                assert_eq!(unpacked(codec, &stored, len).unwrap_err().kind(), ErrorKind::Data, "{codec} {len}");
            }
            // A frame may lack its end mark, but nothing else.
            for cut in (0..stored.len()).step_by(stored.len() / 50 + 1) {
                let found = unpacked(codec, &stored[..cut], text.len());
                assert!(
                    found.is_err() || cut + 8 > stored.len() && found.is_ok_and(|found| found == text),
                    "{codec} {cut}"
                );
            }
        }
        assert_eq!(unpacked(Compression::LZO, &text, 3).unwrap_err().kind(), ErrorKind::Unsupported);
    }

    #[test]
    fn a_brotli_window_of_the_extension_is_refused() {
        let brotli = Compression::BROTLI(Default::default());
        // Empty streams: with a window of 64 KiB, and with one of 1 GiB.
        assert_eq!(unpacked(brotli, &[0x06], 0).unwrap(), b"");
        assert_eq!(unpacked(brotli, &[0x11, 0xde], 0).unwrap_err().kind(), ErrorKind::Data);
    }
}
