//! The connection pool of every HTTP client of ours.
//!
//! A server may close an idle connection at any time, also while a request for it is in flight. Such a request was not
//! attempted: it is sent once more, over a new connection.

mod connection_use;
mod connections;
mod error;
mod retry_after;

use std::time::{Duration, Instant};

use bytes::Bytes;
use http_body_util::Full;
use hyper::body::{Body, Incoming};
use hyper::header::{CONTENT_LENGTH, HeaderValue};
use hyper::{Method, Request, Response};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::{Connect, capture_connection};
use hyper_util::rt::{TokioExecutor, TokioTimer};
use tokio::time::timeout_at;

use connection_use::{ConnectionUse, RecordingConnector};
pub use connections::Connections;
#[cfg(feature = "tls")]
pub use connections::tls_connector;
pub use error::{ConnectorError, RequestError};
pub use retry_after::retry_after;

/// Shorter than the time after which servers usually close idle connections.
const IDLE_LIMIT: Duration = Duration::from_secs(20);

type PooledClient<C> = Client<RecordingConnector<C>, Full<Bytes>>;

/// Connections that are kept open between requests.
#[derive(Debug, Clone)]
pub struct HttpPool<C> {
    pooled: PooledClient<C>,
    /// Dials for each request.
    unpooled: PooledClient<C>,
}

/// Whether the server may receive a request twice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Resend {
    /// A repetition is harmless, or the request carries an id by which the server drops it.
    Allowed,
    /// Each execution counts.
    Forbidden,
}

impl<C> HttpPool<C>
where
    RecordingConnector<C>: Connect + Clone + Send + Sync + 'static,
{
    /// A pool whose connections this connector makes. It does not connect yet.
    pub fn new(connector: C) -> Self {
        let connector = RecordingConnector(connector);
        let mut builder = Client::builder(TokioExecutor::new());
        builder
            .pool_timer(TokioTimer::new())
            .pool_idle_timeout(IDLE_LIMIT);
        let pooled = builder.build(connector.clone());
        let unpooled = builder.pool_max_idle_per_host(0).build(connector);
        Self { pooled, unpooled }
    }

    /// Sends a request, and returns the head of its answer within the limit of time.
    ///
    /// If a reused connection ends before the first byte of an answer, the request is sent once more over a new
    /// connection.
    ///
    /// # Errors
    /// There is no answer.
    pub async fn request(
        &self,
        mut request: Request<Full<Bytes>>,
        resend: Resend,
        limit: Duration,
    ) -> Result<Response<Incoming>, RequestError> {
        let begun = Instant::now();
        announce_empty_body(&mut request);
        let again = (resend == Resend::Allowed).then(|| request.clone());
        let first = send(&self.pooled, request, begun, limit).await;
        match (first, again) {
            (Err((_, ConnectionEnd::BeforeAnswer)), Some(request)) => {
                let second = send(&self.unpooled, request, begun, limit).await;
                second.map_err(|(error, _)| error)
            }
            (first, _) => first.map_err(|(error, _)| error),
        }
    }
}

/// Where a connection ended.
enum ConnectionEnd {
    /// It was reused, and ended before the first byte of the answer.
    BeforeAnswer,
    Other,
}

async fn send<C>(
    client: &PooledClient<C>,
    mut request: Request<Full<Bytes>>,
    begun: Instant,
    limit: Duration,
) -> Result<Response<Incoming>, (RequestError, ConnectionEnd)>
where
    RecordingConnector<C>: Connect + Clone + Send + Sync + 'static,
{
    let connection = capture_connection(&mut request);
    let deadline = tokio::time::Instant::from_std(begun) + limit;
    let answer = timeout_at(deadline, client.request(request)).await;
    let connected = connection.connection_metadata();
    match answer {
        Ok(Ok(answer)) => Ok(answer),
        Ok(Err(error)) => {
            let connection = connected.as_ref().and_then(ConnectionUse::of);
            let end = match connection {
                Some(connection) if connection.ended_unanswered(begun) => {
                    ConnectionEnd::BeforeAnswer
                }
                _ => ConnectionEnd::Other,
            };
            Err((error.into(), end))
        }
        Err(_) => {
            let error = match connected.is_some() {
                true => RequestError::TimedOut(limit),
                false => RequestError::NotConnected(format!("no connection within {limit:?}")),
            };
            Err((error, ConnectionEnd::Other))
        }
    }
}

/// Sets `Content-Length: 0`, which hyper omits: some servers wait for a body, or answer 411.
fn announce_empty_body(request: &mut Request<Full<Bytes>>) {
    let may_have_body = matches!(
        *request.method(),
        Method::POST | Method::PUT | Method::PATCH
    );
    if may_have_body && request.body().is_end_stream() {
        request
            .headers_mut()
            .insert(CONTENT_LENGTH, HeaderValue::from_static("0"));
    }
}
