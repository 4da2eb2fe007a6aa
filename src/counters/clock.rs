use std::ops::Add;
use std::time::Duration;

use super::adding::nanoseconds;
use crate::system::{monotonic, thread_cpu};

/// A reading of the clock, and possibly of this thread's processor time.
///
/// Reading the processor time costs a system call (0.2 us), reading the clock none: workers read the processor time
/// only now and then.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Lap {
    wall: Tick,
    cpu: Option<Duration>,
}

/// Time spent between two readings.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Spent {
    pub(crate) wall: Duration,
    pub(crate) cpu: Option<Duration>,
}

/// A point in time, in nanoseconds of the system's monotonic clock.
///
/// Handing over a batch takes about twenty differences of times, each of which is a single subtraction here. With the
/// standard library's `Instant`, they were a fifteenth of the time of handing over a small batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Tick(u64);

impl Tick {
    #[inline]
    pub(crate) fn now() -> Self {
        Self(monotonic())
    }

    /// The time since `earlier`; zero if that is later.
    #[inline]
    pub(crate) fn since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }

    #[inline]
    pub(crate) fn elapsed(self) -> Duration {
        Self::now().since(self)
    }
}

impl Add<Duration> for Tick {
    type Output = Self;

    #[inline]
    fn add(self, time: Duration) -> Self {
        Self(self.0.saturating_add(nanoseconds(time)))
    }
}

/// The time, for statistics. It stands still in builds that measure what statistics cost (`benches/statistics.rs`).
#[inline]
pub(crate) fn now() -> Tick {
    if cfg!(ringfeed_uncounted) { Tick(0) } else { Tick::now() }
}

impl Lap {
    /// A lap at a time that was read before, without processor time.
    pub(crate) fn of(wall: Tick) -> Self {
        Self { wall, cpu: None }
    }

    pub(crate) fn now(with_cpu: bool) -> Self {
        Self { wall: now(), cpu: if with_cpu { thread_cpu() } else { None } }
    }

    /// The time of the lap.
    pub(crate) fn at(self) -> Tick {
        self.wall
    }

    /// The time spent from here to `later`.
    pub(crate) fn to(self, later: Self) -> Spent {
        Spent {
            wall: later.wall.since(self.wall),
            cpu: self.cpu.zip(later.cpu).map(|(from, to)| to.saturating_sub(from)),
        }
    }

    /// Reads the same clocks again.
    pub(crate) fn again(self) -> Self {
        Self::now(self.cpu.is_some())
    }

    /// The time spent from here to now.
    pub(crate) fn elapsed(self) -> Spent {
        self.to(self.again())
    }
}

impl Spent {
    pub(crate) fn plus(self, other: Self) -> Self {
        let cpu = self.cpu.map_or(other.cpu, |cpu| Some(cpu + other.cpu.unwrap_or_default()));
        Self { wall: self.wall + other.wall, cpu }
    }

    /// The part of this time that took `wall`, with its share of the processor time.
    pub(crate) fn part(self, wall: Duration) -> Self {
        let wall = wall.min(self.wall);
        let share = if wall.is_zero() { 0.0 } else { wall.as_secs_f64() / self.wall.as_secs_f64() };
        Self { wall, cpu: self.cpu.map(|cpu| cpu.mul_f64(share)) }
    }

    /// This, less a part of it.
    pub(crate) fn minus(self, part: Self) -> Self {
        let cpu = self.cpu.map(|cpu| cpu.saturating_sub(part.cpu.unwrap_or_default()));
        Self { wall: self.wall.saturating_sub(part.wall), cpu }
    }
}
