use super::change::Change;
use super::colour::{adjust_brightness, adjust_contrast, adjust_hue, adjust_saturation, take_colour_away};
use super::decoder::resize_buffer;
use super::filter::sharpen;
use super::pixels::{fill, turn_upright};
use super::rotate::rotate;
use super::stored::Orientation;
use super::tone::{autocontrast, equalise, invert, posterise, solarise};

/// What pixels move to when they change places, and what filters need; reused from image to image.
#[derive(Default)]
pub(super) struct Spare {
    pub(super) moved: Vec<u8>,
    pub(super) rows: Vec<f32>,
}

/// An image between its operations.
pub(super) struct Picture<'a> {
    pub(super) pixels: &'a mut Vec<u8>,
    pub(super) spare: &'a mut Spare,
    /// Width and height of the pixels as they lie.
    pub(super) size: (u32, u32),
    /// How they are still to be turned: flips wait here and go with the turning upright.
    pub(super) orientation: Orientation,
}

impl Picture<'_> {
    pub(super) fn apply(&mut self, change: Change) {
        match change {
            Change::Mirror | Change::UpsideDown => {
                self.orientation = turned(self.orientation, change).unwrap_or(self.orientation);
            }
            Change::Rotate(degrees, interpolation) => {
                self.upright();
                self.redraw(|from, size, _, into| rotate(from, size, degrees, interpolation, into));
            }
            Change::Warp(warp) => {
                self.upright();
                self.redraw(|from, size, _, into| warp.apply(from, size, into));
            }
            Change::Shift(shift) => {
                self.upright();
                self.redraw(|from, size, _, into| {
                    shift.apply(from.as_chunks::<3>().0, size, shift.fill, into.as_chunks_mut::<3>().0);
                });
            }
            Change::Fill(region, colour) => {
                self.upright();
                let width = self.size.0 as usize;
                fill(self.pixels_mut(), width, region, colour);
            }
            Change::Brightness(factor) => adjust_brightness(self.pixels_mut(), factor),
            Change::Contrast(factor) => adjust_contrast(self.pixels_mut(), factor),
            Change::Saturation(factor) => adjust_saturation(self.pixels_mut(), factor),
            Change::Hue(shift) => adjust_hue(self.pixels_mut(), shift),
            Change::Grey => take_colour_away(self.pixels_mut()),
            Change::Sharpness(factor) => self.redraw(|from, size, _, into| sharpen(from, size, factor, into)),
            Change::Blur(blur) => self.redraw(|from, size, rows, into| blur.apply(from, size, rows, into)),
            Change::Invert => invert(self.pixels_mut()),
            Change::Posterise(bits) => posterise(self.pixels_mut(), bits),
            Change::Solarise(threshold) => solarise(self.pixels_mut(), threshold),
            Change::Autocontrast => autocontrast(self.pixels_mut()),
            Change::Equalise => equalise(self.pixels_mut()),
        }
    }

    /// Turns the pixels upright, if they are not.
    pub(super) fn upright(&mut self) -> &[u8] {
        let orientation = std::mem::take(&mut self.orientation);
        if !orientation.is_upright() {
            self.redraw(|from, (width, _), _, into| turn_upright::<3>(from, width, orientation, into));
            self.size = orientation.turn(self.size);
        }
        self.pixels_mut()
    }

    fn pixels_mut(&mut self) -> &mut [u8] {
        let bytes = self.bytes();
        &mut self.pixels[..bytes]
    }

    /// Makes new pixels from the present ones.
    fn redraw(&mut self, draw: impl FnOnce(&[u8], (usize, usize), &mut Vec<f32>, &mut [u8])) {
        let bytes = self.bytes();
        let size = (self.size.0 as usize, self.size.1 as usize);
        let into = resize_buffer(&mut self.spare.moved, bytes);
        draw(&self.pixels[..bytes], size, &mut self.spare.rows, into);
        std::mem::swap(self.pixels, &mut self.spare.moved);
    }

    fn bytes(&self) -> usize {
        self.size.0 as usize * self.size.1 as usize * 3
    }
}

