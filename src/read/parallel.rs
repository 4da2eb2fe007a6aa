//! Numbered jobs on several threads, with results in order: for data that is read once when a source is opened.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use crate::error::{Error, Result};
use crate::sync::{Condvar, Mutex};

/// Number of results per thread that may wait for an earlier one. This bounds the memory when one job takes long.
const AHEAD: u64 = 4;

/// Most threads, whatever is asked for: a large file has a job for each of its megabytes.
const MOST_THREADS: usize = 1024;

/// Number of threads to use: `wanted`, or as many as the process may run at once.
pub(crate) fn thread_count(wanted: Option<usize>) -> usize {
    wanted.unwrap_or_else(|| thread::available_parallelism().map_or(1, usize::from)).clamp(1, MOST_THREADS)
}

/// Runs `work` for the jobs `0..jobs` on `threads` threads, and passes each result to `take`, on the calling thread and
/// in the order of the jobs. A thread keeps an `S` (its buffers) from job to job. The threads end before this returns.
/// With one thread or one job, only the caller's thread is used.
///
/// # Errors
///
/// The error of the first failing job, by number: the results of the jobs before it have been taken by then, and no job
/// begins after one has failed. An error of `take` also ends the work. A panic is an error of its job.
pub(crate) fn in_order<S: Default, T: Send>(
    threads: usize,
    jobs: u64,
    work: impl Fn(&mut S, u64) -> Result<T> + Sync,
    mut take: impl FnMut(T) -> Result<()>,
) -> Result<()> {
    // The results that are not taken yet, a few for each thread, in any order.
    let results = Mutex::new(Vec::new());
    let worker = |drive: Drive<'_>| {
        let mut kept = S::default();
        drive(&mut |job| {
            let result = work(&mut kept, job)?;
            results.lock().push((job, result));
            Ok(())
        });
    };
    run(threads, jobs, &worker, &mut |job| {
        let mut results = results.lock();
        let place = results.iter().position(|(of, _)| *of == job);
        let result = place.map(|place| results.swap_remove(place).1);
        drop(results);
        result.map_or(Ok(()), &mut take)
    })
}

/// Does a job, by its number.
type Step<'a> = &'a mut dyn FnMut(u64) -> Result<()>;

