use std::ffi::OsString;
use std::path::PathBuf;

use clap::builder::UnknownArgumentValueParser;
use clap::error::ErrorKind;
use clap::{Arg, CommandFactory, FromArgMatches, Parser, Subcommand, ValueEnum};
use ringfeed::DType;
use ringfeed::arrays::{Endian, RawOptions, StoredType};
use ringfeed::csv::{CsvOptions, Header};
use ringfeed::device::DeviceName;
use ringfeed::formats::Formats;
use ringfeed::images::PixelOrder;
#[cfg(feature = "metrics")]
use ringfeed::stats::MetricsAddress;
use ringfeed::workspace::Amount;

/// Inspect training data, and measure how fast it can be loaded for a trainer.
#[derive(Debug, Parser)]
#[command(name = "ringfeed", version, max_term_width = 100, after_help = after_help(&Formats::new()))]
pub(crate) struct Args {
    #[command(subcommand)]
    pub(crate) command: Command,
    /// Log to standard error what the library does, such as giving a slot more memory
    #[arg(short, long, global = true)]
    pub(crate) verbose: bool,
}

/// What was typed, for data in these formats.
///
/// # Errors
///
/// Wrong usage, and the help that was asked for.
pub(crate) fn parse(typed: impl IntoIterator<Item = OsString>, formats: &Formats) -> Result<Args, clap::Error> {
    let matches = Args::command().after_help(after_help(formats)).try_get_matches_from(typed)?;
    Args::from_arg_matches(&matches)
}

