//! Bad records, panics and stalls: every error arrives in its place, every wait ends.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use std::time::Duration;

use common::{Flaky, Trouble, Waves, workspace, xs};
use ringfeed::arrays::{IdxOptions, IdxReader, RawOptions, RawReader, StoredType};
use ringfeed::csv::{CsvOptions, CsvReader, Header};
use ringfeed::error::Location;
use ringfeed::field::Numbers;
use ringfeed::order::LastBatch;
use ringfeed::read::{Concat, RecordReader, RowMut, Sample, SampleStream, SampleTensor, Scratch};
use ringfeed::settings::{BadLimits, BadRecords};
use ringfeed::source::{ReaderSource, StreamSource};
use ringfeed::storage::Access;
use ringfeed::tensor::{Extents, Role, TensorSpec};
use ringfeed::workspace::{shield, wrap};
use ringfeed::{AsyncDataSetIterator, DType, DataSetIterator, Error, ErrorKind, Result, Workspace};

const TROUBLES: [Trouble; 4] =
    [Trouble::FailInFetch, Trouble::FailInDecode, Trouble::PanicInFetch, Trouble::PanicInDecode];

fn both(make: impl Fn() -> ReaderSource) -> [Box<dyn DataSetIterator>; 2] {
    [wrap(make(), &workspace(2, 2)).unwrap(), wrap(shield(make()), &workspace(2, 2)).unwrap()]
}

#[test]
fn an_error_arrives_after_all_good_batches_before_it_and_then_nothing_until_reset() {
    for trouble in TROUBLES {
        for mut iterator in both(|| ReaderSource::new(Flaky::new(100, &[57, 59], trouble)).batch_size(10)) {
            for expected in 0..5 {
                assert_eq!(xs(&iterator.next().unwrap().unwrap())[0], 10 * expected);
            }
            let error = iterator.next().unwrap().unwrap_err();
            assert_eq!(error.location().record, Some(57), "{error}");
            assert_eq!(error.path().unwrap().to_str(), Some("flaky"));
            let panics = matches!(trouble, Trouble::PanicInFetch | Trouble::PanicInDecode);
            assert_eq!(error.kind(), if panics { ErrorKind::Panicked } else { ErrorKind::Data });
            assert!(iterator.next().is_none());
            assert_eq!(iterator.next().unwrap().unwrap_err().kind(), ErrorKind::Ended);
            assert!(iterator.next().is_none());
            iterator.reset().unwrap();
            assert_eq!(iterator.by_ref().take_while(|batch| batch.is_ok()).count(), 5);
        }
    }
}

#[test]
fn skipped_records_leave_shorter_batches_and_no_later_batch_changes() {
    for trouble in TROUBLES {
        let bad = [0, 3, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 99];
        let policy = BadRecords::Skip(BadLimits::count(14));
        let make = || ReaderSource::new(Flaky::new(100, &bad, trouble)).batch_size(10).bad_records(policy);
        for mut iterator in both(make) {
            let batches: Vec<_> = iterator.by_ref().map(|batch| batch.unwrap().detach().unwrap()).collect();
            let expected: Vec<Vec<i64>> = (0..10)
                .map(|batch| (10 * batch..10 * batch + 10).filter(|x| !bad.contains(&(*x as u64))).collect())
                .collect();
            assert_eq!(batches.iter().map(xs).collect::<Vec<_>>(), expected);
            assert_eq!(
                batches.iter().map(|batch| batch.bad_records()).sum::<usize>(),
                14,
                "a detached copy counts them"
            );
            for batch in &batches {
                let ids: Vec<i64> = batch.sample_ids().iter().map(|id| *id as i64).collect();
                assert_eq!(ids, xs(batch));
                assert_eq!(batch.positions(), batch.sample_ids());
            }
            assert_eq!(iterator.stats().skipped, 14);
            let named = iterator.bad_records();
            assert_eq!(named.iter().map(|record| record.position).collect::<Vec<_>>(), bad);
            assert!(named[0].error.contains("flaky: record 0"), "{}", named[0].error);
            assert_eq!(iterator.state().position, 100);
            iterator.reset().unwrap();
            assert_eq!(iterator.map(|batch| batch.unwrap().len()).sum::<usize>(), 86);
        }
    }
}

