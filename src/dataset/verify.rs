use std::collections::BTreeMap;
use std::ops::{ControlFlow, Range};

use crossbeam_channel::{Receiver, Sender, bounded};
use serde::Serialize;

use crate::caught::caught;
use crate::counters::DamageTally;
use crate::error::{Error, ErrorKind, Result};
use crate::layout::Layout;
use crate::read::{Job, Scratch};
use crate::row::RowMut;
use crate::schema::Extents;
use crate::stats::DamageStats;
use crate::sync::Mutex;

use super::contract::{BatchPlan, Filler, Planner, Source};
use super::fill::{PlanTerms, fetch_rows, located, plan_batch};

/// Maximum number of bad samples that a [`VerifyReport`] lists: the first ones. Others are only counted.
const LISTED: usize = 100_000;

/// Number of samples whose bytes a worker holds at a time: enough to read neighbours at once, and few enough for large
/// files.
const FETCHED: usize = 8;

/// The part of each sample that was checked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum VerifiedPart {
    /// Its values, which were decoded.
    #[default]
    Values,
    /// The number of fields and their text: for a table without settings, whose columns may hold anything.
    Form,
}

/// Every bad sample of a source. If the source has several files, a file that can't be opened counts as one bad sample,
/// but not as a sample that was read.
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct VerifyReport {
    /// The part of each sample that was checked.
    pub checked: VerifiedPart,
    /// Samples that were read, bad ones included.
    pub samples: u64,
    /// How many of them are bad.
    pub bad_samples: u64,
    /// The first 100,000 bad samples in the source's order, each with its place and reason.
    pub bad: Vec<Error>,
    /// Samples with damaged images that are loaded despite the damage, because libjpeg loads them with a warning. They
    /// are bad only with [`ImageOptions::strict`](crate::images::ImageOptions::strict).
    pub damaged: u64,
    /// The kinds of damage that were found.
    pub damage: Vec<DamageStats>,
    /// Why reading stopped, if the source was not read to its end.
    pub ended_by: Option<Error>,
}

impl VerifyReport {
    /// Whether everything was read and nothing is bad.
    pub fn is_ok(&self) -> bool {
        self.bad_samples == 0 && self.ended_by.is_none()
    }

    /// Adds what was found in the next part of the same data.
    pub(crate) fn add(&mut self, other: Self) {
        self.samples += other.samples;
        self.bad_samples += other.bad_samples;
        self.bad.extend(other.bad);
        self.bad.truncate(LISTED);
        self.damaged += other.damaged;
        for damage in other.damage {
            match self.damage.iter_mut().find(|own| own.kind == damage.kind) {
                Some(own) => own.images += damage.images,
                None => self.damage.push(damage),
            }
        }
        self.ended_by = other.ended_by;
    }
}

/// Progress of a verification.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct VerifyProgress {
    /// Samples read so far.
    pub samples: u64,
    /// How many of them are bad.
    pub bad: u64,
    /// Number of samples, if it is known before reading them.
    pub total: Option<u64>,
}

/// The return value of a callback for progress: nothing, or whether to continue.
pub trait Proceed {
    /// Whether to continue.
    fn proceed(self) -> bool;
}

impl Proceed for () {
    fn proceed(self) -> bool {
        true
    }
}

impl Proceed for ControlFlow<()> {
    fn proceed(self) -> bool {
        self.is_continue()
    }
}

/// Reads and decodes each sample of one epoch on `workers` threads, including the caller's, and keeps no batch.
///
/// Bad samples never end it, under any policy of the source; panics in decoders count as bad samples. Any of the
/// threads calls `on_progress` after each of the source's batches. If it returns [`ControlFlow::Break`], verification
/// stops: the report has the results so far, and [`VerifyReport::ended_by`] is of kind [`ErrorKind::Interrupted`]. Each
/// thread holds one decoded sample and the bytes of a few; otherwise memory grows only with the list of bad samples,
/// which ends at 100,000.
///
/// ```
/// use ringfeed::inspect::verify_source;
/// use ringfeed::read::MemoryReader;
/// use ringfeed::source::ReaderSource;
/// use ringfeed::tensor::Role;
///
/// let source = ReaderSource::new(MemoryReader::new("x", Role::Feature, &[2], vec![0.0f32; 10])?);
/// let report = verify_source(source, 2, |progress| println!("{} samples", progress.samples))?;
/// assert!(report.is_ok() && report.samples == 5);
/// # Ok::<(), ringfeed::Error>(())
/// ```
///
/// # Errors
///
/// Errors of opening the source.
pub fn verify_source<G: Proceed>(
    source: impl Source,
    workers: usize,
    on_progress: impl Fn(VerifyProgress) -> G + Sync,
) -> Result<VerifyReport> {
    verify_known(source, workers, BTreeMap::new(), on_progress)
}

