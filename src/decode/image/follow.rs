//! The new positions of points of a picture that is cropped, resized, flipped and rotated.

use super::augment::{ImageAugment, keyed};
use super::boxes::crop_box;
use super::change::Change;
use super::jitter::Jitter;
use super::options::{CropFit, ImageOptions};
use super::resize::{Cut, centre};
use super::step::Step;
use crate::random::RandomKey;

/// Gives the steps of an upright picture of this width and height, under its sample's key.
pub(crate) fn follow(
    options: &ImageOptions,
    key: RandomKey,
    (width, height): (u32, u32),
    visit: &mut impl FnMut(Step),
) {
    let key = options.key(key);
    let mut now = (f64::from(width), f64::from(height));
    let mut result = (width, height);
    if let Some((ImageAugment::RandomResizedCrop { scale, ratio }, key)) = keyed(&options.augment, key).next() {
        let region = crop_box((width, height), *scale, *ratio, key);
        now = (region.width.into(), region.height.into());
        visit(Step { matrix: moved(-f64::from(region.x), -f64::from(region.y)), size: now });
    }
    if let Some(jitter) = Jitter::of(options, key, result) {
        steps_of(&jitter, result, visit);
        result = jitter.result;
        now = (f64::from(result.0), f64::from(result.1));
    } else if let Some((height, width)) = options.size {
        let (mut full, mut skipped) = ((f64::from(width), f64::from(height)), None);
        if let CropFit::CenterCrop { shorter } = options.fit {
            let cut: Cut = centre(result, shorter, (width, height));
            full = (cut.full.0 as f64, cut.full.1 as f64);
            skipped = Some((cut.skipped.0 as f64, cut.skipped.1 as f64));
        }
        visit(Step { matrix: scaled(now, full), size: full });
        result = (width, height);
        now = (f64::from(width), f64::from(height));
        if let Some((left, top)) = skipped {
            visit(Step { matrix: moved(-left, -top), size: now });
        }
    }
    for (operation, key) in keyed(&options.augment, key) {
        operation.draw(key, result, &mut |change| {
            if let Some(matrix) = matrix_of(change, now) {
                visit(Step { matrix, size: now });
            }
        });
    }
}

/// The steps of a picture of this width and height that is scaled at random.
pub(super) fn steps_of(jitter: &Jitter, (width, height): (u32, u32), visit: &mut impl FnMut(Step)) {
    let full = (jitter.cut.full.0 as f64, jitter.cut.full.1 as f64);
    visit(Step { matrix: scaled((width.into(), height.into()), full), size: full });
    let place = |at: u32, skipped: u64| f64::from(at) - skipped as f64;
    let (x, y) = (place(jitter.at.0, jitter.cut.skipped.0), place(jitter.at.1, jitter.cut.skipped.1));
    visit(Step { matrix: moved(x, y), size: (jitter.result.0.into(), jitter.result.1.into()) });
}

fn scaled(from: (f64, f64), to: (f64, f64)) -> [f64; 6] {
    [to.0 / from.0, 0.0, 0.0, 0.0, to.1 / from.1, 0.0]
}

fn moved(x: f64, y: f64) -> [f64; 6] {
    [1.0, 0.0, x, 0.0, 1.0, y]
}

