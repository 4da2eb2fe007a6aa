use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

use crate::counters::Counters;
use crate::error::{Error, ErrorKind, Result};
use crate::ring::Draft;
use crate::sync::Ordering;

use super::batch::{Batch, Kept};

/// What becomes of records that can't be read or decoded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum BadRecords {
    /// The first one ends the epoch, with its error in the batch's place. The default.
    #[default]
    Fail,
    /// They are left out, counted and named; their batches are shorter, and no later batch changes. Beyond a bound the
    /// epoch ends with [`ErrorKind::TooManyBad`].
    Skip {
        /// Most of them in an epoch, as a count.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        count: Option<u64>,
        /// Most of them in an epoch, as a share of its samples (0 to 1). Where the number of samples is not known
        /// beforehand: of the samples so far, from the thousandth on.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        share: Option<f64>,
    },
}

/// A record that was left out.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SkippedRecord {
    /// The epoch, from 0.
    pub epoch: u64,
    /// Position in the epoch's order.
    pub position: u64,
    /// Place and reason.
    pub error: String,
}

/// How many skipped records are kept by name.
const NAMED: usize = 100;
/// How many of them an error lists.
const LISTED: usize = 10;
/// From how many samples on a share of an unknown total is judged.
const SHARE_FROM: u64 = 1000;

/// Takes a batch's bad rows out, when all its rows have reported: later rows move up. Batch by batch, on any thread.
pub(crate) fn compact(draft: &mut Draft<Batch>, policy: BadRecords, counters: &Counters) {
    let (batch, bytes) = draft.both_mut();
    let mut faults = batch.faults.lock();
    faults.append(&mut batch.plan.faults);
    if faults.is_empty() {
        return;
    }
    faults.sort_by_key(|(row, _)| *row);
    faults.dedup_by_key(|(row, _)| *row);
    if policy == BadRecords::Fail {
        return;
    }
    let mut bad = faults.iter().map(|(row, _)| *row).peekable();
    let rows = batch.layout.rows();
    let padded_from = rows - batch.plan.padding;
    let mut kept = Kept::default();
    for row in 0..rows {
        if bad.next_if_eq(&row).is_some() {
            continue;
        }
        if kept.samples.len() != row {
            batch.layout.move_row(bytes, row, kept.samples.len());
            counters.moved_rows.fetch_add(1, Ordering::Relaxed);
        }
        kept.positions.push(batch.plan.positions[row]);
        kept.samples.push(batch.plan.samples[row]);
        kept.padding += usize::from(row >= padded_from);
    }
    drop(bad);
    batch.layout.truncate(kept.samples.len());
    batch.kept = Some(kept);
    batch.skipped.append(&mut faults);
}

/// Counts and names bad records in ticket order, and says when there are too many.
#[derive(Debug)]
pub(crate) struct Settle {
    policy: BadRecords,
    samples: Option<u64>,
    skipped_in_epoch: u64,
    named: VecDeque<SkippedRecord>,
}

impl Settle {
    pub(crate) fn new(policy: BadRecords, samples: Option<u64>) -> Self {
        Self { policy, samples, skipped_in_epoch: 0, named: VecDeque::new() }
    }

    pub(crate) fn policy(&self) -> BadRecords {
        self.policy
    }

    pub(crate) fn begin_epoch(&mut self) {
        self.skipped_in_epoch = 0;
    }

    /// The first skipped records, by name.
    pub(crate) fn named(&self) -> Vec<SkippedRecord> {
        self.named.iter().cloned().collect()
    }

    /// Decides whether the batch may be delivered.
    pub(crate) fn admit(&mut self, draft: &mut Draft<Batch>, counters: &Counters) -> Result<()> {
        let batch = draft.payload_mut();
        let epoch = batch.plan.epoch;
        if self.policy == BadRecords::Fail {
            let faults = std::mem::take(&mut *batch.faults.lock());
            return faults.into_iter().next().map_or(Ok(()), |(_, error)| Err(error));
        }
        for (row, error) in &batch.skipped {
            let position = batch.plan.positions[*row];
            tracing::warn!(epoch, position, %error, "a bad record is skipped");
            counters.skipped.fetch_add(1, Ordering::Relaxed);
            self.skipped_in_epoch += 1;
            if self.named.len() < NAMED {
                self.named.push_back(SkippedRecord { epoch, position, error: error.to_string() });
            }
        }
        if batch.skipped.is_empty() { Ok(()) } else { self.check(batch.plan.end) }
    }

    /// The check of a share whose total only the end of the epoch tells.
    pub(crate) fn end_epoch(&mut self, position: u64) -> Result<()> {
        if self.samples.is_none() && self.skipped_in_epoch > 0 {
            self.samples = Some(position);
            let checked = self.check(position);
            self.samples = None;
            return checked;
        }
        Ok(())
    }

    fn check(&self, position: u64) -> Result<()> {
        let BadRecords::Skip { count, share } = self.policy else { return Ok(()) };
        let total = self.samples.or((position >= SHARE_FROM).then_some(position));
        let by_share = share.zip(total).map(|(share, total)| (share * total as f64) as u64);
        let limit = [count, by_share].into_iter().flatten().min().unwrap_or(u64::MAX);
        if self.skipped_in_epoch <= limit {
            return Ok(());
        }
        let epoch = self.named.back().map_or(0, |record| record.epoch);
        let mut message =
            format!("{} bad records in this epoch, but the policy allows {limit}:", self.skipped_in_epoch);
        for record in self.named.iter().filter(|record| record.epoch == epoch).take(LISTED) {
            message.push_str("\n  ");
            message.push_str(&record.error);
        }
        if self.skipped_in_epoch > LISTED as u64 {
            message.push_str("\n  ...");
        }
        Err(Error::new(ErrorKind::TooManyBad, message))
    }
}
