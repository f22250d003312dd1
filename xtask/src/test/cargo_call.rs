//! Calls of cargo.

use std::ffi::OsStr;
use std::io;
use std::path::Path;
use std::process::{Command, Output};
use std::time::{Duration, Instant};

/// A call of cargo that has ended. Others ran beside it, so its output is printed afterwards.
#[derive(Debug)]
pub(super) struct EndedCall {
    words: String,
    output: io::Result<Output>,
    pub(super) took: Duration,
}

impl EndedCall {
    /// Runs cargo, and collects its output.
    pub(super) fn of(mut cargo: Command) -> Self {
        let begin = Instant::now();
        Self {
            words: words(&cargo),
            output: cargo.output(),
            took: begin.elapsed(),
        }
    }

    /// Prints its output. Returns whether it has succeeded.
    pub(super) fn print(&self) -> bool {
        println!("{}", self.words);
        match &self.output {
            Ok(output) => {
                for printed in [&output.stderr, &output.stdout] {
                    println!("{}", String::from_utf8_lossy(printed));
                }
                output.status.success()
            }
            Err(error) => failed_to_run(error),
        }
    }
}

/// Runs cargo, which prints its output. Returns whether it has succeeded.
pub(super) fn run(mut cargo: Command) -> bool {
    println!("{}", words(&cargo));
    cargo
        .status()
        .map_or_else(|error| failed_to_run(&error), |status| status.success())
}

fn words(command: &Command) -> String {
    let program = Path::new(command.get_program());
    let program = program.file_name().into_iter();
    let words = program.chain(command.get_args());
    let words: Vec<_> = words.map(OsStr::to_string_lossy).collect();
    words.join(" ")
}

fn failed_to_run(error: &io::Error) -> bool {
    println!("failed to run cargo: {error}");
    false
}
