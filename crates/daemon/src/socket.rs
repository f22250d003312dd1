//! Socket options of accepted connections, and the accept queue at a stop.

use std::io;
use std::net::{SocketAddr, TcpListener as StdListener};
use std::time::Duration;

#[cfg(target_os = "linux")]
use socket2::SockFilter;
use socket2::{SockRef, TcpKeepalive};
use tokio::net::{TcpListener, TcpStream};

/// Idle time before the first keep-alive probe. A client that vanished without closing its connection occupies its
/// long poll until a few probes have failed.
const KEEPALIVE_AFTER: Duration = Duration::from_secs(30);
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(10);

/// Whether the client caused the error, by leaving between its connect and our accept. No reason to pause.
pub(crate) fn is_client_error(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::ConnectionAborted
            | io::ErrorKind::ConnectionReset
            | io::ErrorKind::Interrupted
    )
}

/// Sets TCP_NODELAY and keep-alive. Answers are written in one piece, so Nagle's algorithm would only delay them.
pub(crate) fn set_options(stream: &TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let keepalive = TcpKeepalive::new()
        .with_time(KEEPALIVE_AFTER)
        .with_interval(KEEPALIVE_INTERVAL);
    SockRef::from(stream).set_tcp_keepalive(&keepalive)
}

/// Returns the connections in the accept queue of a listener. Dropping the result closes the listener.
///
/// Stops new connections from being established. Clients resend their SYN after a second, and are refused or reach a
/// successor. On systems without socket filters, a connection that is established before the listener is closed is
/// reset.
pub(crate) fn backlog(
    listener: TcpListener,
) -> io::Result<impl Iterator<Item = (TcpStream, SocketAddr)>> {
    let listener = listener.into_std()?;
    if let Err(error) = ignore_new_connections(&listener) {
        tracing::debug!(%error, "failed to reject new connections; those made before the listener closes are reset");
    }
    Ok(std::iter::from_fn(move || {
        loop {
            match accept(&listener) {
                Err(error) if is_client_error(&error) => {}
                accepted => return accepted.ok(),
            }
        }
    }))
}

fn accept(listener: &StdListener) -> io::Result<(TcpStream, SocketAddr)> {
    let (stream, address) = listener.accept()?;
    stream.set_nonblocking(true)?;
    let stream = TcpStream::from_std(stream)?;
    set_options(&stream)?;
    Ok((stream, address))
}

/// Makes the system drop SYN segments. Handshakes that have begun still complete.
#[cfg(target_os = "linux")]
fn ignore_new_connections(listener: &StdListener) -> io::Result<()> {
    /// Offset of the flags in the TCP header (RFC 9293, 3.1), at which the filter of a TCP socket begins.
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

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::io::{Read, Write};
    use std::net::TcpStream as Client;

    use tokio::io::AsyncReadExt;

    use super::*;

    /// Regression test: connections that were established after the last accept were reset (fault run 43040).
    #[tokio::test]
    async fn connections_that_were_made_are_taken_and_none_is_made_any_more() {
        const NOT_AT_ONCE: Duration = Duration::from_millis(300);
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let mut before = Client::connect(address).unwrap();
        let mut backlog = backlog(listener).unwrap();
        let (mut taken, peer) = backlog.next().unwrap();
        assert_eq!(peer, before.local_addr().unwrap());
        let after = Client::connect_timeout(&address, NOT_AT_ONCE);
        assert_eq!(after.unwrap_err().kind(), io::ErrorKind::TimedOut);
        assert!(backlog.next().is_none());
        drop(backlog);
        let refused = Client::connect(address).unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::ConnectionRefused);
        // The accepted connection works.
        before.write_all(b"a").unwrap();
        assert_eq!(taken.read_u8().await.unwrap(), b'a');
        drop(taken);
        assert_eq!(before.read(&mut [0]).unwrap(), 0);
    }
}
