//! From what a sample costs here to what a machine with more cores would give, and what would stop it.

use std::hint::black_box;
use std::sync::Arc;
use std::thread::scope;
use std::time::{Duration, Instant};

use cpu_time::ThreadTime;
use crossbeam_channel::bounded;
use ringfeed::read::MemoryReader;
use ringfeed::source::ReaderSource;
use ringfeed::tensor::Role;
use ringfeed::{AsyncDataSetIterator, DataSetIterator, Workspace};
use serde_json::{Map, Value, json};

use crate::machine::cores;

/// The machines that the model speaks of.
pub(crate) const CORES: [usize; 3] = [8, 32, 128];

/// How much work a job is meant to be, in seconds.
const JOB_SECONDS: f64 = 0.5e-3;

/// Tiny batches an epoch.
const TINY: usize = 5000;

/// How long a caller works on a tiny batch who comes later than the batches.
const LATE: Duration = Duration::from_micros(50);

/// What one sample costs, in seconds of CPU time of each part, and bytes in and out.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Costs {
    /// Samples of a batch.
    pub(crate) batch: f64,
    pub(crate) workers: f64,
    pub(crate) planner: f64,
    pub(crate) consumer: f64,
    pub(crate) bytes: f64,
}

/// What does not depend on the samples.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Machine {
    /// Bytes that all cores together copy a second, from memory to memory.
    copied_per_second: f64,
    /// Seconds from one batch of one tiny sample to the next.
    hand_off: f64,
    /// CPU seconds that a caller who comes later than the batches needs to take one and to give it back.
    taking: f64,
    /// Seconds from one message of a queue to the next, with a thread for each core at its end.
    message: f64,
}

impl Machine {
    pub(crate) fn measure() -> ringfeed::Result<Self> {
        // The best of several: what others do meanwhile only makes these slower.
        let best = |run: &mut dyn FnMut() -> f64| (0..5).map(|_| run()).fold(f64::INFINITY, f64::min);
        let mut tiny = tiny_batches()?;
        let hand_off = best(&mut || {
            let begin = Instant::now();
            tiny.by_ref().for_each(|batch| drop(black_box(batch)));
            let seconds = begin.elapsed().as_secs_f64();
            tiny.reset().expect("memory can be read again");
            seconds / TINY as f64
        });
        let taking = best(&mut || taking(&mut tiny));
        let copied_per_second = 1.0 / best(&mut copying);
        Ok(Self { copied_per_second, hand_off, taking, message: best(&mut messages) })
    }

    pub(crate) fn to_json(self) -> Value {
        let Self { copied_per_second, hand_off, taking, message } = self;
        json!({
            "cores": cores(),
            "copied_gb_per_second": copied_per_second / 1e9,
            "hand_off_us": hand_off * 1e6,
            "taking_us": taking * 1e6,
            "message_us": message * 1e6,
        })
    }
}

/// Batches of one sample of one byte, made ahead.
fn tiny_batches() -> ringfeed::Result<AsyncDataSetIterator> {
    let values: Arc<[u8]> = vec![1; TINY].into();
    let reader = MemoryReader::new("x", Role::Feature, &[], values)?;
    let workspace = Workspace::builder().workers(cores()).prefetch(8).build()?;
    AsyncDataSetIterator::new(ReaderSource::new(reader).batch_size(1), &workspace)
}

/// CPU seconds a batch of a caller who comes later than the batches.
fn taking(batches: &mut AsyncDataSetIterator) -> f64 {
    let mut taking = Duration::ZERO;
    loop {
        let begin = ThreadTime::now();
        let batch = batches.next();
        let ended = batch.is_none();
        drop(batch);
        taking += begin.elapsed();
        if ended {
            break;
        }
        let late = Instant::now();
        while late.elapsed() < LATE {
            std::hint::spin_loop();
        }
    }
    batches.reset().expect("memory can be read again");
    taking.as_secs_f64() / TINY as f64
}

/// Seconds a byte that all cores together copy, each between buffers too large for the caches.
fn copying() -> f64 {
    const BYTES: usize = 64 << 20;
    let mut buffers: Vec<_> = (0..cores()).map(|_| (vec![1_u8; BYTES], vec![2_u8; BYTES])).collect();
    let begin = Instant::now();
    scope(|scope| {
        for (from, into) in &mut buffers {
            scope.spawn(|| {
                into.copy_from_slice(from);
                black_box(into);
            });
        }
    });
    begin.elapsed().as_secs_f64() / (BYTES * cores()) as f64
}

