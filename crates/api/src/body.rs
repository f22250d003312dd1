//! Bodies of requests: never more in memory than allowed, never waited for without end, and never left
//! lying in a connection.
//!
//! hyper reads a body only while somebody asks for it, and a connection with an unread body can neither
//! be used again nor be watched for a hang-up. So a body is *lent*: what a handler did not read comes
//! back, and is read off and thrown away after the answer is on its way, within bounds. An ordinary
//! client, which writes its whole body before it reads, gets to see the answer that way.

use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::body::{Body, HttpBody};
use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt;
use hyper::body::{Frame, Incoming, SizeHint};
use tokio::time::{Instant, timeout, timeout_at};

/// A body is expected to come at a rate of one such step each [`Reading::timeout`].
const STEP_BYTES: usize = 1024 * 1024;

/// At most this much is read off behind an answer, and for at most [`DISCARD_TIME`].
const DISCARD_BYTES: u64 = 16 * 1024 * 1024;
const DISCARD_TIME: Duration = Duration::from_secs(10);

/// Memory that a declared length is trusted with.
const TRUSTED_BYTES: usize = 64 * 1024;

/// Why a body was not read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BodyError {
    /// It is longer than allowed. What was read of it is gone.
    TooLarge,
    /// The connection broke, or the client was too slow.
    Unreadable,
}

/// How a body is to be read.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Reading {
    /// The longest body, in bytes.
    pub(crate) bytes_max: usize,
    /// The longest wait for each MiB.
    pub(crate) timeout: Duration,
}

impl Reading {
    /// Reads a whole body. One that is declared too long is not begun.
    pub(crate) async fn read(self, mut body: Body) -> Result<Bytes, BodyError> {
        self.check_declared(&body)?;
        let declared = usize::try_from(body.size_hint().lower()).unwrap_or(usize::MAX);
        let mut pace = Pace::new(self.timeout);
        let Some(first) = pace.next(&mut body).await? else {
            return Ok(Bytes::new());
        };
        if body.is_end_stream() && first.len() <= self.bytes_max {
            return Ok(first);
        }
        let mut whole = BytesMut::with_capacity(declared.min(TRUSTED_BYTES).max(first.len()));
        let mut next = Some(first);
        while let Some(part) = next {
            if whole.len() + part.len() > self.bytes_max {
                return Err(BodyError::TooLarge);
            }
            whole.extend_from_slice(&part);
            next = pace.next(&mut body).await?;
        }
        Ok(whole.freeze())
    }

    /// Reads a body to its end and keeps nothing of it.
    pub(crate) async fn skip(self, mut body: Body) -> Result<(), BodyError> {
        self.check_declared(&body)?;
        let mut pace = Pace::new(self.timeout);
        let mut skipped = 0;
        while let Some(part) = pace.next(&mut body).await? {
            skipped += part.len();
            if skipped > self.bytes_max {
                return Err(BodyError::TooLarge);
            }
        }
        Ok(())
    }

    fn check_declared(self, body: &Body) -> Result<(), BodyError> {
        if body.size_hint().lower() > self.bytes_max as u64 {
            return Err(BodyError::TooLarge);
        }
        Ok(())
    }
}

/// Gives a body time for each step of its way.
struct Pace {
    timeout: Duration,
    step_ends_at: Instant,
    read_in_step: usize,
}

impl Pace {
    fn new(timeout: Duration) -> Self {
        Self {
            timeout,
            step_ends_at: Instant::now() + timeout,
            read_in_step: 0,
        }
    }

    /// The next part of a body; `None` at its end.
    async fn next(&mut self, body: &mut Body) -> Result<Option<Bytes>, BodyError> {
        loop {
            let frame = match timeout_at(self.step_ends_at, body.frame()).await {
                Ok(Some(Ok(frame))) => frame,
                Ok(None) => return Ok(None),
                Ok(Some(Err(_))) | Err(_) => return Err(BodyError::Unreadable),
            };
            // Trailers mean nothing here.
            if let Ok(part) = frame.into_data() {
                self.read_in_step += part.len();
                if self.read_in_step >= STEP_BYTES {
                    self.read_in_step %= STEP_BYTES;
                    self.step_ends_at = Instant::now() + self.timeout;
                }
                return Ok(Some(part));
            }
        }
    }
}

