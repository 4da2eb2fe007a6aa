//! Every row of a batch is the sample that the batch names, and the batch is the same however it came about: ahead,
//! shielded, or filled again after another source had the workspace.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::common::{Flaky, Seen, Trouble, Waves, see, see_all, workspace, xs};
use ringfeed::device::{HostDevice, Upload};
use ringfeed::error::Location;
use ringfeed::memory::MemoryBudget;
use ringfeed::order::{LastBatch, RandomKey};
use ringfeed::read::{RecordReader, RowMut, Sample, SampleStream, SampleTensor, Scratch};
use ringfeed::settings::{BadLimits, BadRecords};
use ringfeed::source::{ReaderSource, StreamSource};
use ringfeed::tensor::{Extents, Role, TensorSpec};
use ringfeed::workspace::{shield, wrap};
use ringfeed::{AsyncDataSetIterator, DType, DataSet, DataSetIterator, Error, ErrorKind, Result, Workspace};

/// Waves of which every third, by a key, is bad: by turns it can't be measured, or measures well and can't be decoded.
struct Damaged(Waves);

impl Damaged {
    fn source(longest: u32, policy: BadRecords) -> ReaderSource {
        ReaderSource::new(Self(Waves::new(240, longest))).batch_size(8).bad_records(policy)
    }

    fn is_bad(sample: u64, stage: u64) -> bool {
        let bits = RandomKey::new(11).bits(sample) % 12;
        bits.is_multiple_of(3) && (bits == 0) == (stage == 0)
    }
}

impl RecordReader for Damaged {
    fn len(&self) -> u64 {
        self.0.len
    }

    fn tensors(&self) -> &[TensorSpec] {
        self.0.tensors()
    }

    fn measure(&self, sample: u64, scratch: &mut Scratch) -> Result<Extents> {
        match Self::is_bad(sample, 0) {
            true => Err(Error::new(ErrorKind::Data, "no length")),
            false => self.0.measure(sample, scratch),
        }
    }

    fn decode(&self, sample: Sample, nth: usize, scratch: &mut Scratch, row: &mut RowMut<'_>) -> Result<()> {
        match Self::is_bad(sample.id, 1) {
            true => Err(Error::new(ErrorKind::Data, "cut off")),
            false => self.0.decode(sample, nth, scratch, row),
        }
    }

    fn place(&self, sample: u64) -> Location {
        self.0.place(sample)
    }
}

/// Whether every row holds the sample that the batch names, padded with zeros to the batch's length.
fn assert_rows(batch: &DataSet, waves: &Waves) {
    let wave = batch.tensor("wave").unwrap();
    let steps = wave.shape()[1];
    let values = wave.as_slice::<f32>().unwrap();
    for (row, id) in values.chunks(3 * steps).zip(batch.sample_ids()) {
        assert!(waves.length(*id) <= steps, "sample {id} was cut");
        for (index, value) in row.iter().enumerate() {
            let (step, column) = (index / 3, index % 3);
            let expected = if step < waves.length(*id) { Waves::value(*id, step, column) } else { 0.0 };
            assert_eq!(*value, expected, "sample {id} of {:?}, step {step}", batch.sample_ids());
        }
    }
    assert_eq!(batch.len(), batch.sample_ids().len());
}

#[test]
fn a_batch_that_is_laid_out_again_for_a_longer_replacement_holds_what_it_names() {
    let mut refilled = 0;
    for seed in 0..4 {
        let source = || Damaged::source(60, BadRecords::Replace(BadLimits::default())).shuffle(seed);
        let mut ahead = AsyncDataSetIterator::new(source(), &workspace(2, 2)).unwrap();
        let mut shielded = wrap(shield(source()), &workspace(1, 2)).unwrap();
        for _ in 0..3 {
            let waves = Waves::new(240, 60);
            let mut seen = Vec::new();
            for batch in ahead.by_ref() {
                let batch = batch.unwrap();
                assert_rows(&batch, &waves);
                assert_eq!(batch.len(), 8);
                seen.push(see(&batch));
            }
            assert_eq!(seen, see_all(&mut *shielded));
            ahead.reset().unwrap();
            shielded.reset().unwrap();
        }
        refilled += ahead.stats().refilled;
    }
    assert!(refilled > 50, "{refilled}");
}

