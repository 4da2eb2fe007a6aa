//! Sources, fillers and page makers that misbehave, and turns taken at the worst moment: every wait still ends, and no
//! batch is lost, reordered or handed out half filled.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use crate::common::{Flaky, Trouble, Waves, ends, workspace, xs};
use ringfeed::error::Location;
use ringfeed::memory::{AnonymousPages, Block, MemoryBudget, PageSource, TempFilePages};
use ringfeed::order::{LastBatch, RandomKey, State};
use ringfeed::read::{Fingerprint, Job, RowMut, RowsMut, SampleStream, SampleTensor, Scratch};
use ringfeed::settings::{BadLimits, BadRecords};
use ringfeed::source::{BatchPlan, Filler, OpenedSource, Planner, ReaderSource, Source, StreamSource};
use ringfeed::tensor::{Dim, Extents, Role, Schema, TensorSpec};
use ringfeed::workspace::{Overflow, shield, wrap};
use ringfeed::{
    AsyncDataSetIterator, AsyncShieldDataSetIterator, DType, DataSet, DataSetIterator, Error, ErrorKind, Result,
    Workspace,
};

#[test]
fn a_test_that_hangs_is_named_and_ended() {
    const HANGS: &str = "RINGFEED_TEST_HANGS";
    if std::env::var_os(HANGS).is_some() {
        crate::common::watchdog::watch_for(Duration::from_millis(100));
        loop {
            std::thread::park();
        }
    }
    let mut child = std::process::Command::new(std::env::current_exe().unwrap());
    let output =
        child.args(["--exact", "hostile::a_test_that_hangs_is_named_and_ended"]).env(HANGS, "1").output().unwrap();
    assert!(!output.status.success(), "{output:?}");
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains("the test hostile::a_test_that_hangs_is_named_and_ended hangs"), "{said}");
}

fn numbers(len: u64) -> ReaderSource {
    ReaderSource::new(Flaky::new(len, &[], Trouble::Stall)).batch_size(10)
}

type Plan = fn(&mut BatchPlan, u64) -> Result<bool>;

/// A source of the user's own: `x` is the sample's number; each half does what the test wants.
#[derive(Clone)]
struct Custom {
    plan: Plan,
    decode: fn(u64) -> Result<()>,
    place: fn(u64) -> Location,
    measure: Option<fn(u64) -> Result<Extents>>,
    any_sample: fn(u64) -> Option<u64>,
    policy: BadRecords,
    /// How many rows of a job are decoded, and the others are passed over in silence.
    decodes: usize,
    /// Once set, nobody learns the schema.
    hides_schema: Arc<AtomicBool>,
}

impl Custom {
    fn new(plan: Plan) -> Self {
        Self {
            plan,
            decode: |_| Ok(()),
            place: |_| Location::default(),
            measure: None,
            any_sample: |bits| Some(bits % 20),
            policy: BadRecords::Fail,
            decodes: usize::MAX,
            hides_schema: Arc::default(),
        }
    }
}

/// Five batches of four.
fn good(plan: &mut BatchPlan, batch: u64) -> Result<bool> {
    plan.samples.extend(4 * batch..4 * batch + 4);
    plan.positions.extend(4 * batch..4 * batch + 4);
    plan.end = 4 * batch + 4;
    Ok(batch < 5)
}

impl Source for Custom {
    fn open(self: Box<Self>) -> Result<OpenedSource> {
        let dims = if self.measure.is_some() { vec![Dim::Extent(0)] } else { vec![] };
        let schema = Schema::new(vec![
            TensorSpec::new("x", Role::Feature, DType::I64, &[]),
            TensorSpec::with_dims("padding", Role::Feature, DType::U8, dims),
        ])?;
        Ok(OpenedSource {
            planner: Box::new(CustomPlanner { plan: self.plan, epoch: 0, batch: 0 }),
            bad_records: self.policy,
            filler: Arc::new(CustomFiller { schema: Arc::new(schema), custom: *self }),
            samples: None,
            batches: None,
            repeatable: true,
            seed: 0,
            fingerprint: Fingerprint::default(),
            runs_on: true,
        })
    }
}

struct CustomPlanner {
    plan: Plan,
    epoch: u64,
    batch: u64,
}

impl Planner for CustomPlanner {
    fn plan(&mut self, into: &mut BatchPlan) -> Result<bool> {
        into.clear();
        into.epoch = self.epoch;
        into.index = self.batch;
        self.batch += 1;
        (self.plan)(into, self.batch - 1)
    }

