//! The workspace ring: a fixed set of slots, cycling free -> draft -> lease -> free for ever.
//!
//! A slot is memory plus a payload of any type that is recycled with it. It never has two owners: a [`Draft`] may write
//! to it, may be split into [`Share`]s that write disjoint rows of it in parallel, and becomes a [`Lease`] that reads
//! it. Dropping any of them frees the slot. Nothing is overwritten while a lease lives. Nothing is allocated or copied
//! from one use of a slot to the next, except where [`RingStats`] counts it.
//!
//! Read `slot.rs` for the states of a slot, `growth.rs` for how it grows.

mod config;
mod growth;
#[cfg(all(test, ringfeed_loom))]
mod models;
mod slot;

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use crate::counters::Tick;
use crate::error::{Error, ErrorKind, Result};
use crate::memory::{Block, whole_pages};
use crate::sync::{Arc, AtomicBool, AtomicU64, Condvar, Mutex, Ordering};

pub(crate) use config::RingConfig;
pub use config::{Overflow, RingStats};
use slot::{Body, Shared, Slot, State};
pub(crate) use slot::{Draft, Lease, Share};

/// The ring; clones are handles to the same one.
pub(crate) struct Ring<M>(Arc<Shared<M>>);

impl<M> Clone for Ring<M> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<M: Default> Ring<M> {
    /// A ring whose slots are reserved from the budget now, and allocated and touched when each is first taken.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Budget`] if it does not fit, with the largest number of slots that would.
    pub(crate) fn new(config: RingConfig) -> Result<Self> {
        let slot_bytes = whole_pages(config.slot_bytes);
        let total = (slot_bytes as u64).saturating_mul(config.slots as u64);
        let free_bytes = config.budget.limit() - config.budget.used().min(config.budget.limit());
        let mut free = VecDeque::with_capacity(config.slots);
        for number in 0..config.slots {
            let reservation = config.budget.reserve(slot_bytes as u64, "a ring slot").map_err(|error| {
                let message = format!(
                    "a ring of {} slots of {slot_bytes} bytes needs {total} bytes, but the memory budget of {} has \
                     {free_bytes} left: {} slots would fit; raise the budget, or lower prefetch or the batch size",
                    config.slots,
                    config.budget.limit(),
                    free_bytes / slot_bytes as u64,
                );
                Error::new(ErrorKind::Budget, message).with_source(error)
            })?;
            free.push_back(Arc::new(Slot::new(Body::new(reservation), number)));
        }
        Ok(Self(Arc::new(Shared {
            high_water: AtomicU64::new(slot_bytes as u64),
            bytes: AtomicU64::new(total),
            slot_bytes: AtomicU64::new(slot_bytes as u64),
            regrown: AtomicU64::new(0),
            spilled: AtomicU64::new(0),
            state: Mutex::new(State::new(free, config.slots)).into(),
            came_home: Condvar::new(),
            config,
        })))
    }

    /// Takes a free slot and gives it memory for a batch of `bytes` bytes; see [`Ring::free_slot`] and
    /// [`Draft::make_room`].
    #[cfg(test)]
    pub(crate) fn acquire(&self, bytes: usize, stop: &AtomicBool, most: Option<Duration>) -> Result<Option<Draft<M>>> {
        let mut slot = self.free_slot(stop, most)?;
        slot.as_mut().map_or(Ok(false), |draft| draft.make_room(bytes))?;
        Ok(slot)
    }

