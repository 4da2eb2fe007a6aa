//! What statistics say of runs whose truth is known: who waited for what, who worked, and how long.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "common/latency.rs"]
mod latency;

use std::io::Write;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use latency::latency;
use ringfeed::arrays::{RawOptions, StoredType};
use ringfeed::device::{HostDevice, Upload};
use ringfeed::error::Location;
use ringfeed::memory::MemoryBudget;
use ringfeed::order::{LastBatch, State};
use ringfeed::read::{RecordReader, RowMut, Sample, Scratch};
use ringfeed::report::Report;
use ringfeed::source::{Headspace, ReaderSource, Replay};
use ringfeed::stats::{Limit, Stats, StatsHandle, Times, Verdict};
use ringfeed::storage::{Files, Storage};
use ringfeed::tensor::{Role, TensorSpec};
use ringfeed::workspace::{FetchLimit, shield, wrap};
use ringfeed::{
    AsyncDataSetIterator, AsyncShieldDataSetIterator, DType, DataSetIterator, Error, ErrorKind, Loader, LoaderConfig,
    Result, Workspace,
};

/// Samples whose reading and decoding take as long as is said.
struct Slow {
    tensors: Vec<TensorSpec>,
    read: fn(u64) -> Duration,
    decode: fn(u64) -> Duration,
}

const NONE: fn(u64) -> Duration = |_| Duration::ZERO;

fn slow(read: fn(u64) -> Duration, decode: fn(u64) -> Duration) -> ReaderSource {
    let tensors = vec![TensorSpec::new("x", Role::Feature, DType::U8, &[4])];
    ReaderSource::new(Slow { tensors, read, decode }).batch_size(4)
}

impl RecordReader for Slow {
    fn len(&self) -> u64 {
        40
    }

    fn tensors(&self) -> &[TensorSpec] {
        &self.tensors
    }

    fn fetch(&self, samples: &[u64], nth: usize, _: &mut Scratch) -> Result<()> {
        latency((self.read)(samples[nth]));
        Ok(())
    }

    fn decode(&self, sample: Sample, _: usize, _: &mut Scratch, row: &mut RowMut<'_>) -> Result<()> {
        latency((self.decode)(sample.id));
        row.tensor(0).as_mut_slice::<u8>()?.fill(sample.id as u8);
        Ok(())
    }

    fn place(&self, sample: u64) -> Location {
        Location { record: Some(sample), path: Some("sample".into()), ..Location::default() }
    }
}

fn workspace(workers: usize, prefetch: usize) -> Workspace {
    Workspace::builder().workers(workers).prefetch(prefetch).across_epochs(false).build().unwrap()
}

fn after_an_epoch(source: ReaderSource, workspace: &Workspace, step: Duration) -> Stats {
    let mut iterator = AsyncDataSetIterator::new(source, workspace).unwrap();
    for batch in &mut iterator {
        batch.unwrap();
        latency(step);
    }
    iterator.stats()
}

/// The first of some runs that a busy machine has not spoilt; at last whatever it is.
fn unspoilt(run: impl Fn() -> Stats, is_right: impl Fn(&Stats) -> bool) -> Stats {
    (0..20).map(|_| run()).find(is_right).unwrap_or_else(&run)
}

const fn ms(time: u64) -> Duration {
    Duration::from_millis(time)
}

#[test]
fn each_stage_knows_its_time_and_what_of_it_was_spent_on_a_core() {
    let run = || after_an_epoch(slow(|_| ms(5), |_| ms(3)), &workspace(2, 2), Duration::ZERO);
    // Two workers need 0.16 s. A trainer that gets no core meanwhile does not wait.
    let has_waited = |stats: &Stats| {
        let on_core = stats.stage("read").and_then(|read| Some(read.cpu_seconds? / read.busy_seconds));
        stats.trainer.wait_seconds >= 0.1
            && stats.queue.wait_fill_seconds > 10.0 * stats.queue.wait_slot_seconds
            && on_core.is_none_or(|share| share < 0.5)
    };
    let stats = unspoilt(run, has_waited);
    assert!(has_waited(&stats), "{stats}");
    let [read, decode] = ["read", "decode"].map(|name| stats.stage(name).unwrap());
    assert!(read.busy_seconds >= 0.2 && decode.busy_seconds >= 0.12, "40 samples: {stats}");
    assert!(read.times.p50_seconds >= 0.0045 && decode.times.p50_seconds >= 0.0027, "{stats}");
    assert_eq!((read.samples, read.times.count, decode.times.count), (40, 40, 40));
    assert_eq!(read.cpu_seconds.is_some(), cfg!(unix), "{stats}");
    assert!(stats.workers.busy_seconds >= 0.32, "{stats}");
    assert_eq!(stats.stage("transform"), None, "there are none");
}

