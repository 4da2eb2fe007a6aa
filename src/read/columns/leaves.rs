//! The fields of a table, those in structs included.

use arrow_schema::DataType;

use crate::read::{FieldInfo, FieldKind, Meaning};

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
    /// Why it can't be read.
    pub(crate) refusal: Option<String>,
}

/// Most fields of a table, including those in structs.
const MAX_FIELDS: usize = 1 << 20;

/// All fields: first the columns, then the fields of structs, named by their path with points.
pub(crate) fn leaves(columns: &[(String, DataType)]) -> Vec<Leaf> {
    let mut leaves: Vec<Leaf> =
        columns.iter().enumerate().map(|(at, (name, kind))| Leaf::new(vec![name.clone()], kind, vec![at])).collect();
    for (at, (name, kind)) in columns.iter().enumerate() {
        inner_leaves(std::slice::from_ref(name), kind, &[at], &[], &mut leaves);
    }
    leaves
}

impl Leaf {
    fn new(steps: Vec<String>, kind: &DataType, path: Vec<usize>) -> Self {
        let (refusal, meaning) = (refusal(kind), meaning(kind));
        let (kind, shape) = describe(kind);
        let info = FieldInfo::new(steps.join("."), kind).shape(&shape);
        Self { info, path, steps, meaning, is_text: kind == FieldKind::Text, refusal }
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
        let mut leaf = Leaf::new(steps.clone(), field.data_type(), path.clone());
        leaf.info.shape = [shape, &leaf.info.shape].concat();
        leaves.push(leaf);
        inner_leaves(&steps, field.data_type(), &path, shape, leaves);
    }
}
