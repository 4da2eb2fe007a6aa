//! Whether shuffled batches of fixed-size records and of token windows come as fast as the machine copies and widens
//! them.

mod common;
#[path = "common/machine.rs"]
mod machine;

use std::cell::Cell;
use std::fs::File;
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::scope;
use std::time::Instant;

use common::{Case, Options, Table};
use machine::{cores, cpu_seconds};
use memmap2::Mmap;
use ringfeed::arrays::{RawOptions, RawReader, StoredType};
use ringfeed::order::RandomKey;
use ringfeed::read::RecordReader;
use ringfeed::source::ReaderSource;
use ringfeed::storage::{Access, Mapping};
use ringfeed::tokens::{TokenCut, TokenOptions, TokenReader, TokenTargets};
use ringfeed::{AsyncDataSetIterator, DataSetIterator, Workspace};

// SAFETY: nobody changes the data of a benchmark.
const MAPPED: Access = Access::Map(unsafe { Mapping::promise() });

const ABOUT: &str = "\
Batches of records of a file in the page cache, on one thread a core, in random order. The bare loops copy record by \
record into as many buffers as the pipeline's ring has slots: from the mapped file, asking for the next record's first line \
meanwhile, or with a positioned read for each. Of `tokens`, a record is 1024 numbers of 16 bits, which become 64 bits on the way. The pipeline hands out the same batches; nobody reads them. The last column is the speed by \
that of the bare loop that reaches the file in the same way, in the same round. It does not show a disk. Threads of the bare loops keep \
their buffers; a slot of the ring is filled by whichever worker is free, which costs more where cores do not share a cache: how long \
a cache line takes from core to core is printed first.";

/// Bytes of a record, records of a batch, and how many times a measurement goes through the file, so that it takes a
/// quarter of a second or longer. The pipeline ends an epoch and begins the next; a bare loop goes on.
const RECORDS: [(usize, usize, usize); 5] =
    [(64, 4096, 2), (512, 1024, 4), (3072, 256, 8), (12 << 10, 256, 8), (100 << 10, 32, 12)];
/// Names on the command line for parts of the benchmark: records, and ways to reach them.
const NAMES: [&str; 8] = ["64B", "512B", "3KB", "12KB", "100KB", "tokens", "mapped", "read"];
/// The same of windows of tokens.
const TOKENS: (usize, usize, usize) = (2 * WINDOW, 256, 8);
/// Tokens of a window.
const WINDOW: usize = 1024;
/// Bytes of the file that is made where none is given: whole records of each length.
const MADE: usize = 1747 * (100 << 10) * 3;

const FIGURES: [(&str, usize); 4] = [("GB/s", 2), ("M records/s", 3), ("CPU ns/record", 0), ("by the bare loop", 3)];

fn main() -> ringfeed::Result<()> {
    let Some(options) = Options::from_args((7, &NAMES[..])) else { return Ok(()) };
    let made = tempfile::tempdir().expect("a temporary folder");
    let path = options.data.clone().unwrap_or_else(|| make(made.path()));
    let file = File::open(&path).expect("the file of records");
    // SAFETY: the file is the temporary one above, or one that whoever measures leaves as it is meanwhile.
    let map = unsafe { Mmap::map(&file) }.expect("a file can be mapped");

    // Two threads that wait for one another on a single core would take hours.
    if cores() > 1 {
        eprintln!("a cache line goes from core to core in {:.0} ns", core_to_core() / 1e-9);
    }
    let mut table = Table::new(ABOUT, &["record", "way"], &FIGURES);
    for of in RECORDS {
        let (bytes, ..) = of;
        let name = if bytes < 1024 { format!("{bytes} B") } else { format!("{} KB", bytes / 1024) };
        let open = |access| -> ringfeed::Result<Arc<dyn RecordReader>> {
            let options = RawOptions { access, ..RawOptions::features(StoredType::U8, &[bytes]) };
            Ok(Arc::new(RawReader::open(&path, &options)?))
        };
        measure(&mut table, &options, &name, of, 1, (&map, &file), open, <[u8]>::copy_from_slice)?;
    }
    let open = |access| -> ringfeed::Result<Arc<dyn RecordReader>> {
        let (cut, targets) = (TokenCut::Contiguous { stride: None }, TokenTargets::None);
        let options = TokenOptions { window: WINDOW, cut, targets, access, ..TokenOptions::default() };
        Ok(Arc::new(TokenReader::open(&path, &options)?))
    };
    measure(&mut table, &options, "tokens", TOKENS, 4, (&map, &file), open, widen)?;
    table.print(&options);
    Ok(())
}

