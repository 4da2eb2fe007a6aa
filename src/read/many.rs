//! Several containers of one format as one, with their records one after another: files that are one data set.

use std::collections::HashMap;
use std::path::{Component, Path, PathBuf};

use crate::dtype::DType;
use crate::error::{Error, ErrorKind, Location, Result};
use crate::positions::RUN;
use crate::random::{RandomKey, hash_bytes};
use crate::storage::Needs;

use super::container::{Container, FieldInfo, FieldKind, Meaning, Visit, common_shape};
use super::dealt::Dealt;
use super::json::missing_objects;
use super::{ColumnRef, Fingerprint, Scratch};

/// Writes what distinguishes a file from the others of its data set.
pub(super) fn file_name(path: &Path, name: &mut Vec<u8>) {
    name.extend_from_slice(path.file_name().unwrap_or_default().as_encoded_bytes());
    name.push(0);
}

/// A hash of the files' names, in their order.
pub(super) fn hash_names(paths: &[PathBuf]) -> u64 {
    let name = |path: &PathBuf| hash_bytes(path.file_name().unwrap_or_default().as_encoded_bytes());
    paths.iter().fold(RandomKey::new(paths.len() as u64), |hash, path| hash.with(name(path))).bits(0)
}

/// A hash of the sources' file names, in their order. Several of the same name are told apart by the folders below the
/// one that holds all of these, so that a data set may be moved as a whole.
pub(super) fn hash_sources(paths: &[PathBuf]) -> u64 {
    fn parts(path: &Path) -> impl Iterator<Item = Component<'_>> {
        path.components().filter(|part| *part != Component::CurDir)
    }
    let mut alike: HashMap<_, Vec<&Path>> = HashMap::new();
    paths.iter().for_each(|path| alike.entry(path.file_name()).or_default().push(path));
    let shared: HashMap<_, usize> = alike
        .into_iter()
        .filter(|(_, paths)| paths.len() > 1)
        .map(|(name, paths)| {
            let common = |other: &&Path| parts(paths[0]).zip(parts(other)).take_while(|(a, b)| a == b).count();
            (name, paths.iter().map(common).min().unwrap_or(0))
        })
        .collect();
    let names = paths.iter().map(|path| match shared.get(&path.file_name()) {
        Some(shared) => {
            let rest = parts(path).skip(*shared).map(|part| hash_bytes(part.as_os_str().as_encoded_bytes()));
            rest.fold(RandomKey::new(0), RandomKey::with).bits(0)
        }
        None => hash_bytes(path.file_name().unwrap_or_default().as_encoded_bytes()),
    });
    names.fold(RandomKey::new(paths.len() as u64), RandomKey::with).bits(0)
}

/// The chunks of parts that follow each other. No chunk crosses the end of a part. If a part has no chunks, runs of its
/// records take their place.
pub(super) fn chunks_of_parts(starts: &[u64], parts: impl Iterator<Item = Vec<u64>>) -> Vec<u64> {
    let mut all = Vec::new();
    for (bounds, chunks) in starts.windows(2).zip(parts) {
        match chunks.as_slice() {
            [] => all.extend((bounds[0]..bounds[1]).step_by(RUN as usize)),
            chunks => all.extend(chunks.iter().map(|start| bounds[0] + start).filter(|start| *start < bounds[1])),
        }
    }
    all
}

/// The files of a data set as one container.
pub(super) struct Many {
    parts: Vec<Part>,
    /// Where each part begins, and at the end the number of all records.
    starts: Vec<u64>,
    paths: Box<[PathBuf]>,
    infos: Vec<FieldInfo>,
    /// Number of fields that all files list.
    listed: usize,
    /// For each field that was found, its number in each part that has it.
    found: Vec<Vec<Option<usize>>>,
}

struct Part {
    container: Box<dyn Container>,
    /// The number here of each of the part's fields, by its number there.
    numbers: Vec<Option<usize>>,
}

