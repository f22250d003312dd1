//! The server under load: its address, token and processes.

use std::net::{SocketAddr, ToSocketAddrs};

use clap::Args;
use serde::Deserialize;
use tidegate_core::v1::cold::ColdTierView;

use crate::cpu::MonitoredProcess;
use crate::error::LoadgenError;
use crate::http::HttpConnection;
use crate::redis_info::RedisInfo;
use crate::wire::protocol::Wire;

/// The flags of the server to measure.
#[derive(Debug, Clone, Default, Args)]
pub struct ServerOptions {
    /// URL of the server to measure
    #[arg(
        long = "target",
        value_name = "URL",
        default_value = "http://127.0.0.1:7777"
    )]
    pub url: String,
    /// Token of the namespace. On the native wire an API key with the scopes publish, consume and read, for schedules
    /// also admin
    #[arg(long, value_name = "T", requires = "namespace")]
    pub token: Option<String>,
    /// URL of the admin port. Creates a token or an API key there if --token is not given; lanes needs it too
    #[arg(long, value_name = "URL")]
    pub admin: Option<String>,
    /// URL of the server's Redis, to read its memory and command counts (redis://HOST:PORT)
    #[arg(long, value_name = "URL")]
    pub redis: Option<String>,
    /// Namespace of the queues [default: a new one, if a token is created]
    #[arg(long, value_name = "NS")]
    pub namespace: Option<String>,
    /// Report the CPU time of a server process on this machine; repeatable. For the process named `api`, parked also
    /// reports the memory
    #[arg(long = "pid", value_name = "NAME=PID", value_parser = Self::parse_process)]
    pub processes: Vec<(String, u32)>,
    /// The HTTP API to use [default: lmstfy; native for touch, call, schedules, and with --keyed or --idempotent]
    #[arg(long, global = true, value_name = "WIRE")]
    pub wire: Option<Wire>,
}

impl ServerOptions {
    /// Reads the name and the id of a process: `NAME=PID`.
    ///
    /// # Errors
    /// The text has another form.
    pub fn parse_process(text: &str) -> Result<(String, u32), String> {
        let (name, pid) = text.split_once('=').ok_or("expected NAME=PID")?;
        let pid = pid.parse().map_err(|error| format!("{pid:?}: {error}"))?;
        Ok((name.to_owned(), pid))
    }
}

/// The server under load.
#[derive(Debug, Clone)]
pub(crate) struct TargetServer {
    pub(crate) url: String,
    pub(crate) address: SocketAddr,
    pub(crate) wire: Wire,
    /// A token or an API key.
    pub(crate) credential: String,
    pub(crate) namespace: String,
    pub(crate) redis_url: Option<String>,
    admin_url: Option<String>,
    pub(crate) processes: Vec<MonitoredProcess>,
}

impl TargetServer {
    /// Resolves the address of the server, and creates a token or an API key if none is given.
    pub(crate) async fn open(options: &ServerOptions, wire: Wire) -> Result<Self, LoadgenError> {
        let address = address(&options.url)?;
        let namespace = match &options.namespace {
            Some(namespace) => namespace.clone(),
            None if options.token.is_some() => {
                return Err(LoadgenError::Usage(
                    "--token needs its --namespace NS; alternatively give --admin URL to create a token"
                        .to_owned(),
                ));
            }
            None => format!("load-{:08x}", rand::random::<u32>()),
        };
        let credential = match (&options.token, &options.admin) {
            (Some(token), _) => token.clone(),
            (None, Some(admin)) => create_credential(admin, &namespace, wire).await?,
            (None, None) => {
                return Err(LoadgenError::Usage(
                    "no token: give --token T --namespace NS, or --admin URL to create one"
                        .to_owned(),
                ));
            }
        };
        let watch = |(name, pid): &(String, u32)| MonitoredProcess::new(name, *pid);
        Ok(Self {
            url: options.url.clone(),
            address,
            wire,
            credential,
            namespace,
            redis_url: options.redis.clone(),
            admin_url: options.admin.clone(),
            processes: options
                .processes
                .iter()
                .map(watch)
                .collect::<Result<_, _>>()?,
        })
    }

    /// The same server with another namespace, for which an API key is created.
    ///
    /// # Errors
    /// No admin port was named, or it creates none.
    pub(crate) async fn beside(&self) -> Result<Self, LoadgenError> {
        let admin = self.admin_url.as_deref().ok_or_else(|| {
            LoadgenError::Usage("a second namespace needs a key: give --admin URL".to_owned())
        })?;
        let namespace = format!("{}-beside", self.namespace);
        let credential = create_credential(admin, &namespace, self.wire).await?;
        Ok(Self {
            namespace,
            credential,
            ..self.clone()
        })
    }

    /// Opens a connection to the server's Redis, to read INFO.
    ///
    /// # Errors
    /// No Redis was named, or it is unreachable.
    pub(crate) fn redis(&self, scenario: &str) -> Result<RedisInfo, LoadgenError> {
        let url = self.redis_url.as_deref().ok_or_else(|| {
            LoadgenError::Usage(format!(
                "{scenario} reads INFO from Redis: give --redis URL"
            ))
        })?;
        RedisInfo::connect(url)
    }

