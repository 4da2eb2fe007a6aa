use std::path::PathBuf;

use clap::builder::RangedU64ValueParser;
use clap::error::ErrorKind;
use clap::{CommandFactory, Parser, Subcommand, ValueEnum};
use ringfeed::DType;
use ringfeed::arrays::{Endian, RawOptions, StoredType};
use ringfeed::csv::{CsvOptions, Header};
use ringfeed::device::DeviceName;
use ringfeed::formats::Formats;
use ringfeed::images::PixelOrder;
#[cfg(feature = "metrics")]
use ringfeed::stats::MetricsAddress;
use ringfeed::workspace::Amount;

/// Look into training data, and measure how fast it can be fed to a trainer.
#[derive(Debug, Parser)]
#[command(name = "ringfeed", version, max_term_width = 100, after_help = after_help())]
pub(crate) struct Args {
    #[command(subcommand)]
    pub(crate) command: Command,
    /// Say on standard error what the library does meanwhile, such as giving a slot larger memory
    #[arg(short, long, global = true)]
    pub(crate) verbose: bool,
}

/// What the page of help ends with.
fn after_help() -> String {
    let titles: Vec<_> = Formats::new().titles().collect();
    format!(
        "\
Examples:
  ringfeed inspect iris.csv
  ringfeed verify photos/
  ringfeed plan loader.toml
  ringfeed fit loader.toml
  ringfeed bench photos/ --size 224 --step-ms 20
  ringfeed pack photos/ shards/
  ringfeed help bench

Formats: {}. A file, a folder of such files, or a pattern such as 'train-*.parquet' or 'train-{{000..146}}.tar'; folders of \
images or sounds with one subfolder a class, of CSV files that are a sequence each, or of IDX files. They are told apart by \
content first, then by name. Of numbers and tokens without a header, --stored says what they are.

Exit status: 0 if all went well, 1 for errors of the data (also those that verify lists) or at run time, 2 for wrong usage, 130 \
where Ctrl-C ended it. With --json, standard output holds one JSON object: the report, or {{\"error\": {{kind, path, record, \
line, member, column, byte, message}}}}; after wrong usage or Ctrl-C, which are told on standard error, it may be empty.",
        titles.join(", ")
    )
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Say what a file or folder holds: format, records, fields with their figures, first and last record
    Inspect(InspectArgs),
    /// Read and decode every sample, and list all that are bad
    Verify(VerifyArgs),
    /// Say what a run will do, without decoding the data: samples, batches, memory
    Plan(PlanArgs),
    /// Fit the recipe of a file of settings to its training data, and save it where they say
    Fit(FitArgs),
    /// Read a data set as a trainer would, and name what limits the speed
    Bench(Box<BenchArgs>),
    /// Pack many small files, or rows of text, into few large files
    Pack(PackArgs),
    /// Show two measurements side by side, and which differences are more than chance
    Compare(CompareArgs),
    /// Print a script that completes this command's words in a shell
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },
}

/// The script for a shell.
pub(crate) fn completions(shell: clap_complete::Shell) -> Vec<u8> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Args::command(), "ringfeed", &mut script);
    script
}

const INSPECT_EXAMPLES: &str = "\
Examples:
  ringfeed inspect iris.csv
  ringfeed inspect --header no --delimiter '\\t' measurements.tsv.gz
  ringfeed inspect --encoding latin1 --json kunden.csv
  ringfeed inspect train-images-idx3-ubyte.gz
  ringfeed inspect --stored f32 --shape 3,32,32 images.bin
  ringfeed inspect photos/
  zcat old.csv.Z | ringfeed inspect -

Whether the first record of a CSV file is its header is decided, unless --header says so, from the first 1001 records: \
it is if some column has text there and numbers alone below. If no column tells, it is if its fields are all there, \
distinct, not numbers, and none occurs again below in its own column. A single record is one if it holds no number. The \
report shows the decision and what decided.";

#[derive(Debug, clap::Args)]
#[command(after_help = INSPECT_EXAMPLES)]
pub(crate) struct InspectArgs {
    /// File or folder; `-` for standard input, which is kept in a temporary file meanwhile
    pub(crate) path: PathBuf,
    /// Print one JSON object instead of a table
    #[arg(long)]
    pub(crate) json: bool,
    /// Whether the first record of a CSV file holds the names of its columns
    #[arg(long, value_name = "WHEN", default_value = "auto")]
    header: HeaderArg,
    /// What separates the fields of a CSV file: one character, `\t` or `tab` [default: detected]
    #[arg(long, value_name = "C", value_parser = delimiter)]
    delimiter: Option<char>,
    /// Encoding of a CSV file, by its name on the web, such as latin1 or utf-16le [default: utf-8]
    #[arg(long, value_name = "NAME")]
    encoding: Option<String>,
    #[command(flatten)]
    pub(crate) raw: RawArgs,
}

