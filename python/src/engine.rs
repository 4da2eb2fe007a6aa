//! The part of a loader that is not Python: its settings, its iterator, and the calls to both.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use pyo3::prelude::*;
use pyo3::types::PyDict;
use ringfeed::columns::{Columns, ColumnsOptions};
use ringfeed::device::Conversion;
use ringfeed::inspect::RunPlan;
use ringfeed::order::State;
use ringfeed::settings::MemoryKind;
use ringfeed::storage::Mapping;
use ringfeed::tensor::Dim;
use ringfeed::{Error, ErrorKind, Loader, LoaderConfig, Result, Workspace};

use crate::calling::Awaited;
use crate::ending::{AtWork, ends};
use crate::errors::{caught, exception, raise};
use crate::hold::Hold;
use crate::json::json;
use crate::report::RunReport;
use crate::running::{MOST_HELD, Made, Running, Target};
use crate::shared::Shared;
use crate::stats::Snapshot;
use crate::table::Table;
use crate::turn::{Course, Place, Turn, check_generation};
use crate::wait::{LOOK_UP, closed, drop_in_time, patiently};
use crate::{fork, prepare, reader, samples, serve, transform, verify};

/// The part of a loader that is not Python: its settings, and the iterator once it is needed.
#[pyclass(frozen, weakref, module = "ringfeed._ringfeed")]
pub(crate) struct Engine {
    loader: Loader,
    target: Option<Target>,
    hold: Hold,
    place: Arc<Place>,
    /// The loader whose workspace makes this loader's batches.
    host: OnceLock<Py<Self>>,
    /// Where it begins; shared by all engines of a loader, one of which is opened.
    begin: Arc<Mutex<Begin>>,
}

/// What was asked of a loader that is not open.
#[derive(Clone, Copy, Default, PartialEq)]
struct Begin {
    state: Option<State>,
    /// The epoch that was set, after the state was loaded.
    epoch: Option<u64>,
}

impl Engine {
    /// The iterator, as soon as no other thread uses it, at the place where it was told to begin. Opens it if
    /// necessary.
    fn turn(&self, py: Python<'_>) -> PyResult<Turn> {
        let mut turn = self.opened(py)?;
        let begin = *self.begin();
        if let Some(state) = begin.state {
            turn = self.resume(py, turn, state)?;
        }
        if let Some(epoch) = begin.epoch {
            turn = self.turn_to(py, turn, epoch)?;
        }
        // Only now: a state that is refused stays so until another one is loaded.
        let mut now = self.begin();
        if *now == begin {
            *now = Begin::default();
        }
        drop(now);
        Ok(turn)
    }

    fn begin(&self) -> MutexGuard<'_, Begin> {
        self.begin.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Resumes after a state.
    fn resume(&self, py: Python<'_>, turn: Turn, state: State) -> PyResult<Turn> {
        let turn = turn.with(py, move |running| running.seek(&state))?.0;
        // Before another thread takes batches for the loop that is over.
        self.place.here().course.go_on(state.position > 0);
        Ok(turn)
    }

    /// Makes `epoch` the epoch of the next loop.
    fn turn_to(&self, py: Python<'_>, turn: Turn, epoch: u64) -> PyResult<Turn> {
        let mut turn = self.leave_ended_epoch(py, turn)?;
        let now = turn.running().map_err(|error| exception(py, &error))?.state;
        let begun = self.place.here().course.begun;
        if now.epoch.wrapping_add(u64::from(begun)) == epoch {
            return Ok(turn);
        }
        self.resume(py, turn, State { epoch, position: 0, bad: 0, run: 0, ..now })
    }

    /// The iterator, as soon as no other thread uses it. Opens it if necessary.
    fn opened(&self, py: Python<'_>) -> PyResult<Turn> {
        let _at_work = AtWork::begin();
        let mut turn = self.place.take(py)?;
        // Asked only now: the thread that closed it may have had the iterator until then.
        if self.place.here().is_closed || ends() {
            return Err(closed(py));
        }
        if let Some(running) = &turn.running {
            check_generation(py, running.generation)?;
        }
        if turn.running.is_none() {
            let shared = self.host.get().map(|host| host.get().workspace(py)).transpose()?;
            let (loader, hold, target) = (self.loader.clone(), self.hold.batches, self.target.clone());
            let _awaited = Awaited::by(self.place.owner);
            turn = patiently(py, move || {
                turn.set(Running::open(&loader, hold, target.as_ref(), shared)?);
                Ok(turn)
            })?;
        }
        Ok(turn)
    }

    /// The ring and the threads of its iterator.
    fn workspace(&self, py: Python<'_>) -> PyResult<Workspace> {
        let mut turn = self.turn(py)?;
        Ok(turn.running().map_err(|error| exception(py, &error))?.workspace.clone())
    }

