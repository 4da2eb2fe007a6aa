use serde::Serialize;

use crate::counters::Counters;
use crate::error::{Error, ErrorKind, Location, Result};
use crate::ring::Draft;
use crate::sync::Ordering;

use super::batch::{Batch, Kept};
use super::policy::BadRecords;
use super::shares::SLACK;

/// A record that could not be used.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct BadRecord {
    /// The epoch in which it was first found, from 0.
    pub epoch: u64,
    /// Its position in that epoch's order.
    pub position: u64,
    /// Its index in the source.
    pub sample: u64,
    /// The kind of error.
    pub kind: ErrorKind,
    /// Where it is: the file, and all other known parts.
    pub place: Location,
    /// Place and reason.
    pub error: String,
    /// Index of the record that replaced it, if bad records are replaced.
    pub replacement: Option<u64>,
    /// How often it was found: in several epochs, or in one epoch that draws it several times.
    pub times: u64,
}

/// Number of bad records whose names are kept.
const NAMED: usize = 100;
/// Number of bad records that an error lists.
const LISTED: usize = 10;
/// If the total is not known, a share is checked only after this many samples.
const SHARE_FROM: u64 = 1000;

/// Removes a batch's bad rows after all its rows have reported; later rows move up. Runs once per batch, on any thread.
pub(super) fn compact(draft: &mut Draft<Batch>, counters: &Counters) {
    let (batch, bytes) = draft.both_mut();
    let faults = batch.faults.get_mut();
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
    batch.bad.append(faults);
}

/// Counts and names bad records in ticket order, and reports when there are too many.
#[derive(Debug)]
pub(crate) struct Settle {
    policy: BadRecords,
    /// Number of samples per epoch. A shard with [buckets](super::Buckets) may have some more in this epoch.
    samples: Option<u64>,
    /// Number of samples since the epoch began or was resumed, bad ones included.
    seen: u64,
    bad_in_epoch: u64,
    /// Number of bad records before the state where the epoch was resumed. Nothing else is known of them.
    found_before: u64,
    /// Whether other shards take records of the same order. A state may then be that of any of them, or one of another
    /// number of shards, so that limits count from the state on.
    is_sharded: bool,
    /// Number of bad records in a row, up to the last one that was settled.
    consecutive: u64,
    /// How many of them may be another shard's.
    before: u64,
    named: Vec<BadRecord>,
    /// The first bad records of this epoch, for an error that lists them.
    listed: Vec<String>,
}

impl Settle {
    pub(crate) fn new(policy: BadRecords, samples: Option<u64>, shards: u32) -> Self {
        Self {
            policy,
            samples,
            seen: 0,
            bad_in_epoch: 0,
            found_before: 0,
            is_sharded: shards > 1,
            consecutive: 0,
            before: 0,
            named: Vec::new(),
            listed: Vec::new(),
        }
    }

    pub(crate) fn policy(&self) -> BadRecords {
        self.policy
    }

    /// Begins an epoch in which `bad` records were found before, the last `run` of them in a row.
    pub(crate) fn begin_epoch(&mut self, bad: u64, run: u32) {
        (self.seen, self.bad_in_epoch) = (0, bad);
        self.found_before = bad;
        self.consecutive = run.into();
        self.before = if self.is_sharded { run.into() } else { 0 };
        self.listed.clear();
    }

    /// Bad records of this epoch so far.
    pub(crate) fn bad_in_epoch(&self) -> u64 {
        self.bad_in_epoch
    }

    /// Number of bad records in a row, up to the last batch.
    pub(crate) fn run(&self) -> u32 {
        self.consecutive.try_into().unwrap_or(u32::MAX)
    }

    /// The first bad records, by name.
    pub(crate) fn named(&self) -> Vec<BadRecord> {
        self.named.clone()
    }

