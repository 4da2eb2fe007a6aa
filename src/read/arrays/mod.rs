//! Files of several arrays whose rows are records: the common part of NPZ archives and safetensors files.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::error::{Error, ErrorKind, Location, Result};
use crate::random::hash_texts;
use crate::schema::{Extents, TensorSpec};
use crate::storage::{Access, Input, Needs};

use super::container::{Container, FieldInfo, FieldKind, Meaning, Visit, find_field};
use super::fields::with_others_in;
use super::fixed::{ArrayHeader, Fetched, FixedRecords, StoredType, Wanted, plain, read_fixed_records};
use super::format::{Open, Opened, default_fields};
use super::value::Value;
use super::{Fingerprint, RecordReader, Scratch};

/// How a file of several arrays is read.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ArraySetOptions {
    /// Selects the arrays of one data set if a file holds several: those with this word in their names, alone or
    /// between `_`, `-`, `.` and `/`. The rest of the name is the name of the field: with `"train"`, `x_train` is the
    /// field `x`.
    pub part: Option<String>,
    /// How the file is read. Arrays that are compressed, or in Fortran order, are unpacked into memory, or beyond 1 GiB
    /// into a temporary file.
    pub access: Access,
}

/// An array that a file lists.
pub(super) struct Listed {
    pub(super) name: String,
    /// Its type and shape, or why it can't be read.
    pub(super) header: Result<ArrayHeader>,
}

/// Gives the bytes of the array with this number, and where in them it lies, row by row.
pub(super) type Load<'a> = &'a dyn Fn(usize) -> Result<(Input, ArrayHeader)>;

/// Opens the listed arrays that are requested: as readers of their rows if all are wanted unchanged, otherwise as
/// fields.
///
/// # Errors
///
/// [`ErrorKind::Config`] for arrays of different numbers of rows, and for a part that does not exist;
/// [`ErrorKind::NotFound`] with the nearest name; the reason why a requested array can't be read; and those of `load`.
pub(super) fn open(
    mut listed: Vec<Listed>,
    load: Load<'_>,
    options: &ArraySetOptions,
    at: &Open<'_>,
) -> Result<Opened> {
    let mut set = ArraySet::of(&mut listed, options, at).map_err(|error| error.at_path(at.path))?;
    let fields = match at.fields {
        [] => default_fields(&set).map_err(|error| error.at_path(at.path))?,
        fields => fields.to_vec(),
    };
    let plain = fields.iter().map(|(name, field)| Some((plain(name, field)?, field.columns(name).remove(0))));
    if let Some(plain) = plain.collect::<Option<Vec<_>>>() {
        let reader = |(wanted, from): (Wanted<'_>, super::ColumnRef)| {
            let place = find_field(&set.infos, &from)?;
            let (input, header) = load(set.numbers[place])?;
            let records = FixedRecords::new(input, &header, &wanted).map_err(|error| error.at_path(at.path))?;
            let records = records.of_array(&set.infos[place].name);
            Ok(Arc::new(ArrayReader { records }) as Arc<dyn RecordReader>)
        };
        return Ok(Opened::Readers(plain.into_iter().map(reader).collect::<Result<_>>()?));
    }
    set.load(load)?;
    Ok(set.into())
}

/// The same as fields, whatever is requested.
///
/// # Errors
///
/// As [`open`].
pub(super) fn open_fields(
    mut listed: Vec<Listed>,
    load: Load<'_>,
    options: &ArraySetOptions,
    at: &Open<'_>,
) -> Result<Opened> {
    let mut set = ArraySet::of(&mut listed, options, at).map_err(|error| error.at_path(at.path))?;
    set.load(load)?;
    Ok(set.into())
}

/// The rows of a file of a single array as values of the file's own type.
pub(super) fn of_one(records: FixedRecords) -> Opened {
    let field = |tensor: &TensorSpec| {
        let shape = tensor.row_shape(&Extents::default());
        FieldInfo::new(&tensor.name, FieldKind::Numbers(tensor.dtype)).shape(&shape)
    };
    let infos = records.tensors().iter().map(field).collect();
    let (path, count) = (records.path().to_owned(), records.len());
    ArraySet { path, infos, numbers: vec![0], wanted: vec![true], arrays: vec![Some(records)], count }.into()
}