#[test]
fn the_slowest_samples_are_known_by_name() {
    let decode = |sample| if sample == 17 { ms(60) } else { ms(1) };
    let run = || after_an_epoch(slow(NONE, decode), &workspace(2, 2), Duration::ZERO);
    // Others take as long where there is no core for them.
    let is_right = |stats: &Stats| {
        let slowest = &stats.slowest[0];
        slowest.sample == 17 && slowest.read_seconds < 0.03 && stats.queue.wait_behind_seconds > 0.0
    };
    let stats = unspoilt(run, is_right);
    assert!(is_right(&stats), "batches behind it were ready: {stats}, {:?}", stats.slowest);
    let slowest = &stats.slowest[0];
    assert_eq!((slowest.sample, slowest.name.as_str()), (17, "sample: record 17"));
    assert!(slowest.decode_seconds >= 0.06, "{slowest:?}");
    assert!(stats.slowest.len() <= 10);
}

#[test]
#[cfg_attr(not(feature = "images"), ignore = "decodes images")]
fn resizing_and_augmenting_images_is_a_stage_of_its_own() {
    let folder = tempfile::tempdir().unwrap();
    let class = folder.path().join("class");
    std::fs::create_dir(&class).unwrap();
    for nth in 0..6 {
        std::fs::copy("fixtures/images/rgb.png", class.join(format!("{nth}.png"))).unwrap();
    }
    let mut iterator = Loader::images(folder.path()).size(500, 500).batch_size(2).workers(2).build().unwrap();
    iterator.epoch().unwrap().for_each(|batch| drop(batch.unwrap()));
    let stats = iterator.stats();
    let names: Vec<_> = stats.stages.iter().map(|stage| stage.name).collect();
    assert_eq!(names, ["plan", "read", "decode", "resize", "settle"], "{stats}");
    let [decode, resize] = ["decode", "resize"].map(|name| stats.stage(name).unwrap());
    assert!(resize.samples >= 6 && resize.times.count == resize.samples, "{stats}");
    assert!(resize.busy_seconds > 2.0 * decode.busy_seconds, "small pictures that become large ones: {stats}");
    let slowest = &stats.slowest[0];
    assert!(slowest.resize_seconds > slowest.decode_seconds, "{slowest:?}");
    let verdict = stats.verdict();
    assert!(verdict.stage.is_none_or(|stage| stage == "resize"), "{verdict}");
}

#[test]
fn a_slow_trainer_finds_its_batches_ready() {
    let is_ready = |stats: &Stats| {
        let readiness = stats.trainer.readiness().min(stats.queue.readiness());
        readiness >= 0.5 && stats.queue.planning_full_seconds > 0.0
    };
    let stats = unspoilt(|| after_an_epoch(slow(NONE, NONE), &workspace(1, 2), ms(20)), is_ready);
    assert!(is_ready(&stats), "{stats}");
    assert!(stats.trainer.busy_seconds >= 0.2 && stats.trainer.steps.p50_seconds >= 0.018, "{stats}");
}

