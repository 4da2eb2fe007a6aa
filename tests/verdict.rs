//! The truth put into real runs: whoever is slow is named. Sleeps are long against everything else, and a run that a
//! busy machine spoilt is tried again. Nothing here compares speeds: that what a verdict foretells comes true is shown
//! in simulated time (`prefetch/tune/causes.rs`), and by `benches/autotune.rs` on a quiet machine.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "common/watchdog.rs"]
mod watchdog;

use std::collections::VecDeque;
use std::sync::Mutex;
use std::thread::sleep;
use std::time::{Duration, Instant};

use ringfeed::device::{HostDevice, Upload};
use ringfeed::error::Location;
use ringfeed::images::PixelOrder;
use ringfeed::read::{MemoryReader, RecordReader, RowMut, Sample, SampleStream, SampleTensor, Scratch};
use ringfeed::source::{ReaderSource, StreamSource, Transformed};
use ringfeed::stats::{Limit, Stats, Verdict};
use ringfeed::tensor::{Role, TensorSpec};
use ringfeed::transform::{Transforms, cast, layout};
use ringfeed::workspace::{shield, wrap};
use ringfeed::{AsyncDataSetIterator, DType, DataSet, DataSetIterator, Loader, Result, Workspace};

type Cost = fn(u64);

/// Samples of one byte whose reading and decoding take as long as is said.
struct Costs {
    tensors: Vec<TensorSpec>,
    samples: u64,
    read: Cost,
    decode: Cost,
}

impl RecordReader for Costs {
    fn len(&self) -> u64 {
        self.samples
    }

    fn tensors(&self) -> &[TensorSpec] {
        &self.tensors
    }

    fn fetch(&self, samples: &[u64], nth: usize, _: &mut Scratch) -> Result<()> {
        (self.read)(samples[nth]);
        Ok(())
    }

    fn decode(&self, sample: Sample, _: usize, _: &mut Scratch, row: &mut RowMut<'_>) -> Result<()> {
        (self.decode)(sample.id);
        row.tensor(0).as_mut_slice::<u8>()?.fill(1);
        Ok(())
    }

    fn place(&self, sample: u64) -> Location {
        Location { record: Some(sample), ..Location::default() }
    }
}

const NOTHING: Cost = |_| ();

fn source(samples: u64, read: Cost, decode: Cost) -> ReaderSource {
    let tensors = vec![TensorSpec::new("x", Role::Feature, DType::U8, &[1])];
    ReaderSource::new(Costs { tensors, samples, read, decode }).batch_size(4)
}

fn pause(milliseconds: u64) {
    sleep(Duration::from_millis(milliseconds));
}

/// Work that needs a core.
fn spin(milliseconds: u64) {
    let begin = Instant::now();
    while begin.elapsed() < Duration::from_millis(milliseconds) {
        std::hint::spin_loop();
    }
}

fn workspace(workers: usize, prefetch: usize) -> Workspace {
    watchdog::watch();
    Workspace::builder().workers(workers).prefetch(prefetch).build().unwrap()
}

/// The figures of one epoch.
fn epoch(mut iterator: impl DataSetIterator, mut step: impl FnMut(usize, DataSet)) -> Stats {
    for (nth, batch) in iterator.by_ref().enumerate() {
        step(nth, batch.unwrap());
    }
    iterator.stats()
}

fn ahead(source: ReaderSource, workers: usize, prefetch: usize) -> Stats {
    epoch(AsyncDataSetIterator::new(source, &workspace(workers, prefetch)).unwrap(), |_, batch| drop(batch))
}

/// The first verdict of a few runs that is right; at last whatever it is.
fn judged(run: impl Fn() -> Stats, is_right: impl Fn(&Verdict) -> bool) -> Verdict {
    for _ in 0..7 {
        let verdict = run().verdict();
        if is_right(&verdict) {
            return verdict;
        }
    }
    let stats = run();
    println!("{stats}");
    stats.verdict()
}

fn of(limit: Limit) -> impl Fn(&Verdict) -> bool {
    move |verdict| verdict.limit == limit
}

#[test]
fn slow_reading_wants_more_workers() {
    let run = || ahead(source(24, |_| pause(10), NOTHING), 1, 2);
    let verdict = judged(run, |verdict| verdict.limit == Limit::Workers && verdict.change.is_some());
    assert_eq!((verdict.limit, verdict.stage), (Limit::Workers, Some("read")), "{verdict}");
    let change = verdict.change.unwrap();
    assert!(change.setting == "workers" && change.value > 1 && verdict.gain.unwrap() > 1.5, "{verdict}");
}

/// A link that carries one sample after the other, in the order in which they are asked for: whoever reads beside
/// others takes longer.
fn narrow(_: u64) {
    static FREE: Mutex<Option<Instant>> = Mutex::new(None);
    let now = Instant::now();
    let mut free = FREE.lock().unwrap();
    let end = free.map_or(now, |free| free.max(now)) + Duration::from_millis(5);
    *free = Some(end);
    drop(free);
    sleep(end - now);
}

