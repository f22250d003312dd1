//! Bodies of requests: never more in memory than allowed, each and all together, never waited for without end,
//! and never left lying in a connection.
//!
//! hyper reads a body only while somebody asks for it, and a connection with an unread body can neither
//! be used again nor be watched for a hang-up. So a body is *lent*: what a handler did not read comes
//! back, and is read off and thrown away after the answer is on its way, within bounds. An ordinary
//! client, which writes its whole body before it reads, gets to see the answer that way.

mod lent;

use std::time::Duration;

use axum::body::HttpBody;
use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt;
use metrics::counter;
use tidegate_service::metrics::OVER_BUDGET;
use tidegate_service::{ByteBudget, ByteShare};
use tokio::time::{Instant, timeout_at};

pub(crate) use lent::{LentBody, Rest, Waited, lend};

/// A body is expected to come at a rate of one such step each [`Reading::timeout`].
const STEP_BYTES: usize = 1024 * 1024;

/// A body up to this length is copied out of the buffer that its connection reads into. The connection can
/// go on with that buffer, and need not take another one of 8 KiB for its next request.
const COPIED_BYTES: usize = 1024;

/// Memory that a declared length is trusted with.
const TRUSTED_BYTES: usize = 64 * 1024;

/// A body up to this length does not count for the budget: it is no more than its connection costs.
const UNCOUNTED_BYTES: usize = 4 * 1024;

/// Why a body was not read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BodyError {
    /// It is longer than allowed. What was read of it is gone.
    TooLarge,
    /// The connection broke, or the client was too slow.
    Unreadable,
    /// All bodies together are as large as they may be.
    OverBudget,
}

/// A body that was read. It counts for the budget of all bodies until it is dropped.
#[derive(Debug)]
pub(crate) struct ReadBody {
    /// The whole body.
    pub(crate) bytes: Bytes,
    /// What it takes of the budget.
    pub(crate) share: ByteShare,
}

/// How a body is to be read.
#[derive(Debug, Clone)]
pub(crate) struct Reading {
    /// The longest body, in bytes.
    pub(crate) bytes_max: usize,
    /// The longest wait for each MiB.
    pub(crate) timeout: Duration,
    /// For all bodies together.
    pub(crate) budget: ByteBudget,
}

impl Reading {
    /// Reads a whole body. One that is declared too long is not begun. What counts is what was received: a length
    /// that is only declared costs others nothing.
    pub(crate) async fn read<B>(&self, mut body: B) -> Result<ReadBody, BodyError>
    where
        B: HttpBody<Data = Bytes> + Unpin,
    {
        self.check_declared(&body)?;
        let declared = usize::try_from(body.size_hint().lower()).unwrap_or(usize::MAX);
        let mut pace = Pace::new(self.timeout);
        let mut share = self.budget.share();
        let Some(first) = pace.next(&mut body).await? else {
            let bytes = Bytes::new();
            return Ok(ReadBody { bytes, share });
        };
        if body.is_end_stream() && first.len() <= self.bytes_max {
            count(&mut share, first.len())?;
            let bytes = match first.len() {
                ..=COPIED_BYTES => Bytes::copy_from_slice(&first),
                _ => first,
            };
            return Ok(ReadBody { bytes, share });
        }
        let mut whole = BytesMut::with_capacity(declared.min(TRUSTED_BYTES).max(first.len()));
        let mut next = Some(first);
        while let Some(part) = next {
            if whole.len() + part.len() > self.bytes_max {
                return Err(BodyError::TooLarge);
            }
            count(&mut share, whole.len() + part.len())?;
            whole.extend_from_slice(&part);
            next = pace.next(&mut body).await?;
        }
        let bytes = whole.freeze();
        Ok(ReadBody { bytes, share })
    }

