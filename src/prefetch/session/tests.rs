//! What becomes of slots that go while a session is closed or paused: the thread of the test is every thread of the session.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::ops::Range;
use std::sync::{Mutex, Weak};

use super::*;
use crate::dtype::DType;
use crate::error::Location;
use crate::layout::Layout;
use crate::memory::{AnonymousPages, Block, MemoryBudget, PageSource};
use crate::ring::{Overflow, RingConfig};
use crate::row::RowMut;
use crate::schema::{Extents, Role, Schema, TensorSpec};

use super::super::workers::Job;

struct Ones(Arc<Schema>);

impl Filler for Ones {
    fn schema(&self) -> &Arc<Schema> {
        &self.0
    }

    fn measure(&self, _: &BatchPlan, _: usize, _: &mut Scratch) -> Result<Extents> {
        Ok(Extents::default())
    }

    fn fetch(&self, _: &BatchPlan, _: Range<usize>, _: usize, _: &mut Scratch) -> Result<()> {
        Ok(())
    }

    fn decode(&self, _: &BatchPlan, _: usize, _: usize, _: &mut Scratch, out: &mut RowMut<'_>) -> Result<()> {
        out.tensor(0).bytes_mut()[0] = 1;
        Ok(())
    }

    fn place(&self, _: &BatchPlan, _: usize) -> Location {
        Location::default()
    }
}

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
    let schema = Schema::new(vec![TensorSpec::new("x", Role::Feature, DType::U8, &[])]).unwrap();
    let nosy = Nosy::default();
    let ring = Ring::new(RingConfig {
        slots: 1,
        slot_bytes: 1,
        pages: Arc::new(nosy.clone()),
        budget: MemoryBudget::unlimited(),
        overflow: Overflow::Fail,
        poison: None,
    });
    let session = Arc::new(Session::new(SessionParts {
        filler: Arc::new(Ones(Arc::new(schema))),
        counters: Arc::new(Counters::new(None)),
        ring: ring.unwrap(),
        policy: BadRecords::Fail,
        first: None,
        terms: PlanTerms { seed: 0, most_rows: None },
        runs_on: false,
        plans_ahead: false,
        workers: 1,
        prefetch: 0,
        most_prefetch: 0,
        within_limit: None,
        lease_wait: Duration::ZERO,
        close_wait: Duration::from_secs(60),
    }));
    nosy.0.lock().unwrap().session = Arc::downgrade(&session);
    session.resume().unwrap();
    let mut layout = Layout::default();
    layout.compute(session.filler.schema(), 1, Extents::default()).unwrap();
    let (mut draft, now) = session.slot(layout.bytes(), Instant::now()).unwrap().expect("it is not paused");
    draft.payload_mut().begin(BatchPlan { samples: vec![0], positions: vec![0], ..BatchPlan::default() });
    draft.payload_mut().layout = layout;
    draft.payload_mut().ticket = session.bind(now).expect("it is not paused");
    let mut job = None;
    draft.split(1, |share| job = Some(Job::fill(session.clone(), share)));
    (session, job.expect("a share of one row"), nosy)
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
