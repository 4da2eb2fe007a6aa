//! Copies records from memory into rows, and has the processor prefetch them.

use std::ops::Range;

use crate::row::RowsMut;
use crate::storage::prefetch;

use super::Job;

/// Records up to this size are prefetched as a whole. The processor predicts the rest of longer ones: prefetching all
/// of 3 KB takes longer than copying it.
pub(super) const WHOLE_BYTES: usize = 512;

/// For longer records, the first line of each page is prefetched: there the processor's prediction begins again, and
/// the page must be looked up. With 1 KiB of each page, a record of 12 KB takes 1.2 times the processor time.
pub(super) const PAGE_BYTES: usize = 4096;
const LINE_BYTES: usize = 64;

/// How many records ahead of the one that is copied are fetched. There are enough small ones that the lookups of their
/// pages overlap (a third less time for 64 bytes than with 4, measured in a separate loop). There are few long ones,
/// because they have many pages.
const NEXT_SMALL: usize = 32;
const NEXT_LONG: usize = 4;

/// Only so much of a record is prefetched.
const MAX_BYTES: usize = 64 << 10;

/// Copies the job's records, of `record_bytes` each, from memory into their rows, if no record has to be looked at by
/// itself and the rows' first tensor holds nothing else.
pub(super) fn copy_rows(
    job: &mut Job<'_>,
    rows: &mut RowsMut<'_>,
    held: &[u8],
    record_bytes: usize,
    place: impl Fn(u64) -> Range<u64>,
) -> bool {
    if !job.is_one() {
        return false;
    }
    let samples = job.samples();
    let Some(into) = rows.tensor_bytes(0).filter(|into| into.len() == samples.len() * record_bytes) else {
        return false;
    };
    let mut ahead = samples.iter();
    let next = if record_bytes <= WHOLE_BYTES { NEXT_SMALL } else { NEXT_LONG };
    ahead.by_ref().take(next).for_each(|sample| prefetch_record(held, &place(*sample)));
    for (sample, into) in samples.iter().zip(into.chunks_exact_mut(record_bytes)) {
        if let Some(sample) = ahead.next() {
            prefetch_record(held, &place(*sample));
        }
        if job.is_stopped() {
            break;
        }
        let piece = place(*sample);
        into.copy_from_slice(&held[piece.start as usize..piece.end as usize]);
    }
    job.pass_all();
    job.came_straight(true);
    true
}

pub(super) fn prefetch_record(held: &[u8], range: &Range<u64>) {
    let mut rest = held.get(range.start as usize..range.end as usize).unwrap_or_default();
    if rest.len() <= WHOLE_BYTES {
        return prefetch(rest.as_ptr(), rest.len());
    }
    rest = &rest[..rest.len().min(MAX_BYTES)];
    while !rest.is_empty() {
        let in_page = PAGE_BYTES - rest.as_ptr().addr() % PAGE_BYTES;
        let (page, others) = rest.split_at(in_page.min(rest.len()));
        prefetch(page.as_ptr(), page.len().min(LINE_BYTES));
        rest = others;
    }
}
