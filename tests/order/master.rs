//! The master property: whoever makes the batches, and wherever they lie, the trainer sees the same bytes in the same
//! order as from one naive loop.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::sync::Arc;
use std::time::Duration;

use crate::common::{Seen, Waves, see_all, workspace};
use proptest::prelude::*;
use ringfeed::memory::TempFilePages;
use ringfeed::order::{LastBatch, Permutation, RandomKey};
use ringfeed::read::MemoryReader;
use ringfeed::source::ReaderSource;
use ringfeed::tensor::Role;
use ringfeed::workspace::{Overflow, shield, wrap};
use ringfeed::{AsyncDataSetIterator, AsyncShieldDataSetIterator, DataSetIterator, ErrorKind, Workspace};

#[derive(Clone, Debug)]
struct Case {
    len: u64,
    batch_size: usize,
    shuffle: Option<u64>,
    last_batch: LastBatch,
    longest: u32,
}

/// One naive loop over the samples.
fn naive(case: &Case, epochs: u64) -> Vec<Vec<Seen>> {
    let waves = Waves::new(case.len, case.longest);
    let sample_at = |epoch, position| match case.shuffle {
        Some(seed) => Permutation::new(case.len, RandomKey::new(seed).with(epoch)).at(position),
        None => position,
    };
    let mut all = Vec::new();
    for epoch in 0..epochs {
        let mut batches = Vec::new();
        let mut position = 0;
        while position < case.len {
            let mut positions: Vec<u64> = (position..case.len.min(position + case.batch_size as u64)).collect();
            let missing = case.batch_size - positions.len();
            let padding = if case.last_batch == LastBatch::Pad { missing } else { 0 };
            if missing > 0 && case.last_batch == LastBatch::Drop {
                break;
            }
            position += positions.len() as u64;
            positions.extend((position..).take(padding));
            let samples: Vec<u64> = positions.iter().map(|p| sample_at(epoch, p % case.len)).collect();
            let longest = samples.iter().map(|id| waves.length(*id)).max().unwrap();
            let rows = samples.len();
            batches.push(Seen {
                epoch,
                index: batches.len() as u64,
                shapes: vec![vec![rows, longest, 3], vec![rows, longest], vec![rows]],
                tensors: waves.naive(&samples),
                positions,
                samples,
                padding,
            });
        }
        all.push(batches);
    }
    all
}

fn source(case: &Case) -> ReaderSource {
    let source =
        ReaderSource::new(Waves::new(case.len, case.longest)).batch_size(case.batch_size).last_batch(case.last_batch);
    match case.shuffle {
        Some(seed) => source.shuffle(seed),
        None => source,
    }
}

fn epochs(mut iterator: impl DataSetIterator, count: u64) -> Vec<Vec<Seen>> {
    let mut all = Vec::new();
    for _ in 0..count {
        all.push(see_all(&mut iterator));
        assert_eq!(iterator.next().unwrap().unwrap_err().kind(), ErrorKind::Ended);
        iterator.reset().unwrap();
    }
    all
}

fn cases() -> impl Strategy<Value = Case> {
    let last_batch = prop_oneof![Just(LastBatch::Keep), Just(LastBatch::Drop), Just(LastBatch::Pad)];
    (1u64..60, 1usize..20, prop::option::of(any::<u64>()), last_batch, 1u32..200).prop_map(
        |(len, batch_size, shuffle, last_batch, longest)| Case { len, batch_size, shuffle, last_batch, longest },
    )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_workers_prefetch_and_memory_give_the_bytes_of_one_naive_loop(
        case in cases(),
        workers in 1usize..4,
        prefetch in 0usize..5,
        in_file in any::<bool>(),
        shielded in any::<bool>(),
    ) {
        let builder = Workspace::builder().workers(workers).prefetch(prefetch).poison(0xa5);
        let builder = if in_file { builder.pages(TempFilePages::new(None, 64 << 20)) } else { builder };
        let workspace = builder.build().unwrap();
        let seen = if shielded {
            epochs(AsyncShieldDataSetIterator::new(source(&case), &workspace).unwrap(), 3)
        } else {
            epochs(AsyncDataSetIterator::new(source(&case), &workspace).unwrap(), 3)
        };
        prop_assert_eq!(seen, naive(&case, 3));
    }

    #[test]
    fn going_on_from_a_state_gives_the_rest_of_the_epoch(case in cases(), stop in 0usize..8, shielded in any::<bool>()) {
        let workspace = workspace(2, 2);
        let mut first = AsyncDataSetIterator::new(source(&case), &workspace).unwrap();
        let stop = stop.min(first.batches_per_epoch().unwrap() as usize);
        first.by_ref().take(stop).for_each(|batch| drop(batch.unwrap()));
        let state = first.state();
        let rest = see_all(&mut first);
        drop(first);
        let mut second: Box<dyn DataSetIterator> = if shielded {
            wrap(shield(source(&case)), &workspace).unwrap()
        } else {
            wrap(source(&case), &workspace).unwrap()
        };
        second.seek(&state).unwrap();
        prop_assert_eq!(see_all(&mut *second), rest);
        second.reset().unwrap();
        prop_assert_eq!(see_all(&mut *second), naive(&case, 2).remove(1));
    }
}

