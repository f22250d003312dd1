//! Development commands: `cargo xtask dev`, `test`, `tidy`, `lua`, `bench`, `faults`, `soak`, `mutants`,
//! `schemathesis`, `release`.
#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    clippy::disallowed_methods,
    reason = "command-line programs"
)]

mod bench;
mod dev;
mod harness;
mod lua;
mod mutants;
mod release;
mod schemathesis;
mod test;
mod test_files;
mod tidy;
mod workspace;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

use harness::{Harness, HarnessOptions};
use workspace::Workspace;

/// Development commands. They need a Rust toolchain, a C compiler and make: a Redis or Valkey server is found on this
/// machine, or downloaded into the target folder without being installed.
#[derive(Debug, Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask", verbatim_doc_comment)]
struct Cli {
    #[command(subcommand)]
    command: XtaskCommand,
}

#[derive(Debug, Subcommand)]
enum XtaskCommand {
    /// Build and run a deployment on this machine: a private Redis, the API, two pumps.
    ///
    /// Prints curl commands to try. Ctrl-C stops everything; the data stay in target/dev/redis for the next run.
    /// Logs are in target/dev. With --cluster the Redis is a cluster of six nodes, whose data are deleted at the end.
    Dev(dev::Options),
    /// Check formatting, lints and project rules, build, and run every test.
    ///
    /// Tests use private Redis servers; TG_REDIS_SERVER=PATH chooses the server program. The exit status is not
    /// zero if any step failed.
    Test(test::TestOptions),
    /// Check the project rules: layers, file sizes, names, scripts, documents, licences. Part of `test`.
    Tidy,
    /// Print a script as Redis gets it: lua/NAME.lua with its includes.
    ///
    /// Errors of scripts have the line numbers of this text.
    Lua(lua::LuaOptions),
    /// Measure a deployment on this machine: a private Redis, the API, two pumps, release builds.
    ///
    /// Each scenario has a new Redis and new daemons. Prints one table of figures and goals, and writes
    /// target/bench/TIME.json. If a job was lost, delivered twice or early, the figures of its scenario do not count,
    /// and the exit status is not zero. docs/benchmarks.md describes the scenarios.
    Bench(bench::BenchOptions),
    /// Inject faults while clients run, and check that no job is lost, delivered twice or early.
    ///
    /// Faults are kills, pauses, network faults and others. Seeds determine the runs, so they can be repeated.
    /// docs/faults.md describes the faults and the checks.
    Faults(HarnessOptions),
    /// Run a mixed load at half of the capacity for an hour, with restarts, and check that nothing grows.
    ///
    /// Checks jobs, memory, lateness and open files. docs/soak.md describes the load and the checks.
    Soak(HarnessOptions),
    /// Plant known defects one at a time, and show which test or fault run catches each.
    ///
    /// The list of defects is in tests/mutants; tests/mutants/README.md describes it. Works on a copy of the sources in
    /// target/mutants. The exit status is 1 if a defect was not caught.
    Mutants(mutants::MutantsOptions),
    /// Send requests that Schemathesis generates from docs/openapi.json to a real API, and check each answer.
    ///
    /// Installs Schemathesis from PyPI in target/schemathesis, for which it needs Python 3.10 or later with venv.
    /// `test` does the same with fewer requests. TIDEGATE_SEED=N repeats the requests of a run.
    Schemathesis(schemathesis::SchemathesisOptions),
    /// Make the files of a release: an archive, Debian packages, an SBOM (CycloneDX) and SHA256SUMS.
    ///
    /// Builds tidegate, tidegate-api, tidegate-pumpd and tidegate-relayd for this machine, and writes the files into
    /// target/packages. All files have the time of the commit, or SOURCE_DATE_EPOCH; the same programs give the same
    /// bytes. Needs strip (binutils) and dpkg-deb. docs/releasing.md describes how to make a release.
    Release(release::ReleaseOptions),
}

fn main() -> ExitCode {
    let chores = Cli::parse();
    let workspace = match Workspace::find() {
        Ok(workspace) => workspace,
        Err(error) => {
            eprintln!("error: {error}");
            return ExitCode::FAILURE;
        }
    };
    match chores.command {
        XtaskCommand::Dev(options) => dev::run(&workspace, &options),
        XtaskCommand::Test(options) => test::run(&workspace, &options),
        XtaskCommand::Tidy => tidy::run(&workspace),
        XtaskCommand::Lua(options) => lua::run(&workspace, &options),
        XtaskCommand::Bench(options) => bench::run(&workspace, &options),
        XtaskCommand::Faults(options) => Harness::Faults.run(&workspace, &options),
        XtaskCommand::Soak(options) => Harness::Soak.run(&workspace, &options),
        XtaskCommand::Mutants(options) => mutants::run(&workspace, &options),
        XtaskCommand::Schemathesis(options) => schemathesis::run(&workspace, &options),
        XtaskCommand::Release(options) => release::run(&workspace, &options),
    }
}
