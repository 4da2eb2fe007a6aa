//! Batches in the caller's hands: never changed, never waited for silently.

mod common;

use std::time::Duration;

use common::{Flaky, Trouble, Waves, see, workspace, xs};
use ringfeed::source::{ReaderSource, Source};
use ringfeed::workspace::{Overflow, shield, wrap};
use ringfeed::{AsyncDataSetIterator, DataSetIterator, ErrorKind, Workspace};

fn numbers(len: u64) -> ReaderSource {
    ReaderSource::new(Flaky::new(len, &[], Trouble::Stall)).batch_size(10)
}

#[test]
fn held_batches_never_change() {
    let mut iterator =
        AsyncDataSetIterator::new(ReaderSource::new(Waves::new(300, 50)).batch_size(10).shuffle(5), &workspace(2, 3))
            .unwrap();
    let mut held: Vec<(ringfeed::DataSet, common::Seen)> = Vec::new();
    for epoch in 0..3 {
        for batch in iterator.by_ref() {
            let batch = batch.unwrap();
            let seen = see(&batch);
            if held.len() == 3 {
                held.remove(epoch % 2);
            }
            held.push((batch, seen));
            assert!(held.iter().all(|(batch, seen)| see(batch) == *seen));
        }
        iterator.reset().unwrap();
        assert!(held.iter().all(|(batch, seen)| see(batch) == *seen));
    }
    drop(iterator);
    assert!(held.iter().all(|(batch, seen)| see(batch) == *seen));
}

#[test]
fn holding_every_slot_is_a_named_error_that_takes_no_ticket() {
    for shielded in [false, true] {
        let workspace = workspace(2, 2);
        let mut iterator =
            if shielded { wrap(shield(numbers(100)), &workspace) } else { wrap(numbers(100), &workspace) }.unwrap();
        let mut held: Vec<_> = iterator.by_ref().take(4).map(Result::unwrap).collect();
        for _ in 0..2 {
            let error = iterator.next().unwrap().unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Exhausted);
            assert!(error.to_string().contains("4 of the ring's 4 slots") && error.to_string().contains("detach"));
        }
        held.remove(0);
        assert_eq!(xs(&iterator.next().unwrap().unwrap()), (40..50).collect::<Vec<_>>());
        drop(held);
        assert_eq!(iterator.map(|batch| batch.unwrap().len()).sum::<usize>(), 50);
    }
}

#[test]
fn a_workspace_may_have_slots_for_batches_that_are_held() {
    for shielded in [false, true] {
        let workspace = Workspace::builder().workers(1).prefetch(1).hold(2).lease_wait(Duration::ZERO).build().unwrap();
        let mut iterator =
            if shielded { wrap(shield(numbers(100)), &workspace) } else { wrap(numbers(100), &workspace) }.unwrap();
        let held: Vec<_> = iterator.by_ref().take(5).map(Result::unwrap).collect();
        assert_eq!(workspace.ring().slots, 5);
        assert_eq!(iterator.next().unwrap().unwrap_err().kind(), ErrorKind::Exhausted);
        assert_eq!(held.iter().flat_map(xs).collect::<Vec<_>>(), (0..50).collect::<Vec<_>>());
    }
}

#[test]
fn waiting_for_a_batch_may_end_before_it_comes_and_loses_none() {
    let reader = Flaky::new(40, &[0, 20, 39], Trouble::Stall);
    let gate = reader.gate.clone();
    let mut iterator = AsyncDataSetIterator::new(ReaderSource::new(reader).batch_size(10), &workspace(1, 1)).unwrap();
    let soon = Duration::from_millis(1);
    for _ in 0..3 {
        assert!(!iterator.ready_within(soon));
    }
    assert!(iterator.stats().trainer.wait_seconds > 0.0);
    gate.open();
    for batch in 0..4 {
        assert!(iterator.ready_within(Duration::MAX));
        assert_eq!(xs(&iterator.next().unwrap().unwrap()), (10 * batch..10 * batch + 10).collect::<Vec<_>>());
    }
    assert!(iterator.ready_within(Duration::MAX), "the end is an answer");
    assert!(iterator.next().is_none());
    assert!(iterator.ready_within(soon), "so is what comes behind it");
    assert!(iterator.next().is_some_and(|answer| answer.is_err()));
}

#[test]
fn whoever_asks_first_whether_a_batch_is_ready_waits_for_the_beginning_of_the_epoch_all_the_same() {
    let reader = Flaky::new(20, &[0], Trouble::Stall);
    let gate = reader.gate.clone();
    let mut iterator = AsyncDataSetIterator::new(ReaderSource::new(reader).batch_size(10), &workspace(1, 1)).unwrap();
    assert!(!iterator.ready_within(Duration::from_millis(1)));
    gate.open();
    assert!(iterator.ready_within(Duration::MAX));
    drop(iterator.next().unwrap().unwrap());
    let trainer = iterator.stats().trainer;
    assert!(trainer.wait_seconds > 0.0);
    assert_eq!((trainer.epochs, trainer.edge_wait_seconds), (1, trainer.wait_seconds));
}

