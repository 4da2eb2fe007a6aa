use std::fmt;
use std::sync::{Arc, OnceLock, Weak};
use std::time::{Duration, Instant};

use crate::caught::caught;
use crate::counters::{Tick, Tracer, now};
use crate::dataset::{Batch, BatchPlan, OpenedSource, PlanTerms, RowLimit, at_largest, measure_plan, plan_batch};
use crate::error::{Error, ErrorKind, Result};
use crate::layout::Layout;
use crate::memory::{AnonymousPages, MemoryBudget, PageSource, Scope, Scopes, whole_pages};
use crate::read::Scratch;
use crate::ring::{Overflow, Ring, RingConfig, RingStats};
use crate::stats::Trace;
use crate::storage::FetchLimit;
use crate::sync::{Condvar, Mutex};
use crate::tree::{no_faults, under};

use super::amount::Amount;
use super::depth::default_prefetch;
use super::manners::Manners;
use super::scheduling::cores;
use super::session::Session;
use super::steps::LONGEST_WAIT;
use super::tune::{Amounts, Bounds, LEAST_PREFETCH};
use super::workers::Pool;

/// Limits of `Amount::Auto`: threads (or so many per core, if that is more), batches, and bytes of the ring without a
/// budget.
const MOST_WORKERS: usize = 32;
const TIMES_CORES: usize = 4;
const MOST_PREFETCH: usize = 64;
const MOST_BYTES: u64 = 1 << 30;

/// Whether numbers that are not set are tuned, as with [`Amount::Auto`]; otherwise they keep their initial values. The
/// search costs up to 3 % if a trainer only takes batches (`benches/record/2026-11-23-autotune-short.md`).
pub(crate) const TUNED_BY_DEFAULT: bool = false;

/// A ring of batch buffers and the workers that fill them. It lives across epochs, and one source uses it at a time.
///
/// Clones are handles to the same workspace. Training and evaluation can take turns in it, in the same memory. The
/// source whose `next` is called takes over the workspace, and batches of the other source that were ready but not
/// delivered are filled again later. The ring has `prefetch + 2 + hold` slots. The first batch of the first source
/// determines their size, and a slot grows when a batch needs more. Worker threads start with the first asynchronous
/// iterator and end with the last handle.
///
/// Iterators in several threads take turns, batch by batch: while one is in `next`, another waits, at most for
/// `close_wait`. A source must not itself wait for an iterator of the same workspace: each would wait for the other.
///
/// A forked child process has none of the threads. There, a shielded iterator continues, in the child's own memory, if
/// nothing in its workspace was prefetched. Everything that needs a thread returns [`ErrorKind::Unsupported`]: make a
/// new workspace and iterator.
#[derive(Clone)]
pub struct Workspace(Arc<Inner>);

struct Inner {
    config: WorkspaceBuilder,
    begin: Amounts,
    ring: Mutex<Option<Ring<Batch>>>,
    pool: OnceLock<Pool>,
    scopes: Scopes,
    lending: Mutex<Lending>,
    /// An iterator has left `next`.
    left: Condvar,
}

/// The iterator that has the workspace.
struct Lending {
    to: Weak<Session>,
    /// An iterator is in `next`, and uses the workspace alone.
    is_busy: bool,
}

/// The workspace while one iterator, which is in `next`, uses it. No lock is held meanwhile, because `next` runs the
/// user's code.
pub(super) struct Turn<'a> {
    workspace: &'a Inner,
    /// When the wait for the workspace began, if another iterator had it.
    pub(super) waited_since: Option<Tick>,
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.workspace.lending.lock().is_busy = false;
        self.workspace.left.notify_one();
    }
}

/// Settings of a [`Workspace`].
#[derive(Clone, Debug)]
pub struct WorkspaceBuilder {
    /// By default as many as the manners allow.
    workers: Option<Amount>,
    /// As many as suit the first batch, unless a number is set.
    prefetch: Option<Amount>,
    least_prefetch: usize,
    hold: usize,
    budget: MemoryBudget,
    pages: Arc<dyn PageSource>,
    overflow: Overflow,
    lease_wait: Duration,
    close_wait: Duration,
    poison: Option<u8>,
    across_epochs: bool,
    fetch_limit: Option<FetchLimit>,
    manners: Arc<Manners>,
    trace: Option<Trace>,
    /// Changes the numbers all the time.
    #[cfg(test)]
    pub(super) is_restless: bool,
}

impl Default for Workspace {
    /// One worker for each core, two batches ahead (more if they are small), unbounded anonymous memory.
    fn default() -> Self {
        Self::builder().finish()
    }
}

