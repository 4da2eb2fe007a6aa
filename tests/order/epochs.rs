//! Epochs: the loop over them, what a forgotten reset says, and as many batches in each shard whatever is bad.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use crate::common::{Flaky, Trouble, Waves, see, workspace, xs};
use ringfeed::device::{HostDevice, Upload};
use ringfeed::order::{Epoch, Shard, State};
use ringfeed::read::{SampleStream, SampleTensor};
use ringfeed::settings::{BadLimits, BadRecords};
use ringfeed::source::{ByEpoch, ReaderSource, Replay, StreamSource};
use ringfeed::tensor::{Role, TensorSpec};
use ringfeed::transform::Operation;
use ringfeed::workspace::{shield, wrap};
use ringfeed::{AsyncDataSetIterator, AsyncShieldDataSetIterator, DType, DataSet, DataSetIterator, ErrorKind, Result};

fn shuffled() -> ReaderSource {
    ReaderSource::new(Waves::new(10, 5)).shuffle(3).batch_size(4)
}

/// The same batches ahead of the trainer, on its own thread, and from a stream.
fn iterators() -> Vec<Box<dyn DataSetIterator>> {
    let one = || TensorSpec::new("x", Role::Feature, DType::F32, &[]);
    let samples = || (0..10u8).map(|i| Ok(vec![SampleTensor::from(f32::from(i))]));
    let stream = SampleStream::repeatable(&[one()], samples).unwrap();
    vec![
        wrap(shuffled(), &workspace(2, 2)).unwrap(),
        wrap(shield(shuffled()), &workspace(1, 0)).unwrap(),
        wrap(StreamSource::from_samples(stream).batch_size(4), &workspace(2, 1)).unwrap(),
    ]
}

/// Epoch and position of each batch.
fn places(batches: impl IntoIterator<Item = Result<DataSet>>) -> Vec<(u64, u64)> {
    batches.into_iter().map(Result::unwrap).map(|batch| (batch.epoch(), batch.positions()[0])).collect()
}

#[test]
fn a_loop_over_epochs_goes_through_each_of_them() {
    for mut train in iterators() {
        let mut seen = Vec::new();
        for epoch in train.epochs(3) {
            let mut epoch = epoch.unwrap();
            seen.extend(places(&mut epoch));
            assert_eq!(epoch.iterator().state().position, 10);
            assert!(epoch.next().is_none() && epoch.next().is_none());
        }
        let expected = |epoch| [(epoch, 0), (epoch, 4), (epoch, 8)];
        assert_eq!(seen, [expected(0), expected(1), expected(2)].concat());
        assert_eq!(places(train.epoch().unwrap()), expected(3));
        assert_eq!(train.epochs(0).count(), 0);
        // One that was left is not gone on with, and one of which nothing was asked for is not passed over.
        assert_eq!(places(train.epoch().unwrap().take(1)), [(4, 0)]);
        drop(train.epoch().unwrap());
        assert_eq!(places(train.epoch().unwrap()), expected(5));
        train.reset().unwrap();
        assert_eq!(places(train.epoch().unwrap()), expected(6));
    }
}

#[test]
fn an_epoch_goes_on_behind_a_state() {
    for (mut first, mut second) in iterators().into_iter().zip(iterators()) {
        let mut epochs = first.epochs(3);
        assert_eq!(epochs.next().unwrap().unwrap().count(), 3);
        let state = epochs.next().unwrap().unwrap().next().unwrap().unwrap().state_after();
        second.seek(&state).unwrap();
        let rest: Vec<_> = second.epochs(3 - state.epoch).flat_map(|epoch| places(epoch.unwrap())).collect();
        assert_eq!(rest, [(1, 4), (1, 8), (2, 0), (2, 4), (2, 8)]);
        // Behind the last batch nothing is left, and that is an epoch, too.
        second.seek(&State { position: 10, ..state }).unwrap();
        let rest: Vec<_> = second.epochs(2).map(|epoch| places(epoch.unwrap())).collect();
        assert_eq!(rest, [vec![], vec![(2, 0), (2, 4), (2, 8)]]);
    }
}

