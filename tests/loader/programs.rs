//! Programs that are to stay as short as they are here, in code and in settings.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::{HashMap, HashSet};
use std::path::Path;

use ringfeed::field::{Boxes, Class, Image, Numbers, Tokens};
use ringfeed::images::{AugmentRecipe, ResizeFilter, horizontal_flip, random_resized_crop};
use ringfeed::order::{Shard, Split};
use ringfeed::prepare::DatePart::Month;
use ringfeed::prepare::{Median, Prepared, Recipe, category, date, number};
use ringfeed::read::TensorMut;
use ringfeed::tensor::TensorSpec;
use ringfeed::transform::{LogMel, Operation, mixup};
use ringfeed::{DataSet, DataSetIterator, Loader, LoaderConfig, Result};

fn settings(folder: &Path, text: &str) -> Result<Loader> {
    let path = folder.join("loader.toml");
    std::fs::write(&path, text)?;
    Ok(Loader::from(LoaderConfig::load(path)?))
}

/// The bytes of each tensor of the first batch.
fn first(loader: &Loader) -> Result<Vec<(String, Vec<u8>)>> {
    let batch = loader.build()?.next().unwrap()?;
    Ok(batch.tensors().map(|tensor| (tensor.name().to_owned(), tensor.bytes().to_vec())).collect())
}

fn photos(folder: &Path) {
    for name in ["astronaut.png", "china.jpg", "coffee.png"] {
        std::fs::copy(Path::new("fixtures/photos").join(name), folder.join(name)).unwrap();
    }
}

/// Photos in class folders, into a trainer.
#[test]
fn photos_in_class_folders() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let class = |name: &str| folder.path().join("photos/train").join(name);
    for (name, photo) in [("people", "astronaut.png"), ("places", "china.jpg"), ("places", "rocket.jpg")] {
        std::fs::create_dir_all(class(name))?;
        std::fs::copy(Path::new("fixtures/photos").join(photo), class(name).join(photo))?;
    }
    let mut seen = Vec::new();
    let mut step = |image: &[f32], label: &[i64]| seen.push((image.to_vec(), label.to_vec()));
    #[rustfmt::skip] // as short as it may be written
    let mut train = Loader::open(folder.path().join("photos/train"))?
        .field("image", Image::rgb(24, 24).augment([random_resized_crop(), horizontal_flip()]))
        .field("label", Class)
        .batch_size(3).shuffle(42).build()?;
    for epoch in train.epochs(4) {
        for batch in epoch? {
            let batch = batch?; // owns its slot until it drops
            step(batch.f32("image")?, batch.i64("label")?);
        }
    }
    let said = settings(
        folder.path(),
        r#"
            batch_size = 3
            shuffle = 42
            [source]
            path = "photos/train"
            [fields]
            image = { image = [24, 24], augment = ["random_resized_crop", "horizontal_flip"] }
            label = "class"
        "#,
    )?;
    let mut as_said = Vec::new();
    for epoch in said.build()?.epochs(4) {
        for batch in epoch? {
            let batch = batch?;
            as_said.push((batch.f32("image")?.to_vec(), batch.i64("label")?.to_vec()));
        }
    }
    assert!(seen == as_said && seen.len() == 4);
    for (nth, (image, label)) in seen.iter().enumerate() {
        assert!(image.len() == 3 * 3 * 24 * 24 && label.iter().sum::<i64>() == 2, "one of people and two of places");
        assert!(seen[..nth].iter().all(|(other, _)| other != image), "each epoch is cropped anew");
    }
    Ok(())
}

