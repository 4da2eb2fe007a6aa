use std::collections::HashMap;

use crate::caught::caught;
use crate::counters::{BytesRead, Counters, DamageTally, Inside, Lap, add};
use crate::error::{Error, ErrorKind, Result};
use crate::random::RandomKey;
use crate::read::Scratch;
use crate::ring::Draft;
use crate::schema::Extents;
use crate::sync::Ordering;
use crate::transform::BatchMut;

use super::batch::{Batch, Kept};
use super::contract::{BatchPlan, Filler, take_interruption};
use super::fill::{fill_row, located};
use super::policy::BadRecords;
use super::settle::compact;

/// Maximum number of candidates that are tried for one bad record before the batch fails.
const ATTEMPTS: u64 = 32;

/// Makes the keys of replacements different from those of augmentation.
const REPLACEMENT: u64 = 0x7265_706c_6163_6521;

/// Makes the keys of batches different from those of samples.
const BATCH: u64 = 0x6261_7463_6865_7321;

/// Handles a batch's bad rows after all rows have reported, and then lets the filler finish the batch. Runs once per
/// batch, on any thread. Faults that are left afterwards make the batch fail.
pub(crate) fn settle_batch(
    draft: &mut Draft<Batch>,
    policy: BadRecords,
    filler: &dyn Filler,
    scratch: &mut Scratch,
    counters: &Counters,
) {
    let rows = draft.payload().layout.rows();
    counters.settle.handled(rows);
    if is_faulty(draft.payload_mut()) {
        let begin = Lap::now(scratch.is_cpu_due());
        BytesRead::take();
        Inside::take();
        settle_rows(draft, policy, filler, scratch, counters);
        // What takes the place of bad samples is read here.
        counters.read.read(BytesRead::take());
        let Inside { memory_wait, .. } = Inside::take();
        if !memory_wait.is_zero() {
            add(&counters.memory_wait_ns, memory_wait);
        }
        let settled = begin.elapsed();
        counters.settle.busy(settled, 0);
        counters.settle.times.record(settled.wall, 1);
    }
    // Of one that can't be delivered, the slot may have no room for all that was laid out.
    let is_deliverable = !draft.payload_mut().has_failed();
    if is_deliverable && filler.schema().is_ragged() {
        let (batch, bytes) = draft.both_mut();
        batch.layout.write_offsets(bytes);
    }
    if is_deliverable && filler.finishes() {
        let begin = Lap::now(scratch.is_cpu_due());
        if let Err(error) = caught(|| finish(draft, filler, scratch)) {
            let index = draft.payload().plan.index;
            draft.payload().fail(error.of_a_user().and(&format!("in batch {index} as a whole")));
        }
        // Its samples were counted when they were transformed one by one.
        counters.transform.busy(begin.elapsed(), 0);
    }
    counters.count_spilled(scratch.take_spilled());
}

/// Lets the filler work on the whole batch, if there is anything to deliver.
fn finish(draft: &mut Draft<Batch>, filler: &dyn Filler, scratch: &mut Scratch) -> Result<()> {
    let (Batch { plan, layout, faults, kept, .. }, bytes) = draft.both_mut();
    if layout.rows() == 0 || !faults.get_mut().is_empty() {
        return Ok(());
    }
    let (samples, padding) = kept.as_ref().map_or((&plan.samples, plan.padding), |kept| (&kept.samples, kept.padding));
    let key = plan.key().with(BATCH).with(plan.positions[0]);
    filler.finish(&mut BatchMut::new(filler.schema(), layout, bytes, key, samples, padding), scratch)
}

/// Whether any row is bad.
fn is_faulty(batch: &mut Batch) -> bool {
    let faults = batch.faults.get_mut();
    faults.append(&mut batch.plan.faults);
    !faults.is_empty()
}

fn settle_rows(
    draft: &mut Draft<Batch>,
    policy: BadRecords,
    filler: &dyn Filler,
    scratch: &mut Scratch,
    counters: &Counters,
) {
    let faults = draft.payload_mut().faults.get_mut();
    faults.sort_by_key(|(row, _)| *row);
    if let Some(error) = take_interruption(faults) {
        return draft.payload().fail(error);
    }
    faults.dedup_by_key(|(row, _)| *row);
    match policy {
        BadRecords::Fail => {}
        BadRecords::Skip(_) => compact(draft, counters),
        BadRecords::Replace(_) => {
            if let Err(error) = replace(draft, filler, scratch, counters) {
                // An error of the batch, not of one of its rows: the batch may be filled again and then succeed.
                draft.payload().fail(error);
            }
        }
    }
}

