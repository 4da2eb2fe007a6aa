//! The windows of a reader's records, or sequences of them, as samples.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use crate::error::{Error, ErrorKind, Location, Result};
use crate::memory::{MemoryBudget, Reservation};
use crate::random::RandomKey;
use crate::row::{RowMut, RowsMut};
use crate::schema::{Extents, Schema, TensorSpec};
use crate::storage::Needs;

use super::decoded_bytes::DecodedBytes;
use super::job::{Job, caught_each, decode_each};
use super::record_rows::{RecordRows, RecordTensors};
use super::windows::{Placed, RecordsOf};
use super::{Fingerprint, RecordReader, Sample, Scratch, check_record};

/// Largest memory for the records of a job that are all decoded before the first window is made. Longer records are
/// decoded one by one, while they are in the processor's cache.
const TOGETHER_BYTES: u64 = 1 << 20;

/// It takes at most this part of the memory budget for each worker, because others may need theirs to go on.
const BUDGET_PART: u64 = 64;

/// Number of records that are named at once, to know what bytes they need.
const NAMED: usize = 64;

/// The windows of a reader's records, or sequences of them; each is a sample, called a window here.
pub(crate) struct Windowed {
    reader: Arc<dyn RecordReader>,
    placed: Arc<Placed>,
    tensors: Vec<TensorSpec>,
    /// The records of a window that each tensor is made of. A further tensor is the mask of sequences.
    parts: Vec<RecordsOf>,
    record: RecordTensors,
    /// Whether a record may have different values in each window.
    is_random: bool,
    budget: MemoryBudget,
}

/// What a worker keeps of a job.
#[derive(Default)]
struct Worker {
    /// The records of its windows. A record that two neighbouring windows share is in it once.
    records: Vec<u64>,
    /// For each window, the position of its first record among them; the others follow.
    starts: Vec<usize>,
    /// Whether all records are read, and then decoded, with one call. Otherwise they come one by one.
    together: bool,
    /// The positions that could not be read together with the others.
    unreadable: Vec<usize>,
    /// The first position that was not read yet, if they come one by one.
    unread: usize,
    /// Decoded records. A record is in the row of its position, modulo the number of rows.
    rows: RecordRows,
    /// The position of the record in each row.
    held: Vec<usize>,
    /// The value of each tensor in the first record of a sequence, where all must have the same.
    constants: Vec<Vec<u8>>,
    /// The memory of `rows`.
    reservation: Option<Reservation>,
    scratch: Scratch,
    /// For records that could not be read or decoded together with the others.
    alone: Scratch,
}

/// A position that no record has.
const NOWHERE: usize = usize::MAX;

impl Worker {
    /// Begins a job of these windows. Without `shares`, each window reads its own records, even if another window has
    /// them, too.
    fn begin(&mut self, windows: impl Iterator<Item = Range<u64>>, shares: bool) {
        self.records.clear();
        self.starts.clear();
        self.held.clear();
        self.unreadable.clear();
        (self.unread, self.together) = (0, false);
        let mut before: Option<(u64, usize)> = None;
        for window in windows {
            let shared = before.filter(|(first, place)| {
                let end = first + (self.records.len() - place) as u64;
                shares && (*first..end).contains(&window.start)
            });
            let place = match shared {
                Some((first, place)) => place + (window.start - first) as usize,
                None => self.records.len(),
            };
            self.starts.push(place);
            let known = (self.records.len() - place) as u64;
            self.records.extend(window.start + known..window.end);
            before = Some((window.start, place));
        }
    }

    /// Makes room for so many records, if it takes at most so many bytes and the memory budget allows it.
    fn hold(&mut self, records: usize, tensors: &RecordTensors, budget: &MemoryBudget, most: u64) -> bool {
        let Some(bytes) = self.rows.lay_out(tensors, records).ok().filter(|bytes| *bytes <= most) else { return false };
        let reservation = self.reservation.get_or_insert_with(|| budget.empty_reservation());
        if bytes > self.rows.allocated() && !(reservation.grow_if_free(bytes) && self.rows.allocate()) {
            reservation.shrink_to(self.rows.allocated());
            return false;
        }
        self.held.resize(records, NOWHERE);
        true
    }

