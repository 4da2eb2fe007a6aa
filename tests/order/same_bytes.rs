//! Every transform, and every operation on images, gives the same bytes for any workers, prefetch, shield, shards and
//! restart. One that is not in these tables fails the test.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeMap;

use crate::common::{Seen, Waves, fixture, see, see_all, workspace};
use ringfeed::images::{
    AugmentRecipe, ImageAugment, ImageFolder, ImageLabels, ImageOptions, LearnedPolicy, PixelOrder, aug_mix,
    auto_augment, colour_jitter, horizontal_flip, rand_augment, random_crop, random_erasing, random_resized_crop,
    scale_jitter, trivial_augment, vertical_flip,
};
use ringfeed::order::Shard;
use ringfeed::read::MemoryReader;
use ringfeed::source::{ReaderSource, Transformed};
use ringfeed::tensor::{Role, TensorSpec};
use ringfeed::transform::{
    LogMel, Operation, Transforms, augment, bins, cast, clip, cutmix, dense, flip, layout, log1p, masking, mixup,
    noise, normalise, one_hot, pad_to, pad_to_multiple, quantile, remove, scale,
};
use ringfeed::{AsyncDataSetIterator, AsyncShieldDataSetIterator, DType, DataSetIterator, Normaliser};
use serde::de::DeserializeOwned;

const SAMPLES: u64 = 24;
const BATCH: usize = 4;

/// The kinds that `T` may be of, as its settings call them.
fn kinds<T: DeserializeOwned>() -> Vec<String> {
    let error = serde_json::from_str::<T>(r#"{"kind": "none of them"}"#).err().unwrap().to_string();
    let (_, listed) = error.split_once("expected one of").unwrap();
    let kinds: Vec<String> = listed.split('`').skip(1).step_by(2).map(str::to_owned).collect();
    assert!(kinds.len() > 10, "{error}");
    kinds
}

fn kind_of(member: &impl serde::Serialize) -> String {
    serde_json::to_value(member).unwrap()["kind"].as_str().unwrap().to_owned()
}

/// The bytes of each sample without the zeros at their ends: batches of other samples pad to other lengths.
fn by_sample(batches: &[Seen]) -> BTreeMap<u64, Vec<Vec<u8>>> {
    let mut all = BTreeMap::new();
    for batch in batches {
        let rows = batch.samples.len();
        for (row, sample) in batch.samples.iter().enumerate() {
            let tensors = batch.tensors.iter().map(|tensor| {
                let bytes = &tensor[tensor.len() / rows * row..][..tensor.len() / rows];
                bytes[..bytes.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1)].to_vec()
            });
            assert!(all.insert(*sample, tensors.collect()).is_none());
        }
    }
    all
}

/// Compares runs of a source, which `make` makes for a shard. Of what mixes the samples of a batch, `by_batch`, those
/// of a shard are other ones.
fn check(what: &str, by_batch: bool, make: &dyn Fn(Shard) -> Transformed<ReaderSource>) -> Vec<Seen> {
    let whole = Shard::default();
    let shielded = |shard| AsyncShieldDataSetIterator::new(make(shard), &workspace(1, 0)).unwrap();
    let two = |batches: &mut dyn DataSetIterator| {
        let first = see_all(batches);
        batches.reset().unwrap();
        [first, see_all(batches)]
    };
    let expected = two(&mut shielded(whole));
    assert_eq!(expected[0].iter().map(|batch| batch.samples.len() as u64).sum::<u64>(), SAMPLES);
    for (workers, prefetch) in [(1, 0), (2, 1), (3, 4)] {
        let mut ahead = AsyncDataSetIterator::new(make(whole), &workspace(workers, prefetch)).unwrap();
        assert!(two(&mut ahead) == expected, "{what}: {workers} workers, {prefetch} ahead");
    }
    let mut ahead = AsyncDataSetIterator::new(make(whole), &workspace(2, 3)).unwrap();
    let begun: Vec<Seen> = (0..2).map(|_| see(&ahead.next().unwrap().unwrap())).collect();
    assert!(begun == expected[0][..2]);
    let state = ahead.state();
    drop(ahead);
    let mut resumed = AsyncDataSetIterator::new(make(whole), &workspace(3, 1)).unwrap();
    resumed.seek(&state).unwrap();
    assert!(see_all(&mut resumed) == expected[0][2..], "{what}: after a restart");
    let mut resumed = shielded(whole);
    resumed.seek(&state).unwrap();
    assert!(see_all(&mut resumed) == expected[0][2..], "{what}: after a restart behind a shield");
    let mut of_shards = Vec::new();
    for index in 0..3 {
        let shard = Shard { index, count: 3 };
        let seen = see_all(&mut AsyncDataSetIterator::new(make(shard), &workspace(2, 2)).unwrap());
        assert!(see_all(&mut shielded(shard)) == seen, "{what}: shard {index} behind a shield");
        of_shards.extend(seen);
    }
    match by_batch {
        true => assert_eq!(by_sample(&of_shards).len() as u64, SAMPLES),
        false => assert!(by_sample(&of_shards) == by_sample(&expected[0]), "{what}: on three shards"),
    }
    let [first, _] = expected;
    first
}

