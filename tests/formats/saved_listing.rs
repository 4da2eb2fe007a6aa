//! Listings of folders that are kept for the next run.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use crate::common::{fixture, see_all};
use ringfeed::images::{ImageFolder, ImageLabels, ImageOptions};
use ringfeed::memory::MemoryBudget;
use ringfeed::read::RecordReader;
use ringfeed::settings::SavedIndex;
use ringfeed::{ErrorKind, Loader, LoaderConfig};

struct Photos(tempfile::TempDir);

impl Photos {
    /// Images of two classes, one of them in a folder of its own below, and other files.
    fn new() -> Self {
        let photos = Self(tempfile::tempdir().unwrap());
        for file in ["cats/1.png", "cats/young/2.png", "dogs/3.png", "dogs/notes.txt"] {
            photos.add(file);
        }
        photos.settle();
        photos
    }

    fn root(&self) -> PathBuf {
        self.0.path().join("photos")
    }

    fn saved(&self) -> PathBuf {
        self.0.path().join("photos.ringfeed")
    }

    fn add(&self, file: &str) {
        let path = self.root().join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::copy(fixture("images/rgb.png"), path).unwrap();
    }

    /// Makes all folders some time older than now, and each change of one visible.
    fn settle(&self) {
        static SECONDS: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(1000);
        let age = Duration::from_secs(100_000 - SECONDS.fetch_add(1, std::sync::atomic::Ordering::Relaxed));
        let mut folders = vec![self.root()];
        while let Some(folder) = folders.pop() {
            let inside = fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path());
            folders.extend(inside.filter(|path| path.is_dir()));
            let is_new =
                fs::metadata(&folder).unwrap().modified().unwrap().elapsed().is_ok_and(|age| age.as_secs() < 60);
            if is_new {
                fs::File::open(&folder).unwrap().set_modified(SystemTime::now() - age).unwrap();
            }
        }
    }

    fn open(&self) -> ImageFolder {
        let budget = MemoryBudget::unlimited();
        ImageFolder::detect_within(self.root(), &ImageOptions::default(), &SavedIndex::Beside, &budget).unwrap()
    }
}

/// Everything that a reader knows without opening a file.
fn known(reader: &ImageFolder) -> (Vec<PathBuf>, Vec<Option<u32>>, Vec<String>, u64, ringfeed::read::Fingerprint) {
    let samples = || 0..reader.len();
    let paths = samples().map(|sample| reader.path(sample)).collect();
    let labels = samples().map(|sample| reader.label(sample)).collect();
    (paths, labels, reader.classes().to_vec(), reader.ignored(), reader.fingerprint())
}

/// That the listing in use is the saved one: an image that has changed its size without its folder's time changing
/// keeps the old fingerprint.
fn is_from_saved(photos: &Photos, image: &Path) -> bool {
    let listed = |photos: &Photos| photos.open().fingerprint();
    let before = listed(photos);
    let whole = fs::read(image).unwrap();
    fs::write(image, [&whole[..], b"trailing"].concat()).unwrap();
    let after = listed(photos);
    fs::write(image, whole).unwrap();
    before == after
}

#[test]
fn a_saved_listing_is_the_same_as_a_new_one() {
    let photos = Photos::new();
    let fresh = ImageFolder::detect(photos.root(), &ImageOptions::default()).unwrap();
    assert_eq!((fresh.len(), fresh.classes().len(), fresh.ignored()), (3, 2, 1));
    assert_eq!(known(&photos.open()), known(&fresh));
    assert!(photos.saved().is_file());
    assert_eq!(known(&photos.open()), known(&fresh));
    assert!(is_from_saved(&photos, &photos.root().join("dogs/3.png")));
    // The class names that are asked for, and another name of the label, have no part in the listing.
    let options = ImageOptions {
        classes: Some(["dogs", "birds", "cats"].map(str::to_owned).to_vec()),
        label_name: "species".to_owned(),
        ..ImageOptions::default()
    };
    let budget = MemoryBudget::unlimited();
    let listed = ImageFolder::detect_within(photos.root(), &options, &SavedIndex::Beside, &budget).unwrap();
    assert_eq!(known(&listed), known(&ImageFolder::open(photos.root(), &options).unwrap()));
    assert!(budget.used() > 0);
}

#[test]
fn a_changed_folder_however_deep_is_listed_anew() {
    let photos = Photos::new();
    assert_eq!(photos.open().len(), 3);
    for (count, file) in [(4, "cats/young/4.png"), (5, "birds/5.png"), (6, "cats/young/very/6.png")] {
        photos.add(file);
        assert_eq!(photos.open().len(), count, "{file}");
        photos.settle();
        assert_eq!(photos.open().len(), count, "{file}");
        assert!(is_from_saved(&photos, &photos.root().join(file)), "{file}");
    }
    fs::remove_dir_all(photos.root().join("cats")).unwrap();
    assert_eq!(known(&photos.open()).2, ["birds", "dogs"]);
    fs::remove_dir_all(photos.root()).unwrap();
    let gone = ImageFolder::detect_within(
        photos.root(),
        &ImageOptions::default(),
        &SavedIndex::Beside,
        &MemoryBudget::unlimited(),
    );
    assert_eq!(gone.map(|_| ()).unwrap_err().kind(), ErrorKind::NotFound);
}