impl Many {
    /// # Errors
    ///
    /// [`ErrorKind::Format`] for a file that has other fields than the first.
    pub(super) fn new(containers: Vec<Box<dyn Container>>, paths: &[PathBuf]) -> Result<Self> {
        let mut starts = vec![0u64];
        let mut infos: Vec<FieldInfo> = Vec::new();
        for (container, path) in containers.iter().zip(paths) {
            let len = starts.last().copied().unwrap_or(0).checked_add(container.len());
            let message = "more records than a number of 64 bits counts";
            starts.push(len.ok_or_else(|| Error::new(ErrorKind::Limit, message))?);
            let own = container.fields();
            if container.fields_vary() {
                add_fields(&mut infos, own);
            } else if starts.len() == 2 {
                infos = own.to_vec();
            } else if infos != own {
                return Err(other_fields(&infos, own, &paths[0]).at_path(path));
            }
        }
        if containers.iter().all(|container| container.tells_lists_from_values()) {
            // Only JSON Lines do, and one file may have nothing but `null` for the objects of others.
            let objects = missing_objects(&infos);
            infos.retain(|info| !objects.contains(&info.name));
        }
        let parts = containers.into_iter().map(|container| Part { container, numbers: Vec::new() }).collect();
        Ok(Self { parts, starts, paths: paths.into(), listed: infos.len(), infos, found: Vec::new() })
    }

    fn locate(&self, record: u64) -> (usize, u64) {
        let last = self.parts.len() - 1;
        let part = self.starts[..=last].partition_point(|start| *start <= record) - 1;
        (part, record - self.starts[part])
    }

    /// The parts that have a found field, with its number in each.
    fn of_parts(&self, number: usize) -> impl Iterator<Item = (&dyn Container, usize)> {
        let numbers = self.found.get(number).into_iter().flatten();
        self.parts.iter().zip(numbers).filter_map(|(part, number)| Some((&*part.container, (*number)?)))
    }

    /// The name of `field` in all files.
    fn named(&self, field: &ColumnRef) -> Option<ColumnRef> {
        match field {
            ColumnRef::Position(position) if self.parts.iter().any(|part| part.container.fields_vary()) => {
                self.infos[..self.listed].get(*position).map(|info| ColumnRef::Name(info.name.clone()))
            }
            other => Some(other.clone()),
        }
    }
}

/// Adds the fields of another file, by their names.
fn add_fields(infos: &mut Vec<FieldInfo>, own: &[FieldInfo]) {
    let known: std::collections::HashMap<String, usize> =
        infos.iter().enumerate().map(|(at, info)| (info.name.clone(), at)).collect();
    for field in own {
        let Some(info) = known.get(&field.name).map(|at| &mut infos[*at]) else {
            infos.push(field.clone());
            continue;
        };
        match (info.is_unseen && info.shape.is_empty(), field.is_unseen && field.shape.is_empty()) {
            (_, true) => continue,
            (true, false) => {
                *info = field.clone();
                continue;
            }
            (false, false) => {}
        }
        info.kind = match (info.kind, field.kind) {
            (one, other) if one == other => one,
            (_, other) if info.is_unseen => other,
            (one, _) if field.is_unseen => one,
            (FieldKind::Numbers(one), FieldKind::Numbers(other)) => FieldKind::Numbers(wide_enough(one, other)),
            _ => FieldKind::Other,
        };
        info.shape = match info.shape.len().cmp(&field.shape.len()) {
            std::cmp::Ordering::Equal => common_shape(&info.shape, &field.shape),
            // Lists of nothing stand for lists of lists, too.
            std::cmp::Ordering::Less if info.is_unseen => common_shape(&info.shape, &field.shape),
            std::cmp::Ordering::Greater if field.is_unseen => common_shape(&field.shape, &info.shape),
            // Single values, or lists of different depth, are lists of different lengths.
            _ => vec![0],
        };
        info.is_unseen &= field.is_unseen;
    }
}

