//! NPZ archives: NPY files in a zip archive, as `numpy.savez` and `savez_compressed` write them.

use std::io::{BufReader, Read};
use std::ops::Range;
use std::path::{Path, PathBuf};

use rawzip::{CompressionMethod, RECOMMENDED_BUFFER_SIZE, RangeReader, ReaderAt, ZipLocator};

use crate::error::{Error, ErrorKind, Result};
use crate::storage::{Input, Spool, inflate_error};

use super::arrays::{self, ArraySetOptions, Listed};
use super::container::Container;
use super::fixed::{ArrayHeader, Origin, in_c_order};
use super::format::{Checks, Format, Inspection, Open, Opened, format_has, open_parts};
use super::npy::{MOST_BYTES, header_in, header_within};

/// The format of NPZ archives: each array is a field, and its rows are the records.
#[derive(Clone, Copy, Debug)]
pub struct Npz;

impl Format for Npz {
    const NAME: &'static str = "npz";
    type Options = ArraySetOptions;

    /// A zip archive whose first member is an NPY file.
    fn sniff(&self, head: &[u8], _: &Path) -> bool {
        let name = || head.get(30..30 + usize::from(u16::from_le_bytes([*head.get(26)?, *head.get(27)?])));
        head.starts_with(b"PK\x03\x04") && name().is_some_and(|name| name.ends_with(b".npy"))
    }

    fn has_name(&self, name: &str) -> bool {
        name.ends_with(".npz")
    }

    fn title(&self) -> Option<&'static str> {
        Some("NPZ archives")
    }

    format_has!(small_samples, access);

    fn open(&self, options: &ArraySetOptions, at: &Open<'_>) -> Result<impl Into<Opened>> {
        let archive = Archive::open(options, at)?;
        arrays::open(archive.list()?, &|number| archive.load(number), options, at)
    }

    /// Every array is a field, even one that can't be read. The checksums of arrays that are stored without compression
    /// must be right.
    fn open_values(&self, options: &ArraySetOptions, paths: &[PathBuf], at: &Open<'_>) -> Result<Box<dyn Container>> {
        let open = |at: &Open<'_>| match Archive::open(options, at)?.damaged()?.into_iter().next() {
            Some(damaged) => Err(damaged),
            None => fields(options, at),
        };
        open_parts(&open, paths, &Open { fields: &[], ..*at })?.into_values().map_err(|error| error.at_path(at.path))
    }

    /// Checks all fields, and the checksums of arrays that are stored without compression, because opening these reads
    /// only their headers.
    fn checks(&self, options: &ArraySetOptions, at: &Open<'_>) -> Result<Checks> {
        let refused = Archive::open(options, at)?.damaged()?;
        Ok(Checks { refused, ..Checks::of_opened(fields(options, at)?, self.has_small_samples())? })
    }

    fn inspect(&self, options: &ArraySetOptions, at: &Open<'_>) -> Result<Inspection> {
        Inspection::of_opened(Self::NAME, fields(options, at)?, at)
    }
}

/// All arrays as fields of one record.
fn fields(options: &ArraySetOptions, at: &Open<'_>) -> Result<Opened> {
    let archive = Archive::open(options, at)?;
    arrays::open_fields(archive.list()?, &|number| archive.load(number), options, at)
}

/// Number of bytes that are read at a time for their checksum.
const BLOCK_BYTES: usize = 1 << 20;

/// Most members that are listed.
const MAX_MEMBERS: usize = 1 << 20;

/// An archive and its members.
struct Archive<'a> {
    at: &'a Open<'a>,
    options: &'a ArraySetOptions,
    input: Input,
    members: Vec<Member>,
}

struct Member {
    name: String,
    method: CompressionMethod,
    is_encrypted: bool,
    /// Where its bytes lie in the archive.
    range: Range<u64>,
    /// Number of bytes after decompression, and their checksum.
    bytes: u64,
    crc: u32,
}

struct Zipped<'a>(&'a Input);

impl ReaderAt for Zipped<'_> {
    fn read_at(&self, into: &mut [u8], offset: u64) -> std::io::Result<usize> {
        let count = self.0.len().saturating_sub(offset).min(into.len() as u64) as usize;
        self.0.read_at(offset, &mut into[..count]).map_err(std::io::Error::other)?;
        Ok(count)
    }
}

impl<'a> Archive<'a> {
    fn open(options: &'a ArraySetOptions, at: &'a Open<'a>) -> Result<Self> {
        let input = at.files.open(at.path, options.access)?;
        let members = members(&input).map_err(|error| error.at_path(at.path))?;
        Ok(Self { at, options, input, members })
    }

    fn list(&self) -> Result<Vec<Listed>> {
        let list = |member: &Member| {
            let name = member.name.strip_suffix(".npy").unwrap_or(&member.name).to_owned();
            let header = match self.header(member) {
                Err(error) if error.kind() == ErrorKind::Io => return Err(error.at_path(self.at.path)),
                header => header,
            };
            Ok(Listed { name, header })
        };
        self.members.iter().map(list).collect()
    }

