//! The way to the first page of a part of a column, past those of other parts.

use crate::error::Result;

use super::super::levels::Rows;
use super::super::positions::Position;
use super::super::thrift::{DATA_PAGE_V2, DICTIONARY_PAGE};
use super::{Pages, Part, Step, encoding};

impl Pages {
    /// When the crate has taken the dictionary, goes to the page where the part begins.
    pub(super) fn begin(&mut self) -> Result<()> {
        let Step::Dictionary = self.step else { return Ok(()) };
        let Some(part) = self.chunk.part.clone() else { return Ok(()) };
        let (here, first) = (self.here(), part.positions.first(part.key));
        let is_at_start = here.is_some_and(|here| here.at == self.chunk.range.start);
        // Where it is known that there is no dictionary, nobody looks for one.
        if is_at_start && first != here {
            self.is_header_alone = part.records.start > 0;
            let is_page = self.look()?;
            self.is_header_alone = false;
            if is_page && self.is_dictionary() {
                return Ok(());
            }
        }
        self.step = Step::Pages;
        if let Some(first) = self.here().filter(|_| part.records.start > 0) {
            let start = self.seek(&part, first)?;
            if self.here() != Some(start) {
                self.go_to(start);
            }
            if start.record > 0 {
                self.step = Step::Skip(first, start.record);
            }
        }
        Ok(())
    }

    /// The last page that begins with a record, if that record is not after the first record of the part.
    fn seek(&mut self, part: &Part, first: Position) -> Result<Position> {
        let known = part.positions.before(part.key, part.records.start).filter(|known| known.at > first.at);
        if let Some(known) = known {
            self.go_to(known);
        }
        let mut last = known.unwrap_or(first);
        self.is_header_alone = self.chunk.is_flat;
        while self.look()? && !self.is_dictionary() {
            let Some((here, rows)) = self.here().zip(self.noted_rows()?) else { break };
            if rows.are_whole {
                last = here;
            }
            if here.record + rows.count > part.records.start {
                break;
            }
            self.is_header_alone =
                self.chunk.is_flat || self.header.as_ref().is_some_and(|header| header.kind == DATA_PAGE_V2);
            self.pass(Some(rows));
        }
        self.is_header_alone = false;
        Ok(last)
    }

    fn is_dictionary(&self) -> bool {
        self.header.as_ref().is_some_and(|header| header.kind == DICTIONARY_PAGE)
    }

    /// Where the next page begins.
    fn here(&self) -> Option<Position> {
        let at = if self.header.is_some() { self.start } else { self.at };
        Some(Position { at, record: self.record?, values: self.values })
    }

    pub(super) fn go_to(&mut self, Position { at, record, values }: Position) {
        (self.at, self.record, self.values) = (at, Some(record), values);
        (self.header, self.contents) = (None, None);
    }

    /// The records that begin in the page whose header was read, if that is needed. Their position is kept.
    pub(super) fn noted_rows(&mut self) -> Result<Option<Rows>> {
        let (Some(here), Some(header)) = (self.here(), self.header.clone()) else { return Ok(None) };
        let values = header.values as u64;
        let rows = match header.kind {
            DICTIONARY_PAGE => None,
            _ if self.chunk.is_flat => Some(Rows { count: values, are_whole: true }),
            DATA_PAGE_V2 => {
                let repetition = self.read(self.at, header.repetition_bytes as u64)?;
                let rows = self.chunk.levels.rows(&repetition, values);
                if rows.is_none_or(|rows| rows.count != header.rows as u64) {
                    // Either the writer counted values, or the page is damaged, which its checksum says.
                    self.contents(&header)?;
                }
                rows
            }
            _ => {
                let contents = self.contents(&header)?;
                let encodings = [header.repetition_encoding, header.definition_encoding].map(encoding);
                let sections = match encodings {
                    [Some(repetition), Some(definition)] => {
                        self.chunk.levels.split(&contents, values, [repetition, definition])
                    }
                    _ => None,
                };
                sections.and_then(|sections| self.chunk.levels.rows(sections.repetition, values))
            }
        };
        if let (Some(part), Some(Rows { are_whole: true, .. })) = (&self.chunk.part, rows) {
            part.positions.note(part.key, &self.chunk.range, here);
        }
        Ok(rows)
    }

    /// Moves to the position after the page whose header was read.
    pub(super) fn pass(&mut self, rows: Option<Rows>) {
        let Some(header) = self.header.take() else { return };
        self.contents = None;
        self.at += header.stored_bytes as u64;
        if header.kind != DICTIONARY_PAGE {
            self.values += header.values as u64;
            self.record = self.record.zip(rows).map(|(record, rows)| record + rows.count);
        }
    }

