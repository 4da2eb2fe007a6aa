use std::cell::Cell;
use std::collections::VecDeque;

use crate::sync::{Condvar, Mutex};

/// The commands of one stream, in order, for its own thread.
///
/// The number of commands from users is bounded, and a thread that gives more waits for room. Commands of the upload
/// stage are bounded by its slots, and never wait: dropping a batch does not block, on any thread.
pub(super) struct Queue<T> {
    state: Mutex<State<T>>,
    changed: Condvar,
    bound: usize,
}

struct State<T> {
    commands: VecDeque<T>,
    is_closed: bool,
    /// No thread works for it any more.
    has_ended: bool,
}

thread_local! {
    /// Whether this thread works for a queue.
    static WORKS: Cell<bool> = const { Cell::new(false) };
}

impl<T> Queue<T> {
    pub(super) fn new(bound: usize) -> Self {
        let state = State { commands: VecDeque::new(), is_closed: false, has_ended: false };
        Self { state: Mutex::new(state), changed: Condvar::new(), bound }
    }

    /// Number of commands that wait.
    pub(super) fn len(&self) -> usize {
        self.state.lock().commands.len()
    }

    /// Adds a command, even if many wait.
    pub(super) fn push(&self, command: T) {
        self.state.lock().commands.push_back(command);
        self.changed.notify_all();
    }

    /// Adds a command to a queue that may be closed; returns it if nobody will run it.
    pub(super) fn try_push(&self, command: T) -> Result<(), T> {
        let mut state = self.state.lock();
        if state.has_ended {
            return Err(command);
        }
        state.commands.push_back(command);
        drop(state);
        self.changed.notify_all();
        Ok(())
    }

    /// Adds a command when there is room. On a queue's own thread it does not wait, because this could be the thread
    /// that makes room.
    pub(super) fn push_when_room(&self, command: T) {
        let mut state = self.state.lock();
        while state.commands.len() >= self.bound && !WORKS.get() {
            state = self.changed.wait(state);
        }
        state.commands.push_back(command);
        drop(state);
        self.changed.notify_all();
    }

    /// Runs all commands on this thread until the queue is closed and empty.
    pub(super) fn work(&self, mut run: impl FnMut(T)) {
        WORKS.set(true);
        loop {
            let mut state = self.state.lock();
            let command = loop {
                match state.commands.pop_front() {
                    Some(command) => break command,
                    None if state.is_closed => {
                        state.has_ended = true;
                        return;
                    }
                    None => state = self.changed.wait(state),
                }
            };
            drop(state);
            self.changed.notify_all();
            run(command);
        }
    }

    /// No more commands will come from those who hold the stream.
    pub(super) fn close(&self) {
        self.state.lock().is_closed = true;
        self.changed.notify_all();
    }
}
