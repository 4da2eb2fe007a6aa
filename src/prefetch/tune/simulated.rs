//! A loader and its trainer in simulated time, with the counters of real ones.

use std::collections::VecDeque;
use std::sync::atomic::Ordering;
use std::time::Duration;

use crate::counters::{Counters, Spent, Tick, add};
use crate::ring::RingStats;
use crate::stats::{Lived, Planning, Setting, Stats, UploadStats};

use super::{Amounts, Tuner};

/// Everything happens in steps of this time.
const TICK: f64 = 0.5e-3;
/// Places on the device.
const DEVICE_SLOTS: usize = 3;

#[derive(Clone, Copy)]
pub(super) struct Simulated {
    pub(super) cores: usize,
    /// Cores that other programs take.
    pub(super) taken_cores: f64,
    pub(super) rows: usize,
    /// Time of the planning thread for a batch.
    pub(super) plan_seconds: f64,
    pub(super) planning: Planning,
    /// Time to read a sample, and how many samples can be read at the same time without becoming slower.
    pub(super) read_seconds: f64,
    pub(super) reads_at_once: f64,
    /// Time on a core.
    pub(super) decode_seconds: fn(u64) -> f64,
    pub(super) transform_seconds: fn(u64) -> f64,
    /// Number of samples that run the transforms' code at the same time; the others wait for their turn.
    pub(super) transforms_at_once: usize,
    /// Time of a copy of a batch to a device; none without a device.
    pub(super) copy_seconds: f64,
    /// The trainer's step after each batch, and whether it uses a core.
    pub(super) step_seconds: fn(u64) -> f64,
    pub(super) is_step_on_core: bool,
    /// Number of batches that the trainer keeps when it asks for another one, and number of them that have slots.
    pub(super) keeps: usize,
    pub(super) hold: usize,
    pub(super) slot_bytes: usize,
}

/// A sample that a worker works on.
struct Work {
    batch: u64,
    sample: u64,
    /// `None` if there is nothing to read.
    entered: Option<u64>,
    /// The remaining time of reading, and of decoding and transforming on a core.
    left: [f64; 3],
    spent: [f64; 3],
}

impl Work {
    /// The current phase: reading, decoding or transforming.
    fn phase(&self) -> usize {
        self.left.iter().position(|left| *left > 0.0).unwrap_or(2)
    }
}

struct Entry {
    begun: usize,
    done: usize,
}

/// The thread that copies to a device.
#[derive(Default)]
struct Upload {
    left: f64,
    is_copying: bool,
    on_device: usize,
    in_hand: usize,
    stats: UploadStats,
}

impl Upload {
    /// One step, in which the loader's batch can be taken if one is ready. Returns whether it was taken.
    fn tick(&mut self, copy_seconds: f64, is_ready: bool) -> bool {
        if self.is_copying {
            self.left -= TICK;
            self.stats.copy_wait_seconds += TICK;
            if self.left <= TICK / 2.0 {
                (self.is_copying, self.on_device) = (false, self.on_device + 1);
                self.stats.batches += 1;
            }
            return false;
        }
        let has_slot = self.on_device + self.in_hand < DEVICE_SLOTS;
        match (has_slot, is_ready) {
            (false, _) => self.stats.slot_wait_seconds += TICK,
            (true, false) => self.stats.load_wait_seconds += TICK,
            (true, true) => (self.is_copying, self.left) = (true, copy_seconds),
        }
        has_slot && is_ready
    }
}

fn time(seconds: f64) -> Duration {
    Duration::from_secs_f64(seconds)
}

fn spent(seconds: f64, cpu: f64) -> Spent {
    Spent { wall: time(seconds), cpu: Some(time(cpu)) }
}

impl Simulated {
    /// Batches per second in the last third of this many seconds, and the numbers that were set by then.
    pub(super) fn run(&self, begin: Amounts, tuner: Option<&mut Tuner>, seconds: f64) -> (f64, Amounts) {
        let (rate, amounts, _) = self.run_for_figures(begin, tuner, seconds);
        (rate, amounts)
    }

