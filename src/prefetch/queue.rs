//! Where jobs wait for workers.

use std::collections::VecDeque;
use std::sync::atomic::AtomicUsize;
use std::time::{Duration, Instant};

use crate::sync::{Condvar, Mutex, Ordering};

/// Jobs of a kind that may wait: more than a few batches have. A full queue only makes planning wait.
const ROOM: usize = if cfg!(ringfeed_loom) { 2 } else { 1024 };
/// How often a worker looks for a job before it sleeps: first at once, then after ever longer pauses, then after other
/// threads had its core.
const LOOKS: u32 = if cfg!(ringfeed_loom) { 0 } else { 11 };
const LOOKS_AT_ONCE: u32 = 7;
/// Most jobs that a worker looks at to find its own.
const SEEN: usize = 16;

/// Jobs in the order in which they should be done, and urgent ones, which come before all others.
///
/// A job has a worker at which it is at home: the memory that it writes is still in the cache of that worker's core,
/// where the same place of the same slot was written before. Among the first jobs, a worker takes its own; but no job is passed
/// over for long, because the trainer waits for the first.
#[derive(Debug)]
pub(super) struct Queue<J> {
    state: Mutex<State<J>>,
    came: Condvar,
    left: Condvar,
    /// Number of jobs, and of those that are not urgent, to be looked at without the lock.
    all: AtomicUsize,
    ordinary: AtomicUsize,
}

#[derive(Debug)]
struct State<J> {
    urgent: VecDeque<J>,
    /// With where they are at home.
    ordinary: VecDeque<(usize, J)>,
    /// How often in a row the first job was passed over.
    passed_over: usize,
    is_closed: bool,
}

/// How a job waits.
#[derive(Clone, Copy, Debug)]
pub(super) enum Wish {
    Urgent,
    /// At home at the worker of this number, modulo the number of workers.
    Home(usize),
}

impl<J> Queue<J> {
    pub(super) fn new() -> Self {
        let state = State {
            urgent: VecDeque::with_capacity(ROOM),
            ordinary: VecDeque::with_capacity(ROOM),
            passed_over: 0,
            is_closed: false,
        };
        Self {
            state: Mutex::new(state),
            came: Condvar::new(),
            left: Condvar::new(),
            all: AtomicUsize::new(0),
            ordinary: AtomicUsize::new(0),
        }
    }

    /// Number of jobs that wait and are not urgent.
    pub(super) fn len(&self) -> usize {
        self.ordinary.load(Ordering::Relaxed)
    }

    /// Adds a job. Waits `wait` for room, and returns the job if there is none then.
    pub(super) fn push(&self, job: J, wish: Wish, wait: Duration) -> Result<(), J> {
        let mut state = self.state.lock();
        let mut deadline = None;
        while !state.has_room(wish) {
            let deadline = *deadline.get_or_insert_with(|| Instant::now() + wait);
            if Instant::now() >= deadline {
                return Err(job);
            }
            state = self.left.wait_until(state, deadline);
        }
        match wish {
            Wish::Urgent => state.urgent.push_back(job),
            Wish::Home(home) => state.ordinary.push_back((home, job)),
        }
        self.publish(&state);
        drop(state);
        self.came.notify_one();
        Ok(())
    }

    /// A job for worker `worker` of `workers`. Waits until there is one; `None` if the queue is closed and empty.
    pub(super) fn take(&self, worker: usize, workers: usize) -> Option<J> {
        for look in 0..LOOKS {
            if self.all.load(Ordering::Relaxed) > 0 {
                break;
            }
            if look < LOOKS_AT_ONCE {
                (0..1 << look).for_each(|_| std::hint::spin_loop());
            } else {
                std::thread::yield_now();
            }
        }
        let mut state = self.state.lock();
        loop {
            if let Some(job) = state.take(worker, workers) {
                self.publish(&state);
                drop(state);
                self.left.notify_all();
                return Some(job);
            }
            if state.is_closed {
                return None;
            }
            state = self.came.wait(state);
        }
    }

    /// Nothing will be added any more.
    pub(super) fn close(&self) {
        self.state.lock().is_closed = true;
        self.came.notify_all();
    }

    fn publish(&self, state: &State<J>) {
        self.all.store(state.urgent.len() + state.ordinary.len(), Ordering::Relaxed);
        self.ordinary.store(state.ordinary.len(), Ordering::Relaxed);
    }
}

impl<J> State<J> {
    fn has_room(&self, wish: Wish) -> bool {
        match wish {
            Wish::Urgent => self.urgent.len() < ROOM,
            Wish::Home(_) => self.ordinary.len() < ROOM,
        }
    }

    fn take(&mut self, worker: usize, workers: usize) -> Option<J> {
        if let Some(job) = self.urgent.pop_front() {
            return Some(job);
        }
        let workers = workers.max(1);
        let is_own = |(home, _): &(usize, J)| home % workers == worker;
        let own = self.ordinary.iter().take(workers.min(SEEN)).position(is_own);
        // A worker that may not work any more has one job left to do, and is at home nowhere.
        let nth = own.filter(|_| self.passed_over < workers).unwrap_or(0);
        self.passed_over = if nth == 0 { 0 } else { self.passed_over + 1 };
        self.ordinary.remove(nth).map(|(_, job)| job)
    }
}

#[cfg(all(test, not(ringfeed_loom)))]
mod tests {
    use super::*;

    fn queue(homes: &[usize]) -> Queue<usize> {
        let queue = Queue::new();
        for (nth, home) in homes.iter().enumerate() {
            assert_eq!(queue.push(nth, Wish::Home(*home), Duration::ZERO), Ok(()));
        }
        queue
    }

    #[test]
    fn a_worker_takes_its_own_job_among_the_first() {
        let queue = queue(&[0, 1, 2, 3]);
        let taken = [1, 0, 0, 1].map(|worker| queue.take(worker, 2));
        assert_eq!(taken, [Some(1), Some(0), Some(2), Some(3)]);
        assert_eq!(queue.len(), 0);
    }

    #[test]
    fn no_job_is_passed_over_more_often_than_there_are_workers() {
        let queue = queue(&[0, 1, 1, 1, 1, 1]);
        let taken = [(); 6].map(|()| queue.take(1, 2));
        assert_eq!(taken, [Some(1), Some(2), Some(0), Some(3), Some(4), Some(5)]);
    }

    #[test]
    fn what_is_urgent_comes_first_and_a_worker_without_a_home_takes_the_first() {
        let queue = queue(&[0, 1]);
        queue.push(7, Wish::Urgent, Duration::ZERO).unwrap();
        assert_eq!(queue.len(), 2);
        assert_eq!([5, 5, 5].map(|worker| queue.take(worker, 1)), [Some(7), Some(0), Some(1)]);
    }

    #[test]
    fn a_full_queue_gives_the_job_back_and_a_closed_one_ends_when_it_is_empty() {
        let queue = queue(&[0; ROOM]);
        assert_eq!(queue.push(7, Wish::Home(0), Duration::ZERO), Err(7));
        queue.push(8, Wish::Urgent, Duration::ZERO).unwrap();
        queue.close();
        assert_eq!(queue.take(0, 1), Some(8));
        assert!((0..ROOM).all(|nth| queue.take(0, 1) == Some(nth)));
        assert_eq!(queue.take(0, 1), None);
    }
}
