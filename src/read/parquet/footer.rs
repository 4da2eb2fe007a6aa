//! Checks of a footer before it is decoded. The decoder recurses, allocates the memory that the footer promises, and
//! assumes that every field has the expected type. After a field of another type, it would read the schema from the
//! wrong bytes.

use super::thrift::{BINARY, BYTE, Compact, FALSE, Fault, I32, LIST, MAX_DEPTH, Result, STRUCT, TRUE};

/// Whether the schema in a footer is a tree without paths deeper than codecs could use.
pub(super) fn is_sane_schema(footer: &[u8]) -> bool {
    schema_of(footer).is_ok_and(|is_tree| is_tree)
}

/// The fields of a struct that the decoder knows, each with its type, and with its own fields if it is a struct.
struct Known(&'static [(i64, u8, &'static Known)]);

static NOTHING: Known = Known(&[]);
static UNIT: Known = Known(&[(1, STRUCT, &NOTHING), (2, STRUCT, &NOTHING), (3, STRUCT, &NOTHING)]);
static TIME: Known = Known(&[(1, TRUE, &NOTHING), (2, STRUCT, &UNIT)]);
static DECIMAL: Known = Known(&[(1, I32, &NOTHING), (2, I32, &NOTHING)]);
static INTEGER: Known = Known(&[(1, BYTE, &NOTHING), (2, TRUE, &NOTHING)]);
static VARIANT: Known = Known(&[(1, BYTE, &NOTHING)]);
static PLACES: Known = Known(&[(1, BINARY, &NOTHING), (2, I32, &NOTHING)]);
/// What the values of a column mean.
static LOGICAL: Known = Known(&[
    (1, STRUCT, &NOTHING),
    (2, STRUCT, &NOTHING),
    (3, STRUCT, &NOTHING),
    (4, STRUCT, &NOTHING),
    (5, STRUCT, &DECIMAL),
    (6, STRUCT, &NOTHING),
    (7, STRUCT, &TIME),
    (8, STRUCT, &TIME),
    (10, STRUCT, &INTEGER),
    (11, STRUCT, &NOTHING),
    (12, STRUCT, &NOTHING),
    (13, STRUCT, &NOTHING),
    (14, STRUCT, &NOTHING),
    (15, STRUCT, &NOTHING),
    (16, STRUCT, &VARIANT),
    (17, STRUCT, &PLACES),
    (18, STRUCT, &PLACES),
    (19, STRUCT, &NOTHING),
]);
static COLUMN: Known = Known(&[
    (1, I32, &NOTHING),
    (2, I32, &NOTHING),
    (3, I32, &NOTHING),
    (4, BINARY, &NOTHING),
    (5, I32, &NOTHING),
    (6, I32, &NOTHING),
    (7, I32, &NOTHING),
    (8, I32, &NOTHING),
    (9, I32, &NOTHING),
    (10, STRUCT, &LOGICAL),
]);

impl Known {
    /// Skips a field.
    fn skip(&self, input: &mut Compact<'_>, field: i64, kind: u8) -> Result<()> {
        // The decoder cuts numbers of fields off to 16 bits.
        i16::try_from(field).map_err(|_| Fault::Malformed)?;
        let known = self.0.iter().find(|(known, ..)| *known == field);
        let Some((_, expected, inner)) = known else { return input.skip(kind) };
        match kind {
            STRUCT if *expected == STRUCT => {
                let mut last = 0;
                while let Some((field, kind)) = input.field(&mut last)? {
                    inner.skip(input, field, kind)?;
                }
                Ok(())
            }
            kind if kind == *expected || kind == FALSE && *expected == TRUE => input.skip(kind),
            _ => Err(Fault::Malformed),
        }
    }
}

fn schema_of(footer: &[u8]) -> Result<bool> {
    let mut input = Compact::strict(footer);
    let mut last = 0;
    while let Some((field, kind)) = input.field(&mut last)? {
        // Every writer begins with the version, and then the schema.
        match (field, kind) {
            (1, I32) => input.skip(kind)?,
            (2, LIST) => return is_tree(&mut input),
            _ => return Ok(false),
        }
    }
    Ok(false)
}

