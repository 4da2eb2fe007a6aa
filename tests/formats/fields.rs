//! Fields: what each tensor is made of, in Rust and in settings alike.
#![expect(clippy::unwrap_used, reason = "a test ends with the first surprise")]

use std::path::{Path, PathBuf};

use ringfeed::csv::Missing;
use ringfeed::field::{Category, Class, Field, Image, Numbers, Text};
use ringfeed::formats::TextLines;
use ringfeed::images::{ImageAugment, PixelOrder};
use ringfeed::settings::{BadRecords, SourceConfig};
use ringfeed::tensor::Role;
use ringfeed::{DType, DataSet, DataSetIterator, Loader, LoaderConfig, Normaliser, Result};

fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures")
}

/// Photos in class folders, and a table that names them.
fn photos() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (class, photo) in
        [("food", "coffee.png"), ("person", "astronaut.png"), ("space", "rocket.jpg"), ("person", "chelsea.png")]
    {
        std::fs::create_dir_all(folder.path().join("train").join(class)).unwrap();
        let to = folder.path().join("train").join(class).join(photo);
        std::fs::copy(fixtures().join("photos").join(photo), to).unwrap();
    }
    let table = "path,label,x,y,comment\n\
                 train/person/chelsea.png,yes,1.5,2,a cat\n\
                 train/space/rocket.jpg,no,-0.25,3,\"lift-off, soon\"\n\
                 train/food/coffee.png,no,7,4,\n";
    std::fs::write(folder.path().join("table.csv"), table).unwrap();
    folder
}

fn crop() -> ImageAugment {
    ImageAugment::RandomResizedCrop { scale: (0.2, 1.0), ratio: (0.75, 1.33) }
}

fn flip() -> ImageAugment {
    ImageAugment::HorizontalFlip { probability: 0.5 }
}

/// Name, type, shape and bytes of a tensor.
type Seen = (String, DType, Vec<usize>, Vec<u8>);

/// The samples of each batch of one epoch, and their tensors.
fn all(batches: &mut dyn DataSetIterator) -> Vec<(Vec<u64>, Vec<Seen>)> {
    let tensors = |batch: &DataSet| {
        batch.tensors().map(|t| (t.name().to_owned(), t.dtype(), t.shape().to_vec(), t.bytes().to_vec())).collect()
    };
    batches.map(|batch| batch.unwrap()).map(|batch| (batch.sample_ids().to_vec(), tensors(&batch))).collect()
}

/// Settings beside the data, which say the same as `loader`, read back after they were written, too.
fn same_as_settings(folder: &Path, settings: &str, loader: &Loader) -> Result<()> {
    let file = folder.join("loader.toml");
    std::fs::write(&file, settings).unwrap();
    let config = LoaderConfig::load(&file)?;
    let expected = all(&mut *loader.build()?);
    assert!(!expected.is_empty());
    assert!(all(&mut *Loader::from(config.clone()).build()?) == expected, "{settings}");
    for written in [toml::to_string(&config).unwrap(), serde_json::to_string(&config).unwrap()] {
        let again: LoaderConfig = if written.starts_with('{') {
            serde_json::from_str(&written).unwrap()
        } else {
            toml::from_str(&written).unwrap()
        };
        assert_eq!(again, config, "{written}");
    }
    Ok(())
}

#[test]
fn photos_in_class_folders() -> Result<()> {
    let folder = photos();
    let loader = Loader::open(folder.path().join("train"))?
        .field("image", Image::rgb(64, 48).augment([crop(), flip()]))
        .field("label", Class)
        .batch_size(2)
        .shuffle(42);
    let batch = loader.build()?.next().unwrap()?;
    assert_eq!(batch.tensor("image")?.shape(), [2, 3, 64, 48]);
    assert_eq!(batch.tensor("image")?.as_slice::<f32>()?.len(), 2 * 3 * 64 * 48);
    assert_eq!(batch.tensor("label")?.as_slice::<i64>()?.len(), 2);
    assert_eq!(batch.schema().tensors()[1].classes.as_deref().unwrap(), ["food", "person", "space"]);
    let settings = r#"
        batch_size = 2
        shuffle = 42
        [source]
        path = "train"
        [fields]
        image = { image = [64, 48], augment = [{ kind = "random_resized_crop", scale = [0.2, 1.0], ratio = [0.75, 1.33] }, "horizontal_flip"] }
        label = "class"
    "#;
    same_as_settings(folder.path(), settings, &loader)
}

