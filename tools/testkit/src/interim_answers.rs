//! A server that never comes to its answer.

use std::io::Write;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::thread;

/// Starts a server that sends `100 Continue` to its first client for as long as that takes it. It has its own thread: it
/// sends while the runtime of the test does not run.
///
/// # Panics
/// If no port is free.
#[must_use]
pub fn endless_interim_answers() -> SocketAddr {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
    let address = listener.local_addr().expect("a listener has an address");
    thread::spawn(move || {
        let (mut stream, _) = listener.accept().expect("a client connects");
        let many = "HTTP/1.1 100 Continue\r\n\r\n".repeat(2000);
        while stream.write_all(many.as_bytes()).is_ok() {}
    });
    address
}
