//! Bringing everything up, in order, with a word about each step.

use std::path::{Path, PathBuf};
use std::process::{Child, ExitStatus};
use std::time::{Duration, Instant};

use tidegate_local_redis::{self as local_redis, Error, RedisServer, free_port, workspace_cache};

use super::process::Daemon;
use super::session::Session;
use super::signals::Signals;
use super::{Ending, Options, cluster, http, leftovers, ports, state_folder, welcome};
use crate::workspace::Workspace;

pub(crate) const API: &str = "tidegate-api";
pub(crate) const PUMP: &str = "tidegate-pumpd";
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
    build(workspace, &[API, PUMP], options.release, signals)?;
    let (url, arguments) = match (&options.redis, redis) {
        (Some(url), _) => (url.clone(), arguments_for_given(url)),
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
        (None, None) => return Err(Ending::Failed("there is no Redis".to_owned())),
    };
    let programs = Programs::of(workspace, options, &folder);
    start_api(&programs, options, &arguments, session, signals)?;
    for warning in session.daemons.iter().flat_map(Daemon::warnings) {
        say(&format!("warning: {warning}"));
    }
    start_pumps(&programs, options, &arguments, session, signals)?;
    welcome::make_token(options.admin_port)?;
    print!("{}", welcome::text(options, session, workspace, &url));
    Ok(())
}

pub(super) fn say(line: &str) {
    println!("{line}");
}

/// Builds these packages.
pub(crate) fn build(
    workspace: &Workspace,
    packages: &[&str],
    release: bool,
    signals: &Signals,
) -> Result<(), Ending> {
    say(&format!("building {}", packages.join(", ")));
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
        .map_err(|error| format!("cargo cannot run: {error}"))?;
    if wait_for(child, signals)?.success() {
        Ok(())
    } else {
        Err(Ending::Failed("the build failed; see above".to_owned()))
    }
}

/// Waits for a program to end; ends it if somebody asks to.
pub(crate) fn wait_for(mut child: Child, signals: &Signals) -> Result<ExitStatus, Ending> {
    loop {
        if signals.asked() {
            let _ = child.kill();
        }
        match child.try_wait() {
            Ok(None) => signals.pause(),
            Ok(Some(status)) => return signals.check().map(|()| status),
            Err(error) => return Err(Ending::Failed(error.to_string())),
        }
    }
}

/// Where the daemons' programs are, and where they write.
#[derive(Debug)]
pub(crate) struct Programs {
    built: PathBuf,
    folder: PathBuf,
}

impl Programs {
    /// The programs of the profile that is asked for; logs go to `folder`.
    pub(crate) fn of(workspace: &Workspace, options: &Options, folder: &Path) -> Self {
        let profile = if options.release { "release" } else { "debug" };
        Self {
            built: workspace.target().join(profile),
            folder: folder.to_owned(),
        }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.built.join(name)
    }

    /// Starts one of them under a name.
    fn start(&self, program: &str, name: &str, arguments: &[String]) -> Result<Daemon, String> {
        Daemon::start(name, &self.path(program), arguments, &self.folder)
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

pub(crate) fn start_api(
    programs: &Programs,
    options: &Options,
    redis: &[String],
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
    arguments.extend_from_slice(redis);
    session.daemons.push(programs.start(API, API, &arguments)?);
    let is_ready = |_: &Session| {
        matches!(
            http::request("GET", options.admin_port, "/version"),
            Ok((200, _))
        )
    };
    wait_until(is_ready, API, programs, session, signals)
}

pub(crate) fn start_pumps(
    programs: &Programs,
    options: &Options,
    redis: &[String],
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
        arguments.extend_from_slice(redis);
        session
            .daemons
            .push(programs.start(PUMP, &name, &arguments)?);
    }
    let are_ready = |session: &Session| {
        session.daemons[first..]
            .iter()
            .all(|pump| pump.has_said("ready"))
    };
    wait_until(are_ready, PUMP, programs, session, signals)
}

/// A Redis that was given by its URL is used as it is: here a warning is enough.
fn arguments_for_given(url: &str) -> Vec<String> {
    ["--redis", url, "--allow-unsafe-redis"]
        .map(str::to_owned)
        .to_vec()
}

fn wait_until(
    is_ready: impl Fn(&Session) -> bool,
    name: &str,
    programs: &Programs,
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
                "{name} was not ready within {seconds} s; see the logs in {}",
                programs.folder.display()
            )));
        }
        signals.pause();
    }
}
