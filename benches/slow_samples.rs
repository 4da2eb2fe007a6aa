//! What a few slow samples cost, against workers that make whole batches.

mod common;
#[path = "common/sleeper.rs"]
mod sleeper;

use std::sync::mpsc::sync_channel;
use std::thread::{self, sleep};
use std::time::{Duration, Instant};

use common::{Case, Options, Table};
use ringfeed::order::RandomKey;
use ringfeed::source::ReaderSource;
use ringfeed::{AsyncDataSetIterator, DataSetIterator, Workspace};
use sleeper::Sleeper;

const ABOUT: &str = "\
An epoch of 40 batches of 32 samples of which 1 % take 50 times longer to read (15 ms instead of 0.3 ms, on timers), \
two workers, four batches ahead, delivered in order, to a trainer that does nothing. Ringfeed shares a batch's rows \
among its workers; 'whole batches' gives each worker every other batch, as most loaders do. It does not show what \
decoding costs, nor more than two workers.";

const BATCHES: u64 = 40;
const BATCH_SIZE: u64 = 32;
const WORKERS: u64 = 2;
const AHEAD: usize = 4;

fn main() -> ringfeed::Result<()> {
    let Some(options) = Options::from_args(3) else { return Ok(()) };
    let mut table =
        Table::new(ABOUT, &["workers make"], &[("epoch ms", 0), ("median wait ms", 2), ("longest wait ms", 1)]);
    let workspace = Workspace::builder().workers(WORKERS as usize).prefetch(AHEAD).across_epochs(false).build()?;
    let source = ReaderSource::new(Sleeper::new(BATCHES * BATCH_SIZE, reading_time)).batch_size(BATCH_SIZE as usize);
    let mut iterator = AsyncDataSetIterator::new(source, &workspace)?;
    let shared = move || {
        iterator.reset().expect("the source can be repeated");
        waits(|| iterator.next().map(|batch| drop(batch.expect("no record is bad"))))
    };
    table.measure(
        options.rounds,
        vec![Case::new(&[&"rows of a batch"], shared), Case::new(&[&"whole batches"], whole_batches)],
    );
    table.print(&options);
    Ok(())
}

/// Each worker makes every other batch and may be two ahead.
fn whole_batches() -> Vec<f64> {
    let queues: Vec<_> = (0..WORKERS)
        .map(|worker| {
            let (send, receive) = sync_channel(AHEAD / WORKERS as usize);
            thread::spawn(move || {
                for batch in (worker..BATCHES).step_by(WORKERS as usize) {
                    (batch * BATCH_SIZE..(batch + 1) * BATCH_SIZE).for_each(|sample| sleep(reading_time(sample)));
                    if send.send(()).is_err() {
                        return;
                    }
                }
            });
            receive
        })
        .collect();
    let mut next = 0;
    waits(|| {
        let queue = &queues[next % queues.len()];
        next += 1;
        queue.recv().ok()
    })
}

/// Time of the epoch, median and longest wait for a batch, in milliseconds.
fn waits(mut next: impl FnMut() -> Option<()>) -> Vec<f64> {
    let begin = Instant::now();
    let mut waits = Vec::new();
    loop {
        let since = Instant::now();
        if next().is_none() {
            break;
        }
        waits.push(since.elapsed().as_secs_f64() * 1e3);
    }
    assert_eq!(waits.len() as u64, BATCHES);
    waits.sort_by(f64::total_cmp);
    vec![begin.elapsed().as_secs_f64() * 1e3, waits[waits.len() / 2], waits[waits.len() - 1]]
}

fn reading_time(sample: u64) -> Duration {
    let slow = RandomKey::new(5).unit(sample) < 0.01;
    Duration::from_micros(if slow { 15_000 } else { 300 })
}
