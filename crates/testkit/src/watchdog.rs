//! Ends a daemon whose test process died.

use std::io;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};

/// Waits for the pipe from the test process to close, however that process ends.
const SCRIPT: &str = r#"read -r _; kill -KILL "$1" 2>/dev/null"#;

/// A shell that outlives the test process only to end the daemon. It must be dropped before the
/// daemon's end is collected: from then on the process id may name another process.
#[derive(Debug)]
pub(crate) struct Watchdog(Child);

impl Watchdog {
    pub(crate) fn over(pid: u32) -> io::Result<Self> {
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

impl Drop for Watchdog {
    fn drop(&mut self) {
        // Killed first: the pipe closes only when the child is dropped, after this.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
