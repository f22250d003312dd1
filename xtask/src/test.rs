//! `cargo xtask test`: runs every check.

mod cargo_call;
mod step;
mod suites;

use std::process::{Command, ExitCode, Stdio};
use std::thread;

use clap::Args;
use tidegate_local_redis::{obtain, workspace_cache};

use crate::test_files::TestFiles;
use crate::tidy;
use crate::workspace::Workspace;
use cargo_call::EndedCall;
use step::{StepOutcome, StepReport};
pub(crate) use suites::{GENERATED_REQUESTS, test_flag};
use suites::{QUICK, Suites};

/// The flags of `test`.
#[derive(Debug, Args)]
pub(crate) struct TestOptions {
    /// Skip slow tests: failovers, killed processes, fault runs, invalid input, timing, generated requests. Takes about
    /// 3 minutes once everything is built
    #[arg(long)]
    quick: bool,
}

pub(crate) fn run(workspace: &Workspace, options: &TestOptions) -> ExitCode {
    let mut report = StepReport::default();
    report.step("format", || match has_subcommand(workspace, "fmt") {
        true => cargo(workspace, &["fmt", "--all", "--check"]),
        false => {
            StepOutcome::Skipped("this toolchain has no rustfmt; run: rustup component add rustfmt")
        }
    });
    report.step("tidy", || StepOutcome::of(tidy::check_and_print(workspace)));
    report.step("dependencies", || match has_subcommand(workspace, "deny") {
        true => cargo(workspace, &["deny", "check"]),
        false => {
            StepOutcome::Skipped("cargo-deny is not installed; tidy checks licences and sources")
        }
    });
    let is_built = report.step("build", || build(workspace, options.quick));
    let has_redis = report.step("redis", obtain_redis);
    let files = TestFiles::new();
    let suites = match (is_built, has_redis) {
        (true, true) => Ok(Suites {
            workspace,
            files: &files,
        }),
        (false, _) => Err("the build failed"),
        (_, false) => Err("no Redis is available"),
    };
    if options.quick {
        thread::scope(|scope| {
            let lints = scope.spawn(|| lint(workspace));
            report.step("tests", || test(suites, Suites::test_quickly));
            report.ended("lints", &lints.join().expect("the thread does not panic"));
        });
    } else {
        thread::scope(|scope| {
            let beside = scope.spawn(|| {
                let model = suites.map(Suites::test_model);
                let lints = lint(workspace);
                let documentation = Ok(document(workspace));
                [
                    ("model", model),
                    ("lints", lints),
                    ("documentation", documentation),
                ]
            });
            report.step("tests", || test(suites, Suites::test_all));
            for (name, ended) in beside.join().expect("the thread does not panic") {
                report.ended(name, &ended);
            }
        });
        report.step("times", || test(suites, Suites::test_times));
    }
    report.print();
    if report.has_failed() {
        return ExitCode::FAILURE;
    }
    files.remove();
    ExitCode::SUCCESS
}

fn test<'a>(
    suites: Result<Suites<'a>, &'static str>,
    which: fn(Suites<'a>) -> bool,
) -> StepOutcome {
    suites.map_or_else(StepOutcome::Skipped, |suites| {
        StepOutcome::of(which(suites))
    })
}

/// Runs the lints in the time that tests leave.
fn lint(workspace: &Workspace) -> Result<EndedCall, &'static str> {
    if !has_subcommand(workspace, "clippy") {
        return Err("this toolchain has no clippy; run: rustup component add clippy");
    }
    let mut clippy = workspace.cargo_with_lowest_priority();
    clippy.args([
        "clippy",
        "--quiet",
        "--workspace",
        "--all-targets",
        "--locked",
    ]);
    clippy.args(["--", "-D", "warnings"]);
    Ok(EndedCall::of(clippy))
}

/// Builds the documentation of all items in the time that tests leave. A broken link fails.
fn document(workspace: &Workspace) -> EndedCall {
    let mut doc = workspace.cargo_with_lowest_priority();
    doc.env("RUSTDOCFLAGS", "-D warnings");
    doc.args([
        "doc",
        "--quiet",
        "--workspace",
        "--no-deps",
        "--document-private-items",
        "--locked",
    ]);
    // With examples the dependencies have the features of the lints, which have compiled them.
    doc.args(["--lib", "--bins", "--examples"]);
    EndedCall::of(doc)
}

/// With the tests the daemons have the features of dependencies that tests switch on. Built without, they and most
/// dependencies would be compiled twice.
fn build(workspace: &Workspace, quick: bool) -> StepOutcome {
    let targets: &[&str] = match quick {
        true => &QUICK,
        false => &["--all-targets"],
    };
    cargo(
        workspace,
        &[&["build", "--workspace", "--locked"], targets].concat(),
    )
}

fn cargo(workspace: &Workspace, arguments: &[&str]) -> StepOutcome {
    let mut cargo = workspace.cargo();
    cargo.args(arguments);
    StepOutcome::of(cargo_call::run(cargo))
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
