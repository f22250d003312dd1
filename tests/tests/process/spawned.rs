//! An API whose standard error is a pipe to the test, so that the test decides when it is read.

use std::fs::File;
use std::io::Read;
use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::process::{Child, ChildStderr, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex};

use rustix::process::{Pid, Signal, kill_process};
use tidegate_testkit::eventually;

use crate::fixture::LIMIT;

/// It is killed when dropped.
pub(crate) struct Spawned {
    child: Child,
    errors: ChildStderr,
    pub(crate) listen: SocketAddr,
    pub(crate) admin: SocketAddr,
    /// The log up to the line that says it is ready.
    pub(crate) log: String,
}

impl Spawned {
    /// Runs a command that becomes an API, and reads what it writes until it is ready, and no further.
    pub(crate) fn start(mut command: Command) -> Self {
        let command = command.stdin(Stdio::null()).stdout(Stdio::null());
        let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
        let mut errors = child.stderr.take().unwrap();
        let mut log = String::new();
        let mut byte = [0];
        while !(log.ends_with('\n') && log.contains(" ready listen=")) {
            assert_eq!(errors.read(&mut byte).unwrap(), 1, "it ended: {log}");
            log.push(char::from(byte[0]));
        }
        Self {
            child,
            errors,
            listen: address(&log, " listen="),
            admin: address(&log, " admin="),
            log,
        }
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    pub(crate) async fn end(&mut self) -> ExitStatus {
        let ended = async || self.child.try_wait().unwrap().ok_or("it runs");
        eventually("it ends", LIMIT, ended).await
    }

    /// Continues to read in a thread until the process ends. The returned log grows meanwhile.
    pub(crate) fn read_on(&self) -> Arc<Mutex<String>> {
        let copy = self.errors.as_fd().try_clone_to_owned();
        let mut errors = File::from(copy.unwrap());
        let log = Arc::new(Mutex::new(String::new()));
        let growing = Arc::clone(&log);
        std::thread::spawn(move || {
            let mut bytes = vec![0; 64 * 1024];
            while let Ok(count @ 1..) = errors.read(&mut bytes) {
                let text = String::from_utf8_lossy(&bytes[..count]);
                growing.lock().unwrap().push_str(&text);
            }
        });
        log
    }
}

fn address(log: &str, name: &str) -> SocketAddr {
    let (_, rest) = log.split_once(name).unwrap();
    let text = rest.split_whitespace().next().unwrap();
    text.parse().unwrap()
}

impl Drop for Spawned {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
