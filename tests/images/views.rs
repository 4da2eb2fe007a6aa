//! Several views of one picture: its file is read once, and each view is the one that a picture decoded alone gives.
#![expect(clippy::unwrap_used, reason = "a test ends with the first surprise")]

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use ringfeed::field::{Class, Field, Image, Numbers};
use ringfeed::images::{AugmentRecipe, ResizeFilter};
use ringfeed::memory::MemoryBudget;
use ringfeed::storage::{Entry, Files, Storage};
use ringfeed::{DType, DataSet, Error, Loader, Result};

/// Files of this machine, and how many bytes of each were read.
#[derive(Default)]
struct Counted {
    read: Mutex<BTreeMap<PathBuf, u64>>,
}

impl Counted {
    fn files() -> (Arc<Self>, Files) {
        let counted = Arc::new(Self::default());
        (counted.clone(), Files::of(counted, &MemoryBudget::unlimited()))
    }

    fn take(&self) -> BTreeMap<PathBuf, u64> {
        std::mem::take(&mut *self.read.lock().unwrap())
    }
}

impl Storage for Counted {
    fn file_len(&self, path: &Path) -> Result<u64> {
        Ok(std::fs::metadata(path).map_err(|error| Error::io(path, error))?.len())
    }

    fn list(&self, folder: &Path) -> Result<Vec<Entry>> {
        let entries = std::fs::read_dir(folder).map_err(|error| Error::io(folder, error))?;
        let entry = |entry: std::fs::DirEntry| match entry.path().is_dir() {
            true => Entry::Folder(entry.file_name()),
            false => Entry::File(entry.file_name()),
        };
        Ok(entries.map(|found| entry(found.unwrap())).collect())
    }

    fn read(&self, path: &Path, range: Range<u64>, into: &mut Vec<u8>) -> Result<u64> {
        let bytes = std::fs::read(path).map_err(|error| Error::io(path, error))?;
        let end = usize::try_from(range.end).unwrap_or(usize::MAX).min(bytes.len());
        into.clear();
        into.extend_from_slice(&bytes[(range.start as usize).min(end)..end]);
        *self.read.lock().unwrap().entry(path.to_owned()).or_default() += into.len() as u64;
        Ok(bytes.len() as u64)
    }
}

const PHOTOS: [(&str, &str); 3] = [("person", "chelsea.png"), ("person", "astronaut.png"), ("space", "rocket.jpg")];

/// Photos in class folders, a table that names them, and an archive.
fn photos() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let mut table = "path,x\n".to_owned();
    let mut tar = tar::Builder::new(std::fs::File::create(folder.path().join("train.tar")).unwrap());
    for (nth, (class, photo)) in PHOTOS.iter().enumerate() {
        std::fs::create_dir_all(folder.path().join("train").join(class)).unwrap();
        let from = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/photos").join(photo);
        std::fs::copy(&from, folder.path().join("train").join(class).join(photo)).unwrap();
        table += &format!("train/{class}/{photo},{nth}\n");
        for (extension, bytes) in [("cls", nth.to_string().into_bytes()), ("jpg", std::fs::read(from).unwrap())] {
            let mut header = tar::Header::new_ustar();
            header.set_size(bytes.len() as u64);
            header.set_mode(0o644);
            tar.append_data(&mut header, format!("{nth}.{extension}"), &*bytes).unwrap();
        }
    }
    tar.into_inner().unwrap();
    std::fs::write(folder.path().join("table.csv"), table).unwrap();
    folder
}

/// Global and local crops, one whole picture, and one of its own size.
fn views() -> [(&'static str, Image); 5] {
    let view = |side, recipe| Image::rgb(side, side).dtype(DType::U8).resize(ResizeFilter::Bicubic).augment(recipe);
    [
        ("global", view(32, AugmentRecipe::DinoGlobal)),
        ("local", view(12, AugmentRecipe::DinoLocal)),
        ("other", view(12, AugmentRecipe::DinoLocal)),
        ("whole", Image::grey(9, 7)),
        ("simple", view(20, AugmentRecipe::Simclr)),
    ]
}

fn first(loader: &Loader) -> DataSet {
    loader.clone().batch_size(PHOTOS.len()).shuffle(5).shield().build().unwrap().next().unwrap().unwrap()
}

/// Compares all views of a source, read together, with each read alone; gives what was read for them.
fn compare(root: &Path, source: &str, from: Option<&str>, other: (&str, Field)) -> BTreeMap<PathBuf, u64> {
    let (counted, files) = Counted::files();
    let open = || Loader::open(root.join(source)).unwrap().files(files.clone()).field(other.0, other.1.clone());
    let field = |image: Image| match from {
        Some("path") => image.from("path").file(),
        Some(from) => image.from(from),
        None => image.into(),
    };
    let together = views().into_iter().fold(open(), |loader, (name, image)| loader.field(name, field(image)));
    let batches = first(&together);
    let read = counted.take();
    for (nth, (name, image)) in views().into_iter().enumerate() {
        // The first view draws what it draws alone, and the others by the names of their geometries.
        let image = if nth == 0 { image } else { image.geometry(name) };
        let alone = first(&open().field(name, field(image)));
        assert_eq!(alone.sample_ids(), batches.sample_ids());
        assert_eq!(alone.tensor(name).unwrap().shape(), batches.tensor(name).unwrap().shape());
        assert!(alone.tensor(name).unwrap().bytes() == batches.tensor(name).unwrap().bytes(), "{source}: {name}");
    }
    read
}

#[test]
fn a_file_of_a_folder_or_a_table_is_read_once_for_all_views_of_it() {
    let folder = photos();
    let len =
        |(class, photo): &(&str, &str)| folder.path().join("train").join(class).join(photo).metadata().unwrap().len();
    let files: u64 = PHOTOS.iter().map(len).sum();
    let of_photos = |read: &BTreeMap<PathBuf, u64>| {
        let photos = read.iter().filter(|(path, _)| path.extension().is_some_and(|extension| extension != "csv"));
        photos.map(|(_, bytes)| bytes).sum::<u64>()
    };
    let read = compare(folder.path(), "train", None, ("label", Class.into()));
    assert_eq!(of_photos(&read), files, "{read:?}");
    let read = compare(folder.path(), "table.csv", Some("path"), ("x", Numbers::f32().into()));
    assert_eq!(of_photos(&read), files, "{read:?}");
    let read = compare(folder.path(), "train.tar", Some("jpg"), ("label", Class.from("cls")));
    // The index reads headers and classes beside them.
    assert!((files..files + 200_000).contains(&read[&folder.path().join("train.tar")]), "{read:?} of {files}");
}

#[test]
fn views_of_a_damaged_picture_say_what_one_says() {
    let folder = photos();
    let path = folder.path().join("train/space/rocket.jpg");
    let bytes = std::fs::read(&path).unwrap();
    std::fs::write(&path, &bytes[..bytes.len() / 2]).unwrap();
    let train = folder.path().join("train");
    let error = |views: &[(&str, Image)]| {
        let open = Loader::open(&train).unwrap().batch_size(3).shield();
        let loader = views.iter().fold(open, |loader, (name, view)| loader.field(*name, view.clone()));
        loader.build().unwrap().next().unwrap().unwrap_err().to_string()
    };
    let all = views();
    assert!(error(&all).contains("rocket.jpg"));
    assert_eq!(error(&all), error(&all[..1]));
}
