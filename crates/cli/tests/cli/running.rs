//! A command that runs on, and the lines that it prints.

use std::io::{BufRead, BufReader};
use std::os::fd::AsFd;
use std::process::{Child, ChildStderr, Command, Stdio};

use tidegate_testkit::eventually;
use tokio::sync::mpsc;
use tokio::time::timeout;

use super::LIMIT;

/// A running process. It is killed when this is dropped.
pub(crate) struct RunningCommand {
    child: Child,
    lines: mpsc::Receiver<String>,
}

impl RunningCommand {
    pub(crate) fn start(mut command: Command) -> Self {
        let mut child = command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = lines_of(&mut child);
        Self { child, lines }
    }

    /// The same for a command whose standard error is a pipe, which it returns.
    pub(crate) fn start_with_errors(command: Command) -> (Self, ChildStderr) {
        let mut running = Self::start(command);
        let errors = running.child.stderr.take().unwrap();
        (running, errors)
    }

    /// The next line; `None` at the end of the output.
    pub(crate) async fn line(&mut self) -> Option<String> {
        let line = timeout(LIMIT, self.lines.recv()).await;
        line.expect("a line is printed in time")
    }

    /// All lines that have been printed until now.
    pub(crate) fn printed(&mut self) -> Vec<String> {
        std::iter::from_fn(|| self.lines.try_recv().ok()).collect()
    }

    /// The lines up to the first one that contains this text.
    pub(crate) async fn lines_until(&mut self, text: &str) -> Vec<String> {
        let mut lines = Vec::new();
        loop {
            let line = self.line().await;
            let line = line.unwrap_or_else(|| panic!("no line with {text:?}: {lines:?}"));
            let is_last = line.contains(text);
            lines.push(line);
            if is_last {
                return lines;
            }
        }
    }

    /// The lines that are left, until the end of the output.
    pub(crate) async fn rest(&mut self) -> Vec<String> {
        let mut lines = Vec::new();
        while let Some(line) = self.line().await {
            lines.push(line);
        }
        lines
    }

    /// Sends a signal, such as `INT`.
    pub(crate) fn signal(&self, name: &str) {
        let pid = self.child.id().to_string();
        let killed = Command::new("kill")
            .args([&format!("-{name}"), &pid])
            .status();
        assert!(killed.unwrap().success());
    }

    /// The exit code, if it has ended by itself.
    pub(crate) fn exit_code(&mut self) -> Option<i32> {
        self.child.try_wait().unwrap()?.code()
    }

    /// Waits for its end. Returns the exit code; `None` if a signal ended it.
    pub(crate) fn end(&mut self) -> Option<i32> {
        self.child.wait().unwrap().code()
    }
}

/// The lines of its standard output.
fn lines_of(child: &mut Child) -> mpsc::Receiver<String> {
    let out = BufReader::new(child.stdout.take().unwrap());
    let (sender, lines) = mpsc::channel(1_000);
    std::thread::spawn(move || {
        for line in out.lines().map_while(Result::ok) {
            if sender.blocking_send(line).is_err() {
                return;
            }
        }
    });
    lines
}

impl Drop for RunningCommand {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Waits until a pipe that is not read holds about as much as it can, 64 KiB.
pub(crate) async fn until_full(unread: &impl AsFd) {
    eventually(
        "the pipe is full",
        LIMIT,
        async || match rustix::io::ioctl_fionread(unread).unwrap() {
            60_000.. => Ok(()),
            waiting => Err(waiting),
        },
    )
    .await;
}
