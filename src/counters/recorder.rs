use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering, fence};

use super::adding::nanoseconds;
use super::clock::Tick;

/// The work of a thread for some time, or the fill level of the ring at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Plan,
    Bind,
    SlotWait,
    Measure,
    Fill,
    Read,
    Decode,
    Transform,
    Settle,
    Next,
    Wait,
    Step,
    /// The upload thread begins to copy a batch; it waits for one from the loader, or for a copy.
    Upload,
    LoadWait,
    CopyWait,
    /// A copy, from its beginning until the upload thread saw that it was complete. Several may be in progress.
    Copy,
    /// The trainer's `next`, if batches come from a device.
    Take,
    /// Has no duration: how many batches are ready and being filled from then on.
    Levels,
}

impl Kind {
    const ALL: [Self; 18] = [
        Self::Plan,
        Self::Bind,
        Self::SlotWait,
        Self::Measure,
        Self::Fill,
        Self::Read,
        Self::Decode,
        Self::Transform,
        Self::Settle,
        Self::Next,
        Self::Wait,
        Self::Step,
        Self::Upload,
        Self::LoadWait,
        Self::CopyWait,
        Self::Copy,
        Self::Take,
        Self::Levels,
    ];
}

/// The thread of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Track {
    /// The thread that takes this iterator's batches from a device.
    Taker(u32),
    /// The thread that copies this iterator's batches to the device with this number.
    Upload(u16, u16),
    /// The thread that asks this iterator for batches.
    Trainer(u32),
    /// The thread that plans for this iterator.
    Planning(u32),
    Worker(u32),
}

/// Something that was recorded. Times are nanoseconds since the recorder was made.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Event {
    pub(crate) kind: Kind,
    pub(crate) track: Track,
    pub(crate) iterator: u32,
    pub(crate) begin_ns: u64,
    pub(crate) end_ns: u64,
    /// The ticket of its batch; for levels, the number of ready batches.
    pub(crate) batch: Option<u64>,
    /// The number of samples; for levels, the number of batches that are filled.
    pub(crate) count: u32,
}

/// The batch of an event that has none.
const NO_BATCH: u64 = u64::MAX;

/// The last events, in a fixed number of places. Any thread writes to them without waiting.
pub(crate) struct Recorder {
    begin: Tick,
    places: Box<[Place]>,
    next: AtomicU64,
    iterators: AtomicU64,
}

/// A place for an event. The mark is odd while it is written; afterwards it identifies the event.
#[derive(Debug, Default)]
struct Place {
    mark: AtomicU64,
    words: [AtomicU64; WORDS],
}

const WORDS: usize = 5;

impl Recorder {
    pub(crate) fn new(events: usize) -> Self {
        Self {
            begin: Tick::now(),
            places: (0..events.max(1)).map(|_| Place::default()).collect(),
            next: AtomicU64::new(0),
            iterators: AtomicU64::new(0),
        }
    }

    fn since_begin(&self, time: Tick) -> u64 {
        nanoseconds(time.since(self.begin))
    }

    fn put(&self, words: [u64; WORDS]) {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let place = &self.places[(number % self.places.len() as u64) as usize];
        let mark = place.mark.load(Ordering::Relaxed);
        let (writing, written) = (2 * number + 1, 2 * number + 2);
        // If another thread still writes here, a whole round late, or was here a round early, this event is lost.
        if !mark.is_multiple_of(2)
            || mark > writing
            // After everything that the previous writer has written.
            || place.mark.compare_exchange(mark, writing, Ordering::Acquire, Ordering::Relaxed).is_err()
        {
            return;
        }
        fence(Ordering::Release);
        place.words.iter().zip(words).for_each(|(place, word)| place.store(word, Ordering::Relaxed));
        place.mark.store(written, Ordering::Release);
    }

