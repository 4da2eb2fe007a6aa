//! One loader's iterator: taken out by whoever works with it, brought home afterwards, and waited for with an eye on signals.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, mpsc};
use std::thread;
use std::time::Duration;

use pyo3::exceptions::PySystemExit;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use ringfeed::columns::{Columns, ColumnsOptions};
use ringfeed::device::Conversion;
use ringfeed::settings::MemoryKind;
use ringfeed::storage::Mapping;
use ringfeed::{Error, ErrorKind, Loader, LoaderConfig, Result, State};
use serde::Serialize;

use crate::batch::{Batch, Count, Shared};
use crate::epoch::{Epoch, Form};
use crate::errors::{caught, exception, raise};
use crate::report::RunReport;
use crate::running::{MOST_HELD, Made, Running, Target};
use crate::table::Table;
use crate::{fork, loads, prepare, reader, samples, transform, verify};

/// How long a wait lasts before signals are looked at.
const LOOK_UP: Duration = Duration::from_millis(50);

/// The part of a loader that is not Python: settings, and the iterator once something of it is needed.
#[pyclass(frozen, weakref, module = "ringfeed._ringfeed")]
pub(crate) struct Engine {
    loader: Loader,
    target: Option<Target>,
    hold: Hold,
    place: Arc<Place>,
    /// Batches in the user's hands that lie in the ring.
    held: Arc<AtomicUsize>,
    copied: AtomicU64,
    warned: AtomicBool,
}

/// What happens to batches that the user keeps.
#[derive(Clone, Copy)]
struct Hold {
    /// How many may be kept beside the one in hand.
    batches: usize,
    /// Whether a further one is copied; otherwise it is an error.
    copies: bool,
    /// Whether every batch is copied: page-locked memory may be read by a device long after the tensor on it is gone, as
    /// PyTorch's copies that are not waited for do.
    always: bool,
}

/// Where the iterator lies while nobody works with it.
#[derive(Default)]
struct Place {
    here: Mutex<Here>,
    came_home: Condvar,
}

#[derive(Default)]
struct Here {
    running: Option<Running>,
    /// The process whose thread has the iterator.
    out: Option<u64>,
    is_closed: bool,
    course: Course,
}

/// How loops over the loader stand to each other.
#[derive(Clone, Copy, Default)]
struct Course {
    /// The number of the loop that batches are for.
    serial: u64,
    /// Something was delivered to it, so that another loop begins another epoch.
    begun: bool,
    /// Nothing is left of its epoch.
    over: bool,
    /// It goes on from a state, which may have been that of an epoch's end.
    resumed: bool,
}

/// The iterator in one hand, whichever thread that is on; dropping it brings it home.
struct Turn {
    running: Option<Running>,
    place: Arc<Place>,
}

impl Place {
    /// Held for moments only, and never while Python code may run.
    fn here(&self) -> MutexGuard<'_, Here> {
        self.here.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Place {
    /// Takes whatever is there, as soon as no other thread has it.
    fn take(self: &Arc<Self>, py: Python<'_>) -> PyResult<Turn> {
        loop {
            let mut here = self.here();
            let Some(generation) = here.out else {
                here.out = Some(fork::generation());
                return Ok(Turn { running: here.running.take(), place: self.clone() });
            };
            drop(here);
            check_generation(py, generation)?;
            py.detach(|| {
                let here = self.here();
                if here.out.is_some() {
                    drop(self.came_home.wait_timeout(here, LOOK_UP));
                }
            });
            py.check_signals()?;
        }
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        let mut here = self.place.here();
        here.running = self.running.take();
        here.out = None;
        drop(here);
        self.place.came_home.notify_one();
    }
}

impl Turn {
    fn running(&mut self) -> Result<&mut Running> {
        self.running.as_mut().ok_or_else(|| Error::new(ErrorKind::Ended, "the loader is closed"))
    }
}

/// Runs `work` on a thread of its own, and looks at signals until it ends. If one of them raises, `work` goes on without
/// being waited for.
pub(crate) fn patiently<R: Send + 'static>(
    py: Python<'_>,
    work: impl FnOnce() -> Result<R> + Send + 'static,
) -> PyResult<R> {
    patiently_with(py, |_| Ok(()), work)
}