    /// Makes room for one record; if necessary, waits until other users release memory.
    fn hold_one(&mut self, tensors: &RecordTensors, budget: &MemoryBudget) -> Result<()> {
        let bytes = self.rows.lay_out(tensors, 1)?;
        let reservation = self.reservation.get_or_insert_with(|| budget.empty_reservation());
        reservation.grow_to(bytes, "a record of a window")?;
        match self.hold(1, tensors, budget, u64::MAX) {
            true => Ok(()),
            false => Err(Error::new(ErrorKind::Limit, "no memory for a record of a window")),
        }
    }
}

impl fmt::Debug for Windowed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Windowed").field("placed", &self.placed).finish_non_exhaustive()
    }
}

impl Windowed {
    /// With `masked`, this reader gives the mask of the steps of sequences.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Config`] for a tensor whose length differs from record to record.
    pub(crate) fn new(
        reader: Arc<dyn RecordReader>,
        placed: Arc<Placed>,
        masked: bool,
        budget: &MemoryBudget,
    ) -> Result<Self> {
        let of_records = reader.tensors();
        let ((tensors, parts), record) = (placed.tensors(of_records, masked)?, RecordTensors::new(of_records)?);
        Schema::new(tensors.clone())?;
        let is_random = reader.is_random();
        Ok(Self { reader, placed, tensors, parts, record, is_random, budget: budget.clone() })
    }

    /// Number of records of a window.
    fn count(&self, sample: u64) -> usize {
        let records = self.records(sample);
        (records.end - records.start) as usize
    }

    /// The records of a window; none if it does not exist.
    fn records(&self, sample: u64) -> Range<u64> {
        if sample < self.len() { self.placed.records(sample) } else { 0..0 }
    }

    /// Begins a job whose records come one by one.
    fn begin(&self, worker: &mut Worker, samples: &[u64]) {
        // A sample that does not exist is an error when it is fetched.
        let windows = || samples.iter().map(|sample| self.records(*sample));
        worker.begin(windows(), !self.is_random);
        let (mut all, mut most) = (0, 0);
        for records in windows() {
            let count = (records.end - records.start) as usize;
            (all, most) = (all + count, most.max(count));
        }
        let overlap = worker.records.len() < all;
        if overlap && !worker.hold(most, &self.record, &self.budget, u64::MAX) {
            worker.begin(windows(), false);
        }
    }

    /// Begins a job whose records come together. Returns whether they can.
    fn begin_together(&self, worker: &mut Worker, job: &Job<'_>) -> bool {
        // Only one by one, each record has its window's random choices, and each window a time of its own.
        if self.is_random || !job.is_one() || job.samples().iter().any(|sample| *sample >= self.len()) {
            return false;
        }
        worker.begin(job.samples().iter().map(|sample| self.placed.records(*sample)), true);
        let most = TOGETHER_BYTES.min(self.budget.limit() / BUDGET_PART);
        worker.together = worker.hold(worker.records.len(), &self.record, &self.budget, most);
        worker.together
    }

    /// Decodes all records of a job that were read together. What fails is left for [`decode_alone`](Self::decode_alone).
    fn decode_together(&self, worker: &mut Worker, job: &mut Job<'_>) {
        let Worker { records, unreadable, rows, held, scratch, .. } = worker;
        let mut own = job.of_records(records);
        unreadable.iter().for_each(|place| own.set_bad(*place));
        scratch.forget_damage();
        let mut rows = rows.rows_mut(&self.record, 0..records.len());
        decode_each(&mut own, |own| self.reader.decode_all(own, scratch, &mut rows));
        if own.has_passed_all() {
            (0..records.len()).filter(|place| !own.is_bad(*place)).for_each(|place| held[place] = place);
        }
        job.take_over(own);
    }