#[test]
fn spilled_batches_hold_the_same_bytes() {
    let case = |seed| Case { len: 40, batch_size: 4, shuffle: Some(seed), last_batch: LastBatch::Keep, longest: 2000 };
    let sizes = |case: &Case| -> Vec<usize> {
        naive(case, 1)[0].iter().map(|batch| batch.tensors.iter().map(Vec::len).sum()).collect()
    };
    // The ring is sized by the first batch; a later one is far larger.
    let is_outgrown = |sizes: &[usize]| sizes.iter().any(|size| size - size / 4 > sizes[0]);
    let case = (0..).map(case).find(|case| is_outgrown(&sizes(case))).unwrap();
    let budget = ringfeed::memory::MemoryBudget::new(4 * (sizes(&case)[0] as u64 + 8192));
    let workspace =
        Workspace::builder().workers(2).budget(budget).overflow(Overflow::Spill).poison(0xa5).build().unwrap();
    let iterator = AsyncDataSetIterator::new(source(&case), &workspace).unwrap();
    assert_eq!(epochs(iterator, 2), naive(&case, 2));
    assert!(workspace.ring().spilled > 0, "{:?}", workspace.ring());
}

#[test]
fn batches_dropped_on_other_threads_come_back_to_the_ring() {
    let case = Case { len: 500, batch_size: 7, shuffle: Some(1), last_batch: LastBatch::Keep, longest: 9 };
    let workspace = Workspace::builder().workers(2).lease_wait(Duration::from_secs(60)).poison(0xa5).build().unwrap();
    let iterator = AsyncDataSetIterator::new(source(&case), &workspace).unwrap();
    let (send, receive) = std::sync::mpsc::sync_channel(1);
    let consumer =
        std::thread::spawn(move || receive.iter().map(|batch| crate::common::see(&batch)).collect::<Vec<_>>());
    for batch in iterator {
        send.send(batch.unwrap()).unwrap();
    }
    drop(send);
    assert_eq!(consumer.join().unwrap(), naive(&case, 1).remove(0));
    assert_eq!(workspace.ring().leased, 0);
}

#[test]
fn several_readers_make_one_sample() {
    let images: Arc<[u8]> = (0..=255).collect();
    let source = ReaderSource::new(MemoryReader::new("image", Role::Feature, &[2, 2], images).unwrap())
        .and(Waves::new(64, 5))
        .and(MemoryReader::new("weight", Role::Label, &[], vec![0.5f64; 64]).unwrap())
        .batch_size(10);
    let mut iterator = AsyncDataSetIterator::new(source, &workspace(2, 1)).unwrap();
    let batch = iterator.next().unwrap().unwrap();
    assert_eq!(batch.tensor("image").unwrap().as_slice::<u8>().unwrap(), (0..40).collect::<Vec<u8>>());
    assert_eq!(batch.tensor("image").unwrap().shape(), [10, 2, 2]);
    assert_eq!(batch.tensor("weight").unwrap().as_slice::<f64>().unwrap(), [0.5; 10]);
    assert_eq!(batch.tensor("id").unwrap().as_slice::<i64>().unwrap(), (0..10).collect::<Vec<_>>());
    assert_eq!(batch.tensor("wave").unwrap().strides()[..], [batch.tensor("wave").unwrap().shape()[1] * 3, 3, 1]);
    for tensor in batch.layout().tensors() {
        assert!(tensor.offset().is_multiple_of(256));
    }
}

#[test]
fn readers_of_unequal_length_are_refused_unless_the_shorter_is_asked_for() {
    let numbers = |len| MemoryReader::new(format!("x{len}"), Role::Feature, &[], vec![0u8; len]).unwrap();
    let source = || ReaderSource::new(numbers(5)).and(numbers(7));
    let error = AsyncDataSetIterator::new(source(), &workspace(1, 1)).err().unwrap();
    assert!(error.to_string().contains("[5, 7]"), "{error}");
    let iterator = AsyncDataSetIterator::new(source().shorter(), &workspace(1, 1)).unwrap();
    assert_eq!(iterator.map(|batch| batch.unwrap().len()).sum::<usize>(), 5);
}