impl Workspace {
    /// A builder with default settings.
    pub fn builder() -> WorkspaceBuilder {
        WorkspaceBuilder {
            workers: None,
            prefetch: None,
            least_prefetch: LEAST_PREFETCH,
            hold: 0,
            budget: MemoryBudget::unlimited(),
            pages: Arc::new(AnonymousPages),
            overflow: Overflow::Fail,
            lease_wait: Duration::from_secs(10),
            close_wait: Duration::from_secs(10),
            poison: None,
            across_epochs: true,
            fetch_limit: None,
            manners: Arc::default(),
            trace: None,
            #[cfg(test)]
            is_restless: false,
        }
    }

    /// Statistics of the ring; zeros before the first source.
    pub fn ring(&self) -> RingStats {
        self.0.ring.lock().as_ref().map_or_else(RingStats::default, Ring::stats)
    }

    /// Number of worker threads; with [`Amount::Auto`], the number that each iterator begins with.
    pub fn workers(&self) -> usize {
        self.0.begin.workers
    }

    /// Number of finished batches that may wait. If none is set, the first batch decides; before the first batch, this
    /// is the least possible number. With [`Amount::Auto`], the number for which the ring has slots now.
    pub fn prefetch(&self) -> usize {
        match (self.0.config.prefetch, &*self.0.ring.lock()) {
            (None | Some(Amount::Auto), Some(ring)) => {
                ring.slots().saturating_sub(self.0.config.other_slots()).max(self.0.begin.prefetch)
            }
            _ => self.0.begin.prefetch,
        }
    }

    /// The numbers that iterators begin with, and the limits for changing them.
    pub(super) fn amounts(&self) -> (Amounts, Bounds) {
        (self.0.begin, self.0.config.bounds())
    }

    /// The memory budget that the ring counts against.
    pub fn budget(&self) -> &MemoryBudget {
        &self.0.config.budget
    }