/// Pictures, numbers, sounds, classes, and sequences of several lengths.
fn tensors(shard: Shard, list: Transforms) -> Transformed<ReaderSource> {
    let count = SAMPLES as usize;
    let numbers = |each: usize| (0..count * each).map(move |n| (n * 37 % 101) as f32 / 25.0);
    let pictures = MemoryReader::new("picture", Role::Feature, &[3, 4, 8], numbers(96).collect::<Vec<_>>()).unwrap();
    let x = MemoryReader::new("x", Role::Feature, &[5], numbers(5).collect::<Vec<_>>()).unwrap();
    let sounds = MemoryReader::new("sound", Role::Feature, &[900], numbers(900).collect::<Vec<_>>()).unwrap();
    let classes: Vec<i64> = (0..SAMPLES as i64).map(|n| n % 7).collect();
    let classes = MemoryReader::new("class", Role::Label, &[], classes).unwrap();
    let source = ReaderSource::new(pictures).and(x).and(sounds).and(Waves::new(SAMPLES, 9));
    let columns: Vec<i32> = (0..5 * SAMPLES as i32).map(|n| (n % 5 + n / 5) % 9).collect();
    let columns = MemoryReader::new("columns", Role::Feature, &[5], columns).unwrap();
    let turned: Vec<u8> = (0..SAMPLES).map(|n| u8::from(n % 3 == 0)).collect();
    let turned = MemoryReader::new("turned", Role::Feature, &[], turned).unwrap();
    let source = source.and(classes.classes((0..7).map(|n| n.to_string()))).and(columns).and(turned);
    let pixels: Vec<u8> = (0..96 * count).map(|n| (n * 37 % 251) as u8).collect();
    let source = source.and(MemoryReader::new("pixels", Role::Feature, &[3, 4, 8], pixels).unwrap());
    Transformed::new(source.batch_size(BATCH).shuffle(3).shard(shard), list)
}

#[test]
fn every_transform_gives_the_same_bytes_however_it_is_run() {
    let standard = Normaliser::Standardise { axis: None, mean: vec![1.5], deviation: vec![0.75] };
    let mixed = |mut operation: Operation| {
        if let Operation::Mixup { features, labels, .. } | Operation::Cutmix { features, labels, .. } = &mut operation {
            (*features, *labels) = (vec!["picture".into()], vec!["class".into()]);
        }
        operation
    };
    let members = vec![
        cast("x", DType::F16),
        one_hot("class"),
        log1p("x"),
        clip("x", 0.5, 2.0),
        normalise("x", standard),
        quantile("x", [0.0, 1.0, 1.5, 4.0]),
        bins("x", [0.5, 1.0, 3.0]),
        layout("picture", PixelOrder::Nhwc),
        flip("picture", "turned"),
        dense("x", "columns", 9),
        augment("pixels", AugmentRecipe::Cifar),
        noise("x", 0.5),
        masking("x", 0.3),
        scale("x", 0.5, 2.0),
        pad_to("wave", 12),
        pad_to_multiple("wave", 4),
        Operation::LogMel(LogMel { n_fft: 200, hop: 80, mels: 12, ..LogMel::new("sound", 8000) }),
        remove("sound"),
        mixed(mixup(0.4)),
        mixed(cutmix(1.0)),
    ];
    let plain = check("nothing", false, &|shard| tensors(shard, Transforms::new()));
    for kind in kinds::<Operation>() {
        let own: Vec<_> = members.iter().filter(|member| kind_of(*member) == kind).collect();
        assert!(!own.is_empty(), "{kind} is in no test of its bytes; add it to the members above");
        for member in own {
            let is_left_out = match member {
                Operation::LogMel(_) => !cfg!(feature = "audio"),
                Operation::Augment { .. } => !cfg!(feature = "images"),
                _ => false,
            };
            if is_left_out {
                continue;
            }
            let by_batch = matches!(member, Operation::Mixup { .. } | Operation::Cutmix { .. });
            let list = || Transforms::new().with(member.clone());
            let seen = check(&kind, by_batch, &|shard| tensors(shard, list()));
            assert!(seen != plain, "{kind} does nothing here");
        }
        let guide = include_str!("../../src/guide/transforms.md");
        assert!(guide.contains(&format!("`{kind}`")), "{kind} is not in the guide");
    }
}

