use std::fmt;
use std::time::Duration;

use crate::caught::caught;
use crate::counters::{Counters, Inside, Lap, Spans, Spent, Tick, add};
use crate::error::{Error, ErrorKind, Result};
use crate::positions::sample_key;
use crate::random::RandomKey;
use crate::sync::{AtomicBool, Ordering};

use super::sample::Sample;

/// The records that one worker reads and then decodes together, with the next one to process and the bad ones.
///
/// One call per job, instead of one per record, makes tiny records cheap.
pub struct Job<'a> {
    samples: &'a [u64],
    /// The draw number of each record; empty if no sample is drawn several times.
    draws: &'a [u64],
    key: RandomKey,
    /// If they are a [part](Self::part) of a job: their positions in it, and all its records.
    places: &'a [usize],
    whole: &'a [u64],
    stop: Option<&'a AtomicBool>,
    reading: bool,
    next: usize,
    bad: Vec<usize>,
    faults: Vec<(usize, Error)>,
    is_straight: bool,
    /// Whether the user's code was interrupted and must not be called for further records.
    is_interrupted: bool,
    /// Whether processor time is measured.
    with_cpu: bool,
    read_late: Spent,
    transformed: Spent,
    /// Time spent waiting to begin the transforms.
    lock_wait: Duration,
    /// When the last of each began and ended.
    read_late_in: Option<(Tick, Tick)>,
    transformed_in: Option<(Tick, Tick)>,
    watch: Option<Watch>,
}

/// A shorter delay before the transforms is the call itself, not a wait.
const LOCK_WAIT: Duration = Duration::from_micros(1);
/// Largest job whose records are timed one by one. Records that take long come in small jobs.
const WATCHED: usize = 64;

/// What is done with the records.
#[derive(Clone, Copy)]
enum Phase {
    Read = 0,
    Decode = 1,
    Transform = 3,
}

/// The place of resizing, which is a part of decoding, among the times of a record.
const RESIZE: usize = 2;

/// How long each record took in each phase, measured from one call of `advance` to the next.
struct Watch {
    since: Tick,
    at: Option<usize>,
    phase: Phase,
    /// The time spent on resizing before then.
    resized: Duration,
    times: [[Duration; 4]; WATCHED],
}

impl Watch {
    /// The current record is done, and `next` begins.
    fn lap(&mut self, next: Option<usize>) {
        if self.at.is_none() && next.is_none() {
            return;
        }
        let (now, resized) = (Tick::now(), Inside::so_far().resizing);
        if let Some(times) = self.at.and_then(|at| self.times.get_mut(at)) {
            let resizing = resized.saturating_sub(self.resized);
            times[self.phase as usize] += now.since(self.since).saturating_sub(resizing);
            times[RESIZE] += resizing;
        }
        (self.since, self.at, self.resized) = (now, next, resized);
    }
}

impl fmt::Debug for Job<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Job").field("samples", &self.samples).field("next", &self.next).finish_non_exhaustive()
    }
}

impl<'a> Job<'a> {
    /// A job that reads the records `samples`; `key` is that of the epoch.
    pub fn new(samples: &'a [u64], key: RandomKey) -> Self {
        Self {
            samples,
            draws: &[],
            key,
            places: &[],
            whole: &[],
            stop: None,
            reading: true,
            next: 0,
            bad: Vec::new(),
            faults: Vec::new(),
            is_straight: false,
            is_interrupted: false,
            with_cpu: false,
            read_late: Spent::default(),
            transformed: Spent::default(),
            lock_wait: Duration::ZERO,
            read_late_in: None,
            transformed_in: None,
            watch: None,
        }
    }

    /// Sets the draw number of each record, if samples come several times in the epoch.
    pub(crate) fn drawn(self, draws: &'a [u64]) -> Self {
        Self { draws, ..self }
    }

    /// Also measures processor time, and the time of each record if that is worth it.
    pub(crate) fn timed(&mut self, with_cpu: bool, each: bool) {
        self.with_cpu = with_cpu;
        if each && self.samples.len() <= WATCHED {
            let times = [Default::default(); WATCHED];
            let resized = Inside::so_far().resizing;
            self.watch = Some(Watch { since: Tick::now(), at: None, phase: Phase::Read, resized, times });
        }
    }

    /// Ends early when `stop` is set.
    pub(crate) fn until(&mut self, stop: &'a AtomicBool) {
        self.stop = Some(stop);
    }

    /// Marks record `nth` as known to be bad.
    pub(crate) fn set_bad(&mut self, nth: usize) {
        self.bad.push(nth);
    }

