//! The locks and threads that hand memory over: the standard library's, or loom's under `--cfg ringfeed_loom`.
//!
//! A panic while a lock is held leaves the lock usable: user code never runs under one of them.

#[cfg(not(ringfeed_loom))]
pub(crate) use std::{
    cell::UnsafeCell as StdUnsafeCell,
    sync::{
        Arc, MutexGuard,
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering},
    },
};

#[cfg(ringfeed_loom)]
pub(crate) use loom::sync::{
    Arc, MutexGuard,
    atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering},
};

#[cfg(not(ringfeed_loom))]
type RawMutex<T> = std::sync::Mutex<T>;
#[cfg(not(ringfeed_loom))]
type RawCondvar = std::sync::Condvar;
#[cfg(ringfeed_loom)]
type RawMutex<T> = loom::sync::Mutex<T>;
#[cfg(ringfeed_loom)]
type RawCondvar = loom::sync::Condvar;

use std::time::{Duration, Instant};

/// A mutex without poisoning.
#[derive(Debug)]
pub(crate) struct Mutex<T>(RawMutex<T>);

impl<T> Mutex<T> {
    pub(crate) fn new(value: T) -> Self {
        Self(RawMutex::new(value))
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
        self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// The value, without locking: no other thread can have it.
    pub(crate) fn get_mut(&mut self) -> &mut T {
        self.0.get_mut().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

impl<T: Default> Default for Mutex<T> {
    fn default() -> Self {
        Self::new(T::default())
    }
}

/// A mutex without poisoning, for counters. No other lock is waited for while it is held, so loom need not model it.
#[derive(Debug, Default)]
pub(crate) struct CounterMutex<T>(std::sync::Mutex<T>);

impl<T> CounterMutex<T> {
    pub(crate) fn new(value: T) -> Self {
        Self(std::sync::Mutex::new(value))
    }

    pub(crate) fn lock(&self) -> std::sync::MutexGuard<'_, T> {
        self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

/// A condition variable for [`Mutex`] that calls the kernel only if a thread waits. The standard library's does so for
/// every notification, which costs more than everything else in the hand-over of a batch.
///
/// The notifying thread must have held the waiters' lock since it changed what they wait for, so that it knows of all
/// of them.
#[derive(Debug)]
pub(crate) struct Condvar {
    raw: RawCondvar,
    /// Number of threads that wait. It only changes under the lock with which they wait, so loom need not model it.
    waiting: std::sync::atomic::AtomicUsize,
    awake: Awake,
}

/// Waiting without sleep, for events that come sooner than the kernel can put a thread to sleep and wake it again.
#[derive(Debug, Default)]
struct Awake {
    /// Number of threads that wait like this, and number of notifications.
    waiting: std::sync::atomic::AtomicUsize,
    notified: std::sync::atomic::AtomicUsize,
    /// Number of failures in a row, and number of waits before the next try.
    failures: std::sync::atomic::AtomicU32,
    pause: std::sync::atomic::AtomicU32,
}

/// The approximate time of sleeping and waking together.
const AWAKE: Duration = Duration::from_micros(50);
/// If waiting without sleep fails, at most one wait in `2^MOST_FAILURES` tries it.
const MOST_FAILURES: u32 = 6;

impl Condvar {
    pub(crate) fn new() -> Self {
        Self { raw: RawCondvar::new(), waiting: std::sync::atomic::AtomicUsize::new(0), awake: Awake::default() }
    }

    fn is_waited_for(&self) -> bool {
        self.waiting.load(Ordering::Relaxed) > 0
    }

    pub(crate) fn notify_one(&self) {
        self.awake.notify();
        if self.is_waited_for() {
            self.raw.notify_one();
        }
    }

    pub(crate) fn notify_all(&self) {
        self.awake.notify();
        if self.is_waited_for() {
            self.raw.notify_all();
        }
    }

    pub(crate) fn wait<'a, T>(&self, guard: MutexGuard<'a, T>) -> MutexGuard<'a, T> {
        self.waiting.fetch_add(1, Ordering::Relaxed);
        let guard = self.raw.wait(guard).unwrap_or_else(|poisoned| poisoned.into_inner());
        self.waiting.fetch_sub(1, Ordering::Relaxed);
        guard
    }

    /// Like [`wait`](Self::wait), if the notification may come within microseconds. The thread stays awake as long as
    /// such waits are short. May return without a notification.
    pub(crate) fn wait_awake<'a, T>(&self, mutex: &'a Mutex<T>, guard: MutexGuard<'a, T>) -> MutexGuard<'a, T> {
        self.stay_awake(mutex, guard).unwrap_or_else(|guard| self.wait(guard))
    }

    /// Like [`wait_until`](Self::wait_until) and [`wait_awake`](Self::wait_awake); may end a moment after `deadline`.
    pub(crate) fn wait_awake_until<'a, T>(
        &self,
        mutex: &'a Mutex<T>,
        guard: MutexGuard<'a, T>,
        deadline: Instant,
    ) -> MutexGuard<'a, T> {
        self.stay_awake(mutex, guard).unwrap_or_else(|guard| self.wait_until(guard, deadline))
    }

