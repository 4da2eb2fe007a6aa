//! How opening, planning and the first batch grow with the data: ten times the files, rows or row groups should take at
//! most ten times as long and ten times as much memory.

mod common;

use std::fs;
use std::io::{BufWriter, Write};
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant, SystemTime};

use common::{Case, Options, Table};
use ringfeed::{Loader, LoaderConfig};

const ABOUT: &str = "\
Opening a data set, planning an epoch of it, and its first batch of 32 samples, shuffled, with 2 workers, each in a process of its \
own, from the system's cache: of some size, and of ten times that. MB: the most memory that the process had, of which about 10 are \
those of an empty one. Nothing is kept from one run to the next. With SCALE_LARGE=1: a folder of a million images, one of 1,000 \
Parquet files, and a CSV file of 20 GB instead, in 25 GB of temporary files.";

/// A kind of data set: its name, how many of what the smaller one has, what makes it, and its settings.
struct Kind {
    name: &'static str,
    count: usize,
    make: fn(&Path, usize),
    source: &'static str,
}

const KINDS: &[Kind] = &[
    Kind { name: "folder of images, files", count: 10_000, make: images, source: IMAGES },
    Kind { name: "CSV, rows", count: 100_000, make: csv, source: r#""format": "csv""# },
    Kind { name: "JSON Lines, rows", count: 100_000, make: jsonl, source: r#""format": "jsonl""# },
    Kind { name: "libsvm, rows", count: 100_000, make: libsvm, source: r#""format": "libsvm""# },
    Kind { name: "TFRecord, records", count: 100_000, make: tfrecord, source: r#""format": "tfrecord""# },
    Kind {
        name: "tar, samples",
        count: 10_000,
        make: tar_archive,
        source: r#""format": "tar", "fields": {"n": {"from": "cls", "numbers": "i64"}}"#,
    },
    Kind { name: "folder of CSV, files", count: 100, make: csv_files, source: r#""format": "csv""# },
    #[cfg(feature = "parquet")]
    Kind { name: "folder of Parquet, files", count: 100, make: parquet_files, source: r#""format": "parquet""# },
    #[cfg(feature = "parquet")]
    Kind { name: "Parquet, row groups", count: 100, make: parquet_groups, source: r#""format": "parquet""# },
];

const IMAGES: &str = r#""format": "images", "fields": {"image": {"image": [16, 16]}, "label": "class"}"#;

/// Data sets of the size that the largest users have, once each: they take 25 GB of disk and some minutes.
const LARGE: &[Kind] = &[
    Kind { name: "folder of images, files", count: 1_000_000, make: images, source: IMAGES },
    #[cfg(feature = "parquet")]
    Kind { name: "folder of Parquet, files", count: 1_000, make: parquet_files, source: r#""format": "parquet""# },
    Kind { name: "CSV of 20 GB, rows", count: 61_000_000, make: wide_csv, source: r#""format": "csv""# },
];

/// What a child process is called by.
const CHILD: &str = "--child";

fn main() {
    let args: Vec<String> = std::env::args().collect();
    if let [_, child, source, path] = args.as_slice()
        && child == CHILD
    {
        return measure(source, path);
    }
    let Some(options) = Options::from_args(3) else { return };
    let folder = tempfile::tempdir().expect("a temporary folder");
    let mut table =
        Table::new(ABOUT, &["data", "count"], &[("open ms", 1), ("plan ms", 1), ("first batch ms", 1), ("MB", 1)]);
    let is_large = std::env::var_os("SCALE_LARGE").is_some();
    let (kinds, sizes): (_, &[usize]) = if is_large { (LARGE, &[1]) } else { (KINDS, &[1, 10]) };
    for (nth, kind) in kinds.iter().enumerate() {
        let at = |times: usize| folder.path().join(format!("{nth}-{times}"));
        for times in sizes {
            (kind.make)(&at(*times), kind.count * times);
        }
        let case = |times: &usize| {
            let (path, count) = (at(*times), kind.count * times);
            Case::new(&[&kind.name, &count], move || run(kind.source, &path))
        };
        table.measure(options.rounds, sizes.iter().map(case).collect());
        for times in sizes.iter().copied() {
            let path = at(times);
            let _ = if path.is_dir() { fs::remove_dir_all(path) } else { fs::remove_file(path) };
        }
    }
    table.print(&options);
}

/// The figures of a process that opens what lies at `path`.
fn run(source: &str, path: &Path) -> Vec<f64> {
    let this = std::env::current_exe().expect("a program has a path");
    let output = Command::new(this).args([CHILD, source]).arg(path).output().expect("a child process");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).expect("numbers");
    text.split_whitespace().map(|number| number.parse().expect("a number")).collect()
}

/// The child's work: milliseconds of opening, planning and the first batch, and the most memory there was.
fn measure(source: &str, path: &str) {
    let settings =
        format!(r#"{{"source": {{"path": {path:?}, {source}}}, "batch_size": 32, "shuffle": 1, "workers": 2}}"#);
    let loader = Loader::from(LoaderConfig::from_json(&settings).expect("settings of ours"));
    let begin = Instant::now();
    let plan = loader.plan().expect("data of ours");
    let planned = begin.elapsed();
    assert!(plan.samples.is_none_or(|samples| samples > 0));
    let begin = Instant::now();
    let mut batches = loader.build().expect("data of ours");
    let opened = begin.elapsed();
    let begin = Instant::now();
    assert_eq!(batches.next().expect("a batch").expect("good records").len(), 32);
    let ms = |time: Duration| time.as_secs_f64() * 1e3;
    println!("{} {} {} {}", ms(opened), ms(planned), ms(begin.elapsed()), memory());
}

/// The most memory that this process had, in megabytes.
fn memory() -> f64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kilobytes = line.and_then(|line| line.split_whitespace().next()?.parse::<f64>().ok());
    kilobytes.unwrap_or(f64::NAN) / 1024.0
}

/// Writes `count` records into a file, by what each is.
fn records(path: &Path, head: &str, count: usize, record: impl Fn(usize, &mut dyn Write) -> std::io::Result<()>) {
    let mut file = BufWriter::new(fs::File::create(path).expect("a file"));
    file.write_all(head.as_bytes()).expect("room on the disk");
    (0..count).for_each(|nth| record(nth, &mut file).expect("room on the disk"));
    file.flush().expect("room on the disk");
}

fn csv(path: &Path, count: usize) {
    records(path, "a,b,c,d\n", count, |n, file| writeln!(file, "{n},{}.25,{},{}", n * 7 % 1000, n % 13, n * 31 % 9973));
}

/// 32 numbers and a label in each row; the same thousand rows again and again.
fn wide_csv(path: &Path, count: usize) {
    let head: Vec<String> = (0..32).map(|column| format!("c{column}")).collect();
    let row =
        |n: usize| -> String { (0..32).map(|column| format!("{}.{:06},", n % 97, n * 31 + column * 7919)).collect() };
    let block: String = (0..1000).map(|n| format!("{}{}\n", row(n), n % 10)).collect();
    records(path, &format!("{},label\n", head.join(",")), count / 1000, |_, file| file.write_all(block.as_bytes()));
}

fn jsonl(path: &Path, count: usize) {
    records(path, "", count, |n, file| writeln!(file, r#"{{"a": {n}, "b": {}.25, "c": {}}}"#, n * 7 % 1000, n % 13));
}

fn libsvm(path: &Path, count: usize) {
    records(path, "", count, |n, file| writeln!(file, "{} 1:{n} {}:0.5 {}:1", n % 2, 2 + n % 50, 60 + n % 40));
}

fn tfrecord(path: &Path, count: usize) {
    let masked = |bytes: &[u8]| crc32c::crc32c(bytes).rotate_right(15).wrapping_add(0xa282_ead8).to_le_bytes();
    records(path, "", count, |n, file| {
        // {"x": [n]}
        let mut record = b"\x0a\x0f\x0a\x0d\x0a\x01x\x12\x08\x12\x06\x0a\x04".to_vec();
        record.extend((n as f32).to_le_bytes());
        let len = (record.len() as u64).to_le_bytes();
        file.write_all(&[&len[..], &masked(&len), &record, &masked(&record)].concat())
    });
}

fn tar_archive(path: &Path, count: usize) {
    let mut builder = tar::Builder::new(BufWriter::new(fs::File::create(path).expect("a file")));
    for n in 0..count {
        let text = n.to_string();
        let mut header = tar::Header::new_ustar();
        header.set_size(text.len() as u64);
        builder.append_data(&mut header, format!("{n:08}.cls"), text.as_bytes()).expect("a member");
    }
    builder.finish().expect("an archive");
}

fn csv_files(path: &Path, count: usize) {
    fs::create_dir(path).expect("a folder");
    (0..count).for_each(|n| csv(&path.join(format!("{n}.csv")), 100));
}

/// Folders of 100 links to one picture each, old enough for their listing to be kept.
fn images(path: &Path, count: usize) {
    let mut picture = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/images/rgb.png");
    for class in 0..count / 100 {
        let folder = path.join(format!("n{class:08}"));
        fs::create_dir_all(&folder).expect("a folder");
        // A file has no more than 65,000 names on some systems.
        let is_copied = class % 500 == 0;
        if is_copied {
            let copy = folder.join("0.png");
            fs::copy(&picture, &copy).expect("a picture");
            picture = copy;
        }
        for file in usize::from(is_copied)..100 {
            fs::hard_link(&picture, folder.join(format!("{file}.png"))).expect("a link");
        }
        let time = SystemTime::now() - Duration::from_secs(60);
        fs::File::open(&folder).and_then(|folder| folder.set_modified(time)).expect("a folder of our own");
    }
}

#[cfg(feature = "parquet")]
fn write_parquet(path: &Path, groups: usize) {
    use std::sync::Arc;

    use arrow_array::{ArrayRef, Int64Array, RecordBatch};

    let column: ArrayRef = Arc::new(Int64Array::from_iter_values(0..1000));
    let batch = RecordBatch::try_from_iter([("x", column)]).expect("a column");
    let file = fs::File::create(path).expect("a file");
    let mut writer = parquet::arrow::ArrowWriter::try_new(file, batch.schema(), None).expect("a schema");
    for _ in 0..groups {
        writer.write(&batch).expect("room on the disk");
        writer.flush().expect("room on the disk");
    }
    writer.close().expect("room on the disk");
}

#[cfg(feature = "parquet")]
fn parquet_files(path: &Path, count: usize) {
    fs::create_dir(path).expect("a folder");
    (0..count).for_each(|n| write_parquet(&path.join(format!("{n}.parquet")), 1));
}

#[cfg(feature = "parquet")]
fn parquet_groups(path: &Path, count: usize) {
    write_parquet(path, count);
}