#[test]
fn a_batch_that_is_filled_again_after_another_source_keeps_its_shape() {
    let policies = [BadRecords::Skip(BadLimits::default()), BadRecords::Replace(BadLimits::default())];
    for policy in policies {
        let alone: Vec<Seen> = see_all(&mut *wrap(Damaged::source(60, policy), &workspace(2, 2)).unwrap());
        let waves = Waves::new(240, 60);
        for taken in 0..4 {
            let workspace = workspace(2, 3);
            let mut turns = AsyncDataSetIterator::new(Damaged::source(60, policy), &workspace).unwrap();
            let mut other = AsyncDataSetIterator::new(numbers(50), &workspace).unwrap();
            let mut seen: Vec<Seen> = turns.by_ref().take(taken).map(|batch| see(&batch.unwrap())).collect();
            // What is in the window is filled, and its bad rows are known.
            while turns.stats().stages[2].samples < 8 * (taken as u64 + 4) {
                std::thread::yield_now();
            }
            assert_eq!(xs(&other.next().unwrap().unwrap()).len(), 10);
            for batch in turns {
                let batch = batch.unwrap();
                assert_rows(&batch, &waves);
                seen.push(see(&batch));
            }
            assert_eq!(seen, alone, "{policy:?} after {taken}");
        }
    }
}

fn numbers(len: u64) -> ReaderSource {
    ReaderSource::new(Flaky::new(len, &[], Trouble::Stall)).batch_size(10)
}

/// Twenty numbers, of which the third pass breaks off at the seventh.
fn breaks_off() -> StreamSource {
    breaks_off_in(2..3)
}

fn breaks_off_in(broken: Range<u64>) -> StreamSource {
    let passes = Arc::new(AtomicU64::new(0));
    let numbers = move || {
        let pass = passes.fetch_add(1, Ordering::SeqCst);
        let is_broken = broken.contains(&pass);
        (0..20i64).map(move |i| match i {
            7 if is_broken => Err(Error::new(ErrorKind::Io, "gone")),
            _ => Ok(vec![SampleTensor::from(i)]),
        })
    };
    let tensors = [TensorSpec::new("x", Role::Feature, DType::I64, &[])];
    StreamSource::from_samples(SampleStream::repeatable(&tensors, numbers).unwrap()).batch_size(5)
}

#[test]
fn after_a_seek_that_fails_nothing_comes_before_one_that_succeeds() {
    for shielded in [false, true] {
        for by_reset in [false, true] {
            let workspace = workspace(1, 1);
            let source = breaks_off();
            let mut iterator =
                if shielded { wrap(shield(source), &workspace) } else { wrap(source, &workspace) }.unwrap();
            let first = iterator.next().unwrap().unwrap().state_after();
            let tenth = iterator.next().unwrap().unwrap().state_after();
            iterator.seek(&first).unwrap();
            assert_eq!(xs(&iterator.next().unwrap().unwrap()), [5, 6, 7, 8, 9]);
            let refused = iterator.seek(&tenth).err().or_else(|| iterator.next().and_then(Result::err));
            assert_eq!(refused.unwrap().kind(), ErrorKind::Io);
            // An error that came as a batch ends the epoch; behind a seek that failed, an end would be misleading.
            if !shielded {
                assert!(iterator.next().is_none());
            }
            assert_eq!(iterator.next().unwrap().unwrap_err().kind(), ErrorKind::Ended);
            let expected: Vec<i64> = if by_reset {
                iterator.reset().unwrap();
                (0..20).collect()
            } else {
                iterator.seek(&tenth).unwrap();
                (10..20).collect()
            };
            let mut ids = Vec::new();
            let rest = iterator.by_ref().map(|batch| {
                let batch = batch.unwrap();
                ids.extend(batch.sample_ids().iter().map(|id| *id as i64));
                xs(&batch)
            });
            assert_eq!(rest.collect::<Vec<_>>().concat(), expected);
            assert_eq!(ids, expected);
        }
    }
}

#[test]
fn a_reset_that_fails_before_anything_was_taken_does_not_lose_the_epoch() {
    let mut iterator = wrap(shield(breaks_off()), &workspace(1, 1)).unwrap();
    let start = iterator.state();
    iterator.seek(&start).unwrap();
    let far = ringfeed::order::State { position: 10, ..start };
    assert_eq!(iterator.seek(&far).unwrap_err().kind(), ErrorKind::Io);
    assert_eq!(iterator.next().unwrap().unwrap_err().kind(), ErrorKind::Ended);
    iterator.reset().unwrap();
    assert_eq!(iterator.state(), start);
    assert_eq!(iterator.map(|batch| batch.unwrap().len()).sum::<usize>(), 20);
}

