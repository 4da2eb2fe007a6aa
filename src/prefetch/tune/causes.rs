//! Simulated runs with each cause that can keep a trainer waiting, alone and together with others. The tests check the
//! verdict, whether it agrees with the figures, and whether its prediction comes true when the change is made.

use super::Amounts;
use super::simulated::Simulated;
use super::tests::PLAIN;
use crate::stats::{Limit, Planning, Stats, Verdict};

const SECONDS: f64 = 30.0;

/// A run with a known problem, and the verdict that it must get.
struct Case {
    name: &'static str,
    of: Simulated,
    workers: usize,
    prefetch: usize,
    limit: Limit,
    stage: Option<&'static str>,
    /// The setting that must be changed, if one helps.
    setting: Option<&'static str>,
}

fn case(name: &'static str, of: Simulated, [workers, prefetch]: [usize; 2], limit: Limit) -> Case {
    Case { name, of, workers, prefetch, limit, stage: None, setting: None }
}

impl Case {
    fn stage(self, stage: &'static str) -> Self {
        Self { stage: Some(stage), ..self }
    }

    fn setting(self, setting: &'static str) -> Self {
        Self { setting: Some(setting), ..self }
    }

    fn amounts(&self) -> Amounts {
        Amounts { workers: self.workers, prefetch: self.prefetch }
    }

    /// The run after the change that the verdict advises.
    fn changed(&self, verdict: &Verdict) -> Option<(Simulated, Amounts)> {
        let amounts = self.amounts();
        Some(match (verdict.change, verdict.limit) {
            (Some(change), _) => match change.setting {
                "workers" => (self.of, Amounts { workers: change.value, ..amounts }),
                "prefetch" => (self.of, Amounts { prefetch: change.value, ..amounts }),
                "hold" => (Simulated { hold: change.value, ..self.of }, amounts),
                other => panic!("{}: {other} is no setting of these runs", self.name),
            },
            (None, Limit::Upload) => (Simulated { copy_seconds: self.of.copy_seconds / 2.0, ..self.of }, amounts),
            _ => return None,
        })
    }
}

fn slow_now_and_then(sample: u64) -> f64 {
    if sample % 100 == 50 { 0.2 } else { 0.005 }
}

fn bursts(nth: u64) -> f64 {
    if nth.is_multiple_of(10) { 0.4 } else { 0.0 }
}

