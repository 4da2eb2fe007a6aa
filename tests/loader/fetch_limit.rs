//! Time limits for reading: whatever it is that hangs, nobody waits for it longer than that.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::sync::Arc;

use crate::common::{Gate, Waves, watchdog};
use crate::numbered::Numbered;
use ringfeed::error::Location;
use ringfeed::read::{Record, RecordReader, RecordStream, RowMut, Sample, Scratch};
use ringfeed::settings::{BadLimits, BadRecords};
use ringfeed::source::{ReaderSource, StreamSource};
use ringfeed::tensor::{Extents, TensorSpec};
use ringfeed::workspace::FetchLimit;
use ringfeed::{AsyncDataSetIterator, DataSet, DataSetIterator, ErrorKind, Result, Workspace};

fn within(replacements: usize) -> Workspace {
    watchdog::watch();
    let limit = FetchLimit { time_ms: 4000, replacements };
    Workspace::builder().workers(2).across_epochs(false).fetch_limit(limit).build().unwrap()
}

/// Waves, some of which nobody can measure until the gate opens.
struct Unmeasurable {
    waves: Waves,
    at: Vec<u64>,
    gate: Arc<Gate>,
}

impl RecordReader for Unmeasurable {
    fn len(&self) -> u64 {
        self.waves.len()
    }

    fn tensors(&self) -> &[TensorSpec] {
        self.waves.tensors()
    }

    fn measure(&self, sample: u64, scratch: &mut Scratch) -> Result<Extents> {
        if self.at.contains(&sample) {
            self.gate.wait();
        }
        self.waves.measure(sample, scratch)
    }

    fn decode(&self, sample: Sample, nth: usize, scratch: &mut Scratch, row: &mut RowMut<'_>) -> Result<()> {
        self.waves.decode(sample, nth, scratch, row)
    }

    fn place(&self, sample: u64) -> Location {
        self.waves.place(sample)
    }
}

fn unmeasurable(at: &[u64]) -> Unmeasurable {
    Unmeasurable { waves: Waves::new(40, 5), at: at.to_vec(), gate: Arc::default() }
}

fn ids(batch: &DataSet) -> Vec<u64> {
    batch.sample_ids().to_vec()
}

#[test]
fn measuring_that_hangs_is_given_up_and_its_sample_goes_by_the_policy() {
    // The first batch is measured before there are workers, others by them.
    let hanging = unmeasurable(&[3, 13]);
    let gate = hanging.gate.clone();
    let source = ReaderSource::new(hanging).batch_size(10).bad_records(BadRecords::Skip(BadLimits::count(2)));
    let mut iterator = AsyncDataSetIterator::new(source, &within(10)).unwrap();
    let seen: Vec<u64> = iterator.by_ref().flat_map(|batch| ids(&batch.unwrap())).collect();
    assert_eq!(seen, (0..40).filter(|sample| ![3, 13].contains(sample)).collect::<Vec<_>>());
    let named = iterator.bad_records();
    assert!(named[0].error.contains("record 3") && named[0].error.contains("longer than the limit"), "{named:?}");
    assert!(iterator.stats().left_behind >= 2);
    gate.open();

    // Without trouble, the same as without a limit.
    let all = |workspace: &Workspace| {
        let source = ReaderSource::new(unmeasurable(&[])).batch_size(7).shuffle(3);
        crate::common::see_all(&mut AsyncDataSetIterator::new(source, workspace).unwrap())
    };
    assert_eq!(all(&within(0)), all(&crate::common::workspace(2, 2)));
}

#[test]
fn too_much_measuring_that_hangs_ends_the_run() {
    let hanging = unmeasurable(&[23, 24]);
    let gate = hanging.gate.clone();
    let source = ReaderSource::new(hanging).batch_size(10).bad_records(BadRecords::Skip(BadLimits::count(40)));
    let mut iterator = AsyncDataSetIterator::new(source, &within(1)).unwrap();
    let error = iterator.find_map(Result::err).unwrap();
    assert!(error.kind() == ErrorKind::TimedOut && error.message().contains("2 reads passed the limit"), "{error}");
    gate.open();
}

/// A stream of 40 numbers, which waits at one of them until the gate opens.
struct Hanging {
    next: u64,
    at: u64,
    gate: Arc<Gate>,
}

impl RecordStream for Hanging {
    fn read(&mut self, record: &mut Record) -> Result<bool> {
        if self.next == self.at {
            self.gate.wait();
        }
        record.index = self.next;
        self.next += 1;
        Ok(record.index < 40)
    }

    fn rewind(&mut self) -> Result<()> {
        self.next = 0;
        Ok(())
    }
}

fn stream(at: u64) -> (StreamSource, Arc<Gate>) {
    let gate = Arc::<Gate>::default();
    (StreamSource::new(Hanging { next: 0, at, gate: gate.clone() }, Numbered::new("x")).batch_size(10), gate)
}

#[test]
fn a_stream_that_hangs_gives_what_it_has_read_and_then_an_error() {
    let (source, gate) = stream(25);
    let mut iterator = AsyncDataSetIterator::new(source, &within(3)).unwrap();
    let (mut seen, mut errors) = (Vec::new(), Vec::new());
    for batch in iterator.by_ref() {
        match batch {
            Ok(batch) => seen.extend_from_slice(batch.tensor("x").unwrap().as_slice::<i64>().unwrap()),
            Err(error) => errors.push(error),
        }
    }
    assert_eq!(seen, (0..25).collect::<Vec<i64>>());
    let [error] = errors.as_slice() else { panic!("{errors:?}") };
    assert!(error.kind() == ErrorKind::TimedOut && error.message().contains("longer than the limit"), "{error}");
    assert_eq!(iterator.stats().left_behind, 1);
    // Nobody can begin again what somebody else is still reading.
    let again = iterator.reset().err().or_else(|| iterator.find_map(Result::err)).unwrap();
    assert!(again.kind() == ErrorKind::TimedOut && again.message().contains("left behind"), "{again}");
    gate.open();

    // The first record is read before there is an iterator.
    let (source, gate) = stream(0);
    assert_eq!(AsyncDataSetIterator::new(source, &within(3)).unwrap_err().kind(), ErrorKind::TimedOut);
    gate.open();

    let numbers = |workspace: &Workspace| {
        let mut iterator = AsyncDataSetIterator::new(stream(u64::MAX).0, workspace).unwrap();
        let first = crate::common::see_all(&mut iterator);
        iterator.reset().unwrap();
        [first, crate::common::see_all(&mut iterator)]
    };
    assert_eq!(numbers(&within(0)), numbers(&crate::common::workspace(2, 2)));
}