/// As [`patiently`]; `meanwhile` is called each time that signals are looked at, and once at the end.
pub(crate) fn patiently_with<R: Send + 'static>(
    py: Python<'_>,
    mut meanwhile: impl FnMut(Python<'_>) -> PyResult<()>,
    work: impl FnOnce() -> Result<R> + Send + 'static,
) -> PyResult<R> {
    let (send, receive) = mpsc::sync_channel(1);
    let receive = Mutex::new(receive);
    let ended = |_| Error::new(ErrorKind::Panicked, "a thread ended early");
    thread::Builder::new()
        .name("ringfeed-call".to_owned())
        .spawn(move || {
            let _at_work = AtWork::begin();
            drop(send.send(caught(work)));
        })
        .map_err(|error| exception(py, &Error::new(ErrorKind::Io, format!("no thread: {error}"))))?;
    loop {
        let received =
            py.detach(|| match receive.lock().unwrap_or_else(PoisonError::into_inner).recv_timeout(LOOK_UP) {
                Ok(result) => Some(result),
                Err(mpsc::RecvTimeoutError::Timeout) => None,
                Err(error) => Some(Err(ended(error))),
            });
        meanwhile(py)?;
        match received {
            Some(result) => return result.map_err(|error| exception(py, &error)),
            None => py.check_signals()?,
        }
    }
}

/// Threads of [`patiently`] that are at work.
static AT_WORK: AtomicUsize = AtomicUsize::new(0);

struct AtWork;

impl AtWork {
    fn begin() -> Self {
        AT_WORK.fetch_add(1, Ordering::AcqRel);
        Self
    }
}

impl Drop for AtWork {
    fn drop(&mut self) {
        AT_WORK.fetch_sub(1, Ordering::AcqRel);
    }
}

/// The interpreter is about to end.
static ENDS: AtomicBool = AtomicBool::new(false);

/// What asking a closed loader raises. Where the interpreter's end has closed it under a daemon thread, that is what ends
/// such a thread without a word: Python would stop it a moment later anyway, perhaps in the middle of a traceback.
fn closed(py: Python<'_>) -> PyErr {
    let is_main = || -> PyResult<bool> {
        let threading = py.import("threading")?;
        Ok(threading.call_method0("current_thread")?.is(&threading.call_method0("main_thread")?))
    };
    if ENDS.load(Ordering::Acquire) && matches!(is_main(), Ok(false)) {
        return PySystemExit::new_err(());
    }
    raise(py, ErrorKind::Ended, "the loader is closed")
}

/// Closes all loaders before the interpreter ends, and waits until nothing is at work that somebody has not waited for:
/// it must not end under it.
#[pyfunction]
pub(crate) fn finish(py: Python<'_>, open: Vec<Py<Engine>>) -> PyResult<()> {
    ENDS.store(true, Ordering::Release);
    for engine in open {
        engine.get().close(py)?;
    }
    // A forked child has no such thread, whatever is counted.
    while AT_WORK.load(Ordering::Acquire) > 0 && fork::generation() == 0 {
        py.detach(|| thread::sleep(Duration::from_millis(1)));
        py.check_signals()?;
    }
    Ok(())
}

/// An error in a process that another one made by forking, after that one had opened the loader.
fn check_generation(py: Python<'_>, generation: u64) -> PyResult<()> {
    if generation == fork::generation() {
        return Ok(());
    }
    let message = "the loader was opened before this process was forked, and its threads stayed behind: make the loader in \
                   the child (one that nothing was asked of yet may be made before)";
    Err(raise(py, ErrorKind::Unsupported, message))
}

impl Engine {
    /// The iterator, as soon as no other thread works with it; opened if it is not yet.
    fn turn(&self, py: Python<'_>) -> PyResult<Turn> {
        let mut turn = self.place.take(py)?;
        // Asked only now: whoever closed it may have had the iterator until then.
        if self.place.here().is_closed || ENDS.load(Ordering::Acquire) {
            return Err(closed(py));
        }
        if let Some(running) = &turn.running {
            check_generation(py, running.generation)?;
        }
        if turn.running.is_none() {
            let (loader, hold, target) = (self.loader.clone(), self.hold.batches, self.target.clone());
            turn = patiently(py, move || {
                turn.running = Some(Running::open(&loader, hold, target.as_ref())?);
                Ok(turn)
            })?;
        }
        Ok(turn)
    }

