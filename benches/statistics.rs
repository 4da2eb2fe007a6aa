//! What a batch costs, to be compared between two builds: as ever, and without statistics (`--cfg ringfeed_uncounted`).

mod common;
#[path = "common/photos.rs"]
mod photos;

use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::Instant;

use common::{Case, Options, Table};
use cpu_time::ProcessTime;
use ringfeed::field::{Field, Numbers};
use ringfeed::order::RandomKey;
use ringfeed::read::MemoryReader;
use ringfeed::source::ReaderSource;
use ringfeed::tensor::Role;
use ringfeed::{AsyncDataSetIterator, DataSetIterator, Loader, Result, Workspace};

const ABOUT: &str = "\
Microseconds per batch, by the clock and on all cores together, and instructions per batch where valgrind counts them (in thousands, all \
threads; of the difference of two runs of unequal length): 256 rows of CSV (32 numbers and a label), 64 JPEGs of about 500 pixels to \
224 x 224, and 32 rows of 16 bytes from memory, which is hand-off alone. One worker, two batches ahead, a caller that does nothing. The \
same without statistics says what these cost. It does not show what the threads cost each other's caches on more cores.";

/// What is measured: its name, and epochs of a round.
const LOADS: [(&str, u64); 3] = [("csv, 256 rows", 20), ("64 images", 2), ("memory, 32 rows", 10)];

fn main() -> Result<()> {
    let args: Vec<String> = std::env::args().collect();
    if let [_, count, load, epochs, folder] = args.as_slice()
        && count == "--count"
    {
        let mut batches = open(load, Path::new(folder))?;
        for _ in 0..epochs.parse::<u64>().expect("a number") {
            epoch(&mut *batches);
        }
        return Ok(());
    }
    let Some(options) = Options::from_args(5) else { return Ok(()) };
    let folder = tempfile::tempdir().expect("a temporary folder");
    make(folder.path());
    let figures = &[("us per batch", 2), ("us on cores", 2), ("thousand instructions", 2)];
    let mut table = Table::new(ABOUT, &["batches of"], figures);
    let mut cases = Vec::new();
    for (load, epochs) in LOADS {
        let mut batches = open(load, folder.path())?;
        let instructions = counted(load, folder.path());
        cases.push(Case::new(&[&load], move || {
            let (begin, used) = (Instant::now(), ProcessTime::now());
            let count: u64 = (0..epochs).map(|_| epoch(&mut *batches)).sum();
            let per = |seconds: f64| seconds * 1e6 / count as f64;
            vec![per(begin.elapsed().as_secs_f64()), per(used.elapsed().as_secs_f64()), instructions]
        }));
    }
    table.measure(options.rounds, cases);
    table.print(&options);
    Ok(())
}

/// Takes all batches of an epoch, and says how many there were.
fn epoch(batches: &mut dyn DataSetIterator) -> u64 {
    let taken = batches.map(|batch| drop(batch.expect("no record is bad"))).count();
    batches.reset().expect("it can be read again");
    taken as u64
}

fn open(load: &str, folder: &Path) -> Result<Box<dyn DataSetIterator>> {
    let workspace = Workspace::builder().workers(1).prefetch(2).build()?;
    match load {
        "csv, 256 rows" => {
            let fields: [(&str, Field); 2] = [
                ("x", Numbers::f32().from((0..32).collect::<Vec<usize>>())),
                ("label", Numbers::i64().from(["label"]).role(Role::Label)),
            ];
            let loader = Loader::open(folder.join("rows.csv"))?.batch_size(256);
            let loader = fields.into_iter().fold(loader, |loader, (name, field)| loader.field(name, field));
            loader.build_in(&workspace)
        }
        "64 images" => {
            Loader::open(folder.join("photos"))?.size(224, 224).batch_size(64).shuffle(1).build_in(&workspace)
        }
        _ => {
            let values: Arc<[u8]> = vec![1; 4096 * 32 * 16].into();
            let reader = MemoryReader::new("x", Role::Feature, &[16], values)?;
            Ok(Box::new(AsyncDataSetIterator::new(ReaderSource::new(reader).batch_size(32), &workspace)?))
        }
    }
}

fn make(folder: &Path) {
    let mut text = (0..32).map(|column| format!("f{column},")).collect::<String>() + "label\n";
    for row in 0..256 * 64 {
        let key = RandomKey::new(3).with(row);
        (0..32).for_each(|column| text += &format!("{:.6},", key.normal(column)));
        text += &format!("{}\n", key.bits(99) % 1000);
    }
    std::fs::write(folder.join("rows.csv"), text).expect("a temporary file");
    photos::make_folder(&folder.join("photos"), 128);
}

/// Thousands of instructions of a batch; no number without valgrind.
fn counted(load: &str, folder: &Path) -> f64 {
    let run = |epochs: u64| -> Option<f64> {
        let mut valgrind = Command::new("valgrind");
        valgrind.args(["--tool=callgrind", "--callgrind-out-file=/dev/null"]);
        let exe = std::env::current_exe().ok()?;
        let output = valgrind.arg(exe).args(["--count", load, &epochs.to_string()]).arg(folder).output().ok()?;
        let text = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "valgrind counted no whole run:\n{text}");
        text.lines().find_map(|line| line.split_once("Collected :")?.1.trim().parse().ok())
    };
    let batches = match load {
        "csv, 256 rows" => 64.0,
        "64 images" => 2.0,
        _ => 4096.0,
    };
    run(1).zip(run(2)).map_or(f64::NAN, |(one, two)| (two - one) / batches / 1e3)
}