    pub(super) fn skip_page(&mut self) -> Result<()> {
        self.begin()?;
        if let Step::Skip(..) = self.step {
            self.step = Step::Pages;
        } else if self.look()? {
            let rows = self.noted_rows()?;
            self.pass(rows);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::ops::Range;
    use std::sync::Arc;

    use parquet::basic::{Compression, Type};
    use parquet::column::page::PageReader;

    use super::super::super::levels::Levels;
    use super::super::super::positions::Positions;
    use super::super::super::thrift::tests::{page_header, page_header_v2};
    use super::super::Chunk;
    use super::*;
    use crate::storage::{Access, Files};

    /// Pages of lists of integers, each by its levels of repetition: 0 begins a record.
    fn chunk_of(
        version: u8,
        pages: &[&[u8]],
        records: Range<u64>,
        positions: &Arc<Positions>,
    ) -> (tempfile::NamedTempFile, Chunk) {
        let file = tempfile::NamedTempFile::new().unwrap();
        let (mut bytes, mut values) = (b"PAR1".to_vec(), 0);
        for levels in pages {
            let packed = levels.iter().enumerate().fold(0u8, |packed, (nth, level)| packed | level << nth);
            let mut page = if version == 1 { vec![2, 0, 0, 0, 3, packed] } else { vec![3, packed] };
            for _ in *levels {
                page.extend(i32::to_le_bytes(values));
                values += 1;
            }
            bytes.extend(match version {
                1 => page_header(page.len(), levels.len()),
                _ => page_header_v2(page.len(), levels.len(), 2),
            });
            bytes.extend(page);
        }
        std::fs::write(file.path(), &bytes).unwrap();
        let chunk = Chunk {
            input: Arc::new(Files::local().open(file.path(), Access::Read).unwrap()),
            range: 4..bytes.len() as u64,
            codec: Compression::UNCOMPRESSED,
            stored: Type::INT32,
            width: Some(4),
            values: values as u64,
            is_flat: false,
            levels: Levels { repetition: 1, definition: 0 },
            padding: None,
            part: Some(Part { records, positions: positions.clone(), key: (0, 0) }),
            max_bytes: 200,
        };
        (file, chunk)
    }

    #[test]
    fn a_part_begins_at_a_page_that_begins_with_a_record() {
        // The third record goes on in the second page, and the sixth in the last one. In version 2, this is what some
        // writers did who gave the number of values as that of records.
        let levels: [&[u8]; 4] = [&[0, 1, 1, 0, 0], &[1, 1, 0, 1], &[0, 0, 1], &[1, 0]];
        let parts = [(0, 0, 0), (3, 0, 0), (4, 4, 9), (1, 0, 0), (6, 4, 9), (5, 4, 9), (0, 0, 0)];
        for version in [1, 2] {
            let positions = Arc::default();
            for (first, skipped, value) in parts {
                let (_file, chunk) = chunk_of(version, &levels, first..7, &positions);
                let mut pages = Pages::new(chunk, Arc::default()).unwrap();
                let next = pages.peek_next_page().unwrap().unwrap();
                if skipped > 0 {
                    assert_eq!((next.num_rows, next.is_dict), (Some(skipped), false), "record {first}");
                    pages.skip_next_page().unwrap();
                }
                assert_eq!(pages.peek_next_page().unwrap().unwrap().num_rows, None);
                let page = pages.get_next_page().unwrap().unwrap();
                let values = &page.buffer()[if version == 1 { 6 } else { 2 }..];
                assert_eq!(values[..4], i32::to_le_bytes(value), "record {first}");
                while pages.get_next_page().unwrap().is_some() {}
                assert_eq!((pages.values, pages.record), (14, Some(7)));
            }
        }
        // Who reads pages instead of skipping them gets all of them.
        let (_file, chunk) = chunk_of(1, &levels, 5..7, &Arc::default());
        let mut pages = Pages::new(chunk, Arc::default()).unwrap();
        assert_eq!(pages.peek_next_page().unwrap().unwrap().num_rows, Some(4));
        assert_eq!(Iterator::count(pages), 4);
    }

    #[test]
    fn pages_before_a_part_count_for_no_limit() {
        // Each page takes up to 64 bytes, of 200 that are allowed.
        let levels: [&[u8]; 8] = [&[0; 8]; 8];
        let read = |records| {
            let (_file, chunk) = chunk_of(1, &levels, records, &Arc::default());
            let mut pages = Pages::new(chunk, Arc::default()).unwrap();
            pages.peek_next_page().unwrap();
            pages.skip_next_page().unwrap();
            pages.map_while(std::result::Result::ok).count()
        };
        assert_eq!([read(9..64), read(40..64), read(50..64)], [3, 3, 2]);
    }
}