/// What a file without a header holds.
#[derive(Debug, clap::Args)]
pub(crate) struct RawArgs {
    /// Read a file without a header, of numbers of this type: u8, i8, u16, i16, u32, i32, u64, i64, f16, bf16, f32, f64
    #[arg(long, value_name = "TYPE")]
    stored: Option<StoredType>,
    /// Shape of a record in it, such as 3,32,32 [default: one number]
    #[arg(long, value_name = "N,N", value_delimiter = ',', requires = "stored")]
    shape: Vec<usize>,
    /// Bytes before its first record [default: 0]
    #[arg(long, value_name = "N", requires = "stored")]
    header_bytes: Option<u64>,
    /// Its numbers have their most significant byte first
    #[arg(long, requires = "stored")]
    big_endian: bool,
}

impl RawArgs {
    /// The options, if the flags say that the file is raw.
    pub(crate) fn options(&self) -> Option<RawOptions> {
        Some(RawOptions {
            stored: self.stored?,
            shape: self.shape.clone(),
            header_bytes: self.header_bytes.unwrap_or(0),
            endian: if self.big_endian { Endian::Big } else { Endian::Little },
            ..RawOptions::default()
        })
    }
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum HeaderArg {
    Auto,
    Yes,
    No,
}

impl InspectArgs {
    /// The options for CSV; ends the process with status 2 if they make no sense.
    pub(crate) fn options(&self) -> CsvOptions {
        let header = match self.header {
            HeaderArg::Auto => Header::Auto,
            HeaderArg::Yes => Header::Yes,
            HeaderArg::No => Header::No,
        };
        let options =
            CsvOptions { header, delimiter: self.delimiter, encoding: self.encoding.clone(), ..CsvOptions::default() };
        if let Some(fault) = options.faults().first() {
            wrong_usage("inspect", fault);
        }
        options
    }
}

fn delimiter(text: &str) -> Result<char, String> {
    let mut characters = text.chars();
    match (text, characters.next(), characters.next()) {
        ("tab" | "\\t", ..) => Ok('\t'),
        (_, Some(character), None) => Ok(character),
        _ => Err("give one character, `\\t` or `tab`".to_owned()),
    }
}

/// Ends the process with status 2, after the message and the usage.
fn wrong_usage(command: &str, message: &str) -> ! {
    let mut args = Args::command();
    args.build();
    let command = args.find_subcommand_mut(command).expect("the command that is running exists");
    command.error(ErrorKind::ValueValidation, message).exit()
}

const VERIFY_EXAMPLES: &str = "\
Examples:
  ringfeed verify photos/
  ringfeed verify train.csv.gz --json
  ringfeed verify train.csv --config loader.toml    # do all fields fit the columns' types?

What is bad, by format:
  CSV        a record with another number of fields than the first, or that is not UTF-8
  sequences  a file that can't be read, has another header, or a record with another number of fields
  IDX        what can't be read; of a folder, each file that is damaged
  NPY, raw   what can't be read, or does not fit the type in the batch
  images     what does not decode to its last pixel, at full size
  tar        a sample whose image is missing or does not decode, or whose `cls` is no class
  sound      what does not decode to its last sample
  others     a record that can't be read, is not what the format allows, or fails its checksum, where there is one (Parquet,
             Arrow, JSON Lines, TFRecord, NPZ, safetensors, libsvm, MDS, LitData, text)

Without --config a CSV file has no schema, so no field is bad by itself: text among numbers makes a column of text. With \
it, every sample is decoded as the file says (without its order, shard, policies and augmentation), and PATH means what \
it means to bench. Files with `access = \"map\"` are mapped: do not change or truncate them meanwhile.

The report lists the first 100,000 bad samples and counts the rest. A quote that is never closed, a record beyond the \
limit or damaged gzip data make the rest of a CSV file unreadable: that is the report's `ended_by`, beside the bad \
samples before it. What can't be opened at all, or is damaged in its first 64 KiB, is an error; with --config, so is whatever a loader \
of these settings objects to before its first batch.

Exit status: 0 if nothing is bad, 130 where Ctrl-C stopped it, 1 otherwise. With --json, standard output holds {path, format, \
checked (`values`, or of a table without --config `form`), samples, bad_samples, \
bad: [{kind, path, record, line, member, column, byte, message}], damaged, damage: [{kind, images}], ended_by, ok, seconds}, whatever the status.";

