//! Builds and runs checks in the copy, each with a time limit.

use std::fmt;
use std::fs::{self, File};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group};
use serde_json::Value;

use super::check::MutantCheck;
use super::source_copy::SourceCopy;
use crate::workspace;
use tidegate_local_deployment::{CommandError, StopRequests};

/// Time limit of a build; the first one compiles all dependencies.
const BUILD_LIMIT: Duration = Duration::from_secs(30 * 60);
/// Time limit of a check whose usual time is not known.
const UNKNOWN_LIMIT: Duration = Duration::from_secs(180);
/// A check hangs if it takes longer than this plus `LIMIT_FACTOR` times its usual time.
const LIMIT_MIN: Duration = Duration::from_secs(30);
const LIMIT_FACTOR: u32 = 5;

/// How a check ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum CheckResult {
    Passed(Duration),
    /// It failed, with this message.
    Failed(Duration, String),
    /// It did not end within its time limit, which is far above its usual time.
    HitTimeLimit(Duration),
    /// No result: the sources do not compile, no test has that name, or it hung and its usual time is not known.
    Undecided(Duration, String),
}

impl CheckResult {
    pub(super) fn time(&self) -> Duration {
        match self {
            Self::Passed(time) | Self::HitTimeLimit(time) => *time,
            Self::Failed(time, _) | Self::Undecided(time, _) => *time,
        }
    }

    pub(super) fn is_caught(&self) -> bool {
        matches!(self, Self::Failed(..) | Self::HitTimeLimit(_))
    }

    pub(super) fn message(&self) -> Option<&str> {
        match self {
            Self::Failed(_, message) => Some(message),
            _ => None,
        }
    }
}

impl fmt::Display for CheckResult {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Passed(_) => out.write_str("passed"),
            Self::Failed(..) => out.write_str("failed"),
            Self::HitTimeLimit(_) => out.write_str("hit the time limit"),
            Self::Undecided(_, reason) => write!(out, "undecided ({reason})"),
        }
    }
}

#[derive(Debug)]
pub(super) struct Runner<'a> {
    copy: &'a SourceCopy,
    seed: u64,
    signals: &'a StopRequests,
    /// Time limits of the checks whose usual times are known.
    limits: Vec<(MutantCheck, Duration)>,
}

impl<'a> Runner<'a> {
    pub(super) fn new(copy: &'a SourceCopy, seed: u64, signals: &'a StopRequests) -> Self {
        Self {
            copy,
            seed,
            signals,
            limits: Vec::new(),
        }
    }

    /// Records the usual time of a check.
    pub(super) fn set_usual_time(&mut self, check: &MutantCheck, time: Duration) {
        self.limits
            .push((check.clone(), LIMIT_MIN + time * LIMIT_FACTOR));
    }

    /// Builds the programs of a check and runs it. The names of its log files begin with `label`.
    ///
    /// # Errors
    /// The build does not end in time, a system call fails, or the user requested a stop.
    pub(super) fn run(
        &self,
        check: &MutantCheck,
        label: &str,
    ) -> Result<CheckResult, CommandError> {
        let begin = Instant::now();
        let program = match self.build(check, label)? {
            Ok(program) => program,
            Err(reason) => return Ok(CheckResult::Undecided(begin.elapsed(), reason)),
        };
        let mut command = Command::new(&program);
        command
            .env("TIDEGATE_SEED", self.seed.to_string())
            .env("RUST_BACKTRACE", "0");
        match check {
            MutantCheck::Test {
                package, filter, ..
            } => {
                let folder = self.package_folder(package);
                command.arg(filter).current_dir(folder);
            }
            MutantCheck::Faults { flags } => {
                command.args(flags).current_dir(self.copy.root());
            }
        }
        let known = self.limits.iter().find(|(known, _)| known == check);
        let limit = known.map_or(UNKNOWN_LIMIT, |(_, limit)| *limit);
        let log = self.copy.logs().join(format!("{label}.log"));
        let begin = Instant::now();
        let status = self.wait(command, &log, limit)?;
        let time = begin.elapsed();
        let text = fs::read(&log).unwrap_or_default();
        let text = String::from_utf8_lossy(&text);
        Ok(match status {
            None if known.is_some() => CheckResult::HitTimeLimit(time),
            None => CheckResult::Undecided(time, format!("no end within {} s", limit.as_secs())),
            Some(_)
                if matches!(check, MutantCheck::Test { .. })
                    && text.contains("running 0 tests") =>
            {
                CheckResult::Undecided(time, "no test has this name".to_owned())
            }
            Some(status) if status.success() => CheckResult::Passed(time),
            Some(_) => CheckResult::Failed(time, failure_message(&text)),
        })
    }

