//! A small data set of every format.
#![expect(unreachable_pub, clippy::unwrap_used, reason = "each test file uses its own part")]

use crate::common::fixture;

/// A small data set of a format.
pub struct Sample {
    pub format: &'static str,
    pub files: Vec<(&'static str, Vec<u8>)>,
    /// The file that is damaged.
    pub damaged: &'static str,
    pub path: String,
    pub options: String,
    pub fields: String,
    pub told: Told,
    /// Whether this build reads it.
    pub is_read: bool,
    /// What its records can be chosen by: a field, and the value that it has in the first one.
    pub by: Option<(&'static str, &'static str)>,
    /// A tensor whose length differs.
    pub length: Option<&'static str>,
}

/// What of a file tells that it was changed.
#[derive(Clone, Copy, PartialEq)]
pub enum Told {
    /// Every byte, by checksums: what is read is right.
    All,
    /// Where it ends: by a header, an index or a mark.
    Length,
    /// Neither: a shorter file is one of fewer records.
    Nothing,
}

impl Sample {
    pub fn new(format: &'static str, name: &'static str, bytes: impl Into<Vec<u8>>, told: Told) -> Self {
        Self {
            format,
            files: vec![(name, bytes.into())],
            damaged: name,
            path: name.to_owned(),
            options: String::new(),
            fields: String::new(),
            told,
            is_read: true,
            by: None,
            length: None,
        }
    }

    fn beside(mut self, name: &'static str, bytes: impl Into<Vec<u8>>) -> Self {
        self.files.push((name, bytes.into()));
        self
    }

    /// The source's path, where that is not the damaged file.
    fn at(mut self, path: &str) -> Self {
        self.path = path.to_owned();
        self
    }

    fn options(mut self, options: &str) -> Self {
        self.options = format!(", \"options\": {options}");
        self
    }

    pub fn fields(mut self, fields: &str) -> Self {
        self.fields = format!(", \"fields\": {fields}");
        self
    }

    pub fn by(mut self, field: &'static str, first: &'static str) -> Self {
        self.by = Some((field, first));
        self
    }

    pub fn length(mut self, tensor: &'static str) -> Self {
        self.length = Some(tensor);
        self
    }

    fn read_if(mut self, is_read: bool) -> Self {
        self.is_read = is_read;
        self
    }