    /// Reads and decodes the record at this position by itself.
    fn decode_alone(&self, worker: &mut Worker, place: usize, sample: Sample) -> Result<()> {
        let Worker { records, rows, scratch, alone, .. } = worker;
        self.reader.fetch(&records[place..place + 1], 0, alone)?;
        alone.forget_damage();
        let mut rows = rows.rows_mut(&self.record, place..place + 1);
        let decoded = self.reader.decode(Sample { id: records[place], ..sample }, 0, alone, &mut rows.row(0));
        scratch.note_all(alone.take_damage());
        decoded
    }

    /// Decodes the record at this position, which was read one by one.
    fn decode_one(&self, worker: &mut Worker, place: usize, sample: Sample) -> Result<()> {
        let Worker { records, rows, held, scratch, .. } = worker;
        let kept = place % held.len();
        let mut rows = rows.rows_mut(&self.record, kept..kept + 1);
        // Random choices are the same for all records of a window.
        self.reader.decode(Sample { id: records[place], ..sample }, place, scratch, &mut rows.row(0))
    }

    /// Writes the records in neighbouring rows, which are those from `first` on of a window of `count` records.
    fn write(
        &self,
        worker: &mut Worker,
        rows: Range<usize>,
        (first, count): (usize, usize),
        window: &mut RowMut<'_>,
    ) -> Result<()> {
        for (tensor, part) in self.parts.iter().enumerate() {
            if *part == RecordsOf::Constant {
                self.check_constant(worker, tensor, rows.clone(), first)?;
            }
            let records = part.range(count);
            let from = records.start.max(first);
            let end = records.end.min(first + rows.len());
            if from < end {
                let chosen = rows.start + (from - first)..rows.start + (end - first);
                let at = from - records.start;
                self.record.write(tensor, &worker.rows, chosen, &mut window.tensor(tensor), at)?;
            }
        }
        Ok(())
    }

    /// Checks that a tensor is the same in these records as in the first one of their sequence.
    fn check_constant(&self, worker: &mut Worker, tensor: usize, rows: Range<usize>, first: usize) -> Result<()> {
        let Worker { rows: all, constants, .. } = worker;
        constants.resize_with(constants.len().max(tensor + 1), Vec::new);
        for (at, row) in (first..).zip(rows) {
            let value = all.bytes(tensor, row..row + 1);
            if at == 0 {
                constants[tensor].clear();
                constants[tensor].extend_from_slice(value);
            } else if constants[tensor] != value {
                let message = format!("step {at} of its sequence has another label than the first one");
                return Err(Error::new(ErrorKind::Data, message).at_column(&self.tensors[tensor].name));
            }
        }
        Ok(())
    }

    /// Writes the padding behind so many records of a sequence, and its mask.
    fn pad(&self, count: usize, window: &mut RowMut<'_>) {
        for tensor in (0..self.parts.len()).filter(|tensor| self.parts[*tensor] == RecordsOf::All) {
            let bytes = count * self.record.bytes(tensor);
            window.tensor(tensor).bytes_mut()[bytes..].fill(0);
        }
        if self.parts.len() < self.tensors.len() {
            let mut mask = window.tensor(self.parts.len());
            let (data, padding) = mask.bytes_mut().split_at_mut(count);
            data.fill(1);
            padding.fill(0);
        }
    }

    /// Makes a window of records that were read together.
    fn write_together(&self, worker: &mut Worker, sample: Sample, nth: usize, row: &mut RowMut<'_>) -> Result<()> {
        let (start, count) = (worker.starts[nth], self.count(sample.id));
        let places = start..start + count;
        for place in places.clone() {
            if worker.held[place] == NOWHERE {
                self.decode_alone(worker, place, sample)?;
                worker.held[place] = place;
            }
        }
        self.write(worker, places, (0, count), row)?;
        self.pad(count, row);
        Ok(())
    }