#[test]
fn storage_that_gives_no_more_wants_no_more_workers() {
    let run = || {
        let source = source(330, narrow, NOTHING).batch_size(1);
        // At first one place is free at a time, so that one worker reads; then all four do.
        epoch(AsyncDataSetIterator::new(source, &workspace(4, 4)).unwrap(), |nth, batch| {
            drop(batch);
            if nth < 30 {
                pause(15);
            }
        })
    };
    let is_right = |verdict: &Verdict| verdict.advice.contains("the storage gives no more bytes per second");
    let verdict = judged(run, is_right);
    assert!(is_right(&verdict), "{verdict}");
    assert_eq!((verdict.limit, verdict.stage, verdict.change), (Limit::Workers, Some("read"), None), "{verdict}");
}

#[test]
#[cfg_attr(not(feature = "images"), ignore = "decodes images")]
fn a_budget_with_memory_for_one_decoder_is_the_limit_of_two() {
    let folder = tempfile::tempdir().unwrap();
    let class = folder.path().join("class");
    std::fs::create_dir(&class).unwrap();
    for nth in 0..40 {
        std::fs::copy("fixtures/photos/china.jpg", class.join(format!("{nth}.jpg"))).unwrap();
    }
    let run = |workers: usize, budget: u64| {
        let loader = Loader::images(folder.path()).size(32, 32).batch_size(1).workers(workers).prefetch(3);
        epoch(loader.budget(budget).build().unwrap(), |_, batch| drop(batch))
    };
    // The ring, the listing, and what one decoder holds.
    let needed = run(1, u64::MAX).memory_bytes;
    let is_right = |verdict: &Verdict| verdict.evidence.contains("waited for memory that other workers held");
    let verdict = judged(|| run(2, needed + 1000), is_right);
    let has_cores = std::thread::available_parallelism().unwrap().get() > 1;
    assert_eq!(is_right(&verdict), has_cores, "{verdict}");
    assert_eq!((verdict.limit, verdict.change), (Limit::Workers, None), "{verdict}");
}

#[test]
fn decoding_that_needs_the_processor_is_bounded_by_cores() {
    let cores = std::thread::available_parallelism().unwrap().get();
    for workers in [1, 4 * cores] {
        let run = || ahead(source(32, NOTHING, |_| spin(10)), workers, 2);
        let is_right = |stats: &Stats| {
            let verdict = stats.verdict();
            // Where other programs take the cores meanwhile, that is the truth, and the figures show it.
            let workers = &stats.workers;
            let is_crowded = workers.queued_seconds.is_some_and(|queued| queued >= 0.05 * workers.thread_seconds);
            (verdict.limit == Limit::Workers || is_crowded && verdict.limit == Limit::MachineBusy)
                && matches!(verdict.stage, Some("decode") | None)
                && verdict.change.is_none_or(|change| change.value <= cores)
        };
        let stats = (0..7).map(|_| run()).find(is_right).unwrap_or_else(run);
        assert!(is_right(&stats), "{}\n{stats}", stats.verdict());
    }
}

#[test]
fn a_slow_closure_is_the_users_own_code() {
    let run = || {
        let spec = TensorSpec::new("y", Role::Feature, DType::U8, &[1]);
        let list = Transforms::new().map(spec, |_, out, _| {
            pause(10);
            out.as_mut_slice::<u8>()?.fill(2);
            Ok(())
        });
        let source = Transformed::new(source(24, NOTHING, NOTHING), list);
        epoch(AsyncDataSetIterator::new(source, &workspace(2, 2)).unwrap(), |_, batch| drop(batch))
    };
    let verdict = judged(run, of(Limit::Workers));
    assert_eq!((verdict.limit, verdict.stage), (Limit::Workers, Some("transform")), "{verdict}");
}

#[test]
fn a_slow_iterator_is_the_users_own_too() {
    let run = || {
        let samples = (0..12u8).map(|value| {
            pause(15);
            Ok(vec![SampleTensor::from(vec![value])])
        });
        let spec = TensorSpec::new("x", Role::Feature, DType::U8, &[1]);
        let source = StreamSource::from_samples(SampleStream::once(&[spec], samples).unwrap()).batch_size(2);
        epoch(AsyncDataSetIterator::new(source, &workspace(2, 2)).unwrap(), |_, batch| drop(batch))
    };
    let verdict = judged(run, of(Limit::Planning));
    assert_eq!(verdict.limit, Limit::Planning, "{verdict}");
    assert!(verdict.evidence.contains("your own iterator"), "{verdict}");
}

