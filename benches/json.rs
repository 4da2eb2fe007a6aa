//! What reading JSON Lines into batches costs beside parsers of JSON in bare loops.

mod common;

use std::fmt::Write as _;
use std::hint::black_box;

use common::{Case, Options, Table};
use cpu_time::ThreadTime;
use ringfeed::field::Numbers;
use ringfeed::{Loader, Result};
use serde::Deserialize;
use serde::de::DeserializeOwned;

const ABOUT: &str = "\
Processor time of one thread per line of JSON, and the bytes of text that it takes in a second. `tokens`: an id, a list of 20 to 96 integers \
and a label, of which list and label are wanted (i64). `table`: 20 members, of which 8 numbers (f32) and a label are wanted, with text and a \
nested object between them. Ringfeed makes batches of 256 records from a file in the page cache, behind a shield: it reads the bytes, checks \
all of each line, and writes the tensors. Where the lines begin is found when the file is opened, which is not part of it. The parsers get each line from memory, and \
write what they find into one buffer: by `serde`, through a struct that leaves the rest out, and a list of its own for each line of \
`tokens`. `serde_json` has its feature `float_roundtrip`, for exact numbers. `simd-json` and `sonic-rs` take part only if built \
with RUSTFLAGS=\"--cfg ringfeed_parsers -C target-cpu=native\". It shows neither shuffling nor threads.";

const LINES: usize = 20_000;
const NUMBERS: [&str; 8] = ["n0", "n1", "n2", "n3", "n4", "n5", "n6", "n7"];

fn main() -> Result<()> {
    let Some(options) = Options::from_args(9) else { return Ok(()) };
    let mut table = Table::new(ABOUT, &["lines", "how"], &[("ns a line", 0), ("MB/s", 0)]);
    let folder = tempfile::tempdir()?;
    for (name, text) in [("tokens", tokens()), ("table", rows())] {
        let path = folder.path().join(name).with_extension("jsonl");
        std::fs::write(&path, &text)?;
        let label = Numbers::i64().from("label");
        let loader = Loader::open(&path)?.field("label", label);
        let (loader, parsers) = match name {
            "tokens" => (loader.field("tokens", Numbers::i64()), parsers::<Tokens>(name, &text)),
            _ => (loader.field("x", Numbers::f32().from(NUMBERS)), parsers::<Row>(name, &text)),
        };
        let mut cases = vec![epochs(name, text.len(), loader)?];
        cases.extend(parsers);
        table.measure(options.rounds, cases);
    }
    table.print(&options);
    Ok(())
}

/// The wanted members of a line.
trait Record: DeserializeOwned + 'static {
    type Buffer: Default + 'static;

    fn write(self, buffer: &mut Self::Buffer);
}

#[derive(Deserialize)]
struct Tokens {
    tokens: Vec<i64>,
    label: i64,
}

impl Record for Tokens {
    type Buffer = (Vec<i64>, i64);

    fn write(self, (tokens, label): &mut Self::Buffer) {
        tokens.clear();
        tokens.extend_from_slice(&self.tokens);
        *label = self.label;
    }
}

#[derive(Deserialize)]
struct Row {
    n0: f32,
    n1: f32,
    n2: f32,
    n3: f32,
    n4: f32,
    n5: f32,
    n6: f32,
    n7: f32,
    label: i64,
}

impl Record for Row {
    type Buffer = ([f32; NUMBERS.len()], i64);

    fn write(self, (numbers, label): &mut Self::Buffer) {
        *numbers = [self.n0, self.n1, self.n2, self.n3, self.n4, self.n5, self.n6, self.n7];
        *label = self.label;
    }
}

/// Integers as a tokenizer gives them, 20 to 96 of them.
fn tokens() -> String {
    let mut text = String::new();
    for line in 0..LINES {
        let tokens = (0..20 + line * 5 % 77).map(|nth| (line * 31 + nth * nth * 97) % 50_257);
        let tokens: Vec<String> = tokens.map(|token| token.to_string()).collect();
        let _ = writeln!(text, r#"{{"id": "doc-{line}", "tokens": [{}], "label": {}}}"#, tokens.join(", "), line % 10);
    }
    text
}

/// Numbers between members that nobody wants.
fn rows() -> String {
    let mut text = String::new();
    for line in 0..LINES {
        let _ = write!(text, r#"{{"id": {line}, "#);
        for (nth, name) in NUMBERS.iter().enumerate() {
            let number = (line * (nth + 3) % 99_991) as f64 / 1000.0 - 40.0;
            let _ = write!(text, r#""{name}": {number:.3}, "note{nth}": "value \"{line}\" of {name}", "#);
        }
        let _ = writeln!(
            text,
            r#""place": {{"x": {line}, "tags": ["a", "b\u00e9", null]}}, "is_new": true, "label": {}}}"#,
            line % 7
        );
    }
    text
}

fn epochs(lines: &'static str, bytes: usize, loader: Loader) -> Result<Case<'static>> {
    let mut batches = loader.batch_size(256).shield().build()?;
    Ok(Case::new(&[&lines, &"Ringfeed, batches"], move || {
        figures(bytes, || {
            let rows: usize =
                batches.epoch().expect("a file can be read again").map(|batch| batch.expect("good lines").len()).sum();
            assert_eq!(rows, LINES);
        })
    }))
}

/// Bare loops over the lines.
fn parsers<R: Record>(name: &'static str, text: &str) -> Vec<Case<'static>> {
    let case = |how: &'static str, mut parse: Box<dyn FnMut(&str) -> R>| {
        let (bytes, mut buffer) = (text.len(), R::Buffer::default());
        let lines: Vec<String> = text.lines().map(str::to_owned).collect();
        Case::new(&[&name, &how], move || {
            figures(bytes, || {
                for line in &lines {
                    parse(line).write(&mut buffer);
                    black_box(&mut buffer);
                }
            })
        })
    };
    #[cfg_attr(not(ringfeed_parsers), expect(unused_mut, reason = "other parsers are added"))]
    let mut cases = vec![case("serde_json, typed", Box::new(|line| serde_json::from_str(line).expect("good lines")))];
    #[cfg(ringfeed_parsers)]
    {
        cases.push(case("sonic-rs, typed", Box::new(|line| sonic_rs::from_str(line).expect("good lines"))));
        // It writes into the text that it parses.
        let (mut copy, mut buffers) = (Vec::new(), simd_json::Buffers::default());
        let parse = move |line: &str| {
            copy.clear();
            copy.extend_from_slice(line.as_bytes());
            simd_json::serde::from_slice_with_buffers(&mut copy, &mut buffers).expect("good lines")
        };
        cases.push(case("simd-json, typed", Box::new(parse)));
    }
    cases
}

fn figures(bytes: usize, work: impl FnOnce()) -> Vec<f64> {
    let start = ThreadTime::now();
    work();
    let seconds = start.elapsed().as_secs_f64();
    vec![seconds * 1e9 / LINES as f64, bytes as f64 / seconds / 1e6]
}