    /// Makes a window of records that were read one by one.
    fn write_each(&self, worker: &mut Worker, sample: Sample, nth: usize, row: &mut RowMut<'_>) -> Result<()> {
        let count = self.count(sample.id);
        for at in 0..count {
            let place = worker.starts[nth] + at;
            let kept = place % worker.held.len();
            if worker.held[kept] != place {
                worker.held[kept] = NOWHERE;
                self.decode_one(worker, place, sample)?;
                worker.held[kept] = place;
            }
            self.write(worker, kept..kept + 1, (at, count), row)?;
        }
        self.pad(count, row);
        Ok(())
    }
}

impl RecordReader for Windowed {
    fn len(&self) -> u64 {
        self.placed.count()
    }

    fn tensors(&self) -> &[TensorSpec] {
        &self.tensors
    }

    fn need(&self, samples: &[u64], needs: &mut Needs) {
        let mut named = [0; NAMED];
        for sample in samples {
            let mut records = self.placed.records(*sample);
            while !records.is_empty() {
                let count = named.iter_mut().zip(&mut records).map(|(name, record)| *name = record).count();
                self.reader.need(&named[..count], needs);
            }
        }
    }

    fn measure(&self, sample: u64, _: &mut Scratch) -> Result<Extents> {
        check_record(sample, self.len())?;
        Ok(Extents::of_length(self.count(sample) as u32))
    }

    fn fetch(&self, samples: &[u64], nth: usize, scratch: &mut Scratch) -> Result<()> {
        let worker: &mut Worker = scratch.of();
        if nth == 0 {
            self.begin(worker, samples);
        }
        check_record(samples[nth], self.len())?;
        if worker.held.is_empty() {
            worker.hold_one(&self.record, &self.budget)?;
        }
        let start = worker.starts[nth];
        let end = start + self.count(samples[nth]);
        for place in worker.unread.max(start)..end {
            worker.unread = place;
            self.reader.fetch(&worker.records, place, &mut worker.scratch)?;
        }
        worker.unread = worker.unread.max(end);
        Ok(())
    }

    fn decode(&self, sample: Sample, nth: usize, scratch: &mut Scratch, row: &mut RowMut<'_>) -> Result<()> {
        let worker = scratch.of::<Worker>();
        worker.scratch.forget_damage();
        let decoded = match worker.together {
            true => self.write_together(worker, sample, nth, row),
            false => self.write_each(worker, sample, nth, row),
        };
        let damage = worker.scratch.take_damage();
        scratch.note_all(damage);
        decoded
    }

    fn fetch_all(&self, job: &mut Job<'_>, scratch: &mut Scratch) {
        let worker = scratch.of::<Worker>();
        if job.passed() > 0 || !self.begin_together(worker, job) {
            while let Some(nth) = job.advance() {
                job.report(self.fetch(job.samples(), nth, scratch));
            }
            return;
        }
        let Worker { records, unreadable, scratch, .. } = worker;
        let mut own = job.of_records(records);
        caught_each(&mut own, |own| self.reader.fetch_all(own, scratch));
        unreadable.extend((0..records.len()).filter(|place| own.is_bad(*place)));
        job.take_over(own);
        if !job.is_stopped() {
            job.pass_all();
        }
    }

    fn decode_all(&self, job: &mut Job<'_>, scratch: &mut Scratch, rows: &mut RowsMut<'_>) {
        let worker = scratch.of::<Worker>();
        if !worker.together {
            while let Some(nth) = job.advance() {
                job.report(self.decode(job.sample(nth), nth, scratch, &mut rows.row(nth)));
            }
            return;
        }
        if job.passed() == 0 {
            self.decode_together(worker, job);
        }
        while let Some(nth) = job.advance() {
            job.report(self.write_together(worker, job.sample(nth), nth, &mut rows.row(nth)));
        }
        let damage = worker.scratch.take_damage();
        scratch.note_all(damage);
    }

