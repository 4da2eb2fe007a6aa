//! Lists of numbers: of one shape, padded with a mask, or one behind another with their offsets.

use crate::dtype::DType;
use crate::error::{Error, ErrorKind, Result};
use crate::read::container::FieldInfo;
use crate::read::fields::Numbers;
use crate::read::{Longer, Missing};
use crate::row::RowMut;
use crate::schema::{Dim, Extents, Role, TensorSpec};

use super::contract::{Context, Decode, Made, Varying};
use super::number::{check_missing, write_array, write_number};
use crate::read::value::Value;

/// Whether the field's values are lists, as far as the request or the container says.
pub(super) fn of_lists(numbers: &Numbers, several: bool, infos: &[Option<&FieldInfo>]) -> bool {
    let is_list = |info: &&FieldInfo| !info.shape.is_empty();
    let shaped = numbers.shape.as_ref().is_some_and(|shape| shape.iter().any(|dim| *dim != 1));
    !several
        && (numbers.max_len.is_some()
            || numbers.list
            || numbers.ragged
            || infos.first().copied().flatten().is_some_and(|info| is_list(&info))
            || shaped)
}

struct ListCodec {
    missing: Missing,
    /// The number of elements, if all lists have as many; otherwise lists are padded.
    elements: Option<usize>,
    longer: Longer,
    /// The extent of its length, unless the length is fixed.
    extent: Option<usize>,
    /// Most numbers of a ragged list.
    most: usize,
    /// Whether lists follow each other without padding.
    ragged: bool,
    pad: f64,
    /// How deep lists lie within lists, by what the container says.
    depth: usize,
}

/// Lists of the shape that is requested or that all have; or lists of any length. These are padded to `[max_len]` or to
/// the longest in the batch, with a mask of u8 that is 1 where there are numbers. Otherwise they follow each other,
/// with offsets that say where each begins.
pub(super) fn make(
    name: &str,
    role: Role,
    numbers: &Numbers,
    infos: &[Option<&FieldInfo>],
    varying: &mut Varying,
) -> Result<Made> {
    check_missing(numbers)?;
    check_padding(numbers)?;
    let known = infos.first().copied().flatten().map(|info| info.shape.as_slice()).unwrap_or_default();
    let known = Some(known).filter(|shape| !shape.is_empty() && !shape.contains(&0));
    let fixed = match (&numbers.shape, numbers.max_len) {
        (Some(_), Some(_)) => {
            return Err(Error::new(ErrorKind::Config, "give either a shape or max_len, not both"));
        }
        (Some(_), None) if numbers.list => {
            return Err(Error::new(ErrorKind::Config, "give either a shape or list, which is of any length, not both"));
        }
        (Some(shape), None) => Some(shape.as_slice()),
        (None, None) => known.filter(|_| !numbers.ragged && !numbers.list),
        (None, Some(_)) => None,
    };
    let mut codec = ListCodec {
        missing: numbers.missing,
        elements: None,
        longer: numbers.longer,
        extent: None,
        most: usize::MAX,
        ragged: numbers.ragged,
        pad: numbers.pad,
        depth: infos.first().copied().flatten().map_or(0, |info| info.shape.len()),
    };
    if let (Some(asked), Some(info)) = (&numbers.shape, infos.first().copied().flatten())
        && !may_become(&info.shape, asked)
    {
        let message = format!(
            "shape {asked:?}, but the values are arrays of shape {:?}; ask for that one, or for a single dimension",
            info.shape
        );
        return Err(Error::new(ErrorKind::Config, message));
    }
    if numbers.ragged {
        if fixed.is_some() {
            return Err(Error::new(ErrorKind::Config, "give either a shape or ragged, not both"));
        }
        if numbers.pad != 0.0 {
            return Err(Error::new(ErrorKind::Config, "pad: ragged lists have no padding"));
        }
        codec.most = numbers.max_len.unwrap_or(usize::MAX);
        let extent = varying.take(name)?;
        codec.extent = Some(extent);
        let tensors = vec![
            TensorSpec::ragged(name, role, numbers.dtype, extent),
            TensorSpec::offsets(format!("{name}_offsets"), extent),
        ];
        return Ok(Made { codec: Box::new(codec), tensors });
    }
    if let Some(shape) = fixed {
        codec.elements = shape.iter().try_fold(1usize, |product, dim| product.checked_mul(*dim));
        if codec.elements.is_none() {
            return Err(Error::new(ErrorKind::Config, format!("shape {shape:?} has too many elements")));
        }
        let tensors = vec![TensorSpec::new(name, role, numbers.dtype, shape)];
        return Ok(Made { codec: Box::new(codec), tensors });
    }
    let dim = match numbers.max_len {
        Some(most) => Dim::Fixed(most),
        None => varying.dim(name)?,
    };
    codec.extent = match dim {
        Dim::Extent(extent) => Some(extent),
        Dim::Fixed(_) => None,
    };
    let tensors = vec![
        TensorSpec::with_dims(name, role, numbers.dtype, vec![dim]),
        TensorSpec::with_dims(format!("{name}_mask"), Role::Mask, DType::U8, vec![dim]),
    ];
    Ok(Made { codec: Box::new(codec), tensors })
}

