//! Builds and starts everything in order, and prints each step.

use std::path::Path;
use std::process::{Child, ExitStatus};

use tidegate_local_broker::LocalBroker;
use tidegate_local_deployment::start::{
    API, DaemonPrograms, PUMP, start_api, start_pumps, start_redis, wait_until,
};
use tidegate_local_deployment::{
    CommandError, DevProcess, DevSession, StopRequests, credentials, ports, state_folder,
};
use tidegate_local_redis::{self as local_redis, free_port, workspace_cache};

use super::dev_run::DevRun;
use super::options::{Options, RelayBroker};
use super::{cluster, relay, welcome};
use crate::workspace::Workspace;

const RELAY: &str = "tidegate-relayd";

pub(super) fn start_all(
    workspace: &Workspace,
    options: &Options,
    run: &mut DevRun,
    signals: &StopRequests,
) -> Result<(), CommandError> {
    let session = &mut run.session;
    let folder = workspace.target().join("dev");
    session.lock = Some(state_folder::lock(&folder)?);
    ports::check_ports(options.port, options.admin_port)?;
    if let Some(url) = &options.redis {
        ports::check_redis(url)?;
    }
    let redis = match &options.redis {
        Some(_) => None,
        None => Some(
            local_redis::obtain(&workspace_cache(), &mut |line| println!("{line}"))
                .map_err(|error| error.to_string())?,
        ),
    };
    signals.check_not_requested()?;
    let relay = options.relay.map(|_| RELAY);
    let packages: Vec<&str> = [API, PUMP].into_iter().chain(relay).collect();
    build(workspace, &packages, options.release, signals)?;
    let (url, mut arguments) = match (&options.redis, redis) {
        (Some(url), _) => (url.clone(), arguments_for_redis(url)),
        (None, Some(binary)) if options.cluster => {
            let cluster = cluster::start(binary, 1)?;
            let arguments = cluster::arguments(&cluster, &folder)?;
            let url = cluster::shown(&cluster);
            session.cluster = Some(cluster);
            (url, arguments)
        }
        (None, Some(binary)) => {
            let url = start_redis(binary, &folder, session)?;
            (url.clone(), vec!["--redis".to_owned(), url])
        }
        (None, None) => return Err(CommandError::Failed("no Redis is available".to_owned())),
    };
    if options.cold {
        let settings = cold_settings(&folder)?;
        arguments.extend(settings_arguments(&folder.join("cold.toml"), &settings)?);
    }
    let programs = options.programs(workspace, &folder);
    start_api(&programs, options.ports(), &arguments, session, signals)?;
    for warning in session.daemons.iter().flat_map(DevProcess::warnings) {
        println!("warning: {warning}");
    }
    start_pumps(&programs, options.pumps, &arguments, session, signals)?;
    credentials::make_credentials(options.admin_port)?;
    if let Some(broker) = options.relay {
        run.broker = Some(start_relay(
            broker, &programs, workspace, options, session, signals,
        )?);
    }
    print!("{}", welcome::welcome_text(options, run, workspace, &url));
    Ok(())
}

pub(crate) fn build(
    workspace: &Workspace,
    packages: &[&str],
    release: bool,
    signals: &StopRequests,
) -> Result<(), CommandError> {
    println!("building {}", packages.join(", "));
    let mut command = workspace.cargo();
    command.arg("build");
    for package in packages {
        command.args(["--package", package]);
    }
    if release {
        command.arg("--release");
    }
    let child = command
        .spawn()
        .map_err(|error| format!("failed to run cargo: {error}"))?;
    if wait_for(child, signals)?.success() {
        Ok(())
    } else {
        Err(CommandError::Failed(
            "the build failed; see above".to_owned(),
        ))
    }
}

/// Waits for a program to end; kills it if a stop is requested.
pub(crate) fn wait_for(
    mut child: Child,
    signals: &StopRequests,
) -> Result<ExitStatus, CommandError> {
    loop {
        if signals.is_requested() {
            let _ = child.kill();
        }
        match child.try_wait() {
            Ok(None) => signals.pause(),
            Ok(Some(status)) => return signals.check_not_requested().map(|()| status),
            Err(error) => return Err(CommandError::Failed(error.to_string())),
        }
    }
}

/// Starts a broker, and a relay to it. The API must be running, with its credentials.
fn start_relay(
    broker: RelayBroker,
    programs: &DaemonPrograms,
    workspace: &Workspace,
    options: &Options,
    session: &mut DevSession,
    signals: &StopRequests,
) -> Result<(LocalBroker, u16), CommandError> {
    let broker = relay::start_broker(broker, signals)?;
    let file = programs.logs().join("relayd.toml");
    relay::write_settings(&file, &broker, options.port)?;
    let port = free_port().ok_or_else(|| "no free port".to_owned())?;
    println!("starting {RELAY}");
    let arguments = [
        "--config".to_owned(),
        file.display().to_string(),
        "--admin-listen".to_owned(),
        format!("127.0.0.1:{port}"),
    ];
    let program = options.built(workspace).join(RELAY);
    let started = DevProcess::start(RELAY, &program, &arguments, programs.logs())?;
    session.daemons.push(started);
    let is_ready = |session: &DevSession| {
        session
            .daemons
            .last()
            .is_some_and(|relay| relay.has_logged("ready"))
    };
    wait_until(is_ready, RELAY, programs, session, signals)?;
    Ok((broker, port))
}

/// Settings for a cold tier in this folder that shows within seconds what it does.
pub(crate) fn cold_settings(folder: &Path) -> Result<String, CommandError> {
    let objects = folder.join("cold");
    let made = std::fs::create_dir_all(&objects);
    made.map_err(|error| format!("{}: {error}", objects.display()))?;
    Ok(format!(
        "[pool.default]\ncold_url = \"file://{}\"\ncold_after = \"30m\"\ncold_interval = \"1s\"\ncold_keep = \"1m\"\n",
        objects.display()
    ))
}

/// Writes settings into this file, and returns the arguments for it.
pub(crate) fn settings_arguments(file: &Path, text: &str) -> Result<[String; 2], CommandError> {
    let written = std::fs::write(file, text);
    written.map_err(|error| format!("{}: {error}", file.display()))?;
    Ok(["--config".to_owned(), file.display().to_string()])
}

/// For a Redis that the user named, unsafe settings only cause a warning.
fn arguments_for_redis(url: &str) -> Vec<String> {
    ["--redis", url, "--allow-unsafe-redis"]
        .map(str::to_owned)
        .to_vec()
}
