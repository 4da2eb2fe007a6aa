//! A batch's memory, which all views of the batch share.

use std::mem::ManuallyDrop;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ringfeed::memory::Reservation;
use ringfeed::tensor::{MAX_RANK, Schema, TensorSpec};
use ringfeed::{DType, DataSet, Error, ErrorKind, Result};

use crate::device::{Facts, OnDevice};
use crate::fork;

/// Maximum number of dimensions of a tensor, including that of the batch.
pub(crate) const MAX_DIMS: usize = MAX_RANK + 1;

/// A batch's memory. It lives as long as any view of it, and returns to the ring when the last view is dropped, on any
/// thread, attached or not. So it contains no Python objects.
pub(crate) struct Shared {
    memory: ManuallyDrop<Memory>,
    schema: Arc<Schema>,
    generation: u64,
    _count: Option<Count>,
    _reservation: Option<Reservation>,
}

enum Memory {
    Host { data: Mutex<DataSet>, start: NonNull<u8> },
    Device(Box<dyn OnDevice>),
}

// SAFETY: `start` points into the memory of `data`, which may be sent, and is reached through it by the holders of
// views: as with any array of Python's, writing it from several threads is for them to order.
unsafe impl Send for Shared {}
// SAFETY: as above; everything else in it is behind a lock, may be shared, or is not changed.
unsafe impl Sync for Shared {}

/// Where a tensor is, and what it is.
pub(crate) struct Place {
    /// Offset from the beginning of the batch on the host, or the address on the device.
    pub(crate) offset: usize,
    pub(crate) dtype: DType,
    pub(crate) rank: usize,
    pub(crate) shape: [isize; MAX_DIMS],
}

/// Counts batches in the user's hands.
pub(crate) struct Count(Arc<AtomicUsize>);

impl Count {
    pub(crate) fn new(held: &Arc<AtomicUsize>) -> Self {
        held.fetch_add(1, Ordering::AcqRel);
        Self(held.clone())
    }
}

impl Drop for Count {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

impl Shared {
    /// `count` if the batch is in one of the few slots, `reservation` if it has separate memory.
    pub(crate) fn on_host(mut data: DataSet, count: Option<Count>, reservation: Option<Reservation>) -> Self {
        let (start, schema) = (data.start(), data.schema().clone());
        Self::new(Memory::Host { data: Mutex::new(data), start }, schema, count, reservation)
    }

    /// Like [`on_host`](Self::on_host), for a batch on a device.
    pub(crate) fn on_device(
        batch: Box<dyn OnDevice>,
        schema: Arc<Schema>,
        count: Option<Count>,
        reservation: Option<Reservation>,
    ) -> Self {
        Self::new(Memory::Device(batch), schema, count, reservation)
    }

    fn new(memory: Memory, schema: Arc<Schema>, count: Option<Count>, reservation: Option<Reservation>) -> Self {
        let (memory, generation) = (ManuallyDrop::new(memory), fork::generation());
        Self { memory, schema, generation, _count: count, _reservation: reservation }
    }

    /// The batch, if it is in a slot of the ring or in a copy of one.
    pub(crate) fn data(&self) -> Result<MutexGuard<'_, DataSet>> {
        match &*self.memory {
            Memory::Host { data, .. } => Ok(lock(data)),
            Memory::Device(batch) => {
                let message = format!("the batch lies on {}: take its tensors as arrays", batch.name());
                Err(Error::new(ErrorKind::Unsupported, message))
            }
        }
    }

    /// The batch, if it is on a device.
    pub(crate) fn device(&self) -> Option<&dyn OnDevice> {
        match &*self.memory {
            Memory::Host { .. } => None,
            Memory::Device(batch) => Some(&**batch),
        }
    }

    pub(crate) fn facts<R>(&self, look: impl FnOnce(Facts<'_>) -> R) -> R {
        match &*self.memory {
            Memory::Host { data, .. } => {
                let data = lock(data);
                look(Facts {
                    epoch: data.epoch(),
                    index: data.index(),
                    sample_ids: data.sample_ids(),
                    positions: data.positions(),
                    padding: data.padding(),
                    bad_records: data.bad_records(),
                    after: data.state_after(),
                })
            }
            Memory::Device(batch) => look(batch.facts()),
        }
    }

    /// Where a tensor is.
    pub(crate) fn place(&self, nth: usize) -> Place {
        let mut shape = [0; MAX_DIMS];
        let mut rank = 0;
        let mut measure = |dims: &mut dyn Iterator<Item = usize>| {
            for (len, dim) in shape.iter_mut().zip(dims) {
                *len = dim as isize;
                rank += 1;
            }
        };
        let (offset, dtype) = match &*self.memory {
            Memory::Host { data, .. } => {
                let data = lock(data);
                let layout = data.layout();
                let place = &layout.tensors()[nth];
                measure(&mut layout.shape(nth).iter().copied());
                (place.offset(), place.dtype())
            }
            Memory::Device(batch) => {
                let (address, dtype, dims) = batch.place(nth);
                measure(&mut dims.iter().copied());
                (address as usize, dtype)
            }
        };
        Place { offset, dtype, rank, shape }
    }

    /// The byte at this offset. The pointer is valid as long as this value lives, on the batch's device.
    pub(crate) fn at(&self, offset: usize) -> *mut u8 {
        match &*self.memory {
            Memory::Host { start, .. } => start.as_ptr().wrapping_add(offset),
            Memory::Device(_) => std::ptr::with_exposed_provenance_mut(offset),
        }
    }

    pub(crate) fn tensors(&self) -> &[TensorSpec] {
        self.schema.tensors()
    }

    pub(crate) fn index_of(&self, name: &str) -> Result<usize> {
        self.schema.index_of(name)
    }
}

fn lock(data: &Mutex<DataSet>) -> MutexGuard<'_, DataSet> {
    data.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Drop for Shared {
    fn drop(&mut self) {
        // In a forked child the ring's lock may be held for ever, by a thread that stayed in the parent.
        if self.generation == fork::generation() {
            // SAFETY: dropped once, here, and not used again.
            unsafe { ManuallyDrop::drop(&mut self.memory) };
        }
    }
}