    /// Builds a check and the programs that it starts. Returns the program to run, or why there is none.
    fn build(
        &self,
        check: &MutantCheck,
        label: &str,
    ) -> Result<Result<PathBuf, String>, CommandError> {
        let mut command = workspace::cargo(self.copy.root());
        command.env("CARGO_TARGET_DIR", self.copy.target());
        match check {
            MutantCheck::Test {
                package,
                target: None,
                ..
            } => command.args(["test", "--no-run", "--package", package, "--lib"]),
            // Build the whole workspace, so that all builds use the same features of dependencies.
            MutantCheck::Test {
                target: Some(target),
                ..
            } => command.args(["build", "--workspace", "--test", target]),
            MutantCheck::Faults { .. } => command.args(["build", "--workspace"]),
        };
        if let MutantCheck::Test {
            package,
            feature: Some(feature),
            ..
        } = check
        {
            command.args(["--features", &format!("{package}/{feature}")]);
        }
        command.args(["--locked", "--message-format", "json-render-diagnostics"]);
        for program in check.programs() {
            command.args(["--bin", program]);
        }
        let log = self.copy.logs().join(format!("{label}.build.log"));
        let status = self.wait(command, &log, BUILD_LIMIT)?;
        let output = fs::read_to_string(&log).unwrap_or_default();
        match status {
            None => Err(CommandError::Failed(format!(
                "the build did not end within 30 min; see {}",
                log.display()
            ))),
            Some(status) if !status.success() => {
                Ok(Err(format!("compilation failed; see {}", log.display())))
            }
            Some(_) => {
                Ok(program_of(check, &output).ok_or_else(|| "cargo built no such test".to_owned()))
            }
        }
    }

    fn package_folder(&self, package: &str) -> PathBuf {
        match package.strip_prefix("tidegate-") {
            Some("tests") | None => self.copy.root().join("tests"),
            Some(name) => {
                let tool = self.copy.root().join("tools").join(name);
                match tool.is_dir() {
                    true => tool,
                    false => self.copy.root().join("crates").join(name),
                }
            }
        }
    }

    /// Runs a command in a separate process group. Returns `None` if it was killed at its time limit.
    fn wait(
        &self,
        mut command: Command,
        log: &Path,
        limit: Duration,
    ) -> Result<Option<ExitStatus>, CommandError> {
        let failed =
            |error: std::io::Error| CommandError::Failed(format!("{}: {error}", log.display()));
        let output = File::create(log).map_err(failed)?;
        let errors = output.try_clone().map_err(failed)?;
        command
            .process_group(0)
            .stdin(Stdio::null())
            .stdout(output)
            .stderr(errors);
        let mut child = command.spawn().map_err(failed)?;
        let begin = Instant::now();
        loop {
            if let Some(status) = child.try_wait().map_err(failed)? {
                return Ok(Some(status));
            }
            if self.signals.is_requested() || begin.elapsed() >= limit {
                // Servers that a test has started end with it.
                let _ = kill_process_group(Pid::from_child(&child), Signal::KILL);
                let _ = child.wait();
                return self.signals.check_not_requested().map(|()| None);
            }
            self.signals.pause();
        }
    }
}

/// Finds the program of a check among the programs that cargo reports as built.
fn program_of(check: &MutantCheck, output: &str) -> Option<PathBuf> {
    let messages = output
        .lines()
        .filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let is_wanted = |message: &Value| {
        let is_test = message["profile"]["test"] == true;
        let name = &message["target"]["name"];
        match check {
            MutantCheck::Test {
                package, target, ..
            } => {
                let id = message["package_id"].as_str().unwrap_or_default();
                let is_target = target
                    .as_ref()
                    .is_none_or(|target| *name == target.as_str());
                is_test && is_target && id.contains(&format!("#{package}@"))
            }
            MutantCheck::Faults { .. } => !is_test && *name == "tidegate-faults",
        }
    };
    let executable = |message: Value| message["executable"].as_str().map(PathBuf::from);
    messages.filter(is_wanted).find_map(executable)
}

/// Returns the failure message of a check: from its first panic on, else its last lines. At most 8 lines of 200
/// characters.
fn failure_message(text: &str) -> String {
    const LINES: usize = 8;
    const LINE_CHARACTERS: usize = 200;
    let lines: Vec<&str> = text.lines().collect();
    let panicked = lines.iter().position(|line| line.contains("panicked at"));
    let from = panicked.unwrap_or(lines.len().saturating_sub(LINES));
    let cut = |line: &&str| line.chars().take(LINE_CHARACTERS).collect::<String>();
    let shown: Vec<String> = lines[from..].iter().take(LINES).map(cut).collect();
    shown.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_program_of_a_check_is_found_by_package_and_target() {
        let artifact = |package: &str, target: &str, is_test: bool, program: &str| {
            serde_json::json!({
                "reason": "compiler-artifact",
                "package_id": format!("path+file:///x#{package}@0.1.0"),
                "target": { "name": target },
                "profile": { "test": is_test },
                "executable": program,
            })
            .to_string()
        };
        let output = [
            "   Compiling something".to_owned(),
            artifact("tidegate-api", "fuzz", true, "/api-fuzz"),
            artifact("tidegate-tests", "fuzz", true, "/tests-fuzz"),
            artifact("tidegate-faults", "tidegate-faults", false, "/faults"),
        ]
        .join("\n");
        let test = MutantCheck::parse("cargo test -p tidegate-tests --test fuzz x").unwrap();
        assert_eq!(program_of(&test, &output), Some("/tests-fuzz".into()));
        let faults = MutantCheck::parse("cargo xtask faults --seed 1").unwrap();
        assert_eq!(program_of(&faults, &output), Some("/faults".into()));
        let other = MutantCheck::parse("cargo test -p tidegate-tests --test store x").unwrap();
        assert_eq!(program_of(&other, &output), None);
    }

    #[test]
    fn a_failure_message_begins_with_the_first_panic() {
        let text = "running 1 test\nthread 'a' panicked at src/lib.rs:1:\nleft: 1\nright: 2\n";
        assert!(failure_message(text).starts_with("thread 'a' panicked"));
        assert_eq!(failure_message("a\nb"), "a\nb");
    }
}