/// What the page of help ends with.
fn after_help(formats: &Formats) -> String {
    let titles: Vec<_> = formats.titles().collect();
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

Formats: {}. Give a file, a folder, or a pattern such as 'train-*.parquet' or 'train-{{000..146}}.tar'. In a folder of images or sounds, \
each subfolder is a class. In a folder of CSV files, each file is one sequence. The format is detected from the content first, then \
from the name. For files of numbers or tokens without a header, --stored gives the type. Plain text is never detected: name its format \
in a settings file (text, text_files or text_tokens).

Exit status: 0 for success, 1 for errors in the data (including those that verify lists) or at run time, 2 for wrong usage, 130 \
after Ctrl-C, 143 after `kill`. With --json, standard output holds one JSON object: the report, or {{\"error\": {{kind, path, record, \
line, member, column, byte, message}}}}. After wrong usage or Ctrl-C, which are reported on standard error, it may be empty.",
        titles.join(", ")
    )
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Show what a file or folder contains: format, records, fields with statistics, first and last record; or what was
    /// fitted
    Inspect(InspectArgs),
    /// Read and decode every sample, and list all bad ones
    Verify(VerifyArgs),
    /// Show what a run will do, without decoding the data: samples, batches, memory
    Plan(PlanArgs),
    /// Fit the recipe of a settings file to its training data, and save it as the settings say
    Fit(FitArgs),
    /// Read a data set as a trainer would, and report what limits the speed
    Bench(Box<BenchArgs>),
    /// Pack many small files, or rows of text, into few large files
    Pack(PackArgs),
    /// Show two measurements side by side, and mark the differences that are more than chance
    Compare(CompareArgs),
    /// Print a completion script for a shell
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
  ringfeed inspect prepared.json
  ringfeed inspect --config loader.toml
  ringfeed inspect photos/
  zcat old.csv.Z | ringfeed inspect -

Unless --header is given, the first 1001 records decide whether the first record of a CSV file is its header. It is, if some \
column has text in the first record and only numbers below. Without such a column, it is a header if no \
field is empty or a number, all fields differ, and no field appears again in its column. A single record is a header if it holds no number. The \
report shows the decision and its reason.";

#[derive(Debug, clap::Args)]
#[command(after_help = INSPECT_EXAMPLES, allow_negative_numbers = true)]
pub(crate) struct InspectArgs {
    /// File or folder; `-` reads standard input by way of a temporary file
    #[arg(required_unless_present = "config")]
    pub(crate) path: Option<PathBuf>,
    /// Settings file (TOML or JSON) with one source: read with its format and options
    #[arg(long, value_name = "FILE", conflicts_with_all = ["stored", "header", "delimiter", "encoding"])]
    pub(crate) config: Option<PathBuf>,
    /// Print one JSON object instead of a table
    #[arg(long)]
    pub(crate) json: bool,
    /// Whether the first record of a CSV file holds the names of its columns
    #[arg(long, value_name = "WHEN", default_value = "auto", conflicts_with = "stored")]
    header: HeaderArg,
    /// Delimiter of a CSV file: one character, `\t` or `tab` [default: detected]
    #[arg(long, value_name = "C", value_parser = delimiter, conflicts_with = "stored")]
    delimiter: Option<char>,
    /// Encoding of a CSV file, by its web name, such as latin1 or utf-16le [default: utf-8]
    #[arg(long, value_name = "NAME", conflicts_with = "stored")]
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
    /// Shape of a record in such a file, such as 3,32,32 [default: one number]
    #[arg(long, value_name = "N,N", value_delimiter = ',', requires = "stored")]
    shape: Vec<usize>,
    /// Number of bytes before the first record of such a file [default: 0]
    #[arg(long, value_name = "N", requires = "stored", value_parser = whole::<u64>(0, u64::MAX))]
    header_bytes: Option<u64>,
    /// The numbers of such a file are big endian
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

/// What other commands call `--config`, for a command that takes the settings file alone: it says so.
fn no_config(command: &str) -> Arg {
    let advice = format!(
        "give the settings file alone, `ringfeed {command} loader.toml`; the path of the data is the `path` of its source"
    );
    Arg::new("no-config").long("config").hide(true).value_parser(UnknownArgumentValueParser::suggest(advice))
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
  CSV        a record with a different number of fields than the first, or that is not UTF-8
  sequences  a file that can't be read, has a different header, or a record with a different number of fields
  IDX        records that can't be read; in a folder, each damaged file
  NPY, raw   records that can't be read, or do not fit the type in the batch
  images     files that can't be decoded to the last pixel, at full size
  tar        a sample whose image is missing or can't be decoded, or whose `cls` is not a class
  sound      files that can't be decoded to the last sample
  others     a record that can't be read, is not what the format allows, or fails its checksum, where there is one (Parquet,
             Arrow, JSON Lines, TFRecord, NPZ, safetensors, libsvm, MDS, LitData, text)

Without --config a CSV file has no schema, so no field is bad by itself: text among numbers makes a column of text. With \
--config, every sample is decoded as the settings say (without their order, shard, policies and augmentation), and PATH has the \
same meaning as for bench. Files with `access = \"map\"` are mapped: do not change or truncate them while this runs.

The report lists the first 100,000 bad samples and counts the rest. A quote that is never closed, a record above the \
size limit or damaged gzip data make the rest of a CSV file unreadable: the report has this as `ended_by`, in addition to the bad \
samples before it. A file that can't be opened, or is damaged in its first 64 KiB, is an error. If PATH stands for several files, \
all of these are listed among the bad samples, and the other files are read: `ended_by` is then set only after Ctrl-C. \
With --config, everything that a loader with these settings refuses before its first batch is an error.

Exit status: 0 if nothing is bad, 130 after Ctrl-C, 143 after SIGTERM, 1 otherwise. With --json, standard output holds {path, format, \
checked (`values`, or `form` for a table without --config), samples, bad_samples, \
bad: [{kind, path, record, line, member, column, byte, message}], damaged, damage: [{kind, images}], ended_by, ok, seconds}, or \
{error: {...}}.";

#[derive(Debug, clap::Args)]
#[command(after_help = VERIFY_EXAMPLES, allow_negative_numbers = true)]
pub(crate) struct VerifyArgs {
    /// File or folder; `-` reads standard input by way of a temporary file
    #[arg(required_unless_present = "config")]
    pub(crate) path: Option<PathBuf>,
    /// Settings file of a loader (TOML or JSON): check with these settings
    #[arg(long, value_name = "FILE", conflicts_with = "stored")]
    pub(crate) config: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) raw: RawArgs,
    /// Number of threads that decode [default: one per core]
    #[arg(long, value_name = "N", value_parser = whole::<usize>(1, 4096))]
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

Tar archives have the layout of WebDataset: files with the extension of their content, a class as its index \
(cls), arrays (npy), and everything else in one json, also lists of JSON Lines. The records keep their order. The bytes of every shard depend only on the data \
and the options.

If a run was stopped or killed, give the same command again to resume it. Finished shards are kept, and a shard only appears when it \
is complete. At the end, _manifest.json lists the shards with records, bytes and CRC-32, the fields, and the names of the classes.

Exit status: 0 if everything was packed, 1 for errors (including the first bad record, unless --skip-bad), 130 after Ctrl-C, 143 after SIGTERM. With --json, \
standard output holds {path, out, manifest, bad: [{kind, path, record, line, member, column, byte, message}], ok, seconds}; bad lists the \
first 100 records that this run left out.";

#[derive(Debug, clap::Args)]
#[command(after_help = PACK_EXAMPLES, allow_negative_numbers = true)]
pub(crate) struct PackArgs {
    /// File, folder or pattern of any format
    pub(crate) path: PathBuf,
    /// Folder for the shards; it is created if it does not exist
    pub(crate) out: PathBuf,
    /// Write Parquet files instead of tar archives
    #[arg(long)]
    pub(crate) parquet: bool,
    /// Maximum size of a shard in MiB, before compression [default: 256]
    #[arg(long, value_name = "N", value_parser = whole::<u64>(1, 1 << 30))]
    pub(crate) shard_mib: Option<u64>,
    /// Pack only these fields [default: all]
    #[arg(long, value_name = "NAME,NAME", value_delimiter = ',')]
    pub(crate) fields: Vec<String>,
    /// Leave these fields out; without this option, a field that can't be packed is an error
    #[arg(long, value_name = "NAME,NAME", value_delimiter = ',', conflicts_with = "fields")]
    pub(crate) skip_fields: Vec<String>,
    /// Columns of a CSV file to keep as text, even if they hold numbers. Texts such as NA are then packed as they are
    #[arg(long, value_name = "NAME,NAME", value_delimiter = ',')]
    pub(crate) text: Vec<String>,
    /// Leave out records that can't be read, count them, and list the first ones. A record that can be read, but not be
    /// held by the shards, is an error in any case. Images are packed without decoding them: use `verify` to find bad
    /// ones
    #[arg(long)]
    pub(crate) skip_bad: bool,
    /// Remove the shards that were packed into OUT before, finished or not, and start over. Other files there whose names
    /// are those of shards are an error
    #[arg(long)]
    pub(crate) restart: bool,
    /// Settings file (.toml or .json) with one source, which gives the format and options of PATH, and nothing else.
    /// Its option `missing_tokens` lists the texts that mean a missing number in CSV (NA, None and so on)
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// Number of threads that read and encode [default: one per core]
    #[arg(long, value_name = "N", value_parser = whole::<usize>(1, 4096))]
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

This lists folders, reads headers, and reads each CSV file once to find its records. No batch is made; the fields by which \
samples are filtered, weighted, stratified or grouped are read. Figures that need decoding are shown as unknown (null with --json), \
with the reason: for example the number of records of a compressed CSV file, or the size of the ring where samples have different \
sizes.";

#[derive(Debug, clap::Args)]
#[command(after_help = PLAN_EXAMPLES, allow_negative_numbers = true, arg(no_config("plan")))]
pub(crate) struct PlanArgs {
    /// Settings file of a loader (.toml or .json), or a file or folder of data, with default settings
    #[arg(value_name = "CONFIG or PATH")]
    pub(crate) config: PathBuf,
    /// Plan for N shards, instead of the number in the settings
    #[arg(long, value_name = "N", value_parser = whole::<u32>(1, u32::MAX.into()))]
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

reads the part of the data that the settings select once, and writes prepared.json. Loaders with the same settings then use it to \
make their tensors.";

#[derive(Debug, clap::Args)]
#[command(after_help = FIT_EXAMPLES, arg(no_config("fit")))]
pub(crate) struct FitArgs {
    /// Settings file of a loader (.toml or .json)
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

A difference is marked if all epochs of one run are on the same side of all epochs of the other. This needs three or more epochs per \
run. A file of `bench --report FILE.json` has only the samples per second of each epoch.";

#[derive(Debug, clap::Args)]
#[command(after_help = COMPARE_EXAMPLES)]
pub(crate) struct CompareArgs {
    /// Output of `bench --json` or of `bench --report FILE.json`
    pub(crate) first: PathBuf,
    /// The output of another run
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

With --config, the settings of the file are used unless a flag changes them. If the file names one source, PATH replaces its path. \
If it names several, also as a mix, PATH is the folder of those that are not in the folder of the settings file. If it names none, \
PATH is read as without --config. PATH can be left out if the file names a source. Without a source and without fields in a settings \
file, missing values of CSV files become NaN (though not in what --write-settings writes) and images are resized to 224 x 224. A folder of IDX files means the largest one and \
its labels. Files with \
`access = \"map\"` are mapped: do not change or truncate them while this runs, because that could end the command by a signal.";

#[derive(Debug, clap::Args)]
#[command(after_help = BENCH_EXAMPLES, allow_negative_numbers = true)]
pub(crate) struct BenchArgs {
    /// File or folder; `-` reads standard input by way of a temporary file
    #[arg(required_unless_present = "config")]
    pub(crate) path: Option<PathBuf>,
    /// Settings file of a loader (TOML or JSON)
    #[arg(long, value_name = "FILE", conflicts_with_all = ["stored", "window"])]
    pub(crate) config: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) raw: RawArgs,
    /// Read a file of tokens, raw or NPY, in random windows of N tokens and their targets
    #[arg(long, value_name = "N", conflicts_with = "shape", value_parser = whole::<usize>(1, usize::MAX as u64))]
    pub(crate) window: Option<usize>,
    /// Number of samples per batch [default: 32]
    #[arg(long, value_name = "N", value_parser = whole::<usize>(1, usize::MAX as u64))]
    pub(crate) batch_size: Option<usize>,
    /// Number of threads that fill batches, or `auto` to tune it during the run [default: one per core]
    #[arg(long, value_name = "N", value_parser = |text: &str| amount(text, 1))]
    pub(crate) workers: Option<Amount>,
    /// Number of batches to load ahead of the trainer, or `auto` [default: 2, or two samples per worker; up to 8 small
    /// batches]
    #[arg(long, value_name = "N", value_parser = |text: &str| amount(text, 0))]
    pub(crate) prefetch: Option<Amount>,
    /// Write the settings to FILE (TOML or JSON), with the tuned numbers instead of `auto`
    #[arg(long, value_name = "FILE")]
    pub(crate) write_settings: Option<PathBuf>,
    /// Number of epochs to measure
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = whole::<u64>(1, u64::MAX))]
    pub(crate) epochs: u64,
    /// Number of epochs to run first without measuring them
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = whole::<u64>(0, u64::MAX))]
    pub(crate) warmup_epochs: u64,
    /// Make batches without prefetch, on the trainer's own thread
    #[arg(long, conflicts_with_all = ["workers", "prefetch"])]
    pub(crate) shield: bool,
    /// Leave bad records out and count them, instead of stopping at the first one
    #[arg(long)]
    pub(crate) skip_bad: bool,
    /// Shuffle with this seed
    #[arg(long, value_name = "SEED", value_parser = whole::<u64>(0, u64::MAX))]
    pub(crate) shuffle: Option<u64>,
    /// Resize images to N x N pixels [default: 224]
    #[arg(long, value_name = "N", value_parser = whole::<u32>(1, 16384))]
    pub(crate) size: Option<u32>,
    /// Element type of images, and of IDX, NPY and raw features that have no fields in the settings [default: as
    /// stored, but u8 for images, f32 for f16, i64 for u64]
    #[arg(long, value_name = "TYPE")]
    dtype: Option<DTypeArg>,
    /// Order of the dimensions of images [default: nchw]
    #[arg(long, value_name = "ORDER")]
    layout: Option<LayoutArg>,
    /// Simulate the trainer's step: hold each batch for X milliseconds
    #[arg(long, value_name = "X", default_value_t = 0.0, value_parser = milliseconds)]
    pub(crate) step_ms: f64,
    /// Afterwards repeat batches that are already loaded, to measure how fast the trainer would be with an infinitely
    /// fast loader
    #[arg(long, conflicts_with = "device")]
    pub(crate) headspace: bool,
    /// Upload batches to this device: `host`, or `cuda:0` and so on
    #[arg(long, value_name = "DEVICE")]
    pub(crate) device: Option<DeviceName>,
    /// Convert images of bytes on the device to this type, with values from 0 to 1
    #[arg(long, value_name = "TYPE", requires = "device")]
    convert: Option<ConvertArg>,
    /// Write a report of the run: a page without external files (.html), or data (.json)
    #[arg(long, value_name = "FILE")]
    pub(crate) report: Option<PathBuf>,
    /// Serve statistics of the run at http://ADDR/metrics for Prometheus: a port (this machine only), or host:port
    #[cfg(feature = "metrics")]
    #[arg(long, value_name = "ADDR", value_parser = metrics_address)]
    pub(crate) metrics: Option<MetricsAddress>,
    #[cfg_attr(
        feature = "live",
        doc = "Show a dashboard during the run: stages, ring, waits, verdict; one line per second if standard error is not a terminal"
    )]
    #[cfg_attr(
        not(feature = "live"),
        doc = "Show a line per second during the run: rate, ready batches, verdict; a dashboard instead if built with the feature `live`"
    )]
    #[arg(long)]
    pub(crate) live: bool,
    /// Write a trace of all threads for ui.perfetto.dev or Chrome: the last 131,072 events
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
    let is_allowed = |amount: &Amount| amount.number().is_none_or(|number| (least..=4096).contains(&number));
    let amount = text.parse().ok().filter(is_allowed);
    amount.ok_or_else(|| format!("give a whole number from {least} to 4096, or auto"))
}

/// Whole numbers from `least` to `most`; whatever else is written is told which those are.
fn whole<T: TryFrom<u64>>(least: u64, most: u64) -> impl Fn(&str) -> Result<T, String> + Clone + Send + Sync + 'static {
    move |text| {
        let number = text.parse().ok().filter(|number| (least..=most).contains(number));
        let is_too_large = || text.bytes().all(|digit| digit.is_ascii_digit()) && text.parse::<u64>().is_err();
        number.and_then(|number| T::try_from(number).ok()).ok_or_else(|| match most {
            u64::MAX if text.is_empty() || !is_too_large() => format!("give a whole number, {least} or more"),
            _ => format!("give a whole number from {least} to {most}"),
        })
    }
}

/// A day is longer than any step, and keeps the sum of many within what a clock can hold.
const MAX_STEP_MS: f64 = 86_400_000.0;

fn milliseconds(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(number) if (0.0..=MAX_STEP_MS).contains(&number) => Ok(number),
        _ => Err(format!("give a number of milliseconds from 0 to {MAX_STEP_MS}")),
    }
}