/// Lends the body of a request. What is not read of it can be taken back from the [`Lender`] once the
/// borrower has dropped it.
pub(crate) fn lend(body: Incoming) -> (Body, Lender) {
    if body.is_end_stream() {
        return (Body::empty(), Lender(None));
    }
    let returned = Arc::default();
    let lent = Lent {
        body: Some(body),
        begun: false,
        returned: Arc::clone(&returned),
    };
    (Body::new(lent), Lender(Some(returned)))
}

/// What was not read of a body.
pub(crate) struct Rest {
    body: Incoming,
    /// Whether somebody began to read it.
    begun: bool,
}

type Returned = Arc<Mutex<Option<Rest>>>;

/// Gets back what was not read of a body.
pub(crate) struct Lender(Option<Returned>);

impl Lender {
    /// The rest of the body, if it came back before its end.
    pub(crate) fn take_back(self) -> Option<Rest> {
        let returned = self.0?;
        returned
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take()
    }
}

impl Rest {
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

struct Lent {
    body: Option<Incoming>,
    begun: bool,
    returned: Returned,
}

impl HttpBody for Lent {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        self.begun = true;
        let Some(body) = &mut self.body else {
            return Poll::Ready(None);
        };
        let frame = ready!(Pin::new(body).poll_frame(context));
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

impl Drop for Lent {
    fn drop(&mut self) {
        let body = self.body.take().filter(|body| !body.is_end_stream());
        let begun = self.begun;
        let rest = body.map(|body| Rest { body, begun });
        *self.returned.lock().unwrap_or_else(PoisonError::into_inner) = rest;
    }
}

#[cfg(test)]
mod tests {
    use http_body_util::StreamBody;

    use super::*;

    const READING: Reading = Reading {
        bytes_max: 10,
        timeout: Duration::from_millis(100),
    };

    fn in_parts(parts: &'static [&'static str]) -> Body {
        let frames = parts
            .iter()
            .map(|part| Ok::<_, std::io::Error>(Frame::data(Bytes::from_static(part.as_bytes()))));
        Body::new(StreamBody::new(futures_util::stream::iter(frames)))
    }

    #[tokio::test]
    async fn the_limit_is_inclusive_however_the_body_comes() {
        let whole = READING.read(Body::from("0123456789")).await;
        assert_eq!(whole, Ok(Bytes::from("0123456789")));
        assert_eq!(READING.read(Body::empty()).await, Ok(Bytes::new()));
        assert_eq!(READING.read(in_parts(&["01234", "56789"])).await, whole);
        let too_large = Err(BodyError::TooLarge);
        assert_eq!(READING.read(Body::from("0123456789a")).await, too_large);
        assert_eq!(
            READING.read(in_parts(&["01234", "56789", "a"])).await,
            too_large
        );
        assert_eq!(READING.read(in_parts(&["0123456789a"])).await, too_large);
    }

    #[tokio::test]
    async fn skipping_has_the_same_limit() {
        assert_eq!(READING.skip(in_parts(&["01234", "56789"])).await, Ok(()));
        let too_large = Err(BodyError::TooLarge);
        assert_eq!(
            READING.skip(in_parts(&["01234", "56789", "a"])).await,
            too_large
        );
    }

    #[tokio::test]
    async fn a_body_that_does_not_come_is_not_waited_for() {
        let never = futures_util::stream::pending::<Result<Frame<Bytes>, std::io::Error>>();
        let body = Body::new(StreamBody::new(never));
        assert_eq!(READING.read(body).await, Err(BodyError::Unreadable));
    }
}