    /// A scope for temporary arrays of your own, such as the scores of a batch or the gradients of a step. Its memory
    /// belongs to the workspace and counts against its budget. The first cycle shows how much is needed; later cycles
    /// reuse it and allocate nothing.
    ///
    /// ```
    /// use ringfeed::{Loader, Workspace};
    ///
    /// let loader = Loader::csv("fixtures/iris-species.csv").labels(["species"]).batch_size(10);
    /// let workspace = loader.workspace()?;
    /// let mut scope = workspace.enter();
    /// for batch in loader.build_in(&workspace)? {
    ///     let batch = batch?;
    ///     let areas = scope.zeros::<f32>([batch.len()]);
    ///     let flowers = batch.features()?.as_slice::<f32>()?.chunks(4);
    ///     areas.iter_mut().zip(flowers).for_each(|(area, flower)| *area = flower[0] * flower[1]);
    ///     scope.next(); // the arrays end: one that is used behind it is a compile error
    /// }
    /// assert_eq!(workspace.scopes().stats().spilled, 1);
    /// # Ok::<(), ringfeed::Error>(())
    /// ```
    pub fn enter(&self) -> Scope<'_> {
        self.0.scopes.enter()
    }

    /// The memory of its scopes, for statistics, and to free what no scope uses.
    pub fn scopes(&self) -> &Scopes {
        &self.0.scopes
    }

    /// Shrinks free slots to `slot_bytes`, to free the memory of earlier, larger shapes.
    pub fn shrink_to(&self, slot_bytes: usize) {
        let ring = self.0.ring.lock().clone();
        if let Some(ring) = ring {
            ring.shrink_to(slot_bytes);
        }
    }

    /// The inputs of plans of this source: its seed, and the maximum number of rows of a batch.
    pub(super) fn terms(&self, opened: &OpenedSource) -> PlanTerms {
        let most_rows = RowLimit::of(opened.filler.schema(), self.budget());
        PlanTerms { seed: opened.seed, most_rows: Some(most_rows) }
    }

    pub(super) fn config(&self) -> &WorkspaceBuilder {
        &self.0.config
    }

    pub(super) fn pool(&self) -> Result<&Pool> {
        if let Some(pool) = self.0.pool.get() {
            return pool.check_process().map(|()| pool);
        }
        let pool = Pool::start(self.amounts(), &self.0.config.manners, self.0.config.close_wait)?;
        Ok(self.0.pool.get_or_init(|| pool))
    }

    /// The ring, that batch's plan, and the number of such batches that may wait. If there is no ring yet, the first
    /// batch of `opened` determines its size.
    pub(super) fn prepare(&self, opened: &mut OpenedSource) -> Result<(Ring<Batch>, Option<BatchPlan>, usize)> {
        let mut plan = BatchPlan::default();
        let terms = self.terms(opened);
        let planned = plan_batch(&mut *opened.planner, &mut plan, terms)?;
        let mut layout = Layout::default();
        if planned {
            let extents = measure_plan(&*opened.filler, &mut plan, &mut Scratch::default());
            plan.lay_out(&mut layout, opened.filler.schema(), extents)
                .map_err(|error| at_largest(&*opened.filler, &plan, error))?;
        }
        let (config, begin) = (&self.0.config, self.0.begin);
        let wanted = match config.prefetch {
            Some(Amount::Exactly(batches)) => batches,
            None | Some(Amount::Auto) => {
                let slot_bytes = whole_pages(layout.bytes()) as u64;
                default_prefetch(begin.prefetch, opened.filler.schema(), slot_bytes, config.budget.limit())
            }
        };
        let mut ring = self.0.ring.lock();
        let (ring, prefetch) = match &mut *ring {
            // Another source had as many slots made as suit it.
            Some(ring) => {
                let most = ring.slots().saturating_sub(config.other_slots()).max(begin.prefetch);
                (ring.clone(), wanted.min(most))
            }
            none => {
                let made = Ring::new(RingConfig {
                    slots: wanted + config.other_slots(),
                    slot_bytes: layout.bytes(),
                    pages: config.pages.clone(),
                    budget: config.budget.clone(),
                    overflow: config.overflow,
                    poison: config.poison,
                })
                .map_err(|error| at_largest(&*opened.filler, &plan, error))?;
                (none.insert(made).clone(), wanted)
            }
        };
        Ok((ring, planned.then_some(plan), prefetch))
    }

    /// Lends the workspace to `session` if it is free, so that batches are made before the trainer asks for them.
    pub(super) fn lend_if_free(&self, session: &Arc<Session>) -> Result<()> {
        let mut lending = self.0.lending.lock();
        if lending.is_busy || lending.to.strong_count() > 0 {
            return Ok(());
        }
        lending.to = Arc::downgrade(session);
        session.resume()
    }

    /// Lends the workspace to `session`, taking it from the session that has it. It can't be taken back during this
    /// turn.
    pub(super) fn lend(&self, session: &Arc<Session>) -> Result<Turn<'_>> {
        session.check_process()?;
        let (turn, other) = self.turn(Arc::as_ptr(session))?;
        if let Some(other) = other {
            take_back(&other)?;
            self.0.lending.lock().to = Arc::downgrade(session);
        }
        session.resume()?;
        Ok(turn)
    }

    /// Lends the workspace's memory to the calling thread.
    pub(super) fn lend_to_caller(&self) -> Result<Turn<'_>> {
        let (turn, other) = self.turn(Weak::new().as_ptr())?;
        if let Some(other) = other {
            take_back(&other)?;
            self.0.lending.lock().to = Weak::new();
        }
        Ok(turn)
    }

    /// Lets `session` continue if it has the workspace. Does not wait: an iterator that is in `next` now is taking it
    /// away.
    pub(super) fn resume_if_lent(&self, session: &Arc<Session>) -> Result<()> {
        let lending = self.0.lending.lock();
        if lending.is_busy || !std::ptr::eq(lending.to.as_ptr(), Arc::as_ptr(session)) {
            return Ok(());
        }
        session.resume()
    }

    /// Waits until no iterator is in `next`. Also returns the session that has the workspace, if it is not `session`.
    fn turn(&self, session: *const Session) -> Result<(Turn<'_>, Option<Weak<Session>>)> {
        let mut lending = self.0.lending.lock();
        let mut deadline = None;
        let mut waited_since = lending.is_busy.then(now);
        while lending.is_busy {
            let close_wait = self.0.config.close_wait;
            let deadline = *deadline.get_or_insert_with(|| Instant::now() + close_wait);
            if Instant::now() >= deadline {
                let message = format!(
                    "another iterator of the workspace has been in `next` for {close_wait:?}: its reader is stuck or slow; \
                     wait longer with `close_wait`, or give each thread a workspace of its own"
                );
                return Err(Error::new(ErrorKind::TimedOut, message));
            }
            lending = self.0.left.wait_until(lending, deadline);
        }
        lending.is_busy = true;
        let other = (!std::ptr::eq(lending.to.as_ptr(), session)).then(|| lending.to.clone());
        drop(lending);
        if waited_since.is_none() && other.as_ref().is_some_and(|other| other.strong_count() > 0) {
            waited_since = Some(now());
        }
        Ok((Turn { workspace: &self.0, waited_since }, other))
    }
}

