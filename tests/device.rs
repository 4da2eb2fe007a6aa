//! The upload stage on the host device: the same batches, never overwritten, whatever is dropped when.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;
#[path = "common/panicking.rs"]
mod panicking;

use std::sync::{Arc, Condvar, Mutex, mpsc};
use std::time::Duration;

use common::{Flaky, Seen, Trouble, Waves, see_all, workspace};
use panicking::Panicking;
use proptest::prelude::*;
use ringfeed::device::{Device, DeviceDataSet, DeviceDataSetIterator, HostDevice, HostStream, Upload};
use ringfeed::source::ReaderSource;
use ringfeed::workspace::{shield, wrap};
use ringfeed::{AsyncDataSetIterator, DataSetIterator, ErrorKind, Workspace};

type Batch = DeviceDataSet<HostDevice>;

fn numbers(len: u64) -> ReaderSource {
    ReaderSource::new(Flaky::new(len, &[], Trouble::Stall)).batch_size(10)
}

fn loaded(source: ReaderSource, workspace: &Workspace) -> AsyncDataSetIterator {
    AsyncDataSetIterator::new(source, workspace).unwrap()
}

fn upload() -> Upload<HostDevice> {
    Upload::to(HostDevice::new()).lease_wait(Duration::ZERO).close_wait(Duration::from_secs(20))
}

/// Everything that a trainer could see of a batch.
fn see(batch: &Batch) -> Seen {
    let stream = batch.device().stream().unwrap();
    let on = batch.on(&stream).unwrap();
    Seen {
        epoch: batch.epoch(),
        index: batch.index(),
        positions: batch.positions().to_vec(),
        samples: batch.sample_ids().to_vec(),
        padding: batch.padding(),
        shapes: on.tensors().map(|tensor| tensor.shape().to_vec()).collect(),
        tensors: on.tensors().map(|tensor| tensor.to_host().unwrap()).collect(),
    }
}

fn xs_of(batch: &Batch) -> Vec<i64> {
    bytemuck_i64(&see(batch).tensors[0])
}

fn bytemuck_i64(bytes: &[u8]) -> Vec<i64> {
    bytes.as_chunks::<8>().0.iter().map(|value| i64::from_ne_bytes(*value)).collect()
}

fn range(start: i64, end: i64) -> Vec<i64> {
    (start..end).collect()
}

/// Work of a stream waits here until the test opens it.
#[derive(Clone, Default)]
struct Gate(Arc<(Mutex<bool>, Condvar)>);

impl Gate {
    fn open(&self) {
        *self.0.0.lock().unwrap() = true;
        self.0.1.notify_all();
    }

    fn close_on(&self, stream: &HostStream) {
        let gate = self.0.clone();
        stream
            .run(move || {
                let mut open = gate.0.lock().unwrap();
                while !*open {
                    open = gate.1.wait(open).unwrap();
                }
            })
            .unwrap();
    }
}

/// Two workers, four slots, and as much time as it takes until one of them comes home.
fn patient() -> Workspace {
    let builder = Workspace::builder().workers(2).prefetch(2).poison(0xa5);
    builder.lease_wait(Duration::from_secs(200)).close_wait(Duration::from_secs(200)).build().unwrap()
}

/// Holds so many slots of the ring at once, for which it waits until nobody else holds them.
fn take_slots(workspace: &Workspace, slots: usize) {
    let others = wrap(shield(numbers(1000)), workspace).unwrap();
    let held: Vec<_> = others.take(slots).map(Result::unwrap).collect();
    assert_eq!((held.len(), workspace.ring().slots), (slots, 4));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn batches_on_devices_are_those_of_the_iterator_inside(
        len in 1u64..60,
        prefetch in 0usize..4,
        slots in 1usize..5,
        queued in 1usize..4,
        devices in 1usize..4,
        shielded in any::<bool>(),
        shuffled in any::<bool>(),
    ) {
        let source = || {
            let source = ReaderSource::new(Waves::new(len, 40)).batch_size(7);
            if shuffled { source.shuffle(3) } else { source }
        };
        let mut host = wrap(source(), &workspace(1, 1)).unwrap();
        let workspace = workspace(2, prefetch);
        let inside =
            if shielded { wrap(shield(source()), &workspace) } else { wrap(source(), &workspace) }.unwrap();
        let upload = Upload::to_each((0..devices).map(|_| HostDevice::new())).slots(slots).queued(queued);
        let mut uploaded = upload.start(inside).unwrap();
        prop_assert_eq!(uploaded.batches_per_epoch(), host.batches_per_epoch());
        for _ in 0..3 {
            prop_assert_eq!(uploaded.state(), host.state());
            let seen: Vec<Seen> = uploaded.by_ref().map(|batch| see(&batch.unwrap())).collect();
            prop_assert_eq!(seen, see_all(&mut *host));
            prop_assert_eq!(uploaded.state(), host.state());
            prop_assert_eq!(uploaded.next().unwrap().unwrap_err().kind(), ErrorKind::Ended);
            uploaded.reset().unwrap();
            host.reset().unwrap();
        }
        prop_assert_eq!(workspace.ring().spilled, 0);
    }
}

