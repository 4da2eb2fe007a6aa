use std::any::{Any, TypeId};
use std::fmt;
use std::time::Duration;

use crate::counters::{DamageTally, Damages};

use super::staged::Staged;

/// Working time of a thread between two readings of its processor time. The readings of a job cost less than 1 us.
const CPU_LOOK: Duration = Duration::from_micros(200);

/// A worker's reusable buffers, of any type that a reader needs: created at first use, kept from job to job.
#[derive(Default)]
pub struct Scratch {
    buffers: Option<(TypeId, Box<dyn Any + Send>)>,
    /// The record's values, for each codec that needs all of them at once.
    staged: Vec<Staged>,
    /// Damaged images that were loaded since the last call of `take_damage`.
    damage: DamageTally,
    /// Number of spilled arrays of scopes since the last call of `take_spilled`.
    spilled: u64,
    /// Time worked since the processor time was last read.
    worked: Duration,
}

impl Scratch {
    /// The buffers of type `T`; created again if the last user kept another type here.
    pub fn of<T: Default + Send + 'static>(&mut self) -> &mut T {
        let own = TypeId::of::<T>();
        if self.buffers.as_ref().is_none_or(|(kind, _)| *kind != own) {
            self.buffers = Some((own, Box::<T>::default()));
        }
        self.buffers.as_mut().and_then(|(_, kept)| kept.downcast_mut()).expect("the type was checked or set above")
    }

    /// Takes out what is kept of a record. [Give it back](Self::keep_staged) when the record is read.
    pub(super) fn take_staged(&mut self) -> Vec<Staged> {
        std::mem::take(&mut self.staged)
    }

    pub(super) fn keep_staged(&mut self, staged: Vec<Staged>) {
        self.staged = staged;
    }

    /// Records the damage of a loaded image.
    pub(crate) fn note(&mut self, damages: Damages) {
        self.damage.add(damages);
    }

    /// Adds the damage recorded in another scratch.
    pub(crate) fn note_all(&mut self, tally: DamageTally) {
        self.damage.add_all(tally);
    }

    /// Counts arrays of scopes that had to spill.
    pub(crate) fn note_spilled(&mut self, arrays: u64) {
        self.spilled += arrays;
    }

    /// Number of arrays that were noted since the last call.
    pub(crate) fn take_spilled(&mut self) -> u64 {
        std::mem::take(&mut self.spilled)
    }

    /// Whether it is time to read the processor time again.
    pub(crate) fn is_cpu_due(&self) -> bool {
        self.worked >= CPU_LOOK
    }

    /// The same, if the caller then reads it; the next reading is then due only later.
    pub(crate) fn looks_at_cpu(&mut self) -> bool {
        let looks = self.is_cpu_due();
        if looks {
            self.worked = Duration::ZERO;
        }
        looks
    }

    /// Adds time that was worked.
    pub(crate) fn worked(&mut self, time: Duration) {
        self.worked += time;
    }

    /// Drops the damage recorded for a sample whose decoding panicked. Called before a sample is decoded alone.
    pub(crate) fn forget_damage(&mut self) {
        self.damage = DamageTally::default();
    }

    /// The damage that was noted since the last call.
    pub(crate) fn take_damage(&mut self) -> DamageTally {
        std::mem::take(&mut self.damage)
    }
}

impl fmt::Debug for Scratch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Scratch").field("is_used", &self.buffers.is_some()).finish_non_exhaustive()
    }
}
