//! The guide "Find your bottleneck": its commands are run, and what it quotes is what they say. `benches/guide.sh`
//! shows what they print on a quiet machine.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "../../tests/common/watchdog.rs"]
mod watchdog;

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

use flate2::Compression;
use flate2::write::GzEncoder;
use serde_json::Value;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn guide() -> String {
    std::fs::read_to_string(root().join("src/guide/bottleneck.md")).unwrap()
}

/// A block of the guide that shows a command and its output.
struct Shown {
    /// Behind `ringfeed`.
    args: Vec<String>,
    /// Which files it has, by name, as it shows them.
    files: Vec<(String, String)>,
    /// Its last sentence.
    verdict: String,
}

impl Shown {
    fn all() -> Vec<Self> {
        let guide = guide();
        let blocks = guide.split("```text\n").skip(1).map(|block| block.split("```").next().unwrap());
        blocks.filter(|block| block.contains("$ ringfeed bench")).map(Self::read).collect()
    }

    fn read(block: &str) -> Self {
        let mut files = Vec::new();
        let mut args = Vec::new();
        for part in block.split("$ ").skip(1) {
            let (line, rest) = part.split_once('\n').unwrap();
            if let Some(name) = line.strip_prefix("cat ") {
                files.push((name.to_owned(), rest.to_owned()));
            } else if let Some(line) = line.strip_prefix("ringfeed ") {
                args = line.split_whitespace().map(str::to_owned).collect();
            }
        }
        let verdict = block.trim_end().rsplit("\n\n").next().unwrap().replace('\n', " ");
        Self { args, files, verdict }
    }

    /// What limits, in the guide's words: the part of the sentence that has no figures.
    fn limit(&self) -> &str {
        let parts =
            ["reading the records, which can only be read in order, is the limit", "had no core", "trainer-bound"];
        parts.into_iter().find(|part| self.verdict.contains(part)).unwrap_or_else(|| panic!("{}", self.verdict))
    }

    /// Runs it in a folder that holds its files.
    fn run(&self, folder: &Path) -> Value {
        let inputs = |arg: &String| if arg.starts_with("fixtures/") { root().join(arg).into() } else { arg.into() };
        let args = self.args.iter().map(inputs).collect::<Vec<std::ffi::OsString>>();
        watchdog::watch();
        let mut command = Command::new(env!("CARGO_BIN_EXE_ringfeed"));
        let output = command.args(args).arg("--json").current_dir(folder).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        serde_json::from_slice(&output.stdout).unwrap()
    }

    /// Whether what it says in the guide is what this run says.
    fn is_borne_out_by(&self, report: &Value) -> bool {
        let (limit, verdict) = (report["verdict"]["limit"].as_str().unwrap(), &report["verdict"]);
        // A machine that others use may be what limits, and is said to be.
        let crowded: &[&str] = match is_crowded(report) {
            true => &["machine_busy", "workers", "unclear", "shallow_ring", "slow_samples", "epoch_edges", "hand_off"],
            false => &[],
        };
        let expected: &[&str] = match self.limit() {
            "trainer-bound" => &["trainer"],
            // Those are not there, or not the same ones.
            "had no core" => &["machine_busy", "workers"],
            _ => &["planning"],
        };
        let said = verdict["evidence"].as_str().unwrap();
        let is_said = match limit {
            "planning" => said.starts_with(self.limit()),
            "workers" if self.limit() == "had no core" => verdict["stage"] == "decode",
            "trainer" => said.contains("of the batches were ready when it asked"),
            "machine_busy" => said.contains("had no core"),
            _ => true,
        };
        (expected.contains(&limit) || crowded.contains(&limit)) && is_said
    }
}

/// What the guide has made by a shell, with fewer lines: a number each, and a text that compresses badly.
fn lines(into: &Path) {
    let mut file = GzEncoder::new(std::fs::File::create(into).unwrap(), Compression::fast());
    writeln!(file, "value,text").unwrap();
    let mut bits = 88_172_645_463_325_252_u64;
    let letter = || {
        bits ^= bits << 13;
        bits ^= bits >> 7;
        bits ^= bits << 17;
        char::from(b'a' + (bits % 26) as u8)
    };
    let letters: String = std::iter::repeat_with(letter).take(200_000).collect();
    for line in 0..3000 {
        let from = line * 104_729 % (letters.len() - 1500);
        writeln!(file, "{line},{}", &letters[from..from + 1500]).unwrap();
    }
    file.finish().unwrap();
}

/// Whether threads could have run for a good part of the time and had no core, so that a verdict may be about that.
fn is_crowded(report: &Value) -> bool {
    let queued = |of: &Value| of["queued_seconds"].as_f64().unwrap_or(0.0);
    let seconds = report["seconds"].as_f64().unwrap();
    queued(&report["worker_threads"]) + queued(&report["stages"][0]) >= 0.05 * seconds
}

#[test]
fn what_the_guide_quotes_is_what_its_commands_say() {
    let folder = tempfile::tempdir().unwrap();
    lines(&folder.path().join("lines.csv.gz"));
    let shown = Shown::all();
    assert_eq!(shown.len(), 3);
    for shown in shown {
        for (name, text) in &shown.files {
            std::fs::write(folder.path().join(name), text).unwrap();
        }
        // Other programs may want the machine, for one run or another.
        let report = (0..5).map(|_| shown.run(folder.path())).find(|report| shown.is_borne_out_by(report));
        let report = report.unwrap_or_else(|| shown.run(folder.path()));
        assert!(shown.is_borne_out_by(&report), "{:?}: {}", shown.args, report["verdict"]);
    }
}

/// The bytes of base64.
fn decoded(text: &str) -> Vec<u8> {
    let value = |letter: u8| match letter {
        b'A'..=b'Z' => u32::from(letter - b'A'),
        b'a'..=b'z' => u32::from(letter - b'a') + 26,
        b'0'..=b'9' => u32::from(letter - b'0') + 52,
        b'+' => 62,
        b'/' => 63,
        other => panic!("{other}"),
    };
    let letters: Vec<u32> = text.trim_end_matches('=').bytes().map(value).collect();
    let bytes = letters.chunks(4).flat_map(|four| {
        let bits = four.iter().fold(0, |bits, six| bits << 6 | six) << (6 * (4 - four.len()));
        bits.to_be_bytes()[1..four.len()].to_vec()
    });
    bytes.collect()
}

#[test]
fn pictures_in_the_documentation_are_those_beside_the_guide() {
    let (guide, folder) = (guide(), root().join("src/guide"));
    let inside = std::fs::read_to_string(folder.join("pictures.md")).unwrap();
    let mut count = 0;
    for line in inside.lines() {
        let (name, data) = line.strip_prefix('[').unwrap().split_once("]: data:image/png;base64,").unwrap();
        let picture = std::fs::read(folder.join(format!("pictures/{name}.png"))).unwrap();
        assert!(decoded(data) == picture && picture.starts_with(b"\x89PNG") && picture.len() < 100_000, "{name}");
        assert!(
            guide.contains(&format!("][{name}]\n")) && guide.contains(&format!("\n[{name}]: pictures/{name}.png\n"))
        );
        count += 1;
    }
    assert_eq!(count, guide.matches("![").count());
}