/// The rest of a name without the word that names its part; `None` if the name does not contain it.
fn without_part(name: &str, part: &str) -> Option<String> {
    let is_border = |byte: Option<&u8>| byte.is_none_or(|byte| b"_-./".contains(byte));
    let bytes = name.as_bytes();
    let (at, _) = name.match_indices(part).find(|(at, _)| {
        is_border(at.checked_sub(1).and_then(|before| bytes.get(before))) && is_border(bytes.get(at + part.len()))
    })?;
    let (before, behind) = (&name[..at], &name[at + part.len()..]);
    // One border goes with the word.
    let rest = match before.len() {
        0 => behind.get(1..).unwrap_or_default().to_owned(),
        len => format!("{}{behind}", &before[..len - 1]),
    };
    Some(if rest.is_empty() { name.to_owned() } else { rest })
}

/// Arrays with the same number of rows.
struct ArraySet {
    path: PathBuf,
    infos: Vec<FieldInfo>,
    /// For each field, the number of its array in the file.
    numbers: Vec<usize>,
    /// For each field, whether it is read.
    wanted: Vec<bool>,
    /// Those that are read.
    arrays: Vec<Option<FixedRecords>>,
    count: u64,
}

impl fmt::Debug for ArraySet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ArraySet").field("path", &self.path).field("fields", &self.infos).finish_non_exhaustive()
    }
}

impl ArraySet {
    fn of(listed: &mut [Listed], options: &ArraySetOptions, at: &Open<'_>) -> Result<Self> {
        let mut named: Vec<(String, usize)> = Vec::new();
        for (number, array) in listed.iter().enumerate() {
            let name = match &options.part {
                None => Some(array.name.clone()),
                Some(part) => without_part(&array.name, part),
            };
            named.extend(name.map(|name| (name, number)));
        }
        if let (true, Some(part)) = (named.is_empty(), &options.part) {
            let message = format!("part: no array has {part:?} in its name; {}", shown(listed));
            return Err(Error::new(ErrorKind::Config, message));
        }
        let info = |(name, number): &(String, usize)| match &listed[*number].header {
            Ok(header) => FieldInfo::new(name, FieldKind::Numbers(header.stored.kind.dtype())).shape(&header.shape),
            Err(_) => FieldInfo::new(name, FieldKind::Other),
        };
        let mut infos: Vec<FieldInfo> = named.iter().map(info).collect();
        let mut wanted: Vec<bool> =
            infos.iter().map(|info| at.fields.is_empty() && info.kind != FieldKind::Other).collect();
        for (name, field) in &with_others_in(&infos, at.fields)? {
            for column in field.columns(name) {
                let place = find_field(&infos, &column).map_err(|error| error.at_column(name))?;
                wanted[place] = true;
                if let Err(error) = &mut listed[named[place].1].header {
                    let message = format!("{:?} {}", infos[place].name, error.message());
                    return Err(Error::new(error.kind(), message).at_column(name));
                }
            }
        }
        if !wanted.contains(&true)
            && let Some((name, error)) =
                listed.iter().find_map(|array| Some((&array.name, array.header.as_ref().err()?)))
        {
            return Err(Error::new(error.kind(), format!("{name:?} {}", error.message())));
        }
        let records = |place: usize| listed[named[place].1].header.as_ref().map_or(0, |header| header.records);
        let mut counts: Vec<u64> = (0..infos.len()).filter(|place| wanted[*place]).map(records).collect();
        counts.dedup();
        let count = match counts[..] {
            [] => 0,
            [count] => count,
            _ => return Err(Error::new(ErrorKind::Config, of_several(listed))),
        };
        infos
            .iter_mut()
            .zip(&wanted)
            .filter(|(_, wanted)| !**wanted)
            .for_each(|(info, _)| info.kind = FieldKind::Other);
        let numbers = named.into_iter().map(|(_, number)| number).collect();
        let arrays = infos.iter().map(|_| None).collect();
        Ok(Self { path: at.path.to_owned(), infos, numbers, wanted, arrays, count })
    }

    fn load(&mut self, load: Load<'_>) -> Result<()> {
        for place in (0..self.infos.len()).filter(|place| self.wanted[*place]) {
            let (input, header) = load(self.numbers[place])?;
            let wanted = Wanted { name: Some(&self.infos[place].name), ..Wanted::default() };
            let records = FixedRecords::new(input, &header, &wanted).map_err(|error| error.at_path(&self.path))?;
            self.arrays[place] = Some(records);
        }
        Ok(())
    }
}

