//! Policies: operations of random strength, as in torchvision's `_auto_augment.py`.

use super::acts::Act::{
    Autocontrast, Brightness, Contrast, Equalise, Identity, Invert, Posterise, Rotate, Saturation, Sharpness, ShearX,
    ShearY, Solarise, TranslateX, TranslateY,
};
use super::acts::{Act, CIFAR10, IMAGENET, SVHN};
use super::augment::LearnedPolicy;
use super::augment::check::MAX_WIDTH;
use super::change::{Change, Mixture, Pixels};
use super::warp::Warp;
use crate::random::RandomKey;

/// The operations that a policy chooses from, and their strongest forms.
#[derive(Debug)]
pub(super) struct Space {
    acts: &'static [Act],
    /// Pixels along x per pixel along y.
    shear: f32,
    translate: Distance,
    /// Degrees.
    rotate: f32,
    /// For brightness, saturation, contrast and sharpness: how much the factor may differ from 1.
    enhance: f32,
    /// Number of bits that are kept at magnitude 0, and the largest number by which it decreases.
    posterise: (f32, f32),
}

#[derive(Debug)]
enum Distance {
    Pixels(f64),
    /// As a share of the side.
    Share(f64),
}

pub(super) const RAND: Space = Space {
    acts: &[
        Identity,
        ShearX,
        ShearY,
        TranslateX,
        TranslateY,
        Rotate,
        Brightness,
        Saturation,
        Contrast,
        Sharpness,
        Posterise,
        Solarise,
        Autocontrast,
        Equalise,
    ],
    shear: 0.3,
    translate: Distance::Share(150.0 / 331.0),
    rotate: 30.0,
    enhance: 0.9,
    posterise: (8.0, 4.0),
};

pub(super) const TRIVIAL: Space = Space {
    shear: 0.99,
    translate: Distance::Pixels(32.0),
    rotate: 135.0,
    enhance: 0.99,
    posterise: (8.0, 6.0),
    ..RAND
};

pub(super) const MIX: Space = Space {
    acts: &[
        ShearX,
        ShearY,
        TranslateX,
        TranslateY,
        Rotate,
        Posterise,
        Solarise,
        Autocontrast,
        Equalise,
        Brightness,
        Saturation,
        Contrast,
        Sharpness,
    ],
    translate: Distance::Share(1.0 / 3.0),
    posterise: (4.0, 4.0),
    ..RAND
};

const MIX_WITHOUT_COLOURS: Space = Space { acts: MIX.acts.split_at(9).0, ..MIX };

/// Magnitudes of AutoAugment and AugMix.
const TEN: u32 = 10;

/// Number `nth` of `bins` from `start` to `end`, rounded as `torch.linspace` does.
fn linspace(start: f32, end: f32, nth: u32, bins: u32) -> f64 {
    let last = bins - 1;
    let step = f64::from((end - start) / last as f32);
    let number = match nth < bins / 2 {
        true => f64::from(start) + step * f64::from(nth),
        false => f64::from(end) - step * f64::from(last - nth),
    };
    f64::from(number as f32)
}

/// One of several; all are equally likely.
fn pick<T: Copy>(from: &[T], key: RandomKey, counter: u64) -> Option<T> {
    from.get(key.below(counter, from.len() as u64) as usize).copied()
}

impl Space {
    /// The change of `act` to a picture of this width and height at magnitude `nth` of `bins`, in the opposite
    /// direction if `negative`.
    pub(super) fn change(
        &self,
        act: Act,
        (nth, bins): (u32, u32),
        negative: bool,
        (width, height): (u32, u32),
        Pixels { interpolation, fill }: Pixels,
    ) -> Option<Change> {
        let linear = |most: f32| {
            let magnitude = linspace(0.0, most, nth, bins);
            if negative { -magnitude } else { magnitude }
        };
        let moved = |side: u32| {
            let most = match self.translate {
                Distance::Pixels(most) => most,
                Distance::Share(share) => share * f64::from(side),
            };
            linear(most as f32).trunc()
        };
        let degrees = || linear(self.shear).atan().to_degrees();
        let factor = || (1.0 + linear(self.enhance)) as f32;
        let middle = (f64::from(width) * 0.5, f64::from(height) * 0.5);
        let warp = |inverse: [f64; 6]| Change::Warp(Warp { inverse, interpolation, fill });
        Some(match act {
            Identity => return None,
            ShearX => warp(Warp::inverse_of((0.0, 0.0), 0.0, (0.0, 0.0), 1.0, (degrees(), 0.0))),
            ShearY => warp(Warp::inverse_of((0.0, 0.0), 0.0, (0.0, 0.0), 1.0, (0.0, degrees()))),
            TranslateX => warp(Warp::inverse_of(middle, 0.0, (moved(width), 0.0), 1.0, (0.0, 0.0))),
            TranslateY => warp(Warp::inverse_of(middle, 0.0, (0.0, moved(height)), 1.0, (0.0, 0.0))),
            Rotate => warp(Warp::inverse_of_turn(middle, linear(self.rotate))),
            Brightness => Change::Brightness(factor()),
            Saturation => Change::Saturation(factor()),
            Contrast => Change::Contrast(factor()),
            Sharpness => Change::Sharpness(factor()),
            Posterise => {
                let (bits, fewer) = self.posterise;
                Change::Posterise((bits - nth as f32 / ((bins - 1) as f32 / fewer)).round_ties_even() as u8)
            }
            Solarise => Change::Solarise((255.0 * linspace(1.0, 0.0, nth, bins)).ceil() as u8),
            Autocontrast => Change::Autocontrast,
            Equalise => Change::Equalise,
            Invert => Change::Invert,
        })
    }
}

