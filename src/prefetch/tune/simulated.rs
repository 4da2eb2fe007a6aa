//! A loader and its trainer in simulated time, which count what real ones would.

use std::collections::VecDeque;
use std::time::Duration;

use crate::counters::{Counters, Spent, add};
use crate::ring::RingStats;
use crate::stats::{Planning, Setting, Stats};

use super::{Amounts, Tuner};

/// Everything happens in steps of this time.
const TICK: f64 = 0.5e-3;

pub(super) struct Simulated {
    pub(super) cores: usize,
    pub(super) rows: usize,
    /// Time that a sample takes to come, and how many come at the same time without being slower.
    pub(super) read_seconds: f64,
    pub(super) reads_at_once: f64,
    /// Time on a core.
    pub(super) decode_seconds: fn(u64) -> f64,
    /// The trainer's step behind each batch, beside a core or on one.
    pub(super) step_seconds: fn(u64) -> f64,
    pub(super) slot_bytes: usize,
}

/// A sample in a worker's hands.
struct Work {
    batch: u64,
    sample: u64,
    entered: u64,
    read_left: f64,
    read: f64,
    decode_left: f64,
    decode: f64,
}

struct Entry {
    begun: usize,
    done: usize,
}

impl Simulated {
    /// Batches a second in the last third of so many seconds, and what was set by then.
    pub(super) fn run(&self, begin: Amounts, tuner: Option<&mut Tuner>, seconds: f64) -> (f64, Amounts) {
        let (rate, amounts, _) = self.run_for_figures(begin, tuner, seconds);
        (rate, amounts)
    }

    /// As `run`, with all figures.
    pub(super) fn run_for_figures(
        &self,
        begin: Amounts,
        mut tuner: Option<&mut Tuner>,
        seconds: f64,
    ) -> (f64, Amounts, Stats) {
        let counters = Counters::new(None);
        let (mut now, mut amounts) = (0.0, begin);
        let mut window: VecDeque<Entry> = VecDeque::new();
        let (mut first, mut samples) = (0, 0);
        let mut works: Vec<Option<Work>> = Vec::new();
        let (mut step_left, mut step, mut waited) = (0.0, 0.0, 0.0);
        let [mut cpu, mut queued, mut late, mut looked, mut least_ready] = [0.0, 0.0, 0.0, 0.0, f64::INFINITY];
        let time = |seconds: f64| Duration::from_secs_f64(seconds);
        while now < seconds {
            while window.len() <= amounts.prefetch {
                window.push_back(Entry { begun: 0, done: 0 });
                counters.plan.busy(Spent { wall: Duration::from_micros(5), cpu: None }, self.rows);
            }
            add(&counters.room_wait_ns, time(TICK));
            works.resize_with(works.len().max(amounts.workers), || None);
            for work in works.iter_mut().take(amounts.workers).filter(|work| work.is_none()) {
                let Some(at) = window.iter().position(|entry| entry.begun < self.rows) else { break };
                window[at].begun += 1;
                *work = Some(Work {
                    batch: first + at as u64,
                    sample: samples,
                    entered: counters.reads.enter(),
                    read_left: self.read_seconds,
                    read: 0.0,
                    decode_left: (self.decode_seconds)(samples),
                    decode: 0.0,
                });
                samples += 1;
            }
            let reading = works.iter().flatten().filter(|work| work.read_left > 0.0).count() as f64;
            let busy = works.iter().flatten().count() as f64;
            let share = (self.cores as f64 / (busy - reading).max(1.0)).min(1.0);
            let read_share = (self.reads_at_once / reading.max(1.0)).min(1.0);
            for work in &mut works {
                let Some(job) = work else {
                    continue;
                };
                if job.read_left > 0.0 {
                    (job.read_left, job.read) = (job.read_left - TICK * read_share, job.read + TICK);
                    if job.read_left <= 0.0 {
                        counters.reads.leave(job.entered, time(job.read), 1);
                        counters.read.busy(Spent { wall: time(job.read), cpu: Some(Duration::ZERO) }, 1);
                    }
                    continue;
                }
                (job.decode_left, job.decode) = (job.decode_left - TICK * share, job.decode + TICK);
                (cpu, queued) = (cpu + TICK * share, queued + TICK * (1.0 - share));
                if job.decode_left <= 0.0 {
                    let (wall, on_core) = (time(job.decode), time((self.decode_seconds)(job.sample)));
                    counters.decode.busy(Spent { wall, cpu: Some(on_core.min(wall)) }, 1);
                    window[(job.batch - first) as usize].done += 1;
                    *work = None;
                }
            }
            let ready = window.iter().filter(|entry| entry.done == self.rows).count();
            let front_is_ready = window.front().is_some_and(|entry| entry.done == self.rows);
            add(&counters.queue.time_ns, time(TICK));
            add(&counters.queue.ready_ns, time(if front_is_ready { TICK } else { 0.0 }));
            if step_left > TICK / 2.0 {
                step_left -= TICK;
                add(&counters.trainer.busy_ns, time(TICK));
            } else if front_is_ready {
                least_ready = f64::min(least_ready, ready as f64);
                window.pop_front();
                first += 1;
                counters.trainer.batches.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                counters.batches.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                counters.samples.fetch_add(self.rows as u64, std::sync::atomic::Ordering::Relaxed);
                counters.trainer.waits.record(time(waited), 1);
                counters.trainer.steps.record(time(step), 1);
                (step, waited) = ((self.step_seconds)(first), 0.0);
                step_left = step;
                if now >= seconds * 2.0 / 3.0 {
                    late += 1.0;
                }
            } else {
                waited += TICK;
                add(&counters.trainer.wait_ns, time(TICK));
                let queue = &counters.queue;
                add(if ready > 0 { &queue.wait_behind_ns } else { &queue.wait_fill_ns }, time(TICK));
            }
            now += TICK;
            if let Some(tuner) = &mut tuner
                && now - looked >= 0.25
            {
                looked = now;
                let stats = self.stats(&counters, amounts, [cpu, queued]);
                let least = if least_ready.is_finite() { least_ready as usize } else { usize::MAX };
                least_ready = f64::INFINITY;
                if let Some((wanted, why)) = tuner.look(stats, least) {
                    println!("{now:.2} s: {amounts:?} -> {wanted:?}: {why}");
                    amounts = wanted;
                }
            }
        }
        (late / (seconds / 3.0), amounts, self.stats(&counters, amounts, [cpu, queued]))
    }

    fn stats(&self, counters: &Counters, amounts: Amounts, scheduled: [f64; 2]) -> Stats {
        let setting = Setting {
            workers: amounts.workers,
            prefetch: amounts.prefetch,
            planning: Planning::Order,
            cores: self.cores,
            most_cores: None,
            tuning: None,
            ring: RingStats { slots: amounts.prefetch + 2, slot_bytes: self.slot_bytes, ..RingStats::default() },
            memory_bytes: 0,
            scheduled: Some(scheduled),
        };
        let mut stats = Stats::read(counters, setting, |_| String::new());
        stats.process_cpu_seconds = Some(scheduled[0]);
        stats
    }
}
