//! Instructions per sample of each stage, counted by valgrind: figures that a busy machine cannot move.

#[path = "common/photos.rs"]
mod photos;

use std::path::Path;
use std::process::{Command, exit};
use std::sync::Arc;

use ringfeed::arrays::{IdxOptions, IdxReader, RawOptions, RawReader, StoredType};
use ringfeed::csv::{CsvOptions, CsvReader};
use ringfeed::field::{Field, Numbers};
use ringfeed::images::{ImageFolder, ImageOptions, horizontal_flip, random_resized_crop};
use ringfeed::order::RandomKey;
use ringfeed::read::{MemoryReader, RecordReader, RowMut, Sample, Scratch, Windows};
use ringfeed::source::ReaderSource;
use ringfeed::tensor::{Extents, Layout, Role, Schema};
use ringfeed::tokens::{TokenCut, TokenOptions, TokenReader, TokenTargets};
use ringfeed::{AsyncShieldDataSetIterator, DType, DataSetIterator, Loader, Normaliser, Result, Workspace};

const ABOUT: &str = "\
Instructions that one more sample costs, from the difference of two runs of unequal length. The machinery is all that a \
sample of 16 bytes costs in the shield: planning, binding, decoding, settling, handing out, in batches of \
256. Windows are of 40 records of 8 f32 each, which a raw file has, with all that, too. For the others, read is the calls of `fetch` and decode those of `decode`, as a worker makes them, 64 to a job. Not \
counted is what the kernel does; waiting for memory is no instruction. The count is that of a processor without AVX-512.";

/// Samples in a job, as workers would have them.
const JOB: usize = 64;
/// Records in the files that are made.
const RECORDS: u64 = 256;

/// What is counted: its name, and samples of the shorter run.
const STAGES: [(&str, u64); 11] = [
    ("machinery, in order", 4096),
    ("machinery, shuffled", 4096),
    ("windows of 40, in order", 1024),
    ("windows of 40, shuffled", 1024),
    ("idx digit, u8 to f32", 1024),
    ("raw record, 3 KB u8", 1024),
    ("tokens, 1024 u16 to i64", 512),
    ("csv row, 32 f32 and a label", 1024),
    ("jpeg, train crop to u8", 16),
    ("jpeg, train crop to f32", 16),
    ("jpeg, whole to 224 x 224", 16),
];

fn main() -> Result<()> {
    let args: Vec<String> = std::env::args().collect();
    if let [_, count, stage, part, samples, folder] = args.as_slice()
        && count == "--count"
    {
        return run(stage, part, samples.parse().expect("a number"), Path::new(folder));
    }
    if !args.iter().any(|arg| arg == "--bench") || args.iter().any(|arg| arg == "--test") {
        return Ok(());
    }
    if Command::new("valgrind").arg("--version").output().is_err() {
        println!("skipped: valgrind is not installed");
        return Ok(());
    }
    let folder = tempfile::tempdir().expect("a temporary folder");
    make(folder.path());
    let json = args.iter().any(|arg| arg == "--json");
    let mut rows = Vec::new();
    for (stage, samples) in STAGES {
        let count = |part: &str| {
            let run = |samples: u64| counted(stage, part, samples, folder.path());
            (run(3 * samples) - run(samples)) / (2 * samples)
        };
        let row = match stage.starts_with("machinery") || stage.starts_with("windows") {
            true => (None, None, count("all")),
            false => {
                let (read, both) = (count("read"), count("both"));
                (Some(read), Some(both.saturating_sub(read)), both)
            }
        };
        rows.push((stage, row));
    }
    if json {
        let stages: Vec<_> = rows
            .iter()
            .map(|(stage, (read, decode, all))| {
                serde_json::json!({"stage": stage, "read": read, "decode": decode, "all": all})
            })
            .collect();
        println!("{}", serde_json::json!({"instructions_per_sample": stages}));
        return Ok(());
    }
    println!("{ABOUT}\n\n{:28} {:>10} {:>12} {:>12}", "instructions per sample", "read", "decode", "all");
    let shown = |count: Option<u64>| count.map_or_else(|| "-".to_owned(), |count| count.to_string());
    for (stage, (read, decode, all)) in rows {
        println!("{stage:28} {:>10} {:>12} {all:>12}", shown(read), shown(decode));
    }
    Ok(())
}

/// Instructions of a whole run.
fn counted(stage: &str, part: &str, samples: u64, folder: &Path) -> u64 {
    let exe = std::env::current_exe().expect("a running program has a path");
    let output = Command::new("valgrind")
        .args(["--tool=callgrind", "--callgrind-out-file=/dev/null"])
        .arg(exe)
        .args(["--count", stage, part, &samples.to_string()])
        .arg(folder)
        .output()
        .expect("valgrind runs");
    let text = String::from_utf8_lossy(&output.stderr);
    let collected = text.lines().find_map(|line| line.split_once("Collected :")?.1.trim().parse().ok());
    collected.unwrap_or_else(|| {
        eprintln!("valgrind counted nothing for {stage}:\n{text}");
        exit(1)
    })
}

