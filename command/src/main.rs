//! The `ringfeed` command.

use std::process::ExitCode;

fn main() -> ExitCode {
    ringfeed_cli::run(std::env::args_os()).into()
}
