//! Evaluation with no memory of its own: two metrics over a test set, in a scope of the workspace.
//!
//! `cargo run --example evaluate` classifies irises by the nearest mean of their species.

use ringfeed::{DataSet, Loader, Part, Split};

const CLASSES: usize = 3;
const COLUMNS: usize = 4;

fn main() -> ringfeed::Result<()> {
    let irises = || Loader::csv("fixtures/iris-species.csv").labels(["species"]).batch_size(16);
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
    }
    println!("accuracy: {:.1} % of {}", 100.0 * accuracy.right as f64 / accuracy.seen as f64, accuracy.seen);
    println!("species by guess: {:?}", confusion.0);
    println!("scope: {:?}", workspace.scopes().stats());
    Ok(())
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
