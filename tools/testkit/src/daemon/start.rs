//! Starts a daemon and waits until it serves.

use std::net::SocketAddr;
use std::path::Path;
use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::process::{ChildProcess, ProcessOutput};
use crate::program::{DaemonProgram, read};

const SERVING_LIMIT: Duration = Duration::from_secs(20);
const POLL_INTERVAL: Duration = Duration::from_millis(5);
const HEALTH_REQUEST: &[u8] =
    b"GET /healthz HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n";
pub(super) struct DaemonStart<'a> {
    pub(super) program: DaemonProgram,
    pub(super) arguments: &'a [String],
    pub(super) environment: &'a [(String, String)],
    pub(super) log: &'a Path,
    pub(super) is_unread: bool,
    pub(super) files_max: Option<u64>,
}

impl DaemonStart<'_> {
    fn process(&self) -> ChildProcess {
        let output = match self.is_unread {
            true => ProcessOutput::Unread,
            false => ProcessOutput::File(self.log),
        };
        let program = self.program.path();
        let Some(files_max) = self.files_max else {
            return ChildProcess::start(&program, self.arguments, self.environment, output);
        };
        let script = format!("ulimit -n {files_max} && exec \"$0\" \"$@\"");
        let mut arguments = vec!["-c".to_owned(), script, program.display().to_string()];
        arguments.extend_from_slice(self.arguments);
        ChildProcess::start(Path::new("/bin/sh"), &arguments, self.environment, output)
    }

    /// Starts the daemon and waits until it serves. The error has its output.
    pub(super) async fn launch(&self, admin: SocketAddr) -> Result<ChildProcess, String> {
        let begin = read(self.log).len();
        let mut process = self.process();
        let deadline = Instant::now() + SERVING_LIMIT;
        loop {
            let is_serving = is_healthy(admin).await;
            let ended = process.exit_status();
            let written = read(self.log).split_off(begin);
            if is_serving && ended.is_none() {
                return Ok(process);
            }
            if let Some(status) = ended {
                return Err(format!("it ended ({status}):\n{written}"));
            }
            if Instant::now() >= deadline {
                return Err(format!(
                    "it did not serve within {SERVING_LIMIT:?}:\n{written}"
                ));
            }
            tokio::time::sleep(POLL_INTERVAL).await;
        }
    }
}

/// Whether `/healthz` on the admin port answers `ok`.
async fn is_healthy(admin: SocketAddr) -> bool {
    let request = async {
        let mut stream = TcpStream::connect(admin).await?;
        stream.write_all(HEALTH_REQUEST).await?;
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).await?;
        std::io::Result::Ok(answer)
    };
    let answer = request.await.unwrap_or_default();
    // A pump that waits for Redis answers "starting".
    answer.starts_with(b"HTTP/1.1 200 ") && answer.ends_with(b"ok")
}