/// A type that holds the numbers of both.
fn wide_enough(one: DType, other: DType) -> DType {
    match (one.is_float(), other.is_float()) {
        (false, false) => DType::I64,
        (true, false) => one,
        (false, true) => other,
        (true, true) => DType::F64,
    }
}

#[cold]
fn other_fields(first: &[FieldInfo], own: &[FieldInfo], path: &Path) -> Error {
    let named = |info: &FieldInfo| format!("{:?} ({}, {:?})", info.name, info.type_name(), info.shape);
    let what = match first.iter().zip(own).find(|(first, own)| first != own) {
        Some((first, own)) => format!("field {} stands where {} does", named(own), named(first)),
        None => format!("there are {} fields, but {}", own.len(), first.len()),
    };
    let message = format!("{what} in {}; files that are read as one have the same fields", path.display());
    Error::new(ErrorKind::Schema, message)
}

impl Many {
    /// The number of a field that `find` finds in each file.
    fn find_by(
        &mut self,
        field: &ColumnRef,
        find: impl Fn(&mut dyn Container, &ColumnRef) -> Result<usize>,
    ) -> Result<usize> {
        let Some(field) = self.named(field) else {
            return super::find_field(&self.infos[..self.listed], field);
        };
        let mut numbers = Vec::with_capacity(self.parts.len());
        let mut missing = None;
        for (part, path) in self.parts.iter_mut().zip(&self.paths) {
            match find(&mut *part.container, &field) {
                Ok(number) => numbers.push(Some(number)),
                // A field that one file lacks, or whose every record is bad, may be in another one.
                Err(error)
                    if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::Data)
                        && part.container.fields_vary() =>
                {
                    missing.get_or_insert(error.at_path(path));
                    numbers.push(None);
                }
                Err(error) => return Err(error.at_path(path)),
            }
        }
        if let (true, Some(error)) = (numbers.iter().all(Option::is_none), missing) {
            return Err(error);
        }
        if let Some(known) = self.found.iter().position(|known| *known == numbers) {
            return Ok(known);
        }
        let own = self.found.len();
        for (part, number) in self.parts.iter_mut().zip(&numbers) {
            let Some(number) = *number else { continue };
            if part.numbers.len() <= number {
                part.numbers.resize(number + 1, None);
            }
            part.numbers[number] = Some(own);
        }
        if let ColumnRef::Name(name) = &field
            && !self.infos.iter().any(|info| info.name == *name)
        {
            // A field that no file lists, but that a container may find; its type is what the files tell.
            for (part, _) in self.parts.iter().zip(&numbers).filter(|(_, number)| number.is_some()) {
                let found = part.container.fields().iter().filter(|info| info.name == *name);
                add_fields(&mut self.infos, &found.cloned().collect::<Vec<_>>());
            }
        }
        self.found.push(numbers);
        Ok(own)
    }
}

impl Container for Many {
    fn len(&self) -> u64 {
        self.starts.last().copied().unwrap_or(0)
    }

    fn fields(&self) -> &[FieldInfo] {
        &self.infos
    }

    fn fields_vary(&self) -> bool {
        self.parts.iter().any(|part| part.container.fields_vary())
    }

    fn tells_lists_from_values(&self) -> bool {
        self.parts.iter().all(|part| part.container.tells_lists_from_values())
    }

    fn classes(&self) -> Option<(&str, &[String])> {
        let first = self.parts.first()?.container.classes();
        first.filter(|_| self.parts.iter().all(|part| part.container.classes() == first))
    }

    fn means_same(&self, one: &str, other: &str) -> bool {
        self.parts.first().is_some_and(|part| part.container.means_same(one, other))
    }

    fn find(&mut self, field: &ColumnRef) -> Result<usize> {
        self.find_by(field, |container, field| container.find(field))
    }

    fn find_text(&mut self, field: &ColumnRef) -> Result<usize> {
        self.find_by(field, |container, field| container.find_text(field))
    }