#[test]
fn too_many_bad_records_are_an_error_that_lists_them() {
    let limits = [(Some(2), None), (None, Some(0.025)), (Some(50), Some(0.025))];
    for (count, share) in limits {
        let policy = BadRecords::Skip(BadLimits { count, share, consecutive: None });
        let make = || {
            ReaderSource::new(Flaky::new(100, &[5, 15, 25, 35], Trouble::FailInDecode))
                .batch_size(10)
                .bad_records(policy)
        };
        for mut iterator in both(make) {
            assert_eq!(iterator.by_ref().take(2).filter(|batch| batch.is_ok()).count(), 2);
            let error = iterator.next().unwrap().unwrap_err();
            assert_eq!(error.kind(), ErrorKind::TooManyBad);
            assert!(error.to_string().contains("record 5 is bad"), "{error}");
            assert!(error.to_string().contains("record 25 is bad"), "{error}");
            assert!(iterator.next().is_none());
        }
    }
}

#[test]
fn padding_counts_only_rows_that_are_left() {
    let policy = BadRecords::Skip(BadLimits::default());
    let make = || {
        ReaderSource::new(Flaky::new(5, &[0], Trouble::FailInDecode))
            .batch_size(4)
            .last_batch(LastBatch::Pad)
            .bad_records(policy)
    };
    for iterator in both(make) {
        let batches: Vec<_> = iterator.map(|batch| batch.unwrap().detach().unwrap()).collect();
        assert_eq!(batches.iter().map(xs).collect::<Vec<_>>(), [vec![1, 2, 3], vec![4, 1, 2]]);
        assert_eq!(batches[1].padding(), 2);
    }
}

#[test]
fn a_stalled_record_holds_up_its_own_batch_and_others_go_on_being_filled() {
    let flaky = Flaky::new(100, &[5], Trouble::Stall);
    let gate = flaky.gate.clone();
    let mut iterator = AsyncDataSetIterator::new(ReaderSource::new(flaky).batch_size(10), &workspace(2, 3)).unwrap();
    while iterator.stats().stages[2].samples < 30 {
        std::thread::yield_now();
    }
    gate.open();
    assert_eq!(
        iterator.by_ref().map(|batch| xs(&batch.unwrap())).collect::<Vec<_>>().concat(),
        (0..100).collect::<Vec<_>>()
    );
}

fn numbers() -> [TensorSpec; 1] {
    [TensorSpec::new("x", Role::Feature, DType::I64, &[])]
}

fn faulty(at: i64, kind: ErrorKind) -> impl Iterator<Item = ringfeed::Result<Vec<SampleTensor>>> + Send {
    (0..20).map(move |i| if i == at { Err(Error::new(kind, "no sample")) } else { Ok(vec![SampleTensor::from(i)]) })
}

#[test]
fn a_streams_bad_record_is_skipped_or_fails_by_policy() {
    let make = |policy| {
        let stream = SampleStream::repeatable(&numbers(), || faulty(7, ErrorKind::Data)).unwrap();
        StreamSource::from_samples(stream).batch_size(5).bad_records(policy)
    };
    for shielded in [false, true] {
        let wrap =
            |source| if shielded { wrap(shield(source), &workspace(2, 2)) } else { wrap(source, &workspace(2, 2)) };
        let mut iterator = wrap(make(BadRecords::Fail)).unwrap();
        assert_eq!(xs(&iterator.next().unwrap().unwrap()), [0, 1, 2, 3, 4]);
        let error = iterator.next().unwrap().unwrap_err();
        assert_eq!((error.kind(), error.location().record), (ErrorKind::Data, Some(7)));
        assert!(iterator.next().is_none());
        let mut iterator = wrap(make(BadRecords::Skip(BadLimits::count(1)))).unwrap();
        for _ in 0..2 {
            let all: Vec<i64> = iterator.by_ref().flat_map(|batch| xs(&batch.unwrap())).collect();
            assert_eq!(all, (0..20).filter(|x| *x != 7).collect::<Vec<_>>());
            iterator.reset().unwrap();
        }
    }
}