#[test]
fn without_a_class_field_images_have_no_label() -> Result<()> {
    let folder = photos();
    let loader = Loader::open(folder.path().join("train"))?.field("pixels", Image::grey(8, 8).dtype(DType::U8));
    let batch = loader.build()?.next().unwrap()?;
    assert_eq!(batch.tensors().map(|tensor| tensor.name().to_owned()).collect::<Vec<_>>(), ["pixels"]);
    assert_eq!(batch.tensor("pixels")?.shape(), [4, 1, 8, 8]);
    Ok(())
}

#[test]
fn a_table_that_names_image_files_among_other_columns() -> Result<()> {
    let folder = photos();
    let loader = Loader::open(folder.path().join("table.csv"))?
        .field("photo", Image::rgb(32, 32).order(PixelOrder::Nhwc).from("path").file())
        .field("label", Class::of(["no", "yes"]))
        .field("where", Numbers::f64().from(["x", "y"]))
        .field("comment", Text::new(8).cut())
        .batch_size(3);
    let batch = loader.build()?.next().unwrap()?;
    assert_eq!(batch.tensor("label")?.as_slice::<i64>()?, [1, 0, 0]);
    assert_eq!(batch.tensor("where")?.as_slice::<f64>()?, [1.5, 2.0, -0.25, 3.0, 7.0, 4.0]);
    assert_eq!(&batch.tensor("comment")?.as_slice::<u8>()?[8..16], b"lift-off");
    let alone = ["person/chelsea.png", "space/rocket.jpg", "food/coffee.png"].map(|photo| {
        let path = folder.path().join("train").join(photo);
        let one = Loader::open(path).unwrap().field("photo", Image::rgb(32, 32).order(PixelOrder::Nhwc));
        one.build().unwrap().next().unwrap().unwrap().tensor("photo").unwrap().bytes().to_vec()
    });
    assert!(batch.tensor("photo")?.bytes() == alone.concat());
    let settings = r#"
        batch_size = 3
        [source]
        path = "table.csv"
        [fields]
        photo = { from = "path", file = { image = [32, 32], order = "nhwc" } }
        label = { class = ["no", "yes"] }
        where = { from = ["x", "y"], numbers = "f64" }
        comment = { text = 8, longer = "cut" }
    "#;
    drop(batch);
    let names = |batch: &DataSet| {
        let mut names: Vec<_> = batch.tensors().map(|tensor| tensor.name().to_owned()).collect();
        names.sort();
        names
    };
    let config = {
        same_as_settings(folder.path(), settings, &loader)?;
        LoaderConfig::load(folder.path().join("loader.toml"))?
    };
    assert_eq!(
        names(&Loader::from(config).build()?.next().unwrap()?),
        ["comment", "comment_len", "label", "photo", "where"]
    );
    Ok(())
}

/// Lines and bytes are those of the table, and must not stand behind the name of another file.
#[test]
fn a_file_that_a_table_names_has_no_line_of_the_table() -> Result<()> {
    let folder = photos();
    std::fs::write(folder.path().join("gone.csv"), "path\ntrain/space/rocket.jpg\ngone.jpg\n").unwrap();
    let loader = Loader::open(folder.path().join("gone.csv"))?
        .field("photo", Image::rgb(8, 8).from("path").file())
        .batch_size(1);
    let errors: Vec<ringfeed::Error> = loader.build()?.filter_map(Result::err).collect();
    let place = errors.last().unwrap().location();
    assert!(place.path.as_ref().unwrap().ends_with("gone.jpg"), "{place}");
    assert_eq!((place.record, place.line, place.byte), (Some(1), None, None), "{place}");
    Ok(())
}

