//! Augmentation: what each operation does, what it draws, and that nothing but seed, epoch and sample changes it.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail where they unwrap")]

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use crate::common::{Waves, see_all, workspace};
use ringfeed::field::Image;
use ringfeed::images::{
    AugmentRecipe, Edge, ImageAugment, ImageFolder, ImageLabels, ImageOptions, Interpolation, LearnedPolicy,
    PixelOrder, aug_mix, auto_augment, colour_jitter, horizontal_flip, rand_augment, random_crop, random_erasing,
    random_resized_crop, trivial_augment, vertical_flip,
};
use ringfeed::order::RandomKey;
use ringfeed::read::{Job, MemoryReader, RecordReader, RowMut, RowsMut, Sample, Scratch};
use ringfeed::source::{ReaderSource, Source, Transformed};
use ringfeed::tensor::{Extents, Layout, Role, Schema, TensorSpec, bf16, f16};
use ringfeed::transform::NumberAugment;
use ringfeed::workspace::wrap;
use ringfeed::{DType, DataSetIterator, Error, ErrorKind, Loader, LoaderConfig, Normaliser};

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures").join(name)
}

/// Pixels `[height, width, 3]` of one image under random operations.
#[derive(Clone, Debug, PartialEq)]
struct Picture {
    width: usize,
    height: usize,
    pixels: Vec<[u8; 3]>,
}

impl Picture {
    fn at(&self, x: usize, y: usize) -> [u8; 3] {
        self.pixels[y * self.width + x]
    }

    fn map(&self, from: impl Fn(usize, usize) -> [u8; 3]) -> Self {
        let pixels = (0..self.height).flat_map(|y| (0..self.width).map(move |x| (x, y)));
        Self { pixels: pixels.map(|(x, y)| from(x, y)).collect(), ..*self }
    }
}

/// One image file, opened once and decoded under many keys.
struct Studio {
    reader: ImageFolder,
    scratch: Scratch,
}

impl Studio {
    fn new(file: impl AsRef<Path>, size: Option<(u32, u32)>, augment: &[ImageAugment]) -> Self {
        let options =
            ImageOptions { size, order: PixelOrder::Nhwc, augment: augment.to_vec(), ..ImageOptions::default() };
        let reader = ImageFolder::from_paths([file], ImageLabels::None, &options).unwrap();
        Self { reader, scratch: Scratch::default() }
    }

    fn picture(&mut self, key: RandomKey) -> Picture {
        let schema = Schema::new(self.reader.tensors().to_vec()).unwrap();
        let extents = match schema.is_variable() {
            true => self.reader.measure(0, &mut self.scratch).unwrap(),
            false => Extents::default(),
        };
        let mut layout = Layout::default();
        layout.compute(&schema, 1, extents).unwrap();
        let mut slot = vec![0xaaaa_aaaa_aaaa_aaaau64; layout.bytes().div_ceil(8)];
        self.reader.fetch(&[0], 0, &mut self.scratch).unwrap();
        let mut row = RowMut::new(bytemuck::cast_slice_mut(&mut slot), schema.tensors(), &layout, 0);
        self.reader.decode(Sample { id: 0, key }, 0, &mut self.scratch, &mut row).unwrap();
        let mut tensor = row.tensor(0);
        let (height, width) = (tensor.shape()[0], tensor.shape()[1]);
        Picture { width, height, pixels: bytemuck::cast_slice(tensor.bytes_mut()).to_vec() }
    }
}

fn keys(count: u64) -> impl Iterator<Item = RandomKey> {
    (0..count).map(|sample| RandomKey::new(9).with(0).with(sample))
}

/// A lossless picture each of whose pixels says where it is: red its column, green its row, blue 255.
fn map_of_places(folder: &Path, width: u32, height: u32) -> PathBuf {
    let mut bytes = Vec::new();
    // A BMP of 24 bits: rows from the bottom up, each a multiple of four bytes, blue first.
    let row = (3 * width).next_multiple_of(4);
    bytes.extend_from_slice(b"BM");
    for word in [54 + row * height, 0, 54, 40, width, height, 1 | 24 << 16, 0, row * height, 0, 0, 0, 0] {
        bytes.extend_from_slice(&word.to_le_bytes());
    }
    for y in (0..height).rev() {
        let start = bytes.len();
        (0..width).for_each(|x| bytes.extend_from_slice(&[255, y as u8, x as u8]));
        bytes.resize(start + row as usize, 0);
    }
    let path = folder.join(format!("{width}x{height}.bmp"));
    fs::write(&path, bytes).unwrap();
    path
}

/// FNV-1a.
fn hash(bytes: impl IntoIterator<Item = u8>) -> u64 {
    bytes.into_iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3))
}

#[test]
fn flips_exchange_sides_as_often_as_they_should() {
    let path = fixture("images/rgb.png");
    let original = Studio::new(&path, None, &[]).picture(RandomKey::new(0));
    let (width, height) = (original.width, original.height);
    let left_right = original.map(|x, y| original.at(width - 1 - x, y));
    let top_bottom = original.map(|x, y| original.at(x, height - 1 - y));
    for (operation, flipped) in [
        (ImageAugment::HorizontalFlip { probability: 0.25 }, &left_right),
        (ImageAugment::VerticalFlip { probability: 0.25 }, &top_bottom),
    ] {
        let mut studio = Studio::new(&path, None, &[operation]);
        let mut flips = 0;
        for key in keys(2000) {
            let picture = studio.picture(key);
            let is_flipped = picture == *flipped;
            assert!(is_flipped || picture == original);
            flips += u32::from(is_flipped);
        }
        // 500 expected; the deviation of a binomial distribution is 19.
        assert!((420..580).contains(&flips), "{flips}");
    }
    let never = [ImageAugment::HorizontalFlip { probability: 0.0 }, ImageAugment::VerticalFlip { probability: 0.0 }];
    assert_eq!(Studio::new(&path, None, &never).picture(RandomKey::new(1)), original);
    let always = [ImageAugment::HorizontalFlip { probability: 1.0 }, ImageAugment::VerticalFlip { probability: 1.0 }];
    let both = original.map(|x, y| original.at(width - 1 - x, height - 1 - y));
    assert_eq!(Studio::new(&path, None, &always).picture(RandomKey::new(1)), both);
}

#[test]
fn flips_of_turned_images_are_those_of_the_upright_ones() {
    let flip = [ImageAugment::HorizontalFlip { probability: 1.0 }];
    let flop = [ImageAugment::VerticalFlip { probability: 1.0 }];
    let key = RandomKey::new(0);
    for orientation in 1..=8 {
        let path = fixture(&format!("images/orientation-{orientation}.jpg"));
        let upright = Studio::new(&path, None, &[]).picture(key);
        let (width, height) = (upright.width, upright.height);
        let flipped = upright.map(|x, y| upright.at(width - 1 - x, y));
        assert_eq!(Studio::new(&path, None, &flip).picture(key), flipped, "{orientation}");
        let flopped = upright.map(|x, y| upright.at(x, height - 1 - y));
        assert_eq!(Studio::new(&path, None, &flop).picture(key), flopped, "{orientation}");
    }
}

