//! What programs may get wrong with a device, and users' own code may do there: errors, never undefined behaviour or a
//! wait without end.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "common/given.rs"]
mod given;
#[path = "common/watchdog.rs"]
mod watchdog;

use std::sync::{Arc, mpsc};

use given::Given;
use ringfeed::device::{Device, HostDevice, Upload, convert_rate, copy_rate};
use ringfeed::error::Location;
use ringfeed::inspect::BadRecord;
use ringfeed::memory::{AnonymousPages, Block, PageSource};
use ringfeed::order::State;
use ringfeed::read::{RecordReader, RowMut, Sample, Scratch};
use ringfeed::source::ReaderSource;
use ringfeed::stats::Stats;
use ringfeed::tensor::{Role, Schema, TensorSpec};
use ringfeed::transform::dense;
use ringfeed::{
    AsyncDataSetIterator, AsyncShieldDataSetIterator, DType, DataSet, DataSetIterator, Error, ErrorKind, Result,
    Workspace,
};

fn given(tensors: &[(&str, DType, &[usize])]) -> Given {
    watchdog::watch();
    let tensors: Vec<_> =
        tensors.iter().map(|(name, dtype, shape)| TensorSpec::new(*name, Role::Feature, *dtype, shape)).collect();
    let row: Vec<_> = tensors
        .iter()
        .map(|spec| {
            vec![1; spec.row_shape(&ringfeed::tensor::Extents::default()).elements().unwrap() * spec.dtype.bytes()]
        })
        .collect();
    Given { tensors, rows: Arc::new(vec![row; 4]) }
}

fn batches(given: &Given) -> AsyncDataSetIterator {
    let source = ReaderSource::new(given.clone()).batch_size(2);
    AsyncDataSetIterator::new(source, &Workspace::builder().workers(1).build().unwrap()).unwrap()
}

#[test]
fn a_batch_of_another_schema_is_refused() {
    let planned = given(&[("x", DType::F64, &[5]), ("columns", DType::I64, &[5])]);
    let others: [&[(&str, DType, &[usize])]; 6] = [
        &[("x", DType::U8, &[5]), ("columns", DType::I64, &[5])],
        &[("x", DType::F64, &[4]), ("columns", DType::I64, &[5])],
        &[("x", DType::F64, &[5, 1]), ("columns", DType::I64, &[5])],
        &[("x", DType::F64, &[5]), ("columns", DType::U8, &[5])],
        &[("y", DType::F64, &[5]), ("columns", DType::I64, &[5])],
        &[("x", DType::F64, &[5])],
    ];
    let mut uploader = Upload::to(HostDevice::new()).uploader(batches(&planned).schema()).unwrap();
    let stream = HostDevice::new().stream().unwrap();
    for other in others {
        let batch = batches(&given(other)).next().unwrap().unwrap();
        let error = uploader.upload(batch).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Schema, "{error}");
        let uploaded = uploader.upload(batches(&planned).next().unwrap().unwrap()).unwrap();
        assert_eq!(uploaded.on(&stream).unwrap().tensor("x").unwrap().to_host().unwrap(), [1; 80]);
    }
}

#[test]
fn a_conversion_of_another_schema_reads_nothing() {
    let planned = given(&[("x", DType::F32, &[64]), ("columns", DType::I64, &[64])]);
    let upload = Upload::to(HostDevice::new()).transform(dense("x", "columns", 8));
    let mut uploader = upload.uploader(batches(&planned).schema()).unwrap();
    let short = given(&[("x", DType::F32, &[64]), ("columns", DType::I64, &[1])]);
    let error = uploader.upload(batches(&short).next().unwrap().unwrap()).unwrap_err();
    assert_eq!(error.location().column.as_deref(), Some("columns"), "{error}");
    assert!(error.to_string().contains("\"columns\" (Feature, i64 [Fixed(1)]) in place of"), "{error}");
}

/// An iterator whose schema or `next` are not those of the one inside.
struct Other<F> {
    inside: AsyncDataSetIterator,
    schema: Arc<Schema>,
    next: F,
}

impl<F> Other<F> {
    fn new(inside: AsyncDataSetIterator, next: F) -> Self {
        Self { schema: inside.schema().clone(), inside, next }
    }
}

