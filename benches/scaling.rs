//! What more workers bring, and what a machine with more cores would give: measured costs, and a model of them.

mod common;
#[path = "common/machine.rs"]
mod machine;
#[path = "common/made.rs"]
mod made;
#[path = "common/model.rs"]
mod model;
#[path = "common/photos.rs"]
mod photos;
#[path = "common/threads.rs"]
mod threads;
#[path = "common/workloads.rs"]
mod workloads;

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::path::Path;
use std::time::Instant;

use common::{Case, Options, Table};
use machine::cores;
use model::{Costs, Machine, Model};
use ringfeed::Loader;
use ringfeed::storage::Mapping;
use serde_json::json;
use threads::ThreadSeconds;
use workloads::Workload;

const ABOUT: &str = "\
Epochs of four workloads, two of them also with their files mapped, with 1 worker and up to one a core; the caller only takes the batches. CPU time is what Linux \
counted for the workers, for the planning thread and for the caller; reading and decoding are the parts of the workers' \
time (by the clock, so that waiting for a core is in it). What workers take a sample should not grow with their number. \
The caller is faster than the workers: falling asleep and being woken for each batch is in its time. \
The data lies in the page cache.";

const ABOUT_MODEL: &str = "\
What these costs come to on more cores like this one: all CPU time of a sample spread over all cores, until one part \
serves no more. The parts are the planning thread; the caller, who takes batches and gives them back; the hand-off, which \
is batches of one tiny sample, for which every lock is taken and every thread woken; and the queue of jobs of half a \
millisecond each, with every core at its end. In brackets is what all this moves to and from memory, each sample's bytes \
read once and written once: a machine whose memory gives less will not reach the figure beside it. The planner's and the \
workers' costs are those measured above. It is a model: caches, clock rates and memory of a larger machine are not in \
it, nor locks that are contended only there.";

/// Bytes of a window of 16-bit tokens in its file.
const WINDOW_BYTES: f64 = 2.0 * 1025.0;

/// Names for the table, the workload, and whether its files are mapped.
const WORKLOADS: [(&str, &str, bool); 6] = [
    ("image-train-u8", "image-train-u8", false),
    ("csv", "csv", false),
    ("fixed-f32", "fixed-f32", false),
    ("fixed-f32, mapped", "fixed-f32", true),
    ("tokens", "tokens", false),
    ("tokens, mapped", "tokens", true),
];

/// What each round found, by part, with a worker for each core.
#[derive(Default)]
struct Found {
    batch: Vec<f64>,
    workers: Vec<f64>,
    planner: Vec<f64>,
    consumer: Vec<f64>,
    bytes: Vec<f64>,
    speed: Vec<f64>,
}

impl Found {
    fn model(&self, name: &'static str, machine: &Machine) -> Model {
        let costs = Costs {
            batch: median(&self.batch),
            workers: median(&self.workers),
            planner: median(&self.planner),
            consumer: median(&self.consumer),
            bytes: median(&self.bytes),
        };
        Model::new(name, &costs, median(&self.speed), machine)
    }
}

const FIGURES: [(&str, usize); 6] = [
    ("samples/s", 0),
    ("workers us/sample", 3),
    ("read us/sample", 3),
    ("decode us/sample", 3),
    ("planner us/batch", 2),
    ("consumer us/batch", 2),
];

fn main() -> ringfeed::Result<()> {
    let Some(options) = Options::from_args(3) else { return Ok(()) };
    let made = tempfile::tempdir().expect("a temporary folder");
    let folder = match &options.data {
        Some(folder) => folder.as_path(),
        None => {
            made::make_data(made.path()).expect("room for the data");
            made.path()
        }
    };
    let mut table = Table::new(ABOUT, &["workload", "workers"], &FIGURES);
    let found: RefCell<BTreeMap<&str, Found>> = RefCell::default();
    let mut cases = Vec::new();
    for (name, workload, is_mapped) in WORKLOADS {
        for workers in worker_counts() {
            let mut workload = Workload::new(folder, workload, false).expect("the workload is one of those there are");
            workload.set("workers", json!(workers));
            if is_mapped {
                workload.set("options.access", json!("map"));
            }
            // SAFETY: nobody changes the data of a benchmark.
            let mapping = unsafe { Mapping::promise() };
            let mut iterator = Loader::from(workload.config()?).mapping(mapping).build()?;
            let input = input_bytes(folder, name);
            let found = &found;
            let mut warm = false;
            cases.push(Case::new(&[&name, &workers], move || {
                let (before, used, begin) = (iterator.stats(), ThreadSeconds::now(), Instant::now());
                iterator.reset().expect("files can be read again");
                for batch in &mut *iterator {
                    workload.check(&batch.expect("no bad records")).expect("the tensors of this workload");
                }
                let seconds = begin.elapsed().as_secs_f64();
                let (used, stats) = (ThreadSeconds::now().since(used), iterator.stats().since(&before));
                let (samples, batches) = (stats.samples as f64, stats.batches as f64);
                // The first epoch touches the ring's memory, too.
                if std::mem::replace(&mut warm, true) && workers == cores() {
                    let mut found = found.borrow_mut();
                    let found = found.entry(name).or_default();
                    found.batch.push(samples / batches);
                    found.workers.push(used.workers / samples);
                    found.planner.push(used.planner / samples);
                    found.consumer.push(used.consumer / samples);
                    let input = input.map_or(WINDOW_BYTES, |bytes| bytes as f64 / samples);
                    found.bytes.push(input + stats.bytes as f64 / samples);
                    found.speed.push(samples / seconds);
                }
                let busy = |stage: usize| stats.stages[stage].busy_seconds * 1e6 / samples;
                vec![
                    samples / seconds,
                    used.workers * 1e6 / samples,
                    busy(1),
                    busy(2),
                    used.planner * 1e6 / batches,
                    used.consumer * 1e6 / batches,
                ]
            }));
        }
    }
    table.measure(options.rounds, cases);
    table.print(&options);

    let machine = Machine::measure()?;
    let found = found.into_inner();
    let modelled: Vec<Model> = WORKLOADS.iter().map(|(name, ..)| found[name].model(name, &machine)).collect();
    println!();
    if options.json {
        let rows: Vec<_> = modelled.iter().map(Model::to_json).collect();
        println!("{}", json!({ "about": ABOUT_MODEL, "machine": machine.to_json(), "rows": rows }));
    } else {
        println!("{ABOUT_MODEL}\n");
        model::print(&machine, &modelled);
    }
    Ok(())
}

/// 1, 2, 4 and so on, and one for each core.
fn worker_counts() -> Vec<usize> {
    let mut counts: Vec<usize> = (0..).map(|power| 1 << power).take_while(|count| *count < cores()).collect();
    counts.push(cores());
    counts
}

/// Bytes of the files that a workload reads once an epoch; `None` of tokens, of which an epoch is windows anywhere.
fn input_bytes(folder: &Path, name: &str) -> Option<u64> {
    let under = match name.split('-').next() {
        Some("image") => folder.join("imagenet"),
        Some("csv") => folder.join("csv/numeric.csv"),
        Some("fixed") => folder.join("fixed/f32.bin"),
        _ => return None,
    };
    Some(size_of(&under))
}

fn size_of(path: &Path) -> u64 {
    match std::fs::read_dir(path) {
        Ok(entries) => entries.map(|entry| size_of(&entry.expect("an entry").path())).sum(),
        Err(_) => path.metadata().map_or(0, |file| file.len()),
    }
}

fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted[sorted.len() / 2]
}
