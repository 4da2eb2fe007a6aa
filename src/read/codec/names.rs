//! Classes and categories: names as numbers.

use std::borrow::Cow;
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use crate::decode::one_hot;
use crate::dtype::{DType, NumberSlice};
use crate::error::{Error, ErrorKind, Location, Result, nearest};
use crate::row::RowMut;
use crate::schema::{Role, TensorSpec};

use super::contract::{Context, Decode, Made, unexpected};
use super::number::{whole, write_number};
use super::text::text_of;
use crate::read::Missing;
use crate::read::csv::{FieldElement, holds_integer, is_decimal, unfit_index, with_element};
use crate::read::value::Value;

/// Most distinct names of one field.
const MAX_NAMES: usize = 1 << 16;

/// The distinct values of a field, from all records.
#[derive(Debug, Default)]
pub(in crate::read) struct Names {
    texts: BTreeSet<String>,
    /// The largest integer, if there are integers.
    largest: Option<i64>,
    /// The first record with a name, and the first one with an integer.
    first_text: Option<(u64, String)>,
    first_index: Option<(u64, i64)>,
    /// Whether numbers also are names.
    of_category: bool,
}

impl Names {
    /// The names of a class, which may be numbers already, or of a category.
    pub(in crate::read) fn new(of_category: bool) -> Self {
        Self { of_category, ..Self::default() }
    }

    /// Adds the value of a record. A value that can't be a name makes its record bad, which is noticed when the record
    /// is read.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Data`] for too many.
    pub(in crate::read) fn add(&mut self, record: u64, value: Value<'_>) -> Result<()> {
        let class = match class_of(&value).unwrap_or_default() {
            Some(Class::Index(index)) if self.of_category => {
                let name = written(&value).map_or_else(|| index.to_string(), |text| text.trim().to_owned());
                Some(Class::Name(name.into()))
            }
            class => class,
        };
        match class {
            None => {}
            Some(Class::Index(index)) => {
                self.first_index.get_or_insert((record, index));
                self.largest = self.largest.max(Some(index));
            }
            Some(Class::Name(name)) if self.texts.contains(&*name) => {}
            Some(Class::Name(name)) => {
                if self.texts.len() == MAX_NAMES {
                    let message = format!("more than {MAX_NAMES} different names: this is not a class");
                    return Err(Error::new(ErrorKind::Data, message));
                }
                if self.first_text.is_none() {
                    self.first_text = Some((record, name.clone().into_owned()));
                }
                self.texts.insert(name.into_owned());
            }
        }
        Ok(())
    }

    /// Adds everything that was added to `other`, from later records or from another field.
    pub(in crate::read) fn merge(&mut self, other: Self) -> Result<()> {
        self.first_text = self.first_text.take().or(other.first_text);
        self.first_index = self.first_index.or(other.first_index);
        self.largest = self.largest.max(other.largest);
        self.texts.extend(other.texts);
        if self.texts.len() > MAX_NAMES {
            let message = format!("more than {MAX_NAMES} different names: this is not a class");
            return Err(Error::new(ErrorKind::Data, message));
        }
        Ok(())
    }

    /// The error if some values are names and others are numbers, at the first record that differs from those before it.
    /// `place` gives the place of a record.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Data`].
    pub(in crate::read) fn check(&self, place: impl Fn(u64) -> Location) -> Result<()> {
        let (Some((at_text, text)), Some((at_index, index))) = (&self.first_text, &self.first_index) else {
            return Ok(());
        };
        let message = match at_text < at_index {
            true => format!("the class is {index}, but {text:?} in {}; list the names", place(*at_text)),
            false => format!("the class is {text:?}, but {index} in {}; list the names", place(*at_index)),
        };
        Err(Error::new(ErrorKind::Data, message).at(place(*at_text.max(at_index))))
    }
}

enum Class<'a> {
    Name(Cow<'a, str>),
    Index(i64),
}

/// The class that a value names; `None` if the value is missing.
fn class_of<'a>(value: &'a Value<'a>) -> Result<Option<Class<'a>>> {
    let refused = || unexpected("a class: a name, or an index from 0", value);
    Ok(Some(match value {
        Value::Missing => return Ok(None),
        Value::Bool(flag) => Class::Index((*flag).into()),
        Value::I64(index) | Value::Time(index, _) => Class::Index(*index),
        Value::U64(index) => Class::Index(i64::try_from(*index).map_err(|_| refused())?),
        Value::F64(number) if number.fract() == 0.0 && number.abs() < 9e15 => Class::Index(*number as i64),
        Value::Numbers(NumberSlice::I64([index])) => Class::Index(*index),
        Value::Numbers(NumberSlice::U64([index])) => Class::Index(i64::try_from(*index).map_err(|_| refused())?),
        // Every other type converts to f64 exactly.
        Value::Numbers(numbers) if numbers.len() == 1 => {
            return match numbers.at(0) {
                number if number.fract() == 0.0 && number.abs() < 9e15 => Ok(Some(Class::Index(number as i64))),
                _ => Err(refused()),
            };
        }
        Value::Decimal(text) => Class::Index(whole(text).ok_or_else(refused)?),
        Value::Text(text) => Class::Name((*text).into()),
        Value::Bytes(_) => {
            let text = text_of(value)?.trim();
            text.parse().map_or_else(|_| Class::Name(text.into()), Class::Index)
        }
        _ => return Err(refused()),
    }))
}