/// A CSV or JSON Lines file that names other files.
#[test]
fn a_list_that_names_other_files() -> Result<()> {
    let folder = tempfile::tempdir()?;
    photos(folder.path());
    let answers = [("china.jpg", "no"), ("astronaut.png", "yes"), ("coffee.png", "no")];
    let lines: String =
        answers.iter().map(|(path, label)| format!("{{\"path\": {path:?}, \"label\": {label:?}}}\n")).collect();
    std::fs::write(folder.path().join("photos.jsonl"), lines)?;
    let rows: String = answers.iter().map(|(path, label)| format!("{path},{label}\n")).collect();
    std::fs::write(folder.path().join("photos.csv"), format!("path,label\n{rows}"))?;
    let lines = Loader::open(folder.path().join("photos.jsonl"))?
        .field("image", Image::rgb(24, 24).from("/path").file())
        .field("label", Class::of(["yes", "no"]).from("/label"));
    let said = settings(
        folder.path(),
        r#"
            [source]
            path = "photos.jsonl"
            [fields]
            image = { from = "/path", file = { image = [24, 24] } }
            label = { from = "/label", class = ["yes", "no"] }
        "#,
    )?;
    let table = settings(
        folder.path(),
        r#"
            [source]
            path = "photos.csv"
            [fields]
            image = { from = "path", file = { image = [24, 24] } }
            label = { class = ["yes", "no"] }
        "#,
    )?;
    let found = first(&lines)?;
    assert!(found == first(&said)? && found == first(&table)?);
    assert_eq!(lines.build()?.next().unwrap()?.i64("label")?, [1, 0, 1]);
    // Each is the photo that stands in its line.
    for (nth, (path, _)) in answers.iter().enumerate() {
        let alone = Loader::open(folder.path().join(path))?.field("image", Image::rgb(24, 24));
        let len = found[0].1.len() / 3;
        assert!(first(&alone)?[0].1 == found[0].1[nth * len..][..len], "{path}");
    }
    Ok(())
}

/// Several sources, in proportion, over a cluster, resumed tomorrow: any number of ranks, in the middle of an epoch,
/// exact.
#[test]
fn several_sources_in_proportion_over_a_cluster() -> Result<()> {
    let folder = tempfile::tempdir()?;
    for (name, numbers) in [("web.csv", 0..70), ("books.csv", 100..130)] {
        let rows: String = numbers.map(|number| format!("{number}\n")).collect();
        std::fs::write(folder.path().join(name), format!("x\n{rows}"))?;
    }
    let (web, books) = (folder.path().join("web.csv"), folder.path().join("books.csv"));
    let train = Loader::mix([(web, 0.7), (books, 0.3)])?.batch_size(5).shuffle(42).shard(Shard::auto()?);
    let said = settings(
        folder.path(),
        r#"
            batch_size = 5
            shuffle = 42
            shard = "auto"
            mix = { "web.csv" = 0.7, "books.csv" = 0.3 }
        "#,
    )?;
    assert_eq!(said.config().shard, Shard::auto()?);
    let whole = |loader: &Loader| -> Result<Vec<f32>> {
        let mut all = Vec::new();
        for batch in loader.clone().shard(Shard::new(0, 1)?).build()? {
            all.extend(batch?.f32("features")?);
        }
        Ok(all)
    };
    let order = whole(&train)?;
    assert_eq!(order, whole(&said)?);
    assert!((69..=71).contains(&order.iter().filter(|x| **x < 100.0).count()), "{order:?}");
    let mut seen = vec![0.0; 60];
    let mut checkpoint = None;
    for rank in 0..2 {
        let mut train = train.clone().shard(Shard::new(rank, 2)?).build()?;
        for batch in train.by_ref().take(3) {
            let batch = batch?;
            batch.positions().iter().zip(batch.f32("features")?).for_each(|(at, x)| seen[*at as usize] = *x);
        }
        checkpoint = Some(train.state());
    }
    for rank in 0..3 {
        let mut train = said.clone().shard(Shard::new(rank, 3)?).build()?;
        train.seek(&checkpoint.unwrap())?;
        for batch in train.take(2) {
            let batch = batch?;
            batch.positions().iter().zip(batch.f32("features")?).for_each(|(at, x)| seen[*at as usize] = *x);
        }
    }
    assert_eq!(seen, order[..60]);
    Ok(())
}

