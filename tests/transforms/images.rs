//! Random operations on images that are tensors, and on their segmentation maps.
#![expect(clippy::unwrap_used, reason = "a test ends with the first surprise")]

use ringfeed::field::Numbers;
use ringfeed::images::{AugmentRecipe, ImageAugment, PixelOrder, horizontal_flip, random_crop, random_resized_crop};
use ringfeed::read::MemoryReader;
use ringfeed::source::{ReaderSource, Transformed};
use ringfeed::tensor::Role;
use ringfeed::transform::{Operation, Transforms, augment, cast, layout, normalise};
use ringfeed::{
    AsyncDataSetIterator, DType, DataSet, DataSetIterator, Loader, LoaderConfig, Normaliser, Result, Workspace,
};

const COUNT: usize = 40;
const SIDE: usize = 12;

/// Each pixel of an image has another value, and so has each channel.
fn pixels(channels: usize) -> Vec<u8> {
    (0..COUNT * channels * SIDE * SIDE).map(|n| (1 + n % 251) as u8).collect()
}

/// Images, and a map of each that has the values of its first channel.
fn images(shape: &[usize]) -> ReaderSource {
    let channels = shape.iter().product::<usize>() / (SIDE * SIDE);
    let pixels = pixels(channels);
    let planes = pixels.chunks_exact(channels * SIDE * SIDE);
    let map: Vec<i32> = planes.flat_map(|planes| planes[..SIDE * SIDE].iter().map(|value| i32::from(*value))).collect();
    let map = MemoryReader::new("map", Role::Label, &[SIDE, SIDE], map).unwrap();
    ReaderSource::new(MemoryReader::new("image", Role::Feature, shape, pixels).unwrap()).and(map)
}

fn all(source: ReaderSource, list: Transforms) -> Result<DataSet> {
    let source = Transformed::new(source.batch_size(COUNT), list);
    AsyncDataSetIterator::new(source, &Workspace::default())?.next().unwrap()
}

fn with_maps(operations: impl IntoIterator<Item = ImageAugment>, order: Option<PixelOrder>) -> Operation {
    let maps = vec!["map".to_owned()];
    Operation::Augment { tensor: "image".to_owned(), operations: operations.into_iter().collect(), maps, order }
}

#[test]
fn images_and_their_maps_move_in_the_same_way() {
    let count = |moved: bool| usize::from(moved);
    let mut moved = 0;
    for shape in [vec![1, SIDE, SIDE], vec![SIDE, SIDE, 1], vec![SIDE, SIDE], vec![3, SIDE, SIDE]] {
        let list = Transforms::new().with(with_maps(AugmentRecipe::Cifar, None));
        let batch = all(images(&shape), list).unwrap();
        let image = batch.tensor("image").unwrap();
        let (image, map) = (image.as_slice::<u8>().unwrap(), batch.tensor("map").unwrap());
        let per_image = image.len() / COUNT;
        let classes = map.as_slice::<i32>().unwrap().chunks_exact(SIDE * SIDE);
        for (image, map) in image.chunks_exact(per_image).zip(classes) {
            assert!(image.iter().zip(map).all(|(value, class)| i32::from(*value) == *class), "{shape:?}");
        }
        moved += count(image != pixels(per_image / (SIDE * SIDE)));
    }
    assert_eq!(moved, 4);
}

#[test]
fn one_image_is_the_same_in_both_orders() {
    let of = |list: Transforms| {
        let batch = all(images(&[3, SIDE, SIDE]), list.with(augment("image", AugmentRecipe::Simclr))).unwrap();
        batch.tensor("image").unwrap().as_slice::<u8>().unwrap().to_vec()
    };
    let planes = of(Transforms::new());
    let changed = planes.iter().zip(pixels(3)).filter(|(value, before)| *value != before).count();
    assert!(changed > planes.len() / 2, "{changed} of {}", planes.len());
    let pixels = of(Transforms::new().with(layout("image", PixelOrder::Nhwc)));
    let (planes, pixels) = (planes.chunks_exact(3 * SIDE * SIDE), pixels.chunks_exact(3 * SIDE * SIDE));
    for (planes, pixels) in planes.zip(pixels) {
        assert!((0..3 * SIDE * SIDE).all(|at| planes[at] == pixels[at % (SIDE * SIDE) * 3 + at / (SIDE * SIDE)]));
    }
}