    /// Reads a body to its end and keeps nothing of it.
    pub(crate) async fn skip<B>(self, mut body: B) -> Result<(), BodyError>
    where
        B: HttpBody<Data = Bytes> + Unpin,
    {
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

    fn check_declared(&self, body: &impl HttpBody) -> Result<(), BodyError> {
        if body.size_hint().lower() > self.bytes_max as u64 {
            return Err(BodyError::TooLarge);
        }
        Ok(())
    }
}

/// Has a body of this length count.
fn count(share: &mut ByteShare, bytes: usize) -> Result<(), BodyError> {
    if bytes <= UNCOUNTED_BYTES {
        return Ok(());
    }
    share.grow_to(bytes).map_err(|_| {
        counter!(OVER_BUDGET, "what" => "body").increment(1);
        BodyError::OverBudget
    })
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
    async fn next<B>(&mut self, body: &mut B) -> Result<Option<Bytes>, BodyError>
    where
        B: HttpBody<Data = Bytes> + Unpin,
    {
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

#[cfg(test)]
mod tests {
    use axum::body::Body;
    use http_body_util::StreamBody;
    use hyper::body::Frame;

    use super::*;

    fn reading() -> Reading {
        Reading {
            bytes_max: 10,
            timeout: Duration::from_millis(100),
            budget: ByteBudget::new(0),
        }
    }

    async fn read(body: Body) -> Result<Bytes, BodyError> {
        reading().read(body).await.map(|read| read.bytes)
    }

    fn in_parts<T: Into<Bytes>, const N: usize>(parts: [T; N]) -> Body {
        let frame = |part: T| Ok::<_, std::io::Error>(Frame::data(part.into()));
        let frames: Vec<_> = parts.into_iter().map(frame).collect();
        Body::new(StreamBody::new(futures_util::stream::iter(frames)))
    }

    #[tokio::test]
    async fn the_limit_is_inclusive_however_the_body_comes() {
        let whole = read(Body::from("0123456789")).await;
        assert_eq!(whole, Ok(Bytes::from("0123456789")));
        assert_eq!(read(Body::empty()).await, Ok(Bytes::new()));
        assert_eq!(read(in_parts(["01234", "56789"])).await, whole);
        let too_large = Err(BodyError::TooLarge);
        assert_eq!(read(Body::from("0123456789a")).await, too_large);
        assert_eq!(read(in_parts(["01234", "56789", "a"])).await, too_large);
        assert_eq!(read(in_parts(["0123456789a"])).await, too_large);
    }

    #[tokio::test]
    async fn skipping_has_the_same_limit() {
        assert_eq!(reading().skip(in_parts(["01234", "56789"])).await, Ok(()));
        let too_large = Err(BodyError::TooLarge);
        assert_eq!(
            reading().skip(in_parts(["01234", "56789", "a"])).await,
            too_large
        );
    }

    #[tokio::test]
    async fn a_body_that_does_not_come_is_not_waited_for() {
        let never = futures_util::stream::pending::<Result<Frame<Bytes>, std::io::Error>>();
        let body = Body::new(StreamBody::new(never));
        assert_eq!(read(body).await, Err(BodyError::Unreadable));
    }

    #[tokio::test]
    async fn bodies_are_bounded_together_by_what_was_received_of_them() {
        const BYTES: usize = 100_000;
        let reading = Reading {
            bytes_max: BYTES,
            timeout: Duration::from_secs(10),
            budget: ByteBudget::new(BYTES),
        };
        let body = |length: usize| Body::from(vec![b'x'; length]);
        let first = reading.read(body(BYTES - 10_000)).await.unwrap();
        assert_eq!(reading.budget.used(), BYTES - 10_000);
        let over = reading.read(body(10_001)).await;
        assert_eq!(over.unwrap_err(), BodyError::OverBudget);
        let halves = ["x".repeat(5_000), "x".repeat(5_001)];
        let over = reading.read(in_parts(halves)).await;
        assert_eq!(over.unwrap_err(), BodyError::OverBudget);
        reading.read(body(10_000)).await.unwrap();
        reading.read(body(UNCOUNTED_BYTES)).await.unwrap();
        assert_eq!(reading.budget.used(), BYTES - 10_000);
        drop(first);
        assert_eq!(reading.budget.used(), 0);
    }
}
