//! A body that is returned if it is not read to its end, and the time for which its reader waited.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::body::HttpBody;
use bytes::Bytes;
use http_body_util::BodyExt;
use hyper::body::{Frame, Incoming, SizeHint};
use parking_lot::Mutex;
use tokio::time::{Instant, timeout};

/// The most bytes of an unread body that are read and dropped after the response, within [`DISCARD_TIME`].
const DISCARD_BYTES: u64 = 16 * 1024 * 1024;
const DISCARD_TIME: Duration = Duration::from_secs(10);

/// Lends the body of a request. Once the borrower has dropped it, the [`Lender`] can take back the unread rest.
pub(crate) fn lend<B: HttpBody>(body: B) -> (LentBody<B>, Lender<B>) {
    if body.is_end_stream() {
        return (LentBody::empty(), Lender(None));
    }
    let loan = Arc::new(Loan {
        rest: Mutex::new(None),
        time: Mutex::default(),
    });
    let lent = LentBody {
        body: Some(body),
        begun: false,
        is_waited_for: false,
        loan: Some(Arc::clone(&loan)),
    };
    (lent, Lender(Some(loan)))
}

/// The state that borrower and lender share.
struct Loan<B> {
    rest: Mutex<Option<UnreadBody<B>>>,
    time: Mutex<WaitTime>,
}

#[derive(Default)]
struct WaitTime {
    past: Duration,
    /// Set while the reader waits for the body.
    since: Option<Instant>,
}

/// The unread rest of a body.
pub(crate) struct UnreadBody<B = Incoming> {
    body: B,
    /// Whether the borrower has polled it.
    begun: bool,
}

/// Takes back the unread rest of a body.
pub(crate) struct Lender<B = Incoming>(Option<Arc<Loan<B>>>);

impl<B: HttpBody> Lender<B> {
    /// The rest of the body, if the borrower dropped it before its end.
    pub(crate) fn take_unread(&self) -> Option<UnreadBody<B>> {
        let rest = self.0.as_ref()?.rest.lock().take();
        rest.filter(|rest| !rest.body.is_end_stream())
    }
}

impl<B> UnreadBody<B>
where
    B: HttpBody<Data = Bytes> + Unpin,
{
    /// Whether the borrower has polled the body. hyper sends `100 Continue` at the first poll.
    pub(crate) const fn is_started(&self) -> bool {
        self.begun
    }

    /// Whether the declared length allows [`Self::discard`] to reach the end.
    pub(crate) fn is_discardable(&self) -> bool {
        self.body.size_hint().lower() <= DISCARD_BYTES
    }

    /// Reads and drops the rest, at most [`DISCARD_BYTES`] within [`DISCARD_TIME`]. If the body is longer or slower,
    /// hyper closes the connection.
    pub(crate) async fn discard(mut self) {
        let reading_off = async {
            let mut bytes_left = DISCARD_BYTES;
            while let Some(Ok(frame)) = self.body.frame().await {
                let length = frame.data_ref().map_or(0, |part| part.len() as u64);
                let Some(left) = bytes_left.checked_sub(length) else {
                    return;
                };
                bytes_left = left;
            }
        };
        // After the timeout the body is dropped.
        let _ = timeout(DISCARD_TIME, reading_off).await;
    }
}

/// A body that [`lend`] has lent. Dropping it returns the unread rest.
pub(crate) struct LentBody<B = Incoming> {
    body: Option<B>,
    begun: bool,
    /// Whether the current wait is recorded in the loan.
    is_waited_for: bool,
    loan: Option<Arc<Loan<B>>>,
}

impl<B> LentBody<B> {
    /// An empty body.
    pub(crate) const fn empty() -> Self {
        Self {
            body: None,
            begun: false,
            is_waited_for: false,
            loan: None,
        }
    }

    /// A handle that reports how long the reader has waited for the body.
    pub(crate) fn wait_time(&self) -> BodyWait<B> {
        BodyWait(self.loan.clone())
    }

    /// Records that a wait begins or ends. Most bodies arrive with their header and are never waited for.
    fn record_wait(&mut self, is_waiting: bool) {
        if self.is_waited_for == is_waiting {
            return;
        }
        self.is_waited_for = is_waiting;
        let Some(loan) = &self.loan else {
            return;
        };
        let mut time = loan.time.lock();
        match time.since.take() {
            Some(since) => time.past += since.elapsed(),
            None => time.since = Some(Instant::now()),
        }
    }
}

impl<B> HttpBody for LentBody<B>
where
    B: HttpBody<Data = Bytes> + Unpin,
{
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        self.begun = true;
        let Some(body) = &mut self.body else {
            return Poll::Ready(None);
        };
        let polled = Pin::new(body).poll_frame(context);
        self.record_wait(polled.is_pending());
        let frame = ready!(polled);
        if !matches!(frame, Some(Ok(_))) {
            self.body = None;
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.body.as_ref().is_none_or(HttpBody::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        self.body
            .as_ref()
            .map_or_else(|| SizeHint::with_exact(0), HttpBody::size_hint)
    }
}

impl<B> Drop for LentBody<B> {
    fn drop(&mut self) {
        self.record_wait(false);
        if let (Some(body), Some(loan)) = (self.body.take(), &self.loan) {
            let begun = self.begun;
            *loan.rest.lock() = Some(UnreadBody { body, begun });
        }
    }
}

/// Reports how long the reader has waited for a body.
pub(crate) struct BodyWait<B = Incoming>(Option<Arc<Loan<B>>>);

impl<B> BodyWait<B> {
    /// The total time of all waits, including the current one.
    pub(crate) fn total(&self) -> Duration {
        let Some(loan) = &self.0 else {
            return Duration::ZERO;
        };
        let time = loan.time.lock();
        time.past + time.since.map_or(Duration::ZERO, |since| since.elapsed())
    }
}