/// Lets a thread do jobs until there are no more.
type Drive<'a> = &'a mut dyn FnMut(Step<'_>);

/// Like [`in_order`], but `worker` creates what a thread keeps, and stores the results, so that this is compiled only
/// once for all kinds of results.
fn run(
    threads: usize,
    jobs: u64,
    worker: &(dyn Fn(Drive<'_>) + Sync),
    take: &mut dyn FnMut(u64) -> Result<()>,
) -> Result<()> {
    let threads = u64::try_from(threads).unwrap_or(u64::MAX).min(jobs);
    let caught = |step: Step<'_>, job: u64| {
        catch_unwind(AssertUnwindSafe(|| step(job))).unwrap_or_else(|panic| Err(Error::from_panic(&*panic)))
    };
    if threads <= 1 {
        return alone(jobs, worker, &caught, take);
    }
    let board = Board { state: Mutex::new(State::new(jobs)), changed: Condvar::new() };
    thread::scope(|scope| {
        // However this ends, no thread begins another job.
        let _stop = StopAtEnd(&board);
        let mut started = 0;
        for _ in 0..threads {
            let run = || {
                worker(&mut |step| {
                    while let Some(job) = board.next_job(threads * AHEAD) {
                        board.done(job, caught(step, job));
                    }
                });
            };
            // If the system refuses more threads, those that were started do the work.
            started += u64::from(thread::Builder::new().spawn_scoped(scope, run).is_ok());
        }
        if started == 0 {
            return alone(jobs, worker, &caught, take);
        }
        (0..jobs).try_for_each(|job| {
            board.first()?;
            take(job)
        })
    })
}

/// Does all jobs on the calling thread.
fn alone(
    jobs: u64,
    worker: &dyn Fn(Drive<'_>),
    caught: &dyn Fn(Step<'_>, u64) -> Result<()>,
    take: &mut dyn FnMut(u64) -> Result<()>,
) -> Result<()> {
    let mut done = Ok(());
    worker(&mut |step| {
        done = (0..jobs).try_for_each(|job| {
            caught(step, job)?;
            take(job)
        });
    });
    done
}

/// The first result of `look` in `records`, in their order. Uses a thread for each core; each thread keeps an `S`.
///
/// # Errors
///
/// Those of `look`, unless something was found before.
pub(crate) fn first_found<S: Default, T: Send>(
    records: u64,
    look: impl Fn(&mut S, u64) -> Result<Option<T>> + Sync,
) -> Result<Option<T>> {
    const AT_ONCE: u64 = 1000;
    // The first job that found something: later records need not be looked at.
    let found_in = AtomicU64::new(u64::MAX);
    let mut first = None;
    let looked = in_order(
        thread_count(None),
        records.div_ceil(AT_ONCE),
        |kept: &mut S, job| {
            for record in job * AT_ONCE..records.min((job + 1) * AT_ONCE) {
                if found_in.load(Ordering::Relaxed) < job {
                    break;
                }
                if let Some(found) = look(kept, record)? {
                    found_in.fetch_min(job, Ordering::Relaxed);
                    return Ok(Some(found));
                }
            }
            Ok(None)
        },
        |found| {
            first = first.take().or(found);
            Ok(())
        },
    );
    if first.is_none() {
        looked?;
    }
    Ok(first)
}

/// Where threads take jobs and put results.
struct Board {
    state: Mutex<State>,
    changed: Condvar,
}

struct State {
    /// The next job to be begun.
    next: u64,
    /// No job from here on is begun.
    end: u64,
    /// Number of results that have been taken.
    taken: u64,
    /// How the jobs ended, beginning with job `taken`.
    results: VecDeque<Option<Result<()>>>,
}

impl State {
    fn new(jobs: u64) -> Self {
        Self { next: 0, end: jobs, taken: 0, results: VecDeque::new() }
    }
}

impl Board {
    /// The next job, as soon as fewer than `ahead` results wait for their turn; `None` if there are no more jobs.
    fn next_job(&self, ahead: u64) -> Option<u64> {
        let mut state = self.state.lock();
        while state.next < state.end && state.next - state.taken >= ahead {
            state = self.changed.wait(state);
        }
        let job = state.next;
        (job < state.end).then(|| {
            state.next += 1;
            job
        })
    }

    fn done(&self, job: u64, result: Result<()>) {
        let mut state = self.state.lock();
        if result.is_err() {
            state.end = state.end.min(job + 1);
        }
        let at = (job - state.taken) as usize;
        while state.results.len() <= at {
            state.results.push_back(None);
        }
        state.results[at] = Some(result);
        drop(state);
        self.changed.notify_all();
    }

    /// Waits until the first job that is not taken is done.
    fn first(&self) -> Result<()> {
        let mut state = self.state.lock();
        loop {
            if let Some(result) = state.results.front_mut().and_then(Option::take) {
                state.results.pop_front();
                state.taken += 1;
                drop(state);
                self.changed.notify_all();
                return result;
            }
            state = self.changed.wait(state);
        }
    }
}

struct StopAtEnd<'a>(&'a Board);

impl Drop for StopAtEnd<'_> {
    fn drop(&mut self) {
        self.0.state.lock().end = 0;
        self.0.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::ErrorKind;
    use std::sync::atomic::AtomicBool;

    fn taken(threads: usize, jobs: u64, work: impl Fn(u64) -> Result<u64> + Sync) -> (Vec<u64>, Result<()>) {
        crate::watchdog::watch();
        let mut taken = Vec::new();
        let result = in_order(
            threads,
            jobs,
            |(): &mut (), job| work(job),
            |value| {
                taken.push(value);
                Ok(())
            },
        );
        (taken, result)
    }

    #[test]
    fn there_are_some_threads_but_never_too_many() {
        let wanted = [0, 1, 7, 1024, 1025, usize::MAX];
        assert_eq!(wanted.map(|wanted| thread_count(Some(wanted))), [1, 1, 7, 1024, 1024, 1024]);
    }

    #[test]
    fn results_come_in_order_from_any_number_of_threads() {
        for threads in [1, 2, 7] {
            for jobs in [0, 1, 2, 1000] {
                let (values, result) = taken(threads, jobs, |job| {
                    if job % 3 == 0 {
                        thread::yield_now();
                    }
                    Ok(job * job)
                });
                result.unwrap();
                assert_eq!(values, (0..jobs).map(|job| job * job).collect::<Vec<_>>());
            }
        }
    }

    #[test]
    fn the_first_error_is_the_one_given_after_all_results_before_it() {
        for threads in [1, 4] {
            let a_later_one_failed = AtomicBool::new(false);
            let (values, result) = taken(threads, 100, |job| match job {
                40 => {
                    while threads > 1 && !a_later_one_failed.load(Ordering::Acquire) {
                        thread::yield_now();
                    }
                    Err(Error::new(ErrorKind::Data, "forty"))
                }
                41.. => {
                    a_later_one_failed.store(true, Ordering::Release);
                    Err(Error::new(ErrorKind::Data, "later"))
                }
                _ => Ok(job),
            });
            assert_eq!(result.unwrap_err().message(), "forty");
            assert_eq!(values, (0..40).collect::<Vec<_>>());
        }
    }

    #[test]
    fn what_is_found_is_in_the_first_record_that_has_it() {
        let found = |wanted: &[u64]| {
            first_found(100_000, |(): &mut (), record| Ok(wanted.contains(&record).then_some(record))).unwrap()
        };
        assert_eq!(
            [found(&[]), found(&[99_999]), found(&[70_001, 70_000, 99_000])],
            [None, Some(99_999), Some(70_000)]
        );
        let failed = first_found(10, |(): &mut (), record| match record {
            7 => Err(Error::new(ErrorKind::Io, "seven")),
            _ => Ok(None::<u64>),
        });
        assert_eq!(failed.unwrap_err().message(), "seven");
    }

    #[test]
    fn a_panic_is_an_error_and_an_error_of_the_taker_ends_the_jobs() {
        for threads in [1, 3] {
            let (values, result) = taken(threads, 10, |job| if job == 2 { panic!("two") } else { Ok(job) });
            assert_eq!((values, result.unwrap_err().kind()), (vec![0, 1], ErrorKind::Panicked));
            let refused = in_order(
                threads,
                1 << 40,
                |(): &mut (), job| Ok(job),
                |job| match job {
                    5 => Err(Error::new(ErrorKind::Limit, "enough")),
                    _ => Ok(()),
                },
            );
            assert_eq!(refused.unwrap_err().message(), "enough");
        }
    }
}
