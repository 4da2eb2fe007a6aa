//! Documents as one long row of tokens in a file.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::ops::Range;
use std::path::{Path, PathBuf};

use crc32fast::Hasher;

use crate::decode::Tokenizer;
use crate::error::{Error, ErrorKind, Location, Result};
use crate::files::{self, TemporaryFile, TemporaryPath, Users};
use crate::random::{hash_bytes, hash_numbers};
use crate::read::codec::text_of;
use crate::read::container::Container;
use crate::read::fields::{Field, Text};
use crate::read::fixed::{Endian, StoredType};
use crate::read::format::Open;
use crate::read::saved::{ELSEWHERE, Guard, Kept, belongs_to_another};
use crate::read::value::Value;
use crate::read::{ColumnRef, Fingerprint, Job, RecordReader, Sample, Scratch, parallel};
use crate::row::{RowMut, RowsMut};
use crate::schema::TensorSpec;
use crate::storage::{Access, Files, Input, Needs};
use crate::system::check_file_limit;

use super::TokenReader;
use super::options::TokenOptions;
use super::tensors::Tensors;
use super::text_options::TextTokenOptions;

/// Number of documents that a thread takes at a time.
const DOCUMENTS_AT_ONCE: u64 = 64;

/// A saved file of tokens begins with these magic bytes, the last of which is the version of its form, a hash of
/// everything that it is made of, the number of bytes per token, the CRC-32 of the tokens, and the number of bytes that
/// follow. Without this header, raw tokens could not be distinguished from any other file.
const MAGIC: [u8; 8] = *b"rftoken2";
const HEADER: usize = 32;

/// Bytes of a saved file whose checksum a thread computes at a time.
const CHECKED_BYTES: u64 = 1 << 20;

/// Windows of tokens that were made from text.
pub(super) struct TextTokens {
    reader: TokenReader,
    source: PathBuf,
    fingerprint: Fingerprint,
    /// Removed when the reader drops.
    #[expect(dead_code, reason = "held until the reader drops")]
    temporary: Option<TemporaryPath>,
}

/// The text that a file of tokens is made from.
struct Corpus {
    container: Box<dyn Container>,
    /// The number of the field of text, and its name.
    field: (usize, String),
    tokenizer: Tokenizer,
    end: u32,
    stored: StoredType,
    special_tokens: bool,
}

impl Corpus {
    fn open(options: &TextTokenOptions, paths: &[PathBuf], at: &Open<'_>) -> Result<Self> {
        let tokenizer = Tokenizer::load(&options.tokenizer)?;
        let end = tokenizer.token(&options.end).map_err(|error| error.at_path(&options.tokenizer))?;
        let named = |name: &str| -> Result<(Box<dyn Container>, usize)> {
            let column = options.from.clone().unwrap_or_else(|| name.into());
            let wanted: [(String, Field); 1] = [("text".to_owned(), Text::new(1).from(column.clone()))];
            let mut container = at.open_other(options.format.as_deref(), paths, &wanted)?;
            let number = container.find_text(&column).map_err(|error| match options.from {
                Some(_) => error.at_path(at.path),
                None => {
                    let message = format!("{}; say in `from` which field holds the text", error.message());
                    Error::new(ErrorKind::Config, message).at_path(at.path)
                }
            })?;
            Ok((container, number))
        };
        let name = if options.format.as_deref() == Some("text") { "line" } else { "text" };
        let (container, number) = named(name)?;
        let name = options.from.as_ref().map_or_else(|| name.to_owned(), ColumnRef::to_string);
        let stored = if tokenizer.limit() <= 1 << 16 { StoredType::U16 } else { StoredType::U32 };
        Ok(Self { container, field: (number, name), tokenizer, end, stored, special_tokens: options.special_tokens })
    }

    /// Whether sizes and times of these files would show a change of the documents. They would not if they are a folder
    /// or an index, because the documents are then in other files.
    fn is_told_by(&self, paths: &[PathBuf]) -> bool {
        let first = if self.container.is_empty() { None } else { self.container.place(0).path };
        first.is_some_and(|first| paths.contains(&first))
    }

    /// Everything that the tokens depend on in addition to the files.
    fn guard(&self) -> u64 {
        let Fingerprint { count, names, sizes } = self.container.fingerprint();
        let numbers = [count.unwrap_or(u64::MAX), names, sizes, self.tokenizer.hash(), self.end.into()];
        let special = u64::from(self.special_tokens);
        hash_numbers(numbers.into_iter().chain([special, hash_bytes(self.field.1.as_bytes())]))
    }