/// Like [`verify_source`]. The samples in `known` are bad for the reasons given there, and are not read.
pub(crate) fn verify_known<G: Proceed>(
    source: impl Source,
    workers: usize,
    known: BTreeMap<u64, Error>,
    on_progress: impl Fn(VerifyProgress) -> G + Sync,
) -> Result<VerifyReport> {
    let opened = Box::new(source).open()?;
    let run = Run {
        known: known.keys().copied().collect(),
        planning: bounded(1),
        found: Mutex::new(Found { bad_samples: known.len() as u64, bad: known, ..Found::default() }),
        filler: &*opened.filler,
        total: opened.samples,
        on_progress: &|progress| on_progress(progress).proceed(),
    };
    let terms = PlanTerms { seed: opened.seed, most_rows: None };
    run.hand_on(Planning { planner: opened.planner, terms, ended: false, ended_by: None });
    std::thread::scope(|scope| {
        for _ in 1..workers {
            // If the system refuses threads, verifying only takes longer: this thread reads everything if necessary.
            let builder = std::thread::Builder::new().name("ringfeed-verify".to_owned());
            if builder.spawn_scoped(scope, || run.work()).is_err() {
                break;
            }
        }
        run.work();
    });
    let Found { samples, bad_samples, bad, damage } = std::mem::take(&mut *run.found.lock());
    let ended_by = run.planning.1.recv().ok().and_then(|planning| planning.ended_by);
    let (damaged, damage) = (damage.images, DamageStats::of(damage.kinds));
    let (checked, bad) = (VerifiedPart::Values, bad.into_values().collect());
    Ok(VerifyReport { checked, samples, bad_samples, bad, damaged, damage, ended_by })
}

struct Run<'a> {
    known: Vec<u64>,
    /// Holds the planner while no thread plans. A thread that plans takes it out, so that no lock is held meanwhile:
    /// planning may read files.
    planning: (Sender<Planning>, Receiver<Planning>),
    found: Mutex<Found>,
    filler: &'a dyn Filler,
    total: Option<u64>,
    on_progress: &'a (dyn Fn(VerifyProgress) -> bool + Sync),
}

struct Planning {
    planner: Box<dyn Planner>,
    terms: PlanTerms,
    ended: bool,
    ended_by: Option<Error>,
}

#[derive(Default)]
struct Found {
    samples: u64,
    bad_samples: u64,
    /// By position.
    bad: BTreeMap<u64, Error>,
    damage: DamageTally,
}

/// A worker's buffers, kept from sample to sample.
#[derive(Default)]
struct Worker {
    scratch: Scratch,
    layout: Layout,
    /// Memory for one sample, aligned like a slot.
    memory: Vec<u64>,
    extents: Vec<Extents>,
    bad: Vec<(u64, Error)>,
    damage: DamageTally,
}

