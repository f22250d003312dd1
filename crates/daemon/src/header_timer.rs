//! Idle and header timeouts of a connection, and the byte budget of headers.
//!
//! **Idle and header.** hyper starts one timer when it begins to wait for a request and stops it when the request's
//! header is complete. One limit would have to cover two cases: an idle connection between two requests, which
//! ordinary clients keep open for a minute or more, and a header sent byte by byte to occupy the connection, which
//! must be cut after seconds. hyper does not distinguish them, but lets us supply the timer. The socket notifies this
//! timer of every byte that arrives: before the first byte the idle timeout applies, after it the header timeout.
//! hyper polls the timer after each read that did not complete a header, so the switch happens with the first byte. In
//! one case the idle timeout still applies: the beginning of a header arrived in one read with the end of the previous
//! request, and nothing arrives after that.
//!
//! A wait begins and ends with each request, and nearly none reaches its deadline. So the connection's tokio timer is
//! not reset when a wait ends. When it fires and the current wait has a later deadline, it is set again: once per idle
//! timeout instead of twice per request.
//!
//! **Header bytes.** One budget bounds the headers of all connections of a listener. A header counts from its first
//! byte until its request is answered, because it is kept that long. The first 8 KiB of each header do not count,
//! since every connection has a buffer of that size. Bytes of the body that were read together with the end of the
//! header do not count either.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use hyper::rt::{Sleep, Timer};
use parking_lot::Mutex;
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

use crate::budget::{ByteBudget, ByteShare};
use crate::header_end::HeaderEnd;
use crate::listen_limits::ListenLimits;
use crate::metrics::OVER_BUDGET;
use crate::waiting_connections::{WaitingConnections, WaitingEntry};

/// The first bytes of each header, which do not count against the budget.
const UNCOUNTED_BYTES: usize = 8192;

/// State that all connections of a listener share.
#[derive(Debug, Clone)]
pub(crate) struct ListenerState {
    /// Budget for the headers of requests that are not answered yet.
    pub(crate) header_budget: ByteBudget,
    /// The registry of idle connections, and the token that ends this one.
    pub(crate) waiting: Option<(WaitingConnections, CancellationToken)>,
}

/// State of one connection's waits for its requests, which follow one another.
#[derive(Debug)]
pub(crate) struct RequestWait {
    /// Whether bytes have arrived since the current wait began.
    last_change: AtomicBool,
    /// Whether a request has begun since the socket was empty.
    has_begun: AtomicBool,
    /// The header of the next request, or of the request in progress.
    header: Mutex<PartialHeader>,
    shared: ListenerState,
    /// Fires at the deadline of the current wait, or before it.
    sleep: Mutex<Option<Pin<Box<tokio::time::Sleep>>>>,
    header_timeout: Duration,
}

/// The part of a header that has been read.
#[derive(Debug, Default)]
struct PartialHeader {
    bytes: usize,
    end: HeaderEnd,
    share: Option<ByteShare>,
}

impl RequestWait {
    pub(crate) fn new(limits: &ListenLimits, shared: ListenerState) -> Self {
        Self {
            last_change: AtomicBool::default(),
            has_begun: AtomicBool::default(),
            header: Mutex::default(),
            shared,
            sleep: Mutex::default(),
            header_timeout: limits.header_timeout,
        }
    }

    /// Records that the header of a request is complete. Returns whether the client has pipelined it: the socket was
    /// not empty since the request before.
    pub(crate) fn request_began(&self) -> bool {
        self.has_begun.swap(true, Ordering::Relaxed)
    }

    /// Records that the socket is empty.
    pub(crate) fn emptied(&self) {
        self.has_begun.store(false, Ordering::Relaxed);
    }

    /// Records that bytes have arrived.
    ///
    /// # Errors
    /// They belong to a header, and the header budget is exhausted.
    pub(crate) fn received(&self, bytes: &[u8]) -> io::Result<()> {
        // One task drives the connection, so no ordering between threads is needed.
        self.last_change.store(true, Ordering::Relaxed);
        self.count_header_bytes(bytes)
    }

    /// Counts the bytes that belong to a header. Handlers count the bodies that they read.
    fn count_header_bytes(&self, bytes: &[u8]) -> io::Result<()> {
        let mut header = self.header.lock();
        header.bytes += header.end.feed(bytes);
        let counted = header.bytes.saturating_sub(UNCOUNTED_BYTES);
        if counted == 0 {
            return Ok(());
        }
        let budget = &self.shared.header_budget;
        let share = header.share.get_or_insert_with(|| budget.share());
        share.grow_to(counted).map_err(|error| {
            OVER_BUDGET.with_label_values(&["header"]).inc();
            io::Error::other(error)
        })
    }

    fn poll_until(&self, deadline: Instant, context: &mut Context<'_>) -> Poll<()> {
        let mut sleep = self.sleep.lock();
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

/// The timer that hyper uses for one connection. It keeps to the deadlines that hyper requests, the deadlines of the
/// idle timeout, until a header begins, and to the header timeout then.
pub(crate) struct HeaderTimer(pub(crate) Arc<RequestWait>);

impl Timer for HeaderTimer {
    fn sleep(&self, duration: Duration) -> Pin<Box<dyn Sleep>> {
        self.sleep_until((Instant::now() + duration).into())
    }

    /// The deadline belongs to the idle timeout, which is hyper's `header_read_timeout`.
    fn sleep_until(&self, deadline: std::time::Instant) -> Pin<Box<dyn Sleep>> {
        self.0.last_change.store(false, Ordering::Relaxed);
        // Releases the header of the previous request, which is answered.
        *self.0.header.lock() = PartialHeader::default();
        let waiting = self.0.shared.waiting.as_ref();
        Box::pin(HeaderSleep {
            deadline: deadline.into(),
            in_header: false,
            wait: Arc::clone(&self.0),
            _entry: waiting.map(|(connections, end)| connections.register(end.clone())),
        })
    }
}

/// Lasts as long as the wait for a request: hyper drops it when the header is complete.
struct HeaderSleep {
    wait: Arc<RequestWait>,
    in_header: bool,
    deadline: Instant,
    _entry: Option<WaitingEntry>,
}

impl Sleep for HeaderSleep {}

impl Future for HeaderSleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        if !self.in_header && self.wait.last_change.load(Ordering::Relaxed) {
            self.in_header = true;
            self.deadline = Instant::now() + self.wait.header_timeout;
        }
        self.wait.poll_until(self.deadline, context)
    }
}
