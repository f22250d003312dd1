//! The time limits of a connection that hyper does not have.
//!
//! **Idle and header.** hyper starts one timer when it begins to wait for a request and stops it when
//! the request's header is complete. The same limit would have to serve for two different things: an
//! idle connection between two requests, which ordinary clients keep for a minute and more, and a header
//! that comes byte by byte to hold the connection, which should be cut after seconds. hyper does not
//! tell them apart, but the timer is ours to supply: this one is told by the socket whether bytes have
//! arrived since the wait began. Before the first byte it is the idle timer, from then on the header
//! timer. hyper polls it after each read that did not complete a header, so the switch happens with the
//! first byte. One case stays with the idle timer: the beginning of a header that arrived in one piece
//! with the end of the request before it, and nothing after that. It is bounded all the same.
//!
//! A wait begins and ends with each request, and nearly none comes to its deadline. So the runtime's timer
//! of a connection stays where it is when a wait ends; when it goes off, and the deadline of the running
//! wait is later, it is set anew. That is once in an idle timeout and not twice a request.
//!
//! **Write.** A client that does not read its answer, or reads it byte by byte, would keep the answer in memory
//! for ever. While there is more to write than the client takes, each MiB has to be taken in time: the rule for
//! slow senders of bodies, the other way round. Else the write fails, and the connection is reset.
//!
//! **Header bytes.** What was read of headers that are not complete is bounded over all connections of a
//! listener. Up to 8 KiB of each do not count: every connection has a buffer of that size.
//!
//! **Break.** hyper notices the end of a connection when it reads, and it does not read while the next
//! request is in its hands already. A client that sends something behind a long poll and vanishes would
//! keep its place to the end of the wait, which may be years. So somebody else looks out for the error
//! that the kernel raises: at a reset, or when the client is asked for in vain. The end of what a client sends is
//! not always a hang-up: see `hang_up.rs`.

use std::io::{self, IoSlice};
use std::net::Shutdown;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use hyper::rt::{Sleep, Timer};
use socket2::SockRef;
use tokio::io::{AsyncRead, AsyncWrite, Interest, ReadBuf};
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

use crate::ListenLimits;
use crate::budget::{ByteBudget, ByteShare};
use crate::hang_up::{HELD_MAX, HangUp};
use crate::metrics::OVER_BUDGET;
use crate::waiting::{WaitingConnections, WaitingEntry};

/// A client that has more to read than it takes has to take so much within each `write_timeout`.
const STEP_BYTES: usize = 1024 * 1024;

/// Bytes of a header that do not count for the budget of all headers.
const UNCOUNTED_BYTES: usize = 8192;

/// What a connection shares with the others of its listener.
#[derive(Debug, Clone)]
pub(crate) struct Shared {
    /// For the headers that are not complete.
    pub(crate) header_budget: ByteBudget,
    /// Where a connection that waits for a request can be found and ended.
    pub(crate) waiting: Option<(WaitingConnections, CancellationToken)>,
}

