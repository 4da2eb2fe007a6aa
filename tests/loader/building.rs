//! From configuration to batches.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::io::Write;

use crate::common::{fixture, see_all};
use ringfeed::csv::CsvOptions;
use ringfeed::device::DeviceName;
use ringfeed::field::{Class, Image, Numbers};
use ringfeed::formats::Csv;
use ringfeed::normalise::{NormaliserFit, QuantileFit};
use ringfeed::order::LastBatch;
use ringfeed::sequences::SequenceOptions;
use ringfeed::settings::{BadLimits, BadRecords, MemoryKind, NormaliserConfig, SourceConfig};
use ringfeed::workspace::{Amount, Overflow};
use ringfeed::{ErrorKind, Loader, LoaderConfig, Normaliser, Result};

/// A folder of classes made of the fixture photos.
fn photos() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (class, name) in [
        ("space", "astronaut.png"),
        ("space", "rocket.jpg"),
        ("still", "coffee.png"),
        ("still", "flower.jpg"),
        ("animal", "chelsea.png"),
    ] {
        std::fs::create_dir_all(folder.path().join(class)).unwrap();
        std::fs::copy(fixture("photos").join(name), folder.path().join(class).join(name)).unwrap();
    }
    folder
}

fn assert_shield_sees_the_same(loader: Loader) {
    let mut ahead = loader.build().unwrap();
    let mut shielded = loader.clone().shield().build().unwrap();
    for _ in 0..2 {
        let seen = see_all(&mut *ahead);
        assert!(!seen.is_empty());
        assert_eq!(seen, see_all(&mut *shielded));
        ahead.reset().unwrap();
        shielded.reset().unwrap();
    }
}

#[test]
#[cfg_attr(not(feature = "images"), ignore = "decodes images")]
fn every_format_gives_the_same_bytes_with_and_without_the_shield() {
    let photos = photos();
    let packed = tempfile::tempdir().unwrap();
    let path = packed.path().join("iris.csv.gz");
    let mut gzip = flate2::write::GzEncoder::new(std::fs::File::create(&path).unwrap(), flate2::Compression::fast());
    gzip.write_all(&std::fs::read(fixture("iris.csv")).unwrap()).unwrap();
    gzip.finish().unwrap();
    let sequences = tempfile::tempdir().unwrap();
    for (name, steps) in [("a", 3), ("b", 7), ("c", 1), ("d", 5)] {
        let rows: String = (0..steps).map(|step| format!("{step},{}\n", step * steps)).collect();
        std::fs::write(sequences.path().join(format!("{name}.csv")), format!("t,x\n{rows}")).unwrap();
    }
    for loader in [
        Loader::csv(fixture("iris.csv")).labels(["virginica"]),
        Loader::csv(fixture("iris.csv")).labels([4]).shuffle(3).last_batch(LastBatch::Pad),
        Loader::csv(&path),
        Loader::csv(&path).shuffle(1),
        Loader::csv_sequences(sequences.path(), SequenceOptions::default()).batch_size(3).shuffle(1),
        Loader::images(photos.path()).size(64, 48).batch_size(2).shuffle(8),
        Loader::images(photos.path()).batch_size(2).budget(100 << 20),
        Loader::images(photos.path())
            .field("image", Image::rgb(32, 32))
            .field("label", Class)
            .normalise("image", Normaliser::imagenet()),
    ] {
        assert_shield_sees_the_same(loader.workers(2));
    }
}

#[test]
fn a_packed_table_gives_the_same_batches_streamed_as_at_random() {
    let folder = tempfile::tempdir().unwrap();
    let plain = fixture("iris.csv");
    let path = folder.path().join("iris.csv.gz");
    let mut gzip = flate2::write::GzEncoder::new(std::fs::File::create(&path).unwrap(), flate2::Compression::fast());
    gzip.write_all(&std::fs::read(&plain).unwrap()).unwrap();
    gzip.finish().unwrap();
    let expected = see_all(&mut *Loader::csv(&plain).build().unwrap());
    assert_eq!(see_all(&mut *Loader::csv(&path).build().unwrap()), expected);
    let mut streamed = Loader::csv(&path).build().unwrap();
    drop(streamed.by_ref().take(2).map(Result::unwrap).collect::<Vec<_>>());
    let state = streamed.state();
    let mut resumed = Loader::csv(&path).build().unwrap();
    resumed.seek(&state).unwrap();
    assert_eq!(see_all(&mut *resumed), expected[2..]);
}

