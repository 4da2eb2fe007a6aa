use crate::sync::CounterMutex;

/// Which threads work, so that the system can be asked what it gave them.
#[derive(Debug, Default)]
pub(super) struct Schedule(CounterMutex<Vec<i32>>);

impl Schedule {
    /// The calling thread is one of them.
    pub(super) fn join(&self) {
        #[cfg(target_os = "linux")]
        self.0.lock().push(rustix::thread::gettid().as_raw_nonzero().get());
    }

    /// Time on a core, and time that they could have run but had none, in seconds: Linux counts both. `None` elsewhere, in
    /// another process than theirs, and where a thread has ended.
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

/// Cores that this process may use: on Linux, what its mask and the quotas of its control groups leave.
pub(super) fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, |cores| cores.get())
}