/// Whether arrays of the container's shape, which has 0 for a length that differs, may become tensors of the shape
/// `asked`.
fn may_become(known: &[usize], asked: &[usize]) -> bool {
    let many = |shape: &[usize]| shape.iter().copied().filter(|dim| *dim != 1).collect::<Vec<_>>();
    let (known, asked) = (many(known), many(asked));
    let has_one_length = known.len() < 2 || asked.len() < 2;
    // A length that differs from record to record may also be 1.
    has_one_length
        || (known.len() != asked.len() && known.contains(&0))
        || (known.len() == asked.len() && known.iter().zip(&asked).all(|(known, asked)| *known == 0 || known == asked))
}

/// Gives the numbers of a list one after another; those of nested lists in row-major order.
pub(super) fn each(value: Value<'_>, visit: &mut dyn FnMut(Value<'_>) -> Result<()>) -> Result<()> {
    walk(value, 0, &mut Dims::default(), visit)
}

/// Deepest nesting of lists whose shape is compared with that of a tensor.
const MOST_DEEP: usize = 12;

/// The lengths of nested lists: the shape of an array, if all lists of the same depth are equally long.
#[derive(Default)]
struct Dims {
    /// Whether integers may come all at once.
    at_once: bool,
    lens: [Option<u64>; MOST_DEEP],
    is_uneven: bool,
    /// How deep lists lie at most.
    lists: Option<usize>,
    /// The same of those whose values come one by one.
    loose: Option<usize>,
    /// How deep a missing value lies at least.
    missing: Option<usize>,
    /// The same of a single number.
    number: Option<usize>,
}

impl Dims {
    fn see(&mut self, depth: usize, len: u64) {
        match self.lens.get_mut(depth) {
            Some(known) => self.is_uneven |= *known.get_or_insert(len) != len,
            None => self.is_uneven = true,
        }
    }

    fn see_single(&mut self, depth: usize, value: Value<'_>) {
        let least = match value {
            Value::Missing => &mut self.missing,
            // A step of a TFRecord may be one text or several.
            Value::Bytes(_) => return,
            _ => &mut self.number,
        };
        *least = Some(least.map_or(depth, |known| known.min(depth)));
    }

    /// Whether something stands where others have lists, so that the numbers behind it would move.
    fn check(&self) -> Result<()> {
        let is_beside = |single: Option<usize>, lists| single.is_some_and(|depth| Some(depth) <= lists);
        let fault = match self {
            Self { missing, lists, .. } if is_beside(*missing, *lists) => {
                "a list is missing among lists, and it is unknown how many numbers it would have"
            }
            Self { number, loose, .. } if is_beside(*number, *loose) => {
                "a number and a list side by side; a list is of numbers or of lists"
            }
            _ => return Ok(()),
        };
        Err(Error::new(ErrorKind::Data, fault))
    }

    /// Whether such lists have the shape of this tensor. Lists with a single dimension fit any shape, and a tensor with
    /// a single dimension fits any lists.
    fn fit(&self, shape: &[usize]) -> bool {
        let found = self.lens.iter().flatten().copied().filter(|len| *len != 1);
        let wanted = shape.iter().map(|dim| *dim as u64).filter(|dim| *dim != 1);
        let is_row = found.clone().count() < 2 || found.eq(wanted.clone());
        wanted.count() < 2 || (is_row && !self.is_uneven)
    }
}

impl std::fmt::Display for Dims {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.is_uneven {
            true => f.write_str("lists of different lengths"),
            false => write!(f, "an array of shape {:?}", self.lens.iter().flatten().collect::<Vec<_>>()),
        }
    }
}

/// Gives the numbers of a list at this depth, and notes its length.
fn walk(value: Value<'_>, depth: usize, dims: &mut Dims, visit: &mut dyn FnMut(Value<'_>) -> Result<()>) -> Result<()> {
    match value {
        Value::List(list) => {
            if let Some(shape) = list.shape() {
                shape.iter().zip(depth..).for_each(|(len, depth)| dims.see(depth, *len));
                dims.lists = dims.lists.max((depth + shape.len()).checked_sub(1));
                return match list.numbers() {
                    Some(numbers) => visit(Value::Numbers(numbers)),
                    None => list.each(&mut |value| walk(value, 0, &mut Dims::default(), visit)),
                };
            }
            // What is inside of other lists must be seen one by one, to tell numbers from lists beside them.
            if dims.at_once && depth == 0 {
                let all = list.integers(&mut |integers| {
                    walk(Value::Numbers(crate::dtype::NumberSlice::I64(integers)), depth, dims, visit)
                });
                // If this fails, the values are read again one by one, so that the error names one of them.
                if let Some(Ok(())) = all {
                    return Ok(());
                }
            }
            let mut len = 0;
            list.each(&mut |value| {
                len += 1;
                walk(value, depth + 1, dims, visit)
            })?;
            dims.see(depth, len);
            dims.lists = dims.lists.max(Some(depth));
            dims.loose = dims.loose.max(Some(depth));
            Ok(())
        }
        Value::Numbers(numbers) => {
            dims.see(depth, numbers.len() as u64);
            dims.lists = dims.lists.max(Some(depth));
            visit(value)
        }
        value => {
            dims.see_single(depth, value);
            visit(value)
        }
    }
}

