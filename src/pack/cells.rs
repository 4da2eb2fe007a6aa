//! The owned values of one record, and the fields of all records.

use std::collections::{HashMap, HashSet};

use crate::decode::{integer_of_decimal, number_of_text};
use crate::dtype::{DType, NumberSlice};
use crate::error::{Error, ErrorKind, Location, Result};
use crate::float16::{bf16, f16};
use crate::read::{ColumnRef, Container, FieldInfo, FieldKind, List, Meaning, Scratch, Value};

/// A value that has been read.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Cell {
    Missing,
    Bool(bool),
    I64(i64),
    U64(u64),
    F64(f64),
    /// A number as it is written.
    Decimal(String),
    Text(String),
    Bytes(Vec<u8>),
    /// Numbers in the machine's byte order, with their shape if they have several dimensions.
    Numbers(DType, Vec<u8>, Option<Box<[u64]>>),
    List(Vec<Cell>),
}

/// Deepest nesting of lists.
const MOST_DEEP: usize = 128;

impl Cell {
    pub(super) fn of(value: Value<'_>) -> Result<Self> {
        Self::at_depth(value, 0)
    }

    fn at_depth(value: Value<'_>, depth: usize) -> Result<Self> {
        Ok(match value {
            Value::Missing => Self::Missing,
            Value::Bool(flag) => Self::Bool(flag),
            // As a codec of numbers would take it.
            Value::I64(number) | Value::Time(number, _) => Self::I64(number),
            Value::U64(number) => Self::U64(number),
            Value::F64(number) => Self::F64(number),
            Value::Decimal(text) => Self::Decimal(text.to_owned()),
            Value::Text(text) => Self::Text(text.to_owned()),
            Value::Bytes(bytes) => Self::Bytes(bytes.to_vec()),
            Value::Numbers(numbers) => Self::Numbers(numbers.dtype(), bytes_of(numbers).to_vec(), None),
            Value::List(list) => match (list.shape(), list.numbers()) {
                (Some(shape), Some(numbers)) => {
                    Self::Numbers(numbers.dtype(), bytes_of(numbers).to_vec(), Some(shape.into()))
                }
                // The pieces of a row are not nested lists.
                (Some([_]), None) => Self::List(flattened(items(list, depth)?)),
                _ => Self::List(items(list, depth)?),
            },
        })
    }

    /// Its description in messages.
    pub(super) fn describe(&self) -> String {
        match self {
            Self::Missing => Value::Missing.describe(),
            Self::Bool(flag) => Value::Bool(*flag).describe(),
            Self::I64(number) => Value::I64(*number).describe(),
            Self::U64(number) => Value::U64(*number).describe(),
            Self::F64(number) => Value::F64(*number).describe(),
            Self::Decimal(text) => Value::Decimal(text).describe(),
            Self::Text(text) => Value::Text(text).describe(),
            Self::Bytes(bytes) => Value::Bytes(bytes).describe(),
            Self::Numbers(dtype, bytes, None) => format!("a list of {} numbers", bytes.len() / dtype.bytes()),
            Self::Numbers(_, _, Some(shape)) => format!("an array of shape {shape:?}"),
            Self::List(_) => "a list".to_owned(),
        }
    }

    /// Whether it is true or false, or a list with such a value.
    fn has_flags(&self) -> bool {
        match self {
            Self::Bool(_) => true,
            Self::List(items) => items.iter().any(Self::has_flags),
            _ => false,
        }
    }

    /// Whether it is a value in lists that are exactly so deep. A missing value fits anywhere.
    fn has_depth(&self, depth: usize) -> bool {
        match self {
            Self::Missing => true,
            Self::List(items) => depth > 0 && items.iter().all(|item| item.has_depth(depth - 1)),
            Self::Numbers(..) => depth > 0,
            _ => depth == 0,
        }
    }

    /// Bytes of memory that it takes.
    #[cfg(feature = "parquet")]
    pub(super) fn held_bytes(&self) -> usize {
        let inside = match self {
            Self::Missing | Self::Bool(_) | Self::I64(_) | Self::U64(_) | Self::F64(_) => 0,
            Self::Decimal(text) | Self::Text(text) => text.len(),
            Self::Bytes(bytes) | Self::Numbers(_, bytes, _) => bytes.len(),
            Self::List(items) => items.iter().map(Self::held_bytes).sum(),
        };
        size_of::<Self>() + inside
    }

