//! Several files of a format as one data set.

use std::path::PathBuf;
use std::sync::Arc;

use crate::error::{Error, ErrorKind, Result};
use crate::read::container::Container;
use crate::read::many::Many;
use crate::read::{Concat, RecordReader, parallel};

use super::opened::{Open, Opened};

/// With more files than this, only so many are open at a time.
const MOST_OPEN: usize = 128;

/// Opens each file, and concatenates the results.
pub(in crate::read) fn open(
    open: &(dyn Fn(&Open<'_>) -> Result<Opened> + Sync),
    paths: &[PathBuf],
    at: &Open<'_>,
) -> Result<Opened> {
    if let [path] = paths {
        return open(&Open { path, ..*at });
    }
    let mut containers: Vec<Box<dyn Container>> = Vec::new();
    let mut readers: Vec<Vec<Arc<dyn RecordReader>>> = Vec::new();
    // Of such readers, fields are still to be made.
    let mut are_plain = true;
    parallel::in_order(
        parallel::thread_count(None),
        paths.len() as u64,
        |(): &mut (), nth| {
            let path = &paths[nth as usize];
            open(&Open { path, ..*at }).map_err(|error| match error.path() {
                Some(_) => error,
                None => error.at_path(path),
            })
        },
        |opened| {
            match opened {
                Opened::Container(container) => containers.push(container),
                Opened::Reader(reader) => readers.push(vec![reader]),
                Opened::Readers(of_file) => {
                    are_plain = false;
                    readers.push(of_file);
                }
            }
            Ok(())
        },
    )?;
    if readers.is_empty() {
        return Ok(Opened::Container(Box::new(Many::new(containers, paths)?)));
    }
    let count = readers[0].len();
    if let Some(other) =
        readers.iter().position(|of_file| of_file.len() != count).or((!containers.is_empty()).then_some(0))
    {
        let message = format!("the format reads it otherwise than {}", paths[0].display());
        return Err(Error::new(ErrorKind::Format, message).at_path(&paths[other]));
    }
    let mut of_files: Vec<_> = readers.into_iter().map(Vec::into_iter).collect();
    let all = (0..count).map(|_| {
        let same = of_files.iter_mut().filter_map(Iterator::next).collect();
        Concat::of_files(same, paths).map(|all| Arc::new(all) as Arc<dyn RecordReader>)
    });
    all.collect::<Result<_>>().map(|mut all: Vec<_>| match all.pop() {
        Some(only) if all.is_empty() && (are_plain || at.fields.is_empty()) => Opened::Reader(only),
        last => Opened::Readers(all.into_iter().chain(last).collect()),
    })
}

/// The files, with few enough open at a time for `count` files.
pub(super) fn few_open(at: &Open<'_>, count: usize) -> crate::storage::Files {
    if count > MOST_OPEN { at.files.with_few_open(MOST_OPEN) } else { at.files.clone() }
}
