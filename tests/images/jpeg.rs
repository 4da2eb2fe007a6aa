//! JPEG files of all kinds, and with faults: the judge is Pillow, which holds libjpeg-turbo.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};

use crate::common::workspace;
use ringfeed::error::Location;
use ringfeed::images::{ImageFolder, ImageLabels, ImageOptions, JpegDecoder, PixelOrder};
use ringfeed::inspect::verify_source;
use ringfeed::order::RandomKey;
use ringfeed::read::{Concat, RecordReader, RowMut, Sample, Scratch};
use ringfeed::settings::{BadLimits, BadRecords};
use ringfeed::source::{ReaderSource, Source, Transformed};
use ringfeed::tensor::{Extents, Layout, Schema, TensorSpec};
use ringfeed::transform::Transforms;
use ringfeed::workspace::{shield, wrap};
use ringfeed::{Error, ErrorKind, Result};

fn path(name: &str) -> PathBuf {
    [env!("CARGO_MANIFEST_DIR"), "fixtures", "jpeg", &format!("{name}.jpg")].iter().collect()
}

/// The check sum of each file's pixels according to Pillow; none if it refuses the file.
fn expected() -> BTreeMap<String, Option<u32>> {
    let text = fs::read_to_string(path("").with_file_name("expected.json")).unwrap();
    serde_json::from_str(&text).unwrap()
}

/// The check sum of a file's pixels.
fn check_sum(file: PathBuf, options: &ImageOptions) -> Result<u32> {
    let options = ImageOptions { order: PixelOrder::Nhwc, ..options.clone() };
    let reader = ImageFolder::from_paths([file], ImageLabels::None, &options)?;
    let mut scratch = Scratch::default();
    let extents: Extents = reader.measure(0, &mut scratch)?;
    let mut layout = Layout::default();
    layout.compute(&Schema::new(reader.tensors().to_vec())?, 1, extents)?;
    let mut slot = vec![0xaaaa_aaaa_aaaa_aaaau64; layout.bytes().div_ceil(8)];
    reader.fetch(&[0], 0, &mut scratch)?;
    let mut row = RowMut::new(bytemuck::cast_slice_mut(&mut slot), reader.tensors(), &layout, 0);
    reader.decode(Sample { id: 0, key: RandomKey::new(0) }, 0, &mut scratch, &mut row)?;
    Ok(crc32fast::hash(row.tensor(0).bytes_mut()))
}

/// Files that libjpeg loads without a word, although scans are missing.
fn is_incomplete(name: &str) -> bool {
    name.starts_with("incomplete")
}

/// Files without a fault.
fn is_valid(name: &str) -> bool {
    const FAULTS: [&str; 12] = [
        "stray",
        "note",
        "short",
        "surplus",
        "restart-",
        "no-end",
        "no-code",
        "zeros",
        "scan-header",
        "flipped",
        "cut",
        "incomplete",
    ];
    !FAULTS.iter().any(|fault| name.starts_with(fault))
}

#[test]
fn every_file_has_pillows_pixels_or_is_refused() {
    let (mut loaded, mut refused) = (0, 0);
    for (name, expected) in expected() {
        let found = check_sum(path(&name), &ImageOptions::default());
        match (expected, found) {
            (Some(_), Err(error)) if is_incomplete(&name) => {
                assert!(error.message().contains("scans are missing"), "{name}: {error}");
                refused += 1;
            }
            (None, Err(error)) => {
                assert!(error.message().contains("truncated"), "{name}: {error}");
                refused += 1;
            }
            (expected, found) => {
                assert_eq!(expected, Some(found.unwrap_or_else(|error| panic!("{name}: {error}"))), "{name}");
                loaded += 1;
            }
        }
    }
    assert_eq!((loaded, refused), (53, 6));
}

#[test]
fn the_library_decoder_gives_the_same_pixels_or_an_error() {
    let mut loaded = 0;
    for (name, expected) in expected() {
        let options = ImageOptions { jpeg: JpegDecoder::LibjpegTurbo, ..ImageOptions::default() };
        if let Ok(found) = check_sum(path(&name), &options) {
            assert!(!is_incomplete(&name), "{name}");
            assert_eq!(Some(found), expected, "{name}");
            loaded += 1;
        }
    }
    assert!(loaded >= 10, "{loaded}");
}

#[test]
fn strict_refuses_what_libjpeg_warns_about_and_nothing_else() {
    let options = ImageOptions { strict: true, ..ImageOptions::default() };
    // libjpeg has no word for these: the bits are codes.
    let silent = ["flipped-bit", "flipped-bits-arithmetic-progressive"];
    for name in expected().into_keys() {
        match check_sum(path(&name), &options) {
            Ok(_) => assert!(is_valid(&name) || silent.contains(&&*name), "{name} passed"),
            Err(error) => {
                assert!(!is_valid(&name), "{name}: {error}");
                let says_how = error.message().contains("without `strict`");
                assert_eq!(says_how, !name.starts_with("cut") && !is_incomplete(&name), "{name}: {error}");
            }
        }
    }
}

#[test]
fn damage_is_counted_and_named() {
    let names = ["stray-byte", "rgb", "short", "stray-ff00", "no-end", "restart-far", "cut", "scans-0-12"];
    let options = ImageOptions { size: Some((8, 8)), ..ImageOptions::default() };
    let make = || {
        let reader = ImageFolder::from_paths(names.map(path), ImageLabels::None, &options).unwrap();
        ReaderSource::new(reader).batch_size(3).bad_records(BadRecords::Skip(BadLimits::count(1)))
    };
    for mut iterator in [wrap(make(), &workspace(2, 2)).unwrap(), wrap(shield(make()), &workspace(2, 2)).unwrap()] {
        let before = iterator.stats();
        assert_eq!((before.damaged, &before.damage[..]), (0, &[][..]));
        assert_eq!(iterator.by_ref().map(|batch| batch.unwrap().len()).sum::<usize>(), 7);
        let stats = iterator.stats().since(&before);
        assert_eq!((stats.damaged, stats.skipped), (5, 1));
        let kinds = [
            ("stray bytes before a marker", 2),
            ("data that ends early", 1),
            ("surplus data", 1),
            ("wrong restart markers", 1),
            ("no end-of-image marker", 1),
        ];
        let damage: Vec<_> = stats.damage.iter().map(|damage| (damage.kind, damage.images)).collect();
        assert_eq!(damage, kinds);
    }
}

