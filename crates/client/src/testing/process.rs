//! The processes of a server.

use std::fs::{self, File};
use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use tokio::net::TcpStream;
use tokio::time::sleep;

use super::error::TestingError;

const READY_LIMIT: Duration = Duration::from_secs(30);
const POLL_INTERVAL: Duration = Duration::from_millis(10);
const LOG_LINES_SHOWN: usize = 15;

/// A process that is killed when it is dropped.
#[derive(Debug)]
pub(super) struct TestProcess {
    name: String,
    child: Child,
    log: PathBuf,
}

impl TestProcess {
    /// Starts a program, with its output in a file of the folder.
    pub(super) fn start(
        program: &Path,
        arguments: &[String],
        folder: &Path,
    ) -> Result<Self, TestingError> {
        let name = program
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        let log = folder.join(format!("{name}.log"));
        let failed = |error: io::Error| {
            TestingError::new(format!("failed to start {}: {error}", program.display()))
        };
        let output = File::create(&log).map_err(failed)?;
        let errors = output.try_clone().map_err(failed)?;
        let mut command = Command::new(program);
        // The variables of the daemons are settings; variables of the test are not meant for them.
        for (variable, _) in std::env::vars_os() {
            if variable.as_encoded_bytes().starts_with(b"TIDEGATE_") {
                command.env_remove(variable);
            }
        }
        let child = command
            .args(arguments)
            .current_dir(folder)
            .stdin(Stdio::null())
            .stdout(output)
            .stderr(errors)
            .spawn()
            .map_err(failed)?;
        Ok(Self { name, child, log })
    }

    /// Waits until the process accepts connections at this address.
    pub(super) async fn wait_until_listening(
        &mut self,
        address: SocketAddr,
    ) -> Result<(), TestingError> {
        let deadline = Instant::now() + READY_LIMIT;
        while TcpStream::connect(address).await.is_err() {
            if let Ok(Some(status)) = self.child.try_wait() {
                return Err(self.failed(&format!("ended ({status})")));
            }
            if Instant::now() >= deadline {
                return Err(self.failed(&format!("did not listen within {READY_LIMIT:?}")));
            }
            sleep(POLL_INTERVAL).await;
        }
        Ok(())
    }

    fn failed(&self, what: &str) -> TestingError {
        let log = fs::read_to_string(&self.log).unwrap_or_default();
        let lines: Vec<&str> = log.lines().collect();
        let last = lines[lines.len().saturating_sub(LOG_LINES_SHOWN)..].join("\n");
        TestingError::new(format!(
            "{} {what}; the last lines of its log:\n{last}",
            self.name
        ))
    }
}

impl Drop for TestProcess {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// An address of this machine that no process uses now.
pub(super) fn free_address() -> Result<SocketAddr, TestingError> {
    let bound =
        TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).and_then(|listener| listener.local_addr());
    bound.map_err(|error| TestingError::new(format!("no free port: {error}")))
}
