use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Instant;

use crate::counters::Counters;
use crate::error::{Error, Result};
use crate::read::Scratch;
use crate::ring::Share;
use crate::schema::Extents;

use super::batch::Batch;
use super::contract::{BatchPlan, Filler, Planner};

/// How a filler's `fetch` is called: directly, or by way of a thread that may be left behind.
pub(crate) type Fetch<'a> = dyn FnMut(&dyn Filler, &BatchPlan, Range<usize>, usize, &mut Scratch) -> Result<()> + 'a;

/// Fills a share's rows: fetches all, then decodes all. Bad rows and caught panics go to the batch's faults.
///
/// `stopped` is asked between rows; a stopped share is left as it is. `fetch` calls the filler's.
pub(crate) fn fill_rows(
    filler: &dyn Filler,
    share: &mut Share<Batch>,
    scratch: &mut Scratch,
    counters: &Counters,
    stopped: impl Fn() -> bool,
    fetch: &mut Fetch<'_>,
) {
    let rows = share.rows();
    let mut bad = Vec::new();
    if !share.payload().plan.faults.is_empty() {
        bad.extend(share.payload().plan.faults.iter().map(|(row, _)| *row));
    }
    let begin = Instant::now();
    for (nth, row) in rows.clone().enumerate() {
        if stopped() {
            return;
        }
        let is_bad = bad.contains(&row);
        // Every job begins with its first record, be it bad: that is how readers tell it from the job before.
        if is_bad && nth > 0 {
            continue;
        }
        let plan = &share.payload().plan;
        let fetched = caught(|| fetch(filler, plan, rows.clone(), nth, scratch));
        if let (Err(error), false) = (fetched, is_bad) {
            report(share.payload(), filler, row, error);
            bad.push(row);
        }
    }
    let fetched = Instant::now();
    for (nth, row) in rows.clone().enumerate() {
        if stopped() {
            return;
        }
        if !bad.contains(&row) {
            let decoded = caught(|| {
                let (batch, mut out) = share.payload_and_row(filler.schema().tensors(), row);
                filler.decode(&batch.plan, row, nth, scratch, &mut out)
            });
            if let Err(error) = decoded {
                report(share.payload(), filler, row, error);
            }
        }
    }
    counters.read.busy(fetched - begin, rows.len());
    counters.decode.busy(fetched.elapsed(), rows.len());
}

/// Fetches on the calling thread.
pub(crate) fn fetch_directly(
    filler: &dyn Filler,
    plan: &BatchPlan,
    rows: Range<usize>,
    nth: usize,
    scratch: &mut Scratch,
) -> Result<()> {
    filler.fetch(plan, rows, nth, scratch)
}

/// Decodes row `from` of `plan`, fetched as the job's `nth`, into row `to` of a share.
pub(super) fn decode_row(
    filler: &dyn Filler,
    share: &mut Share<Batch>,
    plan: &BatchPlan,
    from: usize,
    to: usize,
    nth: usize,
    scratch: &mut Scratch,
) -> Result<()> {
    caught(|| {
        let (_, mut out) = share.payload_and_row(filler.schema().tensors(), to);
        filler.decode(plan, from, nth, scratch, &mut out)
    })
}

/// The longest extents among some rows of a plan; bad rows are returned instead of measured.
pub(crate) fn measure_rows(
    filler: &dyn Filler,
    plan: &BatchPlan,
    rows: Range<usize>,
    scratch: &mut Scratch,
    mut fault: impl FnMut(usize, Error),
) -> Extents {
    let mut longest = Extents::default();
    for row in rows {
        if plan.faults.iter().any(|(bad, _)| *bad == row) {
            continue;
        }
        match caught(|| filler.measure(plan, row, scratch)) {
            Ok(extents) => longest = longest.max(extents),
            Err(error) => fault(row, located(filler, plan, row, error)),
        }
    }
    longest
}

#[cold]
fn report(batch: &Batch, filler: &dyn Filler, row: usize, error: Error) {
    batch.faults.lock().push((row, located(filler, &batch.plan, row, error)));
}

/// Adds what the reader knows of the row's place to what the error says already.
pub(super) fn located(filler: &dyn Filler, plan: &BatchPlan, row: usize, mut error: Error) -> Error {
    let Ok(place) = caught(|| Ok(filler.place(plan, row))) else { return error.at_record(plan.samples[row]) };
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

/// Asks the planner for the next batch of the epoch; `false` ends it.
pub(crate) fn plan_batch(planner: &mut dyn Planner, into: &mut BatchPlan) -> Result<bool> {
    let planned = caught(|| planner.plan(into))?;
    if planned {
        into.check()?;
    }
    Ok(planned)
}

/// Runs user or decoder code; a panic becomes an error.
pub(crate) fn caught<T>(work: impl FnOnce() -> Result<T>) -> Result<T> {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|panic| {
        let error = Error::from_panic(&*panic);
        // What the panic carries is the user's, too: one whose destructor panics is leaked.
        if let Err(again) = catch_unwind(AssertUnwindSafe(|| drop(panic))) {
            std::mem::forget(again);
        }
        Err(error)
    })
}