    /// The tokens of one record as they are stored, including the one that ends it.
    fn tokens_of(&self, record: u64, scratch: &mut Scratch, into: &mut Vec<u8>) -> Result<()> {
        let mut tokens = Vec::new();
        let read = self.container.fetch(&[record], 0, scratch).and_then(|()| {
            self.container.read(record, 0, scratch, &mut |number, value| {
                if number == self.field.0 {
                    tokens = match &value {
                        Value::Missing => Vec::new(),
                        value => self.tokenizer.encode(text_of(value)?, self.special_tokens)?,
                    };
                }
                Ok(())
            })
        });
        read.map_err(|error| match error.location().record {
            Some(_) => error,
            None => error.at(self.container.place(record)),
        })?;
        for token in tokens.into_iter().chain([self.end]) {
            match self.stored {
                StoredType::U16 => into.extend_from_slice(&(token as u16).to_le_bytes()),
                _ => into.extend_from_slice(&token.to_le_bytes()),
            }
        }
        Ok(())
    }

    /// Writes the header and all tokens.
    fn write(&self, file: &File, guard: u64, options: &TextTokenOptions) -> Result<()> {
        let mut out = BufWriter::with_capacity(1 << 20, file);
        let (mut bytes, mut checksum) = (0u64, Hasher::new());
        let written = |error: std::io::Error| {
            Error::new(ErrorKind::Io, format!("the tokens can't be written: {error}")).with_source(error)
        };
        out.write_all(&[0; HEADER]).map_err(written)?;
        let records = self.container.len();
        parallel::in_order(
            parallel::thread_count(options.threads),
            records.div_ceil(DOCUMENTS_AT_ONCE),
            |scratch: &mut Scratch, job| {
                let mut tokens = Vec::new();
                let last = records.min((job + 1) * DOCUMENTS_AT_ONCE);
                (job * DOCUMENTS_AT_ONCE..last).try_for_each(|record| self.tokens_of(record, scratch, &mut tokens))?;
                Ok(tokens)
            },
            |tokens| {
                bytes += tokens.len() as u64;
                if bytes > options.max_token_bytes {
                    let message =
                        format!("more than {} bytes of tokens; raise max_token_bytes", options.max_token_bytes);
                    return Err(Error::new(ErrorKind::Limit, message));
                }
                checksum.update(&tokens);
                check_file_limit(HEADER as u64 + bytes).and_then(|()| out.write_all(&tokens)).map_err(written)
            },
        )?;
        out.flush().map_err(written)?;
        drop(out);
        write_at(file, &header(guard, self.stored, checksum.finalize(), bytes)).map_err(written)
    }

    /// Writes them to a file of this name, which other programs see only when it is complete; `false` if it belongs to
    /// another user.
    fn write_to(&self, path: &Path, guard: u64, options: &TextTokenOptions) -> Result<bool> {
        let file = match files::unfinished(path) {
            Ok(file) => file,
            Err(error) if belongs_to_another(path, &error) => return Ok(false),
            Err(error) => {
                let message = format!("the tokens can't be saved; keep them {ELSEWHERE} or don't save them: {error}");
                return Err(Error::new(ErrorKind::Io, message).with_source(error).at_path(path));
            }
        };
        self.write(file.file(), guard, options)?;
        file.rename(path).map(|()| true).map_err(|error| Error::io(path, error))
    }

    /// Whether the file at `path` holds these tokens. If it does, all of it is read, to see that none was changed since.
    fn is_kept(&self, path: &Path, guard: u64, options: &TextTokenOptions) -> bool {
        let Ok(input) = Files::local().open(path, Access::Read) else { return false };
        let mut found = [0; HEADER];
        if input.len() < HEADER as u64 || input.read_at(0, &mut found).is_err() {
            return false;
        }
        let checksum = u32::from_le_bytes(found[CHECKSUM].try_into().unwrap_or_default());
        found == header(guard, self.stored, checksum, input.len() - HEADER as u64)
            && checksum_of(&input, options).is_ok_and(|found| found == checksum)
    }
}

/// Where tokens are saved, for the current state of these files; `None` if they are not saved, or in a storage, which
/// gives no times.
fn kept(options: &TextTokenOptions, paths: &[PathBuf], at: &Open<'_>) -> Option<Kept> {
    let path = options.saved_index.path_of(at.path, "tokens").filter(|_| at.files.are_local())?;
    // What is wrong with a file is said when it is opened.
    paths.iter().try_fold(Kept::new(path, Guard::new("tokens 2")), |kept, path| kept.and_file(path)).ok()
}

/// Where the checksum is in a header.
const CHECKSUM: Range<usize> = 20..24;

fn header(guard: u64, stored: StoredType, checksum: u32, bytes: u64) -> [u8; HEADER] {
    let mut header = [0; HEADER];
    header[..8].copy_from_slice(&MAGIC);
    header[8..16].copy_from_slice(&guard.to_le_bytes());
    header[16..CHECKSUM.start].copy_from_slice(&(stored.bytes() as u32).to_le_bytes());
    header[CHECKSUM].copy_from_slice(&checksum.to_le_bytes());
    header[CHECKSUM.end..].copy_from_slice(&bytes.to_le_bytes());
    header
}

