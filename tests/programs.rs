//! Programs that are to stay as short as they are here, in code and in settings.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use ringfeed::field::{Image, Numbers, Tokens};
use ringfeed::images::AugmentRecipe;
use ringfeed::transform::mixup;
use ringfeed::{Loader, LoaderConfig, Result, TensorSpec};

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

/// The user's own code, in the workers: a function of each sample, and one of each batch.
#[test]
fn a_function_of_samples_and_one_of_batches() -> Result<()> {
    let flowers = Loader::open("fixtures/iris-species.csv")?
        .field("flower", Numbers::f32().from(["sepal_length", "sepal_width", "petal_length", "petal_width"]))
        .map(TensorSpec::f32("shares", [4]), |row, out, scope| {
            let power = scope.zeros::<f32>([4]);
            row.f32("flower")?.iter().zip(power.iter_mut()).for_each(|(x, power)| *power = x * x);
            let sum: f32 = power.iter().sum();
            out.f32()?.iter_mut().zip(power).for_each(|(share, power)| *share = *power / sum);
            Ok(())
        })
        .transform(mixup(0.2))
        .shuffle(42);
    for batch in &mut flowers.build()? {
        for shares in batch?.tensor("shares")?.as_slice::<f32>()?.chunks(4) {
            assert!((shares.iter().sum::<f32>() - 1.0).abs() < 1e-5);
        }
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

/// Evaluation with no memory of its own.
#[test]
fn two_metrics_in_a_scope() -> Result<()> {
    let (mut right, mut seen) = (0, 0);
    let irises = Loader::csv("fixtures/iris-species.csv").labels(["species"]).batch_size(16);
    let workspace = irises.workspace()?;
    let mut test = irises.build_in(&workspace)?;
    let mut scope = workspace.enter();
    for batch in test.epoch()? {
        let batch = batch?;
        let scores = scope.zeros::<f32>([batch.len(), 3]);
        for (flower, scores) in batch.features()?.as_slice::<f32>()?.chunks(4).zip(scores.chunks_mut(3)) {
            scores[usize::from(flower[3] > 0.8) + usize::from(flower[3] > 1.7)] = 1.0;
        }
        let guesses = scores.chunks(3).zip(batch.labels()?.as_slice::<i64>()?);
        right += guesses.filter(|(scores, species)| scores[**species as usize] == 1.0).count();
        seen += batch.len();
        scope.next(); // a stale array is a compile error
    }
    assert!(right > 140 && seen == 150, "{right} of {seen}");
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
