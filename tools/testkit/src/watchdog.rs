//! Kills a daemon when the test process dies.

use std::io;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};

/// Waits until the pipe from the test process closes, which happens however that process ends.
const SCRIPT: &str = r#"read -r _; kill -KILL "$1" 2>/dev/null"#;

/// A shell that kills the daemon if the test process dies. Drop it before the daemon is reaped:
/// after that, the process id may be reused.
#[derive(Debug)]
pub(crate) struct DaemonWatchdog(Child);

impl DaemonWatchdog {
    pub(crate) fn watch(pid: u32) -> io::Result<Self> {
        let mut shell = Command::new("sh");
        shell
            .args(["-c", SCRIPT, "tidegate-test-watchdog", &pid.to_string()])
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .process_group(0);
        shell.spawn().map(Self)
    }
}

impl Drop for DaemonWatchdog {
    fn drop(&mut self) {
        // Killed first: the pipe closes only when the child is dropped, after this.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