/// Draws `count` operations of one magnitude: counter `2n` gives the operation, `2n + 1` the direction.
pub(super) fn rand_augment(
    (count, magnitude, bins): (u32, u32, u32),
    size: (u32, u32),
    pixels: Pixels,
    key: RandomKey,
    visit: &mut dyn FnMut(Change),
) {
    for nth in 0..u64::from(count) {
        let Some(act) = pick(RAND.acts, key, 2 * nth) else { continue };
        let negative = key.unit(2 * nth + 1) < 0.5;
        RAND.change(act, (magnitude, bins), negative, size, pixels).into_iter().for_each(&mut *visit);
    }
}

/// Draws one operation (counter 0), its magnitude (1) and direction (2).
pub(super) fn trivial_augment(
    bins: u32,
    size: (u32, u32),
    pixels: Pixels,
    key: RandomKey,
    visit: &mut dyn FnMut(Change),
) {
    let Some(act) = pick(TRIVIAL.acts, key, 0) else { return };
    let magnitude = key.below(1, bins.into()) as u32;
    TRIVIAL.change(act, (magnitude, bins), key.unit(2) < 0.5, size, pixels).into_iter().for_each(visit);
}

/// Draws one pair (counter 0), and for each of the two operations whether it happens (1, 3) and in which direction (2,
/// 4).
pub(super) fn auto_augment(
    policy: LearnedPolicy,
    size: (u32, u32),
    pixels: Pixels,
    key: RandomKey,
    visit: &mut dyn FnMut(Change),
) {
    let pairs = match policy {
        LearnedPolicy::Imagenet => &IMAGENET,
        LearnedPolicy::Cifar10 => &CIFAR10,
        LearnedPolicy::Svhn => &SVHN,
    };
    let pair = pick(pairs, key, 0).into_iter().flatten();
    for ((act, probability, magnitude), counter) in pair.zip([1, 3]) {
        if key.unit(counter) < probability {
            let negative = key.unit(counter + 1) < 0.5;
            RAND.change(act, (magnitude, TEN), negative, size, pixels).into_iter().for_each(&mut *visit);
        }
    }
}

/// Makes the keys of weights different from those of chains.
const WEIGHTS: u64 = 1 << 32;

impl Mixture {
    /// The weight of the picture itself, and that of each other picture.
    pub(super) fn weights(&self) -> (f32, [f32; MAX_WIDTH as usize]) {
        let share = |draws: &mut [f64]| {
            let sum: f64 = draws.iter().sum();
            draws.iter_mut().for_each(|draw| *draw /= sum);
            // With tiny parameters, all weights may round to 0: then the first one is 1.
            if sum <= 0.0 {
                draws.fill(0.0);
                draws[0] = 1.0;
            }
        };
        let draw = |nth: u64| self.key.with(WEIGHTS + nth).gamma(self.alpha);
        let mut both = [draw(0), draw(1)];
        share(&mut both);
        let mut others = [0.0; MAX_WIDTH as usize];
        let drawn = &mut others[..self.width.clamp(1, MAX_WIDTH) as usize];
        drawn.iter_mut().zip(2..).for_each(|(weight, nth)| *weight = draw(nth));
        share(drawn);
        (both[0] as f32, others.map(|weight| weight as f32 * both[1] as f32))
    }