    /// Counts the batches of its ring that are kept.
    fn hold(&self) -> &Hold {
        self.host.get().map_or(&self.hold, |host| host.get().hold())
    }

    /// Runs work on the iterator that may take long; see [`patiently`].
    fn with<R: Send + 'static>(
        &self,
        py: Python<'_>,
        work: impl FnOnce(&mut Running) -> Result<R> + Send + 'static,
    ) -> PyResult<R> {
        Ok(self.turn(py)?.with(py, work)?.1)
    }

    /// The number of a loop over the batches of the current epoch if it has not begun, otherwise of the next epoch.
    pub(crate) fn next_serial(&self) -> u64 {
        let course = self.place.here().course;
        course.serial + u64::from(course.begun)
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
            turn = turn.with(py, Running::reset)?.0;
            self.place.here().course = Course { serial, ..Course::default() };
        } else if course.over {
            return Ok(None);
        }
        self.hold().check(py)?;
        turn = self.leave_ended_epoch(py, turn)?;
        match self.wait(py, &mut turn)? {
            Some(Ok(batch)) => {
                self.place.here().course.begun = true;
                self.hold().admit(py, turn, batch).map(Some)
            }
            Some(Err(error)) => {
                let mut here = self.place.here();
                here.course.begun = true;
                here.course.over = !matches!(error.kind(), ErrorKind::Exhausted | ErrorKind::Interrupted);
                drop(here);
                Err(exception(py, &error))
            }
            None => {
                let mut here = self.place.here();
                (here.course.begun, here.course.over) = (true, true);
                Ok(None)
            }
        }
    }

    /// Begins the next epoch if a state was loaded behind which nothing is left of its own. Only the next batch shows
    /// that, so this waits for it.
    fn leave_ended_epoch(&self, py: Python<'_>, mut turn: Turn) -> PyResult<Turn> {
        let course = self.place.here().course;
        if !course.resumed || course.begun {
            return Ok(turn);
        }
        match self.wait(py, &mut turn)? {
            None => turn = turn.with(py, Running::reset)?.0,
            // Not an item of the epoch: the next call may get one.
            Some(Err(error)) if matches!(error.kind(), ErrorKind::Exhausted | ErrorKind::Interrupted) => {
                return Err(exception(py, &error));
            }
            next => turn.running().map_err(|error| exception(py, &error))?.spare = next,
        }
        self.place.here().course.resumed = false;
        Ok(turn)
    }

    /// Waits for the iterator's answer, and checks for signals meanwhile. A signal loses nothing.
    fn wait(&self, py: Python<'_>, turn: &mut Turn) -> PyResult<Option<Result<Made>>> {
        let running = turn.running().map_err(|error| exception(py, &error))?;
        if let Some(spare) = running.spare.take() {
            return Ok(Some(spare));
        }
        let _awaited = Awaited::by(self.place.owner);
        loop {
            let answer = py.detach(|| {
                let answered = caught(|| Ok(running.batches.ready_within(LOOK_UP).then(|| running.batches.next())));
                answered.unwrap_or_else(|error| Some(Some(Err(error))))
            });
            match answer {
                // A thread that outlives the interpreter would wait for what does not come any more, or be given what
                // code of the user's was not called for.
                _ if ends() => return Err(closed(py)),
                Some(answer) => return Ok(answer),
                None => py.check_signals()?,
            }
        }
    }

    /// What a run will do, in the ring where the batches are made.
    fn planned(&self, py: Python<'_>) -> PyResult<RunPlan> {
        let (loader, hold, target) = (self.loader.clone(), self.hold.batches, self.target.clone());
        let plan = patiently(py, move || match target {
            Some(target) => loader.plan_upload(target.device, target.conversions),
            // On a device there are places for batches that are kept, and none of the ring's.
            None => Ok(loader.plan()?.holding(hold)),
        })?;
        match self.host.get() {
            Some(host) => Ok(plan.in_workspace_of(&host.get().planned(py)?)),
            None => Ok(plan),
        }
    }

    /// Closes it, without waiting.
    pub(crate) fn leave(&self) {
        self.place.leave();
    }

    /// Whether a thread of this process uses the iterator.
    pub(crate) fn is_out(&self) -> bool {
        self.place.here().is_out()
    }
}

/// The message without the line number, which is useless for a text of one line.
fn in_a_line(error: &serde_json::Error) -> String {
    error.to_string().split(" at line ").next().unwrap_or_default().to_owned()
}

