use std::ops::Range;

use crate::caught::caught;
use crate::counters::{BytesRead, Counters, Inside, Lap, Spans};
use crate::error::{Error, ErrorKind, Result};
use crate::layout::Layout;
use crate::positions::epoch_key;
use crate::read::{Job, Scratch, caught_each, decode_each};
use crate::ring::Share;
use crate::row::RowsMut;
use crate::schema::Extents;
use crate::sync::{AtomicBool, Ordering};

use super::batch::Batch;
use super::contract::{BatchPlan, Filler, Planner, take_interruption};
use super::row_limit::RowLimit;

/// Rows that take this long are timed individually. Reading the clock twice then takes less than half a percent of that
/// time.
const TIMED_ROW_NS: u64 = 20_000;

/// Fills a share's rows: fetches all, then decodes all. Bad rows and caught panics go to the batch's faults.
///
/// `stop` is checked between rows; a stopped share is left as it is, and is not whole. A row takes `row_ns`
/// nanoseconds, as far as known: rows that take long are timed individually.
pub(crate) fn fill_rows(
    filler: &dyn Filler,
    share: &mut Share<Batch>,
    scratch: &mut Scratch,
    counters: &Counters,
    stop: &AtomicBool,
    row_ns: u64,
) -> Filled {
    // What was counted before belongs to other callers.
    BytesRead::take();
    Inside::take();
    let rows = share.rows();
    let with_cpu = scratch.looks_at_cpu();
    let begin = Lap::now(with_cpu);
    let (batch, mut out) = share.payload_and_rows(filler.schema().tensors(), rows.clone());
    let plan = &batch.plan;
    let mut job = plan.job(rows.clone());
    job.until(stop);
    job.timed(with_cpu, row_ns >= TIMED_ROW_NS);
    for (row, _) in plan.faults.iter().filter(|(row, _)| rows.contains(row)) {
        job.set_bad(row - rows.start);
    }
    let reading = counters.reads.enter();
    fetch_rows(filler, plan, rows.clone(), &mut job, scratch);
    let fetched = Lap::now(with_cpu);
    counters.reads.leave(reading, begin.to(fetched).wall, rows.len());
    if !job.is_stopped() {
        decode_rows(filler, plan, rows.clone(), &mut job, scratch, &mut out);
    }
    for (nth, error) in job.take_faults() {
        report(batch, filler, rows.start + nth, error);
    }
    note_damage(batch, scratch);
    counters.count_spilled(scratch.take_spilled());
    let spans = job.count(counters, begin, fetched);
    scratch.worked(spans.end.since(spans.begin));
    counters.read.read(BytesRead::take());
    Filled { is_whole: !stop.load(Ordering::Acquire), is_straight: job.is_straight(), spans }
}

/// The result of filling a share.
#[must_use]
pub(crate) struct Filled {
    pub(crate) is_whole: bool,
    /// See [`Job::is_straight`].
    pub(crate) is_straight: bool,
    pub(crate) spans: Spans,
}

/// Fetches rows. A caught panic becomes the error of the current record.
pub(super) fn fetch_rows(
    filler: &dyn Filler,
    plan: &BatchPlan,
    rows: Range<usize>,
    job: &mut Job<'_>,
    scratch: &mut Scratch,
) {
    caught_each(job, |job| filler.fetch_all(plan, rows.clone(), job, scratch));
}

/// Fills row `to` of a share with the only row of `plan`.
pub(super) fn fill_row(
    filler: &dyn Filler,
    share: &mut Share<Batch>,
    plan: &BatchPlan,
    to: usize,
    scratch: &mut Scratch,
) -> Result<()> {
    let mut job = plan.job(0..1);
    fetch_rows(filler, plan, 0..1, &mut job, scratch);
    let (batch, mut out) = share.payload_and_rows(filler.schema().tensors(), to..to + 1);
    decode_rows(filler, plan, 0..1, &mut job, scratch, &mut out);
    note_damage(batch, scratch);
    let mut faults = job.take_faults();
    let first = take_interruption(&mut faults).or_else(|| Some(faults.into_iter().next()?.1));
    first.map_or(Ok(()), Err)
}

fn note_damage(batch: &Batch, scratch: &mut Scratch) {
    let damage = scratch.take_damage();
    if damage.images > 0 {
        batch.damage.lock().add_all(damage);
    }
}

fn decode_rows(
    filler: &dyn Filler,
    plan: &BatchPlan,
    rows: Range<usize>,
    job: &mut Job<'_>,
    scratch: &mut Scratch,
    out: &mut RowsMut<'_>,
) {
    job.decode_again();
    decode_each(job, |job| filler.decode_all(plan, rows.clone(), job, scratch, out));
}

