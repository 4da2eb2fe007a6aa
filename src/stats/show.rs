use std::fmt;

use super::{Stats, share};

/// For people: what the trainer did, what was ready for it, and what each stage did.
impl fmt::Display for Stats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { trainer, queue, workers, .. } = self;
        let rate = share(self.samples as f64, trainer.seconds());
        writeln!(f, "trainer    {} batches in {}, {rate:.0} samples/s", trainer.batches, Seconds(trainer.seconds()))?;
        let (p50, p99) = (Seconds(trainer.waits.p50_seconds), Seconds(trainer.waits.p99_seconds));
        writeln!(
            f,
            "           waited {} of the time: {p50} for half of the batches, up to {p99} for 99 of 100",
            Percent(trainer.waited())
        )?;
        if queue.seconds > 0.0 {
            let (ready, filling) = (queue.mean_ready(), queue.mean_filling());
            writeln!(
                f,
                "ready      {} of the batches when they were asked for; {ready:.1} ready and {filling:.1} being filled in the mean, of {} ahead",
                Percent(trainer.readiness()),
                queue.prefetch
            )?;
        }
        if workers.threads > 0 {
            write!(
                f,
                "workers    {} on {} cores, {} busy",
                workers.threads,
                self.cores,
                Percent(workers.utilisation())
            )?;
            if let (Some(cpu), Some(queued)) = (workers.cpu_seconds, workers.queued_seconds) {
                let (cpu, queued) = (Percent(workers.share(cpu)), Percent(workers.share(queued)));
                write!(f, ", {cpu} on a core, {queued} waiting for a free core")?;
            }
            if workers.rested_seconds > 0.0 {
                write!(f, ", {} resting", Percent(workers.share(workers.rested_seconds)))?;
            }
            writeln!(f)?;
        }
        if let Some(tuning) = &self.tuning {
            let workers = if tuning.workers { format!("{} workers", workers.threads) } else { String::new() };
            let prefetch = if tuning.prefetch { format!("{} batches ahead", queue.prefetch) } else { String::new() };
            let and = if tuning.workers && tuning.prefetch { ", " } else { "" };
            writeln!(f, "tuned      {workers}{and}{prefetch}; changed {} times: {}", tuning.changes, tuning.why)?;
        }
        writeln!(
            f,
            "{:<10} {:>7} {:>6} {:>7} {:>10} {:>9} {:>9} {:>13}",
            "stage", "threads", "busy", "on core", "samples", "p50", "p99", "could do/s"
        )?;
        for stage in &self.stages {
            let core =
                stage.cpu_seconds.map_or("-".to_owned(), |cpu| Percent(share(cpu, stage.busy_seconds)).to_string());
            writeln!(
                f,
                "{:<10} {:>7} {:>6} {core:>7} {:>10} {:>9} {:>9} {:>13.0}",
                stage.name,
                stage.threads,
                Percent(stage.utilisation()).to_string(),
                stage.samples,
                Seconds(stage.times.p50_seconds).to_string(),
                Seconds(stage.times.p99_seconds).to_string(),
                stage.samples_per_second
            )?;
        }
        let read = self.stages.iter().fold((0, 0), |sum, stage| (sum.0 + stage.bytes_read, sum.1 + stage.requests));
        if let (bytes, requests @ 1..) = read {
            let rate = share(bytes as f64, trainer.seconds()) / 1e6;
            writeln!(f, "read       {:.1} MB in {requests} requests, {rate:.1} MB/s", bytes as f64 / 1e6)?;
        }
        if let Some(upload) = &self.upload {
            let rate = share(upload.bytes as f64, trainer.seconds()) / 1e6;
            writeln!(
                f,
                "upload     {} batches, {rate:.0} MB/s; waited {} for the loader, {} for copies, {} for the trainer",
                upload.batches,
                Seconds(upload.load_wait_seconds),
                Seconds(upload.copy_wait_seconds),
                Seconds(upload.slot_wait_seconds)
            )?;
        }
        let counted = [
            (self.skipped, "bad records skipped"),
            (self.replaced, "bad records replaced"),
            (self.refilled, "batches filled again"),
            (self.left_behind, "reads given up"),
            (self.damaged, "damaged images"),
            (self.ring.regrown, "slots grown"),
            (self.ring.spilled, "batches spilled"),
            (self.detached, "batches copied out"),
            (self.moved_rows, "rows moved"),
        ];
        for (count, what) in counted.into_iter().filter(|(count, _)| *count > 0) {
            writeln!(f, "{count} {what}")?;
        }
        if let Some(slow) = self.slowest.first() {
            writeln!(f, "slowest    {} for {}", Seconds(slow.seconds()), slow.name)?;
        }
        Ok(())
    }
}

/// A share, in percent.
pub(super) struct Percent(pub(super) f64);

impl fmt::Display for Percent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let percent = 100.0 * self.0;
        if percent > 0.0 && percent < 1.0 { write!(f, "{percent:.1} %") } else { write!(f, "{percent:.0} %") }
    }
}

/// A time, in the unit that suits it.
pub(super) struct Seconds(pub(super) f64);

impl fmt::Display for Seconds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            s if s >= 100.0 => write!(f, "{s:.0} s"),
            s if s >= 1.0 => write!(f, "{s:.2} s"),
            s if s >= 1e-3 => write!(f, "{:.1} ms", 1e3 * s),
            s => write!(f, "{:.1} us", 1e6 * s),
        }
    }
}
