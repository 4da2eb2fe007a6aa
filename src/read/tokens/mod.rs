//! Tokens for language models: a long row of numbers, cut into windows. `options` says how, `file` reads the row,
//! `documents` and `best_fit` pack whole documents into windows, and this file writes samples.

mod best_fit;
mod documents;
mod entry;
mod file;
pub(super) mod old;
mod options;
mod tensors;
mod text;
mod text_entry;
mod text_options;

use std::ops::Range;
use std::path::Path;

use crate::error::{Error, ErrorKind, Location, Result};
use crate::memory::MemoryBudget;
use crate::random::hash_numbers;
use crate::row::{RowMut, TensorMut};
use crate::schema::TensorSpec;
use crate::storage::{Files, Needs};
use crate::tree::no_faults;

use super::fields::Field;
use super::fixed::Fetched;
use super::{Fingerprint, RecordReader, Sample, Scratch, check_record};

use best_fit::Bins;
use documents::Windows;
use file::TokenFile;
use tensors::{Part, Tensors};

pub use entry::Tokens;
pub use options::{TokenCut, TokenOptions, TokenPacking, TokenTargets};
pub use text_entry::TextTokens;
pub use text_options::{TextCut, TextTokenOptions};

/// Windows of a file of tokens: `.bin`, as nanoGPT and llm.c write it, or NPY.
///
/// ```
/// use ringfeed::read::RecordReader;
/// use ringfeed::source::ReaderSource;
/// use ringfeed::tokens::{TokenOptions, TokenReader};
///
/// # let folder = tempfile::tempdir()?;
/// # let path = folder.path().join("train.bin");
/// # std::fs::write(&path, vec![0; 2 * 100_000])?;
/// let options = TokenOptions { window: 256, ..TokenOptions::default() };
/// let windows = TokenReader::open(path, &options)?; // 100,000 tokens of u16
/// assert_eq!(windows.len(), 100_000 - 256); // places where a window and its last target may begin
/// let epoch = options.samples_per_epoch(windows.len()).expect("random windows");
/// let source = ReaderSource::new(windows).shuffle(42).samples_per_epoch(epoch).batch_size(64);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct TokenReader {
    file: TokenFile,
    options: TokenOptions,
    tensors: Tensors,
    windows: Cut,
    samples: u64,
    /// Tokens of a sample.
    span: usize,
    /// Bytes of the longest sample.
    largest: usize,
}

/// Where the windows are.
#[derive(Debug)]
enum Cut {
    /// At equal distances.
    Even(u64),
    /// Documents that follow each other.
    Whole(Windows),
    /// Documents from anywhere.
    BestFit(Bins),
}

/// A worker's buffers: the bytes of its job's windows, put together if documents come from anywhere, and the ends of
/// the documents in one of them.
#[derive(Default)]
struct Worker {
    fetched: Fetched,
    gathered: Vec<u8>,
    ends: Vec<usize>,
}

impl TokenReader {
    /// Opens a file of tokens.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::NotFound`] with the nearest name, [`ErrorKind::Format`] for a file that does not hold whole tokens,
    /// [`ErrorKind::Unsupported`] for an NPY file that is not a row of `u8`, `u16` or `u32`, [`ErrorKind::Schema`] for
    /// a type that can't hold the file's tokens, [`ErrorKind::Config`] for invalid options or a file shorter than a
    /// window.
    pub fn open(path: impl AsRef<Path>, options: &TokenOptions) -> Result<Self> {
        Self::open_in(&Files::local(), path, options, &MemoryBudget::unlimited())
    }

    /// As [`TokenReader::open`]; the index of whole documents counts against `budget`: see [`TokenPacking`].
    ///
    /// # Errors
    ///
    /// As [`TokenReader::open`], and [`ErrorKind::Budget`].
    pub fn open_within(path: impl AsRef<Path>, options: &TokenOptions, budget: &MemoryBudget) -> Result<Self> {
        Self::open_in(&Files::local(), path, options, budget)
    }