/// Settings that name nothing but the paths of a mix: tensors are the usual ones.
#[test]
fn a_mix_of_paths_needs_no_fields() -> Result<()> {
    let folder = tempfile::tempdir()?;
    for (name, rows) in [("web.csv", 70), ("books.csv", 30)] {
        std::fs::write(folder.path().join(name), format!("x\n{}", "1\n".repeat(rows)))?;
    }
    let said = settings(folder.path(), "shuffle = 42\nmix = { \"web.csv\" = 0.7, \"books.csv\" = 0.3 }")?;
    let plan = said.plan()?;
    assert_eq!((plan.samples, plan.sources.len()), (Some(100), 2));
    let rows = said.build()?.map(|batch| batch.map(|batch| batch.len())).sum::<Result<usize>>()?;
    assert_eq!(rows, 100);
    Ok(())
}

/// Debugging: one call, and every line of the loader runs under the caller's.
#[test]
fn a_shield_runs_everything_under_the_caller() -> Result<()> {
    let folder = tempfile::tempdir()?;
    std::fs::copy("fixtures/iris-species.csv", folder.path().join("irises.csv"))?;
    let said = settings(folder.path(), "shield = true\n[source]\npath = \"irises.csv\"\n")?;
    for loader in [Loader::open(folder.path().join("irises.csv"))?.shield(), said] {
        let caller = std::thread::current().id();
        let called = loader.change("features", move |_, features, _| {
            assert_eq!(std::thread::current().id(), caller);
            features.f32()?[0] += 1.0;
            Ok(())
        });
        assert_eq!(called.build()?.map(|batch| batch.map(|batch| batch.len())).sum::<Result<usize>>()?, 150);
    }
    Ok(())
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

/// A table with gaps and text: fit, train, serve.
#[test]
fn a_table_is_fitted_trained_on_and_served() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let (table, path) = (folder.path().join("train.csv"), folder.path().join("prepared.json"));
    let row = |i: u32| {
        let age = if i.is_multiple_of(7) { String::new() } else { (20 + i * 13 % 50).to_string() };
        format!("{i},{age},{},2024-{:02}-01,{}\n", ["Oslo", "Bonn", ""][i as usize % 3], 1 + i % 12, i * 3)
    };
    std::fs::write(&table, "id,age,city,joined,price\n".to_owned() + &(0..200).map(row).collect::<String>())?;

    let recipe = Recipe::new()
        .column("age", number().impute(Median).mask().standardise())
        .column("city", category().unknown())
        .column("joined", date().cyclic(Month));
    let rows = Loader::open(&table)?.split(Split::train(0.8)).group("id");
    let prepared = recipe.fit(&rows)?; // one pass, over the training part alone
    prepared.save(&path)?;
    let mut train = rows.prepare(&prepared).field("price", Numbers::f32()).batch_size(256).build()?;

    let prepared = Prepared::load(&path)?; // in the server: the bytes that training saw
    let mut row = prepared.row();
    prepared.apply_json(r#"{"age": null, "city": "Oslo", "joined": "2024-05-01"}"#, &mut row)?;

    let batch = train.next().unwrap()?;
    // Of each seventh the age is missing; each twelfth from 4 on joined in May.
    let nth = batch.sample_ids().iter().position(|sample| sample % 12 == 4).unwrap();
    let features = batch.f32("features")?;
    assert_eq!(features[4 * nth + 2..][..2], row.f32("features")?[2..]);
    let missing = batch.sample_ids().iter().position(|sample| sample.is_multiple_of(7)).unwrap();
    assert_eq!(features[4 * missing..][..2], row.f32("features")?[..2]);
    assert_eq!(row.i64("categories")?, [2], "behind unknown names and Bonn");

    let said = settings(
        folder.path(),
        r#"
            prepared = "prepared.json"
            batch_size = 256
            split = { train = 0.8, test = 0.2, part = "train" }
            group = "id"
            source = { path = "train.csv" }
            fields = { price = "f32" }
            [prepare.columns]
            age = { number = { impute = "median", mask = true, scale = "standardise" } }
            city = { category = { unknown = true } }
            joined = { date = { cyclic = ["month"] } }
        "#,
    )?;
    let fitted =
        said.config().prepare.clone().unwrap().fit(&Loader::open(&table)?.split(Split::train(0.8)).group("id"))?;
    assert!(fitted == prepared, "settings say the same recipe");
    let of = |batch: &DataSet| batch.tensors().map(|tensor| tensor.bytes().to_vec()).collect::<Vec<_>>();
    assert!(of(&said.build()?.next().unwrap()?) == of(&batch));
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

/// Settings can't hold a function; they have the spectrogram that most want, and the same mixture.
#[test]
#[cfg_attr(not(feature = "audio"), ignore = "makes spectrograms")]
fn a_spectrogram_and_a_mixture_by_name() -> Result<()> {
    let folder = tempfile::tempdir()?;
    std::fs::copy("fixtures/transforms/audio.npy", folder.path().join("audio.npy"))?;
    let said = settings(
        folder.path(),
        r#"
            batch_size = 4
            shuffle = 42
            source = { path = "audio.npy" }
            fields = { audio = "f32" }
            [[transforms]]
            kind = "log_mel"
            tensor = "audio"
            rate = 8000
            n_fft = 200
            mels = 12
            [[transforms]]
            kind = "mixup"
            alpha = 0.2
        "#,
    )?;
    let spectrogram = LogMel { n_fft: 200, mels: 12, ..LogMel::new("audio", 8000) };
    let loader = Loader::open(folder.path().join("audio.npy"))?
        .field("audio", Numbers::f32())
        .batch_size(4)
        .shuffle(42)
        .transform(Operation::LogMel(spectrogram));
    let (mixed, plain) = (loader.clone().transform(mixup(0.2)), loader);
    assert_eq!(first(&said)?, first(&mixed)?);
    assert_ne!(first(&said)?, first(&plain)?);
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
        .field("image", scene(Image::rgb(64, 48)).augment([random_resized_crop(), horizontal_flip()]).from("png"))
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
    #[rustfmt::skip] // as short as it may be written
    let texts = Loader::open(&path)?.field("ids", Tokens::from("/ids")).bucket("ids", [64, 128, 256, 512]).tokens_per_batch(8192);
    let said = settings(
        folder.path(),
        r#"
            bucket = { by = "ids", bounds = [64, 128, 256, 512], tokens_per_batch = 8192 }
            source = { path = "texts.jsonl" }
            [fields]
            ids = { from = "/ids", numbers = "i64" }
        "#,
    );
    let texts = texts.shuffle(42);
    let shapes = |batches: &mut dyn DataSetIterator| -> Result<Vec<Vec<usize>>> {
        batches.map(|batch| Ok(batch?.tensor("ids")?.shape().to_vec())).collect()
    };
    let batches = shapes(&mut *texts.build()?)?;
    assert!(batches.iter().all(|shape| [64, 128, 256, 512].contains(&shape[1]) && shape[0] * shape[1] <= 8192));
    assert_eq!(batches, shapes(&mut *said?.shuffle(42).build()?)?);
    // Exact resume, the same on any number of shards.
    let mut stopped = texts.build()?;
    stopped.by_ref().take(5).try_for_each(|batch| batch.map(drop))?;
    let mut resumed = texts.build()?;
    resumed.seek(&stopped.state())?;
    assert_eq!(batches[5..], shapes(&mut *resumed)?);
    for index in 0..3 {
        let own = shapes(&mut *texts.clone().shard(Shard::new(index, 3)?).build()?)?;
        let dealt: Vec<_> = batches.iter().skip(index as usize).step_by(3).cloned().collect();
        assert_eq!(own[..dealt.len()], dealt);
    }
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
    while let Some(batch) = test.next().transpose()? {
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
    let built =
        Loader::open(folder.path().join("irises.csv"))?.field("petal_length", Numbers::f64()).field("species", Class);
    assert_eq!(first(&said)?, first(&built)?);
    let error = LoaderConfig::from_json(r#"{"fields": {"x": "f65"}}"#).unwrap_err();
    assert!(error.message().contains("a type of numbers such as"), "{error}");
    Ok(())
}