impl Run<'_> {
    fn work(&self) {
        let mut worker = Worker::default();
        let mut plan = BatchPlan::default();
        while self.plan(&mut plan) {
            let padded_from = plan.rows() - plan.padding;
            let faults = std::mem::take(&mut plan.faults);
            let faulty: Vec<usize> = faults.iter().map(|(row, _)| *row).collect();
            let located = |(row, error)| (plan.positions[row], located(self.filler, &plan, row, error));
            worker.bad.extend(faults.into_iter().map(located));
            let (mut samples, mut interruption) = (padded_from, None);
            for start in (0..padded_from).step_by(FETCHED) {
                let rows = start..padded_from.min(start + FETCHED);
                if let Err(error) = worker.verify(self.filler, &plan, rows, &self.known, &faulty) {
                    (samples, interruption) = (start, Some(error));
                    break;
                }
            }
            let proceed = (self.on_progress)(self.report(samples as u64, &mut worker));
            plan.release_records();
            match interruption {
                Some(error) => self.interrupt(error),
                None if !proceed => self.stop(),
                None => {}
            }
        }
    }

    fn plan(&self, into: &mut BatchPlan) -> bool {
        let Ok(mut planning) = self.planning.1.recv() else { return false };
        if !planning.ended {
            match plan_batch(&mut *planning.planner, into, planning.terms) {
                Ok(more) => planning.ended = !more,
                Err(error) => (planning.ended, planning.ended_by) = (true, Some(error)),
            }
        }
        let has_planned = !planning.ended;
        self.hand_on(planning);
        has_planned
    }

    fn hand_on(&self, planning: Planning) {
        // The channel has room: there is only one planner, and both ends live as long as the run.
        let _ = self.planning.0.send(planning);
    }

    fn stop(&self) {
        let Ok(mut planning) = self.planning.1.recv() else { return };
        if !planning.ended {
            planning.ended = true;
            planning.ended_by = Some(Error::new(ErrorKind::Interrupted, "stopped on request"));
        }
        self.hand_on(planning);
    }

    /// Ends the run because a user's code was interrupted: its sample is neither good nor bad.
    fn interrupt(&self, error: Error) {
        let Ok(mut planning) = self.planning.1.recv() else { return };
        planning.ended = true;
        planning.ended_by.get_or_insert(error);
        self.hand_on(planning);
    }

    fn report(&self, samples: u64, worker: &mut Worker) -> VerifyProgress {
        // Dropped after the lock is released, because errors may contain the user's objects.
        let mut surplus = Vec::new();
        let mut found = self.found.lock();
        found.samples += samples;
        found.bad_samples += worker.bad.len() as u64;
        found.damage.add_all(std::mem::take(&mut worker.damage));
        for (position, error) in worker.bad.drain(..) {
            surplus.extend(found.bad.insert(position, error));
            if found.bad.len() > LISTED {
                surplus.extend(found.bad.pop_last().map(|(_, error)| error));
            }
        }
        VerifyProgress { samples: found.samples, bad: found.bad_samples, total: self.total }
    }
}

impl Worker {
    /// Measures all rows, then fetches them, then decodes each that could be fetched.
    ///
    /// # Errors
    ///
    /// Only [`ErrorKind::Interrupted`].
    fn verify(
        &mut self,
        filler: &dyn Filler,
        plan: &BatchPlan,
        rows: Range<usize>,
        known: &[u64],
        faulty: &[usize],
    ) -> Result<()> {
        let samples = &plan.samples[rows.clone()];
        let mut job = plan.job(rows.clone());
        for (nth, row) in rows.clone().enumerate() {
            if known.binary_search(&samples[nth]).is_ok() || faulty.contains(&row) {
                job.set_bad(nth);
            }
        }
        // Measuring may overwrite what was fetched before.
        self.measure(filler, plan, rows.clone(), &mut job)?;
        fetch_rows(filler, plan, rows.clone(), &mut job, &mut self.scratch);
        for (nth, error) in job.take_faults() {
            self.refuse(filler, plan, rows.start + nth, error)?;
        }
        for (nth, row) in rows.enumerate().filter(|(nth, _)| !job.is_bad(*nth)) {
            let decoded = self.decode(filler, plan, row, nth);
            let damage = self.scratch.take_damage();
            match decoded {
                Ok(()) => self.damage.add_all(damage),
                Err(error) => self.refuse(filler, plan, row, error)?,
            }
        }
        Ok(())
    }

    /// Counts a row as bad, unless the error is an interruption.
    fn refuse(&mut self, filler: &dyn Filler, plan: &BatchPlan, row: usize, error: Error) -> Result<()> {
        let error = located(filler, plan, row, error);
        if error.kind() == ErrorKind::Interrupted {
            return Err(error);
        }
        self.bad.push((plan.positions[row], error));
        Ok(())
    }

    fn measure(&mut self, filler: &dyn Filler, plan: &BatchPlan, rows: Range<usize>, job: &mut Job<'_>) -> Result<()> {
        self.extents.clear();
        self.extents.resize(rows.len(), Extents::default());
        if !filler.is_measured() {
            return Ok(());
        }
        for (nth, row) in rows.enumerate() {
            if job.is_bad(nth) {
                continue;
            }
            match caught(|| filler.measure(plan, row, &mut self.scratch)) {
                Ok(extents) => self.extents[nth] = extents,
                Err(error) => {
                    job.set_bad(nth);
                    self.refuse(filler, plan, row, error)?;
                }
            }
        }
        Ok(())
    }

