//! `cargo xtask dev`: runs a deployment on this machine until Ctrl-C.

pub(crate) mod cluster;
mod demo;
mod dev_run;
pub(crate) mod options;
mod relay;
pub(crate) mod start;
mod welcome;

use std::process::ExitCode;

use tidegate_local_deployment::{CommandError, StopRequests};

use crate::workspace::Workspace;
use dev_run::DevRun;
pub(crate) use options::Options;

pub(crate) fn run(workspace: &Workspace, options: &Options) -> ExitCode {
    let signals = match StopRequests::install() {
        Ok(signals) => signals,
        Err(error) => {
            eprintln!("error: failed to install signal handlers: {error}");
            return ExitCode::FAILURE;
        }
    };
    let mut run = DevRun::default();
    let ending = start_and_watch(workspace, options, &mut run, &signals);
    if let CommandError::Failed(reason) = &ending {
        eprintln!("\nerror: {reason}");
    }
    run.stop(&signals);
    match ending {
        CommandError::Interrupted => ExitCode::SUCCESS,
        CommandError::Failed(_) => ExitCode::FAILURE,
    }
}

fn start_and_watch(
    workspace: &Workspace,
    options: &Options,
    run: &mut DevRun,
    signals: &StopRequests,
) -> CommandError {
    match start::start_all(workspace, options, run, signals) {
        Ok(()) => run.session.watch(signals),
        Err(ending) => ending,
    }
}
