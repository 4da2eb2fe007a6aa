//! What each way to leave cores to the trainer does: pinning, niceness, a share of the cores, and what `SCHED_BATCH`
//! does before them.

mod common;

use std::thread::sleep;
use std::time::{Duration, Instant};

use common::{Case, Options, Table};
use cpu_time::ThreadTime;
use ringfeed::error::Location;
use ringfeed::read::{RecordReader, RowMut, Sample, Scratch};
use ringfeed::source::ReaderSource;
use ringfeed::tensor::{Role, TensorSpec};
use ringfeed::workspace::WorkspaceBuilder;
use ringfeed::{AsyncDataSetIterator, DType, DataSetIterator, Result, Workspace};

const ABOUT: &str = "\
A trainer beside a loader that has work for every core all the time: samples of 2 ms on a core, by the thread's own clock. \
\"computes\": a step is 20 ms on a core. \"launches\": a step waits 2 ms for a device, which needs no core, ten times, and \
after each wait needs one for 50 us, as the launch of a kernel does. A step is how long one takes by the clock (20 ms, and 20.5, where \
nothing is in the way), late how long after its time a launch began (half of them, and 99 of 100), cores used those of \
the loader's threads. \"alone\" has no loader; \"no SCHED_BATCH\" gives the loader's threads the usual policy back. Linux only, on \
a quiet machine; it does not show trainers that need more than one core.";

const ROW: Duration = Duration::from_millis(2);
const COMPUTED: Duration = Duration::from_millis(20);
const DEVICE: Duration = Duration::from_millis(2);
const LAUNCH: Duration = Duration::from_micros(50);
const LAUNCHES: usize = 10;
const MEASURED: Duration = Duration::from_secs(4);

struct Costly([TensorSpec; 1]);

impl RecordReader for Costly {
    fn len(&self) -> u64 {
        1 << 40
    }

    fn tensors(&self) -> &[TensorSpec] {
        &self.0
    }

    fn decode(&self, _: Sample, _: usize, _: &mut Scratch, row: &mut RowMut<'_>) -> Result<()> {
        compute(ROW);
        row.zero();
        Ok(())
    }

    fn place(&self, sample: u64) -> Location {
        Location { record: Some(sample), ..Location::default() }
    }
}

/// Work on a core for so long by the thread's own clock.
fn compute(time: Duration) {
    let used = ThreadTime::now();
    while used.elapsed() < time {
        std::hint::spin_loop();
    }
}

#[derive(Clone, Copy, PartialEq)]
enum Trainer {
    Computes,
    Launches,
}

impl Trainer {
    /// One step; how late each launch was goes to `late`.
    fn step(self, late: &mut Vec<Duration>) {
        if self == Self::Computes {
            return compute(COMPUTED);
        }
        for _ in 0..LAUNCHES {
            let due = Instant::now() + DEVICE;
            sleep(DEVICE);
            late.push(due.elapsed());
            compute(LAUNCH);
        }
    }
}

/// How the loader behaves.
#[derive(Clone, Copy)]
struct Set {
    name: &'static str,
    /// None for no loader.
    builder: Option<fn(WorkspaceBuilder) -> WorkspaceBuilder>,
    is_batch: bool,
}

/// As many workers as cores, whatever else is set, so that only that differs.
fn sets() -> Vec<Set> {
    let set = |name, builder| Set { name, builder: Some(builder), is_batch: true };
    vec![
        Set { name: "alone", builder: None, is_batch: true },
        Set { name: "no SCHED_BATCH", builder: Some(|builder| builder), is_batch: false },
        set("by default", |builder| builder),
        set("worker_nice = 5", |builder| builder.worker_nice(5)),
        set("worker_nice = 19", |builder| builder.worker_nice(19)),
        set("worker_share = 0.5", |builder| builder.worker_share(0.5)),
        set("worker_cores = [0]", |builder| builder.worker_cores([0])),
        set("worker_cores = [0], one worker", |builder| builder.worker_cores([0]).workers(1)),
    ]
}