/// torchvision's `RandomResizedCrop.get_params` with the numbers that its documentation here names: left, top, width,
/// height.
fn naive_crop(width: u32, height: u32, scale: (f64, f64), ratio: (f64, f64), sample: RandomKey) -> [u32; 4] {
    let key = sample.with(1 << 32);
    let area = f64::from(width * height);
    for attempt in 0..10 {
        let target = area * (scale.0 + (scale.1 - scale.0) * key.unit(4 * attempt));
        let aspect = (ratio.0.ln() + (ratio.1.ln() - ratio.0.ln()) * key.unit(4 * attempt + 1)).exp();
        let w = (target * aspect).sqrt().round_ties_even() as u32;
        let h = (target / aspect).sqrt().round_ties_even() as u32;
        if 0 < w && w <= width && 0 < h && h <= height {
            let top = (key.unit(4 * attempt + 2) * f64::from(height - h + 1)).floor() as u32;
            let left = (key.unit(4 * attempt + 3) * f64::from(width - w + 1)).floor() as u32;
            return [left, top, w, h];
        }
    }
    let of_image = f64::from(width) / f64::from(height);
    let (w, h) = if of_image < ratio.0 {
        (width, (f64::from(width) / ratio.0).round_ties_even() as u32)
    } else if of_image > ratio.1 {
        ((f64::from(height) * ratio.1).round_ties_even() as u32, height)
    } else {
        (width, height)
    };
    [(width - w) / 2, (height - h) / 2, w, h]
}

#[test]
fn a_crop_takes_the_box_that_torchvision_describes() {
    let folder = tempfile::tempdir().unwrap();
    let path = map_of_places(folder.path(), 200, 120);
    let (scale, ratio) = ((0.08, 1.0), (3.0 / 4.0, 4.0 / 3.0));
    // As large as the box, so that nothing is interpolated: the colours say what was cut.
    let mut seen = 0;
    for key in keys(300) {
        let [left, top, width, height] = naive_crop(200, 120, scale, ratio, key);
        let mut studio = Studio::new(&path, Some((height, width)), &[random_resized_crop()]);
        let picture = studio.picture(key);
        let expected = picture.map(|x, y| [(left as usize + x) as u8, (top as usize + y) as u8, 255]);
        assert_eq!(picture, expected, "{left} {top} {width} {height}");
        seen += u32::from(width < 200 && height < 120);
    }
    assert!(seen > 200, "{seen}");
}

#[test]
fn crops_cover_the_areas_and_ratios_evenly() {
    let boxes: Vec<[u32; 4]> =
        keys(20_000).map(|key| naive_crop(1000, 1000, (0.08, 0.5), (0.75, 4.0 / 3.0), key)).collect();
    let areas: Vec<f64> = boxes.iter().map(|[_, _, w, h]| f64::from(w * h) / 1e6).collect();
    let mean = areas.iter().sum::<f64>() / areas.len() as f64;
    assert!((mean - 0.29).abs() < 0.004, "{mean}");
    assert!(areas.iter().all(|area| (0.079..0.501).contains(area)));
    let logs: Vec<f64> = boxes.iter().map(|[_, _, w, h]| (f64::from(*w) / f64::from(*h)).ln()).collect();
    let mean = logs.iter().sum::<f64>() / logs.len() as f64;
    assert!(mean.abs() < 0.006, "{mean}");
    assert!(logs.iter().all(|log| log.abs() < (4.0f64 / 3.0).ln() + 0.01));
    // Each corner is as far from its edge as the opposite one, on average.
    let left = boxes.iter().map(|[x, ..]| f64::from(*x)).sum::<f64>();
    let right = boxes.iter().map(|[x, _, w, _]| f64::from(1000 - x - w)).sum::<f64>();
    assert!((left / right - 1.0).abs() < 0.03, "{left} {right}");
}

#[test]
fn a_box_that_never_fits_becomes_the_middle() {
    let folder = tempfile::tempdir().unwrap();
    // Ten times as wide as high: a box of nearly all of the area has no ratio of 3:4 to 4:3.
    let path = map_of_places(folder.path(), 200, 20);
    let crop = ImageAugment::RandomResizedCrop { scale: (0.9, 1.0), ratio: (0.75, 4.0 / 3.0) };
    for key in keys(5) {
        let picture = Studio::new(&path, Some((20, 27)), std::slice::from_ref(&crop)).picture(key);
        assert_eq!(picture, picture.map(|x, y| [86 + x as u8, y as u8, 255]));
    }
}

#[test]
fn a_crop_of_a_jpeg_is_cut_from_the_whole_picture_in_any_orientation() {
    let crop = ImageAugment::RandomResizedCrop { scale: (0.1, 0.6), ratio: (0.5, 2.0) };
    let names = (1..=8).map(|orientation| format!("images/orientation-{orientation}.jpg"));
    for name in names.chain(["photos/china.jpg".to_owned(), "images/cmyk.jpg".to_owned()]) {
        let path = fixture(&name);
        let whole = Studio::new(&path, None, &[]).picture(RandomKey::new(0));
        for key in keys(12) {
            let [left, top, width, height] =
                naive_crop(whole.width as u32, whole.height as u32, (0.1, 0.6), (0.5, 2.0), key);
            let cut = Studio::new(&path, Some((height, width)), std::slice::from_ref(&crop)).picture(key);
            let expected = cut.map(|x, y| whole.at(left as usize + x, top as usize + y));
            assert!(cut == expected, "{name}: {left} {top} {width} {height}");
        }
    }
}

#[test]
fn erasing_fills_one_box_within_its_limits() {
    let folder = tempfile::tempdir().unwrap();
    let path = map_of_places(folder.path(), 120, 100);
    let erasing =
        ImageAugment::RandomErasing { probability: 0.5, scale: (0.02, 0.33), ratio: (0.3, 3.3), value: [1, 2, 3] };
    let mut studio = Studio::new(&path, None, &[erasing]);
    let (mut erased, mut sum_of_areas) = (0, 0.0);
    for sample in keys(1000) {
        let picture = studio.picture(sample);
        let key = sample.with(5 << 32);
        // torchvision's `RandomErasing.get_params`.
        let hit = (key.unit(u64::MAX) < 0.5).then(|| {
            (0..10).find_map(|attempt| {
                let area = 12_000.0 * (0.02 + 0.31 * key.unit(4 * attempt));
                let aspect = (0.3f64.ln() + (3.3f64.ln() - 0.3f64.ln()) * key.unit(4 * attempt + 1)).exp();
                let h = (area * aspect).sqrt().round_ties_even() as usize;
                let w = (area / aspect).sqrt().round_ties_even() as usize;
                (h < 100 && w < 120).then(|| {
                    let top = (key.unit(4 * attempt + 2) * (100 - h + 1) as f64) as usize;
                    let left = (key.unit(4 * attempt + 3) * (120 - w + 1) as f64) as usize;
                    (left, top, w, h)
                })
            })
        });
        let (left, top, w, h) = hit.flatten().unwrap_or_default();
        let expected = picture.map(|x, y| match (left..left + w).contains(&x) && (top..top + h).contains(&y) {
            true => [1, 2, 3],
            false => [x as u8, y as u8, 255],
        });
        assert!(picture == expected, "{left} {top} {w} {h}");
        if w > 0 {
            erased += 1;
            sum_of_areas += (w * h) as f64 / 12_000.0;
        }
    }
    assert!((430..570).contains(&erased), "{erased}");
    let mean = sum_of_areas / f64::from(erased);
    assert!((0.14..0.20).contains(&mean), "{mean}");
}