/// CSV decodes some fields by itself, others by value, and others out of files.
#[test]
fn tensors_stand_in_the_order_of_the_fields_whoever_reads_them() -> Result<()> {
    let folder = photos();
    let fields: [(&str, Field); 6] = [
        ("both", Numbers::f64().missing(Missing::Nan).from(["x", "y"])),
        ("comment", Text::new(8).cut().into()),
        ("photo", Image::rgb(8, 8).dtype(DType::U8).from("path").file()),
        ("label", Class.into()),
        ("some", Numbers::f32().missing(Missing::Nan).max_len(3).from("x")),
        ("y", Numbers::f32().into()),
    ];
    let table = || Loader::open(folder.path().join("table.csv")).unwrap().batch_size(2).shuffle(3);
    // Also those of one reader that stand apart are normalised.
    let normalised = |loader: Loader| {
        loader.normalise("y", Normaliser::Standardise { axis: None, mean: vec![3.0], deviation: vec![0.5] })
    };
    let alone = |(name, field): &(&str, Field)| {
        let one = table().field(*name, field.clone());
        let mut one = if *name == "y" { normalised(one) } else { one }.build().unwrap();
        all(&mut *one).into_iter().map(|(_, tensors)| tensors).collect::<Vec<_>>()
    };
    // Each field comes first, behind each other, and last.
    for turn in 0..fields.len() {
        let mut turned = fields.clone();
        turned.rotate_left(turn);
        let loader = turned.iter().fold(table(), |loader, (name, field)| loader.field(*name, field.clone()));
        let loader = normalised(loader);
        let expected: Vec<_> = turned.iter().map(alone).collect();
        for (batch, (_, tensors)) in all(&mut *loader.build()?).into_iter().enumerate() {
            let expected: Vec<&Seen> = expected.iter().flat_map(|batches| &batches[batch]).collect();
            assert!(tensors.iter().eq(expected.iter().copied()), "{turn}: {:?}", names(&tensors));
        }
        let all_alone = all(&mut *loader.clone().shield().build()?);
        assert!(all_alone == all(&mut *loader.build()?), "{turn}");
        // Samples that stand in for bad ones are written one by one.
        let table = std::fs::read_to_string(folder.path().join("table.csv")).unwrap();
        let broken = folder.path().join("broken.csv");
        std::fs::write(&broken, table.replace("-0.25", "?")).unwrap();
        let loader =
            turned.iter().fold(Loader::open(&broken)?, |loader, (name, field)| loader.field(*name, field.clone()));
        let loader = loader.bad_records(BadRecords::Replace(Default::default()));
        let (ids, tensors) = all(&mut *loader.build()?).remove(0);
        assert!(ids.len() == 3 && ids[1] != 1, "{ids:?}");
        let twin = ids.iter().position(|id| *id == ids[1]).unwrap();
        for (name, _, _, bytes) in tensors {
            let row = |nth: usize| &bytes[nth * bytes.len() / 3..(nth + 1) * bytes.len() / 3];
            assert!(twin == 1 || row(1) == row(twin), "{name}");
        }
    }
    Ok(())
}

fn names(tensors: &[Seen]) -> Vec<&str> {
    tensors.iter().map(|tensor| &*tensor.0).collect()
}

#[test]
fn a_table_of_regression_targets_for_images_is_as_short() -> Result<()> {
    let folder = photos();
    let list = "train/person/chelsea.png,1,2,3,4,5\ntrain/space/rocket.jpg,-1,0.5,0,7,8\n";
    std::fs::write(folder.path().join("list.csv"), list).unwrap();
    let loader = Loader::open(folder.path().join("list.csv"))?
        .field("image", Image::rgb(16, 16).from(0).file())
        .field("target", Numbers::f32().from([1, 2, 3, 4, 5]));
    let settings = r#"
        source = "list.csv"
        fields.image = { from = 0, file = { image = [16, 16] } }
        fields.target = { from = [1, 2, 3, 4, 5], numbers = "f32" }
    "#;
    let path = folder.path().join("train.toml");
    std::fs::write(&path, settings).unwrap();
    for loader in [loader, Loader::from(LoaderConfig::load(&path)?)] {
        let batch = loader.build()?.next().unwrap()?;
        assert_eq!(
            (batch.tensor("image")?.shape(), batch.tensor("target")?.shape()),
            (&[2, 3, 16, 16][..], &[2, 5][..])
        );
        assert_eq!(batch.tensor("target")?.as_slice::<f32>()?, [1.0, 2.0, 3.0, 4.0, 5.0, -1.0, 0.5, 0.0, 7.0, 8.0]);
    }
    Ok(())
}

