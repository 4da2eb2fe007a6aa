//! Jobs whose records lie in several readers: each reader gets its own as a whole, and nobody sees a difference.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use proptest::prelude::*;
use ringfeed::error::Location;
use ringfeed::read::{Concat, Job, MemoryReader, RecordReader, RowMut, RowsMut, Sample, Scratch};
use ringfeed::settings::{BadLimits, BadRecords};
use ringfeed::source::ReaderSource;
use ringfeed::tensor::{Dim, Masked, Role, TensorSpec};
use ringfeed::{AsyncDataSetIterator, DType, DataSetIterator, Error, ErrorKind, Result, Workspace};

use crate::common::{Seen, see};

#[derive(Clone, Copy, Debug, PartialEq)]
enum Trouble {
    Fetch,
    FetchPanics,
    Decode,
    DecodePanics,
}

/// Its records, of which number n is called `first + n`, and gives that and its random key.
struct Numbers {
    first: u64,
    len: u64,
    /// By the records' own numbers.
    trouble: Arc<Vec<(u64, Trouble)>>,
    /// Whether it has methods for whole jobs.
    is_whole: bool,
    /// How many jobs it got, and how many records were in them.
    jobs: Arc<[AtomicU64; 2]>,
    tensors: [TensorSpec; 2],
}

/// What a worker has read: the records of its job.
#[derive(Default)]
struct Read(Vec<Option<u64>>);

impl Numbers {
    fn fails(&self, own: u64, error: Trouble, panic: Trouble) -> Result<()> {
        match self.trouble.iter().find(|(at, _)| *at == self.first + own) {
            Some((_, trouble)) if *trouble == panic => panic!("record {} panics", self.first + own),
            Some((_, trouble)) if *trouble == error => {
                Err(Error::new(ErrorKind::Data, format!("record {} is bad", self.first + own)))
            }
            _ => Ok(()),
        }
    }

    fn read(&self, samples: &[u64], nth: usize, scratch: &mut Scratch) -> Result<()> {
        let Read(read) = scratch.of();
        if nth == 0 {
            read.clear();
        }
        read.resize(samples.len(), None);
        self.fails(samples[nth], Trouble::Fetch, Trouble::FetchPanics)?;
        read[nth] = Some(samples[nth]);
        Ok(())
    }

    fn write(&self, sample: Sample, nth: usize, scratch: &mut Scratch, row: &mut RowMut<'_>) -> Result<()> {
        let Read(read) = scratch.of();
        assert_eq!(read[nth], Some(sample.id), "it was read in its place");
        self.fails(sample.id, Trouble::Decode, Trouble::DecodePanics)?;
        row.tensor(0).as_mut_slice::<u64>()?[0] = self.first + sample.id;
        row.tensor(1).as_mut_slice::<u64>()?[0] = sample.key.bits(0);
        Ok(())
    }
}

impl RecordReader for Numbers {
    fn len(&self) -> u64 {
        self.len
    }

    fn tensors(&self) -> &[TensorSpec] {
        &self.tensors
    }

    fn fetch(&self, samples: &[u64], nth: usize, scratch: &mut Scratch) -> Result<()> {
        self.read(samples, nth, scratch)
    }

    fn decode(&self, sample: Sample, nth: usize, scratch: &mut Scratch, row: &mut RowMut<'_>) -> Result<()> {
        self.write(sample, nth, scratch, row)
    }

    fn fetch_all(&self, job: &mut Job<'_>, scratch: &mut Scratch) {
        while let Some(nth) = job.advance() {
            job.report(self.read(job.samples(), nth, scratch));
        }
    }

    fn decode_all(&self, job: &mut Job<'_>, scratch: &mut Scratch, rows: &mut RowsMut<'_>) {
        if self.is_whole {
            self.jobs[0].fetch_add(1, Ordering::Relaxed);
            self.jobs[1].fetch_add(job.samples().len() as u64, Ordering::Relaxed);
        }
        assert_eq!(rows.len(), job.samples().len());
        while let Some(nth) = job.advance() {
            job.report(self.write(job.sample(nth), nth, scratch, &mut rows.row(nth)));
        }
    }

    fn place(&self, sample: u64) -> Location {
        Location { record: Some(self.first + sample), path: Some("numbers".into()), ..Location::default() }
    }
}

/// A record that nobody reads.
struct Named(Vec<TensorSpec>);

impl RecordReader for Named {
    fn len(&self) -> u64 {
        1
    }

    fn tensors(&self) -> &[TensorSpec] {
        &self.0
    }

    fn decode(&self, _: Sample, _: usize, _: &mut Scratch, _: &mut RowMut<'_>) -> Result<()> {
        Err(Error::new(ErrorKind::Unsupported, "nobody reads it"))
    }

    fn place(&self, _: u64) -> Location {
        Location::default()
    }
}

