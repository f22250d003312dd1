//! `tidegate dev`: a deployment on this machine, for people who have installed the programs.

use std::path::{Path, PathBuf};

use clap::Args;
use serde_json::json;
use tempfile::TempDir;
use tidegate_local_deployment::credentials::{KEY, NAMESPACE, make_credentials};
use tidegate_local_deployment::ports::check_ports;
use tidegate_local_deployment::start::{
    ApiPorts, DaemonPrograms, start_api, start_pumps, start_redis,
};
use tidegate_local_deployment::{
    CommandError, DevProcess, DevSession, LocalRedisError, StopRequests, locate, state_folder,
};

use crate::failure::CommandFailure;
use crate::output::write_out;

#[derive(Debug, Args)]
#[command(
    after_help = "Starts a private Redis or Valkey (from PATH, or TG_REDIS_SERVER), tidegate-api and tidegate-pumpd (from the folder of
this program, or PATH), all on 127.0.0.1, and prints an API key and commands to try. Ctrl-C stops everything; so does the end
of this program in any other way.

Example:
  tidegate dev --folder ~/.local/state/tidegate"
)]
pub(crate) struct DevArguments {
    /// The port of the API.
    #[arg(long, default_value_t = 7777)]
    port: u16,
    /// The admin port of the API.
    #[arg(long, default_value_t = 7778)]
    admin_port: u16,
    /// Keeps the data and the logs in this folder. Default: a temporary folder, which is deleted at the end.
    #[arg(long)]
    folder: Option<PathBuf>,
}

/// Runs until a signal stops it.
///
/// # Errors
/// Something does not start, or ends. Everything is stopped then.
pub(crate) async fn dev(arguments: DevArguments, as_json: bool) -> Result<(), CommandFailure> {
    // All of it blocks.
    let running = tokio::task::spawn_blocking(move || run(&arguments, as_json)).await;
    match running {
        Ok(Ok(()) | Err(CommandError::Interrupted)) => Ok(()),
        Ok(Err(CommandError::Failed(reason))) => Err(CommandFailure::NotDone(reason)),
        Err(error) => Err(CommandFailure::NotDone(error.to_string())),
    }
}

fn run(arguments: &DevArguments, as_json: bool) -> Result<(), CommandError> {
    let signals = StopRequests::install()
        .map_err(|error| format!("failed to install signal handlers: {error}"))?;
    let (folder, temporary) = folder(arguments)?;
    let mut session = DevSession {
        print: if as_json { |_| {} } else { print_line },
        ..DevSession::default()
    };
    let ending = match start(arguments, &folder, &mut session, &signals) {
        Ok(redis) => {
            let text = match as_json {
                true => summary(arguments, &redis),
                false => welcome(arguments, &redis, &session),
            };
            print_line(&text);
            session.watch(&signals)
        }
        Err(ending) => ending,
    };
    if !session.is_empty() {
        session.stop_daemons(&signals);
        session.stop_redis();
        if temporary.is_some() {
            (session.print)("  the folder is deleted");
        }
    }
    Err(ending)
}

/// The folder of data and logs, and the guard that deletes it at the end.
fn folder(arguments: &DevArguments) -> Result<(PathBuf, Option<TempDir>), String> {
    if let Some(folder) = &arguments.folder {
        let absolute = std::path::absolute(folder);
        return Ok((absolute.map_err(|error| error.to_string())?, None));
    }
    let temporary = tempfile::Builder::new().prefix("tidegate-dev-").tempdir();
    let temporary = temporary.map_err(|error| format!("no temporary folder: {error}"))?;
    Ok((temporary.path().to_owned(), Some(temporary)))
}

/// Starts everything. Returns the URL of Redis.
fn start(
    arguments: &DevArguments,
    folder: &Path,
    session: &mut DevSession,
    signals: &StopRequests,
) -> Result<String, CommandError> {
    session.lock = Some(state_folder::lock(folder)?);
    check_ports(arguments.port, arguments.admin_port)?;
    let programs = DaemonPrograms::installed(folder)?;
    let failed = |error: LocalRedisError| error.to_string();
    let server = locate().map_err(failed)?.ok_or_else(|| {
        "no Redis or Valkey of version 7 or later is on PATH: install the package redis-server or valkey-server, or set \
         TG_REDIS_SERVER to the path of a server"
            .to_owned()
    })?;
    let url = start_redis(server, folder, session)?;
    let redis = ["--redis".to_owned(), url.clone()];
    let ports = ApiPorts {
        port: arguments.port,
        admin_port: arguments.admin_port,
    };
    start_api(&programs, ports, &redis, session, signals)?;
    start_pumps(&programs, 1, &redis, session, signals)?;
    make_credentials(arguments.admin_port)?;
    Ok(url)
}

fn print_line(text: &str) {
    // Nothing is left to do if the standard output is closed.
    drop(write_out(format!("{text}\n").as_bytes()));
}

/// For scripts: a line once everything runs.
fn summary(arguments: &DevArguments, redis: &str) -> String {
    let url = |port: u16| format!("http://127.0.0.1:{port}");
    json!({
        "url": url(arguments.port), "admin_url": url(arguments.admin_port), "redis_url": redis, "namespace": NAMESPACE,
        "key": KEY,
    })
    .to_string()
}

fn welcome(arguments: &DevArguments, redis: &str, session: &DevSession) -> String {
    let DevArguments {
        port, admin_port, ..
    } = arguments;
    let log = |daemon: &DevProcess| {
        let (log, pid) = (daemon.log().display(), daemon.pid());
        format!("  log    {log}  (process {pid})\n")
    };
    let logs: String = session.daemons.iter().map(log).collect();
    let option = match port {
        7777 => String::new(),
        _ => format!("TG_URL=http://127.0.0.1:{port} "),
    };
    format!(
        "\nTidegate is running. Ctrl-C stops it.

  API    http://127.0.0.1:{port}    admin  http://127.0.0.1:{admin_port}
  Redis  {redis}
{logs}
Paste these commands in another terminal. The first job is run by a program after three seconds; Ctrl-C ends the worker.

export {option}TG_NAMESPACE={NAMESPACE} TG_KEY={KEY}
tidegate publish close-unpaid '{{\"order\":17}}' --key order-17 --delay 3s
tidegate top --once
tidegate work close-unpaid -- sh -c 'cat; echo'
tidegate doctor --admin http://127.0.0.1:{admin_port}
"
    )
}
