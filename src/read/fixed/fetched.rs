use std::ops::Range;

use crate::error::Result;
use crate::read::copied::{PAGE_BYTES, WHOLE_BYTES, prefetch_record};
use crate::storage::Gathered;
use crate::storage::Input;

/// A worker keeps its job's records here between fetching and decoding: their bytes, or only their numbers if the file
/// is in memory.
#[derive(Default)]
pub(crate) struct Fetched {
    /// Room for the bytes of the largest record, for each record.
    bytes: Vec<u8>,
    /// The bytes instead, if `is_gathered`.
    gathered: Gathered,
    is_gathered: bool,
    /// Number of records that were read.
    read: usize,
    /// Something of the job can't be read: records are read one by one, so that only this part is missing.
    one_by_one: bool,
    samples: Vec<u64>,
    /// Number of records that the processor was asked to prefetch, and how many are prefetched at a time.
    near: usize,
    group: usize,
    /// The job's records are not read yet.
    late: bool,
}

/// How many records the processor prefetches at a time while earlier ones are decoded, because it can't predict them in
/// random order. Each record waits until its page is looked up; records that are requested right after one another wait
/// at the same time.
fn group(largest: usize) -> usize {
    if largest <= WHOLE_BYTES {
        (GROUP_BYTES / largest.max(1)).clamp(16, 64)
    } else if largest <= PAGE_BYTES {
        4
    } else {
        2
    }
}

/// Small records are prefetched together until they have this many bytes.
const GROUP_BYTES: usize = 8 << 10;

impl Fetched {
    /// The records of the next job are read when they are decoded.
    pub(crate) fn read_late(&mut self) {
        self.late = true;
    }

    pub(crate) fn is_late(&self) -> bool {
        self.late
    }

    /// Reads the bytes in `range` of `input` now.
    pub(crate) fn read_one(&mut self, input: &Input, range: Range<u64>) -> Result<&[u8]> {
        let len = (range.end - range.start) as usize;
        if self.bytes.len() < len {
            self.bytes.resize(len, 0);
        }
        input.read_at(range.start, &mut self.bytes[..len])?;
        Ok(&self.bytes[..len])
    }

    /// Reads record `samples[nth]` of `input`, of `largest` bytes at most, together with its neighbours in the file;
    /// `place` says where a record lies.
    pub(crate) fn fetch(
        &mut self,
        input: &Input,
        largest: usize,
        samples: &[u64],
        nth: usize,
        place: impl Fn(u64) -> Range<u64>,
    ) -> Result<()> {
        self.late = false;
        if let Some(held) = input.slice() {
            if nth == 0 {
                self.hold(held, largest, samples, place);
            }
            return Ok(());
        }
        if nth == 0 {
            (self.read, self.one_by_one) = (0, false);
            let pieces = samples.iter().map(|sample| place(*sample));
            self.is_gathered = pieces.clone().all(|piece| piece.end - piece.start == largest as u64)
                && self.gathered.gather(input, pieces);
            if self.is_gathered {
                self.read = samples.len();
                return Ok(());
            }
            if self.bytes.len() < samples.len() * largest {
                self.bytes.resize(samples.len() * largest, 0);
            }
        }
        if nth < self.read {
            return Ok(());
        }
        let first = place(samples[nth]);
        let mut end = first.end;
        let mut run = 1;
        // Neighbours may be read at once if each follows the one before.
        while !self.one_by_one
            && let Some(next) = samples.get(nth + run).map(|sample| place(*sample))
            && next.start == end
            && end - first.start == (run * largest) as u64
        {
            end = next.end;
            run += 1;
        }
        let begin = nth * largest;
        let read = input.read_at(first.start, &mut self.bytes[begin..begin + (end - first.start) as usize]);
        if run > 1 && read.is_err() {
            (run, self.one_by_one) = (1, true);
            input.read_at(first.start, &mut self.bytes[begin..begin + (first.end - first.start) as usize])?;
        } else {
            read?;
        }
        self.read = nth + run;
        Ok(())
    }

    /// Begins a job of records in memory.
    pub(crate) fn hold(&mut self, held: &[u8], largest: usize, samples: &[u64], place: impl Fn(u64) -> Range<u64>) {
        self.late = false;
        self.samples.clear();
        self.samples.extend_from_slice(samples);
        (self.near, self.group) = (0, group(largest));
        self.bring_near(held, 0, place);
    }

    /// The bytes of record `sample`, the job's `nth`, which was fetched.
    pub(crate) fn bytes<'a>(
        &'a mut self,
        input: &'a Input,
        largest: usize,
        sample: u64,
        nth: usize,
        place: impl Fn(u64) -> Range<u64>,
    ) -> &'a [u8] {
        let range = place(sample);
        match input.slice() {
            Some(held) => {
                if nth + self.group > self.near {
                    self.bring_near(held, nth, place);
                }
                &held[range.start as usize..range.end as usize]
            }
            None => {
                let read = if self.is_gathered { self.gathered.bytes() } else { &self.bytes };
                &read[nth * largest..][..(range.end - range.start) as usize]
            }
        }
    }
}

impl Fetched {
    /// Prefetches the next records, two groups ahead of record `nth`.
    #[inline(never)]
    fn bring_near(&mut self, held: &[u8], nth: usize, place: impl Fn(u64) -> Range<u64>) {
        let end = (nth + 2 * self.group).min(self.samples.len());
        for sample in self.samples.get(self.near..end).unwrap_or_default() {
            prefetch_record(held, &place(*sample));
        }
        self.near = end;
    }
}
