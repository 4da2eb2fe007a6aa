//! Simulated statistics with a known cause, and the verdicts on them.

use std::time::Duration;

use crate::counters::Histogram;

use super::super::{
    Planning, QueueStats, ReadStats, RingStats, SlowSample, StageStats, Times, TrainerStats, UploadStats, WorkerStats,
};
use super::*;

/// Ten seconds of a trainer that got 100 batches of 10 samples and waited `waited` seconds. Two workers on four cores
/// were busy for `busy` of their time: a tenth reading, the rest decoding.
fn run(waited: f64, busy: f64) -> Stats {
    let busy_seconds = busy * 20.0;
    let stage = |name, threads, busy_seconds, on_core: f64| StageStats {
        name,
        threads,
        thread_seconds: 10.0 * threads as f64,
        busy_seconds,
        cpu_seconds: Some(busy_seconds * on_core),
        samples: 1000,
        ..StageStats::default()
    };
    Stats {
        batches: 100,
        samples: 1000,
        trainer: TrainerStats {
            batches: 100,
            ready: 50,
            wait_seconds: waited,
            busy_seconds: 10.0 - waited,
            steps: times(&[(0.05, 90), (0.07, 10)]),
            ..TrainerStats::default()
        },
        stages: vec![
            stage("plan", 1, 0.1, 1.0),
            stage("read", 2, 0.1 * busy_seconds, 0.5),
            stage("decode", 2, 0.9 * busy_seconds, 1.0),
            stage("settle", 2, 0.0, 1.0),
        ],
        workers: WorkerStats {
            threads: 2,
            thread_seconds: 20.0,
            busy_seconds,
            idle_seconds: 20.0 - busy_seconds,
            cpu_seconds: Some(0.95 * busy_seconds),
            queued_seconds: Some(0.0),
            ..WorkerStats::default()
        },
        queue: QueueStats {
            prefetch: 2,
            seconds: 10.0,
            ready_seconds: 3.0,
            wait_fill_seconds: waited,
            ..QueueStats::default()
        },
        ring: RingStats { slots: 4, held_seconds: 10.0, ..RingStats::default() },
        cores: 4,
        process_cpu_seconds: Some(busy_seconds),
        ..Stats::default()
    }
}

/// Times of these lengths, each with its number.
fn times(all: &[(f64, u64)]) -> Times {
    let histogram = Histogram::new();
    all.iter().for_each(|(seconds, count)| histogram.record(Duration::from_secs_f64(*seconds), *count));
    Times::read(&histogram)
}

/// The verdict on a run after `change`.
fn with(mut stats: Stats, change: impl FnOnce(&mut Stats)) -> Verdict {
    change(&mut stats);
    stats.verdict()
}

/// The workers spend nine tenths of their time reading, without a core.
fn mostly_reads(stats: &mut Stats) {
    let busy = stats.workers.busy_seconds;
    (stats.stages[1].busy_seconds, stats.stages[1].cpu_seconds) = (0.9 * busy, Some(0.0));
    (stats.stages[2].busy_seconds, stats.stages[2].cpu_seconds) = (0.1 * busy, Some(0.1 * busy));
    stats.process_cpu_seconds = Some(0.1 * busy);
}

fn reads(levels: [(f64, f64); 2]) -> Vec<ReadStats> {
    levels.map(|(jobs, sample_seconds)| ReadStats { jobs, samples: 500, sample_seconds }).to_vec()
}

#[test]
fn slow_decoding_is_named_with_the_workers_that_it_needs() {
    let verdict = run(5.0, 0.99).verdict();
    assert_eq!((verdict.limit, verdict.stage), (Limit::Workers, Some("decode")));
    assert_eq!(verdict.change, Some(Change { setting: "workers", value: 4 }));
    let gain = verdict.gain.unwrap();
    assert!((1.9..2.1).contains(&gain), "twice the cores, and a trainer that could go twice as fast: {gain}");
    let sentence = verdict.to_string();
    for part in
        ["input-bound: the trainer waited 50 % of the time; decoding is the limit (2 workers 99 % busy: ", "4 workers"]
    {
        assert!(sentence.contains(part), "{sentence}");
    }
}