    /// Does what may take its time with the iterator; see [`patiently`].
    fn with<R: Send + 'static>(
        &self,
        py: Python<'_>,
        work: impl FnOnce(&mut Running) -> Result<R> + Send + 'static,
    ) -> PyResult<R> {
        let turn = self.turn(py)?;
        Ok(with(py, turn, work)?.1)
    }

    /// The next batch for loop `serial`; `None` at the end of its epoch.
    pub(crate) fn next(&self, py: Python<'_>, serial: u64) -> PyResult<Option<Arc<Shared>>> {
        let mut turn = self.turn(py)?;
        let course = self.place.here().course;
        if serial < course.serial {
            let message = "another loop over the loader has begun, or it was set to another place: take a new iterator";
            return Err(raise(py, ErrorKind::Ended, message));
        }
        if serial > course.serial {
            turn = with(py, turn, Running::reset)?.0;
            self.place.here().course = Course { serial, ..Course::default() };
        } else if course.over {
            return Ok(None);
        }
        if !(self.hold.copies && self.target.is_none()) && self.held.load(Ordering::Acquire) > self.hold.batches {
            return Err(raise(py, ErrorKind::Exhausted, self.held_text("let one go, or raise `hold`")));
        }
        loop {
            match self.wait(py, &mut turn)? {
                Some(Ok(batch)) => {
                    self.place.here().course.begun = true;
                    return self.admit(py, turn, batch).map(Some);
                }
                Some(Err(error)) => {
                    let mut here = self.place.here();
                    here.course.begun = true;
                    here.course.over = error.kind() != ErrorKind::Exhausted;
                    drop(here);
                    return Err(exception(py, &error));
                }
                None => {
                    let course = self.place.here().course;
                    if course.resumed && !course.begun {
                        // The state was that of an epoch's end: what comes behind it is the next epoch.
                        self.place.here().course.resumed = false;
                        turn = with(py, turn, Running::reset)?.0;
                        continue;
                    }
                    let mut here = self.place.here();
                    (here.course.begun, here.course.over) = (true, true);
                    return Ok(None);
                }
            }
        }
    }

    /// What the iterator answers, waited for with an eye on signals. A signal loses nothing.
    fn wait(&self, py: Python<'_>, turn: &mut Turn) -> PyResult<Option<Result<Made>>> {
        let running = turn.running().map_err(|error| exception(py, &error))?;
        if let Some(spare) = running.spare.take() {
            return Ok(Some(Ok(spare)));
        }
        loop {
            let answer = py.detach(|| {
                let answered = caught(|| Ok(running.batches.ready_within(LOOK_UP).then(|| running.batches.next())));
                answered.unwrap_or_else(|error| Some(Some(Err(error))))
            });
            match answer {
                Some(answer) => return Ok(answer),
                None => py.check_signals()?,
            }
        }
    }

    /// Hands a batch out, copied if the user holds more than there are places for.
    fn admit(&self, py: Python<'_>, mut turn: Turn, batch: Made) -> PyResult<Arc<Shared>> {
        let running = turn.running().map_err(|error| exception(py, &error))?;
        let batch = match batch {
            Made::Host(batch) => batch,
            Made::Device(batch) => {
                running.state = batch.facts().after;
                let schema = running.batches.schema().clone();
                return Ok(Arc::new(Shared::on_device(batch, schema, Count::new(&self.held))));
            }
        };
        let held = self.held.load(Ordering::Acquire);
        let copied = self.hold.always || held > self.hold.batches;
        if copied
            && !self.warned.swap(true, Ordering::Relaxed)
            && let Err(raised) = self.warn(py)
        {
            running.spare = Some(Made::Host(batch));
            return Err(raised);
        }
        let state = batch.state_after();
        let shared = if copied {
            let bytes = batch.layout().bytes() as u64;
            let reserved = running.budget.reserve(bytes, "a copy of a batch, because others are held,");
            let reservation = match reserved {
                Ok(reservation) => reservation,
                Err(error) => {
                    running.spare = Some(Made::Host(batch));
                    return Err(exception(py, &error));
                }
            };
            self.copied.fetch_add(1, Ordering::Relaxed);
            let batch = py.detach(|| batch.detach()).map_err(|error| exception(py, &error))?;
            Shared::copied(batch, Some(reservation))
        } else {
            Shared::leased(batch, Count::new(&self.held))
        };
        running.state = state;
        Ok(Arc::new(shared))
    }

    fn held_text(&self, advice: &str) -> String {
        let held = self.held.load(Ordering::Acquire);
        let on = self.target.as_ref().map(|target| format!(" on {}", target.device)).unwrap_or_default();
        format!("{held} batches are held, and there are places for {}{on}: {advice}", self.hold.batches + 1)
    }

    fn warn(&self, py: Python<'_>) -> PyResult<()> {
        let text = if self.hold.always {
            "every batch is copied out of page-locked memory, which only an upload to a device makes use of: leave the memory \
             at its default"
                .to_owned()
        } else {
            self.held_text(
                "further ones are copied, until some are let go (this is said once; stats()[\"copied\"] counts). If that is \
                 what you want, raise `hold`; on_hold=\"error\" makes it an error",
            )
        };
        let text = transform::c_text(&text);
        let category = py.import("ringfeed._errors")?.getattr("HoldWarning")?;
        PyErr::warn(py, &category, &text, 1)
    }
}

