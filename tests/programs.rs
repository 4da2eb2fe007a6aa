//! Programs that are to stay as short as they are here, in code and in settings.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::{HashMap, HashSet};

use ringfeed::field::{Boxes, Image, Numbers, Tokens};
use ringfeed::images::{AugmentRecipe, ImageAugment, ResizeFilter};
use ringfeed::read::TensorMut;
use ringfeed::transform::mixup;
use ringfeed::{DataSet, Loader, LoaderConfig, Result, TensorSpec};

fn settings(folder: &std::path::Path, text: &str) -> Result<Loader> {
    let path = folder.join("loader.toml");
    std::fs::write(&path, text)?;
    Ok(Loader::from(LoaderConfig::load(path)?))
}

/// The bytes of each tensor of the first batch.
fn first(loader: &Loader) -> Result<Vec<(String, Vec<u8>)>> {
    let batch = loader.build()?.next().unwrap()?;
    Ok(batch.tensors().map(|tensor| (tensor.name().to_owned(), tensor.bytes().to_vec())).collect())
}

fn photos(folder: &std::path::Path) {
    for name in ["astronaut.png", "china.jpg", "coffee.png"] {
        std::fs::copy(std::path::Path::new("fixtures/photos").join(name), folder.join(name)).unwrap();
    }
}

/// The power of each frequency of frames of 64 samples, 32 apart.
fn short_time_fourier(sound: &[f32], power: &mut [f32]) {
    for (frame, power) in power.chunks_mut(33).enumerate() {
        for (frequency, power) in power.iter_mut().enumerate() {
            let angle = |at: usize| std::f32::consts::TAU * (frequency * at % 64) as f32 / 64.0;
            let part = |wave: fn(f32) -> f32| (0..64).map(|at| sound[32 * frame + at] * wave(angle(at))).sum::<f32>();
            *power = part(f32::cos).powi(2) + part(f32::sin).powi(2);
        }
    }
}

/// Bands of a third of all frequencies.
fn bands(power: &[f32], out: &mut TensorMut<'_>) -> Result<()> {
    out.f32()?.iter_mut().zip(power.chunks(11)).for_each(|(band, power)| *band = power.iter().sum());
    Ok(())
}

/// The user's own code, in the workers: a function of each sample, and one of each batch.
#[test]
fn a_function_of_samples_and_one_of_batches() -> Result<()> {
    let sounds = Loader::npy("fixtures/transforms/audio.npy").batch_size(4).shuffle(42);
    let mapped = sounds
        .clone()
        .map(TensorSpec::f32("spectrogram", [24, 3]), |sample, out, scope| {
            let power = scope.zeros::<f32>([24, 33]); // ends with the scope; no allocation after the first cycle
            short_time_fourier(sample.f32("features")?, power);
            bands(power, out)
        })
        .transform(mixup(0.2));
    // Mixing is linear, but for the squares: without it, each spectrogram is that of its sound.
    let plain = sounds.map(TensorSpec::f32("spectrogram", [24, 3]), |sample, out, scope| {
        let power = scope.zeros::<f32>([24, 33]);
        short_time_fourier(sample.f32("features")?, power);
        bands(power, out)
    });
    for (mapped, plain) in (&mut mapped.build()?).zip(&mut plain.build()?) {
        let (mapped, plain) = (mapped?, plain?);
        let (found, each) = (mapped.f32("spectrogram")?, plain.f32("spectrogram")?.chunks(72));
        for (found, sound) in found.chunks(72).zip(each.clone().zip(plain.f32("features")?.chunks(800))) {
            let mut power = [0.0; 24 * 33];
            short_time_fourier(sound.1, &mut power);
            assert!(sound.0.iter().zip(power.chunks(11)).all(|(band, power)| *band == power.iter().sum::<f32>()));
            let between = |at: usize| {
                let all = each.clone().map(|one| one[at]);
                0.999 * all.clone().fold(f32::INFINITY, f32::min)..=1.001 * all.fold(0.0, f32::max)
            };
            assert!(found.iter().enumerate().all(|(at, x)| between(at).contains(x)), "a mixture of two");
        }
        assert_ne!(found, plain.f32("spectrogram")?);
    }
    Ok(())
}