#[test]
fn the_gain_is_bounded_by_the_trainer_and_by_the_cores_that_it_uses_itself() {
    let verdict = run(2.0, 0.99).verdict();
    assert!((1.2..1.3).contains(&verdict.gain.unwrap()), "it waits a fifth of the time: {verdict}");
    let verdict = with(run(8.0, 0.99), |stats| stats.process_cpu_seconds = Some(19.8 + 10.0));
    assert_eq!(verdict.change.unwrap().value, 3, "one core is the trainer's: {verdict}");
    assert!((1.4..1.6).contains(&verdict.gain.unwrap()), "{verdict}");
}

#[test]
fn all_cores_at_work_are_no_reason_for_more_workers() {
    let verdict = with(run(5.0, 0.99), |stats| stats.cores = 2);
    assert_eq!((verdict.limit, verdict.stage, verdict.change), (Limit::Workers, Some("decode"), None));
    assert!(verdict.advice.contains("more cores"), "{verdict}");
    let more_than_cores = with(run(5.0, 0.99), |stats| {
        (stats.workers.threads, stats.workers.thread_seconds) = (8, 80.0);
        stats.workers.busy_seconds = 79.0;
        stats.stages[2].busy_seconds = 79.0;
        stats.stages[2].cpu_seconds = Some(39.0);
        stats.workers.queued_seconds = Some(40.0);
        stats.process_cpu_seconds = Some(39.5);
    });
    assert_eq!((more_than_cores.limit, more_than_cores.change), (Limit::Workers, None));
    assert!(more_than_cores.advice.contains("more workers than cores"), "{more_than_cores}");
    let rested_at_times = with(run(9.0, 0.99), |stats| {
        (stats.workers.threads, stats.workers.thread_seconds) = (8, 80.0);
        stats.workers.busy_seconds = 58.0;
        (stats.stages[2].busy_seconds, stats.stages[2].cpu_seconds) = (58.0, Some(19.2));
        stats.workers.queued_seconds = Some(54.0);
        stats.process_cpu_seconds = Some(19.3);
        (stats.cores, stats.queue.planning_full_seconds) = (2, 9.0);
    });
    assert_eq!((rested_at_times.limit, rested_at_times.change), (Limit::Workers, None), "{rested_at_times}");
    assert!(rested_at_times.evidence.contains("all 2 cores are at work"), "{rested_at_times}");
}

#[test]
fn time_without_a_core_is_another_programs_and_not_work() {
    let verdict = with(run(5.0, 0.99), |stats| {
        stats.stages[2].cpu_seconds = Some(9.0);
        stats.workers.queued_seconds = Some(9.0);
        stats.process_cpu_seconds = Some(9.9);
    });
    assert_eq!(verdict.limit, Limit::MachineBusy, "{verdict}");
    let woken_late = with(run(5.0, 0.3), |stats| stats.workers.queued_seconds = Some(8.0));
    assert_eq!(woken_late.limit, Limit::MachineBusy, "{woken_late}");
    let a_little = with(run(5.0, 0.3), |stats| stats.workers.queued_seconds = Some(2.0));
    assert_eq!(a_little.limit, Limit::Unclear, "a tenth of the time does not explain a half: {a_little}");
}