fn main() -> Result<()> {
    let Some(options) = Options::from_args(3) else { return Ok(()) };
    let mut table = Table::new(
        ABOUT,
        &["trainer", "loader"],
        &[
            ("step, ms", 2),
            ("late, us, half", 0),
            ("late, us, 99 of 100", 0),
            ("waited %", 1),
            ("loader: samples/s", 0),
            ("cores used", 2),
        ],
    );
    let mut cases = Vec::new();
    for (name, trainer) in [("computes", Trainer::Computes), ("launches", Trainer::Launches)] {
        for set in sets() {
            cases.push(Case::new(&[&name, &set.name], move || measure(trainer, set).expect("the settings are valid")));
        }
    }
    table.measure(options.rounds, cases);
    table.print(&options);
    Ok(())
}

fn measure(trainer: Trainer, set: Set) -> Result<Vec<f64>> {
    let mut loader = set.builder.map(loader).transpose()?;
    if !set.is_batch {
        usual_policy();
    }
    let (mut late, mut steps, mut stepped) = (Vec::new(), 0, Duration::ZERO);
    let before = loader.as_ref().map(DataSetIterator::stats);
    let begin = Instant::now();
    while begin.elapsed() < MEASURED {
        if let Some(batches) = &mut loader {
            drop(batches.next().expect("there are samples enough")?);
        }
        let began = Instant::now();
        trainer.step(&mut late);
        (stepped, steps) = (stepped + began.elapsed(), steps + 1);
    }
    let seconds = begin.elapsed().as_secs_f64();
    late.sort_unstable();
    let late = |share: f64| {
        let at = late.get((share * late.len() as f64) as usize);
        at.map_or(f64::NAN, |at| 1e6 * at.as_secs_f64())
    };
    let figures = loader.as_ref().zip(before).map(|(batches, before)| {
        let stats = batches.stats().since(&before);
        let samples = stats.stage("decode").map_or(0, |stage| stage.samples) as f64;
        let cores = stats.workers.cpu_seconds.unwrap_or(f64::NAN) / seconds;
        [100.0 * stats.trainer.waited(), samples / seconds, cores]
    });
    let [waited, rate, cores] = figures.unwrap_or_default();
    Ok(vec![1e3 * stepped.as_secs_f64() / f64::from(steps), late(0.5), late(0.99), waited, rate, cores])
}

/// Batches that take all cores for longer than a step, so that workers always have something to do.
fn loader(set: fn(WorkspaceBuilder) -> WorkspaceBuilder) -> Result<AsyncDataSetIterator> {
    let cores = std::thread::available_parallelism().map_or(1, |cores| cores.get());
    let workspace = set(Workspace::builder().workers(cores)).build()?;
    let reader = Costly([TensorSpec::new("x", Role::Feature, DType::U8, &[])]);
    let mut batches = AsyncDataSetIterator::new(ReaderSource::new(reader).batch_size(15 * cores), &workspace)?;
    // All threads run.
    drop(batches.next().expect("there are samples enough")?);
    Ok(batches)
}

/// Gives the loader's threads the policy that any other thread has.
fn usual_policy() {
    #[cfg(target_os = "linux")]
    for thread in std::fs::read_dir("/proc/self/task").expect("Linux has it").flatten() {
        let name = std::fs::read_to_string(thread.path().join("comm")).unwrap_or_default();
        let id = thread.file_name().to_str().and_then(|id| id.parse().ok());
        if let (true, Some(id)) = (name.starts_with("ringfeed-"), id) {
            let usual = libc::sched_param { sched_priority: 0 };
            // SAFETY: reads the parameters, which are there; a thread that has ended is an error, which changes
            // nothing.
            unsafe { libc::sched_setscheduler(id, libc::SCHED_OTHER, &raw const usual) };
        }
    }
}
