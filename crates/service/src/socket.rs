//! Sockets of clients, as they are accepted.

use std::io;
use std::net::{SocketAddr, TcpListener as StdListener};
use std::time::Duration;

use socket2::{SockRef, TcpKeepalive};
use tokio::net::{TcpListener, TcpStream};

/// A client that vanished without a word keeps its place in a long poll until the kernel has asked for
/// it in vain: after this time, and a few times more.
const KEEPALIVE_AFTER: Duration = Duration::from_secs(30);
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(10);

/// The client went away between its connect and our accept: no reason to pause.
pub(crate) fn is_of_the_client(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::ConnectionAborted
            | io::ErrorKind::ConnectionReset
            | io::ErrorKind::Interrupted
    )
}

/// Answers are small and complete: waiting for more to send would only delay them.
pub(crate) fn tune(stream: &TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let keepalive = TcpKeepalive::new()
        .with_time(KEEPALIVE_AFTER)
        .with_interval(KEEPALIVE_INTERVAL);
    SockRef::from(stream).set_tcp_keepalive(&keepalive)
}

/// The connections that wait to be accepted. The listener is closed when they have been taken.
pub(crate) struct Backlog(StdListener);

impl Backlog {
    pub(crate) fn of(listener: TcpListener) -> io::Result<Self> {
        listener.into_std().map(Self)
    }

    fn accept(&self) -> io::Result<(TcpStream, SocketAddr)> {
        let (stream, address) = self.0.accept()?;
        stream.set_nonblocking(true)?;
        let stream = TcpStream::from_std(stream)?;
        tune(&stream)?;
        Ok((stream, address))
    }
}

impl Iterator for Backlog {
    type Item = (TcpStream, SocketAddr);

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            match self.accept() {
                Err(error) if is_of_the_client(&error) => {}
                accepted => return accepted.ok(),
            }
        }
    }
}