    /// Takes a free slot, whose memory may be too small. Waits until there is one, at most for `most`, or until `stop`
    /// is set (then returns `None`; see [`Ring::wake`]).
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Exhausted`] after that time.
    pub(crate) fn free_slot(&self, stop: &AtomicBool, most: Option<Duration>) -> Result<Option<Draft<M>>> {
        let mut deadline = None;
        let mut state = self.0.state.lock();
        let slot = loop {
            if stop.load(Ordering::Acquire) {
                return Ok(None);
            }
            if let Some(slot) = state.take() {
                break slot;
            }
            let Some(most) = most else {
                state = self.0.came_home.wait(state);
                continue;
            };
            let deadline = *deadline.get_or_insert_with(|| Instant::now() + most);
            if Instant::now() >= deadline {
                return Err(exhausted(state.leased, state.slots));
            }
            state = self.0.came_home.wait_until(state, deadline);
        };
        drop(state);
        Ok(Some(Draft::new(slot, self.0.clone())))
    }

    /// Takes a free slot, if there is one now.
    pub(crate) fn try_free_slot(&self) -> Option<Draft<M>> {
        let slot = self.0.state.lock().take()?;
        Some(Draft::new(slot, self.0.clone()))
    }

    /// Sets the number of slots. New slots are reserved from the budget now; surplus ones are freed when they are not
    /// in use.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Budget`] if a slot does not fit; the ring then has those that did.
    pub(crate) fn set_slots(&self, slots: usize) -> Result<()> {
        let mut retired = Vec::new();
        let mut state = self.0.state.lock();
        while state.slots > slots {
            state.slots -= 1;
            match state.retire() {
                Some(slot) => retired.push((slot::shrink_free(&slot, &self.0, 0), slot)),
                None => state.surplus += 1,
            }
        }
        let kept = state.surplus.min(slots - state.slots);
        state.surplus -= kept;
        state.slots += kept;
        let more = slots - state.slots;
        drop(state);
        // The memory's source and the payloads may be the user's.
        drop(retired);
        for _ in 0..more {
            let bytes = self.0.high_water.load(Ordering::Relaxed);
            let reservation = self.0.config.budget.reserve(bytes, "a ring slot")?;
            self.0.bytes.fetch_add(bytes, Ordering::Relaxed);
            let mut state = self.0.state.lock();
            let number = state.slots;
            state.add(Slot::new(Body::new(reservation), number));
            drop(state);
            self.0.came_home.notify_all();
        }
        Ok(())
    }

    /// A draft in ordinary memory, outside of the ring, for a batch that gets no slot. Statistics count it.
    pub(crate) fn spill(&self, bytes: usize) -> Result<Draft<M>> {
        let slot = Arc::new(Slot::spilled(Body::spilled(Block::unbounded(bytes)?)));
        self.0.spilled.fetch_add(1, Ordering::Relaxed);
        let mut draft = Draft::new(slot, self.0.clone());
        if let Some(poison) = self.0.config.poison {
            draft.bytes_mut().fill(poison);
        }
        Ok(draft)
    }
}

impl<M> Ring<M> {
    /// Makes every waiting `acquire` check its `stop` flag.
    pub(crate) fn wake(&self) {
        drop(self.0.state.lock());
        self.0.came_home.notify_all();
    }

    /// Number of slots.
    pub(crate) fn slots(&self) -> usize {
        self.0.state.lock().slots
    }

    pub(crate) fn overflow(&self) -> Overflow {
        self.0.config.overflow
    }

    /// Number of slots that the caller holds.
    pub(crate) fn leased(&self) -> usize {
        self.0.state.lock().leased
    }

    /// Whether the caller holds every slot now.
    pub(crate) fn is_all_leased(&self) -> bool {
        let state = self.0.state.lock();
        state.leased >= state.slots
    }

    /// Frees the memory of free slots that are larger than `slot_bytes`.
    pub(crate) fn shrink_to(&self, slot_bytes: usize) {
        let slot_bytes = whole_pages(slot_bytes);
        self.0.high_water.fetch_min(slot_bytes as u64, Ordering::Relaxed);
        let state = self.0.state.lock();
        let blocks: Vec<_> = state.free.iter().map(|slot| slot::shrink_free(slot, &self.0, slot_bytes)).collect();
        self.0.slot_bytes.fetch_min(slot_bytes as u64, Ordering::Relaxed);
        drop(state);
        drop(blocks);
    }

