//! The fields of a table, those in structs included.

use std::collections::BTreeMap;

use arrow_array::ArrayRef;
use arrow_schema::{DataType, Field};
use serde::Deserialize;

use crate::error::Result;
use crate::read::{FieldInfo, FieldKind, Meaning};

use super::cells::Cells;
use super::kinds::{describe, meaning, refusal};

/// A field of a table: its path by positions, and what is known of it.
pub(crate) struct Leaf {
    pub(crate) info: FieldInfo,
    /// The position of the column, followed by those of the fields of structs in it.
    pub(crate) path: Vec<usize>,
    /// Their names.
    pub(crate) steps: Vec<String>,
    pub(crate) meaning: Option<Meaning>,
    pub(crate) is_text: bool,
    /// The shape of the arrays in its innermost lists, if Arrow notes one.
    pub(crate) arrays: Option<Vec<usize>>,
    /// Why it can't be read.
    pub(crate) refusal: Option<String>,
}

/// Most fields of a table, including those in structs.
const MAX_FIELDS: usize = 1 << 20;

/// All fields: first the columns, then the fields of structs, named by their path with points.
pub(crate) fn leaves(columns: &[Field]) -> Vec<Leaf> {
    let leaf = |(at, column): (usize, &Field)| Leaf::new(vec![column.name().clone()], column, vec![at]);
    let mut leaves: Vec<Leaf> = columns.iter().enumerate().map(leaf).collect();
    for (at, column) in columns.iter().enumerate() {
        inner_leaves(std::slice::from_ref(column.name()), column.data_type(), &[at], &[], &mut leaves);
    }
    leaves
}

impl Leaf {
    fn new(steps: Vec<String>, field: &Field, path: Vec<usize>) -> Self {
        let kind = field.data_type();
        let (mut refusal, meaning) = (refusal(kind), meaning(kind));
        let (kind, mut shape) = describe(kind);
        let mut arrays = None;
        match tensor_shape(field) {
            Some(Ok(of_arrays)) => {
                shape.splice(..1, of_arrays.iter().copied()).for_each(drop);
                arrays = Some(of_arrays);
            }
            Some(Err(message)) => refusal = refusal.or(Some(message)),
            None => {}
        }
        let info = FieldInfo::new(steps.join("."), kind).shape(&shape);
        Self { info, path, steps, meaning, is_text: kind == FieldKind::Text, arrays, refusal }
    }

    /// Its values in a column.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Unsupported`](crate::ErrorKind::Unsupported) for types that are no values.
    pub(crate) fn cells(&self, column: &ArrayRef) -> Result<Cells> {
        Cells::new(column, &self.path[1..], self.is_text).map(|cells| self.shaped(cells))
    }

    /// Its values, as the arrays that Arrow notes.
    pub(crate) fn shaped(&self, cells: Cells) -> Cells {
        match &self.arrays {
            Some(shape) => cells.shaped(shape),
            None => cells,
        }
    }
}

/// Notes of a column that say what its values are; all others may differ from file to file.
const TENSOR: &str = "arrow.fixed_shape_tensor";
const EXTENSION: [&str; 2] = ["ARROW:extension:name", "ARROW:extension:metadata"];

/// A column as it must be in every file: `field`, decoded to this type.
pub(crate) fn column(field: &Field, kind: DataType) -> Field {
    let is_tensor = field.metadata().get(EXTENSION[0]).is_some_and(|name| name == TENSOR);
    let notes = EXTENSION
        .iter()
        .filter(|_| is_tensor)
        .filter_map(|key| Some(((*key).to_owned(), field.metadata().get(key)?.clone())));
    Field::new(field.name(), kind, true).with_metadata(notes.collect::<BTreeMap<_, _>>())
}

/// Most dimensions of the arrays in a column.
const MOST_DIMENSIONS: usize = 8;

