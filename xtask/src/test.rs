//! `cargo xtask test`: runs every check.

use std::num::NonZero;
use std::process::{Command, ExitCode, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use clap::Args;
use tidegate_local_redis::{obtain, workspace_cache};

use crate::test_files::TestFiles;
use crate::tidy;
use crate::workspace::Workspace;

/// How a step ended.
#[derive(Debug, Clone, PartialEq, Eq)]
enum StepOutcome {
    Passed,
    Failed,
    /// Not run, for this reason.
    Skipped(&'static str),
}

impl StepOutcome {
    /// The first outcome that is not `Passed`.
    fn and(self, other: Self) -> Self {
        match self {
            Self::Passed => other,
            _ => self,
        }
    }
}

#[derive(Debug, Default)]
struct StepReport {
    steps: Vec<(&'static str, StepOutcome, Duration)>,
}

impl StepReport {
    fn step(&mut self, name: &'static str, work: impl FnOnce() -> StepOutcome) -> bool {
        println!("\n=== {name}");
        let begin = Instant::now();
        let outcome = work();
        if let StepOutcome::Skipped(reason) = outcome {
            println!("skipped: {reason}");
        }
        let passed = outcome == StepOutcome::Passed;
        self.steps.push((name, outcome, begin.elapsed()));
        passed
    }

    fn has_failed(&self) -> bool {
        self.steps
            .iter()
            .any(|(_, outcome, _)| *outcome == StepOutcome::Failed)
    }

    fn print(&self) {
        println!("\n=== summary");
        for (name, outcome, time) in &self.steps {
            let seconds = time.as_secs_f64();
            match outcome {
                StepOutcome::Passed => println!("passed  {seconds:7.1} s  {name}"),
                StepOutcome::Failed => println!("FAILED  {seconds:7.1} s  {name}"),
                StepOutcome::Skipped(reason) => println!("skipped            {name} ({reason})"),
            }
        }
    }
}

/// The variable of Rust's test harness for the number of tests that run at a time.
const TEST_THREADS: &str = "RUST_TEST_THREADS";
/// The suite of the fault runs.
const FAULT_RUNS: &str = "seeds";
/// The suite that needs Python and PyPI.
pub(crate) const GENERATED_REQUESTS: &str = "schemathesis";
/// A suite that waits most of the time and judges no times, and one that only calculates: they run beside each other.
const SOAK: &str = "soak";
const MODEL: &str = "model";
/// Tests of a quick check. It leaves out tests that kill processes, wait for failovers or run the fault harness.
const QUICK: [&[&str]; 2] = [
    &["--lib", "--bins"],
    &["--test=store", "--test=conformance", "--test=bad_input"],
];

/// The flags of `test`.
#[derive(Debug, Args)]
pub(crate) struct TestOptions {
    /// Skip slow tests: failovers, killed processes, fault runs, timing, generated requests. Takes about 3 minutes once
    /// everything is built
    #[arg(long)]
    quick: bool,
}

pub(crate) fn run(workspace: &Workspace, options: &TestOptions) -> ExitCode {
    let mut report = StepReport::default();
    let run = |arguments: &[&str]| cargo(workspace, arguments);
    report.step("format", || match has_subcommand(workspace, "fmt") {
        true => run(&["fmt", "--all", "--check"]),
        false => {
            StepOutcome::Skipped("this toolchain has no rustfmt; run: rustup component add rustfmt")
        }
    });
    report.step("lints", || match has_subcommand(workspace, "clippy") {
        true => lint(workspace),
        false => {
            StepOutcome::Skipped("this toolchain has no clippy; run: rustup component add clippy")
        }
    });
    report.step("tidy", || {
        if tidy::check_and_print(workspace) {
            StepOutcome::Passed
        } else {
            StepOutcome::Failed
        }
    });
    report.step("dependencies", || match has_subcommand(workspace, "deny") {
        true => run(&["deny", "check"]),
        false => {
            StepOutcome::Skipped("cargo-deny is not installed; tidy checks licences and sources")
        }
    });
    if !options.quick {
        report.step("documentation", || document(workspace));
    }
    let is_built = report.step("build", || build(workspace, options.quick));
    let has_redis = report.step("redis", obtain_redis);
    let files = TestFiles::new();
    let suites = Suites {
        workspace,
        files: &files,
    };
    report.step("tests", || match (is_built, has_redis) {
        (true, true) if options.quick => suites.test_quickly(),
        (true, true) => suites.test_all(),
        (false, _) => StepOutcome::Skipped("the build failed"),
        (_, false) => StepOutcome::Skipped("no Redis is available"),
    });
    if !options.quick {
        report.step("generated requests", || match is_built && has_redis {
            true => suites.test(&[&test_flag(GENERATED_REQUESTS)]),
            false => StepOutcome::Skipped("the build failed, or no Redis is available"),
        });
    }
    report.print();
    if report.has_failed() {
        return ExitCode::FAILURE;
    }
    files.remove();
    ExitCode::SUCCESS
}

fn lint(workspace: &Workspace) -> StepOutcome {
    let arguments = [
        "clippy",
        "--workspace",
        "--all-targets",
        "--locked",
        "--",
        "-D",
        "warnings",
    ];
    cargo(workspace, &arguments)
}

/// With all tests the daemons have the features of dependencies that tests switch on. Built without, they and most
/// dependencies would be compiled twice.
fn build(workspace: &Workspace, quick: bool) -> StepOutcome {
    let targets = match quick {
        true => "--bins",
        false => "--all-targets",
    };
    cargo(workspace, &["build", "--workspace", targets, "--locked"])
}

#[derive(Clone, Copy)]
struct Suites<'a> {
    workspace: &'a Workspace,
    files: &'a TestFiles,
}

impl Suites<'_> {
    fn test_quickly(self) -> StepOutcome {
        QUICK
            .iter()
            .map(|which| self.test(which))
            .fold(StepOutcome::Passed, StepOutcome::and)
    }

    /// Runs all tests. Suites run one after the other: tests that wait for leases and failovers see failures that are
    /// none where others take the processors.
    fn test_all(self) -> StepOutcome {
        let suites = match self.workspace.test_targets() {
            Ok(suites) => suites,
            Err(error) => {
                println!("failed to read the names of the suites: {error}");
                return StepOutcome::Failed;
            }
        };
        let others = [FAULT_RUNS, GENERATED_REQUESTS, SOAK, MODEL];
        let suites = suites.into_iter();
        let suites = suites.filter(|suite| !others.contains(&suite.as_str()));
        let suites: Vec<String> = suites.map(|suite| test_flag(&suite)).collect();
        let suites: Vec<&str> = suites.iter().map(String::as_str).collect();
        self.test(&["--lib", "--bins", "--benches"])
            .and(self.test_soak_and_model())
            .and(self.test(&suites))
            .and(self.test_fault_runs())
    }

    /// The examples of the documentation run there too. The output of the soak is printed when all have ended.
    fn test_soak_and_model(self) -> StepOutcome {
        thread::scope(|scope| {
            let mut soak = self.command();
            soak.arg(test_flag(SOAK));
            print_arguments(&soak);
            let soak = scope.spawn(move || soak.output());
            let model = self.test(&["--doc"]).and(self.test(&[&test_flag(MODEL)]));
            let soak = soak.join().expect("the thread does not panic");
            let soak = soak.map_or_else(
                |error| failed_to_run(&error),
                |ended| {
                    for printed in [&ended.stderr, &ended.stdout] {
                        println!("{}", String::from_utf8_lossy(printed));
                    }
                    passed(ended.status)
                },
            );
            model.and(soak)
        })
    }

    fn test_fault_runs(self) -> StepOutcome {
        let mut command = self.command();
        // Each run is a whole deployment under load, and waits for a part of its time: on two processors six runs take
        // 142 s with three at a time, and 177 s with two.
        command.env(TEST_THREADS, (processors() * 3 / 2).to_string());
        run_cargo(command, &[&test_flag(FAULT_RUNS)])
    }

    fn test(self, which: &[&str]) -> StepOutcome {
        run_cargo(self.command(), which)
    }

    /// Tests run three times as many at a time as there are processors: they wait most of the time. All packages are
    /// selected, also where the tests of one are meant: for fewer of them cargo would choose other features of
    /// dependencies, and compile these again.
    fn command(self) -> Command {
        let mut command = self.workspace.cargo();
        if std::env::var_os(TEST_THREADS).is_none() {
            command.env(TEST_THREADS, (3 * processors()).to_string());
        }
        if let Some(folder) = self.files.folder() {
            command.env("TMPDIR", folder);
        }
        command.args(["test", "--workspace", "--locked", "--no-fail-fast"]);
        command
    }
}

/// The flag of cargo that selects a suite.
fn test_flag(suite: &str) -> String {
    format!("--test={suite}")
}

fn processors() -> usize {
    std::thread::available_parallelism().map_or(2, NonZero::get)
}

/// Builds the documentation of all items. A broken link fails.
fn document(workspace: &Workspace) -> StepOutcome {
    let mut command = workspace.cargo();
    command.env("RUSTDOCFLAGS", "-D warnings");
    let arguments = [
        "doc",
        "--workspace",
        "--no-deps",
        "--document-private-items",
        "--locked",
    ];
    run_cargo(command, &arguments)
}

fn cargo(workspace: &Workspace, arguments: &[&str]) -> StepOutcome {
    run_cargo(workspace.cargo(), arguments)
}

fn run_cargo(mut cargo: Command, arguments: &[&str]) -> StepOutcome {
    cargo.args(arguments);
    print_arguments(&cargo);
    cargo
        .status()
        .map_or_else(|error| failed_to_run(&error), passed)
}

fn print_arguments(cargo: &Command) {
    let words = cargo.get_args().map(|word| word.to_string_lossy());
    println!("cargo {}", words.collect::<Vec<_>>().join(" "));
}

fn passed(status: ExitStatus) -> StepOutcome {
    match status.success() {
        true => StepOutcome::Passed,
        false => StepOutcome::Failed,
    }
}

fn failed_to_run(error: &std::io::Error) -> StepOutcome {
    println!("failed to run cargo: {error}");
    StepOutcome::Failed
}

/// Whether cargo has this subcommand.
fn has_subcommand(workspace: &Workspace, subcommand: &str) -> bool {
    let mut command: Command = workspace.cargo();
    command
        .args([subcommand, "--version"])
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

/// Obtains a Redis once, before the tests, which would all wait for a download.
fn obtain_redis() -> StepOutcome {
    match obtain(&workspace_cache(), &mut |line| println!("{line}")) {
        Ok(binary) => {
            println!("{binary}");
            StepOutcome::Passed
        }
        Err(error) => {
            println!("{error}");
            StepOutcome::Failed
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_must_pass() {
        let all = [StepOutcome::Passed, StepOutcome::Failed];
        for (one, other) in all
            .iter()
            .flat_map(|one| all.iter().map(move |other| (one, other)))
        {
            let both = one.clone().and(other.clone());
            assert_eq!(
                both == StepOutcome::Passed,
                one == other && *one == StepOutcome::Passed
            );
        }
    }

    #[test]
    fn the_suites_that_are_named_here_exist() {
        let suites = Workspace::find().unwrap().test_targets().unwrap();
        let quick = QUICK.into_iter().flatten();
        let quick = quick.filter_map(|flag| flag.strip_prefix("--test="));
        for name in quick.chain([FAULT_RUNS, GENERATED_REQUESTS, SOAK, MODEL]) {
            assert!(
                suites.iter().any(|suite| suite == name),
                "{name}: {suites:?}"
            );
        }
    }

    #[test]
    fn a_skipped_step_neither_fails_nor_passes() {
        let mut report = StepReport::default();
        assert!(report.step("one", || StepOutcome::Passed));
        assert!(!report.step("two", || StepOutcome::Skipped("no reason")));
        assert!(!report.has_failed());
        assert!(!report.step("three", || StepOutcome::Failed));
        assert!(report.has_failed());
    }
}
