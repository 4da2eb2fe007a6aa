//! Pictures and segmentation maps in two folders are matched by position: their names must agree.

use std::collections::HashSet;
use std::sync::Arc;

use crate::error::{Error, ErrorKind, Result};
use crate::read::{Images, RecordReader, SourceConfig};

use super::of_formats::is_of_maps;

/// Checks the names of all maps against those of the pictures before them. With `shorter`, the longer list is cut off.
///
/// # Errors
///
/// [`ErrorKind::Config`] for a picture or map without the other, and for lists in different orders.
pub(super) fn check_names(
    sources: &[SourceConfig],
    opened: &[Vec<Arc<dyn RecordReader>>],
    shorter: bool,
) -> Result<()> {
    let mut pictures = None;
    // Files that are listed one by one are in the order that was asked for.
    let is_compared = |source: &SourceConfig| source.is::<Images>() && !is_list_of_files(source);
    for (source, readers) in sources.iter().zip(opened).filter(|(source, _)| is_compared(source)) {
        match (pictures, readers.first()) {
            (_, reader) if !is_of_maps(source) => pictures = reader,
            (Some(pictures), Some(maps)) => {
                check_pair(pictures, maps, shorter).map_err(|error| error.at_path(source.path()))?;
            }
            _ => {}
        }
    }
    Ok(())
}

fn is_list_of_files(source: &SourceConfig) -> bool {
    source.paths().iter().count() > 1 && source.paths().iter().all(|path| path.is_file())
}

/// Number of bytes that are cut off from the beginning and the end of a name.
type Cut = (usize, usize);

/// The paths of a folder's files.
struct Names<'a> {
    reader: &'a dyn RecordReader,
    count: u64,
    has_endings: bool,
    /// Number of bytes that all of them begin with, and end with; they may overlap in the shortest.
    common: Cut,
    shortest: usize,
}

impl<'a> Names<'a> {
    fn new(reader: &'a dyn RecordReader, count: u64, has_endings: bool) -> Self {
        let mut names = Self { reader, count, has_endings, common: (usize::MAX, usize::MAX), shortest: usize::MAX };
        let (mut first, mut name) = (Vec::new(), Vec::new());
        names.write(0, (0, 0), &mut first);
        for record in 0..count {
            names.write(record, (0, 0), &mut name);
            let alike = first.iter().zip(&name).take(names.common.0);
            let alike_from_end = first.iter().rev().zip(name.iter().rev()).take(names.common.1);
            names.common =
                (alike.take_while(|(a, b)| a == b).count(), alike_from_end.take_while(|(a, b)| a == b).count());
            names.shortest = names.shortest.min(name.len());
        }
        names
    }

    /// Writes the name of a file without what is cut off.
    fn write(&self, record: u64, (begin, end): Cut, name: &mut Vec<u8>) {
        name.clear();
        self.reader.name(record, name);
        // Where there are several folders or patterns, the name begins with that of the part, and a zero.
        if let Some(part) = name.iter().position(|byte| *byte == 0) {
            name.drain(..=part);
        }
        if !self.has_endings {
            name.truncate(name.iter().rposition(|byte| *byte == b'.').unwrap_or(name.len()));
        }
        name.truncate(name.len() - end);
        name.drain(..begin);
    }

    /// What all names have in common; where it overlaps, it is cut off from the beginning, or from the end.
    fn cuts(&self) -> [Cut; 2] {
        let (begin, end) = self.common;
        [(begin, end.min(self.shortest - begin)), (begin.min(self.shortest - end), end)]
    }

    fn all(&self, cut: Cut) -> impl Iterator<Item = Vec<u8>> {
        (0..self.count).map(move |record| {
            let mut name = Vec::new();
            self.write(record, cut, &mut name);
            name
        })
    }

    fn path(&self, record: u64) -> String {
        self.reader.place(record).path.unwrap_or_default().display().to_string()
    }
}

fn check_pair(pictures: &Arc<dyn RecordReader>, maps: &Arc<dyn RecordReader>, shorter: bool) -> Result<()> {
    let shortest = pictures.len().min(maps.len());
    if shortest == 0 {
        return Ok(());
    }
    let names = |reader, whole| Names::new(reader, if shorter { shortest } else { RecordReader::len(reader) }, whole);
    let (with_endings, pictures, maps) = (|| names(pictures, true), names(pictures, false), names(maps, false));
    let (mut of_picture, mut of_map) = (Vec::new(), Vec::new());
    // `a.jpg` may have the map `a.png`, or `a.jpg.png`.
    let mut agree = |pictures: &Names<'_>| {
        pictures.cuts().into_iter().zip(maps.cuts()).any(|(cut, of_maps)| {
            (0..shortest).all(|record| {
                pictures.write(record, cut, &mut of_picture);
                maps.write(record, of_maps, &mut of_map);
                of_picture == of_map
            })
        })
    };
    if pictures.count == maps.count && (agree(&pictures) || agree(&with_endings())) {
        return Ok(());
    }
    Err(Error::new(ErrorKind::Config, fault(&pictures, &maps)))
}

/// What is wrong with two lists that differ, if names are cut as they have most in common.
#[cold]
fn fault(pictures: &Names<'_>, maps: &Names<'_>) -> String {
    let lacking = |of: &Names<'_>, cut: Cut, others: &HashSet<Vec<u8>>| {
        let mut lacking = (0..).zip(of.all(cut)).filter(|(_, name)| !others.contains(name)).map(|(record, _)| record);
        let first = lacking.next();
        (first, usize::from(first.is_some()) + lacking.count())
    };
    let ways = |names: &Names<'_>| {
        let (begin, end) = names.cuts()[0];
        [(begin, end), (begin, 0), (0, end), (0, 0)]
    };
    let ways = ways(pictures).into_iter().flat_map(|cut| ways(maps).map(|of_maps| (cut, of_maps)));
    let found = ways.map(|(cut, of_maps)| {
        let without_map = lacking(pictures, cut, &maps.all(of_maps).collect());
        let without_picture = lacking(maps, of_maps, &pictures.all(cut).collect());
        (without_map, without_picture, cut, of_maps)
    });
    let advice = "rename files, or list the pairs in a table whose fields name the files";
    match found.min_by_key(|((_, maps), (_, pictures), ..)| maps + pictures) {
        Some(((Some(picture), _), ..)) => format!("no map has the name of {}; {advice}", pictures.path(picture)),
        Some((_, (Some(map), _), ..)) => format!("no picture has the name of {}; {advice}", maps.path(map)),
        Some((_, _, cut, of_maps)) => {
            let mut both = pictures.all(cut).zip(maps.all(of_maps));
            let other = both.position(|(picture, map)| picture != map).unwrap_or_default() as u64;
            format!(
                "its names sort in another order than those of the pictures, and maps belong to pictures by position: \
                 {} would belong to {}; give both the same names, or numbers of equal length, such as 01",
                maps.path(other),
                pictures.path(other)
            )
        }
        None => format!("the names of pictures and maps differ; {advice}"),
    }
}
