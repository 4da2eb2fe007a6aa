//! A fitted recipe: plain numbers and names, which determine everything else.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use crate::dtype::DType;
use crate::error::{Error, ErrorKind, Result};
use crate::layout::Layout;
use crate::read::{OneJson, Staged, Value, Windows};
use crate::row::RowMut;
use crate::schema::{Extents, Role, Schema, TensorSpec};

use super::fitted::Fitted;
use super::inputs::{Inputs, Steps};
use super::target::Target;

/// The tensor of all features, and that of all codes.
const FEATURES: &str = "features";
const CODES: &str = "categories";

/// A fitted [`Recipe`](super::Recipe): it prepares records in training, and single records in a server, with identical
/// results.
///
/// It gives up to two tensors, and leaves out an empty one. `features` (`f32 [features]` or `f64`) has the numbers of
/// all columns in the recipe's order, each followed by its mask if it has one. `categories` (`i64 [columns]`) has the
/// codes of the columns of names that are not one-hot. [`feature_names`](Self::feature_names) and
/// [`code_counts`](Self::code_counts) say which number is at which position.
///
/// If the recipe has [windows](super::Recipe::windows), both have the window's length as their first dimension in
/// training and in a [window](Prepared::window) in a server. A [row](Prepared::row) is always a single record.
///
/// Clones share the same data. Many threads may use it at the same time; each needs its own [row](Prepared::row).
#[derive(Clone)]
pub struct Prepared(Arc<Inner>);

struct Inner {
    inputs: Arc<Inputs>,
    columns: Vec<(String, Fitted)>,
    dtype: DType,
    records: u64,
    quantile_error: f64,
    windows: Option<Windows>,
    /// For each column, its first feature and the position of its code.
    places: Vec<(usize, usize)>,
    /// For each column of names, the code of each name.
    indices: Vec<HashMap<String, u32>>,
    feature_names: Vec<String>,
    code_counts: Vec<(String, u64)>,
    schema: Schema,
    /// The layout of one row of these tensors.
    layout: Layout,
    by_name: HashMap<String, usize>,
    json: OneJson,
}

impl fmt::Debug for Prepared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("Prepared");
        shown.field("columns", &self.0.columns).field("dtype", &self.0.dtype).field("records", &self.0.records);
        shown.finish_non_exhaustive()
    }
}

impl PartialEq for Prepared {
    fn eq(&self, other: &Self) -> bool {
        self.is(other)
            || self.0.columns == other.0.columns
                && self.steps() == other.steps()
                && self.0.dtype == other.0.dtype
                && self.0.records == other.0.records
                && self.0.quantile_error == other.0.quantile_error
                && self.0.windows == other.0.windows
    }
}

