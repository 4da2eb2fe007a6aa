//! Decimals as they are written.

use std::fmt::Write;

use crate::error::Result;
use crate::read::Value;

/// Gives a decimal number as text: `digits`, of which `scale` are after the point.
pub(super) fn decimal(
    is_negative: bool,
    digits: impl std::fmt::Display,
    scale: i8,
    visit: &mut dyn FnMut(Value<'_>) -> Result<()>,
) -> Result<()> {
    let mut text = Written { bytes: [0; WRITTEN], len: 0 };
    // This can't fail: there are at most 78 digits, a sign, a point and 128 zeros.
    let _ = write!(text, "{}{digits}", if is_negative { "-" } else { "" });
    let sign = usize::from(is_negative);
    match usize::try_from(scale) {
        Ok(0) => {}
        Ok(scale) => text.point(sign, scale),
        Err(_) if text.bytes[sign] == b'0' => {}
        Err(_) => {
            let _ = write!(text, "{:0<1$}", "", usize::from(scale.unsigned_abs()));
        }
    }
    visit(Value::Decimal(std::str::from_utf8(&text.bytes[..text.len]).unwrap_or_default()))
}

const WRITTEN: usize = 256;

struct Written {
    bytes: [u8; WRITTEN],
    len: usize,
}

impl Written {
    /// Puts a point before the last `scale` digits; zeros come first if there are fewer digits.
    fn point(&mut self, sign: usize, scale: usize) {
        let digits = self.len - sign;
        let zeros = (scale + 1).saturating_sub(digits);
        self.bytes.copy_within(sign..self.len, sign + zeros);
        self.bytes[sign..sign + zeros].fill(b'0');
        self.len += zeros;
        let at = self.len - scale;
        self.bytes.copy_within(at..self.len, at + 1);
        self.bytes[at] = b'.';
        self.len += 1;
    }
}

impl Write for Written {
    fn write_str(&mut self, text: &str) -> std::fmt::Result {
        let room = self.bytes.get_mut(self.len..self.len + text.len()).ok_or(std::fmt::Error)?;
        room.copy_from_slice(text.as_bytes());
        self.len += text.len();
        Ok(())
    }
}