    fn decode(&mut self, filler: &dyn Filler, plan: &BatchPlan, row: usize, nth: usize) -> Result<()> {
        let schema = filler.schema();
        let Self { scratch, layout, memory, extents, .. } = self;
        layout.compute(schema, 1, extents[nth])?;
        let words = layout.bytes().div_ceil(size_of::<u64>());
        if memory.len() < words {
            memory.try_reserve_exact(words - memory.len()).map_err(|error| {
                Error::new(ErrorKind::Limit, format!("no memory for its {} bytes", layout.bytes())).with_source(error)
            })?;
            memory.resize(words, 0);
        }
        caught(|| {
            let mut out = RowMut::new(bytemuck::cast_slice_mut(memory), schema.tensors(), layout, 0);
            filler.decode(plan, row, nth, scratch, &mut out)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dataset::{ReaderSource, StreamSource};
    use crate::dtype::DType;
    use crate::error::Location;
    use crate::read::{RecordReader, Sample, SampleStream, SampleTensor};
    use crate::schema::{Role, TensorSpec};

    /// Every tenth record is bad: in turn, it can't be fetched, measured or decoded, or its decoder panics.
    struct Flaky([TensorSpec; 1]);

    impl Flaky {
        fn at(&self, sample: u64, stage: u64) -> Result<()> {
            match sample.is_multiple_of(10) && sample / 10 % 4 == stage {
                true if stage == 3 => panic!("as asked for"),
                true => Err(Error::new(ErrorKind::Data, format!("stage {stage}"))),
                false => Ok(()),
            }
        }
    }

    impl RecordReader for Flaky {
        fn len(&self) -> u64 {
            1000
        }

        fn tensors(&self) -> &[TensorSpec] {
            &self.0
        }

        fn measure(&self, sample: u64, _: &mut Scratch) -> Result<Extents> {
            self.at(sample, 1).map(|()| Extents::of_length((sample % 7) as u32))
        }

        fn fetch(&self, samples: &[u64], nth: usize, _: &mut Scratch) -> Result<()> {
            self.at(samples[nth], 0)
        }

        fn decode(&self, sample: Sample, _: usize, _: &mut Scratch, row: &mut RowMut<'_>) -> Result<()> {
            assert_eq!(row.tensor(0).shape(), [(sample.id % 7) as usize]);
            row.zero();
            self.at(sample.id, 2)?;
            self.at(sample.id, 3)
        }

        fn place(&self, sample: u64) -> Location {
            Location { path: Some("flaky".into()), byte: Some(sample * 8), ..Location::default() }
        }
    }

    fn flaky() -> ReaderSource {
        let x = TensorSpec::with_dims("x", Role::Feature, DType::F32, vec![crate::schema::Dim::Extent(0)]);
        ReaderSource::new(Flaky([x])).batch_size(30)
    }

    #[test]
    fn every_bad_sample_is_listed_in_order_whatever_failed_and_however_many_threads() {
        for workers in [0, 1, 4] {
            let furthest = Mutex::new((0, 0));
            let report = verify_source(flaky(), workers, |progress| {
                assert_eq!(progress.total, Some(1000));
                let mut furthest = furthest.lock();
                *furthest = (*furthest).max((progress.samples, progress.bad));
            });
            let report = report.unwrap();
            assert_eq!((report.samples, report.bad_samples, report.is_ok()), (1000, 100, false));
            assert_eq!(*furthest.lock(), (1000, 100));
            for (nth, error) in (0u64..).zip(&report.bad) {
                let place = error.location();
                assert_eq!((place.record, place.byte), (Some(nth * 10), Some(nth * 80)), "{error}");
                assert_eq!(error.kind() == ErrorKind::Panicked, nth % 4 == 3, "{error}");
            }
        }
    }

    /// Recognises jobs by their first record, because the contract says that every job begins with it.
    struct Strict([TensorSpec; 1]);

    impl RecordReader for Strict {
        fn len(&self) -> u64 {
            100
        }

        fn tensors(&self) -> &[TensorSpec] {
            &self.0
        }

        fn fetch(&self, samples: &[u64], nth: usize, scratch: &mut Scratch) -> Result<()> {
            let read = scratch.of::<Vec<u64>>();
            if nth == 0 {
                read.clear();
                read.extend(samples);
            }
            assert_eq!(*read, samples, "a job begins with its first record");
            match samples[nth].is_multiple_of(8) {
                true => Err(Error::new(ErrorKind::Data, "every eighth")),
                false => Ok(()),
            }
        }

        fn decode(&self, sample: Sample, nth: usize, scratch: &mut Scratch, row: &mut RowMut<'_>) -> Result<()> {
            assert_eq!(scratch.of::<Vec<u64>>()[nth], sample.id);
            row.zero();
            Ok(())
        }

        fn place(&self, sample: u64) -> Location {
            Location { record: Some(sample), ..Location::default() }
        }
    }

    #[test]
    fn every_job_begins_with_its_first_record_even_if_that_is_known_to_be_bad() {
        let x = TensorSpec::new("x", Role::Feature, DType::F32, &[]);
        let known = [0, 5, 8, 16].map(|sample| (sample, Error::new(ErrorKind::Format, "known").at_record(sample)));
        let source = ReaderSource::new(Strict([x])).batch_size(16);
        let report = verify_known(source, 1, BTreeMap::from(known), |_| {}).unwrap();
        assert_eq!(report.bad_samples, 14);
        let messages: Vec<_> = report.bad[..4].iter().map(|error| error.message().to_owned()).collect();
        assert_eq!(messages, ["known", "known", "known", "known"]);
        assert!(report.bad.iter().all(|error| error.kind() != ErrorKind::Panicked), "{:?}", report.bad);
    }

    /// Measures in the buffer that it fetches into.
    struct Measured([TensorSpec; 1]);

    impl RecordReader for Measured {
        fn len(&self) -> u64 {
            100
        }

        fn tensors(&self) -> &[TensorSpec] {
            &self.0
        }

        fn measure(&self, sample: u64, scratch: &mut Scratch) -> Result<Extents> {
            self.fetch(&[sample], 0, scratch).map(|()| Extents::of_length(2))
        }

        fn fetch(&self, samples: &[u64], nth: usize, scratch: &mut Scratch) -> Result<()> {
            let read = scratch.of::<Vec<u64>>();
            if nth == 0 {
                read.clear();
            }
            read.push(samples[nth]);
            Ok(())
        }

        fn decode(&self, sample: Sample, nth: usize, scratch: &mut Scratch, row: &mut RowMut<'_>) -> Result<()> {
            row.zero();
            match scratch.of::<Vec<u64>>().get(nth) {
                Some(read) if *read == sample.id => Ok(()),
                _ => Err(Error::new(ErrorKind::Data, "it was not fetched")),
            }
        }

        fn place(&self, sample: u64) -> Location {
            Location { record: Some(sample), ..Location::default() }
        }
    }

    #[test]
    fn rows_are_measured_before_they_are_fetched() {
        let x = TensorSpec::with_dims("x", Role::Feature, DType::F32, vec![crate::schema::Dim::Extent(0)]);
        for workers in [0, 2] {
            let report = verify_source(ReaderSource::new(Measured([x.clone()])), workers, |_| {}).unwrap();
            assert_eq!((report.samples, report.bad_samples), (100, 0), "{:?}", report.bad);
        }
    }

    #[test]
    fn what_is_known_to_be_bad_is_not_read_again() {
        let known = |sample| (sample, Error::new(ErrorKind::Format, "known").at_record(sample));
        let report = verify_known(flaky(), 2, BTreeMap::from([known(5), known(10)]), |_| {}).unwrap();
        assert_eq!(report.bad_samples, 101);
        let told: Vec<_> = report.bad.iter().filter(|error| error.message() == "known").collect();
        assert_eq!(told.iter().map(|error| error.location().record).collect::<Vec<_>>(), [Some(5), Some(10)]);
        assert!(report.bad.is_sorted_by_key(|error| error.location().record));
    }

    #[test]
    fn a_stream_that_breaks_off_is_told_from_one_that_ends() {
        let x = [TensorSpec::new("x", Role::Feature, DType::F32, &[])];
        let samples = (0..100u16).map(|i| match i {
            7 => Err(Error::new(ErrorKind::Data, "bad")),
            50 => Err(Error::new(ErrorKind::Io, "gone")),
            i => Ok(vec![SampleTensor::from(f32::from(i))]),
        });
        let source = StreamSource::from_samples(SampleStream::once(&x, samples).unwrap());
        let report = verify_source(source, 3, |_| {}).unwrap();
        assert_eq!((report.samples, report.bad_samples), (50, 1));
        assert_eq!(report.bad[0].location().record, Some(7));
        assert_eq!(report.ended_by.map(|error| error.kind()), Some(ErrorKind::Io));
    }

    #[test]
    fn whoever_asks_to_stop_keeps_what_was_found() {
        for workers in [1, 4] {
            let report = verify_source(flaky(), workers, |progress| match progress.samples {
                300.. => ControlFlow::Break(()),
                _ => ControlFlow::Continue(()),
            });
            let report = report.unwrap();
            assert!((300..1000).contains(&report.samples) && report.bad_samples >= 30, "{report:?}");
            assert_eq!(report.ended_by.map(|error| error.kind()), Some(ErrorKind::Interrupted));
        }
    }
}