impl Prepared {
    /// # Errors
    ///
    /// [`ErrorKind::Config`] if there would be no result, or one that is too large for memory.
    pub(super) fn new(
        steps: Steps,
        columns: Vec<(String, Fitted)>,
        dtype: DType,
        records: u64,
        quantile_error: f64,
        windows: Option<Windows>,
    ) -> Result<Self> {
        let inputs = Arc::new(Inputs::new(steps, columns.iter().map(|(name, _)| name.as_str()))?);
        let (mut places, mut feature_names, mut code_counts, mut names) =
            (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        for (name, column) in &columns {
            places.push((feature_names.len(), code_counts.len()));
            feature_names.extend(column.features().into_iter().map(|feature| format!("{name}{feature}")));
            if let Some((count, listed)) = column.codes() {
                code_counts.push((name.clone(), count));
                names.push(listed);
            }
        }
        let mut tensors = Vec::new();
        if !feature_names.is_empty() {
            tensors.push(TensorSpec::new(FEATURES, Role::Feature, dtype, &[feature_names.len()]));
        }
        if !code_counts.is_empty() {
            let mut codes = TensorSpec::new(CODES, Role::Feature, DType::I64, &[code_counts.len()]);
            codes.categories = Some(names.into());
            tensors.push(codes);
        }
        if tensors.is_empty() {
            return Err(Error::new(ErrorKind::Config, "the recipe produces no feature and no code"));
        }
        let schema = Schema::new(tensors)?;
        let mut layout = Layout::default();
        layout.compute(&schema, 1, Extents::default())?;
        let index = |(_, column): &(String, Fitted)| match column {
            Fitted::Category(category) => category.index(),
            _ => HashMap::new(),
        };
        let indices = columns.iter().map(index).collect();
        let by_name = inputs.fields().iter().cloned().zip(0..).collect();
        let json = OneJson::new(inputs.fields().iter().map(String::as_str));
        Ok(Self(Arc::new(Inner {
            inputs,
            columns,
            dtype,
            records,
            quantile_error,
            windows,
            places,
            indices,
            feature_names,
            code_counts,
            schema,
            layout,
            by_name,
            json,
        })))
    }

    /// The name of each of the `features`, such as `age`, `age_missing`, `city=Oslo`, `joined_month_sin`.
    pub fn feature_names(&self) -> &[String] {
        &self.0.feature_names
    }

    /// The column of each of the `categories`, and its number of codes, which is the size of an embedding.
    pub fn code_counts(&self) -> &[(String, u64)] {
        &self.0.code_counts
    }

    /// The tensors that are made of a record.
    pub fn tensors(&self) -> &[TensorSpec] {
        self.0.schema.tensors()
    }

    /// The recipe's columns, in order.
    pub fn column_names(&self) -> impl ExactSizeIterator<Item = &str> {
        self.0.columns.iter().map(|(name, _)| name.as_str())
    }

    /// The fields of a record that the recipe needs: its columns, except joined and derived ones, and the fields that
    /// those and the [filter](super::Recipe::filter) use.
    pub fn field_names(&self) -> impl ExactSizeIterator<Item = &str> {
        self.0.inputs.fields().iter().map(String::as_str)
    }

    /// Number of records that it was fitted to.
    pub fn records(&self) -> u64 {
        self.0.records
    }

    /// The largest relative error of the numbers that quantiles and medians are computed from; 0 if all are exact.
    pub fn quantile_error(&self) -> f64 {
        self.0.quantile_error
    }

    /// The [windows](super::Recipe::windows) that are the samples, if samples are not single records.
    pub fn windows(&self) -> Option<&Windows> {
        self.0.windows.as_ref()
    }

    /// Whether it is the same object.
    pub(super) fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    pub(super) fn dtype(&self) -> DType {
        self.0.dtype
    }

    pub(super) fn columns(&self) -> &[(String, Fitted)] {
        &self.0.columns
    }

    pub(super) fn inputs(&self) -> &Arc<Inputs> {
        &self.0.inputs
    }

    pub(super) fn steps(&self) -> &Steps {
        self.0.inputs.steps()
    }

    pub(super) fn layout(&self) -> &Layout {
        &self.0.layout
    }

    pub(super) fn index_of(&self, tensor: &str) -> Result<usize> {
        self.0.schema.index_of(tensor)
    }

    /// The position of a field.
    pub(super) fn field_number(&self, name: &str) -> Option<usize> {
        self.0.by_name.get(name).copied()
    }

    /// Its fields in a JSON object.
    pub(super) fn json(&self) -> &OneJson {
        &self.0.json
    }

    /// Writes the result for a record whose fields are kept in `values`.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Data`] with the column, and for a record that the filter leaves out.
    pub(super) fn write_record(&self, values: &mut Staged, row: &mut RowMut<'_>) -> Result<()> {
        let inputs = &self.0.inputs;
        if !inputs.work_out(values)? {
            return Err(inputs.left_out());
        }
        (0..self.0.columns.len()).try_for_each(|nth| self.write(nth, &inputs.column(nth, values), row))
    }

    /// Writes the result for the value of column `nth` into `row`, which has only these tensors.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Data`] with the column.
    #[inline]
    pub(super) fn write(&self, nth: usize, value: &Value<'_>, row: &mut RowMut<'_>) -> Result<()> {
        let inner = &*self.0;
        let ((name, column), (feature, code)) = (&inner.columns[nth], inner.places[nth]);
        let codes = usize::from(!inner.feature_names.is_empty());
        let mut target = Target::new(row, feature, (codes, code));
        column.write(value, &inner.indices[nth], &mut target).map_err(|error| error.at_column(name))
    }
}
