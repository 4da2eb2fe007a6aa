//! The workloads of the comparison with other loaders, as settings of a [`Loader`](ringfeed::Loader): plain data, so
//! that a variant is a change of one value.

use std::path::Path;

use ringfeed::{DType, DataSet, Error, ErrorKind, LoaderConfig, Result};
use serde::Deserialize;
use serde_json::{Map, Value, json};

/// Pixels a side, and those of thumbnails.
const SIDE: usize = 224;
const SMALL_SIDE: usize = 32;

/// Numbers of a record of fixed size.
const NUMBERS: usize = 3072;

/// Tokens of a window, the last one's target included.
const WINDOW: usize = 1025;

/// Batches of random windows that count as an epoch.
const TOKEN_BATCHES: u64 = 2000;

/// Samples of a second of sound.
const SECOND: usize = 16_000;

/// Seconds of sound that count as an epoch: five of each file.
const CROPS: u64 = 10_000;

/// Bytes that texts are padded to; none of those in the data is longer.
const TEXT: usize = 80;

/// Columns of numbers of a table.
const COLUMNS: usize = 32;

/// Row groups whose rows are shuffled among each other.
const BLOCKS: u64 = 4;

/// In a shape: as long as the longest in the batch.
const LONGEST: usize = 0;

/// What a workload reads, and what it must give.
pub(crate) struct Workload {
    config: Value,
    tensors: Tensors,
}

impl Workload {
    /// The workload of this name over the folder `data`; images from its tar shards if `tar`.
    pub(crate) fn new(data: &Path, name: &str, tar: bool) -> std::result::Result<Self, String> {
        let parts: Vec<&str> = name.split('-').collect();
        let (sources, tensors) = match parts.as_slice() {
            ["image", crop @ ("train" | "eval"), dtype @ ("u8" | "f32")] => images(data, crop, dtype, tar),
            ["csv"] => csv(data),
            ["csv", "mixed"] => mixed_csv(data)?,
            ["fixed", kind @ ("u8" | "f32")] => fixed(data, kind),
            ["tokens"] => tokens(data),
            ["wav"] => wav(data),
            ["parquet"] | ["parquet", "shuffled"] => parquet(data, "snappy"),
            ["parquet", "zstd"] => parquet(data, "zstd"),
            ["jsonl"] => json_lines(data),
            ["tfrecord"] => examples(data),
            ["tfrecord", "images"] => example_images(data),
            ["png"] | ["jpeg", "large" | "progressive"] => folder(data, name, SIDE),
            ["png", "small"] => folder(data, name, SMALL_SIDE),
            _ => return Err(format!("there is no workload {name:?}")),
        };
        let batch = match name {
            "png-small" => 256,
            "jpeg-large" => 16,
            _ if matches!(parts[0], "image" | "png" | "jpeg") || name == "tfrecord-images" => 64,
            _ => 256,
        };
        let mut config = json!({ "batch_size": batch, "across_epochs": false, "sources": sources });
        if !matches!(name, "csv" | "csv-mixed" | "parquet" | "parquet-zstd" | "jsonl" | "tfrecord") {
            config["shuffle"] = json!(20);
        }
        if name == "parquet-shuffled" {
            config["shuffle_blocks"] = json!(BLOCKS);
        }
        if parts[0] == "wav" {
            config["samples_per_epoch"] = json!(CROPS);
            config["transforms"] = json!([{ "kind": "remove", "tensor": "audio_mask" }]);
        }
        if parts[0] == "image" && parts[2] == "f32" {
            let (mean, deviation) = ([0.485, 0.456, 0.406], [0.229, 0.224, 0.225]);
            config["normalise"] = json!({ "image": { "kind": "channels", "mean": mean, "deviation": deviation } });
        }
        Ok(Self { config, tensors })
    }

    /// Changes a setting of the loader; one called `options.x` is an option of every source, or of the images that it
    /// gives.
    pub(crate) fn set(&mut self, key: &str, value: Value) {
        let Some(option) = key.strip_prefix("options.") else {
            self.config[key] = value;
            return;
        };
        for source in self.config["sources"].as_array_mut().into_iter().flatten() {
            let image = &source["fields"]["image"];
            let place = if image.is_object() { &mut source["fields"]["image"] } else { &mut source["options"] };
            place[option] = value.clone();
        }
    }

