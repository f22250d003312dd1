//! A start of a daemon, up to the moment at which it serves.

use std::net::SocketAddr;
use std::path::Path;
use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::process::{Output, Process};
use crate::program::{Program, read};

const SERVING_LIMIT: Duration = Duration::from_secs(20);
const POLL_INTERVAL: Duration = Duration::from_millis(5);
const HEALTH_REQUEST: &[u8] =
    b"GET /healthz HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n";
/// One start of a daemon.
pub(super) struct Start<'a> {
    pub(super) program: Program,
    pub(super) arguments: &'a [String],
    pub(super) environment: &'a [(String, String)],
    pub(super) log: &'a Path,
    pub(super) is_unread: bool,
    pub(super) files_max: Option<u64>,
}

impl Start<'_> {
    fn process(&self) -> Process {
        let output = match self.is_unread {
            true => Output::Unread,
            false => Output::File(self.log),
        };
        let program = self.program.path();
        let Some(files_max) = self.files_max else {
            return Process::start(&program, self.arguments, self.environment, output);
        };
        let script = format!("ulimit -n {files_max} && exec \"$0\" \"$@\"");
        let mut arguments = vec!["-c".to_owned(), script, program.display().to_string()];
        arguments.extend_from_slice(self.arguments);
        Process::start(Path::new("/bin/sh"), &arguments, self.environment, output)
    }

    /// Starts it and waits until it serves; otherwise returns what it wrote.
    pub(super) async fn launch(&self, admin: SocketAddr) -> Result<Process, String> {
        let begin = read(self.log).len();
        let mut process = self.process();
        let deadline = Instant::now() + SERVING_LIMIT;
        loop {
            let is_serving = answers(admin).await;
            let ended = process.ended();
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

/// Whether the admin port says that the daemon serves.
async fn answers(admin: SocketAddr) -> bool {
    let asked = async {
        let mut stream = TcpStream::connect(admin).await?;
        stream.write_all(HEALTH_REQUEST).await?;
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).await?;
        std::io::Result::Ok(answer)
    };
    let answer = asked.await.unwrap_or_default();
    // A pump that waits for Redis says "starting".
    answer.starts_with(b"HTTP/1.1 200 ") && answer.ends_with(b"ok")
}
