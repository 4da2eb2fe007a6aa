use super::change::Change;
use super::colour::{adjust_brightness, adjust_contrast, adjust_hue, adjust_saturation, take_colour_away};
use super::decoder::{held, resize_buffer};
use super::filter::sharpen;
use super::pixels::{fill, turn_upright};
use super::rotate::rotate;
use super::stored::Orientation;
use super::tone::{autocontrast, equalise, invert, posterise, solarise};

/// Buffers for pixels that are moved, and for filters; reused from image to image.
#[derive(Default)]
pub(super) struct Spare {
    pub(super) moved: Vec<u8>,
    pub(super) rows: Vec<f32>,
    /// For a mixture: the picture before it, and the current sum.
    origin: Vec<u8>,
    sums: Vec<f32>,
}

impl Spare {
    /// Bytes of memory.
    pub(super) fn held(&self) -> u64 {
        held(&self.moved) + held(&self.rows) + held(&self.origin) + held(&self.sums)
    }
}

/// An image between two operations.
pub(super) struct Picture<'a> {
    pub(super) pixels: &'a mut Vec<u8>,
    pub(super) spare: &'a mut Spare,
    /// Width and height of the pixels before they are turned.
    pub(super) size: (u32, u32),
    /// How they must still be turned. Flips are kept here and done together with turning upright.
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
            Change::Mix(mixture) => {
                let size = self.orientation.turn(self.size);
                let (own, others) = mixture.weights();
                let others = &others[..others.len().min(mixture.width as usize)];
                self.mix(own, others, |chain, picture| mixture.chain(chain, size, &mut |change| picture.apply(change)));
            }
        }
    }

    /// A weighted sum of the picture and of the pictures that `change` makes from it, one for each of the other
    /// weights.
    fn mix(&mut self, own: f32, others: &[f32], change: impl Fn(usize, &mut Self)) {
        self.upright();
        let bytes = self.bytes();
        let (mut origin, mut sums) = (std::mem::take(&mut self.spare.origin), std::mem::take(&mut self.spare.sums));
        resize_buffer(&mut origin, bytes).copy_from_slice(self.pixels_mut());
        for (sum, value) in resize_buffer(&mut sums, bytes).iter_mut().zip(&origin) {
            *sum = own * f32::from(*value);
        }
        for (nth, weight) in others.iter().enumerate() {
            self.pixels_mut().copy_from_slice(&origin[..bytes]);
            change(nth, self);
            sums.iter_mut().zip(self.upright()).for_each(|(sum, value)| *sum += weight * f32::from(*value));
        }
        self.pixels_mut().iter_mut().zip(&sums).for_each(|(value, sum)| *value = *sum as u8);
        (self.spare.origin, self.spare.sums) = (origin, sums);
    }

    /// Turns the pixels upright if necessary.
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

    /// Makes new pixels from the current ones.
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

/// The orientation after a change that only turns or flips.
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

    use super::super::acts::Act;
    use super::super::augment::{Edge, Interpolation};
    use super::super::change::Pixels;
    use super::super::filter::Blur;
    use super::super::policy::{MIX, RAND, TRIVIAL};
    use super::super::warp::{Shift, Warp};
    use super::*;

    fn root() -> std::path::PathBuf {
        std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures")
    }

    /// A picture of `fixtures/augment/make.py`: width, height and pixels.
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

    /// The result of `change`, which must be the same for every orientation that the picture may be stored in.
    fn changed(name: &str, change: Change) -> Vec<u8> {
        let (width, height, pixels) = picture(name);
        let results = (1..=8).map(|exif| {
            let orientation = Orientation::from_exif(exif);
            // The opposite turn undoes a turn; for quarter turns this is the other one.
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
    fn operations_of_policies_are_those_of_torchvision_at_every_magnitude() {
        const ACTS: [(&str, Act); 15] = [
            ("Identity", Act::Identity),
            ("ShearX", Act::ShearX),
            ("ShearY", Act::ShearY),
            ("TranslateX", Act::TranslateX),
            ("TranslateY", Act::TranslateY),
            ("Rotate", Act::Rotate),
            ("Brightness", Act::Brightness),
            ("Color", Act::Saturation),
            ("Contrast", Act::Contrast),
            ("Sharpness", Act::Sharpness),
            ("Posterize", Act::Posterise),
            ("Solarize", Act::Solarise),
            ("AutoContrast", Act::Autocontrast),
            ("Equalize", Act::Equalise),
            ("Invert", Act::Invert),
        ];
        for case in cases("policies") {
            let space = match case["space"].as_str().unwrap() {
                "rand" => RAND,
                "trivial" => TRIVIAL,
                _ => MIX,
            };
            let name = case["picture"].as_str().unwrap();
            let (width, height, pixels) = picture(name);
            let bins = case["bins"].as_u64().unwrap() as u32;
            let act = ACTS.iter().find(|(name, _)| *name == case["act"]).unwrap().1;
            let interpolation: Interpolation = serde_json::from_value(case["interpolation"].clone()).unwrap();
            let how = Pixels { interpolation, fill: [0; 3] };
            let directions: Vec<Vec<u64>> = serde_json::from_value(case["crcs"].clone()).unwrap();
            for (negative, levels) in [false, true].into_iter().zip(directions) {
                for (nth, expected) in (0..).zip(levels) {
                    let mut pixels = pixels.clone();
                    let mut spare = Spare::default();
                    let orientation = Orientation::default();
                    let mut picture =
                        Picture { pixels: &mut pixels, spare: &mut spare, size: (width, height), orientation };
                    let change = space.change(act, (nth, bins), negative, (width, height), how);
                    change.into_iter().for_each(|change| picture.apply(change));
                    assert_eq!(
                        crc(picture.upright()),
                        expected,
                        "{act:?} {nth} of {bins}, {negative}, {name}: {change:?}"
                    );
                }
            }
        }
    }

    #[test]
    fn a_mixture_is_the_weighted_sum() {
        let (width, height, mut pixels) = picture("cat");
        let (mut spare, orientation) = (Spare::default(), Orientation::default());
        let mut picture = Picture { pixels: &mut pixels, spare: &mut spare, size: (width, height), orientation };
        let chains: [&[Change]; 3] = [&[Change::Invert], &[Change::Equalise, Change::Mirror], &[Change::Autocontrast]];
        picture.mix(0.3, &[0.2, 0.1, 0.4], |nth, picture| chains[nth].iter().for_each(|change| picture.apply(*change)));
        assert_eq!(crc(picture.upright()), cases("mixed")[0]["crc"].as_u64().unwrap());
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
