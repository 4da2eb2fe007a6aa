use std::fmt;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, Sender, bounded, never};

use crate::caught::caught;
use crate::counters::{Kind, Tick, Traced, TrainerClock};
use crate::dataset::{BadRecord, ByEpoch, DataSetIterator, Epoch, Epochs, Report, State};
use crate::error::{Error, ErrorKind, Result};
use crate::schema::Schema;
use crate::stats::{Figures as _, Stats, StatsHandle};
use crate::sync::Mutex;

use super::Device;
use super::aboard::{Aboard, HostBatch};
use super::batch::{DeviceDataSet, Hands};
use super::exchange::Loaded;
use super::lane::{LONGEST_WAIT, Lane};
use super::stats::{UploadFigures, UploadStats};

/// Batches of any [`DataSetIterator`] on a device, uploaded ahead of the trainer, in the same order.
///
/// Two threads work for it: one calls the iterator's `next`, the other starts copies and frees host slots when their
/// copies are done. If the iterator's ring has no spare slot for copies (`prefetch` below 2), making batches and
/// copying them alternate.
///
/// `next` returns a batch as soon as its copy is queued; the trainer's stream waits for the copy, the trainer does not.
/// Errors, the end of an epoch, [`reset`](Self::reset), [`seek`](Self::seek) and [`state`](Self::state) are those of
/// the inner iterator, as if it were called directly. If you keep as many batches as there are device slots, `next`
/// returns [`ErrorKind::Exhausted`]: drop a batch and continue.
pub struct DeviceDataSetIterator<D: Device> {
    /// Disconnected when the thread that feeds the lanes has ended, at the end of the epoch or because its run is not
    /// wanted any more.
    feeder: Option<Receiver<()>>,
    inside: Inside,
    figures: Arc<UploadFigures<D>>,
    /// The bad records that the inner iterator reported last.
    bad_records: Mutex<Vec<BadRecord>>,
    schema: Arc<Schema>,
    batches_per_epoch: Option<u64>,
    lanes: Vec<Lane<D>>,
    aboard: Arc<Aboard>,
    /// Number of the run, which every reset increases: items of earlier runs are dropped.
    run: u64,
    /// The lane of the run's first item, when it is known: batch `n` of an epoch has lane `n` modulo their number.
    first: Option<usize>,
    /// Gives the lane of the first item of a run that begins in the middle of an epoch.
    found: Receiver<usize>,
    /// Number of items of this run that were taken.
    taken: usize,
    /// Whether the epoch has given anything, so that a reset begins the next one.
    has_begun: bool,
    has_ended: bool,
    /// The last answer was `None`.
    is_silent: bool,
    /// Whether the trainer got an item since the last reset or seek.
    has_asked: bool,
    state: State,
    clock: TrainerClock,
    /// When the last batch was given, if there is a trace.
    given: Option<(Tick, Traced)>,
    close_wait: Duration,
}

impl<D: Device> DeviceDataSetIterator<D> {
    pub(super) fn new(batches: Box<dyn DataSetIterator>, lanes: Vec<Lane<D>>, close_wait: Duration) -> Result<Self> {
        let mut iterator = Self {
            feeder: None,
            schema: batches.schema().clone(),
            batches_per_epoch: batches.batches_per_epoch(),
            state: batches.state(),
            figures: Arc::new(UploadFigures::new(batches.stats_handle(), batches.stats(), &lanes)),
            bad_records: Mutex::default(),
            inside: Inside::new(batches),
            lanes,
            aboard: Aboard::new(),
            run: 0,
            first: None,
            found: never(),
            taken: 0,
            has_begun: false,
            has_asked: false,
            has_ended: false,
            is_silent: false,
            clock: TrainerClock::default(),
            given: None,
            close_wait,
        };
        iterator.feed()?;
        Ok(iterator)
    }

    /// Begins a run, unless a run has begun.
    fn feed(&mut self) -> Result<()> {
        if self.feeder.is_some() {
            return Ok(());
        }
        self.begin_run();
        self.taken = 0;
        self.first = (self.lanes.len() == 1 || self.state.position == 0).then_some(0);
        let (place, found) = bounded(1);
        self.found = found;
        let place = self.first.is_none().then_some(place);
        let mut feed = Feed {
            inside: self.inside.clone(),
            lanes: self.lanes.iter().map(|lane| lane.exchange().clone()).collect(),
            aboard: self.aboard.clone(),
            run: self.run,
            state: self.state,
        };
        let (alive, ended) = bounded(0);
        thread::Builder::new()
            .name("ringfeed-feed".to_owned())
            .spawn(move || {
                feed.run(place);
                drop((feed, alive));
            })
            .map_err(|error| Error::new(ErrorKind::Device, format!("no thread that feeds the upload: {error}")))?;
        self.feeder = Some(ended);
        Ok(())
    }

