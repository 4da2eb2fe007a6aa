//! `ringfeed bench --device cuda:N`, on the simulated driver, and where there is none.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "../../tests/common/simulated.rs"]
mod simulated;
#[path = "../../tests/common/watchdog.rs"]
mod watchdog;

use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;
use simulated::{built, root, rustc, simulated};

fn bench(folder: Option<&Path>) -> Output {
    watchdog::watch();
    let mut command = Command::new(env!("CARGO_BIN_EXE_ringfeed"));
    command.arg("bench").arg(root().join("fixtures/iris.csv")).args(["--json", "--epochs", "2", "--device", "cuda:1"]);
    command.env_remove("LD_LIBRARY_PATH").env("SIMULATED_CUDA", "devices=2 late_us=2000 end=strict");
    if let Some(folder) = folder {
        command.env("LD_LIBRARY_PATH", folder);
    }
    command.output().unwrap()
}

#[test]
fn the_command_uploads_to_a_device_by_its_number() {
    let Some(simulated) = simulated() else { return };
    let output = bench(Some(&simulated.folder));
    assert!(output.status.success(), "{output:?}");
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    let text = report.to_string();
    assert!(text.contains(r#""device":"cuda:1""#), "{text}");
}

#[test]
fn a_driver_that_is_missing_or_too_old_is_an_ordinary_error() {
    if simulated().is_none() {
        return;
    }
    let says = |folder: Option<&Path>| {
        let output = bench(folder);
        assert_eq!(output.status.code(), Some(1), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    let missing = says(None);
    // A library without a device is there in some containers.
    let is_named = ["none of libcuda.so, libcuda.so.1, nvcuda.dll could be loaded", "cuInit"];
    assert!(is_named.iter().any(|words| missing.contains(words)), "{missing}");
    let source = root().join("tests/cuda_driver/old.rs");
    let folder = built("libcuda.so.1", std::slice::from_ref(&source), |to| {
        let mut rustc = rustc();
        rustc.arg(&source).arg("-o").arg(to);
        rustc
    });
    let old = says(Some(&folder.unwrap()));
    assert!(old.contains("lacks cuCtxPopCurrent_v2: it is too old"), "{old}");
}
