//! The error for an address that cannot be bound, with its remedy.

use std::io::{self, ErrorKind};
use std::net::SocketAddr;

/// An address that cannot be bound.
#[derive(Debug, thiserror::Error)]
#[error("cannot listen on {key} = \"{address}\": {source}; {}", remedy(source))]
pub struct BindError {
    /// The settings key that has the address.
    pub key: &'static str,
    pub address: SocketAddr,
    /// The error of the system.
    pub source: io::Error,
}

fn remedy(error: &io::Error) -> &'static str {
    match error.kind() {
        ErrorKind::AddrInUse => {
            "another process listens there: stop it, or set this key to another address"
        }
        ErrorKind::AddrNotAvailable => {
            "set this key to an address of this machine, or to 0.0.0.0 or [::] for all of them"
        }
        ErrorKind::PermissionDenied => {
            "set this key to a port from 1024 on, or grant CAP_NET_BIND_SERVICE"
        }
        _ => "set this key to another address",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_key_and_the_remedy_are_named() {
        let text = |kind: ErrorKind| {
            let address = "127.0.0.1:80".parse().unwrap();
            let source = kind.into();
            BindError {
                key: "admin_listen",
                address,
                source,
            }
            .to_string()
        };
        let said = text(ErrorKind::AddrInUse);
        let begin = "cannot listen on admin_listen = \"127.0.0.1:80\": ";
        assert!(said.starts_with(begin), "{said}");
        assert!(said.contains("another process listens there"), "{said}");
        assert!(text(ErrorKind::PermissionDenied).contains("1024"));
        assert!(text(ErrorKind::AddrNotAvailable).contains("this machine"));
    }
}