/// A socket and a timer that belong together, and a look-out for the break of the connection: each
/// connection has one of each.
pub(crate) fn of_connection(
    stream: TcpStream,
    limits: &ListenLimits,
    shared: Shared,
    hang_up: HangUp,
) -> (WatchedStream, HeadTimer, impl Future<Output = ()> + use<>) {
    let (reader, writer) = stream.into_split();
    let wait = Arc::new(Wait {
        touched: AtomicBool::default(),
        header: Mutex::default(),
        shared,
        sleep: Mutex::default(),
        hang_up,
        header_timeout: limits.header_timeout,
        idle_timeout: limits.idle_timeout,
    });
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
        let hang_up = &self.wait.hang_up;
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
        let bytes = buffer.filled().len() - before;
        if bytes == 0 && buffer.remaining() > 0 {
            ready!(self.poll_end(context));
        } else {
            // One connection is driven by one task: no ordering between threads is needed.
            self.wait.touched.store(true, Ordering::Relaxed);
            self.wait.count(bytes)?;
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

/// The waits of one connection for its requests, one after the other.
#[derive(Debug)]
struct Wait {
    /// Whether bytes have arrived since the running wait began.
    touched: AtomicBool,
    /// Set while the running wait lasts.
    header: Mutex<Option<Header>>,
    shared: Shared,
    /// Goes off at the deadline of the running wait or before.
    sleep: Mutex<Option<Pin<Box<tokio::time::Sleep>>>>,
    hang_up: HangUp,
    header_timeout: Duration,
    idle_timeout: Duration,
}

/// What was read of a header that is not complete.
#[derive(Debug, Default)]
struct Header {
    bytes: usize,
    share: Option<ByteShare>,
}

impl Wait {
    /// Counts what was read of a header. Bodies are counted by those who read them.
    fn count(&self, bytes: usize) -> io::Result<()> {
        let mut header = self.header.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(header) = &mut *header else {
            return Ok(());
        };
        header.bytes += bytes;
        let Some(counted) = header
            .bytes
            .checked_sub(UNCOUNTED_BYTES)
            .filter(|more| *more > 0)
        else {
            return Ok(());
        };
        let budget = &self.shared.header_budget;
        let share = header.share.get_or_insert_with(|| budget.share());
        share.grow_to(counted).map_err(|error| {
            metrics::counter!(OVER_BUDGET, "what" => "header").increment(1);
            io::Error::other(error)
        })
    }

    fn set_header(&self, header: Option<Header>) {
        *self.header.lock().unwrap_or_else(PoisonError::into_inner) = header;
    }

    fn poll_until(&self, deadline: Instant, context: &mut Context<'_>) -> Poll<()> {
        let mut sleep = self.sleep.lock().unwrap_or_else(PoisonError::into_inner);
        let sleep = sleep.get_or_insert_with(|| Box::pin(sleep_until(deadline)));
        if sleep.deadline() > deadline {
            sleep.as_mut().reset(deadline);
        }
        while sleep.as_mut().poll(context).is_ready() {
            if sleep.deadline() >= deadline {
                return Poll::Ready(());
            }
            sleep.as_mut().reset(deadline);
        }
        Poll::Pending
    }
}

/// The timer of one connection. The deadlines that hyper asks for are not used: there are two.
pub(crate) struct HeadTimer(Arc<Wait>);

impl Timer for HeadTimer {
    fn sleep(&self, _duration: Duration) -> Pin<Box<dyn Sleep>> {
        self.0.touched.store(false, Ordering::Relaxed);
        self.0.set_header(Some(Header::default()));
        self.0.hang_up.request_ended();
        let waiting = self.0.shared.waiting.as_ref();
        Box::pin(HeadSleep {
            deadline: Instant::now() + self.0.idle_timeout,
            in_header: false,
            wait: Arc::clone(&self.0),
            _entry: waiting.map(|(connections, end)| connections.enter(end.clone())),
        })
    }

    fn sleep_until(&self, _deadline: std::time::Instant) -> Pin<Box<dyn Sleep>> {
        self.sleep(self.0.idle_timeout)
    }
}

/// Lasts as long as the wait for a request: hyper drops it when the header is complete.
struct HeadSleep {
    wait: Arc<Wait>,
    in_header: bool,
    deadline: Instant,
    _entry: Option<WaitingEntry>,
}

impl Drop for HeadSleep {
    fn drop(&mut self) {
        self.wait.set_header(None);
    }
}

impl Sleep for HeadSleep {}

impl Future for HeadSleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        if !self.in_header && self.wait.touched.load(Ordering::Relaxed) {
            self.in_header = true;
            self.deadline = Instant::now() + self.wait.header_timeout;
        }
        self.wait.poll_until(self.deadline, context)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::{TcpListener, TcpSocket};
    use tokio::time::sleep;

    use super::*;

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
        let (mut stream, _timer, _broken) = of_connection(server, &limits, shared);
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