#[test]
fn the_end_of_an_epoch_is_no_step() {
    for shielded in [false, true] {
        let source = slow(NONE, NONE).batch_size(20);
        let source = if shielded { wrap(shield(source), &workspace(1, 2)) } else { wrap(source, &workspace(1, 2)) };
        let mut iterator = source.unwrap();
        for _ in 0..3 {
            for batch in iterator.epoch().unwrap() {
                drop(batch.unwrap());
                latency(ms(5));
            }
        }
        let steps = iterator.stats().trainer.steps;
        // What comes between two epochs may be longer on a busy machine, and is one more then.
        assert!((6..=8).contains(&steps.count), "{steps:?}");
        assert!(steps.quantile(0.01) >= 0.004, "each batch was worked on: {steps:?}");
    }
}

#[test]
fn who_holds_batches_waits_for_slots() {
    let workspace = Workspace::builder().workers(1).prefetch(1).lease_wait(ms(100)).build().unwrap();
    let mut iterator = AsyncDataSetIterator::new(slow(NONE, NONE), &workspace).unwrap();
    let held: Vec<_> = (0..3).map(|_| iterator.next().unwrap().unwrap()).collect();
    assert_eq!(iterator.next().unwrap().unwrap_err().kind(), ErrorKind::Exhausted);
    drop(held);
    iterator.next().unwrap().unwrap();
    let stats = iterator.stats();
    assert!(stats.queue.wait_slot_seconds >= 0.09 && stats.queue.planning_slot_seconds >= 0.09, "{stats}");
    let slot_waits = &stats.queue.slot_waits;
    assert!(slot_waits.p99_seconds >= 0.08 && slot_waits.p50_seconds < 0.08, "one of them waited: {slot_waits:?}");
    assert!(stats.ring.held_seconds >= 0.29, "three batches, 0.1 s: {:?}", stats.ring);
}

/// That these are the times of so many, in order.
fn assert_times(times: &Times, count: u64) {
    let Times { p50_seconds, p90_seconds, p99_seconds, .. } = times;
    assert!(p50_seconds <= p90_seconds && p90_seconds <= p99_seconds, "{times:?}");
    assert_eq!(times.count, count, "{times:?}");
}

#[test]
fn handing_over_and_waiting_for_slots_are_timed_for_each_batch() {
    let mut iterator = AsyncDataSetIterator::new(slow(NONE, NONE), &workspace(1, 2)).unwrap();
    iterator.by_ref().for_each(|batch| drop(batch.unwrap()));
    let before = iterator.stats();
    assert_times(&before.trainer.deliveries, 10);
    assert_times(&before.queue.slot_waits, 10);
    assert!(before.trainer.deliveries.p50_seconds > 0.0 && before.trainer.deliver_seconds > 0.0, "{before}");
    iterator.epoch().unwrap().take(5).for_each(|batch| drop(batch.unwrap()));
    let between = &iterator.stats() - &before;
    assert_times(&between.trainer.deliveries, 5);
    assert!((5..=10).contains(&between.queue.slot_waits.count), "some are made ahead: {:?}", between.queue);
    let mut alone = AsyncShieldDataSetIterator::new(slow(NONE, NONE), &workspace(1, 2)).unwrap();
    alone.by_ref().for_each(|batch| drop(batch.unwrap()));
    let stats = alone.stats();
    assert_times(&stats.trainer.deliveries, 10);
    assert_times(&stats.queue.slot_waits, 10);
}

#[test]
fn the_shield_counts_what_it_waited_for_slots_that_others_hold() {
    let run = || {
        let workspace = Workspace::builder().workers(1).prefetch(1).lease_wait(ms(20_000)).build().unwrap();
        let mut iterator = AsyncShieldDataSetIterator::new(slow(NONE, NONE), &workspace).unwrap();
        let held: Vec<_> = iterator.by_ref().take(3).map(Result::unwrap).collect();
        let before = iterator.stats();
        assert_times(&before.queue.slot_waits, 3);
        let holder = std::thread::spawn(move || {
            latency(ms(100));
            drop(held);
        });
        iterator.by_ref().for_each(|batch| drop(batch.unwrap()));
        holder.join().unwrap();
        &iterator.stats() - &before
    };
    let is_right = |since: &Stats| {
        let slot_waits = &since.queue.slot_waits;
        slot_waits.p99_seconds >= 0.08 && slot_waits.p50_seconds < 0.08 && since.verdict().limit == Limit::HeldBatches
    };
    let since = unspoilt(run, is_right);
    assert_times(&since.queue.slot_waits, 7);
    assert!(is_right(&since) && since.queue.planning_slot_seconds >= 0.08, "{}: {since}", since.verdict());
}

