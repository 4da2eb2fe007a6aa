//! What happens to batches that the user keeps: slots for a few, and copies of those beyond.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use pyo3::prelude::*;
use ringfeed::device::DeviceName;
use ringfeed::{ErrorKind, Result};

use crate::errors::{exception, raise};
use crate::running::{Made, Running};
use crate::shared::{Count, Shared};
use crate::transform;
use crate::turn::Turn;

/// How many batches the user may keep, and how many are kept.
pub(crate) struct Hold {
    /// How many may be kept in addition to the current one.
    pub(crate) batches: usize,
    /// Whether more batches get separate memory; otherwise they are an error.
    copies: bool,
    /// Whether every batch is copied: a device may read page-locked memory long after the tensor on it is gone, as
    /// PyTorch's asynchronous copies do.
    always: bool,
    /// The device that batches are uploaded to; `None` if they stay in the ring.
    device: Option<DeviceName>,
    /// Batches in the user's hands that are in the ring, or in one of the upload's buffers.
    held: Arc<AtomicUsize>,
    copied: AtomicU64,
    warned: AtomicBool,
}

impl Hold {
    pub(crate) fn new(batches: usize, copies: bool, always: bool, device: Option<DeviceName>) -> Self {
        let (held, copied, warned) = (Arc::default(), AtomicU64::new(0), AtomicBool::new(false));
        Self { batches, copies, always, device, held, copied, warned }
    }

    pub(crate) fn held(&self) -> usize {
        self.held.load(Ordering::Acquire)
    }

    pub(crate) fn copied(&self) -> u64 {
        self.copied.load(Ordering::Relaxed)
    }

    fn is_full(&self) -> bool {
        self.held() > self.batches
    }

    /// An error if the user keeps too many batches to get another one.
    pub(crate) fn check(&self, py: Python<'_>) -> PyResult<()> {
        if self.copies || !self.is_full() {
            return Ok(());
        }
        Err(raise(py, ErrorKind::Exhausted, self.text("let one go, or raise `hold`")))
    }

    /// Hands out a batch, with separate memory if the user holds more batches than there are slots. If that fails, the
    /// batch is kept and is the next answer.
    pub(crate) fn admit(&self, py: Python<'_>, mut turn: Turn, batch: Made) -> PyResult<Arc<Shared>> {
        let running = turn.running().map_err(|error| exception(py, &error))?;
        let copies = self.always || self.is_full();
        if copies
            && !self.warned.swap(true, Ordering::Relaxed)
            && let Err(raised) = self.warn(py)
        {
            running.spare = Some(Ok(batch));
            return Err(raised);
        }
        let state = batch.state_after();
        let shared = if copies {
            py.detach(|| self.copy(running, batch)).map_err(|error| exception(py, &error))?
        } else {
            let count = Some(Count::new(&self.held));
            match batch {
                Made::Host(batch) => Shared::on_host(batch, count, None),
                Made::Device(batch) => Shared::on_device(batch, running.batches.schema().clone(), count, None),
            }
        };
        running.state = state;
        Ok(Arc::new(shared))
    }

    fn copy(&self, running: &mut Running, mut batch: Made) -> Result<Shared> {
        let reserved = running.workspace.budget().reserve(batch.bytes(), "a copy of a batch, because others are held,");
        let copied = reserved.and_then(|reservation| Ok((reservation, batch.copied()?)));
        let (reservation, own) = match copied {
            Ok((reservation, own)) => (Some(reservation), own),
            Err(error) => {
                running.spare = Some(Ok(batch));
                return Err(error);
            }
        };
        self.copied.fetch_add(1, Ordering::Relaxed);
        Ok(match own.unwrap_or(batch) {
            Made::Host(batch) => Shared::on_host(batch, None, reservation),
            Made::Device(batch) => Shared::on_device(batch, running.batches.schema().clone(), None, reservation),
        })
    }

    fn text(&self, advice: &str) -> String {
        let (held, places) = (self.held(), self.batches + 1);
        let on = self.device.as_ref().map(|device| format!(" on {device}")).unwrap_or_default();
        format!("{held} batches are held, and there are places for {places}{on}: {advice}")
    }

    fn warn(&self, py: Python<'_>) -> PyResult<()> {
        let text = if self.always {
            "every batch is copied out of page-locked memory, which is useful only for an upload to a device: leave \
             the memory at its default"
                .to_owned()
        } else {
            let further = if self.device.is_some() { "get memory of their own" } else { "are copied" };
            self.text(&format!(
                "further ones {further}, until some are let go (this warning comes once; stats()[\"copied\"] counts). \
                 If that is what you want, raise `hold`; on_hold=\"error\" makes it an error"
            ))
        };
        let text = transform::c_text(&text);
        let category = py.import("ringfeed._errors")?.getattr("HoldWarning")?;
        PyErr::warn(py, &category, &text, 1)
    }
}
