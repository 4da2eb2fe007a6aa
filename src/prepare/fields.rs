//! Recipes as fields of a source: they write tensors, and pass on values to be counted.

use std::collections::HashMap;
use std::sync::Arc;

use crate::dtype::DType;
use crate::error::{Error, ErrorKind, Result};
use crate::read::fields::Field;
use crate::read::{Outside, OutsideCodec, Staged, Value};
use crate::row::RowMut;
use crate::schema::{Role, TensorSpec};
use crate::sync::Mutex;

use super::column_fit::Given;
use super::fit::{MOST_NAMES, RecipeFit};
use super::inputs::Inputs;
use super::prepared::Prepared;
use super::recipe::{Column, Recipe};

impl Outside for Prepared {
    fn tensors(&self) -> &[TensorSpec] {
        Self::tensors(self)
    }

    fn write(&self, nth: usize, value: Value<'_>, row: &mut RowMut<'_>) -> Result<()> {
        Self::write(self, nth, &value, row)
    }

    fn wants_all(&self) -> bool {
        !self.inputs().is_plain()
    }

    fn write_all(&self, values: &mut Staged, row: &mut RowMut<'_>) -> Result<()> {
        self.write_record(values, row)
    }

    fn choice(&self) -> Option<OutsideCodec> {
        Choosing::of(self.inputs())
    }
}

/// Decides which records the filter of a recipe keeps.
struct Choosing {
    inputs: Arc<Inputs>,
    tensors: [TensorSpec; 1],
}

impl Choosing {
    fn of(inputs: &Arc<Inputs>) -> Option<OutsideCodec> {
        let tensors = [TensorSpec::new("taken", Role::Feature, DType::F64, &[])];
        inputs.has_filter().then(|| OutsideCodec::new(Self { inputs: inputs.clone(), tensors }))
    }
}

impl Outside for Choosing {
    fn tensors(&self) -> &[TensorSpec] {
        &self.tensors
    }

    fn write(&self, _: usize, _: Value<'_>, _: &mut RowMut<'_>) -> Result<()> {
        Ok(())
    }

    fn wants_all(&self) -> bool {
        true
    }

    fn write_all(&self, values: &mut Staged, row: &mut RowMut<'_>) -> Result<()> {
        let is_taken = self.inputs.work_out(values)?;
        row.tensor(0).as_mut_slice::<f64>()?[0] = f64::from(u8::from(is_taken));
        Ok(())
    }
}

impl Prepared {
    /// The field that gives its tensors, from any source that has its columns.
    pub(crate) fn field(&self) -> Field {
        Field::outside(OutsideCodec::new(self.clone()), self.field_names().map(Into::into))
    }
}

/// The values that a recipe is fitted to, as tensors, so that they take the same path as all batches, also if records
/// are bad.
#[derive(Clone)]
pub(crate) struct Counting(Arc<Inner>);

struct Inner {
    recipe: Recipe,
    inputs: Arc<Inputs>,
    tensors: Vec<TensorSpec>,
    /// For each column, its position among the numbers or the names.
    places: Vec<usize>,
    /// For each column of names, the names so far, with their numbers.
    names: Vec<Mutex<HashMap<String, i64>>>,
}

/// The number of a missing name.
const NO_NAME: i64 = -1;

fn is_named(column: &Column) -> bool {
    matches!(column, Column::Category(_) | Column::Hash(_))
}

impl Counting {
    /// The tensor of numbers, and the tensor of the names' numbers.
    pub(crate) const NUMBERS: &str = "numbers";
    pub(crate) const NAMES: &str = "names";

    pub(crate) fn new(fit: &RecipeFit) -> Self {
        let recipe = fit.recipe().clone();
        let (mut places, mut numbers, mut names) = (Vec::new(), 0, Vec::new());
        for (_, column) in &recipe.columns {
            if is_named(column) {
                places.push(names.len());
                names.push(Mutex::new(HashMap::new()));
            } else {
                places.push(numbers);
                numbers += 1;
            }
        }
        let tensors = vec![
            TensorSpec::new(Self::NUMBERS, Role::Feature, DType::F64, &[numbers]),
            TensorSpec::new(Self::NAMES, Role::Feature, DType::I64, &[names.len()]),
        ];
        Self(Arc::new(Inner { recipe, inputs: fit.inputs().clone(), tensors, places, names }))
    }

    /// The field that gives these tensors, from any source that has the recipe's fields.
    pub(crate) fn field(&self) -> Field {
        let fields = self.0.inputs.fields().iter().map(|name| name.as_str().into());
        Field::outside(OutsideCodec::new(self.clone()), fields)
    }

