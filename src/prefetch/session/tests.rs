//! Slots that return while a session is closed or paused. The thread of the test plays every thread of the session.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::sync::atomic::AtomicUsize;
use std::sync::{Mutex, Weak};
use std::time::Duration;

use super::*;
use crate::error::ErrorKind;
use crate::layout::Layout;
use crate::memory::{AnonymousPages, Block, PageSource};
use crate::ring::Overflow;
use crate::schema::Extents;

use super::super::measuring::Measuring;
use super::super::numbers::session_parts;
use super::super::steps::Taken;
use super::super::workers::Job;

/// Pages of a user who looks at the session when they are freed.
#[derive(Clone, Debug, Default)]
struct Nosy(Arc<Mutex<Looks>>);

#[derive(Default)]
struct Looks {
    session: Weak<Session>,
    count: usize,
}

impl std::fmt::Debug for Looks {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Looks").field("count", &self.count).finish_non_exhaustive()
    }
}

impl PageSource for Nosy {
    fn allocate(&self, bytes: usize) -> Result<Block> {
        struct Look(Nosy);
        impl Drop for Look {
            fn drop(&mut self) {
                let mut looks = self.0.0.lock().unwrap();
                looks.count += 1;
                if let Some(session) = looks.session.upgrade() {
                    session.least_ready();
                }
            }
        }
        Ok(AnonymousPages.allocate(bytes)?.keeping(Look(self.clone())))
    }
}

/// A session of one slot that runs, a job that fills its only batch, and how often pages were freed.
fn session_and_job() -> (Arc<Session>, Job, Nosy) {
    watchdog::watch();
    let nosy = Nosy::default();
    let session = Arc::new(Session::new(session_parts(1, Arc::new(nosy.clone()), Overflow::Fail)));
    nosy.0.lock().unwrap().session = Arc::downgrade(&session);
    session.resume().unwrap();
    let job = job_of(&session);
    (session, job, nosy)
}

/// A job that fills the next batch, which has one sample.
fn job_of(session: &Arc<Session>) -> Job {
    let mut layout = Layout::default();
    layout.compute(session.filler.schema(), 1, Extents::default()).unwrap();
    let (mut draft, now) = session.slot(layout.bytes(), Tick::now()).unwrap().expect("it is not paused");
    draft.make_room(layout.bytes()).unwrap();
    draft.payload_mut().begin(BatchPlan { samples: vec![0], positions: vec![0], ..BatchPlan::default() });
    draft.payload_mut().layout = layout;
    draft.payload_mut().ticket = session.bind(now).expect("it is not paused");
    let mut job = None;
    draft.split(1, |share| job = Some(Job::fill(session.clone(), share)));
    job.expect("a share of one row")
}

#[test]
fn making_memory_for_a_slot_is_not_waiting_for_one() {
    #[derive(Debug, Default)]
    struct Counted(AtomicUsize);
    impl PageSource for Counted {
        fn allocate(&self, bytes: usize) -> Result<Block> {
            self.0.fetch_add(1, Ordering::Relaxed);
            AnonymousPages.allocate(bytes)
        }
    }
    let pages = Arc::new(Counted::default());
    let session = Arc::new(Session::new(session_parts(1, pages.clone(), Overflow::Fail)));
    session.resume().unwrap();
    let before = pages.0.load(Ordering::Relaxed);
    let (mut draft, _) = session.slot(100_000, Tick::now()).unwrap().expect("it is not paused");
    assert_eq!(pages.0.load(Ordering::Relaxed), before);
    assert!(draft.make_room(100_000).unwrap());
    assert_eq!(pages.0.load(Ordering::Relaxed), before + 1);
}

#[test]
fn a_job_says_whether_the_trainer_or_planning_has_something_to_do() {
    let parts = session_parts(3, Arc::new(AnonymousPages), Overflow::Fail);
    let session = Arc::new(Session::new(SessionParts { prefetch: 1, most_prefetch: 1, runs_on: true, ..parts }));
    session.resume().unwrap();
    let (first, second) = (job_of(&session), job_of(&session));
    session.window.lock().trainer_waits(&session.counters, true);
    assert!(!second.run(0), "the trainer waits for the first, and there is no room for a third");
    assert!(first.run(0), "the trainer has its batch");
    assert!(matches!(session.take().0, Taken::Batch(_)));
    let third = job_of(&session);
    assert!(!third.run(0), "the trainer does not wait, and there is no room for a fourth");
    assert!(matches!(session.take().0, Taken::Batch(_)));
    let fourth = job_of(&session);
    assert!(matches!(session.take().0, Taken::Batch(_)));
    assert!(fourth.run(0), "there is room for a fifth");
}

#[test]
fn while_the_trainer_waits_for_its_first_batch_few_more_are_begun() {
    let anonymous = Arc::new(AnonymousPages);
    for waits in [true, false] {
        let parts = session_parts(6, anonymous.clone(), Overflow::Fail);
        let session = Arc::new(Session::new(SessionParts { prefetch: 4, most_prefetch: 4, ..parts }));
        session.resume().unwrap();
        session.window.lock().trainer_waits(&session.counters, waits);
        let bind_all = || -> Vec<Job> {
            std::iter::from_fn(|| session.window.lock().has_room().then_some(())).map(|()| job_of(&session)).collect()
        };
        let mut jobs = bind_all();
        assert_eq!(jobs.len(), 2);
        jobs.remove(0).run(0);
        // It did not wait when the first batch was ready, so that there is nothing to be woken for.
        jobs.extend(bind_all());
        assert_eq!(jobs.len(), if waits { 1 } else { 4 });
        if waits {
            // The trainer only asks, and comes later.
            assert!(session.is_ready_within(Duration::ZERO));
            jobs.extend(bind_all());
            assert_eq!(jobs.len(), 4);
        }
        assert!(matches!(session.take().0, Taken::Batch(_)));
        jobs.extend(bind_all());
        assert_eq!(jobs.len(), 5);
    }
}

#[test]
fn a_slot_that_goes_when_its_session_was_closed_is_freed_under_no_lock() {
    let (session, job, nosy) = session_and_job();
    session.ring.set_slots(0).unwrap();
    session.window.lock().wanted = Wanted::Close;
    job.run(0);
    assert_eq!((nosy.0.lock().unwrap().count, session.window.lock().in_flight), (1, 0));
}

#[test]
fn a_slot_that_goes_when_its_session_is_paused_is_freed_under_no_lock() {
    let (session, job, nosy) = session_and_job();
    job.run(0);
    session.ring.set_slots(0).unwrap();
    session.window.lock().parked = true;
    session.pause().unwrap();
    assert_eq!(nosy.0.lock().unwrap().count, 1);
    // The batch is planned still.
    assert_eq!(session.window.lock().pending.len(), 2);
}

#[test]
fn a_part_that_is_dropped_before_it_is_measured_ends_the_wait_with_an_error() {
    let (session, _job, _) = session_and_job();
    let measuring = Arc::new(Measuring::default());
    let mut plan = BatchPlan { positions: vec![0, 1], samples: vec![0, 1], ..BatchPlan::default() };
    measuring.begin(&mut plan, 2, false);
    drop(Job::measure(session.clone(), measuring.clone(), 0..1));
    Job::measure(session, measuring.clone(), 1..2).run(0);
    let error = measuring.wait(&mut plan).unwrap_err();
    assert_eq!((error.kind(), plan.samples), (ErrorKind::Panicked, vec![0, 1]), "{error}");
}