    /// Ends the run, and drops all batches that it has loaded or uploaded.
    fn stop(&mut self) -> Result<()> {
        self.has_ended = true;
        // If no run begins, the next answer is an error.
        self.is_silent = true;
        let Some(ended) = self.feeder.clone() else { return Ok(()) };
        self.begin_run();
        if ended.recv_timeout(self.close_wait).is_err_and(|error| error.is_timeout()) {
            return Err(self.stuck());
        }
        self.feeder = None;
        Ok(())
    }

    fn begin_run(&mut self) {
        self.run += 1;
        self.aboard.begin_run(self.run);
        self.lanes.iter().for_each(|lane| lane.exchange().begin_run(self.run));
    }

    /// The batches of the next epoch; see [`DataSetIterator::epoch`].
    ///
    /// # Errors
    ///
    /// As [`reset`](Self::reset).
    pub fn epoch(&mut self) -> Result<Epoch<'_, Self>> {
        Epoch::begin(self)
    }

    /// `count` epochs, one after another; see [`DataSetIterator::epochs`].
    pub fn epochs(&mut self, count: u64) -> Epochs<'_, Self> {
        Epochs::new(self, count)
    }

    /// Waits at most `time` until `next` can return without waiting, and returns whether it can; see
    /// [`DataSetIterator::ready_within`].
    pub fn ready_within(&mut self, time: Duration) -> bool {
        if self.has_ended {
            return true;
        }
        let (time, since) = (time.min(LONGEST_WAIT), Instant::now());
        let is_ready =
            self.find_lane(time) && self.lane().exchange().is_ready_within(time.saturating_sub(since.elapsed()));
        self.figures.sum_waits();
        is_ready
    }

    /// Waits at most `time` until the lane of the next item is known, and returns whether it is.
    fn find_lane(&mut self, time: Duration) -> bool {
        if self.first.is_none() {
            let since = Tick::now();
            let found = self.found.recv_timeout(time);
            self.lanes[0].exchange().trainer_waited(since);
            // If there is no thread any more, any lane says so.
            self.first = found.map_or_else(|error| error.is_disconnected().then_some(0), Some);
        }
        self.first.is_some()
    }

    /// The lane of the next item.
    fn lane(&self) -> &Lane<D> {
        let first = self.first.unwrap_or_default();
        &self.lanes[(first + self.taken) % self.lanes.len()]
    }

    /// Begins the next epoch; does nothing before the first batch of an epoch. Batches that the caller still holds do
    /// not change.
    ///
    /// # Errors
    ///
    /// Those of [`DataSetIterator::reset`] of the inner iterator.
    pub fn reset(&mut self) -> Result<()> {
        if !self.has_begun && !self.has_ended {
            return Ok(());
        }
        self.stop()?;
        // If a seek failed before anything of the epoch was taken, the inner iterator may have given some of it.
        let (has_begun, state) = (self.has_begun, self.state);
        self.go_on(|batches| if has_begun { batches.reset() } else { batches.seek(&state) })
    }

    /// Resumes at the position right after `state`; see [`DataSetIterator::seek`].
    ///
    /// # Errors
    ///
    /// Those of [`DataSetIterator::seek`] of the inner iterator. This iterator then resumes where it was, if the inner
    /// one can seek there (a source of a single epoch can't). Otherwise `next` returns an error until a seek or reset
    /// succeeds.
    pub fn seek(&mut self, state: &State) -> Result<()> {
        let (had_ended, was_silent, before) = (self.has_ended, self.is_silent, self.state);
        let (had_begun, had_asked) = (self.has_begun, self.has_asked);
        self.stop()?;
        self.go_on(|batches| batches.seek(state)).inspect_err(|_| {
            if had_ended {
                self.is_silent = was_silent;
            } else if let Err(error) = self.go_on(|batches| batches.seek(&before)) {
                // The caller gets the first error.
                tracing::debug!(%error, "no batches after a seek that failed");
            } else {
                (self.has_begun, self.has_asked) = (had_begun, had_asked);
            }
        })
    }

    /// Moves the inner iterator and begins a run there. Until both have succeeded, this iterator has ended.
    fn go_on(&mut self, go: impl FnOnce(&mut dyn DataSetIterator) -> Result<()>) -> Result<()> {
        let mut batches = self.inside.take(self.close_wait).ok_or_else(|| self.stuck())?;
        go(batches.get())?;
        self.state = batches.get().state();
        drop(batches);
        self.feed()?;
        (self.has_begun, self.has_asked) = (self.state.position > 0, false);
        self.has_ended = false;
        Ok(())
    }

    fn stuck(&self) -> Error {
        let message = format!("the loader did not finish its batch within {:?}", self.close_wait);
        Error::new(ErrorKind::TimedOut, message)
    }

    /// The tensors of a sample on the host, before conversions.
    pub fn schema(&self) -> &Arc<Schema> {
        &self.schema
    }

    /// The tensors of a sample on the device, after conversions.
    pub fn device_schema(&self) -> &Arc<Schema> {
        self.lanes[0].schema()
    }

    /// The iterator's position: after the last batch that `next` returned.
    pub fn state(&self) -> State {
        self.state
    }

    /// Number of batches per epoch, if it is known before reading them.
    pub fn batches_per_epoch(&self) -> Option<u64> {
        self.batches_per_epoch
    }

    /// Statistics of the inner iterator, of the upload, and of the trainer that takes batches here: its waiting in
    /// `next` and in [`DeviceDataSet::wait`]. If the inner iterator has no [handle](DataSetIterator::stats_handle) and
    /// is in `next`, this waits for it for at most a second, and then returns its statistics from the last call.
    pub fn stats(&self) -> Stats {
        if self.figures.inside.stats().is_none() {
            self.read_inside();
        }
        self.figures.stats()
    }

    /// A handle with which any thread can read the statistics while this thread works.
    pub fn stats_handle(&self) -> StatsHandle {
        StatsHandle::new(&self.figures)
    }

    /// Statistics of the upload.
    pub fn upload_stats(&self) -> UploadStats {
        self.figures.upload()
    }

    /// The first bad records that were left out or replaced, by name. If the feeding thread is in `next` of the inner
    /// iterator, this waits for it for at most a second, and then returns the bad records of the last call.
    pub fn bad_records(&self) -> Vec<BadRecord> {
        self.read_inside();
        self.bad_records.lock().clone()
    }

    /// A report with all information about the run, to be saved as a page or as data.
    pub fn report(&self) -> Report {
        Report::new(self.stats(), Vec::new(), self.bad_records())
    }

    fn read_inside(&self) {
        if let Some(mut batches) = self.inside.take(FIGURES_WAIT) {
            let (stats, bad_records) = (batches.get().stats(), batches.get().bad_records());
            *self.figures.last.lock() = stats;
            *self.bad_records.lock() = bad_records;
        }
    }
}