    /// The settings, as plain data.
    pub(crate) fn settings(&self) -> Value {
        let mut config = self.config.clone();
        if config["sources"][0]["format"] == "tokens" {
            config["samples_per_epoch"] = json!(TOKEN_BATCHES * config["batch_size"].as_u64().unwrap_or(0));
        }
        config
    }

    /// The settings.
    pub(crate) fn config(&self) -> Result<LoaderConfig> {
        LoaderConfig::deserialize(self.settings()).map_err(|error| {
            let message = format!("no settings of a loader: {error}");
            Error::new(ErrorKind::Config, message).with_source(error)
        })
    }

    /// Whether a batch is what the workload asks for: the comparison is of equal work.
    pub(crate) fn check(&self, batch: &DataSet) -> Result<()> {
        let found: Tensors = batch.tensors().map(|tensor| (tensor.dtype(), tensor.shape()[1..].to_vec())).collect();
        let fits = |(len, wanted): (&usize, &usize)| *wanted == LONGEST || len == wanted;
        let is_same = |(found, wanted): (&Tensor, &Tensor)| {
            found.0 == wanted.0 && found.1.len() == wanted.1.len() && found.1.iter().zip(&wanted.1).all(fits)
        };
        if found.len() == self.tensors.len() && found.iter().zip(&self.tensors).all(is_same) {
            return Ok(());
        }
        let message = format!("the workload wants {:?}, and the batch has {found:?}", self.tensors);
        Err(Error::new(ErrorKind::Schema, message))
    }
}

/// Element type and shape of a sample of each tensor, in order.
type Tensors = Vec<Tensor>;
type Tensor = (DType, Vec<usize>);

/// A random cut of this many pixels a side, half of them mirrored.
fn random_cut(side: usize) -> Value {
    json!({
        "image": [side, side],
        "dtype": "u8",
        "augment": [{ "kind": "random_resized_crop" }, { "kind": "horizontal_flip" }],
    })
}

/// Files in a folder for each class; thumbnails are not cut.
fn folder(data: &Path, name: &str, side: usize) -> (Value, Tensors) {
    let mut image = random_cut(side);
    if side == SMALL_SIDE {
        image["augment"] = json!([{ "kind": "horizontal_flip" }]);
    }
    let source = json!({ "format": "images", "path": data.join(name), "fields": { "image": image, "label": "class" } });
    (json!([source]), vec![(DType::U8, vec![3, side, side]), (DType::I64, vec![])])
}

/// Raw bytes in examples of TensorFlow.
fn examples(data: &Path) -> (Value, Tensors) {
    let fields = json!({
        "image": { "array": [NUMBERS], "stored": "u8" },
        "label": { "role": "label", "numbers": "i64" },
    });
    let path = data.join("tfrecord/*.tfrecord");
    (
        json!([{ "format": "tfrecord", "path": path, "fields": fields }]),
        vec![(DType::U8, vec![NUMBERS]), (DType::I64, vec![])],
    )
}

/// Pictures in examples of TensorFlow.
fn example_images(data: &Path) -> (Value, Tensors) {
    let mut image = random_cut(SIDE);
    image["from"] = json!("image/encoded");
    let label = json!({ "from": "image/class/label", "role": "label", "numbers": "i64" });
    let path = data.join("tfrecord-images/*.tfrecord");
    let source = json!({ "format": "tfrecord", "path": path, "fields": { "image": image, "label": label } });
    (json!([source]), vec![(DType::U8, vec![3, SIDE, SIDE]), (DType::I64, vec![])])
}

/// Columns of a Parquet file that was written with this compression.
fn parquet(data: &Path, compression: &str) -> (Value, Tensors) {
    let path = data.join("parquet").join(compression).with_extension("parquet");
    (
        json!([{ "format": "parquet", "path": path, "fields": table_fields() }]),
        vec![(DType::F32, vec![COLUMNS]), (DType::I64, vec![])],
    )
}

fn table_fields() -> Value {
    let features: Vec<String> = (0..COLUMNS).map(|column| format!("f{column}")).collect();
    json!({
        "features": { "from": features, "numbers": "f32" },
        "label": { "role": "label", "numbers": "i64" },
    })
}

/// Lists of tokens, padded to the longest of the batch.
fn json_lines(data: &Path) -> (Value, Tensors) {
    let fields = json!({
        "label": { "role": "label", "numbers": "i64" },
        "tokens": { "numbers": "i64" },
    });
    let path = data.join("jsonl/train.jsonl");
    (
        json!([{ "format": "jsonl", "path": path, "fields": fields }]),
        vec![(DType::I64, vec![]), (DType::I64, vec![LONGEST]), (DType::U8, vec![LONGEST])],
    )
}