/// Number of elements of a list, missing ones included; 0 if the list itself is missing.
fn len_of(value: Value<'_>) -> Result<usize> {
    let mut len = 0;
    if !matches!(value, Value::Missing) {
        walk(value, 0, &mut Dims { at_once: true, ..Dims::default() }, &mut |value| {
            len += if let Value::Numbers(numbers) = value { numbers.len() } else { 1 };
            Ok(())
        })?;
    }
    Ok(len)
}

impl Decode for ListCodec {
    fn write(&self, _: usize, value: Value<'_>, _: &mut Context<'_>, row: &mut RowMut<'_>) -> Result<()> {
        let mut tensor = row.tensor(0);
        let room = tensor.shape().iter().product::<usize>();
        let mut at = 0;
        if let (Value::Missing, Some(elements)) = (value, self.elements) {
            (0..elements).try_for_each(|at| write_number(&mut tensor, at, Value::Missing, self.missing))?;
            return Ok(());
        }
        // An integer that is scaled, and then rounded to 16 bits, is rounded as it is written where it comes alone.
        let at_once = !matches!(tensor.dtype(), DType::F16 | DType::Bf16);
        let mut dims = Dims { at_once, lists: self.depth.checked_sub(1), ..Dims::default() };
        if !matches!(value, Value::Missing) {
            walk(value, 0, &mut dims, &mut |value| {
                if let Value::Numbers(numbers) = value {
                    if at < room {
                        let left = (room - at).min(numbers.len());
                        write_array(&mut tensor, at, numbers.range(0..left))?;
                    }
                    at += numbers.len();
                } else {
                    if at < room {
                        write_number(&mut tensor, at, value, self.missing)?;
                    }
                    at += 1;
                }
                Ok(())
            })?;
        }
        dims.check()?;
        if self.elements.is_some_and(|elements| elements != at) {
            let message = format!(
                "a list of {at} numbers; the tensor has {room} elements; for lists of different lengths, set `list` to \
                 true, or a `max_len`"
            );
            return Err(Error::new(ErrorKind::Data, message));
        }
        if self.elements.is_some() && !dims.fit(tensor.shape()) {
            let message = format!("{dims}, where {:?} was expected", tensor.shape());
            return Err(Error::new(ErrorKind::Data, message));
        }
        if at > room && self.longer == Longer::Error {
            let message =
                format!("a list of {at} numbers; at most {room} fit; raise max_len, or set `longer` to \"cut\"");
            return Err(Error::new(ErrorKind::Data, message));
        }
        if self.elements.is_none() && !self.ragged {
            let len = at.min(room);
            write_padding(&mut tensor, len, self.pad)?;
            let mut mask = row.tensor(1);
            let (present, absent) = mask.bytes_mut().split_at_mut(len);
            present.fill(1);
            absent.fill(0);
        }
        Ok(())
    }

    fn measure(&self, value: Value<'_>, extents: &mut Extents) -> Result<()> {
        if let Some(extent) = self.extent {
            extents.0[extent] = u32::try_from(len_of(value)?.min(self.most))
                .map_err(|_| Error::new(ErrorKind::Data, "a list of more than 4,294,967,295 numbers"))?;
        }
        Ok(())
    }
}

/// Checks that the padding is a number that the tensor can hold.
fn check_padding(numbers: &Numbers) -> Result<()> {
    use crate::read::csv::{FieldNumber, with_element};
    let (pad, dtype) = (numbers.pad, numbers.dtype);
    if with_element!(dtype, T => <T as FieldNumber>::from_f64(pad).is_some()) {
        return Ok(());
    }
    Err(Error::new(ErrorKind::Config, format!("padding is {pad}, which is not an element of type {dtype}")))
}

/// Writes padding from `at` on, as it is, even if values are transformed.
fn write_padding(tensor: &mut crate::row::TensorMut<'_>, at: usize, pad: f64) -> Result<()> {
    use crate::read::csv::{FieldNumber, with_element};
    with_element!(tensor.dtype(), T => {
        tensor.as_mut_slice::<T>()?[at..].fill(<T as FieldNumber>::from_f64(pad).unwrap_or_default());
    });
    Ok(())
}
