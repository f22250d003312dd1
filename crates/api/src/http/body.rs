//! Reading of request bodies, with limits on the size of each, on the memory of all together, and on time.
//!
//! hyper reads a body only while it is polled, and a connection with an unread body can neither be reused nor report a
//! hang-up. So a body is *lent* to its handler: the part that the handler did not read is returned, and is read and
//! dropped after the response has been handed to hyper, within bounds. A client that writes its whole body before it
//! reads gets the response that way.

mod lent;

use std::time::Duration;

use axum::body::HttpBody;
use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt;
use tidegate_daemon::metrics::OVER_BUDGET;
use tidegate_daemon::{ByteBudget, ByteShare};
use tokio::time::{Instant, timeout_at};

pub(crate) use lent::{BodyWait, Lender, LentBody, UnreadBody, lend};

/// The least rate of a body is this many bytes in each [`BodyReader::timeout`].
const STEP_BYTES: usize = 1024 * 1024;

/// A body up to this length, in bytes, is copied out of the read buffer of its connection. The connection can then
/// reuse that buffer, instead of allocating another 8 KiB for its next request.
const COPIED_BYTES: usize = 1024;

/// The most bytes that are allocated because of a declared length, before the body has arrived.
const TRUSTED_BYTES: usize = 64 * 1024;

/// A body up to this length, in bytes, does not count for the budget: the buffers of its connection are larger.
const UNCOUNTED_BYTES: usize = 4 * 1024;

/// Why a body was not read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BodyError {
    /// It is longer than [`BodyReader::bytes_max`]. The part that was read is dropped.
    TooLarge,
    /// The client sent too slowly.
    TooSlow,
    /// The connection broke, or the chunks of the body are malformed.
    Broken,
    /// [`BodyReader::budget`] has no room left.
    OverBudget,
}

/// A body that was read. It counts for the budget of all bodies until its share is dropped, also if `bytes` was taken.
#[derive(Debug)]
pub(crate) struct ReceivedBody {
    /// The whole body.
    pub(crate) bytes: Bytes,
    /// Its part of the budget.
    _share: ByteShare,
}

/// The limits for reading a body.
#[derive(Debug, Clone)]
pub(crate) struct BodyReader {
    /// The longest body, in bytes.
    pub(crate) bytes_max: usize,
    /// The longest wait for each MiB of the body.
    pub(crate) timeout: Duration,
    /// The memory of all bodies together.
    pub(crate) budget: ByteBudget,
}

impl BodyReader {
    /// The same limits, for bodies of another length.
    pub(crate) fn up_to(&self, bytes_max: usize) -> Self {
        Self {
            bytes_max,
            ..self.clone()
        }
    }

    /// Reads a whole body. A body whose declared length is too long is not read. The budget counts the bytes received,
    /// not the declared length, so that a client cannot reserve memory without sending.
    ///
    /// # Errors
    /// See [`BodyError`].
    pub(crate) async fn read<B>(&self, mut body: B) -> Result<ReceivedBody, BodyError>
    where
        B: HttpBody<Data = Bytes> + Unpin,
    {
        self.check_declared(&body)?;
        let declared = usize::try_from(body.size_hint().lower()).unwrap_or(usize::MAX);
        let mut min_rate = MinRate::new(self.timeout);
        let mut share = self.budget.share();
        let Some(first) = min_rate.next(&mut body).await? else {
            let bytes = Bytes::new();
            return Ok(ReceivedBody {
                bytes,
                _share: share,
            });
        };
        if body.is_end_stream() && first.len() <= self.bytes_max {
            count(&mut share, first.len())?;
            let bytes = match first.len() {
                ..=COPIED_BYTES => Bytes::copy_from_slice(&first),
                _ => first,
            };
            return Ok(ReceivedBody {
                bytes,
                _share: share,
            });
        }
        let mut whole = BytesMut::with_capacity(declared.min(TRUSTED_BYTES).max(first.len()));
        let mut next = Some(first);
        while let Some(part) = next {
            if whole.len() + part.len() > self.bytes_max {
                return Err(BodyError::TooLarge);
            }
            count(&mut share, whole.len() + part.len())?;
            whole.extend_from_slice(&part);
            next = min_rate.next(&mut body).await?;
        }
        let bytes = whole.freeze();
        Ok(ReceivedBody {
            bytes,
            _share: share,
        })
    }

    /// Reads a body to its end and drops it. It does not count for the budget.
    ///
    /// # Errors
    /// All but [`BodyError::OverBudget`].
    pub(crate) async fn skip<B>(self, mut body: B) -> Result<(), BodyError>
    where
        B: HttpBody<Data = Bytes> + Unpin,
    {
        self.check_declared(&body)?;
        let mut min_rate = MinRate::new(self.timeout);
        let mut skipped = 0;
        while let Some(part) = min_rate.next(&mut body).await? {
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

/// Counts a body of this length for the budget.
fn count(share: &mut ByteShare, bytes: usize) -> Result<(), BodyError> {
    if bytes <= UNCOUNTED_BYTES {
        return Ok(());
    }
    share.grow_to(bytes).map_err(|_| {
        OVER_BUDGET.with_label_values(&["body"]).inc();
        BodyError::OverBudget
    })
}

/// Enforces the least rate of a body.
struct MinRate {
    timeout: Duration,
    step_ends_at: Instant,
    read_in_step: usize,
}

impl MinRate {
    fn new(timeout: Duration) -> Self {
        Self {
            timeout,
            step_ends_at: Instant::now() + timeout,
            read_in_step: 0,
        }
    }

    /// The next part of the body; `None` at its end.
    ///
    /// # Errors
    /// [`BodyError::TooSlow`] or [`BodyError::Broken`].
    async fn next<B>(&mut self, body: &mut B) -> Result<Option<Bytes>, BodyError>
    where
        B: HttpBody<Data = Bytes> + Unpin,
    {
        loop {
            let frame = match timeout_at(self.step_ends_at, body.frame()).await {
                Ok(Some(Ok(frame))) => frame,
                Ok(None) => return Ok(None),
                Ok(Some(Err(_))) => return Err(BodyError::Broken),
                Err(_) => return Err(BodyError::TooSlow),
            };
            // Trailers are ignored.
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

    fn reading() -> BodyReader {
        BodyReader {
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
    async fn the_limit_is_inclusive_for_bodies_in_one_or_more_parts() {
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
    async fn reading_a_body_that_does_not_arrive_times_out() {
        let never = futures_util::stream::pending::<Result<Frame<Bytes>, std::io::Error>>();
        let body = Body::new(StreamBody::new(never));
        assert_eq!(read(body).await, Err(BodyError::TooSlow));
    }

    #[tokio::test]
    async fn a_body_that_breaks_off_is_not_read() {
        let broken = Err::<Frame<Bytes>, _>(std::io::Error::other("malformed"));
        let frames = futures_util::stream::iter([Ok(Frame::data(Bytes::from("a"))), broken]);
        let body = Body::new(StreamBody::new(frames));
        assert_eq!(read(body).await, Err(BodyError::Broken));
    }

    #[tokio::test]
    async fn bodies_are_bounded_together_by_what_was_received_of_them() {
        const BYTES: usize = 100_000;
        let reading = BodyReader {
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
