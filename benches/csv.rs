//! How fast CSV files become batches: in order and shuffled, mapped and by reads; and how fast their rows are found.

mod common;
#[path = "common/machine.rs"]
#[expect(dead_code, reason = "the number of cores does not matter here")]
mod machine;

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::time::Instant;

use common::{Case, Options, Table};
use machine::cpu_seconds;
use ringfeed::csv::{CsvOptions, CsvReader};
use ringfeed::field::{Category, Field, Numbers, Text};
use ringfeed::memory::MemoryBudget;
use ringfeed::order::RandomKey;
use ringfeed::read::RecordReader;
use ringfeed::source::ReaderSource;
use ringfeed::storage::{Access, Files, Mapping};
use ringfeed::tensor::Role;
use ringfeed::{AsyncDataSetIterator, DType, DataSetIterator, Result, Workspace};

// SAFETY: nobody changes the data of a benchmark.
const MAPPED: Access = Access::Map(unsafe { Mapping::promise() });

const ABOUT: &str = "\
Epochs of a CSV file in batches of 256 rows, with the page cache warm; the trainer only takes the batches. `numeric` has \
32 numbers with a point and an integer label (325 bytes a row), `mixed` 12 numbers, some of them missing, three categories, a quoted text (to u8 [80] and its length) and a label. The ratios are \
the time of an epoch shuffled by row by the time of one in the file's order, in the same round. Opening the file, which \
finds its rows, is not part of it: see the next table. It does not show a cold disk.";

const ABOUT_OPENING: &str = "\
Opening a CSV file whose columns are all described, which finds where each of its rows begins, with the page cache warm.";

/// What the columns of text and categories are made of.
const WORDS: [&str; 20] = [
    "river", "stone", "light", "paper", "engine", "window", "garden", "silver", "north", "orchard", "copper", "signal",
    "letter", "winter", "bridge", "market", "candle", "harbour", "meadow", "anchor",
];
const COLOURS: [&str; 4] = ["red", "green", "blue", "violet"];
const LETTERS: [&str; 7] = ["A", "B", "C", "D", "E", "F", "G"];

const ROWS: usize = 200_000;
const BATCH: usize = 256;

fn main() -> Result<()> {
    let Some(options) = Options::from_args(5) else { return Ok(()) };
    let made = tempfile::tempdir().expect("a temporary folder");
    let folder = options.data.clone().unwrap_or_else(|| {
        make(made.path()).expect("a file in the temporary folder");
        made.path().to_owned()
    });

    let mut epochs = Table::new(
        ABOUT,
        &["file", "workers"],
        &[
            ("mapped M rows/s", 2),
            ("shuffled", 2),
            ("ratio", 2),
            ("read M rows/s", 2),
            ("shuffled", 2),
            ("ratio", 2),
            ("mapped MB/s", 0),
            ("mapped CPU ns/row", 0),
            ("read CPU ns/row", 0),
        ],
    );
    let mut cases = Vec::new();
    for file in [File::Numeric, File::Mixed] {
        for workers in [1, 2] {
            let path = file.path(&folder);
            let bytes = std::fs::metadata(&path).expect("a file").len() as f64;
            let mut iterators = Vec::new();
            for access in [MAPPED, Access::Read] {
                for shuffled in [false, true] {
                    iterators.push(iterator(file, &path, access, workers, shuffled)?);
                }
            }
            cases.push(Case::new(&[&file.name(), &workers], move || {
                let took: Vec<Epoch> = iterators.iter_mut().map(epoch).collect();
                let speed = |at: usize| took[at].rows / took[at].seconds / 1e6;
                let ratio = |at: usize| took[at + 1].seconds / took[at].seconds;
                let cpu = |at: usize| took[at].cpu_seconds * 1e9 / took[at].rows;
                let mapped = bytes / took[0].seconds / 1e6;
                vec![speed(0), speed(1), ratio(0), speed(2), speed(3), ratio(2), mapped, cpu(0), cpu(2)]
            }));
        }
    }
    epochs.measure(options.rounds, cases);
    epochs.print(&options);

    let mut opening = Table::new(
        ABOUT_OPENING,
        &["file", "threads"],
        &[("mapped GB/s", 2), ("read GB/s", 2), ("index bytes/row", 2)],
    );
    let mut cases = Vec::new();
    for file in [File::Numeric, File::Mixed] {
        for threads in [1, 2] {
            let path = file.path(&folder);
            let options = move |access| CsvOptions { threads: Some(threads), ..File::options(access) };
            cases.push(Case::new(&[&file.name(), &threads], move || {
                let (mapped, a_row) = open(&path, file, &options(MAPPED));
                let (read, _) = open(&path, file, &options(Access::Read));
                vec![mapped, read, a_row]
            }));
        }
    }
    opening.measure(options.rounds, cases);
    println!();
    opening.print(&options);
    Ok(())
}

#[derive(Clone, Copy)]
enum File {
    Numeric,
    Mixed,
}

