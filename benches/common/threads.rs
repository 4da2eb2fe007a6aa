//! Where CPU time goes among the threads of this process, as Linux counts it for each.

use std::fs::{read_dir, read_to_string};

use cpu_time::ThreadTime;

use crate::machine::cpu_seconds;

/// CPU seconds so far of those that make batches, and of those who have to do with them.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ThreadSeconds {
    /// The ring's workers.
    pub(crate) workers: f64,
    /// Everything else but the caller: the planning thread, above all.
    pub(crate) planner: f64,
    /// The thread that calls this.
    pub(crate) consumer: f64,
}

impl ThreadSeconds {
    /// What was used until now. Workers are those of all workspaces; those that are idle use nothing.
    pub(crate) fn now() -> Self {
        let workers = worker_seconds().unwrap_or(f64::NAN);
        let consumer = ThreadTime::now().as_duration().as_secs_f64();
        Self { workers, planner: cpu_seconds() - workers - consumer, consumer }
    }

    /// What was used since `earlier`.
    pub(crate) fn since(self, earlier: Self) -> Self {
        Self {
            workers: self.workers - earlier.workers,
            planner: (self.planner - earlier.planner).max(0.0),
            consumer: self.consumer - earlier.consumer,
        }
    }
}

/// The sum over threads that are called as the ring's workers are: `ringfeed-` and a number.
fn worker_seconds() -> Option<f64> {
    let mut nanoseconds = 0;
    for thread in read_dir("/proc/self/task").ok()? {
        let thread = thread.ok()?.path();
        let name = read_to_string(thread.join("comm")).ok()?;
        let number = name.trim().strip_prefix("ringfeed-").and_then(|number| number.parse::<usize>().ok());
        if number.is_some() {
            let used = read_to_string(thread.join("schedstat")).ok()?;
            nanoseconds += used.split_whitespace().next()?.parse::<u64>().ok()?;
        }
    }
    Some(nanoseconds as f64 / 1e9)
}