#[test]
fn records_that_are_read_ahead_count_against_the_budget() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("rows.csv.gz");
    let mut gzip = flate2::write::GzEncoder::new(std::fs::File::create(&path).unwrap(), flate2::Compression::fast());
    gzip.write_all("a,b\n".as_bytes()).unwrap();
    (0..100_000).for_each(|i| writeln!(gzip, "{i},{}", i / 3).unwrap());
    gzip.finish().unwrap();
    let loader = Loader::csv(&path).workers(1);
    assert_eq!(
        loader.clone().budget(4 << 20).build().unwrap().map(|batch| batch.unwrap().len()).sum::<usize>(),
        100_000
    );
    let refused = loader.budget(70_000).build();
    let error = refused.and_then(|mut batches| batches.find_map(Result::err).map_or(Ok(()), Err)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Budget, "{error}");
}

#[test]
#[cfg_attr(not(feature = "images"), ignore = "decodes images")]
fn a_folder_without_subfolders_gives_images_without_labels() {
    let mut iterator = Loader::images(fixture("photos")).size(8, 8).build().unwrap();
    let names: Vec<&str> = iterator.schema().tensors().iter().map(|tensor| tensor.name.as_str()).collect();
    assert_eq!(names, ["image"]);
    assert_eq!(iterator.next().unwrap().unwrap().len(), 6);
}

#[test]
fn toml_and_json_say_the_same() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::copy(fixture("iris.csv"), folder.path().join("iris.csv")).unwrap();
    let config = LoaderConfig {
        batch_size: 10,
        shuffle: Some(7),
        workers: Some(1.into()),
        fields: Loader::csv("iris.csv").labels(["virginica"]).config().fields.clone(),
        ..LoaderConfig::new(SourceConfig::new(Csv, "iris.csv", CsvOptions::default()))
    };
    let (toml, json) = (folder.path().join("c.toml"), folder.path().join("c.json"));
    std::fs::write(&toml, toml::to_string(&config).unwrap()).unwrap();
    std::fs::write(&json, serde_json::to_string(&config).unwrap()).unwrap();
    let loaded = LoaderConfig::load(&toml).unwrap();
    assert_eq!(loaded, LoaderConfig::load(&json).unwrap());
    assert_eq!(loaded.sources[0].path(), folder.path().join("iris.csv"), "relative to the file");
    let mut iterator = Loader::from(loaded).build().unwrap();
    assert_eq!(iterator.batches_per_epoch(), Some(15));
    assert_eq!(iterator.by_ref().map(|batch| batch.unwrap().len()).sum::<usize>(), 150);
}

#[test]
fn all_faults_are_reported_at_once() {
    let mut config = LoaderConfig::new(SourceConfig::new(Csv, fixture("irs.csv"), CsvOptions::default()));
    config.batch_size = 0;
    config.workers = Some(0.into());
    config.worker_share = Some(1.5);
    config.bad_records = BadRecords::Skip(BadLimits::share(2.0));
    config.normalise.insert("x".to_owned(), NormaliserConfig::File("missing.json".into()));
    let error = Loader::from(config).size(4, 4).build().err().unwrap();
    assert_eq!(error.kind(), ErrorKind::Config);
    let text = error.to_string();
    for part in [
        "7 faults",
        "size: only for a folder of images",
        "iris.csv",
        "batch_size",
        "workers",
        "worker_share: 1.5",
        "share of 2",
        "missing.json",
    ] {
        assert!(text.contains(part), "{part} in {text}");
    }
}

