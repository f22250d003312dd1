//! `cargo xtask faults` and `cargo xtask soak`: build and run the programs of `tools/faults`.

use std::process::{Command, ExitCode};

use tidegate_local_deployment::start::{API, PUMP};
use tidegate_local_deployment::{CommandError, StopRequests};

use crate::dev::start;
use crate::workspace::Workspace;

const PACKAGE: &str = "tidegate-faults";

/// A program of the package.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Harness {
    Faults,
    Soak,
}

/// The flags of `faults` and `soak`.
#[derive(Debug, clap::Args)]
#[command(disable_help_flag = true)]
pub(crate) struct HarnessOptions {
    /// Flags of the program; `--help` lists them
    #[arg(
        allow_hyphen_values = true,
        trailing_var_arg = true,
        value_name = "FLAGS"
    )]
    flags: Vec<String>,
}

impl Harness {
    const fn program(self) -> &'static str {
        match self {
            Self::Faults => "tidegate-faults",
            Self::Soak => "tidegate-soak",
        }
    }

    pub(crate) fn run(self, workspace: &Workspace, options: &HarnessOptions) -> ExitCode {
        let made = StopRequests::install()
            .map_err(|error| {
                CommandError::Failed(format!("failed to install signal handlers: {error}"))
            })
            .and_then(|signals| self.make_runs(workspace, options, &signals));
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
        self,
        workspace: &Workspace,
        options: &HarnessOptions,
        signals: &StopRequests,
    ) -> Result<bool, CommandError> {
        start::build(workspace, &[API, PUMP, PACKAGE], true, signals)?;
        let program = self.program();
        let mut command = Command::new(workspace.target().join("release").join(program));
        command.current_dir(workspace.root()).args(&options.flags);
        let child = command
            .spawn()
            .map_err(|error| format!("failed to run {program}: {error}"))?;
        Ok(start::wait_for(child, signals)?.success())
    }
}
