//! One workspace for several sources, and its memory.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;
#[path = "common/latency.rs"]
mod latency;

#[cfg(target_os = "linux")]
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use common::{Flaky, Trouble, Waves, see_all, workspace, xs};
use latency::latency;
use ringfeed::memory::MemoryBudget;
use ringfeed::read::{SampleStream, SampleTensor};
use ringfeed::source::{ReaderSource, StreamSource};
use ringfeed::tensor::{Role, TensorSpec};
use ringfeed::workspace::{shield, wrap};
use ringfeed::{AsyncDataSetIterator, AsyncShieldDataSetIterator, DType, DataSetIterator, ErrorKind, Workspace};

fn numbers(len: u64) -> ReaderSource {
    ReaderSource::new(Flaky::new(len, &[], Trouble::Stall)).batch_size(10)
}

#[test]
fn a_workspace_gives_the_memory_of_large_batches_back() {
    let workspace = workspace(1, 1);
    let source = ReaderSource::new(Waves::new(200, 40)).batch_size(100);
    AsyncDataSetIterator::new(source, &workspace).unwrap().for_each(|batch| drop(batch.unwrap()));
    let before = workspace.ring();
    workspace.shrink_to(4096);
    assert!(workspace.ring().bytes < before.bytes && before.slot_bytes > 4096, "{before:?}");
}

#[test]
fn training_and_evaluation_take_turns_in_the_same_memory() {
    let workspace = workspace(2, 3);
    let mut train = AsyncDataSetIterator::new(numbers(200).shuffle(1), &workspace).unwrap();
    let bytes = workspace.ring().bytes;
    let mut test = AsyncDataSetIterator::new(numbers(50), &workspace).unwrap();
    let mut alone = AsyncDataSetIterator::new(numbers(200).shuffle(1), &common::workspace(1, 1)).unwrap();
    for _ in 0..3 {
        let expected = see_all(&mut alone);
        let mut seen = Vec::new();
        for batch in train.by_ref() {
            seen.push(common::see(&batch.unwrap()));
            if seen.len() % 7 == 3 {
                assert_eq!(
                    test.by_ref().map(|batch| xs(&batch.unwrap())).collect::<Vec<_>>().concat(),
                    (0..50).collect::<Vec<_>>()
                );
                test.reset().unwrap();
            }
        }
        assert_eq!(seen, expected);
        train.reset().unwrap();
        alone.reset().unwrap();
    }
    assert_eq!(workspace.ring().bytes, bytes);
    assert_eq!(workspace.ring().slots, 5);
    assert_eq!(workspace.ring().leased, 0);
}

#[test]
fn a_stream_that_lost_its_turn_loses_no_sample() {
    let workspace = workspace(2, 3);
    let tensors = [TensorSpec::new("x", Role::Feature, DType::I64, &[])];
    let stream = SampleStream::once(&tensors, (0..200i64).map(|i| Ok(vec![SampleTensor::from(i)]))).unwrap();
    let mut stream = AsyncDataSetIterator::new(StreamSource::from_samples(stream).batch_size(10), &workspace).unwrap();
    let mut other = AsyncDataSetIterator::new(numbers(1_000_000), &workspace).unwrap();
    let mut shielded = AsyncShieldDataSetIterator::new(numbers(1_000_000), &workspace).unwrap();
    let mut seen = Vec::new();
    for batch in stream.by_ref() {
        seen.extend(xs(&batch.unwrap()));
        other.next().unwrap().unwrap();
        shielded.next().unwrap().unwrap();
    }
    assert_eq!(seen, (0..200).collect::<Vec<_>>());
}

#[test]
fn two_threads_may_use_one_workspace() {
    let workspace = workspace(2, 2);
    let threads: Vec<_> = (0..2)
        .map(|_| {
            let workspace = workspace.clone();
            std::thread::spawn(move || {
                let iterator = AsyncDataSetIterator::new(numbers(300), &workspace).unwrap();
                iterator.flat_map(|batch| xs(&batch.unwrap())).collect::<Vec<_>>()
            })
        })
        .collect();
    for thread in threads {
        assert_eq!(thread.join().unwrap(), (0..300).collect::<Vec<_>>());
    }
}

