//! A server under load: where it is, how it lets us in, and which processes it is made of.

use std::net::{SocketAddr, ToSocketAddrs};

use serde::Deserialize;

use crate::Error;
use crate::cpu::Watched;
use crate::http::Connection;
use crate::redis_info::RedisInfo;

/// What a person says of a server.
#[derive(Debug, Clone, Default)]
pub struct ServerOptions {
    /// `http://host:port`.
    pub url: String,
    /// A token of the namespace.
    pub token: Option<String>,
    /// `http://host:port` of the admin port, where a token can be made.
    pub admin: Option<String>,
    /// `redis://[user][:password@]host:port` of its Redis.
    pub redis: Option<String>,
    /// The namespace to work in; none = a new one.
    pub namespace: Option<String>,
    /// Its processes: names and process ids.
    pub processes: Vec<(String, u32)>,
}

/// A server that answers.
#[derive(Debug, Clone)]
pub(crate) struct Server {
    pub(crate) url: String,
    pub(crate) address: SocketAddr,
    pub(crate) token: String,
    pub(crate) namespace: String,
    pub(crate) redis_url: Option<String>,
    admin_url: Option<String>,
    pub(crate) processes: Vec<Watched>,
}

impl Server {
    /// Looks the server up, and makes a token where none is given.
    pub(crate) async fn open(options: &ServerOptions) -> Result<Self, Error> {
        let address = address(&options.url)?;
        let namespace = match &options.namespace {
            Some(namespace) => namespace.clone(),
            None if options.token.is_some() => {
                return Err(Error::Usage(
                    "a token belongs to a namespace: name it with --namespace, or give --admin URL and let a token be made"
                        .to_owned(),
                ));
            }
            None => format!("load-{:08x}", rand::random::<u32>()),
        };
        let token = match (&options.token, &options.admin) {
            (Some(token), _) => token.clone(),
            (None, Some(admin)) => make_token(admin, &namespace).await?,
            (None, None) => {
                return Err(Error::Usage(
                    "how to get in? give --token T --namespace NS, or --admin URL of the admin port".to_owned(),
                ));
            }
        };
        let watch = |(name, pid): &(String, u32)| Watched::new(name, *pid);
        Ok(Self {
            url: options.url.clone(),
            address,
            token,
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

    /// What its Redis tells of itself.
    ///
    /// # Errors
    /// The scenario needs a Redis and none was named.
    pub(crate) fn redis(&self, scenario: &str) -> Result<RedisInfo, Error> {
        let url = self.redis_url.as_deref().ok_or_else(|| {
            Error::Usage(format!("{scenario} asks Redis itself: give --redis URL"))
        })?;
        RedisInfo::of(url)
    }

    /// The names of the processes that are Redis.
    pub(crate) fn nodes(&self) -> impl Iterator<Item = &str> {
        let names = self.processes.iter().map(Watched::name);
        names.filter(|name| name.starts_with("redis"))
    }

    /// Says how many lanes a queue has.
    ///
    /// # Errors
    /// The server does not know lanes, or no admin port was named.
    pub(crate) async fn set_lanes(&self, queue: &str, open: u16) -> Result<(), Error> {
        let admin = self.admin_url.as_deref().ok_or_else(|| {
            Error::Usage("lanes are set on the admin port: give --admin URL".to_owned())
        })?;
        let address = address(admin)?;
        let mut connection = Connection::open(address, 0).await?;
        let body = format!(r#"{{"open":{open}}}"#);
        let request = format!(
            "PUT /lanes/{}/{queue} HTTP/1.1\r\nHost: {address}\r\nContent-Length: {}\r\n\r\n{body}",
            self.namespace,
            body.len()
        );
        let answer = connection.exchange(request.as_bytes()).await?;
        match answer.status {
            200 => Ok(()),
            status => Err(Error::unexpected("setting lanes", status, answer.body)),
        }
    }

    /// The process of this name, if it was named.
    pub(crate) fn process(&self, name: &str) -> Option<&Watched> {
        self.processes.iter().find(|process| process.name() == name)
    }
}

#[derive(Deserialize)]
struct Token {
    token: String,
}

async fn make_token(admin: &str, namespace: &str) -> Result<String, Error> {
    let address = address(admin)?;
    let mut connection = Connection::open(address, 0).await?;
    let request = format!(
        "POST /token/{namespace}?description=load HTTP/1.1\r\nHost: {address}\r\nContent-Length: 0\r\n\r\n"
    );
    let answer = connection.exchange(request.as_bytes()).await?;
    let unexpected = || Error::unexpected("making a token", answer.status, answer.body);
    if answer.status != 201 {
        return Err(unexpected());
    }
    let token: Token = serde_json::from_slice(answer.body).map_err(|_| unexpected())?;
    Ok(token.token)
}

/// The address of `http://host:port`.
fn address(url: &str) -> Result<SocketAddr, Error> {
    let bad = |why: &str| Error::Usage(format!("{url}: {why}; expected http://HOST:PORT"));
    let authority = url
        .strip_prefix("http://")
        .ok_or_else(|| bad("this is no such URL"))?
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
    async fn whoever_has_no_way_in_is_told_what_to_give() {
        let options = ServerOptions {
            url: "http://127.0.0.1:9".to_owned(),
            ..ServerOptions::default()
        };
        let said = Server::open(&options).await.unwrap_err().to_string();
        assert!(said.contains("--admin URL"), "{said}");
    }
}