    /// Counts the numbers of records, one record after another.
    ///
    /// # Errors
    ///
    /// Those of counting.
    pub(crate) fn count_numbers(&self, fit: &mut RecipeFit, records: usize, numbers: &[f64]) -> Result<()> {
        fit.count_records(records as u64);
        let columns = self.0.recipe.columns.iter().enumerate().filter(|(_, (_, column))| !is_named(column));
        let columns: Vec<usize> = columns.map(|(nth, _)| nth).collect();
        for record in numbers.chunks(columns.len().max(1)) {
            for (nth, number) in columns.iter().zip(record) {
                match number.is_nan() {
                    true => fit.count_missing(*nth, 1),
                    false => fit.count_number(*nth, *number)?,
                }
            }
        }
        Ok(())
    }

    /// Counts the names of records, one record after another, from their numbers in `names`. `tally` keeps how often
    /// each occurred, until [`finish`](Self::finish).
    pub(crate) fn count_names(&self, tally: &mut Tally, names: &[i64]) {
        tally.0.resize_with(self.0.names.len(), Vec::new);
        for record in names.chunks(self.0.names.len().max(1)) {
            for (counts, name) in tally.0.iter_mut().zip(record) {
                // The first place is for missing names.
                let place = (name - NO_NAME) as usize;
                if counts.len() <= place {
                    counts.resize(place + 1, 0);
                }
                counts[place] += 1;
            }
        }
    }

    /// Counts the names of all records.
    ///
    /// # Errors
    ///
    /// Those of counting.
    pub(crate) fn finish(&self, fit: &mut RecipeFit, tally: &Tally) -> Result<()> {
        for (nth, (_, column)) in self.0.recipe.columns.iter().enumerate().filter(|(_, (_, column))| is_named(column)) {
            let place = self.0.places[nth];
            let Some(counts) = tally.0.get(place).filter(|_| matches!(column, Column::Category(_))) else { continue };
            fit.count_missing(nth, counts.first().copied().unwrap_or(0));
            for (name, number) in self.0.names[place].lock().iter() {
                match counts.get((number - NO_NAME) as usize) {
                    Some(times) if *times > 0 => fit.count_name(nth, name, *times)?,
                    // It occurred only in bad records.
                    _ => {}
                }
            }
        }
        Ok(())
    }
}

/// How often each name occurred, by its number.
#[derive(Default)]
pub(crate) struct Tally(Vec<Vec<u64>>);

impl Outside for Counting {
    fn tensors(&self) -> &[TensorSpec] {
        &self.0.tensors
    }

    fn write(&self, nth: usize, value: Value<'_>, row: &mut RowMut<'_>) -> Result<()> {
        let ((name, column), place) = (&self.0.recipe.columns[nth], self.0.places[nth]);
        let written = column.given(&value, |given| {
            match given {
                Given::Number(number) => row.tensor(0).as_mut_slice::<f64>()?[place] = number,
                Given::Missing if !is_named(column) => row.tensor(0).as_mut_slice::<f64>()?[place] = f64::NAN,
                Given::Missing => row.tensor(1).as_mut_slice::<i64>()?[place] = NO_NAME,
                // Hashed names need no counting.
                Given::Name(_) if matches!(column, Column::Hash(_)) => row.tensor(1).as_mut_slice::<i64>()?[place] = 0,
                Given::Name(name) => row.tensor(1).as_mut_slice::<i64>()?[place] = self.0.number_of(place, name)?,
            }
            Ok(())
        });
        written.map_err(|error| error.at_column(name))
    }

    fn wants_all(&self) -> bool {
        !self.0.inputs.is_plain()
    }

    fn write_all(&self, values: &mut Staged, row: &mut RowMut<'_>) -> Result<()> {
        let inputs = &self.0.inputs;
        if !inputs.work_out(values)? {
            return Err(inputs.left_out());
        }
        (0..self.0.recipe.columns.len()).try_for_each(|nth| self.write(nth, inputs.column(nth, values), row))
    }

    fn choice(&self) -> Option<OutsideCodec> {
        Choosing::of(&self.0.inputs)
    }
}

impl Inner {
    fn number_of(&self, place: usize, name: &str) -> Result<i64> {
        let mut names = self.names[place].lock();
        if let Some(number) = names.get(name) {
            return Ok(*number);
        }
        if names.len() == MOST_NAMES {
            let message = format!("more than {MOST_NAMES} different names; make it a column by hash");
            return Err(Error::new(ErrorKind::Limit, message));
        }
        let number = names.len() as i64;
        names.insert(name.to_owned(), number);
        Ok(number)
    }
}