#[test]
fn devices_take_turns() {
    let devices = [HostDevice::new(), HostDevice::new()];
    let mut uploaded = Upload::to_each(devices).start(loaded(numbers(60), &workspace(1, 2))).unwrap();
    let batches: Vec<_> = uploaded.by_ref().map(Result::unwrap).collect();
    assert_eq!(batches.iter().map(DeviceDataSet::index).collect::<Vec<_>>(), [0, 1, 2, 3, 4, 5]);
    let broken = batches[0].device().stream().unwrap();
    broken.run(|| panic!("on the first device")).unwrap();
    assert!(broken.synchronize().is_err());
    let works: Vec<bool> = batches.iter().map(|batch| batch.wait().is_ok()).collect();
    assert_eq!(works, [false, true, false, true, false, true]);
}

#[test]
fn a_batch_has_the_same_device_after_a_seek() {
    for resumed in [7, 6, 5] {
        let devices = [HostDevice::new(), HostDevice::new(), HostDevice::new()];
        let mut uploaded = Upload::to_each(devices.clone()).start(loaded(numbers(200), &workspace(1, 2))).unwrap();
        let states: Vec<_> = uploaded.by_ref().take(7).map(|batch| batch.unwrap().state_after()).collect();
        uploaded.seek(&states[resumed - 1]).unwrap();
        assert!(uploaded.ready_within(Duration::MAX));
        let batches: Vec<_> = uploaded.by_ref().take(5).map(Result::unwrap).collect();
        assert_eq!(batches.iter().map(|batch| batch.index() as usize).min(), Some(resumed));
        let broken = devices[1].stream().unwrap();
        broken.run(|| panic!("on the second device")).unwrap();
        assert!(broken.synchronize().is_err());
        for batch in batches {
            assert_eq!(batch.wait().is_ok(), batch.index() % 3 != 1, "batch {}", batch.index());
        }
    }
}

/// The race that naive code has: the next copy starts when the batch is dropped, while a stream still reads it.
#[test]
fn a_slot_is_not_written_before_every_stream_has_read_it() {
    let device = HostDevice::new();
    for streams in (1..4).cycle().take(24) {
        let gates: Vec<Gate> = (0..streams).map(|_| Gate::default()).collect();
        let steps: Vec<HostStream> = (0..streams).map(|_| device.stream().unwrap()).collect();
        let workspace = workspace(2, 2);
        let mut uploaded = Upload::to(device.clone()).slots(2).start(loaded(numbers(1000), &workspace)).unwrap();
        let (send, seen) = mpsc::channel();
        let first = uploaded.next().unwrap().unwrap();
        for (step, gate) in steps.iter().zip(&gates) {
            let on = first.on(step).unwrap();
            gate.close_on(step);
            let send = send.clone();
            on.run(move |tensors| send.send(bytemuck_i64(tensors[0])).unwrap()).unwrap();
        }
        drop(first);
        // The other slot goes on; then the next copy to the first one is queued.
        assert_eq!(uploaded.next().unwrap().unwrap().index(), 1);
        let third = uploaded.next().unwrap().unwrap();
        let later = device.stream().unwrap();
        third.on(&later).unwrap().run(move |tensors| send.send(bytemuck_i64(tensors[0])).unwrap()).unwrap();
        drop(third);
        gates.iter().for_each(Gate::open);
        // Whoever reads the third batch comes after all that read the first, as its copy does.
        let all: Vec<_> = (0..=streams).map(|_| seen.recv().unwrap()).collect();
        assert_eq!(all, [vec![range(0, 10); streams], vec![range(20, 30)]].concat());
        assert_eq!(uploaded.by_ref().map(|batch| xs_of(&batch.unwrap())[0]).collect::<Vec<_>>()[0], 30);
    }
}

