//! Evaluation with no memory of its own: two metrics over a test set, in a scope of the workspace.
//!
//! `cargo run -p examples --bin evaluate` classifies irises by the nearest mean of their species.

use ringfeed::order::{Part, Split};
use ringfeed::{DataSet, Loader};

const CLASSES: usize = 3;
const COLUMNS: usize = 4;

fn main() -> ringfeed::Result<()> {
    let (accuracy, confusion) = evaluate(|| ())?;
    println!("accuracy: {:.1} % of {}", 100.0 * accuracy.right as f64 / accuracy.seen as f64, accuracy.seen);
    println!("species by guess: {:?}", confusion.0);
    Ok(())
}

/// Says `after_step` behind each batch of the test part, whose metrics are updated then.
fn evaluate(mut after_step: impl FnMut()) -> ringfeed::Result<(Accuracy, Confusion)> {
    let irises = || {
        Loader::csv(concat!(env!("CARGO_MANIFEST_DIR"), "/../fixtures/iris-species.csv"))
            .labels(["species"])
            .batch_size(16)
    };
    let split = |part| Split { train: 0.7, validation: 0.0, test: 0.3, seed: 1, part };
    let workspace = irises().workspace()?;
    let mut train = irises().split(split(Part::Train)).build_in(&workspace)?;
    let mut test = irises().split(split(Part::Test)).build_in(&workspace)?;

    let mut means = Means::default();
    for batch in train.epoch()? {
        means.observe(&batch?)?;
    }

    let (mut accuracy, mut confusion) = (Accuracy::default(), Confusion::default());
    let mut scope = workspace.enter();
    for batch in test.epoch()? {
        let batch = batch?;
        let scores = scope.zeros::<f32>([batch.len(), CLASSES]);
        means.score(&batch, scores)?;
        accuracy.update(scores, &batch)?;
        confusion.update(scores, &batch)?;
        scope.next(); // `scores` used below this line would be a compile error
        after_step();
    }
    Ok((accuracy, confusion))
}

/// The model: sums and counts of each species.
#[derive(Default)]
struct Means {
    sums: [[f32; COLUMNS]; CLASSES],
    counts: [f32; CLASSES],
}

impl Means {
    fn observe(&mut self, batch: &DataSet) -> ringfeed::Result<()> {
        let flowers = batch.features()?.as_slice::<f32>()?.chunks(COLUMNS);
        for (flower, species) in flowers.zip(batch.labels()?.as_slice::<i64>()?) {
            let species = *species as usize;
            self.counts[species] += 1.0;
            self.sums[species].iter_mut().zip(flower).for_each(|(sum, x)| *sum += x);
        }
        Ok(())
    }

    /// Nearer is higher.
    fn score(&self, batch: &DataSet, scores: &mut [f32]) -> ringfeed::Result<()> {
        let flowers = batch.features()?.as_slice::<f32>()?.chunks(COLUMNS);
        for (flower, scores) in flowers.zip(scores.chunks_mut(CLASSES)) {
            for ((score, sums), count) in scores.iter_mut().zip(&self.sums).zip(self.counts) {
                *score = -flower.iter().zip(sums).map(|(x, sum)| (x - sum / count).powi(2)).sum::<f32>();
            }
        }
        Ok(())
    }
}

/// Each flower's species and what it is taken for.
fn guesses<'a>(scores: &'a [f32], batch: &'a DataSet) -> ringfeed::Result<impl Iterator<Item = (usize, usize)> + 'a> {
    let best = |scores: &[f32]| (0..CLASSES).max_by(|a, b| scores[*a].total_cmp(&scores[*b])).unwrap_or(0);
    let species = batch.labels()?.as_slice::<i64>()?;
    Ok(scores.chunks(CLASSES).zip(species).map(move |(scores, species)| (*species as usize, best(scores))))
}

#[derive(Default)]
struct Accuracy {
    right: usize,
    seen: usize,
}

impl Accuracy {
    fn update(&mut self, scores: &[f32], batch: &DataSet) -> ringfeed::Result<()> {
        self.right += guesses(scores, batch)?.filter(|(species, guess)| species == guess).count();
        self.seen += batch.len();
        Ok(())
    }
}

#[derive(Default)]
struct Confusion([[usize; CLASSES]; CLASSES]);

impl Confusion {
    fn update(&mut self, scores: &[f32], batch: &DataSet) -> ringfeed::Result<()> {
        guesses(scores, batch)?.for_each(|(species, guess)| self.0[species][guess] += 1);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::alloc::{GlobalAlloc, Layout, System};
    use std::cell::Cell;

    use super::*;

    thread_local! {
        static TAKEN: Cell<u64> = const { Cell::new(0) };
    }

    /// Counts what the thread takes that runs the loop.
    struct Counting;

    // SAFETY: every call goes to the system's allocator as it came.
    unsafe impl GlobalAlloc for Counting {
        unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
            TAKEN.with(|taken| taken.set(taken.get() + 1));
            // SAFETY: the caller keeps the contract.
            unsafe { System.alloc(layout) }
        }

        unsafe fn dealloc(&self, start: *mut u8, layout: Layout) {
            // SAFETY: the caller keeps the contract.
            unsafe { System.dealloc(start, layout) }
        }
    }

    #[global_allocator]
    static ALLOCATOR: Counting = Counting;

    #[test]
    fn two_metrics_are_updated_without_an_allocation() -> ringfeed::Result<()> {
        let mut taken = Vec::with_capacity(100);
        let (accuracy, Confusion(confusion)) = evaluate(|| taken.push(TAKEN.with(Cell::get)))?;
        assert!(accuracy.seen > 30 && accuracy.right * 10 > accuracy.seen * 8);
        assert_eq!(confusion.iter().flatten().sum::<usize>(), accuracy.seen);
        // The first batch teaches the scope its size.
        assert!(taken.len() > 2 && taken[1..].iter().all(|count| *count == taken[1]), "{taken:?}");
        Ok(())
    }
}