#[test]
fn maps_may_have_a_channel() {
    for shape in [[1, SIDE, SIDE], [SIDE, SIDE, 1]] {
        let map = MemoryReader::new("map", Role::Label, &shape, pixels(1)).unwrap();
        let image = MemoryReader::new("image", Role::Feature, &[SIDE, SIDE], pixels(1)).unwrap();
        let list = Transforms::new().with(with_maps([horizontal_flip()], None));
        let batch = all(ReaderSource::new(image).and(map), list).unwrap();
        assert_eq!(batch.tensor("map").unwrap().bytes(), batch.tensor("image").unwrap().bytes());
        assert_ne!(batch.tensor("map").unwrap().bytes(), pixels(1));
    }
}

#[test]
fn each_member_draws_anew() {
    let flips = |members: usize| {
        let list = (0..members).fold(Transforms::new(), |list, _| list.with(augment("image", [horizontal_flip()])));
        let batch = all(images(&[SIDE, SIDE]), list).unwrap();
        batch.tensor("image").unwrap().bytes().to_vec()
    };
    let (none, once, twice) = (flips(0), flips(1), flips(2));
    // If both drew the same, the second would undo the first.
    assert!(none != once && once != twice && none != twice);
}

#[test]
fn its_time_is_that_of_transforms() {
    let workspace = Workspace::builder().workers(1).prefetch(1).build().unwrap();
    let list = Transforms::new().with(augment("image", AugmentRecipe::Simclr));
    let source = Transformed::new(images(&[3, SIDE, SIDE]).batch_size(COUNT), list);
    let mut batches = AsyncDataSetIterator::new(source, &workspace).unwrap();
    assert_ne!(batches.next().unwrap().unwrap().tensor("image").unwrap().bytes(), pixels(3));
    let stages: Vec<String> = batches.stats().stages.into_iter().map(|stage| stage.name.to_owned()).collect();
    assert!(
        stages.iter().any(|stage| stage == "transform") && !stages.iter().any(|stage| stage == "resize"),
        "{stages:?}"
    );
}

#[test]
fn settings_name_operations_as_fields_do() {
    let text = r#"{"sources": [{"format": "jsonl", "path": "x.jsonl"}], "transforms": [
        {"kind": "augment", "tensor": "image", "operations": ["horizontal_flip", {"kind": "random_crop", "padding": 2}]}
    ]}"#;
    let config = LoaderConfig::from_json(text).unwrap();
    let operations = vec![horizontal_flip(), random_crop(2)];
    assert_eq!(config.transforms[0], augment("image", operations.clone()));
    let named = "kind = \"augment\"\ntensor = \"x\"\noperations = \"cifar\"";
    assert_eq!(toml::from_str::<Operation>(named).unwrap(), augment("x", AugmentRecipe::Cifar));
    let written = toml::to_string(&augment("image", operations.clone())).unwrap();
    assert_eq!(toml::from_str::<Operation>(&written).unwrap(), augment("image", operations));
}

#[test]
fn operations_stand_before_casts_and_normalisers() {
    let of = |list: &[Operation]| {
        let list = list.iter().cloned().fold(Transforms::new(), Transforms::with);
        let batch = all(images(&[SIDE, SIDE]), list).unwrap();
        batch.tensor("image").unwrap().as_slice::<f32>().unwrap().to_vec()
    };
    let (shifted, cast) = (augment("image", [random_crop(3)]), cast("image", DType::F32));
    let scaled = of(&[shifted.clone(), cast.clone(), normalise("image", Normaliser::image_scale())]);
    let plain = of(&[shifted, cast]);
    assert!(scaled.iter().zip(&plain).all(|(scaled, plain)| (scaled - plain / 255.0).abs() < 1e-6));
    assert!(plain.chunks_exact(SIDE * SIDE).any(|image| image[0] == 0.0));
}