#[test]
fn waiting_for_a_workspace_that_another_iterator_uses_is_waiting() {
    for shielded in [false, true] {
        let workspace = workspace(1, 0);
        let reader = Flaky::new(4, &[1], Trouble::Stall);
        let gate = reader.gate.clone();
        let mut slow = wrap(shield(ReaderSource::new(reader).batch_size(1)), &workspace).unwrap();
        slow.next().unwrap().unwrap();
        let source = numbers(10);
        let mut other = if shielded { wrap(shield(source), &workspace) } else { wrap(source, &workspace) }.unwrap();
        let taking = std::thread::spawn(move || drop(slow.next()));
        gate.until_reached();
        let (begun, has_begun) = std::sync::mpsc::channel();
        let waiting = std::thread::spawn(move || {
            let begin = Instant::now();
            begun.send(()).unwrap();
            other.next().unwrap().unwrap();
            (begin.elapsed().as_secs_f64(), other.stats().trainer)
        });
        has_begun.recv().unwrap();
        latency(Duration::from_millis(50));
        gate.open();
        let (took, trainer) = waiting.join().unwrap();
        taking.join().unwrap();
        assert!(trainer.wait_seconds > 0.8 * took && trainer.deliver_seconds < 0.2 * took, "{took} {trainer:?}");
    }
}

#[test]
fn drop_and_reset_work_in_every_state() {
    for taken in 0..12 {
        for held in [0, 1, 3] {
            let mut iterator = AsyncDataSetIterator::new(numbers(100), &workspace(2, 2)).unwrap();
            iterator.reset().unwrap();
            let mut kept = std::collections::VecDeque::new();
            for batch in iterator.by_ref().take(taken) {
                kept.push_back(batch.unwrap());
                kept.truncate(held);
            }
            assert_eq!(iterator.state().position, 10 * taken.min(10) as u64);
            iterator.reset().unwrap();
            assert_eq!(iterator.state().epoch, u64::from(taken > 0));
            kept.clear();
            assert_eq!(iterator.by_ref().map(|batch| batch.unwrap().len()).sum::<usize>(), 100);
            iterator.reset().unwrap();
            drop(iterator.next());
            drop(iterator);
        }
    }
}

#[test]
fn longer_batches_regrow_their_slot_within_the_budget() {
    let budget = MemoryBudget::new(1 << 20);
    let workspace = Workspace::builder().workers(2).budget(budget.clone()).poison(0xa5).build().unwrap();
    let source = || ReaderSource::new(Waves::new(200, 2000)).batch_size(1);
    let mut iterator = AsyncDataSetIterator::new(source(), &workspace).unwrap();
    let mut shielded = AsyncShieldDataSetIterator::new(source(), &common::workspace(1, 2)).unwrap();
    assert_eq!(see_all(&mut iterator), see_all(&mut shielded));
    let ring = workspace.ring();
    assert!(ring.regrown > 0 && ring.spilled == 0, "{ring:?}");
    assert_eq!(ring.bytes as u64, budget.used());
    iterator.reset().unwrap();
    assert_eq!(see_all(&mut iterator).len(), 200);
    let longest = 2000 * 3 * 4 + 2000 + 8 + 3 * 256;
    assert!(ring.bytes <= 4 * (longest * 5 / 4 + 4096), "{ring:?}");
}

#[test]
fn growth_beyond_the_budget_is_an_error_in_its_place() {
    let source = || ReaderSource::new(Waves::new(200, 2000)).batch_size(1);
    let unbounded = workspace(1, 2);
    drop(AsyncDataSetIterator::new(source(), &unbounded).unwrap());
    let budget = MemoryBudget::new(unbounded.ring().bytes as u64);
    let workspace = Workspace::builder().workers(2).budget(budget).build().unwrap();
    let mut iterator = AsyncDataSetIterator::new(source(), &workspace).unwrap();
    let error = iterator.find_map(Result::err).unwrap();
    assert_eq!(error.kind(), ErrorKind::Budget);
    assert!(error.to_string().contains("raise the budget to at least"), "{error}");
    assert!(iterator.next().is_none());
}

/// The first of the longest among samples `0..len`.
fn longest(waves: &Waves, samples: std::ops::Range<u64>) -> Option<u64> {
    samples.rev().max_by_key(|sample| waves.length(*sample))
}