    /// All records of the job, the bad ones included.
    #[inline]
    pub fn samples(&self) -> &'a [u64] {
        self.samples
    }

    /// Record `nth` and the key of its randomness.
    #[inline]
    pub fn sample(&self, nth: usize) -> Sample {
        let id = self.samples[nth];
        let (place, named) = self.places.get(nth).map_or((nth, id), |place| (*place, self.whole[*place]));
        Sample { id, key: sample_key(self.key, named, self.draws.get(place).copied().unwrap_or(0)) }
    }

    /// The records at `places` as a separate job, for the reader that has them and calls them `records`. They keep the
    /// keys of their randomness. In the end, their results are [taken over](Self::join).
    pub(crate) fn part<'b>(&mut self, records: &'b [u64], places: &'b [usize]) -> Job<'b>
    where
        'a: 'b,
    {
        debug_assert!(!self.is_part() && places.is_sorted() && records.len() == places.len());
        let mut part =
            Job { samples: records, draws: self.draws, places, whole: self.samples, ..Job::new(&[], self.key) };
        (part.stop, part.reading) = (self.stop, self.reading);
        (part.is_interrupted, part.with_cpu) = (self.is_interrupted, self.with_cpu);
        part.bad.extend(self.bad.iter().filter_map(|bad| places.binary_search(bad).ok()));
        part.watch = self.watch.take();
        part
    }

    /// Takes over the results of a [part](Self::part).
    pub(crate) fn join(&mut self, part: Job<'_>) {
        let Job { places, bad, faults, watch, is_interrupted, .. } = part;
        self.watch = watch;
        self.is_interrupted |= is_interrupted;
        for place in bad.into_iter().map(|bad| places[bad]) {
            if !self.bad.contains(&place) {
                self.bad.push(place);
            }
        }
        if !faults.is_empty() {
            self.faults.extend(faults.into_iter().map(|(nth, error)| (places[nth], error)));
            self.faults.sort_by_key(|(nth, _)| *nth);
        }
        self.add_read_late(part.read_late, part.read_late_in);
    }

    fn add_read_late(&mut self, spent: Spent, span: Option<(Tick, Tick)>) {
        self.read_late = self.read_late.plus(spent);
        self.read_late_in = match (self.read_late_in, span) {
            (Some((begin, _)), Some((_, end))) => Some((begin, end)),
            (one, other) => one.or(other),
        };
    }

    /// A job of the records that the samples of this job are made of. In the end, it is [taken over](Self::take_over).
    pub(crate) fn of_records<'b>(&self, records: &'b [u64]) -> Job<'b>
    where
        'a: 'b,
    {
        let mut own = Job::new(records, self.key);
        (own.stop, own.reading) = (self.stop, self.reading);
        (own.is_interrupted, own.with_cpu) = (self.is_interrupted, self.with_cpu);
        own
    }

    /// Takes over the times of a job of [records](Self::of_records), and what interrupted it. It is for the caller to
    /// know which samples its bad records are part of.
    pub(crate) fn take_over(&mut self, mut records: Job<'_>) {
        self.add_read_late(records.read_late, records.read_late_in);
        if let Some((_, interruption)) =
            records.take_faults().into_iter().find(|(_, error)| error.kind() == ErrorKind::Interrupted)
        {
            self.fault(interruption);
        }
    }

    /// Whether these records are a part of a job.
    pub(crate) fn is_part(&self) -> bool {
        !self.places.is_empty()
    }

    /// Moves to the next record that is not known to be bad, and returns its position in the job. While reading, the
    /// first record always comes, because readers use it to notice a new job.
    #[inline]
    pub fn advance(&mut self) -> Option<usize> {
        let next = self.go_on();
        if let Some(watch) = &mut self.watch {
            watch.lap(next.map(|nth| self.places.get(nth).copied().unwrap_or(nth)));
        }
        next
    }

    #[inline]
    fn go_on(&mut self) -> Option<usize> {
        while self.next < self.samples.len() && !self.is_stopped() {
            let nth = self.next;
            self.next += 1;
            if self.bad.is_empty() || (self.reading && nth == 0) || !self.bad.contains(&nth) {
                return Some(nth);
            }
        }
        None
    }

    /// Reports the result of the record that `advance` returned last. The first error makes it a bad record.
    #[inline]
    pub fn report(&mut self, result: Result<()>) {
        if let Err(error) = result {
            self.fault(error);
        }
    }

    #[cold]
    fn fault(&mut self, error: Error) {
        let is_interruption = error.kind() == ErrorKind::Interrupted;
        self.is_interrupted |= is_interruption;
        let nth = self.next.saturating_sub(1);
        let is_known = self.bad.contains(&nth);
        if !is_known {
            self.bad.push(nth);
        }
        // An interruption is no fault of its record, and what ended the job must be known in any case.
        if !is_known || is_interruption {
            self.faults.push((nth, error));
        }
    }

    /// Marks all remaining records as bad, for the same reason.
    #[cold]
    pub(crate) fn refuse_rest(&mut self, kind: ErrorKind, message: &str) {
        while self.advance().is_some() {
            self.fault(Error::new(kind, message.to_owned()));
        }
    }

    /// Whether no record needs separate treatment: none is bad, and none is timed. They may then be processed without
    /// [`advance`](Self::advance).
    pub(crate) fn is_one(&self) -> bool {
        self.next == 0 && self.bad.is_empty() && self.watch.is_none()
    }

    /// Marks all records as good.
    pub(crate) fn pass_all(&mut self) {
        self.next = self.samples.len();
    }

    /// Sets whether the decoded values went into the rows without another copy.
    pub(crate) fn came_straight(&mut self, is_straight: bool) {
        self.is_straight = is_straight;
    }

    /// Whether all values went straight into the rows. A job may then have any number of records, because none of the
    /// data that it needs again leaves the processor's cache.
    pub(crate) fn is_straight(&self) -> bool {
        self.is_straight
    }

    /// Begins again with the first record, to read it for another reader.
    pub(crate) fn read_again(&mut self) {
        self.begin_again(Phase::Read);
    }

    /// Begins again with the first record, to decode it.
    pub(crate) fn decode_again(&mut self) {
        self.begin_again(Phase::Decode);
    }

    /// Begins again with the first record, to transform it.
    pub(crate) fn transform_again(&mut self) {
        self.begin_again(Phase::Transform);
    }

    fn begin_again(&mut self, phase: Phase) {
        (self.next, self.reading, self.is_straight) = (0, matches!(phase, Phase::Read), false);
        if let Some(watch) = &mut self.watch {
            watch.lap(None);
            watch.phase = phase;
        }
    }

    /// Reads the clock.
    pub(crate) fn lap(&self) -> Lap {
        Lap::now(self.with_cpu)
    }

    /// Counts the time from `begin` to now, while the job is decoded, as reading: for a reader that reads straight into
    /// rows.
    pub(crate) fn read_since(&mut self, begin: Lap) {
        let end = self.lap();
        self.read_late = self.read_late.plus(begin.to(end));
        self.read_late_in = Some((begin.at(), end.at()));
    }

    /// Counts the time from `begin` to now, while the job is decoded, as transforms.
    pub(crate) fn transformed_since(&mut self, begin: Lap) {
        let end = self.lap();
        self.transformed = self.transformed.plus(begin.to(end));
        self.transformed_in = Some((begin.at(), end.at()));
    }

    /// The transforms should have begun at `asked`, and begin now.
    pub(crate) fn waited_to_transform(&mut self, asked: Tick) {
        self.lock_wait += asked.elapsed();
    }

    /// Records the time spent from `begin` to `read`, when reading ended, and from there until now; returns the current
    /// time.
    pub(crate) fn count(&mut self, counters: &Counters, begin: Lap, read: Lap) -> Spans {
        if let Some(watch) = &mut self.watch {
            watch.lap(None);
        }
        let (end, inside) = (self.lap(), Inside::take());
        let decoded = read.to(end).minus(self.read_late).minus(self.transformed);
        let resized = decoded.part(inside.resizing);
        let spent = [begin.to(read).plus(self.read_late), decoded.minus(resized), resized, self.transformed];
        let samples = self.samples.len();
        // A stage that has nothing to do is left out, with its time.
        let stages = [
            Some(&counters.read),
            Some(&counters.decode),
            (!resized.wall.is_zero()).then_some(&counters.resize),
            (!self.transformed.wall.is_zero()).then_some(&counters.transform),
        ];
        for (stage, spent) in stages.iter().zip(spent) {
            if let Some(stage) = stage {
                stage.busy(spent, samples);
            }
        }
        if !inside.memory_wait.is_zero() {
            add(&counters.memory_wait_ns, inside.memory_wait);
        }
        if self.lock_wait >= LOCK_WAIT {
            add(&counters.lock_wait_ns, self.lock_wait);
        }
        match &self.watch {
            Some(watch) => {
                for (sample, times) in self.samples.iter().zip(&watch.times) {
                    for (stage, time) in stages.iter().zip(times) {
                        if let Some(stage) = stage {
                            stage.times.record(*time, 1);
                        }
                    }
                    counters.slowest.offer(*sample, *times);
                }
            }
            None => {
                let each = |spent: Spent| spent.wall / samples.max(1) as u32;
                for (stage, time) in stages.iter().zip(spent.map(each)) {
                    if let Some(stage) = stage {
                        stage.times.record(time, samples as u64);
                    }
                }
            }
        }
        Spans {
            begin: begin.at(),
            read: read.at(),
            read_late: self.read_late_in,
            transformed: self.transformed_in,
            end: end.at(),
        }
    }

    #[inline]
    pub(crate) fn is_stopped(&self) -> bool {
        self.is_interrupted || self.stop.is_some_and(|stop| stop.load(Ordering::Acquire))
    }

    /// Whether record `nth` is known to be bad.
    pub(crate) fn is_bad(&self, nth: usize) -> bool {
        self.bad.contains(&nth)
    }

    /// Number of records that `advance` has passed.
    pub(crate) fn passed(&self) -> usize {
        self.next
    }

    /// Whether `advance` has passed all records.
    pub(crate) fn has_passed_all(&self) -> bool {
        self.next >= self.samples.len()
    }

    /// The errors reported so far, each with its record's place in the job.
    pub(crate) fn take_faults(&mut self) -> Vec<(usize, Error)> {
        std::mem::take(&mut self.faults)
    }
}