/// The orientation after a change that does nothing else.
pub(super) fn turned(orientation: Orientation, change: Change) -> Option<Orientation> {
    match change {
        Change::Mirror => Some(orientation.mirrored()),
        Change::UpsideDown => Some(orientation.upside_down()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::super::augment::{Edge, Interpolation};
    use super::super::filter::Blur;
    use super::super::warp::{Shift, Warp};
    use super::*;

    fn root() -> std::path::PathBuf {
        std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures")
    }

    /// The pictures of `fixtures/augment/make.py`: width, height and pixels.
    fn picture(name: &str) -> (u32, u32, Vec<u8>) {
        let level = |i: usize| (i % 18 * 15) as u8;
        let colours = |count: usize| (0..count).flat_map(|i| [level(i / 324), level(i / 18), level(i)]).collect();
        let read = |name: &str| std::fs::read(root().join("images").join(name)).unwrap();
        match name {
            "colours" => (72, 81, colours(5832)),
            "cat" => (32, 32, read("chelsea-32x32-pillow.rgb")),
            "wide" => (50, 37, read("rgb-50x37-pillow.rgb")),
            "one" => (7, 5, [9, 200, 77].repeat(35)),
            _ => (2, 20, colours(40)),
        }
    }

    /// What `change` makes of it, in every orientation that it may still have to be turned from.
    fn changed(name: &str, change: Change) -> Vec<u8> {
        let (width, height, pixels) = picture(name);
        let results = (1..=8).map(|exif| {
            let orientation = Orientation::from_exif(exif);
            // Turning is undone by the turn that comes back, which for quarter turns is the other one.
            let back = Orientation::from_exif([0, 1, 2, 3, 4, 5, 8, 7, 6][usize::from(exif)]);
            let mut stored = vec![0; pixels.len()];
            turn_upright::<3>(&pixels, width as usize, back, &mut stored);
            let size = back.turn((width, height));
            let mut spare = Spare::default();
            let mut picture = Picture { pixels: &mut stored, spare: &mut spare, size, orientation };
            picture.apply(change);
            picture.upright().to_vec()
        });
        let results: Vec<Vec<u8>> = results.collect();
        assert!(results.iter().all(|result| *result == results[0]), "{name}: {change:?} depends on the orientation");
        results.into_iter().next().unwrap()
    }

    fn crc(bytes: &[u8]) -> u64 {
        let mut crc = flate2::Crc::new();
        crc.update(bytes);
        crc.sum().into()
    }

    fn cases(kind: &str) -> Vec<Value> {
        let expected = std::fs::read(root().join("augment/expected.json")).unwrap();
        let mut expected: Value = serde_json::from_slice(&expected).unwrap();
        let Value::Array(cases) = expected[kind].take() else { panic!("{kind}") };
        assert!(!cases.is_empty());
        cases
    }

    fn floats(value: &Value) -> Vec<f64> {
        serde_json::from_value(value.clone()).unwrap()
    }

    fn check(cases: &[Value], change: impl Fn(&Value) -> Change) {
        for case in cases {
            let found = changed(case["picture"].as_str().unwrap(), change(case));
            assert_eq!(crc(&found), case["crc"].as_u64().unwrap(), "{case}");
        }
    }

    #[test]
    fn colours_become_those_of_torchvision() {
        check(&cases("simple"), |case| {
            let number = || case["arguments"][0].as_f64().unwrap();
            match case["function"].as_str().unwrap() {
                "invert" => Change::Invert,
                "autocontrast" => Change::Autocontrast,
                "equalize" => Change::Equalise,
                "rgb_to_grayscale" => Change::Grey,
                "posterize" => Change::Posterise(number() as u8),
                "solarize" => Change::Solarise(number() as u8),
                "adjust_sharpness" => Change::Sharpness(number() as f32),
                "adjust_brightness" => Change::Brightness(number() as f32),
                "adjust_contrast" => Change::Contrast(number() as f32),
                "adjust_saturation" => Change::Saturation(number() as f32),
                "adjust_hue" => Change::Hue(number()),
                other => panic!("{other}"),
            }
        });
    }

    #[test]
    fn affine_transforms_take_the_pixels_of_torchvision() {
        check(&cases("affine"), |case| {
            let (width, height, _) = picture(case["picture"].as_str().unwrap());
            let middle = (f64::from(width) * 0.5, f64::from(height) * 0.5);
            let (translate, shear) = (floats(&case["translate"]), floats(&case["shear"]));
            let [degrees, scale] = ["degrees", "scale"].map(|name| case[name].as_f64().unwrap());
            let inverse = Warp::inverse_of(middle, degrees, (translate[0], translate[1]), scale, (shear[0], shear[1]));
            let interpolation: Interpolation = serde_json::from_value(case["interpolation"].clone()).unwrap();
            let fill = serde_json::from_value(case["fill"].clone()).unwrap();
            Change::Warp(Warp { inverse, interpolation, fill })
        });
    }

    #[test]
    fn padded_crops_are_those_of_torchvision() {
        check(&cases("shifted"), |case| {
            let edge: Edge = serde_json::from_value(case["edge"].clone()).unwrap();
            let [x, y] = ["x", "y"].map(|name| case[name].as_i64().unwrap());
            Change::Shift(Shift { x, y, edge, fill: [10, 200, 90] })
        });
    }

    #[test]
    fn blurs_are_within_a_level_of_those_of_torchvision() {
        for case in cases("blurred") {
            let radius = case["kernel"].as_u64().unwrap() as usize / 2;
            let blur = Blur { radius, sigma: case["sigma"].as_f64().unwrap() };
            let found = changed(case["picture"].as_str().unwrap(), Change::Blur(blur));
            let digits = case["pixels"].as_str().unwrap();
            let expected = digits
                .as_bytes()
                .chunks(2)
                .map(|pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap());
            let differences: Vec<u8> = found.iter().zip(expected).map(|(a, b)| a.abs_diff(b)).collect();
            assert_eq!(differences.len(), found.len());
            let differing = differences.iter().filter(|difference| **difference > 0).count();
            assert!(differences.iter().all(|difference| *difference <= 1), "{blur:?}");
            assert!(differing * 500 <= found.len(), "{blur:?}: {differing} of {}", found.len());
        }
    }
}