    fn is_random(&self) -> bool {
        self.is_random
    }

    fn chunks(&self) -> Vec<u64> {
        self.placed.chunks(&self.reader.chunks())
    }

    fn decoded_bytes(&self) -> Option<DecodedBytes> {
        self.reader.decoded_bytes().filter(|_| self.placed.are_sequences())
    }

    fn place(&self, sample: u64) -> Location {
        if sample < self.len() {
            self.reader.place(self.placed.records(sample).start)
        } else {
            Location { record: Some(sample), ..Location::default() }
        }
    }

    fn name(&self, sample: u64, name: &mut Vec<u8>) {
        self.reader.name(self.placed.records(sample).start, name);
    }

    fn fingerprint(&self) -> Fingerprint {
        let Fingerprint { count, names, sizes } = self.reader.fingerprint();
        let key = self.placed.fingerprint(RandomKey::new(names).with(count.unwrap_or(0)));
        Fingerprint { count: Some(self.len()), names: key.bits(0), sizes }
    }
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

    use super::*;
    use crate::counters::{Damage, Damages};
    use crate::dtype::DType;
    use crate::layout::Layout;
    use crate::read::windows::Windows;
    use crate::schema::Role;

    /// Records damage for each record, and panics after the first one.
    struct PanicsOnce([TensorSpec; 1], AtomicBool);

    impl RecordReader for PanicsOnce {
        fn len(&self) -> u64 {
            2
        }

        fn tensors(&self) -> &[TensorSpec] {
            &self.0
        }

        fn fetch(&self, _: &[u64], _: usize, _: &mut Scratch) -> Result<()> {
            Ok(())
        }

        fn decode(&self, sample: Sample, _: usize, scratch: &mut Scratch, row: &mut RowMut<'_>) -> Result<()> {
            row.zero();
            if sample.id == 0 {
                let mut damages = Damages::default();
                damages.add(Damage::NoEnd);
                scratch.note(damages);
                assert!(self.1.swap(true, Ordering::Relaxed), "as asked for");
            }
            Ok(())
        }

        fn place(&self, sample: u64) -> Location {
            Location { record: Some(sample), ..Location::default() }
        }
    }

    #[test]
    fn damage_of_a_window_whose_decoding_panics_is_not_that_of_the_next() {
        let tensors = [TensorSpec::new("x", Role::Feature, DType::U8, &[])];
        let placed = Windows::new(1, 0).placed(2, None).unwrap();
        let reader = Arc::new(PanicsOnce(tensors, AtomicBool::new(false)));
        let windows = Windowed::new(reader, Arc::new(placed), false, &MemoryBudget::unlimited()).unwrap();
        let (mut layout, mut scratch) = (Layout::default(), Scratch::default());
        layout.compute(&Schema::new(windows.tensors().to_vec()).unwrap(), 1, Extents::default()).unwrap();
        let mut memory = vec![0u64; layout.bytes().div_ceil(8)];
        let mut images = |id: u64| {
            let decoded = catch_unwind(AssertUnwindSafe(|| {
                windows.fetch(&[id], 0, &mut scratch).unwrap();
                let mut row = RowMut::new(bytemuck::cast_slice_mut(&mut memory), windows.tensors(), &layout, 0);
                let sample = Sample { id, key: RandomKey::new(1) };
                windows.decode(sample, 0, &mut scratch, &mut row).unwrap();
            }));
            decoded.is_ok().then(|| scratch.take_damage().images)
        };
        assert_eq!([images(0), images(1), images(0)], [None, Some(0), Some(1)]);
    }

    /// A record that the reader below can't deliver.
    const UNREADABLE: u64 = 11;
    const BAD: u64 = 21;
    const PANICS: u64 = 22;

    /// Gives record `n` the values n and 3 n; counts calls for whole jobs, and for single records.
    struct Counting {
        tensors: [TensorSpec; 2],
        is_interrupted: bool,
        all: AtomicUsize,
        single: AtomicUsize,
    }

