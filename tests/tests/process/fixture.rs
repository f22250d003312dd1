//! A Redis, a folder, and daemons whose settings files can be changed while they run.

use std::path::PathBuf;
use std::time::Duration;

use tempfile::TempDir;
use tidegate_testkit::{
    Answer, Daemon, DaemonProgram, RawHttp, RedisServer, eventually, start_redis,
};

/// Ten times what any step of these tests needs.
pub(crate) const LIMIT: Duration = Duration::from_secs(20);

pub(crate) struct DaemonFixture {
    pub(crate) redis: RedisServer,
    folder: TempDir,
}

impl DaemonFixture {
    pub(crate) async fn new() -> Self {
        let redis = tokio::task::spawn_blocking(start_redis).await.unwrap();
        let folder = tempfile::tempdir().unwrap();
        Self { redis, folder }
    }

    /// The path of a file in the folder.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// The same path as text.
    pub(crate) fn name(&self, name: &str) -> String {
        self.path(name).to_str().unwrap().to_owned()
    }

    /// Writes a file and returns its path.
    pub(crate) fn write(&self, name: &str, text: &str) -> String {
        std::fs::write(self.path(name), text).unwrap();
        self.name(name)
    }

    /// Starts a daemon on the Redis with these flags.
    pub(crate) async fn start(&self, program: DaemonProgram, flags: &[&str]) -> Daemon {
        self.start_with(program, flags, &[]).await
    }

    /// The same, with these variables in its environment.
    pub(crate) async fn start_with(
        &self,
        program: DaemonProgram,
        flags: &[&str],
        environment: &[(&str, &str)],
    ) -> Daemon {
        let mut arguments = vec!["--redis".to_owned(), self.redis.url()];
        arguments.extend(flags.iter().map(|flag| (*flag).to_owned()));
        let folder = self.folder.path();
        Daemon::start_with(program, program.name(), &arguments, environment, folder).await
    }
}

/// Sends a request with an empty body.
pub(crate) async fn ask(
    address: std::net::SocketAddr,
    method: &str,
    path: &str,
    headers: &[(&str, &str)],
) -> Answer {
    let mut http = RawHttp::connect(address).await;
    let own = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
    let headers: Vec<_> = headers.iter().map(own).collect();
    http.request(method, path, &headers, b"").await;
    http.answer().await.expect("an answer")
}

/// Waits until a daemon has logged this text.
pub(crate) async fn until_said(daemon: &Daemon, text: &str) {
    eventually(&format!("it says {text:?}"), LIMIT, async || {
        let log = daemon.log();
        if log.contains(text) { Ok(()) } else { Err(log) }
    })
    .await;
}

/// Waits until a file contains this text, and returns the whole file.
pub(crate) async fn until_written(path: &std::path::Path, text: &str) -> String {
    eventually(
        &format!("{} has {text:?}", path.display()),
        LIMIT,
        async || {
            let written = std::fs::read_to_string(path).unwrap_or_default();
            if written.contains(text) {
                Ok(written)
            } else {
                Err(written)
            }
        },
    )
    .await
}