#[test]
fn an_unknown_setting_is_an_error_with_its_line() {
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in [
        ("c.toml", "batch_size = 4\nbatchsize = 5\n[[sources]]\nformat = \"csv\"\npath = \"x\"\n"),
        ("c.json", "{\"batch_size\": 4,\n\"batchsize\": 5, \"sources\": []}"),
    ] {
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        let error = LoaderConfig::load(&path).unwrap_err();
        assert_eq!((error.kind(), error.location().line), (ErrorKind::Config, Some(2)), "{error}");
        assert!(error.to_string().contains("batchsize"), "{error}");
    }
    let error = LoaderConfig::load(folder.path().join("c.tomll")).unwrap_err();
    assert!(error.to_string().contains("c.toml"), "{error}");
}

/// The field of which source it is can't be told from the name of the column alone.
#[test]
fn a_missing_column_names_the_field_of_the_settings_that_names_it() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("a.csv"), "u,v\n1,2\n3,4\n").unwrap();
    std::fs::write(folder.path().join("b.csv"), "u,w\n1,2\n3,4\n").unwrap();
    let refused = |text: &str| {
        let path = folder.path().join("loader.toml");
        std::fs::write(&path, text).unwrap();
        let error = Loader::from(LoaderConfig::load(&path).unwrap()).build().map(drop).unwrap_err();
        error.message().to_owned()
    };
    let message = refused("source = \"a.csv\"\n[fields]\nx = \"f32\"\n");
    assert!(message.starts_with("fields.x: no column \"x\""), "{message}");
    let message = refused(
        "source = \"a.csv\"\n[fields]\nx = { from = 0, numbers = \"f32\" }\ny = { from = 12, numbers = \"f32\" }\n",
    );
    assert!(message.starts_with("fields.y: no column 12"), "{message}");
    let source = |name: &str, tensor: &str| {
        format!(
            "[[sources]]\nformat = \"csv\"\npath = \"{name}.csv\"\nfields = {{ {tensor} = {{ from = \"v\", numbers = \"f32\" }} }}\n"
        )
    };
    let message = refused(&(source("a", "x") + &source("b", "y")));
    assert!(message.starts_with("no column \"v\""), "{message}");
}

#[test]
#[cfg_attr(not(feature = "images"), ignore = "decodes images")]
fn the_form_that_a_refusal_names_works() {
    let photos = photos();
    let load = |text: &str| {
        let path = photos.path().join("loader.toml");
        std::fs::write(&path, format!("batch_size = 2\nsource = {:?}\n{text}", photos.path())).unwrap();
        LoaderConfig::load(&path)
    };
    // What a new user writes, and the form that is named.
    for (text, before, form) in [
        (
            "augment = [\"horizontal_flip\"]",
            "shuffle = 1",
            "fields.image = { image = [224, 224], augment = [\"horizontal_flip\"] }",
        ),
        ("normalise = \"imagenet\"", "fields.image = { image = [8, 8] }", "normalise = { image = \"imagenet\" }"),
        ("fields.image = \"imagenet\"", "fields.image = { image = [8, 8] }", "normalise.image = \"imagenet\""),
    ] {
        let error = load(text).unwrap_err();
        assert!(error.message().contains(&format!("write {form}")), "{error}");
        assert_eq!(error.location().line, Some(3), "{error}");
        Loader::from(load(&format!("{before}\n{form}")).unwrap()).build().unwrap().next().unwrap().unwrap();
    }
}

#[test]
fn settings_reach_the_workspace() {
    let mut config = LoaderConfig::new(SourceConfig::new(Csv, fixture("iris.csv"), CsvOptions::default()));
    config.prefetch = Some(5.into());
    config.memory.overflow = Overflow::Spill;
    config.memory.lease_wait_ms = 0;
    config.memory.kind = MemoryKind::TempFile { limit_bytes: 1 << 20, folder: None };
    config.batch_size = 2;
    let iterator = Loader::from(config.clone()).build().unwrap();
    let held: Vec<_> = iterator.map(Result::unwrap).collect();
    assert_eq!(held.len(), 75);
    config.memory.kind = MemoryKind::TempFile { limit_bytes: 4096, folder: None };
    let error = Loader::from(config).build().unwrap().find_map(Result::err).unwrap();
    assert_eq!(error.kind(), ErrorKind::Budget);
}

