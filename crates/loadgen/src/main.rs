//! `tidegate-loadgen`: load on a server, and figures that count only if no job was lost.
#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "this program talks to a person at a terminal"
)]

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Args, Parser, Subcommand};
use tidegate_loadgen::{Error, Outcome, Scenario, ServerOptions, plot, run, table};

/// Puts load on a server that speaks the wire of lmstfy, and measures it.
///
/// Every job has a body of its own, and each must come back exactly once and not before its time; where that does
/// not hold, the report says what was wrong, its figures do not count, and the exit code is 1.
///
/// Work is done in queues with new names. Jobs that stay delayed (lateness, memory, growth) are left behind: aim at a
/// server that can be thrown away.
///
///     tidegate-loadgen --admin http://127.0.0.1:7778 publish --seconds 5
///     tidegate-loadgen --admin ... --vs http://127.0.0.1:8777 --vs-admin ... consume
#[derive(Debug, Parser)]
#[command(version, verbatim_doc_comment)]
struct Flags {
    #[command(flatten)]
    target: Target,
    #[command(flatten)]
    versus: Versus,
    /// How often to run the scenario; with --vs, how many rounds A B
    #[arg(long, global = true, value_name = "N")]
    rounds: Option<usize>,
    /// Write all reports to this file
    #[arg(long, global = true, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Show no progress
    #[arg(long, global = true)]
    quiet: bool,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Args)]
struct Target {
    /// The server
    #[arg(long, value_name = "URL", default_value = "http://127.0.0.1:7777")]
    target: String,
    /// A token of the namespace
    #[arg(long, value_name = "T", requires = "namespace")]
    token: Option<String>,
    /// The admin port: a token is made there if none is given
    #[arg(long, value_name = "URL")]
    admin: Option<String>,
    /// Its Redis, asked for memory and counts
    #[arg(long, value_name = "URL")]
    redis: Option<String>,
    /// The namespace to work in; a new one if a token is made
    #[arg(long, value_name = "NS")]
    namespace: Option<String>,
    /// A process of the server on this machine, whose CPU time is shown; can be given several times. The memory of `api`
    /// is shown, too
    #[arg(long = "pid", value_name = "NAME=PID", value_parser = process)]
    processes: Vec<(String, u32)>,
}

#[derive(Debug, Args)]
struct Versus {
    /// A second server, measured in turns with the first
    #[arg(long, value_name = "URL")]
    vs: Option<String>,
    /// A token of the namespace there
    #[arg(long, value_name = "T", requires = "vs")]
    vs_token: Option<String>,
    /// Its admin port
    #[arg(long, value_name = "URL", requires = "vs")]
    vs_admin: Option<String>,
    /// Its Redis
    #[arg(long, value_name = "URL", requires = "vs")]
    vs_redis: Option<String>,
    /// A process of it
    #[arg(long = "vs-pid", value_name = "NAME=PID", value_parser = process, requires = "vs")]
    vs_processes: Vec<(String, u32)>,
}

#[derive(Debug, Subcommand)]
enum Command {
    #[command(flatten)]
    Scenario(Scenario),
    /// Draw the curves of reports that --json wrote
    Plot {
        /// Such files
        #[arg(required = true, value_name = "FILE")]
        reports: Vec<PathBuf>,
        /// Where the SVG files go
        #[arg(long, value_name = "FOLDER", default_value = "docs/benchmarks")]
        folder: PathBuf,
    },
}

const ROUNDS_OF_TWO: usize = 3;

fn process(text: &str) -> Result<(String, u32), String> {
    let (name, pid) = text.split_once('=').ok_or("expected NAME=PID")?;
    let pid = pid.parse().map_err(|error| format!("{pid:?}: {error}"))?;
    Ok((name.to_owned(), pid))
}

impl Flags {
    fn first(&self) -> ServerOptions {
        ServerOptions {
            url: self.target.target.clone(),
            token: self.target.token.clone(),
            admin: self.target.admin.clone(),
            redis: self.target.redis.clone(),
            namespace: self.target.namespace.clone(),
            processes: self.target.processes.clone(),
        }
    }

    fn second(&self) -> Option<ServerOptions> {
        let versus = &self.versus;
        Some(ServerOptions {
            url: versus.vs.clone()?,
            token: versus.vs_token.clone(),
            admin: versus.vs_admin.clone(),
            redis: versus.vs_redis.clone(),
            namespace: self.target.namespace.clone(),
            processes: versus.vs_processes.clone(),
        })
    }
}

fn main() -> ExitCode {
    let flags = Flags::parse();
    let done = match &flags.command {
        Command::Scenario(scenario) => measure(&flags, scenario),
        Command::Plot { reports, folder } => draw(reports, folder).map(|()| true),
    };
    match done {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Whether the figures count.
fn measure(flags: &Flags, scenario: &Scenario) -> Result<bool, Error> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(failed("starting"))?;
    let (first, second) = (flags.first(), flags.second());
    let rounds = flags
        .rounds
        .unwrap_or(if second.is_some() { ROUNDS_OF_TWO } else { 1 });
    let running = run(scenario, &first, second.as_ref(), rounds, flags.quiet);
    let outcome = runtime.block_on(running)?;
    print!("{}", table(&outcome));
    if let Some(path) = &flags.json {
        let text = serde_json::to_string_pretty(&outcome).unwrap_or_default();
        std::fs::write(path, text).map_err(failed(path.display()))?;
    }
    Ok(outcome.counts())
}

fn draw(files: &[PathBuf], folder: &Path) -> Result<(), Error> {
    let mut reports = Vec::new();
    for file in files {
        let text = std::fs::read(file).map_err(failed(file.display()))?;
        let outcome: Outcome = serde_json::from_slice(&text)
            .map_err(|error| Error::Usage(format!("{}: no report: {error}", file.display())))?;
        reports.extend(outcome.reports);
    }
    for file in plot(&reports, folder)? {
        println!("{}", file.display());
    }
    Ok(())
}

fn failed(doing: impl ToString) -> impl FnOnce(std::io::Error) -> Error {
    let doing = doing.to_string();
    move |source| Error::Io { doing, source }
}
