//! The longest time that a request may take on our side.
//!
//! Each call of Redis has a limit of its own, but a request makes several, one after the other. This is
//! the limit of all together. What the client takes comes on top: the time in which its body is waited
//! for, which has its own limit.
//!
//! A consume keeps the limit by itself: it may wait for long, and each waiting one would pay for a timer.

use std::pin::pin;
use std::time::Duration;

use tokio::time::{Instant, timeout_at};

use super::error::Refusal;
use crate::body::Waited;

/// Answers an internal error in the place of a request that takes too long. It may have been carried out.
pub(super) async fn limited<T, B>(
    answering: impl Future<Output = Result<T, Refusal>>,
    limit: Duration,
    waited: Waited<B>,
) -> Result<T, Refusal> {
    let began_at = Instant::now();
    let mut deadline = began_at + limit;
    let mut answering = pin!(answering);
    loop {
        match timeout_at(deadline, &mut answering).await {
            Ok(answer) => return answer,
            Err(_) => {
                let later = began_at + limit + waited.total();
                if later <= deadline {
                    tracing::debug!(?limit, "a request took longer than it may");
                    return Err(Refusal::Internal);
                }
                deadline = later;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use axum::body::Body;
    use bytes::Bytes;
    use futures_util::stream;
    use http_body_util::{BodyExt, StreamBody};
    use hyper::body::Frame;
    use tokio::time::sleep;

    use super::*;
    use crate::body::lend;

    const LIMIT: Duration = Duration::from_secs(30);

    /// What becomes of a request whose body comes in two parts with a pause of `pause` before each, and
    /// whose handler works for `work` after that.
    async fn outcome(pause: Duration, work: Duration) -> Result<(), Refusal> {
        let frames = stream::unfold(0, move |count| async move {
            sleep(pause).await;
            let frame = Frame::data(Bytes::from("part"));
            (count < 2).then_some((Ok::<_, axum::Error>(frame), count + 1))
        });
        let (body, _lender) = lend(Body::new(StreamBody::new(Box::pin(frames))));
        let waited = body.waited();
        let answering = async move {
            let whole = body.collect().await.unwrap().to_bytes();
            assert_eq!(whole, "partpart");
            sleep(work).await;
            Ok(())
        };
        limited(answering, LIMIT, waited).await
    }

    #[tokio::test(start_paused = true)]
    async fn only_our_time_counts() {
        let (none, long) = (Duration::ZERO, LIMIT * 5);
        let just_long_enough = LIMIT - Duration::from_millis(1);
        let too_long = LIMIT + Duration::from_millis(1);
        assert_eq!(outcome(none, just_long_enough).await, Ok(()));
        assert_eq!(outcome(long, just_long_enough).await, Ok(()));
        for pause in [none, long] {
            let began_at = Instant::now();
            let found = outcome(pause, too_long).await;
            assert_eq!(found, Err(Refusal::Internal));
            // Three waits: two parts, and the end.
            assert_eq!(began_at.elapsed().as_secs(), (pause * 3 + LIMIT).as_secs());
        }
    }
}