#[test]
fn rotation_takes_each_pixel_from_where_it_was() {
    let folder = tempfile::tempdir().unwrap();
    let path = map_of_places(folder.path(), 101, 61);
    let rotation = ImageAugment::Rotation { degrees: 40.0, interpolation: Interpolation::Nearest };
    let mut studio = Studio::new(&path, None, &[rotation]);
    let mut angles = Vec::new();
    for sample in keys(200) {
        let picture = studio.picture(sample);
        let degrees = -40.0 + 80.0 * sample.with(6 << 32).unit(0);
        angles.push(degrees);
        let (sin, cos) = degrees.to_radians().sin_cos();
        let mut differing = 0;
        for y in 0..61 {
            for x in 0..101 {
                // Forth instead of back: the pixel that came here, turned counter-clockwise, lies within half a
                // diagonal.
                let [was_x, was_y, blue] = picture.at(x, y).map(f64::from);
                if blue == 0.0 {
                    continue;
                }
                let (right, down) = (was_x - 50.0, was_y - 30.0);
                let (now_x, now_y) = (cos * right + sin * down + 50.0, -sin * right + cos * down + 30.0);
                differing += u32::from((now_x - x as f64).hypot(now_y - y as f64) > 0.7072);
            }
        }
        assert_eq!(differing, 0, "{degrees}");
        // The middle stays; the corners are black unless the angle is small.
        assert_eq!(picture.at(50, 30), [50, 30, 255]);
        assert!(degrees.abs() < 1.0 || picture.at(0, 0) == [0; 3] && picture.at(100, 60) == [0; 3], "{degrees}");
    }
    assert!(angles.iter().any(|angle| *angle < -35.0) && angles.iter().any(|angle| *angle > 35.0));
}

#[test]
fn jitter_changes_brightness_evenly_and_colours_in_every_order() {
    let path = fixture("images/rgb.png");
    let original = Studio::new(&path, None, &[]).picture(RandomKey::new(0));
    let only = |brightness, contrast, saturation, hue| colour_jitter(brightness, contrast, saturation, hue);
    let mut studio = Studio::new(&path, None, &[only(0.4, 0.0, 0.0, 0.0)]);
    let mut factors = Vec::new();
    for sample in keys(2000) {
        let picture = studio.picture(sample);
        let factor = (0.6 + 0.8 * sample.with(4 << 32).unit(0)) as f32;
        let expected = original.map(|x, y| original.at(x, y).map(|value| (f32::from(value) * factor).min(255.0) as u8));
        assert!(picture == expected, "{factor}");
        factors.push(f64::from(factor));
    }
    let mean = factors.iter().sum::<f64>() / factors.len() as f64;
    assert!((mean - 1.0).abs() < 0.02, "{mean}");
    assert!(factors.iter().all(|factor| (0.6..1.4).contains(factor)));
    // Saturation and hue leave grey alone; brightness and contrast keep it grey.
    let grey = fixture("images/grey.png");
    let before = Studio::new(&grey, None, &[]).picture(RandomKey::new(0));
    let mut studio = Studio::new(&grey, None, &[only(0.0, 0.0, 0.9, 0.5)]);
    assert!(keys(20).all(|sample| studio.picture(sample) == before));
    let mut studio = Studio::new(&grey, None, &[only(0.5, 0.5, 0.5, 0.5)]);
    for sample in keys(20) {
        let picture = studio.picture(sample);
        assert!(picture.pixels.iter().all(|[red, green, blue]| red == green && green == blue));
        assert_ne!(picture, before);
    }
    // Contrast without range about the mean: at a factor of 0 all is one grey.
    let nothing = only(0.0, 0.0, 0.0, 0.0);
    assert_eq!(Studio::new(&path, None, &[nothing]).picture(RandomKey::new(3)), original);
}

fn every_operation() -> Vec<ImageAugment> {
    vec![
        random_resized_crop(),
        horizontal_flip(),
        ImageAugment::ColourJitter { brightness: 0.4, contrast: 0.4, saturation: 0.4, hue: 0.1, probability: 1.0 },
        ImageAugment::Rotation { degrees: 15.0, interpolation: Interpolation::Bilinear },
        vertical_flip(),
        random_erasing(),
    ]
}

/// Those that came later, which always happen.
fn further_operations() -> Vec<ImageAugment> {
    vec![
        ImageAugment::RandomCrop { padding: 3, edge: Edge::Reflect, fill: [0; 3] },
        ImageAugment::Affine {
            degrees: 10.0,
            translate: (0.1, 0.2),
            scale: (0.8, 1.2),
            shear: (5.0, 7.0),
            interpolation: Interpolation::Bilinear,
            fill: [9, 8, 7],
        },
        ImageAugment::GaussianBlur { kernel: Some(5), sigma: (0.1, 2.0), probability: 1.0 },
        ImageAugment::RandomGrey { probability: 0.5 },
        ImageAugment::Solarise { threshold: 200, probability: 0.5 },
        ImageAugment::Posterise { bits: 5, probability: 0.5 },
        ImageAugment::Equalise { probability: 0.5 },
        ImageAugment::Autocontrast { probability: 0.5 },
        ImageAugment::Invert { probability: 0.5 },
        ImageAugment::Sharpness { factor: 1.7, probability: 0.5 },
    ]
}

fn policies() -> Vec<ImageAugment> {
    vec![rand_augment(), trivial_augment(), auto_augment(LearnedPolicy::Cifar10), aug_mix()]
}

/// Each sample's bytes in the next epoch.
fn by_sample(iterator: &mut dyn DataSetIterator) -> BTreeMap<u64, Vec<u8>> {
    let mut samples = BTreeMap::new();
    for batch in see_all(iterator) {
        let row = batch.tensors[0].len() / batch.samples.len();
        for (sample, bytes) in batch.samples.iter().zip(batch.tensors[0].chunks_exact(row)) {
            assert!(samples.insert(*sample, bytes.to_vec()).is_none());
        }
    }
    samples
}

fn photos() -> Loader {
    let list = [every_operation(), further_operations(), policies()].concat();
    Loader::images(fixture("photos")).size(40, 48).augment(list).batch_size(4).workers(1)
}

