//! Chooses and reserves a free port.

use std::collections::VecDeque;
use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};
use std::net::{Ipv4Addr, TcpListener, UdpSocket};
use std::ops::Range;
use std::sync::{Mutex, PoisonError};

/// Below the ephemeral ports. A port from that range could be taken by an outgoing connection while the server
/// restarts, even by the connection of a client that tries to reach this server. The cluster bus of Redis uses the port
/// plus 10,000.
const PORTS: Range<u16> = 12_000..22_000;
const TRIES: usize = 200;

/// The most ports that a process reserves at a time. Each takes a file, and 1024 is a usual limit.
const RESERVED_MAX: usize = 400;

/// The UDP sockets that reserve ports for this process, oldest first.
static RESERVATIONS: Mutex<VecDeque<UdpSocket>> = Mutex::new(VecDeque::new());

/// Returns a port of 127.0.0.1 that nothing listens on, chosen at random. Returns `None` if 200 attempts find none.
///
/// The port is reserved until this process ends, or has taken 400 further ones: no other call returns it, here or in
/// another process, also while a server that had bound it restarts. The reservation is a UDP socket with the same
/// number, which does not hinder a TCP server.
#[must_use]
pub fn free_port() -> Option<u16> {
    (0..TRIES)
        .map(|_| random_port())
        .find(|port| reserve(*port))
}

/// Reserves a port. Returns whether it was free.
fn reserve(port: u16) -> bool {
    let address = (Ipv4Addr::LOCALHOST, port);
    let Ok(reservation) = UdpSocket::bind(address) else {
        return false;
    };
    let is_free = TcpListener::bind(address).is_ok();
    if is_free {
        let mut reservations = RESERVATIONS.lock().unwrap_or_else(PoisonError::into_inner);
        if reservations.len() == RESERVED_MAX {
            reservations.pop_front();
        }
        reservations.push_back(reservation);
    }
    is_free
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
        assert!(!reserve(listener.local_addr().unwrap().port()));
    }

    #[test]
    fn a_port_stays_reserved_while_its_server_restarts() {
        let port = free_port().unwrap();
        drop(TcpListener::bind((Ipv4Addr::LOCALHOST, port)).unwrap());
        assert!(!reserve(port));
        assert!(TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok());
    }
}
