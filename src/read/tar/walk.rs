//! Goes from member to member through one archive, and reads only headers.
//!
//! Formats: POSIX ustar and pax (IEEE Std 1003.1, "pax"), and what GNU tar adds for long names and large sizes ("Basic
//! Tar Format" in its manual).

use crate::error::{Error, ErrorKind, Result};
use crate::storage::Input;

/// Headers are one block, and everything begins at a block.
pub(super) const BLOCK: u64 = 512;

/// Most bytes of a long name or a pax header. Names end at 4 KiB on any system, but pax headers also hold attributes.
const MAX_EXTENSION: u64 = 1 << 20;

/// Number of bytes that are read at once: `NEAR` if the next header is less than `GAP` away, otherwise `FAR`, which is
/// more than a header, because small members are often between large ones.
const NEAR: usize = 64 << 10;
const FAR: usize = 2 << 10;
const GAP: u64 = 4 << 10;

/// A regular file in an archive. A file that was packed before under another name is only a hard link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Member {
    /// Where its header begins, including long names and pax headers before it.
    pub(super) header: u64,
    /// Where its bytes begin: always a multiple of [`BLOCK`], never 0.
    pub(super) data: u64,
    pub(super) size: u64,
    /// Whether its bytes are those of another member.
    pub(super) is_link: bool,
}

/// The members of one archive, in order.
pub(super) struct Walk<'a> {
    input: &'a Input,
    /// The part of the file that is in memory, unless the whole file is.
    window: Vec<u8>,
    window_start: u64,
    /// Where the next header is.
    at: u64,
    /// The name of the member that was found last.
    name: Vec<u8>,
    /// Number of members that are not regular files: folders, symbolic links, devices.
    others: u64,
}

/// What extension headers say about the member after them.
#[derive(Default)]
struct Extended {
    header: Option<u64>,
    named: bool,
    size: Option<u64>,
}

impl<'a> Walk<'a> {
    /// # Errors
    ///
    /// [`ErrorKind::Unsupported`] for a compressed archive.
    pub(super) fn new(input: &'a Input) -> Result<Self> {
        let mut walk = Self { input, window: Vec::new(), window_start: 0, at: 0, name: Vec::new(), others: 0 };
        let head = walk.bytes(0, input.len().min(6))?;
        let packed = match head {
            [0x1f, 0x8b, ..] => "gzip",
            [0x28, 0xb5, 0x2f, 0xfd, ..] => "zstd",
            [0xfd, b'7', b'z', b'X', b'Z', 0] => "xz",
            [b'B', b'Z', b'h', b'1'..=b'9', ..] => "bzip2",
            _ => return Ok(walk),
        };
        let message =
            format!("a tar archive compressed with {packed}: its samples can't be read at random; decompress it first");
        Err(Error::new(ErrorKind::Unsupported, message).at_path(input.path()))
    }

    /// The name of the member that [`next`](Self::next) found last.
    pub(super) fn name(&self) -> &[u8] {
        &self.name
    }

    /// Number of members so far that are not regular files.
    pub(super) fn others(&self) -> u64 {
        self.others
    }

    /// The bytes of a member. The caller knows that there are few.
    pub(super) fn contents(&mut self, member: Member) -> Result<&[u8]> {
        self.bytes(member.data, member.size)
    }

    /// The next regular file; `None` after the last one.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Format`] for anything that is not a tar archive from the first to the last block,
    /// [`ErrorKind::Unsupported`] for sparse files and parts of them, [`ErrorKind::Limit`] for endless names; all with
    /// the byte of the header.
    pub(super) fn next(&mut self) -> Result<Option<Member>> {
        let mut extended = Extended::default();
        loop {
            let at = self.at;
            match self.header(&mut extended) {
                Ok(Step::Next) => {}
                Ok(Step::Member(member)) => return Ok(Some(member)),
                Ok(Step::End) => return Ok(None),
                Err(error) => return Err(error.at_path(self.input.path()).at_byte(at)),
            }
        }
    }

