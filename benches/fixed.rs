//! Whether shuffled batches of fixed-size records come as fast as the machine copies.

mod common;
#[path = "common/machine.rs"]
mod machine;

use std::cell::Cell;
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::scope;
use std::time::Instant;

use common::{Case, Options, Table};
use machine::{cores, cpu_seconds};
use memmap2::Mmap;
use ringfeed::{
    Access, AsyncDataSetIterator, DataSetIterator, Mapping, RandomKey, RawOptions, RawReader, ReaderSource, StoredType,
    Workspace,
};

// SAFETY: nobody changes the data of a benchmark.
const MAPPED: Access = Access::Map(unsafe { Mapping::promise() });

const ABOUT: &str = "\
Batches of 256 records of a file in the page cache, on one thread a core. The bare loops copy a batch at a time from \
the mapped file into buffers that they use again: in order, which is the machine's bandwidth in bytes copied, or record \
by record in random order. The pipeline hands out the same batches shuffled; nobody reads them. The last column is the \
speed by that of the bare loop in order, in the same round. It does not show a disk.";

/// Records of 12 KB as f32, and of 3 KB as u8.
const NUMBERS: usize = 3072;
const BATCH: usize = 256;
/// Batches of the larger records that are made where no file is given: half a gigabyte.
const MADE: usize = 170;

const FIGURES: [(&str, usize); 4] = [("GB/s", 2), ("M records/s", 3), ("CPU ns/record", 0), ("by copying", 3)];

fn main() -> ringfeed::Result<()> {
    let Some(options) = Options::from_args(9) else { return Ok(()) };
    let made = tempfile::tempdir().expect("a temporary folder");
    let path = options.data.clone().unwrap_or_else(|| make(made.path()));
    let file = File::open(&path).expect("the file of records");
    // SAFETY: the file is the temporary one above, or one that whoever measures leaves as it is meanwhile.
    let map = unsafe { Mmap::map(&file) }.expect("a file can be mapped");

    let mut table = Table::new(ABOUT, &["record", "way"], &FIGURES);
    for (stored, bytes) in [(StoredType::F32, 4 * NUMBERS), (StoredType::U8, NUMBERS)] {
        let records = map.len() / bytes;
        let basis = Cell::new(0.0);
        let measured = |run: &mut dyn FnMut() -> usize| {
            let (cpu, begin) = (cpu_seconds(), Instant::now());
            let count = run() as f64;
            let seconds = begin.elapsed().as_secs_f64();
            let speed = count * bytes as f64 / seconds / 1e9;
            if basis.get() == 0.0 {
                basis.set(speed);
            }
            vec![speed, count / seconds / 1e6, (cpu_seconds() - cpu) * 1e9 / count, speed / basis.get()]
        };
        let name = format!("{} KB", bytes / 1024);
        let in_order: Vec<u32> = (0..records as u32).collect();
        let shuffled = shuffled(records);
        let (map, basis) = (&map, &basis);
        let mut cases = vec![
            Case::new(&[&name, &"copy, in order"], || {
                basis.set(0.0);
                measured(&mut || copy(map, bytes, &in_order))
            }),
            Case::new(&[&name, &"copy, shuffled"], || measured(&mut || copy(map, bytes, &shuffled))),
        ];
        for (way, access) in [("pipeline, mapped", MAPPED), ("pipeline, read", Access::Read)] {
            let options = RawOptions { access, ..RawOptions::features(stored, &[NUMBERS]) };
            let source = ReaderSource::new(RawReader::open(&path, &options)?).batch_size(BATCH).shuffle(20);
            let workspace = Workspace::builder().workers(cores()).across_epochs(false).build()?;
            let mut iterator = AsyncDataSetIterator::new(source, &workspace)?;
            cases.push(Case::new(&[&name, &way], move || measured(&mut || epoch(&mut iterator))));
        }
        table.measure(options.rounds, cases);
    }
    table.print(&options);
    Ok(())
}

/// Once through the records in this order, a batch at a time for whichever thread is free; returns how many there are.
fn copy(map: &[u8], bytes: usize, order: &[u32]) -> usize {
    let next = AtomicUsize::new(0);
    scope(|scope| {
        for _ in 0..cores() {
            scope.spawn(|| {
                // As many buffers for all threads together as the ring has slots with two batches ahead.
                let mut buffers = vec![vec![0_u8; BATCH * bytes]; 2];
                loop {
                    let batch = next.fetch_add(1, Ordering::Relaxed);
                    let Some(records) = order.chunks(BATCH).nth(batch) else { return };
                    let buffer = &mut buffers[batch % 2];
                    for (into, record) in buffer.chunks_exact_mut(bytes).zip(records) {
                        into.copy_from_slice(&map[*record as usize * bytes..][..bytes]);
                    }
                    std::hint::black_box(buffer);
                }
            });
        }
    });
    order.len()
}

fn shuffled(records: usize) -> Vec<u32> {
    let mut order: Vec<u32> = (0..records as u32).collect();
    let key = RandomKey::new(20);
    for last in (1..records).rev() {
        order.swap(last, (key.bits(last as u64) % (last as u64 + 1)) as usize);
    }
    order
}

fn epoch(iterator: &mut AsyncDataSetIterator) -> usize {
    iterator.reset().expect("a file can be read again");
    iterator.map(|batch| batch.expect("no bad records").len()).sum()
}

/// A file of numbers between 0 and 1.
fn make(folder: &Path) -> PathBuf {
    let path = folder.join("records.bin");
    let mut file = File::create(&path).expect("a temporary file");
    let key = RandomKey::new(20);
    // One batch again and again: nothing here depends on what the numbers are.
    let numbers = 0..(BATCH * NUMBERS) as u64;
    let part: Vec<u8> = numbers.flat_map(|number| (key.unit(number) as f32).to_le_bytes()).collect();
    (0..MADE).for_each(|_| file.write_all(&part).expect("room for the file"));
    path
}
