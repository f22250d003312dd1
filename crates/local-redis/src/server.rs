//! A private server and what can be done to it.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::process::Signal;

use crate::error::Error;
use crate::folder::DataFolder;
use crate::locate::ServerBinary;
use crate::options::Options;
use crate::port::free_port;
use crate::process::Process;

/// The environment variable that, set to `1`, keeps temporary data folders.
pub const KEEP_VARIABLE: &str = "TIDEGATE_KEEP";

const PORT_TRIES: usize = 5;
const STOP_LIMIT: Duration = Duration::from_secs(10);

/// A Redis server on 127.0.0.1, run by this process and for it alone.
///
/// Dropping it ends the server at once (as [`kill`](Self::kill) does) and removes a temporary data folder, unless
/// `TIDEGATE_KEEP=1` is set.
#[derive(Debug)]
pub struct RedisServer {
    // Dropped in this order: the folder is removed when nobody writes to it any more.
    process: Option<Process>,
    folder: DataFolder,
    options: Options,
    port: u16,
}

impl RedisServer {
    /// Starts a server and waits until it takes commands: it answers PING, and all its data are loaded.
    ///
    /// # Errors
    /// [`Error::FolderInUse`] if another server works in the given data folder; [`Error::NotStarted`], with the last
    /// lines of its log, if the server ended or was not up within [`Options::start_limit`]; [`Error::Io`].
    pub fn start(options: Options) -> Result<Self, Error> {
        let folder = DataFolder::open(options.data_folder.as_deref())?;
        let mut tries_left = PORT_TRIES;
        loop {
            let port = match options.port {
                Some(port) => port,
                None => free_port().ok_or_else(no_port)?,
            };
            match Process::start(&options, &folder, port) {
                Ok(process) => {
                    return Ok(Self {
                        process: Some(process),
                        folder,
                        options,
                        port,
                    });
                }
                Err(error) if options.port.is_none() && tries_left > 1 && lost_the_port(&error) => {
                    tries_left -= 1
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// Starts the server again after [`stop`](Self::stop) or [`kill`](Self::kill), on the same port with the same data.
    /// Does nothing if it runs.
    ///
    /// # Errors
    /// As for [`start`](Self::start); there is no second choice of a port.
    pub fn start_again(&mut self) -> Result<(), Error> {
        if !self.is_running() {
            self.process = None;
            self.process = Some(Process::start(&self.options, &self.folder, self.port)?);
        }
        Ok(())
    }

    /// From the next start on it has this line in `redis.conf`, in the place of other lines of that name.
    pub fn set_for_next_start(&mut self, name: &str, value: &str) {
        self.options.replace_setting(name, value);
    }

    /// Asks the server to end (SIGTERM), which writes all data to disk; kills it if it has not ended after 10 s. Whether
    /// it ended by itself; `true` if it did not run.
    pub fn stop(&mut self) -> bool {
        let ended = self
            .process
            .take()
            .is_none_or(|mut process| process.stop(STOP_LIMIT));
        self.folder.forget_process();
        ended
    }

    /// Ends the server at once (SIGKILL), as a crash of the process would. What it had handed to the operating system
    /// is kept; a crash of the whole machine could lose more.
    pub fn kill(&mut self) {
        self.process = None;
        self.folder.forget_process();
    }

    /// Stops the server in its tracks (SIGSTOP): connections stay open and nothing is answered.
    ///
    /// # Errors
    /// [`Error::Io`] if it does not run.
    pub fn pause(&self) -> Result<(), Error> {
        self.signal(Signal::STOP, "pausing the server")
    }

    /// Lets a paused server go on (SIGCONT).
    ///
    /// # Errors
    /// [`Error::Io`] if it does not run.
    pub fn resume(&self) -> Result<(), Error> {
        self.signal(Signal::CONT, "resuming the server")
    }

    fn signal(&self, signal: Signal, doing: &str) -> Result<(), Error> {
        let process = self
            .process
            .as_ref()
            .ok_or_else(|| std::io::Error::other("the server does not run"));
        process
            .and_then(|process| process.signal(signal))
            .map_err(Error::io(doing))
    }

    /// Whether the process runs (paused counts as running).
    pub fn is_running(&mut self) -> bool {
        self.process
            .as_mut()
            .is_some_and(|process| process.ended().is_none())
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

    /// The process id, while it runs.
    #[must_use]
    pub fn pid(&self) -> Option<u32> {
        self.process.as_ref().map(Process::pid)
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

    /// The server's log. It is continued over restarts.
    #[must_use]
    pub fn log_path(&self) -> PathBuf {
        self.folder.log_path()
    }

    /// The last lines of the log.
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

fn lost_the_port(error: &Error) -> bool {
    matches!(error, Error::NotStarted { log, .. } if log.contains("Address already in use"))
}

fn no_port() -> Error {
    Error::Io {
        doing: "choosing a port".to_owned(),
        source: std::io::ErrorKind::AddrNotAvailable.into(),
    }
}