/// Measures some rows of a plan, and gives each result to `each`. Rows that are known to be bad are left out.
pub(crate) fn measure_rows(
    filler: &dyn Filler,
    plan: &BatchPlan,
    rows: Range<usize>,
    scratch: &mut Scratch,
    mut each: impl FnMut(usize, Result<Extents>),
) {
    for row in rows {
        if plan.faults.iter().any(|(bad, _)| *bad == row) {
            continue;
        }
        let measured = caught(|| filler.measure(plan, row, scratch));
        let is_interrupted = measured.as_ref().is_err_and(|error| error.kind() == ErrorKind::Interrupted);
        each(row, measured.map_err(|error| located(filler, plan, row, error)));
        if is_interrupted {
            break;
        }
    }
}

#[cold]
fn report(batch: &Batch, filler: &dyn Filler, row: usize, error: Error) {
    batch.faults.lock().push((row, located(filler, &batch.plan, row, error)));
}

/// Adds the row's place, as the reader knows it, to the error.
pub(super) fn located(filler: &dyn Filler, plan: &BatchPlan, row: usize, error: Error) -> Error {
    let mut error = error.of_a_user();
    let Ok(mut place) = caught(|| Ok(filler.place(plan, row))) else { return error.at_record(plan.samples[row]) };
    if error.is_in_another_file(&place) {
        (place.line, place.byte) = (None, None);
    }
    if let Some(path) = place.path {
        error = error.at_path(path);
    }
    if let Some(line) = place.line {
        error = error.at_line(line);
    }
    if let (None, Some(byte)) = (error.location().line, place.byte) {
        error = error.at_byte(byte);
    }
    error.at_record(place.record.unwrap_or(plan.samples[row]))
}

/// Adds the place of the batch's largest sample to the error that there is no memory for the batch, if samples differ
/// in size.
#[cold]
pub(crate) fn at_largest(filler: &dyn Filler, plan: &BatchPlan, error: Error) -> Error {
    if !filler.is_measured() || error.path().is_some() {
        return error;
    }
    let (mut layout, mut largest) = (Layout::default(), None);
    measure_rows(filler, plan, 0..plan.rows(), &mut Scratch::default(), |row, measured| {
        let Ok(extents) = measured else { return };
        let bytes = layout.compute(filler.schema(), 1, extents).map_or(usize::MAX, |()| layout.tensor_bytes());
        if largest.is_none_or(|(most, _)| bytes > most) {
            largest = Some((bytes, row));
        }
    });
    match largest {
        Some((_, row)) => located(filler, plan, row, error.and("this is the batch's largest sample")),
        None => error,
    }
}

/// The longest extents of a plan's rows, which are measured only once. Rows that can't be measured become bad.
pub(crate) fn measure_plan(filler: &dyn Filler, plan: &mut BatchPlan, scratch: &mut Scratch) -> Extents {
    if let Some(measured) = plan.measured {
        return measured;
    }
    let mut extents = Extents::default();
    if filler.is_measured() {
        let mut faults = Vec::new();
        let mut lengths = std::mem::take(&mut plan.lengths);
        lengths.clear();
        if filler.schema().is_ragged() {
            lengths.resize(plan.rows(), Extents::default());
        }
        measure_rows(filler, plan, 0..plan.rows(), scratch, |row, measured| match measured {
            Ok(measured) => {
                extents = extents.max(measured);
                if let Some(length) = lengths.get_mut(row) {
                    *length = measured;
                }
            }
            Err(error) => faults.push((row, error)),
        });
        plan.faults.append(&mut faults);
        plan.lengths = lengths;
    }
    plan.measured = Some(extents);
    extents
}

/// The inputs of a plan in addition to its planner.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PlanTerms {
    /// The source's seed.
    pub(crate) seed: u64,
    /// `None` if there is no limit.
    pub(crate) most_rows: Option<RowLimit>,
}

/// Lets the planner write the next batch of the epoch; `false` at its end.
pub(crate) fn plan_batch(planner: &mut dyn Planner, into: &mut BatchPlan, terms: PlanTerms) -> Result<bool> {
    (into.measured, into.most_rows) = (None, terms.most_rows);
    let planned = caught(|| planner.plan(into)).map_err(Error::of_a_user)?;
    if planned {
        into.check()?;
        into.key = Some(epoch_key(terms.seed, into.epoch));
    }
    Ok(planned)
}
