//! The queue of jobs for workers.

use std::collections::VecDeque;
use std::sync::atomic::AtomicUsize;
use std::time::{Duration, Instant};

use crossbeam_utils::CachePadded;

use crate::sync::{Condvar, Mutex, Ordering};

/// Maximum number of waiting jobs of a kind: more than a few batches have. A full queue only makes planning wait.
const ROOM: usize = if cfg!(ringfeed_loom) { 2 } else { 1024 };
/// How often a worker looks for a job before it sleeps: with pauses that grow, and that finally let other threads use
/// its core.
const LOOKS: u32 = if cfg!(ringfeed_loom) { 0 } else { 11 };
const LOOKS_WITHOUT_YIELD: u32 = 4;
/// Maximum number of jobs that a worker looks at to find its own.
const SEEN: usize = 16;

/// Jobs in the order in which they should be done, and urgent ones, which come before all others.
///
/// A job may have a home worker, which wrote the same memory before: the memory is probably still in the cache of that
/// worker's core. Among the first jobs, a worker takes its own. But the first job is skipped at most as often as there
/// are workers, because the trainer waits for it.
#[derive(Debug)]
pub(super) struct Queue<J> {
    state: Mutex<State<J>>,
    came: Condvar,
    taken: Condvar,
    /// Number of all jobs, and of those that are not urgent, to be read without the lock.
    all: CachePadded<AtomicUsize>,
    ordinary: AtomicUsize,
}

#[derive(Debug)]
struct State<J> {
    urgent: VecDeque<J>,
    /// Each job with its home worker.
    ordinary: VecDeque<(Option<usize>, J)>,
    /// How often the first of these was skipped.
    passed_over: usize,
    /// Number of threads that may take jobs.
    workers: usize,
    is_closed: bool,
}

/// Which worker should take a job, and when.
#[derive(Clone, Copy, Debug)]
pub(super) enum Order {
    /// Any worker, before all jobs that are not urgent.
    Urgent,
    /// Any worker.
    Next,
    /// If possible, the worker of this number, modulo the number of workers.
    Home(usize),
}

impl<J> Queue<J> {
    pub(super) fn new() -> Self {
        let state = State {
            urgent: VecDeque::with_capacity(ROOM),
            ordinary: VecDeque::with_capacity(ROOM),
            passed_over: 0,
            workers: 0,
            is_closed: false,
        };
        Self {
            state: Mutex::new(state),
            came: Condvar::new(),
            taken: Condvar::new(),
            all: AtomicUsize::new(0).into(),
            ordinary: AtomicUsize::new(0),
        }
    }

    /// Number of jobs that wait and are not urgent.
    pub(super) fn len(&self) -> usize {
        self.ordinary.load(Ordering::Relaxed)
    }

    /// Adds a job. Waits at most `wait` for room, and returns the job if there is still none. A job that no worker will
    /// take is dropped.
    pub(super) fn push(&self, job: J, order: Order, wait: Duration) -> Result<(), J> {
        let mut state = self.state.lock();
        let mut deadline = None;
        while !state.is_closed && !state.has_room(order) {
            let deadline = *deadline.get_or_insert_with(|| Instant::now() + wait);
            if Instant::now() >= deadline {
                return Err(job);
            }
            state = self.taken.wait_until(state, deadline);
        }
        if state.is_closed {
            // Not before: the job may be the last owner of something of the user's.
            drop(state);
            return Ok(());
        }
        match order {
            Order::Urgent => state.urgent.push_back(job),
            Order::Next => state.ordinary.push_back((None, job)),
            Order::Home(home) => state.ordinary.push_back((Some(home), job)),
        }
        self.publish(&state);
        drop(state);
        self.came.notify_one();
        Ok(())
    }

    /// A job for worker `worker`, out of the number that `workers` returns. Waits until there is one; `None` if the
    /// queue is closed and empty.
    pub(super) fn take(&self, worker: usize, workers: impl Fn() -> usize) -> Option<J> {
        for look in 0..LOOKS {
            if self.all.load(Ordering::Relaxed) > 0 {
                break;
            }
            if look < LOOKS_WITHOUT_YIELD {
                (0..1 << look).for_each(|_| std::hint::spin_loop());
            } else {
                std::thread::yield_now();
            }
        }
        let mut state = self.state.lock();
        loop {
            if let Some(job) = state.take(worker, workers()) {
                self.publish(&state);
                drop(state);
                self.taken.notify_all();
                return Some(job);
            }
            if state.is_closed {
                return None;
            }
            state = self.came.wait(state);
        }
    }

    /// No more jobs will be added. Workers take the remaining ones.
    pub(super) fn close(&self) {
        self.state.lock().is_closed = true;
        self.came.notify_all();
        self.taken.notify_all();
    }

    /// A thread is about to take jobs.
    pub(super) fn enter(&self) {
        self.state.lock().workers += 1;
    }

