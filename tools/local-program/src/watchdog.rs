//! Ends the server when the parent process dies.

use std::io;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};

/// Waits until the pipe from the parent closes, which happens however the parent ends. Then sends SIGTERM to the
/// server, and SIGKILL after five seconds.
const SCRIPT: &str = r#"
read -r _
kill -TERM "$1" 2>/dev/null || exit 0
for second in 1 2 3 4 5; do
  sleep 1
  kill -0 "$1" 2>/dev/null || exit 0
done
kill -KILL "$1" 2>/dev/null
"#;

/// A process that ends the server if this process dies. Drop it before the server process is reaped: after that,
/// the process id may be reused.
#[derive(Debug)]
pub(crate) struct Watchdog {
    child: Child,
}

impl Watchdog {
    pub(crate) fn watch(pid: u32) -> io::Result<Self> {
        let child = Command::new("sh")
            .args(["-c", SCRIPT, "tidegate-watchdog", &pid.to_string()])
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .process_group(0)
            .spawn()?;
        Ok(Self { child })
    }
}

impl Drop for Watchdog {
    fn drop(&mut self) {
        // Killed first: the pipe closes only when `child` is dropped, after this.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;

    fn sleeper() -> Child {
        Command::new("sleep").arg("60").spawn().unwrap()
    }

    #[test]
    fn a_closed_pipe_ends_the_watched_process() {
        let mut watched = sleeper();
        let mut watchdog = Watchdog::watch(watched.id()).unwrap();
        let begin = Instant::now();
        drop(watchdog.child.stdin.take());
        let status = watched.wait().unwrap();
        assert!(!status.success());
        assert!(begin.elapsed() < Duration::from_secs(30));
    }

    #[test]
    fn a_dropped_watchdog_leaves_it_alone() {
        let mut watched = sleeper();
        drop(Watchdog::watch(watched.id()).unwrap());
        std::thread::sleep(Duration::from_millis(200));
        assert!(watched.try_wait().unwrap().is_none());
        watched.kill().unwrap();
        watched.wait().unwrap();
    }
}
