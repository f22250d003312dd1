//! Bringing everything up, in order, with a word about each step.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use tidegate_local_redis::{self as local_redis, Error, RedisServer, free_port, workspace_cache};

use super::process::Daemon;
use super::session::Session;
use super::signals::Signals;
use super::{Ending, Options, http, leftovers, ports, state_folder, welcome};
use crate::workspace::Workspace;

const API: &str = "tidegate-api";
const PUMP: &str = "tidegate-pumpd";
const READY_LIMIT: Duration = Duration::from_secs(30);

pub(crate) fn bring_up(
    workspace: &Workspace,
    options: &Options,
    session: &mut Session,
    signals: &Signals,
) -> Result<(), Ending> {
    let folder = state_folder(workspace);
    session.lock = Some(leftovers::lock(&folder)?);
    leftovers::check(&folder)?;
    ports::check(options)?;
    let redis = match &options.redis {
        Some(_) => None,
        None => Some(
            local_redis::obtain(&workspace_cache(), &mut |line| say(line))
                .map_err(|error| error.to_string())?,
        ),
    };
    signals.check()?;
    build(workspace, options, signals)?;
    if let Some(binary) = redis {
        session.redis = Some(start_redis(binary, &folder)?);
    }
    let url = match (&options.redis, &session.redis) {
        (Some(url), _) => url.clone(),
        (None, Some(redis)) => redis.url(),
        (None, None) => return Err(Ending::Failed("there is no Redis".to_owned())),
    };
    start_api(workspace, options, &url, session, signals)?;
    for warning in session.daemons.iter().flat_map(Daemon::warnings) {
        say(&format!("warning: {warning}"));
    }
    start_pumps(workspace, options, &url, session, signals)?;
    welcome::make_token(options.admin_port)?;
    print!("{}", welcome::text(options, session, workspace, &url));
    Ok(())
}

fn say(line: &str) {
    println!("{line}");
}

fn build(workspace: &Workspace, options: &Options, signals: &Signals) -> Result<(), Ending> {
    say("building the daemons");
    let mut command = workspace.cargo();
    command.args(["build", "--package", API, "--package", PUMP]);
    if options.release {
        command.arg("--release");
    }
    let mut child = command
        .spawn()
        .map_err(|error| format!("cargo cannot run: {error}"))?;
    let status = loop {
        if signals.asked() {
            let _ = child.kill();
        }
        match child.try_wait() {
            Ok(None) => signals.pause(),
            Ok(Some(status)) => break status,
            Err(error) => return Err(Ending::Failed(format!("cargo: {error}"))),
        }
    };
    signals.check()?;
    if status.success() {
        Ok(())
    } else {
        Err(Ending::Failed(
            "the daemons do not build; see above".to_owned(),
        ))
    }
}

fn start_redis(binary: local_redis::ServerBinary, folder: &Path) -> Result<RedisServer, Ending> {
    say(&format!("starting {binary}"));
    let options = local_redis::Options::new(binary).data_folder(folder.join("redis"));
    RedisServer::start(options).map_err(|error| Ending::Failed(match error {
        Error::FolderInUse { pid: Some(pid), .. } => {
            format!("{error}: an earlier `cargo xtask dev` was killed and left it running\nend it first: kill {pid}")
        }
        other => other.to_string(),
    }))
}

fn start_api(
    workspace: &Workspace,
    options: &Options,
    url: &str,
    session: &mut Session,
    signals: &Signals,
) -> Result<(), Ending> {
    say(&format!("starting {API}"));
    let mut arguments = vec![
        "--listen".to_owned(),
        format!("127.0.0.1:{}", options.port),
        "--admin-listen".to_owned(),
        format!("127.0.0.1:{}", options.admin_port),
    ];
    arguments.extend(redis_arguments(options, url));
    let daemon = Daemon::start(
        API,
        &program(workspace, options, API),
        &arguments,
        &state_folder(workspace),
    )?;
    session.daemons.push(daemon);
    let is_ready = |_: &Session| {
        matches!(
            http::request("GET", options.admin_port, "/version"),
            Ok((200, _))
        )
    };
    wait_until(is_ready, API, session, signals)
}

fn start_pumps(
    workspace: &Workspace,
    options: &Options,
    url: &str,
    session: &mut Session,
    signals: &Signals,
) -> Result<(), Ending> {
    let first = session.daemons.len();
    for number in 1..=options.pumps {
        let name = format!("{PUMP}-{number}");
        let port = free_port().ok_or_else(|| "there is no free port".to_owned())?;
        say(&format!(
            "starting {name} (metrics: http://127.0.0.1:{port}/metrics)"
        ));
        let mut arguments = vec!["--admin-listen".to_owned(), format!("127.0.0.1:{port}")];
        arguments.extend(redis_arguments(options, url));
        let daemon = Daemon::start(
            &name,
            &program(workspace, options, PUMP),
            &arguments,
            &state_folder(workspace),
        )?;
        session.daemons.push(daemon);
    }
    let are_ready = |session: &Session| {
        session.daemons[first..]
            .iter()
            .all(|pump| pump.has_said("ready"))
    };
    wait_until(are_ready, PUMP, session, signals)
}

/// A Redis that was given by its URL is used as it is: here a warning is enough.
fn redis_arguments(options: &Options, url: &str) -> Vec<String> {
    let mut arguments = vec!["--redis".to_owned(), url.to_owned()];
    if options.redis.is_some() {
        arguments.push("--allow-unsafe-redis".to_owned());
    }
    arguments
}

fn program(workspace: &Workspace, options: &Options, name: &str) -> PathBuf {
    workspace
        .target()
        .join(if options.release { "release" } else { "debug" })
        .join(name)
}

fn wait_until(
    is_ready: impl Fn(&Session) -> bool,
    name: &str,
    session: &mut Session,
    signals: &Signals,
) -> Result<(), Ending> {
    let deadline = Instant::now() + READY_LIMIT;
    loop {
        signals.check()?;
        session.check()?;
        if is_ready(session) {
            return Ok(());
        }
        if Instant::now() >= deadline {
            let seconds = READY_LIMIT.as_secs();
            return Err(Ending::Failed(format!(
                "{name} was not ready within {seconds} s; see the logs in target/dev"
            )));
        }
        signals.pause();
    }
}