    impl Counting {
        fn new() -> Self {
            let tensors = [
                TensorSpec::new("x", Role::Feature, DType::I64, &[2]),
                TensorSpec::new("y", Role::Label, DType::F32, &[]),
            ];
            Self { tensors, is_interrupted: false, all: AtomicUsize::new(0), single: AtomicUsize::new(0) }
        }

        fn read(record: u64, scratch: &mut Scratch) -> Result<()> {
            if record == UNREADABLE {
                return Err(Error::new(ErrorKind::Io, "unreadable").at_record(record));
            }
            scratch.of::<Vec<u64>>().push(record);
            Ok(())
        }

        fn write(&self, record: u64, scratch: &mut Scratch, row: &mut RowMut<'_>) -> Result<()> {
            assert!(scratch.of::<Vec<u64>>().contains(&record), "record {record} was not read");
            row.tensor(0).i64()?.fill(record as i64);
            if self.is_interrupted && record == 30 {
                return Err(Error::new(ErrorKind::Interrupted, "a key was pressed"));
            }
            assert_ne!(record, PANICS, "as asked for");
            if record == BAD {
                return Err(Error::new(ErrorKind::Data, "bad").at_record(record));
            }
            row.tensor(1).f32()?.fill(3.0 * record as f32);
            Ok(())
        }
    }

    impl RecordReader for Counting {
        fn len(&self) -> u64 {
            40
        }

        fn tensors(&self) -> &[TensorSpec] {
            &self.tensors
        }

        fn fetch(&self, samples: &[u64], nth: usize, scratch: &mut Scratch) -> Result<()> {
            self.single.fetch_add(1, Ordering::Relaxed);
            if nth == 0 {
                scratch.of::<Vec<u64>>().clear();
            }
            Self::read(samples[nth], scratch)
        }

        fn decode(&self, sample: Sample, _: usize, scratch: &mut Scratch, row: &mut RowMut<'_>) -> Result<()> {
            self.single.fetch_add(1, Ordering::Relaxed);
            self.write(sample.id, scratch, row)
        }

        fn fetch_all(&self, job: &mut Job<'_>, scratch: &mut Scratch) {
            self.all.fetch_add(1, Ordering::Relaxed);
            scratch.of::<Vec<u64>>().clear();
            while let Some(nth) = job.advance() {
                job.report(Self::read(job.samples()[nth], scratch));
            }
        }

        fn decode_all(&self, job: &mut Job<'_>, scratch: &mut Scratch, rows: &mut RowsMut<'_>) {
            self.all.fetch_add(1, Ordering::Relaxed);
            while let Some(nth) = job.advance() {
                job.report(self.write(job.samples()[nth], scratch, &mut rows.row(nth)));
            }
        }

        fn is_random(&self) -> bool {
            false
        }

        fn place(&self, sample: u64) -> Location {
            Location { record: Some(sample), ..Location::default() }
        }
    }

    /// The values of each window of a job, `None` for a bad one, and the kinds of errors.
    fn job(windows: &Windowed, samples: &[u64], scratch: &mut Scratch) -> (Vec<Option<Vec<f64>>>, Vec<ErrorKind>) {
        let schema = Schema::new(windows.tensors().to_vec()).unwrap();
        let mut layout = Layout::default();
        layout.compute(&schema, samples.len(), Extents::default()).unwrap();
        let mut memory = vec![u64::MAX; layout.bytes().div_ceil(8)];
        let mut job = Job::new(samples, RandomKey::new(1));
        caught_each(&mut job, |job| windows.fetch_all(job, scratch));
        job.decode_again();
        let mut rows = RowsMut::new(bytemuck::cast_slice_mut(&mut memory), schema.tensors(), &layout, 0..samples.len());
        decode_each(&mut job, |job| windows.decode_all(job, scratch, &mut rows));
        let values = |nth: usize| {
            let mut row = rows.row(nth);
            let x: Vec<f64> = row.tensor(0).i64().unwrap().iter().map(|x| *x as f64).collect();
            x.into_iter().chain(row.tensor(1).f32().unwrap().iter().map(|y| f64::from(*y))).collect()
        };
        let mut values: Vec<_> = (0..samples.len()).map(values).map(Some).collect();
        let faults = job.take_faults();
        faults.iter().for_each(|(nth, _)| values[*nth] = None);
        (values, faults.into_iter().map(|(_, error)| error.kind()).collect())
    }

