//! What happens to every public request before and after its handler.
//!
//! ```text
//!  hyper ─► lend the body ─► screen ─► read off a body that means nothing ─► route ─► handler
//!                                                                                      │
//!  hyper ◄── discard what was not read, in the background ◄─ request id, metrics, log ◄┘
//! ```

use std::future::ready;
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::body::{Body, HttpBody};
use axum::http::request::Parts;
use axum::http::{HeaderName, HeaderValue, Method, Request, Response, header};
use axum::response::IntoResponse;
use hyper::body::Incoming;
use tidegate_service::Peer;
use ulid::Ulid;

use crate::access_log::{AccessLine, Outcome};
use crate::app::App;
use crate::body::{self, LentBody, Rest};
use crate::context::RequestContext;
use crate::lmstfy::error::Refusal;
use crate::lmstfy::query::{Plus, unescape};
use crate::lmstfy::request::Asked;
use crate::lmstfy::routes::{self, Handling, Template};
use crate::lmstfy::unmatched::WithoutRequestId;

const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// Answers one request of `peer`.
///
/// What the future keeps is little: hyper sets the room for it aside in every connection, busy or not,
/// and a long poll keeps it for minutes. What a handler needs is boxed.
pub(crate) fn answer(
    app: &Arc<App>,
    request: Request<Incoming>,
    peer: Peer,
) -> impl Future<Output = Response<Body>> + Send + use<> {
    let expects_continue = request.headers().contains_key(header::EXPECT);
    let (head, incoming) = request.into_parts();
    let mut record = Record::new(&head, &peer);
    let (body, lender) = body::lend(incoming);
    let asked = Asked {
        head: Box::new(head),
        body,
        context: record.context.clone(),
        hang_up: peer.hang_up,
    };
    let handling = handle(app, asked, &mut record);
    let app = Arc::clone(app);
    async move {
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
        response
    }
}

fn handle(app: &Arc<App>, mut asked: Asked, record: &mut Record) -> Handling {
    if let Err(refusal) = screen(&asked.head) {
        return Box::pin(ready(Err(refusal)));
    }
    if asked.head.method == Method::PUT || asked.body.is_end_stream() {
        let (template, handling) = routes::handle(app, asked);
        record.template = template;
        return handling;
    }
    // Bodies mean nothing here, but some clients send them. While one is unread a hang-up during
    // a long poll would go unnoticed.
    let ignored = std::mem::replace(&mut asked.body, LentBody::empty());
    let skipping = app.job_body.clone().skip(ignored);
    let (template, handling) = routes::handle(app, asked);
    record.template = template;
    Box::pin(async move {
        skipping.await?;
        handling.await
    })
}

/// Refuses what a route would take for something else: methods without routes, and paths that are
/// not what they look like once they are decoded.
fn screen(head: &Parts) -> Result<(), Refusal> {
    let path = head.uri.path();
    if path.contains('%') && unescape(path, Plus::IsPlus).is_none() {
        return Err(Refusal::BadPath);
    }
    let method = &head.method;
    let is_known = [Method::GET, Method::PUT, Method::DELETE].contains(method);
    // Elsewhere lmstfy knows no HEAD, and one for a job would take it.
    let is_probe = method == Method::HEAD && routes::is_for_balancers(path);
    if !is_known && !is_probe {
        return Err(Refusal::ApiNotFound);
    }
    // An encoded slash is a slash, so the path has one segment more than a template would see.
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
    template: Template,
    context: RequestContext,
    line: Option<Box<AccessLine>>,
}

impl Record {
    fn new(head: &Parts, peer: &Peer) -> Self {
        Self {
            began_at: Instant::now(),
            method: head.method.clone(),
            template: Template::Unmatched,
            context: RequestContext::default(),
            line: AccessLine::new(head, peer.address),
        }
    }

    fn finish(&self, app: &App, response: &mut Response<Body>) {
        let mut text = [0; ulid::ULID_LEN];
        let id = &*Ulid::generate().array_to_str(&mut text);
        if response.extensions().get::<WithoutRequestId>().is_none()
            && let Ok(value) = HeaderValue::from_str(id)
        {
            response.headers_mut().insert(REQUEST_ID, value);
        }
        let took = self.began_at.elapsed();
        self.count(app, response, took);
        if let Some(line) = &self.line {
            line.write(&Outcome {
                pool: self.context.pool().map_or("", |pool| &pool.name),
                method: &self.method,
                status: response.status(),
                took,
                request_id: id,
            });
        }
    }

    fn count(&self, app: &App, response: &Response<Body>, took: Duration) {
        let (template, method, status) = (self.template, &self.method, response.status());
        match self.context.pool() {
            Some(pool) => pool
                .figures
                .requests(self.context.namespace())
                .answered(template, method, status, took),
            None => app.nowhere.answered(template, method, status, took),
        }
    }
}