#[test]
fn uploads_are_timed_for_each_batch() {
    let batches = wrap(slow(NONE, NONE), &workspace(1, 2)).unwrap();
    let devices = [HostDevice::new(), HostDevice::new()];
    let mut uploaded = Upload::to_each(devices).start(batches).unwrap();
    for epoch in 1..=2 {
        uploaded.epoch().unwrap().for_each(|batch| drop(batch.unwrap()));
        let upload = uploaded.upload_stats();
        // The last copies may still be on their way.
        assert!((10 * epoch - 4..=10 * epoch).contains(&upload.uploads.count), "{upload:?}");
        assert_times(&upload.slot_waits, 10 * epoch);
    }
    let stats = uploaded.stats();
    let upload = stats.upload.as_ref().unwrap();
    assert!(upload.upload_seconds > 0.0 && upload.uploads.p50_seconds > 0.0, "{upload:?}");
    assert_times(&stats.trainer.deliveries, 20);
    let shown = stats.to_string();
    assert!(shown.contains("\nupload  ") && shown.contains("\nwait for the slot on the device "), "{shown}");
    assert_eq!(upload.since(upload).uploads, Times::default());
    assert_eq!(serde_json::to_value(&stats).unwrap()["upload"]["slot_waits"]["count"], 20);
}

#[test]
fn the_shield_makes_the_trainer_wait_for_everything() {
    let source = slow(NONE, |_| ms(2));
    let mut iterator = AsyncShieldDataSetIterator::new(source, &workspace(1, 2)).unwrap();
    iterator.by_ref().for_each(|batch| drop(batch.unwrap()));
    let stats = iterator.stats();
    assert!(stats.trainer.wait_seconds >= 0.08 && stats.trainer.readiness() == 0.0, "{stats}");
    assert_eq!((stats.workers.threads, stats.queue.seconds), (0, 0.0));
    assert_eq!(stats.slowest.len(), 10);
}

#[test]
fn a_handle_reads_the_figures_while_others_work_and_ends_with_the_iterator() {
    let workspace = workspace(2, 2);
    let mut iterator = AsyncDataSetIterator::new(slow(NONE, |_| ms(1)), &workspace).unwrap();
    let handle = iterator.stats_handle();
    let (looked, has_looked) = std::sync::mpsc::channel();
    let watcher = std::thread::spawn(move || {
        let mut before = Stats::default();
        while let Some(stats) = handle.stats() {
            let since = &stats - &before;
            assert_eq!(since.samples + before.samples, stats.samples);
            assert!(stats.samples >= before.samples && stats.samples <= 40);
            before = stats;
            looked.send(before.samples).unwrap();
        }
    });
    has_looked.recv().unwrap();
    let handle = iterator.stats_handle();
    iterator.by_ref().for_each(|batch| drop(batch.unwrap()));
    // Threads may still be on their way to sleep, on a core or waiting for one.
    let mut pairs = (0..1000).map(|_| (handle.stats().unwrap().to_string(), iterator.stats().to_string()));
    assert!(pairs.any(|(told, own)| told == own), "the same figures");
    while has_looked.recv().unwrap() < 40 {}
    drop(iterator);
    watcher.join().unwrap();
    assert!(handle.stats().is_none());
    assert!(StatsHandle::default().stats().is_none());
}

