use std::collections::VecDeque;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::ptr::NonNull;
use std::time::Duration;

use crossbeam_utils::CachePadded;

use crate::counters::{Tick, now};
use crate::layout::Layout;
use crate::memory::{Block, Reservation};
use crate::row::RowsMut;
use crate::schema::TensorSpec;
use crate::sync::{Arc, AtomicBool, AtomicU64, AtomicUsize, Condvar, Mutex, Ordering, UnsafeCell};

use super::config::RingConfig;

/// The state that the handles of a ring share.
pub(crate) struct Shared<M> {
    pub(super) config: RingConfig,
    pub(super) state: CachePadded<Mutex<State<M>>>,
    pub(super) came_home: Condvar,
    /// Bytes of the largest batch so far. Other slots grow to this when they are next taken.
    pub(super) high_water: AtomicU64,
    pub(super) bytes: AtomicU64,
    pub(super) slot_bytes: AtomicU64,
    pub(super) regrown: AtomicU64,
    pub(super) spilled: AtomicU64,
}

pub(super) struct State<M> {
    /// First the slots that were never taken, then the others; the last one is the one that returned last.
    pub(super) free: VecDeque<Arc<Slot<M>>>,
    /// Number of slots that were never taken.
    pub(super) fresh: usize,
    /// Number of slots, without those that are to be removed.
    pub(super) slots: usize,
    /// Number of slots in use that are removed when they return.
    pub(super) surplus: usize,
    pub(super) leased: usize,
    /// Total time that the caller held slots, until `since`.
    pub(super) held: Duration,
    pub(super) since: Tick,
}

impl<M> State<M> {
    pub(super) fn new(free: VecDeque<Arc<Slot<M>>>, slots: usize) -> Self {
        let fresh = free.len();
        Self { free, fresh, slots, surplus: 0, leased: 0, held: Duration::ZERO, since: Tick::now() }
    }

    /// The slot that returned last, whose memory is most likely still in a processor's cache. Before that, each slot is
    /// taken once, so that all get their memory early.
    pub(super) fn take(&mut self) -> Option<Arc<Slot<M>>> {
        if self.fresh == 0 {
            return self.free.pop_back();
        }
        self.fresh -= 1;
        self.free.pop_front()
    }

    /// Removes the slot that was unused for longest.
    pub(super) fn retire(&mut self) -> Option<Arc<Slot<M>>> {
        self.fresh = self.fresh.saturating_sub(1);
        self.free.pop_front()
    }

    /// Adds a slot that was never taken.
    pub(super) fn add(&mut self, slot: Slot<M>) {
        self.fresh += 1;
        self.free.push_front(Arc::new(slot));
        self.slots += 1;
    }

    /// Adds the time that slots were held since the last change. Called before each change.
    pub(super) fn note(&mut self, now: Tick) {
        let now = now.max(self.since);
        self.held += now.since(self.since).saturating_mul(self.leased as u32);
        self.since = now;
    }
}

/// One place of the ring. Only the slot's holder may access `body`: see [`Owner`].
pub(super) struct Slot<M> {
    body: UnsafeCell<Body<M>>,
    /// Number of unfinished shares, while the slot is split.
    shares: AtomicUsize,
    /// Whether a share was returned, since the slot was split, with rows that are possibly not written.
    abandoned: AtomicBool,
    /// The first place number of its shares. Slots that were added later may have the same number.
    number: usize,
    /// Whether it returns to the ring; a spilled batch's does not.
    in_ring: bool,
}

pub(super) struct Body<M> {
    pub(super) block: Option<Block>,
    /// Ordinary memory that this batch uses instead of the block.
    pub(super) spill: Option<Block>,
    pub(super) reservation: Option<Reservation>,
    pub(super) payload: M,
}

impl<M: Default> Body<M> {
    pub(super) fn new(reservation: Reservation) -> Self {
        Self { block: None, spill: None, reservation: Some(reservation), payload: M::default() }
    }

    pub(super) fn spilled(block: Block) -> Self {
        Self { block: None, spill: Some(block), reservation: None, payload: M::default() }
    }
}

impl<M> Body<M> {
    fn memory(&self) -> Option<&Block> {
        self.spill.as_ref().or(self.block.as_ref())
    }
}

impl<M> Slot<M> {
    /// A slot of the ring.
    pub(super) fn new(body: Body<M>, number: usize) -> Self {
        Self { number, in_ring: true, ..Self::spilled(body) }
    }

    /// A spilled batch's.
    pub(super) fn spilled(body: Body<M>) -> Self {
        let (shares, abandoned) = (AtomicUsize::new(0), AtomicBool::new(false));
        Self { body: UnsafeCell::new(body), shares, abandoned, number: 0, in_ring: false }
    }
}

// SAFETY: a slot's body is reached through exactly one `Owner` (exclusively), or through several `Share`s that read the
// payload and write disjoint rows of the memory; hand-over between threads goes through the ring's mutex or the
// `shares` counter (release/acquire). So sharing needs no more than `Send` of what is inside, and `Sync` of the
// payload.
unsafe impl<M: Send + Sync> Sync for Slot<M> {}