impl File {
    fn name(self) -> &'static str {
        match self {
            Self::Numeric => "numeric",
            Self::Mixed => "mixed",
        }
    }

    fn path(self, folder: &Path) -> PathBuf {
        folder.join(self.name()).with_extension("csv")
    }

    fn options(access: Access) -> CsvOptions {
        CsvOptions { access, missing: ringfeed::csv::Missing::Nan, ..CsvOptions::default() }
    }

    fn fields(self) -> Vec<(String, Field)> {
        let numbers = |columns: usize| Numbers::f32().from((0..columns).collect::<Vec<_>>());
        let label = Numbers::i64().from("label").role(Role::Label);
        let fields = match self {
            Self::Numeric => vec![("x", numbers(32)), ("label", label)],
            Self::Mixed => {
                let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
                let places = WORDS.iter().enumerate().map(|(nth, word)| format!("{word}_{nth}")).collect();
                let names = vec![places, names(&COLOURS), names(&LETTERS)];
                let codes = Category::new().names(names).dtype(DType::I32).from([12, 13, 14]);
                vec![("x", numbers(12)), ("codes", codes), ("text", Text::new(80).into()), ("label", label)]
            }
        };
        fields.into_iter().map(|(name, field)| (name.to_owned(), field)).collect()
    }
}

fn iterator(file: File, path: &Path, access: Access, workers: usize, shuffled: bool) -> Result<AsyncDataSetIterator> {
    let reader = CsvReader::with_fields(path, &file.fields(), &File::options(access))?;
    let mut source = ReaderSource::new(reader).batch_size(BATCH);
    if shuffled {
        source = source.shuffle(7);
    }
    let workspace = Workspace::builder().workers(workers).prefetch(8).across_epochs(false).build()?;
    AsyncDataSetIterator::new(source, &workspace)
}

struct Epoch {
    rows: f64,
    seconds: f64,
    cpu_seconds: f64,
}

fn epoch(iterator: &mut AsyncDataSetIterator) -> Epoch {
    let (cpu, begin) = (cpu_seconds(), Instant::now());
    iterator.reset().expect("a file can be read again");
    let rows: usize = iterator.map(|batch| batch.expect("the file has no bad records").len()).sum();
    Epoch { rows: rows as f64, seconds: begin.elapsed().as_secs_f64(), cpu_seconds: cpu_seconds() - cpu }
}

/// Gigabytes a second, and bytes of index a row.
fn open(path: &Path, file: File, options: &CsvOptions) -> (f64, f64) {
    let budget = MemoryBudget::unlimited();
    let begin = Instant::now();
    let reader = CsvReader::open_in(&Files::local(), path, &file.fields(), options, &budget);
    let reader = reader.expect("the file can be opened");
    let took = begin.elapsed().as_secs_f64();
    let bytes = std::fs::metadata(path).expect("a file").len() as f64;
    (bytes / took / 1e9, budget.used() as f64 / reader.len() as f64)
}

/// Writes both files: the same on every machine.
fn make(folder: &Path) -> std::io::Result<()> {
    let mut text: String = (0..32).map(|column| format!("f{column},")).collect();
    text += "label\n";
    for row in 0..ROWS as u64 {
        let key = RandomKey::new(20).with(row);
        for column in 0..32u32 {
            let scale = 10f64.powf(-1.0 + f64::from(column) * 4.0 / 31.0);
            let number = (key.normal(column.into()) * scale * 1e6).round() / 1e6;
            write!(text, "{number},").expect("a string can be written");
        }
        writeln!(text, "{}", key.bits(32) % 1000).expect("a string can be written");
    }
    std::fs::write(File::Numeric.path(folder), text)?;
    let mut text = "x0,x1,x2,x3,x4,x5,x6,x7,n0,n1,n2,n3,c0,c1,c2,text,label\n".to_owned();
    for row in 0..ROWS as u64 {
        let key = RandomKey::new(21).with(row);
        let pick = |counter: u64, count: usize| (key.bits(counter) % count as u64) as usize;
        for column in 0..8 {
            let number = (key.normal(column) * 1e5).round() / 1e5;
            let missing = number > 2.6;
            write!(text, "{}", if missing { ",".to_owned() } else { format!("{number},") }).expect("a string");
        }
        (8..12).for_each(|column| write!(text, "{},", pick(column, 100_000)).expect("a string"));
        let word = pick(12, WORDS.len());
        let colour = COLOURS[pick(13, 4)];
        write!(text, "{}_{word},{colour},{},\"", WORDS[word], LETTERS[pick(14, 7)]).expect("a string");
        let quote = key.unit(15);
        for nth in 0..6 {
            let comma = if nth == 0 && quote < 0.3 { ", " } else { " " };
            let space = if nth == 5 { "" } else { comma };
            write!(text, "{}{space}", WORDS[pick(16 + nth, WORDS.len())]).expect("a string");
        }
        let said = if quote < 0.1 { " \"\"so it was said\"\"" } else { "" };
        writeln!(text, "{said}\",{}", pick(22, 10)).expect("a string");
    }
    std::fs::write(File::Mixed.path(folder), text)
}