#[test]
fn a_file_that_a_table_names_and_that_is_not_there_is_a_bad_record_with_its_name() -> Result<()> {
    let folder = photos();
    std::fs::write(folder.path().join("table.csv"), "path,x\ntrain/food/coffee.png,1\ntrain/food/tea.png,2\n,3\n")
        .unwrap();
    let loader = Loader::open(folder.path().join("table.csv"))?
        .field("image", Image::rgb(16, 16).from("path").file())
        .field("x", Numbers::f32())
        .bad_records(ringfeed::settings::BadRecords::Skip(Default::default()));
    let mut batches = loader.build()?;
    assert_eq!(batches.next().unwrap()?.tensor("x")?.as_slice::<f32>()?, [1.0]);
    let bad = batches.bad_records();
    assert_eq!(bad.len(), 2);
    assert!(bad[0].error.contains("tea.png") && bad[0].error.contains("record 1"), "{}", bad[0].error);
    Ok(())
}

#[test]
fn views_of_one_picture_differ_and_a_shared_geometry_does_not() -> Result<()> {
    let folder = photos();
    let view = || Image::rgb(24, 24).dtype(DType::U8).augment([crop(), flip()]);
    let train = folder.path().join("train");
    let two = |first: Image, second: Image| -> Result<(Vec<u8>, Vec<u8>)> {
        let loader =
            Loader::open(&train)?.field("view1", first).field("view2", second).field("label", Class).shuffle(3);
        let batch = loader.build()?.next().unwrap()?;
        assert_eq!(batch.tensor("label")?.shape(), [4]);
        Ok((batch.tensor("view1")?.bytes().to_vec(), batch.tensor("view2")?.bytes().to_vec()))
    };
    let (first, second) = two(view(), view())?;
    assert!(first.chunks(3 * 24 * 24).zip(second.chunks(3 * 24 * 24)).all(|(first, second)| first != second));
    let (first, second) = two(view().geometry("scene"), view().geometry("scene"))?;
    assert!(first == second);
    let settings = r#"
        shuffle = 3
        source = { path = "train" }
        [fields]
        view1 = { image = [24, 24], dtype = "u8", augment = [{ kind = "random_resized_crop", scale = [0.2, 1.0], ratio = [0.75, 1.33] }, "horizontal_flip"] }
        view2 = { image = [24, 24], dtype = "u8", augment = [{ kind = "random_resized_crop", scale = [0.2, 1.0], ratio = [0.75, 1.33] }, "horizontal_flip"] }
    "#;
    same_as_settings(
        folder.path(),
        settings,
        &Loader::open(&train)?.field("view1", view()).field("view2", view()).shuffle(3),
    )
}