#[test]
fn what_is_no_image_is_refused_by_name() {
    let refused = |source: ReaderSource, operation: Operation, part: &str| {
        let error = all(source, Transforms::new().with(operation)).unwrap_err().to_string();
        assert!(error.contains(part), "{error}");
    };
    let flip = || augment("image", [horizontal_flip()]);
    let of =
        |shape: &[usize]| ReaderSource::new(MemoryReader::new("image", Role::Feature, shape, vec![7u8; 96]).unwrap());
    let floats = MemoryReader::new("image", Role::Feature, &[3, 4, 8], vec![0.5f32; 96]).unwrap();
    refused(ReaderSource::new(floats), flip(), "holds f32; operations change pixels of u8");
    refused(of(&[4, 4, 6]), flip(), "images of 4 channels");
    refused(of(&[96]), flip(), "three dimensions");
    refused(of(&[3, 16, 2]), flip(), "its channels may be first or last");
    refused(of(&[3, 4, 8]), augment("picture", [horizontal_flip()]), "no tensor \"picture\"");
    refused(of(&[3, 4, 8]), augment("image", []), "operations: augment does nothing without any");
    let late = [horizontal_flip(), random_resized_crop()];
    refused(of(&[3, 4, 8]), augment("image", late), "operations[1]: random_resized_crop: it must be the first");
    refused(of(&[3, 4, 8]), augment("image", [random_crop(u32::MAX)]), "operations[0]: ");
    let map =
        |shape: &[usize]| of(&[3, 4, 8]).and(MemoryReader::new("map", Role::Label, shape, vec![0u8; 32]).unwrap());
    refused(map(&[8, 4]), with_maps([horizontal_flip()], None), "a segmentation map of \"image\" has");
    let twice = vec!["map".to_owned(); 2];
    let operations = vec![horizontal_flip()];
    let twice = Operation::Augment { tensor: "image".to_owned(), operations, maps: twice, order: None };
    refused(map(&[4, 8]), twice, "maps: \"map\" is named twice");
    refused(map(&[4, 8]), with_maps([ringfeed::images::aug_mix()], None), "segmentation maps can't be mixed");
    let grey = Operation::Augment {
        tensor: "image".to_owned(),
        operations: vec![horizontal_flip()],
        maps: Vec::new(),
        order: Some(PixelOrder::Nhwc),
    };
    refused(of(&[4, 24]), grey, "has no channels");
    let jitter = ImageAugment::ScaleJitter { scale: (0.5, 0.5), fill: [200, 0, 0] };
    let signed = MemoryReader::new("map", Role::Label, &[4, 8], vec![0i8; 32]).unwrap();
    refused(of(&[3, 4, 8]).and(signed), with_maps([jitter], None), "holds i8, which has no class 200");
    let padded = MemoryReader::new("image_mask", Role::Mask, &[4, 8], vec![1u8; 32]).unwrap();
    refused(of(&[3, 4, 8]).and(padded), flip(), "\"image_mask\" marks its padding");
    let padded = MemoryReader::new("map_mask", Role::Mask, &[4, 8], vec![1u8; 32]).unwrap();
    refused(map(&[4, 8]).and(padded), with_maps([horizontal_flip()], None), "\"map_mask\" marks its padding");
}

#[test]
fn numbers_of_a_file_are_images_and_serving_refuses_to_change_them() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("images.jsonl");
    let line = |n: usize| format!("{{\"image\": {:?}}}\n", (0..90).map(|at| (at * 7 + n) % 256).collect::<Vec<_>>());
    std::fs::write(&path, (0..32).map(line).collect::<String>()).unwrap();
    let loader = |transforms: &str| {
        let image = Numbers::of(DType::U8).shape(&[6, 5, 3]);
        let config: LoaderConfig = toml::from_str(transforms).unwrap();
        let loader = Loader::open(&path).unwrap().field("image", image).batch_size(32);
        config.transforms.into_iter().fold(loader, Loader::transform)
    };
    let pixels = |transforms: &str| {
        let batch = loader(transforms).build().unwrap().next().unwrap().unwrap();
        batch.tensor("image").unwrap().as_slice::<u8>().unwrap().to_vec()
    };
    let list = "transforms = [{ kind = \"augment\", tensor = \"image\", operations = \"cifar\" }]";
    let (plain, changed) = (pixels(""), pixels(list));
    let is_changed = |nth: usize| plain[90 * nth..][..90] != changed[90 * nth..][..90];
    assert!((0..32).filter(|nth| is_changed(*nth)).count() > 28);
    let error = loader(list).serve().unwrap_err().to_string();
    assert!(error.contains("one of image is for training alone"), "{error}");
}
