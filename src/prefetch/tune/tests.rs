use std::sync::Arc;

use super::simulated::Simulated;
use super::{Amounts, Bounds, Tuner};
use crate::dataset::{DataSet, DataSetIterator, ReaderSource};
use crate::positions::Shard;
use crate::prefetch::{Amount, AsyncDataSetIterator, Workspace, shield, wrap};
use crate::read::MemoryReader;
use crate::ring::RingStats;
use crate::schema::Role;
use crate::stats::{Planning, QueueStats, TrainerStats, WorkerStats};

const BEGIN: Amounts = Amounts { workers: 2, prefetch: 2 };
const BOUNDS: Bounds = Bounds { workers: Some(32), prefetch: Some(64), bytes: 1 << 30, is_restless: false };

/// Samples of 4 a batch that cost nothing, for a trainer that does nothing, on two cores.
pub(super) const PLAIN: Simulated = Simulated {
    cores: 2,
    taken_cores: 0.0,
    rows: 4,
    plan_seconds: 0.0,
    planning: Planning::Order,
    read_seconds: 0.0,
    reads_at_once: f64::INFINITY,
    decode_seconds: |_| 0.5e-3,
    transform_seconds: |_| 0.0,
    transforms_at_once: usize::MAX,
    copy_seconds: 0.0,
    step_seconds: |_| 0.0,
    is_step_on_core: false,
    keeps: 0,
    hold: 0,
    slot_bytes: 4096,
};

/// The numbers found in two minutes: not slower than the best that could be set by hand, nor much larger than needed
/// for that.
fn finds_the_best(of: &Simulated) -> Amounts {
    let (rate, found) = of.run(BEGIN, Some(&mut Tuner::new(BOUNDS, BEGIN)), 120.0);
    let mut best: f64 = 0.0;
    let mut least = Amounts { workers: usize::MAX, prefetch: usize::MAX };
    for workers in [1, 2, 4, 8, 12, 16, 32] {
        for prefetch in [2, 8, 32] {
            let (rate, set) = of.run(Amounts { workers, prefetch }, None, 18.0);
            if rate > 1.01 * best {
                (best, least) = (rate, set);
            }
        }
    }
    println!("found {found:?} with {rate:.2} batches/s; by hand {least:?} with {best:.2}");
    assert!(rate >= 0.95 * best, "{rate} of {best} batches/s with {found:?}, by hand {least:?}");
    found
}

#[test]
fn decoding_gets_the_cores_and_no_more() {
    let found = finds_the_best(&Simulated { decode_seconds: |_| 0.02, ..PLAIN });
    assert_eq!(found, BEGIN);
}

#[test]
fn late_storage_gets_as_many_workers_as_it_takes() {
    let found = finds_the_best(&Simulated { read_seconds: 0.05, step_seconds: |_| 0.02, ..PLAIN });
    assert!((10..=16).contains(&found.workers), "four samples of 50 ms every 20 ms: {found:?}");
}

#[test]
fn storage_that_gives_no_more_gets_no_more_workers() {
    let found = finds_the_best(&Simulated { read_seconds: 0.02, reads_at_once: 4.0, ..PLAIN });
    assert!((4..=12).contains(&found.workers), "four at once: {found:?}");
}

#[test]
fn a_slow_trainer_gets_as_few_as_it_needs() {
    let found = finds_the_best(&Simulated { decode_seconds: |_| 0.002, step_seconds: |_| 0.05, ..PLAIN });
    assert_eq!(found, Amounts { workers: 1, prefetch: 2 });
}

#[test]
fn a_trainer_that_takes_batches_in_bursts_finds_them_ready() {
    let found = finds_the_best(&Simulated {
        decode_seconds: |_| 0.005,
        step_seconds: |nth| if nth % 10 == 0 { 0.4 } else { 0.0 },
        ..PLAIN
    });
    assert!((8..=20).contains(&found.prefetch) && found.workers <= 2, "ten at once: {found:?}");
}

#[test]
fn a_pause_changes_nothing_and_another_phase_does() {
    // An evaluation of 20 s behind every 300 steps.
    let paused =
        Simulated { read_seconds: 0.05, step_seconds: |nth| if nth % 300 == 0 { 20.0 } else { 0.02 }, ..PLAIN };
    let mut tuner = Tuner::new(BOUNDS, BEGIN);
    let (_, found) = paused.run(BEGIN, Some(&mut tuner), 200.0);
    assert!((10..=16).contains(&found.workers), "{found:?}");
    // From then on the trainer takes its time.
    let slow = Simulated { step_seconds: |_| 0.2, ..paused };
    let (rate, found) = slow.run(found, Some(&mut Tuner::new(BOUNDS, found)), 200.0);
    assert!((1..=3).contains(&found.workers) && rate >= 4.9, "one sample at a time is enough: {found:?}, {rate}");
}

#[test]
fn one_slow_sample_in_a_hundred_is_ridden_over() {
    let of = Simulated {
        decode_seconds: |sample| if sample % 100 == 50 { 0.2 } else { 0.005 },
        step_seconds: |_| 0.02,
        cores: 4,
        ..PLAIN
    };
    let found = finds_the_best(&of);
    assert!(found.prefetch > 2, "{found:?}");
}

