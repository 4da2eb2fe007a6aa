//! What this process has used, and what it may use.

/// CPU seconds that this process has used on all its threads, ended ones included.
pub(crate) fn cpu_seconds() -> f64 {
    cpu_time::ProcessTime::now().as_duration().as_secs_f64()
}

/// The cores that this process may use.
pub(crate) fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, |cores| cores.get())
}