    /// Decides whether the batch may be delivered.
    pub(crate) fn admit(&mut self, draft: &mut Draft<Batch>, counters: &Counters) -> Result<()> {
        let is_whole = draft.is_whole();
        let batch = draft.payload_mut();
        if let Some(error) = batch.take_failure() {
            return Err(error);
        }
        if !is_whole {
            return Err(Error::new(ErrorKind::Panicked, "a part of the batch was dropped before it was filled"));
        }
        let unresolved = std::mem::take(batch.faults.get_mut());
        if let Some((_, error)) = unresolved.into_iter().next() {
            return Err(error);
        }
        // A row of padding repeats a record that counts where it comes by itself.
        let own = batch.plan.rows() - batch.plan.padding;
        self.seen = self.seen.saturating_add(own as u64);
        if batch.bad.is_empty() {
            self.interrupt();
            return Ok(());
        }
        let mut expected = 0;
        let mut longest = 0;
        for (row, error) in batch.bad.iter().filter(|(row, _)| *row < own) {
            let (epoch, position) = (batch.plan.epoch, batch.plan.positions[*row]);
            let replaced = matches!(self.policy, BadRecords::Replace(_));
            let replacement = batch.kept.as_ref().filter(|_| replaced).map(|kept| kept.samples[*row]);
            tracing::warn!(epoch, position, replacement, %error, "a bad record");
            let counter = if replaced { &counters.replaced } else { &counters.skipped };
            counter.fetch_add(1, Ordering::Relaxed);
            self.bad_in_epoch = self.bad_in_epoch.saturating_add(1);
            if *row != expected {
                self.interrupt();
            }
            self.consecutive += 1;
            longest = longest.max(self.consecutive - self.before);
            expected = row + 1;
            let text = error.to_string();
            if self.listed.len() < LISTED && !self.listed.contains(&text) {
                self.listed.push(text.clone());
            }
            let sample = batch.plan.samples[*row];
            let is_full = self.named.len() >= NAMED;
            match self.named.iter_mut().find(|known| known.sample == sample) {
                Some(known) => known.times = known.times.saturating_add(1),
                None if is_full => {}
                None => self.named.push(BadRecord {
                    epoch,
                    position,
                    sample,
                    kind: error.kind(),
                    place: error.location().clone(),
                    error: text,
                    replacement,
                    times: 1,
                }),
            }
        }
        if expected < own {
            self.interrupt();
        }
        let limit = self.policy.limits().and_then(|limits| limits.consecutive).unwrap_or(u64::MAX);
        if longest > limit {
            let what = format!("{longest} bad records in a row, but the policy allows {limit}");
            return Err(self.too_many(what));
        }
        self.check(batch.plan.end)
    }

    /// Checks a share of the total, which is only known at the end of the epoch.
    pub(crate) fn end_epoch(&mut self, position: u64) -> Result<()> {
        if self.samples.is_none() && self.bad_in_epoch > 0 {
            self.samples = Some(position);
            let checked = self.check(position);
            self.samples = None;
            return checked;
        }
        Ok(())
    }

    /// A record was good.
    fn interrupt(&mut self) {
        (self.consecutive, self.before) = (0, 0);
    }

    fn check(&self, position: u64) -> Result<()> {
        let Some(limits) = self.policy.limits() else { return Ok(()) };
        let total = self.samples.map(|samples| samples.max(self.seen)).or((position >= SHARE_FROM).then_some(position));
        let by_share = limits.share.zip(total).map(|(share, total)| (share * total as f64 * (1.0 + SLACK)) as u64);
        let limit = [limits.count, by_share].into_iter().flatten().min().unwrap_or(u64::MAX);
        let counted = if self.is_sharded { self.bad_in_epoch - self.found_before } else { self.bad_in_epoch };
        if counted <= limit {
            return Ok(());
        }
        Err(self.too_many(format!("{counted} bad records in this epoch, but the policy allows {limit}")))
    }

    fn too_many(&self, mut message: String) -> Error {
        message.push(':');
        for bad in &self.listed {
            message.push_str("\n  ");
            message.push_str(bad);
        }
        if self.bad_in_epoch - self.found_before > self.listed.len() as u64 {
            message.push_str("\n  ...");
        }
        if self.found_before > 0 {
            let before = self.found_before;
            message.push_str(&format!(
                "\n  and {before} before the state from which this run resumed: the earlier run has named them"
            ));
        }
        Error::new(ErrorKind::TooManyBad, message)
    }
}