    fn begin_epoch(&mut self, epoch: u64) -> Result<()> {
        (self.epoch, self.batch) = (epoch, 0);
        Ok(())
    }

    fn seek(&mut self, state: &State) -> Result<()> {
        (self.epoch, self.batch) = (state.epoch, state.position / 10);
        Ok(())
    }
}

struct CustomFiller {
    schema: Arc<Schema>,
    custom: Custom,
}

impl Filler for CustomFiller {
    fn schema(&self) -> &Arc<Schema> {
        assert!(!self.custom.hides_schema.load(Ordering::SeqCst), "no schema");
        &self.schema
    }

    fn measure(&self, plan: &BatchPlan, row: usize, _: &mut Scratch) -> Result<Extents> {
        self.custom.measure.map_or(Ok(Extents::default()), |measure| measure(plan.samples[row]))
    }

    fn fetch(&self, _: &BatchPlan, _: Range<usize>, _: usize, _: &mut Scratch) -> Result<()> {
        Ok(())
    }

    fn decode(&self, plan: &BatchPlan, row: usize, _: usize, _: &mut Scratch, out: &mut RowMut<'_>) -> Result<()> {
        (self.custom.decode)(plan.samples[row])?;
        out.zero();
        out.tensor(0).as_mut_slice::<i64>()?[0] = plan.samples[row] as i64;
        Ok(())
    }

    fn decode_all(
        &self,
        plan: &BatchPlan,
        rows: Range<usize>,
        job: &mut Job<'_>,
        scratch: &mut Scratch,
        out: &mut RowsMut<'_>,
    ) {
        for _ in 0..self.custom.decodes.min(rows.len()) {
            if let Some(nth) = job.advance() {
                job.report(self.decode(plan, rows.start + nth, nth, scratch, &mut out.row(nth)));
            }
        }
    }

    fn any_sample(&self, bits: u64) -> Option<u64> {
        (self.custom.any_sample)(bits)
    }

    fn place(&self, plan: &BatchPlan, row: usize) -> Location {
        (self.custom.place)(plan.samples[row])
    }
}

/// Prefetched by one and by two workers, and shielded.
fn every_way<S: Source + Clone + Send + 'static>(source: &S, check: fn(Result<Box<dyn DataSetIterator>>)) {
    for way in 0..3 {
        let source = source.clone();
        ends(move || {
            let workspace = workspace(way.max(1), 2);
            check(if way == 0 { wrap(shield(source), &workspace) } else { wrap(source, &workspace) });
        });
    }
}

/// What an epoch gives: samples and, at its end, perhaps an error.
fn epoch(iterator: &mut dyn DataSetIterator) -> (Vec<i64>, Option<Error>) {
    let mut seen = Vec::new();
    while let Some(batch) = iterator.next() {
        match batch {
            Ok(batch) => seen.extend(xs(&batch)),
            Err(error) => {
                assert!(iterator.next().is_none(), "an error ends the epoch");
                return (seen, Some(error));
            }
        }
    }
    (seen, None)
}

#[test]
fn a_plan_that_contradicts_itself_is_an_error_in_its_place() {
    let plans: [Plan; 5] = [
        |plan, batch| if batch == 3 { Ok(true) } else { good(plan, batch) },
        |plan, batch| {
            let more = good(plan, batch);
            plan.positions.truncate(if batch == 3 { 1 } else { 4 });
            more
        },
        |plan, batch| {
            plan.padding = if batch == 3 { 5 } else { 0 };
            good(plan, batch)
        },
        |plan, batch| {
            if batch == 3 {
                plan.fault(4, Error::new(ErrorKind::Data, "a row that is not there"));
            }
            good(plan, batch)
        },
        |plan, batch| if batch == 3 { panic!("no plan") } else { good(plan, batch) },
    ];
    for plan in plans {
        for policy in [BadRecords::Fail, BadRecords::Skip(BadLimits::default())] {
            every_way(&Custom { policy, ..Custom::new(plan) }, |iterator| {
                let mut iterator = iterator.unwrap();
                for _ in 0..2 {
                    let (seen, error) = epoch(&mut *iterator);
                    assert_eq!(seen, (0..12).collect::<Vec<_>>());
                    let kind = error.unwrap().kind();
                    assert!([ErrorKind::Config, ErrorKind::Panicked].contains(&kind), "{kind:?}");
                    iterator.reset().unwrap();
                }
            });
        }
    }
}

