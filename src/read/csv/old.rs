//! Settings of earlier versions, in which options of CSV said how columns are decoded: translated to fields.

use serde::Deserialize;

use crate::dtype::DType;
use crate::read::fields::{ALL_OTHERS, Category, Class, Classes, Field, Numbers, Text, instead_of, old_among};
use crate::schema::Role;
use crate::tree::{Fault, Node};

use super::options::{ColumnRef, Longer};

const OLD: [&str; 7] = ["features", "labels", "label_dtype", "classes", "one_hot", "ignore", "tensors"];

/// The options of an earlier version.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Old {
    features: Vec<ColumnRef>,
    labels: Vec<ColumnRef>,
    label_dtype: Option<DType>,
    classes: Option<Vec<String>>,
    one_hot: bool,
    ignore: Vec<ColumnRef>,
    tensors: Vec<OldTensor>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct OldTensor {
    name: String,
    role: Option<Role>,
    columns: Vec<ColumnRef>,
    dtype: Option<DType>,
    shape: Option<Vec<usize>>,
    #[serde(default)]
    values: OldValues,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
enum OldValues {
    #[default]
    Numbers,
    Classes {
        names: Option<Vec<String>>,
        #[serde(default)]
        one_hot: bool,
    },
    Categories {
        names: Option<Vec<Vec<String>>>,
        missing: Option<i64>,
    },
    Text {
        max_len: usize,
        #[serde(default)]
        longer: Longer,
    },
}

/// What to write instead of options that say what columns become.
///
/// # Errors
///
/// The original error.
pub(in crate::read) fn advice(options: &Node) -> Result<Option<String>, Fault> {
    let old = old_among::<Old>(options, &OLD)?;
    Ok(old.map(|(key, old)| instead_of(key, &old.fields())))
}

impl Old {
    fn fields(self) -> Vec<(String, Field)> {
        if !self.tensors.is_empty() {
            return self.tensors.into_iter().map(OldTensor::field).collect();
        }
        let Self { features, labels, label_dtype, classes, one_hot, ignore, .. } = self;
        let features = match features.is_empty() {
            true => Numbers::f32().from(ALL_OTHERS).except(ignore),
            false => Numbers::f32().from(features),
        };
        let mut fields = vec![("features".to_owned(), features)];
        let is_class = classes.is_some() || one_hot || !label_dtype.is_some_and(DType::is_float) && labels.len() <= 1;
        // If no label is named, it is the column with a usual name.
        let from = if labels.is_empty() { vec![ColumnRef::from("label")] } else { labels };
        let label = match is_class {
            true => class_of(classes, one_hot, label_dtype).into(),
            false => Numbers::of(label_dtype.unwrap_or(DType::F32)).from(ALL_OTHERS).role(Role::Label),
        };
        fields.push(("labels".to_owned(), of_columns(label, from, is_class)));
        fields
    }
}

fn class_of(names: Option<Vec<String>>, one_hot: bool, dtype: Option<DType>) -> Classes {
    let class = names.map_or_else(Classes::default, Class::of);
    let class = if one_hot { class.one_hot() } else { class };
    match dtype.filter(|dtype| one_hot || *dtype != DType::I64) {
        Some(dtype) => class.dtype(dtype),
        None => class,
    }
}

/// A single column needs no list if that means the same.
fn of_columns(field: Field, mut columns: Vec<ColumnRef>, may_stand_alone: bool) -> Field {
    match (columns.pop(), columns.is_empty() && may_stand_alone) {
        (Some(only), true) => field.from(only),
        (last, _) => {
            columns.extend(last);
            field.of_columns(columns)
        }
    }
}

impl OldTensor {
    fn field(self) -> (String, Field) {
        let Self { name, role, columns, dtype, shape, values } = self;
        let stands_alone = !matches!(values, OldValues::Numbers | OldValues::Categories { .. });
        let field: Field = match values {
            OldValues::Numbers => {
                let numbers = Numbers::of(dtype.unwrap_or(DType::F32));
                match (shape, columns.len()) {
                    (Some(shape), 1) if shape.is_empty() => {
                        return (name, with_role(of_columns(numbers.into(), columns, true), role, Role::Feature));
                    }
                    (Some(shape), _) => numbers.shape(&shape).into(),
                    (None, _) => numbers.into(),
                }
            }
            OldValues::Classes { names, one_hot } => class_of(names, one_hot, dtype).into(),
            OldValues::Categories { names, missing } => {
                let category = names.map_or_else(Category::new, |names| Category::new().names(names));
                let category = missing.map_or(category.clone(), |code| category.missing(code));
                match dtype.filter(|dtype| *dtype != DType::I64) {
                    Some(dtype) => category.dtype(dtype).into(),
                    None => category.into(),
                }
            }
            OldValues::Text { max_len, longer: Longer::Cut } => Text::new(max_len).cut().into(),
            OldValues::Text { max_len, longer: Longer::Error } => Text::new(max_len).into(),
        };
        let usual = field.role_or_default();
        (name, with_role(of_columns(field, columns, stands_alone), role, usual))
    }
}

/// The role, unless it is the default.
fn with_role(field: Field, role: Option<Role>, usual: Role) -> Field {
    match role.unwrap_or(Role::Feature) {
        role if role == usual => field,
        role => field.role(role),
    }
}
