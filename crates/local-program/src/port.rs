//! Chooses a free port.

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};
use std::net::{Ipv4Addr, TcpListener};
use std::ops::Range;

/// Below the ephemeral ports. A port from that range could be taken by an outgoing connection while the server
/// restarts, even by that of a client that tries to reach this server. The cluster bus of Redis uses the port plus
/// 10,000.
const PORTS: Range<u16> = 12_000..22_000;
const TRIES: usize = 200;

/// Returns a port of 127.0.0.1 that nothing listens on, chosen at random so that concurrent callers rarely choose the
/// same. Returns `None` if 200 attempts find none.
///
/// The port is not reserved: another process may take it before it is used.
#[must_use]
pub fn free_port() -> Option<u16> {
    (0..TRIES)
        .map(|_| random_port())
        .find(|port| is_free(*port))
}

fn is_free(port: u16) -> bool {
    TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok()
}

fn random_port() -> u16 {
    // Each RandomState has new random keys: a random number without a dependency.
    let random = RandomState::new().build_hasher().finish();
    let offset = random % u64::from(PORTS.end - PORTS.start);
    PORTS.start + u16::try_from(offset).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_free_port_is_in_the_range_and_free() {
        let port = free_port().unwrap();
        assert!(PORTS.contains(&port));
    }

    #[test]
    fn a_taken_port_is_not_free() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        assert!(!is_free(listener.local_addr().unwrap().port()));
    }
}