    /// As [`TokenReader::open_within`], for one of these files.
    ///
    /// # Errors
    ///
    /// As [`TokenReader::open_within`].
    pub fn open_in(
        files: &Files,
        path: impl AsRef<Path>,
        options: &TokenOptions,
        budget: &MemoryBudget,
    ) -> Result<Self> {
        Self::open_fields_in(files, path.as_ref(), &[], options, budget)
    }

    /// As [`TokenReader::open`], with these tensors of a window, under these names and with these types.
    ///
    /// ```
    /// use ringfeed::field::Numbers;
    /// use ringfeed::read::RecordReader;
    /// use ringfeed::tokens::{TokenOptions, TokenReader};
    ///
    /// # let folder = tempfile::tempdir()?;
    /// # let path = folder.path().join("train.bin");
    /// # std::fs::write(&path, vec![0; 2 * 100_000])?;
    /// let fields = [("x", Numbers::of(ringfeed::DType::I32).from("inputs"))].map(|(name, field)| (name.to_owned(), field));
    /// let windows = TokenReader::open_fields(path, &fields, &TokenOptions::default())?;
    /// assert_eq!((windows.tensors().len(), &*windows.tensors()[0].name), (1, "x"));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As [`TokenReader::open`], and [`ErrorKind::Config`] for fields that windows do not have.
    pub fn open_fields(path: impl AsRef<Path>, fields: &[(String, Field)], options: &TokenOptions) -> Result<Self> {
        Self::open_fields_in(&Files::local(), path.as_ref(), fields, options, &MemoryBudget::unlimited())
    }

    fn open_fields_in(
        files: &Files,
        path: &Path,
        fields: &[(String, Field)],
        options: &TokenOptions,
        budget: &MemoryBudget,
    ) -> Result<Self> {
        let (file, tensors, samples) = Self::outline(files, path, fields, options)?;
        let (span, overlap) = (options.span() as u64, options.overlap() as u64);
        let windows = match options.cut {
            TokenCut::Documents { end, packing: TokenPacking::Whole } => {
                Windows::find(&file, end, span, overlap, budget).map(Cut::Whole)
            }
            TokenCut::Documents { end, packing: TokenPacking::BestFit } => {
                Bins::find(&file, end, span, overlap, budget).map(Cut::BestFit)
            }
            _ => Ok(Cut::Even(options.stride().unwrap_or(1) as u64)),
        };
        let windows = windows.map_err(|error| error.at_path(path))?;
        let samples = samples.unwrap_or_else(|| match &windows {
            Cut::Even(_) => 0,
            Cut::Whole(windows) => windows.len(),
            Cut::BestFit(bins) => bins.len(),
        });
        let (span, options) = (options.span(), options.clone());
        let largest = span * file.stored.kind.bytes();
        Ok(Self { file, options, tensors, windows, samples, span, largest })
    }

    /// The number of samples, if the file's length tells it, and their tensors.
    fn foretold(
        path: &Path,
        fields: &[(String, Field)],
        options: &TokenOptions,
    ) -> Result<(Option<u64>, Vec<TensorSpec>)> {
        let (_, tensors, samples) = Self::outline(&Files::local(), path, fields, options)?;
        Ok((samples, tensors.specs))
    }

    fn outline(
        files: &Files,
        path: &Path,
        fields: &[(String, Field)],
        options: &TokenOptions,
    ) -> Result<(TokenFile, Tensors, Option<u64>)> {
        no_faults(options.faults()).map_err(|error| error.at_path(path))?;
        let file = TokenFile::open(files, path, options)?;
        let tensors = Tensors::of(options, fields, Some(file.stored.kind)).map_err(|error| error.at_path(path))?;
        let (tokens, span, overlap) = (file.tokens, options.span() as u64, options.overlap() as u64);
        let fewest = if let TokenCut::Documents { .. } = options.cut { 1 + overlap } else { span };
        if tokens < fewest {
            let message = format!("holds {tokens} tokens; a window and its targets need {fewest}");
            return Err(Error::new(ErrorKind::Config, message).at_path(path));
        }
        let samples = options.stride().map(|stride| match options.cut {
            // A window that is not full is padded.
            TokenCut::Documents { .. } => (tokens - overlap).div_ceil(stride as u64),
            _ => (tokens - span) / stride as u64 + 1,
        });
        Ok((file, tensors, samples))
    }

