//! How long it takes until the first batch, and what a sample costs by where it lies.

mod common;
#[path = "common/photograph.rs"]
mod photograph;

use std::fs;
use std::hint::black_box;
use std::io::Read;
use std::path::Path;
use std::time::{Duration, Instant, SystemTime};

use common::{Case, Options, Table};
use libjpeg_turbo_rs::{Encoder, PixelFormat, Subsampling};
use photograph::photograph;
use ringfeed::field::Image;
use ringfeed::images::{ImageFolder, ImageOptions};
use ringfeed::memory::MemoryBudget;
use ringfeed::read::{RecordReader, Scratch};
use ringfeed::settings::SavedIndex;
use ringfeed::source::ReaderSource;
use ringfeed::tar::{TarOptions, TarReader};
use ringfeed::{AsyncDataSetIterator, Loader, Workspace};

const ABOUT_START: &str = "\
From nothing to the first batch of 32 images of a folder of 100,000 files in 1000 classes, all of them links to one \
picture of 24 x 16 pixels, resized to 16 x 16, with 2 workers; the folder's own metadata is in the system's cache. Listed: \
every folder is read and every file's size asked for. Saved: the listing of an earlier run is read, and each folder's time \
looked at. Closed: until the loader is closed as well, which is busy with the batches behind the first. Then the listing \
alone, with a thread for each core (`taskset -c 0` leaves it one). It does not show a disk that has to be waited for.";

const ABOUT_SAMPLES: &str = "\
10,000 files of 1 KiB, or as many members of ten tar archives, read in shuffled order on one thread from the system's \
cache: as a bare loop reads them (open, read into one buffer, close; or read at an offset of an open file), and as the \
reader fetches them.";

const ABOUT_IMAGES: &str = "\
An epoch of 2,000 JPEG files (256 x 192 pixels, cut from the photographs in fixtures/) from a folder with 10 classes and \
from tar archives of the same, shuffled, resized to 64 x 64, with 2 workers.";

const FILES: usize = 100_000;
const CLASSES: usize = 1000;

fn main() -> ringfeed::Result<()> {
    let Some(options) = Options::from_args(7) else { return Ok(()) };
    let folder = tempfile::tempdir().expect("a temporary folder");
    start(&options, folder.path());
    samples(&options, folder.path())?;
    images(&options, folder.path())
}

fn fixture(name: &str) -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures").join(name)
}

fn start(options: &Options, folder: &Path) {
    let (root, kept) = (folder.join("many"), folder.join("kept"));
    make_links(&root);
    fs::create_dir(&kept).expect("a folder");
    let mut table = Table::new(ABOUT_START, &["listing"], &[("ms", 1), ("closed ms", 1)]);
    let first_batch = |saved: SavedIndex| {
        let begin = Instant::now();
        let loader = Loader::images(&root).size(16, 16).shuffle(1).workers(2).saved_index(saved);
        let mut batches = loader.build().expect("a folder of images");
        let batch = batches.next().expect("a batch").expect("good images");
        assert_eq!(batch.len(), 32);
        let first = begin.elapsed();
        drop((batch, batches));
        [first, begin.elapsed()].map(|time| time.as_secs_f64() * 1e3).to_vec()
    };
    let saved = || SavedIndex::In(kept.clone());
    let open = |saved: SavedIndex| {
        let begin = Instant::now();
        let options = ImageOptions { size: Some((16, 16)), ..ImageOptions::default() };
        let reader = ImageFolder::detect_within(&root, &options, &saved, &MemoryBudget::unlimited());
        let reader = reader.expect("a folder of images");
        assert_eq!(reader.len(), FILES as u64);
        let opened = begin.elapsed();
        drop(reader);
        [opened, begin.elapsed()].map(|time| time.as_secs_f64() * 1e3).to_vec()
    };
    let cases = vec![
        Case::new(&[&"first batch, listed"], || first_batch(SavedIndex::Off)),
        Case::new(&[&"first batch, saved"], || first_batch(saved())),
        Case::new(&[&"listing alone"], || open(SavedIndex::Off)),
        Case::new(&[&"saved listing alone"], || open(saved())),
    ];
    table.measure(options.rounds, cases);
    table.print(options);
}

