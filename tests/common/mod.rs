//! Sources and helpers that several test files share.
#![expect(dead_code, unreachable_pub, clippy::unwrap_used, reason = "each test file uses its own part")]

pub mod watchdog;

use std::sync::{Arc, Condvar, Mutex, mpsc};
use std::time::Duration;

use ringfeed::error::Location;
use ringfeed::order::RandomKey;
use ringfeed::read::{RecordReader, RowMut, Sample, Scratch};
use ringfeed::storage::{Access, Mapping};
use ringfeed::tensor::{Dim, Extents, Role, TensorSpec};
use ringfeed::{DType, DataSet, DataSetIterator, Error, ErrorKind, Result, Workspace};

// SAFETY: the tests change no file that is open for mapping.
pub const MAPPED: Access = Access::Map(unsafe { Mapping::promise() });

/// Sequences whose length and values are functions of their index: `wave` [T, 3] f32, `mask` [T] u8, `id` i64.
pub struct Waves {
    pub len: u64,
    pub longest: u32,
    tensors: Vec<TensorSpec>,
}

impl Waves {
    pub fn new(len: u64, longest: u32) -> Self {
        watchdog::watch();
        let tensors = vec![
            TensorSpec::with_dims("wave", Role::Feature, DType::F32, vec![Dim::Extent(0), Dim::Fixed(3)]),
            TensorSpec::with_dims("mask", Role::Mask, DType::U8, vec![Dim::Extent(0)]),
            TensorSpec::new("id", Role::Label, DType::I64, &[]),
        ];
        Self { len, longest, tensors }
    }

    pub fn length(&self, sample: u64) -> usize {
        1 + (RandomKey::new(7).bits(sample) % u64::from(self.longest)) as usize
    }

    pub fn value(sample: u64, step: usize, column: usize) -> f32 {
        sample as f32 + step as f32 / 100.0 + column as f32 * 1000.0
    }

    /// What a batch of these samples must hold, tensor by tensor, computed one value at a time.
    pub fn naive(&self, samples: &[u64]) -> Vec<Vec<u8>> {
        let longest = samples.iter().map(|id| self.length(*id)).max().unwrap_or(0);
        let mut tensors = vec![Vec::new(), Vec::new(), Vec::new()];
        for &id in samples {
            for step in 0..longest {
                let inside = step < self.length(id);
                for column in 0..3 {
                    let value = if inside { Self::value(id, step, column) } else { 0.0 };
                    tensors[0].extend(value.to_ne_bytes());
                }
                tensors[1].push(u8::from(inside));
            }
            tensors[2].extend((id as i64).to_ne_bytes());
        }
        tensors
    }
}

impl RecordReader for Waves {
    fn len(&self) -> u64 {
        self.len
    }

    fn tensors(&self) -> &[TensorSpec] {
        &self.tensors
    }

    fn measure(&self, sample: u64, _: &mut Scratch) -> Result<Extents> {
        Ok(Extents::of_length(self.length(sample) as u32))
    }

    fn decode(&self, sample: Sample, _: usize, _: &mut Scratch, row: &mut RowMut<'_>) -> Result<()> {
        let length = self.length(sample.id);
        row.zero();
        let mut wave = row.tensor(0);
        for (index, value) in wave.as_mut_slice::<f32>()?[..3 * length].iter_mut().enumerate() {
            *value = Self::value(sample.id, index / 3, index % 3);
        }
        row.tensor(1).bytes_mut()[..length].fill(1);
        row.tensor(2).as_mut_slice::<i64>()?[0] = sample.id as i64;
        Ok(())
    }

    fn place(&self, sample: u64) -> Location {
        Location { record: Some(sample), path: Some("waves".into()), ..Location::default() }
    }
}

/// What a [`Flaky`] reader does at its chosen records.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Trouble {
    FailInFetch,
    FailInDecode,
    PanicInFetch,
    PanicInDecode,
    /// Fetching waits until the gate opens.
    Stall,
}

/// Numbers `0..len` as `x`, with trouble at chosen records.
pub struct Flaky {
    pub len: u64,
    pub at: Vec<u64>,
    pub trouble: Trouble,
    pub gate: Arc<Gate>,
    tensors: Vec<TensorSpec>,
}

/// Opens once, for everybody who waits.
#[derive(Default)]
pub struct Gate {
    state: Mutex<GateState>,
    changed: Condvar,
}

#[derive(Default)]
struct GateState {
    is_open: bool,
    was_reached: bool,
}

impl Gate {
    pub fn open(&self) {
        self.state.lock().unwrap().is_open = true;
        self.changed.notify_all();
    }

