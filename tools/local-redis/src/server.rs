//! A private server: start, stop, kill, pause, restart.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tidegate_local_program::free_port;

use crate::error::LocalRedisError;
use crate::folder::DataFolder;
use crate::locate::ServerBinary;
use crate::options::LocalRedisOptions;
use crate::process::ServerProcess;

const PORT_TRIES: usize = 5;
const STOP_LIMIT: Duration = Duration::from_secs(10);

/// A Redis server on 127.0.0.1, private to this process.
///
/// Dropping it kills the server (see [`kill`](Self::kill)) and removes a temporary data folder, unless
/// `TG_KEEP=1` is set.
#[derive(Debug)]
pub struct RedisServer {
    // Dropped in this order: the process ends before its folder is removed.
    process: Option<ServerProcess>,
    folder: DataFolder,
    options: LocalRedisOptions,
    port: u16,
}

impl RedisServer {
    /// Starts a server and waits until it accepts commands: it answers PING, and has loaded all data.
    ///
    /// # Errors
    /// [`LocalRedisError::FolderInUse`] if another server uses the given data folder; [`LocalRedisError::NotStarted`],
    /// with the last lines of its log, if the server ended or was not up within 20 s;
    /// [`LocalRedisError::Io`] if a system call failed or no port is free.
    pub fn start(options: LocalRedisOptions) -> Result<Self, LocalRedisError> {
        let folder = DataFolder::open(options.data_folder.as_deref())?;
        let mut tries_left = PORT_TRIES;
        loop {
            let port = match options.port {
                Some(port) => port,
                None => free_port().ok_or_else(no_free_port)?,
            };
            match ServerProcess::start(&options, &folder, port) {
                Ok(process) => {
                    return Ok(Self {
                        process: Some(process),
                        folder,
                        options,
                        port,
                    });
                }
                Err(error)
                    if options.port.is_none() && tries_left > 1 && is_port_in_use(&error) =>
                {
                    tries_left -= 1
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// Starts the server again after [`stop`](Self::stop) or [`kill`](Self::kill), on the same port with the same data.
    /// Does nothing if it is running.
    ///
    /// # Errors
    /// As for [`start`](Self::start), but no other port is tried.
    pub fn restart(&mut self) -> Result<(), LocalRedisError> {
        if !self.is_running() {
            self.process = None;
            self.process = Some(ServerProcess::start(
                &self.options,
                &self.folder,
                self.port,
            )?);
        }
        Ok(())
    }

    /// Sets a line of `redis.conf` from the next start on. Replaces all lines with that name.
    pub fn set_for_next_start(&mut self, name: &str, value: &str) {
        self.options.replace_setting(name, value);
    }

    /// Stops the server with SIGTERM, which writes all data to disk; kills it if it has not ended after 10 s. Returns
    /// whether SIGTERM was enough; `true` if the server was not running.
    pub fn stop(&mut self) -> bool {
        let ended = self
            .process
            .take()
            .is_none_or(|mut process| process.stop(STOP_LIMIT));
        self.folder.remove_pid();
        ended
    }

    /// Kills the server (SIGKILL), like a crash of the process. Data that it has written to the operating system are
    /// kept; a crash of the machine could lose more.
    pub fn kill(&mut self) {
        self.process = None;
        self.folder.remove_pid();
    }

    /// Pauses the server (SIGSTOP): connections stay open, and nothing is answered.
    ///
    /// # Errors
    /// [`LocalRedisError::Io`] if it is not running.
    pub fn pause(&self) -> Result<(), LocalRedisError> {
        self.running("pausing the server", ServerProcess::pause)
    }

    /// Resumes a paused server (SIGCONT).
    ///
    /// # Errors
    /// [`LocalRedisError::Io`] if it is not running.
    pub fn resume(&self) -> Result<(), LocalRedisError> {
        self.running("resuming the server", ServerProcess::resume)
    }

    fn running(
        &self,
        doing: &str,
        act: impl FnOnce(&ServerProcess) -> std::io::Result<()>,
    ) -> Result<(), LocalRedisError> {
        let process = self
            .process
            .as_ref()
            .ok_or_else(|| std::io::Error::other("the server is not running"));
        process.and_then(act).map_err(LocalRedisError::io(doing))
    }

    /// Whether the process is running. A paused process is running.
    pub fn is_running(&mut self) -> bool {
        self.process
            .as_mut()
            .is_some_and(|process| process.exit_status().is_none())
    }

    /// The port on 127.0.0.1. It stays the same over restarts.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    /// 127.0.0.1 and the port.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        SocketAddr::from((std::net::Ipv4Addr::LOCALHOST, self.port))
    }

    /// `redis://127.0.0.1:PORT`.
    #[must_use]
    pub fn url(&self) -> String {
        format!("redis://{}", self.address())
    }

    /// The process id of the last start; `None` after a stop or kill.
    #[must_use]
    pub fn pid(&self) -> Option<u32> {
        self.process.as_ref().map(ServerProcess::pid)
    }

    /// The server program.
    #[must_use]
    pub fn binary(&self) -> &ServerBinary {
        &self.options.binary
    }

    /// The folder with data, configuration (`redis.conf`) and log.
    #[must_use]
    pub fn data_folder(&self) -> &Path {
        self.folder.path()
    }

    /// The path of the server's log. Restarts append to it.
    #[must_use]
    pub fn log_path(&self) -> PathBuf {
        self.folder.log_path()
    }

    /// Returns the last lines of the log: at most 12.
    #[must_use]
    pub fn log_tail(&self) -> String {
        self.folder.log_tail(0)
    }
}

impl Drop for RedisServer {
    fn drop(&mut self) {
        self.kill();
    }
}

fn is_port_in_use(error: &LocalRedisError) -> bool {
    matches!(error, LocalRedisError::NotStarted { log, .. } if log.contains("Address already in use"))
}

fn no_free_port() -> LocalRedisError {
    LocalRedisError::Io {
        doing: "choosing a port".to_owned(),
        source: std::io::ErrorKind::AddrNotAvailable.into(),
    }
}
