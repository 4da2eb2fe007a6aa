//! What Arrow's types are to fields.

use arrow_schema::{DataType, TimeUnit};

use crate::dtype::DType;
use crate::error::{Error, ErrorKind};
use crate::read::{DateUnit, FieldKind, Meaning};

pub(super) fn date_unit(unit: TimeUnit) -> DateUnit {
    match unit {
        TimeUnit::Second => DateUnit::Seconds,
        TimeUnit::Millisecond => DateUnit::Milliseconds,
        TimeUnit::Microsecond => DateUnit::Microseconds,
        TimeUnit::Nanosecond => DateUnit::Nanoseconds,
    }
}

#[cold]
pub(super) fn unsupported(kind: &DataType) -> Error {
    Error::new(ErrorKind::Unsupported, refusal(kind).unwrap_or_else(|| format!("values of type {kind} are not read")))
}

/// Why values of a type are not read; `None` if they are.
pub(super) fn refusal(kind: &DataType) -> Option<String> {
    match kind {
        DataType::Struct(fields) => {
            let names: Vec<&str> = fields.iter().take(20).map(|field| field.name().as_str()).collect();
            Some(format!("a struct; name one of its fields after a dot: {names:?}"))
        }
        DataType::Map(..) => Some("a map; name its `key` or `value` after a dot".to_owned()),
        DataType::List(field)
        | DataType::LargeList(field)
        | DataType::ListView(field)
        | DataType::LargeListView(field)
        | DataType::FixedSizeList(field, _) => refusal(field.data_type()),
        // The fields of structs in a dictionary have no names here.
        DataType::Dictionary(_, values) => refusal(values).map(|_| format!("values of type {kind} are not read")),
        DataType::Null => None,
        kind => (describe(kind).0 == FieldKind::Other).then(|| format!("values of type {kind} are not read")),
    }
}

/// What the numbers of a type, or of its lists, mean.
pub(super) fn meaning(kind: &DataType) -> Option<Meaning> {
    Some(match kind {
        DataType::Boolean => Meaning::Bool,
        DataType::UInt64 => Meaning::U64,
        DataType::Date32 => Meaning::Date(DateUnit::Days),
        DataType::Date64 => Meaning::Date(DateUnit::Milliseconds),
        DataType::Time32(unit) | DataType::Time64(unit) => Meaning::Time(date_unit(*unit)),
        DataType::Timestamp(unit, zone) => Meaning::Timestamp(date_unit(*unit), zone.as_deref().map(str::to_owned)),
        DataType::Duration(unit) => Meaning::Duration(date_unit(*unit)),
        DataType::Decimal32(digits, scale)
        | DataType::Decimal64(digits, scale)
        | DataType::Decimal128(digits, scale)
        | DataType::Decimal256(digits, scale) => Meaning::Decimal(*digits, *scale),
        DataType::Dictionary(_, values) => return meaning(values),
        DataType::List(field)
        | DataType::LargeList(field)
        | DataType::ListView(field)
        | DataType::LargeListView(field)
        | DataType::FixedSizeList(field, _) => return meaning(field.data_type()),
        _ => return None,
    })
}

/// What a type holds, and its shape.
pub(super) fn describe(kind: &DataType) -> (FieldKind, Vec<usize>) {
    let list = |field: &arrow_schema::FieldRef, len| {
        let (kind, shape) = describe(field.data_type());
        (kind, [&[len], &*shape].concat())
    };
    let kind = match kind {
        DataType::Boolean | DataType::UInt8 => FieldKind::Numbers(DType::U8),
        DataType::Int8 => FieldKind::Numbers(DType::I8),
        DataType::UInt16 => FieldKind::Numbers(DType::U16),
        DataType::Int16 => FieldKind::Numbers(DType::I16),
        DataType::UInt32 => FieldKind::Numbers(DType::U32),
        DataType::Int32 | DataType::Date32 | DataType::Time32(_) => FieldKind::Numbers(DType::I32),
        DataType::Int64
        | DataType::UInt64
        | DataType::Date64
        | DataType::Time64(_)
        | DataType::Timestamp(..)
        | DataType::Duration(_) => FieldKind::Numbers(DType::I64),
        DataType::Float16 => FieldKind::Numbers(DType::F16),
        DataType::Float32 => FieldKind::Numbers(DType::F32),
        DataType::Float64
        | DataType::Decimal32(..)
        | DataType::Decimal64(..)
        | DataType::Decimal128(..)
        | DataType::Decimal256(..) => FieldKind::Numbers(DType::F64),
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => FieldKind::Text,
        DataType::Binary | DataType::LargeBinary | DataType::BinaryView | DataType::FixedSizeBinary(_) => {
            FieldKind::Bytes
        }
        DataType::Dictionary(_, values) => return describe(values),
        DataType::List(field)
        | DataType::LargeList(field)
        | DataType::ListView(field)
        | DataType::LargeListView(field) => {
            return list(field, 0);
        }
        DataType::FixedSizeList(field, len) => return list(field, usize::try_from(*len).unwrap_or(0)),
        _ => FieldKind::Other,
    };
    (kind, Vec::new())
}