#[test]
fn a_batch_without_memory_is_named_by_its_largest_sample() {
    let waves = || Waves::new(200, 2000);
    let source = || ReaderSource::new(waves()).batch_size(8);
    let tiny = || Workspace::builder().budget(MemoryBudget::new(8192)).build().unwrap();
    let refused = [
        AsyncDataSetIterator::new(source(), &tiny()).err().unwrap(),
        AsyncShieldDataSetIterator::new(source(), &tiny()).err().unwrap(),
    ];
    for error in refused {
        assert_eq!((error.kind(), error.location().record), (ErrorKind::Budget, longest(&waves(), 0..8)), "{error}");
    }

    // A ring for sample 0 can't grow to the longest.
    let source = || ReaderSource::new(waves()).batch_size(1);
    let unbounded = workspace(1, 2);
    drop(AsyncDataSetIterator::new(source(), &unbounded).unwrap());
    let full = || {
        let budget = MemoryBudget::new(unbounded.ring().bytes as u64);
        Workspace::builder().workers(2).budget(budget).build().unwrap()
    };
    let iterators: [Box<dyn DataSetIterator>; 2] = [
        Box::new(AsyncDataSetIterator::new(source(), &full()).unwrap()),
        Box::new(AsyncShieldDataSetIterator::new(source(), &full()).unwrap()),
    ];
    for mut iterator in iterators {
        let mut delivered = 0;
        let error = iterator.find_map(|batch| batch.inspect(|_| delivered += 1).err()).unwrap();
        assert_eq!((error.kind(), error.location().record), (ErrorKind::Budget, Some(delivered)), "{error}");
    }
}

#[test]
fn a_ring_that_can_not_fit_is_refused_at_build() {
    let workspace = Workspace::builder().budget(MemoryBudget::new(4096)).build().unwrap();
    let error = AsyncDataSetIterator::new(numbers(100), &workspace).err().unwrap();
    assert_eq!(error.kind(), ErrorKind::Budget);
    assert_eq!(workspace.budget().used(), 0);
}

#[test]
fn statistics_add_up() {
    let workspace = Workspace::builder().workers(2).across_epochs(false).build().unwrap();
    let mut iterator = AsyncDataSetIterator::new(numbers(105), &workspace).unwrap();
    iterator.by_ref().for_each(|batch| drop(batch.unwrap()));
    let stats = iterator.stats();
    assert_eq!((stats.batches, stats.samples, stats.bytes), (11, 105, 840));
    assert_eq!(iterator.batches_per_epoch(), Some(11));
    for stage in &stats.stages[1..] {
        assert_eq!((stage.samples, stage.threads), (105, 2), "{stage:?}");
    }
}

#[test]
fn absurd_settings_are_refused() {
    assert_eq!(Workspace::builder().workers(0).build().unwrap_err().kind(), ErrorKind::Config);
    assert_eq!(Workspace::builder().prefetch(1 << 40).build().unwrap_err().kind(), ErrorKind::Config);
    let error = AsyncDataSetIterator::new(numbers(10).batch_size(0), &workspace(1, 1)).err().unwrap();
    assert_eq!(error.kind(), ErrorKind::Config);
}

/// Names of this process's threads, and how each is scheduled.
#[cfg(target_os = "linux")]
fn threads() -> Vec<(String, i32)> {
    let threads = std::fs::read_dir("/proc/self/task").unwrap();
    // Threads of other tests may have ended meanwhile.
    let stats = threads.filter_map(|thread| std::fs::read_to_string(thread.unwrap().path().join("stat")).ok());
    let scheduled = stats.map(|stat| {
        let (start, rest) = stat.rsplit_once(") ").unwrap();
        // The 41st field, of which two are before the rest.
        (start.split_once('(').unwrap().1.to_owned(), rest.split(' ').nth(38).unwrap().parse().unwrap())
    });
    scheduled.collect()
}

#[test]
#[cfg(target_os = "linux")]
fn only_our_threads_stand_back_for_the_trainer() {
    let is_ours = |name: &str| name.starts_with("ringfeed-");
    if threads().iter().any(|(name, policy)| !is_ours(name) && *policy != libc::SCHED_OTHER) {
        println!("skipped: these tests were started with a scheduling policy of their own");
        return;
    }
    let workspace = workspace(2, 1);
    let _iterator = AsyncDataSetIterator::new(numbers(50), &workspace).unwrap();
    let deadline = Instant::now() + Duration::from_secs(250);
    loop {
        let mut back = threads();
        back.retain(|(_, policy)| *policy == libc::SCHED_BATCH);
        assert!(back.iter().all(|(name, _)| is_ours(name)), "{back:?}");
        let stands_back = |ours: &&str| back.iter().any(|(name, _)| name == ours);
        if ["ringfeed-0", "ringfeed-1", "ringfeed-plan"].iter().all(stands_back) {
            return;
        }
        assert!(Instant::now() < deadline, "only {back:?}");
        std::thread::yield_now();
    }
}