    /// As `run`, with all statistics.
    pub(super) fn run_for_figures(
        &self,
        begin: Amounts,
        mut tuner: Option<&mut Tuner>,
        seconds: f64,
    ) -> (f64, Amounts, Stats) {
        let (clock, counters) = (Tick::now(), Counters::new(None));
        let (mut now, mut amounts, mut lived) = (0.0, begin, Lived::default());
        let mut window: VecDeque<Entry> = VecDeque::new();
        let (mut first, mut samples) = (0, 0);
        let mut works: Vec<Option<Work>> = Vec::new();
        let (mut upload, mut held, mut held_seconds) = (Upload::default(), 0, 0.0);
        let (mut plan_left, mut step_left, mut step, mut waited) = (self.plan_seconds, 0.0, 0.0, 0.0);
        let [mut cpu, mut queued, mut trainer_cpu] = [0.0; 3];
        let [mut late, mut looked, mut least_ready] = [0.0, 0.0, f64::INFINITY];
        let count = |counter: &std::sync::atomic::AtomicU64, by: u64| counter.fetch_add(by, Ordering::Relaxed);
        while now < seconds {
            let slots = amounts.prefetch + 2 + self.hold;
            let has_slot = |window: &VecDeque<Entry>, upload: &Upload| {
                window.len() + held + usize::from(upload.is_copying) < slots
            };
            while window.len() <= amounts.prefetch && has_slot(&window, &upload) {
                if plan_left > TICK / 2.0 {
                    plan_left -= TICK;
                    counters.plan.busy(spent(TICK, TICK), 0);
                    break;
                }
                window.push_back(Entry { begun: 0, done: 0 });
                counters.plan.busy(spent(5e-6, 5e-6), self.rows);
                plan_left = self.plan_seconds;
            }
            let is_full = window.len() > amounts.prefetch;
            let is_out_of_slots = !is_full && !has_slot(&window, &upload);
            if is_full || is_out_of_slots {
                add(if is_full { &counters.room_wait_ns } else { &counters.slot_wait_ns }, time(TICK));
            }
            works.resize_with(works.len().max(amounts.workers), || None);
            for work in works.iter_mut().take(amounts.workers).filter(|work| work.is_none()) {
                let Some(at) = window.iter().position(|entry| entry.begun < self.rows) else { break };
                window[at].begun += 1;
                *work = Some(Work {
                    batch: first + at as u64,
                    sample: samples,
                    entered: (self.read_seconds > 0.0).then(|| counters.reads.enter()),
                    left: [self.read_seconds, (self.decode_seconds)(samples), (self.transform_seconds)(samples)],
                    spent: [0.0; 3],
                });
                samples += 1;
            }
            let reading = works.iter().flatten().filter(|work| work.left[0] > 0.0).count() as f64;
            let transforms = works.iter().flatten().filter(|work| work.phase() == 2).count();
            let out_of_turn = transforms.saturating_sub(self.transforms_at_once);
            let busy = works.iter().flatten().count() as f64 - out_of_turn as f64;
            let steps = if self.is_step_on_core && step_left > TICK / 2.0 { 1.0 } else { 0.0 };
            let share = ((self.cores as f64 - self.taken_cores) / (busy - reading + steps).max(1.0)).min(1.0);
            let read_share = (self.reads_at_once / reading.max(1.0)).min(1.0);
            let mut turns = self.transforms_at_once;
            for work in &mut works {
                let Some(job) = work else { continue };
                let phase = job.phase();
                if phase == 2 && turns == 0 {
                    job.spent[2] += TICK;
                    add(&counters.lock_wait_ns, time(TICK));
                    continue;
                }
                turns -= usize::from(phase == 2);
                let progress = if phase == 0 { read_share } else { share };
                (job.left[phase], job.spent[phase]) = (job.left[phase] - TICK * progress, job.spent[phase] + TICK);
                if phase > 0 {
                    (cpu, queued) = (cpu + TICK * share, queued + TICK * (1.0 - share));
                }
                if let Some(entered) = job.entered.take_if(|_| job.left[0] <= 0.0) {
                    counters.reads.leave(entered, time(job.spent[0]), 1);
                }
                if job.left.iter().any(|left| *left > 0.0) {
                    continue;
                }
                self.count(&counters, job);
                window[(job.batch - first) as usize].done += 1;
                *work = None;
            }
            let ready = window.iter().filter(|entry| entry.done == self.rows).count();
            let mut front_is_ready = window.front().is_some_and(|entry| entry.done == self.rows);
            add(&counters.queue.time_ns, time(TICK));
            add(&counters.queue.ready_ns, time(if front_is_ready { TICK } else { 0.0 }));
            add(&counters.queue.ready_batch_ns, time(TICK * ready as f64));
            add(&counters.queue.filling_batch_ns, time(TICK * (window.len() - ready) as f64));
            held_seconds += TICK * held as f64;
            if self.copy_seconds > 0.0 {
                if upload.tick(self.copy_seconds, front_is_ready) {
                    window.pop_front();
                    first += 1;
                }
                front_is_ready = upload.on_device > 0;
            }
            if step_left > TICK / 2.0 {
                let progress = if self.is_step_on_core { share } else { 1.0 };
                (step_left, trainer_cpu) = (step_left - TICK * progress, trainer_cpu + TICK * progress * steps);
                add(&counters.trainer.busy_ns, time(TICK));
            } else if front_is_ready {
                least_ready = f64::min(least_ready, ready as f64);
                if self.copy_seconds > 0.0 {
                    (upload.on_device, upload.in_hand) = (upload.on_device - 1, 1);
                } else {
                    window.pop_front();
                    first += 1;
                    held = held.min(self.keeps) + 1;
                }
                let nth = count(&counters.trainer.batches, 1) + 1;
                count(&counters.trainer.ready, u64::from(waited == 0.0));
                count(&counters.batches, 1);
                count(&counters.samples, self.rows as u64);
                counters.trainer.waits.record(time(waited), 1);
                counters.trainer.steps.record(time(step), 1);
                counters.note_moment(clock + time(now));
                (step, waited) = ((self.step_seconds)(nth), 0.0);
                step_left = step;
                if now >= seconds * 2.0 / 3.0 {
                    late += 1.0;
                }
            } else {
                (held, upload.in_hand, waited) = (held.min(self.keeps), 0, waited + TICK);
                add(&counters.trainer.wait_ns, time(TICK));
                let queue = &counters.queue;
                let what = match (window.is_empty(), is_out_of_slots, ready) {
                    (true, true, _) => &queue.wait_slot_ns,
                    (true, false, _) => &queue.wait_plan_ns,
                    (false, _, 0) => &queue.wait_fill_ns,
                    _ => &queue.wait_behind_ns,
                };
                add(what, time(TICK));
            }
            now += TICK;
            if let Some(tuner) = &mut tuner
                && now - looked >= 0.25
            {
                looked = now;
                let stats = self.stats(&counters, (amounts, lived), [cpu, queued, trainer_cpu], held_seconds, &upload);
                let least = if least_ready.is_finite() { least_ready as usize } else { usize::MAX };
                least_ready = f64::INFINITY;
                if let Some((wanted, why)) = tuner.look(stats, least) {
                    println!("{now:.2} s: {amounts:?} -> {wanted:?}: {why}");
                    lived.change(amounts.workers, counters.trainer.seconds());
                    amounts = wanted;
                }
            }
        }
        let stats = self.stats(&counters, (amounts, lived), [cpu, queued, trainer_cpu], held_seconds, &upload);
        (late / (seconds / 3.0), amounts, stats)
    }