#[test]
fn settings_choose_a_device_s_memory() {
    let settings = |device: &str| {
        toml::from_str::<LoaderConfig>(&format!(
            "sources = [{{ format = \"csv\", path = {:?} }}]\nmemory = {{ kind = {{ page_locked = {{ device = \"{device}\" }} }} }}",
            fixture("iris.csv")
        ))
    };
    let host = settings("host").unwrap();
    assert_eq!(host.memory.kind, MemoryKind::PageLocked { device: DeviceName::Host });
    let json = serde_json::to_string(&host).unwrap();
    assert_eq!(serde_json::from_str::<LoaderConfig>(&json).unwrap(), host);
    let samples: usize = Loader::from(host).build().unwrap().map(|batch| batch.unwrap().len()).sum();
    assert_eq!(samples, 150);

    // There is no such device anywhere; who only plans needs none.
    let cuda = Loader::from(settings("cuda:9999").unwrap());
    assert_eq!(cuda.faults(), Vec::<String>::new());
    cuda.plan().unwrap();
    let error = cuda.build().err().unwrap();
    if cfg!(feature = "cuda") {
        assert_eq!(error.kind(), ErrorKind::Device, "{error}");
    } else {
        assert_eq!(error.kind(), ErrorKind::Unsupported);
        assert!(error.message().contains("cuda:9999") && error.message().contains("feature `cuda`"), "{error}");
    }
    let by_setter = Loader::csv(fixture("iris.csv")).memory(MemoryKind::PageLocked { device: DeviceName::Cuda(9999) });
    assert_eq!(by_setter.build().err().unwrap().kind(), error.kind());

    for (name, device) in [("cuda", DeviceName::Cuda(0)), ("cuda:3", DeviceName::Cuda(3)), ("host", DeviceName::Host)] {
        assert_eq!(name.parse::<DeviceName>().unwrap(), device);
        assert_eq!(device.to_string().parse::<DeviceName>().unwrap(), device);
    }
    for wrong in ["gpu", "cuda:", "cuda:-1", "cuda:x", "host:0", ""] {
        let error = settings(wrong).unwrap_err().to_string();
        assert!(error.contains("there are `host` and `cuda:0`"), "{wrong}: {error}");
    }
}

#[test]
fn training_and_evaluation_share_a_workspace_and_a_class_list() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("train.csv"), "x,class\n1,b\n2,a\n3,b\n").unwrap();
    std::fs::write(folder.path().join("test.csv"), "x,class\n4,b\n").unwrap();
    let train = Loader::csv(folder.path().join("train.csv"));
    let workspace = train.workspace().unwrap();
    let mut train = train.build_in(&workspace).unwrap();
    let classes = train.schema().tensors()[1].classes.clone().unwrap();
    assert_eq!(&classes[..], ["a", "b"]);
    let test = Loader::csv(folder.path().join("test.csv")).field("features", Numbers::f32().from("x"));
    let test = test.field("labels", Class::of(classes.to_vec()).from("class"));
    let mut test = test.build_in(&workspace).unwrap();
    assert_eq!(train.next().unwrap().unwrap().labels().unwrap().as_slice::<i64>().unwrap(), [1, 0, 1]);
    assert_eq!(test.next().unwrap().unwrap().labels().unwrap().as_slice::<i64>().unwrap(), [1]);
}