    /// The events that are kept, in the order in which they ended, and the number of events that were dropped.
    pub(crate) fn read(&self) -> (Vec<Event>, u64) {
        let recorded = self.next.load(Ordering::Acquire);
        let first = recorded.saturating_sub(self.places.len() as u64);
        let event = |number: u64| {
            let place = &self.places[(number % self.places.len() as u64) as usize];
            let before = place.mark.load(Ordering::Acquire);
            let words = place.words.each_ref().map(|word| word.load(Ordering::Relaxed));
            fence(Ordering::Acquire);
            let is_whole = before == 2 * number + 2 && place.mark.load(Ordering::Relaxed) == before;
            is_whole.then(|| Event::of(words)).flatten()
        };
        let events: Vec<Event> = (first..recorded).filter_map(event).collect();
        let lost = recorded - events.len() as u64;
        (events, lost)
    }
}

impl fmt::Debug for Recorder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Recorder").field("places", &self.places.len()).field("next", &self.next).finish_non_exhaustive()
    }
}

impl Event {
    fn of([begin_ns, end_ns, batch, about, who]: [u64; WORDS]) -> Option<Self> {
        let (iterator, number) = ((who >> 32) as u32, who as u32);
        let track = match about >> 40 {
            0 => Track::Trainer(number),
            1 => Track::Planning(number),
            2 => Track::Worker(number),
            3 => Track::Upload((number >> 16) as u16, number as u16),
            _ => Track::Taker(number),
        };
        let kind = *Kind::ALL.get((about >> 32) as usize & 0xff)?;
        let batch = (batch != NO_BATCH).then_some(batch);
        Some(Self { kind, track, iterator, begin_ns, end_ns, batch, count: about as u32 })
    }

    fn words(self) -> [u64; WORDS] {
        let (who, number) = match self.track {
            Track::Trainer(number) => (0, number),
            Track::Planning(number) => (1, number),
            Track::Worker(number) => (2, number),
            Track::Upload(iterator, device) => (3, u32::from(iterator) << 16 | u32::from(device)),
            Track::Taker(number) => (4, number),
        };
        let about = who << 40 | (self.kind as u64) << 32 | u64::from(self.count);
        let batch = self.batch.unwrap_or(NO_BATCH);
        [self.begin_ns, self.end_ns, batch, about, u64::from(self.iterator) << 32 | u64::from(number)]
    }
}

/// Records the events of one iterator's batches.
#[derive(Clone, Debug)]
pub(crate) struct Tracer {
    recorder: Arc<Recorder>,
    iterator: u32,
}

/// A batch whose events are recorded, and its number there.
#[derive(Clone, Debug)]
pub(crate) struct Traced {
    pub(crate) tracer: Tracer,
    pub(crate) batch: u64,
}

impl Traced {
    pub(crate) fn record(&self, kind: Kind, track: Track, span: (Tick, Tick), samples: usize) {
        self.tracer.record(kind, track, span, Some(self.batch), samples);
    }
}

/// The times of a job: the whole job, the time at which it had read, and its reads and transforms after that.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Spans {
    pub(crate) begin: Tick,
    pub(crate) read: Tick,
    pub(crate) read_late: Option<(Tick, Tick)>,
    pub(crate) transformed: Option<(Tick, Tick)>,
    pub(crate) end: Tick,
}

impl Spans {
    /// Time that each of the job's `rows` rows took, in nanoseconds.
    pub(crate) fn row_ns(&self, rows: usize) -> u64 {
        nanoseconds(self.end.since(self.begin)) / rows.max(1) as u64
    }
}

impl Tracer {
    /// The tracer of the next iterator.
    pub(crate) fn new(recorder: Arc<Recorder>) -> Self {
        let iterator = recorder.iterators.fetch_add(1, Ordering::Relaxed) as u32;
        Self { recorder, iterator }
    }

    pub(crate) fn trainer(&self) -> Track {
        Track::Trainer(self.iterator)
    }

    pub(crate) fn planning(&self) -> Track {
        Track::Planning(self.iterator)
    }

    pub(crate) fn upload(&self, device: u16) -> Track {
        Track::Upload(self.iterator as u16, device)
    }