/// How long reading statistics waits for the inner iterator.
const FIGURES_WAIT: Duration = Duration::from_secs(1);

/// Where the inner iterator is kept while no thread uses it. A thread that uses it takes it out and holds no lock
/// meanwhile, because the iterator runs user code.
#[derive(Clone)]
struct Inside(Sender<Box<dyn DataSetIterator>>, Receiver<Box<dyn DataSetIterator>>);

impl Inside {
    fn new(batches: Box<dyn DataSetIterator>) -> Self {
        let (put_back, home) = bounded(1);
        drop(InHand { batches: Some(batches), put_back: put_back.clone() });
        Self(put_back, home)
    }

    fn take(&self, wait: Duration) -> Option<InHand> {
        let batches = self.1.recv_timeout(wait).ok()?;
        Some(InHand { batches: Some(batches), put_back: self.0.clone() })
    }
}

/// The inner iterator, which returns to its place when this drops.
struct InHand {
    batches: Option<Box<dyn DataSetIterator>>,
    put_back: Sender<Box<dyn DataSetIterator>>,
}

impl InHand {
    fn get(&mut self) -> &mut dyn DataSetIterator {
        &mut **self.batches.as_mut().expect("it is in hand until it drops")
    }
}

impl Drop for InHand {
    fn drop(&mut self) {
        // There is room for the only iterator. If nobody has the other end any more, it is dropped here.
        let _ = self.batches.take().map(|batches| self.put_back.send(batches));
    }
}

