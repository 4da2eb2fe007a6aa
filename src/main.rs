//! The `ringfeed` command: look into data sets, and measure how fast they can be read.

mod cli;

use std::process::ExitCode;

fn main() -> ExitCode {
    cli::run()
}