    pub(crate) fn taker(&self) -> Track {
        Track::Taker(self.iterator)
    }

    pub(crate) fn record(
        &self,
        kind: Kind,
        track: Track,
        (begin, end): (Tick, Tick),
        batch: Option<u64>,
        samples: usize,
    ) {
        let (begin_ns, end_ns) = (self.recorder.since_begin(begin), self.recorder.since_begin(end));
        let count = u32::try_from(samples).unwrap_or(u32::MAX);
        let event = Event { kind, track, iterator: self.iterator, begin_ns, end_ns, batch, count };
        self.recorder.put(event.words());
    }

    /// A job on some samples of a batch is done.
    pub(crate) fn record_job(&self, track: Track, spans: Spans, batch: u64, samples: usize) {
        let record = |kind, span| self.record(kind, track, span, Some(batch), samples);
        record(Kind::Fill, (spans.begin, spans.end));
        record(Kind::Read, (spans.begin, spans.read));
        record(Kind::Decode, (spans.read, spans.end));
        if let Some(span) = spans.read_late {
            record(Kind::Read, span);
        }
        if let Some(span) = spans.transformed {
            record(Kind::Transform, span);
        }
    }

    /// Records how many batches are ready and being filled from now on.
    pub(crate) fn record_levels(&self, now: Tick, ready: usize, filling: usize) {
        self.record(Kind::Levels, self.trainer(), (now, now), Some(ready as u64), filling);
    }
}

#[cfg(all(test, not(ringfeed_loom)))]
mod tests {
    use std::time::Duration;

    use super::*;

    const TRACKS: [Track; 5] =
        [Track::Trainer(0), Track::Planning(0), Track::Worker(4096), Track::Upload(7, 65535), Track::Taker(3)];

    #[test]
    fn events_come_back_as_they_were_and_the_oldest_go() {
        let tracer = Tracer::new(Arc::new(Recorder::new(10)));
        assert_eq!(Tracer::new(tracer.recorder.clone()).iterator, 1);
        let begin = tracer.recorder.begin;
        let at = |ns| begin + Duration::from_nanos(ns);
        for (nth, kind) in Kind::ALL.into_iter().enumerate() {
            let track = TRACKS[nth % 5];
            let batch = (nth % 2 == 0).then_some(nth as u64);
            tracer.record(kind, track, (at(nth as u64), at(u64::from(u32::MAX) * 9)), batch, nth * 1000);
        }
        let (events, lost) = tracer.recorder.read();
        assert_eq!((events.len(), lost), (10, 8));
        for (event, nth) in events.iter().zip(8..) {
            assert_eq!((event.kind, event.begin_ns), (Kind::ALL[nth as usize], nth));
            assert_eq!((event.end_ns, u64::from(event.count)), (u64::from(u32::MAX) * 9, nth * 1000));
            assert_eq!(event.batch, nth.is_multiple_of(2).then_some(nth));
            assert_eq!(event.track, TRACKS[nth as usize % 5]);
        }
    }

    #[test]
    fn no_event_is_made_of_two_however_many_threads_write() {
        let recorder = Arc::new(Recorder::new(7));
        std::thread::scope(|scope| {
            for worker in 0..4 {
                let tracer = Tracer::new(recorder.clone());
                scope.spawn(move || {
                    for nth in 0..5000 {
                        let time = tracer.recorder.begin + Duration::from_nanos(nth);
                        tracer.record(Kind::Fill, Track::Worker(worker), (time, time), Some(nth), nth as usize);
                    }
                });
            }
            for _ in 0..1000 {
                let (events, _) = recorder.read();
                for event in events {
                    let parts = [event.begin_ns, event.end_ns, event.count.into()];
                    assert!(parts.iter().all(|part| Some(*part) == event.batch), "{event:?}");
                }
            }
        });
        let (events, lost) = recorder.read();
        assert_eq!(events.len() as u64 + lost, 20_000);
        assert!(!events.is_empty());
    }
}