#[test]
fn a_first_plan_that_panics_or_has_no_samples_is_an_error_of_the_iterators_making() {
    for plan in [|_: &mut BatchPlan, _: u64| panic!("no plan"), |_: &mut BatchPlan, _: u64| Ok(true)] {
        every_way(&Custom::new(plan), |iterator| {
            let kind = iterator.err().unwrap().kind();
            assert!([ErrorKind::Config, ErrorKind::Panicked].contains(&kind), "{kind:?}");
        });
    }
}

#[test]
fn a_schema_that_panics_is_an_error_and_no_batch_is_handed_out_unwritten() {
    ends(|| {
        for turn in 0..30 {
            let custom = Custom::new(good);
            let hides = custom.hides_schema.clone();
            let workspace = workspace(2, turn % 3);
            let shielded = turn % 5 == 0;
            let mut iterator =
                if shielded { wrap(shield(custom), &workspace) } else { wrap(custom, &workspace) }.unwrap();
            hides.store(true, Ordering::SeqCst);
            let (seen, error) = epoch(&mut *iterator);
            assert_eq!(seen, (0..seen.len() as i64).collect::<Vec<_>>());
            // Ahead, everything may be filled already.
            assert!(error.as_ref().map_or(seen.len() == 20, |error| error.kind() == ErrorKind::Panicked), "{error:?}");
            hides.store(false, Ordering::SeqCst);
            iterator.reset().unwrap();
            let (seen, error) = epoch(&mut *iterator);
            if error.is_none() {
                assert_eq!(seen, (0..20).collect::<Vec<_>>());
            }
        }
    });
}

#[test]
fn a_place_that_panics_hides_neither_the_error_nor_the_worker() {
    let bad = |sample| if sample == 9 { Err(Error::new(ErrorKind::Data, "nine")) } else { Ok(()) };
    let custom = Custom { place: |_| panic!("no place"), decode: bad, ..Custom::new(good) };
    let measured = Custom {
        measure: Some(|sample| if sample == 9 { panic!("nine") } else { Ok(Extents::of_length(3)) }),
        decode: |_| Ok(()),
        ..custom.clone()
    };
    for custom in [custom, measured] {
        every_way(&custom, |iterator| {
            let mut iterator = iterator.unwrap();
            for _ in 0..4 {
                let (seen, error) = epoch(&mut *iterator);
                assert_eq!(seen, (0..8).collect::<Vec<_>>());
                let error = error.unwrap();
                assert!(error.to_string().contains("nine"), "{error}");
                assert_eq!(error.location().record, Some(9));
                iterator.reset().unwrap();
            }
        });
    }
}

#[test]
fn a_row_reported_bad_twice_is_skipped_once_and_hides_no_other() {
    let twice: Plan = |plan, batch| {
        for row in [1, 1, 2] {
            plan.fault(row, Error::new(ErrorKind::Data, "bad"));
        }
        good(plan, batch)
    };
    let custom = Custom { policy: BadRecords::Skip(BadLimits::default()), ..Custom::new(twice) };
    every_way(&custom, |iterator| {
        let mut iterator = iterator.unwrap();
        let (seen, error) = epoch(&mut *iterator);
        assert!(error.is_none());
        assert_eq!(seen, (0..20).filter(|x| ![1, 2].contains(&(x % 4))).collect::<Vec<_>>());
        assert_eq!(iterator.stats().skipped, 10);
    });
}

#[test]
fn rows_that_a_decoder_passes_over_are_bad_ones() {
    let policy = BadRecords::Skip(BadLimits::default());
    for decodes in [0, 1] {
        every_way(&Custom { decodes, policy, ..Custom::new(good) }, |iterator| {
            let mut iterator = iterator.unwrap();
            let mut seen = 0;
            for batch in iterator.by_ref() {
                let batch = batch.unwrap();
                assert_eq!(xs(&batch), batch.sample_ids().iter().map(|id| *id as i64).collect::<Vec<_>>());
                seen += batch.len() as u64;
            }
            let bad = iterator.bad_records();
            assert_eq!(seen + bad.len() as u64, 20);
            assert!(bad.iter().all(|bad| bad.error.contains("decode_all did not go through all records")), "{bad:?}");
        });
    }
    every_way(&Custom { decodes: 0, ..Custom::new(good) }, |iterator| {
        let (seen, error) = epoch(&mut *iterator.unwrap());
        assert_eq!((seen, error.unwrap().kind()), (Vec::new(), ErrorKind::Data));
    });
}