/// Where batches go: a device's name, and a JSON text with the conversions of tensors.
fn target(device: Option<&str>, convert: Option<&str>, hold: usize) -> Result<Option<Target>> {
    let fault = |message: String| Err(Error::new(ErrorKind::Config, message));
    let conversions = match convert.map(serde_json::from_str::<BTreeMap<String, Conversion>>).transpose() {
        Ok(conversions) => conversions.unwrap_or_default().into_iter().collect::<Vec<_>>(),
        Err(error) => return fault(format!("convert: {}", in_a_line(&error))),
    };
    match device {
        None if conversions.is_empty() => Ok(None),
        None => fault("convert: tensors are converted on a device; set `device`, too".to_owned()),
        Some(_) if hold > MOST_HELD => fault(format!("hold: a device has places for {MOST_HELD} batches at most")),
        Some(name) => Ok(Some(Target { device: name.parse()?, conversions })),
    }
}

#[pymethods]
impl Engine {
    /// Checks the settings, a JSON text, and looks up what they name. No thread is started here. It begins where `like`
    /// would, an earlier engine of the same loader.
    #[new]
    #[pyo3(signature = (settings, *, hold, copies, transforms, source, device, convert, like=None))]
    #[expect(clippy::too_many_arguments, reason = "named ones, which the package's own Python gives")]
    fn new(
        py: Python<'_>,
        settings: &str,
        hold: usize,
        copies: bool,
        transforms: Vec<Py<PyAny>>,
        source: Option<Py<PyAny>>,
        device: Option<&str>,
        convert: Option<&str>,
        like: Option<&Bound<'_, Self>>,
    ) -> PyResult<Self> {
        let _at_work = AtWork::begin();
        if ends() {
            return Err(closed(py));
        }
        let target = target(device, convert, hold).map_err(|error| exception(py, &error))?;
        let config = LoaderConfig::from_json(settings)
            // The text has one line, which says nothing.
            .map_err(|error| raise(py, error.kind(), error.message()))?;
        // Formats are detected and fields looked at here, so that a wrong path is an error where it is written.
        let resolve = || if source.is_none() { config.resolved() } else { Ok(config) };
        let config = py.detach(|| caught(resolve)).map_err(|error| exception(py, &error))?;
        let always = target.is_none() && matches!(config.memory.kind, MemoryKind::PageLocked { .. });
        let mut loader = Loader::from(config);
        let place = Arc::new(Place::default());
        let owner = place.owner;
        if let Some(source) = source {
            let table = source.bind(py).getattr_opt("table")?;
            let table = table.map(|table| Ok::<_, PyErr>(table.cast_into::<Table>()?.get().0.clone())).transpose()?;
            let is_stream = source.bind(py).hasattr("repeatable")?;
            loader = match table {
                Some(table) => {
                    loader.container(move |budget| Columns::of_table(&table, &ColumnsOptions::default(), budget))
                }
                None if is_stream => loader.samples(move || samples::open(&source, owner)),
                None => loader.container(move |_| reader::open(&source, owner)),
            };
        }
        // SAFETY: the promise is the user's, whose settings say `access = "map"`; its documentation says what that means.
        loader = loader.mapping(unsafe { Mapping::promise() });
        if let [first, rest @ ..] = loader.faults().as_slice() {
            let message = match rest {
                [] => first.clone(),
                _ => format!("{} faults in the settings:\n  {}", rest.len() + 1, loader.faults().join("\n  ")),
            };
            return Err(raise(py, ErrorKind::Config, message));
        }
        Ok(Self {
            loader: transform::add(py, loader, &transforms, owner)?,
            hold: Hold::new(hold, copies, always, target.as_ref().map(|target| target.device)),
            target,
            place,
            host: OnceLock::new(),
            begin: like.map(|like| like.get().begin.clone()).unwrap_or_default(),
        })
    }

    /// Makes its batches in the workspace of another loader, unless it has a workspace already.
    fn share(&self, host: Py<Self>) {
        let _ = self.host.set(host);
    }

    /// Number of batches of an epoch, if it is known.
    fn batches_per_epoch(&self, py: Python<'_>) -> PyResult<Option<u64>> {
        let mut turn = self.turn(py)?;
        Ok(turn.running().map_err(|error| exception(py, &error))?.batches.batches_per_epoch())
    }

    /// The position after the last batch that was delivered.
    fn state(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        let mut turn = self.turn(py)?;
        let state = turn.running().map_err(|error| exception(py, &error))?.state;
        drop(turn);
        json(py, &state)
    }

    /// Resumes after a state, given as a JSON text; if it is not open, as soon as it is.
    fn load_state(&self, py: Python<'_>, state: &str) -> PyResult<()> {
        let state: State = serde_json::from_str(state).map_err(|error| {
            raise(py, ErrorKind::Config, format!("this is not a state of a loader: {}", in_a_line(&error)))
        })?;
        let begin = Begin { state: Some(state), epoch: None };
        if self.place.here().is_new() {
            *self.begin() = begin;
            return Ok(());
        }
        let turn = self.opened(py)?;
        let _turn = self.resume(py, turn, state)?;
        *self.begin() = Begin::default();
        Ok(())
    }

