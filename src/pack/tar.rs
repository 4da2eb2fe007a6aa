//! Records as samples of a tar archive, in the layout of WebDataset.

use std::collections::HashMap;
use std::io::Write;

use serde_json::{Map, Value as Json};

use crate::decode::image::ImageFormat;
use crate::dtype::DType;
use crate::error::{Error, ErrorKind, Result};
use crate::float16::bf16;
use crate::read::FieldKind;

use super::cells::{Cell, Column, each_number, float_of, integer_of, is_held};
use super::forms::{Form, array_of};

/// All positions in an archive are multiples of this.
const BLOCK: usize = 512;

/// The end of an archive.
pub(super) const END: [u8; 2 * BLOCK] = [0; 2 * BLOCK];

/// Turns records into samples.
pub(super) struct Samples {
    columns: Vec<Column>,
    forms: Vec<Form>,
    /// Whether fields are members already, with extensions as their names.
    are_members: bool,
    /// The field that is a class with an index.
    class: Option<usize>,
}

impl Samples {
    /// # Errors
    ///
    /// [`ErrorKind::Unsupported`] for fields that would be members of one name, or of none.
    pub(super) fn new(columns: &[Column], forms: Vec<Form>, are_members: bool, class: Option<&str>) -> Result<Self> {
        let mut taken: HashMap<String, &str> = HashMap::new();
        let single = has_single(&forms);
        // Everything that is not a member is in the sample's JSON, by its own name.
        for (column, form) in columns.iter().zip(&forms).filter(|(_, form)| are_members || **form != Form::Json) {
            let extension = if are_members { column.name.to_lowercase() } else { extension_of(&column.packed_name()) };
            // The only file of a sample is called by its kind.
            if extension.is_empty() && !(single && *form == Form::Member) {
                let message = "has an empty name, which a member of a sample can't have; pack into Parquet, or leave the \
                               field out (--skip-fields)";
                return Err(Error::new(ErrorKind::Unsupported, message).at_column(&column.name));
            }
            if let Some(other) = taken.insert(extension, &column.name) {
                let message = format!("would be the same member of a sample as {other:?}{SAME_NAME}");
                return Err(Error::new(ErrorKind::Unsupported, message).at_column(&column.name));
            }
        }
        let class = class.and_then(|class| columns.iter().position(|column| column.name == class));
        Ok(Self { columns: columns.to_vec(), forms, are_members, class })
    }

    /// The members of a record.
    pub(super) fn encode(&self, record: u64, cells: Vec<Cell>) -> Result<Vec<u8>> {
        let mut out = Vec::new();
        let mut taken: Vec<String> = Vec::new();
        let mut append = |out: &mut Vec<u8>, key: &str, extension: &str, bytes: &[u8]| {
            if taken.iter().any(|other| other == extension) {
                let message = format!("two members of the sample would be called {extension:?}{SAME_NAME}");
                return Err(Error::new(ErrorKind::Unsupported, message));
            }
            taken.push(extension.to_owned());
            append(out, key, extension, bytes)
        };
        let mut json = Map::new();
        let key = format!("{record:09}");
        let single = has_single(&self.forms);
        let members = self.are_members;
        for (nth, (column, cell)) in self.columns.iter().zip(cells).enumerate() {
            let named = |extension: &str| match single {
                true => extension.to_owned(),
                false => format!("{}.{extension}", extension_of(&column.packed_name())),
            };
            let at_column = |error: Error| error.at_column(&column.name);
            match (self.forms[nth], cell) {
                (_, Cell::Missing) => {}
                (_, Cell::Bytes(bytes)) if members => append(&mut out, &key, &column.name, &bytes)?,
                (Form::Member, Cell::Bytes(bytes)) => {
                    append(&mut out, &key, &named(kind_of(&bytes)), &bytes)?;
                }
                (Form::Member, cell) => {
                    let message =
                        format!("expected bytes, as the field holds them elsewhere, found {}", cell.describe());
                    return Err(at_column(Error::new(ErrorKind::Data, message)));
                }
                (_, Cell::I64(class)) if self.class == Some(nth) => {
                    append(&mut out, &key, "cls", class.to_string().as_bytes())?;
                }
                // The name of an image file in its folder tells nothing that the sample does not have.
                (_, Cell::Text(_)) if self.class.is_some() && column.path == ["image", "path"] => {}
                (Form::Array, cell) => {
                    let (dtype, bytes, shape) = array_of(cell, column).map_err(at_column)?;
                    let shape = shape_of(&column.shape, shape.as_deref(), bytes.len() / dtype.bytes());
                    let array = npy(dtype, &shape.map_err(at_column)?, &bytes)?;
                    append(&mut out, &key, &format!("{}.npy", extension_of(&column.packed_name())), &array)?;
                }
                (Form::Json, cell) => {
                    let is_list = matches!(cell, Cell::List(_) | Cell::Numbers(..));
                    let cell = if column.shape.is_empty() || is_list { cell } else { Cell::List(vec![cell]) };
                    put(&mut json, &column.path, json_of(&cell, column.kind, &column.shape).map_err(at_column)?);
                }
            }
        }
        if !json.is_empty() {
            append(&mut out, &key, "json", Json::Object(json).to_string().as_bytes())?;
        }
        if out.is_empty() {
            // A record without values is a sample, too.
            append(&mut out, &key, "json", b"{}")?;
        }
        Ok(out)
    }
}