    /// Returns the guard at once if staying awake is not worth trying.
    fn stay_awake<'a, T>(
        &self,
        mutex: &'a Mutex<T>,
        guard: MutexGuard<'a, T>,
    ) -> Result<MutexGuard<'a, T>, MutexGuard<'a, T>> {
        // Loom would try every duration.
        if cfg!(ringfeed_loom) || !self.awake.is_worth_it() {
            return Err(guard);
        }
        let notified = self.awake.begin();
        drop(guard);
        self.awake.until_after(notified);
        let guard = mutex.lock();
        self.awake.end(notified);
        // There may be no further notification of changes that were made before this thread had the lock again, so the
        // caller must check.
        Ok(guard)
    }

    /// Waits until notified or until `deadline`; the caller must check the clock again.
    pub(crate) fn wait_until<'a, T>(&self, guard: MutexGuard<'a, T>, deadline: Instant) -> MutexGuard<'a, T> {
        let left = deadline.saturating_duration_since(Instant::now());
        self.waiting.fetch_add(1, Ordering::Relaxed);
        let guard = self.raw.wait_timeout(guard, left).unwrap_or_else(|poisoned| poisoned.into_inner()).0;
        self.waiting.fetch_sub(1, Ordering::Relaxed);
        guard
    }
}

/// Except for `notify` and `until_after`, all methods are called under the lock of the condition.
impl Awake {
    fn is_worth_it(&self) -> bool {
        let pause = self.pause.load(Ordering::Relaxed);
        self.pause.store(pause.saturating_sub(1), Ordering::Relaxed);
        pause == 0
    }

    fn begin(&self) -> usize {
        self.waiting.fetch_add(1, Ordering::Relaxed);
        self.notified.load(Ordering::Relaxed)
    }

    fn until_after(&self, notified: usize) {
        let begin = Instant::now();
        let mut looks = 0_u32;
        while self.notified.load(Ordering::Relaxed) == notified {
            if looks < 8 {
                std::hint::spin_loop();
            } else if begin.elapsed() < AWAKE {
                // There may be fewer cores than threads that are awake.
                std::thread::yield_now();
            } else {
                return;
            }
            looks += 1;
        }
    }

    fn end(&self, notified: usize) {
        self.waiting.fetch_sub(1, Ordering::Relaxed);
        let is_in_vain = self.notified.load(Ordering::Relaxed) == notified;
        let failures =
            if is_in_vain { self.failures.load(Ordering::Relaxed).saturating_add(1).min(MOST_FAILURES) } else { 0 };
        self.failures.store(failures, Ordering::Relaxed);
        self.pause.store((1 << failures) - 1, Ordering::Relaxed);
    }

    fn notify(&self) {
        if self.waiting.load(Ordering::Relaxed) > 0 {
            self.notified.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// An `UnsafeCell` whose accesses loom checks.
#[derive(Debug)]
pub(crate) struct UnsafeCell<T>(
    #[cfg(not(ringfeed_loom))] StdUnsafeCell<T>,
    #[cfg(ringfeed_loom)] loom::cell::UnsafeCell<T>,
);

#[cfg(not(ringfeed_loom))]
impl<T> UnsafeCell<T> {
    pub(crate) fn new(value: T) -> Self {
        Self(StdUnsafeCell::new(value))
    }

    pub(crate) fn with<R>(&self, f: impl FnOnce(*const T) -> R) -> R {
        f(self.0.get())
    }

    pub(crate) fn with_mut<R>(&self, f: impl FnOnce(*mut T) -> R) -> R {
        f(self.0.get())
    }
}

#[cfg(ringfeed_loom)]
impl<T> UnsafeCell<T> {
    pub(crate) fn new(value: T) -> Self {
        Self(loom::cell::UnsafeCell::new(value))
    }

    pub(crate) fn with<R>(&self, f: impl FnOnce(*const T) -> R) -> R {
        self.0.with(f)
    }

    pub(crate) fn with_mut<R>(&self, f: impl FnOnce(*mut T) -> R) -> R {
        self.0.with_mut(f)
    }
}

#[cfg(all(test, not(ringfeed_loom)))]
mod tests {
    use super::*;

    #[test]
    fn whoever_waits_awake_misses_no_notification() {
        crate::watchdog::watch();
        const TURNS: u64 = 20_000;
        let (turn, changed) = (Mutex::new(0_u64), Condvar::new());
        std::thread::scope(|scope| {
            for player in 0..2 {
                let (turn, changed) = (&turn, &changed);
                scope.spawn(move || {
                    for mine in (player..TURNS).step_by(2) {
                        let mut now = turn.lock();
                        while *now != mine {
                            now = changed.wait_awake(turn, now);
                        }
                        // Now and then the other one waits in vain, sleeps, and is woken.
                        if mine % 1000 == 0 {
                            drop(now);
                            while !changed.is_waited_for() {
                                std::thread::yield_now();
                            }
                            now = turn.lock();
                        }
                        *now += 1;
                        drop(now);
                        changed.notify_one();
                    }
                });
            }
        });
        assert_eq!(*turn.lock(), TURNS);
    }

    #[test]
    fn waiting_awake_in_vain_is_seldom_tried_again() {
        let awake = Awake::default();
        let mut tried = 0;
        for _ in 0..1000 {
            if awake.is_worth_it() {
                tried += 1;
                let notified = awake.begin();
                awake.end(notified);
            }
        }
        // The first, those 2, 4, 8, 16 and 32 later, and then each 64 later.
        assert_eq!(tried, 6 + (999 - 62) / 64);
        let notified = awake.begin();
        awake.notify();
        awake.end(notified);
        assert!(awake.is_worth_it(), "it served");
    }
}