    pub fn wait(&self) {
        let mut state = self.state.lock().unwrap();
        state.was_reached = true;
        self.changed.notify_all();
        drop(self.changed.wait_while(state, |state| !state.is_open).unwrap());
    }

    /// Waits until somebody waits there.
    pub fn until_reached(&self) {
        let state = self.state.lock().unwrap();
        drop(self.changed.wait_while(state, |state| !state.was_reached).unwrap());
    }
}

impl Flaky {
    pub fn new(len: u64, at: &[u64], trouble: Trouble) -> Self {
        watchdog::watch();
        let tensors = vec![TensorSpec::new("x", Role::Feature, DType::I64, &[])];
        Self { len, at: at.to_vec(), trouble, gate: Arc::default(), tensors }
    }

    fn bad(&self, sample: u64) -> Error {
        Error::new(ErrorKind::Data, format!("record {sample} is bad"))
    }
}

impl RecordReader for Flaky {
    fn len(&self) -> u64 {
        self.len
    }

    fn tensors(&self) -> &[TensorSpec] {
        &self.tensors
    }

    fn fetch(&self, samples: &[u64], nth: usize, _: &mut Scratch) -> Result<()> {
        if self.at.contains(&samples[nth]) {
            match self.trouble {
                Trouble::FailInFetch => return Err(self.bad(samples[nth])),
                Trouble::PanicInFetch => panic!("fetch of {}", samples[nth]),
                Trouble::Stall => self.gate.wait(),
                _ => {}
            }
        }
        Ok(())
    }

    fn decode(&self, sample: Sample, _: usize, _: &mut Scratch, row: &mut RowMut<'_>) -> Result<()> {
        if self.at.contains(&sample.id) {
            match self.trouble {
                Trouble::FailInDecode => return Err(self.bad(sample.id)),
                Trouble::PanicInDecode => panic!("decode of {}", sample.id),
                _ => {}
            }
        }
        row.tensor(0).as_mut_slice::<i64>()?[0] = sample.id as i64;
        Ok(())
    }

    fn place(&self, sample: u64) -> Location {
        Location { record: Some(sample), path: Some("flaky".into()), ..Location::default() }
    }
}

/// A workspace whose waits are short and whose slots are poisoned.
pub fn workspace(workers: usize, prefetch: usize) -> Workspace {
    watchdog::watch();
    Workspace::builder()
        .workers(workers)
        .prefetch(prefetch)
        .lease_wait(Duration::ZERO)
        .close_wait(Duration::from_secs(20))
        .poison(0xa5)
        .build()
        .unwrap()
}

/// Everything that a trainer could see of a batch.
#[derive(Clone, Debug, PartialEq)]
pub struct Seen {
    pub epoch: u64,
    pub index: u64,
    pub positions: Vec<u64>,
    pub samples: Vec<u64>,
    pub padding: usize,
    pub shapes: Vec<Vec<usize>>,
    pub tensors: Vec<Vec<u8>>,
}

pub fn see(batch: &DataSet) -> Seen {
    Seen {
        epoch: batch.epoch(),
        index: batch.index(),
        positions: batch.positions().to_vec(),
        samples: batch.sample_ids().to_vec(),
        padding: batch.padding(),
        shapes: batch.tensors().map(|tensor| tensor.shape().to_vec()).collect(),
        tensors: batch.tensors().map(|tensor| tensor.bytes().to_vec()).collect(),
    }
}

/// The rest of an epoch.
pub fn see_all(iterator: &mut dyn DataSetIterator) -> Vec<Seen> {
    iterator.map(|batch| see(&batch.unwrap())).collect()
}

/// The values of `x` in a batch of [`Flaky`].
pub fn xs(batch: &DataSet) -> Vec<i64> {
    batch.tensor("x").unwrap().as_slice::<i64>().unwrap().to_vec()
}

/// A file of the repository's fixtures.
pub fn fixture(name: &str) -> std::path::PathBuf {
    std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures").join(name)
}

/// Runs what must end, and fails if it has not ended long after it should have.
pub fn ends<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    let (done, ended) = mpsc::channel();
    let worker = std::thread::spawn(move || done.send(work()));
    match ended.recv_timeout(Duration::from_secs(250)) {
        Ok(value) => value,
        Err(mpsc::RecvTimeoutError::Timeout) => panic!("it waits for ever"),
        Err(mpsc::RecvTimeoutError::Disconnected) => {
            std::panic::resume_unwind(worker.join().expect_err("the sender dropped unsent"))
        }
    }
}