#[test]
fn a_slow_trainer_is_the_limit_itself() {
    let run = || {
        let iterator = AsyncDataSetIterator::new(source(80, |_| pause(1), NOTHING), &workspace(2, 2)).unwrap();
        epoch(iterator, |_, batch| {
            pause(40);
            drop(batch);
        })
    };
    let verdict = judged(run, of(Limit::Trainer));
    assert_eq!((verdict.limit, verdict.change), (Limit::Trainer, None), "{verdict}");
}

#[test]
fn who_keeps_step_with_the_trainer_is_well_balanced() {
    let run = || {
        // One sleep of each for a batch: whatever a busy machine adds to sleeps, it adds to both.
        let source = source(30, |_| pause(40), NOTHING).batch_size(1);
        let mut iterator = AsyncDataSetIterator::new(source, &workspace(1, 6)).unwrap();
        // The ring is full when the trainer begins.
        pause(400);
        let before = iterator.stats();
        for batch in iterator.by_ref() {
            drop(batch.unwrap());
            pause(46);
        }
        iterator.stats().since(&before)
    };
    let verdict = judged(run, of(Limit::Balanced));
    assert_eq!((verdict.limit, verdict.change), (Limit::Balanced, None), "{verdict}");
}

#[test]
fn a_trainer_that_asks_in_bursts_wants_a_deeper_ring() {
    let run = || {
        let iterator = AsyncDataSetIterator::new(source(120, |_| pause(5), NOTHING), &workspace(2, 2)).unwrap();
        epoch(iterator, |nth, batch| {
            drop(batch);
            if nth % 10 == 9 {
                pause(400);
            }
        })
    };
    let verdict = judged(run, of(Limit::ShallowRing));
    assert_eq!(verdict.limit, Limit::ShallowRing, "{verdict}");
    assert!(verdict.evidence.contains("in bursts") && verdict.change.unwrap().value > 2, "{verdict}");
}

#[test]
fn workers_without_a_batch_want_a_deeper_ring() {
    let run = || ahead(source(40, |_| pause(20), NOTHING).batch_size(1), 6, 1);
    let verdict = judged(run, of(Limit::ShallowRing));
    assert_eq!(verdict.limit, Limit::ShallowRing, "{verdict}");
    assert!(verdict.evidence.contains("too few batches"), "{verdict}");
}

#[test]
fn one_slow_sample_in_a_hundred_is_named() {
    let run = || {
        let cost = |sample| pause(if sample % 100 == 50 { 300 } else { 2 });
        ahead(source(400, NOTHING, cost), 2, 2)
    };
    let verdict = judged(run, of(Limit::SlowSamples));
    assert_eq!(verdict.limit, Limit::SlowSamples, "{verdict}");
    assert!(["record 50", "record 150", "record 250", "record 350"].iter().any(|name| verdict.evidence.contains(name)));
}

#[test]
fn batches_that_are_held_leave_no_slot() {
    let run = || {
        let source = source(30, |_| pause(20), NOTHING).batch_size(1);
        let mut held = VecDeque::new();
        epoch(AsyncDataSetIterator::new(source, &workspace(3, 2)).unwrap(), |_, batch| {
            held.push_back(batch);
            // Three of four slots.
            if held.len() > 2 {
                held.pop_front();
            }
        })
    };
    let verdict = judged(run, of(Limit::HeldBatches));
    assert_eq!(verdict.limit, Limit::HeldBatches, "{verdict}");
    assert_eq!(verdict.change.unwrap().setting, "hold");
}

#[test]
fn what_is_slow_on_the_device_is_the_upload() {
    let run = || {
        let values: std::sync::Arc<[u8]> = vec![7; 24 * 3 * 128 * 128].into();
        let reader = MemoryReader::new("image", Role::Feature, &[3, 128, 128], values).unwrap();
        let source = ReaderSource::new(reader).batch_size(1);
        let mut upload = Upload::to(HostDevice::new());
        upload = upload.transform(cast("image", DType::F16)).transform(layout("image", PixelOrder::Nhwc));
        let mut on_device = upload.start(AsyncDataSetIterator::new(source, &workspace(1, 4)).unwrap()).unwrap();
        for batch in on_device.epoch().unwrap() {
            batch.unwrap().wait().unwrap();
        }
        on_device.stats()
    };
    let verdict = judged(run, of(Limit::Upload));
    assert_eq!(verdict.limit, Limit::Upload, "{verdict}");
}

#[test]
fn the_shield_is_named_where_it_costs() {
    let run = || {
        let iterator = wrap(shield(source(16, NOTHING, |_| pause(5))), &workspace(1, 2)).unwrap();
        epoch(iterator, |_, batch| {
            pause(20);
            drop(batch);
        })
    };
    let verdict = judged(run, of(Limit::Shield));
    assert_eq!((verdict.limit, verdict.stage), (Limit::Shield, Some("decode")), "{verdict}");
}