/// Whether a single field is a file.
fn has_single(forms: &[Form]) -> bool {
    forms.iter().filter(|form| **form == Form::Member).count() == 1
}

/// The advice for members with the same name.
const SAME_NAME: &str = ": names are in lower case in an archive, and have _ for / \\ . : * and control characters; name one \
                         field of both, or pack into Parquet";

/// A field's name as an extension, which is in lower case, has no separators, and can be asked for when it is read. A
/// header would end the name at a NUL.
fn extension_of(name: &str) -> String {
    name.to_lowercase().replace(|c: char| matches!(c, '/' | '\\' | '.' | ':' | '*') || c.is_control(), "_")
}

/// The kind of a file, from its first bytes.
fn kind_of(bytes: &[u8]) -> &'static str {
    match (ImageFormat::of_content(bytes), bytes) {
        (Some(ImageFormat::Jpeg), _) => "jpg",
        (Some(ImageFormat::Png), _) => "png",
        (Some(ImageFormat::WebP), _) => "webp",
        (Some(ImageFormat::Bmp), _) => "bmp",
        (Some(ImageFormat::Gif), _) => "gif",
        (Some(ImageFormat::Tiff), _) => "tiff",
        (Some(ImageFormat::Pnm), _) => "ppm",
        (_, [b'R', b'I', b'F', b'F' | b'X', _, _, _, _, b'W', b'A', b'V', b'E', ..]) => "wav",
        (_, [b'f', b'L', b'a', b'C', ..]) => "flac",
        (_, [b'O', b'g', b'g', b'S', ..]) => "ogg",
        (_, [b'I', b'D', b'3', ..]) => "mp3",
        (_, [0x93, b'N', b'U', b'M', b'P', b'Y', ..]) => "npy",
        _ => "bin",
    }
}

/// Puts a value at the end of its path. No path is the beginning of another one.
fn put(object: &mut Map<String, Json>, path: &[String], value: Json) {
    match path {
        [] => {}
        [name] => {
            object.insert(name.clone(), value);
        }
        [name, rest @ ..] => {
            let inner = object.entry(name.clone()).or_insert_with(|| Json::Object(Map::new()));
            if let Json::Object(inner) = inner {
                put(inner, rest, value);
            }
        }
    }
}

/// `shape` is the shape of the value, as far as it is known.
fn json_of(cell: &Cell, kind: FieldKind, shape: &[usize]) -> Result<Json> {
    let float = |number: f64| {
        serde_json::Number::from_f64(number).map(Json::Number).ok_or_else(|| {
            Error::new(ErrorKind::Data, format!("{number} has no form in JSON; pack into Parquet, which has one"))
        })
    };
    Ok(match cell {
        Cell::Missing => Json::Null,
        Cell::Bool(flag) => (*flag).into(),
        Cell::I64(number) => (*number).into(),
        Cell::U64(number) => (*number).into(),
        Cell::F64(number) => float(*number)?,
        Cell::Text(text) => text.as_str().into(),
        Cell::Decimal(text) => json_number(text).ok_or_else(|| {
            let message = format!("{text} has more digits than readers of JSON keep; name the other fields");
            Error::new(ErrorKind::Data, message)
        })?,
        Cell::Bytes(bytes) => {
            let text = std::str::from_utf8(bytes).map_err(|error| {
                let at = error.valid_up_to();
                Error::new(
                    ErrorKind::Data,
                    format!("byte {at} of the text is {:#04x}: not UTF-8; pack into Parquet", bytes[at]),
                )
            })?;
            match kind {
                FieldKind::Numbers(_) => json_number(text)
                    .ok_or_else(|| Error::new(ErrorKind::Data, format!("expected a number, found {text:?}")))?,
                _ => text.into(),
            }
        }
        Cell::List(items) => {
            let inner = shape.get(1..).unwrap_or_default();
            items.iter().map(|item| json_of(item, kind, inner)).collect::<Result<Vec<_>>>()?.into()
        }
        Cell::Numbers(dtype, bytes, own) => {
            let mut numbers = Vec::new();
            each_number(*dtype, bytes, |number| numbers.push(json_of(&number, kind, &[])));
            let mut values = numbers.into_iter().collect::<Result<Vec<_>>>()?;
            let shape = match own {
                Some(own) => own.iter().map(|dim| usize::try_from(*dim).unwrap_or(usize::MAX)).collect(),
                None => shape.to_vec(),
            };
            // Numbers of several dimensions follow one another.
            for dim in shape.iter().skip(1).rev().filter(|dim| **dim > 0) {
                values = values.chunks(*dim).map(|row| row.to_vec().into()).collect();
            }
            values.into()
        }
    })
}

