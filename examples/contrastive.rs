//! Two views of one picture, and a loss by which they find each other: `cargo run -p examples --bin contrastive`.
//!
//! What is learnt is how much each part of a picture counts (InfoNCE, van den Oord and others, 2018); a network takes
//! its place.

use ringfeed::field::Image;
use ringfeed::images::AugmentRecipe;
use ringfeed::{DataSet, Loader, Result};

const SIDE: usize = 8;
const PARTS: usize = 3 * SIDE * SIDE;

fn main() -> Result<()> {
    let (untrained, trained) = train(concat!(env!("CARGO_MANIFEST_DIR"), "/../fixtures/photos"), 40)?;
    println!("loss in the last ten epochs: {trained:.3}, and {untrained:.3} if all parts still counted the same");
    Ok(())
}

/// The mean loss of the last ten epochs, if all parts count the same, and as they had learnt to count. (How alike the
/// views of an epoch are differs more than what is learnt in between.)
fn train(photos: &str, epochs: u64) -> Result<(f32, f32)> {
    let view = || Image::rgb(SIDE as u32, SIDE as u32).augment(AugmentRecipe::Simclr).from("image");
    // Each view draws by a key of its own, of the same sample.
    let mut pairs =
        Loader::open(photos)?.field("view1", view()).field("view2", view()).batch_size(6).shuffle(42).build()?;
    let (mut weights, mut losses) = (vec![1.0; PARTS], Vec::new());
    for epoch in pairs.epochs(epochs) {
        for batch in epoch? {
            let batch = batch?;
            let (ones, others) = (embedded(&batch, "view1")?, embedded(&batch, "view2")?);
            let untrained = step(&mut [1.0; PARTS], &ones, &others);
            losses.push((untrained, step(&mut weights, &ones, &others)));
        }
    }
    let last = &losses[losses.len().saturating_sub(10)..];
    let mean = |of: fn(&(f32, f32)) -> f32| last.iter().map(of).sum::<f32>() / last.len() as f32;
    Ok((mean(|(untrained, _)| *untrained), mean(|(_, trained)| *trained)))
}

/// Each picture of a view with mean 0 and length 1.
fn embedded(batch: &DataSet, view: &str) -> Result<Vec<Vec<f32>>> {
    let embed = |pixels: &[f32]| {
        let mean = pixels.iter().sum::<f32>() / PARTS as f32;
        let length = pixels.iter().map(|x| (x - mean).powi(2)).sum::<f32>().sqrt().max(1e-6);
        pixels.iter().map(|x| (x - mean) / length).collect()
    };
    Ok(batch.tensor(view)?.as_slice::<f32>()?.chunks(PARTS).map(embed).collect())
}

/// One step down the gradient; gives the loss before it.
fn step(weights: &mut [f32], ones: &[Vec<f32>], others: &[Vec<f32>]) -> f32 {
    let (mut loss, mut gradient) = (0.0, vec![0.0; weights.len()]);
    for (nth, one) in ones.iter().enumerate() {
        let alike =
            |other: &Vec<f32>| weights.iter().zip(one).zip(other).map(|((w, x), y)| 5.0 * w * x * y).sum::<f32>();
        let powers: Vec<f32> = others.iter().map(|other| alike(other).exp()).collect();
        let total: f32 = powers.iter().sum();
        loss -= (powers[nth] / total).ln() / ones.len() as f32;
        for (at, (other, power)) in others.iter().zip(&powers).enumerate() {
            let error = power / total - f32::from(u8::from(at == nth));
            gradient.iter_mut().zip(one).zip(other).for_each(|((gradient, x), y)| *gradient += error * x * y);
        }
    }
    weights.iter_mut().zip(gradient).for_each(|(weight, gradient)| *weight -= 5.0 * gradient);
    loss
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn views_of_one_picture_find_each_other() -> Result<()> {
        let (untrained, trained) = train(concat!(env!("CARGO_MANIFEST_DIR"), "/../fixtures/photos"), 40)?;
        assert!(trained < untrained && trained < 6f32.ln(), "{trained} instead of {untrained}");
        Ok(())
    }
}
