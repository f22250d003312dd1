//! The longest time that a request may take on our side.
//!
//! Each call of Redis has a limit of its own, but a request makes several, one after the other. This is
//! the limit of all together. What the client takes comes on top: the time in which its body is waited
//! for, which has its own limit.
//!
//! A consume keeps the limit by itself: it may wait for long, and each waiting one would pay for a layer
//! with a tenth of its memory.

use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::{Body, HttpBody};
use axum::extract::{Request, State};
use axum::http::Response;
use axum::middleware::Next;
use axum::response::IntoResponse;
use bytes::Bytes;
use hyper::body::{Frame, SizeHint};
use tokio::time::{Instant, timeout_at};

use super::error::Refusal;
use crate::app::App;

/// Answers 500 in the place of a request that takes too long. It may have been carried out.
pub(super) async fn limited(
    State(app): State<Arc<App>>,
    request: Request,
    next: Next,
) -> Response<Body> {
    run(request, next, app.requests.timeout).await
}

async fn run(request: Request, next: Next, limit: Duration) -> Response<Body> {
    let waited = Waited::default();
    let began_at = Instant::now();
    let mut deadline = began_at + limit;
    let request = request.map(|body| waited.over(body));
    let mut answering = Box::pin(next.run(request));
    loop {
        match timeout_at(deadline, &mut answering).await {
            Ok(response) => return response,
            Err(_) => {
                let later = began_at + limit + waited.total();
                if later <= deadline {
                    tracing::debug!(?limit, "a request took longer than it may");
                    return Refusal::Internal.into_response();
                }
                deadline = later;
            }
        }
    }
}

/// For how long the body of a request was waited for.
#[derive(Clone, Default)]
struct Waited(Arc<Mutex<Time>>);

#[derive(Default)]
struct Time {
    past: Duration,
    /// Set while the body is waited for.
    since: Option<Instant>,
}

impl Waited {
    /// A body that notes when it is waited for; one that is there already needs no notes.
    fn over(&self, body: Body) -> Body {
        if body.is_end_stream() {
            return body;
        }
        let waited = self.clone();
        Body::new(NotedBody { body, waited })
    }

    fn total(&self) -> Duration {
        let time = self.time();
        time.past + time.since.map_or(Duration::ZERO, |since| since.elapsed())
    }

    fn note(&self, is_waiting: bool) {
        let mut time = self.time();
        match time.since {
            None if is_waiting => time.since = Some(Instant::now()),
            Some(since) if !is_waiting => {
                time.past += since.elapsed();
                time.since = None;
            }
            _ => {}
        }
    }

    fn time(&self) -> MutexGuard<'_, Time> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

struct NotedBody {
    body: Body,
    waited: Waited,
}

impl HttpBody for NotedBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let polled = Pin::new(&mut self.body).poll_frame(context);
        self.waited.note(polled.is_pending());
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl Drop for NotedBody {
    fn drop(&mut self) {
        self.waited.note(false);
    }
}

#[cfg(test)]
mod tests {
    use axum::Router;
    use axum::http::StatusCode;
    use axum::middleware::from_fn;
    use axum::routing::put;
    use futures_util::stream;
    use http_body_util::{BodyExt, StreamBody};
    use tokio::time::sleep;
    use tower::ServiceExt;

    use super::*;

    const LIMIT: Duration = Duration::from_secs(30);

    /// The status of a request whose body comes in two parts with a pause of `body` before each, and
    /// whose handler works for `work` after that.
    async fn status(body: Duration, work: Duration) -> StatusCode {
        let frames = stream::unfold(0, move |count| async move {
            sleep(body).await;
            let frame = Frame::data(Bytes::from("part"));
            (count < 2).then_some((Ok::<_, axum::Error>(frame), count + 1))
        });
        let handler = move |body: Body| async move {
            let whole = body.collect().await.unwrap().to_bytes();
            assert_eq!(whole, "partpart");
            sleep(work).await;
        };
        let limited = from_fn(|request, next| run(request, next, LIMIT));
        let router: Router = Router::new().route("/", put(handler)).layer(limited);
        let body = Body::new(StreamBody::new(Box::pin(frames)));
        let request = Request::put("/").body(body).unwrap();
        router.oneshot(request).await.unwrap().status()
    }

    #[tokio::test(start_paused = true)]
    async fn only_our_time_counts() {
        let (none, long) = (Duration::ZERO, LIMIT * 5);
        let just_long_enough = LIMIT - Duration::from_millis(1);
        let too_long = LIMIT + Duration::from_millis(1);
        assert_eq!(status(none, just_long_enough).await, StatusCode::OK);
        assert_eq!(status(long, just_long_enough).await, StatusCode::OK);
        for body in [none, long] {
            let began_at = Instant::now();
            let found = status(body, too_long).await;
            assert_eq!(found, StatusCode::INTERNAL_SERVER_ERROR);
            // Three waits: two parts, and the end.
            assert_eq!(began_at.elapsed().as_secs(), (body * 3 + LIMIT).as_secs());
        }
    }
}
