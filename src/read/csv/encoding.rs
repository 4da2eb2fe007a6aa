//! Text in any encoding of the web.

use std::io::Read;
use std::path::{Path, PathBuf};

use encoding_rs::{Decoder, DecoderResult};
use memchr::memchr_iter;

use crate::error::{Error, ErrorKind, Result, nearest};
use crate::storage::Bytes;

/// What a text is written in.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Encoding(&'static encoding_rs::Encoding);

impl Encoding {
    pub(super) const UTF_8: Self = Self(encoding_rs::UTF_8);

    /// The encoding of this name.
    pub(super) fn named(name: &str) -> Result<Self> {
        encoding_rs::Encoding::for_label(name.as_bytes()).map(Self).ok_or_else(|| {
            let known =
                ["utf-8", "latin1", "iso-8859-15", "windows-1252", "utf-16le", "utf-16be", "shift_jis", "gb18030"];
            let hint = nearest(name, known).map(|near| format!("; did you mean {near:?}?")).unwrap_or_default();
            let message =
                format!("no encoding is called {name:?}{hint} (any name of the WHATWG list, such as {known:?})");
            Error::new(ErrorKind::Config, message)
        })
    }

    /// The encoding whose byte-order mark a text begins with.
    pub(super) fn of_mark(start: &[u8]) -> Option<Self> {
        encoding_rs::Encoding::for_bom(start).map(|(encoding, _)| Self(encoding))
    }

    pub(super) fn name(self) -> &'static str {
        self.0.name()
    }

    /// The text in UTF-8.
    pub(super) fn decoded(self, path: &Path, bytes: Bytes) -> Bytes {
        Box::new(Transcoder::new(path, bytes, self.0))
    }
}

/// Turns text of another encoding into UTF-8.
struct Transcoder<R> {
    path: PathBuf,
    bytes: R,
    decoder: Decoder,
    raw: Vec<u8>,
    raw_start: usize,
    raw_end: usize,
    text: Vec<u8>,
    text_start: usize,
    text_end: usize,
    consumed: u64,
    line: u64,
    last: bool,
    finished: bool,
    fault: Option<Error>,
}

impl<R: Read> Transcoder<R> {
    fn new(path: &Path, bytes: R, encoding: &'static encoding_rs::Encoding) -> Self {
        Self {
            path: path.to_owned(),
            bytes,
            decoder: encoding.new_decoder(),
            raw: vec![0; 32 << 10],
            raw_start: 0,
            raw_end: 0,
            text: vec![0; 32 << 10],
            text_start: 0,
            text_end: 0,
            consumed: 0,
            line: 1,
            last: false,
            finished: false,
            fault: None,
        }
    }
}

impl<R: Read> Read for Transcoder<R> {
    fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
        while self.text_start == self.text_end {
            if let Some(fault) = self.fault.take() {
                self.finished = true;
                return Err(std::io::Error::other(fault));
            }
            if self.finished {
                return Ok(0);
            }
            if self.raw_start == self.raw_end && !self.last {
                (self.raw_start, self.raw_end) = (0, self.bytes.read(&mut self.raw)?);
                self.last = self.raw_end == 0;
            }
            let raw = &self.raw[self.raw_start..self.raw_end];
            let (result, read, written) =
                self.decoder.decode_to_utf8_without_replacement(raw, &mut self.text, self.last);
            self.raw_start += read;
            self.consumed += read as u64;
            (self.text_start, self.text_end) = (0, written);
            self.line += memchr_iter(b'\n', &self.text[..written]).count() as u64;
            match result {
                DecoderResult::OutputFull => {}
                DecoderResult::InputEmpty => self.finished = self.last,
                DecoderResult::Malformed(bad, after) => {
                    let encoding = self.decoder.encoding().name();
                    let message = format!("not valid {encoding}; set encoding to that of the file");
                    let byte = self.consumed.saturating_sub(u64::from(bad) + u64::from(after));
                    let fault = Error::new(ErrorKind::Format, message).at_path(&self.path);
                    self.fault = Some(fault.at_line(self.line).at_byte(byte));
                }
            }
        }
        let count = into.len().min(self.text_end - self.text_start);
        into[..count].copy_from_slice(&self.text[self.text_start..self.text_start + count]);
        self.text_start += count;
        Ok(count)
    }
}
