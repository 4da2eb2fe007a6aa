use std::collections::VecDeque;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use crossbeam_channel::{Receiver, bounded};

use crate::caught::caught;
use crate::counters::{Histogram, Kind, Tick, Traced, Tracer};
use crate::error::{Error, ErrorKind, Result};
use crate::schema::Schema;
use crate::sync::{AtomicU64, Ordering};

use super::Device;
use super::aboard::HostBatch;
use super::batch::{DeviceDataSet, Hands};
use super::engine::{Engine, KEY};
use super::exchange::{Exchange, Loaded, Uploaded};
use super::flight::Flight;
use super::plan::Plan;
use super::slot::Slot;

/// Longest wait that can be added to a clock.
pub(super) const LONGEST_WAIT: Duration = Duration::from_secs(1 << 32);

/// How a lane is set up.
#[derive(Clone, Copy, Debug)]
pub(super) struct LaneConfig {
    /// Slots on the device.
    pub(super) slots: usize,
    /// Most copies that are under way at once.
    pub(super) queued: usize,
    pub(super) lease_wait: Duration,
    pub(super) close_wait: Duration,
}

/// Figures of a lane, written by its thread.
#[derive(Debug, Default)]
pub(super) struct LaneCounters {
    pub(super) batches: AtomicU64,
    pub(super) samples: AtomicU64,
    pub(super) bytes: AtomicU64,
    pub(super) grown: AtomicU64,
    /// Time that the thread waited for host batches, for device slots, and for copies to finish.
    pub(super) load_wait_ns: AtomicU64,
    pub(super) slot_wait_ns: AtomicU64,
    pub(super) copy_wait_ns: AtomicU64,
    /// How long each batch's copy took, and how long each batch waited for a device slot.
    pub(super) upload_ns: AtomicU64,
    pub(super) uploads: Histogram,
    pub(super) slot_waits: Histogram,
}

/// A device's thread, which starts copies and returns host slots, and the batches that it gives.
pub(super) struct Lane<D: Device> {
    pub(super) device: D,
    exchange: Arc<Hands<D>>,
    plan: Arc<Plan>,
    counters: Arc<LaneCounters>,
    /// Disconnected when the thread has ended.
    ended: Receiver<()>,
    close_wait: Duration,
}

impl<D: Device> Lane<D> {
    /// Starts the thread; `nth` is the device's number among several.
    pub(super) fn start(device: D, nth: u16, plan: Arc<Plan>, config: LaneConfig) -> Result<Self> {
        let engine = device.engine(KEY);
        let copies = device.stream()?;
        let converts = if plan.converts() { device.stream()? } else { copies.clone() };
        let slots = (0..config.slots).map(|_| Slot::new(engine, &copies, &converts)).collect::<Result<_>>()?;
        let exchange = Arc::new(Exchange::new(device.name(), slots, config.lease_wait));
        // One more than there may be copies, so that a batch can start while the thread waits for the oldest.
        let events = (0..=config.queued).map(|_| engine.event()).collect::<Result<Vec<_>>>()?;
        let counters = Arc::new(LaneCounters::default());
        let (alive, ended) = bounded(0);
        let thread = Thread {
            device: device.clone(),
            nth,
            tracer: None,
            exchange: exchange.clone(),
            plan: plan.clone(),
            counters: counters.clone(),
            flights: VecDeque::with_capacity(config.queued),
            events,
            queued: config.queued,
        };
        thread::Builder::new()
            .name("ringfeed-upload".to_owned())
            .spawn(move || {
                let over = Over::<D>(thread.exchange.clone());
                // A panic comes from a device, from freeing a batch's memory, or from a bug here.
                if let Err(error) = caught(|| {
                    thread.run();
                    Ok(())
                }) {
                    tracing::error!(%error, "the upload thread panicked");
                }
                // Whoever waits for this thread is then the last owner of the device.
                drop(over);
                drop(alive);
            })
            .map_err(|error| Error::new(ErrorKind::Device, format!("no upload thread: {error}")))?;
        Ok(Self { device, exchange, plan, counters, ended, close_wait: config.close_wait })
    }