fn with<R: Send + 'static>(
    py: Python<'_>,
    mut turn: Turn,
    work: impl FnOnce(&mut Running) -> Result<R> + Send + 'static,
) -> PyResult<(Turn, R)> {
    patiently(py, move || {
        let result = work(turn.running()?)?;
        Ok((turn, result))
    })
}

/// Where batches go, by a device's name and a text of JSON with a conversion for each tensor that has one.
fn target(device: Option<&str>, convert: Option<&str>, hold: usize) -> Result<Option<Target>> {
    let fault = |message: String| Err(Error::new(ErrorKind::Config, message));
    let conversions = match convert.map(serde_json::from_str::<BTreeMap<String, Conversion>>).transpose() {
        Ok(conversions) => conversions.unwrap_or_default().into_iter().collect::<Vec<_>>(),
        // The text has one line, which says nothing.
        Err(error) => {
            return fault(format!("convert: {}", error.to_string().split(" at line ").next().unwrap_or_default()));
        }
    };
    match device {
        None if conversions.is_empty() => Ok(None),
        None => fault("convert: tensors are converted on a device, and `device` names none".to_owned()),
        Some(_) if hold > MOST_HELD => fault(format!("hold: a device has places for {MOST_HELD} batches at most")),
        Some(name) => Ok(Some(Target { device: name.parse()?, conversions })),
    }
}

/// A field of the settings as JSON.
pub(crate) fn json<T: Serialize>(py: Python<'_>, value: &T) -> PyResult<Py<PyAny>> {
    let text = serde_json::to_string(value).map_err(|error| raise(py, ErrorKind::Format, error.to_string()))?;
    loads(py, &text)
}

