//! `cargo xtask dev`: everything runs on this machine, until Ctrl-C.

pub(crate) mod cluster;
mod http;
pub(crate) mod leftovers;
mod ports;
pub(crate) mod process;
pub(crate) mod session;
pub(crate) mod signals;
pub(crate) mod start;
mod welcome;

use std::path::PathBuf;
use std::process::ExitCode;

use crate::workspace::Workspace;
use session::Session;
use signals::Signals;

/// The flags of `dev`.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// Port of the API on 127.0.0.1.
    #[arg(long, default_value_t = 7777)]
    pub(crate) port: u16,
    /// Port of the API's admin routes on 127.0.0.1.
    #[arg(long, default_value_t = 7778)]
    pub(crate) admin_port: u16,
    /// Use this running Redis (redis://HOST:PORT) and start none. It is not stopped at the end.
    #[arg(long, value_name = "URL")]
    pub(crate) redis: Option<String>,
    /// Run a private Redis Cluster: three primaries, each with a replica. Its data are not kept.
    #[arg(long, conflicts_with = "redis")]
    pub(crate) cluster: bool,
    /// How many pumps to run.
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u8).range(1..=16))]
    pub(crate) pumps: u8,
    /// Build with optimizations.
    #[arg(long)]
    pub(crate) release: bool,
}

/// Why `dev`, or `bench`, ends before its time.
#[derive(Debug)]
pub(crate) enum Ending {
    /// Somebody asked: Ctrl-C or SIGTERM.
    Asked,
    /// It cannot go on, for this reason.
    Failed(String),
}

impl From<String> for Ending {
    fn from(reason: String) -> Self {
        Self::Failed(reason)
    }
}

/// The folder of logs, process ids and data.
fn state_folder(workspace: &Workspace) -> PathBuf {
    workspace.target().join("dev")
}

pub(crate) fn run(workspace: &Workspace, options: &Options) -> ExitCode {
    let signals = match Signals::catch() {
        Ok(signals) => signals,
        Err(error) => {
            eprintln!("error: signals cannot be caught: {error}");
            return ExitCode::FAILURE;
        }
    };
    let mut session = Session::default();
    let ending = bring_up_and_watch(workspace, options, &mut session, &signals);
    if let Ending::Failed(reason) = &ending {
        eprintln!("\nerror: {reason}");
    }
    session.stop(&signals);
    match ending {
        Ending::Asked => ExitCode::SUCCESS,
        Ending::Failed(_) => ExitCode::FAILURE,
    }
}

fn bring_up_and_watch(
    workspace: &Workspace,
    options: &Options,
    session: &mut Session,
    signals: &Signals,
) -> Ending {
    match start::bring_up(workspace, options, session, signals) {
        Ok(()) => session.watch(signals),
        Err(ending) => ending,
    }
}
