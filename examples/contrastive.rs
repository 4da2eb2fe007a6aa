//! Two views of one picture, and a loss by which they find each other: `cargo run --example contrastive`.
//!
//! What is learnt is how much each part of a picture counts (InfoNCE, van den Oord and others, 2018); a network takes
//! its place.

use ringfeed::field::Image;
use ringfeed::images::AugmentRecipe;
use ringfeed::{DataSet, Loader, Result};

const SIDE: usize = 8;
const PARTS: usize = 3 * SIDE * SIDE;

fn main() -> Result<()> {
    let (first, last) = train("fixtures/photos", 20)?;
    println!("loss: {first:.3} in the first epoch, {last:.3} in the last");
    Ok(())
}

/// The mean loss of the first and the last epoch.
fn train(photos: &str, epochs: u64) -> Result<(f32, f32)> {
    let view = || Image::rgb(SIDE as u32, SIDE as u32).augment(AugmentRecipe::Simclr).from("image");
    // Each view draws by a key of its own, of the same sample.
    let mut pairs =
        Loader::open(photos)?.field("view1", view()).field("view2", view()).batch_size(6).shuffle(42).build()?;
    let (mut weights, mut losses) = (vec![1.0; PARTS], Vec::new());
    for epoch in pairs.epochs(epochs) {
        let mut sum = 0.0;
        for batch in epoch? {
            let batch = batch?;
            sum += step(&mut weights, &embedded(&batch, "view1")?, &embedded(&batch, "view2")?);
        }
        losses.push(sum);
    }
    Ok((losses.first().copied().unwrap_or(0.0), losses.last().copied().unwrap_or(0.0)))
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
        let (first, last) = train("fixtures/photos", 8)?;
        assert!(last < first && last < 6f32.ln(), "from {first} to {last}");
        Ok(())
    }
}