#[test]
fn a_slot_is_not_written_while_streams_that_it_knows_nothing_of_may_read_it() {
    let device = HostDevice::new();
    let (unknown, gate, (send, read)) = (device.stream().unwrap(), Gate::default(), mpsc::channel());
    common::watchdog::watch();
    let workspace = workspace(2, 2);
    let mut uploaded = Upload::to(device).slots(2).start(loaded(numbers(60), &workspace)).unwrap();
    let first = uploaded.next().unwrap().unwrap();
    first.wait().unwrap();
    let (_, address, _, shape) = first.places().next().unwrap();
    let from = std::ptr::with_exposed_provenance::<i64>(address as usize);
    // SAFETY: the copy is done, and the slot is not written again before the work that reads it is done.
    let from = Mutex::new(unsafe { std::slice::from_raw_parts(from, shape[0]) });
    gate.close_on(&unknown);
    unknown.run(move || send.send(from.lock().unwrap().to_vec()).unwrap()).unwrap();
    let has_waiting = |commands: &str| format!("{unknown:?}").contains(commands);
    while !has_waiting("(1 commands") {
        std::thread::yield_now();
    }
    first.used_elsewhere();
    drop(first);
    assert_eq!(uploaded.next().unwrap().unwrap().index(), 1);
    // What comes next has its place in the first one's slot. The upload thread waits for all work that the device has:
    // for that, it puts a mark behind the reading.
    while !has_waiting("(2 commands") {
        assert!(!uploaded.ready_within(Duration::ZERO), "it was written while it may be read");
        std::thread::yield_now();
    }
    gate.open();
    assert_eq!(read.recv().unwrap(), range(0, 10));
    assert!(uploaded.ready_within(Duration::MAX));
    let rest: Vec<_> = uploaded.by_ref().map(|batch| batch.unwrap().index()).collect();
    assert_eq!(rest, [2, 3, 4, 5]);
    assert!(uploaded.ready_within(Duration::ZERO));
}

#[test]
fn a_step_on_a_stream_sees_its_batch_whole_under_load() {
    let device = HostDevice::new();
    let step = device.stream().unwrap();
    let workspace = workspace(2, 2);
    let source = ReaderSource::new(Waves::new(400, 200)).batch_size(8);
    let mut uploaded = Upload::to(device).start(loaded(source, &workspace)).unwrap();
    let (send, seen) = mpsc::channel();
    for _ in 0..5 {
        for batch in uploaded.by_ref() {
            let batch = batch.unwrap();
            let (send, samples) = (send.clone(), batch.sample_ids().to_vec());
            batch
                .on(&step)
                .unwrap()
                .run(move |tensors| {
                    let tensors: Vec<Vec<u8>> = tensors.iter().map(|tensor| tensor.to_vec()).collect();
                    send.send((samples, tensors)).unwrap();
                })
                .unwrap();
        }
        uploaded.reset().unwrap();
    }
    step.synchronize().unwrap();
    let waves = Waves::new(400, 200);
    let all: Vec<_> = seen.try_iter().collect();
    assert_eq!(all.len(), 5 * 50);
    assert!(all.iter().all(|(samples, tensors)| waves.naive(samples) == *tensors));
}

#[test]
fn host_slots_go_home_while_batches_stay_on_the_device() {
    let workspace = patient();
    let mut uploaded = upload().start(loaded(numbers(1000), &workspace)).unwrap();
    let held: Vec<_> = uploaded.by_ref().take(3).map(Result::unwrap).collect();
    // One batch waits for a device slot, and one for the upload thread.
    take_slots(&workspace, 2);
    drop(uploaded);
    take_slots(&workspace, 4);
    assert_eq!(held.iter().flat_map(xs_of).collect::<Vec<_>>(), range(0, 30));
}

#[test]
fn holding_every_device_slot_is_a_named_error_that_takes_no_place() {
    let mut uploaded = upload().start(loaded(numbers(100), &workspace(2, 2))).unwrap();
    let mut held: Vec<_> = uploaded.by_ref().take(3).map(Result::unwrap).collect();
    for _ in 0..2 {
        let error = uploaded.next().unwrap().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Exhausted);
        assert!(error.to_string().contains("3 of host's 3 slots"), "{error}");
    }
    held.remove(1);
    assert_eq!(xs_of(&uploaded.next().unwrap().unwrap()), range(30, 40));
    drop(held);
    assert_eq!(uploaded.map(|batch| batch.unwrap().len()).sum::<usize>(), 60);
}