/// The exclusive right to a slot. There is at most one per slot; dropping it returns the slot.
struct Owner<M> {
    slot: Option<Arc<Slot<M>>>,
    home: Arc<Shared<M>>,
    leased: bool,
}

impl<M> Owner<M> {
    fn slot(&self) -> &Arc<Slot<M>> {
        self.slot.as_ref().expect("an owner has its slot until it drops")
    }

    fn body(&self) -> &Body<M> {
        // SAFETY: this owner is the only way to the body (type invariant), and `&self` forbids writes through it.
        self.slot().body.with(|body| unsafe { &*body })
    }

    fn body_mut(&mut self) -> &mut Body<M> {
        // SAFETY: this owner is the only way to the body (type invariant), and `&mut self` makes this its only borrow.
        self.slot().body.with_mut(|body| unsafe { &mut *body })
    }
}

impl<M> Drop for Owner<M> {
    fn drop(&mut self) {
        if self.slot.is_none() {
            return;
        }
        let body = self.body_mut();
        body.spill = None;
        let reserved = body.reserved();
        let slot = self.slot.take().filter(|slot| slot.in_ring);
        let mut state = self.home.state.lock();
        if self.leased {
            state.note(now());
            state.leased -= 1;
        }
        let mut retired = None;
        if let Some(slot) = slot {
            if state.surplus > 0 {
                state.surplus -= 1;
                self.home.bytes.fetch_sub(reserved, Ordering::Relaxed);
                retired = Some(slot);
            } else {
                state.free.push_back(slot);
            }
        }
        drop(state);
        self.home.came_home.notify_all();
        // The user's code may free its memory.
        drop(retired);
    }
}

/// A slot that is being filled, with a single owner.
pub(crate) struct Draft<M>(Owner<M>);

impl<M> Draft<M> {
    pub(super) fn new(slot: Arc<Slot<M>>, home: Arc<Shared<M>>) -> Self {
        Self(Owner { slot: Some(slot), home, leased: false })
    }

    pub(super) fn home(&self) -> Arc<Shared<M>> {
        self.0.home.clone()
    }

    pub(super) fn body_mut(&mut self) -> &mut Body<M> {
        self.0.body_mut()
    }

    /// The payload.
    pub(crate) fn payload(&self) -> &M {
        &self.0.body().payload
    }

    /// The payload, for writing.
    pub(crate) fn payload_mut(&mut self) -> &mut M {
        &mut self.0.body_mut().payload
    }

    /// The memory, for writing.
    pub(crate) fn bytes_mut(&mut self) -> &mut [u8] {
        self.both_mut().1
    }

    /// Payload and memory at once.
    pub(crate) fn both_mut(&mut self) -> (&mut M, &mut [u8]) {
        let body = self.0.body_mut();
        let block = body.spill.as_mut().or(body.block.as_mut());
        (&mut body.payload, block.map_or(&mut [], Block::as_mut_slice))
    }

    /// Whether every share was finished since the batch was split, so that none was dropped or abandoned.
    pub(crate) fn is_whole(&self) -> bool {
        !self.0.slot().abandoned.load(Ordering::Relaxed)
    }

    fn into_owner(self) -> Owner<M> {
        self.0
    }

    /// Finishes the batch: no thread writes to it any more. The caller has it since `since`.
    pub(crate) fn freeze(mut self, since: Tick) -> Lease<M> {
        if self.0.slot().in_ring {
            let mut state = self.0.home.state.lock();
            state.note(since);
            state.leased += 1;
            drop(state);
            self.0.leased = true;
        }
        Lease(self.0)
    }
}

impl<M: AsRef<Layout>> Draft<M> {
    /// Lets `work` write the whole batch, in one share. If `work` panics, the panic continues after the draft is whole
    /// again.
    pub(crate) fn with_share(&mut self, work: impl FnOnce(&mut Share<M>)) {
        let home = self.0.home.clone();
        let this = std::mem::replace(&mut self.0, Owner { slot: None, home, leased: false });
        let mut work = Some(work);
        let mut worked = Ok(());
        Self(this).split(usize::MAX, |mut share| {
            if let Some(work) = work.take() {
                worked = catch_unwind(AssertUnwindSafe(|| work(&mut share)));
            }
            let draft = if worked.is_ok() { share.finish() } else { share.abandon() };
            if let Some(draft) = draft {
                self.0 = draft.into_owner();
            }
        });
        if let Err(panic) = worked {
            resume_unwind(panic);
        }
    }

    /// Splits the batch's rows into shares of `rows_a_share` rows, which different threads may fill. Passes each share
    /// to `give`, which must not panic. The last share that is returned gives the draft.
    ///
    /// # Panics
    ///
    /// If the layout in the payload is larger than the slot or has no rows.
    pub(crate) fn split(mut self, rows_a_share: usize, mut give: impl FnMut(Share<M>)) {
        let (payload, bytes) = self.both_mut();
        let layout = payload.as_ref();
        let rows = layout.rows();
        assert!(layout.bytes() <= bytes.len(), "the slot was fitted to the layout");
        assert!(rows > 0, "a batch has at least one row");
        let rows_a_share = rows_a_share.max(1);
        let slot = self.0.slot.take().expect("an owner has its slot until it drops");
        slot.shares.store(rows.div_ceil(rows_a_share), Ordering::Relaxed);
        slot.abandoned.store(false, Ordering::Relaxed);
        for (nth, start) in (0..rows).step_by(rows_a_share).enumerate() {
            let (rows, place) = (start..rows.min(start + rows_a_share), slot.number + nth);
            give(Share { slot: Some(slot.clone()), home: self.0.home.clone(), rows, place });
        }
    }
}

