//! One run of a server process.

use std::fs::{self, File};
use std::io;
use std::os::unix::process::CommandExt;
use std::process::{Child, ExitStatus, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process, waitid};

use crate::error::LocalRedisError;
use crate::folder::DataFolder;
use crate::options::LocalRedisOptions;
use crate::probe::{ProbeResult, probe};
use crate::watchdog::Watchdog;

const POLL_INTERVAL: Duration = Duration::from_millis(5);

#[derive(Debug)]
pub(crate) struct ServerProcess {
    child: Child,
    /// Dropped before `child` is reaped.
    watchdog: Option<Watchdog>,
    status: Option<ExitStatus>,
}

impl ServerProcess {
    /// Starts the program and waits until it accepts commands.
    pub(crate) fn start(
        options: &LocalRedisOptions,
        folder: &DataFolder,
        port: u16,
    ) -> Result<Self, LocalRedisError> {
        let log_begin = fs::metadata(folder.log_path()).map_or(0, |data| data.len());
        let mut process = Self::spawn(options, folder, port)?;
        folder.write_pid(process.pid(), port)?;
        process.wait_until_ready(options, port).map_err(|reason| {
            process.kill();
            folder.remove_pid();
            LocalRedisError::NotStarted {
                program: options.binary.path().to_owned(),
                port,
                reason,
                log_path: folder.log_path(),
                log: folder.log_tail(log_begin),
            }
        })?;
        Ok(process)
    }

    /// The server has a separate process group: Ctrl-C in a terminal reaches only the parent, which then ends the
    /// server.
    fn spawn(
        options: &LocalRedisOptions,
        folder: &DataFolder,
        port: u16,
    ) -> Result<Self, LocalRedisError> {
        let configuration = folder.configuration_path();
        if !options.keeps_its_file() || !configuration.exists() {
            fs::write(&configuration, options.configuration(port, folder.path())).map_err(
                LocalRedisError::io(format!("writing {}", configuration.display())),
            )?;
        }
        let log = folder.log_path();
        let log_doing = format!("opening {}", log.display());
        let output = File::options()
            .create(true)
            .append(true)
            .open(log)
            .map_err(LocalRedisError::io(&log_doing))?;
        let errors = output
            .try_clone()
            .map_err(LocalRedisError::io(&log_doing))?;
        let mut command = match options.ignores_sigxfsz {
            true => options.binary.command_ignoring_sigxfsz(),
            false => options.binary.command(),
        };
        command
            .arg(configuration)
            .args(options.is_sentinel.then_some("--sentinel"))
            .envs(
                options
                    .environment
                    .iter()
                    .map(|(name, value)| (name, value)),
            )
            .process_group(0)
            .stdin(Stdio::null())
            .stdout(output)
            .stderr(errors);
        let doing = format!("starting {}", options.binary.path().display());
        let child = command.spawn().map_err(LocalRedisError::io(doing))?;
        let mut process = Self {
            child,
            watchdog: None,
            status: None,
        };
        process.watchdog =
            Some(Watchdog::watch(process.pid()).map_err(LocalRedisError::io("starting sh"))?);
        Ok(process)
    }

    fn wait_until_ready(&mut self, options: &LocalRedisOptions, port: u16) -> Result<(), String> {
        let deadline = Instant::now() + options.start_limit;
        loop {
            if let Some(status) = self.exit_status() {
                return Err(format!("the process ended ({status})"));
            }
            let answer = match probe(port, options.login().as_deref()) {
                ProbeResult::Ready(pid) if pid == self.pid() => return Ok(()),
                ProbeResult::Ready(other) => {
                    format!("another server (process {other}) uses the port")
                }
                ProbeResult::NotReady(said) => said,
            };
            if Instant::now() >= deadline {
                return Err(format!(
                    "it was not up within {} s: {answer}",
                    options.start_limit.as_secs()
                ));
            }
            sleep(POLL_INTERVAL);
        }
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Returns the exit status if the process has ended. Reaping frees the process id, so the watchdog is stopped
    /// first.
    pub(crate) fn exit_status(&mut self) -> Option<ExitStatus> {
        if !self.is_running() && self.status.is_none() {
            self.reap();
        }
        self.status
    }

    fn reap(&mut self) {
        self.watchdog = None;
        self.status = self.child.wait().ok();
    }

    /// Whether the process is running. Does not reap it, so its process id is not reused.
    fn is_running(&self) -> bool {
        let look = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        self.status.is_none()
            && matches!(
                waitid(WaitId::Pid(Pid::from_child(&self.child)), look),
                Ok(None)
            )
    }

    pub(crate) fn signal(&self, signal: Signal) -> io::Result<()> {
        if !self.is_running() {
            return Err(io::Error::other("the server is not running"));
        }
        Ok(kill_process(Pid::from_child(&self.child), signal)?)
    }

    /// Sends SIGTERM, and SIGKILL if the process has not ended within `limit`. Returns whether SIGTERM was
    /// enough; true if the process had ended before.
    pub(crate) fn stop(&mut self, limit: Duration) -> bool {
        if self.exit_status().is_some() {
            return true;
        }
        // A stopped process does not handle SIGTERM.
        let signalled = self
            .signal(Signal::CONT)
            .and_then(|()| self.signal(Signal::TERM));
        let deadline = Instant::now() + limit;
        while signalled.is_ok() && Instant::now() < deadline {
            if self.exit_status().is_some() {
                return true;
            }
            sleep(POLL_INTERVAL);
        }
        self.kill();
        false
    }

    pub(crate) fn kill(&mut self) {
        let _ = self.child.kill();
        self.reap();
    }
}

impl Drop for ServerProcess {
    fn drop(&mut self) {
        self.kill();
    }
}