#[test]
fn a_sample_is_the_same_picture_whatever_makes_it() {
    let shuffled = |seed: u64| photos().shuffle(seed);
    let mut first = shuffled(7).build().unwrap();
    let epoch_0 = by_sample(&mut *first);
    first.reset().unwrap();
    let epoch_1 = by_sample(&mut *first);
    assert_eq!(epoch_0.len(), 6);
    for sample in 0..6 {
        assert_ne!(epoch_0[&sample], epoch_1[&sample], "another epoch, another picture");
    }
    for (what, loader) in [
        ("2 workers", shuffled(7).workers(2)),
        ("3 workers, no prefetch", shuffled(7).workers(3).prefetch(0)),
        ("shield", shuffled(7).shield()),
        ("batches of 1", shuffled(7).batch_size(1)),
        ("batches of 6", shuffled(7).batch_size(6).workers(3)),
    ] {
        let mut iterator = loader.build().unwrap();
        assert!(by_sample(&mut *iterator) == epoch_0, "{what}");
        iterator.reset().unwrap();
        assert!(by_sample(&mut *iterator) == epoch_1, "{what}");
    }
    // From the middle of the second epoch on.
    let mut iterator = shuffled(7).batch_size(2).build().unwrap();
    iterator.by_ref().for_each(|batch| drop(batch.unwrap()));
    iterator.reset().unwrap();
    iterator.next().unwrap().unwrap();
    let state = iterator.state();
    let mut resumed = shuffled(7).batch_size(2).workers(2).build().unwrap();
    resumed.seek(&state).unwrap();
    let rest = by_sample(&mut *resumed);
    assert_eq!(rest.len(), 4);
    assert!(rest.iter().all(|(sample, bytes)| epoch_1[sample] == *bytes));

    let other_seed = by_sample(&mut *shuffled(8).build().unwrap());
    assert!((0..6).all(|sample| other_seed[&sample] != epoch_0[&sample]), "another seed, another picture");
    // Without a shuffle the order is another one; the pictures of seed 0 are the same.
    let (ordered, shuffled_0) = (photos().build().unwrap(), photos().shuffle(0).build().unwrap());
    let [mut ordered, mut shuffled_0] = [ordered, shuffled_0];
    assert!(by_sample(&mut *ordered) == by_sample(&mut *shuffled_0));
}

#[test]
fn an_index_of_jpeg_files_changes_no_picture_in_any_epoch() {
    let epochs = |index_bytes: u64, workers: usize| -> Vec<BTreeMap<u64, Vec<u8>>> {
        let cropped = Image::rgb(40, 48).augment(vec![random_resized_crop(), horizontal_flip()]);
        let loader = Loader::images(fixture("photos")).field("image", cropped.jpeg_index_bytes(index_bytes));
        let mut iterator = loader.shuffle(3).batch_size(2).workers(workers).build().unwrap();
        let mut epoch = || {
            let samples = by_sample(&mut *iterator);
            iterator.reset().unwrap();
            samples
        };
        (0..4).map(|_| epoch()).collect()
    };
    let plain = epochs(0, 1);
    assert!(plain.windows(2).all(|pair| pair[0] != pair[1]));
    for (index_bytes, workers) in [(1 << 20, 1), (1 << 20, 3), (50_000, 2)] {
        assert!(epochs(index_bytes, workers) == plain, "{index_bytes} bytes, {workers} workers");
    }
}

#[test]
fn augmented_pictures_never_change_between_versions() {
    // These hashes may change only with a note in the changelog: runs that were started before could not be continued.
    // BMP and PNG, so that no decoder's rounding is in them. The resizing of the last one is arithmetic of whole
    // numbers, the same for every processor.
    let folder = tempfile::tempdir().unwrap();
    let places = map_of_places(folder.path(), 96, 80);
    let picture = fixture("photos/chelsea.png");
    let of = |path: &Path, size: Option<(u32, u32)>, list: &[ImageAugment]| {
        let mut studio = Studio::new(path, size, list);
        hash(keys(8).flat_map(|key| studio.picture(key).pixels.into_flattened()))
    };
    let all = every_operation();
    let found = [
        of(&places, None, &all[1..2]),
        of(&places, None, &all[2..3]),
        of(&places, None, &all[3..4]),
        of(&places, None, &all[4..5]),
        of(&places, None, &all[5..6]),
        of(&places, None, &all[1..]),
        of(&picture, None, &all[1..]),
        of(&picture, Some((64, 64)), &all),
    ];
    let expected: [u64; 8] = [
        0xb947_9728_7e29_60a5,
        0x2c8f_c495_7935_65aa,
        0x46e0_38d5_9617_4eef,
        0xc9c6_1d71_4aed_2b25,
        0x1daa_d3b1_0851_36a1,
        0xf5aa_0439_b300_6449,
        0x84ff_d45f_7cf0_8b05,
        0xae33_a655_f5dc_c41a,
    ];
    assert_eq!(found.map(|hash| format!("{hash:#018x}")), expected.map(|hash| format!("{hash:#018x}")));
    // Of later operations each by itself, and together; the blur is arithmetic of fractions, and left out of these.
    let mut further = further_operations();
    further.remove(2);
    let mut found: Vec<u64> = further.chunks(1).map(|one| of(&picture, None, one)).collect();
    found.push(of(&picture, Some((64, 64)), &[&all[..2], &further].concat()));
    let expected: [u64; 10] = [
        0x59a7_e5f3_15d1_66f7,
        0x2f90_bd61_1119_0873,
        0x83e6_b72d_93fb_be5d,
        0x4cb8_c466_3313_8a50,
        0x615a_d120_304c_b341,
        0xcd29_05c8_4e9a_b541,
        0x45b0_8ee0_67b6_ec51,
        0xa9b5_bcbf_13b4_d975,
        0xba9a_00a1_e80e_cae7,
        0x4094_7e05_3b84_c116,
    ];
    let words = |hashes: &[u64]| hashes.iter().map(|hash| format!("{hash:#018x}")).collect::<Vec<_>>();
    assert_eq!(words(&found), words(&expected));
}

#[test]
fn operations_happen_as_often_as_they_should() {
    for operation in [
        ImageAugment::ColourJitter { brightness: 0.9, contrast: 0.0, saturation: 0.0, hue: 0.0, probability: 0.25 },
        ImageAugment::GaussianBlur { kernel: Some(3), sigma: (1.0, 2.0), probability: 0.25 },
        ImageAugment::RandomGrey { probability: 0.25 },
        ImageAugment::Solarise { threshold: 128, probability: 0.25 },
        ImageAugment::Posterise { bits: 3, probability: 0.25 },
        ImageAugment::Equalise { probability: 0.25 },
        ImageAugment::Autocontrast { probability: 0.25 },
        ImageAugment::Invert { probability: 0.25 },
        ImageAugment::Sharpness { factor: 9.0, probability: 0.25 },
    ] {
        // Filters change nothing about a ramp, and the other picture has no contrast to gain.
        let of_neighbours = matches!(operation, ImageAugment::Sharpness { .. } | ImageAugment::GaussianBlur { .. });
        let path = fixture(if of_neighbours { "jpeg/rgb.jpg" } else { "images/rgb.png" });
        let original = Studio::new(&path, None, &[]).picture(RandomKey::new(0));
        let mut studio = Studio::new(&path, None, std::slice::from_ref(&operation));
        let changed = keys(1000).filter(|key| studio.picture(*key) != original).count();
        // 250 expected; the deviation of a binomial distribution is 14.
        assert!((195..305).contains(&changed), "{operation:?}: {changed}");
    }
}