#[test]
fn detached_batches_keep_their_places_and_the_upload_gets_others() {
    let device = HostDevice::new();
    let upload = Upload::to(device.clone()).lease_wait(Duration::ZERO).close_wait(Duration::from_secs(20));
    let mut uploaded = upload.start(loaded(numbers(200), &workspace(2, 2))).unwrap();
    let mut held = Vec::new();
    for batch in uploaded.by_ref() {
        let mut batch = batch.unwrap();
        assert!(batch.bytes() >= 80);
        batch.detach().unwrap();
        batch.detach().unwrap();
        held.push(batch);
    }
    assert_eq!(held.iter().flat_map(xs_of).collect::<Vec<_>>(), range(0, 200));
    let addresses: std::collections::BTreeSet<u64> =
        held.iter().flat_map(|batch| batch.places().next()).map(|place| place.1).collect();
    assert_eq!(addresses.len(), 20);
    // Three places there are again, all of which may be held.
    uploaded.reset().unwrap();
    let again: Vec<_> = uploaded.by_ref().take(3).map(Result::unwrap).collect();
    assert_eq!(uploaded.next().unwrap().unwrap_err().kind(), ErrorKind::Exhausted);
    drop(again);
    assert_eq!(uploaded.by_ref().map(|batch| batch.unwrap().len()).sum::<usize>(), 170);
    // They stay as they are without an upload, and are freed after what streams still do with them.
    drop(uploaded);
    let (step, gate, (send, read)) = (device.stream().unwrap(), Gate::default(), mpsc::channel());
    gate.close_on(&step);
    for batch in held {
        let send = send.clone();
        let on = batch.on(&step).unwrap();
        on.run(move |tensors| send.send(bytemuck_i64(tensors[0])).unwrap()).unwrap();
    }
    gate.open();
    step.synchronize().unwrap();
    assert_eq!(read.try_iter().flatten().collect::<Vec<_>>(), range(0, 200));
}

#[test]
fn a_forgotten_batch_only_shrinks_the_number_of_slots() {
    let mut uploaded = upload().start(loaded(numbers(100), &workspace(2, 2))).unwrap();
    std::mem::forget(uploaded.next().unwrap().unwrap());
    assert_eq!(uploaded.by_ref().map(|batch| batch.unwrap().len()).sum::<usize>(), 90);
    uploaded.reset().unwrap();
    assert_eq!(uploaded.map(|batch| batch.unwrap().len()).sum::<usize>(), 100);
}

#[test]
fn errors_and_panics_of_the_loader_arrive_in_their_place() {
    for (trouble, kind) in [(Trouble::FailInFetch, ErrorKind::Data), (Trouble::PanicInDecode, ErrorKind::Panicked)] {
        for devices in 1..3 {
            let source = ReaderSource::new(Flaky::new(100, &[35], trouble)).batch_size(10);
            let upload = Upload::to_each((0..devices).map(|_| HostDevice::new()));
            let mut uploaded = upload.start(loaded(source, &workspace(2, 2))).unwrap();
            for epoch in 0..2 {
                let good: Vec<_> = uploaded.by_ref().take(3).map(|batch| xs_of(&batch.unwrap())).collect();
                assert_eq!(good.concat(), range(0, 30));
                let error = uploaded.next().unwrap().unwrap_err();
                assert_eq!((error.kind(), error.location().record), (kind, Some(35)));
                assert_eq!(uploaded.state().epoch, epoch);
                assert!(uploaded.next().is_none());
                assert_eq!(uploaded.next().unwrap().unwrap_err().kind(), ErrorKind::Ended);
                uploaded.reset().unwrap();
            }
        }
    }
}

#[test]
fn a_reset_in_the_middle_of_an_epoch_begins_the_next_and_one_before_it_does_nothing() {
    let source = || numbers(200).shuffle(9);
    let mut host = wrap(source(), &workspace(1, 1)).unwrap();
    let mut uploaded = upload().start(loaded(source(), &workspace(2, 3))).unwrap();
    for taken in [0, 1, 3, 20] {
        for _ in 0..taken {
            assert_eq!(see(&uploaded.next().unwrap().unwrap()), common::see(&host.next().unwrap().unwrap()));
        }
        uploaded.reset().unwrap();
        uploaded.reset().unwrap();
        host.reset().unwrap();
        assert_eq!(uploaded.state(), host.state());
    }
}

