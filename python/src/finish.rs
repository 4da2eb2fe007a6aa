//! What happens before the interpreter ends.

use std::thread;
use std::time::{Duration, Instant};

use pyo3::prelude::*;

use crate::calling;
use crate::ending::{self, AtWork};
use crate::engine::Engine;

/// How long [`finish`] waits for working threads.
const LAST_WAIT: Duration = Duration::from_secs(1);

/// Closes all loaders before the interpreter ends, waits until all work has ended that was left behind, and stops the
/// user's functions. It does not wait forever, as the user's code may be stuck.
#[pyfunction]
#[pyo3(signature = (open, /))]
pub(crate) fn finish(py: Python<'_>, open: Vec<Py<Engine>>) -> PyResult<()> {
    ending::begin();
    open.iter().for_each(|engine| engine.get().leave());
    let deadline = Instant::now() + LAST_WAIT;
    let is_at_work = || AtWork::is_any() || open.iter().any(|engine| engine.get().is_out());
    while is_at_work() && Instant::now() < deadline {
        py.detach(|| thread::sleep(Duration::from_millis(1)));
        py.check_signals()?;
    }
    calling::stop(py, Instant::now() + LAST_WAIT)
}
