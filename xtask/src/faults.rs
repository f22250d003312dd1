//! `cargo xtask faults`: the fault harness, with everything it needs built.

use std::process::{Command, ExitCode};

use crate::dev::Ending;
use crate::dev::signals::Signals;
use crate::dev::start::{self, API, PUMP};
use crate::workspace::Workspace;

const HARNESS: &str = "tidegate-faults";

/// The flags of `faults`.
#[derive(Debug, clap::Args)]
#[command(disable_help_flag = true)]
pub(crate) struct Options {
    /// Those of the harness, which lists them with --help
    #[arg(
        allow_hyphen_values = true,
        trailing_var_arg = true,
        value_name = "FLAGS"
    )]
    flags: Vec<String>,
}

pub(crate) fn run(workspace: &Workspace, options: &Options) -> ExitCode {
    let made = Signals::catch()
        .map_err(|error| Ending::Failed(format!("signals cannot be caught: {error}")))
        .and_then(|signals| make_runs(workspace, options, &signals));
    match made {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) | Err(Ending::Asked) => ExitCode::FAILURE,
        Err(Ending::Failed(reason)) => {
            eprintln!("\nerror: {reason}");
            ExitCode::FAILURE
        }
    }
}

/// Whether nothing was found.
fn make_runs(workspace: &Workspace, options: &Options, signals: &Signals) -> Result<bool, Ending> {
    start::build(workspace, &[API, PUMP, HARNESS], true, signals)?;
    let mut command = Command::new(workspace.target().join("release").join(HARNESS));
    command.current_dir(workspace.root()).args(&options.flags);
    let child = command
        .spawn()
        .map_err(|error| format!("{HARNESS} cannot run: {error}"))?;
    Ok(start::wait_for(child, signals)?.success())
}
