//! `tidegate`: publishes and manages jobs from a terminal or a script. It speaks `/v1` only.

mod arguments;
mod capacity;
mod commands;
mod failure;
mod manual;
mod many_jobs;
mod output;
mod work;

use std::io::Write;
use std::process::ExitCode;

use clap::Parser;
use tidegate::Client;

use crate::arguments::{CliArguments, CliCommand, ConnectionArguments};
use crate::failure::CommandFailure;
use crate::output::CommandOutput;

#[tokio::main]
async fn main() -> ExitCode {
    match run(CliArguments::parse()).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            // Nothing is left to do if the standard error is closed.
            drop(writeln!(std::io::stderr(), "error: {failure}"));
            ExitCode::from(failure.exit_code())
        }
    }
}

async fn run(arguments: CliArguments) -> Result<(), CommandFailure> {
    let output = match arguments.command {
        CliCommand::Capacity(load) => capacity::capacity(&load, arguments.json)?,
        CliCommand::Completions { shell } => CommandOutput::Bytes(manual::completions(shell)),
        CliCommand::Man { folder } => return manual::write_pages(&folder),
        CliCommand::Work(work) => return work::work(connect(arguments.connection)?, work).await,
        CliCommand::Api(command) => {
            commands::execute(&connect(arguments.connection)?, command).await?
        }
    };
    output.print(arguments.json).map_err(|error| {
        CommandFailure::NotDone(format!("failed to write the standard output: {error}"))
    })
}

fn connect(connection: ConnectionArguments) -> Result<Client, CommandFailure> {
    if connection.api_key.is_empty() {
        let text = "no API key is given; set TIDEGATE_KEY";
        return Err(CommandFailure::Usage(text.to_owned()));
    }
    let builder = Client::builder(connection.url).key(connection.api_key);
    Ok(builder.namespace(connection.namespace).build()?)
}
