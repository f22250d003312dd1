//! Starts Redis and the daemons, and waits until they serve.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use tidegate_local_program::{command, free_port};
use tidegate_local_redis::{LocalRedisError, LocalRedisOptions, RedisServer, ServerBinary};

use crate::ending::CommandError;
use crate::http;
use crate::process::DevProcess;
use crate::session::DevSession;
use crate::signals::StopRequests;

/// The name of the HTTP daemon.
pub const API: &str = "tidegate-api";
/// The name of a pump.
pub const PUMP: &str = "tidegate-pumpd";
const READY_LIMIT: Duration = Duration::from_secs(30);

/// The ports of the API on 127.0.0.1.
#[derive(Debug, Clone, Copy)]
pub struct ApiPorts {
    /// Port of the public listener.
    pub port: u16,
    /// Port of the admin listener.
    pub admin_port: u16,
}

/// The programs of the daemons, and the folder of their logs.
#[derive(Debug)]
pub struct DaemonPrograms {
    api: PathBuf,
    pump: PathBuf,
    logs: PathBuf,
}

impl DaemonPrograms {
    #[must_use]
    pub fn in_folder(programs: &Path, logs: &Path) -> Self {
        Self {
            api: programs.join(API),
            pump: programs.join(PUMP),
            logs: logs.to_owned(),
        }
    }

    /// The programs beside the running one, or on PATH.
    ///
    /// # Errors
    /// A message that names the program which is missing.
    pub fn installed(logs: &Path) -> Result<Self, String> {
        Ok(Self {
            api: installed(API)?,
            pump: installed(PUMP)?,
            logs: logs.to_owned(),
        })
    }

    /// The folder of the logs.
    #[must_use]
    pub fn logs(&self) -> &Path {
        &self.logs
    }
}

fn installed(name: &str) -> Result<PathBuf, String> {
    let own = std::env::current_exe().ok();
    let beside = own.and_then(|own| Some(own.parent()?.join(name)));
    let found = beside.into_iter().filter(|path| path.is_file());
    found.chain(command::on_path(name)).next().ok_or_else(|| {
        format!("no {name} beside this program or on PATH; install it there, of the same release")
    })
}

/// Starts a Redis with its data in a folder of `folder`.
///
/// # Errors
/// It does not start, or another one uses the folder.
pub fn start_redis(
    binary: ServerBinary,
    folder: &Path,
    session: &mut DevSession,
) -> Result<String, CommandError> {
    (session.print)(&format!("starting {binary}"));
    let options = LocalRedisOptions::new(binary)
        .data_folder(folder.join("redis"))
        // Publishes are refused then; without a limit the system ends processes instead.
        .setting("maxmemory", "1gb");
    let redis = RedisServer::start(options).map_err(|error| CommandError::Failed(match error {
        LocalRedisError::FolderInUse { pid: Some(pid), .. } => {
            format!("{error}: an earlier command was killed and left it running\nstop it first: kill {pid}")
        }
        other => other.to_string(),
    }))?;
    Ok(session.redis.insert(redis).url())
}

/// Starts the API with these arguments for its Redis, and waits until it serves.
///
/// # Errors
/// It does not serve in time, or a stop was requested.
pub fn start_api(
    programs: &DaemonPrograms,
    ports: ApiPorts,
    redis: &[String],
    session: &mut DevSession,
    signals: &StopRequests,
) -> Result<(), CommandError> {
    (session.print)(&format!("starting {API}"));
    let mut arguments = vec![
        "--listen".to_owned(),
        format!("127.0.0.1:{}", ports.port),
        "--admin-listen".to_owned(),
        format!("127.0.0.1:{}", ports.admin_port),
    ];
    arguments.extend_from_slice(redis);
    let api = DevProcess::start(API, &programs.api, &arguments, &programs.logs)?;
    session.daemons.push(api);
    let is_ready = |_: &DevSession| {
        matches!(
            http::request("GET", ports.admin_port, "/version", ""),
            Ok((200, _))
        )
    };
    wait_until(is_ready, API, programs, session, signals)
}

/// Starts so many pumps with these arguments for their Redis, and waits until they are ready.
///
/// # Errors
/// One is not ready in time, or a stop was requested.
pub fn start_pumps(
    programs: &DaemonPrograms,
    pumps: u8,
    redis: &[String],
    session: &mut DevSession,
    signals: &StopRequests,
) -> Result<(), CommandError> {
    let first = session.daemons.len();
    for number in 1..=pumps {
        let name = format!("{PUMP}-{number}");
        let port = free_port().ok_or_else(|| "no free port".to_owned())?;
        (session.print)(&format!(
            "starting {name} (metrics: http://127.0.0.1:{port}/metrics)"
        ));
        let mut arguments = vec!["--admin-listen".to_owned(), format!("127.0.0.1:{port}")];
        arguments.extend_from_slice(redis);
        let pump = DevProcess::start(&name, &programs.pump, &arguments, &programs.logs)?;
        session.daemons.push(pump);
    }
    let are_ready = |session: &DevSession| {
        session.daemons[first..]
            .iter()
            .all(|pump| pump.has_logged("ready"))
    };
    wait_until(are_ready, PUMP, programs, session, signals)
}

/// Waits until `is_ready`, for the daemon `name`.
///
/// # Errors
/// It is not ready in time, a process ended, or a stop was requested.
pub fn wait_until(
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
                programs.logs.display()
            )));
        }
        signals.pause();
    }
}
