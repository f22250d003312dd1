//! A socket that fails for slow readers and broken connections, which hyper alone does not detect.
//!
//! **Write.** A client that does not read its answer, or reads it byte by byte, would keep the answer in memory
//! indefinitely. While the socket is full, the client must read each MiB within `write_timeout`; bodies that
//! clients send slowly have the same kind of limit. Otherwise the write fails, and the connection is reset.
//!
//! **Break.** hyper detects the end of a connection when it reads, and it does not read while it already has the
//! next request. A client that pipelines something after a long poll and vanishes would keep its permit to the
//! end of the wait, which may be years. So a separate future waits for the socket error that the kernel raises at
//! a reset, or when keep-alive probes fail.

use std::io::{self, IoSlice};
use std::net::Shutdown;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use socket2::SockRef;
use tokio::io::{AsyncRead, AsyncWrite, Interest, ReadBuf};
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::time::Instant;

use crate::header_timer::{HeaderTimer, ListenerState, RequestWait};
use crate::listen_limits::ListenLimits;

/// Bytes that a slow client must read within each `write_timeout`.
const STEP_BYTES: usize = 1024 * 1024;

/// Creates the socket and the timer of one connection, and a future that completes when the connection breaks.
pub(crate) fn wrap_connection(
    stream: TcpStream,
    limits: &ListenLimits,
    shared: ListenerState,
) -> (WatchedStream, HeaderTimer, impl Future<Output = ()> + use<>) {
    let (reader, writer) = stream.into_split();
    let wait = Arc::new(RequestWait::new(limits, shared));
    let stream = WatchedStream {
        reader,
        wait: Arc::clone(&wait),
        write_timeout: limits.write_timeout,
        write_deadline: None,
    };
    (stream, HeaderTimer(wait), wait_until_broken(writer))
}

/// Completes when the connection is broken. An orderly end of the client's input does not count.
async fn wait_until_broken(stream: OwnedWriteHalf) {
    // A failure to wait counts as a broken connection.
    let _ = stream.ready(Interest::ERROR).await;
}

/// A socket that records reads and limits the time of writes.
#[derive(Debug)]
pub(crate) struct WatchedStream {
    /// Used for reading, and as a reference for writing. tokio's own read knows that a read that does not fill
    /// the buffer has emptied the socket, which saves a second system call.
    reader: OwnedReadHalf,
    wait: Arc<RequestWait>,
    write_timeout: Duration,
    /// Set while the socket is full.
    write_deadline: Option<WriteDeadline>,
}

/// Deadline for the next MiB that a slow client must read.
#[derive(Debug)]
struct WriteDeadline {
    step_ends: Pin<Box<tokio::time::Sleep>>,
    bytes_left: usize,
}

impl WatchedStream {
    /// Passes on the result of a write, or fails if the client has read too little for too long.
    fn check_progress(
        &mut self,
        polled: Poll<io::Result<usize>>,
        context: &mut Context<'_>,
    ) -> Poll<io::Result<usize>> {
        let write_timeout = self.write_timeout;
        if let Poll::Ready(written) = &polled {
            if let (Ok(bytes), Some(deadline)) = (written, &mut self.write_deadline) {
                deadline.record_written(*bytes, write_timeout);
            }
            return polled;
        }
        let deadline = self.write_deadline.get_or_insert_with(|| WriteDeadline {
            step_ends: Box::pin(tokio::time::sleep(write_timeout)),
            bytes_left: STEP_BYTES,
        });
        ready!(deadline.step_ends.as_mut().poll(context));
        // Resets the connection on close. The kernel would otherwise keep megabytes of the answer for as long as
        // the client reads slowly.
        let _ = self.reader.as_ref().set_zero_linger();
        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
    }
}

impl WriteDeadline {
    fn record_written(&mut self, bytes: usize, write_timeout: Duration) {
        self.bytes_left = self.bytes_left.saturating_sub(bytes);
        if self.bytes_left == 0 {
            self.bytes_left = STEP_BYTES;
            self.step_ends
                .as_mut()
                .reset(Instant::now() + write_timeout);
        }
    }
}

impl AsyncRead for WatchedStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        match Pin::new(&mut self.reader).poll_read(context, buffer) {
            Poll::Pending => {
                self.wait.emptied();
                return Poll::Pending;
            }
            Poll::Ready(read) => read?,
        }
        self.wait.received(buffer.filled().len() - before);
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for WatchedStream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let polled = when_writable(self.reader.as_ref(), context, |stream| {
            stream.try_write(bytes)
        });
        self.check_progress(polled, context)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let write = |stream: &TcpStream| stream.try_write_vectored(slices);
        let polled = when_writable(self.reader.as_ref(), context, write);
        self.check_progress(polled, context)
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    /// Everything is written; the next write starts a new deadline.
    fn poll_flush(mut self: Pin<&mut Self>, _context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.write_deadline = None;
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(SockRef::from(self.reader.as_ref()).shutdown(Shutdown::Write))
    }
}

fn when_writable<T>(
    stream: &TcpStream,
    context: &mut Context<'_>,
    write: impl Fn(&TcpStream) -> io::Result<T>,
) -> Poll<io::Result<T>> {
    loop {
        ready!(stream.poll_write_ready(context))?;
        match write(stream) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            written => return Poll::Ready(written),
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::{TcpListener, TcpSocket};
    use tokio::time::sleep;

    use super::*;
    use crate::budget::ByteBudget;

    const WRITE_TIMEOUT: Duration = Duration::from_secs(1);
    const ANSWER_BYTES: usize = 8 * STEP_BYTES;
    /// Small, so that the kernel buffers little and the client reads something many times a second.
    const BUFFER_BYTES: u32 = 16 * 1024;

    /// Writes an answer to a client that reads `bytes_a_tick` bytes every 10 ms.
    async fn write_to(bytes_a_tick: usize) -> io::Result<()> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let socket = TcpSocket::new_v4()?;
        socket.set_recv_buffer_size(BUFFER_BYTES)?;
        let mut client = socket.connect(listener.local_addr()?).await?;
        let (server, _) = listener.accept().await?;
        SockRef::from(&server).set_send_buffer_size(BUFFER_BYTES as usize)?;
        let limits = ListenLimits {
            write_timeout: WRITE_TIMEOUT,
            ..ListenLimits::default()
        };
        let shared = ListenerState {
            header_budget: ByteBudget::new(0),
            waiting: None,
        };
        let (mut stream, _timer, _broken) = wrap_connection(server, &limits, shared);
        let reading = async {
            let mut buffer = vec![0; bytes_a_tick];
            while client.read_exact(&mut buffer).await.is_ok() {
                sleep(Duration::from_millis(10)).await;
            }
            std::future::pending().await
        };
        let answer = vec![b'x'; ANSWER_BYTES];
        tokio::select! {
            written = stream.write_all(&answer) => written,
            () = reading => Ok(()),
        }
    }

    #[tokio::test]
    async fn a_client_that_reads_less_than_a_mib_per_timeout_is_cut() {
        let began_at = Instant::now();
        let cut = write_to(1024).await.unwrap_err();
        assert_eq!(cut.kind(), io::ErrorKind::TimedOut);
        let lasted = began_at.elapsed();
        assert!(
            lasted >= WRITE_TIMEOUT && lasted < 5 * WRITE_TIMEOUT,
            "{lasted:?}"
        );
        // 25 times the required rate.
        write_to(STEP_BYTES / 4).await.unwrap();
    }
}
