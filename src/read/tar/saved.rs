//! The index of all archives in one file beside them.

use std::path::{Path, PathBuf};

use crate::error::Result;
use crate::memory::Reservation;
use crate::read::packed::{Packer, Unpacker};
use crate::read::parallel;
use crate::read::saved::{Guard, load, save};
use crate::storage::{Access, Files, metadata};

use super::fields::Fields;
use super::index::{ArchiveIndex, Place};
use super::options::TarOptions;

/// The saved indexes of these archives; if there are none, new ones, which are then saved.
pub(super) fn indexes(
    files: &Files,
    root: &Path,
    paths: &[PathBuf],
    fields: &Fields,
    options: &TarOptions,
    reservation: &mut Reservation,
) -> Result<Vec<ArchiveIndex>> {
    // Objects in a storage may change without a modification time that shows it.
    let Some(file) = options.saved_index.path(root).filter(|_| files.are_local()) else {
        return index_all(files, paths, fields, reservation);
    };
    let guard = guard(paths, fields)?;
    if let Some(indexes) = load(&file, guard).and_then(|bytes| unpack(&bytes, paths.len(), fields)) {
        let bytes = indexes.iter().map(ArchiveIndex::bytes).sum();
        reservation.grow_to(bytes, "the index of the archives")?;
        return Ok(indexes);
    }
    let indexes = index_all(files, paths, fields, reservation)?;
    save(&file, guard, &pack(&indexes))?;
    Ok(indexes)
}

/// Indexes all archives, each on its own.
fn index_all(
    files: &Files,
    paths: &[PathBuf],
    fields: &Fields,
    reservation: &mut Reservation,
) -> Result<Vec<ArchiveIndex>> {
    let mut indexes = Vec::with_capacity(paths.len());
    parallel::in_order(
        parallel::thread_count(None),
        paths.len() as u64,
        |(): &mut (), nth| {
            let input = files.open(&paths[nth as usize], Access::Read)?;
            ArchiveIndex::of(&input, &fields.wanted, fields.class.as_ref())
        },
        |index| {
            reservation.grow_to(reservation.bytes() + index.bytes(), "the index of the archives")?;
            indexes.push(index);
            Ok(())
        },
    )?;
    Ok(indexes)
}

/// The current state of the archives, and which of their members are indexed.
fn guard(paths: &[PathBuf], fields: &Fields) -> Result<Guard> {
    let mut guard = Guard::new("members of tar archives 3").and(format!("{:?}", fields.wanted).as_bytes());
    let class = fields.class.as_ref().map(|class| (class.member, &class.pointer));
    guard = guard.and(format!("{class:?}").as_bytes());
    for path in paths {
        let metadata = metadata(path)?;
        guard = guard.and(path.as_os_str().as_encoded_bytes()).and_metadata(&metadata);
    }
    Ok(guard)
}

fn pack(indexes: &[ArchiveIndex]) -> Vec<u8> {
    let mut packer = Packer::default();
    for index in indexes {
        packer.bytes(&index.keys);
        packer.numbers(index.key_ends.iter().copied());
        packer.numbers(index.places.iter().map(|place| place.block));
        packer.numbers(index.places.iter().map(|place| place.size));
        packer.numbers(index.labels.iter().copied());
        packer.number(index.names.len() as u64);
        index.names.iter().for_each(|name| packer.bytes(name.as_bytes()));
        packer.number(index.ignored);
    }
    packer.finish()
}

/// `None` if the bytes can't be used as they are.
fn unpack(bytes: &[u8], count: usize, fields: &Fields) -> Option<Vec<ArchiveIndex>> {
    let mut unpacker = Unpacker::new(bytes);
    let mut indexes = Vec::new();
    for _ in 0..count {
        let keys = unpacker.bytes()?.to_vec();
        let key_ends = unpacker.numbers()?;
        let (blocks, sizes) = (unpacker.numbers()?, unpacker.numbers()?);
        let labels = unpacker.numbers()?;
        let mut names = Vec::new();
        for _ in 0..unpacker.number()? {
            names.push(std::str::from_utf8(unpacker.bytes()?).ok()?.to_owned());
        }
        let ignored = unpacker.number()?;
        let samples = key_ends.len();
        let fits = key_ends.is_sorted()
            && key_ends.last().map_or(0, |end| *end as usize) == keys.len()
            && blocks.len() == samples.checked_mul(fields.wanted.len())?
            && sizes.len() == blocks.len()
            && labels.len() == if fields.class.is_some() { samples } else { 0 };
        if !fits {
            return None;
        }
        let places = blocks.into_iter().zip(sizes).map(|(block, size)| Place { block, size }).collect();
        indexes.push(ArchiveIndex { keys, key_ends, places, labels, names, ignored });
    }
    unpacker.is_empty().then_some(indexes)
}