/// Records of so many bytes, which become `times_wider` as many on the way, by `make` in the bare loops.
#[expect(clippy::too_many_arguments, reason = "what one row of the table is about")]
fn measure(
    table: &mut Table,
    options: &Options,
    name: &str,
    (bytes, batch, times): (usize, usize, usize),
    times_wider: usize,
    (map, file): (&[u8], &File),
    open: impl Fn(Access) -> ringfeed::Result<Arc<dyn RecordReader>>,
    make: impl Fn(&mut [u8], &[u8]) + Sync,
) -> ringfeed::Result<()> {
    let is_wanted = |all: &[&str], name: &str| {
        let named: Vec<_> = options.names.iter().filter(|name| all.contains(&name.as_str())).collect();
        named.is_empty() || named.iter().any(|wanted| *wanted == name)
    };
    if !is_wanted(&NAMES[..6], &name.replace(' ', "")) {
        return Ok(());
    }
    let records = map.len() / bytes;
    let basis = Cell::new(0.0);
    let measured = |is_basis: bool, run: &mut dyn FnMut() -> usize| {
        let (cpu, begin) = (cpu_seconds(), Instant::now());
        let count = run() as f64;
        let seconds = begin.elapsed().as_secs_f64();
        let speed = count * bytes as f64 / seconds / 1e9;
        if is_basis {
            basis.set(speed);
        }
        vec![speed, count / seconds / 1e6, (cpu_seconds() - cpu) * 1e9 / count, speed / basis.get()]
    };
    let (measured, make) = (&measured, &make);
    let pipeline = |access| -> ringfeed::Result<(AsyncDataSetIterator, usize)> {
        let source = ReaderSource::new(open(access)?).batch_size(batch).shuffle(20);
        let workspace = Workspace::builder().workers(cores()).across_epochs(false).build()?;
        let mut iterator = AsyncDataSetIterator::new(source, &workspace)?;
        epochs(&mut iterator, 1);
        Ok((iterator, workspace.ring().slots))
    };
    let ((mut mapped, slots), (mut read, _)) = (pipeline(MAPPED)?, pipeline(Access::Read)?);
    let order = shuffled(records);
    let mut bare_mapped = Bare::new(&order, (bytes, times_wider), batch, slots);
    let mut bare_read = Bare::new(&order, (bytes, times_wider), batch, slots);
    let cases = vec![
        Case::new(&[&name, &"bare, mapped"], || {
            measured(true, &mut || {
                bare_mapped.run(times, |at, next, into, _| {
                    prefetch(map, next);
                    make(into, &map[at..at + bytes]);
                })
            })
        }),
        Case::new(&[&name, &"pipeline, mapped"], move || measured(false, &mut || epochs(&mut mapped, times))),
        Case::new(&[&name, &"bare, read"], || {
            measured(true, &mut || {
                bare_read.run(times, |at, _, into, record| {
                    if times_wider == 1 {
                        file.read_exact_at(into, at as u64).expect("the file stays as it is");
                    } else {
                        file.read_exact_at(record, at as u64).expect("the file stays as it is");
                        make(into, record);
                    }
                })
            })
        }),
        Case::new(&[&name, &"pipeline, read"], move || measured(false, &mut || epochs(&mut read, times))),
    ];
    let ways = ["mapped", "mapped", "read", "read"];
    let cases = cases.into_iter().zip(ways).filter(|(_, way)| is_wanted(&NAMES[6..], way)).map(|(case, _)| case);
    table.measure(options.rounds, cases.collect());
    Ok(())
}

/// Numbers of 16 bits as numbers of 64.
fn widen(into: &mut [u8], from: &[u8]) {
    for (into, from) in into.as_chunks_mut::<8>().0.iter_mut().zip(from.as_chunks::<2>().0) {
        *into = u64::from(u16::from_le_bytes(*from)).to_le_bytes();
    }
}

