//! The columns of a Parquet file: as fields, and as the types that they are decoded to.

use std::ops::Range;
use std::sync::Arc;

use arrow_schema::{DataType, Field, FieldRef, Fields, Schema};
use parquet::arrow::parquet_to_arrow_schema;
use parquet::basic::{ConvertedType, LogicalType, Repetition, Type as Stored};
use parquet::file::metadata::ParquetMetaData;
use parquet::schema::types::{SchemaDescPtr, SchemaDescriptor, Type, TypePtr};

use crate::error::{Error, ErrorKind, Result};
use crate::read::columns::column;

/// What is known about a file's columns.
pub(super) struct Columns {
    /// Their names and types, which do not depend on the program that wrote the file.
    pub(super) columns: Vec<Field>,
    /// The file's own schema, with text as bytes: text that is not UTF-8 is then an error of one record, not of all
    /// records that are decoded with it.
    pub(super) schema: SchemaDescPtr,
    /// The types to decode to, if they fit the schema.
    pub(super) types: Fields,
}

#[cold]
pub(super) fn not_understood(error: impl std::fmt::Display) -> Error {
    Error::new(ErrorKind::Format, format!("the schema is not understood: {error}"))
}

impl Columns {
    pub(super) fn new(metadata: &ParquetMetaData) -> Result<Self> {
        let file = metadata.file_metadata();
        let own = file.schema_descr();
        let stored = parquet_to_arrow_schema(own, None).map_err(not_understood)?;
        // Arrow's notes of its own types (such as the size of lists) are used if they fit.
        let notes = file.key_value_metadata();
        let noted = parquet_to_arrow_schema(own, notes);
        let mut arrow = noted.unwrap_or_else(|_| stored.clone());
        if notes.is_some() && own.columns().iter().any(|column| is_timestamp(column.self_type())) {
            // The crate drops the note of a timestamp in other units than the file's (it has no seconds), and the zone
            // with it. To integers it applies any note.
            let bare = stripped(&own.root_schema_ptr(), &is_timestamp);
            let noted = bare.and_then(|bare| parquet_to_arrow_schema(&SchemaDescriptor::new(bare), notes));
            if let Ok(noted) = noted {
                let fields = arrow.fields().iter().zip(noted.fields()).map(|(field, noted)| zoned_field(field, noted));
                arrow = Schema::new(fields.collect::<Fields>());
            }
        }
        let plain = |text: &DataType| {
            let fields = arrow.fields().iter().zip(stored.fields());
            let plain = |(field, stored): (&FieldRef, &FieldRef)| {
                column(field, normal(field.data_type(), stored.data_type(), text))
            };
            fields.map(plain).collect::<Vec<_>>()
        };
        let types = arrow.fields().iter().zip(plain(&DataType::BinaryView));
        let types =
            types.map(|(field, plain)| Field::new(plain.name(), plain.data_type().clone(), field.is_nullable()));
        let types = types.collect();
        let schema = stripped(&own.root_schema_ptr(), &is_text).map_err(not_understood)?;
        Ok(Self { columns: plain(&DataType::Utf8), schema: Arc::new(SchemaDescriptor::new(schema)), types })
    }
}

/// The type that represents all types that are read in the same way; `text` represents text, and `stored` is the type
/// without Arrow's notes.
fn normal(kind: &DataType, stored: &DataType, text: &DataType) -> DataType {
    let of = |field: &Field, stored: &DataType| {
        Arc::new(field.clone().with_data_type(normal(field.data_type(), stored, text)))
    };
    let inner = |field: &Field| match stored {
        DataType::List(stored) | DataType::Map(stored, _) => of(field, stored.data_type()),
        _ => of(field, stored),
    };
    match kind {
        // The file counts days, and other readers give days, whatever the writer had.
        DataType::Date64 if *stored == DataType::Date32 => DataType::Date32,
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => text.clone(),
        DataType::Binary | DataType::LargeBinary | DataType::BinaryView => DataType::BinaryView,
        DataType::Dictionary(_, values) => normal(values, stored, text),
        DataType::Decimal32(precision, scale) | DataType::Decimal64(precision, scale) => {
            DataType::Decimal128(*precision, *scale)
        }
        DataType::List(field)
        | DataType::LargeList(field)
        | DataType::ListView(field)
        | DataType::LargeListView(field) => DataType::List(inner(field)),
        DataType::FixedSizeList(field, len) => DataType::FixedSizeList(inner(field), *len),
        DataType::Struct(fields) => match stored {
            DataType::Struct(stored) => {
                let each = fields.iter().zip(stored);
                DataType::Struct(each.map(|(field, stored)| of(field, stored.data_type())).collect())
            }
            _ => kind.clone(),
        },
        DataType::Map(field, is_sorted) => DataType::Map(inner(field), *is_sorted),
        kind => kind.clone(),
    }
}