#[test]
fn parts_have_the_same_masks_however_they_are_told() {
    let part = |masked| {
        let dims = || vec![Dim::Extent(0)];
        let sound = TensorSpec::with_dims("sound", Role::Feature, DType::F32, dims());
        Named(vec![TensorSpec { masked, ..sound }, TensorSpec::with_dims("sound_mask", Role::Mask, DType::U8, dims())])
    };
    let by = Masked::By { mask: "sound_mask".into(), axis: 0 };
    assert!(Concat::new(part(Masked::ByName)).and(part(by.clone())).is_ok());
    let error = Concat::new(part(by)).and(part(Masked::Never)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Schema);
    assert!(error.message().contains("has no mask, but part 0 has the mask \"sound_mask\""), "{error}");
}

/// Every batch, and the bad records.
fn run(
    lens: &[u64],
    trouble: &Arc<Vec<(u64, Trouble)>>,
    jobs: &Arc<[AtomicU64; 2]>,
    (batch, shuffle, workers): (usize, bool, usize),
) -> (Vec<Seen>, Vec<String>) {
    let mut first = 0;
    let mut parts = lens.iter().map(|len| {
        let tensors = ["x", "key"].map(|name| TensorSpec::new(name, Role::Feature, DType::U64, &[]));
        let (is_whole, trouble, jobs) = (lens.len() > 1, trouble.clone(), jobs.clone());
        let part = Numbers { first, len: *len, trouble, is_whole, jobs, tensors };
        first += len;
        part
    });
    let one = parts.next().unwrap();
    let source = match lens {
        [_] => ReaderSource::new(one),
        _ => ReaderSource::new(parts.try_fold(Concat::new(one), Concat::and).unwrap()),
    };
    let mut source = source.batch_size(batch).bad_records(BadRecords::Skip(BadLimits::default()));
    if shuffle {
        source = source.shuffle(5);
    }
    let workspace = Workspace::builder().workers(workers).prefetch(workers - 1).poison(0xa5);
    // The records of one epoch are counted.
    let workspace = workspace.across_epochs(false).build().unwrap();
    let mut batches = AsyncDataSetIterator::new(source, &workspace).unwrap();
    let seen = batches.by_ref().map(|batch| see(&batch.unwrap())).collect();
    let mut bad: Vec<_> = batches.bad_records().iter().map(|bad| bad.error.to_string()).collect();
    bad.sort();
    (seen, bad)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn several_readers_give_what_one_gives(
        lens in prop::collection::vec(1u64..40, 2..6),
        many in prop::bool::weighted(0.1),
        at in prop::collection::vec((0u64..200, 0usize..4), 0..12),
        batch in 1usize..70,
        shuffle in any::<bool>(),
        workers in 1usize..4,
    ) {
        crate::common::watchdog::watch();
        // More parts than have buffers of their own.
        let lens = if many { lens.repeat(40) } else { lens };
        let kinds = [Trouble::Fetch, Trouble::FetchPanics, Trouble::Decode, Trouble::DecodePanics];
        let trouble = Arc::new(at.into_iter().map(|(at, kind)| (at, kinds[kind])).collect());
        let jobs: Arc<[AtomicU64; 2]> = Arc::default();
        let order = (batch, shuffle, workers);
        let several = run(&lens, &trouble, &jobs, order);
        prop_assert!(jobs[0].load(Ordering::Relaxed) > 0, "readers get whole jobs");
        let count = lens.iter().sum::<u64>();
        prop_assert_eq!(several, run(&[count], &trouble, &jobs, order));
    }
}

#[test]
fn a_reader_gets_all_of_its_records_of_a_job_at_once() {
    crate::common::watchdog::watch();
    let jobs: Arc<[AtomicU64; 2]> = Arc::default();
    run(&[512, 512], &Arc::default(), &jobs, (1024, true, 1));
    let [jobs, records] = [0, 1].map(|at| jobs[at].load(Ordering::Relaxed));
    assert_eq!(records, 1024);
    assert!(jobs * 8 < records, "{jobs} jobs");
}

/// A reader around others whose records are in memory, so that it has nothing to read.
struct Around(Concat);

impl RecordReader for Around {
    fn len(&self) -> u64 {
        self.0.len()
    }

    fn tensors(&self) -> &[TensorSpec] {
        self.0.tensors()
    }

    fn decode(&self, sample: Sample, nth: usize, scratch: &mut Scratch, row: &mut RowMut<'_>) -> Result<()> {
        self.0.decode(sample, nth, scratch, row)
    }

    fn decode_all(&self, job: &mut Job<'_>, scratch: &mut Scratch, rows: &mut RowsMut<'_>) {
        self.0.decode_all(job, scratch, rows);
    }

    fn place(&self, sample: u64) -> Location {
        self.0.place(sample)
    }
}

#[test]
fn records_in_memory_need_not_be_fetched() {
    crate::common::watchdog::watch();
    let part =
        |range: std::ops::Range<u64>| MemoryReader::new("x", Role::Feature, &[], range.collect::<Vec<u64>>()).unwrap();
    let around = Around(Concat::new(part(0..30)).and(part(30..100)).unwrap());
    let source = ReaderSource::new(around).batch_size(7).shuffle(3);
    let workspace = Workspace::builder().workers(2).prefetch(1).poison(0xa5).build().unwrap();
    for batch in AsyncDataSetIterator::new(source, &workspace).unwrap() {
        let batch = batch.unwrap();
        assert_eq!(batch.tensor("x").unwrap().as_slice::<u64>().unwrap(), batch.sample_ids());
    }
}