/// How a change moves the points of a picture of this size; `None` if nothing moves.
fn matrix_of(change: Change, (width, height): (f64, f64)) -> Option<[f64; 6]> {
    match change {
        Change::Mirror => Some([-1.0, 0.0, width, 0.0, 1.0, 0.0]),
        Change::UpsideDown => Some([1.0, 0.0, 0.0, 0.0, -1.0, height]),
        Change::Rotate(degrees, _) => {
            // Counter-clockwise, with y downwards.
            let (sin, cos) = degrees.to_radians().sin_cos();
            let (x, y) = (width / 2.0, height / 2.0);
            Some([cos, sin, x - cos * x - sin * y, -sin, cos, y + sin * x - cos * y])
        }
        Change::Warp(warp) => {
            let [a, b, c, d, e, f] = warp.inverse;
            let scale = 1.0 / (a * e - b * d);
            let [a, b, d, e] = [e, -b, -d, a].map(|value| value * scale);
            Some([a, b, -a * c - b * f, d, e, -d * c - e * f])
        }
        Change::Shift(shift) => Some(moved(-shift.x as f64, -shift.y as f64)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::super::augment::{Edge, Interpolation};
    use super::super::warp::{Shift, Warp};
    use super::*;

    #[test]
    fn boxes_go_where_torchvision_takes_them() {
        let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/augment/boxes.json");
        let cases: serde_json::Value = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
        let (mut kept, mut gone) = (0, 0);
        for case in cases.as_array().unwrap() {
            let mut size: (f64, f64) = serde_json::from_value(case["size"].clone()).unwrap();
            let mut steps = Vec::new();
            for operation in case["operations"].as_array().unwrap() {
                let numbers: Vec<f64> = serde_json::from_value(operation[1].clone()).unwrap();
                let (change, before) = (operation[0].as_str().unwrap(), size);
                let matrix = match (change, numbers.as_slice()) {
                    ("crop", [left, top, width, height]) => {
                        size = (*width, *height);
                        moved(-left, -top)
                    }
                    ("resize", [width, height]) => {
                        size = (*width, *height);
                        scaled(before, size)
                    }
                    (name, numbers) => matrix_of(change_of(name, numbers, size), size).unwrap(),
                };
                steps.push(Step { matrix, size });
            }
            let boxes: Vec<([f64; 4], Option<[f64; 4]>)> = serde_json::from_value(case["boxes"].clone()).unwrap();
            for (from, to) in boxes {
                let found = steps.iter().try_fold(from, |now, step| step.enclosing(now));
                *(if to.is_some() { &mut kept } else { &mut gone }) += 1;
                match (found, to) {
                    (None, None) => {}
                    (Some(found), Some(to)) => {
                        let apart = found.iter().zip(to).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
                        assert!(apart < 2e-3, "{case}: {from:?} to {found:?}, not {to:?}");
                    }
                    // An f32 may have a small remainder where f64 has none, and the other way round.
                    (Some([left, top, right, bottom]), None) | (None, Some([left, top, right, bottom])) => {
                        assert!(
                            right - left < 1e-3 || bottom - top < 1e-3,
                            "{case}: {from:?} to {found:?}, not {to:?}"
                        );
                    }
                }
            }
        }
        assert!(kept > 50 && gone > 5, "{kept} boxes are left, {gone} gone");
    }

    /// One of torchvision's functions for a picture of this size, from its arguments.
    fn change_of(function: &str, arguments: &[f64], (width, height): (f64, f64)) -> Change {
        match (function, arguments) {
            ("horizontal_flip", _) => Change::Mirror,
            ("vertical_flip", _) => Change::UpsideDown,
            ("rotate", [degrees]) => Change::Rotate(*degrees, Interpolation::Nearest),
            ("affine", [degrees, x, y, scale, shear_x, shear_y]) => {
                let middle = (width / 2.0, height / 2.0);
                let inverse = Warp::inverse_of(middle, *degrees, (*x, *y), *scale, (*shear_x, *shear_y));
                Change::Warp(Warp { inverse, interpolation: Interpolation::Nearest, fill: [0; 3] })
            }
            ("shift", [x, y]) => {
                Change::Shift(Shift { x: *x as i64, y: *y as i64, edge: Edge::Constant, fill: [0; 3] })
            }
            _ => panic!("{function} {arguments:?}"),
        }
    }

    #[test]
    fn points_go_where_torchvision_takes_them() {
        let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/augment/expected.json");
        let expected: serde_json::Value = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
        let size = (100.0, 80.0);
        for case in expected["points"].as_array().unwrap() {
            let numbers: Vec<f64> = serde_json::from_value(case["arguments"].clone()).unwrap();
            let change = change_of(case["function"].as_str().unwrap(), &numbers, size);
            let [a, b, c, d, e, f] = matrix_of(change, size).unwrap();
            let points: Vec<[[f64; 2]; 2]> = serde_json::from_value(case["points"].clone()).unwrap();
            for [[x, y], [to_x, to_y]] in points {
                let found = (a * x + b * y + c, d * x + e * y + f);
                assert!((found.0 - to_x).abs() < 1e-3 && (found.1 - to_y).abs() < 1e-3, "{case}: {x} {y} to {found:?}");
            }
        }
    }
}