#[test]
fn every_iterator_has_a_handle() {
    let workspace = workspace(1, 2);
    let mut shielded = wrap(shield(slow(NONE, NONE)), &workspace).unwrap();
    shielded.by_ref().for_each(|batch| drop(batch.unwrap()));
    assert_eq!(shielded.stats_handle().stats().unwrap().samples, 40);
    shielded.reset().unwrap();
    let replay = Replay::new(&mut *shielded, 3).unwrap().batches(5);
    let handle = replay.stats_handle();
    assert_eq!(replay.map(|batch| batch.unwrap().len()).sum::<usize>(), 20);
    assert!(handle.stats().is_none());
    let inside = wrap(slow(NONE, NONE), &workspace).unwrap();
    let mut uploaded = Upload::to(HostDevice::new()).start(inside).unwrap();
    let handle = uploaded.stats_handle();
    uploaded.by_ref().for_each(|batch| drop(batch.unwrap()));
    let stats = handle.stats().unwrap();
    assert_eq!((stats.samples, stats.upload.unwrap().samples, stats.trainer.batches), (40, 40, 10));
    drop(uploaded);
    assert!(handle.stats().is_none());
}

/// The bytes and requests of an epoch, by stage.
fn read_in_an_epoch(loader: &Loader, stage: &str) -> (u64, u64) {
    let mut iterator = loader.build().unwrap();
    iterator.epoch().unwrap().for_each(|batch| drop(batch.unwrap()));
    // Ahead, the next epoch may have begun.
    let stats = iterator.stats();
    let others = stats.stages.iter().filter(|other| other.name != stage);
    assert_eq!(others.map(|other| other.bytes_read + other.requests).sum::<u64>(), 0, "{stats}");
    let stage = stats.stage(stage).unwrap();
    (stage.bytes_read, stage.requests)
}

#[test]
#[cfg_attr(not(feature = "images"), ignore = "decodes images")]
fn bytes_and_requests_of_reading_are_counted() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("records.bin");
    std::fs::write(&path, vec![7; 80 * 1000]).unwrap();
    let raw = || Loader::raw(&path, RawOptions::features(StoredType::F32, &[20])).batch_size(10).shield();
    for loader in [raw(), raw().shuffle(1)] {
        let (bytes, requests) = read_in_an_epoch(&loader, "read");
        assert_eq!(bytes, 80_000);
        assert!((1..=1000).contains(&requests), "{requests}");
    }
    let files = Files::of(Arc::new(Disk), &MemoryBudget::unlimited());
    assert_eq!(read_in_an_epoch(&raw().files(files).shuffle(1), "read").0, 80_000);
    let class = folder.path().join("photos/class");
    std::fs::create_dir_all(&class).unwrap();
    let image = std::fs::read("fixtures/images/rgb.png").unwrap();
    (0..4).for_each(|nth| std::fs::write(class.join(format!("{nth}.png")), &image).unwrap());
    let images = Loader::images(folder.path().join("photos")).batch_size(2).shield();
    assert_eq!(read_in_an_epoch(&images.size(8, 8), "read").0, 4 * image.len() as u64);
    // What a helper thread reads counts for whom it reads.
    let limited = LoaderConfig {
        fetch_limit: Some(FetchLimit { time_ms: 60_000, replacements: 0 }),
        across_epochs: false,
        shield: false,
        ..raw().config().clone()
    };
    assert_eq!(read_in_an_epoch(&limited.into(), "read").0, 80_000);
    let lines = folder.path().join("rows.csv.gz");
    let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    let mixed = |row: u64| row.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
    (0..80_000).for_each(|row| writeln!(packed, "{},{}", mixed(row), mixed(row + 7) % 1000).unwrap());
    let packed = packed.finish().unwrap();
    std::fs::write(&lines, &packed).unwrap();
    let (bytes, _) = read_in_an_epoch(&Loader::csv(&lines).shield(), "plan");
    assert!(
        (1..=packed.len() as u64).contains(&bytes),
        "{bytes} of {} (the rest was read when it was opened)",
        packed.len()
    );
}

/// The files of this machine, as a storage.
struct Disk;

impl Storage for Disk {
    fn file_len(&self, path: &Path) -> Result<u64> {
        Ok(std::fs::metadata(path).map_err(|error| Error::io(path, error))?.len())
    }

