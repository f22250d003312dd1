//! The time limits of a connection that waits for a request, and the bytes of headers.
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
//! wait is later, it is set again. That is once in an idle timeout and not twice a request.
//!
//! **Header bytes.** Headers are bounded over all connections of a listener, from their first byte until their request
//! has been answered: that is how long they are kept. Up to 8 KiB of each do not count: every connection has a buffer
//! of that size. Neither does what was read with the end of a header, the beginning of a body.

use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use hyper::rt::{Sleep, Timer};
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

use crate::ListenLimits;
use crate::budget::{ByteBudget, ByteShare};
use crate::hang_up::HangUp;
use crate::header_end::HeaderEnd;
use crate::metrics::OVER_BUDGET;
use crate::waiting::{WaitingConnections, WaitingEntry};

/// Bytes of a header that do not count for the budget of all headers.
const UNCOUNTED_BYTES: usize = 8192;

/// What a connection shares with the others of its listener.
#[derive(Debug, Clone)]
pub(crate) struct Shared {
    /// For the headers of requests that are not answered.
    pub(crate) header_budget: ByteBudget,
    /// Where a connection that waits for a request can be found and ended.
    pub(crate) waiting: Option<(WaitingConnections, CancellationToken)>,
}

/// The waits of one connection for its requests, one after the other.
#[derive(Debug)]
pub(crate) struct Wait {
    /// Whether bytes have arrived since the running wait began.
    touched: AtomicBool,
    /// That of the request that is waited for, or answered.
    header: Mutex<Header>,
    shared: Shared,
    /// Goes off at the deadline of the running wait or before.
    sleep: Mutex<Option<Pin<Box<tokio::time::Sleep>>>>,
    hang_up: HangUp,
    header_timeout: Duration,
    idle_timeout: Duration,
}

/// What was read of a header.
#[derive(Debug, Default)]
struct Header {
    bytes: usize,
    end: HeaderEnd,
    share: Option<ByteShare>,
}

impl Wait {
    pub(crate) fn new(limits: &ListenLimits, shared: Shared, hang_up: HangUp) -> Self {
        Self {
            touched: AtomicBool::default(),
            header: Mutex::default(),
            shared,
            sleep: Mutex::default(),
            hang_up,
            header_timeout: limits.header_timeout,
            idle_timeout: limits.idle_timeout,
        }
    }

    /// What becomes of the running request when the client sends no more.
    pub(crate) const fn hang_up(&self) -> &HangUp {
        &self.hang_up
    }

    /// Bytes have arrived.
    ///
    /// # Errors
    /// They belong to a header, and there is no room for it.
    pub(crate) fn received(&self, bytes: &[u8]) -> io::Result<()> {
        // One connection is driven by one task: no ordering between threads is needed.
        self.touched.store(true, Ordering::Relaxed);
        self.hang_up.received();
        self.count(bytes)
    }

    /// Counts what was read of a header. Bodies are counted by those who read them.
    fn count(&self, bytes: &[u8]) -> io::Result<()> {
        let mut header = self.header.lock().unwrap_or_else(PoisonError::into_inner);
        header.bytes += header.end.feed(bytes);
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

    /// The next request is waited for: the one before is answered.
    fn next_header(&self) {
        *self.header.lock().unwrap_or_else(PoisonError::into_inner) = Header::default();
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
pub(crate) struct HeadTimer(pub(crate) Arc<Wait>);

impl Timer for HeadTimer {
    fn sleep(&self, _duration: Duration) -> Pin<Box<dyn Sleep>> {
        self.0.touched.store(false, Ordering::Relaxed);
        self.0.next_header();
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
