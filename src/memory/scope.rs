use std::cell::{Cell, RefCell};
use std::fmt;
use std::ptr::NonNull;
use std::sync::Arc;

use bytemuck::Pod;

use crate::error::{Error, ErrorKind, Result};
use crate::sync::{AtomicU64, Mutex, Ordering};

use super::block::{AnonymousPages, Block, PAGE_BYTES, PageSource, whole_pages};
use super::budget::MemoryBudget;

/// What the first byte of every array of a scope is aligned to.
const ALIGNMENT: usize = 64;

/// Memory for [`Scope`]s. The first cycle shows how much is needed; every later cycle reuses it. Clones are handles to
/// the same memory.
///
/// ```
/// let scopes = ringfeed::transform::Scopes::default();
/// let mut scope = scopes.enter();
/// for step in 0..3 {
///     let sums = scope.zeros::<f32>([10, 2]);
///     sums[step] += 1.0;
///     assert_eq!(sums.iter().sum::<f32>(), 1.0);
///     scope.next(); // the arrays end, their memory stays
/// }
/// assert_eq!(scopes.stats().spilled, 1); // nobody knew the size before the first step
/// ```
#[derive(Clone)]
pub struct Scopes(Arc<Shared>);

struct Shared {
    pages: Arc<dyn PageSource>,
    /// The budget that counts the blocks.
    budget: MemoryBudget,
    limit: usize,
    /// Whether memory beyond the limit is refused.
    is_bounded: bool,
    /// Unused arenas. The arena that a thread returned last is the first that it gets again, so that each depth of
    /// nesting gets the one it had before.
    free: Mutex<Vec<Arena>>,
    spilled: AtomicU64,
}

/// Statistics of [`Scopes`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ScopeStats {
    /// Number of arrays that did not fit the kept memory, and got their own memory for one cycle.
    pub spilled: u64,
    /// Bytes that are kept for later scopes, without those in use.
    pub free_bytes: u64,
}

/// A stack of arrays in one block, which is kept from cycle to cycle.
#[derive(Default)]
struct Arena {
    /// The thread that used it last; see [`here`].
    thread: usize,
    block: Option<Block>,
    used: Cell<usize>,
    /// How large the block would have to be for all arrays of this cycle.
    wanted: Cell<usize>,
    spilled: RefCell<Vec<Block>>,
}

/// Distinguishes threads that live at the same time.
fn here() -> usize {
    thread_local!(static HERE: u8 = const { 0 });
    HERE.with(|here| std::ptr::from_ref(here).addr())
}

impl Shared {
    /// The arena that this thread used last, or else the one that was returned last.
    fn take(&self) -> Arena {
        let here = here();
        let mut free = self.free.lock();
        match free.iter().rposition(|arena| arena.thread == here) {
            Some(at) => free.remove(at),
            None => free.pop().unwrap_or_default(),
        }
    }

    fn allocate(&self, bytes: usize) -> Result<Block> {
        let reservation = self.budget.reserve(whole_pages(bytes) as u64, "a scope's arrays")?;
        Ok(self.pages.allocate(bytes)?.keeping(reservation))
    }
}

impl Default for Scopes {
    /// Ordinary memory without a limit.
    fn default() -> Self {
        Self::new(AnonymousPages, usize::MAX)
    }
}

impl Scopes {
    /// Memory from `pages`. Each scope keeps at most `limit` bytes; arrays beyond that get memory for one cycle, every
    /// time.
    pub fn new(pages: impl PageSource + 'static, limit: usize) -> Self {
        Self::of(Arc::new(pages), MemoryBudget::unlimited(), limit)
    }

    /// Memory from `pages`, at most `limit` bytes for the arrays of a cycle; arrays beyond that are refused.
    ///
    /// ```
    /// use ringfeed::memory::AnonymousPages;
    /// use ringfeed::transform::Scopes;
    ///
    /// let scopes = Scopes::bounded(AnonymousPages, 1 << 16);
    /// let scope = scopes.enter();
    /// scope.zeros::<f32>([1000]);
    /// assert!(scope.try_zeros::<f32>([16_000]).is_err());
    /// ```
    pub fn bounded(pages: impl PageSource + 'static, limit: usize) -> Self {
        Self::with(Arc::new(pages), MemoryBudget::unlimited(), limit, true)
    }

