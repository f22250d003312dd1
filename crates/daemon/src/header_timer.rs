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
//! **Header bytes.** One budget bounds the headers of all connections of a listener. A header counts until its request is
//! answered, because it is kept that long: all bytes that were received while hyper waits for its end, then the names
//! and values of the complete header, since bytes of a body may have arrived with its end. The first 8 KiB of each header
//! do not count, since every connection has a buffer of that size.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use hyper::Request;
use hyper::rt::{Sleep, Timer};
use parking_lot::Mutex;
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

use crate::budget::{BudgetExhausted, ByteBudget, ByteShare};
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
    header: Mutex<ReceivedHeader>,
    shared: ListenerState,
    /// Fires at the deadline of the current wait, or before it.
    sleep: Mutex<Option<Pin<Box<tokio::time::Sleep>>>>,
    header_timeout: Duration,
}

/// A header, and its share of the budget.
#[derive(Debug, Default)]
struct ReceivedHeader {
    /// Bytes that were received since the wait for it began; bytes of a body may be among them.
    received: usize,
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
    ///
    /// # Errors
    /// The header budget is exhausted.
    pub(crate) fn request_began<B>(&self, request: &Request<B>) -> Result<bool, BudgetExhausted> {
        self.count_header(|received| received.min(header_bytes(request)))?;
        Ok(self.has_begun.swap(true, Ordering::Relaxed))
    }

    /// Records that the socket is empty.
    pub(crate) fn emptied(&self) {
        self.has_begun.store(false, Ordering::Relaxed);
    }

    /// Records that bytes have arrived.
    pub(crate) fn received(&self, bytes: usize) {
        // One task drives the connection, so no ordering between threads is needed.
        self.last_change.store(true, Ordering::Relaxed);
        self.header.lock().received += bytes;
    }

    /// Counts a header, whose length follows from the bytes that were received. Handlers count the bodies that they read.
    fn count_header(&self, length: impl FnOnce(usize) -> usize) -> Result<(), BudgetExhausted> {
        let mut header = self.header.lock();
        if header.received <= UNCOUNTED_BYTES {
            return Ok(());
        }
        let counted = length(header.received).saturating_sub(UNCOUNTED_BYTES);
        let budget = &self.shared.header_budget;
        let share = header.share.get_or_insert_with(|| budget.share());
        share.shrink_to(counted);
        share.grow_to(counted).inspect_err(|_| {
            OVER_BUDGET.with_label_values(&["header"]).inc();
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

/// The length of a complete header.
fn header_bytes<B>(request: &Request<B>) -> usize {
    const SEPARATORS: usize = ": \r\n".len();
    let fields = request.headers().iter();
    let fields = fields.map(|(name, value)| name.as_str().len() + value.len() + SEPARATORS);
    let target = request.uri().path_and_query();
    fields.sum::<usize>() + target.map_or(0, |target| target.as_str().len())
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
        *self.0.header.lock() = ReceivedHeader::default();
        let waiting = self.0.shared.waiting.as_ref();
        Box::pin(HeaderSleep {
            deadline: deadline.into(),
            in_header: false,
            wait: Arc::clone(&self.0),
            _entry: waiting.map(|(connections, end)| connections.register(end.clone())),
        })
    }
}

/// Lasts as long as the wait for a request: hyper drops it when the header is complete. It ends early without room for
/// the header.
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
        if self.wait.count_header(|received| received).is_err() {
            return Poll::Ready(());
        }
        self.wait.poll_until(self.deadline, context)
    }
}
