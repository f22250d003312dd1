//! Ends a server whose parent was killed.

use std::io;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};

/// Waits for the pipe from the parent to close, which it does however the parent ends, and ends the server: politely,
/// and after five seconds at once.
const SCRIPT: &str = r#"
read -r _
kill -TERM "$1" 2>/dev/null || exit 0
for second in 1 2 3 4 5; do
  sleep 1
  kill -0 "$1" 2>/dev/null || exit 0
done
kill -KILL "$1" 2>/dev/null
"#;

/// A process that outlives this one only to end the server. Dropping it calls it off, which must happen before the
/// server's end is collected: from then on its process id may name another process.
#[derive(Debug)]
pub(crate) struct Watchdog {
    child: Child,
}

impl Watchdog {
    pub(crate) fn over(pid: u32) -> io::Result<Self> {
        let child = Command::new("sh")
            .args(["-c", SCRIPT, "tidegate-redis-watchdog", &pid.to_string()])
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
        let mut watchdog = Watchdog::over(watched.id()).unwrap();
        let begin = Instant::now();
        drop(watchdog.child.stdin.take());
        let status = watched.wait().unwrap();
        assert!(!status.success());
        assert!(begin.elapsed() < Duration::from_secs(30));
    }

    #[test]
    fn a_dropped_watchdog_leaves_it_alone() {
        let mut watched = sleeper();
        drop(Watchdog::over(watched.id()).unwrap());
        std::thread::sleep(Duration::from_millis(200));
        assert!(watched.try_wait().unwrap().is_none());
        watched.kill().unwrap();
        watched.wait().unwrap();
    }
}
