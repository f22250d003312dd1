//! Starts everything in order, and prints each step.

use std::path::{Path, PathBuf};
use std::process::{Child, ExitStatus};
use std::time::{Duration, Instant};

use tidegate_local_redis::{
    self as local_redis, LocalRedisError, RedisServer, free_port, workspace_cache,
};

use super::ending::CommandError;
use super::options::{Options, RelayBroker};
use super::process::DevProcess;
use super::session::DevSession;
use super::signals::StopRequests;
use super::{cluster, demo, http, ports, relay, state_folder, welcome};
use crate::workspace::Workspace;

pub(crate) const API: &str = "tidegate-api";
pub(crate) const PUMP: &str = "tidegate-pumpd";
const RELAY: &str = "tidegate-relayd";
const READY_LIMIT: Duration = Duration::from_secs(30);

pub(crate) fn start_all(
    workspace: &Workspace,
    options: &Options,
    session: &mut DevSession,
    signals: &StopRequests,
) -> Result<(), CommandError> {
    let folder = state_folder::state_folder(workspace);
    session.lock = Some(state_folder::lock(&folder)?);
    state_folder::check_no_daemons(&folder)?;
    ports::check(options)?;
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
    let feature = options.relay.and_then(RelayBroker::feature);
    build(workspace, &packages, feature, options.release, signals)?;
    let (url, arguments) = match (&options.redis, redis) {
        (Some(url), _) => (url.clone(), arguments_for_redis(url)),
        (None, Some(binary)) if options.cluster => {
            let cluster = cluster::start(binary, 1)?;
            let arguments = cluster::arguments(&cluster, &folder)?;
            let url = cluster::shown(&cluster);
            session.cluster = Some(cluster);
            (url, arguments)
        }
        (None, Some(binary)) => {
            let redis = start_redis(binary, &folder)?;
            let url = redis.url();
            session.redis = Some(redis);
            (url.clone(), vec!["--redis".to_owned(), url])
        }
        (None, None) => return Err(CommandError::Failed("no Redis is available".to_owned())),
    };
    let programs = DaemonPrograms::new(workspace, options, &folder);
    start_api(&programs, options, &arguments, session, signals)?;
    for warning in session.daemons.iter().flat_map(DevProcess::warnings) {
        println!("warning: {warning}");
    }
    start_pumps(&programs, options, &arguments, session, signals)?;
    demo::make_credentials(options.admin_port)?;
    if let Some(broker) = options.relay {
        start_relay(broker, &programs, options, session, signals)?;
    }
    print!(
        "{}",
        welcome::welcome_text(options, session, workspace, &url)
    );
    Ok(())
}

