//! Pipes, devices, sockets and folders where a file was meant: an error at once for every format, never a wait.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fmt::Debug;
use std::path::{Path, PathBuf};

use ringfeed::arrays::{IdxOptions, IdxReader, NpyOptions, NpyReader, RawOptions, RawReader};
use ringfeed::csv::{CsvOptions, CsvReader, CsvStream};
use ringfeed::formats::Formats;
use ringfeed::images::{ImageFolder, ImageLabels, ImageOptions};
use ringfeed::inspect::{verify, verify_source};
use ringfeed::read::RecordReader;
use ringfeed::settings::{BadLimits, BadRecords, SavedIndex};
use ringfeed::source::ReaderSource;
use ringfeed::tar::{TarOptions, TarReader};
use ringfeed::tokens::{TokenOptions, TokenReader};
use ringfeed::workspace::wrap;
use ringfeed::{ErrorKind, Loader, LoaderConfig, Normaliser, Result, Workspace};

use crate::common::ends;

fn pipe(path: PathBuf) -> PathBuf {
    assert!(std::process::Command::new("mkfifo").arg(&path).status().unwrap().success());
    path
}

const FORMATS: [&str; 9] = ["csv", "csv_sequences", "idx", "npy", "raw", "tokens", "images", "tar", "tfrecord"];

fn settings(format: &str, path: &Path) -> LoaderConfig {
    let options = if format == "raw" { "options = { stored = \"u8\" }" } else { "" };
    toml::from_str(&format!("shuffle = 1\n[[sources]]\nformat = {format:?}\npath = {path:?}\n{options}")).unwrap()
}

#[test]
fn a_source_that_is_no_ordinary_file_is_an_error_at_once() {
    let folder = tempfile::tempdir().unwrap();
    for path in [pipe(folder.path().join("pipe")), "/dev/zero".into(), "/dev/null".into()] {
        for format in FORMATS.into_iter().filter(|format| cfg!(feature = "images") || *format != "images") {
            let (plan, verified, batches) = ends({
                let loader = Loader::from(settings(format, &path));
                move || (loader.plan().err(), loader.verify(|_| {}).err(), loader.build().err())
            });
            for error in [plan, verified, batches] {
                let error = error.expect("nothing can be read from it").to_string();
                assert!(error.contains("not an ordinary file"), "{format}: {error}");
            }
        }
        let error = ends(move || (Formats::new().detect(&path).unwrap_err(), verify(&path, 1, |_| {}).unwrap_err()));
        assert_eq!((error.0.kind(), error.1.kind()), (ErrorKind::Unsupported, ErrorKind::Unsupported));
    }
}

#[test]
fn no_reader_waits_for_a_pipe_or_reads_a_device() {
    fn refuses<T: 'static>(path: &Path, open: fn(&Path) -> Result<T>) {
        let path = path.to_owned();
        let error = ends(move || open(&path).err()).expect("nothing can be read from it");
        assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
    }
    let folder = tempfile::tempdir().unwrap();
    for path in [pipe(folder.path().join("pipe")), "/dev/zero".into()] {
        refuses(&path, |path| CsvReader::open(path, &CsvOptions::default()));
        refuses(&path, |path| CsvStream::open(path, &CsvOptions::default()));
        refuses(&path, |path| IdxReader::open(path, &IdxOptions::default()));
        refuses(&path, |path| NpyReader::open(path, &NpyOptions::default()));
        refuses(&path, |path| RawReader::open(path, &RawOptions::default()));
        refuses(&path, |path| TokenReader::open(path, &TokenOptions::default()));
        refuses(&path, |path| TarReader::open(path, &TarOptions::default()));
    }
}

#[test]
#[cfg_attr(not(feature = "images"), ignore = "decodes images")]
fn a_pipe_in_a_list_of_images_is_a_bad_sample() {
    let folder = tempfile::tempdir().unwrap();
    let photo = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/photos/rocket.jpg");
    let empty = pipe(folder.path().join("empty.jpg"));
    let held = pipe(folder.path().join("held.jpg"));
    // Somebody who may write to it, but does not.
    let _writer = std::fs::File::options().read(true).write(true).open(&held).unwrap();
    let report = ends(move || {
        let paths = [photo, empty, held, "/dev/zero".into()];
        let images = ImageFolder::from_paths(paths, ImageLabels::None, &ImageOptions::default()).unwrap();
        verify_source(ReaderSource::new(images), 1, |_| {}).unwrap()
    });
    assert_eq!((report.samples, report.bad_samples), (4, 3));
    for error in report.bad {
        assert!(error.message().contains("not an ordinary file"), "{error}");
    }
}

