//! No page fault per batch after warm-up. A test binary of its own, because it counts the whole process's faults.
#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use ringfeed::read::MemoryReader;
use ringfeed::source::ReaderSource;
use ringfeed::tensor::Role;
use ringfeed::{AsyncDataSetIterator, DType, DataSetIterator, Workspace};

/// Minor and major faults of this process so far.
fn faults() -> u64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap();
    let fields: Vec<&str> = stat.rsplit(") ").next().unwrap().split(' ').collect();
    fields[7].parse::<u64>().unwrap() + fields[9].parse::<u64>().unwrap()
}

#[test]
fn recycled_slots_fault_no_page() {
    const BATCH_BYTES: usize = 40 << 20;
    let values: Vec<u8> = (0..BATCH_BYTES).map(|i| i as u8).collect();
    let reader = MemoryReader::new("x", Role::Feature, &[4096], values).unwrap().dtype(DType::F32).unwrap();
    let source = ReaderSource::new(reader).batch_size(BATCH_BYTES / 4 / 4096);
    let workspace = Workspace::builder().workers(2).prefetch(1).build().unwrap();
    let mut iterator = AsyncDataSetIterator::new(source, &workspace).unwrap();
    let mut epoch = || {
        assert_eq!(iterator.by_ref().map(|batch| batch.unwrap().len()).sum::<usize>(), BATCH_BYTES / 4096);
        iterator.reset().unwrap();
    };
    (0..3).for_each(|_| epoch());
    // Twenty batches of ten thousand pages each; a few faults belong to the process around them, and more where other
    // programs want its memory.
    let mut counted = Vec::new();
    while counted.len() < 10 && counted.last().is_none_or(|count| *count >= 100) {
        let before = faults();
        (0..5).for_each(|_| epoch());
        counted.push(faults() - before);
    }
    assert!(counted.last().is_some_and(|count| *count < 100), "{counted:?} page faults in 20 batches each");
}
