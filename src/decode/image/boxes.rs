//! Random boxes: which part of an image is cut out or erased.

use super::stored::Region;
use crate::random::RandomKey;

/// How often a box is drawn again if it does not fit.
const ATTEMPTS: u64 = 10;

/// The box of torchvision's `RandomResizedCrop.get_params`, in an upright image of `width` x `height`.
pub(super) fn crop_box((width, height): (u32, u32), scale: (f64, f64), ratio: (f64, f64), key: RandomKey) -> Region {
    for attempt in 0..ATTEMPTS {
        let (box_width, box_height) = draw_sides((width, height), scale, ratio, key, attempt);
        if (1.0..=f64::from(width)).contains(&box_width) && (1.0..=f64::from(height)).contains(&box_height) {
            return place((width, height), (box_width as u32, box_height as u32), key, attempt);
        }
    }
    // The largest box in the middle whose ratio is within the limits.
    let of_image = f64::from(width) / f64::from(height);
    let rounded = |side: f64, most: u32| (side.round_ties_even() as u32).clamp(1, most);
    let (box_width, box_height) = if of_image < ratio.0 {
        (width, rounded(f64::from(width) / ratio.0, height))
    } else if of_image > ratio.1 {
        (rounded(f64::from(height) * ratio.1, width), height)
    } else {
        (width, height)
    };
    Region { x: (width - box_width) / 2, y: (height - box_height) / 2, width: box_width, height: box_height }
}

/// The box of torchvision's `RandomErasing.get_params`; `None` if none is found that is smaller than the image.
pub(super) fn erase_box(
    (width, height): (u32, u32),
    scale: (f64, f64),
    ratio: (f64, f64),
    key: RandomKey,
) -> Option<Region> {
    (0..ATTEMPTS).find_map(|attempt| {
        // Here the ratio is height divided by width; in a crop it is the other way round.
        let (box_height, box_width) = draw_sides((width, height), scale, ratio, key, attempt);
        (box_width < f64::from(width) && box_height < f64::from(height))
            .then(|| place((width, height), (box_width as u32, box_height as u32), key, attempt))
    })
}

/// Two whole-number sides, with a ratio (first divided by second) within `ratio`.
fn draw_sides(
    (width, height): (u32, u32),
    scale: (f64, f64),
    ratio: (f64, f64),
    key: RandomKey,
    attempt: u64,
) -> (f64, f64) {
    let area = f64::from(width) * f64::from(height) * uniform(scale, key.unit(4 * attempt));
    let ratio = uniform((ratio.0.ln(), ratio.1.ln()), key.unit(4 * attempt + 1)).exp();
    ((area * ratio).sqrt().round_ties_even(), (area / ratio).sqrt().round_ties_even())
}

/// A position in the image; all are equally likely.
fn place((width, height): (u32, u32), (box_width, box_height): (u32, u32), key: RandomKey, attempt: u64) -> Region {
    let y = (key.unit(4 * attempt + 2) * f64::from(height - box_height + 1)) as u32;
    let x = (key.unit(4 * attempt + 3) * f64::from(width - box_width + 1)) as u32;
    Region { x, y, width: box_width, height: box_height }
}

/// The number between the two, at `unit` (0 to 1) of the distance.
pub(super) fn uniform((from, to): (f64, f64), unit: f64) -> f64 {
    from + (to - from) * unit
}
