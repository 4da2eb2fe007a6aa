//! From the fields of a record to the inputs of a recipe's columns: joins, derived columns and the filter.

use crate::error::{Error, ErrorKind, Result, nearest};
use crate::filter::{Filter, Known, Subject};
use crate::read::{Staged, Value};
use crate::tree::under;

use super::derive::{Derive, Operand, write_name};
use super::exact_number::Exact;
use super::given;
use super::join::{Join, Lookup, Table};

/// The steps before the columns of a recipe, in this order.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Steps {
    pub(super) join: Vec<(String, Join)>,
    pub(super) derive: Vec<(String, Derive)>,
    pub(super) filter: Option<String>,
}

/// The origin of a value.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Slot {
    /// A field of the record.
    Field(usize),
    /// A column of a joined table.
    Cell(usize, usize),
    Derived(usize),
}

/// The inputs of a derivation.
#[derive(Clone, Copy, Debug)]
enum Source {
    Slot(Slot),
    Number(Exact),
}

/// The steps before the columns, with the positions of all values.
///
/// A record's values are kept in this order: its fields, the row of each joined table, the derived columns, and the
/// values that the filter compares.
#[derive(Debug)]
pub(super) struct Inputs {
    steps: Steps,
    fields: Vec<String>,
    /// Each lookup with the position of its key.
    lookups: Vec<(Slot, Lookup)>,
    derived: Vec<(Derive, Vec<Source>)>,
    filter: Option<(Filter, Vec<Slot>)>,
    columns: Vec<Slot>,
}

impl Steps {
    pub(super) fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// All faults of the steps that can be found without data.
    pub(super) fn faults(&self) -> Vec<String> {
        let mut faults = Vec::new();
        let mut names = std::collections::HashSet::new();
        for (name, join) in &self.join {
            if !names.insert(name) {
                faults.push(format!("join.{name}: it is listed twice"));
            }
            if self.derive.iter().any(|(derived, _)| *derived == join.on) {
                faults.push(format!(
                    "join.{name}.on: {} is derived, but tables are joined before columns are derived",
                    join.on
                ));
            }
        }
        for (nth, (name, derive)) in self.derive.iter().enumerate() {
            if self.derive[..nth].iter().any(|(other, _)| other == name) {
                faults.push(format!("derive.{name}: it is listed twice"));
            }
            for operand in derive.operands() {
                let Operand::Column(column) = operand else { continue };
                let is_it = |(other, _): &(String, Derive)| other == column;
                // A column that is derived from the field of its own name replaces this field from there on.
                let is_new =
                    |derived: &&(String, Derive)| is_it(derived) && !derived.1.operands().iter().any(is_own(column));
                if !self.derive[..nth].iter().any(is_it) && self.derive[nth + 1..].iter().any(|other| is_new(&other)) {
                    faults.push(format!("derive.{name}: {column} is derived after it; change their order"));
                }
            }
            faults.extend(under(format_args!("derive.{name}"), derive.faults()));
        }
        if let Some(Err(error)) = self.filter() {
            faults.push(format!("filter: {}", error.message()));
        }
        faults
    }

    fn filter(&self) -> Option<Result<Filter>> {
        let parsed = |text: &String| {
            let filter = Filter::parse(text)?;
            match filter.subjects.iter().find(|subject| subject.is_length) {
                None => Ok(filter),
                Some(Subject { field, .. }) => {
                    let message = format!(
                        "len({field}) is for the filter of a loader; the columns of a recipe are single values"
                    );
                    Err(Error::new(ErrorKind::Config, message))
                }
            }
        };
        self.filter.as_ref().map(parsed)
    }

    /// The same with the tables in memory that `columns` and the steps use.
    ///
    /// # Errors
    ///
    /// Those of [`Join::loaded`], and of an invalid filter.
    pub(super) fn loaded<'a>(&'a self, columns: impl Iterator<Item = &'a str>) -> Result<Self> {
        let filter = self.filter().transpose()?;
        let operands =
            self.derive.iter().flat_map(|(_, derive)| derive.operands()).filter_map(|operand| match operand {
                Operand::Column(name) => Some(name.as_str()),
                Operand::Number(_) => None,
            });
        let compared = filter.iter().flat_map(|filter| &filter.subjects).map(|subject| subject.field.as_str());
        let mut names: Vec<&str> = columns.collect();
        names.extend(operands);
        names.extend(compared);
        let mut join = Vec::with_capacity(self.join.len());
        for (name, own) in &self.join {
            let mut used: Vec<&str> = Vec::new();
            for column in names.iter().filter_map(|column| column_of(column, name)) {
                if !used.contains(&column) {
                    used.push(column);
                }
            }
            join.push((name.clone(), own.loaded(&used).map_err(|error| error.at_column(name))?));
        }
        Ok(Self { join, ..self.clone() })
    }
}

/// Whether an operand is this column.
fn is_own(column: &str) -> impl Fn(&Operand) -> bool {
    move |operand| matches!(operand, Operand::Column(own) if own == column)
}

/// The column of the joined table `join` that `name` stands for.
fn column_of<'a>(name: &'a str, join: &str) -> Option<&'a str> {
    name.strip_prefix(join)?.strip_prefix('.')
}

