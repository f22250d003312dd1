//! The time limit of a request (`requests.timeout`).
//!
//! Each call to Redis has a limit (`command_timeout`), but a request makes several calls, one after the other. This
//! limit applies to all of them together. The time for which the request waits for its body does not count; it has a
//! separate limit (`requests.body_timeout`).
//!
//! Consumes enforce the limit themselves: they may wait for a long time, and do without a second timer.

use std::pin::Pin;
use std::time::Duration;

use tokio::time::{Instant, timeout_at};

use super::body::BodyWait;

/// A request exceeded its time limit. It may have been executed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TookTooLong;

/// Awaits an answer for at most `limit`, not counting the time of `waited`. It takes a reference, since a function that
/// is given the future of a handler, of up to 6 KB, has room for it twice.
///
/// # Errors
/// The errors of `answering`, or [`TookTooLong`] after the limit: the request may have been executed.
pub(crate) async fn with_time_limit<T, E: From<TookTooLong>, B>(
    mut answering: Pin<&mut impl Future<Output = Result<T, E>>>,
    limit: Duration,
    waited: BodyWait<B>,
) -> Result<T, E> {
    let began_at = Instant::now();
    let mut deadline = began_at + limit;
    loop {
        match timeout_at(deadline, answering.as_mut()).await {
            Ok(answer) => return answer,
            Err(_) => {
                let later = began_at + limit + waited.total();
                if later <= deadline {
                    tracing::debug!(?limit, "request timed out; it may have been executed");
                    return Err(TookTooLong.into());
                }
                deadline = later;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;

    use axum::body::Body;
    use bytes::Bytes;
    use futures_util::stream;
    use http_body_util::{BodyExt, StreamBody};
    use hyper::body::Frame;
    use tokio::time::sleep;

    use super::*;
    use crate::http::body::lend;

    const LIMIT: Duration = Duration::from_secs(30);

    /// The result of a request whose body arrives in two parts with `pause` before each, and whose handler takes `work`
    /// after that.
    async fn outcome(pause: Duration, work: Duration) -> Result<(), TookTooLong> {
        let frames = stream::unfold(0, move |count| async move {
            sleep(pause).await;
            let frame = Frame::data(Bytes::from("part"));
            (count < 2).then_some((Ok::<_, axum::Error>(frame), count + 1))
        });
        let (body, _lender) = lend(Body::new(StreamBody::new(Box::pin(frames))));
        let waited = body.wait_time();
        let answering = async move {
            let whole = body.collect().await.unwrap().to_bytes();
            assert_eq!(whole, "partpart");
            sleep(work).await;
            Ok(())
        };
        with_time_limit(pin!(answering), LIMIT, waited).await
    }

    #[tokio::test(start_paused = true)]
    async fn the_wait_for_the_body_does_not_count() {
        let (none, long) = (Duration::ZERO, LIMIT * 5);
        let just_long_enough = LIMIT - Duration::from_millis(1);
        let too_long = LIMIT + Duration::from_millis(1);
        assert_eq!(outcome(none, just_long_enough).await, Ok(()));
        assert_eq!(outcome(long, just_long_enough).await, Ok(()));
        for pause in [none, long] {
            let began_at = Instant::now();
            let found = outcome(pause, too_long).await;
            assert_eq!(found, Err(TookTooLong));
            // Three waits: two parts, and the end.
            assert_eq!(began_at.elapsed().as_secs(), (pause * 3 + LIMIT).as_secs());
        }
    }
}