fn is_tree(input: &mut Compact<'_>) -> Result<bool> {
    let (count, kind) = input.list()?;
    if kind != STRUCT {
        return Ok(false);
    }
    // Number of children that are still to come, at each depth.
    let mut open: Vec<u64> = vec![1];
    for _ in 0..count {
        while open.last() == Some(&0) {
            open.pop();
        }
        let Some(left) = open.last_mut() else { return Ok(false) };
        *left -= 1;
        let children = children_of(input)?;
        if children > count || open.len() > MAX_DEPTH {
            return Ok(false);
        }
        open.push(children);
    }
    Ok(open.iter().all(|left| *left == 0))
}

fn children_of(input: &mut Compact<'_>) -> Result<u64> {
    let (mut last, mut children) = (0, 0);
    while let Some((field, kind)) = input.field(&mut last)? {
        match (field, kind) {
            (5, I32) => children = input.integer()?,
            (field, kind) => COLUMN.skip(input, field, kind)?,
        }
    }
    u64::try_from(children).map_err(|_| Fault::Malformed)
}

/// Whether a footer says how columns are encrypted, which it does if it is not encrypted itself.
pub(super) fn names_encryption(footer: &[u8]) -> bool {
    let (mut input, mut last) = (Compact::new(footer), 0);
    while let Ok(Some((field, kind))) = input.field(&mut last) {
        match (field, kind) {
            (8, STRUCT) => return true,
            (_, kind) if input.skip(kind).is_err() => break,
            _ => {}
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A footer whose schema has groups in groups.
    fn nested(depth: usize, children: &[u8]) -> Vec<u8> {
        let mut footer = vec![0x29, 0xf0 | STRUCT];
        let mut count = depth;
        while count > 0x7f {
            footer.push(count as u8 | 0x80);
            count >>= 7;
        }
        footer.push(count as u8);
        for _ in 0..depth - 1 {
            footer.push(0x55);
            footer.extend(children);
            footer.push(0);
        }
        footer.extend([0, 0]);
        footer
    }

    #[test]
    fn only_a_tree_of_some_depth_is_a_schema() {
        assert!(is_sane_schema(&nested(3, &[2])));
        assert!(is_sane_schema(&nested(MAX_DEPTH, &[2])));
        assert!(!is_sane_schema(&nested(MAX_DEPTH + 2, &[2])), "too deep");
        assert!(!is_sane_schema(&nested(3, &[4])), "a child is missing");
        assert!(!is_sane_schema(&nested(3, &[0])), "two roots");
        assert!(!is_sane_schema(&nested(3, &[1])), "a negative number of children");
        assert!(!is_sane_schema(&nested(3, &[0xfe, 0xff, 0xff, 0xff, 0xf])), "too many children");
        assert!(!is_sane_schema(&[]) && !is_sane_schema(&[0]));
        let whole = nested(5, &[2]);
        (0..whole.len() - 1).for_each(|len| assert!(!is_sane_schema(&whole[..len])));
    }

    #[test]
    fn what_the_decoder_would_read_otherwise_is_no_schema() {
        // A root and one column, whose own fields are these.
        let with = |column: &[u8]| [&[0x15, 4, 0x19, 0x2c, 0x55, 2, 0][..], column, &[0, 0]].concat();
        // The type, the name `x`, an integer of 8 bits with a sign.
        let good = [0x15, 2, 0x38, 1, b'x', 0x6c, 0xac, 0x13, 8, 0x11, 0, 0];
        assert!(is_sane_schema(&with(&good)));
        assert!(is_sane_schema(&with(&[0x15, 2, 0xc8, 1, b'x', 0x3c, 0x11, 0])), "fields of the future");
        for (column, why) in [
            (&[0x54, 2][..], "the number of children, as 16 bits"),
            (&[0x05, 0x8a, 0x80, 8, 2], "field 5 + (1 << 16)"),
            (&[0x45, 2], "a name that is a number"),
            (&[0xa5, 2], "a meaning that is a number"),
            (&[0xac, 0xa5, 2, 0], "a meaning whose integer is a number"),
            (&[0xac, 0x8c, 0x25, 2, 0, 0], "a unit of time that is a number"),
            (&[0xc9, 0x21, 1, 1], "a list of truth values"),
        ] {
            assert!(!is_sane_schema(&with(column)), "{why}");
        }
        assert!(!is_sane_schema(&[&[0x38, 0][..], &with(&good)].concat()), "something before the schema");
        assert!(!is_sane_schema(&[&[0x25, 0][..], &with(&good)].concat()), "a schema that is a number");
    }
}
