use std::time::{Duration, Instant};

/// A look at the clock, and perhaps at this thread's processor time.
///
/// Processor time costs a call of the kernel (0.2 us), the clock none: workers look at it once in a while only.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Lap {
    wall: Instant,
    cpu: Option<Duration>,
}

/// Time spent between two readings.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Spent {
    pub(crate) wall: Duration,
    pub(crate) cpu: Option<Duration>,
}

/// The time, for statistics. It stands still in builds that measure what statistics cost (`benches/statistics.rs`).
#[inline]
pub(crate) fn now() -> Instant {
    #[cfg(ringfeed_uncounted)]
    {
        static BEGIN: std::sync::OnceLock<Instant> = std::sync::OnceLock::new();
        *BEGIN.get_or_init(Instant::now)
    }
    #[cfg(not(ringfeed_uncounted))]
    Instant::now()
}

impl Lap {
    /// A lap at a time that was read before, without processor time.
    pub(crate) fn of(wall: Instant) -> Self {
        Self { wall, cpu: None }
    }

    pub(crate) fn now(with_cpu: bool) -> Self {
        Self { wall: now(), cpu: if with_cpu { thread_cpu() } else { None } }
    }

    /// When it was.
    pub(crate) fn at(self) -> Instant {
        self.wall
    }

    /// What was spent from here to `later`.
    pub(crate) fn to(self, later: Self) -> Spent {
        Spent {
            wall: later.wall.saturating_duration_since(self.wall),
            cpu: self.cpu.zip(later.cpu).map(|(from, to)| to.saturating_sub(from)),
        }
    }

    /// Reads the same clocks again.
    pub(crate) fn again(self) -> Self {
        Self::now(self.cpu.is_some())
    }

    /// What was spent from here to now.
    pub(crate) fn elapsed(self) -> Spent {
        self.to(self.again())
    }
}

impl Spent {
    pub(crate) fn plus(self, other: Self) -> Self {
        let cpu = self.cpu.map_or(other.cpu, |cpu| Some(cpu + other.cpu.unwrap_or_default()));
        Self { wall: self.wall + other.wall, cpu }
    }

    /// The part of this that took so long, with its share of the processor time.
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

/// Processor time of the calling thread; `None` if the system does not tell.
pub(crate) fn thread_cpu() -> Option<Duration> {
    #[cfg(unix)]
    return Duration::try_from(rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime)).ok();
    #[cfg(not(unix))]
    None
}

/// Processor time of all threads of this process; `None` if the system does not tell.
pub(crate) fn process_cpu() -> Option<Duration> {
    #[cfg(unix)]
    return Duration::try_from(rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime)).ok();
    #[cfg(not(unix))]
    None
}
