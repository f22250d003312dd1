//! The address of a server.

use std::str::FromStr;

use redis::ConnectionAddr;

const SENTINEL_PORT: u16 = 26379;

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct HostPort {
    pub(crate) host: String,
    pub(crate) port: u16,
}

impl HostPort {
    /// Host and port of an address; `None` for a Unix socket.
    pub(crate) fn of_address(address: &ConnectionAddr) -> Option<Self> {
        match address {
            ConnectionAddr::Tcp(host, port) | ConnectionAddr::TcpTls { host, port, .. } => {
                let (host, port) = (host.clone(), *port);
                Some(Self { host, port })
            }
            _ => None,
        }
    }

    /// Parses the address of a node, `host:port`, as the node at `queried` reports it. Without a host it is the host of
    /// `queried`.
    pub(crate) fn of_node(text: &str, queried: &Self) -> Option<Self> {
        let (host, port) = text.rsplit_once(':')?;
        let host = match host {
            "" | "?" => &queried.host,
            host => host.trim_start_matches('[').trim_end_matches(']'),
        };
        Some(Self {
            host: host.to_owned(),
            port: port.parse().ok()?,
        })
    }
}

impl std::fmt::Display for HostPort {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "{}:{}", self.host, self.port)
    }
}

impl FromStr for HostPort {
    type Err = String;

    /// `host`, `host:port`, `[v6]` or `[v6]:port`.
    fn from_str(text: &str) -> Result<Self, String> {
        let (host, port) = match text.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
            Some((host, rest)) => (host, rest.strip_prefix(':')),
            None => match text.split_once(':') {
                Some((host, port)) => (host, Some(port)),
                None => (text, None),
            },
        };
        let port = port.map_or(Ok(SENTINEL_PORT), str::parse);
        let is_host = !host.is_empty() && !host.contains(['/', '@', ' ']);
        match port {
            Ok(port) if is_host && port > 0 => Ok(Self {
                host: host.to_owned(),
                port,
            }),
            // A url may contain a password.
            _ if text.contains('@') => Err(
                "sentinels must be host:port each; set user and password with sentinel_username and \
                 sentinel_password"
                    .to_owned(),
            ),
            _ => Err(format!("sentinels must be host:port each, not {text:?}")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_have_the_default_port_of_sentinels() {
        for (text, host, port) in [
            ("a", "a", 26379),
            ("10.0.0.1:5", "10.0.0.1", 5),
            ("[::1]", "::1", 26379),
            ("[::1]:5", "::1", 5),
        ] {
            let host_port: HostPort = text.parse().unwrap();
            assert_eq!((host_port.host.as_str(), host_port.port), (host, port));
        }
        for text in ["", ":5", "a:", "a:0", "a:70000", "a/b", "::1"] {
            assert!(text.parse::<HostPort>().is_err(), "{text}");
        }
    }
}