#[test]
fn whoever_holds_every_slot_is_not_kept_waiting_for_the_answer() {
    let mut iterator = AsyncDataSetIterator::new(numbers(100), &workspace(1, 1)).unwrap();
    let held: Vec<_> = iterator.by_ref().take(3).map(Result::unwrap).collect();
    assert!(iterator.ready_within(Duration::MAX));
    assert_eq!(iterator.next().unwrap().unwrap_err().kind(), ErrorKind::Exhausted);
    drop(held);
    assert!(iterator.ready_within(Duration::MAX));
    assert_eq!(xs(&iterator.next().unwrap().unwrap()), (30..40).collect::<Vec<_>>());
}

#[test]
fn collecting_a_stream_meets_the_message() {
    let iterator = AsyncDataSetIterator::new(numbers(1000), &workspace(2, 2)).unwrap();
    let error = iterator.collect::<Result<Vec<_>, _>>().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Exhausted);
    let iterator = AsyncDataSetIterator::new(numbers(1000), &workspace(2, 2)).unwrap();
    let all: Vec<_> = iterator.map(|batch| batch.unwrap().detach().unwrap()).collect();
    assert_eq!(all.iter().flat_map(xs).collect::<Vec<_>>(), (0..1000).collect::<Vec<_>>());
}

#[test]
fn a_detached_batch_is_the_same_batch() {
    let mut iterator = AsyncDataSetIterator::new(numbers(25).shuffle(1), &workspace(2, 2)).unwrap();
    for epoch in 0..2 {
        for (index, batch) in (0..).zip(iterator.by_ref()) {
            let batch = batch.unwrap();
            let copy = batch.copy().unwrap();
            assert_eq!((copy.epoch(), copy.index()), (epoch, index));
            assert_eq!(see(&copy), see(&batch));
            assert_eq!((copy.positions(), copy.sample_ids()), (batch.positions(), batch.sample_ids()));
            assert_eq!((copy.padding(), copy.state_after()), (batch.padding(), batch.state_after()));
        }
        iterator.reset().unwrap();
    }
}

#[test]
fn a_shield_holds_in_a_box_too() {
    let source: Box<dyn Source> = Box::new(shield(numbers(20)));
    let mut iterator = wrap(source, &workspace(2, 2)).unwrap();
    assert_eq!(iterator.by_ref().map(Result::unwrap).count(), 2);
    assert_eq!(iterator.stats().workers.threads, 0);
    let source: Box<dyn Source> = Box::new(numbers(20));
    assert_eq!(wrap(source, &workspace(2, 2)).unwrap().stats().workers.threads, 2);
}

#[test]
fn holding_every_slot_spills_by_choice_and_is_counted() {
    for shielded in [false, true] {
        let workspace = Workspace::builder()
            .workers(2)
            .prefetch(1)
            .lease_wait(Duration::ZERO)
            .overflow(Overflow::Spill)
            .build()
            .unwrap();
        let iterator =
            if shielded { wrap(shield(numbers(100)), &workspace) } else { wrap(numbers(100), &workspace) }.unwrap();
        let all: Vec<_> = iterator.map(Result::unwrap).collect();
        assert_eq!(all.iter().flat_map(xs).collect::<Vec<_>>(), (0..100).collect::<Vec<_>>());
        assert_eq!(workspace.ring().spilled, 7);
    }
}

#[test]
fn a_waiting_next_goes_on_when_another_thread_drops_a_batch() {
    let workspace = Workspace::builder().workers(1).prefetch(0).lease_wait(Duration::from_secs(60)).build().unwrap();
    let mut iterator = AsyncDataSetIterator::new(numbers(100), &workspace).unwrap();
    let held: Vec<_> = iterator.by_ref().take(2).map(Result::unwrap).collect();
    std::thread::spawn(move || drop(held));
    assert_eq!(xs(&iterator.next().unwrap().unwrap())[0], 20);
}

#[test]
fn a_forgotten_batch_only_shrinks_the_ring() {
    let mut iterator = AsyncDataSetIterator::new(numbers(100), &workspace(2, 2)).unwrap();
    std::mem::forget(iterator.next().unwrap().unwrap());
    assert_eq!(iterator.by_ref().map(|batch| batch.unwrap().len()).sum::<usize>(), 90);
    iterator.reset().unwrap();
    assert_eq!(iterator.map(|batch| batch.unwrap().len()).sum::<usize>(), 100);
}

#[test]
fn batches_outlive_iterator_and_workspace() {
    let workspace = workspace(2, 2);
    let mut iterator = AsyncDataSetIterator::new(numbers(100), &workspace).unwrap();
    let batch = iterator.next().unwrap().unwrap();
    drop((iterator, workspace));
    assert_eq!(xs(&batch), (0..10).collect::<Vec<_>>());
}

#[test]
fn a_view_of_another_type_or_name_is_an_error_that_helps() {
    let mut iterator = AsyncDataSetIterator::new(numbers(10), &workspace(1, 1)).unwrap();
    let batch = iterator.next().unwrap().unwrap();
    assert_eq!(batch.features().unwrap().as_slice::<f32>().unwrap_err().kind(), ErrorKind::Schema);
    assert_eq!(batch.tensor("y").err().unwrap().kind(), ErrorKind::NotFound);
    assert_eq!(batch.labels().err().unwrap().kind(), ErrorKind::Schema);
}