    /// Number of bytes for which it counts when shards are cut.
    pub(super) fn bytes(&self) -> u64 {
        match self {
            Self::Missing | Self::Bool(_) => 1,
            Self::I64(_) | Self::U64(_) | Self::F64(_) => 8,
            Self::Decimal(text) | Self::Text(text) => text.len() as u64,
            Self::Bytes(bytes) | Self::Numbers(_, bytes, _) => bytes.len() as u64,
            Self::List(items) => items.iter().map(Self::bytes).sum(),
        }
    }
}

fn items(list: &dyn List, depth: usize) -> Result<Vec<Cell>> {
    if depth == MOST_DEEP {
        return Err(Error::new(ErrorKind::Limit, format!("lists within lists deeper than {MOST_DEEP}")));
    }
    let mut items = Vec::new();
    list.each(&mut |value| {
        items.push(Cell::at_depth(value, depth + 1)?);
        Ok(())
    })?;
    Ok(items)
}

fn flattened(items: Vec<Cell>) -> Vec<Cell> {
    let mut flat = Vec::with_capacity(items.len());
    for item in items {
        match item {
            Cell::Numbers(dtype, bytes, _) => each_number(dtype, &bytes, |number| flat.push(number)),
            item => flat.push(item),
        }
    }
    flat
}

/// Gives each of the numbers in `bytes`.
pub(super) fn each_number(dtype: DType, bytes: &[u8], mut visit: impl FnMut(Cell)) {
    macro_rules! each {
        ($type:ty, $cell:expr) => {
            bytes.as_chunks().0.iter().for_each(|bytes| visit($cell(<$type>::from_ne_bytes(*bytes))))
        };
    }
    match dtype {
        DType::U8 => each!(u8, |number| Cell::I64(i64::from(number))),
        DType::I8 => each!(i8, |number| Cell::I64(i64::from(number))),
        DType::U16 => each!(u16, |number| Cell::I64(i64::from(number))),
        DType::I16 => each!(i16, |number| Cell::I64(i64::from(number))),
        DType::U32 => each!(u32, |number| Cell::I64(i64::from(number))),
        DType::I32 => each!(i32, |number| Cell::I64(i64::from(number))),
        DType::U64 => each!(u64, Cell::U64),
        DType::I64 => each!(i64, Cell::I64),
        DType::F16 => each!(f16, |number| Cell::F64(f64::from(number))),
        DType::Bf16 => each!(bf16, |number| Cell::F64(f64::from(number))),
        DType::F32 => each!(f32, |number| Cell::F64(f64::from(number))),
        DType::F64 => each!(f64, Cell::F64),
    }
}

fn bytes_of(numbers: NumberSlice<'_>) -> &[u8] {
    match numbers {
        NumberSlice::U8(values) => values,
        NumberSlice::I8(values) => bytemuck::cast_slice(values),
        NumberSlice::U16(values) => bytemuck::cast_slice(values),
        NumberSlice::I16(values) => bytemuck::cast_slice(values),
        NumberSlice::U32(values) => bytemuck::cast_slice(values),
        NumberSlice::I32(values) => bytemuck::cast_slice(values),
        NumberSlice::U64(values) => bytemuck::cast_slice(values),
        NumberSlice::I64(values) => bytemuck::cast_slice(values),
        NumberSlice::F16(values) => bytemuck::cast_slice(values),
        NumberSlice::Bf16(values) => bytemuck::cast_slice(values),
        NumberSlice::F32(values) => bytemuck::cast_slice(values),
        NumberSlice::F64(values) => bytemuck::cast_slice(values),
    }
}

/// A field that is packed.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Column {
    /// Its number in the container.
    pub(super) number: usize,
    /// As what it was found there.
    pub(super) field: ColumnRef,
    /// Its name in the container.
    pub(super) name: String,
    /// Its name inside structs, the outermost first.
    pub(super) path: Vec<String>,
    pub(super) kind: FieldKind,
    pub(super) shape: Vec<usize>,
    pub(super) meaning: Option<Meaning>,
}

impl Column {
    /// Its name in the packed data, built from its path.
    pub(super) fn packed_name(&self) -> String {
        self.path.join(".")
    }
}

/// The advice for a field that can't be packed.
const LEAVE_OUT: &str = "name the fields to be packed (--fields), or leave it out (--skip-fields)";

