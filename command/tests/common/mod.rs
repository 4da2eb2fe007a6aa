//! Runs the `ringfeed` command, for the tests of its subcommands.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "../../../tests/common/watchdog.rs"]
mod watchdog;

use std::process::{Command, Output, Stdio};

use serde_json::Value;

pub(crate) fn command(args: &[&str]) -> Command {
    watchdog::watch();
    let mut command = Command::new(env!("CARGO_BIN_EXE_ringfeed"));
    command.args(args).stdin(Stdio::null());
    command
}

pub(crate) fn run(args: &[&str]) -> Output {
    command(args).output().unwrap()
}

pub(crate) fn fixture(name: &str) -> String {
    format!("{}/../fixtures/{name}", env!("CARGO_MANIFEST_DIR"))
}

/// One JSON object on standard output, nothing on standard error.
pub(crate) fn object(args: &[&str], status: i32) -> Value {
    let output = run(args);
    assert_eq!(output.status.code(), Some(status), "{args:?}: {output:?}");
    assert!(output.stderr.is_empty(), "{args:?}: {output:?}");
    let value: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!(value.is_object(), "{args:?}: {value}");
    value
}