#[test]
#[cfg_attr(not(feature = "images"), ignore = "decodes images")]
fn a_pipe_among_the_files_of_a_folder_is_a_bad_sample() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    for name in ["sequences", "photos", "photos/cat"] {
        std::fs::create_dir(path(name)).unwrap();
    }
    std::fs::write(path("sequences/a.csv"), "1,2\n3,4\n").unwrap();
    pipe(path("sequences/b.csv"));
    std::fs::copy(concat!(env!("CARGO_MANIFEST_DIR"), "/fixtures/images/rgb.png"), path("photos/cat/a.png")).unwrap();
    pipe(path("photos/cat/b.png"));
    let (sequences, photos) = (path("sequences"), path("photos"));
    std::os::unix::fs::symlink("nowhere", path("sequences/c.csv")).unwrap();
    let report = ends(move || verify(sequences, 1, |_| {}).unwrap());
    assert_eq!((report.samples, report.bad_samples), (3, 2));
    let kinds: Vec<_> = report.bad.iter().map(ringfeed::Error::kind).collect();
    assert_eq!(kinds, [ErrorKind::Unsupported, ErrorKind::NotFound]);
    pipe(path("photos/cat/.hidden.png"));
    pipe(path("photos/cat/notes"));
    let (images, report) = ends(move || {
        let images = ImageFolder::open(&photos, &ImageOptions::default()).unwrap();
        (images, verify(photos, 1, |_| {}).unwrap())
    });
    assert_eq!((images.len(), images.ignored()), (2, 2));
    assert_eq!((report.samples, report.bad_samples), (2, 1));
    assert!(report.bad[0].to_string().contains("b.png: record 1: is not an ordinary file"), "{}", report.bad[0]);
}

#[test]
fn settings_are_read_from_ordinary_files_of_bounded_size() {
    fn kinds(path: PathBuf) -> [ErrorKind; 2] {
        fn kind<T: Debug>(result: Result<T>) -> ErrorKind {
            result.unwrap_err().kind()
        }
        ends(move || [kind(LoaderConfig::load(&path)), kind(Normaliser::load(&path))])
    }
    let folder = tempfile::tempdir().unwrap();
    assert_eq!(kinds(pipe(folder.path().join("pipe.toml"))), [ErrorKind::Unsupported; 2]);
    assert_eq!(kinds("/dev/zero".into()), [ErrorKind::Unsupported; 2]);
    assert_eq!(kinds(folder.path().to_owned()), [ErrorKind::Format; 2]);
    // Sparse: it takes no room.
    let huge = folder.path().join("huge.toml");
    std::fs::File::create(&huge).unwrap().set_len(1 << 40).unwrap();
    assert_eq!(kinds(huge), [ErrorKind::Limit; 2]);
}

#[test]
fn a_pipe_where_an_index_is_kept_is_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let table = folder.path().join("table.csv");
    std::fs::write(&table, "1,2\n3,4\n").unwrap();
    // No index is kept of a file that has just been written.
    std::fs::File::options().write(true).open(&table).unwrap().set_modified(std::time::UNIX_EPOCH).unwrap();
    let index = pipe(folder.path().join("table.csv.ringfeed"));
    let options = CsvOptions { saved_index: SavedIndex::Beside, ..CsvOptions::default() };
    assert_eq!(ends(move || CsvReader::open(table, &options).unwrap().len()), 2);
    assert!(index.metadata().unwrap().is_file());
}

#[test]
#[cfg_attr(not(feature = "images"), ignore = "decodes images")]
fn a_pipe_is_left_out_where_bad_records_are() {
    let folder = tempfile::tempdir().unwrap();
    let photo = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/photos/rocket.jpg");
    let paths = [photo, pipe(folder.path().join("pipe.jpg"))];
    let samples = ends(move || {
        let images = ImageFolder::from_paths(paths, ImageLabels::None, &ImageOptions::default()).unwrap();
        let source = ReaderSource::new(images).bad_records(BadRecords::Skip(BadLimits::count(1)));
        let mut batches = wrap(source, &Workspace::builder().build().unwrap()).unwrap();
        batches.next().unwrap().unwrap().sample_ids().to_vec()
    });
    assert_eq!(samples, [0]);
}