    /// The settings of its source at another path, or at several.
    pub fn source(&self, path: &impl serde::Serialize) -> String {
        let Self { format, options, .. } = self;
        format!(r#"{{"format": "{format}", "path": {}{options}}}"#, serde_json::to_string(path).unwrap())
    }

    pub fn whole(&self) -> &[u8] {
        &self.files.iter().find(|(name, _)| *name == self.damaged).unwrap().1
    }
}

fn small(name: &str) -> Vec<u8> {
    std::fs::read(fixture("small").join(name)).unwrap()
}

fn read(name: &str) -> Vec<u8> {
    std::fs::read(fixture(name)).unwrap()
}

/// A record as TFRecord frames it.
pub fn framed(record: &[u8]) -> Vec<u8> {
    let masked = |bytes: &[u8]| crc32c::crc32c(bytes).rotate_right(15).wrapping_add(0xa282_ead8).to_le_bytes();
    let len = (record.len() as u64).to_le_bytes();
    [&len[..], &masked(&len), record, &masked(record)].concat()
}

pub fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    std::io::Write::write_all(&mut encoder, bytes).unwrap();
    encoder.finish().unwrap()
}

/// A sample of every format; of some several.
pub fn samples() -> Vec<Sample> {
    // Two examples {"x": [n]}.
    let example = |n: f32| [&b"\x0a\x0f\x0a\x0d\x0a\x01x\x12\x08\x12\x06\x0a\x04"[..], &n.to_le_bytes()].concat();
    let examples = [framed(&example(1.5)), framed(&example(-2.0))].concat();
    let tensors = {
        let header = br#"{"x":{"dtype":"U8","shape":[3],"data_offsets":[0,3]}}  "#;
        [&(header.len() as u64).to_le_bytes()[..], header, &[5, 6, 7]].concat()
    };
    let x = r#"{"x": "i64"}"#;
    let n = r#"{"n": "i64"}"#;
    let mds = || {
        Sample::new("mds", "shard.00000.mds", read("mds/pickled/shard.00000.mds"), Told::Length)
            .beside("index.json", read("mds/pickled/index.json"))
            .at("")
            .fields(n)
            .by("n", "0")
    };
    let litdata = || {
        Sample::new("litdata", "chunk-0-0.bin", read("litdata/pair/chunk-0-0.bin"), Told::Length)
            .beside("chunk-0-1.bin", read("litdata/pair/chunk-0-1.bin"))
            .beside("index.json", read("litdata/pair/index.json"))
            .at("")
            .by("0", "0")
    };
    let tokenizer = serde_json::to_string(&fixture("tokenizers/wordpiece.json")).unwrap();
    let mut samples = vec![
        Sample::new("images", "photo.png", read("images/rgb.png"), Told::All)
            .read_if(cfg!(feature = "images"))
            .by("label", "'0'"),
        Sample::new("audio", "sound.wav", small("sound.wav"), Told::Length)
            .by("label", "'0'")
            .length("audio"),
        Sample::new("tar", "samples.tar", small("samples.tar"), Told::Length)
            .fields(r#"{"n": {"from": "cls", "numbers": "i64"}}"#)
            .by("n", "12"),
        Sample::new("csv_sequences", "waves/b.csv", "x,y\n1,2\n3,4\n", Told::Nothing)
            .beside("waves/a.csv", "x,y\n5,6\n")
            .at("waves")
            .options(r#"{"label": "last"}"#)
            .fields(r#"{"x": "f32", "y": {"numbers": "f32", "role": "label"}}"#)
            .by("y", "6")
            .length("x"),
        Sample::new("idx", "labels", [&[0, 0, 8, 1, 0, 0, 0, 3][..], &[1, 2, 3]].concat(), Told::Length).by("features", "1"),
        Sample::new("npy", "array.npy", small("array.npy"), Told::Length).by("features", "0"),
        Sample::new("npz", "stored.npz", small("stored.npz"), Told::Length).by("x", "0"),
        Sample::new("npz", "packed.npz", small("packed.npz"), Told::Length).by("x", "0"),
        Sample::new("safetensors", "arrays.safetensors", tensors, Told::Length).by("x", "5"),
        Sample::new("tfrecord", "train-00000-of-00001", examples.clone(), Told::Nothing).fields(r#"{"x": "f32"}"#).by("x", "1.5"),
        Sample::new("tfrecord", "train.tfrecord.gz", gzip(&examples), Told::Length).fields(r#"{"x": "f32"}"#).by("x", "1.5"),
        mds(),
        Sample { damaged: "index.json", ..mds() },
        litdata(),
        Sample { damaged: "index.json", ..litdata() },
        Sample::new("jsonl", "lines.jsonl", "{\"x\": 1, \"y\": [1.5, \"a\"]}\n{\"x\": 22}\n", Told::Nothing)
            .fields(x)
            .by("x", "1"),
        Sample::new("libsvm", "rows.svm", "1 qid:3 1:0.5 7:2\n-1 qid:3 2:1e3 # no\n", Told::Nothing)
            .fields(r#"{"label": "f64", "indices": {"numbers": "i64", "ragged": true}, "values": {"numbers": "f64", "ragged": true}}"#)
            .by("label", "1"),
        Sample::new("csv", "table.csv", "x,y\n1,2.5\n\"30\",4\n", Told::Nothing).fields(x).by("x", "1"),
        Sample::new("csv", "table.csv.gz", gzip(b"x,y\n1,2.5\n30,4\n"), Told::Length).fields(x).by("x", "1"),
        Sample::new("raw", "numbers.raw", (1..=12).collect::<Vec<u8>>(), Told::Nothing)
            .options(r#"{"stored": "u16", "shape": [1]}"#)
            .by("features", "513"),
        Sample::new("tokens", "tokens.bin", (1..=24).collect::<Vec<u8>>(), Told::Nothing)
            .options(r#"{"stored": "u16", "window": 3, "cut": {"contiguous": {}}, "targets": "none"}"#),
        Sample::new("text", "lines.txt", "one\nzwei ä\n", Told::Nothing).fields(r#"{"line": {"text": 20}}"#).by("line", "'one'"),
        Sample::new("text_files", "page.txt", "one\nzwei ä", Told::Nothing).fields(r#"{"text": {"text": 20}}"#)
            .by("text", "'one\nzwei ä'"),
        Sample::new("text_tokens", "page.txt", "the quick fox", Told::Nothing)
            .options(&format!(r#"{{"tokenizer": {tokenizer}, "format": "text", "window": 2, "end": "[SEP]"}}"#))
            .read_if(cfg!(feature = "tokenizers")),
    ];
    if cfg!(feature = "parquet") {
        samples.push(Sample::new("parquet", "table.parquet", small("table.parquet"), Told::Length).by("x", "1"));
        samples.push(Sample::new("arrow", "table.arrow", small("table.arrow"), Told::Length).by("x", "1"));
        samples.push(Sample::new("arrow", "stream.arrow", small("stream.arrow"), Told::Length).by("x", "1"));
    }
    samples
}