    #[test]
    fn records_of_a_job_are_read_and_decoded_together_and_bad_ones_spoil_only_their_windows() {
        let of = |record: u64| [UNREADABLE, BAD, PANICS].contains(&record);
        let shuffled = [30, 0, 17, 8, 9, 9, 21, 3, 36, 20];
        let in_order: Vec<u64> = (0..36).collect();
        let mut scratch = Scratch::default();
        for (length, horizon) in [(1, 0), (3, 0), (3, 1), (2, 4)] {
            let placed = Windows::new(length, horizon).placed(40, None).unwrap();
            let reader = Arc::new(Counting::new());
            let windows = Windowed::new(reader.clone(), Arc::new(placed), false, &MemoryBudget::unlimited()).unwrap();
            for samples in [&in_order[..], &shuffled, &[5], &[39, 0]] {
                let samples: Vec<u64> = samples.iter().copied().filter(|sample| *sample < windows.len()).collect();
                let before = [&reader.all, &reader.single].map(|calls| calls.load(Ordering::Relaxed));
                let (values, errors) = job(&windows, &samples, &mut scratch);
                for (sample, values) in samples.iter().zip(values) {
                    let records: Vec<u64> = (*sample..sample + (length + horizon) as u64).collect();
                    let (x, y) = records.split_at(length);
                    let y = if horizon == 0 { x } else { y };
                    let expected = x.iter().flat_map(|n| [*n as f64; 2]).chain(y.iter().map(|n| 3.0 * *n as f64));
                    let is_bad = records.iter().any(|record| of(*record));
                    assert_eq!(values, (!is_bad).then(|| expected.collect()), "window {sample}");
                }
                let calls = [&reader.all, &reader.single].map(|calls| calls.load(Ordering::Relaxed));
                match errors.is_empty() {
                    true => assert_eq!(calls, [before[0] + 2, before[1]]),
                    false => assert!(calls[0] >= before[0] + 2),
                }
            }
        }
    }

    #[test]
    fn without_memory_for_all_records_of_a_job_they_come_one_by_one() {
        let windows = |budget: &MemoryBudget| {
            let placed = Arc::new(Windows::new(3, 1).placed(40, None).unwrap());
            Windowed::new(Arc::new(Counting::new()), placed, false, budget).unwrap()
        };
        let samples = [0, 1, 2, 3, 25, 26];
        let (expected, _) = job(&windows(&MemoryBudget::unlimited()), &samples, &mut Scratch::default());
        for bytes in [270, 300] {
            let budget = MemoryBudget::new(bytes);
            let mut scratch = Scratch::default();
            assert_eq!(job(&windows(&budget), &samples, &mut scratch), (expected.clone(), Vec::new()));
            assert!(!scratch.of::<Worker>().together);
        }
    }

    #[test]
    fn an_interruption_ends_the_job_of_the_windows_too() {
        let placed = Arc::new(Windows::new(3, 1).placed(40, None).unwrap());
        let reader = Arc::new(Counting { is_interrupted: true, ..Counting::new() });
        let windows = Windowed::new(reader, placed, false, &MemoryBudget::unlimited()).unwrap();
        let (_, errors) = job(&windows, &[0, 30, 4], &mut Scratch::default());
        assert_eq!(errors, [ErrorKind::Interrupted]);
    }
}
