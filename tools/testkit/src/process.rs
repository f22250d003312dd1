//! One run of a daemon process.

use std::fs::File;
use std::io::{ErrorKind, PipeReader, PipeWriter, Write, pipe};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process, waitid};

use crate::watchdog::DaemonWatchdog;

const POLL_INTERVAL: Duration = Duration::from_millis(2);

/// Destination of a process's output.
#[derive(Debug, Clone, Copy)]
pub(crate) enum ProcessOutput<'a> {
    /// Appended to this file.
    File(&'a Path),
    /// A full pipe that nothing reads.
    Unread,
}

/// A started process that is killed when dropped.
#[derive(Debug)]
pub(crate) struct ChildProcess {
    child: Child,
    _unread: Option<PipeReader>,
    watchdog: Option<DaemonWatchdog>,
    status: Option<ExitStatus>,
}

impl ChildProcess {
    /// Starts a program with the environment of the test and these variables, but without the `TIDEGATE_` variables
    /// of the test: these would be settings or cause warnings.
    pub(crate) fn start(
        program: &Path,
        arguments: &[String],
        environment: &[(String, String)],
        output: ProcessOutput<'_>,
    ) -> Self {
        let (output, errors, unread) = match output {
            ProcessOutput::File(log) => {
                let file = File::options().create(true).append(true).open(log);
                let file = file.expect("the log file can be opened");
                let copy = file.try_clone().expect("a file handle can be copied");
                (Stdio::from(file), Stdio::from(copy), None)
            }
            ProcessOutput::Unread => {
                let (reader, writer) = full_pipe();
                let copy = writer.try_clone().expect("a pipe can be copied");
                (Stdio::from(writer), Stdio::from(copy), Some(reader))
            }
        };
        let mut command = Command::new(program);
        for (name, _) in std::env::vars_os() {
            if name.as_encoded_bytes().starts_with(b"TIDEGATE_") {
                command.env_remove(name);
            }
        }
        let child = command
            .args(arguments)
            .envs(environment.iter().map(|(name, value)| (name, value)))
            .process_group(0)
            .stdin(Stdio::null())
            .stdout(output)
            .stderr(errors)
            .spawn()
            .unwrap_or_else(|error| panic!("failed to run {}: {error}", program.display()));
        let watchdog = DaemonWatchdog::watch(child.id()).expect("sh can run");
        Self {
            child,
            _unread: unread,
            watchdog: Some(watchdog),
            status: None,
        }
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Returns the exit status if the process has ended.
    pub(crate) fn exit_status(&mut self) -> Option<ExitStatus> {
        if self.status.is_none() && !self.is_running() {
            self.reap();
        }
        self.status
    }

    /// Waits for the end; returns `None` after `limit`.
    pub(crate) async fn wait(&mut self, limit: Duration) -> Option<ExitStatus> {
        let deadline = Instant::now() + limit;
        while self.exit_status().is_none() && Instant::now() < deadline {
            tokio::time::sleep(POLL_INTERVAL).await;
        }
        self.status
    }

    /// Sends a signal, unless the process has ended.
    pub(crate) fn signal(&self, signal: Signal) {
        if self.is_running() {
            kill_process(Pid::from_child(&self.child), signal)
                .expect("a child process takes signals");
        }
    }

    pub(crate) fn kill(&mut self) {
        if self.status.is_none() {
            let _ = self.child.kill();
            self.reap();
        }
    }

    /// Checks without reaping the child, so that its process id is not reused.
    fn is_running(&self) -> bool {
        let look = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        let pid = Pid::from_child(&self.child);
        self.status.is_none() && matches!(waitid(WaitId::Pid(pid), look), Ok(None))
    }

    fn reap(&mut self) {
        self.watchdog = None;
        self.status = self.child.wait().ok();
    }
}

impl Drop for ChildProcess {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Returns a full pipe: a write to it blocks until something is read.
///
/// # Panics
/// If the system cannot create a pipe.
#[must_use]
pub fn full_pipe() -> (PipeReader, PipeWriter) {
    const PIECE: [u8; 4096] = [b'\n'; 4096];
    let (reader, mut writer) = pipe().expect("a pipe can be made");
    let flags = fcntl_getfl(&writer).expect("a pipe has flags");
    fcntl_setfl(&writer, flags | OFlags::NONBLOCK).expect("flags can be set");
    loop {
        match writer.write(&PIECE) {
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::WouldBlock => break,
            Err(error) => panic!("a pipe cannot be written: {error}"),
        }
    }
    fcntl_setfl(&writer, flags).expect("flags can be set");
    (reader, writer)
}