/// The fields to be packed: those that are named, or all except those that are `skipped`.
///
/// # Errors
///
/// [`ErrorKind::NotFound`] for a name that does not exist, [`ErrorKind::Unsupported`] for a field that can't be read,
/// or holds values of different kinds.
pub(super) fn columns(container: &mut dyn Container, named: &[String], skipped: &[String]) -> Result<Vec<Column>> {
    let is_packed = |name: &String| !skipped.contains(name);
    if named.is_empty()
        && let Some((name, why)) = container.left_out().into_iter().find(|(name, _)| is_packed(name))
    {
        let message = format!("can't be packed: {why}; {LEAVE_OUT}");
        return Err(Error::new(ErrorKind::Unsupported, message).at_column(name));
    }
    let wanted: Vec<(ColumnRef, String)> = match named {
        [] => {
            let all = container.fields().iter().enumerate();
            let all = all.map(|(position, info)| (ColumnRef::Position(position), info.name.clone()));
            all.filter(|(_, name)| is_packed(name)).collect()
        }
        named => named.iter().map(|name| (name.as_str().into(), name.clone())).collect(),
    };
    let mut columns: Vec<Column> = Vec::new();
    let mut taken: HashMap<Vec<String>, Option<String>> = HashMap::new();
    for (field, name) in wanted {
        let found = match (container.find(&field), &field) {
            // Members of archives can't be inside other fields.
            (Err(_), ColumnRef::Position(_)) => container.find(&name.as_str().into()),
            (found, _) => found,
        };
        let number = found.map_err(|error| error.at_column(&name))?;
        let info = match &field {
            ColumnRef::Position(position) => container.fields().get(*position),
            ColumnRef::Name(_) => container.fields().iter().find(|field| field.name == name),
        };
        let FieldInfo { kind, shape, .. } = info.cloned().unwrap_or_else(|| FieldInfo::new(&name, FieldKind::Bytes));
        if kind == FieldKind::Other {
            let message =
                format!("holds no values, or values of several kinds, so that it can't be packed; {LEAVE_OUT}");
            return Err(Error::new(ErrorKind::Unsupported, message).at_column(&name));
        }
        let path = container.steps(number).unwrap_or_else(|| vec![name.clone()]);
        take_path(&mut taken, &path, &name)?;
        let meaning = container.meaning(number);
        columns.push(Column { number, field, name, path, kind, shape, meaning });
    }
    if columns.is_empty() {
        return Err(Error::new(ErrorKind::Format, "there is no field to be packed"));
    }
    Ok(columns)
}

/// Records the path of a field and of the structs around it. No other field may have the same path.
fn take_path(taken: &mut HashMap<Vec<String>, Option<String>>, path: &[String], name: &str) -> Result<()> {
    let same = |other: &str| {
        let message = format!("has the same name as {other:?}, or is part of it; choose only one of the two");
        Err(Error::new(ErrorKind::Unsupported, message).at_column(name))
    };
    for len in 1..path.len() {
        match taken.get(&path[..len]) {
            Some(Some(other)) => return same(other),
            Some(None) => {}
            None => {
                taken.insert(path[..len].to_vec(), None);
            }
        }
    }
    match taken.insert(path.to_vec(), Some(name.to_owned())) {
        None => Ok(()),
        Some(other) => same(other.as_deref().unwrap_or("a field within it")),
    }
}

/// Turns the records of a container into cells.
pub(super) struct Records<'a> {
    container: &'a dyn Container,
    columns: &'a [Column],
    /// For each number of the container, its column.
    places: Vec<Option<usize>>,
    /// The only fields that a record may have, if others are errors.
    known: Option<HashSet<String>>,
}

impl<'a> Records<'a> {
    /// If `is_all` is set, a value that belongs to no field is an error, unless it is `skipped`.
    pub(super) fn new(container: &'a dyn Container, columns: &'a [Column], is_all: bool, skipped: &[String]) -> Self {
        let most = columns.iter().map(|column| column.number + 1).max().unwrap_or(0);
        let mut places = vec![None; most];
        columns.iter().enumerate().for_each(|(nth, column)| places[column.number] = Some(nth));
        let fields = container.fields().iter().map(|field| field.name.clone());
        let known = (is_all && container.fields_vary()).then(|| fields.chain(skipped.iter().cloned()).collect());
        Self { container, columns, places, known }
    }

