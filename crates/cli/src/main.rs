//! `tidegate`: publishes and manages jobs from a terminal or a script. It speaks `/v1` only.

mod arguments;
mod commands;
mod failure;
mod output;

use std::io::Write;
use std::process::ExitCode;

use clap::Parser;
use tidegate::Client;

use crate::arguments::CliArguments;
use crate::failure::CommandFailure;

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
    let connection = arguments.connection;
    if connection.api_key.is_empty() {
        let text = "no API key is given; set TIDEGATE_KEY";
        return Err(CommandFailure::Usage(text.to_owned()));
    }
    let builder = Client::builder(connection.url).key(connection.api_key);
    let client = builder.namespace(connection.namespace).build()?;
    let output = commands::execute(&client, arguments.command).await?;
    output.print(arguments.json).map_err(|error| {
        CommandFailure::NotDone(format!("failed to write the standard output: {error}"))
    })
}
