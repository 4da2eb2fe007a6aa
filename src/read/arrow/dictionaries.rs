//! The dictionaries of a file, as each of its batches needs them.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use arrow_array::{ArrayRef, make_array};
use arrow_data::ArrayData;
use arrow_data::transform::MutableArrayData;
use arrow_schema::{ArrowError, DataType, Schema};

use crate::error::Result;
use crate::memory::Reservation;
use crate::read::columns::memory_of;

use super::lengths::broken;

pub(super) type Dictionaries = HashMap<i64, ArrayRef>;

const WHAT: &str = "the dictionaries of an Arrow file";

/// One dictionary, from the time it was written until another one replaced it. Appending changes none of its earlier
/// values, so all batches in between share it, and it is assembled once.
struct Version {
    parts: Vec<ArrayRef>,
    bytes: u64,
    is_used: bool,
}

/// Dictionaries while the messages of a file are being read.
pub(super) struct Growing {
    versions: Vec<Option<Version>>,
    /// For each dictionary, its version.
    current: BTreeMap<i64, usize>,
    /// The versions, recorded before each batch of records for which they had changed.
    states: Vec<BTreeMap<i64, usize>>,
    is_changed: bool,
    /// Whether values of dictionaries are themselves dictionaries, which must be complete when they are read.
    are_nested: bool,
}

#[cold]
fn damaged(error: impl std::fmt::Display) -> crate::error::Error {
    broken(format!("a dictionary is damaged: {error}"))
}

impl Growing {
    pub(super) fn new(schema: &Schema) -> Self {
        Self {
            versions: Vec::new(),
            current: BTreeMap::new(),
            states: Vec::new(),
            is_changed: true,
            are_nested: schema.fields().iter().any(|field| is_nested(field.data_type(), false)),
        }
    }

    /// The number of the state for the next batch of records.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Budget`](crate::ErrorKind::Budget) if there is no memory for one more state.
    pub(super) fn of_batch(&mut self, reservation: &mut Reservation) -> Result<usize> {
        if self.is_changed {
            // A map of versions now, and one of arrays at the end.
            let bytes = self.current.len() * 2 * size_of::<(i64, ArrayRef)>();
            reservation.grow_to(reservation.bytes() + bytes as u64, WHAT)?;
            self.states.push(self.current.clone());
            let used = self.current.values();
            used.for_each(|version| self.versions[*version].iter_mut().for_each(|version| version.is_used = true));
            self.is_changed = false;
        }
        Ok(self.states.len() - 1)
    }

    /// Adds to dictionary `id` what `read` reads with the given map.
    pub(super) fn add(
        &mut self,
        (id, is_delta): (i64, bool),
        reservation: &mut Reservation,
        read: impl FnOnce(&mut Dictionaries) -> std::result::Result<(), ArrowError>,
    ) -> Result<()> {
        let mut given = match self.are_nested {
            true => self.current.keys().filter_map(|id| Some((*id, self.first(*id)?.clone()))).collect(),
            // It is appended to nothing here.
            false => self.first(id).filter(|_| is_delta).map(|first| (id, first.slice(0, 0))).into_iter().collect(),
        };
        read(&mut given).map_err(damaged)?;
        let array = given.remove(&id).ok_or_else(|| damaged("it has no values"))?;
        let bytes = memory_of([&array]);
        reservation.grow_to(reservation.bytes() + bytes, WHAT)?;
        let current = self.current.get(&id).copied();
        if is_delta
            && !self.are_nested
            && let Some(version) = current.and_then(|current| self.versions[current].as_mut())
        {
            version.parts.push(array);
            version.bytes += bytes;
            return Ok(());
        }
        let unused = current.and_then(|current| self.versions[current].take_if(|version| !version.is_used));
        if let Some(unused) = unused {
            reservation.shrink_to(reservation.bytes().saturating_sub(unused.bytes));
        }
        self.current.insert(id, self.versions.len());
        self.versions.push(Some(Version { parts: vec![array], bytes, is_used: false }));
        self.is_changed = true;
        Ok(())
    }

    fn first(&self, id: i64) -> Option<&ArrayRef> {
        self.versions[*self.current.get(&id)?].as_ref()?.parts.first()
    }

    /// All states, by their numbers.
    pub(super) fn finish(self, reservation: &mut Reservation) -> Result<Vec<Arc<Dictionaries>>> {
        let mut whole: Vec<Option<ArrayRef>> = Vec::with_capacity(self.versions.len());
        for version in self.versions {
            let Some(Version { mut parts, bytes, .. }) = version else {
                whole.push(None);
                continue;
            };
            if parts.len() > 1 {
                let before = reservation.bytes();
                reservation.grow_to(before + bytes, WHAT)?;
                parts = vec![appended(&parts).map_err(damaged)?];
                let after = before.saturating_sub(bytes) + memory_of(&parts);
                reservation.grow_to(after, WHAT)?;
                reservation.shrink_to(after);
            }
            whole.push(parts.pop());
        }
        let of = |state: BTreeMap<i64, usize>| {
            let arrays = state.into_iter().filter_map(|(id, version)| Some((id, whole[version].clone()?)));
            Arc::new(arrays.collect())
        };
        Ok(self.states.into_iter().map(of).collect())
    }
}

fn appended(parts: &[ArrayRef]) -> std::result::Result<ArrayRef, ArrowError> {
    let parts: Vec<ArrayData> = parts.iter().map(|part| part.to_data()).collect();
    let len = parts.iter().map(ArrayData::len).sum();
    let mut all = MutableArrayData::new(parts.iter().collect(), false, len);
    parts.iter().enumerate().try_for_each(|(nth, part)| all.try_extend(nth, 0, part.len()))?;
    Ok(make_array(all.freeze()))
}

/// Whether there is a dictionary in a dictionary.
fn is_nested(kind: &DataType, is_inside: bool) -> bool {
    match kind {
        DataType::Dictionary(_, values) => is_inside || is_nested(values, true),
        DataType::List(field)
        | DataType::LargeList(field)
        | DataType::ListView(field)
        | DataType::LargeListView(field)
        | DataType::FixedSizeList(field, _)
        | DataType::Map(field, _) => is_nested(field.data_type(), is_inside),
        DataType::RunEndEncoded(_, values) => is_nested(values.data_type(), is_inside),
        DataType::Struct(fields) => fields.iter().any(|field| is_nested(field.data_type(), is_inside)),
        DataType::Union(fields, _) => fields.iter().any(|(_, field)| is_nested(field.data_type(), is_inside)),
        _ => false,
    }
}