#[pymethods]
impl Engine {
    /// Checks the settings, a text of JSON, and looks for what they name. No thread begins here.
    #[new]
    #[pyo3(signature = (settings, *, hold, copies, mapping, transforms, source, device, convert))]
    #[expect(clippy::too_many_arguments, reason = "named ones, which the package's own Python gives")]
    fn new(
        py: Python<'_>,
        settings: &str,
        hold: usize,
        copies: bool,
        mapping: bool,
        transforms: Vec<Py<PyAny>>,
        source: Option<Py<PyAny>>,
        device: Option<&str>,
        convert: Option<&str>,
    ) -> PyResult<Self> {
        let target = target(device, convert, hold).map_err(|error| exception(py, &error))?;
        let config = LoaderConfig::from_json(settings)
            // The text has one line, which says nothing.
            .map_err(|error| raise(py, error.kind(), error.message()))?;
        // Formats are detected and fields looked at here, so that a wrong path is an error where it is written.
        let resolve = || if source.is_none() { config.resolved() } else { Ok(config) };
        let config = py.detach(|| caught(resolve)).map_err(|error| exception(py, &error))?;
        let always = target.is_none() && matches!(config.memory.kind, MemoryKind::PageLocked { .. });
        let mut loader = Loader::from(config);
        if let Some(source) = source {
            let table = source.bind(py).getattr_opt("table")?;
            let table = table.map(|table| Ok::<_, PyErr>(table.cast_into::<Table>()?.get().0.clone())).transpose()?;
            let is_stream = source.bind(py).hasattr("repeatable")?;
            loader = match table {
                Some(table) => {
                    loader.container(move |budget| Columns::of_table(&table, &ColumnsOptions::default(), budget))
                }
                None if is_stream => loader.samples(move || samples::open(&source)),
                None => loader.container(move |_| reader::open(&source)),
            };
        }
        if mapping {
            // SAFETY: the promise is the user's, who says `mapping=True`; its documentation says what that means.
            loader = loader.mapping(unsafe { Mapping::promise() });
        }
        if let [first, rest @ ..] = loader.faults().as_slice() {
            let message = match rest {
                [] => first.clone(),
                _ => format!("{} faults in the settings:\n  {}", rest.len() + 1, loader.faults().join("\n  ")),
            };
            return Err(raise(py, ErrorKind::Config, message));
        }
        Ok(Self {
            loader: transform::add(py, loader, &transforms)?,
            target,
            hold: Hold { batches: hold, copies, always },
            place: Arc::default(),
            held: Arc::default(),
            copied: AtomicU64::new(0),
            warned: AtomicBool::new(false),
        })
    }

    /// An error if loops can't be asked for in this form.
    fn check(&self, yields: Bound<'_, PyAny>) -> PyResult<()> {
        Form::new(&yields, None).map(drop)
    }

    /// A loop over the batches of an epoch: of the one that has not begun, or else of the next.
    #[pyo3(signature = (yields, framework=None))]
    fn iterate(slf: Bound<'_, Self>, yields: Bound<'_, PyAny>, framework: Option<&str>) -> PyResult<Epoch> {
        let form = Form::new(&yields, framework)?;
        let course = slf.get().place.here().course;
        Ok(Epoch::new(slf.unbind(), course.serial + u64::from(course.begun), form))
    }

    /// Number of batches of an epoch, if it is known.
    fn batches_per_epoch(&self, py: Python<'_>) -> PyResult<Option<u64>> {
        let mut turn = self.turn(py)?;
        Ok(turn.running().map_err(|error| exception(py, &error))?.batches.batches_per_epoch())
    }

    /// The place after the last batch that was delivered.
    fn state(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        let mut turn = self.turn(py)?;
        let state = turn.running().map_err(|error| exception(py, &error))?.state;
        drop(turn);
        json(py, &state)
    }

    /// Goes on behind a state, given as a text of JSON.
    fn load_state(&self, py: Python<'_>, state: &str) -> PyResult<()> {
        let state: State = serde_json::from_str(state)
            .map_err(|error| raise(py, ErrorKind::Config, format!("this is no state of a loader: {error}")))?;
        self.with(py, move |running| running.seek(&state))?;
        self.place.here().course.go_on(state.position > 0);
        Ok(())
    }

    /// Makes `epoch` the one that the next loop is over; does nothing where it is.
    fn set_epoch(&self, py: Python<'_>, epoch: u64) -> PyResult<()> {
        let mut turn = self.turn(py)?;
        let now = turn.running().map_err(|error| exception(py, &error))?.state;
        let begun = self.place.here().course.begun;
        if now.epoch.wrapping_add(u64::from(begun)) == epoch {
            return Ok(());
        }
        let state = State { epoch, position: 0, bad: 0, run: 0, ..now };
        turn = with(py, turn, move |running| running.seek(&state))?.0;
        self.place.here().course.go_on(false);
        drop(turn);
        Ok(())
    }