#[test]
fn a_padded_crop_is_anywhere_evenly() {
    let folder = tempfile::tempdir().unwrap();
    let path = map_of_places(folder.path(), 60, 50);
    let crop = ImageAugment::RandomCrop { padding: 2, edge: Edge::Constant, fill: [1, 2, 3] };
    let mut studio = Studio::new(&path, None, &[crop]);
    let mut counts = BTreeMap::new();
    for key in keys(2500) {
        let picture = studio.picture(key);
        let [x, y, _] = picture.at(30, 25).map(i64::from);
        let (right, down) = (x - 30, y - 25);
        let expected = picture.map(|x, y| {
            let (x, y) = (x as i64 + right, y as i64 + down);
            let inside = (0..60).contains(&x) && (0..50).contains(&y);
            if inside { [x as u8, y as u8, 255] } else { [1, 2, 3] }
        });
        assert!(picture == expected, "{right} {down}");
        *counts.entry((right, down)).or_insert(0) += 1;
    }
    // 25 places, 100 each; the deviation of each is 10.
    assert_eq!(counts.len(), 25);
    assert!(counts.keys().all(|(x, y)| x.abs() <= 2 && y.abs() <= 2));
    assert!(counts.values().all(|count| (60..140).contains(count)), "{counts:?}");
}

#[test]
fn an_operation_draws_the_same_whatever_stands_beside_it() {
    let path = fixture("images/rgb.png");
    let flip = horizontal_flip();
    let mut alone = Studio::new(&path, None, std::slice::from_ref(&flip));
    let dark =
        ImageAugment::ColourJitter { brightness: 0.0, contrast: 0.0, saturation: 0.0, hue: 0.0, probability: 1.0 };
    let mut beside = Studio::new(&path, None, &[dark.clone(), flip.clone(), dark]);
    assert!(keys(50).all(|key| alone.picture(key) == beside.picture(key)));
    // A second operation of a kind draws on its own: two flips are not none.
    let original = Studio::new(&path, None, &[]).picture(RandomKey::new(0));
    let mut twice = Studio::new(&path, None, &[flip.clone(), flip]);
    let unchanged = keys(400).filter(|key| twice.picture(*key) == original).count();
    assert!((150..250).contains(&unchanged), "{unchanged}");
}

#[test]
fn two_sources_of_one_loader_are_cropped_and_flipped_alike() {
    let folder = tempfile::tempdir().unwrap();
    for name in ["a", "b", "c", "d"] {
        fs::create_dir_all(folder.path().join("left")).unwrap();
        let path = map_of_places(folder.path(), 90, 70);
        fs::rename(path, folder.path().join(format!("left/{name}.bmp"))).unwrap();
    }
    let side = |name: &str| {
        let augment = vec![random_resized_crop(), horizontal_flip()];
        let (size, image_name) = (Some((32, 32)), name.to_owned());
        let options = ImageOptions { size, augment, image_name, ..ImageOptions::default() };
        ImageFolder::open_with(folder.path().join("left"), ImageLabels::None, &options).unwrap()
    };
    let source = ReaderSource::new(side("picture")).and(side("segments")).shuffle(1);
    for batch in see_all(&mut *wrap(source, &workspace(2, 1)).unwrap()) {
        assert_eq!(batch.tensors[0], batch.tensors[1]);
    }
}

fn images(options: ImageOptions) -> Loader {
    Loader::images(fixture("photos")).field("image", Image::with(options))
}

#[test]
fn float_tensors_hold_the_augmented_bytes_and_native_sizes_work() {
    let list = every_operation()[1..].to_vec();
    let load = |dtype: DType| {
        let options = ImageOptions { dtype, augment: list.clone(), ..ImageOptions::default() };
        let mut iterator = images(options).batch_size(6).build().unwrap();
        see_all(&mut *iterator).remove(0)
    };
    let (bytes, floats) = (load(DType::U8), load(DType::F32));
    assert_eq!(bytes.shapes[0], [6, 3, 512, 640]);
    let floats: Vec<f32> = bytemuck::pod_collect_to_vec(&floats.tensors[0]);
    assert!(floats.iter().copied().eq(bytes.tensors[0].iter().map(|value| f32::from(*value))));
    // Whole numbers up to 256 are exact in both types of 16 bits.
    let halves: Vec<f16> = bytemuck::pod_collect_to_vec(&load(DType::F16).tensors[0]);
    assert!(halves.iter().map(|half| half.to_f32()).eq(floats.iter().copied()));
    // Outside of the mask there is nothing.
    let (plane, mask) = (512 * 640, &bytes.tensors[1]);
    for sample in 0..6 {
        for pixel in (0..plane).filter(|pixel| mask[sample * plane + pixel] == 0) {
            assert!((0..3).all(|c| bytes.tensors[0][(sample * 3 + c) * plane + pixel] == 0));
        }
    }
}

#[test]
fn mirrored_images_of_16_bits_are_those_of_bytes() {
    for order in [PixelOrder::Nchw, PixelOrder::Nhwc] {
        let load = |dtype| {
            let augment = vec![ImageAugment::HorizontalFlip { probability: 0.5 }];
            let options = ImageOptions { dtype, augment, order, size: Some((5, 300)), ..ImageOptions::default() };
            let mut iterator = images(options).batch_size(6).build().unwrap();
            see_all(&mut *iterator).remove(0).tensors.remove(0)
        };
        let bytes = load(DType::U8);
        let halves: Vec<f16> = bytemuck::pod_collect_to_vec(&load(DType::F16));
        let upper_halves: Vec<bf16> = bytemuck::pod_collect_to_vec(&load(DType::Bf16));
        assert!(halves.iter().map(|half| half.to_f32()).eq(bytes.iter().map(|value| f32::from(*value))));
        assert!(upper_halves.iter().map(|half| half.to_f32()).eq(bytes.iter().map(|value| f32::from(*value))));
    }
}

