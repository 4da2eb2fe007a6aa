use std::ops::Range;

use crate::error::{Error, ErrorKind, Result};
use crate::read::fixed::{ArrayHeader, Endian, Origin, Stored, StoredType};
use crate::storage::Input;

const MAGIC: &[u8] = b"\x93NUMPY";

/// More than any array of numbers needs. NumPy itself reads 10,000 bytes unless told otherwise.
const MAX_HEADER_BYTES: u64 = 64 << 10;

/// Number of bytes at the beginning of an NPY file that have the same layout in all files: magic, version, length of
/// the header.
const KNOWN_BYTES: u64 = 12;

/// Most bytes that a header may have.
pub(crate) const MOST_BYTES: u64 = KNOWN_BYTES + MAX_HEADER_BYTES;

/// Whether a file that begins so is an NPY file.
pub(crate) fn begins_as_npy(head: &[u8]) -> bool {
    head.starts_with(MAGIC)
}

/// The content of the header. Checks that the file has the length that the header says.
pub(crate) fn header_of(input: &Input) -> Result<ArrayHeader> {
    header_within(input, 0..input.len())
}

/// The same for an array that fills this part of a file.
pub(crate) fn header_within(input: &Input, part: Range<u64>) -> Result<ArrayHeader> {
    let len = part.end - part.start;
    let mut head = vec![0; len.min(KNOWN_BYTES) as usize];
    input.read_at(part.start, &mut head)?;
    if let Ok((begin, text)) = text_in(&head, len) {
        head.resize((begin + text) as usize, 0);
        input.read_at(part.start, &mut head)?;
    }
    let header = header_in(&head, len).map_err(|error| error.in_part_at(part.start))?;
    Ok(ArrayHeader { start: part.start + header.start, ..header })
}

/// The same for a file of `len` bytes that begins with `head`, which contains the whole header.
pub(crate) fn header_in(head: &[u8], len: u64) -> Result<ArrayHeader> {
    let (begin, text_len) = text_in(&head[..head.len().min(KNOWN_BYTES as usize)], len)?;
    let text = head.get(begin as usize..(begin + text_len) as usize);
    let text = text.ok_or_else(|| Error::new(ErrorKind::Format, "the file ends inside its NPY header").at_byte(len))?;
    let header = Parser { text, at: 0 }.header().map_err(|fault| located(fault, begin))?;
    let header = ArrayHeader { start: begin + text_len, ..header };
    let (_, file_bytes) = header.sizes().map_err(|error| error.at_byte(0))?;
    if len != file_bytes {
        let message = format!("the header promises {file_bytes} bytes, the file has {len}");
        return Err(Error::new(ErrorKind::Format, message).at_byte(file_bytes.min(len)));
    }
    Ok(header)
}

/// An array in memory.
pub(crate) struct ArrayIn<'a> {
    pub(crate) stored: Stored,
    pub(crate) shape: Vec<usize>,
    /// Whether the first dimension is the fastest.
    pub(crate) is_fortran: bool,
    pub(crate) elements: &'a [u8],
}

/// An array whose file is all of `bytes`: its elements and all its dimensions.
///
/// # Errors
///
/// As for a file.
pub(crate) fn array_in(bytes: &[u8]) -> Result<ArrayIn<'_>> {
    let (begin, len) = text_in(&bytes[..bytes.len().min(12)], bytes.len() as u64)?;
    let (text, elements) = bytes[begin as usize..].split_at(len as usize);
    let mut parser = Parser { text, at: 0 };
    let (stored, dims, is_fortran) = parser.array().map_err(|fault| located(fault, begin))?;
    let sizes = dims.iter().try_fold(stored.kind.bytes() as u64, |bytes, dim| bytes.checked_mul(*dim));
    if sizes != Some(elements.len() as u64) {
        let message =
            format!("an array of shape {dims:?} of {}, and {} bytes of elements", stored.kind, elements.len());
        return Err(Error::new(ErrorKind::Format, message).at_byte(begin + len));
    }
    // They fit: as many bytes are there.
    let shape = dims.iter().map(|dim| *dim as usize).collect();
    Ok(ArrayIn { stored, shape, is_fortran, elements })
}