/// The text of a value. Numbers are taken as they are written: 007 and 7 are different names.
fn written<'a>(value: &Value<'a>) -> Option<&'a str> {
    match value {
        Value::Bytes(bytes) => std::str::from_utf8(bytes).ok(),
        _ => None,
    }
}

/// Names in the order of their numbers.
struct Codes {
    codes: HashMap<String, u32>,
    names: Arc<[String]>,
    /// Whether an integer may be the number of a class instead of its name.
    has_indices: bool,
}

impl Codes {
    fn new(names: Vec<String>, of_category: bool) -> Result<Self> {
        let codes: HashMap<String, u32> = names.iter().cloned().zip(0..).collect();
        if codes.len() < names.len() {
            return Err(Error::new(ErrorKind::Config, "a name is listed twice among the classes"));
        }
        let has_indices = !of_category && !names.iter().any(|name| is_decimal(name.trim().as_bytes()));
        Ok(Self { codes, names: names.into(), has_indices })
    }

    /// The number of a class; `None` where it is missing.
    fn of(&self, value: &Value<'_>) -> Result<Option<i64>> {
        let text = written(value);
        if let Some(code) = text.and_then(|text| self.codes.get(text).or_else(|| self.codes.get(text.trim()))) {
            return Ok(Some((*code).into()));
        }
        let index = match class_of(value)? {
            None => return Ok(None),
            Some(Class::Index(index)) if self.has_indices => index,
            Some(Class::Index(index)) => {
                return text.map_or_else(|| self.named(&index.to_string()), |text| self.named(text.trim())).map(Some);
            }
            Some(Class::Name(name)) => return self.named(&name).map(Some),
        };
        let count = self.names.len() as i64;
        if index < 0 || count > 0 && index >= count {
            let message = match count {
                0 => format!("the class is {index}; classes are counted from 0"),
                count => format!("the class is {index}, but there are {count}, counted from 0"),
            };
            return Err(Error::new(ErrorKind::Data, message));
        }
        Ok(Some(index))
    }

    fn named(&self, name: &str) -> Result<i64> {
        self.codes.get(name).map(|code| i64::from(*code)).ok_or_else(|| {
            let near = nearest(name, self.names.iter().map(String::as_str));
            let advice = near.map(|near| format!("; did you mean {near:?}?")).unwrap_or_default();
            Error::new(ErrorKind::Data, format!("{name:?} is none of the {} names{advice}", self.names.len()))
        })
    }
}

fn found(listed: Option<Vec<String>>, names: Option<Names>, of_category: bool) -> Result<Codes> {
    let names = match (listed, names) {
        (Some(listed), _) => listed,
        (None, Some(names)) => names.texts.into_iter().collect(),
        (None, None) => Vec::new(),
    };
    Codes::new(names, of_category)
}

/// What is requested beside the names.
pub(super) struct Wanted {
    /// Number of fields that they come from.
    pub(super) fields: usize,
    pub(super) dtype: Option<DType>,
    /// The code of a missing value.
    pub(super) missing: Option<i64>,
}

impl Wanted {
    /// The element type, if it can hold the numbers from 0 to this one.
    fn dtype(&self, number: i64) -> Result<DType> {
        let dtype = self.dtype.unwrap_or(DType::I64);
        match unfit_index(dtype, number) {
            None => Ok(dtype),
            Some(number) => Err(Error::new(ErrorKind::Config, format!("{number} does not fit {dtype}"))),
        }
    }
}

struct ClassCodec {
    codes: Codes,
    /// The number of classes, if a class becomes one-hot numbers.
    one_hot: Option<usize>,
}