    fn read(&self, path: &Path, range: Range<u64>, into: &mut Vec<u8>) -> Result<u64> {
        let bytes = std::fs::read(path).map_err(|error| Error::io(path, error))?;
        into.clear();
        into.extend_from_slice(&bytes[range.start as usize..(range.end as usize).min(bytes.len())]);
        Ok(bytes.len() as u64)
    }
}

/// Lists have to be measured, and what takes the place of bad records is read, too.
#[test]
fn bytes_of_measuring_and_replacing_count_as_read_whoever_reads_them() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("lists.jsonl");
    let line = |n: usize| {
        if n % 10 == 7 { "bad\n".to_owned() } else { format!("{{\"x\": [{}]}}\n", "1,".repeat(n % 5) + "2") }
    };
    std::fs::write(&path, (0..200).map(line).collect::<String>()).unwrap();
    let loader = |policy: &str| -> Loader {
        let text = format!(
            r#"{{"source": {path:?}, "batch_size": 10, "prefetch": 0, "workers": 1, "bad_records": "{policy}",
                "shuffle": 3, "across_epochs": false, "fields": {{"x": {{"numbers": "f32", "max_len": 9, "ragged": true}}}}}}"#
        );
        LoaderConfig::from_json(&text).unwrap().into()
    };
    let len = std::fs::metadata(&path).unwrap().len();
    for policy in ["skip", "replace"] {
        let (bytes, _) = read_in_an_epoch(&loader(policy), "read");
        // Each record once to measure it, and once to decode it.
        assert!(bytes >= 2 * len - 200, "{policy}: {bytes} of {len}");
        // Line ends between neighbours are read if one job has both.
        let (shielded, _) = read_in_an_epoch(&loader(policy).shield(), "read");
        assert!(shielded.abs_diff(bytes) <= 400, "{policy}: {shielded} and {bytes} of {len}");
    }
}

#[test]
fn differences_are_those_of_what_happened_in_between() {
    let mut iterator = wrap(shield(slow(NONE, |_| ms(1))), &workspace(1, 2)).unwrap();
    iterator.epoch().unwrap().for_each(|batch| drop(batch.unwrap()));
    let before = iterator.stats();
    assert_eq!((&before - &before).samples, 0);
    for epoch in iterator.epochs(2) {
        epoch.unwrap().for_each(|batch| drop(batch.unwrap()));
    }
    let later = iterator.stats();
    let between = &later - &before;
    assert_eq!((between.samples, between.batches, between.trainer.batches), (80, 20, 20));
    let decode = between.stage("decode").unwrap();
    assert_eq!((decode.samples, decode.times.count), (80, 80));
    assert!(decode.busy_seconds >= 0.08 && decode.busy_seconds < later.stage("decode").unwrap().busy_seconds);
    let all = before.trainer.waits.count + between.trainer.waits.count;
    assert_eq!(all, later.trainer.waits.count);
    let with = |mut stats: Stats, regrown, spilled| {
        (stats.ring.regrown, stats.ring.spilled) = (regrown, spilled);
        stats
    };
    let ring = (&with(later, 5, 4) - &with(before, 2, 4)).ring;
    assert_eq!((ring.regrown, ring.spilled, ring.slots), (3, 0, between.ring.slots));
}