#[test]
fn a_forgotten_reset_is_an_error_and_no_empty_epoch() {
    for mut train in iterators() {
        for turn in 0..3 {
            if turn == 0 {
                assert_eq!(places(&mut *train), [(0, 0), (0, 4), (0, 8)]);
                continue;
            }
            let errors: Vec<_> = train.by_ref().take(9).map(|item| item.map(drop).unwrap_err()).collect();
            assert!(errors.len() == 1 && errors[0].kind() == ErrorKind::Ended, "{errors:?}");
            assert!(errors[0].to_string().contains("epochs(n)"), "{errors:?}");
        }
        train.reset().unwrap();
        assert_eq!(places(train.by_ref()), [(1, 0), (1, 4), (1, 8)]);
    }
}

#[test]
fn a_replay_ends_its_epochs_as_what_it_replays_does() {
    let mut train = wrap(shuffled(), &workspace(2, 2)).unwrap();
    let mut replay = Replay::new(&mut *train, 2).unwrap();
    for _ in 0..2 {
        assert_eq!(replay.by_ref().map(Result::unwrap).count(), 3);
        assert_eq!(replay.next().unwrap().unwrap_err().kind(), ErrorKind::Ended);
        assert!(replay.next().is_none());
        replay.reset().unwrap();
    }
    assert_eq!(replay.epoch().unwrap().count(), 3);
}

#[test]
fn a_device_goes_through_epochs_as_the_host_does() {
    let device = HostDevice::new();
    let mut train = Upload::to(device).start(wrap(shuffled(), &workspace(2, 2)).unwrap()).unwrap();
    let mut seen = Vec::new();
    for epoch in train.epochs(2) {
        for batch in epoch.unwrap() {
            let batch = batch.unwrap();
            seen.push((batch.epoch(), batch.positions()[0]));
        }
    }
    assert_eq!(seen, [(0, 0), (0, 4), (0, 8), (1, 0), (1, 4), (1, 8)]);
    assert_eq!(train.next().unwrap().unwrap_err().kind(), ErrorKind::Ended);
    assert!(train.next().is_none());
    let state = {
        let mut epoch = train.epoch().unwrap();
        let first = epoch.next().unwrap().unwrap();
        first.state_after()
    };
    assert_eq!(train.epoch().unwrap().count(), 3);
    train.seek(&state).unwrap();
    assert_eq!(train.epoch().unwrap().count(), 2);
    assert_eq!(train.begin_epoch().map(|()| train.state().epoch).unwrap(), 3);
}

#[test]
fn what_can_not_begin_again_says_so_and_epochs_are_not_collected() {
    let x = [TensorSpec::new("x", Role::Feature, DType::F32, &[])];
    let once = SampleStream::once(&x, (0..3u8).map(|i| Ok(vec![SampleTensor::from(f32::from(i))]))).unwrap();
    let mut train = AsyncDataSetIterator::new(StreamSource::from_samples(once), &workspace(1, 1)).unwrap();
    let mut epochs = train.epochs(5);
    assert_eq!(epochs.next().unwrap().unwrap().count(), 1);
    assert_eq!(epochs.next().unwrap().err().unwrap().kind(), ErrorKind::Unsupported);
    assert!(epochs.next().is_none());

    let mut train = AsyncShieldDataSetIterator::new(shuffled(), &workspace(1, 0)).unwrap();
    let mut epochs: Vec<Result<Epoch<'_>>> = train.epochs(3).collect();
    assert!(epochs.len() == 2 && epochs[1].as_ref().err().unwrap().to_string().contains("still held"));
    assert_eq!(epochs.swap_remove(0).unwrap().count(), 3);
    drop(epochs);
    assert_eq!(train.epochs(1).count(), 1);
}

/// Nine records, of which the last is bad, in shards of batches of four.
fn nine(shard: u32, shards: u32) -> ReaderSource {
    ReaderSource::new(Flaky::new(9, &[8], Trouble::FailInDecode))
        .batch_size(4)
        .shard(Shard::new(shard, shards).unwrap())
        .bad_records(BadRecords::Skip(BadLimits::default()))
}