#[test]
fn a_run_goes_on_from_a_state_in_the_middle() {
    let source = || numbers(200).shuffle(9);
    let mut uploaded = upload().start(loaded(source(), &workspace(2, 3))).unwrap();
    let states: Vec<_> = uploaded.by_ref().take(7).map(|batch| batch.unwrap().state_after()).collect();
    let rest: Vec<_> = uploaded.by_ref().map(|batch| xs_of(&batch.unwrap())).collect();
    assert_eq!(rest.len(), 13);
    uploaded.seek(&states[6]).unwrap();
    assert_eq!(uploaded.state(), states[6]);
    assert_eq!(uploaded.by_ref().map(|batch| xs_of(&batch.unwrap())).collect::<Vec<_>>(), rest);

    let wrong = ringfeed::order::State::new(1);
    assert_eq!(uploaded.seek(&wrong).unwrap_err().kind(), ErrorKind::Config);
    assert_eq!(uploaded.next().unwrap().unwrap_err().kind(), ErrorKind::Ended);
    uploaded.seek(&states[6]).unwrap();
    assert_eq!(uploaded.map(|batch| xs_of(&batch.unwrap())).collect::<Vec<_>>(), rest);
}

#[test]
fn a_broken_device_says_so_in_band_and_gives_every_host_slot_back() {
    let device = HostDevice::new();
    let step = device.stream().unwrap();
    let workspace = patient();
    let mut uploaded = Upload::to(device.clone()).start(loaded(numbers(1000), &workspace)).unwrap();
    let batch = uploaded.next().unwrap().unwrap();
    batch.on(&step).unwrap().run(|_| panic!("an illegal address")).unwrap();
    assert!(step.synchronize().is_err());
    drop(batch);
    let error = uploaded.by_ref().find_map(Result::err).unwrap();
    assert_eq!(error.kind(), ErrorKind::Device);
    assert!(error.to_string().contains("an illegal address"), "{error}");
    assert!(device.stream().is_err());
    drop(uploaded);
    take_slots(&workspace, 4);
}

#[test]
fn a_panic_in_the_iterator_is_an_item_of_the_stream() {
    let mut uploaded = upload().start(Panicking(wrap(numbers(50), &workspace(1, 1)).unwrap(), 2)).unwrap();
    let items: Vec<_> =
        uploaded.by_ref().map(|item| item.map_err(|error| error.kind()).map(|b| xs_of(&b)[0])).collect();
    assert_eq!(items, [Ok(0), Ok(10), Err(ErrorKind::Panicked), Ok(30), Ok(40)]);
    assert_eq!(uploaded.state().position, 50);
}

/// Streams that never come to an end, slots held, threads in the middle of things: dropping ends, and nothing is freed
/// that somebody still uses.
#[test]
fn everything_can_be_dropped_in_every_state() {
    for close_first in [false, true] {
        for taken in 0..4 {
            let device = HostDevice::new();
            let (gate, step) = (Gate::default(), device.stream().unwrap());
            let workspace = patient();
            let upload = Upload::to(device.clone()).close_wait(Duration::ZERO);
            let mut uploaded = upload.start(loaded(numbers(1000), &workspace)).unwrap();
            let (send, seen) = mpsc::channel();
            gate.close_on(&step);
            for _ in 0..taken {
                let batch = uploaded.next().unwrap().unwrap();
                let send = send.clone();
                let on = batch.on(&step).unwrap();
                on.run(move |tensors| send.send(bytemuck_i64(tensors[0])).unwrap()).unwrap();
            }
            if close_first {
                gate.open();
            }
            drop((uploaded, upload, device));
            gate.open();
            step.synchronize().unwrap();
            assert_eq!(seen.try_iter().flatten().collect::<Vec<_>>(), range(0, 10 * taken));
            take_slots(&workspace, 4);
        }
    }
}

#[test]
fn batches_outlive_iterator_workspace_and_device() {
    let workspace = workspace(2, 2);
    let mut uploaded = upload().start(loaded(numbers(100), &workspace)).unwrap();
    let batches: Vec<_> = uploaded.by_ref().take(2).map(Result::unwrap).collect();
    drop((uploaded, workspace));
    assert_eq!(batches.iter().flat_map(xs_of).collect::<Vec<_>>(), range(0, 20));
    std::thread::spawn(move || drop(batches)).join().unwrap();
}

