//! What the operating system is asked for directly: clocks, the cores and priority of a thread, and the limits of the
//! process.

#[cfg(target_os = "linux")]
use std::io;
use std::time::Duration;

/// Nanoseconds of the system's monotonic clock, or since the first call.
#[inline]
pub(crate) fn monotonic() -> u64 {
    #[cfg(unix)]
    {
        read_clock(libc::CLOCK_MONOTONIC).map_or(0, |time| time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64)
    }
    #[cfg(not(unix))]
    {
        static BEGIN: std::sync::OnceLock<std::time::Instant> = std::sync::OnceLock::new();
        BEGIN.get_or_init(std::time::Instant::now).elapsed().as_nanos() as u64
    }
}

/// Processor time of the calling thread; `None` if the system does not report it.
pub(crate) fn thread_cpu() -> Option<Duration> {
    #[cfg(unix)]
    return read_clock(libc::CLOCK_THREAD_CPUTIME_ID).map(duration);
    #[cfg(not(unix))]
    None
}

/// Processor time of all threads of this process; `None` if the system does not report it.
pub(crate) fn process_cpu() -> Option<Duration> {
    #[cfg(unix)]
    return read_clock(libc::CLOCK_PROCESS_CPUTIME_ID).map(duration);
    #[cfg(not(unix))]
    None
}

#[cfg(unix)]
#[inline]
fn read_clock(clock: libc::clockid_t) -> Option<libc::timespec> {
    // SAFETY: plain data, of which zeros are a value.
    let mut time: libc::timespec = unsafe { std::mem::zeroed() };
    // SAFETY: writes the time.
    let read = unsafe { libc::clock_gettime(clock, &raw mut time) };
    (read == 0).then_some(time)
}

#[cfg(unix)]
fn duration(time: libc::timespec) -> Duration {
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// The calling thread's number in `/proc`.
#[cfg(target_os = "linux")]
pub(crate) fn thread_number() -> i32 {
    // By its number: glibc has a function for it since 2.30, and a program that names it does not start with an older
    // version. SAFETY: no arguments.
    unsafe { libc::syscall(libc::SYS_gettid) as i32 }
}

/// Cores that the calling thread may run on, by the system's numbers; none if they can't be chosen.
pub(crate) fn allowed_cores() -> Vec<usize> {
    #[cfg(target_os = "linux")]
    {
        let mut set = no_cores();
        // SAFETY: writes a set of this size.
        let read = unsafe { libc::sched_getaffinity(THIS_THREAD, size_of_val(&set), &raw mut set) };
        if read == 0 {
            // SAFETY: these cores are in the set, which is plain data.
            return (0..MAX_CORES).filter(|core| unsafe { libc::CPU_ISSET(*core, &set) }).collect();
        }
    }
    Vec::new()
}

/// Lets the calling thread, and threads that it starts, run on these cores only.
#[cfg(target_os = "linux")]
pub(crate) fn keep_to_cores(cores: &[usize]) -> io::Result<()> {
    let mut set = no_cores();
    for core in cores.iter().filter(|core| **core < MAX_CORES) {
        // SAFETY: this core is in the set, which is plain data.
        unsafe { libc::CPU_SET(*core, &mut set) };
    }
    // SAFETY: reads a set of this size.
    done(unsafe { libc::sched_setaffinity(THIS_THREAD, size_of_val(&set), &raw const set) })
}

#[cfg(target_os = "linux")]
const MAX_CORES: usize = libc::CPU_SETSIZE as usize;

#[cfg(target_os = "linux")]
fn no_cores() -> libc::cpu_set_t {
    // SAFETY: plain data, of which zeros are a value.
    unsafe { std::mem::zeroed() }
}

/// Sets the priority of the calling thread, and of threads that it starts: 0 is that of any other thread, 19 the
/// lowest.
#[cfg(target_os = "linux")]
pub(crate) fn set_nice(nice: u8) -> io::Result<()> {
    // SAFETY: changes the calling thread. On Linux, this is what the process's number 0 means here.
    done(unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, nice.into()) })
}

/// Lets the calling thread wait for its turn when it wakes up, instead of interrupting the thread that runs there.
///
/// The trainer wakes planning and workers with every batch that it takes. Ordinary threads could then take its core at
/// once, and keep it for a time slice of the scheduler (milliseconds) before the trainer has begun its step. On Linux,
/// this function sets `SCHED_BATCH`, which needs no privilege and leaves the thread its share of the cores. A thread
/// with a policy set by the user keeps it. On other systems this does nothing.
pub(crate) fn stand_back() {
    #[cfg(target_os = "linux")]
    {
        // SAFETY: plain data, of which zeros are a value: no priority, which is what the policy asks for.
        let parameters: libc::sched_param = unsafe { std::mem::zeroed() };
        // SAFETY: asks about the calling thread.
        let policy = unsafe { libc::sched_getscheduler(THIS_THREAD) };
        if policy == libc::SCHED_OTHER {
            // SAFETY: reads the parameters, changes the calling thread.
            let changed = unsafe { libc::sched_setscheduler(THIS_THREAD, libc::SCHED_BATCH, &raw const parameters) };
            if let Err(error) = done(changed) {
                tracing::debug!(%error, "the thread's scheduling stays as it is");
            }
        }
    }
}

#[cfg(target_os = "linux")]
const THIS_THREAD: libc::pid_t = 0;

#[cfg(target_os = "linux")]
fn done(result: libc::c_int) -> io::Result<()> {
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Bytes of memory of this machine; `u64::MAX` if it is not known.
pub(crate) fn memory() -> u64 {
    #[cfg(target_os = "linux")]
    {
        // SAFETY: asks for a number.
        let pages = unsafe { libc::sysconf(libc::_SC_PHYS_PAGES) };
        // SAFETY: as above.
        let page = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
        match (u64::try_from(pages), u64::try_from(page)) {
            (Ok(pages), Ok(page)) => pages.saturating_mul(page),
            _ => u64::MAX,
        }
    }
    #[cfg(not(target_os = "linux"))]
    u64::MAX
}

/// An error if this process may not write a file of `bytes` bytes: beyond the limit (`ulimit -f`), writing raises a
/// signal that ends the process.
pub(crate) fn check_file_limit(bytes: u64) -> std::io::Result<()> {
    #[cfg(target_os = "linux")]
    {
        let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
        // SAFETY: writes the limit.
        let known = unsafe { libc::getrlimit(libc::RLIMIT_FSIZE, &raw mut limit) };
        if known == 0 && limit.rlim_cur < bytes {
            let most = limit.rlim_cur;
            let message = format!("a file of {bytes} bytes, but this process may write {most} (`ulimit -f`)");
            return Err(io::Error::new(io::ErrorKind::FileTooLarge, message));
        }
    }
    #[cfg(not(target_os = "linux"))]
    let _ = bytes;
    Ok(())
}
