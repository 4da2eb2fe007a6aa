//! Small tables whose columns are joined to records by a key.

use std::collections::HashMap;
use std::fmt;
use std::path::PathBuf;

use serde::de::value::MapAccessDeserializer;
use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};

use crate::error::{Error, ErrorKind, Result, missing_path, nearest};
use crate::read::{Value, csv_cells};

use super::given;

/// A small table whose columns are added to every record, by a key: the data of a CSV file about a city, a product, a
/// day. See [`join`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Join {
    pub(super) table: Table,
    pub(super) on: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    key: Option<String>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    unknown: bool,
}

/// A file, or the part of it that is used.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(untagged)]
pub(super) enum Table {
    File(PathBuf),
    Inline(Cells),
}

/// Some columns of a table, without the column of keys.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Cells {
    pub(super) columns: Vec<String>,
    /// A key, and the values of the columns in its row.
    rows: Vec<(String, Vec<Option<String>>)>,
}

/// Joins the CSV file at `table` to records: its columns are called by the join's name and their own, as in
/// `cities.population`. The column `on` of a record holds the key, which is looked up in the table's column of the same
/// name, or in another [`key`](Join::key) column. The part of the table that a recipe uses is saved in the fitted
/// recipe. The table is on this machine, like settings, also if the records are in a
/// [storage](crate::Loader::files).
///
/// Keys are compared like the names of a [`category`](super::category). A record whose key is missing or unknown is
/// bad, unless [`unknown`](Join::unknown) says otherwise. Tables are joined before columns are derived.
pub fn join(table: impl Into<PathBuf>, on: impl Into<String>) -> Join {
    Join { table: Table::File(table.into()), on: on.into(), key: None, unknown: false }
}

impl Join {
    /// The table's column with the keys, if its name differs from that of the record.
    #[must_use]
    pub fn key(mut self, column: impl Into<String>) -> Self {
        self.key = Some(column.into());
        self
    }

    /// Gives missing values to a record whose key is missing, or not in the table.
    #[must_use]
    pub fn unknown(mut self) -> Self {
        self.unknown = true;
        self
    }

    pub(super) fn path_mut(&mut self) -> Option<&mut PathBuf> {
        match &mut self.table {
            Table::File(path) => Some(path),
            Table::Inline(_) => None,
        }
    }

    pub(super) fn is_file(&self) -> bool {
        matches!(self.table, Table::File(_))
    }

    pub(super) fn faults(&self) -> Vec<String> {
        match &self.table {
            Table::File(path) if !path.exists() => vec![format!("table: {}", missing_path(path))],
            _ => Vec::new(),
        }
    }

    /// The same with the `used` columns in memory.
    ///
    /// # Errors
    ///
    /// Those of reading the table, and [`ErrorKind::Data`] for a key that is missing or occurs twice.
    pub(super) fn loaded(&self, used: &[&str]) -> Result<Self> {
        let Table::File(path) = &self.table else { return Ok(self.clone()) };
        let key = self.key.as_deref().unwrap_or(&self.on);
        let cells = csv_cells(path, &[&[key], used].concat())?;
        let mut rows = Vec::with_capacity(cells.len());
        for (nth, mut cells) in cells.into_iter().enumerate() {
            let key_cell = cells.remove(0);
            let name = given::name(&key_cell.as_deref().map_or(Value::Missing, Value::Text), |name| {
                name.map(str::to_owned).ok_or_else(|| Error::new(ErrorKind::Data, "a record of the table has no key"))
            });
            rows.push((name.map_err(|error| error.at_path(path).at_record(nth as u64).at_column(key))?, cells));
        }
        let cells = Cells { columns: used.iter().map(|name| (*name).to_owned()).collect(), rows };
        cells.check().map_err(|error| error.at_path(path).at_column(key))?;
        Ok(Self { table: Table::Inline(cells), key: None, ..self.clone() })
    }
}

impl Cells {
    /// # Errors
    ///
    /// [`ErrorKind::Data`] for a key that occurs twice; [`ErrorKind::Format`] for rows of another length.
    pub(super) fn check(&self) -> Result<()> {
        let mut keys = std::collections::HashSet::new();
        for (nth, (key, cells)) in self.rows.iter().enumerate() {
            if !keys.insert(key.as_str()) {
                let message = format!("the key {key:?} is in two rows");
                return Err(Error::new(ErrorKind::Data, message).at_record(nth as u64));
            }
            if cells.len() != self.columns.len() {
                let message = format!("{} cells of the key {key:?} in {} columns", cells.len(), self.columns.len());
                return Err(Error::new(ErrorKind::Format, message));
            }
        }
        Ok(())
    }
}

/// A table whose keys can be looked up.
#[derive(Debug)]
pub(super) struct Lookup {
    /// The name of the join.
    name: String,
    unknown: bool,
    cells: Vec<Vec<Option<String>>>,
    rows: HashMap<String, usize>,
}

impl Lookup {
    pub(super) fn new(name: &str, join: &Join) -> Self {
        let rows = match &join.table {
            Table::Inline(cells) => cells.rows.as_slice(),
            Table::File(_) => &[],
        };
        let mut by_key: HashMap<String, usize> = rows.iter().map(|(key, _)| key.clone()).zip(0..).collect();
        for (nth, (key, _)) in rows.iter().enumerate() {
            by_key.entry(given::without_case_of_flags(key).to_owned()).or_insert(nth);
        }
        Self {
            name: name.to_owned(),
            unknown: join.unknown,
            cells: rows.iter().map(|(_, cells)| cells.clone()).collect(),
            rows: by_key,
        }
    }

    /// The row of a key; `None` if there is none and this is allowed.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Data`] for a key that is missing or unknown.
    pub(super) fn row(&self, key: Option<&str>) -> Result<Option<usize>> {
        match key {
            Some(key) => match self.rows.get(key).or_else(|| self.rows.get(given::without_case_of_flags(key))) {
                Some(row) => Ok(Some(*row)),
                None if self.unknown => Ok(None),
                None => Err(self.no_such(key)),
            },
            None if self.unknown => Ok(None),
            None => {
                let message = format!("there is no key for the table {}; set `unknown` to accept this", self.name);
                Err(Error::new(ErrorKind::Data, message))
            }
        }
    }

    pub(super) fn cell(&self, row: usize, column: usize) -> Value<'_> {
        let cell = self.cells.get(row).and_then(|cells| cells.get(column));
        cell.and_then(Option::as_deref).map_or(Value::Missing, |text| Value::Bytes(text.as_bytes()))
    }

    #[cold]
    fn no_such(&self, key: &str) -> Error {
        let mut keys: Vec<&str> = self.rows.keys().map(String::as_str).collect();
        keys.sort_unstable();
        let near = nearest(key, keys);
        let advice = near.map(|near| format!("; did you mean {near:?}?")).unwrap_or_default();
        let (count, name) = (self.cells.len(), &self.name);
        let message = format!(
            "{key:?} is none of the {count} keys of the table {name}; set `unknown` to accept \
             it{advice}"
        );
        Error::new(ErrorKind::Data, message)
    }
}

impl<'de> Deserialize<'de> for Table {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Either;

        impl<'de> Visitor<'de> for Either {
            type Value = Table;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a CSV file, or what a fitted recipe keeps of one")
            }

            fn visit_str<E>(self, path: &str) -> Result<Table, E> {
                Ok(Table::File(path.into()))
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Table, A::Error> {
                Cells::deserialize(MapAccessDeserializer::new(map)).map(Table::Inline)
            }
        }

        deserializer.deserialize_any(Either)
    }
}