    /// Checks that the values of a record have the form that their fields have elsewhere.
    pub(super) fn check(&self, cells: &[Cell]) -> Result<()> {
        if !self.container.tells_lists_from_values() {
            return Ok(());
        }
        self.columns.iter().zip(cells).try_for_each(|(column, cell)| {
            let elsewhere = match column.shape.len() {
                _ if column.meaning != Some(Meaning::Bool) && cell.has_flags() => {
                    "true or false, but the field holds other values elsewhere".to_owned()
                }
                depth if !cell.has_depth(depth) => {
                    format!("{}, but the field holds values in lists of depth {depth} elsewhere", cell.describe())
                }
                _ => return Ok(()),
            };
            Err(Error::new(ErrorKind::Data, format!("{elsewhere}; {LEAVE_OUT}")).at_column(&column.name))
        })
    }

    /// Where a record lies.
    pub(super) fn place(&self, record: u64) -> Location {
        self.container.place(record)
    }

    pub(super) fn place_of(&self, number: usize) -> Option<usize> {
        self.places.get(number).copied().flatten()
    }

    /// The cells of record `records[nth]`, in the order of the columns.
    pub(super) fn read(&self, records: &[u64], nth: usize, scratch: &mut Scratch) -> Result<Vec<Cell>> {
        let mut cells = vec![Cell::Missing; self.columns.len()];
        self.container.fetch(records, nth, scratch)?;
        self.container.read(records[nth], nth, scratch, &mut |number, value| {
            if let Some(place) = self.place_of(number) {
                let column = &self.columns[place];
                cells[place] = match value {
                    // An empty text of a CSV file, where it can't be told from a missing one.
                    Value::Bytes([]) if column.kind == FieldKind::Text => Cell::Missing,
                    Value::Bytes(text) if column.kind == FieldKind::Text && std::str::from_utf8(text).is_err() => {
                        let message = "the text is not valid UTF-8; convert it, or set `encoding` of a CSV file";
                        return Err(Error::new(ErrorKind::Data, message).at_column(&column.name));
                    }
                    value => Cell::of(value).map_err(|error| error.at_column(&column.name))?,
                };
            }
            Ok(())
        })?;
        let Some(known) = &self.known else { return Ok(cells) };
        let mut other = None;
        self.container.each_name(records[nth], nth, scratch, &mut |name| {
            if other.is_none() && !known.contains(name) {
                other = Some(name.to_owned());
            }
        });
        match other {
            None => Ok(cells),
            Some(name) => {
                let message = format!(
                    "is not a field of the first records, from which the fields are known; \
                                       {LEAVE_OUT}"
                );
                Err(Error::new(ErrorKind::Unsupported, message).at_column(name))
            }
        }
    }
}

/// The integer in a text, if there is one.
pub(super) fn integer_of(text: &str) -> Option<i128> {
    text.trim().parse().ok()
}

/// Whether a text is a number in its normal form. Otherwise a sign or zeros before it, as in codes and telephone
/// numbers, would be lost.
pub(super) fn is_plain(text: &str) -> bool {
    let text = text.trim();
    let digits = text.strip_prefix('-').unwrap_or(text).as_bytes();
    !matches!(digits, [b'+', ..] | [b'0', b'0'..=b'9', ..])
}

/// The finite number in a text, if there is one.
pub(super) fn float_of(text: &str) -> Option<f64> {
    let text = text.trim();
    text.contains(|c: char| c.is_ascii_digit())
        .then(|| number_of_text(text))
        .flatten()
        .filter(|number: &f64| number.is_finite())
}

/// Whether `number` is the number in `text`, rounded at most after the point: no digit before the point is lost, and a
/// small number does not become 0. Otherwise different numbers, such as those that identify a person, could become the
/// same. A number with an exponent may have more digits before the point than f64 keeps (`1e300`): its own digits must
/// be those of `number`.
pub(super) fn is_held(text: &str, number: f64) -> bool {
    let text = text.trim();
    if !number.is_finite() {
        return !text.contains(|c: char| c.is_ascii_digit());
    }
    let has_exponent = text.contains(['e', 'E']);
    let mantissa = text.split(['e', 'E']).next().unwrap_or_default();
    if number == 0.0 {
        return !mantissa.contains(|c: char| matches!(c, '1'..='9'));
    }
    if has_exponent {
        return significant(text).is_some_and(|(digits, before)| {
            before <= EXACT_DIGITS || whole_of(text).is_some_and(is_exact) || is_written(number, &digits)
        });
    }
    let whole = mantissa.split('.').next().unwrap_or_default();
    whole.trim_start_matches(['+', '-']).is_empty() || whole.parse().is_ok_and(is_exact)
}

