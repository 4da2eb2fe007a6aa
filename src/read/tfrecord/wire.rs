//! Fields of a protocol buffers message, one after another, as far as examples need them.
//! ["Encoding"](https://protobuf.dev/programming-guides/encoding/) in the documentation of protocol buffers.

/// Deepest nesting of groups, as in other readers.
const MAX_DEPTH: u32 = 100;

/// A fault in a message, and its byte in the record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Fault {
    pub(super) what: &'static str,
    pub(super) at: usize,
}

pub(super) type Parsed<T> = Result<T, Fault>;

/// Bytes of a record, and their position in it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Part<'a> {
    pub(super) bytes: &'a [u8],
    pub(super) at: usize,
}

/// A field's value as it is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Written<'a> {
    Varint(u64),
    Fixed32([u8; 4]),
    Part(Part<'a>),
    /// A value of a type that no field of an example has.
    Other,
}

/// The fields of a message in the order in which they are written.
pub(super) struct Fields<'a> {
    rest: &'a [u8],
    /// The position of the rest in the record.
    at: usize,
}

impl<'a> Fields<'a> {
    pub(super) fn of(part: Part<'a>) -> Self {
        Self { rest: part.bytes, at: part.at }
    }

    /// The next field's number and value; `None` at the end.
    #[inline]
    pub(super) fn next(&mut self) -> Parsed<Option<(u32, Written<'a>)>> {
        // Examples consist of parts inside parts, with numbers up to 3.
        if let [tag @ (0x0a | 0x12 | 0x1a), rest @ ..] = self.rest
            && let Some((len, bytes)) = short_varint(rest)
            && let Some((bytes, behind)) = bytes.split_at_checked(len)
        {
            let at = self.at + (self.rest.len() - behind.len() - len);
            (self.rest, self.at) = (behind, at + len);
            return Ok(Some(((tag >> 3).into(), Written::Part(Part { bytes, at }))));
        }
        self.next_of_any()
    }

    fn next_of_any(&mut self) -> Parsed<Option<(u32, Written<'a>)>> {
        if self.rest.is_empty() {
            return Ok(None);
        }
        let (number, kind) = self.tag()?;
        Ok(Some((number, self.value(number, kind, 0)?)))
    }

    /// The next number of a packed list; `None` at the end.
    #[inline]
    pub(super) fn next_varint(&mut self) -> Parsed<Option<u64>> {
        if self.rest.is_empty() { Ok(None) } else { self.varint().map(Some) }
    }

    fn tag(&mut self) -> Parsed<(u32, u8)> {
        let at = self.at;
        let tag = self.varint()?;
        match u32::try_from(tag >> 3) {
            Ok(number @ 1..0x2000_0000) => Ok((number, (tag & 7) as u8)),
            _ => Err(Fault { what: "an invalid field number", at }),
        }
    }

