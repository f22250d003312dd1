//! The programs of the daemons, and runs of them that are expected to end.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::process::Signal;
use tempfile::TempDir;

use crate::binary;
use crate::eventually::eventually;
use crate::process::{ChildProcess, ProcessOutput};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DaemonProgram {
    /// `tidegate-api`.
    Api,
    /// `tidegate-pumpd`.
    Pumpd,
    /// `tidegate-relayd`.
    Relayd,
}

impl DaemonProgram {
    /// The name of the program.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Api => "tidegate-api",
            Self::Pumpd => "tidegate-pumpd",
            Self::Relayd => "tidegate-relayd",
        }
    }

    /// The path of the program.
    ///
    /// # Panics
    /// If it was not built.
    #[must_use]
    pub fn path(self) -> PathBuf {
        binary::built(self.name())
    }
}

/// Result of a run that ended.
#[derive(Debug)]
pub struct ProgramExit {
    /// The exit code; `None` if a signal ended the process.
    pub code: Option<i32>,
    /// Its output.
    pub log: String,
}

/// Runs a daemon that is expected to end without a signal.
///
/// # Panics
/// If it has not ended within `limit`.
pub async fn run_until_exit(
    program: DaemonProgram,
    arguments: &[&str],
    limit: Duration,
) -> ProgramExit {
    run_until_exit_with(program, arguments, &[], limit).await
}

/// Like [`run_until_exit`], with these environment variables.
///
/// # Panics
/// If it has not ended within `limit`.
pub async fn run_until_exit_with(
    program: DaemonProgram,
    arguments: &[&str],
    environment: &[(&str, &str)],
    limit: Duration,
) -> ProgramExit {
    ProgramRun::start(program, arguments, environment)
        .end(limit)
        .await
}

/// Like [`run_until_exit`], with this configuration file and on free ports, so that no other daemon has them.
///
/// # Panics
/// If it has not ended within `limit`.
pub async fn run_with_settings(
    program: DaemonProgram,
    settings: &str,
    arguments: &[&str],
    limit: Duration,
) -> ProgramExit {
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    let file = folder.path().join("settings.toml");
    fs::write(&file, settings).expect("the settings can be written");
    let file = file.to_str().expect("the path is valid UTF-8");
    let mut all = vec!["--config", file, "--admin-listen", "127.0.0.1:0"];
    if program == DaemonProgram::Api {
        all.extend(["--listen", "127.0.0.1:0"]);
    }
    all.extend(arguments);
    run_until_exit(program, &all, limit).await
}

/// Starts a daemon that cannot become ready, waits until its output contains `said`, and stops it
/// (SIGTERM).
///
/// # Panics
/// If it does not print `said`, or has not ended, within `limit`.
pub async fn stop_when_logged(
    program: DaemonProgram,
    arguments: &[&str],
    said: &str,
    limit: Duration,
) -> ProgramExit {
    let run = ProgramRun::start(program, arguments, &[]);
    eventually(
        &format!("the output contains {said:?}"),
        limit,
        async || {
            let log = read(&run.log);
            if log.contains(said) { Ok(()) } else { Err(log) }
        },
    )
    .await;
    run.process.signal(Signal::TERM);
    run.end(limit).await
}

/// A run with a private folder for its log.
struct ProgramRun {
    name: String,
    process: ChildProcess,
    log: PathBuf,
    _folder: TempDir,
}

impl ProgramRun {
    fn start(program: DaemonProgram, arguments: &[&str], environment: &[(&str, &str)]) -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder can be made");
        let log = folder.path().join("log");
        let own = |argument: &&str| (*argument).to_owned();
        let arguments: Vec<String> = arguments.iter().map(own).collect();
        let environment = owned_pairs(environment);
        Self {
            name: format!("{} {arguments:?}", program.name()),
            process: ChildProcess::start(
                &program.path(),
                &arguments,
                &environment,
                ProcessOutput::File(&log),
            ),
            log,
            _folder: folder,
        }
    }

    async fn end(mut self, limit: Duration) -> ProgramExit {
        let status = self.process.wait(limit).await;
        let log = read(&self.log);
        let name = &self.name;
        let status =
            status.unwrap_or_else(|| panic!("{name} did not end within {limit:?}:\n{log}"));
        ProgramExit {
            code: status.code(),
            log,
        }
    }
}

pub(crate) fn owned_pairs(environment: &[(&str, &str)]) -> Vec<(String, String)> {
    let own = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
    environment.iter().map(own).collect()
}

pub(crate) fn read(log: &Path) -> String {
    let bytes = std::fs::read(log).unwrap_or_default();
    String::from_utf8_lossy(&bytes).into_owned()
}
