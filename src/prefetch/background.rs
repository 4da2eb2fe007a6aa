/// Lets this thread wait for its turn when it wakes up, instead of interrupting the thread that runs there.
///
/// The trainer wakes planning and workers with every batch that it takes. Ordinary threads could then take its core at
/// once, and keep it for a time slice of the scheduler (milliseconds) before the trainer has begun its step. On Linux,
/// this function sets `SCHED_BATCH`, which needs no privilege and leaves the thread its share of the cores. A thread
/// with a policy set by the user keeps it. On other systems this does nothing.
pub(super) fn stand_back() {
    #[cfg(target_os = "linux")]
    {
        const THIS_THREAD: libc::pid_t = 0;
        // SAFETY: plain data, of which zeros are a value: no priority, which is what the policy asks for.
        let parameters: libc::sched_param = unsafe { std::mem::zeroed() };
        // SAFETY: asks about the calling thread.
        let policy = unsafe { libc::sched_getscheduler(THIS_THREAD) };
        if policy == libc::SCHED_OTHER {
            // SAFETY: reads the parameters, changes the calling thread.
            let changed = unsafe { libc::sched_setscheduler(THIS_THREAD, libc::SCHED_BATCH, &raw const parameters) };
            if changed != 0 {
                tracing::debug!(error = %std::io::Error::last_os_error(), "the thread's scheduling stays as it is");
            }
        }
    }
}