    /// The file.
    pub fn path(&self) -> &Path {
        self.file.input.path()
    }

    /// Number of tokens in the file.
    pub fn tokens(&self) -> u64 {
        self.file.tokens
    }

    /// The tokens of a sample; if documents come from anywhere, the first tokens that follow each other.
    fn window(&self, sample: u64) -> Range<u64> {
        match &self.windows {
            Cut::Even(stride) => {
                // Empty beyond the last sample.
                let start = sample.saturating_mul(*stride).min(self.file.tokens);
                start..self.file.tokens.min(start + self.span as u64)
            }
            Cut::Whole(windows) => windows.window(sample),
            Cut::BestFit(bins) => bins.pieces(sample).next().unwrap_or(0..0),
        }
    }

    fn bytes_of(&self, sample: u64) -> Range<u64> {
        let Range { start, end } = self.window(sample);
        self.file.byte(start)..self.file.byte(end)
    }

    /// Checks that all tokens are in the vocabulary.
    fn check(&self, sample: u64, bytes: &[u8]) -> Result<()> {
        let Some(vocabulary) = self.options.vocabulary else { return Ok(()) };
        let Some((index, token)) = self.file.beyond(bytes, vocabulary) else { return Ok(()) };
        let message = format!("token {token} is beyond the vocabulary of {vocabulary}");
        let byte = self.file.byte(self.token_at(sample, index as u64));
        Err(Error::new(ErrorKind::Data, message).at_byte(byte))
    }

    /// The position in the file of token `index` of a sample.
    fn token_at(&self, sample: u64, mut index: u64) -> u64 {
        if let Cut::BestFit(bins) = &self.windows {
            for piece in bins.pieces(sample) {
                let tokens = piece.end - piece.start;
                if index < tokens {
                    return piece.start + index;
                }
                index -= tokens;
            }
        }
        self.window(sample).start + index
    }

    /// Writes `tokens`, followed by zeros.
    fn put(&self, tokens: &[u8], mut tensor: TensorMut<'_>) -> Result<()> {
        let written = tokens.len() / self.file.stored.kind.bytes() * tensor.dtype().bytes();
        let padding = &mut tensor.bytes_mut()[written..];
        if !padding.is_empty() {
            padding.fill(0);
        }
        self.file.stored.write(tokens, 0, &mut tensor)
    }

    /// Writes segments, positions and mask of the documents that end at `ends`, followed by zeros.
    fn put_documents(&self, ends: &[usize], row: &mut RowMut<'_>) -> Result<()> {
        let documents = || ends.iter().scan(0, |begin, end| Some(std::mem::replace(begin, *end)..*end));
        let padding = ends.last().copied().unwrap_or(0)..usize::MAX;
        if let Some(place) = self.tensors.place(Part::Segments) {
            let mut tensor = row.tensor(place);
            let segments = tensor.as_mut_slice::<i32>()?;
            for (document, nth) in documents().zip(1..) {
                clamped(segments, document).fill(nth);
            }
            clamped(segments, padding.clone()).fill(0);
        }
        if let Some(place) = self.tensors.place(Part::Positions) {
            let mut tensor = row.tensor(place);
            let positions = tensor.as_mut_slice::<i32>()?;
            for document in documents() {
                clamped(positions, document).iter_mut().zip(0..).for_each(|(position, nth)| *position = nth);
            }
            clamped(positions, padding.clone()).fill(0);
        }
        let Some(place) = self.tensors.place(Part::Mask) else { return Ok(()) };
        let mut tensor = row.tensor(place);
        let mask = tensor.as_mut_slice::<u8>()?;
        for document in documents() {
            let unpredicted = match self.options.targets {
                TokenTargets::Shifted => document.end - 1..document.end,
                TokenTargets::Inside => document.start..document.start + 1,
                TokenTargets::None => 0..0,
            };
            clamped(mask, document).fill(1);
            clamped(mask, unpredicted).fill(0);
        }
        clamped(mask, padding).fill(0);
        Ok(())
    }
}

