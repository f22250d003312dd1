//! `cargo xtask dev`: runs a deployment on this machine until Ctrl-C.

pub(crate) mod cluster;
mod demo;
pub(crate) mod options;
mod relay;
pub(crate) mod start;
mod welcome;

use std::process::ExitCode;

use tidegate_local_broker::LocalBroker;
use tidegate_local_deployment::{CommandError, DevSession, StopRequests};

use crate::workspace::Workspace;
pub(crate) use options::Options;

/// What `dev` has started.
#[derive(Debug, Default)]
struct DevRun {
    session: DevSession,
    /// What jobs are relayed to, and the admin port of the relay.
    broker: Option<(LocalBroker, u16)>,
}

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

impl DevRun {
    /// Stops everything: the daemons first, which need the broker and Redis to finish.
    fn stop(&mut self, signals: &StopRequests) {
        if self.session.is_empty() {
            return;
        }
        self.session.stop_daemons(signals);
        if let Some((mut broker, _)) = self.broker.take() {
            broker.stop();
            println!("  the broker is stopped; its data are deleted");
        }
        self.session.stop_redis();
    }
}