/// Whether a number is tuned while the trainer works.
pub(crate) fn is_tuned(amount: Option<Amount>) -> bool {
    amount.map_or(TUNED_BY_DEFAULT, |amount| amount == Amount::Auto)
}

fn take_back(current: &Weak<Session>) -> Result<()> {
    let Some(session) = current.upgrade() else { return Ok(()) };
    let paused = session.pause();
    // If its iterator is gone, this may be the last owner. Errors of its source's destructors are not the caller's.
    if let Err(error) = caught(|| {
        drop(session);
        Ok(())
    }) {
        tracing::warn!(%error, "a source panicked while it was dropped");
    }
    paused
}

impl fmt::Debug for Workspace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Workspace").field("config", &self.0.config).field("ring", &self.ring()).finish()
    }
}

impl WorkspaceBuilder {
    /// Number of threads that fill batches. Default: one for each core that they may use, within the process's affinity
    /// mask and the quotas of its control groups (for example, two in a container with 2 of 64 cores). [`Amount::Auto`]
    /// tunes the number during the run.
    ///
    /// On Linux, workers and the planning thread run under `SCHED_BATCH`: they use all free time of the cores, but do
    /// not interrupt the trainer's thread when it wakes them. They still compete with it for a core that both need. If
    /// that slows your steps down, use [`worker_cores`](Self::worker_cores), [`worker_nice`](Self::worker_nice) and
    /// [`worker_share`](Self::worker_share).
    #[must_use]
    pub fn workers(mut self, threads: impl Into<Amount>) -> Self {
        self.workers = Some(threads.into());
        self
    }

    /// The cores, by the system's numbers, that workers and the planning thread run on. The trainer then has the other
    /// cores to itself. On Linux only. Default: all that the process may use.
    #[must_use]
    pub fn worker_cores(mut self, cores: impl IntoIterator<Item = usize>) -> Self {
        Arc::make_mut(&mut self.manners).cores = cores.into_iter().collect();
        self
    }

    /// Niceness of workers and of the planning thread, from 0 to 19. If a thread of niceness 0 needs the same core, a
    /// worker of niceness 5 gets a quarter of it, 10 a tenth, and 19 a hundredth; it gets all of a free core. On Linux
    /// only. Default: 0, like other threads.
    #[must_use]
    pub fn worker_nice(mut self, nice: u8) -> Self {
        Arc::make_mut(&mut self.manners).nice = nice;
        self
    }

    /// Maximum share of the time of the cores that this process may use, from 0.001 to 1, that all workers use together,
    /// even if cores are free. A worker that has used more rests before its next job. Default: no limit.
    #[must_use]
    pub fn worker_share(mut self, share: f64) -> Self {
        Arc::make_mut(&mut self.manners).share = Some(share);
        self
    }

    /// Number of finished batches that may wait. The ring has two more slots: for the batch that is being filled and
    /// the one that the trainer uses. Default: 2. If batches are smaller than 5 MiB and their shape never changes, the
    /// default is as many as fit into 10 MiB and a quarter of the budget, at most 8. [`Amount::Auto`] tunes the number
    /// during the run.
    ///
    /// While the trainer waits for its first batch, no more batches are begun than there are workers (two with one
    /// worker).
    #[must_use]
    pub fn prefetch(mut self, batches: impl Into<Amount>) -> Self {
        self.prefetch = Some(batches.into());
        self
    }

    /// The minimum number of finished batches that may wait if [`prefetch`](Self::prefetch) is not set.
    #[must_use]
    pub(crate) fn least_prefetch(mut self, batches: usize) -> Self {
        self.least_prefetch = batches;
        self
    }

    /// Number of batches that the trainer may hold in addition to the one it uses, without delaying others. The ring
    /// has this many more slots. Default: 0.
    #[must_use]
    pub fn hold(mut self, batches: usize) -> Self {
        self.hold = batches;
        self
    }

    /// The memory budget that the ring counts against. Default: no limit.
    #[must_use]
    pub fn budget(mut self, budget: MemoryBudget) -> Self {
        self.budget = budget;
        self
    }

    /// The source of slot memory. Default: anonymous pages.
    #[must_use]
    pub fn pages(mut self, pages: impl PageSource + 'static) -> Self {
        self.pages = Arc::new(pages);
        self
    }

    /// What to do with a batch for which there is no slot, or not enough memory. Default: an error.
    #[must_use]
    pub fn overflow(mut self, overflow: Overflow) -> Self {
        self.overflow = overflow;
        self
    }

    /// How long `next` waits when the caller holds every slot. Default: 10 s.
    #[must_use]
    pub fn lease_wait(mut self, time: Duration) -> Self {
        self.lease_wait = time.min(LONGEST_WAIT);
        self
    }

