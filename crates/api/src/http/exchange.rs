//! Processing of every request on the public ports, before and after its handler.
//!
//! ```text
//!  hyper ─► lend the body ─► front door ─► handler ──────────────────────────────────┐
//!                                                                                    │
//!  hyper ◄── discard the unread rest, in the background ◄─ request id, metrics, log ◄┘
//! ```

use std::pin::Pin;
use std::sync::Arc;
use std::time::Instant;

use axum::body::Body;
use axum::http::{HeaderName, HeaderValue, Method, Request, Response, header};
use hyper::body::Incoming;
use tidegate_daemon::{ByteBudget, Peer, Readiness, logs};

use super::access_log::{AccessLine, ResponseInfo};
use super::body::{self, Lender, UnreadBody};
use super::context::{Port, RequestContext};
use super::metrics::{Endpoint, HttpMetrics};
use super::request::ApiRequest;
use super::unread;

const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// Marks an answer without the header `X-Request-Id`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct WithoutRequestId;

pub(crate) type Answering = Pin<Box<dyn Future<Output = Response<Body>> + Send>>;

/// The state that completing a request needs.
#[derive(Debug)]
pub(crate) struct Exchange {
    /// The metrics of requests.
    pub(crate) metrics: HttpMetrics,
    /// The checks behind `/readyz`, which also know whether the process is stopping.
    pub(crate) readiness: Readiness,
    /// The memory for answers that clients have not read yet (`requests.unread_bytes_max`).
    pub(crate) unread: ByteBudget,
    /// The same for the admin port, so that clients of the other ports do not lock operators out.
    pub(crate) unread_by_operators: ByteBudget,
}

impl Exchange {
    /// The memory for answers to clients of this port that they have not read yet.
    pub(crate) const fn unread_at(&self, port: Port) -> &ByteBudget {
        match port {
            Port::Public => &self.unread,
            Port::Admin => &self.unread_by_operators,
        }
    }
}

/// The 503 of a front door, by the id of the request: the budget has no room for the answer that was made.
pub(crate) type OverBudgetAnswer = fn(ulid::Ulid) -> Response<Body>;

/// A request that a front door has not answered yet. Small, since a long poll keeps it for minutes.
pub(crate) struct UnansweredRequest {
    began_at: Instant,
    method: Method,
    endpoint: Endpoint,
    context: Arc<RequestContext>,
    line: Option<Box<AccessLine>>,
    lender: Lender,
    expects_continue: bool,
}

/// Splits a request of `peer` at `port` into the part that a front door gets, and the part that completes its answer.
pub(crate) fn begin(
    request: Request<Incoming>,
    peer: Peer,
    port: Port,
) -> (ApiRequest, UnansweredRequest) {
    let (head, incoming) = request.into_parts();
    let (body, lender) = body::lend(incoming);
    let unanswered = UnansweredRequest {
        began_at: Instant::now(),
        method: head.method.clone(),
        endpoint: Endpoint::UNMATCHED,
        context: Arc::new(RequestContext::new(port)),
        line: AccessLine::new(&head, peer.address),
        lender,
        expects_continue: head.headers.contains_key(header::EXPECT),
    };
    let api_request = ApiRequest {
        head: Box::new(head),
        body,
        context: Arc::clone(&unanswered.context),
    };
    (api_request, unanswered)
}

impl UnansweredRequest {
    /// Completes the answer of a front door: memory, request id, metrics and access log line.
    ///
    /// The returned future is small: hyper allocates it inline in every connection, busy or idle, and a long poll keeps
    /// it for minutes. The future of the handler is boxed.
    pub(crate) fn answer(
        mut self,
        exchange: Arc<Exchange>,
        endpoint: Endpoint,
        answering: Answering,
        over_budget: OverBudgetAnswer,
    ) -> impl Future<Output = Response<Body>> + Send {
        self.endpoint = endpoint;
        let context = Arc::clone(&self.context);
        let answering = async move {
            let is_read = matches!(self.method, Method::GET | Method::HEAD);
            let budget = exchange.unread_at(self.context.port);
            let counted = unread::counted(answering.await, budget, !is_read);
            let mut response = counted.unwrap_or_else(|_| over_budget(self.context.id));
            if let Some(rest) = self.lender.take_unread() {
                handle_unread_body(rest, self.expects_continue, &mut response);
            }
            if exchange.readiness.is_stopping() {
                // The connection is about to close: the client must not send its next request on it.
                end_connection(&mut response);
            }
            self.finish(&exchange.metrics, &mut response);
            response
        };
        logs::with_context(context, answering)
    }

    /// Counts and logs the request, and adds its id to the answer.
    fn finish(&self, metrics: &HttpMetrics, response: &mut Response<Body>) {
        let mut text = [0; ulid::ULID_LEN];
        let id = &*self.context.id.array_to_str(&mut text);
        if response.extensions().get::<WithoutRequestId>().is_none()
            && let Ok(value) = HeaderValue::from_str(id)
        {
            response.headers_mut().insert(REQUEST_ID, value);
        }
        let took = self.began_at.elapsed();
        let status = response.status();
        metrics.answered(&self.context, self.endpoint, &self.method, status, took);
        if let Some(line) = &self.line {
            line.write(&ResponseInfo {
                pool: self.context.pool.get().map_or("", |pool| &pool.name),
                method: &self.method,
                status,
                took,
                request_id: id,
            });
        }
    }
}

/// Prepares the connection for its next request: the unread rest of a body is discarded in the background. If it is too
/// long, or will not be sent, the connection is closed after the response.
fn handle_unread_body(rest: UnreadBody, expects_continue: bool, response: &mut Response<Body>) {
    // A client that sent `Expect: 100-continue` and did not get 100 does not send its body.
    let coming = !expects_continue || rest.is_started();
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