/// The type with the zones of `noted`.
fn zoned(kind: &DataType, noted: &DataType) -> DataType {
    use DataType::{FixedSizeList, LargeList, List, Map, Struct, Timestamp};

    match (kind, noted) {
        (Timestamp(unit, Some(_)), Timestamp(_, Some(zone))) => Timestamp(*unit, Some(zone.clone())),
        (List(field), List(noted)) => List(zoned_field(field, noted)),
        (LargeList(field), LargeList(noted)) => LargeList(zoned_field(field, noted)),
        (FixedSizeList(field, len), FixedSizeList(noted, _)) => FixedSizeList(zoned_field(field, noted), *len),
        (Map(field, is_sorted), Map(noted, _)) => Map(zoned_field(field, noted), *is_sorted),
        (Struct(fields), Struct(noted)) if fields.len() == noted.len() => {
            Struct(fields.iter().zip(noted).map(|(field, noted)| zoned_field(field, noted)).collect())
        }
        (kind, _) => kind.clone(),
    }
}

fn zoned_field(field: &FieldRef, noted: &FieldRef) -> FieldRef {
    Arc::new(field.as_ref().clone().with_data_type(zoned(field.data_type(), noted.data_type())))
}

fn is_text(leaf: &Type) -> bool {
    let info = leaf.get_basic_info();
    let is_decimal = info.converted_type() == ConvertedType::DECIMAL
        || matches!(info.logical_type_ref(), Some(LogicalType::Decimal { .. }));
    leaf.get_physical_type() == Stored::BYTE_ARRAY && !is_decimal
}

fn is_timestamp(leaf: &Type) -> bool {
    let info = leaf.get_basic_info();
    let is_old = matches!(info.converted_type(), ConvertedType::TIMESTAMP_MILLIS | ConvertedType::TIMESTAMP_MICROS);
    is_old || matches!(info.logical_type_ref(), Some(LogicalType::Timestamp { .. }))
}

/// The schema with nothing but the stored type of some columns.
fn stripped(node: &TypePtr, is_bare: &dyn Fn(&Type) -> bool) -> parquet::errors::Result<TypePtr> {
    let info = node.get_basic_info();
    if node.is_primitive() {
        if !is_bare(node) {
            return Ok(node.clone());
        }
        let bare = Type::primitive_type_builder(node.name(), node.get_physical_type());
        return Ok(Arc::new(bare.with_repetition(info.repetition()).build()?));
    }
    let fields =
        node.get_fields().iter().map(|field| stripped(field, is_bare)).collect::<parquet::errors::Result<_>>()?;
    let mut group = Type::group_type_builder(node.name())
        .with_converted_type(info.converted_type())
        .with_logical_type(info.logical_type_ref().cloned())
        .with_fields(fields);
    if info.has_repetition() {
        group = group.with_repetition(info.repetition());
    }
    Ok(Arc::new(group.build()?))
}

/// Number of columns of single values that a type is stored in.
pub(super) fn leaf_count(kind: &DataType) -> usize {
    match kind {
        DataType::Struct(fields) => fields.iter().map(|field| leaf_count(field.data_type())).sum(),
        DataType::List(field) | DataType::FixedSizeList(field, _) | DataType::Map(field, _) => {
            leaf_count(field.data_type())
        }
        _ => 1,
    }
}

/// The columns of single values at `path`, counted from `first`, and the path in what is decoded from them. Of a
/// struct, only one field is decoded; of a map, both.
pub(super) fn project(kind: &DataType, path: &[usize], first: usize) -> (Range<usize>, Vec<usize>) {
    let whole = || (first..first + leaf_count(kind), path.to_vec());
    match (kind, path.split_first()) {
        (DataType::List(field) | DataType::FixedSizeList(field, _), Some(_)) => project(field.data_type(), path, first),
        (DataType::Struct(fields), Some((at, rest))) if *at < fields.len() => {
            let before: usize = fields.iter().take(*at).map(|field| leaf_count(field.data_type())).sum();
            let (range, inner) = project(fields[*at].data_type(), rest, first + before);
            (range, [&[0], inner.as_slice()].concat())
        }
        _ => whole(),
    }
}