/// Some rows of a batch that is being filled. Only this share may write them; other shares have the other rows.
///
/// Dropping a share does not finish it: the batch is then not [whole](Draft::is_whole).
pub(crate) struct Share<M> {
    slot: Option<Arc<Slot<M>>>,
    home: Arc<Shared<M>>,
    rows: Range<usize>,
    place: usize,
}

impl<M> Share<M> {
    fn body(&self) -> &Body<M> {
        let slot = self.slot.as_ref().expect("a share has its slot until it is finished");
        // SAFETY: while a slot is split, its body is only read (rows are written through the block's raw pointer): no
        // `Owner` exists until the last share is finished.
        slot.body.with(|body| unsafe { &*body })
    }

    /// The payload, shared with the other shares.
    pub(crate) fn payload(&self) -> &M {
        &self.body().payload
    }

    /// The rows of this share.
    pub(crate) fn rows(&self) -> Range<usize> {
        self.rows.clone()
    }

    /// A number that is the same for shares of the same memory, as long as batches are split alike. Neighbours have
    /// consecutive numbers.
    pub(crate) fn place(&self) -> usize {
        self.place
    }

    /// Returns this share's rows, each of them written, or named as bad in the payload. The last share of the batch
    /// gives the draft, which sees everything that was written.
    pub(crate) fn finish(mut self) -> Option<Draft<M>> {
        self.give_back()
    }

    /// Returns this share's rows as they are. The last share of the batch gives the draft.
    pub(crate) fn abandon(mut self) -> Option<Draft<M>> {
        self.slot.as_ref()?.abandoned.store(true, Ordering::Relaxed);
        self.give_back()
    }

    fn give_back(&mut self) -> Option<Draft<M>> {
        let slot = self.slot.take()?;
        // Not a release with a fence after the last one: ThreadSanitizer does not know fences, and a share is a long
        // job.
        if slot.shares.fetch_sub(1, Ordering::AcqRel) > 1 {
            return None;
        }
        Some(Draft::new(slot, self.home.clone()))
    }
}

impl<M: AsRef<Layout>> Share<M> {
    /// Those rows of this share that are in `rows`, for writing, and the payload.
    ///
    /// # Panics
    ///
    /// If a row belongs to another share, or `specs` are not those that the batch was laid out for.
    pub(crate) fn payload_and_rows<'a>(
        &'a mut self,
        specs: &'a [TensorSpec],
        rows: Range<usize>,
    ) -> (&'a M, RowsMut<'a>) {
        let is_ours = self.rows.start <= rows.start && rows.end <= self.rows.end;
        assert!(is_ours, "rows {rows:?} are not in {:?}", self.rows);
        let body = self.body();
        let slot = body.memory().expect("a split slot has memory").start();
        // SAFETY: `split` asserted that the block holds the layout, which can't change while the payload is shared;
        // blocks are page-aligned; shares of a batch have disjoint rows, and `&mut self` is borrowed for as long as
        // these rows are, so nobody else touches them.
        let rows = unsafe { RowsMut::from_raw(slot, specs, body.payload.as_ref(), rows) };
        (&body.payload, rows)
    }
}

impl<M> Drop for Share<M> {
    fn drop(&mut self) {
        if let Some(slot) = &self.slot {
            slot.abandoned.store(true, Ordering::Relaxed);
            self.give_back();
        }
    }
}

/// A finished batch, which belongs to the caller until it drops. It is `Send`, so it may drop on any thread.
pub(crate) struct Lease<M>(Owner<M>);

impl<M> Lease<M> {
    pub(crate) fn payload(&self) -> &M {
        &self.0.body().payload
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        self.0.body().memory().map_or(&[], Block::as_slice)
    }

    /// The first byte. The memory may be written as long as the lease lives, and nothing else reads it.
    pub(crate) fn start(&mut self) -> NonNull<u8> {
        self.0.body().memory().map_or(NonNull::dangling(), Block::start)
    }
}

/// Takes the block out of a slot that is in the ring's free list, or was just taken from it, if the block is larger
/// than `slot_bytes`. The caller must drop it after releasing the lock, because freeing the memory may run the user's
/// code.
///
/// The caller holds the ring's lock, so nobody can take the slot meanwhile.
pub(super) fn shrink_free<M>(slot: &Slot<M>, home: &Shared<M>, slot_bytes: usize) -> Option<Block> {
    // SAFETY: a slot in the free list, or just taken from it, has no owner and no shares, and can only get one under
    // the lock that the caller holds.
    slot.body.with_mut(|body| home.shrink(unsafe { &mut *body }, slot_bytes))
}
