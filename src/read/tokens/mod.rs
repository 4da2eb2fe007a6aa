//! Tokens for language models: a long row of numbers, cut into windows. `options` has the settings, `file` reads the
//! row, `documents` and `best_fit` pack whole documents into windows, `rows` writes samples, and this file is their
//! reader.

mod best_fit;
mod documents;
mod entry;
mod file;
pub(super) mod old;
mod options;
mod rows;
mod tensors;
mod text;
mod text_entry;
mod text_options;

use std::ops::Range;
use std::path::Path;

use crate::error::{Error, ErrorKind, Location, Result};
use crate::memory::MemoryBudget;
use crate::random::hash_numbers;
use crate::row::{RowMut, RowsMut};
use crate::schema::TensorSpec;
use crate::storage::{Files, Needs};
use crate::tree::no_faults;

use super::fields::Field;
use super::fixed::Fetched;
use super::{Fingerprint, Job, RecordReader, Sample, Scratch, check_record};

use best_fit::Bins;
use documents::Windows;
use file::TokenFile;
use tensors::Tensors;

pub use entry::TokenFiles;
pub use options::{TokenCut, TokenOptions, TokenPacking, TokenTargets};
pub use text_entry::TextTokens;
pub use text_options::{TextCut, TextTokenOptions};

/// Windows of a file of tokens: `.bin`, as nanoGPT writes it or with the header of llm.c, or NPY.
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

/// The positions of the windows.
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

    /// Like [`TokenReader::open`], with these tensors of a window, under these names and with these types.
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
        files: &Files,
        path: &Path,
        fields: &[(String, Field)],
        options: &TokenOptions,
    ) -> Result<(Option<u64>, Vec<TensorSpec>)> {
        let (_, tensors, samples) = Self::outline(files, path, fields, options)?;
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
        if let (TokenCut::Documents { end, .. }, Some((_, most))) = (&options.cut, file.stored.kind.dtype().int_range())
            && i128::from(*end) > most
        {
            let message = format!(
                "cut.documents.end: {end}; the file holds {} tokens, which are {most} at most, so no document would \
                 end: check `end` and `stored`",
                file.stored.kind
            );
            return Err(Error::new(ErrorKind::Config, message).at_path(path));
        }
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

    /// The whole file, if it is in memory and samples are used in place.
    fn held(&self) -> Option<&[u8]> {
        self.file.input.slice().filter(|_| !matches!(self.windows, Cut::BestFit(_)))
    }
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

    fn fetch_all(&self, job: &mut Job<'_>, scratch: &mut Scratch) {
        if self.held().is_some() && job.samples().iter().all(|sample| *sample < self.samples) {
            return;
        }
        while let Some(nth) = job.advance() {
            job.report(self.fetch(job.samples(), nth, scratch));
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
        self.write(scratch.of::<Worker>(), sample.id, nth, row)
    }

    fn decode_all(&self, job: &mut Job<'_>, scratch: &mut Scratch, rows: &mut RowsMut<'_>) {
        let worker = scratch.of::<Worker>();
        let held = self.held();
        if let Some(held) = held {
            worker.fetched.hold(held, self.largest, job.samples(), |sample| self.bytes_of(sample));
        }
        while let Some(nth) = job.advance() {
            job.report(self.write(worker, job.samples()[nth], nth, &mut rows.row(nth)));
        }
        job.came_straight(held.is_some());
    }

    fn is_random(&self) -> bool {
        false
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