/// Name, niceness and cores of the threads of this process.
#[cfg(target_os = "linux")]
fn minded() -> Vec<(String, i32, String)> {
    let threads = std::fs::read_dir("/proc/self/task").unwrap().map(|thread| thread.unwrap().path());
    let told = threads.filter_map(|thread| {
        // Threads of other tests may have ended meanwhile.
        let stat = std::fs::read_to_string(thread.join("stat")).ok()?;
        let status = std::fs::read_to_string(thread.join("status")).ok()?;
        let (start, rest) = stat.rsplit_once(") ")?;
        let cores = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"))?;
        // The 19th field, of which two are before the rest.
        let nice = rest.split(' ').nth(16)?.parse().ok()?;
        Some((start.split_once('(')?.1.to_owned(), nice, cores.trim().to_owned()))
    });
    told.collect()
}

/// Keeps the calling thread, and those that it starts, to one core: which one that is.
#[cfg(target_os = "linux")]
fn keep_to_one_core() -> usize {
    // SAFETY: plain data, of which zeros are a value: the empty set.
    let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    // SAFETY: writes the set, which is as long as is said.
    assert_eq!(unsafe { libc::sched_getaffinity(0, size_of::<libc::cpu_set_t>(), &raw mut set) }, 0);
    // SAFETY: reads and writes the set within its length.
    let core = (0..1024).rev().find(|core| unsafe { libc::CPU_ISSET(*core, &set) }).unwrap();
    // SAFETY: plain data, of which zeros are a value: the empty set.
    set = unsafe { std::mem::zeroed() };
    // SAFETY: writes the set within its length.
    unsafe { libc::CPU_SET(core, &mut set) };
    // SAFETY: reads the set; changes the calling thread alone.
    assert_eq!(unsafe { libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &raw const set) }, 0);
    core
}

#[test]
#[cfg(target_os = "linux")]
fn workers_keep_to_their_cores_and_are_as_nice_as_they_are_told() {
    const NICE: i32 = 7;
    let core = std::thread::spawn(keep_to_one_core).join().unwrap();
    let workspace = Workspace::builder().workers(2).worker_cores([core]).worker_nice(NICE as u8).build().unwrap();
    let _iterator = AsyncDataSetIterator::new(numbers(50), &workspace).unwrap();
    let deadline = Instant::now() + Duration::from_secs(250);
    loop {
        let mut minded = minded();
        minded.retain(|(_, nice, cores)| *nice == NICE && *cores == core.to_string());
        let named = |name: &&str| minded.iter().any(|(other, ..)| other == name);
        assert!(minded.iter().all(|(name, ..)| name.starts_with("ringfeed-")), "{minded:?}");
        if ["ringfeed-0", "ringfeed-1", "ringfeed-plan"].iter().all(named) {
            return;
        }
        assert!(Instant::now() < deadline, "only {minded:?}");
        std::thread::yield_now();
    }
}

#[test]
#[cfg(target_os = "linux")]
fn there_are_as_many_workers_as_cores_that_they_may_use() {
    let kept = std::thread::spawn(|| (keep_to_one_core(), Workspace::default().workers()));
    let (core, workers) = kept.join().unwrap();
    assert_eq!(workers, 1, "the thread has one core");
    assert_eq!(Workspace::builder().worker_cores([core]).build().unwrap().workers(), 1);
    let cores = std::thread::available_parallelism().unwrap().get();
    let half = Workspace::builder().worker_share(0.5).build().unwrap();
    assert_eq!((Workspace::default().workers(), half.workers()), (cores, cores.div_ceil(2)));
}

/// A control group in which processes have half a core, where one may be made.
#[cfg(target_os = "linux")]
struct HalfACore(PathBuf);

#[cfg(target_os = "linux")]
impl HalfACore {
    fn make() -> Option<Self> {
        let own = std::fs::read_to_string("/proc/self/cgroup").ok()?;
        let group = |line: &str, controller: &str| {
            let (controllers, path) = line.split_once(':')?.1.split_once(':')?;
            controllers.split(',').any(|own| own == controller).then(|| path.trim_start_matches('/').to_owned())
        };
        let (folder, limit) = match own.lines().find_map(|line| group(line, "cpu")) {
            Some(path) => (Path::new("/sys/fs/cgroup/cpu").join(path), ("cpu.cfs_quota_us", "50000")),
            None => {
                let path = own.lines().find_map(|line| group(line, ""))?;
                (Path::new("/sys/fs/cgroup").join(path), ("cpu.max", "50000 100000"))
            }
        };
        let made = Self(folder.join(format!("ringfeed-test-{}", std::process::id())));
        std::fs::create_dir(&made.0).ok()?;
        std::fs::write(made.0.join(limit.0), limit.1).ok()?;
        Some(made)
    }
}

#[cfg(target_os = "linux")]
impl Drop for HalfACore {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir(&self.0);
    }
}