#[test]
fn a_broken_stream_delivers_what_was_read_before_its_error() {
    let stream = SampleStream::repeatable(&numbers(), || faulty(7, ErrorKind::Io)).unwrap();
    let mut iterator =
        AsyncDataSetIterator::new(StreamSource::from_samples(stream).batch_size(5), &workspace(1, 1)).unwrap();
    assert_eq!(xs(&iterator.next().unwrap().unwrap()), [0, 1, 2, 3, 4]);
    assert_eq!(xs(&iterator.next().unwrap().unwrap()), [5, 6]);
    assert_eq!(iterator.next().unwrap().unwrap_err().kind(), ErrorKind::Io);
    assert!(iterator.next().is_none());
}

#[test]
fn a_panic_in_a_users_iterator_is_an_error_in_its_place() {
    let samples = || (0..20i64).map(|i| if i == 12 { panic!("sample {i}") } else { Ok(vec![SampleTensor::from(i)]) });
    for shielded in [false, true] {
        let stream = SampleStream::repeatable(&numbers(), samples).unwrap();
        let source = StreamSource::from_samples(stream).batch_size(5);
        let workspace = workspace(1, 1);
        let mut iterator = if shielded { wrap(shield(source), &workspace) } else { wrap(source, &workspace) }.unwrap();
        let good: Vec<i64> = iterator.by_ref().take(3).flat_map(|batch| xs(&batch.unwrap())).collect();
        assert_eq!(good, (0..12).collect::<Vec<_>>());
        let error = iterator.next().unwrap().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Panicked);
        assert!(error.to_string().contains("sample 12"), "{error}");
        assert!(iterator.next().is_none());
    }
}

#[test]
fn an_iterator_without_a_factory_serves_one_epoch_and_says_so() {
    for shielded in [false, true] {
        let stream = SampleStream::once(&numbers(), faulty(-1, ErrorKind::Io)).unwrap();
        let source = StreamSource::from_samples(stream).batch_size(8);
        let workspace = workspace(1, 1);
        let mut iterator = if shielded { wrap(shield(source), &workspace) } else { wrap(source, &workspace) }.unwrap();
        assert_eq!(iterator.by_ref().map(|batch| batch.unwrap().len()).collect::<Vec<_>>(), [8, 8, 4]);
        let error = iterator.reset().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported);
        assert!(error.to_string().contains("factory"), "{error}");
        assert_eq!(iterator.next().unwrap().unwrap_err().kind(), ErrorKind::Ended);
    }
}

#[test]
fn arrays_of_another_shape_or_type_are_bad_records() {
    let wrong: [Vec<SampleTensor>; 4] = [
        vec![],
        vec![SampleTensor::from(1.0f32)],
        vec![SampleTensor::from(vec![1i64])],
        vec![SampleTensor::from(1i64), SampleTensor::from(1i64)],
    ];
    for arrays in wrong {
        let stream = SampleStream::once(&numbers(), [Ok(arrays)]).unwrap();
        let mut iterator = AsyncDataSetIterator::new(StreamSource::from_samples(stream), &workspace(1, 1)).unwrap();
        let error = iterator.next().unwrap().unwrap_err();
        assert_eq!((error.kind(), error.location().record), (ErrorKind::Data, Some(0)), "{error}");
        assert!(error.to_string().contains("expected"), "{error}");
    }
}

#[test]
fn a_source_without_samples_ends_at_once() {
    let mut iterator =
        AsyncDataSetIterator::new(ReaderSource::new(Flaky::new(0, &[], Trouble::Stall)), &workspace(2, 2)).unwrap();
    for _ in 0..3 {
        assert!(iterator.next().is_none());
        iterator.reset().unwrap();
    }
}