#[test]
fn figures_are_written_for_people_and_for_programs() {
    let loader = Loader::csv("fixtures/iris.csv").labels(["virginica"]).batch_size(50).workers(2);
    let mut iterator = loader.build().unwrap();
    iterator.epoch().unwrap().for_each(|batch| drop(batch.unwrap()));
    let stats = iterator.stats();
    let shown = stats.to_string();
    for word in ["trainer    3 batches", "of the time", "workers    2 on ", "stage", "plan", "read", "decode", "settle"]
    {
        assert!(shown.contains(word), "{word}: {shown}");
    }
    for head in [
        "  p50      p90      p99 could do/s\n",
        "per batch  ",
        "\nwait for the slot  ",
        "\ndeliver  ",
        "\ntrainer works ",
    ] {
        assert!(shown.contains(head), "{head}: {shown}");
    }
    let ready = shown.lines().find(|line| line.starts_with("ready ")).unwrap();
    assert!(
        ready.contains(" when they were asked for, the next one ") && ready.contains(" % of the time; "),
        "{shown}"
    );
    let table = shown.split_once("stage ").unwrap().1;
    let widest = table.lines().skip(1).take_while(|line| !line.starts_with("read  ")).map(str::len).max();
    assert!(widest.is_some_and(|width| width <= 80), "a terminal has no more: {shown}");
    let json = serde_json::to_value(&stats).unwrap();
    assert_eq!((&json["trainer"]["batches"], &json["samples"]), (&3.into(), &150.into()));
    assert!(json["stages"][2]["times"]["p99_seconds"].is_f64(), "{json}");
    let (delivered, bound) = (&json["trainer"]["deliveries"], &json["queue"]["slot_waits"]);
    // Batches of the next epoch have slots, too.
    assert!(delivered["count"] == 3 && bound["count"].as_u64() >= Some(3), "{json}");
    assert!(delivered["p90_seconds"].is_f64() && bound["p90_seconds"].is_f64(), "{json}");
    assert_eq!(json["planning"], "order");
}

#[test]
fn a_replay_shows_how_fast_the_trainer_would_go() {
    // A busy machine may make a step longer than it takes to load a batch.
    let found = (0..10).map(|_| headspace_of_a_replay()).find(|headspace| headspace.factor > 2.0);
    let headspace = found.unwrap_or_else(headspace_of_a_replay);
    assert!(headspace.factor > 2.0 && headspace.most_samples_per_second < 4.0 / 0.005, "{headspace}");
    assert!(headspace.step_seconds >= 0.005 && headspace.undisturbed_step_seconds >= 0.005, "{headspace}");
}

fn headspace_of_a_replay() -> Headspace {
    let mut loaded = AsyncDataSetIterator::new(slow(|_| ms(10), NONE), &workspace(1, 2)).unwrap();
    let mut bytes = Vec::new();
    for batch in loaded.epoch().unwrap() {
        let batch = batch.unwrap();
        latency(ms(5));
        bytes.push(batch.tensor("x").unwrap().as_slice::<u8>().unwrap().to_vec());
    }
    let stats = loaded.stats();
    loaded.reset().unwrap();
    let mut replay = Replay::new(&mut loaded, 3).unwrap();
    drop(loaded);
    let (mut given, mut held) = (0, Vec::new());
    for epoch in replay.epochs(2) {
        for batch in epoch.unwrap() {
            let batch = batch.unwrap();
            latency(ms(5));
            assert_eq!(
                batch.tensor("x").unwrap().as_slice::<u8>().unwrap(),
                bytes[given % 3],
                "three of them, in turn"
            );
            given += 1;
        }
    }
    assert_eq!(given, 20, "an epoch has as many batches as before");
    let stats_of_replay = replay.stats();
    replay.reset().unwrap();
    held.extend((0..3).map(|_| replay.next().unwrap().unwrap()));
    assert_eq!(replay.next().unwrap().unwrap_err().kind(), ErrorKind::Exhausted);
    held.pop();
    assert_eq!(replay.next().unwrap().unwrap().len(), 4);
    assert_eq!(replay.seek(&State::new(0)).unwrap_err().kind(), ErrorKind::Unsupported);
    Headspace::of(&stats, &stats_of_replay)
}