#[test]
fn a_quota_of_a_part_of_a_core_is_no_other_programs_doing() {
    let half = |used: f64| {
        with(run(8.0, 0.99), |stats| {
            (stats.cores, stats.core_quota) = (1, Some(0.5));
            (stats.workers.threads, stats.workers.thread_seconds) = (1, 10.0);
            (stats.workers.busy_seconds, stats.workers.queued_seconds) = (9.9, Some(9.9 - used));
            (stats.stages[1].busy_seconds, stats.stages[2].busy_seconds) = (0.9, 9.0);
            (stats.stages[1].cpu_seconds, stats.stages[2].cpu_seconds) = (Some(0.1 * used), Some(0.9 * used));
            stats.process_cpu_seconds = Some(used);
        })
    };
    let whole = half(4.9);
    assert_eq!((whole.limit, whole.stage, whole.change), (Limit::Workers, Some("decode"), None), "{whole}");
    assert!(
        whole.evidence.contains("this process uses all the time that its control group allows (0.5 cores)"),
        "{whole}"
    );
    let taken = half(2.0);
    assert_eq!(taken.limit, Limit::MachineBusy, "the quota is not used up: {taken}");
    let one_and_a_half = with(run(8.0, 0.99), |stats| {
        (stats.cores, stats.core_quota) = (1, Some(1.5));
        (stats.workers.threads, stats.workers.thread_seconds) = (1, 10.0);
        (stats.workers.busy_seconds, stats.process_cpu_seconds) = (9.9, Some(9.4));
        (stats.stages[1].busy_seconds, stats.stages[2].busy_seconds) = (1.0, 8.9);
        (stats.stages[1].cpu_seconds, stats.stages[2].cpu_seconds) = (Some(0.5), Some(8.9));
    });
    assert_eq!(one_and_a_half.change, Some(Change { setting: "workers", value: 2 }), "{one_and_a_half}");
    assert!((1.5..1.7).contains(&one_and_a_half.gain.unwrap()), "{one_and_a_half}");
}

#[test]
fn planning_and_a_trainer_that_have_no_core_are_told_from_slow_ones() {
    let plans_late = |process: f64| {
        with(run(6.0, 0.2), |stats| {
            (stats.queue.wait_fill_seconds, stats.queue.wait_plan_seconds) = (0.5, 5.5);
            stats.stages[0].queued_seconds = Some(5.0);
            stats.process_cpu_seconds = Some(process);
        })
    };
    let others = plans_late(4.0);
    assert_eq!(others.limit, Limit::MachineBusy, "{others}");
    assert!(others.evidence.starts_with("planning could have run for 50 % of the time and had no core"), "{others}");
    let own = plans_late(39.0);
    assert_eq!((own.limit, own.change), (Limit::Workers, None), "{own}");
    assert!(own.evidence.contains("all 4 cores are at work"), "{own}");
    let a_little = with(run(6.0, 0.2), |stats| {
        (stats.queue.wait_fill_seconds, stats.queue.wait_plan_seconds) = (0.5, 5.5);
        (stats.stages[0].busy_seconds, stats.stages[0].cpu_seconds) = (9.0, Some(9.0));
        stats.stages[0].queued_seconds = Some(2.0);
    });
    assert_eq!(a_little.limit, Limit::Planning, "it worked: {a_little}");
    let woken = |batches: u64| {
        with(run(6.0, 0.2), |stats| {
            (stats.trainer.batches, stats.trainer.ready, stats.queue.wait_fill_seconds) = (batches, 0, 1.0);
        })
    };
    let late = woken(100);
    assert_eq!(late.limit, Limit::MachineBusy, "{late}");
    assert!(late.evidence.starts_with("the trainer's thread could have run for 50 % of the time"), "{late}");
    let often = woken(50_000);
    assert_eq!(often.limit, Limit::HandOff, "{often}");
    assert!(often.evidence.starts_with("it took 100.0 us to wake it"), "{often}");
}