#[test]
fn a_folder_that_has_just_been_changed_is_not_saved_yet() {
    let photos = Photos::new();
    photos.add("dogs/4.png");
    fs::File::open(photos.root().join("dogs"))
        .unwrap()
        .set_modified(SystemTime::now() + Duration::from_secs(3600))
        .unwrap();
    assert_eq!(photos.open().len(), 4);
    assert!(!photos.saved().exists());
}

#[test]
fn each_way_of_listing_has_its_own() {
    let photos = Photos::new();
    let budget = MemoryBudget::unlimited();
    let options = ImageOptions::default();
    let list = |labels| {
        let saved = ImageFolder::open_within(photos.root(), labels, &options, &SavedIndex::Beside, &budget).unwrap();
        (known(&saved), known(&ImageFolder::open_with(photos.root(), labels, &options).unwrap()))
    };
    let by_first_letter = |path: &Path| {
        let name = path.file_name().unwrap().to_str().unwrap();
        Ok((name != "1.png").then(|| name[..1].to_owned()))
    };
    for labels in [ImageLabels::None, ImageLabels::Folder, ImageLabels::By(&by_first_letter), ImageLabels::None] {
        for _ in 0..2 {
            let (saved, fresh) = list(labels);
            assert_eq!(saved, fresh);
        }
        // A flat listing of a folder that has classes is not what finding out leads to.
        assert_eq!(photos.open().classes(), ["cats", "dogs"]);
    }
    let flat = Photos(tempfile::tempdir().unwrap());
    flat.add("1.png");
    flat.add("2.png");
    fs::create_dir(flat.root().join("empty")).unwrap();
    flat.settle();
    for _ in 0..2 {
        assert_eq!((flat.open().len(), flat.open().classes().len()), (2, 0));
    }
    assert!(is_from_saved(&flat, &flat.root().join("1.png")));
    flat.add("empty/3.png");
    assert_eq!(flat.open().classes(), ["empty"]);
}

#[test]
fn a_damaged_listing_is_made_anew() {
    let photos = Photos::new();
    let fresh = known(&photos.open());
    let whole = fs::read(photos.saved()).unwrap();
    for at in 0..whole.len() {
        fs::write(photos.saved(), &whole[..at]).unwrap();
        assert_eq!(known(&photos.open()), fresh, "cut at {at}");
        let mut changed = whole.clone();
        changed[at] ^= 0x40;
        fs::write(photos.saved(), changed).unwrap();
        assert_eq!(known(&photos.open()), fresh, "changed at {at}");
    }
}

#[test]
fn a_loader_keeps_listings_where_it_is_told() {
    let photos = Photos::new();
    let kept = tempfile::tempdir().unwrap();
    let loader = Loader::images(photos.root()).size(4, 4).saved_index(SavedIndex::In(kept.path().to_owned()));
    let all = || see_all(&mut *loader.build().unwrap());
    assert_eq!(all(), all());
    assert_eq!(fs::read_dir(kept.path()).unwrap().count(), 1);
    let text = toml::to_string(loader.config()).unwrap();
    assert_eq!(&toml::from_str::<LoaderConfig>(&text).unwrap(), loader.config());
    let nowhere = Loader::images(photos.root()).saved_index(SavedIndex::In(kept.path().join("missing")));
    let error = nowhere.build().map(|_| ()).unwrap_err();
    assert!(error.to_string().contains("SavedIndex::In"), "{error}");
    assert_eq!(Loader::idx("a", "b").saved_index(SavedIndex::Beside).faults().len(), 3);
}

#[cfg(unix)]
#[test]
fn folders_whose_times_are_set_back_are_listed_again() {
    let photos = Photos::new();
    let set_back = || {
        for folder in ["", "cats", "cats/young", "dogs"] {
            let folder = fs::File::open(photos.root().join(folder)).unwrap();
            folder.set_modified(SystemTime::UNIX_EPOCH + Duration::from_secs(1_600_000_000)).unwrap();
        }
    };
    set_back();
    assert_eq!(photos.open().len(), 3);
    assert!(photos.saved().exists());
    let changed = || std::os::unix::fs::MetadataExt::ctime_nsec(&fs::metadata(photos.root().join("dogs")).unwrap());
    let before = changed();
    photos.add("dogs/4.png");
    // Some systems count in steps of milliseconds.
    while changed() == before {
        set_back();
    }
    set_back();
    assert_eq!(photos.open().len(), 4);
}
