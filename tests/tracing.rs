//! What a subscriber hears at the borders of the stages.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;
#[path = "common/latency.rs"]
mod latency;

use std::ops::Range;
use std::path::Path;
use std::ptr::NonNull;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use common::{Flaky, Trouble, Waves, see_all, workspace, xs};
use latency::latency;
use ringfeed::arrays::{RawOptions, StoredType};
use ringfeed::device::{HostDevice, Upload};
use ringfeed::error::Location;
use ringfeed::memory::{AnonymousPages, Block, MemoryBudget, PageSource};
use ringfeed::read::{RecordReader, RowMut, Sample, Scratch};
use ringfeed::settings::{BadLimits, BadRecords};
use ringfeed::source::ReaderSource;
use ringfeed::storage::{Files, Storage};
use ringfeed::tensor::{Extents, TensorSpec};
use ringfeed::workspace::{shield, wrap};
use ringfeed::{AsyncDataSetIterator, DataSetIterator, Error, ErrorKind, Loader, Result, Workspace};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

/// Said in the trainer's own thread, when a batch goes to it.
const HANDED_OUT: &str = "handed out";

/// Writes the names of spans and the fields of events down, and panics where it is told to: in our threads, or as a
/// batch is handed out.
#[derive(Clone, Default)]
struct Heard {
    lines: Arc<Mutex<Vec<String>>>,
    panics_at: Arc<Mutex<Option<&'static str>>>,
}

impl Heard {
    fn hear(&self, line: String) {
        let is_ours = std::thread::current().name().is_some_and(|name| name.starts_with("ringfeed-"));
        let panics_at = self.panics_at.lock().unwrap().filter(|at| is_ours || *at == HANDED_OUT);
        let panics = panics_at.is_some_and(|at| line.contains(at));
        self.lines.lock().unwrap().push(line);
        assert!(!panics, "a subscriber's own fault");
    }
}

struct Text(String);

impl Visit for Text {
    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        self.0.push_str(&format!("{field}={value:?} "));
    }
}