/// f64 holds every integer of so many digits.
const EXACT_DIGITS: i64 = 15;

/// Whether these are the digits of a number, rounded to as many as there are, or the fewest that tell it from others.
fn is_written(number: f64, digits: &str) -> bool {
    // No f64 has more digits; formatting refuses some lengths.
    const MOST_DIGITS: usize = 767;
    let of = |text: String| {
        let mantissa = text.split('e').next().unwrap_or_default();
        mantissa.chars().filter(char::is_ascii_digit).collect::<String>().trim_end_matches('0') == digits
    };
    digits.len() <= MOST_DIGITS
        && (of(format!("{number:e}")) || of(format!("{number:.*e}", digits.len().saturating_sub(1))))
}

/// The digits of a number without zeros around them, and how many digits stand before the point.
fn significant(text: &str) -> Option<(String, i64)> {
    let text = text.trim().trim_start_matches(['+', '-']);
    let (mantissa, exponent) = text.split_once(['e', 'E']).unwrap_or((text, "0"));
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let digits = format!("{whole}{fraction}");
    let kept = digits.trim_start_matches('0');
    let zeros = (digits.len() - kept.len()) as i64;
    let before = exponent.parse::<i64>().ok()?.checked_add(whole.len() as i64 - zeros)?;
    Some((kept.trim_end_matches('0').to_owned(), before))
}

/// The integer that the number in a text is, exactly, whether or not it is written with a point or an exponent; at most 20
/// digits.
pub(super) fn whole_of(text: &str) -> Option<i128> {
    float_of(text)?;
    integer_of_decimal(text.trim().as_bytes())
}

/// Whether f64 can hold an integer exactly.
pub(super) fn is_exact(integer: i128) -> bool {
    integer.unsigned_abs() < 1 << 100 && integer as f64 as i128 == integer
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_f64_holds_of_a_text_is_told_from_what_it_rounds_away() {
        let held = |text: &str| float_of(text).is_some_and(|number| is_held(text, number));
        for text in
            ["0", "-0.0", "0e9", " 1.5", ".5", "-.5", "0.1", "3.141592653589793238", "9007199254740992", "1e300"]
        {
            assert!(held(text), "{text}");
        }
        for text in ["9007199254740993", "-9007199254740993.0", "18446744073709551615", "1e-400", "0.0000e-1x", "1e999"]
        {
            assert!(!held(text), "{text}");
        }
        assert!(!held(&format!("0.{}1", "0".repeat(400))) && !held(&"9".repeat(60)));
    }

    #[test]
    fn an_exponent_does_not_hide_digits_that_are_lost() {
        let held = |text: &str| float_of(text).is_some_and(|number| is_held(text, number));
        for text in [
            "1e23",
            "6.02214076e23",
            "-1.7976931348623157e308",
            "1.234567890123456768e+18",
            "1.234567890123456789e3",
            "12345678901234568e-1",
            "9.007199254740992e15",
            "12345678901234567168e0",
        ] {
            assert!(held(text), "{text}");
        }
        for text in
            ["123456789012345671e1", "123456789012345672e1", "9.007199254740993E15", "12345678901234567e1", "1e-400"]
        {
            assert!(!held(text), "{text}");
        }
        assert!(!held(&format!("{}e1", "1".repeat(100_000))) && held(&format!("1{}e-5", "0".repeat(100))));
    }

    #[test]
    fn an_integer_is_exact_in_whatever_form_it_is_written() {
        for (text, integer) in [
            ("0", 0),
            ("-0.0e7", 0),
            ("12", 12),
            (" -1.20e1 ", -12),
            ("123456789012345678.0", 123_456_789_012_345_678),
            ("+1.23456789012345678e17", 123_456_789_012_345_678),
            ("1200e-2", 12),
        ] {
            assert_eq!(whole_of(text), Some(integer), "{text}");
        }
        for text in
            ["", "x", "1.5", "1e-1", "9007199254740993.5", "1.0000000000000000001", "1e40", "1e99999999999999999999"]
        {
            assert_eq!(whole_of(text), None, "{text}");
        }
    }
}
