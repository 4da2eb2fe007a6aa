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

use std::time::Instant;

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
}

impl<T: Default> Default for Mutex<T> {
    fn default() -> Self {
        Self::new(T::default())
    }
}

/// A mutex without poisoning around what is counted: never held while another is waited for, so that no model looks into it.
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

/// A condition variable for [`Mutex`].
#[derive(Debug)]
pub(crate) struct Condvar(RawCondvar);

impl Condvar {
    pub(crate) fn new() -> Self {
        Self(RawCondvar::new())
    }

    pub(crate) fn notify_one(&self) {
        self.0.notify_one();
    }

    pub(crate) fn notify_all(&self) {
        self.0.notify_all();
    }

    pub(crate) fn wait<'a, T>(&self, guard: MutexGuard<'a, T>) -> MutexGuard<'a, T> {
        self.0.wait(guard).unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Waits until notified or until `deadline`; the caller looks at the clock again.
    pub(crate) fn wait_until<'a, T>(&self, guard: MutexGuard<'a, T>, deadline: Instant) -> MutexGuard<'a, T> {
        let left = deadline.saturating_duration_since(Instant::now());
        self.0.wait_timeout(guard, left).unwrap_or_else(|poisoned| poisoned.into_inner()).0
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
