//! The index of all archives in one file beside them.

use std::path::{Path, PathBuf};

use crate::error::Result;
use crate::memory::Reservation;
use crate::read::packed::{Packer, Unpacker};
use crate::read::parallel;
use crate::read::saved::{Guard, Kept, hash};
use crate::storage::{Access, Files, Input};

use super::fields::Fields;
use super::index::{ArchiveIndex, Place};
use super::options::TarOptions;

const WHAT: &str = "the index of the archives";

/// These archives, open, with their saved indexes; if there are none, with new ones, which are then saved.
pub(super) fn opened(
    files: &Files,
    root: &Path,
    paths: &[PathBuf],
    fields: &Fields,
    options: &TarOptions,
    reservation: &mut Reservation,
) -> Result<Vec<(Input, ArchiveIndex)>> {
    // Objects in a storage may change without a modification time that shows it.
    let kept = match files.are_local() {
        true => kept(root, paths, fields, options)?,
        false => None,
    };
    let known = kept.as_ref().and_then(Kept::load).and_then(|bytes| unpack(&bytes, paths.len(), fields));
    if let Some(indexes) = known {
        let bytes = indexes.iter().map(ArchiveIndex::bytes).sum();
        reservation.grow_to(bytes, WHAT)?;
        return paths.iter().zip(indexes).map(|(path, index)| Ok((files.open(path, options.access)?, index))).collect();
    }
    let opened = index_all(files, paths, fields, options, reservation)?;
    kept.map_or(Ok(()), |kept| kept.save(&pack(opened.iter().map(|(_, index)| index))))?;
    Ok(opened)
}

/// Opens and indexes all archives, each on its own.
fn index_all(
    files: &Files,
    paths: &[PathBuf],
    fields: &Fields,
    options: &TarOptions,
    reservation: &mut Reservation,
) -> Result<Vec<(Input, ArchiveIndex)>> {
    let mut opened = Vec::with_capacity(paths.len());
    parallel::in_order(
        parallel::thread_count(None),
        paths.len() as u64,
        |(): &mut (), nth| {
            let path = &paths[nth as usize];
            let input = files.open(path, options.access)?;
            // Headers are read even if the archive is mapped: a page that is touched brings its neighbours with it.
            let read = if input.slice().is_some() { Some(files.open(path, Access::Read)?) } else { None };
            let headers = read.as_ref().unwrap_or(&input);
            let index = ArchiveIndex::of(headers, &fields.wanted, fields.class.as_ref(), options.most_bytes())?;
            Ok((input, index))
        },
        |(input, index): (Input, ArchiveIndex)| {
            reservation.grow_to(reservation.bytes() + index.bytes(), WHAT)?;
            opened.push((input, index));
            Ok(())
        },
    )?;
    Ok(opened)
}

/// Where the index is kept, for the current state of the archives and for the members that are indexed. Members that
/// are only read, for some fields or for a filter, are indexed by separate readers: each of these has a separate file.
fn kept(root: &Path, paths: &[PathBuf], fields: &Fields, options: &TarOptions) -> Result<Option<Kept>> {
    let wanted = format!("{:?}", fields.wanted);
    // A pattern of folders is in no folder itself.
    let is_nowhere = root.parent().is_some_and(|folder| !folder.as_os_str().is_empty() && !folder.is_dir());
    let root = paths.first().filter(|_| is_nowhere).map_or(root, PathBuf::as_path);
    let file = match fields.are_bytes() {
        true => options.saved_index.path_of(root, &format!("{:016x}", hash(0, wanted.as_bytes()))),
        false => options.saved_index.path(root),
    };
    let Some(file) = file else { return Ok(None) };
    let class = fields.class.as_ref().map(|class| (class.member, &class.pointer, options.most_bytes()));
    let mut guard = Guard::new("members of tar archives 4").and(wanted.as_bytes()).and(format!("{class:?}").as_bytes());
    for path in paths {
        guard = guard.and(path.as_os_str().as_encoded_bytes());
    }
    paths.iter().try_fold(Kept::new(file, guard), |kept, path| kept.and_file(path)).map(Some)
}

fn pack<'a>(indexes: impl Iterator<Item = &'a ArchiveIndex>) -> Vec<u8> {
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