/// The state of the feeding thread.
struct Feed<D: Device> {
    inside: Inside,
    lanes: Vec<Arc<Hands<D>>>,
    aboard: Arc<Aboard>,
    run: u64,
    /// The iterator's state after its last item.
    state: State,
}

impl<D: Device> Feed<D> {
    /// Gives batches to the lanes in turn until the epoch ends, or no more are wanted. `place` gets the lane of the first
    /// one, if that is not lane 0 in any case.
    fn run(&mut self, place: Option<Sender<usize>>) {
        let (mut first, mut loaded) = (0, None);
        if let Some(place) = place {
            let item = self.next();
            if let Some((Ok(batch), _)) = &item {
                first = (batch.batch.index() % self.lanes.len() as u64) as usize;
            }
            loaded = Some(item);
            // Nobody may wait for it any more.
            let _ = place.send(first);
        }
        for turn in first.. {
            let lane = self.lanes[turn % self.lanes.len()].clone();
            // Wait first: the loader can't fill a batch that waits here.
            if !lane.wait_to_load(self.run) {
                return;
            }
            let item = loaded.take().unwrap_or_else(|| self.next());
            let is_last = item.is_none();
            lane.load(self.run, item);
            if is_last {
                return;
            }
        }
    }

    fn next(&mut self) -> Loaded<HostBatch> {
        loop {
            let landed = self.aboard.landed();
            // A panic becomes an item, too, because somebody waits for one.
            let next = caught(|| {
                // A thread that reads statistics may have it for a moment.
                let Some(mut inside) = self.inside.take(LONGEST_WAIT) else { return Ok(None) };
                let batches = inside.get();
                let next = batches.next();
                let state = match &next {
                    Some(Ok(batch)) => batch.state_after(),
                    _ => batches.state(),
                };
                Ok(next.map(|item| (item, state)))
            });
            match next.unwrap_or_else(|panic| Some((Err(panic), self.state))) {
                Some((Err(error), _)) if error.is_wait() && self.aboard.wait_for_more(landed, self.run) => {}
                item => {
                    self.state = item.as_ref().map_or(self.state, |(_, state)| *state);
                    return item.map(|(item, state)| (item.map(|batch| self.aboard.take(batch)), state));
                }
            }
        }
    }
}

impl<D: Device> Iterator for DeviceDataSetIterator<D> {
    type Item = Result<DeviceDataSet<D>>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.has_ended {
            self.is_silent = !self.is_silent;
            return (!self.is_silent).then(|| Err(Error::epoch_ended()));
        }
        self.figures.sum_waits();
        let entered = self.clock.enter(&self.figures.trainer);
        self.find_lane(LONGEST_WAIT);
        let next = self.lane().next();
        self.figures.sum_waits();
        let batch = next.as_ref().ok().and_then(|item| item.as_ref()?.0.as_ref().ok());
        let now = self.clock.leave(&self.figures.trainer, batch.is_some());
        if let Some((given, traced)) = self.given.take() {
            traced.record(Kind::Step, traced.tracer.taker(), (given, entered), 0);
        }
        if let Some((batch, traced)) = batch.and_then(|batch| Some((batch, batch.traced()?.clone()))) {
            traced.record(Kind::Take, traced.tracer.taker(), (entered, now), batch.len());
            self.given = Some((now, traced));
        }
        match next {
            // This is not an item of the epoch and takes no item's place.
            Err(error) => Some(Err(error)),
            Ok(None) => {
                self.has_begun = true;
                self.has_ended = true;
                self.is_silent = true;
                None
            }
            Ok(Some((item, state))) => {
                self.taken += 1;
                (self.has_begun, self.has_asked) = (true, true);
                self.state = state;
                Some(item)
            }
        }
    }
}

impl<D: Device> ByEpoch for DeviceDataSetIterator<D> {
    type Batch = DeviceDataSet<D>;

    fn begin_epoch(&mut self) -> Result<()> {
        if !self.has_asked && !self.has_ended { Ok(()) } else { self.reset() }
    }
}

impl<D: Device> Drop for DeviceDataSetIterator<D> {
    fn drop(&mut self) {
        if let Err(error) = self.stop() {
            tracing::warn!(%error, "the thread that feeds the upload is left behind");
        }
    }
}

impl<D: Device> fmt::Debug for DeviceDataSetIterator<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let devices: Vec<String> = self.lanes.iter().map(|lane| lane.device.name()).collect();
        write!(f, "DeviceDataSetIterator({devices:?}, {:?})", self.state)
    }
}