    /// Draws the operations of one chain: their number (counter 0), and for each the operation (1, 4, ..), the strength
    /// (2, 5, ..) and the direction (3, 6, ..).
    pub(super) fn chain(&self, chain: usize, size: (u32, u32), visit: &mut dyn FnMut(Change)) {
        let key = self.key.with(chain as u64);
        let depth = self.depth.map_or(1 + key.below(0, 3), u64::from);
        let space = if self.all_operations { &MIX } else { &MIX_WITHOUT_COLOURS };
        for counter in (0..depth).map(|nth| 3 * nth + 1) {
            let Some(act) = pick(space.acts, key, counter) else { continue };
            let magnitude = (key.below(counter + 1, self.severity.into()) as u32).min(TEN - 1);
            let negative = key.unit(counter + 2) < 0.5;
            space.change(act, (magnitude, TEN), negative, size, self.pixels).into_iter().for_each(&mut *visit);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::super::augment::Interpolation;
    use super::*;

    const PIXELS: Pixels = Pixels { interpolation: Interpolation::Nearest, fill: [0; 3] };

    fn keys(count: u64) -> impl Iterator<Item = RandomKey> {
        (0..count).map(|nth| RandomKey::new(5).with(nth))
    }

    /// How often each change was drawn.
    fn counts(draw: impl Fn(RandomKey, &mut dyn FnMut(Change))) -> BTreeMap<String, u32> {
        let mut counts = BTreeMap::new();
        for key in keys(28_000) {
            draw(key, &mut |change| *counts.entry(format!("{change:?}")).or_insert(0) += 1);
        }
        counts
    }

    #[test]
    fn every_operation_and_direction_is_as_likely_as_it_should() {
        // 14 operations, 4,000 times each in two steps; the standard deviation of a count is 61. Nine have two
        // directions.
        let drawn = counts(|key, visit| rand_augment((2, 9, 31), (64, 48), PIXELS, key, visit));
        assert_eq!(drawn.len(), 9 * 2 + 4);
        for (change, count) in &drawn {
            let once = ["Posterise", "Solarise", "Autocontrast", "Equalise"].iter().any(|one| change.starts_with(one));
            let expected = if once { 4000 } else { 2000 };
            assert!(count.abs_diff(expected) < 300, "{change}: {count} of {expected}");
        }
        // 31 magnitudes, 2,000 times each per operation; posterise has seven levels, of which the first and last are
        // half as wide.
        let drawn = counts(|key, visit| trivial_augment(31, (64, 48), PIXELS, key, visit));
        let bits = |bits: u8| drawn[&format!("{:?}", Change::Posterise(bits))];
        assert!((2..=8).map(bits).sum::<u32>().abs_diff(2000) < 200);
        assert!(bits(5).abs_diff(2000 * 5 / 31) < 80 && bits(8).abs_diff(2000 * 3 / 31) < 60, "{drawn:?}");
        // At magnitude 0 both directions are the same.
        let brightness = drawn.iter().filter(|(change, _)| change.starts_with("Brightness"));
        let brightness: Vec<u32> = brightness.map(|(_, count)| *count).collect();
        assert!(brightness.len() == 61 && brightness.iter().sum::<u32>().abs_diff(2000) < 200, "{brightness:?}");
    }

    #[test]
    fn learned_pairs_happen_as_often_as_their_tables_say() {
        for (policy, table) in
            [(LearnedPolicy::Imagenet, &IMAGENET), (LearnedPolicy::Cifar10, &CIFAR10), (LearnedPolicy::Svhn, &SVHN)]
        {
            let drawn = counts(|key, visit| auto_augment(policy, (64, 48), PIXELS, key, visit));
            for (act, name) in [(Equalise, "Equalise"), (Invert, "Invert"), (Autocontrast, "Autocontrast")] {
                let steps = table.iter().flatten().filter(|(other, ..)| *other == act);
                let expected = 28_000.0 / 25.0 * steps.map(|(_, probability, _)| probability).sum::<f64>();
                let found = f64::from(drawn.get(name).copied().unwrap_or(0));
                assert!(
                    (found - expected).abs() < 5.0 * expected.sqrt() + 1.0,
                    "{policy:?}, {name}: {found} of {expected}"
                );
            }
        }
    }

    #[test]
    fn weights_of_a_mixture_add_up_to_one_and_are_evenly_spread() {
        let (severity, width, alpha) = (3, 3, 1.0);
        let mixture = |key| Mixture { severity, width, depth: None, alpha, all_operations: true, pixels: PIXELS, key };
        let mut own_sum = 0.0;
        let mut depths = [0u32; 4];
        for key in keys(6000) {
            let (own, others) = mixture(key).weights();
            let sum = own + others.iter().sum::<f32>();
            assert!((sum - 1.0).abs() < 1e-5 && others[3..] == [0.0; 13], "{own} {others:?}");
            own_sum += f64::from(own);
            let mut depth = 0;
            mixture(key).chain(1, (64, 48), &mut |_| depth += 1);
            depths[depth] += 1;
        }
        // Evenly distributed between 0 and 1: the standard deviation of the mean is 0.004.
        assert!((own_sum / 6000.0 - 0.5).abs() < 0.02, "{own_sum}");
        assert!(depths[0] == 0 && depths[1..].iter().all(|count| count.abs_diff(2000) < 180), "{depths:?}");
        let tiny = Mixture { alpha: 1e-300, ..mixture(RandomKey::new(1)) };
        assert_eq!(tiny.weights().0, 1.0);
    }
}