    /// The exchange between the lane's thread and its users.
    pub(super) fn exchange(&self) -> &Arc<Hands<D>> {
        &self.exchange
    }

    /// The tensors of its batches.
    pub(super) fn schema(&self) -> &Arc<Schema> {
        &self.plan.given
    }

    pub(super) fn counters(&self) -> &Arc<LaneCounters> {
        &self.counters
    }

    /// Waits for the next item of this run. Errors are [`ErrorKind::Exhausted`], which is not an item of the run, and
    /// [`ErrorKind::Device`] if the thread has ended.
    pub(super) fn next(&self) -> Result<Uploaded<DeviceDataSet<D>>> {
        let mut item = self.exchange.next()?;
        if let Some((Ok(batch), _)) = &mut item {
            batch.mark_held();
        }
        Ok(item)
    }

    /// Waits while the caller holds all slots; [`ErrorKind::Exhausted`] after `lease_wait`.
    pub(super) fn wait_for_slot(&self) -> Result<()> {
        self.exchange.wait_for_one()
    }
}

impl<D: Device> Drop for Lane<D> {
    fn drop(&mut self) {
        self.exchange.close();
        if self.ended.recv_timeout(self.close_wait).is_err_and(|error| error.is_timeout()) {
            let device = self.device.name();
            tracing::warn!(device, "an upload did not end in time; its thread ends when its copies do");
        }
    }
}

/// Makes sure that no thread waits for the lane's thread after it has ended, for any reason.
struct Over<D: Device>(Arc<Hands<D>>);

impl<D: Device> Drop for Over<D> {
    fn drop(&mut self) {
        self.0.end();
    }
}

/// A copy under way, and when it began.
struct Aloft<D: Device> {
    flight: Flight<D::Engine, HostBatch>,
    begun: Tick,
    traced: Option<Traced>,
}

/// The upload thread. It owns the batches that are being copied, the oldest first, and waits until the oldest is
/// complete. It waits for a new batch only if no copy is under way.
struct Thread<D: Device> {
    device: D,
    nth: u16,
    /// The tracer of the last batch.
    tracer: Option<Tracer>,
    exchange: Arc<Hands<D>>,
    plan: Arc<Plan>,
    counters: Arc<LaneCounters>,
    flights: VecDeque<Aloft<D>>,
    /// Events for the next flights.
    events: Vec<<D::Engine as Engine>::Event>,
    queued: usize,
}

impl<D: Device> Thread<D> {
    fn run(mut self) {
        while let Some((run, item)) = self.next() {
            let item = match item {
                None => None,
                Some((Err(error), state)) => Some((Err(error), state)),
                Some((Ok(batch), state)) => {
                    let Some(slot) = self.slot(run) else { continue };
                    Some((self.upload(batch, slot), state))
                }
            };
            self.give(run, item);
        }
        self.land_all();
    }

    /// The next item; `None` if no more will come.
    fn next(&mut self) -> Option<(u64, Loaded<HostBatch>)> {
        loop {
            if self.flights.is_empty() {
                let begin = Tick::now();
                let item = self.exchange.receive();
                add(&self.counters.load_wait_ns, begin);
                self.meet(&item);
                self.record(Kind::LoadWait, begin);
                return item;
            }
            if self.flights.len() < self.queued
                && let item @ Some(_) = self.exchange.try_receive()
            {
                self.meet(&item);
                return item;
            }
            self.land_oldest();
        }
    }

    /// A free slot; `None` if its batch is no longer needed. Host batches are returned meanwhile.
    fn slot(&mut self, run: u64) -> Option<Slot<D::Engine>> {
        let mut waited = Duration::ZERO;
        let slot = loop {
            if let Some(slot) = self.exchange.try_take() {
                break Some(slot);
            }
            if self.flights.is_empty() {
                let begin = Tick::now();
                let slot = self.exchange.take(run);
                waited = begin.elapsed();
                count(&self.counters.slot_wait_ns, waited);
                self.record(Kind::SlotWait, begin);
                break slot;
            }
            self.land_oldest();
        };
        if slot.is_some() {
            self.counters.slot_waits.record_alone(waited);
        }
        slot
    }

