//! The counters that working threads write; `stats` reads them.
//!
//! Nothing here allocates or waits while batches are made: numbers are added up, times go into histograms of fixed
//! size, and the few slowest samples into a table of fixed size.

mod adding;
mod bytes_read;
mod clock;
mod concurrency;
mod damage;
mod histogram;
mod inside;
mod queue;
mod recorder;
mod slowest;
mod stage;
mod timeline;
mod totals;
mod trainer;

pub(crate) use adding::{add, add_alone, nanoseconds};
pub(crate) use bytes_read::BytesRead;
pub(crate) use clock::{Lap, Spent, Tick, now};
pub(crate) use concurrency::Concurrency;
pub(crate) use damage::{Damage, DamageTally, Damages};
pub(crate) use histogram::{BUCKETS, Histogram, bounds_of};
pub(crate) use inside::Inside;
#[cfg(feature = "images")]
pub(crate) use inside::{Resizing, uncounted};
pub(crate) use queue::QueueCounter;
pub(crate) use recorder::{Event, Kind, Recorder, Spans, Traced, Tracer, Track};
pub(crate) use slowest::Slow;
pub(crate) use stage::StageCounter;
pub(crate) use timeline::{Moment, Stretches, Timeline};
pub(crate) use totals::Counters;
pub(crate) use trainer::{TrainerClock, TrainerCounter};