#[test]
fn closures_give_the_same_bytes_however_they_are_run() {
    let of_samples = || {
        Transforms::new().map(TensorSpec::f32("noisy", [5]), |row, out, scope| {
            let sums = scope.zeros::<f32>([5]);
            sums.copy_from_slice(row.f32("x")?);
            for (nth, (noisy, x)) in out.f32()?.iter_mut().zip(&*sums).enumerate() {
                *noisy = x + row.key().normal(nth as u64) as f32;
            }
            Ok(())
        })
    };
    check("a closure over samples", false, &|shard| tensors(shard, of_samples()));
    let of_batches = || {
        Transforms::new().map_batch(|batch, _| {
            let shift = batch.key().unit(0) as f32;
            batch.get_mut::<f32>("x")?.iter_mut().for_each(|x| *x += shift);
            Ok(())
        })
    };
    check("a closure over batches", true, &|shard| tensors(shard, of_batches()));
}

/// Small pictures of several formats and orientations.
fn pictures(shard: Shard, augment: Vec<ImageAugment>) -> Transformed<ReaderSource> {
    let names = ["rgb.png", "grey.jpg", "palette.gif", "orientation-6.jpg", "orientation-6.png", "rgb-lossless.webp"];
    let paths = (0..SAMPLES as usize).map(|nth| fixture("images").join(names[nth % names.len()]));
    let (size, order) = (Some((24, 30)), PixelOrder::Nhwc);
    let options = ImageOptions { size, order, augment, ..ImageOptions::default() };
    let images = ImageFolder::from_paths(paths, ImageLabels::None, &options).unwrap();
    Transformed::new(ReaderSource::new(images).batch_size(BATCH).shuffle(3).shard(shard), Transforms::new())
}

#[test]
#[cfg_attr(not(feature = "images"), ignore = "decodes images")]
fn every_operation_on_images_gives_the_same_bytes_however_it_is_run() {
    let settings = r#"[
        {"kind": "affine", "degrees": 20, "translate": [0.2, 0.1], "scale": [0.8, 1.2], "shear": [5, 5]},
        {"kind": "rotation", "degrees": 30, "interpolation": "bilinear"},
        {"kind": "gaussian_blur", "kernel": 5},
        {"kind": "random_grey", "probability": 0.5},
        {"kind": "solarise"},
        {"kind": "posterise", "bits": 3},
        {"kind": "equalise"},
        {"kind": "autocontrast"},
        {"kind": "invert"},
        {"kind": "sharpness", "factor": 2}
    ]"#;
    let mut operations: Vec<ImageAugment> = serde_json::from_str(settings).unwrap();
    operations.extend([
        random_resized_crop(),
        scale_jitter(),
        horizontal_flip(),
        vertical_flip(),
        colour_jitter(0.4, 0.4, 0.4, 0.1),
        random_erasing(),
        random_crop(3),
        rand_augment(),
        trivial_augment(),
        auto_augment(LearnedPolicy::Imagenet),
        aug_mix(),
    ]);
    const OTHER_NAMES: [&str; 6] =
        ["solarize", "posterize", "equalize", "randaugment", "trivial_augment_wide", "augmix"];
    let plain = check("nothing", false, &|shard| pictures(shard, Vec::new()));
    for kind in kinds::<ImageAugment>().into_iter().filter(|kind| !OTHER_NAMES.contains(&&**kind)) {
        let own = operations.iter().find(|operation| kind_of(*operation) == kind);
        let own = own.unwrap_or_else(|| panic!("{kind} is in no test of its bytes; add it to the operations above"));
        let seen = check(&kind, false, &|shard| pictures(shard, vec![own.clone()]));
        assert!(seen != plain, "{kind} does nothing here");
        let guide = include_str!("../../src/guide/fields.md");
        assert!(guide.contains(&format!("`{kind}`")), "{kind} is not in the guide");
    }
}