    /// The state that it resumes after, and the epoch of its next loop, if it was told so before it was opened.
    fn told(&self, py: Python<'_>) -> PyResult<(Option<Py<PyAny>>, Option<u64>)> {
        let begin = *self.begin();
        Ok((begin.state.map(|state| json(py, &state)).transpose()?, begin.epoch))
    }

    /// The epoch of the last batch, or of the next one if none was given since a state was loaded.
    fn epoch(&self, py: Python<'_>) -> PyResult<u64> {
        let mut turn = self.leave_ended_epoch(py, self.turn(py)?)?;
        Ok(turn.running().map_err(|error| exception(py, &error))?.state.epoch)
    }

    /// Makes `epoch` the epoch of the next loop; does nothing if it already is.
    fn set_epoch(&self, py: Python<'_>, epoch: u64) -> PyResult<()> {
        if self.place.here().is_new() {
            self.begin().epoch = Some(epoch);
            return Ok(());
        }
        let turn = self.turn(py)?;
        self.turn_to(py, turn, epoch).map(drop)
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
                        Dim::Fixed(len) => Some(*len),
                        Dim::Extent(_) => None,
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

    /// The statistics since the loader was opened.
    fn stats(&self, py: Python<'_>) -> PyResult<Snapshot> {
        self.place.check_caller(py)?;
        let here = self.place.here();
        let taken = here.is_out().then(|| here.stats.clone());
        drop(here);
        // Another thread may wait for a batch for as long as its data take.
        let stats = match taken.and_then(|handle| py.detach(|| handle.stats())) {
            Some(stats) => stats,
            None => {
                let mut turn = self.turn(py)?;
                let handle = turn.running().map_err(|error| exception(py, &error))?.batches.stats_handle();
                py.detach(|| handle.stats()).unwrap_or_default()
            }
        };
        Ok(Snapshot { stats, held: self.hold().held(), copied: self.hold().copied() })
    }

    /// Everything known about the run, with the additions in `about`.
    fn report(&self, py: Python<'_>, about: Vec<(String, String)>) -> PyResult<RunReport> {
        let report = self.with(py, |running| Ok(running.batches.report()))?;
        Ok(RunReport(about.into_iter().fold(report, |report, (name, value)| report.about(name, value))))
    }

    /// The first bad records that were skipped or replaced, as exceptions with their locations.
    fn bad_records(&self, py: Python<'_>) -> PyResult<Vec<Py<PyAny>>> {
        let mut turn = self.turn(py)?;
        let running = turn.running().map_err(|error| exception(py, &error))?;
        let bad = py.detach(|| running.batches.bad_records());
        drop(turn);
        bad.iter().map(|record| json(py, record)).collect()
    }

    /// What a run will do, without decoding data.
    fn plan(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        json(py, &self.planned(py)?)
    }

    /// Reads every sample, and lists the bad ones.
    #[pyo3(signature = (on_progress=None))]
    fn verify(&self, py: Python<'_>, on_progress: Option<Bound<'_, PyAny>>) -> PyResult<Py<PyDict>> {
        verify::loader(py, self.loader.clone(), on_progress)
    }

    /// Fits a recipe, given as a JSON text, to its samples.
    fn fit(&self, py: Python<'_>, recipe: &str) -> PyResult<prepare::Fitted> {
        prepare::fit(py, self.loader.clone(), recipe)
    }

    /// Counts its samples for a recipe.
    fn count(&self, py: Python<'_>, counted: &Bound<'_, prepare::Counted>) -> PyResult<()> {
        counted.get().observe(py, self.loader.clone())
    }

    /// Turns single records into tensors like this loader.
    fn serve(&self, py: Python<'_>) -> PyResult<serve::Served> {
        serve::of_loader(py, &self.loader)
    }

    /// Ends its threads. Batches that the user holds stay as they are.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        self.place.check_caller(py)?;
        self.place.here().is_closed = true;
        let mut turn = self.place.take(py)?;
        if turn.running.as_ref().is_none_or(|running| running.generation != fork::generation()) {
            return Ok(());
        }
        // A copy resumes here.
        let state = turn.running.as_ref().map(|running| running.state);
        *self.begin() = Begin { state, epoch: None };
        patiently(py, move || {
            drop(turn.running.take());
            Ok(())
        })
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
        let mut running = Some(running);
        let _ = Python::try_attach(|py| {
            let running = running.take();
            py.detach(|| drop_in_time(running));
        });
        // Nothing can be attached while the interpreter ends.
        if let Some(running) = running {
            drop_in_time(running);
        }
    }
}