#[test]
fn a_normaliser_fitted_on_batches_is_applied_in_the_decode_and_undone() {
    let train = Loader::csv(fixture("iris.csv")).labels(["virginica"]);
    let mut fit = NormaliserFit::standardise(Some(0));
    fit.observe_all(train.build().unwrap(), "features").unwrap();
    let normaliser = fit.finish().unwrap();
    let mut raw = train.build().unwrap();
    let mut normalised = train.clone().normalise("features", normaliser.clone()).build().unwrap();
    let mut sums = [0.0f64; 4];
    while let (Some(raw), Some(normalised)) = (raw.next(), normalised.next()) {
        let (raw, normalised) = (raw.unwrap(), normalised.unwrap());
        let mut values = normalised.features().unwrap().as_slice::<f32>().unwrap().to_vec();
        values.iter().enumerate().for_each(|(index, value)| sums[index % 4] += f64::from(*value));
        normaliser.revert(&mut values, &[4]).unwrap();
        for (value, original) in values.iter().zip(raw.features().unwrap().as_slice::<f32>().unwrap()) {
            assert!((value - original).abs() < 1e-5, "{value} {original}");
        }
    }
    assert!(sums.iter().all(|sum| sum.abs() < 1e-3), "{sums:?}");
}

#[test]
fn padding_does_not_count_in_a_fit() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("a.csv"), "x\n1\n").unwrap();
    std::fs::write(folder.path().join("b.csv"), "x\n0\n2\n3\n4\n").unwrap();
    let loader = Loader::csv_sequences(folder.path(), SequenceOptions::default());
    let mut fit = NormaliserFit::standardise(Some(1));
    fit.observe_all(loader.build().unwrap(), "features").unwrap();
    let Normaliser::Standardise { mean, .. } = fit.finish().unwrap() else { panic!("standardise gives standardise") };
    assert_eq!(mean, [10.0 / 5.0]);
    let mut fit = QuantileFit::new(None);
    fit.observe_all(loader.build().unwrap(), "features").unwrap();
    let quantiles = fit.finish().unwrap();
    let five = [0.0, 0.25, 0.5, 0.75, 1.0].map(|share| quantiles.at(0, share).unwrap());
    assert_eq!(five, [0.0, 1.0, 2.0, 3.0, 4.0]);
}

#[test]
fn many_workers_on_small_batches_have_more_of_them_under_way() {
    let prefetch = |workers: usize, batch_size| {
        let config = LoaderConfig { workers: Some(workers.into()), batch_size, ..LoaderConfig::default() };
        config.prefetch_batches()
    };
    assert_eq!([prefetch(2, 32), prefetch(16, 32), prefetch(128, 32), prefetch(2, 1)], [2, 2, 8, 4]);
    assert_eq!(LoaderConfig { prefetch: Some(0.into()), ..LoaderConfig::default() }.prefetch_batches(), 0);
}

#[test]
#[cfg_attr(not(feature = "images"), ignore = "decodes images")]
fn tuning_begins_with_what_would_be_used_without_it() {
    let folder = photos();
    let pictures = Loader::images(folder.path()).size(900, 900);
    let loaders =
        [Loader::csv("fixtures/iris.csv").batch_size(10), pictures.clone().batch_size(2), pictures.batch_size(1)];
    let found = loaders.map(|loader| {
        let begun = |loader: Loader| {
            let workspace = loader.workspace().unwrap();
            let stats = loader.build_in(&workspace).unwrap().stats();
            let planned = loader.plan().unwrap();
            assert_eq!((planned.workers, planned.prefetch), (stats.workers.threads, stats.queue.prefetch));
            [stats.workers.threads, stats.queue.prefetch, workspace.prefetch()]
        };
        let default = begun(loader.clone());
        assert_eq!(begun(loader.workers(Amount::Auto).prefetch(Amount::Auto)), default);
        default[1]
    });
    assert!(found[0] == 8 && found[1] < 8, "small batches, and larger ones: {found:?}");
}