impl<F: FnMut(&mut AsyncDataSetIterator) -> Option<Result<DataSet>>> Iterator for Other<F> {
    type Item = Result<DataSet>;

    fn next(&mut self) -> Option<Self::Item> {
        (self.next)(&mut self.inside)
    }
}

impl<F: Send + FnMut(&mut AsyncDataSetIterator) -> Option<Result<DataSet>>> DataSetIterator for Other<F> {
    fn begin_epoch(&mut self) -> Result<()> {
        self.inside.begin_epoch()
    }

    fn reset(&mut self) -> Result<()> {
        self.inside.reset()
    }

    fn seek(&mut self, state: &State) -> Result<()> {
        self.inside.seek(state)
    }

    fn schema(&self) -> &Arc<Schema> {
        &self.schema
    }

    fn state(&self) -> State {
        self.inside.state()
    }

    fn batches_per_epoch(&self) -> Option<u64> {
        self.inside.batches_per_epoch()
    }

    fn stats(&self) -> Stats {
        self.inside.stats()
    }

    fn bad_records(&self) -> Vec<BadRecord> {
        self.inside.bad_records()
    }
}

#[test]
fn an_iterator_that_gives_other_batches_than_it_says_gives_errors() {
    let schema = batches(&given(&[("x", DType::F64, &[5])])).schema().clone();
    let lying = Other { schema, ..Other::new(batches(&given(&[("x", DType::U8, &[5])])), Iterator::next) };
    let kinds: Vec<_> = Upload::to(HostDevice::new()).start(lying).unwrap().map(|b| b.unwrap_err().kind()).collect();
    assert_eq!(kinds, [ErrorKind::Schema, ErrorKind::Schema]);
}

/// Pages of the length that was asked for, but every `n`th shorter.
#[derive(Debug)]
struct Short(u64, std::sync::atomic::AtomicU64);

impl PageSource for Short {
    fn allocate(&self, bytes: usize) -> Result<Block> {
        let turn = 1 + self.1.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        AnonymousPages.allocate(if turn.is_multiple_of(self.0) { bytes / 2 } else { bytes })
    }
}

#[test]
fn pages_that_are_shorter_than_asked_for_are_an_error_before_anything_is_copied() {
    watchdog::watch();
    for nth in [1, 2] {
        let pages = Short(nth, 0.into());
        let error = copy_rate(&HostDevice::new(), &pages, 8 << 20, 3).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Io);
        assert!(error.to_string().contains("gave 4194304 bytes instead of 8388608"), "{error}");
    }
    assert!(copy_rate(&HostDevice::new(), &AnonymousPages, 5000, 3).unwrap() > 0.0);
}

#[test]
fn rates_of_more_than_any_memory_are_errors() {
    let rate = |images, side| convert_rate(&HostDevice::new(), DType::F16, images, side, 2);
    assert_eq!(rate(usize::MAX / 2, 3).unwrap_err().kind(), ErrorKind::Limit);
    assert_eq!(rate(1, 1 << 32).unwrap_err().kind(), ErrorKind::Limit);
    assert!(rate(3, 7).unwrap() > 0.0);
}

/// What a reader or an iterator says of slots, which are none of its business.
fn forged() -> Error {
    Error::new(ErrorKind::Exhausted, "no slots on the other side")
}

/// Numbers of which one can't be had.
struct Exhausting(Vec<TensorSpec>);

impl RecordReader for Exhausting {
    fn len(&self) -> u64 {
        40
    }

    fn tensors(&self) -> &[TensorSpec] {
        &self.0
    }

    fn decode(&self, sample: Sample, _: usize, _: &mut Scratch, row: &mut RowMut<'_>) -> Result<()> {
        row.zero();
        if sample.id == 25 { Err(forged()) } else { Ok(()) }
    }

    fn place(&self, sample: u64) -> Location {
        Location { record: Some(sample), ..Location::default() }
    }
}