/// The part of `range` that lies in `slice`.
fn clamped<T>(slice: &mut [T], range: Range<usize>) -> &mut [T] {
    let end = range.end.min(slice.len());
    &mut slice[range.start.min(end)..end]
}

impl RecordReader for TokenReader {
    fn len(&self) -> u64 {
        self.samples
    }

    fn tensors(&self) -> &[TensorSpec] {
        &self.tensors.specs
    }

    fn need(&self, samples: &[u64], needs: &mut Needs) {
        for sample in samples {
            match &self.windows {
                Cut::BestFit(bins) => bins.pieces(*sample).for_each(|piece| {
                    self.file.input.need(self.file.byte(piece.start)..self.file.byte(piece.end), needs);
                }),
                _ => self.file.input.need(self.bytes_of(*sample), needs),
            }
        }
    }

    fn fetch(&self, samples: &[u64], nth: usize, scratch: &mut Scratch) -> Result<()> {
        check_record(samples[nth], self.samples).map_err(|error| error.at_path(self.path()))?;
        let Worker { fetched, gathered, .. } = scratch.of::<Worker>();
        let Cut::BestFit(bins) = &self.windows else {
            return fetched.fetch(&self.file.input, self.largest, samples, nth, |sample| self.bytes_of(sample));
        };
        let needed = samples.len() * self.largest;
        if gathered.len() < needed {
            gathered.resize(needed, 0);
        }
        let mut at = nth * self.largest;
        for piece in bins.pieces(samples[nth]) {
            let start = self.file.byte(piece.start);
            let bytes = (self.file.byte(piece.end) - start) as usize;
            self.file.input.read_at(start, &mut gathered[at..at + bytes])?;
            at += bytes;
        }
        Ok(())
    }

    fn decode(&self, sample: Sample, nth: usize, scratch: &mut Scratch, row: &mut RowMut<'_>) -> Result<()> {
        let Worker { fetched, gathered, ends } = scratch.of::<Worker>();
        let token_bytes = self.file.stored.kind.bytes();
        ends.clear();
        let bytes = match &self.windows {
            Cut::BestFit(bins) => {
                let mut tokens = 0;
                for piece in bins.pieces(sample.id) {
                    tokens += (piece.end - piece.start) as usize;
                    ends.push(tokens);
                }
                &gathered[nth * self.largest..][..tokens * token_bytes]
            }
            _ => fetched.bytes(&self.file.input, self.largest, sample.id, nth, |sample| self.bytes_of(sample)),
        };
        self.check(sample.id, bytes)?;
        let inputs = match self.options.targets {
            TokenTargets::Shifted => &bytes[..bytes.len().min(self.options.window * token_bytes)],
            TokenTargets::Inside | TokenTargets::None => bytes,
        };
        if let Some(place) = self.tensors.place(Part::Inputs) {
            self.put(inputs, row.tensor(place))?;
        }
        if let Some(place) = self.tensors.place(Part::Targets) {
            self.put(&bytes[token_bytes..], row.tensor(place))?;
        }
        if let TokenCut::Documents { end, .. } = self.options.cut {
            if ends.is_empty() {
                let tokens = bytes.len() / token_bytes;
                self.file.find(bytes, end, |index| ends.push(index + 1));
                if ends.last() != Some(&tokens) {
                    ends.push(tokens);
                }
            }
            self.put_documents(ends, row)?;
        }
        Ok(())
    }

    fn place(&self, sample: u64) -> Location {
        Location {
            path: Some(self.path().to_owned()),
            record: Some(sample),
            byte: Some(self.bytes_of(sample).start),
            ..Location::default()
        }
    }

    fn fingerprint(&self) -> Fingerprint {
        let stride = match (self.options.stride(), &self.options.cut) {
            (Some(stride), _) => stride as u64,
            (None, TokenCut::Documents { packing: TokenPacking::BestFit, .. }) => u64::MAX,
            (None, _) => 0,
        };
        let (span, overlap) = (self.options.span() as u64, self.options.overlap() as u64);
        let names = hash_numbers([span, stride, overlap, self.samples]);
        Fingerprint { count: Some(self.samples), names, sizes: self.file.input.len() }
    }
}
