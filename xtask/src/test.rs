//! `cargo xtask test`: every check, in one command.

use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use clap::Args;
use tidegate_local_redis::{obtain, workspace_cache};

use crate::tidy;
use crate::workspace::Workspace;

/// How a step ended.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Outcome {
    Passed,
    Failed,
    /// Not run, and why.
    Skipped(&'static str),
}

impl Outcome {
    /// That of both together.
    fn and(self, other: Self) -> Self {
        match self {
            Self::Passed => other,
            _ => self,
        }
    }
}

#[derive(Debug, Default)]
struct Report {
    steps: Vec<(&'static str, Outcome, Duration)>,
}

impl Report {
    fn step(&mut self, name: &'static str, work: impl FnOnce() -> Outcome) -> bool {
        println!("\n=== {name}");
        let begin = Instant::now();
        let outcome = work();
        if let Outcome::Skipped(reason) = outcome {
            println!("not run: {reason}");
        }
        let passed = outcome == Outcome::Passed;
        self.steps.push((name, outcome, begin.elapsed()));
        passed
    }

    fn has_failed(&self) -> bool {
        self.steps
            .iter()
            .any(|(_, outcome, _)| *outcome == Outcome::Failed)
    }

    fn print(&self) {
        println!("\n=== summary");
        for (name, outcome, time) in &self.steps {
            let seconds = time.as_secs_f64();
            match outcome {
                Outcome::Passed => println!("passed  {seconds:7.1} s  {name}"),
                Outcome::Failed => println!("FAILED  {seconds:7.1} s  {name}"),
                Outcome::Skipped(reason) => println!("not run            {name} ({reason})"),
            }
        }
    }
}

/// The crate of the tests of whole deployments.
const DEPLOYMENT_TESTS: &str = "tidegate-tests";
/// What a quick check leaves out: tests that end processes, wait for failovers or make fault runs.
const QUICK: [&[&str]; 2] = [
    &["--workspace", "--lib", "--bins"],
    &[
        "--package",
        DEPLOYMENT_TESTS,
        "--test=store",
        "--test=conformance",
        "--test=bad_input",
    ],
];

/// How much is checked.
#[derive(Debug, Args)]
pub(crate) struct Options {
    /// Leave out tests that take long: failovers, killed processes, fault runs, timing. For daily work; some 3 minutes once
    /// everything is built
    #[arg(long)]
    quick: bool,
}

pub(crate) fn run(workspace: &Workspace, options: &Options) -> ExitCode {
    let mut report = Report::default();
    let run = |arguments: &[&str]| cargo(workspace, arguments);
    report.step("format", || match has(workspace, "fmt") {
        true => run(&["fmt", "--all", "--check"]),
        false => Outcome::Skipped("this toolchain has no rustfmt"),
    });
    report.step("lints", || match has(workspace, "clippy") {
        true => run(&[
            "clippy",
            "--workspace",
            "--all-targets",
            "--locked",
            "--",
            "-D",
            "warnings",
        ]),
        false => Outcome::Skipped("this toolchain has no clippy"),
    });
    report.step("tidy", || {
        if tidy::check_and_print(workspace) {
            Outcome::Passed
        } else {
            Outcome::Failed
        }
    });
    report.step("dependencies", || match has(workspace, "deny") {
        true => run(&["deny", "check"]),
        false => {
            Outcome::Skipped("cargo-deny is not installed; tidy has checked licences and sources")
        }
    });
    let is_built = report.step("build", || run(&["build", "--workspace", "--locked"]));
    let has_redis = report.step("redis", obtain_redis);
    report.step("tests", || match (is_built, has_redis) {
        (true, true) if options.quick => test_quickly(workspace),
        (true, true) => run(&tests(&["--workspace"])),
        (false, _) => Outcome::Skipped("the build failed"),
        (_, false) => Outcome::Skipped("there is no Redis"),
    });
    report.print();
    if report.has_failed() {
        ExitCode::FAILURE
    } else {
        ExitCode::SUCCESS
    }
}

fn test_quickly(workspace: &Workspace) -> Outcome {
    QUICK
        .iter()
        .map(|which| cargo(workspace, &tests(which)))
        .fold(Outcome::Passed, Outcome::and)
}

/// The arguments that run these tests.
fn tests<'a>(which: &[&'a str]) -> Vec<&'a str> {
    [&["test", "--locked", "--no-fail-fast"], which].concat()
}

fn cargo(workspace: &Workspace, arguments: &[&str]) -> Outcome {
    println!("cargo {}", arguments.join(" "));
    match workspace.cargo().args(arguments).status() {
        Ok(status) if status.success() => Outcome::Passed,
        Ok(_) => Outcome::Failed,
        Err(error) => {
            println!("cargo cannot run: {error}");
            Outcome::Failed
        }
    }
}

/// Whether cargo has this subcommand.
fn has(workspace: &Workspace, subcommand: &str) -> bool {
    let mut command: Command = workspace.cargo();
    command
        .args([subcommand, "--version"])
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

/// Once, before the tests: they would all wait for it.
fn obtain_redis() -> Outcome {
    match obtain(&workspace_cache(), &mut |line| println!("{line}")) {
        Ok(binary) => {
            println!("{binary}");
            Outcome::Passed
        }
        Err(error) => {
            println!("{error}");
            Outcome::Failed
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_must_pass() {
        let all = [Outcome::Passed, Outcome::Failed];
        for (one, other) in all
            .iter()
            .flat_map(|one| all.iter().map(move |other| (one, other)))
        {
            let both = one.clone().and(other.clone());
            assert_eq!(
                both == Outcome::Passed,
                one == other && *one == Outcome::Passed
            );
        }
    }

    #[test]
    fn a_skipped_step_is_no_failure_and_no_pass() {
        let mut report = Report::default();
        assert!(report.step("one", || Outcome::Passed));
        assert!(!report.step("two", || Outcome::Skipped("no reason")));
        assert!(!report.has_failed());
        assert!(!report.step("three", || Outcome::Failed));
        assert!(report.has_failed());
    }
}
