//! Readers whose samples have lengths of their own, composed; and streams that know how many records they have.

use ringfeed::error::Location;
use ringfeed::order::LastBatch;
use ringfeed::read::{
    Fingerprint, MemoryReader, Record, RecordDecoder, RecordReader, RecordStream, RowMut, Sample, Scratch,
};
use ringfeed::settings::{BadLimits, BadRecords};
use ringfeed::source::{ReaderSource, StreamSource, Transformed};
use ringfeed::tensor::{Dim, Extents, Role, TensorSpec};
use ringfeed::transform::Transforms;
use ringfeed::{
    AsyncDataSetIterator, AsyncShieldDataSetIterator, DType, DataSetIterator, Error, ErrorKind, Result, Workspace,
};

use crate::common::{see_all, workspace};
use crate::numbered::Numbered;

/// Record `i` is `factor * i + 1` numbers, all of them `i`; or with a factor of 0 a single number without a dimension.
struct Varying {
    factor: u32,
    tensors: [TensorSpec; 1],
}

impl Varying {
    fn new(name: &str, factor: u32) -> Self {
        crate::common::watchdog::watch();
        let dims = if factor == 0 { vec![] } else { vec![Dim::Extent(0)] };
        Self { factor, tensors: [TensorSpec::with_dims(name, Role::Feature, DType::I64, dims)] }
    }
}

impl RecordReader for Varying {
    fn len(&self) -> u64 {
        5
    }

    fn tensors(&self) -> &[TensorSpec] {
        &self.tensors
    }

    fn measure(&self, sample: u64, _: &mut Scratch) -> Result<Extents> {
        Ok(Extents::of_length(self.factor * sample as u32 + 1))
    }

    fn decode(&self, sample: Sample, _: usize, _: &mut Scratch, row: &mut RowMut<'_>) -> Result<()> {
        let len = (u64::from(self.factor) * sample.id + 1) as usize;
        let mut tensor = row.tensor(0);
        let numbers = tensor.as_mut_slice::<i64>()?;
        numbers[..len].fill(sample.id as i64);
        numbers[len..].fill(-1);
        Ok(())
    }

    fn place(&self, sample: u64) -> Location {
        Location { record: Some(sample), ..Location::default() }
    }
}

#[test]
fn each_reader_keeps_the_lengths_of_its_own_samples() -> Result<()> {
    let source = ReaderSource::new(Varying::new("one", 1))
        .and(Varying::new("none", 0))
        .and(Varying::new("two", 2))
        .and(Varying::new("three", 3))
        .batch_size(5);
    let workspace = Workspace::builder().workers(2).build()?;
    let batch = AsyncDataSetIterator::new(source, &workspace)?.next().unwrap()?;
    for (name, factor) in [("one", 1), ("two", 2), ("three", 3)] {
        let tensor = batch.tensor(name)?;
        let longest = 4 * factor + 1;
        assert_eq!(tensor.shape(), [5, longest], "{name}");
        let expected = (0..5).flat_map(|id| {
            let len = factor * id + 1;
            (0..longest).map(move |at| if at < len { id as i64 } else { -1 })
        });
        assert_eq!(tensor.as_slice::<i64>()?, expected.collect::<Vec<_>>());
    }
    assert_eq!(batch.tensor("none")?.as_slice::<i64>()?, [0, 1, 2, 3, 4]);
    Ok(())
}

/// Ten records, which are their numbers.
struct Ten(u64);

impl RecordStream for Ten {
    fn read(&mut self, record: &mut Record) -> Result<bool> {
        record.index = self.0;
        self.0 += 1;
        Ok(record.index < 10)
    }

    fn rewind(&mut self) -> Result<()> {
        self.0 = 0;
        Ok(())
    }

    fn known_len(&self) -> Option<u64> {
        Some(10)
    }

    fn fingerprint(&self) -> Fingerprint {
        Fingerprint { count: Some(10), names: 0, sizes: 0 }
    }
}