#[test]
fn what_was_found_can_be_written_into_the_settings() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::copy("fixtures/iris.csv", folder.path().join("iris.csv")).unwrap();
    let settings = |workers: &str| {
        let path = folder.path().join("settings.toml");
        let text =
            format!("batch_size = 10\nworkers = {workers}\nprefetch = \"auto\"\nsource = {{ path = \"iris.csv\" }}\n");
        std::fs::write(&path, text).unwrap();
        LoaderConfig::load(path)
    };
    let error = settings("\"many\"").unwrap_err();
    assert!(error.message().contains("workers: expected a whole number, 0 or more, or \"auto\""), "{error}");
    let config = settings("\"auto\"").unwrap();
    assert_eq!((config.workers, config.prefetch), (Some(Amount::Auto), Some(Amount::Auto)));
    let mut train = Loader::from(config.clone()).build().unwrap();
    assert_eq!(train.by_ref().map(|batch| batch.unwrap().len()).sum::<usize>(), 150);
    let stats = train.stats();
    let begins = format!("tuned      {} workers, 8 batches ahead; changed 0 times: ", stats.workers.threads);
    assert!(stats.workers.threads > 0 && stats.to_string().contains(&begins), "{stats}");
    std::fs::create_dir(folder.path().join("elsewhere")).unwrap();
    for name in ["elsewhere/tuned.toml", "elsewhere/tuned.json"] {
        config.tuned(&stats).save(folder.path().join(name)).unwrap();
        let tuned = LoaderConfig::load(folder.path().join(name)).unwrap();
        assert_eq!((tuned.workers, tuned.prefetch), (Some(stats.workers.threads.into()), Some(8.into())));
        assert_eq!(Loader::from(tuned).build().unwrap().map(|batch| batch.unwrap().len()).sum::<usize>(), 150);
    }
}

