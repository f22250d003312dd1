//! The programs of the daemons, and runs of them that end by themselves.

use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::binary;
use crate::process::Process;

/// Which daemon.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Program {
    /// `tidegate-api`.
    Api,
    /// `tidegate-pumpd`.
    Pumpd,
}

impl Program {
    /// The name of the program.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Api => "tidegate-api",
            Self::Pumpd => "tidegate-pumpd",
        }
    }

    /// The path of the program.
    ///
    /// # Panics
    /// When it was not built.
    #[must_use]
    pub fn path(self) -> PathBuf {
        binary::built(self.name())
    }
}

/// How a daemon that was not meant to stay ended.
#[derive(Debug)]
pub struct Ended {
    /// Its exit code; `None` when a signal ended it.
    pub code: Option<i32>,
    /// All that it wrote.
    pub log: String,
}

/// Runs a daemon that is expected to end by itself.
///
/// # Panics
/// When it has not ended within `limit`.
pub async fn run_to_end(program: Program, arguments: &[&str], limit: Duration) -> Ended {
    run_to_end_with(program, arguments, &[], limit).await
}

/// The same, with these variables in its environment.
///
/// # Panics
/// When it has not ended within `limit`.
pub async fn run_to_end_with(
    program: Program,
    arguments: &[&str],
    environment: &[(&str, &str)],
    limit: Duration,
) -> Ended {
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    let log = folder.path().join("log");
    let arguments: Vec<String> = arguments
        .iter()
        .map(|argument| (*argument).to_owned())
        .collect();
    let mut process = Process::start(&program.path(), &arguments, &owned(environment), &log);
    let status = process.wait(limit).await;
    let log = read(&log);
    let status = status.unwrap_or_else(|| {
        panic!(
            "{} {arguments:?} did not end within {limit:?}:\n{log}",
            program.name()
        )
    });
    Ended {
        code: status.code(),
        log,
    }
}

pub(crate) fn owned(environment: &[(&str, &str)]) -> Vec<(String, String)> {
    let own = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
    environment.iter().map(own).collect()
}

pub(crate) fn read(log: &Path) -> String {
    let bytes = std::fs::read(log).unwrap_or_default();
    String::from_utf8_lossy(&bytes).into_owned()
}