    /// A thread takes no more jobs. After the last thread, all jobs that wait or are added later are dropped.
    pub(super) fn leave(&self) {
        let mut state = self.state.lock();
        state.workers -= 1;
        if state.workers > 0 {
            return;
        }
        state.is_closed = true;
        let left = (std::mem::take(&mut state.urgent), std::mem::take(&mut state.ordinary));
        self.publish(&state);
        drop(state);
        self.taken.notify_all();
        drop(left);
    }

    fn publish(&self, state: &State<J>) {
        self.all.store(state.urgent.len() + state.ordinary.len(), Ordering::Relaxed);
        self.ordinary.store(state.ordinary.len(), Ordering::Relaxed);
    }
}

impl<J> State<J> {
    fn has_room(&self, order: Order) -> bool {
        let jobs = if matches!(order, Order::Urgent) { self.urgent.len() } else { self.ordinary.len() };
        jobs < ROOM
    }

    fn take(&mut self, worker: usize, workers: usize) -> Option<J> {
        if let Some(job) = self.urgent.pop_front() {
            return Some(job);
        }
        let workers = workers.max(1);
        let is_own = |(home, _): &(Option<usize>, J)| home.is_some_and(|home| home % workers == worker);
        let own = self.ordinary.iter().take(workers.min(SEEN)).position(is_own);
        let is_first_due = self.passed_over == workers || self.ordinary.front().is_some_and(|(home, _)| home.is_none());
        let nth = own.filter(|_| !is_first_due).unwrap_or(0);
        self.passed_over = if nth == 0 { 0 } else { self.passed_over + 1 };
        self.ordinary.remove(nth).map(|(_, job)| job)
    }
}

#[cfg(all(test, not(ringfeed_loom)))]
mod tests {
    use super::*;

    fn queue(homes: &[usize]) -> Queue<usize> {
        crate::watchdog::watch();
        let queue = Queue::new();
        queue.enter();
        for (nth, home) in homes.iter().enumerate() {
            assert_eq!(queue.push(nth, Order::Home(*home), Duration::ZERO), Ok(()));
        }
        queue
    }

    #[test]
    fn a_worker_takes_its_own_job_among_the_first() {
        let queue = queue(&[0, 1, 2, 3]);
        let taken = [1, 0, 0, 1].map(|worker| queue.take(worker, || 2));
        assert_eq!(taken, [Some(1), Some(0), Some(2), Some(3)]);
        assert_eq!(queue.len(), 0);
    }

    #[test]
    fn the_first_job_is_not_passed_over_more_often_than_there_are_workers() {
        let queue = queue(&[0, 1, 1, 1, 1, 1]);
        let taken = [(); 6].map(|()| queue.take(1, || 2));
        assert_eq!(taken, [Some(1), Some(2), Some(0), Some(3), Some(4), Some(5)]);
    }

    #[test]
    fn what_is_urgent_comes_first_and_what_has_no_home_is_not_passed_over() {
        let queue = queue(&[]);
        for (job, order) in [(0, Order::Next), (1, Order::Home(1)), (2, Order::Urgent)] {
            assert_eq!(queue.push(job, order, Duration::ZERO), Ok(()));
        }
        assert_eq!(queue.len(), 2);
        assert_eq!([1, 1, 1].map(|worker| queue.take(worker, || 2)), [Some(2), Some(0), Some(1)]);
    }

    #[test]
    fn a_worker_beyond_their_number_takes_the_first() {
        let queue = queue(&[0, 1]);
        assert_eq!([5, 5].map(|worker| queue.take(worker, || 2)), [Some(0), Some(1)]);
    }

    #[test]
    fn a_full_queue_gives_the_job_back_and_a_closed_one_ends_when_it_is_empty() {
        let queue = queue(&[0; ROOM]);
        assert_eq!(queue.push(7, Order::Home(0), Duration::ZERO), Err(7));
        assert_eq!(queue.push(8, Order::Urgent, Duration::ZERO), Ok(()));
        queue.close();
        assert_eq!(queue.take(0, || 1), Some(8));
        assert!((0..ROOM).all(|nth| queue.take(0, || 1) == Some(nth)));
        assert_eq!(queue.take(0, || 1), None);
    }

    #[test]
    fn jobs_that_no_worker_is_left_for_are_dropped() {
        let (job, queue) = (std::sync::Arc::new(()), Queue::new());
        queue.enter();
        queue.enter();
        for order in [Order::Urgent, Order::Next, Order::Home(3)] {
            assert!(queue.push(job.clone(), order, Duration::ZERO).is_ok());
        }
        queue.leave();
        assert_eq!(std::sync::Arc::strong_count(&job), 4);
        queue.leave();
        assert!(queue.push(job.clone(), Order::Next, Duration::ZERO).is_ok());
        assert_eq!((std::sync::Arc::strong_count(&job), queue.len()), (1, 0));
    }
}