/// Seconds that a thread waits for what another one writes: half of what there and back takes.
fn core_to_core() -> f64 {
    const TIMES: usize = 200_000;
    let (line, begin) = (&AtomicUsize::new(0), Instant::now());
    let pass = |first: usize| {
        for turn in (first..2 * TIMES).step_by(2) {
            while line.load(Ordering::Acquire) != turn {
                std::hint::spin_loop();
            }
            line.store(turn + 1, Ordering::Release);
        }
    };
    scope(|scope| {
        scope.spawn(|| pass(0));
        pass(1);
    });
    begin.elapsed().as_secs_f64() / (2 * TIMES) as f64
}

/// Asks the processor for the line at `at`.
fn prefetch(map: &[u8], at: usize) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: a prefetch is a hint, which neither faults nor changes anything, whatever the address.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(map.as_ptr().wrapping_add(at).cast()) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (map, at);
}

/// Threads that copy records in an order that is known, and hand them to nobody.
struct Bare<'a> {
    order: &'a [u32],
    bytes: usize,
    /// Bytes that a record becomes.
    made: usize,
    batch: usize,
    /// Those of each thread.
    buffers: Vec<Vec<Vec<u8>>>,
}

impl<'a> Bare<'a> {
    /// With so many buffers or a few more: each thread has as many.
    fn new(order: &'a [u32], (bytes, times_wider): (usize, usize), batch: usize, buffers: usize) -> Self {
        let made = bytes * times_wider;
        let buffer = || vec![1; batch * made];
        let of_thread = || (0..buffers.div_ceil(cores())).map(|_| buffer()).collect();
        Self { order, bytes, made, batch, buffers: (0..cores()).map(|_| of_thread()).collect() }
    }

    /// So many times through the records, a batch at a time for whichever thread is free; returns how many were copied.
    /// `copy` is given where a record begins, where the next one does, where it goes, and room for a record.
    fn run(&mut self, times: usize, copy: impl Fn(usize, usize, &mut [u8], &mut [u8]) + Sync) -> usize {
        let &mut Self { order, bytes, made, batch, ref mut buffers } = self;
        let (next, batches, copy) = (&AtomicUsize::new(0), order.len().div_ceil(batch), &copy);
        scope(|scope| {
            for buffers in buffers {
                scope.spawn(move || {
                    let mut record = vec![0; bytes];
                    // In turn for each thread: by the batch's number, two threads would use every second one.
                    for turn in (0..buffers.len()).cycle() {
                        let nth = next.fetch_add(1, Ordering::Relaxed);
                        if nth >= times * batches {
                            return;
                        }
                        let begin = nth % batches * batch;
                        let records = &order[begin..order.len().min(begin + batch)];
                        let buffer = &mut buffers[turn];
                        for (at, into) in buffer.chunks_exact_mut(made).take(records.len()).enumerate() {
                            let behind = records.get(at + 1).unwrap_or(&records[at]);
                            copy(records[at] as usize * bytes, *behind as usize * bytes, into, &mut record);
                        }
                        std::hint::black_box(buffer);
                    }
                });
            }
        });
        times * order.len()
    }
}

fn shuffled(records: usize) -> Vec<u32> {
    let mut order: Vec<u32> = (0..records as u32).collect();
    let key = RandomKey::new(20);
    for last in (1..records).rev() {
        order.swap(last, (key.bits(last as u64) % (last as u64 + 1)) as usize);
    }
    order
}

fn epochs(iterator: &mut AsyncDataSetIterator, times: usize) -> usize {
    let epoch = |_| {
        iterator.reset().expect("a file can be read again");
        iterator.map(|batch| batch.expect("no bad records").len()).sum::<usize>()
    };
    (0..times).map(epoch).sum()
}

/// A file of random bytes.
fn make(folder: &Path) -> PathBuf {
    let path = folder.join("records.bin");
    let mut file = File::create(&path).expect("a temporary file");
    let key = RandomKey::new(20);
    // One part again and again: nothing here depends on what the bytes are.
    let part: Vec<u8> = (0..1 << 17).flat_map(|number| key.bits(number).to_le_bytes()).collect();
    let mut left = MADE;
    while left > 0 {
        let now = left.min(part.len());
        file.write_all(&part[..now]).expect("room for the file");
        left -= now;
    }
    path
}