/// Seconds a message.
fn messages() -> f64 {
    const MESSAGES: usize = 200_000;
    let (sender, receiver) = bounded::<usize>(64);
    let begin = Instant::now();
    scope(|scope| {
        for _ in 0..cores() {
            let receiver = receiver.clone();
            scope.spawn(move || receiver.iter().for_each(|message| _ = black_box(message)));
        }
        (0..MESSAGES).for_each(|message| sender.send(message).expect("somebody receives"));
        drop(sender);
    });
    begin.elapsed().as_secs_f64() / MESSAGES as f64
}

/// What a workload could reach.
pub(crate) struct Model {
    name: &'static str,
    /// Samples a second for each core, as long as nothing else limits.
    by_core: f64,
    /// Samples a second with all cores of this machine.
    measured: f64,
    /// Samples a second that each part could serve, the least first.
    limits: Vec<(&'static str, f64)>,
    /// Bytes in and out.
    bytes: f64,
}

impl Model {
    pub(crate) fn new(name: &'static str, costs: &Costs, measured: f64, machine: &Machine) -> Self {
        let rows_of_job = (JOB_SECONDS / costs.workers).clamp(1.0, costs.batch);
        let mut limits = vec![
            ("planner", 1.0 / costs.planner),
            ("caller", costs.batch / machine.taking),
            ("hand-off", costs.batch / machine.hand_off),
            ("jobs", rows_of_job / machine.message),
        ];
        limits.sort_by(|a, b| a.1.total_cmp(&b.1));
        let by_core = 1.0 / (costs.workers + costs.planner + costs.consumer);
        Self { name, by_core, measured, limits, bytes: costs.bytes }
    }

    /// Samples a second on this many cores, and the gigabytes a second that go to and from memory for them.
    fn on(&self, cores: usize) -> (f64, f64) {
        let samples = self.limits[0].1.min(self.by_core * cores as f64);
        (samples, samples * self.bytes / 1e9)
    }

    /// How many cores the first limit can use.
    fn enough(&self) -> f64 {
        self.limits[0].1 / self.by_core
    }

    pub(crate) fn to_json(&self) -> Value {
        let limits: Map<String, Value> =
            self.limits.iter().map(|(name, limit)| ((*name).to_owned(), json!(limit))).collect();
        let on = |cores: usize| {
            let (samples, gigabytes) = self.on(cores);
            json!({ "cores": cores, "samples_per_second": samples, "memory_gb_per_second": gigabytes })
        };
        json!({
            "workload": self.name,
            "here": { "model": on(cores()), "measured_samples_per_second": self.measured },
            "on": CORES.map(on),
            "limits": limits,
            "first_limit": self.limits[0].0,
            "cores_at_first_limit": self.enough(),
        })
    }
}

/// A table for people.
pub(crate) fn print(machine: &Machine, models: &[Model]) {
    let Machine { copied_per_second, hand_off, taking, message } = machine;
    println!(
        "Here {} cores copy {:.1} GB/s; an empty batch takes {:.1} us, taking one that waits {:.1} us, a message {:.2} us.\n",
        cores(),
        copied_per_second / 1e9,
        hand_off * 1e6,
        taking * 1e6,
        message * 1e6
    );
    print!("{:>16}  {:>12}  {:>12}", "workload", "model here", "measured");
    CORES.iter().for_each(|cores| print!("  {:>22}", format!("{cores} cores")));
    println!("  limits in samples/s, and how many cores reach the first");
    for model in models {
        print!("{:>16}  {:>12.0}  {:>12.0}", model.name, model.on(cores()).0, model.measured);
        for cores in CORES {
            let (samples, gigabytes) = model.on(cores);
            print!("  {:>22}", format!("{samples:.0} ({gigabytes:.0} GB/s)"));
        }
        let limits: Vec<String> = model.limits.iter().map(|(name, limit)| format!("{name} {limit:.2e}")).collect();
        println!("  {} ({:.0} cores)", limits.join(", "), model.enough());
    }
}