/// The checksum of the tokens in a saved file, which several threads read.
fn checksum_of(input: &Input, options: &TextTokenOptions) -> Result<u32> {
    let mut whole = Hasher::new();
    let part = |buffer: &mut Vec<u8>, part: u64| {
        let start = HEADER as u64 + part * CHECKED_BYTES;
        buffer.resize((input.len() - start).min(CHECKED_BYTES) as usize, 0);
        input.read_at(start, buffer)?;
        let mut checksum = Hasher::new();
        checksum.update(buffer);
        Ok(checksum)
    };
    let parts = (input.len() - HEADER as u64).div_ceil(CHECKED_BYTES);
    parallel::in_order(parallel::thread_count(options.threads), parts, part, |checksum| {
        whole.combine(&checksum);
        Ok(())
    })?;
    Ok(whole.finalize())
}

fn write_at(mut file: &File, bytes: &[u8]) -> std::io::Result<()> {
    use std::io::{Seek, SeekFrom};
    file.seek(SeekFrom::Start(0))?;
    file.write_all(bytes)
}

impl TextTokens {
    /// Tokenises the documents in `paths`, unless an earlier run has saved their tokens.
    pub(super) fn open(options: &TextTokenOptions, paths: &[PathBuf], at: &Open<'_>) -> Result<Self> {
        // Before any text is read.
        Tensors::of(&options.of_tokens(0), at.fields, None).map_err(|error| error.at_path(at.path))?;
        let kept = kept(options, paths, at);
        let corpus = Corpus::open(options, paths, at)?;
        let kept = kept.filter(|_| corpus.is_told_by(paths)).map(|kept| kept.and(&corpus.guard().to_le_bytes()));
        let mut temporary = None;
        let path = match kept.as_ref().and_then(Kept::settled) {
            Some((kept, guard)) if corpus.is_kept(kept, guard, options) => Some(kept.to_owned()),
            Some((kept, guard)) => corpus.write_to(kept, guard, options)?.then(|| kept.to_owned()),
            None => None,
        };
        let path = match path {
            Some(path) => path,
            None => {
                let file = private_file()?;
                corpus.write(file.file(), 0, options)?;
                let path = file.close();
                let at = path.path().to_owned();
                temporary = Some(path);
                at
            }
        };
        let tokens = TokenOptions {
            stored: corpus.stored,
            endian: Endian::Little,
            header_bytes: HEADER as u64,
            access: Access::Read,
            ..options.of_tokens(corpus.end)
        };
        let reader = TokenReader::open_fields_in(&Files::local(), &path, at.fields, &tokens, at.budget);
        // The temporary file has no name that the user knows.
        let reader = reader
            .map_err(|error| Error::new(error.kind(), format!("as tokens, {}", error.message())).at_path(at.path))?;
        let fingerprint = corpus.container.fingerprint().and(Fingerprint {
            sizes: hash_numbers([corpus.tokenizer.hash(), reader.tokens()]),
            ..reader.fingerprint()
        });
        let fingerprint = Fingerprint { count: Some(reader.len()), ..fingerprint };
        #[cfg(unix)]
        // The open file is enough, and a process that is killed leaves nothing behind.
        drop(temporary.take());
        Ok(Self { reader, source: at.path.to_owned(), fingerprint, temporary })
    }
}

/// A file that only this user and this run use.
fn private_file() -> Result<TemporaryFile> {
    TemporaryFile::new_in(&std::env::temp_dir(), Users::Owner).map_err(|error| {
        let message = format!("the tokens of the text are kept in a temporary file: {error}");
        Error::new(ErrorKind::Io, message).with_source(error).at_path(std::env::temp_dir())
    })
}

impl RecordReader for TextTokens {
    fn len(&self) -> u64 {
        self.reader.len()
    }

    fn tensors(&self) -> &[TensorSpec] {
        self.reader.tensors()
    }

    fn need(&self, samples: &[u64], needs: &mut Needs) {
        self.reader.need(samples, needs);
    }

    fn fetch(&self, samples: &[u64], nth: usize, scratch: &mut Scratch) -> Result<()> {
        self.reader.fetch(samples, nth, scratch)
    }

    fn decode(&self, sample: Sample, nth: usize, scratch: &mut Scratch, row: &mut RowMut<'_>) -> Result<()> {
        self.reader.decode(sample, nth, scratch, row)
    }

    fn fetch_all(&self, job: &mut Job<'_>, scratch: &mut Scratch) {
        self.reader.fetch_all(job, scratch);
    }

    fn decode_all(&self, job: &mut Job<'_>, scratch: &mut Scratch, rows: &mut RowsMut<'_>) {
        self.reader.decode_all(job, scratch, rows);
    }

    fn is_random(&self) -> bool {
        false
    }

    fn place(&self, sample: u64) -> Location {
        Location { path: Some(self.source.clone()), record: Some(sample), ..Location::default() }
    }

    fn fingerprint(&self) -> Fingerprint {
        self.fingerprint
    }
}