/// A folder of classes, all of whose files are one picture.
fn make_links(root: &Path) {
    let mut picture = fixture("images/rgb.png");
    for class in 0..CLASSES {
        let folder = root.join(format!("n{class:08}"));
        fs::create_dir_all(&folder).expect("a folder");
        // A file has no more than 65,000 names on some systems.
        if class % 500 == 0 {
            let copy = folder.join("0.png");
            fs::copy(&picture, &copy).expect("a picture");
            picture = copy;
        }
        for file in usize::from(class % 500 == 0)..FILES / CLASSES {
            fs::hard_link(&picture, folder.join(format!("{file}.png"))).expect("a link");
        }
        settle(&folder);
    }
    settle(root);
}

/// Makes a folder old enough for its listing to be saved.
fn settle(folder: &Path) {
    let time = SystemTime::now() - Duration::from_secs(60);
    fs::File::open(folder).and_then(|folder| folder.set_modified(time)).expect("a folder of our own");
}

fn samples(options: &Options, folder: &Path) -> ringfeed::Result<()> {
    const COUNT: u64 = 10_000;
    let contents = |n: u64| vec![n as u8; 1024];
    let (root, archives) = (folder.join("small"), folder.join("archives"));
    fs::create_dir(&archives).expect("a folder");
    for part in 0..10u64 {
        let class = root.join(part.to_string());
        fs::create_dir_all(&class).expect("a folder");
        let members = (part * COUNT / 10..(part + 1) * COUNT / 10).map(|n| (format!("{n:05}.jpg"), contents(n)));
        for (name, bytes) in members.clone() {
            fs::write(class.join(name), bytes).expect("a file");
        }
        write_tar(&archives.join(format!("{part}.tar")), members);
    }
    let image = ImageOptions { size: Some((8, 8)), ..ImageOptions::default() };
    let files = ImageFolder::open(&root, &image)?;
    let tar =
        TarReader::with_fields(&archives, &[("image".to_owned(), Image::with(image).into())], &TarOptions::default())?;
    // A permutation without a table: an odd factor that shares no divisor with the count.
    let shuffled = || (0..COUNT).map(|n| n * 7919 % COUNT);
    let paths: Vec<_> = (0..COUNT).map(|sample| files.path(sample)).collect();
    let opened: Vec<fs::File> = tar.archives().map(|path| fs::File::open(path).expect("an archive")).collect();
    let mut buffer = vec![0u8; 1024];
    let mut second = vec![0u8; 1024];
    let each = |begin: Instant| vec![begin.elapsed().as_secs_f64() * 1e9 / COUNT as f64];
    let fetch = |reader: &dyn RecordReader| {
        let mut scratch = Scratch::default();
        let begin = Instant::now();
        shuffled().for_each(|sample| reader.fetch(&[sample], 0, &mut scratch).expect("a file that is there"));
        each(begin)
    };
    let mut table = Table::new(ABOUT_SAMPLES, &["read by"], &[("ns a sample", 0)]);
    let cases = vec![
        Case::new(&[&"files, bare loop"], || {
            let begin = Instant::now();
            for sample in shuffled() {
                let mut file = fs::File::open(&paths[sample as usize]).expect("a file");
                file.read_exact(&mut buffer).expect("1 KiB");
                black_box(&mut buffer);
            }
            each(begin)
        }),
        Case::new(&[&"files, ImageFolder"], || fetch(&files)),
        Case::new(&[&"members, bare loop"], || {
            let begin = Instant::now();
            for sample in shuffled() {
                let offset = (sample % 1000) * 1536 + 512;
                read_at(&opened[(sample / 1000) as usize], &mut second, offset);
                black_box(&mut second);
            }
            each(begin)
        }),
        Case::new(&[&"members, TarReader"], || fetch(&tar)),
    ];
    table.measure(options.rounds, cases);
    table.print(options);
    Ok(())
}