    fn header(&self, member: &Member) -> Result<ArrayHeader> {
        let refused = |message: String| Err(Error::new(ErrorKind::Unsupported, message));
        if !member.name.ends_with(".npy") {
            return refused("is not an NPY file, and so not an array".to_owned());
        }
        if member.is_encrypted {
            return refused("is encrypted".to_owned());
        }
        match member.method {
            CompressionMethod::STORE => header_within(&self.input, member.range.clone()),
            CompressionMethod::DEFLATE => {
                let mut head = Vec::new();
                let read = self.inflated(member).take(MOST_BYTES).read_to_end(&mut head);
                read.map_err(|error| inflate_error(self.at.path, head.len() as u64, error))?;
                header_in(&head, member.bytes)
            }
            other => refused(format!("is compressed by {other:?}; save it with numpy.savez or savez_compressed")),
        }
    }

    /// The stored arrays whose bytes do not match their checksums.
    fn damaged(&self) -> Result<Vec<Error>> {
        let mut damaged = Vec::new();
        let mut block = vec![0; BLOCK_BYTES];
        for member in self.members.iter().filter(|member| member.method == CompressionMethod::STORE) {
            let mut crc = crc32fast::Hasher::new();
            let mut at = member.range.start;
            while at < member.range.end {
                let part = &mut block[..(member.range.end - at).min(BLOCK_BYTES as u64) as usize];
                self.input.read_at(at, part)?;
                crc.update(part);
                at += part.len() as u64;
            }
            if !member.is_encrypted && crc.finalize() != member.crc {
                damaged.push(damage(self.at.path, member));
            }
        }
        Ok(damaged)
    }

    fn inflated(&self, member: &Member) -> impl Read {
        flate2::bufread::DeflateDecoder::new(BufReader::new(RangeReader::new(
            Zipped(&self.input),
            member.range.clone(),
        )))
    }

    fn load(&self, number: usize) -> Result<(Input, ArrayHeader)> {
        let member = &self.members[number];
        let mut header = self.header(member)?;
        let Open { path, files, budget, .. } = *self.at;
        let spool = Spool { budget: budget.clone(), limit_bytes: member.bytes, ..Spool::default() };
        let input = if member.method == CompressionMethod::STORE {
            files.open(path, self.options.access)?
        } else {
            let mut checked = Checked { bytes: self.inflated(member), crc: crc32fast::Hasher::new() };
            let input = Input::spool(path, &mut checked, &spool).map_err(|error| error.at_member(&*member.name))?;
            if input.len() != member.bytes || checked.crc.finalize() != member.crc {
                return Err(damage(path, member));
            }
            header.origin = Origin::Compressed;
            input
        };
        let spool = Spool { budget: budget.clone(), ..Spool::default() };
        in_c_order(input, header, &spool).map_err(|error| error.at_path(path).at_member(&*member.name))
    }
}

#[cold]
fn damage(path: &Path, member: &Member) -> Error {
    let message = "the checksum or the length of the array is not that in the archive: it is damaged";
    Error::new(ErrorKind::Format, message).at_path(path).at_member(&*member.name)
}

/// Bytes whose checksum is computed while they are read.
struct Checked<R> {
    bytes: R,
    crc: crc32fast::Hasher,
}

impl<R: Read> Read for Checked<R> {
    fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
        let count = self.bytes.read(into)?;
        self.crc.update(&into[..count]);
        Ok(count)
    }
}

/// The members of an archive, in its order.
fn members(input: &Input) -> Result<Vec<Member>> {
    let broken = |error: rawzip::Error| {
        Error::new(ErrorKind::Format, format!("not a complete zip archive ({error}): it is truncated or damaged"))
    };
    let mut buffer = vec![0; RECOMMENDED_BUFFER_SIZE];
    let archive = ZipLocator::new().locate_in_reader(Zipped(input), &mut buffer, input.len());
    let archive = archive.map_err(|(_, error)| broken(error))?;
    let mut members: Vec<Member> = Vec::new();
    let mut ways = Vec::new();
    let mut entries = archive.entries(&mut buffer);
    while let Some(entry) = entries.next_entry().map_err(broken)? {
        if members.len() == MAX_MEMBERS {
            return Err(Error::new(ErrorKind::Limit, format!("more than {MAX_MEMBERS} arrays")));
        }
        let name = String::from_utf8_lossy(entry.file_path().as_ref()).into_owned();
        ways.push(entry.wayfinder());
        members.push(Member {
            name,
            method: entry.compression_method(),
            is_encrypted: entry.flags().is_encrypted(),
            range: 0..0,
            bytes: entry.uncompressed_size_hint(),
            crc: entry.crc32(),
        });
    }
    for (member, way) in members.iter_mut().zip(ways) {
        let (start, end) = archive.get_entry(way).map_err(broken)?.compressed_data_range();
        if start > end || end > input.len() {
            let message = "lies beyond the end of the archive, which is truncated or damaged";
            return Err(Error::new(ErrorKind::Format, message).at_member(&*member.name));
        }
        member.range = start..end;
    }
    let mut names: Vec<&str> = members.iter().map(|member| &*member.name).collect();
    names.sort_unstable();
    if let Some(twice) = names.windows(2).find(|pair| pair[0] == pair[1]) {
        let message = "is in the archive twice, so it is unclear which one is meant";
        return Err(Error::new(ErrorKind::Format, message).at_member(twice[0]));
    }
    Ok(members)
}