#[test]
fn dropping_or_resetting_with_a_stuck_reader_ends_in_bounded_time() {
    let flaky = Flaky::new(100, &[15], Trouble::Stall);
    let gate = flaky.gate.clone();
    let workspace =
        ringfeed::Workspace::builder().workers(1).prefetch(2).close_wait(Duration::from_millis(20)).build().unwrap();
    let mut iterator = AsyncDataSetIterator::new(ReaderSource::new(flaky).batch_size(10), &workspace).unwrap();
    let held = iterator.next().unwrap().unwrap();
    gate.until_reached();
    let error = iterator.reset().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::TimedOut);
    assert!(error.to_string().contains("stuck"), "{error}");
    drop(iterator);
    drop(workspace);
    assert_eq!(xs(&held), (0..10).collect::<Vec<_>>());
    gate.open();
}

#[test]
fn a_reset_that_timed_out_can_be_tried_again() {
    let flaky = Flaky::new(100, &[15], Trouble::Stall);
    let gate = flaky.gate.clone();
    let workspace = ringfeed::Workspace::builder().workers(2).close_wait(Duration::from_millis(20)).build().unwrap();
    let mut iterator = AsyncDataSetIterator::new(ReaderSource::new(flaky).batch_size(10), &workspace).unwrap();
    drop(iterator.next().unwrap().unwrap());
    gate.until_reached();
    assert_eq!(iterator.reset().unwrap_err().kind(), ErrorKind::TimedOut);
    gate.open();
    while iterator.reset().is_err() {}
    assert_eq!(iterator.map(|batch| batch.unwrap().len()).sum::<usize>(), 100);
}

/// Waves of which every third can't be measured, and every fifth not be fetched.
struct Unmeasured(Waves);

impl RecordReader for Unmeasured {
    fn len(&self) -> u64 {
        self.0.len
    }

    fn tensors(&self) -> &[TensorSpec] {
        self.0.tensors()
    }

    fn measure(&self, sample: u64, scratch: &mut Scratch) -> Result<Extents> {
        if sample.is_multiple_of(3) {
            return Err(Error::new(ErrorKind::Data, "no length"));
        }
        self.0.measure(sample, scratch)
    }

    fn fetch(&self, samples: &[u64], nth: usize, _: &mut Scratch) -> Result<()> {
        match samples[nth].is_multiple_of(5) {
            true => Err(Error::new(ErrorKind::Io, "no bytes")),
            false => Ok(()),
        }
    }

    fn decode(&self, sample: Sample, nth: usize, scratch: &mut Scratch, row: &mut RowMut<'_>) -> Result<()> {
        self.0.decode(sample, nth, scratch, row)
    }

    fn place(&self, sample: u64) -> Location {
        self.0.place(sample)
    }
}

#[test]
fn bad_records_at_the_beginning_of_a_job_leave_nothing_of_the_job_before() {
    let folder = tempfile::tempdir().unwrap();
    let open = |name: &str, rows: std::ops::Range<u32>| {
        let path = folder.path().join(name);
        let text: String = rows.map(|i| format!("{i},{}\n", 2 * i)).collect();
        std::fs::write(&path, format!("a,b\n{text}")).unwrap();
        CsvReader::open(path, &CsvOptions::default()).unwrap()
    };
    let bytes: Vec<u8> = (0..300u32).flat_map(u32::to_be_bytes).collect();
    let idx = folder.path().join("numbers.idx");
    std::fs::write(&idx, [&[0, 0, 12, 1, 0, 0, 1, 44][..], &bytes].concat()).unwrap();
    let idx = || IdxReader::open_as(&idx, "number", ringfeed::field::Array::new(), &IdxOptions::default()).unwrap();
    let (whole, low, high) = (open("whole.csv", 0..300), open("low.csv", 0..150), open("high.csv", 150..300));
    let waves = || ReaderSource::new(Unmeasured(Waves::new(300, 5)));
    for source in [waves().and(whole).and(idx()), waves().and(Concat::new(low).and(high).unwrap()).and(idx())] {
        let policy = BadRecords::Skip(BadLimits::count(1000));
        let source = source.batch_size(9).shuffle(3).bad_records(policy);
        let mut seen = 0;
        for batch in AsyncDataSetIterator::new(source, &workspace(2, 2)).unwrap() {
            let batch = batch.unwrap();
            let rows = batch.tensor("features").unwrap();
            let numbers = batch.tensor("number").unwrap();
            let read = rows.as_slice::<f32>().unwrap().chunks(2).zip(numbers.as_slice::<i32>().unwrap());
            for (id, (row, number)) in batch.sample_ids().iter().zip(read) {
                assert_eq!((row, *number as u64), (&[*id as f32, 2.0 * *id as f32][..], *id));
                seen += 1;
            }
        }
        assert_eq!(seen, (0..300).filter(|id| id % 3 != 0 && id % 5 != 0).count());
    }
}