#[cfg(unix)]
fn read_at(file: &fs::File, into: &mut [u8], offset: u64) {
    std::os::unix::fs::FileExt::read_exact_at(file, into, offset).expect("a member");
}

#[cfg(not(unix))]
fn read_at(mut file: &fs::File, into: &mut [u8], offset: u64) {
    use std::io::Seek;
    file.seek(std::io::SeekFrom::Start(offset)).and_then(|_| file.read_exact(into)).expect("a member");
}

fn write_tar(path: &Path, members: impl Iterator<Item = (String, Vec<u8>)>) {
    let mut builder = tar::Builder::new(fs::File::create(path).expect("a file"));
    for (name, bytes) in members {
        let mut header = tar::Header::new_gnu();
        header.set_size(bytes.len() as u64);
        builder.append_data(&mut header, name, &bytes[..]).expect("a member");
    }
    builder.finish().expect("an archive");
}

/// Parts of photographs, 256 x 192 pixels each, as JPEG of quality 90.
fn crops() -> Vec<Vec<u8>> {
    let crop = |name: &str, nth: u32| {
        let photo = photograph(&fixture("photos").join(name));
        let (x, y) = (nth * 37 % (photo.width() - 256), nth * 29 % (photo.height() - 192));
        let part = image::imageops::crop_imm(&photo, x, y, 256, 192).to_image();
        Encoder::new(&part, 256, 192, PixelFormat::Rgb)
            .quality(90)
            .subsampling(Subsampling::S444)
            .encode()
            .expect("pixels make a JPEG")
    };
    let photos = ["china.jpg", "flower.jpg", "rocket.jpg", "coffee.png"];
    photos.iter().flat_map(|name| (0..10).map(move |nth| crop(name, nth))).collect()
}

fn images(options: &Options, folder: &Path) -> ringfeed::Result<()> {
    const COUNT: usize = 2000;
    let (root, archives) = (folder.join("photos"), folder.join("photos-tar"));
    fs::create_dir(&archives).expect("a folder");
    let photos = crops();
    for class in 0..10 {
        let below = root.join(class.to_string());
        fs::create_dir_all(&below).expect("a folder");
        let numbers = class * COUNT / 10..(class + 1) * COUNT / 10;
        let members = numbers.flat_map(|n| {
            let image = photos[n % photos.len()].clone();
            [(format!("{n:04}.jpg"), image), (format!("{n:04}.cls"), class.to_string().into_bytes())]
        });
        for (name, bytes) in members.clone().filter(|(name, _)| name.ends_with("jpg")) {
            fs::write(below.join(name), bytes).expect("a file");
        }
        write_tar(&archives.join(format!("{class}.tar")), members);
    }
    let image = ImageOptions { size: Some((64, 64)), ..ImageOptions::default() };
    let workspace = Workspace::builder().workers(2).build()?;
    let epoch = |iterator: &mut AsyncDataSetIterator| {
        use ringfeed::DataSetIterator;
        iterator.reset().expect("readers begin again");
        let begin = Instant::now();
        let samples: usize = iterator.map(|batch| batch.expect("good images").len()).sum();
        assert_eq!(samples, COUNT);
        vec![samples as f64 / begin.elapsed().as_secs_f64()]
    };
    let source = |reader: std::sync::Arc<dyn RecordReader>| ReaderSource::new(reader).batch_size(50).shuffle(1);
    let files = ImageFolder::open(&root, &image)?;
    let tar =
        TarReader::with_fields(&archives, &[("image".to_owned(), Image::with(image).into())], &TarOptions::default())?;
    let mut files = AsyncDataSetIterator::new(source(std::sync::Arc::new(files)), &workspace)?;
    let other = Workspace::builder().workers(2).build()?;
    let mut members = AsyncDataSetIterator::new(source(std::sync::Arc::new(tar)), &other)?;
    let mut table = Table::new(ABOUT_IMAGES, &["from"], &[("images/s", 0)]);
    let cases = vec![Case::new(&[&"folder"], || epoch(&mut files)), Case::new(&[&"archives"], || epoch(&mut members))];
    table.measure(options.rounds, cases);
    table.print(options);
    Ok(())
}
