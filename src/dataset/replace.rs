use crate::counters::Counters;
use crate::error::{Error, ErrorKind, Result};
use crate::random::RandomKey;
use crate::read::Scratch;
use crate::ring::Draft;
use crate::schema::Extents;
use crate::sync::Ordering;

use super::batch::{Batch, Kept};
use super::contract::{BatchPlan, Filler};
use super::fill::{Fetch, caught, fill_row};
use super::settle::{BadRecords, compact};

/// Candidates that are tried for one bad record before the batch fails.
const ATTEMPTS: u64 = 32;

/// Tells a replacement's key from those of augmentation.
const REPLACEMENT: u64 = 0x7265_706c_6163_6521;

/// Decides what becomes of a batch's bad rows, when all its rows have reported: batch by batch, on any thread. What is
/// still in the batch's faults afterwards fails it.
pub(crate) fn settle_rows(
    draft: &mut Draft<Batch>,
    policy: BadRecords,
    filler: &dyn Filler,
    scratch: &mut Scratch,
    counters: &Counters,
    fetch: &mut Fetch<'_>,
) {
    let batch = draft.payload_mut();
    let mut faults = batch.faults.lock();
    faults.append(&mut batch.plan.faults);
    if faults.is_empty() {
        return;
    }
    faults.sort_by_key(|(row, _)| *row);
    faults.dedup_by_key(|(row, _)| *row);
    drop(faults);
    match policy {
        BadRecords::Fail => {}
        BadRecords::Skip(_) => compact(draft, counters),
        BadRecords::Replace(_) => {
            if let Err(error) = replace(draft, filler, scratch, counters, fetch) {
                draft.payload_mut().faults.lock().push((0, error));
            }
        }
    }
}

/// Fills every bad row with another sample. If one is longer than the batch was laid out for, the whole batch is laid out
/// and filled again (counted).
fn replace(
    draft: &mut Draft<Batch>,
    filler: &dyn Filler,
    scratch: &mut Scratch,
    counters: &Counters,
    fetch: &mut Fetch<'_>,
) -> Result<()> {
    let batch = draft.payload_mut();
    let mut kept = Kept {
        positions: batch.plan.positions.clone(),
        samples: batch.plan.samples.clone(),
        padding: batch.plan.padding,
    };
    batch.bad = std::mem::take(&mut *batch.faults.lock());
    let mut waiting: Vec<(usize, u64)> = batch.bad.iter().map(|(row, _)| (*row, 0)).collect();
    while !waiting.is_empty() {
        let batch = draft.payload_mut();
        let mut extents = batch.layout.extents();
        let mut chosen = Vec::new();
        for (row, attempt) in waiting.drain(..) {
            let (attempt, candidate) = choose(&batch.plan, row, attempt, filler, scratch)?;
            kept.samples[row] = candidate.samples[0];
            extents = extents.max(candidate_extents(&candidate, filler, scratch)?);
            chosen.push((row, attempt, candidate));
        }
        if extents != batch.layout.extents() {
            counters.refilled.fetch_add(1, Ordering::Relaxed);
            lay_out_again(draft, extents, filler, scratch, fetch)?;
        }
        for (row, attempt, candidate) in chosen {
            let written = fill_draft_row(draft, row, &candidate, filler, scratch, fetch);
            if written.is_err() {
                waiting.push((row, attempt + 1));
            }
        }
    }
    draft.payload_mut().kept = Some(kept);
    Ok(())
}

/// The first candidate from `attempt` on that can be measured, as a plan of one row.
fn choose(
    plan: &BatchPlan,
    row: usize,
    attempt: u64,
    filler: &dyn Filler,
    scratch: &mut Scratch,
) -> Result<(u64, BatchPlan)> {
    let position = plan.positions[row];
    let key: RandomKey = plan.key().with(REPLACEMENT).with(position);
    for attempt in attempt..ATTEMPTS {
        let Some(sample) = filler.any_sample(key.bits(attempt)) else { break };
        let candidate = BatchPlan { samples: vec![sample], ..plan.one_row(row) };
        if sample != plan.samples[row] && candidate_extents(&candidate, filler, scratch).is_ok() {
            return Ok((attempt, candidate));
        }
    }
    let message = format!("no sample could replace the one at position {position}: {ATTEMPTS} others are bad, too");
    Err(Error::new(ErrorKind::TooManyBad, message))
}

fn candidate_extents(candidate: &BatchPlan, filler: &dyn Filler, scratch: &mut Scratch) -> Result<Extents> {
    if filler.schema().is_variable() {
        caught(|| filler.measure(candidate, 0, scratch))
    } else {
        Ok(Extents::default())
    }
}

fn fill_draft_row(
    draft: &mut Draft<Batch>,
    row: usize,
    candidate: &BatchPlan,
    filler: &dyn Filler,
    scratch: &mut Scratch,
    fetch: &mut Fetch<'_>,
) -> Result<()> {
    let mut written = Ok(());
    draft.with_share(|share| written = fill_row(filler, share, candidate, row, scratch, fetch));
    written
}

/// Lays the batch out for longer samples and fills its good rows again; those that are replaced come afterwards.
fn lay_out_again(
    draft: &mut Draft<Batch>,
    extents: Extents,
    filler: &dyn Filler,
    scratch: &mut Scratch,
    fetch: &mut Fetch<'_>,
) -> Result<()> {
    let batch = draft.payload_mut();
    let rows = batch.plan.rows();
    batch.layout.compute(filler.schema(), rows, extents)?;
    let bytes = batch.layout.bytes();
    draft.refit(bytes)?;
    for row in 0..rows {
        let batch = draft.payload();
        if batch.bad.iter().all(|(bad, _)| *bad != row) {
            let plan = batch.plan.one_row(row);
            fill_draft_row(draft, row, &plan, filler, scratch, fetch)?;
        }
    }
    Ok(())
}
