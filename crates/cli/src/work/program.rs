//! A program that runs for a job, in a process group of its own.

use std::collections::VecDeque;
use std::env;
use std::io;
use std::path::Path;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use rustix::fs::{Access, access};
use rustix::process::{Pid, Signal, kill_process_group, test_kill_process_group};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::process::{Child, ChildStderr, Command};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep};

use crate::error_output;
use crate::failure::CommandFailure;

/// How long a program has to end after SIGTERM, until it is killed.
const TERM_TIME: Duration = Duration::from_secs(5);
/// How often is looked whether all processes of a group have ended.
const GROUP_LOOK: Duration = Duration::from_millis(50);
/// Maximum length of the output that is taken as a result, in bytes.
const OUTPUT_BYTES_MAX: u64 = 64 << 20;
/// How much of the end of the standard error is kept, in bytes.
const ERROR_BYTES_KEPT: usize = 8 << 10;

/// Checks that a program can be started, as the system will look for it.
///
/// # Errors
/// There is none, or it is not executable.
pub(super) fn find(program: &str) -> Result<(), CommandFailure> {
    let is_executable = |path: &Path| access(path, Access::EXEC_OK).is_ok() && path.is_file();
    let found = match program.contains('/') {
        true => is_executable(Path::new(program)),
        // Without it the system looks where it wants to.
        false => env::var_os("PATH").is_none_or(|folders| {
            env::split_paths(&folders).any(|folder| is_executable(&folder.join(program)))
        }),
    };
    match found {
        true => Ok(()),
        false => Err(CommandFailure::Usage(format!(
            "there is no program {program} that can be executed; give its path, or a name that is in PATH"
        ))),
    }
}

/// A process and the processes that it has started, unless they left its group. All are killed when this is dropped
/// before the process has ended.
pub(super) struct RunningProgram {
    group: ProcessGroup,
    child: Child,
}

/// Killed when it is dropped. It is released when its first process has ended: another group may have its id then.
struct ProcessGroup(Option<Pid>);

impl Drop for ProcessGroup {
    fn drop(&mut self) {
        if let Some(id) = self.0 {
            // It may have ended just now.
            let _ = kill_process_group(id, Signal::KILL);
        }
    }
}

impl RunningProgram {
    /// Starts it, with pipes for the standard input and the standard error.
    ///
    /// # Errors
    /// There is no such program, or it cannot be executed.
    pub(super) fn start(mut command: Command) -> io::Result<Self> {
        let child = command
            .stdin(Stdio::piped())
            .stderr(Stdio::piped())
            // Ctrl-C reaches the worker only, which gives its programs time.
            .process_group(0)
            .kill_on_drop(true)
            .spawn()?;
        let id = child.id().and_then(|id| Pid::from_raw(id.cast_signed()));
        Ok(Self {
            group: ProcessGroup(id),
            child,
        })
    }

    /// Writes its standard input. A program need not read it.
    pub(super) fn feed(&mut self, bytes: Vec<u8>) -> JoinHandle<()> {
        let input = self.child.stdin.take();
        tokio::spawn(async move {
            if let Some(mut input) = input {
                drop(input.write_all(&bytes).await);
            }
        })
    }

    /// Reads its standard output, if that is a pipe.
    pub(super) fn read_output(&mut self) -> JoinHandle<io::Result<Vec<u8>>> {
        let output = self.child.stdout.take();
        tokio::spawn(async move {
            let mut bytes = Vec::new();
            if let Some(output) = output {
                let mut output = output.take(OUTPUT_BYTES_MAX + 1);
                output.read_to_end(&mut bytes).await?;
            }
            if bytes.len() as u64 > OUTPUT_BYTES_MAX {
                return Err(io::Error::other("the standard output has more than 64 MiB"));
            }
            Ok(bytes)
        })
    }

    /// Passes its standard error on as it comes, and returns the last line that is not empty.
    pub(super) fn pass_errors_on(&mut self) -> JoinHandle<String> {
        let errors = self.child.stderr.take();
        tokio::spawn(async move {
            match errors {
                Some(errors) => last_line(&pass_on(errors).await),
                None => String::new(),
            }
        })
    }

    /// Waits until it has ended. Processes that it has left behind run on.
    pub(super) async fn wait(&mut self) -> io::Result<ExitStatus> {
        let ended = self.child.wait().await;
        self.group.0 = None;
        ended
    }

    /// Ends it and all processes of its group: the job is no longer its own.
    pub(super) async fn end(&mut self) -> io::Result<ExitStatus> {
        let Some(id) = self.group.0 else {
            return self.wait().await;
        };
        // Each signal may come when all have ended just now.
        let _ = kill_process_group(id, Signal::TERM);
        let killed_at = Instant::now() + TERM_TIME;
        // A process that has ended stays in the group until it was waited for.
        while Instant::now() < killed_at {
            let has_ended = self.child.try_wait()?.is_some();
            if has_ended && test_kill_process_group(id).is_err() {
                break;
            }
            sleep(GROUP_LOOK).await;
        }
        let _ = kill_process_group(id, Signal::KILL);
        self.wait().await
    }
}

/// Copies the standard error of a program to the standard error of this process. Returns the end of the text. If the
/// reader stalls, the rest is dropped: the program and the lease of its job do not wait for it.
async fn pass_on(mut errors: ChildStderr) -> Vec<u8> {
    let mut kept = VecDeque::new();
    let mut bytes = vec![0; ERROR_BYTES_KEPT];
    while let Ok(read @ 1..) = errors.read(&mut bytes).await {
        error_output::write_waiting(&bytes[..read]).await;
        kept.extend(&bytes[..read]);
        kept.drain(..kept.len().saturating_sub(ERROR_BYTES_KEPT));
    }
    kept.into()
}

fn last_line(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    // A progress bar separates its states by carriage returns.
    let mut lines = text.rsplit(['\n', '\r']).map(str::trim);
    let last = lines.find(|line| !line.is_empty());
    last.unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_line_is_the_last_one_with_a_text() {
        assert_eq!(last_line(b"first\n smtp: 550 \n\n"), "smtp: 550");
        assert_eq!(last_line(b" 1 %\r 2 %\r\n"), "2 %");
        assert_eq!(last_line(b"\xffno text\n"), "\u{fffd}no text");
        assert_eq!(last_line(b"\n"), "");
    }
}
