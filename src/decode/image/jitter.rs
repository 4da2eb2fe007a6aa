//! Scale jitter: a picture at a random scale, cropped to the wanted size, or placed in a picture of that size.

use super::augment::{ImageAugment, keyed};
use super::boxes::uniform;
use super::options::ImageOptions;
use super::resize::Cut;
use crate::random::RandomKey;

/// How an upright picture is scaled, which part is cut out, and the part's position in the result.
#[derive(Clone, Copy)]
pub(super) struct Jitter {
    pub(super) cut: Cut,
    /// Width and height of the part that is cut out.
    pub(super) part: (u32, u32),
    /// Width and height of the result.
    pub(super) result: (u32, u32),
    /// Left and top of the part in the result.
    pub(super) at: (u32, u32),
    /// The colour around it.
    pub(super) fill: [u8; 3],
}

impl Jitter {
    /// The jitter of a picture of this width and height, if its operations begin with one.
    pub(super) fn of(options: &ImageOptions, key: RandomKey, size: (u32, u32)) -> Option<Self> {
        let Some((ImageAugment::ScaleJitter { scale, fill }, key)) = keyed(&options.augment, key).next() else {
            return None;
        };
        let (height, width) = options.size?;
        let places = (key.unit(1), key.unit(2));
        Some(Self::new(size, (width, height), uniform(*scale, key.unit(0)), places, *fill))
    }

    /// The picture at `scale` times the size at which it just fits into the result; both places are from 0 to 1.
    pub(super) fn new(size: (u32, u32), result: (u32, u32), scale: f64, places: (f64, f64), fill: [u8; 3]) -> Self {
        let fits = |side: u32, result: u32| f64::from(result) / f64::from(side);
        let factor = fits(size.0, result.0).min(fits(size.1, result.1)) * scale;
        let x = Side::new(size.0, factor, result.0, places.0);
        let y = Side::new(size.1, factor, result.1, places.1);
        Self {
            cut: Cut { full: (x.full, y.full), skipped: (x.skipped, y.skipped) },
            part: (x.part, y.part),
            result,
            at: (x.at, y.at),
            fill,
        }
    }

    /// Whether there is anything around it.
    pub(super) fn is_padded(&self) -> bool {
        self.part != self.result
    }
}

struct Side {
    full: u64,
    skipped: u64,
    part: u32,
    at: u32,
}

