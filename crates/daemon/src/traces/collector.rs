//! Requests to the collector.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::Full;
use hyper::{Request, Response};
use opentelemetry_http::{HttpClient, HttpError};
use tidegate_http_pool::{Connections, Resend};
use tokio::runtime::Handle;

use super::waiting_spans::REPORT_INTERVAL;
use crate::log_limit::LogLimit;

/// The most bytes of an answer that are read.
const ANSWER_BYTES_MAX: usize = 64 * 1024;

/// Sends requests in the runtime of the process: they are made by a thread that has none.
pub(super) struct CollectorClient {
    connections: Connections,
    runtime: Handle,
    limit: Duration,
    failures: Arc<FailureLog>,
}

impl fmt::Debug for CollectorClient {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("CollectorClient").finish_non_exhaustive()
    }
}

impl CollectorClient {
    /// A client for the server of this URL, whose requests take at most `limit`. It does not connect yet.
    pub(super) fn new(url: &str, runtime: Handle, limit: Duration) -> Result<Self, String> {
        Ok(Self {
            connections: Connections::new(url)?,
            runtime,
            limit,
            failures: Arc::new(FailureLog::new()),
        })
    }
}

impl HttpClient for CollectorClient {
    fn send_bytes<'a, 'b>(
        &'a self,
        request: Request<Bytes>,
    ) -> Pin<Box<dyn Future<Output = Result<Response<Bytes>, HttpError>> + Send + 'b>>
    where
        'a: 'b,
        Self: 'b,
    {
        let (connections, limit) = (self.connections.clone(), self.limit);
        let failures = Arc::clone(&self.failures);
        let sending = self.runtime.spawn(async move {
            let request = request.map(Full::new);
            let exchange = connections.exchange(request, Resend::Allowed, limit, ANSWER_BYTES_MAX);
            let answer = exchange.await;
            match &answer {
                Ok(answer) if answer.status().is_success() => failures.succeeded(),
                Ok(answer) => failures.failed(&format!("status {}", answer.status())),
                Err(error) => failures.failed(&error.to_string()),
            }
            answer
        });
        Box::pin(async { Ok(sending.await??) })
    }
}

/// Logs failures, at most one a minute.
#[derive(Debug)]
struct FailureLog {
    reports: LogLimit,
    /// Whether the last line said that the collector does not answer.
    is_reported: AtomicBool,
}

impl FailureLog {
    const fn new() -> Self {
        Self {
            reports: LogLimit::every(REPORT_INTERVAL),
            is_reported: AtomicBool::new(false),
        }
    }

    fn failed(&self, error: &str) {
        if !self.reports.is_due() {
            return;
        }
        self.is_reported.store(true, Ordering::Relaxed);
        tracing::warn!(
            error,
            "failed to send spans to traces.endpoint; spans are dropped while it does not answer"
        );
    }

    fn succeeded(&self) {
        if self.is_reported.swap(false, Ordering::Relaxed) {
            tracing::info!("the collector at traces.endpoint answers again");
        }
    }
}