fn located((message, at): (Message, usize), begin: u64) -> Error {
    let kind = if message.is_unsupported { ErrorKind::Unsupported } else { ErrorKind::Format };
    Error::new(kind, message.text).at_byte(begin + at as u64)
}

/// Position and length of the header's text in a file of `file_bytes` that begins with `known`.
fn text_in(known: &[u8], file_bytes: u64) -> Result<(u64, u64)> {
    let format = |message: String, byte: u64| Error::new(ErrorKind::Format, message).at_byte(byte);
    let ends = || format("the file ends inside its NPY header".to_owned(), file_bytes);
    if known.len() >= MAGIC.len() && !begins_as_npy(known) {
        return Err(format(r#"not an NPY file: it must begin with "\x93NUMPY""#.to_owned(), 0));
    }
    let (begin, len) = match *known {
        [_, _, _, _, _, _, 1, _, low, high, ..] => (10, u64::from(u16::from_le_bytes([low, high]))),
        [_, _, _, _, _, _, 2 | 3, _, a, b, c, d] => (12, u64::from(u32::from_le_bytes([a, b, c, d]))),
        [_, _, _, _, _, _, major @ (0 | 4..), minor, ..] => {
            return Err(format(format!("version {major}.{minor} of the NPY format; there are 1 to 3"), 6));
        }
        _ => return Err(ends()),
    };
    if len > MAX_HEADER_BYTES {
        return Err(format(format!("an NPY header of {len} bytes; at most {MAX_HEADER_BYTES} make sense"), 8));
    }
    if begin + len > file_bytes {
        return Err(ends());
    }
    Ok((begin, len))
}

/// A fault, and whether the file is valid but not supported.
struct Message {
    text: String,
    is_unsupported: bool,
}

type Parsed<T> = Result<T, (Message, usize)>;

/// The header is a Python dictionary: `{'descr': '<f4', 'fortran_order': False, 'shape': (100, 3), }`.
struct Parser<'a> {
    text: &'a [u8],
    at: usize,
}

impl<'a> Parser<'a> {
    fn header(mut self) -> Parsed<ArrayHeader> {
        let (stored, dims, is_fortran) = self.array()?;
        let [records, shape @ ..] = dims.as_slice() else {
            let text = "a single number, which has no records: save an array of at least one dimension";
            return self.unsupported(text.to_owned());
        };
        let Ok(shape) = shape.iter().map(|dim| usize::try_from(*dim)).collect() else {
            return self.fault(format!("a shape of {dims:?}"));
        };
        Ok(ArrayHeader { stored, records: *records, shape, start: 0, is_fortran, origin: Origin::File })
    }

    /// The type of the elements, all dimensions, and whether the first dimension is the fastest in a way that matters.
    fn array(&mut self) -> Parsed<(Stored, Vec<u64>, bool)> {
        let (mut stored, mut is_fortran, mut dims) = (None, None, None);
        self.expect(b'{')?;
        while !self.take(b'}') {
            let key = self.string()?;
            self.expect(b':')?;
            let is_new = match key {
                b"descr" => stored.replace(self.stored()?).is_none(),
                b"fortran_order" => is_fortran.replace(self.boolean()?).is_none(),
                b"shape" => dims.replace(self.shape()?).is_none(),
                _ => return self.fault(format!("no entry {:?} in an NPY header", String::from_utf8_lossy(key))),
            };
            if !is_new {
                return self.fault(format!("{:?} twice", String::from_utf8_lossy(key)));
            }
            if !self.take(b',') && self.peek() != Some(b'}') {
                return self.fault("expected `,` or `}`".to_owned());
            }
        }
        if self.peek().is_some() {
            return self.fault("something follows the header's dictionary".to_owned());
        }
        let (Some(stored), Some(is_fortran), Some(dims)) = (stored, is_fortran, dims) else {
            return self.fault("an NPY header has `descr`, `fortran_order` and `shape`".to_owned());
        };
        // Of an array with at most one dimension longer than one, both orders are the same.
        let is_fortran = is_fortran && dims.iter().filter(|dim| **dim != 1).count() > 1;
        Ok((stored, dims, is_fortran))
    }

    /// A type's description, such as `'<f4'`: byte order, kind, bytes.
    fn stored(&mut self) -> Parsed<Stored> {
        if matches!(self.peek(), Some(b'[' | b'{' | b'(')) {
            let text = "records of named fields (a structured type); save each field as an array of its own";
            return self.unsupported(text.to_owned());
        }
        let descr = self.string()?;
        let (endian, name) = match descr {
            [b'<' | b'|' | b'=', name @ ..] => (Endian::Little, name),
            [b'>', name @ ..] => (Endian::Big, name),
            name => (Endian::Little, name),
        };
        let kind = match name {
            b"b1" | b"u1" => StoredType::U8,
            b"i1" => StoredType::I8,
            b"u2" => StoredType::U16,
            b"i2" => StoredType::I16,
            b"u4" => StoredType::U32,
            b"i4" => StoredType::I32,
            b"u8" => StoredType::U64,
            b"i8" => StoredType::I64,
            b"f2" => StoredType::F16,
            b"f4" => StoredType::F32,
            b"f8" => StoredType::F64,
            _ => {
                let what = match name.first() {
                    Some(b'O') => "Python objects",
                    Some(b'S' | b'a' | b'U') => "text",
                    Some(b'c') => "complex numbers",
                    Some(b'M' | b'm') => "dates or times",
                    Some(b'V') => "raw bytes",
                    _ => "elements of a type that Ringfeed does not know",
                };
                let descr = String::from_utf8_lossy(descr);
                return self
                    .unsupported(format!("holds {what} ({descr:?}); save integers, floating point or booleans"));
            }
        };
        Ok(Stored { kind, endian })
    }

    fn shape(&mut self) -> Parsed<Vec<u64>> {
        self.expect(b'(')?;
        let mut dims = Vec::new();
        while !self.take(b')') {
            dims.push(self.number()?);
            if !self.take(b',') && self.peek() != Some(b')') {
                return self.fault("expected `,` or `)`".to_owned());
            }
        }
        Ok(dims)
    }

    fn number(&mut self) -> Parsed<u64> {
        self.peek();
        let digits = self.text[self.at..].iter().take_while(|byte| byte.is_ascii_digit()).count();
        let text = std::str::from_utf8(&self.text[self.at..self.at + digits]).unwrap_or_default();
        let Ok(number) = text.parse() else {
            return self.fault("expected a length below 2^64".to_owned());
        };
        self.at += digits;
        // Python 2 wrote long numbers with an L.
        self.at += usize::from(self.text.get(self.at) == Some(&b'L'));
        Ok(number)
    }

    fn boolean(&mut self) -> Parsed<bool> {
        self.peek();
        for (text, value) in [(&b"True"[..], true), (b"False", false)] {
            if self.text[self.at..].starts_with(text) {
                self.at += text.len();
                return Ok(value);
            }
        }
        self.fault("expected `True` or `False`".to_owned())
    }

    /// Text in quotes. No text with a meaning for us has an escape.
    fn string(&mut self) -> Parsed<&'a [u8]> {
        let Some(quote @ (b'\'' | b'"')) = self.peek() else {
            return self.fault("expected text in quotes".to_owned());
        };
        let rest = &self.text[self.at + 1..];
        let Some(len) = rest.iter().position(|byte| *byte == quote) else {
            return self.fault("text that does not end".to_owned());
        };
        self.at += len + 2;
        Ok(&rest[..len])
    }

    /// The next byte that is no white space.
    fn peek(&mut self) -> Option<u8> {
        self.at += self.text[self.at..].iter().take_while(|byte| byte.is_ascii_whitespace()).count();
        self.text.get(self.at).copied()
    }

    fn take(&mut self, byte: u8) -> bool {
        let is_next = self.peek() == Some(byte);
        self.at += usize::from(is_next);
        is_next
    }

    fn expect(&mut self, byte: u8) -> Parsed<()> {
        if self.take(byte) { Ok(()) } else { self.fault(format!("expected `{}`", char::from(byte))) }
    }

    fn fault<T>(&self, what: String) -> Parsed<T> {
        let text = format!("the NPY header can't be read: {what}");
        Err((Message { text, is_unsupported: false }, self.at))
    }

    fn unsupported<T>(&self, text: String) -> Parsed<T> {
        Err((Message { text, is_unsupported: true }, self.at))
    }
}