#[test]
fn the_ring_stays_within_its_bytes() {
    let of =
        Simulated { step_seconds: |nth| if nth % 10 == 0 { 0.4 } else { 0.0 }, decode_seconds: |_| 0.005, ..PLAIN };
    let bounds = Bounds { bytes: 7 * 4096, ..BOUNDS };
    let (_, found) = of.run(BEGIN, Some(&mut Tuner::new(bounds, BEGIN)), 60.0);
    assert!(found.prefetch <= 5, "seven slots, of which two are for others: {found:?}");
}

#[test]
fn what_is_given_stays() {
    let of = Simulated { read_seconds: 0.05, step_seconds: |_| 0.02, ..PLAIN };
    let bounds = Bounds { prefetch: None, ..BOUNDS };
    let (_, found) = of.run(BEGIN, Some(&mut Tuner::new(bounds, BEGIN)), 60.0);
    assert!(found.prefetch == 2 && found.workers > 2, "{found:?}");
    let bounds = Bounds { workers: None, ..BOUNDS };
    let (_, found) = of.run(BEGIN, Some(&mut Tuner::new(bounds, BEGIN)), 60.0);
    assert_eq!(found.workers, 2);
}

#[test]
fn batches_that_the_trainer_holds_get_slots_beside_those_ahead() {
    let (_, _, mut stats) = PLAIN.run_for_figures(BEGIN, None, 10.0);
    stats.stages.iter_mut().for_each(|stage| (stage.busy_seconds, stage.cpu_seconds) = (0.1, None));
    (stats.batches, stats.samples, stats.cores) = (100, 1000, 4);
    stats.trainer = TrainerStats { batches: 100, wait_seconds: 4.0, busy_seconds: 6.0, ..TrainerStats::default() };
    stats.workers = WorkerStats { threads: 2, busy_seconds: 6.0, idle_seconds: 14.0, ..WorkerStats::default() };
    stats.queue = QueueStats { prefetch: 2, seconds: 10.0, planning_slot_seconds: 8.0, ..QueueStats::default() };
    stats.ring = RingStats { slots: 4, slot_bytes: 4096, held_seconds: 28.0, ..RingStats::default() };
    assert_eq!(stats.finding().change.map(|change| (change.setting, change.value)), Some(("hold", 3)));
    let (wanted, _) = Tuner::new(BOUNDS, BEGIN).decide(&stats).expect("another setting");
    assert_eq!(wanted, Amounts { prefetch: 2 + 3, ..BEGIN });
}

fn seen(batch: &DataSet) -> (Vec<u64>, Vec<f32>) {
    let values = batch.features().and_then(|features| features.as_slice::<f32>()).expect("one tensor of numbers");
    (batch.sample_ids().to_vec(), values.to_vec())
}

fn restless() -> Workspace {
    let mut builder = Workspace::builder().workers(Amount::Auto).prefetch(Amount::Auto).poison(0xa5);
    builder.is_restless = true;
    builder.build().expect("valid settings")
}

#[test]
fn other_numbers_in_the_midst_change_neither_order_nor_content() {
    let values: Vec<f32> = (0..3000u16).map(f32::from).collect();
    for shard in [Shard::default(), Shard { index: 1, count: 3 }] {
        let source = || {
            let reader = MemoryReader::new("x", Role::Feature, &[3], Arc::<[f32]>::from(values.clone())).unwrap();
            ReaderSource::new(reader).batch_size(7).shuffle(5).shard(shard)
        };
        let fixed = Workspace::builder().workers(1).prefetch(1).build().unwrap();
        let mut expected = wrap(shield(source()), &fixed).unwrap();
        let workspace = restless();
        let mut found = AsyncDataSetIterator::new(source(), &workspace).unwrap();
        // Takes turns with it in its memory.
        let mut other = AsyncDataSetIterator::new(source(), &workspace).unwrap();
        let mut resumed = AsyncDataSetIterator::new(source(), &restless()).unwrap();
        for epoch in 0..3 {
            for nth in 0.. {
                if nth == 20 {
                    resumed.seek(&found.state()).unwrap();
                    other.next().unwrap().unwrap();
                }
                let Some(batch) = expected.next() else { break };
                let batch = seen(&batch.unwrap());
                assert_eq!(seen(&found.next().unwrap().unwrap()), batch, "epoch {epoch}, batch {nth}");
                if nth >= 20 {
                    assert_eq!(seen(&resumed.next().unwrap().unwrap()), batch, "epoch {epoch}, batch {nth}");
                }
            }
            assert!(found.next().is_none() && resumed.next().is_none());
            for iterator in [&mut found, &mut resumed] {
                iterator.reset().unwrap();
            }
            expected.reset().unwrap();
        }
        let tuning = found.stats().tuning.unwrap();
        assert!(tuning.workers && tuning.prefetch && tuning.changes > 10, "{tuning:?}");
        drop((found, other));
        assert_eq!(workspace.ring().leased, 0);
    }
}