#[test]
fn what_could_not_be_replaced_spoils_no_other_row_when_its_batch_is_filled_again() {
    /// Behind the samples that are planned lie those that stand in for them, and none of them can be decoded at first.
    const SPARE: u64 = 50;
    static IS_BROKEN: AtomicBool = AtomicBool::new(true);
    static TRIED: AtomicU64 = AtomicU64::new(0);
    ends(|| {
        let custom = Custom {
            decode: |sample| {
                let is_spare = sample >= SPARE;
                TRIED.fetch_add(is_spare.into(), Ordering::SeqCst);
                match sample == 6 || is_spare && IS_BROKEN.load(Ordering::SeqCst) {
                    true => Err(Error::new(ErrorKind::Data, "bad")),
                    false => Ok(()),
                }
            },
            any_sample: |bits| Some(SPARE + bits % 50),
            policy: BadRecords::Replace(BadLimits::default()),
            ..Custom::new(good)
        };
        let workspace = workspace(1, 2);
        let mut iterator = AsyncDataSetIterator::new(custom, &workspace).unwrap();
        let mut other = AsyncDataSetIterator::new(numbers(50), &workspace).unwrap();
        // As many as are tried: the second batch is an error from here on, and is taken back before anybody asks for
        // it.
        while TRIED.load(Ordering::SeqCst) < 32 {
            std::thread::yield_now();
        }
        drop(other.next().unwrap().unwrap());
        IS_BROKEN.store(false, Ordering::SeqCst);
        let (seen, error) = epoch(&mut iterator);
        assert!(error.is_none(), "{error:?}");
        let own: Vec<i64> = seen.iter().copied().filter(|sample| *sample < SPARE as i64).collect();
        assert_eq!((seen.len(), own), (20, (0..20).filter(|sample| *sample != 6).collect()));
        assert_eq!(iterator.bad_records().iter().map(|bad| bad.sample).collect::<Vec<_>>(), [6]);
    });
}

#[test]
fn lengths_that_differ_each_time_they_are_measured_harm_nobody() {
    static ASKED: AtomicU64 = AtomicU64::new(0);
    let measure =
        |_| Ok(Extents::of_length((RandomKey::new(3).bits(ASKED.fetch_add(1, Ordering::Relaxed)) % 9000) as u32));
    every_way(&Custom { measure: Some(measure), ..Custom::new(good) }, |iterator| {
        let mut iterator = iterator.unwrap();
        for _ in 0..20 {
            let (seen, error) = epoch(&mut *iterator);
            assert_eq!((seen, error.is_none()), ((0..20).collect(), true));
            iterator.reset().unwrap();
        }
    });
}

#[test]
fn a_planners_own_exhaustion_ends_the_epoch_like_any_other_error() {
    let exhausted: Plan = |plan, batch| {
        if batch == 2 { Err(Error::new(ErrorKind::Exhausted, "of an iterator inside")) } else { good(plan, batch) }
    };
    every_way(&Custom::new(exhausted), |iterator| {
        let mut iterator = iterator.unwrap();
        for _ in 0..2 {
            let (seen, error) = epoch(&mut *iterator);
            assert_eq!(seen, (0..8).collect::<Vec<_>>());
            assert_eq!(error.unwrap().kind(), ErrorKind::Data);
            iterator.reset().unwrap();
        }
    });
}

#[test]
fn a_broken_stream_says_so_even_if_its_last_batch_is_to_be_dropped() {
    let samples = || {
        (0..20i64)
            .map(|i| if i == 7 { Err(Error::new(ErrorKind::Io, "torn")) } else { Ok(vec![SampleTensor::from(i)]) })
    };
    for shielded in [false, true] {
        let tensors = [TensorSpec::new("x", Role::Feature, DType::I64, &[])];
        let stream = SampleStream::repeatable(&tensors, samples).unwrap();
        let source = StreamSource::from_samples(stream).batch_size(5).last_batch(LastBatch::Drop);
        let workspace = workspace(1, 1);
        let mut iterator = if shielded { wrap(shield(source), &workspace) } else { wrap(source, &workspace) }.unwrap();
        let (seen, error) = epoch(&mut *iterator);
        assert_eq!(seen, [0, 1, 2, 3, 4]);
        assert_eq!(error.map(|error| error.kind()), Some(ErrorKind::Io));
    }
}

