//! Prometheus' text format, version 0.0.4: names with units, in seconds and bytes. Names of values that only grow end
//! in `_total`.

use std::fmt::{self, Display, Write};

use crate::stats::{StageStats, Stats, Times};

/// Upper bounds of histogram buckets, in seconds: from a microsecond to a minute, in factors of four. They are bounds
/// of octaves, so that each of our finer buckets is in only one of them.
fn bounds() -> impl Iterator<Item = f64> {
    (10..=36).step_by(2).map(|power| f64::exp2(f64::from(power)) / 1e9)
}

pub(super) fn to_text(stats: &Stats) -> String {
    let mut text = Text(String::with_capacity(16 << 10));
    // Writing to a string does not fail.
    let _ = text.all(stats);
    text.0
}

struct Text(String);

const NONE: &[(&str, &str)] = &[];

impl Text {
    fn family(&mut self, kind: &str, name: &str, help: &str) -> fmt::Result {
        writeln!(self.0, "# HELP ringfeed_{name} {help}\n# TYPE ringfeed_{name} {kind}")
    }

    fn value(&mut self, name: &str, labels: &[(&str, &str)], value: impl Display) -> fmt::Result {
        write!(self.0, "ringfeed_{name}")?;
        for (nth, (label, of)) in labels.iter().enumerate() {
            // Our labels are words, so nothing has to be escaped.
            write!(self.0, "{}{label}=\"{of}\"", if nth == 0 { '{' } else { ',' })?;
        }
        writeln!(self.0, "{} {value}", if labels.is_empty() { "" } else { "}" })
    }

    fn counter(&mut self, name: &str, help: &str, value: impl Display) -> fmt::Result {
        self.family("counter", name, help)?;
        self.value(name, NONE, value)
    }

    fn gauge(&mut self, name: &str, help: &str, value: impl Display) -> fmt::Result {
        self.family("gauge", name, help)?;
        self.value(name, NONE, value)
    }

    /// A family with one label.
    fn counters<'a, V: Display>(
        &mut self,
        name: &str,
        help: &str,
        label: &str,
        values: impl IntoIterator<Item = (&'a str, V)>,
    ) -> fmt::Result {
        self.family("counter", name, help)?;
        values.into_iter().try_for_each(|(of, value)| self.value(name, &[(label, of)], value))
    }

    fn histogram(&mut self, name: &str, help: &str, times: &Times, sum: f64) -> fmt::Result {
        self.family("histogram", name, help)?;
        self.times(name, NONE, times, sum)
    }

    /// A family of histograms, one for each stage of these names.
    fn stage_histograms(&mut self, name: &str, help: &str, stages: &[StageStats], of: &[&str]) -> fmt::Result {
        self.family("histogram", name, help)?;
        // Transforms of whole batches are no times of samples.
        let is_timed = |stage: &&StageStats| stage.times.count > 0 || stage.busy_seconds == 0.0;
        let mut stages = stages.iter().filter(|stage| of.contains(&stage.name)).filter(is_timed);
        stages.try_for_each(|stage| self.times(name, &[("stage", stage.name)], &stage.times, stage.busy_seconds))
    }

    fn times(&mut self, name: &str, labels: &[(&str, &str)], times: &Times, sum: f64) -> fmt::Result {
        let bucket = format!("{name}_bucket");
        for bound in bounds() {
            let below = times.buckets().filter(|(to, _)| *to <= bound * (1.0 + 1e-9)).map(|(_, count)| count);
            self.value(&bucket, &[labels, &[("le", &bound.to_string())]].concat(), below.sum::<u64>())?;
        }
        self.value(&bucket, &[labels, &[("le", "+Inf")]].concat(), times.count)?;
        self.value(&format!("{name}_sum"), labels, sum)?;
        self.value(&format!("{name}_count"), labels, times.count)
    }

    fn all(&mut self, stats: &Stats) -> fmt::Result {
        self.family("gauge", "build_info", "Always 1; the version is a label.")?;
        self.value("build_info", &[("version", env!("CARGO_PKG_VERSION"))], 1)?;
        self.delivered(stats)?;
        self.stages(stats)?;
        self.queue(stats)?;
        self.memory(stats)?;
        self.upload(stats)
    }

    fn delivered(&mut self, stats: &Stats) -> fmt::Result {
        self.counter("batches_total", "Batches handed out.", stats.batches)?;
        self.counter("samples_total", "Samples handed out.", stats.samples)?;
        self.counter("tensor_bytes_total", "Bytes of tensors handed out.", stats.bytes)?;
        let ready = "Batches that were ready when the trainer asked for them.";
        self.counter("batches_ready_total", ready, stats.trainer.ready)?;
        let (waits, steps) = (&stats.trainer.waits, &stats.trainer.steps);
        let wait_seconds = stats.trainer.wait_seconds;
        self.histogram("trainer_wait_seconds", "Time that the trainer waited for a batch.", waits, wait_seconds)?;
        let busy_seconds = stats.trainer.busy_seconds;
        self.histogram("trainer_step_seconds", "Time that the trainer worked on a batch.", steps, busy_seconds)?;
        let (deliveries, deliver_seconds) = (&stats.trainer.deliveries, stats.trainer.deliver_seconds);
        self.histogram("deliver_seconds", "Time that handing over a batch took.", deliveries, deliver_seconds)?;
        let bad = [("skipped", stats.skipped), ("replaced", stats.replaced)];
        self.counters("bad_records_total", "Bad records, by what was done with them.", "outcome", bad)?;
        self.counter("damaged_images_total", "Damaged images that were loaded.", stats.damaged)?;
        self.counter("reads_given_up_total", "Reads that passed their time limit.", stats.left_behind)?;
        self.counter("batches_refilled_total", "Batches laid out and filled again.", stats.refilled)?;
        self.counter("batches_detached_total", "Batches copied out of the ring.", stats.detached)?;
        self.counter("rows_moved_total", "Rows moved up inside their slot.", stats.moved_rows)
    }

