//! The ring's hand-off, checked by loom in every interleaving of its threads:
//! `RUSTFLAGS="--cfg ringfeed_loom" cargo test --target-dir target/loom --no-default-features --lib ring::models`.

use loom::thread;

use super::*;
use crate::dtype::DType;
use crate::layout::Layout;
use crate::memory::{AnonymousPages, MemoryBudget};
use crate::schema::{Extents, Role, Schema, TensorSpec};

#[derive(Default)]
struct Payload {
    layout: Layout,
    turn: u64,
}

impl AsRef<Layout> for Payload {
    fn as_ref(&self) -> &Layout {
        &self.layout
    }
}

fn schema() -> Schema {
    Schema::new(vec![TensorSpec::new("x", Role::Feature, DType::U8, &[])]).unwrap()
}

fn ring(slots: usize) -> Ring<Payload> {
    Ring::new(RingConfig {
        slots,
        slot_bytes: 2,
        pages: std::sync::Arc::new(AnonymousPages),
        budget: MemoryBudget::unlimited(),
        overflow: Overflow::Fail,
        poison: None,
    })
    .unwrap()
}

fn draft(ring: &Ring<Payload>, turn: u64) -> Draft<Payload> {
    let mut draft = ring.acquire(2, &AtomicBool::new(false), None).unwrap().unwrap();
    let payload = draft.payload_mut();
    payload.turn = turn;
    payload.layout.compute(&schema(), 2, Extents::default()).unwrap();
    draft
}

fn fill(mut share: Share<Payload>, schema: &Schema) -> Option<Draft<Payload>> {
    for row in share.rows() {
        let (payload, mut out) = share.payload_and_rows(schema.tensors(), row..row + 1);
        out.row(0).tensor(0).bytes_mut()[0] = payload.turn as u8 + row as u8;
    }
    share.finish()
}

#[test]
fn the_share_that_is_finished_last_sees_what_all_have_written() {
    loom::model(|| {
        let ring = ring(1);
        let mut shares = Vec::new();
        draft(&ring, 7).split(1, |share| shares.push(share));
        let other = shares.pop().unwrap();
        let worker = thread::spawn(move || fill(other, &schema()).map(check));
        let here = fill(shares.pop().unwrap(), &schema()).map(check);
        let there = worker.join().unwrap();
        assert!(here.is_some() != there.is_some(), "exactly one share returns the draft");
    });

    fn check(draft: Draft<Payload>) {
        let lease = draft.freeze(Tick::now());
        assert_eq!(lease.bytes()[..2], [7, 8]);
    }
}

#[test]
fn a_slot_is_never_written_while_it_is_leased_and_every_wait_for_one_ends() {
    loom::model(|| {
        let ring = ring(1);
        let lease = draft(&ring, 1).freeze(Tick::now());
        let trainer = thread::spawn(move || {
            assert_eq!(lease.payload().turn, 1);
            drop(lease);
        });
        assert_eq!(draft(&ring, 2).freeze(Tick::now()).payload().turn, 2);
        trainer.join().unwrap();
        assert_eq!(ring.leased(), 0);
    });
}

#[test]
fn a_stopped_wait_ends_without_a_slot() {
    loom::model(|| {
        let ring = ring(1);
        let held = draft(&ring, 1);
        let stop = Arc::new(AtomicBool::new(false));
        let waiting = {
            let (ring, stop) = (ring.clone(), stop.clone());
            thread::spawn(move || ring.acquire(2, &stop, None).unwrap().is_none())
        };
        stop.store(true, Ordering::Release);
        ring.wake();
        assert!(waiting.join().unwrap());
        drop(held);
    });
}
