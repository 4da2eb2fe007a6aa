#[cfg(feature = "formats")]
use crate::decode::{ImageAugment, list_faults};
use crate::dtype::DType;
use crate::normalise::NormaliserConfig;
use crate::tree::under;

use super::Operation;

/// Most classes of a one-hot row.
const MOST_CLASSES: usize = 1 << 24;

impl Operation {
    /// Everything that is wrong with it, each with its key; empty if nothing is.
    pub fn faults(&self) -> Vec<String> {
        let mut faults = Vec::new();
        let mut check = |is_right: bool, fault: String| {
            if !is_right {
                faults.push(fault);
            }
        };
        if let Self::Noise { probability, .. }
        | Self::Masking { probability, .. }
        | Self::Scale { probability, .. }
        | Self::Mixup { probability, .. }
        | Self::Cutmix { probability, .. } = self
        {
            check((0.0..=1.0).contains(probability), format!("probability: {probability}; it is between 0 and 1"));
        }
        match self {
            Self::Noise { deviation, .. } => {
                check(deviation.is_finite() && *deviation >= 0.0, format!("deviation: {deviation}; it is 0 or more"))
            }
            Self::Masking { value, .. } => check(value.is_finite(), format!("value: {value} is not a finite number")),
            Self::Scale { low, high, .. } => check(
                low.is_finite() && high.is_finite() && low <= high,
                format!("low: {low}, where high is {high}; low is not above high"),
            ),
            Self::Clip { low, high, .. } => {
                let (least, most) = (low.unwrap_or(f64::NEG_INFINITY), high.unwrap_or(f64::INFINITY));
                check(least <= most, format!("low: {least}, where high is {most}; low is not above high"));
                check(low.is_some() || high.is_some(), "low, high: clip does nothing without either".to_owned());
            }
            Self::OneHot { classes, .. } => {
                let is_right = classes.is_none_or(|classes| (1..=MOST_CLASSES).contains(&classes));
                check(is_right, format!("classes: {}; there are 1 to {MOST_CLASSES}", classes.unwrap_or_default()));
            }
            Self::Bins { edges, .. } => check(
                edges.iter().all(|edge| !edge.is_nan()) && edges.windows(2).all(|pair| pair[0] < pair[1]),
                "edges: bins have numbers in rising order".to_owned(),
            ),
            Self::Quantile { quantiles, .. } => check(
                quantiles.len() >= 2
                    && quantiles.iter().all(|x| x.is_finite())
                    && quantiles.windows(2).all(|pair| pair[0] <= pair[1]),
                "quantiles: they are two or more numbers in rising order".to_owned(),
            ),
            Self::Pad { length, multiple, .. } => check(
                matches!((length, multiple), (Some(_), None) | (None, Some(1..))),
                "length, multiple: pad has either a length, or a multiple of 1 or more".to_owned(),
            ),
            Self::Mixup { alpha, .. } | Self::Cutmix { alpha, .. } => {
                check(*alpha > 0.0 && *alpha <= 1e6, format!("alpha: {alpha}; it is above 0, and a million at most"));
            }
            #[cfg(feature = "formats")]
            Self::Augment { operations, maps, tensor, .. } => {
                let needs = "augment needs a build with the feature `images`, which is on by default";
                check(cfg!(feature = "images"), needs.to_owned());
                check(!operations.is_empty(), "operations: augment does nothing without any".to_owned());
                let is_twice = |(nth, map): (usize, &String)| map == tensor || maps[..nth].contains(map);
                let twice = maps.iter().enumerate().find(|map| is_twice(*map));
                check(twice.is_none(), format!("maps: {:?} is named twice", twice.map_or("", |(_, map)| map)));
                let mixes = operations.iter().position(|operation| matches!(operation, ImageAugment::AugMix { .. }));
                if let Some(nth) = mixes.filter(|_| !maps.is_empty()) {
                    faults.push(format!("operations[{nth}]: aug_mix: segmentation maps can't be mixed; leave it out"));
                }
                faults.extend(list_faults("operations", operations));
            }
            Self::LogMel(options) => faults.extend(options.faults()),
            Self::Dense { columns, dtype, .. } => {
                let is_right = (1..=MOST_CLASSES).contains(columns);
                check(is_right, format!("columns: {columns}; there are 1 to {MOST_CLASSES}"));
                let is_right = matches!(dtype, DType::F32 | DType::F16 | DType::Bf16);
                check(is_right, format!("dtype: {dtype}; rows are f32, f16 or bf16"));
            }
            Self::Normalise { normaliser: NormaliserConfig::Inline(normaliser), .. } => {
                faults.extend(under("normaliser", normaliser.faults()));
            }
            Self::Cast { .. }
            | Self::Log1p { .. }
            | Self::Normalise { .. }
            | Self::Layout { .. }
            | Self::Flip { .. }
            | Self::Remove { .. } => {}
        }
        faults
    }
}
