//! What the threads of an upload hand one another, checked by loom in the interleavings of up to [`PREEMPTIONS`]
//! preemptions: `RUSTFLAGS="--cfg ringfeed_loom" cargo test --target-dir target/loom --no-default-features --lib
//! device::models`.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use loom::{cell::Cell, thread};

use super::exchange::Exchange;
use crate::dataset::State;
use crate::error::ErrorKind;

/// Most preemptions per interleaving. With three threads, one more takes too long.
const PREEMPTIONS: usize = 2;

/// Loom's waits never reach their deadline.
const LONG: Duration = Duration::from_secs(1 << 20);

/// Memory for which loom checks that two threads never use it at once.
struct Slot(Cell<u64>);

/// A batch on the device, which returns its slot when it drops.
struct Batch {
    slot: Option<Slot>,
    home: Arc<Hands>,
    is_held: bool,
}

type Hands = Exchange<Slot, u64, Batch>;

impl Batch {
    fn number(&self) -> u64 {
        self.slot.as_ref().unwrap().0.get()
    }
}

impl Drop for Batch {
    fn drop(&mut self) {
        self.home.give_back(self.slot.take().unwrap(), self.is_held);
    }
}

fn hands(slots: u64, lease_wait: Duration) -> Arc<Hands> {
    let home: VecDeque<_> = (0..slots).map(|_| Slot(Cell::new(u64::MAX))).collect();
    Arc::new(Exchange::new("model".to_owned(), home, lease_wait))
}

/// Loads the numbers and the end of the epoch, as long as they are wanted.
fn load(hands: &Hands, run: u64, numbers: &[u64]) {
    for item in numbers.iter().map(|number| Some((Ok(*number), State::new(0)))).chain([None]) {
        if !hands.wait_to_load(run) {
            return;
        }
        hands.load(run, item);
    }
}

/// The upload thread's work, without a device.
fn upload(hands: &Arc<Hands>) {
    while let Some((run, item)) = hands.receive() {
        let item = match item {
            Some((Ok(number), state)) => {
                let Some(slot) = hands.take(run) else { continue };
                slot.0.set(number);
                Some((Ok(Batch { slot: Some(slot), home: hands.clone(), is_held: false }), state))
            }
            Some((Err(error), state)) => Some((Err(error), state)),
            None => None,
        };
        hands.give(run, item);
    }
    hands.end();
}

fn next(hands: &Hands) -> Option<Batch> {
    hands.next().unwrap().map(|(batch, _)| {
        let mut batch = batch.unwrap();
        batch.is_held = true;
        batch
    })
}

fn model(work: impl Fn() + Send + Sync + 'static) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(PREEMPTIONS);
    model.check(work);
}

/// Runs `work` with a loader and an upload thread, which end with the exchange.
fn with_threads(slots: u64, run: u64, numbers: &'static [u64], work: impl FnOnce(&Arc<Hands>)) {
    let hands = hands(slots, LONG);
    hands.begin_run(run);
    let loader = thread::spawn({
        let hands = hands.clone();
        move || load(&hands, run, numbers)
    });
    let uploader = thread::spawn({
        let hands = hands.clone();
        move || upload(&hands)
    });
    work(&hands);
    hands.close();
    loader.join().unwrap();
    uploader.join().unwrap();
    assert_eq!(hands.next().err().unwrap().kind(), ErrorKind::Device);
}

#[test]
fn batches_come_in_order_and_no_slot_is_written_while_it_is_read() {
    model(|| {
        with_threads(1, 1, &[7, 8], |hands| {
            for expected in [7, 8] {
                assert_eq!(next(hands).unwrap().number(), expected);
            }
            assert!(next(hands).is_none());
        });
    });
}

#[test]
fn a_reset_leaves_nothing_of_what_was_before() {
    model(|| {
        with_threads(1, 1, &[7], |hands| {
            hands.begin_run(2);
            load(hands, 2, &[8]);
            assert_eq!(next(hands).unwrap().number(), 8);
            assert!(next(hands).is_none());
        });
    });
}

#[test]
fn closing_ends_every_wait_also_that_for_a_slot_which_is_held() {
    model(|| {
        let mut held = None;
        with_threads(1, 1, &[7, 8], |hands| held = next(hands));
        assert_eq!(held.unwrap().number(), 7);
    });
}

#[test]
fn a_trainer_that_holds_all_slots_is_told_so_until_one_comes_home() {
    model(|| {
        let hands = hands(1, Duration::ZERO);
        hands.begin_run(1);
        let uploader = thread::spawn({
            let hands = hands.clone();
            move || upload(&hands)
        });
        let load = |number: Option<u64>| {
            assert!(hands.wait_to_load(1));
            hands.load(1, number.map(|number| (Ok(number), State::new(0))));
        };
        load(Some(7));
        let held = next(&hands);
        load(Some(8));
        assert_eq!(hands.next().err().unwrap().kind(), ErrorKind::Exhausted);
        drop(held);
        let last = next(&hands).unwrap();
        assert_eq!(last.number(), 8);
        load(None);
        assert!(next(&hands).is_none());
        drop(last);
        hands.close();
        uploader.join().unwrap();
    });
}