#[test]
fn nonsense_is_refused_with_all_of_its_faults() {
    let faults = |size, augment: Vec<ImageAugment>| ImageOptions { size, augment, ..ImageOptions::default() }.faults();
    assert!(faults(Some((8, 8)), every_operation()).is_empty());
    let crop = random_resized_crop();
    for (size, list, part) in [
        (None, vec![crop.clone()], "needs a size"),
        (Some((8, 8)), vec![crop.clone(), crop.clone()], "must be the first operation, and only once"),
        (Some((8, 8)), vec![horizontal_flip(), crop], "must be the first operation"),
        (None, vec![ImageAugment::HorizontalFlip { probability: 1.5 }], "horizontal_flip: a probability of 1.5"),
        (None, vec![ImageAugment::VerticalFlip { probability: f64::NAN }], "vertical_flip: a probability of NaN"),
        (None, vec![ImageAugment::Rotation { degrees: -1.0, interpolation: Interpolation::Nearest }], "degrees = -1"),
        (
            None,
            vec![ImageAugment::ColourJitter {
                brightness: -0.1,
                contrast: 0.0,
                saturation: 0.0,
                hue: 0.0,
                probability: 1.0,
            }],
            "brightness = -0.1",
        ),
        (
            None,
            vec![ImageAugment::ColourJitter {
                brightness: 0.0,
                contrast: 0.0,
                saturation: 0.0,
                hue: 0.6,
                probability: 1.0,
            }],
            "hue = 0.6",
        ),
        (
            Some((8, 8)),
            vec![ImageAugment::RandomResizedCrop { scale: (0.5, 0.1), ratio: (1.0, 1.0) }],
            "a scale from 0.5 to 0.1",
        ),
        (
            None,
            vec![ImageAugment::RandomErasing { probability: 0.5, scale: (0.1, 0.2), ratio: (0.0, 1.0), value: [0; 3] }],
            "a ratio from 0 to 1",
        ),
        (None, vec![random_crop(1 << 21)], "padding = 2097152"),
        (None, vec![ImageAugment::GaussianBlur { kernel: Some(4), sigma: (0.1, 2.0), probability: 1.0 }], "odd"),
        (None, vec![ImageAugment::GaussianBlur { kernel: Some(257), sigma: (0.1, 2.0), probability: 1.0 }], "at most"),
        (
            None,
            vec![ImageAugment::GaussianBlur { kernel: None, sigma: (0.0, 2.0), probability: 1.0 }],
            "a sigma from 0",
        ),
        (None, vec![ImageAugment::Posterise { bits: 0, probability: 1.0 }], "bits = 0"),
        (None, vec![ImageAugment::Sharpness { factor: -1.0, probability: 1.0 }], "factor = -1"),
        (None, vec![ImageAugment::Invert { probability: 2.0 }], "invert: a probability of 2"),
        (None, vec![serde_json::from_str(r#"{"kind": "rand_augment", "magnitude": 31}"#).unwrap()], "the last is 30"),
        (None, vec![serde_json::from_str(r#"{"kind": "trivial_augment", "bins": 1}"#).unwrap()], "bins = 1"),
        (None, vec![serde_json::from_str(r#"{"kind": "aug_mix", "severity": 11}"#).unwrap()], "severity = 11"),
        (None, vec![serde_json::from_str(r#"{"kind": "aug_mix", "width": 17}"#).unwrap()], "width = 17"),
    ] {
        let found = faults(size, list);
        assert!(found.len() == 1 && found[0].contains(part), "{found:?}");
    }
    let fit = ringfeed::images::CropFit::CenterCrop { shorter: 9 };
    let options = ImageOptions { size: Some((8, 8)), fit, augment: every_operation(), ..ImageOptions::default() };
    assert!(options.faults()[0].contains("both choose a part"));
    let error = Loader::csv(fixture("iris.csv")).augment([horizontal_flip()]).build().err().unwrap();
    assert!(error.to_string().contains("augment_numbers"), "{error}");
}

#[test]
fn settings_are_plain_data_with_the_defaults_of_torchvision() {
    let text = r#"
        augment = [
            { kind = "random_resized_crop" },
            { kind = "horizontal_flip" },
            { kind = "vertical_flip", probability = 0.1 },
            { kind = "colour_jitter", hue = 0.2 },
            { kind = "random_erasing", value = [1, 2, 3] },
            { kind = "rotation", degrees = 10.0 },
            { kind = "random_crop", padding = 4, edge = "reflect" },
            { kind = "affine", degrees = 5, shear = [1, 0] },
            { kind = "gaussian_blur" },
            { kind = "random_grey" },
            { kind = "solarize" },
            { kind = "posterise", bits = 4 },
            { kind = "equalize", probability = 0.2 },
            { kind = "autocontrast" },
            { kind = "invert" },
            { kind = "sharpness", factor = 2 },
            { kind = "rand_augment" },
            { kind = "trivial_augment" },
            { kind = "auto_augment", policy = "cifar10" },
            { kind = "aug_mix" },
        ]
    "#;
    let options: ImageOptions = toml::from_str(text).unwrap();
    let expected = [
        ImageAugment::RandomResizedCrop { scale: (0.08, 1.0), ratio: (3.0 / 4.0, 4.0 / 3.0) },
        ImageAugment::HorizontalFlip { probability: 0.5 },
        ImageAugment::VerticalFlip { probability: 0.1 },
        ImageAugment::ColourJitter { brightness: 0.0, contrast: 0.0, saturation: 0.0, hue: 0.2, probability: 1.0 },
        ImageAugment::RandomErasing { probability: 0.5, scale: (0.02, 0.33), ratio: (0.3, 3.3), value: [1, 2, 3] },
        ImageAugment::Rotation { degrees: 10.0, interpolation: Interpolation::Nearest },
        ImageAugment::RandomCrop { padding: 4, edge: Edge::Reflect, fill: [0; 3] },
        ImageAugment::Affine {
            degrees: 5.0,
            translate: (0.0, 0.0),
            scale: (1.0, 1.0),
            shear: (1.0, 0.0),
            interpolation: Interpolation::Nearest,
            fill: [0; 3],
        },
        ImageAugment::GaussianBlur { kernel: None, sigma: (0.1, 2.0), probability: 1.0 },
        ImageAugment::RandomGrey { probability: 0.1 },
        ImageAugment::Solarise { threshold: 128, probability: 0.5 },
        ImageAugment::Posterise { bits: 4, probability: 0.5 },
        ImageAugment::Equalise { probability: 0.2 },
        ImageAugment::Autocontrast { probability: 0.5 },
        ImageAugment::Invert { probability: 0.5 },
        ImageAugment::Sharpness { factor: 2.0, probability: 0.5 },
    ];
    assert_eq!(options.augment, [&expected[..], &policies()].concat());
    let json = serde_json::to_string(&options).unwrap();
    assert_eq!(serde_json::from_str::<ImageOptions>(&json).unwrap(), options);
    for wrong in [
        r#"augment = [{ kind = "cutout" }]"#,
        r#"augment = [{ kind = "horizontal_flip", p = 0.5 }]"#,
        r#"augment = [{ kind = "rotation" }]"#,
    ] {
        assert!(toml::from_str::<ImageOptions>(wrong).is_err(), "{wrong}");
    }
    assert!(ImageOptions::default().augment.is_empty(), "off unless it is listed");
}

#[test]
fn recipes_are_lists_by_a_name() {
    for (name, recipe, count) in [
        ("imagenet", AugmentRecipe::Imagenet, 2),
        ("cifar", AugmentRecipe::Cifar, 2),
        ("simclr", AugmentRecipe::Simclr, 5),
        ("dino_global", AugmentRecipe::DinoGlobal, 5),
        ("dino_global_2", AugmentRecipe::DinoGlobal2, 6),
        ("dino_local", AugmentRecipe::DinoLocal, 5),
    ] {
        let text = format!("size = [32, 32]\naugment = {name:?}");
        let options: ImageOptions = toml::from_str(&text).unwrap();
        assert_eq!(options.augment, recipe.operations());
        assert_eq!(options.augment.len(), count);
        assert!(options.faults().is_empty(), "{name}: {:?}", options.faults());
    }
    let error = toml::from_str::<ImageOptions>("augment = \"simclear\"").unwrap_err().to_string();
    assert!(error.contains("simclr"), "{error}");
}

#[test]
fn views_of_a_sample_are_pictures_of_their_own() {
    let text = |workers: usize, shield: bool| {
        format!(
            r#"
                batch_size = 3
                workers = {workers}
                shield = {shield}
                [source]
                path = "fixtures/photos"
                [fields]
                global_1 = {{ from = "image", image = [48, 48], augment = "dino_global", resize = "bicubic" }}
                global_2 = {{ from = "image", image = [48, 48], augment = "dino_global_2", resize = "bicubic" }}
                local_1 = {{ from = "image", image = [24, 24], augment = "dino_local", resize = "bicubic" }}
                local_2 = {{ from = "image", image = [24, 24], augment = "dino_local", resize = "bicubic" }}
            "#
        )
    };
    let run = |workers, shield| {
        let config: LoaderConfig = toml::from_str(&text(workers, shield)).unwrap();
        see_all(&mut *Loader::from(config).build().unwrap())
    };
    let (once, again) = (run(2, false), run(1, true));
    assert_eq!(once.len(), 2);
    for (batch, same) in once.iter().zip(&again) {
        assert!(batch.tensors == same.tensors);
        assert_eq!(batch.shapes[..4], [vec![3, 3, 48, 48], vec![3, 3, 48, 48], vec![3, 3, 24, 24], vec![3, 3, 24, 24]]);
        assert_ne!(batch.tensors[2], batch.tensors[3], "the same operations under another key");
    }
}

fn noise(deviation: f64) -> NumberAugment {
    NumberAugment::Noise { deviation, probability: 1.0 }
}

fn augmented(source: ReaderSource, tensor: &str, list: Vec<NumberAugment>) -> Transformed<ReaderSource> {
    Transformed::new(source, list.into_iter().map(|one| one.on(tensor)).collect())
}

fn floats(bytes: &[u8]) -> Vec<f32> {
    bytemuck::pod_collect_to_vec(bytes)
}

#[test]
fn noise_is_normal_and_masking_hits_its_share() {
    let reader = || MemoryReader::new("x", Role::Feature, &[100], vec![3.0f32; 100 * 200]).unwrap();
    let run = |list: Vec<NumberAugment>| {
        let source = augmented(ReaderSource::new(reader()).batch_size(200), "x", list);
        floats(&see_all(&mut *wrap(source, &workspace(2, 1)).unwrap())[0].tensors[0])
    };
    let noisy = run(vec![noise(0.5)]);
    let mean = noisy.iter().map(|x| f64::from(*x)).sum::<f64>() / 20_000.0;
    let variance = noisy.iter().map(|x| (f64::from(*x) - mean).powi(2)).sum::<f64>() / 20_000.0;
    assert!((mean - 3.0).abs() < 0.02 && (variance - 0.25).abs() < 0.01, "{mean} {variance}");
    let beyond = noisy.iter().filter(|x| (**x - 3.0).abs() > 1.0).count();
    assert!((780..1040).contains(&beyond), "4.55 % lie beyond two deviations: {beyond}");

    let masked = run(vec![NumberAugment::Masking { probability: 0.2, value: -1.0 }]);
    let count = masked.iter().filter(|x| **x == -1.0).count();
    assert!((3800..4200).contains(&count) && masked.iter().all(|x| [-1.0, 3.0].contains(x)), "{count}");
    // Not the same elements in every sample.
    assert_ne!(masked[..100], masked[100..200]);

    let sometimes = run(vec![NumberAugment::Noise { deviation: 1.0, probability: 0.3 }]);
    let changed = sometimes.chunks_exact(100).filter(|sample| sample[0] != 3.0).count();
    assert!((35..90).contains(&changed), "{changed}");
    // In the order of the list: noise on what was masked, or masking of what is noisy.
    let masking = NumberAugment::Masking { probability: 1.0, value: 0.0 };
    assert!(run(vec![noise(1.0), masking.clone()]).iter().all(|x| *x == 0.0));
    assert!(run(vec![masking, noise(1.0)]).iter().all(|x| *x != 0.0 && x.abs() < 6.0));
    // Hashed without logarithms, whose last digit is the mathematics library's: rounded to thousandths.
    let rounded = noisy[..1000].iter().flat_map(|x| ((x * 1000.0).round() as i32).to_le_bytes());
    let masks = masked[..1000].iter().map(|x| u8::from(*x == 3.0));
    assert_eq!((hash(rounded), hash(masks)), (0xead2_ffb7_cf05_7f01, 0x1032_0cb9_84ff_c315));
}

#[test]
fn noise_leaves_padding_alone_and_does_not_depend_on_it() {
    let run = |batch_size: usize, workers: usize| {
        let mut all = BTreeMap::new();
        let source = augmented(ReaderSource::new(Waves::new(40, 9)), "wave", vec![noise(1.0)]);
        // The mask of waves is called "mask": none for "wave", so it is refused.
        assert_eq!(Box::new(source).open().err().unwrap().kind(), ErrorKind::Schema);
        let source = ReaderSource::new(Masked(Waves::new(40, 9))).batch_size(batch_size).shuffle(3);
        let source = augmented(source, "wave", vec![noise(1.0)]);
        let clean = Waves::new(40, 9);
        for batch in see_all(&mut *wrap(source, &workspace(workers, 2)).unwrap()) {
            let steps = batch.shapes[0][1];
            let values = floats(&batch.tensors[0]);
            for (sample, row) in batch.samples.iter().zip(values.chunks_exact(steps * 3)) {
                let (data, padding) = row.split_at(3 * clean.length(*sample));
                assert!(padding.iter().all(|x| *x == 0.0), "padding stays 0");
                let changed = data.iter().enumerate();
                assert!(changed.clone().all(|(i, x)| *x != Waves::value(*sample, i / 3, i % 3)));
                all.insert(*sample, data.iter().map(|x| x.to_bits()).collect::<Vec<_>>());
            }
        }
        all
    };
    let alone = run(1, 1);
    assert_eq!(alone.len(), 40);
    assert_eq!(run(7, 3), alone);
}

/// Waves whose mask is named after them.
struct Masked(Waves);

impl RecordReader for Masked {
    fn len(&self) -> u64 {
        self.0.len()
    }

    fn tensors(&self) -> &[ringfeed::tensor::TensorSpec] {
        static TENSORS: std::sync::OnceLock<Vec<ringfeed::tensor::TensorSpec>> = std::sync::OnceLock::new();
        TENSORS.get_or_init(|| {
            let mut tensors = self.0.tensors().to_vec();
            tensors[1].name = "wave_mask".to_owned();
            tensors
        })
    }

    fn measure(&self, sample: u64, scratch: &mut Scratch) -> ringfeed::Result<Extents> {
        self.0.measure(sample, scratch)
    }

    fn decode(&self, sample: Sample, nth: usize, scratch: &mut Scratch, row: &mut RowMut<'_>) -> ringfeed::Result<()> {
        self.0.decode(sample, nth, scratch, row)
    }

    fn place(&self, sample: u64) -> ringfeed::error::Location {
        self.0.place(sample)
    }
}

#[test]
fn padded_images_get_the_noise_that_they_get_alone() {
    let run = |batch_size: usize| {
        let options = ImageOptions { dtype: DType::F32, ..ImageOptions::default() };
        let photos = ["photos/chelsea.png", "images/rgb.png", "images/orientation-6.png"].map(fixture);
        let images = ImageFolder::from_paths(photos, ImageLabels::None, &options).unwrap();
        let source = augmented(ReaderSource::new(images).batch_size(batch_size), "image", vec![noise(5.0)]);
        let mut sums = BTreeMap::new();
        for batch in see_all(&mut *wrap(source, &workspace(2, 1)).unwrap()) {
            let values = floats(&batch.tensors[0]);
            let (row, plane) = (values.len() / batch.samples.len(), batch.tensors[1].len() / batch.samples.len());
            for (index, sample) in batch.samples.iter().enumerate() {
                let mask = &batch.tensors[1][index * plane..][..plane];
                let present = values[index * row..][..row].iter().zip(mask.iter().cycle());
                let outside = present.clone().filter(|(_, mask)| **mask == 0);
                assert!(outside.clone().all(|(x, _)| *x == 0.0));
                let inside = present.filter(|(_, mask)| **mask == 1).flat_map(|(x, _)| x.to_le_bytes());
                sums.insert(*sample, hash(inside));
            }
        }
        sums
    };
    assert_eq!(run(3), run(1));
}

#[test]
fn the_loader_augments_tensors_by_name_after_normalising() {
    let standard = Normaliser::Standardise { mean: vec![5.0], deviation: vec![2.0], axis: None };
    let plain = Loader::csv(fixture("iris.csv")).labels(["virginica"]).normalise("features", standard);
    let clean = see_all(&mut *plain.clone().build().unwrap());
    let masking = NumberAugment::Masking { probability: 0.5, value: 9.0 };
    for loader in [plain.clone(), plain.clone().shuffle(0)] {
        let loader = loader.augment_numbers("features", [masking.clone()]);
        let masked = by_sample(&mut *loader.build().unwrap());
        let mut count = 0;
        for batch in &clean {
            for (sample, row) in batch.samples.iter().zip(batch.tensors[0].chunks_exact(16)) {
                for (x, before) in floats(&masked[sample]).into_iter().zip(floats(row)) {
                    assert!(x == before || x == 9.0);
                    count += u32::from(x == 9.0);
                }
            }
        }
        assert!((250..350).contains(&count), "{count}");
    }
    // A stream of compressed text draws the same numbers as records by index.
    let folder = tempfile::tempdir().unwrap();
    let packed = folder.path().join("iris.csv.gz");
    let mut gzip = flate2::write::GzEncoder::new(fs::File::create(&packed).unwrap(), flate2::Compression::fast());
    std::io::copy(&mut fs::File::open(fixture("iris.csv")).unwrap(), &mut gzip).unwrap();
    gzip.finish().unwrap();
    let of = |path: &Path| {
        let loader = Loader::csv(path).labels(["virginica"]).augment_numbers("features", [noise(1.0)]);
        by_sample(&mut *loader.build().unwrap())
    };
    assert!(of(&packed) == of(&fixture("iris.csv")));

    let error = plain.clone().augment_numbers("feature", [noise(1.0)]).build().err().unwrap();
    assert!(error.to_string().contains("did you mean \"features\"?"), "{error}");
    let error = plain.clone().augment_numbers("labels", [noise(1.0)]).build().err().unwrap();
    assert_eq!(error.kind(), ErrorKind::Schema, "{error}");
    let config: LoaderConfig = toml::from_str(
        r#"
            sources = [{ format = "csv", path = "fixtures/iris.csv" }]
            [augment]
            features = [{ kind = "noise", deviation = -1.0 }, { kind = "masking", probability = 2.0 }]
        "#,
    )
    .unwrap();
    let faults = config.faults();
    assert!(faults.len() == 2 && faults[0].starts_with("augment.features[0].deviation: -1"), "{faults:?}");
}

/// Reads and decodes jobs as wholes; a record by itself is refused.
struct Whole([TensorSpec; 1]);

impl RecordReader for Whole {
    fn len(&self) -> u64 {
        100
    }

    fn tensors(&self) -> &[TensorSpec] {
        &self.0
    }

    fn fetch(&self, _: &[u64], _: usize, _: &mut Scratch) -> ringfeed::Result<()> {
        Err(Error::new(ErrorKind::Data, "read alone"))
    }

    fn decode(&self, _: Sample, _: usize, _: &mut Scratch, _: &mut RowMut<'_>) -> ringfeed::Result<()> {
        Err(Error::new(ErrorKind::Data, "decoded alone"))
    }

    fn fetch_all(&self, job: &mut Job<'_>, _: &mut Scratch) {
        while job.advance().is_some() {}
    }

    fn decode_all(&self, job: &mut Job<'_>, _: &mut Scratch, rows: &mut RowsMut<'_>) {
        while let Some(nth) = job.advance() {
            let x = job.sample(nth).id as f32;
            job.report(rows.row(nth).tensor(0).as_mut_slice::<f32>().map(|row| row[0] = x));
        }
    }

    fn place(&self, _: u64) -> ringfeed::error::Location {
        ringfeed::error::Location::default()
    }
}

#[test]
fn a_job_is_handed_on_whole_whatever_becomes_of_its_rows() {
    let reader = Whole([TensorSpec::new("x", Role::Feature, DType::F32, &[])]);
    let masking = NumberAugment::Masking { probability: 0.0, value: 0.0 };
    let source = augmented(ReaderSource::new(reader).batch_size(100), "x", vec![masking]);
    let batch = wrap(source, &workspace(2, 2)).unwrap().next().unwrap().unwrap();
    let expected: Vec<f32> = (0..100u8).map(f32::from).collect();
    assert_eq!(batch.features().unwrap().as_slice::<f32>().unwrap(), expected);
}
