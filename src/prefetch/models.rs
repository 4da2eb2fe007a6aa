//! The window and the workers' queue, checked by loom in every interleaving of consumer, planning thread and workers
//! with up to two preemptions: `RUSTFLAGS="--cfg ringfeed_loom" cargo test --target-dir target/loom
//! --no-default-features --lib prefetch::models`.

use std::sync::Arc;
use std::time::Duration;

use loom::thread;

use super::numbers::session_parts;
use super::queue::{Order, Queue};
use super::session::{Session, SessionParts};
use super::steps::{Step, Taken};
use super::workers::Job;
use crate::counters::Tick;
use crate::dataset::BatchPlan;
use crate::layout::Layout;
use crate::memory::AnonymousPages;
use crate::ring::{Overflow, Share};
use crate::schema::Extents;
use crate::sync::AtomicBool;

/// Batch `index`: one sample of that number.
fn plan(index: u64) -> BatchPlan {
    BatchPlan { index, samples: vec![index], positions: vec![index], ..BatchPlan::default() }
}

/// A session in which no wait ends by its time limit.
fn session(slots: usize, prefetch: usize) -> Arc<Session> {
    session_with(slots, prefetch, Duration::from_secs(1 << 20), Overflow::Fail)
}

fn session_with(slots: usize, prefetch: usize, lease_wait: Duration, overflow: Overflow) -> Arc<Session> {
    Arc::new(Session::new(SessionParts {
        first: Some(plan(0)),
        plans_ahead: true,
        workers: 2,
        prefetch,
        most_prefetch: prefetch,
        lease_wait,
        close_wait: Duration::from_secs(1 << 20),
        ..session_parts(slots, Arc::new(AnonymousPages), overflow)
    }))
}

/// The planning thread of an epoch of `batches` batches. It gives each batch's share to `fill`.
fn planning(
    session: &Arc<Session>,
    batches: u64,
    mut fill: impl FnMut(u64, Job) + Send + 'static,
) -> thread::JoinHandle<()> {
    let session = session.clone();
    thread::spawn(move || {
        let mut planned = 1;
        loop {
            match session.next_step() {
                Step::Exit => break,
                Step::Begin(_) => unreachable!("one epoch"),
                Step::Refill(plan) => bind(&session, plan, &mut fill),
                Step::Plan { has_room } if planned < batches => {
                    if has_room {
                        bind(&session, plan(planned), &mut fill);
                    } else {
                        session.keep(plan(planned));
                    }
                    planned += 1;
                }
                Step::Plan { .. } => session.end(None),
            }
        }
        session.exited();
    })
}

fn bind(session: &Arc<Session>, plan: BatchPlan, fill: &mut impl FnMut(u64, Job)) {
    let index = plan.index;
    let mut layout = Layout::default();
    layout.compute(session.filler.schema(), 1, Extents::default()).unwrap();
    let slot = session.slot(layout.bytes(), Tick::now()).unwrap();
    let Some((mut draft, now)) = slot else { return session.keep(plan) };
    draft.make_room(layout.bytes()).unwrap();
    draft.payload_mut().begin(plan);
    draft.payload_mut().layout = layout;
    let Some(ticket) = session.bind(now) else { return session.keep(draft.payload_mut().take_plan()) };
    draft.payload_mut().ticket = ticket;
    draft.split(1, |share: Share<_>| fill(index, Job::fill(session.clone(), share)));
}

/// Takes a batch, which must be complete and have this number.
fn take(session: &Session, index: u64) -> crate::ring::Lease<crate::dataset::Batch> {
    let Taken::Batch(draft) = session.take().0 else { panic!("batch {index} did not come") };
    assert!(draft.is_whole());
    assert_eq!(draft.payload().plan.samples, [index]);
    let lease = draft.freeze(Tick::now());
    assert_eq!(lease.bytes()[0], index as u8);
    lease
}

fn check(model: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(2);
    builder.max_branches = 20_000;
    builder.check(model);
}

#[test]
fn batches_come_in_the_order_of_their_tickets_whichever_is_filled_first() {
    check(|| {
        let session = session(3, 1);
        let mut other = None;
        let planning = planning(&session, 2, move |index, job| match index {
            0 => other = Some(thread::spawn(move || _ = job.run(0))),
            _ => {
                job.run(1);
                other.take().expect("the first batch was given away").join().unwrap();
            }
        });
        session.resume().unwrap();
        drop(take(&session, 0));
        drop(take(&session, 1));
        assert!(matches!(session.take().0, Taken::End));
        session.close();
        planning.join().unwrap();
    });
}

#[test]
fn a_session_that_is_paused_loses_no_batch_and_brings_every_slot_home() {
    check(|| {
        let session = session(2, 0);
        let planning = planning(&session, 2, |_, job| _ = job.run(0));
        session.resume().unwrap();
        session.pause().unwrap();
        assert_eq!(session.ring.leased(), 0);
        let all = [(); 2].map(|()| session.ring.acquire(1, &AtomicBool::new(false), Some(Duration::ZERO)).unwrap());
        drop(all);
        session.resume().unwrap();
        drop(take(&session, 0));
        drop(take(&session, 1));
        session.close();
        planning.join().unwrap();
    });
}