fn images(data: &Path, crop: &str, dtype: &str, tar: bool) -> (Value, Tensors) {
    let mut image = Map::new();
    image.insert("image".into(), json!([SIDE, SIDE]));
    image.insert("dtype".into(), json!(dtype));
    match crop {
        "train" => {
            let operations = json!([{ "kind": "random_resized_crop" }, { "kind": "horizontal_flip" }]);
            image.insert("augment".into(), operations)
        }
        _ => image.insert("fit".into(), json!({ "center_crop": { "shorter": 256 } })),
    };
    let fields = json!({ "image": image, "label": "class" });
    let source = match tar {
        false => json!({ "format": "images", "path": data.join("imagenet"), "fields": fields }),
        true => json!({ "format": "tar", "path": data.join("tar"), "fields": fields }),
    };
    let dtype = if dtype == "u8" { DType::U8 } else { DType::F32 };
    (json!([source]), vec![(dtype, vec![3, SIDE, SIDE]), (DType::I64, vec![])])
}

/// Columns that are named, so that none has to be read to know what is in it.
fn csv(data: &Path) -> (Value, Tensors) {
    let options = json!({ "header": "yes", "delimiter": "," });
    (
        json!([{ "format": "csv", "path": data.join("csv/numeric.csv"), "options": options, "fields": table_fields() }]),
        vec![(DType::F32, vec![COLUMNS]), (DType::I64, vec![])],
    )
}

/// Numbers with gaps, three columns of categories, quoted text, and a label. The names of the categories stand beside
/// it.
fn mixed_csv(data: &Path) -> std::result::Result<(Value, Tensors), String> {
    let about = data.join("csv.json");
    let about: Value = std::fs::read_to_string(&about)
        .map_err(|error| error.to_string())
        .and_then(|text| serde_json::from_str(&text).map_err(|error| error.to_string()))
        .map_err(|error| format!("{}: {error}", about.display()))?;
    let numbers: Vec<String> =
        (0..8).map(|column| format!("x{column}")).chain((0..4).map(|column| format!("n{column}"))).collect();
    let fields = json!({
        "x": { "from": numbers, "numbers": "f32" },
        "categories": { "from": ["c0", "c1", "c2"], "category": about["cats"], "dtype": "i32" },
        "text": { "text": TEXT },
        "label": { "role": "label", "numbers": "i64" },
    });
    let options = json!({ "missing": "nan", "header": "yes", "delimiter": "," });
    Ok((
        json!([{ "format": "csv", "path": data.join("csv/mixed.csv"), "options": options, "fields": fields }]),
        vec![
            // By name, as a JSON object has them.
            (DType::I32, vec![3]),
            (DType::I64, vec![]),
            (DType::U8, vec![TEXT]),
            (DType::I64, vec![]),
            (DType::F32, vec![12]),
        ],
    ))
}

fn fixed(data: &Path, kind: &str) -> (Value, Tensors) {
    let records = json!({ "stored": kind, "shape": [NUMBERS] });
    let label = json!({ "labels": { "array": [], "role": "label" } });
    let dtype = if kind == "u8" { DType::U8 } else { DType::F32 };
    (
        json!([
            { "format": "raw", "path": data.join(format!("fixed/{kind}.bin")), "options": records },
            { "format": "raw", "path": data.join(format!("fixed/{kind}.labels.bin")), "options": { "stored": "i64" }, "fields": label },
        ]),
        vec![(dtype, vec![NUMBERS]), (DType::I64, vec![])],
    )
}

fn tokens(data: &Path) -> (Value, Tensors) {
    let options = json!({ "window": WINDOW - 1, "cut": "random", "targets": "inside", "stored": "u16" });
    (
        json!([{ "format": "tokens", "path": data.join("tokens/tokens.bin"), "options": options }]),
        vec![(DType::I64, vec![WINDOW])],
    )
}

/// One random second of each file.
fn wav(data: &Path) -> (Value, Tensors) {
    let fields = json!({ "audio": { "audio": SECOND, "length": SECOND, "crop": "random" }, "label": "class" });
    (
        json!([{ "format": "audio", "path": data.join("wav"), "fields": fields }]),
        vec![(DType::F32, vec![SECOND]), (DType::I64, vec![])],
    )
}
