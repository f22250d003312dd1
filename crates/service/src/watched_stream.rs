//! A socket that ends for slow readers and broken connections, which hyper alone does not notice.
//!
//! **Write.** A client that does not read its answer, or reads it byte by byte, would keep the answer in memory
//! for ever. While there is more to write than the client takes, each MiB has to be taken in time: the rule for
//! slow senders of bodies, the other way round. Else the write fails, and the connection is reset.
//!
//! **Break.** hyper notices the end of a connection when it reads, and it does not read while the next
//! request is in its hands already. A client that sends something behind a long poll and vanishes would
//! keep its place to the end of the wait, which may be years. So somebody else looks out for the error
//! that the kernel raises: at a reset, or when the client is asked for in vain. The end of what a client sends is
//! not always a hang-up: see `hang_up.rs`.

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
use tokio::time::{Instant, sleep_until};

use crate::ListenLimits;
use crate::hang_up::{HELD_MAX, HangUp};
use crate::head_timer::{HeadTimer, Shared, Wait};

/// A client that has more to read than it takes has to take so much within each `write_timeout`.
const STEP_BYTES: usize = 1024 * 1024;

/// A socket and a timer that belong together, and a look-out for the break of the connection: each
/// connection has one of each.
pub(crate) fn of_connection(
    stream: TcpStream,
    limits: &ListenLimits,
    shared: Shared,
    hang_up: HangUp,
) -> (WatchedStream, HeadTimer, impl Future<Output = ()> + use<>) {
    let (reader, writer) = stream.into_split();
    let wait = Arc::new(Wait::new(limits, shared, hang_up));
    let stream = WatchedStream {
        reader,
        wait: Arc::clone(&wait),
        write_timeout: limits.write_timeout,
        pace: None,
        held: None,
    };
    (stream, HeadTimer(wait), broken(writer))
}

/// Ends when the connection is broken; an orderly end of what the client sends is none.
async fn broken(stream: OwnedWriteHalf) {
    // That the system cannot tell is as good as an error.
    let _ = stream.ready(Interest::ERROR).await;
}

/// A socket that notes reads and gives up on writes.
#[derive(Debug)]
pub(crate) struct WatchedStream {
    /// Reads by itself, and lends the socket for writing. A read that does not fill the buffer has emptied
    /// the socket; the runtime's own reading knows that and spares the kernel a second question.
    reader: OwnedReadHalf,
    wait: Arc<Wait>,
    write_timeout: Duration,
    /// Runs while there is more to write than the client takes.
    pace: Option<WritePace>,
    /// Runs while the end of what the client sends is kept from the running request.
    held: Option<Pin<Box<tokio::time::Sleep>>>,
}

/// The time in which a client has to take the next MiB.
#[derive(Debug)]
struct WritePace {
    step_ends: Pin<Box<tokio::time::Sleep>>,
    bytes_left: usize,
}

impl WatchedStream {
    /// The client sends no more: ready when the reader is to see that.
    fn poll_end(&mut self, context: &mut Context<'_>) -> Poll<()> {
        let hang_up = self.wait.hang_up();
        let ended_at = match &self.held {
            Some(held) => held.deadline() - HELD_MAX,
            None => Instant::now(),
        };
        if !hang_up.is_held(ended_at, context) {
            return Poll::Ready(());
        }
        let held = self
            .held
            .get_or_insert_with(|| Box::pin(sleep_until(ended_at + HELD_MAX)));
        held.as_mut().poll(context)
    }

    /// Passes on what a write led to, unless the client has taken too little for too long.
    fn written(
        &mut self,
        polled: Poll<io::Result<usize>>,
        context: &mut Context<'_>,
    ) -> Poll<io::Result<usize>> {
        let write_timeout = self.write_timeout;
        if let Poll::Ready(written) = &polled {
            if let (Ok(bytes), Some(pace)) = (written, &mut self.pace) {
                pace.took(*bytes, write_timeout);
            }
            return polled;
        }
        let pace = self.pace.get_or_insert_with(|| WritePace {
            step_ends: Box::pin(tokio::time::sleep(write_timeout)),
            bytes_left: STEP_BYTES,
        });
        ready!(pace.step_ends.as_mut().poll(context));
        // The system would keep megabytes of the answer, and send them for as long as the client likes.
        let _ = self.reader.as_ref().set_zero_linger();
        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
    }
}

impl WritePace {
    fn took(&mut self, bytes: usize, write_timeout: Duration) {
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
        ready!(Pin::new(&mut self.reader).poll_read(context, buffer))?;
        let read = &buffer.filled()[before..];
        if read.is_empty() && buffer.remaining() > 0 {
            ready!(self.poll_end(context));
        } else {
            self.wait.received(read)?;
        }
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
        self.written(polled, context)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let write = |stream: &TcpStream| stream.try_write_vectored(slices);
        let polled = when_writable(self.reader.as_ref(), context, write);
        self.written(polled, context)
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    /// Everything is written: what comes next has its own time.
    fn poll_flush(mut self: Pin<&mut Self>, _context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.pace = None;
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
    /// Small, so that the system does not take much for the client: it takes something many times a second.
    const BUFFER_BYTES: u32 = 16 * 1024;

    /// Writes an answer to a client that reads so many bytes each 10 ms.
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
        let shared = Shared {
            header_budget: ByteBudget::new(0),
            waiting: None,
        };
        let (mut stream, _timer, _broken) =
            of_connection(server, &limits, shared, HangUp::default());
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
    async fn a_client_that_takes_less_than_a_mib_in_its_time_is_cut_though_it_takes_something() {
        let began_at = Instant::now();
        let cut = write_to(1024).await.unwrap_err();
        assert_eq!(cut.kind(), io::ErrorKind::TimedOut);
        let lasted = began_at.elapsed();
        assert!(
            lasted >= WRITE_TIMEOUT && lasted < 5 * WRITE_TIMEOUT,
            "{lasted:?}"
        );
        // 25 times as fast as it has to be.
        write_to(STEP_BYTES / 4).await.unwrap();
    }
}
