//! What a recycled slot saves against memory that is allocated anew for every batch, and where it saves nothing.

mod common;

use std::alloc::{GlobalAlloc, Layout, System, handle_alloc_error};
use std::hint::black_box;
use std::ptr::NonNull;
use std::slice;
use std::sync::Arc;
use std::time::Instant;

use common::{Case, Options, Table};
use mimalloc::MiMalloc;
use ringfeed::read::MemoryReader;
use ringfeed::source::ReaderSource;
use ringfeed::tensor::Role;
use ringfeed::{AsyncShieldDataSetIterator, DataSetIterator, Workspace};

const ABOUT: &str = "\
Milliseconds and page faults per batch of 64 samples copied from memory, all on one thread: into a slot of the ring \
(workspace and shield as a trainer uses them), into a buffer that is allocated for each batch and freed after it, and \
into 64 buffers of one sample each that are then collated into a fresh batch, as most loaders do. Buffers come from \
the system's allocator (glibc on most Linux systems, which maps and unmaps memory for every allocation from 32 MiB \
on) and from mimalloc. It does not show decoding, which usually costs far more than the copy, nor what page-locked \
memory costs to make, nor a process whose other allocations compete for what the allocators keep.";

const MIB: f64 = (1 << 20) as f64;
const SIZES_MIB: [f64; 4] = [4.0, 16.0, 38.5, 64.0];
const SAMPLES: usize = 64;
/// Batches in the data: what is copied does not lie in a cache from the last time.
const BATCHES: usize = 2;
/// Bytes a run copies.
const RUN_BYTES: f64 = 512.0 * MIB;

fn main() -> ringfeed::Result<()> {
    let Some(options) = Options::from_args(7) else { return Ok(()) };
    let mut table = Table::new(ABOUT, &["MiB", "memory"], &[("ms per batch", 2), ("faults per batch", 0)]);
    for mib in SIZES_MIB {
        let sample = (mib * MIB) as usize / SAMPLES;
        let turns = (RUN_BYTES / MIB / mib / BATCHES as f64).ceil() as usize;
        let values: Arc<[u8]> = (0..BATCHES * SAMPLES * sample).map(|i| i as u8).collect();
        let reader = MemoryReader::new("x", Role::Feature, &[sample], values.clone())?;
        let workspace = Workspace::builder().workers(1).prefetch(0).build()?;
        let mut ring = AsyncShieldDataSetIterator::new(ReaderSource::new(reader).batch_size(SAMPLES), &workspace)?;
        let data = &*values;
        let cases = vec![
            Case::new(&[&mib, &"ring"], || {
                per_batch(turns, || {
                    for batch in &mut ring {
                        black_box(batch.expect("memory has no bad records").len());
                    }
                    ring.reset().expect("memory can be read again");
                })
            }),
            Case::new(&[&mib, &"fresh, system"], || per_batch(turns, || fresh(&System, data, sample))),
            Case::new(&[&mib, &"fresh, mimalloc"], || per_batch(turns, || fresh(&MiMalloc, data, sample))),
            Case::new(&[&mib, &"collated, system"], || per_batch(turns, || collated(&System, data, sample))),
            Case::new(&[&mib, &"collated, mimalloc"], || per_batch(turns, || collated(&MiMalloc, data, sample))),
        ];
        table.measure(options.rounds, cases);
    }
    table.print(&options);
    Ok(())
}

/// Milliseconds and page faults per batch of `turns` epochs.
fn per_batch(turns: usize, mut epoch: impl FnMut()) -> Vec<f64> {
    let faults = page_faults();
    let begin = Instant::now();
    (0..turns).for_each(|_| epoch());
    let milliseconds = begin.elapsed().as_secs_f64() * 1e3;
    let batches = (turns * BATCHES) as f64;
    vec![milliseconds / batches, (page_faults() - faults) / batches]
}

/// Page faults of this process that needed no disk; not a number where the system does not tell.
fn page_faults() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    // The name in the second field may hold spaces; `minflt` is the tenth field, the eighth after it.
    let after_name = stat.rsplit(") ").next().unwrap_or_default();
    after_name.split(' ').nth(7).and_then(|faults| faults.parse().ok()).unwrap_or(f64::NAN)
}

fn fresh(allocator: &'static impl GlobalAlloc, data: &[u8], sample: usize) {
    for batch in data.chunks_exact(SAMPLES * sample) {
        black_box(Buffer::concat(allocator, batch.chunks_exact(sample), batch.len()).as_slice());
    }
}

fn collated(allocator: &'static impl GlobalAlloc, data: &[u8], sample: usize) {
    for batch in data.chunks_exact(SAMPLES * sample) {
        let samples: Vec<_> =
            batch.chunks_exact(sample).map(|bytes| Buffer::concat(allocator, [bytes], sample)).collect();
        black_box(Buffer::concat(allocator, samples.iter().map(Buffer::as_slice), batch.len()).as_slice());
    }
}

/// Bytes from an allocator, whichever the program's own is: a `Vec` could only come from that one.
struct Buffer<A: GlobalAlloc + 'static> {
    start: NonNull<u8>,
    layout: Layout,
    allocator: &'static A,
}

impl<A: GlobalAlloc> Buffer<A> {
    fn concat<'a>(allocator: &'static A, parts: impl IntoIterator<Item = &'a [u8]>, bytes: usize) -> Self {
        assert!(bytes > 0, "there is something to copy");
        let layout = Layout::from_size_align(bytes, 16).expect("the size is far below the largest");
        // SAFETY: the size is not zero (asserted above).
        let start = unsafe { allocator.alloc(layout) };
        let Some(start) = NonNull::new(start) else { handle_alloc_error(layout) };
        let mut copied = 0;
        for part in parts {
            assert!(copied + part.len() <= bytes, "the parts are as long as they were said to be");
            // SAFETY: `copied` is at most the length of the allocation (asserted above).
            let target = unsafe { start.add(copied) };
            // SAFETY: the part ends inside the allocation (asserted above), which is new, so that they can't overlap.
            unsafe { target.copy_from_nonoverlapping(NonNull::from(part).cast(), part.len()) };
            copied += part.len();
        }
        assert_eq!(copied, bytes, "every byte was written");
        Self { start, layout, allocator }
    }

    fn as_slice(&self) -> &[u8] {
        // SAFETY: `concat` allocated and wrote exactly this many bytes, and nobody else has their address.
        unsafe { slice::from_raw_parts(self.start.as_ptr(), self.layout.size()) }
    }
}

impl<A: GlobalAlloc> Drop for Buffer<A> {
    fn drop(&mut self) {
        // SAFETY: it was allocated by this allocator with this layout, and is freed once.
        unsafe { self.allocator.dealloc(self.start.as_ptr(), self.layout) };
    }
}