    /// A sample is done.
    fn count(&self, counters: &Counters, job: &Work) {
        let on_core = [0.0, (self.decode_seconds)(job.sample), (self.transform_seconds)(job.sample)];
        for (nth, stage) in [&counters.read, &counters.decode, &counters.transform].into_iter().enumerate() {
            if nth < 2 || job.spent[nth] > 0.0 {
                stage.busy(spent(job.spent[nth], on_core[nth].min(job.spent[nth])), 1);
                stage.times.record(time(job.spent[nth]), 1);
            }
        }
        let [read, decode, transform] = job.spent.map(time);
        counters.slowest.offer(job.sample, [read, decode, Duration::ZERO, transform]);
    }

    fn stats(
        &self,
        counters: &Counters,
        (amounts, lived): (Amounts, Lived),
        [cpu, queued, trainer_cpu]: [f64; 3],
        held_seconds: f64,
        upload: &Upload,
    ) -> Stats {
        let slots = amounts.prefetch + 2 + self.hold;
        let setting = Setting {
            workers: amounts.workers,
            lived,
            unshielded: amounts.workers,
            prefetch: amounts.prefetch,
            planning: self.planning,
            cores: self.cores,
            core_quota: None,
            most_cores: None,
            tuning: None,
            ring: RingStats { slots, slot_bytes: self.slot_bytes, held_seconds, ..RingStats::default() },
            memory_bytes: 0,
            scheduled: Some([cpu, queued]),
            planning_queued: Some(0.0),
        };
        let mut stats = Stats::read(counters, setting, |sample| format!("sample {sample}"));
        stats.process_cpu_seconds = Some(cpu + trainer_cpu);
        if self.copy_seconds > 0.0 {
            let bytes = upload.stats.batches * self.slot_bytes as u64;
            stats.upload = Some(UploadStats { bytes, ..upload.stats.clone() });
        }
        stats
    }
}
