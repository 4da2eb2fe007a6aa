//! What programs may get wrong with a device, and users' own code may do there: errors, never undefined behaviour or a
//! wait without end.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "common/given.rs"]
mod given;
#[path = "common/until.rs"]
mod until;
#[path = "common/watchdog.rs"]
mod watchdog;

use std::ptr::NonNull;
use std::sync::{Arc, Mutex, mpsc};

use given::Given;
use ringfeed::device::{Device, HostDevice, Upload, convert_rate, copy_rate};
use ringfeed::error::Location;
use ringfeed::inspect::BadRecord;
use ringfeed::memory::{AnonymousPages, Block, PageSource};
use ringfeed::order::State;
use ringfeed::read::{RecordReader, RowMut, Sample, Scratch};
use ringfeed::source::ReaderSource;
use ringfeed::stats::{Stats, StatsHandle};
use ringfeed::tensor::{Masked, Role, Schema, TensorSpec};
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
    let device = HostDevice::new();
    let mut uploader = Upload::to(device.clone()).uploader(batches(&planned).schema()).unwrap();
    let stream = device.stream().unwrap();
    for other in others {
        let batch = batches(&given(other)).next().unwrap().unwrap();
        let error = uploader.upload(batch).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Schema, "{error}");
        let uploaded = uploader.upload(batches(&planned).next().unwrap().unwrap()).unwrap();
        assert_eq!(uploaded.on(&stream).unwrap().tensor("x").unwrap().to_host().unwrap(), [1; 80]);
    }
}

#[test]
fn a_batch_with_other_names_or_another_mask_is_refused() {
    let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<String>>();
    let of = |change: &dyn Fn(&mut TensorSpec)| {
        let mut given = given(&[("x", DType::I64, &[2]), ("columns", DType::I64, &[2])]);
        change(&mut given.tensors[0]);
        given
    };
    let categories = |lists: &[&[&str]]| {
        let lists: Vec<_> = lists.iter().map(|list| names(list)).collect();
        of(&move |x| x.categories = Some(lists.clone().into()))
    };
    let classes = |list: &[&str]| of(&|x| x.classes = Some(names(list).into()));
    let masked = |masked: Masked| of(&|x| x.masked = masked.clone());
    let of_two = || categories(&[&["a", "b"], &["c"]]);
    for (planned, other, part) in [
        (of_two(), categories(&[&["a", "b"], &["d"]]), "but with other names of categories"),
        (of_two(), categories(&[&["a"], &["c"]]), "of 1, 1 categories) in place of"),
        (of_two(), of(&|_| {}), "i64 [Fixed(2)]) in place of"),
        (classes(&["a", "b"]), classes(&["b", "a"]), "but with other names of classes"),
        (classes(&["a", "b"]), classes(&["a"]), "of 1 classes) in place of"),
        (masked(Masked::Never), masked(Masked::Unknown), "but with another mask"),
    ] {
        let mut uploader = Upload::to(HostDevice::new()).uploader(batches(&planned).schema()).unwrap();
        let error = uploader.upload(batches(&other).next().unwrap().unwrap()).unwrap_err();
        assert_eq!((error.kind(), error.location().column.as_deref()), (ErrorKind::Schema, Some("x")), "{error}");
        assert!(error.to_string().contains(part), "{error}");
        uploader.upload(batches(&planned).next().unwrap().unwrap()).unwrap();
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

/// A part of a user's code that needs the figures, which another thread reads meanwhile.
#[derive(Clone, Debug, Default)]
struct Ask(Arc<Mutex<Asked>>);

#[derive(Default)]
struct Asked {
    handle: Option<StatsHandle>,
    allocated: usize,
    /// The names of what asked.
    by: Vec<&'static str>,
}

impl std::fmt::Debug for Asked {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Asked({:?})", self.by)
    }
}

impl Ask {
    fn ask(&self, name: &'static str) {
        let handle = self.0.lock().unwrap().handle.clone();
        if let Some(handle) = handle {
            std::thread::spawn(move || handle.stats()).join().unwrap();
        }
        self.0.lock().unwrap().by.push(name);
    }

    fn by(&self) -> Vec<&'static str> {
        std::mem::take(&mut self.0.lock().unwrap().by)
    }
}

/// Asks when it is dropped.
struct Dropped(Ask);

impl Drop for Dropped {
    fn drop(&mut self) {
        self.0.ask("drop");
    }
}