#[test]
fn a_loader_that_hangs_does_not_keep_a_drop_waiting() {
    let reader = Flaky::new(100, &[25], Trouble::Stall);
    let gate = reader.gate.clone();
    let workspace = Workspace::builder().workers(1).prefetch(2).close_wait(Duration::from_secs(20)).build().unwrap();
    let inside = loaded(ReaderSource::new(reader).batch_size(10), &workspace);
    let mut uploaded = Upload::to(HostDevice::new()).close_wait(Duration::from_millis(1)).start(inside).unwrap();
    assert_eq!(xs_of(&uploaded.next().unwrap().unwrap()), range(0, 10));
    gate.until_reached();
    assert_eq!(xs_of(&uploaded.next().unwrap().unwrap()), range(10, 20));
    assert_eq!(uploaded.reset().unwrap_err().kind(), ErrorKind::TimedOut);
    assert_eq!(uploaded.next().unwrap().unwrap_err().kind(), ErrorKind::Ended);
    drop(uploaded);
    gate.open();
}

#[test]
fn batches_can_be_uploaded_one_by_one() {
    let workspace = workspace(2, 2);
    let mut host = loaded(numbers(100), &workspace);
    let mut uploader = upload().uploader(host.schema()).unwrap();
    let mut all = Vec::new();
    for batch in host.by_ref() {
        all.extend(xs_of(&uploader.upload(batch.unwrap()).unwrap()));
    }
    assert_eq!(all, range(0, 100));
    host.reset().unwrap();
    let mut next = || uploader.upload(host.next().unwrap().unwrap());
    let held: Vec<_> = (0..3).map(|_| next().unwrap()).collect();
    assert_eq!(next().unwrap_err().kind(), ErrorKind::Exhausted);
    drop(held);
    assert_eq!(xs_of(&next().unwrap()), range(40, 50));
}

#[test]
fn settings_that_make_no_sense_are_refused() {
    let start = |upload: Upload<HostDevice>| upload.start(loaded(numbers(10), &workspace(1, 1))).err().unwrap().kind();
    assert_eq!(start(Upload::to_each([])), ErrorKind::Config);
    assert_eq!(start(upload().slots(0)), ErrorKind::Config);
    assert_eq!(start(upload().queued(0)), ErrorKind::Config);
    let two = Upload::to_each([HostDevice::new(), HostDevice::new()]);
    assert_eq!(two.uploader(loaded(numbers(10), &workspace(1, 1)).schema()).err().unwrap().kind(), ErrorKind::Config);
}

#[test]
fn figures_count_what_was_uploaded() {
    let mut uploaded = upload().start(loaded(numbers(95), &workspace(2, 2))).unwrap();
    assert_eq!(uploaded.by_ref().count(), 10);
    let stats = uploaded.upload_stats();
    assert_eq!((stats.batches, stats.samples, stats.bytes), (10, 95, 95 * 8));
    assert!((1..=3).contains(&stats.grown));
    assert_eq!(uploaded.stats().batches, 10);
    assert!(uploaded.bad_records().is_empty());
    uploaded.reset().unwrap();
    assert_eq!(uploaded.by_ref().count(), 10);
    assert_eq!(uploaded.upload_stats().since(&stats).batches, 10);
}

#[test]
fn a_tensor_of_another_name_is_an_error_that_helps() {
    let mut uploaded: DeviceDataSetIterator<HostDevice> =
        upload().start(loaded(numbers(10), &workspace(1, 1))).unwrap();
    let batch = uploaded.next().unwrap().unwrap();
    let stream = batch.device().stream().unwrap();
    let on = batch.on(&stream).unwrap();
    assert_eq!(on.features().unwrap().name(), "x");
    assert_eq!(on.features().unwrap().address() % 256, 0);
    assert_eq!(on.tensor("y").err().unwrap().kind(), ErrorKind::NotFound);
    assert_eq!(on.labels().err().unwrap().kind(), ErrorKind::Schema);
    assert!(format!("{batch:?}").contains("DeviceDataSet(host, epoch 0, batch 0, 10 samples, x: i64 [10]"));
}

#[test]
fn a_stream_of_another_device_can_not_use_a_batch() {
    let mut uploaded = upload().start(loaded(numbers(10), &workspace(1, 1))).unwrap();
    let batch = uploaded.next().unwrap().unwrap();
    let other = HostDevice::new().stream().unwrap();
    assert_eq!(batch.on(&other).map(drop).unwrap_err().kind(), ErrorKind::Device);
    assert!(batch.on(&batch.device().stream().unwrap()).is_ok());
}