impl Inputs {
    /// # Errors
    ///
    /// [`ErrorKind::NotFound`] for a column that a joined table does not have; faults of the steps.
    pub(super) fn new<'a>(steps: Steps, columns: impl Iterator<Item = &'a str>) -> Result<Self> {
        let filter = steps.filter().transpose()?;
        let mut inputs = Self {
            steps,
            fields: Vec::new(),
            lookups: Vec::new(),
            derived: Vec::new(),
            filter: None,
            columns: Vec::new(),
        };
        let all = inputs.steps.derive.len();
        // Fields that are columns come first. Without any steps, they are the columns.
        inputs.columns = columns.map(|name| inputs.slot(name, all)).collect::<Result<_>>()?;
        for nth in 0..inputs.steps.join.len() {
            let (name, join) = inputs.steps.join[nth].clone();
            if let Table::Inline(cells) = &join.table {
                cells.check().map_err(|error| error.at_column(&name))?;
            }
            let key = inputs.field(&join.on);
            inputs.lookups.push((key, Lookup::new(&name, &join)));
        }
        for nth in 0..all {
            let (_, derive) = inputs.steps.derive[nth].clone();
            let sources = derive.operands().iter().map(|operand| match operand {
                Operand::Column(name) => inputs.slot(name, nth).map(Source::Slot),
                Operand::Number(number) => Ok(Source::Number(Exact::of(*number))),
            });
            let sources = sources.collect::<Result<_>>()?;
            inputs.derived.push((derive, sources));
        }
        if let Some(filter) = filter {
            // Values are compared as names.
            let filter = filter.with_texts(given::named);
            let slots = filter.subjects.iter().map(|subject| inputs.slot(&subject.field, all));
            let slots = slots.collect::<Result<_>>()?;
            inputs.filter = Some((filter, slots));
        }
        Ok(inputs)
    }

    /// The position of the column that `name` stands for after the first `derived` derived columns.
    fn slot(&mut self, name: &str, derived: usize) -> Result<Slot> {
        if let Some(nth) = self.steps.derive[..derived].iter().rposition(|(own, _)| own == name) {
            return Ok(Slot::Derived(nth));
        }
        for (nth, (join, own)) in self.steps.join.iter().enumerate() {
            let (Some(column), Table::Inline(cells)) = (column_of(name, join), &own.table) else { continue };
            return match cells.columns.iter().position(|own| own == column) {
                Some(at) => Ok(Slot::Cell(nth, at)),
                None => {
                    let near = nearest(column, cells.columns.iter().map(String::as_str));
                    let advice = near.map(|near| format!("; did you mean {near:?}?")).unwrap_or_default();
                    let message = format!("the joined table {join} has no column {column:?}{advice}");
                    Err(Error::new(ErrorKind::NotFound, message))
                }
            };
        }
        Ok(self.field(name))
    }

    fn field(&mut self, name: &str) -> Slot {
        Slot::Field(self.fields.iter().position(|own| own == name).unwrap_or_else(|| {
            self.fields.push(name.to_owned());
            self.fields.len() - 1
        }))
    }

    pub(super) fn steps(&self) -> &Steps {
        &self.steps
    }

    /// The fields of a record that it uses, in the order of their values.
    pub(super) fn fields(&self) -> &[String] {
        &self.fields
    }

    /// Whether each column is the field of the same name, and no record is left out.
    pub(super) fn is_plain(&self) -> bool {
        self.steps.is_empty()
    }

    pub(super) fn has_filter(&self) -> bool {
        self.filter.is_some()
    }

    /// The value of column `nth`, after it was [computed](Self::work_out).
    pub(super) fn column<'a>(&'a self, nth: usize, values: &'a Staged) -> Value<'a> {
        self.get(self.columns[nth], values)
    }

    fn get<'a>(&'a self, slot: Slot, values: &'a Staged) -> Value<'a> {
        match slot {
            Slot::Field(nth) => values.get(nth),
            Slot::Cell(table, column) => match values.get(self.fields.len() + table) {
                Value::U64(row) => self.lookups[table].1.cell(row as usize, column),
                _ => Value::Missing,
            },
            Slot::Derived(nth) => values.get(self.fields.len() + self.lookups.len() + nth),
        }
    }

    /// Computes the joined and derived columns, and keeps them after the record's own values. `false` if the filter
    /// leaves the record out; then not everything is computed.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Data`] with the column.
    pub(super) fn work_out(&self, values: &mut Staged) -> Result<bool> {
        // A record that is left out by its own fields need not be in any table.
        let is_first = |(_, slots): &(Filter, Vec<Slot>)| slots.iter().all(|slot| matches!(slot, Slot::Field(_)));
        let (first, last) = match &self.filter {
            Some(filter) if is_first(filter) => (Some(filter), None),
            filter => (None, filter.as_ref()),
        };
        if let Some(filter) = first
            && !self.keeps(filter, values)?
        {
            return Ok(false);
        }
        for (nth, (key, lookup)) in self.lookups.iter().enumerate() {
            let row = given::name(&self.get(*key, values), |name| lookup.row(name));
            let row = row.map_err(|error| error.at_column(&self.steps.join[nth].1.on))?;
            values.keep(self.fields.len() + nth, &row.map_or(Value::Missing, |row| Value::U64(row as u64)));
        }
        for (nth, (derive, sources)) in self.derived.iter().enumerate() {
            let at = self.fields.len() + self.lookups.len() + nth;
            self.derive(derive, sources, at, values).map_err(|error| error.at_column(&self.steps.derive[nth].0))?;
        }
        last.map_or(Ok(true), |filter| self.keeps(filter, values))
    }

    /// The error for a record that the filter leaves out.
    #[cold]
    pub(super) fn left_out(&self) -> Error {
        let filter = self.steps.filter.as_deref().unwrap_or_default();
        Error::new(ErrorKind::Data, format!("the recipe's filter leaves this record out: {filter}"))
    }

    fn derive(&self, derive: &Derive, sources: &[Source], at: usize, values: &mut Staged) -> Result<()> {
        match derive {
            Derive::Same(_) | Derive::Pair(_) => self.derive_of_names(derive, sources, at, values),
            _ => {
                let mut is_missing = false;
                let mut failed = None;
                // Also those after a missing number, because a wrong one makes the record bad.
                let numbers = sources.iter().filter_map(|source| {
                    let number = match source {
                        Source::Number(number) => Ok(Some(*number)),
                        Source::Slot(slot) if matches!(derive, Derive::Days(_)) => {
                            given::seconds(&self.get(*slot, values), None, None).map(|given| given.map(Exact::Float))
                        }
                        Source::Slot(slot) => given::exact_number(&self.get(*slot, values)),
                    };
                    match number {
                        Ok(number) => {
                            is_missing |= number.is_none();
                            number
                        }
                        Err(error) => {
                            failed.get_or_insert(error);
                            None
                        }
                    }
                });
                let number = derive.of_numbers(numbers);
                if let Some(error) = failed {
                    return Err(error);
                }
                match number.filter(|_| !is_missing) {
                    Some(Exact::Float(number)) if !number.is_finite() => {
                        let message = format!("becomes {number}, which is beyond the range of numbers");
                        Err(Error::new(ErrorKind::Data, message))
                    }
                    number => {
                        values.keep(at, &number.map_or(Value::Missing, Exact::value));
                        Ok(())
                    }
                }
            }
        }
    }

    fn derive_of_names(&self, derive: &Derive, sources: &[Source], at: usize, values: &mut Staged) -> Result<()> {
        let mut text = values.take_spare();
        let (mut is_missing, mut ends) = (false, 0);
        for (nth, source) in sources.iter().enumerate() {
            let Source::Slot(slot) = source else { continue };
            let read = given::name(&self.get(*slot, values), |name| {
                if nth > 0 {
                    text.push('|');
                }
                if nth == 1 {
                    ends = text.len();
                }
                match name {
                    Some(name) => write_name(&mut text, given::without_case_of_flags(name)),
                    None => is_missing = true,
                }
                Ok(())
            });
            if let Err(error) = read {
                values.keep_spare(text);
                return Err(error);
            }
        }
        match derive {
            _ if is_missing => values.keep(at, &Value::Missing),
            Derive::Same(_) => values.keep(at, &Value::F64(f64::from(u8::from(text[..ends - 1] == text[ends..])))),
            _ => values.keep(at, &Value::Text(&text)),
        }
        values.keep_spare(text);
        Ok(())
    }

    /// Whether the filter keeps a record.
    fn keeps(&self, (filter, slots): &(Filter, Vec<Slot>), values: &mut Staged) -> Result<bool> {
        let first = self.fields.len() + self.lookups.len() + self.derived.len();
        let mut text = values.take_spare();
        for (nth, (slot, Subject { field, is_text, .. })) in slots.iter().zip(&filter.subjects).enumerate() {
            let value = self.get(*slot, values);
            text.clear();
            let known = match is_text {
                Some(true) => given::name(&value, |name| {
                    Ok(name.map(|name| {
                        text.push_str(name);
                        Value::Text("")
                    }))
                }),
                Some(false) => given::exact_number(&value).map(|number| number.map(Exact::value)),
                // Any value is allowed there.
                None => Ok((!given::is_missing(&value)).then_some(Value::Bool(true))),
            };
            match known {
                Ok(Some(Value::Text(_))) => values.keep(first + nth, &Value::Text(&text)),
                Ok(known) => values.keep(first + nth, &known.unwrap_or(Value::Missing)),
                Err(error) => {
                    values.keep_spare(text);
                    return Err(error.at_column(field));
                }
            }
        }
        values.keep_spare(text);
        let values = &*values;
        Ok(filter.keeps(&|field| match values.get(first + field) {
            Value::I64(number) => Known::Integer(number.into()),
            Value::U64(number) => Known::Integer(number.into()),
            Value::F64(number) => Known::Number(number),
            Value::Bool(flag) => Known::Integer(flag.into()),
            Value::Text(text) => Known::Text(text),
            _ => Known::Missing,
        }))
    }
}
