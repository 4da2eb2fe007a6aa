//! Whether the first batch of an epoch is waited for longer than any other.

mod common;
#[path = "common/sleeper.rs"]
mod sleeper;

use std::thread::sleep;
use std::time::{Duration, Instant};

use common::{Case, Options, Table};
use ringfeed::source::ReaderSource;
use ringfeed::{AsyncDataSetIterator, DataSetIterator, Workspace};
use sleeper::Sleeper;

const ABOUT: &str = "\
The wait for each batch of a second epoch, right after the first one's end and a reset. Loading a batch takes 10 ms and \
training on it 12 ms, both on timers, so that a loader that ran ahead is never waited for. With prefetch that runs on \
into the next epoch and without. It does not show epochs whose order must be computed from the data.";

const BATCHES: u64 = 20;
const LOAD: Duration = Duration::from_millis(10);
const TRAIN: Duration = Duration::from_millis(12);

fn main() -> ringfeed::Result<()> {
    let Some(options) = Options::from_args(5) else { return Ok(()) };
    let mut table =
        Table::new(ABOUT, &["runs on"], &[("first wait ms", 2), ("median of the others ms", 2), ("longest ms", 2)]);
    let mut cases = Vec::new();
    for runs_on in [true, false] {
        let workspace = Workspace::builder().workers(1).across_epochs(runs_on).build()?;
        let mut iterator =
            AsyncDataSetIterator::new(ReaderSource::new(Sleeper::new(BATCHES, |_| LOAD)).batch_size(1), &workspace)?;
        cases.push(Case::new(&[&runs_on], move || round(&mut iterator)));
    }
    table.measure(options.rounds, cases);
    table.print(&options);
    Ok(())
}

fn round(iterator: &mut AsyncDataSetIterator) -> Vec<f64> {
    epoch(iterator);
    let mut waits = epoch(iterator);
    let first = waits.remove(0);
    waits.sort_by(f64::total_cmp);
    vec![first, waits[waits.len() / 2], waits[waits.len() - 1]]
}

/// The waits of an epoch in milliseconds.
fn epoch(iterator: &mut AsyncDataSetIterator) -> Vec<f64> {
    iterator.reset().expect("sleep can be repeated");
    let mut waits = Vec::new();
    loop {
        let begin = Instant::now();
        let Some(batch) = iterator.next() else { return waits };
        let _batch = batch.expect("sleep has no bad records");
        waits.push(begin.elapsed().as_secs_f64() * 1e3);
        sleep(TRAIN);
    }
}
