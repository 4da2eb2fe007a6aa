//! What `auto` finds against a sweep by hand, what it costs in short runs, and what a verdict foretells against the
//! change made.

mod common;

use std::cell::RefCell;
use std::rc::Rc;
use std::thread::sleep;
use std::time::{Duration, Instant};

use common::{Case, Options, Table, spread};
use cpu_time::ThreadTime;
use ringfeed::error::Location;
use ringfeed::read::{RecordReader, RowMut, Sample, Scratch};
use ringfeed::source::ReaderSource;
use ringfeed::stats::Stats;
use ringfeed::tensor::{Role, TensorSpec};
use ringfeed::workspace::{Amount, WorkspaceBuilder};
use ringfeed::{AsyncDataSetIterator, DType, DataSetIterator, Result, Workspace};

const ABOUT: &str = "\
Batches a second in 4 seconds of four loads, with numbers of workers and batches ahead that are given, and with those that are \
found; these have 30 seconds to be found before. Reading waits on a timer, decoding uses a core for so long by the \
thread's own clock, and so do steps wait. decode: 4 ms a sample, no step. read: 20 ms a sample, steps of 10 ms. trainer: \
1 ms of decoding, steps of 30 ms. bursts: 4 ms of reading, ten batches at once and then 300 ms. On a quiet machine only; it \
does not show loads that change, nor trainers that need the cores themselves.";

const ABOUT_FORETOLD: &str = "\
The verdict on 2 seconds of a run, the change that it advises, how many times as fast the run was foretold to be with it, and \
was: foretold by measured is 1 where both agree.";

const ABOUT_SHORT: &str = "\
Batches a second in the first 50, 200 and 1000 batches of runs of the same loads, from before the loader is made, with the settings of a \
loader that is told nothing, and with workers and batches ahead found while it runs.";

/// Its parts, and the loads of those that go through loads.
const NAMES: [&str; 7] = ["sweep", "short", "foretold", "decode", "read", "trainer", "bursts"];
/// After how many batches a short run is looked at.
const LENGTHS: [u64; 3] = [50, 200, 1000];
/// What `auto` may lose.
const MOST_LOST: f64 = 0.02;
const ROWS: usize = 4;
const MEASURED: Duration = Duration::from_secs(4);
const JUDGED: Duration = Duration::from_secs(2);
const FOUND_IN: Duration = Duration::from_secs(30);

/// What a sample costs, and what the trainer does behind each batch.
#[derive(Clone, Copy)]
struct Load {
    name: &'static str,
    rows: usize,
    read: Duration,
    decode: Duration,
    step: fn(u64) -> Duration,
}

const PLAIN: Load =
    Load { name: "", rows: ROWS, read: Duration::ZERO, decode: Duration::ZERO, step: |_| Duration::ZERO };

const LOADS: [Load; 4] = [
    Load { name: "decode", decode: Duration::from_millis(4), ..PLAIN },
    Load { name: "read", read: Duration::from_millis(20), step: |_| Duration::from_millis(10), ..PLAIN },
    Load { name: "trainer", decode: Duration::from_millis(1), step: |_| Duration::from_millis(30), ..PLAIN },
    Load { name: "bursts", read: Duration::from_millis(4), step: burst, ..PLAIN },
];

fn burst(nth: u64) -> Duration {
    if nth % 10 == 9 { Duration::from_millis(300) } else { Duration::ZERO }
}

struct Costly {
    load: Load,
    tensors: [TensorSpec; 1],
}

impl RecordReader for Costly {
    fn len(&self) -> u64 {
        1 << 40
    }

    fn tensors(&self) -> &[TensorSpec] {
        &self.tensors
    }

    fn fetch(&self, _: &[u64], _: usize, _: &mut Scratch) -> Result<()> {
        if !self.load.read.is_zero() {
            sleep(self.load.read);
        }
        Ok(())
    }

    fn decode(&self, _: Sample, _: usize, _: &mut Scratch, row: &mut RowMut<'_>) -> Result<()> {
        let used = ThreadTime::now();
        while used.elapsed() < self.load.decode {
            std::hint::spin_loop();
        }
        row.zero();
        Ok(())
    }

    fn place(&self, sample: u64) -> Location {
        Location { record: Some(sample), ..Location::default() }
    }
}

/// A loader and its trainer.
struct Run {
    load: Load,
    batches: AsyncDataSetIterator,
    nth: u64,
}

impl Run {
    fn new(load: Load, workers: Amount, prefetch: Amount) -> Result<Self> {
        Self::with(load, Workspace::builder().workers(workers).prefetch(prefetch))
    }