impl Subscriber for Heard {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target().starts_with("ringfeed")
    }

    fn new_span(&self, span: &Attributes<'_>) -> Id {
        self.hear(format!("span {}", span.metadata().name()));
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut text = Text(format!("{} ", event.metadata().level()));
        event.record(&mut text);
        self.hear(text.0);
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

#[test]
fn stages_are_spans_and_skipped_records_are_warnings() {
    let heard = Heard::default();
    tracing::subscriber::set_global_default(heard.clone()).unwrap();
    let source = ReaderSource::new(Flaky::new(30, &[7], Trouble::FailInDecode))
        .batch_size(10)
        .bad_records(BadRecords::Skip(BadLimits::default()));
    let iterator = AsyncDataSetIterator::new(source, &workspace(1, 1)).unwrap();
    assert_eq!(iterator.map(|batch| batch.unwrap().len()).sum::<usize>(), 29);
    let lines = std::mem::take(&mut *heard.lines.lock().unwrap());
    a_subscriber_that_panics_is_an_error_in_its_place(&heard);
    a_batch_that_a_subscriber_keeps_back_is_not_handed_out(&heard);
    a_request_ahead_that_fails_keeps_nobody_waiting_whoever_listens(&heard);
    an_upload_thread_that_panics_keeps_nobody_waiting_whoever_listens(&heard);
    let heard = lines;
    for span in ["span plan", "span fill"] {
        assert!(heard.iter().any(|line| line == span), "{span} in {heard:?}");
    }
    let warnings: Vec<_> = heard.iter().filter(|line| line.starts_with("WARN")).collect();
    assert_eq!(warnings.len(), 1);
    assert!(warnings[0].contains("record 7 is bad") && warnings[0].contains("position=7"), "{warnings:?}");
    assert_eq!(heard.iter().filter(|line| line.contains(HANDED_OUT)).count(), 3);
}

/// Waves that it takes some time to measure, so that workers do it: from the third batch on, when it is known how long
/// it takes.
struct Measured(Waves);

impl RecordReader for Measured {
    fn len(&self) -> u64 {
        self.0.len()
    }

    fn tensors(&self) -> &[TensorSpec] {
        self.0.tensors()
    }

    fn measure(&self, sample: u64, scratch: &mut Scratch) -> Result<Extents> {
        latency(Duration::from_micros(50));
        self.0.measure(sample, scratch)
    }

    fn decode(&self, sample: Sample, nth: usize, scratch: &mut Scratch, row: &mut RowMut<'_>) -> Result<()> {
        self.0.decode(sample, nth, scratch, row)
    }

    fn place(&self, sample: u64) -> Location {
        self.0.place(sample)
    }
}

/// In the same test, because a subscriber is the whole process's.
fn a_subscriber_that_panics_is_an_error_in_its_place(heard: &Heard) {
    let source = || ReaderSource::new(Measured(Waves::new(100, 20))).batch_size(10);
    let whole = see_all(&mut AsyncDataSetIterator::new(source(), &workspace(2, 2)).unwrap());
    for at in ["span plan", "span fill", "span measure", "has its slot"] {
        let mut iterator = AsyncDataSetIterator::new(source(), &workspace(2, 2)).unwrap();
        assert!(iterator.next().unwrap().is_ok());
        *heard.panics_at.lock().unwrap() = Some(at);
        let mut seen = 1;
        let error = loop {
            match iterator.next().unwrap_or_else(|| panic!("{at} was not met in {seen} batches")) {
                Ok(batch) => {
                    assert_eq!(common::see(&batch), whole[seen]);
                    seen += 1;
                }
                Err(error) => break error,
            }
        };
        *heard.panics_at.lock().unwrap() = None;
        assert_eq!(error.kind(), ErrorKind::Panicked, "{at}: {error}");
        assert!(error.to_string().contains("own fault"), "{at}: {error}");
        assert!(iterator.next().is_none());
        iterator.reset().unwrap();
        let samples: usize = iterator.map(|batch| batch.unwrap().len()).sum();
        assert_eq!(samples, 100, "{at}");
    }
}

/// In the same test for the same reason.
fn a_batch_that_a_subscriber_keeps_back_is_not_handed_out(heard: &Heard) {
    let source = || ReaderSource::new(Flaky::new(30, &[], Trouble::Stall)).batch_size(10);
    for shielded in [false, true] {
        let workspace = workspace(1, 1);
        let mut iterator =
            if shielded { wrap(shield(source()), &workspace) } else { wrap(source(), &workspace) }.unwrap();
        drop(iterator.next().unwrap().unwrap());
        let (state, batches) = (iterator.state(), iterator.stats().batches);
        *heard.panics_at.lock().unwrap() = Some(HANDED_OUT);
        let kept_back = iterator.next().unwrap();
        *heard.panics_at.lock().unwrap() = None;
        assert_eq!(kept_back.unwrap_err().kind(), ErrorKind::Panicked);
        assert_eq!((iterator.state(), iterator.stats().batches), (state, batches));
        iterator.seek(&state).unwrap();
        let rest: Vec<i64> = iterator.by_ref().flat_map(|batch| xs(&batch.unwrap())).collect();
        assert_eq!(rest, (10..30).collect::<Vec<_>>());
    }
}

/// Bytes that can't be had before they are needed.
struct Late;

impl Late {
    const BYTES: u64 = 4000;
}

impl Storage for Late {
    fn file_len(&self, _: &Path) -> Result<u64> {
        Ok(Self::BYTES)
    }

    fn read(&self, _: &Path, range: Range<u64>, into: &mut Vec<u8>) -> Result<u64> {
        if std::thread::current().name().is_some_and(|name| name.starts_with("ringfeed-ahead")) {
            return Err(Error::new(ErrorKind::Io, "not yet"));
        }
        into.clear();
        into.extend((range.start..range.end.min(Self::BYTES)).map(|at| at as u8));
        Ok(Self::BYTES)
    }
}

/// In the same test for the same reason.
fn a_request_ahead_that_fails_keeps_nobody_waiting_whoever_listens(heard: &Heard) {
    const FAILED: &str = "a request ahead failed";
    common::watchdog::watch();
    *heard.panics_at.lock().unwrap() = Some(FAILED);
    let files = Files::of(Arc::new(Late), &MemoryBudget::unlimited());
    let loader = Loader::raw("bytes.raw", RawOptions::features(StoredType::U8, &[10])).files(files);
    let mut batches = loader.batch_size(20).workers(2).build().unwrap();
    let read: Vec<u8> =
        batches.by_ref().flat_map(|batch| batch.unwrap().features().unwrap().bytes().to_vec()).collect();
    *heard.panics_at.lock().unwrap() = None;
    assert_eq!(read, (0..Late::BYTES).map(|at| at as u8).collect::<Vec<_>>());
    assert!(heard.lines.lock().unwrap().iter().any(|line| line.contains(FAILED)));
}

/// Pages that can't be freed without a panic.
#[derive(Debug)]
struct Explosive;

impl PageSource for Explosive {
    fn allocate(&self, bytes: usize) -> Result<Block> {
        struct Bomb(Block);
        impl Drop for Bomb {
            fn drop(&mut self) {
                panic!("{} bytes are freed", self.0.len());
            }
        }
        let mut block = AnonymousPages.allocate(bytes)?;
        let (start, len) = (NonNull::from(block.as_mut_slice()).cast(), block.len());
        // SAFETY: the bytes are a block's, initialised and aligned as those of any, and reached by nobody else until it
        // drops.
        Ok(unsafe { Block::from_raw_parts(start, len, Box::new(Bomb(block))) })
    }
}

/// In the same test for the same reason.
fn an_upload_thread_that_panics_keeps_nobody_waiting_whoever_listens(heard: &Heard) {
    let source = || ReaderSource::new(Flaky::new(30, &[], Trouble::Stall)).batch_size(10);
    let explosive = Workspace::builder().workers(1).pages(Explosive).build().unwrap();
    let mut batches = wrap(shield(source()), &explosive).unwrap();
    let last = batches.next().unwrap().unwrap();
    drop((batches, explosive));
    let mut uploader = Upload::to(HostDevice::new()).uploader(last.schema()).unwrap();
    *heard.panics_at.lock().unwrap() = Some("the upload thread panicked");
    // Its memory is freed by the upload thread, when its copy has landed: at last when so many others were begun.
    drop(uploader.upload(last).unwrap());
    let others = wrap(shield(source()), &workspace(1, 1)).unwrap();
    let error = others.map(|batch| uploader.upload(batch.unwrap())).find_map(Result::err);
    *heard.panics_at.lock().unwrap() = None;
    assert_eq!(error.unwrap().kind(), ErrorKind::Device);
}