    fn forget(&mut self) {
        self.found.clear();
        self.infos.truncate(self.listed);
        for part in &mut self.parts {
            part.container.forget();
            part.numbers.clear();
        }
    }

    fn meaning(&self, number: usize) -> Option<Meaning> {
        let mut known = self.of_parts(number).map(|(container, number)| container.meaning(number));
        let first = known.next()??;
        known.all(|other| other.as_ref() == Some(&first)).then_some(first)
    }

    fn steps(&self, number: usize) -> Option<Vec<String>> {
        let (container, number) = self.of_parts(number).next()?;
        container.steps(number)
    }

    fn left_out(&self) -> Vec<(String, String)> {
        self.parts.iter().flat_map(|part| part.container.left_out()).collect()
    }

    fn each_name(&self, record: u64, nth: usize, scratch: &mut Scratch, visit: &mut dyn FnMut(&str)) {
        let (part, record) = self.locate(record);
        let (buffers, nth) = scratch.of::<Dealt>().read(nth);
        self.parts[part].container.each_name(record, nth, buffers, visit);
    }

    fn need(&self, records: &[u64], needs: &mut Needs) {
        for record in records {
            let (part, record) = self.locate(*record);
            self.parts[part].container.need(&[record], needs);
        }
    }

    fn fetch(&self, records: &[u64], nth: usize, scratch: &mut Scratch) -> Result<()> {
        super::check_record(records[nth], self.len())?;
        let dealt = scratch.of::<Dealt>();
        if nth == 0 {
            dealt.deal(self.parts.len(), records.iter().map(|record| self.locate(*record)));
        }
        let (slot, nth) = dealt.of(nth);
        let container = &self.parts[slot.part].container;
        let has_begun = std::mem::replace(&mut slot.has_begun, true);
        if nth > 0 && !has_begun {
            // The part's first record is known to be bad, but must be requested: see `RecordReader::fetch`.
            drop(container.fetch(&slot.records, 0, &mut slot.scratch));
        }
        container.fetch(&slot.records, nth, &mut slot.scratch)
    }

    fn read(&self, record: u64, nth: usize, scratch: &mut Scratch, visit: &mut Visit<'_>) -> Result<()> {
        let (part, record) = self.locate(record);
        let (buffers, nth) = scratch.of::<Dealt>().read(nth);
        let Part { container, numbers } = &self.parts[part];
        container.read(record, nth, buffers, &mut |number, value| match numbers.get(number).copied().flatten() {
            Some(own) => visit(own, value),
            None => Ok(()),
        })
    }

    fn chunks(&self) -> Vec<u64> {
        let parts = self.parts.iter().map(|part| part.container.chunks());
        chunks_of_parts(&self.starts, parts)
    }

    fn place(&self, record: u64) -> Location {
        let (part, own) = self.locate(record);
        let mut place = self.parts[part].container.place(own);
        place.path.get_or_insert_with(|| self.paths[part].clone());
        place
    }

    fn source_file(&self, record: u64) -> Option<PathBuf> {
        let (part, own) = self.locate(record);
        self.parts[part].container.source_file(own).or_else(|| Some(self.paths[part].clone()))
    }

    fn name(&self, record: u64, name: &mut Vec<u8>) {
        let (part, record) = self.locate(record);
        file_name(&self.paths[part], name);
        self.parts[part].container.name(record, name);
    }

    fn fingerprint(&self) -> Fingerprint {
        let parts = self.parts.iter().map(|part| part.container.fingerprint());
        let hash = RandomKey::new(hash_names(&self.paths));
        let (names, sizes) = parts.fold((hash, RandomKey::new(2)), |(names, sizes), part| {
            let count = part.count.unwrap_or(0);
            (names.with(part.names).with(count), sizes.with(part.sizes).with(count))
        });
        Fingerprint { count: Some(self.len()), names: names.bits(0), sizes: sizes.bits(0) }
    }
}