#[test]
fn a_stream_that_knows_its_length_tells_its_batches() -> Result<()> {
    crate::common::watchdog::watch();
    for (last_batch, batches, samples) in [(LastBatch::Keep, 3, 10), (LastBatch::Drop, 2, 8)] {
        let source = StreamSource::new(Ten(0), Numbered::new("number")).batch_size(4).last_batch(last_batch);
        let workspace = Workspace::builder().workers(1).build()?;
        let mut iterator = AsyncDataSetIterator::new(source, &workspace)?;
        assert_eq!(iterator.batches_per_epoch(), Some(batches));
        for _ in 0..2 {
            let mut seen: Vec<i64> = Vec::new();
            for batch in iterator.epoch()? {
                seen.extend(batch?.tensor("number")?.as_slice::<i64>()?);
            }
            assert_eq!(seen, (0..samples).collect::<Vec<_>>());
        }
    }
    Ok(())
}

/// The same without saying how many they are.
struct Uncounted(Ten);

impl RecordStream for Uncounted {
    fn read(&mut self, record: &mut Record) -> Result<bool> {
        self.0.read(record)
    }

    fn rewind(&mut self) -> Result<()> {
        self.0.rewind()
    }

    fn fingerprint(&self) -> Fingerprint {
        Fingerprint { count: None, names: 0, sizes: 0 }
    }
}

/// As [`Numbered`], but the last three are bad.
struct Seven(Numbered);

impl RecordDecoder for Seven {
    fn tensors(&self) -> &[TensorSpec] {
        self.0.tensors()
    }

    fn decode(&self, sample: Sample, record: &Record, scratch: &mut Scratch, row: &mut RowMut<'_>) -> Result<()> {
        if record.index >= 7 {
            return Err(Error::new(ErrorKind::Data, "no number"));
        }
        self.0.decode(sample, record, scratch, row)
    }

    fn place(&self, record: &Record) -> Location {
        self.0.place(record)
    }
}

#[test]
fn a_share_of_bad_records_is_checked_at_the_end_of_a_short_stream() -> Result<()> {
    crate::common::watchdog::watch();
    for (share, expected) in [(0.35, vec![]), (0.25, vec![ErrorKind::TooManyBad])] {
        let seven = Seven(Numbered::new("number"));
        let policy = BadRecords::Skip(BadLimits::share(share));
        let source = StreamSource::new(Uncounted(Ten(0)), seven).batch_size(4).bad_records(policy);
        let workspace = Workspace::builder().workers(1).build()?;
        let (mut samples, mut errors) = (0, Vec::new());
        for batch in AsyncDataSetIterator::new(source, &workspace)? {
            match batch {
                Ok(batch) => samples += batch.len(),
                Err(error) => errors.push(error.kind()),
            }
        }
        assert_eq!((samples, errors), (7, expected));
    }
    Ok(())
}

/// Numbers, and what interrupts the first time that sample 13 is transformed.
#[expect(clippy::unwrap_used, reason = "helpers of tests fail where they unwrap")]
fn interrupted_once(policy: BadRecords) -> Transformed<ReaderSource> {
    let numbers = MemoryReader::new("x", Role::Label, &[], (0..30i64).collect::<Vec<_>>()).unwrap();
    let is_first = std::sync::atomic::AtomicBool::new(true);
    let list = Transforms::new().change("x", move |row, _, _| {
        if row.id() == 13 && is_first.swap(false, std::sync::atomic::Ordering::SeqCst) {
            return Err(Error::new(ErrorKind::Interrupted, "a key was pressed"));
        }
        assert!(row.id() != 15, "this one is bad");
        Ok(())
    });
    Transformed::new(ReaderSource::new(numbers).batch_size(10).bad_records(policy), list)
}