/// Two views of one picture.
#[test]
fn two_views_of_a_picture() -> Result<()> {
    let folder = tempfile::tempdir()?;
    std::fs::create_dir(folder.path().join("photos"))?;
    photos(&folder.path().join("photos"));
    let view = || Image::rgb(16, 16).augment(AugmentRecipe::Simclr).from("image");
    let loader = Loader::open(folder.path().join("photos"))?.field("view1", view()).field("view2", view()).shuffle(42);
    let said = settings(
        folder.path(),
        r#"
            shuffle = 42
            source = { path = "photos" }
            [fields]
            view1 = { from = "image", image = [16, 16], augment = "simclr" }
            view2 = { from = "image", image = [16, 16], augment = "simclr" }
        "#,
    )?;
    let batch = first(&loader)?;
    assert!(batch == first(&said)? && batch[0].1 != batch[1].1);
    Ok(())
}

/// A picture, its map and its boxes: the same crop and flip; nearest; never colour.
#[test]
fn a_picture_and_its_map_and_boxes() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let mut scenes = tar::Builder::new(std::fs::File::create(folder.path().join("scenes.tar"))?);
    let picture = std::fs::read("fixtures/maps/palette-8.png")?;
    for nth in 0..6 {
        // All of its 13 x 9 pixels.
        for (kind, bytes) in [("json", &b"{\"boxes\": [[0, 0, 13, 9]]}"[..]), ("png", &picture)] {
            let mut header = tar::Header::new_ustar();
            header.set_size(bytes.len() as u64);
            scenes.append_data(&mut header, format!("{nth}.{kind}"), bytes)?;
        }
    }
    scenes.into_inner()?;
    let loader = Loader::open(folder.path().join("scenes.tar"))?
        .field(
            "image",
            scene(Image::rgb(64, 48))
                .augment([ImageAugment::random_resized_crop(), ImageAugment::horizontal_flip()])
                .from("png"),
        )
        .field("map", scene(Image::index_map(64, 48)).from("png"))
        .field("boxes", Boxes::new(32).geometry("scene").from("json:/boxes"));
    let said = settings(
        folder.path(),
        r#"
            shuffle = 42
            source = { path = "scenes.tar" }
            [fields]
            image = { from = "png", image = [64, 48], resize = "nearest", augment = ["random_resized_crop", "horizontal_flip"], geometry = "scene" }
            map = { from = "png", index_map = [64, 48], geometry = "scene" }
            boxes = { from = "json:/boxes", boxes = 32, geometry = "scene" }
        "#,
    )?;
    assert!(first(&loader.clone().shuffle(42))? == first(&said)?);
    let batch = said.build()?.next().unwrap()?;
    let (image, map) = (batch.f32("image")?.chunks(3 * 64 * 48), batch.i64("map")?.chunks(64 * 48));
    let (mut colours, mut crops) = (HashMap::new(), HashSet::new());
    for (image, map) in image.zip(map) {
        for (at, index) in map.iter().enumerate() {
            let colour = [0, 1, 2].map(|channel| image[channel * 64 * 48 + at].to_bits());
            assert_eq!(*colours.entry(*index).or_insert(colour), colour, "the colour of an index is always the same");
        }
        crops.insert(map);
    }
    assert!(crops.len() == 6 && colours.len() > 20, "each sample is cut by itself");
    for boxes in batch.f32("boxes")?.chunks(32 * 4) {
        assert_eq!(boxes[..4], [0.0, 0.0, 48.0, 64.0]);
    }
    Ok(())
}

fn scene(image: Image) -> Image {
    image.resize(ResizeFilter::Nearest).geometry("scene")
}