impl Side {
    fn new(side: u32, factor: f64, result: u32, place: f64) -> Self {
        // torchvision rounds down.
        let full = ((f64::from(side) * factor) as u64).max(1);
        let drawn = (place * (full.abs_diff(result.into()) + 1) as f64) as u64;
        match u32::try_from(full).ok().filter(|full| *full <= result) {
            Some(part) => Self { full, skipped: 0, part, at: drawn as u32 },
            None => Self { full, skipped: drawn, part: result, at: 0 },
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::super::container::header;
    use super::super::follow::steps_of;
    use super::super::options::ImageColour;
    use super::super::order::PixelOrder;
    use super::super::pixels::turn_upright;
    use super::super::stored::{Header, Orientation};
    use super::super::work::{ImageWork, Wanted};
    use super::*;
    use crate::dtype::DType;
    use crate::layout::Layout;
    use crate::row::RowMut;
    use crate::schema::{Extents, Role, Schema, TensorSpec};

    fn root() -> std::path::PathBuf {
        std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures")
    }

    struct Case {
        jitter: Jitter,
        size: (u32, u32),
        rgb: Vec<u8>,
        json: Value,
    }

    impl Case {
        fn numbers(&self, name: &str) -> Vec<f64> {
            serde_json::from_value(self.json[name].clone()).unwrap()
        }

        fn bytes(&self, name: &str) -> Vec<u8> {
            let digits = self.json[name].as_str().unwrap().as_bytes().chunks(2);
            digits.map(|pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap()).collect()
        }
    }

    fn cases() -> Vec<Case> {
        let expected = std::fs::read(root().join("augment/jitter.json")).unwrap();
        let expected: Vec<Value> = serde_json::from_slice(&expected).unwrap();
        let rgb = std::fs::read(root().join("images/rgb-50x37-pillow.rgb")).unwrap();
        let case = |json: Value| {
            let pair = |name: &str| serde_json::from_value::<(f64, f64)>(json[name].clone()).unwrap();
            let (width, height) = pair("result");
            let (result, fill) = ((width as u32, height as u32), serde_json::from_value(json["fill"].clone()).unwrap());
            let jitter = Jitter::new((50, 37), result, json["scale"].as_f64().unwrap(), pair("places"), fill);
            Case { jitter, size: (50, 37), rgb: rgb.clone(), json }
        };
        let cases: Vec<Case> = expected.into_iter().map(case).collect();
        assert!(cases.len() >= 6 && cases.iter().any(|case| !case.jitter.is_padded()));
        cases
    }

    /// A file of these pixels, stored in this orientation.
    fn stored(kind: &str, pixels: &[u8], (width, height): (u32, u32), orientation: Orientation) -> (Vec<u8>, Header) {
        let bytes = [format!("{kind}\n{width} {height}\n255\n").as_bytes(), pixels].concat();
        let header = header(&bytes).unwrap();
        (bytes, Header { orientation, ..header })
    }

    /// The result for a file.
    fn written(bytes: &[u8], stored: Header, jitter: Jitter, colour: ImageColour) -> Vec<u8> {
        let (width, height) = jitter.result;
        let size = Some((height, width));
        let options = ImageOptions { size, colour, order: PixelOrder::Nhwc, ..ImageOptions::default() };
        let mut shape = vec![height as usize, width as usize];
        shape.extend((colour != ImageColour::Index).then_some(colour.channels()));
        let schema = Schema::new(vec![TensorSpec::new("image", Role::Feature, DType::U8, &shape)]).unwrap();
        let mut layout = Layout::default();
        layout.compute(&schema, 1, Extents::default()).unwrap();
        let mut slot = vec![0u64; layout.bytes().div_ceil(8)];
        let mut row = RowMut::new(bytemuck::cast_slice_mut(&mut slot), schema.tensors(), &layout, 0);
        let key = RandomKey::new(0);
        let wanted = Wanted::jittered(stored, &options, key, Some(jitter)).unwrap();
        let size = ImageWork::default().write(bytes, wanted, &options, key, &mut row.tensor(0), None).unwrap();
        assert_eq!(size, (width as usize, height as usize));
        row.tensor(0).bytes_mut().to_vec()
    }

    #[test]
    fn pixels_are_those_of_torchvision_however_the_picture_is_stored() {
        for case in cases() {
            let expected = case.bytes("pixels");
            for exif in 1..=8 {
                let orientation = Orientation::from_exif(exif);
                let back = Orientation::from_exif([0, 1, 2, 3, 4, 5, 8, 7, 6][usize::from(exif)]);
                let mut pixels = vec![0; case.rgb.len()];
                turn_upright::<3>(&case.rgb, case.size.0 as usize, back, &mut pixels);
                let (bytes, header) = stored("P6", &pixels, back.turn(case.size), orientation);
                let found = written(&bytes, header, case.jitter, ImageColour::Rgb);
                assert_eq!(found.len(), expected.len());
                let most = found.iter().zip(&expected).map(|(a, b)| a.abs_diff(*b)).max();
                assert!(most <= Some(1), "{} in orientation {exif}: {most:?} apart", case.json["scale"]);
            }
        }
    }

    #[test]
    fn maps_and_boxes_go_with_their_pictures() {
        for case in cases() {
            let map: Vec<u8> = case.rgb.iter().step_by(3).copied().collect();
            let (bytes, header) = stored("P5", &map, case.size, Orientation::default());
            assert!(written(&bytes, header, case.jitter, ImageColour::Index) == case.bytes("map"), "{}", case.json);
            let corners = case.numbers("box");
            let mut at = [(corners[0], corners[1]), (corners[2], corners[3])];
            steps_of(&case.jitter, case.size, &mut |step| {
                let [a, b, c, d, e, f] = step.matrix;
                at = at.map(|(x, y)| {
                    let (x, y) = (a * x + b * y + c, d * x + e * y + f);
                    (x.clamp(0.0, step.size.0), y.clamp(0.0, step.size.1))
                });
            });
            let found = [at[0].0, at[0].1, at[1].0, at[1].1];
            let apart = found.iter().zip(case.numbers("after")).map(|(a, b)| (a - b).abs());
            assert!(apart.fold(0.0, f64::max) < 1e-3, "{found:?}: {}", case.json);
        }
    }

    #[test]
    fn every_scale_and_place_is_drawn() {
        let augment = vec![super::super::augment::scale_jitter()];
        let options = ImageOptions { size: Some((40, 60)), augment, ..ImageOptions::default() };
        let drawn: Vec<Jitter> =
            (0..4000).map(|sample| Jitter::of(&options, RandomKey::new(3).with(sample), (600, 400)).unwrap()).collect();
        // The whole picture just fits at scale 1.
        let scales = drawn.iter().map(|jitter| jitter.cut.full.0 as f64 / 60.0);
        let mean = scales.clone().sum::<f64>() / 4000.0;
        assert!((mean - 1.05).abs() < 0.04, "{mean}");
        assert!(scales.clone().any(|scale| scale < 0.12) && scales.clone().any(|scale| scale > 1.95));
        for jitter in &drawn {
            assert!(jitter.at.0 + jitter.part.0 <= 60 && jitter.at.1 + jitter.part.1 <= 40);
            assert!(jitter.cut.skipped.0 + u64::from(jitter.part.0) <= jitter.cut.full.0);
            assert!(jitter.part.0 > 0 && jitter.part.1 > 0);
        }
        let small = drawn.iter().filter(|jitter| jitter.cut.full.0 < 60);
        let (left, right) = small.clone().fold((0, 0), |(left, right), jitter| {
            let is_right = jitter.at.0 + jitter.part.0 == 60;
            (left + u32::from(jitter.at.0 == 0), right + u32::from(is_right))
        });
        assert!(left > 40 && right > 40, "{left} {right}");
        assert!(Jitter::of(&ImageOptions::default(), RandomKey::new(3), (600, 400)).is_none());
    }
}