/// Writes the files that are read: the same every time.
fn make(folder: &Path) {
    let write = |name: &str, bytes: &[u8]| std::fs::write(folder.join(name), bytes).expect("a temporary file");
    let key = RandomKey::new(3);
    let bytes: Vec<u8> = (0..RECORDS * 3072).map(|i| key.bits(i) as u8).collect();
    write("records.bin", &bytes);
    let series: Vec<u8> = (0..(1024 + 39) * 8).flat_map(|i| (i as f32).to_le_bytes()).collect();
    write("series.bin", &series);
    let header = [0, 0, 8, 3, 0, 0, (RECORDS >> 8) as u8, RECORDS as u8, 0, 0, 0, 28, 0, 0, 0, 28];
    write("digits.idx", &[&header[..], &bytes[..RECORDS as usize * 784]].concat());
    let mut text = (0..32).map(|column| format!("f{column},")).collect::<String>() + "label\n";
    for row in 0..RECORDS {
        let key = key.with(row);
        (0..32).for_each(|column| text += &format!("{:.6},", key.normal(column) * 10f64.powi(column as i32 % 5 - 1)));
        text += &format!("{}\n", key.bits(99) % 1000);
    }
    write("rows.csv", text.as_bytes());
    photos::make_folder(&folder.join("photos"), 8);
}

fn run(stage: &str, part: &str, samples: u64, folder: &Path) -> Result<()> {
    if stage.starts_with("machinery") {
        let values: Arc<[u8]> = vec![1; samples as usize * 16].into();
        let source = ReaderSource::new(MemoryReader::new("x", Role::Feature, &[16], values)?).batch_size(256);
        let source = if stage.ends_with("shuffled") { source.shuffle(5) } else { source };
        let workspace = Workspace::builder().workers(1).build()?;
        for batch in AsyncShieldDataSetIterator::new(source, &workspace)? {
            std::hint::black_box(batch?.len());
        }
        return Ok(());
    }
    if stage.starts_with("windows") {
        // The file has 1024 windows.
        let options = RawOptions::features(StoredType::F32, &[8]);
        let loader = Loader::raw(folder.join("series.bin"), options).windows(Windows::new(40, 0));
        let loader = loader.batch_size(256).workers(1).shield();
        let mut loader = if stage.ends_with("shuffled") { loader.shuffle(5) } else { loader }.build()?;
        for _ in 0..samples / 1024 {
            for batch in loader.epoch()? {
                std::hint::black_box(batch?.len());
            }
        }
        return Ok(());
    }
    let reader = reader(stage, folder)?;
    let mut tensors = reader.tensors().to_vec();
    if stage.ends_with("crop to f32") {
        tensors[0].affine = Some(Arc::new(Normaliser::imagenet().affine(&tensors[0])?));
    }
    let schema = Schema::new(tensors)?;
    let mut layout = Layout::default();
    layout.compute(&schema, JOB, Extents::default())?;
    let mut slot = vec![0u64; layout.bytes().div_ceil(8)];
    let mut scratch = Scratch::default();
    let mut done = 0;
    while done < samples {
        let ids: Vec<u64> = (done..samples.min(done + JOB as u64)).map(|i| i % reader.len()).collect();
        for nth in 0..ids.len() {
            reader.fetch(&ids, nth, &mut scratch)?;
        }
        if part == "both" {
            for (nth, id) in ids.iter().enumerate() {
                let sample = Sample { id: *id, key: RandomKey::new(1).with(*id) };
                let slot = bytemuck::cast_slice_mut(&mut slot);
                let mut row = RowMut::new(slot, schema.tensors(), &layout, nth);
                reader.decode(sample, nth, &mut scratch, &mut row)?;
            }
        }
        done += ids.len() as u64;
    }
    Ok(())
}

fn reader(stage: &str, folder: &Path) -> Result<Box<dyn RecordReader>> {
    let file = |name: &str| folder.join(name);
    let image = |options: ImageOptions| -> Result<Box<dyn RecordReader>> {
        Ok(Box::new(ImageFolder::open(file("photos"), &ImageOptions { size: Some((224, 224)), ..options })?))
    };
    let train = vec![random_resized_crop(), horizontal_flip()];
    match stage {
        "idx digit, u8 to f32" => {
            Ok(Box::new(IdxReader::open_as(file("digits.idx"), "features", Numbers::f32(), &IdxOptions::default())?))
        }
        "raw record, 3 KB u8" => {
            Ok(Box::new(RawReader::open(file("records.bin"), &RawOptions::features(StoredType::U8, &[3072]))?))
        }
        "tokens, 1024 u16 to i64" => {
            let cut = TokenCut::Contiguous { stride: None };
            let options = TokenOptions { window: 1024, cut, targets: TokenTargets::None, ..TokenOptions::default() };
            Ok(Box::new(TokenReader::open(file("records.bin"), &options)?))
        }
        "csv row, 32 f32 and a label" => {
            let fields: [(&str, Field); 2] = [
                ("x", Numbers::f32().from((0..32).collect::<Vec<usize>>())),
                ("label", Numbers::i64().from(["label"]).role(Role::Label)),
            ];
            let fields = fields.map(|(name, field)| (name.to_owned(), field));
            Ok(Box::new(CsvReader::with_fields(file("rows.csv"), &fields, &CsvOptions::default())?))
        }
        "jpeg, train crop to u8" => image(ImageOptions { augment: train, ..ImageOptions::default() }),
        "jpeg, train crop to f32" => {
            image(ImageOptions { augment: train, dtype: DType::F32, ..ImageOptions::default() })
        }
        "jpeg, whole to 224 x 224" => image(ImageOptions::default()),
        other => panic!("no stage is called {other:?}"),
    }
}
