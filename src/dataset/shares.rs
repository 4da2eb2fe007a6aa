//! The common part of splits and folds.

/// Makes the keys of splits and folds different, so that folds of a part of a split are balanced.
pub(super) const SPLIT: u64 = 0x7370_6c69_7421_7370;
pub(super) const FOLDS: u64 = 0x666f_6c64_7321_666f;

/// How much the sum of shares may differ from 1.
pub(super) const SLACK: f64 = 1e-9;

pub(super) fn shares_fault(shares: &[f64]) -> Option<String> {
    let wrong = shares.iter().find(|share| !(0.0..=1.0).contains(*share));
    let sum: f64 = shares.iter().sum();
    match wrong {
        Some(share) => Some(format!("a share of {share}; it is between 0 and 1")),
        None if sum > 1.0 + SLACK => Some(format!("shares that add up to {sum}; they are at most 1 together")),
        None => None,
    }
}

pub(super) fn fold_fault(fold: u32, count: u32) -> Option<String> {
    (count < 2 || fold >= count).then(|| format!("fold {fold} of {count}; there are two at least, counted from 0"))
}
