//! `tidegate`: publishes and manages jobs from a terminal or a script. It speaks `/v1` only.

mod admin_port;
mod arguments;
mod bench;
mod capacity;
mod cold;
mod commands;
mod dev;
mod doctor;
mod error_output;
mod failure;
mod manual;
mod many_jobs;
mod namespaces;
mod output;
mod probe;
mod signals;
mod tail;
mod top;
mod work;

use std::io::{self, Write};
use std::process::ExitCode;

use clap::Parser;
use tidegate::{Client, RepeatLimits};
use tokio::runtime::Runtime;

use crate::arguments::connection::ConnectionArguments;
use crate::arguments::{CliArguments, CliCommand};
use crate::error_output::ErrorLines;
use crate::failure::CommandFailure;
use crate::output::CommandOutput;

fn main() -> ExitCode {
    let arguments = CliArguments::parse();
    match Runtime::new() {
        Ok(runtime) => runtime.block_on(run_to_the_end(arguments)),
        Err(error) => {
            // Too few open files, for example. Not through `error_output`, which needs a runtime at its end.
            let _ = writeln!(io::stderr(), "error: failed to start the runtime: {error}");
            ExitCode::FAILURE
        }
    }
}

async fn run_to_the_end(arguments: CliArguments) -> ExitCode {
    if !matches!(arguments.command, CliCommand::Top(_)) {
        show_warnings();
    }
    let code = match run(arguments).await {
        Ok(code) => code,
        Err(failure) => {
            // The lines of a text of this program; texts of a server are escaped before.
            for line in format!("error: {failure}").lines() {
                error_output::write_line(line);
            }
            ExitCode::from(failure.exit_code())
        }
    };
    error_output::flush().await;
    code
}

/// Prints the warnings of the client to the standard error: a worker goes on after them.
fn show_warnings() {
    tracing_subscriber::fmt()
        .with_max_level(tracing_subscriber::filter::LevelFilter::WARN)
        .with_writer(|| ErrorLines)
        .with_ansi(false)
        .with_target(false)
        .init();
}

async fn run(arguments: CliArguments) -> Result<ExitCode, CommandFailure> {
    let mut code = ExitCode::SUCCESS;
    let output = match arguments.command {
        CliCommand::Capacity(load) => capacity::capacity(&load, arguments.json)?,
        CliCommand::Completions { shell } => CommandOutput::Bytes(manual::completions(shell)),
        CliCommand::Man { folder } => {
            manual::write_pages(&folder)?;
            return Ok(code);
        }
        CliCommand::Work(work) => {
            work::work(connect(arguments.connection)?, work).await?;
            return Ok(code);
        }
        CliCommand::Bench(bench) => {
            bench::bench(connect(arguments.connection)?, &bench, arguments.json).await?
        }
        CliCommand::Dev(dev) => {
            dev::dev(dev, arguments.json).await?;
            return Ok(code);
        }
        CliCommand::Tail(tail) => {
            tail::tail(&connect_once(arguments.connection)?, tail, arguments.json).await?;
            return Ok(code);
        }
        CliCommand::Top(top) => {
            let ConnectionArguments { url, namespace, .. } = &arguments.connection;
            let title = format!("{namespace} at {url}");
            top::top(
                connect_once(arguments.connection)?,
                title,
                &top,
                arguments.json,
            )
            .await?
        }
        CliCommand::Doctor(doctor) => {
            let report = doctor::check(&arguments.connection, &doctor).await?;
            if report.problems > 0 {
                code = ExitCode::FAILURE;
            }
            report.output(arguments.json)?
        }
        CliCommand::Cold(arguments) => cold::execute(arguments).await?,
        CliCommand::Namespace(arguments) => namespaces::execute(arguments).await?,
        CliCommand::Api(command) => {
            commands::execute(&connect(arguments.connection)?, command).await?
        }
    };
    output.print(arguments.json)?;
    Ok(code)
}

fn connect(connection: ConnectionArguments) -> Result<Client, CommandFailure> {
    connect_with(connection, RepeatLimits::default())
}

/// A client that repeats no request: the command looks again, and shows at once that the server is unavailable.
fn connect_once(connection: ConnectionArguments) -> Result<Client, CommandFailure> {
    let none = RepeatLimits {
        repetitions: 0,
        ..RepeatLimits::default()
    };
    connect_with(connection, none)
}

fn connect_with(
    connection: ConnectionArguments,
    repeat_limits: RepeatLimits,
) -> Result<Client, CommandFailure> {
    if connection.api_key.is_empty() {
        let text = "no API key is given; set TG_KEY";
        return Err(CommandFailure::Usage(text.to_owned()));
    }
    if connection.api_key.trim() != connection.api_key {
        let text = "the API key begins or ends with white space; remove it from TG_KEY";
        return Err(CommandFailure::Usage(text.to_owned()));
    }
    let builder = Client::builder(connection.url)
        .key(connection.api_key)
        .namespace(connection.namespace);
    Ok(builder.repeat_limits(repeat_limits).build()?)
}