#[test]
fn a_reader_can_not_say_that_slots_are_in_use() {
    watchdog::watch();
    let source = || {
        let reader = Exhausting(vec![TensorSpec::new("x", Role::Feature, DType::I64, &[])]);
        ReaderSource::new(reader).batch_size(10)
    };
    let workspace = Workspace::builder().workers(1).build().unwrap();
    let seen = |items: &mut dyn Iterator<Item = Result<()>>| -> Vec<_> {
        items.map(|item| item.map_err(|error| (error.kind(), error.to_string()))).collect()
    };
    let expected = (ErrorKind::Data, "record 25: no slots on the other side".to_owned());
    let expected = [Ok(()), Ok(()), Err(expected)];
    let mut host = AsyncDataSetIterator::new(source(), &workspace).unwrap();
    assert_eq!(seen(&mut host.by_ref().map(|batch| batch.map(drop))), expected);
    let mut shielded = AsyncShieldDataSetIterator::new(source(), &workspace).unwrap();
    assert_eq!(seen(&mut shielded.by_ref().map(|batch| batch.map(drop))), expected);
    host.reset().unwrap();
    let mut uploaded = Upload::to(HostDevice::new()).start(host).unwrap();
    assert_eq!(seen(&mut uploaded.by_ref().map(|batch| batch.map(drop))), expected);
}

#[test]
fn an_error_of_the_iterator_inside_is_never_taken_for_one_of_the_ring() {
    let (inside, mut calls) = (batches(&given(&[("x", DType::I64, &[])])), 0);
    let (send, asked) = mpsc::channel();
    let next = move |inside: &mut AsyncDataSetIterator| {
        calls += 1;
        if calls != 3 {
            return inside.next();
        }
        send.send(()).unwrap();
        Some(Err(forged()))
    };
    let mut uploaded = Upload::to(HostDevice::new()).slots(1).start(Other::new(inside, next)).unwrap();
    // While the first batch is held, the second waits for its slot on the device, and keeps one of the ring's.
    let first = uploaded.next().unwrap().unwrap();
    asked.recv().unwrap();
    drop(first);
    let kinds: Vec<_> = uploaded.map(|batch| batch.map(drop).map_err(|error| error.kind())).collect();
    assert_eq!(kinds, [Ok(()), Err(ErrorKind::Exhausted)]);
}

#[test]
fn a_batch_may_drop_in_the_work_of_its_own_stream_however_much_waits_there() {
    let device = HostDevice::new();
    let step = device.stream().unwrap();
    let mut uploaded = Upload::to(device).slots(1).start(batches(&given(&[("x", DType::I64, &[])]))).unwrap();
    let batch = uploaded.next().unwrap().unwrap();
    drop(batch.on(&step).unwrap());
    let (open, gate) = mpsc::channel::<()>();
    step.run(move || {
        gate.recv().unwrap();
        drop(batch);
    })
    .unwrap();
    // As much as may wait.
    for _ in 0..1024 {
        step.run(|| {}).unwrap();
    }
    let inside = step.clone();
    let more = std::thread::spawn(move || inside.run(|| {}).unwrap());
    open.send(()).unwrap();
    step.synchronize().unwrap();
    more.join().unwrap();
    assert_eq!(uploaded.next().unwrap().unwrap().index(), 1);
}

#[test]
fn work_that_panics_when_it_is_dropped_ends_no_stream() {
    watchdog::watch();
    struct Panics;

    impl Drop for Panics {
        fn drop(&mut self) {
            panic!("dropped");
        }
    }

    let device = HostDevice::new();
    let stream = device.stream().unwrap();
    let (open, gate) = mpsc::channel::<()>();
    let (send, ended) = mpsc::channel::<()>();
    stream
        .run(move || {
            gate.recv().unwrap();
            panic!("the first");
        })
        .unwrap();
    let kept = Panics;
    stream.run(move || drop(kept)).unwrap();
    stream.run(move || drop(send)).unwrap();
    open.send(()).unwrap();
    // Dropped, and not run, since the device is broken.
    assert!(ended.recv().is_err());
    assert!(stream.synchronize().unwrap_err().to_string().contains("the first"));
}

#[test]
fn work_that_waits_for_its_own_stream_is_an_error() {
    watchdog::watch();
    let stream = HostDevice::new().stream().unwrap();
    let (send, seen) = mpsc::channel();
    let own = stream.clone();
    stream.run(move || send.send(own.synchronize().map_err(|error| error.kind())).unwrap()).unwrap();
    assert_eq!(seen.recv().unwrap(), Err(ErrorKind::Device));
    stream.synchronize().unwrap();
}