/// Sequences of many lengths.
#[test]
fn sequences_in_buckets() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("texts.jsonl");
    let lines: Vec<String> = (0..200).map(|i| format!("{{\"ids\": {:?}}}", vec![7; 1 + i * 37 % 512])).collect();
    std::fs::write(&path, lines.join("\n"))?;
    let texts = Loader::open(&path)?
        .field("ids", Tokens::from("/ids"))
        .bucket("ids", [64, 128, 256, 512])
        .tokens_per_batch(8192);
    let said = settings(
        folder.path(),
        r#"
            bucket = { by = "ids", bounds = [64, 128, 256, 512], tokens_per_batch = 8192 }
            source = { path = "texts.jsonl" }
            [fields]
            ids = { from = "/ids", numbers = "i64" }
        "#,
    );
    let shapes = |texts: Loader| -> Result<Vec<Vec<usize>>> {
        texts.shuffle(42).build()?.map(|batch| Ok(batch?.tensor("ids")?.shape().to_vec())).collect()
    };
    let batches = shapes(texts)?;
    assert!(batches.iter().all(|shape| [64, 128, 256, 512].contains(&shape[1]) && shape[0] * shape[1] <= 8192));
    assert_eq!(batches, shapes(said?)?);
    Ok(())
}

/// Scores of three species.
fn forward<'s>(flowers: &DataSet, scores: &'s mut [f32]) -> Result<&'s [f32]> {
    for (flower, scores) in flowers.features()?.as_slice::<f32>()?.chunks(4).zip(scores.chunks_mut(3)) {
        scores[usize::from(flower[3] > 0.8) + usize::from(flower[3] > 1.7)] = 1.0;
    }
    Ok(scores)
}

/// How often each species was taken for each.
#[derive(Default)]
struct Confusion([[usize; 3]; 3]);

impl Confusion {
    fn update(&mut self, scores: &[f32], batch: &DataSet) -> Result<()> {
        for (scores, species) in scores.chunks(3).zip(batch.labels()?.as_slice::<i64>()?) {
            let guess = scores.iter().position(|score| *score == 1.0).unwrap();
            self.0[*species as usize][guess] += 1;
        }
        Ok(())
    }
}

#[derive(Default)]
struct Accuracy(Confusion);

impl Accuracy {
    fn update(&mut self, scores: &[f32], batch: &DataSet) -> Result<()> {
        self.0.update(scores, batch)
    }

    fn right(&self) -> usize {
        (0..3).map(|species| self.0.0[species][species]).sum()
    }
}

/// Evaluation with no memory of its own.
#[test]
fn two_metrics_in_a_scope() -> Result<()> {
    let (mut accuracy, mut confusion) = (Accuracy::default(), Confusion::default());
    let irises = Loader::csv("fixtures/iris-species.csv").labels(["species"]).batch_size(16);
    let workspace = irises.workspace()?;
    let mut test = irises.build_in(&workspace)?;
    let mut scope = workspace.enter();
    for batch in test.epoch()? {
        let batch = batch?;
        let scores = forward(&batch, scope.zeros::<f32>([batch.len(), 3]))?;
        accuracy.update(scores, &batch)?;
        confusion.update(scores, &batch)?;
        scope.next(); // a stale array is a compile error
    }
    assert!(accuracy.right() > 140 && confusion.0.iter().flatten().sum::<usize>() == 150, "{:?}", confusion.0);
    Ok(())
}

/// A type alone says what a number becomes.
#[test]
fn a_type_of_numbers_is_a_field() -> Result<()> {
    let folder = tempfile::tempdir()?;
    std::fs::copy("fixtures/iris-species.csv", folder.path().join("irises.csv"))?;
    let said = settings(
        folder.path(),
        "[source]\npath = \"irises.csv\"\n[fields]\npetal_length = \"f64\"\nspecies = \"class\"\n",
    )?;
    let built = Loader::open(folder.path().join("irises.csv"))?
        .field("petal_length", Numbers::f64())
        .field("species", ringfeed::field::Class);
    assert_eq!(first(&said)?, first(&built)?);
    let error = LoaderConfig::from_json(r#"{"fields": {"x": "f65"}}"#).unwrap_err();
    assert!(error.message().contains("a type of numbers such as"), "{error}");
    Ok(())
}