    pub(crate) fn of(pages: Arc<dyn PageSource>, budget: MemoryBudget, limit: usize) -> Self {
        Self::with(pages, budget, limit, false)
    }

    fn with(pages: Arc<dyn PageSource>, budget: MemoryBudget, limit: usize, is_bounded: bool) -> Self {
        let (free, spilled) = (Mutex::default(), AtomicU64::new(0));
        Self(Arc::new(Shared { pages, budget, limit, is_bounded, free, spilled }))
    }

    /// Number of arrays that did not fit so far.
    pub(crate) fn spilled(&self) -> u64 {
        self.0.spilled.load(Ordering::Relaxed)
    }

    /// A scope, whose arrays end with it.
    pub fn enter(&self) -> Scope<'_> {
        let mut arena = self.0.take();
        if arena.block.as_ref().is_some_and(|block| !block.is_ours()) {
            // Shared with the process from which this one was forked.
            arena.block = None;
        }
        Scope { home: self, arena }
    }

    /// Frees the memory that no scope uses now.
    pub fn release(&self) {
        let free = std::mem::take(&mut *self.0.free.lock());
        drop(free);
    }

    /// Frees the memory that scopes of this thread used and no scope uses now, for a thread that needs no more scopes
    /// while other threads do. Otherwise the memory is kept for later scopes of any thread.
    ///
    /// ```
    /// let scopes = ringfeed::transform::Scopes::default();
    /// std::thread::scope(|threads| {
    ///     threads.spawn(|| {
    ///         scopes.enter().zeros::<f32>([1000]);
    ///         scopes.release_thread();
    ///     });
    /// });
    /// assert_eq!(scopes.stats().free_bytes, 0);
    /// ```
    pub fn release_thread(&self) {
        let here = here();
        let own: Vec<Arena> = self.0.free.lock().extract_if(.., |arena| arena.thread == here).collect();
        drop(own);
    }

    /// Statistics so far.
    pub fn stats(&self) -> ScopeStats {
        let free = self.0.free.lock();
        let free_bytes = free.iter().map(|arena| arena.bytes() as u64).sum();
        ScopeStats { spilled: self.spilled(), free_bytes }
    }
}

impl fmt::Debug for Scopes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Scopes").field(&self.stats()).finish()
    }
}

/// Temporary arrays that end together: those of one sample, one batch or one step.
///
/// They are slices that borrow the scope, so that an array that has ended can't be used:
///
/// ```compile_fail,E0502
/// let scopes = ringfeed::transform::Scopes::default();
/// let mut scope = scopes.enter();
/// let stale = scope.zeros::<f32>([3]);
/// scope.next();
/// stale[0] = 1.0;
/// ```
///
/// To keep an array, copy it: to ordinary memory with `to_vec`, to an outer scope with [`copy`](Scope::copy).
///
/// ```
/// let scopes = ringfeed::transform::Scopes::default();
/// let outer = scopes.enter();
/// let kept = {
///     let inner = outer.enter();
///     let squares = inner.zeros::<u64>([4]);
///     squares.iter_mut().zip(0..).for_each(|(square, i)| *square = i * i);
///     outer.copy(squares)
/// };
/// assert_eq!(kept, [0, 1, 4, 9]);
/// ```
pub struct Scope<'a> {
    home: &'a Scopes,
    arena: Arena,
}