#[test]
fn batches_whose_filling_was_given_up_are_never_handed_out() {
    ends(|| {
        for turn in 0..2 {
            let flaky = Flaky::new(100, &[15], Trouble::Stall);
            let gate = flaky.gate.clone();
            let workspace =
                Workspace::builder().workers(2).close_wait(Duration::from_millis(20)).poison(0xa5).build().unwrap();
            let mut iterator = AsyncDataSetIterator::new(ReaderSource::new(flaky).batch_size(10), &workspace).unwrap();
            let mut other = AsyncDataSetIterator::new(numbers(100), &workspace).unwrap();
            assert_eq!(xs(&iterator.next().unwrap().unwrap()), (0..10).collect::<Vec<_>>());
            gate.until_reached();
            let refused = if turn == 0 { iterator.reset().err() } else { other.next().unwrap().err() };
            assert_eq!(refused.unwrap().kind(), ErrorKind::TimedOut);
            assert_eq!(iterator.next().unwrap().err().map(|error| error.kind()), Some(ErrorKind::TimedOut));
            gate.open();
            let rest: Vec<i64> = iterator.filter_map(Result::ok).flat_map(|batch: DataSet| xs(&batch)).collect();
            assert_eq!(rest, (10..100).collect::<Vec<_>>());
        }
    });
}

#[test]
fn a_batch_that_lost_its_turn_while_it_waited_for_a_slot_keeps_its_place() {
    ends(|| {
        let workspace = workspace(1, 2);
        let mut first = AsyncDataSetIterator::new(numbers(100), &workspace).unwrap();
        assert_eq!(xs(&first.next().unwrap().unwrap())[0], 0);
        while first.stats().stages[2].samples < 40 {
            std::thread::yield_now();
        }
        let mut second = AsyncDataSetIterator::new(numbers(100), &workspace).unwrap();
        let held: Vec<_> = second.by_ref().take(4).map(Result::unwrap).collect();
        for _ in 0..2 {
            assert_eq!(first.next().unwrap().err().unwrap().kind(), ErrorKind::Exhausted);
            assert_eq!(second.next().unwrap().err().unwrap().kind(), ErrorKind::Exhausted);
        }
        drop(held);
        let rest: Vec<i64> = first.flat_map(|batch| xs(&batch.unwrap())).collect();
        assert_eq!(rest, (10..100).collect::<Vec<_>>());
        let rest: Vec<i64> = second.flat_map(|batch| xs(&batch.unwrap())).collect();
        assert_eq!(rest, (40..100).collect::<Vec<_>>());
    });
}

#[test]
fn an_iterator_resets_and_another_is_made_while_a_third_waits_for_its_reader() {
    ends(|| {
        let workspace = workspace(2, 2);
        let mut idle = AsyncDataSetIterator::new(numbers(100), &workspace).unwrap();
        drop(idle.next().unwrap().unwrap());
        let flaky = Flaky::new(100, &[0], Trouble::Stall);
        let gate = flaky.gate.clone();
        let mut waiting = AsyncDataSetIterator::new(ReaderSource::new(flaky).batch_size(10), &workspace).unwrap();
        let waiting = std::thread::spawn(move || xs(&waiting.next().unwrap().unwrap()));
        gate.until_reached();
        idle.reset().unwrap();
        let another = AsyncDataSetIterator::new(numbers(50), &workspace).unwrap();
        gate.open();
        assert_eq!(waiting.join().unwrap(), (0..10).collect::<Vec<_>>());
        assert_eq!(idle.map(|batch| batch.unwrap().len()).sum::<usize>(), 100);
        assert_eq!(another.map(|batch| batch.unwrap().len()).sum::<usize>(), 50);
    });
}

