//! What happens to every public request before and after its handler.
//!
//! ```text
//!  hyper ─► lend the body ─► screen ─► read off a body that means nothing ─► router ─► handler
//!                                                                                       │
//!  hyper ◄── discard what was not read, in the background ◄── request id, metrics, log ◄┘
//! ```

use std::convert::Infallible;
use std::future::ready;
use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::Router;
use axum::body::{Body, HttpBody};
use axum::http::{HeaderName, HeaderValue, Method, Request, Response, header};
use axum::response::IntoResponse;
use futures_util::TryFutureExt;
use hyper::body::Incoming;
use tower::Service;
use ulid::Ulid;

use crate::access_log::{AccessLine, Outcome};
use crate::app::App;
use crate::body::{self, Rest};
use crate::context::RequestContext;
use crate::lmstfy::error::Refusal;
use crate::lmstfy::query::{Plus, unescape};
use crate::lmstfy::routes::{self, Matched};
use crate::lmstfy::unmatched::WithoutRequestId;

const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

type Answering = Pin<Box<dyn Future<Output = Result<Response<Body>, Infallible>> + Send>>;
type Handling = Pin<Box<dyn Future<Output = Result<Response<Body>, Refusal>> + Send>>;

/// The public side of the daemon.
#[derive(Debug, Clone)]
pub(crate) struct Front {
    app: Arc<App>,
    router: Router,
}

impl Front {
    pub(crate) fn new(app: Arc<App>) -> Self {
        let router = routes::router(Arc::clone(&app));
        Self { app, router }
    }

    /// Answers one request.
    ///
    /// The future is boxed, and what it keeps is little: hyper sets the room for it aside in every
    /// connection, busy or not, and a long poll keeps it for minutes.
    pub(crate) fn answer(&self, mut request: Request<Incoming>) -> Answering {
        let record = Record::new(&mut request);
        let app = Arc::clone(&self.app);
        let expects_continue = request.headers().contains_key(header::EXPECT);
        let (parts, incoming) = request.into_parts();
        let (body, lender) = body::lend(incoming);
        let handling = self.handle(Request::from_parts(parts, body));
        Box::pin(async move {
            let mut response = match handling.await {
                Ok(response) => response,
                Err(refusal) => refusal.into_response(),
            };
            if let Some(rest) = lender.take_back() {
                see_to_the_rest(rest, expects_continue, &mut response);
            }
            if app.readiness.is_stopping() {
                // The client must not send its next request to a connection that nobody will read.
                end_connection(&mut response);
            }
            record.finish(&app, &mut response);
            Ok(response)
        })
    }

    fn handle(&self, mut request: Request<Body>) -> Handling {
        if let Err(refusal) = screen(&request) {
            return Box::pin(ready(Err(refusal)));
        }
        let mut router = self.router.clone();
        if request.method() == Method::PUT || request.body().is_end_stream() {
            return Box::pin(router.call(request).map_err(|never| match never {}));
        }
        // Bodies mean nothing here, but some clients send them. While one is unread a hang-up during
        // a long poll would go unnoticed.
        let ignored = std::mem::replace(request.body_mut(), Body::empty());
        let skipping = self.app.job_body.skip(ignored);
        Box::pin(async move {
            skipping.await?;
            router.call(request).map_err(|never| match never {}).await
        })
    }
}

/// Refuses what the router would take for something else: methods without routes, and paths that are
/// not what they look like once they are decoded.
fn screen(request: &Request<Body>) -> Result<(), Refusal> {
    let path = request.uri().path();
    if path.contains('%') && unescape(path, Plus::IsPlus).is_none() {
        return Err(Refusal::BadPath);
    }
    let method = request.method();
    if method != Method::GET && method != Method::PUT && method != Method::DELETE {
        return Err(Refusal::ApiNotFound);
    }
    // An encoded slash is a slash, so the path has one segment more than the router would see.
    if path.contains("%2F") || path.contains("%2f") {
        return Err(Refusal::ApiNotFound);
    }
    Ok(())
}

/// Gets a connection ready for its next request behind the answer, or has it closed.
fn see_to_the_rest(rest: Rest, expects_continue: bool, response: &mut Response<Body>) {
    // A client that asks first, and was not told to go on, does not send its body any more.
    let coming = !expects_continue || rest.is_begun();
    if !coming || !rest.is_discardable() {
        end_connection(response);
    }
    if coming {
        tokio::spawn(rest.discard());
    }
}

fn end_connection(response: &mut Response<Body>) {
    let close = HeaderValue::from_static("close");
    response.headers_mut().insert(header::CONNECTION, close);
}

/// What is remembered of a request for its metrics and its line in the log. Kept small, since it stays
/// for the length of a long poll.
struct Record {
    began_at: Instant,
    method: Method,
    context: RequestContext,
    line: Option<Box<AccessLine>>,
}

impl Record {
    fn new<B>(request: &mut Request<B>) -> Self {
        let context = RequestContext::default();
        request.extensions_mut().insert(context.clone());
        Self {
            began_at: Instant::now(),
            method: request.method().clone(),
            context,
            line: AccessLine::new(request),
        }
    }

    fn finish(&self, app: &App, response: &mut Response<Body>) {
        let id = Ulid::generate().to_string();
        if response.extensions().get::<WithoutRequestId>().is_none()
            && let Ok(value) = HeaderValue::from_str(&id)
        {
            response.headers_mut().insert(REQUEST_ID, value);
        }
        // The wire answers 404 where axum would answer 405, which is what this header goes with.
        response.headers_mut().remove(header::ALLOW);
        let took = self.began_at.elapsed();
        self.count(app, response, took);
        if let Some(line) = &self.line {
            line.write(&Outcome {
                pool: self.context.pool().map_or("", |pool| &pool.name),
                method: &self.method,
                status: response.status(),
                took,
                request_id: &id,
            });
        }
    }

    fn count(&self, app: &App, response: &Response<Body>, took: Duration) {
        let matched = response.extensions().get::<Matched>();
        let template = matched.map_or("", |matched| matched.0);
        let (method, status) = (&self.method, response.status());
        match self.context.pool() {
            Some(pool) => pool
                .figures
                .requests(self.context.namespace())
                .answered(template, method, status, took),
            None => app.nowhere.answered(template, method, status, took),
        }
    }
}