/// Replaces every bad row by another sample. If one is longer than the layout allows, or has another length in a ragged
/// tensor, the whole batch gets a new layout and is filled again (counted).
fn replace(draft: &mut Draft<Batch>, filler: &dyn Filler, scratch: &mut Scratch, counters: &Counters) -> Result<()> {
    let batch = draft.payload_mut();
    let mut kept = Kept {
        positions: batch.plan.positions.clone(),
        samples: batch.plan.samples.clone(),
        padding: batch.plan.padding,
    };
    batch.bad = std::mem::take(batch.faults.get_mut());
    let mut lengths = batch.plan.lengths.clone();
    let mut waiting: Vec<(usize, u64)> = batch.bad.iter().map(|(row, _)| (*row, 0)).collect();
    // Why the last candidate of a row was bad, too.
    let mut causes: HashMap<usize, Error> = HashMap::new();
    while !waiting.is_empty() {
        let batch = draft.payload_mut();
        let (mut extents, mut is_other) = (batch.layout.extents(), false);
        for (row, attempt) in &mut waiting {
            let tried = causes.remove(row);
            let (chosen, candidate, measured) =
                choose(&batch.plan, *row, *attempt, filler, scratch, tried).map_err(|error| {
                    match batch.bad.iter().find(|(bad, _)| bad == row) {
                        Some((_, own)) => {
                            error.and(&format!("the sample itself: {}", own.message())).at(own.location().clone())
                        }
                        None => error,
                    }
                })?;
            (*attempt, kept.samples[*row]) = (chosen, candidate);
            extents = extents.max(measured);
            if let Some(length) = lengths.get_mut(*row) {
                is_other |= std::mem::replace(length, measured) != measured;
            }
        }
        if is_other || extents != batch.layout.extents() {
            counters.refilled.fetch_add(1, Ordering::Relaxed);
            batch.layout.compute_each(filler.schema(), kept.samples.len(), extents, &lengths)?;
            let bytes = batch.layout.bytes();
            draft.refit(bytes)?;
            *draft.payload_mut().damage.get_mut() = DamageTally::default();
            // All rows have moved, so good rows are filled again, and also those that were replaced in earlier rounds.
            for row in (0..kept.samples.len()).filter(|row| waiting.iter().all(|(waits, _)| waits != row)) {
                fill_as_kept(draft, row, &kept, filler, scratch)?;
            }
        }
        let mut still = Vec::new();
        for (row, attempt) in waiting {
            match fill_as_kept(draft, row, &kept, filler, scratch) {
                Ok(()) => {}
                Err(error) if error.kind() == ErrorKind::Interrupted => return Err(error),
                Err(error) => {
                    causes.insert(row, error);
                    still.push((row, attempt + 1));
                }
            }
        }
        waiting = still;
    }
    draft.payload_mut().kept = Some(kept);
    Ok(())
}

/// The first candidate from `attempt` on that can be measured: the number of the attempt, its sample and its extents.
/// `last` says why the candidate before them was bad.
fn choose(
    plan: &BatchPlan,
    row: usize,
    attempt: u64,
    filler: &dyn Filler,
    scratch: &mut Scratch,
    mut last: Option<Error>,
) -> Result<(u64, u64, Extents)> {
    let position = plan.positions[row];
    let key: RandomKey = plan.key().with(REPLACEMENT).with(position);
    for attempt in attempt..ATTEMPTS {
        let is_urgent = attempt >= ATTEMPTS / 2;
        let Some(sample) = filler.replacement(plan, row, key.bits(attempt), is_urgent) else { break };
        if sample == plan.samples[row] {
            continue;
        }
        let candidate = BatchPlan { samples: vec![sample], ..plan.one_row(row) };
        let measured = match filler.is_measured() {
            true => caught(|| filler.measure(&candidate, 0, scratch)),
            false => Ok(Extents::default()),
        };
        match measured {
            Ok(extents) => return Ok((attempt, sample, extents)),
            Err(error) if error.kind() == ErrorKind::Interrupted => return Err(error),
            Err(error) => last = Some(located(filler, &candidate, 0, error)),
        }
    }
    let last = last.map(|error| format!("; the last one: {error}")).unwrap_or_default();
    let message = format!(
        "no sample could replace the one at position {position}: none of the {ATTEMPTS} that were drawn is good{last}"
    );
    Err(Error::new(ErrorKind::TooManyBad, message))
}

/// Fills row `row` with the sample that was chosen for it.
fn fill_as_kept(
    draft: &mut Draft<Batch>,
    row: usize,
    kept: &Kept,
    filler: &dyn Filler,
    scratch: &mut Scratch,
) -> Result<()> {
    let plan = BatchPlan { samples: vec![kept.samples[row]], ..draft.payload().plan.one_row(row) };
    let mut written = Ok(());
    draft.with_share(|share| written = fill_row(filler, share, &plan, row, scratch));
    written.map_err(|error| located(filler, &plan, 0, error))
}