/// How many values stand for a missing list, where lists have a fixed length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FixedLens {
    /// For the list of a record.
    pub(super) of_record: u64,
    /// For a list in a list of any length, if there is one.
    pub(super) of_item: Option<u64>,
    /// How many lists of a fixed length contain the outermost list of any length.
    pub(super) around: usize,
}

impl FixedLens {
    /// The fixed lengths of the field at `path` in a type.
    pub(super) fn of(kind: &DataType, path: &[usize]) -> Self {
        match kind {
            DataType::FixedSizeList(field, len) => {
                let Self { of_record, of_item, around } = Self::of(field.data_type(), path);
                let of_record = of_record.saturating_mul(u64::try_from(*len).unwrap_or(0).max(1));
                Self { of_record, of_item, around: around.saturating_add(1) }
            }
            DataType::List(field) | DataType::Map(field, _) => {
                // Of maps, keys and values are decoded.
                let path = if matches!(kind, DataType::Map(..)) { &[] } else { path };
                let Self { of_record, of_item, .. } = Self::of(field.data_type(), path);
                Self { of_record: 1, of_item: Some(of_record.saturating_mul(of_item.unwrap_or(1))), around: 0 }
            }
            DataType::Struct(fields) => {
                let chosen = path.split_first().and_then(|(at, rest)| Some((fields.get(*at)?, rest)));
                match chosen {
                    Some((field, rest)) => Self::of(field.data_type(), rest),
                    None => fields.iter().map(|field| Self::of(field.data_type(), &[])).fold(Self::NONE, Self::larger),
                }
            }
            _ => Self::NONE,
        }
    }

    const NONE: Self = Self { of_record: 1, of_item: None, around: usize::MAX };

    fn larger(self, other: Self) -> Self {
        Self {
            of_record: self.of_record.max(other.of_record),
            of_item: self.of_item.max(other.of_item),
            around: self.around.min(other.around),
        }
    }
}

/// The definition level of an item in the list of `column` that is inside `around` other lists; 0 if there is none.
pub(super) fn level_of_item(schema: &SchemaDescriptor, column: usize, around: usize) -> i16 {
    let (mut at, mut level, mut around) = (schema.root_schema(), 0, around);
    for name in schema.column(column).path().parts() {
        let Some(field) = at.get_fields().iter().find(|field| field.name() == name) else { break };
        at = field;
        level += i16::from(!matches!(field.get_basic_info().repetition(), Repetition::REQUIRED));
        if field.get_basic_info().repetition() == Repetition::REPEATED {
            match around.checked_sub(1) {
                Some(left) => around = left,
                None => return level,
            }
        }
    }
    0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fixed_lengths_multiply_as_far_as_lists_of_any_length() {
        let item = |kind| Arc::new(Field::new("item", kind, true));
        let fixed = |kind, len| DataType::FixedSizeList(item(kind), len);
        let any = |kind| DataType::List(item(kind));
        let of = |kind: &DataType| {
            let lens = FixedLens::of(kind, &[]);
            (lens.of_record, lens.of_item)
        };
        let around = |kind: &DataType| FixedLens::of(kind, &[]).around;
        assert_eq!(of(&DataType::Int8), (1, None));
        assert_eq!(of(&fixed(fixed(DataType::Int8, 5), 7)), (35, None));
        assert_eq!(of(&fixed(any(DataType::Int8), 7)), (7, Some(1)));
        assert_eq!(of(&fixed(any(fixed(any(fixed(DataType::Int8, 2)), 3)), 7)), (7, Some(6)));
        assert_eq!(
            [any(fixed(DataType::Int8, 2)), fixed(fixed(any(DataType::Int8), 2), 3)].map(|k| around(&k)),
            [0, 2]
        );
        let both = DataType::Struct(vec![item(DataType::Int8), item(fixed(any(DataType::Int8), 9))].into());
        assert_eq!(of(&both), (9, Some(1)));
        assert_eq!(FixedLens::of(&any(both.clone()), &[0]).of_item, Some(1));
        assert_eq!(FixedLens::of(&DataType::Map(item(both), false), &[1]).of_item, Some(9));
    }
}
