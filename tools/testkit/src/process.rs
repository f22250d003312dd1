//! One run of a daemon process.

use std::io::{ErrorKind, PipeReader, PipeWriter, Write, pipe};
use std::path::Path;
use std::process::{Command, ExitStatus};
use std::time::{Duration, Instant};

use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use rustix::process::Signal;
use tidegate_local_program::ProgramProcess;

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
    process: ProgramProcess,
    _unread: Option<PipeReader>,
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
        let mut command = Command::new(program);
        for (name, _) in std::env::vars_os() {
            if name.as_encoded_bytes().starts_with(b"TIDEGATE_") {
                command.env_remove(name);
            }
        }
        command
            .args(arguments)
            .envs(environment.iter().map(|(name, value)| (name, value)));
        let (started, unread) = match output {
            ProcessOutput::File(log) => (ProgramProcess::start(&mut command, log), None),
            ProcessOutput::Unread => {
                let (reader, writer) = full_pipe();
                let copy = writer.try_clone().expect("a pipe can be copied");
                let (output, errors) = (writer.into(), copy.into());
                let started = ProgramProcess::start_with_output(&mut command, output, errors);
                (started, Some(reader))
            }
        };
        Self {
            process: started
                .unwrap_or_else(|error| panic!("failed to run {}: {error}", program.display())),
            _unread: unread,
        }
    }

    pub(crate) fn pid(&self) -> u32 {
        self.process.pid()
    }

    /// Returns the exit status if the process has ended.
    pub(crate) fn exit_status(&mut self) -> Option<ExitStatus> {
        self.process.exit_status()
    }

    /// Waits until the process has ended. Returns `None` after the limit.
    pub(crate) async fn wait(&mut self, limit: Duration) -> Option<ExitStatus> {
        let deadline = Instant::now() + limit;
        while self.exit_status().is_none() && Instant::now() < deadline {
            tokio::time::sleep(POLL_INTERVAL).await;
        }
        self.exit_status()
    }

    /// Sends a signal, unless the process has ended.
    pub(crate) fn signal(&self, signal: Signal) {
        let _ = self.process.signal(signal);
    }

    /// Kills the process, unless it has ended.
    pub(crate) fn kill(&mut self) {
        self.process.kill();
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