    fn header(&mut self, extended: &mut Extended) -> Result<Step> {
        let (at, len) = (self.at, self.input.len());
        if at.checked_add(BLOCK).is_none_or(|end| end > len) {
            let message = match len.saturating_sub(at) {
                0 => "the archive ends without the zeros that end one: it is cut off, or was never finished".to_owned(),
                rest => format!("{rest} bytes where a header of 512 is expected: the archive is cut off"),
            };
            return Err(Error::new(ErrorKind::Format, message));
        }
        let mut block = [0u8; BLOCK as usize];
        block.copy_from_slice(self.bytes(at, BLOCK)?);
        if block == [0; BLOCK as usize] {
            if extended.header.is_some() {
                return Err(Error::new(ErrorKind::Format, "a long name or pax header, but no member follows it"));
            }
            self.check_end(at + BLOCK)?;
            return Ok(Step::End);
        }
        check_sum(&block)?;
        let kind = block[156];
        // The size in a pax header is that of the member itself, not of further headers before it.
        let own_size = number(&block[124..136], "size")?;
        let is_extension = matches!(kind, b'L' | b'K' | b'x' | b'X' | b'g');
        let size = if is_extension { own_size } else { extended.size.unwrap_or(own_size) };
        let data = at + BLOCK;
        if !is_extension && !extended.named {
            self.name.clear();
            short_name(&block, &mut self.name);
        }
        // Links, devices and folders have no bytes, whatever size the header gives.
        let size = if matches!(kind, b'1'..=b'6') { 0 } else { size };
        let end = data.checked_add(size).filter(|end| *end <= len).ok_or_else(|| {
            let name = String::from_utf8_lossy(if is_extension { b"its header" } else { &self.name });
            let message = format!("{name:?} has {size} bytes, but the archive ends {} behind its header", len - data);
            Error::new(ErrorKind::Format, message)
        })?;
        self.at = end.next_multiple_of(BLOCK);
        match kind {
            0 | b'0' | b'7' if self.name.ends_with(b"/") => {}
            0 | b'0' | b'1' | b'7' => {
                let header = extended.header.unwrap_or(at);
                return Ok(Step::Member(Member { header, data, size, is_link: kind == b'1' }));
            }
            b'L' | b'x' | b'X' | b'g' => {
                if size > MAX_EXTENSION {
                    let message = format!("a name or pax header of {size} bytes; at most {MAX_EXTENSION} are read");
                    return Err(Error::new(ErrorKind::Limit, message));
                }
                if kind != b'g' {
                    extended.header.get_or_insert(at);
                }
                let mut name = std::mem::take(&mut self.name);
                let read = match self.bytes(data, size) {
                    Ok(bytes) if kind == b'L' => {
                        name.clear();
                        name.extend_from_slice(until_zero(bytes));
                        extended.named = true;
                        Ok(())
                    }
                    Ok(bytes) => pax(bytes, kind == b'g', extended, &mut name),
                    Err(error) => Err(error),
                };
                self.name = name;
                return read.map(|()| Step::Next);
            }
            b'K' => return Ok(Step::Next),
            b'S' => return Err(sparse().at_member(String::from_utf8_lossy(&self.name))),
            b'M' => {
                let message = "a part of a file that began in another archive; pack it again into one";
                let error = Error::new(ErrorKind::Unsupported, message);
                return Err(error.at_member(String::from_utf8_lossy(&self.name)));
            }
            _ => {}
        }
        self.others += 1;
        *extended = Extended::default();
        Ok(Step::Next)
    }

    /// Checks that only zeros follow the block of zeros that ends an archive.
    fn check_end(&mut self, mut at: u64) -> Result<()> {
        while at < self.input.len() {
            let rest = self.bytes(at, (self.input.len() - at).min(NEAR as u64))?;
            if let Some(found) = rest.iter().position(|byte| *byte != 0) {
                let message = format!(
                    "the archive ends here, but something follows at byte {}; join archives with `tar --concatenate`",
                    at + found as u64
                );
                return Err(Error::new(ErrorKind::Format, message));
            }
            at += rest.len() as u64;
        }
        Ok(())
    }

    /// Bytes that are in the file.
    fn bytes(&mut self, start: u64, len: u64) -> Result<&[u8]> {
        let (from, held, input) = match self.input.slice() {
            Some(all) => (0, all, self.input),
            None => {
                let window_end = self.window_start + self.window.len() as u64;
                if start < self.window_start || start + len > window_end {
                    let near = start.abs_diff(window_end) < GAP;
                    let wanted = (len as usize).max(if near { NEAR } else { FAR }) as u64;
                    self.window.resize(wanted.min(self.input.len().saturating_sub(start)) as usize, 0);
                    self.window_start = start;
                    self.input.read_at(start, &mut self.window)?;
                }
                (self.window_start, self.window.as_slice(), self.input)
            }
        };
        let offset = (start - from) as usize;
        held.get(offset..offset + len as usize).ok_or_else(|| {
            Error::new(ErrorKind::Io, "the file has become shorter").at_path(input.path()).at_byte(start)
        })
    }
}

