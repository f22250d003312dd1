//! `tidegate-loadgen`: puts load on a server and measures it. Figures are valid only if no job was lost.
#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a command-line program"
)]

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Parser};
use tidegate_loadgen::{LoadgenError, Scenario, ServerOptions, Wire, run, table};

/// Measures the performance of a server that speaks the lmstfy HTTP API, or the native API of Tidegate.
///
/// Every job has a unique body and must be delivered exactly once and not before its due time. If a job is lost,
/// delivered twice or early, the report lists the problems, its figures do not count, and the exit status is 1.
///
/// Each run uses queues with new names. Jobs of lateness and memory stay in the server, for two days or longer: use a
/// server whose data can be deleted.
///
/// One run on the wire of lmstfy, two servers in turns, and the two wires of one server in turns:
///
///     tidegate-loadgen --admin http://127.0.0.1:7778 publish --seconds 5
///     tidegate-loadgen --admin ... --vs http://127.0.0.1:8777 --vs-admin ... consume
///     tidegate-loadgen --admin ... --wire lmstfy --vs-wire native publish --keyed
#[derive(Debug, Parser)]
#[command(version, verbatim_doc_comment)]
struct LoadgenFlags {
    #[command(flatten)]
    target: ServerOptions,
    #[command(flatten)]
    versus: ComparisonFlags,
    /// Number of runs of the scenario; with --vs or --vs-wire, number of rounds A B [default: 1; with these: 3]
    #[arg(long, global = true, value_name = "N")]
    rounds: Option<usize>,
    /// Write all reports as JSON to this file
    #[arg(long, global = true, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Show no progress
    #[arg(long, global = true)]
    quiet: bool,
    #[command(subcommand)]
    scenario: Scenario,
}

#[derive(Debug, Args)]
struct ComparisonFlags {
    /// The HTTP API that the second server of each round uses [default: the same as --wire]. Without --vs it is the
    /// same server as the first
    #[arg(long, global = true, value_name = "WIRE")]
    vs_wire: Option<Wire>,
    /// URL of a second server, measured alternately with the first
    #[arg(long, value_name = "URL")]
    vs: Option<String>,
    /// Token of the namespace on the second server
    #[arg(long, value_name = "T", requires = "vs")]
    vs_token: Option<String>,
    /// URL of the second server's admin port
    #[arg(long, value_name = "URL", requires = "vs")]
    vs_admin: Option<String>,
    /// URL of the second server's Redis
    #[arg(long, value_name = "URL", requires = "vs")]
    vs_redis: Option<String>,
    /// Report the CPU time of a process of the second server; repeatable
    #[arg(long = "vs-pid", value_name = "NAME=PID", value_parser = ServerOptions::parse_process, requires = "vs")]
    vs_processes: Vec<(String, u32)>,
}

const ROUNDS_OF_TWO: usize = 3;

impl LoadgenFlags {
    fn comparison_options(&self) -> Option<ServerOptions> {
        let versus = &self.versus;
        let wire = versus.vs_wire.or(self.target.wire);
        let Some(url) = versus.vs.clone() else {
            versus.vs_wire?;
            return Some(ServerOptions {
                wire,
                ..self.target.clone()
            });
        };
        Some(ServerOptions {
            wire,
            url,
            token: versus.vs_token.clone(),
            admin: versus.vs_admin.clone(),
            redis: versus.vs_redis.clone(),
            namespace: self.target.namespace.clone(),
            processes: versus.vs_processes.clone(),
        })
    }
}

fn main() -> ExitCode {
    let flags = LoadgenFlags::parse();
    match measure(&flags) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Returns whether the figures are valid.
fn measure(flags: &LoadgenFlags) -> Result<bool, LoadgenError> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(io_error("starting the runtime"))?;
    let (first, second) = (flags.target.clone(), flags.comparison_options());
    let rounds = flags
        .rounds
        .unwrap_or(if second.is_some() { ROUNDS_OF_TWO } else { 1 });
    let running = run(
        &flags.scenario,
        &first,
        second.as_ref(),
        rounds,
        flags.quiet,
    );
    let outcome = runtime.block_on(running)?;
    print!("{}", table(&outcome));
    if let Some(path) = &flags.json {
        let text = serde_json::to_string_pretty(&outcome).unwrap_or_default();
        std::fs::write(path, text).map_err(io_error(path.display()))?;
    }
    Ok(outcome.is_valid())
}

fn io_error(doing: impl ToString) -> impl FnOnce(std::io::Error) -> LoadgenError {
    let doing = doing.to_string();
    move |source| LoadgenError::Io { doing, source }
}
