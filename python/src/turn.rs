//! One loader's iterator: a thread takes it out to use it, and puts it back afterwards.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use pyo3::prelude::*;
use ringfeed::stats::StatsHandle;
use ringfeed::{Error, ErrorKind, Result};

use crate::calling::{Awaited, Owner};
use crate::ending::ends;
use crate::errors::raise;
use crate::fork;
use crate::running::Running;
use crate::wait::{LOOK_UP, drop_aside, patiently};

/// Holds the iterator while no thread uses it.
#[derive(Default)]
pub(crate) struct Place {
    here: Mutex<Here>,
    came_home: Condvar,
    pub(crate) owner: Owner,
}

#[derive(Default)]
pub(crate) struct Here {
    pub(crate) running: Option<Running>,
    /// The process whose thread has the iterator.
    out: Option<u64>,
    /// Number of threads that wait for it.
    waiting: usize,
    pub(crate) is_closed: bool,
    pub(crate) course: Course,
    /// The statistics of the iterator, which can be read while a thread has it.
    pub(crate) stats: StatsHandle,
}

impl Here {
    /// Whether nothing was asked of it yet that opens it.
    pub(crate) fn is_new(&self) -> bool {
        self.running.is_none() && self.out.is_none() && !self.is_closed
    }

    /// Whether a thread of this process has the iterator.
    pub(crate) fn is_out(&self) -> bool {
        self.out == Some(fork::generation())
    }
}

/// The order of loops over the loader.
#[derive(Clone, Copy, Default)]
pub(crate) struct Course {
    /// The number of the loop that batches are for.
    pub(crate) serial: u64,
    /// Something was delivered to this loop, so another loop begins another epoch.
    pub(crate) begun: bool,
    /// Nothing is left of its epoch.
    pub(crate) over: bool,
    /// It resumes from a state, which may be that of an epoch's end.
    pub(crate) resumed: bool,
}

impl Course {
    /// The iterator was set to another position: loops that have begun are over, the others resume there.
    pub(crate) fn go_on(&mut self, resumed: bool) {
        *self = Self { serial: self.serial + u64::from(self.begun), resumed, ..Self::default() };
    }
}

/// The iterator, taken by one owner, on any thread; dropping this puts it back.
pub(crate) struct Turn {
    pub(crate) running: Option<Running>,
    place: Arc<Place>,
}

impl Place {
    /// Held only briefly, and never while Python code may run.
    pub(crate) fn here(&self) -> MutexGuard<'_, Here> {
        self.here.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// An error if the loader waits for the code that asks.
    pub(crate) fn check_caller(&self, py: Python<'_>) -> PyResult<()> {
        if !self.owner.is_awaiting() {
            return Ok(());
        }
        let message = "a function of a loader (or one that handles a signal while the loader is asked) can't ask that \
                       loader, which waits for the function: ask before or after";
        Err(raise(py, ErrorKind::Unsupported, message))
    }

    /// Takes the iterator, if there is one, as soon as no other thread has it.
    pub(crate) fn take(self: &Arc<Self>, py: Python<'_>) -> PyResult<Turn> {
        self.check_caller(py)?;
        loop {
            let mut here = self.here();
            let Some(generation) = here.out else {
                here.out = Some(fork::generation());
                return Ok(Turn { running: here.running.take(), place: self.clone() });
            };
            drop(here);
            check_generation(py, generation)?;
            py.detach(|| {
                let mut here = self.here();
                if here.out.is_some() {
                    here.waiting += 1;
                    let waited = self.came_home.wait_timeout(here, LOOK_UP);
                    waited.unwrap_or_else(PoisonError::into_inner).0.waiting -= 1;
                }
            });
            py.check_signals()?;
        }
    }

    /// Closes it, without waiting: the iterator is dropped on a separate thread, now or when its current user puts it
    /// back.
    pub(crate) fn leave(&self) {
        let mut here = self.here();
        here.is_closed = true;
        // What a forked process has of its parent's stays where it is, untouched.
        let is_ours = here.running.as_ref().is_some_and(|running| running.generation == fork::generation());
        let running = if is_ours { here.running.take() } else { None };
        drop(here);
        if let Some(running) = running {
            drop_aside(running);
        }
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        let mut here = self.place.here();
        here.running = self.running.take();
        here.out = None;
        let (is_left, is_awaited) = (here.is_closed && ends(), here.waiting > 0);
        drop(here);
        // Asked first: waking is a call of the kernel, even if nobody waits.
        if is_awaited {
            self.place.came_home.notify_one();
        }
        if is_left {
            self.place.leave();
        }
    }
}

impl Turn {
    /// Puts the iterator that was opened in its place.
    pub(crate) fn set(&mut self, running: Running) {
        self.place.here().stats = running.batches.stats_handle();
        self.running = Some(running);
    }

    pub(crate) fn running(&mut self) -> Result<&mut Running> {
        self.running.as_mut().ok_or_else(|| Error::new(ErrorKind::Ended, "the loader is closed"))
    }

    /// Runs work on the iterator that may take long; see [`patiently`].
    pub(crate) fn with<R: Send + 'static>(
        mut self,
        py: Python<'_>,
        work: impl FnOnce(&mut Running) -> Result<R> + Send + 'static,
    ) -> PyResult<(Self, R)> {
        let _awaited = Awaited::by(self.place.owner);
        patiently(py, move || {
            let result = work(self.running()?)?;
            Ok((self, result))
        })
    }
}

/// An error in a forked child if its parent opened the loader before the fork.
pub(crate) fn check_generation(py: Python<'_>, generation: u64) -> PyResult<()> {
    if generation == fork::generation() {
        return Ok(());
    }
    let message = "the loader was opened before this process was forked, and its threads stayed behind: make the loader in \
                   the child (a loader that was not used yet may be made before the fork)";
    Err(raise(py, ErrorKind::Unsupported, message))
}