#[test]
fn code_that_runs_one_at_a_time_wants_no_more_workers() {
    let mut transforms = run(5.0, 0.99);
    let mut transform = transforms.stages[2].clone();
    (transform.name, transform.busy_seconds, transform.cpu_seconds) = ("transform", 18.0, Some(9.5));
    (transforms.stages[1].busy_seconds, transforms.stages[2].busy_seconds) = (0.9, 0.9);
    (transforms.stages[1].cpu_seconds, transforms.stages[2].cpu_seconds) = (Some(0.4), Some(0.9));
    transforms.stages.insert(3, transform);
    transforms.process_cpu_seconds = Some(11.0);
    let locked = with(transforms.clone(), |stats| stats.workers.lock_wait_seconds = 8.5);
    assert_eq!((locked.limit, locked.stage, locked.change), (Limit::Workers, Some("transform"), None), "{locked}");
    assert!(locked.evidence.contains("43 % of that time they waited for their turn"), "{locked}");
    let waits = transforms.verdict();
    assert!(waits.is_gain_most && waits.advice.contains("less where they wait for one another"), "{waits}");
    let seen_alone = with(transforms, |stats| {
        (stats.workers.threads, stats.workers.thread_seconds, stats.workers.busy_seconds) = (1, 10.0, 9.9);
        (stats.stages[3].busy_seconds, stats.stages[3].cpu_seconds) = (8.9, Some(8.9));
        (stats.stages[1].busy_seconds, stats.stages[2].busy_seconds) = (0.5, 0.5);
    });
    assert!(seen_alone.is_gain_most, "nobody knows whether two can run it at the same time: {seen_alone}");
}

#[test]
fn memory_that_others_hold_is_named_with_what_more_of_it_gives() {
    let short = |cores| {
        with(run(5.0, 0.99), |stats| {
            stats.stages[2].cpu_seconds = Some(9.0);
            stats.workers.memory_wait_seconds = 8.0;
            (stats.process_cpu_seconds, stats.cores) = (Some(10.5), cores);
        })
    };
    let waits = short(4);
    assert_eq!((waits.limit, waits.stage, waits.change), (Limit::Workers, Some("decode"), None), "{waits}");
    assert!(waits.evidence.contains("40 % of that time they waited for memory that other workers held"), "{waits}");
    assert!(waits.advice.starts_with("raise the memory budget (`budget_bytes`), which would be"), "{waits}");
    assert!((1.6..1.8).contains(&waits.gain.unwrap()) && !waits.is_gain_most, "two workers that never wait: {waits}");
    let on_one_core = short(1);
    assert!(on_one_core.advice.contains("use more cores"), "memory would gain nothing there: {on_one_core}");
}

#[test]
fn one_batch_that_was_waited_for_is_the_first() {
    let first = with(run(3.0, 0.3), |stats| stats.trainer.ready = 99);
    assert_eq!((first.limit, first.change), (Limit::Trainer, None), "{first}");
    assert!(first.evidence.starts_with("all of that for one of 100 batches"), "{first}");
    let one = with(run(3.0, 0.3), |stats| stats.trainer.batches = 1);
    assert!(one.to_string().starts_with("not enough data for a verdict: 1 batch in 10.00 s"), "{one}");
}

#[test]
fn the_beginning_of_epochs_is_told_from_all_other_waiting() {
    let edges = |planning| {
        with(run(3.0, 0.5), |stats| {
            stats.planning = planning;
            (stats.trainer.epochs, stats.trainer.edge_wait_seconds) = (10, 2.7);
            stats.queue.planning_full_seconds = 5.0;
        })
    };
    let indexed = edges(Planning::Order);
    assert_eq!((indexed.limit, indexed.change), (Limit::EpochEdges, None));
    for part in ["90 % of that for the first batch of an epoch, 270.0 ms for each of 10 epochs", "`across_epochs`"] {
        assert!(indexed.to_string().contains(part), "{indexed}");
    }
    let of_one_batch = with(run(9.0, 0.99), |stats| {
        (stats.trainer.batches, stats.trainer.epochs, stats.trainer.edge_wait_seconds) = (100, 100, 9.0);
    });
    assert_eq!((of_one_batch.limit, of_one_batch.stage), (Limit::Workers, Some("decode")), "{of_one_batch}");
    let tiny_epochs = with(run(9.0, 0.99), |stats| {
        (stats.trainer.epochs, stats.trainer.edge_wait_seconds) = (50, 5.0);
    });
    assert_eq!(tiny_epochs.limit, Limit::Workers, "the second of two batches is waited for, too: {tiny_epochs}");
    let without_cores = with(run(9.0, 0.28), |stats| {
        (stats.trainer.batches, stats.trainer.epochs, stats.trainer.edge_wait_seconds) = (20, 20, 9.0);
        stats.workers.queued_seconds = Some(18.0);
    });
    assert_eq!(without_cores.limit, Limit::MachineBusy, "other programs take the cores all the time: {without_cores}");
    assert!(edges(Planning::Stream).advice.contains("a stream begins again"));
    let one = with(run(3.0, 0.5), |stats| {
        (stats.trainer.epochs, stats.trainer.edge_wait_seconds) = (1, 2.7);
        stats.queue.planning_full_seconds = 5.0;
    });
    assert_eq!(one.limit, Limit::ShallowRing, "{one}");
}

