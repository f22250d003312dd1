//! One run of a server process.

use std::fs::File;
use std::io;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process, waitid};

use crate::watchdog::Watchdog;

const POLL_INTERVAL: Duration = Duration::from_millis(5);

/// A started process, which is killed when this is dropped.
///
/// It has a separate process group: Ctrl-C in a terminal reaches only the parent, which then ends the process.
#[derive(Debug)]
pub struct ProgramProcess {
    child: Child,
    /// Dropped before `child` is reaped.
    watchdog: Option<Watchdog>,
    status: Option<ExitStatus>,
}

impl ProgramProcess {
    /// Starts a program. Its output is appended to the file `log`.
    ///
    /// # Errors
    /// The file cannot be opened, or the program cannot be started.
    pub fn start(command: &mut Command, log: &Path) -> io::Result<Self> {
        let output = File::options().create(true).append(true).open(log)?;
        let errors = output.try_clone()?;
        Self::start_with_output(command, output.into(), errors.into())
    }

    /// Starts a program with these standard output and standard error.
    ///
    /// # Errors
    /// The program cannot be started.
    pub fn start_with_output(
        command: &mut Command,
        output: Stdio,
        errors: Stdio,
    ) -> io::Result<Self> {
        let child = command
            .process_group(0)
            .stdin(Stdio::null())
            .stdout(output)
            .stderr(errors)
            .spawn()?;
        let mut process = Self {
            child,
            watchdog: None,
            status: None,
        };
        process.watchdog = Some(Watchdog::watch(process.pid())?);
        Ok(process)
    }

    /// The process id.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Returns the exit status if the process has ended. Reaping frees the process id, so the watchdog is stopped
    /// first.
    pub fn exit_status(&mut self) -> Option<ExitStatus> {
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

    /// Stops the process without ending it (SIGSTOP): its connections stay open.
    ///
    /// # Errors
    /// It is not running.
    pub fn pause(&self) -> io::Result<()> {
        self.signal(Signal::STOP)
    }

    /// Continues a paused process (SIGCONT).
    ///
    /// # Errors
    /// It is not running.
    pub fn resume(&self) -> io::Result<()> {
        self.signal(Signal::CONT)
    }

    /// Sends a signal.
    ///
    /// # Errors
    /// The process has ended.
    pub fn signal(&self, signal: Signal) -> io::Result<()> {
        if !self.is_running() {
            return Err(io::Error::other("the server is not running"));
        }
        Ok(kill_process(Pid::from_child(&self.child), signal)?)
    }

    /// Sends SIGTERM, without waiting for the end. Does nothing if the process has ended.
    pub fn terminate(&self) {
        let _ = self.signal(Signal::TERM);
    }

    /// Sends SIGTERM, and SIGKILL if the process has not ended within `limit`. Returns whether SIGTERM was
    /// enough; true if the process had ended before.
    pub fn stop(&mut self, limit: Duration) -> bool {
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

    /// Kills the process (SIGKILL).
    pub fn kill(&mut self) {
        let _ = self.child.kill();
        self.reap();
    }

    /// Waits until `check` returns `Ok`.
    ///
    /// # Errors
    /// The process ended, or `check` failed for longer than `limit`.
    pub fn wait_until(
        &mut self,
        limit: Duration,
        mut check: impl FnMut() -> Result<(), String>,
    ) -> Result<(), String> {
        let deadline = Instant::now() + limit;
        loop {
            if let Some(status) = self.exit_status() {
                return Err(format!("the process ended ({status})"));
            }
            match check() {
                Ok(()) => return Ok(()),
                Err(reason) if Instant::now() >= deadline => {
                    return Err(format!(
                        "it was not up within {} s: {reason}",
                        limit.as_secs()
                    ));
                }
                Err(_) => sleep(POLL_INTERVAL),
            }
        }
    }
}

impl Drop for ProgramProcess {
    fn drop(&mut self) {
        self.kill();
    }
}
