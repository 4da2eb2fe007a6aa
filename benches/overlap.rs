//! Whether prefetch hides the shorter of loading and training behind the longer.

mod common;
#[path = "common/photos.rs"]
mod photos;
#[path = "common/sleeper.rs"]
mod sleeper;

use std::thread::sleep;
use std::time::{Duration, Instant};

use common::{Case, Options, Table};
use ringfeed::images::{ImageFolder, ImageOptions, horizontal_flip, random_resized_crop};
use ringfeed::source::ReaderSource;
use ringfeed::{AsyncDataSetIterator, DataSetIterator, Workspace};
use sleeper::Sleeper;

const ABOUT: &str = "\
An epoch whose loader needs L ms a batch and whose trainer needs T ms, both waiting on timers (10 ms at least) rather \
than working. L and T are measured alone, in the same round. Ideal is the epoch of a loader that is never held up: each \
batch is trained on as soon as it has arrived (at its time in the run without a trainer) and the batch before it is \
done; about the larger of L and T a batch, plus the first batch. The ratio is the epoch's time by the ideal one. With \
two workers each waits 2 L, so that both together need L. It does not show loader and trainer competing for cores, \
caches or memory bandwidth.";

const ABOUT_DECODING: &str = "\
The same with a loader that works: random crops of JPEGs, 64 to a batch, decoded and resized to 224 x 224 by one worker \
and by two, for a trainer that waits as one with a GPU does.";

const BATCHES: usize = 12;
/// Images in a batch.
const IMAGES: usize = 64;
const SHORTER: Duration = Duration::from_millis(10);
/// L by T.
const RATIOS: [f64; 7] = [0.2, 0.5, 0.9, 1.0, 1.1, 2.0, 5.0];

fn main() -> ringfeed::Result<()> {
    let Some(options) = Options::from_args(3) else { return Ok(()) };
    let mut table = Table::new(
        ABOUT,
        &["workers", "L/T"],
        &[("L ms", 2), ("T ms", 2), ("ideal ms", 1), ("epoch ms", 1), ("ratio", 4)],
    );
    let mut cases = Vec::new();
    for workers in [1, 2] {
        for ratio in RATIOS {
            let load = SHORTER.mul_f64(ratio.max(1.0));
            let train = SHORTER.mul_f64((1.0 / ratio).max(1.0));
            let reader = Sleeper::new(BATCHES as u64, move |_| load * workers);
            let workspace = Workspace::builder().workers(workers as usize).across_epochs(false).build()?;
            let mut iterator = AsyncDataSetIterator::new(ReaderSource::new(reader).batch_size(1), &workspace)?;
            iterator.by_ref().for_each(drop);
            cases.push(Case::new(&[&workers, &ratio], move || round(&mut iterator, train)));
        }
    }
    table.measure(options.rounds, cases);
    table.print(&options);

    let folder = tempfile::tempdir().expect("a temporary folder");
    photos::make_folder(folder.path(), (BATCHES * IMAGES) as u64);
    let mut table = Table::new(
        ABOUT_DECODING,
        &["workers", "L/T"],
        &[("L ms", 2), ("T ms", 2), ("ideal ms", 1), ("epoch ms", 1), ("ratio", 4)],
    );
    let mut cases = Vec::new();
    for workers in [1, 2] {
        for ratio in [0.5, 1.0, 2.0] {
            let augment = vec![random_resized_crop(), horizontal_flip()];
            let options = ImageOptions { size: Some((224, 224)), augment, ..ImageOptions::default() };
            let source = ReaderSource::new(ImageFolder::open(folder.path(), &options)?).batch_size(IMAGES);
            let workspace = Workspace::builder().workers(workers).across_epochs(false).build()?;
            let mut iterator = AsyncDataSetIterator::new(source, &workspace)?;
            iterator.by_ref().for_each(drop);
            let (_, loading) = epoch(&mut iterator, || {});
            let train = Duration::from_secs_f64(loading / 1e3 / BATCHES as f64 / ratio);
            cases.push(Case::new(&[&workers, &ratio], move || round(&mut iterator, train)));
        }
    }
    table.measure(options.rounds, cases);
    println!();
    table.print(&options);
    Ok(())
}

/// Loader alone, trainer alone, both.
fn round(iterator: &mut AsyncDataSetIterator, train: Duration) -> Vec<f64> {
    let (arrivals, loading) = epoch(iterator, || {});
    let begin = Instant::now();
    (0..BATCHES).for_each(|_| sleep(train));
    let training = milliseconds(begin) / BATCHES as f64;
    let ideal = arrivals.iter().fold(0.0, |done: f64, arrival| done.max(*arrival) + training);
    let (_, took) = epoch(iterator, || sleep(train));
    vec![loading / BATCHES as f64, training, ideal, took, took / ideal]
}

/// When each batch of a new epoch arrived, and when the last was trained on, in milliseconds.
fn epoch(iterator: &mut AsyncDataSetIterator, train: impl Fn()) -> (Vec<f64>, f64) {
    let begin = Instant::now();
    iterator.reset().expect("sleep can be repeated");
    let mut arrivals = Vec::new();
    for batch in iterator {
        let _batch = batch.expect("sleep has no bad records");
        arrivals.push(milliseconds(begin));
        train();
    }
    assert_eq!(arrivals.len(), BATCHES);
    (arrivals, milliseconds(begin))
}

fn milliseconds(since: Instant) -> f64 {
    since.elapsed().as_secs_f64() * 1e3
}