    /// Takes the tracer of this batch, if it has one.
    fn meet(&mut self, item: &Option<(u64, Loaded<HostBatch>)>) {
        if let Some((_, Some((Ok(batch), _)))) = item {
            self.tracer = batch.batch.traced().map(|traced| traced.tracer);
        }
    }

    fn record(&self, kind: Kind, begin: Tick) {
        if let Some(tracer) = &self.tracer {
            tracer.record(kind, tracer.upload(self.nth), (begin, Tick::now()), None, 0);
        }
    }

    fn upload(&mut self, batch: HostBatch, mut slot: Slot<D::Engine>) -> Result<DeviceDataSet<D>> {
        match self.start(batch, &mut slot) {
            Ok(()) => Ok(DeviceDataSet::new(self.device.clone(), slot, self.exchange.clone(), self.plan.clone())),
            Err(error) => {
                self.exchange.give_back(slot, false);
                Err(error)
            }
        }
    }

    fn start(&mut self, batch: HostBatch, slot: &mut Slot<D::Engine>) -> Result<()> {
        self.plan.describe(&batch.batch, &mut slot.about)?;
        if slot.begin(slot.about.bytes)? {
            self.counters.grown.fetch_add(1, Ordering::Relaxed);
        }
        let landed = match self.events.pop() {
            Some(event) => event,
            None => slot.device.event()?,
        };
        let (samples, bytes) = (batch.batch.len() as u64, slot.about.copied as u64);
        slot.about.traced = batch.batch.traced();
        let (begun, traced) = (Tick::now(), slot.about.traced.clone());
        let flight = Flight::start(batch, slot, landed)?;
        let converted = flight.convert(slot);
        if let Some(traced) = &traced {
            let track = traced.tracer.upload(self.nth);
            traced.record(Kind::Upload, track, (begun, Tick::now()), samples as usize);
        }
        self.flights.push_back(Aloft { flight, begun, traced });
        converted?;
        self.counters.batches.fetch_add(1, Ordering::Relaxed);
        self.counters.samples.fetch_add(samples, Ordering::Relaxed);
        self.counters.bytes.fetch_add(bytes, Ordering::Relaxed);
        Ok(())
    }

    fn land_oldest(&mut self) {
        let Some(Aloft { flight, begun, traced }) = self.flights.pop_front() else { return };
        let begin = Tick::now();
        // If the device breaks here, starting the next batch reports it, and so does everything that uses this one.
        let landed = flight.land();
        let now = Tick::now();
        if let Ok(event) = landed {
            self.events.push(event);
            let taken = now.since(begun);
            count(&self.counters.upload_ns, taken);
            self.counters.uploads.record_alone(taken);
        }
        count(&self.counters.copy_wait_ns, now.since(begin));
        if let Some(traced) = traced {
            let track = traced.tracer.upload(self.nth);
            traced.record(Kind::CopyWait, track, (begin, now), 0);
            traced.record(Kind::Copy, track, (begun, now), 0);
        }
    }

    fn land_all(&mut self) {
        while !self.flights.is_empty() {
            self.land_oldest();
        }
    }

    fn give(&mut self, run: u64, item: Uploaded<DeviceDataSet<D>>) {
        if let Some(item) = self.exchange.try_give(run, item) {
            // The trainer may take nothing for any length of time, so host batches are returned meanwhile.
            self.land_all();
            self.exchange.give(run, item);
        }
    }
}

fn add(counter: &AtomicU64, since: Tick) {
    count(counter, since.elapsed());
}

fn count(counter: &AtomicU64, time: Duration) {
    counter.fetch_add(time.as_nanos() as u64, Ordering::Relaxed);
}