/// The index of a class: `[]`, or `[classes]` with a single 1. Several fields share one list of names and become
/// `[fields, ...]`.
pub(super) fn classes(
    name: &str,
    role: Role,
    listed: Option<&[String]>,
    names: Vec<Names>,
    one_hot: bool,
    wanted: Wanted,
) -> Result<Made> {
    let mut all: Option<Names> = None;
    for names in names {
        match &mut all {
            Some(all) => all.merge(names)?,
            None => all = Some(names),
        }
    }
    let names = all;
    if let Some(Names { first_text: Some((_, text)), first_index: Some((_, index)), .. }) = &names {
        let message = format!("one field has the class {text:?}, another one {index}; list the names");
        return Err(Error::new(ErrorKind::Data, message));
    }
    let largest = names.as_ref().and_then(|names| names.largest);
    let codes = found(listed.map(<[String]>::to_vec), names, false)?;
    let mut shape = if wanted.fields == 1 { Vec::new() } else { vec![wanted.fields] };
    let mut width = None;
    let dtype = if one_hot {
        let count = if codes.names.is_empty() { largest.map_or(0, |largest| largest.saturating_add(1)) } else { 0 };
        let count = codes.names.len().max(usize::try_from(count).unwrap_or(0));
        if count == 0 || count > MAX_NAMES {
            let message = format!("{count} classes; one-hot needs between 1 and {MAX_NAMES}: list them");
            return Err(Error::new(ErrorKind::Config, message));
        }
        shape.push(count);
        width = Some(count);
        wanted.dtype.unwrap_or(DType::F32)
    } else {
        let last = i64::try_from(codes.names.len()).unwrap_or(i64::MAX) - 1;
        wanted.dtype(largest.unwrap_or(0).max(last).max(0))?
    };
    let mut spec = TensorSpec::new(name, role, dtype, &shape);
    spec.classes = (!codes.names.is_empty()).then(|| codes.names.clone());
    Ok(Made { codec: Box::new(ClassCodec { codes, one_hot: width }), tensors: vec![spec] })
}

impl Decode for ClassCodec {
    fn write(&self, nth: usize, value: Value<'_>, _: &mut Context<'_>, row: &mut RowMut<'_>) -> Result<()> {
        let Some(index) = self.codes.of(&value)? else {
            return Err(Error::new(ErrorKind::Data, "there is no class"));
        };
        let mut tensor = row.tensor(0);
        let Some(width) = self.one_hot else {
            // Without names, there may be more than in the records that were looked at.
            if unfit_index(tensor.dtype(), index).is_some() {
                return Err(Error::new(
                    ErrorKind::Data,
                    format!("class index {index} does not fit {}", tensor.dtype()),
                ));
            }
            return write_number(&mut tensor, nth, Value::I64(index), Missing::Error);
        };
        let Some(place) = usize::try_from(index).ok().filter(|place| *place < width) else {
            return Err(Error::new(
                ErrorKind::Data,
                format!("class {index} is out of range; there are {width} classes"),
            ));
        };
        if tensor.affine().is_some() {
            let number = |at| Value::I64((place == at).into());
            return (0..width)
                .try_for_each(|at| write_number(&mut tensor, nth * width + at, number(at), Missing::Error));
        }
        with_element!(tensor.dtype(), T => {
            let numbers = &mut tensor.as_mut_slice::<T>()?[nth * width..][..width];
            one_hot(numbers, Some(place), [0, 1].map(<T as FieldElement>::from_index));
        });
        Ok(())
    }
}

struct CategoryCodec {
    codes: Vec<Codes>,
    missing: Option<i64>,
}

/// Codes of one or several fields, each with its own names: `[fields]`.
pub(super) fn categories(
    name: &str,
    role: Role,
    listed: Option<&[Vec<String>]>,
    names: Vec<Names>,
    wanted: Wanted,
) -> Result<Made> {
    let Wanted { fields, missing, .. } = wanted;
    if let Some(listed) = listed.filter(|listed| listed.len() != fields) {
        let message = format!("{} lists of names for {fields} fields", listed.len());
        return Err(Error::new(ErrorKind::Config, message));
    }
    let mut names = names.into_iter();
    let codes = (0..fields).map(|nth| found(listed.map(|listed| listed[nth].clone()), names.next(), true));
    let codes = codes.collect::<Result<Vec<_>>>()?;
    let largest = codes.iter().map(|codes| codes.names.len() as i64 - 1).max().unwrap_or(0);
    let dtype = wanted.dtype(largest.max(0))?;
    if let Some(code) = missing.filter(|code| !holds_integer(dtype, *code)) {
        return Err(Error::new(ErrorKind::Config, format!("{code} does not fit {dtype}")));
    }
    let mut spec = TensorSpec::new(name, role, dtype, &[fields]);
    spec.categories = Some(codes.iter().map(|codes| codes.names.to_vec()).collect());
    Ok(Made { codec: Box::new(CategoryCodec { codes, missing }), tensors: vec![spec] })
}

impl Decode for CategoryCodec {
    fn write(&self, nth: usize, value: Value<'_>, _: &mut Context<'_>, row: &mut RowMut<'_>) -> Result<()> {
        let code = match self.codes[nth].of(&value)?.or(self.missing) {
            Some(code) => code,
            None => {
                let message = "there is no value; `missing` gives such records a code";
                return Err(Error::new(ErrorKind::Data, message));
            }
        };
        write_number(&mut row.tensor(0), nth, Value::I64(code), Missing::Error)
    }
}
