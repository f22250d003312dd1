//! `cargo xtask dev`: runs a deployment on this machine until Ctrl-C.

pub(crate) mod cluster;
mod demo;
pub(crate) mod ending;
mod http;
pub(crate) mod options;
mod ports;
pub(crate) mod process;
mod relay;
pub(crate) mod session;
pub(crate) mod signals;
pub(crate) mod start;
pub(crate) mod state_folder;
mod welcome;

use std::process::ExitCode;

use crate::workspace::Workspace;
pub(crate) use ending::CommandError;
pub(crate) use options::Options;
use session::DevSession;
use signals::StopRequests;

pub(crate) fn run(workspace: &Workspace, options: &Options) -> ExitCode {
    let signals = match StopRequests::install() {
        Ok(signals) => signals,
        Err(error) => {
            eprintln!("error: failed to install signal handlers: {error}");
            return ExitCode::FAILURE;
        }
    };
    let mut session = DevSession::default();
    let ending = start_and_watch(workspace, options, &mut session, &signals);
    if let CommandError::Failed(reason) = &ending {
        eprintln!("\nerror: {reason}");
    }
    session.stop(&signals);
    match ending {
        CommandError::Interrupted => ExitCode::SUCCESS,
        CommandError::Failed(_) => ExitCode::FAILURE,
    }
}

fn start_and_watch(
    workspace: &Workspace,
    options: &Options,
    session: &mut DevSession,
    signals: &StopRequests,
) -> CommandError {
    match start::start_all(workspace, options, session, signals) {
        Ok(()) => session.watch(signals),
        Err(ending) => ending,
    }
}