#[test]
fn an_archive_with_two_images_and_numbers_out_of_json() -> Result<()> {
    let folder = tempfile::tempdir().unwrap();
    let mut tar = tar::Builder::new(std::fs::File::create(folder.path().join("train.tar")).unwrap());
    let left = std::fs::read(fixtures().join("images/rgb.png")).unwrap();
    let right = std::fs::read(fixtures().join("images/grey.png")).unwrap();
    for key in 0..3 {
        let json = format!(r#"{{"steer": {key}.5, "class": {key}}}"#);
        for (extension, bytes) in [("json", json.as_bytes()), ("left.png", &left), ("right.png", &right)] {
            let mut header = tar::Header::new_ustar();
            header.set_size(bytes.len() as u64);
            header.set_mode(0o644);
            tar.append_data(&mut header, format!("{key:03}.{extension}"), bytes).unwrap();
        }
    }
    tar.into_inner().unwrap();
    let loader = Loader::open(folder.path().join("train.tar"))?
        .field("left", Image::rgb(20, 20).from("left.png"))
        .field("right", Image::grey(10, 10).from("right.png"))
        .field("steer", Numbers::f32().from("json:/steer"))
        .field("label", Class.from("json:/class"));
    let batch = loader.build()?.next().unwrap()?;
    assert_eq!(batch.tensor("left")?.shape(), [3, 3, 20, 20]);
    assert_eq!(batch.tensor("right")?.shape(), [3, 1, 10, 10]);
    assert_eq!(batch.tensor("steer")?.as_slice::<f32>()?, [0.5, 1.5, 2.5]);
    assert_eq!(batch.tensor("label")?.as_slice::<i64>()?, [0, 1, 2]);
    let settings = r#"
        source = { path = "train.tar" }
        [fields]
        left = { from = "left.png", image = [20, 20] }
        right = { from = "right.png", image = [10, 10], colour = "grey" }
        steer = { from = "json:/steer", numbers = "f32" }
        label = { from = "json:/class", class = [] }
    "#;
    same_as_settings(folder.path(), settings, &loader)
}

#[test]
fn categories_and_arrays_are_fields_too() -> Result<()> {
    let folder = photos();
    let loader = Loader::open(folder.path().join("table.csv"))?
        .field("kind", Category::new().missing(-1))
        .field("x", Numbers::f32());
    assert!(loader.build().is_err(), "there is no column kind");
    let resolved = loader.config().clone().resolved()?;
    assert_eq!(resolved.sources[0].fields, loader.config().fields);
    let npy = Loader::open(fixtures().join("npy/i2-little.npy"))?.field("height", Numbers::f32());
    let batch = npy.build()?.next().unwrap()?;
    assert_eq!((batch.tensor("height")?.dtype(), batch.schema().tensors()[0].role), (DType::F32, Role::Feature));
    Ok(())
}

#[test]
fn fields_of_folders_become_tensors_through_any_codec() -> Result<()> {
    let folder = photos();
    let train = || Loader::open(folder.path().join("train"));
    let usual = train()?.field("photo", Image::rgb(8, 8)).field("class", Class).build()?.next().unwrap()?;
    let loader = train()?
        .field("photo", Image::rgb(8, 8))
        .field("class", Class)
        .field("again", Class.one_hot().dtype(DType::U8))
        .field("number", Numbers::f32().from("label"))
        .field("name", Text::new(40).from("image.path"));
    let batch = loader.build()?.next().unwrap()?;
    let photo = |batch: &ringfeed::DataSet| batch.tensor("photo").map(|tensor| tensor.bytes().to_vec());
    assert_eq!(photo(&batch)?, photo(&usual)?);
    let classes = usual.tensor("class")?.as_slice::<i64>()?.to_vec();
    assert_eq!(batch.tensor("class")?.as_slice::<i64>()?, classes);
    let numbers = batch.tensor("number")?;
    assert!(numbers.as_slice::<f32>()?.iter().zip(&classes).all(|(number, class)| *number == *class as f32));
    let again = batch.tensor("again")?.as_slice::<u8>()?;
    let width = again.len() / classes.len();
    assert!(
        width >= 2
            && again
                .chunks(width)
                .zip(&classes)
                .all(|(row, class)| { row.iter().enumerate().all(|(at, one)| *one == u8::from(at as i64 == *class)) })
    );
    let names: Vec<String> = batch.tensor("name")?.as_slice::<u8>()?.chunks(40).map(text_of).collect();
    assert_eq!(names.len(), classes.len());
    assert!(names.iter().all(|name| folder.path().join("train").join(name).is_file()), "{names:?}");
    // The class and the name alone do not read the files.
    let mut alone =
        train()?.field("class", Class.one_hot()).field("name", Text::new(40).from("image.path")).shield().build()?;
    alone.next().unwrap()?;
    assert_eq!(alone.stats().stage("read").unwrap().bytes_read, 0);

    // Listed names are those of every field of the class, also of a class without a file.
    std::fs::create_dir(folder.path().join("train/empty")).unwrap();
    let names = ["space", "empty", "food", "person"];
    let listed = || train().map(|loader| loader.field("again", Class.one_hot().dtype(DType::U8)));
    let loader = listed()?.field("photo", Image::rgb(8, 8)).field("class", Class::of(names));
    let loader = loader.field("other", Class.dtype(DType::F32).from("class"));
    let batch = loader.field("name", Text::new(9).from("class")).build()?.next().unwrap()?;
    let codes = batch.tensor("class")?.as_slice::<i64>()?;
    let other = batch.tensor("other")?.as_slice::<f32>()?;
    assert!(codes.iter().zip(other).all(|(code, other)| *code as f32 == *other), "{codes:?} {other:?}");
    let given: Vec<String> = batch.tensor("name")?.as_slice::<u8>()?.chunks(9).map(text_of).collect();
    assert!(codes.iter().zip(&given).all(|(code, name)| names[*code as usize] == name), "{codes:?} {given:?}");
    let again = batch.tensor("again")?.as_slice::<u8>()?;
    assert!(again.chunks(4).zip(codes).all(|(row, code)| row.iter().position(|one| *one == 1) == Some(*code as usize)));
    // Without a list, every folder is a class, also here.
    assert_eq!(listed()?.build()?.next().unwrap()?.tensor("again")?.shape(), [classes.len(), 4]);
    let error = |loader: Result<Loader>| loader.unwrap().build().err().unwrap().to_string();
    let unlisted = error(train().map(|loader| loader.field("a", Class::of(["food", "space"]).dtype(DType::F32))));
    assert!(unlisted.contains("column \"a\"") && unlisted.contains("\"empty\" is not among the 2"), "{unlisted}");
    let other = error(listed().map(|loader| loader.field("a", Class::of(["x"])).field("b", Class::of(["y"]))));
    assert!(other.contains("fields.b: its classes are those of the folder"), "{other}");
    // What is decoded comes from the file, and nothing else does.
    let from = error(train().map(|loader| loader.field("photo", Image::rgb(8, 8).from("label"))));
    assert!(from.contains("fields.photo: from: \"label\" is not decoded as image"), "{from}");
    let file = folder.path().join("both.toml");
    let both = "source = { path = \"train\" }\nfields.photo = { image = [8, 8], from = [\"image\", \"image.bytes\"] }";
    std::fs::write(&file, both).unwrap();
    let both = error(LoaderConfig::load(&file).map(Loader::from));
    assert!(both.contains("a file has one image"), "{both}");
    let filtered = error(train().map(|loader| loader.field("class", Class).filter("zz == 1")));
    assert!(filtered.contains("filter: "), "{filtered}");
    Ok(())
}

fn text_of(row: &[u8]) -> String {
    String::from_utf8_lossy(row).trim_end_matches('\0').to_owned()
}

#[test]
fn what_a_source_does_not_have_is_said() {
    let folder = photos();
    let error = |loader: Loader| loader.build().err().unwrap().to_string();
    let train = || Loader::open(folder.path().join("train")).unwrap();
    let table = || Loader::open(folder.path().join("table.csv")).unwrap();
    let found = error(train().field("x", Numbers::f32()));
    assert!(
        found.contains(
            "fields.x: from: a folder of files has no field \"x\"; name \"image\", \"image.path\", \"label\" or \"class\""
        ),
        "{found}"
    );
    let found = error(table().field("photo", Image::rgb(8, 8).from("path")));
    assert!(found.contains("fields.photo: a column holds no image; if it names files, set `file`"), "{found}");
    let found = error(table().field("photo", Image::rgb(8, 8).from("paht").file()));
    assert!(found.contains("did you mean \"path\"?"), "{found}");
    let found = error(table().field("x", Numbers::f32()).field("x", Numbers::f32()));
    assert!(found.contains("there are two fields of this name"), "{found}");
    let settings = |text: &str| {
        let file = folder.path().join("loader.toml");
        std::fs::write(&file, text).unwrap();
        LoaderConfig::load(&file).unwrap_err().to_string()
    };
    let found = settings("[source]\npath = \"train\"\n[fields]\nimage = { image = [8, 8], agument = [] }\n");
    assert!(found.contains("loader.toml:4:") && found.contains("augment"), "{found}");
    let found = settings("[source]\npath = \"train\"\n[fields]\nimage = { from = \"x\" }\n");
    assert!(found.contains("a field has exactly one of image, index_map, audio, class"), "{found}");
    let found = settings("[source]\npath = \"train\"\n[fields]\nlabel = \"clas\"\n");
    assert!(found.contains("loader.toml:4:") && found.contains("\"class\""), "{found}");
}

#[test]
fn a_line_that_is_not_utf_8_is_told_by_the_bad_byte() {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    std::io::Write::write_all(&mut file, b"good\nabc\xffdef\n").unwrap();
    let source = SourceConfig::new(TextLines, file.path(), Default::default());
    let mut batches = Loader::new(source).field("line", Text::new(20)).build().unwrap();
    let error = batches.find_map(|batch| batch.err()).unwrap();
    let place = error.location();
    assert_eq!((place.record, place.line, place.byte), (Some(1), Some(2), Some(8)), "{error}");
}