#[test]
#[cfg(target_os = "linux")]
fn a_container_with_less_than_two_cores_has_one_worker() {
    const CHILD: &str = "RINGFEED_TEST_CHILD";
    if std::env::var_os(CHILD).is_some() {
        println!("workers: {}", Workspace::default().workers());
        let reader = Spun(vec![TensorSpec::new("x", Role::Feature, DType::U8, &[])]);
        let source = ReaderSource::new(reader).batch_size(4);
        let mut iterator = AsyncDataSetIterator::new(source, &Workspace::default()).unwrap();
        iterator.by_ref().for_each(|batch| drop(batch.unwrap()));
        println!("quota: {:?}; {}", iterator.stats().core_quota, iterator.stats().verdict());
        return;
    }
    let Some(group) = HalfACore::make() else {
        println!("skipped: no control group may be made here");
        return;
    };
    let run = || {
        let child = std::process::Command::new("sh")
            .args(["-c", "echo $$ > \"$1/cgroup.procs\" && exec \"$0\" --exact --nocapture \"$2\""])
            .arg(std::env::current_exe().unwrap())
            .arg(&group.0)
            .arg("a_container_with_less_than_two_cores_has_one_worker")
            .env(CHILD, "1")
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&child.stdout).into_owned();
        assert!(said.contains("workers: 1\n"), "{said}{}", String::from_utf8_lossy(&child.stderr));
        assert!(said.contains("quota: Some(0.5); "), "{said}");
        said
    };
    // The quota is what limits, and not the number of cores; unless others leave less than that.
    let limits =
        ["this process uses all the time that its control group allows (0.5 cores)", "other programs take the cores"];
    let is_limited = |said: &String| limits.iter().any(|limit| said.contains(limit));
    let said = (0..10).map(|_| run()).find(is_limited).unwrap_or_else(run);
    assert!(is_limited(&said), "{said}");
}

/// Samples each of which needs a core for some time.
#[cfg(target_os = "linux")]
struct Spun(Vec<TensorSpec>);

#[cfg(target_os = "linux")]
impl ringfeed::read::RecordReader for Spun {
    fn len(&self) -> u64 {
        32
    }

    fn tensors(&self) -> &[TensorSpec] {
        &self.0
    }

    fn decode(
        &self,
        _: ringfeed::read::Sample,
        _: usize,
        _: &mut ringfeed::read::Scratch,
        row: &mut ringfeed::read::RowMut<'_>,
    ) -> ringfeed::Result<()> {
        let used = cpu_time::ThreadTime::now();
        while used.elapsed() < Duration::from_millis(4) {
            std::hint::spin_loop();
        }
        row.zero();
        Ok(())
    }

    fn place(&self, _: u64) -> ringfeed::error::Location {
        ringfeed::error::Location::default()
    }
}

#[test]
#[cfg(target_os = "linux")]
fn workers_take_no_more_than_their_share_of_the_cores() {
    let cores = std::thread::available_parallelism().unwrap().get() as f64;
    let run = || {
        let workspace = Workspace::builder().workers(2).worker_share(0.1 / cores).build().unwrap();
        let reader = Spun(vec![TensorSpec::new("x", Role::Feature, DType::U8, &[])]);
        let begin = Instant::now();
        let mut iterator = AsyncDataSetIterator::new(ReaderSource::new(reader).batch_size(4), &workspace).unwrap();
        assert_eq!(iterator.by_ref().map(|batch| batch.unwrap().len()).sum::<usize>(), 32);
        (iterator.stats(), begin.elapsed().as_secs_f64())
    };
    // Beside what may be saved up and the jobs that were begun before, there is what threads cost, which others may
    // make dear.
    let is_kept =
        |(stats, passed): &(ringfeed::stats::Stats, f64)| stats.workers.cpu_seconds.unwrap() <= 0.1 * passed + 0.05;
    let kept = (0..5).map(|_| run()).find(is_kept).unwrap_or_else(run);
    assert!(is_kept(&kept), "{} s: {}", kept.1, kept.0);
    let workers = kept.0.workers;
    assert!(workers.cpu_seconds.unwrap() >= 0.12 && workers.rested_seconds > 0.02, "{workers:?}");
}

#[test]
fn manners_that_this_machine_can_not_have_are_named() {
    for (builder, fault) in [
        (Workspace::builder().worker_cores([5000]), "worker_cores: core 5000"),
        (Workspace::builder().worker_nice(20), "worker_nice: 20"),
        (Workspace::builder().worker_share(0.0), "worker_share: 0"),
        (Workspace::builder().worker_share(f64::NAN), "worker_share: NaN"),
    ] {
        let error = builder.build().unwrap_err();
        assert!(error.kind() == ErrorKind::Config && error.message().starts_with(fault), "{error}");
    }
}