/// How many buffers there are in this process that small records are gathered in.
#[cfg(target_os = "linux")]
fn gathering() -> usize {
    let files = std::fs::read_dir("/proc/self/fd").unwrap();
    let targets = files.filter_map(|file| std::fs::read_link(file.unwrap().path()).ok());
    targets.filter(|target| target.to_string_lossy().starts_with("/memfd:ringfeed")).count()
}

#[test]
fn a_file_that_becomes_shorter_loses_only_the_records_that_are_gone() {
    common::watchdog::watch();
    const RECORDS: u64 = 20_000;
    let folder = tempfile::tempdir().unwrap();
    let numbers = || (0..RECORDS).map(|i| 1_000_000 + i);
    let (raw, csv) = (folder.path().join("numbers.bin"), folder.path().join("numbers.csv"));
    // As text, a number is as long as in eight bytes.
    let write = |nth: usize| match nth {
        0 => std::fs::write(&raw, numbers().flat_map(|i| (i as i64).to_le_bytes()).collect::<Vec<_>>()).unwrap(),
        _ => std::fs::write(&csv, numbers().map(|i| format!("{i}\n")).collect::<String>()).unwrap(),
    };
    let open = |nth: usize, shuffled: bool| -> ReaderSource {
        let csv_options = CsvOptions { header: Header::No, ..CsvOptions::default() };
        let fields = [("x".to_owned(), Numbers::i64().from([0]))];
        let raw_options = RawOptions { access: Access::Read, ..RawOptions::features(StoredType::I64, &[]) };
        let source = match nth {
            0 => ReaderSource::new(RawReader::open(&raw, &raw_options).unwrap()),
            _ => ReaderSource::new(CsvReader::with_fields(&csv, &fields, &csv_options).unwrap()),
        };
        let source = source.batch_size(500).bad_records(BadRecords::Skip(BadLimits::count(RECORDS)));
        // In order, neighbours are read together.
        if shuffled { source.shuffle(5) } else { source }
    };
    for (nth, shuffled) in [(0, false), (0, true), (1, false), (1, true)] {
        write(nth);
        let path = [&raw, &csv][nth];
        let workspace = Workspace::builder().workers(2).across_epochs(false).build().unwrap();
        let mut iterator = AsyncDataSetIterator::new(open(nth, shuffled), &workspace).unwrap();
        let epoch = |iterator: &mut AsyncDataSetIterator| {
            let mut seen = Vec::new();
            for batch in iterator {
                let batch = batch.unwrap();
                let values = batch.features().unwrap().as_slice::<i64>().unwrap().to_vec();
                assert!(values.iter().zip(batch.sample_ids()).all(|(x, id)| *x == 1_000_000 + *id as i64));
                seen.extend_from_slice(batch.sample_ids());
            }
            seen.sort_unstable();
            seen
        };
        assert!(epoch(&mut iterator).into_iter().eq(0..RECORDS));
        #[cfg(target_os = "linux")]
        assert!(!shuffled || gathering() > 0, "nothing was gathered");
        // In the middle of a record: in the file's last page, of which the rest reads as zeros where it is mapped, and
        // far before it.
        for kept in [RECORDS - 5, 7_001] {
            std::fs::File::options().write(true).open(path).unwrap().set_len(8 * kept + 3).unwrap();
            iterator.reset().unwrap();
            let left = epoch(&mut iterator);
            assert!(left.iter().copied().eq(0..kept), "{} of {kept} records, the last {:?}", left.len(), left.last());
        }
        let lost = iterator.bad_records();
        assert!(lost.iter().all(|record| record.error.contains("the file ends here")), "{:?}", lost[0]);
    }
}