fn cases() -> Vec<Case> {
    let reading = Simulated { read_seconds: 0.02, ..PLAIN };
    let decoding = Simulated { decode_seconds: |_| 0.01, ..PLAIN };
    let narrow = Simulated { reads_at_once: 4.0, ..reading };
    let one_row = Simulated { rows: 1, ..reading };
    let copies = Simulated { copy_seconds: 0.03, ..PLAIN };
    let holds = Simulated { rows: 1, keeps: 3, ..reading };
    let iterator = Simulated { plan_seconds: 0.04, planning: Planning::Iterator, ..PLAIN };
    let closure = Simulated { transform_seconds: |_| 0.02, ..PLAIN };
    let python = Simulated { transform_seconds: |_| 0.01, transforms_at_once: 1, cores: 4, ..PLAIN };
    let trainer = Simulated { step_seconds: |_| 0.05, ..PLAIN };
    vec![
        case("late storage", reading, [1, 2], Limit::Workers).stage("read").setting("workers"),
        case(
            "late storage, and decoding that takes half as long",
            Simulated { decode_seconds: |_| 0.01, cores: 8, ..reading },
            [2, 4],
            Limit::Workers,
        )
        .stage("read")
        .setting("workers"),
        case(
            "late storage, and a trainer that needs half the time",
            Simulated { step_seconds: |_| 0.04, ..reading },
            [1, 4],
            Limit::Workers,
        )
        .stage("read")
        .setting("workers"),
        case(
            "bursts of twenty, and storage that gives no more",
            Simulated { step_seconds: |nth| if nth % 40 < 20 { 0.06 } else { 0.0 }, ..narrow },
            [8, 4],
            Limit::ShallowRing,
        )
        .setting("prefetch"),
        case("storage that gives no more", narrow, [8, 2], Limit::Workers).stage("read").setting("workers"),
        case("decoding", decoding, [1, 2], Limit::Workers).stage("decode").setting("workers"),
        case("decoding on all cores", decoding, [2, 2], Limit::Workers).stage("decode"),
        case(
            "decoding, and a trainer",
            Simulated { cores: 8, step_seconds: |_| 0.015, ..decoding },
            [1, 4],
            Limit::Workers,
        )
        .stage("decode")
        .setting("workers"),
        case(
            "decoding that becomes slow half-way",
            Simulated {
                decode_seconds: |sample| if sample < 2000 { 0.0005 } else { 0.02 },
                step_seconds: |_| 0.03,
                ..PLAIN
            },
            [2, 2],
            Limit::Workers,
        )
        .stage("decode"),
        case("more workers than cores", decoding, [8, 4], Limit::Workers).stage("decode"),
        case("many more workers than cores", decoding, [64, 32], Limit::Workers).stage("decode"),
        case("a trainer", Simulated { step_seconds: |_| 0.05, ..PLAIN }, [2, 2], Limit::Trainer),
        case(
            "a trainer that keeps batches",
            Simulated { keeps: 2, step_seconds: |_| 0.05, ..PLAIN },
            [2, 2],
            Limit::Trainer,
        ),
        case(
            "a trainer, and decoding as slow",
            Simulated { step_seconds: |_| 0.022, ..decoding },
            [2, 8],
            Limit::Balanced,
        ),
        case(
            "bursts",
            Simulated { decode_seconds: |_| 0.005, step_seconds: bursts, ..PLAIN },
            [2, 2],
            Limit::ShallowRing,
        )
        .setting("prefetch"),
        case(
            "bursts, and workers that are busy for most of the time",
            Simulated { decode_seconds: |_| 0.014, step_seconds: bursts, ..PLAIN },
            [2, 2],
            Limit::ShallowRing,
        )
        .setting("prefetch"),
        case("too few batches", one_row, [6, 1], Limit::ShallowRing).setting("prefetch"),
        case("no batch ahead", one_row, [4, 0], Limit::ShallowRing).setting("prefetch"),
        case(
            "one slow sample in a hundred",
            Simulated { decode_seconds: slow_now_and_then, step_seconds: |_| 0.02, cores: 4, ..PLAIN },
            [4, 2],
            Limit::SlowSamples,
        )
        .setting("prefetch"),
        case(
            "one slow sample in a hundred, for a trainer that takes no time",
            Simulated { decode_seconds: slow_now_and_then, cores: 4, ..PLAIN },
            [4, 2],
            Limit::SlowSamples,
        )
        .setting("prefetch"),
        case("a closure", closure, [1, 2], Limit::Workers).stage("transform").setting("workers"),
        case(
            "a closure, and decoding that takes as long",
            Simulated { decode_seconds: |_| 0.02, cores: 4, ..closure },
            [2, 2],
            Limit::Workers,
        )
        .setting("workers"),
        case(
            "a closure that is slow one time in fifty",
            Simulated {
                transform_seconds: |sample| if sample % 50 == 25 { 0.2 } else { 0.001 },
                step_seconds: |_| 0.02,
                cores: 4,
                ..PLAIN
            },
            [4, 2],
            Limit::SlowSamples,
        )
        .setting("prefetch"),
        case("functions in Python", python, [4, 2], Limit::Workers).stage("transform"),
        case("functions in Python, and one worker", python, [1, 2], Limit::Workers)
            .stage("transform")
            .setting("workers"),
        case(
            "functions in Python, and decoding that takes longer",
            Simulated { decode_seconds: |_| 0.02, cores: 8, ..python },
            [2, 4],
            Limit::Workers,
        )
        .stage("decode")
        .setting("workers"),
        case(
            "a trainer that evaluates now and then",
            Simulated {
                cores: 4,
                decode_seconds: |_| 0.01,
                step_seconds: |nth| if nth % 300 == 299 { 15.0 } else { 0.0 },
                ..PLAIN
            },
            [1, 2],
            Limit::Workers,
        )
        .stage("decode"),
        case(
            "decoding that is slow, and then a closure",
            Simulated {
                cores: 4,
                decode_seconds: |sample| if sample < 1400 { 0.01 } else { 0.001 },
                transform_seconds: |sample| if sample < 1400 { 0.001 } else { 0.01 },
                ..PLAIN
            },
            [1, 2],
            Limit::Workers,
        )
        .setting("workers"),
        case(
            "a first sample that takes long",
            Simulated {
                decode_seconds: |sample| if sample == 0 { 3.0 } else { 0.002 },
                step_seconds: |_| 0.02,
                ..PLAIN
            },
            [2, 2],
            Limit::Trainer,
        ),
        case(
            "a trainer on the same cores",
            Simulated { step_seconds: |_| 0.04, is_step_on_core: true, ..decoding },
            [2, 2],
            Limit::Trainer,
        ),
        case(
            "a quick trainer on the same cores",
            Simulated { step_seconds: |_| 0.005, is_step_on_core: true, ..decoding },
            [2, 4],
            Limit::Workers,
        )
        .stage("decode"),
        case(
            "late storage, and too many workers",
            Simulated { read_seconds: 0.02, ..decoding },
            [64, 32],
            Limit::Workers,
        )
        .stage("decode"),
        case(
            "planning, and decoding that takes as long",
            Simulated { plan_seconds: 0.02, cores: 8, ..decoding },
            [2, 4],
            Limit::Workers,
        )
        .stage("decode"),
        case("copies that nobody waits for", Simulated { copy_seconds: 0.01, ..trainer }, [2, 2], Limit::Trainer),
        case("leases, and copies", Simulated { keeps: 3, ..copies }, [2, 2], Limit::Upload),
        case("leases, and one batch ahead", Simulated { keeps: 1, ..one_row }, [6, 1], Limit::ShallowRing)
            .setting("prefetch"),
        case(
            "a machine that is full of other programs",
            Simulated { taken_cores: 1.9, ..decoding },
            [8, 4],
            Limit::MachineBusy,
        )
        .stage("decode"),
        case("leases", holds, [3, 2], Limit::HeldBatches).setting("hold"),
        case("leases, and a trainer", Simulated { step_seconds: |_| 0.01, ..holds }, [3, 2], Limit::HeldBatches)
            .setting("hold"),
        case("leases of a loader that is slow anyway", Simulated { keeps: 2, ..decoding }, [2, 4], Limit::Workers)
            .stage("decode"),
        case("copies", copies, [2, 2], Limit::Upload),
        case("copies, and a trainer", Simulated { step_seconds: |_| 0.02, ..copies }, [2, 2], Limit::Upload),
        case(
            "copies, and decoding that takes longer",
            Simulated { decode_seconds: |_| 0.02, ..copies },
            [2, 2],
            Limit::Workers,
        )
        .stage("decode"),
        case("a user's iterator", iterator, [2, 2], Limit::Planning).stage("plan"),
        case(
            "a user's iterator, and decoding",
            Simulated { decode_seconds: |_| 0.008, ..iterator },
            [2, 2],
            Limit::Planning,
        )
        .stage("plan"),
        case("other programs", Simulated { taken_cores: 1.6, ..decoding }, [2, 2], Limit::MachineBusy).stage("decode"),
        case("other programs, and late storage", Simulated { taken_cores: 1.6, ..reading }, [1, 2], Limit::Workers)
            .stage("read")
            .setting("workers"),
    ]
}

