//! `cargo xtask faults`: builds and runs the fault harness.

use std::process::{Command, ExitCode};

use tidegate_local_deployment::start::{API, PUMP};
use tidegate_local_deployment::{CommandError, StopRequests};

use crate::dev::start;
use crate::workspace::Workspace;

const HARNESS: &str = "tidegate-faults";

/// The flags of `faults`.
#[derive(Debug, clap::Args)]
#[command(disable_help_flag = true)]
pub(crate) struct FaultsOptions {
    /// Flags of the harness; `cargo xtask faults --help` lists them
    #[arg(
        allow_hyphen_values = true,
        trailing_var_arg = true,
        value_name = "FLAGS"
    )]
    flags: Vec<String>,
}

pub(crate) fn run(workspace: &Workspace, options: &FaultsOptions) -> ExitCode {
    let made = StopRequests::install()
        .map_err(|error| {
            CommandError::Failed(format!("failed to install signal handlers: {error}"))
        })
        .and_then(|signals| make_runs(workspace, options, &signals));
    match made {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) | Err(CommandError::Interrupted) => ExitCode::FAILURE,
        Err(CommandError::Failed(reason)) => {
            eprintln!("\nerror: {reason}");
            ExitCode::FAILURE
        }
    }
}

/// Returns whether the runs had no findings.
fn make_runs(
    workspace: &Workspace,
    options: &FaultsOptions,
    signals: &StopRequests,
) -> Result<bool, CommandError> {
    start::build(workspace, &[API, PUMP, HARNESS], None, true, signals)?;
    let mut command = Command::new(workspace.target().join("release").join(HARNESS));
    command.current_dir(workspace.root()).args(&options.flags);
    let child = command
        .spawn()
        .map_err(|error| format!("failed to run {HARNESS}: {error}"))?;
    Ok(start::wait_for(child, signals)?.success())
}
