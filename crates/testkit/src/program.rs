//! The programs of the daemons, and runs of them that end by themselves.

use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::process::Signal;
use tempfile::TempDir;

use crate::binary;
use crate::eventually::eventually;
use crate::process::{Output, Process};

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
    Run::start(program, arguments, environment).end(limit).await
}

/// Starts a daemon that is not to become ready, waits until it has said this, and asks it to end
/// (SIGTERM).
///
/// # Panics
/// When it does not say it, or has not ended, within `limit`.
pub async fn stop_when_said(
    program: Program,
    arguments: &[&str],
    said: &str,
    limit: Duration,
) -> Ended {
    let run = Run::start(program, arguments, &[]);
    eventually(&format!("it says {said:?}"), limit, async || {
        let log = read(&run.log);
        if log.contains(said) { Ok(()) } else { Err(log) }
    })
    .await;
    run.process.signal(Signal::TERM);
    run.end(limit).await
}

/// A run with a folder of its own for its log.
struct Run {
    name: String,
    process: Process,
    log: PathBuf,
    _folder: TempDir,
}

impl Run {
    fn start(program: Program, arguments: &[&str], environment: &[(&str, &str)]) -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder can be made");
        let log = folder.path().join("log");
        let own = |argument: &&str| (*argument).to_owned();
        let arguments: Vec<String> = arguments.iter().map(own).collect();
        let environment = owned(environment);
        Self {
            name: format!("{} {arguments:?}", program.name()),
            process: Process::start(
                &program.path(),
                &arguments,
                &environment,
                Output::File(&log),
            ),
            log,
            _folder: folder,
        }
    }

    async fn end(mut self, limit: Duration) -> Ended {
        let status = self.process.wait(limit).await;
        let log = read(&self.log);
        let name = &self.name;
        let status =
            status.unwrap_or_else(|| panic!("{name} did not end within {limit:?}:\n{log}"));
        Ended {
            code: status.code(),
            log,
        }
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