/// The existing arrays, for a message.
fn shown(listed: &[Listed]) -> String {
    const SHOWN: usize = 10;
    let one = |array: &Listed| match &array.header {
        Ok(header) => format!("{} ({} rows)", array.name, header.records),
        Err(_) => format!("{} (can't be read)", array.name),
    };
    let names: Vec<String> = listed.iter().take(SHOWN).map(one).collect();
    format!("there are {}{}", names.join(", "), if listed.len() > SHOWN { ", ..." } else { "" })
}

/// What to do with arrays of different numbers of rows.
fn of_several(listed: &[Listed]) -> String {
    let words = || listed.iter().flat_map(|array| array.name.split(['_', '-', '.', '/']));
    let known = ["train", "training"].into_iter().find(|known| words().any(|word| word == *known));
    let part =
        known.map(|part| format!("options = {{ part = {part:?} }} takes those with that word in their names, or "));
    let part = part.unwrap_or_default();
    format!(
        "the arrays have different numbers of rows, so that they are not one data set: {}; {part}name those that belong together \
         in `fields`",
        shown(listed)
    )
}

/// What a worker keeps between records.
#[derive(Default)]
struct Worker {
    fetched: Vec<Fetched>,
    room: Vec<u64>,
}

impl Container for ArraySet {
    fn len(&self) -> u64 {
        self.count
    }

    fn fields(&self) -> &[FieldInfo] {
        &self.infos
    }

    fn need(&self, records: &[u64], needs: &mut Needs) {
        self.arrays.iter().flatten().for_each(|array| array.need(records, needs));
    }

    fn fetch(&self, records: &[u64], nth: usize, scratch: &mut Scratch) -> Result<()> {
        let Worker { fetched, .. } = scratch.of();
        fetched.resize_with(self.arrays.len(), Fetched::default);
        // All arrays, even after an error, because each must see where a job begins.
        let calls = self
            .arrays
            .iter()
            .zip(fetched)
            .map(|(array, fetched)| array.as_ref().map_or(Ok(()), |array| array.fetch_into(fetched, records, nth)));
        calls.fold(Ok(()), Result::and)
    }

    fn read(&self, record: u64, nth: usize, scratch: &mut Scratch, visit: &mut Visit<'_>) -> Result<()> {
        let Worker { fetched, room } = scratch.of();
        for (place, (array, fetched)) in self.arrays.iter().zip(fetched).enumerate() {
            let Some(array) = array else { continue };
            let numbers = array.numbers(fetched, record, nth, room);
            let given = visit(place, Value::Numbers(numbers));
            let explained = given.map_err(|error| array.explained(error, numbers, record));
            explained.map_err(|error| error.at_column(&self.infos[place].name).at(array.place(record)))?;
        }
        Ok(())
    }

    fn meaning(&self, number: usize) -> Option<Meaning> {
        match self.arrays.get(number)?.as_ref()?.stored_type() {
            StoredType::U64 => Some(Meaning::U64),
            StoredType::F16 => Some(Meaning::F16),
            _ => None,
        }
    }

    fn place(&self, record: u64) -> Location {
        Location { path: Some(self.path.clone()), record: Some(record), ..Location::default() }
    }

    fn fingerprint(&self) -> Fingerprint {
        let sizes = self.arrays.iter().flatten().map(|array| array.fingerprint().sizes);
        let names = self.infos.iter().zip(&self.wanted).filter(|(_, wanted)| **wanted).map(|(info, _)| &*info.name);
        Fingerprint { count: Some(self.count), names: hash_texts(names), sizes: sizes.fold(0, u64::wrapping_add) }
    }
}

/// The rows of one array.
#[derive(Debug)]
struct ArrayReader {
    records: FixedRecords,
}

read_fixed_records!(ArrayReader);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_word_of_a_part_is_taken_out_of_names() {
        for (name, rest) in [
            ("x_train", Some("x")),
            ("train_x", Some("x")),
            ("train/images", Some("images")),
            ("a.train.b", Some("a.b")),
            ("train", Some("train")),
            ("trains_x", None),
            ("x_trained", None),
            ("trains_train", Some("trains")),
        ] {
            assert_eq!(without_part(name, "train").as_deref(), rest, "{name}");
        }
    }
}