/// Builds these packages, with a feature if one is given.
pub(crate) fn build(
    workspace: &Workspace,
    packages: &[&str],
    feature: Option<&str>,
    release: bool,
    signals: &StopRequests,
) -> Result<(), CommandError> {
    println!("building {}", packages.join(", "));
    let mut command = workspace.cargo();
    command.arg("build");
    for package in packages {
        command.args(["--package", package]);
    }
    if let Some(feature) = feature {
        command.args(["--features", feature]);
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

/// Folders of the daemons' programs and of their logs.
#[derive(Debug)]
pub(crate) struct DaemonPrograms {
    built: PathBuf,
    folder: PathBuf,
}

impl DaemonPrograms {
    /// Selects the programs of the requested profile; logs go to `folder`.
    pub(crate) fn new(workspace: &Workspace, options: &Options, folder: &Path) -> Self {
        let profile = if options.release { "release" } else { "debug" };
        Self {
            built: workspace.target().join(profile),
            folder: folder.to_owned(),
        }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.built.join(name)
    }

    /// Starts a program under this name.
    fn start(&self, program: &str, name: &str, arguments: &[String]) -> Result<DevProcess, String> {
        DevProcess::start(name, &self.path(program), arguments, &self.folder)
    }
}

fn start_redis(
    binary: local_redis::ServerBinary,
    folder: &Path,
) -> Result<RedisServer, CommandError> {
    println!("starting {binary}");
    let options = local_redis::LocalRedisOptions::new(binary).data_folder(folder.join("redis"));
    RedisServer::start(options).map_err(|error| CommandError::Failed(match error {
        LocalRedisError::FolderInUse { pid: Some(pid), .. } => {
            format!("{error}: an earlier `cargo xtask dev` was killed and left it running\nstop it first: kill {pid}")
        }
        other => other.to_string(),
    }))
}

pub(crate) fn start_api(
    programs: &DaemonPrograms,
    options: &Options,
    redis: &[String],
    session: &mut DevSession,
    signals: &StopRequests,
) -> Result<(), CommandError> {
    println!("starting {API}");
    let mut arguments = vec![
        "--listen".to_owned(),
        format!("127.0.0.1:{}", options.port),
        "--admin-listen".to_owned(),
        format!("127.0.0.1:{}", options.admin_port),
    ];
    arguments.extend_from_slice(redis);
    session.daemons.push(programs.start(API, API, &arguments)?);
    let is_ready = |_: &DevSession| {
        matches!(
            http::request("GET", options.admin_port, "/version", ""),
            Ok((200, _))
        )
    };
    wait_until(is_ready, API, programs, session, signals)
}

pub(crate) fn start_pumps(
    programs: &DaemonPrograms,
    options: &Options,
    redis: &[String],
    session: &mut DevSession,
    signals: &StopRequests,
) -> Result<(), CommandError> {
    let first = session.daemons.len();
    for number in 1..=options.pumps {
        let name = format!("{PUMP}-{number}");
        let port = free_port().ok_or_else(|| "no free port".to_owned())?;
        println!("starting {name} (metrics: http://127.0.0.1:{port}/metrics)");
        let mut arguments = vec!["--admin-listen".to_owned(), format!("127.0.0.1:{port}")];
        arguments.extend_from_slice(redis);
        session
            .daemons
            .push(programs.start(PUMP, &name, &arguments)?);
    }
    let are_ready = |session: &DevSession| {
        session.daemons[first..]
            .iter()
            .all(|pump| pump.has_logged("ready"))
    };
    wait_until(are_ready, PUMP, programs, session, signals)
}

/// Starts a broker, and a relay to it. The API must be running, with its credentials.
fn start_relay(
    broker: RelayBroker,
    programs: &DaemonPrograms,
    options: &Options,
    session: &mut DevSession,
    signals: &StopRequests,
) -> Result<(), CommandError> {
    let broker = relay::start_broker(broker, signals)?;
    let file = programs.folder.join("relayd.toml");
    relay::write_settings(&file, &broker, options.port)?;
    let port = free_port().ok_or_else(|| "no free port".to_owned())?;
    println!("starting {RELAY}");
    let arguments = [
        "--config".to_owned(),
        file.display().to_string(),
        "--admin-listen".to_owned(),
        format!("127.0.0.1:{port}"),
    ];
    session
        .daemons
        .push(programs.start(RELAY, RELAY, &arguments)?);
    session.broker = Some((broker, port));
    let is_ready = |session: &DevSession| {
        session
            .daemons
            .last()
            .is_some_and(|relay| relay.has_logged("ready"))
    };
    wait_until(is_ready, RELAY, programs, session, signals)
}

/// For a Redis that the user named, unsafe settings only cause a warning.
fn arguments_for_redis(url: &str) -> Vec<String> {
    ["--redis", url, "--allow-unsafe-redis"]
        .map(str::to_owned)
        .to_vec()
}

fn wait_until(
    is_ready: impl Fn(&DevSession) -> bool,
    name: &str,
    programs: &DaemonPrograms,
    session: &mut DevSession,
    signals: &StopRequests,
) -> Result<(), CommandError> {
    let deadline = Instant::now() + READY_LIMIT;
    loop {
        signals.check_not_requested()?;
        session.check()?;
        if is_ready(session) {
            return Ok(());
        }
        if Instant::now() >= deadline {
            let seconds = READY_LIMIT.as_secs();
            return Err(CommandError::Failed(format!(
                "{name} was not ready within {seconds} s; see the logs in {}",
                programs.folder.display()
            )));
        }
        signals.pause();
    }
}