/// Calls `work` until it has passed all records of the job. A panic becomes the error of the current record.
pub(crate) fn caught_each(job: &mut Job<'_>, mut work: impl FnMut(&mut Job<'_>)) {
    loop {
        let passed = job.passed();
        let Err(error) = caught(|| {
            work(job);
            Ok(())
        }) else {
            return;
        };
        // A panic before the first record counts as an error of that record, so that each turn makes progress.
        if job.passed() == passed && job.advance().is_none() {
            return;
        }
        job.report(Err(error));
    }
}

/// Calls `work` as [`caught_each`] does. Records that it leaves out are bad, because their rows were not written.
pub(crate) fn decode_each(job: &mut Job<'_>, work: impl FnMut(&mut Job<'_>)) {
    caught_each(job, work);
    if !job.has_passed_all() {
        job.refuse_rest(
            ErrorKind::Data,
            "decode_all did not go through all records of its job: this one is not decoded",
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::ErrorKind;

    fn passed(job: &mut Job<'_>) -> Vec<usize> {
        std::iter::from_fn(|| job.advance()).collect()
    }

    #[test]
    fn bad_records_are_passed_over_but_a_job_is_read_from_its_first_record() {
        let mut job = Job::new(&[10, 11, 12, 13], RandomKey::new(1));
        job.set_bad(0);
        job.set_bad(2);
        assert_eq!(passed(&mut job), [0, 1, 3]);
        job.report(Err(Error::new(ErrorKind::Data, "the last")));
        job.report(Err(Error::new(ErrorKind::Data, "is bad already")));
        job.read_again();
        assert_eq!(passed(&mut job), [0, 1]);
        job.decode_again();
        assert_eq!(passed(&mut job), [1]);
        let faults = job.take_faults();
        assert_eq!((faults.len(), faults[0].0, faults[0].1.message()), (1, 3, "the last"));
    }

    #[test]
    fn an_interrupted_job_ends_for_all_that_would_come_after() {
        let mut job = Job::new(&[1, 2, 3], RandomKey::new(1));
        assert_eq!(job.advance(), Some(0));
        job.report(Err(Error::new(ErrorKind::Interrupted, "a key was pressed")));
        assert_eq!(job.advance(), None);
        job.decode_again();
        assert_eq!((job.advance(), job.take_faults().len()), (None, 1));
        // Also where a record is read that is bad anyway.
        let mut job = Job::new(&[1, 2, 3], RandomKey::new(1));
        job.set_bad(0);
        assert_eq!(job.advance(), Some(0));
        job.report(Err(Error::new(ErrorKind::Interrupted, "a key was pressed")));
        assert_eq!((job.advance(), job.take_faults().len()), (None, 1));
    }

    #[test]
    fn a_stopped_job_ends() {
        let stop = AtomicBool::new(false);
        let mut job = Job::new(&[1, 2, 3], RandomKey::new(1));
        job.until(&stop);
        assert_eq!(job.advance(), Some(0));
        stop.store(true, Ordering::Release);
        assert_eq!(job.advance(), None);
    }
}