#[test]
fn threads_that_reset_seek_and_drop_in_one_workspace_meet_no_wrong_batch() {
    let workspace = workspace(2, 2);
    let threads: Vec<_> = (0..3u64)
        .map(|thread| {
            let workspace = workspace.clone();
            move || {
                let key = RandomKey::new(thread);
                let mut iterator = AsyncDataSetIterator::new(numbers(100), &workspace).unwrap();
                let mut expected = 0;
                for step in 0..400 {
                    match key.bits(step) % 16 {
                        0 => {
                            iterator.reset().unwrap();
                            expected = 0;
                        }
                        1 => {
                            let state = State { position: 50, ..iterator.state() };
                            iterator.seek(&state).unwrap();
                            expected = 50;
                        }
                        2 => {
                            iterator = AsyncDataSetIterator::new(numbers(100), &workspace).unwrap();
                            expected = 0;
                        }
                        _ => match iterator.next() {
                            Some(Err(error)) => assert!(error.kind() == ErrorKind::Ended && expected == 100, "{error}"),
                            Some(Ok(batch)) => {
                                assert_eq!(xs(&batch), (expected..expected + 10).collect::<Vec<_>>());
                                expected += 10;
                            }
                            None => assert_eq!(expected, 100),
                        },
                    }
                }
            }
        })
        .collect();
    ends(|| {
        let threads: Vec<_> = threads.into_iter().map(std::thread::spawn).collect();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
    });
    assert_eq!(workspace.ring().leased, 0);
}

#[test]
fn a_filler_that_panics_when_it_drops_takes_no_worker_with_it() {
    struct Bomb(Flaky);
    impl Drop for Bomb {
        fn drop(&mut self) {
            panic!("dropped");
        }
    }
    impl ringfeed::read::RecordReader for Bomb {
        fn len(&self) -> u64 {
            self.0.len
        }
        fn tensors(&self) -> &[TensorSpec] {
            self.0.tensors()
        }
        fn fetch(&self, samples: &[u64], nth: usize, scratch: &mut Scratch) -> Result<()> {
            self.0.fetch(samples, nth, scratch)
        }
        fn decode(
            &self,
            sample: ringfeed::read::Sample,
            nth: usize,
            scratch: &mut Scratch,
            row: &mut RowMut<'_>,
        ) -> Result<()> {
            self.0.decode(sample, nth, scratch, row)
        }
        fn place(&self, sample: u64) -> Location {
            self.0.place(sample)
        }
    }
    ends(|| {
        let flaky = Flaky::new(100, &[0], Trouble::Stall);
        let gate = flaky.gate.clone();
        let workspace = Workspace::builder().workers(1).close_wait(Duration::from_millis(20)).build().unwrap();
        let stuck = AsyncDataSetIterator::new(ReaderSource::new(Bomb(flaky)).batch_size(10), &workspace).unwrap();
        gate.until_reached();
        drop(stuck);
        gate.open();
        let mut next = AsyncDataSetIterator::new(numbers(100), &workspace).unwrap();
        let first = std::iter::repeat_with(|| next.next().unwrap()).find_map(Result::ok).unwrap();
        assert_eq!(xs(&first)[0], 0);
        drop(first);
        assert_eq!(next.map(|batch| batch.unwrap().len()).sum::<usize>(), 90);
    });
}

#[test]
fn endless_waits_may_be_asked_for() {
    let workspace =
        Workspace::builder().lease_wait(Duration::MAX).close_wait(Duration::MAX).prefetch(0).build().unwrap();
    for shielded in [false, true] {
        let mut iterator =
            if shielded { wrap(shield(numbers(50)), &workspace) } else { wrap(numbers(50), &workspace) }.unwrap();
        let held: Vec<_> = iterator.by_ref().take(2).map(Result::unwrap).collect();
        let waiting = std::thread::spawn(move || iterator.map(|batch| batch.unwrap().len()).sum::<usize>());
        drop(held);
        assert_eq!(ends(move || waiting.join().unwrap()), 30);
    }
}

#[test]
fn asking_to_keep_more_than_there_is_when_shrinking_changes_nothing() {
    let workspace = workspace(1, 1);
    let iterator = AsyncDataSetIterator::new(numbers(100), &workspace).unwrap();
    let before = workspace.ring();
    workspace.shrink_to(1 << 50);
    assert_eq!(iterator.map(|batch| batch.unwrap().len()).sum::<usize>(), 100);
    let after = workspace.ring();
    assert_eq!((after.bytes, after.slot_bytes, after.regrown), (before.bytes, before.slot_bytes, 0));
}

/// Gives blocks of one page, whatever is asked for.
#[derive(Debug)]
struct Stingy;

impl PageSource for Stingy {
    fn allocate(&self, _: usize) -> Result<Block> {
        AnonymousPages.allocate(1)
    }
}

