//! Bytes at random, guided by what they reach: every format opens them and reads all records. There is no panic, no hang, no more
//! memory than was allowed, and every error has a place. `fuzz/run.sh` says how it is run.
#![no_main]
#![expect(clippy::unwrap_used, reason = "what can't be fuzzed is said by panicking")]

#[path = "../../tests/common/damaged.rs"]
mod damaged;
#[path = "../../tests/common/formats.rs"]
#[expect(dead_code, reason = "tests use the rest")]
mod samples;

use std::path::Path;
use std::sync::OnceLock;

use damaged::Bench;
use libfuzzer_sys::fuzz_target;
use samples::Sample;

mod common {
    pub(crate) fn fixture(name: &str) -> std::path::PathBuf {
        std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../fixtures").join(name)
    }
}

/// What is fuzzed: a sample, and what is done to bytes before they are its file.
struct Target {
    name: String,
    sample: Sample,
    pack: fn(&[u8]) -> Vec<u8>,
    unpacked: Vec<u8>,
}

impl Target {
    fn plain(sample: Sample) -> Self {
        let name = format!("{}-{}", sample.format, Path::new(sample.damaged).file_name().unwrap().display());
        Self { name, unpacked: sample.whole().to_vec(), sample, pack: <[u8]>::to_vec }
    }
}

/// One for each sample, and one for what stands behind a checksum that chance does not find.
fn targets() -> Vec<Target> {
    let samples = || samples::samples().into_iter().filter(|sample| sample.is_read);
    let mut targets: Vec<Target> = samples().map(Target::plain).collect();
    let sample = samples().find(|sample| sample.format == "tfrecord").unwrap();
    let (len, rest) = sample.whole().split_first_chunk().unwrap();
    let unpacked = rest[4..4 + u64::from_le_bytes(*len) as usize].to_vec();
    targets.push(Target { name: "tfrecord-example".into(), sample, pack: samples::framed, unpacked });
    targets
}

static RUNNING: OnceLock<(Target, Bench)> = OnceLock::new();

/// The target that is asked for. Without one, the names of all are printed; their first inputs go to the folder that is named.
fn choose() {
    let mut targets = targets();
    let Ok(wanted) = std::env::var("FUZZ_TARGET") else {
        for target in targets {
            println!("{}", target.name);
        }
        std::process::exit(0);
    };
    let at = targets.iter().position(|target| target.name == wanted).unwrap_or_else(|| panic!("no target {wanted:?}"));
    let target = targets.swap_remove(at);
    if let Some(folder) = std::env::var_os("FUZZ_SEEDS") {
        std::fs::write(Path::new(&folder).join("sample"), &target.unpacked).unwrap();
    }
    let bench = Bench::new(&target.sample);
    _ = RUNNING.set((target, bench));
    // The library catches the panics of other decoders and makes them errors. Its own are faults.
    let ends = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        if !panic.location().is_some_and(|place| place.file().contains("/registry/")) {
            ends(panic);
        }
    }));
}

fuzz_target!(init: choose(), |bytes: &[u8]| {
    let (target, bench) = RUNNING.get().unwrap();
    if let (_, Some(error)) = bench.read(&(target.pack)(bytes)) {
        damaged::check(&error, &|| target.name.clone(), bench.folder.path());
    }
});
