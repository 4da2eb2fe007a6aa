use std::fmt;

use super::numbers::share;
use super::snapshot::Stats;
use super::times::Times;

/// A number of things with this name: `1 batch`, `2,000 batches`.
pub(super) struct Things<N>(pub(super) N, pub(super) &'static str);

impl<N: fmt::Display + PartialEq + From<u8>> fmt::Display for Things<N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let plural = match &self.0 {
            one if *one == N::from(1) => "",
            _ if self.1.ends_with("ch") => "es",
            _ => "s",
        };
        let count = self.0.to_string();
        grouped(&count, f)?;
        write!(f, " {}{plural}", self.1)
    }
}

/// For people: the trainer's waits, the batches that were ready for it, and the work of each stage.
impl fmt::Display for Stats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { trainer, queue, workers, .. } = self;
        let rate = share(self.samples as f64, trainer.seconds());
        let (batches, seconds) = (Things(trainer.batches, "batch"), Seconds(trainer.seconds()));
        let rate = Grouped(rate.round() as u64);
        writeln!(f, "trainer    {batches} in {seconds}, {rate} samples/s")?;
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
                "ready      {} of the batches when they were asked for, the next one {} of the time; {ready:.1} ready \
                 and {filling:.1} being filled on average, of {} ahead",
                Percent(trainer.readiness()),
                Percent(queue.readiness()),
                queue.prefetch
            )?;
        }
        if workers.threads > 0 {
            let cores = Things(self.cores, "core");
            write!(f, "workers    {} on {cores}, {} busy", workers.threads, Percent(workers.utilisation()))?;
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
            let workers = tuning.workers.then(|| Things(workers.threads, "worker").to_string());
            let prefetch = tuning.prefetch.then(|| format!("{} ahead", Things(queue.prefetch, "batch")));
            let found: Vec<String> = workers.into_iter().chain(prefetch).collect();
            let (found, changes) = (found.join(", "), Things(tuning.changes, "time"));
            writeln!(f, "tuned      {found}; changed {changes}: {}", tuning.why)?;
        }
        writeln!(
            f,
            "{:<10} {:>7} {:>5} {:>7} {:>9} {:>8} {:>8} {:>8} {:>10}",
            "stage", "threads", "busy", "on core", "samples", "p50", "p90", "p99", "could do/s"
        )?;
        for stage in &self.stages {
            let core =
                stage.cpu_seconds.map_or("-".to_owned(), |cpu| Percent(share(cpu, stage.busy_seconds)).to_string());
            writeln!(
                f,
                "{:<10} {:>7} {:>5} {core:>7} {:>9} {} {:>10.0}",
                stage.name,
                stage.threads,
                Percent(stage.utilisation()).to_string(),
                stage.samples,
                Quantiles(&stage.times),
                stage.samples_per_second
            )?;
        }
        let per_batch = self.per_batch();
        if !per_batch.is_empty() {
            writeln!(f, "{:<32} {:>9} {:>8} {:>8} {:>8}", "per batch", "batches", "p50", "p90", "p99")?;
        }
        for (what, times) in per_batch {
            writeln!(f, "{what:<32} {:>9} {}", times.count, Quantiles(times))?;
        }
        let read = self.stages.iter().fold((0, 0), |sum, stage| (sum.0 + stage.bytes_read, sum.1 + stage.requests));
        if let (bytes, requests @ 1..) = read {
            let rate = share(bytes as f64, trainer.seconds()) / 1e6;
            let (megabytes, requests) = (bytes as f64 / 1e6, Things(requests, "request"));
            writeln!(f, "read       {megabytes:.1} MB in {requests}, {rate:.1} MB/s")?;
        }
        if let Some(upload) = &self.upload {
            let rate = share(upload.bytes as f64, trainer.seconds()) / 1e6;
            writeln!(
                f,
                "upload     {}, {rate:.0} MB/s; waited {} for the loader, {} for copies, {} for the trainer",
                Things(upload.batches, "batch"),
                Seconds(upload.load_wait_seconds),
                Seconds(upload.copy_wait_seconds),
                Seconds(upload.slot_wait_seconds)
            )?;
        }
        let counted = [
            (self.skipped, "bad record", "skipped"),
            (self.replaced, "bad record", "replaced"),
            (self.refilled, "batch", "filled again"),
            (self.left_behind, "read", "given up"),
            (self.damaged, "image", "damaged"),
            (self.ring.regrown, "slot", "grown"),
            (self.ring.spilled, "batch", "spilled"),
            (self.scope_spilled, "array", "spilled"),
            (self.detached, "batch", "copied out"),
            (self.moved_rows, "row", "moved"),
        ];
        for (count, name, what) in counted.into_iter().filter(|(count, ..)| *count > 0) {
            writeln!(f, "{} {what}", Things(count, name))?;
        }
        if let Some(slow) = self.slowest.first() {
            writeln!(f, "slowest    {} for {}", Seconds(slow.seconds()), slow.name)?;
        }
        Ok(())
    }
}

/// The 50th, 90th and 99th percentile, in three columns.
struct Quantiles<'a>(&'a Times);

impl fmt::Display for Quantiles<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [p50, p90, p99] = self.0.quantiles().map(|time| Seconds(time).to_string());
        write!(f, "{p50:>8} {p90:>8} {p99:>8}")
    }
}

/// A number in groups of three digits: `1,234,567`.
struct Grouped(u64);

impl fmt::Display for Grouped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        grouped(&self.0.to_string(), f)
    }
}

/// Writes the digits of a whole number in groups of three.
fn grouped(digits: &str, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    for (index, digit) in digits.char_indices() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            f.write_str(",")?;
        }
        write!(f, "{digit}")?;
    }
    Ok(())
}

/// A share, in percent.
pub(crate) struct Percent(pub(crate) f64);

impl fmt::Display for Percent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let percent = 100.0 * self.0;
        if percent > 0.0 && percent < 1.0 { write!(f, "{percent:.1} %") } else { write!(f, "{percent:.0} %") }
    }
}

/// A time, in the unit that suits it.
pub(crate) struct Seconds(pub(crate) f64);

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_numbers_are_grouped() {
        let numbers = [0, 9, 10, 999, 1_000, 12_345, 999_999, 1_000_000, u64::MAX];
        let shown = numbers.map(|number| Grouped(number).to_string());
        let expected = "0 9 10 999 1,000 12,345 999,999 1,000,000 18,446,744,073,709,551,615";
        assert_eq!(shown.join(" "), expected);
    }

    #[test]
    fn one_thing_is_no_plural() {
        let mut stats = Stats { cores: 1, skipped: 1, damaged: 2, ..Stats::default() };
        (stats.trainer.batches, stats.workers.threads) = (1, 1);
        let shown = stats.to_string();
        for part in ["trainer    1 batch in", "workers    1 on 1 core,", "1 bad record skipped", "2 images damaged"] {
            assert!(shown.contains(part), "{part}:\n{shown}");
        }
    }
}
