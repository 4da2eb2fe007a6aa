use crate::sync::CounterMutex;
#[cfg(target_os = "linux")]
use crate::system::thread_number;

/// The threads that work, so that the system can be asked for their processor time.
#[derive(Debug, Default)]
pub(super) struct Schedule(CounterMutex<Vec<i32>>);

impl Schedule {
    /// Adds the calling thread.
    pub(super) fn join(&self) {
        #[cfg(target_os = "linux")]
        self.0.lock().push(thread_number());
    }

    /// Seconds on a core, and seconds in which threads were ready but had no core, as Linux counts them. `None` on
    /// other systems, in another process, and if a thread has ended.
    pub(super) fn read(&self) -> Option<[f64; 2]> {
        let threads = self.0.lock().clone();
        let mut sums = [0.0; 2];
        for thread in &threads {
            let told = std::fs::read_to_string(format!("/proc/self/task/{thread}/schedstat")).ok()?;
            for (sum, nanoseconds) in sums.iter_mut().zip(told.split_whitespace()) {
                *sum += nanoseconds.parse::<f64>().ok()? / 1e9;
            }
        }
        (!threads.is_empty()).then_some(sums)
    }
}

/// Cores that this process may use; on Linux, by its mask and the quotas of its control groups.
pub(super) fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, |cores| cores.get())
}