#[test]
fn a_wait_for_a_slot_ends_when_a_batch_drops_elsewhere() {
    check(|| {
        let session = session(1, 0);
        let planning = planning(&session, 2, |_, job| _ = job.run(0));
        session.resume().unwrap();
        let held = take(&session, 0);
        let trainer = thread::spawn(move || drop(held));
        drop(take(&session, 1));
        trainer.join().unwrap();
        session.close();
        planning.join().unwrap();
    });
}

#[test]
fn a_job_that_is_dropped_ends_the_wait_for_its_batch_and_is_not_taken_for_done() {
    check(|| {
        let session = session(2, 0);
        let planning = planning(&session, 1, |_, job| drop(job));
        session.resume().unwrap();
        let Taken::Batch(draft) = session.take().0 else { panic!("the batch did not come") };
        assert!(!draft.is_whole());
        drop(draft);
        session.close();
        planning.join().unwrap();
    });
}

#[test]
fn batches_that_are_made_again_after_pauses_keep_their_order() {
    check(|| {
        let session = session(3, 1);
        let planning = planning(&session, 2, |_, job| _ = job.run(0));
        for _ in 0..2 {
            session.resume().unwrap();
            session.pause().unwrap();
        }
        session.resume().unwrap();
        drop(take(&session, 0));
        drop(take(&session, 1));
        session.close();
        planning.join().unwrap();
    });
}

#[test]
fn a_pause_waits_for_workers_and_has_every_slot_at_home() {
    check(|| {
        let session = session(1, 0);
        let mut worker: Option<thread::JoinHandle<()>> = None;
        let planning = planning(&session, 1, move |_, job| {
            if let Some(before) = worker.replace(thread::spawn(move || _ = job.run(0))) {
                before.join().unwrap();
            }
        });
        session.resume().unwrap();
        session.pause().unwrap();
        drop(session.ring.acquire(1, &AtomicBool::new(false), Some(Duration::ZERO)).unwrap());
        session.resume().unwrap();
        drop(take(&session, 0));
        session.close();
        planning.join().unwrap();
    });
}

#[test]
fn a_pause_ends_the_wait_for_a_slot_that_is_held() {
    check(|| {
        let session = session(1, 0);
        let planning = planning(&session, 2, |_, job| _ = job.run(0));
        session.resume().unwrap();
        let held = take(&session, 0);
        session.pause().unwrap();
        drop(held);
        session.resume().unwrap();
        drop(take(&session, 1));
        session.close();
        planning.join().unwrap();
    });
}

#[test]
fn a_trainer_that_holds_all_slots_is_told_so() {
    check(|| {
        let session = session_with(1, 0, Duration::ZERO, Overflow::Fail);
        let planning = planning(&session, 2, |_, job| _ = job.run(0));
        session.resume().unwrap();
        let held = take(&session, 0);
        assert!(matches!(session.take().0, Taken::Exhausted(_)));
        drop(held);
        session.close();
        planning.join().unwrap();
    });
}

#[test]
fn a_batch_is_spilled_where_a_trainer_holds_all_slots() {
    check(|| {
        let session = session_with(1, 0, Duration::ZERO, Overflow::Spill);
        let planning = planning(&session, 2, |_, job| _ = job.run(0));
        session.resume().unwrap();
        let held = take(&session, 0);
        drop(take(&session, 1));
        drop(held);
        session.close();
        planning.join().unwrap();
    });
}

#[test]
fn workers_take_every_job_once_and_end_when_the_queue_is_closed() {
    check(|| {
        let queue = Arc::new(Queue::new());
        let workers = [0, 1].map(|worker| {
            let queue = queue.clone();
            queue.enter();
            thread::spawn(move || {
                let taken: Vec<_> = std::iter::from_fn(|| queue.take(worker, || 2)).collect();
                queue.leave();
                taken
            })
        });
        // One more than there is room for: the last one waits until a job was taken.
        for nth in 0..3 {
            queue.push(nth, Order::Home(0), Duration::from_secs(1 << 20)).unwrap();
        }
        queue.close();
        let mut taken = workers.map(|worker| worker.join().unwrap()).concat();
        taken.sort_unstable();
        assert_eq!(taken, [0, 1, 2]);
    });
}

#[test]
fn a_job_that_waits_for_room_is_dropped_when_the_last_worker_leaves() {
    check(|| {
        let (job, queue) = (Arc::new(()), Arc::new(Queue::new()));
        queue.enter();
        let worker = {
            let queue = queue.clone();
            thread::spawn(move || queue.leave())
        };
        for _ in 0..3 {
            queue.push(job.clone(), Order::Urgent, Duration::from_secs(1 << 20)).unwrap();
        }
        worker.join().unwrap();
        assert_eq!(Arc::strong_count(&job), 1);
    });
}
