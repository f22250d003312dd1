//! Sockets of clients, as they are accepted.

use std::io;
use std::net::{SocketAddr, TcpListener as StdListener};
use std::time::Duration;

#[cfg(target_os = "linux")]
use socket2::SockFilter;
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
    /// From now on no connection begins. Clients try again after a second, and are refused, or reach a
    /// successor. Where the system cannot do that, a connection that is made before the listener is closed is reset.
    pub(crate) fn of(listener: TcpListener) -> io::Result<Self> {
        let listener = listener.into_std()?;
        if let Err(error) = ignore_new_connections(&listener) {
            tracing::debug!(%error, "connections can begin until the listener is closed");
        }
        Ok(Self(listener))
    }

    fn accept(&self) -> io::Result<(TcpStream, SocketAddr)> {
        let (stream, address) = self.0.accept()?;
        stream.set_nonblocking(true)?;
        let stream = TcpStream::from_std(stream)?;
        tune(&stream)?;
        Ok((stream, address))
    }
}

/// Has the system drop each segment that begins a connection. Those of handshakes that have begun still come.
#[cfg(target_os = "linux")]
fn ignore_new_connections(listener: &StdListener) -> io::Result<()> {
    /// The filter of a TCP socket begins with the TCP header (RFC 9293, 3.1): its flags, and that of a first segment.
    const FLAGS_AT: u32 = 13;
    const SYN: u32 = 2;
    // linux/bpf_common.h: BPF_LD | BPF_B | BPF_ABS, BPF_JMP | BPF_JSET | BPF_K, BPF_RET | BPF_K.
    const LOAD_BYTE: u16 = 0x30;
    const JUMP_IF_SET: u16 = 0x45;
    const RETURN: u16 = 0x06;
    const KEPT_BYTES: u32 = u32::MAX;
    SockRef::from(listener).attach_filter(&[
        SockFilter::new(LOAD_BYTE, 0, 0, FLAGS_AT),
        SockFilter::new(JUMP_IF_SET, 0, 1, SYN),
        SockFilter::new(RETURN, 0, 0, 0),
        SockFilter::new(RETURN, 0, 0, KEPT_BYTES),
    ])
}

#[cfg(not(target_os = "linux"))]
fn ignore_new_connections(_listener: &StdListener) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
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

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::io::{Read, Write};
    use std::net::TcpStream as Client;

    use tokio::io::AsyncReadExt;

    use super::*;

    /// Reports of clients whose connection was reset: it was made behind the last accept (fault run 43040).
    #[tokio::test]
    async fn connections_that_were_made_are_taken_and_none_is_made_any_more() {
        const NOT_AT_ONCE: Duration = Duration::from_millis(300);
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let mut before = Client::connect(address).unwrap();
        let mut backlog = Backlog::of(listener).unwrap();
        let (mut taken, peer) = backlog.next().unwrap();
        assert_eq!(peer, before.local_addr().unwrap());
        let after = Client::connect_timeout(&address, NOT_AT_ONCE);
        assert_eq!(after.unwrap_err().kind(), io::ErrorKind::TimedOut);
        assert!(backlog.next().is_none());
        drop(backlog);
        let refused = Client::connect(address).unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::ConnectionRefused);
        // What was taken is a connection like others.
        before.write_all(b"a").unwrap();
        assert_eq!(taken.read_u8().await.unwrap(), b'a');
        drop(taken);
        assert_eq!(before.read(&mut [0]).unwrap(), 0);
    }
}