#[test]
fn damage_of_a_sample_that_fails_afterwards_is_not_counted_with_the_next() {
    let options = ImageOptions { size: Some((8, 8)), ..ImageOptions::default() };
    let reader = ImageFolder::from_paths(["stray-byte", "rgb"].map(path), ImageLabels::None, &options).unwrap();
    let has_failed = AtomicBool::new(false);
    let list = Transforms::new().map(TensorSpec::i64("x", []), move |_, _, _| match has_failed.swap(true, SeqCst) {
        false => Err(Error::new(ErrorKind::Data, "as asked for")),
        true => Ok(()),
    });
    let report = verify_source(Transformed::new(ReaderSource::new(reader), list), 1, |_| {}).unwrap();
    assert_eq!((report.samples, report.bad_samples, report.damaged), (2, 1, 0));
}

/// A reader of images whose first decoding panics, when all is written.
struct PanicsOnce {
    images: ImageFolder,
    has_panicked: AtomicBool,
}

impl RecordReader for PanicsOnce {
    fn len(&self) -> u64 {
        self.images.len()
    }

    fn tensors(&self) -> &[TensorSpec] {
        self.images.tensors()
    }

    fn fetch(&self, samples: &[u64], nth: usize, scratch: &mut Scratch) -> Result<()> {
        self.images.fetch(samples, nth, scratch)
    }

    fn decode(&self, sample: Sample, nth: usize, scratch: &mut Scratch, row: &mut RowMut<'_>) -> Result<()> {
        self.images.decode(sample, nth, scratch, row)?;
        assert!(self.has_panicked.swap(true, SeqCst), "as asked for");
        Ok(())
    }

    fn place(&self, sample: u64) -> Location {
        self.images.place(sample)
    }
}

#[test]
fn damage_of_a_sample_whose_decoding_panics_is_not_counted_with_the_next() {
    let options = ImageOptions { size: Some((8, 8)), ..ImageOptions::default() };
    let images = || ImageFolder::from_paths(["stray-byte", "rgb"].map(path), ImageLabels::None, &options).unwrap();
    let panics = || PanicsOnce { images: images(), has_panicked: AtomicBool::new(false) };
    let has_panicked = AtomicBool::new(false);
    let list = Transforms::new().map(TensorSpec::i64("x", []), move |_, _, _| {
        assert!(has_panicked.swap(true, SeqCst), "as asked for");
        Ok(())
    });
    let sources: [(&str, Box<dyn Source>); 3] = [
        ("alone", Box::new(ReaderSource::new(panics()))),
        ("of several", Box::new(ReaderSource::new(Concat::new(panics())))),
        ("a transform", Box::new(Transformed::new(ReaderSource::new(images()), list))),
    ];
    for (name, source) in sources {
        let report = verify_source(source, 1, |_| {}).unwrap();
        assert_eq!((report.samples, report.bad_samples, report.damaged), (2, 1, 0), "{name}");
    }
}

#[test]
fn a_part_of_a_damaged_image_is_that_of_the_whole() {
    use ringfeed::images::ImageAugment;

    for name in ["restart-gone", "restart-far", "flipped-bits-scan", "cmyk-2x2-1x1-1x1-2x2", "colour-finer", "no-code"]
    {
        let whole = ImageOptions { order: PixelOrder::Nhwc, ..ImageOptions::default() };
        let pixels = decode(path(name), &whole, 0);
        for seed in 0..20 {
            // Boxes of the picture's own shape are cut and left at their size.
            let crop = ImageAugment::RandomResizedCrop { scale: (0.25, 0.25), ratio: (1.0, 1.0) };
            let cut = ImageOptions { size: Some((20, 20)), augment: vec![crop], ..whole.clone() };
            let part = decode(path(name), &cut, seed);
            let rows: Vec<&[u8]> = pixels.chunks_exact(3 * 45).collect();
            let is_there = (0..=35 - 20).any(|y| {
                (0..=45 - 20).any(|x| (0..20).all(|row| rows[y + row][3 * x..][..60] == part[60 * row..][..60]))
            });
            assert!(is_there, "{name} {seed}");
        }
    }
}

fn decode(file: PathBuf, options: &ImageOptions, seed: u64) -> Vec<u8> {
    let reader = ImageFolder::from_paths([file], ImageLabels::None, options).unwrap();
    let mut scratch = Scratch::default();
    let extents = if options.size.is_none() { reader.measure(0, &mut scratch).unwrap() } else { Extents::default() };
    let mut layout = Layout::default();
    layout.compute(&Schema::new(reader.tensors().to_vec()).unwrap(), 1, extents).unwrap();
    let mut slot = vec![0u64; layout.bytes().div_ceil(8)];
    reader.fetch(&[0], 0, &mut scratch).unwrap();
    let mut row = RowMut::new(bytemuck::cast_slice_mut(&mut slot), reader.tensors(), &layout, 0);
    reader.decode(Sample { id: 0, key: RandomKey::new(seed) }, 0, &mut scratch, &mut row).unwrap();
    row.tensor(0).bytes_mut().to_vec()
}