    pub(crate) fn stats(&self) -> RingStats {
        let mut state = self.0.state.lock();
        state.note(Tick::now());
        let (slots, leased, held_seconds) = (state.slots, state.leased, state.held.as_secs_f64());
        drop(state);
        RingStats {
            slots,
            slot_bytes: self.0.slot_bytes.load(Ordering::Relaxed) as usize,
            bytes: self.0.bytes.load(Ordering::Relaxed) as usize,
            leased,
            held_seconds,
            regrown: self.0.regrown.load(Ordering::Relaxed),
            spilled: self.0.spilled.load(Ordering::Relaxed),
        }
    }
}

/// The error if the caller holds all slots of a ring.
#[cold]
pub(crate) fn exhausted(leased: usize, slots: usize) -> Error {
    let message = format!(
        "{leased} of the ring's {slots} slots are held by batches that were not dropped, so no batch can be filled; \
         drop batches before asking for more, copy those that must stay with `detach()`, or raise prefetch"
    );
    Error::exhausted(message)
}

#[cfg(all(test, not(ringfeed_loom)))]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};

    use super::*;
    use crate::dtype::DType;
    use crate::layout::Layout;
    use crate::memory::{AnonymousPages, MemoryBudget, PageSource};
    use crate::schema::{Extents, Role, Schema, TensorSpec};
    use crate::watchdog;

    fn ring(slots: usize, slot_bytes: usize, limit: u64, overflow: Overflow) -> Result<Ring<Vec<u8>>> {
        watchdog::watch();
        let pages = std::sync::Arc::new(AnonymousPages);
        Ring::new(RingConfig {
            slots,
            slot_bytes,
            pages,
            budget: MemoryBudget::new(limit),
            overflow,
            poison: Some(0xa5),
        })
    }

    fn take(ring: &Ring<Vec<u8>>, bytes: usize) -> Result<Draft<Vec<u8>>> {
        ring.acquire(bytes, &AtomicBool::new(false), Some(Duration::ZERO)).map(|draft| draft.expect("not stopped"))
    }

    #[test]
    fn a_ring_that_does_not_fit_the_budget_is_refused_with_the_number_that_would() {
        let error = ring(4, 8192, 20_000, Overflow::Fail).err().unwrap();
        assert_eq!(error.kind(), ErrorKind::Budget);
        assert!(error.to_string().contains("2 slots would fit"), "{error}");
    }

    #[test]
    fn shares_of_the_same_memory_have_the_same_place_and_neighbours_another() {
        #[derive(Default)]
        struct Payload(Layout);
        impl AsRef<Layout> for Payload {
            fn as_ref(&self) -> &Layout {
                &self.0
            }
        }
        watchdog::watch();
        let schema = Schema::new(vec![TensorSpec::new("x", Role::Feature, DType::U8, &[])]).unwrap();
        let ring: Ring<Payload> = Ring::new(RingConfig {
            slots: 2,
            slot_bytes: 3,
            pages: std::sync::Arc::new(AnonymousPages),
            budget: MemoryBudget::unlimited(),
            overflow: Overflow::Fail,
            poison: None,
        })
        .unwrap();
        let places = || {
            let drafts =
                [(); 2].map(|()| ring.acquire(3, &AtomicBool::new(false), Some(Duration::ZERO)).unwrap().unwrap());
            let mut places = drafts.map(|mut draft| {
                draft.payload_mut().0.compute(&schema, 3, Extents::default()).unwrap();
                let (memory, mut own) = (draft.bytes_mut().as_ptr(), Vec::new());
                draft.split(1, |share| own.push(share));
                (memory, own.iter().map(Share::place).collect::<Vec<_>>())
            });
            places.sort_unstable();
            places
        };
        let first = places();
        assert_eq!(first, places());
        let mut both = first.map(|(_, own)| own);
        both.sort_unstable();
        assert_eq!(both, [[0, 1, 2], [1, 2, 3]]);
    }

    #[test]
    fn a_slot_that_is_large_enough_takes_nothing_from_the_decoders() {
        let page = whole_pages(1);
        let budget = MemoryBudget::new(5 * page as u64);
        let pages = std::sync::Arc::new(AnonymousPages);
        let config = RingConfig { slots: 2, slot_bytes: page, pages, budget, overflow: Overflow::Fail, poison: None };
        let ring: Ring<Vec<u8>> = Ring::new(config.clone()).unwrap();
        watchdog::watch();
        drop(take(&ring, 3 * page).unwrap());
        let idle = config.budget.lend::<Vec<u8>>(page as u64, "a tool").unwrap();
        let kept = config.budget.lend::<String>(0, "a tool that does not come back").unwrap();
        drop(idle);
        // Both slots, of which one is smaller than the largest batch.
        let drafts = [take(&ring, page).unwrap(), take(&ring, page).unwrap()];
        assert_eq!(config.budget.used(), 5 * page as u64, "what the idle tool holds is still there");
        drop((drafts, kept));
    }

    #[test]
    fn a_batch_that_the_budget_refuses_is_no_measure_for_further_slots() {
        let page = whole_pages(1);
        let ring = ring(1, page, 4 * page as u64, Overflow::Fail).unwrap();
        assert_eq!(take(&ring, 9 * page).err().unwrap().kind(), ErrorKind::Budget);
        ring.set_slots(3).unwrap();
        assert_eq!(ring.slots(), 3);
    }

    #[test]
    fn slots_come_home_when_drafts_or_leases_drop() {
        let ring = ring(2, 100, u64::MAX, Overflow::Fail).unwrap();
        let first = take(&ring, 100).unwrap().freeze(Tick::now());
        let second = take(&ring, 100).unwrap();
        assert_eq!(take(&ring, 100).err().unwrap().kind(), ErrorKind::Exhausted);
        drop(second);
        let second = take(&ring, 100).unwrap().freeze(Tick::now());
        assert_eq!(ring.leased(), 2);
        drop((first, second));
        assert_eq!(ring.leased(), 0);
        take(&ring, 100).unwrap();
    }

    #[test]
    fn the_payload_is_recycled_with_its_slot() {
        let ring = ring(1, 100, u64::MAX, Overflow::Fail).unwrap();
        let mut draft = take(&ring, 100).unwrap();
        draft.payload_mut().extend([1, 2, 3]);
        drop(draft.freeze(Tick::now()));
        assert_eq!(take(&ring, 100).unwrap().payload_mut(), &[1, 2, 3]);
    }

    #[test]
    fn only_the_slot_in_hand_grows_and_the_others_follow_when_taken() {
        let ring = ring(2, 4096, 1 << 20, Overflow::Fail).unwrap();
        let mut first = take(&ring, 10_000).unwrap();
        assert_eq!(first.bytes_mut().len(), 12_288);
        assert_eq!((ring.stats().regrown, ring.stats().bytes), (1, 12_288 + 4096));
        let mut second = take(&ring, 10).unwrap();
        assert_eq!(second.bytes_mut().len(), 12_288);
        assert_eq!(ring.stats().regrown, 2);
        drop((first, second));
        take(&ring, 12_000).unwrap();
        assert_eq!(ring.stats().regrown, 2);
    }

    #[test]
    fn a_slot_grows_by_a_quarter_at_least() {
        let ring = ring(1, 4096, 1 << 20, Overflow::Fail).unwrap();
        drop(take(&ring, 40_960).unwrap());
        assert_eq!(take(&ring, 40_961).unwrap().bytes_mut().len(), 13 * 4096);
    }

    #[test]
    fn growth_beyond_the_budget_fails_or_spills_by_choice_and_keeps_the_slot() {
        let failing = ring(2, 4096, 10_000, Overflow::Fail).unwrap();
        assert_eq!(take(&failing, 10_000).err().unwrap().kind(), ErrorKind::Budget);
        assert_eq!(take(&failing, 4096).unwrap().bytes_mut().len(), 4096);
        let spilling = ring(2, 4096, 10_000, Overflow::Spill).unwrap();
        assert!(take(&spilling, 10_000).unwrap().bytes_mut().len() >= 10_000);
        assert_eq!(spilling.stats().spilled, 1);
        assert_eq!(take(&spilling, 4096).unwrap().bytes_mut().len(), 4096);
    }

    #[test]
    fn memory_of_past_large_shapes_can_be_given_back() {
        let ring = ring(2, 4096, 1 << 20, Overflow::Fail).unwrap();
        drop(take(&ring, 100_000).unwrap());
        assert!(ring.stats().bytes > 100_000);
        ring.shrink_to(4096);
        assert_eq!(ring.stats().bytes, 8192);
        assert_eq!(take(&ring, 4096).unwrap().bytes_mut().len(), 4096);
    }

    #[test]
    fn each_slot_is_taken_once_and_then_the_one_that_came_home_last() {
        let ring = ring(3, 100, u64::MAX, Overflow::Fail).unwrap();
        let turn = |own: u8| {
            let mut draft = take(&ring, 100).unwrap();
            draft.payload_mut().push(own);
            draft
        };
        let seen = |draft: &Draft<Vec<u8>>| draft.payload().clone();
        for own in 0..3 {
            assert_eq!(seen(&turn(own)), [own]);
        }
        assert_eq!(seen(&turn(3)), [2, 3]);
        let (first, second) = (turn(4), turn(5));
        assert_eq!((seen(&first), seen(&second)), (vec![2, 3, 4], vec![1, 5]));
        drop(first);
        drop(second);
        assert_eq!(seen(&turn(6)), [1, 5, 6]);
        ring.set_slots(4).unwrap();
        assert_eq!(seen(&turn(7)), [7]);
        assert_eq!(seen(&turn(8)), [7, 8]);
    }

    #[test]
    fn slots_come_and_go_while_others_are_in_use() {
        let ring = ring(2, 4096, 5 * 4096, Overflow::Fail).unwrap();
        let (first, second) = (take(&ring, 4096).unwrap().freeze(Tick::now()), take(&ring, 4096).unwrap());
        ring.set_slots(4).unwrap();
        let third = take(&ring, 4096).unwrap();
        assert_eq!((ring.slots(), ring.stats().bytes, ring.stats().regrown), (4, 4 * 4096, 0));
        assert_eq!(ring.set_slots(9).unwrap_err().kind(), ErrorKind::Budget);
        assert_eq!((ring.slots(), ring.stats().bytes), (5, 5 * 4096), "as many as fit");
        // Two are free and are removed; of the three in use, two are removed when they return.
        ring.set_slots(1).unwrap();
        assert_eq!((ring.slots(), ring.stats().bytes, ring.0.config.budget.used()), (1, 3 * 4096, 3 * 4096));
        ring.set_slots(2).unwrap();
        drop((first, third));
        assert_eq!((ring.stats().bytes, ring.leased(), ring.0.state.lock().free.len()), (2 * 4096, 0, 1));
        drop(second);
        assert_eq!((ring.stats().bytes, ring.0.config.budget.used(), ring.0.state.lock().free.len()), (8192, 8192, 2));
    }

    /// A user's payload that asks for the ring's figures when it drops.
    #[derive(Default)]
    struct Curious(Option<Ring<Curious>>);

    impl Drop for Curious {
        fn drop(&mut self) {
            if let Some(ring) = &self.0 {
                ring.stats();
            }
        }
    }

    #[test]
    fn what_lies_in_a_slot_that_goes_is_dropped_under_no_lock() {
        watchdog::watch();
        let pages = std::sync::Arc::new(AnonymousPages);
        let (budget, overflow) = (MemoryBudget::unlimited(), Overflow::Fail);
        let config = RingConfig { slots: 3, slot_bytes: 100, pages, budget, overflow, poison: None };
        let ring = Ring::<Curious>::new(config).unwrap();
        let take = || {
            let mut draft = ring.acquire(100, &AtomicBool::new(false), None).unwrap().expect("not stopped");
            draft.payload_mut().0 = Some(ring.clone());
            draft
        };
        let (held, others) = (take(), [take(), take()]);
        drop(others);
        // Two lie in the ring, and one is removed when it returns.
        ring.set_slots(0).unwrap();
        drop(held);
        assert_eq!((ring.slots(), ring.stats().bytes), (0, 0));
    }

    /// Pages for small slots only.
    #[derive(Debug)]
    struct Panicking;

    impl PageSource for Panicking {
        fn allocate(&self, bytes: usize) -> Result<Block> {
            assert!(bytes <= 4096, "no larger pages");
            AnonymousPages.allocate(bytes)
        }
    }

    #[test]
    fn memory_whose_making_panics_is_counted_all_the_same() {
        let budget = MemoryBudget::new(1 << 20);
        let (pages, overflow) = (std::sync::Arc::new(Panicking), Overflow::Fail);
        let config = RingConfig { slots: 1, slot_bytes: 100, pages, budget: budget.clone(), overflow, poison: None };
        let ring = Ring::new(config).unwrap();
        drop(take(&ring, 100).unwrap());
        let grown = catch_unwind(AssertUnwindSafe(|| take(&ring, 10_000).map(drop)));
        assert!(grown.is_err());
        assert_eq!(ring.stats().bytes as u64, budget.used());
        ring.set_slots(0).unwrap();
        assert_eq!((ring.stats().bytes, budget.used()), (0, 0));
    }

    /// The ring, and how often it was asked.
    type Asked = (Option<Ring<Vec<u8>>>, usize);

    /// Pages of a user that ask for the ring's figures when they are freed.
    #[derive(Clone, Default)]
    struct Asking(std::sync::Arc<std::sync::Mutex<Asked>>);

    impl std::fmt::Debug for Asking {
        fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            f.write_str("Asking")
        }
    }

    impl Drop for Asking {
        fn drop(&mut self) {
            let Ok(mut asked) = self.0.try_lock() else { return };
            asked.1 += 1;
            if let Some(ring) = &asked.0 {
                ring.stats();
            }
        }
    }

    impl PageSource for Asking {
        fn allocate(&self, bytes: usize) -> Result<Block> {
            Ok(AnonymousPages.allocate(bytes)?.keeping(self.clone()))
        }
    }

    #[test]
    fn memory_is_freed_under_no_lock() {
        watchdog::watch();
        let pages = Asking::default();
        let (budget, overflow) = (MemoryBudget::unlimited(), Overflow::Fail);
        let source = std::sync::Arc::new(pages.clone());
        let ring = Ring::new(RingConfig { slots: 3, slot_bytes: 100, pages: source, budget, overflow, poison: None });
        let ring = ring.unwrap();
        pages.0.lock().unwrap().0 = Some(ring.clone());
        let freed = |work: &mut dyn FnMut()| {
            let before = pages.0.lock().unwrap().1;
            work();
            pages.0.lock().unwrap().1 - before
        };
        drop([take(&ring, 10_000).unwrap(), take(&ring, 10_000).unwrap(), take(&ring, 10_000).unwrap()]);
        assert_eq!(freed(&mut || ring.shrink_to(0)), 3);
        let held = [take(&ring, 100).unwrap(), take(&ring, 100).unwrap()];
        drop(take(&ring, 100).unwrap());
        assert_eq!(freed(&mut || ring.set_slots(2).unwrap()), 1);
        let mut held = Some(held);
        assert_eq!(freed(&mut || drop((ring.set_slots(0), held.take()))), 2);
        pages.0.lock().unwrap().0 = None;
    }

    #[test]
    fn memory_lives_as_long_as_its_lease() {
        let ring = ring(1, 100, u64::MAX, Overflow::Fail).unwrap();
        let mut draft = take(&ring, 100).unwrap();
        draft.bytes_mut().fill(7);
        let lease = draft.freeze(Tick::now());
        drop(ring);
        assert!(lease.bytes().iter().all(|byte| *byte == 7));
    }
}
