//! Streams as the device sees them: queues of work, done late, in an order that is as wild as events allow.

use std::collections::VecDeque;
use std::ffi::c_void;
use std::sync::Arc;

use crate::memory::Pages;

/// A place in a queue: the piece of work of this number, counted from 1.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Mark {
    pub queue: usize,
    pub number: u64,
}

/// What is ordered before something: for each queue, the number of its last such work.
#[derive(Clone, Debug, Default)]
pub struct Clock(Vec<u64>);

impl Clock {
    pub const fn new() -> Self {
        Self(Vec::new())
    }

    pub fn covers(&self, mark: Mark) -> bool {
        self.0.get(mark.queue).copied().unwrap_or(0) >= mark.number
    }

    pub fn join(&mut self, other: &Self) {
        self.0.resize(self.0.len().max(other.0.len()), 0);
        self.0.iter_mut().zip(&other.0).for_each(|(own, other)| *own = (*own).max(*other));
    }

    pub fn add(&mut self, mark: Mark) {
        self.0.resize(self.0.len().max(mark.queue + 1), 0);
        self.0[mark.queue] = self.0[mark.queue].max(mark.number);
    }
}

/// Where a copy to the device reads.
pub enum Source {
    /// Page-locked memory, read when the copy is done; and what was there when it was asked for.
    Locked { from: usize, then: Vec<u8> },
    /// Other memory, which was read when the copy was asked for.
    Staged(Vec<u8>),
}

pub enum Work {
    /// Waits for work of another queue.
    Await(Mark),
    CopyIn {
        to: u64,
        from: Source,
        _keep: Arc<Pages>,
    },
    CopyOut {
        to: usize,
        from: u64,
        bytes: usize,
        _keep: Arc<Pages>,
    },
    Launch {
        kernel: usize,
        blocks: u32,
        threads: u32,
        params: Vec<u64>,
        module: usize,
        _keep: Vec<Arc<Pages>>,
    },
    Call {
        function: unsafe extern "C" fn(*mut c_void),
        given: usize,
    },
    Free(u64),
}

pub struct Task {
    pub number: u64,
    pub call: &'static str,
    pub work: Work,
}

/// What a stream was given. Queues are used again when their stream is destroyed and their work done.
#[derive(Default)]
pub struct Queue {
    /// 0 if no stream has it.
    pub context: usize,
    pub is_destroyed: bool,
    /// Ordered with the default stream.
    pub is_blocking: bool,
    pub given: u64,
    pub done: u64,
    pub is_busy: bool,
    pub tasks: VecDeque<Task>,
    /// Before its next work.
    pub clock: Clock,
}

impl Queue {
    pub fn is_idle(&self) -> bool {
        self.done == self.given
    }
}

/// Numbers that look random (SplitMix64).
pub struct Random(pub u64);

impl Random {
    pub fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = self.0;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (bits ^ (bits >> 31)) % end.max(1)
    }
}
