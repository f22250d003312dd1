//! The project's chores: `cargo xtask dev`, `test`, `tidy`, `bench`, `faults`, `mutants`.
#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "these commands talk to a person at a terminal"
)]

mod bench;
mod dev;
mod faults;
mod mutants;
mod test;
mod tidy;
mod workspace;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

use workspace::Workspace;

/// The chores of this project. They need a Rust toolchain and a C compiler, and nothing else: a Redis or Valkey server is
/// found on this machine, or fetched into the target folder without being installed.
#[derive(Debug, Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask", verbatim_doc_comment)]
struct Chores {
    #[command(subcommand)]
    command: Chore,
}

#[derive(Debug, Subcommand)]
enum Chore {
    /// Build and run everything on this machine: a private Redis, the API, two pumps.
    ///
    /// Prints four curl lines to try. Ctrl-C stops everything again; the data stay in target/dev/redis for the next
    /// time. Logs are in target/dev. With --cluster the Redis is a cluster of six nodes, whose data go with it.
    Dev(dev::Options),
    /// Check formatting, lints and rules, build, and run every test.
    ///
    /// The process tests run against a private Redis; TIDEGATE_REDIS_SERVER=PATH chooses the server program. The exit code
    /// is not zero if any step failed.
    Test(test::Options),
    /// Check the project's own rules: layers, sizes, names, scripts, licences. Part of `test`.
    Tidy,
    /// Measure everything on this machine: a private Redis, the API, two pumps, release builds.
    ///
    /// Each scenario has a fresh Redis and fresh daemons. Prints one table with the goals beside the figures and writes
    /// target/bench/TIME.json. No figure counts if a job was lost, doubled or early; then the exit code is not zero.
    /// docs/benchmarks.md tells what is measured and how.
    Bench(bench::Options),
    /// Try to make it lose, double or hurry a job: kill, stop and cut everything off while clients go on.
    ///
    /// Runs are drawn from seeds and can be repeated. docs/faults.md tells what is tried and what is promised.
    Faults(faults::Options),
    /// Plant known defects one at a time and show which test or fault run catches each.
    ///
    /// The list is in tests/mutants. Works on a copy of the sources in target/mutants. The exit code is 1 if a defect was
    /// not caught. tests/mutants/README.md describes the list.
    Mutants(mutants::Options),
}

fn main() -> ExitCode {
    let chores = Chores::parse();
    let workspace = match Workspace::find() {
        Ok(workspace) => workspace,
        Err(error) => {
            eprintln!("error: {error}");
            return ExitCode::FAILURE;
        }
    };
    match chores.command {
        Chore::Dev(options) => dev::run(&workspace, &options),
        Chore::Test(options) => test::run(&workspace, &options),
        Chore::Tidy => tidy::run(&workspace),
        Chore::Bench(options) => bench::run(&workspace, &options),
        Chore::Faults(options) => faults::run(&workspace, &options),
        Chore::Mutants(options) => mutants::run(&workspace, &options),
    }
}