/// A contradiction between the sentence and the figures.
fn contradiction(stats: &Stats, verdict: &Verdict) -> Option<&'static str> {
    let text = verdict.to_string();
    let words: Vec<&str> = text.split(' ').collect();
    let percents = words.windows(2).filter(|pair| pair[1].starts_with('%')).map(|pair| pair[0].trim_start_matches('('));
    let mut percents = percents.map(|percent| percent.parse().unwrap_or(f64::NAN));
    let busiest = stats.stages[1..].iter().max_by(|a, b| a.busy_seconds.total_cmp(&b.busy_seconds));
    let is_named = verdict.limit == Limit::Workers && verdict.stage.is_some();
    // All waiting was for one batch.
    let is_first = stats.trainer.batches - stats.trainer.ready == 1;
    let is_fed = matches!(verdict.limit, Limit::Trainer | Limit::Balanced);
    let checks = [
        ((verdict.waited - stats.trainer.waited()).abs() < 1e-9, "how long was waited"),
        (percents.all(|percent| (0.0..=100.0).contains(&percent)), "more than all of the time"),
        (!is_named || busiest.map(|stage| stage.name) == verdict.stage, "another stage does more"),
        (!is_fed || is_first || verdict.waited < 0.05, "it waits"),
        (!is_fed || verdict.change.is_none(), "something is to be changed"),
        (
            verdict.gain.is_none_or(|gain| gain >= 1.1 && gain * (1.0 - verdict.waited) <= 1.01),
            "no trainer takes batches faster",
        ),
    ];
    checks.iter().find(|(is_so, _)| !is_so).map(|(_, what)| *what)
}