#[test]
fn a_device_iterator_goes_on_where_it_was_after_a_state_that_is_refused() {
    for shielded in [false, true] {
        let workspace = workspace(1, 2);
        let inside =
            if shielded { wrap(shield(numbers(50)), &workspace) } else { wrap(numbers(50), &workspace) }.unwrap();
        let mut uploaded = Upload::to(HostDevice::new()).start(inside).unwrap();
        let start = uploaded.state();
        let wrong = ringfeed::order::State { seed: 5, ..start };
        // Batches were loaded, but none was taken.
        while uploaded.upload_stats().batches == 0 {
            std::thread::yield_now();
        }
        assert_eq!(uploaded.seek(&wrong).unwrap_err().kind(), ErrorKind::Config);
        assert_eq!(uploaded.state(), start);
        let mut places = Vec::new();
        while let Some(batch) = uploaded.next() {
            let batch = batch.unwrap();
            places.push((batch.epoch(), batch.index()));
            drop(batch);
            assert_eq!(uploaded.seek(&wrong).unwrap_err().kind(), ErrorKind::Config);
        }
        assert_eq!(places, [0, 1, 2, 3, 4].map(|index| (0, index)));
        assert_eq!(uploaded.next().unwrap().unwrap_err().kind(), ErrorKind::Ended);
        uploaded.reset().unwrap();
        assert_eq!(uploaded.map(|batch| batch.unwrap().epoch()).collect::<Vec<_>>(), [1; 5]);
    }
}

#[test]
fn the_epoch_after_a_refused_state_is_that_of_an_iterator_without_a_device() {
    let wrong = |state| ringfeed::order::State { seed: 5, ..state };
    for taken in [0, 2] {
        let mut host = wrap(numbers(50), &workspace(1, 2)).unwrap();
        let inside = wrap(numbers(50), &workspace(1, 2)).unwrap();
        let mut uploaded = Upload::to(HostDevice::new()).start(inside).unwrap();
        for _ in 0..taken {
            host.next().unwrap().unwrap();
            uploaded.next().unwrap().unwrap();
        }
        let state = host.state();
        assert!(host.seek(&wrong(state)).is_err() && uploaded.seek(&wrong(state)).is_err());
        let expected: Vec<_> = host.epoch().unwrap().map(|batch| batch.unwrap().state_after()).collect();
        let found: Vec<_> = uploaded.epoch().unwrap().map(|batch| batch.unwrap().state_after()).collect();
        assert_eq!(found, expected, "{taken}");
    }
}

#[test]
fn after_a_seek_that_fails_on_the_way_a_device_iterator_has_all_batches_or_an_error() {
    for (broken, is_whole) in [(2..3, true), (2..9, false)] {
        let inside = wrap(shield(breaks_off_in(broken)), &workspace(1, 1)).unwrap();
        let mut uploaded = Upload::to(HostDevice::new()).start(inside).unwrap();
        let start = uploaded.state();
        uploaded.seek(&start).unwrap();
        let far = ringfeed::order::State { position: 10, ..start };
        assert_eq!(uploaded.seek(&far).unwrap_err().kind(), ErrorKind::Io);
        let found: Vec<_> = uploaded.by_ref().take(4).map(|batch| batch.map(|batch| batch.len())).collect();
        let rows: usize = found.iter().filter_map(|batch| batch.as_ref().ok()).sum();
        let kinds: Vec<_> = found.iter().filter_map(|batch| Some(batch.as_ref().err()?.kind())).collect();
        let expected = if is_whole { (20, vec![]) } else { (7, vec![ErrorKind::Io]) };
        assert_eq!((rows, kinds), expected, "{found:?}");
    }
}

/// Two slots and two workers: the stuck reader has one of each.
fn little_patience() -> Workspace {
    let builder = Workspace::builder().workers(2).prefetch(0).lease_wait(Duration::ZERO);
    builder.close_wait(Duration::from_millis(20)).build().unwrap()
}