impl PageSource for Ask {
    fn allocate(&self, bytes: usize) -> Result<Block> {
        self.ask("allocate");
        self.0.lock().unwrap().allocated += 1;
        let mut block = AnonymousPages.allocate(bytes)?;
        let (start, len) = (NonNull::from(&mut *block.as_mut_slice()).cast(), block.len());
        // SAFETY: the block's own memory, which stays where it is when the block moves, and is freed with the owner.
        Ok(unsafe { Block::from_raw_parts(start, len, Box::new((block, Dropped(self.clone())))) })
    }
}

#[test]
fn memory_is_made_and_freed_while_any_thread_can_read_the_figures() {
    let ask = Ask::default();
    // Batches of the next epoch would take the slots that are to be freed.
    let workspace =
        Workspace::builder().workers(2).prefetch(2).across_epochs(false).pages(ask.clone()).build().unwrap();
    let source = ReaderSource::new(given(&[("x", DType::I64, &[1000])])).batch_size(2);
    let inside = AsyncDataSetIterator::new(source, &workspace).unwrap();
    let mut uploaded = Upload::to(HostDevice::new()).start(inside).unwrap();
    ask.0.lock().unwrap().handle = Some(uploaded.stats_handle());
    for epoch in 0..3 {
        assert_eq!(uploaded.epoch().unwrap().map(Result::unwrap).count(), 2, "epoch {epoch}");
        ask.by();
        // Slots come home when their copies are done.
        until::until("a free slot is freed", || {
            workspace.shrink_to(0);
            ask.by().contains(&"drop")
        });
    }
    let held = uploaded.epoch().unwrap().next().unwrap().unwrap();
    ask.by();
    drop(workspace);
    drop(uploaded);
    drop(held);
    until::until("all is freed", || Arc::strong_count(&ask.0) == 1);
    assert!(ask.by().contains(&"drop"));
}

/// An iterator of a user, whose every part asks.
struct Asking {
    inside: AsyncDataSetIterator,
    ask: Ask,
    _dropped: Dropped,
}

impl Iterator for Asking {
    type Item = Result<DataSet>;

    fn next(&mut self) -> Option<Self::Item> {
        self.ask.ask("next");
        self.inside.next()
    }
}

impl DataSetIterator for Asking {
    fn begin_epoch(&mut self) -> Result<()> {
        self.inside.begin_epoch()
    }

    fn reset(&mut self) -> Result<()> {
        self.ask.ask("reset");
        self.inside.reset()
    }

    fn seek(&mut self, state: &State) -> Result<()> {
        self.ask.ask("seek");
        self.inside.seek(state)
    }

    fn schema(&self) -> &Arc<Schema> {
        self.inside.schema()
    }

    fn state(&self) -> State {
        self.ask.ask("state");
        self.inside.state()
    }

    fn batches_per_epoch(&self) -> Option<u64> {
        self.inside.batches_per_epoch()
    }

    fn stats(&self) -> Stats {
        self.ask.ask("stats");
        self.inside.stats()
    }

    fn bad_records(&self) -> Vec<BadRecord> {
        self.ask.ask("bad_records");
        self.inside.bad_records()
    }
}

#[test]
fn a_users_iterator_runs_while_any_thread_can_read_the_figures() {
    let ask = Ask::default();
    let inside = batches(&given(&[("x", DType::I64, &[])]));
    let inside = Asking { inside, ask: ask.clone(), _dropped: Dropped(ask.clone()) };
    let mut uploaded = Upload::to(HostDevice::new()).start(inside).unwrap();
    ask.0.lock().unwrap().handle = Some(uploaded.stats_handle());
    let state = uploaded.state();
    assert_eq!(uploaded.by_ref().map(Result::unwrap).count(), 2);
    uploaded.reset().unwrap();
    uploaded.seek(&state).unwrap();
    assert_eq!(uploaded.by_ref().map(Result::unwrap).count(), 2);
    assert_eq!(uploaded.stats().batches, uploaded.report().stats.batches);
    let mut by = ask.by();
    drop(uploaded);
    until::until("the iterator inside is dropped", || Arc::strong_count(&ask.0) == 1);
    by.extend(ask.by());
    by.sort_unstable();
    by.dedup();
    assert_eq!(by, ["bad_records", "drop", "next", "reset", "seek", "state", "stats"]);
}