#[derive(Debug, clap::Args)]
#[command(after_help = VERIFY_EXAMPLES)]
pub(crate) struct VerifyArgs {
    /// File or folder; `-` for standard input, which is kept in a temporary file meanwhile
    #[arg(required_unless_present = "config")]
    pub(crate) path: Option<PathBuf>,
    /// Settings of a loader, as TOML or JSON: check against them
    #[arg(long, value_name = "FILE", conflicts_with = "stored")]
    pub(crate) config: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) raw: RawArgs,
    /// Threads that decode [default: one for each core]
    #[arg(long, value_name = "N", value_parser = RangedU64ValueParser::<usize>::new().range(1..=4096))]
    pub(crate) workers: Option<usize>,
    /// Print one JSON object instead of lines
    #[arg(long)]
    pub(crate) json: bool,
}

const PACK_EXAMPLES: &str = "\
Examples:
  ringfeed pack photos/ shards/
  ringfeed pack clips.jsonl shards/ --shard-mib 512
  ringfeed pack measures.csv tables/ --parquet
  ringfeed pack corpus/ shards/ --config source.toml

Tar archives are samples as WebDataset has them: files of bytes with the extension of what they hold, a class by its index \
(cls), arrays (npy), and everything else in one json. The records keep their order. Which record is in which shard, and every byte \
of it, depends on the data and the options alone.

A run that was stopped or killed goes on when it is typed again: finished shards stay as they are, and each appears whole. At the \
end manifest.json lists the shards with records, bytes and CRC-32, the fields, and the names of the classes.

Exit status: 0 if all was packed, 1 for errors (the first bad record is one, unless --skip-bad), 130 where Ctrl-C stopped it. With --json, \
standard output holds {path, out, manifest, ok, seconds}.";

#[derive(Debug, clap::Args)]
#[command(after_help = PACK_EXAMPLES)]
pub(crate) struct PackArgs {
    /// File, folder or pattern of any format
    pub(crate) path: PathBuf,
    /// Folder for the shards, which is made if it is not there
    pub(crate) out: PathBuf,
    /// Write Parquet files in place of tar archives
    #[arg(long)]
    pub(crate) parquet: bool,
    /// Most MiB of a shard, before it is compressed [default: 256]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1 << 30))]
    pub(crate) shard_mib: Option<u64>,
    /// Pack these fields alone [default: all]
    #[arg(long, value_name = "NAME,NAME", value_delimiter = ',')]
    pub(crate) fields: Vec<String>,
    /// Leave these fields out: what can't be packed is an error otherwise
    #[arg(long, value_name = "NAME,NAME", value_delimiter = ',', conflicts_with = "fields")]
    pub(crate) skip_fields: Vec<String>,
    /// Columns of a CSV file that stay text, though numbers stand there
    #[arg(long, value_name = "NAME,NAME", value_delimiter = ',')]
    pub(crate) text: Vec<String>,
    /// Leave records out that can't be read, and count them. Images are packed as they are: `verify` says which can't be decoded
    #[arg(long)]
    pub(crate) skip_bad: bool,
    /// Remove the shards that were packed into OUT before, finished or not, and begin anew
    #[arg(long)]
    pub(crate) restart: bool,
    /// Settings whose one source says the format and options of PATH, and nothing else, as .toml or .json. What stands for a missing
    /// value in CSV (NA, None and so on) is its option `missing_tokens`
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// Threads that read and encode [default: one for each core]
    #[arg(long, value_name = "N", value_parser = RangedU64ValueParser::<usize>::new().range(1..=4096))]
    pub(crate) workers: Option<usize>,
    /// Print one JSON object instead of lines
    #[arg(long)]
    pub(crate) json: bool,
}

const PLAN_EXAMPLES: &str = "\
Examples:
  ringfeed plan loader.toml
  ringfeed plan loader.json --shards 8 --json
  ringfeed plan iris.csv

It lists folders, reads headers, and finds the records of CSV files, which reads each of these once; nothing is decoded. \
What that does not tell is called unknown (null with --json), with the reason: the number of records of a CSV file that \
would have to be unpacked, the ring of samples that differ in size.";

#[derive(Debug, clap::Args)]
#[command(after_help = PLAN_EXAMPLES)]
pub(crate) struct PlanArgs {
    /// Settings of a loader, as .toml or .json; or a file or folder of data, with every setting at its default
    #[arg(value_name = "CONFIG or PATH")]
    pub(crate) config: PathBuf,
    /// Plan for N shards, whatever the settings say
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) shards: Option<u32>,
    /// Print one JSON object instead of a table
    #[arg(long)]
    pub(crate) json: bool,
}