#[test]
fn what_is_interrupted_is_no_bad_record_and_behind_a_shield_made_again() {
    for policy in [BadRecords::Skip(BadLimits::count(1)), BadRecords::Replace(BadLimits::count(1))] {
        let mut shielded = AsyncShieldDataSetIterator::new(interrupted_once(policy), &workspace(1, 0)).unwrap();
        let mut batches = AsyncDataSetIterator::new(interrupted_once(policy), &workspace(2, 1)).unwrap();
        let all: [&mut dyn DataSetIterator; 2] = [&mut shielded, &mut batches];
        for batches in all {
            drop(batches.next().unwrap().unwrap());
            let error = batches.next().unwrap().unwrap_err();
            assert_eq!((error.kind(), error.location().record), (ErrorKind::Interrupted, Some(13)), "{error}");
            assert!(batches.bad_records().is_empty() && batches.state().position == 10, "{policy:?}");
        }
        let rest: Vec<u64> = see_all(&mut shielded).into_iter().flat_map(|batch| batch.positions).collect();
        let is_skipped = matches!(policy, BadRecords::Skip(_));
        let expected: Vec<u64> = (10..30).filter(|position| !is_skipped || *position != 15).collect();
        assert_eq!(rest, expected);
        assert_eq!(shielded.bad_records().iter().map(|bad| bad.sample).collect::<Vec<_>>(), [15]);
        assert!(batches.next().is_none());
    }
}

/// What interrupts the first time that record 2 is measured, or read.
struct Interrupting {
    varying: Varying,
    in_measure: bool,
    is_first: std::sync::atomic::AtomicBool,
}

impl Interrupting {
    fn new(in_measure: bool) -> Self {
        Self { varying: Varying::new("x", 3), in_measure, is_first: true.into() }
    }

    fn key_pressed(&self, sample: u64, in_measure: bool) -> Result<()> {
        let is_now = sample == 2 && in_measure == self.in_measure;
        match is_now && self.is_first.swap(false, std::sync::atomic::Ordering::SeqCst) {
            true => Err(Error::new(ErrorKind::Interrupted, "a key was pressed")),
            false => Ok(()),
        }
    }
}

impl RecordReader for Interrupting {
    fn len(&self) -> u64 {
        self.varying.len()
    }

    fn tensors(&self) -> &[TensorSpec] {
        self.varying.tensors()
    }

    fn measure(&self, sample: u64, scratch: &mut Scratch) -> Result<Extents> {
        self.key_pressed(sample, true)?;
        self.varying.measure(sample, scratch)
    }

    fn fetch(&self, samples: &[u64], nth: usize, _: &mut Scratch) -> Result<()> {
        self.key_pressed(samples[nth], false)
    }

    fn decode(&self, sample: Sample, nth: usize, scratch: &mut Scratch, row: &mut RowMut<'_>) -> Result<()> {
        self.varying.decode(sample, nth, scratch, row)
    }

    fn place(&self, sample: u64) -> Location {
        self.varying.place(sample)
    }
}

#[test]
fn an_interruption_while_lengths_are_measured_or_records_read_makes_no_record_bad() {
    for in_measure in [true, false] {
        let source = || {
            let policy = BadRecords::Skip(BadLimits::count(4));
            ReaderSource::new(Interrupting::new(in_measure)).batch_size(5).bad_records(policy)
        };
        let shapes = |batches: &mut dyn DataSetIterator| -> Vec<Vec<usize>> {
            batches.map(|batch| batch.unwrap().features().unwrap().shape().to_vec()).collect()
        };
        let mut shielded = AsyncShieldDataSetIterator::new(source(), &workspace(1, 0)).unwrap();
        // Another epoch's record 2 may be read first, if the worker of this epoch's has no core meanwhile.
        let one_epoch = Workspace::builder().workers(2).across_epochs(false).build().unwrap();
        let mut batches = AsyncDataSetIterator::new(source(), &one_epoch).unwrap();
        let all: [&mut dyn DataSetIterator; 2] = [&mut shielded, &mut batches];
        for batches in all {
            let error = batches.next().unwrap().unwrap_err();
            assert_eq!((error.kind(), error.location().record), (ErrorKind::Interrupted, Some(2)), "{error}");
            assert!(batches.bad_records().is_empty(), "{:?}", batches.bad_records());
        }
        assert_eq!(shapes(&mut shielded), [[5, 13]], "record 4 has 13 numbers");
        assert!(shielded.bad_records().is_empty());

        let report = ringfeed::inspect::verify_source(source(), 1, |_| {}).unwrap();
        assert_eq!((report.samples, report.bad_samples), (0, 0), "{:?}", report.bad);
        assert_eq!(report.ended_by.map(|error| error.kind()), Some(ErrorKind::Interrupted));
    }
}