enum Step {
    Next,
    Member(Member),
    End,
}

/// Compares the checksum of a header, in which the field of the sum counts as spaces. Some old programs added signed
/// bytes.
fn check_sum(block: &[u8; BLOCK as usize]) -> Result<()> {
    let promised = number(&block[148..156], "checksum")?;
    let (before, behind) = (&block[..148], &block[156..]);
    let spaces = 8 * u64::from(b' ');
    let unsigned = before.iter().chain(behind).map(|byte| u64::from(*byte)).sum::<u64>() + spaces;
    let high = before.iter().chain(behind).filter(|byte| **byte >= 0x80).count() as u64;
    // As a signed byte, a value of 128 or more counts 256 less.
    if promised == unsigned || unsigned.checked_sub(256 * high) == Some(promised) {
        return Ok(());
    }
    let message =
        format!("no tar header: its checksum is {promised}, but its bytes give {unsigned}; damaged, or no tar archive");
    Err(Error::new(ErrorKind::Format, message))
}

/// A number in a header: octal digits with spaces before them and a space or zero after them; base 256 for large
/// numbers.
fn number(field: &[u8], what: &str) -> Result<u64> {
    let number = match field {
        [0x80, high @ .., _, _, _, _, _, _, _, _] if high.iter().all(|byte| *byte == 0) => {
            Some(field[field.len().saturating_sub(8)..].iter().fold(0, |number, byte| number << 8 | u64::from(*byte)))
        }
        _ => {
            let text = until_zero(field).trim_ascii();
            text.iter().try_fold(0u64, |number, byte| match byte {
                b'0'..=b'7' => number.checked_mul(8)?.checked_add(u64::from(byte - b'0')),
                _ => None,
            })
        }
    };
    number.ok_or_else(|| {
        let found = field.escape_ascii();
        let message = format!("no tar header: its {what} is \"{found}\", no number; damaged, or no tar archive");
        Error::new(ErrorKind::Format, message)
    })
}

fn until_zero(bytes: &[u8]) -> &[u8] {
    &bytes[..memchr::memchr(0, bytes).unwrap_or(bytes.len())]
}

fn short_name(block: &[u8; BLOCK as usize], name: &mut Vec<u8>) {
    // GNU's own format uses the place of ustar's prefix for other values.
    if &block[257..263] == b"ustar\0" && block[345] != 0 {
        name.extend_from_slice(until_zero(&block[345..500]));
        name.push(b'/');
    }
    name.extend_from_slice(until_zero(&block[..100]));
}

/// Reads the records `LENGTH KEY=VALUE\n` of a pax header. The length counts the whole record.
fn pax(mut records: &[u8], global: bool, extended: &mut Extended, name: &mut Vec<u8>) -> Result<()> {
    let malformed = || Error::new(ErrorKind::Format, "a damaged pax header: a record is no `LENGTH KEY=VALUE`");
    // Some writers fill up the block.
    while !until_zero(records).is_empty() {
        let space = memchr::memchr(b' ', records).ok_or_else(malformed)?;
        let digits = std::str::from_utf8(&records[..space]).ok();
        let len = digits.and_then(|digits| digits.parse::<usize>().ok()).ok_or_else(malformed)?;
        let record = records.get(space + 1..len).and_then(|record| record.strip_suffix(b"\n")).ok_or_else(malformed)?;
        let equals = memchr::memchr(b'=', record).ok_or_else(malformed)?;
        let (key, value) = (&record[..equals], &record[equals + 1..]);
        match key {
            b"path" | b"size" if global => {
                let message = "a global pax header that gives all members one name or size; pack the files again";
                return Err(Error::new(ErrorKind::Unsupported, message));
            }
            b"path" => {
                name.clear();
                name.extend_from_slice(value);
                extended.named = true;
            }
            b"size" => {
                let size = std::str::from_utf8(value).ok().and_then(|text| text.parse().ok());
                extended.size = Some(size.ok_or_else(malformed)?);
            }
            _ if key.starts_with(b"GNU.sparse.") => return Err(sparse()),
            _ => {}
        }
        records = &records[len..];
    }
    Ok(())
}

#[cold]
fn sparse() -> Error {
    Error::new(ErrorKind::Unsupported, "a sparse file, whose zeros are left out; pack it again without --sparse")
}