    fn with(load: Load, workspace: WorkspaceBuilder) -> Result<Self> {
        let workspace = workspace.build()?;
        let reader = Costly { load, tensors: [TensorSpec::new("x", Role::Feature, DType::U8, &[])] };
        let source = ReaderSource::new(reader).batch_size(load.rows);
        Ok(Self { load, batches: AsyncDataSetIterator::new(source, &workspace)?, nth: 0 })
    }

    /// Trains for so long: batches a second, and the figures.
    fn train(&mut self, time: Duration) -> (f64, Stats) {
        let (before, begin) = (self.batches.stats(), Instant::now());
        while begin.elapsed() < time {
            self.step();
        }
        let stats = self.batches.stats().since(&before);
        (stats.batches as f64 / begin.elapsed().as_secs_f64(), stats)
    }

    /// Trains with one batch.
    fn step(&mut self) {
        drop(self.batches.next().expect("there are samples enough").expect("no record is bad"));
        let step = (self.load.step)(self.nth);
        self.nth += 1;
        if !step.is_zero() {
            sleep(step);
        }
    }
}

/// What each setting gave, by load.
type Seen = Rc<RefCell<Vec<(&'static str, String, f64)>>>;

fn main() -> Result<()> {
    let Some(options) = Options::from_args((1, &NAMES[..])) else { return Ok(()) };
    if is_chosen(&options, &NAMES[..3], "sweep") {
        sweep(&options);
    }
    if is_chosen(&options, &NAMES[..3], "short") {
        short(&options);
    }
    if is_chosen(&options, &NAMES[..3], "foretold") { foretold(&options) } else { Ok(()) }
}

/// Whether this one of some names is asked for, or none of them.
fn is_chosen(options: &Options, of: &[&str], name: &str) -> bool {
    let mut chosen = options.names.iter().filter(|chosen| of.contains(&chosen.as_str())).peekable();
    chosen.peek().is_none() || chosen.any(|chosen| chosen == name)
}

/// The loads that are asked for.
fn loads(options: &Options) -> Vec<Load> {
    LOADS.into_iter().filter(|load| is_chosen(options, &NAMES[3..], load.name)).collect()
}

/// `auto` after some time, by numbers that are given.
fn sweep(options: &Options) {
    let seen = Seen::default();
    let mut table =
        Table::new(ABOUT, &["load", "set"], &[("batches/s", 2), ("workers", 0), ("batches ahead", 0), ("waited %", 1)]);
    let mut cases = Vec::new();
    for load in loads(options) {
        for workers in [1_usize, 2, 4, 8, 16] {
            for prefetch in [2_usize, 16] {
                cases.push(case(load, workers.into(), prefetch.into(), &seen));
            }
        }
        cases.push(case(load, Amount::Auto, Amount::Auto, &seen));
    }
    table.measure(options.rounds, cases);
    table.print(options);
    if !options.json {
        println!();
        loads(options).iter().for_each(|load| summary(load.name, &seen.borrow()));
        println!();
    }
}

/// How long a run took up to each length, with the settings of a loader that is told nothing and with `auto`, by
/// rounds.
type Rounds = Rc<RefCell<Vec<[f64; LENGTHS.len()]>>>;

/// `auto` from the first batch on, by the settings of a loader that is told nothing.
fn short(options: &Options) {
    let mut table = Table::new(
        ABOUT_SHORT,
        &["load", "set"],
        &[
            ("first 50, batches/s", 2),
            ("first 200, batches/s", 2),
            ("first 1000, batches/s", 2),
            ("workers", 0),
            ("batches ahead", 0),
        ],
    );
    let (mut cases, mut pairs) = (Vec::new(), Vec::new());
    for load in loads(options) {
        let rounds = [Rounds::default(), Rounds::default()];
        for (rounds, set) in rounds.iter().zip(["default", "auto"]) {
            let rounds = rounds.clone();
            cases.push(Case::new(&[&load.name, &set], move || {
                let begin = Instant::now();
                let workspace = Workspace::builder();
                let workspace = match set {
                    "auto" => workspace.workers(Amount::Auto).prefetch(Amount::Auto),
                    _ => workspace,
                };
                let mut run = Run::with(load, workspace).expect("the settings are valid");
                let rates = LENGTHS.map(|length| {
                    while run.nth < length {
                        run.step();
                    }
                    length as f64 / begin.elapsed().as_secs_f64()
                });
                rounds.borrow_mut().push(rates);
                let stats = run.batches.stats();
                let numbers = [stats.workers.threads, stats.queue.prefetch].map(|number| number as f64);
                rates.into_iter().chain(numbers).collect()
            }));
        }
        pairs.push((load.name, rounds));
    }
    table.measure(options.rounds, cases);
    table.print(options);
    if !options.json {
        println!();
        losses(&pairs);
        println!();
    }
}

/// `auto` by the default in each round, and whether it lost too much anywhere.
fn losses(pairs: &[(&str, [Rounds; 2])]) {
    let mut lost = Vec::new();
    for (load, rounds) in pairs {
        let [default, auto] = rounds.each_ref().map(|rounds| rounds.borrow());
        for (nth, length) in LENGTHS.into_iter().enumerate() {
            // The first round is not counted.
            let ratios: Vec<f64> = default.iter().zip(auto.iter()).skip(1).map(|(by, of)| of[nth] / by[nth]).collect();
            let (median, least, most) = spread(&ratios);
            println!("{load}, first {length}: auto by default {median:.3} [{least:.3} .. {most:.3}]");
            if median < 1.0 - MOST_LOST {
                lost.push(format!("{load}, first {length} ({:.1} %)", 100.0 * (1.0 - median)));
            }
        }
    }
    match &lost[..] {
        [] => println!("auto lost no more than {} % anywhere", 100.0 * MOST_LOST),
        lost => println!("auto lost more than {} %: {}", 100.0 * MOST_LOST, lost.join("; ")),
    }
}

/// The loader is made when the case first runs, and ends behind it, but for what is found, which goes on.
fn case(load: Load, workers: Amount, prefetch: Amount, seen: &Seen) -> Case<'static> {
    let (seen, name) = (seen.clone(), format!("{workers}, {prefetch}"));
    let mut kept = None;
    Case::new(&[&load.name, &name.clone()], move || {
        let mut run = kept.take().unwrap_or_else(|| {
            let mut run = Run::new(load, workers, prefetch).expect("the settings are valid");
            run.train(if workers == Amount::Auto { FOUND_IN } else { Duration::from_millis(300) });
            run
        });
        let (rate, stats) = run.train(MEASURED);
        seen.borrow_mut().push((load.name, name.clone(), rate));
        if workers == Amount::Auto {
            kept = Some(run);
        }
        let numbers = [stats.workers.threads, stats.queue.prefetch].map(|number| number as f64);
        vec![rate, numbers[0], numbers[1], 100.0 * stats.trainer.waited()]
    })
}

