//! The server of lmstfy from which queues drain into this one (`drained_server.url`). Clients go on to delete its jobs
//! by their old ids, here: such a request is sent on.

use std::fmt;
use std::time::Duration;

use axum::http::request::Parts;
use axum::http::{HeaderName, HeaderValue, Method, Request, StatusCode, Uri, header};
use bytes::Bytes;
use http_body_util::Full;
use tidegate_daemon::{Connections, LogLimit, Resend};

/// The header with the token of a request.
pub(crate) const TOKEN: HeaderName = HeaderName::from_static("x-token");

/// Shorter than the time limit of a request.
const TIME_LIMIT: Duration = Duration::from_secs(5);
/// The most bytes of an answer that are read. A success has none.
const ANSWER_BYTES_MAX: usize = 64 * 1024;
const LOG_INTERVAL: Duration = Duration::from_secs(60);

/// Marks a request that was sent on. Two servers that drain into each other would send it on for ever.
const SENT_ON: HeaderName = HeaderName::from_static("tidegate-sent-on");

/// The other server.
pub(crate) struct DrainedServer {
    connections: Connections,
    url: Uri,
    warnings: LogLimit,
}

impl fmt::Debug for DrainedServer {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("DrainedServer").finish_non_exhaustive()
    }
}

impl DrainedServer {
    /// The server at this URL, which the check of the settings has read.
    ///
    /// # Errors
    /// The certificate authorities of the system cannot be read.
    pub(crate) fn new(url: Uri) -> Result<Self, String> {
        Ok(Self {
            connections: Connections::new(&url.to_string())?,
            url,
            warnings: LogLimit::every(LOG_INTERVAL),
        })
    }

    /// Deletes the job in the path of a request there, with the token of the request. Returns whether this client has
    /// no such job there any more: also after a rejection, but not if the server gave no answer, or a failure.
    pub(crate) async fn delete(&self, head: &Parts) -> bool {
        if head.headers.contains_key(SENT_ON) {
            return true;
        }
        let answered = self.send(head).await;
        let problem = match &answered {
            Ok(status) if status.is_success() => return true,
            Ok(status) => format!("status {status}"),
            Err(error) => error.clone(),
        };
        if self.warnings.is_due() {
            tracing::warn!(
                problem,
                "failed to delete a job at drained_server.url; remove this setting once that server is empty"
            );
        }
        answered.is_ok_and(is_rejection)
    }

    async fn send(&self, head: &Parts) -> Result<StatusCode, String> {
        let path = head.uri.path_and_query();
        let base = self.url.to_string();
        let uri = format!(
            "{}{}",
            base.trim_end_matches('/'),
            path.map_or("", |it| it.as_str())
        );
        let mut request = Request::new(Full::<Bytes>::default());
        *request.method_mut() = Method::DELETE;
        *request.uri_mut() = uri
            .parse()
            .map_err(|_| "the path is not valid".to_owned())?;
        let headers = request.headers_mut();
        headers.insert(SENT_ON, HeaderValue::from_static("1"));
        if let Some(token) = head.headers.get(TOKEN) {
            headers.insert(TOKEN, token.clone());
        }
        headers.insert(header::CONTENT_LENGTH, HeaderValue::from_static("0"));
        let exchange =
            self.connections
                .exchange(request, Resend::Allowed, TIME_LIMIT, ANSWER_BYTES_MAX);
        let answer = exchange.await.map_err(|error| error.to_string())?;
        Ok(answer.status())
    }
}

/// Whether a repetition would be rejected as well.
fn is_rejection(status: StatusCode) -> bool {
    let may_pass = [StatusCode::TOO_MANY_REQUESTS, StatusCode::REQUEST_TIMEOUT];
    status.is_client_error() && !may_pass.contains(&status)
}
