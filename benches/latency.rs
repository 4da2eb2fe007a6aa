//! How much of a slow storage's speed arrives, against threads that do nothing but read it.

mod common;

use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::{self, sleep};
use std::time::{Duration, Instant};

use common::{Case, Options, Table};
use ringfeed::arrays::{RawOptions, StoredType};
use ringfeed::field::Text;
use ringfeed::formats::{Raw, TextFiles};
use ringfeed::memory::MemoryBudget;
use ringfeed::settings::SourceConfig;
use ringfeed::storage::{Files, Storage};
use ringfeed::{DataSetIterator, Loader, LoaderConfig, Result};

const ABOUT: &str = "\
Epochs of 4,096 records of 16 KiB, at random out of a million, from a storage whose every read takes 20 ms on a timer and \
of which so many may be under way; then of 4,096 files of 16 KiB, which are read as a whole. 'bare' are as many threads that read \
the same records and do nothing else; two workers, batches of 64, two batches ahead in the ring. It does not show a link that is full, nor what decoding costs.";

const RECORD: usize = 16 << 10;
const RECORDS: u64 = 1 << 20;
const READS: u64 = 4096;
const BATCH: usize = 64;
const LATENCY: Duration = Duration::from_millis(20);

struct Far {
    in_flight: usize,
    reads: AtomicU64,
}

impl Storage for Far {
    fn file_len(&self, path: &Path) -> Result<u64> {
        Ok(if path.extension().is_some_and(|end| end == "txt") { 1 } else { RECORDS } * RECORD as u64)
    }

    fn read(&self, path: &Path, range: Range<u64>, into: &mut Vec<u8>) -> Result<u64> {
        let len = self.file_len(path)?;
        sleep(LATENCY);
        self.reads.fetch_add(1, Ordering::Relaxed);
        into.clear();
        into.resize((range.end.min(len) - range.start) as usize, b'a');
        Ok(len)
    }

    fn requests_in_flight(&self) -> usize {
        self.in_flight
    }
}

fn main() -> Result<()> {
    let Some(options) = Options::from_args(3) else { return Ok(()) };
    let names = &["in flight", "who reads"];
    let mut table = Table::new(ABOUT, names, &[("epoch ms", 0), ("reads", 0), ("share of bare", 3)]);
    let mut cases = Vec::new();
    for in_flight in [8, 64, 256] {
        let ideal = READS.div_ceil(in_flight as u64) as f64 * LATENCY.as_secs_f64() * 1e3;
        cases.push(Case::new(&[&in_flight, &"bare"], move || bare(in_flight)));
        let trained = Duration::from_secs_f64(ideal / 1e3 * BATCH as f64 / READS as f64);
        for (who, step, is_whole) in [
            ("ringfeed", Duration::ZERO, false),
            ("ringfeed, with a trainer that takes as long", trained, false),
            ("ringfeed, whole files", Duration::ZERO, true),
        ] {
            let far = Arc::new(Far { in_flight, reads: AtomicU64::new(0) });
            let files = Files::of(far.clone(), &MemoryBudget::unlimited());
            let records = RawOptions::features(StoredType::U8, &[RECORD]);
            let mut config = LoaderConfig::new(match is_whole {
                false => SourceConfig::new(Raw, "far.raw", records),
                true => SourceConfig::new(TextFiles, "far/{0..4095}.txt", ()).field("text", Text::new(RECORD)),
            });
            // What is read before an epoch begins would flatter it.
            config.across_epochs = false;
            let loader = Loader::from(config).files(files).shuffle(1).samples_per_epoch(READS).batch_size(BATCH);
            let mut batches = loader.workers(2).prefetch(2).build()?;
            cases.push(Case::new(&[&in_flight, &who], move || {
                far.reads.store(0, Ordering::Relaxed);
                let begin = Instant::now();
                for batch in batches.epoch().expect("the source can be repeated") {
                    drop(batch.expect("no record is bad"));
                    sleep(step);
                }
                let took = begin.elapsed().as_secs_f64() * 1e3;
                vec![took, far.reads.load(Ordering::Relaxed) as f64, bare(in_flight)[0] / took]
            }));
        }
    }
    table.measure(options.rounds, cases);
    table.print(&options);
    Ok(())
}

/// As many threads as reads may be under way share the reads among them.
fn bare(in_flight: usize) -> Vec<f64> {
    let far = Far { in_flight, reads: AtomicU64::new(0) };
    let next = AtomicU64::new(0);
    let begin = Instant::now();
    thread::scope(|scope| {
        for _ in 0..in_flight {
            scope.spawn(|| {
                let mut bytes = Vec::new();
                loop {
                    let nth = next.fetch_add(1, Ordering::Relaxed);
                    if nth >= READS {
                        return;
                    }
                    let record = nth * 251 % RECORDS * RECORD as u64;
                    far.read(Path::new("far.raw"), record..record + RECORD as u64, &mut bytes).expect("it never fails");
                }
            });
        }
    });
    let took = begin.elapsed().as_secs_f64() * 1e3;
    vec![took, far.reads.load(Ordering::Relaxed) as f64, 1.0]
}