#[test]
fn a_gain_that_the_trainer_or_planning_bounds_is_not_the_cores() {
    let trainer = with(run(0.6, 0.99), |stats| stats.cores = 8);
    assert_eq!((trainer.limit, trainer.change), (Limit::Workers, None), "{trainer}");
    assert!(trainer.advice.ends_with("1.06x at most, since the trainer then is the limit"), "{trainer}");
    let planning = with(run(5.0, 0.99), |stats| stats.stages[0].busy_seconds = 9.5);
    assert!(planning.advice.ends_with("1.05x at most, since planning then is the limit"), "{planning}");
}

#[test]
fn storage_that_answers_late_wants_workers_and_storage_that_gives_no_more_does_not() {
    let late = with(run(5.0, 0.99), |stats| {
        mostly_reads(stats);
        stats.reads = reads([(1.0, 0.018), (2.0, 0.018)]);
    });
    assert_eq!((late.limit, late.stage), (Limit::Workers, Some("read")));
    assert!(late.change.unwrap().value >= 4 && late.gain.unwrap() > 1.9, "{late}");
    assert!(late.advice.contains("they mostly wait"), "{late}");
    let narrow = with(run(5.0, 0.99), |stats| {
        mostly_reads(stats);
        stats.reads = reads([(1.0, 0.009), (2.0, 0.018)]);
    });
    assert_eq!((narrow.stage, narrow.change), (Some("read"), None), "{narrow}");
    assert!(narrow.advice.contains("no more bytes per second"), "{narrow}");
    let later = with(run(5.0, 0.99), |stats| {
        mostly_reads(stats);
        stats.reads = reads([(1.0, 0.00002), (2.0, 0.018)]);
    });
    assert!(later.advice.contains("up to"), "a thousand times as long is not for one more that reads: {later}");
    let ahead = with(run(5.0, 0.99), |stats| {
        mostly_reads(stats);
        stats.asked_ahead = 100;
    });
    assert_eq!((ahead.stage, ahead.change), (Some("read"), None), "{ahead}");
    assert!(ahead.advice.contains("`Storage::requests_in_flight`"), "{ahead}");
    let not_known = with(run(5.0, 0.99), mostly_reads);
    assert!(not_known.advice.contains("up to"), "it was never otherwise: {not_known}");
}

#[test]
fn workers_that_may_use_no_more_of_the_cores_are_not_called_too_few() {
    let rests = with(run(5.0, 0.5), |stats| {
        (stats.workers.rested_seconds, stats.workers.idle_seconds) = (9.0, 1.0);
        stats.workers.most_cores = Some(1.0);
    });
    assert_eq!((rests.limit, rests.stage, rests.change), (Limit::Capped, Some("decode"), None));
    for part in ["2 workers may use 1.0 of 4 cores, and rested 45 % of the time", "raise `worker_share`"] {
        assert!(rests.to_string().contains(part), "{rests}");
    }
    let on_two_cores = with(run(5.0, 0.99), |stats| stats.workers.most_cores = Some(2.0));
    assert_eq!((on_two_cores.limit, on_two_cores.change), (Limit::Workers, None));
    assert!(on_two_cores.advice.contains("let workers use more"), "{on_two_cores}");
}