    /// How long `reset`, switching sources and dropping wait for work in progress. Default: 10 s.
    #[must_use]
    pub fn close_wait(mut self, time: Duration) -> Self {
        self.close_wait = time.min(LONGEST_WAIT);
        self
    }

    /// Whether prefetch continues into the next epoch when all batches of an epoch are planned, so that its first batch
    /// is ready in time. Default: yes. Streams never continue by themselves, because starting them again runs your
    /// code.
    #[must_use]
    pub fn across_epochs(mut self, runs_on: bool) -> Self {
        self.across_epochs = runs_on;
        self
    }

    /// Limits the time for reading one sample's bytes. Default: no limit. This costs two hand-offs between threads per
    /// sample. The shield has no second thread that could continue, and ignores it.
    #[must_use]
    pub fn fetch_limit(mut self, limit: FetchLimit) -> Self {
        self.fetch_limit = Some(limit);
        self
    }

    /// Records the work of every thread over time, for all iterators of the workspace. Default: no trace.
    #[must_use]
    pub fn trace(mut self, trace: Trace) -> Self {
        self.trace = Some(trace);
        self
    }

    /// Fills each slot with this byte before every use, to show which bytes a decoder does not write.
    #[must_use]
    pub fn poison(mut self, byte: u8) -> Self {
        self.poison = Some(byte);
        self
    }

    /// Makes the workspace. It takes no memory and starts no thread before its first source.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Config`] for 0 or more than 4096 workers, or more than 4096 batches ahead or to hold.
    pub fn build(self) -> Result<Workspace> {
        no_faults(self.faults())?;
        Ok(self.finish())
    }

    /// All faults of the settings, on this machine.
    fn faults(&self) -> Vec<String> {
        let mut faults = [self.manners.faults(), self.manners.faults_here()].concat();
        faults.extend(self.fetch_limit.into_iter().flat_map(|limit| under("fetch_limit", limit.faults())));
        let Amounts { workers, prefetch } = self.begin();
        if workers == 0 || workers > 4096 || prefetch > 4096 || self.hold > 4096 {
            faults.push(format!(
                "{} workers, {} batches ahead, {} to hold: there are 1 to 4096 workers, and at most 4096 batches ahead or to \
                 hold (to make batches without prefetch use the shield)",
                workers, prefetch, self.hold
            ));
        }
        faults
    }

    fn finish(self) -> Workspace {
        Workspace(Arc::new(Inner {
            scopes: Scopes::of(self.pages.clone(), self.budget.clone(), usize::MAX),
            begin: self.begin(),
            config: self,
            ring: Mutex::new(None),
            pool: OnceLock::new(),
            lending: Mutex::new(Lending { to: Weak::new(), is_busy: false }),
            left: Condvar::new(),
        }))
    }

    /// Slots in addition to those of waiting batches: one that is being filled, one that the trainer uses, and those
    /// that it holds.
    pub(super) fn other_slots(&self) -> usize {
        2 + self.hold
    }

    fn begin(&self) -> Amounts {
        Amounts {
            workers: self.workers.and_then(Amount::number).unwrap_or_else(|| self.manners.workers()),
            prefetch: self.prefetch.and_then(Amount::number).unwrap_or(self.least_prefetch),
        }
    }

    fn bounds(&self) -> Bounds {
        let most_workers = (TIMES_CORES * cores()).max(MOST_WORKERS);
        Bounds {
            workers: is_tuned(self.workers).then_some(most_workers),
            prefetch: is_tuned(self.prefetch).then_some(MOST_PREFETCH),
            bytes: match self.budget.limit() {
                u64::MAX => MOST_BYTES,
                // Other parts need some memory later.
                limit => limit / 2,
            },
            #[cfg(test)]
            is_restless: self.is_restless,
        }
    }

    pub(super) fn manners(&self) -> Arc<Manners> {
        self.manners.clone()
    }

    pub(super) fn lease_wait_time(&self) -> Duration {
        self.lease_wait
    }

    pub(super) fn close_wait_time(&self) -> Duration {
        self.close_wait
    }

    pub(super) fn fetch_limit_of_a_sample(&self) -> Option<FetchLimit> {
        self.fetch_limit
    }

    /// For the next iterator, if there is a trace.
    pub(super) fn tracer(&self) -> Option<Tracer> {
        self.trace.as_ref().map(Trace::tracer)
    }

    pub(super) fn is_running_on(&self) -> bool {
        self.across_epochs
    }

    pub(super) fn is_spilling(&self) -> bool {
        self.overflow == Overflow::Spill
    }
}
