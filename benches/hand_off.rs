//! What the machinery costs per batch when there is nearly nothing to decode.

mod common;

use std::hint::black_box;
use std::sync::Arc;
use std::time::Instant;

use common::{Case, Options, Table};
use ringfeed::read::MemoryReader;
use ringfeed::source::ReaderSource;
use ringfeed::tensor::Role;
use ringfeed::{AsyncDataSetIterator, AsyncShieldDataSetIterator, DataSetIterator, Workspace};

const ABOUT: &str = "\
Microseconds per batch of tiny samples (16 bytes, copied from memory) through the asynchronous iterator, through the \
shield, and in a bare loop that copies the same rows into one buffer: what planning, binding, handing over, settling \
and delivering cost. The caller does nothing with a batch, so every hand-off is waited for; a trainer that works longer \
than this per batch hides it. Each round opens an iterator, and closes it before the next one is opened: threads of others, \
even asleep, change on which cores the system runs these. It does not show what decoding costs, nor how throughput grows with workers.";

const ROW_BYTES: usize = 16;
const ROWS: [usize; 3] = [1, 32, 1024];

fn main() -> ringfeed::Result<()> {
    let Some(options) = Options::from_args(9) else { return Ok(()) };
    let mut table = Table::new(ABOUT, &["rows", "way", "workers", "prefetch"], &[("us per batch", 3)]);
    for rows in ROWS {
        let batches = if rows == 1024 { 1000 } else { 4000 };
        let values: Arc<[u8]> = (0..batches * rows * ROW_BYTES).map(|i| i as u8).collect();
        let mut cases = vec![Case::new(&[&rows, &"bare loop", &"-", &"-"], {
            let values = values.clone();
            let mut buffer = vec![0; rows * ROW_BYTES];
            move || vec![bare_loop(&values, &mut buffer)]
        })];
        cases.push(epochs(&[&rows, &"shield", &"-", &"-"], {
            let values = values.clone();
            move || AsyncShieldDataSetIterator::new(source(&values, rows)?, &workspace(1, 0)?)
        }));
        for workers in [1, 2] {
            for prefetch in [0, 2, 8] {
                let values = values.clone();
                cases.push(epochs(&[&rows, &"async", &workers, &prefetch], move || {
                    AsyncDataSetIterator::new(source(&values, rows)?, &workspace(workers, prefetch)?)
                }));
            }
        }
        table.measure(options.rounds, cases);
    }
    table.print(&options);
    Ok(())
}

fn workspace(workers: usize, prefetch: usize) -> ringfeed::Result<Workspace> {
    Workspace::builder().workers(workers).prefetch(prefetch).build()
}

fn source(values: &Arc<[u8]>, rows: usize) -> ringfeed::Result<ReaderSource> {
    let reader = MemoryReader::new("x", Role::Feature, &[ROW_BYTES], values.clone())?;
    Ok(ReaderSource::new(reader).batch_size(rows))
}

/// The second epoch of an iterator of its own.
fn epochs<'a, I: DataSetIterator>(names: &[&dyn ToString], open: impl Fn() -> ringfeed::Result<I> + 'a) -> Case<'a> {
    Case::new(names, move || {
        let mut iterator = open().expect("memory is there");
        epoch(&mut iterator);
        iterator.reset().expect("memory can be read again");
        vec![epoch(&mut iterator)]
    })
}

/// Microseconds per batch.
fn epoch(iterator: &mut impl DataSetIterator) -> f64 {
    let begin = Instant::now();
    let mut batches = 0;
    for batch in iterator {
        black_box(batch.expect("memory has no bad records").len());
        batches += 1;
    }
    begin.elapsed().as_secs_f64() * 1e6 / f64::from(batches)
}

fn bare_loop(values: &[u8], buffer: &mut [u8]) -> f64 {
    let begin = Instant::now();
    let batches = values.chunks_exact(buffer.len());
    let count = batches.len();
    for batch in batches {
        for (row, source) in buffer.chunks_exact_mut(ROW_BYTES).zip(batch.chunks_exact(ROW_BYTES)) {
            black_box(row).copy_from_slice(source);
        }
        black_box(&mut *buffer);
    }
    begin.elapsed().as_secs_f64() * 1e6 / count as f64
}