#[test]
fn a_wrong_value_is_an_error_with_its_file_line_key_and_what_is_allowed() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("c.toml");
    let load = |text: &str| {
        std::fs::write(&path, text).unwrap();
        LoaderConfig::load(&path).unwrap_err()
    };
    for (setting, says) in [
        ("batch_size = 0", "batch_size: 0; a batch has at least one sample"),
        ("batch_size = -1", "batch_size: expected a whole number, 0 or more, found -1"),
        ("workers = 0", "workers: 0; give 1 to 4096"),
        ("workers = 2.5", "workers: expected a whole number, 0 or more, or \"auto\", found 2.5"),
        ("prefetch = 5000", "prefetch: 5000; at most 4096"),
        ("worker_nice = 20", "worker_nice: 20; it is 0"),
        ("worker_share = 1.5", "worker_share: 1.5; it is a share"),
        ("worker_share = 1e-9", "worker_share: 0.000000001; it is a share"),
        ("split = { train = 0.8, test = 0.8, part = \"train\" }", "split: "),
        ("folds = { fold = 5, count = 5 }", "folds: "),
        ("mix = [0.5, -1.0]", "mix[1]: a weight of -1; weights are finite and not negative"),
        ("filter = \"kind = 3\"", "filter: character"),
        ("shuffle = { seed = 1, blocks = 0 }", "shuffle_blocks: 0; give 1 or more chunks"),
        ("bad_records = { skip = { share = 2.0 } }", "bad_records.skip.share: a share of 2; it is between 0 and 1"),
        ("fetch_limit = { time_ms = 0, replacements = 1 }", "fetch_limit.time_ms: nothing is read in 0 ms"),
        ("bucket = { by = \"x\", bounds = [4, 2] }", "bucket.bounds: [4, 2]; give numbers of 1 or more, in ascending"),
        ("windows = { length = 0 }", "windows.length: 0; give 1 or more"),
        ("memory = { budget_bytes = 0 }", "memory.budget_bytes: nothing fits"),
        (
            "transforms = [{ kind = \"noise\", tensor = \"x\", deviation = -1 }]",
            "transforms[0].deviation: -1; it is 0 or more",
        ),
        (
            "augment = { x = [{ kind = \"masking\", probability = 2 }] }",
            "augment.x[0].probability: 2; it is between 0 and 1",
        ),
        (
            "normalise = { x = { kind = \"linear\", scale = 0, bias = 0 } }",
            "normalise.x: a normaliser with a scale of 0",
        ),
        ("fields = { x = { image = [0, 224] } }", "fields.x.image: 0 x 224 has no pixels; give a size"),
        (
            "fields = { x = { image = [2, 2], augment = [{ kind = \"invert\", probability = 2 }] } }",
            "fields.x.augment[0]: invert",
        ),
        ("fields = { x = { file = { audio = 8000, channels = 0 } } }", "fields.x.file.channels: 0; give 1 to 256"),
        ("fields = { x = { class = [\"a\", \"b\", \"a\"] } }", "fields.x.class: \"a\" is listed twice"),
        ("fields = { x = { text = 0 } }", "fields.x.text: 0"),
    ] {
        let error = load(&format!("shorter = true\n{setting}\nsource = {{ path = \"x\" }}\n"));
        assert!(error.message().starts_with(says), "{error}");
        assert_eq!((error.kind(), error.location().line), (ErrorKind::Config, Some(2)), "{error}");
        assert_eq!(error.path(), Some(&*path), "{error}");
    }
    let error = load("prepared = \"p.json\"\n\n[prepare.columns]\nage = { number = { impute = \"modus\" } }\n");
    assert_eq!(error.location().line, Some(4));
    let says = "prepare.columns.age.number.impute: \"modus\" is not allowed; it is \"mean\", \"median\" or \"most_frequent\", or a number";
    assert!(error.message().starts_with(says), "{error}");
    let error = load("[[sources]]\nformat = \"tokens\"\npath = \"x\"\n[sources.options]\nwindow = 0\n");
    assert_eq!(error.location().line, Some(5), "{error}");
    assert!(error.message().starts_with("sources[0].options.window: 0; a window has 1 to 2^30 tokens"), "{error}");

    let error = load("workers = 0\n\n[source]\npath = \"x\"\n\n[memory]\nbudget_bytes = 0\n");
    let lines: Vec<&str> = error.message().lines().map(str::trim).collect();
    assert!(lines[0].starts_with("2 faults") && lines[1].starts_with("line 1: workers: 0"), "{error}");
    assert!(lines[2].starts_with("line 7: memory.budget_bytes: "), "{error}");

    let json = folder.path().join("c.json");
    std::fs::write(&json, "{\"source\": {\"path\": \"x\"},\n\"split\": {\"train\": 2,\n\"part\": \"train\"}}").unwrap();
    let error = LoaderConfig::load(&json).unwrap_err();
    assert_eq!((error.path(), error.location().line), (Some(&*json), Some(2)), "{error}");

    // What others may change, or what this machine lacks, is no matter of the file.
    std::fs::write(&path, "class_balanced = true\nprepared = \"none.json\"\n[source]\npath = \"none.csv\"\n").unwrap();
    assert_eq!(LoaderConfig::load(&path).unwrap().faults().len(), 2);
}

#[test]
fn nothing_beside_a_file_is_passed_over() {
    let folder = tempfile::tempdir().unwrap();
    let read = |field: &str| {
        let path = folder.path().join("loader.toml");
        std::fs::write(&path, format!("source = \"a.csv\"\n[fields]\nx = {field}\n")).unwrap();
        LoaderConfig::load(path)
    };
    for (field, words) in [
        (r#"{ from = "p", file = { image = [8, 8] }, augment = ["horizontal_flip"] }"#, "augment belongs in file"),
        (r#"{ from = "p", file = { image = [8, 8] }, dtype = "u8" }"#, "dtype belongs in file"),
        (r#"{ from = "p", file = { image = [8, 8] }, text = 5 }"#, "text belongs in file"),
        (r#"{ file = { from = "p", image = [8, 8] } }"#, "beside file"),
        (r#"{ index_map = [8, 8], colour = "rgb" }"#, "colour: an index map"),
    ] {
        let error = read(field).unwrap_err();
        assert!(error.message().contains(words), "{field}: {error}");
    }
    let good = read(r#"{ from = "p", role = "label", file = { image = [8, 8], dtype = "u8" } }"#).unwrap();
    assert_eq!(LoaderConfig::from_json(&serde_json::to_string(&good).unwrap()).unwrap(), good);
}