/// What Arrow notes of the arrays in a column of its type `fixed_shape_tensor`.
#[derive(Deserialize)]
struct FixedShape {
    shape: Vec<usize>,
    /// Arrow for Rust calls it `permutations`.
    #[serde(alias = "permutations")]
    permutation: Option<Vec<usize>>,
}

/// The shape of the arrays that a column holds as lists of their numbers, if Arrow notes one, or why it can't be read.
fn tensor_shape(field: &Field) -> Option<Result<Vec<usize>, String>> {
    let [name, noted] = EXTENSION.map(|key| field.metadata().get(key).map_or("", String::as_str));
    if name != TENSOR {
        return None;
    }
    let len = match field.data_type() {
        DataType::FixedSizeList(item, len) if describe(item.data_type()).1.is_empty() => len,
        kind => return Some(Err(format!("arrays of a fixed shape, but stored as {kind}"))),
    };
    let Ok(FixedShape { shape, permutation }) = serde_json::from_str(noted) else {
        return Some(Err(format!("arrays of a fixed shape that is not understood: {noted}")));
    };
    if shape.len() > MOST_DIMENSIONS {
        let message = format!("arrays of {} dimensions; at most {MOST_DIMENSIONS} are read", shape.len());
        return Some(Err(message));
    }
    let count = shape.iter().try_fold(1usize, |count, len| count.checked_mul(*len));
    if count != usize::try_from(*len).ok() {
        return Some(Err(format!("arrays of shape {shape:?}, but in lists of {len} numbers")));
    }
    match permutation.filter(|order| !order.iter().copied().eq(0..shape.len())) {
        Some(order) => Some(Err(format!(
            "arrays whose dimensions are stored in another order (permutation {order:?}); write them in the order in which they \
             are to be read, such as by pyarrow's to_numpy_ndarray and from_numpy_ndarray"
        ))),
        None => Some(Ok(shape)),
    }
}

fn inner_leaves(steps: &[String], kind: &DataType, path: &[usize], shape: &[usize], leaves: &mut Vec<Leaf>) {
    let fields = match kind {
        DataType::Struct(fields) => fields,
        DataType::List(field)
        | DataType::LargeList(field)
        | DataType::ListView(field)
        | DataType::LargeListView(field) => {
            return inner_leaves(steps, field.data_type(), path, &[shape, &[0]].concat(), leaves);
        }
        DataType::FixedSizeList(field, len) => {
            let len = usize::try_from(*len).unwrap_or(0);
            return inner_leaves(steps, field.data_type(), path, &[shape, &[len]].concat(), leaves);
        }
        DataType::Map(field, _) => match field.data_type() {
            DataType::Struct(fields) => {
                return map_leaves(steps, fields, path, &[shape, &[0]].concat(), leaves);
            }
            _ => return,
        },
        _ => return,
    };
    struct_leaves(steps, fields, path, shape, leaves);
}

/// A map has keys and values, whatever the writer calls them.
fn map_leaves(
    steps: &[String],
    fields: &arrow_schema::Fields,
    path: &[usize],
    shape: &[usize],
    leaves: &mut Vec<Leaf>,
) {
    let names = ["key", "value"].into_iter().zip(fields.iter());
    let called = names.map(|(name, field)| field.as_ref().clone().with_name(name)).collect();
    struct_leaves(steps, &called, path, shape, leaves);
}

fn struct_leaves(
    steps: &[String],
    fields: &arrow_schema::Fields,
    path: &[usize],
    shape: &[usize],
    leaves: &mut Vec<Leaf>,
) {
    for (at, field) in fields.iter().enumerate() {
        if leaves.len() == MAX_FIELDS {
            return;
        }
        let steps = [steps, std::slice::from_ref(field.name())].concat();
        let path = [path, &[at]].concat();
        let mut leaf = Leaf::new(steps.clone(), field, path.clone());
        leaf.info.shape = [shape, &leaf.info.shape].concat();
        leaves.push(leaf);
        inner_leaves(&steps, field.data_type(), &path, shape, leaves);
    }
}