#[test]
fn a_report_is_one_page_and_text_from_data_is_text_on_it() {
    let decode = |sample| if sample == 17 { ms(30) } else { ms(1) };
    let mut iterator = AsyncDataSetIterator::new(slow(NONE, decode), &workspace(2, 2)).unwrap();
    for epoch in iterator.epochs(3) {
        epoch.unwrap().for_each(|batch| drop(batch.unwrap()));
    }
    let report = Report::of(&iterator).about("<script>alert('x')</script>", "a & b");
    assert!(report.timeline.len() >= 2, "30 batches in at least 0.1 s: {:?}", report.timeline);
    let samples: f64 = report.timeline.iter().map(|moment| moment.samples_per_second).sum();
    assert!(samples > 0.0 && report.timeline.iter().all(|moment| moment.waited <= 1.0 && moment.ready <= 3.0));
    let pairs = report.timeline.windows(2);
    let given: f64 = pairs.map(|two| (two[1].seconds - two[0].seconds) * two[1].samples_per_second).sum();
    assert!(given < 120.5, "more than there were: {given}");
    let page = report.to_html();
    let (head, rest) = report.verdict.to_string().split_once(": ").map(|(a, b)| (a.to_owned(), b.to_owned())).unwrap();
    assert!(page.contains(&format!("<b>{head}</b>")) && page.contains(&rest[..20]), "{page}");
    for part in [
        "Throughput",
        "<polyline",
        "Ready batches",
        "Stages",
        "<th>p90</th>",
        "Each batch",
        "<td>deliver</td>",
        "<td>wait for the slot</td>",
        "Waits for a batch",
        "sample: record 17",
        "a &amp; b",
    ] {
        assert!(page.contains(part), "{part}: {page}");
    }
    assert!(
        !page.contains("<script") && !page.contains("http") && page.contains("&lt;script&gt;"),
        "nothing runs or loads"
    );
    let mut open = Vec::new();
    for tag in page.split('<').skip(1) {
        let name: String = tag.trim_start_matches('/').chars().take_while(|c| c.is_alphanumeric()).collect();
        if tag.starts_with('/') {
            assert_eq!(open.pop(), Some(name), "tags close in turn");
        } else if !["meta", "polyline", ""].contains(&name.as_str()) {
            open.push(name);
        }
    }
    assert!(open.is_empty(), "{open:?}");
    let folder = tempfile::tempdir().unwrap();
    report.save(folder.path().join("run.html")).unwrap();
    assert_eq!(std::fs::read_to_string(folder.path().join("run.html")).unwrap(), page);
    report.save(folder.path().join("run.json")).unwrap();
    let json: serde_json::Value =
        serde_json::from_slice(&std::fs::read(folder.path().join("run.json")).unwrap()).unwrap();
    assert_eq!(json["stats"]["samples"], 120);
    assert_eq!(report.save(folder.path().join("run.txt")).unwrap_err().kind(), ErrorKind::Config);
}

/// A trainer starves, and asks why: in two lines.
#[test]
fn a_starving_trainer_learns_why_in_two_lines() -> Result<()> {
    let folder = tempfile::tempdir().unwrap();
    let page = folder.path().join("run.html");
    let run = || {
        let mut train = wrap(slow(NONE, |_| ms(5)), &workspace(1, 2)).unwrap();
        for epoch in train.epochs(2) {
            epoch.unwrap().for_each(|batch| drop(batch.unwrap()));
        }
        train
    };
    // Where others have the cores, that is the reason.
    let is_decoding = |verdict: Verdict| verdict.stage == Some("decode") && verdict.waited > 0.5;
    let train = (0..20).map(|_| run()).find(|train| is_decoding(train.stats().verdict())).unwrap_or_else(run);
    println!("{}", train.stats().verdict());
    train.report().save(&page)?;
    let (verdict, page) = (train.stats().verdict(), std::fs::read_to_string(&page).unwrap());
    let sentence = verdict.to_string();
    assert!(sentence.starts_with("input-bound: the trainer waited ") && sentence.contains("decoding"), "{sentence}");
    assert!(verdict.stage == Some("decode") && verdict.waited > 0.5 && !verdict.advice.is_empty(), "{verdict:?}");
    assert!(page.contains("<b>input-bound</b>the trainer waited "), "{page}");
    Ok(())
}

#[test]
fn rows_that_pad_a_batch_are_no_samples() {
    let iris = concat!(env!("CARGO_MANIFEST_DIR"), "/fixtures/iris.csv");
    let mut batches = Loader::csv(iris).batch_size(64).last_batch(LastBatch::Pad).build().unwrap();
    let rows: usize = batches.by_ref().map(|batch| batch.unwrap().len()).sum();
    let stats = batches.stats();
    assert_eq!((rows, stats.batches, stats.samples), (192, 3, 150));
}