#[test]
fn transforms_are_called_the_users_code_and_no_stage_is_named_that_does_not_stand_out() {
    let verdict = with(run(5.0, 0.99), |stats| {
        let mut transform = stats.stages[2].clone();
        stats.stages[2].busy_seconds = 1.0;
        (transform.name, transform.busy_seconds) = ("transform", 17.0);
        stats.stages.insert(3, transform);
    });
    assert_eq!(verdict.stage, Some("transform"));
    assert!(verdict.evidence.contains("the transforms' code is the limit"), "{verdict}");
    let even = with(run(5.0, 0.99), |stats| {
        let mut transform = stats.stages[2].clone();
        stats.stages.iter_mut().for_each(|stage| stage.busy_seconds = 6.0);
        (transform.name, transform.busy_seconds) = ("transform", 6.0);
        stats.stages.insert(3, transform);
    });
    assert_eq!((even.limit, even.stage), (Limit::Workers, None), "{even}");
}

#[test]
fn a_trainer_that_does_not_wait_is_the_limit_or_well_balanced() {
    let slow = run(0.1, 0.2).verdict();
    assert_eq!((slow.limit, slow.change), (Limit::Trainer, None));
    assert!(slow.to_string().starts_with("trainer-bound: the trainer waited 1 % of the time"), "{slow}");
    let balanced = run(0.2, 0.9).verdict();
    assert_eq!(balanced.limit, Limit::Balanced);
    assert!(balanced.to_string().starts_with("well balanced: the trainer waited 2 % of the time"), "{balanced}");
}

#[test]
fn bursts_and_too_few_batches_want_a_deeper_ring() {
    let bursts = with(run(2.0, 0.4), |stats| {
        stats.queue.planning_full_seconds = 5.0;
        stats.trainer.steps = times(&[(1e-5, 90), (0.5, 10)]);
    });
    assert_eq!((bursts.limit, bursts.change), (Limit::ShallowRing, Some(Change { setting: "prefetch", value: 8 })));
    assert!(bursts.evidence.contains("in bursts"), "{bursts}");
    assert!((1.2..1.3).contains(&bursts.gain.unwrap()), "a fifth of the time was waited: {bursts}");
    let few = with(run(5.0, 0.5), |stats| stats.queue.planning_full_seconds = 9.0);
    assert!((1.6..1.7).contains(&few.gain.unwrap()), "five instead of three at the same time: {few}");
    assert_eq!((few.limit, few.change), (Limit::ShallowRing, Some(Change { setting: "prefetch", value: 4 })));
    assert!(few.evidence.contains("too few batches"), "{few}");
}

#[test]
fn one_slow_sample_is_named() {
    let verdict = with(run(4.0, 0.5), |stats| {
        (stats.queue.wait_fill_seconds, stats.queue.wait_behind_seconds) = (0.5, 3.5);
        stats.queue.planning_full_seconds = 5.0;
        stats.slowest = vec![SlowSample { name: "a/17.jpg".to_owned(), decode_seconds: 0.4, ..SlowSample::default() }];
    });
    assert_eq!(verdict.limit, Limit::SlowSamples);
    assert!(verdict.evidence.contains("88 % of that") && verdict.evidence.contains("a/17.jpg"), "{verdict}");
}