/// A number in a text: an integer stays unchanged, any other number (`-0` is one) becomes the nearest f64, unless that
/// is a different number.
pub(super) fn json_number(text: &str) -> Option<Json> {
    let is_integer = |integer: &i128| *integer != 0 || !text.trim_start().starts_with('-');
    match integer_of(text).filter(is_integer).map(|integer| (i64::try_from(integer), u64::try_from(integer))) {
        Some((Ok(integer), _)) => Some(integer.into()),
        Some((_, Ok(integer))) => Some(integer.into()),
        _ => float_of(text)
            .filter(|number| is_held(text, *number))
            .and_then(serde_json::Number::from_f64)
            .map(Json::Number),
    }
}

/// The shape of `count` numbers: their `own`, or that of the field, in which one length may vary from record to record.
fn shape_of(field: &[usize], own: Option<&[u64]>, count: usize) -> Result<Vec<u64>> {
    if let Some(own) = own {
        return Ok(own.to_vec());
    }
    let known = field.iter().filter(|dim| **dim > 0).product::<usize>();
    let (unknown, rest) = (field.iter().filter(|dim| **dim == 0).count(), count.checked_rem(known));
    if (unknown == 0 && count == known) || (unknown == 1 && rest == Some(0)) {
        return Ok(field.iter().map(|dim| if *dim == 0 { (count / known) as u64 } else { *dim as u64 }).collect());
    }
    let message = format!("{count} numbers are not an array of the field's shape {field:?}");
    Err(Error::new(ErrorKind::Data, message))
}

/// An NPY file, version 1.
fn npy(dtype: DType, shape: &[u64], bytes: &[u8]) -> Result<Vec<u8>> {
    let (descr, widened);
    let mut bytes = bytes;
    (descr, widened) = match dtype {
        DType::U8 => ("|u1", None),
        DType::I8 => ("|i1", None),
        DType::U16 => ("u2", None),
        DType::I16 => ("i2", None),
        DType::U32 => ("u4", None),
        DType::I32 => ("i4", None),
        DType::U64 => ("u8", None),
        DType::I64 => ("i8", None),
        DType::F16 => ("f2", None),
        DType::F32 => ("f4", None),
        DType::F64 => ("f8", None),
        // NumPy has no such type; f32 can hold all of its numbers.
        DType::Bf16 => {
            let wide = bytes.chunks_exact(2).map(|pair| f32::from(bf16::from_ne_bytes([pair[0], pair[1]])));
            ("f4", Some(wide.flat_map(f32::to_ne_bytes).collect::<Vec<u8>>()))
        }
    };
    if let Some(widened) = &widened {
        bytes = widened;
    }
    let order = if cfg!(target_endian = "big") { ">" } else { "<" };
    let descr = if descr.starts_with('|') { descr.to_owned() } else { format!("{order}{descr}") };
    let dims: String = shape.iter().map(|dim| format!("{dim}, ")).collect();
    let mut header = format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': ({}), }}", dims.trim_end());
    let len = (10 + header.len() + 1).next_multiple_of(64);
    header.extend(std::iter::repeat_n(' ', len - 10 - header.len() - 1));
    header.push('\n');
    let header_len = u16::try_from(header.len())
        .map_err(|_| Error::new(ErrorKind::Limit, "an array of too many dimensions for an NPY file"))?;
    Ok([b"\x93NUMPY\x01\x00", &header_len.to_le_bytes()[..], header.as_bytes(), bytes].concat())
}

/// Adds a member: a ustar header, its bytes, and zeros up to the next block.
fn append(out: &mut Vec<u8>, key: &str, extension: &str, bytes: &[u8]) -> Result<()> {
    let name = format!("{key}.{extension}");
    let mut header = [0u8; BLOCK];
    let fits =
        |what: &str| Error::new(ErrorKind::Limit, format!("{name:?} is too {what} for a member of a tar archive"));
    let place = header.get_mut(..name.len()).filter(|place| place.len() <= 100).ok_or_else(|| fits("long a name"))?;
    place.copy_from_slice(name.as_bytes());
    if bytes.len() as u64 >= 1 << 33 {
        return Err(fits("large"));
    }
    let mut field = |at: usize, text: String| header[at..at + text.len()].copy_from_slice(text.as_bytes());
    field(100, "0000644\0".to_owned());
    field(108, "0000000\0".to_owned());
    field(116, "0000000\0".to_owned());
    field(124, format!("{:011o}\0", bytes.len()));
    field(136, "00000000000\0".to_owned());
    field(148, "        ".to_owned());
    field(156, "0".to_owned());
    field(257, "ustar\x0000".to_owned());
    let sum: u32 = header.iter().map(|byte| u32::from(*byte)).sum();
    header[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
    out.extend_from_slice(&header);
    out.extend_from_slice(bytes);
    out.resize(out.len().next_multiple_of(BLOCK), 0);
    Ok(())
}

/// Ends an archive.
pub(super) fn end(out: &mut impl Write) -> std::io::Result<()> {
    out.write_all(&END)
}
