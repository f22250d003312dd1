//! A body that comes back if it is not read to its end, and the time for which it was waited for.

use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::body::HttpBody;
use bytes::Bytes;
use http_body_util::BodyExt;
use hyper::body::{Frame, Incoming, SizeHint};
use tokio::time::{Instant, timeout};

/// At most this much is read off behind an answer, and for at most [`DISCARD_TIME`].
const DISCARD_BYTES: u64 = 16 * 1024 * 1024;
const DISCARD_TIME: Duration = Duration::from_secs(10);

/// Lends the body of a request. What is not read of it can be taken back from the [`Lender`] once the
/// borrower has dropped it.
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

/// What a borrower and its lender share.
struct Loan<B> {
    rest: Mutex<Option<Rest<B>>>,
    time: Mutex<Time>,
}

#[derive(Default)]
struct Time {
    past: Duration,
    /// Set while the body is waited for.
    since: Option<Instant>,
}

/// What was not read of a body.
pub(crate) struct Rest<B = Incoming> {
    body: B,
    /// Whether somebody began to read it.
    begun: bool,
}

/// Gets back what was not read of a body.
pub(crate) struct Lender<B = Incoming>(Option<Arc<Loan<B>>>);

impl<B: HttpBody> Lender<B> {
    /// The rest of the body, if it came back before its end.
    pub(crate) fn take_back(&self) -> Option<Rest<B>> {
        let rest = lock(&self.0.as_ref()?.rest).take();
        rest.filter(|rest| !rest.body.is_end_stream())
    }
}

impl<B> Rest<B>
where
    B: HttpBody<Data = Bytes> + Unpin,
{
    /// Whether it was begun, and with it the permission to send it given.
    pub(crate) const fn is_begun(&self) -> bool {
        self.begun
    }

    /// Whether [`Self::discard`] can be expected to reach its end, as far as its length is declared.
    pub(crate) fn is_discardable(&self) -> bool {
        self.body.size_hint().lower() <= DISCARD_BYTES
    }

    /// Reads it off, within bounds. A body that is longer, or slower, costs the client its connection.
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
        // A body that is not read off in time is dropped, which is all that can be done about it.
        let _ = timeout(DISCARD_TIME, reading_off).await;
    }
}

/// A body that somebody lent.
pub(crate) struct LentBody<B = Incoming> {
    body: Option<B>,
    begun: bool,
    /// Whether the running wait for it is noted.
    is_waited_for: bool,
    loan: Option<Arc<Loan<B>>>,
}

impl<B> LentBody<B> {
    /// A body with nothing in it.
    pub(crate) const fn empty() -> Self {
        Self {
            body: None,
            begun: false,
            is_waited_for: false,
            loan: None,
        }
    }

    /// Tells for how long the body was waited for.
    pub(crate) fn waited(&self) -> Waited<B> {
        Waited(self.loan.clone())
    }

    /// Most bodies have come with their header: for them there is nothing to note.
    fn note(&mut self, is_waiting: bool) {
        if self.is_waited_for == is_waiting {
            return;
        }
        self.is_waited_for = is_waiting;
        let Some(loan) = &self.loan else {
            return;
        };
        let mut time = lock(&loan.time);
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
        self.note(polled.is_pending());
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
        self.note(false);
        if let (Some(body), Some(loan)) = (self.body.take(), &self.loan) {
            let begun = self.begun;
            *lock(&loan.rest) = Some(Rest { body, begun });
        }
    }
}

/// Tells for how long a body was waited for.
pub(crate) struct Waited<B = Incoming>(Option<Arc<Loan<B>>>);

impl<B> Waited<B> {
    /// All waits together, the running one included.
    pub(crate) fn total(&self) -> Duration {
        let Some(loan) = &self.0 else {
            return Duration::ZERO;
        };
        let time = lock(&loan.time);
        time.past + time.since.map_or(Duration::ZERO, |since| since.elapsed())
    }
}

fn lock<T>(shared: &Mutex<T>) -> MutexGuard<'_, T> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}