/// The fault of the verdict on a case.
fn fault(case: &Case) -> Option<String> {
    let (before, _, stats) = case.of.run_for_figures(case.amounts(), None, SECONDS);
    let verdict = stats.verdict();
    println!("{}: {verdict}", case.name);
    if (verdict.limit, verdict.stage) != (case.limit, case.stage) {
        return Some(format!("it is {:?} {:?}\n{verdict}\n{stats}", case.limit, case.stage));
    }
    if verdict.change.map(|change| change.setting) != case.setting {
        return Some(format!("change {:?}\n{verdict}\n{stats}", case.setting));
    }
    if let Some(contradiction) = contradiction(&stats, &verdict) {
        return Some(format!("{contradiction}\n{verdict}\n{stats}"));
    }
    let ((of, amounts), foretold) = case.changed(&verdict).zip(verdict.gain)?;
    let measured = of.run(amounts, None, SECONDS).0 / before;
    println!("    {foretold:.2}x foretold, {measured:.2}x measured");
    let is_right = match verdict.is_gain_most {
        true => measured <= 1.15 * foretold,
        false => (foretold / measured - 1.0).abs() <= 0.15,
    };
    (!is_right).then(|| format!("{measured:.2}x, not as foretold\n{verdict}\n{stats}"))
}

#[test]
fn every_cause_is_named_and_what_is_foretold_comes_true() {
    let faults: Vec<_> = cases().iter().filter_map(|case| Some(format!("{}: {}", case.name, fault(case)?))).collect();
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn a_run_of_three_batches_is_too_short_to_tell() {
    let of = Simulated { decode_seconds: |_| 0.004, step_seconds: |_| 0.02, ..PLAIN };
    let (_, _, stats) = of.run_for_figures(Amounts { workers: 2, prefetch: 2 }, None, 0.05);
    assert_eq!((stats.trainer.batches, stats.verdict().limit), (3, Limit::TooLittleSeen), "{stats}");
}

#[test]
fn workers_count_for_as_long_as_there_were_so_many() {
    use super::{Bounds, Tuner};
    let of = Simulated { read_seconds: 0.05, step_seconds: |_| 0.02, ..PLAIN };
    let begin = Amounts { workers: 2, prefetch: 2 };
    let bounds = Bounds { workers: Some(32), prefetch: Some(64), bytes: 1 << 30, is_restless: false };
    let (_, found, stats) = of.run_for_figures(begin, Some(&mut Tuner::new(bounds, begin)), 4.0);
    let had = stats.workers.thread_seconds / stats.trainer.seconds();
    assert!(found.workers > 3 && (2.0..found.workers as f64).contains(&had), "{had} of {found:?}");
    let (_, _, two) = of.run_for_figures(begin, None, 4.0);
    let threads = two.workers.thread_seconds / two.trainer.seconds();
    assert!((threads - 2.0).abs() < 1e-9 && two.workers.utilisation() > 0.95, "{threads}: {two}");
}