    fn stages(&mut self, stats: &Stats) -> fmt::Result {
        let stages = || stats.stages.iter();
        let (label, busy) = ("stage", stages().map(|stage| (stage.name, stage.busy_seconds)));
        self.counters("stage_busy_seconds_total", "Time worked, over all threads of a stage.", label, busy)?;
        let cpu = stages().filter_map(|stage| Some((stage.name, stage.cpu_seconds?)));
        self.counters("stage_cpu_seconds_total", "Part of it on a processor core.", label, cpu)?;
        let help = "Time that a stage worked on a sample.";
        let of = ["read", "decode", "resize", "transform"];
        self.stage_histograms("stage_sample_seconds", help, &stats.stages, &of)?;
        let help = "Time that planning took for a batch, and settling for one with bad records.";
        self.stage_histograms("stage_batch_seconds", help, &stats.stages, &["plan", "settle"])?;
        let samples = stages().map(|stage| (stage.name, stage.samples));
        self.counters("stage_samples_total", "Samples that went through a stage.", label, samples)?;
        let read = stages().filter(|stage| matches!(stage.name, "plan" | "read"));
        let bytes = read.clone().map(|stage| (stage.name, stage.bytes_read));
        self.counters("read_bytes_total", "Bytes read from files and storages.", label, bytes)?;
        let requests = read.map(|stage| (stage.name, stage.requests));
        self.counters("read_requests_total", "Requests that reading took.", label, requests)?;
        let workers = &stats.workers;
        self.gauge("workers", "Threads that fill batches.", workers.threads)?;
        self.counter("worker_idle_seconds_total", "Time that workers waited for work.", workers.idle_seconds)?;
        let help = "Time that workers rested because they may use no more of the cores.";
        self.counter("worker_rested_seconds_total", help, workers.rested_seconds)?;
        let help = "Time that workers waited to begin the code of transforms.";
        self.counter("worker_lock_wait_seconds_total", help, workers.lock_wait_seconds)?;
        let help = "Time that workers waited for memory of the budget.";
        self.counter("worker_memory_wait_seconds_total", help, workers.memory_wait_seconds)?;
        if let (Some(cpu), Some(queued)) = (workers.cpu_seconds, workers.queued_seconds) {
            self.counter("worker_cpu_seconds_total", "Time that workers were on a processor core.", cpu)?;
            let help = "Time that workers could have run and had no core.";
            self.counter("worker_queued_seconds_total", help, queued)?;
        }
        Ok(())
    }

    fn queue(&mut self, stats: &Stats) -> fmt::Result {
        let queue = &stats.queue;
        self.gauge("prefetch_batches", "Batches that may be ready ahead of the trainer.", queue.prefetch)?;
        self.counter("queue_seconds_total", "Time that the ring was in use.", queue.seconds)?;
        self.counter("queue_ready_seconds_total", "Time in which the next batch was ready.", queue.ready_seconds)?;
        let (waits, wait_seconds) = (&queue.slot_waits, queue.planning_slot_seconds);
        self.histogram("slot_wait_seconds", "Time that planning waited for the slot of a batch.", waits, wait_seconds)?;
        let batches = [("ready", queue.ready_batch_seconds), ("filling", queue.filling_batch_seconds)];
        let help = "Sum of time over all batches in the queue; divided by queue_seconds_total, the mean number of batches in it.";
        self.counters("queue_batch_seconds_total", help, "state", batches)?;
        let waits = [
            ("plan", queue.wait_plan_seconds),
            ("slot", queue.wait_slot_seconds),
            ("fill", queue.wait_fill_seconds),
            ("behind", queue.wait_behind_seconds),
        ];
        self.counters("wait_cause_seconds_total", "Time that the trainer waited, by reason.", "cause", waits)
    }

    fn memory(&mut self, stats: &Stats) -> fmt::Result {
        let ring = &stats.ring;
        self.gauge("ring_slots", "Slots of the ring.", ring.slots)?;
        self.gauge("ring_leased_slots", "Slots in the caller's hands.", ring.leased)?;
        self.gauge("ring_bytes", "Bytes of all slots.", ring.bytes)?;
        self.counter("ring_regrown_total", "Slots that were given larger memory.", ring.regrown)?;
        self.counter("ring_spilled_total", "Batches served from ordinary memory.", ring.spilled)?;
        self.gauge("memory_bytes", "Bytes that count against the memory budget.", stats.memory_bytes)
    }

    fn upload(&mut self, stats: &Stats) -> fmt::Result {
        let Some(upload) = &stats.upload else { return Ok(()) };
        self.counter("upload_batches_total", "Batches copied to a device.", upload.batches)?;
        self.counter("upload_bytes_total", "Bytes copied to a device.", upload.bytes)?;
        let help = "Time from the start of a batch's copy to a device until it landed.";
        self.histogram("upload_seconds", help, &upload.uploads, upload.upload_seconds)?;
        let (slots, seconds) = (&upload.slot_waits, upload.slot_wait_seconds);
        let help = "Time that the upload of a batch waited for a slot on the device.";
        self.histogram("upload_slot_wait_seconds", help, slots, seconds)?;
        let waits = [
            ("load", upload.load_wait_seconds),
            ("slot", upload.slot_wait_seconds),
            ("copy", upload.copy_wait_seconds),
        ];
        self.counters("upload_wait_seconds_total", "Time that uploads waited, by reason.", "cause", waits)
    }
}
