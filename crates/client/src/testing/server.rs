//! Starts and stops a server.

use std::net::SocketAddr;
use std::path::PathBuf;

use tempfile::TempDir;

use super::admin::create_key;
use super::error::TestingError;
use super::process::{TestProcess, free_address};
use super::program::{API, PUMP, REDIS};
use crate::client::Client;
use crate::error::Error;

/// Describes a [`Server`]: where its programs and its Redis are.
#[derive(Debug, Default)]
#[must_use = "nothing is started until start() is called"]
pub struct ServerBuilder {
    api: Option<PathBuf>,
    pump: Option<PathBuf>,
    redis: Option<PathBuf>,
    redis_url: Option<String>,
}

impl ServerBuilder {
    /// Sets the path of `tidegate-api`.
    pub fn api(mut self, program: impl Into<PathBuf>) -> Self {
        self.api = Some(program.into());
        self
    }

    /// Sets the path of `tidegate-pumpd`.
    pub fn pumpd(mut self, program: impl Into<PathBuf>) -> Self {
        self.pump = Some(program.into());
        self
    }

    /// Sets the path of `redis-server` or `valkey-server`, version 7 or later.
    pub fn redis_server(mut self, program: impl Into<PathBuf>) -> Self {
        self.redis = Some(program.into());
        self
    }

    /// Uses a Redis that is running, such as a Redis in a container, instead of starting one. Nothing else may use it.
    pub fn redis_url(mut self, url: impl Into<String>) -> Self {
        self.redis_url = Some(url.into());
        self
    }

    /// Starts the server, and waits until it serves.
    ///
    /// # Errors
    /// A program is missing, or does not start. The error names it, with the end of its log.
    pub async fn start(self) -> Result<Server, TestingError> {
        let (api, pump) = (API.find(self.api)?, PUMP.find(self.pump)?);
        let folder = tempfile::Builder::new()
            .prefix("tidegate-testing-")
            .tempdir();
        let folder =
            folder.map_err(|error| TestingError::new(format!("no temporary folder: {error}")))?;
        let (redis, url) = match self.redis_url {
            Some(url) => (None, url),
            None => {
                let address = free_address()?;
                let program = REDIS.find(self.redis)?;
                let mut redis =
                    TestProcess::start(&program, &redis_arguments(address), folder.path())?;
                redis.wait_until_listening(address).await?;
                (Some(redis), format!("redis://{address}"))
            }
        };
        let (listen, admin) = (free_address()?, free_address()?);
        let addresses = [("--listen", listen), ("--admin-listen", admin)];
        let mut api = TestProcess::start(&api, &daemon_arguments(&url, &addresses), folder.path())?;
        api.wait_until_listening(listen).await?;
        let pump_admin = free_address()?;
        let addresses = [("--admin-listen", pump_admin)];
        let mut pump =
            TestProcess::start(&pump, &daemon_arguments(&url, &addresses), folder.path())?;
        pump.wait_until_listening(pump_admin).await?;
        Ok(Server {
            _api: api,
            _pump: pump,
            _redis: redis,
            _folder: folder,
            listen,
            admin,
        })
    }
}

/// A `tidegate-api` and a `tidegate-pumpd` on a private Redis. All of them are killed when it is dropped, and their
/// files deleted.
#[derive(Debug)]
pub struct Server {
    // Dropped in this order: the daemons end before Redis, and the folder is deleted last.
    _api: TestProcess,
    _pump: TestProcess,
    _redis: Option<TestProcess>,
    _folder: TempDir,
    listen: SocketAddr,
    admin: SocketAddr,
}

impl Server {
    /// Starts a server with the programs that are found, and waits until it serves.
    ///
    /// # Errors
    /// A program is missing, or does not start. The error names it, with the end of its log.
    pub async fn start() -> Result<Self, TestingError> {
        ServerBuilder::default().start().await
    }

    /// Starts to describe a server.
    pub fn builder() -> ServerBuilder {
        ServerBuilder::default()
    }

    /// The URL for [`Client::builder`].
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://{}", self.listen)
    }

    /// A new API key with all scopes for a namespace.
    ///
    /// # Errors
    /// The name is not valid, or the server does not answer.
    pub async fn key(&self, namespace: &str) -> Result<String, Error> {
        create_key(self.admin, namespace).await
    }

    /// A client of a namespace, with a new API key. Give each test its own namespace.
    ///
    /// # Errors
    /// The name is not valid, or the server does not answer.
    pub async fn client(&self, namespace: &str) -> Result<Client, Error> {
        let key = self.key(namespace).await?;
        Client::builder(self.url())
            .key(key)
            .namespace(namespace)
            .build()
    }
}

/// Settings that the daemons require of a Redis; stored data need not survive the test.
fn redis_arguments(address: SocketAddr) -> Vec<String> {
    let arguments = [
        "--bind",
        "127.0.0.1",
        "--save",
        "",
        "--appendonly",
        "no",
        "--maxmemory-policy",
        "noeviction",
    ];
    let port = ["--port".to_owned(), address.port().to_string()];
    port.into_iter()
        .chain(arguments.map(str::to_owned))
        .collect()
}

fn daemon_arguments(redis: &str, addresses: &[(&str, SocketAddr)]) -> Vec<String> {
    // A Redis that stores nothing on disk is fine for a test.
    let mut arguments = vec![
        "--redis".to_owned(),
        redis.to_owned(),
        "--allow-unsafe-redis".to_owned(),
    ];
    for (flag, address) in addresses {
        arguments.extend([(*flag).to_owned(), address.to_string()]);
    }
    arguments
}