    /// What a sample is made of: a table for each tensor.
    fn tensors(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        let mut turn = self.turn(py)?;
        let schema = turn.running().map_err(|error| exception(py, &error))?.batches.schema().clone();
        drop(turn);
        let tensors: Vec<_> = schema
            .tensors()
            .iter()
            .map(|spec| {
                let shape: Vec<Option<usize>> = spec
                    .shape
                    .iter()
                    .map(|dim| match dim {
                        ringfeed::tensor::Dim::Fixed(len) => Some(*len),
                        ringfeed::tensor::Dim::Extent(_) => None,
                    })
                    .collect();
                serde_json::json!({
                    "name": spec.name,
                    "role": spec.role,
                    "dtype": spec.dtype,
                    "shape": shape,
                    "rows": spec.rows,
                    "classes": spec.classes.as_deref(),
                    "categories": spec.categories.as_deref(),
                })
            })
            .collect();
        json(py, &tensors)
    }

    /// The figures since the loader was opened.
    fn stats(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        let mut turn = self.turn(py)?;
        let running = turn.running().map_err(|error| exception(py, &error))?;
        let stats = py.detach(|| running.batches.stats());
        drop(turn);
        let verdict = stats.verdict();
        let stats = json(py, &stats)?;
        stats.bind(py).set_item("verdict", json(py, &verdict)?)?;
        stats.bind(py).set_item("held", self.held.load(Ordering::Acquire))?;
        stats.bind(py).set_item("copied", self.copied.load(Ordering::Relaxed))?;
        Ok(stats)
    }

    /// What limits the run, in one sentence.
    fn verdict(&self, py: Python<'_>) -> PyResult<String> {
        let mut turn = self.turn(py)?;
        let running = turn.running().map_err(|error| exception(py, &error))?;
        let stats = py.detach(|| running.batches.stats());
        Ok(stats.verdict().to_string())
    }

    /// Everything that is known of the run, with what `about` adds to it.
    fn report(&self, py: Python<'_>, about: Vec<(String, String)>) -> PyResult<RunReport> {
        let report = self.with(py, |running| Ok(running.batches.report()))?;
        Ok(RunReport(about.into_iter().fold(report, |report, (name, value)| report.about(name, value))))
    }

    /// The first bad records that were left out or replaced: exceptions, with their places.
    fn bad_records(&self, py: Python<'_>) -> PyResult<Vec<Py<PyAny>>> {
        let mut turn = self.turn(py)?;
        let running = turn.running().map_err(|error| exception(py, &error))?;
        let bad = py.detach(|| running.batches.bad_records());
        drop(turn);
        bad.iter().map(|record| json(py, record)).collect()
    }

    /// What a run will do, without decoding data.
    fn plan(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        let loader = self.loader.clone();
        let plan = patiently(py, move || loader.plan())?;
        json(py, &plan)
    }

    /// Reads every sample, and says which are bad.
    #[pyo3(signature = (on_progress=None))]
    fn verify(&self, py: Python<'_>, on_progress: Option<Bound<'_, PyAny>>) -> PyResult<Py<PyDict>> {
        verify::loader(py, self.loader.clone(), on_progress)
    }

    /// Fits a recipe, given as a text of JSON, to its samples.
    fn fit(&self, py: Python<'_>, recipe: &str) -> PyResult<prepare::Fitted> {
        prepare::fit(py, self.loader.clone(), recipe)
    }

    /// Ends its threads. Batches that are held stay as they are.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        self.place.here().is_closed = true;
        let mut turn = self.place.take(py)?;
        if turn.running.as_ref().is_none_or(|running| running.generation != fork::generation()) {
            return Ok(());
        }
        patiently(py, move || {
            drop(turn.running.take());
            Ok(())
        })
    }
}

impl Course {
    /// The iterator was set to another place: loops that have begun are over, those that have not go on there.
    fn go_on(&mut self, resumed: bool) {
        *self = Self { serial: self.serial + u64::from(self.begun), resumed, ..Self::default() };
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        let Some(running) = self.place.here().running.take() else { return };
        if running.generation != fork::generation() {
            // What its locks and threads are in stayed in the parent.
            std::mem::forget(running);
            return;
        }
        // Its threads may be about to attach, to run code of the user's.
        let mut running = Some(running);
        let _ = Python::try_attach(|py| {
            let running = running.take();
            py.detach(|| drop(running));
        });
        drop(running);
    }
}

/// The batch as Python sees it.
pub(crate) fn to_batch(py: Python<'_>, shared: Arc<Shared>) -> PyResult<Py<Batch>> {
    Py::new(py, Batch::new(shared))
}