    fn value(&mut self, number: u32, kind: u8, depth: u32) -> Parsed<Written<'a>> {
        Ok(match kind {
            0 => Written::Varint(self.varint()?),
            1 => self.take(8).map(|_| Written::Other)?,
            2 => {
                let at = self.at;
                let len = self.varint()?;
                let len = usize::try_from(len).ok().filter(|len| *len <= self.rest.len());
                let len = len.ok_or(Fault { what: "a field that is longer than its message", at })?;
                let at = self.at;
                Written::Part(Part { bytes: self.take(len)?, at })
            }
            3 => {
                self.skip_group(number, depth + 1)?;
                Written::Other
            }
            5 => match *self.take(4)? {
                [a, b, c, d] => Written::Fixed32([a, b, c, d]),
                _ => Written::Other,
            },
            _ => return Err(Fault { what: "a field of an unknown kind", at: self.at }),
        })
    }

    fn skip_group(&mut self, number: u32, depth: u32) -> Parsed<()> {
        if depth > MAX_DEPTH {
            return Err(Fault { what: "too many groups inside each other", at: self.at });
        }
        loop {
            let at = self.at;
            match self.tag()? {
                (end, 4) if end == number => return Ok(()),
                (_, 4) => return Err(Fault { what: "the end of another group", at }),
                (inner, kind) => self.value(inner, kind, depth)?,
            };
        }
    }

    #[inline]
    fn varint(&mut self) -> Parsed<u64> {
        // Most numbers are small.
        if let [byte @ 0..0x80, rest @ ..] = self.rest {
            (self.rest, self.at) = (rest, self.at + 1);
            return Ok((*byte).into());
        }
        let mut number = 0u64;
        for (nth, byte) in self.rest.iter().take(10).enumerate() {
            if nth == 9 && *byte > 1 {
                break;
            }
            number |= u64::from(byte & 0x7f) << (7 * nth);
            if *byte < 0x80 {
                (self.rest, self.at) = (&self.rest[nth + 1..], self.at + nth + 1);
                return Ok(number);
            }
        }
        let what = if self.rest.len() < 10 { "the end inside a number" } else { "a number of more than 64 bits" };
        Err(Fault { what, at: self.at })
    }

    fn take(&mut self, len: usize) -> Parsed<&'a [u8]> {
        let (taken, rest) =
            self.rest.split_at_checked(len).ok_or(Fault { what: "the end inside a field", at: self.at })?;
        (self.rest, self.at) = (rest, self.at + len);
        Ok(taken)
    }
}

/// A number of one or two bytes at the beginning of `bytes`, and the bytes after it.
#[inline]
fn short_varint(bytes: &[u8]) -> Option<(usize, &[u8])> {
    match bytes {
        [byte @ 0..0x80, rest @ ..] => Some(((*byte).into(), rest)),
        [low, high @ 0..0x80, rest @ ..] => Some((usize::from(low & 0x7f) | usize::from(*high) << 7, rest)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(bytes: &[u8]) -> Parsed<Vec<(u32, Written<'_>)>> {
        let mut fields = Fields::of(Part { bytes, at: 0 });
        std::iter::from_fn(|| fields.next().transpose()).collect()
    }

    #[test]
    fn every_kind_of_field_is_read_or_passed_over() {
        let bytes = [
            &[0x08, 0x96, 0x01][..],
            &[0x12, 2, 7, 8],
            &[0x1d, 1, 2, 3, 4],
            &[0x21, 1, 2, 3, 4, 5, 6, 7, 8],
            &[0x2b, 0x33, 0x08, 1, 0x34, 0x2c],
            &[0xf8, 0xff, 0xff, 0xff, 0x0f, 0],
        ]
        .concat();
        let expected = [
            (1, Written::Varint(150)),
            (2, Written::Part(Part { bytes: &[7, 8], at: 5 })),
            (3, Written::Fixed32([1, 2, 3, 4])),
            (4, Written::Other),
            (5, Written::Other),
            (0x1fff_ffff, Written::Varint(0)),
        ];
        assert_eq!(all(&bytes).unwrap(), expected);
        let begins = [0, 3, 7, 12, 21, 27, 33];
        for cut in 0..bytes.len() {
            assert_eq!(all(&bytes[..cut]).is_ok(), begins.contains(&cut), "{cut}");
        }
    }

    #[test]
    fn what_is_no_message_is_refused_where_it_is() {
        let fault = |bytes: &[u8]| all(bytes).unwrap_err();
        for (bytes, what, at) in [
            (&[0x00, 1][..], "an invalid field number", 0),
            (&[0x08, 1, 0x0e], "an unknown kind", 3),
            (&[0x0c], "an unknown kind", 1),
            (&[0x0b, 0x14], "the end of another group", 1),
            (&[0x12, 0xff, 0xff, 0xff, 0xff, 0x0f, 1], "longer than its message", 1),
            (&[0x08, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2], "more than 64 bits", 1),
        ] {
            let found = fault(bytes);
            assert!(found.what.contains(what) && found.at == at, "{bytes:?}: {found:?}");
        }
        assert!(fault(&[0x0b; 200]).what.contains("too many groups"));
        let most = [0x08, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1];
        assert_eq!(all(&most).unwrap(), [(1, Written::Varint(u64::MAX))]);
    }
}