/// `auto` by the best of those that were given, each by its best round.
fn summary(load: &str, seen: &[(&str, String, f64)]) {
    let of_load = seen.iter().filter(|(name, ..)| *name == load);
    let (auto, given): (Vec<_>, Vec<_>) = of_load.partition(|(_, set, _)| set.contains("auto"));
    let best = given.iter().max_by(|a, b| a.2.total_cmp(&b.2));
    let auto = auto.iter().map(|(.., rate)| *rate).fold(0.0, f64::max);
    if let Some((_, set, rate)) = best {
        println!("{load}: auto reaches {:.1} % of the best by hand ({set})", 100.0 * auto / rate);
    }
}

/// Runs with one thing wrong each, and what is wrong.
fn foretold(options: &Options) -> Result<()> {
    let slow_reading = Load { name: "slow reading", read: Duration::from_millis(10), ..PLAIN };
    let slow_decoding = Load { name: "slow decoding", decode: Duration::from_millis(4), ..PLAIN };
    let half_a_trainer =
        Load { name: "a trainer of half the time", step: |_| Duration::from_millis(20), ..slow_reading };
    let few = Load { name: "too few batches", rows: 1, read: Duration::from_millis(20), ..PLAIN };
    let bursts = LOADS[3];
    let mut table = Table::new(
        ABOUT_FORETOLD,
        &["wrong", "workers", "batches ahead"],
        &[("foretold", 2), ("measured", 2), ("foretold by measured", 3)],
    );
    let mut cases = Vec::new();
    for (load, workers, prefetch) in
        [(slow_reading, 1_usize, 2_usize), (slow_decoding, 1, 2), (half_a_trainer, 1, 4), (few, 6, 1), (bursts, 2, 2)]
    {
        cases.push(Case::new(&[&load.name, &workers, &prefetch], move || {
            let run = |workers: usize, prefetch: usize| {
                let mut run = Run::new(load, workers.into(), prefetch.into()).expect("the settings are valid");
                run.train(Duration::from_millis(300));
                run.train(JUDGED)
            };
            let (before, stats) = run(workers, prefetch);
            let verdict = stats.verdict();
            let (Some(change), Some(gain)) = (verdict.change, verdict.gain) else {
                println!("{}: nothing is foretold: {verdict}", load.name);
                return vec![f64::NAN; 3];
            };
            let (after, _) = match change.setting {
                "workers" => run(change.value, prefetch),
                _ => run(workers, change.value),
            };
            vec![gain, after / before, gain * before / after]
        }));
    }
    table.measure(options.rounds, cases);
    println!();
    table.print(options);
    Ok(())
}