#[test]
fn every_shard_has_as_many_batches_though_nothing_is_left_of_one() {
    for shielded in [false, true] {
        let open = |shard, shards| match shielded {
            true => wrap(shield(nine(shard, shards)), &workspace(1, 0)).unwrap(),
            false => wrap(nine(shard, shards), &workspace(2, 1)).unwrap(),
        };
        let batches = |shard| open(shard, 2).map(|batch| xs(&batch.unwrap())).collect::<Vec<_>>();
        assert_eq!(batches(0), [vec![0, 2, 4, 6], vec![]]);
        assert_eq!(batches(1), [vec![1, 3, 5, 7], vec![0]]);
        let mut alone = open(0, 1);
        let lens: Vec<usize> = alone.by_ref().map(|batch| batch.unwrap().len()).collect();
        assert_eq!((lens, alone.stats().batches, alone.stats().skipped), (vec![4, 4, 0], 3, 1));

        // Stopped after any batch and gone on with in as many shards or others: none is missing, none comes twice.
        for stop in 0..3 {
            let mut states = Vec::new();
            let mut seen = Vec::new();
            for shard in 0..2 {
                let mut part = open(shard, 2);
                for batch in part.by_ref().take(stop) {
                    let batch = batch.unwrap();
                    assert_eq!(batch.is_empty(), shard == 0 && batch.index() == 1);
                    assert_eq!(
                        (batch.state_after(), batch.bad_records()),
                        (part_state(&batch), batch.is_empty().into())
                    );
                    seen.extend(batch.positions().iter().zip(xs(&batch)).map(|(position, x)| (*position, x)));
                }
                states.push(part.state());
            }
            assert_eq!(states[0].position, states[1].position);
            for shards in [1, 2, 3] {
                let mut all = seen.clone();
                let mut counts = Vec::new();
                for shard in 0..shards {
                    let mut part = open(shard, shards);
                    part.seek(&states[0]).unwrap();
                    let rest: Vec<_> = part.map(|batch| see(&batch.unwrap())).collect();
                    counts.push(rest.len());
                    for batch in rest {
                        all.extend(batch.positions.iter().copied().zip(batch.samples.iter().map(|id| *id as i64)));
                    }
                }
                assert!(counts.iter().all(|count| *count == counts[0]), "{counts:?} batches in {shards} shards");
                all.retain(|(position, _)| *position < 9);
                all.sort_unstable();
                assert_eq!(
                    all,
                    (0..8).map(|x| (x as u64, x)).collect::<Vec<_>>(),
                    "stopped after {stop}, {shards} shards"
                );
            }
        }
    }
}

/// What a batch says that comes in its place.
fn part_state(batch: &DataSet) -> State {
    State { position: if batch.index() == 0 { 8 } else { 9 }, ..batch.state_after() }
}

#[test]
fn a_batch_of_which_nothing_is_left_has_its_shape_and_can_be_copied_and_uploaded() {
    let mut batches = AsyncDataSetIterator::new(nine(0, 2), &workspace(2, 1)).unwrap();
    drop(batches.next());
    let empty = batches.next().unwrap().unwrap().detach().unwrap();
    assert!(empty.is_empty() && empty.positions().is_empty() && empty.padding() == 0);
    let x = empty.tensor("x").unwrap();
    assert_eq!((x.shape(), x.as_slice::<i64>().unwrap().len(), empty.bad_records()), (&[0][..], 0, 1));

    let device = HostDevice::new();
    let classes = Operation::OneHot { tensor: "x".to_owned(), classes: Some(9), dtype: DType::F16 };
    let stage = Upload::to(device.clone()).transform(classes);
    let step = ringfeed::device::Device::stream(&device).unwrap();
    let mut lens = Vec::new();
    for batch in stage.start(wrap(nine(0, 2), &workspace(2, 1)).unwrap()).unwrap() {
        let batch = batch.unwrap();
        let on = batch.on(&step).unwrap();
        assert_eq!(on.tensor("x").unwrap().shape(), [batch.len(), 9]);
        lens.push(batch.len());
    }
    assert_eq!(lens, [4, 0]);
}

#[test]
fn every_batch_of_bad_records_alone_is_still_a_step() {
    let source = ReaderSource::new(Flaky::new(4, &[0, 1, 2], Trouble::FailInFetch));
    let source = source.batch_size(1).bad_records(BadRecords::Skip(BadLimits::default()));
    let mut batches = AsyncDataSetIterator::new(source, &workspace(1, 1)).unwrap();
    let lens: Vec<usize> = batches.epoch().unwrap().map(|batch| batch.unwrap().len()).collect();
    assert_eq!(lens, [0, 0, 0, 1]);
}