#[test]
fn a_stuck_reader_that_was_left_behind_is_a_named_error_and_not_an_endless_wait() {
    for shielded in [false, true] {
        let workspace = little_patience();
        let flaky = Flaky::new(100, &[0], Trouble::Stall);
        let gate = flaky.gate.clone();
        let source = ReaderSource::new(flaky).batch_size(10);
        // Dropped while its reader is stuck, or left in another thread that is in `next`.
        let stuck = || gate.until_reached();
        if shielded {
            let mut left = wrap(shield(source), &workspace).unwrap();
            std::thread::spawn(move || drop(left.next()));
            stuck();
        } else {
            let dropped = AsyncDataSetIterator::new(source, &workspace).unwrap();
            stuck();
            drop(dropped);
        }
        let mut next = AsyncDataSetIterator::new(numbers(100), &workspace).unwrap();
        for _ in 0..2 {
            let error = next.next().unwrap().unwrap_err();
            assert_eq!(error.kind(), ErrorKind::TimedOut);
            assert!(error.to_string().contains("stuck"), "{error}");
        }
        gate.open();
        let first = std::iter::repeat_with(|| next.next().unwrap()).find_map(Result::ok).unwrap();
        assert_eq!(xs(&first), (0..10).collect::<Vec<_>>());
    }
}

#[test]
fn a_batch_size_beyond_all_memory_is_an_error_before_it_is_planned() {
    for last_batch in [LastBatch::Pad, LastBatch::Keep] {
        for shielded in [false, true] {
            let budget = MemoryBudget::new(64 << 20);
            let workspace = Workspace::builder().workers(1).budget(budget.clone()).build().unwrap();
            let source = numbers(if last_batch == LastBatch::Pad { 100 } else { u64::MAX / 4 })
                .batch_size(10_000_000_000)
                .last_batch(last_batch);
            let made = if shielded { wrap(shield(source), &workspace) } else { wrap(source, &workspace) };
            let error = made.err().unwrap();
            assert_eq!(error.kind(), ErrorKind::Budget, "{error}");
            assert!(error.to_string().contains("lower the batch size"), "{error}");
            assert_eq!(budget.used(), 0);
        }
    }
}

#[test]
fn figures_of_a_device_iterator_do_not_wait_for_a_stuck_reader() {
    let flaky = Flaky::new(100, &[25], Trouble::Stall);
    let gate = flaky.gate.clone();
    let inside = wrap(ReaderSource::new(flaky).batch_size(10), &workspace(1, 2)).unwrap();
    let mut uploaded = Upload::to(HostDevice::new()).start(inside).unwrap();
    for _ in 0..2 {
        drop(uploaded.next().unwrap().unwrap());
    }
    gate.until_reached();
    // The feeding thread may be in `next`, for ever.
    assert!(uploaded.stats().batches <= 2);
    assert!(uploaded.bad_records().is_empty());
    gate.open();
    assert_eq!(uploaded.by_ref().map(|batch| batch.unwrap().len()).sum::<usize>(), 80);
    assert_eq!(uploaded.stats().batches, 10);
}

#[test]
fn a_bad_record_that_pads_a_batch_counts_once() {
    let open = |share, last_batch| {
        let policy = BadRecords::Skip(BadLimits { share: Some(share), ..BadLimits::default() });
        let source = ReaderSource::new(Flaky::new(10, &[0], Trouble::FailInDecode)).batch_size(8);
        let source = source.bad_records(policy).last_batch(last_batch);
        let batches = AsyncDataSetIterator::new(source, &workspace(2, 2)).unwrap();
        batches.map(|batch| batch.map(|batch| batch.len())).collect::<ringfeed::Result<Vec<_>>>()
    };
    assert_eq!(open(0.1, LastBatch::Keep).unwrap(), [7, 2]);
    assert_eq!(open(0.1, LastBatch::Pad).unwrap()[0], 7);
    assert!(open(0.05, LastBatch::Pad).is_err());
}

#[test]
fn a_share_is_not_rounded_down_below_itself() {
    let bad: Vec<u64> = (0..29).collect();
    let open = |share| {
        let policy = BadRecords::Skip(BadLimits { share: Some(share), ..BadLimits::default() });
        let source =
            ReaderSource::new(Flaky::new(100, &bad, Trouble::FailInDecode)).batch_size(100).bad_records(policy);
        AsyncDataSetIterator::new(source, &workspace(1, 1)).unwrap().next().unwrap().map(|batch| batch.len())
    };
    assert_eq!(open(0.29).unwrap(), 71);
    assert!(open(0.28).is_err());
}
