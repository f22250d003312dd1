//! `tidegate cold`: the cold tier, on the admin port of an API.

use clap::{Args, Subcommand};
use hyper::Method;

use crate::admin_port::AdminPort;
use crate::arguments::admin_port::AdminPortArguments;
use crate::failure::CommandFailure;
use crate::output::CommandOutput;

#[derive(Debug, Args)]
#[command(after_help = "Example:
  tidegate cold status --admin http://127.0.0.1:7778

To switch the tier off, set cold_freeze = false for the pumps, restart them, and wait until frozen_payloads and
thawed_payloads are 0: docs/cold-tier.md.")]
pub(crate) struct ColdArguments {
    #[command(flatten)]
    port: AdminPortArguments,
    #[command(subcommand)]
    command: ColdCommand,
}

#[derive(Debug, Subcommand)]
enum ColdCommand {
    /// Shows how many payloads of each pool are in the object store, how many are back, and whether it can be read.
    Status,
}

/// Executes the command.
///
/// # Errors
/// The server is unreachable, or refuses the request.
pub(crate) async fn execute(arguments: ColdArguments) -> Result<CommandOutput, CommandFailure> {
    let port = AdminPort::new(arguments.port)?;
    match arguments.command {
        ColdCommand::Status => {
            let answer = port.send(Method::GET, "/cold", None).await?;
            Ok(CommandOutput::Answer(answer))
        }
    }
}