const FIT_EXAMPLES: &str = "\
Examples:
  ringfeed fit loader.toml

with a loader.toml such as

  prepared = \"prepared.json\"
  split = { train = 0.8, test = 0.2, part = \"train\" }
  [source]
  path = \"people.csv\"
  [prepare.columns]
  age = { number = { impute = \"median\", mask = true, scale = \"standardise\" } }
  city = { category = { unknown = true } }

reads the part of the data that the settings choose once, in whatever order, and writes prepared.json, by which loaders of the \
same settings then make their tensors.";

#[derive(Debug, clap::Args)]
#[command(after_help = FIT_EXAMPLES)]
pub(crate) struct FitArgs {
    /// Settings of a loader, as .toml or .json
    pub(crate) config: PathBuf,
    /// Print one JSON object instead of lines
    #[arg(long)]
    pub(crate) json: bool,
}

const COMPARE_EXAMPLES: &str = "\
Examples:
  ringfeed bench photos/ --epochs 5 --json > before.json
  ringfeed bench photos/ --epochs 5 --workers 4 --json > after.json
  ringfeed compare before.json after.json

Samples a second differ beyond the spread if no epoch of one run is as fast or as slow as any of the other; measure \
several epochs for that.";

#[derive(Debug, clap::Args)]
#[command(after_help = COMPARE_EXAMPLES)]
pub(crate) struct CompareArgs {
    /// What `bench --json` printed, or `bench --report FILE.json` wrote
    pub(crate) first: PathBuf,
    /// The same of another run
    pub(crate) second: PathBuf,
    /// Print one JSON object instead of a table
    #[arg(long)]
    pub(crate) json: bool,
}

const BENCH_EXAMPLES: &str = "\
Examples:
  ringfeed bench iris.csv
  ringfeed bench photos/ --size 224 --dtype f32 --batch-size 64
  ringfeed bench photos/ --step-ms 20    # does the loader keep up with such a trainer?
  ringfeed bench photos/ --step-ms 20 --headspace    # ... and how fast would it be with a loader that takes no time?
  ringfeed bench photos/ --shield        # without prefetch, to compare
  ringfeed bench photos/ --device cuda:0 --convert bf16
  ringfeed bench --config loader.toml --workers 8 --json
  ringfeed bench photos/ --epochs 5 --report run.html    # one page: the verdict, how it went over time, slowest samples
  ringfeed bench --config loader.toml --workers auto --prefetch auto --epochs 20 --write-settings tuned.toml
  ringfeed bench --stored u16 --window 1024 --batch-size 64 train.bin    # tokens, in random windows

With --config, the file's settings hold where no flag says otherwise. If it names one source, PATH replaces its path; \
if it names several, PATH is the folder where those are that do not lie beside it; if it names none, PATH is read as \
without it. PATH may be left out if the file names a source. Without a source in a file, missing values of CSV files \
become NaN, images are resized to 224 x 224, and a folder of IDX files means the largest one and its labels. Files with \
`access = \"map\"` are mapped: do not change or truncate them meanwhile, which could end the command by a signal.";

#[derive(Debug, clap::Args)]
#[command(after_help = BENCH_EXAMPLES)]
pub(crate) struct BenchArgs {
    /// File or folder; `-` for standard input, which is kept in a temporary file meanwhile
    #[arg(required_unless_present = "config")]
    pub(crate) path: Option<PathBuf>,
    /// Settings of a loader, as TOML or JSON
    #[arg(long, value_name = "FILE", conflicts_with_all = ["stored", "window"])]
    pub(crate) config: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) raw: RawArgs,
    /// Read a file of tokens, raw or NPY, in random windows of N tokens and their targets
    #[arg(long, value_name = "N", conflicts_with = "shape", value_parser = at_least_one())]
    pub(crate) window: Option<usize>,
    /// Number of samples per batch [default: 32]
    #[arg(long, value_name = "N", value_parser = at_least_one())]
    pub(crate) batch_size: Option<usize>,
    /// Threads that fill batches, or `auto`: found meanwhile [default: one for each core]
    #[arg(long, value_name = "N", value_parser = |text: &str| amount(text, 1))]
    pub(crate) workers: Option<Amount>,
    /// Finished batches that may wait for the trainer, or `auto` [default: 2, or two samples for each worker]
    #[arg(long, value_name = "N", value_parser = |text: &str| amount(text, 0))]
    pub(crate) prefetch: Option<Amount>,
    /// Write the settings to FILE, as TOML or JSON, with the numbers that were found in place of `auto`
    #[arg(long, value_name = "FILE")]
    pub(crate) write_settings: Option<PathBuf>,
    /// Passes over the data that count
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) epochs: u64,
    /// Passes before those, which do not count
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) warmup_epochs: u64,
    /// Make batches without prefetch, on the trainer's own thread
    #[arg(long)]
    pub(crate) shield: bool,
    /// Leave bad records out and count them, instead of ending with the first
    #[arg(long)]
    pub(crate) skip_bad: bool,
    /// Shuffle by this seed
    #[arg(long, value_name = "SEED")]
    pub(crate) shuffle: Option<u64>,
    /// Resize images to N x N pixels [default: 224]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=16384))]
    pub(crate) size: Option<u32>,
    /// Element type of images, and of IDX, NPY and raw features [default: as stored]
    #[arg(long, value_name = "TYPE")]
    dtype: Option<DTypeArg>,
    /// Order of the dimensions of images [default: nchw]
    #[arg(long, value_name = "ORDER")]
    layout: Option<LayoutArg>,
    /// The trainer's step: hold each batch for X milliseconds
    #[arg(long, value_name = "X", default_value_t = 0.0, value_parser = milliseconds)]
    pub(crate) step_ms: f64,
    /// Then give batches that are loaded already, as an infinitely fast loader would: how fast would the trainer go?
    #[arg(long, conflicts_with = "device")]
    pub(crate) headspace: bool,
    /// Upload batches to this device, as a trainer there would have them: `host`, or `cuda:0` and so on
    #[arg(long, value_name = "DEVICE")]
    pub(crate) device: Option<DeviceName>,
    /// Convert images of bytes on the device to this type, 0 to 1
    #[arg(long, value_name = "TYPE", requires = "device")]
    convert: Option<ConvertArg>,
    /// Write a report of the run: a page that needs nothing else (.html), or data (.json)
    #[arg(long, value_name = "FILE")]
    pub(crate) report: Option<PathBuf>,
    /// Serve the figures of the run at http://ADDR/metrics for Prometheus: a port of this machine alone, or host:port
    #[cfg(feature = "metrics")]
    #[arg(long, value_name = "ADDR", value_parser = metrics_address)]
    pub(crate) metrics: Option<MetricsAddress>,
    /// Show a dashboard meanwhile: stages, ring, waits, verdict; a line a second where standard error is no terminal
    #[arg(long)]
    pub(crate) live: bool,
    /// Write what every thread did when, as a trace for ui.perfetto.dev or Chrome: the last 131,072 events
    #[arg(long, value_name = "FILE")]
    pub(crate) trace: Option<PathBuf>,
    /// Print one JSON object instead of a table
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum ConvertArg {
    F32,
    F16,
    Bf16,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum DTypeArg {
    U8,
    F16,
    Bf16,
    F32,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum LayoutArg {
    Nchw,
    Nhwc,
}

impl BenchArgs {
    pub(crate) fn dtype(&self) -> Option<DType> {
        self.dtype.map(|dtype| match dtype {
            DTypeArg::U8 => DType::U8,
            DTypeArg::F16 => DType::F16,
            DTypeArg::Bf16 => DType::Bf16,
            DTypeArg::F32 => DType::F32,
        })
    }

    pub(crate) fn convert(&self) -> Option<DType> {
        self.convert.map(|to| match to {
            ConvertArg::F32 => DType::F32,
            ConvertArg::F16 => DType::F16,
            ConvertArg::Bf16 => DType::Bf16,
        })
    }

    pub(crate) fn layout(&self) -> Option<PixelOrder> {
        self.layout.map(|layout| match layout {
            LayoutArg::Nchw => PixelOrder::Nchw,
            LayoutArg::Nhwc => PixelOrder::Nhwc,
        })
    }
}

#[cfg(feature = "metrics")]
fn metrics_address(text: &str) -> Result<MetricsAddress, String> {
    text.parse().map_err(|error: ringfeed::Error| error.message().to_owned())
}

fn amount(text: &str, least: usize) -> Result<Amount, String> {
    let amount: Amount = text.parse().map_err(|error: ringfeed::Error| error.message().to_owned())?;
    match amount.number() {
        Some(number) if !(least..=4096).contains(&number) => Err(format!("{number} is not in {least}..=4096")),
        _ => Ok(amount),
    }
}

fn at_least_one() -> RangedU64ValueParser<usize> {
    RangedU64ValueParser::new().range(1..)
}

fn milliseconds(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        // A day is longer than any step, and keeps the sum of many within what a clock can hold.
        Ok(number) if (0.0..=86_400_000.0).contains(&number) => Ok(number),
        _ => Err("give a number of milliseconds, 0 or more".to_owned()),
    }
}