#[test]
fn a_page_source_that_gives_too_little_is_an_error_in_its_place() {
    ends(|| {
        let workspace = Workspace::builder().workers(1).pages(Stingy).build().unwrap();
        let source = || ReaderSource::new(Waves::new(10, 1000)).batch_size(10);
        let error = AsyncDataSetIterator::new(source(), &workspace).unwrap().next().unwrap().err().unwrap();
        assert_eq!(error.kind(), ErrorKind::Io);
        let error = AsyncShieldDataSetIterator::new(source(), &workspace).unwrap().next().unwrap().err().unwrap();
        assert_eq!(error.kind(), ErrorKind::Io);
    });
}

#[test]
fn growth_ahead_of_need_that_the_page_source_refuses_fails_no_batch() {
    static LENGTHS: [u32; 6] = [1, 40_000, 1, 1, 1, 40_000];
    let custom =
        Custom { measure: Some(|sample| Ok(Extents::of_length(LENGTHS[sample as usize / 4]))), ..Custom::new(good) };
    let slot = 4 * 40_000 + 4096;
    ends(move || {
        for shielded in [false, true] {
            // Room for one slot that has grown: the others stay small and serve what fits them.
            let workspace = Workspace::builder()
                .workers(1)
                .prefetch(0)
                .pages(TempFilePages::new(None, slot + 8192))
                .build()
                .unwrap();
            let source = custom.clone();
            let mut iterator =
                if shielded { wrap(shield(source), &workspace) } else { wrap(source, &workspace) }.unwrap();
            let (seen, error) = epoch(&mut *iterator);
            assert!(error.is_none(), "{error:?}");
            assert_eq!(seen, (0..20).collect::<Vec<_>>());
        }
    });
}

#[test]
fn spilled_batches_are_not_counted_as_slots() {
    let workspace = Workspace::builder()
        .workers(1)
        .prefetch(0)
        .lease_wait(Duration::ZERO)
        .overflow(Overflow::Spill)
        .build()
        .unwrap();
    let iterator = AsyncDataSetIterator::new(numbers(100), &workspace).unwrap();
    let all: Vec<_> = iterator.map(Result::unwrap).collect();
    assert_eq!((workspace.ring().leased, workspace.ring().spilled), (2, 8));
    drop(all);
    assert_eq!(workspace.ring().leased, 0);
}

#[test]
fn the_budget_has_everything_back_when_everything_is_dropped() {
    for overflow in [Overflow::Fail, Overflow::Spill] {
        for limit in [60_000, 100_000, 200_000, u64::MAX] {
            let budget = MemoryBudget::new(limit);
            let source = || ReaderSource::new(Waves::new(200, 2000)).batch_size(1);
            let workspace = Workspace::builder()
                .workers(2)
                .lease_wait(Duration::ZERO)
                .overflow(overflow)
                .budget(budget.clone())
                .build()
                .unwrap();
            let mut held = Vec::new();
            if let Ok(mut iterator) = AsyncDataSetIterator::new(source(), &workspace) {
                held.extend(iterator.by_ref().take(7).flatten());
                drop(iterator);
                let shielded = AsyncShieldDataSetIterator::new(source(), &workspace).unwrap();
                held.truncate(1);
                held.extend(shielded.take(100).flatten().filter_map(|batch| batch.detach().ok()));
                workspace.shrink_to(0);
            }
            assert!(budget.used() <= limit);
            drop(workspace);
            drop(held);
            assert_eq!(budget.used(), 0, "{overflow:?} {limit}");
        }
    }
}

#[test]
fn a_panic_while_a_bad_record_is_replaced_is_an_error_in_its_place() {
    ends(|| {
        for shielded in [false, true] {
            let source = Custom {
                decode: |sample| match sample {
                    6 => Err(Error::new(ErrorKind::Data, "bad")),
                    _ => Ok(()),
                },
                any_sample: |_| panic!("nobody knows which"),
                policy: BadRecords::Replace(BadLimits::default()),
                ..Custom::new(good)
            };
            let workspace = workspace(2, 2);
            let mut iterator =
                if shielded { wrap(shield(source), &workspace) } else { wrap(source, &workspace) }.unwrap();
            assert_eq!(xs(&iterator.next().unwrap().unwrap()), [0, 1, 2, 3]);
            let error = iterator.next().unwrap().unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Panicked);
            assert!(error.to_string().contains("nobody knows"), "{error}");
            assert!(iterator.next().is_none());
            iterator.reset().unwrap();
            assert_eq!(xs(&iterator.next().unwrap().unwrap()), [0, 1, 2, 3]);
        }
    });
}