    /// Returns the names of the Redis processes.
    pub(crate) fn redis_process_names(&self) -> impl Iterator<Item = &str> {
        let names = self.processes.iter().map(MonitoredProcess::name);
        names.filter(|name| name.starts_with("redis"))
    }

    /// Sets the number of lanes of a queue.
    ///
    /// # Errors
    /// The server does not support lanes, or no admin port was named.
    pub(crate) async fn set_lanes(&self, queue: &str, open: u16) -> Result<(), LoadgenError> {
        let admin = self.admin_url.as_deref().ok_or_else(|| {
            LoadgenError::Usage("lanes are set through the admin port: give --admin URL".to_owned())
        })?;
        let address = address(admin)?;
        let mut connection = HttpConnection::open(address, 0).await?;
        let body = format!(r#"{{"open":{open}}}"#);
        let request = format!(
            "PUT /v1/{}/queues/{queue}/lanes HTTP/1.1\r\nHost: {address}\r\nContent-Length: {}\r\n\r\n{body}",
            self.namespace,
            body.len()
        );
        let answer = connection.exchange(request.as_bytes()).await?;
        match answer.status {
            200 => Ok(()),
            status => Err(LoadgenError::unexpected(
                "setting lanes",
                status,
                answer.body,
            )),
        }
    }

    /// How many payloads are in the cold tier only, as a pump has counted them last.
    ///
    /// # Errors
    /// The server has no cold tier, or no admin port was named.
    pub(crate) async fn frozen_payloads(&self) -> Result<u64, LoadgenError> {
        let admin = self.admin_url.as_deref().ok_or_else(|| {
            LoadgenError::Usage("the admin port shows the cold tier: give --admin URL".to_owned())
        })?;
        let address = address(admin)?;
        let mut connection = HttpConnection::open(address, 0).await?;
        let request = format!("GET /cold HTTP/1.1\r\nHost: {address}\r\n\r\n");
        let answer = connection.exchange(request.as_bytes()).await?;
        let unexpected = || LoadgenError::unexpected("the cold tier", answer.status, answer.body);
        let views: Vec<ColdTierView> =
            serde_json::from_slice(answer.body).map_err(|_| unexpected())?;
        let sum = views.iter().map(|view| view.frozen_payloads);
        sum.reduce(|one, other| one + other).ok_or_else(unexpected)
    }

    /// Returns the process with this name, if it was given.
    pub(crate) fn process(&self, name: &str) -> Option<&MonitoredProcess> {
        self.processes.iter().find(|process| process.name() == name)
    }
}

/// The answer of the admin port to a new token, or to a new API key.
#[derive(Deserialize)]
struct CredentialBody {
    #[serde(alias = "secret")]
    token: String,
}

/// Creates a token, or for the native wire an API key.
async fn create_credential(
    admin: &str,
    namespace: &str,
    wire: Wire,
) -> Result<String, LoadgenError> {
    let address = address(admin)?;
    let mut connection = HttpConnection::open(address, 0).await?;
    let (path, body) = match wire {
        Wire::Lmstfy => (
            format!("/token/{namespace}?description=load"),
            String::new(),
        ),
        Wire::Native => (
            format!("/v1/{namespace}/keys"),
            r#"{"scopes":["publish","consume","read","admin"],"description":"load"}"#.to_owned(),
        ),
    };
    let request = format!(
        "POST {path} HTTP/1.1\r\nHost: {address}\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    let answer = connection.exchange(request.as_bytes()).await?;
    let unexpected =
        || LoadgenError::unexpected("creating a credential", answer.status, answer.body);
    if answer.status != 201 {
        return Err(unexpected());
    }
    let created: CredentialBody = serde_json::from_slice(answer.body).map_err(|_| unexpected())?;
    Ok(created.token)
}

/// Resolves `http://host:port`.
pub(crate) fn address(url: &str) -> Result<SocketAddr, LoadgenError> {
    let bad = |why: &str| LoadgenError::Usage(format!("{url}: {why}; expected http://HOST:PORT"));
    let authority = url
        .strip_prefix("http://")
        .ok_or_else(|| bad("not an http URL"))?
        .trim_end_matches('/');
    let mut found = authority
        .to_socket_addrs()
        .map_err(|error| bad(&error.to_string()))?;
    found.next().ok_or_else(|| bad("the name has no address"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_become_addresses() {
        assert_eq!(address("http://127.0.0.1:80/").unwrap().port(), 80);
        for bad in ["127.0.0.1:80", "https://127.0.0.1:80", "http://127.0.0.1"] {
            assert!(address(bad).unwrap_err().to_string().starts_with(bad));
        }
    }

    #[tokio::test]
    async fn a_missing_token_is_reported_with_the_remedy() {
        let options = ServerOptions {
            url: "http://127.0.0.1:9".to_owned(),
            ..ServerOptions::default()
        };
        let message = TargetServer::open(&options, Wire::Lmstfy)
            .await
            .unwrap_err()
            .to_string();
        assert!(message.contains("--admin URL"), "{message}");
    }
}
