//! The project's chores: `cargo xtask dev`, `cargo xtask test`, `cargo xtask tidy`.
#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "these commands talk to a person at a terminal"
)]

mod dev;
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
    /// time. Logs are in target/dev.
    Dev(dev::Options),
    /// Check formatting, lints and rules, build, and run every test.
    ///
    /// The process tests run against a private Redis; TIDEGATE_REDIS_SERVER=PATH chooses the server program. The exit code
    /// is not zero if any step failed.
    Test,
    /// Check the project's own rules: layers, sizes, names, scripts, licences. Part of `test`.
    Tidy,
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
        Chore::Test => test::run(&workspace),
        Chore::Tidy => tidy::run(&workspace),
    }
}