#[test]
fn held_batches_planning_and_the_shield_are_told_apart() {
    let held = with(run(4.0, 0.3), |stats| {
        stats.queue.planning_slot_seconds = 8.0;
        stats.ring.held_seconds = 28.0;
    });
    assert_eq!((held.limit, held.change), (Limit::HeldBatches, Some(Change { setting: "hold", value: 3 })));
    let alone = with(run(6.0, 0.0), |stats| {
        stats.workers.threads = 0;
        stats.queue.planning_slot_seconds = 5.0;
        stats.ring.held_seconds = 28.0;
    });
    assert_eq!((alone.limit, alone.gain), (Limit::HeldBatches, Some(2.0)), "half of the time: {alone}");
    assert!(!alone.to_string().contains("workers idle"), "{alone}");
    let names = [
        (Planning::Lengths, "measuring their lengths"),
        (Planning::Order, "choosing samples"),
        (Planning::Stream, "in order"),
        (Planning::Iterator, "your own"),
    ];
    for (planning, name) in names {
        let verdict = with(run(4.0, 0.2), |stats| {
            stats.planning = planning;
            stats.stages[0].busy_seconds = 9.5;
            (stats.queue.wait_fill_seconds, stats.queue.wait_plan_seconds) = (0.0, 4.0);
        });
        assert_eq!((verdict.limit, verdict.stage), (Limit::Planning, Some("plan")));
        assert!(verdict.evidence.contains(name), "{verdict}");
    }
    let shield = with(run(6.0, 0.3), |stats| stats.workers.threads = 0);
    assert_eq!((shield.limit, shield.stage), (Limit::Shield, Some("decode")));
    assert!((1.6..1.7).contains(&shield.gain.unwrap()), "10 s, of which 6 are making batches: {shield}");
}

#[test]
fn the_upload_is_named_only_if_the_loader_is_in_time() {
    let upload = |copy, load, slot| UploadStats {
        batches: 100,
        bytes: 1 << 30,
        copy_wait_seconds: copy,
        load_wait_seconds: load,
        slot_wait_seconds: slot,
        ..UploadStats::default()
    };
    let copies = with(run(6.0, 0.3), |stats| stats.upload = Some(upload(9.0, 0.2, 0.1)));
    assert!(copies.limit == Limit::Upload && copies.evidence.starts_with("copies"), "{copies}");
    let computed = with(run(6.0, 0.3), |stats| stats.upload = Some(upload(0.5, 0.2, 8.0)));
    assert!(computed.limit == Limit::Upload && computed.evidence.contains("conversions on the device"), "{computed}");
    let not_waited_for = with(run(0.0, 0.3), |stats| stats.upload = Some(upload(9.5, 0.1, 0.0)));
    assert_eq!(not_waited_for.limit, Limit::Upload, "the device waits for it, and not the host");
    let late = with(run(6.0, 0.99), |stats| stats.upload = Some(upload(1.0, 8.0, 0.1)));
    assert_eq!((late.limit, late.stage), (Limit::Workers, Some("decode")));
    let fast = with(run(0.0, 0.3), |stats| stats.upload = Some(upload(2.0, 0.0, 8.0)));
    assert_eq!(fast.limit, Limit::Trainer);
}

#[test]
fn what_the_figures_do_not_show_is_not_named() {
    let unclear = run(5.0, 0.4).verdict();
    assert_eq!((unclear.limit, unclear.stage, unclear.change, unclear.gain), (Limit::Unclear, None, None, None));
    let short = with(run(5.0, 0.99), |stats| stats.trainer.batches = 2);
    assert_eq!(short.limit, Limit::TooLittleSeen);
    assert!(short.to_string().starts_with("not enough data for a verdict"), "{short}");
    assert_eq!(Stats::default().verdict().limit, Limit::TooLittleSeen);
    let tiny = with(run(5.0, 0.4), |stats| {
        stats.trainer.batches = 1_000_000;
    });
    assert_eq!(tiny.limit, Limit::HandOff, "{tiny}");
}

#[test]
fn programs_read_the_same() {
    let json = serde_json::to_value(run(5.0, 0.99).verdict()).unwrap();
    assert_eq!((&json["limit"], &json["stage"]), (&"workers".into(), &"decode".into()));
    assert_eq!(json["change"], serde_json::json!({"setting": "workers", "value": 4}));
}