impl Scope<'_> {
    /// An array of zeros with as many elements as this shape has, row-major.
    ///
    /// # Panics
    ///
    /// If the system refuses the memory; in a transform, this makes the record a bad one.
    /// [`try_zeros`](Self::try_zeros) gives an error instead.
    pub fn zeros<T: Pod>(&self, shape: impl AsRef<[usize]>) -> &mut [T] {
        self.try_zeros(shape).unwrap_or_else(|error| panic!("{error}"))
    }

    /// As [`zeros`](Self::zeros).
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Limit`] for a shape that is larger than any memory; errors of the source of the memory.
    #[expect(clippy::mut_from_ref, reason = "every call gives out another part of the memory")]
    pub fn try_zeros<T: Pod>(&self, shape: impl AsRef<[usize]>) -> Result<&mut [T]> {
        let shape = shape.as_ref();
        let len = shape.iter().try_fold(1usize, |product, len| product.checked_mul(*len));
        let sizes = len.and_then(|len| Some((len, len.checked_mul(size_of::<T>())?)));
        let Some((len, bytes)) = sizes.filter(|(_, bytes)| isize::try_from(*bytes).is_ok()) else {
            let message = format!("an array of shape {shape:?} has more bytes than memory");
            return Err(Error::new(ErrorKind::Limit, message));
        };
        if bytes == 0 {
            // SAFETY: no byte is read or written: the elements have no bytes, or there are none.
            return Ok(unsafe { std::slice::from_raw_parts_mut(NonNull::<T>::dangling().as_ptr(), len) });
        }
        let start = self.take(bytes, align_of::<T>())?.cast::<T>();
        // SAFETY: `take` gives `bytes` bytes, aligned for the type, that nothing else reaches in this cycle.
        unsafe { start.write_bytes(0, len) };
        // SAFETY: as above; the cycle ends by `&mut self` or a drop, both of which end this borrow. The bytes were
        // written just now, and all bits zero are a value of a `Pod` type.
        Ok(unsafe { std::slice::from_raw_parts_mut(start.as_ptr(), len) })
    }

    /// A copy of `values` that lives as long as this scope, so that an array of an inner scope can outlive it.
    ///
    /// # Panics
    ///
    /// As [`zeros`](Self::zeros).
    pub fn copy<T: Pod>(&self, values: &[T]) -> &mut [T] {
        let copy = self.zeros::<T>([values.len()]);
        copy.copy_from_slice(values);
        copy
    }

    /// The budget that counts the memory of this scope.
    #[cfg(feature = "images")]
    pub(crate) fn budget(&self) -> &MemoryBudget {
        &self.home.0.budget
    }

    /// A scope within this one, with its own memory. Its arrays end with it; those of this scope remain.
    pub fn enter(&self) -> Scope<'_> {
        self.home.enter()
    }

    /// Ends all arrays, and begins the next cycle in the same memory, which grows to fit the arrays of this cycle.
    pub fn next(&mut self) {
        self.arena.restart(&self.home.0);
    }

    /// `bytes` bytes of memory that were not given out in this cycle.
    fn take(&self, bytes: usize, alignment: usize) -> Result<NonNull<u8>> {
        let arena = &self.arena;
        let alignment = alignment.max(ALIGNMENT);
        let placed = |used: usize| {
            let start = used.checked_next_multiple_of(alignment)?;
            Some((start, start.checked_add(bytes)?))
        };
        if let Some(block) = arena.block.as_ref().filter(|_| alignment <= PAGE_BYTES)
            && let Some((start, end)) = placed(arena.used.get()).filter(|(_, end)| *end <= block.len())
        {
            arena.used.set(end);
            self.want(bytes, alignment);
            // SAFETY: the offset is within the block (checked above), whose first byte is aligned to a page.
            return Ok(unsafe { block.start().add(start) });
        }
        let start = self.spill(bytes, alignment)?;
        self.want(bytes, alignment);
        Ok(start)
    }

    /// The size that the block would need with these bytes, too.
    fn wanted_with(&self, bytes: usize, alignment: usize) -> Option<usize> {
        self.arena.wanted.get().checked_next_multiple_of(alignment)?.checked_add(bytes)
    }

    /// Counts memory that was allocated.
    fn want(&self, bytes: usize, alignment: usize) {
        if let Some(end) = self.wanted_with(bytes, alignment) {
            self.arena.wanted.set(end);
        }
    }

    #[cold]
    fn spill(&self, bytes: usize, alignment: usize) -> Result<NonNull<u8>> {
        let home = &self.home.0;
        if home.is_bounded && self.wanted_with(bytes, alignment).is_none_or(|end| end > home.limit) {
            let message = format!(
                "an array of {bytes} bytes beside {} others; a scope has {} here",
                self.arena.wanted.get(),
                home.limit
            );
            return Err(Error::new(ErrorKind::Limit, message));
        }
        let block = self.home.0.allocate(bytes)?;
        let start = block.start();
        if block.len() < bytes || !start.addr().get().is_multiple_of(alignment) {
            return Err(Error::new(ErrorKind::Limit, format!("no memory of {bytes} bytes aligned to {alignment}")));
        }
        self.home.0.spilled.fetch_add(1, Ordering::Relaxed);
        self.arena.spilled.borrow_mut().push(block);
        Ok(start)
    }
}

impl fmt::Debug for Scope<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Scope({} of {} bytes used)", self.arena.used.get(), self.arena.bytes())
    }
}

impl Drop for Scope<'_> {
    fn drop(&mut self) {
        let mut arena = std::mem::take(&mut self.arena);
        arena.restart(&self.home.0);
        arena.thread = here();
        self.home.0.free.lock().push(arena);
    }
}

impl Arena {
    fn bytes(&self) -> usize {
        self.block.as_ref().map_or(0, Block::len)
    }

    /// Removes all arrays, and makes room for as many bytes as this cycle used.
    fn restart(&mut self, home: &Shared) {
        self.used.set(0);
        let wanted = self.wanted.replace(0).min(home.limit);
        if wanted > self.bytes() {
            self.block = None;
            // If the source refuses now, it is asked again when the memory is needed.
            self.block = home.allocate(wanted).ok();
        }
        self.spilled.get_mut().clear();
    }
}

#[cfg(all(test, not(ringfeed_loom)))]
mod tests {
    use super::super::TempFilePages;
    use super::*;

    fn cycle(scope: &mut Scope<'_>) {
        let (a, b) = (scope.zeros::<f32>([100, 3]), scope.zeros::<u8>([7]));
        let c = scope.zeros::<f64>([1000]);
        assert!(a.iter().all(|x| *x == 0.0) && b.iter().all(|x| *x == 0) && c.iter().all(|x| *x == 0.0));
        a.fill(1.0);
        b.fill(2);
        c.fill(3.0);
        assert_eq!((a[299], b[6], c[999], a.len()), (1.0, 2, 3.0, 300));
        assert!(scope.zeros::<f32>([0, 5]).is_empty() && scope.zeros::<[u8; 0]>([5]).len() == 5);
        scope.next();
    }

    #[test]
    fn memory_is_learned_in_the_first_cycle() {
        let scopes = Scopes::default();
        {
            let mut scope = scopes.enter();
            cycle(&mut scope);
            assert_eq!(scopes.stats().spilled, 3);
            (0..10).for_each(|_| cycle(&mut scope));
            assert_eq!(scopes.stats().spilled, 3);
        }
        assert_eq!(scopes.stats().free_bytes, 12288);
        (0..3).for_each(|_| cycle(&mut scopes.enter()));
        assert_eq!(scopes.stats().spilled, 3);
        scopes.release();
        assert_eq!(scopes.stats().free_bytes, 0);
    }

    #[test]
    fn nested_scopes_have_memory_of_their_own_and_find_it_again() {
        let scopes = Scopes::default();
        for round in 0..3 {
            let mut outer = scopes.enter();
            let kept = outer.zeros::<u32>([5000]);
            kept.fill(9);
            for step in 0..4u32 {
                let mut inner = outer.enter();
                cycle(&mut inner);
                inner.zeros::<u32>([10]).fill(step);
                let later = outer.copy(inner.zeros::<u32>([2]));
                assert_eq!(later, [0, 0]);
            }
            assert!(kept.iter().all(|x| *x == 9), "round {round}");
            outer.next();
        }
        let spilled = scopes.stats().spilled;
        let outer = scopes.enter();
        outer.zeros::<u32>([5000]);
        cycle(&mut outer.enter());
        assert_eq!(scopes.stats().spilled, spilled);
    }

    #[test]
    fn what_is_beyond_the_limit_spills_every_time() {
        let scopes = Scopes::new(AnonymousPages, 4096);
        let mut scope = scopes.enter();
        for step in 1..5 {
            scope.zeros::<u8>([4000]);
            scope.zeros::<u8>([4000]);
            scope.next();
            assert_eq!(scopes.stats().spilled, step + 1);
        }
    }

    #[test]
    fn what_is_beyond_the_limit_of_bounded_scopes_is_refused_in_every_cycle() {
        let scopes = Scopes::bounded(AnonymousPages, 8192);
        let mut scope = scopes.enter();
        for cycle in 0..4 {
            scope.zeros::<u8>([4000]).fill(1);
            scope.zeros::<u8>([4000]).fill(2);
            let error = scope.try_zeros::<u8>([200]).unwrap_err();
            assert!(error.kind() == ErrorKind::Limit && error.to_string().contains("8192"), "{error}");
            assert!(scope.try_zeros::<u8>([64]).is_ok(), "a smaller one still fits");
            scope.next();
            assert_eq!(scopes.stats().spilled, 3, "in cycle {cycle}: only while the size is learned");
        }
    }

    #[test]
    fn arrays_may_lie_in_a_mapped_file_that_goes_with_them() {
        let folder = tempfile::tempdir().unwrap();
        let pages = TempFilePages::new(Some(folder.path().to_owned()), 64 << 10);
        let scopes = Scopes::new(pages, usize::MAX);
        let mut scope = scopes.enter();
        (0..5).for_each(|_| cycle(&mut scope));
        assert_eq!(scopes.stats().spilled, 3, "learned in the first cycle");
        #[cfg(target_os = "linux")]
        {
            let array = scope.zeros::<f32>([100]);
            let address = array.as_ptr().addr();
            let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
            let holds = |line: &&str| {
                let (from, to) = line.split_once(' ').unwrap().0.split_once('-').unwrap();
                let [from, to] = [from, to].map(|hex| usize::from_str_radix(hex, 16).unwrap());
                (from..to).contains(&address)
            };
            let map = maps.lines().find(holds).unwrap();
            assert!(map.contains(folder.path().to_str().unwrap()), "{map}");
        }
        // The file holds 12 KB of what was learned, and not more than its limit.
        assert!(scope.try_zeros::<u8>([48 << 10]).is_ok());
        let error = scope.try_zeros::<u8>([16 << 10]).unwrap_err();
        assert!(error.to_string().contains("limit"), "{error}");
        drop(scope);
        scopes.release();
        assert!(scopes.enter().try_zeros::<u8>([60 << 10]).is_ok(), "what was given back can be had again");
    }

    #[test]
    fn a_thread_gives_its_own_memory_back_while_others_keep_theirs() {
        let scopes = Scopes::default();
        let fill = |bytes: usize| {
            let mut outer = scopes.enter();
            outer.zeros::<u8>([bytes]);
            outer.enter().zeros::<u8>([bytes]);
            outer.next();
        };
        fill(8192);
        std::thread::scope(|threads| {
            let held = scopes.enter();
            held.zeros::<u8>([10]);
            let other = threads.spawn(|| {
                fill(4096);
                let before = scopes.stats().free_bytes;
                scopes.release_thread();
                before - scopes.stats().free_bytes
            });
            // One of this thread's two arenas is in use; the other was free, and may now belong to that thread.
            assert!(other.join().unwrap() >= 2 * 4096);
        });
        let before = scopes.stats();
        assert!(before.free_bytes > 0);
        scopes.release_thread();
        assert_eq!(scopes.stats(), ScopeStats { free_bytes: 0, ..before });
        fill(8192);
        assert_eq!(scopes.stats().free_bytes, 2 * 8192);
    }

    #[test]
    fn what_no_memory_has_room_for_is_an_error() {
        let scopes = Scopes::default();
        let scope = scopes.enter();
        for shape in [vec![usize::MAX], vec![usize::MAX, 2], vec![1 << 62]] {
            assert_eq!(scope.try_zeros::<f32>(&shape).unwrap_err().kind(), ErrorKind::Limit);
        }
        assert!(scope.try_zeros::<u8>([1 << 62]).is_err());
        scope.zeros::<u8>([10]).fill(1);
    }
}
